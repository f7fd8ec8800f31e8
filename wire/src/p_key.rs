//! Partition keys: which ports may exchange packets (IBA 10.9).
//!
//! A P_Key has 16 bits: the highest says that its holder is a full member of the partition that the
//! other 15 name, else it is a limited one. Limited members of a partition do not hear each other. A
//! table entry without a partition (the 15 bits 0) is empty.

/// The bit of full membership.
pub const FULL: u16 = 0x8000;
/// The bits that name the partition.
pub const PARTITION: u16 = 0x7fff;
/// The partition that every port is in unless it is taken out of it.
pub const DEFAULT_PARTITION: u16 = 0x7fff;

/// Whether a port with key `own` takes packets with key `other`: of the same partition, and one of the
/// two is a full member.
#[must_use]
pub const fn matches(own: u16, other: u16) -> bool {
    own & PARTITION != 0 && (own ^ other) & PARTITION == 0 && (own | other) & FULL != 0
}

/// Whether a port with that table takes packets with key `other`.
#[must_use]
pub fn admits(table: &[u16], other: u16) -> bool {
    table.iter().any(|&own| matches(own, other))
}

/// The key with which a port with that table sends in the partition of `key`: that of full membership
/// if it has both.
#[must_use]
pub fn own_key(table: &[u16], key: u16) -> Option<u16> {
    let same = |own: &&u16| **own & PARTITION != 0 && (**own ^ key) & PARTITION == 0;
    table.iter().filter(same).copied().max()
}

/// The entry of a table by which its port takes packets with key `other`: a full membership's if the partition has both.
#[must_use]
pub fn admitting_entry(table: &[u16], other: u16) -> Option<usize> {
    let mut limited = None;
    for (at, &own) in table.iter().enumerate() {
        if !matches(own, other) {
            continue;
        }
        // As a rule it is the first entry of many: each packet comes this way.
        if own & FULL != 0 {
            return Some(at);
        }
        limited = limited.or(Some(at));
    }
    limited
}

/// The key with which a port with table `from` reaches one with table `to`: of the first of its entries
/// that the other takes.
#[must_use]
pub fn shared(from: &[u16], to: &[u16]) -> Option<u16> {
    from.iter().copied().find(|&key| admits(to, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_members_hear_full_ones_only() {
        assert!(matches(0xffff, 0xffff) && matches(0xffff, 0x7fff) && matches(0x7fff, 0xffff));
        assert!(!matches(0x7fff, 0x7fff));
        assert!(!matches(0x8001, 0x8002));
        assert!(!matches(0x8000, 0x8000) && !matches(0, 0), "no partition");
        assert!(admits(&[0, 0x7fff, 0x8001], 1) && !admits(&[0, 0x7fff], 0x7fff));
    }

    #[test]
    fn a_port_sends_with_its_strongest_key_of_a_partition() {
        assert_eq!(own_key(&[0x7fff, 0xffff], 0x7fff), Some(0xffff));
        assert_eq!(own_key(&[0xffff, 0x0005], 0x8005), Some(0x0005));
        assert_eq!(own_key(&[0xffff, 0], 0), None);
        assert_eq!(admitting_entry(&[0x7fff, 0, 0xffff, 5], 0xffff), Some(2));
        assert_eq!(admitting_entry(&[0xffff, 5], 0x8005), Some(1));
        assert_eq!(admitting_entry(&[0xffff, 5], 5), None);
        assert_eq!(admitting_entry(&[], 0xffff), None);
    }

    #[test]
    fn two_ports_talk_in_the_first_partition_in_which_they_hear_each_other() {
        assert_eq!(shared(&[0x7fff, 0x8005], &[0x7fff, 0x0005]), Some(0x8005));
        assert_eq!(shared(&[0x7fff, 0x8005], &[0xffff]), Some(0x7fff));
        assert_eq!(shared(&[0x7fff, 0x0005], &[0x7fff, 0x0005]), None);
        assert_eq!(shared(&[0, 0x8005], &[0, 0x8006]), None);
    }
}
