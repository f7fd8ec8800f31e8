//! Copies between this process's bytes and words of memory that another process may change at any time.
//!
//! Word for word they are atomic, which compilers keep as single loads and stores. Long ones are one instruction of the
//! processor's where it has one for that: several times as fast, and to the compiler as opaque as the other process.

use std::sync::atomic::{AtomicU64, Ordering};

/// From so many bytes on the processor's own copy is the faster one.
#[cfg(target_arch = "x86_64")]
const LONG_BYTES: usize = 256;

/// Writes bytes to the first words, as far as there are some; the last word written may be filled up with zeros.
#[inline]
pub(crate) fn write(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks();
    let whole = &whole[..whole.len().min(words.len())];
    if !copy_in(words, whole) {
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }
    if let (false, Some(word)) = (rest.is_empty(), words.get(whole.len())) {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        word.store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

/// Reads bytes from the first words, as far as there are some.
#[inline]
pub(crate) fn read(words: &[AtomicU64], bytes: &mut [u8]) {
    let (whole, rest) = bytes.as_chunks_mut();
    let count = whole.len().min(words.len());
    let whole = &mut whole[..count];
    if !copy_out(words, whole) {
        for (word, bytes) in words.iter().zip(whole) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
    }
    if let (false, Some(word)) = (rest.is_empty(), words.get(count)) {
        rest.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..rest.len()]);
    }
}

/// Copies to as many words, if that pays; whether it has.
#[cfg(target_arch = "x86_64")]
#[inline]
fn copy_in(words: &[AtomicU64], from: &[[u8; 8]]) -> bool {
    let length = size_of_val(from);
    if length < LONG_BYTES || from.len() > words.len() {
        return false;
    }
    // SAFETY: `from` has so many bytes, the words have as many, and may be changed through a shared reference.
    unsafe {
        copy(
            words.as_ptr().cast_mut().cast(),
            from.as_ptr().cast(),
            length,
        )
    };
    true
}

/// Copies from as many words, if that pays; whether it has.
#[cfg(target_arch = "x86_64")]
#[inline]
fn copy_out(words: &[AtomicU64], into: &mut [[u8; 8]]) -> bool {
    let length = size_of_val(into);
    if length < LONG_BYTES || into.len() > words.len() {
        return false;
    }
    // SAFETY: the words have so many bytes, `into` has as many, which are its borrower's alone.
    unsafe { copy(into.as_mut_ptr().cast(), words.as_ptr().cast(), length) };
    true
}

/// # Safety
/// `from` is readable and `to` writable for so many bytes; they do not overlap. What another process changes meanwhile is copied as it
/// was or as it is.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: as the caller promises; the direction flag is clear, as everywhere outside of assembly.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") length => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn copy_in(_: &[AtomicU64], _: &[[u8; 8]]) -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn copy_out(_: &[AtomicU64], _: &mut [[u8; 8]]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_beside_it_changes() {
        for length in (0..80).chain(250..270).chain(4000..4010) {
            let bytes: Vec<u8> = (0..length)
                .map(|at: usize| u8::try_from(at % 251).expect("a small number"))
                .collect();
            let words: Vec<AtomicU64> = (0..600).map(|_| AtomicU64::new(u64::MAX)).collect();
            let used = length.div_ceil(8);
            write(&words[1..=used], &bytes);
            let mut into = vec![0xa5; length + 2];
            read(&words[1..=used], &mut into[1..=length]);
            assert_eq!(into[1..=length], bytes, "{length}");
            assert_eq!([into[0], into[length + 1]], [0xa5; 2], "{length}");
            let beside = words[..1].iter().chain(&words[1 + used..]);
            let changed = beside.filter(|word| word.load(Ordering::Relaxed) != u64::MAX);
            assert_eq!(changed.count(), 0, "{length}");
        }
    }

    #[test]
    fn no_more_is_copied_than_there_are_words() {
        let words: Vec<AtomicU64> = (0..64).map(AtomicU64::new).collect();
        write(&words[..40], &[7; 512]);
        assert_eq!(
            words[39].load(Ordering::Relaxed),
            u64::from_ne_bytes([7; 8])
        );
        assert_eq!(words[40].load(Ordering::Relaxed), 40);
        let mut into = [0xa5; 512];
        read(&words[..40], &mut into);
        assert_eq!((into[319], into[320]), (7, 0xa5));
    }
}
