//! What the documents list is what the code has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use e2e::{Outcome, ibemu};
use link::DropReason;
use netio::transport::FRAME_BYTES_MAX;
use wire::choice::Choice;
use wire::vendor::{PAIRS_MAX, QosConnection, WindowGrant, WindowRequest, WindowState};
use wire::{LinkSpeed, LinkWidth, Mtu};

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The part of a document from one line to another, without either.
fn section<'a>(document: &'a str, from: &str, to: &str) -> &'a str {
    let (_, behind) = document
        .split_once(from)
        .unwrap_or_else(|| panic!("no {from:?}"));
    behind.split_once(to).map_or(behind, |(part, _)| part)
}

#[track_caller]
fn says(document: &str, what: &str) {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(document).contains(&words(what)),
        "it says no {what:?}"
    );
}

/// Everything in `text` that is written as an option.
fn options(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_lowercase() && c != '-')
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .collect()
}

fn alternatives<T: Choice>() -> String {
    T::names().collect::<Vec<_>>().join("|")
}

#[test]
fn widths_speeds_and_mtus_of_links_are_those_of_the_architecture() {
    let text = document("ARCHITECTURE.md");
    says(&text, &format!("`--width {}`", alternatives::<LinkWidth>()));
    says(&text, &format!("`--speed {}`", alternatives::<LinkSpeed>()));
    says(&text, &format!("`--mtu {}`", alternatives::<Mtu>()));
}

#[test]
fn options_of_the_daemons_are_those_of_the_architecture() {
    let text = document("ARCHITECTURE.md");
    let stated = section(&text, "### Arguments of the daemons", "\n## ");
    let helps = ["switchd", "hostd", "controller"].map(|name| {
        let mut command = Command::new(ibemu().with_file_name(name));
        Outcome::of(command.arg("--help")).success().stdout
    });
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for line in helps.iter().flat_map(|help| help.lines()) {
        if line.trim_start().starts_with('-') {
            taken.extend(options(line));
        }
    }
    for general in ["--help", "--version"] {
        taken.remove(general);
    }
    assert_eq!(options(stated), taken);
}

#[test]
fn forms_of_topologies_are_those_of_the_readme() {
    let text = document("README.md");
    for form in topologies::forms() {
        says(&text, &format!("`{form}`"));
    }
}

/// The source files below a folder, by path from the root of the repository, with their text.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![root.join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("text");
                let name = path.strip_prefix(&root).expect("below the root");
                files.push((name.display().to_string(), text));
            }
        }
    }
    files
}

#[test]
fn the_form_of_a_topology_is_written_in_its_own_module_only() {
    let crates = [
        "controller",
        "daemon",
        "experiments",
        "ibemu",
        "netio",
        "routing",
        "sim",
        "topologies",
    ];
    let files: Vec<(String, String)> = crates
        .iter()
        .flat_map(|name| sources(&Path::new(name).join("src")))
        .collect();
    for form in topologies::forms() {
        let writes = |(name, text): &&(String, String)| {
            let is_test = name.ends_with("tests.rs");
            !is_test && text.contains(&format!("\"{form}\""))
        };
        let names: Vec<&str> = files
            .iter()
            .filter(writes)
            .map(|(name, _)| name.as_str())
            .collect();
        let [name] = names[..] else {
            panic!("{form} is written in {names:?}");
        };
        assert!(name.starts_with("topologies/src/kinds/"), "{form}: {name}");
        assert_ne!(name, "topologies/src/kinds/mod.rs", "{form}");
    }
}

#[test]
fn files_that_the_guide_for_contributors_names_are_there() {
    let text = document("CONTRIBUTING.md");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let paths: Vec<&str> = text
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| word.contains('/') && !word.contains([' ', '\n']))
        .filter(|word| !word.contains("NAME") && !word.starts_with("target/"))
        .collect();
    assert!(paths.len() > 8, "{paths:?}");
    for path in paths {
        assert!(root.join(path).exists(), "CONTRIBUTING.md names {path}");
    }
}

#[test]
fn reasons_of_drops_are_those_of_the_formats() {
    let text = document("docs/formats.md");
    let table = section(&text, "| reason of a drop |", "\n\n");
    let stated: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    let known: Vec<&str> = DropReason::ALL
        .iter()
        .map(|reason| reason.name().trim_start_matches("drop."))
        .collect();
    assert_eq!(stated, known);
}

#[test]
fn kinds_of_events_are_those_of_the_formats() {
    let text = document("docs/formats.md");
    let table = section(&text, "| kind of event |", "\n\n");
    let stated = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name);
    let known: Vec<&str> = monitor::events::Kind::names().collect();
    assert_eq!(stated.collect::<Vec<_>>(), known);
}

