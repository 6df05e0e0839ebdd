//! Installs what the tests need and Rust does not provide: the pinned CUDA
//! compiler, the tools that make the PTX corpora, and libclang, which reads C
//! headers, each in a Python environment below `target/toolchain`; beside them
//! mdBook, which makes the site.
//!
//! A stamp file holds the list of packages, so that a second call does
//! nothing. Nothing outside `target` is touched, but for OpenCL and Slurm: what
//! they need are Debian's packages, and where one is missing they are installed
//! as such.

use crate::command::{cargo, command, output, run};
use crate::workspace::root;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use suite::compile::Toolchain;

/// The compiler's parts. They are pinned together: newer crt and nvvm contain a
/// code generator whose PTX this ptxas refuses.
const CUDA_PACKAGES: &[&str] = &[
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
    // Headers only: for the suite's programs that declare their pools to tools.
    "nvidia-nvtx==13.0.85",
];

/// Installs the CUDA compiler and returns it.
///
/// # Errors
///
/// Python, its venv module or pip is missing or fails; the error says what to
/// install.
pub fn cuda() -> Result<Toolchain> {
    let folder = crate::workspace::cuda();
    environment(&folder, CUDA_PACKAGES)?;
    let toolchain = Toolchain::find(&folder)?;
    // The linker searches for libcudart.so; the package has only
    // libcudart.so.13.
    let link = toolchain.libraries().join("libcudart.so");
    if !link.exists() {
        std::os::unix::fs::symlink("libcudart.so.13", &link)
            .with_context(|| format!("failed to make {}", link.display()))?;
    }
    Ok(toolchain)
}

/// The version of libclang, which reads headers.
pub const LIBCLANG_VERSION: &str = "18.1.1";

/// Installs libclang where `.cargo/config.toml` sets `LIBCLANG_PATH` to.
///
/// # Errors
///
/// As [`cuda`].
pub fn libclang() -> Result<()> {
    let folder = root().join("target/toolchain/libclang");
    environment(&folder, &[&format!("libclang=={LIBCLANG_VERSION}")])?;
    let link = folder.join("libclang.so");
    if link.exists() {
        return Ok(());
    }
    // The folder that pip installs into has Python's version in its name.
    let library = std::fs::read_dir(folder.join("lib"))?
        .filter_map(|entry| Some(Path::new("lib").join(entry.ok()?.file_name())))
        .map(|python| python.join("site-packages/clang/native/libclang.so"))
        .find(|library| folder.join(library).is_file())
        .with_context(|| format!("no libclang.so in {}", folder.display()))?;
    std::os::unix::fs::symlink(library, &link)
        .with_context(|| format!("failed to make {}", link.display()))
}

/// Debian's packages that the tests of the layer for OpenCL need: a platform
/// that runs on any machine, the loader, and what a program is built with.
const OPENCL_PACKAGES: &[&str] = &[
    "pocl-opencl-icd",
    "ocl-icd-libopencl1",
    "ocl-icd-opencl-dev",
    "opencl-c-headers",
];

/// The headers that the declaration of OpenCL is generated from.
const OPENCL_HEADERS: &str = "opencl-c-headers=3.0~2023.02.06-1";

/// Installs PoCL, OpenCL's loader and its headers, unless they are there.
///
/// # Errors
///
/// They are missing, and this is no Debian, or not run by root.
pub fn opencl() -> Result<()> {
    let library = |name: &str| {
        let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
        folders
            .iter()
            .any(|folder| Path::new(folder).join(name).exists())
    };
    let vendors = std::fs::read_dir("/etc/OpenCL/vendors");
    let platform = vendors.is_ok_and(|mut entries| entries.next().is_some());
    let present = || {
        platform
            && library("libOpenCL.so.1")
            && library("libOpenCL.so")
            && Path::new("/usr/include/CL/cl.h").exists()
    };
    if present() {
        return Ok(());
    }
    let packages = OPENCL_PACKAGES.join(" ");
    install(OPENCL_PACKAGES).with_context(|| {
        format!(
            "the tests of OpenCL need PoCL and OpenCL's loader, which only root can install: \
             `apt-get install {packages}` (Debian, Ubuntu)"
        )
    })
}

/// Debian's packages that the test of `deploy/slurm` needs.
const SLURM_PACKAGES: &[&str] = &["slurmctld", "slurmd", "slurm-client"];

