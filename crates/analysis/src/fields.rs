//! Indices into arrays that are fields of structs.
//!
//! `p->a[i]` computes the address of the field, adds the index, and accesses
//! the sum. With the types from debug information, the sum is a root of its own
//! ([`crate::Root::Field`]): a pointer derived from it must stay in the field.
//!
//! A root is a field only if types prove it: it is in an object of known type,
//! more than zero constant bytes from its start, where exactly one array
//! starts, with an index scaled by the size of the array's elements. Not
//! treated as fields are
//!
//! * the first field of a struct, whose address is the struct's own: programs
//!   copy whole structs by words;
//! * arrays of bytes, for the same reason;
//! * arrays of one element or of unknown length at the end of a struct, which
//!   stand for as many as were allocated;
//! * members of unions and bit fields.

use crate::code::{Code, Referent, ValueId};
use crate::lower::{Expr, Term};
use crate::names::SymbolSpace;
use crate::origin::Root;
use crate::roles::Role;
use crate::ssa::Ssa;
use debuginfo::{DebugInfo, FrameObject, Place, TypeId, TypeKind};
use ptx::{Mnemonic, Modifier, OperandKind};
use rustc_hash::FxHashMap;

/// How an array that is a field is indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The operand of the addition that holds the address of the field.
    pub operand: u8,
    /// Bytes of the field.
    pub bytes: u64,
    /// What the program calls it: `p->a`.
    pub name: String,
}

/// Definitions followed to find the type of one address: real code needs ten.
const DEPTH: usize = 64;

/// The additions of a function that index a field, by the value they make.
pub(crate) fn fields(
    code: &Code<'_, '_>,
    ssa: &Ssa,
    exprs: &[Expr],
    roots: &[Root],
    debug: &DebugInfo,
) -> Vec<(ValueId, Field)> {
    if debug.is_empty() {
        return Vec::new();
    }
    let mut finder = Finder {
        code,
        ssa,
        exprs,
        roots,
        debug,
        objects: debug.frame_objects(code.function.name),
        known: FxHashMap::default(),
    };
    let mut found = Vec::new();
    for &id in ssa.wide_values() {
        if let Some(field) = finder.field(id) {
            found.push((id, field));
        }
    }
    found
}

/// An address of known type.
#[derive(Clone)]
struct Typed {
    /// The object that it points into.
    ty: TypeId,
    /// Bytes from the object's start.
    offset: u64,
    /// The address is generic, not one within a window.
    is_generic: bool,
    /// What the program calls the object.
    name: String,
    /// Between the object's name and that of a field.
    joint: &'static str,
}

struct Finder<'f, 'm, 'a> {
    code: &'f Code<'m, 'a>,
    ssa: &'f Ssa,
    exprs: &'f [Expr],
    roots: &'f [Root],
    debug: &'f DebugInfo,
    /// What the function's frame holds.
    objects: Vec<FrameObject>,
    known: FxHashMap<ValueId, Option<Typed>>,
}

