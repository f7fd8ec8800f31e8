//! Pings: the requester. Many targets are pinged at once, each with one request in flight at a
//! time.
//!
//! ```text
//!            send                answer            interval over
//!  waiting --------> in flight ---------> waiting ---------------> in flight ...
//!                        | timeout           ^
//!                        +-------------------+     after the last one: done
//! ```

use std::collections::{BTreeMap, BTreeSet};

use link::Time;
use wire::{Lid, Sl};

use crate::control::{PING_REQUESTS_MAX, PING_TARGETS_MAX, PingRequest, PingResult};
use crate::latency::Durations;
use crate::service::{Echo, NAME_LEN};

/// A ping to send.
#[derive(Debug)]
pub(crate) struct PingSend {
    pub(crate) dlid: Lid,
    pub(crate) sl: Sl,
    /// The partition; 0 for the first of the host's table.
    pub(crate) pkey: u16,
    /// Requested packet length, LRH to VCRC.
    pub(crate) size: u16,
    pub(crate) echo: Echo,
}

#[derive(Debug)]
struct Target {
    dlid: Lid,
    sent: u32,
    received: u32,
    /// When the latest request went out.
    sent_at: Time,
    in_flight: bool,
    rtt: Durations,
    responder: String,
    responder_lid: Lid,
    /// The entry of [`Pinger::due`] for this target.
    due: Time,
}

#[derive(Debug)]
struct Job {
    token: u64,
    request: PingRequest,
    targets: Vec<Target>,
    unfinished: usize,
}

/// The jobs of one host.
#[derive(Debug, Default)]
pub(crate) struct Pinger {
    jobs: BTreeMap<u32, Job>,
    /// When something is due, for which job and target.
    due: BTreeSet<(Time, u32, u32)>,
    last_job: u32,
}

impl Pinger {
    /// Starts a job; its results will carry `token`.
    pub(crate) fn start(
        &mut self,
        now: Time,
        token: u64,
        request: PingRequest,
    ) -> Result<(), String> {
        if self.jobs.len() >= PING_REQUESTS_MAX {
            return Err(format!(
                "{PING_REQUESTS_MAX} pings are under way already: try again"
            ));
        }
        if !(1..=PING_TARGETS_MAX).contains(&request.targets.len()) {
            return Err(format!("a ping has 1 to {PING_TARGETS_MAX} targets"));
        }
        if request.count == 0 {
            return Err("a ping has at least one request".to_owned());
        }
        self.last_job = self.last_job.wrapping_add(1);
        let job = self.last_job;
        let new_target = |dlid: &Lid| Target {
            dlid: *dlid,
            sent: 0,
            received: 0,
            sent_at: now,
            in_flight: false,
            rtt: Durations::new(),
            responder: String::new(),
            responder_lid: Lid::ZERO,
            due: now,
        };
        let targets: Vec<Target> = request.targets.iter().map(new_target).collect();
        self.due
            .extend((0u32..).zip(&targets).map(|(target, _)| (now, job, target)));
        let unfinished = targets.len();
        self.jobs.insert(
            job,
            Job {
                token,
                request,
                targets,
                unfinished,
            },
        );
        Ok(())
    }

