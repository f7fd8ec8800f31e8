//! Programs of verbs beside a host: requests, and rings in which anything can stand, through the part of the
//! daemon that reads them into the core. Three programs share the host; one of them does nothing.

#[path = "../../../../hostd/src/shell/verbs/queues.rs"]
mod queues;
#[path = "../../../../hostd/src/shell/verbs/rings.rs"]
mod rings;

mod program;
mod seeds;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use hostd::{ClientId, Command, Event, FromVerbs, Host, ToVerbs};
use link::{Device as _, Input};
use transport::{Atomic, Memory, MemoryFault, SpaceId};
use uverbs::{Reply, Request};
use wire::PortNum;
use wire::control::{decode, encode};

use super::host::config;
use super::{Bench, OWN};
use crate::Parts;
use crate::fields::Fields;
use program::{BYTES, FIRST_BYTE, Program};

pub(crate) use seeds::{inputs, requests};

const PORT: PortNum = PortNum::new(1);
/// Where the memory of every program starts.
const BASE: u64 = 0x10_0000;
/// The programs that do what steps say; one more does nothing.
const ACTIVE: usize = 2;
const IDLE: usize = 2;
/// How often work is taken after one step at most: more is work without end.
const ROUNDS_MAX: usize = 4096;

/// As the daemon has it: a reply and what goes with it.
struct Answer {
    reply: Reply,
    descriptors: Vec<OwnedFd>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            descriptors: Vec::new(),
        }
    }
}

fn refused(errno: u16, why: impl ToString) -> Answer {
    let why = why.to_string();
    Reply::Refused { errno, why }.into()
}

/// The memory of all programs, by their number.
#[derive(Clone, Default)]
struct Spaces(Arc<Mutex<BTreeMap<u32, Vec<u8>>>>);

impl Spaces {
    fn with<T>(
        &self,
        SpaceId(space): SpaceId,
        address: u64,
        len: usize,
        access: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, MemoryFault> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = all.get_mut(&space).ok_or(MemoryFault)?;
        let at = address.checked_sub(BASE).ok_or(MemoryFault)?;
        let at = usize::try_from(at).map_err(|_| MemoryFault)?;
        let end = at.checked_add(len).ok_or(MemoryFault)?;
        Ok(access(memory.get_mut(at..end).ok_or(MemoryFault)?))
    }

    /// A program has memory from now on, or none any more; what it had.
    fn set(&self, client: ClientId, memory: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match memory {
            Some(memory) => all.insert(client.0, memory),
            None => all.remove(&client.0),
        }
    }
}

impl Memory for Spaces {
    fn read(&mut self, space: SpaceId, address: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        self.with(space, address, out.len(), |memory| {
            out.copy_from_slice(memory);
        })
    }

    fn write(&mut self, space: SpaceId, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.with(space, address, bytes.len(), |memory| {
            memory.copy_from_slice(bytes);
        })
    }

    fn atomic(&mut self, space: SpaceId, address: u64, what: Atomic) -> Result<u64, MemoryFault> {
        self.with(space, address, 8, |memory| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(memory);
            let original = u64::from_ne_bytes(bytes);
            memory.copy_from_slice(&what.applied_to(original).to_ne_bytes());
            original
        })
    }
}

/// A host and its programs.
struct Lab {
    bench: Bench<Host>,
    spaces: Spaces,
    programs: [Option<Program>; 3],
    last_client: u32,
    /// Replies that have not been looked at.
    replies: Vec<(ClientId, Reply)>,
}

impl Lab {
    fn new() -> Self {
        let spaces = Spaces::default();
        let mut host = Host::new(config()).expect("a sound configuration");
        host.set_memory(|| Box::new(spaces.clone()));
        let mut bench = Bench::new(host, 1);
        bench.activate(PORT, PORT, OWN);
        let mut lab = Self {
            bench,
            spaces,
            programs: [None, None, None],
            last_client: 1 << 30,
            replies: Vec::new(),
        };
        (0..=IDLE).for_each(|place| lab.open(place));
        lab
    }

