//! What cannot be contained, and is refused by name.

use super::FenceError;
use crate::patch::Patch;
use ptx::{
    Function, Instruction, Item, Loc, Mnemonic, Modifier, Module, OperandKind, Position, Span,
    Statement, Variable,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;

/// Something in a module that cannot be contained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The function that it is in, if it is in one.
    pub function: Option<String>,
    /// Its line, from 1.
    pub line: u32,
    /// What it is, a lower-case fragment.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(function) = &self.function {
            write!(f, ", in `{function}`")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// All of a module.
pub(super) struct Refusals<'s> {
    source: &'s str,
    function: Option<String>,
    list: Vec<Refusal>,
}

impl<'s> Refusals<'s> {
    pub(super) fn new(source: &'s str) -> Refusals<'s> {
        Refusals {
            source,
            function: None,
            list: Vec::new(),
        }
    }

    /// Takes over what was refused before.
    pub(super) fn extend(&mut self, list: Vec<Refusal>) {
        self.list.extend(list);
    }

    pub(super) fn into_list(self) -> Vec<Refusal> {
        self.list
    }

    /// What is added from now on is in this function.
    pub(super) fn enter(&mut self, function: Option<&str>) {
        self.function = function.map(str::to_owned);
    }

    /// The line of a place.
    pub(super) fn line(&self, place: Span) -> u32 {
        Position::of(self.source, place.start).line
    }

    pub(super) fn add(&mut self, place: Span, reason: impl Into<String>) {
        self.list.push(Refusal {
            function: self.function.clone(),
            line: Position::of(self.source, place.start).line,
            reason: reason.into(),
        });
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Forgets what was added since there were so many.
    pub(super) fn truncate(&mut self, len: usize) {
        self.list.truncate(len);
    }

    pub(super) fn into_result(mut self) -> Result<(), FenceError> {
        if self.list.is_empty() {
            return Ok(());
        }
        self.list.sort_by_key(|refusal| refusal.line);
        Err(FenceError::Refused(self.list))
    }
}

/// What a failed `assert` calls, which ends the context.
pub(super) const ASSERT_FAIL: &str = "__assertfail";

/// Whether an item at file scope is dropped: debug information and hints for
/// the compiler. The driver does not get these from a tenant.
pub(super) fn is_dropped(text: &str) -> bool {
    text.starts_with(".section") || text.starts_with(".pragma")
}

/// Leaves only file, line and column of a `.loc`: what follows names strings of the
/// debug information that is dropped, and a driver refuses a name without its
/// string.
pub(super) fn drop_names(loc: &Loc<'_>, patch: &mut Patch) {
    if !loc.rest.trim().is_empty() {
        patch.edit(loc.span.start, loc.span.end, |out| {
            out.push_str(&format!(".loc {} {} {}", loc.file, loc.line, loc.column));
        });
    }
}

/// Items that cannot be contained.
pub(super) fn items(module: &Module<'_>, refusals: &mut Refusals<'_>) {
    for item in &module.items {
        match item {
            Item::Other(span) if !is_dropped(span.text(module.source)) => {
                let text = span.text(module.source);
                let word = text.split_whitespace().next().unwrap_or(text);
                refusals.add(*span, format!("`{word}` is not understood"));
            }
            Item::Variable(variable) => attributes(variable, refusals),
            Item::Function(function) => {
                refusals.enter(Some(function.name));
                directives(function, refusals);
                let parameters = function.parameters.iter().chain(&function.returns);
                parameters.for_each(|parameter| attributes(parameter, refusals));
                for (_, statement) in function.statements() {
                    if let Statement::Variable(variable) = statement {
                        attributes(variable, refusals);
                    }
                }
                refusals.enter(None);
            }
            _ => {}
        }
    }
}

/// What is said of a variable beside its type and alignment: it may lie in memory
/// that the host shares (`.attribute(.managed)`).
fn attributes(variable: &Variable<'_>, refusals: &mut Refusals<'_>) {
    if variable.has_attributes {
        refusals.add(variable.span, format!("`{}` has attributes", variable.name));
    }
}

/// Directives of a function that only describe how it is launched, within the
/// limits of a launch.
const DIRECTIVES: &[&str] = &[
    ".maxntid",
    ".reqntid",
    ".minnctapersm",
    ".maxnctapersm",
    ".maxnreg",
];

fn directives(function: &Function<'_>, refusals: &mut Refusals<'_>) {
    for directive in &function.directives {
        if directive.name != ".pragma" && !DIRECTIVES.contains(&directive.name) {
            refusals.add(
                directive.span,
                format!("`{}` cannot be contained", directive.name),
            );
        }
    }
}

/// Calls: of functions of the module only, none of which calls itself.
pub(super) fn calls(module: &Module<'_>, refusals: &mut Refusals<'_>) {
    let defined: FxHashMap<&str, &Function<'_>> = module
        .functions()
        .filter(|function| function.body.is_some() && !function.is_entry)
        .map(|function| (function.name, function))
        .collect();
    let mut called: FxHashMap<&str, FxHashSet<&str>> = FxHashMap::default();
    for function in module.functions() {
        refusals.enter(Some(function.name));
        let callees = called.entry(function.name).or_default();
        for instruction in function.instructions() {
            if instruction.opcode.mnemonic() != Mnemonic::Call {
                continue;
            }
            match instruction.called_function() {
                Some((_, name)) if defined.contains_key(name) => {
                    callees.insert(name);
                }
                // The thread is retired in its place.
                Some((_, ASSERT_FAIL)) => {}
                Some((_, name)) => {
                    refusals.add(
                        instruction.span,
                        format!("it calls `{name}`, which the module does not define"),
                    );
                }
                None => refusals.add(instruction.span, "it calls through a pointer"),
            }
        }
    }
    for function in module.functions() {
        if reaches(function.name, &called) {
            refusals.enter(Some(function.name));
            refusals.add(function.name_span, "it calls itself");
        }
    }
    refusals.enter(None);
}

/// Whether calls lead from a function to itself.
fn reaches(name: &str, called: &FxHashMap<&str, FxHashSet<&str>>) -> bool {
    let mut seen = FxHashSet::default();
    let mut next = vec![name];
    while let Some(from) = next.pop() {
        for callee in called.get(from).into_iter().flatten() {
            if *callee == name {
                return true;
            }
            if seen.insert(*callee) {
                next.push(callee);
            }
        }
    }
    false
}

/// Special registers that reveal nothing of other tenants (PTX ISA, chapter
/// 10); vectors without their component.
const SPECIAL: &[&str] = &[
    "%tid",
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%clock",
    "%clock_hi",
    "%clock64",
    "%globaltimer",
    "%globaltimer_lo",
    "%globaltimer_hi",
    "%total_smem_size",
    "%dynamic_smem_size",
];

/// What forbids an instruction, whatever its operands hold.
pub(super) fn instruction(instruction: &Instruction<'_>) -> Option<String> {
    use Mnemonic as M;
    let opcode = &instruction.opcode;
    let what = match opcode.mnemonic() {
        M::Unknown => "is not known",
        M::Brkpt => "stops the device for a debugger",
        M::Tex | M::Tld4 | M::Txq | M::Suld | M::Sust | M::Sured | M::Suq | M::Istypep => {
            "takes a handle, which may be forged"
        }
        M::Multimem => "reaches memory of other devices",
        M::Mapa | M::Getctarank | M::Clusterlaunchcontrol => "is for clusters",
        M::Barrier if opcode.has(Modifier::Cluster) => "is for clusters",
        M::Wgmma | M::Tcgen05 | M::Tensormap | M::Setmaxnreg => {
            "has operands whose size is only in a descriptor"
        }
        M::Alloca | M::Stacksave | M::Stackrestore => "changes the stack",
        M::Shfl | M::Vote if !opcode.has(Modifier::Sync) => "takes no mask of lanes",
        M::Griddepcontrol => "waits for other kernels",
        M::Pmevent => "counts events of the whole device",
        M::Cvta if opcode.has(Modifier::Param) => "makes a pointer to a parameter",
        _ if opcode.has(Modifier::L2CacheHint) => "takes a policy, which may be forged",
        // (A generic address is not looked for among constants.)
        M::Cvta if opcode.has(Modifier::Const) && !opcode.has(Modifier::To) => {
            "makes a generic pointer to a constant"
        }
        _ => return None,
    };
    Some(format!("`{}` {what}", opcode.text))
}

/// Whether an instruction's addresses are only numbers to it.
pub(super) fn is_hint(instruction: &Instruction<'_>) -> bool {
    use Mnemonic as M;
    instruction.opcode.mnemonic() == M::Createpolicy
}

/// The special register that an instruction reads and may not.
pub(super) fn special_register<'a>(
    instruction: &Instruction<'a>,
    is_declared: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    let mut found = None;
    let mut visit = |name: &'a str| {
        let bare = name.split('.').next().unwrap_or(name);
        if name.starts_with('%') && !is_declared(name) && !SPECIAL.contains(&bare) {
            found = Some(name);
        }
    };
    for operand in &instruction.operands {
        // A component, such as `%tid.x`, is part of the name.
        match &operand.kind {
            OperandKind::Text(text) if text.starts_with('%') => visit(text),
            _ => operand.names(&mut visit),
        }
    }
    found
}
