//! What a definition does to provenance: one row an instruction.
//!
//! Anything that has no row is [`Term::Unknown`], never a guess.

use crate::code::{Code, Referent, Role};
use crate::names::SymbolSpace;
use crate::origin::{Root, RootId};
use crate::ssa::{Definition, Ssa, ValueId};
use ptx::{OperandKind, Type};
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
    /// A pointer that comes into being here.
    Root(RootId),
    /// Not followed.
    Unknown,
}

/// A definition, reduced to what matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expr {
    /// The same as.
    Copy(Term),
    /// The same as, and known to be a pointer (`cvta`).
    Sure(Term),
    /// Sum.
    Add(Term, Term),
    /// Difference.
    Subtract(Term, Term),
    /// First if the predicate operand of the `selp` holds, else second.
    Select(Term, Term),
    /// One of the two.
    Choose(Term, Term),
    /// `or`, `xor`.
    Combine(Term, Term),
    /// `and`.
    Mask(Term, Term),
    /// The same address in another form (`cvta` from or to a window), if the
    /// operand may point into a window; else something in that window.
    Window(Term, RootId),
    /// The same, made wider or narrower: an address in a window survives
    /// this, any other becomes a number.
    Resize(Term),
}

/// The register that holds the bytes behind a pointer that the program gives
/// bounds to: `ringfence_bounds` of `ringfence.h`.
pub const BYTES_REGISTER: &str = "ringfence_bytes";

