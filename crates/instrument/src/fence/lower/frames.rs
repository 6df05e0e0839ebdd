//! All frames of a thread lie in one variable of its kernel.
//!
//! A function that calls others can pass pointers into its frame. Where frames
//! are variables of their own, the callee cannot say what such a pointer may
//! reach, and between them lie return addresses and spilled registers. So the
//! kernel declares one variable that is large enough for the frames of every
//! chain of calls, and each function gets its address and that of its own frame:
//!
//! ```text
//! .func f(.param .b64 a)  =>  .func f(.reg .b64 STACK, .reg .b64 FRAME, .param .b64 a)
//! call f, (x);            =>  call f, (STACK, NEXT, x);     NEXT = FRAME + size of the frame
//! ```
//!
//! A fence then forces any address in local memory into that variable, which
//! holds nothing but the thread's own objects.

use super::super::refuse::Refusals;
use crate::patch::put;
use analysis::end_of_declarations;
use model::layout::fence::{FRAMES, STACK};
use ptx::{
    Edits, Function, Instruction, Module, Operand, OperandKind, Span, Statement, Variable,
    VariableSpace,
};
use rustc_hash::FxHashMap;

/// The parameter that holds the address of a function's own frame.
const FRAME: &str = "%__rf_frame";
/// The address of the frame of what a function calls.
const NEXT: &str = "%__rf_next";
/// The address of an object of the frame; its number follows.
const OBJECT: &str = "%__rf_object";

/// What frames are aligned to, at least.
const ALIGNMENT: u64 = 16;

/// The objects of a function's frame and their offsets.
#[derive(Debug, Default)]
struct Layout<'f, 'a> {
    objects: Vec<(&'f Variable<'a>, u64)>,
    size: u64,
}

/// The bytes of the variable that holds the frames of a lowered module.
pub(in super::super) fn frames_size(module: &Module<'_>) -> Option<u64> {
    let mut sizes = module.functions().flat_map(|function| {
        let variables = function.statements().filter_map(|(_, s)| match s {
            Statement::Variable(variable) if variable.name == FRAMES => variable.size(),
            _ => None,
        });
        variables.collect::<Vec<_>>()
    });
    sizes.next()
}

/// Merges the frames of a module, if a function with a frame calls another.
pub(super) fn merge(module: &Module<'_>, refusals: &mut Refusals<'_>) -> Option<String> {
    let defined: FxHashMap<&str, &Function<'_>> = module
        .functions()
        .filter(|function| function.body.is_some())
        .map(|function| (function.name, function))
        .collect();
    let is_needed = defined
        .values()
        .any(|function| !locals(function).is_empty() && calls(function, &defined).next().is_some());
    if !is_needed {
        return None;
    }
    let alignment = defined
        .values()
        .flat_map(|function| locals(function))
        .map(|variable| u64::from(variable.alignment()))
        .fold(ALIGNMENT, u64::max);
    let mut layouts = FxHashMap::default();
    for function in defined.values() {
        match layout(function, alignment) {
            Ok(layout) => layouts.insert(function.name, layout),
            Err((place, reason)) => {
                refusals.enter(Some(function.name));
                refusals.add(place, reason);
                refusals.enter(None);
                return None;
            }
        };
    }
    let sizes: FxHashMap<&str, u64> = layouts.iter().map(|(name, l)| (*name, l.size)).collect();
    let mut needs = Needs {
        defined: &defined,
        sizes: &sizes,
        known: FxHashMap::default(),
    };
    let mut size = alignment;
    for function in defined.values() {
        // (A function that calls itself is refused by name.)
        size = size.max(needs.of(function, 0)?);
    }
    let mut edits = Edits::new();
    for function in module.functions() {
        let is_defined = defined.contains_key(function.name);
        if !is_defined || function.is_entry && calls(function, &defined).next().is_none() {
            continue;
        }
        if !function.is_entry {
            parameters(function, &mut edits);
        }
        if function.body.is_some() {
            let merged = Merged {
                layout: &layouts[function.name],
                variable: (size, alignment),
                defined: &defined,
            };
            if let Err(place) = merged.body(function, module.source, &mut edits) {
                refusals.enter(Some(function.name));
                refusals.add(
                    place,
                    "it uses an object of its frame in a way that is not understood",
                );
                refusals.enter(None);
                return None;
            }
        }
    }
    Some(edits.apply(module.source))
}

