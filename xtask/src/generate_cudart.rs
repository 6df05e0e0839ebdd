//! Writes `crates/cudart/src/generated/`: types, signatures and names of the
//! CUDA runtime API, and its error texts, from the pinned toolchain.
//!
//! Sources: `cuda_runtime_api.h` (types and signatures; numbers by the C
//! compiler), the dynamic symbol table of `libcudart.so.13` (names), the
//! library itself (error names and texts, which need no driver), and
//! `crates/cudart/data/libcudart12-exports.txt` (names of CUDA 12's library).

mod declarations;

use anyhow::{Context, bail, ensure};
use declarations::{Declarations, Type};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use toolchain::Cuda;

const HEADER: &str = "\
// Written by `cargo xtask generate` from the CUDA 13.0 toolchain; do not edit.
";

/// Regenerates, or with `check` only says whether the committed files differ.
pub fn run(check: bool) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask lies in the workspace")?;
    let toolkit = Cuda::pinned()?;
    let scratch = root.join("target/generate-cudart");
    std::fs::create_dir_all(&scratch)?;

    let unit = scratch.join("unit.c");
    std::fs::write(&unit, "#include <cuda_runtime_api.h>\n")?;
    let preprocessed = output(cc(&toolkit).args(["-E", "-P"]).arg(&unit))?;
    let macros = macro_constants(&output(cc(&toolkit).args(["-E", "-dM"]).arg(&unit))?);
    let declared = declarations::read(&preprocessed);
    ensure!(
        declared.functions.len() > 250,
        "only {} functions read from cuda_runtime_api.h",
        declared.functions.len()
    );
    let wanted = reachable(&declared);
    let numbers = numbers(&toolkit, &scratch, &declared, &wanted, &macros)?;
    let exports13 = exported(&toolkit.libraries().join("libcudart.so.13"))?;
    let exports12 = listed(&root.join("crates/cudart/data/libcudart12-exports.txt"))?;
    let errors = error_texts(&toolkit, &scratch, &declared)?;

    let folder = root.join("crates/cudart/src/generated");
    let files = [
        ("types.rs", types(&declared, &wanted, &numbers, &macros)?),
        ("signatures.rs", signatures(&declared)),
        ("names.rs", names(&exports13, &exports12)),
        ("errors.rs", errors),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        let text = rustfmt(&text)?;
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        if old == text {
            continue;
        }
        ensure!(
            !check,
            "{} is not what the toolchain's headers give; run `cargo xtask generate`",
            path.display()
        );
        std::fs::write(&path, text)?;
    }
    Ok(())
}

fn cc(toolkit: &Cuda) -> Command {
    let mut command = Command::new("cc");
    command.arg("-I").arg(toolkit.include());
    command
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let result = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        result.status.success(),
        "{command:?} failed:\n{}",
        String::from_utf8_lossy(&result.stderr)
    );
    Ok(String::from_utf8(result.stdout)?)
}

fn rustfmt(text: &str) -> anyhow::Result<String> {
    use std::io::Write as _;
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--config", "max_width=120"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .context("cannot run rustfmt")?;
    let mut stdin = child.stdin.take().context("rustfmt has no stdin")?;
    let text = text.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let result = child.wait_with_output()?;
    writer
        .join()
        .map_err(|_| anyhow::anyhow!("writing to rustfmt failed"))??;
    ensure!(
        result.status.success(),
        "rustfmt refused the generated text"
    );
    Ok(String::from_utf8(result.stdout)?)
}

/// `#define cudaXyz <integer>`.
fn macro_constants(text: &str) -> Vec<String> {
    let mut out: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("#define "))
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, value)| {
            let digits = value.trim_end_matches(['u', 'U']);
            let number = digits
                .strip_prefix("0x")
                .map_or(digits.parse::<u32>().is_ok(), |hex| {
                    u32::from_str_radix(hex, 16).is_ok()
                });
            name.starts_with("cuda") && number
        })
        .map(|(name, _)| name.to_string())
        .collect();
    out.sort();
    out
}

