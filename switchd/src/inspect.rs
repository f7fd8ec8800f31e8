//! Read access to the tables of a switch, for tests and the simulator.

use link::Time;
use mad::sma::{Forwarding, Node};
use wire::{Lid, Mad, PortNum, Vl};

use crate::Switch;

impl Switch {
    /// LID of port 0; 0 before a subnet manager has set it.
    #[must_use]
    pub fn lid(&self) -> Lid {
        self.plane.lid
    }

    /// A block of the linear forwarding table: LIDs `64 * block ..` (IBA 14.2.5.10).
    #[must_use]
    pub fn linear_block(&self, block: u16) -> [PortNum; 64] {
        self.plane.linear_block(block)
    }

    /// A block of the multicast forwarding table: multicast LIDs `0xc000 + 32 * block ..`, ports
    /// `16 * position ..` (IBA 14.2.5.12).
    #[must_use]
    pub fn multicast_block(&self, block: u16, position: u8) -> [u16; 32] {
        self.plane.multicast_block(block, position)
    }

    /// Answers a Get of an attribute in place, without a key: what the switch holds, but a protected
    /// M_Key, which is shown to a request that gives it.
    pub fn read_own(&mut self, now: Time, mad: &mut Mad) {
        let (sma, plane) = (&mut self.management.sma, &mut self.plane);
        sma.read_own(now, plane, mad, PortNum::MANAGEMENT);
    }

    /// The VL of each service level from one port to another (IBA 14.2.5.8).
    #[must_use]
    pub fn sl_to_vl(&self, input: PortNum, output: PortNum) -> [Vl; 16] {
        self.plane.sl_to_vl(input, output)
    }
}
