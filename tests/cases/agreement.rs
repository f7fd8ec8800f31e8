//! A live fabric and its twin in virtual time: same tables, and of the same packets offered the same
//! delivered and the same counted.

use std::collections::BTreeMap;
use std::time::Duration;

use controller::SmConfig;
use e2e::{Fabric, Transport, named, within};
use hostd::control::{
    GroupMembership, HostIdentity, MulticastSend, MulticastSource, PingRequest, Reply, Request,
};
use link::PortConfig;
use sim::{Twin, TwinConfig};
use topologies::{Graph, NodeKind};
use wire::attr::{LinearForwardingTable, MulticastForwardingTable, SlToVlTable};
use wire::{Gid, Lid, LinkRate, LinkSpeed, LinkWidth, Mtu, PortNum, Sl};

/// The options of `ibemu up` by which a live fabric has the ports of [`port_config`].
const LINKS: [&str; 13] = [
    "--vls",
    "4",
    "--mtu",
    "2048",
    "--width",
    "4x",
    "--speed",
    "qdr",
    "--buffer",
    "65536",
    "--unpaced",
    "--verify",
    "none",
];

fn port_config() -> PortConfig {
    PortConfig {
        vls: 4,
        mtu: Mtu::Mtu2048,
        rate: LinkRate {
            width: LinkWidth::X4,
            speed: LinkSpeed::Qdr,
        },
        buffer_bytes: 65_536,
        ..PortConfig::default()
    }
}

/// Multicast packets that each host sends.
const COPIES: u32 = 25;
const RUN: u32 = 7;
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);
const TIMEOUT_NS: u64 = 60_000_000_000;

fn group() -> Gid {
    Gid("ff12:1bed::a9"
        .parse::<std::net::Ipv6Addr>()
        .expect("an address")
        .octets())
}

type Counters = BTreeMap<String, u64>;

/// What a live fabric and its twin can both be asked.
trait Bed {
    /// Asks all hosts at once.
    fn ask(&mut self, requests: &[(String, Request)]) -> Vec<Reply>;
    /// A switch's entries for LIDs `64 * block ..`.
    fn linear(&mut self, switch: &str, block: u16) -> [PortNum; 64];
    /// A switch's masks for multicast LIDs `0xc000 + 32 * block ..`, ports 0 to 15.
    fn multicast(&mut self, switch: &str, block: u16) -> [u16; 32];
    /// A switch's VLs by service level.
    fn vls(&mut self, switch: &str, ports: (PortNum, PortNum)) -> Vec<u8>;
    /// Counters of every connected port.
    fn counters(&mut self) -> BTreeMap<(String, PortNum), Counters>;
    /// Lets something happen until `holds`.
    fn until(&mut self, what: &str, holds: &mut dyn FnMut(&mut Self) -> bool);
}

struct Live<'a> {
    fabric: &'a Fabric,
    graph: &'a Graph,
    lids: BTreeMap<String, Lid>,
    smps: e2e::Smps,
}

impl<'a> Live<'a> {
    fn new(fabric: &'a Fabric, graph: &'a Graph) -> Self {
        let lid = |name: &String| {
            let management = fabric.switch_ports(name).swap_remove(0);
            Lid::new(management.lid)
        };
        let lids = names(graph, NodeKind::Switch)
            .into_iter()
            .map(|name| (name.clone(), lid(&name)));
        Self {
            fabric,
            graph,
            lids: lids.collect(),
            smps: fabric.smps(&names(graph, NodeKind::Host)[0]),
        }
    }
}

