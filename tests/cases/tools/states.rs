//! Tools that change a port: ibportstate.

use std::time::Duration;

use e2e::{Outcome, within};
use topologies::Endpoint;
use wire::PortNum;

use super::printed::{Verdict, counts, fails, same, says, values};
use super::row::{Row, reads, refused, works};
use super::truth::{Counters, Truth};

/// How long a link that goes up again may take to be Active.
const LINK_TIMEOUT: Duration = Duration::from_secs(20);
/// Code of the logical state Active.
const ACTIVE: u8 = 4;

const SAME: &str = "what is set is what is there, and the port stays Active";
const AGAIN: &str = "the link has gone down once, and comes back";

pub(crate) const ROWS: &[Row] = &[
    works("ibportstate {switch} 1 query", "both ends of the cable are Active, 4x at 10 Gbit/s", both_ends),
    works("ibportstate -G {switch.guid} 1", "the same", both_ends),
    works("ibportstate -D 0,1 1", "the same of the switch beside the host", both_ends),
    works("ibportstate {far} 1 query", "the host's LID, LMC and state", |truth, outcome| {
        let text = &outcome.stdout;
        counts(text, "Lid", truth.lid(truth.far))?;
        counts(text, "LMC", truth.lmc(truth.far))?;
        counts(text, "SMLid", truth.lid(truth.sm))?;
        says(text, "LinkState", "Active")
    }),
    works(
        "ibportstate {switch} 1 disable >/dev/null && ibportstate {switch} 1 query && ibportstate {switch} 1 enable >/dev/null",
        "the port is Disabled, and after enable Active again",
        disabled,
    )
    .alone(),
    works(
        "ibportstate {switch} 1 off >/dev/null && ibportstate {switch} 1 query && ibportstate {switch} 1 on >/dev/null",
        "the same by other names",
        disabled,
    )
    .alone(),
    reads("ibportstate {switch} 1 reset", AGAIN, port, went_down).alone(),
    reads("ibportstate {switch} 1 down", AGAIN, port, went_down).alone(),
    reads("ibportstate {switch} 1 speed 1 >/dev/null && ibportstate {switch} 1 reset", AGAIN, port, went_down).alone(),
    works("ibportstate {switch} 1", "both ends are at 2.5 Gbit/s now", |_, outcome| {
        link_is(outcome, "4X", "2.5 Gbps")
    })
    .alone(),
    reads(
        "ibportstate {switch} 1 speed 7 >/dev/null && ibportstate {switch} 1 width 1 >/dev/null && ibportstate {switch} 1 reset",
        AGAIN,
        port,
        went_down,
    )
    .alone(),
    works("ibportstate {switch} 1", "both ends are at 10 Gbit/s and 1x now", |_, outcome| {
        link_is(outcome, "1X", "10.0 Gbps")
    })
    .alone(),
    reads("ibportstate {switch} 1 width 3 >/dev/null && ibportstate {switch} 1 reset", AGAIN, port, went_down).alone(),
    works("ibportstate {switch} 1", "both ends are as at first", both_ends).alone(),
    refused("ibportstate {switch} 1 espeed 1", "the link has no extended speeds", |_, outcome| {
        fails(outcome, "failed")
    })
    .alone(),
    refused("ibportstate {switch} 1 fdr10 1", "the link has no FDR10", |_, outcome| fails(outcome, "failed")).alone(),
    works("ibportstate {far} 1 active", SAME, far_stays).alone(),
    works("ibportstate {far} 1 lid {far}", SAME, far_stays).alone(),
    works("ibportstate {far} 1 smlid {sm}", SAME, far_stays).alone(),
    works("ibportstate {far} 1 mtu 4", SAME, far_stays).alone(),
    works("ibportstate {far} 1 mkeylease 0", SAME, far_stays).alone(),
    works("ibportstate {far} 1 mkeyprot 0", SAME, far_stays).alone(),
    refused("ibportstate {far} 1 arm", "a port that is Active cannot be armed", |_, outcome| {
        fails(outcome, "failed: smp set portinfo failed")
    })
    .alone(),
    refused("ibportstate {switch} 99", "the switch has no port 99", |_, outcome| fails(outcome, "failed")),
];

fn port(truth: &Truth<'_>) -> Endpoint {
    Endpoint {
        node: truth.switch,
        port: PortNum::new(1),
    }
}

fn both_ends(_: &Truth<'_>, outcome: &Outcome) -> Verdict {
    link_is(outcome, "4X", "10.0 Gbps")
}

fn link_is(outcome: &Outcome, width: &str, speed: &str) -> Verdict {
    for (name, expected) in [
        ("LinkState", "Active"),
        ("PhysLinkState", "LinkUp"),
        ("LinkWidthActive", width),
        ("LinkSpeedActive", speed),
    ] {
        let all: Vec<&str> = values(&outcome.stdout, name).collect();
        same(name, all, vec![expected; 2])?;
    }
    Ok(())
}

/// Waits until both ends of the switch's first cable are Active.
fn is_active_again(truth: &Truth<'_>) -> Verdict {
    let Some(peer) = truth.peer(truth.switch, 1) else {
        return Err("no cable".to_owned());
    };
    within(LINK_TIMEOUT, "the link is Active again", || {
        for end in [port(truth), peer] {
            let ports = truth.ports(end.node);
            let state = ports
                .iter()
                .find(|status| status.port == end.port)
                .map(|status| status.state);
            if state != Some(ACTIVE) {
                return Err(format!(
                    "port {} of {}: {state:?}",
                    end.port,
                    truth.name(end.node)
                ));
            }
        }
        Ok(())
    });
    Ok(())
}

fn disabled(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    is_active_again(truth)?;
    says(&outcome.stdout, "LinkState", "Down")?;
    says(&outcome.stdout, "PhysLinkState", "Disabled")
}

fn went_down(truth: &Truth<'_>, _: &Outcome, before: &Counters, _: &Counters) -> Verdict {
    let downed = |counters: &Counters| counters["LinkDownedCounter"];
    within(LINK_TIMEOUT, "the link goes down", || {
        match downed(&truth.counters(port(truth))) {
            now if now > downed(before) => Ok(()),
            now => Err(format!("LinkDownedCounter is {now}")),
        }
    });
    is_active_again(truth)?;
    same(
        "times that the link went down",
        downed(&truth.counters(port(truth))),
        downed(before) + 1,
    )
}

fn far_stays(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    counts(&outcome.stdout, "Lid", truth.lid(truth.far))?;
    let ports = truth.ports(truth.far);
    same("LID", ports[0].lid, truth.lid(truth.far))?;
    same("state", ports[0].state, ACTIVE)
}
