//! The declarations at the head of a case's source, and the manifest of built
//! cases.
//!
//! A case is one `.cu` file whose head holds comment lines:
//!
//! ```text
//! // bug: one line for people
//! // category: ID                      (optional; else the folder's name)
//! // build: cudart=shared arch=90 rdc machine-code flags=-G parts/other.cu   (optional)
//! // run: leak-check=full              (optional: settings of Ringfence)
//! // notes: canaries-by-device         (optional: what the summary must say)
//! // annotated                         (optional)
//! // expect: rule=ID function=PART [size=BYTES] [live]
//! // expect: rule=ID call=PART [size=BYTES]
//! // expect: rule=ID kernel=NAME [argument=NAME] [at=BYTES] [size=BYTES] [while=NAME]
//! // expect: rule=ID leak [size=BYTES]
//! // expect: rule=kernel-failed kernel=NAME [error=NUMBER]
//! // also: …                           (optional: as `expect`, in both twins)
//! // premise: one line for people      (optional)
//! ```
//!
//! and whose faulty lines end in `// BUG`: its own, or those of a part that it
//! includes as `#include "FOLDER/parts/FILE.h"` because another case is the
//! same but for what it defines before. Each `expect` line must be met by a
//! finding, and each finding must meet one: `function` is part of the mangled
//! name of the device function that holds the access, `call` part of the name
//! of the host function, `kernel` and `argument` name a kernel that was seen
//! only after it had ended (an argument of CUDA by its number, from 0), and
//! `leak` expects the allocation itself. `live` says that the allocation must be
//! named as one that had not been freed. `while` names a kernel that must have
//! been running when it was seen; of those that had been launched then,
//! `kernel` may be any.
//!
//! In the folder `global` one source makes two programs, with and without
//! `-DBAD`. Everywhere else it makes one, whose bad twin is started with the
//! argument `bad`: half to compile, and nothing the compiler can know.
//!
//! `kernel` names one of the kernels that could have failed when the device
//! stopped one, and `error` the number of the error. `size`, `at` and `live` are
//! asked for only where the device reports the address that it could not access. What stands under `also`
//! belongs to both twins: kernels whose failure is part of what is tested.
//!
//! A case with a `premise` needs something of the device that it finds out
//! itself: it is run without Ringfence first, and where it then ends with 77
//! and the line `not runnable: REASON` on stderr, neither twin is judged.
//!
//! An `annotated` case has a bug inside what is one allocation to anyone but
//! the program: it must be missed as it is, and found when the program says
//! where its parts are (`ringfence.h`), which it does when started with the
//! argument `annotated`.
//!
//! `expected-missing.txt` beside the groups names the programs that are not
//! judged right yet, each with its reason. They are run, counted and shown;
//! one that is judged right after all fails until it leaves the list. Such a list
//! excuses no false alarm, but under one protection alone (`gpu:pages`), where the
//! device itself stops what works natively.

use anyhow::{Context, Result, bail, ensure};
use model::Note;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The group whose twins are distinguished by `-DBAD`.
const COMPILED_TWINS: &str = "global";

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
    /// Runtime library that the case needs.
    pub cudart: Option<Cudart>,
    /// `sm_` number; nvcc's default otherwise.
    pub arch: Option<u32>,
    /// Relocatable device code.
    pub rdc: bool,
    /// Machine code for the `sm_` number, and no PTX.
    pub machine_code: bool,
    /// Further flags of the compiler.
    pub flags: Vec<String>,
    /// Further sources, relative to the case's folder.
    pub sources: Vec<PathBuf>,
}

/// What must be named as the culprit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Culprit {
    /// Device code: part of the mangled name of the function.
    Function(String),
    /// A host call: part of the driver function's name.
    Call(String),
    /// A kernel whose write was detected only after it had ended, and its
    /// argument's name; none for memory that no argument names.
    Kernel {
        /// Name of the kernel.
        name: String,
        /// Name of the argument.
        argument: Option<String>,
    },
    /// None: memory that was never freed.
    Leak,
}

/// A finding that the bad twin must give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// Id of the rule.
    pub rule: String,
    /// What does it.
    pub culprit: Culprit,
    /// Bytes of the allocation that the pointer came from, where fixed.
    pub size: Option<u64>,
    /// Bytes from the buffer to the nearest byte, where fixed: from its end
    /// (0: the first byte past it), or negative, up to its start.
    #[serde(default)]
    pub at: Option<i64>,
    /// A kernel that must not have ended when it was found.
    #[serde(default)]
    pub running: Option<String>,
    /// The allocation had not been freed.
    #[serde(default)]
    pub live: bool,
    /// Number of the error of a kernel that failed, where fixed.
    #[serde(default)]
    pub error: Option<u32>,
    /// Places that a finding may name: file name and line.
    pub places: Vec<(String, u32)>,
}

