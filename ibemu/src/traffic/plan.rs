//! What `ibemu traffic` is to send: a pattern, or a file of several.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::mem;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use hostd::control::{FLOWS_MAX, GROUP_PACKET_BYTES_MIN, PACKET_BYTES_MIN, WINDOW_MAX};
use serde::Deserialize;
use thiserror::Error;
use topologies::matches;
use wire::convert::{saturate, u64_of};
use wire::{Gid, Sl};

use super::collective::Collective;
use super::collective_report::CollectiveRun;
use super::constant::{self, ConstantClass, ConstantRun};
use super::error_text::error_text;
use super::flows::{DURATION_MS, FlowSpec, Share, seed_of};
use super::{Pattern, PatternError};
use crate::quantity::{self, BadQuantity, Rate};
use crate::verify::Pair;

/// The longest file, bytes.
const FILE_MAX: u64 = 1 << 20;
/// The most groups of a file: numbers of flows have as many bits for them.
pub(super) const GROUPS_MAX: usize = 256;
/// The longest packet: the largest MTU and headers, bytes.
const PACKET_BYTES_MAX: u16 = 4222;
/// Packet length where none is given, bytes.
const SIZE: u16 = 290;
/// The longest time, seconds: what 31 bits of milliseconds hold.
const SECONDS_MAX: f64 = 2_000_000.0;
/// Which of a destination's LIDs is the last that an LMC of 7 gives.
const DLID_OFFSET_MAX: u16 = 127;

/// What is to be sent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrafficPlan {
    /// Seed of all that is drawn.
    #[serde(default = "default_seed")]
    pub(crate) seed: u64,
    /// For how long flows send before they are measured, seconds.
    #[serde(default)]
    pub(crate) warmup: f64,
    /// Groups of flows.
    pub(crate) flows: Vec<GroupPlan>,
    /// By what rates of connections, which are those of links at full speed, are divided.
    #[serde(skip, default = "full_speed")]
    pub(crate) time_scale: f64,
}

fn full_speed() -> f64 {
    1.0
}

fn default_seed() -> u64 {
    1
}

/// Flows of one kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupPlan {
    /// What the report calls it [default: the pattern].
    pub(crate) name: Option<String>,
    /// Who sends to whom among `hosts`, or what they do together; without it each of `from` sends to each of `to`.
    pub(crate) pattern: Option<What>,
    /// What a collective operation is of: bytes of each rank.
    pub(crate) bytes: Option<ByteText>,
    /// How often a collective operation is done [default: 1].
    pub(crate) iterations: Option<u32>,
    /// For flows of constant bit rate: the class of their connections. `rate` is then that of each flow, on a link at full
    /// speed.
    pub(crate) class: Option<ConstantClass>,
    /// By when their packets are due, in inter-arrival times [default: 1].
    pub(crate) deadline: Option<f64>,
    /// The hosts that take part, by names with `*` and `?` [default: all].
    #[serde(default)]
    pub(crate) hosts: Vec<String>,
    /// The hosts that send, where there is no pattern.
    #[serde(default)]
    pub(crate) from: Vec<String>,
    /// The hosts that receive, where there is no pattern.
    #[serde(default)]
    pub(crate) to: Vec<String>,
    /// The hosts of `multicast` that send [default: all that take part].
    #[serde(default)]
    pub(crate) senders: Vec<String>,
    /// The one host of `centric-PERCENT` [default: the first of the group].
    pub(crate) target: Option<String>,
    /// Packet length from LRH to VCRC, bytes [default: 290].
    pub(crate) size: Option<u16>,
    /// Offered load of each host, bits a second [default: as much as the window allows].
    pub(crate) rate: Option<RateText>,
    /// Packets of a flow in flight at most [default: 256 shared by the flows of a host; 0, no limit, with a
    /// rate].
    pub(crate) window: Option<u32>,
    /// Packets a flow.
    pub(crate) count: Option<u64>,
    /// How long to send [default: 5].
    pub(crate) seconds: Option<f64>,
    /// When to begin, from the start of the measured time, seconds.
    #[serde(default)]
    pub(crate) start: f64,
    /// Service level [default: the path record's].
    pub(crate) sl: Option<u8>,
    /// Which of the destination's LIDs [default: the path record's].
    pub(crate) dlid_offset: Option<u16>,
}

