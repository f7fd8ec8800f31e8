//! `ibemu chaos`: faults on a live fabric, drawn from a seed.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use crate::chaos::{self, FaultKinds, Length, Plan};
use crate::dir::FabricDir;
use crate::names::FabricName;
use crate::quantity::Rate;
use crate::state::FabricState;

/// How long a campaign goes on without `--minutes`, `--seconds` and `--rounds`.
const TIME: Duration = Duration::from_secs(60);

/// Faults on a live fabric.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Each round draws one to three faults, does them at once, waits until traffic has healed, takes them back (killed \
processes are started by the supervisor, the supervisor by the first verb that needs it, stopped ones go on, cables \
are plugged) and waits again. Then processes, cables, LIDs, forwarding tables and subnet managers must be as they \
were, and packets must come whole and be accounted for.

Traffic is echo requests of every host to some others all the time, and background flows. Heal time is measured twice a \
round: from the moment before the faults until every pair of hosts answers that what is left of the fabric connects \
with each other and with a subnet manager, and from the moment before they are taken back until every pair does. It \
ends with the first complete answers after the last echo that was missed (no answer within 400 ms). Where none was \
missed there is no heal time. docs/reliability.md has the rules.

The last line is the verdict. Exit code 0: held; 1: a rule was broken, and a line says how to repeat that round; 2: \
usage. An interrupt takes all faults back and reports what there is.")]
pub struct Chaos {
    /// Decides which faults come when, to what: the same seed and fabric, the same faults
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// Begin no round after so many minutes, 1 to 10080
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["seconds", "rounds"],
          value_parser = clap::value_parser!(u32).range(1..=10_080))]
    minutes: Option<u32>,
    /// Begin no round after so many seconds, 1 to 604800 [default: 60]
    #[arg(long, value_name = "NUMBER", conflicts_with = "rounds",
          value_parser = clap::value_parser!(u32).range(1..=604_800))]
    seconds: Option<u32>,
    /// Run so many rounds, 1 to 1000000
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: Option<u32>,
    /// Leave out the rounds before this one, 1 to 1000000: repeats a round of a longer campaign
    #[arg(long, default_value_t = 1, value_name = "ROUND",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    first: u32,
    /// Kinds of faults with commas between them: switch-kill, host-kill, controller-kill, standby-kill,
    /// supervisor-kill (SIGKILL), switch-stop, host-stop, controller-stop (SIGSTOP), switch-restart,
    /// host-restart, controller-restart (ibemu restart), cable-pull, cables-pull (two to four), cable-bounce
    /// [default: all that the fabric can have]
    #[arg(long, value_name = "KINDS")]
    faults: Option<FaultKinds>,
    /// Background flows, each from one host to another, 1 to 64; fewer where there are fewer hosts
    #[arg(long, default_value_t = 8, value_name = "NUMBER",
          value_parser = clap::value_parser!(u8).range(1..=64))]
    flows: u8,
    /// Rate of each background flow in bits a second (k, M and G are understood) [default: 1M]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Print one JSON object at the end, the timeline in it
    #[arg(long)]
    json: bool,
}

/// The rate of a background flow, bits a second.
const RATE: u64 = 1_000_000;

/// Runs a campaign.
///
/// # Errors
/// If a rule is broken, or the fabric is not whole to begin with.
pub async fn run(fabric: &FabricName, asked: &Chaos) -> Result<()> {
    if let Some(FabricState { job: Some(_), .. }) = FabricState::load(&FabricDir::of(fabric))? {
        bail!(
            "fabric {fabric} is on several machines, and chaos ends processes of one: bring it up without --slurm"
        );
    }
    let seconds = |seconds: u32| Length::Time(Duration::from_secs(u64::from(seconds)));
    let length = match (asked.rounds, asked.minutes, asked.seconds) {
        (Some(rounds), ..) => Length::Rounds(rounds),
        (None, Some(minutes), _) => seconds(minutes * 60),
        (None, None, Some(time)) => seconds(time),
        (None, None, None) => Length::Time(TIME),
    };
    let plan = Plan {
        seed: asked.seed,
        first: asked.first,
        length,
        kinds: asked.faults.as_ref().map(|kinds| kinds.0.clone()),
        flows: usize::from(asked.flows),
        rate: asked.rate.map_or(RATE, |rate| rate.0),
        json: asked.json,
    };
    chaos::run(fabric, &plan).await
}
