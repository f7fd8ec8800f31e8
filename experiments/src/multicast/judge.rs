//! Results compared with the statements of MCAST07 and with an independent simulation.

use crate::experiment::Verdict;
use crate::multicast::plan::{Band, Grouping, SchemeName, Share, Statement};
use crate::multicast::summary::{Case, SMALL_BYTES_MAX, Summary};

/// Two times closer than this part of each other count as equal.
const EQUAL: f64 = 0.01;
/// Draws make a curve fluctuate by this part.
const NOISE: f64 = 0.02;
/// "A little better" in MCAST07: faster by up to this part.
const LITTLE: f64 = 0.15;
/// What MCAST07 calls a small group, percent of the hosts.
const SMALL_PERCENT: f64 = 40.0;
/// Long messages: from how many times the longest packet on.
const LONG_PACKETS: u32 = 4;

/// Judges all statements and bands of a plan.
pub(super) fn judge(summary: &Summary<'_>) -> Vec<Verdict> {
    let judge = Judge { summary };
    let plan = summary.plan;
    let mut verdicts: Vec<Verdict> = Vec::new();
    for band in &plan.band {
        verdicts.extend(judge.band(band));
    }
    for &statement in &plan.statements {
        verdicts.extend(judge.statement(statement));
    }
    let points = summary.points;
    let deliveries: u64 = points.iter().map(|point| point.deliveries).sum();
    verdicts.push(Verdict {
        expected: "every packet comes once to each member of its group and to nobody else; no \
                   packets wait for each other in a cycle (a run that breaks this gives no results)"
            .to_owned(),
        measured: format!("{} runs, {deliveries} deliveries", points.len()),
        holds: Some(true),
    });
    verdicts
}

struct Judge<'a> {
    summary: &'a Summary<'a>,
}

/// The ratios of some cases.
type Ratios = Vec<(Case, f64)>;

