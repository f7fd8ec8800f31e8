//! The kind of experiment that docs/experiments.md adds step by step: its code is what stands
//! there, compiled and run.

use routing::RoutingEngine;
use serde::{Deserialize, Serialize};
use sim::{FaultPlan, Load, Model, Pattern, RoutedFabric, SlChoice, number, split_mix};

use crate::axes::Axis;
use crate::checks::{Refusal, between, graph};
use crate::error::{ExperimentError, no_violations};
use crate::experiment::{Experiment, Verdict, rounded};
use crate::figure::{self, Curve, Figure};
use crate::network::routed;

/// Permutations on several fabrics under several engines, as a plan says it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PermutationPlan {
    /// Names of topologies.
    topologies: Vec<String>,
    /// Routing engines.
    schemes: Vec<RoutingEngine>,
    /// Permutations, each drawn anew.
    runs: u32,
    /// Offered traffic, bytes/ns and host.
    load: f64,
}

/// A line of the CSV: a flat structure, with units in the names of its fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Point {
    topology: String,
    scheme: RoutingEngine,
    run: u32,
    accepted_bytes_per_ns: f64,
}

/// Topology, scheme, run.
type At = [usize; 3];

impl Experiment<3> for PermutationPlan {
    type Point = Point;
    type Shared = Vec<Vec<RoutedFabric>>;

    fn check(&self) -> Result<(), Refusal> {
        for name in &self.topologies {
            graph("topologies", name)?;
        }
        between("load", self.load, (0.0, 1.0))
    }

    fn axes(&self) -> [Axis; 3] {
        [
            Axis::list("topologies", &self.topologies),
            Axis::list("schemes", &self.schemes),
            Axis::count("runs", self.runs),
        ]
    }

    fn share(&self, _seed: u64) -> Result<Self::Shared, ExperimentError> {
        let names = self.topologies.iter();
        names.map(|name| routed(name, &self.schemes)).collect()
    }

    fn run(&self, fabrics: &Self::Shared, at: At, seed: u64) -> Result<Point, ExperimentError> {
        let [topology, scheme, run] = at;
        let load = Load {
            pattern: Pattern::Permutation,
            sl_choice: SlChoice::Random,
            bytes_per_ns: self.load,
            warmup_ns: 5_000,
            measure_ns: 10_000,
            drain: false,
            // The same permutations for all engines.
            seed: split_mix(seed, u64::from(number(run))),
        };
        let fabric = &fabrics[topology][scheme];
        let outcome = fabric.run(&Model::mlid04(1), &load, &FaultPlan::default())?;
        no_violations(&outcome.violations)?;
        Ok(Point {
            topology: self.topologies[topology].clone(),
            scheme: self.schemes[scheme],
            run: number(run),
            accepted_bytes_per_ns: rounded(outcome.accepted),
        })
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        vec![("Load", format!("{} bytes/ns and host", self.load))]
    }

    fn judge(&self, points: &[Point]) -> Vec<Verdict> {
        let least = points.iter().map(|point| point.accepted_bytes_per_ns);
        let least = least.fold(f64::INFINITY, f64::min);
        vec![Verdict {
            expected: "every permutation gets half of what is offered".to_owned(),
            measured: format!("{least:.4} bytes/ns and host at least"),
            holds: Some(least >= self.load / 2.0),
        }]
    }

    fn figures(&self, points: &[Point]) -> Vec<Figure> {
        let curve = |&scheme: &RoutingEngine| {
            let here = points.iter().filter(|point| point.scheme == scheme);
            let here = here.map(|point| (f64::from(point.run), point.accepted_bytes_per_ns));
            Curve::measured(scheme, here)
        };
        vec![Figure::plot(
            "Traffic of each permutation",
            self.schemes.iter().map(curve),
            figure::Axis::linear("permutation"),
            figure::Axis::linear("accepted traffic, bytes/ns and host"),
        )]
    }
}

mod tests {
    use super::PermutationPlan;
    use crate::Options;
    use crate::document::Document;
    use crate::kind::read;
    use crate::run::run_all;

    const GUIDE: &str = include_str!("../../../docs/experiments.md");
    const CODE: &str = include_str!("mod.rs");

    /// What stands in the guide between fences of that language.
    fn blocks(language: &str) -> Vec<&'static str> {
        let fence = format!("```{language}\n");
        let after = GUIDE.split(fence.as_str()).skip(1);
        after.filter_map(|text| text.split("```").next()).collect()
    }

    #[test]
    fn the_code_of_the_guide_is_what_is_compiled_here() {
        let blocks = blocks("rust");
        assert!(blocks.len() >= 3);
        for block in blocks {
            assert!(CODE.contains(block), "not in example/mod.rs:\n{block}");
        }
    }

    #[test]
    fn the_plan_of_the_guide_runs_whole_and_reduced() {
        let documents = Document::parse("permutations.toml", blocks("toml")[0]).unwrap();
        let variants = read::<PermutationPlan, _>(documents).unwrap();
        for (variant, (quick, points)) in variants.into_iter().zip([(false, 8), (true, 4)]) {
            let out = tempfile::tempdir().unwrap();
            let options = Options {
                quick,
                seed: 1,
                threads: 1,
            };
            let job = variant.job(options, out.path()).unwrap();
            let results = run_all(&[job], 1, &|_, _| {}).remove(0).unwrap();
            assert_eq!(results.points, points);
            let statement = &results.statements[0];
            assert_eq!(statement.why.is_some(), statement.holds == Some(false));
            assert!(results.files.iter().all(|file| file.exists()));
        }
    }
}
