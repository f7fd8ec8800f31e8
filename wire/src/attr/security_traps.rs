//! Details of the traps that tell of a wrong key (IBA 14.2.5.1).
//!
//! ```text
//! byte      256 (bad M_Key)
//!    0      reserved (2)
//!    2      LIDADDR: who asked (2)
//!    4      DRSLID (2)
//!    6      METHOD (1), reserved (1)
//!    8      ATTRIBUTEID (2)
//!   10      ATTRIBUTEMODIFIER (4)
//!   14      MKEY (8)
//!   22      reserved (1)
//!   23      DRNotice (1 bit), DRPathTruncated (1 bit), DRHopCount (6 bits)
//!   24      DRNoticeReturnPath (30)
//! ```

use core::fmt;

use crate::format::{array, put, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::mad::{AttributeId, Mad, Method, MgmtClass};
use crate::{Format, Lid, ParseError};

const DR_NOTICE: u8 = 0x80;
const DR_PATH_TRUNCATED: u8 = 0x40;
const DR_HOPS: u8 = 0x3f;

/// Details of trap 256: the request that came with a wrong M_Key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trap256 {
    /// Source LID of the request's packet; permissive for one that came by a directed route alone.
    pub lid: Lid,
    /// What was asked.
    pub method: Method,
    /// Of which attribute.
    pub attr_id: AttributeId,
    /// Its modifier.
    pub attr_mod: u32,
    /// The M_Key that the request gave.
    pub m_key: u64,
    /// The way of a directed-route request; `None` for a LID-routed one.
    pub route: Option<TrapRoute>,
}

impl fmt::Debug for Trap256 {
    /// Without the key: a wrong key may be the right one of another subnet.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trap256")
            .field("lid", &self.lid)
            .field("method", &self.method)
            .field("attr_id", &self.attr_id)
            .field("attr_mod", &self.attr_mod)
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}

/// The way of a directed-route request, as trap 256 tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrapRoute {
    /// DrSLID of the request.
    pub dr_slid: Lid,
    /// Whether the route has more hops than the notice holds.
    pub is_truncated: bool,
    /// How many entries of `return_path` count: 0..=30 in notices of our agents; 6 bits (emitting
    /// drops higher ones).
    pub hops: u8,
    /// The port by which the request has reached each device of its route, the first hop's first.
    pub return_path: [u8; Self::HOPS_MAX],
}

impl TrapRoute {
    /// How many hops a notice holds.
    pub const HOPS_MAX: usize = 30;

    /// The route of a directed-route request whose route has ended; `None` for another class.
    fn of(request: &Mad) -> Option<Self> {
        if request.class() != MgmtClass::SUBN_DIR {
            return None;
        }
        let hops = usize::from(request.hop_count());
        let kept = hops.min(Self::HOPS_MAX);
        let mut return_path = [0; Self::HOPS_MAX];
        // Entry 0 of an SMP's path is not used.
        return_path[..kept].copy_from_slice(&request.return_path()[1..=kept]);
        Some(Self {
            dr_slid: request.dr_slid(),
            is_truncated: hops > kept,
            // Cannot be cut: at most HOPS_MAX.
            hops: u8::try_from(kept).unwrap_or(u8::MAX),
            return_path,
        })
    }

    /// The entries of `return_path` that count.
    #[must_use]
    pub fn ports(&self) -> &[u8] {
        &self.return_path[..usize::from(self.hops).min(Self::HOPS_MAX)]
    }
}

impl Trap256 {
    /// The details of `request`, which came in a packet from `lid`.
    #[must_use]
    pub fn of(lid: Lid, request: &Mad) -> Self {
        Self {
            lid,
            method: request.method(),
            attr_id: request.attr_id(),
            attr_mod: request.attr_mod(),
            m_key: request.m_key(),
            route: TrapRoute::of(request),
        }
    }
}

impl Format for Trap256 {
    const NAME: &'static str = "details of trap 256";
    const LEN: usize = 54;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let route = (raw[23] & DR_NOTICE != 0).then(|| TrapRoute {
            dr_slid: Lid::new(u16_at(raw, 4)),
            is_truncated: raw[23] & DR_PATH_TRUNCATED != 0,
            hops: raw[23] & DR_HOPS,
            return_path: array(raw, 24),
        });
        Ok(Self {
            lid: Lid::new(u16_at(raw, 2)),
            method: Method(raw[6]),
            attr_id: AttributeId(u16_at(raw, 8)),
            attr_mod: u32_at(raw, 10),
            m_key: u64_at(raw, 14),
            route,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 2, self.lid.get());
        raw[6] = self.method.0;
        put_u16(raw, 8, self.attr_id.0);
        put_u32(raw, 10, self.attr_mod);
        put_u64(raw, 14, self.m_key);
        if let Some(route) = &self.route {
            put_u16(raw, 4, route.dr_slid.get());
            let truncated = if route.is_truncated {
                DR_PATH_TRUNCATED
            } else {
                0
            };
            raw[23] = DR_NOTICE | truncated | (route.hops & DR_HOPS);
            put(raw, 24, route.return_path);
        }
    }
}
