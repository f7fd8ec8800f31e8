//! The fabric's subnet manager: requests from host 0.

use link::LinkCommand;
use wire::attr::{
    Attribute, LinearForwardingTable, MulticastForwardingTable, PortInfo, PortPhysState,
    PortState as WantedState, SwitchInfo, VlCount,
};
use wire::{DataPacket, Lid, Mad, Method, PortNum, UdPacket};

use super::{Bed, lid, port};

impl Bed {
    /// Sends an SMP from host 0 and returns the answer.
    pub(crate) fn ask(&mut self, mut mad: Mad, slid: Lid, dlid: Lid) -> Option<Mad> {
        self.tid += 1;
        mad.set_tid(self.tid);
        if dlid == Lid::PERMISSIVE {
            mad.set_hop_pointer(1);
        }
        let mut raw = [0; 290];
        UdPacket::smp(slid, dlid, &mad).emit(&mut raw).unwrap();
        self.hosts[0].received.clear();
        assert!(self.offer(0, &raw));
        self.run();
        let end = self.now + 1_000_000;
        loop {
            let answer = self.answer();
            let next = self.next_moment().filter(|&at| at <= end);
            match (answer, next) {
                (Some(answer), _) => return Some(answer),
                (None, Some(at)) => self.pass(at.since_ns(self.now)),
                (None, None) => return None,
            }
        }
    }

    /// The answer to the last request of host 0.
    fn answer(&self) -> Option<Mad> {
        let mut answers = self.hosts[0].received.iter().filter_map(|(_, bytes)| {
            let packet = DataPacket::parse(bytes).unwrap();
            packet.check_icrc().unwrap();
            UdPacket::parse(&packet).unwrap().mad().ok()
        });
        answers.find(|answer| answer.tid() == self.tid)
    }

    /// A directed-route request along `path` (exit ports, the host's own first).
    pub(crate) fn directed(&mut self, method: Method, path: &[u8], modifier: u32) -> Directed<'_> {
        Directed {
            path: path.iter().map(|&number| port(number)).collect(),
            bed: self,
            method,
            modifier,
        }
    }

    pub(crate) fn get<A: Attribute>(&mut self, path: &[u8], modifier: u32) -> A {
        let answer = self.directed(Method::GET, path, modifier).ask::<A>(None);
        answer.expect("an answer").smp_attribute().unwrap()
    }

    pub(crate) fn set<A: Attribute>(&mut self, path: &[u8], modifier: u32, attribute: &A) -> Mad {
        let request = self.directed(Method::SET, path, modifier);
        let answer = request.ask(Some(attribute)).expect("an answer");
        assert_eq!(answer.status().0 & 0x7fff, 0, "{} refused", A::NAME);
        answer
    }

    /// PortInfo as a `Set` may give it back: no change of state.
    pub(crate) fn port_info(&mut self, path: &[u8], number: u8) -> PortInfo {
        PortInfo {
            port_state: WantedState::NoChange,
            port_phys_state: PortPhysState::NoChange,
            ..self.get(path, number.into())
        }
    }

    /// Gives a switch its LID and names host 0 (LID 1) as subnet manager.
    pub(crate) fn set_lid(&mut self, path: &[u8], number: u16) {
        let mut info = self.port_info(path, 0);
        info.lid = lid(number);
        info.master_sm_lid = lid(1);
        self.set(path, 0, &info);
    }

    /// Writes (LID, port) into a switch's linear table.
    pub(crate) fn set_routes(&mut self, path: &[u8], routes: &[(u16, u8)]) {
        let top = routes.iter().map(|&(dlid, _)| dlid).max().unwrap();
        for block in 0..=top / 64 {
            let mut table = self.get::<LinearForwardingTable>(path, block.into());
            for &(dlid, number) in routes.iter().filter(|&&(dlid, _)| dlid / 64 == block) {
                table.0[usize::from(dlid % 64)] = port(number);
            }
            self.set(path, block.into(), &table);
        }
        let mut info: SwitchInfo = self.get(path, 0);
        info.linear_fdb_top = top;
        info.port_state_change = false;
        self.set(path, 0, &info);
    }

    /// Writes the ports of one multicast LID.
    pub(crate) fn set_group(&mut self, path: &[u8], mlid: u16, ports: &[u8]) {
        let block = (mlid - 0xc000) / 32;
        let modifier = MulticastForwardingTable::modifier(0, block);
        let mut table = self.get::<MulticastForwardingTable>(path, modifier);
        table.0[usize::from(mlid % 32)] = ports.iter().fold(0, |mask, port| mask | (1 << port));
        self.set(path, modifier, &table);
    }

    /// Arms and activates a switch's port.
    pub(crate) fn activate(&mut self, path: &[u8], number: u8) {
        for state in [WantedState::Armed, WantedState::Active] {
            let mut info = self.port_info(path, number);
            info.port_state = state;
            info.neighbor_mtu = Some(self.plan.port.mtu);
            info.operational_vls = VlCount::at_most(self.plan.port.vls);
            self.set(path, number.into(), &info);
        }
    }

    /// Activates the hosts' own ports.
    pub(crate) fn activate_hosts(&mut self) {
        for host in &mut self.hosts {
            for state in [LinkCommand::Arm, LinkCommand::Activate] {
                host.port.execute(self.now, state, &mut host.pool).unwrap();
            }
            while host.port.poll_event().is_some() {}
        }
        self.run();
    }
}

/// A directed-route request about to be sent.
pub(crate) struct Directed<'b> {
    bed: &'b mut Bed,
    path: Vec<PortNum>,
    method: Method,
    modifier: u32,
}

impl Directed<'_> {
    pub(crate) fn ask<A: Attribute>(self, attribute: Option<&A>) -> Option<Mad> {
        let mad = Mad::directed_smp(self.method, A::ID, self.modifier, 0, &self.path);
        let mut mad = mad.unwrap();
        if let Some(attribute) = attribute {
            mad.set_smp_attribute(attribute);
        }
        self.bed.ask(mad, Lid::PERMISSIVE, Lid::PERMISSIVE)
    }
}
