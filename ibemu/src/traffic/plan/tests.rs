use super::super::Pattern;
use super::group::mgid_of;
use super::*;

const HOSTS: [&str; 4] = ["h0", "h1", "h2", "h3"];

fn plan(text: &str) -> Result<Resolved, String> {
    let plan = TrafficPlan::parse(Path::new("plan.toml"), text);
    let resolved = plan.and_then(|plan| plan.resolve(&HOSTS));
    resolved.map_err(|error| error.to_string())
}

#[test]
fn a_group_has_defaults() {
    let resolved = plan("[[flows]]\npattern = 'shift-1'").expect("a plan");
    assert_eq!(resolved.groups, ["shift-1"]);
    assert_eq!(resolved.flows.len(), 4);
    let flow = &resolved.flows[3];
    assert_eq!(flow.pair, (3, 0));
    assert_eq!((flow.size, flow.window, flow.rate), (290, 256, 0));
    assert_eq!((flow.start_ms, flow.duration_ms, flow.count), (0, 5000, 0));
}

#[test]
fn a_host_shares_its_rate_and_window() {
    let rated = "[[flows]]\npattern = 'uniform'\nrate = '30M'\nseconds = 0.5";
    let flows = plan(rated).expect("a plan").flows;
    assert_eq!(flows.len(), 12);
    let one = &flows[0];
    assert_eq!(
        (one.rate, one.window, one.duration_ms),
        (10_000_000, 0, 500)
    );
    let closed = plan("[[flows]]\npattern = 'uniform'").expect("a plan");
    assert_eq!(closed.flows[0].window, 85);
}

#[test]
fn senders_of_multicast_have_one_flow_for_all_receivers() {
    let text = "[[flows]]\npattern = 'multicast'\nsenders = ['h0', 'h2']\nrate = '30M'";
    let flows = plan(text).expect("a plan").flows;
    let pairs: Vec<_> = flows.iter().map(|flow| flow.pair).collect();
    assert_eq!(pairs, [(0, 1), (0, 2), (0, 3), (2, 0), (2, 1), (2, 3)]);
    assert!(
        flows
            .iter()
            .all(|flow| flow.rate == 30_000_000 && flow.window == 0)
    );
    assert!(flows.iter().all(|flow| flow.mgid == Some(mgid_of(0))));
    let seeds = [&flows[..3], &flows[3..]].map(|of| of.iter().map(|flow| flow.seed).max());
    assert_ne!(seeds[0], seeds[1]);
    assert_eq!(Some(flows[0].seed), seeds[0]);
    for (keys, wrong) in [
        ("window = 4", "window: multicast has none"),
        ("sl = 1", "sl: multicast has none"),
        (
            "size = 98",
            "size 98: a packet to a group has 106 bytes at least",
        ),
        (
            "hosts = ['h0', 'h1']\nsenders = ['h3']",
            "senders: h3 is not among the hosts",
        ),
    ] {
        let wrong_plan = plan(&format!("[[flows]]\npattern = 'multicast'\n{keys}"));
        let error = wrong_plan.expect_err("wrong");
        assert!(error.contains(wrong), "{error}");
    }
    let error = plan("[[flows]]\npattern = 'uniform'\nsenders = ['h0']").err();
    assert_eq!(
        error.as_deref(),
        Some("uniform: senders belong to multicast")
    );
}

#[test]
fn a_warm_up_comes_before_what_begins_at_once() {
    let text = "warmup = 0.25\n[[flows]]\nfrom = ['h0']\nto = ['h1']\ncount = 10\n\
                [[flows]]\nfrom = ['h2']\nto = ['h?']\nstart = 1\nseconds = 2";
    let flows = plan(text).expect("a plan").flows;
    let times: Vec<_> = flows
        .iter()
        .map(|flow| (flow.pair, flow.is_warm_up, flow.start_ms, flow.duration_ms))
        .collect();
    let expected = [
        ((0, 1), true, 0, 250),
        ((0, 1), false, 250, 0),
        ((2, 0), false, 1250, 2000),
        ((2, 1), false, 1250, 2000),
        ((2, 3), false, 1250, 2000),
    ];
    assert_eq!(times, expected);
    assert_eq!(flows[0].count, 0);
}

#[test]
fn what_is_wrong_is_named() {
    for (text, wrong) in [
        ("", "line 1, column 1: missing field `flows`"),
        ("flows = []", "a plan needs 1 to 256 [[flows]], and has 0"),
        (
            "warmup = -1\n[[flows]]\npattern = 'uniform'",
            "warmup -1: 0 to",
        ),
        (
            "warmup = nan\n[[flows]]\npattern = 'uniform'",
            "warmup NaN: 0 to",
        ),
        (
            "[[flows]]\npattern = 'unifrom'",
            "line 2, column 11: there is no pattern \"unifrom\": uniform,",
        ),
        (
            "[[flows]]\npatern = 'uniform'",
            "line 2, column 1: unknown field `patern`",
        ),
        (
            "[[flows]]\nsize = 300",
            "flows 1: a pattern is missing, or both from and to",
        ),
        (
            "[[flows]]\nname = 'x'\npattern = 'uniform'\nsize = 97",
            "x: size 97: 98 to 4222 bytes",
        ),
        (
            "[[flows]]\npattern = 'uniform'\nwindow = 0",
            "uniform: window 0 needs a rate",
        ),
        (
            "[[flows]]\npattern = 'uniform'\nseconds = inf",
            "uniform: seconds inf: above 0",
        ),
        (
            "[[flows]]\npattern = 'uniform'\ncount = 1\nseconds = 1",
            "uniform: count and seconds: one of them",
        ),
        (
            "[[flows]]\npattern = 'uniform'\nrate = '0'",
            "line 3, column 8: 0 is out of range: at least 1 bit a second",
        ),
        ("[[flows]]\npattern = 'uniform'\nsl = 16", "uniform: "),
        (
            "[[flows]]\npattern = 'shift-4'",
            "shift-4: shift-4 among 4 hosts: shift-1 to shift-3",
        ),
        (
            "[[flows]]\npattern = 'uniform'\nhosts = ['x*']",
            "uniform: hosts: no host that can be reached is like \"x*\"",
        ),
        (
            "[[flows]]\npattern = 'centric-20'\ntarget = 'h9'",
            "centric-20: target \"h9\" is no host of the group",
        ),
        (
            "[[flows]]\nfrom = ['h0']\nto = ['h0']",
            "no host sends to another",
        ),
    ] {
        let error = plan(text).expect_err(text);
        assert!(error.contains(wrong), "{text}\n{error}");
    }
}

#[test]
fn more_flows_than_a_host_holds_are_refused() {
    let names: Vec<String> = (0..600).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let uniform = |warmup| TrafficPlan {
        seed: 1,
        warmup,
        time_scale: 1.0,
        flows: vec![GroupPlan {
            pattern: Some(What::Pattern(Pattern::Uniform)),
            ..GroupPlan::default()
        }],
    };
    assert!(uniform(0.0).resolve(&names).is_ok());
    let error = uniform(1.0).resolve(&names).expect_err("1198 flows");
    assert!(
        error.to_string().starts_with("n0 would have 1198 flows"),
        "{error}"
    );
}

#[test]
fn a_hostile_file_has_a_short_error() {
    let deep = format!("flows = {}", "[".repeat(100_000));
    let error = plan(&deep).expect_err("nested");
    assert!(error.len() < 500, "{}", error.len());
    let long = format!("[[flows]]\npattern = '{}'", "x".repeat(100_000));
    assert!(plan(&long).expect_err("a pattern").len() < 500);
}
