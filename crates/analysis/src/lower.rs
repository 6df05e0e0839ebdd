//! What a definition does to provenance: one row an instruction.
//!
//! Anything that has no row is [`Term::Unknown`], never a guess.

use crate::code::{Code, Referent, ValueId};
use crate::names::SymbolSpace;
use crate::origin::{Root, RootId, Scale};
use crate::roles::Role;
use crate::ssa::{Definition, Ssa};
use ptx::{Mnemonic, Modifier, OperandKind, Type};
use rustc_hash::FxHashMap;

/// An operand of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// The value of a register.
    Value(ValueId),
    /// A small constant.
    Null,
    /// A number that is not a pointer.
    Integer,
    /// See [`crate::Origin::Opaque`].
    Opaque,
    /// A pointer that is defined here.
    Root(RootId),
    /// Not followed.
    Unknown,
}

/// A definition, reduced to what matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expr {
    /// The same as.
    Copy(Term),
    /// The same as, and known to be a pointer (`cvta`): this root, if it is
    /// not known which.
    Sure(Term, RootId),
    /// Sum.
    Add(Term, Term),
    /// Difference.
    Subtract(Term, Term),
    /// A multiple of the first by a constant, plus the second. The multiple is
    /// as `Unscaled` says, unless the first is the difference of two pointers.
    Scaled(Term, Scale, Unscaled, Term),
    /// First if the predicate operand of the `selp` holds, else second.
    Select(Term, Term),
    /// One of the two.
    Choose(Term, Term),
    /// `or`, `xor` in 32 bits.
    Combine(Term, Term),
    /// `and` in 32 bits.
    Mask(Term, Term),
    /// `or`, `xor`, `and` of 64 bits: what they make of anything but a pointer
    /// and a number may be a pointer that was packed, which is this root.
    Unpack(Term, Term, RootId, Packed),
    /// Put together from bits, a pointer or not.
    Packed(RootId),
    /// Bits that were cut out of others: all of an address, which is then
    /// this root, unless they are a number's.
    Cut(Term, Term, RootId),
    /// Bits that were moved, or a part of an address.
    Bits([Term; 3]),
    /// The same of another lane: an address in the block's shared memory
    /// survives this.
    Shuffle(Term),
    /// The same address in another form (`cvta` from or to a window), if the
    /// operand may point into a window; else something in that window.
    Window(Term, RootId),
    /// The same, made wider or narrower: an address in a window survives
    /// this, any other becomes a number.
    Resize(Term),
    /// The same, for an address in shared memory, whatever the pointer's
    /// origin.
    Narrow(Term),
}

/// What a multiple is of a value that is no difference of two pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unscaled {
    /// A number.
    Integer,
    /// A number, or a part of an address that was packed.
    Opaque,
    /// Bits that were moved, as with [`Expr::Bits`].
    Bits,
    /// Bits that were cut out, as with [`Expr::Cut`].
    Cut(RootId),
}

/// How an instruction takes bits from two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// As a sum with a number does (`or`: LLVM writes sums so where no bits
    /// meet).
    Summed,
    /// In another way.
    Mixed,
}

/// Part of the name of CUDA's function that makes an address in shared memory
/// of a generic one.
const TO_SHARED: &str = "__cvta_generic_to_shared";

/// Bits that a 64-bit word must keep to hold an address: the least that those
/// of any device's allocations have.
const ADDRESS_BITS: i64 = 40;

/// Bits by which a number of 32 must be moved to the left to be an address, or
/// a part of one.
const SCALE_BITS: u32 = 15;

/// The register with the size of a region that the program declares:
/// `ringfence_bounds` of `ringfence.h`.
pub const BYTES_REGISTER: &str = "ringfence_bytes";

/// Definitions of all values that may be addresses, and the roots found on the
/// way.
pub(crate) struct Lowered {
    pub(crate) exprs: Vec<Expr>,
    pub(crate) roots: Vec<Root>,
}

pub(crate) fn lower(code: &Code<'_, '_>, ssa: &Ssa) -> Lowered {
    let mut lowering = Lowering {
        code,
        ssa,
        roots: Vec::new(),
        known: FxHashMap::default(),
    };
    let mut exprs = vec![Expr::Copy(Term::Unknown); ssa.values.len()];
    for &id in ssa.wide_values() {
        if let Definition::Instruction {
            instruction,
            reference,
            ..
        } = ssa.values[id.0 as usize].definition
        {
            exprs[id.0 as usize] =
                lowering.definition(id, instruction as usize, reference as usize);
        }
    }
    Lowered {
        exprs,
        roots: lowering.roots,
    }
}

