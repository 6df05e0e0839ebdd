//! What a case's source says about itself, and the manifest of built cases.
//!
//! A case is one `.cu` file whose head holds comment lines:
//!
//! ```text
//! // bug: one line for people
//! // build: cudart=shared arch=90 rdc parts/other.cu      (optional)
//! // expect: rule=ID function=PART [size=BYTES]
//! ```
//!
//! and whose faulty lines end in `// BUG`.

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Marks the lines that a finding may name.
const MARK: &str = "// BUG";

/// Which CUDA runtime library a program is linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cudart {
    /// `libcudart_static.a`: nvcc's default.
    Static,
    /// `libcudart.so`.
    Shared,
}

/// How a case is compiled, where that is its point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// Runtime library that the case asks for.
    pub cudart: Option<Cudart>,
    /// `sm_` number; nvcc's default otherwise.
    pub arch: Option<u32>,
    /// Relocatable device code.
    pub rdc: bool,
    /// Further sources, relative to the case's folder.
    pub sources: Vec<PathBuf>,
}

/// The verdict that the bad twin must get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// Id of the rule.
    pub rule: String,
    /// Part of the mangled name of the function that holds the access.
    pub function: String,
    /// Bytes of the allocation that the pointer came from, where fixed.
    pub size: Option<u64>,
    /// Places that a finding may name: file name and line.
    pub places: Vec<(String, u32)>,
}

/// A case as its source declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// File name without extension.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The bug in one line.
    pub bug: String,
    /// How it is compiled.
    pub build: Build,
    /// What its bad twin must be judged as.
    pub expect: Expectation,
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Executable, relative to the manifest.
    pub path: PathBuf,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Vec<String>,
}

/// A bad twin and its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bad {
    /// The program.
    pub program: Program,
    /// What it must be judged as.
    pub expect: Expectation,
}

/// A built case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Name, unique in the manifest.
    pub name: String,
    /// The bug in one line.
    pub about: String,
    /// Runtime library that its programs are linked with.
    pub cudart: Cudart,
    /// The twin without the bug.
    pub good: Program,
    /// The twin with it; none for programs that are only ever right.
    pub bad: Option<Bad>,
}

/// What lies in a folder of built cases, as `cases.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Commit that the sources are of; empty if unknown.
    pub commit: String,
    /// Folder of CUDA's shared libraries: absolute, or relative to the manifest.
    pub libraries: PathBuf,
    /// The cases, by name.
    pub cases: Vec<Case>,
}

impl Manifest {
    /// File name of a manifest in its folder.
    pub const FILE: &str = "cases.json";

    /// Reads the manifest of `folder`.
    ///
    /// # Errors
    ///
    /// It is not there, or is not a manifest.
    pub fn read(folder: &Path) -> Result<Manifest> {
        let path = folder.join(Self::FILE);
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "failed to read {}; `ringfence-suite build` writes it",
                path.display()
            )
        })?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a manifest", path.display()))
    }

    /// Writes the manifest into `folder`.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(Self::FILE);
        std::fs::write(&path, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| format!("failed to write {}", path.display()))
    }
}

/// Reads all cases of a folder, by name.
///
/// # Errors
///
/// The folder cannot be read, or a case's head is wrong.
pub fn read_sources(folder: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in cu_files(folder)? {
        sources
            .push(read_source(&path).with_context(|| format!("in the case {}", path.display()))?);
    }
    ensure!(!sources.is_empty(), "no cases in {}", folder.display());
    Ok(sources)
}

/// The CUDA sources of a folder, by name.
pub(crate) fn cu_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("failed to list the sources in {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cu") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// What the comment line `// KEY: ` of a source's head says.
pub(crate) fn head_line<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .take_while(|line| line.starts_with("//"))
        .find_map(|line| {
            line.strip_prefix("// ")?
                .strip_prefix(key)?
                .strip_prefix(": ")
        })
}

