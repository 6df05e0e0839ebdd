//! What holds of any text whatever: the oracle of the property tests and of
//! the fuzz target `ptx_parse`.

use ptx::{Edits, LineIndex, parse, tokenize};

/// All that must hold of any text.
pub fn check(source: &str) {
    let tokens = tokenize(source);
    let mut at = 0;
    for token in &tokens {
        assert_eq!(token.span.start, at, "gap or overlap");
        assert!(token.span.end > at, "empty token");
        at = token.span.end;
        token.span.text(source);
    }
    assert_eq!(at as usize, source.len());
    assert_eq!(Edits::new().apply(source), source);
    let lines = LineIndex::new(source);
    match parse(source) {
        Ok(module) => {
            for variable in module.variables() {
                let _ = variable.initial_value(source);
                variable.size();
            }
            for function in module.functions() {
                for (_, statement) in function.statements() {
                    let ptx::Statement::Instruction(instruction) = statement else {
                        continue;
                    };
                    instruction.span.text(source);
                    for operand in &instruction.operands {
                        operand.span.text(source);
                        operand.names(&mut |name| assert!(!name.is_empty()));
                    }
                    if let Some(info) = ptx::table::classify(instruction) {
                        assert_eq!(info.roles.len(), instruction.operands.len());
                        assert!(
                            info.accesses
                                .iter()
                                .all(|a| a.operand < instruction.operands.len())
                        );
                    }
                }
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in &errors {
                assert!(
                    !error.message.is_empty() && !error.line.is_empty() && !error.help.is_empty(),
                    "{error:?}"
                );
                assert!(error.line.chars().count() <= 170, "{error:?}");
                assert_eq!(error.position, lines.position(error.span.start));
                error.span.text(source);
            }
        }
    }
}
