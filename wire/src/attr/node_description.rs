//! NodeDescription: a node's name (IBA 14.2.5.2).

use core::fmt;

use crate::attr::Attribute;
use crate::mad::AttributeId;
use crate::{Format, ParseError};

/// A node's name: 64 bytes of UTF-8, zero padded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeDescription(pub [u8; 64]);

impl NodeDescription {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 64;

    /// A description from text, cut at a character boundary to at most 64 bytes.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; Self::LEN];
        let len = text.floor_char_boundary(Self::LEN);
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        Self(bytes)
    }

    /// The text up to the first zero byte; up to the first bad byte if it is not UTF-8.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let text = self.0.split(|&byte| byte == 0).next().unwrap_or_default();
        match core::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
        }
    }
}

impl fmt::Debug for NodeDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeDescription({:?})", self.as_str())
    }
}

impl fmt::Display for NodeDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Format for NodeDescription {
    const NAME: &'static str = "NodeDescription";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(crate::format::array(raw, 0)))
    }

    fn write(&self, raw: &mut [u8]) {
        crate::format::put(raw, 0, self.0);
    }
}

impl Attribute for NodeDescription {
    const ID: AttributeId = AttributeId::NODE_DESCRIPTION;
}
