//! This pass redirects calls of device-side `malloc` and `free` to Ringfence's
//! heap (`device/heap.cu`), which knows the exact bounds and the lifetime of
//! each block. It changes nothing else in a function.
//!
//! Unchecked kernels are redirected, too. A block may be allocated by one
//! kernel and freed by another, so either all calls of a module use one heap,
//! or none does.

use crate::patch::{Patch, line};
use crate::protocol::{FREE, HEAP_LAUNCH, HEAP_PLACE, MALLOC};
use crate::sites::{NewSite, Sites};
use analysis::Code;
use model::{AccessKind, Provenance, SiteId, Space};
use ptx::{Function, Instruction, Item, Mnemonic, Module, OperandKind, Span};

/// One call of `malloc` or `free`.
pub(crate) struct HeapCall {
    /// Index of the instruction.
    pub(crate) instruction: u32,
    allocates: bool,
    callee: Span,
    /// Where further arguments go.
    arguments_end: u32,
    site: SiteId,
}

fn call(instruction: &Instruction<'_>) -> Option<(bool, Span, u32)> {
    if instruction.opcode.mnemonic() != Mnemonic::Call {
        return None;
    }
    let at = instruction
        .operands
        .iter()
        .position(|operand| matches!(operand.kind, OperandKind::Name(_)))?;
    let callee = &instruction.operands[at];
    let allocates = match callee.kind {
        OperandKind::Name("malloc") => true,
        OperandKind::Name("free") => false,
        _ => return None,
    };
    let arguments = instruction.operands.get(at + 1)?;
    match &arguments.kind {
        OperandKind::List(list) if list.len() == 1 => {
            Some((allocates, callee.span, arguments.span.end - 1))
        }
        _ => None,
    }
}

/// Whether the module's calls are redirected. The heap needs the atomics of
/// sm_70; and a function whose address is taken may be called from anywhere.
pub(crate) fn applies(module: &Module<'_>) -> bool {
    declares(module)
        && module.architecture() >= 70
        && module.version >= (6, 2)
        && !is_mentioned_otherwise(module)
}

/// Whether the module declares the driver's `malloc` or `free`.
pub(crate) fn declares(module: &Module<'_>) -> bool {
    module.items.iter().any(|item| match item {
        Item::Function(function) => function.body.is_none() && is_name(function.name),
        _ => false,
    })
}

fn is_name(name: &str) -> bool {
    matches!(name, "malloc" | "free")
}

fn is_mentioned_otherwise(module: &Module<'_>) -> bool {
    let other = |instruction: &Instruction<'_>| {
        call(instruction).is_none()
            && instruction.operands.iter().any(|operand| {
                matches!(operand.kind, OperandKind::Name(name) | OperandKind::NameOffset(name, _) if is_name(name))
            })
    };
    let in_code = |function: &Function<'_>| {
        is_name(function.name) && function.body.is_some()
            || function.statements().any(|(_, statement)| {
                matches!(statement, ptx::Statement::Instruction(instruction) if other(instruction))
            })
    };
    let is_word = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '$' | '%');
    module.items.iter().any(|item| match item {
        Item::Function(function) => in_code(function),
        Item::Variable(variable) => variable
            .span
            .text(module.source)
            .split(is_word)
            .any(is_name),
        _ => false,
    })
}

/// Whether code of the module may free blocks.
pub(crate) fn frees(module: &Module<'_>) -> bool {
    let is_free = |item: &Item<'_>| matches!(item, Item::Function(f) if f.name == "free");
    module.items.iter().any(is_free)
}

/// Whether a block whose bounds this thread has loaded may have been freed when
/// an instruction is done: by the function that it calls, or by other threads
/// before a barrier. (Without a barrier, a use in one thread and a free in
/// another are not ordered; the use is then checked against the earlier
/// bounds.)
pub(crate) fn may_free(instruction: &Instruction<'_>) -> bool {
    match instruction.opcode.mnemonic() {
        Mnemonic::Bar | Mnemonic::Barrier => true,
        Mnemonic::Call => !instruction.operands.iter().any(|operand| {
            matches!(
                operand.kind,
                OperandKind::Name("malloc" | "vprintf" | "__assertfail")
            )
        }),
        _ => false,
    }
}

/// The calls of one function, each with a site.
pub(crate) fn calls(code: &Code<'_, '_>, sites: &mut Sites<'_>) -> Vec<HeapCall> {
    let mut calls = Vec::new();
    for (index, inst) in code.instructions.iter().enumerate() {
        let Some((allocates, callee, arguments_end)) = call(inst.instruction) else {
            continue;
        };
        let site = sites.add(NewSite {
            function: code.function.name,
            kind: if allocates {
                AccessKind::Read
            } else {
                AccessKind::Write
            },
            space: Space::Generic,
            width: 0,
            width_at_run_time: false,
            offset: 0,
            is_wide: false,
            alignment: 1,
            skipped: 0,
            provenance: Provenance::Lookup,
            object: None,
            loc: inst.loc,
            span: inst.instruction.span,
        });
        calls.push(HeapCall {
            instruction: index as u32,
            allocates,
            callee,
            arguments_end,
            site,
        });
    }
    calls
}

/// Redirects one call. `launch`: a register that holds the launch's number.
pub(crate) fn redirect(
    call: &HeapCall,
    tag: u64,
    before: u32,
    launch: Option<&dyn Fn(&mut String) -> &'static str>,
    patch: &mut Patch,
) {
    let site = call.site.0;
    patch.insert(before, |out| {
        let number = match launch {
            Some(load) => load(out),
            None => "0",
        };
        let place = tag << 32 | u64::from(site);
        line!(out, ".param .b64 {HEAP_PLACE}{site}, {HEAP_LAUNCH}{site};");
        line!(out, "st.param.b64 [{HEAP_PLACE}{site}], {place};");
        line!(out, "st.param.b64 [{HEAP_LAUNCH}{site}], {number};");
    });
    patch.edit(call.callee.start, call.callee.end, |out| {
        out.push_str(if call.allocates { MALLOC } else { FREE });
    });
    patch.insert(call.arguments_end, |out| {
        crate::patch::put(
            out,
            format_args!(", {HEAP_PLACE}{site}, {HEAP_LAUNCH}{site}"),
        );
    });
}
