//! A twin that runs a schedule: it comes up, the schedule's traffic is sent and its faults are injected, and
//! the fabric settles.

mod faults;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};

use controller::control::{Phase, Status};
use controller::{Protection, SmConfig};
use hostd::control::Request;
use link::{Pacing, PortConfig, Time};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sim::{FaultPlan, Twin, TwinConfig};
use switchd::Timing;
use topologies::{Endpoint, Graph, NodeId};
use wire::{Gid, Lid, LinkRate, LinkSpeed, LinkWidth, Lmc, Mtu, convert};

use crate::outcome::{Failure, FailureKind, Outcome};
use crate::schedule::Schedule;
use crate::{keys, managers, partitions};

/// Checkers are asked at least this often, nanoseconds.
pub(crate) const CHECK_INTERVAL_NS: u64 = 20_000_000;
/// A fabric without faults comes up within this time, nanoseconds.
const UP_NS_MAX: u64 = 60_000_000_000;
/// When faults have ceased, the manager is done within this time, nanoseconds.
pub(crate) const SETTLED_NS_MAX: u64 = 60_000_000_000;
/// The managers are done when none of them has swept anew, or is to, for so long, nanoseconds: longer than
/// what a device waits before it repeats a trap, and than a few polls of a manager in standby.
const QUIET_NS: u64 = 2_500_000_000;
/// The same at the start, before any fault.
const FIRST_QUIET_NS: u64 = 300_000_000;
/// Lost flow control is repeated within this time, nanoseconds: two keep-alives and more.
const REPEATED_NS: u64 = 1_230_000_000;
/// Checks of a quiet fabric.
const RESTS: u32 = 4;
/// Bytes of datagrams that hosts send, LRH to VCRC.
pub(crate) const DATAGRAM_BYTES: u16 = 226;

/// The MTU of all ports.
const MTU: Mtu = Mtu::Mtu256;

/// A twin that runs a schedule.
pub(crate) struct Bed<'s> {
    pub(crate) schedule: &'s Schedule,
    pub(crate) twin: Twin,
    pub(crate) graph: Graph,
    pub(crate) hosts: Vec<NodeId>,
    switches: Vec<NodeId>,
    cables: Vec<(Endpoint, Endpoint)>,
    active: BTreeSet<usize>,
    /// LIDs of hosts when the whole fabric was up first.
    lids: BTreeMap<NodeId, Lid>,
    /// Hosts that have asked to join the group, and have not been started anew since.
    /// With the requests, which may be refused in the end.
    members: BTreeMap<NodeId, u64>,
    /// Hosts whose answers are false until the end.
    pub(crate) liars: BTreeSet<NodeId>,
    /// Devices that hosts make up besides themselves.
    pub(crate) made_up: usize,
    /// Hosts that report another GUID for a time: a manager takes them for other hosts until they report
    /// their own again.
    disguised: BTreeSet<NodeId>,
    flows: u32,
    multicasts: u32,
    pub(crate) random: ChaCha8Rng,
}

/// The group of all multicast traffic.
pub(crate) fn group() -> Gid {
    Gid([
        0xff, 0x12, 0x1b, 0xed, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa9,
    ])
}

fn port(schedule: &Schedule) -> PortConfig {
    let config = PortConfig {
        mtu: MTU,
        vls: schedule.vls,
        rate: LinkRate {
            width: LinkWidth::X1,
            speed: LinkSpeed::Sdr,
        },
        pacing: match schedule.is_paced {
            true => Pacing::EXACT,
            false => Pacing::Unpaced,
        },
        ..PortConfig::default()
    };
    let packet = usize::from(link::blocks(config.packet_bytes_max())) * link::BLOCK_BYTES;
    PortConfig {
        buffer_bytes: packet * usize::from(schedule.buffer),
        output_bytes: packet * 2,
        ..config
    }
}

