//! Two ends of a tunnel with a network between them that does anything, and forges.

use std::net::{Ipv4Addr, SocketAddr};

use link::Time;
use netio::transport::tunnel::{RECORD_ROOM, Session};
use netio::transport::{JobSecret, LinkCounters, LinkSecurity};
use wire::udplink::{LinkSecret, UdpEndpoint};

use crate::fields::Fields;

/// Steps of one input at most.
const STEPS_MAX: usize = 400;
/// Datagrams that are kept, to be sent at any time.
const KEPT_MAX: usize = 64;
/// Payloads of datagrams, bytes.
const PAYLOADS: [usize; 4] = [1, 100, 1424, 9000];

/// Inputs to begin with: records both ways, lost, repeated, overtaken, damaged; sealed and not.
pub(crate) fn inputs() -> Vec<Vec<u8>> {
    let write = |end: u8, length: u16| [&[0, end][..], &length.to_be_bytes()].concat();
    let (send, deliver) = (|end: u8| vec![1, end, 2], |place: u8| vec![2, place]);
    let busy = [
        write(0, 290),
        write(0, 4000),
        write(1, 20),
        send(0),
        send(0),
        send(1),
        deliver(0),
        deliver(0),
        deliver(0),
    ];
    let busy = busy.concat().repeat(8);
    let lost = [
        write(0, 3000),
        send(0),
        send(0),
        deliver(1),
        send(1),
        deliver(2),
    ]
    .concat();
    let damaged = [write(0, 50), send(0), vec![3, 0, 0, 40, 1], deliver(0)].concat();
    let late = [
        write(0, 50),
        send(0),
        vec![4, 120],
        vec![5, 0],
        send(0),
        deliver(1),
    ]
    .concat();
    let all = [busy, lost, damaged, late];
    let kinds = [0u8, 1];
    kinds
        .iter()
        .flat_map(|&kind| all.iter().map(move |steps| [&[kind][..], steps].concat()))
        .collect()
}

/// One end, what it has written and what it has received.
struct End {
    session: Session,
    written: Vec<u8>,
    received: Vec<u8>,
    /// The peer's stream made no sense.
    is_broken: bool,
}

struct Bed {
    ends: [End; 2],
    counters: LinkCounters,
    /// Datagrams that were sent, and by whom.
    kept: Vec<(usize, Vec<u8>)>,
    now: Time,
    is_sealed: bool,
    /// Somebody who knows the secret, which protects nothing without a seal, has forged a datagram.
    is_forged: bool,
    count: u8,
}

impl Bed {
    fn new(is_sealed: bool) -> Self {
        let security = match is_sealed {
            true => LinkSecurity::Aes128Gcm,
            false => LinkSecurity::None,
        };
        let secret = JobSecret::new([1; 32]).cable("s0:1");
        let endpoint = |number: u64| UdpEndpoint {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
            secret: LinkSecret(number),
            epoch: 10 + number,
        };
        let end = |own, peer| End {
            session: Session::new(security, &secret, endpoint(own), endpoint(peer)),
            written: Vec::new(),
            received: Vec::new(),
            is_broken: false,
        };
        Self {
            ends: [end(1, 2), end(2, 1)],
            counters: LinkCounters::default(),
            kept: Vec::new(),
            now: Time(1_000_000_000),
            is_sealed,
            is_forged: false,
            count: 0,
        }
    }

    fn write(&mut self, end: usize, length: usize) {
        self.count = self.count.wrapping_add(1);
        let length = length.min(8000);
        let mut record = vec![1, 0];
        record.extend_from_slice(&u16::try_from(length).unwrap_or(0).to_be_bytes());
        record.resize(4 + length, self.count);
        let end = &mut self.ends[end];
        if let Some(room) = end.session.retry().room() {
            room[..record.len()].copy_from_slice(&record);
            end.session.retry().commit(record.len());
            end.written.extend_from_slice(&record);
        }
    }

