//! Inputs to start from: every request, and steps of every kind.

use uverbs::entry::opcode;
use uverbs::{AddressAttributes, QpAttributes, Request, attribute};
use wire::control::encode;

use super::program::{pair, region};
use crate::Parts;

/// Rings of a program: send queue, receive queue, completion queue, doorbell page.
const RINGS: [u8; 4] = [0, 1, 2, 3];

/// Every request, of what the program has.
pub(crate) fn requests() -> Vec<Request> {
    let (pd, qpn, cq, key, srq) = (0, 0, 0, 0, 0);
    let gid = [0xff; 16];
    let attributes = QpAttributes {
        qp_state: 3,
        ..QpAttributes::default()
    };
    vec![
        Request::Describe,
        Request::AllocPd,
        Request::RegMr(region(pd, 0xf)),
        Request::ReregMr {
            key,
            region: region(pd, 1),
        },
        Request::CreateAh {
            pd,
            attributes: AddressAttributes::default(),
        },
        Request::CreateChannel,
        Request::CreateCq {
            entries: 4,
            channel: Some(1),
            cookie: 9,
        },
        Request::ResizeCq { cq, entries: 32 },
        Request::CreateSrq {
            pd,
            max_wr: 4,
            max_sge: 1,
            cookie: 8,
        },
        Request::ModifySrq { srq, limit: 2 },
        Request::QuerySrq { srq },
        Request::CreateQp(Box::new(pair((pd, cq), 2, None))),
        Request::CreateQp(Box::new(pair((pd, cq), 4, Some(0)))),
        Request::ModifyQp {
            qpn,
            mask: attribute::STATE,
            attributes: Box::new(attributes),
        },
        Request::QueryQp { qpn },
        Request::AttachMcast { qpn, gid },
        Request::DetachMcast { qpn, gid },
        Request::DestroyQp { qpn },
        Request::DestroySrq { srq },
        Request::DestroyCq { cq },
        Request::DestroyChannel { channel: 1 },
        Request::DestroyAh { handle: 0 },
        Request::DeregMr { key },
        Request::DeallocPd { pd },
        Request::Open {
            version: uverbs::VERSION,
            port: 1,
        },
    ]
}

/// A request into a ring: of a queue, an operation, two pieces of the program's memory.
fn posted(place: u8, ring: u8, operation: u8) -> Vec<u8> {
    let piece = [0, 0, 8, 1, 0];
    let head = [2, place, ring];
    let tail = [operation, 2, 0, 16, 0];
    [&head[..], &piece, &piece, &tail].concat()
}

/// Requests alone and one after the other, traffic of each service, and words that no library writes.
pub(crate) fn inputs() -> Vec<Vec<u8>> {
    let request = |request: Request| {
        let bytes = encode(&request).expect("a short message");
        [&[0, 0][..], &bytes].concat()
    };
    let requests: Vec<Vec<u8>> = requests().into_iter().map(request).collect();
    let mut traffic = vec![posted(1, 1, 0), posted(1, 1, 0)];
    traffic.extend((0..opcode::SEND_WITH_INV).map(|operation| posted(0, 0, operation)));
    traffic.extend([
        vec![6, 0, 60],
        vec![8, 0, 0, 1, 20],
        vec![8, 1, 0, 0, 20],
        vec![5, 0, 0, 1],
        vec![9, 0, 2],
    ]);
    let mut hostile = Vec::new();
    for ring in RINGS {
        hostile.push(vec![4, 0, ring, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        hostile.push(vec![4, 0, ring, 1, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
        hostile.push(vec![4, 0, ring, 3, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        hostile.push([&[3, 0, ring][..], &[0xff; 64]].concat());
    }
    let end = vec![vec![9, 0, 0], vec![6, 1, 110], vec![9, 1, 0]];
    let mut inputs = Vec::new();
    for services in [[0, 0, 0, 0, 2, 1], [1, 1, 1, 1, 0, 0], [2, 0, 2, 0, 2, 0]] {
        let all = [&[services.to_vec()][..], &traffic, &end];
        inputs.push(Parts::join(all.concat()));
    }
    let head = [vec![0; 6]];
    inputs.push(Parts::join([&head[..], &requests].concat()));
    for steps in requests.iter().chain(&hostile) {
        let all = [
            &head[..],
            &traffic[..4],
            core::slice::from_ref(steps),
            &traffic[2..],
        ];
        inputs.push(Parts::join(all.concat()));
    }
    inputs
}
