//! Reads the ports report, `ibnetdiscover -p`:
//!
//! ```text
//! SW   236  1 0x2c5eab0300c26280 4x NDR - CA   647  1 0xe09d7303007a4bd8 ( 'spine 1' - 'node01 mlx5_0' )
//! SW   236  2 0x2c5eab0300c26280 4x SDR                                    'spine 1'
//! ```

use wire::Guid;
use wire::convert::hexadecimal;

use super::draft::Draft;
use super::rows::{self, Row, Side};
use super::words;
use crate::error::{TextError, TextProblem};
use crate::graph::NodeKind;

/// What stands in a ports report.
pub(super) fn read(text: &str) -> Result<Draft, TextError> {
    let mut draft = Draft::default();
    let mut rows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(problem) = words::control_character(line) {
            draft.lose(number, problem);
        } else if let Some(row) = row(number, line) {
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

/// Whether a line begins as those of a ports report do.
pub(super) fn is_row(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_kind = words.next().and_then(kind).is_some();
    let mut is_number = || words.next().is_some_and(|word| word.parse::<u16>().is_ok());
    is_kind && is_number() && is_number() && words.next().is_some_and(|word| word.starts_with("0x"))
}

fn row(line: usize, text: &str) -> Option<Row> {
    let (mut own, rest) = side(text)?;
    let (width, rest) = rest.trim_start().split_once(' ')?;
    let (speed, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let rate = words::rate(&format!("{width}{speed}"));
    let rest = rest.trim();
    let Some(rest) = rest.strip_prefix("- ") else {
        let name = rest.strip_prefix('\'')?.strip_suffix('\'')?;
        own.name = words::name(name).to_owned();
        return Some(Row {
            line,
            group: None,
            own,
            peer: None,
            rate: None,
            is_disabled: false,
        });
    };
    let (mut peer, rest) = side(rest)?;
    let names = rest.trim().strip_prefix("( '")?.strip_suffix("' )")?;
    let (own_name, peer_name) = names.split_once("' - '")?;
    own.name = words::name(own_name).to_owned();
    peer.name = words::name(peer_name).to_owned();
    Some(Row {
        line,
        group: None,
        own,
        peer: Some(peer),
        rate,
        is_disabled: false,
    })
}

fn kind(word: &str) -> Option<NodeKind> {
    match word {
        "SW" => Some(NodeKind::Switch),
        "CA" | "RT" => Some(NodeKind::Host),
        _ => None,
    }
}

/// Kind, LID, port and GUID, and the text behind them.
fn side(text: &str) -> Option<(Side, &str)> {
    let mut rest = text;
    let mut word = || {
        rest = rest.trim_start();
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        word
    };
    let (of_kind, lid, port, guid) = (word(), word(), word(), word());
    let guid = hexadecimal(guid.strip_prefix("0x")?)?;
    let side = Side {
        kind: Some(kind(of_kind)?),
        is_router: of_kind == "RT",
        guid: Some(Guid(guid)),
        lid: lid.parse().ok()?,
        port: port
            .parse()
            .ok()
            .filter(|&port| port > 0 && port < u8::MAX)?,
        name: String::new(),
    };
    Some((side, rest))
}
