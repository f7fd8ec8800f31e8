//! Plans of LID experiments as they are written.

use routing::lid_assignment::{PathScheme, Scheme};
use serde::Deserialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::checks::{Refusal, between, bounds, distinct, not_empty, not_negative};
use crate::lids::reading::Interpretation;
use crate::lids::size::Size;

/// The most hosts of a size: paths grow with their square.
const HOSTS_MAX: u32 = 2048;
/// The most graphs of a size.
const GRAPHS_MAX: u32 = 1000;
/// The most hops by which an alternative may be longer: alternatives grow exponentially with it.
const DETOUR_MAX: u32 = 2;

/// Random fabrics of several sizes, on which schemes are compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LidsPlan {
    /// What is shown and judged.
    pub(super) measures: Vec<Measure>,
    /// Sizes, written as hosts/switches.
    pub(super) sizes: Vec<Size>,
    /// Neighbours of each switch.
    pub(super) degree: u32,
    /// Random graphs of each size.
    pub(super) graphs: u32,
    /// The routing schemes that are compared, in the order of the tables.
    pub(super) scheme: Vec<RoutingScheme>,
    /// Interpretations of what the paper leaves open. The first is judged. Left out: the default
    /// one only.
    #[serde(default = "default_readings")]
    pub(super) reading: Vec<Interpretation>,
    /// The paper's numbers.
    #[serde(default)]
    pub(super) reference: Vec<Reference>,
    /// Ranges that results should be in.
    #[serde(default)]
    pub(super) band: Vec<Band>,
    /// Statements of the paper: which scheme needs less than which others.
    #[serde(default)]
    pub(super) order: Vec<Order>,
}

fn default_readings() -> Vec<Interpretation> {
    vec![Interpretation::default()]
}

/// A result of a routing scheme on a graph.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumMessage, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Measure {
    /// LIDs of all hosts, of each rounded up to a power of two.
    Lids,
    /// Flows on the busiest channel between switches when each host sends one to each other,
    /// divided by the hosts less one.
    Load,
}
wire::choice!(Measure, "measure");

impl Measure {
    /// What tables and statements call it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Lids => "LIDs",
            Self::Load => "load",
        }
    }
}

/// A routing scheme: how paths are found, and how LIDs are assigned to them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoutingScheme {
    /// Its name in tables and plots.
    pub(super) name: String,
    /// How paths are found.
    pub(super) routing: PathScheme,
    /// How LIDs are assigned.
    pub(super) assign: Scheme,
}

/// The paper's results on one size, in the order of the schemes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reference {
    /// On which size.
    pub(super) size: Size,
    /// LIDs, or none.
    #[serde(default)]
    pub(super) lids: Vec<f64>,
    /// Loads, or none.
    #[serde(default)]
    pub(super) load: Vec<f64>,
}

impl Reference {
    /// The numbers of a measure.
    pub(super) fn of(&self, measure: Measure) -> &[f64] {
        match measure {
            Measure::Lids => &self.lids,
            Measure::Load => &self.load,
        }
    }
}

/// A range for the mean of a scheme, or for its ratio to that of another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Band {
    /// On which size.
    pub(super) size: Size,
    /// Of what.
    pub(super) measure: Measure,
    /// The scheme.
    pub(super) of: String,
    /// The scheme to divide by; left out: the mean itself.
    pub(super) over: Option<String>,
    /// The least.
    pub(super) min: f64,
    /// The most.
    pub(super) max: f64,
}

/// A statement of the paper: one scheme has no more than any of some others, on every size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// The statement.
    pub(super) says: String,
    /// Of what.
    pub(super) measure: Measure,
    /// The better one.
    pub(super) least: String,
    /// The others.
    pub(super) than: Vec<String>,
}

impl LidsPlan {
    /// The paths that its schemes use, each once.
    pub(super) fn routings(&self) -> Vec<PathScheme> {
        let mut routings = Vec::new();
        for scheme in &self.scheme {
            if !routings.contains(&scheme.routing) {
                routings.push(scheme.routing);
            }
        }
        routings
    }

    /// Whether the least number of LIDs is wanted for these paths.
    pub(super) fn wants_exact(&self, routing: PathScheme) -> bool {
        let mut schemes = self.scheme.iter();
        schemes.any(|scheme| scheme.assign == Scheme::Exact && scheme.routing == routing)
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        not_empty("measures", &self.measures)?;
        for size in &self.sizes {
            self.check_size(*size)?;
        }
        if let Some(long) = self.reading.iter().find(|one| one.detour > DETOUR_MAX) {
            return Err((
                "detour",
                format!("{}: at most {DETOUR_MAX} hops", long.detour),
            ));
        }
        between("graphs", self.graphs, (1, GRAPHS_MAX))?;
        self.check_names()?;
        for reference in &self.reference {
            for (key, measure) in [("lids", Measure::Lids), ("load", Measure::Load)] {
                not_negative(key, reference.of(measure))?;
                let given = reference.of(measure).len();
                if ![0, self.scheme.len()].contains(&given) {
                    let (size, schemes) = (reference.size, self.scheme.len());
                    let what =
                        format!("{size}: {given} numbers: one for each of {schemes}, or none");
                    return Err((key, what));
                }
            }
        }
        let mut bands = self.band.iter();
        bands.try_for_each(|band| bounds(band.min, band.max))
    }

    fn check_size(&self, size: Size) -> Result<(), Refusal> {
        let Size { hosts, switches } = size;
        let is_multiple = hosts.checked_rem(switches) == Some(0);
        if !is_multiple || !(2..=HOSTS_MAX).contains(&hosts) {
            let what = format!(
                "{size}: at least one switch, 2 to {HOSTS_MAX} hosts, the same number at each switch"
            );
            return Err(("sizes", what));
        }
        let refuse = |what: &str| {
            let degree = self.degree;
            Err((
                "degree",
                format!("{degree} with {switches} switches: {what}"),
            ))
        };
        if self.degree >= switches {
            return refuse("less than the number of switches");
        }
        if self.degree % 2 == 1 && switches % 2 == 1 {
            return refuse("one of the two even, since each cable has two ends");
        }
        match Interpretation::default().graph(size, self.degree, 0) {
            Ok(_) => Ok(()),
            Err(error) => refuse(&error.to_string()),
        }
    }

    /// Names of schemes are distinct, and bands and statements name schemes of the plan.
    fn check_names(&self) -> Result<(), Refusal> {
        let names: Vec<&str> = self.scheme.iter().map(|one| one.name.as_str()).collect();
        distinct("scheme", &names)?;
        let known = |key, name: &str| match names.contains(&name) {
            true => Ok(()),
            false => Err((key, format!("{name:?}: {}", names.join(", ")))),
        };
        for band in &self.band {
            known("of", &band.of)?;
            band.over.iter().try_for_each(|over| known("over", over))?;
        }
        for order in &self.order {
            known("least", &order.least)?;
            not_empty("than", &order.than)?;
            order.than.iter().try_for_each(|name| known("than", name))?;
        }
        Ok(())
    }
}
