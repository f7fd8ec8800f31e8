//! The host's own part in multicast groups: membership, as the subnet administrator grants it,
//! packets sent to a group, and counts of packets received by source.
//!
//! ```text
//!            asked              answered
//!  join ----------> Joining ------------> Member ------------> Leaving ---> gone
//!                    ^   | timeout: again   |   leave            | timeout: again
//!                    |   +---->             |
//!                    +----------------------+ port Active again, or ClientReregister: the manager may
//!                                             have lost the membership
//! ```
//!
//! A join states the components that create a group (IBA 15.2.5.17). If the group exists with other
//! properties, the join is repeated with only the components that a member must state.

use std::collections::{BTreeMap, VecDeque};

use link::Time;
use wire::convert::usize_of;
use wire::mad::{Mad, MadStatus, Method};
use wire::sa::McMemberRecord;
use wire::{Format, Gid, Guid, ParseError};

use crate::control::{
    GroupMembership, MULTICAST_COUNT_MAX, MulticastSend, MulticastSource, PERF_REPORTS_MAX,
    SERVICE_QKEY,
};
use crate::membership::{self, CREATES, NEEDED};

/// Groups of one host at most.
pub(crate) const GROUPS_MAX: usize = 256;
/// Sources that are counted separately in one group at most.
const SOURCES_MAX: usize = 4096;
/// Requests that wait for one group's answer at most.
const TOKENS_MAX: usize = 64;
/// Send jobs in progress at most.
const SEND_JOBS_MAX: usize = 64;
/// How long the first attempt of a request waits for the administrator's answer, nanoseconds; the time doubles
/// with each attempt. A port may become Active before its peer does, and what it sends then is lost.
const ANSWER_TIMEOUT_NS: u64 = 100_000_000;
/// The longest such time.
const ANSWER_TIMEOUT_NS_MAX: u64 = 1_600_000_000;
/// Delay before a request is repeated that was answered as busy.
const BUSY_RETRY_NS: u64 = 50_000_000;
/// Attempts before the waiting requests fail.
const ATTEMPTS: u32 = 10;
/// Time between attempts when no request waits.
const REJOIN_INTERVAL_NS: u64 = 5_000_000_000;
/// The first four bytes of a payload: "mcst".
const MAGIC: u32 = 0x6d63_7374;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Joining,
    Member,
    Leaving,
}

#[derive(Debug)]
struct Membership {
    state: State,
    send_only: bool,
    record: McMemberRecord,
    /// Whether the next join states the components that create a group.
    creates: bool,
    /// The requests that wait for the answer.
    tokens: Vec<u64>,
    due: Option<Time>,
    attempts: u32,
    tid: u32,
    sources: BTreeMap<Guid, SourceCounts>,
}

/// Packets received from one source.
#[derive(Debug, Default)]
struct SourceCounts {
    run: u32,
    count: u32,
    seen: Vec<u64>,
    received: u64,
    duplicates: u64,
}

/// A send job in progress.
#[derive(Debug)]
struct SendJob {
    token: u64,
    request: MulticastSend,
    next: u32,
}

/// A packet of a send job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupPacket {
    /// The group's record, as the administrator's last answer gave it.
    pub(crate) record: McMemberRecord,
    /// Requested packet length, LRH to VCRC.
    pub(crate) size: u16,
    /// The payload's head.
    pub(crate) head: MulticastHead,
    /// The request that is answered because this is its last packet.
    pub(crate) last_of: Option<u64>,
}

/// The result of a request: its token, and the membership or an error.
pub(crate) type Outcome = (u64, Result<GroupMembership, String>);

/// The head of each packet to a group.
///
/// ```text
/// 0 magic | 4 run | 8 sequence | 12 count
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MulticastHead {
    pub(crate) run: u32,
    pub(crate) sequence: u32,
    pub(crate) count: u32,
}

