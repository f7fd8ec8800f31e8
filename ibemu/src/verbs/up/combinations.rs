//! Options and topologies that do not go together, refused before anything of the fabric is created.
//!
//! Whether the routing engine applies is found by computing its tables here, from the topology, as
//! the controller will from what it finds.

use std::collections::VecDeque;

use anyhow::Result;
use controller::{KeptChoice, QosChoice};
use routing::multicast::{self, Multicast, MulticastError, Scheme};
use routing::{Options, RoutingEngine, RoutingError, Tables};
use topologies::{Graph, NodeId, NodeKind};
use wire::Lmc;
use wire::attr::VlCount;

use crate::cli::{Sm, Up, Verify};
use crate::engines;
use crate::usage::UsageError;

/// Nodes that a refusal names; the rest is counted.
const NAMES_MAX: usize = 5;

/// Refuses what cannot come up. `kept` is what `auto` had taken for an earlier fabric. Returns what it takes
/// for this one, if it is asked.
///
/// # Errors
/// [`UsageError`]: which option or part of the topology does not fit, and what would.
pub(super) fn check(
    graph: &Graph,
    options: &Up,
    kept: Option<KeptChoice>,
) -> Result<Option<KeptChoice>> {
    taken(graph, options, kept).map_err(|problem| UsageError(problem).into())
}

fn taken(
    graph: &Graph,
    options: &Up,
    kept: Option<KeptChoice>,
) -> Result<Option<KeptChoice>, String> {
    if options.sm == Sm::None {
        return without_controller(options).map_or(Ok(None), Err);
    }
    let early = separate(graph)
        .or_else(|| windows(options))
        .or_else(|| lmc(options));
    if let Some(problem) = early {
        return Err(problem);
    }
    let tables = tables(graph, options, kept)?;
    if let Some(problem) = qos(options, &tables).or_else(|| multicast(graph, options, &tables)) {
        return Err(problem);
    }
    let tables = tables.filter(|_| options.routing == RoutingEngine::Auto);
    Ok(tables.map(|tables| KeptChoice {
        engine: tables.engine,
        because: tables.because.unwrap_or_default(),
    }))
}

/// Options of the controller, where none is to run.
fn without_controller(options: &Up) -> Option<String> {
    let given = [
        ("--sm-node", options.sm_node.is_some()),
        ("--routing", options.routing != RoutingEngine::Auto),
        ("--lmc", options.lmc.is_some()),
        ("--qos", options.qos != QosChoice::None),
        ("--windows", options.windows.is_some()),
        ("--multicast", options.multicast != Scheme::SpanningTree),
    ];
    let given = given.into_iter().find(|&(_, given)| given);
    let given = given.map(|(option, _)| option);
    if let Some(option) = given.or_else(|| options.levels.given()) {
        return Some(format!(
            "{option} is for ibemu's own subnet manager, and --sm none starts none: leave one of the \
             two out, and tell your subnet manager what it is to do"
        ));
    }
    let verifies = matches!(options.verify, Some(Verify::All | Verify::Sample));
    verifies.then(|| {
        "--verify needs a subnet manager, and --sm none starts none: leave --verify out, and run \
         `ibemu ping --all` once yours has brought the subnet up"
            .to_owned()
    })
}

/// A subnet manager only finds what cables lead to. An adapter without any is there and Down.
pub(in crate::verbs) fn separate(graph: &Graph) -> Option<String> {
    let is_cabled = |id: &NodeId| graph.cables(*id).next().is_some();
    let first = graph.hosts().find(is_cabled).or(graph.hosts().next())?;
    let reached = reached_from(graph, first);
    let idle = |id: &NodeId| graph.node(*id).kind == NodeKind::Host && !is_cabled(id);
    let cut_off: Vec<&str> = graph
        .ids()
        .filter(|id| !reached[id.index()] && !idle(id))
        .map(|id| graph.node(id).name.as_str())
        .collect();
    if cut_off.is_empty() {
        return None;
    }
    let named = cut_off[..cut_off.len().min(NAMES_MAX)].join(", ");
    let more = if cut_off.len() > NAMES_MAX {
        ", ..."
    } else {
        ""
    };
    Some(format!(
        "the topology is not connected: no cables lead from {} to {} of {} nodes ({named}{more}); \
         connect them, bring the parts up as fabrics of their own, or use --sm none",
        graph.node(first).name,
        cut_off.len(),
        graph.len()
    ))
}

