//! Instructions in which threads meet: barriers, and exchanges between the lanes
//! of a warp.
//!
//! They access nothing, but what they are given in registers may be what the
//! device has no answer to, and ends the context: a mask of lanes without the lane
//! that executes the instruction. (PTX ISA, 9.7.13: "the behavior is undefined if the
//! executing thread is not in the membermask".) It is forced into the mask, which
//! changes nothing where it is there. Barriers of a block are all the first one, and
//! for all of its threads (`lower::barriers`).

use super::text;
use crate::patch::{Patch, put};
use ptx::table::{Convergence, Info};
use ptx::{Instruction, Mnemonic, Modifier, OperandKind};

/// Forces the operands of an instruction; false if it has none that must be.
/// `active` is a register that holds the lanes which execute it.
///
/// # Errors
///
/// A constant is not allowed, or an operand is not understood.
pub(super) fn bound(
    instruction: &Instruction<'_>,
    info: &Info,
    active: Option<&str>,
    patch: &mut Patch,
) -> Result<bool, String> {
    let opcode = &instruction.opcode;
    if info.convergence != Convergence::Mask {
        let is_barrier = matches!(opcode.mnemonic(), Mnemonic::Bar | Mnemonic::Barrier);
        return match !is_barrier || opcode.has(Modifier::Cluster) || is_of_all(instruction) {
            true => Ok(false),
            false => Err("its operands are not understood".to_owned()),
        };
    }
    let mask = instruction.operands.last();
    let mask = mask.ok_or("it has no mask of lanes")?;
    let mut before = String::new();
    let own = match &mask.kind {
        OperandKind::Integer(lanes) if *lanes as u32 == u32::MAX => return Ok(false),
        OperandKind::Name(from) if active == Some(*from) => return Ok(false),
        OperandKind::Name(from) => text::lanes(from, &mut before),
        OperandKind::Integer(lanes) => text::lanes(&format!("{}", *lanes as u32), &mut before),
        _ => return Err("its mask of lanes is not understood".to_owned()),
    };
    patch.insert(instruction.span.start, |out| {
        put(out, format_args!("{before}"));
    });
    patch.edit(mask.span.start, mask.span.end, |out| out.push_str(own));
    Ok(true)
}

/// Whether a barrier is the first one, for all threads of the block.
fn is_of_all(instruction: &Instruction<'_>) -> bool {
    let is_reduction = instruction.opcode.has(Modifier::Red);
    match &instruction.operands[..] {
        [id] if !is_reduction => matches!(id.kind, OperandKind::Integer(0)),
        _ => false,
    }
}

/// The register that holds the lanes which execute what follows, up to the next
/// label, branch or call: that of an `activemask` that all of them executed.
#[derive(Default)]
pub(super) struct Active<'a> {
    register: Option<&'a str>,
    /// Scopes around it.
    depth: usize,
}

impl<'a> Active<'a> {
    pub(super) fn get(&self) -> Option<&'a str> {
        self.register
    }

    /// What follows is in so many scopes. In another one, the name may be that of
    /// another register.
    pub(super) fn enter(&mut self, depth: usize) {
        if depth != self.depth {
            *self = Active {
                register: None,
                depth,
            };
        }
    }

    /// Others may come to what follows.
    pub(super) fn forget(&mut self) {
        self.register = None;
    }

    /// Takes in an instruction, after it was rewritten.
    pub(super) fn executed(&mut self, instruction: &Instruction<'a>) {
        let info = ptx::table::classify(instruction);
        if info.is_none_or(|info| info.is_control || info.convergence == Convergence::Block) {
            return self.forget();
        }
        let written = super::shared::written(instruction);
        if self
            .register
            .is_some_and(|register| written.contains(&register))
        {
            self.forget();
        }
        let is_it = instruction.opcode.mnemonic() == Mnemonic::Activemask;
        if let (true, None, [register]) = (is_it, instruction.guard, &written[..]) {
            self.register = Some(*register);
        }
    }
}
