//! Reads `.lst` files: `ibdiagnet2.lst` of ibdiagnet, `opensm-subnet.lst` of OpenSM. A line is a cable with all
//! about the nodes at its ends, numbers in hexadecimal:
//!
//! ```text
//! { SW Ports:24 SystemGUID:0002c9.. NodeGUID:0002c9.. PortGUID:0002c9.. VenID:0002C9 DevID:C738 Rev:000000A1 {leaf 1} LID:0002 PN:14 } { CA .. } PHY=4x LOG=ACT SPD=10
//! ```
//!
//! ibdiagnet writes a line for each cable, OpenSM one for each of its ends.

use wire::choice::Choice as _;
use wire::convert::hexadecimal;
use wire::{Guid, LinkRate, LinkSpeed, LinkWidth};

use super::draft::{Draft, Record};
use super::words;
use crate::error::{TextError, TextProblem};
use crate::graph::NodeKind;

/// A node and the port of a line's cable.
struct Side {
    record: Record,
    port: u8,
}

/// What stands in a `.lst` file.
pub(super) fn read(text: &str) -> Result<Draft, TextError> {
    let mut draft = Draft::default();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(problem) = words::control_character(line) {
            draft.lose(number, problem);
            continue;
        }
        let sides = side(number, line).and_then(|(a, rest)| {
            let (b, rest) = side(number, rest)?;
            Some((a, b, rest))
        });
        let Some((a, b, rest)) = sides else {
            let problem = TextProblem::NotUnderstood(words::excerpt(line));
            match line.starts_with('{') {
                true => draft.lose(number, problem),
                false => draft.warn(number, problem),
            }
            continue;
        };
        let error = |problem| TextError {
            line: number,
            problem,
        };
        let [a, b] = [node(&mut draft, a), node(&mut draft, b)];
        let (a, b) = (a.map_err(error)?, b.map_err(error)?);
        draft.cable(number, a, b, rate(rest)).map_err(error)?;
    }
    Ok(draft)
}

/// The place and port of a side whose node may be known already.
fn node(draft: &mut Draft, side: Side) -> Result<(usize, u8), TextProblem> {
    let Side { record, port } = side;
    let place = match draft.find(&record.id) {
        Some(place) => place,
        None => draft.node(record.clone())?,
    };
    let known = &mut draft.records[place];
    if port > known.ports {
        return Err(TextProblem::NoSuchPort {
            node: known.id.clone(),
            port: port.to_string(),
            ports: known.ports,
        });
    }
    for (&port, &guid) in &record.port_guids {
        known.port_guids.entry(port).or_insert(guid);
    }
    Ok((place, port))
}

/// The side that a text begins with, and the text behind it.
fn side(line: usize, text: &str) -> Option<(Side, &str)> {
    let text = text.trim_start().strip_prefix('{')?;
    // A description may hold braces, blanks and colons.
    let without = text.find(" LID:")?;
    let (head, description, tail) = match text.find('{').filter(|&at| at < without) {
        Some(open) => {
            let mut ends = text[open..].match_indices("} LID:");
            let (end, _) = ends.find(|(at, _)| is_tail(&text[open + at + 1..]))?;
            let close = open + end;
            (&text[..open], &text[open + 1..close], &text[close + 1..])
        }
        None => (&text[..without], "", &text[without..]),
    };
    let (tail, rest) = tail.split_once('}')?;
    let value = |name: &str| {
        let words = head.split_whitespace().chain(tail.split_whitespace());
        let mut values = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
        let digits = values.next()?;
        hexadecimal(digits)
    };
    let word = head.split_whitespace().next()?;
    let (kind, letter) = match word.get(..2)?.to_ascii_uppercase().as_str() {
        "SW" => (NodeKind::Switch, 'S'),
        "CA" => (NodeKind::Host, 'H'),
        "RT" => (NodeKind::Host, 'R'),
        _ => return None,
    };
    let number = |name| {
        u8::try_from(value(name)?)
            .ok()
            .filter(|&n| n > 0 && n < u8::MAX)
    };
    let (ports, port) = (number("Ports")?, number("PN")?);
    let guid = value("NodeGUID")?;
    let mut record = Record::new(line, format!("{letter}-{guid:016x}"), kind, ports);
    record.guid = Some(Guid(guid));
    record.description = words::name(description).to_owned();
    record.is_router = letter == 'R';
    record.vendor_id = value("VenID").and_then(|number| u32::try_from(number).ok());
    record.device_id = value("DevID").and_then(device_id);
    record.system_image_guid = value("SystemGUID").filter(|&guid| guid != 0).map(Guid);
    if kind == NodeKind::Host {
        let guid = value("PortGUID")?;
        record.port_guids.insert(port, Guid(guid));
    }
    Some((Side { record, port }, rest))
}

/// Whether a text begins as what follows a description: `LID:0002 PN:14 }`.
fn is_tail(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let mut is_number = |name: &str| {
        let digits = words.next().and_then(|word| word.strip_prefix(name));
        digits.is_some_and(|digits| hexadecimal(digits).is_some())
    };
    is_number("LID:") && is_number("PN:") && words.next() == Some("}")
}

/// OpenSM writes the number of the second node in the upper half of 32 bits.
fn device_id(number: u64) -> Option<u16> {
    let shifted = if number & 0xffff == 0 {
        number >> 16
    } else {
        number
    };
    u16::try_from(shifted).ok()
}

/// Width and speed as in `PHY=4x LOG=ACT SPD=25`.
fn rate(rest: &str) -> Option<LinkRate> {
    let mut words = rest.split_whitespace();
    let width = words.find_map(|word| word.strip_prefix("PHY="))?;
    let speed = words.find_map(|word| word.strip_prefix("SPD="))?;
    let speed = match speed {
        "2.5" => LinkSpeed::Sdr,
        "5" => LinkSpeed::Ddr,
        "10" => LinkSpeed::Qdr,
        "FDR10" => LinkSpeed::Fdr10,
        "14" => LinkSpeed::Fdr,
        "25" => LinkSpeed::Edr,
        "50" => LinkSpeed::Hdr,
        "100" => LinkSpeed::Ndr,
        "200" => LinkSpeed::Xdr,
        _ => return None,
    };
    let width = LinkWidth::from_name(width).ok()?;
    Some(LinkRate { width, speed })
}
