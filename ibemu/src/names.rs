//! Names that become names of the operating system: of fabrics, and of the files and namespaces of
//! their nodes.
//!
//! A node is called what the topology calls it, which may be anything that fits a node description
//! (`MF0;sw-1:SX6036/U1`). Its *handle* is that name made fit for a file: unique within the fabric,
//! without slash or blank, and the same each time the same topology is read.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest fabric name, bytes.
pub const FABRIC_NAME_MAX: usize = 32;
/// The longest handle of a node, bytes: socket paths and abstract socket names end at 108.
pub const HANDLE_MAX: usize = 40;
/// Handle of the fabric's supervisor.
pub const SUPERVISOR: &str = "supervisor";
/// Handles of the fabric's controllers, in the order of `--sm-node`.
pub const CONTROLLERS: [&str; 8] = [
    "controller",
    "controller2",
    "controller3",
    "controller4",
    "controller5",
    "controller6",
    "controller7",
    "controller8",
];

/// Handles that belong to the fabric's own processes.
fn own_handles() -> impl Iterator<Item = &'static str> {
    CONTROLLERS.into_iter().chain([SUPERVISOR])
}

/// The name of a fabric: 1 to 32 of `a`-`z`, `0`-`9` and `-`, not beginning with `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FabricName(String);

/// A name that no fabric can have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} cannot name a fabric: use 1 to 32 of a-z, 0-9 and '-', not beginning with '-'")]
pub struct BadFabricName(pub String);

impl FabricName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The network namespace of the node with this handle.
    #[must_use]
    pub fn namespace(&self, handle: &str) -> String {
        format!("{}.{handle}", self.0)
    }

    /// The alias that marks the fabric's interfaces.
    #[must_use]
    pub fn label(&self) -> String {
        format!("ibemu:{}", self.0)
    }
}

impl FromStr for FabricName {
    type Err = BadFabricName;

    fn from_str(text: &str) -> Result<Self, BadFabricName> {
        let fits = (1..=FABRIC_NAME_MAX).contains(&text.len())
            && !text.starts_with('-')
            && text
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadFabricName(text.to_owned()))
        }
    }
}

impl TryFrom<String> for FabricName {
    type Error = BadFabricName;
    fn try_from(text: String) -> Result<Self, BadFabricName> {
        text.parse()
    }
}

impl From<FabricName> for String {
    fn from(name: FabricName) -> Self {
        name.0
    }
}

impl fmt::Display for FabricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Gives every node name a handle, in order. A name that fits stays as it is.
#[must_use]
pub fn handles<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken: BTreeSet<String> = own_handles().map(str::to_owned).collect();
    names
        .into_iter()
        .map(|name| {
            let stem = stem(name);
            let handle = (1u64..)
                .map(|attempt| numbered(&stem, attempt))
                .find(|handle| !taken.contains(handle))
                .unwrap_or(stem);
            taken.insert(handle.clone());
            handle
        })
        .collect()
}

/// The name of a host that is no handle yet, made fit for a namespace.
#[must_use]
pub fn host_handle<'a>(host: &str, mut handles: impl Iterator<Item = &'a str>) -> Option<String> {
    let stem = stem(host);
    (!handles.any(|handle| handle == stem) && !own_handles().any(|own| own == stem)).then_some(stem)
}

/// The name without what no file name should hold, cut to length.
fn stem(name: &str) -> String {
    let mut stem: String = name
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' => c,
            _ => '_',
        })
        .take(HANDLE_MAX)
        .collect();
    if stem.is_empty() || stem.starts_with(['.', '-']) {
        stem.insert(0, '_');
        stem.truncate(HANDLE_MAX);
    }
    stem
}

/// The stem, from the second attempt on with a number behind it.
fn numbered(stem: &str, attempt: u64) -> String {
    if attempt == 1 {
        return stem.to_owned();
    }
    let suffix = format!("_{attempt}");
    let room = HANDLE_MAX - suffix.len();
    format!("{}{suffix}", &stem[..stem.len().min(room)])
}

/// A port as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortName {
    /// The node.
    pub node: String,
    /// Its port, 1..=254.
    pub port: u8,
}

/// A text that names no port.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} names no port: write NODE:PORT with a port from 1 to 254, as in s0.0.0:1")]
pub struct BadPortName(pub String);

impl FromStr for PortName {
    type Err = BadPortName;

    fn from_str(text: &str) -> Result<Self, BadPortName> {
        let bad = || BadPortName(text.to_owned());
        // Node names may hold colons themselves: the last one counts.
        let (node, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let port: u8 = port.parse().map_err(|_| bad())?;
        if node.is_empty() || !(1..=254).contains(&port) {
            return Err(bad());
        }
        Ok(Self {
            node: node.to_owned(),
            port,
        })
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fabric_name_is_lower_case_digits_and_dashes() {
        for good in ["ib", "a", "0", "t123-4", &"x".repeat(32)] {
            assert_eq!(good.parse::<FabricName>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "-a",
            "A",
            "a.b",
            "a/b",
            "a b",
            "..",
            "ä",
            &"x".repeat(33),
        ] {
            assert_eq!(bad.parse::<FabricName>(), Err(BadFabricName(bad.into())));
        }
    }

    #[test]
    fn names_that_fit_stay_as_they_are() {
        assert_eq!(
            handles(["h0.0.1", "s2.0.1", "leaf3"]),
            ["h0.0.1", "s2.0.1", "leaf3"]
        );
    }

    #[test]
    fn names_that_do_not_fit_get_handles_that_are_apart() {
        let long = "n".repeat(64);
        let got = handles([
            "MF0;sw-1:SX/U1",
            "MF0;sw-1:SX/U2",
            "a b",
            "a_b",
            "a/b",
            "controller",
            "..",
            "",
            &long,
            &long,
        ]);
        assert_eq!(
            got[..8],
            [
                "MF0_sw-1_SX_U1",
                "MF0_sw-1_SX_U2",
                "a_b",
                "a_b_2",
                "a_b_3",
                "controller_2",
                "_..",
                "_"
            ]
        );
        assert!(got.iter().all(|handle| handle.len() <= HANDLE_MAX));
        let distinct: BTreeSet<&String> = got.iter().collect();
        assert_eq!(distinct.len(), got.len());
    }

    #[test]
    fn a_host_that_is_no_handle_yet_names_its_namespace() {
        assert_eq!(host_handle("n 1", ["a"].into_iter()), Some("n_1".into()));
        assert_eq!(host_handle("a", ["a"].into_iter()), None);
    }

    #[test]
    fn a_port_is_a_node_and_a_number_behind_the_last_colon() {
        let port: PortName = "MF0;sw:x:12".parse().unwrap();
        assert_eq!((port.node.as_str(), port.port), ("MF0;sw:x", 12));
        for bad in ["s0", "s0:", ":1", "s0:0", "s0:255", "s0:x", "s0:1:"] {
            assert!(bad.parse::<PortName>().is_err(), "{bad}");
        }
    }
}
