//! `gpu-bundle`: one folder that runs suite and benches on a machine with a
//! GPU and nothing else: no Rust, no CUDA toolkit, no network.

use crate::command::{command, output, run};
use crate::workspace::{root, target};
use crate::{build, setup};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use suite::attacks::ATTACKS;
use suite::case::{Cudart, Manifest};
use suite::compile::{Job, Linkage, compile_all, flags};

/// The folder may not be larger than this, so that it travels easily.
const LIMIT: u64 = 60 << 20;

/// Writes target/gpu-bundle.
///
/// # Errors
///
/// Something cannot be built or written, or the folder is too large.
pub fn write() -> Result<()> {
    let toolchain = setup::cuda()?;
    let built = build::all()?;
    // Under the workspace's own target folder whatever CARGO_TARGET_DIR says.
    let bundle = root().join("target/gpu-bundle");
    if bundle.exists() {
        std::fs::remove_dir_all(&bundle)
            .with_context(|| format!("failed to clear {}", bundle.display()))?;
    }
    for folder in ["lib", "cases", "cudart", "ptx"] {
        std::fs::create_dir_all(bundle.join(folder))?;
    }

    strip(&build::bench()?, &bundle.join("ringfence-bench"))?;
    for name in [
        "ringfence",
        "libringfence.so",
        "libringfence_opencl.so",
        "ringfence-suite",
    ] {
        strip(&built.folder.join(name), &bundle.join(name))?;
    }
    for entry in std::fs::read_dir(&built.cudart)? {
        let path = entry?.path();
        let name = path.file_name().context("a library without a name")?;
        strip(&path, &bundle.join("cudart").join(name))?;
    }
    std::fs::copy(
        root().join("include/ringfence.h"),
        bundle.join("ringfence.h"),
    )
    .context("failed to copy include/ringfence.h")?;
    for script in ["steps.py", "planted.py"] {
        let from = root().join("bench/torch").join(script);
        std::fs::copy(&from, bundle.join(script))
            .with_context(|| format!("failed to copy {}", from.display()))?;
    }
    std::fs::copy(
        toolchain.libraries().join("libcudart.so.13"),
        bundle.join("lib/libcudart.so.13"),
    )
    .context("failed to copy libcudart.so.13")?;

    // Compiled beside the bundle, so that a second call compiles nothing.
    let cases = target().join("gpu-cases");
    build::cases(&cases, Linkage::Mixed)?;
    copy_cases(&cases, &bundle.join("cases"))?;
    opencl(&bundle.join("opencl"))?;
    let kernels = root().join("bench/kernels");
    let sources = root().join("suite/cases");
    let programs = target().join("gpu-bench");
    std::fs::create_dir_all(&programs)?;
    let mut jobs = benches(&programs);
    let linked = jobs.len();
    jobs.extend(isolation(&programs));
    jobs.push(sharing(&programs));
    let programs_of_tenants = linked..jobs.len();
    jobs.push(bench("bench.cu", programs.join("bench.ptx"), &["-ptx"]));
    compile_all(
        &toolchain,
        &jobs,
        &[kernels, sources.join("include"), sources.clone()],
    )?;
    copy_programs(&jobs[..linked], &jobs[programs_of_tenants], &bundle)?;
    std::fs::copy(programs.join("bench.ptx"), bundle.join("ptx/bench.ptx"))?;
    instrumented(&built.command, &bundle.join("ptx"))?;

    std::fs::write(bundle.join("commit"), suite::results::commit(&root()))?;
    scripts(&bundle)?;

    pack(&bundle)?;
    let size = folder_size(&bundle)?;
    ensure!(
        size <= LIMIT,
        "{} holds {} MiB, more than {}",
        bundle.display(),
        size >> 20,
        LIMIT >> 20
    );
    println!(
        "{}: {:.1} MiB",
        bundle.display(),
        size as f64 / f64::from(1 << 20)
    );
    Ok(())
}

/// One program of a bench.
fn bench(source: &str, output: PathBuf, extra: &[&str]) -> Job {
    let mut flags = flags(Cudart::Static, Some(90));
    flags.extend(extra.iter().map(|flag| (*flag).to_owned()));
    Job {
        sources: vec![root().join("bench/kernels").join(source)],
        flags,
        output,
    }
}

/// The programs of the benches, but for those of tenants.
fn benches(programs: &Path) -> Vec<Job> {
    let sources = root().join("suite/cases");
    let plain = [
        "bench", "spaces", "memory", "host", "heap", "guard", "fence",
    ];
    let mut jobs: Vec<Job> = plain
        .iter()
        .map(|name| bench(&format!("{name}.cu"), programs.join(name), &[]))
        .collect();
    jobs.push(bench("fields.cu", programs.join("fields"), &["-G"]));
    // Machine code alone, as libraries have it.
    jobs.push(Job {
        sources: vec![root().join("bench/kernels/planted.cu")],
        flags: vec![
            "-cudart=static".into(),
            "-gencode=arch=compute_90,code=sm_90".into(),
        ],
        output: programs.join("planted"),
    });
    // The attacks that the bench of the guard times are cases of the suite.
    jobs.extend(ATTACKS.iter().map(|attack| Job {
        sources: vec![sources.join("watch").join(attack.case).with_extension("cu")],
        flags: flags(Cudart::Static, Some(90)),
        output: programs.join(attack.case),
    }));
    jobs
}

