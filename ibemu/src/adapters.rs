//! Which adapters are in one box, by their node descriptions.
//!
//! Drivers and `rdma-ndd` write the host's name and the adapter's (`%h %d`): `node07 HCA-1`, `node07 mlx5_0`,
//! `node07 ibp59s0`. Adapters of one host share a namespace and are told apart by their names. What an adapter is
//! called is the driver's family and a number, or what rdma-core's stable names make of it (`ib`, `opa`, `roce`, `iw`
//! or `rdma`, then the slot or the GUID). A site may give names of its own (`NAME_FIXED`): these
//! have to be told ([`AdapterNames`]), since `rack1 node2` is no adapter of `rack1`.

use serde::{Deserialize, Serialize};
use topologies::matches;

/// How the drivers' names of adapters begin; a number follows somewhere.
const FAMILIES: [&str; 14] = [
    "HCA-", "mlx", "mthca", "qib", "hfi", "ipath", "ibemu", "irdma", "ehca", "bnxt_re", "hns_",
    "cxgb", "efa_", "rxe",
];
/// How rdma-core's stable names begin, and what follows: a slot (`p` bus, `s` slot, `o` number on the board) or a
/// GUID (`x`).
const STABLE: [&str; 5] = ["ib", "opa", "roce", "iw", "rdma"];

/// An adapter in a box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapter {
    /// The host's name.
    pub host: String,
    /// What the adapter is called there.
    pub name: String,
}

/// The names that adapters have at a site beside those that drivers give: patterns with `*` and `?`.
#[derive(Clone, Copy, Debug)]
pub struct AdapterNames<'a>(pub &'a [String]);

impl AdapterNames<'_> {
    /// The adapter that a node description speaks of; `None` for a description of another form.
    #[must_use]
    pub fn adapter(self, description: &str) -> Option<Adapter> {
        let (host, name) = description.trim().split_once(' ')?;
        let is_adapter = is_drivers(name) || self.0.iter().any(|pattern| matches(pattern, name));
        (is_adapter && !host.is_empty() && !name.contains(' ')).then(|| Adapter {
            host: host.to_owned(),
            name: name.to_owned(),
        })
    }
}

fn is_drivers(name: &str) -> bool {
    let has_number = name.contains(|c: char| c.is_ascii_digit());
    let is_stable = |prefix: &&str| {
        let rest = name.strip_prefix(prefix).unwrap_or_default();
        let mut rest = rest.chars();
        let slot = rest.next().is_some_and(|c| "psox".contains(c));
        slot && rest.next().is_some_and(|c| c.is_ascii_hexdigit())
    };
    has_number
        && (FAMILIES.iter().any(|family| name.starts_with(family)) || STABLE.iter().any(is_stable))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(description: &str, names: &[&str]) -> Option<String> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let adapter = AdapterNames(&names).adapter(description)?;
        Some(format!("{} {}", adapter.host, adapter.name))
    }

    #[test]
    fn descriptions_of_drivers_tell_host_and_adapter() {
        for description in [
            "node07 HCA-1",
            "a08-p1-dgx mlx5_11",
            "stage114 mlx4_0",
            "gpu-3 ibp59s0f0",
            "gpu-3 ibo1",
            "gpu-3 ibxb8cef6030042c01a",
            "fat1 opap5s0",
            "n1 mlx5_ib0",
        ] {
            assert_eq!(told(description, &[]).as_deref(), Some(description));
        }
        for other in [
            "Mellanox Technologies Aggregation Node",
            "MF0;leaf:SX6036/U1",
            "node07",
            "my mlx",
            "rack1 node2",
            "site ibis2",
            "node07 mlx5_0 spare 1",
        ] {
            assert_eq!(told(other, &[]), None, "{other}");
        }
    }

    #[test]
    fn names_of_a_site_are_told() {
        let description = "node07 rail0";
        assert_eq!(told(description, &[]), None);
        for names in [&["rail?"][..], &["x", "rail*"]] {
            assert_eq!(told(description, names).as_deref(), Some(description));
        }
        assert_eq!(told("node07 storage", &["rail?"]), None);
        assert_eq!(told("rail0", &["rail?"]), None);
    }
}
