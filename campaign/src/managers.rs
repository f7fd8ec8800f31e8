//! In the end one manager is master in each part of the fabric, the best that runs there, and the others
//! stand by for it.

use core::cmp::Reverse;

use controller::control::Phase;
use topologies::{Graph, NodeId};
use wire::Guid;

use crate::bed::{Bed, not_up};
use crate::outcome::FailureKind;

/// A part of what is left of the fabric, which no cable joins to the others.
#[derive(Debug)]
pub(crate) struct Part {
    /// Its devices and cables.
    graph: Graph,
    /// Its managers: their numbers, priorities and ports.
    managers: Vec<(usize, u8, Guid)>,
}

impl Part {
    /// The manager that is to be master.
    fn master(&self) -> Option<(usize, Guid)> {
        let rank = |&&(_, priority, guid): &&(usize, u8, Guid)| (priority, Reverse(guid));
        let best = self.managers.iter().max_by_key(rank);
        best.map(|&(manager, _, guid)| (manager, guid))
    }
}

/// The port of a manager's host.
fn port(bed: &Bed<'_>, host: NodeId) -> Guid {
    Guid(bed.graph.node(host).guid.0 + 1)
}

/// The parts that have managers: that of the first manager first. A host without a cable is none.
pub(crate) fn parts(bed: &Bed<'_>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for manager in 0..bed.twin.managers() {
        let Some(host) = bed.twin.manager_host(manager) else {
            continue;
        };
        let own = (manager, bed.twin.priority_of(manager), port(bed, host));
        let name = &bed.graph.node(host).name;
        if let Some(part) = parts
            .iter_mut()
            .find(|part| part.graph.find(name).is_some())
        {
            part.managers.push(own);
            continue;
        }
        let graph = bed.twin.joined_to(host);
        if manager == 0 || graph.links().next().is_some() {
            parts.push(Part {
                graph,
                managers: vec![own],
            });
        }
    }
    parts
}

/// The first rule about managers that does not hold; `None` if all do.
pub(crate) fn wrong(bed: &Bed<'_>, parts: &[Part]) -> Option<(FailureKind, String)> {
    for part in parts {
        let (master, guid) = part.master()?;
        let status = bed.twin.status_of(master).unwrap_or_default();
        if let Some(what) = not_up(&status, &part.graph) {
            return Some((FailureKind::NotUp, format!("manager {master}: {what}")));
        }
        for &(manager, ..) in part.managers.iter().filter(|one| one.0 != master) {
            let phase = bed.twin.status_of(manager).map(|status| status.phase);
            if phase != Some(Phase::Standby { master: guid }) {
                let what = format!(
                    "manager {manager} is {phase:?}, and manager {master}, whose port is {guid}, is up"
                );
                return Some((FailureKind::Managers, what));
            }
        }
    }
    None
}

/// Sweeps of all managers together.
pub(crate) fn generations(bed: &Bed<'_>) -> u64 {
    let all = 0..bed.twin.managers();
    let known = all.filter_map(|manager| bed.twin.status_of(manager));
    known.map(|status| status.generation).sum()
}

/// Whether a manager that runs is to sweep anew, or does so.
pub(crate) fn any_sweep_due(bed: &Bed<'_>) -> bool {
    let mut all = 0..bed.twin.managers();
    all.any(|manager| bed.twin.is_sweep_due(manager) == Some(true))
}

/// The port of the master in the part of the first manager.
pub(crate) fn master_host(bed: &Bed<'_>) -> Option<NodeId> {
    let parts = parts(bed);
    let (master, _) = parts.first()?.master()?;
    bed.twin.manager_host(master)
}
