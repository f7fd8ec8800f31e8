use proptest::prelude::*;

use super::*;

/// Hosts 0, 1, .. at leaves in blocks of `hosts`.
fn controller(leaves: usize, hosts: usize, trees: usize, mode: Mode) -> Controller {
    let leaf_of = (0..leaves * hosts).map(|host| host / hosts).collect();
    Controller::new(leaf_of, trees, mode).unwrap()
}

fn admitted(window: &Window) -> Vec<(usize, usize)> {
    window
        .admitted
        .iter()
        .map(|pair| (pair.source, pair.destination))
        .collect()
}

#[test]
fn two_sources_for_one_destination_wait_for_each_other_and_a_busy_source_for_itself() {
    let mut controller = controller(3, 2, 2, Mode::Rearrange);
    let window = controller.window(&[(0, 4), (1, 4), (0, 5)]).unwrap();
    assert_eq!(admitted(&window), [(0, 4)]);
    let waiting = |source, destination, reason| Deferred {
        source,
        destination,
        reason,
    };
    assert_eq!(
        window.deferred,
        [
            waiting(1, 4, Reason::DestinationBusy),
            waiting(0, 5, Reason::SourceBusy)
        ]
    );
    // Both come first in the next window, before a new request that is in their way.
    let window = controller.window(&[(2, 4)]).unwrap();
    assert_eq!(admitted(&window), [(0, 5), (1, 4)]);
    assert_eq!(window.deferred, [waiting(2, 4, Reason::DestinationBusy)]);
    let window = controller.window(&[]).unwrap();
    assert_eq!(admitted(&window), [(2, 4)]);
    assert_eq!(controller.window(&[]).unwrap(), Window::default());
}

#[test]
fn a_pair_that_goes_on_keeps_its_tree_unless_it_is_moved_and_a_move_is_told() {
    let mut controller = controller(3, 2, 2, Mode::Rearrange);
    controller.window(&[(0, 4), (4, 0), (5, 2)]).unwrap();
    let window = controller
        .window(&[(0, 4), (4, 0), (5, 2), (1, 3)])
        .unwrap();
    assert_eq!(window.admitted.len(), 4);
    assert_eq!(window.moved.len(), 1);
    let again = controller
        .window(&[(0, 4), (4, 0), (5, 2), (1, 3)])
        .unwrap();
    assert_eq!(again.admitted, window.admitted);
    assert!(again.moved.is_empty());
}

#[test]
fn connections_within_a_leaf_take_no_tree() {
    let mut controller = controller(2, 4, 1, Mode::Rearrange);
    let window = controller
        .window(&[(0, 1), (1, 2), (2, 0), (3, 4)])
        .unwrap();
    assert_eq!(window.admitted.len(), 4);
    assert!(window.deferred.is_empty());
}

#[test]
fn with_fewer_trees_than_hosts_requests_are_blocked_and_served_later() {
    let mut controller = controller(2, 3, 2, Mode::Rearrange);
    let window = controller.window(&[(0, 3), (1, 4), (2, 5)]).unwrap();
    assert_eq!(admitted(&window), [(0, 3), (1, 4)]);
    assert_eq!(window.deferred[0].reason, Reason::Blocked);
    assert_eq!(admitted(&controller.window(&[]).unwrap()), [(2, 5)]);
}

#[test]
fn strict_operation_needs_two_n_less_one_trees() {
    let leaf_of = vec![0, 0, 0, 1, 1, 1];
    assert_eq!(
        Controller::new(leaf_of.clone(), 4, Mode::Strict).unwrap_err(),
        ControlError::TooFewTrees {
            trees: 4,
            hosts: 3,
            needed: 5
        }
    );
    assert!(Controller::new(leaf_of.clone(), 5, Mode::Strict).is_ok());
    assert_eq!(
        Controller::new(leaf_of, 0, Mode::Rearrange).unwrap_err(),
        ControlError::NoTree
    );
}

#[test]
fn a_window_with_a_senseless_request_changes_nothing() {
    let mut controller = controller(2, 2, 2, Mode::Rearrange);
    let before = controller.window(&[(0, 2)]).unwrap();
    assert_eq!(
        controller.window(&[(1, 3), (0, 9)]),
        Err(ControlError::NoSuchHost { host: 9, hosts: 4 })
    );
    assert_eq!(controller.window(&[(1, 1)]), Err(ControlError::ToItself(1)));
    assert_eq!(controller.window(&[(0, 2)]).unwrap(), before);
}

