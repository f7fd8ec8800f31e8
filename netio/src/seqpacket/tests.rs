use std::fs::{self, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use socket2::{Domain, SockAddr, Socket, Type};

use super::*;
use crate::other_user::as_other_user;

fn path(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("s")
}

#[tokio::test]
async fn messages_keep_their_bounds_and_the_end_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let listener = Listener::bind(&path(&directory)).unwrap();
    let client = Connection::connect(&path(&directory)).await.unwrap();
    let server = listener.accept().await.unwrap();
    client.send(b"one").await.unwrap();
    client.send(&vec![7; MESSAGE_BYTES_MAX]).await.unwrap();
    assert_eq!(server.receive().await.unwrap().unwrap(), b"one");
    let long = server.receive().await.unwrap().unwrap();
    assert_eq!(long.len(), MESSAGE_BYTES_MAX);
    drop(client);
    assert_eq!(server.receive().await.unwrap(), None);
}

#[tokio::test]
async fn an_overlong_message_is_refused_at_the_sender() {
    let directory = tempfile::tempdir().unwrap();
    let _listener = Listener::bind(&path(&directory)).unwrap();
    let client = Connection::connect(&path(&directory)).await.unwrap();
    let error = client.send(&vec![0; MESSAGE_BYTES_MAX + 1]).await;
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = path(&directory);
    // A socket whose owner was killed leaves its path behind.
    let dead = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    dead.bind(&SockAddr::unix(&path).unwrap()).unwrap();
    drop(dead);
    assert!(path.exists());

    let listener = Listener::bind(&path).unwrap();
    let error = Listener::bind(&path).unwrap_err();
    assert_eq!(error.cause.kind(), io::ErrorKind::AddrInUse);
    drop(listener);
    assert!(!path.exists());
    let error = Connection::connect(&path).await.unwrap_err();
    assert!(error.to_string().contains("no process listens"), "{error}");
}

#[tokio::test]
async fn a_path_longer_than_a_socket_address_works() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let path = deep.join("name.ctl");
    let listener = Listener::bind(&path).unwrap();
    let client = Connection::connect(&path).await.unwrap();
    let server = listener.accept().await.unwrap();
    client.send(b"x").await.unwrap();
    assert_eq!(server.receive().await.unwrap().unwrap(), b"x");
}

#[tokio::test]
async fn the_runtime_goes_on_while_a_connection_waits_for_room_in_a_backlog() {
    let directory = tempfile::tempdir().unwrap();
    let path = path(&directory);
    let address = SockAddr::unix(&path).unwrap();
    let listener = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    listener.bind(&address).unwrap();
    listener.listen(0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET.nonblocking(), None).unwrap();
        match socket.connect(&address) {
            Ok(()) => waiting.push(socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    // Room is made by another task of the same thread.
    let (connected, accepted) = tokio::join!(Connection::connect(&path), async {
        waiting
            .iter()
            .map(|_| listener.accept())
            .collect::<io::Result<Vec<_>>>()
    });
    connected.unwrap();
    assert_eq!(accepted.unwrap().len(), waiting.len());
}

#[tokio::test]
async fn a_peer_of_another_user_is_refused_at_both_ends() {
    let directory = tempfile::tempdir().unwrap();
    let everybodys = Permissions::from_mode(0o777);
    fs::set_permissions(directory.path(), everybodys.clone()).unwrap();
    let path = path(&directory);
    let address = SockAddr::unix(&path).unwrap();
    let listener = Listener::bind(&path).unwrap();
    fs::set_permissions(&path, everybodys).unwrap();
    let socket = || Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    let stranger = as_other_user(|| {
        let stranger = socket();
        stranger.connect(&address).unwrap();
        stranger
    });
    let client = Connection::connect(&path).await.unwrap();
    let server = listener.accept().await.unwrap();
    client.send(b"own").await.unwrap();
    assert_eq!(server.receive().await.unwrap().unwrap(), b"own");
    assert_eq!((&stranger).read(&mut [0; 1]).unwrap(), 0, "it was closed");

    let foreign = directory.path().join("foreign");
    let address = SockAddr::unix(&foreign).unwrap();
    let _listener = as_other_user(|| {
        let listener = socket();
        listener.bind(&address).unwrap();
        listener.listen(8).unwrap();
        listener
    });
    let refused = Connection::connect(&foreign).await.unwrap_err();
    let blocking = BlockingConnection::connect(&foreign, Duration::from_secs(1)).unwrap_err();
    for error in [refused, blocking] {
        assert_eq!(
            error.cause.kind(),
            io::ErrorKind::PermissionDenied,
            "{error}"
        );
    }
}

#[tokio::test]
async fn descriptors_come_with_their_message() {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = Listener::bind(&path).unwrap();
    let client = BlockingConnection::connect(&path, Duration::from_secs(10)).unwrap();
    let server = listener.accept().await.unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    client.send_with(b"one", &[writer.as_fd()]).unwrap();
    client.send(b"none").unwrap();
    drop(writer);
    let (message, mut descriptors) = server.receive_with().await.unwrap().unwrap();
    assert_eq!((message.as_slice(), descriptors.len()), (&b"one"[..], 1));
    let mut copy = std::fs::File::from(descriptors.pop().unwrap());
    copy.write_all(b"by the copy").unwrap();
    drop(copy);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "by the copy");
    let (message, descriptors) = server.receive_with().await.unwrap().unwrap();
    assert_eq!((message.as_slice(), descriptors.len()), (&b"none"[..], 0));

    let many = vec![reader.as_fd(); DESCRIPTORS_MAX];
    server.send_with(b"many", &many).await.unwrap();
    let (message, descriptors) = client.receive_with().unwrap().unwrap();
    assert_eq!((message.as_slice(), descriptors.len()), (&b"many"[..], 4));
    let too_many = vec![reader.as_fd(); DESCRIPTORS_MAX + 1];
    assert!(server.send_with(b"many", &too_many).await.is_err());
    drop(server);
    assert!(client.receive_with().unwrap().is_none());
}
