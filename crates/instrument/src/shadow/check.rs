//! The comparison of one group of accesses with shadow memory, in line.
//!
//! `l` is the offset of the last byte in the block that the first one is in, and
//! `v` the shadow byte of that block. The last byte may lie in the next block; then
//! `l` is a block or more, and if `v` says that its block is addressable as a whole,
//! `v` is replaced by the bytes of a block plus the shadow byte of the next one.
//!
//! So one comparison decides, whether or not the next block is used: for blocks of 8
//! and 128 bytes the access is outside exactly if `v <= l`; for blocks of 256 exactly
//! if `v < l`, unless the last byte is the first of its block. Then it is outside if
//! `v < l + 1`, but one byte alone has no value, and is looked up.
//!
//! Blocks of the device heap have no shadow: they may be smaller than a block of it. In
//! modules that allocate or free, a check of an address there looks up the block that
//! holds it.
//!
//! Only the first byte's unit is compared with what is covered: the shadow byte
//! behind a covered one is mapped (`model::layout::shadow`).

use crate::patch::line;
use crate::protocol::register::{
    BYTE, BYTE2, COVERED, FIRST_UNIT, HIGH, LAST, LOW, OFFSET, OTHER, PLACED_UNIT, PLACED_UNITS,
    POISONED, SCRATCH, UNIT, UNITS, WEAK_BASE, WEAK_SIZE,
};
use crate::protocol::{BLOCKS, LABEL_PREFIX, LOOKUP};
use model::layout::LAUNCH_PARAMETER;
use model::layout::heap::{HEAP_BASE, HEAP_RESERVED};
use model::layout::placed::PLACED_BASE;
use model::layout::shadow::{Encoding, SHADOW_BASE, SHADOW_WINDOW, UNIT_SHIFT};
use ptx::Guard;
use std::fmt::Display;

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) encoding: Encoding,
    /// Offset of the first byte from the pointer.
    pub(crate) low: i64,
    /// Bytes from there on, at least one.
    pub(crate) bytes: u64,
    /// The pointer plus `.1` is a multiple of `.0`, a power of two, or the access
    /// faults.
    pub(crate) alignment: (u64, i64),
    /// It may be in a block of the device heap.
    pub(crate) asks_heap: bool,
}

/// How many blocks an access may touch, which is the form of its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All bytes are in one block.
    One,
    /// Two at most.
    Two,
    /// Any number.
    Many,
}

impl Checked {
    /// The form that the check has.
    pub(crate) fn form(&self) -> Form {
        let (alignment, first) = self.first();
        let end = first.saturating_add(self.bytes);
        // The first byte lies at most a block less the alignment behind that.
        match end {
            end if end <= alignment => Form::One,
            end if end <= alignment + self.encoding.block() => Form::Two,
            _ => Form::Many,
        }
    }

    /// Whether the last byte may be the first of its block.
    pub(crate) fn may_end_in_first_byte(&self) -> bool {
        let (alignment, first) = self.first();
        (first + self.bytes - 1).is_multiple_of(alignment)
    }

    /// A power of two, at most a block, and the first byte's address modulo it.
    fn first(&self) -> (u64, u64) {
        let (alignment, at) = self.alignment;
        let alignment = alignment.clamp(1, self.encoding.block());
        let first = self.low.wrapping_sub(at) as u64 & (alignment - 1);
        (alignment, first)
    }
}

/// Declares the registers of checks, and reads which units are covered: from this
/// place in the launch parameter, else from memory.
///
/// `is_ahead`: loops are checked before they begin; then whether there is poison is read, too.
pub(crate) fn declare(place: Option<u64>, is_ahead: bool, out: &mut String) {
    line!(out, ".reg .pred {COVERED};");
    line!(
        out,
        ".reg .b32 {BYTE}, {BYTE2}, {LAST}, {LOW}, {HIGH}, {UNIT}, {FIRST_UNIT}, {UNITS}, {PLACED_UNIT}, {PLACED_UNITS};"
    );
    if is_ahead {
        line!(out, ".reg .b32 {POISONED};");
    }
    let (space, base, at) = match place {
        Some(at) => ("param", LAUNCH_PARAMETER, at),
        None => {
            line!(out, "mov.b64 {SCRATCH}, {SHADOW_WINDOW};");
            ("global", SCRATCH, 0)
        }
    };
    line!(out, "ld.{space}.b32 {FIRST_UNIT}, [{base}+{at}];");
    line!(out, "ld.{space}.b32 {UNITS}, [{base}+{}];", at + 4);
    line!(out, "ld.{space}.b32 {PLACED_UNITS}, [{base}+{}];", at + 8);
    if is_ahead {
        line!(out, "ld.{space}.b32 {POISONED}, [{base}+{}];", at + 12);
    }
}

