//! The file `groups`: multicast groups with their multicast LIDs and members, for the manager that
//! comes next, so that packets to a group go on while its members register anew.
//!
//! Its form is that of [`crate::statements`].
//!
//! ```text
//! version 1                     first statement, always
//! group RECORD                  a group: its MCMemberRecord (IBA 15.2.5.17), 104 hexadecimal digits
//! mlid TREE LID                 a multicast LID of the group above, and its tree
//! member GUID JOINSTATE [proxy] [of PORT]
//!                               a port that is a member of the group above; `proxy`: made so by another port; `of`: the
//!                               GUID is an alias of that port
//! ```
//!
//! A member that was read has [`REJOIN_NS`] to join again, upon PortInfo:ClientReregister; else it is
//! no member any more. Members beyond [`MEMBERS_MAX`] are left out and must join again at once.

use core::fmt::Write as _;

use link::Time;
use routing::multicast::GroupState;
use wire::sa::McMemberRecord;
use wire::{Format as _, Gid, Lid};

use super::names::allocated_number;
use super::{GROUPS_MAX, Group, Groups, mgid, role};
use crate::ConfigError;
use crate::statements::{self, Damaged, end, guid, number};

/// How long a member that was read from the file may take to join again, nanoseconds.
const REJOIN_NS: u64 = 30_000_000_000;
/// Members in the file at most.
const MEMBERS_MAX: usize = 262_144;

const HEADER: &str = "\
# Multicast groups as the ibemu controller last wrote them into the switches.
version 1
";

