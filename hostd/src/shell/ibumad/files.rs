//! Files of the adapter: those that a driver has below `/sys`, and the file of each port that makes its
//! readers subnet managers.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use daemon::args::DeviceArgs;
use daemon::clients::ClientSlot;
use daemon::control::ControlError;
use hostd::IpPort;
use mad::umad::{Refusal, Reply, Request};
use netio::fifo::ReaderWatch;
use netio::seqpacket::Connection;
use tokio::task::JoinHandle;
use wire::PortNum;

use super::Ibumad;
use crate::shell::sysfs;

/// Connections that keep the adapter's files up to date at most.
pub(super) const SYSFS_WATCHERS_MAX: usize = 64;

/// Where the files of this host stand.
pub(super) struct DeviceFiles {
    /// The folder with files as a driver has them.
    sysfs: PathBuf,
    /// The path before the port's number.
    is_sm: PathBuf,
    /// Those of the interfaces.
    interfaces: Vec<(String, String)>,
}

impl DeviceFiles {
    pub(super) fn new(device: &DeviceArgs, ip: &[IpPort]) -> Self {
        Self {
            sysfs: device.socket("sysfs"),
            is_sm: device.socket("issm"),
            interfaces: ip.iter().flat_map(sysfs::of_interface).collect(),
        }
    }
}

/// The task that watches a port's file for IsSM.
pub(super) struct IsSmWatch {
    task: JoinHandle<()>,
    path: String,
}

impl Drop for IsSmWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection that keeps the adapter's files up to date; counted until it is dropped.
struct Watching<'a>(&'a Cell<usize>);

impl<'a> Watching<'a> {
    /// `None` if there are [`SYSFS_WATCHERS_MAX`].
    fn begin(count: &'a Cell<usize>) -> Option<Self> {
        (count.get() < SYSFS_WATCHERS_MAX).then(|| {
            count.set(count.get() + 1);
            Self(count)
        })
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl Ibumad {
    /// Writes files as a driver has them, again and again until the connection ends. Several may do so at
    /// a time: each file is replaced whole.
    pub(super) async fn keep_sysfs(
        &self,
        connection: &Connection,
        place: &ClientSlot,
        name: &str,
    ) -> Result<(), ControlError> {
        let watching = Watching::begin(&self.sysfs_watchers);
        let begun = match watching {
            Some(_) => self.write_sysfs(name).await,
            None => Err(Refusal::Full),
        };
        let path = self.device.sysfs.to_str().map(str::to_owned);
        let reply = match (begun, path) {
            (Ok(()), Some(path)) => Reply::Sysfs { path },
            (Ok(()), None) => Reply::Refused(Refusal::Failed),
            (Err(refusal), _) => Reply::Refused(refusal),
        };
        let is_kept = matches!(reply, Reply::Sysfs { .. });
        connection.send(&wire::control::encode(&reply)?).await?;
        if !is_kept {
            return Ok(());
        }
        place.pin();
        loop {
            // The client sends no further request: a result is the end of the connection.
            let ended = tokio::time::timeout(sysfs::REFRESH, connection.receive());
            if ended.await.is_ok() {
                break;
            }
            // The next attempt may succeed.
            let _ = self.write_sysfs(name).await;
        }
        Ok(())
    }

    async fn write_sysfs(&self, name: &str) -> Result<(), Refusal> {
        let adapter = match self.ask(Request::Describe).await {
            Reply::Adapter(adapter) => adapter,
            Reply::Refused(refusal) => return Err(refusal),
            _ => return Err(Refusal::Failed),
        };
        let written = &mut *self.sysfs_written.borrow_mut();
        let interfaces = &self.device.interfaces;
        sysfs::write(&self.device.sysfs, name, (&adapter, interfaces), written).map_err(|error| {
            let folder = self.device.sysfs.display();
            tracing::warn!("{folder}: the adapter's files cannot be written: {error}");
            Refusal::Failed
        })
    }

    /// The file of a port whose readers make it a subnet manager's; made when it is first asked for.
    pub(super) fn is_sm_file(this: &Rc<Self>, port: PortNum) -> Reply {
        if !this.server.borrow().has_port(port) {
            return Reply::Refused(Refusal::Absent);
        }
        if let Some(watch) = this.is_sm.borrow().get(&port) {
            let path = watch.path.clone();
            return Reply::IsSmFile { path };
        }
        let mut path = this.device.is_sm.clone().into_os_string();
        path.push(port.to_string());
        let made = ReaderWatch::create(path.as_ref());
        match (made, path.into_string()) {
            (Ok(watch), Ok(path)) => {
                let task = Rc::clone(this).watch_is_sm(port, watch);
                let watch = IsSmWatch {
                    task: tokio::task::spawn_local(task),
                    path: path.clone(),
                };
                this.is_sm.borrow_mut().insert(port, watch);
                Reply::IsSmFile { path }
            }
            (Err(error), _) => {
                tracing::warn!("IsSM cannot be watched: {error}");
                Reply::Refused(Refusal::Failed)
            }
            (Ok(_), Err(path)) => {
                tracing::warn!("{}: the path is not UTF-8", path.to_string_lossy());
                Reply::Refused(Refusal::Failed)
            }
        }
    }

    /// Sets IsSM while a program has the file open.
    async fn watch_is_sm(self: Rc<Self>, port: PortNum, mut watch: ReaderWatch) {
        loop {
            match watch.changed().await {
                Ok(is_sm) => self.with_server(|server| server.set_is_sm(port, is_sm)),
                Err(error) => {
                    tracing::warn!(%port, "IsSM is not watched any more: {error}");
                    self.with_server(|server| server.set_is_sm(port, false));
                    return;
                }
            }
        }
    }
}
