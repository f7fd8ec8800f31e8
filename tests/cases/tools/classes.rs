//! Tools of further management classes: congestion control (ibccquery, ibccconfig), and vendstat, whose
//! vendor's class no device here has.

use e2e::Outcome;

use super::printed::{Verdict, counts, fails, lines_with, number, same, says, values};
use super::row::{Row, refused, reported, works};
use super::truth::Truth;

const READ_BACK: &str = "what is set is read back";
const NO_CLASS: &str = "no device has this vendor's class";

pub(crate) const ROWS: &[Row] = &[
    works(
        "ibccquery ClassPortInfo {switch}",
        "class version 2",
        version,
    ),
    works("ibccquery CP {far}", "class version 2", version),
    works(
        "ibccquery CongestionInfo {switch}",
        "a switch has no control table",
        |_, outcome| counts(&outcome.stdout, "ControlTableCap", 0_u64),
    ),
    works(
        "ibccquery CI {far}",
        "two blocks of control table",
        |_, outcome| counts(&outcome.stdout, "ControlTableCap", 2_u64),
    ),
    works("ibccquery CongestionKeyInfo {switch}", "no key", no_key),
    works("ibccquery CK {far}", "no key", no_key),
    works(
        "ibccquery CongestionLog {switch}",
        "a switch's log, without events",
        |_, outcome| {
            counts(&outcome.stdout, "LogType", 1_u64)?;
            counts(&outcome.stdout, "LogEventsCounter", 0_u64)
        },
    ),
    works(
        "ibccquery CL {far}",
        "a host's log, without events",
        |_, outcome| {
            counts(&outcome.stdout, "LogType", 2_u64)?;
            counts(&outcome.stdout, "ThresholdEventCounter", 0_u64)
        },
    ),
    works(
        "ibccquery Timestamp {switch} && ibccquery TI {switch}",
        "the clock runs on",
        |_, outcome| {
            let stamps: Vec<&str> = values(&outcome.stdout, "Timestamp").collect();
            match stamps[..] {
                [first, second] if first != second => Ok(()),
                _ => Err(format!("{stamps:?}")),
            }
        },
    ),
    works(
        "ibccquery SwitchPortCongestionSetting {switch}",
        "a setting for each port, port 0 too",
        |truth, outcome| {
            let ports = usize::from(truth.node(truth.switch).ports) + 1;
            lines_with(&outcome.stdout, "Port:", ports)
        },
    ),
    refused(
        "ibccquery SwitchCongestionSetting {far}",
        "a host is no switch",
        |_, outcome| fails(outcome, "switch congestion setting query failed"),
    ),
    refused("ibccquery SP {far}", "a host is no switch", |_, outcome| {
        fails(outcome, "destination not a switch")
    }),
    refused(
        "ibccquery CS {switch}",
        "a switch is no host",
        |_, outcome| fails(outcome, "ca congestion setting query failed"),
    ),
    refused(
        "ibccquery CT {switch}",
        "a switch is no host",
        |_, outcome| fails(outcome, "congestion control table query failed"),
    ),
    works(
        "ibccconfig CongestionKeyInfo {here} 0x77 1 0 0 && ibccquery -c 0x77 CK {here} && ibccquery CK {here} && ibccconfig -c 0x77 CK {here} 0 0 0 0 && ibccquery CK {here}",
        "the key is read back with the key, and removed",
        |_, outcome| {
            let column = |name| values(&outcome.stdout, name).collect::<Vec<&str>>();
            let hidden = "0x0000000000000000";
            same(
                "CC_Key",
                column("CC_Key"),
                vec!["0x0000000000000077", hidden, hidden],
            )?;
            same(
                "CC_KeyProtectBit",
                column("CC_KeyProtectBit"),
                vec!["1", "1", "0"],
            )
        },
    ),
    works(
        "ibccconfig SwitchCongestionSetting {switch} 0x1f 0x6 0x4 0xf 8 3 0:5 10 && ibccquery SS {switch}",
        READ_BACK,
        |_, outcome| {
            let text = &outcome.stdout;
            for (name, value) in [
                ("Control_Map", 0x1f_u64),
                ("Threshold", 0xf),
                ("Packet_Size", 8),
                ("CS_Threshold", 3),
                ("CS_ReturnDelay", 5),
                ("Marking_Rate", 10),
            ] {
                counts(text, name, value)?;
            }
            says(text, "Victim_Mask", format!("{:064x}", 6))?;
            says(text, "Credit_Mask", format!("{:064x}", 4))
        },
    ),
    works(
        "ibccconfig SwitchPortCongestionSetting {switch} 1 1 0 5 7 9 && ibccquery SP {switch} 1",
        READ_BACK,
        |_, outcome| {
            let text = &outcome.stdout;
            for (name, value) in [
                ("Valid", 1_u64),
                ("Threshold", 5),
                ("Packet_Size", 7),
                ("Cong_Parm_Marking_Rate", 9),
            ] {
                counts(text, name, value)?;
            }
            Ok(())
        },
    ),
    works(
        "ibccconfig CACongestionSetting {far} 0 0x5 150 1 0 0 && ibccquery CS {far}",
        "service levels 0 and 2 are set, the others not",
        |_, outcome| {
            counts(&outcome.stdout, "Control_Map", 5_u64)?;
            let timers: Vec<&str> = values(&outcome.stdout, "CCTI_Timer").collect();
            let expected = (0..16).map(|sl| if sl == 0 || sl == 2 { "150" } else { "0" });
            same("CCTI_Timer", timers, expected.collect())
        },
    ),
    works(
        "ibccconfig CongestionControlTable {far} 3 0 0:0 0:1 1:7 2:9 && ibccquery CT {far}",
        READ_BACK,
        |_, outcome| {
            let text = &outcome.stdout;
            counts(text, "CCTI_Limit", 3_u64)?;
            let shifts: Vec<&str> = values(text, "CCT_Shift").collect();
            let factors: Vec<&str> = values(text, "CCT_Multiplier").collect();
            same("CCT_Shift", shifts, vec!["0", "0", "1", "2"])?;
            same("CCT_Multiplier", factors, vec!["0", "1", "7", "9"])
        },
    ),
    refused(
        "ibccconfig SwitchCongestionSetting {far} 0x1f 0 0 15 8 0 0:0 1",
        "a host is no switch",
        |_, outcome| fails(outcome, "switch congestion setting config failed"),
    ),
    refused(
        "ibccconfig CACongestionSetting {switch} 0 0x3 150 1 0 0",
        "a switch is no host",
        |_, outcome| fails(outcome, "ca congestion setting config failed"),
    ),
    refused(
        "ibccconfig CongestionControlTable {switch} 1 0 0:0 0:1",
        "a switch is no host",
        |_, outcome| fails(outcome, "congestion control table config failed"),
    ),
    refused("vendstat -N {switch}", NO_CLASS, at_once),
    refused("vendstat -N {far}", NO_CLASS, at_once),
    refused("vendstat -w {switch}", NO_CLASS, at_once),
    reported("vendstat -i {switch} 1", NO_CLASS, at_once),
    reported("vendstat -c 0,1 {switch} 1", NO_CLASS, at_once),
    reported("vendstat -R 0x1000,0xffffffff {switch}", NO_CLASS, at_once),
    reported(
        "vendstat -W 0x1000,1,0xffffffff {switch}",
        NO_CLASS,
        at_once,
    ),
];

fn version(_: &Truth<'_>, outcome: &Outcome) -> Verdict {
    counts(&outcome.stdout, "BaseVersion", 1_u64)?;
    counts(&outcome.stdout, "ClassVersion", 2_u64)
}

fn no_key(_: &Truth<'_>, outcome: &Outcome) -> Verdict {
    match number(&outcome.stdout, "CC_Key")? {
        0 => counts(&outcome.stdout, "CC_KeyProtectBit", 0_u64),
        key => Err(format!("the key {key:#x}")),
    }
}

/// The device answers that it has no such class or attribute: it is not waited for.
fn at_once(_: &Truth<'_>, outcome: &Outcome) -> Verdict {
    fails(outcome, " failure")?;
    match outcome.to_string().contains("timed out") {
        true => Err("no answer".to_owned()),
        false => Ok(()),
    }
}
