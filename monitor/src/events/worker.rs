//! The thread of a stream: hosts' MAD sockets and snapshots in, events out.

use std::convert::Infallible;
use std::time::Duration;

use mad::local::{FromAgent, ToAgent};
use netio::clock;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use wire::attr::{Notice, trap};
use wire::{Lid, Mad};

use super::event::{Event, Kind};
use super::listener::{Deaf, Learned, Listener, Output, reports};
use super::names::Names;
use super::notice;
use super::queue::Queue;
use super::{Host, changes, controllers};
use crate::client::{Client, ClientError};
use crate::sampler::{Shared, Source};

/// Hosts that are tried, one after the other.
const HOSTS_MAX: usize = 64;
/// How long names are waited for before anything is heard.
const NAMES: Duration = Duration::from_secs(5);
/// Time until they are tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Time between the looks at the fabric that follow a trap, and how many there are. A manager has swept by then.
const LOOKS: (Duration, u32) = (Duration::from_secs(1), 5);

/// Why reports are not heard through a host.
#[derive(Debug, Error)]
enum NotHeard {
    #[error(transparent)]
    Deaf(#[from] Deaf),
    #[error("another program has subscribed through the host, or it is the subnet manager's own")]
    Taken,
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl NotHeard {
    /// For programs.
    const fn word(&self) -> &'static str {
        match self {
            Self::Deaf(Deaf::NoManager) => "no-manager",
            Self::Deaf(Deaf::Silent { .. }) => "silent",
            Self::Deaf(Deaf::Refused { .. }) => "refused",
            Self::Taken => "taken",
            Self::Deaf(Deaf::HostSilent) | Self::Client(_) => "host",
        }
    }

    /// Of several hosts' reasons the one that is told: what a manager says is worth more than what a host does not do.
    const fn rank(&self) -> u8 {
        match self {
            Self::Deaf(Deaf::Refused { .. }) => 4,
            Self::Deaf(Deaf::Silent { .. }) => 3,
            Self::Deaf(Deaf::NoManager) => 2,
            Self::Taken => 1,
            Self::Deaf(Deaf::HostSilent) | Self::Client(_) => 0,
        }
    }
}

/// Works until it is to stop, and has ended the subscription by then.
pub(super) async fn work(
    hosts: &[Host],
    shared: &Shared,
    queue: &Queue,
    stopped: watch::Receiver<bool>,
) {
    let ears = Ears {
        hosts,
        shared,
        queue,
        names: Names::default(),
        manager: None,
        told: None,
        stopped,
    };
    let own = hosts
        .first()
        .map_or(&[][..], |host| &host.source.controllers);
    tokio::select! {
        () = ears.listen() => {}
        never = follow(shared, queue) => match never {},
        never = controllers::follow(own, queue) => match never {},
    }
}

/// Tells what changes from one snapshot to the next.
async fn follow(shared: &Shared, queue: &Queue) -> Infallible {
    let mut snapshots = shared.latest.subscribe();
    let mut before = snapshots.borrow_and_update().clone();
    loop {
        if snapshots.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        let now = snapshots.borrow_and_update().clone();
        for event in changes::between(&before, &now) {
            queue.push(event);
        }
        before = now;
    }
}

/// Hears traps through one host after the other.
struct Ears<'a> {
    hosts: &'a [Host],
    shared: &'a Shared,
    queue: &'a Queue,
    names: Names,
    manager: Option<Lid>,
    /// What was told last about why nothing is heard.
    told: Option<String>,
    stopped: watch::Receiver<bool>,
}