fn config(schedule: &Schedule, graph: &Graph, hosts: &[NodeId]) -> TwinConfig {
    let milliseconds = |ms: u32| u64::from(ms) * 1_000_000;
    let manager = SmConfig {
        routing: schedule.engine,
        lmc: schedule.lmc.and_then(|lmc| Lmc::new(lmc).ok()),
        timeout_ns: milliseconds(schedule.timeout_ms),
        retries: schedule.retries,
        sweep_interval_ns: milliseconds(schedule.sweep_ms),
        multicast: schedule.trees,
        priority: schedule.priority,
        protection: schedule.m_key.map(|key| Protection {
            m_key: keys::of(schedule),
            protect_bits: key.protect_bits,
            lease_period_s: key.lease_s,
        }),
        partitions: schedule
            .partitions
            .map(|division| partitions::given(division, graph, hosts)),
        partition_enforcement: schedule
            .partitions
            .map(|division| division.enforcement)
            .unwrap_or_default(),
        ..SmConfig::default()
    };
    let standbys = schedule.standbys.iter().filter_map(|standby| {
        let name = graph.node(pick(hosts, standby.host)?).name.clone();
        let config = SmConfig {
            priority: standby.priority,
            ..manager.clone()
        };
        Some((name, config))
    });
    TwinConfig {
        further_managers: standbys.collect(),
        flight_ns: schedule.flight_ns,
        port: port(schedule),
        timing: Timing {
            routing_delay_ns: 100,
            ..Timing::default()
        },
        manager,
        faults: FaultPlan {
            faults: Vec::new(),
            seed: schedule.seed,
        },
    }
}

impl<'s> Bed<'s> {
    pub(crate) fn new(schedule: &'s Schedule) -> Result<Self, String> {
        let graph = schedule.graph().map_err(|error| error.to_string())?;
        let hosts: Vec<NodeId> = graph.hosts().collect();
        let config = config(schedule, &graph, &hosts);
        let mut twin = Twin::new(&graph, &config).map_err(|error| error.to_string())?;
        if let Some(division) = schedule.partitions {
            partitions::watch(division, &hosts, &mut twin);
        }
        Ok(Self {
            schedule,
            twin,
            hosts,
            switches: graph.switches().collect(),
            cables: graph.links().collect(),
            graph,
            active: BTreeSet::new(),
            lids: BTreeMap::new(),
            members: BTreeMap::new(),
            liars: BTreeSet::new(),
            made_up: 0,
            disguised: BTreeSet::new(),
            flows: 0,
            multicasts: 0,
            random: ChaCha8Rng::seed_from_u64(sim::split_mix(schedule.seed, 1)),
        })
    }

    pub(crate) fn fail<T>(&self, kind: FailureKind, what: impl Into<String>) -> Result<T, Failure> {
        Err(Failure {
            kind,
            at_ns: self.twin.now().0,
            what: what.into(),
        })
    }

