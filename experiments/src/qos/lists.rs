//! Lists of counts in one column of a CSV: spaces between numbers, semicolons between service
//! levels.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Service levels of connections: DB's four bands (VLARB01, section 5.2).
pub(super) const LEVELS: usize = 4;

/// Counts in an order that the column says: `12 0 7`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct Counts(pub(super) Vec<u64>);

impl Counts {
    /// The sum of all.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds the counts of another run to those of this one.
    pub(super) fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum += more;
        }
    }

    /// The share of the counts up to an index: 0 to 1; 1 if there are none.
    pub(super) fn share_up_to(&self, place: usize) -> f64 {
        let first: u64 = self.0.iter().take(place + 1).sum();
        match self.sum() {
            0 => 1.0,
            all => sim::real(first) / sim::real(all),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, count) in self.0.iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{count}")?;
        }
        Ok(())
    }
}

impl From<Counts> for String {
    fn from(counts: Counts) -> Self {
        counts.to_string()
    }
}

impl TryFrom<String> for Counts {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let counts = text.split_whitespace().map(str::parse);
        let counts: Result<Vec<u64>, _> = counts.collect();
        counts
            .map(Self)
            .map_err(|error| format!("{text:?}: {error}"))
    }
}

/// Counts by service level: `12 0 7;1 2 3;0 0 1;4 4 4`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct ByLevel(pub(super) [Counts; LEVELS]);

impl ByLevel {
    /// Adds the counts of another run to those of this one.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            sum.add(more);
        }
    }
}

impl From<ByLevel> for String {
    fn from(levels: ByLevel) -> Self {
        levels.0.map(|counts| counts.to_string()).join(";")
    }
}

impl TryFrom<String> for ByLevel {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let levels = text
            .split(';')
            .map(|part| Counts::try_from(part.to_owned()));
        let levels: Vec<Counts> = levels.collect::<Result<_, _>>()?;
        <[Counts; LEVELS]>::try_from(levels)
            .map(Self)
            .map_err(|levels| format!("{} service levels: {LEVELS}", levels.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let counts = |numbers: &[u64]| Counts(numbers.to_vec());
        let levels = ByLevel([counts(&[1, 2]), counts(&[]), counts(&[7]), counts(&[0])]);
        let text = String::from(levels.clone());
        assert_eq!(text, "1 2;;7;0");
        assert_eq!(ByLevel::try_from(text), Ok(levels));
        assert!(ByLevel::try_from("1;2".to_owned()).is_err());
        assert!(Counts::try_from("1 x".to_owned()).is_err());
    }

    #[test]
    fn shares_are_of_all_counts_and_those_of_nothing_are_whole() {
        let counts = Counts(vec![1, 2, 1]);
        assert!((counts.share_up_to(1) - 0.75).abs() < 1e-12);
        assert!((Counts::default().share_up_to(0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn runs_of_different_length_add_up() {
        let mut sum = Counts(vec![1]);
        sum.add(&Counts(vec![1, 5]));
        assert_eq!(sum, Counts(vec![2, 5]));
    }
}
