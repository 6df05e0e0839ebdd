//! Calls through function pointers and of virtual functions.
//!
//! Memory only ever holds the addresses of the program's own functions: kernels
//! that are not checked, other modules and the host read them there, too. So
//! a checked caller translates the address where it calls. Functions whose
//! address is taken and that take and return the same parameters form a class.
//! The checked copies of a class have one ABI, and `TARGET` of the class maps
//! the address of each to its copy. Every other address maps to the class's
//! thunk, which takes what the copies take and calls that address as the
//! program did.

use super::calls;
use super::pieces::lookup_in;
use super::text::*;
use crate::patch::{line, put};
use analysis::Analysis;
use model::layout::{CHECKED_PREFIX, LaunchBounds, UNBOUNDED};
use ptx::{Function, Instruction, OperandKind, Span, Variable, VariableSpace};

/// Maps the address of a function to that of its checked copy; with the
/// number of the class behind it.
pub(crate) const TARGET: &str = "__ringfence_target";
/// Calls a function that has no checked copy; likewise.
pub(crate) const THUNK: &str = "__ringfence_thunk";
/// What a call of a copy through a pointer takes and returns; with the number
/// of the call behind it.
pub(crate) const PROTOTYPE: &str = "__ringfence_prototype";

/// Bytes, behind the bounds that the copies of a class take, of the address
/// that the program called. Only the thunk reads it.
pub(crate) const CALLED: u32 = size_of::<u64>() as u32;

/// Functions of one class are compared with an address one after the other.
const MOST_MEMBERS: usize = 256;

/// One parameter as a call passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Passed {
    bytes: u32,
    alignment: u32,
    is_array: bool,
}

impl Passed {
    fn of(variable: &Variable<'_>) -> Option<Self> {
        if variable.space != VariableSpace::Param || variable.vector > 1 {
            return None;
        }
        let passed = Passed {
            bytes: u32::try_from(variable.size()?).ok()?,
            alignment: variable.alignment().max(1),
            is_array: !variable.dimensions.is_empty(),
        };
        let is_scalar = matches!(passed.bytes, 1 | 2 | 4 | 8);
        (passed.is_array || is_scalar).then_some(passed)
    }

    /// The declaration, with this name.
    fn declare(self, name: impl std::fmt::Display, out: &mut String) {
        let Passed {
            bytes, alignment, ..
        } = self;
        if self.is_array {
            put(
                out,
                format_args!(".param .align {alignment} .b8 {name}[{bytes}]"),
            );
        } else {
            put(out, format_args!(".param .b{} {name}", bytes * 8));
        }
    }

    /// Offsets and bytes of the pieces that it can be copied in.
    fn pieces(self) -> Vec<(u32, u32)> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < self.bytes {
            let mut piece = self.alignment.next_power_of_two().min(8);
            while piece > self.bytes - at || !at.is_multiple_of(piece) {
                piece /= 2;
            }
            pieces.push((at, piece));
            at += piece;
        }
        pieces
    }
}

/// What functions take and return, as far as a call can tell them apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Signature {
    takes: Vec<Passed>,
    returns: Option<Passed>,
}

impl Signature {
    fn new(takes: &[Variable<'_>], returns: &[Variable<'_>]) -> Option<Self> {
        Some(Signature {
            takes: takes.iter().map(Passed::of).collect::<Option<_>>()?,
            returns: match returns {
                [] => None,
                [one] => Some(Passed::of(one)?),
                _ => return None,
            },
        })
    }

    /// Of a function; `None` if calls of it pass something in registers.
    pub(crate) fn of(function: &Function<'_>) -> Option<Self> {
        Self::new(&function.parameters, &function.returns)
    }

    /// Of what the instruction calls, which is a function that a register
    /// holds the address of.
    pub(crate) fn of_call(
        analysis: &Analysis<'_, '_>,
        index: usize,
        listed: &ListOf<'_>,
    ) -> Option<Self> {
        let code = &analysis.code;
        let (_, label) = callee(code.instructions[index].instruction)?;
        if let Some(prototype) = code.call_prototype(index, label) {
            return Self::new(&prototype.parameters, &prototype.returns);
        }
        let targets = code.branch_targets(index, label)?;
        let mut signatures = targets.iter().map(|name| listed(name));
        let first = signatures.next()??;
        signatures
            .all(|other| other.as_ref() == Some(&first))
            .then_some(first)
    }

