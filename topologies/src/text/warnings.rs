//! What a reader reports beside the graph.

use core::fmt;
use std::path::PathBuf;

use crate::error::TextProblem;

/// How many warnings are kept; the others are counted.
const KEPT_MAX: usize = 20;

/// A line that was not taken as it stands, and why. What the other lines say is sound without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextWarning {
    /// The file, if it is another one that the first includes.
    pub file: Option<PathBuf>,
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub problem: TextProblem,
}

impl fmt::Display for TextWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}, ", file.display())?;
        }
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

/// The warnings of a text in the order of its lines: the first ones, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextWarnings {
    kept: Vec<TextWarning>,
    count: usize,
}

impl TextWarnings {
    /// The first warnings.
    pub fn iter(&self) -> impl Iterator<Item = &TextWarning> {
        self.kept.iter()
    }

    /// How many warnings there are, those that were not kept among them.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// How many were not kept.
    #[must_use]
    pub const fn left_out(&self) -> usize {
        self.count - self.kept.len()
    }

    pub(super) fn add(&mut self, line: usize, problem: TextProblem) {
        self.count += 1;
        if self.kept.len() == KEPT_MAX && self.kept.last().is_some_and(|last| last.line <= line) {
            return;
        }
        let place = self.kept.partition_point(|kept| kept.line <= line);
        let warning = TextWarning {
            file: None,
            line,
            problem,
        };
        self.kept.insert(place, warning);
        self.kept.truncate(KEPT_MAX);
    }

    /// Says where the lines stand in the files that the text is made of.
    pub(crate) fn locate(&mut self, place: impl Fn(usize) -> (Option<PathBuf>, usize)) {
        for warning in &mut self.kept {
            (warning.file, warning.line) = place(warning.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_are_kept_and_all_are_counted() {
        let mut warnings = TextWarnings::default();
        for line in (1..=30).rev() {
            warnings.add(line, TextProblem::Empty);
        }
        assert_eq!((warnings.count(), warnings.left_out()), (30, 10));
        let lines: Vec<usize> = warnings.iter().map(|warning| warning.line).collect();
        assert_eq!(lines, (1..=20).collect::<Vec<_>>());
    }
}
