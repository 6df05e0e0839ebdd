//! Any bytes as a `printf` format: an answer whose arguments lie where
//! alignment puts them, and no panic.
#![no_main]

use model::printf::printed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let printed = printed(bytes);
    for string in &printed.strings {
        assert!(string.at % 8 == 0 && string.at + 8 <= printed.bytes);
    }
});
