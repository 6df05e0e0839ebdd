//! Builds what a user runs: the command, the library, the runtime's
//! forwarding libraries, and the suite's programs.

use crate::command::{cargo, command, run};
use crate::setup;
use crate::workspace::{root, target};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use suite::compile::Linkage;

/// Where a build lies.
#[derive(Clone, Debug)]
pub struct Built {
    /// Folder of the release profile.
    pub folder: PathBuf,
    /// The `ringfence` command.
    pub command: PathBuf,
    /// The device plugin for Kubernetes.
    pub plugin: PathBuf,
    /// The driver for Kubernetes' dynamic resource allocation.
    pub dra_driver: PathBuf,
    /// `libringfence.so`.
    pub library: PathBuf,
    /// `libringfence_opencl.so`.
    pub opencl: PathBuf,
    /// Folder of the forwarding `libcudart.so.*`.
    pub cudart: PathBuf,
}

/// Builds all of it.
///
/// # Errors
///
/// The Rust or the C compiler is missing or refuses something.
pub fn all() -> Result<Built> {
    build(&[
        "--package",
        "ringfence-shim",
        "--package",
        "ringfence-opencl",
        "--package",
        "ringfence-cli",
        "--package",
        "ringfence-plugin",
        "--package",
        "ringfence-suite",
    ])
}

/// Builds all of it, and all tests, from the same compiled crates.
///
/// # Errors
///
/// As [`all`].
pub fn all_with_tests() -> Result<Built> {
    build(&["--workspace", "--lib", "--bins", "--tests", "--examples"])
}

fn build(what: &[&str]) -> Result<Built> {
    run(cargo(&["build", "--release"]).args(what))?;
    let folder = target().join("release");
    let built = Built {
        command: folder.join("ringfence"),
        plugin: folder.join("ringfence-device-plugin"),
        dra_driver: folder.join("ringfence-dra-driver"),
        library: folder.join("libringfence.so"),
        opencl: folder.join("libringfence_opencl.so"),
        cudart: folder.join("cudart"),
        folder,
    };
    for path in [
        &built.command,
        &built.plugin,
        &built.dra_driver,
        &built.library,
        &built.opencl,
    ] {
        ensure!(path.is_file(), "the build left no {}", path.display());
    }
    forwarding(&built.cudart)?;
    println!("built: {}", built.command.display());
    Ok(built)
}

/// Builds `ringfence-bench` and returns it.
///
/// # Errors
///
/// The compiler refuses something.
pub fn bench() -> Result<PathBuf> {
    run(&mut cargo(&[
        "build",
        "--release",
        "--package",
        "ringfence-bench",
    ]))?;
    Ok(target().join("release/ringfence-bench"))
}

/// The libraries that take the place of NVIDIA's shared runtime on the CPU
/// device, compiled from source that the `cudart` crate generates.
fn forwarding(folder: &Path) -> Result<()> {
    let sources = target().join("forwarding");
    run(cargo(&[
        "run",
        "--release",
        "--quiet",
        "--package",
        "ringfence-cudart",
        "--example",
        "forwarding",
        "--",
    ])
    .arg(&sources))?;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("failed to make {}", folder.display()))?;
    for entry in std::fs::read_dir(&sources)? {
        let source = entry?.path();
        if source.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let name = source.file_stem().context("a source without a name")?;
        let mut soname = std::ffi::OsString::from("-Wl,-soname,");
        soname.push(name);
        let mut script = std::ffi::OsString::from("-Wl,--version-script=");
        script.push(source.with_extension("map"));
        run(command("cc", ["-shared", "-fPIC", "-O1"])
            .args([soname, script])
            .arg(&source)
            .arg("-o")
            .arg(folder.join(name)))
        .context("a C compiler is needed: install gcc or clang as `cc`")?;
    }
    Ok(())
}

/// Compiles cases and bench kernels into `out`.
///
/// # Errors
///
/// The CUDA compiler is missing or refuses a case.
pub fn cases(out: &Path, linkage: Linkage) -> Result<()> {
    let toolchain = setup::cuda()?;
    let programs = suite::compile::build(
        &root().join("suite/cases"),
        Some(&root().join("bench/kernels/bench.cu")),
        &toolchain,
        linkage,
        suite::results::commit(&root()),
        out,
    )
    .with_context(|| format!("failed to build the cases in {}", out.display()))?;
    println!("cases: {programs} programs in {}", out.display());
    Ok(())
}

/// Compiles the program that the bench of canaries starts.
///
/// # Errors
///
/// OpenCL's loader or headers are missing, or the C compiler refuses it.
pub fn opencl_bench(out: &Path) -> Result<()> {
    setup::opencl()?;
    let source = root().join("bench/opencl/canaries.c");
    let flags = ["-O1", "-Wall", "-Werror", "-std=c11", "-D_GNU_SOURCE"];
    run(command("cc", flags)
        .arg(source)
        .arg("-lOpenCL")
        .arg("-o")
        .arg(out))
}

/// Compiles the OpenCL cases into `out`.
///
/// # Errors
///
/// OpenCL's loader or headers are missing, or the C compiler refuses a case.
pub fn opencl_cases(out: &Path) -> Result<()> {
    setup::opencl()?;
    let commit = suite::results::commit(&root());
    let programs = suite::opencl::build(&root().join("suite/opencl"), commit, out)
        .with_context(|| format!("failed to build the OpenCL cases in {}", out.display()))?;
    println!("OpenCL cases: {programs} programs in {}", out.display());
    Ok(())
}
