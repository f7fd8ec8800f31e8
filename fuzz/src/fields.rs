//! Numbers that a target takes from the front of its bytes, one after the other. Behind the end
//! there are zeros, so that every input has a meaning.

/// What is left of the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// All of `bytes`.
    pub(crate) const fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let (taken, rest) = self.rest.split_at(N.min(self.rest.len()));
        out[..taken.len()].copy_from_slice(taken);
        self.rest = rest;
        out
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// Whether the next byte is even.
    pub(crate) fn flag(&mut self) -> bool {
        self.byte().is_multiple_of(2)
    }

    /// The next two bytes, big-endian.
    pub(crate) fn two(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// The next four bytes, big-endian.
    pub(crate) fn four(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// One of `all` by the next byte.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    /// A time from nanoseconds to a few seconds, nanoseconds: the next byte is its logarithm in
    /// quarters.
    pub(crate) fn nanoseconds(&mut self) -> u64 {
        let byte = u64::from(self.byte() % 128);
        (4 + byte % 4) << (byte / 4)
    }

    /// What is left.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}
