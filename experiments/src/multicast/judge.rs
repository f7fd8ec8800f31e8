//! Results compared with the statements of MCAST07 and with an independent simulation.

use crate::experiment::Verdict;
use crate::multicast::plan::{Band, Delivery, Grouping, Share, Statement};
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
    let plan = summary.plan;
    let bands = plan.band.iter();
    let mut verdicts: Vec<Verdict> = bands.filter_map(|band| judge_band(summary, band)).collect();
    for &statement in &plan.statements {
        verdicts.extend(judge_statement(summary, statement));
    }
    let points = summary.points;
    let deliveries: u64 = points.iter().map(|point| point.deliveries).sum();
    verdicts.push(Verdict {
        expected: "every packet comes once to each member of its group and to no other host; no \
                   packets wait for each other in a cycle (a run that breaks this gives no results)"
            .to_owned(),
        measured: format!("{} runs, {deliveries} deliveries", points.len()),
        holds: Some(true),
    });
    verdicts
}

fn judge_band(summary: &Summary<'_>, band: &Band) -> Option<Verdict> {
    let case = Case {
        grouping: summary.main_grouping(),
        sources: band.sources,
        groups: band.groups,
        size_bytes: band.size_bytes,
    };
    let ratio = summary.ratio(&case, band.scheme, band.over)?;
    Some(Verdict::in_range(
        format!("{}: {}/{}", case.name(), band.scheme, band.over),
        ratio.mean,
        (band.min, band.max),
        format!(
            "{:.3} (draws {:.3} to {:.3})",
            ratio.mean, ratio.min, ratio.max
        ),
    ))
}

/// The verdicts on a statement: none without points that it is about.
fn judge_statement(summary: &Summary<'_>, statement: Statement) -> Vec<Verdict> {
    match statement {
        Statement::FasterThanUnicast => faster_than_unicast(summary),
        Statement::SameFromOneSource => same_from_one_source(summary).into_iter().collect(),
        Statement::FasterForSmallGroups => faster_for_small_groups(summary),
        Statement::LittleFasterForAll => little_faster_for_all(summary),
        Statement::GainFallsWithGroup => gain_falls_with_group(summary),
        Statement::LongerWithSources => longer_with_sources(summary),
        Statement::GrowingLead => growing_lead(summary),
        Statement::NoGainInCommon => no_gain_in_common(summary).into_iter().collect(),
    }
}

/// The ratios of some cases.
type Ratios = Vec<(Case, f64)>;

/// The least and the greatest of some ratios, each with its case; of equal ones the first.
struct Range {
    least: (Case, f64),
    most: (Case, f64),
}

impl Range {
    /// `None` of no ratios.
    fn of(ratios: &Ratios) -> Option<Self> {
        let (&first, rest) = ratios.split_first()?;
        let (mut least, mut most) = (first, first);
        for &next in rest {
            if next.1 < least.1 {
                least = next;
            }
            if next.1 > most.1 {
                most = next;
            }
        }
        Some(Self { least, most })
    }

    /// Whether all ratios are from `min` to `max`.
    fn is_within(&self, min: f64, max: f64) -> bool {
        self.least.1 >= min && self.most.1 <= max
    }

    /// A verdict on gains of cyclic over the spanning tree.
    fn verdict(&self, expected: String, holds: bool) -> Verdict {
        let (least, most) = (described(&self.least), described(&self.most));
        Verdict {
            expected,
            measured: format!("spanning-tree/cyclic from {least} to {most}"),
            holds: Some(holds),
        }
    }
}

fn ratios(summary: &Summary<'_>, cases: &[Case], scheme: Delivery, over: Delivery) -> Ratios {
    let ratio = |case: &Case| Some((*case, summary.ratio(case, scheme, over)?.mean));
    cases.iter().filter_map(ratio).collect()
}

/// Gains of cyclic over the spanning tree in those cases of a grouping that are wanted.
fn gains(summary: &Summary<'_>, grouping: Grouping, wanted: impl Fn(&Case) -> bool) -> Ratios {
    let cases = summary.cases(grouping);
    let cases: Vec<Case> = cases.into_iter().filter(wanted).collect();
    ratios(summary, &cases, Delivery::SPANNING_TREE, Delivery::CYCLIC)
}

