//! Calls through pointers become calls of functions that are named.
//!
//! The address of a function is a number that the pass chooses: nobody needs the
//! real one, and a program that computes a wrong one calls nothing. A call
//! compares the pointer with the numbers of all functions that have the
//! signature and whose address is taken anywhere in the module; a thread whose
//! pointer is none of them meets a `trap`, which a fence makes its end.
//!
//! ```text
//! { .param .b32 a; st.param.b32 [a], %r1; P: .callprototype _ (.param .b32 _); call %rd1, (a), P; }
//! =>
//! setp.eq.u64 IS, %rd1, 16; @IS bra L0;
//! setp.eq.u64 IS, %rd1, 32; @IS bra L1;
//! trap;
//! L0: { .param .b32 a; st.param.b32 [a], %r1; call f, (a); } bra END;
//! L1: { .param .b32 a; st.param.b32 [a], %r1; call g, (a); } END:
//! ```
//!
//! (The arguments of a call are stored in the basic block of the call, PTX ISA
//! 5.1.6.4, so each call gets a copy of the whole scope.)

use super::super::refuse::Refusals;
use super::super::relocations::written;
use crate::patch::put;
use ptx::{
    Block, CallPrototype, Edits, Function, Instruction, Mnemonic, Modifier, Module, OperandKind,
    Span, Statement, Value, Variable, VariableSpace,
};
use rustc_hash::FxHashMap;

/// What the numbers of functions are multiples of, as addresses of code are; the
/// first is 1 times this.
const UNIT: u64 = 16;

/// A predicate: the pointer is that of a function.
const IS: &str = "%__rf_is";
/// Begins the labels.
const LABEL: &str = "$__rf_call";

/// The functions whose address is taken, with their numbers.
struct Taken<'f, 'a> {
    functions: Vec<&'f Function<'a>>,
    numbers: FxHashMap<&'a str, u64>,
}

/// Rewrites a module, if it takes the address of a function or calls through a
/// pointer.
pub(super) fn name(module: &Module<'_>, refusals: &mut Refusals<'_>) -> Option<String> {
    let taken = Taken::of(module);
    let mut edits = Edits::new();
    for variable in module.variables() {
        taken.initializer(variable, module.source, &mut edits);
    }
    let mut labels = 0;
    for function in module.functions() {
        refusals.enter(Some(function.name));
        for instruction in function.instructions() {
            taken.operands(instruction, &mut edits, refusals);
        }
        if let Some(body) = &function.body {
            let before = labels;
            taken.calls(body, module.source, &mut labels, &mut edits);
            if labels > before {
                edits.insert(body.span.start + 1, format!(" .reg .pred {IS};"));
            }
        }
        refusals.enter(None);
    }
    (!edits.is_empty()).then(|| edits.apply(module.source))
}

impl<'f, 'a> Taken<'f, 'a> {
    fn of(module: &'f Module<'a>) -> Self {
        let mut names = Vec::new();
        for variable in module.variables() {
            if let Ok(Some(value)) = variable.initial_value(module.source) {
                symbols(&value, &mut |name| names.push(name.to_owned()));
            }
        }
        for instruction in module.functions().flat_map(Function::instructions) {
            let callee = instruction.called_function().map(|(operand, _)| operand);
            for (index, operand) in instruction.operands.iter().enumerate() {
                if Some(index) != callee {
                    operand.names(&mut |name| names.push(name.to_owned()));
                }
            }
        }
        for (_, statement) in module.functions().flat_map(Function::statements) {
            if let Statement::Targets(targets) = statement {
                names.extend(targets.names.iter().map(|name| (*name).to_owned()));
            }
        }
        names.sort_unstable();
        let is_taken = |name: &str| names.binary_search_by(|n| n.as_str().cmp(name)).is_ok();
        let functions: Vec<&Function<'a>> = module
            .functions()
            .filter(|f| f.body.is_some() && !f.is_entry && is_taken(f.name))
            .collect();
        let numbered = functions.iter().zip(1u64..);
        Taken {
            numbers: numbered
                .map(|(f, number)| (f.name, number * UNIT))
                .collect(),
            functions,
        }
    }