/// Installs Slurm, unless it is there.
///
/// # Errors
///
/// It is missing, and this is no Debian, or not run by root.
pub fn slurm() -> Result<()> {
    let daemons = ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/srun"];
    if daemons.iter().all(|daemon| Path::new(daemon).exists()) {
        return Ok(());
    }
    install(SLURM_PACKAGES).with_context(|| {
        format!(
            "the test of deploy/slurm needs Slurm, which only root can install: \
             `apt-get install {}` (Debian, Ubuntu)",
            SLURM_PACKAGES.join(" ")
        )
    })
}

/// Installs Debian's packages.
fn install(packages: &[&str]) -> Result<()> {
    println!("installing {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut apt = command("apt-get", arguments);
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    let wanted = || {
        let mut install = apt(&["install", "--yes", "--quiet", "--no-install-recommends"]);
        install.args(packages);
        install
    };
    // Lists of packages may be missing or too old to be of use.
    run(&mut wanted()).or_else(|_| {
        run(&mut apt(&["update", "--quiet"]))?;
        run(&mut wanted())
    })
}

/// Fetches OpenCL's headers, whatever version the machine has, and returns
/// the folder that holds `CL`.
///
/// # Errors
///
/// Debian's packages cannot be fetched here.
pub fn opencl_headers() -> Result<PathBuf> {
    let folder = root().join("target/toolchain/opencl-headers");
    let stamp = folder.join("ringfence-packages");
    let include = folder.join("usr/include");
    if std::fs::read_to_string(&stamp).is_ok_and(|old| old == OPENCL_HEADERS) {
        return Ok(include);
    }
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("failed to make {}", folder.display()))?;
    let fetch = || -> Result<()> {
        run(command("apt-get", ["download", "--quiet", OPENCL_HEADERS]).current_dir(&folder))?;
        for entry in std::fs::read_dir(&folder)? {
            let package = entry?.path();
            if package
                .extension()
                .is_some_and(|extension| extension == "deb")
            {
                run(command("dpkg-deb", ["-x"]).arg(&package).arg(&folder))?;
            }
        }
        Ok(())
    };
    fetch().with_context(|| {
        format!("the declaration of OpenCL is generated from Debian's package {OPENCL_HEADERS}, which apt-get must fetch")
    })?;
    std::fs::write(&stamp, OPENCL_HEADERS)
        .with_context(|| format!("failed to write {}", stamp.display()))?;
    Ok(include)
}

/// A tool that cargo installs, in a version of its own.
struct Tool {
    /// Its package, and its program.
    name: &'static str,
    version: &'static str,
    /// What is built, and how.
    options: &'static [&'static str],
    /// What cannot be done without it.
    needed_for: &'static str,
}

/// mdBook without its web server, which is most of it.
const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    options: &["--no-default-features", "--features", "search"],
    needed_for: "the site of README.md and docs",
};

/// Not optimized: that takes longer than all the checks together.
const MACHETE: Tool = Tool {
    name: "cargo-machete",
    version: "0.9.2",
    options: &["--debug"],
    needed_for: "the search for unused dependencies",
};

/// Likewise.
const DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    options: &["--debug"],
    needed_for: "the check of licences, duplicates and sources of dependencies",
};

/// Installs mdBook; returns its program.
///
/// # Errors
///
/// It cannot be installed.
pub fn mdbook() -> Result<PathBuf> {
    installed(&MDBOOK)
}

/// Installs cargo-machete; returns its program.
///
/// # Errors
///
/// It cannot be installed.
pub fn machete() -> Result<PathBuf> {
    installed(&MACHETE)
}

/// Installs cargo-deny; returns its program.
///
/// # Errors
///
/// It cannot be installed.
pub fn deny() -> Result<PathBuf> {
    installed(&DENY)
}

fn installed(tool: &Tool) -> Result<PathBuf> {
    let Tool { name, version, .. } = *tool;
    let folder = root().join("target/toolchain").join(name);
    let program = folder.join("bin").join(name);
    let stamp = folder.join("ringfence-version");
    if std::fs::read_to_string(&stamp).is_ok_and(|old| old == version) && program.is_file() {
        return Ok(program);
    }
    println!("installing {name} {version}, which takes minutes");
    run(
        cargo(&["install", name, "--locked", "--force", "--version", version])
            .args(tool.options)
            .arg("--root")
            .arg(&folder),
    )
    .with_context(|| {
        format!(
            "{name} {version} could not be installed, which {} needs: is there a network?",
            tool.needed_for
        )
    })?;
    std::fs::write(&stamp, version)
        .with_context(|| format!("failed to write {}", stamp.display()))?;
    Ok(program)
}

