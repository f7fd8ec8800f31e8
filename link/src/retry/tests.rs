//! Two ends and a channel between them that does what a network may do.

mod exhaustive;
mod random;
mod windows;

use super::*;

/// A datagram on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Datagram {
    heading: Heading,
    payload: Vec<u8>,
}

/// One end, and what its port has sent and received.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    retry: Retry,
    received: Vec<u8>,
}

impl End {
    fn new(limits: Limits) -> Self {
        Self {
            retry: Retry::new(limits),
            received: Vec::new(),
        }
    }

    /// Whether there was room for the record.
    fn write(&mut self, record: &[u8]) -> bool {
        let Some(room) = self.retry.room() else {
            return false;
        };
        room[..record.len()].copy_from_slice(record);
        self.retry.commit(record.len());
        true
    }

    fn next(&mut self, now: Time, payload_max: usize) -> Option<Datagram> {
        self.retry.next(now, payload_max).map(|segment| Datagram {
            heading: segment.heading,
            payload: segment.payload.to_vec(),
        })
    }

    fn take(&mut self, now: Time, datagram: &Datagram) -> Arrival {
        let Datagram { heading, payload } = datagram;
        let arrival = self.retry.take(now, heading, payload.len());
        if let Arrival::Next { skip } = arrival {
            self.received.extend_from_slice(&payload[skip..]);
        }
        arrival
    }
}

/// A record of that content.
fn record(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    let mut record = vec![1, 0];
    record.extend_from_slice(&length.to_be_bytes());
    record.extend_from_slice(content);
    record
}

/// Two ends that have spoken to each other.
fn pair() -> [End; 2] {
    let mut ends = [0, 1].map(|_| End::new(Limits::default()));
    let now = Time(1);
    ends[0].write(&record(b"hello"));
    let hello = ends[0].next(now, 1000).unwrap();
    ends[1].take(now, &hello);
    let later = now + ACKNOWLEDGE_NS;
    let answer = ends[1].next(later, 1000).unwrap();
    ends[0].take(later, &answer);
    assert_eq!(ends[0].retry.unacknowledged_bytes(), 0);
    ends[1].received.clear();
    ends
}

const NOW: Time = Time(1_000_000_000);

#[test]
fn records_straddle_datagrams_and_each_says_where_the_first_one_begins() {
    let [mut one, mut other] = pair();
    let records: Vec<u8> = (0..6).flat_map(|n| record(&[n; 20])).collect();
    for n in 0..6 {
        assert!(one.write(&record(&[n; 20])));
    }
    let mut firsts = Vec::new();
    while let Some(datagram) = one.next(NOW, 50) {
        firsts.push((datagram.payload.len(), datagram.heading.first_record));
        assert_eq!(other.take(NOW, &datagram), Arrival::Next { skip: 0 });
    }
    assert_eq!(
        firsts,
        [(50, Some(0)), (50, Some(22)), (44, Some(20))],
        "records of 24 bytes begin at 0, 24, 48, 72, 96, 120"
    );
    assert_eq!(other.received, records);
}

#[test]
fn a_payload_in_which_no_record_begins_says_so() {
    let mut one = End::new(Limits::default());
    one.write(&record(&[7; 96]));
    one.write(&record(&[8; 3]));
    let firsts: Vec<_> = std::iter::from_fn(|| one.next(NOW, 40))
        .map(|datagram| datagram.heading.first_record)
        .collect();
    assert_eq!(firsts, [Some(0), None, Some(20)]);
}

#[test]
fn a_gap_is_told_once_a_round_and_everything_from_it_on_comes_again() {
    let [mut one, mut other] = pair();
    for n in 0..5 {
        one.write(&record(&[n; 6]));
    }
    let sent: Vec<_> = std::iter::from_fn(|| one.next(NOW, 10)).collect();
    assert_eq!(sent.len(), 5);
    other.take(NOW, &sent[0]);
    for late in &sent[2..] {
        assert_eq!(other.take(NOW, late), Arrival::Gap);
    }
    let nak = other.next(NOW, 10).unwrap();
    assert!(nak.heading.nak);
    assert!(other.next(NOW, 10).is_none(), "one NAK for three gaps");
    one.take(NOW, &nak);
    let again: Vec<_> = std::iter::from_fn(|| one.next(NOW, 10)).collect();
    assert_eq!(again.len(), 4, "from the gap on");
    assert_eq!(again[0].payload, sent[1].payload);
    assert_ne!(again[0].heading.round, sent[1].heading.round);
    // The repetition is lost, too: the new round's gap is told.
    assert_eq!(other.take(NOW, &again[1]), Arrival::Gap);
    assert!(other.next(NOW, 10).unwrap().heading.nak);
    for datagram in &again {
        other.take(NOW, datagram);
    }
    assert_eq!(other.received.len(), 50);
}

#[test]
fn a_nak_of_an_earlier_round_changes_nothing() {
    let [mut one, mut other] = pair();
    for n in 0..3 {
        one.write(&record(&[n; 6]));
    }
    let sent: Vec<_> = std::iter::from_fn(|| one.next(NOW, 10)).collect();
    other.take(NOW, &sent[1]);
    let nak = other.next(NOW, 10).unwrap();
    one.take(NOW, &nak);
    assert_eq!(std::iter::from_fn(|| one.next(NOW, 10)).count(), 3);
    one.take(NOW, &nak);
    assert_eq!(one.next(NOW, 10), None, "it has gone back already");
}