    /// Puts numbers in the place of functions in an initializer.
    fn initializer(&self, variable: &Variable<'_>, source: &str, edits: &mut Edits) {
        let (Some(span), Ok(Some(value))) = (variable.initializer, variable.initial_value(source))
        else {
            return;
        };
        let mut is_named = false;
        symbols(&value, &mut |name| {
            is_named |= self.numbers.contains_key(name)
        });
        if !is_named {
            return;
        }
        let mut text = String::from(" ");
        written(&value, &mut text, &|symbol, out| {
            let Value::Symbol {
                name, offset, mask, ..
            } = symbol
            else {
                return false;
            };
            let Some(number) = self.numbers.get(name.as_str()) else {
                return false;
            };
            let number = number.wrapping_add_signed(*offset);
            let number = mask.map_or(number, |mask| {
                (number & mask) >> mask.trailing_zeros().min(63)
            });
            put(out, format_args!("{number}"));
            true
        });
        edits.replace(span, super::with_lines(text, span.text(source)));
    }

    /// Puts numbers in the place of functions in operands.
    fn operands(
        &self,
        instruction: &Instruction<'_>,
        edits: &mut Edits,
        refusals: &mut Refusals<'_>,
    ) {
        let callee = instruction.called_function().map(|(operand, _)| operand);
        for (index, operand) in instruction.operands.iter().enumerate() {
            if Some(index) == callee {
                continue;
            }
            let mut named = None;
            operand.names(&mut |name| named = named.or(self.numbers.get_key_value(name)));
            let Some((name, number)) = named else {
                continue;
            };
            let is_move = instruction.opcode.mnemonic() == Mnemonic::Mov && index == 1;
            match operand.kind {
                OperandKind::Name(_) if is_move => edits.replace(operand.span, number.to_string()),
                _ => refusals.add(
                    instruction.span,
                    format!("it uses the address of the function `{name}`"),
                ),
            }
        }
    }

    /// Rewrites the calls through pointers in a scope and those inside.
    fn calls(&self, block: &Block<'_>, source: &str, labels: &mut u32, edits: &mut Edits) {
        for statement in &block.statements {
            let Statement::Block(inner) = statement else {
                continue;
            };
            match self.dispatch(inner, source, *labels) {
                Some(text) => {
                    *labels += 1;
                    edits.replace(inner.span, super::with_lines(text, inner.span.text(source)));
                }
                None => self.calls(inner, source, labels, edits),
            }
        }
    }

    /// What replaces a scope that is one call through a pointer.
    fn dispatch(&self, block: &Block<'_>, source: &str, number: u32) -> Option<String> {
        let call = Call::of(block, source)?;
        let mut text = String::new();
        let mut copies = String::new();
        let candidates: Vec<&Function<'_>> = self
            .functions
            .iter()
            .copied()
            .filter(|function| call.may_reach(function))
            .collect();
        for (index, function) in candidates.iter().enumerate() {
            let token = self.numbers.get(function.name)?;
            let label = format!("{LABEL}{number}_{index}");
            put(
                &mut text,
                format_args!(
                    "setp.eq.u64 {IS}, {}, {token}; @{IS} bra {label}; ",
                    call.pointer
                ),
            );
            put(&mut copies, format_args!(" {label}: {{"));
            call.copy(function.name, &mut copies);
            copies.push_str(" }");
            if index + 1 < candidates.len() {
                put(&mut copies, format_args!(" bra {LABEL}{number}_end;"));
            }
        }
        text.push_str("trap;");
        text.push_str(&copies);
        if !candidates.is_empty() {
            put(&mut text, format_args!(" {LABEL}{number}_end:"));
        }
        Some(text)
    }
}

/// The symbols of a value.
fn symbols(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::Symbol { name, .. } => visit(name),
        Value::List(list) => list.iter().for_each(|value| symbols(value, visit)),
        _ => {}
    }
}

