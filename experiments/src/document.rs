//! A plan's file: a head that all plans have, the parameters of its kind, and `[quick]`, an overlay
//! whose values replace others when the reduced plan is run.
//!
//! The overlay is laid over the file as TOML, before anything is read from it: tables are merged
//! key by key, all other values and arrays are replaced. Values keep the place in the file that
//! they come from, so that errors name their line.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use crate::checks::{Refusal, error_text, not_finite, shortened};
use crate::paper::PaperPoints;
use crate::plan_error::PlanError;
use crate::statement::Explanation;

/// The table that is laid over the others.
const OVERLAY: &str = "quick";
/// What the overlay does not replace.
const SAME: [&str; 2] = ["kind", "name"];
/// The kind of a plan that does not say.
const DEFAULT_KIND: &str = "load";

/// What every plan has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Head {
    /// Which kind of experiment it is.
    #[serde(default = "default_kind")]
    pub(crate) kind: String,
    /// Name of the plan and of the files of its results.
    pub(crate) name: String,
    /// What the report is headed.
    pub(crate) title: String,
    /// Key of the paper whose result this is, and which one.
    #[serde(default)]
    pub(crate) paper: String,
    /// What a reader of the report should know, a sentence or two each.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// Why statements do not hold.
    #[serde(default)]
    pub(crate) explain: Vec<Explanation>,
    /// Whether each explanation must be of a statement: those of the whole plan may be of statements that
    /// the reduced plan does not make.
    #[serde(skip)]
    pub(crate) has_own_explanations: bool,
    /// Points that the paper gives, for plots.
    #[serde(default)]
    pub(crate) paper_points: Vec<PaperPoints>,
}

/// The keys of [`Head`].
const HEAD: [&str; 7] = [
    "kind",
    "name",
    "title",
    "paper",
    "notes",
    "explain",
    "paper_points",
];

/// What a plan may be called.
pub(crate) const NAMES: &str = "letters, digits and hyphens, and not \"index\"";

/// Whether a plan may be called so. The page over all results is called `index`.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !name.is_empty() && name.chars().all(is_plain) && name != "index"
}

fn default_kind() -> String {
    DEFAULT_KIND.to_owned()
}

/// A plan's file, whole or reduced.
#[derive(Clone, Debug)]
pub(crate) struct Document<'t> {
    file: &'t str,
    text: &'t str,
    table: Spanned<DeTable<'t>>,
    /// Whether the explanations are written for this form of the plan.
    has_own_explanations: bool,
}

impl<'t> Document<'t> {
    /// A file as it is, and with its overlay; `file` stands in errors.
    ///
    /// # Errors
    /// [`PlanError`]: not TOML, or `quick` is not a table.
    pub(crate) fn parse(file: &'t str, text: &'t str) -> Result<[Self; 2], PlanError> {
        let table = DeTable::parse(text).map_err(|error| syntax(file, text, error))?;
        if let Some((key, number, at)) = not_finite(table.get_ref()) {
            let what = format!("{number}: a number that is finite");
            return Err(wrong(file, line_at(text, at), (key, what)));
        }
        let mut whole = Self {
            file,
            text,
            table,
            has_own_explanations: true,
        };
        let refuse = |what: String| Err(whole.refuse((OVERLAY, what)));
        let overlay = match whole.table.get_ref().get(OVERLAY).map(Spanned::get_ref) {
            Some(DeValue::Table(overlay)) => overlay.clone(),
            Some(_) => return refuse("a table: [quick]".to_owned()),
            None => DeTable::new(),
        };
        if let Some(key) = SAME.iter().find(|key| overlay.contains_key(**key)) {
            return refuse(format!("{key} is the same whole and reduced"));
        }
        whole.table.get_mut().remove(OVERLAY);
        let mut quick = whole.clone();
        quick.has_own_explanations = overlay.contains_key("explain");
        lay_over(quick.table.get_mut(), overlay);
        Ok([whole, quick])
    }

