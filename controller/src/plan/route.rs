//! Tables for a plan: from the engine that was chosen, and from where else when it gives none.
//!
//! | what fails | what follows |
//! |---|---|
//! | the first tables of a fabric | nothing is installed |
//! | `clos` while a cable or a spine is missing | `updn`, to the LIDs that ports have |
//! | another engine, later | the tables that stand are kept; LIDs that they no longer reach are rerouted ([`routing::repair()`]) |
//! | `file` while something is missing | the user's tables stay as they are; a warning names what they no longer reach |

use topologies::{Graph, NodeKind};
use wire::Guid;

use routing::clos::{Clos, NotClos};
use routing::fat_tree::{FatTreeLabels, recognise};
use routing::network::Network;
use routing::{
    LidRange, NotFatTree, Options, Repair, RoutingEngine, RoutingError, Tables, file, repair,
};

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
        let tables = match self.compute(graph, &options) {
            Ok(tables) if self.is_smaller_clos(graph, &options, &tables) => {
                self.around_damage(graph, options, &"spines are missing")?
            }
            Ok(tables) => tables,
            Err(error) => match error.reason::<NotClos>() {
                Some(damage) if self.was_clos() => self.around_damage(graph, options, damage)?,
                _ => {
                    let repaired = self.repaired(graph, &options, old);
                    let repaired = repaired.ok_or_else(|| self.explain(&error))?;
                    let mut repaired = repaired.map_err(|error| self.explain(&error))?;
                    let what = self.stays(&repaired);
                    warnings.push(format!("{}; {what}", self.explain(&error)));
                    repaired.tables.because = Some(what);
                    repaired.tables
                }
            },
        };
        if self.routing == RoutingEngine::File {
            self.judge(graph, &tables, warnings)?;
        }
        Ok(tables)
    }

    fn options(&self, subnet: &Subnet, graph: &Graph, labels: Option<FatTreeLabels>) -> Options {
        let mut known = self.memory.lids.clone();
        for device in &subnet.devices {
            if let Some(info) = device.end_port_info()
                && info.lid.is_unicast()
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
            data_vls: Some(port_settings::data_vls(subnet)),
            given,
            ..Options::default()
        }
    }

    fn compute(&self, graph: &Graph, options: &Options) -> Result<Tables, RoutingError> {
        match self.part_of_no_tree(graph, options) {
            None => self.routing.route(graph, options),
            Some(reason) => {
                let mut tables = RoutingEngine::Updn.route(graph, options)?;
                tables.because = Some(format!("not a fat tree: {reason}"));
                Ok(tables)
            }
        }
    }

    /// For `auto`: why the whole fabric is no fat tree, if what is there is a part of it. A part may
    /// happen to be one; another engine would give all ports other LIDs, and take them back when the
    /// rest has returned.
    fn part_of_no_tree(&self, graph: &Graph, options: &Options) -> Option<NotFatTree> {
        let whole = &self.memory.fabric;
        let asks = self.routing == RoutingEngine::Auto && options.labels.is_none();
        (asks && is_part(graph, whole))
            .then(|| recognise(whole).err())
            .flatten()
    }

    /// Whether the whole fabric is a Clos fabric.
    fn was_clos(&self) -> bool {
        let whole = &self.memory.fabric;
        Clos::recognise(whole, &Network::new(whole)).is_ok()
    }

    /// Whether tables of the engine `clos` would give ports other LIDs than they have because spines
    /// are missing: what is left is a Clos fabric, too, with fewer LIDs for each host.
    fn is_smaller_clos(&self, graph: &Graph, options: &Options, tables: &Tables) -> bool {
        let is_moved = |range: &LidRange| {
            let known = options.known.get(&range.guid);
            known.is_some_and(|&known| known != (range.base, range.lmc))
        };
        self.routing == RoutingEngine::Clos
            && self.is_degraded(graph)
            && is_part(graph, &self.memory.fabric)
            && self.was_clos()
            && tables.lids.iter().any(is_moved)
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

    /// The tables of the whole fabric, else those of the plan before, repaired for what is there;
    /// `None` if there have never been any.
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
            return Some(repair(graph, whole, &tables));
        }
        let tables = old.tables.as_ref()?;
        Some(repair(graph, &old.graph, tables))
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
        } else if tables.engine == self.routing {
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
            Ok(worth_telling) => warnings.extend(worth_telling),
            Err(unfit) if self.is_degraded(graph) => {
                warnings.push(format!("--routing file: {unfit}"));
            }
            Err(unfit) => return Err(format!("--routing file: {unfit}")),
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
