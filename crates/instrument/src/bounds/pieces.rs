//! Pieces of check code that depend on nothing but their operands.

use super::plan::Group;
use super::text::*;
use crate::patch::line;
use crate::protocol::{LOOKUP, STILL};
use model::layout::{READ_SINK, WRITE_SINK};
use ptx::{Guard, OperandKind};

/// Where a group's accesses go when they are outside: an address that keeps
/// the alignment of every member.
pub(super) fn sink(group: &Group) -> u64 {
    let start = if group.writes { WRITE_SINK } else { READ_SINK };
    let (alignment, at) = group.alignment;
    let slack = group.low.wrapping_sub(at).rem_euclid(alignment as i64);
    start
        .wrapping_sub(group.low as u64)
        .wrapping_add(slack as u64)
}

/// `limit = max(size, less) - less`
pub(super) fn limit(into: Op<'_>, size: Op<'_>, less: u64, out: &mut String) {
    line!(out, "max.u64 {into}, {size}, {less};");
    line!(out, "sub.s64 {into}, {into}, {less};");
}

/// The operand itself if it is a register, else `scratch`, set to it.
pub(super) fn reg<'a>(operand: Op<'a>, scratch: Op<'a>, out: &mut String) -> Op<'a> {
    match operand {
        Op::Constant(value) => {
            line!(out, "mov.b64 {scratch}, {value};");
            scratch
        }
        register => register,
    }
}

/// The name that an operand is.
pub(super) fn operand_name<'a>(
    instruction: &ptx::Instruction<'a>,
    operand: usize,
) -> Option<&'a str> {
    match instruction.operands.get(operand)?.kind {
        OperandKind::Name(name) => Some(name),
        _ => None,
    }
}

/// Clears the verdict where `predicate` is false (or, if negated, where it is
/// true).
pub(super) fn outside_only(outside: Op<'_>, predicate: &str, negated: bool, out: &mut String) {
    crate::shadow::outside_only(&outside, predicate, negated, out);
}

/// Looks up `pointer` under `guard`. Where the guard is false, the results keep
/// their values. Control flow does not diverge.
pub(super) fn lookup(
    pointer: Op<'_>,
    guard: Option<Guard<'_>>,
    base: Op<'_>,
    size: Op<'_>,
    out: &mut String,
) {
    lookup_in(pointer, guard, out);
    let under = Under(guard);
    line!(out, "{under}mov.b64 {base}, {WEAK_BASE};");
    line!(out, "{under}mov.b64 {size}, {WEAK_SIZE};");
}

/// Looks up `pointer`, or null where `guard` is false, into the scratch pair.
pub(super) fn lookup_in(pointer: Op<'_>, guard: Option<Guard<'_>>, out: &mut String) {
    let argument = match guard {
        None => pointer,
        Some(Guard {
            negated: false,
            register,
            ..
        }) => {
            line!(out, "selp.b64 {SCRATCH}, {pointer}, 0, {register};");
            SCRATCH
        }
        Some(Guard {
            negated: true,
            register,
            ..
        }) => {
            line!(out, "selp.b64 {SCRATCH}, 0, {pointer}, {register};");
            SCRATCH
        }
    };
    line!(out, "{{");
    line!(out, ".param .b64 __ringfence_0;");
    line!(out, ".param .align 8 .b8 __ringfence_1[16];");
    line!(out, "st.param.b64 [__ringfence_0], {argument};");
    line!(out, "call (__ringfence_1), {LOOKUP}, (__ringfence_0);");
    line!(out, "ld.param.b64 {WEAK_BASE}, [__ringfence_1];");
    line!(out, "ld.param.b64 {WEAK_SIZE}, [__ringfence_1+8];");
    line!(out, "}}");
}

/// `size`, or 0 if the block that `base` and `size` are bounds of was freed.
pub(super) fn still(base: Op<'_>, size: Op<'_>, out: &mut String) {
    line!(out, "{{");
    line!(
        out,
        ".param .b64 __ringfence_0, __ringfence_1, __ringfence_2;"
    );
    line!(out, "st.param.b64 [__ringfence_0], {base};");
    line!(out, "st.param.b64 [__ringfence_1], {size};");
    line!(
        out,
        "call (__ringfence_2), {STILL}, (__ringfence_0, __ringfence_1);"
    );
    line!(out, "ld.param.b64 {size}, [__ringfence_2];");
    line!(out, "}}");
}
