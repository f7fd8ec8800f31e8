//! Tunnels between namespaces with an MTU of 1,500, and a machine between them that loses, reorders, repeats, damages
//! and forges. These tests need root.

#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

mod relay;
#[path = "../toy/mod.rs"]
mod toy;

use std::net::SocketAddr;
use std::time::Duration;

use netio::namespace::Namespace;
use netio::transport::{
    JobSecret, Link, LinkCounter, LinkSecurity, LinkSpec, Medium, TunnelOptions, TunnelPeer,
    TunnelSocketAt,
};
use wire::Records;
use wire::udplink::UdpEndpoint;

use relay::{Relay, Weather};
use toy::{Event, LIMIT, Namespaces, PORT, ip, veth};

const BOTH: [LinkSecurity; 2] = [LinkSecurity::Aes128Gcm, LinkSecurity::None];

/// A data record whose packet has `words` words and this number; VCRC and all else are left out.
fn record(number: u32, words: u16) -> Vec<u8> {
    let length = words * 4 + 2;
    let mut record = vec![1, 0];
    record.extend_from_slice(&length.to_be_bytes());
    record.extend_from_slice(&[0, 0, 0, 0]);
    record.extend_from_slice(&words.to_be_bytes());
    record.resize(4 + usize::from(length), 0xa5);
    record[12..16].copy_from_slice(&number.to_be_bytes());
    record
}

/// Packets of 290 bytes, of an MTU of 2,048 and of one of 4,096, mixed.
fn records(count: u32) -> Vec<Vec<u8>> {
    let words = [72, 72, 72, 519, 72, 1031, 4];
    let kinds = u32::try_from(words.len()).unwrap();
    (0..count)
        .map(|number| record(number, words[usize::try_from(number % kinds).unwrap()]))
        .collect()
}

/// Three namespaces in a row: two machines, and one between them.
struct Row(Namespaces<3>);

impl Row {
    fn new(test: &str) -> Self {
        let row = Self(Namespaces::new(test, ["a", "r", "b"]));
        let [a, r, b] = [0, 1, 2].map(|at| row.at(at).name());
        for (end, peer, number) in [(a, "ra", 1), (b, "rb", 2)] {
            veth("1500", [end, "p1"], [r, peer]);
            let gate = format!("10.77.{number}.1");
            let [own, other] = [2, 1].map(|host| format!("10.77.{number}.{host}/24"));
            ip(&["-n", end, "addr", "add", &own, "dev", "p1"]);
            ip(&["-n", r, "addr", "add", &other, "dev", peer]);
            ip(&["-n", end, "route", "add", "default", "via", &gate]);
        }
        row
    }

    fn at(&self, place: usize) -> &Namespace {
        &self.0.0[place]
    }

    /// The machine between routes, besides what a relay does.
    fn route(&self) {
        let on = self
            .at(1)
            .run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"));
        on.unwrap().unwrap();
    }
}

fn address(side: usize, host: u8) -> SocketAddr {
    SocketAddr::from(([10, 77, [1, 2][side], host], 0))
}

/// An end of a tunnel.
struct End {
    toy: toy::End,
    endpoint: UdpEndpoint,
}

impl End {
    fn start(namespace: &Namespace, side: usize, security: LinkSecurity) -> Self {
        let spec = LinkSpec {
            port: PORT,
            medium: Medium::Tunnel(TunnelSocketAt::Address(address(side, 2))),
        };
        let options = TunnelOptions {
            security,
            mtu: None,
        };
        let open = || Link::open(&spec, options).unwrap();
        let (toy, endpoint) = toy::End::start(namespace, open, |link| link.endpoint().unwrap());
        Self { toy, endpoint }
    }

    /// The peer is `peer`, reached at `at`.
    fn connect(&self, peer: &Self, at: SocketAddr) {
        let end = UdpEndpoint {
            address: at,
            ..peer.endpoint
        };
        let secret = JobSecret::new([3; 32]).cable("a:1");
        let handle = &self.toy.running.handle;
        handle
            .connect_tunnel(PORT, TunnelPeer { end, secret })
            .unwrap();
    }

    async fn next(&mut self) -> Event {
        self.toy.next().await
    }

    fn send(&self, records: &[Vec<u8>]) {
        self.toy.send(records);
    }

