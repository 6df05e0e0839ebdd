//! From DWARF entries to [`DebugInfo`].

use crate::sections::Sections;
use crate::{DebugInfo, Error, Local, Member, Place, Type, TypeId, TypeKind, Variable};
use gimli::{
    AttributeValue, DebuggingInformationEntry, DwAt, Dwarf, EndianSlice, LittleEndian, Operation,
    UnitOffset, constants as c,
};
use rustc_hash::FxHashMap;

type Slice<'i> = EndianSlice<'i, LittleEndian>;
type Entry<'i> = DebuggingInformationEntry<Slice<'i>>;
type Header<'i> = gimli::UnitHeader<Slice<'i>>;

pub(crate) fn read(sections: &Sections<'_>) -> Result<DebugInfo, Error> {
    let dwarf = Dwarf::load(|id| {
        Ok::<_, gimli::Error>(EndianSlice::new(sections.bytes(id.name()), LittleEndian))
    })?;
    let mut info = DebugInfo::default();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        // (The line table that the unit names is in `.loc`s, not in a section.)
        let abbreviations = dwarf.abbreviations(&header)?;
        let mut reader = Reader {
            sections,
            dwarf: &dwarf,
            header: &header,
            info: &mut info,
            numbers: FxHashMap::default(),
            open: Vec::new(),
        };
        reader.read(&abbreviations)?;
    }
    Ok(info)
}

/// An entry whose children are being read.
struct Open {
    depth: isize,
    kind: Scope,
}

#[derive(Clone)]
enum Scope {
    /// Its name in PTX.
    Function(Option<String>),
    Block(Option<(u32, u32)>),
    /// A struct, union or array.
    Type(TypeId),
    Other,
}

struct Reader<'r, 'i, 'a> {
    sections: &'r Sections<'a>,
    dwarf: &'r Dwarf<Slice<'i>>,
    header: &'r Header<'i>,
    info: &'r mut DebugInfo,
    numbers: FxHashMap<UnitOffset, TypeId>,
    open: Vec<Open>,
}

