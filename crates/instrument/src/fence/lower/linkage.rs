//! Variables that other files may define, too, become the module's own.
//!
//! A tenant's modules are loaded apart. Of several `.weak` or `.common`
//! definitions each module has its own then, as when the driver loads them.

use super::super::refuse::Refusals;
use ptx::{Edits, Linkage, Module, Span};

pub(super) fn own(module: &Module<'_>, _: &mut Refusals<'_>) -> Option<String> {
    let mut edits = Edits::new();
    let mut done = None;
    for variable in module.variables() {
        let word = match variable.linkage {
            Linkage::Weak => ".weak",
            Linkage::Common => ".common",
            Linkage::Local | Linkage::Visible | Linkage::Extern => continue,
        };
        // Several names of one declaration share its span.
        if done == Some(variable.span) {
            continue;
        }
        done = Some(variable.span);
        let Some(at) = variable.span.text(module.source).find(word) else {
            continue;
        };
        let start = variable.span.start + at as u32;
        let end = start + word.len() as u32;
        edits.replace(Span { start, end }, ".visible");
    }
    (!edits.is_empty()).then(|| edits.apply(module.source))
}
