//! Creates the namespaces and cables of a planned fabric.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use netio::namespace::Namespace;
use netio::transport::Transport;
use socket2::{Domain, Socket, Type};

use crate::net::{self, CableEnd, Net};
use crate::state::{End, FabricState};

/// How many cables are created at a time: enough that the kernel never waits for this process.
const CABLES_AT_ONCE: usize = 32;
/// How many namespaces are created before other tasks of this process run.
const NAMESPACES_A_TURN: usize = 8;

/// Checks that this process and this kernel can do what a veth fabric needs.
///
/// # Errors
/// The missing program or right, and what to do.
pub fn check_prerequisites() -> Result<()> {
    if netio::process::effective_uid() != 0 {
        bail!(
            "network namespaces need root: run this through sudo, or use --transport udp or \
             shm, which need no privileges"
        );
    }
    if !std::path::Path::new("/proc/self/ns/net").exists() {
        bail!(
            "this kernel has no network namespaces (CONFIG_NET_NS); use --transport udp or shm, \
             which do without"
        );
    }
    match Socket::new(Domain::PACKET, Type::RAW, None) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => bail!(
            "this kernel has no packet sockets (modprobe af_packet); use --transport udp or shm, \
             which do without"
        ),
        Err(error) => Err(error).context(
            "packet sockets are refused (is CAP_NET_RAW missing in this container?); use \
             --transport udp or shm, which do without",
        ),
    }
}

/// Checks that no namespace has a name that the fabric needs.
///
/// # Errors
/// If one has.
pub fn check_names(state: &FabricState) -> Result<()> {
    let taken: BTreeSet<String> = Namespace::list()?.into_iter().collect();
    let own = state.namespaces_here();
    if let Some(name) = own.iter().find(|name| taken.contains(*name)) {
        bail!(
            "the network namespace {name} exists already and is not this fabric's: remove it (ip \
             netns delete {name}), or choose another name with --fabric"
        );
    }
    Ok(())
}

/// Creates all namespaces and cables; `progress` is called with the numbers created.
///
/// # Errors
/// The kernel's error. Links and namespaces created until then stay.
pub async fn create(state: &FabricState, mut progress: impl FnMut(usize, usize)) -> Result<()> {
    let label = state.fabric.label();
    let own = state.namespaces_here();
    let names: BTreeSet<&String> = own.iter().collect();
    let mut nets = BTreeMap::new();
    for name in names {
        nets.insert(name, Net::create(name, &label).await?);
        if nets.len().is_multiple_of(NAMESPACES_A_TURN) {
            progress(nets.len(), 0);
            tokio::task::yield_now().await;
        }
    }
    progress(nets.len(), 0);
    let mut cables = 0;
    let is_pair = |link: &&[End; 2]| {
        state.medium(**link) == Transport::Veth && link.iter().all(|end| state.is_here(end.node))
    };
    let ends = state.links.iter().filter(is_pair).map(|link| {
        link.map(|end| CableEnd {
            net: &nets[&state.namespaces[end.node]],
            interface: state.interface(end),
        })
    });
    let mut made = stream::iter(ends)
        .map(|[a, b]| {
            let label = &label;
            async move { net::create_cable(&a, &b, label).await }
        })
        .buffer_unordered(CABLES_AT_ONCE);
    while made.try_next().await?.is_some() {
        cables += 1;
        progress(nets.len(), cables);
    }
    Ok(())
}
