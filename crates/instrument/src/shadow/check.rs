//! The comparison of one group of accesses with shadow memory, in line.
//!
//! `v` is the shadow byte of the block that holds the last byte, and `l` the
//! offset of that byte in it. For blocks of 128 bytes the access is outside
//! exactly if `v <= l`; for blocks of 256 exactly if `v < max(l, 1)`, unless
//! `v` and `l` are both zero: one byte alone has no value, and is looked up. An
//! access that may begin in the block before is also outside if it does and
//! that block is not addressable as a whole.

use crate::patch::line;
use crate::protocol::register::{
    BYTE, BYTE2, COVERED, FIRST_PIECE, LAST, OFFSET, OTHER, PIECE, PIECES, PLACED_PIECE,
    PLACED_PIECES, SCRATCH, SCRATCH2, WEAK_BASE, WEAK_SIZE,
};
use crate::protocol::{BLOCKS, LABEL_PREFIX, LOOKUP};
use model::layout::LAUNCH_PARAMETER;
use model::layout::shadow::{Encoding, SHADOW_BASE, SHADOW_WINDOW};
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
        if self.bytes > self.encoding.block() {
            return Form::Many;
        }
        let (alignment, first) = self.first();
        match first.saturating_add(self.bytes) <= alignment {
            true => Form::One,
            false => Form::Two,
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

/// Declares the registers of checks, and reads which pieces are covered: from this
/// place in the launch parameter, else from memory.
pub(crate) fn declare(place: Option<u64>, out: &mut String) {
    line!(out, ".reg .pred {COVERED};");
    line!(
        out,
        ".reg .b32 {BYTE}, {BYTE2}, {LAST}, {PIECE}, {FIRST_PIECE}, {PIECES}, {PLACED_PIECE}, {PLACED_PIECES};"
    );
    let (space, base, at) = match place {
        Some(at) => ("param", LAUNCH_PARAMETER, at),
        None => {
            line!(out, "mov.b64 {SCRATCH}, {SHADOW_WINDOW};");
            ("global", SCRATCH, 0)
        }
    };
    line!(out, "ld.{space}.b32 {FIRST_PIECE}, [{base}+{at}];");
    line!(out, "ld.{space}.b32 {PIECES}, [{base}+{}];", at + 4);
    line!(out, "ld.{space}.b32 {PLACED_PIECES}, [{base}+{}];", at + 8);
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
    let has_two = checked.form() == Form::Two;
    let may_be_single = encoding == Encoding::Block256 && checked.may_end_in_first_byte();
    let first = at(pointer, checked.low, OFFSET, out);
    let (last, byte) = match has_two {
        true => {
            load(encoding, &first, BYTE, out);
            let less = checked.bytes as i64 - 1;
            line!(out, "add.s64 {SCRATCH2}, {first}, {less};");
            load(encoding, SCRATCH2, BYTE2, out);
            (SCRATCH2, BYTE2)
        }
        false => {
            load(encoding, &first, BYTE, out);
            (first.as_str(), BYTE)
        }
    };
    let (block, whole) = (encoding.block(), encoding.whole());
    line!(out, "cvt.u32.u64 {LAST}, {first};");
    line!(out, "and.b32 {LAST}, {LAST}, {};", block - 1);
    if checked.bytes > 1 {
        line!(out, "add.s32 {LAST}, {LAST}, {};", checked.bytes - 1);
    }
    if has_two {
        line!(out, "setp.ge.u32 {OTHER}, {LAST}, {block};");
        line!(out, "setp.ne.and.u32 {OTHER}, {BYTE}, {whole}, {OTHER};");
        line!(out, "and.b32 {LAST}, {LAST}, {};", block - 1);
    }
    let compare = match encoding {
        Encoding::Block128 => "le",
        Encoding::Block256 => {
            if may_be_single {
                single(last, byte, label, out);
            }
            "lt"
        }
    };
    if has_two {
        line!(
            out,
            "setp.{compare}.or.u32 {outside}, {byte}, {LAST}, {OTHER};"
        );
        if let Some(guard) = guard {
            outside_only(outside, guard.register, guard.negated, out);
        }
        return;
    }
    match guard {
        Some(guard) => line!(
            out,
            "setp.{compare}.and.u32 {outside}, {byte}, {LAST}, {}{};",
            if guard.negated { "!" } else { "" },
            guard.register
        ),
        None => line!(out, "setp.{compare}.u32 {outside}, {byte}, {LAST};"),
    }
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

/// Loads the shadow byte of an address, where there is one; else it is that of a
/// whole block. (Without that value the register would keep the one before, and
/// the loads of several checks could not overlap.)
fn load(encoding: Encoding, address: &str, into: &str, out: &mut String) {
    line!(
        out,
        "shr.u64 {SCRATCH}, {address}, {};",
        encoding.piece_shift()
    );
    line!(out, "cvt.u32.u64 {PIECE}, {SCRATCH};");
    line!(
        out,
        "sub.s32 {PLACED_PIECE}, {PIECE}, {};",
        encoding.first_placed()
    );
    line!(out, "sub.s32 {PIECE}, {PIECE}, {FIRST_PIECE};");
    line!(out, "setp.lt.u32 {COVERED}, {PIECE}, {PIECES};");
    line!(
        out,
        "setp.lt.or.u32 {COVERED}, {PLACED_PIECE}, {PLACED_PIECES}, {COVERED};"
    );
    line!(out, "shr.u64 {SCRATCH}, {address}, {};", encoding.shift());
    line!(out, "add.s64 {SCRATCH}, {SCRATCH}, {SHADOW_BASE};");
    line!(out, "mov.b32 {into}, {};", encoding.whole());
    line!(out, "@{COVERED} ld.global.u8 {into}, [{SCRATCH}];");
}

/// If the last byte is the first of a block without a value, it may be the only
/// one that is addressable.
fn single(last: &str, byte: &str, label: u32, out: &mut String) {
    line!(out, "or.b32 {PIECE}, {byte}, {LAST};");
    line!(out, "setp.ne.u32 {COVERED}, {PIECE}, 0;");
    line!(out, "@{COVERED} bra {LABEL_PREFIX}single{label};");
    line!(out, "{{");
    line!(out, ".param .b64 __ringfence_0;");
    line!(out, ".param .align 8 .b8 __ringfence_1[16];");
    line!(out, "st.param.b64 [__ringfence_0], {last};");
    line!(out, "call (__ringfence_1), {LOOKUP}, (__ringfence_0);");
    line!(out, "ld.param.b64 {WEAK_BASE}, [__ringfence_1];");
    line!(out, "ld.param.b64 {WEAK_SIZE}, [__ringfence_1+8];");
    line!(out, "}}");
    line!(out, "sub.s64 {SCRATCH}, {last}, {WEAK_BASE};");
    line!(out, "setp.lt.u64 {COVERED}, {SCRATCH}, {WEAK_SIZE};");
    line!(out, "selp.b32 {byte}, 1, 0, {COVERED};");
    line!(out, "{LABEL_PREFIX}single{label}:");
    line!(out, "max.u32 {LAST}, {LAST}, 1;");
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
