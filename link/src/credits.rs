//! Credits of one virtual lane (IBA 7.9.4): the sender's and the receiver's counters, in blocks of
//! 64 bytes modulo 4096.
//!
//! The receiver advertises how far the sender may count: `FCCL = ABR + min(free, 2048)`, with ABR the
//! blocks that have arrived. The sender reports how far it has counted: FCTBS, with every
//! flow-control packet; the receiver takes that over as its ABR. A packet lost on the way is a
//! difference between the two that lasts until the next flow-control packet: no credit leaks.

use wire::{FlowControl, FlowOp, Vl};

use crate::config::CREDIT_BLOCKS_MAX;

const MASK: u16 = FlowControl::MODULUS - 1;

/// The sender's counters of one VL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SendCredits {
    sent: u16,
    limit: Option<u16>,
}

impl SendCredits {
    /// FCTBS: blocks sent since link-up, modulo 4096.
    #[inline]
    #[must_use]
    pub(crate) const fn sent(&self) -> u16 {
        self.sent
    }

    /// Whether a packet of `blocks` may go: `(FCCL - TBS - blocks) mod 4096 <= 2048`.
    #[inline]
    #[must_use]
    pub(crate) const fn allows(&self, blocks: u16) -> bool {
        match self.limit {
            Some(limit) => {
                limit.wrapping_sub(self.sent).wrapping_sub(blocks) & MASK <= CREDIT_BLOCKS_MAX
            }
            None => false,
        }
    }

    /// How many blocks may go now.
    #[must_use]
    pub(crate) const fn available(&self) -> u16 {
        match self.limit {
            Some(limit) => {
                let ahead = limit.wrapping_sub(self.sent) & MASK;
                if ahead <= CREDIT_BLOCKS_MAX { ahead } else { 0 }
            }
            None => 0,
        }
    }

    /// Counts a packet of `blocks` as sent.
    #[inline]
    pub(crate) const fn spend(&mut self, blocks: u16) {
        self.sent = self.sent.wrapping_add(blocks) & MASK;
    }

    /// Takes over the limit of a received flow-control packet.
    #[inline]
    pub(crate) const fn set_limit(&mut self, fccl: u16) {
        self.limit = Some(fccl & MASK);
    }
}

/// The receiver's counters of one VL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveCredits {
    /// ABR: blocks arrived since link-up, corrected by each FCTBS.
    arrived: u16,
    /// FCCL of the last credit update.
    advertised: u16,
    /// Blocks of the VL's buffer that are taken.
    used: u32,
    capacity: u32,
    /// Blocks of the longest packet.
    packet: u16,
}

impl ReceiveCredits {
    /// The counters of an empty buffer of `capacity` blocks; the longest packet takes `packet`
    /// blocks.
    #[must_use]
    pub(crate) const fn new(capacity: u32, packet: u16) -> Self {
        Self {
            arrived: 0,
            advertised: 0,
            used: 0,
            capacity,
            packet,
        }
    }

    /// Starts anew at link-up. Blocks that are still in the buffer stay taken.
    pub(crate) const fn restart(&mut self) {
        self.arrived = 0;
        self.advertised = 0;
    }

    /// Blocks of the buffer that are free.
    #[must_use]
    pub(crate) const fn free(&self) -> u32 {
        self.capacity - self.used
    }

    /// Blocks of the buffer that are free, and how many it has.
    #[must_use]
    pub(crate) const fn free_of(&self) -> (u32, u32) {
        (self.free(), self.capacity)
    }

    /// Counts a packet of `blocks` into the buffer. `false` if it has no room: it was sent
    /// without credit, is dropped, and does not count as arrived.
    #[inline]
    #[must_use]
    pub(crate) const fn arrive(&mut self, blocks: u16) -> bool {
        if self.used + blocks as u32 > self.capacity {
            return false;
        }
        self.used += blocks as u32;
        self.arrived = self.arrived.wrapping_add(blocks) & MASK;
        true
    }

    /// Frees `blocks` of the buffer.
    #[inline]
    pub(crate) const fn release(&mut self, blocks: u16) {
        debug_assert!(blocks as u32 <= self.used);
        self.used = self.used.saturating_sub(blocks as u32);
    }

    /// Takes over the peer's count: `ABR := FCTBS`.
    #[inline]
    pub(crate) const fn resync(&mut self, fctbs: u16) {
        self.arrived = fctbs & MASK;
    }

