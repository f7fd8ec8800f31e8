//! The places of a socket's clients: how many are served at once, and who has to leave when more
//! come.
//!
//! A client that connects and asks nothing must not keep out one that wants to ask. So when all
//! places are taken, the client that has been idle for longest leaves; one that has never asked
//! anything before all others. One whose request is being worked on stays, and so does one that is
//! [kept](Place::keep).
//!
//! ```text
//!          begin                 end
//!  idle ---------> at work ---------------> idle
//!    |
//!    | its place is wanted, and it is idle for SILENT_GRACE (never asked) or IDLE_GRACE
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
const SILENT_GRACE: Duration = Duration::from_millis(500);

/// How long an idle client that has asked before keeps its place when others want it.
const IDLE_GRACE: Duration = Duration::from_secs(1);

/// The clients of one socket.
#[derive(Debug)]
pub struct Clients {
    places_max: usize,
    seats: RefCell<BTreeMap<u64, Rc<Seat>>>,
    last: Cell<u64>,
    /// Somebody has left, or is idle from now on.
    changed: Notify,
}

#[derive(Debug)]
struct Seat {
    state: Cell<State>,
    /// Whether it has ever asked anything.
    has_asked: Cell<bool>,
    kept: Cell<bool>,
    /// Whether it was told to leave.
    told: Cell<bool>,
    leave: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle { since: Instant },
    AtWork,
}

/// The place of one client; it is free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    clients: Rc<Clients>,
    number: u64,
    seat: Rc<Seat>,
}

impl Clients {
    /// Places for so many clients at once.
    #[must_use]
    pub fn new(places_max: usize) -> Rc<Self> {
        Rc::new(Self {
            places_max,
            seats: RefCell::default(),
            last: Cell::new(0),
            changed: Notify::new(),
        })
    }

    /// Waits until there is a place for one more client; has another one leave for that if need be.
    /// To be called inside a tokio runtime with time.
    pub async fn place(self: &Rc<Self>) -> Place {
        loop {
            let changed = self.changed.notified();
            if self.seats.borrow().len() < self.places_max {
                return self.take(Instant::now());
            }
            match self.next_to_leave() {
                Some((seat, at)) if at <= Instant::now() => {
                    tracing::info!(
                        places = self.places_max,
                        "all places at a socket are taken: an idle client has to leave"
                    );
                    seat.told.set(true);
                    seat.leave.notify_one();
                    changed.await;
                }
                // It may ask something, or somebody may leave before.
                Some((_, at)) => {
                    let _ = tokio::time::timeout_at(at, changed).await;
                }
                None => changed.await,
            }
        }
    }

    fn take(self: &Rc<Self>, since: Instant) -> Place {
        let seat = Rc::new(Seat {
            state: Cell::new(State::Idle { since }),
            has_asked: Cell::new(false),
            kept: Cell::new(false),
            told: Cell::new(false),
            leave: Notify::new(),
        });
        let number = self.last.get() + 1;
        self.last.set(number);
        self.seats.borrow_mut().insert(number, Rc::clone(&seat));
        Place {
            clients: Rc::clone(self),
            number,
            seat,
        }
    }

    /// The client that has to leave next, and from when on it may be told to. One that was told
    /// already leaves by itself.
    fn next_to_leave(&self) -> Option<(Rc<Seat>, Instant)> {
        let seats = self.seats.borrow();
        let candidates = seats.values().filter_map(|seat| {
            let State::Idle { since } = seat.state.get() else {
                return None;
            };
            let has_asked = seat.has_asked.get();
            let grace = if has_asked { IDLE_GRACE } else { SILENT_GRACE };
            let free = !seat.kept.get() && !seat.told.get();
            free.then_some((has_asked, since + grace, seat))
        });
        candidates
            .min_by_key(|&(has_asked, at, _)| (has_asked, at))
            .map(|(_, at, seat)| (Rc::clone(seat), at))
    }
}

impl Place {
    /// The client has asked something: it stays until [`Place::end`].
    pub fn begin(&self) {
        self.seat.has_asked.set(true);
        self.seat.state.set(State::AtWork);
    }

    /// Its request is done with, all but the sending of the reply.
    pub fn end(&self) {
        self.end_at(Instant::now());
    }

    fn end_at(&self, since: Instant) {
        self.seat.state.set(State::Idle { since });
        self.clients.changed.notify_one();
    }

    /// The client keeps its place, however long it is idle.
    pub fn keep(&self) {
        self.seat.kept.set(true);
    }

    /// Resolves when the client has to leave. To be waited for only while it is idle.
    pub async fn told_to_leave(&self) {
        self.seat.leave.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clients.seats.borrow_mut().remove(&self.number);
        self.clients.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whose turn it is to leave, and when.
    fn next(clients: &Clients) -> Option<(Rc<Seat>, Instant)> {
        clients.next_to_leave()
    }

    fn is_next(clients: &Clients, place: &Place, since: Instant) -> bool {
        next(clients).is_some_and(|(seat, at)| Rc::ptr_eq(&seat, &place.seat) && at == since)
    }

    #[test]
    fn who_never_asked_leaves_first_and_then_who_was_idle_for_longest() {
        let clients = Clients::new(4);
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let [late, early, busy] = [0, 1, 2].map(|ms| clients.take(after(ms)));
        for place in [&late, &early, &busy] {
            place.begin();
        }
        assert!(next(&clients).is_none(), "all are at work");
        early.end_at(after(10));
        late.end_at(after(20));
        assert!(is_next(&clients, &early, after(10) + IDLE_GRACE));
        let silent = clients.take(after(5_000));
        assert!(is_next(&clients, &silent, after(5_000) + SILENT_GRACE));
        drop(silent);
        drop(early);
        assert!(is_next(&clients, &late, after(20) + IDLE_GRACE));
        busy.end_at(after(30));
        drop(late);
        assert!(is_next(&clients, &busy, after(30) + IDLE_GRACE));
    }

    #[test]
    fn who_is_kept_or_was_told_already_is_not_told_to_leave() {
        let clients = Clients::new(2);
        let start = Instant::now();
        let [kept, told] = [(); 2].map(|()| clients.take(start));
        kept.keep();
        assert!(is_next(&clients, &told, start + SILENT_GRACE));
        told.seat.told.set(true);
        assert!(next(&clients).is_none());
    }
}
