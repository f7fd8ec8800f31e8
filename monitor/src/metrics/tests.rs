use std::collections::BTreeSet;

use super::*;
use crate::model::Counter;
use crate::sampler::tests::star;

/// Lines that are samples, and the names of families by their type.
fn samples(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn both_formats_have_the_same_samples_and_openmetrics_ends() {
    let snapshot = Arc::new(star());
    let open = render(&snapshot, Format::OpenMetrics);
    let text = render(&snapshot, Format::Text);
    assert_eq!(samples(&open), samples(&text));
    assert!(open.ends_with("# EOF\n") && !text.contains("# EOF"));
    let family = "infiniband_switch_port_transmit_data_bytes";
    assert!(open.contains(&format!("# TYPE {family} counter\n")));
    assert!(text.contains(&format!("# TYPE {family}_total counter\n")));
}

#[test]
fn names_labels_and_values_are_those_of_the_field() {
    let snapshot = Arc::new(star());
    let text = render(&snapshot, Format::Text);
    let words = snapshot.readings[1].counters[Counter::XmitData];
    let lines = [
        format!(
            "infiniband_switch_port_transmit_data_bytes_total{{guid=\"0x0000000000000002\",port=\"1\"}} {}",
            4 * words
        ),
        "infiniband_switch_info{guid=\"0x0000000000000002\",switch=\"s0\",lid=\"3\"} 1.0".to_owned(),
        "infiniband_switch_port_rate_bytes_per_second{guid=\"0x0000000000000002\",port=\"1\"} 12500000000.0".to_owned(),
        "infiniband_switch_port_raw_rate_bytes_per_second{guid=\"0x0000000000000002\",port=\"1\"} 12890625000.0".to_owned(),
        "infiniband_hca_rate_bytes_per_second{guid=\"0x0000000000000010\"} 12500000000.0".to_owned(),
        "infiniband_hca_uplink_info{guid=\"0x0000000000000010\",port=\"1\",hca=\"h \\\"0\\\"\",uplink=\"s0\",uplink_guid=\"0x0000000000000002\",uplink_type=\"SW\",uplink_port=\"1\",uplink_lid=\"3\"} 1.0".to_owned(),
        "infiniband_exporter_collect_timeouts{collector=\"hca\"} 0.0".to_owned(),
    ];
    for line in lines {
        assert!(text.lines().any(|it| it == line), "no {line}\n{text}");
    }
    assert!(text.contains("# HELP infiniband_hca_rate_bytes_per_second Infiniband HCA rate\n"));
    assert!(text.contains(
        "# HELP infiniband_switch_port_raw_rate_bytes_per_second Infiniband switch port raw rate\n"
    ));
}

/// Of a family in the text format: its type, its help, and the labels of its samples.
type Told<'a> = (&'a str, &'a str, BTreeSet<String>);

/// The families of a text whose labels' values hold neither braces nor commas.
fn families(text: &str) -> std::collections::BTreeMap<&str, Told<'_>> {
    let mut families = std::collections::BTreeMap::<&str, Told<'_>>::new();
    for line in text.lines() {
        if let Some((name, help)) = line
            .strip_prefix("# HELP ")
            .and_then(|it| it.split_once(' '))
        {
            families.entry(name).or_default().1 = help;
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|it| it.split_once(' '))
        {
            families.entry(name).or_default().0 = kind;
        } else if let Some((name, labels)) = line.split_once('{') {
            let (labels, _) = labels.split_once('}').expect("labels end");
            let names = labels
                .split(',')
                .filter_map(|label| label.split('=').next());
            let names: Vec<&str> = names.collect();
            families.entry(name).or_default().2.insert(names.join(", "));
        }
    }
    families
}

#[test]
fn each_metric_of_the_exporter_is_there_with_its_type_labels_and_help_and_no_other_has_its_prefix()
{
    let text = render(&Arc::new(star()), Format::Text);
    let mut told = families(&text);
    told.retain(|name, _| name.starts_with("infiniband_"));
    for line in include_str!("exporter.txt").lines() {
        if line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split(" | ").collect();
        let [name, kind, labels, help] = fields[..] else {
            panic!("{line}");
        };
        let expected = (kind, help, BTreeSet::from([labels.to_owned()]));
        assert_eq!(told.remove(name), Some(expected), "{name}");
    }
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn what_a_client_accepts_is_what_it_gets() {
    let openmetrics =
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    assert_eq!(Format::accepted(openmetrics), Format::OpenMetrics);
    assert_eq!(Format::accepted("*/*"), Format::Text);
    assert!(Format::OpenMetrics.content_type().contains("openmetrics"));
}

#[test]
fn each_metric_of_our_own_is_documented_and_each_documented_one_is_there() {
    let documented = include_str!("../../../docs/metrics.md");
    let documented: BTreeSet<&str> = documented
        .split('`')
        .filter(|word| word.starts_with("ibemu_") && word.len() > 6)
        .collect();
    let text = render(&Arc::new(star()), Format::Text);
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families = families.filter_map(|family| family.split(' ').next());
    let own: BTreeSet<&str> = families.filter(|name| name.starts_with("ibemu_")).collect();
    assert_eq!(documented, own);
}