    fn send(&mut self, end: usize, payload: usize) -> Option<Vec<u8>> {
        let mut room = vec![0; payload + netio::transport::tunnel::OVERHEAD_BYTES];
        let session = &mut self.ends[end].session;
        let length = session.write(self.now, &mut room, &self.counters)?;
        room.truncate(length);
        Some(room)
    }

    fn deliver(&mut self, to: usize, datagram: &[u8]) {
        let mut memory = vec![0; RECORD_ROOM];
        memory.extend_from_slice(datagram);
        let at = RECORD_ROOM..memory.len();
        let each = datagram.len();
        let [one, other] = &mut self.ends;
        let (end, peer) = if to == 0 { (one, other) } else { (other, one) };
        if end.is_broken {
            return;
        }
        let session = &mut end.session;
        match session.receive(self.now, &mut memory, at, each, &self.counters) {
            Ok(records) => end.received.extend_from_slice(records),
            Err(broken) => {
                assert!(self.is_forged, "an honest peer's stream: {broken}");
                end.is_broken = true;
            }
        }
        assert!(
            self.is_forged || peer.written.starts_with(&end.received),
            "what comes is what was sent"
        );
    }

    fn step(&mut self, fields: &mut Fields<'_>) {
        match fields.byte() % 7 {
            0 => {
                let end = usize::from(fields.byte() % 2);
                self.write(end, usize::from(fields.two()));
            }
            1 => {
                let end = usize::from(fields.byte() % 2);
                let payload = fields.one_of(&PAYLOADS);
                if let Some(datagram) = self.send(end, payload)
                    && self.kept.len() < KEPT_MAX
                {
                    self.kept.push((end, datagram));
                }
            }
            2 => {
                if let Some((from, datagram)) = self.chosen(fields) {
                    self.deliver(1 - from, &datagram);
                }
            }
            3 => {
                let back = fields.flag();
                if let Some((from, mut datagram)) = self.chosen(fields) {
                    let at = usize::from(fields.byte()) % datagram.len();
                    datagram[at] ^= fields.byte();
                    // Without a seal only what protects is protected.
                    self.is_forged |= !self.is_sealed;
                    self.deliver(if back { from } else { 1 - from }, &datagram);
                }
            }
            4 => self.now = self.now + fields.nanoseconds(),
            5 => {
                let end = usize::from(fields.byte() % 2);
                self.ends[end].session.retry().tick(self.now);
            }
            _ => {
                let length = usize::from(fields.byte());
                let bytes = fields.rest();
                let datagram = bytes[..length.min(bytes.len())].to_vec();
                self.deliver(usize::from(fields.byte() % 2), &datagram);
            }
        }
    }

    fn chosen(&self, fields: &mut Fields<'_>) -> Option<(usize, Vec<u8>)> {
        let place = usize::from(fields.byte());
        let count = self.kept.len();
        (count > 0).then(|| self.kept[place % count].clone())
    }

    /// All comes once nothing is lost any more.
    fn complete(&mut self) {
        for _ in 0..2000 {
            let mut moved = false;
            for from in 0..2 {
                while let Some(datagram) = self.send(from, 1424) {
                    self.deliver(1 - from, &datagram);
                    moved = true;
                }
            }
            let is_there = |to: usize| self.ends[to].received == self.ends[1 - to].written;
            if !moved && is_there(0) && is_there(1) {
                return;
            }
            if !moved {
                self.now = self.now + 10_000_000;
                for end in &mut self.ends {
                    end.session.retry().tick(self.now);
                }
            }
        }
        panic!("not all that was sent has come");
    }
}

/// What comes is what was sent, as far as it has come; what others make up changes nothing; and once nothing is lost, all comes.
///
/// # Panics
/// If not.
pub(crate) fn tunnel(bytes: &[u8]) {
    let mut fields = Fields::of(bytes);
    let mut bed = Bed::new(fields.flag());
    for _ in 0..STEPS_MAX {
        if fields.rest().is_empty() {
            break;
        }
        bed.step(&mut fields);
    }
    if !bed.is_forged {
        bed.complete();
    }
}