fn locals<'f, 'a>(function: &'f Function<'a>) -> Vec<&'f Variable<'a>> {
    let variables = function.statements().filter_map(|(_, s)| match s {
        Statement::Variable(variable) if variable.space == VariableSpace::Local => Some(variable),
        _ => None,
    });
    variables.collect()
}

/// The calls of functions of the module.
fn calls<'f, 'a>(
    function: &'f Function<'a>,
    defined: &'f FxHashMap<&str, &Function<'_>>,
) -> impl Iterator<Item = (&'f Instruction<'a>, usize, &'a str)> {
    function.instructions().filter_map(|instruction| {
        let (operand, name) = instruction.called_function()?;
        let callee = defined.get(name)?;
        (!callee.is_entry).then_some((instruction, operand, name))
    })
}

/// Lays out a frame, or names what cannot lie in it.
fn layout<'f, 'a>(
    function: &'f Function<'a>,
    alignment: u64,
) -> Result<Layout<'f, 'a>, (Span, String)> {
    let mut out = Layout::default();
    for variable in locals(function) {
        let is_twice = |(other, _): &(&Variable<'_>, u64)| other.name == variable.name;
        if out.objects.iter().any(is_twice) {
            let reason = format!("two objects of its frame have the name `{}`", variable.name);
            return Err((variable.span, reason));
        }
        let no_size = || (variable.span, format!("`{}` has no size", variable.name));
        let size = variable.size().ok_or_else(no_size)?;
        let at = out
            .size
            .next_multiple_of(u64::from(variable.alignment().max(1)));
        out.objects.push((variable, at));
        out.size = at.checked_add(size).ok_or_else(no_size)?;
    }
    out.size = out.size.next_multiple_of(alignment);
    Ok(out)
}

/// The bytes of all frames from a function on.
struct Needs<'n, 'f, 'a> {
    defined: &'n FxHashMap<&'f str, &'f Function<'a>>,
    sizes: &'n FxHashMap<&'f str, u64>,
    known: FxHashMap<&'f str, u64>,
}

impl<'f, 'a> Needs<'_, 'f, 'a> {
    /// `None` if calls lead back to the function, or the sum is too large.
    fn of(&mut self, function: &'f Function<'a>, depth: usize) -> Option<u64> {
        if let Some(known) = self.known.get(function.name) {
            return Some(*known);
        }
        if depth > self.defined.len() {
            return None;
        }
        let mut most = 0;
        for (_, _, name) in calls(function, self.defined) {
            let callee = self.defined.get(name)?;
            most = most.max(self.of(callee, depth + 1)?);
        }
        let size = most.checked_add(*self.sizes.get(function.name)?)?;
        self.known.insert(function.name, size);
        Some(size)
    }
}

/// Adds the parameters to a function, declared or defined.
fn parameters(function: &Function<'_>, edits: &mut Edits) {
    let own = format!(".reg .b64 {STACK}, .reg .b64 {FRAME}");
    match function.parameter_list {
        None => edits.insert(function.name_span.end, format!("({own})")),
        Some(list) if function.parameters.is_empty() => edits.insert(list.start + 1, own),
        Some(list) => edits.insert(list.start + 1, format!("{own}, ")),
    }
}

/// A body whose frame lies in the variable.
struct Merged<'n, 'f, 'a> {
    layout: &'n Layout<'f, 'a>,
    /// Bytes and alignment of the variable.
    variable: (u64, u64),
    defined: &'n FxHashMap<&'f str, &'f Function<'a>>,
}