/// What the hosts of a group do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum What {
    /// Flows by a pattern.
    Pattern(Pattern),
    /// A collective operation.
    Collective(Collective),
}

impl FromStr for What {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        match text.parse() {
            Ok(collective) => Ok(Self::Collective(collective)),
            Err(()) => text.parse().map(Self::Pattern),
        }
    }
}

impl TryFrom<String> for What {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(pattern) => pattern.fmt(f),
            Self::Collective(collective) => collective.fmt(f),
        }
    }
}

/// Bytes, as a number or with k, M or G behind it, for powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RateValue")]
pub(crate) struct ByteText(pub(crate) u64);

impl TryFrom<RateValue> for ByteText {
    type Error = BadQuantity;

    fn try_from(value: RateValue) -> Result<Self, BadQuantity> {
        quantity::bytes(&value.text()).map(Self)
    }
}

/// Bits a second, as a number or with k, M or G behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RateValue")]
pub(crate) struct RateText(pub(crate) u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum RateValue {
    Bits(u64),
    Text(String),
}

impl RateValue {
    fn text(self) -> String {
        match self {
            Self::Bits(bits) => bits.to_string(),
            Self::Text(text) => text.chars().take(40).collect(),
        }
    }
}

impl TryFrom<RateValue> for RateText {
    type Error = BadQuantity;

    fn try_from(value: RateValue) -> Result<Self, BadQuantity> {
        value.text().parse::<Rate>().map(|rate| Self(rate.0))
    }
}

/// A plan that cannot be run.
#[derive(Debug, Error)]
pub(crate) enum PlanError {
    /// Not read.
    #[error("{}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not TOML, or not a plan.
    #[error("{}: {error}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and what.
        error: String,
    },
    /// A value out of its range.
    #[error("{group}: {what}")]
    Value {
        /// Which group of flows.
        group: String,
        /// What is wrong, and what is allowed.
        what: String,
    },
    /// No flows.
    #[error("a plan needs 1 to {GROUPS_MAX} [[flows]], and has {0}")]
    Groups(usize),
    /// The time before anything is measured.
    #[error("warmup {0}: 0 to {SECONDS_MAX} seconds")]
    Warmup(f64),
    /// More than a host holds.
    #[error(
        "{host} would have {flows} flows, and a host holds {FLOWS_MAX} each way: leave out hosts (hosts = [\"GLOB\"]), \
         or the warm-up, which doubles them"
    )]
    TooManyFlows {
        /// The host.
        host: String,
        /// Its flows.
        flows: usize,
    },
    /// Nothing at all.
    #[error("no host sends to another")]
    Nothing,
}

/// A plan on the hosts that there are.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// Names of the groups.
    pub(crate) groups: Vec<String>,
    /// All flows.
    pub(crate) flows: Vec<FlowSpec>,
    /// The collective operations.
    pub(crate) collectives: Vec<CollectiveRun>,
    /// The groups of constant bit rate.
    pub(crate) constants: Vec<ConstantRun>,
}

