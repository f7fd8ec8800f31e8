//! Plans as they are written: TOML files, one for each result, of one kind or another.

use std::path::Path;
use std::sync::Arc;

use crate::document::Document;
use crate::error::ExperimentError;
use crate::kind::{AnyVariant, read};
use crate::lids::LidsPlan;
use crate::load::LoadPlan;
use crate::multicast::MulticastPlan;
use crate::plan_error::PlanError;
use crate::qos::{AdmissionPlan, QosPlan};
use crate::requests::RequestsPlan;
use crate::run::{Job, Options};
use crate::trace::TracePlan;
use crate::windows::WindowsPlan;

macro_rules! builtins {
    ($($name:literal),+ $(,)?) => {
        /// The plans of the papers' results, name and text.
        const BUILTINS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../plans/", $name, ".toml")))),+
        ];
    };
}

builtins! {
    "mlid-fig12", "mlid-fig13", "mlid-fig14", "mlid-fig15", "mlid-observation5",
    "lid-shortest-widest", "lid-path-selection", "lid-routing-schemes", "lid-readings", "lid-exact",
    "clos-latency", "clos-moves", "clos-blocking",
    "vlarb-tables", "vlarb-fig4", "vlarb-irregular", "vlarb-hypercube", "vlarb-mesh",
    "vlarb-layouts", "vlarb-layouts-deep",
    "mcast-fig8-10", "mcast-fig11-16", "mcast-fig17",
}

/// How a plan of a kind is read: its file whole and reduced.
type Read = fn([Document<'_>; 2]) -> Result<[Arc<dyn AnyVariant>; 2], PlanError>;

/// The kinds there are: what the key `kind` says, and how the rest is read.
const KINDS: &[(&str, Read)] = &[
    // Loads against latencies and accepted traffic (MLID04).
    ("load", read::<LoadPlan, _>),
    // LIDs and balance of routings on random graphs (LID07).
    ("lids", read::<LidsPlan, _>),
    // Connections with promised bandwidth at work (VLARB01).
    ("qos", read::<QosPlan, _>),
    // How many connections with promised bandwidth fit (VLARB01).
    ("admission", read::<AdmissionPlan, _>),
    // Packets in windows of a connection controller (CLOS04).
    ("windows", read::<WindowsPlan, _>),
    // Requests for connections, few trees or many (CLOS04).
    ("requests", read::<RequestsPlan, _>),
    // Times of messages to groups by multicast and unicast (MCAST07).
    ("multicast", read::<MulticastPlan, _>),
    // A trace under several schemes.
    ("trace", read::<TracePlan, _>),
];

/// An experiment of any kind. The key `kind` of its file says which.
#[derive(Clone, Debug)]
pub struct Plan {
    whole: Arc<dyn AnyVariant>,
    quick: Arc<dyn AnyVariant>,
}

impl Plan {
    /// Names of the plans that come with the program.
    pub fn builtins() -> impl Iterator<Item = &'static str> {
        BUILTINS.iter().map(|&(name, _)| name)
    }

    /// The plan of that name, or in that file.
    ///
    /// # Errors
    /// [`PlanError`]: where it is wrong, and what is allowed.
    pub fn find(given: &str) -> Result<Self, PlanError> {
        if let Some((name, text)) = BUILTINS.iter().find(|(name, _)| *name == given) {
            return Self::parse(name, text);
        }
        let path = Path::new(given);
        if !given.contains(['/', '.']) && !path.exists() {
            return Err(PlanError::Unknown {
                name: given.to_owned(),
                known: Self::builtins().collect::<Vec<_>>().join(", "),
            });
        }
        let text = std::fs::read_to_string(path).map_err(|source| PlanError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(given, &text)
    }

    /// A plan from its text, checked whole and reduced; `file` stands in errors.
    ///
    /// # Errors
    /// As [`Plan::find`].
    pub fn parse(file: &str, text: &str) -> Result<Self, PlanError> {
        let documents = Document::parse(file, text)?;
        let head = documents[0].clone().take_head()?;
        let Some((_, read)) = KINDS.iter().find(|(kind, _)| *kind == head.kind) else {
            let known: Vec<&str> = KINDS.iter().map(|&(kind, _)| kind).collect();
            let what = format!("{:?}: {}", head.kind, known.join(", "));
            return Err(documents[0].refuse(("kind", what)));
        };
        let [whole, quick] = read(documents)?;
        Ok(Self { whole, quick })
    }

    /// Name of the plan and of the files of its results.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.whole.head().name
    }

    /// How many points it has, whole and reduced.
    #[must_use]
    pub fn points(&self) -> [usize; 2] {
        [self.whole.points(), self.quick.points()]
    }

    pub(crate) fn job(
        &self,
        options: Options,
        out: &Path,
    ) -> Result<Box<dyn Job>, ExperimentError> {
        let variant = if options.quick {
            &self.quick
        } else {
            &self.whole
        };
        Arc::clone(variant).job(options, out)
    }
}

/// The parameters of a plan of a known kind, whole and reduced, for tests.
#[cfg(test)]
pub(crate) fn parameters<E, const AXES: usize>(text: &str) -> [E; 2]
where
    E: crate::experiment::Experiment<AXES> + serde::de::DeserializeOwned,
{
    let documents = Document::parse("test.toml", text).unwrap();
    documents.map(|document| crate::variant::Variant::read(document).unwrap().experiment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_of_the_papers_are_sound() {
        for name in Plan::builtins() {
            let plan = Plan::find(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(plan.name(), name);
            let [whole, reduced] = plan.points();
            assert!((1..=whole).contains(&reduced), "{name}");
        }
    }

    #[test]
    fn a_kind_that_is_not_there_is_told_with_those_that_are() {
        let error =
            Plan::parse("test.toml", "name = \"x\"\nkind = \"lod\"\ntitle = \"X\"\n").unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("test.toml, line 2: kind: \"lod\": load"),
            "{error}"
        );
    }

    #[test]
    fn a_plan_that_is_not_there_is_told_with_those_that_are() {
        let error = Plan::find("mlid-fig99").unwrap_err().to_string();
        assert!(error.contains("mlid-fig12"), "{error}");
        let error = Plan::find("./none.toml").unwrap_err().to_string();
        assert!(error.contains("none.toml"), "{error}");
    }
}
