//! What is known of the values of registers, from the instructions of fences.
//!
//! Values have numbers, so that two registers can be known to hold parts of the
//! same one. An instruction that is none of those listed makes a value of which
//! nothing is known.

use super::invariants::Invariants;
use super::lanes;
use super::reach::Between;
use super::variables::Variables;
use model::layout::fence as layout;
use ptx::{Guard, Instruction, OperandKind};
use rustc_hash::FxHashMap;

/// Number of a value within a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(u32);

/// A place that an address can be derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Local,
    Const,
    /// Parameters of a kernel.
    Param,
}

/// The rows of a matrix in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// The distance between them.
    pub(super) distance: Number,
    /// Bytes that one unit of it adds, and those of the last row.
    pub(super) step: u64,
    pub(super) last: u64,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Anything.
    Nothing,
    /// Words of the table.
    BaseHigh,
    MaskHigh,
    Base,
    Size,
    Reciprocal,
    /// Bytes of shared memory that the system reserves.
    Reserved,
    /// `%total_smem_size`.
    Total,
    /// `Reserved + Total`: one past the last byte of shared memory.
    End,
    /// A multiple of this: the low half of an address.
    Multiple(u32),
    /// `x & mask | base`, the upper half of an address.
    High,
    /// The upper half of this product: a value times the reciprocal.
    Quotient(Number),
    /// That, times the size.
    Product(Number),
    /// A value minus its quotient times the size: less than twice the size.
    Rest,
    /// That, less the size.
    RestLess(Number),
    /// Less than the size, and a multiple of this.
    Inside(u32),
    /// The value of this number minus the partition's base.
    Difference(Number),
    /// A predicate: where it does not hold, the value of this number is an address
    /// in the partition.
    Outside(Number),
    /// An address in the partition, a multiple of this.
    Address(u32),
    /// An address in the partition plus this; its multiple is that of the sum.
    Near(Between),
    /// 64 bits that are this as a signed integer.
    Offset(Between),
    /// No instruction was seen yet that makes it: only while invariants are
    /// guessed.
    Unseen,
    /// The address of the variable at this place of the table.
    Variable(usize),
    /// At least `Reserved`.
    AtLeastReserved,
    /// `End` less so many bytes.
    Limit(u64),
    /// An address in shared memory: of so many bytes that the block has, if the
    /// block has so many; a multiple of this. `is_generic`: as a generic address.
    Shared {
        bytes: u64,
        multiple: u32,
        is_generic: bool,
    },
    /// At most this, in 32 bits, and a multiple.
    Index {
        most: u64,
        multiple: u32,
    },
    /// The bytes of these rows.
    Span(Rows),
    /// `End` less so many bytes.
    LimitOf(Rows),
    /// A predicate: the block has so much shared memory, wherever it holds.
    RoomOf(Rows),
    /// As `Shared`, with as many bytes as the rows have.
    SharedOf {
        rows: Rows,
        multiple: u32,
        is_generic: bool,
    },
    /// A generic address: in the partition, or in shared memory with as many bytes as
    /// the rows have; a multiple.
    GenericOf {
        rows: Rows,
        multiple: u32,
    },
    /// The bit of the lane that executes it.
    OwnLane,
    /// A mask of lanes that holds that bit.
    WithOwnLane,
    /// A predicate: the block has so much shared memory, wherever it holds.
    Room(u64),
    /// A predicate: the block has so much shared memory, wherever it does not hold.
    Lack(u64),
    /// The address of the variable of this number, in its space.
    Start(usize),
    /// The address of the variable that holds all frames (`frames`).
    Frames,
    /// At most this, and a multiple.
    AtMost(u64, u32),
    /// An address inside a variable, with room for so many bytes; a multiple.
    InVariable {
        space: Space,
        room: u64,
        multiple: u32,
        is_generic: bool,
    },
    /// A generic address: in the partition, or in shared memory or a frame with
    /// room for so many bytes; a multiple.
    Generic {
        room: u64,
        multiple: u32,
        /// It may be in a frame.
        is_local: bool,
    },
}

/// The registers of a straight piece of code.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers<'a> {
    values: FxHashMap<&'a str, (Number, Known)>,
    /// What is computed in the head of the body, and never again.
    fixed: FxHashMap<&'a str, Known>,
    /// What a parameter holds that nothing writes.
    given: Option<(&'a str, Known)>,
    /// Bytes of shared memory that the block has, in this piece of code: threads
    /// of a block that has fewer have left.
    pub(super) room: u64,
    numbers: u32,
    /// What holds in any piece of code.
    pub(super) invariants: Invariants<'a>,
    /// The number of the instruction that is looked at.
    pub(super) here: u32,
}

