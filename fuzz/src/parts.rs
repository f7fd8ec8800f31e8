//! Inputs of several parts.

/// The parts of an input: each is a length of two bytes, big-endian, and so many bytes behind it.
/// What is cut short is a part as well, so that all bytes count.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    rest: &'a [u8],
}

impl<'a> Parts<'a> {
    /// The parts of `bytes`.
    #[must_use]
    pub const fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// An input with these parts.
    ///
    /// # Panics
    /// If one is longer than 65,535 bytes.
    #[must_use]
    pub fn join<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in parts {
            let part = part.as_ref();
            let length = u16::try_from(part.len()).expect("a short part");
            bytes.extend(length.to_be_bytes());
            bytes.extend(part);
        }
        bytes
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (part, rest) = match self.rest.split_first_chunk() {
            Some((&length, behind)) => {
                let length = usize::from(u16::from_be_bytes(length));
                behind.split_at_checked(length).unwrap_or((behind, &[]))
            }
            None => (self.rest, &[][..]),
        };
        self.rest = rest;
        Some(part)
    }
}
