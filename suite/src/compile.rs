//! Compiles cases with the pinned nvcc.
//!
//! A program is compiled again only when its sources, its flags or the
//! compiler changed: the command and a digest of the sources lie beside it.

use crate::case::{Api, Bad, Case, Cudart, Manifest, Program, Source};
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The CUDA compiler that builds the programs.
#[derive(Clone, Debug)]
pub struct Toolchain {
    cuda: toolchain::Cuda,
}

/// Runtime library of the cases that declare none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Linkage {
    /// As nvcc does by default.
    Static,
    /// Shared, but every eighth case static: a folder that is small and has
    /// both.
    Mixed,
}

impl Linkage {
    /// The library of most programs.
    pub fn usual(self) -> Cudart {
        match self {
            Linkage::Static => Cudart::Static,
            Linkage::Mixed => Cudart::Shared,
        }
    }
}

/// One nvcc call.
#[derive(Clone, Debug)]
pub struct Job {
    /// Sources, absolute.
    pub sources: Vec<PathBuf>,
    /// Flags beside the common ones.
    pub flags: Vec<String>,
    /// Program to write.
    pub output: PathBuf,
}

impl Toolchain {
    /// The toolchain at `path`: the `nvidia/cu13` folder itself, or a Python
    /// environment that holds it.
    ///
    /// # Errors
    ///
    /// There is no nvcc.
    pub fn find(path: &Path) -> Result<Toolchain> {
        let cuda = toolchain::Cuda::find(path)?;
        Ok(Toolchain { cuda })
    }

    /// The compiler driver.
    pub fn nvcc(&self) -> PathBuf {
        self.cuda.nvcc()
    }

    /// Folder of the CUDA runtime's libraries.
    pub fn libraries(&self) -> PathBuf {
        self.cuda.libraries()
    }

    /// Runs `job` unless its program is up to date.
    ///
    /// # Errors
    ///
    /// A source cannot be read, or nvcc refuses it; its messages are the error.
    pub fn compile(&self, job: &Job, includes: &[PathBuf]) -> Result<()> {
        let mut command = Command::new(self.nvcc());
        command
            .args(["-std=c++17", "-lineinfo"])
            .args(
                includes
                    .iter()
                    .flat_map(|folder| [OsStr::new("-I"), folder.as_os_str()]),
            )
            .arg("-L")
            .arg(self.libraries())
            .args(&job.flags)
            .args(&job.sources)
            .arg("-o")
            .arg(&job.output);
        fresh(&mut command, "nvcc", &job.sources, includes, &job.output)
    }
}

/// Runs a compiler unless what it writes is up to date: the command and a
/// digest of what it reads lie beside the program.
///
/// # Errors
///
/// A source cannot be read, or the compiler refuses it; its messages are the
/// error.
pub(crate) fn fresh(
    command: &mut Command,
    name: &str,
    sources: &[PathBuf],
    includes: &[PathBuf],
    program: &Path,
) -> Result<()> {
    let mut read: Vec<PathBuf> = sources.to_vec();
    read.extend(headers(includes)?);
    let mut key = format!("{command:?}\n");
    let mut at = 0;
    while let Some(source) = read.get(at).cloned() {
        at += 1;
        let bytes = std::fs::read(&source)
            .with_context(|| format!("failed to read {}", source.display()))?;
        key += &format!("{} {:016x}\n", source.display(), fnv(&bytes));
        for part in beside(&source, &bytes) {
            if !read.contains(&part) {
                read.push(part);
            }
        }
    }
    let key_path = PathBuf::from(format!("{}.key", program.display()));
    if program.exists() && std::fs::read_to_string(&key_path).is_ok_and(|old| old == key) {
        return Ok(());
    }
    let output = command
        .output()
        .with_context(|| format!("failed to start {}", command.get_program().display()))?;
    ensure!(
        output.status.success(),
        "{name} refused {}:\n{}{}",
        sources[0].display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::write(&key_path, key)
        .with_context(|| format!("failed to write {}", key_path.display()))
}

/// The files that a source includes from where it lies itself.
fn beside(source: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let text = String::from_utf8_lossy(bytes);
    let names = text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("#include")?;
        rest.trim_start().strip_prefix('"')?.split('"').next()
    });
    let folder = source.parent().unwrap_or(Path::new(""));
    names
        .map(|name| folder.join(name))
        .filter(|path| path.is_file())
        .collect()
}

