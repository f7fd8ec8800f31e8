//! Management datagrams as a whole, and attributes inside them.

use wire::attr::{SmInfo, SmState};
use wire::pma::PortCounters;
use wire::sa::{LinkRecord, SaHeader};
use wire::{
    AttributeId, EmitError, Guid, Lid, Mad, MadHeader, MadStatus, Method, MgmtClass, ParseError,
    PortNum,
};

use crate::check::{golden, hex};

#[test]
fn mad_header() {
    let value = MadHeader {
        base_version: 1,
        class: MgmtClass::SUBN_DIR,
        class_version: 2,
        method: Method::GET_RESP,
        status: MadStatus(0x801c),
        class_specific: 0x0304,
        tid: 0x0506_0708_090a_0b0c,
        attr_id: AttributeId::PORT_INFO,
        attr_mod: 0x0d0e_0f10,
    };
    golden(
        &value,
        "01 81 02 81 801c 0304 05060708090a0b0c 0015 0000 0d0e0f10",
    );
    assert!(value.method.is_response());
    assert!(value.class.is_subnet_management());
    assert_eq!(value.status.without_direction(), MadStatus::BAD_FIELD);
}

#[test]
fn a_mad_gives_back_the_header_it_was_made_of() {
    let header = MadHeader::request(
        MgmtClass::SUBN_ADM,
        Method::GET_TABLE,
        AttributeId::PATH_RECORD,
        7,
        0x1_0000_0002,
    );
    let mut mad = Mad::new(&header);
    assert_eq!((mad.header(), header.class_version), (header, 2));
    mad.set_method(Method::GET_TABLE_RESP);
    mad.set_status(MadStatus::SA_NO_RECORDS);
    mad.set_tid(9);
    mad.set_attr_mod(8);
    let changed = MadHeader {
        method: Method::GET_TABLE_RESP,
        status: MadStatus::SA_NO_RECORDS,
        tid: 9,
        attr_mod: 8,
        ..header
    };
    assert_eq!(mad.header(), changed);
    let (copy, rest) = Mad::parse(mad.as_bytes()).unwrap();
    assert_eq!((copy, rest), (mad, &[][..]));
    for have in 0..Mad::LEN {
        let error = Mad::parse(&mad.as_bytes()[..have]).unwrap_err();
        assert_eq!(
            error,
            ParseError::Truncated {
                what: "MAD",
                need: 256,
                have
            }
        );
    }
}

#[test]
fn a_directed_smp_is_laid_out_as_the_specification_says() {
    let path = [1, 7, 3].map(PortNum::new);
    let (get, node_info) = (Method::GET, AttributeId::NODE_INFO);
    let mut mad = Mad::directed_smp(get, node_info, 0, 0x0102, &path).unwrap();
    let bytes = mad.as_bytes();
    assert_eq!(
        bytes[..24],
        hex("01810101 0000 00 03 0000000000000102 0011 0000 00000000")
    );
    assert_eq!(bytes[24..36], hex("0000000000000000 ffff ffff"));
    assert_eq!(bytes[128..132], [0, 1, 7, 3]);
    assert!(
        bytes[36..128]
            .iter()
            .chain(&bytes[132..])
            .all(|&byte| byte == 0)
    );

    mad.set_m_key(0x1112_1314_1516_1718);
    mad.set_hop_pointer(2);
    mad.set_dr_slid(Lid::new(0x191a));
    mad.set_dr_dlid(Lid::new(0x1b1c));
    mad.set_returning(true);
    mad.set_status(MadStatus(mad.status().0 | MadStatus::BAD_FIELD.0));
    mad.return_path_mut()[1] = 4;
    assert_eq!(mad.as_bytes()[4..8], hex("801c 02 03"));
    assert_eq!(mad.as_bytes()[24..36], hex("1112131415161718 191a 1b1c"));
    assert_eq!(mad.as_bytes()[192..194], [0, 4]);
    assert!(mad.is_returning());
    mad.set_returning(false);
    assert_eq!(
        (mad.is_returning(), mad.status()),
        (false, MadStatus::BAD_FIELD)
    );
    assert_eq!((mad.hop_pointer(), mad.hop_count()), (2, 3));
    assert_eq!(mad.m_key(), 0x1112_1314_1516_1718);
    assert_eq!(
        (mad.dr_slid(), mad.dr_dlid()),
        (Lid::new(0x191a), Lid::new(0x1b1c))
    );
    assert_eq!((mad.initial_path()[2], mad.return_path()[1]), (7, 4));
}

#[test]
fn a_directed_route_has_at_most_63_hops() {
    let path = [PortNum::new(1); 300];
    let smp = |hops: usize| {
        Mad::directed_smp(Method::GET, AttributeId::NODE_INFO, 0, 0, &path[..hops])
            .map(|mad| mad.hop_count())
    };
    assert_eq!(smp(63), Ok(63));
    for len in [64, 255, 256, 300] {
        assert_eq!(
            smp(len),
            Err(EmitError::TooLong {
                what: "directed route",
                len,
                max: 63
            })
        );
    }
}

#[test]
fn an_attribute_in_a_datagram_is_read_back_and_leaves_no_old_bytes() {
    let mut smp = Mad::lid_smp(Method::SET, AttributeId::SM_INFO, 0, 0);
    smp.smp_data_mut().fill(0xee);
    let info = SmInfo {
        guid: Guid(1),
        sm_key: 2,
        act_count: 3,
        priority: 4,
        state: SmState::Master,
    };
    smp.set_smp_attribute(&info);
    assert_eq!(smp.smp_attribute::<SmInfo>().unwrap(), info);
    assert!(smp.smp_data()[SmInfo::LEN..].iter().all(|&byte| byte == 0));
    assert_eq!(smp.as_bytes()[64 + 20], 0x43);

    let mut pma = Mad::pma(Method::GET, AttributeId::PORT_COUNTERS, 0, 0);
    let counters = PortCounters {
        xmit_wait: 5,
        ..PortCounters::default()
    };
    pma.set_pma_attribute(&counters);
    assert_eq!(pma.pma_attribute::<PortCounters>().unwrap(), counters);
    assert_eq!(pma.as_bytes()[64 + 43], 5);

    let mut sa = Mad::sa(Method::GET, AttributeId::LINK_RECORD, 0, 0);
    let header = SaHeader {
        component_mask: 6,
        ..SaHeader::default()
    };
    let link = LinkRecord {
        from_lid: Lid::new(1),
        from_port: PortNum::new(2),
        to_port: PortNum::new(3),
        to_lid: Lid::new(4),
    };
    sa.sa_data_mut().fill(0xee);
    sa.set_sa_header(&header);
    sa.set_sa_record(&link);
    assert_eq!(sa.sa_header().unwrap(), header);
    assert_eq!(sa.sa_record::<LinkRecord>().unwrap(), link);
    assert_eq!(
        sa.as_bytes()[48..64],
        hex("0000000000000006 0001020300040000")
    );
    assert!(
        sa.sa_data()[LinkRecord::LEN..]
            .iter()
            .all(|&byte| byte == 0)
    );
}
