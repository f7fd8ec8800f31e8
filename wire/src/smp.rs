//! Subnet management datagrams, LID routed and directed route (IBA 14.2.1, 14.2.2).
//!
//! ```text
//! byte   0  common header; directed: status bit 15 is D, byte 6 HopPointer, byte 7 HopCount
//!       24  M_Key (8)
//!       32  directed: DrSLID (2), DrDLID (2); else reserved
//!       36  reserved (28)
//!       64  attribute data (64)
//!      128  directed: InitialPath (64)
//!      192  directed: ReturnPath (64)
//! ```
//! A directed SMP is changed in place on its way, so access to its fields is in place as well.

use crate::attr::Attribute;
use crate::format::{put_u16, put_u64, u16_at, u64_at};
use crate::mad::{AttributeId, Mad, MadHeader, MadStatus, Method, MgmtClass};
use crate::{Lid, ParseError, PortNum};

const M_KEY_AT: usize = 24;
const DR_SLID_AT: usize = 32;
const DR_DLID_AT: usize = 34;
const DATA_AT: usize = 64;
const INITIAL_PATH_AT: usize = 128;
const RETURN_PATH_AT: usize = 192;
const DIRECTION: u16 = 0x8000;

/// The bytes of an SMP's attribute.
pub const DATA_LEN: usize = 64;
/// The most hops of a directed route: entry 0 of the 64 is not used.
pub const HOPS_MAX: u8 = 63;

/// Subnet management: the SMP behind a MAD.
impl Mad {
    /// A LID-routed SMP.
    #[must_use]
    pub fn lid_smp(method: Method, attr_id: AttributeId, attr_mod: u32, tid: u64) -> Self {
        let class = MgmtClass::SUBN_LID;
        Self::new(&MadHeader::request(class, method, attr_id, attr_mod, tid))
    }

    /// A directed-route SMP before its first hop, both LID-routed parts empty (permissive LIDs).
    /// `path` lists the exit port of each hop, from the sender's own.
    ///
    /// # Errors
    /// [`crate::EmitError::TooLong`] above [`HOPS_MAX`] hops.
    pub fn directed_smp(
        method: Method,
        attr_id: AttributeId,
        attr_mod: u32,
        tid: u64,
        path: &[PortNum],
    ) -> Result<Self, crate::EmitError> {
        let too_long = crate::EmitError::TooLong {
            what: "directed route",
            len: path.len(),
            max: usize::from(HOPS_MAX),
        };
        let hops = u8::try_from(path.len()).map_err(|_| too_long)?;
        if hops > HOPS_MAX {
            return Err(too_long);
        }
        let class = MgmtClass::SUBN_DIR;
        let mut mad = Self::new(&MadHeader::request(class, method, attr_id, attr_mod, tid));
        mad.set_hop_count(hops);
        mad.set_dr_slid(Lid::PERMISSIVE);
        mad.set_dr_dlid(Lid::PERMISSIVE);
        for (entry, port) in mad.initial_path_mut()[1..].iter_mut().zip(path) {
            *entry = port.get();
        }
        Ok(mad)
    }

    /// The management key.
    #[must_use]
    pub fn m_key(&self) -> u64 {
        u64_at(&self.0, M_KEY_AT)
    }

    /// Replaces the management key.
    pub fn set_m_key(&mut self, key: u64) {
        put_u64(&mut self.0, M_KEY_AT, key);
    }

    /// The attribute's bytes.
    #[must_use]
    pub fn smp_data(&self) -> &[u8; DATA_LEN] {
        self.chunk(DATA_AT)
    }

    /// The attribute's bytes, to be changed.
    pub fn smp_data_mut(&mut self) -> &mut [u8; DATA_LEN] {
        self.chunk_mut(DATA_AT)
    }

