//! Topologies by name: `fat-tree-4-3`, `torus-4x4-2` and so on.
//!
//! A kind of topology is a module here: the form of its names, its numbers and their limits, and its
//! cables. [`KINDS`] lists them. Whatever reads a name or lists the kinds takes them from there.

use core::fmt;

use crate::error::{SWITCH_PORTS_MAX, TopologyError};
use crate::graph::Graph;
use numbers::Numbers;

mod as_built;
mod clos;
mod directors;
mod dragonfly;
mod fat_tree;
mod grid;
mod hypercube;
mod irregular;
mod mesh;
mod numbers;
mod ring;
mod star;
mod torus;
mod wiring;

pub use as_built::AsBuilt;
pub use fat_tree::{Below, FatTree, SwitchLabel};

/// All kinds, in the order of help texts: the only place that knows them.
const KINDS: &[Kind] = &[
    fat_tree::KIND,
    clos::KIND,
    hypercube::KIND,
    mesh::KIND,
    torus::KIND,
    ring::KIND,
    irregular::KIND,
    dragonfly::KIND,
    directors::KIND,
    as_built::KIND,
    star::KIND,
];

/// A kind of topology.
struct Kind {
    /// The word that its names begin with. None is the beginning of another and a hyphen.
    name: &'static str,
    /// How its names are written: the word, and then the numbers by what they are called, in
    /// capitals.
    form: &'static str,
    /// Reads the numbers.
    read: fn(&Numbers<'_>) -> Result<Box<dyn Generator>, TopologyError>,
}

/// The numbers of a topology. [`fmt::Display`] writes its name in the normal form, which reads back.
pub(crate) trait Generator: fmt::Display {
    /// The graph of this topology.
    ///
    /// # Errors
    /// [`TopologyError`] that names the number at fault and what is allowed.
    fn graph(&self) -> Result<Graph, TopologyError>;

    /// Checks a number. `what` is what the form calls it.
    ///
    /// # Errors
    /// [`TopologyError::OutOfRange`] if it is not `min` to `max`.
    fn check_range(
        &self,
        what: &'static str,
        value: u64,
        min: u64,
        max: u64,
    ) -> Result<(), TopologyError> {
        if (min..=max).contains(&value) {
            return Ok(());
        }
        Err(TopologyError::OutOfRange {
            topology: self.to_string(),
            what,
            value,
            min,
            max,
        })
    }

    /// Checks the number of ports that the switches called `which` need.
    ///
    /// # Errors
    /// [`TopologyError::Impossible`] if a switch has not so many.
    fn check_ports(&self, which: &str, ports: u64) -> Result<(), TopologyError> {
        if ports <= SWITCH_PORTS_MAX {
            return Ok(());
        }
        Err(self.impossible(format!(
            "{which} would need {ports} ports; a switch has at most {SWITCH_PORTS_MAX}"
        )))
    }

    /// The error for numbers that do not go together.
    fn impossible(&self, reason: String) -> TopologyError {
        TopologyError::Impossible {
            topology: self.to_string(),
            reason,
        }
    }
}

/// How many edits a word may be away from the name of a kind that it is taken to mean.
const TYPING_ERRORS_MAX: usize = 2;

/// The forms of all kinds, for help texts.
#[must_use]
pub fn forms() -> Vec<&'static str> {
    KINDS.iter().map(|kind| kind.form).collect()
}

/// Reads a name. Whether there can be such a topology is found out by [`Generator::graph`].
///
/// # Errors
/// [`TopologyError::Unknown`] if it starts with the name of no kind, [`TopologyError::Form`] if
/// what follows is not the numbers of its kind.
pub(crate) fn read(given: &str) -> Result<Box<dyn Generator>, TopologyError> {
    for kind in KINDS {
        let numbers = match given.strip_prefix(kind.name) {
            Some("") => "",
            Some(rest) => match rest.strip_prefix('-') {
                Some(numbers) => numbers,
                None => continue,
            },
            None => continue,
        };
        return (kind.read)(&Numbers::new(given, kind.form, numbers));
    }
    Err(TopologyError::Unknown {
        given: given.to_owned(),
        close: close_to(given),
        kinds: forms().join(", "),
    })
}

/// Forms of the kinds whose names are a few typing errors away from what was given.
fn close_to(given: &str) -> Vec<&'static str> {
    let word = given
        .split(|c: char| c.is_ascii_digit())
        .next()
        .unwrap_or_default()
        .trim_matches(|c: char| !c.is_alphabetic())
        .to_ascii_lowercase();
    if word.is_empty() || word.chars().count() > 32 {
        return Vec::new();
    }
    KINDS
        .iter()
        .filter(|Kind { name, .. }| {
            strsim::levenshtein(&word, name) <= TYPING_ERRORS_MAX
                || (word.len() > 2 && (name.contains(&word) || word.contains(name)))
        })
        .map(|kind| kind.form)
        .collect()
}

#[cfg(test)]
mod tests;
