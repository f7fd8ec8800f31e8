//! What the steps of collective operations wait for.
//!
//! A step is a flow that begins when others have got so far: those of other hosts by what has arrived here, the
//! host's own by what it has sent. Who waits is looked up by the flow that a packet belongs to.

use std::collections::BTreeMap;

use wire::Lid;

use crate::control::Awaited;

/// Which steps wait for how many packets of each flow, by its source and number.
#[derive(Debug, Default)]
pub(super) struct Steps {
    by_flow: BTreeMap<(Lid, u32), Vec<(u64, u32)>>,
}

impl Steps {
    pub(super) fn is_empty(&self) -> bool {
        self.by_flow.is_empty()
    }

    /// Step `id` waits for these.
    pub(super) fn wait(&mut self, id: u32, after: &[Awaited]) {
        for awaited in after {
            let key = (awaited.source, awaited.flow);
            let waiting = self.by_flow.entry(key).or_default();
            waiting.push((awaited.packets, id));
        }
    }

    /// The steps that so many packets of a flow are enough for, each as often as it waits for them; they do no more.
    pub(super) fn advanced(&mut self, of: (Lid, u32), packets: u64) -> Vec<u32> {
        let Some(waiting) = self.by_flow.get_mut(&of) else {
            return Vec::new();
        };
        let enough = waiting.extract_if(.., |(needed, _)| *needed <= packets);
        let steps = enough.map(|(_, id)| id).collect();
        if waiting.is_empty() {
            self.by_flow.remove(&of);
        }
        steps
    }

    /// Step `id` waits no more.
    pub(super) fn forget(&mut self, id: u32) {
        self.by_flow.retain(|_, waiting| {
            waiting.retain(|&(_, step)| step != id);
            !waiting.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Lid = Lid::new(7);

    fn awaited(flow: u32, packets: u64) -> Awaited {
        Awaited {
            source: FROM,
            flow,
            packets,
        }
    }

    #[test]
    fn a_step_is_told_once_when_a_flow_has_got_far_enough() {
        let mut steps = Steps::default();
        steps.wait(1, &[awaited(5, 10), awaited(6, 1)]);
        steps.wait(2, &[awaited(5, 11)]);
        assert_eq!(steps.advanced((FROM, 4), 99), []);
        assert_eq!(steps.advanced((FROM, 5), 9), []);
        assert_eq!(steps.advanced((FROM, 5), 10), [1]);
        assert_eq!(steps.advanced((FROM, 5), 12), [2]);
        assert_eq!(steps.advanced((FROM, 5), 13), []);
        assert!(!steps.is_empty());
        steps.forget(1);
        assert!(steps.is_empty());
    }
}
