//! Routing engines on all cores: several tables of one fabric are computed side by side.

use std::cmp::Reverse;
use std::sync::{Mutex, PoisonError};

use routing::{Choice, Options, RoutingEngine, RoutingError, Tables};
use topologies::Graph;

/// As [`RoutingEngine::route`]; the engines that `auto` measures are computed side by side.
///
/// # Errors
/// As [`RoutingEngine::route`].
pub(crate) fn route(
    engine: RoutingEngine,
    graph: &Graph,
    options: &Options,
) -> Result<Tables, RoutingError> {
    match engine {
        RoutingEngine::Auto => choose(graph, options).map(|choice| choice.taken),
        engine => engine.route(graph, options),
    }
}

/// What `auto` takes, and what it has measured that against.
///
/// # Errors
/// As [`RoutingEngine::route`].
pub(crate) fn choose(graph: &Graph, options: &Options) -> Result<Choice, RoutingError> {
    routing::choose(graph, options, |engines, attempt| {
        side_by_side(engines.to_vec(), |&engine| effort(engine), attempt)
    })
}

/// An engine's name without the reason for which it was taken, as the controller tells both: `NAME (REASON)`.
pub(crate) fn name(engine: &str) -> &str {
    engine.split_once(" (").map_or(engine, |(name, _)| name)
}

/// About how many times as long as `minhop` the tables of an engine take.
pub(crate) fn effort(engine: RoutingEngine) -> u8 {
    match engine {
        RoutingEngine::Nue => 8,
        RoutingEngine::Ftree => 6,
        RoutingEngine::Updn => 3,
        _ => 1,
    }
}

/// What becomes of each, in their order, computed on as many threads as there are cores. What takes the longest
/// begins first, so that no core waits for it at the end.
pub(crate) fn side_by_side<J: Send, R: Send>(
    jobs: Vec<J>,
    effort: impl Fn(&J) -> u8,
    compute: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = cores.min(jobs.len());
    let mut jobs: Vec<(usize, J)> = jobs.into_iter().enumerate().collect();
    jobs.sort_by_key(|(_, job)| Reverse(effort(job)));
    let waiting = Mutex::new(jobs.into_iter());
    let take = || {
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    };
    let work = || {
        let jobs = std::iter::from_fn(take);
        jobs.map(|(place, job)| (place, compute(job)))
            .collect::<Vec<_>>()
    };
    let mut results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let results = threads.into_iter().flat_map(|thread| match thread.join() {
            Ok(results) => results,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        results.collect::<Vec<_>>()
    });
    results.sort_by_key(|&(place, _)| place);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_their_jobs_whatever_begins_first() {
        let jobs: Vec<u8> = vec![1, 9, 3, 3, 0];
        let results = side_by_side(jobs.clone(), |&job| job, |job| job);
        assert_eq!(results, jobs);
        let none: Vec<u8> = side_by_side(Vec::new(), |&job: &u8| job, |job| job);
        assert_eq!(none, [0_u8; 0]);
    }

    /// Forwarding tables, LIDs, service levels and the reason.
    fn told(graph: &Graph, tables: &Tables) -> (String, String, String, Option<String>) {
        (
            routing::dump::write(graph, tables),
            routing::dump::write_lids(tables),
            routing::dump::write_sls(graph, tables),
            tables.because.clone(),
        )
    }

    #[test]
    fn auto_takes_the_same_side_by_side_as_one_after_another() {
        for name in ["as-built-8-6-4-2-7", "torus-5x5-2", "fat-tree-4-3"] {
            let graph = topologies::parse(name).expect("a name that is known").graph;
            let options = Options::default();
            let alone = RoutingEngine::Auto.route(&graph, &options);
            let alone = alone.expect("there are tables");
            let beside = route(RoutingEngine::Auto, &graph, &options).expect("there are tables");
            assert_eq!(told(&graph, &alone), told(&graph, &beside), "{name}");
        }
    }

    #[test]
    fn the_choice_does_not_depend_on_the_order_of_the_attempts() {
        let graph = topologies::parse("as-built-8-6-4-2-7")
            .expect("a name that is known")
            .graph;
        let options = Options::default();
        let turned = routing::choose(&graph, &options, |engines, attempt| {
            engines
                .iter()
                .rev()
                .map(|&engine| attempt(engine))
                .collect()
        });
        let turned = turned.expect("there are tables");
        let straight = choose(&graph, &options).expect("there are tables");
        assert_eq!(told(&graph, &turned.taken), told(&graph, &straight.taken));
        let of = |choice: &Choice| -> Vec<RoutingEngine> {
            choice.others.iter().map(|&(engine, _)| engine).collect()
        };
        assert_eq!(of(&turned), of(&straight));
    }
}
