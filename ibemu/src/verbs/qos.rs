//! `ibemu qos`: connections with promised bandwidth (VLARB01), asked of the controller by
//! datagrams through the fabric.

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use daemon::choice::choice;
use hostd::control::HostIdentity;
use serde::Serialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use wire::vendor::{QosCause, QosConnection};
use wire::{Guid, Lid, MadStatus, Method};

use crate::ask;
use crate::dir::FabricDir;
use crate::lids;
use crate::mads::MadClient;
use crate::names::FabricName;
use crate::output::{self, Align, Table};
use crate::quantity::{Rate, bit_rate};
use crate::state::FabricState;

/// `ibemu qos`.
#[derive(Debug, Subcommand)]
pub enum Qos {
    /// Ask for a connection with promised bandwidth; exit code 1 if it is refused
    Connect(Connect),
    /// Give a connection's bandwidth back
    Release(Release),
    /// Show the established connections
    List(List),
}

/// `ibemu qos connect`.
#[derive(Debug, Args)]
pub struct Connect {
    /// The host that sends
    pub source: String,
    /// The host that receives
    pub destination: String,
    /// Mean rate in bits a second (k, M and G are understood) of links at full speed: with
    /// --time-scale F the connection gets the F-th part
    #[arg(short, long, value_name = "RATE")]
    pub rate: Rate,
    /// What is promised
    #[arg(long, value_parser = choice::<Class>(), default_value_t = Class::Db)]
    pub class: Class,
    /// How many entries of an arbitration table the turns of the connection's VL may be apart, 1 to
    /// 64 [default: any]
    #[arg(long, value_name = "ENTRIES", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub distance: Option<u8>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What a connection is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Class {
    /// Dedicated bandwidth: the low-priority table
    Db,
    /// Dedicated bandwidth, time sensitive: the high-priority table
    Dbts,
}
wire::choice!(Class, "class of connections");

/// `ibemu qos release`.
#[derive(Debug, Args)]
pub struct Release {
    /// The connection's number
    pub id: u32,
}

/// `ibemu qos list`.
#[derive(Debug, Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Connections, for scripts.
#[derive(Debug, Serialize)]
struct Connection {
    id: u32,
    source: String,
    destination: String,
    class: Class,
    rate_bps: u64,
    distance: u8,
    sl: u8,
    dlid: u16,
}

/// Runs the verb.
///
/// # Errors
/// If the controller does not answer, or refuses.
pub async fn run(fabric: &FabricName, options: &Qos) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    match options {
        Qos::Connect(options) => connect(&dir, &state, options).await,
        Qos::Release(options) => release(&dir, &state, options).await,
        Qos::List(options) => list(&dir, &state, options).await,
    }
}

/// A connection to the controller: a host's QP1, and the controller's LID.
struct ControllerClient {
    client: MadClient,
    sm: Lid,
    host: HostIdentity,
}

impl ControllerClient {
    async fn at(dir: &FabricDir, state: &FabricState, node: usize) -> Result<Self> {
        let host = lids::of_host(dir, state, node).await?.identity;
        Ok(Self {
            client: MadClient::connect(dir, &state.nodes[node]).await?,
            sm: host.sm_lid,
            host,
        })
    }

    /// Through the master's host, which may ask for any.
    async fn anywhere(dir: &FabricDir, state: &FabricState) -> Result<Self> {
        let host = ask::master_host(dir, state).await;
        Self::at(dir, state, host.context("the fabric has no host")?).await
    }

    async fn ask(&mut self, method: Method, asked: &QosConnection) -> Result<QosConnection> {
        let answer = self.client.vendor(self.sm, method, 0, asked).await?;
        match answer.status() {
            MadStatus::OK => Ok(answer.vendor_attribute()?),
            MadStatus::BUSY => {
                bail!("the controller has too many requests, or the subnet is not up: try again")
            }
            status => bail!("the controller refuses the request (status {status})"),
        }
    }
}

