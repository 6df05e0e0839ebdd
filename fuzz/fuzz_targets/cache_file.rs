//! Any bytes as a file of the cache: it is damaged, or holds the contents that the
//! same header is written for. The rest of the bytes as an instrumented module whose
//! hash was made to fit: it is none, or launches of its kernels can be decided.
#![no_main]

use cache::{HEADER, Key, read, written};
use instrument::LaunchShape;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let key = Key::of("fuzzed").key();
    if let Ok(contents) = read(&key, bytes) {
        assert_eq!(written(&key, contents), bytes[..HEADER]);
    }
    let header = written(&key, bytes);
    assert_eq!(read(&key, &[&header[..], bytes].concat()), Ok(bytes));
    for part in instrument::from_bytes(bytes).into_iter().flatten() {
        for entry in &part.entries {
            let Some(program) = entry.program() else {
                continue;
            };
            let shape = LaunchShape {
                grid: [65_535, 3, 1],
                block: [32, 2, 1],
                shared: 256,
            };
            for input in [0, 1 << 20, u64::MAX] {
                let inputs = vec![input; program.inputs().len()];
                let _ = program.proves(&shape, &inputs, &|offset| Some((offset.into(), 4096)));
            }
        }
    }
});
