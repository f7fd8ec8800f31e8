//! Completions and manual pages are of the command line that there is.

use std::process::Command;

use clap::CommandFactory as _;
use ibemu::cli::Cli;

use crate::printed;

#[test]
fn bash_completes_verbs_and_options_by_the_script() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("ibemu.bash");
    std::fs::write(&script, printed(&["completions", "bash"])).unwrap();
    let completed = |words: &[&str]| -> String {
        let asked = r#"source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
            _ibemu ibemu "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[*]}""#;
        let mut bash = Command::new("bash");
        let output = bash
            .args(["-c", asked])
            .arg(&script)
            .args(words)
            .output()
            .unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(completed(&["ibemu", "stat"]).trim(), "status");
    assert!(completed(&["ibemu", "up", "--transp"]).contains("--transport"));
    assert!(completed(&["ibemu", "up", "--transport", ""]).contains("veth udp"));
}

#[test]
fn every_verb_is_in_the_completions_and_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    printed(&["man", "--to", pages.to_str().unwrap()]);
    let whole = std::fs::read_to_string(pages.join("ibemu.1")).unwrap();
    assert_eq!(whole, printed(&["man"]));
    let scripts = ["bash", "zsh", "fish"].map(|shell| printed(&["completions", shell]));
    for verb in Cli::command()
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
    {
        let name = verb.get_name();
        let page = pages.join(format!("ibemu-{name}.1"));
        let page = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains(".TH"), "{name}: {page}");
        assert!(scripts.iter().all(|script| script.contains(name)), "{name}");
    }
}
