//! Writes `crates/cudart/src/generated/`: types, signatures and names of the
//! CUDA runtime API, and its error texts, from the pinned toolchain.
//!
//! Sources: `cuda_runtime_api.h` (types and signatures), the dynamic symbol table of `libcudart.so.13` (names), the
//! library itself (error names and texts, which need no driver), and
//! `crates/cudart/data/libcudart12-exports.txt` (names of CUDA 12's library).

use crate::headers::{Function, Header, Item, Macro, Names, Record, Signature, Source, Type};
use anyhow::{Context, bail, ensure};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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

    let source = Source {
        program: "#include <cuda_runtime_api.h>\n",
        include: &toolkit.include(),
        options: &[],
        stubs: &[],
    };
    let header = source.read().context("in cuda_runtime_api.h")?;
    let macros = source.values(header.macros.iter().filter(|m| is_number(m)))?;
    let declared = Declarations::new(header)?;
    let used = reachable(&declared);
    let exports13 = exported(&toolkit.libraries().join("libcudart.so.13"))?;
    let exports12 = listed(&root.join("crates/cudart/data/libcudart12-exports.txt"))?;
    let errors = error_texts(&toolkit, &scratch, &declared)?;

    let folder = root.join("crates/cudart/src/generated");
    let files = [
        ("types.rs", types(&declared, &used, &macros)?),
        ("signatures.rs", signatures(&declared)?),
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
fn is_number(Macro { name, body, .. }: &Macro) -> bool {
    let [number] = &body[..] else {
        return false;
    };
    name.starts_with("cuda") && number.starts_with(|c: char| c.is_ascii_digit())
}

/// What the headers declare, by name. A record that is defined inside another
/// has a name of its own here: `OUTER_FIELD`.
#[derive(Default)]
struct Declarations {
    /// Names of types, in the headers' order; inner records before outer.
    order: Vec<String>,
    records: HashMap<String, Record>,
    /// Those of `records` that are defined inside another.
    inner: HashSet<String>,
    enums: HashMap<String, Vec<(String, i64)>>,
    typedefs: HashMap<String, Type>,
    functions: Vec<Function>,
}

impl Declarations {
    fn new(header: Header) -> anyhow::Result<Self> {
        let mut declared = Declarations::default();
        for item in header.items {
            match item {
                Item::Function(function) => declared.functions.push(function),
                Item::Alias { name, of } => declared.typedef(name, of),
                Item::Enum { names, values } => {
                    let name = declared.named(names)?;
                    declared.enums.insert(name, values);
                }
                Item::Record { names, mut record } => {
                    let tag = names.tag.as_ref().or(names.typedef.as_ref());
                    let tag = tag.context("a record without a name")?.clone();
                    declared.name_inner(&tag, &mut record);
                    let name = declared.named(names)?;
                    declared.records.insert(name, record);
                }
            }
        }
        Ok(declared)
    }

    /// Puts a type into the order; its name is the tag, else the typedef.
    fn named(&mut self, names: Names) -> anyhow::Result<String> {
        let name = names.tag.clone().or(names.typedef.clone());
        let name = name.context("a type without a name")?;
        self.order.push(name.clone());
        if let Some(typedef) = names.typedef {
            self.typedef(typedef, Type::Tagged(name.clone()));
        }
        Ok(name)
    }

    /// `typedef struct X X` adds nothing: both names are one in Rust.
    fn typedef(&mut self, name: String, of: Type) {
        if of != Type::Tagged(name.clone()) {
            self.order.push(name.clone());
            self.typedefs.insert(name, of);
        }
    }

    fn name_inner(&mut self, outer: &str, record: &mut Record) {
        let mut anonymous = 0;
        for field in &mut record.fields {
            let name = field.name.get_or_insert_with(|| {
                anonymous += 1;
                format!("anonymous{anonymous}")
            });
            if let Type::Record(inner) = &mut field.ty {
                let name = format!("{outer}_{name}");
                self.name_inner(&name, inner);
                self.order.push(name.clone());
                self.inner.insert(name.clone());
                let named = std::mem::replace(&mut field.ty, Type::Tagged(name.clone()));
                if let Type::Record(inner) = named {
                    self.records.insert(name, *inner);
                }
            }
        }
    }
}

/// Names of the types that functions mention, and all of the API's enums.
fn reachable(declared: &Declarations) -> HashSet<String> {
    let mut seen = HashSet::new();
    let mut queue: Vec<Type> = Vec::new();
    let signature = |signature: Signature, queue: &mut Vec<Type>| {
        queue.push(signature.result);
        queue.extend(signature.parameters.into_iter().map(|(_, ty)| ty));
    };
    for function in &declared.functions {
        signature(function.signature.clone(), &mut queue);
    }
    let enums = declared.enums.keys();
    let enums = enums.filter(|name| name.starts_with("cuda")).cloned();
    queue.extend(enums.map(Type::Named));
    queue.extend(
        ["cudaFuncAttributes", "cudaStreamCallback_t", "uint3"]
            .map(|name| Type::Named(name.into())),
    );
    while let Some(ty) = queue.pop() {
        match ty {
            Type::Void | Type::Primitive(_) => {}
            Type::Pointer { to: inner, .. } | Type::Array { of: inner, .. } => queue.push(*inner),
            Type::Function(inner) => signature(*inner, &mut queue),
            Type::Record(record) => queue.extend(record.fields.into_iter().map(|f| f.ty)),
            Type::Named(name) | Type::Tagged(name) => {
                if !seen.insert(name.clone()) {
                    continue;
                }
                if let Some(target) = declared.typedefs.get(&name) {
                    queue.push(target.clone());
                } else if let Some(record) = declared.records.get(&name) {
                    queue.extend(record.fields.iter().map(|f| f.ty.clone()));
                }
            }
        }
    }
    seen
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
    for (name, _) in errors {
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
    used: &HashSet<String>,
    macros: &BTreeMap<String, i64>,
) -> anyhow::Result<String> {
    let mut out = format!(
        "{HEADER}//! Types of the CUDA runtime API (cuda_runtime_api.h, driver_types.h). Sizes and\n\
         //! offsets are the C compiler's, asserted below each type.\n{ALLOW}\nuse std::ffi::{{c_char, c_void}};\n\n"
    );
    let mut done = HashSet::new();
    for name in &declared.order {
        if !used.contains(name) || !done.insert(name) {
            continue;
        }
        if let Some(constants) = declared.enums.get(name) {
            let _ = writeln!(
                out,
                "#[repr(transparent)]\n#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]\npub struct {name}(pub u32);\nimpl {name} {{"
            );
            for (constant, value) in constants {
                let value = *value as u32;
                let _ = writeln!(out, "    pub const {constant}: Self = Self({value});");
            }
            out.push_str("}\n\n");
        } else if let Some(target) = declared.typedefs.get(name) {
            let target = match handle(target) {
                Some(handle) => format!("driver::sys::{handle}"),
                None => rust_type(target, declared)?,
            };
            let _ = writeln!(out, "pub type {name} = {target};\n");
        } else if let Some(record) = declared.records.get(name) {
            self::record(&mut out, name, record, declared)?;
        }
    }
    for (name, value) in macros {
        let _ = writeln!(out, "pub const {name}: u32 = {};", *value as u32);
    }
    Ok(out)
}

fn record(
    out: &mut String,
    name: &str,
    record: &Record,
    declared: &Declarations,
) -> anyhow::Result<()> {
    let Record { size, align, .. } = record;
    let kind = if record.union { "union" } else { "struct" };
    let aligned = if record.over_aligned {
        format!(", align({align})")
    } else {
        String::new()
    };
    let mut fields = String::new();
    let mut offsets = String::new();
    for field in &record.fields {
        let field_name = rust_name(field.name.as_deref().context("a field without a name")?);
        let ty = rust_type(&field.ty, declared)?;
        let _ = writeln!(fields, "    pub {field_name}: {ty},");
        if !field_name.starts_with("anonymous") {
            let _ = writeln!(
                offsets,
                "const _: () = assert!(std::mem::offset_of!({name}, {field_name}) == {});",
                field.offset
            );
        }
    }
    let _ = writeln!(
        out,
        "#[repr(C{aligned})]\n#[derive(Clone, Copy)]\npub {kind} {name} {{\n{fields}}}"
    );
    if !declared.inner.contains(name) {
        let _ = writeln!(
            out,
            "const _: () = assert!(size_of::<{name}>() == {size} && align_of::<{name}>() == {align});\n{offsets}"
        );
    }
    out.push('\n');
    Ok(())
}

/// Runtime handles are the driver's handles: the driver type for a pointer to
/// such an opaque struct.
fn handle(ty: &Type) -> Option<&'static str> {
    let Type::Pointer { to, .. } = ty else {
        return None;
    };
    let Type::Tagged(tag) = to.as_ref() else {
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

fn rust_type(ty: &Type, declared: &Declarations) -> anyhow::Result<String> {
    Ok(match ty {
        Type::Void => "c_void".into(),
        Type::Primitive(name) => (*name).into(),
        Type::Named(name) | Type::Tagged(name) => {
            let known = declared.enums.contains_key(name)
                || declared.records.contains_key(name)
                || declared.typedefs.contains_key(name);
            if known { name.clone() } else { "c_void".into() }
        }
        Type::Pointer { constant, to } => {
            let kind = if *constant { "const" } else { "mut" };
            format!("*{kind} {}", rust_type(to, declared)?)
        }
        Type::Array { of, length } => format!("[{}; {length}]", rust_type(of, declared)?),
        Type::Function(signature) => {
            let parameters = signature.parameters.iter();
            let parameters: Vec<_> = parameters
                .map(|(_, ty)| rust_type(ty, declared))
                .collect::<Result<_, _>>()?;
            let result = match &signature.result {
                Type::Void => String::new(),
                ty => format!(" -> {}", rust_type(ty, declared)?),
            };
            format!(
                "Option<unsafe extern \"C\" fn({}){result}>",
                parameters.join(", ")
            )
        }
        Type::Record(_) => bail!("a record without a name"),
    })
}

fn signatures(declared: &Declarations) -> anyhow::Result<String> {
    let mut out = format!(
        "{HEADER}//! Each function of cuda_runtime_api.h as a function pointer type, which the\n\
         //! implementations are checked against.\n{ALLOW}\nuse super::types::*;\nuse std::ffi::{{c_char, c_void}};\n\n"
    );
    for Function { name, signature } in &declared.functions {
        let parameters: Vec<_> = signature
            .parameters
            .iter()
            .map(|(name, ty)| Ok(format!("{}: {}", rust_name(name), rust_type(ty, declared)?)))
            .collect::<anyhow::Result<_>>()?;
        let result = rust_type(&signature.result, declared)?;
        let _ = writeln!(
            out,
            "pub type {name} = unsafe extern \"C\" fn({}) -> {result};",
            parameters.join(", ")
        );
    }
    Ok(out)
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