/// Sets `outside` where a byte of the access is not addressable, under its
/// guard. In the form for any number of blocks, use [`call`]. `label`: a number
/// of its own.
pub(crate) fn check(
    checked: &Checked,
    pointer: &dyn Display,
    guard: Option<Guard<'_>>,
    outside: &dyn Display,
    label: u32,
    out: &mut String,
) {
    let encoding = checked.encoding;
    let form = checked.form();
    let may_be_single = !encoding.tells_all() && checked.may_end_in_first_byte();
    let first = at(pointer, checked.low, OFFSET, out);
    load(encoding, &first, form, out);
    line!(out, "and.b32 {LAST}, {LOW}, {};", encoding.block() - 1);
    let less = checked.bytes - 1;
    if less > 0 {
        line!(out, "add.s32 {LAST}, {LAST}, {less};");
    }
    if form == Form::Two {
        line!(out, "setp.eq.u32 {OTHER}, {BYTE}, {};", encoding.whole());
        line!(
            out,
            "@{OTHER} add.s32 {BYTE}, {BYTE2}, {};",
            encoding.block()
        );
    }
    if may_be_single {
        single(&first, less, label, out);
    }
    let compare = match encoding.tells_all() {
        true => "le",
        false => "lt",
    };
    match guard {
        Some(guard) => line!(
            out,
            "setp.{compare}.and.u32 {outside}, {BYTE}, {LAST}, {}{};",
            if guard.negated { "!" } else { "" },
            guard.register
        ),
        None => line!(out, "setp.{compare}.u32 {outside}, {BYTE}, {LAST};"),
    }
    if checked.asks_heap {
        or_in_heap(checked, pointer, guard, outside, label, out);
    }
}

/// Replaces the verdict about an address of the device heap.
fn or_in_heap(
    checked: &Checked,
    pointer: &dyn Display,
    guard: Option<Guard<'_>>,
    outside: &dyn Display,
    label: u32,
    out: &mut String,
) {
    let (below, units) = heap_units();
    line!(out, "add.s32 {PLACED_UNIT}, {PLACED_UNIT}, {below};");
    line!(out, "setp.ge.u32 {COVERED}, {PLACED_UNIT}, {units};");
    line!(out, "@{COVERED} bra {LABEL_PREFIX}elsewhere{label};");
    call(pointer, checked.low, &checked.bytes, outside, out);
    if let Some(guard) = guard {
        outside_only(outside, guard.register, guard.negated, out);
    }
    line!(out, "{LABEL_PREFIX}elsewhere{label}:");
}

/// How many units the device heap begins before placed allocations, and how many it has.
const fn heap_units() -> (u64, u64) {
    (
        (PLACED_BASE - HEAP_BASE) >> UNIT_SHIFT,
        HEAP_RESERVED >> UNIT_SHIFT,
    )
}

/// Clears a verdict where `predicate` is false (or, if negated, where it is
/// true).
pub(crate) fn outside_only(
    outside: &dyn Display,
    predicate: &str,
    negated: bool,
    out: &mut String,
) {
    if negated {
        line!(out, "not.pred {OTHER}, {predicate};");
        line!(out, "and.pred {outside}, {outside}, {OTHER};");
    } else {
        line!(out, "and.pred {outside}, {outside}, {predicate};");
    }
}

/// A pointer plus a constant, as a register.
fn at(pointer: &dyn Display, low: i64, into: &str, out: &mut String) -> String {
    if low == 0 {
        return pointer.to_string();
    }
    line!(out, "add.s64 {into}, {pointer}, {low};");
    into.to_owned()
}

