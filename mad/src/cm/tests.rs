//! Two managers in virtual time, and a channel between them that loses, repeats and turns round.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wire::cm::{CmPath, RejReason, SidrStatus};
use wire::{Guid, MadHeader, Method, MgmtClass};

use super::*;

const SERVICE: u64 = 0x0106_1c06;
const MS: u64 = 1_000_000;
const A: u16 = 1;
const B: u16 = 2;

fn route(to: u16, own: u16) -> Route {
    Route {
        lid: Lid::new(to),
        own_lid: Lid::new(own),
        sl: Sl::default(),
        pkey: 0xffff,
    }
}

fn req(qpn: u32) -> Req {
    Req {
        local_comm_id: 0,
        service_id: SERVICE,
        local_ca_guid: Guid(7),
        local_qkey: 0,
        local_qpn: Qpn::truncate(qpn),
        responder_resources: 4,
        initiator_depth: 4,
        // 67 ms
        remote_cm_response_timeout: 14,
        transport_service: 0,
        end_to_end_flow_control: true,
        starting_psn: Psn::truncate(5),
        local_cm_response_timeout: 14,
        retry_count: 7,
        pkey: 0xffff,
        path_mtu: 5,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        srq: false,
        primary: CmPath {
            local_ack_timeout: 14,
            ..CmPath::default()
        },
        alternate: CmPath::default(),
        private_data: [0; Req::PRIVATE_LEN],
    }
}

fn rep(qpn: u32) -> Rep {
    Rep {
        local_comm_id: 0,
        remote_comm_id: 0,
        local_qkey: 0,
        local_qpn: Qpn::truncate(qpn),
        starting_psn: Psn::truncate(6),
        responder_resources: 4,
        initiator_depth: 4,
        target_ack_delay: 0,
        failover_accepted: 0,
        end_to_end_flow_control: true,
        rnr_retry_count: 7,
        srq: false,
        local_ca_guid: Guid(8),
        private_data: [0; Rep::PRIVATE_LEN],
    }
}

/// What becomes of a datagram: when its copies arrive.
type Fate = Box<dyn FnMut(&Mad) -> Vec<u64>>;

struct Bed {
    now: Time,
    agents: [Agent; 2],
    flying: BTreeMap<(Time, u64), (usize, Mad)>,
    sent: u64,
    fate: Fate,
    events: [Vec<CmEvent>; 2],
}

impl Bed {
    fn new() -> Self {
        let mut agents = [Agent::new(1), Agent::new(2)];
        agents[1].listen(SERVICE);
        Self {
            now: Time::ZERO,
            agents,
            flying: BTreeMap::new(),
            sent: 0,
            fate: Box::new(|_| vec![10_000]),
            events: [Vec::new(), Vec::new()],
        }
    }

    fn lid(side: usize) -> u16 {
        [A, B][side]
    }

    fn connect(&mut self, qpn: u32) -> CmId {
        let now = self.now;
        let id = self.agents[0].connect(now, route(B, A), req(qpn));
        id.expect("there is room")
    }

    /// Sends what waits; the events that have come since the last call.
    fn settle(&mut self) {
        for side in 0..2 {
            while let Some((to, mad)) = self.agents[side].poll_send() {
                assert_eq!(to.lid.get(), Self::lid(1 - side));
                for delay in (self.fate)(&mad) {
                    self.sent += 1;
                    let key = (self.now + delay, self.sent);
                    self.flying.insert(key, (1 - side, mad));
                }
            }
            while let Some(event) = self.agents[side].poll_event() {
                self.events[side].push(event);
            }
        }
    }

    /// One step to the next moment at which something happens, until `end`. Whether there was one.
    fn step(&mut self, end: Time) -> bool {
        self.settle();
        let flight = self.flying.first_key_value().map(|((at, _), _)| *at);
        let due = self.agents.iter().filter_map(Agent::deadline).min();
        let next = [flight, due].into_iter().flatten().min();
        let Some(next) = next.filter(|next| *next <= end) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry()
            && entry.key().0 <= self.now
        {
            let (to, mad) = entry.remove();
            let from = route(Self::lid(1 - to), Self::lid(to));
            assert!(self.agents[to].receive(self.now, from, &mad));
        }
        for agent in &mut self.agents {
            agent.tick(self.now);
        }
        self.settle();
        true
    }

    fn run(&mut self, ms: u64) {
        let end = self.now + ms * MS;
        while self.step(end) {}
    }

