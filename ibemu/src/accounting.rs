//! Where the packets of the hosts' traffic are that were sent between two looks at all devices.
//!
//! For each kind of packet: sent + waiting before = delivered + dropped + waiting now + the rest.
//! Hosts count what they send and what their queue pairs take, every port what it drops, by kind and
//! reason, and on request what waits in it. On a quiet fabric whose processes all live the rest is 0.
//! Where it is not, packets are on cables or were lost there (the ports at both ends tell how many),
//! or went down with a process.
//!
//! Devices are asked one after the other, so while packets move the figures do not belong to one
//! moment. [`Ledger::settle`] therefore looks until everything adds up or nothing changes any more,
//! for a bounded time.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use wire::TrafficKind;
use wire::control::{DeviceReply, DeviceRequest, PortStatus};

use crate::ask::{DeviceClient, REQUEST_TIMEOUT};
use crate::dir::FabricDir;
use crate::drops::{self, Drops};
use crate::state::{End, FabricState};

/// How many devices are queried at a time.
const AT_ONCE: usize = 64;
/// The interval between two looks while packets are under way.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Figures that have not changed for this long are final.
const STILL: Duration = Duration::from_secs(1);
/// How long packets that are under way are waited for at most.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The counters of one process.
#[derive(Clone, Debug)]
struct DeviceCounts {
    pid: u32,
    ports: Vec<PortStatus>,
}

/// What each device has counted, by position; `None`: it did not answer.
type Snapshot = Vec<Option<DeviceCounts>>;

/// The devices that are looked at, by position, and their cables.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Their names.
    pub(crate) names: Vec<String>,
    /// The ends of each cable.
    pub(crate) links: Vec<[End; 2]>,
}

impl Layout {
    fn of(state: &FabricState) -> Self {
        Self {
            names: state.nodes.iter().map(|node| node.name.clone()).collect(),
            links: state.links.clone(),
        }
    }

    fn end_name(&self, end: End) -> String {
        format!("{}:{}", self.names[end.node], end.port)
    }
}

/// One look at every device that `wanted` names by its position.
async fn look(dir: &FabricDir, state: &FabricState, wanted: impl Fn(usize) -> bool) -> Snapshot {
    let ask = |position: usize| async move {
        let mut client = DeviceClient::connect(dir, &state.nodes[position], REQUEST_TIMEOUT)
            .await
            .ok()?;
        let Ok(DeviceReply::Identity { pid, .. }) = client.ask(&DeviceRequest::Identify).await
        else {
            return None;
        };
        let ports = client.ports().await.ok()?;
        Some(DeviceCounts { pid, ports })
    };
    let each = (0..state.devices().len()).map(|position| (position, wanted(position)));
    stream::iter(each)
        .map(|(position, wanted)| async move { if wanted { ask(position).await } else { None } })
        .buffered(AT_ONCE)
        .collect()
        .await
}

/// The counts before the traffic.
#[derive(Debug)]
pub struct Ledger {
    before: Snapshot,
}

impl Ledger {
    /// Looks at every device. One that does not answer is left out from here on.
    pub async fn open(dir: &FabricDir, state: &FabricState) -> Self {
        let before = look(dir, state, |_| true).await;
        Self { before }
    }

    /// Looks until all packets are accounted for or nothing changes any more.
    pub async fn settle(&self, dir: &FabricDir, state: &FabricState) -> Account {
        let begun = Instant::now();
        let mut account = self.account(dir, state).await;
        let mut last_change = Instant::now();
        while !account.is_complete() && last_change.elapsed() < STILL && begun.elapsed() < WAIT_MAX
        {
            sleep(LOOK_INTERVAL).await;
            let now = self.account(dir, state).await;
            if now.kinds != account.kinds {
                last_change = Instant::now();
            }
            account = now;
        }
        account
    }

