//! Alias GUIDs: further GUIDs of end ports, which programs on the hosts ask subnet administration for
//! (GUIDInfoRecord) and the manager writes into the ports (GUIDInfo, IBA 14.2.5.5).
//!
//! They are known as long as the port is in the subnet. The file `aliases` tells the manager that comes next of them.
//! Its form is that of [`crate::statements`].
//!
//! ```text
//! version 1                first statement, always
//! alias PORT ENTRY GUID    entry 1 to 255 of the table of the port with that GUID
//! ```

use core::fmt::Write as _;
use std::collections::{BTreeMap, BTreeSet};

use mad::local::MadMessage;
use wire::Guid;
use wire::attr::GuidInfo;

use crate::ConfigError;
use crate::statements::{self, Damaged, end, guid, number};

/// GUIDs of a block.
pub(crate) const BLOCK: u8 = 8;
/// Aliases at most.
const ALIASES_MAX: usize = 1 << 16;
/// Answers that wait for ports at most; further ones are sent at once.
const WAITING_MAX: usize = 1024;
/// The first of the GUIDs that are assigned here.
const ASSIGNED: u64 = 0x021b_e3a0_0000_0000;

const HEADER: &str = "\
# Alias GUIDs of ports as the ibemu controller last gave them.
version 1
";

/// There are too many aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The aliases of all ports.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    /// By port GUID and entry of its table, from 1.
    entries: BTreeMap<(Guid, u8), Guid>,
    /// The port of each.
    owners: BTreeMap<Guid, Guid>,
    /// Whether ports may hold others than these.
    is_dirty: bool,
    /// Answers until the ports are written.
    waiting: Vec<MadMessage>,
    /// The last number that was assigned.
    last: u32,
}

impl Aliases {
    /// The port that has this alias.
    pub(crate) fn port(&self, alias: Guid) -> Option<Guid> {
        self.owners.get(&alias).copied()
    }

    /// The alias in an entry of a port's table.
    pub(crate) fn get(&self, port: Guid, entry: u8) -> Option<Guid> {
        self.entries.get(&(port, entry)).copied()
    }

    /// A block of a port's table: the port's own GUID is the first of block 0.
    pub(crate) fn block(&self, port: Guid, block: u8) -> GuidInfo {
        let mut guids = [Guid::default(); BLOCK as usize];
        for (entry, guid) in (block.saturating_mul(BLOCK)..).zip(&mut guids) {
            *guid = match entry {
                0 => port,
                entry => self.get(port, entry).unwrap_or_default(),
            };
        }
        GuidInfo(guids)
    }

    /// The blocks of a port's table that hold aliases.
    pub(crate) fn blocks(&self, port: Guid) -> BTreeSet<u8> {
        let of_port = self.entries.range((port, 0)..=(port, u8::MAX));
        of_port.map(|(&(_, entry), _)| entry / BLOCK).collect()
    }

    /// Gives an entry of a port's table this alias, which no port has.
    ///
    /// # Errors
    /// [`Full`]; nothing changes then.
    pub(crate) fn set(&mut self, port: Guid, entry: u8, alias: Guid) -> Result<(), Full> {
        if self.owners.len() >= ALIASES_MAX {
            return Err(Full);
        }
        self.remove(port, entry);
        self.entries.insert((port, entry), alias);
        self.owners.insert(alias, port);
        self.is_dirty = true;
        Ok(())
    }

    /// Empties an entry of a port's table.
    pub(crate) fn remove(&mut self, port: Guid, entry: u8) {
        if let Some(alias) = self.entries.remove(&(port, entry)) {
            self.owners.remove(&alias);
            self.is_dirty = true;
        }
    }

