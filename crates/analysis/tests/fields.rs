//! Which indices are into a field, by the debug information of a `-G` build.

use analysis::{Analysis, ModuleSymbols, Root};

const TEXT: &str = include_str!("fields.ptx");

/// The fields that a function indexes, in text order, each once.
fn fields(function: &str) -> Vec<String> {
    let module = ptx::parse(TEXT).expect("it is PTX");
    let symbols = ModuleSymbols::of(&module);
    let function = module
        .functions()
        .find(|known| known.name == function && known.body.is_some())
        .expect("the function");
    let analysis = Analysis::of(&symbols, function).expect("a body");
    let mut fields: Vec<String> = analysis
        .provenance
        .roots
        .iter()
        .filter_map(|root| match root {
            Root::Field { value, .. } => analysis.provenance.field(*value),
            _ => None,
        })
        .map(|field| format!("{} {}", field.name, field.bytes))
        .collect();
    fields.dedup();
    fields
}

#[test]
fn indices_into_fields_are_found_wherever_the_struct_is() {
    for (function, expected) in [
        ("parameter", &["records[].values 32"][..]),
        ("pointer", &["records[].values 32"]),
        ("local", &["record.values 32"]),
        ("shared", &["records[].values 32"]),
        ("list", &["n->w 16", "n->v 16"]),
        ("variable", &["variables[].values 32"]),
        ("nested", &["o->in 204", "o->in[].values 32"]),
        ("_Z6calleeP6Recordi", &["record->values 32"]),
    ] {
        assert_eq!(fields(function), expected, "{function}");
    }
}

#[test]
fn what_types_do_not_prove_is_left_alone() {
    for function in [
        "words", "bytes", "first", "flexible", "both", "text", "whole", "other",
    ] {
        assert!(
            fields(function).is_empty(),
            "{function}: {:?}",
            fields(function)
        );
    }
}
