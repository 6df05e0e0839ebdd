//! The OpenCL cases: C programs, one a file, whose twins are distinguished by
//! their argument. Their heads are written as those of the other cases
//! ([`crate::case`]), and so is the manifest, so that one runner judges all.

use crate::case::{Api, Bad, Case, Cudart, Manifest, Program, Source, read_sources_of};
use crate::compile::{compile_all_with, fresh};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the cases in `sources` into `out` and writes the manifest.
/// Returns the number of programs.
///
/// # Errors
///
/// A case is malformed, or the C compiler or OpenCL's headers are missing.
pub fn build(sources: &Path, commit: String, out: &Path) -> Result<usize> {
    let sources = &std::fs::canonicalize(sources)
        .with_context(|| format!("no cases at {}", sources.display()))?;
    std::fs::create_dir_all(out).with_context(|| format!("failed to make {}", out.display()))?;
    let include = sources.join("include");
    let read = read_sources_of(sources, "c")?;
    ensure!(!read.is_empty(), "no cases in {}", sources.display());
    let jobs: Vec<(PathBuf, PathBuf)> = read
        .iter()
        .map(|source| (source.path.clone(), out.join(&source.name)))
        .collect();
    compile_all_with(&jobs, |(source, program)| {
        compile(source, program, &include)
    })?;
    Manifest {
        commit,
        api: Api::OpenCl,
        // The system's own.
        libraries: PathBuf::from("."),
        cases: read.iter().map(case).collect(),
        missing: crate::missing::read(sources)?,
    }
    .write(out)?;
    Ok(jobs.len())
}

fn compile(source: &Path, program: &Path, include: &Path) -> Result<()> {
    let mut command = Command::new("cc");
    command
        // Lines of the host calls that a finding names.
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-g1",
            "-O1",
            "-Wall",
            "-Werror",
            "-pthread",
            "-I",
        ])
        .arg(include)
        .arg(source)
        .arg("-o")
        .arg(program);
    let text = std::fs::read_to_string(source)
        .with_context(|| format!("failed to read {}", source.display()))?;
    // One case loads the library itself.
    if !text.contains("dlopen") {
        command.arg("-lOpenCL");
    }
    command.arg("-lm");
    fresh(
        &mut command,
        "cc",
        &[source.to_owned()],
        &[include.to_owned()],
        program,
    )
}

fn case(source: &Source) -> Case {
    let program = |twin: &str| Program {
        path: PathBuf::from(&source.name),
        arguments: vec![twin.to_owned()],
    };
    Case {
        name: source.name.clone(),
        group: source.group.clone(),
        category: source.category.clone(),
        about: source.bug.clone(),
        options: source.settings(),
        notes: source.notes.clone(),
        cudart: Cudart::Static,
        good: program("good"),
        bad: Some(Bad {
            program: program("bad"),
            expect: source.expect.clone(),
            annotated: None,
        }),
        also: source.also.clone(),
        premise: source.premise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_cases_are_well_formed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("opencl");
        let sources = read_sources_of(&folder, "c").unwrap();
        let cases: Vec<Case> = sources.iter().map(case).collect();
        assert!(cases.iter().all(|case| case.name.starts_with("opencl_")));
        for source in &sources {
            let text = std::fs::read_to_string(&source.path).unwrap();
            assert!(text.contains("is_bad("), "{} has no twin", source.name);
        }
    }
}
