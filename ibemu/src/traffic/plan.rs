//! What `ibemu traffic` is to send: a pattern, or a file of several.

mod check;
mod error;
mod group;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::mem;
use std::path::Path;
use std::time::Duration;

use hostd::control::FLOWS_MAX;
use serde::Deserialize;
use wire::convert::{saturate, u64_of};

pub(crate) use self::error::PlanError;
pub(crate) use self::values::{ByteText, RateText, What};
use super::collective_report::CollectiveRun;
use super::constant::{self, ConstantClass, ConstantRun};
use super::error_text::error_text;
use super::flows::FlowSpec;

/// The longest file, bytes.
const FILE_MAX: u64 = 1 << 20;
/// The most groups of a file: numbers of flows have as many bits for them.
pub(super) const GROUPS_MAX: usize = 256;
/// The longest time, seconds: what 31 bits of milliseconds hold.
const SECONDS_MAX: f64 = 2_000_000.0;

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
