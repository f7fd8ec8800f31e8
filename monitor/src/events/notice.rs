//! Notices in words (IBA 14.2.5.1), with the names of who is meant. Keys are not told: a wrong one may be the right one
//! of another subnet.

use wire::attr::{
    Notice, Trap144, Trap145, Trap256, Trap257, Trap259, TrapGid, TrapLid, TrapPort, trap,
};
use wire::{Format, Gid, Lid};

use super::event::{Event, Kind};
use super::names::Names;

/// What the notice of a report says.
pub(super) fn event(notice: &Notice, names: &Names) -> Event {
    let number = notice.trap_number;
    let event = match notice.is_generic {
        true => generic(notice, names),
        false => None,
    };
    let event = event.unwrap_or_else(|| unknown(notice, names));
    let issuer = names
        .of_lid(notice.issuer_lid)
        .map(|(name, _)| name.clone());
    let severity = match notice.notice_type {
        Notice::TYPE_FATAL => "fatal",
        Notice::TYPE_URGENT => "urgent",
        Notice::TYPE_SECURITY => "security",
        Notice::TYPE_SUBNET_MANAGEMENT => "subnet management",
        Notice::TYPE_INFORMATIONAL => "informational",
        _ => "unknown",
    };
    let event = event
        .with("trap", number)
        .with("severity", severity)
        .with("issuer_lid", notice.issuer_lid.get());
    let event = match notice.is_generic {
        true => event.with("name", name(number)),
        false => event.with("vendor", notice.producer_type),
    };
    match issuer {
        Some(issuer) => event.with("issuer", issuer),
        None => event,
    }
}

/// What a generic trap is called.
const fn name(number: u16) -> &'static str {
    match number {
        trap::GID_IN_SERVICE => "GID in service",
        trap::GID_OUT_OF_SERVICE => "GID out of service",
        trap::MULTICAST_GROUP_CREATED => "multicast group created",
        trap::MULTICAST_GROUP_DELETED => "multicast group deleted",
        trap::LINK_STATE_CHANGE => "link state change",
        trap::LINK_INTEGRITY => "local link integrity threshold reached",
        trap::BUFFER_OVERRUN => "excessive buffer overrun threshold reached",
        trap::FLOW_CONTROL_WATCHDOG => "flow control watchdog expired",
        trap::CAPABILITY_CHANGE => "local change",
        trap::SYSTEM_IMAGE_GUID_CHANGE => "system image GUID change",
        trap::BAD_M_KEY => "bad M_Key",
        trap::BAD_P_KEY => "bad P_Key",
        trap::BAD_Q_KEY => "bad Q_Key",
        trap::BAD_P_KEY_SWITCH => "bad P_Key at a switch",
        _ => "unknown",
    }
}

/// A trap of which nothing but its number is known.
fn unknown(notice: &Notice, names: &Names) -> Event {
    let whose = match notice.is_generic {
        true => String::new(),
        false => format!(" of vendor {:#08x}", notice.producer_type),
    };
    let text = format!(
        "{} reports trap {}{whose}",
        names.lid(notice.issuer_lid),
        notice.trap_number
    );
    about(notice.issuer_lid, names, text)
}

/// A generic trap; `None` for a number that is not known, and for details that cannot be read.
fn generic(notice: &Notice, names: &Names) -> Option<Event> {
    let number = notice.trap_number;
    let issuer = notice.issuer_lid;
    Some(match number {
        trap::GID_IN_SERVICE | trap::GID_OUT_OF_SERVICE => {
            let TrapGid { gid } = details(notice)?;
            let what = match number {
                trap::GID_IN_SERVICE => "in",
                _ => "out of",
            };
            let text = format!("{} is {what} service (trap {number})", names.gid(gid));
            about_gid(gid, names, text).with("gid", gid.to_string())
        }
        trap::MULTICAST_GROUP_CREATED | trap::MULTICAST_GROUP_DELETED => {
            let TrapGid { gid } = details(notice)?;
            let what = match number {
                trap::MULTICAST_GROUP_CREATED => "was created",
                _ => "has ended",
            };
            let text = format!("multicast group {gid} {what} (trap {number})");
            Event::new(Kind::Trap, text).with("gid", gid.to_string())
        }
        trap::LINK_STATE_CHANGE => {
            let TrapLid { lid } = details(notice)?;
            let text = format!(
                "a link of {} has changed its state (trap {number})",
                names.lid(lid)
            );
            about(lid, names, text)
        }
        trap::LINK_INTEGRITY | trap::BUFFER_OVERRUN | trap::FLOW_CONTROL_WATCHDOG => {
            let TrapPort { lid, port } = details(notice)?;
            let who = names.lid(lid);
            let text = format!("port {port} of {who}: {} (trap {number})", name(number));
            about(lid, names, text).port(Some(port.get()))
        }
        trap::CAPABILITY_CHANGE => local_change(&details(notice)?, issuer, names),
        trap::SYSTEM_IMAGE_GUID_CHANGE => {
            let Trap145 {
                system_image_guid, ..
            } = details(notice)?;
            let who = names.lid(issuer);
            let text =
                format!("{who} has another system image GUID, {system_image_guid} (trap {number})");
            about(issuer, names, text).with("system_image_guid", system_image_guid.to_string())
        }
        _ => return refused(notice, names),
    })
}

