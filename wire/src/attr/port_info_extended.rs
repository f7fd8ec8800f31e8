//! PortInfoExtended: the forward error correction (FEC) of a port's link (IBA 14.2.5.19, release 1.4).
//!
//! ```text
//! +---------------------------------------------------------------+
//! |                        CapabilityMask                         |
//! +-------------------------------+-------------------------------+
//! |         FECModeActive         |      FDRFECModeSupported      |
//! +-------------------------------+-------------------------------+
//! |       FDRFECModeEnabled       |      EDRFECModeSupported      |
//! +-------------------------------+-------------------------------+
//! |       EDRFECModeEnabled       |      HDRFECModeSupported      |
//! +-------------------------------+-------------------------------+
//! |       HDRFECModeEnabled       |      NDRFECModeSupported      |
//! +-------------------------------+-------------------------------+
//! |       NDRFECModeEnabled       |               0               |
//! +-------------------------------+-------------------------------+
//! ```
//!
//! Then 40 bytes of zeros.

use crate::attr::Attribute;
use crate::format::{put_u16, put_u32, u16_at, u32_at};
use crate::mad::AttributeId;
use crate::{Format, ParseError};

/// The FEC modes of one speed: a bit for each mode, the lowest for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FecModes {
    /// What can be used.
    pub supported: u16,
    /// What may be used. In a Set 0 is no change.
    pub enabled: u16,
}

/// The FEC of a port's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortInfoExtended {
    /// Which of the rest counts: bits of this type.
    pub capability_mask: u32,
    /// The mode in use: 0 none, 1 Fire code, 2 RS, 3 low-latency RS.
    pub fec_mode_active: u16,
    /// The modes at FDR, EDR, HDR and NDR.
    pub modes: [FecModes; 4],
}

impl PortInfoExtended {
    /// CapabilityMask: FEC modes are told (IsFECModeSupported).
    pub const IS_FEC_MODE: u32 = 1;
    /// Of [`FecModes`]: a link without FEC.
    pub const NO_FEC: u16 = 1;
}

impl Format for PortInfoExtended {
    const NAME: &'static str = "PortInfoExtended";
    const LEN: usize = 64;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            capability_mask: u32_at(raw, 0),
            fec_mode_active: u16_at(raw, 4),
            modes: core::array::from_fn(|speed| FecModes {
                supported: u16_at(raw, 6 + 4 * speed),
                enabled: u16_at(raw, 8 + 4 * speed),
            }),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw.fill(0);
        put_u32(raw, 0, self.capability_mask);
        put_u16(raw, 4, self.fec_mode_active);
        for (speed, modes) in self.modes.iter().enumerate() {
            put_u16(raw, 6 + 4 * speed, modes.supported);
            put_u16(raw, 8 + 4 * speed, modes.enabled);
        }
    }
}

impl Attribute for PortInfoExtended {
    const ID: AttributeId = AttributeId::PORT_INFO_EXTENDED;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_opensm_s_structure() {
        let raw: [u8; 64] = core::array::from_fn(|at| match at {
            0..24 => u8::try_from(at).unwrap() + 1,
            _ => 0,
        });
        let mut raw = raw;
        raw[22..24].fill(0);
        let (info, rest) = PortInfoExtended::parse(&raw).unwrap();
        assert!(rest.is_empty());
        assert_eq!(info.capability_mask, 0x0102_0304);
        assert_eq!(info.fec_mode_active, 0x0506);
        let modes = [
            (0x0708, 0x090a),
            (0x0b0c, 0x0d0e),
            (0x0f10, 0x1112),
            (0x1314, 0x1516),
        ];
        let told = info.modes.map(|modes| (modes.supported, modes.enabled));
        assert_eq!(told, modes);
        let mut emitted = [0xa5; 64];
        info.emit(&mut emitted);
        assert_eq!(emitted, raw);
        for short in 0..64 {
            assert!(PortInfoExtended::parse(&raw[..short]).is_err());
        }
    }
}
