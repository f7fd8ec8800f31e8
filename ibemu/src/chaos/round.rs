//! One round: faults, healing, taking back, healing, and whether all is as it was.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};
use wire::convert::saturate;

use super::campaign::Plan;
use super::checks::{Baseline, Checks, Loss, Violation, unbalanced};
use super::injector::{Action, Injector};
use super::kind::FaultKind;
use super::monitor::Monitor;
use super::probe::{self, Healing, Prober};
use super::remains::{Missing, managed_parts};
use super::report::{Heal, Since, Timeline, seconds};
use super::schedule::Round;
use super::traffic::{self, FlowOutcome, Traffic};
use crate::accounting::Ledger;
use crate::dir::FabricDir;
use crate::lids::HostLids;
use crate::process::{ProcessId, Role};
use crate::state::FabricState;
use crate::verify::{self, Echo, Pair};

/// Traffic that has not healed after this long does not.
const HEAL_MAX: Duration = Duration::from_secs(30);
/// A fabric that is not as it was after this long will not be.
const REST_MAX: Duration = Duration::from_secs(30);
/// Traffic has healed when no request was missed that was made within this time after it.
const STEADY: Duration = Duration::from_millis(250);
/// The intervals at which traffic and the fabric are looked at.
const TRAFFIC_INTERVAL: Duration = Duration::from_millis(20);
const FABRIC_INTERVAL: Duration = Duration::from_millis(200);
/// Packets of each flow that have to come when all has healed, and their rate, bits a second.
const CLEAN_PACKETS: u64 = 200;
const CLEAN_RATE: u64 = 4_000_000;
/// Up to so many hosts all pairs are asked after each round, beyond it a sample (as by `ibemu up`).
const ALL_HOSTS_MAX: usize = 64;
/// Pairs that a message lists.
const PAIRS_MAX: usize = 6;

/// All that a round needs.
pub(super) struct Bench<'a> {
    pub dir: &'a FabricDir,
    pub state: &'a FabricState,
    pub hosts: &'a [HostLids],
    pub plan: &'a Plan,
    pub baseline: &'a Baseline,
    pub checks: &'a Checks<'a>,
    pub prober: &'a Prober<'a>,
    pub traffic: &'a Traffic<'a>,
    pub injector: &'a Injector<'a>,
    pub monitor: &'a Monitor<'a>,
    pub timeline: &'a RefCell<Timeline>,
    pub done: &'a Done,
}

/// Results of all rounds so far.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub rounds: Cell<u32>,
    pub faults: RefCell<BTreeMap<FaultKind, u32>>,
    pub heals: RefCell<Vec<Heal>>,
    pub sent: Cell<u64>,
    pub delivered: Cell<u64>,
}

/// Makes an error the violation of a rule.
fn breaks(rule: &'static str) -> impl Fn(anyhow::Error) -> Violation {
    move |error| Violation::new(rule, format!("{error:#}"))
}

