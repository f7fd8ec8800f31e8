//! What the page's modules say of their types, judged by TypeScript's compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `tests/run.sh` puts the compiler.
const COMPILER: &str = "/usr/local/lib/ibemu-tests/typescript/lib/tsc.js";

#[test]
fn the_pages_modules_hold_what_their_types_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ibemu/web");
    let files = std::fs::read_dir(&folder).expect("the page's files");
    let paths = files.map(|file| file.expect("a file").path());
    let is_module = |path: &PathBuf| path.extension().is_some_and(|end| end == "js");
    let modules: Vec<PathBuf> = paths.filter(is_module).collect();
    assert!(modules.len() > 20, "{modules:?}");
    let options = "--noEmit --allowJs --checkJs --strict --target es2022 --module es2022 --moduleResolution bundler --lib es2023,dom,dom.iterable";
    let judged = Command::new("node")
        .arg(COMPILER)
        .args(options.split(' '))
        .args(modules)
        .current_dir(&folder)
        .output()
        .expect("node starts (tests/run.sh installs it, and the compiler)");
    let said = String::from_utf8_lossy(&judged.stdout);
    assert!(judged.status.success(), "{said}");
}
