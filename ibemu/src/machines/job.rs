//! The job of a fabric on several machines, as it stands in `fabric.json`.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use crate::names::SUPERVISOR;
use crate::state::{End, FabricState, Kind};

/// The supervisor's socket in a fabric's directory.
const SUPERVISOR_SOCKET: &str = "supervisor.sock";

/// A job of Slurm, and what of the fabric runs on which of its machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Slurm's number of it.
    pub id: String,
    /// Its machines, in the order of ranks.
    pub machines: Vec<Machine>,
    /// The machine of each device, by position.
    pub placement: Vec<usize>,
    /// The machine that this directory is on; `None` where `up` was called.
    pub here: Option<usize>,
    /// Whether `up` has asked for the allocation, so that it goes with the fabric.
    pub is_own: bool,
    /// Whether the rest goes on when a machine is lost.
    pub no_kill: bool,
}

/// One machine of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// What Slurm calls it.
    pub name: String,
    /// Its processors in this job.
    pub cpus: u32,
    /// Its address for cables between machines, once its agent has come.
    pub address: Option<IpAddr>,
}

impl Job {
    /// Checks that every position names an entry of its list.
    pub(crate) fn check(&self, devices: usize) -> Result<()> {
        let machines = self.machines.len();
        let is_known = |&machine: &usize| machine < machines;
        if self.placement.len() != devices
            || !self.placement.iter().all(is_known)
            || !self.here.iter().all(is_known)
        {
            bail!("its placement is not that of {devices} devices on {machines} machines");
        }
        Ok(())
    }

    /// The names of the machines.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.machines.iter().map(|machine| machine.name.as_str())
    }

    /// The name of the machine that a device is on.
    #[must_use]
    pub fn machine_name(&self, device: usize) -> &str {
        &self.machines[self.placement[device]].name
    }
}

impl FabricState {
    /// Whether the device at this position runs on this machine; all do without a job.
    #[must_use]
    pub fn is_here(&self, device: usize) -> bool {
        let job = self.job.as_ref();
        job.is_none_or(|job| job.here == Some(job.placement[device]))
    }

    /// Whether the supervisor and the controllers run on another machine than this one.
    #[must_use]
    pub fn managers_are_elsewhere(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.here != Some(0))
    }

    /// Whether a cable joins two machines.
    #[must_use]
    pub fn is_cut(&self, ends: [End; 2]) -> bool {
        let job = self.job.as_ref();
        job.is_some_and(|job| job.placement[ends[0].node] != job.placement[ends[1].node])
    }

    /// The address that this machine's end of a cable is bound to, where that has an address.
    #[must_use]
    pub fn address(&self, ends: [End; 2]) -> IpAddr {
        let job = self.job.as_ref().filter(|_| self.is_cut(ends));
        let machine = job.and_then(|job| job.machines.get(job.here?));
        let address = machine.and_then(|machine| machine.address);
        address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// The namespaces of the devices on this machine.
    #[must_use]
    pub fn namespaces_here(&self) -> Vec<String> {
        let devices = self.namespaces.iter().enumerate();
        let here = devices.filter(|(device, _)| self.is_here(*device));
        here.map(|(_, name)| name.clone()).collect()
    }

    /// The sockets of the devices on `machine` that are carried between machines.
    pub(super) fn sockets_of(&self, machine: usize) -> BTreeSet<String> {
        let placement = self.job.iter().flat_map(|job| &job.placement);
        let devices = self.devices().iter().zip(placement);
        let there = devices.filter(|(_, of)| **of == machine);
        there
            .flat_map(|(device, _)| {
                let kinds: &[&str] = match device.kind {
                    Kind::Switch => &["ctl", "tap"],
                    Kind::Host => &["ctl", "tap", "mad"],
                };
                kinds.iter().map(|kind| format!("{}.{kind}", device.handle))
            })
            .collect()
    }

    /// The sockets of the supervisor and the controllers.
    pub(super) fn sockets_of_managers(&self) -> BTreeSet<String> {
        let controllers = self
            .controllers()
            .map(|(_, handle)| format!("{handle}.ctl"));
        debug_assert!(SUPERVISOR_SOCKET.starts_with(SUPERVISOR));
        controllers.chain([SUPERVISOR_SOCKET.to_owned()]).collect()
    }

    /// All sockets that are carried, but those of the devices on `machine`.
    pub(super) fn sockets_beside(&self, machine: Option<usize>) -> BTreeSet<String> {
        let count = self.job.as_ref().map_or(0, |job| job.machines.len());
        let others = (0..count).filter(|&other| Some(other) != machine);
        let devices = others.flat_map(|other| self.sockets_of(other));
        devices.chain(self.sockets_of_managers()).collect()
    }
}
