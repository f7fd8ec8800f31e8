//! What the controllers do meanwhile: which is master, and each sweep that has ended; and how busy the machine is.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::Result;
use controller::control::{Phase, Status};
use tokio::time::Instant;

use super::pressure::Pressure;
use super::report::Timeline;
use crate::ask;
use crate::dir::FabricDir;
use crate::names::CONTROLLERS;
use crate::quantity::duration;
use crate::state::FabricState;

/// The interval at which controllers are asked.
const ASK_INTERVAL: Duration = Duration::from_millis(50);
/// How long one may take to answer before it counts as silent.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(300);
/// A sweep counts as the one that healed traffic until this long after it did: controllers are asked at
/// intervals.
const LATE: Duration = Duration::from_millis(100);
/// Sweeps that are remembered.
const SWEEPS_MAX: usize = 64;

/// A sweep that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sweep {
    ended: Instant,
    name: String,
}

/// Asks the controllers for as long as [`Monitor::run`] is polled.
pub(super) struct Monitor<'a> {
    dir: &'a FabricDir,
    state: &'a FabricState,
    timeline: &'a RefCell<Timeline>,
    sweeps: RefCell<Vec<Sweep>>,
    pressure: RefCell<Pressure>,
}

impl<'a> Monitor<'a> {
    pub(super) fn new(
        dir: &'a FabricDir,
        state: &'a FabricState,
        timeline: &'a RefCell<Timeline>,
    ) -> Self {
        Self {
            dir,
            state,
            timeline,
            sweeps: RefCell::new(Vec::new()),
            pressure: RefCell::default(),
        }
    }

    /// Asks; never ends.
    pub(super) async fn run(&self) {
        let mut last: Vec<Option<Seen>> = vec![None; self.state.sm_nodes.len()];
        loop {
            self.pressure.borrow_mut().read();
            let reports = ask::subnets(self.dir, self.state, ANSWER_TIMEOUT).await;
            for ((name, report), last) in CONTROLLERS.iter().zip(&reports).zip(&mut last) {
                self.compare(name, report, last);
            }
            tokio::time::sleep(ASK_INTERVAL).await;
        }
    }

    fn compare(&self, name: &str, report: &Result<Status>, last: &mut Option<Seen>) {
        let Ok(status) = report else {
            // Silent: if it is started again, its first sweep is an event, too.
            *last = Some(Seen::default());
            return;
        };
        let is_master = status.phase == Phase::Up;
        let now = Seen {
            is_master,
            generation: status.generation,
        };
        if let Some(before) = *last
            && is_master
            && now != before
        {
            let sweep = format!("sweep {} of {name}", status.generation);
            let became = if before.is_master || before.generation != 0 {
                ""
            } else {
                " (master now)"
            };
            self.timeline.borrow_mut().add(format!(
                "{sweep}{became}: {} switches, {} hosts, {} cables{}; discovery {}, tables {}, {} blocks written",
                status.switches,
                status.hosts,
                status.links,
                if status.degraded { ", degraded" } else { "" },
                duration(status.discovery_ns),
                duration(status.programming_ns),
                status.blocks_written
            ));
            let mut sweeps = self.sweeps.borrow_mut();
            if sweeps.len() == SWEEPS_MAX {
                sweeps.remove(0);
            }
            sweeps.push(Sweep {
                ended: Instant::now(),
                name: sweep,
            });
        }
        // In a phase between two sweeps it is not known which controller is master.
        if matches!(
            status.phase,
            Phase::Up | Phase::Standby { .. } | Phase::Starting
        ) {
            *last = Some(now);
        }
    }

    /// How much of the time between two moments something was ready to run and had no processor, milliseconds;
    /// `None` where the kernel does not tell.
    pub(super) fn waited_ms(&self, from: Instant, to: Instant) -> Option<u64> {
        let mut pressure = self.pressure.borrow_mut();
        pressure.read();
        pressure.between_ms(from, to)
    }

    /// The last sweep that ended between a fault and the moment when traffic had healed.
    pub(super) fn sweep_between(&self, fault: Instant, healed: Instant) -> Option<String> {
        let sweeps = self.sweeps.borrow();
        let within = |sweep: &&Sweep| sweep.ended >= fault && sweep.ended <= healed + LATE;
        sweeps
            .iter()
            .rev()
            .find(within)
            .map(|sweep| sweep.name.clone())
    }
}

/// What a controller last answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    is_master: bool,
    generation: u64,
}
