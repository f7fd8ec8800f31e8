//! The traffic behind `ibemu perf`: sources that send at a rate or under a window, and a sink that
//! counts packets and acknowledges them.
//!
//! ```text
//!  source                                                   sink
//!    | data 0, 1, 2 ... (number, time queued)                 |
//!    |------------------------------------------------------->| counts, measures
//!    |<------------------------------------------------------ | ack: highest number + 1, counts; latency if not urgent
//!    | query: all before n is sent                            |
//!    |------------------------------------------------------->| what is missing below n is lost
//!    |<------------------------------------------------------ | report: counts and latency
//! ```
//!
//! An acknowledgement tells the highest number and the counts, so that a flow whose last packet is acknowledged ends without a
//! question. Queries travel behind the data on the same VL and path, so that a sink that receives one can count what is
//! lost without a timer. A source queries when its sink has been silent for half a second, when its window has been closed for
//! the stall timeout, and at the end until it is answered if the last packets are not acknowledged; few at a time, whatever
//! the number of its flows. That makes the figures exact under any
//! loss: what was sent is delivered, lost or still under way.
//!
//! A flow may go to a multicast group instead. Then each member is a sink that counts and says nothing; what has become of
//! the packets is asked of the sinks.

mod flow;
mod queries;
mod sink;
mod source;
mod steps;

pub(crate) use flow::ToGroup;
pub(crate) use sink::{Peer, Sink, SinkReply};
pub(crate) use source::{Query, Source, rounded};
