//! One port: reception, transmission and the state of the link.
//!
//! ```text
//!             receive                                        offer, enqueue
//!  frame ---> checks ---> VL input buffers ---> the device ---> VL output queues ---> arbiter --> frame
//!                ^          | freed blocks                                           | credits, pacing
//!                |          v                                                        v
//!  frame ---> training, flow control <------------------------------------> flow control
//! ```
//!
//! A device owns its ports and one [`Pool`](crate::Pool) for their packets. It hands received frames to
//! [`Port::receive`], takes packets from the VL input buffers ([`Port::arrived`], [`Port::input`],
//! [`Port::take`], [`Port::free`]), puts packets into the VL output queues ([`Port::offer`]) and lets
//! the port fill frames ([`Port::transmit`]). Time passes by [`Port::tick`]; [`Port::deadline`]
//! says when.

mod queues;
mod rates;
mod receive;
mod supervise;
#[cfg(test)]
mod tests;
mod transmit;

use std::collections::VecDeque;

use wire::{Guid, LinkRate, LinkRates, Mtu, PortNum, Vl};

pub use queues::queued_counters;
pub use receive::Arrival;
pub use transmit::PollTimes;

use crate::config::blocks;
use crate::pacing::Pacer;
use crate::training::LinkTraining;
use crate::vl_buffer::{Lanes, VlBuffer, VlBuffers, VlQueue};
use crate::{
    Arbiter, ConfigError, Counts, DropReason, LinkCommand, Packet, PhysicalState, PortConfig,
    PortState, SlToVl, Time,
};

/// How many events a port keeps for its device; beyond, the newest is merged into the last.
const EVENTS_MAX: usize = 16;

/// An event of a port, for its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// The logical state has changed.
    StateChanged {
        /// The state before.
        from: PortState,
        /// The state now.
        to: PortState,
        /// The cause.
        cause: Cause,
    },
}

/// The cause of a change of a port's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The link: cable, peer, silence. IBA 14.3.7 wants a trap for it (from a switch).
    Link,
    /// Management set it.
    Management,
    /// A data packet came in while the port was armed.
    Data,
}

/// The port at the other end of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// GUID of its node.
    pub guid: Guid,
    /// Its number there.
    pub port: PortNum,
}

/// Why a port did not take a packet to send.
#[derive(Debug)]
pub enum Refusal {
    /// The VL's queue has no room now; here is the packet.
    Full(Packet),
    /// The port will not take such a packet; it has been counted and dropped.
    Dropped(DropReason),
}

/// Whether a port would take a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It has room.
    Room,
    /// Not now.
    Full,
    /// It must be dropped.
    Drop(DropReason),
}

/// One port of a device.
///
/// The fields stand in the order of how often they are looked at, and in that order in memory: a
/// packet that goes through a port touches its first few cache lines and its VL, and what
/// management writes lies behind.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Port {
    /// VLs with something in their input buffers; bit 15 is VL15.
    arrived: u16,
    /// Data VLs with something in their output queues.
    waiting: u16,
    /// Those of them that have credits for it.
    sendable: u16,
    /// VLs whose credit update is due now.
    updates_due: u16,
    /// Data VLs that waited without credits when that was last noted.
    starved: u16,
    number: PortNum,
    state: PortState,
    operational_vls: u8,
    neighbor_mtu: Mtu,
    /// The transport sees the cable's other end.
    carrier: bool,
    /// The local control side has the cable plugged.
    plugged: bool,
    /// Management has the port switched on.
    enabled: bool,
    /// A link-down record is still to be sent.
    link_down_pending: bool,
    /// Events wait for the device.
    has_events: bool,
    /// Packets wait on VL15.
    management_waits: bool,
    /// When credit updates of all VLs are due.
    full_update_at: Time,
    /// When VLs without credits repeat their update, in case packets were lost.
    starved_update_at: Time,
    /// Where time is exact: VL and blocks of the packet on its way out, and when it has left.
    leaving: Option<(Vl, u16, Time)>,

    training: LinkTraining,

    pacer: Pacer,
    arbiter: Arbiter,

    sl_to_vl: SlToVl,
    hoq_life_ns: u64,
    device_life_ns: u64,
    /// Since when data waits and no credit lets any of it go; [`Time::NEVER`] if that is not so.
    stalled_since: Time,

    vl_buffers: Lanes,

    counts: Counts,

    management_out: VecDeque<Packet>,
    config: PortConfig,
    management_in: VecDeque<Packet>,
    events: VecDeque<PortEvent>,
    /// The sender of the last training record.
    peer: Option<Peer>,
    /// By VL of [`Port::starved`]: since when.
    starved_since: Option<Box<[Time; 16]>>,
    /// Width and speed that the link has, or had last.
    rate: LinkRate,
    /// What the port may use when it trains again.
    rates_enabled: LinkRates,
    /// What it offers in the present epoch.
    rates_offered: LinkRates,
    /// What the peer has offered last.
    rates_of_peer: LinkRates,
    /// A command that takes the link down, and how many packets of VL15 leave before it is executed.
    deferred: Option<(LinkCommand, usize)>,
}

