//! A listener outlives a lack of descriptors. A test binary of its own, because the limit of open
//! files is the whole process's.

use std::fs::File;
use std::time::Duration;

use netio::seqpacket::{Connection, Listener};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Long enough for the runtime to find the listener readable and to try.
const MOMENT: Duration = Duration::from_millis(300);

const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_listener_without_descriptors_waits_until_there_are_some() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.ctl");
    let listener = Listener::bind(&path).unwrap();
    let client = Connection::connect(&path).await.unwrap();
    let before = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(64),
            ..before
        },
    )
    .unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    let accepted = listener.accept();
    tokio::pin!(accepted);
    let early = tokio::time::timeout(MOMENT, &mut accepted).await;
    assert!(early.is_err(), "it waits: {early:?}");
    drop(taken);
    let server = tokio::time::timeout(LIMIT, accepted)
        .await
        .expect("accepted when there are descriptors again")
        .unwrap();
    client.send(b"x").await.unwrap();
    assert_eq!(server.receive().await.unwrap().unwrap(), b"x");
    setrlimit(Resource::Nofile, before).unwrap();
}
