//! Connections over a whole fabric: admitted on every link of their path, or not at all.

use std::collections::BTreeMap;

use topologies::{Endpoint, Graph};

use super::class::Class;
use super::error::QosError;
use super::link_state::{LinkState, Options};

/// Names a connection for as long as the [`Admission`] lives; never used again after release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// The connection of that number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A request for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// [`Class::TimeSensitive`] or [`Class::Dedicated`].
    pub class: Class,
    /// Mean rate in bits per second.
    pub rate_bps: u64,
    /// The output ports in the order in which a packet leaves them, the source's first.
    pub path: &'a [Endpoint],
}

/// A connection that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its class.
    pub class: Class,
    /// Mean rate in bits per second.
    pub rate_bps: u64,
    /// Each output port of its path, with the slots that it owns there.
    pub links: Vec<(Endpoint, u32)>,
}

/// The state of all links of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    options: Options,
    links: BTreeMap<Endpoint, LinkState>,
    connections: BTreeMap<ConnectionId, Connection>,
    next: u64,
}

impl Admission {
    /// A fabric without connections. `link_bps` gives the rate of the link at an output port in
    /// bits per second.
    ///
    /// # Errors
    /// [`QosError::NoRate`] if a link has none, [`QosError::NoSuchShare`].
    pub fn new(
        graph: &Graph,
        options: Options,
        link_bps: impl Fn(Endpoint) -> u64,
    ) -> Result<Self, QosError> {
        let mut links = BTreeMap::new();
        for node in graph.ids() {
            for (port, _) in graph.cables(node) {
                let end = Endpoint { node, port };
                links.insert(end, LinkState::new(options, link_bps(end))?);
            }
        }
        Ok(Self {
            options,
            links,
            connections: BTreeMap::new(),
            next: 0,
        })
    }

    /// The parameters of the fabric.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// The state of an output port.
    #[must_use]
    pub fn link(&self, port: Endpoint) -> Option<&LinkState> {
        self.links.get(&port)
    }

    /// All output ports in order.
    pub fn links(&self) -> impl ExactSizeIterator<Item = (Endpoint, &LinkState)> {
        self.links.iter().map(|(&port, link)| (port, link))
    }

    /// A connection that stands.
    #[must_use]
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    /// All connections, the oldest first.
    pub fn connections(&self) -> impl ExactSizeIterator<Item = (ConnectionId, &Connection)> {
        self.connections
            .iter()
            .map(|(&id, connection)| (id, connection))
    }

    /// Admits a connection: on each link of its path, or on none. Only the ports of its path
    /// change.
    ///
    /// # Errors
    /// [`QosError::Refused`] with the first link that cannot take it; the other variants but
    /// [`QosError::NoSuchConnection`] and [`QosError::NoSuchShare`] if the request makes no sense.
    pub fn request(&mut self, request: &Request<'_>) -> Result<ConnectionId, QosError> {
        if !request.class.is_dedicated() {
            return Err(QosError::NotDedicated);
        }
        let links = self.plan(request)?;
        for &(at, slots) in &links {
            let link = self.links.get_mut(&at).ok_or(QosError::NoSuchLink(at))?;
            link.add(request.class, slots)
                .map_err(|cause| QosError::Refused { at, cause })?;
        }
        let id = ConnectionId(self.next);
        self.next += 1;
        self.connections.insert(
            id,
            Connection {
                class: request.class,
                rate_bps: request.rate_bps,
                links,
            },
        );
        Ok(id)
    }

    /// The slots on each link, once all of them are known to have these.
    fn plan(&self, request: &Request<'_>) -> Result<Vec<(Endpoint, u32)>, QosError> {
        if request.path.is_empty() {
            return Err(QosError::EmptyPath);
        }
        let mut links: Vec<(Endpoint, u32)> = Vec::with_capacity(request.path.len());
        for &at in request.path {
            if links.iter().any(|&(other, _)| other == at) {
                return Err(QosError::PortTwice(at));
            }
            let link = self.links.get(&at).ok_or(QosError::NoSuchLink(at))?;
            let slots = link.slots(request.rate_bps)?;
            link.check(request.class, slots)
                .map_err(|cause| QosError::Refused { at, cause })?;
            links.push((at, slots));
        }
        Ok(links)
    }

    /// Releases a connection and gives its slots back; returns what it was.
    ///
    /// # Errors
    /// [`QosError::NoSuchConnection`].
    pub fn release(&mut self, id: ConnectionId) -> Result<Connection, QosError> {
        let connection = self
            .connections
            .remove(&id)
            .ok_or(QosError::NoSuchConnection(id.0))?;
        for &(at, slots) in &connection.links {
            if let Some(link) = self.links.get_mut(&at) {
                link.remove(connection.class, slots);
            }
        }
        Ok(connection)
    }
}

#[cfg(test)]
mod tests;
