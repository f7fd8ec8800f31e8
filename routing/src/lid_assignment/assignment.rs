//! Which configuration each pair of hosts uses, for all destinations.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use wire::Lmc;

use super::LidError;
use super::exact::exact;
use super::heuristics::{First, color, greedy, split_merge};
use super::routes::Routes;
use super::splits::Problem;
use crate::network::Network;

/// How paths to a destination are distributed over LIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Scheme {
    /// First come, first fitted.
    Greedy,
    /// Split at the switch with the fewest split paths first, then merge.
    SplitMergeS,
    /// Split at the switch with the most split paths first, then merge.
    SplitMergeL,
    /// Colour the paths with the fewest splits first.
    ColorS,
    /// Colour the paths with the most splits first: the paper's best.
    ColorL,
    /// The fewest LIDs there can be, by search.
    Exact,
}
wire::choice!(Scheme, "assignment of LIDs");

impl Scheme {
    /// Solves the problem of one destination: the number of each path's configuration.
    ///
    /// # Errors
    /// [`LidError::TooHard`], from [`Self::Exact`] only.
    pub fn solve(self, problem: &Problem<'_>) -> Result<Vec<u32>, LidError> {
        Ok(match self {
            Self::Greedy => greedy(problem),
            Self::SplitMergeS => split_merge(problem, First::Smallest),
            Self::SplitMergeL => split_merge(problem, First::Largest),
            Self::ColorS => color(problem, First::Smallest),
            Self::ColorL => color(problem, First::Largest),
            Self::Exact => exact(problem, EXACT_STEPS_MAX)?,
        })
    }
}

/// How many partial solutions [`Scheme::Exact`] tries for a destination.
const EXACT_STEPS_MAX: u64 = 2_000_000;

/// For each destination, how many configurations there are and which one each source uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    counts: Vec<u32>,
    /// `numbers[destination][source]`; the diagonal is 0.
    numbers: Vec<Vec<u32>>,
}

impl Assignment {
    /// Solves the problem of every destination.
    ///
    /// # Errors
    /// [`LidError::TooHard`], from [`Scheme::Exact`] only.
    pub fn new(network: &Network, routes: &Routes, scheme: Scheme) -> Result<Self, LidError> {
        let mut assignment = Self {
            counts: Vec::with_capacity(routes.hosts()),
            numbers: Vec::with_capacity(routes.hosts()),
        };
        for destination in 0..routes.hosts() {
            let sources = (0..routes.hosts()).filter(|&source| source != destination);
            let given: Vec<&[u32]> = sources
                .clone()
                .map(|source| routes.path(source, destination))
                .collect();
            let (problem, places) = Problem::new(network, &given);
            let solution = scheme.solve(&problem)?;
            let mut numbers = vec![0; routes.hosts()];
            for (source, place) in sources.zip(places) {
                numbers[source] = solution[place];
            }
            // A host without any peer is addressed all the same.
            assignment
                .counts
                .push(solution.iter().max().map_or(1, |&last| last + 1));
            assignment.numbers.push(numbers);
        }
        Ok(assignment)
    }

    /// How many configurations a destination has.
    #[must_use]
    pub fn count(&self, destination: usize) -> u32 {
        self.counts[destination]
    }

    /// The configuration that a source's path to a destination is in: the offset of the LID.
    #[must_use]
    pub fn number(&self, source: usize, destination: usize) -> u32 {
        self.numbers[destination][source]
    }

    /// The LMC of a destination: the least that gives it as many LIDs as it has configurations.
    ///
    /// # Errors
    /// [`LidError::TooManyConfigurations`] above 128, the most that LMC 7 gives.
    pub fn lmc(&self, destination: usize) -> Result<Lmc, LidError> {
        let needed = self.counts[destination];
        u8::try_from(needed.next_power_of_two().trailing_zeros())
            .ok()
            .and_then(|lmc| Lmc::new(lmc).ok())
            .ok_or(LidError::TooManyConfigurations { needed })
    }

    /// LID07's measure of cost: the LIDs of all destinations, each rounded up to a power of two.
    #[must_use]
    pub fn lids(&self) -> u32 {
        self.counts
            .iter()
            .map(|count| count.next_power_of_two())
            .sum()
    }
}
