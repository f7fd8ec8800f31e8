//! A model that knows of no packets: it runs transfers when what they wait for is done, and keeps what each rank
//! has of each byte range.

use std::collections::BTreeSet;

use hostd::control::AWAITED_MAX;

use super::*;

fn size(ranks: usize, bytes: u64, iterations: u32) -> Size {
    Size {
        ranks,
        bytes,
        iterations,
        packet: 1000,
    }
}

/// In which round each transfer is done if each takes one round and begins as soon as it may.
fn rounds(all: &[Transfer]) -> Vec<u32> {
    let mut done: Vec<u32> = vec![0; all.len()];
    for round in 1.. {
        let may = |transfer: &Transfer| {
            let has_ended = |&at: &usize| (1..round).contains(&done[at]);
            transfer.after.iter().all(has_ended)
        };
        let ready = (0..all.len()).filter(|&at| done[at] == 0 && may(&all[at]));
        let ready: Vec<usize> = ready.collect();
        for &at in &ready {
            done[at] = round;
        }
        if done.iter().all(|&round| round > 0) {
            break;
        }
        assert!(!ready.is_empty(), "transfers wait for each other");
    }
    done
}

fn bytes_from(all: &[Transfer], rank: usize) -> u64 {
    let own = all.iter().filter(|transfer| transfer.from == rank);
    own.map(|transfer| transfer.bytes).sum()
}

/// That a transfer waits for what its sender can know of, and for no more than a host takes.
fn is_local(all: &[Transfer]) {
    for transfer in all {
        assert!(transfer.from != transfer.to && transfer.bytes > 0);
        assert!(transfer.after.len() <= AWAITED_MAX, "{transfer:?}");
        for &at in &transfer.after {
            let other = &all[at];
            let is_known = other.from == transfer.from || other.to == transfer.from;
            assert!(is_known, "{transfer:?} after {other:?}");
        }
    }
}

#[test]
fn a_ring_allreduce_takes_2_n_minus_2_steps_and_leaves_every_sum_with_every_rank() {
    for ranks in [2, 3, 4, 7, 16] {
        let bytes = 1_000_000;
        let all = Collective::RingAllreduce.transfers(size(ranks, bytes, 1));
        let all = all.expect("a ring");
        is_local(&all);
        let done = rounds(&all);
        let steps = 2 * (ranks - 1);
        assert_eq!(done.iter().max(), Some(&u32::try_from(steps).unwrap()));
        // Nobody can send less: each rank's share of all but one part, twice.
        let least = 2 * bytes * u64_of(ranks - 1) / u64_of(ranks);
        for rank in 0..ranks {
            assert!(bytes_from(&all, rank).abs_diff(least) <= u64_of(steps));
        }
        // Contributions to each chunk: every step carries the one that its bytes are of.
        let own = |rank| vec![BTreeSet::from([rank]); ranks];
        let mut held: Vec<Vec<BTreeSet<usize>>> = (0..ranks).map(own).collect();
        for (at, transfer) in all.iter().enumerate() {
            let step = at / ranks;
            let chunk = (transfer.from + 2 * ranks - step) % ranks;
            let sent = held[transfer.from][chunk].clone();
            assert_eq!(sent.len(), (step + 1).min(ranks), "what a step may send");
            held[transfer.to][chunk].extend(sent);
        }
        assert!(held.iter().flatten().all(|parts| parts.len() == ranks));
    }
}

