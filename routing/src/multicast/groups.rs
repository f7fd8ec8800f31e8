//! Groups, their members and multicast LIDs, and the tables that follow.

use std::collections::{BTreeMap, BTreeSet};

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use topologies::{Graph, NodeId};
use wire::convert::usize_of;
use wire::{Guid, Lid};

use super::MulticastError;
use super::mft::{Mft, PORTS_A_POSITION, PortSet};
use super::trees::Tree;
use crate::fat_tree::{FatTreeLabels, recognise};
use crate::network::Network;

/// A multicast group's GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mgid(pub u128);

/// How groups are given trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Scheme {
    /// One tree and one multicast LID for each group, as OpenSM does; any fabric, any client.
    #[default]
    SpanningTree,
    /// A tree and a multicast LID for each offset that members have (MCAST07); fat trees only.
    Cyclic,
}
wire::choice!(Scheme, "multicast scheme");

/// The role of a member (the JoinState of IBA 15.2.5.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It sends only.
    SendsOnly,
    /// It receives; it may send as well.
    Receives,
}

/// How to set up multicast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How groups are given trees.
    pub scheme: Scheme,
    /// Rows of the smallest multicast forwarding table: SwitchInfo's MulticastFDBCap. At most
    /// 16383 are used.
    pub rows: u16,
    /// Labels of the fat tree that this fabric was when it was whole; `None` to recognise it. For
    /// [`Scheme::Cyclic`].
    pub labels: Option<FatTreeLabels>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheme: Scheme::default(),
            rows: 1024,
            labels: None,
        }
    }
}

/// A block of a switch's table that must be written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockChange {
    /// The switch.
    pub switch: NodeId,
    /// The block: 32 multicast LIDs.
    pub block: usize,
    /// The position: 16 ports.
    pub position: usize,
}

/// The result of joining a group: the member's multicast LID, and the blocks that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The multicast LID to which this member sends.
    pub mlid: Lid,
    /// The blocks to write before the member is answered.
    pub changes: BTreeSet<BlockChange>,
}

/// A group as it stands: what [`Multicast::restore`] takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// The group.
    pub name: Mgid,
    /// Its members by port GUID, and what they do.
    pub members: Vec<(Guid, Role)>,
    /// Whether it stands without members, as of [`Multicast::keep`].
    pub is_kept: bool,
    /// Its multicast LIDs and their trees, as of [`Multicast::mlids`].
    pub mlids: Vec<(usize, Lid)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    /// By host number.
    members: BTreeMap<usize, Role>,
    /// By tree: its multicast LID.
    mlids: BTreeMap<usize, Lid>,
    /// It keeps the multicast LID of [`KEPT_TREE`] also without members.
    is_kept: bool,
}

/// The tree whose multicast LID a group keeps that stands without members.
const KEPT_TREE: usize = 0;

/// The multicast groups of a fabric.
#[derive(Clone, Debug)]
pub struct Multicast {
    network: Network,
    scheme: Scheme,
    rows: u16,
    trees: Vec<Tree>,
    /// By host number: the tree on which it sends.
    tree_of: Vec<usize>,
    hosts: BTreeMap<Guid, usize>,
    groups: BTreeMap<Mgid, Group>,
    taken: BTreeMap<Lid, Mgid>,
    mfts: BTreeMap<NodeId, Mft>,
}

impl Multicast {
    /// A fabric without groups.
    ///
    /// # Errors
    /// [`MulticastError::NotFatTree`] with [`Scheme::Cyclic`]; [`MulticastError::NoTree`] if the
    /// fabric has no switch, or no tree is whole.
    pub fn new(graph: &Graph, options: &Options) -> Result<Self, MulticastError> {
        let network = Network::new(graph);
        let (trees, tree_of) = match options.scheme {
            Scheme::SpanningTree => {
                let tree = Tree::spanning(&network).ok_or(MulticastError::NoTree)?;
                (vec![tree], vec![0; network.hosts().len()])
            }
            Scheme::Cyclic => cyclic(graph, &network, options.labels.as_ref())?,
        };
        let hosts = network
            .hosts()
            .iter()
            .map(|host| host.guid)
            .zip(0..)
            .collect();
        Ok(Self {
            network,
            scheme: options.scheme,
            rows: options.rows.min(16383),
            trees,
            tree_of,
            hosts,
            groups: BTreeMap::new(),
            taken: BTreeMap::new(),
            mfts: BTreeMap::new(),
        })
    }

