//! The manager between the MAD socket, the clock, and the control socket.

use std::cell::RefCell;
use std::convert::Infallible;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use controller::control::{Reply, Request};
use controller::{Sm, SmEvent};
use daemon::control::{Answer, ControlError};
use mad::local::ToAgent;
use netio::clock;
use tokio::sync::Notify;

use super::agent::Agent;
use super::files::Files;

/// Time between two attempts to reach the MAD socket.
const RECONNECT: Duration = Duration::from_millis(50);

/// The manager and what its tasks tell each other.
#[derive(Debug)]
pub(super) struct Manager {
    sm: RefCell<Sm>,
    files: Files,
    /// The manager has new work that came by the control socket.
    work_pending: Notify,
    /// The reply to a shutdown request has been sent.
    shutdown: Rc<Notify>,
}

impl Manager {
    pub(super) fn new(sm: Sm, files: Files) -> Self {
        Self {
            sm: RefCell::new(sm),
            files,
            work_pending: Notify::new(),
            shutdown: Rc::new(Notify::new()),
        }
    }

    /// Resolves when a client has requested shutdown and its reply has been sent.
    pub(super) async fn shutdown_requested(&self) {
        self.shutdown.notified().await;
    }

    /// Answers a request of the control socket.
    pub(super) fn answer(&self, request: &Request) -> Answer<Reply> {
        match request {
            Request::Identify => Reply::Identity {
                pid: std::process::id(),
            }
            .into(),
            Request::Status => {
                let status = self.sm.borrow().status(clock::now());
                Reply::Status(Box::new(status)).into()
            }
            Request::Resweep => {
                self.sm.borrow_mut().resweep(clock::now());
                self.work_pending.notify_one();
                Reply::Done.into()
            }
            Request::Shutdown => Answer {
                reply: Reply::Done,
                sent: Some(Rc::clone(&self.shutdown)),
            },
        }
    }

    /// Runs the manager for ever, through one connection after the other: the end node may be
    /// restarted.
    pub(super) async fn work(&self, mad_socket: &Path) -> Infallible {
        // Registrations, repeated on each new connection.
        let mut standing: Vec<ToAgent> = Vec::new();
        let mut absence_logged = false;
        loop {
            match Agent::connect(mad_socket) {
                Ok(agent) => {
                    absence_logged = false;
                    let Err(error) = self.converse(agent, &mut standing).await;
                    tracing::warn!("the MAD socket {} is lost: {error}", mad_socket.display());
                }
                Err(error) if !absence_logged => {
                    absence_logged = true;
                    tracing::warn!("waiting for the end node: {error}");
                }
                Err(_) => {}
            }
            tokio::time::sleep(RECONNECT).await;
        }
    }

    /// Works through one connection until it ends.
    async fn converse(
        &self,
        mut agent: Agent,
        standing: &mut Vec<ToAgent>,
    ) -> Result<Infallible, ControlError> {
        let mut again = standing.clone().into_iter();
        agent.send(|| again.next())?;
        loop {
            self.tick_if_due();
            // State is saved before replies that depend on it are sent.
            self.take_events();
            agent.send(|| {
                let message = self.sm.borrow_mut().poll_transmit()?;
                remember(standing, &message);
                Some(message)
            })?;
            tokio::select! {
                exchanged = agent.exchange(|message| {
                    self.sm.borrow_mut().handle(clock::now(), message);
                }) => exchanged?,
                () = self.due() => {}
                () = self.work_pending.notified() => {}
            }
        }
    }

    fn tick_if_due(&self) {
        let now = clock::now();
        let mut sm = self.sm.borrow_mut();
        if sm.deadline().is_some_and(|due| due.at <= now) {
            sm.tick(now);
        }
    }

    /// Resolves at the manager's deadline, as it stands now.
    async fn due(&self) {
        let due = self.sm.borrow().deadline();
        match due {
            None => std::future::pending().await,
            Some(due) => {
                tokio::time::sleep(Duration::from_nanos(due.at.since_ns(clock::now()))).await;
            }
        }
    }

    fn take_events(&self) {
        loop {
            let Some(event) = self.sm.borrow_mut().poll_event() else {
                break;
            };
            match event {
                SmEvent::Phase(phase) => tracing::info!("phase: {phase:?}"),
                SmEvent::SubnetUp(summary) => tracing::info!("subnet up: {summary:?}"),
                SmEvent::Failed { reason } => tracing::error!("{reason}"),
                SmEvent::Warning(what) => tracing::warn!("{what}"),
                SmEvent::DeviceLost { name, guid } => {
                    tracing::warn!("device lost: {name} ({guid})");
                }
                SmEvent::DeviceBack { name, guid } => {
                    tracing::info!("device back: {name} ({guid})");
                }
                SmEvent::Persist(text) => self.files.save_guid2lid(&text),
                SmEvent::PersistConnections(text) => self.files.save_connections(&text),
                SmEvent::PersistGroups(text) => self.files.save_groups(&text),
                SmEvent::Recall => match self.files.read() {
                    Ok(remembered) => self.sm.borrow_mut().recall(&remembered),
                    Err(error) => tracing::error!("{error:#}"),
                },
            }
        }
    }
}

/// Keeps registrations, the latest of each kind.
fn remember(standing: &mut Vec<ToAgent>, message: &ToAgent) {
    let same = |other: &ToAgent| match (message, other) {
        (ToAgent::Register { class: one }, ToAgent::Register { class: other }) => one == other,
        (ToAgent::SetIsSm(_), ToAgent::SetIsSm(_)) => true,
        _ => false,
    };
    match message {
        ToAgent::Send(_) | ToAgent::ReadOwn(_) => {}
        ToAgent::Register { .. } | ToAgent::SetIsSm(_) => {
            standing.retain(|other| !same(other));
            standing.push(message.clone());
        }
        ToAgent::Unregister { class } => {
            standing.retain(|other| !matches!(other, ToAgent::Register { class: c } if c == class));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_are_remembered_once_each_and_packets_never() {
        let mut standing = Vec::new();
        let messages = [
            ToAgent::Register { class: 1 },
            ToAgent::SetIsSm(true),
            ToAgent::Register { class: 0x81 },
            ToAgent::Register { class: 1 },
            ToAgent::SetIsSm(false),
        ];
        for message in &messages {
            remember(&mut standing, message);
        }
        assert_eq!(
            standing,
            [
                ToAgent::Register { class: 0x81 },
                ToAgent::Register { class: 1 },
                ToAgent::SetIsSm(false),
            ]
        );
    }
}