#[test]
fn trees_reduce_and_broadcast_every_half_and_no_rank_is_within_both() {
    for ranks in 2..40 {
        let trees = [false, true].map(|second| Tree::new(second, ranks));
        for tree in &trees {
            assert_eq!(parents(tree).count(), ranks - 1);
            let depth = |rank: usize| {
                let up = std::iter::successors(Some(rank), |&at| tree.parents[at]);
                up.take(ranks + 1).count()
            };
            let levels = usize::try_from(ranks.ilog2()).unwrap() + 3;
            assert!((0..ranks).all(|rank| depth(rank) <= levels), "{ranks}");
        }
        let is_within = |tree: &Tree, rank: usize| tree.children[rank].len() == 2;
        let within_both = |&rank: &usize| trees.iter().all(|tree| is_within(tree, rank));
        assert_eq!((0..ranks).find(within_both), None, "{ranks}");

        let bytes = 64_000;
        let all = Collective::TreeAllreduce.transfers(size(ranks, bytes, 1));
        let all = all.expect("trees");
        is_local(&all);
        let done = rounds(&all);
        // Up before down: what a rank sends on is whole.
        let total: u64 = all.iter().map(|transfer| transfer.bytes).sum();
        assert_eq!(total, 2 * bytes * u64_of(ranks - 1));
        let of_one_piece = all.len() / (2 * PIECES);
        for (tree, piece) in trees
            .iter()
            .flat_map(|tree| (0..PIECES).map(move |p| (tree, p)))
        {
            let number = usize::from(std::ptr::eq(tree, &raw const trees[1]));
            let at = (number * PIECES + piece) * of_one_piece;
            let (up, down) = (at..at + ranks - 1, at + ranks - 1..at + of_one_piece);
            let mut held: Vec<BTreeSet<usize>> =
                (0..ranks).map(|rank| BTreeSet::from([rank])).collect();
            let mut in_time: Vec<usize> = up.chain(down).collect();
            in_time.sort_by_key(|&at| done[at]);
            for transfer in in_time.into_iter().map(|at| &all[at]) {
                let sent = held[transfer.from].clone();
                let is_down = tree.parents[transfer.to] == Some(transfer.from);
                assert!(!is_down || sent.len() == ranks, "{transfer:?}: {sent:?}");
                held[transfer.to].extend(sent);
            }
            assert!(held.iter().all(|parts| parts.len() == ranks), "{ranks}");
        }
    }
}

#[test]
fn an_alltoall_sends_each_pair_its_part_in_n_minus_1_steps() {
    for ranks in [2, 3, 8] {
        let bytes = 8_000;
        let all = Collective::Alltoall.transfers(size(ranks, bytes, 1));
        let all = all.expect("an alltoall");
        is_local(&all);
        let pairs: BTreeSet<_> = all.iter().map(|one| (one.from, one.to)).collect();
        assert_eq!((pairs.len(), all.len()), (ranks * (ranks - 1), pairs.len()));
        let last = rounds(&all).into_iter().max();
        assert_eq!(last, u32::try_from(ranks - 1).ok());
        for rank in 0..ranks {
            let own = part(bytes, rank, ranks);
            assert_eq!(bytes_from(&all, rank), bytes - own);
        }
    }
}

#[test]
fn an_iteration_begins_at_a_rank_when_the_one_before_has_ended_there() {
    for collective in Collective::ALL {
        let once = collective.transfers(size(5, 10_000, 1)).expect("one");
        let thrice = collective.transfers(size(5, 10_000, 3)).expect("three");
        assert_eq!(thrice.len(), 3 * once.len());
        is_local(&thrice);
        let longest = |all: &[Transfer]| rounds(all).into_iter().max().unwrap();
        let done = rounds(&thrice);
        for rank in 0..5 {
            // What ends at a rank is what it receives; what begins there is what it sends.
            let at = |iteration, is_own: fn(&Transfer) -> usize| {
                let all = thrice.iter().zip(&done);
                let own =
                    all.filter(move |(one, _)| one.iteration == iteration && is_own(one) == rank);
                own.map(|(_, &round)| round).collect::<Vec<_>>()
            };
            let ended = at(0, |one| one.to).into_iter().max().unwrap();
            let begun = at(1, |one| one.from).into_iter().min().unwrap();
            assert!(begun > ended, "{collective}: rank {rank}");
        }
        assert!(longest(&thrice) > 2 * longest(&once), "{collective}");
    }
}

#[test]
fn bandwidths_are_scaled_as_nccl_does() {
    let factor = |collective: Collective| collective.bus_factor(4);
    assert_eq!(factor(Collective::RingAllreduce), (6, 4));
    assert_eq!(factor(Collective::TreeAllreduce), (6, 4));
    assert_eq!(factor(Collective::Alltoall), (3, 4));
}

#[test]
fn what_cannot_be_is_refused() {
    let ring = Collective::RingAllreduce;
    let refused = |size| ring.transfers(size).expect_err("refused").to_string();
    assert_eq!(refused(size(1, 9, 1)), "1 hosts: a collective needs two");
    assert_eq!(
        refused(size(4, 3, 1)),
        "bytes 3: at least one for each of 4 ranks"
    );
    assert!(
        refused(size(16, 1 << 20, ITERATIONS_MAX)).contains("a rank would have 15360 transfers")
    );
    assert_eq!("ring".parse::<Collective>(), Err(()));
}
