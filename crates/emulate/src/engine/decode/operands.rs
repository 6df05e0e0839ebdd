//! Operands: registers, constants, special registers and addresses as slots.

use super::{Decoder, Problem, Symbol, malformed, unsupported};
use crate::engine::inst::{CONSTANT, Class, NONE};
use crate::engine::ops::special::{self, Special};
use crate::engine::program::FUNCTION_ADDRESSES;
use crate::mapping::{LANES, SHARED_WINDOW};
use ptx::{Instruction, Mnemonic, Modifier, Opcode, Operand, OperandKind, Type};

/// An instruction with its opcode taken apart.
pub(crate) struct Ins<'a> {
    opcode: &'a Opcode<'a>,
    pub mnemonic: Mnemonic,
    pub mods: &'a [Modifier],
    pub types: Vec<Type>,
    pub ops: &'a [Operand<'a>],
}

impl<'a> Ins<'a> {
    pub fn new(instruction: &'a Instruction<'a>) -> Ins<'a> {
        let opcode = &instruction.opcode;
        Ins {
            opcode,
            mnemonic: opcode.mnemonic(),
            mods: opcode.modifiers(),
            types: opcode.types().collect(),
            ops: &instruction.operands,
        }
    }

    /// The opcode as a whole.
    pub fn opcode(&self) -> &'a Opcode<'a> {
        self.opcode
    }

    pub fn has(&self, modifier: Modifier) -> bool {
        self.mods.contains(&modifier)
    }

    /// The modifiers as text.
    pub fn mod_texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.opcode.modifier_texts()
    }

    /// The last type of the opcode.
    pub fn ty(&self) -> Result<Type, Problem> {
        self.types
            .last()
            .copied()
            .ok_or_else(|| Problem::Malformed("the opcode names no type".into()))
    }

    pub fn op(&self, index: usize) -> Result<&'a Operand<'a>, Problem> {
        self.ops
            .get(index)
            .ok_or_else(|| Problem::Malformed(format!("operand {} is missing", index + 1)))
    }

    /// Refuse modifiers that the family does not support.
    pub fn only(&self, known: &[Modifier]) -> Result<(), Problem> {
        let mut mods = self.mods.iter().zip(self.mod_texts());
        match mods.find(|(m, _)| !known.contains(m) && m.ty().is_none()) {
            Some((_, text)) => unsupported(format!("modifier .{text}")),
            None => Ok(()),
        }
    }

    pub fn count(&self, least: usize, most: usize) -> Result<(), Problem> {
        if (least..=most).contains(&self.ops.len()) {
            Ok(())
        } else {
            malformed(format!(
                "{} operands, expected {least} to {most}",
                self.ops.len()
            ))
        }
    }
}

/// The memory that an address operand is an address of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SpaceTag {
    /// Generic, global, const: identity-mapped, with windows.
    Generic = 0,
    Shared = 1,
    /// Offsets in the lane's local memory.
    Local = 2,
    /// Offsets in the function's local frame.
    Frame = 3,
    /// Offsets in the entry's parameter block.
    Parameter = 4,
    /// As `Generic`, but windows are no part of it: `.global`, `.const`.
    Global = 5,
    SharedCluster = 6,
}

/// An address operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub slot: u32,
    /// The slot holds 32 bits.
    pub narrow: bool,
    pub offset: i64,
    pub space: SpaceTag,
}

impl Address {
    /// For [`crate::engine::inst::Inst::side`].
    pub fn tag(&self) -> u32 {
        self.space as u32 | u32::from(self.narrow) << 4
    }
}

impl<'a> Decoder<'a> {
    pub fn constant16(&mut self, bits: u16) -> u32 {
        let rows = &mut self.out.constants.b16;
        *self.constants.b16.entry(bits).or_insert_with(|| {
            rows.push([bits; LANES]);
            rows.len() as u32 - 1
        }) | CONSTANT
    }

    pub fn constant32(&mut self, bits: u32) -> u32 {
        let rows = &mut self.out.constants.b32;
        *self.constants.b32.entry(bits).or_insert_with(|| {
            rows.push([bits; LANES]);
            rows.len() as u32 - 1
        }) | CONSTANT
    }