    /// Whether a pointer may be among what is passed and returned.
    fn may_hold_pointers(&self) -> bool {
        let mut all = self.takes.iter().chain(&self.returns);
        all.any(|passed| passed.bytes >= 8)
    }

    /// The prototype of a call of a copy.
    pub(crate) fn prototype(&self, takes: u32, gives: u32, label: u32, out: &mut String) {
        put(out, format_args!("{PROTOTYPE}{label} : .callprototype ("));
        if let Some(returns) = self.result(gives) {
            returns.declare('_', out);
        }
        out.push_str(") _ (");
        for passed in &self.takes {
            passed.declare('_', out);
            out.push_str(", ");
        }
        line!(out, ".param .align 8 .b8 _[{takes}]);");
    }

    /// Bytes of what comes back.
    pub(crate) fn result_bytes(&self) -> u64 {
        self.returns.map_or(0, |returns| returns.bytes.into())
    }

    /// The place of a piece that the thunk copies of the result, if it is of
    /// eight bytes.
    pub(crate) fn piece_of_result(&self, number: usize) -> Option<u32> {
        let pieces = self.returns?.pieces();
        let &(at, bytes) = pieces.get(number)?;
        (bytes == 8).then_some(at)
    }

    /// What comes back from a copy that gives bounds back in so many bytes.
    fn result(&self, gives: u32) -> Option<Passed> {
        let returns = self.returns?;
        Some(match gives {
            0 => returns,
            bytes => Passed {
                bytes,
                alignment: returns.alignment.max(8),
                is_array: true,
            },
        })
    }
}

/// The signature of a function that the module lists by this name.
pub(crate) type ListOf<'x> = dyn Fn(&str) -> Option<Signature> + 'x;

/// The place of the register and the name of the prototype, of a call through
/// a pointer.
pub(crate) fn callee<'a>(instruction: &Instruction<'a>) -> Option<(usize, &'a str)> {
    if instruction.opcode.base() != "call" {
        return None;
    }
    let name = |operand: &ptx::Operand<'a>| match operand.kind {
        OperandKind::Name(name) => Some(name),
        _ => None,
    };
    let operands = &instruction.operands;
    let place = operands.iter().position(|o| name(o).is_some())?;
    let is_register = name(&operands[place])?.starts_with('%');
    let prototype = operands.get(place + 1..)?.last().and_then(name)?;
    is_register.then_some((place, prototype))
}

/// Where the copy of a class stands in for the address that a call names.
#[derive(Clone, Debug)]
pub(super) struct Through {
    /// Number of the class.
    pub(super) class: u32,
    pub(super) signature: Signature,
    /// Place of the register.
    pub(super) register: Span,
    /// Place of the prototype's name.
    pub(super) prototype: Span,
}

/// Functions that calls through pointers cannot tell apart.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) signature: Signature,
    /// Their numbers.
    pub(super) members: Vec<usize>,
}

/// The classes of a module, and which call goes to which.
pub(super) struct Classes {
    pub(super) list: Vec<Class>,
    /// By function and instruction.
    pub(super) calls: Vec<Vec<(usize, u32)>>,
    /// Of each function, the calls that may pass pointers to a function that
    /// nothing is known of.
    pub(super) unknown: Vec<u32>,
}