impl Merged<'_, '_, '_> {
    /// Rewrites a body; the place of what it cannot, otherwise.
    fn body(&self, function: &Function<'_>, source: &str, edits: &mut Edits) -> Result<(), Span> {
        let Some(block) = &function.body else {
            return Ok(());
        };
        self.head(function, block.span.start + 1, edits);
        let mut last = None;
        for (variable, _) in &self.layout.objects {
            // (Several objects of one declaration share its span.)
            if last != Some(variable.span) {
                let span = variable.span;
                edits.replace(span, super::with_lines(String::new(), span.text(source)));
            }
            last = Some(variable.span);
        }
        for instruction in function.instructions() {
            for operand in &instruction.operands {
                self.operand(function, operand, edits)?;
            }
        }
        for (instruction, operand, _) in calls(function, self.defined) {
            let own = format!("{STACK}, {NEXT}");
            match instruction.operands.get(operand + 1) {
                Some(Operand {
                    kind: OperandKind::List(list),
                    span,
                }) if list.is_empty() => edits.insert(span.start + 1, own),
                Some(Operand {
                    kind: OperandKind::List(_),
                    span,
                }) => edits.insert(span.start + 1, format!("{own}, ")),
                Some(other) => return Err(other.span),
                None => {
                    let end = instruction.operands[operand].span.end;
                    edits.insert(end, format!(", ({own})"));
                }
            }
        }
        Ok(())
    }

    /// What is computed at the top of a body.
    fn head(&self, function: &Function<'_>, start: u32, edits: &mut Edits) {
        let (bytes, alignment) = self.variable;
        let size = self.layout.size;
        let objects = self.layout.objects.len();
        if function.is_entry {
            edits.insert(
                start,
                format!(
                    " .local .align {alignment} .b8 {FRAMES}[{bytes}]; .reg .b64 {STACK}, {NEXT};"
                ),
            );
        } else {
            edits.insert(start, format!(" .reg .b64 {NEXT};"));
        }
        let mut text = String::new();
        let frame = if function.is_entry {
            put(&mut text, format_args!(" mov.u64 {STACK}, {FRAMES};"));
            STACK
        } else {
            FRAME
        };
        if objects > 0 {
            edits.insert(start, format!(" .reg .b64 {OBJECT}<{objects}>;"));
        }
        for (number, (_, at)) in self.layout.objects.iter().enumerate() {
            put(
                &mut text,
                format_args!(" add.s64 {OBJECT}{number}, {frame}, {at};"),
            );
        }
        put(&mut text, format_args!(" add.s64 {NEXT}, {frame}, {size};"));
        edits.insert(end_of_declarations(function).unwrap_or(start), text);
    }

    /// Replaces the names of objects in an operand.
    fn operand(
        &self,
        function: &Function<'_>,
        operand: &Operand<'_>,
        edits: &mut Edits,
    ) -> Result<(), Span> {
        let objects = &self.layout.objects;
        let of = |name: &str| {
            objects
                .iter()
                .position(|(variable, _)| variable.name == name)
        };
        let (name, span) = match &operand.kind {
            OperandKind::Name(name) => (*name, operand.span),
            OperandKind::Address(address) if address.coordinates.is_empty() => {
                (address.base.unwrap_or_default(), address.base_span)
            }
            _ => {
                let mut is_named = false;
                operand.names(&mut |name| is_named |= of(name).is_some());
                return if is_named { Err(operand.span) } else { Ok(()) };
            }
        };
        let Some(number) = of(name) else {
            return Ok(());
        };
        let is_address = matches!(operand.kind, OperandKind::Address(_));
        match (function.is_entry && is_address, objects[number].1) {
            (true, 0) => edits.replace(span, FRAMES),
            (true, at) => edits.replace(span, format!("{FRAMES}+{at}")),
            (false, _) => edits.replace(span, format!("{OBJECT}{number}")),
        }
        Ok(())
    }
}