#[test]
fn what_is_cut_shorter_when_it_is_repeated_still_fits_together() {
    let [mut one, mut other] = pair();
    let text: Vec<u8> = (0..10).flat_map(|n| record(&[n; 21])).collect();
    for n in 0..10 {
        one.write(&record(&[n; 21]));
    }
    let first = one.next(NOW, 70).unwrap();
    other.take(NOW, &first);
    while one.next(NOW, 70).is_some() {}
    one.retry.rewind();
    let mut skips = Vec::new();
    while let Some(datagram) = one.next(NOW, 33) {
        skips.push(other.take(NOW, &datagram));
    }
    assert_eq!(
        skips[..4],
        [
            Arrival::Duplicate,
            Arrival::Duplicate,
            Arrival::Next { skip: 4 },
            Arrival::Next { skip: 0 }
        ]
    );
    assert_eq!(other.received, text);
}

#[test]
fn a_heading_that_no_honest_peer_sends_changes_nothing() {
    let [mut one, mut other] = pair();
    one.write(&record(b"abc"));
    let honest = one.next(NOW, 100).unwrap();
    let before = other.clone();
    let wrong: [fn(&mut Heading); 2] = [
        |heading| heading.acknowledged += 1,
        |heading| heading.position = u64::MAX - 1,
    ];
    for change in wrong {
        let mut forged = honest.clone();
        change(&mut forged.heading);
        assert_eq!(other.take(NOW, &forged), Arrival::Malformed);
        assert_eq!(other, before);
    }
    assert_eq!(other.take(NOW, &honest), Arrival::Next { skip: 0 });
}

#[test]
fn acknowledgements_ride_with_data_or_leave_by_themselves() {
    let [mut one, mut other] = pair();
    one.write(&record(b"abc"));
    let datagram = one.next(NOW, 100).unwrap();
    other.take(NOW, &datagram);
    assert_eq!(other.next(NOW, 100), None, "it waits for data");
    assert_eq!(other.retry.deadline(), Some(NOW + ACKNOWLEDGE_NS));
    let mut quiet = other.clone();
    other.write(&record(b"d"));
    let riding = other.next(NOW, 100).unwrap();
    assert_eq!(riding.heading.acknowledged, datagram.heading.position + 7);
    assert_eq!(other.next(NOW + ACKNOWLEDGE_NS, 100), None);
    let alone = quiet.next(NOW + ACKNOWLEDGE_NS, 100).unwrap();
    assert!(alone.payload.is_empty());
    one.take(NOW, &alone);
    assert_eq!(one.retry.unacknowledged_bytes(), 0);
    assert_eq!(one.retry.deadline(), None);
}

#[test]
fn without_answers_timeouts_become_longer_and_only_the_least_window_is_repeated() {
    let mut one = End::new(Limits::default());
    for _ in 0..500 {
        one.write(&record(&[1; 600]));
    }
    let mut now = NOW;
    let mut pauses = Vec::new();
    let mut datagrams = Vec::new();
    for _ in 0..8 {
        datagrams.push(std::iter::from_fn(|| one.next(now, 1000)).count());
        let due = one.retry.deadline().unwrap();
        assert!(
            !one.retry.tick(due - 1),
            "a moment before it nothing is due"
        );
        assert!(one.retry.tick(due));
        pauses.push(due.since_ns(now));
        now = due;
    }
    assert!(
        pauses.is_sorted() && pauses[1] == 2 * pauses[0],
        "{pauses:?}"
    );
    assert_eq!(pauses[7], Timeout::MOST_NS);
    assert!(one.retry.is_silent());
    let mut other = End::new(Limits::default());
    let again = one.next(now, 1000).unwrap();
    other.take(now, &again);
    one.take(now, &other.next(now + ACKNOWLEDGE_NS, 1000).unwrap());
    assert!(!one.retry.is_silent());
    let least = Window::LEAST_BYTES.div_ceil(1000);
    assert!(
        datagrams[1..].iter().all(|&count| count == least),
        "{datagrams:?}"
    );
}

#[test]
fn what_was_sent_before_the_peer_was_there_comes_as_soon_as_it_is_heard_of() {
    let mut one = End::new(Limits::default());
    let mut other = End::new(Limits::default());
    one.write(&record(b"lost"));
    one.next(NOW, 100).unwrap();
    other.write(&record(b"hello"));
    let hello = other.next(NOW, 100).unwrap();
    one.take(NOW + 5, &hello);
    let again = one.next(NOW + 5, 100).unwrap();
    assert_eq!(again.payload, record(b"lost"));
}

#[test]
fn memory_is_bounded_and_given_back() {
    let limits = Limits {
        unacknowledged_bytes: 64 * 1024,
        ..Limits::default()
    };
    let mut one = End::new(limits);
    let mut count = 0;
    while one.write(&record(&[3; 1000])) {
        count += 1;
    }
    assert!((50..=64).contains(&count), "{count}");
    assert!(one.retry.sender_memory() <= 2 * limits.unacknowledged_bytes);
    let mut other = End::new(limits);
    while one.retry.unacknowledged_bytes() > 0 {
        let datagram = one.next(NOW, 1400).unwrap();
        other.take(NOW, &datagram);
        if let Some(answer) = other.next(NOW + ACKNOWLEDGE_NS, 1400) {
            one.take(NOW, &answer);
        }
    }
    one.retry.review();
    one.retry.review();
    assert_eq!(one.retry.sender_memory(), 0);
    assert!(one.write(&record(b"and on")));
}

impl Retry {
    fn sender_memory(&self) -> usize {
        self.sender.memory_bytes()
    }
}
