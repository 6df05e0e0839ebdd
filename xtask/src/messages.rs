//! Checks docs/troubleshooting.md against the sources: each message that it
//! explains is one that Ringfence prints.

#[cfg(test)]
mod tests {
    use crate::pages::Page;
    use crate::workspace::root;
    use std::path::Path;

    /// The sources of what a user runs, with string literals that go over
    /// several lines put together.
    fn sources(folder: &Path, into: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                for (number, piece) in text.split("\\\n").enumerate() {
                    *into += if number == 0 {
                        piece
                    } else {
                        piece.trim_start()
                    };
                }
            }
        }
    }

    /// What is written out of a message: its pieces between the gaps.
    fn pieces(message: &str) -> impl Iterator<Item = &str> {
        message
            .split('…')
            .map(|piece| piece.trim_matches([' ', ',', ':', ';']))
            .filter(|piece| !piece.is_empty())
    }

    /// The messages of a page: code that a row of a table begins with.
    fn messages(text: &str) -> Vec<&str> {
        text.lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .collect()
    }

    #[test]
    fn messages_are_what_rows_begin_with() {
        let text = "| `a … b: …` | `c` |\n| d | `e` |\n`f`\n";
        assert_eq!(messages(text), ["a … b: …"]);
        assert_eq!(pieces("a … b: …").collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn every_message_that_is_explained_exists() {
        let mut text = String::new();
        sources(&root().join("crates"), &mut text);
        // As format strings write them.
        let text = text.replace("{{", "{").replace("}}", "}");
        let page = Page::read(&root(), "docs/troubleshooting.md".into()).unwrap();
        let messages = messages(&page.text);
        assert!(messages.len() > 40, "too few messages are read");
        let unknown: Vec<&&str> = messages
            .iter()
            .filter(|message| pieces(message).any(|piece| !text.contains(piece)))
            .collect();
        assert!(unknown.is_empty(), "no source prints {unknown:#?}");
    }
}
