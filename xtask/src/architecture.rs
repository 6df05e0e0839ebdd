//! Checks `ARCHITECTURE.md` against the workspace: every path that it names
//! exists. (Its table of crates is checked by [`crate::layers`].)

#[cfg(test)]
mod tests {
    use crate::workspace::root;

    /// Words in backquotes that have the form of paths of the workspace.
    fn paths(text: &str) -> Vec<&str> {
        text.split('`')
            .skip(1)
            .step_by(2)
            .filter(|word| {
                let name = !word.contains([' ', ':', '*', '$', '<', '(', '=']);
                let path = word.contains('/')
                    || [".rs", ".md", ".toml", ".json", ".cu"]
                        .iter()
                        .any(|end| word.ends_with(end));
                name && path && !word.starts_with(['/', '-', '.']) && !word.starts_with("target")
            })
            .collect()
    }

    #[test]
    fn paths_are_told_from_code() {
        let text = "`crates/ptx`, `a::b`, `-o out/x`, `README.md`, `target/x`, `/dev/null`, `x`";
        assert_eq!(paths(text), ["crates/ptx", "README.md"]);
    }

    #[test]
    fn every_named_path_exists() {
        for page in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
            let text = std::fs::read_to_string(root().join(page)).unwrap();
            let missing: Vec<&str> = paths(&text)
                .into_iter()
                .filter(|path| !root().join(path).exists())
                .collect();
            assert!(missing.is_empty(), "{page} names {missing:?}");
        }
    }
}
