//! `ibemu mcast`: multicast groups of hosts.

pub(crate) mod tables;
mod test;

use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use hostd::control::{GroupMembership, MulticastSend, Reply, Request};
use serde::Serialize;
use wire::Gid;
use wire::sa::McMemberRecord;

use crate::ask::{self, DeviceClient};
use crate::dir::FabricDir;
use crate::lids::{self, LeftOut};
use crate::mads::MadClient;
use crate::names::FabricName;
use crate::output::{self, Align, Table};
use crate::state::FabricState;

/// Timeout of a host's join, leave or send.
const GROUP_TIMEOUT: Duration = Duration::from_secs(60);
/// The group without `--mgid`: of the fabric's own scope, in a range of our own.
const DEFAULT_GROUP: &str = "ff12:1bed::1";

/// `ibemu mcast`.
#[derive(Debug, Subcommand)]
pub enum Mcast {
    /// Let hosts join a group; it is made if there is none
    Join(Members),
    /// Let hosts leave a group
    Leave(Members),
    /// Send packets from a host to a group that it is in
    Send(Send),
    /// List the groups and their members, as subnet administration has them
    Groups(Format),
    /// Show the multicast forwarding tables, read from the live switches
    Tables(Format),
    /// Let hosts join, send and count: exit code 1 unless each packet comes once to each
    Test(Test),
}

/// A group.
#[derive(Debug, Args)]
pub struct Group {
    /// The group's GID, as IPv6 address
    #[arg(long, value_name = "MGID", default_value = DEFAULT_GROUP)]
    pub mgid: Ipv6Addr,
}

impl Group {
    fn gid(&self) -> Gid {
        Gid(self.mgid.octets())
    }
}

/// `ibemu mcast join`, `ibemu mcast leave`.
#[derive(Debug, Args)]
pub struct Members {
    /// The hosts, or `all`
    #[arg(required = true, value_name = "HOST")]
    pub hosts: Vec<String>,
    #[command(flatten)]
    /// The group.
    pub group: Group,
    /// Join to send only (leaving ends that too)
    #[arg(long)]
    pub send_only: bool,
}

/// `ibemu mcast send`.
#[derive(Debug, Args)]
pub struct Send {
    /// The host that sends
    pub host: String,
    #[command(flatten)]
    /// The group.
    pub group: Group,
    #[command(flatten)]
    /// How much.
    pub load: Load,
}

/// What a host sends.
#[derive(Clone, Copy, Debug, Args)]
pub struct Load {
    /// Packets a host, 1 to 65536
    #[arg(short, long, default_value_t = 10, value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub count: u32,
    /// Packet length from LRH to VCRC, bytes: 98 up to the MTU and its headers
    #[arg(short, long, default_value_t = 290, value_name = "BYTES",
          value_parser = clap::value_parser!(u16).range(98..=4222))]
    pub size: u16,
    /// Tells these packets from others of the same host [default: from the clock]
    #[arg(long, value_name = "NUMBER")]
    pub run: Option<u32>,
}

impl Load {
    fn run(&self) -> u32 {
        self.run.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |now| now.subsec_nanos() ^ std::process::id())
        })
    }

    fn request(&self, mgid: Gid, run: u32) -> Request {
        Request::MulticastSend(MulticastSend {
            mgid,
            run,
            count: self.count,
            size: self.size,
        })
    }
}

