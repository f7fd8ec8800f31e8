//! `include "FILE"` of ibsim: the lines of another file in place of the line.
//!
//! Counters of GUIDs, `module` and what else a line sets go on into the other file and out of it again, as if
//! it were one text. A name is looked for beside the file that includes, then from the working directory,
//! where ibsim looks.
//!
//! Bounds: files within files to a depth of [`DEPTH_MAX`], [`FILES_MAX`] of them, and what one text may be
//! long in all.

use std::path::{Path, PathBuf};

use super::bounded::read_bounded;
use super::words;
use super::{TEXT_BYTES_MAX, TextFormat};
use crate::error::{TextError, TextProblem, TopologyError};

/// How deep files may include others (ibsim's `MAX_INCLUDE`, the first file among them).
const DEPTH_MAX: usize = 9;
/// How many files a text may be made of.
const FILES_MAX: usize = 1000;

/// A text that is made of one file or several.
#[derive(Debug)]
pub(crate) struct Source {
    /// All lines, with those of other files in place.
    pub(crate) text: String,
    /// The files, the first one first.
    files: Vec<PathBuf>,
    /// By line of the text: the file and the line there, from 1; empty if there is one file.
    origins: Vec<(usize, usize)>,
}

impl Source {
    /// Reads a file, and the files that it includes if it is of ibsim's format or may be.
    ///
    /// # Errors
    /// [`TopologyError::Unreadable`] for the first, [`TopologyError::File`] with the line of the inclusion for
    /// others.
    pub(crate) fn read(path: &Path, format: Option<TextFormat>) -> Result<Self, TopologyError> {
        let text = read_bounded(path, "topology", TEXT_BYTES_MAX);
        let text = text.map_err(|source| TopologyError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let mut source = Self {
            text: String::new(),
            files: vec![path.to_owned()],
            origins: Vec::new(),
        };
        let may_include = matches!(
            format,
            None | Some(TextFormat::Ibsim | TextFormat::Ibnetdiscover)
        );
        if may_include && text.lines().any(is_include) {
            source.add(0, &text, 1)?;
        } else {
            source.text = text;
        }
        Ok(source)
    }

    /// The file of a line of the text, and the line there.
    pub(crate) fn origin(&self, line: usize) -> (&Path, usize) {
        let place = line.saturating_sub(1).min(self.origins.len().max(1) - 1);
        let (file, line) = self.origins.get(place).copied().unwrap_or((0, line));
        (&self.files[file], line)
    }

    fn add(&mut self, file: usize, text: &str, depth: usize) -> Result<(), TopologyError> {
        for (number, line) in (1..).zip(text.lines()) {
            if is_include(line) {
                self.include(file, number, line, depth)?;
                continue;
            }
            self.text.push_str(line);
            self.text.push('\n');
            self.origins.push((file, number));
        }
        Ok(())
    }

    fn include(
        &mut self,
        file: usize,
        number: usize,
        line: &str,
        depth: usize,
    ) -> Result<(), TopologyError> {
        let refused = |problem| TopologyError::File {
            path: self.files[file].clone(),
            source: TextError {
                line: number,
                problem,
            },
        };
        let mut parts = line.split('"').skip(1);
        let (Some(name), Some(_)) = (parts.next(), parts.next()) else {
            return Err(refused(TextProblem::NotUnderstood(words::excerpt(line))));
        };
        if depth == DEPTH_MAX || self.files.len() == FILES_MAX {
            return Err(refused(TextProblem::TooManyFiles));
        }
        let folder = self.files[file].parent().unwrap_or(Path::new(""));
        let places = [folder.join(name), PathBuf::from(name)];
        let found = places.into_iter().find(|path| path.is_file());
        let unreadable = |reason: String| {
            refused(TextProblem::NotIncluded {
                name: words::excerpt(name),
                reason,
            })
        };
        let path = found.ok_or_else(|| unreadable("there is no such file".to_owned()))?;
        let room = TEXT_BYTES_MAX.saturating_sub(self.text.len());
        let text =
            read_bounded(&path, "topology", room).map_err(|error| unreadable(error.to_string()))?;
        self.files.push(path);
        self.add(self.files.len() - 1, &text, depth + 1)
    }
}

/// Whether a line includes another file.
fn is_include(line: &str) -> bool {
    let rest = line.trim_start().strip_prefix("include");
    rest.is_some_and(|rest| rest.trim_start().starts_with('"'))
}
