//! What later managers need to know, given to the shell as far as it has changed.

use crate::SmEvent;

/// The texts as they were last given to the shell.
#[derive(Debug, Default)]
pub(crate) struct Persistence {
    guid2lid: String,
    connections: String,
}

impl Persistence {
    /// The texts that have changed: `connections` is `None` if no bandwidth is promised at all.
    pub(crate) fn changed(
        &mut self,
        guid2lid: String,
        connections: Option<String>,
    ) -> Vec<SmEvent> {
        let mut events = Vec::new();
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
        let connections = || Some("c1".to_owned());
        assert_eq!(
            persistence.changed("g1".into(), connections()),
            [
                SmEvent::PersistConnections("c1".into()),
                SmEvent::Persist("g1".into())
            ]
        );
        assert_eq!(persistence.changed("g1".into(), connections()), []);
        assert_eq!(
            persistence.changed("g2".into(), None),
            [SmEvent::Persist("g2".into())]
        );
    }
}
