//! Reading what tools print.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Display};

use e2e::Outcome;

/// `Ok`, or what differs.
pub(crate) type Verdict = Result<(), String>;

/// The value of a line `name:.......value` or `name.......value`.
pub(crate) fn value<'a>(text: &'a str, name: &str) -> Result<&'a str, String> {
    values(text, name)
        .next()
        .ok_or_else(|| format!("no {name} is printed"))
}

/// The values of all lines of that name, in order.
pub(crate) fn values<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| {
        let rest = line.trim_start().strip_prefix(name)?;
        let named = rest.starts_with([':', '.']);
        named.then(|| rest.trim_start_matches([':', '.']).trim())
    })
}

/// A number as tools print it, decimal or hexadecimal.
pub(crate) fn parsed(digits: &str) -> Result<u64, String> {
    let number = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    number.map_err(|_| format!("{digits:?} is no number"))
}

/// The number of a line `name:.......number`.
pub(crate) fn number(text: &str, name: &str) -> Result<u64, String> {
    parsed(value(text, name)?)
}

/// Asserts that the line of that name has this value.
pub(crate) fn says(text: &str, name: &str, expected: impl Display) -> Verdict {
    same(name, value(text, name)?, expected.to_string().as_str())
}

/// Asserts that the line of that name has this number, in whatever base.
pub(crate) fn counts(text: &str, name: &str, expected: impl Into<u64>) -> Verdict {
    same(name, number(text, name)?, expected.into())
}

/// Asserts that two values are equal.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, printed: T, is: T) -> Verdict {
    match printed == is {
        true => Ok(()),
        false => Err(format!("{what}: printed {printed:?}, is {is:?}")),
    }
}

/// Asserts that two sets are equal, and names what is in one of them only.
pub(crate) fn same_set<T: Ord + Debug>(
    what: &str,
    printed: &BTreeSet<T>,
    is: &BTreeSet<T>,
) -> Verdict {
    let extra: Vec<&T> = printed.difference(is).take(3).collect();
    let missing: Vec<&T> = is.difference(printed).take(3).collect();
    match (&extra[..], &missing[..]) {
        ([], []) => Ok(()),
        _ => Err(format!(
            "{what}: {} printed, {} are; not there: {extra:?}; not printed: {missing:?}",
            printed.len(),
            is.len()
        )),
    }
}

/// Asserts that the output contains a text.
pub(crate) fn contains(text: &str, part: &str) -> Verdict {
    match text.contains(part) {
        true => Ok(()),
        false => Err(format!("{part:?} is not printed")),
    }
}

/// Asserts that a tool tells this failure.
pub(crate) fn fails(outcome: &Outcome, part: &str) -> Verdict {
    let said = [&outcome.stdout, &outcome.stderr];
    match said.iter().any(|text| text.contains(part)) {
        true => Ok(()),
        false => Err(format!("it does not say {part:?}")),
    }
}

/// Asserts that so many lines begin with a text.
pub(crate) fn lines_with(text: &str, start: &str, expected: usize) -> Verdict {
    let lines = text.lines().filter(|line| line.starts_with(start)).count();
    same(&format!("lines that begin with {start:?}"), lines, expected)
}

/// The hexadecimal numbers of a text that begin with `0x` and are as long as a GUID, whose first digit
/// some tools leave out, in order.
pub(crate) fn guids(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .filter(|word| (17..=18).contains(&word.len()))
        .filter_map(|word| word.strip_prefix("0x"))
        .filter_map(|digits| u64::from_str_radix(digits, 16).ok())
        .collect()
}

/// The text between the first pair of quotes of a line.
pub(crate) fn quoted(line: &str) -> Option<&str> {
    line.split('"').nth(1)
}

/// What `dump_fts` and `ibroute` print of switches: by node GUID, the words behind each LID.
pub(crate) fn tables(text: &str) -> Result<BTreeMap<u64, BTreeMap<u16, String>>, String> {
    let mut tables = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if line.contains(" of switch ") {
            let guid = guids(line).first().copied();
            let guid = guid.ok_or_else(|| format!("no GUID in {line:?}"))?;
            current = Some(tables.entry(guid).or_insert_with(BTreeMap::new));
        } else if let Some(rest) = line.strip_prefix("0x")
            && let Some((lid, ports)) = rest.split_once(' ')
        {
            let lid = u16::from_str_radix(lid, 16).map_err(|_| format!("no LID in {line:?}"))?;
            let table = current.as_mut().ok_or("an entry of no switch")?;
            table.insert(lid, ports.to_owned());
        }
    }
    Ok(tables)
}

/// The records of `saquery`: the text behind each line that begins with a word and ends with `dump:`.
pub(crate) fn records(text: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !line.starts_with(['\t', ' ']) && line.trim_end().ends_with("dump:") {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| &text[start..end])
        .collect()
}
