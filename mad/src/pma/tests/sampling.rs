//! PortSamplesControl and PortSamplesResult.

use wire::pma::{PortSamplesControl, PortSamplesResult, SampleStatus, sample_select};

use super::*;

fn request<A: Format>(
    pma: &mut Pma,
    (now, pkts): (u64, u64),
    (method, id): (Method, AttributeId),
    attribute: Option<&A>,
) -> Result<A, MadStatus> {
    let mut mad = Mad::pma(method, id, 0, 7);
    if let Some(attribute) = attribute {
        mad.set_pma_attribute(attribute);
    }
    let mut counts = link::Counts::default();
    counts.spec.xmit_pkts = pkts;
    counts.spec.rcv_data_words = 3 * pkts;
    assert!(pma.handle(Time(now), &mut mad, |_| &counts));
    match mad.status() {
        MadStatus::OK => Ok(mad.pma_attribute().unwrap()),
        status => Err(status),
    }
}

fn result(pma: &mut Pma, now: u64, pkts: u64) -> PortSamplesResult {
    let get = (Method::GET, AttributeId::PORT_SAMPLES_RESULT);
    request(pma, (now, pkts), get, None).unwrap()
}

fn wanted() -> PortSamplesControl {
    let mut wanted = PortSamplesControl {
        port_select: PortNum::new(1),
        sample_start: 10,
        sample_interval: 20,
        tag: 0xbeef,
        ..PortSamplesControl::default()
    };
    wanted.counter_select[0] = sample_select::XMIT_PKTS;
    wanted.counter_select[14] = sample_select::RCV_DATA;
    wanted
}

const SET: (Method, AttributeId) = (Method::SET, AttributeId::PORT_SAMPLES_CONTROL);

#[test]
fn a_sampling_counts_from_its_start_for_its_interval() {
    let mut pma = Pma::of_port(PortNum::new(1));
    assert_eq!(pma.deadline(), None);
    let started = request(&mut pma, (1_000, 5), SET, Some(&wanted())).unwrap();
    assert_eq!(
        (started.tick, started.counter_width),
        (249, 4),
        "1 us, 32 bits"
    );
    assert_eq!(started.sample_status, SampleStatus::Starting);
    assert_eq!(pma.deadline(), Some(Time(11_000)));
    let mut counts = link::Counts::default();
    counts.spec.xmit_pkts = 7;
    counts.spec.rcv_data_words = 21;
    pma.poll(Time(11_000), |_| &counts);
    let running = result(&mut pma, 12_000, 8);
    assert_eq!(running.sample_status, SampleStatus::Running);
    assert_eq!(pma.deadline(), Some(Time(31_000)));
    let refused = request(
        &mut pma,
        (13_000, 8),
        SET,
        Some(&PortSamplesControl { tag: 1, ..wanted() }),
    );
    assert_eq!(refused.unwrap().tag, 0xbeef, "it is at work");
    let done = result(&mut pma, 31_000, 19);
    assert_eq!((done.tag, done.sample_status), (0xbeef, SampleStatus::Done));
    assert_eq!((done.counters[0], done.counters[14]), (12, 36));
    assert_eq!(pma.deadline(), None);
    assert_eq!(result(&mut pma, 99_000, 50), done, "it stays as it is");
}

#[test]
fn what_cannot_be_sampled_is_refused() {
    let mut pma = Pma::of_port(PortNum::new(1));
    let mut unknown = wanted();
    unknown.counter_select[3] = 77;
    let other = PortSamplesControl {
        port_select: PortNum::new(2),
        ..wanted()
    };
    for bad in [unknown, other] {
        let refused = request(&mut pma, (0, 0), SET, Some(&bad));
        assert_eq!(refused, Err(MadStatus::BAD_FIELD));
    }
    assert_eq!(pma.deadline(), None);
}
