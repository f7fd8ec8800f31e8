//! The file `fabric.json`: written whole, and believed only after it was checked.

use std::io;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{FabricState, NodeState};
use crate::dir::{self, FabricDir};
use crate::names::CONTROLLERS;

/// The version of the file's layout.
pub(super) const VERSION: u32 = 4;

impl FabricState {
    /// Reads the state of the fabric in `dir`; `None` if there is none, or none that can be read.
    ///
    /// # Errors
    /// If the file is there but damaged or of another version, or where it stands is not safe to use.
    pub fn load(dir: &FabricDir) -> Result<Option<Self>> {
        let path = dir.state();
        let Some(directory) = dir.open()? else {
            return Ok(None);
        };
        let text = match directory.read(dir::STATE) {
            Ok(text) => text,
            Err(error) if error.cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let state = Self::read(&text).with_context(|| format!("{} is damaged", path.display()))?;
        Ok(Some(state))
    }

    /// The state of which [`Self::write`] has made this text.
    ///
    /// # Errors
    /// If it is no such text, is of another version, or speaks of nodes that it does not name.
    pub fn read(text: &[u8]) -> Result<Self> {
        /// What every version has.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = serde_json::from_slice(text)?;
        if version != VERSION {
            bail!("it is of version {version}, this ibemu reads version {VERSION}");
        }
        let state: Self = serde_json::from_slice(text)?;
        state.check()?;
        Ok(state)
    }

    /// Checks that every position names an entry of its list.
    fn check(&self) -> Result<()> {
        let beside = self.sm_nodes.iter().map(|beside| beside.node);
        let ends = self.links.iter().flatten().map(|end| end.node);
        let nodes = self.nodes.len();
        if let Some(node) = beside.chain(ends).find(|&node| node >= nodes) {
            bail!("it speaks of node {node}, and has {nodes}");
        }
        let devices = self.nodes.iter().take_while(|node| node.device.is_none());
        let devices = devices.count();
        let is_further = |node: &NodeState| node.device.is_some_and(|device| device < devices);
        let ends = self.links.iter().flatten();
        if !self.nodes[devices..].iter().all(is_further)
            || ends.clone().any(|end| end.node >= devices)
        {
            bail!(
                "of its {nodes} nodes the first {devices} are devices, and a further port or a cable is of none of them"
            );
        }
        if let Some(job) = &self.job {
            job.check(devices)?;
        }
        if self.sm_nodes.len() > CONTROLLERS.len() {
            let controllers = self.sm_nodes.len();
            bail!(
                "it has {controllers} controllers; there are {} at most",
                CONTROLLERS.len()
            );
        }
        Ok(())
    }

    /// The text of `fabric.json`.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn write(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).context("cannot write the fabric's state")
    }

    /// The state of a fabric that must be there.
    ///
    /// # Errors
    /// If there is no such fabric, or its state cannot be read.
    pub fn require(dir: &FabricDir) -> Result<Self> {
        if let Some(state) = Self::load(dir)? {
            return Ok(state);
        }
        let fabric = dir.fabric();
        let hint = if netio::process::effective_uid() != 0
            && std::path::Path::new("/run/ibemu")
                .join(fabric.as_str())
                .exists()
        {
            "; root has one: act as root (sudo)"
        } else {
            "; bring one up with `ibemu up TOPOLOGY`, or name another with --fabric"
        };
        bail!("there is no fabric {fabric}{hint}")
    }

    /// Writes the state so that a reader finds the old one or the new one, never half of it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, dir: &FabricDir) -> Result<()> {
        Ok(dir.require()?.replace(dir::STATE, &self.write()?)?)
    }
}