struct Lowering<'c, 'm, 'a> {
    code: &'c Code<'m, 'a>,
    ssa: &'c Ssa,
    roots: Vec<Root>,
    known: FxHashMap<Root, RootId>,
}

impl Lowering<'_, '_, '_> {
    fn root(&mut self, root: Root) -> Term {
        Term::Root(self.number(root))
    }

    fn number(&mut self, root: Root) -> RootId {
        let roots = &mut self.roots;
        *self.known.entry(root).or_insert_with(|| {
            roots.push(root);
            RootId(roots.len() as u32 - 1)
        })
    }

    /// The root that a symbol's address is derived from.
    fn symbol(&mut self, space: SymbolSpace, symbol: crate::names::SymbolId) -> Term {
        let root = match space {
            SymbolSpace::Global => Root::Variable { symbol },
            SymbolSpace::Const
            | SymbolSpace::Shared
            | SymbolSpace::Local
            | SymbolSpace::EntryParameter { .. } => Root::Whole { symbol },
            SymbolSpace::Argument { .. } | SymbolSpace::CallParameter => Root::ParameterWindow,
            SymbolSpace::Other => return Term::Integer,
        };
        self.root(root)
    }

    /// Operand `index` as a source.
    fn term(&mut self, instruction: usize, index: usize) -> Term {
        let found = self
            .code
            .named(instruction, index)
            .filter(|r| r.role != Role::Write)
            .copied();
        let is_vector = matches!(
            self.code.instructions[instruction]
                .instruction
                .operands
                .get(index)
                .map(|o| &o.kind),
            Some(OperandKind::Vector(_))
        );
        match found.filter(|_| !is_vector).map(|r| (r.referent, r.value)) {
            Some((Referent::Wide(_), value)) => return Term::Value(value),
            Some((Referent::Symbol(id, _), _)) => {
                return self.symbol(self.code.symbols[id.0 as usize].space, id);
            }
            Some((Referent::Other(_), _)) | None => {}
        }
        match self.code.instructions[instruction]
            .instruction
            .operands
            .get(index)
            .map(|o| &o.kind)
        {
            Some(OperandKind::Integer(value)) if (-4096..4096).contains(value) => Term::Null,
            // A base that addresses are relative to may be a constant.
            Some(OperandKind::Integer(value)) if value.unsigned_abs() >> 32 != 0 => Term::Opaque,
            Some(OperandKind::Integer(_) | OperandKind::F32(_) | OperandKind::F64(_)) => {
                Term::Integer
            }
            Some(OperandKind::Name(name)) if is_number(name) => Term::Integer,
            // A floating-point register.
            Some(OperandKind::Name(name)) if name.starts_with('%') => Term::Opaque,
            Some(OperandKind::Name(_)) => Term::Integer,
            Some(OperandKind::Vector(_)) => Term::Opaque,
            _ => Term::Unknown,
        }
    }

    fn definition(&mut self, id: ValueId, at: usize, reference: usize) -> Expr {
        let reference = self.code.references[reference];
        if reference.role == Role::Unknown {
            return Expr::Copy(Term::Unknown);
        }
        if let Referent::Wide(register) = reference.referent
            && self.code.is_narrow(register)
        {
            return self.narrow(id, at);
        }
        let opcode = &self.code.instructions[at].instruction.opcode;
        let mnemonic = opcode.mnemonic();
        match mnemonic {
            Mnemonic::Mov if self.declares_bounds(at) => {
                Expr::Copy(self.root(Root::Declared { value: id }))
            }
            Mnemonic::Mov => self.moved(id, at),
            Mnemonic::Cvta => self.between_spaces(id, at),
            Mnemonic::Ld | Mnemonic::Ldu => match self.converted(at) {
                Some(pointer) => self.window(pointer, Root::Shared),
                None => Expr::Copy(self.load(id, at, reference.element)),
            },
            Mnemonic::Atom | Mnemonic::Call => {
                let narrow = mnemonic == Mnemonic::Atom && opcode.types().any(|ty| ty.bytes() != 8);
                Expr::Copy(if narrow {
                    Term::Integer
                } else {
                    self.root(Root::Lookup { value: id })
                })
            }
            Mnemonic::Mapa => Expr::Copy(self.root(Root::Mapped { value: id })),
            Mnemonic::Alloca => Expr::Copy(self.root(Root::Alloca { value: id })),
            Mnemonic::Tex | Mnemonic::Tld4 | Mnemonic::Suld => {
                Expr::Copy(Term::Root(self.fresh(id)))
            }
            _ => self.computed(id, at),
        }
    }

    /// `cvta`
    fn between_spaces(&mut self, id: ValueId, at: usize) -> Expr {
        let opcode = &self.code.instructions[at].instruction.opcode;
        let space = opcode.modifiers().iter().find_map(|m| match m {
            Modifier::Global => Some(None),
            Modifier::Shared | Modifier::SharedCta | Modifier::SharedCluster => {
                Some(Some(Root::Shared))
            }
            Modifier::Local => Some(Some(Root::Local)),
            Modifier::Const => Some(Some(Root::Const)),
            Modifier::Param | Modifier::ParamEntry => Some(Some(Root::ParameterWindow)),
            _ => None,
        });
        match space {
            Some(None) => Expr::Sure(self.term(at, 1), self.fresh(id)),
            Some(Some(root)) => {
                let operand = self.term(at, 1);
                self.window(operand, root)
            }
            None => Expr::Copy(Term::Unknown),
        }
    }

    /// What arithmetic makes of 64 bits.
    fn computed(&mut self, id: ValueId, at: usize) -> Expr {
        let opcode = &self.code.instructions[at].instruction.opcode;
        let mnemonic = opcode.mnemonic();
        let is_float = || opcode.types().any(is_floating);
        match mnemonic {
            // The upper half of a sum of 128 bits, and the lower.
            Mnemonic::Addc | Mnemonic::Subc | Mnemonic::Madc => Expr::Copy(Term::Opaque),
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::Mad | Mnemonic::Min | Mnemonic::Max
                if is_float() =>
            {
                Expr::Copy(Term::Integer)
            }
            Mnemonic::Add => match self.object(at) {
                Some(root) => Expr::Copy(self.root(root)),
                None => Expr::Add(self.term(at, 1), self.term(at, 2)),
            },
            Mnemonic::Sub => Expr::Subtract(self.term(at, 1), self.term(at, 2)),
            Mnemonic::Mad => self.product(at, Some(3)),
            Mnemonic::Sad => Expr::Add(Term::Integer, self.term(at, 3)),
            Mnemonic::Min | Mnemonic::Max => Expr::Choose(self.term(at, 1), self.term(at, 2)),
            Mnemonic::Slct => Expr::Choose(self.term(at, 1), self.term(at, 2)),
            Mnemonic::Selp => Expr::Select(self.term(at, 1), self.term(at, 2)),
            Mnemonic::Neg | Mnemonic::Not if !is_float() => {
                Expr::Subtract(Term::Integer, self.term(at, 1))
            }
            Mnemonic::Or | Mnemonic::Xor => self.packed(id, at, mnemonic == Mnemonic::Or),
            Mnemonic::And => self.masked(id, at),
            Mnemonic::Shl => self.shifted_left(at),
            Mnemonic::Shr => self.shifted_right(id, at),
            Mnemonic::Mul => self.product(at, None),
            Mnemonic::Div if !is_float() => {
                let by = self.code.constant(at, 2).and_then(Scale::divided);
                match by {
                    Some(by) => Expr::Scaled(self.term(at, 1), by, Unscaled::Integer, Term::Null),
                    None => Expr::Copy(Term::Integer),
                }
            }
            Mnemonic::Cvt => {
                let same = opcode
                    .types()
                    .all(|ty| matches!(ty, Type::U64 | Type::S64 | Type::B64));
                match self.term(at, 1) {
                    operand if same => Expr::Copy(operand),
                    operand @ Term::Value(_) if !is_float() => Expr::Resize(operand),
                    _ => Expr::Copy(Term::Integer),
                }
            }
            Mnemonic::Bfe => match self.code.constant(at, 3) {
                Some(0..ADDRESS_BITS) => Expr::Copy(Term::Integer),
                _ => Expr::Cut(self.term(at, 1), Term::Null, self.fresh(id)),
            },
            Mnemonic::Bfi => Expr::Packed(self.fresh(id)),
            Mnemonic::Div
            | Mnemonic::Rem
            | Mnemonic::Fma
            | Mnemonic::Abs
            | Mnemonic::Neg
            | Mnemonic::Not
            | Mnemonic::Brev
            | Mnemonic::Sqrt
            | Mnemonic::Rcp
            | Mnemonic::Rsqrt
            | Mnemonic::Ex2
            | Mnemonic::Lg2
            | Mnemonic::Copysign
            | Mnemonic::Createpolicy
            | Mnemonic::Mbarrier
            | Mnemonic::Stacksave
            | Mnemonic::Szext
            | Mnemonic::Dp4a
            | Mnemonic::Dp2a
            | Mnemonic::Mma
            | Mnemonic::Wmma => Expr::Copy(Term::Integer),
            _ => Expr::Copy(Term::Unknown),
        }
    }

    /// What makes a 32-bit register. Only addresses in windows fit into one:
    /// whatever is not known to pass such an address on makes a number.
    fn narrow(&mut self, id: ValueId, at: usize) -> Expr {
        let instruction = self.code.instructions[at].instruction;
        let opcode = &instruction.opcode;
        if opcode.types().any(is_floating) || opcode.has(Modifier::Cc) {
            return Expr::Copy(Term::Integer);
        }
        match opcode.mnemonic() {
            Mnemonic::Mov => match instruction
                .operands
                .get(..2)
                .map(|o| (&o[0].kind, &o[1].kind))
            {
                // Halves of a wide one.
                Some((OperandKind::Vector(_) | OperandKind::List(_), _)) => {
                    Expr::Bits([self.term(at, 1), Term::Null, Term::Null])
                }
                Some((_, OperandKind::Vector(_))) => Expr::Copy(Term::Integer),
                _ => Expr::Copy(match self.term(at, 1) {
                    // The bits of a float.
                    Term::Opaque => Term::Integer,
                    term => term,
                }),
            },
            Mnemonic::Add => Expr::Add(self.term(at, 1), self.term(at, 2)),
            Mnemonic::Sub => Expr::Subtract(self.term(at, 1), self.term(at, 2)),
            Mnemonic::Mad if opcode.has(Modifier::Lo) => Expr::Add(Term::Integer, self.term(at, 3)),
            Mnemonic::Min | Mnemonic::Max | Mnemonic::Slct => {
                Expr::Choose(self.term(at, 1), self.term(at, 2))
            }
            Mnemonic::Selp => Expr::Select(self.term(at, 1), self.term(at, 2)),
            Mnemonic::Neg | Mnemonic::Not => Expr::Subtract(Term::Integer, self.term(at, 1)),
            Mnemonic::Or | Mnemonic::Xor => Expr::Combine(self.term(at, 1), self.term(at, 2)),
            Mnemonic::And => match (self.code.constant(at, 1), self.code.constant(at, 2)) {
                (Some(_), Some(_)) => Expr::Copy(Term::Integer),
                (None, None) => Expr::Mask(self.term(at, 1), self.term(at, 2)),
                (mask, other) => {
                    let operand = self.term(at, if mask.is_some() { 2 } else { 1 });
                    // The high bits aligns, the low ones are a number.
                    match mask.or(other).unwrap_or(0) as i32 {
                        ..0 => Expr::Add(operand, Term::Integer),
                        _ => Expr::Copy(Term::Integer),
                    }
                }
            },
            Mnemonic::Cvt => match self.term(at, 1) {
                operand @ Term::Value(value) if self.is_in_shared(value) => Expr::Narrow(operand),
                operand @ Term::Value(_) => Expr::Resize(operand),
                _ => Expr::Copy(Term::Integer),
            },
            Mnemonic::Mapa => Expr::Copy(self.root(Root::Mapped { value: id })),
            Mnemonic::Bfi | Mnemonic::Prmt | Mnemonic::Lop3 => {
                Expr::Bits([self.term(at, 1), self.term(at, 2), self.term(at, 3)])
            }
            Mnemonic::Shfl => Expr::Shuffle(self.term(at, 1)),
            _ => Expr::Copy(Term::Integer),
        }
    }

    /// The root of a pointer that an instruction makes of bits, if these are
    /// one: its bounds are looked up here, as those of one that was loaded.
    fn fresh(&mut self, value: ValueId) -> RootId {
        self.number(Root::Lookup { value })
    }

    /// `mov` of 64 bits: of a register, of two halves, of a `double`, of half
    /// a vector.
    fn moved(&mut self, id: ValueId, at: usize) -> Expr {
        let operands = &self.code.instructions[at].instruction.operands;
        let is_one = |operand: usize| {
            matches!(
                operands.get(operand).map(|o| &o.kind),
                Some(kind) if !matches!(kind, OperandKind::Vector(_) | OperandKind::List(_))
            )
        };
        if let Some(OperandKind::Vector(halves)) = operands.get(1).map(|o| &o.kind)
            && let Some(OperandKind::Integer(0)) = halves.last().map(|half| &half.kind)
        {
            return Expr::Copy(Term::Integer);
        }
        let is_register = |kind: &OperandKind<'_>| matches!(kind, OperandKind::Name(name) if name.starts_with('%'));
        match is_one(0) && is_one(1) {
            true => match self.term(at, 1) {
                Term::Opaque if operands.get(1).is_some_and(|o| is_register(&o.kind)) => {
                    Expr::Packed(self.fresh(id))
                }
                term => Expr::Copy(term),
            },
            false => Expr::Packed(self.fresh(id)),
        }
    }

    /// The product of a `mul` or `mad`, and what the latter adds. Scaled, a
    /// number of 32 bits may be a packed pointer if the scale is large.
    fn product(&mut self, at: usize, addend: Option<usize>) -> Expr {
        let factors = [1, 2].map(|index| self.code.constant(at, index));
        let is_large = |factor: &Option<i64>| {
            factor.is_some_and(|factor| factor.unsigned_abs() >> SCALE_BITS != 0)
        };
        let unscaled = match factors.iter().any(is_large) {
            true => Unscaled::Opaque,
            false => Unscaled::Integer,
        };
        let (operand, scale) = match factors {
            [None, Some(factor)] => (self.term(at, 1), Scale::by(factor)),
            [Some(factor), None] => (self.term(at, 2), Scale::by(factor)),
            _ => (Term::Null, None),
        };
        let addend = addend.map(|index| self.term(at, index));
        // The upper half of a product is a division, with a remainder.
        let is_high = self.code.instructions[at]
            .instruction
            .opcode
            .has(Modifier::Hi);
        if let (Term::Value(_), Some(scale), false) = (operand, scale, is_high) {
            return Expr::Scaled(operand, scale, unscaled, addend.unwrap_or(Term::Null));
        }
        let product = match unscaled {
            Unscaled::Opaque => Term::Opaque,
            _ => Term::Integer,
        };
        match addend {
            Some(addend) => Expr::Add(product, addend),
            None => Expr::Copy(product),
        }
    }

    /// `or`, `xor`.
    fn packed(&mut self, id: ValueId, at: usize, is_or: bool) -> Expr {
        let fresh = self.fresh(id);
        let how = if is_or { Packed::Summed } else { Packed::Mixed };
        Expr::Unpack(
            self.packed_term(at, 1, is_or),
            self.packed_term(at, 2, is_or),
            fresh,
            how,
        )
    }

    /// An operand of `or` or `xor`. Only few low bits, set, are an offset.
    fn packed_term(&mut self, at: usize, index: usize, is_or: bool) -> Term {
        match self.code.constant(at, index) {
            Some(0) => Term::Null,
            Some(1..4096) if is_or => Term::Null,
            Some(_) if is_or => Term::Opaque,
            Some(_) => Term::Integer,
            None => self.term(at, index),
        }
    }

    /// `and`.
    fn masked(&mut self, id: ValueId, at: usize) -> Expr {
        let (mask, index) = match (self.code.constant(at, 1), self.code.constant(at, 2)) {
            (Some(_), Some(_)) => return Expr::Copy(Term::Integer),
            (None, None) => {
                let fresh = self.fresh(id);
                return Expr::Cut(self.term(at, 1), self.term(at, 2), fresh);
            }
            (Some(mask), None) => (mask, 2),
            (None, Some(mask)) => (mask, 1),
        };
        let operand = self.term(at, index);
        match mask {
            // The mask aligns an address: the upper bits stay.
            -16..0 => Expr::Add(operand, Term::Integer),
            // The same, or takes out what was packed into the low bits.
            ..-16 => Expr::Unpack(operand, Term::Integer, self.fresh(id), Packed::Mixed),
            // The low bits, as a number.
            0..0x1_0000_0000 => Expr::Copy(Term::Integer),
            // Takes a tag out of the high bits: what was looked up with the
            // tag is worth nothing.
            _ => Expr::Cut(operand, Term::Null, self.fresh(id)),
        }
    }

    /// `shl`: a part of an address at most, or a scaled index.
    fn shifted_left(&mut self, at: usize) -> Expr {
        let operand = self.term(at, 1);
        let by = self.code.constant(at, 2);
        if let (Term::Value(value), Some(by)) = (operand, by)
            && let Some(whole) = self.shifted_by(value, by)
        {
            // There and back: aligns.
            return Expr::Add(whole, Term::Integer);
        }
        match by {
            Some(by) if by >= i64::from(SCALE_BITS) => Expr::Copy(Term::Opaque),
            Some(by) => Expr::Scaled(
                operand,
                Scale::shifted(by as i16),
                Unscaled::Bits,
                Term::Null,
            ),
            None => Expr::Bits([operand, Term::Null, Term::Null]),
        }
    }

    /// What a value was before it was shifted to the right by so many bits.
    fn shifted_by(&mut self, value: ValueId, by: i64) -> Option<Term> {
        let at = self.ssa.made_by(value)?;
        let is_shift = self.code.instructions[at].instruction.opcode.mnemonic() == Mnemonic::Shr;
        (is_shift && self.code.constant(at, 2) == Some(by)).then(|| self.term(at, 1))
    }

    /// `shr`: the pointer that was in the upper bits of a word, or a number.
    fn shifted_right(&mut self, id: ValueId, at: usize) -> Expr {
        let operand = self.term(at, 1);
        match self.code.constant(at, 2) {
            Some(0) => Expr::Copy(operand),
            Some(by) if by > 64 - ADDRESS_BITS => Expr::Copy(Term::Integer),
            Some(by) => Expr::Scaled(
                operand,
                Scale::shifted(-by as i16),
                Unscaled::Cut(self.fresh(id)),
                Term::Null,
            ),
            None => Expr::Cut(operand, Term::Null, self.fresh(id)),
        }
    }

    fn window(&mut self, operand: Term, window: Root) -> Expr {
        Expr::Window(operand, self.number(window))
    }

    /// Whether the `mov` before this one holds the number of bytes that the
    /// program declares behind the pointer that this one copies.
    fn declares_bounds(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1) else {
            return false;
        };
        let (before, own) = (&self.code.instructions[before], &self.code.instructions[at]);
        let target = before.instruction.operands.first().map(|o| &o.kind);
        before.instruction.opcode.mnemonic() == Mnemonic::Mov
            && before.scope == own.scope
            && own.instruction.guard.is_none()
            && matches!(target, Some(OperandKind::Name(name)) if *name == BYTES_REGISTER)
    }

    /// The object in a compiler's frame that an address is the start of:
    /// `add.u64 %rd1, %SP, 16`. LLVM, which all compilers to PTX share, writes
    /// the address of an object in this form, and uses the form for nothing
    /// else: other arithmetic on addresses is signed, and constants are never
    /// folded into this one (`LEA_ADDRi64` is only used for a frame index).
    fn object(&mut self, at: usize) -> Option<Root> {
        let instruction = self.code.instructions[at].instruction;
        if instruction.opcode.text != "add.u64" {
            return None;
        }
        let start = u32::try_from(self.code.constant(at, 2)?).ok()?;
        let mut value = match self.term(at, 1) {
            Term::Value(value) => value,
            _ => return None,
        };
        for _ in 0..2 {
            let (at, operand) = self.ssa.source(self.code, value)?;
            let source = self.code.instructions[at].instruction;
            match (source.opcode.text, operand.referent) {
                ("mov.u64" | "mov.b64", Referent::Symbol(symbol, 0)) => {
                    let frame = &self.code.symbols[symbol.0 as usize];
                    let fits = frame.size.is_some_and(|size| u64::from(start) < size);
                    let is_frame = frame.space == SymbolSpace::Local
                        && frame.name.starts_with("__local_depot");
                    return (fits && is_frame).then_some(Root::Part { symbol, start });
                }
                ("cvta.local.u64", Referent::Wide(_)) => value = operand.value,
                _ => return None,
            }
        }
        None
    }

    fn load(&mut self, id: ValueId, at: usize, element: u8) -> Term {
        let inst = &self.code.instructions[at];
        let opcode = &inst.instruction.opcode;
        if opcode.types().any(|ty| ty.bytes() != 8) {
            return Term::Integer;
        }
        let address = self
            .code
            .references_of(at)
            .iter()
            .find(|r| r.role == Role::Address);
        if let Some(Referent::Symbol(symbol, offset)) = address.map(|r| r.referent)
            && inst.instruction.guard.is_none()
            && opcode.has_any(&[Modifier::Param, Modifier::ParamEntry, Modifier::ParamFunc])
            && let Some(offset) = offset.checked_add(i64::from(element) * 8)
            && let Some(offset) = self.code.symbols[symbol.0 as usize].parameter_place(offset, 8)
        {
            return self.root(Root::KernelParameter { offset });
        }
        if opcode.has(Modifier::Param) && self.is_device_runtime_result(at) {
            return self.root(Root::System);
        }
        self.root(Root::Lookup { value: id })
    }

    /// Whether a `ld.param` reads what a function of the CUDA device runtime
    /// returned.
    fn is_device_runtime_result(&self, at: usize) -> bool {
        self.called_before(at)
            .is_some_and(|(_, name)| name.contains("GetParameterBuffer"))
    }

    /// The last call before an instruction, in the few statements of its
    /// sequence, and what it calls.
    fn called_before(&self, at: usize) -> Option<(usize, &str)> {
        let from = at.saturating_sub(16);
        let call = (from..at).rev().find(|&index| {
            let opcode = &self.code.instructions[index].instruction.opcode;
            opcode.mnemonic() == Mnemonic::Call
        })?;
        let operands = &self.code.instructions[call].instruction.operands;
        operands.iter().find_map(|operand| match operand.kind {
            OperandKind::Name(name) => Some((call, name)),
            _ => None,
        })
    }

    /// The pointer that a `ld.param` reads as shared memory has it, where a
    /// function did the conversion: CUDA's own, which is not inlined in builds
    /// for debuggers.
    fn converted(&mut self, at: usize) -> Option<Term> {
        if !self.code.instructions[at]
            .instruction
            .opcode
            .has(Modifier::Param)
        {
            return None;
        }
        let (call, name) = self.called_before(at)?;
        let store = call.checked_sub(1)?;
        let opcode = &self.code.instructions[store].instruction.opcode;
        let is_one = name.contains(TO_SHARED) && at == call + 1;
        (is_one && opcode.mnemonic() == Mnemonic::St && opcode.has(Modifier::Param))
            .then(|| self.term(store, 1))
    }

    /// Whether a value is an address as shared memory has it, because that is
    /// what it was converted to.
    fn is_in_shared(&mut self, value: ValueId) -> bool {
        let Some(at) = self.ssa.made_by(value) else {
            return false;
        };
        let opcode = &self.code.instructions[at].instruction.opcode;
        match opcode.mnemonic() {
            Mnemonic::Cvta => {
                opcode.has(Modifier::To)
                    && (opcode.has(Modifier::Shared) || opcode.has(Modifier::SharedCta))
            }
            Mnemonic::Ld => self.converted(at).is_some(),
            _ => false,
        }
    }
}

/// Whether a name is that of a special register that holds a number. (The
/// `%envreg`s of cooperative launches hold halves of an address.)
fn is_number(name: &str) -> bool {
    const NUMBERS: [&str; 30] = [
        "%tid",
        "%ntid",
        "%ctaid",
        "%nctaid",
        "%laneid",
        "%warpid",
        "%nwarpid",
        "%smid",
        "%nsmid",
        "%gridid",
        "%clusterid",
        "%nclusterid",
        "%cluster_ctaid",
        "%cluster_nctaid",
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%lanemask_eq",
        "%lanemask_le",
        "%lanemask_lt",
        "%lanemask_ge",
        "%lanemask_gt",
        "%clock",
        "%clock64",
        "%clock_hi",
        "%globaltimer",
        "%globaltimer_lo",
        "%globaltimer_hi",
        "%total_smem_size",
        "%dynamic_smem_size",
        "%aggr_smem_size",
    ];
    let name = name.split('.').next().unwrap_or(name);
    NUMBERS.contains(&name)
}

fn is_floating(ty: Type) -> bool {
    matches!(
        ty,
        Type::F64 | Type::F32 | Type::F16 | Type::F16x2 | Type::BF16 | Type::BF16x2 | Type::F32x2
    )
}
