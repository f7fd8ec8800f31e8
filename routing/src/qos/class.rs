//! Traffic classes, and their service levels and VLs (VLARB01, section 4.1).

use wire::{Sl, Vl};

/// A band of mean rates. Traffic of very different rates in one VL blocks itself at the head of
/// queues; so each band has a VL of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    /// At most 64 kbps: a telephone call.
    VeryLow,
    /// Above 64 kbps, at most 1.55 Mbps: a video conference.
    Low,
    /// Above 1.55 Mbps, at most 64 Mbps: digital television.
    High,
    /// Above 64 Mbps: high-definition television.
    VeryHigh,
}

impl Band {
    /// All bands in ascending order.
    pub const ALL: [Self; 4] = [Self::VeryLow, Self::Low, Self::High, Self::VeryHigh];

    /// The band of a mean rate in bits per second.
    #[must_use]
    pub const fn of(rate_bps: u64) -> Self {
        match rate_bps {
            0..=64_000 => Self::VeryLow,
            64_001..=1_550_000 => Self::Low,
            1_550_001..=64_000_000 => Self::High,
            _ => Self::VeryHigh,
        }
    }

    const fn index(self) -> u8 {
        match self {
            Self::VeryLow => 0,
            Self::Low => 1,
            Self::High => 2,
            Self::VeryHigh => 3,
        }
    }
}

/// The promise to the sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// DBTS: dedicated bandwidth, time sensitive. Served from the high-priority table.
    TimeSensitive(Band),
    /// DB: dedicated bandwidth. Served from the low-priority table, as all classes below.
    Dedicated(Band),
    /// BE: best effort, with a share of the link kept free for it.
    BestEffort,
    /// CH: challenged. One packet a frame, and whatever no other class uses.
    Challenged,
}

impl Class {
    /// All ten classes.
    pub const ALL: [Self; 10] = [
        Self::Dedicated(Band::VeryLow),
        Self::Dedicated(Band::Low),
        Self::Dedicated(Band::High),
        Self::Dedicated(Band::VeryHigh),
        Self::TimeSensitive(Band::VeryLow),
        Self::TimeSensitive(Band::Low),
        Self::TimeSensitive(Band::High),
        Self::TimeSensitive(Band::VeryHigh),
        Self::BestEffort,
        Self::Challenged,
    ];

    /// Whether connections of this class own slots.
    #[must_use]
    pub const fn is_dedicated(self) -> bool {
        matches!(self, Self::TimeSensitive(_) | Self::Dedicated(_))
    }
}

/// Which service level each class has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceLevels {
    /// As VLARB01: DB on 0 to 3 by band, DBTS on 4 to 7, BE on 8, CH on 9. Unclassified
    /// traffic must then be sent on 8: on 0 it has no table entry until the first connection of that
    /// band is admitted.
    #[default]
    Paper,
    /// BE on 0, where unclassified traffic is; DB on 1 to 4, DBTS on 5 to 8, CH on 9.
    BestEffortFirst,
}

impl ServiceLevels {
    /// The service level of a class.
    #[must_use]
    pub fn sl(self, class: Class) -> Sl {
        let shift = u8::from(self == Self::BestEffortFirst);
        Sl::constant(match class {
            Class::Dedicated(band) => shift + band.index(),
            Class::TimeSensitive(band) => shift + 4 + band.index(),
            Class::BestEffort if self == Self::BestEffortFirst => 0,
            Class::BestEffort => 8,
            Class::Challenged => 9,
        })
    }

    /// The class of a service level; levels from 10 carry best effort.
    #[must_use]
    pub fn class(self, sl: Sl) -> Class {
        Class::ALL
            .into_iter()
            .find(|&class| self.sl(class) == sl)
            .unwrap_or(Class::BestEffort)
    }

    /// The VL of a class where a port has `data_vls` data VLs (1, 2, 4, 8 or 15; other
    /// numbers count as the next smaller of these). VLARB01 leaves open what is to share a VL
    /// where there are fewer than ten. Here bands are merged first, then classes: with 8 VLs
    /// the two lower and the two upper bands of DBTS, with 4 all bands of a class, with 2 DB with
    /// DBTS and CH with BE.
    #[must_use]
    pub fn vl(self, class: Class, data_vls: u8) -> Vl {
        let vl = match (data_vls, class) {
            (0 | 1, _)
            | (2 | 3, Class::TimeSensitive(_) | Class::Dedicated(_))
            | (4..=7, Class::Dedicated(_)) => 0,
            (2 | 3, Class::BestEffort | Class::Challenged) | (4..=7, Class::TimeSensitive(_)) => 1,
            (4..=7, Class::BestEffort) => 2,
            (4..=7, Class::Challenged) => 3,
            (8..=14, Class::Dedicated(band)) => band.index(),
            (8..=14, Class::TimeSensitive(band)) => 4 + band.index() / 2,
            (8..=14, Class::BestEffort) => 6,
            (8..=14, Class::Challenged) => 7,
            (_, class) => self.sl(class).get(),
        };
        Vl::constant(vl)
    }

    /// The SL-to-VL mapping table of a port with `data_vls` data VLs (IBA 7.6.6), the same for
    /// every input port.
    #[must_use]
    pub fn sl2vl(self, data_vls: u8) -> [Vl; 16] {
        let mut table = [Vl::default(); 16];
        for (sl, vl) in (0u8..).zip(&mut table) {
            *vl = self.vl(self.class(Sl::constant(sl)), data_vls);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bands_end_where_the_paper_says() {
        assert_eq!(Band::of(64_000), Band::VeryLow);
        assert_eq!(Band::of(64_001), Band::Low);
        assert_eq!(Band::of(1_550_000), Band::Low);
        assert_eq!(Band::of(1_550_001), Band::High);
        assert_eq!(Band::of(64_000_000), Band::High);
        assert_eq!(Band::of(64_000_001), Band::VeryHigh);
    }

    #[test]
    fn each_class_has_a_level_of_its_own_and_is_found_by_it() {
        for levels in [ServiceLevels::Paper, ServiceLevels::BestEffortFirst] {
            let used: BTreeSet<Sl> = Class::ALL.iter().map(|&class| levels.sl(class)).collect();
            assert_eq!(used.len(), Class::ALL.len());
            for class in Class::ALL {
                assert_eq!(levels.class(levels.sl(class)), class);
            }
            assert_eq!(levels.class(Sl::constant(13)), Class::BestEffort);
        }
        assert_eq!(
            ServiceLevels::Paper.sl(Class::Dedicated(Band::VeryLow)),
            Sl::constant(0)
        );
    }

    #[test]
    fn no_vl_is_named_that_the_port_lacks_and_best_effort_is_never_mixed_with_dedicated() {
        for levels in [ServiceLevels::Paper, ServiceLevels::BestEffortFirst] {
            for vls in [1u8, 2, 4, 8, 15] {
                let best_effort = levels.vl(Class::BestEffort, vls);
                for class in Class::ALL {
                    let vl = levels.vl(class, vls);
                    assert!(vl.get() < vls);
                    if vls > 1 && class.is_dedicated() {
                        assert_ne!(vl, best_effort, "{class:?} at {vls} vls");
                    }
                }
                assert!(levels.sl2vl(vls).iter().all(|vl| vl.get() < vls));
            }
        }
    }

    #[test]
    fn fifteen_vls_keep_all_ten_classes_apart() {
        let vls: BTreeSet<Vl> = Class::ALL
            .iter()
            .map(|&class| ServiceLevels::Paper.vl(class, 15))
            .collect();
        assert_eq!(vls.len(), 10);
    }
}
