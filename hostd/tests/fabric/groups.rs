//! Groups that a host joins: whose answers it takes.

use hostd::control::{Reply, Request};
use hostd::{Command, Event};
use link::{DropReason, PortConfig};
use mad::local::ToAgent;
use wire::mad::{AttributeId, Mad, MadStatus, MgmtClass};
use wire::sa::McMemberRecord;
use wire::{Gid, Lid, PortNum};

use crate::bed::{Bed, CLIENT, lid};
use crate::manage::bring_up_star;

const GROUP: Gid = Gid([0xff, 0x12, 0x1b, 0xed, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
const TOKEN: u64 = 1 << 40;

/// The answer of an administrator to a join, with a multicast LID of its own.
fn answer(request: &Mad, mlid: u16) -> Mad {
    let mut answer = *request;
    answer.answer(MadStatus::OK);
    let record: McMemberRecord = request.sa_record().unwrap();
    answer.set_sa_record(&McMemberRecord {
        mlid: Lid::new(mlid),
        ..record
    });
    answer
}

fn joined(bed: &mut Bed) -> Option<Reply> {
    let events = &mut bed.events[1];
    let is_reply = |event: &Event| matches!(event, Event::Control { token, .. } if *token == TOKEN);
    match events.remove(events.iter().position(is_reply)?)? {
        Event::Control { reply, .. } => Some(reply),
        _ => None,
    }
}

#[test]
fn a_host_takes_the_answer_of_subnet_administration_from_the_manager_s_port_only() {
    let mut bed = Bed::star(3, PortConfig::default());
    bring_up_star(&mut bed, 3);
    let class = MgmtClass::SUBN_ADM.0;
    let message = ToAgent::Register { class };
    let client = CLIENT;
    bed.command(0, Command::Mad { client, message });
    let (port, mgid) = (PortNum::new(1), GROUP);
    let send_only = false;
    let request = Request::Join { mgid, send_only };
    let token = TOKEN;
    bed.command(
        1,
        Command::Control {
            token,
            port,
            request,
        },
    );
    let request = bed.until(|bed| bed.receive_mad(0, CLIENT)).1;
    assert_eq!(request.attr_id(), AttributeId::MC_MEMBER_RECORD);

    // Host 2 is not where the manager is, and knows the transaction.
    bed.send_mad(2, CLIENT, lid(2), &answer(&request, 0xc00f));
    bed.run(1_000_000);
    assert_eq!(joined(&mut bed), None);
    let drops = bed.at(1).port().counts().drops[DropReason::BadMad];
    assert_eq!(drops, 1, "it is counted");

    bed.send_mad(0, CLIENT, lid(2), &answer(&request, 0xc001));
    match bed.until(joined) {
        Reply::Membership(membership) => assert_eq!(membership.mlid, Lid::new(0xc001)),
        other => panic!("{other:?}"),
    }
}
