//! The supervisor's side of a job: the agents of the other machines, and the machine that `up` was called on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use cluster::message::{Message, Order};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::gather::Gathered;
use super::streams::Streams;
use super::wire::{Incoming, Outgoing, Wire};
use crate::dir::FabricDir;
use crate::state::FabricState;

/// How long an agent may take for an order.
const ORDER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long agents may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Events that wait to be taken.
const EVENTS: usize = 1024;

/// What the supervisor learns of the other machines.
#[derive(Debug)]
pub(crate) enum HubEvent {
    /// A device's process has ended.
    Ended {
        /// Its machine.
        machine: usize,
        /// Its position.
        node: u32,
        /// The process.
        pid: u32,
        /// How.
        how: String,
    },
    /// A machine is lost.
    Lost {
        /// Which.
        machine: usize,
        /// Why.
        why: String,
    },
    /// The machine that `up` was called on is lost, or asks for the end.
    GatewayLeft {
        /// Why, for the log.
        why: String,
    },
}

/// Takes the answer to an order.
type Reply = oneshot::Sender<Result<u32, String>>;

#[derive(Debug)]
struct Peer {
    outgoing: Outgoing,
    streams: Rc<Streams>,
}

/// The connections to all other machines.
#[derive(Debug)]
pub(crate) struct Hub {
    names: Vec<String>,
    peers: RefCell<BTreeMap<usize, Peer>>,
    gateway: Outgoing,
    orders: RefCell<BTreeMap<u32, (usize, Reply)>>,
    next_order: Cell<u32>,
    events: mpsc::Sender<HubEvent>,
    /// One task an agent, which ends with its connection.
    hearing: RefCell<Vec<JoinHandle<()>>>,
}

impl Hub {
    /// Takes over the connections, and stands for the sockets of the other machines in the fabric's directory.
    ///
    /// # Errors
    /// If a socket cannot be bound.
    pub(super) fn new(
        dir: &FabricDir,
        state: &FabricState,
        gathered: Gathered,
    ) -> Result<(Rc<Self>, mpsc::Receiver<HubEvent>)> {
        let (events, received) = mpsc::channel(EVENTS);
        let job = state.job.as_ref().context("the fabric is of no job")?;
        let Gathered { agents, gateway } = gathered;
        let hub = Rc::new(Self {
            names: job.names().map(str::to_owned).collect(),
            peers: RefCell::default(),
            gateway: gateway.outgoing.clone(),
            orders: RefCell::default(),
            next_order: Cell::new(0),
            events,
            hearing: RefCell::default(),
        });
        for (machine, wire) in agents {
            let served = state.sockets_beside(Some(machine));
            let Wire {
                outgoing, incoming, ..
            } = wire;
            let streams = Streams::new(dir, outgoing.clone(), true, served);
            streams.stand_for(&state.sockets_of(machine))?;
            let peer = Peer {
                outgoing,
                streams: Rc::clone(&streams),
            };
            hub.peers.borrow_mut().insert(machine, peer);
            let hearing = Rc::clone(&hub).hear(machine, incoming, streams);
            let hearing = tokio::task::spawn_local(hearing);
            hub.hearing.borrow_mut().push(hearing);
        }
        let served = state.sockets_beside(None);
        let streams = Streams::new(dir, gateway.outgoing, true, served);
        tokio::task::spawn_local(Rc::clone(&hub).hear_gateway(gateway.incoming, streams));
        Ok((hub, received))
    }

    async fn hear(self: Rc<Self>, machine: usize, mut incoming: Incoming, streams: Rc<Streams>) {
        let why = loop {
            match incoming.next().await {
                Ok(Message::Done { number, outcome }) => self.done(machine, number, outcome),
                Ok(Message::Ended { node, pid, how }) => {
                    let ended = HubEvent::Ended {
                        machine,
                        node,
                        pid,
                        how,
                    };
                    if self.events.send(ended).await.is_err() {
                        return;
                    }
                }
                Ok(Message::End { why }) => break why,
                Ok(message) => streams.take(message),
                Err(error) => break format!("{error:#}"),
            }
        };
        streams.end();
        self.peers.borrow_mut().remove(&machine);
        self.orders.borrow_mut().retain(|_, (of, _)| *of != machine);
        let _ = self.events.send(HubEvent::Lost { machine, why }).await;
    }

    async fn hear_gateway(self: Rc<Self>, mut incoming: Incoming, streams: Rc<Streams>) {
        let why = loop {
            match incoming.next().await {
                Ok(Message::End { why }) => break why,
                Ok(message) => streams.take(message),
                Err(error) => break format!("the machine of `ibemu up` is lost: {error:#}"),
            }
        };
        streams.end();
        let _ = self.events.send(HubEvent::GatewayLeft { why }).await;
    }

    fn done(&self, machine: usize, number: u32, outcome: Result<u32, String>) {
        let order = self.orders.borrow_mut().remove(&number);
        match order {
            Some((of, reply)) if of == machine => drop(reply.send(outcome)),
            _ => tracing::warn!("{} answers what was not asked", self.names[machine]),
        }
    }

    /// The name of a machine.
    pub(crate) fn name(&self, machine: usize) -> &str {
        &self.names[machine]
    }

    /// Has a machine do something.
    ///
    /// # Errors
    /// If it is lost, refuses or does not answer.
    pub(crate) async fn order(&self, machine: usize, order: Order) -> Result<u32> {
        let lost = || anyhow!("its machine {} is lost", self.name(machine));
        let outgoing = self
            .peers
            .borrow()
            .get(&machine)
            .map(|peer| peer.outgoing.clone());
        let outgoing = outgoing.ok_or_else(lost)?;
        let number = self.next_order.get();
        self.next_order.set(number.wrapping_add(1));
        let (reply, answered) = oneshot::channel();
        self.orders.borrow_mut().insert(number, (machine, reply));
        if !outgoing.send(Message::Order { number, order }).await {
            self.orders.borrow_mut().remove(&number);
            return Err(lost());
        }
        match timeout(ORDER_TIMEOUT, answered).await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(why))) => bail!("{}: {why}", self.name(machine)),
            Ok(Err(_)) => Err(lost()),
            Err(_) => {
                self.orders.borrow_mut().remove(&number);
                bail!(
                    "{} does not answer within {ORDER_TIMEOUT:?}",
                    self.name(machine)
                )
            }
        }
    }

    /// All machines but this one that are there.
    pub(crate) fn machines(&self) -> Vec<usize> {
        self.peers.borrow().keys().copied().collect()
    }

    /// Says to the machine of `up` that the fabric can be started.
    pub(crate) async fn tell_ready(&self) {
        self.gateway.send(Message::Files).await;
    }

    /// Says to all that the fabric ends, and waits a moment for them to have ended.
    pub(crate) async fn end(&self, why: &str) {
        let end = || Message::End {
            why: why.to_owned(),
        };
        let peers = std::mem::take(&mut *self.peers.borrow_mut());
        let ended = async {
            for peer in peers.values() {
                peer.streams.end();
                peer.outgoing.send(end()).await;
            }
            self.gateway.send(end()).await;
            let hearing = std::mem::take(&mut *self.hearing.borrow_mut());
            for agent in hearing {
                // Its end is all that is waited for.
                let _ = agent.await;
            }
        };
        // One that does not end is ended by Slurm.
        let _ = timeout(END_TIMEOUT, ended).await;
    }
}
