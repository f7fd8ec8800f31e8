//! Descriptions of fabrics in every format that is read, and lists of GUIDs.

use topologies::{Graph, TextFormat, parse};

/// OpenSM's opensm-subnet.lst, ibdiagnet2.lst.
const LST: &str = "\
{ SW Ports:24 SystemGUID:0000000000000050 NodeGUID:0000000000000051 PortGUID:0000000000000051 VenID:0002C9 DevID:D2F2 Rev:000000A0 {leaf 1} LID:0002 PN:14 } { CA-SM Ports:02 SystemGUID:0000000000000060 NodeGUID:0000000000000060 PortGUID:0000000000000062 VenID:000002C9 DevID:10210000 Rev:00000000 {node01} LID:0005 PN:02 } PHY=4x LOG=ACT SPD=50
{ SW Ports:24 SystemGUID:0000000000000050 NodeGUID:0000000000000051 PortGUID:0000000000000051 VenID:0002C9 DevID:D2F2 Rev:000000A0 {leaf 1} LID:0002 PN:01 } { SW Ports:24 SystemGUID:0000000000000070 NodeGUID:0000000000000071 PortGUID:0000000000000071 VenID:0002C9 DevID:D2F2 Rev:000000A0 {spine} LID:0003 PN:01 } PHY=4x LOG=ACT SPD=100
";

/// ibnetdiscover -p.
const PORTS: &str = "\
SW     1  1 0x0000000000000051 4x HDR - CA     5  1 0x0000000000000061 ( 'leaf' - 'node01' )
SW     1  2 0x0000000000000051 4x FDR10 - CA     6  2 0x0000000000000062 ( 'leaf' - 'node01' )
SW     1  3 0x0000000000000051 4x SDR                                    'leaf'
CA     6  2 0x0000000000000062 4x FDR10 - SW     1  2 0x0000000000000051 ( 'node01' - 'leaf' )
CA     5  1 0x0000000000000061 4x HDR - SW     1  1 0x0000000000000051 ( 'node01' - 'leaf' )
";

/// iblinkinfo, and iblinkinfo -l.
const LINKS: [&str; 2] = [
    r#"CA: node01:
      0x0000000000000061      5    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       1    2[  ] "MF0;leaf:X/U1" ( )
Switch: 0x0000000000000051 MF0;leaf:X/U1:
           1    1[  ] ==(                Down/ Polling)==>             [  ] "" ( )
           1    2[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       5    1[  ] "node01" ( )
           1    3[  ] ==( 4X      10.0 Gbps (FDR10) Active/  LinkUp)==>       7    1[ 4] "node02" (Could be 14.0625 Gbps)
"#,
    r#"0x0000000000000061 "            node01"      5    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>  0x0000000000000051      1    2[  ] "leaf" ( )
0x0000000000000051 "              leaf"      1    1[  ] ==(                Down/ Polling)==>             [  ] "" ( )
0x0000000000000051 "              leaf"      1    2[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>  0x0000000000000061      5    1[  ] "node01" ( )
"#,
];

/// Slurm's topology.conf, with names as topograph writes them.
const SLURM: &str = "\
# switch.2.1=spine 1
SwitchName=switch.2.1 Switches=switch.1.[1-2]
SwitchName=switch.1.1 Nodes=n[08-09],x[1-2,5] LinkSpeed=1 # rack 1
switchname=switch.1.2 \\
  nodes=n10
";

/// topograph's list of instances.
const TOPOGRAPH: &str = r#"{"instances": [
    {"id": "I1", "network_layers": ["leaf-a", "spine"], "labels": {}},
    {"id": "I2", "network_layers": ["leaf-a", "spine"]},
    {"id": "I3", "network_layers": ["leaf-b", "spine"]}]}"#;

/// Descriptions in every format: those that are written of small fabrics, and one of each other.
pub(crate) fn topologies() -> Vec<Vec<u8>> {
    let fabrics = ["star-2", "ring-3-1", "clos-2-2-2-2"];
    let graph = |name| -> Graph { parse(name).expect("a topology").graph };
    let graphs: Vec<Graph> = fabrics.into_iter().map(graph).collect();
    let is_read = |format: &TextFormat| TextFormat::readable().any(|other| other == *format);
    let mut texts: Vec<String> = Vec::new();
    for format in TextFormat::writable().filter(is_read) {
        texts.extend(graphs.iter().filter_map(|graph| format.write(graph)));
    }
    texts.extend([LST, PORTS, SLURM, TOPOGRAPH].map(str::to_owned));
    texts.extend(LINKS.map(str::to_owned));
    texts.into_iter().map(String::into_bytes).collect()
}

/// Lists of GUIDs.
pub(crate) fn guid_lists() -> Vec<Vec<u8>> {
    [
        "0x0002c90300001234 # spine 1\n0x2\tspine 2\n\n# all\n",
        "0xffffffffffffffff\n0x0",
        "1\n",
        "",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
