//! `ibemu clos`: windows without interference (CLOS04), on a fabric routed by clos.

mod links;
mod round;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use daemon::choice::choice;
use serde::Serialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use wire::vendor::WindowState;
use wire::{Lid, MadStatus, Method};

use crate::ask;
use crate::dir::FabricDir;
use crate::lids;
use crate::mads::MadClient;
use crate::names::FabricName;
use crate::output::{self, Align, Table};
use crate::quantity;
use crate::state::FabricState;

use links::Load;
use round::{Round, Rounds};

/// `ibemu clos`.
#[derive(Debug, Subcommand)]
pub enum Clos {
    /// Send permutations, each pair on a path of its own; exit code 1 if a link was shared
    Run(Run),
    /// Show the state of the windows
    State(State),
}

/// The destination of each host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Permutation {
    /// Every host to another one, chosen by the seed
    Random,
    /// Every host to the one a round's number of hosts further on
    Shift,
}
wire::choice!(Permutation, "permutation");

/// `ibemu clos run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The destination of each host
    #[arg(long, value_parser = choice::<Permutation>(), default_value_t = Permutation::Random)]
    pub permutation: Permutation,
    /// Permutations, one after the other, 1 to 100000
    #[arg(short, long, default_value_t = 1, value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,
    /// Packets of each pair, 1 to 1048576
    #[arg(long, default_value_t = 1000, value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub packets: u32,
    /// Packet length from LRH to VCRC, bytes: 98 up to the MTU and its headers
    #[arg(short, long, default_value_t = 2082, value_name = "BYTES",
          value_parser = clap::value_parser!(u16).range(98..=4222))]
    pub size: u16,
    /// Seed of random permutations
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub seed: u64,
    /// How long a permutation may take, seconds, above 0
    #[arg(long, default_value = "60", value_name = "SECONDS", value_parser = quantity::positive)]
    pub timeout: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ibemu clos state`.
#[derive(Debug, Args)]
pub struct State {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct StateReport {
    windows: u32,
    windows_per_s: u16,
    trees: u16,
    connections: u16,
    waiting: u16,
    moved: u32,
    deferred: u32,
    blocked: u32,
    late: u32,
    unanswered: u32,
}

impl From<WindowState> for StateReport {
    fn from(state: WindowState) -> Self {
        Self {
            windows: state.window,
            windows_per_s: state.rate,
            trees: state.trees,
            connections: state.connections,
            waiting: state.waiting,
            moved: state.moved,
            deferred: state.deferred,
            blocked: state.blocked,
            late: state.late,
            unanswered: state.unanswered,
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    rounds: Vec<Round>,
    links_shared: usize,
    lost: u64,
    state: StateReport,
}

/// Runs the verb.
///
/// # Errors
/// If the fabric has no windows, traffic was lost or a link was shared.
pub async fn run(fabric: &FabricName, options: &Clos) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let mut controller = ControllerClient::open(&dir, &state).await?;
    match options {
        Clos::State(options) => show(&controller.state().await?.into(), options.json),
        Clos::Run(options) => permutations(&dir, &state, &mut controller, options).await,
    }
}

/// A connection to the controller.
struct ControllerClient {
    client: MadClient,
    sm: Lid,
}

impl ControllerClient {
    async fn open(dir: &FabricDir, state: &FabricState) -> Result<Self> {
        let Some(host) = ask::master_host(dir, state).await else {
            bail!("the fabric has no host");
        };
        Ok(Self {
            sm: lids::of_host(dir, state, host).await?.identity.sm_lid,
            client: MadClient::connect(dir, &state.nodes[host]).await?,
        })
    }

    async fn state(&mut self) -> Result<WindowState> {
        let nothing = WindowState::default();
        let answer = self.client.vendor(self.sm, Method::GET, 0, &nothing);
        let answer = answer.await?;
        if answer.status() != MadStatus::OK {
            bail!(
                "the subnet manager does not support windows (status {})",
                answer.status()
            );
        }
        Ok(answer.vendor_attribute()?)
    }
}

async fn permutations(
    dir: &FabricDir,
    state: &FabricState,
    controller: &mut ControllerClient,
    options: &Run,
) -> Result<()> {
    if controller.state().await?.trees == 0 {
        bail!("the fabric has no routing trees: bring a clos topology up with --routing clos");
    }
    let hosts = lids::of_all(dir, state).await?;
    let rounds = Rounds {
        dir,
        state,
        hosts: &hosts,
        options,
        limit: Duration::from_secs_f64(options.timeout),
    };
    rounds.settle(controller).await?;
    let mut done = Vec::new();
    for number in 0..options.count {
        done.push(rounds.run(controller, number).await?);
    }
    let report = Report {
        links_shared: done.iter().map(|round| round.shared().count()).sum(),
        lost: done.iter().map(|round| round.lost).sum(),
        rounds: done,
        state: controller.state().await?.into(),
    };
    if options.json {
        output::json(&report)?;
    } else {
        print(&report)?;
    }
    if report.links_shared > 0 || report.lost > 0 {
        bail!(
            "{} links were shared and {} packets lost",
            report.links_shared,
            report.lost
        );
    }
    Ok(())
}

fn print(report: &Report) -> Result<()> {
    let mut table = Table::new(&[
        ("ROUND", Align::Right),
        ("PAIRS", Align::Right),
        ("DELIVERED", Align::Right),
        ("LOST", Align::Right),
        ("LINKS USED", Align::Right),
        ("SHARED", Align::Right),
        ("LARGEST LOAD", Align::Right),
    ]);
    for (number, round) in report.rounds.iter().enumerate() {
        let used = round.links.iter().filter(|link| link.is_used()).count();
        let largest = round.links.iter().map(|link| link.load).fold(0.0, f64::max);
        table.row([
            number.to_string(),
            round.pairs.len().to_string(),
            round.delivered.to_string(),
            round.lost.to_string(),
            used.to_string(),
            round.shared().count().to_string(),
            format!("{largest:.3}"),
        ]);
    }
    output::line(table)?;
    for link in report.rounds.iter().flat_map(Round::shared) {
        output::line(format!(
            "shared: port {} of {}, {:.2} flows",
            link.port, link.node, link.load
        ))?;
    }
    show(&report.state, false)
}

fn show(state: &StateReport, json: bool) -> Result<()> {
    if json {
        return output::json(state);
    }
    output::line(format!(
        "{} trees, {} windows at {} a second ({} late), {} connections, {} waiting; {} moved, {} \
         deferred, {} for want of a tree, {} grants unanswered",
        state.trees,
        state.windows,
        state.windows_per_s,
        state.late,
        state.connections,
        state.waiting,
        state.moved,
        state.deferred,
        state.blocked,
        state.unanswered
    ))
}
