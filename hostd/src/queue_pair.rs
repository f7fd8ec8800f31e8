//! Unreliable-datagram queue pairs of programs beside the host: Q_Keys, multicast groups, and
//! bounded receive queues (IBA 10.2, 10.5).

use std::collections::{BTreeMap, BTreeSet};

use bincode::{Decode, Encode};
use link::DropReason;
use wire::{Gid, Lid, Qpn, Sl};

use crate::clients::ClientId;

/// Queue pairs of one host at most.
pub const QUEUE_PAIRS_MAX: usize = 1024;
/// Multicast groups that one queue pair is attached to at most.
pub const GROUPS_MAX: usize = 256;
/// Datagrams that wait for the program of one queue pair at most; further ones are dropped and
/// counted.
pub const RECEIVE_MAX: usize = 256;
/// The first number that is given out when none is requested.
const FIRST_FREE: u32 = 0x400;

/// From a program to the host.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ToQueuePair {
    /// Opens a queue pair. Answered by [`FromQueuePair::Opened`] or [`FromQueuePair::Refused`].
    Open {
        /// The number requested; `None` for any.
        qpn: Option<Qpn>,
        /// The Q_Key that datagrams must carry.
        qkey: u32,
    },
    /// Closes a queue pair of the program's own.
    Close {
        /// Its number.
        qpn: Qpn,
    },
    /// Attaches a queue pair to a multicast group. The subnet administrator must have joined the
    /// host's port to it.
    Attach {
        /// The queue pair.
        qpn: Qpn,
        /// The group.
        mgid: Gid,
    },
    /// Detaches a queue pair from a multicast group.
    Detach {
        /// The queue pair.
        qpn: Qpn,
        /// The group.
        mgid: Gid,
    },
    /// Sends a datagram.
    Send {
        /// The queue pair that it comes from.
        qpn: Qpn,
        /// The datagram.
        datagram: OutgoingDatagram,
    },
}

/// A datagram to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct OutgoingDatagram {
    /// Destination LID, unicast or multicast.
    pub lid: Lid,
    /// Destination GID; needed for multicast.
    pub gid: Option<Gid>,
    /// Service level.
    pub sl: Sl,
    /// Destination queue pair; of multicast [`Qpn::MULTICAST`].
    pub qpn: Qpn,
    /// The destination's key.
    pub qkey: u32,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Payload, at most the MTU in use.
    pub payload: Vec<u8>,
}

/// From the host to a program.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FromQueuePair {
    /// A queue pair is open.
    Opened {
        /// Its number.
        qpn: Qpn,
    },
    /// Something could not be done: why.
    Refused(String),
    /// A datagram has come.
    Received(IncomingDatagram),
}

/// A datagram that has come.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct IncomingDatagram {
    /// The queue pair that it has come to.
    pub to: Qpn,
    /// The LID that it was sent to.
    pub dlid: Lid,
    /// Where it comes from.
    pub lid: Lid,
    /// The queue pair that it comes from.
    pub qpn: Qpn,
    /// Service level.
    pub sl: Sl,
    /// Source and destination GID, if it had a global route header.
    pub gids: Option<(Gid, Gid)>,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Payload.
    pub payload: Vec<u8>,
}

#[derive(Debug)]
struct QueuePair {
    owner: ClientId,
    qkey: u32,
    groups: BTreeSet<Gid>,
    waiting: usize,
}

/// The queue pairs of one host.
#[derive(Debug, Default)]
pub(crate) struct QueuePairs {
    by_number: BTreeMap<Qpn, QueuePair>,
}

impl QueuePairs {
    /// Opens a queue pair; `reserved` are the host's own numbers.
    pub(crate) fn open(
        &mut self,
        owner: ClientId,
        requested: Option<Qpn>,
        qkey: u32,
        reserved: impl Fn(Qpn) -> bool,
    ) -> Result<Qpn, String> {
        if self.by_number.len() >= QUEUE_PAIRS_MAX {
            return Err(format!("a host has {QUEUE_PAIRS_MAX} queue pairs at most"));
        }
        let qpn = match requested {
            Some(qpn) if reserved(qpn) => {
                return Err(format!("queue pair {qpn} is the host's own"));
            }
            Some(qpn) if self.by_number.contains_key(&qpn) => {
                return Err(format!("queue pair {qpn} is in use"));
            }
            Some(qpn) => qpn,
            None => (FIRST_FREE..Qpn::MULTICAST.get())
                .map(Qpn::truncate)
                .find(|qpn| !self.by_number.contains_key(qpn) && !reserved(*qpn))
                .ok_or("no queue pair number is free")?,
        };
        let queue_pair = QueuePair {
            owner,
            qkey,
            groups: BTreeSet::new(),
            waiting: 0,
        };
        self.by_number.insert(qpn, queue_pair);
        Ok(qpn)
    }

    fn own(&mut self, owner: ClientId, qpn: Qpn) -> Result<&mut QueuePair, String> {
        let queue_pair = self
            .by_number
            .get_mut(&qpn)
            .filter(|pair| pair.owner == owner);
        queue_pair.ok_or_else(|| format!("queue pair {qpn} is not this program's"))
    }

    /// Whether `qpn` is a queue pair of `owner`'s.
    pub(crate) fn check(&mut self, owner: ClientId, qpn: Qpn) -> Result<(), String> {
        self.own(owner, qpn).map(|_| ())
    }

    pub(crate) fn close(&mut self, owner: ClientId, qpn: Qpn) -> Result<(), String> {
        self.check(owner, qpn)?;
        self.by_number.remove(&qpn);
        Ok(())
    }

