//! The realistic programs: a few hundred lines of CUDA C++ each, in the
//! manner of the common benchmark suites, and without a bug.
//!
//! Each is one `.cu` file that checks itself against the host, prints what
//! must be the same on every device, and exits with 0. Its head says:
//!
//! ```text
//! // about: one line for people
//! // build: arch=90 rdc flags=-G          (optional, as for cases)
//! // feature: what of CUDA it is for       (optional)
//! ```
//!
//! One with a `feature` line is smaller: it uses one feature in every way that
//! programs do, where a realistic program would use it once.

use crate::case::{Build, Case, Program, cu_files, head_line, read_build};
use crate::compile::{Job, Linkage, flags};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// A program as its source declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// File name without extension.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// What it computes, in one line.
    pub about: String,
    /// How it is compiled.
    pub build: Build,
}

impl Source {
    /// The nvcc call that makes it, and the case that runs it.
    pub fn case(&self, linkage: Linkage, out: &Path) -> (Job, Case) {
        let cudart = self.build.cudart.unwrap_or(linkage.usual());
        let path = PathBuf::from(format!("program_{}", self.name));
        let mut flags = flags(cudart, self.build.arch);
        if self.build.rdc {
            flags.push("-rdc=true".into());
        }
        flags.extend(self.build.flags.iter().cloned());
        let job = Job {
            sources: vec![self.path.clone()],
            flags,
            output: out.join(&path),
        };
        let case = Case {
            name: format!("program_{}", self.name),
            group: "programs".into(),
            category: "programs".into(),
            about: self.about.clone(),
            options: Vec::new(),
            notes: Vec::new(),
            cudart,
            good: Program {
                path,
                arguments: Vec::new(),
            },
            bad: None,
            also: Vec::new(),
            premise: false,
        };
        (job, case)
    }
}

/// Reads all programs of a folder, by name.
///
/// # Errors
///
/// The folder cannot be read, or a program's head is wrong.
pub fn read_sources(folder: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in cu_files(folder)? {
        let in_file = || format!("in the program {}", path.display());
        let text = std::fs::read_to_string(&path).with_context(in_file)?;
        let name = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .context("its name is not text")
            .with_context(in_file)?;
        sources.push(Source {
            name: name.to_owned(),
            about: head_line(&text, "about")
                .context("its head has no `// about: ` line")
                .with_context(in_file)?
                .to_owned(),
            build: read_build(head_line(&text, "build").unwrap_or("")).with_context(in_file)?,
            path,
        });
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_programs_are_well_formed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        let sources = read_sources(&folder).unwrap();
        assert!(sources.windows(2).all(|pair| pair[0].name < pair[1].name));
        for source in &sources {
            let text = std::fs::read_to_string(&source.path).unwrap();
            let lines = text.lines().count();
            let small = head_line(&text, "feature").is_some();
            assert!(small || lines >= 200, "{}: only {lines} lines", source.name);
        }
    }

    #[test]
    fn a_program_without_a_head_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("a.cu"),
            "// about: a\n// build: arch=90 rdc\n",
        )
        .unwrap();
        let source = &read_sources(folder.path()).unwrap()[0];
        assert_eq!((source.name.as_str(), source.about.as_str()), ("a", "a"));
        let (job, case) = source.case(Linkage::Static, Path::new("/out"));
        assert_eq!(job.output, Path::new("/out/program_a"));
        assert_eq!(job.flags, ["-cudart=static", "-arch=sm_90", "-rdc=true"]);
        assert!(case.bad.is_none());
        std::fs::write(folder.path().join("b.cu"), "int main() {}\n").unwrap();
        assert!(read_sources(folder.path()).is_err());
    }
}
