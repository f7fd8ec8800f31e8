//! The last hour of a fabric in bounded memory: rates and states of every port, and what has happened.
//!
//! Samples of the last ten minutes are kept as they came; before that, one frame stands for ten seconds and holds the
//! mean rates, the lowest state and the fullest lane of each port. A frame has [`Point`]s of 28 bytes, one a port, so that an hour of a
//! fabric with 9,088 ports sampled once a second takes 245 MB; [`HISTORY_BYTES_MAX`] bounds it for larger ones, whose
//! oldest frames go first.

mod file;

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wire::convert::u64_of;

use crate::model::{Fabric, Port, PortState, Snapshot};
pub use file::{HistoryError, Recorder};

/// The most memory that frames take, bytes.
pub const HISTORY_BYTES_MAX: usize = 256 << 20;
/// How long samples are kept as they came, milliseconds.
const FINE_MS: u64 = 600_000;
/// How long anything is kept, milliseconds.
const KEPT_MS: u64 = 3_600_000;
/// What one coarse frame stands for, milliseconds.
const COARSE_MS: u64 = 10_000;
/// Events that are kept.
const EVENTS_MAX: usize = 4096;
/// How many earlier structures of the fabric are kept.
const FABRICS_MAX: usize = 16;

/// One port in one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes sent a second.
    pub xmit_bytes_per_s: f32,
    /// Bytes received a second.
    pub rcv_bytes_per_s: f32,
    /// Packets sent a second.
    pub xmit_pkts_per_s: f32,
    /// Packets received a second.
    pub rcv_pkts_per_s: f32,
    /// Ticks of PortXmitWait a second.
    pub xmit_wait_per_s: f32,
    /// Errors and discards a second.
    pub errors_per_s: f32,
    /// Logical state: 0 unknown, 1 Down, 2 Init, 3 Armed, 4 Active.
    pub state: u8,
    /// How full the fullest lane of its input buffer is, in thousandths, as its device told last; 0 if it has not.
    pub fill: u16,
}

/// All ports at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// When, milliseconds since 1970; of a coarse frame its last sample.
    pub at_ms: u64,
    /// By place of the port.
    pub points: Box<[Point]>,
}

impl Frame {
    /// What is kept of a sample.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let ports = snapshot.fabric.ports.iter().enumerate();
        let points = ports.map(|(place, port)| {
            let rates = snapshot.reading(place).rates;
            Point {
                xmit_bytes_per_s: single(rates.xmit_bytes_per_s),
                rcv_bytes_per_s: single(rates.rcv_bytes_per_s),
                xmit_pkts_per_s: single(rates.xmit_pkts_per_s),
                rcv_pkts_per_s: single(rates.rcv_pkts_per_s),
                xmit_wait_per_s: single(rates.xmit_wait_per_s),
                errors_per_s: single(rates.errors_per_s),
                state: state_code(port.state),
                fill: fullest(snapshot, port),
            }
        });
        Self {
            at_ms: snapshot.at_ms,
            points: points.collect(),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val::<[Point]>(&self.points)
    }
}

/// How full the fullest data lane of a port's input buffer is, in thousandths; 0 if its device has not told.
#[must_use]
pub fn fullest(snapshot: &Snapshot, port: &Port) -> u16 {
    let device = snapshot.devices.get(port.node);
    let lanes = device.and_then(|device| device.lanes.get(&port.number));
    let shares = lanes.into_iter().flatten().map(|lane| lane.input_share);
    thousandths(shares.fold(0.0, f64::max))
}

/// A part of a whole, 0 to 1, in thousandths.
fn thousandths(part: f64) -> u16 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and 1000"
    )]
    let thousandths = (part.clamp(0.0, 1.0) * 1000.0).round() as u16;
    thousandths
}

#[expect(clippy::cast_possible_truncation, reason = "seven digits of a rate")]
const fn single(rate: f64) -> f32 {
    rate as f32
}