    /// Waits for these records and no others, in this order.
    async fn receives(&mut self, expected: &[Vec<u8>]) {
        let mut received = 0;
        while received < expected.len() {
            match self.next().await {
                Event::Frame(frame) => {
                    for record in Records::new(&frame) {
                        let record = record.unwrap();
                        assert_eq!(record.bytes, &expected[received][4..], "record {received}");
                        received += 1;
                    }
                }
                Event::Carrier(up) => panic!("the carrier has changed: {up}"),
            }
        }
    }

    fn count(&self, counter: LinkCounter) -> u64 {
        self.toy.counters.get(counter)
    }

    fn told(&self) -> Vec<(&'static str, u64)> {
        self.toy.counters.nonzero().collect()
    }

    async fn stop(self) {
        self.toy.stop().await;
    }
}

/// Both ends, connected by way of `relay`, or else to each other.
async fn pair(row: &Row, security: LinkSecurity, relay: Option<&Relay>) -> [End; 2] {
    let start = |side| End::start(row.at(2 * side), side, security);
    let mut ends = [start(0), start(1)];
    for side in 0..2 {
        let at = match relay {
            Some(relay) => {
                relay.set_end(side, ends[side].endpoint.address);
                relay.address(side)
            }
            None => ends[1 - side].endpoint.address,
        };
        ends[side].connect(&ends[1 - side], at);
    }
    for end in &mut ends {
        assert_eq!(end.next().await, Event::Carrier(true));
    }
    ends
}

/// Both send `all` at once, and receive it.
async fn exchange(ends: &mut [End; 2], all: &[Vec<u8>]) {
    let [one, other] = ends;
    one.send(all);
    other.send(all);
    tokio::join!(one.receives(all), other.receives(all));
}

