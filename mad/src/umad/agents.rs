//! Agents: which registrations are valid, and which agent a MAD is for.

use wire::Format;
use wire::convert::saturate;
use wire::mad::{Mad, Method, MgmtClass};
use wire::umad::UserMadHeader;

use super::{AGENTS_MAX, AgentRequest, Output, Refusal, Reply, Server};
use crate::local::{Registration, ToAgent};
use crate::rmpp;

/// The classes end here, but for directed routes.
const CLASS_END: u8 = 0x50;
/// Versions of a class end here.
const VERSION_END: u8 = 0x83;

/// An agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agent {
    request: AgentRequest,
    /// Whether the host has confirmed its registration.
    is_ready: bool,
}

/// Which side handles RMPP in the datagrams of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RmppBy {
    /// Neither: the agent has asked for none, or the class has none.
    None,
    /// The program.
    Program,
    /// This server.
    Server,
}

impl Agent {
    /// Which of the host's datagrams it is given; `None` of an agent that only sends requests.
    fn registration(&self) -> Option<Registration> {
        let AgentRequest {
            class,
            version,
            oui,
            methods,
            ..
        } = self.request;
        (class != 0 && methods != 0).then_some(Registration {
            class,
            version,
            oui,
            methods,
        })
    }

    /// Whether an unsolicited datagram is for it.
    pub(super) fn is_for(&self, mad: &Mad) -> bool {
        let registration = self.registration().filter(|_| self.is_ready);
        registration.is_some_and(|registration| registration.is_for(mad))
    }

    /// Whether it sends from queue pair 0.
    pub(super) fn is_smi(&self) -> bool {
        self.request.qpn == 0
    }

    /// Which side handles RMPP in its datagrams of a class.
    pub(super) fn rmpp_by(&self, class: MgmtClass) -> RmppBy {
        match (self.request.user_rmpp, self.request.rmpp_version) {
            _ if rmpp::data_offset(class).is_none() => RmppBy::None,
            (true, _) => RmppBy::Program,
            (false, 0) => RmppBy::None,
            (false, _) => RmppBy::Server,
        }
    }
}

impl AgentRequest {
    /// What the kernel's `ib_register_mad_agent` asks of a registration.
    fn is_valid(&self) -> bool {
        let class = MgmtClass(self.class);
        let exists = (1..CLASS_END).contains(&self.class) || class == MgmtClass::SUBN_DIR;
        let has_rmpp = rmpp::data_offset(class).is_some();
        let uses_rmpp = self.rmpp_version != 0;
        match (self.qpn, self.rmpp_version) {
            (0 | 1, 0 | 1) if self.class == 0 => !self.user_rmpp,
            (0 | 1, 0 | 1) => {
                exists
                    && self.version < VERSION_END
                    && class.is_subnet_management() == (self.qpn == 0)
                    && (!class.has_oui() || self.oui != [0; 3])
                    && (has_rmpp || !uses_rmpp && !self.user_rmpp)
            }
            _ => false,
        }
    }
}

impl Server {
    /// Registers an agent of a descriptor; [`Output::Reply`] with the number `request` answers.
    pub fn register(&mut self, request: u64, descriptor: u32, wanted: AgentRequest) {
        if let Err(refusal) = self.begin_registration(request, descriptor, wanted) {
            let reply = Reply::Refused(refusal);
            self.outputs.push_back(Output::Reply { request, reply });
        }
    }

    fn begin_registration(
        &mut self,
        request: u64,
        descriptor: u32,
        wanted: AgentRequest,
    ) -> Result<(), Refusal> {
        let open = self.descriptors.get_mut(&descriptor);
        let open = open.ok_or(Refusal::Absent)?;
        if !wanted.is_valid() {
            return Err(Refusal::Invalid);
        }
        if open.agents.len() >= AGENTS_MAX {
            return Err(Refusal::Full);
        }
        // The lowest number that is free, as the kernel gives it.
        let free = (0..).find(|number| !open.agents.contains_key(number));
        let number = free.ok_or(Refusal::Full)?;
        let mut agent = Agent {
            request: wanted,
            is_ready: false,
        };
        match agent.registration() {
            Some(registration) => {
                open.registering.push_back((request, number));
                self.outputs.push_back(Output::Agent {
                    client: descriptor,
                    message: ToAgent::RegisterMethods(registration),
                });
            }
            None => {
                agent.is_ready = true;
                let reply = Reply::Registered { agent: number };
                self.outputs.push_back(Output::Reply { request, reply });
            }
        }
        open.agents.insert(number, agent);
        Ok(())
    }

    /// The host has answered the oldest registration of a descriptor.
    pub(super) fn registered(&mut self, descriptor: u32, registered: bool) {
        let Some(open) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        let Some((request, number)) = open.registering.pop_front() else {
            return;
        };
        let reply = match open.agents.get_mut(&number) {
            Some(agent) if registered => {
                agent.is_ready = true;
                Reply::Registered { agent: number }
            }
            _ => {
                open.agents.remove(&number);
                Reply::Refused(Refusal::Invalid)
            }
        };
        self.outputs.push_back(Output::Reply { request, reply });
    }

    /// Ends an agent: what it has asked is not answered any more.
    ///
    /// # Errors
    /// [`Refusal::Absent`] if there is no such agent.
    pub fn unregister(&mut self, descriptor: u32, number: u32) -> Result<(), Refusal> {
        let open = self.descriptors.get_mut(&descriptor);
        let open = open.ok_or(Refusal::Absent)?;
        let is_ready = |agent: &Agent| agent.is_ready;
        let agent = open.agents.get(&number).copied().filter(is_ready);
        let agent = agent.ok_or(Refusal::Absent)?;
        open.agents.remove(&number);
        open.in_flight
            .finish_where(|request| request.header.agent == number);
        open.waiting
            .retain(|request| request.header.agent != number);
        open.outgoing.retain(|_, transfer| {
            let stays = transfer.agent() != number;
            if !stays {
                open.outgoing_bytes -= transfer.bytes();
            }
            stays
        });
        open.incoming
            .retain(|_, transfer| transfer.agent() != number);
        if let Some(registration) = agent.registration() {
            self.outputs.push_back(Output::Agent {
                client: descriptor,
                message: ToAgent::UnregisterMethods(registration),
            });
        }
        Ok(())
    }
}

/// Whether the kernel takes a method for that of a response.
pub(super) fn is_response(method: Method) -> bool {
    method.is_response() || method == Method::TRAP_REPRESS
}

/// The transaction id on its way: the agent's number in the upper half.
pub(super) fn tid_of(agent: u32, tid: u64) -> u64 {
    u64::from(agent.wrapping_add(1)) << 32 | tid & 0xffff_ffff
}

/// The agent of a transaction id of [`tid_of`].
pub(super) fn agent_of(tid: u64) -> Option<u32> {
    let upper: u32 = saturate(tid >> 32);
    upper.checked_sub(1)
}

/// Header and MAD as a program reads them; the header's length is theirs.
pub(super) fn user_mad(header: &UserMadHeader, mad: &[u8]) -> Box<[u8]> {
    let length = UserMadHeader::LEN + mad.len();
    let mut bytes = Vec::with_capacity(length);
    let header = UserMadHeader {
        length: saturate(length),
        ..*header
    };
    bytes.extend_from_slice(&header.to_bytes::<{ UserMadHeader::LEN }>());
    bytes.extend_from_slice(mad);
    bytes.into_boxed_slice()
}
