//! Types, as far as they say where fields and elements lie.

/// Number of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Name, where it has one.
    pub name: Option<String>,
    /// Bytes, where it says so; see [`Types::size`].
    pub size: Option<u64>,
    /// What it is.
    pub kind: TypeKind,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// A number, an enumeration, …: nothing inside.
    Scalar,
    /// A pointer or reference.
    Pointer(Option<TypeId>),
    /// Another name of a type, or the type with `const` or the like.
    Alias(Option<TypeId>),
    /// An array of a type; the number of elements is `None` if the DWARF does
    /// not give it.
    Array {
        /// The element.
        element: Option<TypeId>,
        /// How many.
        count: Option<u64>,
    },
    /// A struct or class; base classes are members without a name.
    Struct(Vec<Member>),
    /// A union.
    Union(Vec<Member>),
    /// Anything else.
    Other,
}

/// A field of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name; empty if it has none.
    pub name: String,
    /// Bytes from the start of the whole.
    pub offset: u64,
    /// Its type.
    pub ty: Option<TypeId>,
    /// It is a bit field.
    pub is_bit_field: bool,
}

/// All types of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Types(pub(crate) Vec<Type>);

/// How deep types are followed. No real program nests deeper, and in damaged
/// debug information a type may contain itself.
const DEPTH: usize = 32;

impl Types {
    /// The type of that number.
    pub fn get(&self, id: TypeId) -> Option<&Type> {
        self.0.get(id.0 as usize)
    }

    /// The type behind names and qualifiers.
    pub fn resolve(&self, mut id: TypeId) -> Option<(TypeId, &Type)> {
        for _ in 0..DEPTH {
            let ty = self.get(id)?;
            match ty.kind {
                TypeKind::Alias(Some(next)) => id = next,
                TypeKind::Alias(None) => return None,
                _ => return Some((id, ty)),
            }
        }
        None
    }

    /// Bytes of a type; for an array the product, 0 if its length is open.
    pub fn size(&self, id: TypeId) -> Option<u64> {
        let mut factor = 1u64;
        let mut id = id;
        for _ in 0..DEPTH {
            let (_, ty) = self.resolve(id)?;
            match ty.kind {
                TypeKind::Array { element, count } => {
                    factor = factor.checked_mul(count.unwrap_or(0))?;
                    id = element?;
                }
                TypeKind::Pointer(_) => return factor.checked_mul(ty.size.unwrap_or(8)),
                _ => return factor.checked_mul(ty.size?),
            }
        }
        None
    }

    /// The field of array type that starts exactly at an offset in a struct,
    /// with the names on the way to it. `None` where a union, a bit field or
    /// two candidates make it ambiguous, for an open array, and for a struct's
    /// first field, whose address is the struct's own.
    pub fn array_at(&self, id: TypeId, offset: u64) -> Option<(String, TypeId)> {
        self.walk(id, offset, true)
    }

    /// The scalar (number or pointer) at an offset in a type, with the names on
    /// the way to it.
    pub fn scalar_at(&self, id: TypeId, offset: u64) -> Option<(String, TypeId)> {
        self.walk(id, offset, false)
    }

    fn walk(&self, id: TypeId, offset: u64, to_array: bool) -> Option<(String, TypeId)> {
        let mut path = String::new();
        let (mut id, mut offset) = (id, offset);
        // The address of a first field is its struct's address, too.
        let mut is_first = true;
        for _ in 0..DEPTH {
            // Members and elements may be said to lie where the whole ends.
            if self.size(id).is_some_and(|size| offset >= size) {
                return None;
            }
            let (_, ty) = self.resolve(id)?;
            match &ty.kind {
                TypeKind::Struct(members) => {
                    let mut holding = members.iter().filter(|member| {
                        let size = member.ty.and_then(|ty| self.size(ty)).unwrap_or(0);
                        let within = offset.checked_sub(member.offset);
                        within.is_some_and(|within| within < size)
                    });
                    let (Some(member), None) = (holding.next(), holding.next()) else {
                        return None;
                    };
                    if member.is_bit_field {
                        return None;
                    }
                    if !member.name.is_empty() {
                        if !path.is_empty() {
                            path.push('.');
                        }
                        path.push_str(&member.name);
                    }
                    offset -= member.offset;
                    is_first = member.offset == 0;
                    id = member.ty?;
                }
                TypeKind::Array { element, .. } => {
                    if to_array && offset == 0 {
                        return (!is_first).then_some((path, id));
                    }
                    let element = (*element)?;
                    let size = self.size(element).filter(|size| *size > 0)?;
                    path.push_str(&format!("[{}]", offset / size));
                    offset %= size;
                    is_first = true;
                    id = element;
                }
                TypeKind::Scalar | TypeKind::Pointer(_) if !to_array && offset == 0 => {
                    return Some((path, id));
                }
                _ => return None,
            }
        }
        None
    }
}