    async fn account(&self, dir: &FabricDir, state: &FabricState) -> Account {
        let after = look(dir, state, |position| self.before[position].is_some()).await;
        account(&Layout::of(state), &self.before, &after)
    }
}

/// The packets of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindAccount {
    /// Made by hosts.
    pub sent: u64,
    /// Taken by the queue pairs that they were for.
    pub delivered: u64,
    /// By reason.
    pub dropped: Drops,
    /// In buffers and queues of devices.
    pub under_way: u64,
    /// The rest: on or lost on cables, or gone with a process. Negative if a process has ended that
    /// had sent packets which others received.
    pub unaccounted: i64,
}

/// Packets at a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AtPort {
    /// The device.
    pub device: String,
    /// The port.
    pub port: u8,
    /// The kind of the packets.
    pub kind: &'static str,
    /// Why they were dropped; `None`: they wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many.
    pub packets: u64,
}

/// Packets of any kind that have left one end of a cable and did not come to the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OnCable {
    /// The end that has sent them.
    pub from: String,
    /// The end where they did not come.
    pub to: String,
    /// How many.
    pub packets: u64,
}

/// Where all packets are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// By name of the kind.
    pub kinds: BTreeMap<&'static str, KindAccount>,
    /// Drops of traffic, by place.
    pub drops: Vec<AtPort>,
    /// Packets that wait in devices, by place.
    pub under_way: Vec<AtPort>,
    /// Where packets that are not accounted for may be, if there are any.
    pub on_cables: Vec<OnCable>,
    /// Devices that were restarted in between: what they had counted before is lost.
    pub restarted: Vec<String>,
    /// Devices that do not answer: what they have counted is missing.
    pub silent: Vec<String>,
    /// Drops of all packets, management among them, by reason.
    #[serde(skip)]
    pub all_drops: Drops,
}

impl Account {
    /// Where packets are by the ports of devices that live as long as it takes, before and after.
    pub(crate) fn between(
        layout: &Layout,
        before: Vec<Vec<PortStatus>>,
        after: Vec<Vec<PortStatus>>,
    ) -> Self {
        let whole = |looks: Vec<Vec<PortStatus>>| -> Snapshot {
            let counts = looks
                .into_iter()
                .map(|ports| DeviceCounts { pid: 0, ports });
            counts.map(Some).collect()
        };
        account(layout, &whole(before), &whole(after))
    }

    /// Whether nothing is under way and nothing is missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.kinds
            .values()
            .all(|kind| kind.under_way == 0 && kind.unaccounted == 0)
    }

    /// Drops of packets that are none of the hosts' traffic: management, pings, programs' own.
    #[must_use]
    pub fn other_drops(&self) -> Drops {
        let traffic = self.kinds.values().fold(Drops::new(), |mut sum, kind| {
            drops::add(&mut sum, &kind.dropped);
            sum
        });
        drops::since(&self.all_drops, &traffic)
    }
}

/// The counters of a port by name.
type Named<'a> = BTreeMap<&'a str, u64>;

fn named(port: &PortStatus) -> Named<'_> {
    let counters = port.counters.iter();
    counters
        .map(|(name, count)| (name.as_str(), *count))
        .collect()
}

/// The difference of a port's counters.
struct Difference<'a> {
    before: Named<'a>,
    after: Named<'a>,
}

impl Difference<'_> {
    fn of(&self, name: &str) -> u64 {
        let at = |counters: &Named<'_>| counters.get(name).copied().unwrap_or(0);
        at(&self.after).saturating_sub(at(&self.before))
    }
}

