//! Traces: source, destination, length and time of each packet, as text.
//!
//! ```text
//! # 64 hosts, one afternoon
//! group,east,h001 h002 h017
//! time_ns,source,destination,bytes,sl
//! 0,h000,h003,288,0
//! 12.5,h003,h000,32,1
//! 40,h000,east,1056,0
//! ```
//!
//! Lines are comma-separated, as the crate `csv` reads them: a name with a comma in it stands in
//! double quotes. Empty lines and those that begin with `#` are skipped, as is the line with the
//! names of the columns. A line that begins with `group` names a multicast group and
//! its members, and must come before the first packet to it. All others are packets, in any order
//! of time; those of one host and moment are sent in the order of lines. Packets of one source,
//! destination and service level are a flow.

use std::collections::BTreeMap;
use std::sync::Arc;

use csv::{ReaderBuilder, StringRecord, Trim};
use sim::{
    AddressVector, Destination, Group, PACKET_BYTES_MAX, PACKET_BYTES_MIN, SendRequest,
    TrafficSource, Until, Workload, index, number,
};
use thiserror::Error;
use topologies::Graph;
use wire::Sl;
use wire::convert::{u64_of, usize_of};

/// The names of the columns.
const COLUMNS: [&str; 5] = ["time_ns", "source", "destination", "bytes", "sl"];
/// The longest time, in nanoseconds: a day.
const TIME_NS_MAX: u64 = 86_400_000_000_000;

/// Where a trace makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct TraceError {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong, and what is allowed.
    pub what: String,
}

/// What a flow of a trace is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFlow {
    /// The number of the sending host.
    pub source: u32,
    /// The destination.
    pub to: Destination,
    /// On which service level.
    pub sl: Sl,
}

/// A trace of packets on a fabric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// By host, in the order of time: its packets.
    pub hosts: Vec<Vec<SendRequest>>,
    /// Groups, by number.
    pub groups: Vec<Group>,
    /// By number: names of groups.
    pub group_names: Vec<String>,
    /// Flows, in the order in which they first occur.
    pub flows: Vec<TraceFlow>,
}

/// A trace while it is read.
struct Reader<'g> {
    hosts: BTreeMap<&'g str, u32>,
    groups: BTreeMap<String, u32>,
    flows: BTreeMap<(u32, bool, u32, Sl), u32>,
    trace: Trace,
}

impl Trace {
    /// Reads a trace of hosts of `graph`.
    ///
    /// # Errors
    /// [`TraceError`]: the first line that makes no sense.
    pub fn parse(text: &str, graph: &Graph) -> Result<Self, TraceError> {
        let names = graph.hosts().map(|host| graph.node(host).name.as_str());
        let mut reader = Reader {
            hosts: names.zip(0..).collect(),
            groups: BTreeMap::new(),
            flows: BTreeMap::new(),
            trace: Self {
                hosts: vec![Vec::new(); graph.hosts().count()],
                ..Self::default()
            },
        };
        let mut records = ReaderBuilder::new()
            .has_headers(false)
            .comment(Some(b'#'))
            .flexible(true)
            .trim(Trim::All)
            .from_reader(text.as_bytes());
        let mut record = StringRecord::new();
        loop {
            let at = |line, what| TraceError { line, what };
            let read = records.read_record(&mut record);
            let line = line_of(&record, text);
            if !read.map_err(|error| at(line, error.to_string()))? {
                break;
            }
            let fields: Vec<&str> = record.iter().collect();
            if fields == [""] || fields[0].starts_with('#') || fields == COLUMNS {
                continue;
            }
            reader.line(&fields).map_err(|what| at(line, what))?;
        }
        for requests in &mut reader.trace.hosts {
            requests.sort_by_key(|request| request.at_ps);
        }
        Ok(reader.trace)
    }

    /// The workload that repeats the trace; every flow of it is counted for itself.
    #[must_use]
    pub fn workload(&self, until: Until) -> Workload {
        let mut workload = Workload::empty(self.hosts.len(), self.flows.len(), until);
        for (sources, requests) in workload.hosts.iter_mut().zip(&self.hosts) {
            if !requests.is_empty() {
                sources.push(TrafficSource::Packets(Arc::from(requests.as_slice())));
            }
        }
        workload.groups.clone_from(&self.groups);
        workload
    }

    /// The same with the service levels of the routing engine in place of the trace's.
    #[must_use]
    pub fn workload_by_engine(&self, until: Until) -> Workload {
        let mut workload = self.workload(until);
        for source in workload.hosts.iter_mut().flatten() {
            if let TrafficSource::Packets(requests) = source {
                let mut by_engine = requests.to_vec();
                for request in &mut by_engine {
                    request.address.sl = None;
                }
                *requests = Arc::from(by_engine);
            }
        }
        workload
    }