impl Port {
    /// A port without a cable: [`Port::set_carrier`] plugs one in. `ports_in` is the highest port
    /// number that packets leaving here can have come in on: the last port of a switch, 0 for a
    /// channel adapter.
    ///
    /// # Errors
    /// [`ConfigError`]: which setting is out of range.
    pub fn new(number: PortNum, config: PortConfig, ports_in: u8) -> Result<Self, ConfigError> {
        config.check()?;
        let packet = blocks(config.packet_bytes_max());
        let output_blocks = u32::from(blocks(config.output_bytes)).max(u32::from(packet));
        Ok(Self {
            number,
            training: LinkTraining::new(config.epoch_seed, config.timeouts),
            state: PortState::Down,
            carrier: false,
            plugged: true,
            enabled: config.is_enabled,
            link_down_pending: false,
            has_events: false,
            management_waits: false,
            peer: None,
            vl_buffers: Lanes::new(config.vls, || VlBuffers {
                input: VlBuffer::new(config.buffer_blocks(), packet),
                output: VlQueue::new(output_blocks),
            }),
            management_in: VecDeque::new(),
            arrived: 0,
            management_out: VecDeque::new(),
            waiting: 0,
            sendable: 0,
            leaving: None,
            stalled_since: Time::NEVER,
            starved: 0,
            starved_since: None,
            updates_due: 0,
            full_update_at: Time::NEVER,
            starved_update_at: Time::ZERO,
            operational_vls: config.vls,
            neighbor_mtu: config.mtu,
            hoq_life_ns: u64::MAX,
            device_life_ns: u64::MAX,
            arbiter: Arbiter::new(config.vls),
            sl_to_vl: SlToVl::new(ports_in, config.vls),
            pacer: Pacer::new(&config),
            counts: Counts::default(),
            events: VecDeque::new(),
            rate: config.rate,
            rates_enabled: LinkRates::up_to(config.rate),
            rates_offered: LinkRates::up_to(config.rate),
            rates_of_peer: LinkRates::NONE,
            deferred: None,
            config,
        })
    }

    /// Reads what a packet that comes in or goes out needs of the port, all at once and waiting for nothing, so that it is in the
    /// processor's caches by the time it is used: for devices that are so many that none stays there. What is read means nothing.
    #[inline]
    #[must_use]
    pub fn read_ahead(&self) -> u64 {
        u64::from(self.arrived)
            ^ u64::from(self.training.is_up())
            ^ self.pacer.open_at().0
            ^ u64::from(self.arbiter.weighted_vls())
            ^ self.stalled_since.0
            ^ self.vl_buffers[0].read_ahead()
            ^ self.counts.spec.xmit_pkts
            ^ self.counts.details.read_ahead()
    }

    /// The port's number.
    #[inline]
    #[must_use]
    pub fn number(&self) -> PortNum {
        self.number
    }