/// Copies programs into the bundle: those of tenants with their symbols, by which
/// the functions of the runtime are found.
fn copy_programs(stripped: &[Job], whole: &[Job], bundle: &Path) -> Result<()> {
    let place = |job: &Job| -> Result<PathBuf> {
        let name = job.output.file_name().context("a program without a name")?;
        Ok(bundle.join(name))
    };
    for job in stripped {
        strip(&job.output, &place(job)?)?;
    }
    for job in whole {
        std::fs::copy(&job.output, place(job)?)?;
    }
    Ok(())
}

/// The programs of the bench of isolation, for both devices.
pub fn isolation(folder: &Path) -> Vec<Job> {
    let attacks = root().join("bench/kernels/attacks");
    let job = |program: &str, sources: &[&str]| Job {
        sources: sources.iter().map(|source| attacks.join(source)).collect(),
        flags: flags(Cudart::Static, Some(90)),
        output: folder.join(program),
    };
    let attacker = [
        "attacker.cu",
        "accesses.cu",
        "ends.cu",
        "waits.cu",
        "calls.cu",
        "copies.cu",
        "tour.cu",
    ];
    vec![
        job("neighbour", &["neighbour.cu"]),
        job("attacker", &attacker),
    ]
}

/// The program of the benches of sharing and of calls, for both devices.
pub fn sharing(folder: &Path) -> Job {
    let sources = root().join("bench/kernels/sharing");
    let source = |name: &str| sources.join(name).with_extension("cu");
    Job {
        sources: [
            "sharing", "compute", "memory", "gather", "launch", "train", "calls",
        ]
        .map(source)
        .to_vec(),
        flags: flags(Cudart::Static, Some(90)),
        output: folder.join("sharing"),
    }
}

/// The scripts that run what the folder holds.
fn scripts(bundle: &Path) -> Result<()> {
    for (source, name) in [("run-bundle.sh", "run"), ("run-foreign.sh", "run-foreign")] {
        let script = bundle.join(name);
        std::fs::copy(root().join("bench").join(source), &script)
            .with_context(|| format!("failed to copy bench/{source}"))?;
        run(command("chmod", ["+x"]).arg(&script))?;
    }
    Ok(())
}

/// Packs the cases, which `run` unpacks: they share most of their bytes, the
/// CUDA runtime library. The dictionary is larger than all of them, so that each
/// repetition is found.
fn pack(bundle: &Path) -> Result<()> {
    const XZ: &str = "xz --threads=2 --lzma2=preset=1,dict=96MiB";
    run(
        command("tar", ["--create", "--use-compress-program", XZ, "--file"])
            .arg(bundle.join("cases.tar.xz"))
            .arg("--directory")
            .arg(bundle)
            .arg("cases"),
    )?;
    std::fs::remove_dir_all(bundle.join("cases")).context("failed to remove what is packed")
}

/// The OpenCL cases and bench, and a loader that has layers: that of the CUDA
/// toolkit has none.
fn opencl(folder: &Path) -> Result<()> {
    const LOADER: &str = "libOpenCL.so.1";
    let built = target().join("suite-opencl");
    build::opencl_cases(&built)?;
    std::fs::create_dir_all(folder.join("lib"))?;
    build::opencl_bench(&folder.join("canaries"))?;
    let mut manifest = Manifest::read(&built)?;
    manifest.libraries = "lib".into();
    for case in &manifest.cases {
        let program = &case.good.path;
        std::fs::copy(built.join(program), folder.join(program))
            .with_context(|| format!("failed to copy {}", program.display()))?;
    }
    let asked = format!("-print-file-name={LOADER}");
    let found = output(&mut command("cc", [asked.as_str()]))?;
    std::fs::copy(found.trim(), folder.join("lib").join(LOADER))
        .with_context(|| format!("failed to copy {LOADER}"))?;
    manifest.write(folder)
}

/// The bench kernels as the driver gets them, for inspection.
fn instrumented(ringfence: &Path, folder: &Path) -> Result<()> {
    output(
        command(ringfence, ["instrument"])
            .arg(folder.join("bench.ptx"))
            .arg("-o")
            .arg(folder.join("bench.checked.ptx")),
    )
    .map(drop)
}

fn strip(from: &Path, to: &Path) -> Result<()> {
    run(command("strip", ["--strip-unneeded", "-o"])
        .arg(to)
        .arg(from))
    .context("binutils are needed: install strip")
}

/// Copies manifest and programs; libraries are found beside them. Programs
/// with the static runtime are stripped, for they are large; the others keep
/// the lines of their host calls, which their verdicts name.
fn copy_cases(from: &Path, to: &Path) -> Result<()> {
    let mut manifest = Manifest::read(from)?;
    manifest.libraries = "../lib".into();
    let mut programs: Vec<(&PathBuf, Cudart)> = Vec::new();
    for case in &manifest.cases {
        programs.push((&case.good.path, case.cudart));
        programs.extend(
            case.bad
                .as_ref()
                .map(|bad| (&bad.program.path, case.cudart)),
        );
    }
    programs.sort_by_key(|(path, _)| *path);
    programs.dedup();
    for (program, cudart) in programs {
        let (from, to) = (from.join(program), to.join(program));
        match cudart {
            Cudart::Static => strip(&from, &to)?,
            Cudart::Shared => {
                std::fs::copy(&from, &to)
                    .with_context(|| format!("failed to copy {}", from.display()))?;
            }
        }
    }
    manifest.write(to)
}

fn folder_size(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        size += if entry.file_type()?.is_dir() {
            folder_size(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(size)
}
