//! A management key and its lease: the M_Key of a port (IBA 14.2.4), which guards the attributes of its
//! node; and the CC_Key of a congestion control agent (IBA annex A10), whose protection is 0 or 1.
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

/// A key with its protection, lease and violations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyGuard {
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
    pub(crate) fn admits(&mut self, now: Time, method: Method, key: u64) -> bool {
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
    pub(crate) fn expire(&mut self, now: Time) {
        if self.lease_ends.is_some_and(|end| end <= now) {
            self.lease_ends = None;
            self.protect_bits = 0;
        }
    }

    /// Sets the key, its protection and its lease period.
    pub(crate) fn assign(&mut self, key: u64, protect_bits: u8, lease_period_s: u16) {
        self.key = key;
        self.protect_bits = protect_bits;
        self.lease_period_s = lease_period_s;
    }

    /// Counts violations from 0 on.
    pub(crate) fn clear_violations(&mut self) {
        self.violations = 0;
    }

    /// The key.
    pub(crate) const fn key(&self) -> u64 {
        self.key
    }

    /// The key as it is shown to a request that gave `presented`.
    pub(crate) const fn visible_key(&self, presented: u64) -> u64 {
        if self.protect_bits == 0 || self.key == presented {
            self.key
        } else {
            0
        }
    }

    /// The protection, as long as the lease has not run out.
    pub(crate) const fn protect_bits(&self) -> u8 {
        self.protect_bits
    }

    /// The lease period in seconds; 0: it never runs out.
    pub(crate) const fn lease_period_s(&self) -> u16 {
        self.lease_period_s
    }

    /// Requests with a wrong key.
    pub(crate) const fn violations(&self) -> u16 {
        self.violations
    }

    /// Sets the components of PortInfo that an admitted `Set(PortInfo)` names. The counter takes only a 0,
    /// which resets it.
    pub(crate) fn set(&mut self, requested: &PortInfo) {
        self.assign(
            requested.m_key,
            requested.m_key_protect_bits,
            requested.m_key_lease_period,
        );
        if requested.m_key_violations == 0 {
            self.clear_violations();
        }
    }

    /// Puts the components into PortInfo, for a request that gave `presented`.
    pub(crate) fn show(&self, info: &mut PortInfo, presented: u64) {
        info.m_key = self.visible_key(presented);
        info.m_key_protect_bits = self.protect_bits;
        info.m_key_lease_period = self.lease_period_s;
        info.m_key_violations = self.violations;
    }
}