impl TrafficPlan {
    /// The plan in a file.
    ///
    /// # Errors
    /// [`PlanError`]: it cannot be read, or line and column of what is wrong.
    pub(crate) fn read(path: &Path) -> Result<Self, PlanError> {
        let unreadable = |source| PlanError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut text = String::new();
        let length = file.take(FILE_MAX + 1).read_to_string(&mut text);
        if u64_of(length.map_err(unreadable)?) > FILE_MAX {
            let long = io::Error::other(format!("a plan has at most {FILE_MAX} bytes"));
            return Err(unreadable(long));
        }
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, PlanError> {
        toml::from_str(text).map_err(|error| PlanError::Syntax {
            path: path.to_owned(),
            error: error_text(text, &error),
        })
    }

    /// The flows among hosts of these names.
    ///
    /// # Errors
    /// [`PlanError`]: which group is wrong, and why.
    pub(crate) fn resolve(&self, hosts: &[&str]) -> Result<Resolved, PlanError> {
        if self.flows.is_empty() || self.flows.len() > GROUPS_MAX {
            return Err(PlanError::Groups(self.flows.len()));
        }
        if !(0.0..=SECONDS_MAX).contains(&self.warmup) {
            return Err(PlanError::Warmup(self.warmup));
        }
        let warmup_ms = milliseconds(self.warmup);
        let mut flows = Vec::new();
        let mut groups = Vec::new();
        let mut collectives = Vec::new();
        let mut constants = Vec::new();
        for (group, number) in self.flows.iter().zip(0..) {
            let name = group.name(number);
            let wrong = |what| PlanError::Value {
                group: name.clone(),
                what,
            };
            if let Some(What::Collective(collective)) = group.pattern {
                let mut run = CollectiveRun::new(collective, group, hosts, number);
                let run = run.as_mut().map_err(|what| wrong(mem::take(what)))?;
                let from = flows.len();
                flows.extend(
                    run.flows(group, self.seed, from, warmup_ms)
                        .map_err(wrong)?,
                );
                collectives.push(run.clone());
                groups.push(name);
                continue;
            }
            let measured = group.flows(hosts, number, self.seed, self.time_scale);
            let measured = measured.map_err(wrong)?;
            if let (Some(class), Some(flow)) = (group.class, measured.first()) {
                let deadline = group.deadline.unwrap_or(constant::DEADLINE);
                constants.push(ConstantRun::new(class, deadline, flow));
            }
            groups.push(name);
            for flow in measured {
                if warmup_ms > 0 && flow.start_ms == 0 {
                    flows.push(FlowSpec {
                        count: 0,
                        duration_ms: warmup_ms,
                        is_warm_up: true,
                        ..flow.clone()
                    });
                }
                flows.push(FlowSpec {
                    start_ms: flow.start_ms.saturating_add(warmup_ms),
                    ..flow
                });
            }
        }
        check_room(hosts, &flows)?;
        Ok(Resolved {
            groups,
            flows,
            collectives,
            constants,
        })
    }
}

/// That every host holds its flows, and that there are any.
fn check_room(hosts: &[&str], flows: &[FlowSpec]) -> Result<(), PlanError> {
    if flows.is_empty() {
        return Err(PlanError::Nothing);
    }
    let mut of_host: BTreeMap<usize, usize> = BTreeMap::new();
    let mut to_host: BTreeMap<usize, usize> = BTreeMap::new();
    for flow in flows {
        *of_host.entry(flow.pair.0).or_default() += 1;
        *to_host.entry(flow.pair.1).or_default() += 1;
    }
    match of_host
        .into_iter()
        .chain(to_host)
        .find(|&(_, flows)| flows > FLOWS_MAX)
    {
        None => Ok(()),
        Some((host, flows)) => Err(PlanError::TooManyFlows {
            host: hosts[host].to_owned(),
            flows,
        }),
    }
}

/// Whole milliseconds of a time that is not negative.
pub(crate) fn milliseconds(seconds: f64) -> u32 {
    saturate::<u32>(Duration::from_secs_f64(seconds).as_millis())
}

impl GroupPlan {
    fn name(&self, number: u32) -> String {
        let name = self.name.clone();
        name.or_else(|| self.pattern.map(|pattern| pattern.to_string()))
            .unwrap_or_else(|| format!("flows {}", number + 1))
    }