impl Groups {
    /// The text for the file.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from(HEADER);
        let mut room = MEMBERS_MAX;
        for (gid, group) in &self.groups {
            if group.members.is_empty() || group.members.len() > room {
                continue;
            }
            room -= group.members.len();
            let mut record = vec![0; McMemberRecord::LEN];
            group.record.emit(&mut record);
            text.push_str("group ");
            // Writing into a String does not fail.
            for byte in record {
                let _ = write!(text, "{byte:02x}");
            }
            text.push('\n');
            let mlids = self.multicast.iter().flat_map(|one| one.mlids(mgid(*gid)));
            for (tree, mlid) in mlids {
                let _ = writeln!(text, "mlid {tree} {}", mlid.get());
            }
            for (member, join_state) in &group.members {
                let by_proxy = match group.proxied.contains(member) {
                    true => " proxy",
                    false => "",
                };
                let _ = write!(text, "member {member} {join_state}{by_proxy}");
                if let Some(port) = group.by_alias.get(member) {
                    let _ = write!(text, " of {port}");
                }
                text.push('\n');
            }
        }
        text
    }

    /// Replaces all groups by those of the text.
    ///
    /// # Errors
    /// [`ConfigError::GroupsFile`]; nothing changes then.
    pub(crate) fn recall(&mut self, text: &str) -> Result<(), ConfigError> {
        let mut read = self.without_members();
        let mut current = None;
        statements::read(text, |keyword, rest| match keyword {
            "group" => {
                current = Some(read.read_group(rest)?);
                Ok(())
            }
            "mlid" => read.read_mlid(current, rest),
            "member" => read.read_member(current, rest),
            _ => Err(statements::unknown(keyword)),
        })
        .map_err(|Damaged { line, problem }| ConfigError::GroupsFile { line, problem })?;
        *self = read;
        Ok(())
    }

    /// Only the well-known groups, without members.
    fn without_members(&self) -> Self {
        let well_known = self.groups.iter().filter(|(_, group)| group.well_known);
        let emptied = well_known.map(|(&gid, group)| (gid, Group::new(group.record, true)));
        let groups = emptied.collect();
        Self {
            groups,
            ..Self::new(self.scheme, None)
        }
    }

    fn read_group(&mut self, rest: &str) -> Result<Gid, String> {
        let bytes = bytes(rest.trim()).ok_or("a record has 104 hexadecimal digits")?;
        let (record, _) = McMemberRecord::parse(&bytes).map_err(|error| error.to_string())?;
        let gid = record.mgid;
        if gid.0[0] != 0xff {
            return Err("its MGID is no multicast GID".to_owned());
        }
        if self.groups.len() >= GROUPS_MAX {
            return Err(format!("more than {GROUPS_MAX} groups"));
        }
        if self.recalled_mlids.insert(gid, Vec::new()).is_some() {
            return Err("the group was named before".to_owned());
        }
        // A well-known group has the properties that it is given now.
        let group = || Group::new(record, false);
        self.groups.entry(gid).or_insert_with(group);
        if let Some(number) = allocated_number(gid) {
            self.last_mgid = self.last_mgid.max(number);
        }
        Ok(gid)
    }

    fn read_mlid(&mut self, group: Option<Gid>, rest: &str) -> Result<(), String> {
        let group = group.ok_or("no group above this line")?;
        let mut words = rest.split_whitespace();
        let tree: u16 = number(words.next(), "a tree")?;
        let mlid = Lid::new(number(words.next(), "a LID")?);
        end(words.next())?;
        if !mlid.is_multicast() {
            return Err(format!("{mlid} is no multicast LID"));
        }
        let mlids = self.recalled_mlids.entry(group).or_default();
        mlids.push((usize::from(tree), mlid));
        Ok(())
    }

    fn read_member(&mut self, group: Option<Gid>, rest: &str) -> Result<(), String> {
        let gid = group.ok_or("no group above this line")?;
        let mut words = rest.split_whitespace();
        let member = guid(words.next())?;
        let join_state: u8 = number(words.next(), "a JoinState")?;
        let mut next = words.next();
        let by_proxy = next == Some("proxy");
        if by_proxy {
            next = words.next();
        }
        let port = match next {
            Some("of") => Some(guid(words.next())?),
            other => end(other).map(|()| None)?,
        };
        end(words.next())?;
        if !(1..=7).contains(&join_state) {
            return Err(format!("{join_state} is no JoinState"));
        }
        if self.unconfirmed.len() >= MEMBERS_MAX {
            return Err(format!("more than {MEMBERS_MAX} members"));
        }
        if let Some(group) = self.groups.get_mut(&gid) {
            group.members.insert(member, join_state);
            if by_proxy {
                group.proxied.insert(member);
            }
            if let Some(port) = port {
                group.by_alias.insert(member, port);
            }
            self.unconfirmed.insert((gid, member));
        }
        Ok(())
    }

    /// The groups that were read, for the first trees of this manager.
    pub(super) fn group_states(&self) -> Vec<GroupState> {
        let stood = |(gid, group): &(&Gid, &Group)| {
            !group.members.is_empty() || self.recalled_mlids.contains_key(gid)
        };
        let groups = self.groups.iter().filter(stood);
        let states = groups.map(|(gid, group)| GroupState {
            name: mgid(*gid),
            members: (group.ports().into_iter())
                .map(|(port, join_state)| (port, role(join_state)))
                .collect(),
            is_kept: group.well_known,
            mlids: self.recalled_mlids.get(gid).cloned().unwrap_or_default(),
        });
        states.collect()
    }

    /// All hosts have been asked to register anew: who does not is no member after some time.
    pub(crate) fn await_members(&mut self, now: Time) {
        if !self.unconfirmed.is_empty() {
            self.rejoin_by.get_or_insert(now + REJOIN_NS);
        }
    }

    /// When members that have not joined again are removed.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.rejoin_by
    }

    /// Removes the members that have not joined again in time.
    pub(crate) fn expire(&mut self, now: Time) {
        if self.rejoin_by.is_none_or(|at| now < at) {
            return;
        }
        self.rejoin_by = None;
        for (gid, member) in core::mem::take(&mut self.unconfirmed) {
            let group = self.groups.get(&gid);
            let port = group.map_or(member, |group| group.port_of(member));
            if self.join_state(gid, member) != 0 {
                // The port may have left the trees meanwhile: then there is nothing to remove there.
                let _ = self.set_member(gid, (member, port), 0);
            }
        }
    }
}

