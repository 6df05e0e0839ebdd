//! Errors that say what, where and what to do.

use crate::{Position, Span};

/// One thing that is wrong with a PTX file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong, a lower-case fragment.
    pub message: String,
    /// Where.
    pub span: Span,
    /// Line and column of its start.
    pub position: Position,
    /// The text of that line.
    pub line: String,
    /// What to do about it, a sentence.
    pub help: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Position { line, column } = self.position;
        write!(
            f,
            "line {line}, column {column}: {}\n  | {}\n  = help: {}",
            self.message, self.line, self.help
        )
    }
}

impl std::error::Error for Error {}