const fn state_code(state: PortState) -> u8 {
    match state {
        PortState::Unknown => 0,
        PortState::Down => 1,
        PortState::Init => 2,
        PortState::Armed => 3,
        PortState::Active => 4,
    }
}

/// Samples that are to become one coarse frame.
#[derive(Debug, Default)]
struct Mean {
    begun_ms: u64,
    frames: u16,
    sums: Vec<Point>,
}

impl Mean {
    fn add(&mut self, frame: &Frame) {
        if self.frames == 0 {
            self.begun_ms = frame.at_ms;
        }
        let known = self.sums.len();
        for (sum, point) in self.sums.iter_mut().zip(&frame.points) {
            sum.xmit_bytes_per_s += point.xmit_bytes_per_s;
            sum.rcv_bytes_per_s += point.rcv_bytes_per_s;
            sum.xmit_pkts_per_s += point.xmit_pkts_per_s;
            sum.rcv_pkts_per_s += point.rcv_pkts_per_s;
            sum.xmit_wait_per_s += point.xmit_wait_per_s;
            sum.errors_per_s += point.errors_per_s;
            sum.state = sum.state.min(point.state);
            sum.fill = sum.fill.max(point.fill);
        }
        self.sums.extend(frame.points.iter().skip(known));
        self.frames = self.frames.saturating_add(1);
    }

    fn is_complete(&self, now_ms: u64) -> bool {
        self.frames > 0 && now_ms.saturating_sub(self.begun_ms) >= COARSE_MS
    }

    fn take(&mut self, at_ms: u64) -> Frame {
        let share = 1.0 / f32::from(self.frames.max(1));
        let points = self.sums.drain(..).map(|sum| Point {
            xmit_bytes_per_s: sum.xmit_bytes_per_s * share,
            rcv_bytes_per_s: sum.rcv_bytes_per_s * share,
            xmit_pkts_per_s: sum.xmit_pkts_per_s * share,
            rcv_pkts_per_s: sum.rcv_pkts_per_s * share,
            xmit_wait_per_s: sum.xmit_wait_per_s * share,
            errors_per_s: sum.errors_per_s * share,
            state: sum.state,
            fill: sum.fill,
        });
        let points = points.collect();
        self.frames = 0;
        Frame { at_ms, points }
    }
}

/// The last hour.
#[derive(Debug)]
pub struct History {
    fine: VecDeque<Frame>,
    coarse: VecDeque<Frame>,
    mean: Mean,
    fabrics: VecDeque<(u64, Arc<Fabric>)>,
    about: Option<serde_json::Value>,
    events: VecDeque<(u64, serde_json::Value)>,
    bytes: usize,
    bytes_max: usize,
}

impl Default for History {
    fn default() -> Self {
        Self::new(HISTORY_BYTES_MAX)
    }
}

impl History {
    /// An empty history whose frames take at most `bytes_max`; it keeps the latest frame in any case.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            fine: VecDeque::new(),
            coarse: VecDeque::new(),
            mean: Mean::default(),
            fabrics: VecDeque::new(),
            about: None,
            events: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// What the file that it was read from says beyond samples ([`Recorder::about`]).
    #[must_use]
    pub const fn about(&self) -> Option<&serde_json::Value> {
        self.about.as_ref()
    }

