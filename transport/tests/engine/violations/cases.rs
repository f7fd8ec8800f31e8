//! What a consumer can ask for that violates a rule.

use transport::{Access, QpEvent, RegionConfig, Remote, SendOperation, SpaceId, Status};
use wire::{NakCode, Service};

use crate::bed::{ALL, BASE, Pair, Setting};

/// In what a violation ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) nak: Option<NakCode>,
    /// Of the requester's work.
    pub(super) sent: Status,
    /// Of the peer's receive request, if it ends otherwise than flushed.
    pub(super) received: Option<Status>,
    pub(super) event: Option<QpEvent>,
}

const REMOTE_ACCESS: End = End {
    nak: Some(NakCode::RemoteAccessError),
    sent: Status::RemoteAccess,
    received: None,
    event: Some(QpEvent::AccessViolation),
};
const INVALID: End = End {
    nak: Some(NakCode::InvalidRequest),
    sent: Status::RemoteInvalidRequest,
    received: None,
    event: Some(QpEvent::InvalidRequest),
};
const REMOTE_OPERATION: End = End {
    nak: Some(NakCode::RemoteOperationalError),
    sent: Status::RemoteOperation,
    received: None,
    event: None,
};
const LOCAL: End = End {
    nak: None,
    sent: Status::LocalProtection,
    received: None,
    event: None,
};

/// A request that a consumer can make, and what is wrong with it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) setting: Setting,
    /// Posts work 7; receive request 1 of 64 bytes waits at the peer.
    pub(super) post: fn(&mut Pair),
    pub(super) end: End,
}

fn case(name: &'static str, post: fn(&mut Pair), end: End) -> Case {
    Case {
        name,
        setting: Setting::new(Service::Rc),
        post,
        end,
    }
}

fn post(pair: &mut Pair, operation: SendOperation, len: usize) {
    let a = &mut pair.sides[0];
    a.post(pair.now, 7, operation, &[a.sge(0, len)]);
}

pub(super) fn write(remote: Remote) -> SendOperation {
    SendOperation::Write {
        remote,
        immediate: None,
    }
}

fn remote(pair: &Pair, at: usize) -> Remote {
    pair.sides[1].remote(at)
}

/// A region of the peer's with these rights, in a domain of its own if asked for.
fn region(pair: &mut Pair, access: Access, foreign: bool) -> Remote {
    let b = &mut pair.sides[1];
    let pd = match foreign {
        true => b.engine.create_pd().unwrap(),
        false => b.pd,
    };
    let config = RegionConfig {
        pd,
        space: SpaceId(0),
        address: BASE,
        iova: BASE,
        length: 4096,
        access,
    };
    Remote {
        va: BASE,
        rkey: b.engine.register_region(config).unwrap(),
    }
}

fn atomic(remote: Remote) -> SendOperation {
    SendOperation::FetchAdd { remote, add: 1 }
}

pub(super) fn remote_cases() -> Vec<Case> {
    let mut all = write_cases();
    all.extend(domain_and_right_cases());
    all.extend(atomic_cases());
    all.extend(send_cases());
    all.extend(fault_cases());
    all
}

/// WRITEs with a wrong key or beyond a region.
fn write_cases() -> Vec<Case> {
    vec![
        case(
            "WRITE with a key that is none",
            |pair| {
                let to = Remote {
                    rkey: 0,
                    ..remote(pair, 0)
                };
                post(pair, write(to), 8);
            },
            REMOTE_ACCESS,
        ),
        case(
            "WRITE with the key of a region that was deregistered",
            |pair| {
                let to = remote(pair, 0);
                pair.sides[1].engine.deregister_region(to.rkey).unwrap();
                // Its place is used again.
                region(pair, ALL, false);
                post(pair, write(to), 8);
            },
            REMOTE_ACCESS,
        ),
        case(
            "WRITE beyond the end",
            |pair| {
                let to = remote(pair, (1 << 17) - 7);
                post(pair, write(to), 8);
            },
            REMOTE_ACCESS,
        ),
        case(
            "WRITE whose later packet is beyond the end",
            |pair| {
                let to = remote(pair, (1 << 17) - 1500);
                post(pair, write(to), 3000);
            },
            REMOTE_ACCESS,
        ),
        case(
            "WRITE before the start",
            |pair| {
                let to = Remote {
                    va: BASE - 1,
                    ..remote(pair, 0)
                };
                post(pair, write(to), 8);
            },
            REMOTE_ACCESS,
        ),
        case(
            "WRITE round the end of the address space",
            |pair| {
                let to = Remote {
                    va: u64::MAX - 3,
                    ..remote(pair, 0)
                };
                post(pair, write(to), 8);
            },
            REMOTE_ACCESS,
        ),
    ]
}

