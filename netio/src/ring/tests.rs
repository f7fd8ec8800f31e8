use std::collections::VecDeque;
use std::thread;

use proptest::prelude::*;

use super::*;

fn pair() -> (Sender, Receiver, Arc<SharedMemory>) {
    let (memory, file) = SharedMemory::create("test", RING_WORDS).unwrap();
    let other = Arc::new(SharedMemory::open(file, RING_WORDS).unwrap());
    let memory = Arc::new(memory);
    (
        Sender::new(Arc::clone(&memory), 0),
        Receiver::new(Arc::clone(&other), 0),
        memory,
    )
}

fn frame(number: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| u8::try_from((at * 7 + number * 13) % 251).unwrap())
        .collect()
}

fn take(receiver: &mut Receiver) -> Result<Option<Vec<u8>>, RingError> {
    let mut room = vec![0xa5; FRAME_BYTES_MAX];
    let length = receiver.receive(&mut room)?;
    Ok(length.map(|length| room[..length].to_vec()))
}

/// What happens to a ring.
#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Take(usize),
    Review,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![1..100usize, 1..=4096usize, 1..=FRAME_BYTES_MAX];
    let step = prop_oneof![
        4 => length.prop_map(Step::Send),
        3 => (1..5usize).prop_map(Step::Take),
        1 => Just(Step::Review),
    ];
    prop::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_ring_is_a_queue_that_refuses_only_what_has_no_room(steps in steps()) {
        let (mut sender, mut receiver, _) = pair();
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Send(length) => {
                    let frame = frame(number, length);
                    let taken = sender.send(&frame).unwrap();
                    let words = |frame: &Vec<u8>| entry_words(frame.len());
                    // What was left out at the end takes room as well, less than the rest of the ring.
                    let waiting: u64 = model.iter().map(words).sum();
                    let free = u64_of(CAPACITY) - waiting;
                    prop_assert!(taken || free < words(&frame) + u64_of(CAPACITY - QUIET_WORDS));
                    prop_assert!(!model.is_empty() || taken);
                    if taken {
                        model.push_back(frame);
                    }
                }
                Step::Take(count) => {
                    for _ in 0..count {
                        prop_assert_eq!(receiver.has_more(), !model.is_empty());
                        prop_assert_eq!(take(&mut receiver).unwrap(), model.pop_front());
                    }
                }
                Step::Review => sender.review(),
            }
        }
    }

    #[test]
    fn whatever_a_sender_has_written_the_receiver_ends_with_frames_or_an_error(
        head in prop_oneof![0..200u64, Just(u64_of(CAPACITY)), any::<u64>()],
        words in prop::collection::vec(prop_oneof![0..200u64, SKIP..SKIP + 40_000, any::<u64>()], 1..40),
        later in any::<u64>(),
    ) {
        let (_, mut receiver, memory) = pair();
        for (at, word) in words.iter().enumerate() {
            memory.words()[ENTRIES + at].store(*word, Ordering::Relaxed);
        }
        for head in [head, head.wrapping_add(later)] {
            memory.words()[HEAD].store(head, Ordering::Relaxed);
            let mut taken = 0;
            while let Ok(Some(frame)) = take(&mut receiver) {
                prop_assert!((1..=FRAME_BYTES_MAX).contains(&frame.len()));
                taken += entry_words(frame.len());
            }
            prop_assert!(taken <= u64_of(CAPACITY));
        }
    }

    #[test]
    fn whatever_a_receiver_says_it_has_taken_the_sender_writes_where_it_may(tails in prop::collection::vec(any::<u64>(), 1..20)) {
        let (mut sender, _, memory) = pair();
        for tail in tails {
            memory.words()[TAIL].store(tail, Ordering::Relaxed);
            let before = sender.head;
            let sent = sender.send(&frame(1, 60_000));
            prop_assert!(sender.head >= before);
            if sent == Ok(false) {
                prop_assert_eq!(sender.head, before);
            }
            prop_assert!(sender.head - sender.tail <= u64_of(CAPACITY));
        }
    }
}

#[test]
fn frames_cross_between_two_threads_in_order_and_whole() {
    const FRAMES: usize = 20_000;
    let (mut sender, mut receiver, _) = pair();
    let length = |number: usize| 1 + (number * 31) % 700;
    let writer = thread::spawn(move || {
        for number in 0..FRAMES {
            while !sender.send(&frame(number, length(number))).unwrap() {
                thread::yield_now();
            }
        }
    });
    for number in 0..FRAMES {
        let taken = loop {
            match take(&mut receiver).unwrap() {
                Some(taken) => break taken,
                None => thread::yield_now(),
            }
        };
        assert_eq!(taken, frame(number, length(number)));
    }
    writer.join().unwrap();
    assert!(!receiver.has_more());
}

