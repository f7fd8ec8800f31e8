//! Requests as browsers, programs and hostile pages send them.

use super::*;

const TOKEN: &str = "0123456789abcdef0123";

fn guard(address: &str) -> Guard {
    Guard::new(Token::of(TOKEN).unwrap(), address.parse().unwrap())
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        let value = HeaderValue::from_str(value).unwrap();
        (HeaderName::from_static(name), value)
    };
    let mut headers = HeaderMap::new();
    for (name, value) in pairs.iter().map(pair) {
        headers.append(name, value);
    }
    headers
}

fn judge(method: Method, path: &str, pairs: &[(&'static str, &str)]) -> Result<bool, Refusal> {
    let uri: Uri = path.parse().unwrap();
    guard("127.0.0.1:8480").check(&method, &uri, &headers(pairs))
}

const COOKIE: (&str, &str) = ("cookie", "a=b; ibemu-8480=0123456789abcdef0123");
const HOST: (&str, &str) = ("host", "127.0.0.1:8480");
const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:8480");
const BEARER: (&str, &str) = ("authorization", "Bearer 0123456789abcdef0123");

#[test]
fn the_token_is_shown_in_the_address_in_a_cookie_or_in_authorization() {
    let address = format!("/?token={TOKEN}");
    assert_eq!(judge(Method::GET, &address, &[HOST]), Ok(true));
    assert_eq!(judge(Method::GET, "/", &[HOST, COOKIE]), Ok(false));
    assert_eq!(judge(Method::GET, "/", &[HOST, BEARER]), Ok(false));
    for wrong in [
        &[HOST][..],
        &[HOST, ("cookie", "ibemu-8480=0123456789abcdef0124")],
        &[HOST, ("cookie", "ibemu-8481=0123456789abcdef0123")],
        &[HOST, ("authorization", "Bearer 0123456789abcdef012")],
        &[HOST, ("authorization", "Basic 0123456789abcdef0123")],
        &[HOST, BEARER, BEARER],
    ] {
        assert_eq!(
            judge(Method::GET, "/", wrong),
            Err(Refusal::Token),
            "{wrong:?}"
        );
    }
    let wrong = judge(Method::GET, "/?token=0123456789abcdef012", &[HOST]);
    assert_eq!(wrong, Err(Refusal::Token));
}

#[test]
fn names_that_lead_here_by_somebody_elses_name_server_are_refused() {
    for own in [
        "127.0.0.1:8480",
        "localhost:8480",
        "LOCALHOST:8480",
        "[::1]:8480",
        "localhost:9999",
    ] {
        assert_eq!(
            judge(Method::GET, "/", &[("host", own), COOKIE]),
            Ok(false),
            "{own}"
        );
    }
    for strange in [
        "evil.example:8480",
        "127.0.0.1.evil.example:8480",
        "localhost.evil.example:8480",
        "10.1.2.3:8480",
        "127.0.0.1:x",
        "",
    ] {
        let judged = judge(Method::GET, "/", &[("host", strange), COOKIE]);
        assert_eq!(judged, Err(Refusal::Host), "{strange}");
    }
    assert_eq!(judge(Method::GET, "/", &[COOKIE]), Err(Refusal::Host));
    assert_eq!(
        judge(Method::GET, "/", &[HOST, HOST, COOKIE]),
        Err(Refusal::Host)
    );
}

#[test]
fn a_request_of_another_sites_page_is_refused_whatever_it_shows() {
    for origin in [
        "http://evil.example",
        "null",
        "http://127.0.0.1:9999",
        "https://127.0.0.1:8480",
    ] {
        for method in [Method::GET, Method::POST] {
            let judged = judge(method, "/api/cable", &[HOST, COOKIE, ("origin", origin)]);
            assert_eq!(judged, Err(Refusal::Origin), "{origin}");
        }
    }
}

#[test]
fn a_change_needs_the_pages_origin_or_the_token_in_authorization() {
    assert_eq!(
        judge(Method::POST, "/", &[HOST, COOKIE]),
        Err(Refusal::Unnamed)
    );
    assert_eq!(judge(Method::POST, "/", &[HOST, COOKIE, ORIGIN]), Ok(false));
    assert_eq!(judge(Method::POST, "/", &[HOST, BEARER]), Ok(false));
    let address = format!("/?token={TOKEN}");
    assert_eq!(
        judge(Method::POST, &address, &[HOST, ORIGIN]),
        Err(Refusal::Token)
    );
    for method in [Method::PUT, Method::DELETE, Method::OPTIONS] {
        assert_eq!(judge(method, "/", &[HOST, BEARER]), Err(Refusal::Method));
    }
}

#[test]
fn a_server_for_other_machines_answers_to_any_address_and_no_name() {
    let guard = guard("0.0.0.0:80");
    for own in ["10.1.2.3", "10.1.2.3:80", "[fe80::1]:80", "localhost"] {
        assert!(guard.is_own(own), "{own}");
    }
    for strange in ["10.1.2.3:81", "evil.example", "evil.example:80"] {
        assert!(!guard.is_own(strange), "{strange}");
    }
    assert_eq!(guard.url(), format!("http://127.0.0.1:80/?token={TOKEN}"));
}
