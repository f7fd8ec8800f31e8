//! Dividing destination switches into parts, one for each layer.
//!
//! Where a layer has the packets between its part and that part and all later ones, both ways, parts are of
//! such sizes that all layers have equally many pairs of LIDs: of 1,000 switches in four layers 134, 159,
//! 207 and 500. Where it has those to its part they are of equal size. Destinations are put in the order in
//! which a breadth-first search from the rim of the fabric meets them, and the order is cut, so that parts
//! hang together. (The paper takes METIS.)

use wire::convert::{real, u64_of};

use super::paths::Division;
use crate::network::Network;

/// The destinations of each part: `parts` of them, none empty, or as many as there are
/// destinations. `sizes` is how many LIDs a switch delivers to.
pub(super) fn partition(
    network: &Network,
    destinations: &[usize],
    sizes: &[u64],
    parts: usize,
    division: Division,
) -> Vec<Vec<usize>> {
    if destinations.is_empty() {
        return vec![Vec::new()];
    }
    let parts = parts.clamp(1, destinations.len());
    let mut order = destinations.to_vec();
    from_the_rim(network, &mut order);
    let total: u64 = order.iter().map(|&switch| sizes[switch]).sum();
    let mut divided = Vec::with_capacity(parts);
    let (mut cut, mut sum) = (0, 0);
    for part in 1..=parts {
        let begin = cut;
        let left = real(u64_of(parts - part)) / real(u64_of(parts));
        let wanted = match division {
            // Pairs grow with the square of what is left for later parts.
            Division::Pairs => real(total) * (1.0 - left.sqrt()),
            Division::Destinations | Division::Afterwards => real(total) * (1.0 - left),
        };
        // One for each later part.
        let end_max = order.len() - (parts - part);
        while cut < end_max && (cut == begin || real(2 * sum + sizes[order[cut]]) <= 2.0 * wanted) {
            sum += sizes[order[cut]];
            cut += 1;
        }
        divided.push(order[begin..cut].to_vec());
    }
    if let Some(last) = divided.last_mut() {
        last.extend(&order[cut..]);
    }
    for members in &mut divided {
        members.sort_unstable();
    }
    divided
}

/// Sorts switches by their distance from the one that is farthest from the first.
fn from_the_rim(network: &Network, members: &mut [usize]) {
    let first = members.iter().min().copied().unwrap_or(0);
    let far = |start: usize| {
        let hops = network.hops_to(start);
        move |&switch: &usize| (network.component(switch), hops[switch], switch)
    };
    let rim = members.iter().copied().max_by_key(far(first));
    members.sort_by_key(far(rim.unwrap_or(first)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::graph;

    #[test]
    fn parts_of_a_row_are_neighbours_and_of_equal_size() {
        let network = Network::new(&graph("mesh-8x1-2"));
        let all: Vec<usize> = (0..8).collect();
        let parts = partition(&network, &all, &[2; 8], 4, Division::Destinations);
        assert_eq!(parts.len(), 4);
        for part in &parts {
            let hops = network.hops_to(part[0]);
            assert_eq!((part.len(), hops[part[1]]), (2, Some(1)), "{parts:?}");
        }
    }

    #[test]
    fn parts_for_pairs_have_equally_many_with_all_later_ones() {
        let network = Network::new(&graph("mesh-20x1-1"));
        let all: Vec<usize> = (0..20).collect();
        let parts = partition(&network, &all, &[1; 20], 4, Division::Pairs);
        let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
        assert_eq!(sizes, [3, 3, 4, 10]);
        assert_eq!(
            partition(&network, &all[..3], &[1; 20], 8, Division::Pairs).len(),
            3
        );
        assert_eq!(
            partition(&network, &[], &[1; 20], 8, Division::Pairs),
            [Vec::<usize>::new()]
        );
    }

    #[test]
    fn parts_have_equal_shares_of_lids_and_are_never_empty() {
        let network = Network::new(&graph("mesh-6x1-1"));
        let all: Vec<usize> = (0..6).collect();
        let parts = partition(
            &network,
            &all,
            &[100, 1, 1, 1, 1, 1],
            3,
            Division::Destinations,
        );
        assert!(parts.iter().all(|part| !part.is_empty()), "{parts:?}");
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 6);
        assert_eq!(
            partition(&network, &all[..2], &[1; 6], 8, Division::Destinations).len(),
            2
        );
        assert_eq!(
            partition(&network, &[], &[1; 6], 8, Division::Destinations),
            [Vec::<usize>::new()]
        );
    }
}
