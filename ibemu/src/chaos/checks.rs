//! Whether a fabric is whole again: its processes, cables, LIDs, tables and subnet managers are as
//! they were before anything went wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, bail};
use controller::control::{Phase, Status};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use wire::control::PortStatus;

use super::probe::Paths;
use super::tables::{self, Tables};
use crate::accounting::Account;
use crate::ask::{self, DeviceClient};
use crate::dir::FabricDir;
use crate::lids::HostLids;
use crate::process::{self, ProcessId, Role};
use crate::state::{End, FabricState, Kind};
use crate::supervisor;

/// How long a process may take to answer before it counts as silent.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How many devices are asked at a time.
const AT_ONCE: usize = 16;
/// The state of a port that packets may cross (IBA 14.2.5.6).
const ACTIVE: u8 = 4;
/// Names that a message lists.
const NAMES_MAX: usize = 8;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Violation {
    /// The name of the rule, as docs/reliability.md lists them.
    pub rule: &'static str,
    /// How.
    pub what: String,
}

impl Violation {
    pub(super) fn new(rule: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { rule, what }
    }
}

/// The state of a fabric that must be the same after a round.
pub(super) struct Baseline {
    pub lids: Lids,
    pub tables: Tables,
}

/// Base LID and LMC of each switch and host port that answers, by position.
pub(super) type Lids = BTreeMap<usize, (u16, u8)>;

/// Every port of every device, by position; `None`: it does not answer.
type Ports = Vec<Option<Vec<PortStatus>>>;

/// Looks at a fabric.
pub(super) struct Checks<'a> {
    pub dir: &'a FabricDir,
    pub state: &'a FabricState,
    pub hosts: &'a [HostLids],
    pub paths: &'a Paths,
}