    pub fn constant64(&mut self, bits: u64) -> u32 {
        let rows = &mut self.out.constants.b64;
        *self.constants.b64.entry(bits).or_insert_with(|| {
            rows.push([bits; LANES]);
            rows.len() as u32 - 1
        }) | CONSTANT
    }

    fn constant_pred(&mut self, mask: u32) -> u32 {
        let rows = &mut self.out.constants.pred;
        *self.constants.pred.entry(mask).or_insert_with(|| {
            rows.push(mask);
            rows.len() as u32 - 1
        }) | CONSTANT
    }

    pub fn constant(&mut self, class: Class, bits: u64) -> u32 {
        match class {
            Class::Pred => self.constant_pred(if bits != 0 { u32::MAX } else { 0 }),
            Class::B16 => self.constant16(bits as u16),
            Class::B32 => self.constant32(bits as u32),
            Class::B64 => self.constant64(bits),
            Class::B128 => {
                self.out
                    .constants
                    .b128
                    .push([bits as i64 as i128 as u128; LANES]);
                (self.out.constants.b128.len() as u32 - 1) | CONSTANT
            }
        }
    }

    /// A destination register; [`NONE`] for `_`.
    pub fn dst(&mut self, operand: &Operand<'a>, class: Class) -> Result<u32, Problem> {
        let (found, slot) = self.dst_any(operand)?;
        if slot == NONE || found == class {
            Ok(slot)
        } else {
            malformed(format!(
                "destination is a {found:?} register, the instruction's is {class:?}"
            ))
        }
    }

    /// A destination register of any class.
    pub fn dst_any(&mut self, operand: &Operand<'a>) -> Result<(Class, u32), Problem> {
        match operand.kind {
            OperandKind::Sink => Ok((Class::B32, NONE)),
            OperandKind::Name("_") => Ok((Class::B32, NONE)),
            OperandKind::Name(name) => match self.find(name) {
                Some(Symbol::Register { class, slot }) => Ok((class, slot)),
                Some(_) => malformed(format!("{name} is not a register")),
                None => self.undefined(format!("register {name}, which is not declared")),
            },
            _ => malformed("destination is not a register"),
        }
    }

    /// A source of a class: register, special register, immediate or address.
    pub fn src(&mut self, operand: &Operand<'a>, class: Class) -> Result<u32, Problem> {
        let (found, slot) = self.src_any(operand, class)?;
        if found == class {
            Ok(slot)
        } else {
            malformed(format!(
                "source is a {found:?} register, the instruction's is {class:?}"
            ))
        }
    }

    /// As [`Decoder::src`]; registers may be of any class.
    pub fn src_any(
        &mut self,
        operand: &Operand<'a>,
        class: Class,
    ) -> Result<(Class, u32), Problem> {
        let bits = match &operand.kind {
            OperandKind::Name(name) => return self.named(name, 0, class),
            OperandKind::NameOffset(name, offset) => return self.named(name, *offset, class),
            OperandKind::Integer(value) => *value as u64,
            OperandKind::F32(bits) => match class {
                Class::B64 => f64::from(f32::from_bits(*bits)).to_bits(),
                _ => u64::from(*bits),
            },
            OperandKind::F64(bits) => match class {
                Class::B32 => u64::from((f64::from_bits(*bits) as f32).to_bits()),
                _ => *bits,
            },
            // `{%r1}`: a vector of one.
            OperandKind::Vector(list) if list.len() == 1 => return self.src_any(&list[0], class),
            _ => return malformed("source is neither a register nor a constant"),
        };
        Ok((class, self.constant(class, bits)))
    }

    fn named(&mut self, name: &'a str, offset: i64, class: Class) -> Result<(Class, u32), Problem> {
        match self.find(name) {
            Some(Symbol::Register { class, slot }) => Ok((class, slot)),
            Some(symbol) => {
                let slot = self.symbol_address(symbol, offset, class, false)?;
                Ok((class, slot))
            }
            None if name == "WARP_SZ" => Ok((class, self.constant(class, 32))),
            None => match special::by_name(name) {
                Some(special) => {
                    self.out.has_reserved_shared |= special.is_reserved_shared();
                    self.special(special)
                }
                None if special::is_predefined(name) => {
                    unsupported(format!("special register {name}"))
                }
                None => self.undefined(format!("name {name}, which is not declared")),
            },
        }
    }