    /// Its flows, in ascending order of source and destination.
    fn flows(
        &self,
        hosts: &[&str],
        group: u32,
        seed: u64,
        time_scale: f64,
    ) -> Result<Vec<FlowSpec>, String> {
        self.check()?;
        let sl = self.sl.map(Sl::new).transpose();
        let sl = sl.map_err(|error| error.to_string())?;
        let connection = match (self.class, self.rate) {
            (None, _) => None,
            (Some(_), None) => return Err("class needs a rate: that of each flow".to_owned()),
            (Some(class), Some(RateText(rate))) => {
                Some((class.sl(rate), quantity::scaled_down(rate, time_scale)))
            }
        };
        let sl = sl.or(connection.map(|(sl, _)| sl));
        let pairs = self.pairs(hosts, seed)?;
        let flow = |(pair, share): (Pair, Share)| {
            let shared = self.rate.map_or(0, |RateText(rate)| share.rate(rate));
            let rate = connection.map_or(shared, |(_, rate)| rate);
            let mgid = self.is_multicast().then(|| mgid_of(group));
            FlowSpec {
                pair,
                group,
                mgid,
                size: self.size.unwrap_or(SIZE),
                window: match (self.window, rate) {
                    (Some(window), _) => window,
                    (None, _) if mgid.is_some() => 0,
                    (None, 0) => share.window(),
                    (None, _) => 0,
                },
                rate,
                sl,
                dlid_offset: self.dlid_offset,
                count: self.count.unwrap_or(0),
                start_ms: milliseconds(self.start),
                duration_ms: match (self.count, self.seconds) {
                    (Some(_), _) => 0,
                    (None, None) => DURATION_MS,
                    (None, Some(seconds)) => milliseconds(seconds).max(1),
                },
                seed: match mgid {
                    // One flow for all of its receivers.
                    Some(_) => seed_of(seed.wrapping_add(u64::from(group)), (pair.0, pair.0)),
                    None => seed_of(seed.wrapping_add(u64::from(group)), pair),
                },
                step: None,
                is_warm_up: false,
            }
        };
        Ok(pairs.into_iter().map(flow).collect())
    }

    fn is_multicast(&self) -> bool {
        self.pattern == Some(What::Pattern(Pattern::Multicast))
    }