impl Bed for Live<'_> {
    fn ask(&mut self, requests: &[(String, Request)]) -> Vec<Reply> {
        std::thread::scope(|scope| {
            let asked: Vec<_> = requests
                .iter()
                .map(|(host, request)| scope.spawn(|| self.fabric.ask_host(host, request)))
                .collect();
            let answer = |thread: std::thread::ScopedJoinHandle<'_, Reply>| thread.join();
            let replies = asked.into_iter().map(answer);
            replies.map(|reply| reply.expect("a reply")).collect()
        })
    }

    fn linear(&mut self, switch: &str, block: u16) -> [PortNum; 64] {
        let table: LinearForwardingTable = self.smps.get(self.lids[switch], block.into());
        table.0
    }

    fn multicast(&mut self, switch: &str, block: u16) -> [u16; 32] {
        let modifier = MulticastForwardingTable::modifier(0, block);
        let table: MulticastForwardingTable = self.smps.get(self.lids[switch], modifier);
        table.0
    }

    fn vls(&mut self, switch: &str, (input, output): (PortNum, PortNum)) -> Vec<u8> {
        let modifier = SlToVlTable::switch_modifier(input, output);
        let table: SlToVlTable = self.smps.get(self.lids[switch], modifier);
        table.0.map(|vl| vl.get()).to_vec()
    }

    fn counters(&mut self) -> BTreeMap<(String, PortNum), Counters> {
        let mut all = BTreeMap::new();
        for id in self.graph.ids() {
            let node = self.graph.node(id);
            let ports = match node.kind {
                NodeKind::Switch => self.fabric.switch_ports(&node.name),
                NodeKind::Host => self.fabric.host_ports(&node.name),
            };
            let connected = |port: PortNum| self.graph.cables(id).any(|(there, _)| there == port);
            for status in ports.iter().filter(|status| connected(status.port)) {
                all.insert((node.name.clone(), status.port), named(status));
            }
        }
        all
    }

    fn until(&mut self, what: &str, holds: &mut dyn FnMut(&mut Self) -> bool) {
        within(CHANGE_TIMEOUT, what, || match holds(self) {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        });
    }
}

impl Bed for Twin {
    fn ask(&mut self, requests: &[(String, Request)]) -> Vec<Reply> {
        let ask = |(host, request): &(String, Request)| Twin::request(self, host, request.clone());
        let tokens: Vec<u64> = requests
            .iter()
            .map(ask)
            .collect::<Result<_, _>>()
            .expect("hosts take requests");
        let answers = tokens
            .into_iter()
            .map(|token| self.reply(token, TIMEOUT_NS));
        answers.map(|answer| answer.expect("an answer")).collect()
    }

    fn linear(&mut self, switch: &str, block: u16) -> [PortNum; 64] {
        self.switch(switch).expect("a switch").linear_block(block)
    }

    fn multicast(&mut self, switch: &str, block: u16) -> [u16; 32] {
        let switch = self.switch(switch).expect("a switch");
        switch.multicast_block(block, 0)
    }

    fn vls(&mut self, switch: &str, (input, output): (PortNum, PortNum)) -> Vec<u8> {
        let switch = self.switch(switch).expect("a switch");
        switch.sl_to_vl(input, output).map(|vl| vl.get()).to_vec()
    }

    fn counters(&mut self) -> BTreeMap<(String, PortNum), Counters> {
        let counts = self.counts().into_iter();
        counts
            .map(|(port, counts)| (port, counts.named().collect()))
            .collect()
    }

    fn until(&mut self, what: &str, holds: &mut dyn FnMut(&mut Self) -> bool) {
        let limit = self.now() + TIMEOUT_NS;
        while !holds(self) {
            assert!(self.now() < limit, "{what}: not within {TIMEOUT_NS} ns");
            self.run_for(1_000_000);
        }
    }
}

fn names(graph: &Graph, kind: NodeKind) -> Vec<String> {
    let nodes = graph.ids().map(|id| graph.node(id));
    let wanted = nodes.filter(|node| node.kind == kind);
    wanted.map(|node| node.name.clone()).collect()
}

/// Everything that must agree.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    /// Base LID and LMC of every host.
    lids: BTreeMap<String, (u16, u8)>,
    /// By switch, the port of every LID that has one.
    linear: BTreeMap<String, BTreeMap<usize, u8>>,
    /// By switch, input and output, the VL of every service level.
    vls: BTreeMap<(String, u8, u8), Vec<u8>>,
    /// The group's multicast LID at each host.
    mlids: BTreeMap<String, u16>,
    /// By switch, the ports of every multicast LID that has some.
    multicast: BTreeMap<String, BTreeMap<usize, u16>>,
    /// By host, size and LID asked: echo requests sent, answers received, and the host that answered.
    echoes: BTreeMap<(String, u16, u16), (u32, u32, String)>,
    /// By receiving host and source: which of the source's numbered packets have come, how often.
    copies: BTreeMap<(String, u64), (u32, u32, u64, u64)>,
    /// By port, what its data VLs have counted meanwhile.
    counts: BTreeMap<(String, PortNum), Counters>,
    /// Drops of all ports meanwhile, by reason.
    drops: Counters,
}