/// A case as its source declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// File name without extension, after the folder's name but for `global`.
    pub name: String,
    /// The folder it lies in.
    pub group: String,
    /// Row of the tables that it counts for.
    pub category: String,
    /// The file.
    pub path: PathBuf,
    /// The bug in one line.
    pub bug: String,
    /// How it is compiled.
    pub build: Build,
    /// Settings of Ringfence, `key=value`.
    pub options: Vec<String>,
    /// What the summary must say beside kernels.
    pub notes: Vec<Note>,
    /// Whether the bug is visible only after an annotation.
    pub annotated: bool,
    /// What its bad twin must be judged as.
    pub expect: Vec<Expectation>,
    /// What both twins must give.
    pub also: Vec<Expectation>,
    /// Whether it finds out itself if it can run here.
    pub premise: bool,
}

/// Canaries are random, and a write of the byte that one holds is no damage:
/// once in 253 runs a case's finding would begin a byte later than it says. (Which
/// buffer gets which canary depends on the order in which they are made: a case
/// whose threads make them has a pattern of its own.)
const SEED: &str = "seed=1";

impl Source {
    /// The settings that its programs are run with.
    pub fn settings(&self) -> Vec<String> {
        let own = self.options.iter().cloned();
        std::iter::once(SEED.to_owned()).chain(own).collect()
    }

    /// Whether each twin is a program of its own.
    pub fn compiled_twins(&self) -> bool {
        self.group == COMPILED_TWINS
    }
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
    pub expect: Vec<Expectation>,
    /// The same bug with the program's annotations on. Then the twin itself
    /// must be missed.
    #[serde(default)]
    pub annotated: Option<Program>,
}

/// A built case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Name, unique in the manifest.
    pub name: String,
    /// The folder of its source.
    pub group: String,
    /// Row of the tables that it counts for.
    pub category: String,
    /// The bug in one line.
    pub about: String,
    /// Settings of Ringfence, `key=value`.
    #[serde(default)]
    pub options: Vec<String>,
    /// What the summary must say beside kernels.
    #[serde(default)]
    pub notes: Vec<Note>,
    /// Runtime library that its programs are linked with.
    pub cudart: Cudart,
    /// The twin without the bug.
    pub good: Program,
    /// The twin with it; none for programs that are only ever right.
    pub bad: Option<Bad>,
    /// Findings that the good twin must give, and no other.
    #[serde(default)]
    pub also: Vec<Expectation>,
    /// Whether it is run without Ringfence first, to find out if it can run.
    #[serde(default)]
    pub premise: bool,
}

/// What the programs of a folder are written against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// CUDA, which only Ringfence gives a machine without a GPU.
    #[default]
    Cuda,
    /// OpenCL, on the machine's own platform.
    OpenCl,
}

/// What lies in a folder of built cases, as `cases.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Commit that the sources are of; empty if unknown.
    pub commit: String,
    /// What the programs are written against.
    #[serde(default)]
    pub api: Api,
    /// Folder of CUDA's shared libraries: absolute, or relative to the manifest.
    pub libraries: PathBuf,
    /// The cases, by name.
    pub cases: Vec<Case>,
    /// Programs that are known to be judged wrong.
    pub missing: Vec<crate::missing::Missing>,
}

impl Manifest {
    /// File name of a manifest in its folder.
    pub const FILE: &str = "cases.json";

    /// Reads the manifest of `folder`.
    ///
    /// # Errors
    ///
    /// It does not exist, or is not a manifest.
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

/// Reads the cases of all groups: the folders in `folder`, but for `include`.
///
/// # Errors
///
/// A folder cannot be read, a case's head is wrong, or two have one name.
pub fn read_sources(folder: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for group in entries(folder)? {
        if group.is_dir() && !group.ends_with("include") {
            sources.extend(read_sources_of(&group, "cu")?);
        }
    }
    ensure!(!sources.is_empty(), "no cases in {}", folder.display());
    let mut names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("two cases are called {}", twice[0]);
    }
    Ok(sources)
}

/// Reads the cases of one group: the files of one extension in its folder.
///
/// # Errors
///
/// The folder cannot be read, or a case's head is wrong.
pub fn read_sources_of(group: &Path, extension: &str) -> Result<Vec<Source>> {
    files(group, extension)?
        .iter()
        .map(|path| read_source(path).with_context(|| format!("in the case {}", path.display())))
        .collect()
}

/// The CUDA sources of a folder, by name.
pub(crate) fn cu_files(folder: &Path) -> Result<Vec<PathBuf>> {
    files(folder, "cu")
}