/// Names of the types that functions mention, and all of the API's enums.
fn reachable(declared: &Declarations) -> HashSet<String> {
    let mut seen = HashSet::new();
    let mut queue: Vec<Type> = Vec::new();
    for (_, function) in &declared.functions {
        queue.push(function.result.clone());
        queue.extend(function.parameters.iter().map(|p| p.1.clone()));
    }
    let mut enums: Vec<_> = declared
        .enums
        .keys()
        .filter(|name| name.starts_with("cuda"))
        .cloned()
        .collect();
    enums.sort();
    queue.extend(enums.into_iter().map(Type::Named));
    queue.extend(
        ["cudaFuncAttributes", "cudaStreamCallback_t", "uint3"]
            .map(|name| Type::Named(name.into())),
    );
    while let Some(ty) = queue.pop() {
        match ty {
            Type::Void | Type::Builtin(_) => {}
            Type::Pointer(inner, _) | Type::Array(inner, _) => queue.push(*inner),
            Type::Function(parameters, result) => {
                queue.extend(parameters);
                queue.push(*result);
            }
            Type::Named(name) => {
                if !seen.insert(name.clone()) {
                    continue;
                }
                if let Some(target) = declared.typedefs.get(&name) {
                    queue.push(target.clone());
                } else if let Some(record) = declared.records.get(&name) {
                    queue.extend(record.fields.iter().map(|f| f.1.clone()));
                }
            }
        }
    }
    seen
}

/// What the C compiler says: enum values, sizes, offsets, array lengths.
fn numbers(
    toolkit: &Cuda,
    scratch: &Path,
    declared: &Declarations,
    wanted: &HashSet<String>,
    macros: &[String],
) -> anyhow::Result<HashMap<String, i64>> {
    let mut body = String::new();
    let mut put = |key: &str, expression: &str| {
        let _ = writeln!(
            body,
            "  printf(\"%lld {key}\\n\", (long long)({expression}));"
        );
    };
    for name in &declared.order {
        if !wanted.contains(name) {
            continue;
        }
        for constant in declared.enums.get(name).into_iter().flatten() {
            put(&format!("enum {constant}"), constant);
        }
        let Some(record) = declared.records.get(name) else {
            continue;
        };
        for (_, ty) in &record.fields {
            let mut ty = ty;
            while let Type::Array(element, length) = ty {
                put(&format!("length {length}"), length);
                ty = element;
            }
        }
        if let Some(c_name) = &record.c_name {
            put(&format!("size {name}"), &format!("sizeof({c_name})"));
            put(&format!("align {name}"), &format!("_Alignof({c_name})"));
            for (field, _) in record
                .fields
                .iter()
                .filter(|f| !f.0.starts_with("anonymous"))
            {
                put(
                    &format!("offset {name}.{field}"),
                    &format!("offsetof({c_name}, {field})"),
                );
            }
        }
    }
    for name in macros {
        put(&format!("macro {name}"), name);
    }
    let source = scratch.join("numbers.c");
    let program = scratch.join("numbers");
    std::fs::write(
        &source,
        format!(
            "#include <stdio.h>\n#include <stddef.h>\n#include <cuda_runtime_api.h>\nint main(void) {{\n{body}  return 0;\n}}\n"
        ),
    )?;
    output(cc(toolkit).arg(&source).arg("-o").arg(&program))?;
    let mut out = HashMap::new();
    for line in output(&mut Command::new(&program))?.lines() {
        let (value, key) = line
            .split_once(' ')
            .context("numbers program printed a line without a key")?;
        out.insert(key.to_string(), value.parse()?);
    }
    Ok(out)
}

/// Functions that a library exports, sorted.
fn exported(library: &Path) -> anyhow::Result<BTreeSet<String>> {
    let text = output(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library),
    )?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(|name| name.split('@').next().unwrap_or(name).to_string())
        .filter(|name| name.starts_with("cuda") || name.starts_with("__cuda"))
        .collect())
}

fn listed(path: &Path) -> anyhow::Result<BTreeSet<String>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(str::to_string)
        .collect())
}

/// Names and texts by asking the library itself.
fn error_texts(toolkit: &Cuda, scratch: &Path, declared: &Declarations) -> anyhow::Result<String> {
    let errors = declared
        .enums
        .get("cudaError")
        .context("no enum cudaError")?;
    let mut body = String::new();
    for name in errors {
        let _ = writeln!(
            body,
            "  printf(\"%d\\t%s\\t%s\\n\", (int){name}, cudaGetErrorName({name}), cudaGetErrorString({name}));"
        );
    }
    let source = scratch.join("errors.c");
    let program = scratch.join("errors");
    std::fs::write(
        &source,
        format!(
            "#include <stdio.h>\n#include <cuda_runtime_api.h>\nint main(void) {{\n{body}  return 0;\n}}\n"
        ),
    )?;
    let lib = toolkit.libraries();
    let mut rpath = std::ffi::OsString::from("-Wl,-rpath,");
    rpath.push(&lib);
    output(
        cc(toolkit)
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .arg(lib.join("libcudart.so.13"))
            .arg(rpath),
    )?;
    let mut out = format!(
        "{HEADER}//! Names and texts of the runtime's errors, as NVIDIA's library gives them.\n\n\
         /// Value, name (with its NUL), text (with its NUL), by value.\n\
         pub static ERRORS: &[(u32, &std::ffi::CStr, &std::ffi::CStr)] = &[\n"
    );
    let mut rows = Vec::new();
    for line in output(&mut Command::new(&program))?.lines() {
        let mut parts = line.split('\t');
        let (Some(value), Some(name), Some(text)) = (parts.next(), parts.next(), parts.next())
        else {
            bail!("errors program printed `{line}`");
        };
        rows.push((value.parse::<u32>()?, name.to_string(), text.to_string()));
    }
    rows.sort();
    for (value, name, text) in rows {
        let _ = writeln!(out, "    ({value}, c{name:?}, c{text:?}),");
    }
    out.push_str("];\n");
    Ok(out)
}