impl<'a> Finder<'_, '_, 'a> {
    fn operand(&self, at: usize, index: usize) -> Option<&OperandKind<'a>> {
        let operands = &self.code.instructions[at].instruction.operands;
        operands.get(index).map(|operand| &operand.kind)
    }

    /// The value of a register operand that is read.
    fn read(&self, at: usize, index: usize) -> Option<ValueId> {
        let reference = self.code.references_of(at).iter().find(|reference| {
            usize::from(reference.operand) == index && reference.role == Role::Read
        })?;
        matches!(reference.referent, Referent::Wide(_)).then_some(reference.value)
    }

    /// The factor that an index was multiplied with, at least two.
    fn scale(&self, index: ValueId) -> Option<u64> {
        let at = self.ssa.made_by(index)?;
        let opcode = &self.code.instructions[at].instruction.opcode;
        let Some(OperandKind::Integer(factor)) = self.operand(at, 2) else {
            return None;
        };
        let factor = u64::try_from(*factor).ok()?;
        match opcode.mnemonic() {
            Mnemonic::Shl => 1u64
                .checked_shl(u32::try_from(factor).ok()?)
                .filter(|&scale| scale > 1),
            Mnemonic::Mul if opcode.has(Modifier::Lo) || opcode.has(Modifier::Wide) => {
                Some(factor).filter(|&f| f > 1)
            }
            _ => None,
        }
    }

    /// An addition of an index to an address: the operand that is the
    /// address, its value, and the factor of the index.
    fn indexed(&self, at: usize) -> Option<(u8, ValueId, u64)> {
        let opcode = &self.code.instructions[at].instruction.opcode;
        if !matches!(opcode.text, "add.s64" | "add.u64") {
            return None;
        }
        let (first, second) = (self.read(at, 1)?, self.read(at, 2)?);
        match (self.scale(first), self.scale(second)) {
            (None, Some(scale)) => Some((1, first, scale)),
            (Some(scale), None) => Some((2, second, scale)),
            _ => None,
        }
    }

    fn field(&mut self, value: ValueId) -> Option<Field> {
        let at = self.ssa.made_by(value)?;
        let (operand, address, scale) = self.indexed(at)?;
        // The address is needed once more after the addition.
        let OperandKind::Name(target) = *self.operand(at, 0)? else {
            return None;
        };
        let OperandKind::Name(source) = *self.operand(at, usize::from(operand))? else {
            return None;
        };
        if target == source {
            return None;
        }
        let typed = self.typed(address, DEPTH)?;
        if typed.offset == 0 || !typed.is_generic {
            return None;
        }
        let (path, array) = self.array(&typed)?;
        self.element(array, scale)?;
        let bytes = self.debug.types.size(array)?;
        Some(Field {
            operand,
            bytes,
            name: format!("{}{}{path}", typed.name, typed.joint),
        })
    }

    /// The array that an address is the start of, if it is a bounded field.
    fn array(&self, typed: &Typed) -> Option<(String, TypeId)> {
        let types = &self.debug.types;
        let (path, array) = types.array_at(typed.ty, typed.offset)?;
        let (_, resolved) = types.resolve(array)?;
        let TypeKind::Array { count, .. } = resolved.kind else {
            return None;
        };
        let count = count.filter(|&count| count > 1)?;
        (types.size(array)? >= count).then_some((path, array))
    }

    /// The elements of an array that are so large, at whatever dimension.
    fn element(&self, array: TypeId, size: u64) -> Option<TypeId> {
        let types = &self.debug.types;
        let mut ty = array;
        for _ in 0..8 {
            let (_, resolved) = types.resolve(ty)?;
            let TypeKind::Array { element, .. } = resolved.kind else {
                return None;
            };
            ty = element?;
            if types.size(ty)? == size {
                return Some(ty);
            }
        }
        None
    }

    fn typed(&mut self, value: ValueId, depth: usize) -> Option<Typed> {
        if let Some(known) = self.known.get(&value) {
            return known.clone();
        }
        let typed = depth
            .checked_sub(1)
            .and_then(|depth| self.type_of(value, depth));
        self.known.insert(value, typed.clone());
        typed
    }

    fn type_of(&mut self, value: ValueId, depth: usize) -> Option<Typed> {
        let at = self.ssa.made_by(value)?;
        let opcode = &self.code.instructions[at].instruction.opcode;
        if let Some(&Expr::Copy(Term::Root(root))) = self.exprs.get(value.0 as usize)
            && let Some(&Root::Part { symbol, start }) = self.roots.get(root.0 as usize)
        {
            return self.local(at, symbol, start);
        }
        match opcode.mnemonic() {
            Mnemonic::Ld => self.loaded(at, depth),
            Mnemonic::Mov => match self.read(at, 1) {
                Some(source) => self.typed(source, depth),
                None => self.variable(at),
            },
            Mnemonic::Cvt => self.typed(self.read(at, 1)?, depth),
            Mnemonic::Cvta => {
                let mut typed = self.typed(self.read(at, 1)?, depth)?;
                typed.is_generic = !opcode.has(Modifier::To);
                Some(typed)
            }
            Mnemonic::Add => {
                if let Some(OperandKind::Integer(bytes)) = self.operand(at, 2) {
                    let bytes = u64::try_from(*bytes).ok()?;
                    let mut typed = self.typed(self.read(at, 1)?, depth)?;
                    typed.offset = typed.offset.checked_add(bytes)?;
                    let size = self.debug.types.size(typed.ty)?;
                    return (typed.offset < size).then_some(typed);
                }
                let (_, address, scale) = self.indexed(at)?;
                let mut typed = self.typed(address, depth)?;
                let (_, whole) = self.debug.types.resolve(typed.ty)?;
                let is_array = matches!(whole.kind, TypeKind::Array { .. });
                if typed.offset == 0 && !is_array && self.debug.types.size(typed.ty) == Some(scale)
                {
                    // From one object to another of the same kind.
                    typed.name.push_str("[]");
                    typed.joint = ".";
                    return Some(typed);
                }
                let (path, array) = if typed.offset == 0 && is_array {
                    (String::new(), typed.ty)
                } else {
                    self.array(&typed)?
                };
                let joint = if path.is_empty() { "" } else { typed.joint };
                Some(Typed {
                    ty: self.element(array, scale)?,
                    offset: 0,
                    is_generic: typed.is_generic,
                    name: format!("{}{joint}{path}[]", typed.name),
                    joint: ".",
                })
            }
            _ => None,
        }
    }

    /// The object at a place in the function's frame.
    fn object(&self, frame: &str, start: u64) -> Option<FrameObject> {
        let mut here = self
            .objects
            .iter()
            .filter(|object| object.frame == frame && object.offset == start);
        // Objects of different scopes may share a place.
        match (here.next(), here.next()) {
            (Some(object), None) => Some(object.clone()),
            _ => None,
        }
    }

    /// The frame that a value is the address of.
    fn frame(&self, value: ValueId) -> Option<&'a str> {
        let at = self.ssa.made_by(value)?;
        let opcode = &self.code.instructions[at].instruction.opcode;
        if opcode.text == "cvta.local.u64" {
            return self.frame(self.read(at, 1)?);
        }
        let references = self.code.references_of(at);
        let reference = references.iter().find(|reference| reference.operand == 1)?;
        let Referent::Symbol(symbol, 0) = reference.referent else {
            return None;
        };
        let symbol = &self.code.symbols[symbol.0 as usize];
        (opcode.mnemonic() == Mnemonic::Mov && symbol.space == SymbolSpace::Local)
            .then_some(symbol.name)
    }

    /// The address of an object in the function's frame.
    fn local(&self, at: usize, frame: crate::names::SymbolId, start: u32) -> Option<Typed> {
        let frame = self.code.symbols[frame.0 as usize].name;
        let object = self.object(frame, u64::from(start))?;
        let base = self.ssa.made_by(self.read(at, 1)?)?;
        let opcode = &self.code.instructions[base].instruction.opcode;
        Some(Typed {
            ty: object.ty,
            offset: 0,
            is_generic: opcode.mnemonic() == Mnemonic::Cvta && !opcode.has(Modifier::To),
            name: object.name,
            joint: ".",
        })
    }

    /// The address of a variable.
    fn variable(&self, at: usize) -> Option<Typed> {
        let reference = self
            .code
            .references_of(at)
            .iter()
            .find(|reference| reference.operand == 1)?;
        let Referent::Symbol(symbol, offset) = reference.referent else {
            return None;
        };
        let symbol = &self.code.symbols[symbol.0 as usize];
        let variable = self.debug.variables.get(symbol.name)?;
        Some(Typed {
            ty: variable.ty?,
            offset: u64::try_from(offset).ok()?,
            is_generic: symbol.space == SymbolSpace::Global,
            name: variable.name.clone(),
            joint: ".",
        })
    }

    /// A pointer that a function gets as a parameter, or that a field holds.
    fn loaded(&mut self, at: usize, depth: usize) -> Option<Typed> {
        let instruction = self.code.instructions[at].instruction;
        let (_, address) = instruction.address_operand()?;
        if instruction.opcode.types().any(|ty| ty.bytes() != 8) {
            return None;
        }
        let OperandKind::Name(target) = *self.operand(at, 0)? else {
            return None;
        };
        if instruction.opcode.has(Modifier::Param) {
            let function = self.code.function.name;
            let symbol = address.base.filter(|_| address.offset == 0)?;
            let local = self.debug.parameter(function, symbol).or_else(|| {
                // Functions get theirs in registers.
                let is_own = self
                    .code
                    .function
                    .parameters
                    .iter()
                    .any(|p| p.name == symbol);
                let locals = self.debug.functions.get(function).filter(|_| is_own)?;
                let in_it =
                    |place: &Place| matches!(place, Place::Register(name) if name == target);
                locals
                    .iter()
                    .find(|local| local.is_parameter && in_it(&local.place))
            })?;
            return self.pointer(local.ty?, local.name.clone());
        }
        let reference = self
            .code
            .references_of(at)
            .iter()
            .find(|reference| reference.role == Role::Address)?;
        let Referent::Wide(_) = reference.referent else {
            return None;
        };
        if let Some(frame) = self.frame(reference.value) {
            let object = self.object(frame, u64::try_from(address.offset).ok()?)?;
            return self.pointer(object.ty, object.name);
        }
        let typed = self.typed(reference.value, depth)?;
        let offset = typed.offset.checked_add_signed(address.offset)?;
        let (path, ty) = self.debug.types.scalar_at(typed.ty, offset)?;
        let joint = if path.is_empty() { "" } else { typed.joint };
        self.pointer(ty, format!("{}{joint}{path}", typed.name))
    }

    /// What a value of pointer type points to.
    fn pointer(&self, ty: TypeId, name: String) -> Option<Typed> {
        let (_, pointer) = self.debug.types.resolve(ty)?;
        let TypeKind::Pointer(Some(target)) = pointer.kind else {
            return None;
        };
        Some(Typed {
            ty: target,
            offset: 0,
            is_generic: true,
            name,
            joint: "->",
        })
    }
}