    /// Advances virtual time, and evaluates the checkers.
    pub(crate) fn advance(&mut self, until: Time) -> Result<(), Failure> {
        while self.twin.now() < until {
            let left = until.since_ns(self.twin.now());
            self.twin.run_for(left.min(CHECK_INTERVAL_NS));
            if let Some(violation) = self.twin.violations().first() {
                return Err(Failure {
                    kind: FailureKind::Checker,
                    at_ns: violation.at.0,
                    what: violation.what.clone(),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn pass(&mut self, ns: u64) -> Result<(), Failure> {
        let until = self.twin.now() + ns;
        self.advance(until)
    }

    /// Brings the whole fabric up, without faults.
    pub(crate) fn come_up(&mut self) -> Result<(), Failure> {
        self.wait_until_quiet(FIRST_QUIET_NS, UP_NS_MAX)?;
        self.lids = self.host_lids();
        Ok(())
    }

    pub(crate) fn host_lids(&self) -> BTreeMap<NodeId, Lid> {
        let lid = |&id: &NodeId| Some((id, self.twin.host(&self.graph.node(id).name)?.lid()));
        self.hosts.iter().filter_map(lid).collect()
    }

    /// Engines that keep LIDs keep them whatever goes wrong.
    pub(crate) fn check_lids(&self) -> Result<(), Failure> {
        if !self.schedule.engine.keeps_lids() {
            return Ok(());
        }
        for (id, lid) in self.host_lids() {
            if self.liars.contains(&id) || self.disguised.contains(&id) {
                continue;
            }
            let before = self.lids.get(&id).copied().unwrap_or(lid);
            if lid != before && lid != Lid::ZERO {
                let name = &self.graph.node(id).name;
                let what = format!("{name} had LID {before} and has LID {lid}");
                return self.fail(FailureKind::LidChanged, what);
            }
        }
        Ok(())
    }

    /// Faults have ceased: waits until the manager has brought up what is left and is idle.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        let sweeps_ns = 4 * u64::from(self.schedule.sweep_ms) * 1_000_000;
        self.wait_until_quiet(QUIET_NS.max(sweeps_ns), SETTLED_NS_MAX)?;
        self.disguised.clear();
        self.check_lids()?;
        self.end_flows();
        self.pass(REPEATED_NS)
    }

    fn wait_until_quiet(&mut self, quiet_ns: u64, within_ns: u64) -> Result<(), Failure> {
        let parts = managers::parts(self);
        let limit = self.twin.now() + within_ns;
        let mut since = self.twin.now();
        let mut generation = None;
        loop {
            self.pass(CHECK_INTERVAL_NS)?;
            let wrong = managers::wrong(self, &parts);
            let now = self.twin.now();
            let generations = managers::generations(self);
            // Retries come after 10 s: a manager that has one ahead does not rest.
            let is_due = managers::any_sweep_due(self);
            if wrong.is_some() || is_due || generation != Some(generations) {
                generation = Some(generations);
                since = now;
            }
            if wrong.is_none() && now.since_ns(since) >= quiet_ns {
                return Ok(());
            }
            if now >= limit {
                return match wrong {
                    Some((kind, what)) => self.fail(kind, what),
                    None => {
                        let Status {
                            generation,
                            warnings,
                            ..
                        } = self.twin.status();
                        let what = format!("sweep {generation} and no end: {warnings:?}");
                        self.fail(FailureKind::NotQuiet, what)
                    }
                };
            }
        }
    }

    /// Removes all flows of hosts, also those that still ask for a path to a destination that is gone.
    fn end_flows(&mut self) {
        let sources: Vec<Lid> = self.host_lids().into_values().collect();
        for host in self.hosts.clone() {
            let sources = sources.clone();
            self.request(Some(host), Request::PerfClear { sources });
        }
    }

    /// Checks that no packet is in flight and no credit is missing.
    pub(crate) fn rest(&mut self) -> Result<(), Failure> {
        self.end_flows();
        // A manager and its hosts still exchange packets: only what every check finds is stuck.
        let mut found = None;
        for _ in 0..RESTS {
            self.pass(REPEATED_NS)?;
            found = self.twin.quiescence_violations().into_iter().next();
            if found.is_none() {
                break;
            }
        }
        if let Some(what) = found {
            return self.fail(FailureKind::NotAtRest, what);
        }
        let counts = self.twin.datagrams();
        let gone = i128::from(counts.sent) - i128::from(counts.delivered);
        let accounted = i128::from(counts.dropped) + i128::from(counts.lost);
        if gone < 0 || gone > accounted || counts.unchecked > 0 {
            return self.fail(FailureKind::Balance, format!("{counts:?}"));
        }
        Ok(())
    }

    /// The outcome.
    pub(crate) fn outcome(&self, failure: Option<Failure>) -> Outcome {
        let counters = self.twin.run_counters();
        let counts = self.twin.datagrams();
        let mut digest = 0;
        let mut add = |value: u64| digest = sim::split_mix(digest ^ value, 1);
        for value in [
            self.twin.now().0,
            counters.events,
            counters.frames,
            counters.lost,
            counters.corrupted,
            counters.duplicated,
            counts.sent,
            counts.delivered,
            counts.copies,
            counts.dropped,
        ] {
            add(value);
        }
        for &id in &self.switches {
            let switch = self.twin.switch(&self.graph.node(id).name);
            let blocks = (0..4).filter_map(|block| Some(switch?.linear_block(block)));
            blocks.flatten().for_each(|port| add(port.get().into()));
        }
        for byte in failure.iter().flat_map(|failure| failure.what.bytes()) {
            add(byte.into());
        }
        Outcome {
            failure,
            digest,
            virtual_ns: self.twin.now().0,
            events: counters.events,
            datagrams: counts.sent,
        }
    }
}

/// Why a manager is not done yet; `None` if it is.
pub(crate) fn not_up(status: &Status, remaining: &Graph) -> Option<String> {
    let [switches, hosts] = [remaining.switches().count(), remaining.hosts().count()];
    let [switches, hosts] = [switches, hosts].map(convert::saturate::<u32>);
    let links: u32 = convert::saturate(remaining.links().count());
    let is_whole = (status.switches, status.hosts, status.links) == (switches, hosts, links);
    if status.phase == Phase::Up && is_whole && status.unreachable.is_empty() {
        return None;
    }
    Some(format!(
        "the manager is {:?} with {} switches, {} hosts, {} links of {switches}, {hosts}, {links}; \
         unreachable: {:?}; warnings: {:?}",
        status.phase,
        status.switches,
        status.hosts,
        status.links,
        status.unreachable,
        status.warnings
    ))
}

/// The element with that number, modulo the length.
pub(crate) fn pick<T: Copy>(all: &[T], number: u32) -> Option<T> {
    let at = usize::try_from(number).ok()?.checked_rem(all.len())?;
    all.get(at).copied()
}