    /// The same groups on a fabric that has changed. Ports that are no longer there are no members
    /// any more; a group keeps its multicast LIDs, so that members need no new ones.
    ///
    /// # Errors
    /// Those of [`Multicast::new`].
    pub fn moved_to(&self, graph: &Graph, options: &Options) -> Result<Self, MulticastError> {
        Self::restore(graph, options, self.group_states())
    }

    /// All groups with their members and multicast LIDs, in order.
    pub fn group_states(&self) -> impl Iterator<Item = GroupState> + '_ {
        self.groups.iter().map(|(&name, group)| GroupState {
            name,
            members: self.members(name).collect(),
            is_kept: group.is_kept,
            mlids: (group.mlids.iter())
                .map(|(&tree, &mlid)| (tree, mlid))
                .collect(),
        })
    }

    /// A fabric with groups that stood before, here or elsewhere. Of what is given, ports that are not
    /// there are no members, and a multicast LID is not kept that no table holds, whose tree no member
    /// uses, or that an earlier group has; a group gets others instead. A group for which the tables have
    /// no room is left out.
    ///
    /// # Errors
    /// Those of [`Multicast::new`].
    pub fn restore(
        graph: &Graph,
        options: &Options,
        groups: impl IntoIterator<Item = GroupState>,
    ) -> Result<Self, MulticastError> {
        let mut restored = Self::new(graph, options)?;
        for one in groups {
            let number = |guid: &Guid| restored.hosts.get(guid).copied();
            let members: BTreeMap<usize, Role> = (one.members.iter())
                .filter_map(|(guid, role)| Some((number(guid)?, *role)))
                .collect();
            let mut mlids = BTreeMap::new();
            for (tree, mlid) in one.mlids {
                let is_used = members.keys().any(|&host| restored.tree_of[host] == tree)
                    || (one.is_kept && tree == KEPT_TREE);
                let row = mlid.get().checked_sub(Lid::MULTICAST_FIRST.get());
                let fits = row.is_some_and(|row| row < restored.rows);
                let is_free = !restored.taken.contains_key(&mlid) && !mlids.contains_key(&tree);
                if is_used && fits && is_free {
                    restored.taken.insert(mlid, one.name);
                    mlids.insert(tree, mlid);
                }
            }
            let group = Group {
                members,
                mlids,
                is_kept: one.is_kept,
            };
            restored.groups.insert(one.name, group);
        }
        let names: Vec<Mgid> = restored.groups.keys().copied().collect();
        for name in names {
            if restored.complete(name).is_err() {
                restored.groups.remove(&name);
                restored.taken.retain(|_, group| *group != name);
            }
            restored.update(name);
        }
        Ok(restored)
    }

    /// Gives a group a multicast LID for each tree that a member sends on.
    fn complete(&mut self, name: Mgid) -> Result<(), MulticastError> {
        let members = self.groups.get(&name).map(|group| &group.members);
        let trees: BTreeSet<usize> = members
            .into_iter()
            .flat_map(BTreeMap::keys)
            .map(|&host| self.tree_of[host])
            .collect();
        for tree in trees {
            let has = |group: &Group| group.mlids.contains_key(&tree);
            if !self.groups.get(&name).is_none_or(has) {
                let mlid = self.free_mlid()?;
                self.taken.insert(mlid, name);
                self.groups
                    .entry(name)
                    .or_default()
                    .mlids
                    .insert(tree, mlid);
            }
        }
        Ok(())
    }

    /// Gives a group a multicast LID that it keeps also without members: the group is there before the first
    /// member joins and after the last one has left.
    ///
    /// # Errors
    /// [`MulticastError::TableFull`]; nothing changes then.
    pub fn keep(&mut self, group: Mgid) -> Result<Lid, MulticastError> {
        let known = self.groups.get(&group);
        let known = known.and_then(|group| group.mlids.get(&KEPT_TREE)).copied();
        let mlid = match known {
            Some(mlid) => mlid,
            None => self.free_mlid()?,
        };
        self.taken.insert(mlid, group);
        let entry = self.groups.entry(group).or_default();
        entry.mlids.insert(KEPT_TREE, mlid);
        entry.is_kept = true;
        Ok(mlid)
    }

    /// The groups with members and those that are kept without, in order.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = Mgid> + '_ {
        self.groups.keys().copied()
    }

    /// The port GUIDs of a group's members and what they do, in order of GUID.
    pub fn members(&self, group: Mgid) -> impl Iterator<Item = (Guid, Role)> + '_ {
        let members = self.groups.get(&group);
        self.hosts.iter().filter_map(move |(&guid, host)| {
            let role = members?.members.get(host)?;
            Some((guid, *role))
        })
    }

    /// A group's multicast LIDs, by tree (0 for the spanning tree, the offset for cyclic trees).
    pub fn mlids(&self, group: Mgid) -> impl Iterator<Item = (usize, Lid)> + '_ {
        let mlids = self.groups.get(&group).into_iter();
        mlids.flat_map(|group| group.mlids.iter().map(|(&tree, &mlid)| (tree, mlid)))
    }

    /// The group of a multicast LID.
    #[must_use]
    pub fn group_of(&self, mlid: Lid) -> Option<Mgid> {
        self.taken.get(&mlid).copied()
    }

    /// The multicast LID to which a port, given by GUID, sends for a group. `None` if no
    /// member uses the tree of that port.
    #[must_use]
    pub fn dlid(&self, group: Mgid, source: Guid) -> Option<Lid> {
        let tree = self.tree_of[*self.hosts.get(&source)?];
        self.groups.get(&group)?.mlids.get(&tree).copied()
    }

    /// The tree on which a port, given by GUID, sends; `None` if there is no such port.
    #[must_use]
    pub fn tree(&self, source: Guid) -> Option<usize> {
        let &host = self.hosts.get(&source)?;
        self.tree_of.get(host).copied()
    }

    /// What switches need, each in one row, for packets of `senders` that reach `receivers` by one
    /// tree: by switch the ports. For callers that assign multicast LIDs themselves; no group is made.
    ///
    /// # Errors
    /// [`MulticastError::NoTree`] if there is no tree of that number,
    /// [`MulticastError::NoSuchPort`].
    pub fn rows(
        &self,
        tree: usize,
        senders: &[Guid],
        receivers: &[Guid],
    ) -> Result<BTreeMap<NodeId, PortSet>, MulticastError> {
        let tree = self.trees.get(tree).ok_or(MulticastError::NoTree)?;
        let number = |guid: &Guid| {
            let host = self.hosts.get(guid).copied();
            host.ok_or(MulticastError::NoSuchPort(*guid))
        };
        let receivers: Vec<usize> = receivers.iter().map(number).collect::<Result<_, _>>()?;
        let senders: Vec<usize> = senders.iter().map(number).collect::<Result<_, _>>()?;
        let members: BTreeSet<usize> = receivers.iter().chain(&senders).copied().collect();
        let members: Vec<usize> = members.into_iter().collect();
        let pruned = self.scheme == Scheme::SpanningTree;
        Ok(tree.ports(&self.network, &receivers, &members, pruned))
    }

    /// The table of a switch.
    #[must_use]
    pub fn mft(&self, switch: NodeId) -> &Mft {
        static EMPTY: Mft = Mft::empty();
        self.mfts.get(&switch).unwrap_or(&EMPTY)
    }

    /// A port, given by GUID, joins a group, which is made if need be, or changes its role.
    ///
    /// # Errors
    /// [`MulticastError::NoSuchPort`], [`MulticastError::TableFull`]; nothing changes then.
    pub fn join(&mut self, group: Mgid, port: Guid, role: Role) -> Result<Joined, MulticastError> {
        let &host = self
            .hosts
            .get(&port)
            .ok_or(MulticastError::NoSuchPort(port))?;
        let tree = self.tree_of[host];
        let known = self
            .groups
            .get(&group)
            .and_then(|group| group.mlids.get(&tree))
            .copied();
        let mlid = match known {
            Some(mlid) => mlid,
            None => self.free_mlid()?,
        };
        self.taken.insert(mlid, group);
        let entry = self.groups.entry(group).or_default();
        entry.mlids.insert(tree, mlid);
        entry.members.insert(host, role);
        let changes = self.update(group);
        Ok(Joined { mlid, changes })
    }

    /// A port, given by GUID, leaves a group. Returns the blocks to write.
    ///
    /// # Errors
    /// [`MulticastError::NoSuchPort`], [`MulticastError::NotAMember`].
    pub fn leave(
        &mut self,
        group: Mgid,
        port: Guid,
    ) -> Result<BTreeSet<BlockChange>, MulticastError> {
        let &host = self
            .hosts
            .get(&port)
            .ok_or(MulticastError::NoSuchPort(port))?;
        self.groups
            .get_mut(&group)
            .and_then(|group| group.members.remove(&host))
            .ok_or(MulticastError::NotAMember(port))?;
        Ok(self.update(group))
    }

    fn free_mlid(&self) -> Result<Lid, MulticastError> {
        let first = Lid::MULTICAST_FIRST.get();
        (first..first + self.rows)
            .map(Lid::new)
            .find(|mlid| !self.taken.contains_key(mlid))
            .ok_or(MulticastError::TableFull { rows: self.rows })
    }

    /// Gives up multicast LIDs that no member sends to, and sets the rows of the others.
    fn update(&mut self, name: Mgid) -> BTreeSet<BlockChange> {
        let mut changes = BTreeSet::new();
        let Some(group) = self.groups.get_mut(&name) else {
            return changes;
        };
        let used: BTreeSet<usize> = group
            .members
            .keys()
            .map(|&host| self.tree_of[host])
            .collect();
        let members: Vec<usize> = group.members.keys().copied().collect();
        let receivers: Vec<usize> = group
            .members
            .iter()
            .filter(|&(_, &role)| role == Role::Receives)
            .map(|(&host, _)| host)
            .collect();
        let mlids: Vec<(usize, Lid)> = group.mlids.iter().map(|(&t, &m)| (t, m)).collect();
        let is_kept = group.is_kept;
        let stays = |tree: usize| used.contains(&tree) || (is_kept && tree == KEPT_TREE);
        group.mlids.retain(|&tree, _| stays(tree));
        if group.members.is_empty() && !is_kept {
            self.groups.remove(&name);
        }
        for (tree, mlid) in mlids {
            let rows = if used.contains(&tree) {
                let pruned = self.scheme == Scheme::SpanningTree;
                self.trees[tree].ports(&self.network, &receivers, &members, pruned)
            } else {
                if !stays(tree) {
                    self.taken.remove(&mlid);
                }
                BTreeMap::new()
            };
            for &switch in self.network.switches() {
                let new = rows.get(&switch).copied().unwrap_or_default();
                let old = self.mft(switch).get(mlid);
                if old == new {
                    continue;
                }
                self.mfts.entry(switch).or_default().set(mlid, new);
                let positions = 256 / PORTS_A_POSITION;
                let Some(block) = Mft::block_of(mlid) else {
                    continue;
                };
                changes.extend(
                    (0..positions)
                        .filter(|&position| old.mask(position) != new.mask(position))
                        .map(|position| BlockChange {
                            switch,
                            block,
                            position,
                        }),
                );
            }
        }
        changes
    }
}

