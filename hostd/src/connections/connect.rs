//! Connections, and what their queue pairs need.

use link::Time;
use mad::cm::CmError;
use uverbs::cm::{ConnectionParameters, PathEntry, QpReply, errno as more};
use uverbs::{AddressAttributes, GlobalAttributes, QpAttributes, attribute, errno};
use wire::cm::{CmPath, IpCmHeader, Rep, Req, SidrReq, SidrStatus};
use wire::{Format as _, Gid, Lid, Qpn, Sl};

use super::commands::Done;
use super::{Connections, Id, IdState};

/// How long a peer may take to answer, as a code: 1.07 s.
const RESPONSE_TIMEOUT: u8 = 18;
/// How often a message is sent again.
const RETRIES: u8 = 15;
/// `ibv_access_flags`: remote write; remote read and atomics.
const REMOTE_WRITE: u32 = 1 << 1;
const REMOTE_READ_ATOMIC: u32 = 1 << 2 | 1 << 3;
/// `ibv_qp_state`.
const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;
/// Bytes in front of the program's private data.
pub(super) const HEADER_LEN: usize = IpCmHeader::LEN;

/// Why a connection manager does not do something, as an errno.
fn refusal(error: CmError) -> u16 {
    match error {
        CmError::Full => errno::ENOMEM,
        CmError::NoConnection => more::ENODEV,
        CmError::State => errno::EINVAL,
    }
}

/// Private data behind the addresses; `None` if it is too long.
fn with_header<const N: usize>(header: &IpCmHeader, data: &[u8]) -> Option<[u8; N]> {
    let mut out = [0; N];
    header.emit(&mut out);
    out.get_mut(HEADER_LEN..HEADER_LEN + data.len())?
        .copy_from_slice(data);
    Some(out)
}

impl Id {
    /// The ACK timeout of its queue pair, as a code.
    fn local_ack_timeout(&self, path: &PathEntry) -> u8 {
        self.ack_timeout
            .unwrap_or(path.packet_life_time.saturating_add(1).min(31))
    }

    /// The address handle to its peer.
    fn handle(&self, path_bits: u8) -> AddressAttributes {
        let path = self.path.unwrap_or_default();
        AddressAttributes {
            // One subnet needs no global route.
            global: (path.hop_limit > 1).then_some(GlobalAttributes {
                dgid: path.dgid,
                flow_label: path.flow_label,
                sgid_index: 0,
                hop_limit: path.hop_limit,
                traffic_class: path.traffic_class,
            }),
            dlid: path.dlid,
            sl: path.sl,
            src_path_bits: path_bits,
            static_rate: 0,
            port_num: 1,
        }
    }
}

