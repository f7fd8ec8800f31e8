//! Width and speed of the link: what the two ends have in common (IBA 5.6.4, 14.2.5.6).
//!
//! ```text
//!  LinkWidthEnabled,      at the start of        training record      link up
//!  LinkSpeedEnabled ---->  an epoch: offered --------------------> best of what both --> rate, pace
//! ```
//!
//! What management enables counts from the next epoch on, since both ends must compute the rate from the
//! same two offers. An end without a peer has not sent its offer, and may still change it.

use wire::{LinkRate, LinkRates, Training};

use crate::port::Port;
use crate::training::LinkInput;

impl Port {
    /// Width and speed of the link; of one that is down, those that it had last.
    #[must_use]
    pub fn rate(&self) -> LinkRate {
        self.rate
    }

    /// Sets the widths and speeds that the link may have from the next training on. None beyond
    /// [`PortConfig::rate`](crate::PortConfig::rate) is ever used.
    pub fn set_enabled_rates(&mut self, rates: LinkRates) {
        self.rates_enabled = LinkRates::up_to(self.config.rate).intersection(rates);
    }

    /// What this end offers in a training record. It may change as long as no peer is heard.
    pub(super) fn offer_rates(&mut self) -> LinkRates {
        if self.training.is_polling() {
            self.rates_offered = self.rates_enabled;
        }
        self.rates_offered
    }

    /// A new epoch begins with what is enabled now.
    pub(super) fn renew_offer(&mut self) {
        self.rates_offered = self.rates_enabled;
    }

    /// What a training record is to link-up. Without a width and a speed that both ends may use there is no
    /// link: both stay in Polling.
    pub(super) fn heard(&mut self, training: &Training) -> LinkInput {
        self.offer_rates();
        self.rates_of_peer = training.rates;
        if self.common_rate().is_none() {
            return LinkInput::PeerDown;
        }
        LinkInput::TrainingReceived {
            epoch: training.epoch,
            echo: training.heard_epoch,
        }
    }

    /// The link has come up: it runs at the best rate of both ends.
    pub(super) fn adopt_rate(&mut self) {
        if let Some(rate) = self.common_rate() {
            self.rate = rate;
            self.pacer.set_rate(self.config.pacing, rate);
        }
    }

    /// The best rate of what both ends offer. A peer that offers nothing leaves the choice to this end.
    fn common_rate(&self) -> Option<LinkRate> {
        match self.rates_of_peer {
            LinkRates::NONE => self.rates_offered.best(),
            rates => self.rates_offered.intersection(rates).best(),
        }
    }
}
