//! A request that stays unanswered: does the link still carry anything over which it goes?
//!
//! A device that hangs, or has just died, is silent long before its neighbours notice, and is waited for: it may be slow.
//! When they have noticed, there is nothing more to wait for. The master is told by a trap and sweeps anew. A manager that is
//! about to take over is told nothing: traps still go to the master before it. So with each repetition of a request the
//! port that leads to the device is read again.
//!
//! | the port has lost its link | what follows |
//! |---|---|
//! | nothing had answered through it yet | it leads nowhere: the request ends |
//! | a device had | what is known of the subnet is out of date: the discovery begins anew |

use wire::attr::PortInfo;

use super::{Discovery, PortOf, Queries, Query, Repeats};
use crate::smp::{Answer, Failure};
use crate::subnet::{Index, has_link};

/// What is watched, and what has come of it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Ports that are being read again; one that does not change is read with the next repetition again.
    asked: Vec<PortOf>,
    /// Ports that have lost their links before anything has answered through them.
    lost: Vec<PortOf>,
    /// Whether a link is lost through which something has answered.
    is_outdated: bool,
}

impl Discovery {
    /// A request is sent once more. What is asked beside it.
    pub(crate) fn repeated(&mut self, query: Query) -> Queries {
        match query {
            Query::Link(..) => Vec::new(),
            Query::NodeInfo(via) => self.watch(via),
            other => {
                let way = other.device().and_then(|index| self.way_to(index));
                self.watch(way)
            }
        }
    }

    /// The port through which a device was found.
    fn way_to(&self, index: Index) -> Option<PortOf> {
        let arrival = self.subnet.devices.get(index)?.info.local_port_num;
        self.subnet.peer((index, arrival))
    }

    /// Reads a port again that was found to have a link.
    pub(super) fn watch(&mut self, end: Option<PortOf>) -> Queries {
        let Some(end) = end.filter(|end| !self.watch.asked.contains(end)) else {
            return Vec::new();
        };
        self.watch.asked.push(end);
        vec![(Query::Link(end.0, end.1), Repeats::Probe(0))]
    }

    /// A port that is watched was read again, or was not: then the way to its device is looked at.
    pub(super) fn link_seen(&mut self, end: PortOf, answer: Answer<'_>) -> Queries {
        self.watch.asked.retain(|&asked| asked != end);
        match answer.attribute::<PortInfo>() {
            Err(Failure::Timeout) => {
                let way = self.way_to(end.0);
                return self.watch(way);
            }
            Ok(info) if !has_link(&info) => {
                let slot = self.subnet.port_mut(end);
                match slot.filter(|slot| !slot.heard) {
                    Some(slot) => {
                        slot.info = Some(info);
                        self.watch.lost.push(end);
                    }
                    None => self.watch.is_outdated = true,
                }
            }
            _ => {}
        }
        Vec::new()
    }

    /// Takes out the requests through ports that have lost their links: nothing answers them.
    pub(crate) fn take_lost(&mut self) -> Vec<Query> {
        let lost = core::mem::take(&mut self.watch.lost);
        lost.into_iter()
            .map(|end| Query::NodeInfo(Some(end)))
            .collect()
    }

    /// Whether the subnet has changed behind this discovery.
    pub(crate) fn is_outdated(&self) -> bool {
        self.watch.is_outdated
    }
}
