//! The places of a socket's clients: how many are served at once, and who has to leave when more
//! come.
//!
//! A client that connects and asks nothing must not keep out one that wants to ask. So when all
//! places are taken, the client that has been idle for longest leaves; one that has never asked
//! anything before all others. One whose request is being worked on stays, and so does one that is
//! [pinned](ClientSlot::pin).
//!
//! ```text
//!        begin_request        end_request
//!  idle ---------------> at work -----------> idle
//!    |
//!    | its place is wanted, and it is idle for UNUSED_GRACE (never asked) or IDLE_GRACE
//!    v
//!  leaves
//! ```

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a client that has asked nothing keeps its place when others want it: the time between
/// connecting and asking, on a loaded machine.
const UNUSED_GRACE: Duration = Duration::from_millis(500);

/// How long an idle client that has asked before keeps its place when others want it.
const IDLE_GRACE: Duration = Duration::from_secs(1);

/// The clients of one socket.
#[derive(Debug)]
pub struct Clients {
    slots_max: usize,
    states: RefCell<BTreeMap<u64, Rc<ClientState>>>,
    last: Cell<u64>,
    /// Notified when a client has left, or is idle from now on.
    changed: Notify,
}

#[derive(Debug)]
struct ClientState {
    state: Cell<State>,
    /// Whether it has ever asked anything.
    has_asked: Cell<bool>,
    is_pinned: Cell<bool>,
    /// Whether it has been asked to leave already.
    is_evicted: Cell<bool>,
    leave: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle { since: Instant },
    AtWork,
}

/// The place of one client; it is free again when this is dropped.
#[derive(Debug)]
pub struct ClientSlot {
    clients: Rc<Clients>,
    number: u64,
    client: Rc<ClientState>,
}

impl Clients {
    /// Places for so many clients at once.
    #[must_use]
    pub fn new(slots_max: usize) -> Rc<Self> {
        Rc::new(Self {
            slots_max,
            states: RefCell::default(),
            last: Cell::new(0),
            changed: Notify::new(),
        })
    }

    /// Waits until there is a place for one more client; has another one leave for that if need be.
    /// To be called inside a tokio runtime with time.
    pub async fn acquire(self: &Rc<Self>) -> ClientSlot {
        loop {
            let changed = self.changed.notified();
            if self.states.borrow().len() < self.slots_max {
                return self.take(Instant::now());
            }
            match self.eviction_candidate() {
                Some((client, at)) if at <= Instant::now() => {
                    tracing::info!(
                        places = self.slots_max,
                        "all places at a socket are taken: an idle client has to leave"
                    );
                    client.is_evicted.set(true);
                    client.leave.notify_one();
                    changed.await;
                }
                // It may begin a request, or another client may leave before.
                Some((_, at)) => {
                    let _ = tokio::time::timeout_at(at, changed).await;
                }
                None => changed.await,
            }
        }
    }

    fn take(self: &Rc<Self>, since: Instant) -> ClientSlot {
        let client = Rc::new(ClientState {
            state: Cell::new(State::Idle { since }),
            has_asked: Cell::new(false),
            is_pinned: Cell::new(false),
            is_evicted: Cell::new(false),
            leave: Notify::new(),
        });
        let number = self.last.get() + 1;
        self.last.set(number);
        self.states.borrow_mut().insert(number, Rc::clone(&client));
        ClientSlot {
            clients: Rc::clone(self),
            number,
            client,
        }
    }

    /// The client that has to leave next, and from when on it may be asked to. One that was asked
    /// already leaves by itself.
    fn eviction_candidate(&self) -> Option<(Rc<ClientState>, Instant)> {
        let states = self.states.borrow();
        let candidates = states.values().filter_map(|client| {
            let State::Idle { since } = client.state.get() else {
                return None;
            };
            let has_asked = client.has_asked.get();
            let grace = if has_asked { IDLE_GRACE } else { UNUSED_GRACE };
            let can_leave = !client.is_pinned.get() && !client.is_evicted.get();
            can_leave.then_some((has_asked, since + grace, client))
        });
        candidates
            .min_by_key(|&(has_asked, at, _)| (has_asked, at))
            .map(|(_, at, client)| (Rc::clone(client), at))
    }
}

impl ClientSlot {
    /// The client has asked something: it stays until [`ClientSlot::end_request`].
    pub fn begin_request(&self) {
        self.client.has_asked.set(true);
        self.client.state.set(State::AtWork);
    }

    /// Its request is done with, all but the sending of the reply.
    pub fn end_request(&self) {
        self.end_at(Instant::now());
    }

    fn end_at(&self, since: Instant) {
        self.client.state.set(State::Idle { since });
        self.clients.changed.notify_one();
    }

    /// The client keeps its place, however long it is idle.
    pub fn pin(&self) {
        self.client.is_pinned.set(true);
    }

    /// Resolves when the client has to leave. To be waited for only while it is idle.
    pub async fn evicted(&self) {
        self.client.leave.notified().await;
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.clients.states.borrow_mut().remove(&self.number);
        self.clients.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whose turn it is to leave, and when.
    fn next(clients: &Clients) -> Option<(Rc<ClientState>, Instant)> {
        clients.eviction_candidate()
    }

    fn is_next(clients: &Clients, slot: &ClientSlot, since: Instant) -> bool {
        next(clients).is_some_and(|(client, at)| Rc::ptr_eq(&client, &slot.client) && at == since)
    }

    #[test]
    fn who_never_asked_leaves_first_and_then_who_was_idle_for_longest() {
        let clients = Clients::new(4);
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let [late, early, busy] = [0, 1, 2].map(|ms| clients.take(after(ms)));
        for slot in [&late, &early, &busy] {
            slot.begin_request();
        }
        assert!(next(&clients).is_none(), "all are at work");
        early.end_at(after(10));
        late.end_at(after(20));
        assert!(is_next(&clients, &early, after(10) + IDLE_GRACE));
        let silent = clients.take(after(5_000));
        assert!(is_next(&clients, &silent, after(5_000) + UNUSED_GRACE));
        drop(silent);
        drop(early);
        assert!(is_next(&clients, &late, after(20) + IDLE_GRACE));
        busy.end_at(after(30));
        drop(late);
        assert!(is_next(&clients, &busy, after(30) + IDLE_GRACE));
    }

    #[test]
    fn who_is_pinned_or_evicted_already_is_not_evicted() {
        let clients = Clients::new(2);
        let start = Instant::now();
        let [pinned, evicted] = [(); 2].map(|()| clients.take(start));
        pinned.pin();
        assert!(is_next(&clients, &evicted, start + UNUSED_GRACE));
        evicted.client.is_evicted.set(true);
        assert!(next(&clients).is_none());
    }
}
