//! Calls through function pointers and of virtual functions.
//!
//! Memory always holds the addresses of the program's own functions, because
//! unchecked kernels, other modules and the host read them there. So a checked
//! caller translates the address at the call. Functions whose address is taken
//! and that have the same signature form a class. The checked copies of a class
//! have one ABI. `TARGET` of the class maps the address of each function to its
//! copy. It maps every other address to the class's thunk, which takes the same
//! parameters as the copies and calls that address as the program did.

use analysis::{Analysis, Signature};
use ptx::{Function, Mnemonic, Span};

/// Functions of one class are compared with an address one after the other.
const MOST_MEMBERS: usize = 256;

/// The register whose address is replaced by that of a copy.
#[derive(Clone, Debug)]
pub(super) struct Through {
    /// Number of the class.
    pub(super) class: u32,
    pub(super) signature: Signature,
    /// Position of the register.
    pub(super) register: Span,
    /// Position of the prototype's name.
    pub(super) prototype: Span,
}

/// Functions with the same signature: a call through a pointer may reach any.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) signature: Signature,
    /// Indices of the functions.
    pub(super) members: Vec<usize>,
}

/// The classes of a module, and the class of each call.
pub(super) struct Classes {
    pub(super) list: Vec<Class>,
    /// By function and instruction.
    pub(super) calls: Vec<Vec<(usize, u32)>>,
    /// For each function, the number of calls that may pass pointers to an
    /// unknown function.
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
                if inst.instruction.opcode.mnemonic() != Mnemonic::Call
                    || inst.instruction.called_function().is_some()
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
