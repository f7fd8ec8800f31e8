//! Links in shared memory between two threads, and with a peer that does what it likes.

use crate::ring::RING_WORDS;
use crate::shared_memory::SharedMemory;
use crate::transport::{Cable, CableEnd};

use super::*;

fn open_shared() -> Link {
    open_medium(Medium::Shm)
}

fn end(cable: &Cable, second: bool) -> CableEnd {
    let descriptors = cable.descriptors(second);
    let owned = descriptors.map(|descriptor| descriptor.try_clone_to_owned().unwrap());
    CableEnd::open(owned.into(), second).unwrap()
}

/// The memory of a cable, as its ends see it.
fn memory(cable: &Cable) -> SharedMemory {
    let [memory, ..] = cable.descriptors(false);
    SharedMemory::open(memory, 2 * RING_WORDS).unwrap()
}

async fn attach(running: &mut Running<Ask, Seen>, cable: &Cable, second: bool) {
    running.handle.attach(PORT, end(cable, second)).unwrap();
    assert_eq!(next(running).await, Seen::Carrier(true));
}

/// A sender and an echo at the ends of a cable.
async fn shared_pair() -> (Running<Ask, Seen>, Running<Ask, Seen>, Cable) {
    let cable = Cable::create().unwrap();
    let mut sender = start(open_shared(), false, 100);
    let mut echo = start(open_shared(), true, 100);
    attach(&mut echo, &cable, true).await;
    attach(&mut sender, &cable, false).await;
    (sender, echo, cable)
}

async fn echoes(sender: &mut Running<Ask, Seen>, numbers: std::ops::Range<u8>) {
    for number in numbers.clone() {
        sender.handle.command(Ask::Send(vec![number; 100])).unwrap();
    }
    for number in numbers {
        let Seen::Record(record, _) = next(sender).await else {
            panic!("something else than a record");
        };
        assert_eq!(record, vec![number; 100]);
    }
}

#[tokio::test]
async fn records_come_back_in_order_from_an_echo_that_sleeps_in_between() {
    let (mut sender, echo, _) = shared_pair().await;
    echoes(&mut sender, 0..200).await;
    for number in 0..50 {
        echoes(&mut sender, number..number + 1).await;
    }
    stop(sender).await;
    stop(echo).await;
}

#[tokio::test]
async fn more_than_a_ring_holds_waits_for_a_peer_that_is_late_and_nothing_is_lost() {
    let cable = Cable::create().unwrap();
    let mut sender = start(open_shared(), false, 1);
    attach(&mut sender, &cable, false).await;
    // Eight times the ring.
    let count = 8 * crate::ring::CAPACITY / 32;
    for number in 0..count {
        let record = vec![u8::try_from(number % 251).unwrap(); 250];
        let sent = sender
            .handle
            .command_within(Ask::Send(record), Duration::from_secs(10));
        sent.await.unwrap();
    }
    let mut echo = start(open_shared(), true, 1);
    attach(&mut echo, &cable, true).await;
    for number in 0..count {
        let record = vec![u8::try_from(number % 251).unwrap(); 250];
        assert_eq!(next(&mut sender).await, Seen::Record(record, 1));
    }
    stop(sender).await;
    stop(echo).await;
}

