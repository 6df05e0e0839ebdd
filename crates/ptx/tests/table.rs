//! What the table says, an instruction a line:
//!
//! ```text
//! instruction;  // roles; convergence; accesses
//! ```
//!
//! in `table.txt`. RINGFENCE_BLESS=1 rewrites the right side, for review
//! against the PTX ISA.

use std::fmt::Write;
use std::path::Path;

use ptx::table::{Convergence, Predication, Role, Width, classify};

fn describe(instruction: &ptx::Instruction<'_>) -> String {
    let Some(info) = classify(instruction) else {
        return "unknown".to_string();
    };
    let roles: String = info
        .roles
        .iter()
        .map(|role| match role {
            Role::Destination => 'd',
            Role::Source => 's',
            Role::Both => 'b',
            Role::Address => 'a',
            Role::Target => 't',
        })
        .collect();
    let mut out = if roles.is_empty() {
        "-".to_string()
    } else {
        roles
    };
    if info.convergence != Convergence::None {
        write!(out, "; {:?} converges", info.convergence).unwrap();
    }
    if info.is_control {
        out += "; control";
    }
    if info.predication != Predication::Never {
        write!(out, "; {:?} can leave it out", info.predication).unwrap();
    }
    if info.is_shared_only {
        out += "; generic addresses are shared";
    }
    for access in info.accesses {
        write!(
            out,
            "; {:?} {:?} at {} of ",
            access.effect, access.space, access.operand
        )
        .unwrap();
        match access.width {
            Width::Bytes(bytes) => write!(out, "{bytes}"),
            Width::Operand(operand) => write!(out, "#{operand}"),
            Width::CopySource { size, source } => write!(out, "#{size} or #{source}"),
            Width::Matrix {
                rows,
                row_bits,
                element_bits,
                stride,
            } => {
                write!(
                    out,
                    "{rows} x {row_bits} bits, elements of {element_bits}, stride {stride:?}"
                )
            }
            Width::Descriptor => write!(out, "descriptor"),
        }
        .unwrap();
        if access.alignment > 1 {
            write!(out, ", aligned to {}", access.alignment).unwrap();
        }
        if access.asynchronous {
            out += ", later";
        }
        if access.lanes != 32 {
            write!(out, ", {} lanes", access.lanes).unwrap();
        }
    }
    out
}

#[test]
fn the_table_says_what_was_reviewed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/table.txt");
    let golden = std::fs::read_to_string(&path).expect("table.txt is readable");
    let mut actual = String::new();
    for line in golden.lines() {
        let text = line.split("  // ").next().unwrap_or_default().trim_end();
        if text.is_empty() || text.starts_with('#') {
            writeln!(actual, "{text}").unwrap();
            continue;
        }
        let source = format!(".version 9.0\n.target sm_100a\n.entry k()\n{{\n{text}\n}}\n");
        let module = ptx::parse(&source).unwrap_or_else(|errors| panic!("{text}: {}", errors[0]));
        let function = module.functions().next().expect("one function");
        let instruction = function.instructions().next().expect("one instruction");
        writeln!(actual, "{text}  // {}", describe(instruction)).unwrap();
    }
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        std::fs::write(&path, &actual).expect("table.txt is writable");
    }
    let golden = std::fs::read_to_string(&path).expect("table.txt is readable");
    for (expected, actual) in golden.lines().zip(actual.lines()) {
        assert_eq!(expected, actual);
    }
}

/// The modifiers are a set: their order must not matter where it carries no
/// meaning.
#[test]
fn modifier_order_does_not_matter() {
    for (one, other) in [
        (
            "ld.global.relaxed.gpu.v2.b32 {a,b}, [x];",
            "ld.relaxed.gpu.v2.b32.global {a,b}, [x];",
        ),
        (
            "atom.global.v2.f32.add {a,b}, [x], {c,d};",
            "atom.add.global.v2.f32 {a,b}, [x], {c,d};",
        ),
        (
            "cp.async.ca.shared.global.L2::128B [x], [y], 4;",
            "cp.async.L2::128B.ca.shared.global [x], [y], 4;",
        ),
    ] {
        let describe = |text| {
            let source = format!(".version 9.0\n.target sm_100a\n.entry k() {{ {text} }}");
            let module = ptx::parse(&source).expect("it parses");
            let function = module.functions().next().expect("one function");
            let description = describe(function.instructions().next().expect("one instruction"));
            assert_ne!(description, "unknown", "{text}");
            description
        };
        assert_eq!(describe(one), describe(other));
    }
}
