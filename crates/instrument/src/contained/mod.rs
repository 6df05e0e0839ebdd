//! Judges whether PTX is contained: whatever it computes, no access leaves the
//! partition that its table describes (`model::layout::fence`), or the shared
//! memory, frame or constant variable that it is for. It shares no code with
//! the pass `fence`; its input may come from an attacker.
//!
//! Of a module that is accepted, in every launch, for all that registers and
//! memory may hold:
//!
//! 1. **Each access goes where its space allows.** In global memory: to a
//!    register whose value is in the partition, plus what the text bounds, at
//!    most `REACH` in either direction together with the constant, with at most
//!    `EXTENT` bytes; so it stays in the partition and its margins. In shared
//!    memory: behind what the system reserves and before
//!    the end of what the block has, and only where the block has so much. In a
//!    frame and in constant memory: inside a variable that is declared. In
//!    parameters: at a constant place inside one. A pointer into the frame of a
//!    caller stays in the one variable of its kernel that holds all frames
//!    (`frames`).
//! 2. **Each access is aligned** as the instruction table says, and in a space that
//!    it is possible in: no atomic operation, and none with an order, is in a
//!    frame. Barriers, counts of threads and masks of lanes are ones that the
//!    device has.
//! 3. **No way around.** The value of an address register comes from a complete
//!    fence that stands before its access without a label, a branch or a scope
//!    between them: no jump enters it. Or it is the same register wherever its
//!    name stands, all instructions that write it make addresses near the
//!    partition, and one of them is executed before the access on every path
//!    (`invariants`). What a body computes once is computed in its head, before
//!    any label or branch but those of known sequences (`intro`), and nothing
//!    else writes it. Sequences that are known letter by letter (`idiom`) need no
//!    fence; what they write to registers counts like any other write.
//! 4. **Control stays in the module.** Branches go to labels, calls to functions
//!    of the module that are judged, too; none calls itself, so that stacks have
//!    a bound that the compiler knows.
//! 5. **Kernels end** once the host has said so: each thread then executes a
//!    bounded number of instructions. The argument is in `ends`.
//!    Barriers are such that all that are left of a block open them (`lanes`, `waits`).
//! 6. **Nothing that others left is read**: registers, parameters of functions,
//!    shared and local memory are written first. The argument is in `residue`.
//! 7. **Nothing else is there.** Instructions, directives, declarations and
//!    special registers are those of lists; what is on none is refused. So is what
//!    the compiler or the caches would believe unchecked: functions that are said
//!    not to return, pointers that are said to be aligned, policies for caches,
//!    and `discard`, after which memory may show what it held before.
//!
//! # What is believed
//!
//! * `ptx`: the parser; the rows of `ptx::table`: which operands are written,
//!   which are addresses, their bytes and alignment.
//! * `model::layout::fence`, and that the host fills the table of a partition
//!   that has margins, gives blocks the shared memory that the answer names
//!   ([`Contained::rooms`]), and says in the table when grids may be large
//!   ([`Contained::grids`]).
//! * ptxas and the driver: that they compile PTX as the ISA says, check types and
//!   names, and place frames and return addresses apart.
//!
//! # What is not refused
//!
//! Kernels whose threads may wait for each other for ever in instructions for several
//! lanes of a warp: what the answer says of each is proved (`waits`), and the host
//! decides which run.

mod counted;
mod dominance;
mod ends;
mod flow;
mod frames;
mod function;
mod idiom;
mod intro;
mod invariants;
mod known;
mod lanes;
mod names;
mod reach;
mod residue;
mod rows;
mod uniform;
mod variables;
mod waits;
mod whole;

use crate::verify::VerifyError;
use function::Functions;
use model::layout::fence as layout;
use ptx::{Item, Linkage, Module, Span, Type, Value, VariableSpace};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use variables::Variables;
pub use waits::{Ends, Waiting};
use whole::Found;

/// PTX that is contained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contained {
    /// The kernels of which not all launches are proved to end, because threads may
    /// wait for each other for ever.
    pub waiting: Vec<Waiting>,
    /// The kernels whose blocks the host must give so many bytes of shared memory, or
    /// more: at most [`layout::ROOM`].
    pub rooms: Vec<(String, u64)>,
    /// The kernels of which no grid of so many blocks, or more, may be launched before the
    /// table says that grids may be large ([`layout::FenceTable::is_large`]).
    pub grids: Vec<(String, u64)>,
}

/// Checks that PTX is contained.
///
/// # Errors
///
/// All that is not, in the order of the text.
pub fn verify_contained(text: &str) -> Result<Contained, Vec<VerifyError>> {
    let module = match ptx::parse(text) {
        Ok(module) => module,
        Err(all) => {
            let errors = all.iter().map(|error| VerifyError {
                message: format!("it cannot be parsed: {}", error.message),
                line: error.position.line,
            });
            return Err(errors.collect());
        }
    };
    let mut errors = Errors {
        text,
        list: Vec::new(),
    };
    let found = judge(&module, &mut errors);
    errors.into_result()?;
    let Found {
        mut waiting,
        rooms,
        grids,
    } = found;
    waiting.sort_by_key(|(offset, _)| *offset);
    let waiting = with_lines(text, waiting).map(|(line, (kernel, ends))| Waiting {
        kernel: kernel.to_owned(),
        line,
        ends,
    });
    let named = |list: Vec<(&str, u64)>| -> Vec<(String, u64)> {
        let named = list.into_iter();
        named
            .map(|(name, number)| (name.to_owned(), number))
            .collect()
    };
    Ok(Contained {
        waiting: waiting.collect(),
        rooms: named(rooms),
        grids: named(grids),
    })
}

