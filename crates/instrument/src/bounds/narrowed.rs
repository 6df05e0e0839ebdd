//! Bounds of pointers that the program kept in memory, where they point into an array
//! of the function's own: a lookup by address gives the whole shared memory of the
//! block, and nothing for local memory.

use super::emit::Emit;
use super::pieces::outside_only;
use super::text::*;
use crate::patch::line;
use analysis::{Place, SymbolSpace};
use ptx::Guard;

impl<'a> Emit<'_, '_, 'a> {
    /// Narrows bounds that were found by an address to the array that it lies in. A
    /// pointer to the end of an array may also be one to the start of the next: then
    /// the bounds are those of both.
    pub(super) fn narrow(
        &self,
        pointer: &str,
        guard: Option<Guard<'a>>,
        (base, size): (Op<'_>, Op<'_>),
        out: &mut String,
    ) {
        if self.plan.kept.is_empty() {
            return;
        }
        let only_under = |out: &mut String| {
            if let Some(guard) = guard {
                outside_only(OUTSIDE, guard.register, guard.negated, out);
            }
        };
        line!(out, "mov.b64 {OFFSET}, {pointer};");
        for place in &self.plan.kept {
            let name = self.analysis.code.symbols[place.symbol.0 as usize].name;
            let space = space_of(place);
            let bytes = place.size.unwrap_or(0);
            line!(out, "mov.u64 {SCRATCH}, {name};");
            line!(out, "cvta.{space}.u64 {SCRATCH}, {SCRATCH};");
            if place.start > 0 {
                line!(out, "add.s64 {SCRATCH}, {SCRATCH}, {};", place.start);
            }
            line!(out, "sub.s64 {SCRATCH2}, {pointer}, {SCRATCH};");
            line!(out, "setp.eq.s64 {OTHER}, {SCRATCH2}, {bytes};");
            line!(out, "selp.b64 {OFFSET}, {SCRATCH}, {OFFSET}, {OTHER};");
            line!(out, "setp.lt.u64 {OUTSIDE}, {SCRATCH2}, {bytes};");
            only_under(out);
            line!(out, "@{OUTSIDE} mov.b64 {base}, {SCRATCH};");
            line!(out, "@{OUTSIDE} mov.b64 {size}, {bytes};");
        }
        line!(out, "setp.eq.s64 {OUTSIDE}, {base}, {pointer};");
        line!(
            out,
            "setp.ne.and.s64 {OUTSIDE}, {OFFSET}, {pointer}, {OUTSIDE};"
        );
        only_under(out);
        line!(out, "sub.s64 {SCRATCH}, {pointer}, {OFFSET};");
        line!(out, "@{OUTSIDE} add.s64 {size}, {size}, {SCRATCH};");
        line!(out, "@{OUTSIDE} mov.b64 {base}, {OFFSET};");
    }
}

/// The space of a place that is kept ([`analysis::Analysis::kept_places`]).
fn space_of(place: &Place) -> &'static str {
    match place.space {
        SymbolSpace::Shared => "shared",
        _ => "local",
    }
}
