//! Reservations of one output port, and its two arbitration tables.

use wire::Vl;

use super::class::{Class, ServiceLevels};
use super::error::{Cause, QosError};
use super::slots::{FRAME_SLOTS, slots};
use super::table::{Layout, Table};

/// Parameters that all ports share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where a VL's next entry goes.
    pub layout: Layout,
    /// Which service level each class has.
    pub service_levels: ServiceLevels,
    /// Data VLs of every port: 1, 2, 4, 8 or 15.
    pub data_vls: u8,
    /// The share of each link that is reserved for best effort, 0..=100 percent.
    pub best_effort_percent: u8,
    /// LimitOfHighPriority: how many times 4096 bytes of the high-priority table go before a
    /// packet of the low one, 255 for "no limit" (IBA 7.6.9.2). It matters only if DBTS senders
    /// exceed their rates.
    pub high_limit: u8,
}

impl Default for Options {
    /// As VLARB01, section 5: contiguous, 20 % for best effort, a VL for each class.
    fn default() -> Self {
        Self {
            layout: Layout::Contiguous,
            service_levels: ServiceLevels::Paper,
            data_vls: 15,
            best_effort_percent: 20,
            high_limit: 255,
        }
    }
}

impl Options {
    /// The VL of a class.
    #[must_use]
    pub fn vl(&self, class: Class) -> Vl {
        self.service_levels.vl(class, self.data_vls)
    }

    /// Slots of every port that are set aside from the start: best effort's share, and one for
    /// challenged traffic, so that neither ever starves.
    #[must_use]
    pub fn reserved(&self) -> [(Class, u32); 2] {
        let share = u32::from(self.best_effort_percent.min(100));
        let best_effort = (FRAME_SLOTS * share).div_ceil(100);
        let challenged = u32::from(best_effort < FRAME_SLOTS);
        [
            (Class::BestEffort, best_effort),
            (Class::Challenged, challenged),
        ]
    }
}

/// One output port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    link_bps: u64,
    options: Options,
    high: Table,
    low: Table,
    used: u32,
}

impl LinkState {
    /// A port of a link of `link_bps` bits per second with no connection, but what is
    /// [reserved](Options::reserved).
    ///
    /// # Errors
    /// [`QosError::NoRate`], [`QosError::NoSuchShare`].
    pub fn new(options: Options, link_bps: u64) -> Result<Self, QosError> {
        if link_bps == 0 {
            return Err(QosError::NoRate);
        }
        if options.best_effort_percent > 100 {
            return Err(QosError::NoSuchShare(options.best_effort_percent));
        }
        let mut low = Table::new(options.layout);
        let mut used = 0;
        for (class, slots) in options.reserved() {
            used += slots;
            low.add(options.vl(class), slots)
                .map_err(|_| QosError::NoSuchShare(options.best_effort_percent))?;
        }
        Ok(Self {
            link_bps,
            options,
            high: Table::new(options.layout),
            low,
            used,
        })
    }

    /// The link's rate in bits per second.
    #[must_use]
    pub fn link_bps(&self) -> u64 {
        self.link_bps
    }

    /// The high-priority table: DBTS.
    #[must_use]
    pub fn high(&self) -> &Table {
        &self.high
    }

    /// The low-priority table: DB, BE and CH.
    #[must_use]
    pub fn low(&self) -> &Table {
        &self.low
    }

    /// LimitOfHighPriority.
    #[must_use]
    pub fn high_limit(&self) -> u8 {
        self.options.high_limit
    }

    /// Slots promised, those of best effort and challenged traffic among them; at most
    /// [`FRAME_SLOTS`].
    #[must_use]
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Slots not promised yet.
    #[must_use]
    pub fn left(&self) -> u32 {
        FRAME_SLOTS - self.used
    }

    /// The slots that a connection of `rate_bps` needs here.
    ///
    /// # Errors
    /// As [`slots`].
    pub fn slots(&self, rate_bps: u64) -> Result<u32, QosError> {
        slots(rate_bps, self.link_bps)
    }