/// Definitions of all values, and the roots found on the way.
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
    let exprs = ssa
        .values
        .iter()
        .enumerate()
        .map(|(id, value)| match value.definition {
            Definition::Instruction {
                instruction,
                reference,
                ..
            } => lowering.definition(ValueId(id as u32), instruction as usize, reference as usize),
            _ => Expr::Copy(Term::Unknown),
        })
        .collect();
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
        let roots = &mut self.roots;
        Term::Root(*self.known.entry(root).or_insert_with(|| {
            roots.push(root);
            RootId(roots.len() as u32 - 1)
        }))
    }

    /// The root that a symbol's address is derived from.
    fn symbol(&mut self, space: SymbolSpace, symbol: crate::SymbolId) -> Term {
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
            .references_of(instruction)
            .iter()
            .find(|r| usize::from(r.operand) == index && r.element == 0 && r.role != Role::Write)
            .copied();
        let is_vector = matches!(
            self.code.instructions[instruction]
                .instruction
                .operands
                .get(index)
                .map(|o| &o.kind),
            Some(OperandKind::Vector(_))
        );
        if let (Some(reference), false) = (found, is_vector) {
            return match reference.referent {
                Referent::Wide(_) => Term::Value(reference.value),
                Referent::Symbol(id, _) => self.symbol(self.code.symbols[id.0 as usize].space, id),
            };
        }
        match self.code.instructions[instruction]
            .instruction
            .operands
            .get(index)
            .map(|o| &o.kind)
        {
            Some(OperandKind::Integer(value)) if (-4096..4096).contains(value) => Term::Null,
            Some(OperandKind::Integer(_) | OperandKind::F32(_) | OperandKind::F64(_)) => {
                Term::Integer
            }
            // A floating-point register, or a special register such as
            // %clock64.
            Some(OperandKind::Name(name)) if name.starts_with('%') => Term::Opaque,
            Some(OperandKind::Name(_)) => Term::Integer,
            Some(OperandKind::Vector(_)) => Term::Opaque,
            _ => Term::Unknown,
        }
    }

    fn constant(&self, instruction: usize, index: usize) -> Option<i64> {
        match self.code.instructions[instruction]
            .instruction
            .operands
            .get(index)?
            .kind
        {
            OperandKind::Integer(value) => Some(value),
            _ => None,
        }
    }

    fn definition(&mut self, id: ValueId, at: usize, reference: usize) -> Expr {
        let instruction = self.code.instructions[at].instruction;
        let reference = self.code.references[reference];
        if reference.role == Role::Unknown {
            return Expr::Copy(Term::Unknown);
        }
        let opcode = instruction.opcode;
        let base = opcode.base();
        let is_float = || opcode.types().any(is_floating);
        if let Referent::Wide(register) = reference.referent
            && self.code.is_narrow(register)
        {
            return self.narrow(id, at);
        }
        match base {
            "mov" if self.declares_bounds(at) => {
                Expr::Copy(self.root(Root::Declared { value: id }))
            }
            "mov" => match instruction.operands.first().map(|o| &o.kind) {
                Some(OperandKind::Name(_)) => Expr::Copy(self.term(at, 1)),
                _ => Expr::Copy(Term::Opaque),
            },
            "cvta" => {
                let space = opcode.modifiers().find_map(|modifier| match modifier {
                    "global" => Some(None),
                    "shared" | "shared::cta" | "shared::cluster" => Some(Some(Root::Shared)),
                    "local" => Some(Some(Root::Local)),
                    "const" => Some(Some(Root::Const)),
                    "param" | "param::entry" => Some(Some(Root::ParameterWindow)),
                    _ => None,
                });
                match space {
                    Some(None) => Expr::Sure(self.term(at, 1)),
                    Some(Some(root)) => {
                        let operand = self.term(at, 1);
                        self.window(operand, root)
                    }
                    None => Expr::Copy(Term::Unknown),
                }
            }
            "addc" | "subc" | "madc" => Expr::Copy(Term::Unknown),
            "add" | "sub" | "mad" if opcode.has("cc") => Expr::Copy(Term::Unknown),
            "add" | "sub" | "mad" | "min" | "max" if is_float() => Expr::Copy(Term::Integer),
            "add" => match self.object(at) {
                Some(root) => Expr::Copy(self.root(root)),
                None => Expr::Add(self.term(at, 1), self.term(at, 2)),
            },
            "sub" => Expr::Subtract(self.term(at, 1), self.term(at, 2)),
            "mad" | "sad" => Expr::Add(Term::Integer, self.term(at, 3)),
            "min" | "max" => Expr::Choose(self.term(at, 1), self.term(at, 2)),
            "slct" => Expr::Choose(self.term(at, 1), self.term(at, 2)),
            "selp" => Expr::Select(self.term(at, 1), self.term(at, 2)),
            "neg" | "not" if !is_float() => Expr::Subtract(Term::Integer, self.term(at, 1)),
            "or" | "xor" => Expr::Combine(self.term(at, 1), self.term(at, 2)),
            "and" => match (self.constant(at, 1), self.constant(at, 2)) {
                (Some(_), Some(_)) => Expr::Copy(Term::Integer),
                (None, None) => Expr::Mask(self.term(at, 1), self.term(at, 2)),
                (mask, other) => {
                    let operand = self.term(at, if mask.is_some() { 2 } else { 1 });
                    match mask.or(other).unwrap_or(0) {
                        // Aligns: the bits that say where stay.
                        ..0 => Expr::Add(operand, Term::Integer),
                        // The low bits, as a number.
                        0..0x1_0000_0000 => Expr::Copy(Term::Integer),
                        // Takes a tag out of the high bits: what was looked
                        // up with the tag is worth nothing.
                        _ => Expr::Mask(operand, Term::Opaque),
                    }
                }
            },
            "cvt" => {
                let same = opcode
                    .types()
                    .all(|ty| matches!(ty, Type::U64 | Type::S64 | Type::B64));
                match self.term(at, 1) {
                    operand if same => Expr::Copy(operand),
                    operand @ Term::Value(_) if !is_float() => Expr::Resize(operand),
                    _ => Expr::Copy(Term::Integer),
                }
            }
            "mul" | "shl" | "shr" | "div" | "rem" | "fma" | "abs" | "neg" | "not" | "bfe"
            | "brev" | "sqrt" | "rcp" | "rsqrt" | "ex2" | "lg2" | "copysign" | "createpolicy"
            | "mbarrier" | "stacksave" | "szext" | "dp4a" | "dp2a" | "mma" | "wmma" => {
                Expr::Copy(Term::Integer)
            }
            "ld" | "ldu" => Expr::Copy(self.load(id, at, reference.element)),
            "atom" | "call" => {
                let narrow = base == "atom" && opcode.types().any(|ty| ty.bytes() != 8);
                Expr::Copy(if narrow {
                    Term::Integer
                } else {
                    self.root(Root::Lookup { value: id })
                })
            }
            "mapa" => Expr::Copy(self.root(Root::Mapped { value: id })),
            "alloca" => Expr::Copy(self.root(Root::Alloca { value: id })),
            "bfi" | "prmt" | "tex" | "tld4" | "suld" | "shfl" => Expr::Copy(Term::Opaque),
            _ => Expr::Copy(Term::Unknown),
        }
    }

    /// What makes a 32-bit register. Only addresses in windows fit into one:
    /// whatever is not known to pass such an address on makes a number.
    fn narrow(&mut self, id: ValueId, at: usize) -> Expr {
        let instruction = self.code.instructions[at].instruction;
        let opcode = instruction.opcode;
        if opcode.types().any(is_floating) || opcode.has("cc") {
            return Expr::Copy(Term::Integer);
        }
        match opcode.base() {
            "mov" => match instruction.operands.first().map(|o| &o.kind) {
                Some(OperandKind::Name(_)) => Expr::Copy(self.term(at, 1)),
                _ => Expr::Copy(Term::Opaque),
            },
            "add" => Expr::Add(self.term(at, 1), self.term(at, 2)),
            "sub" => Expr::Subtract(self.term(at, 1), self.term(at, 2)),
            "mad" if opcode.has("lo") => Expr::Add(Term::Integer, self.term(at, 3)),
            "min" | "max" | "slct" => Expr::Choose(self.term(at, 1), self.term(at, 2)),
            "selp" => Expr::Select(self.term(at, 1), self.term(at, 2)),
            "neg" | "not" => Expr::Subtract(Term::Integer, self.term(at, 1)),
            "or" | "xor" => Expr::Combine(self.term(at, 1), self.term(at, 2)),
            "and" => match (self.constant(at, 1), self.constant(at, 2)) {
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
            "cvt" => match self.term(at, 1) {
                operand @ Term::Value(_) => Expr::Resize(operand),
                _ => Expr::Copy(Term::Integer),
            },
            "mapa" => Expr::Copy(self.root(Root::Mapped { value: id })),
            "bfi" | "prmt" | "shfl" | "lop3" => Expr::Copy(Term::Opaque),
            _ => Expr::Copy(Term::Integer),
        }
    }

    fn window(&mut self, operand: Term, window: Root) -> Expr {
        match self.root(window) {
            Term::Root(window) => Expr::Window(operand, window),
            other => Expr::Copy(other),
        }
    }

    /// Whether the `mov` before this one holds the number of bytes that the
    /// program declares behind the pointer that this one copies.
    fn declares_bounds(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1) else {
            return false;
        };
        let (before, own) = (&self.code.instructions[before], &self.code.instructions[at]);
        let target = before.instruction.operands.first().map(|o| &o.kind);
        before.instruction.opcode.base() == "mov"
            && before.scope == own.scope
            && own.instruction.guard.is_none()
            && matches!(target, Some(OperandKind::Name(name)) if *name == BYTES_REGISTER)
    }

    /// The object that an address within a compiler's frame is the start of:
    /// `add.u64 %rd1, %SP, 16`. LLVM, which all compilers to PTX share, writes
    /// the address of an object in this way, and only that: other arithmetic
    /// on addresses is signed, and constants are never folded into this one
    /// (`LEA_ADDRi64` stands for a frame index alone).
    fn object(&mut self, at: usize) -> Option<Root> {
        let instruction = self.code.instructions[at].instruction;
        if instruction.opcode.text != "add.u64" {
            return None;
        }
        let start = u32::try_from(self.constant(at, 2)?).ok()?;
        let mut value = match self.term(at, 1) {
            Term::Value(value) => value,
            _ => return None,
        };
        for _ in 0..2 {
            let Definition::Instruction {
                instruction,
                old: None,
                ..
            } = self.ssa.value(value)?.definition
            else {
                return None;
            };
            let source = self.code.instructions[instruction as usize].instruction;
            let operand = self
                .code
                .references_of(instruction as usize)
                .iter()
                .find(|r| r.operand == 1)?;
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
        let opcode = inst.instruction.opcode;
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
            && ["param", "param::entry", "param::func"]
                .iter()
                .any(|space| opcode.has(space))
            && let SymbolSpace::EntryParameter { offset: start, .. }
            | SymbolSpace::Argument { offset: start } =
                self.code.symbols[symbol.0 as usize].space
            && let Some(offset) = i64::from(start)
                .checked_add(offset)
                .and_then(|offset| offset.checked_add(i64::from(element) * 8))
                .and_then(|offset| u32::try_from(offset).ok())
        {
            return self.root(Root::KernelParameter { offset });
        }
        if opcode.has("param") && self.is_device_runtime_result(at) {
            return self.root(Root::System);
        }
        self.root(Root::Lookup { value: id })
    }

    /// Whether a `ld.param` reads what a function of the CUDA device runtime
    /// returned: the last call before it, in the few statements of its
    /// sequence.
    fn is_device_runtime_result(&self, at: usize) -> bool {
        let before = &self.code.instructions[at.saturating_sub(16)..at];
        let call = before
            .iter()
            .rev()
            .find(|inst| inst.instruction.opcode.base() == "call");
        call.is_some_and(|call| {
            call.instruction.operands.iter().any(|operand| {
                matches!(operand.kind, OperandKind::Name(name) if name.starts_with("cudaGetParameterBuffer"))
            })
        })
    }
}

fn is_floating(ty: Type) -> bool {
    matches!(
        ty,
        Type::F64 | Type::F32 | Type::F16 | Type::F16x2 | Type::BF16 | Type::BF16x2 | Type::F32x2
    )
}
