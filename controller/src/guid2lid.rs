//! The file `guid2lid`: LID assignments and the fabric, kept across restarts of the subnet manager.
//!
//! Its form is that of [`crate::statements`].
//!
//! ```text
//! version 1                     first statement, always
//! engine NAME WHY               the engine that `auto` has taken (WHY is the rest of the line); without
//!                               devices below it for the fabric that is found first
//! lid GUID LID LMC              the port of that GUID has 2^LMC LIDs from LID
//! switch GUID PORTS NAME        the fabric as it was when it was whole: a device
//! host GUID PORTS NAME          (NAME is the rest of the line)
//! image GUID GUID               the system image GUID of a device named above, if it is not its own
//! cable GUID PORT GUID PORT     a cable between two devices named above
//! ```
//!
//! The devices and cables tell a manager that starts on a degraded fabric what is missing, so
//! that it keeps the labels of a fat tree. Remove them (or the whole file) after the fabric was
//! rebuilt. A file that cannot be parsed is refused with the number of the line.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use routing::RoutingEngine;
use topologies::{Endpoint, Graph, Node, NodeKind};
use wire::{Guid, Lid, Lmc, PortNum};

use crate::ConfigError;
use crate::statements::{self, Damaged, end, guid, number};

const HEADER: &str = "\
# LIDs by port GUID, and the whole fabric, as the ibemu controller last knew them.
# Remove this file to forget them.
version 1
";

/// The engine that `auto` has taken for the whole fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptChoice {
    /// Never `auto` itself.
    pub engine: RoutingEngine,
    /// Why, in one line; may be empty.
    pub because: String,
}

impl KeptChoice {
    /// What the text of a `guid2lid` file names, if it names any.
    ///
    /// # Errors
    /// [`ConfigError::GuidFile`] with the line's number if the text is damaged anywhere.
    pub fn read(guid2lid: &str) -> Result<Option<Self>, ConfigError> {
        Ok(Memory::parse(guid2lid)?.choice)
    }
}

/// The text of a `guid2lid` file that names nothing but what `auto` has taken: for a manager that has
/// not seen the fabric yet.
#[must_use]
pub fn guid2lid_of(choice: &KeptChoice) -> String {
    let memory = Memory {
        choice: Some(choice.clone()),
        ..Memory::default()
    };
    memory.write()
}

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// What `auto` has taken; `None` if it has not been asked.
    pub(crate) choice: Option<KeptChoice>,
    /// Base LID and LMC by GUID of the end port (a switch's node GUID).
    pub(crate) lids: BTreeMap<Guid, (Lid, Lmc)>,
    /// The fabric when it was whole; empty if unknown.
    pub(crate) fabric: Graph,
}

