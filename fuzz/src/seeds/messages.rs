//! Seeds of messages of local sockets.

use hostd::control::{HostIdentity, PingResult};
use mad::local::{FromAgent, MadMessage, ToAgent};
use wire::control::{DeviceReply, DeviceRequest, encode};
use wire::{AttributeId, Guid, Lid, Mad, Method, PortNum, Qpn, Sl};

use crate::targets::device::verbs_requests;
use crate::targets::messages::KINDS;

pub(super) fn mad_message() -> MadMessage {
    let mad = Mad::lid_smp(Method::GET, AttributeId::NODE_INFO, 0, 7);
    MadMessage {
        lid: Lid::new(3),
        qpn: Qpn::SMI,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    }
}

/// Messages of local sockets: some of several kinds, and short bytes as each kind.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let of = |name: &str, bytes: Result<Vec<u8>, wire::control::ControlError>| {
        let at = KINDS.iter().position(|kind| kind.name == name);
        let which = u8::try_from(at.expect("a kind")).expect("few kinds");
        [&[which][..], &bytes.expect("a short message")].concat()
    };
    let ports = DeviceRequest::Ports;
    let mut inputs = vec![
        of(
            "request to a switch",
            encode(&switchd::control::Request::Device(ports.clone())),
        ),
        of(
            "reply of a switch",
            encode(&switchd::control::Reply::Device(DeviceReply::Ports(
                Vec::new(),
            ))),
        ),
        of(
            "request to a host",
            encode(&hostd::control::PortRequest {
                port: PortNum::new(1),
                request: hostd::control::Request::Device(ports),
            }),
        ),
        of(
            "reply of a host",
            encode(&hostd::control::Reply::Identity(identity())),
        ),
        of(
            "reply of a host",
            encode(&hostd::control::Reply::Ping(vec![ping(); 3])),
        ),
        of(
            "request to the controller",
            encode(&controller::control::Request::Resweep),
        ),
        of(
            "reply of the controller",
            encode(&controller::control::Reply::Status(Box::new(status()))),
        ),
        of(
            "request to the supervisor",
            encode(&ibemu::supervisor::protocol::Request::Cable {
                node: 3,
                port: 1,
                plugged: false,
            }),
        ),
        of(
            "reply of the supervisor",
            encode(&ibemu::supervisor::protocol::Reply::Processes(vec![
                process(
                );
                2
            ])),
        ),
        of("to a MAD socket", encode(&ToAgent::Send(mad_message()))),
        of(
            "from a MAD socket",
            encode(&FromAgent::Received(mad_message())),
        ),
    ];
    let verbs = verbs_requests();
    inputs.extend(
        verbs
            .iter()
            .map(|request| of("request of a program of verbs", encode(request))),
    );
    inputs.extend(
        verbs_replies()
            .iter()
            .map(|reply| of("reply to a program of verbs", encode(reply))),
    );
    inputs.extend(short_inputs());
    inputs
}

/// A reply of each kind to a program of verbs.
fn verbs_replies() -> Vec<uverbs::Reply> {
    use uverbs::Reply;
    let device = uverbs::DeviceAttributes {
        description: "an adapter".to_owned(),
        ..uverbs::DeviceAttributes::default()
    };
    vec![
        Reply::Done,
        Reply::Refused {
            errno: uverbs::errno::EINVAL,
            why: "no".to_owned(),
        },
        Reply::Opened(Box::new(device.clone())),
        Reply::Device(Box::new(device)),
        Reply::Handle(7),
        Reply::Cq { cq: 1, entries: 16 },
        Reply::Srq {
            srq: 1,
            max_wr: 4,
            max_sge: 2,
            doorbell: 3,
        },
        Reply::Qp {
            qpn: 0x1_0000,
            cap: uverbs::Capabilities::default(),
            send_doorbell: 1,
            receive_doorbell: 2,
        },
        Reply::QpAttributes(Box::default()),
    ]
}

/// Short bytes as each kind of message.
fn short_inputs() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for which in 0..KINDS.len() {
        let which = u8::try_from(which).expect("few kinds");
        inputs.extend([vec![which], vec![which, 1, 2, 3, 4, 5, 6, 7, 8]]);
        // A list that says it is as long as there are numbers.
        inputs.push(
            [
                &[which, 2][..],
                &[0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            ]
            .concat(),
        );
    }
    inputs
}

fn identity() -> HostIdentity {
    HostIdentity {
        name: "h0".to_owned(),
        guid: Guid(1),
        port: PortNum::new(1),
        port_guid: Guid(2),
        lid: Lid::new(3),
        lmc: wire::Lmc::default(),
        sm_lid: Lid::new(1),
        state: 4,
        mtu: 2048,
        is_sm: true,
    }
}

fn ping() -> PingResult {
    PingResult {
        dlid: Lid::new(3),
        sent: 3,
        received: 2,
        rtt: hostd::control::Latency::default(),
        responder: "h1".to_owned(),
        responder_lid: Lid::new(3),
    }
}

fn status() -> controller::control::Status {
    controller::control::Status {
        warnings: vec!["one".to_owned(), "two".to_owned()],
        ..controller::control::Status::default()
    }
}

fn process() -> ibemu::supervisor::protocol::Process {
    ibemu::supervisor::protocol::Process {
        pid: Some(7),
        restarts: 1,
        exit: Some("killed".to_owned()),
        is_lost: true,
    }
}