async fn connect(dir: &FabricDir, state: &FabricState, options: &Connect) -> Result<()> {
    let source = state.find_host(&options.source)?;
    let destination = state.find_host(&options.destination)?;
    if source == destination {
        return Err(crate::usage::UsageError("a connection needs two hosts".to_owned()).into());
    }
    let destination = lids::of_host(dir, state, destination).await?;
    let mut controller = ControllerClient::at(dir, state, source).await?;
    let asked = QosConnection {
        source: controller.host.port_guid,
        destination: destination.identity.port_guid,
        time_sensitive: options.class == Class::Dbts,
        rate_bps: options.rate.0,
        distance: options.distance.unwrap_or(0),
        ..QosConnection::default()
    };
    let answer = controller.ask(Method::SET, &asked).await?;
    if answer.cause != QosCause::Granted {
        bail!("the connection is refused: {}", why(state, &answer));
    }
    let made = connection(state, &answer);
    if options.json {
        return output::json(&made);
    }
    let offset = answer.dlid.get() - destination.identity.lid.get();
    output::line(format!(
        "connection {}: {} from {} to {}, service level {}, DLID {} (ibemu perf {} {} --sl {} \
         --dlid-offset {offset})",
        made.id,
        bit_rate(made.rate_bps),
        made.source,
        made.destination,
        made.sl,
        made.dlid,
        made.source,
        made.destination,
        made.sl,
    ))
}

async fn release(dir: &FabricDir, state: &FabricState, options: &Release) -> Result<()> {
    let mut controller = ControllerClient::anywhere(dir, state).await?;
    let asked = QosConnection {
        id: options.id,
        ..QosConnection::default()
    };
    let answer = controller.ask(Method::DELETE, &asked).await?;
    if answer.cause != QosCause::Granted {
        bail!("{}", why(state, &answer));
    }
    output::line(format!("connection {} is released", answer.id))
}

async fn list(dir: &FabricDir, state: &FabricState, options: &List) -> Result<()> {
    let mut controller = ControllerClient::anywhere(dir, state).await?;
    let mut all: Vec<Connection> = Vec::new();
    loop {
        let next = all.last().map_or(0, |last| last.id.saturating_add(1));
        let nothing = QosConnection::default();
        let answer = controller
            .client
            .vendor(controller.sm, Method::GET, next, &nothing)
            .await?;
        if answer.status() != MadStatus::OK {
            break;
        }
        all.push(connection(state, &answer.vendor_attribute()?));
    }
    if options.json {
        return output::json(&all);
    }
    let mut table = Table::new(&[
        ("ID", Align::Right),
        ("FROM", Align::Left),
        ("TO", Align::Left),
        ("CLASS", Align::Left),
        ("RATE", Align::Right),
        ("SL", Align::Right),
        ("DLID", Align::Right),
    ]);
    for one in all {
        table.row([
            one.id.to_string(),
            one.source,
            one.destination,
            one.class.to_string(),
            bit_rate(one.rate_bps),
            one.sl.to_string(),
            one.dlid.to_string(),
        ]);
    }
    output::line(table)
}

fn connection(state: &FabricState, answer: &QosConnection) -> Connection {
    Connection {
        id: answer.id,
        source: state.port_name(answer.source),
        destination: state.port_name(answer.destination),
        class: match answer.time_sensitive {
            true => Class::Dbts,
            false => Class::Db,
        },
        rate_bps: answer.rate_bps,
        distance: answer.distance,
        sl: answer.sl.get(),
        dlid: answer.dlid.get(),
    }
}

fn node_name(state: &FabricState, guid: Guid) -> Option<String> {
    let node = state.nodes.iter().find(|node| node.guid() == guid)?;
    Some(node.name.clone())
}

/// The cause of a refusal, as text.
fn why(state: &FabricState, answer: &QosConnection) -> String {
    let node = node_name(state, answer.node).unwrap_or_else(|| answer.node.to_string());
    let (at, wanted, left) = (
        format!("port {} of {node}", answer.port),
        answer.wanted,
        answer.left,
    );
    match answer.cause {
        QosCause::Granted => "no reason".to_owned(),
        QosCause::Off => {
            "the fabric promises no bandwidth: bring it up with --qos vlarb01 and two or more --vls"
                .to_owned()
        }
        QosCause::NotUp => "the subnet is not up (ibemu status)".to_owned(),
        QosCause::NoSuchPort => "the subnet manager does not know both hosts".to_owned(),
        QosCause::NoPath => "no path joins the two hosts".to_owned(),
        QosCause::Rate => format!("{} is more than a link carries", bit_rate(answer.rate_bps)),
        QosCause::Bandwidth => {
            format!("{at} has {left} slots of 64 bytes a frame left, {wanted} are wanted")
        }
        QosCause::Entries => {
            format!("{at} has {left} arbitration entries left, {wanted} are wanted")
        }
        QosCause::Distance => format!(
            "at {at} turns would be {left} entries apart, {wanted} are allowed; a higher rate has \
             more entries"
        ),
        QosCause::NoSuchConnection => format!("there is no connection {}", answer.id),
        QosCause::TooMany => "the controller holds as many connections as it can".to_owned(),
    }
}
