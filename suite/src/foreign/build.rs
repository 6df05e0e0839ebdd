//! Copies a program of a collection to a folder of its own and compiles it
//! there: the collection itself is left as it is, and programs that write
//! files beside themselves do not meet.

use super::collection::Program;
use crate::case::Api;
use crate::process;
use anyhow::{Context, Result};
use model::DeviceKind;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Files larger than this are left behind.
const LARGEST: u64 = 32 << 20;

/// Where a program is built and run.
#[derive(Clone, Debug)]
pub struct Built {
    /// The folder in which it runs.
    pub folder: PathBuf,
    /// The program.
    pub program: PathBuf,
    /// Folder for what is kept of its runs.
    pub scratch: PathBuf,
    /// Variables that it needs.
    pub environment: Vec<(String, OsString)>,
}

/// Included before a program's own text where the machine's OpenCL has no GPU:
/// programs that request one get any device.
const ANY_DEVICE: &str = "\
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#undef CL_DEVICE_TYPE_GPU
#define CL_DEVICE_TYPE_GPU CL_DEVICE_TYPE_ALL
";

/// The CUDA compiler.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// nvcc.
    pub nvcc: PathBuf,
    /// Folder of the CUDA libraries.
    pub libraries: PathBuf,
}

impl Compiler {
    /// The compiler in a toolchain's folder, else that of the system.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn find(toolchain: &Path) -> Result<Compiler> {
        if let Ok(toolchain) = crate::compile::Toolchain::find(toolchain) {
            return Ok(Compiler {
                nvcc: toolchain.nvcc(),
                libraries: toolchain.libraries(),
            });
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/local/cuda/bin".into()]);
        let nvcc = folders
            .map(|folder| folder.join("nvcc"))
            .find(|nvcc| nvcc.is_file())
            .with_context(|| {
                format!(
                    "no nvcc in {}, on PATH or in /usr/local/cuda/bin",
                    toolchain.display()
                )
            })?;
        let libraries = nvcc.with_file_name("../lib64");
        Ok(Compiler { nvcc, libraries })
    }
}

/// Where programs are built and run, and how.
#[derive(Clone, Debug)]
pub struct Place<'x> {
    /// The collection.
    pub root: &'x Path,
    /// Folder for all of its programs.
    pub out: &'x Path,
    /// For programs with CUDA kernels.
    pub compiler: Option<&'x Compiler>,
    /// The device.
    pub device: DeviceKind,
    /// Deadline of the compiler.
    pub limit: Duration,
}

/// Copies and compiles; `Err` inside is the compiler's message.
///
/// # Errors
///
/// The folder cannot be copied, or there is no compiler.
pub fn build(place: &Place<'_>, program: &Program) -> Result<Result<Built, String>> {
    let own = place.out.join(&program.name);
    if program.sources.is_empty() {
        // The collection's own build made it, and specifies where it runs.
        std::fs::create_dir_all(&own)
            .with_context(|| format!("failed to make {}", own.display()))?;
        let path = place.root.join(&program.folder);
        return Ok(Ok(Built {
            folder: path.parent().unwrap_or(place.root).to_owned(),
            program: path,
            scratch: own,
            environment: Vec::new(),
        }));
    }
    let folder = own.join(&program.folder);
    let built = Built {
        // Some find their files beside themselves.
        program: folder.join("ringfence-foreign"),
        folder: folder.clone(),
        scratch: own.clone(),
        environment: Vec::new(),
    };
    let failure = own.join("failure");
    if let Ok(message) = std::fs::read_to_string(&failure) {
        return Ok(Err(message));
    }
    if built.program.is_file() {
        return Ok(Ok(built));
    }
    copy_program(place.root, program, &own)?;
    super::inputs::make(program, &folder)?;
    let scratch = own.join("tmp");
    std::fs::create_dir_all(&scratch)?;
    let mut command = match program.api {
        Api::Cuda => with_nvcc(place, program)?,
        Api::OpenCl => with_cc(place, program, &scratch)?,
    };
    command
        .arg("-o")
        .arg(&built.program)
        .env("TMPDIR", &scratch)
        .current_dir(&folder);
    let outcome = process::run(&mut command, place.limit)?;
    // Intermediate files only.
    let _ = std::fs::remove_dir_all(&scratch);
    if outcome.code() == Some(0) && built.program.is_file() {
        return Ok(Ok(built));
    }
    let message = match outcome.status {
        None => "the compiler ran out of time".to_owned(),
        Some(_) => outcome
            .stderr
            .lines()
            .chain(outcome.stdout.lines())
            .find(|line| line.contains("error") || line.contains("undefined"))
            .or(outcome.stderr.lines().next())
            .unwrap_or("the compiler failed without a message")
            .to_owned(),
    };
    std::fs::write(&failure, &message)
        .with_context(|| format!("failed to write {}", failure.display()))?;
    Ok(Err(message))
}

