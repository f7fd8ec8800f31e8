//! Two engines, the memory of their consumers, and what lies between them.

use link::Time;
use transport::{
    Access, Atomic, Capabilities, Completion, CqId, Data, Destination, Engine, Event, Limits,
    Memory, MemoryFault, Path, PdId, PortAttributes, QpConfig, QpModify, QpState, ReceiveRequest,
    RegionConfig, Remote, SendOperation, SendRequest, Sge, SpaceId, SrqId,
};
use wire::{
    Aeth, DataPacket, Gid, Guid, IbaPacket, Lid, Lmc, Mtu, PortNum, Psn, Qpn, Service, Sl, Vl,
};

/// Where the memory of every consumer starts.
pub(crate) const BASE: u64 = 0x7000_0000_1000;
/// Every right.
pub(crate) const ALL: Access = Access::LOCAL_WRITE
    .with(Access::REMOTE_WRITE)
    .with(Access::REMOTE_READ)
    .with(Access::REMOTE_ATOMIC);
pub(crate) const SL: Sl = Sl::constant(3);
pub(crate) const PORT: PortNum = PortNum::new(1);

/// Memory of one consumer.
#[derive(Debug)]
pub(crate) struct Ram {
    pub(crate) bytes: Vec<u8>,
    /// Whether everything faults, as after the end of a program.
    pub(crate) gone: bool,
    /// Whether an access has left the memory: the engine has let it pass, though regions end there.
    pub(crate) overrun: bool,
}

impl Ram {
    fn range(&mut self, address: u64, len: usize) -> Result<&mut [u8], MemoryFault> {
        let at = usize::try_from(address.wrapping_sub(BASE)).unwrap_or(usize::MAX);
        let range = self.bytes.get_mut(at..at.saturating_add(len));
        self.overrun |= range.is_none();
        range.filter(|_| !self.gone).ok_or(MemoryFault)
    }
}

impl Memory for Ram {
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
        let original = u64::from_ne_bytes(bytes.try_into().unwrap());
        bytes.copy_from_slice(&operation.applied_to(original).to_ne_bytes());
        Ok(original)
    }
}

/// How queue pairs are set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) service: Service,
    pub(crate) mtu: Mtu,
    pub(crate) access: Access,
    /// Of datagrams.
    pub(crate) qkey: u32,
    pub(crate) psn: u32,
    pub(crate) rd_atomic: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) signal_all: bool,
    pub(crate) srq: bool,
    pub(crate) cq_depth: u32,
    pub(crate) requests: u32,
    /// Bytes of memory, all of it one region.
    pub(crate) memory: usize,
    /// What may be done with the region.
    pub(crate) region: Access,
}

impl Setting {
    pub(crate) fn new(service: Service) -> Self {
        Self {
            service,
            mtu: Mtu::Mtu1024,
            access: ALL,
            qkey: 0x1234,
            psn: 0xff_fff0,
            rd_atomic: 4,
            // 4.096 us * 2^8: about a millisecond.
            timeout: 8,
            retry_count: 7,
            rnr_retry: 7,
            signal_all: true,
            srq: false,
            cq_depth: 1024,
            requests: 64,
            memory: 1 << 17,
            region: ALL,
        }
    }
}

/// One engine with a domain, a region, two completion queues and a queue pair.
pub(crate) struct Side {
    pub(crate) engine: Engine,
    pub(crate) ram: Ram,
    pub(crate) pd: PdId,
    pub(crate) key: u32,
    pub(crate) send_cq: CqId,
    pub(crate) receive_cq: CqId,
    pub(crate) srq: Option<SrqId>,
    pub(crate) qpn: Qpn,
    pub(crate) lid: Lid,
}

pub(crate) fn port_attributes(lid: u16) -> PortAttributes {
    PortAttributes {
        number: PORT,
        lid: Lid::new(lid),
        lmc: Lmc::constant(1),
        mtu: Mtu::Mtu4096,
        sl_to_vl: std::array::from_fn(|sl| Vl::truncate(u8::try_from(sl).unwrap() % 4)),
        pkeys: vec![0xffff, 0x8005, 0x0006, 0],
        gids: vec![Gid::new(Gid::DEFAULT_PREFIX, Guid(u64::from(lid)))],
    }
}

pub(crate) fn capabilities(requests: u32) -> Capabilities {
    Capabilities {
        send_requests: requests,
        receive_requests: requests,
        send_sges: 4,
        receive_sges: 4,
        inline_bytes: 256,
    }
}