    fn take(&mut self, side: usize) -> Vec<CmEvent> {
        std::mem::take(&mut self.events[side])
    }

    /// A connection that stands; its numbers at both ends.
    fn established(&mut self, qpns: (u32, u32)) -> (CmId, CmId) {
        let a = self.connect(qpns.0);
        self.run(1);
        let [CmEvent::Requested { id: b, .. }] = self.take(1)[..] else {
            panic!("no request");
        };
        let granted = self.agents[1].grant(self.now, b, rep(qpns.1));
        assert_eq!(granted, Ok(()));
        self.run(1);
        assert!(matches!(self.take(0)[..], [CmEvent::Granted { .. }]));
        assert_eq!(self.agents[0].ready(a), Ok(()));
        self.run(1);
        assert_eq!(self.take(1), [CmEvent::Established { id: b }]);
        (a, b)
    }

    fn is_empty(&self) -> bool {
        self.agents.iter().all(Agent::is_empty)
    }
}

#[test]
fn a_connection_is_made_and_ended_and_leaves_nothing() {
    let mut bed = Bed::new();
    let (a, b) = bed.established((0x11, 0x22));
    assert_eq!(bed.agents[1].disconnect(bed.now, b), Ok(()));
    bed.run(1);
    assert_eq!(bed.take(0), [CmEvent::Disconnected { id: a }]);
    assert_eq!(bed.take(1), [CmEvent::Disconnected { id: b }]);
    assert_eq!(bed.agents[0].disconnect(bed.now, a), Err(CmError::State));
    bed.run(100);
    assert_eq!(bed.take(0), [CmEvent::TimeWaitOver { id: a }]);
    assert_eq!(bed.take(1), [CmEvent::TimeWaitOver { id: b }]);
    assert!(bed.is_empty());
    assert_eq!(bed.agents[0].deadline(), None);
}

#[test]
fn both_ends_may_end_it_at_once() {
    let mut bed = Bed::new();
    let (a, b) = bed.established((0x11, 0x22));
    let now = bed.now;
    for (side, id) in [(0, a), (1, b)] {
        assert_eq!(bed.agents[side].disconnect(now, id), Ok(()));
    }
    bed.run(1000);
    for (side, id) in [(0, a), (1, b)] {
        let ended = [CmEvent::Disconnected { id }, CmEvent::TimeWaitOver { id }];
        assert_eq!(bed.take(side), ended);
    }
    assert!(bed.is_empty());
}

#[test]
fn where_nobody_listens_the_answer_says_so() {
    let mut bed = Bed::new();
    bed.agents[1].unlisten(SERVICE);
    let a = bed.connect(0x11);
    bed.run(1);
    let [CmEvent::Refused { id, rej }] = &bed.take(0)[..] else {
        panic!("no refusal");
    };
    assert_eq!((*id, rej.reason), (a, RejReason::INVALID_SERVICE_ID));
    assert!(bed.is_empty());
}

#[test]
fn a_refusal_carries_reason_information_and_private_data() {
    let mut bed = Bed::new();
    bed.connect(0x11);
    bed.run(1);
    let [CmEvent::Requested { id: b, .. }] = bed.take(1)[..] else {
        panic!("no request");
    };
    let refusal = Refusal {
        reason: RejReason::CONSUMER,
        info: vec![1, 2, 3],
        private_data: vec![9; 300],
    };
    assert_eq!(bed.agents[1].refuse(bed.now, b, &refusal), Ok(()));
    bed.run(1);
    let [CmEvent::Refused { rej, .. }] = &bed.take(0)[..] else {
        panic!("no refusal");
    };
    assert_eq!((rej.info_len, &rej.info[..4]), (3, &[1, 2, 3, 0][..]));
    assert_eq!(rej.private_data, [9; 148]);
    assert!(bed.is_empty());
}

#[test]
fn a_peer_that_does_not_answer_is_unreachable_after_all_repetitions() {
    let mut bed = Bed::new();
    bed.fate = Box::new(|_| Vec::new());
    let a = bed.connect(0x11);
    let wait_ms = timeout_ns(14) / MS;
    bed.run(16 * wait_ms - 1);
    assert_eq!(bed.take(0), []);
    bed.run(20);
    assert_eq!(bed.take(0), [CmEvent::Unreachable { id: a }]);
    assert!(bed.is_empty());
}

