//! The manager between the MAD socket, the clock, and the control socket.

use std::cell::RefCell;
use std::convert::Infallible;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use controller::control::{LogPage, Reply, Request};
use controller::{Sm, SmEvent};
use daemon::control::{Answer, ControlError};
use mad::local::ToAgent;
use netio::clock;
use tokio::sync::Notify;
use wire::PortNum;

use super::agent::Agent;
use super::files::Files;
use super::threads::Threads;

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
                // What is told has been saved.
                self.take_events();
                let status = self.sm.borrow().status(clock::now());
                Reply::Status(Box::new(status)).into()
            }
            Request::Log { after } => {
                let page = self.sm.borrow().log(clock::now(), *after);
                Reply::Log(LogPage {
                    pid: std::process::id(),
                    ..page
                })
                .into()
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
    pub(super) async fn work(&self, mad_socket: &Path, port: PortNum) -> Infallible {
        // Repeated on each new connection.
        let mut registrations: Vec<ToAgent> = Vec::new();
        let mut threads = Threads::new();
        let mut absence_logged = false;
        loop {
            match Agent::connect(mad_socket, port).await {
                Ok(agent) => {
                    absence_logged = false;
                    let Err(error) = self
                        .serve_connection(agent, &mut registrations, &mut threads)
                        .await;
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
    async fn serve_connection(
        &self,
        mut agent: Agent,
        registrations: &mut Vec<ToAgent>,
        threads: &mut Threads,
    ) -> Result<Infallible, ControlError> {
        let mut again = registrations.clone().into_iter();
        agent.send(|| again.next())?;
        loop {
            self.tick_if_due();
            // State is saved before replies that depend on it are sent.
            self.take_events();
            threads.start(&mut self.sm.borrow_mut());
            agent.send(|| {
                let message = self.sm.borrow_mut().poll_transmit()?;
                remember(registrations, &message);
                Some(message)
            })?;
            tokio::select! {
                exchanged = agent.exchange(|message| {
                    self.sm.borrow_mut().handle(clock::now(), message);
                }) => exchanged?,
                done = threads.next() => {
                    self.sm.borrow_mut().work_done(clock::now(), done);
                }
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
                SmEvent::PersistAliases(text) => self.files.save_aliases(&text),
                SmEvent::Recall => match self.files.read() {
                    Ok(remembered) => self.sm.borrow_mut().recall(&remembered),
                    Err(error) => tracing::error!("{error:#}"),
                },
            }
        }
    }
}

/// Keeps registrations, the latest of each kind.
fn remember(registrations: &mut Vec<ToAgent>, message: &ToAgent) {
    let same = |other: &ToAgent| match (message, other) {
        (ToAgent::Register { class: one }, ToAgent::Register { class: other }) => one == other,
        (ToAgent::SetIsSm(_), ToAgent::SetIsSm(_)) => true,
        _ => false,
    };
    match message {
        // The shell chooses the port at each connection.
        ToAgent::Send(_) | ToAgent::ReadOwn(_) | ToAgent::Attach { .. } => {}
        // The manager registers whole classes.
        ToAgent::RegisterMethods(_) | ToAgent::UnregisterMethods(_) => {}
        ToAgent::Register { .. } | ToAgent::SetIsSm(_) => {
            registrations.retain(|other| !same(other));
            registrations.push(message.clone());
        }
        ToAgent::Unregister { class } => {
            registrations
                .retain(|other| !matches!(other, ToAgent::Register { class: c } if c == class));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_are_remembered_once_each_and_packets_never() {
        let mut registrations = Vec::new();
        let messages = [
            ToAgent::Register { class: 1 },
            ToAgent::SetIsSm(true),
            ToAgent::Register { class: 0x81 },
            ToAgent::Register { class: 1 },
            ToAgent::SetIsSm(false),
        ];
        for message in &messages {
            remember(&mut registrations, message);
        }
        assert_eq!(
            registrations,
            [
                ToAgent::Register { class: 0x81 },
                ToAgent::Register { class: 1 },
                ToAgent::SetIsSm(false),
            ]
        );
    }
}
