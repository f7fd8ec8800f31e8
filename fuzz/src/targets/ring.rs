//! A ring in memory that two devices share, with a peer that may write anything into it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use netio::ring::{CAPACITY, FRAME_BYTES_MAX, RING_WORDS, Receiver, Sender};
use netio::shared_memory::SharedMemory;

use crate::fields::Fields;

/// Steps of one input at most.
const STEPS_MAX: usize = 400;
/// The words that hold counts and signals, and the first entries.
const INTERESTING: [usize; 8] = [0, 1, 8, 9, 512, 513, 520, 1536];

/// Inputs to begin with: frames of several lengths sent and taken, and each kind of lie.
pub(crate) fn inputs() -> Vec<Vec<u8>> {
    let busy = |length: [u8; 2], count: usize| {
        let sends = [0, length[0], length[1]].repeat(count);
        [sends, vec![1; count + 1]].concat()
    };
    let lie = |word: u8, value: u64| [&[3, word][..], &value.to_be_bytes()].concat();
    vec![
        busy([0, 40], 20),
        busy([0xff, 0xff], 6),
        busy([0x10, 0], 100),
        [busy([1, 0], 300), busy([2, 1], 20)].concat(),
        [busy([0, 40], 3), lie(0, 5), vec![1, 1]].concat(),
        [busy([0, 40], 3), lie(2, 1 << 40), vec![0, 0, 9]].concat(),
        [lie(4, 1 << 32 | 7), lie(0, 9), vec![1, 1]].concat(),
        [lie(4, 70), lie(0, 40_000), vec![1, 1, 2]].concat(),
    ]
}

/// Until the first lie the ring is a queue; afterwards what is taken has a length that can be, and both sides go on or
/// refuse.
///
/// # Panics
/// If not.
pub(crate) fn ring(bytes: &[u8]) {
    let (memory, _) = SharedMemory::create("fuzz", RING_WORDS).expect("memory");
    let memory = Arc::new(memory);
    let mut sender = Sender::new(Arc::clone(&memory), 0);
    let mut receiver = Receiver::new(Arc::clone(&memory), 0);
    let mut model: VecDeque<Vec<u8>> = VecDeque::new();
    let mut has_lied = false;
    let mut room = vec![0; FRAME_BYTES_MAX];
    let mut fields = Fields::of(bytes);
    for step in 0..STEPS_MAX {
        if fields.rest().is_empty() {
            return;
        }
        match fields.byte() % 6 {
            0 => {
                let length = usize::from(fields.two()).max(1);
                let frame = vec![u8::try_from(step % 251).unwrap_or(0); length];
                let sent = sender.send(&frame);
                assert!(has_lied || sent.is_ok(), "{sent:?}");
                assert!(has_lied || !model.is_empty() || sent == Ok(true));
                if sent == Ok(true) {
                    model.push_back(frame);
                }
            }
            1 => {
                let taken = receiver.receive(&mut room);
                if has_lied {
                    let length = taken.ok().flatten().unwrap_or(1);
                    assert!((1..=FRAME_BYTES_MAX).contains(&length));
                } else {
                    let length = taken.expect("nobody has lied");
                    assert_eq!(
                        length.map(|length| &room[..length]),
                        model.pop_front().as_deref()
                    );
                }
            }
            2 => {
                receiver.arm();
                sender.arm();
                let rings = [sender.must_ring(), sender.must_ring()];
                assert!(has_lied || rings == [true, false]);
                receiver.disarm();
                sender.disarm();
            }
            3 => {
                has_lied = true;
                let word = fields.one_of(&INTERESTING);
                let value = u64::from_be_bytes(fields.array());
                memory.words()[word].store(value, Ordering::Relaxed);
            }
            4 => {
                has_lied = true;
                let word = usize::from(fields.two()) % RING_WORDS;
                let value = u64::from(fields.four()) << 4;
                memory.words()[word].store(value, Ordering::Relaxed);
            }
            _ => {
                sender.review();
                let length = usize::from(fields.two());
                let has_room = sender.has_room_for(length);
                let waiting: usize = model.iter().map(|frame| frame.len().div_ceil(8) + 1).sum();
                let fits = waiting + length.div_ceil(8) < CAPACITY / 2;
                assert!(has_lied || !fits || has_room == Ok(true) || !model.is_empty());
            }
        }
    }
}
