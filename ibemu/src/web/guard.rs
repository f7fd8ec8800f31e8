//! Who may ask the server what.
//!
//! Every page that the user's browser has open can send requests to a port of this machine. So a request is served
//! only if all of this holds:
//!
//! * **Host** names this server by an address, or as `localhost`: a name of somebody else's that leads here (DNS rebinding)
//!   is refused.
//! * **Origin**, where a browser sends one, is this server's own page.
//! * **Token**: 160 random bits, known to who has started the server; in `Authorization`, in a cookie that scripts
//!   cannot read and other sites do not send, or in the address that was printed.
//! * What **changes** something is a POST with `--control`. With the cookie alone it needs the Origin, which no
//!   other page can forge (CSRF).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::token::Token;

/// What every answer says: nothing but this server's own files runs in the page, nobody frames it, and no other
/// site reads or embeds what it says.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (header::CACHE_CONTROL, "no-store"),
];

/// What requests are checked against.
#[derive(Debug)]
pub(super) struct Guard {
    token: Token,
    address: SocketAddr,
    cookie: String,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// `Host` is not this server.
    Host,
    /// `Origin` is another page.
    Origin,
    /// Neither cookie nor token.
    Token,
    /// Something that only a page of this server may ask, and it does not say that it is one.
    Unnamed,
    /// Neither GET nor POST.
    Method,
}

impl Refusal {
    fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "This server answers to its address and to localhost only: open the address that ibemu web has printed.\n",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "A page of another site has sent this request: refused.\n",
            ),
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                "The token is missing or wrong: open the address that ibemu web has printed, with ?token= and all.\n",
            ),
            Self::Unnamed => (
                StatusCode::FORBIDDEN,
                "A request that changes something has the token in Authorization, or the Origin of this server's page.\n",
            ),
            Self::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                "GET and POST are understood.\n",
            ),
        }
    }
}

/// How a request has shown the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Authorization,
    Cookie,
    Address,
}

impl Guard {
    pub(super) fn new(token: Token, address: SocketAddr) -> Self {
        // Cookies do not tell ports apart.
        let cookie = format!("ibemu-{}", address.port());
        Self {
            token,
            address,
            cookie,
        }
    }

    /// What is opened in a browser.
    pub(super) fn url(&self) -> String {
        let ip = self.address.ip();
        let ip = match ip {
            IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
            IpAddr::V6(ip) if ip.is_unspecified() => "[::1]".to_owned(),
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let port = self.address.port();
        format!("http://{ip}:{port}/?token={}", self.token.as_str())
    }

    /// Judges a request: whether the token was shown in its address.
    fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<bool, Refusal> {
        if ![Method::GET, Method::HEAD, Method::POST].contains(method) {
            return Err(Refusal::Method);
        }
        let host = one(headers, header::HOST).ok_or(Refusal::Host)?;
        if !self.is_own(host) {
            return Err(Refusal::Host);
        }
        let origin = headers.contains_key(header::ORIGIN);
        if origin && one(headers, header::ORIGIN) != Some(&format!("http://{host}")) {
            return Err(Refusal::Origin);
        }
        let shown = self.shown(method, uri, headers).ok_or(Refusal::Token)?;
        let is_change = *method == Method::POST;
        if is_change && shown != Shown::Authorization && !origin {
            return Err(Refusal::Unnamed);
        }
        Ok(shown == Shown::Address)
    }

    /// Whether `Host` is an address (which no name server can give another meaning) or `localhost`, and this port.
    fn is_own(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(80)),
        };
        let bare = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        let ip: Option<IpAddr> = bare.unwrap_or(name).parse().ok();
        let is_here = match ip {
            // Listening at one address, no other one leads here but by somebody's forwarding of a loopback port.
            Some(ip) => {
                ip == self.address.ip() || ip.is_loopback() || self.address.ip().is_unspecified()
            }
            None => name.eq_ignore_ascii_case("localhost"),
        };
        // A tunnel (ssh -L) may have another port at its end; only a loopback address says nothing about it.
        let is_local = ip.is_none_or(|ip| ip.is_loopback());
        is_here && (port == Some(self.address.port()) || is_local && port.is_some())
    }

    fn shown(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Shown> {
        if let Some(value) = one(headers, header::AUTHORIZATION) {
            let bearer = value
                .split_once(' ')
                .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            let (_, token) = bearer?;
            return self.token.is(token.trim()).then_some(Shown::Authorization);
        }
        let cookies = headers.get_all(header::COOKIE).iter();
        let mut pairs = cookies
            .filter_map(|cookies| cookies.to_str().ok())
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        if pairs.any(|(name, value)| name == self.cookie && self.token.is(value)) {
            return Some(Shown::Cookie);
        }
        let query = uri.query().filter(|_| *method != Method::POST)?;
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let is_shown = pairs.any(|(name, value)| name == "token" && self.token.is(value));
        is_shown.then_some(Shown::Address)
    }

    /// The cookie that stands for the token from now on.
    fn set_cookie(&self) -> Option<HeaderValue> {
        let (name, token) = (&self.cookie, self.token.as_str());
        HeaderValue::from_str(&format!(
            "{name}={token}; Path=/; HttpOnly; SameSite=Strict"
        ))
        .ok()
    }
}

/// A header that must not be there twice.
fn one(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    match values.next() {
        None => value.to_str().ok(),
        Some(_) => None,
    }
}

/// Lets a request through, or refuses it.
pub(super) async fn check(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let (method, uri) = (request.method(), request.uri());
    let mut response = match guard.check(method, uri, request.headers()) {
        Err(refusal) => refusal.answer().into_response(),
        // The token does not stay in the browser's history.
        Ok(true) if uri.path() == "/" => {
            let mut moved = (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
            if let Some(cookie) = guard.set_cookie() {
                moved.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            moved
        }
        Ok(_) => next.run(request).await,
    };
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests;
