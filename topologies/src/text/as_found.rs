//! Descriptions as people have them: ibnetdiscover's text with what terminals, editors and versions of the program do
//! to it. For tests of whatever reads or takes topologies.

use core::fmt::Write as _;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::write_ibnetdiscover;
use crate::graph::Graph;

/// What programs say on standard error while ibnetdiscover runs.
const MESSAGES: [&str; 4] = [
    "ibwarn: [4711] _do_madrpc: recv failed: Connection timed out",
    "src/query_smp.c:195; umad (DR path slid 0; dlid 0; 0,1,1,31 Attr 0x11:0) bad status 110; Connection timed out",
    "ibwarn: [4711] mad_rpc: _do_madrpc failed; dport (DR path slid 0; dlid 0; 0,1)",
    "bash: warning: setlocale: LC_ALL: cannot change locale (C.UTF-8)",
];

/// The text of [`write_ibnetdiscover`] with quirks drawn from a seed, which a reader takes for the same: a
/// byte order mark, line ends of another system, prompts, messages of programs between the lines, sections of
/// chassis and numbers of external ports (`-g`), link details (`-f`), tabs turned to blanks, lines left out that say
/// nothing new. The same numbers give the same text.
///
/// ```
/// let graph = topologies::AsBuilt::new(4, 3, 2, 0, 1).graph()?;
/// let text = topologies::write_as_found(&graph, 7);
/// let plain = topologies::write_ibnetdiscover(&graph);
/// assert_eq!(topologies::read_text(&text), topologies::read_text(&plain));
/// # Ok::<(), topologies::TopologyError>(())
/// ```
#[must_use]
pub fn write_as_found(graph: &Graph, seed: u64) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut flag = || random.random_bool(0.5);
    let quirks = Quirks {
        mark: flag(),
        carriage_returns: flag(),
        prompts: flag(),
        messages: flag(),
        groups: flag(),
        details: flag(),
        blanks: flag(),
        guid_lines: flag(),
    };
    quirks.apply(&write_ibnetdiscover(graph), &mut random)
}

#[allow(clippy::struct_excessive_bools, reason = "each is a quirk of its own")]
struct Quirks {
    mark: bool,
    carriage_returns: bool,
    prompts: bool,
    messages: bool,
    groups: bool,
    details: bool,
    blanks: bool,
    guid_lines: bool,
}

impl Quirks {
    fn apply(&self, text: &str, random: &mut impl Rng) -> String {
        let mut out = String::new();
        if self.mark {
            out.push('\u{feff}');
        }
        if self.prompts {
            out.push_str("[root@login01 ~]# ibnetdiscover | tee fabric.txt\n");
        }
        if self.groups {
            out.push_str("\nChassis 1 (guid 0x2c9)\n\n# Spine Nodes\n\nNon-Chassis Nodes\n");
        }
        for line in text.lines() {
            if self.messages && random.random_ratio(1, 16) {
                let message = MESSAGES[random.random_range(0..MESSAGES.len())];
                out.push_str(message);
                out.push('\n');
            }
            // The GUID stands in the id of the node, too.
            let is_guid = ["switchguid=", "caguid=", "rtguid="]
                .iter()
                .any(|word| line.starts_with(word));
            if is_guid && !self.guid_lines {
                continue;
            }
            let line = self.line(line);
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{line}");
        }
        if self.prompts {
            out.push_str("[root@login01 ~]# exit\n");
        }
        if self.carriage_returns {
            out = out.replace('\n', "\r\n");
        }
        out
    }

    fn line(&self, line: &str) -> String {
        let mut line = line.to_owned();
        if self.groups && line.starts_with("sysimgguid=") {
            line.push_str("\t\t# Chassis 1");
        }
        if self.groups && line.starts_with("switchguid=") {
            line.push_str("\t# Line 1 Chip 1");
        }
        if line.starts_with('[') {
            if self.groups {
                line = line.replacen(']', "][ext 7]", 1);
            }
            if self.details {
                line.push_str(" s=4 w=2 v=4");
            }
        }
        if self.blanks {
            line = line.replace('\t', "        ");
        }
        line
    }
}
