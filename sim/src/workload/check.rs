//! Whether a workload makes sense on a fabric.

use wire::{Sl, Vl};

use super::{
    AddressVector, Destination, FLOWS_MAX, Group, MESSAGE_BYTES_MAX, SendRequest, TrafficSource,
    Workload, WorkloadError,
};
use crate::model::{Model, PACKET_BYTES_MIN};
use crate::numbers::index;

impl Workload {
    /// Checks that the workload makes sense among so many hosts.
    ///
    /// # Errors
    /// [`WorkloadError`]: what does not fit.
    pub fn check(&self, hosts: usize, model: &Model) -> Result<(), WorkloadError> {
        if self.hosts.len() != hosts {
            let given = self.hosts.len();
            return Err(WorkloadError::Hosts { given, hosts });
        }
        if u32::try_from(self.flows.len()).map_or(true, |flows| flows > FLOWS_MAX) {
            return Err(WorkloadError::Flows(self.flows.len()));
        }
        if self.backlog == 0 {
            return Err(WorkloadError::Backlog);
        }
        for (at, flow) in self.flows.iter().enumerate() {
            if !flow.delays_ns.is_sorted() || !flow.jitter_ns.is_sorted() {
                return Err(WorkloadError::Thresholds(at));
            }
        }
        self.check_groups(hosts)?;
        for (host, sources) in self.hosts.iter().enumerate() {
            for (number, source) in sources.iter().enumerate() {
                self.check_source(source, host, model)
                    .map_err(|what| WorkloadError::TrafficSource { host, number, what })?;
            }
        }
        Ok(())
    }

    fn check_groups(&self, hosts: usize) -> Result<(), WorkloadError> {
        let mut seen = vec![usize::MAX; hosts];
        for (group, Group { members }) in self.groups.iter().enumerate() {
            for &member in members {
                let place = seen.get_mut(index(member));
                match place {
                    None => {
                        return Err(WorkloadError::Member {
                            group,
                            member,
                            last: hosts.saturating_sub(1),
                        });
                    }
                    Some(last) if *last == group => {
                        return Err(WorkloadError::Twice { group, member });
                    }
                    Some(last) => *last = group,
                }
            }
        }
        Ok(())
    }

    fn check_source(
        &self,
        source: &TrafficSource,
        own: usize,
        model: &Model,
    ) -> Result<(), String> {
        match source {
            TrafficSource::Packets(requests) => {
                self.check_requests(requests, own, model, |request| packet(request.bytes, model))
            }
            TrafficSource::Messages(requests) => self.check_requests(requests, own, model, message),
            TrafficSource::ConstantRate(constant) => {
                packet(u32::from(constant.bytes), model)?;
                if constant.interval_ps == 0 {
                    return Err("an interval of 0 ps: at least 1".to_owned());
                }
                self.check_address(&constant.address, own, model)
            }
            TrafficSource::Backlogged { address, bytes, .. } => {
                packet(u32::from(*bytes), model)?;
                self.check_address(address, own, model)
            }
            TrafficSource::Patterned {
                pattern,
                bytes_per_ns,
                flow,
                ..
            } => {
                pattern
                    .check(self.hosts.len())
                    .map_err(|error| error.to_string())?;
                crate::pattern::check_rate(*bytes_per_ns).map_err(|error| error.to_string())?;
                (0..model.vls).try_for_each(|sl| self.check_level(Sl::constant(sl), model))?;
                self.check_flow(*flow)
            }
        }
    }

    fn check_requests(
        &self,
        requests: &[SendRequest],
        own: usize,
        model: &Model,
        size: impl Fn(&SendRequest) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut last = 0;
        for (at, request) in requests.iter().enumerate() {
            let named = |what: String| format!("request {at}: {what}");
            if request.at_ps < last {
                return Err(named(format!(
                    "at {} ps, after one at {last} ps: requests are listed in the order of time",
                    request.at_ps
                )));
            }
            last = request.at_ps;
            size(request).map_err(named)?;
            self.check_address(&request.address, own, model)
                .map_err(named)?;
        }
        Ok(())
    }

    fn check_flow(&self, flow: u32) -> Result<(), String> {
        let count = self.flows.len();
        if index(flow) < count {
            return Ok(());
        }
        Err(format!("flow {flow}: there are {count}"))
    }

    fn check_address(
        &self,
        address: &AddressVector,
        own: usize,
        model: &Model,
    ) -> Result<(), String> {
        self.check_flow(address.flow)?;
        let below = |number: u32, count: usize| index(number) < count;
        match address.to {
            Destination::Host(host) if !below(host, self.hosts.len()) => {
                let last = self.hosts.len().saturating_sub(1);
                return Err(format!("to host {host}: there are hosts 0 to {last}"));
            }
            Destination::Host(host) if index(host) == own => {
                return Err(format!("to host {host}, which is the sender"));
            }
            Destination::Group(group) | Destination::Each(group)
                if !below(group, self.groups.len()) =>
            {
                return Err(format!(
                    "to group {group}: there are {} groups, from 0 on",
                    self.groups.len()
                ));
            }
            Destination::Group(_) | Destination::Each(_) if address.dlid.is_some() => {
                return Err("a DLID is chosen for one host only".to_owned());
            }
            _ => {}
        }
        self.check_level(address.sl.unwrap_or_default(), model)
    }

    fn check_level(&self, sl: Sl, model: &Model) -> Result<(), String> {
        let of_table = |vls: [Vl; 16]| vls[sl.index()].get();
        let vl = self.vl_tables.sl2vl.map_or(sl.get() % model.vls, of_table);
        if vl >= model.vls {
            return Err(format!(
                "service level {} goes to VL {vl}: there are VLs 0 to {}",
                sl.get(),
                model.vls - 1
            ));
        }
        Ok(())
    }
}

fn packet(bytes: u32, model: &Model) -> Result<(), String> {
    let allowed = u32::from(PACKET_BYTES_MIN)..=u32::from(model.packet_bytes);
    if allowed.contains(&bytes) && bytes.is_multiple_of(4) {
        return Ok(());
    }
    Err(format!(
        "a packet of {bytes} bytes: {PACKET_BYTES_MIN} to {} (the model's), in words of 4",
        model.packet_bytes
    ))
}

fn message(request: &SendRequest) -> Result<(), String> {
    if (1..=MESSAGE_BYTES_MAX).contains(&request.bytes) {
        return Ok(());
    }
    Err(format!(
        "a message of {} bytes: 1 to {MESSAGE_BYTES_MAX}",
        request.bytes
    ))
}