    fn table(&mut self, class: Class) -> &mut Table {
        match class {
            Class::TimeSensitive(_) => &mut self.high,
            _ => &mut self.low,
        }
    }

    /// Whether `wanted` slots more can be given to a class.
    ///
    /// # Errors
    /// The [`Cause`] if not; bandwidth is looked at first.
    pub fn check(&self, class: Class, wanted: u32) -> Result<(), Cause> {
        let left = self.left();
        if wanted > left {
            return Err(Cause::Bandwidth { wanted, left });
        }
        let table = match class {
            Class::TimeSensitive(_) => &self.high,
            _ => &self.low,
        };
        let (wanted, free) = (table.wanted(self.options.vl(class), wanted), table.free());
        if wanted > free {
            return Err(Cause::Entries { wanted, free });
        }
        Ok(())
    }

    /// Gives a class `slots` slots more.
    ///
    /// # Errors
    /// As [`Self::check`]; nothing is changed then.
    pub fn add(&mut self, class: Class, slots: u32) -> Result<(), Cause> {
        self.check(class, slots)?;
        let vl = self.options.vl(class);
        self.table(class)
            .add(vl, slots)
            .map_err(|refused| Cause::Entries {
                wanted: refused.wanted,
                free: refused.free,
            })?;
        self.used += slots;
        Ok(())
    }

    /// Takes back `slots` slots that [`Self::add`] gave.
    pub fn remove(&mut self, class: Class, slots: u32) {
        let vl = self.options.vl(class);
        self.table(class).remove(vl, slots);
        self.used = self.used.saturating_sub(slots);
    }
}

#[cfg(test)]
mod tests {
    use super::super::class::Band;
    use super::super::slots::link_rate;
    use super::*;

    const DB: Class = Class::Dedicated(Band::High);

    #[test]
    fn an_idle_port_serves_best_effort_and_challenged_traffic_and_leaves_fifty_entries() {
        let port = LinkState::new(Options::default(), link_rate::X1).unwrap();
        assert_eq!(port.low().slots(Vl::constant(8)), 3264);
        assert_eq!(port.low().slots(Vl::constant(9)), 1);
        assert_eq!(port.low().free(), 50);
        assert_eq!(port.high().free(), 64);
        assert_eq!(port.left(), 16320 - 3265);
    }

    #[test]
    fn entries_run_out_before_bandwidth_does() {
        let mut port = LinkState::new(Options::default(), link_rate::X1).unwrap();
        port.add(DB, 50 * 255).unwrap();
        assert_eq!(port.left(), 305);
        assert_eq!(port.add(DB, 1), Err(Cause::Entries { wanted: 1, free: 0 }));
        assert_eq!(
            port.add(DB, 306),
            Err(Cause::Bandwidth {
                wanted: 306,
                left: 305
            })
        );
    }

    #[test]
    fn time_sensitive_traffic_fills_the_high_table_and_counts_against_the_same_frame() {
        let mut port = LinkState::new(Options::default(), link_rate::X1).unwrap();
        port.add(Class::TimeSensitive(Band::High), 13_000).unwrap();
        assert_eq!(port.high().slots(Vl::constant(6)), 13_000);
        assert_eq!(
            port.check(DB, 56),
            Err(Cause::Bandwidth {
                wanted: 56,
                left: 55
            })
        );
    }

    #[test]
    fn a_share_above_the_whole_is_refused_and_the_whole_leaves_nothing() {
        let with = |best_effort_percent| {
            LinkState::new(
                Options {
                    best_effort_percent,
                    ..Options::default()
                },
                link_rate::X1,
            )
        };
        assert_eq!(with(101), Err(QosError::NoSuchShare(101)));
        assert_eq!(with(100).unwrap().left(), 0);
        assert_eq!(with(0).unwrap().left(), FRAME_SLOTS - 1);
    }
}
