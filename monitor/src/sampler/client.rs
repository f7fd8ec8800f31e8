//! The host's MAD socket: datagrams out and in, and tables of subnet administration.

use std::time::Duration;

use mad::local::{FromAgent, MadMessage, ToAgent};
use mad::rmpp::{Progress, Receiver};
use netio::clock;
use netio::seqpacket::Connection;
use wire::attr::PortInfo;
use wire::convert::nanoseconds;
use wire::sa::{SaHeader, SaRecord};
use wire::{AttributeId, Lid, Mad, Method, Qpn, Sl};

use super::{SampleError, Source};

/// How long one attempt waits for its answer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(500);
/// Attempts of a request.
const ATTEMPTS: u32 = 4;
/// How long a transfer may take without a segment.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(2);
/// The most bytes of one table: the records of every LID of a subnet.
const TABLE_BYTES_MAX: usize = 64 << 20;

/// A connection to the MAD socket. Messages out are encoded without memory of their own.
#[derive(Debug)]
pub(super) struct Client {
    connection: Connection,
    message: ToAgent,
    bytes: Vec<u8>,
    last_tid: u32,
}

impl Client {
    pub(super) async fn connect(source: &Source) -> Result<Self, SampleError> {
        let unreachable = |why: String| SampleError::Host {
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
            last_tid: 0,
        })
    }

    /// A transaction id that has not been used for long.
    pub(super) fn next_tid(&mut self) -> u32 {
        self.last_tid = self.last_tid.wrapping_add(1);
        self.last_tid
    }

    /// Encodes a datagram to the general services at `lid`; [`Self::try_send`] sends it.
    pub(super) fn prepare(&mut self, lid: Lid, mad: &Mad) -> Result<(), SampleError> {
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
        self.bytes.clear();
        wire::control::append(&self.message, &mut self.bytes)?;
        Ok(())
    }

    /// Sends what was prepared; `false` if the host takes nothing now.
    pub(super) fn try_send(&self) -> Result<bool, SampleError> {
        match self.connection.try_send(&self.bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends what was prepared.
    pub(super) async fn send(&self) -> Result<(), SampleError> {
        Ok(self.connection.send(&self.bytes).await?)
    }

    /// The next answer, with the LID that it comes from.
    pub(super) async fn receive(&self) -> Result<(Lid, Mad), SampleError> {
        loop {
            let message = self.connection.receive().await?;
            if let Some(answer) = answer(message)? {
                return Ok(answer);
            }
        }
    }

    /// The next answer if one waits.
    pub(super) fn try_receive(&self) -> Result<Option<(Lid, Mad)>, SampleError> {
        loop {
            match self.connection.try_receive() {
                Ok(message) => {
                    if let Some(answer) = answer(message)? {
                        return Ok(Some(answer));
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The port's own PortInfo.
    pub(super) async fn own_port(&mut self) -> Result<PortInfo, SampleError> {
        let tid = self.next_tid();
        let request = Mad::lid_smp(Method::GET, AttributeId::PORT_INFO, 0, tid.into());
        let request = wire::control::encode(&ToAgent::ReadOwn(Box::new(*request.as_bytes())))?;
        for _ in 0..ATTEMPTS {
            self.connection.send(&request).await?;
            let answer = tokio::time::timeout(ATTEMPT_TIMEOUT, self.answer(tid));
            if let Ok(answer) = answer.await {
                return Ok(answer?.1.smp_attribute()?);
            }
        }
        Err(SampleError::HostSilent)
    }

    /// All records of a kind, from the subnet administrator at `sm`.
    pub(super) async fn table<R: SaRecord>(
        &mut self,
        sm: Lid,
        sm_key: u64,
    ) -> Result<Vec<R>, SampleError> {
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
        Err(SampleError::AdministratorSilent { lid: sm })
    }

    /// One transfer of a table (RMPP); `None` if it has stopped.
    async fn transfer(
        &mut self,
        sm: Lid,
        query: &Mad,
        tid: u32,
    ) -> Result<Option<Vec<u8>>, SampleError> {
        let mut receiver = Receiver::new(clock::now(), nanoseconds(TRANSFER_TIMEOUT));
        self.prepare(sm, query)?;
        self.send().await?;
        let mut received = 0;
        loop {
            let answer = tokio::time::timeout(TRANSFER_TIMEOUT, self.answer(tid)).await;
            let Ok(answer) = answer else {
                return Ok(None);
            };
            let (_, answer) = answer?;
            let status = answer.status();
            if status.0 != 0 {
                return Err(SampleError::Refused { status: status.0 });
            }
            received += Mad::LEN;
            if received > TABLE_BYTES_MAX {
                return Err(SampleError::TooLong);
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
    async fn answer(&self, tid: u32) -> Result<(Lid, Mad), SampleError> {
        loop {
            let (lid, mad) = self.receive().await?;
            if lower(mad.tid()) == tid {
                return Ok((lid, mad));
            }
        }
    }
}

/// The half of a transaction id that is the client's own.
pub(super) fn lower(tid: u64) -> u32 {
    let [_, _, _, _, a, b, c, d] = tid.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// The answer that a message of the host carries; `None` if it carries none.
fn answer(message: Option<Vec<u8>>) -> Result<Option<(Lid, Mad)>, SampleError> {
    let message = message.ok_or(SampleError::HostLeft)?;
    let FromAgent::Received(received) = wire::control::decode(&message)? else {
        return Ok(None);
    };
    let mad = Mad::from_bytes(*received.mad);
    Ok(mad.method().is_response().then_some((received.lid, mad)))
}
