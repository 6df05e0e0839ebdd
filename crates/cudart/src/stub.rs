//! What a runtime function does that is not implemented: it fails with its name.

use crate::error::{record, say};
use crate::generated::names::NAMES;
use crate::generated::types::cudaError_t;

/// The function at position `INDEX` of [`NAMES`]. It may be called with any
/// arguments of the C calling convention, since it reads none.
pub(crate) extern "C" fn stub<const INDEX: usize>() -> cudaError_t {
    say(&format!(
        "{} is not available on the cpu device",
        NAMES[INDEX]
    ));
    record(cudaError_t::cudaErrorNotSupported)
}