    /// What holds of multicast alone.
    fn check_multicast(&self) -> Result<(), String> {
        if !self.is_multicast() {
            return match self.senders.as_slice() {
                [] => Ok(()),
                _ => Err("senders belong to multicast".to_owned()),
            };
        }
        for (key, is_given) in [
            ("window", self.window.is_some()),
            ("sl", self.sl.is_some()),
            ("dlid_offset", self.dlid_offset.is_some()),
            ("class", self.class.is_some()),
        ] {
            if is_given {
                return Err(format!(
                    "{key}: multicast has none; nobody acknowledges its packets, and their LID and service level are the group's"
                ));
            }
        }
        match self.size {
            Some(size) if size < GROUP_PACKET_BYTES_MIN => Err(format!(
                "size {size}: a packet to a group has {GROUP_PACKET_BYTES_MIN} bytes at least"
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.check_multicast()?;
        let sizes = PACKET_BYTES_MIN..=PACKET_BYTES_MAX;
        match self {
            Self {
                size: Some(size), ..
            } if !sizes.contains(size) => Err(format!(
                "size {size}: {PACKET_BYTES_MIN} to {PACKET_BYTES_MAX} bytes"
            )),
            Self {
                window: Some(window),
                ..
            } if *window > WINDOW_MAX => Err(format!("window {window}: 0 to {WINDOW_MAX} packets")),
            Self {
                window: Some(0),
                rate: None,
                ..
            } => Err("window 0 needs a rate".to_owned()),
            Self {
                pattern: Some(What::Pattern(_)) | None,
                bytes,
                iterations,
                ..
            } if bytes.is_some() || iterations.is_some() => {
                Err("bytes and iterations belong to a collective".to_owned())
            }
            Self {
                class: None,
                deadline: Some(_),
                ..
            } => Err("deadline belongs to a class".to_owned()),
            Self {
                deadline: Some(deadline),
                ..
            } if !(*deadline > 0.0 && *deadline <= 1000.0) => Err(format!(
                "deadline {deadline}: above 0, at most 1000 inter-arrival times"
            )),
            Self {
                pattern: Some(What::Collective(_)),
                class: Some(_),
                ..
            } => Err("class: a collective has none".to_owned()),
            Self { count: Some(0), .. } => Err("count 0: 1 or more".to_owned()),
            Self {
                count: Some(_),
                seconds: Some(_),
                ..
            } => Err("count and seconds: one of them".to_owned()),
            Self {
                seconds: Some(seconds),
                ..
            } if !(*seconds > 0.0 && *seconds <= SECONDS_MAX) => {
                Err(format!("seconds {seconds}: above 0, at most {SECONDS_MAX}"))
            }
            Self { start, .. } if !(0.0..=SECONDS_MAX).contains(start) => {
                Err(format!("start {start}: 0 to {SECONDS_MAX} seconds"))
            }
            Self {
                dlid_offset: Some(offset),
                ..
            } if *offset > DLID_OFFSET_MAX => {
                Err(format!("dlid_offset {offset}: 0 to {DLID_OFFSET_MAX}"))
            }
            _ => Ok(()),
        }
    }

    /// Who sends to whom, by positions among all hosts, and the share of its host's load.
    fn pairs(&self, hosts: &[&str], seed: u64) -> Result<Vec<(Pair, Share)>, String> {
        match self.pattern {
            Some(_) if !(self.from.is_empty() && self.to.is_empty()) => {
                Err("a pattern and from, to: one of them".to_owned())
            }
            None if self.from.is_empty() || self.to.is_empty() => {
                Err("a pattern is missing, or both from and to".to_owned())
            }
            None if self.target.is_some() || !self.hosts.is_empty() => {
                Err("hosts and target belong to a pattern".to_owned())
            }
            None => {
                let from = named("from", &self.from, hosts)?;
                Ok(each_to_each(&from, &named("to", &self.to, hosts)?))
            }
            Some(What::Pattern(pattern)) => self.pairs_of(pattern, hosts, seed),
            // A collective has transfers in place of pairs.
            Some(What::Collective(_)) => Ok(Vec::new()),
        }
    }

    /// The positions of the hosts that take part among all.
    pub(super) fn among(&self, hosts: &[&str]) -> Result<Vec<usize>, String> {
        match self.hosts.as_slice() {
            [] => Ok((0..hosts.len()).collect()),
            globs => named("hosts", globs, hosts),
        }
    }

    fn pairs_of(
        &self,
        pattern: Pattern,
        hosts: &[&str],
        seed: u64,
    ) -> Result<Vec<(Pair, Share)>, String> {
        let among = self.among(hosts)?;
        let senders = match self.senders.as_slice() {
            [] => among.clone(),
            globs => named("senders", globs, hosts)?,
        };
        if let Some(&other) = senders.iter().find(|host| !among.contains(host)) {
            return Err(format!("senders: {} is not among the hosts", hosts[other]));
        }
        let target = match &self.target {
            None => 0,
            Some(_) if !matches!(pattern, Pattern::Centric(_)) => {
                return Err("target belongs to centric-PERCENT".to_owned());
            }
            Some(target) => {
                let mut among = among.iter();
                let found = among.position(|&host| hosts[host] == target);
                found.ok_or_else(|| format!("target {target:?} is no host of the group"))?
            }
        };
        let pairs = pattern.pairs(among.len(), target, seed);
        let pairs = pairs.map_err(|error: PatternError| error.to_string())?;
        let placed = |((from, to), share): (Pair, Share)| ((among[from], among[to]), share);
        let pairs = pairs.into_iter().map(placed);
        Ok(pairs
            .filter(|((from, _), _)| senders.contains(from))
            .collect())
    }
}

/// The multicast group of a group of flows: of the fabric's own scope, in a range of our own.
fn mgid_of(group: u32) -> Gid {
    let group = u16::try_from(group).unwrap_or(u16::MAX);
    Gid(Ipv6Addr::new(0xff12, 0x1bed, 0, 0, 0, 0, 2, group).octets())
}

/// Every one of `from` to every one of `to` but itself, with even shares.
fn each_to_each(from: &[usize], to: &[usize]) -> Vec<(Pair, Share)> {
    let of_source = |&source: &usize| {
        let others: Vec<usize> = to.iter().copied().filter(|&to| to != source).collect();
        let share = Share {
            parts: 1,
            of: saturate::<u32>(others.len()),
        };
        others.into_iter().map(move |to| ((source, to), share))
    };
    from.iter().flat_map(of_source).collect()
}

/// The hosts whose names are like one of these, in order.
fn named(key: &str, globs: &[String], hosts: &[&str]) -> Result<Vec<usize>, String> {
    for glob in globs {
        if !hosts.iter().any(|name| matches(glob, name)) {
            return Err(format!(
                "{key}: no host that can be reached is like {glob:?}"
            ));
        }
    }
    let like = |name: &&str| globs.iter().any(|glob| matches(glob, name));
    let positions = hosts.iter().zip(0..).filter(|(name, _)| like(name));
    Ok(positions.map(|(_, position)| position).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: [&str; 4] = ["h0", "h1", "h2", "h3"];

    fn plan(text: &str) -> Result<Resolved, String> {
        let plan = TrafficPlan::parse(Path::new("plan.toml"), text);
        let resolved = plan.and_then(|plan| plan.resolve(&HOSTS));
        resolved.map_err(|error| error.to_string())
    }

    #[test]
    fn a_group_has_defaults() {
        let resolved = plan("[[flows]]\npattern = 'shift-1'").expect("a plan");
        assert_eq!(resolved.groups, ["shift-1"]);
        assert_eq!(resolved.flows.len(), 4);
        let flow = &resolved.flows[3];
        assert_eq!(flow.pair, (3, 0));
        assert_eq!((flow.size, flow.window, flow.rate), (290, 256, 0));
        assert_eq!((flow.start_ms, flow.duration_ms, flow.count), (0, 5000, 0));
    }

    #[test]
    fn a_host_shares_its_rate_and_window() {
        let rated = "[[flows]]\npattern = 'uniform'\nrate = '30M'\nseconds = 0.5";
        let flows = plan(rated).expect("a plan").flows;
        assert_eq!(flows.len(), 12);
        let one = &flows[0];
        assert_eq!(
            (one.rate, one.window, one.duration_ms),
            (10_000_000, 0, 500)
        );
        let closed = plan("[[flows]]\npattern = 'uniform'").expect("a plan");
        assert_eq!(closed.flows[0].window, 85);
    }

    #[test]
    fn senders_of_multicast_have_one_flow_for_all_receivers() {
        let text = "[[flows]]\npattern = 'multicast'\nsenders = ['h0', 'h2']\nrate = '30M'";
        let flows = plan(text).expect("a plan").flows;
        let pairs: Vec<_> = flows.iter().map(|flow| flow.pair).collect();
        assert_eq!(pairs, [(0, 1), (0, 2), (0, 3), (2, 0), (2, 1), (2, 3)]);
        assert!(
            flows
                .iter()
                .all(|flow| flow.rate == 30_000_000 && flow.window == 0)
        );
        assert!(flows.iter().all(|flow| flow.mgid == Some(mgid_of(0))));
        let seeds = [&flows[..3], &flows[3..]].map(|of| of.iter().map(|flow| flow.seed).max());
        assert_ne!(seeds[0], seeds[1]);
        assert_eq!(Some(flows[0].seed), seeds[0]);
        for (keys, wrong) in [
            ("window = 4", "window: multicast has none"),
            ("sl = 1", "sl: multicast has none"),
            (
                "size = 98",
                "size 98: a packet to a group has 106 bytes at least",
            ),
            (
                "hosts = ['h0', 'h1']\nsenders = ['h3']",
                "senders: h3 is not among the hosts",
            ),
        ] {
            let wrong_plan = plan(&format!("[[flows]]\npattern = 'multicast'\n{keys}"));
            let error = wrong_plan.expect_err("wrong");
            assert!(error.contains(wrong), "{error}");
        }
        let error = plan("[[flows]]\npattern = 'uniform'\nsenders = ['h0']").err();
        assert_eq!(
            error.as_deref(),
            Some("uniform: senders belong to multicast")
        );
    }

    #[test]
    fn a_warm_up_comes_before_what_begins_at_once() {
        let text = "warmup = 0.25\n[[flows]]\nfrom = ['h0']\nto = ['h1']\ncount = 10\n\
                    [[flows]]\nfrom = ['h2']\nto = ['h?']\nstart = 1\nseconds = 2";
        let flows = plan(text).expect("a plan").flows;
        let times: Vec<_> = flows
            .iter()
            .map(|flow| (flow.pair, flow.is_warm_up, flow.start_ms, flow.duration_ms))
            .collect();
        let expected = [
            ((0, 1), true, 0, 250),
            ((0, 1), false, 250, 0),
            ((2, 0), false, 1250, 2000),
            ((2, 1), false, 1250, 2000),
            ((2, 3), false, 1250, 2000),
        ];
        assert_eq!(times, expected);
        assert_eq!(flows[0].count, 0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, wrong) in [
            ("", "line 1, column 1: missing field `flows`"),
            ("flows = []", "a plan needs 1 to 256 [[flows]], and has 0"),
            (
                "warmup = -1\n[[flows]]\npattern = 'uniform'",
                "warmup -1: 0 to",
            ),
            (
                "warmup = nan\n[[flows]]\npattern = 'uniform'",
                "warmup NaN: 0 to",
            ),
            (
                "[[flows]]\npattern = 'unifrom'",
                "line 2, column 11: there is no pattern \"unifrom\": uniform,",
            ),
            (
                "[[flows]]\npatern = 'uniform'",
                "line 2, column 1: unknown field `patern`",
            ),
            (
                "[[flows]]\nsize = 300",
                "flows 1: a pattern is missing, or both from and to",
            ),
            (
                "[[flows]]\nname = 'x'\npattern = 'uniform'\nsize = 97",
                "x: size 97: 98 to 4222 bytes",
            ),
            (
                "[[flows]]\npattern = 'uniform'\nwindow = 0",
                "uniform: window 0 needs a rate",
            ),
            (
                "[[flows]]\npattern = 'uniform'\nseconds = inf",
                "uniform: seconds inf: above 0",
            ),
            (
                "[[flows]]\npattern = 'uniform'\ncount = 1\nseconds = 1",
                "uniform: count and seconds: one of them",
            ),
            (
                "[[flows]]\npattern = 'uniform'\nrate = '0'",
                "line 3, column 8: 0 is out of range: at least 1 bit a second",
            ),
            ("[[flows]]\npattern = 'uniform'\nsl = 16", "uniform: "),
            (
                "[[flows]]\npattern = 'shift-4'",
                "shift-4: shift-4 among 4 hosts: shift-1 to shift-3",
            ),
            (
                "[[flows]]\npattern = 'uniform'\nhosts = ['x*']",
                "uniform: hosts: no host that can be reached is like \"x*\"",
            ),
            (
                "[[flows]]\npattern = 'centric-20'\ntarget = 'h9'",
                "centric-20: target \"h9\" is no host of the group",
            ),
            (
                "[[flows]]\nfrom = ['h0']\nto = ['h0']",
                "no host sends to another",
            ),
        ] {
            let error = plan(text).expect_err(text);
            assert!(error.contains(wrong), "{text}\n{error}");
        }
    }

    #[test]
    fn more_flows_than_a_host_holds_are_refused() {
        let names: Vec<String> = (0..600).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let uniform = |warmup| TrafficPlan {
            seed: 1,
            warmup,
            time_scale: 1.0,
            flows: vec![GroupPlan {
                pattern: Some(What::Pattern(Pattern::Uniform)),
                ..GroupPlan::default()
            }],
        };
        assert!(uniform(0.0).resolve(&names).is_ok());
        let error = uniform(1.0).resolve(&names).expect_err("1198 flows");
        assert!(
            error.to_string().starts_with("n0 would have 1198 flows"),
            "{error}"
        );
    }

    #[test]
    fn a_hostile_file_has_a_short_error() {
        let deep = format!("flows = {}", "[".repeat(100_000));
        let error = plan(&deep).expect_err("nested");
        assert!(error.len() < 500, "{}", error.len());
        let long = format!("[[flows]]\npattern = '{}'", "x".repeat(100_000));
        assert!(plan(&long).expect_err("a pattern").len() < 500);
    }
}