    /// FCCL of a credit update sent now.
    #[inline]
    #[must_use]
    pub(crate) const fn limit(&self) -> u16 {
        self.arrived.wrapping_add(self.window()) & MASK
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most 2048")]
    const fn window(&self) -> u16 {
        let free = self.free();
        if free < CREDIT_BLOCKS_MAX as u32 {
            free as u16
        } else {
            CREDIT_BLOCKS_MAX
        }
    }

    /// The blocks that the peer may still send by the last credit update.
    const fn outstanding(&self) -> u16 {
        let ahead = self.advertised.wrapping_sub(self.arrived) & MASK;
        if ahead <= CREDIT_BLOCKS_MAX { ahead } else { 0 }
    }

    /// Blocks that a credit update sent now would add to what the peer may send.
    #[inline]
    #[must_use]
    pub(crate) const fn unadvertised(&self) -> u16 {
        self.window().saturating_sub(self.outstanding())
    }

    /// Whether a credit update is due at once: it adds a quarter of what can be advertised, or the
    /// peer could not send the longest packet and now can. Smaller ones wait for the next frame.
    #[inline]
    #[must_use]
    pub(crate) const fn needs_update(&self) -> bool {
        let gain = self.unadvertised();
        if gain == 0 {
            return false;
        }
        let most = if self.capacity < CREDIT_BLOCKS_MAX as u32 {
            self.capacity
        } else {
            CREDIT_BLOCKS_MAX as u32
        };
        gain as u32 * 4 >= most
            || (self.outstanding() < self.packet && self.window() >= self.packet)
    }

    /// Whether a credit update is worth its ten bytes in a frame that is sent for another reason:
    /// it adds an eighth of what can be advertised.
    #[inline]
    #[must_use]
    pub(crate) const fn should_piggyback(&self) -> bool {
        self.unadvertised() as u32 * 8 >= self.capacity
            || self.unadvertised() * 8 >= CREDIT_BLOCKS_MAX
    }
}

/// The flow-control packet with `receive`'s limit and `send`'s count; the limit counts as
/// advertised.
pub(crate) fn flow_control_packet(
    op: FlowOp,
    vl: Vl,
    send: &SendCredits,
    receive: &mut ReceiveCredits,
) -> FlowControl {
    receive.advertised = receive.limit();
    FlowControl {
        op,
        fctbs: send.sent(),
        vl,
        fccl: receive.advertised,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn update(send: &SendCredits, receive: &mut ReceiveCredits) -> FlowControl {
        flow_control_packet(FlowOp::Normal, Vl::constant(0), send, receive)
    }

    #[test]
    fn nothing_may_go_before_the_first_flow_control_packet() {
        assert!(!SendCredits::default().allows(1));
        assert_eq!(SendCredits::default().available(), 0);
    }

    #[test]
    fn a_packet_goes_only_if_the_limit_covers_all_of_it() {
        let mut send = SendCredits::default();
        send.set_limit(5);
        assert!(send.allows(5));
        assert!(!send.allows(6));
        send.spend(5);
        assert!(!send.allows(1));
    }

    #[test]
    fn the_books_wrap_at_4096_blocks() {
        let mut send = SendCredits::default();
        let mut receive = ReceiveCredits::new(10, 5);
        for _ in 0..5000 {
            send.set_limit(update(&SendCredits::default(), &mut receive).fccl);
            assert!(send.allows(5) && send.allows(10) && !send.allows(11));
            send.spend(5);
            assert!(receive.arrive(5));
            receive.release(5);
        }
    }

    #[test]
    fn never_more_than_2048_blocks_are_advertised() {
        let receive = ReceiveCredits::new(100_000, 66);
        assert_eq!(receive.limit(), 2048);
    }

    #[test]
    fn a_peer_that_starves_is_told_at_once_and_small_gains_wait() {
        let mut receive = ReceiveCredits::new(400, 66);
        let send = SendCredits::default();
        update(&send, &mut receive);
        assert!(receive.arrive(5));
        receive.release(5);
        assert_eq!(receive.unadvertised(), 5);
        assert!(
            !receive.needs_update(),
            "the peer has 395 blocks to go on with"
        );
        for _ in 0..68 {
            assert!(receive.arrive(5));
        }
        assert!(!receive.needs_update(), "there is no room to advertise");
        for _ in 0..20 {
            receive.release(5);
        }
        assert!(receive.needs_update());
    }

    /// One step of a lossy link.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Send { blocks: u16, lost: bool },
        Consume,
        ForwardTold { lost: bool },
        BackwardTold { lost: bool },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1u16..=66, prop::bool::weighted(0.2))
                .prop_map(|(blocks, lost)| Step::Send { blocks, lost }),
            3 => Just(Step::Consume),
            1 => any::<bool>().prop_map(|lost| Step::ForwardTold { lost }),
            2 => any::<bool>().prop_map(|lost| Step::BackwardTold { lost }),
        ]
    }

    proptest! {
        #[test]
        fn credits_never_exceed_the_buffer_and_loss_never_leaks_them(
            capacity in 66u32..3000,
            steps in prop::collection::vec(step(), 0..2000),
        ) {
            let mut send = SendCredits::default();
            let mut receive = ReceiveCredits::new(capacity, 66);
            let mut buffered = std::collections::VecDeque::new();
            let nothing = SendCredits::default();
            send.set_limit(update(&nothing, &mut receive).fccl);
            for step in steps {
                match step {
                    Step::Send { blocks, lost } => if send.allows(blocks) {
                        send.spend(blocks);
                        if !lost {
                            prop_assert!(receive.arrive(blocks), "overrun");
                            buffered.push_back(blocks);
                        }
                    },
                    Step::Consume => if let Some(blocks) = buffered.pop_front() {
                        receive.release(blocks);
                    },
                    Step::ForwardTold { lost } => if !lost {
                        receive.resync(send.sent());
                    },
                    Step::BackwardTold { lost } => {
                        let packet = update(&nothing, &mut receive);
                        if !lost {
                            send.set_limit(packet.fccl);
                        }
                    },
                }
                prop_assert!(u32::from(send.available()) <= capacity);
            }
            buffered.drain(..).for_each(|blocks| receive.release(blocks));
            receive.resync(send.sent());
            send.set_limit(update(&nothing, &mut receive).fccl);
            prop_assert_eq!(u32::from(send.available()), capacity.min(2048), "a leak");
        }
    }
}
