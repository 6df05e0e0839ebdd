//! Where values go: the other direction of [`Ssa`].

use crate::code::{Code, ValueId};
use crate::roles::Role;
use crate::ssa::{Definition, Ssa};

/// A use of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// An instruction reads it.
    Read {
        /// Index of the instruction.
        instruction: u32,
        /// Index of the [`crate::Reference`] that reads it.
        reference: u32,
    },
    /// It is an argument of this phi.
    Argument(ValueId),
    /// It is what this value is where the instruction that makes it does not
    /// execute.
    Kept(ValueId),
}

/// The uses of all values of a function.
#[derive(Debug)]
pub(crate) struct Uses {
    /// For each value, one past the last of its uses.
    ends: Vec<u32>,
    uses: Vec<Use>,
}

impl Uses {
    pub(crate) fn of(code: &Code<'_, '_>, ssa: &Ssa) -> Uses {
        let mut starts = vec![0; ssa.values.len() + 1];
        each(code, ssa, |value, _| starts[value.0 as usize + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let count = starts[ssa.values.len()] as usize;
        let mut uses = vec![Use::Kept(ValueId::NONE); count];
        each(code, ssa, |value, of| {
            let next = &mut starts[value.0 as usize];
            uses[*next as usize] = of;
            *next += 1;
        });
        // Each start has moved to where its uses end.
        starts.truncate(ssa.values.len());
        Uses { ends: starts, uses }
    }

    pub(crate) fn of_value(&self, value: ValueId) -> &[Use] {
        let at = value.0 as usize;
        let Some(&end) = self.ends.get(at) else {
            return &[];
        };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.uses[start as usize..end as usize]
    }
}

/// Visits each use, those by instructions first.
fn each(code: &Code<'_, '_>, ssa: &Ssa, mut visit: impl FnMut(ValueId, Use)) {
    for (instruction, inst) in code.instructions.iter().enumerate() {
        for place in inst.references.0..inst.references.1 {
            let reference = &code.references[place as usize];
            let is_read = matches!(reference.role, Role::Read | Role::Address | Role::Guard);
            if is_read && reference.value != ValueId::NONE {
                let read = Use::Read {
                    instruction: instruction as u32,
                    reference: place,
                };
                visit(reference.value, read);
            }
        }
    }
    for (id, value) in ssa.values.iter().enumerate() {
        let id = ValueId(id as u32);
        if let Definition::Instruction { old: Some(old), .. } = value.definition {
            visit(old, Use::Kept(id));
        }
        for &argument in ssa.phi_arguments(id) {
            if argument != ValueId::NONE {
                visit(argument, Use::Argument(id));
            }
        }
    }
}
