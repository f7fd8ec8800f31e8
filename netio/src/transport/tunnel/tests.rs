//! Sessions without sockets: what is refused, and why.

use link::retry::ACKNOWLEDGE_NS;

use super::*;

const NOW: Time = Time(1_000_000_000);

/// Room for a datagram of that many bytes of payload, behind the room for the beginning of a record.
fn memory_with(datagrams: &[u8]) -> Vec<u8> {
    [&vec![0; RECORD_ROOM], datagrams].concat()
}

fn endpoint(number: u64) -> UdpEndpoint {
    UdpEndpoint {
        address: "127.0.0.1:9".parse().unwrap(),
        secret: LinkSecret(100 + number),
        epoch: 200 + number,
    }
}

fn secret() -> CableSecret {
    JobSecret::new([7; 32]).cable("s0:1")
}

/// One end of a tunnel, and its counters.
struct End {
    session: Session,
    counters: LinkCounters,
}

impl End {
    fn new(security: LinkSecurity, own: u64, peer: u64) -> Self {
        Self {
            session: Session::new(security, &secret(), endpoint(own), endpoint(peer)),
            counters: LinkCounters::default(),
        }
    }

    fn write(&mut self, records: &[u8]) {
        let room = self.session.retry().room().unwrap();
        room[..records.len()].copy_from_slice(records);
        self.session.retry().commit(records.len());
    }

    fn send(&mut self, now: Time, payload_max: usize) -> Option<Vec<u8>> {
        let mut room = vec![0xa5; OVERHEAD_BYTES + payload_max];
        let length = self.session.write(now, &mut room, &self.counters)?;
        room.truncate(length);
        Some(room)
    }

    /// All that is to be sent.
    fn send_all(&mut self, payload_max: usize) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.send(NOW, payload_max)).collect()
    }

    fn take(&mut self, datagrams: &[u8], each: usize) -> Result<Vec<u8>, Broken> {
        let mut memory = memory_with(datagrams);
        let at = RECORD_ROOM..memory.len();
        let records = self
            .session
            .receive(NOW, &mut memory, at, each, &self.counters);
        records.map(<[u8]>::to_vec)
    }

    /// One datagram that brings nothing, for this reason.
    fn refuses(&mut self, datagram: &[u8], why: LinkCounter) {
        let before = self.counters.get(why);
        assert_eq!(
            self.take(datagram, datagram.len()),
            Ok(Vec::new()),
            "{why:?}"
        );
        let counted: Vec<_> = self.counters.nonzero().collect();
        assert_eq!(self.counters.get(why), before + 1, "{why:?}: {counted:?}");
    }
}

const BOTH: [LinkSecurity; 2] = [LinkSecurity::Aes128Gcm, LinkSecurity::None];

fn pair(security: LinkSecurity) -> [End; 2] {
    [End::new(security, 1, 2), End::new(security, 2, 1)]
}

fn record(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    [&[1, 0][..], &length.to_be_bytes(), content].concat()
}

#[test]
fn a_bundle_of_datagrams_becomes_whole_records_and_the_rest_waits_for_its_end() {
    for security in BOTH {
        let [mut one, mut other] = pair(security);
        let text: Vec<u8> = (0..20).flat_map(|n| record(&[n; 290])).collect();
        one.write(&text);
        let datagrams = one.send_all(1424);
        assert_eq!(datagrams.len(), 5);
        let each = datagrams[0].len();
        let first = other.take(&datagrams[..3].concat(), each).unwrap();
        assert_eq!(first, text[..3 * 1424 / 294 * 294]);
        let rest = other.take(&datagrams[3..].concat(), each).unwrap();
        assert_eq!([first, rest].concat(), text);
        assert_eq!(other.counters.get(LinkCounter::FramesReceived), 5);
        let lost = [LinkCounter::TunnelMissing, LinkCounter::TunnelGaps];
        assert_eq!(lost.map(|counter| other.counters.get(counter)), [0, 0]);
    }
}

#[test]
fn the_payload_is_in_the_clear_only_without_security() {
    for security in BOTH {
        let [mut one, _] = pair(security);
        one.write(&record(b"a secret of the packet"));
        let datagram = one.send(NOW, 1000).unwrap();
        let shows = datagram.windows(6).any(|window| window == b"secret");
        assert_eq!(shows, security == LinkSecurity::None);
    }
}

