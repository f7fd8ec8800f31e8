//! Admission of connections: bandwidth is reserved on every link of a path, or the request is
//! refused with a cause.

use routing::qos::{
    Admission, Band, Cause, Class, ConnectionId, Layout, Options, QosError, Request, ServiceLevels,
};
use topologies::{Endpoint, NodeId};
use wire::convert::saturate;
use wire::vendor::{QosCause, QosConnection};
use wire::{Guid, Lid, LinkRate, PortNum};

use crate::plan::Plan;
use crate::subnet::{Index, Subnet};

/// The mean rate of replies, bits a second: the least that there is, one slot.
const REPLIES_BPS: u64 = 1;
/// Entries that a port must have in each of its arbitration tables.
const ENTRIES: u8 = 64;

/// The reservation of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    forward: ConnectionId,
    /// For replies.
    reverse: ConnectionId,
}

impl Reservation {
    /// Releases both directions. Both are reserved, so neither is refused.
    pub(super) fn release(self, admission: &mut Admission) {
        for one in [self.forward, self.reverse] {
            let _ = admission.release(one);
        }
    }
}

/// Admission without connections on all links of a plan.
pub(super) fn new_admission(subnet: &Subnet, plan: &Plan) -> Result<Admission, String> {
    if plan.vls().is_some_and(|vls| vls.data_vls > 1) {
        return Err("the routing engine needs service levels and VLs for itself".into());
    }
    let mut data_vls = 15;
    for (index, device) in subnet.devices.iter().enumerate() {
        for (port, _) in device.cables() {
            let shared = crate::port_settings::shared_vls(subnet, (index, port));
            data_vls = data_vls.min(shared.unwrap_or(1));
            let room = device.port_info(port).is_some_and(|info| {
                info.vl_arbitration_low_cap >= ENTRIES && info.vl_arbitration_high_cap >= ENTRIES
            });
            if !room {
                return Err(format!(
                    "port {port} of {} has fewer than {ENTRIES} entries in its tables",
                    device.label()
                ));
            }
        }
    }
    if data_vls < 2 {
        return Err("every link needs two data VLs or more".into());
    }
    let options = Options {
        layout: Layout::Interleaved,
        service_levels: ServiceLevels::BestEffortFirst,
        data_vls,
        ..Options::default()
    };
    let rate = |end: Endpoint| link_rate(subnet, end).unwrap_or(0);
    Admission::new(&plan.graph, options, rate).map_err(|error| error.to_string())
}

fn link_rate(subnet: &Subnet, end: Endpoint) -> Option<u64> {
    let device = subnet.devices.get(end.node.index())?;
    let info = device.port_info(end.port)?;
    let rate = LinkRate {
        width: info.width()?,
        speed: info.speed()?,
    };
    Some(rate.data_rate_bits_per_s())
}

/// The links that a connection's packets and their replies take.
struct Routes {
    dlid: Lid,
    /// Output ports from its source to its destination.
    forward: Vec<Endpoint>,
    /// Those of the way back to its source's base LID.
    reverse: Vec<Endpoint>,
}

/// Where the tables of a plan lead a connection's packets, and the answers to them.
fn routes(subnet: &Subnet, plan: &Plan, asked: &QosConnection) -> Result<Routes, QosCause> {
    let find = |guid: Guid| subnet.find_end_port(guid).ok_or(QosCause::NoSuchPort);
    let (from, to) = (find(asked.source)?, find(asked.destination)?);
    if from == to {
        return Err(QosCause::NoPath);
    }
    let tables = plan.tables.as_ref().ok_or(QosCause::NotUp)?;
    let dlid = tables
        .dlid_for(asked.source, asked.destination)
        .ok_or(QosCause::NoPath)?;
    let (base, _) = plan.lid(from).ok_or(QosCause::NoPath)?;
    let forward = outputs(subnet, plan, from, dlid).ok_or(QosCause::NoPath)?;
    let reverse = outputs(subnet, plan, to, base).ok_or(QosCause::NoPath)?;
    Ok(Routes {
        dlid,
        forward,
        reverse,
    })
}

/// The output ports from a device to a LID; `None` if that is the device's own or out of reach.
fn outputs(subnet: &Subnet, plan: &Plan, from: Index, dlid: Lid) -> Option<Vec<Endpoint>> {
    let start = Endpoint {
        node: NodeId::from_index(from),
        port: subnet.devices.get(from)?.end_port(),
    };
    let path = plan.tables.as_ref()?.path(&plan.graph, start, dlid);
    let ports: Vec<Endpoint> = path
        .hops
        .iter()
        .filter(|hop| hop.exit != PortNum::MANAGEMENT)
        .map(|hop| Endpoint {
            node: hop.node,
            port: hop.exit,
        })
        .collect();
    (path.arrives && !ports.is_empty()).then_some(ports)
}

