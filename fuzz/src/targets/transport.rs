//! The transport engine between a consumer that asks for anything and a peer that sends anything.

use link::Time;
use transport::{
    Access, Atomic, Capabilities, CqId, Data, Engine, Limits, Memory, MemoryFault, Path,
    PortAttributes, QpConfig, QpModify, QpState, ReceiveRequest, RegionConfig, Remote,
    SendOperation, SendRequest, Sge, SpaceId,
};
use wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, DataPacket, ExtendedHeaders, IbaPacket, Lid, Lmc, Mtu,
    Opcode, Operation, PortNum, Psn, Qpn, Reth, Service, Sl, Vl,
};

use crate::Parts;
use crate::fields::Fields;

/// Where the region starts, and its length.
const BASE: u64 = 0x1000;
const LENGTH: usize = 4096;
const OWN: Lid = Lid::new(1);
const PEER: Lid = Lid::new(2);
/// The numbers of queue pairs' first packets.
const FIRST: Psn = Psn::constant(0xff_fffe);
/// Packets of a step at most: more is an engine that sends without end.
const PACKETS_MAX: usize = 4096;

/// Memory that no access may leave: the engine has checked it.
struct Guarded {
    bytes: Vec<u8>,
    faults: bool,
}

impl Guarded {
    fn range(&mut self, address: u64, len: usize) -> Result<&mut [u8], MemoryFault> {
        let at = usize::try_from(address.wrapping_sub(BASE)).unwrap_or(usize::MAX);
        assert!(
            at.saturating_add(len) <= LENGTH,
            "the region's bounds are kept"
        );
        match self.faults {
            true => Err(MemoryFault),
            false => Ok(&mut self.bytes[at..at + len]),
        }
    }
}

impl Memory for Guarded {
    fn read(&mut self, _: SpaceId, address: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        out.copy_from_slice(self.range(address, out.len())?);
        Ok(())
    }

