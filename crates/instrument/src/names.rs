//! Names with which a module cannot be instrumented.

use crate::error::Error;
use crate::protocol::{LABEL_PREFIX, NAME_PREFIX, REGISTER_PREFIX};
use ptx::{Block, Module, Position, Span, Statement, Variable};
use rustc_hash::FxHashSet;

/// The program must not use the names that checks use.
pub(crate) fn reserve(source: &str) -> Result<(), Error> {
    for reserved in [NAME_PREFIX, REGISTER_PREFIX, LABEL_PREFIX] {
        if let Some(at) = memchr::memmem::find(source.as_bytes(), reserved.as_bytes()) {
            let rest = &source[at..];
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '$' | '%'))
                .unwrap_or(rest.len());
            return Err(Error::ReservedName {
                name: rest[..end].to_owned(),
                line: Position::of(source, at as u32).line,
            });
        }
    }
    Ok(())
}

/// Functions need a name that a prefix can be added to, and what a function names must
/// be one thing (PTX ISA, "Scoping": a name is declared once in a scope).
pub(crate) fn refuse(module: &Module<'_>, source: &str) -> Result<(), Error> {
    for function in module.functions() {
        let line = |span: Span| Position::of(source, span.start).line;
        if function.name.starts_with('%') {
            return Err(Error::FunctionName {
                name: function.name.to_owned(),
                line: line(function.name_span),
            });
        }
        let mut declared = Declared::default();
        let parameters = function.returns.iter().chain(&function.parameters);
        let repeated = parameters
            .into_iter()
            .find_map(|variable| declared.add(variable))
            .or_else(|| declared.block(function.body.as_ref()?));
        if let Some((name, span)) = repeated {
            return Err(Error::RepeatedName {
                name: name.to_owned(),
                line: line(span),
            });
        }
    }
    Ok(())
}

/// The names that a scope declares.
#[derive(Default)]
struct Declared<'a> {
    /// With the number of registers that it stands for.
    names: FxHashSet<(&'a str, Option<u32>)>,
    labels: FxHashSet<&'a str>,
}

impl<'a> Declared<'a> {
    /// Adds a name; answers it if it is there already.
    fn add(&mut self, variable: &Variable<'a>) -> Option<(&'a str, Span)> {
        let is_new = self.names.insert((variable.name, variable.range));
        (!is_new).then_some((variable.name, variable.name_span))
    }

    /// Adds what a block declares, and looks into those in it, which are scopes of their
    /// own, for labels too.
    fn block(&mut self, block: &Block<'a>) -> Option<(&'a str, Span)> {
        block
            .statements
            .iter()
            .find_map(|statement| match statement {
                Statement::Variable(variable) => self.add(variable),
                Statement::Label(label) => {
                    let is_new = self.labels.insert(label.name);
                    (!is_new).then_some((label.name, label.span))
                }
                Statement::Block(inner) => Declared::default().block(inner),
                _ => None,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(functions: &str) -> Option<String> {
        let source = format!(".version 7.8\n.target sm_90\n.address_size 64\n{functions}");
        let module = ptx::parse(&source).expect("it is PTX");
        refuse(&module, &source)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn a_name_stands_for_one_thing() {
        let twice = |what: &str, line: u32| {
            Some(format!(
                "line {line} declares `{what}` a second time: name it otherwise"
            ))
        };
        let entry = |parameters: &str, body: &str| {
            refused(&format!(".entry k({parameters})\n{{\n{body}ret;\n}}\n"))
        };
        assert_eq!(entry(".param .u64 p, .param .u64 p", ""), twice("p", 4));
        assert_eq!(entry(".param .u64 p, .param .u64 q", ""), None);
        assert_eq!(
            entry("", ".reg .b32 %r<4>;\n.reg .b32 %r<4>;\n"),
            twice("%r", 7)
        );
        assert_eq!(entry("", ".reg .b32 %r<4>;\n.reg .b32 %r;\n"), None);
        assert_eq!(entry("", "{ .reg .b32 %a; }\n{ .reg .b32 %a; }\n"), None);
        assert_eq!(entry("", ".reg .b32 %a;\n{ .reg .b32 %a; }\n"), None);
        assert_eq!(entry("", "{ .reg .b32 %a, %a; }\n"), twice("%a", 6));
        assert_eq!(entry("", "L:\nM:\nL:\n"), twice("L", 8));
        assert_eq!(entry("", "L:\n{\nL:\n}\n"), None);
        assert_eq!(
            refused(".entry k() { L: ret; }\n.entry l() { L: ret; }\n"),
            None
        );
    }

    #[test]
    fn a_function_has_a_name_to_which_a_prefix_can_be_added() {
        assert!(refused(".entry %k() { ret; }\n").is_some_and(|text| text.contains("`%k`")));
    }
}
