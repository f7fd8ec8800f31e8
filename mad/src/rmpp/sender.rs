//! The sending side of a transfer.

use link::Time;
use wire::Mad;
use wire::convert::{saturate, usize_of};
use wire::sa::{Rmpp, RmppKind, rmpp_flag};

use super::{Layout, PAYLOAD_MAX, Progress, abort, control, header, set_header};
use crate::transaction::Timing;

/// A transfer at its sender.
#[derive(Debug)]
pub struct Sender {
    /// The answer's headers; RMPP's is written for each segment.
    template: Mad,
    layout: Layout,
    payload: Vec<u8>,
    segments: u32,
    /// The last segment that was acknowledged.
    acked: u32,
    /// The last segment that may be sent.
    window_last: u32,
    /// The next segment to send.
    next: u32,
    timing: Timing,
    due: Option<Time>,
    attempts: u8,
    progress: Progress,
    /// An Abort to be sent.
    abort_packet: Option<Mad>,
}

impl Sender {
    /// A transfer of `payload`, in datagrams with the headers of `template`. `None` if it is longer than
    /// [`PAYLOAD_MAX`].
    #[must_use]
    pub fn new(template: &Mad, payload: Vec<u8>, timing: Timing) -> Option<Self> {
        if payload.len() > PAYLOAD_MAX {
            return None;
        }
        let layout = Layout::of(template.class());
        Some(Self {
            template: *template,
            layout,
            segments: layout.segments_of(payload.len()),
            payload,
            acked: 0,
            window_last: 1,
            next: 1,
            timing,
            due: None,
            attempts: 0,
            progress: Progress::Running,
            abort_packet: None,
        })
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The next packet to send at `now`. Call until `None`.
    pub fn poll(&mut self, now: Time) -> Option<Mad> {
        if let Some(abort_packet) = self.abort_packet.take() {
            return Some(abort_packet);
        }
        if self.progress != Progress::Running {
            return None;
        }
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            if self.attempts >= self.timing.attempts {
                self.fail(abort::TOO_MANY_RETRIES);
                return self.abort_packet.take();
            }
            self.next = self.acked + 1;
        }
        if self.next > self.window_last.min(self.segments) {
            return None;
        }
        if self.next == self.acked + 1 {
            self.attempts = self.attempts.saturating_add(1);
        }
        let segment = self.segment(self.next);
        self.next += 1;
        self.due = Some(now + self.timing.timeout_ns.max(1));
        Some(segment)
    }

    /// When [`Sender::poll`] has something to do without a received MAD.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.due.filter(|_| self.progress == Progress::Running)
    }

    /// Handles an ACK, Stop or Abort of the receiver.
    pub fn receive(&mut self, now: Time, mad: &Mad) {
        let Some(rmpp) = header(mad).filter(|_| self.progress == Progress::Running) else {
            return;
        };
        if rmpp.version != Rmpp::VERSION {
            return self.fail(abort::BAD_VERSION);
        }
        match rmpp.kind {
            RmppKind::Ack => self.acknowledged(now, rmpp.data1, rmpp.data2),
            RmppKind::Stop | RmppKind::Abort => self.progress = Progress::Failed(rmpp.status),
            RmppKind::Data | RmppKind::None => self.fail(abort::BAD_TYPE),
        }
    }

    fn acknowledged(&mut self, now: Time, segment: u32, window_last: u32) {
        if segment >= self.next && segment > self.acked {
            // A repetition may have gone back behind what the receiver has meanwhile.
            if segment > self.window_last.min(self.segments) {
                return self.fail(abort::SEGMENT_TOO_BIG);
            }
            self.next = segment + 1;
        }
        if segment < self.acked {
            return;
        }
        if window_last < self.window_last && segment > self.acked {
            return self.fail(abort::WINDOW_TOO_SMALL);
        }
        self.window_last = self.window_last.max(window_last);
        if segment > self.acked {
            self.acked = segment;
            self.attempts = 0;
            self.due = (self.next > self.acked + 1).then(|| now + self.timing.timeout_ns.max(1));
            if self.acked == self.segments {
                self.progress = Progress::Done;
            }
        }
    }

    fn fail(&mut self, status: u8) {
        self.progress = Progress::Failed(status);
        let packet = control(&self.template, false, RmppKind::Abort, status, (0, 0));
        self.abort_packet = Some(packet);
    }

    fn segment(&self, number: u32) -> Mad {
        let first = number == 1;
        let last = number == self.segments;
        let data_len = self.layout.data_len();
        let class_header = self.layout.class_header();
        let at = usize_of(number - 1) * data_len;
        let rest = self.payload.get(at..).unwrap_or_default();
        let part = &rest[..rest.len().min(data_len)];
        let bytes = |len: usize| saturate::<u32>(len);
        let data2 = match (first, last) {
            (true, _) => bytes(self.payload.len()) + class_header * self.segments,
            (false, true) => bytes(part.len()) + class_header,
            (false, false) => 0,
        };
        let flag = |yes: bool, flag: u8| if yes { flag } else { 0 };
        let mut mad = self.template;
        set_header(
            &mut mad,
            &Rmpp {
                version: Rmpp::VERSION,
                kind: RmppKind::Data,
                resp_time: Rmpp::RESP_TIME_NONE,
                flags: rmpp_flag::ACTIVE
                    | flag(first, rmpp_flag::FIRST)
                    | flag(last, rmpp_flag::LAST),
                status: 0,
                data1: number,
                data2,
            },
        );
        let data = &mut mad.as_bytes_mut()[self.layout.at..];
        data.fill(0);
        data[..part.len()].copy_from_slice(part);
        mad
    }
}
