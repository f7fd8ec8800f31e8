//! Which changes of state a queue pair makes, and with which attributes (IBA 11.2.5.2, tables 91 to 94).

use wire::Service;

use crate::attributes::{QpModify, QpState};
use crate::error::Refused;

/// An attribute's name and bit.
macro_rules! attributes {
    ($($name:ident = $bit:expr, $field:ident;)*) => {
        $(const $name: u32 = 1 << $bit;)*

        /// The attributes that are given.
        fn given(modify: &QpModify) -> u32 {
            let mut given = 0;
            $(if modify.$field.is_some() {
                given |= $name;
            })*
            given
        }

        /// The name of the lowest attribute of a set.
        fn name(set: u32) -> &'static str {
            $(if set & $name != 0 {
                return stringify!($field);
            })*
            "none"
        }
    };
}

attributes! {
    CURRENT = 0, current_state;
    ACCESS = 1, access;
    PKEY = 2, pkey_index;
    PORT = 3, port;
    QKEY = 4, qkey;
    PATH = 5, path;
    MTU = 6, path_mtu;
    DEST = 7, dest_qpn;
    RQ_PSN = 8, rq_psn;
    SQ_PSN = 9, sq_psn;
    RD = 10, max_rd_atomic;
    DEST_RD = 11, max_dest_rd_atomic;
    RNR_TIMER = 12, min_rnr_timer;
    TIMEOUT = 13, timeout;
    RETRY = 14, retry_count;
    RNR_RETRY = 15, rnr_retry;
    DRAINED = 16, drained_event;
    ALTERNATE = 17, alternate_path;
    MIGRATION = 18, migration_state;
}

/// The attributes that a change of state requires and permits; `None` if there is no such change.
fn rule(service: Service, from: QpState, to: QpState) -> Option<(u32, u32)> {
    use QpState as S;
    use Service::{Rc, Uc, Ud};
    let connected = service != Ud;
    let rnr_timer = if service == Rc { RNR_TIMER } else { 0 };
    // What a connection may change while it sends.
    let sending = if connected {
        CURRENT | ACCESS | rnr_timer
    } else {
        CURRENT | QKEY
    };
    Some(match (from, to) {
        (S::Reset, S::Reset) => (0, 0),
        (S::Reset, S::Error) => return None,
        (_, S::Reset | S::Error) => (0, 0),
        (S::Reset, S::Init) => match service {
            Ud => (PKEY | PORT | QKEY, 0),
            Rc | Uc => (PKEY | PORT | ACCESS, 0),
        },
        (S::Init, S::Init) => match service {
            Ud => (0, PKEY | PORT | QKEY),
            Rc | Uc => (0, PKEY | PORT | ACCESS),
        },
        (S::Init, S::Rtr) => match service {
            Ud => (0, PKEY | QKEY),
            Uc => (PATH | MTU | DEST | RQ_PSN, ACCESS | PKEY),
            Rc => (
                PATH | MTU | DEST | RQ_PSN | DEST_RD | RNR_TIMER,
                ACCESS | PKEY,
            ),
        },
        (S::Rtr, S::Rts) => match service {
            Rc => (SQ_PSN | TIMEOUT | RETRY | RNR_RETRY | RD, sending),
            Uc | Ud => (SQ_PSN, sending),
        },
        (S::Rts, S::Rts) | (S::Sqd, S::Rts) => (0, sending),
        (S::Sqe, S::Rts) if service != Rc => (0, sending),
        (S::Rts, S::Sqd) => (0, DRAINED),
        (S::Sqd, S::Sqd) => match service {
            Ud => (0, PKEY | QKEY),
            Uc => (0, PATH | ACCESS | PKEY),
            Rc => (
                0,
                PORT | PATH
                    | TIMEOUT
                    | RETRY
                    | RNR_RETRY
                    | RD
                    | DEST_RD
                    | ACCESS
                    | PKEY
                    | RNR_TIMER,
            ),
        },
        _ => return None,
    })
}

/// Checks a change against the tables and returns the state after it.
///
/// # Errors
/// [`Refused`]: what is wrong. Path migration is [`Refused::NotSupported`].
pub(crate) fn check(
    service: Service,
    from: QpState,
    modify: &QpModify,
) -> Result<QpState, Refused> {
    let to = modify.state.unwrap_or(from);
    let given = given(modify);
    if given & (ALTERNATE | MIGRATION) != 0 {
        return Err(Refused::NotSupported("path migration"));
    }
    if modify.current_state.is_some_and(|current| current != from) {
        return Err(Refused::State(from));
    }
    let (required, optional) = rule(service, from, to).ok_or(Refused::Transition { from, to })?;
    let missing = required & !given;
    if missing != 0 {
        let attribute = name(missing);
        return Err(Refused::Missing {
            from,
            to,
            attribute,
        });
    }
    let excess = given & !(required | optional);
    if excess != 0 {
        let attribute = name(excess);
        return Err(Refused::NotPermitted {
            from,
            to,
            attribute,
        });
    }
    Ok(to)
}