    fn special(&mut self, special: Special) -> Result<(Class, u32), Problem> {
        let class = special.class();
        let slot = self.register(class);
        self.emit_helper(special::handler(class), |i| {
            i.d = slot;
            i.imm = special.code();
        });
        Ok((class, slot))
    }

    /// A slot that holds the address of a symbol, in its own space or generic.
    pub fn symbol_address(
        &mut self,
        symbol: Symbol,
        offset: i64,
        class: Class,
        generic: bool,
    ) -> Result<u32, Problem> {
        let window = if generic { SHARED_WINDOW } else { 0 };
        let value = match symbol {
            Symbol::Register { slot, .. } => return Ok(slot),
            Symbol::Frame { offset: at, .. } if self.in_entry => u64::from(at),
            Symbol::Frame { offset: at, .. } => {
                let slot = self.register(class);
                let run = special::handler(class);
                self.emit_helper(run, |i| {
                    i.d = slot;
                    i.imm = Special::Frame(u64::from(at).wrapping_add_signed(offset) as u32).code();
                });
                return Ok(slot);
            }
            Symbol::EntryParameter(at) => u64::from(at),
            Symbol::Shared(at) => window + u64::from(at),
            Symbol::DynamicShared => {
                let slot = self.register(class);
                let run = special::handler(class);
                self.emit_helper(run, |i| {
                    i.d = slot;
                    i.imm = Special::DynamicShared(offset as i32 as u32).code();
                });
                return Ok(slot);
            }
            Symbol::Memory { address } => address,
            Symbol::Function(index) => FUNCTION_ADDRESSES + 16 * u64::from(index),
        };
        Ok(self.constant(class, value.wrapping_add_signed(offset)))
    }

    /// A predicate source, and whether it is negated.
    pub fn pred(&mut self, operand: &Operand<'a>) -> Result<(u32, bool), Problem> {
        let (name, negated) = match operand.kind {
            OperandKind::Name(name) => (name, false),
            OperandKind::Not(name) => (name, true),
            OperandKind::Integer(value) => {
                return Ok((self.constant(Class::Pred, value as u64), false));
            }
            _ => return malformed("expected a predicate"),
        };
        match self.find(name) {
            Some(Symbol::Register {
                class: Class::Pred,
                slot,
            }) => Ok((slot, negated)),
            Some(_) => malformed(format!("{name} is not a predicate")),
            None if let Some(special) = special::by_name(name)
                && special.class() == Class::Pred =>
            {
                Ok((self.special(special)?.1, negated))
            }
            None => self.undefined(format!("predicate {name}, which is not declared")),
        }
    }