    /// A program opens a context.
    fn open(&mut self, place: usize) {
        self.last_client += 1;
        let client = ClientId(self.last_client);
        self.spaces.set(client, Some(vec![FIRST_BYTE; BYTES]));
        self.programs[place] = Some(Program::new(client));
        let reply = self.ask(place, ToVerbs::Open { port: PORT });
        assert!(matches!(reply, Reply::Opened(_)), "{reply:?}");
    }

    /// A program ends, or is disconnected.
    fn close(&mut self, place: usize) {
        if let Some(program) = self.programs[place].take() {
            let client = program.client;
            self.spaces.set(client, None);
            self.command(Command::VerbsGone { client });
            self.settle();
        }
    }

    fn command(&mut self, command: Command) {
        let now = self.bench.now;
        self.bench.device.handle(now, Input::Command(command));
    }

    /// Takes work from the rings, carries packets and puts completions into rings, as the daemon's dataplane
    /// thread does, until nothing is left.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < ROUNDS_MAX, "work has an end");
            let mut all = Vec::new();
            for program in self.programs.iter_mut().flatten() {
                let mut work = Vec::new();
                let taken = program.rings.take_work(&mut work);
                assert!(
                    taken.is_ok() || program.has_lied,
                    "a program is disconnected for nothing"
                );
                all.extend(work.into_iter().map(|message| (program.client, message)));
            }
            let is_quiet = all.is_empty();
            for (client, message) in all {
                self.command(Command::Verbs { client, message });
            }
            self.bench.exchange();
            let events = core::iter::from_fn(|| self.bench.device.poll_event());
            for event in events.collect::<Vec<Event>>() {
                self.deliver(event);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn deliver(&mut self, event: Event) {
        let Event::Verbs { client, message } = event else {
            return;
        };
        let mut programs = self.programs.iter_mut().flatten();
        let program = programs.find(|program| program.client == client);
        let program = program.expect("nothing is told to a program that has ended");
        match message {
            FromVerbs::Reply(reply) => self.replies.push((client, reply)),
            FromVerbs::Completions {
                cq,
                solicited,
                completions,
            } => program.rings.complete(cq, solicited, &completions),
            FromVerbs::Event { kind, of } => program.rings.event(kind, of),
        }
    }

    /// Has the core answer.
    fn ask(&mut self, place: usize, message: ToVerbs) -> Reply {
        let client = self.client(place);
        self.command(Command::Verbs { client, message });
        self.settle();
        let replies: Vec<Reply> = self
            .replies
            .drain(..)
            .filter_map(|(to, reply)| (to == client).then_some(reply))
            .collect();
        let [reply] = <[Reply; 1]>::try_from(replies).expect("one answer a request");
        let bytes = encode(&reply).expect("a reply that fits a message");
        assert_eq!(decode::<Reply>(&bytes).ok().as_ref(), Some(&reply));
        reply
    }

    fn client(&self, place: usize) -> ClientId {
        self.program(place).client
    }

    fn program(&self, place: usize) -> &Program {
        self.programs[place].as_ref().expect("it is open")
    }

    fn program_mut(&mut self, place: usize) -> &mut Program {
        self.programs[place].as_mut().expect("it is open")
    }

    /// A request of a program's library, as its task in the daemon takes it.
    fn request(&mut self, place: usize, request: Request) -> Reply {
        if let Some(same) = self.program_mut(place).rings.unchanged(&request) {
            let _ = self.ask(place, ToVerbs::Request(same));
        }
        let program = self.program_mut(place);
        let answer = match request {
            Request::Open { .. } => return Reply::Done,
            Request::CreateChannel => program.rings.create_channel(),
            Request::DestroyChannel { channel } => program.rings.destroy_channel(channel),
            ref request => match program.rings.prepare(request) {
                Err(refusal) => refusal,
                Ok(prepared) => {
                    let reply = self.ask(place, ToVerbs::Request(request.clone()));
                    let rings = &mut self.program_mut(place).rings;
                    rings.finish(request, prepared, reply)
                }
            },
        };
        let reply = answer.reply.clone();
        self.program_mut(place).keep(&request, answer);
        reply
    }

    /// What the host has asked for is a number.
    fn number(&mut self, place: usize, request: Request) -> u32 {
        match self.request(place, request) {
            Reply::Handle(number)
            | Reply::Cq { cq: number, .. }
            | Reply::Srq { srq: number, .. }
            | Reply::Qp { qpn: number, .. } => number,
            other => panic!("{other:?}"),
        }
    }

    fn step(&mut self, part: &[u8]) {
        let mut fields = Fields::of(part);
        let what = fields.byte() % 10;
        let place = usize::from(fields.byte()) % ACTIVE;
        let is_open = self.programs[place].is_some();
        match what {
            _ if !is_open => self.open(place),
            0 | 1 => {
                if let Ok(request) = decode::<Request>(fields.rest()) {
                    let request = self.program(place).named(request);
                    self.request(place, request);
                }
            }
            2 => {
                let peer = self.programs[1 - place].as_ref();
                let peer = peer.map_or((0, 0), Program::target);
                self.program_mut(place).post(&mut fields, peer);
            }
            3 => self.program_mut(place).post_raw(&mut fields),
            4 => self.program_mut(place).scribble(&mut fields),
            5 => self.program_mut(place).doorbell(&mut fields),
            6 => self.bench.pass(fields.nanoseconds()),
            7 => {
                let kind = fields.byte() % 6;
                self.bench.step(kind, PORT, &mut fields);
            }
            8 => self.program_mut(place).poll(&mut fields),
            _ => match fields.byte() % 4 {
                0 => self.close(place),
                1 => {
                    let plugged = fields.flag();
                    self.bench.carrier(PORT, plugged);
                }
                _ => self.connect_all(place),
            },
        }
        self.settle();
        for place in 0..ACTIVE {
            let program = self.programs[place].as_ref();
            if program.is_some_and(|program| program.rings.nonsense().is_some()) {
                self.close(place);
            }
        }
    }

    /// Connects the queue pairs of a program with those of the other one.
    fn connect_all(&mut self, place: usize) {
        let own = self.program(place).pairs();
        let peers = self.programs[1 - place].as_ref();
        let peers = peers.map_or_else(Vec::new, Program::pairs);
        for (own, peer) in own.into_iter().zip(peers) {
            for request in program::connecting(own, peer) {
                self.request(place, request);
            }
        }
    }
}

/// The first part says which services queue pairs have; each further one is a step of one of two programs: a
/// request, work, words in its rings, doorbells or completion queues, its end; or time, a packet, the cable.
///
/// # Panics
/// If a request is answered twice or never, a program that has put nothing wrong into its rings is disconnected
/// or told twice of one request, something is told to a program that has ended, work has no end, or a program
/// that does nothing loses an object or a byte.
pub(crate) fn verbs(bytes: &[u8]) {
    let mut parts = Parts::of(bytes);
    let mut head = Fields::of(parts.next().unwrap_or_default());
    let mut lab = Lab::new();
    for place in 0..=IDLE {
        let qp_type = head.one_of(&[2, 3, 4]);
        let shared = head.byte() % 4 == 1;
        program::set_up(&mut lab, place, (qp_type, shared));
    }
    (0..ACTIVE).for_each(|place| lab.connect_all(place));
    for part in parts {
        lab.step(part);
    }
    let (idle, own) = (lab.client(IDLE), lab.program(IDLE).pairs());
    for qpn in own {
        let reply = lab.request(IDLE, Request::QueryQp { qpn });
        assert!(matches!(reply, Reply::QpAttributes(_)), "{reply:?}");
    }
    let memory = lab.spaces.set(idle, None).expect("its memory");
    assert!(
        memory.iter().all(|&byte| byte == FIRST_BYTE),
        "nobody writes to its memory"
    );
    (0..=IDLE).for_each(|place| lab.close(place));
    lab.bench.empty();
}