#[test]
fn a_damaged_datagram_is_refused_wherever_it_is_damaged_and_the_next_one_is_taken() {
    let [mut one, mut other] = pair(LinkSecurity::Aes128Gcm);
    one.write(&record(b"abc"));
    let datagram = one.send(NOW, 1000).unwrap();
    for at in 0..datagram.len() {
        let mut damaged = datagram.clone();
        damaged[at] ^= 0x10;
        let why = match at {
            // Version; kind of protection.
            0 | 1 => LinkCounter::Foreign,
            2 | 3 => LinkCounter::StaleEpoch,
            _ => LinkCounter::Forged,
        };
        other.refuses(&damaged, why);
    }
    for length in 0..datagram.len() {
        let why = match length {
            0..OVERHEAD_BYTES => LinkCounter::Foreign,
            _ => LinkCounter::Forged,
        };
        if length > 0 {
            other.refuses(&datagram[..length], why);
        }
    }
    assert_eq!(other.counters.get(LinkCounter::TunnelMissing), 0);
    assert_eq!(other.take(&datagram, datagram.len()), Ok(record(b"abc")));
}

#[test]
fn a_datagram_is_taken_once() {
    for security in BOTH {
        let [mut one, mut other] = pair(security);
        one.write(&record(b"abc"));
        let datagram = one.send(NOW, 1000).unwrap();
        assert_eq!(other.take(&datagram, 1000), Ok(record(b"abc")));
        other.refuses(&datagram, LinkCounter::Replayed);
    }
}

#[test]
fn what_one_sends_is_not_taken_when_it_comes_back() {
    let [mut one, _] = pair(LinkSecurity::Aes128Gcm);
    one.write(&record(b"abc"));
    let datagram = one.send(NOW, 1000).unwrap();
    one.refuses(&datagram, LinkCounter::StaleEpoch);
    let [mut one, _] = pair(LinkSecurity::None);
    one.write(&record(b"abc"));
    let datagram = one.send(NOW, 1000).unwrap();
    one.refuses(&datagram, LinkCounter::WrongSecret);
}

#[test]
fn datagrams_of_another_life_of_the_peer_or_of_the_other_kind_are_not_taken() {
    for security in BOTH {
        let [_, mut other] = pair(security);
        let mut earlier = End::new(security, 3, 2);
        earlier.write(&record(b"abc"));
        let datagram = earlier.send(NOW, 1000).unwrap();
        other.refuses(&datagram, LinkCounter::StaleEpoch);
        for kind in BOTH.into_iter().filter(|&kind| kind != security) {
            let [mut one, _] = pair(kind);
            one.write(&record(b"abc"));
            other.refuses(&one.send(NOW, 1000).unwrap(), LinkCounter::Foreign);
        }
    }
}

#[test]
fn without_security_the_secret_of_the_receiver_is_needed() {
    let [mut one, mut other] = pair(LinkSecurity::None);
    one.write(&record(b"abc"));
    let datagram = one.send(NOW, 1000).unwrap();
    let seal = datagram.len() - 16;
    for (at, why) in [
        (seal, LinkCounter::WrongSecret),
        (seal + 7, LinkCounter::WrongSecret),
        (seal + 8, LinkCounter::StaleEpoch),
        (seal + 15, LinkCounter::StaleEpoch),
    ] {
        let mut forged = datagram.clone();
        forged[at] ^= 1;
        other.refuses(&forged, why);
    }
    assert_eq!(other.take(&datagram, 1000), Ok(record(b"abc")));
}

#[test]
fn what_is_lost_is_counted_and_comes_again() {
    for security in BOTH {
        let [mut one, mut other] = pair(security);
        let text: Vec<u8> = (0..9).flat_map(|n| record(&[n; 100])).collect();
        one.write(&text);
        let sent = one.send_all(200);
        let mut received = other.take(&sent[0], 1000).unwrap();
        for late in &sent[2..] {
            assert_eq!(other.take(late, 1000), Ok(Vec::new()));
        }
        let gaps = u64::try_from(sent.len() - 2).unwrap();
        assert_eq!(other.counters.get(LinkCounter::TunnelMissing), 1);
        assert_eq!(other.counters.get(LinkCounter::TunnelGaps), gaps);
        let nak = other.send(NOW, 200).unwrap();
        assert_eq!(other.counters.get(LinkCounter::TunnelNaksSent), 1);
        one.take(&nak, 1000).unwrap();
        assert_eq!(one.counters.get(LinkCounter::TunnelNaksReceived), 1);
        for again in one.send_all(200) {
            received.extend(other.take(&again, 1000).unwrap());
        }
        assert_eq!(received, text);
        assert_eq!(one.counters.get(LinkCounter::TunnelRepeated), gaps + 1);
        // The one that was missing comes after all: what is in it has come.
        assert_eq!(other.take(&sent[1], 1000), Ok(Vec::new()));
        assert_eq!(other.counters.get(LinkCounter::TunnelLate), 1);
        assert_eq!(other.counters.get(LinkCounter::TunnelDuplicates), 1);
        let acknowledgement = other.send(NOW + ACKNOWLEDGE_NS, 200).unwrap();
        one.take(&acknowledgement, 1000).unwrap();
        assert_eq!(one.session.retry().unacknowledged_bytes(), 0);
    }
}

