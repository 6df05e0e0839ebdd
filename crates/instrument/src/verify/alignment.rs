//! Verifies that each access is aligned. Either the computation of its address
//! shows it, or its verdict ensures it: the verdict tests the address, or its
//! limit is zero if a pointer of the parameters is not aligned.

use super::checks::{Input, State, Text, integer, is_shared_limit, name};
use super::statements::{Matched, Piece};
use super::verdicts::Verdict;
use analysis::SymbolSpace;
use ptx::table::Access;
use ptx::{Instruction, OperandKind, Statement};
use rustc_hash::FxHashMap;

/// `address + at`, of which so many low bytes are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tested {
    address: Text,
    at: i64,
    bytes: u64,
}

impl Tested {
    pub(super) fn of(address: Text, at: i64, bytes: u64) -> Self {
        Tested { address, at, bytes }
    }
}

/// What is known of alignment while check code is followed.
#[derive(Default)]
pub(super) struct Alignments {
    /// What `%__rf_x` holds.
    low: Option<Tested>,
    /// By limit register: a parameter by name and offset, what is added to it,
    /// and the alignment without which the limit is zero.
    limits: FxHashMap<Text, (Text, i64, Tested)>,
}

/// Follows the limits that depend on pointers, each of which has one meaning
/// wherever it is computed.
pub(super) fn limits(matched: &[Matched<'_, '_>]) -> Alignments {
    let mut alignments = Alignments::default();
    let mut pointer: Option<(Text, i64, Tested)> = None;
    let mut is_compared = false;
    for piece in matched {
        let Matched::Added(Piece::Statement(Statement::Instruction(instruction))) = piece else {
            pointer = None;
            continue;
        };
        let first = name(instruction, 0).unwrap_or("");
        let repeats = name(instruction, 1) == Some("%__rf_u");
        match (instruction.opcode.text, first, &mut pointer) {
            _ if instruction.guard.is_some() => pointer = None,
            ("ld.param.b64", "%__rf_u", _) => {
                is_compared = false;
                pointer = match instruction.operands.get(1).map(|o| &o.kind) {
                    Some(OperandKind::Address(address)) => address.base.map(|base| {
                        let nothing = Tested {
                            address: first.to_owned(),
                            at: 0,
                            bytes: 1,
                        };
                        (base.to_owned(), address.offset, nothing)
                    }),
                    _ => None,
                };
            }
            ("add.s64", "%__rf_u", Some((.., sum))) if repeats && sum.bytes == 1 => {
                sum.at = sum.at.wrapping_add(integer(instruction, 2).unwrap_or(0));
            }
            ("and.b64", "%__rf_u", Some((.., sum))) if repeats && sum.bytes == 1 => {
                sum.bytes = mask(instruction).unwrap_or(1);
            }
            ("setp.ne.s64", "%__rf_r", Some(_)) if repeats => {
                is_compared = integer(instruction, 2) == Some(0);
            }
            ("selp.b64", limit, Some(known))
                if is_compared
                    && is_shared_limit(limit)
                    && integer(instruction, 1) == Some(0)
                    && name(instruction, 2) == Some(limit)
                    && name(instruction, 3) == Some("%__rf_r") =>
            {
                alignments.limits.insert(limit.to_owned(), known.clone());
            }
            _ => pointer = None,
        }
    }
    alignments
}

/// The alignment whose low bits a mask keeps.
fn mask(instruction: &Instruction<'_>) -> Option<u64> {
    let bytes = u64::try_from(integer(instruction, 2)?)
        .ok()?
        .checked_add(1)?;
    bytes.is_power_of_two().then_some(bytes)
}

impl Alignments {
    /// The alignment that a verdict sees to.
    pub(super) fn of(&self, verdict: &Verdict) -> Option<u64> {
        let limit = verdict
            .limit
            .as_ref()
            .and_then(|limit| self.limits.get(limit));
        let by_limit = limit.map(|(.., tested)| tested.bytes);
        verdict
            .tested
            .as_ref()
            .map(|tested| tested.bytes)
            .or(by_limit)
    }

    /// Notes how a limit that the host computes depends on a pointer: a parameter, bytes
    /// into it, what is added, and the alignment of the sum.
    pub(super) fn loaded(&mut self, limit: &str, pointer: Option<(&str, i64, i64, u64)>) {
        self.limits.remove(limit);
        if let Some((name, offset, at, bytes)) = pointer {
            let tested = Tested {
                address: name.to_owned(),
                at,
                bytes,
            };
            self.limits
                .insert(limit.to_owned(), (name.to_owned(), offset, tested));
        }
    }

