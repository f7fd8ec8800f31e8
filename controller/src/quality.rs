//! Connections with promised bandwidth (VLARB01): who has asked for one, on which path it stands,
//! and what the ports' tables must therefore hold.
//!
//! The links' books ([`Admission`]) belong to the plan, since they follow its paths; what was asked
//! for is kept here, so that it outlives a plan. With each new plan every connection is looked at
//! again: while links and paths are as they were nothing moves, not an entry; a connection whose
//! path has changed gives its slots back and asks anew; one that no longer fits is dropped, and
//! that is told.
//!
//! Unclassified traffic is best effort, on service level 0 ([`ServiceLevels::BestEffortFirst`]):
//! management datagrams of QP1 travel there, and must before any connection stands.

use std::collections::{BTreeMap, VecDeque};

use link::Time;
use routing::qos::{
    Admission, Band, Cause, Class, ConnectionId, Entry, Layout, LinkState, Options, QosError,
    Request, ServiceLevels,
};
use topologies::{Endpoint, NodeId};
use wire::attr::{SlToVlTable, VlArbEntry, VlArbTable};
use wire::vendor::{QosCause, QosConnection};
use wire::{Guid, Lid, LinkRate, Mad, PortNum};

use crate::plan::Plan;
use crate::subnet::Subnet;

/// The most connections.
const CONNECTIONS_MAX: usize = 65_536;
/// Requests that wait for their turn at most.
const INBOX_MAX: usize = 64;
/// Answers that are kept for the case that the request is repeated.
const ANSWERED_MAX: usize = 64;
/// How long they are kept, nanoseconds.
const ANSWERED_NS: u64 = 5_000_000_000;
/// Entries that a port must have in each of its arbitration tables.
const ENTRIES: u8 = 64;

/// A connection that was granted.
#[derive(Clone, Copy, Debug)]
struct Granted {
    asked: QosConnection,
    /// In the books of the plan.
    held: Option<ConnectionId>,
}

/// A request or answer, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    /// Who asks.
    pub(crate) from: Lid,
    /// The datagram.
    pub(crate) mad: Mad,
}

/// Connections and the requests for them.
#[derive(Debug, Default)]
pub(crate) struct Quality {
    on: bool,
    granted: BTreeMap<u32, Granted>,
    last_id: u32,
    /// Requests that wait until nothing else is under way.
    inbox: VecDeque<Letter>,
    /// Answers that wait until the tables are written.
    outbox: Vec<Letter>,
    answered: VecDeque<(Time, Letter)>,
}

impl Quality {
    /// No connection yet; `on`: whether tables are to be filled at all.
    pub(crate) fn new(on: bool) -> Self {
        Self {
            on,
            ..Self::default()
        }
    }

    /// Takes in a request. Returns an answer if it has been given before; `Err` if too many wait.
    pub(crate) fn enqueue(&mut self, now: Time, from: Lid, mad: &Mad) -> Result<Option<Mad>, Full> {
        self.answered
            .retain(|(at, _)| now.since_ns(*at) < ANSWERED_NS);
        let same = |letter: &Letter| letter.from == from && letter.mad.tid() == mad.tid();
        let again = self.answered.iter().find(|(_, letter)| same(letter));
        if let Some((_, letter)) = again {
            return Ok(Some(letter.mad));
        }
        if self.inbox.iter().chain(&self.outbox).any(same) {
            return Ok(None);
        }
        if self.inbox.len() >= INBOX_MAX {
            return Err(Full);
        }
        self.inbox.push_back(Letter { from, mad: *mad });
        Ok(None)
    }

    /// The next request, oldest first.
    pub(crate) fn next(&mut self) -> Option<Letter> {
        self.inbox.pop_front()
    }

    /// Keeps an answer until [`Self::finish`].
    pub(crate) fn answer(&mut self, letter: Letter) {
        self.outbox.push(letter);
    }

    /// The tables are written: the answers that may go. One whose connection has been dropped in
    /// the meantime says so.
    pub(crate) fn finish(&mut self, now: Time) -> Vec<Letter> {
        let mut letters = core::mem::take(&mut self.outbox);
        for letter in &mut letters {
            if let Ok(mut told) = letter.mad.vendor_attribute::<QosConnection>()
                && letter.mad.method() == wire::Method::GET_RESP
                && told.cause == QosCause::Granted
                && !self.granted.contains_key(&told.id)
            {
                told.cause = QosCause::NoPath;
                letter.mad.set_vendor_attribute(&told);
            }
            if self.answered.len() == ANSWERED_MAX {
                self.answered.pop_front();
            }
            self.answered.push_back((now, *letter));
        }
        letters
    }

    /// The first connection whose id is `from` or higher.
    pub(crate) fn list(&self, from: u32) -> Option<QosConnection> {
        let (_, granted) = self.granted.range(from..).next()?;
        Some(granted.asked)
    }