    /// The names of a flow: source and destination. `None` if there is no such flow.
    #[must_use]
    pub fn names(&self, graph: &Graph, flow: u32) -> Option<(String, String)> {
        let host = |number: u32| {
            let mut hosts = graph.hosts().skip(index(number));
            hosts.next().map(|host| graph.node(host).name.clone())
        };
        let flow = self.flows.get(index(flow))?;
        let to = match flow.to {
            Destination::Host(to) => host(to)?,
            Destination::Group(group) | Destination::Each(group) => {
                self.group_names.get(index(group))?.clone()
            }
        };
        Some((host(flow.source)?, to))
    }
}

impl Reader<'_> {
    fn line(&mut self, fields: &[&str]) -> Result<(), String> {
        match *fields {
            ["group", name, members] => self.group(name, members),
            [time, source, destination, bytes, sl] => {
                let source = self.host(source)?;
                let to = self.destination(destination)?;
                if to == Destination::Host(source) {
                    return Err(format!("{destination:?} sends to itself"));
                }
                let sl = level(sl)?;
                let request = SendRequest {
                    at_ps: picoseconds(time)?,
                    address: AddressVector {
                        to,
                        dlid: None,
                        sl: Some(sl),
                        flow: self.flow(source, to, sl),
                    },
                    bytes: length(bytes)?,
                };
                if let Some(requests) = self.trace.hosts.get_mut(index(source)) {
                    requests.push(request);
                }
                Ok(())
            }
            _ => Err(format!(
                "{} fields: \"{}\", or \"group,NAME,HOST HOST ...\"",
                fields.len(),
                COLUMNS.join(",")
            )),
        }
    }

    fn group(&mut self, name: &str, members: &str) -> Result<(), String> {
        if name.is_empty() || self.hosts.contains_key(name) {
            return Err(format!("a group named {name:?}: a name that no host has"));
        }
        let group = number(self.trace.groups.len());
        if self.groups.insert(name.to_owned(), group).is_some() {
            return Err(format!("group {name:?} is there already"));
        }
        let mut hosts: Vec<u32> = Vec::new();
        for member in members.split_whitespace() {
            let host = self.host(member)?;
            if hosts.contains(&host) {
                return Err(format!("{member:?} is twice in group {name:?}"));
            }
            hosts.push(host);
        }
        self.trace.groups.push(Group { members: hosts });
        self.trace.group_names.push(name.to_owned());
        Ok(())
    }

    fn host(&self, name: &str) -> Result<u32, String> {
        let host = self.hosts.get(name).copied();
        host.ok_or_else(|| format!("there is no host {name:?}"))
    }

    fn destination(&self, name: &str) -> Result<Destination, String> {
        if let Some(&group) = self.groups.get(name) {
            return Ok(Destination::Group(group));
        }
        let host = self.hosts.get(name).copied().map(Destination::Host);
        host.ok_or_else(|| format!("there is neither a host nor, so far, a group {name:?}"))
    }

    fn flow(&mut self, source: u32, to: Destination, sl: Sl) -> u32 {
        let (is_group, place) = match to {
            Destination::Host(host) => (false, host),
            Destination::Group(group) | Destination::Each(group) => (true, group),
        };
        let flows = &mut self.trace.flows;
        let key = (source, is_group, place, sl);
        *self.flows.entry(key).or_insert_with(|| {
            flows.push(TraceFlow { source, to, sl });
            number(flows.len() - 1)
        })
    }
}

/// The line on which a record begins. The reader's own count is that of the end of the record
/// before, in front of the empty lines and comments that it has skipped.
fn line_of(record: &StringRecord, text: &str) -> u64 {
    let Some(position) = record.position() else {
        return 1;
    };
    let rest = text.get(usize_of(position.byte())..).unwrap_or_default();
    let is_skipped = |line: &&str| line.is_empty() || line.starts_with('#');
    position.line() + u64_of(rest.lines().take_while(is_skipped).count())
}

/// Nanoseconds with up to three decimals, in picoseconds.
fn picoseconds(text: &str) -> Result<u64, String> {
    let refuse =
        || format!("time {text:?}: nanoseconds, 0 to {TIME_NS_MAX}, with up to three decimals");
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 3 {
        return Err(refuse());
    }
    let whole: u64 = whole.parse().map_err(|_| refuse())?;
    let unit = [1000, 100, 10, 1][part.len()];
    let part = unit * part.parse::<u64>().map_err(|_| refuse())?;
    if whole > TIME_NS_MAX {
        return Err(refuse());
    }
    Ok(whole * 1000 + part)
}

