//! Pointers that the program kept in memory: the code that narrows what a lookup by
//! address has found to an array of the function's own.

use super::checks::{Input, Text};
use super::written::only_under;
use crate::protocol::register::{OFFSET, OTHER, OUTSIDE, SCRATCH, SCRATCH2};
use analysis::SymbolSpace;
use std::fmt::Write;

/// The bounds of the array that contains the pointer, if one does, and of one that ends
/// where it points.
pub(super) fn narrowed_text(
    pointer: &str,
    guard: &str,
    (base, size): (&str, &str),
    input: &Input<'_, '_, '_>,
) -> Text {
    let mut text = Text::new();
    if input.kept.is_empty() {
        return text;
    }
    let under = only_under(OUTSIDE, guard);
    let _ = write!(text, "mov.b64 {OFFSET}, {pointer}; ");
    for place in &input.kept {
        let (space, Some(bytes)) = (place.space, place.size) else {
            continue;
        };
        let space = match space {
            SymbolSpace::Shared => "shared",
            SymbolSpace::Local => "local",
            _ => continue,
        };
        let name = input.analysis.code.symbols[place.symbol.0 as usize].name;
        let _ = write!(
            text,
            "mov.u64 {SCRATCH}, {name}; cvta.{space}.u64 {SCRATCH}, {SCRATCH}; "
        );
        if place.start > 0 {
            let _ = write!(text, "add.s64 {SCRATCH}, {SCRATCH}, {}; ", place.start);
        }
        let _ = write!(
            text,
            "sub.s64 {SCRATCH2}, {pointer}, {SCRATCH}; setp.eq.s64 {OTHER}, {SCRATCH2}, {bytes}; \
             selp.b64 {OFFSET}, {SCRATCH}, {OFFSET}, {OTHER}; \
             setp.lt.u64 {OUTSIDE}, {SCRATCH2}, {bytes}; {under} \
             @{OUTSIDE} mov.b64 {base}, {SCRATCH}; @{OUTSIDE} mov.b64 {size}, {bytes}; "
        );
    }
    let _ = write!(
        text,
        "setp.eq.s64 {OUTSIDE}, {base}, {pointer}; \
         setp.ne.and.s64 {OUTSIDE}, {OFFSET}, {pointer}, {OUTSIDE}; {under} \
         sub.s64 {SCRATCH}, {pointer}, {OFFSET}; \
         @{OUTSIDE} add.s64 {size}, {size}, {SCRATCH}; @{OUTSIDE} mov.b64 {base}, {OFFSET}; "
    );
    text
}