    fn write(&mut self, _: SpaceId, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.range(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn atomic(&mut self, _: SpaceId, address: u64, operation: Atomic) -> Result<u64, MemoryFault> {
        let bytes = self.range(address, 8)?;
        let original = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        bytes.copy_from_slice(&operation.applied_to(original).to_ne_bytes());
        Ok(original)
    }
}

struct Side {
    engine: Engine,
    memory: Guarded,
    key: u32,
    cq: CqId,
    qpn: Qpn,
    posted: u64,
    completed: u64,
}

impl Side {
    fn new(lid: Lid, service: Service) -> Self {
        let port = PortAttributes {
            number: PortNum::new(1),
            lid,
            lmc: Lmc::constant(0),
            mtu: Mtu::Mtu256,
            sl_to_vl: [Vl::default(); 16],
            pkeys: vec![0xffff],
            gids: vec![wire::Gid([0x20; 16])],
        };
        let mut engine = Engine::new(Limits::default(), port);
        let pd = engine.create_pd().expect("a domain");
        let cq = engine.create_cq(1 << 16).expect("a completion queue");
        let region = RegionConfig {
            pd,
            space: SpaceId(0),
            address: BASE,
            iova: BASE,
            length: LENGTH as u64,
            access: Access::from_bits(0xf).expect("rights"),
        };
        let key = engine.register_region(region).expect("a region");
        let config = QpConfig {
            service,
            pd,
            send_cq: cq,
            receive_cq: cq,
            srq: None,
            capabilities: Capabilities {
                send_requests: 16,
                receive_requests: 16,
                send_sges: 2,
                receive_sges: 2,
                inline_bytes: 64,
            },
            signal_all: true,
        };
        let qpn = engine.create_qp(config).expect("a queue pair");
        Self {
            engine,
            memory: Guarded {
                bytes: vec![0; LENGTH],
                faults: false,
            },
            key,
            cq,
            qpn,
            posted: 0,
            completed: 0,
        }
    }

    /// RESET to RTS: what a service does not take is left out.
    fn connect(&mut self, service: Service, to: Lid, peer: Qpn) {
        let none = QpModify::default();
        let connected = service != Service::Ud;
        let reliable = service == Service::Rc;
        let init = QpModify {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(PortNum::new(1)),
            access: connected.then(|| Access::from_bits(0xf).expect("rights")),
            qkey: (!connected).then_some(7),
            ..none
        };
        let path = Path {
            dlid: to,
            ..Path::default()
        };
        let rtr = QpModify {
            state: Some(QpState::Rtr),
            path: connected.then_some(path),
            path_mtu: connected.then_some(Mtu::Mtu256),
            dest_qpn: connected.then_some(peer),
            rq_psn: connected.then_some(FIRST),
            max_dest_rd_atomic: reliable.then_some(2),
            min_rnr_timer: reliable.then_some(1),
            ..none
        };
        let rts = QpModify {
            state: Some(QpState::Rts),
            sq_psn: Some(FIRST),
            timeout: reliable.then_some(1),
            retry_count: reliable.then_some(3),
            rnr_retry: reliable.then_some(3),
            max_rd_atomic: reliable.then_some(2),
            ..none
        };
        for modify in [init, rtr, rts] {
            let modified = self.engine.modify_qp(Time::ZERO, self.qpn, &modify);
            modified.expect("the tables permit it");
        }
    }

    fn sge(&self, fields: &mut Fields<'_>) -> Sge {
        Sge {
            address: BASE.wrapping_add(u64::from(fields.two() % 5000)),
            length: u32::from(fields.two() % 1500),
            lkey: self.key ^ u32::from(fields.byte().is_power_of_two()),
        }
    }

    fn post(&mut self, now: Time, fields: &mut Fields<'_>, peer: u32) {
        let remote = Remote {
            va: BASE.wrapping_add(u64::from(fields.two() % 5000)),
            rkey: peer,
        };
        let immediate = fields.flag().then_some(7);
        let (compare, swap) = (u64::from(fields.byte()), u64::from(fields.byte()));
        let operation = fields.one_of(&[
            SendOperation::Send { immediate },
            SendOperation::SendInvalidate { rkey: peer },
            SendOperation::Write { remote, immediate },
            SendOperation::Read { remote },
            SendOperation::CompareSwap {
                remote,
                compare,
                swap,
            },
            SendOperation::FetchAdd { remote, add: swap },
        ]);
        let mut sges = [self.sge(fields), self.sge(fields)];
        if matches!(operation.kind() as u8, 3 | 4) {
            sges[0].length = 8;
            sges[1].length = 0;
        }
        let request = SendRequest {
            wr_id: self.posted,
            operation,
            data: Data::Scattered(&sges),
            signaled: true,
            fence: fields.flag(),
            solicited: fields.flag(),
            destination: None,
        };
        self.posted += u64::from(self.engine.post_send(now, self.qpn, &request).is_ok());
    }

    fn post_receive(&mut self, fields: &mut Fields<'_>) {
        let sges = [self.sge(fields), self.sge(fields)];
        let request = ReceiveRequest {
            wr_id: self.posted,
            sges: &sges,
        };
        self.posted += u64::from(self.engine.post_receive(self.qpn, &request).is_ok());
    }

    fn receive(&mut self, now: Time, bytes: &[u8]) {
        if let Ok(packet) = DataPacket::parse(bytes) {
            let _ = self.engine.receive(now, &mut self.memory, &packet);
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        let mut out = vec![0; 400];
        let sent = self
            .engine
            .transmit(now, &mut self.memory, 0xffff, &mut out)?;
        out.truncate(sent.len);
        Some(out)
    }

    fn count(&mut self) {
        while self.engine.poll_cq(self.cq).is_some() {
            self.completed += 1;
        }
        while self.engine.poll_event().is_some() {}
        assert!(self.completed <= self.posted, "a request ends once");
    }
}

/// A packet of the peer's, with fields as they come.
fn hostile(side: &Side, service: Service, fields: &mut Fields<'_>) -> Vec<u8> {
    let operation = fields.one_of(&Operation::ALL);
    let (near, va) = (
        u32::from(fields.byte() % 16),
        u64::from(fields.two() % 5000),
    );
    let (low, len) = (u64::from(fields.byte()), fields.two());
    let dma_len = u32::from(len);
    let rkey = side.key;
    let packet = IbaPacket {
        vl: Vl::default(),
        sl: Sl::default(),
        dlid: OWN,
        slid: PEER,
        global: None,
        bth: Bth {
            opcode: Opcode::new(service, operation),
            solicited: fields.flag(),
            mig_req: true,
            pad: 0,
            tver: Bth::VERSION,
            pkey: 0xffff,
            fecn: false,
            becn: false,
            dest_qp: side.qpn,
            ack_req: true,
            psn: FIRST.minus(4).plus(near),
        },
        extended: ExtendedHeaders {
            deth: Some(wire::Deth {
                qkey: 7,
                src_qp: Qpn::constant(5),
            }),
            reth: Some(Reth {
                va: BASE + va,
                rkey,
                dma_len,
            }),
            atomic: Some(AtomicEth {
                va: BASE + va,
                rkey,
                swap_or_add: low,
                compare: 0,
            }),
            aeth: Some(Aeth {
                syndrome: fields.byte(),
                msn: near,
            }),
            atomic_ack: Some(AtomicAckEth { original: low }),
            immediate: Some(rkey),
            invalidate: Some(rkey),
        },
    };
    let len = usize::from(fields.one_of(&[0, 1, 8, 255, 256, 257, len % 300]));
    let mut out = vec![0; packet.len(len)];
    let written = packet.emit_with(len, &mut out, |raw| {
        raw.fill(0x5a);
        Ok::<(), MemoryFault>(())
    });
    written.expect("room").expect("a payload");
    out
}

/// The first part is the service; then each part is a step: work, a packet of the peer's, one of the
/// peer's that is sound, one that is changed on its way, time, a change of state, memory or a key that goes.
///
/// # Panics
/// If memory outside the region is touched, a request ends twice or never, or packets have no end.
pub(crate) fn transport(bytes: &[u8]) {
    let mut parts = Parts::of(bytes);
    let mut head = Fields::of(parts.next().unwrap_or_default());
    let service = head.one_of(&[Service::Rc, Service::Uc, Service::Ud]);
    let mut now = Time(1);
    let mut sides = [Side::new(OWN, service), Side::new(PEER, service)];
    let numbers = sides.each_ref().map(|side| side.qpn);
    sides[0].connect(service, PEER, numbers[1]);
    sides[1].connect(service, OWN, numbers[0]);
    let keys = sides.each_ref().map(|side| side.key);
    for part in parts {
        let mut fields = Fields::of(part);
        let what = fields.byte() % 9;
        let which = usize::from(!fields.flag());
        match what {
            0 | 1 => sides[which].post(now, &mut fields, keys[1 - which]),
            2 => sides[which].post_receive(&mut fields),
            3 => {
                let packet = hostile(&sides[0], service, &mut fields);
                sides[0].receive(now, &packet);
            }
            4 => carry(&mut sides, now, which, None),
            5 => carry(&mut sides, now, which, Some((fields.two(), fields.byte()))),
            6 => {
                now = now + fields.nanoseconds();
                for side in &mut sides {
                    side.engine.tick(now, &mut side.memory);
                }
            }
            7 => {
                let state = fields.one_of(&[QpState::Sqd, QpState::Rts, QpState::Error]);
                let modify = QpModify {
                    state: Some(state),
                    ..QpModify::default()
                };
                let qpn = sides[which].qpn;
                let _ = sides[which].engine.modify_qp(now, qpn, &modify);
            }
            _ if fields.flag() => sides[which].memory.faults ^= true,
            _ => {
                let key = sides[which].key;
                let _ = sides[which].engine.deregister_region(key);
            }
        }
        sides.iter_mut().for_each(Side::count);
    }
    for side in &mut sides {
        let error = QpModify {
            state: Some(QpState::Error),
            ..QpModify::default()
        };
        let failed = side.engine.modify_qp(now, side.qpn, &error);
        failed.expect("any state goes to the error state");
        side.count();
        assert_eq!(side.completed, side.posted, "a request ends");
    }
}

/// Carries all packets of a side to the other one; a bit of each is changed if told.
fn carry(sides: &mut [Side; 2], now: Time, from: usize, change: Option<(u16, u8)>) {
    for packets in 0.. {
        assert!(packets < PACKETS_MAX, "packets have an end");
        let Some(mut bytes) = sides[from].transmit(now) else {
            return;
        };
        if let Some((at, mask)) = change {
            // Headers and payload behind the LRH; the length is as it was.
            let at = 8 + usize::from(at) % (bytes.len() - 8);
            bytes[at] ^= mask;
        }
        sides[1 - from].receive(now, &bytes);
    }
}

/// One step of each kind, for each service.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let steps: [&[u8]; 9] = [
        &[2, 1, 0, 0, 4, 0, 3, 0, 0, 0, 0, 3],
        &[0, 0, 0, 8, 1, 0, 0, 0, 0, 0, 3, 0, 3, 0, 0, 0, 0, 3],
        &[0, 0, 0, 8, 1, 0, 0, 2, 0, 0, 3, 0, 3, 0, 0, 0, 0, 3],
        &[0, 0, 0, 8, 1, 0, 0, 3, 0, 0, 3, 0, 3, 0, 0, 0, 0, 3],
        &[0, 0, 0, 8, 1, 5, 9, 4, 0, 0, 3, 0, 3, 0, 0, 0, 0, 3],
        &[4, 0],
        &[4, 1],
        &[3, 0, 12, 4, 0, 8, 1, 0, 8],
        &[6, 0, 60],
    ];
    let seed = |service: u8| {
        let first: [&[u8]; 1] = [&[service]];
        let last: [&[u8]; 2] = [&[5, 0, 0, 4, 1], &[7, 0, 0]];
        Parts::join(first.into_iter().chain(steps).chain(last))
    };
    (0..3).map(seed).collect()
}