    /// The SMP's attribute.
    ///
    /// # Errors
    /// What the attribute's [`parse`](crate::Format::parse) says. Whether the attribute id fits
    /// is not looked at.
    pub fn smp_attribute<A: Attribute>(&self) -> Result<A, ParseError> {
        A::parse(self.smp_data()).map(|(attribute, _)| attribute)
    }

    /// Puts an attribute into the SMP and zeroes what is left of the 64 bytes.
    pub fn set_smp_attribute<A: Attribute>(&mut self, attribute: &A) {
        let data = self.smp_data_mut();
        data[A::LEN..].fill(0);
        attribute.emit(data);
    }

    /// Directed: whether the SMP is on its way back (D).
    #[must_use]
    pub fn is_returning(&self) -> bool {
        self.status().0 & DIRECTION != 0
    }

    /// Directed: sets or clears D and leaves the status alone.
    pub fn set_returning(&mut self, returning: bool) {
        let direction = if returning { DIRECTION } else { 0 };
        self.set_status(MadStatus(self.status().without_direction().0 | direction));
    }

    /// Directed: which hop is under way.
    #[must_use]
    pub const fn hop_pointer(&self) -> u8 {
        self.0[6]
    }

    /// Directed: replaces the hop pointer.
    pub const fn set_hop_pointer(&mut self, hop: u8) {
        self.0[6] = hop;
    }

    /// Directed: how many hops the directed part has.
    #[must_use]
    pub const fn hop_count(&self) -> u8 {
        self.0[7]
    }

    /// Directed: replaces the hop count.
    pub const fn set_hop_count(&mut self, hops: u8) {
        self.0[7] = hops;
    }

    /// Directed: source LID of the LID-routed part before; permissive if there is none.
    #[must_use]
    pub fn dr_slid(&self) -> Lid {
        Lid::new(u16_at(&self.0, DR_SLID_AT))
    }

    /// Directed: replaces DrSLID.
    pub fn set_dr_slid(&mut self, lid: Lid) {
        put_u16(&mut self.0, DR_SLID_AT, lid.get());
    }

    /// Directed: destination LID of the LID-routed part behind; permissive if there is none.
    #[must_use]
    pub fn dr_dlid(&self) -> Lid {
        Lid::new(u16_at(&self.0, DR_DLID_AT))
    }

    /// Directed: replaces DrDLID.
    pub fn set_dr_dlid(&mut self, lid: Lid) {
        put_u16(&mut self.0, DR_DLID_AT, lid.get());
    }

    /// Directed: exit ports on the way out; entry 0 is not used.
    #[must_use]
    pub fn initial_path(&self) -> &[u8; DATA_LEN] {
        self.chunk(INITIAL_PATH_AT)
    }

    /// Directed: exit ports on the way out, to be changed.
    pub fn initial_path_mut(&mut self) -> &mut [u8; DATA_LEN] {
        self.chunk_mut(INITIAL_PATH_AT)
    }

    /// Directed: exit ports on the way back; entry 0 is not used.
    #[must_use]
    pub fn return_path(&self) -> &[u8; DATA_LEN] {
        self.chunk(RETURN_PATH_AT)
    }

    /// Directed: exit ports on the way back, to be changed.
    pub fn return_path_mut(&mut self) -> &mut [u8; DATA_LEN] {
        self.chunk_mut(RETURN_PATH_AT)
    }

    /// The 64 bytes at `at`, a constant of this module: always inside the 256.
    fn chunk(&self, at: usize) -> &[u8; DATA_LEN] {
        let Some(chunk) = self.0[at..].first_chunk() else {
            unreachable!("an SMP's areas end inside its 256 bytes");
        };
        chunk
    }

    /// The 64 bytes at `at`, to be changed.
    fn chunk_mut(&mut self, at: usize) -> &mut [u8; DATA_LEN] {
        let Some(chunk) = self.0[at..].first_chunk_mut() else {
            unreachable!("an SMP's areas end inside its 256 bytes");
        };
        chunk
    }
}
