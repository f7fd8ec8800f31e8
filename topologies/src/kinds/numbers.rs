//! The numbers in a topology's name.

use core::fmt::Display;

use crate::error::TopologyError;

/// What follows the name of a kind in the name of a topology.
pub(super) struct Numbers<'a> {
    /// The whole name, for messages.
    given: &'a str,
    form: &'static str,
    text: &'a str,
}

impl<'a> Numbers<'a> {
    /// `text` is what follows the name of the kind and a hyphen in `given`.
    pub(super) fn new(given: &'a str, form: &'static str, text: &'a str) -> Self {
        Self { given, form, text }
    }

    fn refuse(&self, problem: String) -> TopologyError {
        TopologyError::Form {
            given: self.given.to_owned(),
            problem,
            form: self.form,
        }
    }

    /// How many words between hyphens there are.
    pub(super) fn count(&self) -> usize {
        if self.text.is_empty() {
            0
        } else {
            self.text.split('-').count()
        }
    }

    fn number(&self, word: &str) -> Result<u64, TopologyError> {
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.refuse(format!("{word:?} is not a number")));
        }
        word.parse()
            .map_err(|_| self.refuse(format!("{word} is above {}", u64::MAX)))
    }

    /// `N` numbers with hyphens between them.
    ///
    /// # Errors
    /// [`TopologyError::Form`] if they are more, fewer, or no numbers.
    pub(super) fn all<const N: usize>(&self) -> Result<[u64; N], TopologyError> {
        let have = self.count();
        if have != N {
            return Err(self.refuse(format!("{have} numbers where {N} are wanted")));
        }
        let mut numbers = [0; N];
        for (number, word) in numbers.iter_mut().zip(self.text.split('-')) {
            *number = self.number(word)?;
        }
        Ok(numbers)
    }

    /// The sizes of a grid's dimensions with `x` between them, and after a hyphen the hosts at each
    /// switch.
    ///
    /// # Errors
    /// [`TopologyError::Form`] if it is anything else.
    pub(super) fn sizes_and_hosts(&self) -> Result<(Vec<u64>, u64), TopologyError> {
        let have = self.count();
        let (Some((sizes, hosts)), 2) = (self.text.split_once('-'), have) else {
            return Err(self.refuse(format!("{have} words where 2 are wanted")));
        };
        let sizes = sizes
            .split('x')
            .map(|word| self.number(word))
            .collect::<Result<_, _>>()?;
        Ok((sizes, self.number(hosts)?))
    }
}

/// Numbers with a separator between them.
pub(super) fn join<N: Display>(numbers: &[N], separator: &str) -> String {
    let words: Vec<String> = numbers.iter().map(N::to_string).collect();
    words.join(separator)
}