impl<'a> Registers<'a> {
    /// What a register holds.
    pub(super) fn known(&self, name: &str) -> Known {
        match (self.values.get(name), self.fixed.get(name)) {
            (Some((_, known)), _) => *known,
            (None, Some(known)) => *known,
            (None, None) => {
                let known = self.invariants.known(name, self.here);
                known.unwrap_or(Known::Nothing)
            }
        }
    }

    /// The number of the value that a register has been given in this piece of code.
    pub(super) fn number(&self, name: &str) -> Option<Number> {
        self.values.get(name).map(|(number, _)| *number)
    }

    /// Something may have happened that is not seen here.
    pub(super) fn forget(&mut self) {
        self.values.clear();
        self.room = 0;
    }

    /// The body is looked at again from its beginning.
    pub(super) fn restart(&mut self) {
        self.forget();
        self.fixed.clear();
        self.fixed.extend(self.given);
        self.here = 0;
    }

    /// The register keeps its value through the whole body.
    pub(super) fn fix(&mut self, name: &'a str) {
        let known = self.known(name);
        self.fixed.insert(name, known);
    }

    /// The register holds this from the start, and no instruction writes it.
    pub(super) fn give(&mut self, name: &'a str, known: Known) {
        self.given = Some((name, known));
    }

    /// An instruction wrote a register.
    pub(super) fn set(&mut self, name: &'a str, known: Known) {
        self.numbers += 1;
        self.values.insert(name, (Number(self.numbers), known));
    }

    /// Threads under this guard have left.
    pub(super) fn leave(&mut self, guard: Option<Guard<'a>>) {
        let held = guard.filter(|guard| !guard.negated);
        if let Some(Known::Lack(bytes)) = held.map(|guard| self.known(guard.register)) {
            self.room = self.room.max(bytes);
        }
    }

