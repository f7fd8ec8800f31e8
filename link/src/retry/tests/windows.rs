//! How much is under way.

use super::*;

fn under_way(one: &mut End, now: Time) -> Vec<Datagram> {
    std::iter::from_fn(|| one.next(now, 1400)).collect()
}

#[test]
fn the_window_grows_without_losses_and_falls_with_them() {
    let [mut one, mut other] = pair();
    let mut sizes = Vec::new();
    for turn in 0..12 {
        while one.write(&record(&[5; 1000])) {}
        let mut sent = under_way(&mut one, NOW);
        sizes.push(sent.len());
        if turn == 9 {
            sent.remove(3);
        }
        for datagram in &sent {
            other.take(NOW, datagram);
        }
        let answer = other.next(NOW + ACKNOWLEDGE_NS, 1400).unwrap();
        assert_eq!(answer.heading.nak, turn == 9);
        one.take(NOW, &answer);
        if turn == 9 {
            for datagram in under_way(&mut one, NOW) {
                other.take(NOW, &datagram);
            }
            let answer = other.next(NOW + ACKNOWLEDGE_NS, 1400).unwrap();
            one.take(NOW, &answer);
        }
    }
    assert!(sizes[1] > sizes[0] && sizes[4] > 2 * sizes[0], "{sizes:?}");
    assert!(sizes[10] < sizes[9], "{sizes:?}");
    assert!(sizes[11] > sizes[10], "{sizes:?}");
}