const ALLOW: &str = "#![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]\n";

fn types(
    declared: &Declarations,
    wanted: &HashSet<String>,
    numbers: &HashMap<String, i64>,
    macros: &[String],
) -> anyhow::Result<String> {
    let number = |key: String| {
        numbers
            .get(&key)
            .copied()
            .with_context(|| format!("the C compiler gave no `{key}`"))
    };
    let mut out = format!(
        "{HEADER}//! Types of the CUDA runtime API (cuda_runtime_api.h, driver_types.h). Sizes and\n\
         //! offsets are the C compiler's, asserted below each type.\n{ALLOW}\nuse std::ffi::{{c_char, c_void}};\n\n"
    );
    let rust = |ty: &Type| rust_type(ty, declared, numbers);
    let mut done = HashSet::new();
    for name in &declared.order {
        if !wanted.contains(name) || !done.insert(name.clone()) {
            continue;
        }
        if let Some(constants) = declared.enums.get(name) {
            let _ = writeln!(
                out,
                "#[repr(transparent)]\n#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]\npub struct {name}(pub u32);\nimpl {name} {{"
            );
            for constant in constants {
                let value = number(format!("enum {constant}"))? as u32;
                let _ = writeln!(out, "    pub const {constant}: Self = Self({value});");
            }
            out.push_str("}\n\n");
        } else if let Some(target) = declared.typedefs.get(name) {
            let target = match handle(target) {
                Some(handle) => format!("driver::sys::{handle}"),
                None => rust(target)?,
            };
            let _ = writeln!(out, "pub type {name} = {target};\n");
        } else if let Some(record) = declared.records.get(name) {
            // Only the compiler's alignment can tell an aligned attribute.
            let kind = if record.union { "union" } else { "struct" };
            let _ = writeln!(
                out,
                "#[repr(C)]\n#[derive(Clone, Copy)]\npub {kind} {name} {{"
            );
            for (field, ty) in &record.fields {
                let _ = writeln!(out, "    pub {}: {},", rust_name(field), rust(ty)?);
            }
            out.push_str("}\n");
            if record.c_name.is_some() {
                let size = number(format!("size {name}"))?;
                let align = number(format!("align {name}"))?;
                let _ = writeln!(
                    out,
                    "const _: () = assert!(size_of::<{name}>() == {size} && align_of::<{name}>() == {align});"
                );
                for (field, _) in record
                    .fields
                    .iter()
                    .filter(|f| !f.0.starts_with("anonymous"))
                {
                    let offset = number(format!("offset {name}.{field}"))?;
                    let _ = writeln!(
                        out,
                        "const _: () = assert!(std::mem::offset_of!({name}, {}) == {offset});",
                        rust_name(field)
                    );
                }
            }
            out.push('\n');
        }
    }
    for name in macros {
        let _ = writeln!(
            out,
            "pub const {name}: u32 = {};",
            number(format!("macro {name}"))? as u32
        );
    }
    Ok(out)
}

/// Runtime handles are the driver's handles: the driver type for a pointer to
/// such an opaque struct.
fn handle(ty: &Type) -> Option<&'static str> {
    let Type::Pointer(inner, _) = ty else {
        return None;
    };
    let Type::Named(tag) = inner.as_ref() else {
        return None;
    };
    Some(match tag.as_str() {
        "CUstream_st" => "CUstream",
        "CUevent_st" => "CUevent",
        "CUgraph_st" => "CUgraph",
        "CUgraphNode_st" => "CUgraphNode",
        "CUgraphExec_st" => "CUgraphExec",
        "CUgraphDeviceUpdatableNode_st" => "CUgraphDeviceNode",
        "CUuserObject_st" => "CUuserObject",
        "CUfunc_st" => "CUfunction",
        "CUkern_st" => "CUkernel",
        "CUlib_st" => "CUlibrary",
        "CUmemPoolHandle_st" => "CUmemoryPool",
        "CUexternalMemory_st" => "CUexternalMemory",
        "CUexternalSemaphore_st" => "CUexternalSemaphore",
        "CUlogsCallbackEntry_st" => "CUlogsCallbackHandle",
        "cudaAsyncCallbackEntry" => "CUasyncCallbackHandle",
        "cudaGraphicsResource" => "CUgraphicsResource",
        "cudaArray" => "CUarray",
        "cudaMipmappedArray" => "CUmipmappedArray",
        _ => return None,
    })
}

