//! How long a packet occupies the link, and when the next one may go.
//!
//! The pacer keeps the moment at which the link is free again, to the picosecond, so that rounding
//! never adds up. A port that paces packet by packet (`tick_ns` 0) sends when that moment has
//! come. A live port sleeps one tick longer than it has to and may then make up for two ticks in
//! one burst, so that late timers do not lower the rate.

use wire::LinkRate;
use wire::convert::u64_of;
use wire::packet::VCRC_LEN;

use crate::{Pacing, PortConfig, Time};

/// The clock of one port's outgoing link.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    /// `None`: unpaced.
    ps_per_kilobyte: Option<u64>,
    tick_ns: u64,
    free_at: Time,
    /// Picoseconds past `free_at`, below 1000.
    rest_ps: u64,
    /// Bytes of each packet that take no time.
    untimed_bytes: usize,
}

impl Pacer {
    pub(crate) fn new(config: &PortConfig) -> Self {
        let tick_ns = match config.pacing {
            Pacing::Unpaced => 0,
            Pacing::Paced { tick_ns, .. } => tick_ns,
        };
        Self {
            ps_per_kilobyte: ps_per_kilobyte(config.pacing, config.rate),
            tick_ns,
            free_at: Time::ZERO,
            rest_ps: 0,
            untimed_bytes: if config.vcrc_takes_time { 0 } else { VCRC_LEN },
        }
    }

    /// From now on packets leave at `rate`.
    pub(crate) fn set_rate(&mut self, pacing: Pacing, rate: LinkRate) {
        self.ps_per_kilobyte = ps_per_kilobyte(pacing, rate);
    }

    /// Whether a packet may start now.
    #[inline]
    pub(crate) fn is_open(&self, now: Time) -> bool {
        self.free_at <= now
    }

    /// From when on a packet may start.
    #[inline]
    pub(crate) fn open_at(&self) -> Time {
        self.free_at
    }

    /// Whether a packet on its way out still takes up its buffer: where time is exact.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.ps_per_kilobyte.is_some() && self.tick_ns == 0
    }

    /// Whether packets ever wait for the link.
    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.ps_per_kilobyte.is_some()
    }

    /// When a port that has something to send should wake up, if the link is busy now.
    #[inline]
    pub(crate) fn wake_at(&self) -> Time {
        self.free_at + self.tick_ns
    }

    /// Occupies the link with a packet of `bytes`, LRH to VCRC, that starts now and whose last byte
    /// comes in at `tail`. Returns when its last byte has left.
    #[inline]
    pub(crate) fn spend(&mut self, now: Time, bytes: usize, tail: Time) -> Time {
        let Some(ps_per_kilobyte) = self.ps_per_kilobyte else {
            return now.max(tail);
        };
        let earliest = now - 2 * self.tick_ns;
        if self.free_at < earliest || (self.tick_ns == 0 && self.free_at < now) {
            self.free_at = earliest;
            self.rest_ps = 0;
        }
        let bytes = bytes.saturating_sub(self.untimed_bytes);
        let bytes = u64_of(bytes);
        let ps = self
            .rest_ps
            .saturating_add(ps_per_kilobyte.saturating_mul(bytes) / 1000);
        self.free_at = self.free_at + ps / 1000;
        self.rest_ps = ps % 1000;
        if tail > now && self.free_at < tail {
            self.free_at = tail;
            self.rest_ps = 0;
        }
        self.free_at.max(now)
    }
}

/// How long a thousand bytes take; `None`: no time.
fn ps_per_kilobyte(pacing: Pacing, rate: LinkRate) -> Option<u64> {
    match pacing {
        Pacing::Unpaced => None,
        Pacing::Paced { .. } => Some(pacing.scale_ns(rate.transmit_ps(1000))),
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU64;

    use wire::{LinkSpeed, LinkWidth};

    use super::*;

    fn pacer(tick_ns: u64, scale: u64) -> Pacer {
        Pacer::new(&PortConfig {
            rate: LinkRate {
                width: LinkWidth::X1,
                speed: LinkSpeed::Sdr,
            },
            pacing: Pacing::Paced {
                scale_milli: NonZeroU64::new(scale * 1000).unwrap(),
                tick_ns,
            },
            ..PortConfig::default()
        })
    }

    #[test]
    fn a_1x_sdr_link_takes_four_nanoseconds_a_byte() {
        let mut pacer = pacer(0, 1);
        assert!(pacer.is_open(Time(100)));
        assert_eq!(pacer.spend(Time(100), 32, Time(100)), Time(228));
        assert!(!pacer.is_open(Time(227)));
        assert!(pacer.is_open(Time(228)));
    }

    #[test]
    fn the_time_scale_makes_the_link_slower() {
        assert_eq!(pacer(0, 10).spend(Time(0), 32, Time(0)), Time(1280));
    }

    #[test]
    fn a_packet_never_ends_before_it_has_come_in() {
        let mut pacer = pacer(0, 1);
        assert_eq!(pacer.spend(Time(0), 32, Time(5000)), Time(5000));
        assert!(!pacer.is_open(Time(4999)));
    }

    #[test]
    fn fractions_of_a_nanosecond_add_up() {
        let mut pacer = Pacer::new(&PortConfig {
            rate: LinkRate {
                width: LinkWidth::X4,
                speed: LinkSpeed::Edr,
            },
            pacing: Pacing::EXACT,
            ..PortConfig::default()
        });
        let mut now = Time(0);
        for _ in 0..1000 {
            now = pacer.spend(now, 290, now);
        }
        assert_eq!(now, Time(23_200), "290 bytes are 23.2 ns at 12.5 GB/s");
    }

    #[test]
    fn bursts_make_up_for_late_timers_and_keep_the_rate() {
        let tick = 5_000_000;
        let mut pacer = pacer(tick, 1);
        let (mut now, mut bytes) = (Time(1_000_000_000), 0u64);
        let start = now;
        // Timers that come up to 4 ms late.
        for slip in (0..200u64).map(|round| round * 977_000 % 4_000_000) {
            while pacer.is_open(now) {
                pacer.spend(now, 1000, now);
                bytes += 1000;
            }
            now = pacer.wake_at() + slip;
        }
        let took = now.since_ns(start);
        let error = (bytes * 4).abs_diff(took);
        assert!(error < 3 * tick, "{bytes} bytes in {took} ns");
    }
}
