//! Details of the traps that report a wrong key (IBA 14.2.5.1).
//!
//! ```text
//! byte      256 (bad M_Key)
//!    0      reserved (2)
//!    2      LIDADDR: SLID of the request (2)
//!    4      DRSLID (2)
//!    6      METHOD (1), reserved (1)
//!    8      ATTRIBUTEID (2)
//!   10      ATTRIBUTEMODIFIER (4)
//!   14      MKEY (8)
//!   22      reserved (1)
//!   23      DRNotice (1 bit), DRPathTruncated (1 bit), DRHopCount (6 bits)
//!   24      DRNoticeReturnPath (30)
//!
//! byte      257 (bad P_Key), 258 (bad Q_Key)       259 (bad P_Key at a port of a switch)
//!    0      reserved (2)                           DataValid (2)
//!    2      LIDADDR1: from (2)                     the same
//!    4      LIDADDR2: to (2)                       the same
//!    6      KEY (4)                                PKEY (2), and what follows two bytes earlier
//!   10      SL (4 bits), reserved (4), QP1 (24)
//!   14      reserved (8 bits), QP2 (24)
//!   18      GIDADDR1 (16), GIDADDR2 (16)
//!   48                                             SWLIDADDR (2), PORTNO (1)
//! ```

use core::fmt;

use crate::format::{array, put, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::mad::{AttributeId, Mad, Method, MgmtClass};
use crate::{Format, Gid, Lid, ParseError, PortNum, Qpn, Sl};

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

/// The way of a directed-route request, as trap 256 gives it.
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

/// Details of traps 257 and 258: the packet with a P_Key or Q_Key that its receiver does not take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trap257 {
    /// Source LID of the packet.
    pub slid: Lid,
    /// Its DLID.
    pub dlid: Lid,
    /// The key: a P_Key (16 bits), or a Q_Key.
    pub key: u32,
    /// Its service level.
    pub sl: Sl,
    /// The queue pair that has sent it.
    pub src_qp: Qpn,
    /// The queue pair that it is for.
    pub dest_qp: Qpn,
    /// Source GID of its GRH; zero without one.
    pub sgid: Gid,
    /// Destination GID of its GRH; zero without one.
    pub dgid: Gid,
}

/// The service level in front of the number of a queue pair.
fn sl_and_qp(sl: Sl, qp: Qpn) -> u32 {
    (u32::from(sl.get()) << 28) | qp.get()
}

fn sl_of(word: u32) -> Sl {
    let [first, ..] = word.to_be_bytes();
    Sl::truncate(first >> 4)
}

impl Format for Trap257 {
    const NAME: &'static str = "details of traps 257 and 258";
    const LEN: usize = 50;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            slid: Lid::new(u16_at(raw, 2)),
            dlid: Lid::new(u16_at(raw, 4)),
            key: u32_at(raw, 6),
            sl: sl_of(u32_at(raw, 10)),
            src_qp: Qpn::truncate(u32_at(raw, 10)),
            dest_qp: Qpn::truncate(u32_at(raw, 14)),
            sgid: Gid(array(raw, 18)),
            dgid: Gid(array(raw, 34)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 2, self.slid.get());
        put_u16(raw, 4, self.dlid.get());
        put_u32(raw, 6, self.key);
        put_u32(raw, 10, sl_and_qp(self.sl, self.src_qp));
        put_u32(raw, 14, self.dest_qp.get());
        put(raw, 18, self.sgid.0);
        put(raw, 34, self.dgid.0);
    }
}

/// Details of trap 259: the packet with a P_Key that an external port of a switch does not let through.
/// A switch reads BTH and GRH only, which do not hold the sender's QP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trap259 {
    /// Which of the other components are valid: bits named below.
    pub valid: u16,
    /// Source LID of the packet.
    pub slid: Lid,
    /// Its DLID.
    pub dlid: Lid,
    /// Its P_Key.
    pub p_key: u16,
    /// Its service level.
    pub sl: Sl,
    /// The queue pair that has sent it.
    pub src_qp: Qpn,
    /// The queue pair that it is for.
    pub dest_qp: Qpn,
    /// Source GID of its GRH.
    pub sgid: Gid,
    /// Destination GID of its GRH.
    pub dgid: Gid,
    /// LID of the switch.
    pub switch: Lid,
    /// Its port.
    pub port: PortNum,
}

impl Trap259 {
    /// The source LID is valid.
    pub const LID1: u16 = 0x0001;
    /// The DLID is valid.
    pub const LID2: u16 = 0x0002;
    /// The P_Key is valid.
    pub const PKEY: u16 = 0x0004;
    /// The service level is valid.
    pub const SL: u16 = 0x0008;
    /// The queue pair that has sent the packet is valid.
    pub const QP1: u16 = 0x0010;
    /// The queue pair that it is for is valid.
    pub const QP2: u16 = 0x0020;
    /// The source GID is valid.
    pub const GID1: u16 = 0x0040;
    /// The destination GID is valid.
    pub const GID2: u16 = 0x0080;
}

impl Format for Trap259 {
    const NAME: &'static str = "details of trap 259";
    const LEN: usize = 51;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            valid: u16_at(raw, 0),
            slid: Lid::new(u16_at(raw, 2)),
            dlid: Lid::new(u16_at(raw, 4)),
            p_key: u16_at(raw, 6),
            sl: sl_of(u32_at(raw, 8)),
            src_qp: Qpn::truncate(u32_at(raw, 8)),
            dest_qp: Qpn::truncate(u32_at(raw, 12)),
            sgid: Gid(array(raw, 16)),
            dgid: Gid(array(raw, 32)),
            switch: Lid::new(u16_at(raw, 48)),
            port: PortNum::new(raw[50]),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.valid);
        put_u16(raw, 2, self.slid.get());
        put_u16(raw, 4, self.dlid.get());
        put_u16(raw, 6, self.p_key);
        put_u32(raw, 8, sl_and_qp(self.sl, self.src_qp));
        put_u32(raw, 12, self.dest_qp.get());
        put(raw, 16, self.sgid.0);
        put(raw, 32, self.dgid.0);
        put_u16(raw, 48, self.switch.get());
        raw[50] = self.port.get();
    }
}
