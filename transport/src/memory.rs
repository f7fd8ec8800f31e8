//! Memory regions: keys, access rights, bounds (IBA 10.6), and the memory behind them.

use crate::error::Refused;
use crate::ids::{PdId, key, place_of};
use crate::slab::Slab;
use crate::status::Status;
use crate::work::Sge;

/// Whose memory: what it means is the business of the [`Memory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// Memory could not be read or written: it is not mapped, or its owner has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFault;

/// An atomic operation on eight bytes (IBA 9.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Stores `swap` if the memory holds `compare`.
    CompareSwap {
        /// The value to compare with.
        compare: u64,
        /// The value to store.
        swap: u64,
    },
    /// Adds, modulo 2^64.
    FetchAdd {
        /// The value to add.
        add: u64,
    },
}

impl Atomic {
    /// The value after the operation.
    #[must_use]
    pub const fn applied_to(self, original: u64) -> u64 {
        match self {
            Self::CompareSwap { compare, swap } if original == compare => swap,
            Self::CompareSwap { .. } => original,
            Self::FetchAdd { add } => original.wrapping_add(add),
        }
    }
}

/// The memory that regions lie in. Addresses have been checked against the region; whether they are mapped
/// is known here only.
pub trait Memory {
    /// Fills `out` from `address` on.
    ///
    /// # Errors
    /// [`MemoryFault`]; `out` may then be filled in part.
    fn read(&mut self, space: SpaceId, address: u64, out: &mut [u8]) -> Result<(), MemoryFault>;

    /// Writes `bytes` from `address` on.
    ///
    /// # Errors
    /// [`MemoryFault`]; the memory may then be written in part.
    fn write(&mut self, space: SpaceId, address: u64, bytes: &[u8]) -> Result<(), MemoryFault>;

    /// Executes an operation on the eight bytes at `address`, a multiple of 8, in the byte order of the
    /// machine, and returns what they held before.
    ///
    /// # Errors
    /// [`MemoryFault`]; nothing has been written.
    fn atomic(
        &mut self,
        space: SpaceId,
        address: u64,
        operation: Atomic,
    ) -> Result<u64, MemoryFault>;
}

/// What may be done with a region, or by a queue pair's peer. The bits are those of `ibv_access_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access(u32);

impl Access {
    /// Nothing but local reads.
    pub const NONE: Self = Self(0);
    /// Local writes: receiving, results of READs and atomics.
    pub const LOCAL_WRITE: Self = Self(1);
    /// RDMA WRITE by a peer.
    pub const REMOTE_WRITE: Self = Self(2);
    /// RDMA READ by a peer.
    pub const REMOTE_READ: Self = Self(4);
    /// Atomics by a peer.
    pub const REMOTE_ATOMIC: Self = Self(8);
    /// A peer's SEND with Invalidate may take the remote rights away: what fast registration does in a
    /// kernel. Not a bit of `ibv_access_flags`.
    pub const REMOTE_INVALIDATE: Self = Self(1 << 31);
    const ALL: u32 = 0x8000_000f;
    /// What `ibv_access_flags` has from bit 20 on may be ignored by a provider.
    const OPTIONAL: u32 = 0x3ff0_0000;

