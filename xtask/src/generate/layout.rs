//! Asks the C compiler for every number: enumerators, macros, array lengths,
//! sizes, alignments and offsets. One C program prints them all.

use super::parse::{Header, Item, Record, Type};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// What the C program printed.
#[derive(Debug, Default)]
pub struct Values {
    /// Enumerators and macros by name, array lengths by expression.
    pub constants: BTreeMap<String, i128>,
    /// Size and alignment of each record by name.
    pub sizes: BTreeMap<String, (u64, u64)>,
    /// Offset of each field, by record name and Rust path of the field.
    pub offsets: BTreeMap<(String, String), u64>,
}

/// The field name in Rust, which is the C name where it is no keyword.
pub fn field_name(name: &str) -> String {
    match name {
        "type" | "ref" | "in" | "mod" | "use" | "move" | "loop" | "box" | "fn" => {
            format!("{name}_")
        }
        other => other.to_owned(),
    }
}

/// The Rust name of the anonymous member with this position.
pub fn anonymous_name(position: usize) -> String {
    format!("anonymous{position}")
}

/// Compiles and runs the program.
pub fn measure(header: &Header, include: &Path) -> Result<Values> {
    let mut program = String::from(
        "#include <stdio.h>\n#include <stddef.h>\n#include <cuda.h>\nint main(void) {\n",
    );
    let mut lengths = Vec::new();
    for item in &header.items {
        match item {
            Item::Enum { variants, .. } => {
                for name in variants {
                    constant(&mut program, name);
                }
            }
            Item::Record { name, record } => {
                let _ = writeln!(
                    program,
                    "printf(\"S {name} %zu %zu\\n\", sizeof({name}), _Alignof({name}));"
                );
                fields(&mut program, name, record, "", "");
                collect_lengths(record, &mut lengths);
            }
            _ => {}
        }
    }
    for name in &header.macros {
        constant(&mut program, name);
    }
    lengths.sort();
    lengths.dedup();
    for length in lengths {
        let _ = writeln!(
            program,
            "printf(\"C %lld {length}\\n\", (long long)({length}));"
        );
    }
    program.push_str("return 0; }\n");
    parse(&execute(&program, include)?)
}

fn constant(program: &mut String, name: &str) {
    let _ = writeln!(
        program,
        "printf(\"C %lld {name}\\n\", (long long)({name}));"
    );
}

fn fields(program: &mut String, of: &str, record: &Record, c_path: &str, rust_path: &str) {
    for (position, (name, ty)) in record.fields.iter().enumerate() {
        match (name, ty) {
            (Some(name), _) => {
                let rust = field_name(name);
                let _ = writeln!(
                    program,
                    "printf(\"O {of} {rust_path}{rust} %zu\\n\", offsetof({of}, {c_path}{name}));"
                );
                if let Type::Record(inner) = ty {
                    fields(
                        program,
                        of,
                        inner,
                        &format!("{c_path}{name}."),
                        &format!("{rust_path}{rust}."),
                    );
                }
            }
            (None, Type::Record(inner)) => {
                fields(
                    program,
                    of,
                    inner,
                    c_path,
                    &format!("{rust_path}{}.", anonymous_name(position)),
                );
            }
            (None, _) => {}
        }
    }
}

fn collect_lengths(record: &Record, lengths: &mut Vec<String>) {
    for (_, ty) in &record.fields {
        let mut ty = ty;
        while let Type::Array { of, length } = ty {
            lengths.push(length.clone());
            ty = of;
        }
        if let Type::Record(inner) = ty {
            collect_lengths(inner, lengths);
        }
    }
}

fn execute(program: &str, include: &Path) -> Result<String> {
    let folder = std::env::temp_dir().join(format!("ringfence-generate-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let source = folder.join("layout.c");
    let binary = folder.join("layout");
    std::fs::write(&source, program)?;
    let compiled = Command::new("cc")
        .args(["-w", "-D__CUDA_API_VERSION_INTERNAL", "-I"])
        .arg(include)
        .arg(&source)
        .arg("-o")
        .arg(&binary)
        .output()
        .context("failed to start the C compiler `cc`")?;
    if !compiled.status.success() {
        bail!(
            "cc failed on the layout program: {}",
            String::from_utf8_lossy(&compiled.stderr)
        );
    }
    let output = Command::new(&binary)
        .output()
        .context("failed to run the layout program")?;
    std::fs::remove_dir_all(&folder)?;
    Ok(String::from_utf8(output.stdout)?)
}

fn parse(printed: &str) -> Result<Values> {
    let mut values = Values::default();
    for line in printed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["S", name, size, align] => {
                values
                    .sizes
                    .insert(name.to_owned(), (size.parse()?, align.parse()?));
            }
            ["O", name, path, offset] => {
                values
                    .offsets
                    .insert((name.to_owned(), path.to_owned()), offset.parse()?);
            }
            ["C", value, ..] => {
                let name = words[2..].join(" ");
                values.constants.insert(name, value.parse()?);
            }
            _ => bail!("the layout program printed `{line}`"),
        }
    }
    Ok(values)
}