/// `ibemu mcast groups`, `ibemu mcast tables`.
#[derive(Debug, Args)]
pub struct Format {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ibemu mcast test`.
#[derive(Debug, Args)]
pub struct Test {
    /// Members of the group: `all`, or hosts with commas between
    #[arg(
        long,
        default_value = "all",
        value_name = "HOSTS",
        value_delimiter = ','
    )]
    pub group: Vec<String>,
    #[command(flatten)]
    /// The group's GID.
    pub mgid: Group,
    #[command(flatten)]
    /// How much.
    pub load: Load,
    /// How long to wait while no further packet arrives, seconds, 1 to 3600
    #[arg(long, default_value_t = 5, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub timeout: u32,
    /// Leave the hosts in the group
    #[arg(long)]
    pub keep: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs `ibemu mcast`.
///
/// # Errors
/// If a host cannot do it, or a test fails.
pub async fn run(fabric: &FabricName, verb: &Mcast) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    match verb {
        Mcast::Join(options) => {
            let (mgid, send_only) = (options.group.gid(), options.send_only);
            let join = Request::Join { mgid, send_only };
            let (hosts, left_out) = named(&dir, &state, &options.hosts).await?;
            for (host, membership) in change(&dir, &state, &hosts, &join).await? {
                let name = &state.nodes[host].name;
                let mlid = membership.mlid.get();
                output::line(format!("{name} is in {mgid}, multicast LID {mlid:#06x}"))?;
            }
            warn_left_out(&left_out)
        }
        Mcast::Leave(options) => {
            let mgid = options.group.gid();
            let (hosts, left_out) = named(&dir, &state, &options.hosts).await?;
            for (host, _) in change(&dir, &state, &hosts, &Request::Leave { mgid }).await? {
                output::line(format!("{} has left {mgid}", state.nodes[host].name))?;
            }
            warn_left_out(&left_out)
        }
        Mcast::Send(options) => {
            let host = state.find_host(&options.host)?;
            let mut client = DeviceClient::connect(&dir, &state.nodes[host], GROUP_TIMEOUT).await?;
            let run = options.load.run();
            let request = options.load.request(options.group.gid(), run);
            match client.host(&request).await? {
                Reply::Done => output::line(format!("{} packets sent", options.load.count)),
                other => Err(ask::unexpected(&other)),
            }
        }
        Mcast::Groups(options) => groups(&dir, &state, options).await,
        Mcast::Tables(options) => tables::run(&dir, &state, options).await,
        Mcast::Test(options) => test::run(&dir, &state, options).await,
    }
}

/// The positions of hosts by name; of `all` those that can be reached, and the others.
async fn named(
    dir: &FabricDir,
    state: &FabricState,
    names: &[String],
) -> Result<(Vec<usize>, Vec<LeftOut>)> {
    if names.iter().any(|name| name == "all") {
        let (hosts, left_out) = lids::reachable(dir, state, state.hosts()).await;
        return Ok((hosts.iter().map(|host| host.node).collect(), left_out));
    }
    let mut hosts: Vec<usize> = Vec::with_capacity(names.len());
    for name in names {
        let host = state.find_host(name)?;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    Ok((hosts, Vec::new()))
}

/// Names the hosts that are left out; an error if there are any.
fn warn_left_out(left_out: &[LeftOut]) -> Result<()> {
    LeftOut::print(left_out)?;
    LeftOut::verdict(left_out).map_or(Ok(()), |verdict| Err(anyhow!(verdict)))
}

/// Lets hosts join or leave, all at once.
async fn change(
    dir: &FabricDir,
    state: &FabricState,
    hosts: &[usize],
    request: &Request,
) -> Result<Vec<(usize, GroupMembership)>> {
    let each = hosts.iter().map(|&host| async move {
        let mut client = DeviceClient::connect(dir, &state.nodes[host], GROUP_TIMEOUT).await?;
        match client.host(request).await? {
            Reply::Membership(membership) => Ok((host, membership)),
            other => Err(ask::unexpected(&other)),
        }
    });
    futures_util::future::try_join_all(each).await
}

/// A member of a group.
#[derive(Debug, Serialize)]
pub(crate) struct Member {
    /// Its name.
    name: String,
    port_guid: String,
    /// The multicast LID that it sends to.
    mlid: u16,
    join_state: u8,
}

/// A multicast group.
#[derive(Debug, Serialize)]
pub(crate) struct GroupListing {
    mgid: String,
    qkey: u32,
    mtu: u8,
    members: Vec<Member>,
}

/// All memberships, from subnet administration.
async fn memberships(dir: &FabricDir, state: &FabricState) -> Result<Vec<McMemberRecord>> {
    let asker = lids::of_any(dir, state).await?;
    let mut client = MadClient::connect(dir, &state.nodes[asker.node]).await?;
    client.table(asker.identity.sm_lid).await
}

/// All groups with their members, from subnet administration.
///
/// # Errors
/// If it cannot be asked.
pub(crate) async fn listing(dir: &FabricDir, state: &FabricState) -> Result<Vec<GroupListing>> {
    let mut listing: Vec<GroupListing> = Vec::new();
    for record in memberships(dir, state).await? {
        let mgid = record.mgid.to_string();
        if listing.last().is_none_or(|group| group.mgid != mgid) {
            listing.push(GroupListing {
                mgid,
                qkey: record.qkey,
                mtu: record.mtu,
                members: Vec::new(),
            });
        }
        if record.port_gid != Gid::default()
            && let Some(group) = listing.last_mut()
        {
            group.members.push(Member {
                name: state.port_name(record.port_gid.guid()),
                port_guid: record.port_gid.guid().to_string(),
                mlid: record.mlid.get(),
                join_state: record.join_state,
            });
        }
    }
    Ok(listing)
}

async fn groups(dir: &FabricDir, state: &FabricState, options: &Format) -> Result<()> {
    let listing = listing(dir, state).await?;
    if options.json {
        return output::json(&listing);
    }
    let mut table = Table::new(&[
        ("GROUP", Align::Left),
        ("MEMBER", Align::Left),
        ("MLID", Align::Right),
        ("SENDS ONLY", Align::Left),
    ]);
    for group in &listing {
        if group.members.is_empty() {
            let no_member = ["-", "-", "-"].map(str::to_owned);
            table.row([group.mgid.clone()].into_iter().chain(no_member));
        }
        for member in &group.members {
            let sends_only = member.join_state == McMemberRecord::JOIN_SEND_ONLY;
            table.row([
                group.mgid.clone(),
                member.name.clone(),
                format!("{:#06x}", member.mlid),
                if sends_only { "yes" } else { "no" }.to_owned(),
            ]);
        }
    }
    output::line(table)
}