#[test]
fn data_is_as_good_as_an_rtu_that_is_lost() {
    let mut bed = Bed::new();
    bed.fate = Box::new(|mad| match mad.attr_id() {
        wire::cm::id::RTU => Vec::new(),
        _ => vec![10_000],
    });
    let a = bed.connect(0x11);
    bed.run(1);
    let [CmEvent::Requested { id: b, .. }] = bed.take(1)[..] else {
        panic!("no request");
    };
    let granted = bed.agents[1].grant(bed.now, b, rep(0x22));
    assert_eq!(granted, Ok(()));
    bed.run(1);
    assert_eq!(bed.agents[0].ready(a), Ok(()));
    bed.run(200);
    assert_eq!(bed.take(1), [], "each repeated REP is answered, in vain");
    bed.agents[1].data_has_come(Qpn::truncate(0x99));
    bed.agents[1].data_has_come(Qpn::truncate(0x22));
    bed.agents[1].data_has_come(Qpn::truncate(0x22));
    bed.run(5000);
    assert_eq!(bed.take(1), [CmEvent::Established { id: b }]);
}

#[test]
fn a_slow_consumer_is_waited_for() {
    let mut bed = Bed::new();
    let a = bed.connect(0x11);
    bed.run(10_000);
    let [CmEvent::Requested { id: b, .. }] = bed.take(1)[..] else {
        panic!("one request, however often it came");
    };
    assert_eq!(bed.take(0), [], "without patience it would end after 1.1 s");
    let granted = bed.agents[1].grant(bed.now, b, rep(0x22));
    assert_eq!(granted, Ok(()));
    bed.run(3_000);
    assert!(matches!(bed.take(0)[..], [CmEvent::Granted { .. }]));
    assert_eq!(
        bed.take(1),
        [],
        "the one that prepares its queue pair is waited for"
    );
    assert_eq!(bed.agents[0].ready(a), Ok(()));
    bed.run(1);
    assert_eq!(bed.take(1), [CmEvent::Established { id: b }]);
}

#[test]
fn who_gives_up_says_so() {
    let mut bed = Bed::new();
    let a = bed.connect(0x11);
    bed.run(1);
    let [CmEvent::Requested { id: b, .. }] = bed.take(1)[..] else {
        panic!("no request");
    };
    bed.agents[0].forget(bed.now, a);
    bed.run(1);
    let [CmEvent::Refused { id, rej }] = &bed.take(1)[..] else {
        panic!("the request is withdrawn");
    };
    assert_eq!((*id, rej.reason), (b, RejReason::TIMEOUT));
    assert!(bed.is_empty());

    let (a, b) = bed.established((0x12, 0x23));
    bed.agents[0].forget(bed.now, a);
    bed.run(1000);
    let ended = [
        CmEvent::Disconnected { id: b },
        CmEvent::TimeWaitOver { id: b },
    ];
    assert_eq!(bed.take(1), ended);
    assert_eq!(bed.take(0), [], "who forgets hears no more");
    assert!(bed.is_empty());
}

#[test]
fn a_queue_pair_that_asks_anew_ends_its_old_connection() {
    let mut bed = Bed::new();
    let (_, b) = bed.established((0x11, 0x22));
    // The peer's host has started anew.
    bed.agents[0] = Agent::new(3);
    let again = bed.connect(0x11);
    bed.run(1);
    let [CmEvent::Refused { id, rej }] = &bed.take(0)[..] else {
        panic!("no refusal");
    };
    assert_eq!((*id, rej.reason), (again, RejReason::STALE_CONNECTION));
    assert_eq!(bed.take(1), [CmEvent::Disconnected { id: b }]);
    bed.run(1000);
    bed.take(1);
    bed.connect(0x11);
    bed.run(1);
    assert!(matches!(bed.take(1)[..], [CmEvent::Requested { .. }]));
}

#[test]
fn alternate_paths_are_not_supported() {
    let mut bed = Bed::new();
    let (a, b) = bed.established((0x11, 0x22));
    let lap = wire::cm::Lap {
        local_comm_id: a.0,
        remote_comm_id: b.0,
        remote_qpn: Qpn::truncate(0x22),
        private_data: [0; 168],
    };
    let now = bed.now;
    assert!(bed.agents[1].receive(now, route(A, B), &Mad::cm(5, &lap)));
    let (_, apr) = bed.agents[1].poll_send().expect("it is answered");
    let apr: wire::cm::Apr = apr.cm_message().expect("an APR");
    assert_eq!(
        (apr.status, apr.remote_comm_id),
        (wire::cm::Apr::NOT_SUPPORTED, a.0)
    );
}

