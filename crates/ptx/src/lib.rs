//! Lossless PTX: lexer, statement and scope tree with spans, instruction
//! table, edits by span.
//!
//! [`parse`] never panics, on any bytes. The tree borrows the source; every
//! node has the span of its text, so a rewriter edits the text by span
//! ([`Edits`]) and whatever it does not touch stays byte-identical. Opcodes
//! and directives that the crate does not know survive verbatim.

mod cursor;
mod declaration;
mod edit;
mod error;
mod expression;
mod initializer;
mod lexer;
mod number;
mod operand;
mod parser;
mod query;
mod recover;
mod span;
pub mod table;
mod tree;

pub use edit::Edits;
pub use error::Error;
pub use initializer::Value;
pub use lexer::{Token, TokenKind, tokenize};
pub use parser::parse;
pub use query::{LineIndex, Statements};
pub use span::{Position, Span};
pub use tree::*;