/// Waits until `is_so`, as long as anything may take: the last acknowledgements are still on their way.
async fn eventually<E: std::fmt::Debug>(what: &str, is_so: impl Fn() -> Result<(), E>) {
    let until = tokio::time::Instant::now() + LIMIT;
    while let Err(why) = is_so() {
        assert!(tokio::time::Instant::now() < until, "{what}: {why:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn stop(ends: [End; 2]) {
    let [one, other] = ends;
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn packets_longer_than_the_path_takes_cross_it_and_nothing_is_lost() {
    let row = Row::new("mtu");
    row.route();
    for security in BOTH {
        let mut ends = pair(&row, security, None).await;
        exchange(&mut ends, &records(5000)).await;
        let bytes: usize = records(5000).iter().map(Vec::len).sum();
        for end in &ends {
            let counted = end.told();
            assert!(
                counted.iter().all(|(name, _)| !name.contains("dropped")),
                "{counted:?}"
            );
            let received = end.count(LinkCounter::FramesReceived);
            let least = u64::try_from(bytes / 1424).unwrap();
            assert!(
                received > least && received < 2 * least,
                "{counted:?}, {least}"
            );
        }
        stop(ends).await;
    }
}

#[tokio::test]
async fn a_path_that_becomes_shorter_is_followed_and_one_that_becomes_longer_again_too() {
    let row = Row::new("path");
    row.route();
    let mut ends = pair(&row, LinkSecurity::Aes128Gcm, None).await;
    let all = records(700);
    exchange(&mut ends, &all).await;
    // First at the end itself, then on the way, of which routers tell by ICMP.
    ip(&["-n", row.at(0).name(), "link", "set", "p1", "mtu", "900"]);
    exchange(&mut ends, &all).await;
    assert!(ends[0].count(LinkCounter::TunnelPathChanges) >= 1);
    ip(&["-n", row.at(0).name(), "link", "set", "p1", "mtu", "1500"]);
    ip(&["-n", row.at(1).name(), "link", "set", "rb", "mtu", "700"]);
    exchange(&mut ends, &all).await;
    let counted = ends.each_ref().map(End::told);
    assert!(
        ends[0].count(LinkCounter::TunnelPathChanges) >= 2,
        "{counted:?}"
    );
    assert_eq!(ends[0].count(LinkCounter::Forged), 0, "{counted:?}");
    stop(ends).await;
}

#[tokio::test]
async fn whatever_the_network_loses_reorders_repeats_and_damages_all_comes_and_all_is_counted() {
    let row = Row::new("weather");
    for (seed, security) in (1..).zip(BOTH) {
        let relay = Relay::start(row.at(1), [address(0, 1), address(1, 1)], seed);
        let mut ends = pair(&row, security, Some(&relay)).await;
        let damaged = if security == LinkSecurity::None {
            0
        } else {
            10
        };
        relay.set_weather(Weather {
            lost: 10,
            damaged,
            doubled: 10,
            late: 20,
            ..Weather::default()
        });
        exchange(&mut ends, &records(3000)).await;
        // What comes afterwards tells of the last that was lost.
        relay.set_weather(Weather::default());
        for _ in 0..3 {
            exchange(&mut ends, &records(1)).await;
        }
        for side in 0..2 {
            let (end, peer) = (&ends[side], &ends[1 - side]);
            eventually("all is counted", || {
                let done = relay.done(side);
                let missing = end.count(LinkCounter::TunnelMissing);
                // What bursts do not find room for on the relay's side is lost before it.
                let before = peer.count(LinkCounter::FramesSent) - done.taken;
                let is_told = end.count(LinkCounter::Forged) == done.damaged
                    && end.count(LinkCounter::Replayed) == done.repeated
                    && missing - end.count(LinkCounter::TunnelLate)
                        == before + done.lost + done.damaged;
                is_told
                    .then_some(())
                    .ok_or_else(|| (end.told(), peer.told(), done))
            })
            .await;
            let done = relay.done(side);
            assert!(
                done.lost > 3 && done.repeated > 3 && done.late > 3,
                "{done:?}"
            );
            assert!(peer.count(LinkCounter::TunnelRepeated) > 0);
        }
        stop(ends).await;
    }
}

#[tokio::test]
async fn who_sends_from_the_address_of_the_peer_changes_nothing_and_is_counted() {
    let row = Row::new("hostile");
    for (seed, security) in (5..).zip(BOTH) {
        let relay = Relay::start(row.at(1), [address(0, 1), address(1, 1)], seed);
        let mut ends = pair(&row, security, Some(&relay)).await;
        relay.set_weather(Weather {
            replayed: 200,
            reflected: 200,
            made_up: 200,
            ..Weather::default()
        });
        exchange(&mut ends, &records(2000)).await;
        relay.set_weather(Weather::default());
        exchange(&mut ends, &records(3)).await;
        for side in 0..2 {
            let (end, peer) = (&ends[side], &ends[1 - side]);
            eventually("all is counted", || {
                let done = relay.done(side);
                let before = peer.count(LinkCounter::FramesSent) - done.taken;
                let refused = match security {
                    LinkSecurity::Aes128Gcm => [
                        (LinkCounter::StaleEpoch, done.reflected),
                        (LinkCounter::Forged, done.made_up),
                    ],
                    LinkSecurity::None => [
                        (LinkCounter::WrongSecret, done.reflected + done.made_up),
                        (LinkCounter::StaleEpoch, 0),
                    ],
                };
                let others = [
                    (LinkCounter::Replayed, done.repeated),
                    (LinkCounter::TunnelMissing, before),
                    (LinkCounter::Malformed, 0),
                    (LinkCounter::TunnelBroken, 0),
                ];
                let all = refused.iter().chain(&others);
                let is_told = all
                    .into_iter()
                    .all(|&(counter, count)| end.count(counter) == count);
                is_told
                    .then_some(())
                    .ok_or_else(|| (end.told(), peer.told(), done))
            })
            .await;
            let done = relay.done(side);
            assert!(
                done.repeated > 10 && done.reflected > 10 && done.made_up > 10,
                "{done:?}"
            );
        }
        stop(ends).await;
    }
}

#[tokio::test]
async fn another_life_of_the_peer_begins_anew_and_what_the_earlier_one_has_sent_is_refused() {
    let row = Row::new("life");
    let relay = Relay::start(row.at(1), [address(0, 1), address(1, 1)], 9);
    let [mut one, other] = pair(&row, LinkSecurity::Aes128Gcm, Some(&relay)).await;
    other.send(&records(3));
    one.receives(&records(3)).await;
    other.stop().await;
    // It has no answer, and goes on sending.
    one.send(&records(2000));
    let mut again = End::start(row.at(2), 1, LinkSecurity::Aes128Gcm);
    relay.set_end(1, again.endpoint.address);
    again.connect(&one, relay.address(1));
    assert_eq!(again.next().await, Event::Carrier(true));
    one.connect(&again, relay.address(0));
    assert_eq!(one.next().await, Event::Carrier(false));
    assert_eq!(one.next().await, Event::Carrier(true));
    again.send(&records(20));
    one.receives(&records(20)).await;
    stop([one, again]).await;
}