impl Checks<'_> {
    /// Asks all devices but those in `missing`, of which there are no ports.
    async fn ports(&self, missing: &BTreeSet<usize>) -> Ports {
        stream::iter(self.state.nodes.iter().enumerate())
            .map(|(position, node)| async move {
                if missing.contains(&self.state.device_of(position)) {
                    return None;
                }
                let mut client = DeviceClient::connect(self.dir, node, ANSWER_TIMEOUT)
                    .await
                    .ok()?;
                client.ports().await.ok()
            })
            .buffered(AT_ONCE)
            .collect()
            .await
    }

    /// The fabric as it is to be again.
    ///
    /// # Errors
    /// What is wrong with it, and that it is to be whole.
    pub(super) async fn baseline(&self) -> Result<Baseline> {
        self.managers().await?;
        let ports = self.ports(&BTreeSet::new()).await;
        self.links(&ports)?;
        let tables = tables::read(self.dir, self.state).await?;
        tables::follow_all(self.state, &tables, self.hosts, self.paths)?;
        let lids = lids(self.state, &ports);
        Ok(Baseline { lids, tables })
    }

    /// Whether the fabric is as it was.
    ///
    /// # Errors
    /// The differences.
    pub(super) async fn is_whole(&self, baseline: &Baseline) -> Result<()> {
        self.managers().await?;
        let ports = self.ports(&BTreeSet::new()).await;
        self.links(&ports)?;
        if let Some(changed) = self.changed_lid(baseline, &lids(self.state, &ports)) {
            bail!("{changed}");
        }
        let tables = tables::read(self.dir, self.state).await?;
        tables::follow_all(self.state, &tables, self.hosts, self.paths)?;
        match tables::difference(self.state, &baseline.tables, &tables) {
            Some(difference) => bail!("{difference}"),
            None => Ok(()),
        }
    }

    /// The LIDs of the devices that are not missing.
    pub(super) async fn lids(&self, missing: &BTreeSet<usize>) -> Lids {
        lids(self.state, &self.ports(missing).await)
    }

    /// A device whose LID is not what it was, of those that have one.
    pub(super) fn changed_lid(&self, baseline: &Baseline, now: &Lids) -> Option<String> {
        now.iter().find_map(|(node, lid)| {
            let was = baseline.lids.get(node).filter(|was| *was != lid)?;
            let name = &self.state.nodes[*node].name;
            Some(format!(
                "{name} had LID {} (LMC {}) and has LID {} (LMC {})",
                was.0, was.1, lid.0, lid.1
            ))
        })
    }

    /// Every cable is Active at both ends.
    fn links(&self, ports: &Ports) -> Result<()> {
        let silent: Vec<&str> = self
            .state
            .nodes
            .iter()
            .zip(ports)
            .filter(|(_, ports)| ports.is_none())
            .map(|(node, _)| node.name.as_str())
            .collect();
        if !silent.is_empty() {
            bail!("no answer from {}", some(&silent));
        }
        let is_active = |end: &&End| {
            let ports = ports[end.node].as_deref().unwrap_or_default();
            let port = ports.iter().find(|port| port.port.get() == end.port);
            port.is_some_and(|port| port.state == ACTIVE)
        };
        let ends = self.state.links.iter().flatten();
        let down: Vec<String> = ends
            .filter(|end| !is_active(end))
            .map(|&end| self.state.end_name(end))
            .collect();
        if !down.is_empty() {
            let names: Vec<&str> = down.iter().map(String::as_str).collect();
            bail!("not Active: {}", some(&names));
        }
        Ok(())
    }

    /// One controller is master and has found all that there is; the others stand by.
    ///
    /// # Errors
    /// Which is not.
    pub(super) async fn managers(&self) -> Result<()> {
        let reports = ask::subnets(self.dir, self.state, ANSWER_TIMEOUT).await;
        let mut masters = 0;
        for ((_, handle), report) in self.state.controllers().zip(&reports) {
            match report {
                Err(error) => bail!("{error:#}"),
                Ok(status) => match &status.phase {
                    Phase::Up => {
                        masters += 1;
                        self.is_complete(handle, status)?;
                    }
                    Phase::Standby { .. } => {}
                    other => bail!("{handle} is {other:?}"),
                },
            }
        }
        match masters {
            1 => Ok(()),
            count => bail!("{count} controllers are master"),
        }
    }

    fn is_complete(&self, handle: &str, status: &Status) -> Result<()> {
        let found = [status.switches, status.hosts, status.links].map(u64::from);
        let there = [
            self.state.switches().count(),
            self.state.hosts().count(),
            self.state.links.len(),
        ]
        .map(wire::convert::u64_of);
        if found != there || status.degraded || !status.unreachable.is_empty() {
            let [switches, hosts, links] = found;
            bail!(
                "{handle} has found {switches} switches, {hosts} hosts and {links} cables{}; there are {}, {} and {}",
                if status.degraded { " (degraded)" } else { "" },
                there[0],
                there[1],
                there[2]
            );
        }
        Ok(())
    }

    /// The processes of the fabric, each role once.
    ///
    /// # Errors
    /// Which is missing or there twice.
    pub(super) fn processes(&self) -> Result<BTreeMap<Role, ProcessId>> {
        let devices = self.state.nodes.iter();
        let devices = devices.map(|node| Role::Device(node.handle.clone()));
        let controllers = self.state.controllers();
        let controllers = controllers.map(|(_, handle)| Role::Controller(handle.to_owned()));
        let mut wanted: BTreeSet<Role> = devices.chain(controllers).collect();
        wanted.insert(Role::Supervisor);
        let mut running = BTreeMap::new();
        for found in process::find(self.dir, &supervisor::recorded(self.dir))? {
            wanted.remove(&found.role);
            if let Some(other) = running.insert(found.role.clone(), found.id) {
                let role = found.role;
                bail!(
                    "{role:?} runs twice: processes {} and {}",
                    other.pid,
                    found.id.pid
                );
            }
        }
        match wanted.first() {
            Some(role) => bail!("{role:?} does not run"),
            None => Ok(running),
        }
    }
}