/// Errors with places.
struct Errors<'t> {
    text: &'t str,
    /// Offsets in the text, and messages.
    list: Vec<(u32, String)>,
}

impl Errors<'_> {
    fn at(&mut self, span: Span, message: impl Into<String>) {
        self.list.push((span.start, message.into()));
    }

    /// All, in the order of the text.
    fn into_result(mut self) -> Result<(), Vec<VerifyError>> {
        if self.list.is_empty() {
            return Ok(());
        }
        self.list.sort_by_key(|(offset, _)| *offset);
        let errors =
            with_lines(self.text, self.list).map(|(line, message)| VerifyError { message, line });
        Err(errors.collect())
    }
}

/// Lines, from 1, of offsets in a text that do not descend.
fn with_lines<T>(text: &str, list: Vec<(u32, T)>) -> impl Iterator<Item = (u32, T)> {
    let (mut line, mut counted) = (1, 0);
    list.into_iter().map(move |(offset, of)| {
        let end = (offset as usize).clamp(counted, text.len());
        let breaks = text.as_bytes()[counted..end].iter();
        line += breaks.filter(|byte| **byte == b'\n').count() as u32;
        counted = end;
        (line, of)
    })
}

fn judge<'a>(module: &Module<'a>, errors: &mut Errors<'_>) -> Found<'a> {
    if module.address_size != 64 {
        errors.at(Span::default(), "addresses have no 64 bits");
    }
    let mut variables = Variables::new();
    let mut table = None;
    for item in &module.items {
        match item {
            Item::Variable(variable) => {
                if variable.name == layout::VARIABLE {
                    table = Some(variable);
                } else {
                    file_variable(variable, &mut variables, module.source, errors);
                }
            }
            Item::Other(span) => errors.at(*span, "a directive that is not allowed"),
            Item::Header(_) | Item::File(_) | Item::Function(_) => {}
        }
    }
    let bytes = u64::from(layout::VARIABLES) + 8 * variables.in_table() as u64;
    let is_right = |variable: &ptx::Variable<'_>| {
        variable.space == VariableSpace::Const
            && variable.linkage == Linkage::Local
            && variable.initializer.is_none()
            && variable.alignment() >= 8
            && variable.size() == Some(bytes)
    };
    if !table.is_some_and(is_right) {
        errors.at(
            table.map_or_else(Span::default, |variable| variable.span),
            format!("no table of {bytes} constant bytes"),
        );
    }
    variables.frames = frames::of(module, errors);
    let variables = Rc::new(variables);
    let functions = Functions::of(module, errors);
    let bodies = whole::bodies(module);
    let mut shared = FxHashMap::default();
    let mut rest = bodies.iter().peekable();
    for function in module.functions() {
        let body = rest.next_if(|body| std::ptr::eq(body.function, function));
        let sequences = body
            .map(|body| body.sequences(module.source))
            .unwrap_or_default();
        if let Some(room) = functions.judge(function, &variables, &sequences, errors) {
            shared.insert(function.name, room);
        }
    }
    whole::judge(&bodies, &shared, module.source, errors)
}

/// A variable at file scope.
fn file_variable<'a>(
    variable: &ptx::Variable<'a>,
    variables: &mut Variables<'a>,
    source: &str,
    errors: &mut Errors<'_>,
) {
    let is_own = matches!(variable.linkage, Linkage::Local | Linkage::Visible)
        && !matches!(variable.ty, Type::Texref | Type::Samplerref | Type::Surfref);
    let is_allowed = match variable.space {
        VariableSpace::Global => is_own && variable.size().is_some() && variable.ty.bytes() > 0,
        VariableSpace::Const => is_own && variable.size().is_some(),
        VariableSpace::Shared => true,
        _ => false,
    };
    if !is_allowed || variable.has_attributes {
        errors.at(
            variable.span,
            format!("`{}` is a variable that is not allowed", variable.name),
        );
    }
    // An address of the module's own memory, which is not in the partition, is
    // of no use to an access; but what it would mean to the program is not what
    // the host makes of it.
    match variable.initial_value(source) {
        Ok(None) => {}
        Ok(Some(value)) if !names(&value) => {}
        _ => errors.at(
            variable.span,
            format!("`{}` is initialized with an address", variable.name),
        ),
    }
    if !variables.add(variable) {
        let message = format!("`{}` is declared more than once", variable.name);
        errors.at(variable.span, message);
    }
}

fn names(value: &Value) -> bool {
    match value {
        Value::Symbol { .. } => true,
        Value::List(list) => list.iter().any(names),
        _ => false,
    }
}
