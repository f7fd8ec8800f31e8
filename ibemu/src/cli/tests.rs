use clap::CommandFactory;
use controller::QosChoice;
use netio::transport::Transport;
use routing::LidBase;
use routing::multicast::Scheme;
use routing::qos::{Layout, LinkRate};
use wire::choice::Choice;
use wire::{LinkSpeed, LinkWidth, Mtu};

use super::*;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_option_of_up_states_its_default() {
    let up = Cli::command().find_subcommand("up").unwrap().clone();
    for option in up
        .get_arguments()
        .filter(|option| option.get_long().is_some())
    {
        let help = option
            .get_long_help()
            .or(option.get_help())
            .unwrap()
            .to_string();
        let stated = !option.get_default_values().is_empty() || help.contains("[default: ");
        assert!(stated, "{:?}: {help}", option.get_long());
    }
}

#[test]
fn what_follows_the_node_belongs_to_the_command() {
    let line = [
        "ibemu", "exec", "--fabric", "x", "h0", "opensm", "--fabric", "y", "-f", "log",
    ];
    let cli = Cli::try_parse_from(line).unwrap();
    assert_eq!(cli.fabric.as_str(), "x");
    let Verb::Exec(exec) = cli.verb else {
        panic!("not exec");
    };
    assert_eq!(exec.command, ["opensm", "--fabric", "y", "-f", "log"]);
}

#[test]
fn the_fabric_may_be_named_before_and_behind_the_verb() {
    for line in [
        ["ibemu", "--fabric", "x", "status"],
        ["ibemu", "status", "--fabric", "x"],
    ] {
        assert_eq!(Cli::try_parse_from(line).unwrap().fabric.as_str(), "x");
    }
}

#[test]
fn two_hosts_or_all() {
    for (line, fine) in [
        (&["ibemu", "ping", "h0", "h1"][..], true),
        (&["ibemu", "ping", "--all"], true),
        (&["ibemu", "ping", "h0"], false),
        (&["ibemu", "ping"], false),
        (&["ibemu", "ping", "--all", "h0", "h1"], false),
        (
            &["ibemu", "perf", "--all", "--count", "5", "--seconds", "1"],
            false,
        ),
        (
            &["ibemu", "up", "star-2", "--unpaced", "--time-scale", "2"],
            false,
        ),
    ] {
        assert_eq!(Cli::try_parse_from(line).is_ok(), fine, "{line:?}");
    }
}

/// What `ibemu VERB --help` says of `--option` holds each name of `T`, and no other is taken.
fn lists<T: Choice>(verb: &str, option: &str) {
    lists_names(verb, option, T::names());
}

/// The same of some names only.
fn lists_names(verb: &str, option: &str, names: impl Iterator<Item = &'static str>) {
    let command = Cli::command().find_subcommand(verb).unwrap().clone();
    let taken = command
        .get_arguments()
        .find(|argument| argument.get_long() == Some(option))
        .unwrap_or_else(|| panic!("{verb} has no --{option}"))
        .get_possible_values();
    let taken: Vec<&str> = taken.iter().map(|value| value.get_name()).collect();
    assert_eq!(taken, names.collect::<Vec<_>>(), "{verb} --{option}");
    let help = command.clone().render_long_help().to_string();
    for name in taken {
        assert!(help.contains(name), "{verb} --help lacks {name}");
    }
}

#[test]
fn help_lists_every_name_that_a_choice_has() {
    lists::<Transport>("up", "transport");
    lists::<Sm>("up", "sm");
    lists::<Verify>("up", "verify");
    lists::<QosChoice>("up", "qos");
    lists::<Scheme>("up", "multicast");
    lists::<Mtu>("up", "mtu");
    lists::<LinkWidth>("up", "width");
    lists::<LinkSpeed>("up", "speed");
    for verb in ["route", "verify"] {
        lists::<Scheme>(verb, "multicast");
        lists::<LinkRate>(verb, "rate");
        lists::<LidBase>(verb, "lid-base");
    }
    lists_names(
        "topo",
        "format",
        TextFormat::writable().map(TextFormat::name),
    );
    lists::<offline::Dump>("route", "dump");
    lists::<LinkRate>("admit", "rate");
    lists::<Layout>("admit", "layout");
}

#[test]
fn help_lists_the_form_of_every_topology() {
    let up = Cli::command().find_subcommand("up").unwrap().clone();
    let help = up.clone().render_long_help().to_string();
    let words: Vec<&str> = help.split_whitespace().collect();
    for form in topologies::forms() {
        assert!(
            words
                .iter()
                .any(|word| word.trim_matches([',', ';']) == form),
            "ibemu up --help lacks {form}"
        );
    }
}
