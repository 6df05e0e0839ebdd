//! Lossless PTX: lexer, statement and scope tree with spans, instruction
//! table, edits by span.
//!
//! [`parse`] never panics, on any bytes. The tree borrows the source; every
//! node has the span of its text, so a rewriter edits the text by span
//! ([`Edits`]) and the rest stays byte-identical. Unknown opcodes and
//! directives are preserved verbatim.
//!
//! It must never change what it reads, resolve names, or guess the meaning of
//! opcodes that the [`table`] lacks: its users decide about those.
//!
//! ```
//! let source = ".version 8.0\n.target sm_90\n.address_size 64\n\
//!     .visible .entry k(.param .u64 p)\n{\n\
//!     ld.global.v2.f32 {%f1, %f2}, [%rd1+8];\nret;\n}\n";
//! let module = ptx::parse(source).expect("it is PTX");
//! let mut edits = ptx::Edits::new();
//! for function in module.functions() {
//!     for instruction in function.instructions() {
//!         let info = ptx::table::classify(instruction).expect("the table knows it");
//!         for access in &info.accesses {
//!             assert_eq!(access.width, ptx::table::Width::Bytes(8));
//!             edits.insert(instruction.span.start, "// a read\n");
//!         }
//!     }
//! }
//! assert!(edits.apply(source).contains("// a read\nld.global"));
//! ```

mod cursor;
mod declaration;
mod edit;
mod error;
mod expression;
mod initializer;
mod lexer;
mod modifier;
mod names;
mod number;
mod opcode;
mod operand;
mod parser;
mod query;
mod recover;
mod span;
pub mod table;
mod tree;

/// The newest version of PTX that the tables of instructions and modifiers
/// cover.
pub const NEWEST_VERSION: (u32, u32) = (9, 5);

pub use edit::Edits;
pub use error::Error;
pub use initializer::Value;
pub use lexer::{Token, TokenKind, tokenize};
pub use modifier::Modifier;
pub use opcode::Opcode;
pub use parser::parse;
pub use query::{LineIndex, Statements};
pub use span::{Position, Span};
pub use table::Mnemonic;
pub use tree::*;
