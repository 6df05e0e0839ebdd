//! Which instructions may be executed once more, and then do what they would have done.
//!
//! Where most addresses are expected in buffers whose bounds are known, a check of each
//! costs less if it only notes the others: the instructions run with every access left out
//! that is not in its buffer, and if there was one, they run again, with the checks that
//! decide about it (`bounds::again`). Nothing is left of the first run but registers, which
//! the second one writes anew: the instructions change no memory, depend on no other lane,
//! and read no register that they write later.

use analysis::{Analysis, Register, Role};
use ptx::table::{Convergence, Effect, Space};
use ptx::{Mnemonic, Modifier};
use rustc_hash::FxHashSet;

/// Instructions of one block that may be executed once more, from the first on.
pub(crate) struct Repeatable<'x, 'm, 'a> {
    analysis: &'x Analysis<'m, 'a>,
    first: usize,
    next: usize,
    /// Registers that were read before they were written, and those that were written.
    read: FxHashSet<Register>,
    written: FxHashSet<Register>,
}

impl<'x, 'm, 'a> Repeatable<'x, 'm, 'a> {
    /// No instructions yet; `first` is the first that is added.
    pub(crate) fn from(analysis: &'x Analysis<'m, 'a>, first: usize) -> Self {
        Repeatable {
            analysis,
            first,
            next: first,
            read: FxHashSet::default(),
            written: FxHashSet::default(),
        }
    }

    /// Adds the next instruction. Whether all that were added may be executed once more; if
    /// not, nothing may be added any more.
    pub(crate) fn takes_next(&mut self) -> bool {
        let index = self.next;
        self.next += 1;
        let (code, cfg) = (&self.analysis.code, &self.analysis.cfg);
        let block = |index: usize| cfg.block_of.get(index);
        let goes_on = index == self.first
            || block(index) == block(index - 1)
                && code.instructions[index].scope == code.instructions[index - 1].scope;
        if index >= code.instructions.len() || !goes_on || !only_computes(self.analysis, index) {
            return false;
        }
        let guard = code.instructions[index].instruction.guard;
        let registers = || {
            let references = code.references_of(index).iter();
            references
                .filter_map(|reference| Some((reference.referent.register()?, reference.role)))
        };
        for (register, role) in registers() {
            let is_read = match role {
                Role::Read | Role::Address | Role::Guard => true,
                // The register keeps its value where the guard is false.
                Role::Write => guard.is_some(),
                Role::Unknown => return false,
            };
            if is_read && !self.written.contains(&register) {
                self.read.insert(register);
            }
        }
        for (register, role) in registers() {
            if role == Role::Write {
                if self.read.contains(&register) {
                    return false;
                }
                self.written.insert(register);
            }
        }
        true
    }
}

/// Whether an instruction does nothing but write registers, as its operands and memory say.
fn only_computes(analysis: &Analysis<'_, '_>, index: usize) -> bool {
    const ORDERS: [Modifier; 4] = [
        Modifier::Volatile,
        Modifier::Relaxed,
        Modifier::Acquire,
        Modifier::Mmio,
    ];
    let code = &analysis.code;
    let opcode = &code.instructions[index].instruction.opcode;
    match opcode.mnemonic() {
        // (It says which lanes are here.)
        Mnemonic::Activemask => false,
        Mnemonic::Ld => {
            let is_ordered = ORDERS.iter().any(|order| opcode.has(*order));
            let info = code.info(index);
            !is_ordered
                && info.is_some_and(|info| {
                    info.convergence == Convergence::None
                        && info.accesses.iter().all(|access| {
                            access.effect == Effect::Read && access.space != Space::Param
                        })
                })
        }
        mnemonic => mnemonic.is_plain(),
    }
}