fn faster_than_unicast(summary: &Summary<'_>) -> Vec<Verdict> {
    let verdict = |grouping: Grouping, scheme: Delivery, by: &str| {
        let cases = summary.cases(grouping);
        let ratios = ratios(summary, &cases, Delivery::Unicast, scheme);
        let slower = ratios.iter().filter(|(_, ratio)| *ratio <= 1.0).count();
        let least = Range::of(&ratios)?.least;
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
    let of_grouping = |&grouping: &Grouping| {
        [
            verdict(grouping, Delivery::CYCLIC, "cases 1 and 2, remark 1"),
            verdict(grouping, Delivery::SPANNING_TREE, "cases 1 and 2"),
        ]
    };
    let groupings = summary.plan.grouping.iter();
    groupings.flat_map(of_grouping).flatten().collect()
}

fn same_from_one_source(summary: &Summary<'_>) -> Option<Verdict> {
    let gains = gains(summary, summary.main_grouping(), |case| {
        case.sources == Share::One
    });
    let range = Range::of(&gains)?;
    Some(Verdict {
        expected: "case 1, remark 2: from one source cyclic and spanning tree take the same time"
            .to_owned(),
        measured: format!(
            "spanning-tree/cyclic {:.4} to {:.4} in {} cases",
            range.least.1,
            range.most.1,
            gains.len()
        ),
        holds: Some(range.is_within(1.0 - EQUAL, 1.0 + EQUAL)),
    })
}

fn faster_for_small_groups(summary: &Summary<'_>) -> Vec<Verdict> {
    let is_small = |groups: Share| groups.percent().is_some_and(|part| part <= SMALL_PERCENT);
    let verdict = |&groups: &Share| {
        let gains = gains(summary, summary.main_grouping(), |case| {
            case.sources != Share::One && case.groups == groups
        });
        let range = Range::of(&gains)?;
        let expected =
            format!("case 2, remark 2: many-to-{groups}: cyclic is faster than the spanning tree");
        Some(range.verdict(expected, range.least.1 > 1.0 + EQUAL))
    };
    let groups = summary.plan.groups.iter();
    let groups = groups.filter(|&&groups| is_small(groups));
    groups.filter_map(verdict).collect()
}

fn little_faster_for_all(summary: &Summary<'_>) -> Vec<Verdict> {
    let verdict = |(sizes, is_small): (&str, bool)| {
        let gains = gains(summary, summary.main_grouping(), |case| {
            case.sources != Share::One
                && case.groups.is_all()
                && (case.size_bytes <= SMALL_BYTES_MAX) == is_small
        });
        let range = Range::of(&gains)?;
        let expected = format!(
            "cases 2 and 3, remark 2, figure 17: many-to-all, {sizes} sizes: cyclic is a little \
             faster than the spanning tree (by 0 to {:.0} %)",
            LITTLE * 100.0
        );
        Some(range.verdict(expected, range.is_within(1.0 - EQUAL, 1.0 + LITTLE)))
    };
    let sizes = [("small", true), ("large", false)];
    sizes.into_iter().filter_map(verdict).collect()
}

/// From group to group, for each number of sources and size.
fn gain_falls_with_group(summary: &Summary<'_>) -> Vec<Verdict> {
    let plan = summary.plan;
    let verdict = |&sources: &Share| {
        let mut rises: Ratios = Vec::new();
        for &size in &plan.sizes_bytes {
            let gains = gains(summary, summary.main_grouping(), |case| {
                case.sources == sources && case.size_bytes == size
            });
            let pairs = gains.windows(2);
            rises.extend(pairs.map(|pair| (pair[1].0, pair[1].1 / pair[0].1)));
        }
        let (case, most) = Range::of(&rises)?.most;
        Some(Verdict {
            expected: format!(
                "figure 17: {sources}-to-many: the larger the group, the less cyclic gains over \
                 the spanning tree"
            ),
            measured: format!(
                "from group to group the gain changes by at most {:+.1} % ({})",
                (most - 1.0) * 100.0,
                case.name()
            ),
            holds: Some(most <= 1.0 + NOISE),
        })
    };
    let sources = plan.sources.iter();
    let sources = sources.filter(|&&sources| sources != Share::One);
    sources.filter_map(verdict).collect()
}

fn longer_with_sources(summary: &Summary<'_>) -> Vec<Verdict> {
    let plan = summary.plan;
    let Some([fewest, most]) = ends(&plan.sources) else {
        return Vec::new();
    };
    let cases = summary.cases(summary.main_grouping());
    let verdict = |&scheme: &Delivery| {
        let ratio = |case: &Case| {
            let few = Case {
                sources: fewest,
                ..*case
            };
            let few_ns = summary.mean_ns(&few, scheme)?;
            Some((*case, summary.mean_ns(case, scheme)? / few_ns))
        };
        let cases = cases.iter().filter(|case| case.sources == most);
        let ratios: Ratios = cases.filter_map(ratio).collect();
        let least = Range::of(&ratios)?.least;
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
fn growing_lead(summary: &Summary<'_>) -> Vec<Verdict> {
    let plan = summary.plan;
    let sizes = ends(&plan.sizes_bytes).and_then(|[low, high]| {
        let least = |case| Case {
            size_bytes: low,
            ..case
        };
        lead(summary, "longer the messages", |case| {
            (case.size_bytes == high).then(|| least(*case))
        })
    });
    let sources = ends(&plan.sources).and_then(|[low, high]| {
        let least = |case| Case {
            sources: low,
            ..case
        };
        lead(summary, "more the sources", |case| {
            (case.sources == high).then(|| least(*case))
        })
    });
    let groups = ends(&plan.groups).and_then(|[low, high]| {
        let least = |case| Case {
            groups: low,
            ..case
        };
        lead(summary, "larger the groups", |case| {
            (case.groups == high).then(|| least(*case))
        })
    });
    [sizes, sources, groups].into_iter().flatten().collect()
}

/// `least_of` gives the least case of the axis for the greatest one, and nothing for others.
fn lead(
    summary: &Summary<'_>,
    axis: &str,
    least_of: impl Fn(&Case) -> Option<Case>,
) -> Option<Verdict> {
    let (unicast, cyclic) = (Delivery::Unicast, Delivery::CYCLIC);
    let lead = |case: &Case| {
        let ratio = summary.ratio(case, unicast, cyclic)?.mean;
        let saved_ns = (ratio - 1.0) * summary.mean_ns(case, cyclic)?;
        Some((ratio, saved_ns))
    };
    let growth = |high: &Case| {
        let (low_ratio, low_saved_ns) = lead(&least_of(high)?)?;
        let (ratio, saved_ns) = lead(high)?;
        Some(((*high, ratio / low_ratio), saved_ns > low_saved_ns))
    };
    let cases = summary.cases(summary.main_grouping());
    let growths = cases.iter().filter_map(growth);
    let (ratios, saves_more): (Ratios, Vec<bool>) = growths.unzip();
    let saved = saves_more.into_iter().filter(|&more| more).count();
    let range = Range::of(&ratios)?;
    Some(Verdict {
        expected: format!("section 1: the {axis}, the better the speed-up of cyclic over unicast"),
        measured: format!(
            "from the least to the greatest, unicast/cyclic changes by a factor from {} to {}; \
             the time saved grows in {saved} of {} cases",
            described(&range.least),
            described(&range.most),
            ratios.len()
        ),
        holds: Some(range.least.1 > 1.0 - NOISE),
    })
}

fn no_gain_in_common(summary: &Summary<'_>) -> Option<Verdict> {
    let long = u32::from(summary.plan.packet_bytes) * LONG_PACKETS;
    let gains = gains(summary, Grouping::Common, |case| {
        case.sources != Share::One && case.size_bytes >= long
    });
    let range = Range::of(&gains)?;
    let expected = format!(
        "with one group for all sources, messages of {long} bytes and more gain nothing: within \
         {:.0} %",
        LITTLE * 100.0
    );
    Some(range.verdict(expected, range.is_within(1.0 - LITTLE, 1.0 + LITTLE)))
}

/// The first and the last, if they are two.
fn ends<T: Copy + PartialEq>(values: &[T]) -> Option<[T; 2]> {
    let (&first, &last) = (values.first()?, values.last()?);
    (first != last).then_some([first, last])
}

/// `1.234 (40%-to-10%, 32 bytes)`.
fn described((case, ratio): &(Case, f64)) -> String {
    format!("{ratio:.3} ({})", case.name())
}