fn sidr() -> SidrReq {
    SidrReq {
        request_id: 0,
        pkey: 0xffff,
        service_id: SERVICE,
        private_data: [3; SidrReq::PRIVATE_LEN],
    }
}

#[test]
fn a_queue_pair_of_datagrams_is_found_though_its_answer_is_lost() {
    let mut bed = Bed::new();
    let mut answers = 0;
    bed.fate = Box::new(move |mad| {
        answers += u32::from(mad.attr_id() == wire::cm::id::SIDR_REP);
        match answers == 1 && mad.attr_id() == wire::cm::id::SIDR_REP {
            true => Vec::new(),
            false => vec![10_000, 20_000],
        }
    });
    let now = bed.now;
    let asked = bed.agents[0].ask(now, route(B, A), sidr(), (14, 15));
    let a = asked.expect("there is room");
    bed.run(1);
    let [CmEvent::QueuePairRequested { id: b, .. }] = bed.take(1)[..] else {
        panic!("one request, though it came twice");
    };
    let pair = Some((Qpn::truncate(0x77), 0x0123_4567));
    let answered = bed.agents[1].answer(bed.now, b, SidrStatus::VALID, pair, &[5]);
    assert_eq!(answered, Ok(()));
    bed.run(500);
    let [CmEvent::Answered { id, rep }] = &bed.take(0)[..] else {
        panic!("no answer");
    };
    assert_eq!(
        (*id, rep.qpn, rep.qkey),
        (a, Qpn::truncate(0x77), 0x0123_4567)
    );
    assert_eq!(
        (rep.status, rep.private_data[..2].to_vec()),
        (SidrStatus::VALID, vec![5, 0])
    );
    bed.run(5_000);
    assert!(bed.is_empty());
    bed.agents[1].unlisten(SERVICE);
    let now = bed.now;
    let asked = bed.agents[0].ask(now, route(B, A), sidr(), (14, 15));
    assert!(asked.is_ok());
    bed.run(300);
    let [CmEvent::Answered { rep, .. }] = &bed.take(0)[..] else {
        panic!("no answer");
    };
    assert_eq!(rep.status, SidrStatus::UNSUPPORTED);
}

#[test]
fn what_comes_from_elsewhere_or_names_no_connection_changes_nothing() {
    let mut bed = Bed::new();
    let (a, b) = bed.established((0x11, 0x22));
    let now = bed.now;
    let dreq = |local: u32, remote: u32, qpn: u32| wire::cm::Dreq {
        local_comm_id: local,
        remote_comm_id: remote,
        remote_qpn: Qpn::truncate(qpn),
        private_data: [0; 220],
    };
    let agent = &mut bed.agents[1];
    for (from, dreq) in [
        (3, dreq(a.0, b.0, 0x22)),
        (A, dreq(a.0 ^ 1, b.0, 0x22)),
        (A, dreq(a.0, b.0 ^ 1, 0x22)),
        (A, dreq(a.0, b.0, 0x23)),
    ] {
        agent.receive(now, route(from, B), &Mad::cm(1, &dreq));
        assert_eq!(agent.poll_event(), None);
    }
    while agent.poll_send().is_some() {}
    let multicast = route(0xc001, B);
    assert!(!agent.receive(now, multicast, &Mad::cm(1, &dreq(a.0, b.0, 0x22))));
    assert_eq!(agent.disconnect(now, b), Ok(()), "it stands");
}

#[test]
fn tables_are_bounded() {
    let mut agent = Agent::new(9);
    agent.listen(SERVICE);
    for number in 1..=10_000 {
        let mut req = req(number);
        req.local_comm_id = number;
        agent.receive(Time::ZERO, route(A, B), &Mad::cm(1, &req));
    }
    assert_eq!(agent.len(), REQUESTS_MAX);
    let refused = std::iter::from_fn(|| agent.poll_send()).count();
    assert_eq!(refused, 10_000 - REQUESTS_MAX);
    for number in 1..=10_000 {
        let _ = agent.connect(Time::ZERO, route(A, B), req(number));
    }
    assert_eq!(agent.len(), CONNECTIONS_MAX);
    assert_eq!(
        agent.connect(Time::ZERO, route(A, B), req(1)),
        Err(CmError::Full)
    );
}

