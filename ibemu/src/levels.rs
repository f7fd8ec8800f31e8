//! What the user says of the levels of a fabric: its roots, and which hosts tell where its leaves are.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use clap::Args;
use routing::guid_list::{self, guid};
use routing::{Options, port_guid};
use serde::{Deserialize, Serialize};
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::Guid;

use crate::usage::UsageError;

/// The longest file of GUIDs, bytes.
const BYTES_MAX: u64 = 8 << 20;

/// The options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Levels of the fabric")]
pub struct Levels {
    /// Switches of the top level, for updn: a file with a node GUID a line, as OpenSM's -a, or names
    /// or GUIDs with commas between [default: they are found]
    #[arg(long, value_name = "FILE|NAMES")]
    #[serde(default)]
    pub roots: Option<String>,
    /// Hosts that do not make leaves of the switches that they are at (storage, gateways), for updn: a file
    /// with a node or port GUID a line, as OpenSM's --io_guid_file, or names or GUIDs [default: aggregation
    /// nodes, and few hosts beside many others, are known by themselves]
    #[arg(long, value_name = "FILE|NAMES")]
    #[serde(default)]
    pub io_guids: Option<String>,
    /// Hosts that alone make leaves of their switches, for updn: as --io-guids, and as OpenSM's
    /// --cn_guid_file [default: all others]
    #[arg(long, value_name = "FILE|NAMES")]
    #[serde(default)]
    pub compute_guids: Option<String>,
}

/// The same as GUIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelGuids {
    /// Node GUIDs of switches.
    pub roots: BTreeSet<Guid>,
    /// Node or port GUIDs of hosts.
    pub io_guids: BTreeSet<Guid>,
    /// Node or port GUIDs of hosts.
    pub compute_guids: BTreeSet<Guid>,
}

impl Levels {
    /// The first option that is given.
    #[must_use]
    pub fn given(&self) -> Option<&'static str> {
        let options = [
            ("--roots", &self.roots),
            ("--io-guids", &self.io_guids),
            ("--compute-guids", &self.compute_guids),
        ];
        let mut given = options.into_iter().filter(|(_, value)| value.is_some());
        given.next().map(|(name, _)| name)
    }

    /// Looks the nodes up in the topology.
    ///
    /// # Errors
    /// [`UsageError`] that says which option names what is not there.
    pub fn guids(&self, graph: &Graph) -> Result<LevelGuids> {
        let look_up = |option: &str, value: &Option<String>, kind| match value {
            None => Ok(BTreeSet::new()),
            Some(value) => look_up(graph, kind, value)
                .map_err(|problem| UsageError(format!("{option}: {problem}"))),
        };
        Ok(LevelGuids {
            roots: look_up("--roots", &self.roots, NodeKind::Switch)?,
            io_guids: look_up("--io-guids", &self.io_guids, NodeKind::Host)?,
            compute_guids: look_up("--compute-guids", &self.compute_guids, NodeKind::Host)?,
        })
    }
}

impl LevelGuids {
    /// Puts them into the options of an engine.
    #[must_use]
    pub fn into_options(self, options: Options) -> Options {
        Options {
            roots: self.roots,
            io_guids: self.io_guids,
            compute_guids: self.compute_guids,
            ..options
        }
    }
}

fn look_up(graph: &Graph, kind: NodeKind, value: &str) -> Result<BTreeSet<Guid>, String> {
    let what = match kind {
        NodeKind::Switch => "switch",
        NodeKind::Host => "host",
    };
    let is_there = |found: Guid| has_guid(graph, kind, found);
    let path = Path::new(value);
    if path.is_file() {
        let guids = read(path)?;
        return match guids.iter().find(|&&guid| !is_there(guid)) {
            None => Ok(guids),
            Some(guid) => Err(format!(
                "{value}: the topology has no {what} {guid}; leave it out, or give the GUID of one that \
                 is there (ibemu topo prints them)"
            )),
        };
    }
    let one = |name: &str| {
        let named = graph.find(name).filter(|&id| graph.node(id).kind == kind);
        let by_name = named.map(|id| graph.node(id).guid);
        let found = by_name.or_else(|| guid(name).filter(|&guid| is_there(guid)));
        found.ok_or_else(|| {
            format!(
                "there is no file {value}, and the topology has no {what} {name:?}; give names or GUIDs \
                 with commas between, or a file with a GUID a line (ibemu topo prints them)"
            )
        })
    };
    value.split(',').map(str::trim).map(one).collect()
}

