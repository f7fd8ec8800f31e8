//! The `connections` text: what a subnet manager remembers of promised bandwidth over its own
//! restarts.
//!
//! Its form is that of [`crate::statements`].
//!
//! ```text
//! version 1                                                first statement, always
//! connection ID SOURCE DESTINATION RATE CLASS DISTANCE SL DLID
//! ```
//!
//! SOURCE and DESTINATION are port GUIDs, RATE is in bits a second, CLASS is `db` or `dbts`; SL and
//! DLID are those that the sender was sent last.

use core::fmt::Write as _;
use std::collections::BTreeSet;

use wire::vendor::QosConnection;
use wire::{Lid, Sl};

use super::CONNECTIONS_MAX;
use crate::ConfigError;
use crate::statements::{self, Damaged, end, guid, number};

const HEADER: &str = "\
# Connections with promised bandwidth, as the ibemu controller last granted them.
# Remove this file to forget them.
version 1
";

/// The text.
pub(super) fn write<'a>(connections: impl Iterator<Item = &'a QosConnection>) -> String {
    let mut text = HEADER.to_owned();
    for one in connections {
        let class = if one.time_sensitive { "dbts" } else { "db" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "connection {} {} {} {} {class} {} {} {}",
            one.id, one.source, one.destination, one.rate_bps, one.distance, one.sl, one.dlid
        );
    }
    text
}

/// The connections of a text, in its order.
///
/// # Errors
/// [`ConfigError::ConnectionsFile`] with the line's number.
pub(super) fn parse(text: &str) -> Result<Vec<QosConnection>, ConfigError> {
    let mut connections: Vec<QosConnection> = Vec::new();
    let mut ids = BTreeSet::new();
    statements::read(text, |keyword, rest| {
        if keyword != "connection" {
            return Err(statements::unknown(keyword));
        }
        let one = connection(rest)?;
        if connections.len() == CONNECTIONS_MAX {
            return Err(format!("more than {CONNECTIONS_MAX} connections"));
        }
        if !ids.insert(one.id) {
            return Err(format!("connection {} is there already", one.id));
        }
        connections.push(one);
        Ok(())
    })
    .map_err(|Damaged { line, problem }| ConfigError::ConnectionsFile { line, problem })?;
    Ok(connections)
}

fn connection(rest: &str) -> Result<QosConnection, String> {
    let mut words = rest.split_whitespace();
    let id = number(words.next(), "an id")?;
    if id == 0 {
        return Err("no connection has the id 0".to_owned());
    }
    let source = guid(words.next())?;
    let destination = guid(words.next())?;
    let rate_bps = number(words.next(), "a rate")?;
    let time_sensitive = match words.next() {
        Some("db") => false,
        Some("dbts") => true,
        _ => return Err("the class must be db or dbts".to_owned()),
    };
    let distance = number(words.next(), "a distance")?;
    let sl = number::<u8>(words.next(), "a service level")?;
    let sl = Sl::new(sl).map_err(|error| error.to_string())?;
    let dlid = number::<u16>(words.next(), "a DLID")?;
    let dlid = Lid::new(dlid);
    end(words.next())?;
    Ok(QosConnection {
        id,
        time_sensitive,
        distance,
        sl,
        source,
        destination,
        rate_bps,
        dlid,
        ..QosConnection::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Guid;

    fn one(id: u32) -> QosConnection {
        QosConnection {
            id,
            time_sensitive: id.is_multiple_of(2),
            distance: 8,
            sl: Sl::constant(4),
            source: Guid(0x11),
            destination: Guid(0x22),
            rate_bps: 64_000_000,
            dlid: Lid::new(52),
            ..QosConnection::default()
        }
    }

    #[test]
    fn connections_come_back_from_their_text() {
        let all = [one(1), one(2), one(9)];
        let text = write(all.iter());
        assert_eq!(parse(&text), Ok(all.to_vec()));
        assert_eq!(parse(&write([].iter())), Ok(Vec::new()));
    }

    #[test]
    fn a_damaged_line_is_refused_with_its_number() {
        let line = "connection 1 0x11 0x22 64 db 0 4 52";
        for (text, problem) in [
            ("connection", "version 1"),
            ("version 1\nconnection 0 0x11 0x22 64 db 0 4 52", "the id 0"),
            ("version 1\nconnection 1 0x11 0xzz 64 db 0 4 52", "no GUID"),
            (
                "version 1\nconnection 1 0x11 0x22 64 best 0 4 52",
                "db or dbts",
            ),
            ("version 1\nconnection 1 0x11 0x22 64 db 0 16 52", "Sl 0x10"),
            (
                "version 1\nconnection 1 0x11 0x22 64 db 0 4",
                "a DLID is missing",
            ),
            (
                "version 1\nconnection 1 0x11 0x22 64 db 0 4 52 1",
                "too much",
            ),
            ("version 1\nlid 1", "unknown statement"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{error}");
            let lines = text.lines().count();
            assert!(error.contains(&format!("line {lines}")), "{error}");
        }
        let twice = parse(&format!("version 1\n{line}\n{line}\n")).unwrap_err();
        assert!(twice.to_string().contains("there already"), "{twice}");
    }
}
