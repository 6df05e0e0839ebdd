//! Names of registers, and instructions that take one apart.

use ptx::{Function, Instruction, Operand, OperandKind, Statement, Variable};
use rustc_hash::FxHashMap;

/// The names that a function declares outside of all inner scopes, and once.
pub(super) struct Outside<'a> {
    /// Each with the number of its members, if it is a family; `None` for what is
    /// declared again, or in a scope.
    declared: FxHashMap<&'a str, Option<Members>>,
}

#[derive(Clone, Copy)]
struct Members(Option<u32>);

impl<'a> Outside<'a> {
    pub(super) fn of(function: &Function<'a>) -> Outside<'a> {
        let mut declared: FxHashMap<&'a str, Option<Members>> = FxHashMap::default();
        let mut declare = |variable: &Variable<'a>, is_outside: bool| {
            let first = declared.insert(variable.name, None).is_none();
            if first && is_outside {
                declared.insert(variable.name, Some(Members(variable.range)));
            }
        };
        for parameter in function.parameters.iter().chain(&function.returns) {
            declare(parameter, true);
        }
        for (depth, statement) in function.statements() {
            if let Statement::Variable(variable) = statement {
                declare(variable, depth == 0);
            }
        }
        Outside { declared }
    }

    /// Whether a name is one register wherever it stands: that of one declaration,
    /// as itself or as a member of a family.
    pub(super) fn declares_once(&self, name: &str) -> bool {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let mut found = 0;
        for cut in stem..=name.len() {
            let (family, number) = name.split_at(cut);
            match self.declared.get(family) {
                None => {}
                Some(None) => return false,
                Some(Some(Members(None))) => found += u32::from(number.is_empty()),
                Some(Some(Members(Some(count)))) => {
                    let is_member = number.parse::<u32>().is_ok_and(|number| number < *count);
                    found += u32::from(is_member);
                }
            }
        }
        found == 1
    }
}

/// The register whose halves an instruction takes.
pub(super) fn halved<'a>(instruction: &Instruction<'a>) -> Option<&'a str> {
    let [to, from] = &instruction.operands[..] else {
        return None;
    };
    let OperandKind::Vector(halves) = &to.kind else {
        return None;
    };
    let is_whole = |half: &Operand<'_>| matches!(half.kind, OperandKind::Name(_));
    let is_halved = halves.len() == 2 && halves.iter().all(is_whole);
    match from.kind {
        OperandKind::Name(wide) if is_halved && instruction.opcode.text == "mov.b64" => Some(wide),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_declared_once_or_not() {
        let text = ".version 8.0\n.target sm_90\n.address_size 64\n.func f(.reg .b32 %in) {\n\
                    .reg .b32 %r<20>; .reg .b64 %rd<4>; .reg .b64 %one; .reg .b32 %r1<3>;\n\
                    { .reg .b32 %q<4>; .reg .b32 %r3; { .reg .b32 %one; } }\n\
                    { .reg .b32 %q<4>; .reg .b32 %s; } ret; }\n";
        let module = ptx::parse(text).unwrap();
        let function = module.functions().next().unwrap();
        let outside = Outside::of(function);
        for name in ["%r0", "%r9", "%r13", "%r19", "%rd3", "%in"] {
            assert!(outside.declares_once(name), "{name}");
        }
        // Of two families; in a scope, too; only in a scope; not at all.
        for name in [
            "%r10", "%r12", "%r3", "%one", "%q1", "%s", "%r20", "%rd4", "%x",
        ] {
            assert!(!outside.declares_once(name), "{name}");
        }
    }
}