    /// What an instruction without a guard makes of its destination.
    pub(super) fn result(&self, instruction: &Instruction<'a>, variables: &Variables<'a>) -> Known {
        let text: String = instruction
            .opcode
            .text
            .split_whitespace()
            .collect::<Vec<_>>()
            .concat();
        let kinds: Vec<&OperandKind<'a>> = instruction
            .operands
            .iter()
            .map(|operand| &operand.kind)
            .collect();
        let is_unseen = |kind: &&OperandKind<'a>| match kind {
            OperandKind::Name(name) => self.known(name) == Known::Unseen,
            _ => false,
        };
        if kinds.iter().skip(1).any(is_unseen) {
            return Known::Unseen;
        }
        self.of(&text, &kinds, variables).unwrap_or(Known::Nothing)
    }

    fn of(
        &self,
        opcode: &str,
        operands: &[&OperandKind<'a>],
        variables: &Variables<'a>,
    ) -> Option<Known> {
        lanes::result(opcode, operands, self)
            .or_else(|| constant(opcode, operands, variables))
            .or_else(|| self.by_mask(opcode, operands))
            .or_else(|| self.by_modulo(opcode, operands))
            .or_else(|| self.by_check(opcode, operands))
            .or_else(|| self.in_variable(opcode, operands, variables))
            .or_else(|| self.in_shared(opcode, operands))
            .or_else(|| self.generic(opcode, operands))
            .or_else(|| self.reach(opcode, operands))
    }

    /// Addresses in the partition, by the form that masks.
    fn by_mask(&self, opcode: &str, operands: &[&OperandKind<'a>]) -> Option<Known> {
        use OperandKind::{Integer, Name, Vector};
        match (opcode, operands) {
            ("and.b32", [_, Name(a), Integer(mask)]) => {
                let multiple = multiple_of(*mask)?;
                match self.known(a) {
                    // An address in shared memory: `in_shared`.
                    Known::Shared { .. } | Known::SharedOf { .. } => None,
                    _ => Some(Known::Multiple(multiple)),
                }
            }
            ("lop3.b32", [_, Name(_), Name(mask), Name(base), Integer(0xea)]) => {
                let is_right =
                    self.known(mask) == Known::MaskHigh && self.known(base) == Known::BaseHigh;
                is_right.then_some(Known::High)
            }
            ("mov.b64", [_, Vector(halves)]) => {
                let [low, high] = &halves[..] else {
                    return None;
                };
                let (Name(low), Name(high)) = (&low.kind, &high.kind) else {
                    return None;
                };
                match (self.known(high), self.known(low)) {
                    (_, Known::Unseen) => Some(Known::Unseen),
                    (Known::High, Known::Multiple(multiple)) => Some(Known::Address(multiple)),
                    (Known::High, _) => Some(Known::Address(1)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Addresses in the partition, by the form that takes remainders: with the
    /// reciprocal rounded down, the remainder is less than twice the size.
    fn by_modulo(&self, opcode: &str, operands: &[&OperandKind<'a>]) -> Option<Known> {
        use OperandKind::{Integer, Name};
        let (a, b) = match operands {
            [_, Name(a), Name(b)] => (a, b),
            [_, Name(a), Integer(mask)] if opcode == "and.b64" => {
                let multiple = multiple_of(*mask)?;
                return match self.known(a) {
                    Known::Inside(_) => Some(Known::Inside(multiple)),
                    _ => None,
                };
            }
            _ => return None,
        };
        match (opcode, self.known(a), self.known(b)) {
            ("mul.hi.u64", _, Known::Reciprocal) => Some(Known::Quotient(self.number(a)?)),
            ("mul.lo.s64", Known::Quotient(of), Known::Size) => Some(Known::Product(of)),
            ("sub.s64", _, Known::Product(of)) if self.number(a) == Some(of) => Some(Known::Rest),
            ("sub.s64", Known::Rest, Known::Size) => Some(Known::RestLess(self.number(a)?)),
            ("min.u64", Known::Rest, Known::RestLess(of)) if self.number(a) == Some(of) => {
                Some(Known::Inside(1))
            }
            // (A partition begins at a multiple of 2 MiB.)
            ("add.s64", Known::Inside(multiple), Known::Base) => Some(Known::Address(multiple)),
            _ => None,
        }
    }

    /// Addresses in the partition, by the form that compares: an address whose
    /// distance from the base is less than the size, or else the base.
    fn by_check(&self, opcode: &str, operands: &[&OperandKind<'a>]) -> Option<Known> {
        use OperandKind::Name;
        match (opcode, operands) {
            ("sub.s64", [_, Name(a), Name(b)]) if self.known(b) == Known::Base => {
                Some(Known::Difference(self.number(a)?))
            }
            ("setp.ge.u64", [_, Name(a), Name(b)]) => match (self.known(a), self.known(b)) {
                (Known::Difference(of), Known::Size) => Some(Known::Outside(of)),
                _ => None,
            },
            ("selp.b64", [_, Name(a), Name(b), Name(predicate)]) => {
                let Known::Outside(of) = self.known(predicate) else {
                    return None;
                };
                let is_right = self.known(a) == Known::Base && self.number(b) == Some(of);
                is_right.then_some(Known::Address(1))
            }
            _ => None,
        }
    }

    /// Addresses in a frame, a constant variable or a parameter; indices of jumps.
    fn in_variable(
        &self,
        opcode: &str,
        operands: &[&OperandKind<'a>],
        variables: &Variables<'a>,
    ) -> Option<Known> {
        use OperandKind::{Integer, Name};
        match (opcode, operands) {
            ("min.u32", [_, Name(a), Integer(most)]) => {
                let multiple = match self.known(a) {
                    Known::Multiple(multiple) if most % i64::from(multiple) == 0 => multiple,
                    _ => 1,
                };
                let most = u64::try_from(*most).ok()?;
                Some(Known::Index { most, multiple })
            }
            ("mad.lo.u32", [_, Name(a), Integer(step), Integer(last)]) => {
                let Known::Index { most, .. } = self.known(a) else {
                    return None;
                };
                let (step, last) = (u64::try_from(*step).ok()?, u64::try_from(*last).ok()?);
                let bytes = most.checked_mul(step)?.checked_add(last)?;
                // (Nothing is lost of the product.)
                (bytes <= layout::EXTENT).then_some(Known::Span(Rows {
                    distance: self.number(a)?,
                    step,
                    last,
                }))
            }
            ("min.u64", [_, Name(_), Integer(most)]) => {
                Some(Known::AtMost(u64::try_from(*most).ok()?, 1))
            }
            ("and.b64", [_, Name(a), Integer(mask)]) => {
                let multiple = multiple_of(*mask)?;
                match self.known(a) {
                    Known::AtMost(most, _) => Some(Known::AtMost(most, multiple)),
                    _ => None,
                }
            }
            ("add.s64", [_, Name(a), Name(b)]) => match (self.known(a), self.known(b)) {
                (Known::AtMost(most, multiple), Known::Start(number)) => {
                    let variable = variables.get(number)?;
                    Some(Known::InVariable {
                        space: variable.space,
                        room: variable.size.checked_sub(most)?,
                        multiple: multiple.min(variable.alignment),
                        is_generic: false,
                    })
                }
                (Known::AtMost(most, multiple), Known::Frames) => {
                    let frames = variables.frames?;
                    Some(Known::InVariable {
                        space: Space::Local,
                        room: frames.size.checked_sub(most)?,
                        multiple: multiple.min(frames.alignment),
                        is_generic: false,
                    })
                }
                _ => None,
            },
            ("mov.u64" | "mov.b64", [_, Name(a)]) if self.known(a) == Known::Frames => {
                Some(Known::Frames)
            }
            // Whichever of two variables it is.
            ("selp.b64", [_, Name(a), Name(b), Name(_)]) => match (self.known(a), self.known(b)) {
                (
                    Known::InVariable {
                        space,
                        room,
                        multiple,
                        is_generic: false,
                    },
                    Known::InVariable {
                        space: other_space,
                        room: other_room,
                        multiple: other_multiple,
                        is_generic: false,
                    },
                ) if space == other_space => Some(Known::InVariable {
                    space,
                    room: room.min(other_room),
                    multiple: multiple.min(other_multiple),
                    is_generic: false,
                }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Addresses in shared memory, and predicates that there is so much.
    fn in_shared(&self, opcode: &str, operands: &[&OperandKind<'a>]) -> Option<Known> {
        use OperandKind::{Integer, Name};
        match (opcode, operands) {
            ("add.s32", [_, Name(a), Name(b)]) => match (self.known(a), self.known(b)) {
                (Known::Total, Known::Reserved) => Some(Known::End),
                _ => None,
            },
            ("setp.ge.u32", [_, Name(a), Name(b)])
            | ("setp.ge.and.u32", [_, Name(a), Name(b), _])
                if self.known(a) == Known::Total =>
            {
                match self.known(b) {
                    Known::Span(rows) => Some(Known::RoomOf(rows)),
                    _ => None,
                }
            }
            ("sub.s32", [_, Name(a), Name(b)]) => match (self.known(a), self.known(b)) {
                (Known::End, Known::Span(rows)) => Some(Known::LimitOf(rows)),
                _ => None,
            },
            ("setp.ge.u32", [_, Name(a), Integer(bytes)])
            | ("setp.ge.and.u32", [_, Name(a), Integer(bytes), _])
                if self.known(a) == Known::Total =>
            {
                Some(Known::Room(u64::try_from(*bytes).ok()?))
            }
            ("setp.lt.u32", [_, Name(a), Integer(bytes)]) if self.known(a) == Known::Total => {
                Some(Known::Lack(u64::try_from(*bytes).ok()?))
            }
            ("max.u32", [_, Name(_), Name(b)]) if self.known(b) == Known::Reserved => {
                Some(Known::AtLeastReserved)
            }
            ("sub.s32", [_, Name(a), Integer(bytes)]) if self.known(a) == Known::End => {
                Some(Known::Limit(u64::try_from(*bytes).ok()?))
            }
            ("min.u32", [_, Name(a), Name(b)]) => match (self.known(a), self.known(b)) {
                (Known::AtLeastReserved, Known::Limit(bytes)) => Some(Known::Shared {
                    bytes,
                    multiple: 1,
                    is_generic: false,
                }),
                (Known::AtLeastReserved, Known::LimitOf(rows)) => Some(Known::SharedOf {
                    rows,
                    multiple: 1,
                    is_generic: false,
                }),
                _ => None,
            },
            ("and.b32", [_, Name(a), Integer(mask)]) => {
                let multiple = multiple_of(*mask)?;
                match self.known(a) {
                    Known::Shared {
                        bytes,
                        is_generic: false,
                        ..
                    } => Some(Known::Shared {
                        bytes,
                        multiple,
                        is_generic: false,
                    }),
                    Known::SharedOf {
                        rows,
                        is_generic: false,
                        ..
                    } => Some(Known::SharedOf {
                        rows,
                        multiple,
                        is_generic: false,
                    }),
                    _ => None,
                }
            }
            ("cvt.u64.u32", [_, Name(a)]) => match self.known(a) {
                shared @ (Known::Shared {
                    is_generic: false, ..
                }
                | Known::SharedOf {
                    is_generic: false, ..
                }) => Some(shared),
                _ => None,
            },
            _ => None,
        }
    }

    /// Generic addresses.
    fn generic(&self, opcode: &str, operands: &[&OperandKind<'a>]) -> Option<Known> {
        use OperandKind::Name;
        match (opcode, operands) {
            ("cvta.shared.u64", [_, Name(a)]) => match self.known(a) {
                Known::Shared {
                    bytes,
                    multiple,
                    is_generic: false,
                } => Some(Known::Shared {
                    bytes,
                    multiple,
                    is_generic: true,
                }),
                Known::SharedOf {
                    rows,
                    multiple,
                    is_generic: false,
                } => Some(Known::SharedOf {
                    rows,
                    multiple,
                    is_generic: true,
                }),
                _ => None,
            },
            ("cvta.local.u64", [_, Name(a)]) => match self.known(a) {
                Known::InVariable {
                    space: Space::Local,
                    room,
                    multiple,
                    is_generic: false,
                } => Some(Known::InVariable {
                    space: Space::Local,
                    room,
                    multiple,
                    is_generic: true,
                }),
                _ => None,
            },
            ("selp.b64", [_, Name(a), Name(b), Name(predicate)]) => {
                selected(self.known(a), self.known(b), self.known(predicate))
            }
            _ => None,
        }
    }
}

/// What is the same in each launch: words of the table, places of variables.
fn constant(
    opcode: &str,
    operands: &[&OperandKind<'_>],
    variables: &Variables<'_>,
) -> Option<Known> {
    use OperandKind::{Address, Name};
    match (opcode, operands) {
        ("ld.const.b32" | "ld.const.b64", [_, Address(address)])
            if address.base == Some(layout::VARIABLE) && address.coordinates.is_empty() =>
        {
            word(opcode, address.offset, variables)
        }
        ("mov.u32", [_, Name("%total_smem_size")]) => Some(Known::Total),
        ("mov.u64" | "mov.b64", [_, Name(name)]) => {
            let number = variables.number(name)?;
            let is_frames = *name == layout::FRAMES && variables.frames.is_some();
            Some(if is_frames {
                Known::Frames
            } else {
                Known::Start(number)
            })
        }
        _ => None,
    }
}

/// An address that is the one or the other.
fn selected(if_so: Known, if_not: Known, predicate: Known) -> Option<Known> {
    if let Known::SharedOf {
        rows,
        multiple,
        is_generic: true,
    } = if_so
    {
        let near = near_partition(if_not)?;
        return (predicate == Known::RoomOf(rows)).then_some(Known::GenericOf {
            rows,
            multiple: multiple.min(near.multiple),
        });
    }
    let (room, multiple, is_local) = match if_so {
        Known::Shared {
            bytes,
            multiple,
            is_generic: true,
        } if predicate == Known::Room(bytes) => (bytes, multiple, false),
        Known::InVariable {
            room,
            multiple,
            is_generic: true,
            ..
        } => (room, multiple, true),
        _ => return None,
    };
    let (other_room, other_multiple, was_local) = match if_not {
        Known::Generic {
            room,
            multiple,
            is_local,
        } => (room, multiple, is_local),
        other => (layout::EXTENT, near_partition(other)?.multiple, false),
    };
    Some(Known::Generic {
        room: room.min(other_room),
        multiple: multiple.min(other_multiple),
        is_local: is_local || was_local,
    })
}

/// An address that is near enough to the partition for an access.
fn near_partition(known: Known) -> Option<Between> {
    let near = known.near()?;
    let reach = layout::REACH as i64;
    (-reach <= near.least && near.most <= reach).then_some(near)
}

/// The largest alignment that is looked at. What the system reserves of shared
/// memory, and where partitions begin, are multiples of it.
pub(super) const MOST_ALIGNED: u32 = 128;

/// The power of two that all values are multiples of which were masked so.
pub(super) fn multiple_of(mask: i64) -> Option<u32> {
    let multiple = u32::try_from(mask.checked_neg()?).ok()?;
    (multiple.is_power_of_two() && multiple <= MOST_ALIGNED).then_some(multiple)
}

/// A word of the table.
fn word(opcode: &str, offset: i64, variables: &Variables<'_>) -> Option<Known> {
    let offset = u32::try_from(offset).ok()?;
    if opcode == "ld.const.b32" {
        return match offset {
            layout::BASE_HIGH => Some(Known::BaseHigh),
            layout::MASK_HIGH => Some(Known::MaskHigh),
            layout::RESERVED_SHARED => Some(Known::Reserved),
            _ => None,
        };
    }
    match offset {
        layout::BASE => Some(Known::Base),
        layout::SIZE => Some(Known::Size),
        layout::RECIPROCAL => Some(Known::Reciprocal),
        _ => {
            let at = offset.checked_sub(layout::VARIABLES)?;
            let index = (at / 8) as usize;
            (at % 8 == 0 && index < variables.in_table()).then_some(Known::Variable(index))
        }
    }
}