    /// The head, which is taken out.
    ///
    /// # Errors
    /// [`PlanError`]: a key that is not there or of the wrong type, a name that no file has.
    pub(crate) fn take_head(&mut self) -> Result<Head, PlanError> {
        let mut head = Spanned::new(self.table.span(), DeTable::new());
        for key in HEAD {
            if let Some((key, value)) = self.table.get_mut().remove_entry(key) {
                head.get_mut().insert(key, value);
            }
        }
        let read = self.read_table(head.clone())?;
        let Head { name, .. } = &read;
        if !is_name(name) {
            let line = line_of(&head, "name", self.text);
            return Err(wrong(self.file, line, ("name", NAMES.to_owned())));
        }
        Ok(Head {
            has_own_explanations: self.has_own_explanations,
            ..read
        })
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// [`PlanError::Syntax`]: an unknown key, one that is missing, a value of the wrong type.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, PlanError> {
        self.read_table(self.table.clone())
    }

    fn read_table<T: DeserializeOwned>(&self, table: Spanned<DeTable<'t>>) -> Result<T, PlanError> {
        T::deserialize(Deserializer::from(table))
            .map_err(|error| syntax(self.file, self.text, error))
    }

    /// What is wrong with the value of a key, and on which line.
    pub(crate) fn refuse(&self, refusal: Refusal) -> PlanError {
        wrong(
            self.file,
            line_of(&self.table, refusal.0, self.text),
            refusal,
        )
    }
}

fn wrong(file: &str, line: usize, (key, what): (&str, String)) -> PlanError {
    PlanError::Value {
        file: file.to_owned(),
        line,
        key: shortened(key),
        what: shortened(&what),
    }
}

fn lay_over<'t>(table: &mut DeTable<'t>, overlay: DeTable<'t>) {
    for (key, value) in overlay {
        match (table.get_mut(&**key.get_ref()).map(Spanned::get_mut), value) {
            (Some(DeValue::Table(below)), above) if above.get_ref().is_table() => {
                if let DeValue::Table(above) = above.into_inner() {
                    lay_over(below, above);
                }
            }
            (_, value) => {
                // The key goes as well: it says where the value stands.
                table.remove(&**key.get_ref());
                table.insert(key, value);
            }
        }
    }
}

fn syntax(file: &str, text: &str, mut error: toml::de::Error) -> PlanError {
    error.set_input(Some(text));
    PlanError::Syntax {
        file: file.to_owned(),
        error: error_text(text, &error),
    }
}

/// The line of a key, from 1: of the table itself, or else the first one below it; 1 if there is
/// none.
fn line_of(table: &Spanned<DeTable<'_>>, key: &str, text: &str) -> usize {
    line_at(text, place_of(table.get_ref(), key).unwrap_or(0))
}

/// The line of a place in a text, from 1.
fn line_at(text: &str, place: usize) -> usize {
    let before = text.get(..place).unwrap_or(text);
    before.bytes().filter(|&byte| byte == b'\n').count() + 1
}

fn place_of(table: &DeTable<'_>, key: &str) -> Option<usize> {
    if let Some((found, _)) = table.get_key_value(key) {
        return Some(found.span().start);
    }
    let below = table
        .iter()
        .filter_map(|(_, value)| below(value.get_ref(), key));
    below.min()
}

