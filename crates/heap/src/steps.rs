//! What ties a model of device code to that code: the steps of a function on
//! shared memory, in the order in which its source has them. If a step is
//! missing, added or moved on one side only, the two lists differ.

/// A source, and how it writes steps.
pub struct Source<'t> {
    /// Its text.
    pub text: &'t str,
    /// What stands before a function's name where it is defined, if anything.
    pub keyword: &'t str,
    /// How operations on shared memory begin. Each must be in the list of
    /// steps, so that none is omitted silently.
    pub operations: &'t [&'t str],
    /// From what is written, spaces left out, to the step that it is; an empty
    /// name: not part of the protocol.
    pub steps: &'t [(&'t str, &'t str)],
}

impl<'t> Source<'t> {
    /// The steps of a function; several alike in a row are one.
    pub fn steps_of(&self, function: &str) -> Vec<&'t str> {
        let body = compact(self.body(function));
        let mut found: Vec<&str> = Vec::new();
        let mut at = 0;
        while at < body.len() {
            let here =
                |pattern: &str| body[at..].starts_with(pattern) && starts(&body, at, pattern);
            let step = self.steps.iter().find(|(pattern, _)| here(pattern));
            if let Some((pattern, step)) = step {
                if !step.is_empty() && found.last() != Some(step) {
                    found.push(step);
                }
                at += pattern.len();
                continue;
            }
            let unlisted = self.operations.iter().any(|operation| here(operation));
            let end = body.len().min(at + 60);
            assert!(!unlisted, "{function}: no step: {}", &body[at..end]);
            at += 1;
        }
        assert!(!found.is_empty(), "{function} has no steps");
        found
    }

    /// What stands between a function's braces, without comments.
    fn body(&self, function: &str) -> String {
        let lines = self.text.lines();
        let text: String = lines
            .flat_map(|line| [line.split("//").next().unwrap_or(""), "\n"])
            .collect();
        let head = format!("{}{function}(", self.keyword);
        let body = text.match_indices(&head).find_map(|(at, _)| {
            if !starts(&text, at, &head) {
                return None;
            }
            let parameters = at + head.len() - 1;
            let after = parameters + enclosed(&text[parameters..])?;
            // A definition: no call, which anything else follows.
            let brace = after + text[after..].find('{')?;
            let between = text[after..brace].trim();
            let defined = between.is_empty() || between.starts_with("->");
            defined.then(|| &text[brace..brace + enclosed(&text[brace..]).unwrap_or(0)])
        });
        let body = body.unwrap_or_else(|| panic!("there is no function {function}"));
        assert!(body.is_ascii());
        body.to_owned()
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether no identifier continues at this place.
fn starts(text: &str, at: usize, pattern: &str) -> bool {
    let before = at.checked_sub(1).map(|at| text.as_bytes()[at]);
    !pattern.starts_with(|first: char| first.is_ascii() && is_word(first as u8))
        || !before.is_some_and(is_word)
}

/// Bytes up to the bracket that closes the first one.
fn enclosed(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'{' => depth += 1,
            b')' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Without spaces, but for one between two words.
fn compact(text: String) -> String {
    let mut out = String::new();
    for part in text.split_ascii_whitespace() {
        let word = |byte: Option<u8>| byte.is_some_and(is_word);
        if word(out.bytes().last()) && word(part.bytes().next()) {
            out.push(' ');
        }
        out.push_str(part);
    }
    out
}

#[test]
fn steps_are_read_in_order_and_none_is_left_out() {
    let source = |text| Source {
        text,
        keyword: "",
        operations: &["load(", "store("],
        steps: &[("load(&a->b)", "load b"), ("store(&b,", "store b")],
    };
    let text = "void unlock(int x) { store(&b, 2); }\n\
                int lock(int x) { // load(&a->b)\n  if (block(1)) return load(&a->b);\n  else store(&b, 1); }";
    assert_eq!(source(text).steps_of("lock"), ["load b", "store b"]);
    assert_eq!(source(text).steps_of("unlock"), ["store b"]);
    let unlisted = std::panic::catch_unwind(|| source("int f() { load(c); }").steps_of("f"));
    assert!(unlisted.is_err());
}