/// Whom a call through a pointer may reach.
enum Reach<'f, 'a> {
    Signature(&'f CallPrototype<'a>),
    Names(&'f [&'a str]),
}

/// A scope that stores arguments, calls through a pointer, and loads results.
struct Call<'f, 'a> {
    pointer: &'a str,
    reach: Reach<'f, 'a>,
    /// The statements; the call without the pointer: before and behind it.
    before: Vec<&'a str>,
    call: (&'a str, &'a str),
    after: Vec<&'a str>,
}

impl<'f, 'a> Call<'f, 'a> {
    fn of(block: &'f Block<'a>, source: &'a str) -> Option<Self> {
        let mut before = Vec::new();
        let mut after = Vec::new();
        let mut found: Option<(&'f Instruction<'a>, usize, &'a str)> = None;
        let mut reaches: Vec<(&'a str, Reach<'f, 'a>)> = Vec::new();
        let mut last = Span::default();
        for statement in &block.statements {
            let span = statement.span();
            match statement {
                Statement::Loc(_) => continue,
                Statement::CallPrototype(prototype) => {
                    reaches.push((prototype.label, Reach::Signature(prototype)));
                    continue;
                }
                Statement::Targets(targets) => {
                    reaches.push((targets.label, Reach::Names(&targets.names)));
                    continue;
                }
                // (Several names of one declaration share its span.)
                Statement::Variable(_) if span == last => continue,
                Statement::Variable(_) => {}
                Statement::Instruction(instruction) => {
                    let is_argument =
                        matches!(instruction.opcode.mnemonic(), Mnemonic::St | Mnemonic::Ld)
                            && instruction.opcode.has(Modifier::Param);
                    if let Some((operand, label)) = instruction.called_pointer()
                        && found.is_none()
                        && instruction.guard.is_none()
                    {
                        found = Some((instruction, operand, label));
                        continue;
                    }
                    if !is_argument {
                        return None;
                    }
                }
                _ => return None,
            }
            last = span;
            let text = span.text(source);
            if text.contains("//") || text.contains("/*") {
                return None;
            }
            match found {
                None => before.push(text),
                Some(_) => after.push(text),
            }
        }
        let (instruction, operand, label) = found?;
        let (_, reach) = reaches.into_iter().find(|(name, _)| *name == label)?;
        let callee = &instruction.operands[operand];
        let OperandKind::Name(pointer) = callee.kind else {
            return None;
        };
        // The last operand is the prototype.
        let end = instruction.operands[instruction.operands.len() - 2]
            .span
            .end;
        let part = |start, end| Span { start, end }.text(source);
        let call = (
            part(instruction.span.start, callee.span.start),
            part(callee.span.end, end),
        );
        let has_comment = |text: &str| text.contains("//") || text.contains("/*");
        if has_comment(call.0) || has_comment(call.1) {
            return None;
        }
        Some(Call {
            pointer,
            reach,
            before,
            call,
            after,
        })
    }

    fn may_reach(&self, function: &Function<'_>) -> bool {
        match &self.reach {
            Reach::Names(names) => names.contains(&function.name),
            Reach::Signature(prototype) => {
                same(&prototype.returns, &function.returns)
                    && same(&prototype.parameters, &function.parameters)
            }
        }
    }

    /// Appends the statements, on one line, with a call of this function.
    fn copy(&self, function: &str, out: &mut String) {
        let mut line = |text: &str| {
            out.push(' ');
            out.extend(text.chars().map(|c| if c == '\n' { ' ' } else { c }));
        };
        self.before.iter().copied().for_each(&mut line);
        line(&format!("{}{function}{};", self.call.0, self.call.1));
        self.after.iter().copied().for_each(&mut line);
    }
}

/// Whether two lists of parameters are passed in the same way.
fn same(one: &[Variable<'_>], other: &[Variable<'_>]) -> bool {
    let shape = |variable: &Variable<'_>| -> (VariableSpace, Option<u64>, u32) {
        (variable.space, variable.size(), variable.alignment())
    };
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| shape(a) == shape(b))
}
