//! The document that lists the matrix.

use std::fmt::Write as _;
use std::path::Path;

use super::row::{Expected, Row};

/// The document, from this crate's folder.
const DOCUMENT: &str = "../docs/tools.md";
/// What stands above the tables; a line that begins so is the last of it.
const BEGIN: &str = "<!-- tools: from tests/cases/tools -->";

/// The tables, one for each part.
pub(crate) fn tables(parts: &[(&str, &[Row])]) -> String {
    let mut text = String::new();
    for (title, rows) in parts {
        let _ = write!(
            text,
            "\n## {title}\n\n| command | compared | result |\n|---|---|---|\n"
        );
        for row in *rows {
            let result = match row.expected {
                Expected::Works => "works".to_owned(),
                Expected::Refused(why) => format!("refused: {why}"),
                Expected::Reported(why) => format!("refused: {why} (exit code 0)"),
            };
            let line = row.line.replace('|', "\\|");
            let _ = writeln!(text, "| `{line}` | {} | {result} |", row.compared);
        }
    }
    text
}

/// Asserts that the document has these tables; `GOLDEN=write` in the environment writes them.
///
/// # Panics
/// If it has others.
#[track_caller]
pub(crate) fn assert_lists(parts: &[(&str, &[Row])]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCUMENT);
    let document = std::fs::read_to_string(&path).expect("the document");
    let (above, listed) = document
        .split_once(BEGIN)
        .expect("the line above the tables");
    let tables = tables(parts);
    if std::env::var_os("GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, format!("{above}{BEGIN}\n{tables}")).expect("the document");
        return;
    }
    assert!(
        listed == format!("\n{tables}"),
        "docs/tools.md lists other rows than tests/cases/tools: write it anew (GOLDEN=write cargo nextest run -p e2e tools::the_document)"
    );
}