#[test]
fn more_waiting_requests_than_allowed_are_refused_as_a_whole() {
    let mut controller = controller(40, 1, 1, Mode::Rearrange);
    let flood: Vec<(usize, usize)> = (0..40)
        .flat_map(|source| (0..40).map(move |to| (source, to)))
        .filter(|(source, to)| source != to)
        .collect();
    assert!(matches!(
        controller.window(&flood),
        Err(ControlError::TooManyWaiting {
            waiting_max: 640,
            ..
        })
    ));
    assert!(controller.waiting().is_empty());
}

/// No link carries two connections: no tree twice from a leaf, nor twice to one.
fn assert_apart(controller: &Controller, window: &Window) -> Result<(), TestCaseError> {
    let (mut up, mut down) = (BTreeSet::new(), BTreeSet::new());
    let (mut sources, mut destinations) = (BTreeSet::new(), BTreeSet::new());
    for pair in &window.admitted {
        prop_assert!(sources.insert(pair.source));
        prop_assert!(destinations.insert(pair.destination));
        let (from, to) = (
            controller.leaf_of[pair.source],
            controller.leaf_of[pair.destination],
        );
        if from != to {
            prop_assert!(up.insert((from, pair.tree)));
            prop_assert!(down.insert((to, pair.tree)));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn permutations_are_admitted_whole_and_no_link_is_shared(
        leaves in 2usize..6, hosts in 1usize..5, extra in 0usize..2, strict: bool,
        windows in prop::collection::vec((any::<u64>(), 0.0f64..1.0), 1..6),
    ) {
        use rand::{RngExt, SeedableRng, seq::SliceRandom};
        let (trees, mode) = if strict {
            (2 * hosts - 1 + extra, Mode::Strict)
        } else {
            (hosts + extra, Mode::Rearrange)
        };
        let mut controller = controller(leaves, hosts, trees, mode);
        let mut last: Vec<(usize, usize)> = Vec::new();
        let mut trees_before: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (seed, keep) in windows {
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            // Some pairs go on; the rest of the hosts are matched anew.
            last.retain(|_| random.random_bool(keep));
            let (sources, destinations): (BTreeSet<_>, BTreeSet<_>) = last.iter().copied().unzip();
            let free = |taken: &BTreeSet<usize>| -> Vec<usize> {
                (0..leaves * hosts).filter(|host| !taken.contains(host)).collect()
            };
            let mut to = free(&destinations);
            to.shuffle(&mut random);
            last.extend(free(&sources).into_iter().zip(to).filter(|(a, b)| a != b));
            let window = controller.window(&last).unwrap();
            prop_assert!(window.deferred.is_empty(), "{:?}", window.deferred);
            prop_assert_eq!(window.admitted.len(), last.len());
            assert_apart(&controller, &window)?;
            if mode == Mode::Strict {
                prop_assert!(window.moved.is_empty());
            }
            for pair in &window.admitted {
                let key = (pair.source, pair.destination);
                let listed = window.moved.iter().any(|moved| (moved.source, moved.destination) == key);
                let differs = trees_before.get(&key).is_some_and(|&tree| tree != pair.tree);
                prop_assert_eq!(listed, differs);
            }
            trees_before = window
                .admitted
                .iter()
                .map(|pair| ((pair.source, pair.destination), pair.tree))
                .collect();
        }
    }

    #[test]
    fn whatever_is_asked_every_request_is_served_in_the_end_and_none_shares_a_link(
        hosts in 1usize..4, trees in 1usize..4,
        requests in prop::collection::vec((0usize..12, 0usize..12), 0..40),
    ) {
        let mut controller = controller(4, hosts, trees, Mode::Rearrange);
        let count = 4 * hosts;
        let requests: Vec<(usize, usize)> = requests
            .into_iter()
            .map(|(a, b)| (a % count, b % count))
            .filter(|(a, b)| a != b)
            .collect();
        let requested: BTreeSet<(usize, usize)> = requests.iter().copied().collect();
        let mut served = BTreeSet::new();
        let mut window = controller.window(&requests).unwrap();
        for _ in 0..=requests.len() {
            assert_apart(&controller, &window)?;
            served.extend(admitted(&window));
            if window.deferred.is_empty() {
                break;
            }
            window = controller.window(&[]).unwrap();
        }
        prop_assert_eq!(served, requested);
    }
}
