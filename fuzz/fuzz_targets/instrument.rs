//! Any text: instrumentation never panics, and what it makes passes the
//! verifier. Seeds: `crates/ptx/tests/data`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(done) = instrument::instrument(source, &instrument::Options::default())
        && let Err(errors) = instrument::verify_output(source, &done)
    {
        panic!("{}", errors[0]);
    }
});
