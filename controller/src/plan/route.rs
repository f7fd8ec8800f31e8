//! Tables for a plan: from the engine that was chosen, and from where else when it gives none.
//!
//! | what fails | what follows |
//! |---|---|
//! | the first tables of a fabric | nothing is installed |
//! | `clos` while a cable or a spine is missing | `updn`, to the LIDs that ports have |
//! | an engine that would give ports other LIDs while something is missing | as the next line |
//! | another engine, later | the tables that stand are kept; LIDs that they no longer reach are rerouted ([`routing::repair()`]) |
//! | `file` while something is missing | the user's tables stay as they are; a warning names what they no longer reach |

use std::collections::BTreeMap;

use topologies::{Graph, NodeKind};
use wire::{Guid, Lid, Lmc};

use routing::clos::{Clos, NotClos};
use routing::fat_tree::FatTreeLabels;
use routing::network::Network;
use routing::{KnownLids, Options, Repair, RoutingEngine, RoutingError, Tables, file, repair};

use super::choice::moves_lids;
use super::{Plan, Planner, is_part};
use crate::port_settings;
use crate::subnet::Subnet;

impl Planner {
    pub(super) fn route(
        &self,
        subnet: &Subnet,
        graph: &Graph,
        labels: Option<FatTreeLabels>,
        old: &Plan,
        warnings: &mut Vec<String>,
    ) -> Result<Tables, String> {
        let options = self.options(subnet, graph, labels);
        let computed = self.compute(graph, &options);
        let tables = match computed {
            Ok(tables) if self.is_smaller_clos(graph, &options, &tables) => {
                self.around_damage(graph, options, &"spines are missing")?
            }
            Ok(tables) if !self.would_move(graph, &options, &tables) => tables,
            Ok(tables) => {
                let reason = format!(
                    "{} would give ports other LIDs while something is missing",
                    tables.engine
                );
                self.keep(graph, &options, old, &reason, warnings)?
            }
            Err(error) => match error.reason::<NotClos>() {
                Some(damage) if self.was_clos() => self.around_damage(graph, options, damage)?,
                _ => self.keep(graph, &options, old, &self.explain(&error), warnings)?,
            },
        };
        if self.routing == RoutingEngine::File {
            self.judge(graph, &tables, warnings)?;
        }
        Ok(tables)
    }

    /// The tables from before, repaired for what there is now, since the engine gives none.
    fn keep(
        &self,
        graph: &Graph,
        options: &Options,
        old: &Plan,
        reason: &str,
        warnings: &mut Vec<String>,
    ) -> Result<Tables, String> {
        let Some(repaired) = self.repaired(graph, options, old) else {
            return self.anew(graph, options, reason, warnings);
        };
        let mut repaired = repaired.map_err(|error| self.explain(&error))?;
        let what = self.stays(&repaired);
        warnings.push(format!("{reason}; {what}"));
        repaired.tables.because = Some(what);
        Ok(repaired.tables)
    }

    /// For `auto`: tables of an engine that applies now, where those of the one that was taken are lost.
    fn anew(
        &self,
        graph: &Graph,
        options: &Options,
        reason: &str,
        warnings: &mut Vec<String>,
    ) -> Result<Tables, String> {
        if self.routing != RoutingEngine::Auto {
            return Err(reason.to_owned());
        }
        let tables = RoutingEngine::Auto.route(graph, options);
        let tables = tables.map_err(|error| self.explain(&error))?;
        warnings.push(format!("{reason}; {} instead", tables.engine));
        Ok(tables)
    }

    /// Whether these tables would give ports other LIDs than they have although nothing has been added
    /// to the fabric. Tables of the user's own name their LIDs themselves.
    fn would_move(&self, graph: &Graph, options: &Options, tables: &Tables) -> bool {
        self.routing != RoutingEngine::File
            && self.is_degraded(graph)
            && is_part(graph, &self.memory.fabric)
            && moves_lids(tables, &options.known)
    }

    pub(super) fn options(
        &self,
        subnet: &Subnet,
        graph: &Graph,
        labels: Option<FatTreeLabels>,
    ) -> Options {
        let mut known = self.memory.lids.clone();
        // Who is new and names LIDs of another one gets others: that one may return without, and who names them may lie.
        let remembered = Ranges::of(&known);
        for device in &subnet.devices {
            if let Some(info) = device.end_port_info()
                && info.lid.is_unicast()
                && !remembered.overlap((info.lid, info.lmc))
            {
                known
                    .entry(device.end_port_guid())
                    .or_insert((info.lid, info.lmc));
            }
        }
        // Tables of switches that are away wait for their return.
        let whole = &self.memory.fabric;
        let is_away = |guid: Guid| {
            graph.find_guid(guid).is_none()
                && whole
                    .find_guid(guid)
                    .is_some_and(|node| whole.node(node).kind == NodeKind::Switch)
        };
        let given = self.given.as_ref().map(|given| {
            let here = given.iter().filter(|dump| !is_away(dump.guid));
            here.cloned().collect()
        });
        Options {
            lmc: self.lmc,
            known,
            labels,
            data_vls: Some(if self.keeps_vls {
                1
            } else {
                port_settings::data_vls(subnet)
            }),
            given,
            given_levels: self.given_levels.clone(),
            keep_lids: self.keeps_lids(graph),
            unmeasured: self.unmeasured(graph),
            ..self.levels.clone()
        }
    }