    /// The next request to be sent at `now`. Call until `None`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<PingSend> {
        while let Some(&(at, job_id, target_id)) = self.due.first() {
            if at > now {
                return None;
            }
            self.due.pop_first();
            let Some(job) = self.jobs.get_mut(&job_id) else {
                continue;
            };
            let Some(target) = job.targets.get_mut(target_id as usize) else {
                continue;
            };
            let interval_ns = u64::from(job.request.interval_us) * 1000;
            let next_at = target.sent_at + interval_ns;
            if std::mem::take(&mut target.in_flight)
                && next_at > now
                && target.sent < job.request.count
            {
                // Timed out sooner than the next request is due.
                target.due = next_at;
                self.due.insert((next_at, job_id, target_id));
                continue;
            }
            if target.sent >= job.request.count {
                job.unfinished -= 1;
                continue;
            }
            target.sent += 1;
            target.sent_at = now;
            target.in_flight = true;
            target.due = now + u64::from(job.request.timeout_ms) * 1_000_000;
            self.due.insert((target.due, job_id, target_id));
            return Some(PingSend {
                dlid: target.dlid,
                sl: job.request.sl,
                pkey: job.request.pkey,
                size: job.request.size,
                echo: Echo {
                    answer: false,
                    responder: Lid::ZERO,
                    job: job_id,
                    target: target_id,
                    sequence: target.sent,
                    sent_at_ns: now.0,
                    name: [0; NAME_LEN],
                },
            });
        }
        None
    }

    /// Takes in an answer that came at `now`. Late, repeated and foreign ones change nothing.
    pub(crate) fn answer(&mut self, now: Time, echo: &Echo) {
        let Some(job) = self.jobs.get_mut(&echo.job) else {
            return;
        };
        let Some(target) = job.targets.get_mut(echo.target as usize) else {
            return;
        };
        if !target.in_flight || target.sent != echo.sequence {
            return;
        }
        target.in_flight = false;
        target.received += 1;
        target.rtt.record(now.since_ns(target.sent_at));
        if target.responder.is_empty() {
            let name = echo
                .name
                .split(|&byte| byte == 0)
                .next()
                .unwrap_or_default();
            target.responder = String::from_utf8_lossy(name).into_owned();
            target.responder_lid = echo.responder;
        }
        let key = (echo.job, echo.target);
        self.due.remove(&(target.due, key.0, key.1));
        let next_at = target.sent_at + u64::from(job.request.interval_us) * 1000;
        target.due = if target.sent < job.request.count {
            now.max(next_at)
        } else {
            now
        };
        self.due.insert((target.due, key.0, key.1));
    }

    /// A job that is done: its token and results.
    pub(crate) fn poll_finished(&mut self) -> Option<(u64, Vec<PingResult>)> {
        let (&id, _) = self.jobs.iter().find(|(_, job)| job.unfinished == 0)?;
        let job = self.jobs.remove(&id)?;
        let results = job.targets.into_iter().map(|target| PingResult {
            dlid: target.dlid,
            sent: target.sent,
            received: target.received,
            rtt: target.rtt.summary(),
            responder: target.responder,
            responder_lid: target.responder_lid,
        });
        Some((job.token, results.collect()))
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due.first().map(|&(at, _, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn request(targets: &[u16], count: u32) -> PingRequest {
        PingRequest {
            targets: targets.iter().map(|&lid| Lid::new(lid)).collect(),
            count,
            interval_us: 1000,
            size: 98,
            sl: Sl::default(),
            pkey: 0,
            timeout_ms: 10,
        }
    }

    fn answer_of(sent: &PingSend) -> Echo {
        let mut name = [0; NAME_LEN];
        name[..2].copy_from_slice(b"h7");
        Echo {
            answer: true,
            responder: sent.dlid,
            name,
            ..sent.echo
        }
    }

    #[test]
    fn all_targets_are_pinged_at_once_and_answers_are_measured() {
        let mut pinger = Pinger::default();
        pinger.start(Time(0), 5, request(&[1, 2, 3], 1)).unwrap();
        let sent: Vec<PingSend> = std::iter::from_fn(|| pinger.poll(Time(0))).collect();
        assert_eq!(sent.len(), 3);
        for ping in &sent {
            pinger.answer(Time(40), &answer_of(ping));
            pinger.answer(Time(50), &answer_of(ping));
        }
        assert!(pinger.poll(Time(50)).is_none());
        let (token, results) = pinger.poll_finished().unwrap();
        assert_eq!((token, results.len()), (5, 3));
        assert!(
            results
                .iter()
                .all(|result| result.received == 1 && result.rtt.max_ns == 40)
        );
        assert_eq!(results[2].responder, "h7");
        assert_eq!(pinger.deadline(), None);
    }

    #[test]
    fn requests_keep_their_interval_and_a_silent_target_times_out() {
        let mut pinger = Pinger::default();
        pinger.start(Time(0), 1, request(&[9], 3)).unwrap();
        let first = pinger.poll(Time(0)).unwrap();
        pinger.answer(Time(100), &answer_of(&first));
        assert_eq!(
            pinger.deadline(),
            Some(Time(MS)),
            "a millisecond after the first"
        );
        let second = pinger.poll(Time(MS)).unwrap();
        assert_eq!(second.echo.sequence, 2);
        assert_eq!(pinger.deadline(), Some(Time(11 * MS)));
        assert!(
            pinger.poll(Time(11 * MS)).is_some(),
            "timed out: the third goes at once"
        );
        pinger.answer(Time(12 * MS), &answer_of(&second));
        assert!(pinger.poll(Time(21 * MS)).is_none());
        let (_, results) = pinger.poll_finished().unwrap();
        assert_eq!(
            (results[0].sent, results[0].received),
            (3, 1),
            "the late answer is not counted"
        );
    }

    #[test]
    fn empty_endless_and_oversized_requests_are_refused() {
        let mut pinger = Pinger::default();
        assert!(pinger.start(Time(0), 1, request(&[], 1)).is_err());
        assert!(pinger.start(Time(0), 1, request(&[1], 0)).is_err());
        assert!(
            pinger
                .start(Time(0), 1, request(&[1; PING_TARGETS_MAX + 1], 1))
                .is_err()
        );
        for _ in 0..PING_REQUESTS_MAX {
            pinger.start(Time(0), 1, request(&[1], 1)).unwrap();
        }
        assert!(pinger.start(Time(0), 1, request(&[1], 1)).is_err());
    }
}
