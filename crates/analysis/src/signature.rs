//! What functions take and return, as calls see it.

use crate::function::Analysis;
use ptx::{Function, Variable, VariableSpace};

/// One parameter as a call passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Passed {
    /// Bytes.
    pub bytes: u32,
    /// Bytes that its place is a multiple of.
    pub alignment: u32,
    /// It is declared as an array.
    pub is_array: bool,
}

impl Passed {
    fn of(variable: &Variable<'_>) -> Option<Self> {
        if variable.space != VariableSpace::Param || variable.vector > 1 {
            return None;
        }
        let passed = Passed {
            bytes: u32::try_from(variable.size()?).ok()?,
            alignment: variable.alignment().max(1),
            is_array: !variable.dimensions.is_empty(),
        };
        let is_scalar = matches!(passed.bytes, 1 | 2 | 4 | 8);
        (passed.is_array || is_scalar).then_some(passed)
    }

    /// Offsets and bytes of the pieces that it can be copied in.
    pub fn pieces(self) -> Vec<(u32, u32)> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < self.bytes {
            let mut piece = self.alignment.next_power_of_two().min(8);
            while piece > self.bytes - at || !at.is_multiple_of(piece) {
                piece /= 2;
            }
            pieces.push((at, piece));
            at += piece;
        }
        pieces
    }
}

/// The parameters and results of functions, as far as a call depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The parameters.
    pub takes: Vec<Passed>,
    /// The result.
    pub returns: Option<Passed>,
}

impl Signature {
    fn new(takes: &[Variable<'_>], returns: &[Variable<'_>]) -> Option<Self> {
        Some(Signature {
            takes: takes.iter().map(Passed::of).collect::<Option<_>>()?,
            returns: match returns {
                [] => None,
                [one] => Some(Passed::of(one)?),
                _ => return None,
            },
        })
    }

    /// Of a function; `None` if calls of it pass something in registers.
    pub fn of(function: &Function<'_>) -> Option<Self> {
        Self::new(&function.parameters, &function.returns)
    }

    /// Of what the instruction calls, which is a function that a register
    /// holds the address of.
    pub fn of_call(analysis: &Analysis<'_, '_>, index: usize, listed: &ListOf<'_>) -> Option<Self> {
        let code = &analysis.code;
        let (_, label) = code.instructions[index].instruction.called_pointer()?;
        if let Some(prototype) = code.call_prototype(index, label) {
            return Self::new(&prototype.parameters, &prototype.returns);
        }
        let targets = code.branch_targets(index, label)?;
        let mut signatures = targets.iter().map(|name| listed(name));
        let first = signatures.next()??;
        signatures
            .all(|other| other.as_ref() == Some(&first))
            .then_some(first)
    }

    /// Whether a pointer may be among what is passed and returned.
    pub fn may_hold_pointers(&self) -> bool {
        let mut all = self.takes.iter().chain(&self.returns);
        all.any(|passed| passed.bytes >= 8)
    }

    /// Bytes of the results.
    pub fn result_bytes(&self) -> u64 {
        self.returns.map_or(0, |returns| returns.bytes.into())
    }

    /// The place of a piece that the thunk copies of the result, if it is of
    /// eight bytes.
    pub fn piece_of_result(&self, number: usize) -> Option<u32> {
        let pieces = self.returns?.pieces();
        let &(at, bytes) = pieces.get(number)?;
        (bytes == 8).then_some(at)
    }
}

/// The signature of a function that the module lists by this name.
pub type ListOf<'x> = dyn Fn(&str) -> Option<Signature> + 'x;
