//! PTX that compilers wrote: the fixtures beside this test, and the corpora
//! that `cargo xtask corpora` makes.

use crate::support;

#[test]
fn fixtures_are_read_and_classified() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    support::assert_sound(&support::files(&folder, "ptx"));
}

#[test]
fn corpora_are_read_and_classified() {
    let folder = std::env::var_os("RINGFENCE_CORPORA").map_or_else(
        || toolchain::workspace().join("target/corpora"),
        std::path::PathBuf::from,
    );
    let files = support::files(&folder, "ptx");
    assert!(
        !files.is_empty(),
        "no PTX below {}: run `cargo xtask setup`, then `cargo xtask corpora`",
        folder.display()
    );
    support::assert_sound(&files);
}