impl Classes {
    pub(super) fn of<'x>(
        functions: &[(&Function<'_>, &'x Analysis<'x, '_>)],
        is_candidate: impl Fn(usize) -> bool,
        number_of: impl Fn(&str) -> Option<usize>,
    ) -> Self {
        let signatures: Vec<Option<Signature>> = functions
            .iter()
            .map(|(function, _)| Signature::of(function))
            .collect();
        let listed = |name: &str| signatures.get(number_of(name)?)?.clone();
        let mut classes = Classes {
            list: Vec::new(),
            calls: vec![Vec::new(); functions.len()],
            unknown: vec![0; functions.len()],
        };
        for (number, (_, analysis)) in functions.iter().enumerate() {
            for (index, inst) in analysis.code.instructions.iter().enumerate() {
                if inst.instruction.opcode.base() != "call"
                    || calls::callee(inst.instruction).is_some()
                {
                    continue;
                }
                let signature = Signature::of_call(analysis, index, &listed);
                let class = signature.as_ref().and_then(|signature| {
                    let known = classes.list.iter().position(|c| c.signature == *signature);
                    known.or_else(|| {
                        let is_member = |&number: &usize| {
                            is_candidate(number) && signatures[number].as_ref() == Some(signature)
                        };
                        let members: Vec<usize> = (0..functions.len()).filter(is_member).collect();
                        let is_class = (1..=MOST_MEMBERS).contains(&members.len());
                        is_class.then(|| {
                            classes.list.push(Class {
                                signature: signature.clone(),
                                members,
                            });
                            classes.list.len() - 1
                        })
                    })
                });
                match class {
                    Some(class) => classes.calls[number].push((index, class as u32)),
                    None => {
                        let counts = signature.is_none_or(|s| s.may_hold_pointers());
                        classes.unknown[number] += u32::from(counts);
                    }
                }
            }
        }
        classes
    }
}

/// A class whose functions have checked copies.
pub(crate) struct Dispatch<'a> {
    pub(crate) number: u32,
    pub(crate) signature: Signature,
    /// The functions of the class.
    pub(crate) names: Vec<&'a str>,
    /// Bytes of the bounds that copies take, with the address that was called.
    pub(crate) takes: u32,
    /// Places in the result whose bounds copies give, and the bytes of the
    /// result with them; 0 if they give none.
    pub(crate) gives: (Vec<(u32, u32)>, u32),
}

