//! Any bytes as fat binaries: no panic, and no payload larger than was
//! allowed, whatever the headers claim.
#![no_main]

/// Small, so that a bomb shows as one: real modules have megabytes.
const LIMIT: u64 = 1 << 20;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(header) = bytes.first_chunk() {
        let _ = fatbin::container_size(header);
    }
    let Ok(entries) = fatbin::parse(bytes) else {
        return;
    };
    for capability in [75, 90, 120] {
        let _ = fatbin::best_ptx(&entries, capability);
    }
    for entry in &entries {
        if let Ok(payload) = entry.payload(LIMIT) {
            assert!(payload.len() as u64 <= LIMIT);
        }
    }
});
