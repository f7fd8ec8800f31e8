//! What is said of a plan's results: a verdict of its kind and, where it does not hold, why.

use serde::{Deserialize, Serialize};

use crate::experiment::Verdict;

/// Why statements do not hold: `[[explain]]` of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Explanation {
    /// Which ones: a part of what was expected, or all of it.
    pub(crate) statement: String,
    /// Why they do not hold, a sentence or more.
    pub(crate) why: String,
}

/// One statement about the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// What was expected.
    pub expected: String,
    /// What was measured.
    pub measured: String,
    /// Whether it holds; `None` where this run has no data for it, or it is not judged.
    pub holds: Option<bool>,
    /// Why it does not hold, as the plan says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The first explanation that is of no verdict: no text of one contains its statement.
pub(crate) fn unused<'e>(
    verdicts: &[Verdict],
    explanations: &'e [Explanation],
) -> Option<&'e Explanation> {
    explanations.iter().find(|explanation| {
        let mut expected = verdicts.iter().map(|verdict| &verdict.expected);
        !expected.any(|expected| expected.contains(&explanation.statement))
    })
}

/// Verdicts with the explanations of those that do not hold; several of one are joined.
pub(crate) fn explained(verdicts: Vec<Verdict>, explanations: &[Explanation]) -> Vec<Statement> {
    let statement = |verdict: Verdict| {
        let of_this = |explanation: &&Explanation| {
            verdict.holds == Some(false) && verdict.expected.contains(&explanation.statement)
        };
        let reasons = explanations.iter().filter(of_this);
        let reasons: Vec<&str> = reasons.map(|one| one.why.as_str()).collect();
        Statement {
            why: (!reasons.is_empty()).then(|| reasons.join(" ")),
            expected: verdict.expected,
            measured: verdict.measured,
            holds: verdict.holds,
        }
    };
    verdicts.into_iter().map(statement).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_of_no_statement_is_found_whether_the_others_hold_or_not() {
        let verdict = Verdict {
            expected: "4 VLs: mlid gains".to_owned(),
            measured: "1".to_owned(),
            holds: Some(true),
        };
        let explain = |statement: &str| Explanation {
            statement: statement.to_owned(),
            why: "Because.".to_owned(),
        };
        let given = [explain("4 VLs"), explain("8 VLs")];
        let verdicts = [verdict];
        assert_eq!(unused(&verdicts, &given), Some(&given[1]));
        assert_eq!(unused(&verdicts, &given[..1]), None);
    }

    #[test]
    fn a_statement_that_does_not_hold_has_the_explanations_of_its_words() {
        let verdict = |expected: &str, holds| Verdict {
            expected: expected.to_owned(),
            measured: "1".to_owned(),
            holds,
        };
        let explain = |statement: &str, why: &str| Explanation {
            statement: statement.to_owned(),
            why: why.to_owned(),
        };
        let verdicts = vec![
            verdict("4 VLs: mlid gains", Some(false)),
            verdict("2 VLs: mlid gains", Some(true)),
            verdict("4 VLs: slid gains", None),
            verdict("all arrive", Some(false)),
        ];
        let explanations = [explain("4 VLs", "Short."), explain("mlid gains", "Long.")];
        let statements = explained(verdicts, &explanations);
        let whys: Vec<_> = statements.iter().map(|one| one.why.as_deref()).collect();
        assert_eq!(whys, [Some("Short. Long."), None, None, None]);
    }
}
