//! Management datagrams through a host of the fabric: requests to live devices and to the subnet
//! administrator, with timeouts and retries.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use mad::local::{FromAgent, MadMessage, ToAgent};
use mad::rmpp::{Progress, Receiver};
use netio::seqpacket::Connection;
use wire::attr::Attribute;
use wire::convert::nanoseconds;
use wire::sa::{PathRecord, SaHeader, SaRecord, path_component};
use wire::vendor::VendorAttribute;
use wire::{AttributeId, Format, Gid, Guid, Lid, MKey, Mad, Method, PortNum, Qpn, SaKey, Sl};

use crate::dir::FabricDir;
use crate::state::NodeState;

/// How long one attempt waits for its answer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(500);
/// Attempts of a request.
const ATTEMPTS: u32 = 4;

/// A MAD with its addressing, on service level 0.
fn addressed(lid: Lid, qpn: Qpn, mad: &Mad) -> ToAgent {
    ToAgent::Send(MadMessage {
        lid,
        qpn,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    })
}

/// A connection to a host's MAD socket.
#[derive(Debug)]
pub struct MadClient {
    connection: Connection,
    host: String,
    /// The subnet's M_Key; 0 if it has none.
    m_key: u64,
    sa_key: SaKey,
    last_tid: u32,
}

impl MadClient {
    /// Connects to the MAD socket of `host`.
    ///
    /// # Errors
    /// If the host does not run, or the subnet's M_Key cannot be read.
    pub async fn connect(dir: &FabricDir, host: &NodeState) -> Result<Self> {
        let socket = dir.mad(&host.handle);
        let connection = Connection::connect(&socket).await.with_context(|| {
            format!("{} cannot be asked; does it run? (ibemu status)", host.name)
        })?;
        let attach = wire::control::encode(&ToAgent::Attach { port: host.port() })?;
        connection
            .try_send(&attach)
            .with_context(|| format!("{} does not take requests", host.name))?;
        Ok(Self {
            connection,
            host: host.name.clone(),
            m_key: dir.m_key()?.map_or(0, MKey::get),
            sa_key: dir.sa_key()?,
            last_tid: 0,
        })
    }

    /// An attribute of the device at the end of `route` (exit ports from the host's own on).
    ///
    /// # Errors
    /// If the device does not answer, or refuses.
    pub async fn smp<A: Attribute>(&mut self, modifier: u32, route: &[PortNum]) -> Result<A> {
        let tid = self.next_tid();
        let mut mad = Mad::directed_smp(Method::GET, A::ID, modifier, tid, route)?;
        mad.set_m_key(self.m_key);
        let answer = self.exchange(Lid::PERMISSIVE, Qpn::SMI, &mad).await?;
        let status = answer.status().without_direction();
        if status.0 != 0 {
            bail!(
                "the device refuses attribute {:#06x} (status {:#06x})",
                A::ID.0,
                status.0
            );
        }
        Ok(answer.smp_attribute()?)
    }

    /// The path record between two ports, from the subnet administrator at `sm`; `None` if it
    /// has none.
    ///
    /// # Errors
    /// If the administrator does not answer.
    pub async fn path(
        &mut self,
        sm: Lid,
        source: Guid,
        destination: Guid,
    ) -> Result<Option<PathRecord>> {
        let tid = self.next_tid();
        let mut mad = Mad::sa(Method::GET, AttributeId::PATH_RECORD, 0, tid);
        mad.set_sa_record(&PathRecord {
            dgid: Gid::new(Gid::DEFAULT_PREFIX, destination),
            sgid: Gid::new(Gid::DEFAULT_PREFIX, source),
            numb_path: 1,
            ..PathRecord::default()
        });
        mad.set_sa_header(&SaHeader {
            component_mask: path_component::DGID | path_component::SGID | path_component::NUMB_PATH,
            ..mad.sa_header()?
        });
        let answer = self.exchange(sm, Qpn::GSI, &mad).await?;
        if answer.status().0 != 0 {
            return Ok(None);
        }
        let (record, _) = PathRecord::parse(answer.sa_data())?;
        Ok(Some(record))
    }

    /// All records of a kind, from the subnet administrator at `sm`; of memberships every member's.
    ///
    /// # Errors
    /// If the administrator does not answer, or refuses.
    pub async fn table<R: SaRecord>(&mut self, sm: Lid) -> Result<Vec<R>> {
        let mut query = Mad::sa(Method::GET_TABLE, R::ID, 0, 0);
        query.set_sa_header(&SaHeader {
            sm_key: self.sa_key.get(),
            ..SaHeader::default()
        });
        self.records(sm, query).await
    }

