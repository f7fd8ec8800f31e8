//! What programs and other runs hand to the command offline: lines of windows, results of experiments.

use std::path::PathBuf;

use ibemu::verbs::offline::window::decide;
use routing::clos::{Controller, Mode, Window};

use crate::fields::Fields;

/// Bytes of a message for people at most.
const MESSAGE_BYTES_MAX: usize = 3000;
/// Hosts at a leaf, and leaves.
const HOSTS: usize = 3;
const LEAVES: usize = 4;

/// Lines are windows or refused with the number of the line, shortly; the first byte says how many trees there are,
/// and whether connections move.
///
/// # Panics
/// If they are not, or a window has two connections that meet in a tree or at a host.
pub(crate) fn windows(bytes: &[u8]) {
    let mut fields = Fields::of(bytes);
    let choice = usize::from(fields.byte());
    let (trees, mode) = match choice % 2 {
        0 => (1 + choice / 2 % 4, Mode::Rearrange),
        _ => (2 * HOSTS - 1, Mode::Strict),
    };
    let leaf_of = (0..HOSTS * LEAVES).map(|host| host / HOSTS).collect();
    let mut controller = Controller::new(leaf_of, trees, mode).expect("enough trees");
    let mut windows = 0;
    let decided = decide(&mut controller, "lines", fields.rest(), |window| {
        windows += 1;
        check(window, trees);
        Ok(())
    });
    let lines = fields.rest().split(|&byte| byte == b'\n').count();
    assert!(windows <= lines);
    if let Err(error) = decided {
        let told = error.to_string();
        let places = (1..=lines).rev().take(1 + lines - windows.min(lines));
        let says_where = |line: usize| told.starts_with(&format!("lines, line {line}: "));
        assert!(places.into_iter().any(says_where), "{told}");
        assert!(told.len() < MESSAGE_BYTES_MAX, "{} bytes", told.len());
    }
}

fn check(window: &Window, trees: usize) {
    let mut taken = Vec::new();
    for one in &window.admitted {
        assert!(one.tree < trees);
        let (from, to) = (one.source / HOSTS, one.destination / HOSTS);
        taken.extend([(0, one.source, 0), (1, one.destination, 0)]);
        if from != to {
            taken.extend([(2, from, one.tree), (3, to, one.tree)]);
        }
    }
    let all = taken.len();
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), all, "{window:?}");
}

/// Windows that are served, that wait, and that are none.
pub(crate) fn window_lines() -> Vec<Vec<u8>> {
    [
        "\0[[0,3],[1,4],[2,5]]\n[[0,3],[1,6]]\n\n[]\n",
        "\u{6}[[0,11],[11,0],[3,6],[6,9],[9,3]]\n[[0,11],[3,6]]\n[[1,10],[0,11]]",
        "\u{1}[[0,3],[0,4],[0,5],[1,3]]\n[[0,3]]\n[[5,5]]\n",
        "\u{2}[[0, 12]]\n",
        "\u{2}  [ [ 0 , 1 ] ]  \r\n[[0,1,2]]\n{\"a\": 1}\n[[-1,0]]\n[\"text\"]",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Bytes are results of an experiment, and a page is written over them, or they are refused shortly.
///
/// # Panics
/// If the page has an element or a link that is not its own.
pub(crate) fn results(bytes: &[u8]) {
    let files = [(PathBuf::from("results/x.json"), bytes.to_vec())];
    match experiments::page_over(&files) {
        Ok((overviews, page)) => {
            assert_eq!(overviews.len(), 1);
            assert_eq!(page.matches("<tr>").count(), 2, "{page}");
            assert!(!page.contains("<script"), "{page}");
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            for link in page.split("href=\"").skip(1) {
                let target = link.split('"').next().unwrap_or_default();
                let (name, _) = target.rsplit_once('.').expect("a file");
                assert!(name.chars().all(is_plain), "{target}");
            }
        }
        Err(error) => {
            let told = format!("{error}: {:?}", std::error::Error::source(&error));
            assert!(told.len() < MESSAGE_BYTES_MAX, "{} bytes", told.len());
        }
    }
}

/// Results with a plot, without one, and with words that HTML has, too.
pub(crate) fn result_files() -> Vec<Vec<u8>> {
    const PLOT: &str = r#"{"plan":"mlid-fig13","title":"Throughput","paper":"MLID04","quick":true,"seed":1,
        "conditions":{},"verdicts":[{"expected":"more","measured":"1.2","holds":true},
        {"expected":"less","measured":"3","holds":false,"why":"it is"},{"expected":"x","measured":"","holds":null}],
        "preview":{"plot":{"heading":"h","curves":[{"name":"slid","paper":null,"points":[[1.0,2.5],[2.0,-3e5]]},
        {"name":"slid","paper":"MLID04","points":[[1.5,1e-9]]}],"x":{"name":"load","scale":"linear"},
        "y":{"name":"ns","scale":"logarithmic"}}},"points":[{"a":1}]}"#;
    const TABLE: &str = r#"{"plan":"a","title":"<b>","paper":"\"","quick":false,"seed":18446744073709551615,
        "verdicts":[],"preview":{"table":{"heading":"h","columns":["a"],"rows":[["1"]]}}}"#;
    const BARE: &str = r#"{"plan":"javascript:alert(1)//","title":"t","paper":"","quick":false,"seed":0,"verdicts":[]}"#;
    [PLOT, TABLE, BARE, "{}", "[]", ""]
        .map(|text| text.as_bytes().to_vec())
        .into()
}
