//! The statement and scope tree. Every node borrows the source and has a span.

use crate::{Modifier, Opcode, Span};

/// A whole PTX file.
#[derive(Clone, Debug)]
pub struct Module<'a> {
    /// The text that was parsed, unchanged.
    pub source: &'a str,
    /// `.version major.minor`.
    pub version: (u32, u32),
    /// `.target` words: `sm_90`, `debug`, `texmode_independent`, …
    pub target: Vec<&'a str>,
    /// `.address_size` in bits.
    pub address_size: u32,
    /// Everything at file scope, in order.
    pub items: Vec<Item<'a>>,
}

/// Something at file scope.
#[derive(Clone, Debug)]
pub enum Item<'a> {
    /// `.version`, `.target`, `.address_size`; their values are in [`Module`].
    Header(Span),
    /// `.file index "name"…`
    File(File<'a>),
    /// A variable in `.global`, `.const`, `.shared`, …
    Variable(Variable<'a>),
    /// `.entry` or `.func`, declared or defined.
    Function(Function<'a>),
    /// `.section … { … }`, `.pragma`, `.alias`, and directives that are not
    /// known: kept as text.
    Other(Span),
}

/// `.file`
#[derive(Clone, Debug)]
pub struct File<'a> {
    /// Number that `.loc` refers to.
    pub index: u32,
    /// Name, without quotes.
    pub name: &'a str,
    /// The directive.
    pub span: Span,
}

/// Linkage of a function or variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// None given: local to the file.
    Local,
    /// `.visible`
    Visible,
    /// `.extern`
    Extern,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

/// `.entry` or `.func`.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    /// `.entry` rather than `.func`.
    pub is_entry: bool,
    /// Linkage.
    pub linkage: Linkage,
    /// Name.
    pub name: &'a str,
    /// Place of the name.
    pub name_span: Span,
    /// Return parameters of a `.func`.
    pub returns: Vec<Variable<'a>>,
    /// Parameters.
    pub parameters: Vec<Variable<'a>>,
    /// From `(` to `)` of the parameter list; `None` if there is no list.
    pub parameter_list: Option<Span>,
    /// `.maxntid`, `.reqntid`, `.minnctapersm`, `.noreturn`, … as text, in
    /// order, each with its arguments.
    pub directives: Vec<Directive<'a>>,
    /// Body; `None` for a declaration.
    pub body: Option<Block<'a>>,
    /// The whole function.
    pub span: Span,
}

/// A directive with its arguments, as text.
#[derive(Clone, Debug)]
pub struct Directive<'a> {
    /// With the dot: `.maxntid`.
    pub name: &'a str,
    /// Text after the name.
    pub arguments: &'a str,
    /// The whole directive.
    pub span: Span,
}

/// A state space that variables are declared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VariableSpace {
    /// `.reg`
    Reg,
    /// `.sreg`
    Sreg,
    /// `.const`, `.const[n]`
    Const,
    /// `.global`
    Global,
    /// `.local`
    Local,
    /// `.param`
    Param,
    /// `.shared`
    Shared,
    /// `.tex`
    Tex,
}

/// A variable, parameter or register declaration. `.reg .b32 %r<5>, %x;`
/// becomes one `Variable` per name, all with the same `span`.
#[derive(Clone, Debug)]
pub struct Variable<'a> {
    /// State space.
    pub space: VariableSpace,
    /// Linkage.
    pub linkage: Linkage,
    /// `.align`, in bytes.
    pub align: Option<u32>,
    /// `.v2`, `.v4`: elements of the vector; 1 without.
    pub vector: u32,
    /// Element type.
    pub ty: Type,
    /// Name. For `%r<5>`, `%r`.
    pub name: &'a str,
    /// Place of the name.
    pub name_span: Span,
    /// `%r<5>`: 5, which declares `%r0` to `%r4`.
    pub range: Option<u32>,
    /// Array dimensions, outermost first; `Some(0)`-like `[]` is `None`.
    pub dimensions: Vec<Option<u64>>,
    /// Text after `=`, if any.
    pub initializer: Option<Span>,
    /// `.ptr` attribute of an entry parameter.
    pub is_pointer: bool,
    /// Anything is declared of it but space, alignment, vector and type: `.ptr`,
    /// `.attribute`, and what later versions of PTX add.
    pub has_attributes: bool,
    /// The whole declaration, with `;` where there is one.
    pub span: Span,
}

impl Variable<'_> {
    /// Size in bytes, or `None` for an array without a length.
    pub fn size(&self) -> Option<u64> {
        let mut size = u64::from(self.ty.bytes()) * u64::from(self.vector);
        for dimension in &self.dimensions {
            size = size.checked_mul((*dimension)?)?;
        }
        Some(size)
    }

    /// Alignment in bytes: `.align`, or the natural one of its type.
    pub fn alignment(&self) -> u32 {
        self.align
            .unwrap_or(self.ty.bytes().max(1) * self.vector.max(1))
    }
}

/// A fundamental, packed or opaque type (PTX ISA, 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    BF16,
    BF16x2,
    TF32,
    F32,
    F32x2,
    F64,
    U16x2,
    S16x2,
    E4M3,
    E5M2,
    E4M3x2,
    E5M2x2,
    E2M3,
    E3M2,
    E2M1,
    UE8M0,
    E2M3x2,
    E3M2x2,
    E2M1x2,
    UE8M0x2,
    E4M3x4,
    E5M2x4,
    E2M3x4,
    E3M2x4,
    E2M1x4,
    Texref,
    Samplerref,
    Surfref,
}

/// `{ … }` of a function, or a nested scope.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    /// Statements in order.
    pub statements: Vec<Statement<'a>>,
    /// From `{` to `}`.
    pub span: Span,
}

