//! Formats that move to `wire`.

pub(crate) mod control {
    use bincode::{Decode, Encode};

    pub(crate) const MESSAGE_LEN_MAX: usize = 256 * 1024;

    #[derive(Debug, thiserror::Error)]
    pub enum ControlError {
        #[error("encode: {0}")]
        Encode(#[from] bincode::error::EncodeError),
        #[error("decode: {0}")]
        Decode(#[from] bincode::error::DecodeError),
    }

    pub(crate) fn encode<T: Encode>(value: &T) -> Result<Vec<u8>, ControlError> {
        Ok(bincode::encode_to_vec(value, bincode::config::standard())?)
    }

    pub(crate) fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<T, ControlError> {
        let config = bincode::config::standard().with_limit::<MESSAGE_LEN_MAX>();
        let (value, used) = bincode::decode_from_slice(bytes, config)?;
        if used != bytes.len() {
            return Err(bincode::error::DecodeError::Other("trailing bytes").into());
        }
        Ok(value)
    }
}

pub(crate) mod udplink {
    /// version, link id, epoch, sequence.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct UdpLinkHeader {
        pub link: u8,
        pub epoch: u16,
        pub sequence: u32,
    }

    impl UdpLinkHeader {
        pub(crate) const LEN: usize = 8;

        pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
            let (raw, rest) = bytes.split_first_chunk::<8>()?;
            (raw[0] == 1).then_some((
                Self {
                    link: raw[1],
                    epoch: u16::from_be_bytes([raw[2], raw[3]]),
                    sequence: u32::from_be_bytes([raw[4], raw[5], raw[6], raw[7]]),
                },
                rest,
            ))
        }

        pub(crate) fn emit(&self, out: &mut [u8]) {
            out[0] = 1;
            out[1] = self.link;
            out[2..4].copy_from_slice(&self.epoch.to_be_bytes());
            out[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        }
    }
}
