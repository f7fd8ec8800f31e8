//! Fuzzing of everything that reads bytes from outside: one list of targets ([`TARGETS`]), one
//! function a target.
//!
//! | run by | what |
//! |---|---|
//! | `cargo nextest run -p ibemu-fuzz`, with all tests | seeds, kept inputs, and some new mutations of them |
//! | `cargo run --release -p ibemu-fuzz -- --executions N` | as many mutations as wanted, on a stable compiler |
//! | libFuzzer (`fuzz/guided`, feature `libfuzzer`) | inputs guided by coverage |
//!
//! All three look targets up in the list, so none can be in one and not in another. A target panics
//! if what it states does not hold. Inputs of several parts are cut from the bytes by [`Parts`], so
//! that a seed can be written down and a mutation changes one part.
//!
//! **Why no framework.** Bolero, the one that is kept up, runs kept inputs and random bytes under
//! `cargo test`; it changes no kept inputs on a stable compiler, and random bytes end at the first
//! check sum or keyword of nearly everything here. Its front end for libFuzzer would be one more list.
//! What is needed beyond `libfuzzer-sys` is a mutator and a loop.

mod fields;
mod mutate;
mod parts;
pub mod run;
mod seeds;
mod targets;

pub use mutate::{INPUT_MAX, Mutator};
pub use parts::Parts;
use targets::{
    cluster, device, histories, ibumad, libraries, manager, messages, packets, reports, ring,
    subnet, texts, transfers, transport, tunnel, umad,
};

/// Where bytes from outside come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Frames on cables and what is in them.
    Frames,
    /// Management datagrams with sound check sums, through whole cores.
    Mads,
    /// Requests to subnet administration.
    SubnetAdministration,
    /// Transfers of several datagrams.
    Rmpp,
    /// Datagrams of programs that use libibumad over umad2sim.
    Umad2sim,
    /// Messages and user MADs of programs on the socket of the host's libibumad.
    Libibumad,
    /// Messages on control and MAD sockets.
    ControlMessages,
    /// Files of topologies.
    Topologies,
    /// Files of tables, partitions and keys.
    Tables,
    /// Plans of experiments.
    Plans,
    /// Traces of packets.
    Traces,
    /// Filters of captures.
    Filters,
    /// Recordings of devices.
    Recordings,
    /// Histories of rates and states.
    Histories,
    /// Messages of programs of verbs, and what stands in the rings that they share with a host.
    Verbs,
    /// Packets of programs in a host's interface for IP over InfiniBand.
    Internet,
    /// Commands of programs to their `/dev/infiniband/rdma_cm`.
    Connections,
    /// What a host answers the libraries that programs load, and the environment that names it.
    Libraries,
    /// Lines of windows, which a program decides connections by.
    Windows,
    /// Results of experiments.
    Results,
    /// What a peer puts into the memory of a cable.
    SharedMemory,
    /// Datagrams to the end of a tunnel.
    Tunnels,
    /// What Slurm, and agents on other machines, say.
    OtherMachines,
    /// What managers and the supervisor keep: `guid2lid`, `connections`, `groups`, `aliases`, `fabric.json`,
    /// `processes.jsonl`.
    StateFiles,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::Frames,
        Self::Mads,
        Self::SubnetAdministration,
        Self::Rmpp,
        Self::Umad2sim,
        Self::Libibumad,
        Self::ControlMessages,
        Self::Topologies,
        Self::Tables,
        Self::Plans,
        Self::Traces,
        Self::Filters,
        Self::Recordings,
        Self::Histories,
        Self::Verbs,
        Self::Internet,
        Self::Connections,
        Self::Libraries,
        Self::Windows,
        Self::Results,
        Self::SharedMemory,
        Self::Tunnels,
        Self::OtherMachines,
        Self::StateFiles,
    ];
}

/// What an input of a target looks like, for mutations that keep its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Bytes.
    Bytes,
    /// Mostly text.
    Text,
    /// [`Parts`].
    Parts,
}

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is that of the folders of its inputs.
    pub name: &'static str,
    /// Where its bytes come from.
    pub sources: &'static [Source],
    /// The code under test.
    pub drives: &'static str,
    /// The layout of its inputs.
    pub layout: Layout,
    /// How many of a thousand executions it gets; what takes longer gets fewer.
    pub share: u32,
    /// Runs an input.
    pub run: fn(&[u8]),
    /// Inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// The target of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Every target. Shares add up to 1000.
