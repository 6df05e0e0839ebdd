//! Copies the sources of those programs that need nothing but a compiler, so
//! that they can be carried to a machine that has a GPU. What their build files
//! specify is copied with them: neither `make` nor the rest of the collection
//! is needed there.

use super::collection::{self, Program};
use super::{Options, build, inputs};
use anyhow::{Context, Result};
use std::path::Path;

/// Bytes of all programs, at most.
const LIMIT: u64 = 24 << 20;
/// Bytes of one program, at most.
const LARGEST: u64 = 1 << 20;

/// What was packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Programs.
    pub programs: usize,
    /// Bytes of their files.
    pub bytes: u64,
}

/// Copies to `to`, which is a collection of the same layout then.
///
/// # Errors
///
/// The collection cannot be read, or files cannot be written.
pub fn pack(options: &Options, to: &Path) -> Result<Packed> {
    let root = &options.folder;
    let mut packed = Packed::default();
    let scratch = to.join("one");
    let (mut programs, mut kept) = (Vec::new(), Vec::new());
    for program in super::selected(options)? {
        if is_self_contained(root, &program) {
            programs.push(program);
        }
    }
    for program in programs {
        // With what it refers to.
        build::copy_program(root, &program, &scratch)?;
        let bytes = size(&scratch)?;
        if bytes <= LARGEST && packed.bytes + bytes <= LIMIT {
            build::copy_program(root, &program, to)?;
            packed.programs += 1;
            packed.bytes += bytes;
            kept.push(program);
        }
        std::fs::remove_dir_all(&scratch)
            .with_context(|| format!("failed to remove {}", scratch.display()))?;
    }
    let list = to.join(collection::PROGRAMS);
    std::fs::create_dir_all(to).with_context(|| format!("failed to make {}", to.display()))?;
    std::fs::write(&list, serde_json::to_string_pretty(&kept)?)
        .with_context(|| format!("failed to write {}", list.display()))?;
    Ok(packed)
}

/// Whether a program links to no third-party library, and the files that its
/// arguments name exist, unless it writes them.
fn is_self_contained(root: &Path, program: &Program) -> bool {
    let known = [
        "-lm",
        "-lpthread",
        "-lcudart",
        "-lcuda",
        "-lgomp",
        "-ldl",
        "-lrt",
        "-lstdc++",
        "-lOpenCL",
    ];
    let libraries = program.flags.iter().filter(|flag| flag.starts_with("-l"));
    let folder = root.join(&program.folder);
    libraries
        .into_iter()
        .all(|library| known.contains(&library.as_str()))
        && !program.sources.is_empty()
        && program.arguments.iter().all(|argument| {
            let value = argument.rsplit('=').next().unwrap_or(argument);
            let is_path =
                value.parse::<f64>().is_err() && (value.contains('/') || value.contains('.'));
            !is_path
                || folder.join(value).exists()
                || inputs::is_known(program, value)
                || is_output(value)
        })
}

/// Whether the name is one of a file that a program writes, in its own folder.
fn is_output(path: &str) -> bool {
    !path.contains('/') && (path.starts_with("output") || path.ends_with(".out"))
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?
    {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => size(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::is_self_contained;
    use crate::case::Api;
    use crate::foreign::collection::Program;
    use std::path::Path;

    #[test]
    fn programs_that_need_more_stay() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("in.txt"), "").unwrap();
        let fits = |flags: &[&str], arguments: &[&str]| {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let program = Program {
                name: "p".into(),
                folder: Path::new("").into(),
                api: Api::Cuda,
                sources: vec!["p.cu".into()],
                flags: words(flags),
                arguments: words(arguments),
                repeats: None,
                small: false,
            };
            is_self_contained(folder.path(), &program)
        };
        assert!(fits(&["-lm", "-DX"], &["10", "0.5", "in.txt", "-n=3"]));
        assert!(!fits(&["-lcublas"], &[]));
        assert!(fits(&[], &["output.txt", "512.out"]), "it writes them");
        assert!(!fits(&[], &["gone.txt"]));
        assert!(!fits(&[], &["../gone.out"]));
        assert!(!fits(&[], &["--in=../data/gone"]));
    }
}
