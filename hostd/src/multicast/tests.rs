use super::*;

const GROUP: Gid = Gid([0xff; 16]);
const PORT: Gid = Gid([1; 16]);

fn joining() -> (Multicast, Mad) {
    let mut multicast = Multicast::default();
    multicast.join(Time(0), 5, GROUP, false).unwrap();
    let request = multicast.poll(Time(0), PORT, 0xffff).unwrap();
    (multicast, request)
}

fn answer(request: &Mad, status: MadStatus) -> Mad {
    let mut answer = *request;
    answer.set_method(Method::GET_RESP);
    answer.set_status(status);
    answer
}

#[test]
fn a_join_of_a_group_with_other_properties_is_repeated_without_those_that_create_one() {
    let (mut multicast, first) = joining();
    assert_eq!(first.sa_header().unwrap().component_mask, CREATES);
    multicast.answered(Time(9), &answer(&first, MadStatus::SA_REQUEST_INVALID));
    let second = multicast.poll(Time(9), PORT, 0xffff).unwrap();
    assert_eq!(second.sa_header().unwrap().component_mask, NEEDED);
    assert_ne!(second.tid(), first.tid());
    multicast.answered(Time(10), &answer(&first, MadStatus::OK));
    assert!(multicast.poll_outcome().is_none(), "a late answer");
    multicast.answered(Time(10), &answer(&second, MadStatus::OK));
    let (token, outcome) = multicast.poll_outcome().unwrap();
    assert_eq!((token, outcome.unwrap().joined), (5, true));
    assert_eq!(multicast.deadline(), None);
    multicast.rejoin(Time(20));
    assert!(multicast.poll(Time(20), PORT, 0xffff).is_some());
}

#[test]
fn a_member_that_was_refused_asks_again_when_it_is_told_to_register_anew() {
    let (mut multicast, request) = joining();
    multicast.answered(Time(1), &answer(&request, MadStatus::OK));
    assert!(multicast.poll_outcome().is_some());
    multicast.rejoin(Time(10));
    let again = multicast.poll(Time(10), PORT, 0xffff).unwrap();
    multicast.answered(Time(11), &answer(&again, MadStatus::SA_INVALID_GID));
    assert_eq!(multicast.deadline(), Some(Time(11) + REJOIN_INTERVAL_NS));
    multicast.rejoin(Time(20));
    let again = multicast.poll(Time(20), PORT, 0xffff).unwrap();
    multicast.answered(Time(21), &answer(&again, MadStatus::OK));
    assert!(multicast.memberships()[0].joined);
}

#[test]
fn a_join_without_an_answer_fails_after_the_last_attempt() {
    let (mut multicast, _) = joining();
    let mut request_count = 1;
    while let Some(due) = multicast.deadline() {
        request_count += u32::from(multicast.poll(due, PORT, 0xffff).is_some());
    }
    assert_eq!(request_count, ATTEMPTS);
    assert!(multicast.poll_outcome().unwrap().1.is_err());
    assert!(multicast.memberships().is_empty());
}

#[test]
fn each_packet_of_a_source_is_counted_once_and_a_new_run_counts_anew() {
    let (mut multicast, request) = joining();
    let mut joined = answer(&request, MadStatus::OK);
    let record = request.sa_record::<McMemberRecord>().unwrap();
    joined.set_sa_record(&record);
    multicast.answered(Time(1), &joined);
    let mut packet = |run, sequence, source| {
        let mut payload = [0; 40];
        let head = MulticastHead {
            run,
            sequence,
            count: 100,
        };
        head.emit(&mut payload);
        multicast.receive(GROUP, Guid(source), &payload);
    };
    for sequence in [0, 1, 99, 1] {
        packet(1, sequence, 7);
    }
    packet(1, 0, 8);
    // Another run.
    packet(2, 0, 8);
    multicast.receive(PORT, Guid(7), &[]);
    multicast.receive(GROUP, Guid(7), b"foreign");
    let reports = multicast.report(GROUP, 0);
    let counts: Vec<(u64, u64)> = reports
        .iter()
        .map(|source| (source.received, source.duplicates))
        .collect();
    assert_eq!(counts, [(3, 1), (1, 0)]);
    let heard: Vec<_> = multicast.take_heard().into_iter().flatten().collect();
    assert_eq!(heard, [(GROUP, SERVICE_QKEY)]);
    assert!(
        multicast.take_heard().is_none(),
        "nothing has changed since"
    );
}
