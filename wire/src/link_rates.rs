//! Sets of widths and speeds: what a port supports, may use, and offers its peer (IBA 14.2.5.6).

use bincode::{Decode, Encode};
use strum::VariantArray;

use crate::{LinkRate, LinkSpeed, LinkWidth};

/// A set of link widths and a set of link speeds. A link of two ports runs at the best that both sets
/// have in common ([`LinkRates::best`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
pub struct LinkRates {
    /// Codes of [`LinkWidth`].
    widths: u8,
    /// Bit n is the speed at place n of [`LinkSpeed`]: SDR is bit 0, XDR bit 8.
    speeds: u16,
}

/// The bit of a speed.
const fn bit(speed: LinkSpeed) -> u16 {
    1 << speed as u16
}

impl LinkRates {
    /// No width and no speed.
    pub const NONE: Self = Self {
        widths: 0,
        speeds: 0,
    };
    /// Every width and speed.
    pub const ALL: Self = Self {
        widths: 0x1f,
        speeds: 0x1ff,
    };
    /// Where FDR's bit stands among the speeds: PortInfo's extended speeds start there.
    const EXTENDED_AT: u32 = 4;

    /// What a port of this greatest rate offers: its width and the narrower ones but for 2x, which few
    /// devices have; its speed and all below.
    #[must_use]
    pub fn up_to(rate: LinkRate) -> Self {
        let common = [LinkWidth::X1, LinkWidth::X4, LinkWidth::X8, LinkWidth::X12];
        let narrower = common
            .iter()
            .filter(|width| width.lanes() <= rate.width.lanes());
        Self {
            widths: narrower.fold(rate.width.code(), |all, width| all | width.code()),
            speeds: (bit(rate.speed) << 1) - 1,
        }
    }

    /// The set of these bits (those of [`LinkRates::width_bits`] and [`LinkRates::speed_bits`]); unknown
    /// ones are dropped.
    #[must_use]
    pub const fn from_bits(widths: u8, speeds: u16) -> Self {
        Self {
            widths: widths & Self::ALL.widths,
            speeds: speeds & Self::ALL.speeds,
        }
    }

    /// The widths, as PortInfo's LinkWidth fields have them.
    #[must_use]
    pub const fn width_bits(self) -> u8 {
        self.widths
    }

    /// The speeds: bit 0 is SDR, bit 8 XDR, in the order of [`LinkSpeed`].
    #[must_use]
    pub const fn speed_bits(self) -> u16 {
        self.speeds
    }

    /// SDR, DDR and QDR, as PortInfo's LinkSpeed fields have them.
    #[must_use]
    pub const fn base_speeds(self) -> u8 {
        self.speeds.to_be_bytes()[1] & 0x7
    }

    /// FDR, EDR, HDR and NDR, as PortInfo's LinkSpeedExt fields have them.
    #[must_use]
    pub const fn extended_speeds(self) -> u8 {
        (self.speeds >> Self::EXTENDED_AT).to_be_bytes()[1] & 0xf
    }

    /// XDR, as PortInfo's LinkSpeedExt2 fields have it.
    #[must_use]
    pub const fn extended2_speeds(self) -> u8 {
        if self.has(LinkSpeed::Xdr) { 1 } else { 0 }
    }

    /// Whether a speed is in the set.
    #[must_use]
    pub const fn has(self, speed: LinkSpeed) -> bool {
        self.speeds & bit(speed) != 0
    }

    /// The same set with these widths, as PortInfo has them.
    #[must_use]
    pub const fn with_widths(self, widths: u8) -> Self {
        Self::from_bits(widths, self.speeds)
    }

    /// The same set with these of SDR, DDR and QDR.
    #[must_use]
    pub const fn with_base_speeds(self, codes: u8) -> Self {
        let speeds = (self.speeds & !0x7) | (codes as u16 & 0x7);
        Self::from_bits(self.widths, speeds)
    }