    /// Destinations of `%p|%q`, or of one operand and a sink.
    pub fn dst_pair(
        &mut self,
        operand: &Operand<'a>,
        first: Class,
        second: Class,
    ) -> Result<(u32, u32), Problem> {
        let OperandKind::Pair(one, two) = operand.kind else {
            return Ok((self.dst(operand, first)?, NONE));
        };
        let mut part = |name: &'a str, class: Class| match name {
            "_" => Ok(NONE),
            _ => match self.find(name) {
                Some(Symbol::Register { class: found, slot }) if found == class => Ok(slot),
                _ => malformed(format!("{name} is not a register of the right size")),
            },
        };
        Ok((part(one, first)?, part(two, second)?))
    }

    /// An address operand. `space` is what the opcode says; `None` is generic.
    pub fn address(
        &mut self,
        operand: &Operand<'a>,
        space: Option<SpaceTag>,
    ) -> Result<Address, Problem> {
        let space = space.unwrap_or(SpaceTag::Generic);
        let (base, offset) = match &operand.kind {
            OperandKind::Address(address) => (address.base, address.offset),
            OperandKind::Name(name) => (Some(*name), 0),
            OperandKind::NameOffset(name, offset) => (Some(*name), *offset),
            OperandKind::Integer(value) => (None, *value),
            _ => return malformed("expected an address"),
        };
        let zero = self.constant64(0);
        let fixed = |at: u64, space| Address {
            slot: zero,
            narrow: false,
            offset: (at as i64).wrapping_add(offset),
            space,
        };
        let Some(name) = base else {
            return Ok(fixed(0, space));
        };
        Ok(match self.find(name) {
            Some(Symbol::Register { class, slot }) => {
                let space = match space {
                    SpaceTag::Parameter if !self.in_entry => SpaceTag::Local,
                    space => space,
                };
                match class {
                    Class::B64 => Address {
                        slot,
                        narrow: false,
                        offset,
                        space,
                    },
                    Class::B32 => Address {
                        slot,
                        narrow: true,
                        offset,
                        space,
                    },
                    _ => return malformed(format!("{name} cannot hold an address")),
                }
            }
            Some(Symbol::Frame { offset: at, .. }) => fixed(u64::from(at), SpaceTag::Frame),
            Some(Symbol::EntryParameter(at)) => fixed(u64::from(at), SpaceTag::Parameter),
            Some(Symbol::Shared(at)) => fixed(
                u64::from(at),
                if space == SpaceTag::SharedCluster {
                    space
                } else {
                    SpaceTag::Shared
                },
            ),
            Some(symbol @ Symbol::DynamicShared) => {
                let slot = self.symbol_address(symbol, 0, Class::B64, false)?;
                Address {
                    slot,
                    narrow: false,
                    offset,
                    space: if space == SpaceTag::SharedCluster {
                        space
                    } else {
                        SpaceTag::Shared
                    },
                }
            }
            Some(Symbol::Memory { address }) => fixed(address, SpaceTag::Global),
            Some(Symbol::Function(_)) => {
                return malformed(format!("{name} is a function, not memory"));
            }
            None => return self.undefined(format!("name {name}, which is not declared")),
        })
    }

    /// Slots of `{a, b, …}`, or of a single operand.
    pub fn vector(operand: &'a Operand<'a>) -> &'a [Operand<'a>] {
        match &operand.kind {
            OperandKind::Vector(list) => list,
            _ => std::slice::from_ref(operand),
        }
    }
}

/// The space that an opcode's modifiers name.
pub(crate) fn space_of(x: &Ins<'_>) -> Option<SpaceTag> {
    x.mods.iter().find_map(|m| {
        Some(match m {
            Modifier::Global | Modifier::Const => SpaceTag::Global,
            Modifier::Shared | Modifier::SharedCta => SpaceTag::Shared,
            Modifier::SharedCluster => SpaceTag::SharedCluster,
            Modifier::Local => SpaceTag::Local,
            Modifier::Param | Modifier::ParamEntry | Modifier::ParamFunc => SpaceTag::Parameter,
            _ => return None,
        })
    })
}

impl<'a> Decoder<'a> {
    /// A destination register; a register that nothing reads for `_`.
    pub fn dst_or_scratch(&mut self, operand: &Operand<'a>, class: Class) -> Result<u32, Problem> {
        let slot = self.dst(operand, class)?;
        Ok(if slot == NONE {
            self.register(class)
        } else {
            slot
        })
    }

    /// Emit an instruction with a destination, unless that is `_`: then it
    /// has no effect.
    pub fn emit_to(
        &mut self,
        run: crate::engine::inst::Handler,
        dst: u32,
        fill: impl FnOnce(&mut crate::engine::inst::Inst),
    ) {
        if dst != NONE {
            self.emit(run, |i| {
                i.d = dst;
                fill(i);
            });
        }
    }
}

impl<'a> Decoder<'a> {
    /// A 64-bit slot with the address itself, offset added.
    pub fn address_value(&mut self, address: &Address) -> u32 {
        let mut slot = address.slot;
        if address.narrow {
            let wide = self.register(Class::B64);
            self.emit_helper(crate::engine::ops::moves::WIDEN, |i| {
                (i.d, i.a) = (wide, slot)
            });
            slot = wide;
        }
        if address.offset != 0 {
            let sum = self.register(Class::B64);
            let offset = self.constant64(address.offset as u64);
            self.emit_helper(
                crate::engine::lanes::two::<crate::engine::ops::integer::Add<u64>>,
                |i| (i.d, i.a, i.b) = (sum, slot, offset),
            );
            slot = sum;
        }
        slot
    }
}
