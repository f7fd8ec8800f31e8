//! Smaller fabrics: what is left of one when devices are left out.
//!
//! Each of these takes hosts or switches away and then what has lost its use: switches that lie on no
//! shortest path between the hosts that are left, and hosts that have lost all their cables. Names, GUIDs,
//! ports and rates of what stays are as they were.

use std::collections::{BTreeSet, VecDeque};

use wire::convert::{nearest, real, u64_of, usize_of};

use crate::graph::{Endpoint, Graph, NodeId, NodeKind};

/// Whether `text` is as `pattern` says: `*` stands for any characters, `?` for one; case counts.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut within) = (0, 0);
    // Where the last star stands, and from where on it may take more.
    let mut star: Option<(usize, usize)> = None;
    while within < text.len() {
        if pattern.get(at) == Some(&'*') {
            star = Some((at, within));
            at += 1;
        } else if pattern
            .get(at)
            .is_some_and(|&c| c == '?' || c == text[within])
        {
            at += 1;
            within += 1;
        } else if let Some((stood, took)) = star {
            star = Some((stood, took + 1));
            at = stood + 1;
            within = took + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

impl Graph {
    /// Whether a pattern fits the node's name or description.
    fn is_named(&self, id: NodeId, patterns: &[String]) -> bool {
        let node = self.node(id);
        let named =
            |pattern: &String| matches(pattern, &node.name) || matches(pattern, &node.description);
        patterns.iter().any(named)
    }

    /// With the hosts only that a pattern names, or that have a cable to a switch that a pattern names.
    #[must_use]
    pub fn only(&self, patterns: &[String]) -> Self {
        let stays = |&host: &NodeId| {
            let mut peers = self.cables(host).map(|(_, peer)| peer.node);
            self.is_named(host, patterns) || peers.any(|peer| self.is_named(peer, patterns))
        };
        self.with_hosts(&self.hosts().filter(stays).collect())
    }

    /// Without the hosts and switches that a pattern names.
    #[must_use]
    pub fn without(&self, patterns: &[String]) -> Self {
        let named: BTreeSet<NodeId> = self
            .ids()
            .filter(|&id| self.is_named(id, patterns))
            .collect();
        let left = self.keep(|id| !named.contains(&id));
        // Hosts that had a cable and have none any more.
        let has_lost_cables = |host: &NodeId| {
            let before = self.find_guid(left.node(*host).guid);
            left.cables(*host).next().is_none()
                && before.is_some_and(|before| self.cables(before).next().is_some())
        };
        let hosts = left.hosts().filter(|host| !has_lost_cables(host)).collect();
        left.with_hosts(&hosts)
    }

    /// With at most `most` hosts on each switch: those in the lowest ports. A host counts where its first
    /// cable leads.
    #[must_use]
    pub fn with_hosts_per_leaf(&self, most: usize) -> Self {
        let mut kept = BTreeSet::new();
        for switch in self.switches() {
            let hosts = self.hosts_on(switch);
            kept.extend(hosts.into_iter().take(most));
        }
        self.with_hosts(&kept)
    }

    /// A fabric of the same shape with at most `most` hosts: of leaf switches, of hosts on each and of
    /// switches on each level as large a share is left, evenly spread, and what joins them.
    #[must_use]
    pub fn shrunk(&self, most: usize) -> Self {
        let leaves: Vec<NodeId> = self
            .switches()
            .filter(|&switch| !self.hosts_on(switch).is_empty())
            .collect();
        let all: usize = leaves.iter().map(|&leaf| self.hosts_on(leaf).len()).sum();
        if all <= most || most == 0 {
            return self.clone();
        }
        // As many leaves as hosts on each, as far as both go: the share of both is the root of the whole's.
        let share = (convert(most) / convert(all)).sqrt();
        let count = part(leaves.len(), share).min(most);
        let chosen = spread(&leaves, count);
        let each = most / chosen.len().max(1);
        let mut hosts = BTreeSet::new();
        for &leaf in &chosen {
            hosts.extend(self.hosts_on(leaf).into_iter().take(each.max(1)));
        }
        let level = self.levels(&leaves);
        let mut switches: BTreeSet<NodeId> = chosen.iter().copied().collect();
        let highest = level.iter().flatten().copied().max().unwrap_or(0);
        for at in 1..=highest {
            let here: Vec<NodeId> = self
                .switches()
                .filter(|id| level[id.index()] == Some(at))
                .collect();
            switches.extend(spread(&here, part(here.len(), share)));
        }
        self.join(&chosen, &mut switches);
        let left = self.keep(|id| match self.node(id).kind {
            NodeKind::Switch => switches.contains(&id),
            NodeKind::Host => hosts.contains(&id),
        });
        let hosts = left.hosts().collect();
        left.with_hosts(&hosts)
    }

    /// The hosts whose first cable leads to `switch`, in order of its ports.
    fn hosts_on(&self, switch: NodeId) -> Vec<NodeId> {
        let mut hosts = Vec::new();
        for (port, peer) in self.cables(switch) {
            let end = Endpoint { node: switch, port };
            let first = self.cables(peer.node).next().map(|(_, first)| first);
            if self.node(peer.node).kind == NodeKind::Host && first == Some(end) {
                hosts.push(peer.node);
            }
        }
        hosts
    }

    /// By node: how many cables a switch is from the nearest of `leaves`.
    fn levels(&self, leaves: &[NodeId]) -> Vec<Option<usize>> {
        let mut level = vec![None; self.len()];
        let mut open: VecDeque<NodeId> = leaves.iter().copied().collect();
        for &leaf in leaves {
            level[leaf.index()] = Some(0);
        }
        while let Some(at) = open.pop_front() {
            let next = level[at.index()].map(|level| level + 1);
            for (_, peer) in self.cables(at) {
                let slot = &mut level[peer.node.index()];
                if self.node(peer.node).kind == NodeKind::Switch && slot.is_none() {
                    *slot = next;
                    open.push_back(peer.node);
                }
            }
        }
        level
    }

    /// Adds switches until all of `leaves` are joined that are joined in the whole fabric.
    fn join(&self, leaves: &[NodeId], switches: &mut BTreeSet<NodeId>) {
        let Some(&first) = leaves.first() else {
            return;
        };
        for &leaf in &leaves[1..] {
            let inside = self.path(first, leaf, |id| switches.contains(&id));
            if inside.is_none()
                && let Some(path) = self.path(first, leaf, |_| true)
            {
                switches.extend(path);
            }
        }
    }

    /// A shortest path of switches that `may` lists.
    fn path(&self, from: NodeId, to: NodeId, may: impl Fn(NodeId) -> bool) -> Option<Vec<NodeId>> {
        let mut before: Vec<Option<NodeId>> = vec![None; self.len()];
        let mut open = VecDeque::from([from]);
        before[from.index()] = Some(from);
        while let Some(at) = open.pop_front() {
            if at == to {
                let mut path = vec![to];
                let mut at = to;
                while at != from {
                    at = before[at.index()]?;
                    path.push(at);
                }
                return Some(path);
            }
            for (_, peer) in self.cables(at) {
                let next = peer.node;
                let is_switch = self.node(next).kind == NodeKind::Switch;
                if is_switch && before[next.index()].is_none() && may(next) {
                    before[next.index()] = Some(at);
                    open.push_back(next);
                }
            }
        }
        None
    }

    /// With these hosts, and the switches that lie on a shortest path between two of them.
    fn with_hosts(&self, hosts: &BTreeSet<NodeId>) -> Self {
        let mut ends = BTreeSet::new();
        for &host in hosts {
            for (_, peer) in self.cables(host) {
                if self.node(peer.node).kind == NodeKind::Switch {
                    ends.insert(peer.node);
                }
            }
        }
        let mut useful: BTreeSet<NodeId> = ends.clone();
        for &from in &ends {
            let distance = self.levels(&[from]);
            // Back from all other ends, each switch once.
            let mut open: Vec<NodeId> = ends.iter().copied().collect();
            let mut seen = vec![false; self.len()];
            while let Some(at) = open.pop() {
                if std::mem::replace(&mut seen[at.index()], true) {
                    continue;
                }
                useful.insert(at);
                for (_, peer) in self.cables(at) {
                    let closer = distance[peer.node.index()].zip(distance[at.index()]);
                    if closer.is_some_and(|(there, here)| there + 1 == here) {
                        open.push(peer.node);
                    }
                }
            }
        }
        self.keep(|id| match self.node(id).kind {
            NodeKind::Switch => useful.contains(&id),
            NodeKind::Host => hosts.contains(&id),
        })
    }

    /// With these nodes and the cables between them.
    fn keep(&self, stays: impl Fn(NodeId) -> bool) -> Self {
        let mut left = Self::new();
        let mut now = vec![None; self.len()];
        for id in self.ids().filter(|&id| stays(id)) {
            // Names and GUIDs are unique here, so there too.
            now[id.index()] = left.add(self.node(id).clone()).ok();
        }
        for (a, b) in self.links() {
            if let (Some(at_a), Some(at_b)) = (now[a.node.index()], now[b.node.index()]) {
                let rate = self.rate(a);
                let [a, b] = [(at_a, a), (at_b, b)].map(|(node, end)| Endpoint { node, ..end });
                let connected = left.connect_at(a, b, rate);
                debug_assert_eq!(connected, Ok(()));
            }
        }
        left
    }
}

/// `share` of `count`, at least one, at most all.
fn part(count: usize, share: f64) -> usize {
    usize_of(nearest(convert(count) * share)).clamp(1, count.max(1))
}

fn convert(count: usize) -> f64 {
    real(u64_of(count))
}

/// `count` of `all`, evenly spread.
fn spread(all: &[NodeId], count: usize) -> Vec<NodeId> {
    let count = count.min(all.len());
    (0..count).map(|n| all[n * all.len() / count]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(name: &str) -> Graph {
        crate::parse(name).unwrap().graph
    }

    fn names(graph: &Graph, kind: NodeKind) -> Vec<&str> {
        let nodes = graph.ids().map(|id| graph.node(id));
        let of_kind = nodes.filter(|node| node.kind == kind);
        of_kind.map(|node| node.name.as_str()).collect()
    }

    /// Whether all hosts have a switch, and all of these are joined.
    fn is_whole(graph: &Graph) -> bool {
        let mut switches = graph.hosts().filter_map(|host| {
            let (_, peer) = graph.cables(host).next()?;
            Some(peer.node)
        });
        let Some(first) = switches.next() else {
            return false;
        };
        let level = graph.levels(&[first]);
        graph
            .hosts()
            .all(|host| graph.cables(host).next().is_some())
            && switches.all(|switch| level[switch.index()].is_some())
    }

    #[test]
    fn a_pattern_has_stars_and_question_marks() {
        for (pattern, text) in [
            ("h1", "h1"),
            ("h*", "h12"),
            ("*", ""),
            ("*-c0?", "a08-dgx-c07"),
            ("n*1*3", "n0123"),
            ("a**b", "ab"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("h1", "h12"), ("h?", "h"), ("*x", "xy"), ("", "a")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn hosts_that_stay_keep_the_switches_between_them() {
        let whole = graph("fat-tree-4-3");
        let left = whole.only(&["h0.0.?".to_owned()]);
        assert_eq!(names(&left, NodeKind::Host), ["h0.0.0", "h0.0.1"]);
        assert_eq!(left.switches().count(), 1, "both are on one switch");
        let two = whole.only(&["h0.0.0".to_owned(), "h1.0.0".to_owned()]);
        assert_eq!(two.hosts().count(), 2);
        assert!(is_whole(&two) && two.switches().count() < whole.switches().count());
        let leaf = whole.only(&["s2.0.0".to_owned()]);
        assert_eq!(leaf.hosts().count(), 2, "those on the switch");
    }

    #[test]
    fn what_is_left_out_takes_what_depends_on_it_along() {
        let whole = graph("fat-tree-4-2");
        let leaf = names(&whole, NodeKind::Switch).into_iter().find(|name| {
            let id = whole.find(name).unwrap();
            !whole.hosts_on(id).is_empty()
        });
        let left = whole.without(&[leaf.unwrap().to_owned()]);
        assert_eq!(left.hosts().count(), whole.hosts().count() - 2);
        assert!(is_whole(&left));
        let half = whole.with_hosts_per_leaf(1);
        assert_eq!(half.hosts().count(), 4);
        assert_eq!(half.switches().count(), whole.switches().count());
    }

    #[test]
    fn a_shrunk_fabric_has_the_same_shape() {
        let whole = graph("fat-tree-8-3");
        for most in [1, 2, 7, 16, 60, 127] {
            let small = whole.shrunk(most);
            let hosts = small.hosts().count();
            assert!((1..=most).contains(&hosts), "{hosts} of {most}");
            assert!(is_whole(&small), "{most}");
            assert!(small.len() <= whole.len() / 2 + most, "{most}");
            assert_eq!(whole.shrunk(most), small, "the same each time");
        }
        let small = whole.shrunk(16);
        let level = small.levels(
            &small
                .switches()
                .filter(|&id| !small.hosts_on(id).is_empty())
                .collect::<Vec<_>>(),
        );
        assert_eq!(
            level.iter().flatten().max(),
            Some(&2),
            "three levels as before"
        );
        assert_eq!(whole.shrunk(128), whole);
    }

    #[test]
    fn rates_and_identities_stay() {
        let mut whole = graph("star-3");
        let host = whole.find("h1").unwrap();
        let end = Endpoint {
            node: host,
            port: wire::PortNum::new(1),
        };
        let other = whole.disconnect(end).unwrap();
        let rate = wire::LinkRate {
            width: wire::LinkWidth::X1,
            speed: wire::LinkSpeed::Sdr,
        };
        whole.connect_at(end, other, Some(rate)).unwrap();
        let left = whole.without(&["h0".to_owned()]);
        let end = Endpoint {
            node: left.find("h1").unwrap(),
            ..end
        };
        assert_eq!(left.rate(end), Some(rate));
        assert_eq!(left.hosts().count(), 2);
    }
}
