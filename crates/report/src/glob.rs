//! Text with `*` for any text and `?` for any character.

/// A pattern; `\` takes the special meaning of the next character away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(Vec<Part>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Is(char),
}

impl Glob {
    pub fn new(pattern: &str) -> Glob {
        let mut parts = Vec::new();
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            parts.push(match character {
                '*' => Part::Any,
                '?' => Part::One,
                '\\' => Part::Is(characters.next().unwrap_or('\\')),
                other => Part::Is(other),
            });
        }
        Glob(parts)
    }

    /// A pattern that matches this text and no other.
    pub fn escape(text: &str) -> String {
        let mut pattern = String::with_capacity(text.len());
        for character in text.chars() {
            if matches!(character, '*' | '?' | '\\') {
                pattern.push('\\');
            }
            pattern.push(character);
        }
        pattern
    }

    /// Whether the whole text matches. Takes time in proportion to the product
    /// of both lengths at most: it returns to the last `*` only.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut part) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while at < text.len() {
            match self.0.get(part) {
                Some(Part::Any) => {
                    star = Some((part, at));
                    part += 1;
                    continue;
                }
                Some(Part::One) => {}
                Some(Part::Is(character)) if *character == text[at] => {}
                _ => {
                    let Some((after, from)) = star else {
                        return false;
                    };
                    part = after + 1;
                    at = from + 1;
                    star = Some((after, at));
                    continue;
                }
            }
            at += 1;
            part += 1;
        }
        self.0[part..].iter().all(|part| *part == Part::Any)
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn the_whole_text_must_match() {
        for (pattern, text, matches) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("a*b*c", "aXbYbZc", true),
            ("?b", "ab", true),
            ("?", "", false),
            ("*.cu", "x.cu.cu", true),
            (r"\*", "*", true),
            (r"\*", "x", false),
        ] {
            assert_eq!(
                Glob::new(pattern).matches(text),
                matches,
                "{pattern} {text}"
            );
        }
        for text in ["a*b?", r"\", "operator*(float)"] {
            assert!(Glob::new(&Glob::escape(text)).matches(text));
            assert!(!Glob::new(&Glob::escape(text)).matches(&format!("{text}x")));
        }
    }

    #[test]
    fn many_stars_do_not_take_long() {
        let pattern = "*a".repeat(50) + "b";
        assert!(!Glob::new(&pattern).matches(&"a".repeat(2000)));
    }
}