impl Memory {
    /// Reads the text.
    ///
    /// # Errors
    /// [`ConfigError::GuidFile`] with the line's number.
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut memory = Self::default();
        statements::read(text, |keyword, rest| match keyword {
            "engine" => memory.read_choice(rest),
            "lid" => memory.read_lid(rest),
            "switch" => memory.read_node(NodeKind::Switch, rest),
            "host" => memory.read_node(NodeKind::Host, rest),
            "image" => memory.read_image(rest),
            "cable" => memory.read_cable(rest),
            _ => Err(statements::unknown(keyword)),
        })
        .map_err(|Damaged { line, problem }| ConfigError::GuidFile { line, problem })?;
        Ok(memory)
    }

    fn read_choice(&mut self, rest: &str) -> Result<(), String> {
        let rest = rest.trim();
        let (name, because) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let engine = name
            .parse()
            .map_err(|error: <RoutingEngine as core::str::FromStr>::Err| error.to_string())?;
        if matches!(engine, RoutingEngine::Auto | RoutingEngine::File) {
            return Err(format!("{engine} is no engine that auto takes"));
        }
        let because = because.trim().to_owned();
        match self.choice.replace(KeptChoice { engine, because }) {
            None => Ok(()),
            Some(first) => Err(format!("the engine is {} already", first.engine)),
        }
    }

    fn read_lid(&mut self, rest: &str) -> Result<(), String> {
        let mut words = rest.split_whitespace();
        let guid = guid(words.next())?;
        let base = Lid::new(number(words.next(), "a LID")?);
        let lmc = number::<u8>(words.next(), "an LMC")?;
        end(words.next())?;
        let lmc = Lmc::new(lmc).map_err(|error| error.to_string())?;
        let last = base.get().checked_add(lmc.lids() - 1);
        if !base.is_unicast()
            || !base.get().is_multiple_of(lmc.lids())
            || last.is_none_or(|last| last > Lid::UNICAST_LAST.get())
        {
            return Err(format!("{base} with LMC {lmc} is no unicast base LID"));
        }
        if self.lids.insert(guid, (base, lmc)).is_some() {
            return Err(format!("{guid} has a LID already"));
        }
        Ok(())
    }

    fn read_node(&mut self, kind: NodeKind, rest: &str) -> Result<(), String> {
        let mut words = rest.trim().splitn(3, char::is_whitespace);
        let guid = guid(words.next())?;
        let ports = number(words.next(), "a number of ports")?;
        let name = words.next().map(str::trim).unwrap_or_default();
        if name.is_empty() {
            return Err("a name is missing".to_owned());
        }
        // Only an enhanced port 0 has several LIDs; these stand above.
        let several = self.lids.get(&guid).is_some_and(|(_, lmc)| lmc.get() > 0);
        let node = Node {
            enhanced_port0: kind == NodeKind::Switch && several,
            ..Node::new(name, kind, guid, ports)
        };
        self.fabric
            .add(node)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    fn read_image(&mut self, rest: &str) -> Result<(), String> {
        let mut words = rest.split_whitespace();
        let (of, image) = (guid(words.next())?, guid(words.next())?);
        end(words.next())?;
        let node = self.fabric.find_guid(of);
        let node = node.ok_or_else(|| format!("no device {of} above this line"))?;
        self.fabric.set_system_image(node, image);
        Ok(())
    }

    fn read_cable(&mut self, rest: &str) -> Result<(), String> {
        let mut words = rest.split_whitespace();
        let mut side = || {
            let guid = guid(words.next())?;
            let port = PortNum::new(number(words.next(), "a port")?);
            let node = self
                .fabric
                .find_guid(guid)
                .ok_or_else(|| format!("no device {guid} above this line"))?;
            Ok::<_, String>(Endpoint { node, port })
        };
        let (a, b) = (side()?, side()?);
        end(words.next())?;
        self.fabric.connect(a, b).map_err(|error| error.to_string())
    }

    /// The text that [`Self::parse`] reads.
    pub(crate) fn write(&self) -> String {
        let mut text = String::from(HEADER);
        // Writing into a String does not fail.
        if let Some(KeptChoice { engine, because }) = &self.choice {
            let because = because.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = writeln!(text, "{}", format!("engine {engine} {because}").trim_end());
        }
        for (guid, (base, lmc)) in &self.lids {
            let _ = writeln!(text, "lid {guid} {base} {lmc}");
        }
        for id in self.fabric.ids() {
            let node = self.fabric.node(id);
            let kind = match node.kind {
                NodeKind::Switch => "switch",
                NodeKind::Host => "host",
            };
            let _ = writeln!(text, "{kind} {} {} {}", node.guid, node.ports, node.name);
            if node.system_image_guid != node.guid {
                let _ = writeln!(text, "image {} {}", node.guid, node.system_image_guid);
            }
        }
        for (a, b) in self.fabric.links() {
            let side = |end: Endpoint| (self.fabric.node(end.node).guid, end.port);
            let ((a, a_port), (b, b_port)) = (side(a), side(b));
            let _ = writeln!(text, "cable {a} {a_port} {b} {b_port}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# LIDs by port GUID, and the whole fabric, as the ibemu controller last knew them.
# Remove this file to forget them.
version 1
engine updn best of 3: busiest cable 12
lid 0x0000000000000011 4 2
switch 0x0000000000000001 4 the first switch
host 0x0000000000000010 1 h0
image 0x0000000000000010 0x0000000000000001
cable 0x0000000000000001 3 0x0000000000000010 1
";

    #[test]
    fn what_is_written_reads_back() {
        let memory = Memory::parse(TEXT).unwrap();
        assert_eq!(memory.lids[&Guid(0x11)].0.get(), 4);
        let choice = memory.choice.clone().unwrap();
        assert_eq!(choice.engine, RoutingEngine::Updn);
        assert_eq!(choice.because, "best of 3: busiest cable 12");
        assert_eq!(memory.fabric.links().count(), 1);
        assert!(memory.fabric.find("the first switch").is_some());
        let host = memory.fabric.find("h0").unwrap();
        assert_eq!(memory.fabric.node(host).system_image_guid, Guid(1));
        assert_eq!(memory.write(), TEXT);
    }

    #[test]
    fn a_damaged_line_is_named() {
        for (text, line, problem) in [
            ("lid 0x1 4 2", 1, "the first statement"),
            ("version 2", 1, "the first statement"),
            ("version 1\nlid 0x1 5 2", 2, "no unicast base LID"),
            ("version 1\nlid 0x1 49151 1", 2, "no unicast base LID"),
            ("version 1\nlid 0x1 65536 0", 2, "not a LID"),
            ("version 1\nlid 0x1 4 2 9", 2, "too much"),
            ("version 1\n\nlid 0x1 4 2\nlid 0x1 8 2", 4, "already"),
            ("version 1\nlid one 4 2", 2, "no GUID"),
            ("version 1\nhost 0x1 1", 2, "a name is missing"),
            ("version 1\nhost 0x1 1 a\ncable 0x1 1 0x2 1", 3, "no device"),
            ("version 1\nimage 0x1 0x2", 2, "no device"),
            ("version 1\nrouter 0x1 1 a", 2, "unknown statement"),
            ("version 1\nengine fastest", 2, "no routing engine"),
            ("version 1\nengine auto", 2, "no engine that auto takes"),
            ("version 1\nengine updn\nengine updn", 3, "already"),
        ] {
            match Memory::parse(text) {
                Err(ConfigError::GuidFile {
                    line: at,
                    problem: what,
                }) => {
                    assert_eq!(at, line, "{text:?}");
                    assert!(what.contains(problem), "{text:?}: {what}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_empty_text_is_an_empty_memory() {
        assert_eq!(Memory::parse("").unwrap(), Memory::default());
    }
}