fn with_nvcc(place: &Place<'_>, program: &Program) -> Result<Command> {
    let compiler = place.compiler.context("no CUDA compiler was found")?;
    let mut command = Command::new(&compiler.nvcc);
    command
        .args(match place.device {
            // PTX alone: all that the CPU device executes, and no time spent
            // in ptxas.
            DeviceKind::Cpu | DeviceKind::Tenant => ["-gencode=arch=compute_90,code=compute_90"],
            DeviceKind::Gpu => ["-arch=sm_90"],
        })
        .args(["-O2", "-w", "-lineinfo", "-Wno-deprecated-gpu-targets"])
        .args(&program.flags)
        .args(&program.sources)
        .arg("-L")
        .arg(&compiler.libraries);
    Ok(command)
}

/// C and C++ sources each in their language; libraries last.
fn with_cc(place: &Place<'_>, program: &Program, scratch: &Path) -> Result<Command> {
    let mut command = Command::new("cc");
    command.args(["-O2", "-g1", "-w", "-pthread", "-fcommon", "-fpermissive"]);
    let is_cpp = |source: &String| !source.ends_with(".c");
    let says = |start: &str| program.flags.iter().any(|flag| flag.starts_with(start));
    if (program.sources.iter().any(is_cpp) || says("-xc++")) && !says("-std=") {
        // Most are older than C++17, which removed features.
        command.arg("-std=gnu++14");
    }
    if place.device == DeviceKind::Cpu {
        let header = scratch.with_file_name("any-device.h");
        std::fs::write(&header, ANY_DEVICE)
            .with_context(|| format!("failed to write {}", header.display()))?;
        command.arg("-include").arg(header);
    }
    let (libraries, flags): (Vec<_>, Vec<_>) = program
        .flags
        .iter()
        .partition(|flag| flag.starts_with("-l"));
    command
        .args(flags)
        .args(&program.sources)
        .args(libraries)
        .args(["-lOpenCL", "-lstdc++", "-lm", "-ldl"]);
    Ok(command)
}

/// Copies the folder of a program, and what it refers to beside itself, to a
/// folder that takes the collection's place.
///
/// # Errors
///
/// A file cannot be read or written.
pub fn copy_program(root: &Path, program: &Program, to: &Path) -> Result<()> {
    copy_folder(&root.join(&program.folder), &to.join(&program.folder))?;
    let referred = referred(root, program)?;
    for file in referred.files {
        copy_file(root, &file, to)?;
    }
    for folder in referred.folders {
        let target = to.join(&folder);
        if !target.exists() {
            copy_folder(&root.join(&folder), &target)?;
        }
    }
    Ok(())
}

/// Copies a file that lies in a folder of which the program's is a part.
fn copy_file(root: &Path, file: &Path, to: &Path) -> Result<()> {
    let (from, target) = (root.join(file), to.join(file));
    let small = from
        .metadata()
        .is_ok_and(|about| about.is_file() && about.len() <= LARGEST);
    if small && !target.exists() {
        std::fs::copy(&from, &target)
            .with_context(|| format!("failed to copy {}", from.display()))?;
    }
    Ok(())
}

