//! Any bytes as the debug sections of a module: an answer or an error to every
//! question, no panic. The first byte says how many of the rest, in fours, are
//! the abbreviations. The questions are shared with the crate's property
//! tests. Seeds: the sections of `crates/debuginfo/tests/nvcc.ptx`.
#![no_main]

#[path = "../../crates/debuginfo/tests/support/questions.rs"]
mod questions;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else {
        return;
    };
    let (abbreviations, entries) = rest.split_at(rest.len().min(4 * usize::from(first)));
    let data = |bytes: &[u8]| -> String {
        bytes.iter().map(|byte| format!(".b8 {byte}\n")).collect()
    };
    questions::ask(&format!(
        ".version 9.0\n.target sm_90, debug\n.address_size 64\n.section .debug_abbrev\n{{\n{}}}\n\
         .section .debug_info\n{{\n{}}}\n",
        data(abbreviations),
        data(entries)
    ));
});