    /// Adds an event: when, milliseconds since 1970, and what.
    pub fn push_event(&mut self, at_ms: u64, event: serde_json::Value) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back((at_ms, event));
    }

    /// The events that are kept, in the order in which they came.
    pub fn events(&self) -> impl Iterator<Item = &(u64, serde_json::Value)> {
        self.events.iter()
    }

    /// Adds a sample. One that is not later than the last one is left out: the time of day was set back.
    pub fn push(&mut self, snapshot: &Snapshot) {
        if self.push_frame(Frame::of(snapshot)) {
            self.set_fabric(snapshot.at_ms, &snapshot.fabric);
        }
    }

    /// The structure of the fabric from a moment on.
    fn set_fabric(&mut self, at_ms: u64, fabric: &Arc<Fabric>) {
        let last = self.fabrics.back();
        if last.is_some_and(|(_, last)| last.generation == fabric.generation) {
            return;
        }
        self.fabrics.push_back((at_ms, Arc::clone(fabric)));
        if self.fabrics.len() > FABRICS_MAX {
            self.fabrics.pop_front();
        }
    }

    /// Adds a frame; whether it is later than the last one.
    fn push_frame(&mut self, frame: Frame) -> bool {
        let now_ms = frame.at_ms;
        if self.last_ms().is_some_and(|last| last >= now_ms) {
            return false;
        }
        self.mean.add(&frame);
        self.bytes += frame.bytes();
        self.fine.push_back(frame);
        if self.mean.is_complete(now_ms) {
            let frame = self.mean.take(now_ms);
            self.bytes += frame.bytes();
            self.coarse.push_back(frame);
        }
        self.forget(now_ms);
        true
    }

    fn forget(&mut self, now_ms: u64) {
        let is_older = |frame: Option<&Frame>, kept_ms: u64| {
            frame.is_some_and(|frame| now_ms.saturating_sub(frame.at_ms) > kept_ms)
        };
        while is_older(self.coarse.front(), KEPT_MS) || self.bytes > self.bytes_max {
            let Some(gone) = self.coarse.pop_front() else {
                break;
            };
            self.bytes -= gone.bytes();
        }
        while is_older(self.fine.front(), FINE_MS)
            || (self.bytes > self.bytes_max && self.fine.len() > 1)
        {
            let Some(gone) = self.fine.pop_front() else {
                break;
            };
            self.bytes -= gone.bytes();
        }
    }

    /// What frames take, bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// All frames in order of time: coarse ones, then those that are as they came.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = &Frame> {
        let fine_from = self.fine.front().map_or(u64::MAX, |frame| frame.at_ms);
        let coarse = self.coarse.partition_point(|frame| frame.at_ms < fine_from);
        self.coarse.range(..coarse).chain(&self.fine)
    }

    /// A port, by its place, in the last `span_ms`: when, and what.
    #[must_use]
    pub fn port(&self, place: usize, span_ms: u64) -> Vec<(u64, Point)> {
        let from = self.last_ms().unwrap_or(0).saturating_sub(span_ms);
        let frames = self.frames().filter(|frame| frame.at_ms >= from);
        frames
            .filter_map(|frame| Some((frame.at_ms, *frame.points.get(place)?)))
            .collect()
    }

    /// The last frame that is not later than this; the first one if all are.
    #[must_use]
    pub fn frame_at(&self, at_ms: u64) -> Option<&Frame> {
        let last = self.frames().rev().find(|frame| frame.at_ms <= at_ms);
        last.or_else(|| self.frames().next())
    }

    /// The structure of the fabric at a moment, as far as it is kept.
    #[must_use]
    pub fn fabric_at(&self, at_ms: u64) -> Option<&Arc<Fabric>> {
        let fabrics = &self.fabrics;
        let last = fabrics.iter().rev().find(|&&(from, _)| from <= at_ms);
        last.or_else(|| fabrics.front()).map(|(_, fabric)| fabric)
    }

    /// When the first frame was taken, milliseconds since 1970.
    #[must_use]
    pub fn first_ms(&self) -> Option<u64> {
        self.frames().next().map(|frame| frame.at_ms)
    }

    /// When the last frame was taken.
    #[must_use]
    pub fn last_ms(&self) -> Option<u64> {
        self.fine.back().map(|frame| frame.at_ms)
    }

    /// How many frames there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        u64_of(self.frames().count())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fine.is_empty()
    }
}

#[cfg(test)]
mod tests;