    /// The same set with these of FDR, EDR, HDR, NDR and XDR, as PortInfo has them.
    #[must_use]
    pub const fn with_extended_speeds(self, codes: u8, codes2: u8) -> Self {
        let extended = ((codes2 as u16 & 1) << 4) | (codes as u16 & 0xf);
        let base = self.speeds & ((1 << Self::EXTENDED_AT) - 1);
        Self::from_bits(self.widths, base | (extended << Self::EXTENDED_AT))
    }

    /// The same set with FDR10, or without it.
    #[must_use]
    pub const fn with_fdr10(self, enabled: bool) -> Self {
        let others = self.speeds & !bit(LinkSpeed::Fdr10);
        let fdr10 = if enabled { bit(LinkSpeed::Fdr10) } else { 0 };
        Self::from_bits(self.widths, others | fdr10)
    }

    /// What is in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self::from_bits(self.widths & other.widths, self.speeds & other.speeds)
    }

    /// What is in one of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self::from_bits(self.widths | other.widths, self.speeds | other.speeds)
    }

    /// The most lanes and the greatest speed; `None` without a width or without a speed. FDR10 is a faster kind
    /// of QDR, as which PortInfo reports it: without QDR it does not count.
    #[must_use]
    pub fn best(self) -> Option<LinkRate> {
        let widths = LinkWidth::VARIANTS.iter().copied();
        let width = widths
            .filter(|width| self.widths & width.code() != 0)
            .max_by_key(|width| width.lanes())?;
        let speeds = LinkSpeed::VARIANTS.iter().copied();
        let counts = |speed: LinkSpeed| match speed {
            LinkSpeed::Fdr10 => self.has(speed) && self.has(LinkSpeed::Qdr),
            _ => self.has(speed),
        };
        let speed = speeds.filter(|&speed| counts(speed)).max()?;
        Some(LinkRate { width, speed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn rate(width: LinkWidth, speed: LinkSpeed) -> LinkRate {
        LinkRate { width, speed }
    }

    #[test]
    fn a_port_offers_its_rate_and_all_below() {
        for &speed in LinkSpeed::VARIANTS {
            for &width in LinkWidth::VARIANTS {
                let most = rate(width, speed);
                assert_eq!(LinkRates::up_to(most).best(), Some(most));
            }
        }
        let edr = LinkRates::up_to(rate(LinkWidth::X4, LinkSpeed::Edr));
        assert_eq!((edr.width_bits(), edr.base_speeds()), (3, 7));
        assert_eq!((edr.extended_speeds(), edr.extended2_speeds()), (3, 0));
        let qdr = LinkRates::up_to(rate(LinkWidth::X12, LinkSpeed::Qdr));
        assert_eq!((qdr.width_bits(), qdr.extended_speeds()), (15, 0));
        assert!(!qdr.has(LinkSpeed::Fdr10));
        let xdr = LinkRates::up_to(rate(LinkWidth::X2, LinkSpeed::Xdr));
        assert_eq!((xdr.width_bits(), xdr.speed_bits()), (0x11, 0x1ff));
        assert_eq!((xdr.extended_speeds(), xdr.extended2_speeds()), (0xf, 1));
    }

    #[test]
    fn two_ports_meet_at_the_best_that_both_have() {
        let wide = LinkRates::up_to(rate(LinkWidth::X12, LinkSpeed::Qdr));
        let fast = LinkRates::up_to(rate(LinkWidth::X4, LinkSpeed::Ndr));
        let met = rate(LinkWidth::X4, LinkSpeed::Qdr);
        assert_eq!(wide.intersection(fast).best(), Some(met));
        let hdr_only = fast.with_base_speeds(0).with_fdr10(false);
        let hdr_only = hdr_only.with_extended_speeds(4, 0);
        assert_eq!(hdr_only.speed_bits(), 1 << 6);
        assert_eq!(hdr_only.intersection(wide).best(), None);
        let no_qdr = fast.with_extended_speeds(0, 0).with_base_speeds(3);
        assert_eq!(no_qdr.best(), Some(rate(LinkWidth::X4, LinkSpeed::Ddr)));
        assert_eq!(hdr_only.with_widths(8).intersection(fast).best(), None);
        assert_eq!(
            wide.union(fast).best(),
            Some(rate(LinkWidth::X12, LinkSpeed::Ndr))
        );
    }
}
