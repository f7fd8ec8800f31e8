//! A machine between two others that forwards their datagrams, and does with them what a network or an attacker may.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use netio::namespace::Namespace;

/// How long the relay waits for a datagram before it lets go what it has held back.
const PAUSE: Duration = Duration::from_millis(20);

/// What is done with datagrams, in a thousand of each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) lost: u32,
    pub(crate) damaged: u32,
    pub(crate) doubled: u32,
    /// Held back until some others have passed.
    pub(crate) late: u32,
    /// Beside each of so many an earlier one is sent again.
    pub(crate) replayed: u32,
    /// Beside each of so many its sender is sent it back.
    pub(crate) reflected: u32,
    /// Beside each of so many one is sent that the relay has made up.
    pub(crate) made_up: u32,
}

/// What was done with the datagrams to one end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Datagrams that came from the other end.
    pub(crate) taken: u64,
    pub(crate) lost: u64,
    pub(crate) damaged: u64,
    /// Sent twice, or again later.
    pub(crate) repeated: u64,
    pub(crate) late: u64,
    /// What this end has sent, and was sent back.
    pub(crate) reflected: u64,
    pub(crate) made_up: u64,
}

/// Of each end what the relay knows of it.
struct Side {
    /// Where it receives, as the other end's peer.
    socket: UdpSocket,
    /// The end that is the peer's.
    end: Mutex<Option<SocketAddr>>,
    done: Mutex<Done>,
}

pub(crate) struct Relay {
    sides: Arc<[Side; 2]>,
    weather: Arc<Mutex<Weather>>,
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// One in `namespace`, at these addresses towards the two ends.
    pub(crate) fn start(namespace: &Namespace, addresses: [SocketAddr; 2], seed: u64) -> Self {
        let bind = |address: SocketAddr| {
            let socket = namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap();
            socket.set_read_timeout(Some(PAUSE)).unwrap();
            Side {
                socket,
                end: Mutex::default(),
                done: Mutex::default(),
            }
        };
        let sides = Arc::new(addresses.map(bind));
        let weather = Arc::new(Mutex::new(Weather::default()));
        let stops = Arc::new(AtomicBool::new(false));
        let threads = (0..2usize).map(|from| {
            let mut way = Way {
                sides: Arc::clone(&sides),
                from,
                weather: Arc::clone(&weather),
                random: Random(seed * 2 + u64::try_from(from).unwrap() + 1),
                held: Vec::new(),
                kept: Vec::new(),
            };
            let stops = Arc::clone(&stops);
            std::thread::spawn(move || way.run(&stops))
        });
        let threads = threads.collect();
        Self {
            sides,
            weather,
            stops,
            threads,
        }
    }

    /// Where the relay receives from end `side`, which takes this for its peer's address.
    pub(crate) fn address(&self, side: usize) -> SocketAddr {
        self.sides[side].socket.local_addr().unwrap()
    }

    pub(crate) fn set_end(&self, side: usize, end: SocketAddr) {
        *self.sides[side].end.lock().unwrap() = Some(end);
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        *self.weather.lock().unwrap() = weather;
    }

    /// What was done with the datagrams to end `side`.
    pub(crate) fn done(&self, side: usize) -> Done {
        *self.sides[side].done.lock().unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// One direction.
struct Way {
    sides: Arc<[Side; 2]>,
    from: usize,
    weather: Arc<Mutex<Weather>>,
    random: Random,
    /// Datagrams that are held back, and how many others pass before.
    held: Vec<(u32, Vec<u8>)>,
    /// Datagrams that have passed.
    kept: Vec<Vec<u8>>,
}

/// A small generator: what a test draws must not depend on a library's version.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        // Knuth's MMIX constants.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(bound)).unwrap()
    }

    fn happens(&mut self, in_a_thousand: u32) -> bool {
        self.below(1000) < in_a_thousand
    }
}

impl Way {
    fn run(&mut self, stops: &AtomicBool) {
        let mut room = vec![0; 65_536];
        while !stops.load(Ordering::Relaxed) {
            match self.sides[self.from].socket.recv_from(&mut room) {
                Ok((length, _)) => self.forward(room[..length].to_vec()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.let_go(u32::MAX),
                Err(_) => {}
            }
        }
    }

    fn note(&self, side: usize, change: impl FnOnce(&mut Done)) {
        change(&mut self.sides[side].done.lock().unwrap());
    }

    fn send(&self, side: usize, datagram: &[u8]) {
        let side = &self.sides[side];
        if let Some(end) = *side.end.lock().unwrap() {
            side.socket.send_to(datagram, end).unwrap();
        }
    }

    fn forward(&mut self, datagram: Vec<u8>) {
        let to = 1 - self.from;
        let weather = *self.weather.lock().unwrap();
        self.note(to, |done| done.taken += 1);
        self.let_go(1);
        if self.random.happens(weather.replayed) && !self.kept.is_empty() {
            let which = self.random.below(u32::try_from(self.kept.len()).unwrap());
            self.send(to, &self.kept[usize::try_from(which).unwrap()]);
            self.note(to, |done| done.repeated += 1);
        }
        if self.random.happens(weather.reflected) {
            self.send(self.from, &datagram);
            self.note(self.from, |done| done.reflected += 1);
        }
        if self.random.happens(weather.made_up) {
            // A header that fits, with a number that is far ahead, and something sealed by nobody.
            let mut forged = datagram.clone();
            forged[6] ^= 0x40;
            forged[32..].reverse();
            self.send(to, &forged);
            self.note(to, |done| done.made_up += 1);
        }
        if self.random.happens(weather.lost) {
            return self.note(to, |done| done.lost += 1);
        }
        if self.random.happens(weather.damaged) {
            let mut damaged = datagram;
            // Behind what names the key.
            let at = 4 + self.random.below(u32::try_from(damaged.len() - 4).unwrap());
            damaged[usize::try_from(at).unwrap()] ^= 1 << self.random.below(8);
            self.send(to, &damaged);
            return self.note(to, |done| done.damaged += 1);
        }
        if self.random.happens(weather.late) {
            self.held.push((1 + self.random.below(10), datagram));
            return self.note(to, |done| done.late += 1);
        }
        self.send(to, &datagram);
        if self.random.happens(weather.doubled) {
            self.send(to, &datagram);
            self.note(to, |done| done.repeated += 1);
        }
        if weather.replayed > 0 && self.kept.len() < 500 {
            self.kept.push(datagram);
        }
    }

    /// So many others have passed.
    fn let_go(&mut self, passed: u32) {
        for (left, _) in &mut self.held {
            *left = left.saturating_sub(passed);
        }
        let is_due = |held: &(u32, Vec<u8>)| held.0 == 0;
        let (due, held): (Vec<_>, Vec<_>) = self.held.drain(..).partition(is_due);
        self.held = held;
        for (_, datagram) in due {
            self.send(1 - self.from, &datagram);
        }
    }
}
