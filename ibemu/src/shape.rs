//! What a fabric is recognised to be built of, in lines.

use routing::Tiers;
use routing::network::Network;
use routing::structure::Structure;
use topologies::Graph;

/// Levels and planes of a tree, director switches and groups, as far as there are any.
#[must_use]
pub(crate) fn lines(graph: &Graph) -> Vec<String> {
    let network = Network::new(graph);
    let tiers = Tiers::of(&network).map(|tiers| format!("structure: {tiers}"));
    let structure = Structure::of(graph, &network);
    let structure = (!structure.is_plain()).then(|| format!("structure: {structure}"));
    structure.into_iter().chain(tiers).collect()
}
