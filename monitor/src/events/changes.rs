//! What has changed from one snapshot to the next.

use std::collections::BTreeMap;

use super::event::{Event, Kind};
use crate::model::{Fabric, PortState, ProcessFacts, Snapshot};

/// What has happened between two snapshots; nothing before the first.
pub(super) fn between(before: &Snapshot, after: &Snapshot) -> Vec<Event> {
    let mut events = Vec::new();
    if before.sequence > 0 {
        devices(&before.fabric, &after.fabric, &mut events);
        cables(&before.fabric, &after.fabric, &mut events);
        drops(before, after, &mut events);
    }
    processes(&before.processes, &after.processes, &mut events);
    let at_ms = after.at_ms;
    events.into_iter().map(|event| event.at(at_ms)).collect()
}

fn devices(before: &Fabric, after: &Fabric, events: &mut Vec<Event>) {
    if before.generation == after.generation {
        return;
    }
    for (place, node) in after.nodes.iter().enumerate() {
        let was_present = before.nodes.get(place).is_some_and(|node| node.is_present);
        if was_present == node.is_present {
            continue;
        }
        let what = if node.is_present { "is in" } else { "has left" };
        let text = format!("{} {what} the subnet", node.name);
        let event = Event::new(Kind::Device, text)
            .of(&node.name)
            .with("present", node.is_present)
            .with("guid", format!("{:#018x}", node.guid));
        events.push(event);
    }
}

fn cables(before: &Fabric, after: &Fabric, events: &mut Vec<Event>) {
    if before.generation == after.generation {
        return;
    }
    for (place, port) in after.ports.iter().enumerate() {
        let was = before.ports.get(place);
        // Of a cable that was pulled only what was there before tells the other end.
        let peer = port.peer.or_else(|| was?.peer);
        let Some(peer) = peer.filter(|&peer| place < peer) else {
            continue;
        };
        let state = |fabric: &Fabric| {
            let ends = [place, peer].map(|end| fabric.ports.get(end));
            let state = |port: Option<&crate::model::Port>| {
                // A port without a peer has no link that anybody could use.
                let port = port.filter(|port| port.peer.is_some());
                port.map_or(PortState::Down, |port| port.state)
            };
            state(ends[0]).min(state(ends[1]))
        };
        let (old, new) = (state(before), state(after));
        if old == new {
            continue;
        }
        let (Some(here), Some(there)) = (after.at(place), after.at(peer)) else {
            continue;
        };
        let [old, new] = [old, new].map(wire::choice::Choice::name);
        let [a, b] = [here, there].map(|(node, port)| format!("{}:{}", node.name, port.number));
        let text = format!("the cable {a} - {b} is {new}, was {old}");
        let event = Event::new(Kind::Link, text)
            .of(&here.0.name)
            .port(Some(here.1.number))
            .with("peer", there.0.name.as_str())
            .with("peer_port", there.1.number)
            .with("state", new)
            .with("before", old);
        events.push(event);
    }
}

fn drops(before: &Snapshot, after: &Snapshot, events: &mut Vec<Event>) {
    let devices = before.devices.iter().zip(after.devices.iter());
    for ((old, new), node) in devices.zip(&after.fabric.nodes) {
        if old.at_ms == 0 || new.at_ms == old.at_ms {
            continue;
        }
        for (&port, reasons) in &new.drops {
            let known = old.drops.get(&port);
            let more = reasons.iter().filter_map(|(reason, &count)| {
                let before = known.and_then(|known| known.get(reason)).copied();
                // Fewer than before: the device was restarted, and has counted these since.
                let more = count.checked_sub(before.unwrap_or(0)).unwrap_or(count);
                (more > 0).then_some((reason.as_str(), more))
            });
            let more: BTreeMap<&str, u64> = more.collect();
            if more.is_empty() {
                continue;
            }
            let list = more
                .iter()
                .map(|(reason, count)| format!("{count} {reason}"));
            let list: Vec<String> = list.collect();
            let text = format!(
                "port {port} of {} has dropped packets: {}",
                node.name,
                list.join(", ")
            );
            let mut event = Event::new(Kind::Drop, text).of(&node.name).port(Some(port));
            let counts = more
                .iter()
                .map(|(reason, count)| ((*reason).to_owned(), (*count).into()));
            let counts: serde_json::Map<String, serde_json::Value> = counts.collect();
            event = event.with("reasons", counts);
            events.push(event);
        }
    }
}

fn processes(before: &[ProcessFacts], after: &[ProcessFacts], events: &mut Vec<Event>) {
    let before: BTreeMap<&str, &ProcessFacts> =
        before.iter().map(|it| (it.name.as_str(), it)).collect();
    for now in after {
        let Some(was) = before.get(now.name.as_str()) else {
            continue;
        };
        let text = match (was.pid, now.pid) {
            (Some(_), None) => format!("{} does not run any more", now.name),
            (None, Some(pid)) => format!("{} runs, process {pid}", now.name),
            (Some(old), Some(new)) if old != new => {
                format!("{} was started again, process {new} after {old}", now.name)
            }
            _ => continue,
        };
        let event = Event::new(Kind::Process, text)
            .of(&now.name)
            .with("role", now.role.as_str())
            .with("pid", now.pid)
            .with("restarts", now.restarts);
        events.push(event);
    }
}