impl Seen {
    /// Brings the group together, offers the packets, and looks at everything.
    fn of<B: Bed>(bed: &mut B, graph: &Graph) -> Self {
        let mut seen = Self::default();
        let hosts = names(graph, NodeKind::Host);
        seen.read_unicast(bed, graph, &hosts);
        seen.join(bed, graph, &hosts);
        let before = bed.counters();
        seen.ping(bed, &hosts);
        seen.multicast(bed, &hosts);
        let after = bed.counters();
        for (port, now) in &after {
            let (data, drops) = difference(&before[port], now);
            seen.counts.insert(port.clone(), data);
            for (reason, count) in drops {
                *seen.drops.entry(reason).or_default() += count;
            }
        }
        seen
    }

    fn read_unicast<B: Bed>(&mut self, bed: &mut B, graph: &Graph, hosts: &[String]) {
        let ask: Vec<_> = with(hosts, |_| Request::Identity);
        for (host, reply) in hosts.iter().zip(bed.ask(&ask)) {
            let Reply::Identity(HostIdentity { lid, lmc, .. }) = reply else {
                panic!("{host}: {reply:?}");
            };
            self.lids.insert(host.clone(), (lid.get(), lmc.get()));
        }
        for id in graph
            .ids()
            .filter(|&id| graph.node(id).kind == NodeKind::Switch)
        {
            let name = &graph.node(id).name;
            // Twice as many LIDs as any of the fabrics has.
            let blocks = (0u16..4).flat_map(|block| bed.linear(name, block));
            let entries = blocks.map(PortNum::get).enumerate();
            let set = entries.filter(|&(_, port)| port != PortNum::NONE.get());
            self.linear.insert(name.clone(), set.collect());
            let ports: Vec<PortNum> = graph.cables(id).map(|(port, _)| port).collect();
            for &input in &ports {
                for &output in &ports {
                    let key = (name.clone(), input.get(), output.get());
                    self.vls.insert(key, bed.vls(name, (input, output)));
                }
            }
        }
    }

    /// All hosts join, one after the other, so that the group is the same each time.
    fn join<B: Bed>(&mut self, bed: &mut B, graph: &Graph, hosts: &[String]) {
        for host in hosts {
            let join = Request::Join {
                mgid: group(),
                send_only: false,
            };
            let reply = bed.ask(&[(host.clone(), join)]).swap_remove(0);
            let Reply::Membership(GroupMembership {
                joined: true, mlid, ..
            }) = reply
            else {
                panic!("{host}: {reply:?}");
            };
            self.mlids.insert(host.clone(), mlid.get());
        }
        for switch in names(graph, NodeKind::Switch) {
            let masks = bed.multicast(&switch, 0).into_iter().enumerate();
            let set = masks.filter(|&(_, mask)| mask != 0).collect();
            self.multicast.insert(switch, set);
        }
    }

    /// Every host asks every LID of every other host, in packets of four sizes and service levels.
    fn ping<B: Bed>(&mut self, bed: &mut B, hosts: &[String]) {
        let lids = self.lids.clone();
        for (sl, size, count) in [(0, 98, 3), (1, 530, 2), (2, 1042, 4), (3, 2082, 1)] {
            let requests = with(hosts, |host| {
                let others = lids.iter().filter(|(name, _)| *name != host);
                let all = others.flat_map(|(_, &(base, lmc))| base..base + (1 << lmc));
                Request::Ping(PingRequest {
                    targets: all.map(Lid::new).collect(),
                    count,
                    interval_us: 100,
                    size,
                    sl: Sl::new(sl).expect("a service level"),
                    pkey: 0,
                    timeout_ms: 30_000,
                })
            });
            for (host, reply) in hosts.iter().zip(bed.ask(&requests)) {
                let Reply::Ping(results) = reply else {
                    panic!("{host}: {reply:?}");
                };
                for result in results {
                    let key = (host.clone(), size, result.dlid.get());
                    let echo = (result.sent, result.received, result.responder);
                    self.echoes.insert(key, echo);
                }
            }
        }
    }

    /// Every host sends to the group.
    fn multicast<B: Bed>(&mut self, bed: &mut B, hosts: &[String]) {
        let requests = with(hosts, |_| {
            Request::MulticastSend(MulticastSend {
                mgid: group(),
                run: RUN,
                count: COPIES,
                size: 290,
            })
        });
        for reply in bed.ask(&requests) {
            assert_eq!(reply, Reply::Done);
        }
        let ask = with(hosts, |_| Request::MulticastReport {
            mgid: group(),
            skip: 0,
        });
        // A sender's own copy comes to it too, inside.
        let expected = hosts.len() * hosts.len() * usize::try_from(COPIES).expect("few");
        let mut copies = BTreeMap::new();
        bed.until("all copies arrive", &mut |bed| {
            copies.clear();
            let mut total = 0;
            for (host, reply) in hosts.iter().zip(bed.ask(&ask)) {
                let Reply::Multicast(sources) = reply else {
                    panic!("{host}: {reply:?}");
                };
                for MulticastSource {
                    source,
                    run,
                    count,
                    received,
                    duplicates,
                } in sources
                {
                    total += received;
                    let came = (run, count, received, duplicates);
                    copies.insert((host.clone(), source.0), came);
                }
            }
            usize::try_from(total).is_ok_and(|total| total == expected)
        });
        self.copies = copies;
    }
}

