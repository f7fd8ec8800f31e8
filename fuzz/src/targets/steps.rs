//! Inputs for whole devices: every kind of step, alone and one after the other.

use wire::{FlowControl, FlowOp, Format, Guid, PortNum, RecordKind, Training, Vl};

use super::device::record;
use super::mads::{fields_of, requests};
use crate::Parts;
use crate::seeds;

fn flow_control() -> Vec<u8> {
    let packet = FlowControl {
        op: FlowOp::Normal,
        fctbs: 3,
        vl: Vl::constant(1),
        fccl: 64,
    };
    packet.to_bytes::<{ FlowControl::LEN }>().to_vec()
}

fn training() -> Vec<u8> {
    let training = Training {
        guid: Guid(2),
        port: PortNum::new(1),
        epoch: 7,
        heard_epoch: 0,
        rates: wire::LinkRates::NONE,
    };
    training.to_bytes::<{ Training::LEN }>().to_vec()
}

/// A step `what` on port 1 with these fields behind.
pub(super) fn step(what: u8, fields: &[u8]) -> Vec<u8> {
    [&[what, 0], fields].concat()
}

/// Inputs of one step each and one of all; step `command` is followed by each of `commands`.
pub(super) fn inputs(command: u8, commands: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut steps = vec![
        step(0, &record(RecordKind::FlowControl, &flow_control())),
        step(1, &[&[2][..], &training()].concat()),
        step(1, &[3]),
    ];
    steps.extend(seeds::packets().iter().map(|packet| step(2, packet)));
    for mad in requests() {
        let fields = fields_of(&mad);
        let management = mad.class().is_subnet_management();
        if management {
            steps.push(step(3, &[&[1, 0][..], &fields].concat()));
            steps.push(step(3, &[&[4, 4][..], &fields].concat()));
        } else {
            steps.push(step(4, &[&[1, 0, 0][..], &fields].concat()));
        }
    }
    for (dlid, qp, payload) in [
        (0, 2, &b"ping\x01"[..]),
        (0, 3, b"perf\x01"),
        (1, 3, b"perf\x02"),
        (5, 7, b"perf\x04"),
        (2, 6, b"1234"),
    ] {
        let payload = [payload, &[0; 91]].concat();
        steps.push(step(
            5,
            &[&[1, dlid, 0, qp, 2, 0, 0, 0, 1][..], &payload].concat(),
        ));
        steps.push(step(
            5,
            &[&[1, dlid, 0x11, qp, 2, 0, 1, 0, 1][..], &payload].concat(),
        ));
    }
    steps.extend([
        step(6, &[80]),
        step(6, &[120]),
        step(7, &[1]),
        step(7, &[0]),
    ]);
    steps.extend(commands.iter().map(|bytes| step(command, bytes)));
    let mut inputs: Vec<Vec<u8>> = steps.iter().map(|step| Parts::join([step])).collect();
    for chunk in steps.chunks(12) {
        inputs.push(Parts::join(chunk));
    }
    inputs
}
