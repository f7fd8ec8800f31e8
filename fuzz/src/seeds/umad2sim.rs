//! Seeds of datagrams of ibsim's client library.

use mad::local::FromAgent;
use wire::control::encode;
use wire::umad2sim::{Connect, ControlDatagram, ControlKind, DataDatagram};
use wire::{AttributeId, Format as _, Lid, Mad, Method, Qpn};

use super::messages::mad_message;
use crate::Parts;

pub(super) fn umad_control(kind: ControlKind, client: u32) -> Vec<u8> {
    let mut data = [0; 64];
    if kind == ControlKind::CONNECT {
        let connect = Connect {
            id: 4711,
            qp: 0,
            is_sm: true,
            node: [0; 32],
        };
        connect.emit(&mut data);
    }
    let datagram = ControlDatagram {
        client,
        kind,
        len: 64,
        data,
    };
    datagram.to_bytes::<{ ControlDatagram::LEN }>().to_vec()
}

/// Programs that connect, ask, send and leave.
pub(crate) fn umad_inputs() -> Vec<Vec<u8>> {
    let control = |kind, client| [&[0, 0][..], &umad_control(kind, client)].concat();
    let data = |slot: u8, lid, method| {
        let mad = match lid {
            Lid::PERMISSIVE => Mad::directed_smp(method, AttributeId::NODE_INFO, 0, 5, &[]),
            _ => Ok(Mad::sa(method, AttributeId::NODE_RECORD, 0, 6)),
        };
        let datagram = DataDatagram {
            dlid: lid,
            slid: Lid::ZERO,
            dest_qp: Qpn::SMI,
            src_qp: Qpn::SMI,
            status: 0,
            len: 256,
            mad: mad.expect("a short path"),
        };
        [
            &[3, slot][..],
            &datagram.to_bytes::<{ DataDatagram::LEN }>(),
        ]
        .concat()
    };
    let connect = control(ControlKind::CONNECT, 0);
    let mut inputs = vec![Parts::join([&connect])];
    let mut all = vec![connect.clone()];
    for kind in 2..12 {
        inputs.push(Parts::join([
            connect.clone(),
            control(ControlKind(kind), 0),
        ]));
        if kind != 2 {
            all.push(control(ControlKind(kind), 0));
        }
    }
    let own = data(0, Lid::PERMISSIVE, Method::GET);
    let far = data(0, Lid::new(1), Method::GET_TABLE);
    let trap = data(0, Lid::new(1), Method::TRAP);
    let time: &[u8] = &[6, 0, 110];
    let agent = encode(&FromAgent::Received(mad_message())).expect("a short message");
    let agent = [&[7, 0, 2][..], &agent].concat();
    let rest: [&[u8]; 9] = [
        &own,
        &[5, 0],
        &far,
        &trap,
        time,
        &agent,
        &[7, 0, 1, 0, 9],
        &[7, 0, 0],
        time,
    ];
    all.extend(rest.map(<[u8]>::to_vec));
    all.push(control(ControlKind::DISCONNECT, 0));
    inputs.push(Parts::join([&connect, &own, &far, &trap]));
    inputs.push(Parts::join(all));
    inputs
}
