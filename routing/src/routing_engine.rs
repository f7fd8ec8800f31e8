//! The routing engines by name. What computes their tables is listed in [`crate::engines`].

use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// The choice of a routing engine.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    EnumMessage,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum RoutingEngine {
    /// mlid (or slid) on a fat tree, elsewhere the best that is free of deadlock, as measured
    #[default]
    Auto,
    /// fat trees: a LID for each path between two hosts (MLID04)
    Mlid,
    /// fat trees: one LID a host, destinations spread over the paths (MLID04)
    Slid,
    /// trees of levels, however pruned, uneven or partly populated: a way down for each LID
    Ftree,
    /// any fabric: shortest paths up and then down a tree order; free of deadlock, balanced
    Updn,
    /// any fabric: shortest paths, balanced; may deadlock
    Minhop,
    /// any fabric: balanced shortest paths, free of deadlock by VLs, mostly several (Domke 2011)
    Dfsssp,
    /// any fabric: balanced paths, free of deadlock with any number of VLs (Domke 2016)
    Nue,
    /// any fabric: shortest paths, free of deadlock by VLs, one service level both ways (Skeie 2002)
    Lash,
    /// meshes, tori, rings, hypercubes: dimension by dimension; two VLs for rings of five or more
    Dor,
    /// tori with failed cables or switches: as dor, around the damage; up to four VLs
    #[strum(serialize = "torus-2qos")]
    Torus2Qos,
    /// leaf and spine fabrics: a LID for each spine and parallel cable (CLOS04)
    Clos,
    /// any fabric: balanced up*/down* paths for each pair, as few LIDs as that takes (LID07)
    PathSelection,
    /// any fabric: least loaded shortest up*/down* path for each pair (LID07)
    ShortestWidest,
    /// as shortest-widest, with a new LID whenever a path conflicts (LID07, to compare)
    Renaming,
    /// any fabric: one up*/down* tree for each host, one LID (LID07, to compare)
    FullyExplicit,
    /// any fabric: given tables, in the text of dump_fts
    File,
}

wire::choice!(RoutingEngine, "routing engine");