    pub(crate) fn attach(&mut self, owner: ClientId, qpn: Qpn, mgid: Gid) -> Result<(), String> {
        if !mgid.is_multicast() {
            return Err("the GID is not a multicast GID".to_owned());
        }
        let queue_pair = self.own(owner, qpn)?;
        if queue_pair.groups.len() >= GROUPS_MAX {
            return Err(format!(
                "a queue pair is attached to {GROUPS_MAX} groups at most"
            ));
        }
        queue_pair.groups.insert(mgid);
        Ok(())
    }

    pub(crate) fn detach(&mut self, owner: ClientId, qpn: Qpn, mgid: Gid) -> Result<(), String> {
        self.own(owner, qpn)?.groups.remove(&mgid);
        Ok(())
    }

    /// Closes all queue pairs of a program that has ended.
    pub(crate) fn remove(&mut self, owner: ClientId) {
        self.by_number.retain(|_, pair| pair.owner != owner);
    }

    /// Whether any queue pair is attached to a group.
    pub(crate) fn is_attached(&self, mgid: Gid) -> bool {
        self.by_number
            .values()
            .any(|pair| pair.groups.contains(&mgid))
    }

    /// The program that a datagram to one queue pair is for.
    pub(crate) fn admit(&mut self, qpn: Qpn, qkey: u32) -> Result<ClientId, DropReason> {
        let pair = self
            .by_number
            .get_mut(&qpn)
            .ok_or(DropReason::NoQueuePair)?;
        if pair.qkey != qkey {
            return Err(DropReason::BadQkey);
        }
        pair.admit()
    }

    /// The queue pairs and programs that a multicast datagram is for, and how often it is dropped
    /// because a queue is full.
    pub(crate) fn admit_group(&mut self, mgid: Gid, qkey: u32) -> (Vec<(Qpn, ClientId)>, u64) {
        let mut full = 0;
        let attached = self
            .by_number
            .iter_mut()
            .filter(|(_, pair)| pair.qkey == qkey && pair.groups.contains(&mgid));
        let admitted = attached.filter_map(|(&qpn, pair)| match pair.admit() {
            Ok(owner) => Some((qpn, owner)),
            Err(_) => {
                full += 1;
                None
            }
        });
        (admitted.collect(), full)
    }

    /// A datagram has left the queue of its queue pair.
    pub(crate) fn taken(&mut self, qpn: Qpn) {
        if let Some(pair) = self.by_number.get_mut(&qpn) {
            pair.waiting = pair.waiting.saturating_sub(1);
        }
    }
}

impl QueuePair {
    fn admit(&mut self) -> Result<ClientId, DropReason> {
        if self.waiting >= RECEIVE_MAX {
            return Err(DropReason::ReceiverFull);
        }
        self.waiting += 1;
        Ok(self.owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ClientId = ClientId(1);
    const TWO: ClientId = ClientId(2);
    const GROUP: Gid = Gid([0xff; 16]);

    fn qpn(number: u32) -> Qpn {
        Qpn::constant(number)
    }

    #[test]
    fn numbers_are_given_once_and_the_host_s_own_never() {
        let mut pairs = QueuePairs::default();
        let reserved = |qpn: Qpn| qpn.get() == FIRST_FREE;
        assert_eq!(pairs.open(ONE, None, 0, reserved), Ok(qpn(FIRST_FREE + 1)));
        assert_eq!(pairs.open(ONE, None, 0, reserved), Ok(qpn(FIRST_FREE + 2)));
        assert!(
            pairs
                .open(ONE, Some(qpn(FIRST_FREE + 1)), 0, reserved)
                .is_err()
        );
        assert!(pairs.open(ONE, Some(qpn(FIRST_FREE)), 0, reserved).is_err());
        assert!(
            pairs.close(TWO, qpn(FIRST_FREE + 1)).is_err(),
            "another client's"
        );
        assert!(pairs.close(ONE, qpn(FIRST_FREE + 1)).is_ok());
        assert_eq!(pairs.open(TWO, None, 0, reserved), Ok(qpn(FIRST_FREE + 1)));
    }

    #[test]
    fn a_queue_takes_so_many_datagrams_and_no_more_until_some_are_read() {
        let mut pairs = QueuePairs::default();
        let own = pairs.open(ONE, None, 7, |_| false).unwrap();
        assert_eq!(pairs.admit(own, 8), Err(DropReason::BadQkey));
        assert_eq!(pairs.admit(qpn(9), 7), Err(DropReason::NoQueuePair));
        for _ in 0..RECEIVE_MAX {
            assert_eq!(pairs.admit(own, 7), Ok(ONE));
        }
        assert_eq!(pairs.admit(own, 7), Err(DropReason::ReceiverFull));
        pairs.taken(own);
        assert_eq!(pairs.admit(own, 7), Ok(ONE));
    }

    #[test]
    fn a_group_is_heard_by_its_members_with_the_right_key() {
        let mut pairs = QueuePairs::default();
        let [one, two, other] = [(ONE, 7), (TWO, 7), (TWO, 8)]
            .map(|(owner, qkey)| pairs.open(owner, None, qkey, |_| false).unwrap());
        assert!(!pairs.is_attached(GROUP));
        for (owner, qpn) in [(ONE, one), (TWO, two), (TWO, other)] {
            pairs.attach(owner, qpn, GROUP).unwrap();
        }
        assert!(pairs.attach(ONE, one, Gid([0; 16])).is_err(), "no group");
        assert_eq!(
            pairs.admit_group(GROUP, 7),
            (vec![(one, ONE), (two, TWO)], 0)
        );
        pairs.detach(ONE, one, GROUP).unwrap();
        pairs.remove(TWO);
        assert_eq!(pairs.admit_group(GROUP, 7), (vec![], 0));
    }
}
