//! The host's MAD socket: datagrams out and in, and tables of subnet administration.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use mad::local::{FromAgent, MadMessage, Registration, ToAgent};
use mad::rmpp::{Progress, Receiver};
use netio::clock;
use netio::seqpacket::Connection;
use thiserror::Error;
use wire::attr::PortInfo;
use wire::convert::nanoseconds;
use wire::sa::{SaHeader, SaRecord};
use wire::{AttributeId, Lid, Mad, Method, Qpn, Sl};

use crate::sampler::Source;

/// How long one attempt waits for its answer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(500);
/// Attempts of a request.
const ATTEMPTS: u32 = 4;
/// How long a host may take to answer a registration.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a transfer may take without a segment.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(2);
/// From so many bytes on a packet to the host takes no more messages.
const PACKET_BYTES: usize = 32 * 1024;
/// The most bytes of one table: the records of every LID of a subnet.
const TABLE_BYTES_MAX: usize = 64 << 20;

/// Why a host, or the subnet through it, could not be asked. Another attempt may succeed.
#[derive(Debug, Error)]
pub(crate) enum ClientError {
    #[error("the host's MAD socket {} cannot be used; does the host run? (ibemu status): {why}", .socket.display())]
    Host { socket: PathBuf, why: String },
    #[error("the host has closed its MAD socket: it was restarted, or serves too many programs")]
    HostLeft,
    #[error("the host does not answer")]
    HostSilent,
    #[error("no subnet manager has set up the host's port: start one (ibemu status)")]
    NoManager,
    #[error("subnet administration at LID {lid} does not answer")]
    AdministratorSilent { lid: Lid },
    #[error("subnet administration refuses its tables (status {status:#06x})")]
    Refused { status: u16 },
    #[error("subnet administration sends a table that does not end")]
    TooLong,
    #[error("an answer makes no sense: {0}")]
    Nonsense(#[from] wire::ParseError),
    #[error("the connection to the host failed: {0}")]
    Io(std::io::Error),
    #[error(transparent)]
    Codec(#[from] wire::control::ControlError),
}

impl From<std::io::Error> for ClientError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::HostLeft,
            _ => Self::Io(error),
        }
    }
}

/// A connection to the MAD socket. Messages out are encoded without memory of their own; several go in one packet, and the
/// host answers in the same way.
#[derive(Debug)]
pub(crate) struct Client {
    connection: Connection,
    message: ToAgent,
    /// The packet that is made.
    bytes: Vec<u8>,
    /// Messages of the last packet of the host that were not taken yet.
    received: RefCell<VecDeque<FromAgent>>,
    last_tid: u32,
}

impl Client {
    pub(crate) async fn connect(source: &Source) -> Result<Self, ClientError> {
        let unreachable = |why: String| ClientError::Host {
            socket: source.mad_socket.clone(),
            why,
        };
        let connection = Connection::connect(&source.mad_socket).await;
        let connection = connection.map_err(|error| unreachable(error.to_string()))?;
        let attach = wire::control::encode(&ToAgent::Attach { port: source.port })?;
        let attached = connection.send(&attach).await;
        attached.map_err(|error| unreachable(error.to_string()))?;
        Ok(Self {
            connection,
            message: ToAgent::SetIsSm(false),
            bytes: Vec::with_capacity(512),
            received: RefCell::default(),
            last_tid: 0,
        })
    }

    /// A transaction id that has not been used for long.
    pub(crate) fn next_tid(&mut self) -> u32 {
        self.last_tid = self.last_tid.wrapping_add(1);
        self.last_tid
    }