/// Reserves a connection's bandwidth on every link of its path, or on none.
pub(super) fn admit(
    subnet: &Subnet,
    plan: &Plan,
    admission: &mut Admission,
    asked: &QosConnection,
) -> (QosConnection, Option<Reservation>) {
    let mut answer = QosConnection {
        cause: QosCause::Granted,
        port: PortNum::default(),
        node: Guid(0),
        wanted: 0,
        left: 0,
        ..*asked
    };
    let routes = match routes(subnet, plan, asked) {
        Ok(routes) => routes,
        Err(cause) => {
            answer.cause = cause;
            return (answer, None);
        }
    };
    let band = Band::of(asked.rate_bps);
    let class = match asked.time_sensitive {
        true => Class::TimeSensitive(band),
        false => Class::Dedicated(band),
    };
    answer.dlid = routes.dlid;
    answer.sl = admission.options().service_levels.sl(class);
    let reservation = match reserve(admission, class, asked.rate_bps, &routes) {
        Ok(reservation) => reservation,
        Err(error) => {
            explain(subnet, &mut answer, error);
            return (answer, None);
        }
    };
    if let Some((at, distance)) = excess_distance(admission, class, asked.distance, &routes.forward)
    {
        reservation.release(admission);
        answer.cause = QosCause::Distance;
        answer.wanted = u32::from(asked.distance);
        answer.left = saturate::<u32>(distance);
        locate(subnet, &mut answer, at);
        return (answer, None);
    }
    (answer, Some(reservation))
}

/// Both directions, or none.
fn reserve(
    admission: &mut Admission,
    class: Class,
    rate_bps: u64,
    routes: &Routes,
) -> Result<Reservation, QosError> {
    let forward = admission.request(&Request {
        class,
        rate_bps,
        path: &routes.forward,
    })?;
    let reverse = admission.request(&Request {
        class,
        rate_bps: REPLIES_BPS,
        path: &routes.reverse,
    });
    match reverse {
        Ok(reverse) => Ok(Reservation { forward, reverse }),
        Err(error) => {
            let _ = admission.release(forward);
            Err(error)
        }
    }
}

/// The first port where two entries of the VL are further apart than `distance_max`, and how far.
fn excess_distance(
    admission: &Admission,
    class: Class,
    distance_max: u8,
    ports: &[Endpoint],
) -> Option<(Endpoint, usize)> {
    if distance_max == 0 {
        return None;
    }
    let vl = admission.options().vl(class);
    ports.iter().find_map(|&at| {
        let link = admission.link(at)?;
        let table = match class {
            Class::TimeSensitive(_) => link.high(),
            _ => link.low(),
        };
        let own: Vec<usize> = (0..)
            .zip(table.entries())
            .filter(|(_, entry)| entry.weight > 0 && entry.vl == vl)
            .map(|(place, _)| place)
            .collect();
        let first = *own.first()?;
        let next = own
            .iter()
            .skip(1)
            .copied()
            .chain([first + table.entries().len()]);
        let widest = own.iter().zip(next).map(|(one, next)| next - one).max()?;
        (widest > usize::from(distance_max)).then_some((at, widest))
    })
}

fn locate(subnet: &Subnet, answer: &mut QosConnection, at: Endpoint) {
    answer.port = at.port;
    answer.node = subnet
        .devices
        .get(at.node.index())
        .map_or(Guid(0), |device| device.guid());
}

fn explain(subnet: &Subnet, answer: &mut QosConnection, error: QosError) {
    let count = |number: usize| saturate::<u32>(number);
    answer.cause = match error {
        QosError::Refused { at, cause } => {
            locate(subnet, answer, at);
            match cause {
                Cause::Bandwidth { wanted, left } => {
                    (answer.wanted, answer.left) = (wanted, left);
                    QosCause::Bandwidth
                }
                Cause::Entries { wanted, free } => {
                    (answer.wanted, answer.left) = (count(wanted), count(free));
                    QosCause::Entries
                }
            }
        }
        QosError::NoRate | QosError::RateAboveLink { .. } => QosCause::Rate,
        _ => QosCause::NoPath,
    };
}

/// The output ports from source to destination, by node GUID; none if there is no way.
pub(super) fn path(subnet: &Subnet, plan: &Plan, asked: &QosConnection) -> Vec<(Guid, PortNum)> {
    let Ok(routes) = routes(subnet, plan, asked) else {
        return Vec::new();
    };
    let name = |end: &Endpoint| {
        let device = subnet.devices.get(end.node.index())?;
        Some((device.guid(), end.port))
    };
    routes.forward.iter().filter_map(name).collect()
}

/// Whether a plan leads a connection over the links that are reserved for it.
pub(super) fn follows_plan(
    subnet: &Subnet,
    plan: &Plan,
    admission: &Admission,
    asked: &QosConnection,
    reservation: Reservation,
) -> bool {
    let reserved = |id: ConnectionId, ports: &[Endpoint]| {
        let connection = admission.connection(id);
        connection.is_some_and(|connection| {
            let links = connection.links.iter().map(|(port, _)| port);
            links.eq(ports)
        })
    };
    routes(subnet, plan, asked).is_ok_and(|routes| {
        routes.dlid == asked.dlid
            && reserved(reservation.forward, &routes.forward)
            && reserved(reservation.reverse, &routes.reverse)
    })
}
