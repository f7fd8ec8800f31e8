//! Reads what `iblinkinfo` prints, also with `-l`, `--switches-only` and `-p`:
//!
//! ```text
//! Switch: 0x506b4b0300820910 MF0;leaf 1:MSB7700/U1:
//!            2    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       3    1[  ] "node01 mlx5_0" ( )
//! CA: node01 mlx5_0:
//!       0x248a070300928186      3    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       2    1[  ] "MF0;leaf 1:MSB7700/U1" ( )
//! ```
//!
//! A port without a cable has a line of its own that says whether it is switched off:
//!
//! ```text
//!            2    3[  ] ==(                Down/ Polling)==>             [  ] "" ( )
//!            2    4[  ] ==(                Down/Disabled)==>             [  ] "" ( )
//! ```
//!
//! With `-l` there are no headings; each end has its port GUID, and its own name stands in quotes behind it.
//! Without, peers are found by LID, or by name if they have none.

use wire::choice::Choice as _;
use wire::convert::hexadecimal;
use wire::{Guid, LinkRate, LinkSpeed, LinkWidth};

use super::draft::Draft;
use super::rows::{self, Row, Side};
use super::words;
use crate::error::{TextError, TextProblem};
use crate::graph::NodeKind;

/// What stands in an output of iblinkinfo.
pub(super) fn read(text: &str) -> Result<Draft, TextError> {
    let mut draft = Draft::default();
    let mut rows = Vec::new();
    let mut heading: Option<(usize, Side)> = None;
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(problem) = words::control_character(line) {
            draft.lose(number, problem);
        } else if let Some(side) = read_heading(line) {
            heading = Some((number, side));
        } else if let Some(row) = row(number, line, heading.as_ref()) {
            rows.push(row);
        } else {
            let problem = TextProblem::NotUnderstood(words::excerpt(line));
            match is_row(line) {
                true => draft.lose(number, problem),
                false => draft.warn(number, problem),
            }
        }
    }
    rows::assemble(&rows, draft)
}

/// Whether a line has the arrow of iblinkinfo.
pub(super) fn is_row(line: &str) -> bool {
    line.split_once("==(")
        .is_some_and(|(_, rest)| rest.contains(")==>"))
}

fn read_heading(line: &str) -> Option<Side> {
    let (word, rest) = line.split_once(": ")?;
    let name = rest.strip_suffix(':')?;
    let kind = match word {
        "Switch" => NodeKind::Switch,
        "CA" | "Router" => NodeKind::Host,
        _ => return None,
    };
    let mut side = Side {
        kind: Some(kind),
        is_router: word == "Router",
        ..Side::default()
    };
    if word != "Switch" {
        side.name = words::name(name.trim()).to_owned();
        return Some(side);
    }
    let (guid, name) = name.split_once(' ').unwrap_or((name, ""));
    side.guid = Some(read_guid(guid)?);
    side.name = words::name(name.trim()).to_owned();
    Some(side)
}

fn row(line: usize, text: &str, heading: Option<&(usize, Side)>) -> Option<Row> {
    let (left, rest) = text.split_once("==(")?;
    let (state, right) = rest.split_once(")==>")?;
    let has_own_name = left.contains('"');
    let mut own = side(left)?;
    let mut group = None;
    if !has_own_name {
        let (number, of_heading) = heading?;
        own = Side {
            guid: own.guid.or(of_heading.guid),
            lid: own.lid,
            port: own.port,
            ..of_heading.clone()
        };
        group = Some(*number);
    }
    // Without a peer there is a port without number, or no port at all.
    let peer = match right.trim() {
        right if right.starts_with('[') || right.starts_with("\"Port not available") => None,
        right => Some(side(right)?),
    };
    Some(Row {
        line,
        group,
        own,
        peer,
        rate: rate(state),
        is_disabled: state.trim_end().ends_with("Disabled"),
    })
}

fn read_guid(word: &str) -> Option<Guid> {
    hexadecimal(word.strip_prefix("0x")?).map(Guid)
}

/// `[GUID] ["NAME"] LID PORT[EXTERNAL] ["NAME" ..]`.
fn side(text: &str) -> Option<Side> {
    let mut side = Side::default();
    let mut rest = text.trim();
    if let Some((word, behind)) = rest
        .split_once(' ')
        .filter(|(word, _)| word.starts_with("0x"))
    {
        side.guid = Some(read_guid(word)?);
        rest = behind.trim();
    }
    if let Some((head, behind)) = rest.split_once('"') {
        let (name, tail) = behind.rsplit_once('"')?;
        side.name = words::name(name.trim()).to_owned();
        rest = if head.trim().is_empty() { tail } else { head };
    }
    let (numbers, _) = rest.split_once('[')?;
    let mut numbers = numbers.split_whitespace();
    side.lid = numbers.next()?.parse().ok()?;
    side.port = numbers.next()?.parse().ok()?;
    (side.port > 0 && side.port < u8::MAX).then_some(side)
}

/// Width and speed as in `4X      25.78125 Gbps Active/  LinkUp`.
fn rate(state: &str) -> Option<LinkRate> {
    let mut words = state.split_whitespace();
    let width = LinkWidth::from_name(&words.next()?.to_ascii_lowercase()).ok()?;
    let speed = match words.next()? {
        "2.5" => LinkSpeed::Sdr,
        "5.0" => LinkSpeed::Ddr,
        "10.0" if state.contains("(FDR10)") => LinkSpeed::Fdr10,
        "10.0" => LinkSpeed::Qdr,
        "14.0625" => LinkSpeed::Fdr,
        "25.78125" => LinkSpeed::Edr,
        "53.125" => LinkSpeed::Hdr,
        "106.25" => LinkSpeed::Ndr,
        "212.5" => LinkSpeed::Xdr,
        _ => return None,
    };
    Some(LinkRate { width, speed })
}