    /// The configuration that the port was built with.
    #[inline]
    #[must_use]
    pub fn config(&self) -> &PortConfig {
        &self.config
    }

    /// The logical state.
    #[inline]
    #[must_use]
    pub fn state(&self) -> PortState {
        self.state
    }

    /// The state of the physical link. A port that is switched on and has no cable polls (IBA 14.2.5.6:
    /// Disabled is what management has set).
    #[must_use]
    pub fn physical(&self) -> PhysicalState {
        match self.training.physical() {
            PhysicalState::Disabled if self.enabled => PhysicalState::Polling,
            physical => physical,
        }
    }

    /// The number of the present link-up, never 0: transports may carry it so that a restarted
    /// peer is never taken for the one before.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.training.epoch()
    }

    /// The port at the other end of the cable, as far as a link has come up or is coming up.
    #[must_use]
    pub fn peer(&self) -> Option<Peer> {
        self.peer.filter(|_| self.training.has_peer())
    }

    /// Counters and drops.
    #[inline]
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Counters and drops, for the device's own drops and for clearing.
    pub fn counts_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// Data VLs in use, 1..=15.
    #[must_use]
    pub fn operational_vls(&self) -> u8 {
        self.operational_vls
    }

    /// Sets how many data VLs are in use; the port has no more than it was built with.
    pub fn set_operational_vls(&mut self, vls: u8) {
        self.operational_vls = vls.clamp(1, self.config.vls);
    }

    /// The largest payload that may be sent.
    #[must_use]
    pub fn neighbor_mtu(&self) -> Mtu {
        self.neighbor_mtu
    }

    /// Sets the largest payload that may be sent, at most the port's own MTU.
    pub fn set_neighbor_mtu(&mut self, mtu: Mtu) {
        self.neighbor_mtu = mtu.min(self.config.mtu);
    }

    /// Sets how long a packet may be at the head of an output queue (HOQLife), in nanoseconds of
    /// link-layer time; `None`: for ever.
    pub fn set_head_of_queue_life_ns(&mut self, life_ns: Option<u64>) {
        self.hoq_life_ns = life_ns.map_or(u64::MAX, |ns| self.config.pacing.scale_ns(ns));
    }

    /// Sets how long a packet may be in the device, in nanoseconds of link-layer time; `None`: for
    /// ever.
    pub fn set_device_life_ns(&mut self, life_ns: Option<u64>) {
        self.device_life_ns = life_ns.map_or(u64::MAX, |ns| self.config.pacing.scale_ns(ns));
    }

    /// Whether a packet that entered the device at `entered` has outlived its limit.
    #[inline]
    #[must_use]
    pub fn is_expired(&self, now: Time, entered: Time) -> bool {
        entered + self.device_life_ns <= now
    }

    /// The VL arbitration tables.
    #[must_use]
    pub fn arbiter(&self) -> &Arbiter {
        &self.arbiter
    }

    /// The VL arbitration tables, to be written.
    pub fn arbiter_mut(&mut self) -> &mut Arbiter {
        &mut self.arbiter
    }

    /// The SL-to-VL rows of packets that leave here.
    #[inline]
    #[must_use]
    pub fn sl_to_vl(&self) -> &SlToVl {
        &self.sl_to_vl
    }

    /// The SL-to-VL rows, to be written.
    pub fn sl_to_vl_mut(&mut self) -> &mut SlToVl {
        &mut self.sl_to_vl
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<PortEvent> {
        let event = self.events.pop_front();
        self.has_events = !self.events.is_empty();
        event
    }

    /// Whether [`Port::poll_event`] has an event.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.has_events
    }

    fn push_event(&mut self, event: PortEvent) {
        self.has_events = true;
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
            return;
        }
        let PortEvent::StateChanged { to, cause, .. } = event;
        if let Some(PortEvent::StateChanged {
            to: last_to,
            cause: last_cause,
            ..
        }) = self.events.back_mut()
        {
            *last_to = to;
            *last_cause = cause;
        }
    }
}