    /// The rights that these bits stand for, optional ones left out.
    ///
    /// # Errors
    /// [`Refused::NotSupported`] for others: memory windows, zero-based and on-demand regions.
    pub const fn from_bits(bits: u32) -> Result<Self, Refused> {
        let bits = bits & !Self::OPTIONAL;
        if bits & !Self::ALL != 0 {
            return Err(Refused::NotSupported(
                "access flags beyond local write, remote write, read and atomic",
            ));
        }
        Ok(Self(bits))
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// These rights and those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all rights of `other` are among these.
    #[must_use]
    pub const fn allows(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A memory region to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionConfig {
    /// Its protection domain.
    pub pd: PdId,
    /// Whose memory it is.
    pub space: SpaceId,
    /// Where the memory starts in its space.
    pub address: u64,
    /// The address by which work requests and peers know its start: most often the same.
    pub iova: u64,
    /// Its length in bytes; not 0.
    pub length: u64,
    /// The rights to it.
    pub access: Access,
}

/// All regions.
#[derive(Debug)]
pub(crate) struct Regions {
    slab: Slab<RegionConfig>,
}

/// A piece of memory that has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) space: SpaceId,
    pub(crate) address: u64,
}

/// Whether a region can be.
fn check(config: &RegionConfig) -> Result<(), Refused> {
    let remote = Access(Access::REMOTE_WRITE.0 | Access::REMOTE_ATOMIC.0);
    if config.access.0 & remote.0 != 0 && !config.access.allows(Access::LOCAL_WRITE) {
        return Err(Refused::Invalid(
            "remote write and atomic access need local write access",
        ));
    }
    let ends = config.length.checked_sub(1).is_some_and(|last| {
        config.address.checked_add(last).is_some() && config.iova.checked_add(last).is_some()
    });
    if !ends {
        return Err(Refused::Invalid(
            "a region has at least a byte and ends within the address space",
        ));
    }
    Ok(())
}

impl Regions {
    pub(crate) const fn new(max: u32) -> Self {
        Self {
            slab: Slab::new(max),
        }
    }

    pub(crate) fn register(&mut self, config: RegionConfig) -> Result<u32, Refused> {
        check(&config)?;
        let place = self.slab.insert(config);
        Ok(key(place.ok_or(Refused::TooMany("memory regions"))?))
    }

    /// Makes a region another one, under its key; what it was.
    pub(crate) fn replace(
        &mut self,
        key: u32,
        config: RegionConfig,
    ) -> Result<RegionConfig, Refused> {
        check(&config)?;
        let region = self.slab.get_mut(place_of(key));
        let region = region.ok_or(Refused::NoSuch("memory region"))?;
        Ok(std::mem::replace(region, config))
    }

    pub(crate) fn deregister(&mut self, key: u32) -> Result<RegionConfig, Refused> {
        let removed = self.slab.remove(place_of(key));
        removed.ok_or(Refused::NoSuch("memory region"))
    }

    #[inline]
    fn find(&self, pd: PdId, key: u32, va: u64, len: u32, need: Access) -> Option<Piece> {
        let region = self.slab.get(place_of(key))?;
        let offset = va.checked_sub(region.iova)?;
        let end = offset.checked_add(u64::from(len))?;
        if region.pd != pd || end > region.length || !region.access.allows(need) {
            return None;
        }
        Some(Piece {
            space: region.space,
            address: region.address + offset,
        })
    }

    /// The region of a local key.
    ///
    /// # Errors
    /// [`Status::LocalProtection`].
    #[inline]
    pub(crate) fn local(&self, pd: PdId, sge: Sge, need: Access) -> Result<Piece, Status> {
        let piece = self.find(pd, sge.lkey, sge.address, sge.length, need);
        piece.ok_or(Status::LocalProtection)
    }

    /// The region of a remote key; `None` if there is none.
    #[inline]
    pub(crate) fn remote(&self, pd: PdId, remote: Remote, len: u32, need: Access) -> Option<Piece> {
        self.find(pd, remote.rkey, remote.va, len, need)
    }

    /// Takes a region's remote rights away; `false` if the key does not permit that.
    pub(crate) fn invalidate(&mut self, pd: PdId, rkey: u32) -> bool {
        let region = self.slab.get_mut(place_of(rkey));
        let permits = |region: &&mut RegionConfig| {
            region.pd == pd && region.access.allows(Access::REMOTE_INVALIDATE)
        };
        match region.filter(permits) {
            Some(region) => {
                region.access = Access(region.access.0 & Access::LOCAL_WRITE.0);
                true
            }
            None => false,
        }
    }
}

/// Memory of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// Virtual address in the region's terms.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
}

impl Remote {
    pub(crate) const fn plus(self, offset: u64) -> Self {
        Self {
            va: self.va.wrapping_add(offset),
            rkey: self.rkey,
        }
    }
}

/// Copies bytes of a message between a packet and the memory that its scatter list names.
pub(crate) struct Copier<'a> {
    pub(crate) regions: &'a Regions,
    pub(crate) memory: &'a mut dyn Memory,
    pub(crate) pd: PdId,
}

impl Copier<'_> {
    /// Calls `copy` with each piece of the list that holds bytes `from..from + len` of the message, and the
    /// range of the packet that belongs there.
    fn pieces(
        &mut self,
        sges: &[Sge],
        from: usize,
        len: usize,
        need: Access,
        mut copy: impl FnMut(&mut dyn Memory, Piece, std::ops::Range<usize>) -> Result<(), MemoryFault>,
    ) -> Result<(), Status> {
        let (mut skip, mut done) = (from, 0);
        for &sge in sges {
            let whole = sge.length as usize;
            if skip >= whole {
                skip -= whole;
                continue;
            }
            if done == len {
                break;
            }
            let count = (whole - skip).min(len - done);
            let at = self.regions.local(self.pd, sge, need)?;
            let piece = Piece {
                address: at.address + skip as u64,
                ..at
            };
            copy(self.memory, piece, done..done + count).map_err(|_| Status::LocalProtection)?;
            done += count;
            skip = 0;
        }
        if done == len {
            Ok(())
        } else {
            Err(Status::LocalLength)
        }
    }

    /// Reads what the list has from byte `from` on.
    pub(crate) fn gather(
        &mut self,
        sges: &[Sge],
        from: usize,
        out: &mut [u8],
    ) -> Result<(), Status> {
        self.pieces(
            sges,
            from,
            out.len(),
            Access::NONE,
            |memory, piece, range| memory.read(piece.space, piece.address, &mut out[range]),
        )
    }

    /// Whether [`Self::scatter`] of so many bytes would be permitted.
    pub(crate) fn permits_scatter(
        &mut self,
        sges: &[Sge],
        from: usize,
        len: usize,
    ) -> Result<(), Status> {
        self.pieces(sges, from, len, Access::LOCAL_WRITE, |_, _, _| Ok(()))
    }

    /// Writes what the list has room for from byte `from` on.
    pub(crate) fn scatter(
        &mut self,
        sges: &[Sge],
        from: usize,
        bytes: &[u8],
    ) -> Result<(), Status> {
        self.pieces(
            sges,
            from,
            bytes.len(),
            Access::LOCAL_WRITE,
            |memory, piece, range| memory.write(piece.space, piece.address, &bytes[range]),
        )
    }
}
