//! The modules of a crate depend on each other in one direction only: none imports another that
//! imports it, not even by way of third ones.
//!
//! A module `x` and the modules of its folder `x/` count as one. What only tests import does not
//! count.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose modules must not form a cycle.
const CRATES: [&str; 2] = ["routing", "sim"];

/// By module: the modules that it names.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Files below a crate's `src`, by path from there, with their text.
pub(crate) fn sources(root: &Path) -> Vec<(PathBuf, String)> {
    let mut folders = vec![root.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.push((path.strip_prefix(root).unwrap().to_owned(), text));
            }
        }
    }
    files
}

/// A file's text without comments and without the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The module path of a file; empty for the root of the crate.
fn module_path(file: &Path) -> Vec<String> {
    let file = file.with_extension("");
    let parts = file.iter().map(|part| part.to_str().unwrap().to_owned());
    parts
        .filter(|part| !["lib", "main", "mod"].contains(&&**part))
        .collect()
}

/// The identifier that a text begins with.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    &text[..end.unwrap_or(text.len())]
}

/// The first names of what comes after `crate::`: one, or one for each branch of a group.
fn heads(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return vec![identifier(rest).to_owned()];
    };
    let mut depth = 0u32;
    let mut heads = Vec::new();
    let mut is_start = true;
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            _ if is_start && !letter.is_whitespace() => {
                heads.push(identifier(&group[at..]).to_owned());
                is_start = false;
            }
            _ => {}
        }
    }
    heads
}

/// Names at the root of the crate that the code of a module with path `own` mentions.
fn mentioned(code: &str, own: &[String]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut collect = |prefix: &str| {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            if before.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == ':')) {
                names.extend(heads(&code[at + prefix.len()..]));
            }
        }
    };
    collect("crate::");
    collect(&"super::".repeat(own.len()));
    names
}

/// What the root re-exports: by name, the module that it comes from.
fn re_exports(root: &str) -> BTreeMap<String, String> {
    let mut from = BTreeMap::new();
    for (at, prefix) in root.match_indices("pub use ") {
        let path = &root[at + prefix.len()..];
        let module = identifier(path);
        let names = path[module.len()..path.find(';').unwrap()]
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|name| !name.is_empty());
        from.extend(names.map(|name| (name.to_owned(), module.to_owned())));
    }
    from
}

fn imports(files: &[(PathBuf, String)]) -> Imports {
    let root = files.iter().find(|(path, _)| path == Path::new("lib.rs"));
    let re_exports = re_exports(&code(&root.unwrap().1));
    let own = files.iter().map(|(path, _)| module_path(path));
    let modules: BTreeSet<String> = own.filter_map(|own| own.into_iter().next()).collect();
    let mut imports = Imports::new();
    for (path, text) in files {
        let own = module_path(path);
        if own.is_empty() || own.contains(&"tests".to_owned()) {
            continue;
        }
        let names = mentioned(&code(text), &own);
        let to = names.into_iter().map(|name| match re_exports.get(&name) {
            Some(module) if !modules.contains(&name) => module.clone(),
            _ => name,
        });
        imports.entry(own[0].clone()).or_default().extend(to);
    }
    imports
}

/// The modules that are on cycles, or between two of them, with what each imports of the others.
fn cyclic(mut imports: Imports) -> Imports {
    loop {
        let modules: BTreeSet<String> = imports.keys().cloned().collect();
        let imported: BTreeSet<String> = imports
            .iter()
            .flat_map(|(from, to)| to.iter().filter(move |to| *to != from).cloned())
            .collect();
        for (from, to) in &mut imports {
            to.retain(|to| to != from && modules.contains(to));
        }
        imports.retain(|module, to| !to.is_empty() && imported.contains(module));
        if imports.len() == modules.len() {
            return imports;
        }
    }
}

#[test]
fn modules_do_not_import_each_other() {
    for name in CRATES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        let imports = imports(&sources(&root.join("src")));
        assert!(imports.len() > 10, "{name}: {} modules", imports.len());
        let cyclic = cyclic(imports);
        assert!(
            cyclic.is_empty(),
            "{name}: modules on import cycles: {cyclic:#?}"
        );
    }
}

#[test]
fn a_cycle_by_way_of_a_re_export_and_of_super_is_found() {
    let cycle = |last: &str| {
        let files = [
            (
                "lib.rs",
                "mod a;\nmod b;\nmod c;\npub use a::{Alpha, b::Beta};\n",
            ),
            ("a.rs", "use crate::{\n    b::Thing,\n    a::Own,\n};\n"),
            ("b.rs", "use std::fmt;\nmod inner;\n"),
            (
                "b/inner.rs",
                "use super::Thing;\nfn f() -> super::super::c::Other {}\n",
            ),
            ("c.rs", last),
            ("d.rs", "use crate::a::Alpha;\n"),
        ];
        let files = files.map(|(path, text)| (PathBuf::from(path), text.to_owned()));
        cyclic(imports(&files)).into_keys().collect::<Vec<_>>()
    };
    assert_eq!(cycle("use crate::Alpha;\n"), ["a", "b", "c"]);
    assert_eq!(cycle("use crate::Beta;\n"), ["a", "b", "c"]);
    assert_eq!(cycle("use crate::d::Delta;\n"), ["a", "b", "c", "d"]);
    let none: [&str; 0] = [];
    assert_eq!(
        cycle("// use crate::Alpha;\n#[cfg(test)]\nmod tests {\n    use crate::Alpha;\n}\n"),
        none
    );
}
