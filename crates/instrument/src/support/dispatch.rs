//! The two functions of each class of functions that calls through pointers
//! reach: one maps an address to a checked copy; the other is the thunk for all
//! other addresses.

use crate::patch::{line, put};
use crate::protocol::family::MOVED;
use crate::protocol::register::{OFFSET, OUTSIDE, SCRATCH, SCRATCH2, WEAK_BASE, WEAK_SIZE};
use crate::protocol::{CALLED, LOOKUP, PROTOTYPE, TARGET, THUNK};
use analysis::{Passed, Signature};
use model::layout::{CHECKED_PREFIX, LaunchBounds, UNBOUNDED};

/// A class whose functions have checked copies.
pub(crate) struct Dispatch<'a> {
    pub(crate) number: u32,
    pub(crate) signature: Signature,
    /// The functions of the class.
    pub(crate) names: Vec<&'a str>,
    /// Bytes of the bounds that copies take, with the address that was called.
    pub(crate) takes: u32,
    /// Offsets in the result whose bounds copies return, and the bytes of the
    /// result with them; 0 if they return none.
    pub(crate) returned: (Vec<(u32, u32)>, u32),
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
        if let Some(result) = result(&self.signature, self.returned.1) {
            out.push('(');
            declare(result, "__ringfence_result", out);
            out.push_str(") ");
        }
        put(out, format_args!("{THUNK}{} (", self.number));
        for (place, passed) in self.signature.takes.iter().enumerate() {
            declare(*passed, format_args!("__ringfence_p{place}"), out);
            out.push_str(", ");
        }
        put(
            out,
            format_args!(".param .align 8 .b8 __ringfence_called[{}])", self.takes),
        );
    }

    /// The call itself, with the prototype.
    fn thunk_call(&self, out: &mut String) {
        let returns = self.signature.returns;
        put(out, format_args!("{PROTOTYPE} : .callprototype ("));
        if let Some(returns) = returns {
            declare(returns, '_', out);
        }
        out.push_str(") _ (");
        for (place, passed) in self.signature.takes.iter().enumerate() {
            out.push_str(if place == 0 { "" } else { ", " });
            declare(*passed, '_', out);
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
    }

    /// The result, from the registers that its pieces are in, and the bounds
    /// of the pointers among them.
    fn hand_back(&self, back: &[(u32, u32)], out: &mut String) {
        for (number, (at, bytes)) in back.iter().enumerate() {
            let bits = bytes * 8;
            line!(
                out,
                "st.param.b{bits} [__ringfence_result+{at}], {MOVED}{number};"
            );
        }
        for &(offset, place) in &self.returned.0 {
            match back.iter().position(|&piece| piece == (offset, 8)) {
                Some(number) => look_up(&format!("{MOVED}{number}"), out),
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
            line!(out, ".reg .b64 {MOVED}<{count}>;");
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
                    "ld.param.b{bits} {MOVED}{number}, [__ringfence_p{place}+{at}];"
                );
                number += 1;
            }
        }
        line!(out, "{{");
        number = 0;
        for (place, passed) in self.signature.takes.iter().enumerate() {
            declare(*passed, format_args!("__ringfence_a{place}"), out);
            line!(out, ";");
            for (at, bytes) in passed.pieces() {
                let bits = bytes * 8;
                line!(
                    out,
                    "st.param.b{bits} [__ringfence_a{place}+{at}], {MOVED}{number};"
                );
                number += 1;
            }
        }
        if let Some(returns) = returns {
            declare(returns, "__ringfence_r", out);
            line!(out, ";");
        }
        self.thunk_call(out);
        let back = returns.map(Passed::pieces).unwrap_or_default();
        for (number, (at, bytes)) in back.iter().enumerate() {
            let bits = bytes * 8;
            line!(
                out,
                "ld.param.b{bits} {MOVED}{number}, [__ringfence_r+{at}];"
            );
        }
        line!(out, "}}");
        self.hand_back(&back, out);
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

/// Looks up a pointer.
fn look_up(pointer: &str, out: &mut String) {
    line!(out, "{{");
    line!(out, ".param .b64 __ringfence_0;");
    line!(out, ".param .align 8 .b8 __ringfence_1[16];");
    line!(out, "st.param.b64 [__ringfence_0], {pointer};");
    line!(out, "call (__ringfence_1), {LOOKUP}, (__ringfence_0);");
    line!(out, "ld.param.b64 {WEAK_BASE}, [__ringfence_1];");
    line!(out, "ld.param.b64 {WEAK_SIZE}, [__ringfence_1+8];");
    line!(out, "}}");
}

/// The declaration, with this name.
fn declare(passed: Passed, name: impl std::fmt::Display, out: &mut String) {
    let Passed {
        bytes, alignment, ..
    } = passed;
    if passed.is_array {
        put(
            out,
            format_args!(".param .align {alignment} .b8 {name}[{bytes}]"),
        );
    } else {
        put(out, format_args!(".param .b{} {name}", bytes * 8));
    }
}

/// The result of a copy that returns this many bytes with bounds.
fn result(signature: &Signature, returned: u32) -> Option<Passed> {
    let returns = signature.returns?;
    Some(match returned {
        0 => returns,
        bytes => Passed {
            bytes,
            alignment: returns.alignment.max(8),
            is_array: true,
        },
    })
}

/// The prototype of a call of a copy.
pub(crate) fn prototype(
    signature: &Signature,
    takes: u32,
    returned: u32,
    label: u32,
    out: &mut String,
) {
    put(out, format_args!("{PROTOTYPE}{label} : .callprototype ("));
    if let Some(returns) = result(signature, returned) {
        declare(returns, '_', out);
    }
    out.push_str(") _ (");
    for passed in &signature.takes {
        declare(*passed, '_', out);
        out.push_str(", ");
    }
    line!(out, ".param .align 8 .b8 _[{takes}]);");
}