impl Side {
    pub(crate) fn new(lid: u16, setting: &Setting) -> Self {
        let mut engine = Engine::new(Limits::default(), port_attributes(lid));
        let pd = engine.create_pd().unwrap();
        let send_cq = engine.create_cq(setting.cq_depth).unwrap();
        let receive_cq = engine.create_cq(setting.cq_depth).unwrap();
        let key = engine
            .register_region(RegionConfig {
                pd,
                space: SpaceId(0),
                address: BASE,
                iova: BASE,
                length: setting.memory as u64,
                access: setting.region,
            })
            .unwrap();
        let srq = setting
            .srq
            .then(|| engine.create_srq(pd, setting.requests, 4).unwrap());
        let bytes = vec![0; setting.memory];
        let mut side = Self {
            engine,
            ram: Ram {
                bytes,
                gone: false,
                overrun: false,
            },
            pd,
            key,
            send_cq,
            receive_cq,
            srq,
            qpn: Qpn::default(),
            lid: Lid::new(lid),
        };
        side.qpn = side.new_qp(setting);
        side
    }

    /// A queue pair in RESET.
    pub(crate) fn new_qp(&mut self, setting: &Setting) -> Qpn {
        let config = QpConfig {
            service: setting.service,
            pd: self.pd,
            send_cq: self.send_cq,
            receive_cq: self.receive_cq,
            srq: self.srq,
            capabilities: capabilities(setting.requests),
            signal_all: setting.signal_all,
        };
        self.engine.create_qp(config).unwrap()
    }

    pub(crate) fn path(to: Lid) -> Path {
        Path {
            dlid: to,
            sl: SL,
            src_path_bits: 0,
            global: None,
        }
    }

    /// RESET, INIT, RTR, RTS.
    pub(crate) fn connect(&mut self, now: Time, setting: &Setting, to: Lid, peer: Qpn) {
        for modify in steps(setting, to, peer) {
            self.engine.modify_qp(now, self.qpn, &modify).unwrap();
        }
    }

    pub(crate) fn sge(&self, at: usize, length: usize) -> Sge {
        Sge {
            address: BASE + at as u64,
            length: u32::try_from(length).unwrap(),
            lkey: self.key,
        }
    }

    pub(crate) fn remote(&self, at: usize) -> Remote {
        Remote {
            va: BASE + at as u64,
            rkey: self.key,
        }
    }

    pub(crate) fn post_receive(&mut self, wr_id: u64, sges: &[Sge]) {
        let request = ReceiveRequest { wr_id, sges };
        match self.srq {
            Some(srq) => self.engine.post_srq_receive(srq, &request).unwrap(),
            None => self.engine.post_receive(self.qpn, &request).unwrap(),
        }
    }

    pub(crate) fn post(&mut self, now: Time, wr_id: u64, operation: SendOperation, sges: &[Sge]) {
        let request = request(wr_id, operation, Data::Scattered(sges));
        self.engine.post_send(now, self.qpn, &request).unwrap();
    }

    pub(crate) fn sent(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.engine.poll_cq(self.send_cq)).collect()
    }

    pub(crate) fn received(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.engine.poll_cq(self.receive_cq)).collect()
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.engine.poll_event()).collect()
    }

    pub(crate) fn state(&self) -> QpState {
        self.engine.query_qp(self.qpn).unwrap().state
    }

    pub(crate) fn fail(&mut self, now: Time) {
        let error = QpModify {
            state: Some(QpState::Error),
            ..QpModify::default()
        };
        self.engine.modify_qp(now, self.qpn, &error).unwrap();
    }

    /// The next packet.
    pub(crate) fn transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        let mut out = vec![0xa5; 4300];
        let sent = self.engine.transmit(now, &mut self.ram, 0xffff, &mut out)?;
        out.truncate(sent.len);
        let packet = DataPacket::parse(&out).unwrap();
        packet.check_icrc().unwrap();
        packet.check_vcrc().unwrap();
        assert_eq!(packet.lrh().vl, sent.vl);
        Some(out)
    }

    pub(crate) fn receive(&mut self, now: Time, bytes: &[u8]) -> Result<(), transport::PacketDrop> {
        let packet = DataPacket::parse(bytes).unwrap();
        let transport = packet
            .transport()
            .map_err(|_| transport::PacketDrop::Malformed)?;
        let taken = self.engine.receive(now, &mut self.ram, &packet, &transport);
        taken.and_then(|taken| taken.missed.map_or(Ok(()), Err))
    }
}

