//! Engines by name.

use topologies::Graph;
use wire::Lmc;

use crate::clos::ClosEngine;
use crate::dfsssp::Dfsssp;
use crate::dor::Dor;
use crate::dump::SwitchDump;
use crate::error::{RoutingError, Warning};
use crate::fat_tree::{self, FatTreeLabels, Mlid, Slid};
use crate::file::File;
use crate::lid_assignment::Separate;
use crate::lids::{KnownLids, LidBase};
use crate::minhop::Minhop;
use crate::tables::Tables;
use crate::updn::Updn;

/// What a user may ask for. The default is what a live fabric wants.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// LMC of host ports; `None` leaves it to the engine: as many LIDs as there are paths and room
    /// for (`mlid`), or one (all others).
    pub lmc: Option<Lmc>,
    /// Where host LIDs begin.
    pub lid_base: LidBase,
    /// LIDs that ports had before. Engines whose LIDs follow from labels (`mlid`, `slid`) ignore
    /// it.
    pub known: KnownLids,
    /// Labels of the fat tree that this fabric was when it was whole; engines for fat trees then
    /// look for these and do not recognise the fabric anew.
    pub labels: Option<FatTreeLabels>,
    /// Data lanes that every port has, for engines that need more than one; `None` for 8.
    pub data_vls: Option<u8>,
    /// Tables for the engine `file` to take, as [`crate::dump::read`] gives them.
    pub given: Option<Vec<SwitchDump>>,
}

impl Options {
    /// Data lanes that every port has.
    #[must_use]
    pub fn data_vls(&self) -> u8 {
        self.data_vls.unwrap_or(8)
    }
}

/// A way to compute tables. A pure function: the same fabric and options give the same tables,
/// whatever the order of the graph's nodes.
pub trait Engine {
    /// The name by which it is chosen.
    fn name(&self) -> &'static str;

    /// What it does, in one line, for help texts.
    fn summary(&self) -> &'static str;

    /// LIDs and tables for that fabric.
    ///
    /// # Errors
    /// [`RoutingError`] if the engine cannot apply, or LIDs do not suffice.
    fn route(&self, graph: &Graph, options: &Options) -> Result<Tables, RoutingError>;
}

/// All engines.
#[must_use]
pub fn engines() -> Vec<Box<dyn Engine>> {
    vec![
        Box::new(Auto),
        Box::new(Mlid),
        Box::new(Slid),
        Box::new(Updn),
        Box::new(Minhop),
        Box::new(Dfsssp),
        Box::new(Dor),
        Box::new(ClosEngine),
        Box::new(Separate::PATH_SELECTION),
        Box::new(Separate::SHORTEST_WIDEST),
        Box::new(Separate::RENAMING),
        Box::new(Separate::FULLY_EXPLICIT),
        Box::new(File),
    ]
}

/// The engine of that name.
///
/// # Errors
/// [`RoutingError::UnknownEngine`], which lists the names.
pub fn engine(name: &str) -> Result<Box<dyn Engine>, RoutingError> {
    let names: Vec<_> = engines().iter().map(|engine| engine.name()).collect();
    engines()
        .into_iter()
        .find(|engine| engine.name() == name)
        .ok_or_else(|| RoutingError::UnknownEngine {
            name: name.to_owned(),
            known: names.join(", "),
        })
}

/// `mlid` (or `slid` where the number of paths is no power of two) on a fat tree, else `updn`.
struct Auto;

impl Engine for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn summary(&self) -> &'static str {
        "mlid on a fat tree, updn elsewhere"
    }

    fn route(&self, graph: &Graph, options: &Options) -> Result<Tables, RoutingError> {
        let kept = options
            .labels
            .as_ref()
            .filter(|labels| labels.fit(graph).is_ok());
        let labels = match kept {
            Some(labels) => labels.clone(),
            None => match fat_tree::recognise(graph) {
                Ok(labels) => labels,
                Err(reason) => {
                    let mut tables = Updn.route(graph, options)?;
                    tables.because = Some(format!("not a fat tree: {reason}"));
                    return Ok(tables);
                }
            },
        };
        let (m, n) = (labels.tree().ports(), labels.tree().levels());
        let paths = labels.tree().power(n - 1);
        let options = Options {
            labels: Some(labels),
            ..options.clone()
        };
        let mut tables = if paths.is_power_of_two() {
            Mlid.route(graph, &options)?
        } else {
            let mut tables = Slid.route(graph, &options)?;
            tables.warnings.push(Warning::SlidInstead { paths });
            tables
        };
        tables.because = Some(format!("FT({m},{n})"));
        Ok(tables)
    }
}
