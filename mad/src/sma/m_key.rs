//! The M_Key of a port (IBA 14.2.4): who may read and write the attributes of its node.
//!
//! | M_KeyProtectBits | Get with another key | PortInfo.M_Key in its answer | Set, TrapRepress with another key |
//! |---|---|---|---|
//! | 0 | answered | the key | refused |
//! | 1 | answered | 0 | refused |
//! | 2, 3 | refused | | refused |
//!
//! A key of 0 protects nothing. What is refused is not answered, and counted in M_KeyViolations. The
//! first such request starts the lease period, if there is one (M_KeyLeasePeriod other than 0); a
//! request with the right key ends it. When it runs out M_KeyProtectBits become 0, so that a new
//! subnet manager can read the key.

use link::Time;
use wire::attr::PortInfo;
use wire::mad::Method;

/// The least protection that answers no Get without the key.
const PROTECTS_GET: u8 = 2;

const NS_PER_S: u64 = 1_000_000_000;

/// PortInfo's components of the M_Key of one port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyGuard {
    key: u64,
    protect_bits: u8,
    lease_period_s: u16,
    violations: u16,
    /// When the lease period runs out, if it is running.
    lease_ends: Option<Time>,
}

impl KeyGuard {
    /// Whether a request of that method with that key is admitted. One that is not is counted and
    /// starts the lease period; one with the right key ends it.
    pub(super) fn admits(&mut self, now: Time, method: Method, key: u64) -> bool {
        self.expire(now);
        if self.key == 0 || self.key == key {
            self.lease_ends = None;
            return true;
        }
        if method == Method::GET && self.protect_bits < PROTECTS_GET {
            return true;
        }
        self.violations = self.violations.saturating_add(1);
        if self.lease_period_s > 0 && self.lease_ends.is_none() {
            self.lease_ends = Some(now + u64::from(self.lease_period_s) * NS_PER_S);
        }
        false
    }

    /// Takes the protection away if the lease period has run out by `now`.
    pub(super) fn expire(&mut self, now: Time) {
        if self.lease_ends.is_some_and(|end| end <= now) {
            self.lease_ends = None;
            self.protect_bits = 0;
        }
    }

    /// Sets the components that an admitted `Set(PortInfo)` names. The counter takes only a 0, which
    /// resets it.
    pub(super) fn set(&mut self, requested: &PortInfo) {
        self.key = requested.m_key;
        self.protect_bits = requested.m_key_protect_bits;
        self.lease_period_s = requested.m_key_lease_period;
        if requested.m_key_violations == 0 {
            self.violations = 0;
        }
    }

    /// Puts the components into PortInfo, for a request that gave `presented`.
    pub(super) fn show(&self, info: &mut PortInfo, presented: u64) {
        let is_shown = self.protect_bits == 0 || self.key == presented;
        info.m_key = if is_shown { self.key } else { 0 };
        info.m_key_protect_bits = self.protect_bits;
        info.m_key_lease_period = self.lease_period_s;
        info.m_key_violations = self.violations;
    }
}
