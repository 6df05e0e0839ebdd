//! Edits of a source text by span. Text outside the edits is untouched.

use crate::Span;

/// A set of insertions and replacements, applied at once.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    edits: Vec<(Span, String)>,
}

impl Edits {
    /// No edits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Insert `text` before the byte at `offset`. Insertions at one place keep
    /// the order in which they were made, and precede a replacement there.
    pub fn insert(&mut self, offset: u32, text: impl Into<String>) {
        self.edits.push((
            Span {
                start: offset,
                end: offset,
            },
            text.into(),
        ));
    }

    /// Replace the bytes of `span` by `text`.
    pub fn replace(&mut self, span: Span, text: impl Into<String>) {
        self.edits.push((span, text.into()));
    }

    /// The edited text.
    ///
    /// # Panics
    /// If two replacements overlap: a defect of the caller, not of its input.
    pub fn apply(mut self, source: &str) -> String {
        self.edits
            .sort_by_key(|(span, _)| (span.start, span.end != span.start));
        let added: usize = self.edits.iter().map(|(_, text)| text.len()).sum();
        let mut out = String::with_capacity(source.len() + added);
        let mut at = 0;
        for (span, text) in &self.edits {
            assert!(span.start >= at, "overlapping edits at byte {}", span.start);
            out.push_str(&source[at as usize..span.start as usize]);
            out.push_str(text);
            at = span.end;
        }
        out.push_str(&source[at as usize..]);
        out
    }
}
