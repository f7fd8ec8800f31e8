//! The modules of a crate depend on each other in one direction only: none imports another that
//! imports it, not even by way of third ones.
//!
//! That holds for the modules of the crate, where a module `x` and the modules of its folder `x/` count
//! as one, and again for the modules of each folder. A module and one of its own folder may import
//! each other. What only tests import does not count.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose modules must not form a cycle.
const CRATES: [&str; 3] = ["experiments", "routing", "sim"];

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

/// A path of names from the root of the crate.
type Names = Vec<String>;

/// The paths that a text begins with: one, or one for each branch of a group. What comes after them.
fn paths<'t>(text: &'t str, before: &Names, found: &mut Vec<Names>) -> &'t str {
    let mut text = text.trim_start();
    if let Some(mut group) = text.strip_prefix('{') {
        while !group.starts_with('}') {
            let rest = paths(group, before, found).trim_start();
            let Some(rest) = rest
                .strip_prefix(',')
                .or(rest.starts_with('}').then_some(rest))
            else {
                return rest;
            };
            group = rest.trim_start();
        }
        return &group[1..];
    }
    let name = identifier(text);
    text = &text[name.len()..];
    let mut path = before.clone();
    if name != "self" {
        path.push(name.to_owned());
    }
    if let Some(rest) = text.strip_prefix("::") {
        return paths(rest, &path, found);
    }
    if let Some(alias) = text.strip_prefix(" as ") {
        text = &alias[identifier(alias).len()..];
    }
    found.push(path);
    text.strip_prefix('*').unwrap_or(text)
}

/// What the code of a module with path `own` mentions of its crate.
fn mentioned(code: &str, own: &Names) -> Vec<Names> {
    let mut found = Vec::new();
    let mut collect = |prefix: &str, module: &Names| {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            if before.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == ':')) {
                paths(&code[at + prefix.len()..], module, &mut found);
            }
        }
    };
    collect("crate::", &Names::new());
    for up in 1..=own.len() {
        collect(&"super::".repeat(up), &own[..own.len() - up].to_vec());
    }
    found
}

/// What the code of a module imports or re-exports: by name, the module below it that it comes from.
fn re_exports(code: &str, own: &Names) -> BTreeMap<String, String> {
    let mut from = BTreeMap::new();
    let mut absolute = "crate".to_owned();
    for name in own {
        absolute.push_str("::");
        absolute.push_str(name);
    }
    for line in code.match_indices("use ") {
        let is_statement = code[..line.0].rsplit('\n').next().is_some_and(|before| {
            before.is_empty() || before.starts_with("pub") && !before.contains('=')
        });
        if !is_statement {
            continue;
        }
        let path = &code[line.0 + line.1.len()..];
        let path = path
            .strip_prefix(&*absolute)
            .map_or(path, |path| path.strip_prefix("::").unwrap_or(path));
        let path = path.strip_prefix("self::").unwrap_or(path);
        let mut found = Vec::new();
        paths(path, &Names::new(), &mut found);
        for names in found {
            if let [module, .., name] = &names[..] {
                from.insert(name.clone(), module.clone());
            }
        }
    }
    from
}

/// The modules in the folder of the module `of` (empty: in the crate), each with those of its own
/// folder, and what they import of each other.
fn imports(files: &[(PathBuf, String)], of: &Names) -> Imports {
    let inside: Vec<(Names, String)> = files
        .iter()
        .map(|(path, text)| (module_path(path), code(text)))
        .filter(|(own, _)| own.starts_with(of) && !own.contains(&"tests".to_owned()))
        .collect();
    let root = inside.iter().find(|(own, _)| own == of);
    let re_exports = root
        .map(|(_, code)| re_exports(code, of))
        .unwrap_or_default();
    let own = inside.iter().filter_map(|(own, _)| own.get(of.len()));
    let modules: BTreeSet<String> = own.cloned().collect();
    let mut imports = Imports::new();
    for (own, code) in &inside {
        let Some(module) = own.get(of.len()) else {
            continue;
        };
        let mentioned = mentioned(code, own);
        let names = mentioned
            .iter()
            .filter(|path| path.starts_with(of))
            .filter_map(|path| path.get(of.len()));
        let to = names.map(|name| match re_exports.get(name) {
            Some(module) if !modules.contains(name) => module.clone(),
            _ => name.clone(),
        });
        imports.entry(module.clone()).or_default().extend(to);
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
        let files = sources(&root.join("src"));
        let modules = imports(&files, &Names::new()).len();
        assert!(modules > 10, "{name}: {modules} modules");
        let folders: BTreeSet<Names> = files
            .iter()
            .filter_map(|(path, _)| Some(module_path(path).split_last()?.1.to_vec()))
            .collect();
        for folder in folders {
            let cyclic = cyclic(imports(&files, &folder));
            let folder = folder.join("::");
            assert!(
                cyclic.is_empty(),
                "{name}: modules of {folder:?} on import cycles: {cyclic:#?}"
            );
        }
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
        cyclic(imports(&files, &Names::new()))
            .into_keys()
            .collect::<Vec<_>>()
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

#[test]
fn a_cycle_in_a_folder_is_found() {
    let cycle = |first: &str| {
        let files = [
            ("lib.rs", "mod a;\n"),
            (
                "a/mod.rs",
                "mod b;\nmod c;\nuse b::{Beta};\nfn f() -> c::Gamma {}\n",
            ),
            ("a/b.rs", first),
            ("a/c.rs", "use crate::a::{b::deep::Beta, Other};\n"),
        ];
        let files = files.map(|(path, text)| (PathBuf::from(path), text.to_owned()));
        let crate_level = cyclic(imports(&files, &Names::new()));
        assert!(crate_level.is_empty(), "{crate_level:?}");
        let folder = cyclic(imports(&files, &vec!["a".to_owned()]));
        folder.into_keys().collect::<Vec<_>>()
    };
    let both = ["b", "c"];
    assert_eq!(cycle("use super::c::Gamma;\n"), both);
    assert_eq!(cycle("use crate::{a::{Other, c::{self}}, Thing};\n"), both);
    let none: [&str; 0] = [];
    assert_eq!(cycle("use super::Other;\nuse crate::a;\n"), none);
}
