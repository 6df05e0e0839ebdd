//! Splits PTX text into tokens that cover every byte.

use crate::Span;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Spaces, newlines, comments, `#` lines.
    Trivia,
    /// Placeholder kind until the lexer is written.
    Word,
}

/// A piece of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Its place.
    pub span: Span,
}

/// Tokens that cover `source` without gap or overlap.
pub fn tokenize(_source: &str) -> Vec<Token> {
    todo!()
}
