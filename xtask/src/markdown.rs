//! What the tests of the documentation read of a page: its fenced blocks, its
//! links, its headings and its words in backquotes. This is no parser of
//! Markdown: it reads what this project's pages use.

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence<'a> {
    /// What follows the opening fence: `sh`, `sh no_run`, `json`.
    pub label: &'a str,
    /// Line of the opening fence, from 1.
    pub line: usize,
    /// The lines between.
    pub body: Vec<&'a str>,
}

/// The fenced blocks of a page.
pub fn fences(text: &str) -> Vec<Fence<'_>> {
    let mut found: Vec<Fence<'_>> = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(label) if !open => {
                open = true;
                found.push(Fence {
                    label: label.trim(),
                    line: number + 1,
                    body: Vec::new(),
                });
            }
            Some(_) => open = false,
            None if open => {
                if let Some(fence) = found.last_mut() {
                    fence.body.push(line);
                }
            }
            None => {}
        }
    }
    found
}

/// Lines outside fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut open = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        open ^= fence;
        !open && !fence
    })
}

/// The targets of links and images.
#[cfg(test)]
pub fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in prose(text) {
        // Every second piece lies between backquotes.
        for piece in line.split('`').step_by(2) {
            let mut rest = piece;
            while let Some(at) = rest.find("](") {
                rest = &rest[at + 2..];
                let end = rest.find(')').unwrap_or(rest.len());
                found.push(&rest[..end]);
                rest = &rest[end..];
            }
        }
        // A link whose text is code: [`name`](target).
        for (at, _) in line.match_indices("`](") {
            let target = &line[at + 3..];
            found.push(&target[..target.find(')').unwrap_or(target.len())]);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// What the headings of a page can be linked by, as GitHub and mdBook make it.
#[cfg(test)]
pub fn anchors(text: &str) -> Vec<String> {
    prose(text)
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .chars()
                .filter_map(|letter| match letter {
                    ' ' => Some('-'),
                    '-' | '_' => Some(letter),
                    _ => letter
                        .is_alphanumeric()
                        .then(|| letter.to_ascii_lowercase()),
                })
                .collect()
        })
        .collect()
}

/// What stands between backquotes outside fenced blocks.
pub fn code(text: &str) -> Vec<&str> {
    prose(text)
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# One `x`, two\n\nSee [a](docs/a.md#b-c), ![p](p.svg) and `[no](x.md)`.\n\
                        Also [`y`](y.md).\n```sh no_run\n[z](z.md) `--no`\n# no heading\n```\n\
                        `--yes FILE` and `b`\n## C--d_e\n```\nout\n```\n";

    #[test]
    fn blocks_have_labels_and_lines() {
        let found = fences(PAGE);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].label, found[0].line), ("sh no_run", 5));
        assert_eq!(found[0].body.len(), 2);
        assert_eq!((found[1].label, &found[1].body[..]), ("", &["out"][..]));
    }

    #[test]
    fn links_and_code_are_those_of_the_prose() {
        assert_eq!(links(PAGE), ["docs/a.md#b-c", "p.svg", "y.md"]);
        assert_eq!(code(PAGE), ["x", "[no](x.md)", "y", "--yes FILE", "b"]);
    }

    #[test]
    fn anchors_are_those_of_the_sites() {
        assert_eq!(anchors(PAGE), ["one-x-two", "c--d_e"]);
    }
}
