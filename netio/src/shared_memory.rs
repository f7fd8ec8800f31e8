//! Memory that two processes share: a file of the kernel's without a name, of a fixed size.
//!
//! The process that makes it seals it, so that no other one can make it shorter while it is mapped here. It is
//! seen as atomic words only: the other process can change each at any time.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};

/// Words of a shared memory at most: 1 GiB.
pub const WORDS_MAX: usize = 1 << 27;

/// Mapped memory.
#[derive(Debug)]
pub struct SharedMemory {
    address: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value until it is dropped, and all access is atomic.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Makes memory of so many words, all 0, and its descriptor, to be sent to the other process.
    ///
    /// # Errors
    /// `InvalidInput` for 0 words or more than [`WORDS_MAX`]; what the system refuses.
    pub fn create(name: &str, words: usize) -> io::Result<(Self, OwnedFd)> {
        let bytes = bytes_of(words)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(name, flags)?;
        ftruncate(&file, wire::convert::u64_of(bytes))?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((map(&file, words, bytes)?, file))
    }

    /// Maps memory that another process has made.
    ///
    /// # Errors
    /// `InvalidInput` as for [`Self::create`]; `InvalidData` if it is not sealed, or has another length; what
    /// the system refuses.
    pub fn open(file: impl AsFd, words: usize) -> io::Result<Self> {
        let bytes = bytes_of(words)?;
        let sealed = fcntl_get_seals(&file)?.contains(SealFlags::SHRINK);
        let length = fstat(&file)?.st_size;
        if !sealed || usize::try_from(length) != Ok(bytes) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("shared memory of {length} bytes (sealed: {sealed}), not of {bytes}"),
            ));
        }
        map(file, words, bytes)
    }

    /// The words.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many words, is aligned to pages, stays as long as this value, and cannot
        // become shorter, because the file is sealed. Every process sees it as atomic words; any content is valid.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.words) }
    }

    /// Gives the pages of these words back to the system, which begin and end with a page: all read as 0 from now on,
    /// in every process.
    pub(crate) fn discard(&self, words: Range<usize>) {
        let Some(part) = self.words().get(words) else {
            return;
        };
        let address = part.as_ptr().cast_mut().cast();
        // SAFETY: the range lies inside the mapping, which nobody sees but as atomic words: they become zero, which is
        // valid. A refusal changes nothing.
        unsafe { libc::madvise(address, size_of_val(part), libc::MADV_REMOVE) };
    }

    /// Bytes of the pages that any process has touched.
    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> usize {
        let page = size_of::<u64>() * crate::ring::PAGE_WORDS;
        let words = self.words();
        let mut states = vec![0u8; size_of_val(words).div_ceil(page)];
        let start = words.as_ptr().cast_mut().cast();
        // SAFETY: the range is the whole mapping, with a byte for each of its pages in `states`.
        let outcome = unsafe { libc::mincore(start, size_of_val(words), states.as_mut_ptr()) };
        assert_eq!(outcome, 0);
        page * states.iter().filter(|&&state| state & 1 == 1).count()
    }
}

fn bytes_of(words: usize) -> io::Result<usize> {
    match (1..=WORDS_MAX).contains(&words) {
        true => Ok(words * size_of::<u64>()),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn map(file: impl AsFd, words: usize, bytes: usize) -> io::Result<SharedMemory> {
    // SAFETY: a new mapping at an address of the kernel's choice changes no memory that is in use.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_fd().as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok(SharedMemory { address, words })
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's; no reference into it outlives it.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_one_side_writes_the_other_side_reads() {
        let (one, file) = SharedMemory::create("test", 1000).unwrap();
        let other = SharedMemory::open(&file, 1000).unwrap();
        drop(file);
        assert_eq!(one.words().len(), 1000);
        one.words()[999].store(7, Ordering::Relaxed);
        assert_eq!(other.words()[999].load(Ordering::Relaxed), 7);
        drop(one);
        other.words()[0].store(1, Ordering::Relaxed);
    }

    #[test]
    fn memory_that_could_become_shorter_or_has_another_length_is_refused() {
        let (_memory, file) = SharedMemory::create("test", 512).unwrap();
        assert!(ftruncate(&file, 8).is_err(), "sealed");
        for words in [0, 511, 513, WORDS_MAX + 1] {
            assert!(SharedMemory::open(&file, words).is_err(), "{words}");
        }
        let unsealed = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, 4096).unwrap();
        assert!(SharedMemory::open(&unsealed, 512).is_err());
        let plain = tempfile::tempfile().unwrap();
        assert!(SharedMemory::open(&plain, 512).is_err());
    }
}
