//! What help texts list comes from the lists.

use routing::RoutingEngine;
use strum::VariantArray as _;
use wire::choice::Choice;

use crate::printed;

/// A help text with line breaks and indentation taken for single blanks.
fn help(verb: &str) -> String {
    let text = printed(&[verb, "--help"]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn routing_engines_are_listed_with_what_they_do() {
    for verb in ["up", "route"] {
        let help = help(verb);
        for &engine in RoutingEngine::VARIANTS {
            assert!(!engine.about().is_empty(), "{engine}");
            let line = format!("- {engine}: {}", engine.about());
            assert!(help.contains(&line), "{verb}: {line}");
        }
    }
    for verb in ["verify", "compare", "admit"] {
        let names: Vec<&str> = RoutingEngine::names().collect();
        let help = help(verb);
        assert!(help.contains(&names.join(", ")), "{verb}: {help}");
    }
}

#[test]
fn topologies_are_listed_by_their_forms() {
    let help = help("up");
    for form in topologies::forms() {
        assert!(help.contains(form), "{form}: {help}");
    }
}
