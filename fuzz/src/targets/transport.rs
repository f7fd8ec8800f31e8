//! The transport engine between a consumer that asks for anything and a peer that sends anything.

#[path = "../../../transport/tests/engine/bed.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the bed of the engine's own tests, which use all of it"
)]
mod bed;

use link::Time;
use transport::{
    Data, MemoryFault, QpModify, QpState, ReceiveRequest, Remote, SendOperation, SendRequest, Sge,
};
use wire::convert::u64_of;
use wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, DataPacket, ExtendedHeaders, IbaPacket, Lid, Mtu, Opcode,
    Operation, Psn, Qpn, Reth, Service, Sl, Vl,
};

use crate::Parts;
use crate::fields::Fields;
use bed::{BASE, Setting, Side};

/// The length of the region.
const LENGTH: usize = 4096;
const OWN: Lid = Lid::new(0x10);
const PEER: Lid = Lid::new(0x20);
const QKEY: u32 = 7;
/// The numbers of queue pairs' first packets.
const FIRST: Psn = Psn::constant(0xff_fffe);
/// Packets of a step at most: more is an engine that sends without end.
const PACKETS_MAX: usize = 4096;

/// How the queue pairs of both sides are set.
fn setting(service: Service) -> Setting {
    Setting {
        mtu: Mtu::Mtu256,
        qkey: QKEY,
        psn: FIRST.get(),
        rd_atomic: 2,
        timeout: 1,
        retry_count: 3,
        rnr_retry: 3,
        cq_depth: 1 << 16,
        requests: 16,
        memory: LENGTH,
        ..Setting::new(service)
    }
}

/// An engine, and how much of its work has ended.
struct Counted {
    side: Side,
    posted: u64,
    completed: u64,
}

impl Counted {
    fn new(lid: Lid, service: Service) -> Self {
        Self {
            side: Side::new(lid.get(), &setting(service)),
            posted: 0,
            completed: 0,
        }
    }

    fn sge(&self, fields: &mut Fields<'_>) -> Sge {
        Sge {
            address: BASE.wrapping_add(u64::from(fields.two() % 5000)),
            length: u32::from(fields.two() % 1500),
            lkey: self.side.key ^ u32::from(fields.byte().is_power_of_two()),
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
        self.posted += u64::from(
            self.side
                .engine
                .post_send(now, self.side.qpn, &request)
                .is_ok(),
        );
    }

    fn post_receive(&mut self, fields: &mut Fields<'_>) {
        let sges = [self.sge(fields), self.sge(fields)];
        let request = ReceiveRequest {
            wr_id: self.posted,
            sges: &sges,
        };
        self.posted += u64::from(
            self.side
                .engine
                .post_receive(self.side.qpn, &request)
                .is_ok(),
        );
    }

    fn receive(&mut self, now: Time, bytes: &[u8]) {
        let packet = DataPacket::parse(bytes);
        if let Ok(packet) = packet
            && let Ok(transport) = packet.transport()
        {
            let Side { engine, ram, .. } = &mut self.side;
            let _ = engine.receive(now, ram, &packet, &transport);
        }
    }

    fn count(&mut self) {
        self.completed += u64_of(self.side.sent().len() + self.side.received().len());
        let _ = self.side.events();
        assert!(self.completed <= self.posted, "a request ends once");
        assert!(!self.side.ram.overrun, "the region's bounds are kept");
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
                qkey: QKEY,
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
    let mut sides = [Counted::new(OWN, service), Counted::new(PEER, service)];
    let numbers = sides.each_ref().map(|one| one.side.qpn);
    for (one, (lid, qpn)) in sides
        .iter_mut()
        .zip([(PEER, numbers[1]), (OWN, numbers[0])])
    {
        one.side.connect(now, &setting(service), lid, qpn);
    }
    let keys = sides.each_ref().map(|one| one.side.key);
    for part in parts {
        let mut fields = Fields::of(part);
        let what = fields.byte() % 9;
        let which = usize::from(!fields.flag());
        match what {
            0 | 1 => sides[which].post(now, &mut fields, keys[1 - which]),
            2 => sides[which].post_receive(&mut fields),
            3 => {
                let packet = hostile(&sides[0].side, service, &mut fields);
                sides[0].receive(now, &packet);
            }
            4 => carry(&mut sides, now, which, None),
            5 => carry(&mut sides, now, which, Some((fields.two(), fields.byte()))),
            6 => {
                now = now + fields.nanoseconds();
                for Counted { side, .. } in &mut sides {
                    side.engine.tick(now, &mut side.ram);
                }
            }
            7 => {
                let state = fields.one_of(&[QpState::Sqd, QpState::Rts, QpState::Error]);
                let modify = QpModify {
                    state: Some(state),
                    ..QpModify::default()
                };
                let qpn = sides[which].side.qpn;
                let _ = sides[which].side.engine.modify_qp(now, qpn, &modify);
            }
            _ if fields.flag() => sides[which].side.ram.gone ^= true,
            _ => {
                let key = sides[which].side.key;
                let _ = sides[which].side.engine.deregister_region(key);
            }
        }
        sides.iter_mut().for_each(Counted::count);
    }
    for one in &mut sides {
        one.side.fail(now);
        one.count();
        assert_eq!(one.completed, one.posted, "a request ends");
    }
}

/// Carries all packets of a side to the other one; a bit of each is changed if told.
fn carry(sides: &mut [Counted; 2], now: Time, from: usize, change: Option<(u16, u8)>) {
    for packets in 0.. {
        assert!(packets < PACKETS_MAX, "packets have an end");
        let Some(mut bytes) = sides[from].side.transmit(now) else {
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