    /// Admits a connection on every link of its path or on none; the answer says which.
    pub(crate) fn connect(
        &mut self,
        subnet: &Subnet,
        plan: &mut Plan,
        asked: &QosConnection,
    ) -> QosConnection {
        let refused = |cause| QosConnection { cause, ..*asked };
        if !self.on || plan.quality.is_none() {
            return refused(QosCause::Off);
        }
        if self.granted.len() >= CONNECTIONS_MAX {
            return refused(QosCause::TooMany);
        }
        let (answer, held) = admit(subnet, plan, asked);
        let Some(held) = held else {
            return answer;
        };
        self.last_id = (1..=u32::MAX)
            .map(|step| self.last_id.wrapping_add(step))
            .find(|id| *id != 0 && !self.granted.contains_key(id))
            .unwrap_or(1);
        let answer = QosConnection {
            id: self.last_id,
            ..answer
        };
        let granted = Granted {
            asked: answer,
            held: Some(held),
        };
        self.granted.insert(answer.id, granted);
        answer
    }

    /// Releases a connection; the answer says what it was.
    pub(crate) fn release(&mut self, plan: &mut Plan, asked: &QosConnection) -> QosConnection {
        let Some(granted) = self.granted.remove(&asked.id) else {
            return QosConnection {
                cause: QosCause::NoSuchConnection,
                ..*asked
            };
        };
        if let (Some(books), Some(held)) = (&mut plan.quality, granted.held) {
            // It is in the books as long as it is held.
            let _ = books.release(held);
        }
        granted.asked
    }

    /// Opens the books of a new plan, and enters the connections that stand. `old` are the books
    /// of the plan before. Returns what is worth telling.
    pub(crate) fn carry_over(
        &mut self,
        subnet: &Subnet,
        plan: &mut Plan,
        old: Option<Admission>,
    ) -> Vec<String> {
        if !self.on {
            return Vec::new();
        }
        let books = match open(subnet, plan) {
            Ok(books) => books,
            Err(why) => {
                let mut notices = vec![format!("--qos vlarb01: {why}; no bandwidth is promised")];
                let lost = core::mem::take(&mut self.granted);
                notices.extend(lost.into_values().map(|lost| dropped(subnet, &lost.asked)));
                return notices;
            }
        };
        let rates = |books: &Admission| -> Vec<(Endpoint, u64)> {
            let links = books.links();
            links.map(|(end, link)| (end, link.link_bps())).collect()
        };
        let kept =
            old.filter(|old| old.options() == books.options() && rates(old) == rates(&books));
        if kept.is_none() {
            for granted in self.granted.values_mut() {
                granted.held = None;
            }
        }
        plan.quality = Some(kept.unwrap_or(books));
        self.readmit(subnet, plan)
    }

    fn readmit(&mut self, subnet: &Subnet, plan: &mut Plan) -> Vec<String> {
        let moved: Vec<u32> = self
            .granted
            .iter()
            .filter(|(_, granted)| !is_in_place(subnet, plan, granted))
            .map(|(&id, _)| id)
            .collect();
        // All slots that are given back are there before the first is asked for again.
        for id in &moved {
            let held = self.granted.get_mut(id).and_then(|one| one.held.take());
            if let (Some(books), Some(held)) = (&mut plan.quality, held) {
                let _ = books.release(held);
            }
        }
        let mut notices = Vec::new();
        for id in moved {
            let Some(granted) = self.granted.get_mut(&id) else {
                continue;
            };
            let (answer, held) = admit(subnet, plan, &granted.asked);
            if held.is_none() {
                notices.push(dropped(subnet, &answer));
                self.granted.remove(&id);
                continue;
            }
            if answer.dlid != granted.asked.dlid {
                notices.push(format!(
                    "connection {id} must use another destination LID from now on: {}",
                    answer.dlid
                ));
            }
            granted.asked = answer;
            granted.held = held;
        }
        notices
    }
}

/// Too many requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

fn dropped(subnet: &Subnet, lost: &QosConnection) -> String {
    let name = |guid| {
        let index = subnet.find_end_port(guid);
        index.map_or_else(|| guid.to_string(), |index| subnet.devices[index].label())
    };
    format!(
        "connection {} from {} to {} is dropped: its path has changed and there is no room for it \
         ({:?})",
        lost.id,
        name(lost.source),
        name(lost.destination),
        lost.cause
    )
}