#[test]
fn a_sender_that_dies_before_it_publishes_leaves_nothing() {
    let (mut sender, mut receiver, memory) = pair();
    sender.send(&frame(1, 100)).unwrap();
    // All of the next entry but its publication.
    let published = memory.words()[HEAD].load(Ordering::Relaxed);
    sender.send(&frame(2, 100)).unwrap();
    memory.words()[HEAD].store(published, Ordering::Relaxed);
    assert_eq!(take(&mut receiver), Ok(Some(frame(1, 100))));
    assert_eq!(take(&mut receiver), Ok(None));
    assert!(!receiver.has_more());
}

#[test]
fn a_count_that_goes_back_or_runs_ahead_is_an_error() {
    let (mut sender, mut receiver, memory) = pair();
    for number in 0..3 {
        sender.send(&frame(number, 100)).unwrap();
    }
    assert_eq!(take(&mut receiver), Ok(Some(frame(0, 100))));
    let taken = entry_words(100);
    memory.words()[HEAD].store(taken - 1, Ordering::Relaxed);
    for number in 1..3 {
        assert_eq!(
            take(&mut receiver),
            Ok(Some(frame(number, 100))),
            "published before"
        );
    }
    let theirs = taken - 1;
    let own = 3 * taken;
    assert_eq!(take(&mut receiver), Err(RingError::Count { theirs, own }));
    let theirs = own + u64_of(CAPACITY) + 1;
    memory.words()[HEAD].store(theirs, Ordering::Relaxed);
    assert_eq!(take(&mut receiver), Err(RingError::Count { theirs, own }));

    let (mut sender, _, memory) = pair();
    let fill = |sender: &mut Sender| while sender.send(&frame(0, 60_000)) == Ok(true) {};
    fill(&mut sender);
    memory.words()[TAIL].store(sender.head + 1, Ordering::Relaxed);
    assert!(sender.send(&frame(0, 60_000)).is_err());
}

#[test]
fn a_length_beyond_what_was_published_is_an_error() {
    for (word, published) in [
        (0, 4),
        (25, 4),
        (u64_of(FRAME_BYTES_MAX) + 1, u64_of(CAPACITY)),
        (u64::MAX, u64_of(CAPACITY)),
        (SKIP | 4, 4),
        (SKIP | u64_of(CAPACITY), 4),
        (SKIP, 4),
    ] {
        let (_, mut receiver, memory) = pair();
        memory.words()[ENTRIES].store(word, Ordering::Relaxed);
        memory.words()[HEAD].store(published, Ordering::Relaxed);
        let wrong = RingError::Entry { word, published };
        assert_eq!(take(&mut receiver), Err(wrong), "{word:#x}");
    }
}

#[test]
fn who_sleeps_is_rung_for_once() {
    let (mut sender, mut receiver, _) = pair();
    sender.send(&[1]).unwrap();
    assert!(!sender.must_ring(), "nobody sleeps");
    receiver.arm();
    assert!(receiver.has_more(), "it came before");
    receiver.disarm();
    take(&mut receiver).unwrap();
    receiver.arm();
    assert!(!receiver.has_more());
    sender.send(&[2]).unwrap();
    assert_eq!([sender.must_ring(), sender.must_ring()], [true, false]);
    while sender.send(&frame(0, 60_000)) == Ok(true) {}
    sender.arm();
    assert_eq!(sender.has_room_for(60_000), Ok(false));
    while take(&mut receiver).unwrap().is_some() {}
    assert_eq!([receiver.must_ring(), receiver.must_ring()], [true, false]);
    assert_eq!(sender.has_room_for(60_000), Ok(true));
}

/// Pages of the memory that have been touched.
fn resident_pages(memory: &SharedMemory) -> usize {
    memory.resident_bytes() / (8 * PAGE_WORDS)
}

#[test]
fn a_quiet_ring_takes_a_few_pages_and_one_that_was_busy_again() {
    let (mut sender, mut receiver, memory) = pair();
    for number in 0..20_000 {
        assert_eq!(sender.send(&frame(number, 40)), Ok(true));
        assert_eq!(take(&mut receiver), Ok(Some(frame(number, 40))));
    }
    assert!(resident_pages(&memory) <= 4, "{}", resident_pages(&memory));
    let mut sent = 0;
    while sender.send(&frame(sent, 5_000)) == Ok(true) {
        sent += 1;
    }
    let mut taken = 0;
    while take(&mut receiver).unwrap().is_some() {
        taken += 1;
    }
    assert_eq!(taken, sent);
    assert!(resident_pages(&memory) > 60);
    for _ in 0..3 {
        sender.review();
        assert_eq!(sender.send(&[1]), Ok(true));
        assert_eq!(take(&mut receiver), Ok(Some(vec![1])));
    }
    assert!(resident_pages(&memory) <= 5, "{}", resident_pages(&memory));
}