/// The same request to every host.
fn with(hosts: &[String], request: impl Fn(&String) -> Request) -> Vec<(String, Request)> {
    hosts
        .iter()
        .map(|host| (host.clone(), request(host)))
        .collect()
}

/// What data VLs have counted between two looks, and what was dropped, by reason.
fn difference(before: &Counters, after: &Counters) -> (Counters, Counters) {
    let since = |name: &str| {
        let at = |counters: &Counters| counters.get(name).copied().unwrap_or(0);
        at(after) - at(before)
    };
    // Packets of VL15 are unicast.
    let data = [
        ("PortXmitData", Some("VL15XmitData")),
        ("PortRcvData", Some("VL15RcvData")),
        ("PortXmitPkts", Some("VL15XmitPkts")),
        ("PortRcvPkts", Some("VL15RcvPkts")),
        ("PortUnicastXmitPkts", Some("VL15XmitPkts")),
        ("PortUnicastRcvPkts", Some("VL15RcvPkts")),
        ("PortMultiCastXmitPkts", None),
        ("PortMultiCastRcvPkts", None),
    ];
    let data = data.map(|(name, management)| {
        let count = since(name) - management.map_or(0, since);
        (name.to_owned(), count)
    });
    let drops = after
        .keys()
        .filter(|name| name.starts_with("drop."))
        .map(|name| (name.clone(), since(name)))
        .filter(|&(_, count)| count > 0);
    (data.into_iter().collect(), drops.collect())
}

fn agree(transport: Transport, topology: &str, routing: &str) {
    let graph = topologies::parse(topology).expect("a topology").graph;
    let mut options = LINKS.to_vec();
    // The twin has no internet addresses.
    options.extend(["--routing", routing, "--no-ip"]);
    let fabric = Fabric::up(transport, topology, &options);
    let live = Seen::of(&mut Live::new(&fabric, &graph), &graph);
    fabric.assert_no_errors_logged();
    fabric.down();

    let config = TwinConfig {
        port: port_config(),
        manager: SmConfig {
            routing: routing.parse().expect("an engine"),
            ..SmConfig::default()
        },
        ..TwinConfig::default()
    };
    let mut twin = Twin::new(&graph, &config).expect("a twin");
    let status = twin.run_until_up(TIMEOUT_NS).expect("the twin comes up");
    assert_eq!(status.engine, routing);
    let twin = Seen::of(&mut twin, &graph);

    // In pieces, so that what differs can be read.
    assert_eq!(live.lids, twin.lids);
    assert_eq!(live.linear, twin.linear);
    assert_eq!(live.vls, twin.vls);
    assert_eq!(live.mlids, twin.mlids);
    assert_eq!(live.multicast, twin.multicast);
    assert_eq!(live.echoes, twin.echoes);
    assert_eq!(live.copies, twin.copies);
    assert_eq!(live.drops, Counters::new(), "packets were dropped live");
    assert_eq!(
        twin.drops,
        Counters::new(),
        "packets were dropped in the twin"
    );
    for (port, counts) in &live.counts {
        assert_eq!(counts, &twin.counts[port], "{port:?}");
    }
    assert_eq!(live, twin);
    let answered = |(sent, received, _): &(u32, u32, String)| sent == received;
    assert!(live.echoes.values().all(answered), "{:?}", live.echoes);
    let carried = live
        .counts
        .values()
        .filter(|counts| counts["PortXmitData"] > 0);
    assert!(carried.count() > graph.len(), "most cables carried data");
}

#[test]
fn a_fat_tree_and_its_twin_agree_on_tables_deliveries_and_counters() {
    agree(Transport::Veth, "fat-tree-4-3", "mlid");
}

#[test]
fn an_irregular_fabric_and_its_twin_agree_on_tables_deliveries_and_counters() {
    agree(Transport::Udp, "irregular-9-2-4-5", "updn");
}

#[test]
fn a_mesh_in_shared_memory_and_its_twin_agree_on_tables_deliveries_and_counters() {
    agree(Transport::Shm, "mesh-3x2-1", "dor");
}
