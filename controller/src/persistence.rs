//! What later managers need to know, given to the shell as far as it has changed.

use crate::{Remembered, SmEvent};

/// The texts as they were last given to the shell.
#[derive(Debug, Default)]
pub(crate) struct Persistence {
    guid2lid: String,
    connections: String,
    groups: String,
}

impl Persistence {
    /// The shell holds these texts: another manager has persisted them.
    pub(crate) fn read(&mut self, remembered: &Remembered) {
        let known = |text: &Option<String>| text.clone().unwrap_or_default();
        self.guid2lid = known(&remembered.guid2lid);
        self.connections = known(&remembered.connections);
        self.groups = known(&remembered.groups);
    }

    /// The texts that have changed: `connections` is `None` if no bandwidth is promised at all.
    pub(crate) fn changed(
        &mut self,
        guid2lid: String,
        connections: Option<String>,
        groups: String,
    ) -> Vec<SmEvent> {
        let mut events = Vec::new();
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
            let connections = connections.map(str::to_owned);
            persistence.changed(guid2lid.to_owned(), connections, groups.to_owned())
        };
        let guid2lid = |text: &str| SmEvent::Persist(text.to_owned());
        let connections = |text: &str| SmEvent::PersistConnections(text.to_owned());
        let groups = |text: &str| SmEvent::PersistGroups(text.to_owned());
        let all = [groups("m1"), connections("c1"), guid2lid("g1")];
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
        });
        let connections = Some("c1".to_owned());
        let events = persistence.changed("g3".into(), connections, "m1".into());
        assert_eq!(events, []);
    }
}