fn headers(includes: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut headers = Vec::new();
    for include in includes {
        for entry in std::fs::read_dir(include)
            .with_context(|| format!("failed to list {}", include.display()))?
        {
            let path = entry?.path();
            if path.is_file() {
                headers.push(path);
            }
        }
    }
    headers.sort();
    Ok(headers)
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Compiles all cases below `sources` (the folder that holds `include` and
/// one folder a group), the programs in the folder `programs` beside it and
/// the bench program into `out`, and writes the
/// manifest. Returns the number of programs.
///
/// # Errors
///
/// A case is malformed or does not compile.
pub fn build(
    sources: &Path,
    bench: Option<&Path>,
    toolchain: &Toolchain,
    linkage: Linkage,
    commit: String,
    out: &Path,
) -> Result<usize> {
    // Sources are named by their full path, so that line information does not
    // depend on where the build was started.
    let sources = &std::fs::canonicalize(sources)
        .with_context(|| format!("no cases at {}", sources.display()))?;
    std::fs::create_dir_all(out).with_context(|| format!("failed to make {}", out.display()))?;
    // What every case shares, and the header that programs annotate with.
    let includes = [sources.join("include"), sources.join("../../include")];
    let includes: Vec<PathBuf> = includes.into_iter().filter(|path| path.is_dir()).collect();
    let mut jobs = Vec::new();
    let mut cases = Vec::new();
    for (index, source) in crate::case::read_sources(sources)?.iter().enumerate() {
        let cudart = source.build.cudart.unwrap_or(match linkage {
            Linkage::Static if source.compiled_twins() => Cudart::Static,
            Linkage::Mixed if source.compiled_twins() && index % 8 == 0 => Cudart::Static,
            _ => Cudart::Shared,
        });
        cases.push(add_case(source, cudart, out, &mut jobs)?);
    }
    for program in crate::programs::read_sources(&sources.with_file_name("programs"))? {
        let (job, case) = program.case(linkage, out);
        jobs.push(job);
        cases.push(case);
    }
    if let Some(bench) = bench {
        let bench = std::fs::canonicalize(bench)
            .with_context(|| format!("no bench kernels at {}", bench.display()))?;
        let cudart = linkage.usual();
        jobs.push(Job {
            sources: vec![bench],
            flags: flags(cudart, Some(90)),
            output: out.join("bench_small"),
        });
        for kernel in crate::results::KERNELS {
            cases.push(Case {
                name: format!("bench_{kernel}"),
                group: "bench".into(),
                category: "bench".into(),
                options: Vec::new(),
                notes: Vec::new(),
                about: format!("the bench kernel {kernel}, at a small size"),
                cudart,
                good: Program {
                    path: "bench_small".into(),
                    arguments: vec!["--small".into(), "--kernel".into(), (*kernel).into()],
                },
                bad: None,
                also: Vec::new(),
                premise: false,
            });
        }
    }
    compile_all(toolchain, &jobs, &includes)?;
    Manifest {
        commit,
        api: Api::Cuda,
        libraries: toolchain.libraries(),
        cases,
        missing: crate::missing::read(sources)?,
    }
    .write(out)?;
    Ok(jobs.len())
}

/// nvcc's flags for a runtime library and a target.
pub fn flags(cudart: Cudart, arch: Option<u32>) -> Vec<String> {
    let mut flags = vec![format!(
        "-cudart={}",
        match cudart {
            Cudart::Static => "static",
            Cudart::Shared => "shared",
        }
    )];
    flags.extend(arch.map(|arch| format!("-arch=sm_{arch}")));
    flags
}

fn add_case(source: &Source, cudart: Cudart, out: &Path, jobs: &mut Vec<Job>) -> Result<Case> {
    let folder = source.path.parent().context("a case without a folder")?;
    let mut program = |name: String, extra: &[&str]| {
        let mut flags = if source.compiled_twins() || source.build.rdc {
            flags(cudart, source.build.arch)
        } else {
            // PTX alone: nothing else is read, and ptxas takes no time.
            let arch = source.build.arch.unwrap_or(75);
            let mut flags = flags(cudart, None);
            let code = if source.build.machine_code {
                "sm"
            } else {
                "compute"
            };
            flags.push(format!("-gencode=arch=compute_{arch},code={code}_{arch}"));
            // Lines of the host calls that a finding names.
            flags.push("-Xcompiler=-g1".into());
            flags
        };
        if source.build.rdc {
            flags.push("-rdc=true".into());
        }
        flags.extend(source.build.flags.iter().cloned());
        flags.extend(extra.iter().map(|flag| (*flag).to_owned()));
        jobs.push(Job {
            sources: std::iter::once(source.path.clone())
                .chain(source.build.sources.iter().map(|other| folder.join(other)))
                .collect(),
            flags,
            output: out.join(&name),
        });
        PathBuf::from(name)
    };
    let start = |path: &Path, arguments: &[&str]| Program {
        path: path.to_owned(),
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
    };
    let (good, bad, annotated) = if source.compiled_twins() {
        let good = program(format!("good_{}", source.name), &["-DBAD=0"]);
        let bad = program(format!("bad_{}", source.name), &["-DBAD=1"]);
        (start(&good, &[]), start(&bad, &[]), None)
    } else {
        let path = program(source.name.clone(), &[]);
        // The good twin has its annotations on: they must not make alarms.
        let (good, annotated) = if source.annotated {
            let annotated = start(&path, &["bad", "annotated"]);
            (start(&path, &["good", "annotated"]), Some(annotated))
        } else {
            (start(&path, &["good"]), None)
        };
        (good, start(&path, &["bad"]), annotated)
    };
    Ok(Case {
        name: source.name.clone(),
        group: source.group.clone(),
        category: source.category.clone(),
        about: source.bug.clone(),
        options: source.settings(),
        notes: source.notes.clone(),
        cudart,
        good,
        bad: Some(Bad {
            program: bad,
            expect: source.expect.clone(),
            annotated,
        }),
        also: source.also.clone(),
        premise: source.premise,
    })
}

/// Runs all jobs, as many at a time as there are cores, and reports every
/// failure.
///
/// # Errors
///
/// At least one job failed.
pub fn compile_all(toolchain: &Toolchain, jobs: &[Job], includes: &[PathBuf]) -> Result<()> {
    compile_all_with(jobs, |job| toolchain.compile(job, includes))
}

/// The same, with any compiler.
pub(crate) fn compile_all_with<J: Sync>(
    jobs: &[J],
    compile: impl Fn(&J) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = compile(job)
                        && let Ok(mut failures) = failures.lock()
                    {
                        failures.push(format!("{error:#}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(|e| e.into_inner());
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::fresh;
    use std::path::Path;
    use std::process::Command;

    /// Whether a source of this folder is compiled when asked for: what takes
    /// the compiler's place writes down that it ran.
    fn is_compiled(folder: &Path) -> bool {
        let program = folder.join("program");
        let before = std::fs::read(&program).unwrap_or_default().len();
        let mut compiler = Command::new("sh");
        compiler.arg("-c").arg("echo ran >> \"$0\"").arg(&program);
        let source = folder.join("case.cu");
        fresh(&mut compiler, "sh", &[source], &[], &program).unwrap();
        std::fs::read(&program).unwrap().len() > before
    }

    #[test]
    fn what_a_source_includes_makes_it_stale() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        std::fs::create_dir(folder.path().join("parts")).unwrap();
        write("case.cu", "#include <cstdio>\n#include \"parts/a.h\"\n");
        write("parts/a.h", "  # include nothing\n#include \"b.h\"\n");
        write("parts/b.h", "#include \"a.h\"\nint b;\n");
        assert!(is_compiled(folder.path()));
        assert!(!is_compiled(folder.path()));
        write("parts/b.h", "#include \"a.h\"\nlong b;\n");
        assert!(is_compiled(folder.path()));
        assert!(!is_compiled(folder.path()));
        write("case.cu", "int main() {}\n");
        assert!(is_compiled(folder.path()));
        assert!(!is_compiled(folder.path()));
    }
}
