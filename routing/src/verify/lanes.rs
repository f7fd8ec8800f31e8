//! What waits for what where packets have service levels and ports several lanes.
//!
//! Each packet between hosts is followed with its level: a channel is one lane of one direction of a
//! cable, and what a packet holds waits for what it needs next. Packets to and from switches
//! themselves are left out: engines that need levels give them to hosts only.

use topologies::NodeKind;
use wire::{Lid, PortNum, Sl, Vl};

use super::Channel;
use crate::channels::{Channels, circle};
use crate::lanes::Lanes;
use crate::net::{NOWHERE, Net};
use crate::tables::Tables;

/// Lanes of a channel, data and management.
const LANES: u32 = 16;

/// Lanes that wait for each other in a circle, if any do.
pub(super) fn cycle(net: &Net<'_>, tables: &Tables, lanes: &Lanes) -> Option<Vec<Channel>> {
    let mut walker = Walker::new(net, tables, lanes);
    let ranges = tables.lids.iter().filter(|range| {
        range
            .end
            .is_some_and(|end| net.graph.node(end.node).kind == NodeKind::Host)
    });
    for lid in ranges.flat_map(|range| range.lids()) {
        walker.followed.fill([0; 16]);
        for host in net.ends.iter().filter(|host| host.switch != NOWHERE) {
            let level = lanes.level(net.switches[host.switch as usize], lid);
            walker.follow(host.switch, host.port, lid, level);
        }
    }
    let next = |lane: u32, from: u32| {
        let waited = walker.waits[lane as usize].get(from as usize)?;
        Some((*waited, from + 1))
    };
    let found = circle(walker.waits.len(), next)?;
    let named = found.into_iter().map(|lane| {
        let ends = walker.channels.ends(lane / LANES);
        Channel {
            switch: net.switches[ends.from as usize],
            port: ends.port,
            vl: Vl::truncate(u8::try_from(lane % LANES).unwrap_or_default()),
        }
    });
    Some(named.collect())
}

struct Walker<'a, 'g> {
    net: &'a Net<'g>,
    tables: &'a Tables,
    lanes: &'a Lanes,
    channels: Channels,
    /// By channel: the port where it ends.
    entry: Vec<PortNum>,
    /// By channel and lane (`16 * channel + lane`): what it waits for.
    waits: Vec<Vec<u32>>,
    /// By channel and lane: a bit for each level that was followed there to the LID at hand.
    followed: Vec<[u16; 16]>,
}

impl<'a, 'g> Walker<'a, 'g> {
    fn new(net: &'a Net<'g>, tables: &'a Tables, lanes: &'a Lanes) -> Self {
        let channels = Channels::new(net);
        let entry = net
            .links
            .iter()
            .flatten()
            .map(|link| link.to_port)
            .collect();
        Self {
            net,
            tables,
            lanes,
            entry,
            waits: vec![Vec::new(); channels.len() * LANES as usize],
            followed: vec![[0; 16]; channels.len()],
            channels,
        }
    }

    /// A packet of that level that comes into a switch by a port; ends where it leaves the switches,
    /// or where one like it was followed before.
    fn follow(&mut self, switch: u32, port: PortNum, lid: Lid, level: Sl) {
        let (mut at, mut entry) = (switch, port);
        let mut held: Option<u32> = None;
        loop {
            let node = self.net.switches[at as usize];
            let exit = self.tables.lft(node).get(lid);
            let Some(channel) = self.channels.at(at, exit) else {
                return;
            };
            let vl = self.lanes.vl(node, entry, exit, level);
            let lane = channel * LANES + u32::from(vl.get());
            if let Some(held) = held.replace(lane) {
                let waits = &mut self.waits[held as usize];
                if !waits.contains(&lane) {
                    waits.push(lane);
                }
            }
            let followed = &mut self.followed[channel as usize][vl.index()];
            let bit = 1 << level.get();
            if *followed & bit != 0 {
                return;
            }
            *followed |= bit;
            entry = self.entry[channel as usize];
            at = self.channels.ends(channel).to;
        }
    }
}