    /// The text for the file.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from(HEADER);
        for ((port, entry), alias) in &self.entries {
            // Writing into a String does not fail.
            let _ = writeln!(text, "alias {port} {entry} {alias}");
        }
        text
    }

    /// The aliases of a text.
    ///
    /// # Errors
    /// [`ConfigError::AliasesFile`]
    pub(crate) fn recalled(text: &str) -> Result<Self, ConfigError> {
        let mut read = Self::default();
        statements::read(text, |keyword, rest| match keyword {
            "alias" => read.read_alias(rest),
            _ => Err(statements::unknown(keyword)),
        })
        .map_err(|Damaged { line, problem }| ConfigError::AliasesFile { line, problem })?;
        Ok(read)
    }

    fn read_alias(&mut self, rest: &str) -> Result<(), String> {
        let mut words = rest.split_whitespace();
        let port = guid(words.next())?;
        let entry: u8 = number(words.next(), "an entry")?;
        let alias = guid(words.next())?;
        end(words.next())?;
        if entry == 0 || alias == Guid(0) {
            return Err("the first entry is the port's own, and no alias is 0".to_owned());
        }
        if self.entries.contains_key(&(port, entry)) || self.owners.contains_key(&alias) {
            return Err("the entry or the alias was named before".to_owned());
        }
        if let Some(assigned) = alias.0.checked_sub(ASSIGNED) {
            let assigned = u32::try_from(assigned).unwrap_or(0);
            self.last = self.last.max(assigned);
        }
        let too_many = |Full| format!("more than {ALIASES_MAX} aliases");
        self.set(port, entry, alias).map_err(too_many)
    }

    /// A GUID to assign: the next that is no alias, and that `is_free` lets through.
    pub(crate) fn assign(&mut self, is_free: impl Fn(Guid) -> bool) -> Guid {
        loop {
            self.last = self.last.wrapping_add(1);
            let guid = Guid(ASSIGNED + u64::from(self.last));
            if !self.owners.contains_key(&guid) && is_free(guid) {
                return guid;
            }
        }
    }

    /// Ends the aliases of ports that are not there any more.
    pub(crate) fn retain(&mut self, is_there: impl Fn(Guid) -> bool) {
        self.entries.retain(|&(port, _), _| is_there(port));
        self.owners.retain(|_, &mut port| is_there(port));
    }

    /// Defers an answer until the ports are written. `false`: there is nothing to write, or too many wait: it can be
    /// sent at once.
    pub(crate) fn defer_answer(&mut self, answer: &MadMessage) -> bool {
        let is_deferred = self.is_dirty && self.waiting.len() < WAITING_MAX;
        if is_deferred {
            self.waiting.push(answer.clone());
        }
        is_deferred
    }

    /// Whether ports are to be written, which begins now.
    pub(crate) fn start_writing(&mut self) -> bool {
        core::mem::take(&mut self.is_dirty)
    }

    /// The ports have been written; the answers that were waiting for that.
    pub(crate) fn written(&mut self) -> Vec<MadMessage> {
        match self.is_dirty {
            // They have changed since: those of the next time wait with these.
            true => Vec::new(),
            false => core::mem::take(&mut self.waiting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: Guid = Guid(7);

    #[test]
    fn an_alias_has_one_place_and_goes_with_its_port() {
        let mut aliases = Aliases::default();
        for (entry, alias) in [(1, 11), (9, 12), (1, 13)] {
            aliases.set(PORT, entry, Guid(alias)).unwrap();
        }
        assert_eq!(aliases.port(Guid(11)), None, "another took its place");
        assert_eq!(aliases.port(Guid(13)), Some(PORT));
        assert_eq!(aliases.block(PORT, 0).0[..3], [PORT, Guid(13), Guid(0)]);
        assert_eq!(aliases.block(PORT, 1).0[..2], [Guid(0), Guid(12)]);
        assert_eq!(aliases.blocks(PORT), BTreeSet::from([0, 1]));
        assert_eq!(aliases.blocks(Guid(8)), BTreeSet::new());
        aliases.remove(PORT, 9);
        assert_eq!(aliases.port(Guid(12)), None);
        aliases.retain(|port| port != PORT);
        assert_eq!((aliases.port(Guid(13)), aliases.get(PORT, 1)), (None, None));
    }

    #[test]
    fn what_is_written_reads_back_and_a_damaged_line_is_named() {
        let mut aliases = Aliases::default();
        let assigned = aliases.assign(|_| true);
        aliases.set(PORT, 255, assigned).unwrap();
        aliases.set(PORT, 1, Guid(11)).unwrap();
        let text = aliases.text();
        let mut read = Aliases::recalled(&text).unwrap();
        assert_eq!(read.text(), text);
        assert_eq!(read.port(Guid(11)), Some(PORT));
        assert_eq!(read.assign(|_| true).0, assigned.0 + 1);
        let start = "version 1\nalias 0x7 1 0xb\n";
        for (line, problem) in [
            ("alias 0x7 1 0xc", "named before"),
            ("alias 0x8 1 0xb", "named before"),
            ("alias 0x7 0 0xc", "the port's own"),
            ("alias 0x7 2 0x0", "no alias is 0"),
            ("alias 0x7 256 0xc", "is not an entry"),
            ("alias 0x7 2", "a GUID is missing"),
            ("alias 0x7 2 0xc 1", "too much"),
            ("name 0x7", "unknown statement"),
        ] {
            match Aliases::recalled(&format!("{start}{line}\n")) {
                Err(ConfigError::AliasesFile {
                    line: 3,
                    problem: told,
                }) => assert!(told.contains(problem), "{line}: {told}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn assigned_guids_are_free_and_there_are_not_too_many() {
        let mut aliases = Aliases::default();
        let first = aliases.assign(|_| true);
        let second = aliases.assign(|guid| guid.0 != first.0 + 1);
        assert_eq!(second.0, first.0 + 2);
        for number in 0..=u64::from(u16::MAX) {
            let port = Guid(number / 255 + 1);
            let entry = u8::try_from(number % 255).unwrap() + 1;
            aliases.set(port, entry, Guid(1 << 40 | number)).unwrap();
        }
        assert_eq!(aliases.set(Guid(9999), 1, first), Err(Full));
    }
}