fn files(folder: &Path, wanted: &str) -> Result<Vec<PathBuf>> {
    let mut files = entries(folder)?;
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == wanted)
    });
    Ok(files)
}

/// What the comment line `// KEY: ` of a source's head says.
pub(crate) fn head_line<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    head_lines(text, key).first().copied()
}

/// What all comment lines `// KEY: ` of a source's head say.
fn head_lines<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    head(text)
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
        .collect()
}

/// The comment lines at the start of a source.
fn head(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map_while(|line| line.strip_prefix("// "))
}

/// The parts that a source includes, relative to its folder.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let included = text
        .lines()
        .filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
    included.filter(|path| path.contains("parts/"))
}

/// What lies in a folder, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut entries = std::fs::read_dir(folder)
        .and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.path()))
                .collect::<Result<Vec<_>, _>>()
        })
        .with_context(|| format!("failed to list {}", folder.display()))?;
    entries.sort();
    Ok(entries)
}

fn read_source(path: &Path) -> Result<Source> {
    let text = std::fs::read_to_string(path)?;
    let name = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .context("its name is not text")?;
    let one = |key: &str| match head_lines(&text, key)[..] {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        _ => bail!("its head has several `// {key}: ` lines"),
    };
    let bug = one("bug")?.context("its head has no `// bug: ` line")?;
    let build = read_build(one("build")?.unwrap_or(""))?;
    let folder = path.parent().context("it has no folder")?;
    let group = folder
        .file_name()
        .and_then(|name| name.to_str())
        .context("its folder's name is not text")?;
    let mut expect = head_lines(&text, "expect")
        .into_iter()
        .map(read_expectation)
        .collect::<Result<Vec<_>>>()?;
    ensure!(!expect.is_empty(), "its head has no `// expect: ` line");
    let mut also = head_lines(&text, "also")
        .into_iter()
        .map(read_expectation)
        .collect::<Result<Vec<_>>>()?;
    let mut places = Vec::new();
    let others = build.sources.iter().map(|other| folder.join(other));
    let others = others.chain(parts(&text).map(|part| folder.join(part)));
    for file in std::iter::once(path.to_owned()).chain(others) {
        places.extend(marked_lines(&file)?);
    }
    ensure!(
        !places.is_empty(),
        "no line is marked `{MARK}`, so no finding could be right"
    );
    for one in expect.iter_mut().chain(&mut also) {
        one.places.clone_from(&places);
    }
    expect.extend(also.iter().cloned());
    let name = if group == COMPILED_TWINS {
        name.to_owned()
    } else {
        format!("{group}_{name}")
    };
    Ok(Source {
        name,
        group: group.to_owned(),
        category: one("category")?.unwrap_or(group).to_owned(),
        path: path.to_owned(),
        bug: bug.to_owned(),
        build,
        options: one("run")?
            .unwrap_or("")
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        notes: read_notes(one("notes")?.unwrap_or(""))?,
        annotated: head(&text).any(|line| line == "annotated"),
        expect,
        also,
        premise: one("premise")?.is_some(),
    })
}

/// Notes by the names that reports have for them.
fn read_notes(text: &str) -> Result<Vec<Note>> {
    text.split_whitespace()
        .map(|word| {
            serde_json::from_value(word.into())
                .with_context(|| format!("no summary can say {word}"))
        })
        .collect()
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
            Some(("flags", flags)) => build.flags = flags.split(',').map(str::to_owned).collect(),
            None if word == "rdc" => build.rdc = true,
            None if word == "machine-code" => build.machine_code = true,
            None if word.ends_with(".cu") => build.sources.push(word.into()),
            _ => bail!("`{word}` says nothing about a build"),
        }
    }
    Ok(build)
}