/// Loads the shadow byte of an address, where there is one; else it is a value
/// that lets all pass. (Without that value the register would keep the one
/// before, and the loads of several checks could not overlap.) With that of the
/// next block, which then is 0 where there is none.
///
/// The halves of addresses are shifted alone: `prmt` takes the bytes that are
/// wanted, and the shadow's base with them.
fn load(encoding: Encoding, address: &str, form: Form, out: &mut String) {
    line!(out, "mov.b64 {{{LOW}, {HIGH}}}, {address};");
    line!(out, "prmt.b32 {UNIT}, {LOW}, {HIGH}, {};", 0x5432);
    let placed = PLACED_BASE >> UNIT_SHIFT;
    line!(out, "sub.s32 {PLACED_UNIT}, {UNIT}, {placed};");
    line!(out, "sub.s32 {UNIT}, {UNIT}, {FIRST_UNIT};");
    line!(out, "setp.lt.u32 {COVERED}, {UNIT}, {UNITS};");
    line!(
        out,
        "setp.lt.or.u32 {COVERED}, {PLACED_UNIT}, {PLACED_UNITS}, {COVERED};"
    );
    let base = SHADOW_BASE >> 32;
    match encoding {
        Encoding::Block256 => {
            line!(out, "prmt.b32 {UNIT}, {LOW}, {HIGH}, {};", 0x4321);
            line!(out, "prmt.b32 {HIGH}, {HIGH}, {base}, {};", 0x7651);
        }
        Encoding::Block8 | Encoding::Block128 => {
            line!(out, "and.b32 {HIGH}, {HIGH}, {};", 0xffff);
            let shift = encoding.shift();
            line!(out, "shf.r.wrap.b32 {UNIT}, {LOW}, {HIGH}, {shift};");
            line!(out, "shr.u32 {HIGH}, {HIGH}, {shift};");
            line!(out, "add.s32 {HIGH}, {HIGH}, {base};");
        }
    }
    line!(out, "mov.b64 {SCRATCH}, {{{UNIT}, {HIGH}}};");
    let none = match form {
        Form::Two => 2 * encoding.block(),
        Form::One | Form::Many => encoding.whole().into(),
    };
    line!(out, "mov.b32 {BYTE}, {none};");
    line!(out, "@{COVERED} ld.global.u8 {BYTE}, [{SCRATCH}];");
    if form == Form::Two {
        line!(out, "mov.b32 {BYTE2}, 0;");
        line!(out, "@{COVERED} ld.global.u8 {BYTE2}, [{SCRATCH}+1];");
    }
}

/// If the last byte is the first of a block, it may be the only one there that is
/// addressable: a block with one has the same value as one with none.
fn single(first: &str, less: u64, label: u32, out: &mut String) {
    line!(out, "and.b32 {UNIT}, {LAST}, 255;");
    line!(out, "setp.ne.u32 {COVERED}, {UNIT}, 0;");
    line!(out, "@{COVERED} bra {LABEL_PREFIX}single{label};");
    line!(out, "add.s32 {LAST}, {LAST}, 1;");
    line!(out, "setp.ge.u32 {COVERED}, {BYTE}, {LAST};");
    line!(out, "@{COVERED} bra {LABEL_PREFIX}single{label};");
    line!(out, "add.s64 {SCRATCH}, {first}, {less};");
    line!(out, "{{");
    line!(out, ".param .b64 __ringfence_0;");
    line!(out, ".param .align 8 .b8 __ringfence_1[16];");
    line!(out, "st.param.b64 [__ringfence_0], {SCRATCH};");
    line!(out, "call (__ringfence_1), {LOOKUP}, (__ringfence_0);");
    line!(out, "ld.param.b64 {WEAK_BASE}, [__ringfence_1];");
    line!(out, "ld.param.b64 {WEAK_SIZE}, [__ringfence_1+8];");
    line!(out, "}}");
    line!(out, "sub.s64 {SCRATCH}, {SCRATCH}, {WEAK_BASE};");
    line!(out, "setp.lt.u64 {COVERED}, {SCRATCH}, {WEAK_SIZE};");
    line!(out, "@{COVERED} add.s32 {BYTE}, {BYTE}, 1;");
    line!(out, "{LABEL_PREFIX}single{label}:");
}

/// Sets `outside` where one of so many bytes is not addressable; `bytes` is a
/// register or a constant.
pub(crate) fn call(
    pointer: &dyn Display,
    low: i64,
    bytes: &dyn Display,
    outside: &dyn Display,
    out: &mut String,
) {
    let first = at(pointer, low, OFFSET, out);
    line!(out, "{{");
    line!(out, ".param .b64 __ringfence_0, __ringfence_1;");
    line!(out, ".param .b32 __ringfence_2;");
    line!(out, "st.param.b64 [__ringfence_0], {first};");
    line!(out, "st.param.b64 [__ringfence_1], {bytes};");
    line!(
        out,
        "call (__ringfence_2), {BLOCKS}, (__ringfence_0, __ringfence_1);"
    );
    line!(out, "ld.param.b32 {BYTE}, [__ringfence_2];");
    line!(out, "}}");
    line!(out, "setp.ne.u32 {outside}, {BYTE}, 0;");
}