/// What the first cable of a host leads to. Nothing passes from one port of a host to another.
fn reached_from(graph: &Graph, first: NodeId) -> Vec<bool> {
    let mut reached = vec![false; graph.len()];
    reached[first.index()] = true;
    let mut open = VecDeque::from([first]);
    while let Some(node) = open.pop_front() {
        let cables = match graph.node(node).kind {
            NodeKind::Switch => usize::MAX,
            NodeKind::Host if node == first => 1,
            NodeKind::Host => 0,
        };
        for (_, peer) in graph.cables(node).take(cables) {
            if !std::mem::replace(&mut reached[peer.node.index()], true) {
                open.push_back(peer.node);
            }
        }
    }
    reached
}

fn windows(options: &Up) -> Option<String> {
    (options.windows.is_some() && options.routing != RoutingEngine::Clos).then(|| {
        format!(
            "--windows is for --routing clos; --routing {} has no windows: leave --windows out, or \
             bring a clos topology up with --routing clos",
            options.routing
        )
    })
}

/// Engines that give each port as many LIDs as it needs have no use for an LMC of all.
fn lmc(options: &Up) -> Option<String> {
    (options.lmc.is_some() && !options.routing.takes_lmc()).then(|| {
        format!(
            "--lmc has no effect with --routing {}, whose tables settle how many LIDs each port has: \
             leave --lmc out",
            options.routing
        )
    })
}

/// The engine's tables. Those of the user's own are checked elsewhere.
fn tables(graph: &Graph, options: &Up, kept: Option<KeptChoice>) -> Result<Option<Tables>, String> {
    if options.routing == RoutingEngine::File {
        return Ok(None);
    }
    let lmc = options.lmc.map(Lmc::new).transpose();
    // Where connections are promised bandwidth `auto` takes no engine that needs VLs for itself.
    let leaves_vls = options.routing == RoutingEngine::Auto && options.qos != QosChoice::None;
    let vls = if leaves_vls { 1 } else { options.links.vls };
    let levels = options.levels.guids(graph);
    let engine_options = Options {
        lmc: lmc.map_err(|error| format!("--lmc: {error}"))?,
        lmc_esp0: options.lmc_esp0,
        data_vls: VlCount::at_most(vls).map(VlCount::vls),
        ..Options::default()
    };
    let engine_options = levels
        .map_err(|error| error.to_string())?
        .into_options(engine_options);
    // What was kept is not measured anew, unless it does not apply.
    if let Some(kept) = kept
        && options.routing == RoutingEngine::Auto
        && let Ok(mut tables) = kept.engine.route(graph, &engine_options)
    {
        tables.because = Some(kept.because);
        return Ok(Some(tables));
    }
    let routed = engines::route(options.routing, graph, &engine_options);
    routed
        .map(Some)
        .map_err(|error| unroutable(options.routing, &error))
}

/// What is said of an engine without tables for a fabric.
pub(in crate::verbs) fn unroutable(engine: RoutingEngine, error: &RoutingError) -> String {
    let remedy = match error {
        RoutingError::NotFatTree { .. } | RoutingError::NotApplicable { .. } => {
            "; --routing auto or updn works on any fabric"
        }
        RoutingError::VlsExhausted { .. } => {
            "; raise --vls (1, 2, 4, 8 and 15 are what ports can use), or take another --routing"
        }
        RoutingError::LmcTooLarge { .. }
        | RoutingError::LmcTooSmall { .. }
        | RoutingError::LidSpaceExhausted { .. } => "; leave --lmc out for what the engine wants",
        _ => "",
    };
    format!("--routing {engine}: {error}{remedy}")
}

fn qos(options: &Up, tables: &Option<Tables>) -> Option<String> {
    if options.qos == QosChoice::None {
        return None;
    }
    let (qos, vls) = (options.qos, options.links.vls);
    if vls < 2 {
        return Some(format!(
            "--qos {qos} needs two or more data VLs, --vls is {vls}: raise it, to 8 or 15 to keep \
             rates apart"
        ));
    }
    let assignment = tables.as_ref()?.vl_assignment.as_ref()?;
    (assignment.data_vls > 1).then(|| {
        format!(
            "--qos {qos}: --routing {} takes {} VLs of this fabric for itself and leaves none to \
             connections; take another --routing, such as auto or updn",
            options.routing, assignment.data_vls
        )
    })
}

fn multicast(graph: &Graph, options: &Up, tables: &Option<Tables>) -> Option<String> {
    let wanted = multicast::Options {
        scheme: options.multicast,
        labels: tables.as_ref().and_then(|tables| tables.labels.clone()),
        ..multicast::Options::default()
    };
    match Multicast::new(graph, &wanted) {
        Err(error @ MulticastError::NotFatTree(_)) => Some(format!(
            "--multicast {}: {error}; --multicast spanning-tree works on any fabric",
            options.multicast
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