    /// Of each limit that depends on a pointer: the parameter, bytes into it,
    /// what is added, and the alignment of the sum.
    pub(super) fn pointers(&self) -> FxHashMap<Text, (Text, i64, i64, u64)> {
        let limits = self.limits.iter();
        let pointers = limits.map(|(register, (name, offset, tested))| {
            let pointer = (name.clone(), *offset, tested.at, tested.bytes);
            (register.clone(), pointer)
        });
        pointers.collect()
    }
}

impl State {
    /// Follows check code that tests an address. Whether it does.
    pub(super) fn alignment_code(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        match (instruction.opcode.text, first) {
            _ if instruction.guard.is_some() => false,
            ("cvt.u32.u64" | "add.s32" | "and.b32", "%__rf_x") => {
                let own = name(instruction, 1) == Some("%__rf_x");
                let mut low = match self.alignments.low.take().filter(|_| own) {
                    Some(low) if low.bytes == 1 => low,
                    None if !own => Tested {
                        address: self.copied(self.text(instruction, 1)),
                        at: 0,
                        bytes: 1,
                    },
                    _ => return true,
                };
                match instruction.opcode.text {
                    "add.s32" => match integer(instruction, 2) {
                        Some(at) => low.at = low.at.wrapping_add(at),
                        None => return true,
                    },
                    "and.b32" => match mask(instruction) {
                        Some(bytes) => low.bytes = bytes,
                        None => return true,
                    },
                    _ => {}
                }
                self.alignments.low = Some(low);
                true
            }
            ("setp.ne.or.u32", predicate) if name(instruction, 1) == Some("%__rf_x") => {
                let same = name(instruction, 3) == Some(predicate);
                let low = self.alignments.low.clone();
                match self.verdicts.get_mut(predicate).filter(|v| v.is_open()) {
                    Some(verdict) if same && integer(instruction, 2) == Some(0) => {
                        verdict.tested = low;
                    }
                    _ => drop(self.verdicts.remove(predicate)),
                }
                true
            }
            _ => false,
        }
    }

    /// A program's instruction may change what was tested.
    pub(super) fn forget_low_bits(&mut self) {
        self.alignments.low = None;
    }

    /// Whether an access whose operand adds `at` is aligned where the verdict
    /// finds it in bounds.
    pub(super) fn is_aligned(
        &self,
        verdict: &Verdict,
        (at, index): (i64, usize),
        access: &Access,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        let bytes = u64::from(access.alignment);
        if bytes == 1 {
            return true;
        }
        let low = input.analysis.low_bits(index as u32, access.operand);
        let residue = low
            .modulo(bytes)
            .map(|rest| rest.wrapping_add(at as u64) & (bytes - 1));
        if low.parameter.is_none() && residue == Some(0) {
            return true;
        }
        let agrees = |tested: &Tested, at: u64| {
            (0..tested.bytes as i64).contains(&tested.at)
                && tested.bytes.is_multiple_of(bytes)
                && at.wrapping_sub(tested.at as u64) & (bytes - 1) == 0
        };
        if let Some(tested) = &verdict.tested
            && tested.address == verdict.distance.pointer
            && agrees(tested, at as u64)
        {
            return true;
        }
        let (Some(parameter), Some(residue)) = (low.parameter, residue) else {
            return false;
        };
        let by_limit = verdict.limit.as_ref();
        by_limit
            .and_then(|limit| self.alignments.limits.get(limit))
            .is_some_and(|(name, offset, tested)| {
                place(name, *offset, input) == Some(parameter) && agrees(tested, residue)
            })
    }
}

/// Where bytes of a parameter are among all parameters.
fn place(name: &str, offset: i64, input: &Input<'_, '_, '_>) -> Option<u32> {
    let symbols = &input.analysis.code.symbols;
    let start = symbols.iter().find_map(|symbol| match symbol.space {
        SymbolSpace::EntryParameter { offset, .. } | SymbolSpace::Argument { offset }
            if symbol.name == name =>
        {
            Some(offset)
        }
        _ => None,
    })?;
    start.checked_add(u32::try_from(offset).ok()?)
}
