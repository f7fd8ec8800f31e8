//! The link and the state of the port: how management, the peer and timeouts change them.

use wire::Vl;

use crate::port::{Cause, Port, PortEvent};
use crate::state::{InvalidTransition, LinkCommand, PortStateEvent};
use crate::training::{LinkEffect, LinkInput};
use crate::{Deadline, DeadlineCause, DropReason, Pool, Time};

impl Port {
    /// The transport sees (`true`) or no longer sees the other end of the cable.
    pub fn set_carrier(&mut self, now: Time, carrier: bool, pool: &mut Pool) {
        self.carrier = carrier;
        self.follow_plug(now, pool);
        if !carrier {
            // Nothing reaches the peer any more.
            self.link_down_pending = false;
        }
    }

    /// The local control side plugs (`true`) or pulls the cable; a link-down record goes to
    /// the peer.
    pub fn set_plugged(&mut self, now: Time, plugged: bool, pool: &mut Pool) {
        self.plugged = plugged;
        self.follow_plug(now, pool);
    }

    /// Management switches the port on (Polling) or off (Disabled); a link-down record
    /// goes to the peer.
    pub fn set_enabled(&mut self, now: Time, enabled: bool, pool: &mut Pool) {
        self.enabled = enabled;
        self.follow_plug(now, pool);
    }

    pub(super) fn is_plugged(&self) -> bool {
        self.carrier && self.plugged && self.enabled
    }

    fn follow_plug(&mut self, now: Time, pool: &mut Pool) {
        if self.is_plugged() {
            self.link_input(now, LinkInput::Enable, pool);
        } else {
            if self.training.has_peer() {
                self.link_down_pending = true;
            }
            self.link_input(now, LinkInput::Disable, pool);
        }
    }

    /// Carries out what management commands.
    ///
    /// # Errors
    /// [`InvalidTransition`] if the state cannot follow the present one (IBA 14.2.5.6).
    pub fn execute(
        &mut self,
        now: Time,
        command: LinkCommand,
        pool: &mut Pool,
    ) -> Result<(), InvalidTransition> {
        let event = match command {
            LinkCommand::Down => PortStateEvent::SetDown,
            LinkCommand::Arm => PortStateEvent::SetArmed,
            LinkCommand::Activate => PortStateEvent::SetActive,
            LinkCommand::Poll => {
                self.set_enabled(now, true, pool);
                PortStateEvent::SetDown
            }
            LinkCommand::Disable => {
                self.set_enabled(now, false, pool);
                return Ok(());
            }
        };
        self.state.after(event)?;
        self.apply_state_event(now, event, Cause::Management);
        if event == PortStateEvent::SetDown {
            self.clear_outputs(pool);
            self.link_input(now, LinkInput::Retrain, pool);
        }
        Ok(())
    }

    /// Carries out a command that takes the link down once the packets that wait on VL15 now have left, among
    /// them the response to the command (IBA 14.2.5.6: a response to a Set comes back by the way that the
    /// request took). A later command takes the place of one that still waits; if the link goes down before, the
    /// command is carried out at once.
    pub fn execute_after_management(&mut self, now: Time, command: LinkCommand, pool: &mut Pool) {
        self.deferred = Some((command, self.management_out.len()));
        self.execute_deferred(now, pool);
    }

    /// A packet of VL15 has left.
    #[inline]
    pub(super) fn answer_sent(&mut self, now: Time, pool: &mut Pool) {
        if let Some((_, before)) = &mut self.deferred {
            *before = before.saturating_sub(1);
            self.execute_deferred(now, pool);
        }
    }

    #[cold]
    fn execute_deferred(&mut self, now: Time, pool: &mut Pool) {
        if let Some((command, 0)) = self.deferred {
            self.deferred = None;
            // Each state of a port may be left for Down.
            let _executed = self.execute(now, command, pool);
        }
    }

    /// Passes an event to the logical state, which stays as it is where the event does not apply.
    pub(super) fn apply_state_event(&mut self, now: Time, input: PortStateEvent, cause: Cause) {
        let from = self.state;
        let Ok(to) = from.after(input) else {
            return;
        };
        if to != from {
            self.state = to;
            self.push_event(PortEvent::StateChanged { from, to, cause });
            self.note_stall(now);
        }
    }

    /// Passes an input to link-up and carries out the effect.
    pub(super) fn link_input(&mut self, now: Time, input: LinkInput, pool: &mut Pool) {
        let epoch = self.training.epoch();
        let effect = self.training.handle(now, input);
        if self.training.epoch() != epoch {
            self.renew_offer();
        }
        match effect {
            LinkEffect::Nothing => {}
            LinkEffect::UpdateCredits => self.full_update_at = now,
            LinkEffect::CameUp => {
                self.adopt_rate();
                self.restart_credits();
                self.updates_due = 0;
                self.full_update_at = now;
                self.apply_state_event(now, PortStateEvent::LinkUp, Cause::Link);
            }
            LinkEffect::WentDown => {
                self.counts.spec.link_downed += 1;
                self.updates_due = 0;
                self.full_update_at = Time::NEVER;
                self.apply_state_event(now, PortStateEvent::LinkDown, Cause::Link);
                self.clear_outputs(pool);
                // Now already: the flow control that opens the next link must not carry the
                // counts of this one, which the peer would take for credits.
                self.restart_credits();
                if let Some((_, before)) = &mut self.deferred {
                    *before = 0;
                    self.execute_deferred(now, pool);
                }
            }
        }
    }