    /// Whether the whole fabric is a Clos fabric.
    fn was_clos(&self) -> bool {
        let whole = &self.memory.fabric;
        Clos::recognise(whole, &Network::new(whole)).is_ok()
    }

    /// Whether tables of the engine `clos` would give ports other LIDs than they have because spines
    /// are missing: what is left is a Clos fabric, too, with fewer LIDs for each host.
    fn is_smaller_clos(&self, graph: &Graph, options: &Options, tables: &Tables) -> bool {
        self.routing == RoutingEngine::Clos
            && self.is_degraded(graph)
            && is_part(graph, &self.memory.fabric)
            && self.was_clos()
            && moves_lids(tables, &options.known)
    }

    /// Routing trees need every cable: while one is missing, packets go another way to the LIDs
    /// that ports have.
    fn around_damage(
        &self,
        graph: &Graph,
        options: Options,
        damage: &dyn core::fmt::Display,
    ) -> Result<Tables, String> {
        let lmcs = options.known.values().map(|&(_, lmc)| lmc);
        let options = Options {
            lmc: options.lmc.or_else(|| lmcs.max()),
            ..options
        };
        let mut tables = RoutingEngine::Updn
            .route(graph, &options)
            .map_err(|error| self.explain(&error))?;
        let reason = format!("routing trees are not whole: {damage}");
        tables.because = Some(reason);
        Ok(tables)
    }

    /// The tables of the whole fabric, else those of the plan before, else those of the whole fabric without visitors, repaired
    /// for what is there; `None` if there are none.
    fn repaired(
        &self,
        graph: &Graph,
        options: &Options,
        old: &Plan,
    ) -> Option<Result<Repair, RoutingError>> {
        let whole = &self.memory.fabric;
        // Tables of the whole fabric do not depend on the order in which things have failed.
        if whole.hosts().next().is_some()
            && is_part(graph, whole)
            && let Ok(tables) = self.compute(whole, options)
        {
            return Some(repair(graph, whole, &tables, &options.known));
        }
        if let Some(tables) = &old.tables {
            return Some(repair(graph, &old.graph, tables, &options.known));
        }
        // The engine may have tables for what is remembered, and none for it with visitors.
        let lasting = self.lasting.as_ref()?;
        let tables = self.compute(lasting, options).ok()?;
        Some(repair(graph, lasting, &tables, &options.known))
    }

    /// What stays of repaired tables, in words.
    fn stays(&self, repaired: &Repair) -> String {
        let Repair {
            tables,
            rerouted,
            lids,
        } = repaired;
        if *rerouted == 0 {
            "the tables from before stay in force".to_owned()
        } else if tables.engine == self.taken() {
            format!(
                "the tables from before stay in force, but {rerouted} of {lids} LIDs are rerouted \
                 round what has changed"
            )
        } else {
            "all LIDs are rerouted, since old and new ways together could deadlock".to_owned()
        }
    }

    /// Refuses tables of the user's own that do not serve the fabric. On a fabric that something
    /// is missing of they stay, as the user wants them, and a warning names what they fail to reach.
    fn judge(
        &self,
        graph: &Graph,
        tables: &Tables,
        warnings: &mut Vec<String>,
    ) -> Result<(), String> {
        match file::check(graph, tables) {
            Ok(found) => warnings.extend(found),
            Err(problem) if self.is_degraded(graph) => {
                warnings.push(format!("--routing file: {problem}"));
            }
            Err(problem) => return Err(format!("--routing file: {problem}")),
        }
        Ok(())
    }

    fn explain(&self, error: &RoutingError) -> String {
        match error {
            RoutingError::NotFatTree { .. } => {
                format!("{error}; --routing auto or updn works on any fabric")
            }
            _ => format!("--routing {}: {error}", self.routing),
        }
    }
}

/// LIDs that are remembered, by base LID.
struct Ranges(BTreeMap<Lid, Lmc>);

impl Ranges {
    fn of(known: &KnownLids) -> Self {
        Self(known.values().copied().collect())
    }

    fn overlap(&self, (base, lmc): (Lid, Lmc)) -> bool {
        let end = Lid::new(base.get().saturating_add(lmc.lids()));
        let before = self.0.range(..=base).next_back();
        self.0.range(base..end).next().is_some()
            || before.is_some_and(|(&first, &lmc)| base.belongs_to(first, lmc))
    }
}
