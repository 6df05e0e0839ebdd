//! Grids that synchronize find their barrier through a parameter.
//!
//! `cooperative_groups` reads the address of a grid's barrier from two special
//! registers, which the driver sets where a launch is cooperative; its memory is
//! the driver's own, out of reach of a tenant's kernels. So a kernel gets the
//! address as a last parameter, [`WORKSPACE`], which the host adds to those of the
//! program: that of memory in the partition, or 0 where a launch is not
//! cooperative, as the driver says it.
//!
//! ```text
//! mov.u32 r, %envreg1;   =>   ld.param.u32 r, [WORKSPACE+4];     the upper half
//! mov.u32 r, %envreg2;   =>   ld.param.u32 r, [WORKSPACE];       the lower half
//! ```
//!
//! A function that is not inlined has no such parameter. It reads a copy in shared
//! memory, which each thread of its kernel has written first.

use super::super::refuse::Refusals;
use analysis::end_of_declarations;
use model::layout::fence::WORKSPACE;
use ptx::{Edits, Function, Instruction, Mnemonic, Module};

/// The copy in shared memory.
const COPY: &str = "__ringfence_workspace_of_block";

/// A register of the kernels that write the copy.
const REGISTER: &str = "%__ringfence_workspace";

/// The halves of the address, by register: the bytes before each.
const HALVES: [(&str, u32); 2] = [("%envreg1", 4), ("%envreg2", 0)];

/// Gives the kernels of a module the parameter, if they or their functions read it.
pub(super) fn pass(module: &Module<'_>, _: &mut Refusals<'_>) -> Option<String> {
    if !module.source.contains("%envreg") {
        return None;
    }
    let defined = || module.functions().filter(|f| f.body.is_some());
    let reads = |function: &Function<'_>| {
        function
            .instructions()
            .any(|i| read(i, module.source).is_some())
    };
    let has_copy = defined().any(|function| !function.is_entry && reads(function));
    let mut edits = Edits::new();
    for function in defined() {
        let is_reader = reads(function);
        if function.is_entry && (is_reader || has_copy) {
            parameter(function, &mut edits);
        }
        if function.is_entry && has_copy {
            write_copy(function, &mut edits);
        }
        let (space, name) = match function.is_entry {
            true => ("param", WORKSPACE),
            false => ("shared", COPY),
        };
        for instruction in function.instructions().filter(|_| is_reader) {
            let Some((to, before)) = read(instruction, module.source) else {
                continue;
            };
            let span = instruction.span;
            let guard = instruction.guard.map(|guard| {
                let not = if guard.negated { "!" } else { "" };
                format!("@{not}{} ", guard.register)
            });
            let guard = guard.unwrap_or_default();
            let text = format!("{guard}ld.{space}.u32 {to}, [{name}+{before}];");
            edits.replace(span, super::with_lines(text, span.text(module.source)));
        }
    }
    if has_copy {
        let end = super::end_of_header(module)?;
        edits.insert(end, format!(" .shared .align 8 .b8 {COPY}[8];"));
    }
    (!edits.is_empty()).then(|| edits.apply(module.source))
}

/// Of an instruction that reads half of the address: where to, and the bytes before
/// that half.
fn read<'a>(instruction: &Instruction<'_>, source: &'a str) -> Option<(&'a str, u32)> {
    let opcode = &instruction.opcode;
    let is_word = opcode.types().all(|ty| ty.bytes() == 4);
    if opcode.mnemonic() != Mnemonic::Mov || !is_word {
        return None;
    }
    let [to, from] = &instruction.operands[..] else {
        return None;
    };
    let from = from.span.text(source);
    let (_, before) = HALVES.iter().find(|(register, _)| *register == from)?;
    Some((to.span.text(source), *before))
}

/// Adds the parameter behind those of the program.
fn parameter(function: &Function<'_>, edits: &mut Edits) {
    let own = format!(".param .u64 {WORKSPACE}");
    let Some(list) = function.parameter_list else {
        return edits.insert(function.name_span.end, format!("({own})"));
    };
    match function.parameters.last() {
        Some(last) => edits.insert(last.span.end, format!(", {own}")),
        None => edits.insert(list.start + 1, own),
    }
}

/// Has each thread of a kernel write the copy before anything else.
fn write_copy(function: &Function<'_>, edits: &mut Edits) {
    let Some(body) = &function.body else { return };
    let start = body.span.start + 1;
    edits.insert(start, format!(" .reg .b64 {REGISTER};"));
    edits.insert(
        end_of_declarations(function).unwrap_or(start),
        format!(" ld.param.u64 {REGISTER}, [{WORKSPACE}]; st.shared.u64 [{COPY}], {REGISTER};"),
    );
}