impl Ears<'_> {
    async fn listen(mut self) {
        // The first traps have names as well, unless nobody tells them.
        let mut snapshots = self.shared.latest.subscribe();
        tokio::select! {
            _ = self.stopped.wait_for(|stopped| *stopped) => return,
            _ = tokio::time::timeout(NAMES, snapshots.wait_for(|now| now.sequence > 0)) => {}
        }
        loop {
            let mut worst: Option<NotHeard> = None;
            for host in self.hosts.iter().take(HOSTS_MAX) {
                match self.through(host).await {
                    Ok(()) => return,
                    Err(error) => {
                        tracing::debug!("traps are not heard through a host: {error}");
                        if worst.as_ref().is_none_or(|it| it.rank() < error.rank()) {
                            worst = Some(error);
                        }
                    }
                }
                if *self.stopped.borrow() {
                    return;
                }
            }
            self.tell_deafness(worst.as_ref());
            tokio::select! {
                _ = self.stopped.wait_for(|stopped| *stopped) => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    }

    fn tell_deafness(&mut self, error: Option<&NotHeard>) {
        let why = error.map_or_else(|| "the fabric has no host".to_owned(), ToString::to_string);
        let word = error.map_or("host", NotHeard::word);
        if self.told.as_ref() == Some(&why) {
            return;
        }
        let text = format!("traps are not heard: {why}");
        let event = Event::new(Kind::Listener, text)
            .with("heard", false)
            .with("why", word);
        self.queue.push(event);
        self.told = Some(why);
    }

    /// Hears through a host until it fails, or all is to end.
    async fn through(&mut self, host: &Host) -> Result<(), NotHeard> {
        let source = &host.source;
        let mut stopped = self.stopped.clone();
        let mut client = tokio::select! {
            client = registered(source) => client?,
            _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
        };
        let mut listener = Listener::new(clock::now(), source.sa_key.get());
        let mut looks = Looks::new(source.controllers.is_empty());
        let mut is_ending = false;
        while !listener.is_over() {
            let now = clock::now();
            while let Some(output) = listener.poll(now)? {
                send(&mut client, &output).await?;
            }
            if listener.is_over() {
                break;
            }
            let due = Instant::now() + Duration::from_nanos(listener.deadline().since_ns(now));
            tokio::select! {
                message = client.message() => {
                    let message = message?;
                    let learned = self.heard(&mut client, &mut listener, &mut looks, message).await?;
                    if let Some(learned) = learned {
                        self.learned(learned, &host.name);
                    }
                }
                () = sleep_until(due) => {}
                () = looks.due() => self.shared.discover.notify_one(),
                _ = stopped.wait_for(|stopped| *stopped), if !is_ending => {
                    is_ending = true;
                    listener.end(clock::now());
                }
            }
        }
        Ok(())
    }

    async fn heard(
        &mut self,
        client: &mut Client,
        listener: &mut Listener,
        looks: &mut Looks,
        message: FromAgent,
    ) -> Result<Option<Learned>, NotHeard> {
        let FromAgent::Received(message) = message else {
            return Ok(None);
        };
        let mad = Mad::from_bytes(*message.mad);
        if mad.method().is_response() {
            return Ok(listener.answered(clock::now(), &mad)?);
        }
        let Some((answer, notice)) = listener.reported(clock::now(), &message) else {
            return Ok(None);
        };
        client.answer(&message, &answer).await?;
        if let Some(notice) = notice {
            self.names.learn(&self.shared.latest.borrow().fabric);
            self.queue.push(notice::event(&notice, &self.names));
            looks.after(&notice);
        }
        Ok(None)
    }

    fn learned(&mut self, learned: Learned, host: &str) {
        self.names.learn(&self.shared.latest.borrow().fabric);
        match learned {
            Learned::Subscribed => {
                self.told = None;
                let text = format!("traps are heard through {host}");
                let event = Event::new(Kind::Listener, text)
                    .of(host)
                    .with("heard", true);
                self.queue.push(event);
            }
            Learned::Manager(lid) => {
                let before = self.manager.replace(lid);
                if let Some(before) = before.filter(|&before| before != lid) {
                    let [now, before] = [lid, before].map(|lid| self.names.lid(lid));
                    let text = format!(
                        "the subnet manager of {now} runs the subnet, before that of {before}"
                    );
                    let event = Event::new(Kind::Master, text)
                        .of(now)
                        .with("before", before)
                        .with("lid", lid.get());
                    self.queue.push(event);
                }
            }
        }
    }
}

/// A connection to a host that gives it reports.
async fn registered(source: &Source) -> Result<Client, NotHeard> {
    let client = Client::connect(source).await?;
    match client.register(reports()).await? {
        true => Ok(client),
        false => Err(NotHeard::Taken),
    }
}

async fn send(client: &mut Client, output: &Output) -> Result<(), ClientError> {
    match output {
        Output::Look(mad) => {
            let message = ToAgent::ReadOwn(Box::new(*mad.as_bytes()));
            client.tell(&message).await
        }
        Output::Ask(lid, mad) => {
            client.prepare(*lid, mad)?;
            client.send().await
        }
    }
}

/// Looks at the fabric that follow traps. Where the fabric's own controllers run, the sampler sees their sweeps itself.
#[derive(Debug)]
struct Looks {
    are_needed: bool,
    left: u32,
    at: Instant,
}

impl Looks {
    fn new(are_needed: bool) -> Self {
        Self {
            are_needed,
            left: 0,
            at: Instant::now(),
        }
    }

    /// A notice has come: a manager sweeps now, or has swept.
    fn after(&mut self, notice: &Notice) {
        let is_of_change = notice.is_generic
            && matches!(
                notice.trap_number,
                trap::GID_IN_SERVICE
                    | trap::GID_OUT_OF_SERVICE
                    | trap::LINK_STATE_CHANGE
                    | trap::CAPABILITY_CHANGE
            );
        if self.are_needed && is_of_change {
            let (after, count) = LOOKS;
            if self.left == 0 {
                self.at = Instant::now() + after;
            }
            self.left = count;
        }
    }

    /// Resolves when the next one is due.
    async fn due(&mut self) {
        if self.left == 0 {
            return std::future::pending().await;
        }
        sleep_until(self.at).await;
        let (after, _) = LOOKS;
        self.left -= 1;
        self.at = Instant::now() + after;
    }
}
