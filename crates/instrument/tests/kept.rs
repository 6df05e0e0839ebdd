//! What is kept of an instrumented module is what was made of it, for all real
//! modules: one that is written and never read again would be made anew each time.

use crate::common;

use instrument::{Options, from_bytes, instrument, to_bytes};

#[test]
fn corpora_are_read_as_they_were_written() {
    let folder = common::root().join("target/corpora");
    let paths = common::files(&folder, "ptx");
    assert!(!paths.is_empty(), "run `cargo xtask corpora`");
    let mut programs = 0;
    for path in &paths {
        let what = path.display();
        let source = std::fs::read_to_string(path).expect("a readable file");
        let Ok(made) = instrument(&source, &Options::default()) else {
            continue;
        };
        let entries = made.entries.iter();
        programs += entries.filter(|entry| entry.program().is_some()).count();
        let parts = [made];
        let bytes = to_bytes(&parts).expect("bytes");
        let read = from_bytes(&bytes).unwrap_or_else(|| panic!("{what} is not read"));
        assert_eq!(format!("{read:?}"), format!("{parts:?}"), "{what}");
    }
    assert!(programs > 100, "{programs}");
}
