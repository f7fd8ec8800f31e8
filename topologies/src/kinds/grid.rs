//! The cables of meshes, tori and rings.

use wire::convert::{u64_of, usize_of};

use super::Generator;
use super::wiring::Wiring;
use crate::error::{NODES_MAX, SWITCH_PORTS_MAX, TopologyError};
use crate::graph::Graph;

/// More dimensions than this are taken for a typing error.
const DIMENSIONS_MAX: u64 = 8;

/// A mesh with so many switches along each dimension and so many hosts at each switch; with `wrap` a
/// torus, in which a dimension of two switches has two cables between them.
pub(super) fn graph(
    topology: &impl Generator,
    sizes: &[u64],
    hosts: u64,
    wrap: bool,
) -> Result<Graph, TopologyError> {
    let dimensions = u64_of(sizes.len());
    topology.check_range("the number of dimensions", dimensions, 1, DIMENSIONS_MAX)?;
    for &size in sizes {
        topology.check_range("the size of a dimension", size, 1, NODES_MAX)?;
    }
    topology.check_range("HOSTS", hosts, 1, SWITCH_PORTS_MAX)?;
    let cables: u64 = sizes.iter().map(|&size| (size - 1).min(2)).sum();
    topology.check_ports("a switch", hosts + cables)?;
    let switches = sizes
        .iter()
        .fold(1_u64, |product, &size| product.saturating_mul(size));
    let mut wiring = Wiring::new(topology, switches, hosts)?;
    // The last dimension varies fastest: s0, s1 .. along it.
    let mut stride = 1;
    for &size in sizes.iter().rev() {
        let size = usize_of(size);
        for switch in 0..wiring.switches() {
            let place = switch / stride % size;
            if place + 1 < size {
                wiring.connect(switch, switch + stride, 1);
            } else if wrap && size > 1 {
                wiring.connect(switch, switch - place * stride, 1);
            }
        }
        stride *= size;
    }
    wiring.graph()
}
