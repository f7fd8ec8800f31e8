//! Windows in which every sender has its own way through the fabric (CLOS04).

use super::{VendorAttribute, WINDOW_GRANT, WINDOW_REQUEST, WINDOW_STATE};
use crate::format::{put_u16, put_u32, u16_at, u32_at};
use crate::mad::AttributeId;
use crate::{Format, Lid, ParseError};

/// The most pairs of one [`WindowRequest`].
pub const PAIRS_MAX: usize = 53;

/// Connections requested.
///
/// ```text
/// byte   0  windows (2)
///        2  reserved (2)
///        4  53 times source's LID (2), destination's LID (2); source 0: no pair
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowRequest {
    /// For how many windows: 0 ends them, [`WindowRequest::UNTIL_ENDED`] has no end.
    pub windows: u16,
    /// Source and destination, each by any of its LIDs. Source 0: no pair.
    pub pairs: [(Lid, Lid); PAIRS_MAX],
}

impl WindowRequest {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 216;
    /// In [`WindowRequest::windows`]: until a request with 0 comes.
    pub const UNTIL_ENDED: u16 = 0xffff;

    /// A request for the first [`PAIRS_MAX`] of these pairs.
    #[must_use]
    pub fn of(windows: u16, pairs: &[(Lid, Lid)]) -> Self {
        let mut request = Self {
            windows,
            pairs: [(Lid::ZERO, Lid::ZERO); PAIRS_MAX],
        };
        for (to, from) in request.pairs.iter_mut().zip(pairs) {
            *to = *from;
        }
        request
    }

    /// The pairs that there are.
    pub fn iter(&self) -> impl Iterator<Item = (Lid, Lid)> + '_ {
        let there = |&(source, _): &(Lid, Lid)| source != Lid::ZERO;
        self.pairs.iter().copied().filter(there)
    }
}

impl Format for WindowRequest {
    const NAME: &'static str = "WindowRequest";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            windows: u16_at(raw, 0),
            pairs: core::array::from_fn(|index| {
                let at = 4 + 4 * index;
                let (source, destination) = (u16_at(raw, at), u16_at(raw, at + 2));
                (Lid::new(source), Lid::new(destination))
            }),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.windows);
        for (index, (source, destination)) in self.pairs.iter().enumerate() {
            let at = 4 + 4 * index;
            put_u16(raw, at, source.get());
            put_u16(raw, at + 2, destination.get());
        }
    }
}

impl VendorAttribute for WindowRequest {
    const ID: AttributeId = WINDOW_REQUEST;
}

/// The state of the windows. Numbers count from the start of the session.
///
/// ```text
/// byte   0  session (4)
///        4  window (4)
///        8  late windows (4)
///       12  moved connections (4)
///       16  deferrals (4)
///       20  deferrals because no tree was free (4)
///       24  unanswered grants (4)
///       28  connections (2)
///       30  waiting (2)
///       32  trees (2); 0: the fabric has no windows
///       34  windows a second (2)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WindowState {
    /// Which run of the controller this is.
    pub session: u32,
    /// Windows begun.
    pub window: u32,
    /// Windows that began late, because senders of the one before had not answered yet.
    pub late: u32,
    /// Connections that changed their tree.
    pub moved: u32,
    /// How often a request was put off to a later window.
    pub deferred: u32,
    /// How often because no tree was left.
    pub blocked: u32,
    /// Grants that no host has answered.
    pub unanswered: u32,
    /// Connections of the window.
    pub connections: u16,
    /// Requests that wait for a later one.
    pub waiting: u16,
    /// Routing trees; 0: the fabric has no windows.
    pub trees: u16,
    /// Windows a second.
    pub rate: u16,
}

impl WindowState {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 36;
}

impl Format for WindowState {
    const NAME: &'static str = "WindowState";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            session: u32_at(raw, 0),
            window: u32_at(raw, 4),
            late: u32_at(raw, 8),
            moved: u32_at(raw, 12),
            deferred: u32_at(raw, 16),
            blocked: u32_at(raw, 20),
            unanswered: u32_at(raw, 24),
            connections: u16_at(raw, 28),
            waiting: u16_at(raw, 30),
            trees: u16_at(raw, 32),
            rate: u16_at(raw, 34),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.session);
        put_u32(raw, 4, self.window);
        put_u32(raw, 8, self.late);
        put_u32(raw, 12, self.moved);
        put_u32(raw, 16, self.deferred);
        put_u32(raw, 20, self.blocked);
        put_u32(raw, 24, self.unanswered);
        put_u16(raw, 28, self.connections);
        put_u16(raw, 30, self.waiting);
        put_u16(raw, 32, self.trees);
        put_u16(raw, 34, self.rate);
    }
}

impl VendorAttribute for WindowState {
    const ID: AttributeId = WINDOW_STATE;
}

/// The destination that a host may send to from now on, and the DLID.
///
/// ```text
/// byte   0  session (4)
///        4  step (4)
///        8  destination's base LID (2); 0: none
///       10  DLID (2); 0: not now
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WindowGrant {
    /// Which run of the controller this is. Another one starts from nothing.
    pub session: u32,
    /// Grows with each grant of a session: an older one that comes late is not followed.
    pub step: u32,
    /// Base LID of the only destination; 0: none.
    pub destination: Lid,
    /// By which of its LIDs; 0: nothing may be sent.
    pub dlid: Lid,
}

impl WindowGrant {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 12;
}

impl Format for WindowGrant {
    const NAME: &'static str = "WindowGrant";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            session: u32_at(raw, 0),
            step: u32_at(raw, 4),
            destination: Lid::new(u16_at(raw, 8)),
            dlid: Lid::new(u16_at(raw, 10)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.session);
        put_u32(raw, 4, self.step);
        put_u16(raw, 8, self.destination.get());
        put_u16(raw, 10, self.dlid.get());
    }
}

impl VendorAttribute for WindowGrant {
    const ID: AttributeId = WINDOW_GRANT;
}