pub static TARGETS: [Target; 34] = [
    Target {
        name: "packet",
        sources: &[Source::Frames],
        drives: "parsers of link packets",
        layout: Layout::Bytes,
        share: 231,
        run: packets::packet,
        seeds: seeds::packets,
    },
    Target {
        name: "records",
        sources: &[Source::Frames],
        drives: "the records of a frame",
        layout: Layout::Bytes,
        share: 107,
        run: packets::records,
        seeds: seeds::frames,
    },
    Target {
        name: "formats",
        sources: &[
            Source::Frames,
            Source::Mads,
            Source::Umad2sim,
            Source::Libibumad,
        ],
        drives: "every format of fixed length",
        layout: Layout::Bytes,
        share: 253,
        run: packets::formats,
        seeds: seeds::formats,
    },
    Target {
        name: "messages",
        sources: &[Source::ControlMessages, Source::Libibumad, Source::Verbs],
        drives: "messages of all local sockets",
        layout: Layout::Bytes,
        share: 150,
        run: messages::message,
        seeds: seeds::messages,
    },
    Target {
        name: "cluster",
        sources: &[Source::OtherMachines],
        drives: "PMI-2, handshakes, sealed messages of agents, lists of processors, placements by hand",
        layout: Layout::Bytes,
        share: 20,
        run: cluster::cluster,
        seeds: cluster::inputs,
    },
    Target {
        name: "keys",
        sources: &[Source::Tables],
        drives: "files of M_Keys and SM_Keys",
        layout: Layout::Text,
        share: 30,
        run: texts::key,
        seeds: seeds::keys,
    },
    Target {
        name: "filters",
        sources: &[Source::Filters],
        drives: "filters of captures, and packets that they meet",
        layout: Layout::Text,
        share: 15,
        run: texts::filter,
        seeds: seeds::filters,
    },
    Target {
        name: "partitions",
        sources: &[Source::Tables],
        drives: "partitions in OpenSM's syntax",
        layout: Layout::Text,
        share: 15,
        run: texts::partitions,
        seeds: seeds::partitions,
    },
    Target {
        name: "traces",
        sources: &[Source::Traces],
        drives: "traces of packets",
        layout: Layout::Text,
        share: 20,
        run: texts::trace,
        seeds: seeds::traces,
    },
    Target {
        name: "guid-lists",
        sources: &[Source::Tables],
        drives: "files of root and other GUIDs",
        layout: Layout::Text,
        share: 10,
        run: texts::guids,
        seeds: seeds::guid_lists,
    },
    Target {
        name: "topologies",
        sources: &[Source::Topologies],
        drives: "every format of topologies that is read",
        layout: Layout::Text,
        share: 10,
        run: texts::topology,
        seeds: seeds::topologies,
    },
    Target {
        name: "tables",
        sources: &[Source::Tables],
        drives: "texts of dump_fts, verified on a fabric",
        layout: Layout::Text,
        share: 8,
        run: texts::tables,
        seeds: seeds::tables,
    },
    Target {
        name: "plans",
        sources: &[Source::Plans],
        drives: "plans of experiments",
        layout: Layout::Text,
        share: 5,
        run: texts::plan,
        seeds: seeds::plans,
    },
    Target {
        name: "environment",
        sources: &[Source::Libraries],
        drives: "the environment variable that names a program's adapters",
        layout: Layout::Text,
        share: 10,
        run: texts::environment,
        seeds: seeds::environments,
    },
    Target {
        name: "windows",
        sources: &[Source::Windows],
        drives: "lines of windows, into the connection controller",
        layout: Layout::Text,
        share: 10,
        run: reports::windows,
        seeds: reports::window_lines,
    },
    Target {
        name: "results",
        sources: &[Source::Results],
        drives: "results of experiments, and the page over them",
        layout: Layout::Text,
        share: 10,
        run: reports::results,
        seeds: reports::result_files,
    },
    Target {
        name: "memory",
        sources: &[Source::StateFiles],
        drives: "guid2lid, connections, groups and aliases, into a subnet manager",
        layout: Layout::Text,
        share: 10,
        run: messages::memory,
        seeds: seeds::memories,
    },
    Target {
        name: "supervisor-files",
        sources: &[Source::StateFiles],
        drives: "fabric.json and the journal",
        layout: Layout::Text,
        share: 10,
        run: messages::supervisor_files,
        seeds: seeds::supervisor_files,
    },
    Target {
        name: "rmpp",
        sources: &[Source::Rmpp],
        drives: "a sender and a receiver",
        layout: Layout::Parts,
        share: 9,
        run: transfers::rmpp,
        seeds: seeds::transfers,
    },
    Target {
        name: "histories",
        sources: &[Source::Histories],
        drives: "histories of rates and states, written again",
        layout: Layout::Bytes,
        share: 3,
        run: histories::history,
        seeds: histories::histories,
    },
    Target {
        name: "recordings",
        sources: &[Source::Recordings, Source::Frames],
        drives: "the replay of switches and hosts",
        layout: Layout::Bytes,
        share: 3,
        run: device::recording,
        seeds: device::recordings,
    },
    Target {
        name: "umad2sim",
        sources: &[Source::Umad2sim, Source::Mads],
        drives: "the server of libibumad's programs and its host",
        layout: Layout::Parts,
        share: 5,
        run: umad::umad2sim,
        seeds: seeds::umad_inputs,
    },
    Target {
        name: "ibumad",
        sources: &[Source::Libibumad, Source::Mads, Source::Rmpp],
        drives: "the server of the host's libibumad and its host",
        layout: Layout::Parts,
        share: 4,
        run: ibumad::ibumad,
        seeds: ibumad::inputs,
    },
    Target {
        name: "ring",
        sources: &[Source::SharedMemory, Source::Frames],
        drives: "both ends of a ring in shared memory",
        layout: Layout::Bytes,
        share: 10,
        run: ring::ring,
        seeds: ring::inputs,
    },
    Target {
        name: "tunnel",
        sources: &[Source::Tunnels, Source::Frames],
        drives: "both ends of a tunnel, and the network between them",
        layout: Layout::Bytes,
        share: 8,
        run: tunnel::tunnel,
        seeds: tunnel::inputs,
    },
    Target {
        name: "libibumad",
        sources: &[Source::Libraries, Source::Libibumad],
        drives: "the libibumad of programs, and what a host tells it",
        layout: Layout::Parts,
        share: 10,
        run: libraries::libibumad,
        seeds: libraries::inputs,
    },
    Target {
        name: "transport",
        sources: &[Source::Frames],
        drives: "the transport engine, between any work and any peer",
        layout: Layout::Parts,
        share: 5,
        run: transport::transport,
        seeds: transport::seeds,
    },
    Target {
        name: "switch",
        sources: &[Source::Frames, Source::Mads, Source::ControlMessages],
        drives: "a switch with its SMA and PMA",
        layout: Layout::Parts,
        share: 4,
        run: device::switch,
        seeds: device::switch_inputs,
    },
    Target {
        name: "host",
        sources: &[Source::Frames, Source::Mads, Source::ControlMessages],
        drives: "a host with its agents, services and programs",
        layout: Layout::Parts,
        share: 3,
        run: device::host,
        seeds: device::host_inputs,
    },
    Target {
        name: "verbs",
        sources: &[Source::Verbs, Source::Frames],
        drives: "the rings and requests of programs of verbs, and their host",
        layout: Layout::Parts,
        share: 3,
        run: device::verbs,
        seeds: device::verbs_inputs,
    },
    Target {
        name: "ipoib",
        sources: &[
            Source::Internet,
            Source::Frames,
            Source::SubnetAdministration,
        ],
        drives: "IP over InfiniBand: packets of programs and of other hosts, answers of subnet administration",
        layout: Layout::Parts,
        share: 3,
        run: device::internet,
        seeds: device::internet_inputs,
    },
    Target {
        name: "connections",
        sources: &[
            Source::Connections,
            Source::Mads,
            Source::SubnetAdministration,
        ],
        drives: "communication management: commands of programs, messages of peers, answers of subnet administration",
        layout: Layout::Parts,
        share: 3,
        run: device::connections,
        seeds: device::connections_inputs,
    },
    Target {
        name: "manager",
        sources: &[Source::Mads, Source::SubnetAdministration, Source::Rmpp],
        drives: "a subnet manager: answers, requests, traps, other managers",
        layout: Layout::Parts,
        share: 2,
        run: manager::manager,
        seeds: manager::manager_inputs,
    },
    Target {
        name: "subnet",
        sources: &[Source::Mads, Source::SubnetAdministration, Source::Rmpp],
        drives: "a whole fabric with one hostile host",
        layout: Layout::Parts,
        share: 1,
        run: subnet::subnet,
        seeds: subnet::subnet_inputs,
    },
];