impl Bench<'_> {
    /// Adds to the timeline.
    pub(super) fn log(&self, what: impl Into<String>) {
        self.timeline.borrow_mut().add(what);
    }

    /// Runs a round.
    ///
    /// # Errors
    /// The first rule that was broken. Faults may then not have been taken back.
    pub(super) async fn run(&self, round: &Round) -> Result<(), Violation> {
        self.timeline.borrow_mut().enter(round.number);
        let before = self.checks.processes().map_err(breaks("processes"))?;
        let actions = self.injector.actions(&round.faults).await;
        let actions = actions.map_err(breaks("fault"))?;
        let (paths, flows) = (self.traffic.paths, self.plan.flows);
        let flows = traffic::pairs(paths, self.hosts.len(), flows, self.plan.seed, round.number);
        let ledger = self.begin(&flows).await.map_err(breaks("traffic"))?;
        let pairs = probe::pairs(self.hosts.len(), self.plan.seed, round.number);
        self.prober.plan(&pairs);
        let since = if round.is_passing() {
            self.apply_passing(round, &actions).await?
        } else {
            self.apply_lasting(round, &actions).await?;
            self.take_back().await?
        };
        self.recover(round, since).await?;
        let rested = Instant::now();
        self.count(round, &ledger, &flows).await?;
        self.verify(round, &before, &actions).await?;
        self.clean_traffic(&flows).await?;
        let relapse = self.prober.judge(rested);
        if !relapse.missed.is_empty() {
            let pairs = self.names(&relapse.missed);
            let what = format!("echo requests were missed after all had healed: {pairs}");
            return Err(Violation::new("relapse", what));
        }
        self.done.rounds.set(self.done.rounds.get() + 1);
        Ok(())
    }

    /// Starts traffic, with the counters as they are before.
    async fn begin(&self, flows: &[Pair]) -> Result<Ledger> {
        self.traffic.clear().await?;
        let ledger = Ledger::open(self.dir, self.state).await;
        self.traffic.start(flows, self.plan.rate, 0).await?;
        Ok(ledger)
    }

    /// All hosts are to reach each other from now on.
    fn expect_all(&self) -> Instant {
        let parts = managed_parts(self.state, &Missing::default());
        self.prober.expect(&parts)
    }

    async fn apply(&self, round: &Round, actions: &[Action]) -> Result<(), Violation> {
        let described: Vec<String> = actions
            .iter()
            .map(|action| self.injector.describe(action))
            .collect();
        let kinds: Vec<String> = round.kinds().iter().map(ToString::to_string).collect();
        self.log(format!(
            "round {}: {} ({})",
            round.number,
            described.join("; "),
            kinds.join(", ")
        ));
        for kind in round.kinds() {
            *self.done.faults.borrow_mut().entry(kind).or_default() += 1;
        }
        self.injector.apply(actions).await.map_err(breaks("fault"))
    }

    /// Faults that are over when they are done; when they began.
    async fn apply_passing(&self, round: &Round, actions: &[Action]) -> Result<Instant, Violation> {
        let since = self.expect_all();
        self.apply(round, actions).await?;
        // What a restart has left undone because the supervisor was killed.
        self.injector.take_back().await.map_err(breaks("return"))?;
        Ok(since)
    }

    /// Faults that last, and how what is left of the fabric heals.
    async fn apply_lasting(&self, round: &Round, actions: &[Action]) -> Result<(), Violation> {
        let missing = self.injector.missing(actions);
        let since = self.prober.expect(&managed_parts(self.state, &missing));
        self.apply(round, actions).await?;
        if !round.is_brief {
            self.await_healing(since, false).await?;
        }
        sleep(Duration::from_millis(u64::from(round.hold_ms))).await;
        if !round.is_brief {
            self.record(round, Since::Fault, since);
        }
        let lids = self.checks.lids(&missing.nodes).await;
        self.check_lids(&lids)
    }

    fn check_lids(&self, lids: &super::checks::Lids) -> Result<(), Violation> {
        match self.checks.changed_lid(self.baseline, lids) {
            Some(changed) => Err(Violation::new("lid-changed", changed)),
            None => Ok(()),
        }
    }

    /// Takes faults back; when that began.
    async fn take_back(&self) -> Result<Instant, Violation> {
        let since = self.expect_all();
        self.log("all faults are taken back");
        self.injector.take_back().await.map_err(breaks("return"))?;
        Ok(since)
    }

    /// Waits until all pairs answer and the fabric is as it was.
    async fn recover(&self, round: &Round, since: Instant) -> Result<(), Violation> {
        let is_broken = self.await_healing(since, false).await?;
        let deadline = Instant::now() + REST_MAX;
        while let Err(error) = self.checks.managers().await {
            if Instant::now() > deadline {
                return Err(breaks("not-up")(error));
            }
            sleep(FABRIC_INTERVAL).await;
        }
        // What the managers have written since may have broken traffic again.
        self.await_healing(since, is_broken).await?;
        self.record(round, Since::Return, since);
        loop {
            let Err(error) = self.checks.is_whole(self.baseline).await else {
                break;
            };
            let lids = self.checks.lids(&BTreeSet::new()).await;
            self.check_lids(&lids)?;
            if Instant::now() > deadline {
                return Err(breaks("not-whole")(error));
            }
            sleep(FABRIC_INTERVAL).await;
        }
        let rested: u64 = saturate(since.elapsed().as_millis());
        self.log(format!(
            "the fabric is as it was, after {} at most",
            seconds(rested)
        ));
        Ok(())
    }

    /// Waits until traffic has healed. Whether it broke, as far as is known; `is_broken` if that is in
    /// the timeline already.
    async fn await_healing(&self, since: Instant, is_broken: bool) -> Result<bool, Violation> {
        let mut is_broken = is_broken;
        loop {
            let healing = self.prober.judge(since);
            if let (Some(broke), false) = (healing.broke, is_broken) {
                is_broken = true;
                self.log(format!(
                    "traffic broke {}",
                    self.description(&healing, since, broke)
                ));
            }
            let is_steady = healing
                .healed
                .zip(healing.known)
                .is_some_and(|(healed, known)| known >= healed + STEADY);
            if is_steady {
                return Ok(is_broken);
            }
            if since.elapsed() > HEAL_MAX {
                let pairs = self.names(&healing.missing);
                let limit = seconds(saturate(HEAL_MAX.as_millis()));
                let what = format!("after {limit} some pairs still do not answer: {pairs}");
                return Err(Violation::new("not-healed", what));
            }
            sleep(TRAFFIC_INTERVAL).await;
        }
    }

    fn description(&self, healing: &Healing, since: Instant, broke: Instant) -> String {
        let after: u64 = saturate(broke.duration_since(since).as_millis());
        let (missed, all) = (healing.missed.len(), self.prober.expected());
        format!("after {}: {missed} or more of {all} pairs", seconds(after))
    }

    /// Records how traffic has healed since a moment.
    fn record(&self, round: &Round, what: Since, since: Instant) {
        let healing = self.prober.judge(since);
        let healed = healing.healed.unwrap_or_else(Instant::now);
        let heal = Heal {
            round: round.number,
            kinds: round.kinds(),
            since: what,
            ms: saturate(healed.duration_since(since).as_millis()),
            broken_pairs: healing.missed.len(),
            echoes: healing.echoes,
            gap_ms: saturate(healing.gap.as_millis()),
            waited_ms: self.monitor.waited_ms(since, healed),
            sweep: self.monitor.sweep_between(since, healed),
        };
        let from = match what {
            Since::Fault => "the fault",
            Since::Return => "the return",
        };
        self.log(match heal.broken_pairs {
            0 => format!("since {from} none of {} echoes was missed", heal.echoes),
            pairs => format!(
                "healed {} after {from}: {pairs} of {} pairs had missed an echo{}",
                seconds(heal.ms),
                self.prober.expected(),
                heal.sweep
                    .as_ref()
                    .map_or(String::new(), |sweep| format!("; by {sweep}"))
            ),
        });
        self.done.heals.borrow_mut().push(heal);
    }

    /// Ends the traffic and checks the counters.
    async fn count(&self, round: &Round, ledger: &Ledger, flows: &[Pair]) -> Result<(), Violation> {
        self.traffic.stop(flows).await;
        let outcomes = self.traffic.finish(flows).await;
        let account = ledger.settle(self.dir, self.state).await;
        let kinds = round.kinds();
        let loss = if kinds.iter().any(|kind| kind.ends_a_device()) {
            Loss::WithDevices
        } else if kinds.iter().all(|kind| kind.spares_packets()) {
            Loss::None
        } else {
            Loss::OnCables
        };
        let sum = |of: fn(&FlowOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        let (sent, delivered) = (sum(|flow| flow.sent), sum(|flow| flow.delivered));
        self.done.sent.set(self.done.sent.get() + sent);
        self.done
            .delivered
            .set(self.done.delivered.get() + delivered);
        let drops: Vec<String> = account
            .kinds
            .get("data")
            .into_iter()
            .flat_map(|kind| &kind.dropped)
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        self.log(format!(
            "traffic of {} flows: {sent} packets sent, {delivered} delivered; dropped: {}",
            outcomes.len(),
            if drops.is_empty() {
                "none".to_owned()
            } else {
                drops.join(", ")
            }
        ));
        if loss == Loss::None {
            self.check_flows(&outcomes, "lossy")?;
        }
        match unbalanced(&account, loss) {
            Some(what) => Err(Violation::new("balance", what)),
            None => Ok(()),
        }
    }

    /// Every packet has come once.
    fn check_flows(&self, outcomes: &[FlowOutcome], rule: &'static str) -> Result<(), Violation> {
        let whole = |flow: &&FlowOutcome| {
            flow.is_final && flow.lost == 0 && flow.duplicates == 0 && flow.sent == flow.delivered
        };
        match outcomes.iter().find(|flow| !whole(flow)) {
            Some(flow) => Err(Violation::new(rule, format!("{flow:?}"))),
            None => Ok(()),
        }
    }

    /// Checks processes and reachability.
    async fn verify(
        &self,
        round: &Round,
        before: &BTreeMap<Role, ProcessId>,
        actions: &[Action],
    ) -> Result<(), Violation> {
        let now = self.checks.processes().map_err(breaks("processes"))?;
        let ended = self.injector.ended(actions).map_err(breaks("processes"))?;
        let others = before.iter().filter(|(role, _)| !ended.contains(role));
        for (role, id) in others {
            if now.get(role) != Some(id) {
                let what =
                    format!("{role:?} is another process, and no fault of this round ended it");
                return Err(Violation::new("processes", what));
            }
        }
        let pairs = match self.hosts.len() {
            0..=ALL_HOSTS_MAX => verify::all_pairs(self.hosts.len()),
            hosts => verify::sampled_pairs(hosts, self.plan.seed ^ u64::from(round.number)),
        };
        self.check_pairs(&pairs).await
    }

    /// All of these pairs answer.
    pub(super) async fn check_pairs(&self, pairs: &[Pair]) -> Result<(), Violation> {
        let echo = Echo {
            count: 1,
            interval_us: 0,
            size: hostd::control::PACKET_BYTES_MIN,
            sl: None,
            timeout_ms: 1_000,
            dlid_offset: None,
        };
        let results =
            verify::ping_pairs(self.dir, self.state, self.hosts, pairs, echo, |_| {}).await;
        let failed = results
            .iter()
            .filter(|result| result.fault.is_some() && !result.is_apart);
        let failed: BTreeSet<Pair> = failed.map(|result| result.pair).collect();
        if failed.is_empty() {
            return Ok(());
        }
        let what = format!(
            "of {} pairs some do not answer: {}",
            pairs.len(),
            self.names(&failed)
        );
        Err(Violation::new("unreachable", what))
    }

    /// Some packets of each flow come whole and once, and no counter misses one.
    async fn clean_traffic(&self, flows: &[Pair]) -> Result<(), Violation> {
        // A flow of before may still wait for its sink.
        self.traffic.clear().await.map_err(breaks("traffic"))?;
        let ledger = Ledger::open(self.dir, self.state).await;
        let started = self.traffic.start(flows, CLEAN_RATE, CLEAN_PACKETS).await;
        started.map_err(breaks("traffic"))?;
        let outcomes = self.traffic.finish(flows).await;
        let account = ledger.settle(self.dir, self.state).await;
        self.check_flows(&outcomes, "not-clean")?;
        match unbalanced(&account, Loss::None) {
            Some(what) => Err(Violation::new("not-clean", what)),
            None => Ok(()),
        }
    }

    fn names(&self, pairs: &BTreeSet<Pair>) -> String {
        let name = |host: usize| self.hosts[host].identity.name.as_str();
        let listed = pairs.iter().take(PAIRS_MAX);
        let listed: Vec<String> = listed
            .map(|&(from, to)| format!("{} to {}", name(from), name(to)))
            .collect();
        match pairs.len().saturating_sub(PAIRS_MAX) {
            0 => listed.join(", "),
            more => format!("{} and {more} more", listed.join(", ")),
        }
    }
}