/// A tree for each offset, and for each host the place of its own among them. Where the tree of an
/// offset has lost a cable, the next whole one stands in for it, and where none is whole the spanning
/// tree: the sources keep their multicast LID.
fn cyclic(
    graph: &Graph,
    network: &Network,
    labels: Option<&FatTreeLabels>,
) -> Result<(Vec<Tree>, Vec<usize>), MulticastError> {
    let recognised = match labels {
        Some(_) => None,
        None => Some(recognise(graph)?),
    };
    let Some(labels) = labels.or(recognised.as_ref()) else {
        return Err(MulticastError::NoTree);
    };
    let own: Vec<Option<Tree>> = Tree::cyclic(graph, network, labels)
        .into_iter()
        .map(|tree| tree.filter(|tree| tree.spans_hosts(network)))
        .collect();
    let trees: Option<Vec<Tree>> = (0..own.len())
        .map(|offset| {
            let next_whole = own[offset..].iter().chain(&own).flatten().next();
            next_whole.cloned().or_else(|| Tree::spanning(network))
        })
        .collect();
    let trees = trees.ok_or(MulticastError::NoTree)?;
    let tree_of = network
        .hosts()
        .iter()
        .map(|host| {
            let pid = labels.pid(graph.node(host.end.node).guid).unwrap_or(0);
            usize_of(pid) % trees.len().max(1)
        })
        .collect();
    Ok((trees, tree_of))
}

#[cfg(test)]
mod tests;
