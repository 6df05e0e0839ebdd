//! Finds calls of the module's own functions whose arguments and results can
//! carry bounds.
//!
//! The ABI has one form of call, which every compiler writes: stores of the
//! arguments, the call, loads of the result, with nothing between them. A call
//! in any other form is not changed. Its callee may then be entered without
//! bounds, so it is checked in place as well.

use super::indirect::Through;
use super::plan::Call;
use crate::parameters::{self, ParameterSlot};
use analysis::{Analysis, Referent, Role, Signature, Stored, SymbolId, ValueId, stores};
use ptx::{Function, Instruction, Mnemonic, Modifier, OperandKind, Span, VariableSpace};

/// A call in the form of the ABI.
#[derive(Debug)]
pub(super) struct Sequence {
    /// Index of the callee.
    pub(super) callee: usize,
    /// Its position; its bounds are not known yet.
    pub(super) call: Call,
    /// The arguments of eight bytes, by place among the callee's parameters.
    pub(super) arguments: Vec<(u32, Stored)>,
    /// The parts of the result of eight bytes, by place in it.
    pub(super) results: Vec<(u32, ValueId)>,
    /// Only the loads of the sequence read the result.
    pub(super) is_result_followed: bool,
}

/// How often a body mentions each symbol.
pub(super) fn mentions(analysis: &Analysis<'_, '_>) -> Vec<u32> {
    let mut counts = vec![0; analysis.code.symbols.len()];
    for reference in &analysis.code.references {
        if let Referent::Symbol(symbol, _) = reference.referent {
            counts[symbol.0 as usize] += 1;
        }
    }
    counts
}

