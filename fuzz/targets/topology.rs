//! Any text is a fabric or an error with a line; a fabric survives being written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(graph) = topologies::read_text(text) {
        let again = topologies::read_text(&topologies::write_net(&graph));
        assert!(again.is_ok_and(|again| again.links().count() == graph.links().count()));
    }
});
