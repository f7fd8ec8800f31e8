#![no_main]
#![allow(missing_docs, reason = "libFuzzer's entry")]

use std::sync::LazyLock;

/// The target that `IBEMU_FUZZ_TARGET` names.
static TARGET: LazyLock<&'static fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("IBEMU_FUZZ_TARGET").unwrap_or_default();
    let names: Vec<&str> = fuzz::TARGETS.iter().map(|target| target.name).collect();
    fuzz::find(&name)
        .unwrap_or_else(|| panic!("set IBEMU_FUZZ_TARGET to one of {}", names.join(", ")))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
