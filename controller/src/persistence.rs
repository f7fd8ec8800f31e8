//! What later managers need to know, given to the shell as far as it has changed.

use crate::{Remembered, SmEvent};

/// The texts as they were last given to the shell.
#[derive(Debug, Default)]
pub(crate) struct Persistence {
    guid2lid: String,
    connections: String,
    groups: String,
    aliases: String,
}

/// The texts as they are now.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// LIDs and the expected fabric.
    pub(crate) guid2lid: String,
    /// Promised bandwidth; `None` if none is promised at all.
    pub(crate) connections: Option<String>,
    /// Multicast groups.
    pub(crate) groups: String,
    /// Alias GUIDs.
    pub(crate) aliases: String,
}

impl Persistence {
    /// The shell holds these texts: another manager has persisted them.
    pub(crate) fn read(&mut self, remembered: &Remembered) {
        let known = |text: &Option<String>| text.clone().unwrap_or_default();
        self.guid2lid = known(&remembered.guid2lid);
        self.connections = known(&remembered.connections);
        self.groups = known(&remembered.groups);
        self.aliases = known(&remembered.aliases);
    }

    /// The texts that have changed.
    pub(crate) fn changed(&mut self, now: Texts) -> Vec<SmEvent> {
        let Texts {
            guid2lid,
            connections,
            groups,
            aliases,
        } = now;
        let mut events = Vec::new();
        if aliases != self.aliases {
            self.aliases.clone_from(&aliases);
            events.push(SmEvent::PersistAliases(aliases));
        }
        if groups != self.groups {
            self.groups.clone_from(&groups);
            events.push(SmEvent::PersistGroups(groups));
        }
        if let Some(text) = connections
            && text != self.connections
        {
            self.connections.clone_from(&text);
            events.push(SmEvent::PersistConnections(text));
        }
        if guid2lid != self.guid2lid {
            self.guid2lid.clone_from(&guid2lid);
            events.push(SmEvent::Persist(guid2lid));
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_written() {
        let mut persistence = Persistence::default();
        let mut changed = |guid2lid: &str, connections: Option<&str>, groups: &str| {
            persistence.changed(Texts {
                guid2lid: guid2lid.to_owned(),
                connections: connections.map(str::to_owned),
                groups: groups.to_owned(),
                aliases: "a1".to_owned(),
            })
        };
        let aliases = SmEvent::PersistAliases("a1".to_owned());
        let guid2lid = |text: &str| SmEvent::Persist(text.to_owned());
        let connections = |text: &str| SmEvent::PersistConnections(text.to_owned());
        let groups = |text: &str| SmEvent::PersistGroups(text.to_owned());
        let all = [aliases, groups("m1"), connections("c1"), guid2lid("g1")];
        assert_eq!(changed("g1", Some("c1"), "m1"), all);
        assert_eq!(changed("g1", Some("c1"), "m1"), []);
        assert_eq!(changed("g2", None, "m1"), [guid2lid("g2")]);
        assert_eq!(changed("g2", None, "m2"), [groups("m2")]);
    }

    #[test]
    fn what_another_manager_has_written_is_not_written_again() {
        let mut persistence = Persistence::default();
        persistence.read(&Remembered {
            guid2lid: Some("g3".into()),
            connections: Some("c1".into()),
            groups: Some("m1".into()),
            aliases: Some("a1".into()),
        });
        let events = persistence.changed(Texts {
            guid2lid: "g3".into(),
            connections: Some("c1".into()),
            groups: "m1".into(),
            aliases: "a1".into(),
        });
        assert_eq!(events, []);
    }
}
