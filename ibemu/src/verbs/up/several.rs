//! `ibemu up --slurm`: the machines of the fabric, and what runs where.

use anyhow::{Result, ensure};
use daemon::signals::ShutdownSignals;
use netio::transport::Transport;
use topologies::{Graph, NodeId};

use crate::adapters::AdapterNames;
use crate::cli::Up;
use crate::dir::FabricDir;
use crate::machines::{self, Allocation, Job, Placed};
use crate::state::FabricState;
use crate::supervisor;
use crate::teardown;

/// An allocation that was asked for, if it was.
pub(super) struct Asked(Option<String>);

impl Asked {
    /// Gives the machines back.
    pub(super) async fn give_back(self) {
        if let Some(id) = self.0 {
            machines::release(&id, machines::RELEASE_TIMEOUT).await;
        }
    }
}

/// Without root, which is the same user on all machines, there are no namespaces.
pub(super) fn choose_transport(options: &mut Up) {
    if options.transport == Transport::Veth && netio::process::effective_uid() != 0 {
        options.transport = Transport::Udp;
    }
}

/// Gets the machines, and places the devices of the planned fabric on them.
///
/// # Errors
/// If there are no machines, or the devices cannot be placed on them; no allocation is then left.
pub(super) async fn place(
    dir: &FabricDir,
    state: &mut FabricState,
    graph: &Graph,
    options: &Up,
    leave: &mut ShutdownSignals,
) -> Result<Asked> {
    remove_stale(dir).await?;
    ensure!(
        !dir.exists(),
        "there is a fabric {fabric} already; take it down first (ibemu down --fabric {fabric}), or choose another name with --fabric",
        fabric = state.fabric
    );
    let allocation = machines::allocate(&state.fabric, &options.several, leave).await?;
    let asked = Asked(allocation.is_own.then(|| allocation.id.clone()));
    match job(state, graph, options, allocation) {
        Ok(job) => {
            state.job = Some(job);
            // Their networks lose and mix up datagrams, and others share them.
            let cut = state.links.iter().filter(|&&ends| state.is_cut(ends));
            let cut: Vec<_> = cut.map(|&[one, other]| one.min(other)).collect();
            state.tunnels.extend(cut);
            Ok(asked)
        }
        Err(error) => {
            asked.give_back().await;
            Err(error)
        }
    }
}

/// Removes what a job has left whose gateway was killed, for instance before it was queued again.
async fn remove_stale(dir: &FabricDir) -> Result<()> {
    let is_of_job = matches!(
        FabricState::load(dir),
        Ok(Some(FabricState { job: Some(_), .. }))
    );
    if is_of_job && supervisor::Client::connect(dir).await.is_err() {
        teardown::here(dir).await?;
    }
    Ok(())
}

fn job(state: &FabricState, graph: &Graph, options: &Up, allocation: Allocation) -> Result<Job> {
    let cpus: Vec<u32> = allocation
        .machines
        .iter()
        .map(|machine| machine.cpus)
        .collect();
    let names = allocation.machines.iter();
    let names: Vec<Option<String>> = names.map(|machine| Some(machine.name.clone())).collect();
    let beside = state.controllers().next();
    let first = beside.map(|(sm_node, _)| NodeId::from_index(state.device_of(sm_node.node)));
    let placement = machines::place(&Placed {
        graph,
        adapter_names: AdapterNames(&options.adapter_names),
        first,
        cpus: &cpus,
        names: &names,
        by_hand: options.several.placement.as_deref(),
    })?;
    Ok(Job {
        id: allocation.id,
        machines: allocation.machines,
        placement: placement.machines().to_vec(),
        here: None,
        is_own: allocation.is_own,
        no_kill: options.several.no_kill,
    })
}
