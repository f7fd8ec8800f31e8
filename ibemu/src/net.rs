//! Namespaces and veth pairs by netlink: `ip` is never called.
//!
//! A pair is created across two namespaces in one request; each end is then labelled and brought
//! up from inside its own namespace (the creating request can do neither for the peer's end).

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, Result, anyhow, bail};
use futures_util::StreamExt;
use netio::namespace::Namespace;
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkMessage};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth};
use tokio::task::JoinHandle;

/// The largest MTU of a veth pair: an Ethernet frame then carries many link packets.
const VETH_MTU: u32 = 65_535;
/// The loopback interface is the first of every namespace.
const LOOPBACK_INDEX: u32 = 1;

/// The interface at the end of port `port`'s cable; of the further adapters of one host, whose number is above 0,
/// with that in front.
#[must_use]
pub fn interface(adapter: u8, port: u8) -> String {
    match adapter {
        0 => format!("p{port}"),
        _ => format!("a{adapter}p{port}"),
    }
}

/// A named network namespace with a netlink socket inside it.
#[derive(Debug)]
pub struct Net {
    namespace: Namespace,
    handle: Handle,
    connection: JoinHandle<()>,
}

impl Drop for Net {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Net {
    /// Creates the namespace `name`: loopback up and labelled, IPv6 off for what is added later.
    /// To be called inside a tokio runtime with IO.
    ///
    /// # Errors
    /// If the name is in use, or without the right to create namespaces.
    pub async fn create(name: &str, label: &str) -> Result<Self> {
        let net = Self::over(Namespace::create(name)?, disable_ipv6)?;
        let loopback = LinkUnspec::new_with_index(LOOPBACK_INDEX)
            .alias(label)
            .up()
            .build();
        net.set(loopback)
            .await
            .with_context(|| format!("cannot bring loopback up in {name}"))?;
        Ok(net)
    }

    /// Opens the namespace `name`. To be called inside a tokio runtime with IO.
    ///
    /// # Errors
    /// If there is none of that name, or it may not be entered.
    pub fn open(name: &str) -> Result<Self> {
        Self::over(Namespace::open(name)?, || Ok(()))
    }

    /// A netlink socket in `namespace`, made after `first` has run there.
    fn over(namespace: Namespace, first: impl FnOnce() -> io::Result<()> + Send) -> Result<Self> {
        let runtime = tokio::runtime::Handle::current();
        let opened = namespace.run(|| {
            first()?;
            let _inside = runtime.enter();
            rtnetlink::new_connection()
        })?;
        let (connection, handle, _messages) = opened
            .with_context(|| format!("cannot open a netlink socket in {}", namespace.name()))?;
        Ok(Self {
            namespace,
            handle,
            connection: tokio::spawn(connection),
        })
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The label of the namespace, as [`Net::create`] has set it; `None` if it has none.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub async fn label(&self) -> Result<Option<String>> {
        let mut links = self
            .handle
            .link()
            .get()
            .match_index(LOOPBACK_INDEX)
            .execute();
        while let Some(link) = links.next().await {
            let link = link.map_err(netlink_error)?;
            for attribute in link.attributes {
                if let LinkAttribute::IfAlias(alias) = attribute {
                    return Ok(Some(alias));
                }
            }
        }
        Ok(None)
    }

    /// Sets an interface up or down.
    ///
    /// # Errors
    /// If there is no such interface.
    pub async fn set_interface(&self, name: &str, up: bool) -> Result<(), LinkError> {
        let link = LinkUnspec::new_with_name(name);
        self.set(if up { link.up() } else { link.down() }.build())
            .await
    }

    /// Labels an interface and brings it up.
    async fn finish_interface(&self, name: &str, label: &str) -> Result<(), LinkError> {
        let link = LinkUnspec::new_with_name(name).alias(label).up();
        self.set(link.build()).await
    }

    async fn set(&self, message: LinkMessage) -> Result<(), LinkError> {
        let result = self.handle.link().set(message).execute().await;
        result.map_err(LinkError::from)
    }
}

/// Why the kernel has refused a request about a link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The kernel's reason.
    #[error("{0}")]
    System(io::Error),
    /// Netlink itself has failed.
    #[error("{0}")]
    Netlink(String),
}

impl From<rtnetlink::Error> for LinkError {
    fn from(error: rtnetlink::Error) -> Self {
        match error {
            rtnetlink::Error::NetlinkError(message) => Self::System(message.to_io()),
            other => Self::Netlink(other.to_string()),
        }
    }
}

impl LinkError {
    /// The kernel's error number, if it is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::System(error) => error.raw_os_error(),
            Self::Netlink(_) => None,
        }
    }
}

fn netlink_error(error: rtnetlink::Error) -> anyhow::Error {
    LinkError::from(error).into()
}

/// One end of a cable to create.
#[derive(Clone, Debug)]
pub struct CableEnd<'a> {
    /// Its namespace.
    pub net: &'a Net,
    /// Its interface there.
    pub interface: String,
}

/// Makes a cable: a veth pair between two namespaces, labelled and up at both ends.
///
/// # Errors
/// If a name is in use or the kernel has no veth.
pub async fn create_cable(a: &CableEnd<'_>, b: &CableEnd<'_>, label: &str) -> Result<()> {
    let name = || {
        format!(
            "the cable {} {} - {} {}",
            a.net.namespace.name(),
            a.interface,
            b.net.namespace.name(),
            b.interface
        )
    };
    let peer = LinkMessageBuilder::<LinkUnspec>::new()
        .name(b.interface.clone())
        .mtu(VETH_MTU)
        .setns_by_fd(b.net.namespace.as_fd().as_raw_fd())
        .build();
    let pair = LinkMessageBuilder::<LinkVeth>::new_with_info_kind(
        rtnetlink::packet_route::link::InfoKind::Veth,
    )
    .name(a.interface.clone())
    .mtu(VETH_MTU)
    .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
    .build();
    let made = a.net.handle.link().add(pair).execute().await;
    if let Err(error) = made.map_err(LinkError::from) {
        let remedy = match error.errno() {
            Some(libc::EOPNOTSUPP) => {
                "; this kernel has no veth (modprobe veth), --transport udp or shm do without"
            }
            Some(libc::EEXIST) => "; an interface of that name is there already",
            Some(libc::EPERM) => "; run as root, or use --transport udp or shm, which need none",
            _ => "",
        };
        return Err(anyhow!("cannot create {}: {error}{remedy}", name()));
    }
    for end in [a, b] {
        end.net
            .finish_interface(&end.interface, label)
            .await
            .with_context(|| format!("cannot bring up {}", name()))?;
    }
    Ok(())
}

/// Sets the interface of a port up or down; whether it is there at all.
///
/// # Errors
/// If the kernel refuses.
pub async fn set_cable_end(end: &CableEnd<'_>, up: bool) -> Result<bool> {
    match end.net.set_interface(&end.interface, up).await {
        Ok(()) => Ok(true),
        Err(error) if error.errno() == Some(libc::ENODEV) => Ok(false),
        Err(error) => bail!(
            "cannot set {} in {}: {error}",
            end.interface,
            end.net.namespace.name()
        ),
    }
}

/// Keeps IPv6 from sending on the interfaces that will be added to the calling thread's namespace.
fn disable_ipv6() -> io::Result<()> {
    match fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1") {
        // A kernel without IPv6 needs no setting.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