fn account(layout: &Layout, before: &Snapshot, after: &Snapshot) -> Account {
    let mut account = Account::default();
    let mut packets: BTreeMap<End, (u64, u64)> = BTreeMap::new();
    let mut balance = [0i128; TrafficKind::COUNT];
    for kind in TrafficKind::ALL {
        account.kinds.insert(kind.name(), KindAccount::default());
    }
    for (position, (was, is)) in before.iter().zip(after).enumerate() {
        let name = &layout.names[position];
        let Some(is) = is else {
            account.silent.push(name.clone());
            continue;
        };
        let was = was.as_ref().filter(|was| was.pid == is.pid);
        if was.is_none() {
            account.restarted.push(name.clone());
        }
        for port in &is.ports {
            let earlier = was.and_then(|was| was.ports.iter().find(|it| it.port == port.port));
            let difference = Difference {
                before: earlier.map(named).unwrap_or_default(),
                after: named(port),
            };
            let end = End {
                node: position,
                port: port.port.get(),
            };
            add_port(&mut account, &mut balance, name, end.port, &difference);
            let left = difference.of("PortXmitPkts");
            let come = difference.of("PortRcvPkts") + difference.of("RcvRefusedPkts");
            packets.insert(end, (left, come));
        }
    }
    for (kind, rest) in TrafficKind::ALL.into_iter().zip(balance) {
        if let Some(kind) = account.kinds.get_mut(kind.name()) {
            kind.unaccounted = i64::try_from(rest).unwrap_or(i64::MAX);
        }
    }
    if account.kinds.values().any(|kind| kind.unaccounted != 0) {
        account.on_cables = on_cables(layout, &packets);
    }
    account
}

/// Adds the traffic of one port.
fn add_port(
    account: &mut Account,
    balance: &mut [i128; TrafficKind::COUNT],
    device: &str,
    port: u8,
    difference: &Difference<'_>,
) {
    let at = |kind: TrafficKind, reason: Option<&str>, packets: u64| AtPort {
        device: device.to_owned(),
        port,
        kind: kind.name(),
        reason: reason.map(str::to_owned),
        packets,
    };
    for (kind, rest) in TrafficKind::ALL.into_iter().zip(balance) {
        let name = kind.name();
        let Some(sums) = account.kinds.get_mut(name) else {
            continue;
        };
        let (sent, delivered) = (
            difference.of(&format!("sent.{name}")),
            difference.of(&format!("delivered.{name}")),
        );
        let queued = format!("queued.{name}");
        let waiting = |counters: &Named<'_>| counters.get(queued.as_str()).copied().unwrap_or(0);
        let (waited, waits) = (waiting(&difference.before), waiting(&difference.after));
        sums.sent += sent;
        sums.delivered += delivered;
        sums.under_way += waits;
        *rest += i128::from(sent) + i128::from(waited);
        *rest -= i128::from(delivered) + i128::from(waits);
        if waits > 0 {
            account.under_way.push(at(kind, None, waits));
        }
        let prefix = format!("dropped.{name}.");
        for counter in difference.after.keys() {
            let count = difference.of(counter);
            if let Some(reason) = counter.strip_prefix(&prefix)
                && count > 0
            {
                *sums.dropped.entry(reason.to_owned()).or_default() += count;
                *rest -= i128::from(count);
                account.drops.push(at(kind, Some(reason), count));
            }
        }
    }
    for counter in difference.after.keys() {
        let count = difference.of(counter);
        if let Some(reason) = counter.strip_prefix(drops::PREFIX)
            && count > 0
        {
            *account.all_drops.entry(reason.to_owned()).or_default() += count;
        }
    }
}

/// The cables that have taken in more packets than have come out, by the counts `(sent, received or
/// refused)` of each end.
fn on_cables(layout: &Layout, packets: &BTreeMap<End, (u64, u64)>) -> Vec<OnCable> {
    let ways = layout.links.iter().flat_map(|&[a, b]| [(a, b), (b, a)]);
    let lost = ways.filter_map(|(from, to)| {
        let (sent, _) = packets.get(&from)?;
        let (_, come) = packets.get(&to)?;
        let lost = sent.saturating_sub(*come);
        (lost > 0).then(|| OnCable {
            from: layout.end_name(from),
            to: layout.end_name(to),
            packets: lost,
        })
    });
    lost.collect()
}

#[cfg(test)]
mod tests;