/// Books without connections for all links of a plan.
fn open(subnet: &Subnet, plan: &Plan) -> Result<Admission, String> {
    let mut lanes = 15;
    for (index, device) in subnet.devices.iter().enumerate() {
        for (port, _) in device.cables() {
            let shared = crate::port_settings::shared_lanes(subnet, (index, port));
            lanes = lanes.min(shared.unwrap_or(1));
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
    if lanes < 2 {
        return Err("every link needs two data lanes or more".into());
    }
    let options = Options {
        layout: Layout::Interleaved,
        service_levels: ServiceLevels::BestEffortFirst,
        data_vls: lanes,
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

/// The output ports from one end port to another, and the DLID that leads over them.
fn path(
    subnet: &Subnet,
    plan: &Plan,
    asked: &QosConnection,
) -> Result<(Lid, Vec<Endpoint>), QosCause> {
    let find = |guid: Guid| subnet.find_end_port(guid).ok_or(QosCause::NoSuchPort);
    let (from, _) = (find(asked.source)?, find(asked.destination)?);
    let tables = plan.tables.as_ref().ok_or(QosCause::NotUp)?;
    let dlid = tables
        .dlid_for(asked.source, asked.destination)
        .ok_or(QosCause::NoPath)?;
    let start = Endpoint {
        node: NodeId::from_index(from),
        port: subnet.devices[from].end_port(),
    };
    let path = tables.path(&plan.graph, start, dlid);
    let ports: Vec<Endpoint> = path
        .hops
        .iter()
        .filter(|hop| hop.exit != PortNum::MANAGEMENT)
        .map(|hop| Endpoint {
            node: hop.node,
            port: hop.exit,
        })
        .collect();
    if path.arrives && !ports.is_empty() {
        Ok((dlid, ports))
    } else {
        Err(QosCause::NoPath)
    }
}

fn is_in_place(subnet: &Subnet, plan: &Plan, granted: &Granted) -> bool {
    let standing = granted
        .held
        .and_then(|held| plan.quality.as_ref()?.connection(held));
    let (Some(standing), Ok((dlid, ports))) = (standing, path(subnet, plan, &granted.asked)) else {
        return false;
    };
    let held = standing.links.iter().map(|&(port, _)| port);
    dlid == granted.asked.dlid && held.eq(ports)
}

fn admit(
    subnet: &Subnet,
    plan: &mut Plan,
    asked: &QosConnection,
) -> (QosConnection, Option<ConnectionId>) {
    let mut answer = QosConnection {
        cause: QosCause::Granted,
        port: PortNum::default(),
        node: Guid(0),
        wanted: 0,
        left: 0,
        ..*asked
    };
    let (dlid, ports) = match path(subnet, plan, asked) {
        Ok(path) => path,
        Err(cause) => {
            answer.cause = cause;
            return (answer, None);
        }
    };
    let Some(books) = &mut plan.quality else {
        answer.cause = QosCause::Off;
        return (answer, None);
    };
    let band = Band::of(asked.rate_bps);
    let class = match asked.time_sensitive {
        true => Class::TimeSensitive(band),
        false => Class::Dedicated(band),
    };
    answer.dlid = dlid;
    answer.sl = books.options().service_levels.sl(class);
    let request = Request {
        class,
        rate_bps: asked.rate_bps,
        path: &ports,
    };
    match books.request(&request) {
        Ok(held) => match too_far(books, class, asked.distance, &ports) {
            None => (answer, Some(held)),
            Some((at, distance)) => {
                let _ = books.release(held);
                answer.cause = QosCause::Distance;
                answer.wanted = u32::from(asked.distance);
                answer.left = u32::try_from(distance).unwrap_or(u32::MAX);
                locate(subnet, &mut answer, at);
                (answer, None)
            }
        },
        Err(error) => {
            explain(subnet, &mut answer, error);
            (answer, None)
        }
    }
}

/// The first port where the lane's turns are further apart than they may be, and how far.
fn too_far(
    books: &Admission,
    class: Class,
    distance_max: u8,
    ports: &[Endpoint],
) -> Option<(Endpoint, usize)> {
    if distance_max == 0 {
        return None;
    }
    let vl = books.options().vl(class);
    ports.iter().find_map(|&at| {
        let link = books.link(at)?;
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
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
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

/// Service levels to lanes on the way out of a port whose link promises bandwidth.
pub(crate) fn lanes(plan: &Plan, output: (usize, PortNum)) -> Option<SlToVlTable> {
    link(plan, output)?;
    let options = plan.quality.as_ref()?.options();
    Some(SlToVlTable(options.service_levels.sl2vl(options.data_vls)))
}

/// A block of the arbitration of such a port.
pub(crate) fn weights(plan: &Plan, output: (usize, PortNum), block: u8) -> Option<VlArbTable> {
    let link = link(plan, output)?;
    let (table, first) = match block {
        VlArbTable::LOW_FIRST => (link.low(), 0),
        VlArbTable::LOW_SECOND => (link.low(), 32),
        VlArbTable::HIGH_FIRST => (link.high(), 0),
        VlArbTable::HIGH_SECOND => (link.high(), 32),
        _ => return None,
    };
    let mut block = VlArbTable::default();
    for (to, from) in block.0.iter_mut().zip(&table.entries()[first..]) {
        let Entry { vl, weight } = *from;
        *to = VlArbEntry { vl, weight };
    }
    Some(block)
}

/// LimitOfHighPriority of such a port.
pub(crate) fn high_limit(plan: &Plan, output: (usize, PortNum)) -> Option<u8> {
    Some(link(plan, output)?.high_limit())
}

fn link(plan: &Plan, (index, port): (usize, PortNum)) -> Option<&LinkState> {
    let node = NodeId::from_index(index);
    plan.quality.as_ref()?.link(Endpoint { node, port })
}