fn read_source(path: &Path) -> Result<Source> {
    let text = std::fs::read_to_string(path)?;
    let name = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .context("its name is not text")?;
    let head = |key: &str| head_line(&text, key);
    let bug = head("bug").context("its head has no `// bug: ` line")?;
    let build = read_build(head("build").unwrap_or(""))?;
    let mut expect =
        read_expectation(head("expect").context("its head has no `// expect: ` line")?)?;
    let folder = path.parent().context("it has no folder")?;
    let others = build.sources.iter().map(|other| folder.join(other));
    for file in std::iter::once(path.to_owned()).chain(others) {
        expect.places.extend(marked_lines(&file)?);
    }
    ensure!(
        !expect.places.is_empty(),
        "no line is marked `{MARK}`, so no finding could be right"
    );
    Ok(Source {
        name: name.to_owned(),
        path: path.to_owned(),
        bug: bug.to_owned(),
        build,
        expect,
    })
}

pub(crate) fn read_build(text: &str) -> Result<Build> {
    let mut build = Build::default();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("cudart", "shared")) => build.cudart = Some(Cudart::Shared),
            Some(("cudart", "static")) => build.cudart = Some(Cudart::Static),
            Some(("arch", number)) => {
                build.arch = Some(
                    number
                        .parse()
                        .context("arch is the number of an sm_ target")?,
                );
            }
            None if word == "rdc" => build.rdc = true,
            None if word.ends_with(".cu") => build.sources.push(word.into()),
            _ => bail!("`{word}` says nothing about a build"),
        }
    }
    Ok(build)
}

fn read_expectation(text: &str) -> Result<Expectation> {
    let (mut rule, mut function, mut size) = (None, None, None);
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("rule", id)) => rule = Some(id.to_owned()),
            Some(("function", part)) => function = Some(part.to_owned()),
            Some(("size", bytes)) => size = Some(bytes.parse().context("size is in bytes")?),
            _ => bail!("`{word}` is nothing to expect"),
        }
    }
    Ok(Expectation {
        rule: rule.context("it expects no rule")?,
        function: function.context("it expects no function")?,
        size,
        places: Vec::new(),
    })
}

fn marked_lines(path: &Path) -> Result<Vec<(String, u32)>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("failed to read {}", path.display()))?;
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .context("its name is not text")?;
    Ok((1u32..)
        .zip(text.lines())
        .filter(|(_, line)| line.trim_end().ends_with(MARK))
        .map(|(number, _)| (name.to_owned(), number))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Source> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.cu");
        std::fs::write(&path, text).unwrap();
        read_source(&path)
    }

    #[test]
    fn a_head_is_read() {
        let source = parse(
            "// bug: it overruns\n// build: arch=90 cudart=shared rdc\n\
             // expect: rule=r function=f size=12\nint x;\nx = 1;  // BUG\n",
        )
        .unwrap();
        assert_eq!(source.bug, "it overruns");
        assert_eq!(
            source.build,
            Build {
                cudart: Some(Cudart::Shared),
                arch: Some(90),
                rdc: true,
                sources: vec![]
            }
        );
        assert_eq!(
            source.expect,
            Expectation {
                rule: "r".into(),
                function: "f".into(),
                size: Some(12),
                places: vec![("sample.cu".into(), 5)]
            }
        );
    }

    #[test]
    fn a_case_that_cannot_be_judged_is_refused() {
        let good = "// bug: b\n// expect: rule=r function=f\nx();  // BUG\n";
        parse(good).unwrap();
        for (from, to) in [
            ("// bug: b\n", ""),
            ("rule=r ", ""),
            (" function=f", ""),
            ("function=f", "function=f lines=3"),
            ("  // BUG", ""),
        ] {
            let broken = good.replace(from, to);
            assert_ne!(broken, good);
            assert!(parse(&broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn the_committed_cases_are_well_formed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/global");
        let sources = read_sources(&folder).unwrap();
        assert!(sources.len() >= 24, "only {} cases", sources.len());
        let rules: Vec<&str> = model::Rule::ALL.iter().map(|rule| rule.id()).collect();
        for source in &sources {
            assert!(
                rules.contains(&source.expect.rule.as_str()),
                "{}: {}",
                source.name,
                source.expect.rule
            );
            let text = std::fs::read_to_string(&source.path).unwrap();
            assert!(
                text.contains("bad"),
                "{}: both twins are the same program",
                source.name
            );
        }
        let global = |rule: &&str| rule.starts_with("global-") || *rule == "invalid-pointer";
        for rule in rules.into_iter().filter(global) {
            assert!(
                sources.iter().any(|source| source.expect.rule == rule),
                "no case for {rule}"
            );
        }
    }
}
