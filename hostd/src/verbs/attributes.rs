//! Between the numbers of ibverbs and the types of the transport.

use transport::{
    Access, Capabilities, Completion, GlobalPath, Path, QpAttributes, QpEvent, QpModify, QpState,
    Refused,
};
use uverbs::entry::{self, wc_flag};
use uverbs::{AddressAttributes, GlobalAttributes, attribute, errno};
use wire::{Gid, Lid, Mtu, PortNum, Psn, Qpn, Sl};

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    errno: u16,
    why: String,
}

impl Refusal {
    pub(super) fn new(errno: u16, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { errno, why }
    }

    pub(super) fn invalid(why: &'static str) -> Self {
        Self::new(errno::EINVAL, why)
    }

    pub(super) fn absent(what: &'static str) -> Self {
        Self::new(
            errno::ENOENT,
            format!("there is no such {what} of this context"),
        )
    }

    pub(super) fn too_many(what: &'static str) -> Self {
        Self::new(
            errno::ENOMEM,
            format!("this context has as many {what} as it may"),
        )
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let errno = match refused {
            Refused::NoSuch(_) => errno::ENOENT,
            Refused::TooMany(_) | Refused::Full(_) => errno::ENOMEM,
            Refused::InUse(_) => errno::EBUSY,
            Refused::NotSupported(_) => errno::EOPNOTSUPP,
            Refused::Invalid(_)
            | Refused::State(_)
            | Refused::Transition { .. }
            | Refused::Missing { .. }
            | Refused::NotPermitted { .. } => errno::EINVAL,
        };
        Self::new(errno, refused.to_string())
    }
}

impl From<Refusal> for uverbs::Reply {
    fn from(Refusal { errno, why }: Refusal) -> Self {
        Self::Refused { errno, why }
    }
}

fn state(number: u32) -> Result<QpState, Refusal> {
    Ok(match number {
        0 => QpState::Reset,
        1 => QpState::Init,
        2 => QpState::Rtr,
        3 => QpState::Rts,
        4 => QpState::Sqd,
        5 => QpState::Sqe,
        6 => QpState::Error,
        _ => return Err(Refusal::invalid("there is no such state of a queue pair")),
    })
}

pub(super) fn qpn(number: u32) -> Result<Qpn, Refusal> {
    Qpn::new(number).map_err(|_| Refusal::absent("queue pair"))
}

fn psn(number: u32) -> Psn {
    // ibverbs keeps the low 24 bits.
    Psn::truncate(number & Psn::MAX.get())
}

pub(super) fn path(attributes: &AddressAttributes) -> Result<Path, Refusal> {
    if attributes.port_num != 1 {
        return Err(Refusal::invalid("the device has port 1 only"));
    }
    let sl = Sl::new(attributes.sl);
    let global = attributes.global.map(|global| GlobalPath {
        dgid: Gid(global.dgid),
        sgid_index: global.sgid_index,
        flow_label: global.flow_label,
        hop_limit: global.hop_limit,
        tclass: global.traffic_class,
    });
    Ok(Path {
        dlid: Lid::new(attributes.dlid),
        sl: sl.map_err(|_| Refusal::invalid("a service level is 0 to 15"))?,
        src_path_bits: attributes.src_path_bits,
        global,
    })
}

fn address(path: &Path) -> AddressAttributes {
    AddressAttributes {
        global: path.global.map(|global| GlobalAttributes {
            dgid: global.dgid.0,
            flow_label: global.flow_label,
            sgid_index: global.sgid_index,
            hop_limit: global.hop_limit,
            traffic_class: global.tclass,
        }),
        dlid: path.dlid.get(),
        sl: path.sl.get(),
        src_path_bits: path.src_path_bits,
        static_rate: 0,
        port_num: 1,
    }
}

fn mtu(code: u32) -> Result<Mtu, Refusal> {
    let mtu = u8::try_from(code).ok().and_then(Mtu::from_code);
    mtu.ok_or(Refusal::invalid("there is no such MTU"))
}