/// Something inside a body.
#[derive(Clone, Debug)]
pub enum Statement<'a> {
    /// `name:`
    Label(Label<'a>),
    /// An instruction, known or not.
    Instruction(Instruction<'a>),
    /// `.reg`, `.local`, `.shared`, `.param`, …
    Variable(Variable<'a>),
    /// A nested scope.
    Block(Block<'a>),
    /// `.loc`
    Loc(Loc<'a>),
    /// `.pragma "…";`
    Pragma(Span),
    /// `name: .branchtargets a, b;` or `name: .calltargets f, g;`
    Targets(Targets<'a>),
    /// `name: .callprototype …;`
    CallPrototype(CallPrototype<'a>),
    /// A directive that is not known: kept as text.
    Other(Span),
}

/// `name:`
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    /// Without the colon.
    pub name: &'a str,
    /// With the colon.
    pub span: Span,
}

/// `.loc file line column [, function_name label [+ n], inlined_at …]`
#[derive(Clone, Debug)]
pub struct Loc<'a> {
    /// Refers to [`File::index`].
    pub file: u32,
    /// Line, from 1; 0 is "none".
    pub line: u32,
    /// Column.
    pub column: u32,
    /// `inlined_at file line column`.
    pub inlined_at: Option<(u32, u32, u32)>,
    /// Text after the three numbers.
    pub rest: &'a str,
    /// The directive, without the newline.
    pub span: Span,
}

/// `.branchtargets` or `.calltargets`
#[derive(Clone, Debug)]
pub struct Targets<'a> {
    /// Label before it.
    pub label: &'a str,
    /// Names listed.
    pub names: Vec<&'a str>,
    /// The statement with its label.
    pub span: Span,
}

/// `.callprototype`
#[derive(Clone, Debug)]
pub struct CallPrototype<'a> {
    /// Label before it.
    pub label: &'a str,
    /// Return parameters.
    pub returns: Vec<Variable<'a>>,
    /// Parameters.
    pub parameters: Vec<Variable<'a>>,
    /// The statement with its label.
    pub span: Span,
}

/// `@p` or `@!p`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard<'a> {
    /// `@!p`
    pub negated: bool,
    /// Predicate register.
    pub register: &'a str,
    /// With the `@`.
    pub span: Span,
}

/// `@p opcode.mod.mod operands;`
#[derive(Clone, Debug)]
pub struct Instruction<'a> {
    /// Guard.
    pub guard: Option<Guard<'a>>,
    /// The opcode token as written: `ld.global.f32`, `setp.lt.and.s32`.
    pub opcode: Opcode<'a>,
    /// Operands in the order written. A `|` pair (`%p|%q`) is one operand of
    /// kind [`OperandKind::Pair`]. For `call`: return list, callee, argument
    /// list, prototype or targets label, each where present.
    pub operands: Vec<Operand<'a>>,
    /// From the guard to the `;`.
    pub span: Span,
}

/// An operand with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand<'a> {
    /// What it is.
    pub kind: OperandKind<'a>,
    /// Its place.
    pub span: Span,
}

/// What an operand is. Registers, special registers, variables, functions and
/// labels are all names: the scope distinguishes them.
#[derive(Clone, Debug, PartialEq)]
pub enum OperandKind<'a> {
    /// A name, with a component suffix kept: `%r1`, `%tid.x`, `$L__BB0_1`,
    /// `counter`, `WARP_SZ`.
    Name(&'a str),
    /// `sym+4` outside brackets, as in `mov.u64 %rd1, sym+4`.
    NameOffset(&'a str, i64),
    /// `!%p`
    Not(&'a str),
    /// `%p|%q`; either side may be `_`.
    Pair(&'a str, &'a str),
    /// An integer literal, as its 64 bits.
    Integer(i64),
    /// `0f3F800000`, as bits.
    F32(u32),
    /// `0d3FF0000000000000` or a decimal like `1.5`, as bits.
    F64(u64),
    /// `_`
    Sink,
    /// `{a, b, c, d}`
    Vector(Vec<Operand<'a>>),
    /// `[base+offset]`; also a texture's or tensor's `[name, {x, y}]`.
    Address(Address<'a>),
    /// `(a, b)` of a call.
    List(Vec<Operand<'a>>),
    /// A string literal, with its quotes, and anything else: kept as text.
    Text(&'a str),
}

/// `[base+offset]`
#[derive(Clone, Debug, PartialEq)]
pub struct Address<'a> {
    /// Register or variable; `None` for `[imm]`.
    pub base: Option<&'a str>,
    /// Place of the base name.
    pub base_span: Span,
    /// Sum of the constant terms.
    pub offset: i64,
    /// Coordinates of a tensor or texture address, after the first comma.
    pub coordinates: Vec<Operand<'a>>,
}

impl Type {
    /// The type that a modifier (without its dot) names.
    pub fn from_modifier(text: &str) -> Option<Type> {
        Modifier::of(text).ty()
    }

    /// Size in bytes. `.pred` has none: 0.
    pub fn bytes(self) -> u32 {
        use Type::*;
        match self {
            Pred => 0,
            B8 | U8 | S8 | E4M3 | E5M2 | E2M3 | E3M2 | E2M1 | UE8M0 | E2M1x2 => 1,
            B16 | U16 | S16 | F16 | BF16 | E4M3x2 | E5M2x2 | E2M3x2 | E3M2x2 | UE8M0x2 | E2M1x4 => {
                2
            }
            B32 | U32 | S32 | F32 | TF32 | F16x2 | BF16x2 | U16x2 | S16x2 | E4M3x4 | E5M2x4
            | E2M3x4 | E3M2x4 => 4,
            B64 | U64 | S64 | F64 | F32x2 | Texref | Samplerref | Surfref => 8,
            B128 => 16,
        }
    }
}
