//! The libraries that programs load: what a host tells them.

use core::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

use ibumad::abi::adapters::try_adapter;
use ibumad::client::{Received, receive};
use ibumad::environment::Place;
use mad::umad::{Adapter, AdapterPort, Reply};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{
    AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, send, shutdown, socketpair,
};
use wire::control::{decode, encode};
use wire::umad::UserMadHeader;
use wire::{Format as _, Lid, Lmc, PortNum, Sl};

use crate::Parts;
use crate::fields::Fields;

/// Room that programs have for a user MAD, bytes: less than a header, one MAD, a long one.
const ROOMS: [usize; 5] = [0, 40, 320, 1000, 1 << 17];
/// MADs that one input receives at most.
const RECEIVED_MAX: usize = 1000;
/// Ports of an adapter that programs see at most.
const PORTS_MAX: usize = 9;

fn pair() -> (OwnedFd, OwnedFd) {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    socketpair(family, kind, SocketFlags::CLOEXEC, None).expect("a pair of sockets")
}

/// The first part says how much room the program has; of each other one the first byte says whether the host sends
/// the rest as it is, with a sound header, or several times. Then the program receives until nothing is left, or
/// what is left is no user MAD. The last part is an answer of the host as well, which may describe an adapter.
///
/// # Panics
/// If more is received than there was room for or the host has sent, or receiving has no end.
pub(crate) fn libibumad(bytes: &[u8]) {
    let mut parts = Parts::of(bytes);
    let mut head = Fields::of(parts.next().unwrap_or_default());
    let rooms = [head.one_of(&ROOMS), head.one_of(&ROOMS)];
    let (program, host) = pair();
    let mut sent = 0;
    for part in parts {
        describe(part);
        sent += tell(&host, part);
    }
    shutdown(&host, Shutdown::Write).expect("the host's end");
    let mut buffers = rooms.map(|room| vec![MaybeUninit::uninit(); room]);
    for turn in 0.. {
        assert!(turn < RECEIVED_MAX, "receiving has an end");
        // At the end a program waits for a moment: that is not for here.
        if ioctl_fionread(&program).is_ok_and(|waiting| waiting == 0) {
            return;
        }
        let buffer = &mut buffers[turn % 2];
        match receive(program.as_fd(), buffer) {
            Ok(Received::Whole { length, .. }) => {
                assert!(length <= buffer.len() && length <= sent);
            }
            Ok(Received::NeedsRoom { length }) if length > ROOMS[4] => return,
            Ok(Received::NeedsRoom { length }) => {
                assert!(length > buffer.len());
                buffers[turn % 2].resize(length, MaybeUninit::uninit());
            }
            // It stays, and so it is with a kernel.
            Err(Errno::INVAL) => return,
            Err(error) => assert_eq!(error, Errno::IO, "the host has ended"),
        }
    }
}

/// Sends what a part says; how many bytes.
fn tell(host: &OwnedFd, part: &[u8]) -> usize {
    let mut fields = Fields::of(part);
    let kind = fields.byte();
    let mut message = fields.rest().to_vec();
    let times = match kind % 3 {
        0 => 1,
        1 => {
            if let Some(length) = u32::try_from(message.len()).ok()
                && let Ok((mut header, _)) = UserMadHeader::parse(&message)
            {
                header.length = length;
                header.emit(&mut message);
            }
            1
        }
        _ => usize::from(kind / 3),
    };
    let mut sent = 0;
    for _ in 0..times {
        // One that finds no room is lost; an empty one would say that the host has ended.
        if message.is_empty() || send(host, &message, SendFlags::DONTWAIT).is_err() {
            break;
        }
        sent += message.len();
    }
    sent
}

/// An answer of the host is refused, or structures of C hold it.
fn describe(part: &[u8]) {
    if let Ok(Reply::Adapter(adapter)) = decode(part) {
        let place = Place {
            name: "ibemu0".to_owned(),
            socket: "/tmp/h0.ibumad".into(),
        };
        let ports = try_adapter(place, *adapter).expect("memory");
        assert!(ports <= PORTS_MAX);
    }
}

fn adapter() -> Adapter {
    let port = |number| AdapterPort {
        number: PortNum::new(number),
        state: 4,
        physical_state: 5,
        lid: Lid::new(7),
        lmc: Lmc::default(),
        sm_lid: Lid::new(1),
        sm_sl: Sl::default(),
        pkeys: vec![0xffff, 0x7fff],
        guids: vec![0x11, 0x12],
        ..AdapterPort::default()
    };
    Adapter {
        ports: [1, 2, 9, 10].map(port).to_vec(),
        ..Adapter::default()
    }
}

/// User MADs short and long, whole and in pieces, and adapters.
pub(crate) fn inputs() -> Vec<Vec<u8>> {
    let header = |length| UserMadHeader {
        agent: 1,
        length,
        ..UserMadHeader::default()
    };
    let message = |kind: u8, length: u32, rest: usize| {
        let header = header(length).to_bytes::<{ UserMadHeader::LEN }>();
        [&[kind][..], &header, &vec![3; rest]].concat()
    };
    let adapter = encode(&Reply::Adapter(Box::new(adapter()))).expect("a short message");
    let short = message(1, 0, 256);
    let long = [
        message(0, 60_000, 30_000),
        [&[0][..], &[4; 29_936]].concat(),
    ];
    let inputs: [Vec<&[u8]>; 6] = [
        vec![&[2, 4], &short, &short],
        vec![&[1, 2], &short, &adapter],
        vec![&[4, 4], &long[0], &long[1], &short],
        vec![&[4, 4], &long[0]],
        vec![&[0, 3], &short, &[0, 1, 2]],
        vec![&[4], &[32, 9, 9, 9], &adapter],
    ];
    inputs.into_iter().map(Parts::join).collect()
}