#[test]
fn sizes_are_those_of_the_formats() {
    let text = document("docs/formats.md");
    let thousands = |n: usize| format!("{},{:03}", n / 1000, n % 1000);
    says(
        &text,
        &format!("up to {} bytes", thousands(FRAME_BYTES_MAX)),
    );
    let ether_type = wire::ether::LinkEthernet::ETHER_TYPE;
    says(&text, &format!("EtherType 0x{ether_type:04X}"));
    let message = wire::control::MESSAGE_LEN_MAX / 1024;
    says(&text, &format!("at most {message} KiB"));
    for (name, bytes) in [
        ("**Connection and change** (VLARB01)", QosConnection::LEN),
        ("**Windows wanted** (CLOS04)", WindowRequest::LEN),
        ("**State of windows**", WindowState::LEN),
        ("**Grant of a window**", WindowGrant::LEN),
    ] {
        says(&text, &format!("{name}, {bytes} bytes"));
    }
    says(&text, &format!("{PAIRS_MAX} times source's LID"));
}

/// Whether the documentation of a source file has an example that rustdoc would run.
fn has_example(source: &str) -> bool {
    let mut is_inside = false;
    source.lines().any(|line| {
        let comment = line.trim_start();
        let text = comment
            .strip_prefix("//!")
            .or_else(|| comment.strip_prefix("///"));
        let Some(language) = text.and_then(|text| text.trim_start().strip_prefix("```")) else {
            return false;
        };
        is_inside = !is_inside;
        is_inside && !["text", "toml", "sh", "console", "json"].contains(&language)
    })
}

/// rustdoc takes seconds to find that a crate has no examples, so crates without any say so.
#[test]
fn examples_in_documentation_are_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = document("Cargo.toml");
    let members = section(&manifest, "members = [", "]");
    for member in members.split(',').map(|word| word.trim().trim_matches('"')) {
        if member.is_empty() {
            continue;
        }
        let manifest = document(&format!("{member}/Cargo.toml"));
        let are_run = !manifest.contains("doctest = false");
        let files = crate::modules::sources(&root.join(member).join("src"));
        let example = files.iter().find(|(_, source)| has_example(source));
        let example = example.map(|(path, _)| path);
        assert_eq!(
            are_run,
            example.is_some(),
            "`doctest = false` in {member}/Cargo.toml stands where there is no example; {example:?}"
        );
    }
}

/// Names in the table of `[dependencies]` of a manifest, and whether each is optional.
fn dependencies(manifest: &str) -> BTreeMap<&str, bool> {
    let table = section(manifest, "\n[dependencies]\n", "\n[");
    let lines = table.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let name = key.trim().trim_end_matches(".workspace");
        Some((name, value.contains("optional = true")))
    });
    lines.collect()
}

#[test]
fn crates_depend_on_each_other_as_the_architecture_says() {
    let text = document("ARCHITECTURE.md");
    let table = section(&text, "## Crates", "\n## ");
    let mut crates: Vec<(&str, &str)> = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, _, depends, _] = cells[..] else {
            panic!("not three cells: {row}");
        };
        crates.push((name.split('`').nth(1).unwrap(), depends));
    }
    let manifest = document("Cargo.toml");
    let members = section(&manifest, "members = [", "]").split(',');
    let members: BTreeSet<&str> = members
        .map(|word| word.trim().trim_matches('"'))
        .filter(|word| !word.is_empty())
        .collect();
    assert_eq!(
        crates
            .iter()
            .map(|(name, _)| *name)
            .collect::<BTreeSet<_>>(),
        members
    );
    for (at, (name, depends)) in crates.iter().enumerate() {
        let (library, binary) = depends.split_once("(bin:").unwrap_or((depends, ""));
        let named = |text: &str| -> BTreeSet<String> {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric());
            let words = words.filter(|word| members.contains(word));
            words.map(str::to_owned).collect()
        };
        let mut always = named(library);
        if *depends == "all above" {
            always.extend(crates[..at].iter().map(|(name, _)| (*name).to_owned()));
        }
        let manifest = document(&format!("{name}/Cargo.toml"));
        let has = dependencies(&manifest);
        let of_kind = |optional: bool| -> BTreeSet<String> {
            let here = has
                .iter()
                .filter(|(name, is)| **is == optional && members.contains(*name));
            here.map(|(name, _)| (*name).to_owned()).collect()
        };
        assert_eq!(of_kind(false), always, "{name}, without options");
        assert_eq!(of_kind(true), named(binary), "{name}, its binary");
    }
}
