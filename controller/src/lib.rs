//! The subnet manager of a fabric, without IO: it discovers the subnet, gives LIDs, computes
//! forwarding tables with the `routing` crate, programs every device by management packets, and
//! keeps the subnet routed while cables and devices come and go. It also answers the queries to
//! subnet administration that programs on the hosts need most, promises bandwidth to connections
//! (VLARB01), and on Clos fabrics gives senders paths that share no link (CLOS04).
//!
//! A shell runs an [`Sm`] beside an end node, whose MAD socket carries
//! [`mad::local::ToAgent`] and [`mad::local::FromAgent`]:
//!
//! ```text
//!   sm.tick(now)                       once, to start
//!   loop {
//!       while let Some(event)   = sm.poll_event()    { log it; persist the text it carries }
//!       while let Some(message) = sm.poll_transmit() { send it to the host's MAD socket }
//!       while let Some(work)    = sm.poll_work()     { run it on another thread (SmConfig::computes_apart) }
//!       wait for the socket, the control socket, a thread, or sm.deadline()
//!       received:  sm.handle(now, message)
//!       deadline:  sm.tick(now)
//!       control:   sm.status(now), sm.resweep(now)
//!       work done: sm.work_done(now, done)
//!       event Recall: sm.recall(texts persisted last, by whichever manager)
//!   }
//! ```
//!
//! Events come first: state is persisted before a response confirms it.
//!
//! Nothing here reads a clock, opens a socket or draws an unseeded random number: the same code
//! runs in the daemon and in virtual time.
//!
//! # Parts
//!
//! [`Sm`] owns the parts and calls them; no part calls back or reads the state of another. What
//! several need is handed to them for the call: the `fabric::Fabric` (devices and plan, read by
//! all), and results (MADs to send, events, warnings) are returned.
//!
//! ```text
//!                        handle, tick, status, resweep   poll_event, poll_transmit, deadline
//!                                        |                    ^
//!  +-------------------------------------v--------------------|-------------------------------+
//!  | sm            dispatches MADs by class; owns the parts   |                               |
//!  | sm::sequence  what follows what: discovery, light sweep, planning, writing               |
//!  | sm::computing plans that take their time on another thread                                |
//!  | sm::managers  standby, handover          sm::trap  what follows from a trap               |
//!  +--+----------+----------+-----------+----------+----------+----------+-----------+--------+
//!     | heavy and light sweeps          | writing  | requests of hosts   | output    |
//!     v                                 v          v                     v           v
//!  schedule    when sweeps are due    writer     administration (sa)   report     outbox
//!  exchange    SMPs in flight         mirrors      transfers (RMPP)    persistence
//!  discovery   one heavy sweep        (LFT, MFT,   subscriptions (traps)
//!  light_sweep one light sweep         SL2VL,    groups  (MCMR, MFTs)
//!  election    who is master           VLArb)    qos     (connections, admission, notices)
//!  inventory   devices known before              windows (CLOS04)
//!  planner     guid2lid, whole fabric
//! ```
//!
//! | part | owns | is asked |
//! |---|---|---|
//! | `schedule` | times of the next sweeps, retries, aborts in a row | `request_sweep`, `take_due`, `sweep_done` |
//! | `exchange` | SMPs in flight and those that wait | `push`, `next`, `answered`, `expire` |
//! | `discovery`, `light_sweep` | the state of one sweep | `request`, `complete`, `finish` |
//! | `verification` | whose turn it is to be read back by a light sweep | `start`, `complete`, `take_warnings` |
//! | `absence` | when this manager was last at work | `ends`, `deadline` |
//! | `election` | this manager's state among managers, whom it polls | `enter`, `judge`, `judge_poll`, `asked` |
//! | `inventory` | names, present devices, unresponsive ports | `names`, `update` |
//! | `plan::Planner` | guid2lid, the whole fabric, labels of a fat tree | `plan`, `missing`, `expects` |
//! | `writer` | the stage of one programming; mirrors of the devices' tables | `next_stage`, `request`, `complete` |
//! | `groups` | multicast groups, members, trees, answers that wait for MFTs | `replan`, `set_member`, `block`, `written` |
//! | `aliases` | alias GUIDs of ports, answers that wait for them | `set`, `remove`, `block`, `written` |
//! | `sa` | RMPP transfers, subscriptions | `request`, `report`, `poll` |
//! | `qos` | connections, admission, requests, change notices | `request`, `serve`, `replan`, `take_responses` |
//! | `windows` | pairs asked for, grants in force | `request`, `follow`, `run` |
//! | `report` | status, events, warnings | `enter`, `warn`, `update`, `subnet_up` |
//!
//! The writer reads what `groups` and `qos` want in the tables through `writer::Target`, which
//! `sm::sequence` builds for each call; the subnet in it is updated with the PortInfo and
//! SwitchInfo that devices answer. `sa` changes memberships in `groups`.

mod absence;
mod aliases;
mod config;
pub mod control;
mod discovery;
mod election;
mod event;
mod exchange;
mod fabric;
mod groups;
mod guid2lid;
mod inventory;
mod light_sweep;
mod log;
mod outbox;
mod partitions;
mod persistence;
mod plan;
mod port_settings;
mod protection;
mod qos;
mod report;
mod sa;
mod schedule;
mod sm;
mod smp;
mod statements;
mod subnet;
mod traps;
mod vendor;
mod verification;
mod windows;
mod writer;

pub use config::{ConfigError, QosChoice, Remembered, SmConfig};
pub use event::{SmEvent, UpSummary};
pub use guid2lid::{KeptChoice, guid2lid_of};
pub use partitions::{
    Ipoib, Member, Membership, Partition, PartitionEnforcement, Partitions, PartitionsError,
};
pub use protection::Protection;
pub use sm::{Done, Sm, Work};