fn local_change(change: &Trap144, issuer: Lid, names: &Names) -> Event {
    let flag = |bit: u16| change.other_local_changes && change.change_flags & bit != 0;
    let all = [
        (Trap144::NODE_DESCRIPTION_CHANGE, "node description"),
        (Trap144::LINK_WIDTH_ENABLED_CHANGE, "enabled link widths"),
        (Trap144::LINK_SPEED_ENABLED_CHANGE, "enabled link speeds"),
        (Trap144::SM_PRIORITY_CHANGE, "subnet manager's priority"),
    ];
    let changed = all.into_iter().filter(|&(bit, _)| flag(bit));
    let changed: Vec<&str> = changed.map(|(_, what)| what).collect();
    let what = match changed.is_empty() {
        true => "capabilities".to_owned(),
        false => changed.join(", "),
    };
    let text = format!("{} has changed its {what} (trap 144)", names.lid(issuer));
    about(issuer, names, text)
        .with("changed", what)
        .with("capability_mask", change.capability_mask)
}

/// A trap of a packet with a wrong key.
fn refused(notice: &Notice, names: &Names) -> Option<Event> {
    let number = notice.trap_number;
    let issuer = notice.issuer_lid;
    let who = names.lid(issuer);
    Some(match number {
        trap::BAD_M_KEY => {
            let request: Trap256 = details(notice)?;
            // A request that came by its route alone gives the permissive LID.
            let from = match request.lid.is_unicast() {
                true => names.lid(request.lid),
                false => "a directed route".to_owned(),
            };
            let text = format!(
                "{who} has refused a request (method {}, attribute {}) from {from} with a wrong M_Key (trap 256)",
                request.method, request.attr_id
            );
            about(issuer, names, text)
                .with("from", from)
                .with("method", request.method.0)
                .with("attribute", request.attr_id.0)
        }
        trap::BAD_P_KEY => {
            let packet: Trap257 = details(notice)?;
            let (from, key) = (names.lid(packet.slid), packet.key & 0xffff);
            let text = format!(
                "{who} has dropped a packet from {from} with P_Key {key:#06x}, which it does not take (trap 257)"
            );
            about(issuer, names, text)
                .with("from", from)
                .with("p_key", key)
        }
        trap::BAD_Q_KEY => {
            let packet: Trap257 = details(notice)?;
            let from = names.lid(packet.slid);
            let text = format!(
                "{who} has dropped a packet from {from} for queue pair {} with a wrong Q_Key (trap 258)",
                packet.dest_qp
            );
            about(issuer, names, text)
                .with("from", from)
                .with("queue_pair", packet.dest_qp.get())
        }
        trap::BAD_P_KEY_SWITCH => {
            let packet: Trap259 = details(notice)?;
            let (from, to) = (names.lid(packet.slid), names.lid(packet.dlid));
            let text = format!(
                "port {} of {who} has stopped a packet from {from} to {to} with P_Key {:#06x} (trap 259)",
                packet.port, packet.p_key
            );
            about(issuer, names, text)
                .port(Some(packet.port.get()))
                .with("from", from)
                .with("to", to)
                .with("p_key", packet.p_key)
        }
        _ => return None,
    })
}

fn details<D: Format>(notice: &Notice) -> Option<D> {
    Some(D::parse(&notice.details).ok()?.0)
}

fn about(lid: Lid, names: &Names, text: String) -> Event {
    placed(Event::new(Kind::Trap, text), names.of_lid(lid))
}

fn about_gid(gid: Gid, names: &Names, text: String) -> Event {
    placed(Event::new(Kind::Trap, text), names.of_guid(gid.guid()))
}

fn placed(event: Event, place: Option<&super::names::Place>) -> Event {
    match place {
        Some((device, port)) => event.of(device).port(*port),
        None => event,
    }
}
