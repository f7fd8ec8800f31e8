//! A report in words.

use core::fmt;

use topologies::{Graph, NodeId};
use wire::PortNum;

use super::{Channel, DeliveryFailure, Problem, Report};

pub(super) struct Described<'a> {
    pub(super) report: &'a Report,
    pub(super) graph: &'a Graph,
}

impl Described<'_> {
    fn name(&self, id: NodeId) -> &str {
        &self.graph.node(id).name
    }

    pub(super) fn channels(&self, cycle: &[Channel]) -> String {
        let words: Vec<String> = cycle
            .iter()
            .map(|c| format!("{} port {} VL {}", self.name(c.switch), c.port, c.vl))
            .collect();
        words.join(" -> ")
    }

    pub(super) fn problem(&self, problem: &Problem) -> String {
        match problem {
            Problem::Unreachable { from, lid, failure } => {
                let what = match failure {
                    DeliveryFailure::NoEntry(at) => format!("{} has no entry", self.name(*at)),
                    DeliveryFailure::DeadPort(at, port) => {
                        format!("port {port} of {} has no cable", self.name(*at))
                    }
                    DeliveryFailure::NotOwner(at) => format!("{} does not own it", self.name(*at)),
                    DeliveryFailure::Loop(nodes) => {
                        let names: Vec<_> = nodes.iter().map(|&id| self.name(id)).collect();
                        format!("they go round {}", names.join(", "))
                    }
                };
                let from = self.name(*from);
                format!("packets for LID {lid} do not arrive from {from}: {what}")
            }
            Problem::NotMinimal {
                from,
                lid,
                hops,
                shortest,
            } => {
                let from = self.name(*from);
                format!("from {from} to LID {lid} it takes {hops} hops, {shortest} are enough")
            }
            Problem::UpAfterDown { at, lid } => {
                let at = self.name(*at);
                format!("packets for LID {lid} go down to {at} and up again")
            }
            Problem::NoLid(end) => {
                let name = self.name(end.node);
                match end.port {
                    PortNum::MANAGEMENT => format!("{name} has no LID"),
                    port => format!("port {port} of {name} has no LID"),
                }
            }
            Problem::Deadlock(cycle) => {
                format!("credit loop: {}", self.channels(cycle))
            }
        }
    }
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        write!(
            f,
            "{} paths followed, {} hops at most, {} problems",
            report.pairs, report.hops_max, report.problem_count
        )?;
        for problem in &report.problems {
            write!(f, "\n{}", self.problem(problem))?;
        }
        let is_deadlock = |problem: &Problem| matches!(problem, Problem::Deadlock(_));
        if let Some(cycle) = &report.cycle
            && !report.problems.iter().any(is_deadlock)
        {
            write!(f, "\ndeadlock possible: {}", self.channels(cycle))?;
        }
        if let Some(cycle) = &report.answer_cycle {
            let cycle = self.channels(cycle);
            write!(
                f,
                "\ncredit loop with answers on the service level of what they answer: {cycle}"
            )?;
        }
        if let Some(cycle) = &report.switch_cycle {
            let cycle = self.channels(cycle);
            write!(f, "\ncredit loop with packets of switches' port 0: {cycle}")?;
        }
        Ok(())
    }
}
