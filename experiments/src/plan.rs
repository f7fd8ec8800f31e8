//! Plans as they are written: TOML files, one for each result, of one kind or another.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::job::{Job, job};
use crate::lids::LidsPlan;
use crate::load::LoadPlan;
use crate::multicast::MulticastPlan;
use crate::qos::{AdmissionPlan, QosPlan};
use crate::requests::RequestsPlan;
use crate::study::Study;
use crate::trace::TracePlan;
use crate::windows::WindowsPlan;
use crate::{ExperimentError, Options};

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

/// A plan that cannot be used.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No such plan.
    #[error("there is no plan {name:?}: {known}, or a file")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Not TOML, an unknown key, or a value of the wrong type; says line and column.
    #[error("{file}: {error}")]
    Syntax {
        /// The file or plan.
        file: String,
        /// What is wrong where.
        error: Box<toml::de::Error>,
    },
    /// A value that makes no sense.
    #[error("{file}, line {line}: {key}: {what}")]
    Value {
        /// The file or plan.
        file: String,
        /// The line on which the key stands first; 1 where it does not.
        line: usize,
        /// The key.
        key: &'static str,
        /// What is wrong, and what is allowed.
        what: String,
    },
}

/// The key that tells kinds of plans apart; the others are the kind's.
#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:literal => $kind:ident($plan:ty)),+ $(,)?) => {
        /// An experiment of any kind. The key `kind` of its file says which.
        #[derive(Clone, Debug)]
        pub enum Plan {
            $($(#[$doc])* $kind(Box<$plan>)),+
        }

        /// The kinds there are.
        const KINDS: &[&str] = &[$($name),+];

        impl Plan {
            fn of_kind(kind: &str, file: &str, text: &str) -> Result<Self, PlanError> {
                match kind {
                    $($name => Ok(Self::$kind(Box::new(parse(file, text)?))),)+
                    _ => Err(PlanError::Value {
                        file: file.to_owned(),
                        line: line_of(text, "kind"),
                        key: "kind",
                        what: format!("{kind:?}: {}", KINDS.join(", ")),
                    }),
                }
            }

            /// Name of the plan and of the files of its results.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$kind(plan) => plan.head().name),+
                }
            }

            /// How many points it has, whole and reduced.
            #[must_use]
            pub fn points(&self) -> [usize; 2] {
                match self {
                    $(Self::$kind(plan) => [plan.points(), plan.reduced().points()]),+
                }
            }

            pub(super) fn job(
                &self,
                options: Options,
                out: &Path,
            ) -> Result<Box<dyn Job>, ExperimentError> {
                match self {
                    $(Self::$kind(plan) => job((**plan).clone(), options, out)),+
                }
            }
        }
    };
}

kinds! {
    /// Loads against latencies and accepted traffic (MLID04).
    "load" => Load(LoadPlan),
    /// LIDs and balance of routings on random graphs (LID07).
    "lids" => Lids(LidsPlan),
    /// Connections with promised bandwidth at work (VLARB01).
    "qos" => Qos(QosPlan),
    /// How many connections with promised bandwidth fit (VLARB01).
    "admission" => Admission(AdmissionPlan),
    /// Packets in windows of a connection controller (CLOS04).
    "windows" => Windows(WindowsPlan),
    /// Requests for connections, few trees or many (CLOS04).
    "requests" => Requests(RequestsPlan),
    /// Times of messages to groups by multicast and unicast (MCAST07).
    "multicast" => Multicast(MulticastPlan),
    /// A trace under several schemes.
    "trace" => Trace(TracePlan),
}

/// The kind of a plan that does not say.
const DEFAULT_KIND: &str = "load";

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

    /// A plan from its text; `file` stands in errors.
    ///
    /// # Errors
    /// As [`Plan::find`].
    pub fn parse(file: &str, text: &str) -> Result<Self, PlanError> {
        let kind: Kind = toml::from_str(text).map_err(|error| syntax(file, error))?;
        let kind = kind.kind.as_deref().unwrap_or(DEFAULT_KIND);
        Self::of_kind(kind, file, text)
    }
}

fn syntax(file: &str, error: toml::de::Error) -> PlanError {
    PlanError::Syntax {
        file: file.to_owned(),
        error: Box::new(error),
    }
}

/// A plan of one kind from its text, checked as it is and reduced.
fn parse<S: Study>(file: &str, text: &str) -> Result<S, PlanError> {
    let plan: S = toml::from_str(text).map_err(|error| syntax(file, error))?;
    let refuse = |(key, what): (&'static str, String)| PlanError::Value {
        file: file.to_owned(),
        line: line_of(text, key),
        key,
        what,
    };
    plan.check().map_err(refuse)?;
    let reduced = plan.reduced();
    reduced.check().map_err(refuse)?;
    if plan.points() == 0 || reduced.points() == 0 {
        return Err(refuse(("kind", "the plan has no points".to_owned())));
    }
    Ok(plan)
}

/// The line on which a key stands first, from 1.
fn line_of(text: &str, key: &str) -> usize {
    let stands = |line: &str| {
        let line = line.trim_start().trim_start_matches('[');
        line.strip_prefix(key)
            .is_some_and(|rest| rest.trim_start().starts_with(['=', ']']))
    };
    text.lines().position(stands).map_or(1, |line| line + 1)
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
        let error = Plan::parse("test.toml", "name = \"x\"\nkind = \"lod\"\n").unwrap_err();
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