#[tokio::test]
async fn a_thread_of_many_ports_hears_each_of_them_whether_all_sleep_or_one_is_busy() {
    let ports = || (1..=4).map(PortNum::new);
    let links = ports().map(|port| {
        let spec = LinkSpec {
            port,
            medium: Medium::Shm,
        };
        Link::open(&spec, TunnelOptions::default()).unwrap()
    });
    let settings = Settings {
        name: "hub".to_owned(),
        frame_packets: 100,
    };
    let mut hub = spawn(settings, links.collect(), || Toy::new(false)).unwrap();
    let mut senders = Vec::new();
    for port in ports() {
        let cable = Cable::create().unwrap();
        hub.handle.attach(port, end(&cable, true)).unwrap();
        assert_eq!(next(&mut hub).await, Seen::Carrier(true));
        let mut sender = start(open_shared(), false, 100);
        attach(&mut sender, &cable, false).await;
        senders.push(sender);
    }
    // One after the other: the hub sleeps in between.
    for number in 0..=250u8 {
        let sender = &senders[usize::from(number) % senders.len()];
        sender.handle.command(Ask::Send(vec![number])).unwrap();
        assert_eq!(next(&mut hub).await, Seen::Record(vec![number], 1));
    }
    // The first all the time, the others now and then.
    let mut sent = [0; 4];
    for number in 0..8_000 {
        let of = if number % 100 == 0 {
            number / 100 % 4
        } else {
            0
        };
        let record = vec![u8::try_from(of).unwrap(); 200];
        let told = Duration::from_secs(10);
        let taken = senders[of].handle.command_within(Ask::Send(record), told);
        taken.await.unwrap();
        sent[of] += 1;
    }
    while sent != [0; 4] {
        let Seen::Record(record, _) = next(&mut hub).await else {
            panic!("something else than a record");
        };
        sent[usize::from(record[0])] -= 1;
    }
    for running in senders.into_iter().chain([hub]) {
        stop(running).await;
    }
}

#[tokio::test]
async fn an_idle_cable_touches_less_than_64_kib() {
    let (mut sender, echo, cable) = shared_pair().await;
    // More than the rings hold, a few at a time, as keep-alives come.
    for number in 0..2_000 {
        let number = u8::try_from(number % 251).unwrap();
        echoes(&mut sender, number..number + 4).await;
    }
    let touched = memory(&cable).resident_bytes();
    assert!(touched < 64 * 1024, "{touched} bytes");
    stop(sender).await;
    stop(echo).await;
}

#[tokio::test]
async fn another_cable_starts_the_link_anew_without_what_was_in_the_old_one() {
    let (mut sender, echo, _) = shared_pair().await;
    echoes(&mut sender, 0..3).await;
    stop(echo).await;
    sender.handle.command(Ask::Send(vec![7])).unwrap();
    sender.handle.command(Ask::TickIn(1)).unwrap();
    assert_eq!(next(&mut sender).await, Seen::Tick, "the record has gone");
    let cable = Cable::create().unwrap();
    let mut echo = start(open_shared(), true, 1);
    attach(&mut echo, &cable, true).await;
    sender.handle.attach(PORT, end(&cable, false)).unwrap();
    assert_eq!(next(&mut sender).await, Seen::Carrier(false));
    assert_eq!(next(&mut sender).await, Seen::Carrier(true));
    echoes(&mut sender, 10..13).await;
    stop(sender).await;
    stop(echo).await;
}

#[tokio::test]
async fn memory_that_makes_no_sense_takes_the_link_down_until_there_is_another_cable() {
    let cable = Cable::create().unwrap();
    let link = open_shared();
    let counters = Arc::clone(link.counters());
    let mut running = start(link, false, 1);
    attach(&mut running, &cable, false).await;
    // The second ring is the peer's.
    memory(&cable).words()[RING_WORDS].store(u64::MAX, Ordering::Release);
    running.handle.command(Ask::Send(vec![1])).unwrap();
    assert_eq!(next(&mut running).await, Seen::Carrier(false));
    assert_eq!(counters.get(LinkCounter::RingBroken), 1);
    running.handle.command(Ask::TickIn(1)).unwrap();
    assert_eq!(next(&mut running).await, Seen::Tick, "the record has gone");
    let cable = Cable::create().unwrap();
    attach(&mut running, &cable, false).await;
    let mut echo = start(open_shared(), true, 1);
    attach(&mut echo, &cable, true).await;
    echoes(&mut running, 0..2).await;
    stop(running).await;
    stop(echo).await;
}

#[test]
fn descriptors_that_are_not_those_of_a_cable_are_refused() {
    let cable = Cable::create().unwrap();
    let owned = |places: &[usize]| {
        let descriptors = cable.descriptors(false);
        let owned = places.iter();
        owned
            .map(|&at| descriptors[at].try_clone_to_owned().unwrap())
            .collect()
    };
    for places in [&[][..], &[0, 1], &[0, 1, 2, 2], &[1, 0, 2]] {
        assert!(CableEnd::open(owned(places), false).is_err(), "{places:?}");
    }
    assert!(CableEnd::open(owned(&[0, 1, 2]), false).is_ok());
}