impl Format for MulticastHead {
    const NAME: &'static str = "multicast payload";
    const LEN: usize = 16;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let word = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&raw[at..at + 4]);
            u32::from_be_bytes(bytes)
        };
        if word(0) != MAGIC {
            return Err(ParseError::BadValue {
                what: "multicast magic",
                value: u64::from(word(0)),
            });
        }
        Ok(Self {
            run: word(4),
            sequence: word(8),
            count: word(12),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        for (at, word) in [MAGIC, self.run, self.sequence, self.count]
            .into_iter()
            .enumerate()
        {
            raw[at * 4..at * 4 + 4].copy_from_slice(&word.to_be_bytes());
        }
    }
}

impl Membership {
    fn complete(&mut self, outcome: &Result<GroupMembership, String>, out: &mut VecDeque<Outcome>) {
        for token in self.tokens.drain(..) {
            out.push_back((token, outcome.clone()));
        }
    }

    fn status(&self) -> GroupMembership {
        GroupMembership {
            mgid: self.record.mgid,
            mlid: self.record.mlid,
            qkey: self.record.qkey,
            joined: self.state == State::Member,
            send_only: self.send_only,
        }
    }
}

/// The groups of one host.
#[derive(Debug, Default)]
pub(crate) struct Multicast {
    groups: BTreeMap<Gid, Membership>,
    send_jobs: VecDeque<SendJob>,
    outcomes: VecDeque<Outcome>,
    last_tid: u32,
    /// Whether other groups may be heard than [`Multicast::take_heard`] has told, or by other keys.
    is_changed: bool,
}

