//! The control side of one device's daemon: what all devices answer on their control sockets.
//!
//! Ends of UDP cables, tunnels and cables in shared memory are answered here, the rest by the core on the dataplane thread; the process's number and
//! the links' counters are added to the core's replies.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
#[doc(no_inline)]
pub use wire::control::{DeviceReply, DeviceRequest};

use crate::cables::Cables;
use crate::control::{Answer, Pending};
use netio::dataplane::{Handle, RequestError};
use netio::transport::{CableEnd, Transport, TunnelPeer};
use wire::PortNum;

/// How long a request of a client may wait for room in the dataplane thread's queue, which MADs fill, too.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the dataplane thread may refuse the requests to shut down.
const SHUTDOWN_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The control messages of one kind of device.
pub trait Protocol {
    /// Requests of its socket.
    type Request;
    /// Replies of its socket.
    type Reply;
    /// Its core's command.
    type Command;

    /// A request that is asked of any device.
    fn from_device(request: DeviceRequest) -> Self::Request;

    /// The request, if it is asked of any device.
    fn as_device(request: &Self::Request) -> Option<&DeviceRequest>;

    /// The answer to such a request.
    fn reply(reply: DeviceReply) -> Self::Reply;

    /// The answer, if it is one to such a request.
    fn as_device_reply(reply: &mut Self::Reply) -> Option<&mut DeviceReply>;

    /// The command for the core; its answer comes back with the token.
    fn command(token: u64, request: Self::Request) -> Self::Command;
}

