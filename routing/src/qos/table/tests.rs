use proptest::prelude::*;

use super::*;

fn vl(number: u8) -> Vl {
    Vl::constant(number)
}

/// The most slots that other VLs may send between two turns of a VL: with every VL backlogged, its
/// longest wait in units of 64 bytes. `None` if it has no entry.
fn wait_max(table: &Table, number: u8) -> Option<u32> {
    let (first, _) = *weights(table, number).first()?;
    let (mut longest, mut wait) = (0, 0);
    for step in 1..=ENTRIES {
        let entry = table.entries()[(first + step) % ENTRIES];
        if entry.weight > 0 && entry.vl == vl(number) {
            longest = longest.max(wait);
            wait = 0;
        } else {
            wait += u32::from(entry.weight);
        }
    }
    Some(longest)
}

fn weights(table: &Table, number: u8) -> Vec<(usize, u8)> {
    (0..ENTRIES)
        .filter(|&at| table.entries()[at].weight > 0 && table.entries()[at].vl == vl(number))
        .map(|at| (at, table.entries()[at].weight))
        .collect()
}

#[test]
fn connections_of_one_vl_fill_an_entry_before_the_next_is_begun() {
    let mut table = Table::new(Layout::Contiguous);
    table.add(vl(1), 100).unwrap();
    table.add(vl(2), 7).unwrap();
    table.add(vl(1), 200).unwrap();
    assert_eq!(weights(&table, 1), [(0, 255), (2, 45)]);
    assert_eq!(weights(&table, 2), [(1, 7)]);
    assert_eq!(table.free(), 61);
}

#[test]
fn releasing_one_vl_leaves_the_entries_of_others_where_they_are() {
    let mut table = Table::new(Layout::Interleaved);
    table.add(vl(1), 600).unwrap();
    table.add(vl(2), 700).unwrap();
    let before = weights(&table, 2);
    table.remove(vl(1), 400);
    assert_eq!(weights(&table, 2), before);
    assert_eq!(table.slots(vl(1)), 200);
    table.remove(vl(1), 5000);
    assert_eq!(table.slots(vl(1)), 0);
    assert_eq!(table.free(), 61);
}

#[test]
fn a_refused_addition_changes_nothing() {
    let mut table = Table::new(Layout::Contiguous);
    table.add(vl(0), 62 * 255).unwrap();
    let before = table.clone();
    assert_eq!(table.add(vl(1), 511), Err(NoEntries { wanted: 3, free: 2 }));
    assert_eq!(table, before);
}

#[test]
fn interleaving_spreads_a_vl_evenly_and_shortens_its_longest_wait() {
    let fill = |layout| {
        let mut table = Table::new(layout);
        table.add(vl(0), 4 * 255).unwrap();
        table.add(vl(1), 28 * 255).unwrap();
        table.add(vl(2), 32 * 255).unwrap();
        table
    };
    let grouped = fill(Layout::Contiguous);
    let spread = fill(Layout::Interleaved);
    assert_eq!(wait_max(&grouped, 0), Some(60 * 255));
    assert_eq!(wait_max(&spread, 0), Some(15 * 255));
    let at: Vec<usize> = weights(&spread, 0).iter().map(|&(at, _)| at).collect();
    assert_eq!(at, [0, 16, 32, 48]);
}

#[test]
fn a_vl_without_entries_never_gets_a_turn() {
    assert_eq!(wait_max(&Table::new(Layout::Contiguous), 3), None);
}

proptest! {
    #[test]
    fn whatever_is_added_and_removed_slots_are_accounted_and_one_entry_a_vl_is_partial(
        interleaved: bool,
        steps in prop::collection::vec((0u8..6, 1u32..1500, prop::bool::weighted(0.4)), 1..60),
    ) {
        let layout = if interleaved { Layout::Interleaved } else { Layout::Contiguous };
        let mut table = Table::new(layout);
        let mut owned = [0u32; 6];
        for (number, slots, release) in steps {
            let have = &mut owned[usize::from(number)];
            if release {
                table.remove(vl(number), slots);
                *have = have.saturating_sub(slots);
            } else {
                let (wanted, free) = (table.wanted(vl(number), slots), table.free());
                prop_assert_eq!(table.add(vl(number), slots).is_ok(), wanted <= free);
                if wanted <= free {
                    *have += slots;
                    prop_assert_eq!(table.free(), free - wanted);
                }
            }
            for number in 0..6u8 {
                let entries = weights(&table, number);
                prop_assert_eq!(table.slots(vl(number)), owned[usize::from(number)]);
                prop_assert!(entries.iter().filter(|&&(_, weight)| weight < 255).count() <= 1);
            }
        }
    }
}
