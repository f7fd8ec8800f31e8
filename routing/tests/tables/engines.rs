//! Every engine on every kind of fabric, judged by the verifier.

use crate::support::{bytes, checked, fabric, shuffled};
use routing::Options;
use wire::Lmc;

fn lmc(lmc: u8) -> Options {
    Options {
        lmc: Some(Lmc::constant(lmc)),
        ..Options::default()
    }
}

const ANY: [&str; 13] = [
    "ring-6-2",
    "ring-2-1",
    "torus-4x4-1",
    "torus-3x5-2",
    "mesh-3x4-1",
    "hypercube-4-1",
    "star-7",
    "clos-4-4-2-2",
    "clos-3-2-5",
    "irregular-8-2-3-1",
    "irregular-16-8-8-3",
    "fat-tree-4-3",
    "fat-tree-6-3",
];

#[test]
fn engines_for_any_fabric_keep_their_promises_everywhere() {
    for name in ANY {
        let graph = fabric(name);
        for engine in ["updn", "minhop", "auto"] {
            checked(&graph, engine, &Options::default());
        }
        for engine in ["updn", "minhop"] {
            checked(&graph, engine, &lmc(2));
        }
    }
}

#[test]
fn engines_for_fat_trees_keep_their_promises_on_every_shape() {
    for name in [
        "fat-tree-2-1",
        "fat-tree-2-4",
        "fat-tree-4-1",
        "fat-tree-4-2",
        "fat-tree-4-3",
        "fat-tree-4-4",
        "fat-tree-8-2",
        "fat-tree-8-3",
        "fat-tree-16-2",
    ] {
        let graph = fabric(name);
        for engine in ["mlid", "slid"] {
            let tables = checked(&graph, engine, &Options::default());
            assert!(tables.promises.up_down && tables.promises.minimal);
            assert!(tables.promises.deadlock_free);
            assert!(tables.warnings.is_empty(), "{:?}", tables.warnings);
        }
    }
    checked(&fabric("fat-tree-6-3"), "slid", &Options::default());
    checked(&fabric("fat-tree-10-2"), "slid", &Options::default());
}

#[test]
fn tables_do_not_depend_on_the_order_of_nodes() {
    for name in ANY {
        let graph = fabric(name);
        for engine in ["auto", "updn", "minhop"] {
            let wanted = bytes(&graph, &checked(&graph, engine, &Options::default()));
            for seed in 0..5 {
                let other = shuffled(&graph, seed);
                let tables = checked(&other, engine, &Options::default());
                assert_eq!(bytes(&other, &tables), wanted, "{engine} on {name}");
            }
        }
    }
}
