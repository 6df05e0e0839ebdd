//! The one variable that holds the frames of all functions of a thread.
//!
//! A pointer into a frame can be passed to a function that is called, and loaded
//! from memory. Nothing is known of it there. It may be forced into the variable
//! [`FRAMES`] of the thread's kernel, by a function that does not declare the
//! variable: its first parameter, the register [`STACK`], holds its address.
//!
//! # Why the parameter holds that address
//!
//! By induction over the calls of a thread, of which the first function is a
//! kernel:
//!
//! * A kernel has no such parameter. What is known there to be the address of
//!   [`FRAMES`] was moved from the name of a variable that this kernel declares,
//!   in the scope of its body, so that it exists as long as the thread. (Calls
//!   of kernels are refused.)
//! * Each call of a function that has the parameter passes a register that is
//!   known to hold that address (`calls`): moved from the name in a kernel, or
//!   from the caller's own parameter, for which this holds by induction.
//! * No instruction of a function writes its parameter, and nothing else has its
//!   name: `of` and `Body::declare`.
//!
//! All kernels declare the variable with the same bytes, so that a place inside
//! is one whichever kernel the thread runs; the least alignment counts. It is a
//! variable like any other of a frame: ptxas keeps return addresses and spilled
//! registers outside of it, so that writes to it change nothing but what the
//! program itself stored there.

use super::Errors;
use model::layout::fence::{FRAMES, STACK};
use ptx::{Function, Instruction, Module, OperandKind, Statement, VariableSpace};

/// Bytes of [`FRAMES`], and what its address is a multiple of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    pub(super) size: u64,
    pub(super) alignment: u32,
}

/// The variable as all kernels of a module declare it. Anything else of these
/// names is an error.
pub(super) fn of(module: &Module<'_>, errors: &mut Errors<'_>) -> Option<Frames> {
    let mut found: Option<Frames> = None;
    for variable in module.variables() {
        if variable.name == FRAMES || variable.name == STACK {
            errors.at(variable.span, "a name of frames at file scope");
        }
    }
    for function in module.functions() {
        let parameters = function.parameters.iter().chain(&function.returns);
        for (index, parameter) in parameters.enumerate() {
            let is_right = index == 0 && takes(function);
            if [FRAMES, STACK].contains(&parameter.name) && !is_right {
                errors.at(parameter.span, "a parameter with a name of frames");
            }
        }
        for (depth, statement) in function.statements() {
            let Statement::Variable(variable) = statement else {
                continue;
            };
            if variable.name != FRAMES {
                continue;
            }
            let is_place = function.is_entry && depth == 0;
            let size = match variable.size() {
                Some(size) if is_place && variable.space == VariableSpace::Local => size,
                _ => {
                    errors.at(variable.span, "frames that are not a kernel's variable");
                    continue;
                }
            };
            let alignment = variable.alignment().max(1);
            match &mut found {
                None => found = Some(Frames { size, alignment }),
                Some(frames) if frames.size == size => {
                    frames.alignment = frames.alignment.min(alignment);
                }
                Some(_) => errors.at(variable.span, "frames of another size"),
            }
        }
    }
    found
}

/// Whether a function gets the address of the frames.
pub(super) fn takes(function: &Function<'_>) -> bool {
    let Some(first) = function.parameters.first() else {
        return false;
    };
    !function.is_entry
        && first.name == STACK
        && first.space == VariableSpace::Reg
        && first.ty.bytes() == 8
        && first.vector == 1
        && first.range.is_none()
        && first.dimensions.is_empty()
}

/// The register that a call passes first, given the operand that names the
/// callee.
pub(super) fn passed<'a>(call: &Instruction<'a>, callee: usize) -> Option<&'a str> {
    let OperandKind::List(arguments) = &call.operands.get(callee + 1)?.kind else {
        return None;
    };
    match arguments.first()?.kind {
        OperandKind::Name(register) => Some(register),
        _ => None,
    }
}