impl Multicast {
    /// Joins a group; answered by an [`Outcome`].
    pub(crate) fn join(
        &mut self,
        now: Time,
        token: u64,
        mgid: Gid,
        send_only: bool,
    ) -> Result<(), String> {
        if !mgid.is_multicast() {
            return Err(format!(
                "{mgid} is not a multicast group: a multicast GID starts with ff"
            ));
        }
        if self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&mgid) {
            return Err(format!("a host is in {GROUPS_MAX} groups at most"));
        }
        let record = McMemberRecord {
            mgid,
            qkey: SERVICE_QKEY,
            ..McMemberRecord::default()
        };
        let group = self.groups.entry(mgid).or_insert_with(|| Membership {
            state: State::Joining,
            send_only,
            record,
            creates: true,
            tokens: Vec::new(),
            due: None,
            attempts: 0,
            tid: 0,
            sources: BTreeMap::new(),
        });
        group.wait(token)?;
        self.is_changed = true;
        group.send_only = send_only;
        group.start(now, State::Joining);
        Ok(())
    }

    /// Leaves a group; answered by an [`Outcome`].
    pub(crate) fn leave(&mut self, now: Time, token: u64, mgid: Gid) -> Result<(), String> {
        let group = self
            .groups
            .get_mut(&mgid)
            .ok_or_else(|| format!("this host is not in {mgid}"))?;
        group.wait(token)?;
        group.start(now, State::Leaving);
        Ok(())
    }

    /// Joins all groups of this host again: the administrator may have lost them. One that it has refused to
    /// join again is asked for at once.
    pub(crate) fn rejoin(&mut self, now: Time) {
        for group in self.groups.values_mut() {
            let is_asked_for = !group.tokens.is_empty();
            if group.state == State::Member || group.state == State::Joining && !is_asked_for {
                group.start(now, State::Joining);
            }
        }
    }

    /// The next request to the administrator, from a port with that GID. Call until `None`.
    pub(crate) fn poll(&mut self, now: Time, port_gid: Gid, pkey: u16) -> Option<Mad> {
        let mgid = self.next_due(now)?;
        let group = self.groups.get_mut(&mgid)?;
        if group.attempts >= ATTEMPTS {
            group.attempts = 0;
            let what = match group.state {
                State::Leaving => "leave",
                _ => "join",
            };
            let refusal = Err(format!(
                "the subnet administrator does not answer: cannot {what} {mgid}"
            ));
            let waited = !group.tokens.is_empty();
            self.is_changed = true;
            group.complete(&refusal, &mut self.outcomes);
            if waited || group.state == State::Leaving {
                self.groups.remove(&mgid);
            } else {
                group.due = Some(now + REJOIN_INTERVAL_NS);
            }
            return None;
        }
        let timeout_ns = ANSWER_TIMEOUT_NS << group.attempts.min(8);
        group.attempts += 1;
        group.due = Some(now + timeout_ns.min(ANSWER_TIMEOUT_NS_MAX));
        self.last_tid = self.last_tid.wrapping_add(1);
        group.tid = self.last_tid;
        let method = match group.state {
            State::Leaving => Method::DELETE,
            _ => Method::SET,
        };
        let creates = group.creates && method == Method::SET && !group.send_only;
        let mask = if creates { CREATES } else { NEEDED };
        let record = McMemberRecord {
            pkey,
            join_state: membership::join_state(group.send_only),
            ..group.record
        };
        let mut mad = membership::request(method, mask, record, port_gid);
        // The upper half of the transaction id is 0: no client of a MAD socket has that.
        mad.set_tid(u64::from(group.tid));
        Some(mad)
    }

    fn next_due(&self, now: Time) -> Option<Gid> {
        let due = |group: &Membership| group.due.is_some_and(|due| due <= now);
        let found = self.groups.iter().find(|(_, group)| due(group));
        found.map(|(&mgid, _)| mgid)
    }

    /// Takes in an answer of the administrator.
    pub(crate) fn answered(&mut self, now: Time, mad: &Mad) {
        let waits = |group: &Membership| group.due.is_some() && u64::from(group.tid) == mad.tid();
        let found = self.groups.iter_mut().find(|(_, group)| waits(group));
        let Some((&mgid, group)) = found else {
            return;
        };
        let leaving = group.state == State::Leaving;
        self.is_changed = true;
        match mad.status() {
            MadStatus::BUSY => group.due = Some(now + BUSY_RETRY_NS),
            MadStatus::SA_REQUEST_INVALID if !leaving && group.creates && !group.send_only => {
                group.creates = false;
                group.due = Some(now);
            }
            MadStatus::OK if !leaving => {
                if let Ok(record) = mad.sa_record::<McMemberRecord>() {
                    group.record = record;
                }
                group.state = State::Member;
                group.due = None;
                let membership = Ok(group.status());
                group.complete(&membership, &mut self.outcomes);
            }
            status => {
                // Leaving a group that the host is not a member of succeeds.
                let outcome = match leaving {
                    true => Ok(group.status()),
                    false => Err(format!(
                        "the subnet administrator refuses {mgid} with status {status}"
                    )),
                };
                let waited = !group.tokens.is_empty();
                group.complete(&outcome, &mut self.outcomes);
                if leaving || waited {
                    self.groups.remove(&mgid);
                } else {
                    group.attempts = 0;
                    group.due = Some(now + REJOIN_INTERVAL_NS);
                }
            }
        }
    }

    /// The result of a request.
    pub(crate) fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.groups.values().filter_map(|group| group.due).min()
    }

    /// The groups in order.
    pub(crate) fn memberships(&self) -> Vec<GroupMembership> {
        self.groups.values().map(Membership::status).collect()
    }

    /// Sends packets to a group; answered when the last is with the port.
    pub(crate) fn send(&mut self, token: u64, request: MulticastSend) -> Result<(), String> {
        if !(1..=MULTICAST_COUNT_MAX).contains(&request.count) {
            return Err(format!(
                "1 to {MULTICAST_COUNT_MAX} packets are sent at a time"
            ));
        }
        let group = self.groups.get(&request.mgid);
        if group.is_none_or(|group| group.state != State::Member) {
            return Err(format!("this host is not in {}: join first", request.mgid));
        }
        if self.send_jobs.len() >= SEND_JOBS_MAX {
            return Err(format!("{SEND_JOBS_MAX} send jobs are in progress already"));
        }
        self.send_jobs.push_back(SendJob {
            token,
            request,
            next: 0,
        });
        Ok(())
    }

    /// Whether there is something to send.
    pub(crate) fn is_sending(&self) -> bool {
        !self.send_jobs.is_empty()
    }

    /// The next packet to send.
    pub(crate) fn next_packet(&mut self) -> Option<GroupPacket> {
        let job = self.send_jobs.front_mut()?;
        let request = job.request.clone();
        let token = job.token;
        let Some(group) = self.groups.get(&request.mgid) else {
            let refusal = format!("this host has left {}", request.mgid);
            self.send_jobs.pop_front();
            self.outcomes.push_back((token, Err(refusal)));
            return None;
        };
        let head = MulticastHead {
            run: request.run,
            sequence: job.next,
            count: request.count,
        };
        job.next += 1;
        let last = job.next >= request.count;
        if last {
            self.send_jobs.pop_front();
        }
        Some(GroupPacket {
            record: group.record,
            size: request.size,
            head,
            last_of: last.then_some(token),
        })
    }

    /// The administrator's record of a group that the host is in.
    pub(crate) fn record(&self, mgid: Gid) -> Option<McMemberRecord> {
        let group = self.groups.get(&mgid)?;
        (group.state == State::Member).then_some(group.record)
    }

    /// Whether [`Self::take_heard`] has something to tell.
    #[inline]
    pub(crate) const fn has_changed(&self) -> bool {
        self.is_changed
    }

    /// The groups whose packets the host receives, with their keys, if that may have changed since this was called.
    pub(crate) fn take_heard(&mut self) -> Option<impl Iterator<Item = (Gid, u32)>> {
        let heard = self.groups.iter().filter(|(_, group)| !group.send_only);
        let heard = heard.map(|(&mgid, group)| (mgid, group.record.qkey));
        std::mem::take(&mut self.is_changed).then_some(heard)
    }

    /// Whether the operator needs a membership.
    pub(crate) fn holds(&self, mgid: Gid, join_state: u8) -> bool {
        let group = self.groups.get(&mgid);
        group.is_some_and(|group| {
            group.state != State::Leaving && membership::join_state(group.send_only) == join_state
        })
    }

    /// Takes in a packet to a group.
    pub(crate) fn receive(&mut self, mgid: Gid, source: Guid, payload: &[u8]) {
        let Some(group) = self.groups.get_mut(&mgid) else {
            return;
        };
        let Ok((head, _)) = MulticastHead::parse(payload) else {
            return;
        };
        let known = group.sources.contains_key(&source);
        if head.sequence >= head.count
            || head.count > MULTICAST_COUNT_MAX
            || !known && group.sources.len() >= SOURCES_MAX
        {
            return;
        }
        let counted = group.sources.entry(source).or_default();
        if counted.run != head.run || counted.count != head.count {
            *counted = SourceCounts {
                run: head.run,
                count: head.count,
                ..SourceCounts::default()
            };
        }
        let (word, bit) = (head.sequence / 64, head.sequence % 64);
        let word = usize_of(word);
        if counted.seen.len() <= word {
            counted.seen.resize(word + 1, 0);
        }
        if counted.seen[word] >> bit & 1 == 1 {
            counted.duplicates += 1;
        } else {
            counted.seen[word] |= 1 << bit;
            counted.received += 1;
        }
    }

    /// Counts of packets received for a group, in order of source.
    pub(crate) fn report(&self, mgid: Gid, skip: u32) -> Vec<MulticastSource> {
        let skip = usize_of(skip);
        let sources = self.groups.get(&mgid).into_iter();
        sources
            .flat_map(|group| &group.sources)
            .skip(skip)
            .take(PERF_REPORTS_MAX)
            .map(|(&source, counted)| MulticastSource {
                source,
                run: counted.run,
                count: counted.count,
                received: counted.received,
                duplicates: counted.duplicates,
            })
            .collect()
    }
}

impl Membership {
    fn wait(&mut self, token: u64) -> Result<(), String> {
        if self.tokens.len() >= TOKENS_MAX {
            return Err(format!("{TOKENS_MAX} requests wait for this group already"));
        }
        self.tokens.push(token);
        Ok(())
    }

    fn start(&mut self, now: Time, state: State) {
        self.state = state;
        self.attempts = 0;
        self.creates = true;
        self.due = Some(now);
    }
}

#[cfg(test)]
mod tests;
