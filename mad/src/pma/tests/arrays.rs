//! Counters by virtual lane, by service level and of flow control.

use wire::pma::{COUNTERS_MAX, CounterArray};

use super::*;

/// Two ports that have counted.
fn counted() -> [link::Counts; 3] {
    let mut ports = [(); 3].map(|()| link::Counts::default());
    for (port, factor) in [(1, 1), (2, 10)] {
        let details = &mut ports[port].details;
        details.level_mut(3).xmit_words_of_sl = 7 * factor;
        details.level_mut(15).rcv_words_of_sl = 1 << 40;
        details.level_mut(2).xmit_wait_ns_of_vl = 5_500 * factor;
        details.level_mut(1).expired_pkts_of_vl = 70_000;
        details.level_mut(0).rcv_fecn_pkts_of_sl = 2;
        details.level_mut(9).rcv_fecn_pkts_of_sl = 3;
        details.xmit_flow_pkts = 100;
        details.rcv_flow_pkts = 200;
    }
    ports
}

fn array(
    pma: &mut Pma,
    (method, id): (Method, CounterArrayId),
    wanted: CounterArray,
) -> Result<[u32; COUNTERS_MAX], MadStatus> {
    let mut mad = Mad::pma(method, id.id(), 0, 7);
    mad.set_counter_array(id, &wanted);
    let counts = counted();
    assert!(pma.handle(Time(0), &mut mad, |port| &counts[port.index()]));
    match mad.status() {
        MadStatus::OK => Ok(mad.counter_array(id).counters),
        status => Err(status),
    }
}

fn at(port: u8) -> CounterArray {
    CounterArray {
        port_select: PortNum::new(port),
        ..CounterArray::default()
    }
}

#[test]
fn arrays_tell_what_the_port_has_counted() {
    let mut pma = Pma::new(2);
    let mut get = |id, port| array(&mut pma, (Method::GET, id), at(port)).unwrap();
    assert_eq!(get(CounterArrayId::XmitDataSl, 1)[3], 7);
    assert_eq!(get(CounterArrayId::XmitDataSl, 0xff)[3], 77, "all ports");
    assert_eq!(get(CounterArrayId::RcvDataSl, 1)[15], u32::MAX, "it stops");
    assert_eq!(get(CounterArrayId::VlXmitWait, 2)[2], 55, "microseconds");
    assert_eq!(get(CounterArrayId::SwPortVlCongestion, 1)[1], 0xffff);
    assert_eq!(get(CounterArrayId::RcvConCtrl, 1)[..2], [5, 0]);
    assert_eq!(get(CounterArrayId::SlRcvFecn, 1)[9], 3);
    assert_eq!(get(CounterArrayId::FlowCtlCounters, 1)[..2], [100, 200]);
    assert_eq!(get(CounterArrayId::VlXmitFlowCtlUpdateErrors, 1), [0; 16]);
}

#[test]
fn a_set_changes_the_selected_counters_of_its_attribute() {
    let mut pma = Pma::new(2);
    let wanted = CounterArray {
        counter_select: 0b10,
        counters: [5; COUNTERS_MAX],
        ..at(1)
    };
    let id = CounterArrayId::FlowCtlCounters;
    let set = array(&mut pma, (Method::SET, id), wanted).unwrap();
    assert_eq!(set[..2], [100, 5]);
    assert_eq!(array(&mut pma, (Method::GET, id), at(1)), Ok(set));
    let other = array(&mut pma, (Method::GET, id), at(2)).unwrap();
    assert_eq!(other[..2], [100, 200], "the other port keeps its own");
    let id = CounterArrayId::VlXmitFlowCtlUpdateErrors;
    let wanted = CounterArray {
        counters: [3; COUNTERS_MAX],
        ..wanted
    };
    let set = array(&mut pma, (Method::SET, id), wanted).unwrap();
    assert_eq!(set[1], 3, "two bits");
}

#[test]
fn ports_that_are_not_there_and_counters_of_switches_are_refused() {
    let mut pma = Pma::new(2);
    let get = (Method::GET, CounterArrayId::XmitDataSl);
    assert_eq!(array(&mut pma, get, at(3)), Err(MadStatus::BAD_FIELD));
    let mut adapter = Pma::of_port(PortNum::new(1));
    let get = (Method::GET, CounterArrayId::SwPortVlCongestion);
    let refused = Err(MadStatus::BAD_METHOD_ATTRIBUTE);
    assert_eq!(array(&mut adapter, get, at(1)), refused);
}