/// Regions of other domains, without the right, READs beyond their end.
fn domain_and_right_cases() -> Vec<Case> {
    vec![
        case(
            "WRITE to a region of another domain",
            |pair| {
                let to = region(pair, ALL, true);
                post(pair, write(to), 8);
            },
            REMOTE_ACCESS,
        ),
        case(
            "WRITE to a region without that right",
            |pair| {
                let to = region(pair, Access::LOCAL_WRITE.with(Access::REMOTE_READ), false);
                post(pair, write(to), 8);
            },
            REMOTE_ACCESS,
        ),
        case(
            "READ of a region without that right",
            |pair| {
                let from = region(pair, Access::LOCAL_WRITE.with(Access::REMOTE_WRITE), false);
                post(pair, SendOperation::Read { remote: from }, 8);
            },
            REMOTE_ACCESS,
        ),
        case(
            "READ beyond the end",
            |pair| {
                let from = remote(pair, (1 << 17) - 7);
                post(pair, SendOperation::Read { remote: from }, 8);
            },
            REMOTE_ACCESS,
        ),
        case(
            "atomic on a region without that right",
            |pair| {
                let at = region(pair, Access::LOCAL_WRITE.with(Access::REMOTE_WRITE), false);
                post(pair, atomic(at), 8);
            },
            REMOTE_ACCESS,
        ),
    ]
}

/// Atomics beyond a region or at a wrong address.
fn atomic_cases() -> Vec<Case> {
    vec![
        case(
            "atomic beyond the end",
            |pair| {
                let at = remote(pair, 1 << 17);
                post(pair, atomic(at), 8);
            },
            REMOTE_ACCESS,
        ),
        case(
            "atomic at an address that is no multiple of 8",
            |pair| {
                let at = remote(pair, 4);
                post(pair, atomic(at), 8);
            },
            INVALID,
        ),
    ]
}

/// SENDs that do not fit.
fn send_cases() -> Vec<Case> {
    vec![
        case(
            "SEND that invalidates a region that does not permit it",
            |pair| {
                let rkey = pair.sides[1].key;
                post(pair, SendOperation::SendInvalidate { rkey }, 8);
            },
            REMOTE_ACCESS,
        ),
        case(
            "SEND longer than the receive request's memory",
            |pair| post(pair, SendOperation::default(), 65),
            End {
                received: Some(Status::LocalLength),
                ..INVALID
            },
        ),
        case(
            "SEND of several packets longer than the receive request's memory",
            |pair| post(pair, SendOperation::default(), 2049),
            End {
                received: Some(Status::LocalLength),
                ..INVALID
            },
        ),
    ]
}

/// Memory that has gone.
fn fault_cases() -> Vec<Case> {
    vec![
        case(
            "WRITE to memory that has gone",
            |pair| {
                pair.sides[1].ram.gone = true;
                let to = remote(pair, 0);
                post(pair, write(to), 8);
            },
            REMOTE_OPERATION,
        ),
        case(
            "READ of memory that has gone",
            |pair| {
                pair.sides[1].ram.gone = true;
                let remote = remote(pair, 0);
                post(pair, SendOperation::Read { remote }, 8);
            },
            REMOTE_OPERATION,
        ),
        case(
            "atomic on memory that has gone",
            |pair| {
                pair.sides[1].ram.gone = true;
                let at = remote(pair, 0);
                post(pair, atomic(at), 8);
            },
            REMOTE_OPERATION,
        ),
        case(
            "SEND to memory that has gone",
            |pair| {
                pair.sides[1].ram.gone = true;
                post(pair, SendOperation::default(), 8);
            },
            End {
                received: Some(Status::LocalProtection),
                ..REMOTE_OPERATION
            },
        ),
    ]
}

/// What the queue pair, not the region, does not permit.
pub(super) fn right_cases() -> Vec<Case> {
    let without = |name, post| Case {
        setting: Setting {
            access: Access::NONE,
            ..Setting::new(Service::Rc)
        },
        ..case(name, post, INVALID)
    };
    vec![
        without("WRITE to a queue pair without that right", |pair| {
            let to = remote(pair, 0);
            post(pair, write(to), 8);
        }),
        without("READ from a queue pair without that right", |pair| {
            let remote = remote(pair, 0);
            post(pair, SendOperation::Read { remote }, 8);
        }),
        without("atomic on a queue pair without that right", |pair| {
            let at = remote(pair, 0);
            post(pair, atomic(at), 8);
        }),
    ]
}

/// What the requester's own side finds: the peer notices nothing.
pub(super) fn local_cases() -> Vec<Case> {
    vec![
        case(
            "SEND with a local key that is none",
            |pair| {
                let a = &mut pair.sides[0];
                let mut sge = a.sge(0, 8);
                sge.lkey ^= 0x10;
                a.post(pair.now, 7, SendOperation::default(), &[sge]);
            },
            LOCAL,
        ),
        case(
            "SEND beyond the local end",
            |pair| {
                let a = &mut pair.sides[0];
                let sge = a.sge((1 << 17) - 7, 8);
                a.post(pair.now, 7, SendOperation::default(), &[sge]);
            },
            LOCAL,
        ),
        case(
            "SEND from memory that has gone",
            |pair| {
                pair.sides[0].ram.gone = true;
                post(pair, SendOperation::default(), 8);
            },
            LOCAL,
        ),
        case(
            "READ into a region without local write access",
            |pair| {
                let a = &mut pair.sides[0];
                let config = RegionConfig {
                    pd: a.pd,
                    space: SpaceId(0),
                    address: BASE,
                    iova: BASE,
                    length: 4096,
                    access: Access::NONE,
                };
                let mut sge = a.sge(0, 8);
                sge.lkey = a.engine.register_region(config).unwrap();
                let remote = pair.sides[1].remote(0);
                let read = SendOperation::Read { remote };
                pair.sides[0].post(pair.now, 7, read, &[sge]);
            },
            LOCAL,
        ),
    ]
}
