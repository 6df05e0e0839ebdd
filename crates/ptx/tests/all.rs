//! Tests of lexer, parser and table. They are one program, because linking takes
//! longer than compiling them.

mod corpora;
mod errors;
mod headers;
mod lexer;
mod ptxas;
mod robust;
mod support;
mod table;
mod tree;