/// Makes a [`Protocol`] of a request and a reply whose variants `Device` hold what any device is asked
/// and answers, the core's command, and how a command is made of a token and a request.
#[macro_export]
macro_rules! device_protocol {
    ($(#[$doc:meta])* $name:ident($request:ident, $reply:ident, $command:ty) = $make:expr) => {
        $(#[$doc])*
        struct $name;

        impl $crate::device::Protocol for $name {
            type Request = $request;
            type Reply = $reply;
            type Command = $command;

            fn from_device(request: $crate::device::DeviceRequest) -> $request {
                $request::Device(request)
            }

            fn as_device(request: &$request) -> Option<&$crate::device::DeviceRequest> {
                match request {
                    $request::Device(request) => Some(request),
                    _ => None,
                }
            }

            fn reply(reply: $crate::device::DeviceReply) -> $reply {
                $reply::Device(reply)
            }

            fn as_device_reply(reply: &mut $reply) -> Option<&mut $crate::device::DeviceReply> {
                match reply {
                    $reply::Device(reply) => Some(reply),
                    _ => None,
                }
            }

            fn command(token: u64, request: $request) -> $command {
                ($make)(token, request)
            }
        }
    };
}

/// The control side of one device.
#[derive(Debug)]
pub struct DeviceControl<P: Protocol> {
    handle: Handle<P::Command>,
    cables: Cables,
    pending: Pending<P::Reply>,
    /// Notified when the reply to a request to shut down has been sent.
    shutdown: Rc<Notify>,
}

impl<P: Protocol> DeviceControl<P> {
    /// The control side of the device whose dataplane thread has this handle.
    #[must_use]
    pub fn new(handle: Handle<P::Command>, cables: Cables) -> Self {
        Self {
            handle,
            cables,
            pending: Pending::default(),
            shutdown: Rc::default(),
        }
    }

    /// Sends requests to the dataplane thread.
    #[must_use]
    pub fn handle(&self) -> &Handle<P::Command> {
        &self.handle
    }

    /// Answers a request of the control socket, with the descriptors that have come with it.
    pub async fn answer(&self, request: P::Request, descriptors: Vec<OwnedFd>) -> Answer<P::Reply> {
        let reply = match P::as_device(&request) {
            Some(DeviceRequest::Endpoints) => DeviceReply::Endpoints(self.cables.endpoints()),
            Some(&DeviceRequest::Connect { port, peer }) => {
                if self.cables.transport(port) != Some(Transport::Udp) {
                    DeviceReply::Refused(format!("port {port} has no UDP cable"))
                } else if let Err(busy) = self.handle.connect(port, peer) {
                    DeviceReply::Refused(busy.to_string())
                } else {
                    DeviceReply::Done
                }
            }
            Some(&DeviceRequest::ConnectTunnel { port, peer, secret }) => {
                let peer = TunnelPeer { end: peer, secret };
                if self.cables.transport(port) != Some(Transport::Tunnel) {
                    DeviceReply::Refused(format!("port {port} has no tunnel"))
                } else if let Err(busy) = self.handle.connect_tunnel(port, peer) {
                    DeviceReply::Refused(busy.to_string())
                } else {
                    DeviceReply::Done
                }
            }
            Some(&DeviceRequest::Attach {
                port,
                cable,
                second,
            }) => self.attach(port, cable, descriptors, second),
            Some(DeviceRequest::Attached) => DeviceReply::Attached(self.cables.attached()),
            Some(DeviceRequest::Shutdown) => {
                return Answer {
                    reply: P::reply(DeviceReply::Done),
                    sent: Some(Rc::clone(&self.shutdown)),
                };
            }
            _ => return self.ask(request).await.into(),
        };
        P::reply(reply).into()
    }

    /// Has a port take another cable in shared memory.
    fn attach(
        &self,
        port: PortNum,
        cable: u64,
        descriptors: Vec<OwnedFd>,
        second: bool,
    ) -> DeviceReply {
        if self.cables.transport(port) != Some(Transport::Shm) {
            return DeviceReply::Refused(format!("port {port} has no cable in shared memory"));
        }
        let end = match CableEnd::open(descriptors, second) {
            Ok(end) => end,
            Err(error) => return DeviceReply::Refused(error.to_string()),
        };
        if let Err(busy) = self.handle.attach(port, end) {
            return DeviceReply::Refused(busy.to_string());
        }
        self.cables.attach(port, cable);
        DeviceReply::Done
    }

    /// Has the core answer.
    async fn ask(&self, request: P::Request) -> P::Reply {
        let (token, reply) = self.pending.begin();
        let command = P::command(token, request);
        let sent = self.handle.command_within(command, REQUEST_TIMEOUT);
        if let Err(busy) = sent.await {
            return P::reply(DeviceReply::Refused(busy.to_string()));
        }
        let Ok(mut reply) = reply.await else {
            let why = "the device did not answer; try again".to_owned();
            return P::reply(DeviceReply::Refused(why));
        };
        if let Some(reply) = P::as_device_reply(&mut reply) {
            self.cables.complete(reply);
        }
        reply
    }

    /// Passes the core's reply to its requester.
    pub fn finish(&self, token: u64, reply: P::Reply) {
        self.pending.finish(token, reply);
    }

    /// Resolves when a client has asked the device to shut down, and has its reply.
    pub async fn shutdown_requested(&self) {
        self.shutdown.notified().await;
    }

    /// Has the core send link-down records to its peers, and the dataplane thread end when that
    /// is out: its events then end.
    ///
    /// # Errors
    /// [`RequestError::Ended`] if the thread has ended already; [`RequestError::Full`] if it takes no
    /// request for two seconds, so that it does not learn of the shutdown.
    pub async fn begin_shutdown(&self) -> Result<(), RequestError> {
        let (token, _) = self.pending.begin();
        let shutdown = P::command(token, P::from_device(DeviceRequest::Shutdown));
        let deadline = Instant::now() + SHUTDOWN_REQUEST_TIMEOUT;
        self.handle
            .command_within(shutdown, SHUTDOWN_REQUEST_TIMEOUT)
            .await?;
        self.handle
            .stop_within(deadline.saturating_duration_since(Instant::now()))
            .await
    }
}
