//! An opened adapter: the connection to its host, and what is made by it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, RwLock};

use netio::event;
use netio::shared_memory::SharedMemory;
use rustix::io::Errno;
use uverbs::entry::Completion;
use uverbs::{DeviceAttributes, Reply, Request, doorbell};

use crate::abi::FORKS;
use crate::connection::{Connection, Result, errno};
use crate::environment::Place;
use crate::patience;
use crate::work_queue::WorkQueue;

/// Of `ibv_wc_opcode`: the completion is of a receive request.
const RECEIVE: u32 = 1 << 7;

/// The queues of a queue pair.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    pub(crate) send: Arc<WorkQueue>,
    /// Its own, or the shared one.
    pub(crate) receive: Arc<WorkQueue>,
    pub(crate) is_shared: bool,
}

/// An opened adapter.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Connection,
    /// The event descriptor that wakes the host.
    waker: OwnedFd,
    doorbells: SharedMemory,
    /// How often this process had been forked when the adapter was opened.
    forks: u32,
    queues: RwLock<HashMap<u32, Queues>>,
    /// By cookie, where what events are told of is in the program's memory.
    objects: Mutex<Objects>,
}

#[derive(Debug, Default)]
struct Objects {
    last: u64,
    places: BTreeMap<u64, usize>,
}

fn mismatch<T>() -> Result<T> {
    Err(Errno::PROTO)
}

impl Session {
    /// Opens a port of an adapter; also what it is like, and the pipe of asynchronous events.
    pub(crate) fn open(place: &Place, port: u8) -> Result<(Self, DeviceAttributes, OwnedFd)> {
        let forks = FORKS.load(Ordering::Relaxed);
        let connection = Connection::open(&place.socket)?;
        let own = File::options()
            .read(true)
            .write(true)
            .open("/proc/self/mem");
        let own = own.map_err(|error| errno(&error))?;
        let version = uverbs::VERSION;
        let opened = connection.ask(&Request::Open { version, port }, &[own.as_fd()])?;
        let (Reply::Opened(attributes), descriptors) = opened else {
            return mismatch();
        };
        let Ok([waker, page, events]) = <[OwnedFd; 3]>::try_from(descriptors) else {
            return mismatch();
        };
        let session = Self {
            connection,
            waker,
            doorbells: SharedMemory::open(&page, doorbell::WORDS).map_err(|error| errno(&error))?,
            forks,
            queues: RwLock::default(),
            objects: Mutex::default(),
        };
        Ok((session, *attributes, events))
    }

    /// Whether this process has opened the adapter. What a forked child has of it is its parent's: it refuses.
    pub(crate) fn check(&self) -> Result<()> {
        match self.forks == FORKS.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Errno::NODEV),
        }
    }

    fn ask(&self, request: &Request) -> Result<(Reply, Vec<OwnedFd>)> {
        self.check()?;
        self.connection.ask(request, &[])
    }

    /// Asks for something that is done without a result.
    pub(crate) fn run(&self, request: &Request) -> Result<()> {
        match self.ask(request)? {
            (Reply::Done, _) => Ok(()),
            _ => mismatch(),
        }
    }

    /// Asks for a number.
    pub(crate) fn number(&self, request: &Request) -> Result<u32> {
        match self.ask(request)? {
            (Reply::Handle(number), _) => Ok(number),
            _ => mismatch(),
        }
    }

    /// Asks for a number and a descriptor.
    pub(crate) fn number_and_descriptor(&self, request: &Request) -> Result<(u32, OwnedFd)> {
        match self.ask(request)? {
            (Reply::Handle(number), descriptors) => Ok((number, only(descriptors)?)),
            _ => mismatch(),
        }
    }

    /// Asks for a completion queue: its handle, the room of its ring, and the ring.
    pub(crate) fn completion_queue(&self, request: &Request) -> Result<(u32, u32, OwnedFd)> {
        match self.ask(request)? {
            (Reply::Cq { cq, entries }, descriptors) => Ok((cq, entries, only(descriptors)?)),
            _ => mismatch(),
        }
    }

    /// Asks for queues of work requests.
    pub(crate) fn queues(&self, request: &Request) -> Result<(Reply, Vec<OwnedFd>)> {
        self.ask(request)
    }

    /// What the adapter and its port are like now.
    pub(crate) fn describe(&self) -> Result<DeviceAttributes> {
        match self.ask(&Request::Describe)? {
            (Reply::Device(attributes), _) => Ok(*attributes),
            _ => mismatch(),
        }
    }

    /// What a queue pair is set to.
    pub(crate) fn query_queue_pair(&self, qpn: u32) -> Result<uverbs::QpAttributes> {
        match self.ask(&Request::QueryQp { qpn })? {
            (Reply::QpAttributes(attributes), _) => Ok(*attributes),
            _ => mismatch(),
        }
    }

    /// Tells the host that a queue has new requests.
    pub(crate) fn ring(&self, queue: u32) {
        if doorbell::ring(self.doorbells.words(), queue) {
            event::signal(&self.waker);
        }
    }

    /// Keeps the queues of a new queue pair.
    pub(crate) fn insert(&self, qpn: u32, queues: Queues) {
        if let Ok(mut all) = self.queues.write() {
            all.insert(qpn, queues);
        }
    }

    /// Forgets those of a queue pair that is no more.
    pub(crate) fn remove(&self, qpn: u32) {
        if let Ok(mut all) = self.queues.write() {
            all.remove(&qpn);
        }
    }

    /// Frees the places of the requests that a completion ends.
    pub(crate) fn retire(&self, completion: &Completion) {
        let Ok(all) = self.queues.read() else {
            return;
        };
        if let Some(queues) = all.get(&completion.qpn) {
            match completion.opcode & RECEIVE {
                0 => patience::sent(queues.send.retire(completion.retired)),
                _ => _ = queues.receive.retire(completion.retired),
            }
        }
    }

    /// A new cookie for what is at a place of the program's memory; [`Self::place_object`] says where.
    pub(crate) fn new_cookie(&self) -> Result<u64> {
        let mut objects = self.objects.lock().map_err(|_| Errno::IO)?;
        objects.last += 1;
        Ok(objects.last)
    }

    /// Says where what a cookie names is.
    pub(crate) fn place_object(&self, cookie: u64, place: usize) {
        if let Ok(mut objects) = self.objects.lock() {
            objects.places.insert(cookie, place);
        }
    }

    /// Forgets a cookie: events that name it are passed over from now on.
    pub(crate) fn forget_object(&self, cookie: u64) {
        if let Ok(mut objects) = self.objects.lock() {
            objects.places.remove(&cookie);
        }
    }

    /// Calls `count` with the place of what a cookie names, which is not forgotten meanwhile.
    pub(crate) fn with_object<T>(&self, cookie: u64, count: impl FnOnce(usize) -> T) -> Option<T> {
        let objects = self.objects.lock().ok()?;
        objects.places.get(&cookie).map(|&place| count(place))
    }
}

fn only(descriptors: Vec<OwnedFd>) -> Result<OwnedFd> {
    match <[OwnedFd; 1]>::try_from(descriptors) {
        Ok([descriptor]) => Ok(descriptor),
        Err(_) => mismatch(),
    }
}
