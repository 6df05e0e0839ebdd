//! Builds the tree.

use crate::{Error, Module};

/// Parse PTX text. On failure, all errors that were found, never none.
pub fn parse(_source: &str) -> Result<Module<'_>, Vec<Error>> {
    todo!()
}