pub(crate) fn request(wr_id: u64, operation: SendOperation, data: Data<'_>) -> SendRequest<'_> {
    SendRequest {
        wr_id,
        operation,
        data,
        signaled: true,
        fence: false,
        solicited: false,
        destination: None,
    }
}

pub(crate) fn datagram(wr_id: u64, data: Data<'_>, destination: Destination) -> SendRequest<'_> {
    SendRequest {
        destination: Some(destination),
        ..request(wr_id, SendOperation::Send { immediate: None }, data)
    }
}

/// The changes from RESET to RTS.
pub(crate) fn steps(setting: &Setting, to: Lid, peer: Qpn) -> [QpModify; 3] {
    let none = QpModify::default();
    let init = QpModify {
        state: Some(QpState::Init),
        pkey_index: Some(0),
        port: Some(PORT),
        ..none
    };
    let psn = Some(Psn::constant(setting.psn));
    let rtr = QpModify {
        state: Some(QpState::Rtr),
        ..none
    };
    let rts = QpModify {
        state: Some(QpState::Rts),
        sq_psn: psn,
        ..none
    };
    if setting.service == Service::Ud {
        let init = QpModify {
            qkey: Some(setting.qkey),
            ..init
        };
        return [init, rtr, rts];
    }
    let init = QpModify {
        access: Some(setting.access),
        ..init
    };
    let rtr = QpModify {
        path: Some(Side::path(to)),
        path_mtu: Some(setting.mtu),
        dest_qpn: Some(peer),
        rq_psn: psn,
        ..rtr
    };
    if setting.service == Service::Uc {
        return [init, rtr, rts];
    }
    let rtr = QpModify {
        max_dest_rd_atomic: Some(setting.rd_atomic),
        min_rnr_timer: Some(1),
        ..rtr
    };
    let rts = QpModify {
        timeout: Some(setting.timeout),
        retry_count: Some(setting.retry_count),
        rnr_retry: Some(setting.rnr_retry),
        max_rd_atomic: Some(setting.rd_atomic),
        ..rts
    };
    [init, rtr, rts]
}

/// Two sides with connected queue pairs, and a wire on which nothing is lost.
pub(crate) struct Pair {
    pub(crate) now: Time,
    pub(crate) sides: [Side; 2],
    /// Acknowledgements' syndromes that have crossed, by side that sent them.
    pub(crate) syndromes: [Vec<Aeth>; 2],
    pub(crate) packets: [usize; 2],
}

impl Pair {
    pub(crate) fn new(setting: &Setting) -> Self {
        let now = Time(1_000_000);
        let mut sides = [Side::new(0x10, setting), Side::new(0x20, setting)];
        let peers = [(sides[1].lid, sides[1].qpn), (sides[0].lid, sides[0].qpn)];
        for (side, (lid, qpn)) in sides.iter_mut().zip(peers) {
            side.connect(now, setting, lid, qpn);
        }
        Self {
            now,
            sides,
            syndromes: Default::default(),
            packets: [0; 2],
        }
    }

    /// Carries one packet of a side to the other; `false` if it has none.
    pub(crate) fn carry(&mut self, from: usize) -> bool {
        let Some(bytes) = self.sides[from].transmit(self.now) else {
            return false;
        };
        let packet = DataPacket::parse(&bytes).unwrap();
        let (headers, _) = IbaPacket::parse(&packet).unwrap();
        self.syndromes[from].extend(headers.extended.aeth);
        self.packets[from] += 1;
        let _ = self.sides[1 - from].receive(self.now, &bytes);
        true
    }

    /// Carries packets until neither side has one.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let carried = [self.carry(0), self.carry(1)];
            if carried == [false; 2] {
                return;
            }
        }
        panic!("packets without end");
    }

    /// Carries packets and lets time pass until nothing is due any more.
    pub(crate) fn settle_in_time(&mut self) {
        for _ in 0..1000 {
            self.settle();
            let due = self.sides.iter().filter_map(|side| side.engine.deadline());
            let Some(due) = due.min() else {
                return;
            };
            self.now = self.now.max(due);
            for side in &mut self.sides {
                side.engine.tick(self.now, &mut side.ram);
            }
        }
        panic!("time without end");
    }
}

/// Bytes that tell where they come from.
pub(crate) fn pattern(seed: usize, len: usize) -> Vec<u8> {
    let mut state = seed as u64 ^ 0x9e37_79b9;
    (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_be_bytes()[0]
        })
        .collect()
}