impl Connections {
    pub(super) fn connect(
        &mut self,
        now: Time,
        number: u32,
        parameters: &ConnectionParameters,
    ) -> Done {
        let own_psn = self.agent.draw_psn();
        let guid = self.port.node_guid;
        let mtu = self.port.mtu;
        let id = self.id(number)?;
        let (IdState::Routed, Some(path)) = (id.state, id.path) else {
            return Err(errno::EINVAL);
        };
        let (Some(source), Some(destination)) = (id.source, id.destination) else {
            return Err(errno::EINVAL);
        };
        let header = IpCmHeader {
            source_port: source.port,
            source: source.ip,
            destination: destination.ip,
        };
        let service_id = wire::cm::ip_service(id.space, destination.port);
        let is_datagram = id.is_datagram;
        id.own_psn = own_psn;
        id.responder_resources = parameters.responder_resources;
        id.initiator_depth = parameters.initiator_depth;
        id.retry_count = parameters.retry_count;
        let ack_timeout = id.local_ack_timeout(&path);
        let data = &parameters.private_data;
        let route = self.route(&path);
        let begun = if is_datagram {
            let req = SidrReq {
                request_id: 0,
                pkey: path.pkey,
                service_id,
                private_data: with_header(&header, data).ok_or(errno::EINVAL)?,
            };
            let timing = (RESPONSE_TIMEOUT, RETRIES);
            self.agent.ask(now, route, req, timing)
        } else {
            let req = Req {
                local_comm_id: 0,
                service_id,
                local_ca_guid: guid,
                local_qkey: 0,
                local_qpn: Qpn::new(parameters.qp_num).map_err(|_| errno::EINVAL)?,
                responder_resources: parameters.responder_resources,
                initiator_depth: parameters.initiator_depth,
                remote_cm_response_timeout: RESPONSE_TIMEOUT,
                transport_service: 0,
                end_to_end_flow_control: parameters.flow_control,
                starting_psn: own_psn,
                local_cm_response_timeout: RESPONSE_TIMEOUT,
                retry_count: parameters.retry_count,
                pkey: path.pkey,
                path_mtu: path.mtu.min(mtu),
                rnr_retry_count: parameters.rnr_retry_count,
                max_cm_retries: RETRIES,
                srq: parameters.srq,
                primary: CmPath {
                    local_lid: Lid::new(path.slid),
                    remote_lid: Lid::new(path.dlid),
                    local_gid: Gid(path.sgid),
                    remote_gid: Gid(path.dgid),
                    flow_label: path.flow_label,
                    packet_rate: path.rate,
                    traffic_class: path.traffic_class,
                    hop_limit: path.hop_limit,
                    sl: Sl::truncate(path.sl),
                    subnet_local: path.hop_limit <= 1,
                    local_ack_timeout: ack_timeout,
                },
                alternate: CmPath::default(),
                private_data: with_header(&header, data).ok_or(errno::EINVAL)?,
            };
            self.agent.connect(now, route, req)
        };
        let cm = begun.map_err(refusal)?;
        self.by_cm.insert(cm, number);
        let id = self.id(number)?;
        id.cm = Some(cm);
        id.state = IdState::Connecting;
        Ok(Vec::new())
    }

    pub(super) fn accept(
        &mut self,
        now: Time,
        number: u32,
        uid: u64,
        parameters: Option<&ConnectionParameters>,
    ) -> Done {
        let guid = self.port.node_guid;
        let id = self.id(number)?;
        let cm = id.cm.ok_or(errno::EINVAL)?;
        match (id.state, parameters) {
            (IdState::Granted, _) => {
                self.agent.ready(cm).map_err(refusal)?;
                self.id(number)?.state = IdState::Established;
            }
            (IdState::Requested, Some(of)) if id.is_datagram => {
                let qpn = Qpn::new(of.qp_num).map_err(|_| errno::EINVAL)?;
                let qkey = match of.qkey {
                    0 => id.qkey,
                    qkey => qkey,
                };
                id.qkey = qkey;
                id.uid = uid;
                let pair = Some((qpn, qkey));
                let status = SidrStatus::VALID;
                self.agent
                    .answer(now, cm, status, pair, &of.private_data)
                    .map_err(refusal)?;
                self.accepted(number)?;
            }
            (IdState::Requested, Some(of)) => {
                let mut private_data = [0; Rep::PRIVATE_LEN];
                private_data
                    .get_mut(..of.private_data.len())
                    .ok_or(errno::EINVAL)?
                    .copy_from_slice(&of.private_data);
                id.responder_resources = of.responder_resources;
                id.initiator_depth = of.initiator_depth;
                let rep = Rep {
                    local_comm_id: 0,
                    remote_comm_id: 0,
                    local_qkey: 0,
                    local_qpn: Qpn::new(of.qp_num).map_err(|_| errno::EINVAL)?,
                    starting_psn: id.own_psn,
                    responder_resources: of.responder_resources,
                    initiator_depth: of.initiator_depth,
                    target_ack_delay: 0,
                    failover_accepted: 0,
                    end_to_end_flow_control: of.flow_control,
                    rnr_retry_count: of.rnr_retry_count,
                    srq: of.srq,
                    local_ca_guid: guid,
                    private_data,
                };
                id.uid = uid;
                self.agent.grant(now, cm, rep).map_err(refusal)?;
                self.accepted(number)?;
            }
            _ => return Err(errno::EINVAL),
        }
        Ok(Vec::new())
    }

    /// A request that has waited does so no more.
    fn accepted(&mut self, number: u32) -> Result<(), u16> {
        let id = self.id(number)?;
        id.state = IdState::Accepted;
        let listener = id.listener;
        if let Some(listener) = listener.and_then(|listener| self.ids.get_mut(&listener)) {
            listener.pending -= 1;
        }
        Ok(())
    }

