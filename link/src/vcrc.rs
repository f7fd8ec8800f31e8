//! A packet's VCRC when nothing but its lane changes.
//!
//! A CRC is linear: changing bits of a message changes its CRC by a value that depends on these
//! bits and their distance from the end, not on the rest. A switch changes the four bits of VL, at
//! the very start; the change for each of them and each packet length stands in a table, so that
//! a VCRC is updated in a few instructions and an error in the packet is never covered up by a
//! fresh sum.

use wire::{Lrh, Vl};

/// The polynomial 0x100B (IBA 7.8.2) with its bits mirrored.
const POLYNOMIAL: u16 = 0xd008;
const LENGTHS: usize = Lrh::PKT_LEN_MAX as usize + 1;

/// For each PktLen: what flipping VL bit 0, 1, 2, 3 does to the CRC register.
static CHANGES: [[u16; 4]; LENGTHS] = changes();

const fn after_zero_bits(mut register: u16, bits: usize) -> u16 {
    let mut bit = 0;
    while bit < bits {
        let carry = register & 1 != 0;
        register >>= 1;
        if carry {
            register ^= POLYNOMIAL;
        }
        bit += 1;
    }
    register
}

const fn changes() -> [[u16; 4]; LENGTHS] {
    let mut table = [[0; 4]; LENGTHS];
    let mut bit = 0;
    while bit < 4 {
        let mut register = after_zero_bits(0x10 << bit, 32);
        let mut words = 1;
        while words < LENGTHS {
            table[words][bit] = register;
            register = after_zero_bits(register, 32);
            words += 1;
        }
        bit += 1;
    }
    table
}

/// The VCRC of a packet of `pkt_len_words` (LRH to ICRC) after its lane goes from `from` to `to`.
#[inline]
pub(crate) fn relane(vcrc: u16, pkt_len_words: u16, from: Vl, to: Vl) -> u16 {
    let flipped = from.get() ^ to.get();
    let changes = &CHANGES[usize::from(pkt_len_words & Lrh::PKT_LEN_MAX)];
    let mut register = vcrc.swap_bytes();
    for (bit, change) in changes.iter().enumerate() {
        if flipped & (1 << bit) != 0 {
            register ^= change;
        }
    }
    register.swap_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_updated_vcrc_equals_one_computed_anew(
            words in 5u16..=2047,
            fill in any::<[u8; 16]>(),
            from in 0u8..16,
            to in 0u8..16,
        ) {
            let mut packet: Vec<u8> = fill.into_iter().cycle()
                .take(usize::from(words) * 4).collect();
            packet[0] = (packet[0] & 0x0f) | (from << 4);
            let before = wire::crc::vcrc(&packet);
            packet[0] = (packet[0] & 0x0f) | (to << 4);
            prop_assert_eq!(
                relane(before, words, Vl::truncate(from), Vl::truncate(to)),
                wire::crc::vcrc(&packet)
            );
        }
    }
}