fn read_expectation(text: &str) -> Result<Expectation> {
    let (mut rule, mut culprit, mut size, mut at, mut running) = (None, None, None, None, None);
    let (mut named, mut error, mut live) = (None, None, false);
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("rule", id)) => rule = Some(id.to_owned()),
            Some(("function", part)) => culprit = Some(Culprit::Function(part.to_owned())),
            Some(("call", part)) => culprit = Some(Culprit::Call(part.to_owned())),
            None if word == "leak" => culprit = Some(Culprit::Leak),
            None if word == "live" => live = true,
            Some(("kernel", name)) => {
                culprit = Some(Culprit::Kernel {
                    name: name.to_owned(),
                    argument: None,
                });
            }
            Some(("while", name)) => running = Some(name.to_owned()),
            Some(("argument", name)) => named = Some(name.to_owned()),
            Some(("error", number)) => error = Some(number.parse().context("error is a number")?),
            Some(("at", bytes)) => at = Some(bytes.parse().context("at is in bytes")?),
            Some(("size", bytes)) => size = Some(bytes.parse().context("size is in bytes")?),
            _ => bail!("`{word}` is nothing to expect"),
        }
    }
    match (&mut culprit, named) {
        (_, None) => {}
        (Some(Culprit::Kernel { argument, .. }), named) => *argument = named,
        _ => bail!("only a kernel has an argument"),
    }
    Ok(Expectation {
        rule: rule.context("it expects no rule")?,
        culprit: culprit.context("it expects no function, kernel, call or leak")?,
        size,
        at,
        running,
        live,
        error,
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
            "// bug: it overruns\n// category: c\n// build: arch=90 cudart=shared rdc flags=-G,-O1\n\
             // run: leak-check=full a=b\n// annotated\n\
             // expect: rule=r function=f size=12\n// expect: rule=s call=g\n\
             // expect: rule=t leak\nint x;\nx = 1;  // BUG\n",
        )
        .unwrap();
        assert_eq!(source.bug, "it overruns");
        assert_eq!(source.category, "c");
        assert_eq!(source.options, ["leak-check=full", "a=b"]);
        assert!(source.annotated);
        assert_eq!(
            source.build,
            Build {
                cudart: Some(Cudart::Shared),
                arch: Some(90),
                rdc: true,
                flags: vec!["-G".into(), "-O1".into()],
                sources: vec![],
                machine_code: false,
            }
        );
        let expect = |rule: &str, culprit, size| Expectation {
            rule: rule.into(),
            culprit,
            size,
            at: None,
            running: None,
            live: false,
            error: None,
            places: vec![("sample.cu".into(), 10)],
        };
        assert_eq!(
            source.expect,
            [
                expect("r", Culprit::Function("f".into()), Some(12)),
                expect("s", Culprit::Call("g".into()), None),
                expect("t", Culprit::Leak, None),
            ]
        );
        let plain = parse("// bug: b\n// expect: rule=r leak\nx  // BUG\n").unwrap();
        assert_eq!(plain.category, plain.group);
        assert!(!plain.annotated);
    }

    #[test]
    fn a_case_that_cannot_be_judged_is_refused() {
        let good = "// bug: b\n// expect: rule=r function=f\nx();  // BUG\n";
        parse(good).unwrap();
        for (from, to) in [
            ("// bug: b\n", ""),
            ("// bug: b\n", "// bug: b\n// bug: c\n"),
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

    fn committed() -> Vec<Source> {
        read_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")).unwrap()
    }

    #[test]
    fn the_committed_cases_are_well_formed() {
        let sources = committed();
        let rules: Vec<&str> = model::Rule::ALL.iter().map(|rule| rule.id()).collect();
        for source in &sources {
            for expect in &source.expect {
                let rule = expect.rule.as_str();
                assert!(rules.contains(&rule), "{}: {rule}", source.name);
            }
            let mut text = std::fs::read_to_string(&source.path).unwrap();
            for part in parts(&text.clone()) {
                let path = source.path.with_file_name(part);
                text += &std::fs::read_to_string(path).unwrap();
            }
            let twins = if source.compiled_twins() {
                "bad"
            } else {
                "int main(int argc"
            };
            assert!(
                text.contains(twins),
                "{}: both twins are the same program",
                source.name
            );
        }
        let others = Path::new(env!("CARGO_MANIFEST_DIR")).join("opencl");
        let others = read_sources_of(&others, "c").unwrap();
        for rule in rules {
            assert!(
                sources
                    .iter()
                    .chain(&others)
                    .flat_map(|source| &source.expect)
                    .any(|expect| expect.rule == rule),
                "no case for {rule}"
            );
        }
    }

    /// Table 2 of the cuCatch paper (PLDI 2023): how many of each.
    #[test]
    fn the_categories_of_the_paper_are_complete() {
        let sources = committed();
        for (category, count) in [
            ("global-oob", 8),
            ("local-oob", 16),
            ("shared-oob", 12),
            ("intra-allocation-oob", 8),
            ("use-after-free", 4),
            ("use-after-scope", 4),
            ("invalid-free", 2),
            ("double-free", 2),
        ] {
            let found = sources
                .iter()
                .filter(|source| source.group == "cucatch" && source.category == category);
            assert_eq!(found.count(), count, "{category}");
        }
        let rest = sources
            .iter()
            .filter(|source| !["cucatch", "global"].contains(&source.group.as_str()));
        assert!(rest.count() >= 56);
    }

    #[test]
    fn what_is_expected_to_be_missing_exists() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
        let names: Vec<String> = committed()
            .iter()
            .flat_map(|source| {
                ["good", "bad", "annotated"].map(|twin| format!("{twin}_{}", source.name))
            })
            .collect();
        for missing in crate::missing::read(&folder).unwrap() {
            assert!(names.contains(&missing.program), "{}", missing.program);
        }
    }
}
