//! Clients that are slow, vanish, or come in numbers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use e2e::within;

use super::{Server, quiet};

/// How long the server may take for an answer among them.
const SERVED: Duration = Duration::from_secs(20);

#[test]
fn two_hundred_slow_clients_at_once_keep_nobody_out() {
    let fabric = quiet("star-2");
    let server = Server::of(&fabric, &[]);
    let (host, bearer) = (server.address, server.bearer());
    let whole = format!("GET /api/stream HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n\r\n");
    let clients: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut client = TcpStream::connect(server.address).unwrap();
            // Some never ask, some stop in the midst of asking, some never read what they have asked for.
            let part = match number % 3 {
                0 => "",
                1 => &whole[..whole.len() / 2],
                _ => &whole,
            };
            client.write_all(part.as_bytes()).unwrap();
            client
        })
        .collect();
    within(SERVED, "an answer beside 200 slow clients", || {
        let answer = server.get("/api/map");
        (answer.status == 200).then_some(()).ok_or(answer.head)
    });
    // Some vanish in the midst of an answer.
    let (gone, silent): (Vec<_>, Vec<_>) = clients
        .into_iter()
        .enumerate()
        .partition(|(number, _)| number % 2 == 0);
    drop(gone);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(super::ANSWER)).unwrap();
    stream.write_all(whole.as_bytes()).unwrap();
    let mut heard = String::new();
    let mut bytes = [0; 4096];
    while heard.matches("event: sample").count() < 2 {
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the stream has ended: {heard}");
        heard.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    // Who never asks is not waited for for ever.
    let (_, mut idle) = silent
        .into_iter()
        .find(|(number, _)| number % 3 == 0)
        .unwrap();
    idle.set_read_timeout(Some(super::ANSWER)).unwrap();
    assert_eq!(idle.read(&mut bytes).unwrap_or(0), 0);
    assert_eq!(fabric.status()["links"]["active"], 2);
    drop(server);
    fabric.down();
}
