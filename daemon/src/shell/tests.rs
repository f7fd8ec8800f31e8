use std::sync::mpsc;

use link::{Deadline, FrameBuf, Input, PortSet, Time};
use wire::PortNum;

use super::*;

/// A device that is stuck in its first command until it is let go.
struct Stuck {
    entered: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

impl Device for Stuck {
    type Command = u64;
    type Event = ();

    fn handle(&mut self, _: Time, input: Input<'_, u64>) {
        if let Input::Command(_) = input {
            // Errors say that the test lets it go, or has ended.
            let _ = self.entered.send(());
            let _ = self.go_on.recv();
        }
    }

    fn ready(&self, _: Time) -> PortSet {
        PortSet::EMPTY
    }

    fn transmit(&mut self, _: Time, _: PortNum, _: &mut FrameBuf<'_>) -> usize {
        0
    }

    fn poll_event(&mut self) -> Option<()> {
        None
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }
}

/// Its protocol knows nothing but requests of any device.
struct Plain;

impl Protocol for Plain {
    type Request = wire::control::DeviceRequest;
    type Reply = wire::control::DeviceReply;
    type Command = u64;

    fn from_device(request: Self::Request) -> Self::Request {
        request
    }

    fn as_device(request: &Self::Request) -> Option<&Self::Request> {
        Some(request)
    }

    fn reply(reply: Self::Reply) -> Self::Reply {
        reply
    }

    fn as_device_reply(reply: &mut Self::Reply) -> Option<&mut Self::Reply> {
        Some(reply)
    }

    fn command(token: u64, _: Self::Request) -> u64 {
        token
    }
}

/// A device that is stuck, and what lets it go when it is dropped.
fn start() -> (DeviceControl<Plain>, Running<u64, ()>, mpsc::Sender<()>) {
    let settings = Settings {
        name: "stuck".to_owned(),
        frame_packets: 1,
    };
    let (entered_sender, entered) = mpsc::channel();
    let (go_on_sender, go_on) = mpsc::channel();
    let device = move || Stuck {
        entered: entered_sender,
        go_on,
    };
    let running = dataplane::spawn(settings, Vec::new(), device).unwrap();
    let (cables, _) = Cables::open(&[], 0, netio::transport::TunnelOptions::default()).unwrap();
    let control = DeviceControl::new(running.handle.clone(), cables);
    running.handle.command(0).unwrap();
    entered.recv().unwrap();
    (control, running, go_on_sender)
}

#[tokio::test]
async fn a_dataplane_that_takes_no_request_does_not_hold_up_the_shutdown() {
    let (control, mut running, go_on) = start();
    while running.handle.command(0).is_ok() {}
    assert_eq!(running.handle.command(0), Err(RequestError::Full));
    let ended = end_dataplane(&control, &mut running.events, &mut |()| {}).await;
    assert!(matches!(ended, Err(DaemonError::Stuck)), "{ended:?}");
    drop(go_on);
}

#[tokio::test]
async fn a_full_request_channel_that_drains_is_no_dataplane_that_has_ended() {
    let (control, mut running, go_on) = start();
    while running.handle.command(0).is_ok() {}
    drop(go_on);
    let ended = end_dataplane(&control, &mut running.events, &mut |()| {}).await;
    assert!(ended.is_ok(), "{ended:?}");
    running.thread.join().unwrap();
}

#[tokio::test]
async fn a_dataplane_that_has_ended_is_not_waited_for() {
    let (control, mut running, go_on) = start();
    drop(go_on);
    running.handle.stop().unwrap();
    running.thread.join().unwrap();
    let ended = end_dataplane(&control, &mut running.events, &mut |()| {}).await;
    assert!(ended.is_ok(), "{ended:?}");
}

#[tokio::test]
async fn a_request_waits_for_room_instead_of_being_refused() {
    let (control, running, go_on) = start();
    while running.handle.command(0).is_ok() {}
    {
        let answer =
            std::pin::pin!(control.answer(wire::control::DeviceRequest::Identify, Vec::new()));
        tokio::select! {
            biased;
            answer = answer => panic!("{:?}", answer.reply),
            () = std::future::ready(()) => {}
        }
    }
    drop(go_on);
    running
        .handle
        .stop_within(Duration::from_secs(2))
        .await
        .unwrap();
    running.thread.join().unwrap();
}
