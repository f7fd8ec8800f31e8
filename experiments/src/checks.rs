//! Checks of values that several kinds of plans share, and how much of a plan an error repeats.

use core::fmt::Display;

use sim::Model;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use topologies::Graph;

/// The longest part of a message that a plan's own text makes, characters.
const MESSAGE_CHARS_MAX: usize = 1000;

/// A key of a plan and what is wrong with its value.
pub(crate) type Refusal = (&'static str, String);

/// A list with at least one value.
///
/// # Errors
/// The key, if there is none.
pub(crate) fn not_empty<T>(key: &'static str, values: &[T]) -> Result<(), Refusal> {
    match values {
        [] => Err((key, "the list is empty: at least one".to_owned())),
        _ => Ok(()),
    }
}

/// The bounds `min` and `max` of a statement: 0 or more, the least first. That they are numbers and
/// finite is checked for whole files.
///
/// # Errors
/// `min` or `max`, and what is allowed.
pub(crate) fn bounds(min: f64, max: f64) -> Result<(), Refusal> {
    not_negative("min", &[min])?;
    if min > max {
        return Err(("min", format!("{min} is above max, {max}")));
    }
    Ok(())
}

/// A number between two others, or one of them.
///
/// # Errors
/// The key, and what is allowed.
pub(crate) fn between<T: PartialOrd + Display>(
    key: &'static str,
    value: T,
    (least, most): (T, T),
) -> Result<(), Refusal> {
    match least <= value && value <= most {
        true => Ok(()),
        false => Err((key, format!("{value}: {least} to {most}"))),
    }
}

/// Loads of links or hosts: above 0, at most `most`, ascending.
///
/// # Errors
/// `loads`, and what is allowed.
pub(crate) fn loads(values: &[f64], most: f64, what: &str) -> Result<(), Refusal> {
    let is_load = |load: &f64| *load > 0.0 && *load <= most;
    match values.iter().all(is_load) && values.is_sorted() {
        true => Ok(()),
        false => Err(("loads", format!("{what}, ascending"))),
    }
}

/// The graph of a topology that is given by its name.
///
/// # Errors
/// The key, if there is none of that name.
pub(crate) fn graph(key: &'static str, name: &str) -> Result<Graph, Refusal> {
    match topologies::parse(name) {
        Ok(topology) => Ok(topology.graph),
        Err(error) => Err((key, error.to_string())),
    }
}

/// A model of links and devices that can be built.
///
/// # Errors
/// The key that its value comes from, if it cannot.
pub(crate) fn model(key: &'static str, model: &Model) -> Result<(), Refusal> {
    model.check().map_err(|error| (key, error.to_string()))
}

/// Values of which no two are the same.
///
/// # Errors
/// The key, and the first value that stands twice.
pub(crate) fn distinct<T: PartialEq + Display>(
    key: &'static str,
    values: &[T],
) -> Result<(), Refusal> {
    let mut all = values.iter().enumerate();
    match all.find(|(at, value)| values[..*at].contains(value)) {
        Some((_, value)) => Err((key, format!("{value} stands twice: each once"))),
        None => Ok(()),
    }
}

/// Values of which each is above the one before.
///
/// # Errors
/// The key, if they are not.
pub(crate) fn ascending<T: PartialOrd>(key: &'static str, values: &[T]) -> Result<(), Refusal> {
    match values.is_sorted_by(|one, next| one < next) {
        true => Ok(()),
        false => Err((key, "ascending, each once".to_owned())),
    }
}

/// Numbers of which none is below 0.
///
/// # Errors
/// The key, if one is.
pub(crate) fn not_negative(key: &'static str, values: &[f64]) -> Result<(), Refusal> {
    match values
        .iter()
        .find(|value| !(value.is_finite() && **value >= 0.0))
    {
        Some(value) => Err((key, format!("{value}: 0 or more"))),
        None => Ok(()),
    }
}

/// The first number of a table that is not finite: its key, its text, and where it stands.
pub(crate) fn not_finite<'t>(table: &'t DeTable<'_>) -> Option<(&'t str, &'t str, usize)> {
    let found = table.iter().filter_map(|(key, value)| {
        let (key, text, at) = not_finite_in(key.get_ref(), value)?;
        Some((key, text, at))
    });
    found.min_by_key(|&(_, _, at)| at)
}

fn not_finite_in<'t>(
    key: &'t str,
    value: &'t Spanned<DeValue<'_>>,
) -> Option<(&'t str, &'t str, usize)> {
    match value.get_ref() {
        DeValue::Float(float) => {
            let number: Option<f64> = float.as_str().parse().ok();
            let is_finite = number.is_some_and(f64::is_finite);
            (!is_finite).then(|| (key, float.as_str(), value.span().start))
        }
        DeValue::Array(values) => {
            let mut values = values.iter();
            values.find_map(|value| not_finite_in(key, value))
        }
        DeValue::Table(table) => not_finite(table),
        _ => None,
    }
}

/// A message of bounded length, whatever a plan has put into it.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{} ..", &text[..end]),
        None => text.to_owned(),
    }
}

/// The message of the TOML parser. It shows the line in question unless that is too long to be read.
pub(crate) fn error_text(text: &str, error: &toml::de::Error) -> String {
    let whole = error.to_string();
    if whole.chars().nth(MESSAGE_CHARS_MAX).is_none() {
        return whole;
    }
    let start = error.span().map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or(text);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    let message = shortened(error.message());
    format!("line {line}, column {column}: {message}")
}
