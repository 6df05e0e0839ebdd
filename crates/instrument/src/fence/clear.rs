//! What clears memory before its first use: the shared memory of a block, and
//! the frame of a function.

use super::looks;
use super::refuse::Refusals;
use super::text::Within;
use crate::patch::{Patch, line};
use model::layout::fence::{IS_LARGE, RESERVED_SHARED, VARIABLE};
use ptx::table::Space;
use ptx::{Statement, Variable, VariableSpace};

/// Bytes of a frame that are cleared without a loop.
const UNROLLED: u64 = 128;

/// Variables in local memory, in the order of the text: each is cleared in the
/// head of its body, or where it is declared, as long as nothing can have read it.
pub(super) struct Frames {
    head_at: u32,
    /// How many there were.
    number: usize,
    /// What is cleared in the head.
    pub(super) head: String,
    /// Something may have read them, or been skipped.
    is_late: bool,
}

impl Frames {
    pub(super) fn new(head_at: u32) -> Frames {
        Frames {
            head_at,
            number: 0,
            head: String::new(),
            is_late: false,
        }
    }

    /// Takes in a statement, before it is rewritten.
    pub(super) fn statement(
        &mut self,
        depth: usize,
        statement: &Statement<'_>,
        refusals: &mut Refusals<'_>,
        patch: &mut Patch,
    ) {
        match statement {
            Statement::Variable(v) if v.space == VariableSpace::Local => {
                self.variable(depth, v, refusals, patch);
            }
            Statement::Label(_) => self.is_late = true,
            Statement::Instruction(instruction) => {
                let reads = |info: &ptx::table::Info| {
                    let mut accesses = info.accesses.iter();
                    let is_there = |space| matches!(space, Space::Local | Space::Generic);
                    info.is_control || accesses.any(|access| is_there(access.space))
                };
                let info = ptx::table::classify(instruction);
                self.is_late |= info.is_none_or(|info| reads(&info));
            }
            _ => {}
        }
    }

    fn variable(
        &mut self,
        depth: usize,
        variable: &Variable<'_>,
        refusals: &mut Refusals<'_>,
        patch: &mut Patch,
    ) {
        let (number, name) = (self.number, variable.name);
        self.number += 1;
        match variable.size() {
            Some(size) if depth == 0 && !self.is_late => {
                let mut text = String::new();
                frame(
                    number,
                    Within { name, size },
                    variable.alignment(),
                    &mut text,
                );
                if variable.span.end <= self.head_at {
                    self.head.push_str(&text);
                } else {
                    patch.insert(variable.span.end, |out| {
                        out.push_str("\n\t");
                        out.push_str(&text);
                    });
                }
            }
            _ => {
                let reason = "a frame in a scope, behind code that may read it, or without a size";
                refusals.add(variable.span, reason);
            }
        }
    }
}

/// Clears a variable in local memory, the nth of its function.
fn frame(number: usize, within: Within<'_>, alignment: u32, out: &mut String) {
    let Within { name, size } = within;
    let width = u64::from(alignment.clamp(1, 8));
    let whole = size / width * width;
    if size > UNROLLED {
        line!(out, "mov.u64 %__rf_at, {name};");
        line!(out, "mov.u32 %__rf_left, {};", size / width);
        line!(out, "$__rf_frame{number}:");
        line!(out, "st.local.b{} [%__rf_at], 0;", 8 * width);
        line!(out, "add.s64 %__rf_at, %__rf_at, {width};");
        line!(out, "add.s32 %__rf_left, %__rf_left, -1;");
        line!(out, "setp.ne.s32 %__rf_due, %__rf_left, 0;");
        line!(out, "@%__rf_due bra $__rf_frame{number};");
    } else {
        for at in (0..whole).step_by(width as usize) {
            line!(out, "st.local.b{} [{name}+{at}], 0;", 8 * width);
        }
    }
    for at in whole..size {
        line!(out, "st.local.b8 [{name}+{at}], 0;");
    }
}

/// The head of a kernel: looks whether it must end if its grid may be large; and
/// clears shared memory if it accesses any.
///
/// Threads may look at different times. Where they clear, they agree at the
/// barrier: if one retires all do, so none goes on while another one has left
/// its bytes as they were.
pub(super) fn entry(clears: bool, out: &mut String) {
    line!(out, ".reg .b32 %__rf_c<8>;");
    line!(out, "ld.const.b32 %__rf_c0, [{VARIABLE}+{IS_LARGE}];");
    line!(out, "setp.ne.s32 %__rf_due, %__rf_c0, 0;");
    line!(out, "mov.u32 %__rf_word, 0;");
    line!(
        out,
        "@%__rf_due ld.volatile.global.u32 %__rf_word, [%__rf_stop];"
    );
    line!(out, "setp.ne.s32 %__rf_halt, %__rf_word, 0;");
    if clears {
        shared(out);
    }
    looks::retire(out);
}

/// Clears what the block has of shared memory, 16 bytes a thread and pass.
fn shared(out: &mut String) {
    // Without any there is nothing to agree on. (The test is the same for all.)
    line!(out, "mov.u32 %__rf_c7, %total_smem_size;");
    line!(out, "setp.eq.s32 %__rf_due, %__rf_c7, 0;");
    line!(out, "@%__rf_due bra $__rf_alone;");
    line!(
        out,
        "ld.const.b32 %__rf_c6, [{VARIABLE}+{RESERVED_SHARED}];"
    );
    line!(out, "add.s32 %__rf_c7, %__rf_c7, %__rf_c6;");
    line!(out, "@%__rf_halt bra $__rf_cleared;");
    for (number, register) in ["tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y", "ntid.z"]
        .into_iter()
        .enumerate()
    {
        line!(out, "mov.u32 %__rf_c{number}, %{register};");
    }
    line!(out, "mad.lo.s32 %__rf_c1, %__rf_c2, %__rf_c4, %__rf_c1;");
    line!(out, "mad.lo.s32 %__rf_c0, %__rf_c1, %__rf_c3, %__rf_c0;");
    line!(out, "mad.lo.s32 %__rf_c6, %__rf_c0, 16, %__rf_c6;");
    line!(out, "mul.lo.s32 %__rf_c3, %__rf_c3, %__rf_c4;");
    line!(out, "mul.lo.s32 %__rf_c3, %__rf_c3, %__rf_c5;");
    line!(out, "mul.lo.s32 %__rf_c3, %__rf_c3, 16;");
    line!(out, "mov.u32 %__rf_c0, 0;");
    out.push_str("$__rf_clear:\n\t");
    line!(out, "setp.ge.u32 %__rf_due, %__rf_c6, %__rf_c7;");
    line!(out, "@%__rf_due bra $__rf_cleared;");
    line!(
        out,
        "st.shared.v4.b32 [%__rf_c6], {{%__rf_c0, %__rf_c0, %__rf_c0, %__rf_c0}};"
    );
    line!(out, "add.s32 %__rf_c6, %__rf_c6, %__rf_c3;");
    line!(out, "bra $__rf_clear;");
    out.push_str("$__rf_cleared:\n\t");
    line!(out, "bar.red.or.pred %__rf_halt, 0, %__rf_halt;");
    out.push_str("$__rf_alone:\n\t");
}
