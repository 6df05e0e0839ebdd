//! The accesses in global memory of a function, for which pointers are sought that
//! are fenced where they are made.

use super::pointers::{GlobalAccess, Pointers};
use super::rewrite::{Body, Fence, Rewrite, ends_context};
use super::text::Accessed;
use analysis::{Referent, SymbolSpace};
use ptx::table::Convergence;
use ptx::{Mnemonic, OperandKind};

impl<'a> Rewrite<'_, '_, 'a> {
    /// The pointers of a function that are fenced where they are made.
    pub(super) fn pointers(&self, body: &Body<'_, '_, 'a>) -> Pointers<'a> {
        let code = &body.analysis.code;
        let mut accesses = Vec::new();
        for (index, inst) in code.instructions.iter().enumerate() {
            let Some(info) = ptx::table::classify(inst.instruction) else {
                return Pointers::default();
            };
            for (number, access) in info.accesses.iter().enumerate() {
                let kind = inst.instruction.operands.get(access.operand);
                let Some(OperandKind::Address(address)) = kind.map(|operand| &operand.kind) else {
                    continue;
                };
                let accessed = Accessed {
                    number,
                    bytes: 1,
                    has_span: false,
                    alignment: access.alignment,
                    may_be_local: false,
                };
                let fence = self.fence_of(body, index, access, address, (accessed, &info));
                if matches!(fence, Ok(Fence::Global)) {
                    accesses.push(GlobalAccess {
                        place: (index, access.operand),
                        offset: address.offset,
                        alignment: access.alignment,
                    });
                }
            }
        }
        let is_other = |index: usize| {
            let instruction = code.instructions[index].instruction;
            let mut references = code.references_of(index).iter();
            let info = ptx::table::classify(instruction);
            ends_context(instruction).is_some()
                || instruction.opcode.mnemonic() == Mnemonic::Brx
                || info.is_some_and(|info| info.convergence != Convergence::None)
                || references.any(|r| match r.referent {
                    Referent::Symbol(symbol, _) => {
                        code.symbols[symbol.0 as usize].space == SymbolSpace::Global
                    }
                    _ => false,
                })
        };
        let looks = self.looks.get(code.function.name);
        let ways = looks.map(|looks| looks.ways(code)).unwrap_or_default();
        Pointers::of(body.analysis, &accesses, is_other, ways)
    }
}

impl<'a> Body<'_, '_, 'a> {
    /// How an access in global memory by a register is fenced.
    pub(super) fn global(&self, base: &str) -> Fence<'a> {
        match self.pointers.near.get(base) {
            Some(near) => Fence::Near(*near),
            None => Fence::Global,
        }
    }
}
