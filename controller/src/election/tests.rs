use super::*;

const STATES: [SmState; 4] = [
    SmState::Discovering,
    SmState::Standby,
    SmState::NotActive,
    SmState::Master,
];
const INPUTS: [Input; 11] = [
    Input::Alone,
    Input::LesserMasterFound,
    Input::BetterFound,
    Input::PollFailed,
    Input::HandedOver,
    Input::LinkLost,
    Input::Handover,
    Input::Acknowledge,
    Input::Disable,
    Input::StandBy,
    Input::Discover,
];

fn election(state: SmState, priority: u8) -> Election {
    Election {
        state,
        ..Election::new(priority, 1)
    }
}

fn info(guid: u64, priority: u8, state: SmState) -> SmInfo {
    election(state, priority).sm_info(Guid(guid), 7)
}

/// By state (a line) and input (a column): the next state and the step; `-` where there is no such
/// input.
#[test]
fn every_input_in_every_state() {
    let mut table = String::new();
    for state in STATES {
        table += &format!("{state:?}:");
        for input in INPUTS {
            table += &match transition(state, input) {
                Some((next, step)) => format!(" {next:?}/{step:?}"),
                None => " -".to_owned(),
            };
        }
        table.push('\n');
    }
    let expected = "\
Discovering: Master/Serve Standby/Poll Standby/Poll - - Discovering/Stay Discovering/Sweep - - - -
Standby: - - - Discovering/Sweep - - Master/Sweep Standby/Stay NotActive/Rest - Discovering/Sweep
NotActive: - - - - - - - - - Standby/Poll -
Master: Master/Serve Master/Await Master/HandOver Master/Sweep Standby/Poll Discovering/Stay \
Master/Sweep - - - -
";
    assert_eq!(table, expected);
}

#[test]
fn the_higher_priority_wins_and_between_equals_the_lower_guid() {
    let judged = |own: &SmInfo, other: SmInfo| {
        let (input, about) = election(own.state, own.priority).judge(own, &[(4, other)]);
        assert_eq!(about.is_some(), input != Input::Alone);
        input
    };
    let master = |guid, priority| info(guid, priority, SmState::Master);
    let standby = |guid, priority| info(guid, priority, SmState::Standby);
    assert_eq!(judged(&master(1, 3), standby(2, 4)), Input::BetterFound);
    assert_eq!(judged(&master(1, 4), standby(2, 3)), Input::Alone);
    assert_eq!(judged(&master(2, 4), standby(1, 4)), Input::BetterFound);
    assert_eq!(judged(&master(1, 4), standby(2, 4)), Input::Alone);
    assert_eq!(judged(&master(1, 4), standby(1, 9)), Input::Alone, "itself");
    let inactive = info(2, 9, SmState::NotActive);
    assert_eq!(judged(&master(1, 4), inactive), Input::Alone);
    assert_eq!(
        judged(&master(1, 4), master(2, 3)),
        Input::LesserMasterFound
    );
    assert_eq!(judged(&master(1, 4), master(2, 5)), Input::BetterFound);
}

#[test]
fn a_manager_with_another_key_takes_no_part_unless_every_key_is_trusted() {
    let own = info(1, 3, SmState::Discovering);
    let other = SmInfo {
        sm_key: 2,
        ..info(2, 9, SmState::Master)
    };
    let strict = Election::new(3, 1);
    assert_eq!(strict.judge(&own, &[(4, other)]), (Input::Alone, None));
    let trusting = Election::new(3, 0);
    let expected = (Input::BetterFound, Some((4, other)));
    assert_eq!(trusting.judge(&own, &[(4, other)]), expected);
}

#[test]
fn a_master_does_not_hand_over_to_one_that_discovers() {
    let own = info(10, 4, SmState::Master);
    let judged = |other| election(SmState::Master, 4).judge(&own, &[(1, info(11, 9, other))]);
    assert_eq!(judged(SmState::Discovering), (Input::Alone, None));
    let found = judged(SmState::Standby).0;
    assert_eq!(found, Input::BetterFound);
}

#[test]
fn who_discovers_polls_the_master_and_the_master_hands_over_to_the_best() {
    let best = (1, info(11, 9, SmState::Standby));
    let master = (2, info(12, 5, SmState::Master));
    let managers = [(3, info(13, 7, SmState::Standby)), best, master];
    let about = |state| {
        let own = info(10, 4, state);
        election(state, 4).judge(&own, &managers)
    };
    let found = Input::BetterFound;
    assert_eq!(about(SmState::Discovering), (found, Some(master)));
    assert_eq!(about(SmState::Master), (found, Some(best)));
}