/// A consumer that grants everything, gets ready at once, and ends what it is told to.
fn drive(bed: &mut Bed, log: &mut [Vec<(CmId, &'static str)>; 2]) {
    for (side, log) in log.iter_mut().enumerate() {
        for event in bed.take(side) {
            let now = bed.now;
            let agent = &mut bed.agents[side];
            let name = match &event {
                CmEvent::Requested { id, req, .. } => {
                    let granted = agent.grant(now, *id, rep(req.local_qpn.get() + 0x1000));
                    assert_eq!(granted, Ok(()));
                    "requested"
                }
                CmEvent::Granted { id, .. } => {
                    assert_eq!(agent.ready(*id), Ok(()));
                    "up"
                }
                CmEvent::Established { .. } => "up",
                CmEvent::Refused { .. } | CmEvent::Unreachable { .. } => "failed",
                CmEvent::Disconnected { .. } => "down",
                CmEvent::TimeWaitOver { .. } => "over",
                CmEvent::QueuePairRequested { .. } | CmEvent::Answered { .. } => "datagram",
            };
            log.push((event.id(), name));
        }
    }
}

proptest! {
    /// Whatever the channel does: each end hears each thing once and in order, both agree, nothing is left.
    #[test]
    fn connections_over_a_bad_channel(
        seed in any::<u64>(),
        loss in 0u64..60,
        repeat in 0u64..40,
        who in 0usize..2,
    ) {
        let mut bed = Bed::new();
        let mut random = Agent::new(seed);
        bed.fate = Box::new(move |_| {
            let mut copies = Vec::new();
            if random.draw() % 100 >= loss {
                copies.push(random.draw() % (30 * MS));
            }
            if random.draw() % 100 < repeat {
                copies.push(random.draw() % (300 * MS));
            }
            copies
        });
        let mut log = [Vec::new(), Vec::new()];
        for qpn in 0..8 {
            bed.connect(0x100 + qpn);
        }
        let end = bed.now + 10_000 * MS;
        while bed.step(end) {
            drive(&mut bed, &mut log);
        }
        let up = |log: &[(CmId, &str)]| log.iter().filter(|(_, what)| *what == "up").count();
        // A REP may be answered by a REJ of one that has given up: then neither is up, or it is taken down.
        let ids: Vec<CmId> = log[who].iter().filter(|(_, what)| *what == "up").map(|(id, _)| *id).collect();
        for id in ids {
            let now = bed.now;
            let _ = bed.agents[who].disconnect(now, id);
        }
        let end = bed.now + 60_000 * MS;
        while bed.step(end) {
            drive(&mut bed, &mut log);
        }
        if loss < 20 {
            prop_assert_eq!(up(&log[0]), 8);
            prop_assert_eq!(up(&log[1]), 8);
        }
        for side in &log {
            let mut seen = BTreeMap::<CmId, Vec<&str>>::new();
            for (id, what) in side {
                seen.entry(*id).or_default().push(what);
            }
            for (id, mut whats) in seen {
                whats.retain(|what| *what != "requested");
                let fits: [&[&str]; 4] = [&["up", "down", "over"], &["failed"], &["up", "failed"], &["up"]];
                prop_assert!(fits.contains(&&whats[..]), "{:?}: {:?}", id, whats);
            }
        }
    }

    /// Messages with any content from anywhere: nothing panics, and what stands stands for those who know its numbers.
    #[test]
    fn any_messages(
        messages in proptest::collection::vec(
            (0x0fu16..0x1c, proptest::collection::vec(any::<u8>(), 232), 0u16..4, any::<bool>()), 1..60),
    ) {
        let mut bed = Bed::new();
        let (a, b) = bed.established((0x11, 0x22));
        for (id, content, from, names) in messages {
            let header = MadHeader {
                class_version: wire::cm::CLASS_VERSION,
                ..MadHeader::request(MgmtClass::COMM, Method::SEND, wire::AttributeId(id), 0, 1)
            };
            let mut mad = Mad::new(&header);
            mad.as_bytes_mut()[24..].copy_from_slice(&content);
            if names {
                mad.as_bytes_mut()[24..28].copy_from_slice(&a.0.to_be_bytes());
                mad.as_bytes_mut()[28..32].copy_from_slice(&b.0.to_be_bytes());
            }
            bed.agents[1].receive(bed.now, route(from, B), &mad);
            bed.now = bed.now + MS;
            bed.agents[1].tick(bed.now);
            while bed.agents[1].poll_send().is_some() {}
            while bed.agents[1].poll_event().is_some() {}
        }
        prop_assert!(bed.agents[1].len() < 64);
    }
}
