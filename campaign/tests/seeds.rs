//! Schedules from seeds and what has been found by them.

use std::sync::{Arc, Mutex};

use campaign::{Limits, Outcome, Schedule, run, run_with};
use link::Time;
use sim::{Interposer, Passage};
use topologies::Endpoint;
use wire::mad::{AttributeId, Method};
use wire::{Delimiter, Mad};

/// Small fabrics: these tests run without optimisation.
fn small(seeds: core::ops::Range<u64>) {
    let limits = Limits { devices: 3..=7 };
    for seed in seeds {
        let schedule = Schedule::from_seed(seed, &limits);
        let failure = run(&schedule).failure;
        assert!(
            failure.is_none(),
            "seed {seed}: {}\nibemu sim campaign --schedule '{schedule}'",
            failure
                .map(|failure| failure.to_string())
                .unwrap_or_default()
        );
    }
}

#[test]
fn seeds_0_to_49_hold() {
    small(0..50);
}

#[test]
fn seeds_50_to_99_hold() {
    small(50..100);
}

#[test]
fn seeds_100_to_149_hold() {
    small(100..150);
}

#[test]
fn seeds_150_to_199_hold() {
    small(150..200);
}

#[test]
fn seeds_200_to_249_hold() {
    small(200..250);
}

#[test]
fn seeds_250_to_299_hold() {
    small(250..300);
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let limits = Limits { devices: 3..=12 };
    let outcome = |seed| run(&Schedule::from_seed(seed, &limits));
    let [once, again] = [0, 0].map(|_| (0..3).map(outcome).collect::<Vec<Outcome>>());
    assert_eq!(once, again);
    assert!(once.iter().all(|outcome| outcome.digest != 0));
}

/// Schedules that have failed, shrunk: all of them must hold.
const FOUND: [&str; 23] = [
    "topology=star-5 engine=minhop vls=8 buffer=8 sweep=3000 timeout=5 retries=2 length=735156 priority=11 standby=1:5 standby=2:11 manager-crash@731490+6228:2 manager-crash@691349+11967:0",
    "topology=star-5 engine=auto length=923265 cut@923264+91:0",
    "topology=fat-tree-2-1 engine=updn trees=cyclic length=2336749 manager-crash@1154885+1181126 cut@1150000+0:1",
    "topology=clos-3-1-3 engine=clos length=2 switch-crash@1+0:3",
    "topology=star-2 engine=updn length=3405059 join@733494:1 host-crash@1053313+0:0 manager-crash@2955956+11990",
    "topology=ring-3-1 engine=updn vls=1 buffer=4 flight=5000 sweep=200 timeout=50 retries=1 from-start=1 length=200655 draw=17620357799034597278 lies@37186+163468:50:guids",
    "topology=star-2 engine=updn vls=1 buffer=1 flight=20 sweep=500 timeout=50 retries=3 length=3290647 draw=14035321933929983282 priority=9 manager-crash@351109+2869657:2 lies@1973974+2400620:49:guids",
    "topology=fat-tree-4-1 engine=updn vls=1 buffer=5 flight=100 sweep=200 timeout=5 retries=3 length=1112507 draw=2153328916359824757 join@773307:59 switch-crash@1112506+0:3711 lies@49617+0:46:ports",
    "topology=star-5 engine=updn vls=1 buffer=4 flight=20 sweep=200 timeout=200 retries=4 length=977912 draw=9909161011154117714 priority=11 partitions=3:out pings@568720:7:19:2134 manager-crash@556245+337691:0 lies@661028+316883:29:ports",
    "topology=mesh-2-2 engine=shortest-widest lmc=2 vls=1 buffer=6 flight=1000 timeout=50 retries=2 length=2926642 draw=10217885458160880476 partitions=3:both cut@1131568+1295562:2438 lies@2388253+2601026:55:guids",
    "topology=clos-1-3-2-1 engine=renaming vls=1 buffer=7 paced=0 flight=5000 sweep=500 timeout=20 retries=2 length=2974341 draw=14319210451128655354 join@959319:63 join@1047021:10 switch-crash@1380441+12709:1558 lies@1084763+2010392:25:guids",
    "topology=torus-2x2-1 engine=shortest-widest vls=1 buffer=7 paced=0 flight=1000 trees=spanning-tree sweep=1000 timeout=200 retries=1 from-start=0 length=249686 draw=13591354741364383653 switch-crash@249685+0:2154",
    "topology=torus-2x2-1 engine=renaming vls=1 buffer=8 paced=0 flight=5000 trees=spanning-tree sweep=3000 timeout=50 retries=4 from-start=0 length=470920 draw=17388933078939253885 switch-crash@470919+0:2893",
    "topology=torus-3-2 engine=path-selection vls=1 buffer=3 paced=1 flight=20 trees=spanning-tree sweep=1000 timeout=20 retries=3 from-start=0 length=2046150 draw=2995216357877341114 cut@2046149+0:1775",
    "topology=fat-tree-4-2 engine=clos vls=1 buffer=8 paced=1 flight=20 trees=spanning-tree sweep=1000 timeout=5 retries=2 from-start=0 length=613736 draw=13397043399731142968 switch-crash@513921+1124:1032 cut@582036+7054:759 cut@369871+246050:3838 lies@514639+401204:53:guids",
    "topology=star-2 engine=updn vls=8 buffer=6 paced=1 flight=20 trees=spanning-tree sweep=1000 timeout=50 retries=2 from-start=0 length=2784822 draw=17060420472214871844 priority=14 standby=31:15 host-crash@2152092+0:963 damage@1481240+2584759:3184:500000",
    "topology=fat-tree-2-2 engine=updn vls=8 buffer=4 paced=1 flight=1000 trees=spanning-tree sweep=200 timeout=50 retries=2 from-start=0 length=2478228 draw=5392863893188690901 join@896146:35 damage@1956504+1256471:3398:10000 manager-crash@2363203+644:0 manager-crash@1235373+1003923:0 host-crash@2038328+5262:1406",
    "topology=star-2 engine=updn vls=1 buffer=3 paced=1 flight=5000 trees=spanning-tree sweep=500 timeout=5 retries=4 from-start=0 length=3235882 draw=1819162597823961794 priority=3 host-crash@699604+2376800:2799 lies@2765693+1277660:17:guids",
    "topology=ring-3-1 engine=renaming vls=1 buffer=2 paced=1 flight=100 trees=spanning-tree sweep=500 timeout=200 retries=4 from-start=0 length=3151055 draw=14256557200561879366 partitions=3:both pings@1657998:27:14:60910 lies@2538030+613024:23:switches",
    "topology=ring-4-1 engine=fully-explicit vls=1 buffer=7 paced=1 flight=20 trees=spanning-tree sweep=500 timeout=200 retries=1 from-start=0 length=2379778 draw=423599423108962856 cut@1311507+1068270:233 lies@1662335+0:10:switches",
    "topology=ring-3-1 engine=updn vls=1 buffer=2 paced=0 flight=20 trees=spanning-tree sweep=200 timeout=5 retries=4 from-start=0 length=1050995 draw=15359789616075562969 standby=8:14 manager-crash@141014+1223:2 host-crash@1038782+12212:1998 manager-crash@769439+107:1 lies@271475+0:24:guids",
    "topology=fat-tree-4-2 engine=updn vls=1 buffer=7 paced=1 flight=20 trees=cyclic sweep=200 timeout=20 retries=2 from-start=0 length=1769810 draw=14571263950906299701 host-crash@1379529+551640:2806 lies@532272+0:52:switches",
    "topology=mesh-5-2 engine=updn vls=1 buffer=2 paced=1 flight=20 trees=spanning-tree sweep=200 timeout=200 retries=4 from-start=0 length=2850072 draw=7571689893510427648 cut@1386465+12963:3592 cut@449842+0:2713 cut@245180+0:3612",
];