/// What sources, flags and arguments name by `../`, from the collection.
#[derive(Default)]
struct Referred {
    /// Folders, each as a whole.
    folders: BTreeSet<PathBuf>,
    /// Files of folders in which the program's lies, too.
    files: BTreeSet<PathBuf>,
}

fn referred(root: &Path, program: &Program) -> Result<Referred> {
    let mut texts: Vec<String> = program.arguments.clone();
    texts.extend(program.sources.iter().cloned());
    texts.extend(
        program
            .flags
            .iter()
            .map(|flag| match flag.strip_prefix("-I") {
                // A folder of headers is needed as a whole.
                Some(folder) => format!("{folder}/any"),
                None => flag.clone(),
            }),
    );
    let folder = root.join(&program.folder);
    let mut sources = Vec::new();
    files(&folder, &mut sources)?;
    for path in sources {
        let name = path.to_string_lossy();
        if [".cu", ".cuh", ".h", ".hpp", ".cpp", ".c", ".cc", ".cl"]
            .iter()
            .any(|end| name.ends_with(end))
            && let Ok(bytes) = std::fs::read(&path)
        {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let quoted = text.split('"').filter(|part| part.starts_with("../"));
            texts.extend(quoted.map(str::to_owned));
        }
    }
    let mut found = Referred::default();
    for text in texts.iter().filter(|text| text.starts_with("../")) {
        let Some(parent) = Path::new(text).parent() else {
            continue;
        };
        let mut place = program.folder.clone();
        let mut outside = false;
        for part in parent.components() {
            match part {
                std::path::Component::ParentDir => outside |= !place.pop(),
                std::path::Component::Normal(name) => place.push(name),
                _ => {}
            }
        }
        // Never the collection as a whole.
        if !outside && place.iter().count() >= 1 && place != Path::new("src") {
            if program.folder.starts_with(&place) {
                let name = Path::new(text).file_name();
                found.files.extend(name.map(|name| place.join(name)));
            } else if root.join(&place).is_dir() {
                found.folders.insert(place);
            }
        }
    }
    Ok(found)
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?
    {
        let path = entry?.path();
        // What a link leads to may be the folder itself.
        if path.is_dir() && !path.is_symlink() {
            files(&path, found)?;
        } else if path.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let mut all = Vec::new();
    files(from, &mut all)?;
    for path in all {
        let Ok(rest) = path.strip_prefix(from) else {
            continue;
        };
        let is_manual = path.extension().is_some_and(|end| end == "pdf");
        if is_manual || path.metadata()?.len() > LARGEST {
            continue;
        }
        let target = to.join(rest);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("failed to make {}", parent.display()))?;
        }
        std::fs::copy(&path, &target)
            .with_context(|| format!("failed to copy {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_refers_to_comes_with_it() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("src/a-cuda/main.cu", "#include \"../b-cuda/part.h\"");
        write("src/group/x/a.c", "open(\"../kernel.cl\");");
        write("src/group/kernel.cl", "");
        write("src/group/y/b.c", "");
        write("src/b-cuda/part.h", "");
        write("src/c-cuda/not.h", "");
        write("src/data/in.txt", "1");
        let program = Program {
            name: "a-cuda".into(),
            api: Api::Cuda,
            folder: "src/a-cuda".into(),
            sources: vec!["main.cu".into()],
            flags: vec![],
            arguments: vec!["../data/in.txt".into(), "../../../secret".into()],
            repeats: None,
            small: false,
        };
        let to = tempfile::tempdir().unwrap();
        copy_program(root.path(), &program, to.path()).unwrap();
        assert!(to.path().join("src/a-cuda/main.cu").is_file());
        assert!(to.path().join("src/b-cuda/part.h").is_file());
        assert!(to.path().join("src/data/in.txt").is_file());
        assert!(!to.path().join("src/c-cuda").exists());
        let program = Program {
            folder: "src/group/x".into(),
            sources: vec!["a.c".into()],
            arguments: vec![],
            ..program
        };
        copy_program(root.path(), &program, to.path()).unwrap();
        assert!(to.path().join("src/group/kernel.cl").is_file());
        assert!(!to.path().join("src/group/y").exists());
    }
}
