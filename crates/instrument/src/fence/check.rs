//! The form of fences that checks: an address outside of the partition is replaced
//! by that of the partition's first byte, and the module's record says so.
//!
//! The record is a variable of the module ([`model::layout::fence::found`]), which
//! lies in the partition like all others.

use super::text::register as R;
use crate::patch::line;
use model::layout::fence::{self as layout, found};

/// What is recorded of an access that would leave the partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'g> {
    /// The number of the access.
    pub(super) site: u32,
    /// The predicate under which it executes.
    pub(super) guard: Option<&'g str>,
    /// The address may lie in another space, of which nothing is recorded.
    pub(super) is_generic: bool,
}

/// Declares the record, which is the first variable of the module.
pub(super) fn declare(out: &mut String) {
    let name = found::VARIABLE;
    crate::patch::put(
        out,
        format_args!("\n.global .align 8 .b8 {name}[{}];", found::BYTES),
    );
}

/// Declarations, and what is loaded once, at the top of a body.
pub(super) fn head(out: &mut String) {
    line!(out, ".reg .pred {}, {};", R::OUTSIDE, R::RECORDED);
    line!(out, ".reg .b64 {}, {}, {};", R::BASE, R::SIZE, R::FOUND);
    for (to, at) in [
        (R::BASE, layout::BASE),
        (R::SIZE, layout::SIZE),
        (R::FOUND, layout::VARIABLES),
    ] {
        line!(out, "ld.const.b64 {to}, [{}+{at}];", layout::VARIABLE);
    }
}

/// An address that is looked at: from the register `from` to `to`, with its lowest
/// bits cleared.
pub(super) fn global(from: &str, to: &str, alignment: u32, found: Found<'_>, out: &mut String) {
    let (outside, recorded, other) = (R::OUTSIDE, R::RECORDED, R::OTHER);
    line!(out, "mov.b64 {to}, {from};");
    line!(out, "sub.s64 {other}, {to}, {};", R::BASE);
    line!(out, "setp.ge.u64 {outside}, {other}, {};", R::SIZE);
    match found.guard {
        None => line!(out, "setp.ge.u64 {recorded}, {other}, {};", R::SIZE),
        Some(guard) => line!(
            out,
            "setp.ge.and.u64 {recorded}, {other}, {}, {guard};",
            R::SIZE
        ),
    }
    line!(out, "selp.b64 {to}, {}, {to}, {outside};", R::BASE);
    if alignment > 1 {
        line!(out, "and.b64 {to}, {to}, -{alignment};");
    }
    if found.is_generic {
        line!(out, "isspacep.global {outside}, {from};");
        line!(out, "and.pred {recorded}, {recorded}, {outside};");
    }
    record(from, found.site, out);
}

/// Counts, and keeps the first site with its address.
fn record(address: &str, site: u32, out: &mut String) {
    let (recorded, other, to) = (R::RECORDED, R::OTHER, R::FOUND);
    line!(
        out,
        "@{recorded} red.global.add.u64 [{to}+{}], 1;",
        found::COUNT
    );
    line!(
        out,
        "@{recorded} atom.global.cas.b64 {other}, [{to}+{}], 0, {site};",
        found::SITE
    );
    line!(out, "setp.eq.and.u64 {recorded}, {other}, 0, {recorded};");
    line!(
        out,
        "@{recorded} st.global.u64 [{to}+{}], {address};",
        found::ADDRESS
    );
}
