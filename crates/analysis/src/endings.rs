//! Which instructions may end a thread, or its whole kernel, without a return to
//! the code that follows them: what a thread has to say must be said before.
//!
//! Barriers of the block are among them. Another thread may stop the kernel there: an
//! assertion about data that this one was to write. And phases of a kernel often have
//! one error each, of which the last would hide the others.

use crate::calls::stores;
use crate::code::Referent;
use crate::function::Analysis;
use crate::roles::Role;
use ptx::{Instruction, Mnemonic, Modifier, Module};
use rustc_hash::FxHashSet;

/// Functions of the driver that always return.
const RETURN: [&str; 3] = ["vprintf", "malloc", "free"];
/// Begins the names of the device runtime's functions, which do, too.
const DEVICE_RUNTIME: &str = "cuda";

/// What may end in the functions of a module.
pub struct Endings<'a> {
    /// Defined functions from which every call returns, unless it does not end.
    returning: FxHashSet<&'a str>,
}

impl<'a> Endings<'a> {
    /// Of all functions of a module.
    pub fn of(module: &Module<'a>) -> Self {
        let defined = || module.functions().filter(|f| f.body.is_some());
        let mut endings = Endings {
            returning: defined().map(|function| function.name).collect(),
        };
        // A function returns unless some instruction says otherwise.
        loop {
            let ends = |instruction: &Instruction<'_>| {
                is_end(instruction) || endings.may_not_return(instruction)
            };
            let ending: Vec<&str> = defined()
                .filter(|function| endings.returning.contains(function.name))
                .filter(|function| function.instructions().any(ends))
                .map(|function| function.name)
                .collect();
            if ending.is_empty() {
                return endings;
            }
            for name in ending {
                endings.returning.remove(name);
            }
        }
    }

    /// Whether an instruction is a call that may not return: what is called
    /// through a pointer may be no function, and a function that the module does
    /// not define may do anything; or a breakpoint, which stops the kernel where
    /// no debugger is; or a barrier, at which another thread may stop it.
    pub fn may_end_in(&self, instruction: &Instruction<'_>) -> bool {
        self.may_not_return(instruction) || is_barrier(instruction)
    }

    fn may_not_return(&self, instruction: &Instruction<'_>) -> bool {
        match instruction.opcode.mnemonic() {
            Mnemonic::Brkpt => true,
            Mnemonic::Call => match instruction.called_function() {
                None => true,
                Some((_, name)) => {
                    !self.returning.contains(name)
                        && !RETURN.contains(&name)
                        && !name.starts_with(DEVICE_RUNTIME)
                }
            },
            _ => false,
        }
    }
}

/// Whether an instruction ends its thread.
fn is_end(instruction: &Instruction<'_>) -> bool {
    let mnemonic = instruction.opcode.mnemonic();
    matches!(mnemonic, Mnemonic::Exit | Mnemonic::Trap)
}

/// Whether all threads of a block wait for each other at an instruction.
fn is_barrier(instruction: &Instruction<'_>) -> bool {
    let opcode = &instruction.opcode;
    matches!(opcode.mnemonic(), Mnemonic::Bar | Mnemonic::Barrier)
        && !opcode.has(Modifier::Warp)
        && !opcode.has(Modifier::Arrive)
}

/// The first of the stores of a call's arguments that stand directly before it;
/// the instruction itself if there are none.
pub fn first_store(analysis: &Analysis<'_, '_>, index: usize) -> usize {
    let code = &analysis.code;
    let is_passed = |symbol| {
        code.references_of(index).iter().any(
            |r| matches!(r.referent, Referent::Symbol(s, _) if s == symbol && r.role != Role::Write),
        )
    };
    let mut first = index;
    while let Some(before) = first.checked_sub(1)
        && let Some((symbol, _)) = stores(analysis, before, index)
        && is_passed(symbol)
    {
        first = before;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions of a module from which a call may not return.
    fn ending(text: &str) -> Vec<String> {
        let source = format!(".version 7.0\n.target sm_80\n.address_size 64\n{text}");
        let module = ptx::parse(&source).expect("valid PTX");
        let endings = Endings::of(&module);
        let functions = module.functions().filter(|f| f.body.is_some());
        functions
            .filter(|function| !endings.returning.contains(function.name))
            .map(|function| function.name.to_owned())
            .collect()
    }

    #[test]
    fn a_function_may_end_if_what_it_calls_may() {
        let text = ".extern .func __assertfail;
.extern .func vprintf;
.func traps() { trap; ret; }
.func fails() { call __assertfail; ret; }
.func prints() { call vprintf; ret; }
.func through() { .reg .b64 %rd<2>; p: .callprototype _ (); call %rd1, (), p; ret; }
.func outer() { call prints; call fails; ret; }
.func again() { call again; ret; }
.func one() { call other; ret; }
.func other() { call one; call traps; ret; }
.func quiet() { call again; call prints; ret; }";
        assert_eq!(
            ending(text),
            ["traps", "fails", "through", "outer", "one", "other"]
        );
    }

    #[test]
    fn threads_may_end_at_barriers_of_their_block() {
        let source = ".version 7.8\n.target sm_90\n.address_size 64
.entry waits() { bar.sync 0; bar.warp.sync 0xffffffff; bar.arrive 1, 64;
barrier.sync 0; barrier.cluster.arrive; barrier.cluster.wait; exit; }";
        let module = ptx::parse(source).expect("valid PTX");
        let endings = Endings::of(&module);
        let all = module
            .functions()
            .flat_map(|function| function.instructions());
        let waits = all.filter(|instruction| endings.may_end_in(instruction));
        let names: Vec<&str> = waits.map(|instruction| instruction.opcode.text).collect();
        assert_eq!(names, ["bar.sync", "barrier.sync", "barrier.cluster.wait"]);
    }
}