fn below(value: &DeValue<'_>, key: &str) -> Option<usize> {
    match value {
        DeValue::Table(table) => place_of(table, key),
        DeValue::Array(values) => {
            let places = values.iter().filter_map(|one| below(one.get_ref(), key));
            places.min()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
name = "small"
title = "A small plan"
runs = 4
loads = [1, 2, 3]

[link]
width = 1
speed = 2

[[band]]
min = 1

[[band]]
min = 2

[quick]
loads = [1]
link.speed = 5
"#;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Parameters {
        runs: u32,
        loads: Vec<u32>,
        link: Link,
        band: Vec<Band>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Link {
        width: u32,
        speed: u32,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Band {
        min: u32,
    }

    fn both(text: &str) -> Result<[Parameters; 2], PlanError> {
        let [mut whole, mut quick] = Document::parse("test.toml", text)?;
        assert_eq!(whole.take_head()?.name, quick.take_head()?.name);
        Ok([whole.read()?, quick.read()?])
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(TEXT.contains(from));
        both(&TEXT.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn the_overlay_replaces_values_and_merges_tables() {
        let [whole, quick] = both(TEXT).unwrap();
        assert_eq!((&whole.loads[..], whole.link.speed), (&[1, 2, 3][..], 2));
        assert_eq!((&quick.loads[..], quick.link.speed), (&[1][..], 5));
        assert_eq!((quick.runs, quick.link.width, quick.band.len()), (4, 1, 2));
        let [_, quick] = both(&format!("{TEXT}[[quick.band]]\nmin = 9\n")).unwrap();
        assert_eq!(quick.band, [Band { min: 9 }]);
    }

    #[test]
    fn what_is_wrong_is_told_where_it_stands_in_the_overlay_as_well() {
        let unknown = refused("loads = [1]", "speeds = 1");
        assert!(
            unknown.contains("line 18") && unknown.contains("speeds"),
            "{unknown}"
        );
        let wrong = refused("link.speed = 5", "link.speed = \"fast\"");
        assert!(
            wrong.contains("line 19") && wrong.contains("\"fast\""),
            "{wrong}"
        );
        let missing = refused("runs = 4", "");
        assert!(missing.contains("runs"), "{missing}");
        assert!(refused("[quick]", "[[quick]]").contains("line 17: quick"));
        assert!(refused("loads = [1]", "name = \"x\"").contains("line 17: quick"));
        assert!(refused("\"small\"", "\"index\"").contains("line 2: name: letters"));
        assert!(refused("name = \"small\"", "").contains("name"));
    }

    #[test]
    fn numbers_that_are_not_finite_are_refused_wherever_they_stand() {
        for number in ["nan", "-nan", "inf", "-inf", "1e999"] {
            let in_a_list = refused("[1, 2, 3]", &format!("[1, {number}, 3]"));
            assert!(in_a_list.contains("line 5: loads: "), "{in_a_list}");
            assert!(in_a_list.contains("finite"), "{in_a_list}");
            let in_a_table = refused("min = 2", &format!("min = {number}"));
            assert!(in_a_table.contains("line 15: min: "), "{in_a_table}");
            let in_the_overlay = refused("speed = 5", &format!("speed = {number}"));
            assert!(
                in_the_overlay.contains("line 19: speed: "),
                "{in_the_overlay}"
            );
        }
    }

    #[test]
    fn an_error_is_short_however_long_the_plan_is() {
        let long = |text: &str| text.repeat(100_000 / text.len());
        for text in [
            long("["),
            format!("{} = 1", long("a.") + "a"),
            format!("x = {}", long("[")),
            format!("x = {}", long("{a=")),
            format!("{TEXT}[{}]", long("a.") + "a"),
            TEXT.replace("link.speed", &long("b")),
            TEXT.replace("runs = 4", &format!("runs = \"{}\"", long("c"))),
            TEXT.replace("\"small\"", &format!("\"{}\"", long("!"))),
        ] {
            let error = both(&text).unwrap_err().to_string();
            assert!(error.len() < 3000, "{} bytes", error.len());
            let says_where = error.contains("line ") || error.contains("recursion limit");
            assert!(says_where, "{error}");
        }
    }

    #[test]
    fn keys_are_found_where_they_count() {
        let [whole, quick] = Document::parse("test.toml", TEXT).unwrap();
        let line = |document: &Document<'_>, key| document.refuse((key, String::new())).to_string();
        assert!(line(&whole, "loads").contains("line 5:"));
        assert!(line(&quick, "loads").contains("line 18:"));
        assert!(line(&whole, "min").contains("line 12:"));
        assert!(line(&whole, "speed").contains("line 9:"));
        assert!(line(&whole, "nowhere").contains("line 1:"));
    }
}