#[test]
fn what_the_answer_to_a_poll_means() {
    use SmState::{Discovering, Master, NotActive, Standby};
    let judged = |state, other: Option<SmInfo>| {
        let mut election = election(state, 5);
        election.poll(Some(Guid(2)));
        election.judge_poll(&info(1, 5, state), other.as_ref())
    };
    for (state, priority, at, expected) in [
        (Standby, 8, Master, Poll::Alive),
        (Standby, 3, Master, Poll::Lesser),
        (Standby, 8, Standby, Poll::Alive),
        (Standby, 3, Standby, Poll::Gone),
        (Standby, 8, Discovering, Poll::Alive),
        (Standby, 3, Discovering, Poll::Gone),
        (Standby, 8, NotActive, Poll::Gone),
        (Master, 3, Master, Poll::Lesser),
        (Master, 8, Master, Poll::Gone),
        (Master, 3, Standby, Poll::Gone),
    ] {
        let other = info(2, priority, at);
        assert_eq!(judged(state, Some(other)), expected, "{state:?} {other:?}");
    }
    assert_eq!(judged(Standby, None), Poll::Gone);
    let elsewhere = info(3, 8, Master);
    assert_eq!(judged(Standby, Some(elsewhere)), Poll::Gone);
    let untrusted = SmInfo {
        sm_key: 2,
        ..info(2, 8, Master)
    };
    assert_eq!(judged(Standby, Some(untrusted)), Poll::Gone);
}

fn set(modifier: u32, sender: &SmInfo) -> Mad {
    let mut mad = Mad::lid_smp(Method::SET, AttributeId::SM_INFO, modifier, 5);
    mad.set_smp_attribute(sender);
    mad
}

fn asked(state: SmState, request: &Mad, handed_to: Option<u64>) -> (MadStatus, Option<Input>) {
    let own = info(1, 8, state);
    let from = message(Lid::new(7), Qpn::SMI, request);
    let asked = election(state, 8).asked(&own, &from, request, handed_to.map(Guid));
    let asked = asked.expect("an answer");
    let answer = Mad::from_bytes(*asked.answer.mad);
    assert_eq!(answer.smp_attribute::<SmInfo>().unwrap(), own);
    (answer.status(), asked.input.map(|(input, _)| input))
}

#[test]
fn what_a_master_sets_is_obeyed_in_the_states_that_have_it() {
    let master = info(2, 8, SmState::Master);
    let at = |state, modifier| asked(state, &set(modifier, &master), None);
    let ok = |input| (MadStatus::OK, Some(input));
    let refused = (MadStatus::BAD_FIELD, None);
    assert_eq!(at(SmState::Standby, HANDOVER), ok(Input::Handover));
    assert_eq!(at(SmState::Master, HANDOVER), ok(Input::Handover));
    assert_eq!(at(SmState::Standby, DISABLE), ok(Input::Disable));
    assert_eq!(at(SmState::NotActive, STANDBY), ok(Input::StandBy));
    assert_eq!(at(SmState::Standby, DISCOVER), ok(Input::Discover));
    assert_eq!(at(SmState::Master, DISABLE), refused);
    assert_eq!(at(SmState::NotActive, HANDOVER), refused);
    assert_eq!(at(SmState::Standby, 6), refused);
}

#[test]
fn who_is_not_trusted_or_not_master_sets_nothing() {
    let standby = info(2, 8, SmState::Standby);
    let untrusted = SmInfo {
        sm_key: 2,
        ..info(2, 8, SmState::Master)
    };
    for sender in [standby, untrusted] {
        for modifier in [HANDOVER, DISABLE, DISCOVER] {
            let answer = asked(SmState::Standby, &set(modifier, &sender), None);
            assert_eq!(answer, (MadStatus::BAD_FIELD, None));
        }
    }
}

#[test]
fn only_the_manager_that_was_sent_handover_acknowledges_it() {
    let sender = info(2, 9, SmState::Standby);
    let request = set(ACKNOWLEDGE, &sender);
    let handed_over = (MadStatus::OK, Some(Input::HandedOver));
    assert_eq!(asked(SmState::Master, &request, Some(2)), handed_over);
    let refused = (MadStatus::BAD_FIELD, None);
    assert_eq!(asked(SmState::Master, &request, Some(3)), refused);
    assert_eq!(asked(SmState::Master, &request, None), refused);
    let late = (MadStatus::OK, Some(Input::Acknowledge));
    assert_eq!(asked(SmState::Standby, &request, None), late);
}

#[test]
fn a_get_is_answered_in_every_state() {
    for state in STATES {
        let request = Mad::lid_smp(Method::GET, AttributeId::SM_INFO, 0, 5);
        assert_eq!(asked(state, &request, None), (MadStatus::OK, None));
    }
}