/// Makes the PTX corpora and returns their folder.
///
/// # Errors
///
/// A tool cannot be installed, or the generator fails.
pub fn corpora() -> Result<PathBuf> {
    let toolchain = cuda()?;
    let scripts = root().join("crates/ptx/tests/corpora");
    let path = scripts.join("generate.py");
    let generator = std::fs::read_to_string(&path)
        .with_context(|| format!("failed to read {}", path.display()))?;
    let packages = pins(&generator);
    ensure!(!packages.is_empty(), "{} names no package", path.display());
    let folder = root().join("target/toolchain/corpora");
    environment(&folder, &packages)?;

    let out = root().join("target/corpora");
    let stamp = out.join("made-by");
    let key = sources(&scripts)?;
    if std::fs::read_to_string(&stamp).is_ok_and(|old| old == key) {
        return Ok(out);
    }
    println!("making the PTX corpora in {}", out.display());
    run(command(folder.join("bin/python3"), [&path])
        .arg(&out)
        .arg("--nvcc")
        .arg(toolchain.nvcc()))?;
    std::fs::write(&stamp, key).with_context(|| format!("failed to write {}", stamp.display()))?;
    Ok(out)
}

/// The packages that the generator's head pins, one a line.
fn pins(generator: &str) -> Vec<&str> {
    generator
        .lines()
        .take_while(|line| !line.starts_with("import"))
        .map(str::trim)
        .filter(|line| line.contains("==") && !line.contains(' '))
        .collect()
}

/// Everything that the corpora are made from, as one text.
fn sources(folder: &Path) -> Result<String> {
    let mut paths = Vec::new();
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?
    {
        let path = entry?.path();
        if path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut text = String::new();
    for path in paths {
        text += &std::fs::read_to_string(&path)
            .with_context(|| format!("failed to read {}", path.display()))?;
    }
    Ok(text)
}

/// A Python environment at `folder` with `packages`.
fn environment(folder: &Path, packages: &[&str]) -> Result<()> {
    let stamp = folder.join("ringfence-packages");
    let list = packages.join("\n") + "\n";
    if std::fs::read_to_string(&stamp).is_ok_and(|old| old == list) {
        return Ok(());
    }
    let version = output(&mut command(
        "python3",
        ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
    ))
    .context("Python 3 is needed to fetch the toolchain: install python3")?;
    let version = version.trim();
    println!(
        "installing into {}: {}",
        folder.display(),
        packages.join(" ")
    );
    let made = output(&mut {
        let mut venv = command("python3", ["-m", "venv"]);
        venv.arg(folder);
        venv
    });
    match made {
        Ok(_) => run(command(
            folder.join("bin/python3"),
            [
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ],
        )
        .args(packages))
        .context("pip could not install into target/toolchain: is there a network?")?,
        Err(venv_error) => {
            // Debian ships Python without venv; pip alone can fill the same
            // folders, which is all that a compiler needs. A program that
            // must run inside the environment finds them by PYTHONPATH.
            println!("no `python3 -m venv` here, so pip installs into the folder itself");
            let site = folder.join(format!("lib/python{version}/site-packages"));
            let installed = run(command(
                "python3",
                [
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--target",
                ],
            )
            .arg(&site)
            .args(packages));
            if let Err(pip_error) = installed {
                bail!(
                    "neither `python3 -m venv` nor pip works; install one (Debian, Ubuntu: \
                     apt install python3-venv python3-pip)\nvenv: {venv_error:#}\npip: {pip_error:#}"
                );
            }
            wrapper(folder, &site)?;
        }
    }
    std::fs::write(&stamp, list).with_context(|| format!("failed to write {}", stamp.display()))
}

/// `bin/python3` for a folder without a venv of its own.
fn wrapper(folder: &Path, site: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("bin/python3");
    std::fs::create_dir_all(folder.join("bin"))?;
    std::fs::write(
        &path,
        format!(
            "#!/bin/sh\nPYTHONPATH='{}' exec python3 \"$@\"\n",
            site.display()
        ),
    )?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("failed to make {} executable", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_read_from_the_head_only() {
        let text = "\"\"\"Doc.\n\nPins, here:\n    triton==3.6.0\n    numba==0.6\n\"\"\"\nimport a\nx==y\n";
        assert_eq!(pins(text), ["triton==3.6.0", "numba==0.6"]);
    }
}