#[test]
fn schedules_that_have_failed_hold() {
    for text in FOUND {
        let schedule: Schedule = text.parse().unwrap();
        assert_eq!(run(&schedule).failure, None, "{text}");
    }
}

/// When multicast forwarding tables are written: the times of their Sets, as switches answer them.
#[derive(Clone, Debug, Default)]
struct Writes(Arc<Mutex<Vec<Time>>>);

impl Interposer for Writes {
    fn pass(&mut self, now: Time, _: Endpoint, frame: &mut [u8]) -> Passage {
        // Behind delimiter, LRH, BTH and DETH.
        let mad = frame.get(Delimiter::LEN + 28..Delimiter::LEN + 28 + Mad::LEN);
        if let Some(mad) = mad
            .and_then(|bytes| Mad::parse(bytes).ok())
            .map(|(mad, _)| mad)
            && mad.class().is_subnet_management()
            && mad.method() == Method::SET
            && mad.attr_id() == AttributeId::MULTICAST_FORWARDING_TABLE
        {
            self.0.lock().expect("no test panics with it").push(now);
        }
        Passage::Once
    }
}

#[test]
fn a_manager_that_is_started_again_knows_the_groups_and_writes_no_table_for_them() {
    let text =
        "topology=ring-3-1 length=4000000 join@1000:1 join@2000:2 manager-crash@2000000+1000:0";
    let writes = Writes::default();
    let outcome = run_with(&text.parse().unwrap(), &|| Some(Box::new(writes.clone())));
    assert_eq!(outcome.failure, None);
    let writes = writes.0.lock().unwrap();
    let (first, last) = (writes.first().unwrap(), writes.last().unwrap());
    // Hosts join in the beginning; the manager is killed two seconds later.
    assert!(last.since_ns(*first) < 1_000_000_000, "{writes:?}");
}
