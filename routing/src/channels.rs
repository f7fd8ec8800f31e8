//! Channels, what waits for what among them, and circles in that.
//!
//! A channel is the direction of a cable from one switch to another. A packet that holds channel
//! `a` and needs `b` next makes `a` wait for `b`. Packets can wait for each other for ever exactly
//! where this graph has a cycle (Dally and Seitz 1987). Channels from and to hosts are left out:
//! nothing waits for a source, and a destination waits for nobody.

use wire::PortNum;

use crate::balance::first_cables;
use crate::net::{NOWHERE, Net};

/// The channels of a fabric and their dependencies.
pub(crate) struct Channels {
    /// By switch: its first channel; channels are numbered as [`Net::links`] are.
    first: Vec<u32>,
    /// By channel.
    ends: Vec<Ends>,
    /// By switch and port: the channel, or [`NOWHERE`].
    by_port: Vec<Vec<u32>>,
    /// By channel: where its bits begin in `waits`. A bit stands for a channel of the switch that
    /// the channel leads to.
    bits: Vec<usize>,
    waits: Vec<u64>,
}

/// The two ends of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) from: u32,
    pub(crate) port: PortNum,
    pub(crate) to: u32,
}

impl Channels {
    /// All channels; nothing waits yet.
    pub(crate) fn new(net: &Net<'_>) -> Self {
        let mut ends = Vec::new();
        let mut by_port = Vec::with_capacity(net.switches.len());
        let (mut bits, mut words) = (Vec::new(), 0);
        for ((switch, links), &node) in (0..).zip(&net.links).zip(&net.switches) {
            let ports = usize::from(net.graph.node(node).ports);
            let mut channels = vec![NOWHERE; ports + 1];
            for link in links {
                channels[link.port.index()] = u32::try_from(ends.len()).unwrap_or(NOWHERE);
                ends.push(Ends {
                    from: switch,
                    port: link.port,
                    to: link.to,
                });
                bits.push(words);
                words += net.links[link.to as usize].len().div_ceil(64);
            }
            by_port.push(channels);
        }
        Self {
            first: first_cables(net),
            ends,
            by_port,
            bits,
            waits: vec![0; words],
        }
    }

    /// How many channels there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn ends(&self, channel: u32) -> Ends {
        self.ends[channel as usize]
    }

    /// The channel out of that port of a switch, if a switch is behind it.
    pub(crate) fn at(&self, switch: u32, port: PortNum) -> Option<u32> {
        let channel = *self.by_port[switch as usize].get(port.index())?;
        (channel != NOWHERE).then_some(channel)
    }

    /// Makes `channel` wait for `next`, which begins where `channel` ends.
    pub(crate) fn wait(&mut self, channel: u32, next: u32) {
        let to = self.ends[channel as usize].to;
        let bit = (next - self.first[to as usize]) as usize;
        self.waits[self.bits[channel as usize] + bit / 64] |= 1 << (bit % 64);
    }

    /// The channels that `channel` waits for, from number `from` of that switch on.
    fn next_waited(&self, channel: u32, from: u32) -> Option<(u32, u32)> {
        let words = &self.waits[self.bits[channel as usize]..];
        let first = self.first[self.ends[channel as usize].to as usize];
        let end = self
            .bits
            .get(channel as usize + 1)
            .map_or(self.waits.len(), |&end| end)
            - self.bits[channel as usize];
        let mut word = (from / 64) as usize;
        let mut mask = u64::MAX << (from % 64);
        while word < end {
            let found = words[word] & mask;
            if found != 0 {
                let bit = u32::try_from(word).unwrap_or(0) * 64 + found.trailing_zeros();
                return Some((first + bit, bit + 1));
            }
            mask = u64::MAX;
            word += 1;
        }
        None
    }

    /// Channels that wait for each other in a circle, in order; `None` if there are none.
    pub(crate) fn cycle(&self) -> Option<Vec<u32>> {
        circle(self.len(), |channel, from| self.next_waited(channel, from))
    }
}

/// A circle in a graph of nodes `0..len`, in order; `None` if there is none. `next(node, from)` is
/// a successor of the node, and what to ask with for the next one; `from` is 0 at first.
pub(crate) fn circle(
    len: usize,
    next: impl Fn(u32, u32) -> Option<(u32, u32)>,
) -> Option<Vec<u32>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnPath,
        Done,
    }
    let mut seen = vec![Seen::No; len];
    // The path being walked: node, and which of its successors comes next.
    let mut path: Vec<(u32, u32)> = Vec::new();
    for start in (0..).take(len) {
        if seen[start as usize] != Seen::No {
            continue;
        }
        seen[start as usize] = Seen::OnPath;
        path.push((start, 0));
        while let Some((node, from)) = path.last_mut() {
            let Some((successor, resume)) = next(*node, *from) else {
                seen[*node as usize] = Seen::Done;
                path.pop();
                continue;
            };
            *from = resume;
            match seen[successor as usize] {
                Seen::No => {
                    seen[successor as usize] = Seen::OnPath;
                    path.push((successor, 0));
                }
                Seen::OnPath => {
                    let circle = path.iter().map(|&(node, _)| node);
                    return Some(circle.skip_while(|&node| node != successor).collect());
                }
                Seen::Done => {}
            }
        }
    }
    None
}