impl Judge<'_> {
    /// Cases of the usual grouping that are wanted.
    fn cases(&self, wanted: impl Fn(&Case) -> bool) -> Vec<Case> {
        let cases = self.summary.cases(self.summary.main_grouping());
        cases.into_iter().filter(wanted).collect()
    }

    fn ratios(&self, cases: &[Case], scheme: SchemeName, over: SchemeName) -> Ratios {
        let ratio = |case: &Case| Some((*case, self.summary.ratio(case, scheme, over)?.mean));
        cases.iter().filter_map(ratio).collect()
    }

    fn band(&self, band: &Band) -> Option<Verdict> {
        let case = Case {
            grouping: self.summary.main_grouping(),
            sources: band.sources,
            groups: band.groups,
            size_bytes: band.size_bytes,
        };
        let ratio = self.summary.ratio(&case, band.scheme, band.over)?;
        Some(Verdict {
            expected: format!(
                "{}: {}/{} from {} to {}",
                case.name(),
                band.scheme,
                band.over,
                band.min,
                band.max
            ),
            measured: format!(
                "{:.3} (draws {:.3} to {:.3})",
                ratio.mean, ratio.min, ratio.max
            ),
            holds: Some((band.min..=band.max).contains(&ratio.mean)),
        })
    }

    fn statement(&self, statement: Statement) -> Vec<Verdict> {
        match statement {
            Statement::FasterThanUnicast => self.faster_than_unicast(),
            Statement::SameFromOneSource => self.same_from_one_source().into_iter().collect(),
            Statement::FasterForSmallGroups => self.faster_for_small_groups(),
            Statement::LittleFasterForAll => self.little_faster_for_all(),
            Statement::GainFallsWithGroup => self.gain_falls_with_group(),
            Statement::LongerWithSources => self.longer_with_sources(),
            Statement::GrowingLead => self.growing_lead(),
            Statement::NoGainInCommon => self.no_gain_in_common().into_iter().collect(),
        }
    }

    fn faster_than_unicast(&self) -> Vec<Verdict> {
        let verdict = |(grouping, scheme, by): (Grouping, SchemeName, &str)| {
            let cases = self.summary.cases(grouping);
            let ratios = self.ratios(&cases, SchemeName::Unicast, scheme);
            let (slower, least) = (not_above_one(&ratios), extreme(&ratios, true)?);
            let common = match grouping {
                Grouping::Own => "",
                Grouping::Common => "one group for all sources: ",
            };
            Some(Verdict {
                expected: format!("{by}: {common}{scheme} is faster than unicast in all cases"),
                measured: format!(
                    "in {} of {}; unicast/{scheme} at least {}",
                    ratios.len() - slower,
                    ratios.len(),
                    described(&least)
                ),
                holds: Some(slower == 0),
            })
        };
        let groupings = self.summary.plan.grouping.iter();
        let all = groupings.flat_map(|&grouping| {
            [
                (grouping, SchemeName::Cyclic, "cases 1 and 2, remark 1"),
                (grouping, SchemeName::SpanningTree, "cases 1 and 2"),
            ]
        });
        all.filter_map(verdict).collect()
    }

    /// Gains of cyclic over the spanning tree where that is wanted.
    fn gains(&self, wanted: impl Fn(&Case) -> bool) -> Ratios {
        let cases = self.cases(wanted);
        self.ratios(&cases, SchemeName::SpanningTree, SchemeName::Cyclic)
    }

    fn same_from_one_source(&self) -> Option<Verdict> {
        let gains = self.gains(|case| case.sources == Share::One);
        let (least, most) = (extreme(&gains, true)?, extreme(&gains, false)?);
        Some(Verdict {
            expected: "case 1, remark 2: from one source cyclic and spanning tree take the same \
                       time"
                .to_owned(),
            measured: format!(
                "spanning-tree/cyclic {:.4} to {:.4} in {} cases",
                least.1,
                most.1,
                gains.len()
            ),
            holds: Some(least.1 >= 1.0 - EQUAL && most.1 <= 1.0 + EQUAL),
        })
    }

    fn faster_for_small_groups(&self) -> Vec<Verdict> {
        let is_small = |groups: Share| groups.percent().is_some_and(|part| part <= SMALL_PERCENT);
        let verdict = |&groups: &Share| {
            let gains = self.gains(|case| case.sources != Share::One && case.groups == groups);
            let (least, most) = (extreme(&gains, true)?, extreme(&gains, false)?);
            Some(Verdict {
                expected: format!(
                    "case 2, remark 2: many-to-{groups}: cyclic is faster than the spanning tree"
                ),
                measured: format!(
                    "spanning-tree/cyclic from {} to {}",
                    described(&least),
                    described(&most)
                ),
                holds: Some(least.1 > 1.0 + EQUAL),
            })
        };
        let groups = self.summary.plan.groups.iter();
        let groups = groups.filter(|&&groups| is_small(groups));
        groups.filter_map(verdict).collect()
    }

    fn little_faster_for_all(&self) -> Vec<Verdict> {
        let verdict = |(sizes, is_small): (&str, bool)| {
            let gains = self.gains(|case| {
                case.sources != Share::One
                    && case.groups.is_all()
                    && (case.size_bytes <= SMALL_BYTES_MAX) == is_small
            });
            let (least, most) = (extreme(&gains, true)?, extreme(&gains, false)?);
            Some(Verdict {
                expected: format!(
                    "cases 2 and 3, remark 2, figure 17: many-to-all, {sizes} sizes: cyclic is a \
                     little faster than the spanning tree (by 0 to {:.0} %)",
                    LITTLE * 100.0
                ),
                measured: format!(
                    "spanning-tree/cyclic from {} to {}",
                    described(&least),
                    described(&most)
                ),
                holds: Some(least.1 >= 1.0 - EQUAL && most.1 <= 1.0 + LITTLE),
            })
        };
        let sizes = [("small", true), ("large", false)];
        sizes.into_iter().filter_map(verdict).collect()
    }

    /// From group to group, for each number of sources and size.
    fn gain_falls_with_group(&self) -> Vec<Verdict> {
        let plan = self.summary.plan;
        let verdict = |&sources: &Share| {
            let mut rises: Ratios = Vec::new();
            for &size in &plan.sizes_bytes {
                let gains = self.gains(|case| case.sources == sources && case.size_bytes == size);
                let pairs = gains.windows(2);
                rises.extend(pairs.map(|pair| (pair[1].0, pair[1].1 / pair[0].1)));
            }
            let most = extreme(&rises, false)?;
            Some(Verdict {
                expected: format!(
                    "figure 17: {sources}-to-many: the larger the group, the less cyclic gains \
                     over the spanning tree"
                ),
                measured: format!(
                    "from group to group the gain changes by at most {:+.1} % ({})",
                    (most.1 - 1.0) * 100.0,
                    most.0.name()
                ),
                holds: Some(most.1 <= 1.0 + NOISE),
            })
        };
        let sources = plan
            .sources
            .iter()
            .filter(|&&sources| sources != Share::One);
        sources.filter_map(verdict).collect()
    }

    fn longer_with_sources(&self) -> Vec<Verdict> {
        let plan = self.summary.plan;
        let (Some(&fewest), Some(&most)) = (plan.sources.first(), plan.sources.last()) else {
            return Vec::new();
        };
        let verdict = |&scheme: &SchemeName| {
            let ratio = |case: &Case| {
                let few = self.summary.mean_ns(
                    &Case {
                        sources: fewest,
                        ..*case
                    },
                    scheme,
                )?;
                Some((*case, self.summary.mean_ns(case, scheme)? / few))
            };
            let cases = self.cases(|case| case.sources == most && fewest != most);
            let ratios: Ratios = cases.iter().filter_map(ratio).collect();
            let least = extreme(&ratios, true)?;
            Some(Verdict {
                expected: format!(
                    "case 3: {scheme}: {most}-to-many takes longer than {fewest}-to-many"
                ),
                measured: format!("at least {}", described(&least)),
                holds: Some(least.1 > 1.0),
            })
        };
        plan.schemes.iter().filter_map(verdict).collect()
    }

    /// The least case of each axis against the greatest, the others being the same.
    fn growing_lead(&self) -> Vec<Verdict> {
        let plan = self.summary.plan;
        let size = ends(&plan.sizes_bytes).map(|[low, high]| {
            self.lead(
                "longer the messages",
                |case| case.size_bytes == high,
                |case| {
                    case.size_bytes = low;
                },
            )
        });
        let sources = ends(&plan.sources).map(|[low, high]| {
            self.lead(
                "more the sources",
                |case| case.sources == high,
                |case| {
                    case.sources = low;
                },
            )
        });
        let groups = ends(&plan.groups).map(|[low, high]| {
            self.lead(
                "larger the groups",
                |case| case.groups == high,
                |case| {
                    case.groups = low;
                },
            )
        });
        [size, sources, groups]
            .into_iter()
            .flatten()
            .flatten()
            .collect()
    }

    fn lead(
        &self,
        axis: &str,
        is_high: impl Fn(&Case) -> bool,
        lower: impl Fn(&mut Case),
    ) -> Option<Verdict> {
        let (unicast, cyclic) = (SchemeName::Unicast, SchemeName::Cyclic);
        let lead = |case: &Case| {
            let ratio = self.summary.ratio(case, unicast, cyclic)?.mean;
            let saved_ns = (ratio - 1.0) * self.summary.mean_ns(case, cyclic)?;
            Some((ratio, saved_ns))
        };
        let growth = |high: &Case| {
            let mut low = *high;
            lower(&mut low);
            let (high_lead, low_lead) = (lead(high)?, lead(&low)?);
            Some(((*high, high_lead.0 / low_lead.0), high_lead.1 > low_lead.1))
        };
        let cases = self.cases(is_high);
        let growths: Vec<_> = cases.iter().filter_map(growth).collect();
        let saved = growths.iter().filter(|(_, saves_more)| *saves_more).count();
        let ratios: Ratios = growths.into_iter().map(|(growth, _)| growth).collect();
        let (least, most) = (extreme(&ratios, true)?, extreme(&ratios, false)?);
        Some(Verdict {
            expected: format!(
                "section 1: the {axis}, the better the speed-up of cyclic over unicast"
            ),
            measured: format!(
                "from the least to the greatest, unicast/cyclic changes by a factor from {} to \
                 {}; the time saved grows in {saved} of {} cases",
                described(&least),
                described(&most),
                ratios.len()
            ),
            holds: Some(least.1 > 1.0 - NOISE),
        })
    }

    fn no_gain_in_common(&self) -> Option<Verdict> {
        let plan = self.summary.plan;
        let long = u32::from(plan.packet_bytes) * LONG_PACKETS;
        let cases = self.summary.cases(Grouping::Common);
        let is_long = |case: &Case| case.sources != Share::One && case.size_bytes >= long;
        let cases: Vec<Case> = cases.into_iter().filter(is_long).collect();
        let gains = self.ratios(&cases, SchemeName::SpanningTree, SchemeName::Cyclic);
        let (least, most) = (extreme(&gains, true)?, extreme(&gains, false)?);
        Some(Verdict {
            expected: format!(
                "with one group for all sources, messages of {long} bytes and more gain nothing: \
                 within {:.0} %",
                LITTLE * 100.0
            ),
            measured: format!(
                "spanning-tree/cyclic from {} to {}",
                described(&least),
                described(&most)
            ),
            holds: Some(least.1 >= 1.0 - LITTLE && most.1 <= 1.0 + LITTLE),
        })
    }
}

/// The first and the last, if they are two.
fn ends<T: Copy + PartialEq>(values: &[T]) -> Option<[T; 2]> {
    let (&first, &last) = (values.first()?, values.last()?);
    (first != last).then_some([first, last])
}

/// The least or the greatest of all ratios; of equal ones the first.
fn extreme(ratios: &Ratios, least: bool) -> Option<(Case, f64)> {
    let mut ratios = ratios.iter().copied();
    let first = ratios.next()?;
    Some(ratios.fold(first, |best, next| {
        let is_better = if least {
            next.1 < best.1
        } else {
            next.1 > best.1
        };
        if is_better { next } else { best }
    }))
}

/// How many ratios are not above 1.
fn not_above_one(ratios: &Ratios) -> usize {
    ratios.iter().filter(|(_, ratio)| *ratio <= 1.0).count()
}

/// `1.234 (40%-to-10%, 32 bytes)`.
fn described((case, ratio): &(Case, f64)) -> String {
    format!("{ratio:.3} ({})", case.name())
}