fn length(text: &str) -> Result<u32, String> {
    let allowed = u32::from(PACKET_BYTES_MIN)..=u32::from(PACKET_BYTES_MAX);
    let bytes: Option<u32> = text.parse().ok();
    bytes
        .filter(|bytes| allowed.contains(bytes) && bytes.is_multiple_of(4))
        .ok_or_else(|| {
            format!("{text:?} bytes: {PACKET_BYTES_MIN} to {PACKET_BYTES_MAX}, in words of 4")
        })
}

fn level(text: &str) -> Result<Sl, String> {
    let level: Option<u8> = text.parse().ok();
    let level = level.and_then(|level| Sl::new(level).ok());
    level.ok_or_else(|| format!("service level {text:?}: 0 to 15"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{FaultPlan, Model, RoutedFabric};

    fn star() -> Graph {
        topologies::parse("star-4").unwrap().graph
    }

    /// The names of the four hosts.
    fn named(text: &str) -> String {
        let graph = star();
        let hosts: Vec<String> = graph.hosts().map(|h| graph.node(h).name.clone()).collect();
        let mut text = text.to_owned();
        for (letter, name) in ["A", "B", "C", "D"].into_iter().zip(hosts) {
            text = text.replace(letter, &name);
        }
        text
    }

    fn refused(text: &str) -> String {
        let error = Trace::parse(&named(text), &star()).unwrap_err();
        error.to_string()
    }

    #[test]
    fn a_trace_is_read_and_run() {
        let graph = star();
        let text = named(
            "# a comment\n\ngroup,some,A B D\ntime_ns,source,destination,bytes,sl\n\
             2000.5,A,B,64,0\n0,A,B,32,0\n10,C,some,36,1\n10,A,some,32,0\n",
        );
        let trace = Trace::parse(&text, &graph).unwrap();
        let times: Vec<u64> = trace.hosts[0].iter().map(|request| request.at_ps).collect();
        assert_eq!(times, [0, 10_000, 2_000_500]);
        assert_eq!(trace.flows.len(), 3);
        assert_eq!(trace.names(&graph, 1).unwrap().1, "some");
        let prepared = RoutedFabric::new(&graph, routing::RoutingEngine::Minhop).unwrap();
        let model = Model {
            packet_bytes: 256,
            ..Model::mlid04(2)
        };
        let workload = trace.workload(Until::Delivered(1_000_000));
        let record = prepared
            .run_workload(&model, &workload, &FaultPlan::default())
            .unwrap();
        let delivered: Vec<u64> = record.flows.iter().map(|flow| flow.delivered).collect();
        assert_eq!(delivered, [2, 3, 2]);
        assert_eq!(record.flows[0].bytes, 96);
        assert_eq!(record.violations, []);
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        let one = |line: &str| refused(&format!("\n{line}"));
        assert!(one("0,A,X,32,0").starts_with("line 2: there is neither a host"));
        assert!(one("0,X,A,32,0").contains("there is no host \"X\""));
        assert!(one("0,A,A,32,0").contains("to itself"));
        assert!(one("0,A,B,33,0").contains("32 to 4128"));
        assert!(one("0,A,B,4132,0").contains("in words of 4"));
        assert!(one("0,A,B,32,16").contains("0 to 15"));
        assert!(one("-1,A,B,32,0").contains("with up to three decimals"));
        assert!(one("1.0005,A,B,32,0").contains("with up to three decimals"));
        assert!(one("99999999999999999999,A,B,32,0").contains("nanoseconds"));
        assert!(one("0,A,B,32").contains("4 fields"));
        assert!(one("group,A,B").contains("a name that no host has"));
        assert!(one("group,x,B B").contains("twice"));
        assert!(refused("group,x,B\ngroup,x,B").starts_with("line 2: group \"x\""));
    }

    #[test]
    fn lines_are_counted_over_comments_empty_lines_and_either_line_end() {
        let text = "# x,\"\n\n  \n0,A,B,32,0\n\n\n # y\n0,A,X,32,0\n";
        assert!(refused(text).starts_with("line 8: "), "{}", refused(text));
        let text = text.replace('\n', "\r\n");
        assert!(refused(&text).starts_with("line 8: "), "{}", refused(&text));
    }

    #[test]
    fn a_name_with_a_comma_stands_in_quotes() {
        let graph = star();
        let trace = Trace::parse(&named("group,\"a, b\",B C\n0,A,\"a, b\",32,0"), &graph);
        assert_eq!(trace.unwrap().group_names, ["a, b"]);
    }
}