/// The sequence of the call at `index` of a function with these parameters; for
/// a call through a pointer, of any function of its class.
pub(super) fn sequence(
    analysis: &Analysis<'_, '_>,
    mentions: &[u32],
    index: usize,
    (callee, function): (usize, &Function<'_>),
    class: Option<(u32, &Signature)>,
) -> Option<Sequence> {
    let code = &analysis.code;
    let instruction = code.instructions[index].instruction;
    let (place, behind, through) = match class {
        None => (instruction.called_function()?.0, 0, None),
        Some((class, signature)) => {
            let (place, _) = instruction.called_pointer()?;
            let through = Through {
                class,
                signature: signature.clone(),
                register: instruction.operands[place].span,
                prototype: instruction.operands.last()?.span,
            };
            (place, 1, Some(through))
        }
    };
    let by_memory = function.parameters.iter().chain(&function.returns);
    if function.returns.len() > 1
        || by_memory
            .into_iter()
            .any(|p| p.space != VariableSpace::Param)
    {
        return None;
    }
    let own = instruction.operands.len() - behind;
    let (returned, argument_at) = argument_list(instruction, place, behind)?;
    if returned != function.parameters.len() || returned > usize::from(u8::MAX) || own > place + 2 {
        return None;
    }
    let symbol = |operand: usize, element: usize| passed_symbol(analysis, index, operand, element);
    let mut passed: Vec<SymbolId> = Vec::with_capacity(returned);
    for element in 0..returned {
        passed.push(symbol(place + 1, element)?);
    }
    let result = match (place, function.returns.first()) {
        (0, None) => None,
        (1, Some(returned)) => match &instruction.operands[0].kind {
            OperandKind::List(list) if list.len() == 1 => {
                Some((symbol(0, 0)?, list[0].span, returned))
            }
            _ => return None,
        },
        _ => return None,
    };

    let (first, arguments) = stored_before(analysis, index, function, &passed);
    let (loads, results) = match result {
        Some((symbol, ..)) => loaded_behind(analysis, index, symbol),
        None => (Vec::new(), Vec::new()),
    };
    let is_result_followed =
        result.is_some_and(|(symbol, ..)| mentions[symbol.0 as usize] as usize == loads.len() + 1);
    Some(Sequence {
        callee,
        call: Call {
            instruction: index as u32,
            first: first as u32,
            name_at: instruction.operands[place].span.start,
            through,
            takes_called: false,
            argument_at,
            passed: Vec::new(),
            result: result.map(|(_, span, _)| span),
            result_bytes: 0,
            result_alignment: result.map_or(8, |(_, _, returned)| returned.alignment().max(8)),
            loads,
        },
        arguments,
        results,
        is_result_followed,
    })
}

/// How many arguments the call of the function at an operand has, the position
/// for one more, and the text before and after it.
fn argument_list(
    instruction: &Instruction<'_>,
    place: usize,
    behind: usize,
) -> Option<(usize, (u32, &'static str, &'static str))> {
    let own = instruction.operands.len() - behind;
    let callee_end = instruction.operands[place].span.end;
    Some(match instruction.operands[..own].get(place + 1) {
        None if behind > 0 => (0, (callee_end, ", (", ")")),
        None => (0, (callee_end, "(", ")")),
        Some(operand) => match &operand.kind {
            OperandKind::List(list) => {
                let comma = if list.is_empty() { "" } else { ", " };
                (list.len(), (operand.span.end - 1, comma, ""))
            }
            _ => return None,
        },
    })
}

/// The symbol that a call names in a list.
fn passed_symbol(
    analysis: &Analysis<'_, '_>,
    index: usize,
    operand: usize,
    element: usize,
) -> Option<SymbolId> {
    let mut references = analysis.code.references_of(index).iter();
    references.find_map(|r| {
        let here = usize::from(r.operand) == operand && usize::from(r.element) == element;
        match r.referent {
            Referent::Symbol(symbol, 0) if here => Some(symbol),
            _ => None,
        }
    })
}

/// The first of the stores for a call, and the arguments of eight bytes, by
/// place among the parameters.
fn stored_before(
    analysis: &Analysis<'_, '_>,
    index: usize,
    function: &Function<'_>,
    passed: &[SymbolId],
) -> (usize, Vec<(u32, Stored)>) {
    let (slots, _) = parameters::layout(function);
    let mut first = index;
    let mut arguments = Vec::new();
    while let Some(before) = first.checked_sub(1) {
        let Some((symbol, pieces)) = stores(analysis, before, index) else {
            break;
        };
        let Some(slot) = passed.iter().position(|&p| p == symbol) else {
            break;
        };
        let ParameterSlot { offset, .. } = slots[slot];
        arguments.extend(pieces.into_iter().filter_map(|piece| {
            let at = u32::try_from(piece.offset).ok()?;
            Some((offset.checked_add(at)?, piece.stored?))
        }));
        first = before;
    }
    (first, arguments)
}

/// A load of a call's result, and the place of the result's name in it.
type NamedLoad = (u32, Span);

/// A place in a result, and the value that is read from it.
type ReadAt = (u32, ValueId);

/// The loads of a call's result, with the places of its name in them, and the
/// values of eight bytes, by place in the result.
fn loaded_behind(
    analysis: &Analysis<'_, '_>,
    index: usize,
    symbol: SymbolId,
) -> (Vec<NamedLoad>, Vec<ReadAt>) {
    let mut loads = Vec::new();
    let mut results = Vec::new();
    let mut after = index + 1;
    while let Some((span, values)) = loads_of(analysis, after, index, symbol) {
        loads.push((after as u32, span));
        results.extend(values);
        after += 1;
    }
    (loads, results)
}

/// The place of the name in a `ld.param` of a call's result, and the values of
/// eight bytes that it loads.
fn loads_of(
    analysis: &Analysis<'_, '_>,
    at: usize,
    index: usize,
    result: SymbolId,
) -> Option<(Span, Vec<(u32, ValueId)>)> {
    let code = &analysis.code;
    let instruction = code.instructions.get(at)?.instruction;
    if analysis.cfg.block_of[at] != analysis.cfg.block_of[index]
        || instruction.opcode.mnemonic() != Mnemonic::Ld
        || !is_of_parameters(instruction)
        || instruction.guard.is_some()
    {
        return None;
    }
    let references = code.references_of(at);
    let (operand, offset) = references.iter().find_map(|r| match r.referent {
        Referent::Symbol(symbol, offset) if r.role == Role::Address && symbol == result => {
            Some((r.operand, offset))
        }
        _ => None,
    })?;
    let OperandKind::Address(address) = &instruction.operands[usize::from(operand)].kind else {
        return None;
    };
    let bytes = instruction.opcode.types().last()?.bytes();
    let values = references
        .iter()
        .filter(|r| bytes == 8 && r.role == Role::Write && matches!(r.referent, Referent::Wide(_)))
        .filter_map(|r| {
            let at = u32::try_from(offset).ok()? + u32::from(r.element) * 8;
            Some((at, r.value))
        });
    Some((address.base_span, values.collect()))
}

fn is_of_parameters(instruction: &Instruction<'_>) -> bool {
    let spaces = [Modifier::Param, Modifier::ParamFunc];
    instruction.opcode.has_any(&spaces)
}