#[test]
fn a_peer_whose_stream_makes_no_sense_is_found_out() {
    let padding = [0u8; 8];
    let too_long = [1, 0, 0xff, 0xff];
    for (stream, what) in [
        (&padding[..], "record kind"),
        (&too_long, "record of a stream"),
    ] {
        let [mut one, mut other] = pair(LinkSecurity::None);
        one.write(stream);
        let datagram = one.send(NOW, 1000).unwrap();
        let broken = other.take(&datagram, 1000).unwrap_err();
        assert!(broken.to_string().contains(what), "{broken}");
    }
    // Without security whoever knows the secret can write the header anew.
    let [mut one, mut other] = pair(LinkSecurity::None);
    one.write(&record(b"abc"));
    let mut datagram = one.send(NOW, 1000).unwrap();
    datagram[31] = 3;
    let broken = other.take(&datagram, 1000).unwrap_err();
    assert_eq!(
        broken,
        Broken::FirstRecord {
            stated: Some(3),
            found: Some(0)
        }
    );
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_is_malformed() {
    let [mut one, mut other] = pair(LinkSecurity::None);
    one.write(&record(b"abc"));
    let mut datagram = one.send(NOW, 1000).unwrap();
    datagram[27] = 200;
    other.refuses(&datagram, LinkCounter::Malformed);
}

fn open() -> TunnelLink {
    let at = TunnelSocketAt::Address("127.0.0.1:0".parse().unwrap());
    TunnelLink::open(at, TunnelOptions::default()).unwrap()
}

#[test]
fn a_life_of_the_peer_that_was_replaced_is_not_taken_up_again() {
    let [mut one, other, again] = [open(), open(), open()];
    let [first, second] = [&other, &again].map(|link| TunnelPeer {
        end: link.endpoint(),
        secret: secret(),
    });
    assert!(one.connect(&first).unwrap());
    assert!(!one.connect(&first).unwrap(), "nothing new");
    assert!(one.connect(&second).unwrap());
    let refused = one.connect(&first).unwrap_err().to_string();
    assert!(refused.contains("replaced"), "{refused}");
    assert!(!one.connect(&second).unwrap(), "it goes on with the second");
}

#[test]
fn bundles_cross_two_sockets_in_one_call_each_way() {
    let options = TunnelOptions {
        mtu: Some(1500),
        ..TunnelOptions::default()
    };
    let at = TunnelSocketAt::Address("127.0.0.1:0".parse().unwrap());
    let mut links = [0, 1].map(|_| TunnelLink::open(at, options).unwrap());
    let peers = [1, 0].map(|peer: usize| TunnelPeer {
        end: links[peer].endpoint(),
        secret: secret(),
    });
    for (link, peer) in links.iter_mut().zip(&peers) {
        link.connect(peer).unwrap();
    }
    let [one, other] = &mut links;
    let text: Vec<u8> = (0..100u8).flat_map(|n| record(&[n; 290])).collect();
    let mut written = 0;
    while written < text.len() {
        let room = one.room().unwrap();
        let part = (text.len() - written).min(room.len()) / 294 * 294;
        room[..part].copy_from_slice(&text[written..written + part]);
        one.commit(part);
        written += part;
    }
    let (mut send, mut receive) = (SendBatch::new(), ReceiveBatch::new());
    let counters = LinkCounters::default();
    assert!(one.fill(NOW, &mut send, &counters));
    let mut sent = 0;
    while sent < send.len() {
        sent += send.send(one.fd(), sent).unwrap();
    }
    let mut received = Vec::new();
    while let Ok(count) = receive.receive_bundles(other.fd()) {
        for index in 0..count {
            let records = other.records(NOW, &mut receive, index, &counters);
            received.extend_from_slice(records.unwrap_or_default());
        }
    }
    assert_eq!(received, text);
    let datagrams = u64::try_from(text.len().div_ceil(1424)).unwrap();
    assert_eq!(counters.get(LinkCounter::FramesReceived), datagrams);
}
