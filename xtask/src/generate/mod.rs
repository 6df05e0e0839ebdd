//! Generates `crates/driver/src/generated` from the headers of the pinned
//! CUDA toolchain: the one declaration of the CUDA driver API that exports,
//! hooks, the table of real functions and the CPU device derive from.
//!
//! `cuda.h` is compiled with `__CUDA_API_VERSION_INTERNAL`, which declares
//! every revision of every function.

mod emit;
mod revisions;

use crate::headers::{Function, Header, Item, Macro, Source, Type};
use crate::workspace::root;
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use toolchain::Cuda;

/// Where the generated files live, from the workspace root.
const OUTPUT: &str = "crates/driver/src/generated";

/// What `cuda.h` and the headers beside it declare.
struct Api {
    header: Header,
    functions: Vec<Function>,
    /// Name and value of each macro that is a constant.
    constants: Vec<(String, i64)>,
    revisions: Vec<revisions::Revision>,
    /// Symbols that libcuda exports and cuda.h does not declare.
    extras: BTreeSet<String>,
}

/// Writes the generated files; with `check`, compares instead and fails with
/// the name of the first file that differs.
///
/// # Errors
///
/// The headers cannot be read or hold something unknown, or a file differs.
pub fn run(check: bool) -> Result<()> {
    let api = read(&Cuda::pinned()?.include())?;
    let output = root().join(OUTPUT);
    for (name, content) in emit::files(&api)? {
        let path = output.join(name);
        if check {
            let present = std::fs::read_to_string(&path).unwrap_or_default();
            if present != content {
                bail!(
                    "{OUTPUT}/{name} differs from what the headers give; run `cargo xtask generate`"
                );
            }
        } else {
            std::fs::create_dir_all(&output)?;
            std::fs::write(&path, content)
                .with_context(|| format!("failed to write {}", path.display()))?;
        }
    }
    Ok(())
}

fn read(include: &Path) -> Result<Api> {
    let source = |program, stubs| Source {
        program,
        include,
        options: &["-D__CUDA_API_VERSION_INTERNAL"],
        stubs,
    };
    let cuda = source("#include <cuda.h>\n", &[]);
    let header = cuda.read().context("in cuda.h")?;
    let functions = functions(&header)?;
    let macros: Vec<&Macro> = header.macros.iter().filter(|m| is_constant(m)).collect();
    let values = cuda.values(macros.iter().copied())?;
    let mut constants = Vec::new();
    for Macro { name, .. } in macros {
        let value = values
            .get(name)
            .with_context(|| format!("value of {name}"))?;
        constants.push((name.clone(), *value));
    }
    let typedefs = source("#include <cudaTypedefs.h>\n", &[])
        .read()
        .context("in cudaTypedefs.h")?;
    let others = source(OTHERS, STUBS)
        .read()
        .context("in cudaGL.h and others")?;
    Ok(Api {
        revisions: revisions::revisions(&typedefs.items, &functions)?,
        extras: extras(&others, &functions),
        header,
        functions,
        constants,
    })
}

/// The functions of cuda.h.
fn functions(header: &Header) -> Result<Vec<Function>> {
    let mut functions = Vec::new();
    let mut seen = HashSet::new();
    for item in &header.items {
        if let Item::Function(function) = item {
            let name = &function.name;
            ensure!(seen.insert(name), "`{name}` is declared twice");
            ensure!(
                function.signature.result == Type::Named("CUresult".into()),
                "`{name}` returns something else than CUresult"
            );
            functions.push(function.clone());
        }
    }
    Ok(functions)
}

fn is_constant(Macro { name, body, .. }: &Macro) -> bool {
    let constant = name.starts_with("CU_") || name.starts_with("CUDA_");
    // CUDA_CB is the calling convention of callbacks.
    constant && !body.is_empty() && name != "CUDA_CB"
}

/// The headers of interfaces between CUDA and others. The toolchain has
/// neither the others' headers nor cudaProfiler.h, so the types that they
/// declare are declared here: only the names of functions are read.
const OTHERS: &str = "\
typedef unsigned GLenum, GLuint, VdpDevice, VdpGetProcAddress, VdpOutputSurface, VdpVideoSurface;
typedef int EGLint, CUoutput_mode;
typedef void *EGLImageKHR, *EGLStreamKHR, *EGLSyncKHR;
#include <cudaGL.h>
#include <cudaEGL.h>
#include <cudaVDPAU.h>
#include <cudaProfilerTypedefs.h>
";
const STUBS: &[(&str, &str)] = &[
    ("GL/gl.h", ""),
    ("EGL/egl.h", ""),
    ("EGL/eglext.h", ""),
    ("cudaProfiler.h", "#include <cuda.h>\n"),
];

/// The functions that `others` declares and cuda.h does not, and those of
/// cudaProfiler.h, by the types of pointers to them.
fn extras(others: &Header, functions: &[Function]) -> BTreeSet<String> {
    let known: HashSet<&str> = functions.iter().map(|f| f.name.as_str()).collect();
    let declared = others.items.iter().filter_map(|item| match item {
        Item::Function(function) => Some(function.name.as_str()),
        _ => None,
    });
    let pointers = revisions::pointer_types(&others.items)
        .filter_map(|name| name.rsplit_once("_v"))
        .map(|(name, _)| name);
    declared
        .chain(pointers)
        .filter(|name| !known.contains(name))
        .map(str::to_owned)
        .collect()
}
