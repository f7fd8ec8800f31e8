//! The switch as its subnet management agent sees it.

use link::{LinkCommand, Port, SlToVl, Time, VLARB_ENTRIES_MAX, life_time_ns};
use mad::sma::{Forwarding, Identity, LinkStatus, Node, PortCapabilities, PortSettings, Priority};
use tracing::debug;
use wire::attr::VlArbEntry;
use wire::convert::saturate;
use wire::{Lid, LinkRates, PortNum, Vl};

use crate::plane::Plane;
use crate::tables::{LINEAR_CAPACITY, MULTICAST_CAPACITY};

impl Node for Plane {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self, port: PortNum) -> PortCapabilities {
        let own = self.port(port).map(|port| port.config().rate);
        let rates = LinkRates::up_to(self.supported);
        PortCapabilities {
            rates: own.map_or(rates, |own| rates.union(LinkRates::up_to(own))),
            mtu: self.port_config.mtu,
            vls: self.port_config.vls,
            arbitration_high: saturate(VLARB_ENTRIES_MAX),
            arbitration_low: saturate(VLARB_ENTRIES_MAX),
        }
    }

    fn link(&self, port: PortNum) -> LinkStatus {
        LinkStatus {
            state: self.port(port).map_or_else(Default::default, Port::state),
            physical: self
                .port(port)
                .map_or_else(Default::default, Port::physical),
            rate: self.port(port).map_or(self.supported, Port::rate),
        }
    }

    fn configure(&mut self, _now: Time, number: PortNum, settings: &PortSettings) {
        debug!(port = number.get(), ?settings, "port configured");
        if number == PortNum::MANAGEMENT {
            (self.lid, self.lmc) = (settings.lid, settings.lmc);
        }
        let (inbound, outbound) = (settings.partitions_in, settings.partitions_out);
        self.partitions.enforce(number, inbound, outbound);
        if let Some(port) = self.port_mut(number) {
            port.set_neighbor_mtu(settings.mtu);
            port.set_operational_vls(settings.operational_vls);
            port.set_enabled_rates(settings.rates);
            port.set_head_of_queue_life_ns(life_time_ns(settings.hoq_life));
            port.arbiter_mut().set_limit(settings.vl_high_limit);
        }
    }

    fn command_link(&mut self, now: Time, port: PortNum, command: LinkCommand) {
        if command.is_for_down() {
            self.link_command = Some((port, command));
            return;
        }
        let Some(port) = self.ports.by_number_mut(port) else {
            return;
        };
        if let Err(refused) = port.execute(now, command, &mut self.pool) {
            // The agent has checked the transition; only a race with the link gets here.
            debug!(port = port.number().get(), %refused, "port state not set");
        }
    }

    fn sl_to_vl(&self, input: PortNum, output: PortNum) -> [Vl; 16] {
        self.port(output)
            .and_then(|port| port.sl_to_vl().row(input))
            .copied()
            .unwrap_or_else(|| SlToVl::default_row(self.port_config.vls))
    }

    fn set_sl_to_vl(&mut self, input: PortNum, output: PortNum, vls: &[Vl; 16]) {
        if let Some(port) = self.port_mut(output) {
            port.sl_to_vl_mut().set_row(input, *vls);
        }
    }

    fn set_sl_to_vl_of_all_inputs(&mut self, output: PortNum, vls: &[Vl; 16]) {
        if let Some(port) = self.port_mut(output) {
            port.sl_to_vl_mut().set_all(*vls);
        }
    }

    fn arbitration(&self, port: PortNum, priority: Priority) -> [VlArbEntry; 64] {
        self.port(port).map_or([VlArbEntry::default(); 64], |port| {
            priority.entries(port.arbiter())
        })
    }

    fn set_arbitration(&mut self, port: PortNum, priority: Priority, entries: &[VlArbEntry; 64]) {
        if let Some(port) = self.port_mut(port) {
            priority.set_entries(port.arbiter_mut(), entries);
        }
    }

    fn set_pkeys(&mut self, port: PortNum, keys: &[u16; 32]) {
        debug!(port = port.get(), "P_Key table set");
        self.partitions.set_keys(port, keys);
    }

    fn forwarding(&mut self) -> Option<&mut dyn Forwarding> {
        Some(self)
    }
}

impl Forwarding for Plane {
    fn linear_capacity(&self) -> u16 {
        LINEAR_CAPACITY
    }

    fn linear_block(&self, block: u16) -> [PortNum; 64] {
        self.linear.block(block)
    }

    fn set_linear_block(&mut self, block: u16, ports: &[PortNum; 64]) {
        debug!(block, "linear forwarding table block set");
        self.linear.set_block(block, ports);
    }

    fn set_linear_top(&mut self, top: Lid) {
        self.linear.set_top(top);
    }

    fn multicast_capacity(&self) -> u16 {
        MULTICAST_CAPACITY
    }

    fn multicast_block(&self, block: u16, position: u8) -> [u16; 32] {
        self.multicast.block(block, position)
    }

    fn set_multicast_block(&mut self, block: u16, position: u8, masks: &[u16; 32]) {
        debug!(block, position, "multicast forwarding table block set");
        self.multicast.set_block(block, position, masks);
    }

    fn set_multicast_top(&mut self, top: Option<Lid>) {
        self.multicast.set_top(top);
    }

    fn set_multicast_default(&mut self, primary: PortNum, not_primary: PortNum) {
        self.multicast.set_default(primary, not_primary);
    }

    fn set_life_time(&mut self, value: u8) {
        for port in self.ports.iter_mut() {
            port.set_device_life_ns(life_time_ns(value));
        }
    }
}
