//! What C headers declare: types with their sizes and offsets, functions, and
//! the values of enumerators and macros. `read.rs` gets all of it from
//! libclang; each generator chooses what it writes, and how.

mod read;

pub use read::Source;

/// A C type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Void,
    /// The name of a primitive type of Rust.
    Primitive(&'static str),
    /// A typedef.
    Named(String),
    /// A struct, union or enum, by its tag.
    Tagged(String),
    Pointer {
        constant: bool,
        to: Box<Type>,
    },
    Array {
        of: Box<Type>,
        length: usize,
    },
    /// A pointer to a function.
    Function(Box<Signature>),
    /// A struct or union that is defined where it is used.
    Record(Box<Record>),
}

/// What a function takes and returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    pub result: Type,
    /// Name, empty where the header gives none, and type.
    pub parameters: Vec<(String, Type)>,
}

/// A struct or union.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub union: bool,
    pub size: usize,
    pub align: usize,
    /// Whether the header asks for more alignment than the fields have.
    pub over_aligned: bool,
    pub fields: Vec<Field>,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// `None`: the fields of this record are used as the outer record's own.
    pub name: Option<String>,
    pub ty: Type,
    /// In bytes, from the start of the record that declares it.
    pub offset: usize,
}

/// The names of a struct, union or enum.
#[derive(Clone, Debug, PartialEq)]
pub struct Names {
    pub tag: Option<String>,
    /// The typedef that contains the definition: `typedef struct { … } name;`.
    pub typedef: Option<String>,
}

/// A declaration.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Alias {
        name: String,
        of: Type,
    },
    Enum {
        names: Names,
        /// Name and value of each enumerator.
        values: Vec<(String, i64)>,
    },
    Record {
        names: Names,
        record: Record,
    },
    Function(Function),
}

/// The declaration of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub name: String,
    pub signature: Signature,
}

/// A macro without parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Macro {
    pub name: String,
    /// The name of the file that defines it.
    pub file: String,
    /// The tokens of its definition.
    pub body: Vec<String>,
}

/// What headers declare, in their order.
#[derive(Debug, Default)]
pub struct Header {
    pub items: Vec<Item>,
    pub macros: Vec<Macro>,
}
