//! End-to-end tests, one module a subject.

mod agreement;
mod cleanliness;
mod clos;
mod diagnostics;
mod documents;
mod engines;
mod experiments;
mod faults;
mod keys;
mod limits;
mod managers;
mod messages;
mod modules;
mod multicast;
mod perf;
mod qos;
mod reachability;
mod recording;
mod stock_programs;
