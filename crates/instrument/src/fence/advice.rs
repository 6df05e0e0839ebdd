//! What a program tells the compiler and the caches, and could lie about. It is
//! dropped before anything is fenced, so that a lie has no effect:
//!
//! * `.noreturn`: ptxas emits nothing behind a call of such a function. If it
//!   returned, the thread would execute whatever lies there.
//! * `.ptr .align`: ptxas may join accesses to what a parameter points to, as far as
//!   it is said to be aligned. If it were not, the joined access would end the
//!   context.
//! * `discard.L2` drops what was written and is not in memory yet. The memory
//!   could show what it held before it was cleared for this tenant (PTX ISA,
//!   9.7.9.18: later reads "return indeterminate values").
//! * `prefetch`, `prefetchu`, `cp.async.bulk.prefetch` and `applypriority` take
//!   addresses that no fence is about, the third also a size or a tensor map;
//!   `.L2::cache_hint` takes a policy, which could be forged. Nothing waits for a bulk
//!   prefetch: it has no barrier and is in no group (PTX ISA, 9.7.9.25.5.4).
//!
//! None of these affects what a correct program computes.

use ptx::{Function, Instruction, Mnemonic, Modifier, Module, Span, Statement, Variable};

/// The text without advice. Lines keep their numbers.
pub(super) fn without_advice(module: &Module<'_>) -> String {
    let source = module.source;
    let mut spans = Vec::new();
    for function in module.functions() {
        of_function(function, source, &mut spans);
    }
    spans.sort_unstable_by_key(|span| span.start);
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    for span in spans {
        let (start, end) = (span.start as usize, span.end as usize);
        if start < at {
            continue;
        }
        out.push_str(&source[at..start]);
        out.push(' ');
        out.extend(source[start..end].chars().filter(|c| *c == '\n'));
        at = end;
    }
    out.push_str(&source[at..]);
    out
}

fn of_function(function: &Function<'_>, source: &str, spans: &mut Vec<Span>) {
    let directives = function.directives.iter();
    spans.extend(
        directives
            .filter(|directive| directive.name == ".noreturn")
            .map(|directive| directive.span),
    );
    let parameters = function.parameters.iter().chain(&function.returns);
    spans.extend(parameters.filter_map(|parameter| pointer(parameter, source)));
    for (_, statement) in function.statements() {
        match statement {
            Statement::Variable(variable) => spans.extend(pointer(variable, source)),
            Statement::Instruction(instruction) => of_instruction(instruction, spans),
            _ => {}
        }
    }
}

/// `.ptr`, and what follows it up to the name.
fn pointer(variable: &Variable<'_>, source: &str) -> Option<Span> {
    if !variable.is_pointer {
        return None;
    }
    let before = &source[variable.span.start as usize..variable.name_span.start as usize];
    let at = before.rfind(".ptr")?;
    Some(Span {
        start: variable.span.start + at as u32,
        end: variable.name_span.start,
    })
}

fn of_instruction(instruction: &Instruction<'_>, spans: &mut Vec<Span>) {
    use Mnemonic as M;
    let opcode = &instruction.opcode;
    match opcode.mnemonic() {
        M::Discard | M::Prefetch | M::Prefetchu | M::Applypriority => {
            spans.push(instruction.span);
        }
        M::Cp if opcode.has(Modifier::Bulk) && opcode.has(Modifier::Prefetch) => {
            spans.push(instruction.span);
        }
        _ if opcode.has(Modifier::L2CacheHint) => {
            const HINT: &str = ".L2::cache_hint";
            let [.., before, policy] = &instruction.operands[..] else {
                return;
            };
            // (Blanks in it make it an opcode that is refused.)
            let Some(at) = opcode.text.find(HINT) else {
                return;
            };
            let start = opcode.span.start + at as u32;
            spans.push(Span {
                start,
                end: start + HINT.len() as u32,
            });
            spans.push(Span {
                start: before.span.end,
                end: policy.span.end,
            });
        }
        _ => {}
    }
}
