//! What changes in this library belongs to the session: the statics of the
//! sources are those that are listed here.

use std::collections::BTreeSet;
use std::path::Path;

/// Those that change. The head of `session.rs` says why there are others than
/// its own.
const CHANGING: [&str; 3] = [
    "exports.rs TABLE",
    "hooks/streams.rs THREAD",
    "session.rs LIBRARY",
];

/// Those that never change, and variables of the C library.
const OTHERS: [&str; 5] = [
    "annotations.rs INTERFACE",
    "output.rs stdout",
    "load.rs AFTER_ALL",
    "load.rs BEFORE_MAIN",
    "load.rs environ",
];

/// The name of the static that a line declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let name = line.strip_prefix("static ")?.trim_start();
    let name = name.strip_prefix("mut ").unwrap_or(name);
    name.split_once(':').map(|(name, _)| name)
}

fn collect(folder: &Path, root: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, root, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        let file = path.strip_prefix(root).expect("below the root").display();
        let names = text.lines().filter_map(declared);
        found.extend(names.map(|name| format!("{file} {name}")));
    }
}

#[test]
fn no_static_changes_but_the_session_and_what_cannot_be_in_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    collect(&root, &root, &mut found);
    let expected: BTreeSet<String> = CHANGING
        .iter()
        .chain(&OTHERS)
        .map(|&name| name.to_owned())
        .collect();
    assert_eq!(found, expected);
    let session = std::fs::read_to_string(root.join("session.rs")).expect("a source");
    let head: String = session
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .collect();
    for name in CHANGING {
        let (_, name) = name.split_once(' ').expect("a file and a name");
        assert!(head.contains(name), "session.rs does not explain {name}");
    }
}

#[test]
fn declarations_are_recognized() {
    for (line, name) in [
        ("static A: Mutex<u8> = Mutex::new(0);", Some("A")),
        (
            "    pub(super) static B: OnceLock<u8> = OnceLock::new();",
            Some("B"),
        ),
        ("pub static C: u8 = 0;", Some("C")),
        ("    static mut environ: Strings;", Some("environ")),
        ("fn of(session: &'static Session) {", None),
        ("/// static D: u8", None),
    ] {
        assert_eq!(declared(line), name, "{line}");
    }
}