/// What a mask and attributes change.
pub(super) fn modify(mask: u32, attributes: &uverbs::QpAttributes) -> Result<QpModify, Refusal> {
    const UNKNOWN: &str = "not supported: attributes of a queue pair beyond those of IBA";
    let known = attribute::RATE_LIMIT - 1;
    if mask & !(known & 0x1f_ffff) != 0 || mask & attribute::CAP != 0 {
        return Err(Refusal::new(errno::EOPNOTSUPP, UNKNOWN));
    }
    let given = |bit: u32| mask & bit != 0;
    let all = attributes;
    Ok(QpModify {
        state: given(attribute::STATE)
            .then(|| state(all.qp_state))
            .transpose()?,
        current_state: given(attribute::CUR_STATE)
            .then(|| state(all.cur_qp_state))
            .transpose()?,
        access: given(attribute::ACCESS_FLAGS)
            .then(|| Access::from_bits(all.qp_access_flags))
            .transpose()?,
        pkey_index: given(attribute::PKEY_INDEX).then_some(all.pkey_index),
        port: given(attribute::PORT).then_some(PortNum::new(all.port_num)),
        qkey: given(attribute::QKEY).then_some(all.qkey),
        path: given(attribute::AV)
            .then(|| path(&all.ah_attr))
            .transpose()?,
        path_mtu: given(attribute::PATH_MTU)
            .then(|| mtu(all.path_mtu))
            .transpose()?,
        dest_qpn: given(attribute::DEST_QPN)
            .then(|| Qpn::new(all.dest_qp_num))
            .transpose()
            .map_err(|_| Refusal::invalid("a queue pair number has 24 bits"))?,
        rq_psn: given(attribute::RQ_PSN).then_some(psn(all.rq_psn)),
        sq_psn: given(attribute::SQ_PSN).then_some(psn(all.sq_psn)),
        max_rd_atomic: given(attribute::MAX_QP_RD_ATOMIC).then_some(all.max_rd_atomic),
        max_dest_rd_atomic: given(attribute::MAX_DEST_RD_ATOMIC).then_some(all.max_dest_rd_atomic),
        min_rnr_timer: given(attribute::MIN_RNR_TIMER).then_some(all.min_rnr_timer),
        timeout: given(attribute::TIMEOUT).then_some(all.timeout),
        retry_count: given(attribute::RETRY_CNT).then_some(all.retry_cnt),
        rnr_retry: given(attribute::RNR_RETRY).then_some(all.rnr_retry),
        drained_event: given(attribute::EN_SQD_ASYNC_NOTIFY).then_some(all.en_sqd_async_notify),
        alternate_path: given(attribute::ALT_PATH).then_some(Path::default()),
        migration_state: given(attribute::PATH_MIG_STATE).then_some(0),
    })
}

/// The attributes of a queue pair as ibverbs has them.
pub(super) fn queried(attributes: &QpAttributes) -> uverbs::QpAttributes {
    uverbs::QpAttributes {
        qp_state: attributes.state as u32,
        cur_qp_state: attributes.state as u32,
        path_mtu: attributes.path_mtu.map_or(0, |mtu| mtu.code().into()),
        qkey: attributes.qkey,
        rq_psn: attributes.rq_psn.get(),
        sq_psn: attributes.sq_psn.get(),
        dest_qp_num: attributes.dest_qpn.get(),
        qp_access_flags: attributes.access.bits(),
        ah_attr: address(&attributes.path),
        pkey_index: attributes.pkey_index,
        en_sqd_async_notify: false,
        sq_draining: attributes.draining,
        max_rd_atomic: attributes.max_rd_atomic,
        max_dest_rd_atomic: attributes.max_dest_rd_atomic,
        min_rnr_timer: attributes.min_rnr_timer,
        port_num: attributes.port.get(),
        timeout: attributes.timeout,
        retry_cnt: attributes.retry_count,
        rnr_retry: attributes.rnr_retry,
    }
}

pub(super) const fn capabilities(cap: &uverbs::Capabilities) -> Capabilities {
    Capabilities {
        send_requests: cap.max_send_wr,
        receive_requests: cap.max_recv_wr,
        send_sges: cap.max_send_sge,
        receive_sges: cap.max_recv_sge,
        inline_bytes: cap.max_inline_data,
    }
}

/// A completion as `ibv_wc` has it, with the program's name of the request.
pub(super) fn completion(
    completion: &Completion,
    (wr_id, retired): (u64, u32),
    time_ns: u64,
) -> entry::Completion {
    let mut flags = 0;
    if completion.immediate.is_some() {
        flags |= wc_flag::WITH_IMM;
    }
    if completion.invalidated.is_some() {
        flags |= wc_flag::WITH_INV;
    }
    let immediate = completion.immediate.or(completion.invalidated);
    let mut whole = entry::Completion {
        wr_id,
        status: completion.status as u32,
        opcode: completion.kind as u32,
        byte_len: completion.byte_len,
        immediate: immediate.unwrap_or_default(),
        qpn: completion.qpn.get(),
        flags,
        retired,
        time_ns,
        ..entry::Completion::default()
    };
    if let Some(datagram) = completion.datagram {
        whole.src_qp = datagram.src_qp.get();
        whole.slid = datagram.slid.get();
        whole.sl = datagram.sl.get();
        whole.dlid_path_bits = datagram.dlid_path_bits;
        whole.pkey_index = datagram.pkey_index;
        if datagram.has_grh {
            whole.flags |= wc_flag::GRH;
        }
    }
    whole
}

/// `ibv_event_type` of what happens to a queue pair.
pub(super) const fn event_of(event: QpEvent) -> u32 {
    match event {
        QpEvent::Fatal => 1,
        QpEvent::InvalidRequest => 2,
        QpEvent::AccessViolation => 3,
        QpEvent::CommunicationEstablished => 4,
        QpEvent::SendQueueDrained => 5,
        QpEvent::LastRequestReached => 16,
    }
}