    /// Puts a datagram to the general services at `lid` into the packet that [`Self::try_send`] or [`Self::send`] sends.
    pub(crate) fn prepare(&mut self, lid: Lid, mad: &Mad) -> Result<(), ClientError> {
        match &mut self.message {
            ToAgent::Send(message) => {
                message.lid = lid;
                *message.mad = *mad.as_bytes();
            }
            other => {
                *other = ToAgent::Send(MadMessage {
                    lid,
                    qpn: Qpn::GSI,
                    sl: Sl::default(),
                    mad: Box::new(*mad.as_bytes()),
                    way: None,
                });
            }
        }
        wire::control::append(&self.message, &mut self.bytes)?;
        Ok(())
    }

    /// Whether the packet takes no more.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= PACKET_BYTES
    }

    /// Sends what was prepared, if something was; `false` if the host takes nothing now.
    pub(crate) fn try_send(&mut self) -> Result<bool, ClientError> {
        if self.bytes.is_empty() {
            return Ok(true);
        }
        match self.connection.try_send(&self.bytes) {
            Ok(()) => {
                self.bytes.clear();
                Ok(true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the host takes what was prepared; [`Self::is_sent`] is to follow.
    pub(crate) async fn send_prepared(&self) -> Result<(), ClientError> {
        Ok(self.connection.send(&self.bytes).await?)
    }

    /// What was prepared has been sent.
    pub(crate) fn is_sent(&mut self) {
        self.bytes.clear();
    }

    /// Sends what was prepared.
    pub(crate) async fn send(&mut self) -> Result<(), ClientError> {
        self.send_prepared().await?;
        self.is_sent();
        Ok(())
    }

    /// The next answer, with the LID that it comes from.
    pub(crate) async fn receive(&self) -> Result<(Lid, Mad), ClientError> {
        loop {
            if let Some(answer) = answer(self.message().await?) {
                return Ok(answer);
            }
        }
    }

    /// The next answer if one waits.
    pub(crate) fn try_receive(&self) -> Result<Option<(Lid, Mad)>, ClientError> {
        loop {
            while let Some(message) = self.next_received() {
                if let Some(answer) = answer(message) {
                    return Ok(Some(answer));
                }
            }
            match self.connection.try_receive() {
                Ok(packet) => self.unpack(packet)?,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next message, whatever it is. Nothing is lost if the future is dropped.
    pub(crate) async fn message(&self) -> Result<FromAgent, ClientError> {
        loop {
            if let Some(message) = self.next_received() {
                return Ok(message);
            }
            let packet = self.connection.receive().await?;
            self.unpack(packet)?;
        }
    }

    fn next_received(&self) -> Option<FromAgent> {
        self.received.borrow_mut().pop_front()
    }

    /// Takes in the messages of a packet.
    fn unpack(&self, packet: Option<Vec<u8>>) -> Result<(), ClientError> {
        let packet = packet.ok_or(ClientError::HostLeft)?;
        let mut received = self.received.borrow_mut();
        let mut rest = packet.as_slice();
        while !rest.is_empty() {
            let message;
            (message, rest) = wire::control::decode_first(rest)?;
            received.push_back(message);
        }
        Ok(())
    }

    /// Sends a message of another kind than [`Self::prepare`] makes.
    pub(crate) async fn tell(&self, message: &ToAgent) -> Result<(), ClientError> {
        let bytes = wire::control::encode(message)?;
        Ok(self.connection.send(&bytes).await?)
    }

    /// Sends the answer to an unsolicited datagram to where that came from.
    pub(crate) async fn answer(&self, to: &MadMessage, mad: &Mad) -> Result<(), ClientError> {
        self.tell(&ToAgent::Send(MadMessage {
            mad: Box::new(*mad.as_bytes()),
            ..to.clone()
        }))
        .await
    }

    /// Asks for unsolicited datagrams. Whether the host gives them to this client: another one may have them.
    pub(crate) async fn register(&self, wanted: Registration) -> Result<bool, ClientError> {
        self.tell(&ToAgent::RegisterMethods(wanted)).await?;
        let answer = async {
            loop {
                if let FromAgent::Registered { registered, .. } = self.message().await? {
                    return Ok(registered);
                }
            }
        };
        let answer = tokio::time::timeout(REGISTRATION_TIMEOUT, answer).await;
        answer.unwrap_or(Err(ClientError::HostSilent))
    }

    /// The port's own PortInfo.
    pub(crate) async fn own_port(&mut self) -> Result<PortInfo, ClientError> {
        let tid = self.next_tid();
        let request = Mad::lid_smp(Method::GET, AttributeId::PORT_INFO, 0, tid.into());
        let request = wire::control::encode(&ToAgent::ReadOwn(Box::new(*request.as_bytes())))?;
        for _ in 0..ATTEMPTS {
            self.connection.send(&request).await?;
            let answer = tokio::time::timeout(ATTEMPT_TIMEOUT, self.answer_to(tid));
            if let Ok(answer) = answer.await {
                return Ok(answer?.1.smp_attribute()?);
            }
        }
        Err(ClientError::HostSilent)
    }

    /// All records of a kind, from the subnet administrator at `sm`.
    pub(crate) async fn table<R: SaRecord>(
        &mut self,
        sm: Lid,
        sm_key: u64,
    ) -> Result<Vec<R>, ClientError> {
        let mut query = Mad::sa(Method::GET_TABLE, R::ID, 0, 0);
        query.set_sa_header(&SaHeader {
            sm_key,
            ..SaHeader::default()
        });
        for _ in 0..ATTEMPTS {
            let tid = self.next_tid();
            query.set_tid(tid.into());
            let Some(bytes) = self.transfer(sm, &query, tid).await? else {
                continue;
            };
            let records = bytes.chunks_exact(usize::from(R::ATTRIBUTE_OFFSET).max(1) * 8);
            return Ok(records
                .map(|raw| Ok(R::parse(raw)?.0))
                .collect::<Result<_, wire::ParseError>>()?);
        }
        Err(ClientError::AdministratorSilent { lid: sm })
    }

    /// One transfer of a table (RMPP); `None` if it has stopped.
    async fn transfer(
        &mut self,
        sm: Lid,
        query: &Mad,
        tid: u32,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        let mut receiver = Receiver::new(clock::now(), nanoseconds(TRANSFER_TIMEOUT));
        self.prepare(sm, query)?;
        self.send().await?;
        let mut received = 0;
        loop {
            let answer = tokio::time::timeout(TRANSFER_TIMEOUT, self.answer_to(tid)).await;
            let Ok(answer) = answer else {
                return Ok(None);
            };
            let (_, answer) = answer?;
            let status = answer.status();
            if status.0 != 0 {
                return Err(ClientError::Refused { status: status.0 });
            }
            received += Mad::LEN;
            if received > TABLE_BYTES_MAX {
                return Err(ClientError::TooLong);
            }
            let (progress, back) = receiver.receive(clock::now(), &answer);
            if let Some(back) = &back {
                self.prepare(sm, back)?;
                self.send().await?;
            }
            match progress {
                Progress::Running => {}
                Progress::Done => return Ok(Some(receiver.into_payload())),
                Progress::Failed(_) => return Ok(None),
            }
        }
    }

    /// The next answer with this transaction id; others are late ones.
    async fn answer_to(&self, tid: u32) -> Result<(Lid, Mad), ClientError> {
        loop {
            let (lid, mad) = self.receive().await?;
            if lower(mad.tid()) == tid {
                return Ok((lid, mad));
            }
        }
    }
}

/// The half of a transaction id that is the client's own.
pub(crate) fn lower(tid: u64) -> u32 {
    let [_, _, _, _, a, b, c, d] = tid.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// The answer that a message of the host carries, if it carries one.
fn answer(message: FromAgent) -> Option<(Lid, Mad)> {
    let FromAgent::Received(received) = message else {
        return None;
    };
    let mad = Mad::from_bytes(*received.mad);
    mad.method().is_response().then_some((received.lid, mad))
}