impl Dispatch<'_> {
    /// Declares the two functions of the class.
    pub(crate) fn declare(&self, out: &mut String) {
        target_head(self.number, out);
        out.push_str(";\n");
        self.thunk_head(out);
        out.push_str(";\n");
    }

    /// Defines them, behind all functions of the module.
    pub(crate) fn define(&self, out: &mut String) {
        target(self.number, &self.names, out);
        self.thunk(out);
    }

    fn thunk_head(&self, out: &mut String) {
        out.push_str(".func ");
        if let Some(result) = self.signature.result(self.gives.1) {
            out.push('(');
            result.declare("__ringfence_result", out);
            out.push_str(") ");
        }
        put(out, format_args!("{THUNK}{} (", self.number));
        for (place, passed) in self.signature.takes.iter().enumerate() {
            passed.declare(format_args!("__ringfence_p{place}"), out);
            out.push_str(", ");
        }
        put(
            out,
            format_args!(".param .align 8 .b8 __ringfence_called[{}])", self.takes),
        );
    }

    fn thunk(&self, out: &mut String) {
        out.push_str("\n// Calls a function that the class does not hold.\n");
        self.thunk_head(out);
        let returns = self.signature.returns;
        let pieces = |passed: &Passed| passed.pieces().len();
        let moved: usize = self.signature.takes.iter().map(pieces).sum();
        let count = moved.max(returns.as_ref().map_or(0, pieces));
        out.push_str("\n{\n\t");
        line!(out, ".reg .b64 {OFFSET}, {WEAK_BASE}, {WEAK_SIZE};");
        if count > 0 {
            line!(out, ".reg .b64 %__rf_v<{count}>;");
        }
        line!(
            out,
            "ld.param.b64 {OFFSET}, [__ringfence_called+{}];",
            self.takes - CALLED
        );
        let mut number = 0;
        for (place, passed) in self.signature.takes.iter().enumerate() {
            for (at, bytes) in passed.pieces() {
                let bits = bytes * 8;
                line!(
                    out,
                    "ld.param.b{bits} %__rf_v{number}, [__ringfence_p{place}+{at}];"
                );
                number += 1;
            }
        }
        line!(out, "{{");
        number = 0;
        for (place, passed) in self.signature.takes.iter().enumerate() {
            passed.declare(format_args!("__ringfence_a{place}"), out);
            line!(out, ";");
            for (at, bytes) in passed.pieces() {
                let bits = bytes * 8;
                line!(
                    out,
                    "st.param.b{bits} [__ringfence_a{place}+{at}], %__rf_v{number};"
                );
                number += 1;
            }
        }
        if let Some(returns) = returns {
            returns.declare("__ringfence_r", out);
            line!(out, ";");
        }
        put(out, format_args!("{PROTOTYPE} : .callprototype ("));
        if let Some(returns) = returns {
            returns.declare('_', out);
        }
        out.push_str(") _ (");
        for (place, passed) in self.signature.takes.iter().enumerate() {
            out.push_str(if place == 0 { "" } else { ", " });
            passed.declare('_', out);
        }
        line!(out, ");");
        let result = if returns.is_some() {
            "(__ringfence_r), "
        } else {
            ""
        };
        let arguments: Vec<String> = (0..self.signature.takes.len())
            .map(|place| format!("__ringfence_a{place}"))
            .collect();
        line!(
            out,
            "call {result}{OFFSET}, ({}), {PROTOTYPE};",
            arguments.join(", ")
        );
        let back = returns.map(Passed::pieces).unwrap_or_default();
        for (number, (at, bytes)) in back.iter().enumerate() {
            let bits = bytes * 8;
            line!(
                out,
                "ld.param.b{bits} %__rf_v{number}, [__ringfence_r+{at}];"
            );
        }
        line!(out, "}}");
        for (number, (at, bytes)) in back.iter().enumerate() {
            let bits = bytes * 8;
            line!(
                out,
                "st.param.b{bits} [__ringfence_result+{at}], %__rf_v{number};"
            );
        }
        for &(offset, place) in &self.gives.0 {
            match back.iter().position(|&piece| piece == (offset, 8)) {
                Some(number) => lookup_in(Op::Family("v", number as u32), None, out),
                None => {
                    line!(out, "mov.b64 {WEAK_BASE}, 0;");
                    line!(out, "mov.b64 {WEAK_SIZE}, {UNBOUNDED};");
                }
            }
            let size_at = place + std::mem::offset_of!(LaunchBounds, size) as u32;
            line!(
                out,
                "st.param.b64 [__ringfence_result+{place}], {WEAK_BASE};"
            );
            line!(
                out,
                "st.param.b64 [__ringfence_result+{size_at}], {WEAK_SIZE};"
            );
        }
        out.push_str("ret;\n}\n");
    }
}

fn target_head(number: u32, out: &mut String) {
    put(
        out,
        format_args!(
            ".func (.param .b64 __ringfence_callee) {TARGET}{number} (.param .b64 __ringfence_function)"
        ),
    );
}

/// Maps the addresses of the named functions to their copies.
pub(crate) fn target(number: u32, names: &[&str], out: &mut String) {
    out.push_str("\n// The checked copy of the function at an address, else the thunk.\n");
    target_head(number, out);
    out.push_str("\n{\n\t");
    line!(out, ".reg .pred {OUTSIDE};");
    line!(out, ".reg .b64 {OFFSET}, {SCRATCH}, {SCRATCH2};");
    line!(out, "ld.param.b64 {OFFSET}, [__ringfence_function];");
    line!(out, "mov.u64 {SCRATCH}, {THUNK}{number};");
    for name in names {
        line!(out, "mov.u64 {SCRATCH2}, {name};");
        line!(out, "setp.eq.s64 {OUTSIDE}, {OFFSET}, {SCRATCH2};");
        line!(out, "mov.u64 {SCRATCH2}, {CHECKED_PREFIX}{name};");
        line!(out, "selp.b64 {SCRATCH}, {SCRATCH2}, {SCRATCH}, {OUTSIDE};");
    }
    line!(out, "st.param.b64 [__ringfence_callee], {SCRATCH};");
    out.push_str("ret;\n}\n");
}
