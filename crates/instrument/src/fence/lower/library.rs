//! `printf`, `malloc` and `free` of a program work in its own partition.
//!
//! The driver's own would follow the program's pointers on the host, and share
//! one buffer and one heap among all tenants. So calls of these go to functions
//! that are added to the module (`device/tenant.cu`); they use two variables,
//! which the host places in the partition like those of the program, but one of
//! each for all modules of a tenant.

use super::super::refuse::Refusals;
use crate::patch::put;
use model::layout::tenant::{HEAP, PRINT, PrintHead, TenantHeap, TenantPrint};
use ptx::{Edits, Function, Item, Linkage, Module, Span, Variable};

/// The functions that are added, as the compiler translates `device/tenant.cu`.
const SOURCE: &str = include_str!("../../device/tenant.ptx");

/// A function of the driver's that device code calls.
struct Replaced {
    name: &'static str,
    /// Bytes of what it returns, if anything, and of its parameters.
    returns: &'static [u64],
    parameters: &'static [u64],
    own: &'static str,
    /// Its variable and that variable's bytes.
    variable: (&'static str, usize),
}

const ALL: [Replaced; 3] = [
    Replaced {
        name: "vprintf",
        returns: &[4],
        parameters: &[8, 8],
        own: "__ringfence_vprintf",
        variable: (PRINT, size_of::<TenantPrint>()),
    },
    Replaced {
        name: "malloc",
        returns: &[8],
        parameters: &[8],
        own: "__ringfence_malloc",
        variable: (HEAP, size_of::<TenantHeap>()),
    },
    Replaced {
        name: "free",
        returns: &[],
        parameters: &[8],
        own: "__ringfence_free",
        variable: (HEAP, size_of::<TenantHeap>()),
    },
];

// Records and blocks are stored in words of 8 bytes.
const _: () = assert!(size_of::<PrintHead>().is_multiple_of(8));

/// Whether a variable is one that all modules of a tenant have in common.
pub(in super::super) fn is_common(name: &str) -> bool {
    ALL.iter().any(|replaced| replaced.variable.0 == name)
}

/// Redirects the calls of a module, if it has any.
pub(super) fn redirect(module: &Module<'_>, _: &mut Refusals<'_>) -> Option<String> {
    let mut edits = Edits::new();
    let mut added: Vec<&str> = Vec::new();
    let mut text = String::from("\n");
    for replaced in &ALL {
        if !replaced.redirect(module, &mut edits) {
            continue;
        }
        let (variable, bytes) = replaced.variable;
        if !added.contains(&variable) {
            added.push(variable);
            put(
                &mut text,
                format_args!(".global .align 8 .b8 {variable}[{bytes}];\n"),
            );
        }
        text.push_str(source_of(replaced.own)?);
        text.push('\n');
    }
    if edits.is_empty() {
        return None;
    }
    edits.insert(module.source.len() as u32, text);
    Some(edits.apply(module.source))
}

/// The text of a function that is added.
fn source_of(name: &str) -> Option<&'static str> {
    let mut functions = SOURCE.split_inclusive("\n}\n");
    functions
        .find(|text| text.contains(&format!(" {name}(")))
        .map(|text| &text[text.find(".func").unwrap_or(0)..])
}

impl Replaced {
    /// Redirects the calls of one function; whether there are any. All of a module
    /// are redirected, or none is.
    fn redirect(&self, module: &Module<'_>, edits: &mut Edits) -> bool {
        let is_it = |function: &&Function<'_>| function.name == self.name;
        let declared: Vec<&Function<'_>> = module.functions().filter(is_it).collect();
        let is_right = |function: &&Function<'_>| {
            function.linkage == Linkage::Extern
                && function.body.is_none()
                && has_sizes(&function.returns, self.returns)
                && has_sizes(&function.parameters, self.parameters)
        };
        let mut calls = Vec::new();
        let mut is_mentioned = false;
        for instruction in module.functions().flat_map(Function::instructions) {
            let callee = instruction
                .called_function()
                .filter(|(_, name)| *name == self.name)
                .map(|(operand, _)| operand);
            calls.extend(callee.map(|operand| instruction.operands[operand].span));
            for (index, operand) in instruction.operands.iter().enumerate() {
                if Some(index) != callee {
                    operand.names(&mut |name| is_mentioned |= name == self.name);
                }
            }
        }
        if calls.is_empty() || is_mentioned || declared.is_empty() || !declared.iter().all(is_right)
        {
            return false;
        }
        for item in &module.items {
            if let Item::Function(function) = item
                && function.name == self.name
            {
                self.declaration(function, module.source, edits);
            }
        }
        for call in calls {
            edits.replace(call, self.own);
        }
        true
    }

    /// Makes a declaration of the driver's function one of the module's.
    fn declaration(&self, function: &Function<'_>, source: &str, edits: &mut Edits) {
        let text = function.span.text(source);
        if let Some(at) = text.find(".extern") {
            let start = function.span.start + at as u32;
            let end = start + ".extern".len() as u32;
            edits.replace(Span { start, end }, "");
        }
        edits.replace(function.name_span, self.own);
    }
}

fn has_sizes(variables: &[Variable<'_>], sizes: &[u64]) -> bool {
    variables.len() == sizes.len()
        && variables
            .iter()
            .zip(sizes)
            .all(|(variable, size)| variable.size() == Some(*size))
}