    pub(super) fn disconnect(&mut self, now: Time, number: u32) -> Done {
        let id = self.id(number)?;
        let cm = id.cm.ok_or(errno::EINVAL)?;
        if id.is_datagram {
            return Err(errno::EINVAL);
        }
        match id.state {
            IdState::Established | IdState::Accepted => {
                self.agent.disconnect(now, cm).map_err(refusal)?;
            }
            // The peer was faster: its DREQ has been answered.
            IdState::Closed => {}
            _ => return Err(errno::EINVAL),
        }
        Ok(Vec::new())
    }

    /// The attributes with which a queue pair enters a state (IBA 11.2.5.2).
    pub(super) fn init_qp(&mut self, number: u32, state: u32) -> Done {
        let pkeys = self.port.pkeys.clone();
        let own_pkey = self.port.own_pkey;
        let port_mtu = self.port.mtu;
        let slid = self.id(number)?.path.map_or(0, |path| path.slid);
        let path_bits = self.path_bits(slid);
        let id = self.id(number)?;
        if !id.on_device {
            return Err(errno::EINVAL);
        }
        let pkey = id.path.map_or(own_pkey, |path| path.pkey);
        let entry = wire::p_key::admitting_entry(&pkeys, pkey);
        let mut attributes = QpAttributes {
            qp_state: state,
            port_num: 1,
            pkey_index: u16::try_from(entry.unwrap_or_default()).unwrap_or_default(),
            ..QpAttributes::default()
        };
        let mask = match (state, id.is_datagram) {
            (INIT, true) => {
                attributes.qkey = id.qkey;
                attribute::STATE | attribute::PKEY_INDEX | attribute::PORT | attribute::QKEY
            }
            (INIT, false) => {
                attributes.qp_access_flags = match (id.state, id.responder_resources) {
                    (
                        IdState::Idle
                        | IdState::Bound
                        | IdState::AddressQuery
                        | IdState::Resolved
                        | IdState::Routed,
                        _,
                    ) => 0,
                    (_, 0) => REMOTE_WRITE,
                    _ => REMOTE_WRITE | REMOTE_READ_ATOMIC,
                };
                attribute::STATE | attribute::PKEY_INDEX | attribute::PORT | attribute::ACCESS_FLAGS
            }
            (RTR, false) if id.peer_qpn != Qpn::default() => {
                let path = id.path.ok_or(errno::EINVAL)?;
                attributes.ah_attr = id.handle(path_bits);
                attributes.path_mtu = path.mtu.clamp(1, port_mtu.max(1)).into();
                attributes.dest_qp_num = id.peer_qpn.get();
                attributes.rq_psn = id.own_psn.get();
                attributes.max_dest_rd_atomic = id.responder_resources;
                attribute::STATE
                    | attribute::AV
                    | attribute::PATH_MTU
                    | attribute::DEST_QPN
                    | attribute::RQ_PSN
                    | attribute::MAX_DEST_RD_ATOMIC
                    | attribute::MIN_RNR_TIMER
            }
            (RTS, false) if id.peer_qpn != Qpn::default() => {
                let path = id.path.ok_or(errno::EINVAL)?;
                attributes.sq_psn = id.peer_psn.get();
                attributes.timeout = id.local_ack_timeout(&path);
                attributes.retry_cnt = id.retry_count;
                attributes.rnr_retry = id.rnr_retry_count;
                attributes.max_rd_atomic = id.initiator_depth;
                attribute::STATE
                    | attribute::SQ_PSN
                    | attribute::TIMEOUT
                    | attribute::RETRY_CNT
                    | attribute::RNR_RETRY
                    | attribute::MAX_QP_RD_ATOMIC
            }
            _ => return Err(errno::EINVAL),
        };
        Ok(QpReply { mask, attributes }.bytes())
    }

    /// The address handle to an id's peer, from the right one of the port's LIDs.
    pub(super) fn handle_of(&self, id: &Id) -> AddressAttributes {
        let slid = id.path.map_or(0, |path| path.slid);
        id.handle(self.path_bits(slid))
    }
}
