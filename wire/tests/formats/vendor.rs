//! What hosts and the controller say to each other beyond the specification.

use wire::vendor::{
    self, PAIRS_MAX, QosCause, QosConnection, WindowGrant, WindowRequest, WindowState,
};
use wire::{Guid, Lid, Mad, Method, PortNum, Sl};

use crate::check::{bad, golden, hex, refused};

#[test]
fn qos_connection() {
    let value = QosConnection {
        id: 0x0102_0304,
        time_sensitive: true,
        distance: 0x10,
        sl: Sl::constant(7),
        cause: QosCause::Bandwidth,
        source: Guid(0x1112_1314_1516_1718),
        destination: Guid(0x2122_2324_2526_2728),
        rate_bps: 0x3132_3334_3536_3738,
        dlid: Lid::new(0x4142),
        port: PortNum::new(0x44),
        wanted: 0x5152_5354,
        node: Guid(0x6162_6364_6566_6768),
        left: 0x7172_7374,
    };
    let text = "01020304 01 10 07 06 1112131415161718 2122232425262728 3132333435363738 4142 00 44
                51525354 6162636465666768 71727374";
    golden(&value, text);
    let class = refused::<QosConnection>(text, 4, 2);
    assert_eq!(class, bad("QosConnection:Class", 2));
    let cause = refused::<QosConnection>(text, 7, 11);
    assert_eq!(cause, bad("QosConnection:Cause", 11));
}

#[test]
fn window_request() {
    let pairs = [(0x0102, 0x0304), (0x0506, 0x0708)];
    let pairs = pairs.map(|(from, to)| (Lid::new(from), Lid::new(to)));
    let value = WindowRequest::of(0x2122, &pairs);
    let text = format!("2122 0000 0102 0304 0506 0708 {}", "00".repeat(4 * 51));
    golden(&value, &text);
    assert_eq!(value.iter().collect::<Vec<_>>(), pairs);
    let full = WindowRequest::of(1, &[(Lid::new(9), Lid::new(8)); 60]);
    assert_eq!(full.iter().count(), PAIRS_MAX);
}

#[test]
fn window_state_and_grant() {
    let state = WindowState {
        session: 0x0102_0304,
        window: 0x0506_0708,
        late: 0x090a_0b0c,
        moved: 0x0d0e_0f10,
        deferred: 0x1112_1314,
        blocked: 0x1516_1718,
        unanswered: 0x191a_1b1c,
        connections: 0x1d1e,
        waiting: 0x1f20,
        trees: 0x2122,
        rate: 0x2324,
    };
    let bytes: String = (1..=0x24u8).map(|byte| format!("{byte:02x}")).collect();
    golden(&state, &bytes);
    let grant = WindowGrant {
        session: 0x0102_0304,
        step: 0x0506_0708,
        destination: Lid::new(0x090a),
        dlid: Lid::new(0x0b0c),
    };
    golden(&grant, "01020304 05060708 090a 0b0c");
}

#[test]
fn datagrams_carry_class_oui_and_attribute() {
    let grant = WindowGrant {
        step: 1,
        ..WindowGrant::default()
    };
    let mut mad = Mad::vendor(Method::SET, 2, 3, &grant);
    assert!(mad.is_vendor());
    assert_eq!(
        mad.as_bytes()[..44],
        hex("01 30 01 02 0000 0000 0000000000000003 0022 0000 00000002
             000000000000000000000000 00 021bed 00000000")
    );
    assert_eq!(mad.vendor_attribute::<WindowGrant>(), Ok(grant));
    mad.as_bytes_mut()[255] = 1;
    mad.set_vendor_attribute(&grant);
    assert_eq!(mad.as_bytes()[255], 0, "what is left of the data is zero");
    assert_eq!(mad.attr_id(), vendor::WINDOW_GRANT);
    mad.as_bytes_mut()[39] = 0;
    assert!(!mad.is_vendor(), "another organisation's");
}