impl<'i> Reader<'_, 'i, '_> {
    fn read(&mut self, abbreviations: &gimli::Abbreviations) -> Result<(), Error> {
        let mut cursor = self.header.entries(abbreviations);
        while let Some(entry) = cursor.next_dfs()? {
            let depth = entry.depth();
            while self.open.last().is_some_and(|open| open.depth >= depth) {
                self.open.pop();
            }
            let kind = self.entry(entry);
            if entry.has_children() {
                self.open.push(Open { depth, kind });
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry<'i>) -> Scope {
        match entry.tag() {
            c::DW_TAG_subprogram => {
                let linkage = [c::DW_AT_linkage_name, c::DW_AT_MIPS_linkage_name]
                    .into_iter()
                    .find_map(|name| self.text(entry, name));
                let name = linkage.or_else(|| self.text(entry, c::DW_AT_name));
                if let Some(name) = &name {
                    self.info.functions.entry(name.clone()).or_default();
                }
                Scope::Function(name)
            }
            c::DW_TAG_lexical_block | c::DW_TAG_inlined_subroutine => {
                Scope::Block(self.range(entry))
            }
            c::DW_TAG_variable | c::DW_TAG_formal_parameter => {
                self.variable(entry);
                Scope::Other
            }
            c::DW_TAG_member | c::DW_TAG_inheritance => {
                self.member(entry);
                Scope::Other
            }
            c::DW_TAG_subrange_type => {
                self.subrange(entry);
                Scope::Other
            }
            tag => match self.kind_of(tag, entry) {
                Some(kind) => {
                    let id = self.number(entry.offset());
                    let ty = Type {
                        name: self.text(entry, c::DW_AT_name),
                        size: unsigned(entry, c::DW_AT_byte_size),
                        kind,
                    };
                    self.info.types.0[id.0 as usize] = ty;
                    Scope::Type(id)
                }
                None => Scope::Other,
            },
        }
    }

    fn kind_of(&mut self, tag: gimli::DwTag, entry: &Entry<'i>) -> Option<TypeKind> {
        Some(match tag {
            c::DW_TAG_base_type | c::DW_TAG_enumeration_type => TypeKind::Scalar,
            c::DW_TAG_pointer_type | c::DW_TAG_reference_type | c::DW_TAG_rvalue_reference_type => {
                TypeKind::Pointer(self.type_of(entry))
            }
            c::DW_TAG_typedef
            | c::DW_TAG_const_type
            | c::DW_TAG_volatile_type
            | c::DW_TAG_restrict_type => TypeKind::Alias(self.type_of(entry)),
            c::DW_TAG_array_type => TypeKind::Array {
                element: self.type_of(entry),
                count: None,
            },
            c::DW_TAG_structure_type | c::DW_TAG_class_type => TypeKind::Struct(Vec::new()),
            c::DW_TAG_union_type => TypeKind::Union(Vec::new()),
            c::DW_TAG_subroutine_type
            | c::DW_TAG_ptr_to_member_type
            | c::DW_TAG_unspecified_type => TypeKind::Other,
            _ => return None,
        })
    }

    /// A type's number; types may be named before they are defined.
    fn number(&mut self, offset: UnitOffset) -> TypeId {
        let types = &mut self.info.types.0;
        *self.numbers.entry(offset).or_insert_with(|| {
            types.push(Type {
                name: None,
                size: None,
                kind: TypeKind::Other,
            });
            TypeId(types.len() as u32 - 1)
        })
    }

    fn type_of(&mut self, entry: &Entry<'i>) -> Option<TypeId> {
        match entry.attr_value(c::DW_AT_type)? {
            AttributeValue::UnitRef(offset) => Some(self.number(offset)),
            AttributeValue::DebugInfoRef(offset) => {
                let offset = offset.to_unit_offset(self.header)?;
                Some(self.number(offset))
            }
            _ => None,
        }
    }

    fn text(&self, entry: &Entry<'i>, name: DwAt) -> Option<String> {
        let value = entry.attr_value(name)?;
        let text = value.string_value(&self.dwarf.debug_str)?;
        Some(text.to_string_lossy().into_owned())
    }

    fn range(&self, entry: &Entry<'i>) -> Option<(u32, u32)> {
        let AttributeValue::Addr(low) = entry.attr_value(c::DW_AT_low_pc)? else {
            return None;
        };
        let high = match entry.attr_value(c::DW_AT_high_pc)? {
            AttributeValue::Addr(high) => high,
            other => low.checked_add(other.udata_value()?)?,
        };
        let range = (u32::try_from(low).ok()?, u32::try_from(high).ok()?);
        (range.0 <= range.1).then_some(range)
    }

    fn variable(&mut self, entry: &Entry<'i>) {
        let Some(name) = self.text(entry, c::DW_AT_name) else {
            return;
        };
        let place = self.place(entry);
        let ty = self.type_of(entry);
        // 6 is local memory, 7 parameters (cuda-gdb's address classes).
        let class = unsigned(entry, c::DW_AT_address_class);
        let function = self.open.iter().rev().find_map(|open| match &open.kind {
            Scope::Function(name) => Some(name.clone()),
            _ => None,
        });
        match (function.flatten(), place) {
            (
                _,
                Place::Symbol {
                    name: symbol,
                    offset: 0,
                },
            ) if matches!(class, Some(4 | 5 | 8)) => {
                self.info.variables.insert(symbol, Variable { name, ty });
            }
            (Some(function), place) => {
                let scope = self.open.iter().rev().find_map(|open| match &open.kind {
                    Scope::Block(range) => *range,
                    _ => None,
                });
                let is_parameter = entry.tag() == c::DW_TAG_formal_parameter;
                let local = Local {
                    name,
                    ty,
                    is_parameter,
                    place,
                    scope,
                };
                self.info.functions.entry(function).or_default().push(local);
            }
            (None, _) => {}
        }
    }

    fn place(&self, entry: &Entry<'i>) -> Place {
        let expression = match entry.attr_value(c::DW_AT_location) {
            Some(AttributeValue::Exprloc(expression)) => expression,
            Some(AttributeValue::Block(bytes)) => gimli::Expression(bytes),
            _ => return Place::Elsewhere,
        };
        if let Some(name) = register_name(expression.0.slice()) {
            return Place::Register(name);
        }
        let mut operations = expression.operations(self.header.encoding());
        // What cannot be read is in no place that is known.
        let mut next = || operations.next().unwrap_or(Some(Operation::Nop));
        let Some(Operation::Address { address }) = next() else {
            return Place::Elsewhere;
        };
        let offset = match (next(), next()) {
            (None, None) => 0,
            (Some(Operation::PlusConstant { value }), None) => value,
            _ => return Place::Elsewhere,
        };
        match self.sections.symbol(address) {
            Some(name) => Place::Symbol {
                name: name.to_string(),
                offset,
            },
            None => Place::Elsewhere,
        }
    }

    fn member(&mut self, entry: &Entry<'i>) {
        let Some(Open {
            kind: Scope::Type(id),
            ..
        }) = self.open.last()
        else {
            return;
        };
        let id = *id;
        let offset = match entry.attr_value(c::DW_AT_data_member_location) {
            None => Some(0),
            Some(AttributeValue::Exprloc(expression)) => self.member_offset(expression),
            Some(AttributeValue::Block(bytes)) => self.member_offset(gimli::Expression(bytes)),
            Some(other) => other.udata_value(),
        };
        let member = Member {
            name: self.text(entry, c::DW_AT_name).unwrap_or_default(),
            // A static member lies elsewhere, a virtual base wherever.
            offset: match offset {
                Some(offset) if entry.attr_value(c::DW_AT_external).is_none() => offset,
                _ => return,
            },
            ty: self.type_of(entry),
            is_bit_field: entry.attr_value(c::DW_AT_bit_size).is_some(),
        };
        if let TypeKind::Struct(members) | TypeKind::Union(members) =
            &mut self.info.types.0[id.0 as usize].kind
        {
            members.push(member);
        }
    }

    fn member_offset(&self, expression: gimli::Expression<Slice<'i>>) -> Option<u64> {
        let mut operations = expression.operations(self.header.encoding());
        match (operations.next().ok()?, operations.next().ok()?) {
            (Some(Operation::PlusConstant { value }), None) => Some(value),
            _ => None,
        }
    }

    /// An array has one subrange for each dimension; the inner ones become
    /// arrays of their own.
    fn subrange(&mut self, entry: &Entry<'i>) {
        let Some(Open {
            kind: Scope::Type(id),
            ..
        }) = self.open.last()
        else {
            return;
        };
        let mut id = *id;
        let count = unsigned(entry, c::DW_AT_count)
            .or_else(|| unsigned(entry, c::DW_AT_upper_bound).and_then(|last| last.checked_add(1)));
        // EDG writes 0 for a length that is open.
        let new = Some(count.unwrap_or(0));
        let types = &mut self.info.types.0;
        // Down to the innermost dimension known so far.
        loop {
            let TypeKind::Array { element, count } = &mut types[id.0 as usize].kind else {
                return;
            };
            if count.is_none() {
                *count = new;
                return;
            }
            let inner = *element;
            let made = inner.is_some_and(|inner| {
                types
                    .get(inner.0 as usize)
                    .is_some_and(|ty| ty.name.as_deref() == Some(DIMENSION))
            });
            if made {
                id = inner.unwrap_or(id);
                continue;
            }
            let next = TypeId(types.len() as u32);
            types.push(Type {
                name: Some(DIMENSION.into()),
                size: None,
                kind: TypeKind::Array {
                    element: inner,
                    count: new,
                },
            });
            if let TypeKind::Array { element, .. } = &mut types[id.0 as usize].kind {
                *element = Some(next);
            }
            return;
        }
    }
}

/// Name of the types of inner dimensions, which no program can use.
const DIMENSION: &str = "[]";

fn unsigned(entry: &Entry<'_>, name: DwAt) -> Option<u64> {
    let value = entry.attr_value(name)?;
    value.udata_value().or(match value {
        AttributeValue::AddressClass(class) => Some(class.0),
        _ => None,
    })
}

/// The compiler writes a register as `DW_OP_regx` with a number made of the
/// characters of its name (CUDA Debugger API, "virtual registers").
fn register_name(expression: &[u8]) -> Option<String> {
    let (operation, digits) = expression.split_first()?;
    if *operation != c::DW_OP_regx.0 {
        return None;
    }
    let mut number = 0u64;
    for (index, byte) in digits.iter().enumerate().take(9) {
        number |= u64::from(byte & 0x7f) << (7 * index);
    }
    let name = number.to_be_bytes();
    let start = name.iter().position(|byte| *byte != 0)?;
    let text = std::str::from_utf8(&name[start..]).ok()?;
    text.starts_with('%').then(|| text.to_string())
}
