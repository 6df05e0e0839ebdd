//! Insertions and replacements in one function's text, in text order, with
//! their text in one shared buffer.

use std::fmt::Write;

struct Edit {
    start: u32,
    end: u32,
    text: (u32, u32),
}

/// Edits of one function.
#[derive(Default)]
pub(crate) struct Patch {
    edits: Vec<Edit>,
    text: String,
}

impl Patch {
    /// Replaces `start..end` of the source (empty, for an insertion) with the
    /// output of `write`. Edits must be made in text order.
    pub(crate) fn edit(&mut self, start: u32, end: u32, write: impl FnOnce(&mut String)) {
        let from = self.text.len() as u32;
        write(&mut self.text);
        debug_assert!(self.edits.last().is_none_or(|last| last.end <= start));
        self.edits.push(Edit {
            start,
            end,
            text: (from, self.text.len() as u32),
        });
    }

    pub(crate) fn insert(&mut self, at: u32, write: impl FnOnce(&mut String)) {
        self.edit(at, at, write);
    }

    /// Appends `source[from..to]`, edited, to `out`; `head` is inserted at
    /// `head_at`, which is before all edits.
    pub(crate) fn render(
        &self,
        source: &str,
        (from, to): (u32, u32),
        head_at: u32,
        head: &str,
        out: &mut String,
    ) {
        out.reserve((to - from) as usize + self.text.len() + head.len());
        out.push_str(&source[from as usize..head_at as usize]);
        out.push_str(head);
        let mut at = head_at;
        for edit in &self.edits {
            // Edits out of order would be a defect of the pass: the text is
            // then wrong, and `verify` and ptxas both refuse it.
            let start = edit.start.max(at);
            out.push_str(&source[at as usize..start as usize]);
            out.push_str(&self.text[edit.text.0 as usize..edit.text.1 as usize]);
            at = edit.end.max(at);
        }
        out.push_str(&source[at as usize..to as usize]);
    }
}

/// `write!` into a string cannot fail.
pub(crate) fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(arguments);
}

/// Appends a line of PTX.
macro_rules! line {
    ($out:expr, $($argument:tt)*) => {
        $crate::patch::put($out, format_args!("{}\n\t", format_args!($($argument)*)))
    };
}
pub(crate) use line;