/// The bytes of a record.
fn bytes(digits: &str) -> Option<[u8; McMemberRecord::LEN]> {
    let mut bytes = [0; McMemberRecord::LEN];
    if digits.len() != 2 * bytes.len() || !digits.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use routing::multicast::Scheme;
    use wire::Guid;

    use super::*;

    fn text_of(gid: Gid) -> String {
        let record = McMemberRecord {
            mgid: gid,
            pkey: 0xffff,
            ..McMemberRecord::default()
        };
        let mut bytes = vec![0; McMemberRecord::LEN];
        record.emit(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_damaged_line_is_named_and_changes_nothing() {
        let gid = Gid([0xff; 16]);
        let group = format!("version 1\ngroup {}\n", text_of(gid));
        let unicast = text_of(Gid([0x20; 16]));
        for (text, line, problem) in [
            ("group 00".to_owned(), 1, "the first statement"),
            (
                "version 1\ngroup 00".to_owned(),
                2,
                "104 hexadecimal digits",
            ),
            (format!("version 1\ngroup {unicast}"), 2, "no multicast GID"),
            (format!("{group}group {}", text_of(gid)), 3, "named before"),
            ("version 1\nmlid 0 49152".to_owned(), 2, "no group above"),
            (format!("{group}mlid 0 5"), 3, "no multicast LID"),
            (format!("{group}member 0x5 8"), 3, "no JoinState"),
            (format!("{group}member 0x5 1 1"), 3, "too much"),
            (format!("{group}port 0x5"), 3, "unknown statement"),
        ] {
            let mut groups = Groups::new(Scheme::SpanningTree, None);
            match groups.recall(&text) {
                Err(ConfigError::GroupsFile {
                    line: at,
                    problem: what,
                }) => {
                    assert_eq!(at, line, "{text:?}");
                    assert!(what.contains(problem), "{text:?}: {what}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
            assert!(groups.group_states().is_empty());
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let gid = Gid([0xff; 16]);
        let record = text_of(gid);
        let members = "member 0x0000000000000005 1\nmember 0x0000000000000006 3 proxy\n\
             member 0x0000000000000007 4 of 0x0000000000000005\n\
             member 0x0000000000000008 1 proxy of 0x0000000000000006\n";
        let text = format!("{HEADER}group {record}\n{members}");
        let mut groups = Groups::new(Scheme::SpanningTree, None);
        groups.recall(&text).unwrap();
        assert_eq!(groups.text(), text);
        assert_eq!(groups.join_state(gid, Guid(5)), 1);
        assert!(!groups.is_proxied(gid, Guid(5)) && groups.is_proxied(gid, Guid(6)));
        let [state] = &groups.group_states()[..] else {
            panic!("one group")
        };
        let ports: Vec<Guid> = state.members.iter().map(|(port, _)| *port).collect();
        assert_eq!(ports, [Guid(5), Guid(6)], "the aliases are of these");
    }

    #[test]
    fn a_member_that_does_not_join_again_in_time_is_none_any_more() {
        let gid = Gid([0xff; 16]);
        let text = format!(
            "version 1\ngroup {}\nmember 0x5 1\nmember 0x6 1\n",
            text_of(gid)
        );
        let mut groups = Groups::new(Scheme::SpanningTree, None);
        groups.recall(&text).unwrap();
        assert_eq!(groups.deadline(), None);
        groups.await_members(Time(7));
        assert_eq!(groups.deadline(), Some(Time(7) + REJOIN_NS));
        groups.unconfirmed.remove(&(gid, Guid(6)));
        groups.expire(Time(6) + REJOIN_NS);
        assert_eq!(groups.unconfirmed.len(), 1);
        groups.expire(Time(7) + REJOIN_NS);
        assert_eq!(groups.deadline(), None);
        assert!(groups.unconfirmed.is_empty());
    }
}