    fn restart_credits(&mut self) {
        for buffer in self.vl_buffers.iter_mut() {
            buffer.input.credits.restart();
            buffer.output.credits = Default::default();
        }
    }

    fn clear_outputs(&mut self, pool: &mut Pool) {
        let counts = &mut self.counts;
        let data = self
            .vl_buffers
            .iter_mut()
            .flat_map(|buffer| buffer.output.drain());
        for packet in data.chain(self.management_out.drain(..)) {
            packet.discard(pool, counts, DropReason::LinkDown);
        }
        self.management_waits = false;
        self.leaving = None;
        self.waiting = 0;
        self.sendable = 0;
        self.stalled_since = Time::NEVER;
        // Waiting that a link's end cuts off does not count.
        self.starved = 0;
    }

    /// Does what is due: silence, lifetimes. What is due to be sent waits for
    /// [`Port::transmit`].
    pub fn tick(&mut self, now: Time, pool: &mut Pool) {
        self.settle(now);
        if self.training.silence_deadline() <= now {
            self.link_input(now, LinkInput::Silence, pool);
        }
        if self.waiting != 0 && self.has_lifetimes() {
            self.drop_expired(now, pool);
        }
    }

    /// When the first packet at the head of an output queue is at its limit.
    pub(super) fn expires_at(&self) -> Time {
        let limits = self.vl_buffers.iter().map(|buffer| {
            buffer
                .output
                .expires_at(self.hoq_life_ns, self.device_life_ns)
        });
        limits.min().unwrap_or(Time::NEVER)
    }

    pub(super) fn has_lifetimes(&self) -> bool {
        self.hoq_life_ns != u64::MAX || self.device_life_ns != u64::MAX
    }

    fn drop_expired(&mut self, now: Time, pool: &mut Pool) {
        for vl in (0..self.config.vls).map(Vl::truncate) {
            let buffer = &mut self.vl_buffers[vl.index()].output;
            while buffer.expires_at(self.hoq_life_ns, self.device_life_ns) <= now {
                let reason = if buffer.head_since() + self.hoq_life_ns <= now {
                    DropReason::HeadOfQueue
                } else {
                    DropReason::Lifetime
                };
                let Some(packet) = buffer.pop(now) else {
                    break;
                };
                buffer.free(packet.blocks());
                self.counts.details.level_mut(vl.index()).expired_pkts_of_vl += 1;
                packet.discard(pool, &mut self.counts, reason);
            }
            self.refresh(vl);
        }
        self.note_stall(now);
    }

    /// Until when nothing is due, and why. What is due now shows in [`Port::is_ready`].
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        let port = self.number;
        let silence_at = self.training.silence_deadline();
        let mut earliest = Deadline {
            at: silence_at,
            cause: DeadlineCause::Silence(port),
        };
        let mut consider = |at: Time, cause: DeadlineCause| {
            if at < earliest.at {
                earliest = Deadline { at, cause };
            }
        };
        consider(self.training.next_at(), DeadlineCause::KeepAlive(port));
        if self.training.is_up() {
            consider(self.full_update_at, DeadlineCause::KeepAlive(port));
            if self.has_starved_vl() {
                consider(self.starved_update_at, DeadlineCause::KeepAlive(port));
            }
            if self.has_sendable() && self.pacer.is_paced() {
                consider(self.pacer.wake_at(), DeadlineCause::Pacing(port));
            }
            if let Some((_, _, gone_at)) = self.leaving {
                consider(gone_at, DeadlineCause::Pacing(port));
            }
            if self.waiting != 0 && self.has_lifetimes() {
                consider(self.expires_at(), DeadlineCause::Lifetime(port));
            }
        }
        (earliest.at < Time::NEVER).then_some(earliest)
    }

    /// Keeps the clock of PortXmitWait: running while data waits and no credit lets any go.
    #[inline]
    pub(super) fn note_stall(&mut self, now: Time) {
        let stalled = self.waiting != 0 && self.sendable == 0 && self.state.sends_data();
        match (stalled, self.stalled_since < Time::NEVER) {
            (true, false) => self.stalled_since = now,
            (false, true) => {
                self.counts.spec.xmit_wait_ns += now.since_ns(self.stalled_since);
                self.stalled_since = Time::NEVER;
            }
            (true, true) | (false, false) => {}
        }
        let starved = match self.state.sends_data() {
            true => self.waiting & !self.sendable,
            false => 0,
        };
        if starved != self.starved {
            self.note_starved(now, starved);
        }
    }

    /// Keeps the clocks of PortVLXmitWait: each runs while data of its VL waits and has no credits.
    #[cold]
    fn note_starved(&mut self, now: Time, starved: u16) {
        let changed = starved ^ self.starved;
        self.starved = starved;
        let starved_since = self.starved_since.get_or_insert_default();
        let mut vls = changed;
        while let Some(vl) = Vl::lowest(vls) {
            vls &= vls - 1;
            let since = &mut starved_since[vl.index()];
            if starved & (1 << vl.get()) == 0 {
                let level = self.counts.details.level_mut(vl.index());
                level.xmit_wait_ns_of_vl += now.since_ns(*since);
            }
            *since = now;
        }
    }
}