fn rust_name(name: &str) -> String {
    match name {
        "type" | "ref" | "fn" | "in" | "mod" | "use" | "match" => format!("r#{name}"),
        _ => name.to_string(),
    }
}

fn rust_type(
    ty: &Type,
    declared: &Declarations,
    numbers: &HashMap<String, i64>,
) -> anyhow::Result<String> {
    Ok(match ty {
        Type::Void => "c_void".into(),
        Type::Builtin(name) => (*name).into(),
        Type::Named(name) => {
            let known = declared.enums.contains_key(name)
                || declared.records.contains_key(name)
                || declared.typedefs.contains_key(name);
            if known { name.clone() } else { "c_void".into() }
        }
        Type::Pointer(inner, constant) => {
            format!(
                "*{} {}",
                if *constant { "const" } else { "mut" },
                rust_type(inner, declared, numbers)?
            )
        }
        Type::Array(inner, length) => {
            let count = numbers
                .get(&format!("length {length}"))
                .with_context(|| format!("no length for [{length}]"))?;
            format!("[{}; {count}]", rust_type(inner, declared, numbers)?)
        }
        Type::Function(parameters, result) => {
            let parameters: Vec<_> = parameters
                .iter()
                .map(|p| rust_type(p, declared, numbers))
                .collect::<Result<_, _>>()?;
            let result = match **result {
                Type::Void => String::new(),
                ref ty => format!(" -> {}", rust_type(ty, declared, numbers)?),
            };
            format!(
                "Option<unsafe extern \"C\" fn({}){result}>",
                parameters.join(", ")
            )
        }
    })
}

fn signatures(declared: &Declarations) -> String {
    let none = HashMap::new();
    let mut out = format!(
        "{HEADER}//! Each function of cuda_runtime_api.h as a function pointer type, which the\n\
         //! implementations are checked against.\n{ALLOW}\nuse super::types::*;\nuse std::ffi::{{c_char, c_void}};\n\n"
    );
    for (name, function) in &declared.functions {
        let parameters: Vec<_> = function
            .parameters
            .iter()
            .filter_map(|(name, ty)| {
                Some(format!(
                    "{}: {}",
                    rust_name(name),
                    rust_type(ty, declared, &none).ok()?
                ))
            })
            .collect();
        let result = rust_type(&function.result, declared, &none).unwrap_or_default();
        let _ = writeln!(
            out,
            "pub type {name} = unsafe extern \"C\" fn({}) -> {result};",
            parameters.join(", ")
        );
    }
    out
}

fn names(exports13: &BTreeSet<String>, exports12: &BTreeSet<String>) -> String {
    let all: Vec<_> = exports13.union(exports12).cloned().collect();
    let mut out = format!(
        "{HEADER}//! Names of every function that the runtime libraries export.\n\n\
         use crate::stub::stub;\nuse crate::generated::types::cudaError_t;\n\n"
    );
    let mut list = |name: &str, doc: &str, items: &mut dyn Iterator<Item = &String>| {
        let items: Vec<_> = items.map(|item| format!("{item:?}")).collect();
        let _ = writeln!(
            out,
            "/// {doc}\npub static {name}: [&str; {}] = [{}];\n",
            items.len(),
            items.join(", ")
        );
    };
    list(
        "EXPORTS_13",
        "Exports of libcudart.so.13, sorted.",
        &mut exports13.iter(),
    );
    list(
        "EXPORTS_12",
        "Exports of libcudart.so.12, sorted.",
        &mut exports12.iter(),
    );
    list("NAMES", "Both, sorted.", &mut all.iter());
    let stubs: Vec<_> = (0..all.len()).map(|i| format!("stub::<{i}>")).collect();
    let _ = writeln!(
        out,
        "/// For each of [`NAMES`] a function that fails with its name.\n\
         pub static STUBS: [extern \"C\" fn() -> cudaError_t; {}] = [{}];",
        stubs.len(),
        stubs.join(", ")
    );
    out
}