/// The LIDs of switches and host ports that answer and have one.
fn lids(state: &FabricState, ports: &Ports) -> Lids {
    let addressed = |node: usize, ports: &[PortStatus]| {
        let state = &state.nodes[node];
        let is_it = |port: &&PortStatus| state.kind == Kind::Switch || port.port == state.port();
        let mut ports = ports.iter().filter(is_it);
        let port = ports.find(|port| port.lid != 0)?;
        Some((port.lid, port.lmc))
    };
    let all = ports.iter().enumerate();
    all.filter_map(|(node, ports)| Some((node, addressed(node, ports.as_deref()?)?)))
        .collect()
}

/// Some of the names, and how many more there are.
fn some(names: &[&str]) -> String {
    let listed = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>();
    match names.len().saturating_sub(NAMES_MAX) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

/// What may be missing from the counters of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Nothing, and nothing is dropped either.
    None,
    /// Packets that are on cables by the counters of their ends, and drops with a reason.
    OnCables,
    /// What a switch or host that has ended has counted.
    WithDevices,
}

/// What is wrong with the counters of a round in which that much may be missing.
pub(super) fn unbalanced(account: &Account, loss: Loss) -> Option<String> {
    if !account.silent.is_empty() {
        return Some(format!("no counters from {}", account.silent.join(", ")));
    }
    if loss == Loss::WithDevices {
        return None;
    }
    if !account.restarted.is_empty() {
        let names = account.restarted.join(", ");
        return Some(format!("{names} began to count anew and was not restarted"));
    }
    let on_cables: u64 = account.on_cables.iter().map(|cable| cable.packets).sum();
    let allowed = match loss {
        Loss::None => 0,
        _ => i64::try_from(on_cables).unwrap_or(i64::MAX),
    };
    for (name, kind) in &account.kinds {
        if kind.under_way > 0 {
            return Some(format!(
                "{} packets ({name}) still wait in devices",
                kind.under_way
            ));
        }
        if kind.unaccounted < 0 || kind.unaccounted > allowed {
            return Some(format!(
                "{name}: sent {}, delivered {}, dropped {:?}: {} are unaccounted for, and {on_cables} packets are on cables",
                kind.sent, kind.delivered, kind.dropped, kind.unaccounted
            ));
        }
        if loss == Loss::None && !kind.dropped.is_empty() {
            return Some(format!("{name}: dropped {:?}", kind.dropped));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::{KindAccount, OnCable};

    fn account(unaccounted: i64, on_cables: u64, dropped: u64) -> Account {
        let dropped = (dropped > 0).then(|| ("link-down".to_owned(), dropped));
        let kind = KindAccount {
            sent: 100,
            unaccounted,
            dropped: dropped.into_iter().collect(),
            ..KindAccount::default()
        };
        let cable = OnCable {
            from: "s0:1".to_owned(),
            to: "s1:1".to_owned(),
            packets: on_cables,
        };
        Account {
            kinds: [("data", kind)].into(),
            on_cables: vec![cable],
            ..Account::default()
        }
    }

    #[test]
    fn packets_may_be_missing_where_cables_have_lost_them_and_nowhere_else() {
        assert_eq!(unbalanced(&account(3, 3, 5), Loss::OnCables), None);
        assert!(unbalanced(&account(4, 3, 0), Loss::OnCables).is_some());
        assert!(unbalanced(&account(-1, 3, 0), Loss::OnCables).is_some());
        assert!(unbalanced(&account(1, 3, 0), Loss::None).is_some());
        assert!(unbalanced(&account(0, 0, 1), Loss::None).is_some());
        assert_eq!(unbalanced(&account(0, 0, 0), Loss::None), None);
    }

    #[test]
    fn a_device_counts_anew_only_where_one_has_ended() {
        let account = Account {
            restarted: vec!["s0".to_owned()],
            ..account(-7, 0, 0)
        };
        assert!(unbalanced(&account, Loss::OnCables).is_some());
        assert_eq!(unbalanced(&account, Loss::WithDevices), None);
    }
}
