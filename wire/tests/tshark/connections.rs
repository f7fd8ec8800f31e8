//! Communication management: what tshark knows of it (it shows no fields of MRA and of datagrams' messages).
//! Flow label and packet rate share a word (IBA 12.6.5), of which tshark 4.0 takes three bytes for the one and the
//! first for the other: the golden vectors alone judge those.

use wire::cm::{Drep, Dreq, Rej, RejReason, Rep, Rtu, Subject};
use wire::{Guid, Mad, Psn, Qpn};

use crate::decode::{Case, judge};
use crate::fixtures::{cm_req, counting};

const TID: u64 = 0x0102_0304_0506_0708;
const LOCAL: u32 = 0x0102_0304;
const REMOTE: u32 = 0x1112_1314;

fn message<M: wire::cm::CmMessage>(message: &M) -> Case {
    Case::gmp(M::NAME, &Mad::cm(TID, message))
        .field("infiniband.mad.mgmtclass", 7u8)
        .field("infiniband.mad.classversion", 2u8)
        .field("infiniband.mad.method", 3u8)
        .field("infiniband.mad.transactionid", TID)
        .field("infiniband.mad.attributeid", M::ID.0)
}

fn req() -> Case {
    let req = cm_req();
    message(&req)
        .field("infiniband.cm.req", req.local_comm_id)
        .field("infiniband.cm.req.serviceid", req.service_id)
        .field("infiniband.cm.req.serviceid.protocol", 6u8)
        .field("infiniband.cm.req.serviceid.dport", 7174u16)
        .field("infiniband.cm.req.localcaguid", req.local_ca_guid.0)
        .field("infiniband.cm.req.localqkey", req.local_qkey)
        .field("infiniband.cm.req.localqpn", req.local_qpn.get())
        .field("infiniband.cm.req.responderres", req.responder_resources)
        .field("infiniband.cm.req.initdepth", req.initiator_depth)
        .field(
            "infiniband.cm.req.remoteresptout",
            req.remote_cm_response_timeout,
        )
        .field("infiniband.cm.req.transpsvctype", 1u8)
        .field("infiniband.cm.req.e2eflowctrl", 1u8)
        .field("infiniband.cm.req.startpsn", req.starting_psn.get())
        .field(
            "infiniband.cm.req.localresptout",
            req.local_cm_response_timeout,
        )
        .field("infiniband.cm.req.retrcount", req.retry_count)
        .field("infiniband.cm.req.pkey", req.pkey)
        .field("infiniband.cm.req.pppmtu", req.path_mtu)
        .field("infiniband.cm.req.rdcexist", 0u8)
        .field("infiniband.cm.req.rnrretrcount", req.rnr_retry_count)
        .field("infiniband.cm.req.maxcmretr", req.max_cm_retries)
        .field("infiniband.cm.req.srq", 1u8)
        .field(
            "infiniband.cm.req.prim_locallid",
            req.primary.local_lid.get(),
        )
        .field(
            "infiniband.cm.req.prim_remotelid",
            req.primary.remote_lid.get(),
        )
        .text("infiniband.cm.req.prim_localgid", "fe80::1")
        .text("infiniband.cm.req.prim_remotegid", "fe80::2")
        .field("infiniband.cm.req.prim_tfcclass", req.primary.traffic_class)
        .field("infiniband.cm.req.prim_hoplim", req.primary.hop_limit)
        .field("infiniband.cm.req.prim_sl", req.primary.sl.get())
        .field("infiniband.cm.req.prim_subnetlocal", 1u8)
        .field(
            "infiniband.cm.req.prim_localacktout",
            req.primary.local_ack_timeout,
        )
        .field("infiniband.cm.req.alt_locallid", 0u8)
        .field("infiniband.cm.req.ip_cm.majv", 0u8)
        .field("infiniband.cm.req.ip_cm.ipv", 4u8)
        .field("infiniband.cm.req.ip_cm.sport", 0xd1d2u16)
        .text("infiniband.cm.req.ip_cm.sip4", "10.73.0.1")
        .text("infiniband.cm.req.ip_cm.dip4", "10.73.0.2")
}

fn rep() -> Case {
    let rep = Rep {
        local_comm_id: LOCAL,
        remote_comm_id: REMOTE,
        local_qkey: 0x2122_2324,
        local_qpn: Qpn::constant(0x31_3233),
        starting_psn: Psn::constant(0x41_4243),
        responder_resources: 0x34,
        initiator_depth: 0x35,
        target_ack_delay: 0x12,
        failover_accepted: 2,
        end_to_end_flow_control: true,
        rnr_retry_count: 6,
        srq: true,
        local_ca_guid: Guid(0x5152_5354_5556_5758),
        private_data: counting(1),
    };
    message(&rep)
        .field("infiniband.cm.rep", LOCAL)
        .field("infiniband.cm.rep.remotecommid", REMOTE)
        .field("infiniband.cm.rep.localqkey", rep.local_qkey)
        .field("infiniband.cm.rep.localqpn", rep.local_qpn.get())
        .field("infiniband.cm.rep.startpsn", rep.starting_psn.get())
        .field("infiniband.cm.rep.respres", rep.responder_resources)
        .field("infiniband.cm.rep.initdepth", rep.initiator_depth)
        .field("infiniband.cm.rep.tgtackdelay", rep.target_ack_delay)
        .field("infiniband.cm.rep.failoveracc", rep.failover_accepted)
        .field("infiniband.cm.rep.e2eflowctrl", 1u8)
        .field("infiniband.cm.rep.rnrretrcount", rep.rnr_retry_count)
        .field("infiniband.cm.rep.srq", 1u8)
        .field("infiniband.cm.rep.localcaguid", rep.local_ca_guid.0)
}

fn rej() -> Case {
    let rej = Rej {
        local_comm_id: LOCAL,
        remote_comm_id: REMOTE,
        message: Subject::Rep,
        info_len: 72,
        reason: RejReason::CONSUMER,
        info: counting(1),
        private_data: counting(1),
    };
    message(&rej)
        .field("infiniband.cm.rej.localcommid", LOCAL)
        .field("infiniband.cm.rej.remotecommid", REMOTE)
        .field("infiniband.cm.rej.msgrej", 1u8)
        .field("infiniband.cm.rej.rejinfolen", 72u8)
        .field("infiniband.cm.rej.reason", 28u8)
}

#[test]
fn messages_of_connections() {
    let rtu = Rtu {
        local_comm_id: LOCAL,
        remote_comm_id: REMOTE,
        private_data: counting(1),
    };
    let dreq = Dreq {
        local_comm_id: LOCAL,
        remote_comm_id: REMOTE,
        remote_qpn: Qpn::constant(0x61_6263),
        private_data: counting(1),
    };
    let drep = Drep {
        local_comm_id: LOCAL,
        remote_comm_id: REMOTE,
        private_data: counting(1),
    };
    judge(&[
        req(),
        rep(),
        rej(),
        message(&rtu)
            .field("infiniband.cm.rtu.localcommid", LOCAL)
            .field("infiniband.cm.rtu.remotecommid", REMOTE),
        message(&dreq)
            .field("infiniband.cm.dreq.localcommid", LOCAL)
            .field("infiniband.cm.dreq.remotecommid", REMOTE)
            .field("infiniband.cm.req.remoteqpneecn", 0x61_6263u32),
        message(&drep)
            .field("infiniband.cm.drsp.localcommid", LOCAL)
            .field("infiniband.cm.drsp.remotecommid", REMOTE),
    ]);
}
