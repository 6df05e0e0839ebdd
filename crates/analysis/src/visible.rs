//! Which symbols can be named at the top of a body (PTX ISA, 4.4: names are
//! visible from their declaration on, in their scope).

use crate::code::Code;
use crate::names::{ModuleSymbols, SymbolId};
use ptx::{Function, Statement};
use rustc_hash::{FxHashMap, FxHashSet};

/// Symbols that can be named where a body's declarations end.
#[derive(Debug)]
pub struct Nameable<'x, 'a> {
    symbols: &'x ModuleSymbols<'a>,
    own: FxHashSet<&'a str>,
}

impl<'x, 'a> Nameable<'x, 'a> {
    /// Of a function.
    pub fn of(function: &Function<'a>, symbols: &'x ModuleSymbols<'a>) -> Self {
        let mut declared: FxHashMap<&'a str, u32> = FxHashMap::default();
        for (_, statement) in function.statements() {
            if let Statement::Variable(variable) = statement {
                *declared.entry(variable.name).or_default() += 1;
            }
        }
        let leading = leading_declarations(function)
            .map(|variable| variable.name)
            .chain(function.parameters.iter().map(|parameter| parameter.name));
        // A name that is declared twice may mean the other one.
        let own = leading
            .filter(|name| declared.get(name).is_none_or(|&count| count == 1))
            .collect();
        Nameable { symbols, own }
    }

    /// Whether a symbol is one of them.
    pub fn holds(&self, code: &Code<'_, '_>, symbol: SymbolId) -> bool {
        let symbol = &code.symbols[symbol.0 as usize];
        self.own.contains(symbol.name) || self.symbols.get(symbol.name) == Some(symbol)
    }
}

/// The declarations at the start of a body. They may follow a label that no
/// branch names: debug information refers to the start of a function.
fn leading_declarations<'m, 'a>(
    function: &'m Function<'a>,
) -> impl Iterator<Item = &'m ptx::Variable<'a>> {
    let statements = function.body.iter().flat_map(|body| &body.statements);
    statements
        .map_while(|statement| match statement {
            Statement::Variable(variable) => Some(Some(variable)),
            Statement::Loc(_) => Some(None),
            Statement::Label(label) if !is_target(function, label.name) => Some(None),
            _ => None,
        })
        .flatten()
}

/// Whether some statement names a label.
fn is_target(function: &Function<'_>, label: &str) -> bool {
    function.statements().any(|(_, statement)| match statement {
        Statement::Instruction(instruction) => {
            let mut found = false;
            for operand in &instruction.operands {
                operand.names(&mut |name| found |= name == label);
            }
            found
        }
        Statement::Targets(targets) => targets.names.contains(&label),
        _ => false,
    })
}

/// Where the declarations that a body begins with end.
pub fn end_of_declarations(function: &Function<'_>) -> Option<u32> {
    leading_declarations(function)
        .map(|variable| variable.span.end)
        .max()
}