    /// The paths from a port to every other one, from the subnet administrator at `sm`.
    ///
    /// # Errors
    /// If the administrator does not answer, or refuses.
    pub async fn paths_from(&mut self, sm: Lid, source: Guid) -> Result<Vec<PathRecord>> {
        let mut query = Mad::sa(Method::GET_TABLE, AttributeId::PATH_RECORD, 0, 0);
        query.set_sa_record(&PathRecord {
            sgid: Gid::new(Gid::DEFAULT_PREFIX, source),
            numb_path: 1,
            ..PathRecord::default()
        });
        query.set_sa_header(&SaHeader {
            component_mask: path_component::SGID | path_component::NUMB_PATH,
            ..query.sa_header()?
        });
        self.records(sm, query).await
    }

    /// The records that a query finds.
    async fn records<R: SaRecord>(&mut self, sm: Lid, query: Mad) -> Result<Vec<R>> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let transfer = self.transfer(sm, query);
            match tokio::time::timeout(ATTEMPT_TIMEOUT * ATTEMPTS, transfer).await {
                Ok(Ok(bytes)) => {
                    let stride = usize::from(R::ATTRIBUTE_OFFSET) * 8;
                    let records = bytes.chunks(stride.max(1));
                    let parsed = records.map(|raw| Ok(R::parse(raw)?.0));
                    return parsed.collect();
                }
                Ok(Err(error)) => return Err(error),
                Err(late) => last = Some(late),
            }
        }
        match last {
            Some(late) => Err(late).context("the subnet administrator does not answer"),
            None => bail!("the subnet administrator was not asked"),
        }
    }

    /// One transfer of a table (RMPP).
    async fn transfer(&mut self, sm: Lid, mut mad: Mad) -> Result<Vec<u8>> {
        let tid = self.next_tid();
        mad.set_tid(tid);
        let begun = std::time::Instant::now();
        let now = || link::Time(nanoseconds(begun.elapsed()));
        let timeout_ns = u64::try_from(ATTEMPT_TIMEOUT.as_nanos())? * u64::from(ATTEMPTS);
        let mut receiver = Receiver::new(now(), timeout_ns);
        let left = || format!("{} has closed its MAD socket", self.host);
        let mut next = Some(mad);
        loop {
            if let Some(mad) = next.take() {
                let message = wire::control::encode(&addressed(sm, Qpn::GSI, &mad))?;
                self.connection.send(&message).await.with_context(left)?;
            }
            let answer = self.answer(tid).await.with_context(left)?;
            if answer.status().0 != 0 {
                bail!(
                    "the subnet administrator refuses (status {:#06x})",
                    answer.status().0
                );
            }
            let (progress, back) = receiver.receive(now(), &answer);
            if let Some(back) = &back {
                let message = wire::control::encode(&addressed(sm, Qpn::GSI, back))?;
                self.connection.send(&message).await.with_context(left)?;
            }
            match progress {
                Progress::Running => {}
                Progress::Done => return Ok(receiver.into_payload()),
                Progress::Failed(status) => bail!("the transfer was ended (RMPP status {status})"),
            }
        }
    }

    /// A request of the project's own class to the controller at `sm`, and its answer, whatever
    /// its status.
    ///
    /// # Errors
    /// If the controller does not answer.
    pub async fn vendor<A: VendorAttribute>(
        &mut self,
        sm: Lid,
        method: Method,
        modifier: u32,
        value: &A,
    ) -> Result<Mad> {
        let tid = self.next_tid();
        let mad = Mad::vendor(method, modifier, tid, value);
        let answer = self.exchange(sm, Qpn::GSI, &mad).await;
        answer.context("the controller cannot be asked (ibemu status)")
    }

    fn next_tid(&mut self) -> u64 {
        self.last_tid = self.last_tid.wrapping_add(1);
        u64::from(self.last_tid)
    }

    /// Sends a request until its answer comes.
    async fn exchange(&mut self, lid: Lid, qpn: Qpn, mad: &Mad) -> Result<Mad> {
        let message = wire::control::encode(&addressed(lid, qpn, mad))?;
        let left = || format!("{} has closed its MAD socket", self.host);
        for _ in 0..ATTEMPTS {
            self.connection.send(&message).await.with_context(left)?;
            match tokio::time::timeout(ATTEMPT_TIMEOUT, self.answer(mad.tid())).await {
                Ok(answer) => return answer.with_context(left),
                Err(_) => continue,
            }
        }
        bail!("no answer within {:?}", ATTEMPT_TIMEOUT * ATTEMPTS)
    }

    /// The next answer with this transaction id; others are late ones.
    async fn answer(&self, tid: u64) -> Result<Mad> {
        loop {
            let message = self.connection.receive().await?;
            let message = message.context("the connection has ended")?;
            if let FromAgent::Received(received) = wire::control::decode(&message)? {
                let mad = Mad::from_bytes(*received.mad);
                if mad.method().is_response() && mad.tid() & 0xffff_ffff == tid {
                    return Ok(mad);
                }
            }
        }
    }
}
