//! Which routing engine a subnet manager uses.

use core::fmt;
use core::str::FromStr;

use thiserror::Error;

/// The routing engines by name: those of [`routing::engines`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoutingChoice {
    /// MLID where the fabric is an m-port n-tree that admits it, else shortest paths under
    /// up*/down*.
    #[default]
    Auto,
    /// Multiple LIDs on an m-port n-tree (MLID04).
    Mlid,
    /// One LID a host on an m-port n-tree (MLID04).
    Slid,
    /// Shortest paths under the up*/down* rule: free of deadlock on any graph.
    UpDown,
    /// Shortest paths without further rule: may deadlock.
    MinHop,
    /// Balanced shortest paths, free of deadlock by virtual lanes.
    Dfsssp,
    /// Dimension order on meshes, tori, rings and hypercubes.
    Dor,
    /// A LID for each routing tree of a Clos fabric, and windows without interference (CLOS04).
    Clos,
    /// Balanced up*/down* paths for each pair (LID07).
    PathSelection,
    /// Shortest widest paths for each pair (LID07).
    ShortestWidest,
    /// The same, with a new LID at each conflict (LID07).
    Renaming,
    /// One tree and one LID a host (LID07).
    FullyExplicit,
    /// Tables of the user's own: [`crate::SmConfig::tables`].
    File,
}

impl RoutingChoice {
    /// Every choice with its name on the command line.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::Auto, "auto"),
        (Self::Mlid, "mlid"),
        (Self::Slid, "slid"),
        (Self::UpDown, "updn"),
        (Self::MinHop, "minhop"),
        (Self::Dfsssp, "dfsssp"),
        (Self::Dor, "dor"),
        (Self::Clos, "clos"),
        (Self::PathSelection, "path-selection"),
        (Self::ShortestWidest, "shortest-widest"),
        (Self::Renaming, "renaming"),
        (Self::FullyExplicit, "fully-explicit"),
        (Self::File, "file"),
    ];

    fn names() -> String {
        Self::ALL.map(|(_, name)| name).join(", ")
    }
}

impl fmt::Display for RoutingChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL
            .iter()
            .find(|(choice, _)| choice == self)
            .map_or("?", |(_, name)| name);
        f.write_str(name)
    }
}

/// A routing engine that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown routing {0:?}: choose one of {names}", names = RoutingChoice::names())]
pub struct UnknownRouting(pub String);

impl FromStr for RoutingChoice {
    type Err = UnknownRouting;

    fn from_str(name: &str) -> Result<Self, UnknownRouting> {
        Self::ALL
            .iter()
            .find(|(_, known)| *known == name)
            .map(|&(choice, _)| choice)
            .ok_or_else(|| UnknownRouting(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_can_be_chosen_and_every_choice_is_an_engine() {
        let engines = routing::engines();
        let mut names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
        let mut choices = RoutingChoice::ALL.map(|(_, name)| name).to_vec();
        names.sort_unstable();
        choices.sort_unstable();
        assert_eq!(names, choices);
        for (choice, name) in RoutingChoice::ALL {
            assert_eq!(name.parse(), Ok(choice));
            assert_eq!(choice.to_string(), name);
        }
        let unknown = "ftree".parse::<RoutingChoice>().unwrap_err();
        assert!(unknown.to_string().contains("fully-explicit, file"));
    }
}
