//! Tables of every engine, judged by the verifier and by what the papers say.
#![allow(clippy::unwrap_used, reason = "a test")]

mod auto;
mod degraded;
mod dumped;
mod engines;
#[path = "../fabrics/mod.rs"]
mod fabrics;
mod given;
mod golden;
mod levels;
mod lids;
mod mlid04;
mod recognised;
mod repaired;
mod structure;
mod support;
mod updn;
mod verified;
mod vls;
