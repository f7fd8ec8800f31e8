//! Tools beside links of HDR and NDR: PortInfo's extended speeds.

use std::time::Duration;

use e2e::{Fabric, Station, Transport, within};
use topologies::parse;
use wire::PortNum;

use super::printed::values;

/// How long a link that goes up again may take to be Active.
const LINK_TIMEOUT: Duration = Duration::from_secs(20);

/// A speed, as tools print it, with ibstat's rate of 4 lanes; the bit of the next slower one, and how that is printed.
struct Speed {
    name: &'static str,
    active: &'static str,
    rate: &'static str,
    slower_bit: u8,
    slower: &'static str,
}

const SPEEDS: [Speed; 2] = [
    Speed {
        name: "hdr",
        active: "53.125 Gbps",
        rate: "Rate: 200",
        slower_bit: 2,
        slower: "25.78125 Gbps",
    },
    Speed {
        name: "ndr",
        active: "106.25 Gbps",
        rate: "Rate: 400",
        slower_bit: 4,
        slower: "53.125 Gbps",
    },
];

#[test]
fn tools_print_the_speeds_of_hdr_and_ndr_and_a_link_retrains_to_a_slower_one() {
    let topology = "star-2";
    let graph = parse(topology).expect("a topology").graph;
    let host = graph.find("h0").expect("a host");
    let end = graph.cables(host).next().expect("a cable").1;
    let (port, cable) = (end.port, graph.links().count());
    for speed in SPEEDS {
        let fabric = Fabric::up(Transport::Udp, topology, &["--speed", speed.name]);
        let lid = fabric.device("s0")["lid"].to_string();
        let mut station = Station::beside(&fabric, "h1");
        shows(&mut station, &speed, &lid, port);
        let links = station.run("iblinkinfo -l").success().stdout;
        let shown = format!("4X {} Active/ LinkUp", speed.active);
        let shown = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.join(" ").contains(&shown)
        };
        assert_eq!(links.lines().filter(shown).count(), 2 * cable, "{links}");
        let own = station.run("ibstat").success().stdout;
        assert!(own.contains(speed.rate), "{own}");
        let set = format!("ibportstate {lid} {port} espeed {}", speed.slower_bit);
        let _ = station.run(&set).success();
        let reset = format!("ibportstate {lid} {port} reset");
        let _ = station.run(&reset).success();
        within(LINK_TIMEOUT, "the link is Active and slower", || {
            let query = format!("ibportstate {lid} {port} query");
            let text = station.run(&query).success().stdout;
            let all = |name: &str| values(&text, name).map(str::to_owned).collect::<Vec<_>>();
            match all("LinkState") == ["Active"; 2]
                && all("LinkSpeedExtActive") == [speed.slower; 2]
            {
                true => Ok(()),
                false => Err(text),
            }
        });
        drop(station);
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

/// smpquery and ibportstate print that both ends are at that speed, and that the port supports it.
#[track_caller]
fn shows(station: &mut Station, speed: &Speed, lid: &str, port: PortNum) {
    for (line, ends) in [("smpquery PI", 1), ("ibportstate", 2)] {
        let text = station
            .run(&format!("{line} {lid} {port}"))
            .success()
            .stdout;
        let active: Vec<&str> = values(&text, "LinkSpeedExtActive").collect();
        assert_eq!(active, vec![speed.active; ends], "{text}");
        for name in ["LinkSpeedExtSupported", "LinkSpeedExtEnabled"] {
            for all in values(&text, name) {
                assert!(
                    all.ends_with(&format!(" or {}", speed.active)),
                    "{name}: {text}"
                );
            }
        }
    }
}