fn read(path: &Path) -> Result<BTreeSet<Guid>, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    if std::fs::metadata(path).map_err(cannot)?.len() > BYTES_MAX {
        return Err(format!(
            "{} is longer than {BYTES_MAX} bytes",
            path.display()
        ));
    }
    let bytes = std::fs::read(path).map_err(cannot)?;
    guid_list::read(&String::from_utf8_lossy(&bytes))
        .map_err(|error| format!("{}, {error}", path.display()))
}

/// Whether a node of that kind, or one of its ports with a cable, has that GUID.
fn has_guid(graph: &Graph, kind: NodeKind, guid: Guid) -> bool {
    let is_of = |node: NodeId| graph.node(node).kind == kind;
    let mut ports = graph.ids().filter(|&id| is_of(id)).flat_map(|node| {
        graph
            .cables(node)
            .map(move |(port, _)| Endpoint { node, port })
    });
    graph.find_guid(guid).is_some_and(is_of) || ports.any(|end| port_guid(graph, end) == guid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(roots: &str, io_guids: &str) -> Levels {
        Levels {
            roots: Some(roots.to_owned()),
            io_guids: Some(io_guids.to_owned()),
            compute_guids: None,
        }
    }

    fn computing(compute_guids: &str) -> Levels {
        Levels {
            compute_guids: Some(compute_guids.to_owned()),
            ..Levels::default()
        }
    }

    #[test]
    fn names_and_guids_are_looked_up_and_what_is_not_there_is_named() {
        let graph = topologies::parse("clos-2-2-2").unwrap().graph;
        let guid = |name: &str| graph.node(graph.find(name).unwrap()).guid;
        let port = Guid(guid("h1").0 + 1);
        let given = levels(&format!("spine0,{}", guid("spine1")), &format!("h0,{port}"));
        let found = given.guids(&graph).unwrap();
        let spines = ["spine0", "spine1"].map(guid);
        assert_eq!(found.roots, BTreeSet::from(spines));
        assert_eq!(found.io_guids, BTreeSet::from([guid("h0"), port]));
        assert_eq!(given.given(), Some("--roots"));
        for (given, option, problem) in [
            (levels("h0", "h1"), "--roots: ", "no switch \"h0\""),
            (levels("spine0", "h9"), "--io-guids: ", "no host \"h9\""),
            (levels("0x1", "h0"), "--roots: ", "no switch \"0x1\""),
            (
                computing("h0,spine0"),
                "--compute-guids: ",
                "no host \"spine0\"",
            ),
            (computing("h0,,h1"), "--compute-guids: ", "no host \"\""),
        ] {
            let error = given.guids(&graph).unwrap_err().to_string();
            assert!(
                error.starts_with(option) && error.contains(problem),
                "{error}"
            );
            assert!(error.contains("ibemu topo"), "{error}");
        }
    }

    #[test]
    fn a_file_is_read_and_its_lines_are_named() {
        let graph = topologies::parse("clos-2-2-2").unwrap().graph;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("roots");
        let text = path.to_str().unwrap();
        let spine = graph.node(graph.find("spine1").unwrap()).guid;
        std::fs::write(&path, format!("# top\n{spine} spine1\n")).unwrap();
        let found = levels(text, "h0").guids(&graph).unwrap();
        assert_eq!(found.roots, BTreeSet::from([spine]));
        std::fs::write(&path, format!("{spine}\nspine0\n")).unwrap();
        let error = levels(text, "h0").guids(&graph).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        // A host's GUID among switches.
        let host = graph.node(graph.find("h1").unwrap()).guid;
        std::fs::write(&path, format!("{spine}\n{host}\n")).unwrap();
        let error = levels(text, "h0").guids(&graph).unwrap_err().to_string();
        let told = format!("--roots: {text}: the topology has no switch {host}; ");
        assert!(error.starts_with(&told), "{error}");
    }
}
