//! ExtendedPortInfo: an attribute of one vendor (0xff90), by which its devices report FDR10, which PortInfo
//! reports as QDR. Diagnostic programs ask devices with certain device numbers for it.
//!
//! ```text
//! byte 3 StateChangeEnable | 7 LinkSpeedSupported | 11 LinkSpeedEnabled | 15 LinkSpeedActive
//! ```

use crate::attr::Attribute;
use crate::mad::AttributeId;
use crate::{Format, ParseError};

/// FDR10 in the three LinkSpeed bytes.
const FDR10: u8 = 1;

/// Whether a port can use, may use and uses FDR10. Other bits are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedPortInfo {
    /// StateChangeEnable: a Set changes LinkSpeedEnabled.
    pub fdr10_change: bool,
    /// LinkSpeedSupported.
    pub fdr10_supported: bool,
    /// LinkSpeedEnabled.
    pub fdr10_enabled: bool,
    /// LinkSpeedActive.
    pub fdr10_active: bool,
}

impl Format for ExtendedPortInfo {
    const NAME: &'static str = "ExtendedPortInfo";
    const LEN: usize = 16;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            fdr10_change: raw[3] & FDR10 != 0,
            fdr10_supported: raw[7] & FDR10 != 0,
            fdr10_enabled: raw[11] & FDR10 != 0,
            fdr10_active: raw[15] & FDR10 != 0,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw.fill(0);
        raw[3] = u8::from(self.fdr10_change);
        raw[7] = u8::from(self.fdr10_supported);
        raw[11] = u8::from(self.fdr10_enabled);
        raw[15] = u8::from(self.fdr10_active);
    }
}

impl Attribute for ExtendedPortInfo {
    const ID: AttributeId = AttributeId::EXTENDED_PORT_INFO;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_inverts_emit() {
        for bits in 0..16u8 {
            let info = ExtendedPortInfo {
                fdr10_change: bits & 8 != 0,
                fdr10_supported: bits & 1 != 0,
                fdr10_enabled: bits & 2 != 0,
                fdr10_active: bits & 4 != 0,
            };
            let mut raw = [0xa5; 16];
            info.emit(&mut raw);
            assert_eq!(
                (raw[3], raw[7], raw[11], raw[15]),
                (bits >> 3, bits & 1, bits >> 1 & 1, bits >> 2 & 1)
            );
            assert_eq!(raw.iter().filter(|&&byte| byte > 1).count(), 0);
            assert_eq!(ExtendedPortInfo::parse(&raw), Ok((info, &[][..])));
            for short in 0..16 {
                assert!(ExtendedPortInfo::parse(&raw[..short]).is_err());
            }
        }
    }
}
