//! Any text: no panic, no lost byte, no silent failure. The oracle is shared
//! with the crate's property tests. Seeds: `crates/ptx/tests/data`.
#![no_main]

#[path = "../../crates/ptx/tests/support/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    invariants::check(&String::from_utf8_lossy(bytes));
});
