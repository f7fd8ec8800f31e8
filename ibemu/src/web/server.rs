//! Connections of browsers and programs, bounded in number, time and memory.
//!
//! What a client costs is bounded: so many connections at a time, of which one that would exceed them is closed at
//! once; so long for a request's head and body; a request of so many bytes; and who takes no data for
//! [`STALLED`], or has vanished, is given up by the system. What is sent while a client is slow
//! is not kept for it ([`super::live`]).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::guard::{self, Guard};
use super::options::Web;

/// Connections at a time. A browser makes six, and programs one.
const CONNECTIONS_MAX: usize = 512;
/// How long a request's head may take, and a connection be idle.
const HEAD: Duration = Duration::from_secs(20);
/// How long a request may take until its answer begins; a device that does not answer takes less.
const ANSWER: Duration = Duration::from_secs(60);
/// How long a client may take no data.
const STALLED: Duration = Duration::from_secs(30);
/// The longest body of a request.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// What the system keeps for a client that takes nothing.
const SEND_BUFFER: usize = 256 * 1024;
/// Memory for a request's head.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Begins to listen.
///
/// # Errors
/// If the address is not this machine's own to speak to itself, and that was not asked for; if it is taken.
pub(super) async fn bind(options: &Web) -> Result<TcpListener> {
    let listen = options.listen;
    options.check()?;
    let failed = match TcpListener::bind(listen).await {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    match failed.kind() {
        std::io::ErrorKind::AddrInUse => bail!(
            "{listen} is taken by another program (ss -ltnp shows which); choose another one, as in --listen 127.0.0.1:0"
        ),
        std::io::ErrorKind::PermissionDenied => bail!(
            "{listen} is for privileged programs only; choose a port from 1024 on, as in --listen 127.0.0.1:8480"
        ),
        _ => Err(failed).with_context(|| format!("cannot listen on {listen}")),
    }
}

/// Serves until the future is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router, guard: Arc<Guard>) {
    let router = router
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(in_time))
        .layer(from_fn_with_state(guard, guard::check));
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptors left, or the client has gone: there may be some again.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Dropping the stream closes the connection.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            serve_client(stream, router).await;
            drop(place);
        });
    }
}

async fn serve_client(stream: TcpStream, router: Router) {
    let socket = SockRef::from(&stream);
    // Without these a client is served all the same.
    let _ = socket.set_tcp_user_timeout(Some(STALLED));
    let _ = socket.set_send_buffer_size(SEND_BUFFER);
    let _ = socket.set_tcp_nodelay(true);
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES_MAX);
    let service = TowerToHyperService::new(router);
    // How a client leaves is its own affair.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// Bounds the time until an answer begins.
async fn in_time(request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(ANSWER, next.run(request)).await;
    answer.unwrap_or_else(|_| {
        let why = "The fabric has not answered in time.\n";
        (StatusCode::GATEWAY_TIMEOUT, why).into_response()
    })
}

/// The address at which a listener listens.
///
/// # Errors
/// If the system does not tell.
pub(super) fn address(listener: &TcpListener) -> Result<SocketAddr> {
    listener.local_addr().context("cannot tell the port")
}
