//! What a checked-out collection holds: its programs, how each is built, and
//! how the collection itself runs it.
//!
//! The layout is found out by what lies in the folder. What is said of a
//! program stands in the collection's own Makefile, CMakeLists.txt or script;
//! `SMALL` holds what cannot be found there.

use super::makefile::Makefile;
use super::sizes;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One program of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name: that of its folder.
    pub name: String,
    /// Its folder below the collection's.
    pub folder: PathBuf,
    /// Sources, from its folder.
    pub sources: Vec<String>,
    /// Flags for nvcc.
    pub flags: Vec<String>,
    /// Arguments as the collection runs it.
    pub arguments: Vec<String>,
    /// Which of them says how often it repeats its work.
    pub repeats: Option<usize>,
    /// Whether the arguments are those of `SMALL`, and stay as they are.
    pub small: bool,
}

/// How collections are laid out: a folder in which each program has one, and
/// what each of those must hold.
struct Layout {
    /// Folders of programs, from the collection's; `*` is any one folder.
    folders: &'static str,
    /// What the name of a program's folder ends in.
    suffix: &'static str,
    /// Folders of headers that every program sees, from the collection's.
    includes: &'static [&'static str],
}

/// The layouts that are known, in the order in which they are tried.
const LAYOUTS: &[Layout] = &[
    // HeCBench.
    Layout {
        folders: "src/*",
        suffix: "-cuda",
        includes: &[],
    },
    // CUDA samples.
    Layout {
        folders: "Samples/*/*",
        suffix: "",
        includes: &["Common"],
    },
    // Rodinia.
    Layout {
        folders: "cuda/*",
        suffix: "",
        includes: &["common"],
    },
    // PolyBench for GPUs, in its two depths.
    Layout {
        folders: "CUDA/*",
        suffix: "",
        includes: &["common", "CUDA/common", "CUDA/utilities"],
    },
    Layout {
        folders: "CUDA/*/*",
        suffix: "",
        includes: &["common", "CUDA/common", "CUDA/utilities"],
    },
    Layout {
        folders: "CUDA/*/*/*",
        suffix: "",
        includes: &["common", "CUDA/common", "CUDA/utilities"],
    },
];

/// Programs whose arguments do not shrink by rule: name and arguments that
/// are small on every device.
const SMALL: &[(&str, &str)] = &[
    ("bitonic-sort-cuda", "10 2"),
    ("gaussian-cuda", "-q -t -s 64"),
    ("wsm5-cuda", "2"),
    ("xsbench-cuda", "-s small -m event -r 1 -l 1000"),
    ("rsbench-cuda", "-s small -m event -l 1000"),
];

/// Where the CUDA samples say how they are run.
pub(super) const SAMPLE_ARGUMENTS: &str = "test_args.json";

/// Programs of a collection, by name.
///
/// # Errors
///
/// The folder cannot be read, or no layout fits.
pub fn read(root: &Path) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    let settings = sample_arguments(root);
    for layout in LAYOUTS {
        for folder in matching(root, layout.folders)? {
            let fits = folder
                .to_str()
                .is_some_and(|name| name.ends_with(layout.suffix));
            if fits && let Some(program) = program(root, &folder, layout, &settings)? {
                programs.push(program);
            }
        }
        if !programs.is_empty() {
            break;
        }
    }
    ensure!(
        !programs.is_empty(),
        "{} has no layout that is known: src/*-cuda, Samples/*/*, cuda/* or CUDA/*",
        root.display()
    );
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Folders below `root` of this form, relative to it.
fn matching(root: &Path, form: &str) -> Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for part in form.split('/') {
        let mut next = Vec::new();
        for folder in found {
            if part != "*" {
                let folder = folder.join(part);
                if root.join(&folder).is_dir() {
                    next.push(folder);
                }
                continue;
            }
            let path = root.join(&folder);
            for entry in std::fs::read_dir(&path)
                .with_context(|| format!("failed to list {}", path.display()))?
            {
                let entry = entry?;
                if entry.path().is_dir() {
                    next.push(folder.join(entry.file_name()));
                }
            }
        }
        found = next;
    }
    found.sort();
    Ok(found)
}

/// Arguments of the CUDA samples; null where there is none.
fn sample_arguments(root: &Path) -> serde_json::Value {
    std::fs::read_to_string(root.join(SAMPLE_ARGUMENTS))
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

fn program(
    root: &Path,
    folder: &Path,
    layout: &Layout,
    settings: &serde_json::Value,
) -> Result<Option<Program>> {
    let path = root.join(folder);
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .context("a folder whose name is no text")?
        .to_owned();
    if settings[&name]["skip"].as_bool() == Some(true) {
        return Ok(None);
    }
    let read = |file: &str| std::fs::read(path.join(file)).ok();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let mut built = if let Some(bytes) = read("Makefile").or_else(|| read("makefile")) {
        by_makefile(&Makefile::parse(&text(bytes)))
    } else if let Some(bytes) = read("CMakeLists.txt") {
        by_cmake(&text(bytes))
    } else {
        Built::default()
    };
    built.sources.retain(|source| path.join(source).is_file());
    if built.sources.is_empty() {
        built.sources = sources_in(&path)?;
    }
    // Without a kernel there is nothing for Ringfence to do.
    if !built.sources.iter().any(|source| source.ends_with(".cu")) {
        return Ok(None);
    }
    for include in layout.includes {
        let up: PathBuf = folder.iter().map(|_| "..").collect();
        built
            .flags
            .push(format!("-I{}", up.join(include).display()));
    }
    if let Some(bytes) = read("run") {
        // Rodinia has a script with the command.
        built.arguments = command_arguments(text(bytes).lines());
    }
    let settings = &settings[&name];
    let settings = settings["runs"].get(0).unwrap_or(settings);
    if let Some(arguments) = settings["args"].as_array() {
        let words = arguments.iter().filter_map(|word| word.as_str());
        built.arguments = words.map(str::to_owned).collect();
    }
    let small = SMALL.iter().find(|(known, _)| *known == name);
    if let Some((_, arguments)) = small {
        built.arguments = arguments.split_whitespace().map(str::to_owned).collect();
    }
    let repeats = built.sources.iter().find_map(|source| {
        let bytes = std::fs::read(path.join(source)).ok()?;
        sizes::repeats(&String::from_utf8_lossy(&bytes), &built.arguments)
    });
    Ok(Some(Program {
        name,
        folder: folder.to_owned(),
        sources: built.sources,
        flags: built.flags,
        arguments: built.arguments,
        repeats,
        small: small.is_some(),
    }))
}

#[derive(Debug, Default)]
struct Built {
    sources: Vec<String>,
    flags: Vec<String>,
    arguments: Vec<String>,
}

/// The sources of a folder, where nothing says which belong to the program.
fn sources_in(folder: &Path) -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?
    {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_source(&name) {
            names.insert(name);
        }
    }
    Ok(names.into_iter().collect())
}

fn is_source(name: &str) -> bool {
    [".cu", ".cpp", ".cc", ".c", ".cxx"]
        .iter()
        .any(|end| name.ends_with(end))
}

fn by_makefile(makefile: &Makefile) -> Built {
    let words = |names: &[&str]| -> Vec<String> {
        let values = names.iter().map(|name| makefile.variable(name));
        let values: Vec<String> = values.collect();
        values
            .iter()
            .flat_map(|value| value.split_whitespace())
            .map(str::to_owned)
            .collect()
    };
    let sources = words(&[
        "source", "SOURCE", "SOURCES", "SRC", "SRCS", "CUFILES", "CCFILES",
    ]);
    let mut flags = kept_flags(&words(&[
        "CFLAGS",
        "CXXFLAGS",
        "NVCCFLAGS",
        "NVCC_FLAGS",
        "CUFLAGS",
        "INCLUDES",
        "INCLUDE",
    ]));
    for library in words(&["LDFLAGS", "LIBS", "LDLIBS"]) {
        if library.starts_with("-l") && !flags.contains(&library) {
            flags.push(library);
        }
    }
    let commands = makefile.commands("run");
    Built {
        sources: sources.into_iter().filter(|name| is_source(name)).collect(),
        flags,
        arguments: command_arguments(commands.iter().map(String::as_str)),
    }
}

/// Of nvcc's flags, those that a program may need to be what it is. Which
/// device it is for, warnings and optimisation are the runner's.
fn kept_flags(words: &[String]) -> Vec<String> {
    let starts = [
        "-D",
        "-U",
        "-std=",
        "--std=",
        "--expt-",
        "-expt-",
        "--extended-lambda",
        "-extended-lambda",
        "-rdc=",
        "--relocatable-device-code",
        "--use_fast_math",
        "-use_fast_math",
        "--default-stream",
        "-default-stream",
        "-maxrregcount",
        "--maxrregcount",
        "-fmad",
        "--fmad",
    ];
    let mut kept = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-Xcompiler" | "--compiler-options" => {
                let inner = words.next().map(String::as_str).unwrap_or_default();
                if ["-fopenmp", "-pthread"].contains(&inner) || inner.starts_with("-D") {
                    kept.extend(["-Xcompiler".to_owned(), inner.to_owned()]);
                }
            }
            "-dc" | "--device-c" => kept.push("-rdc=true".to_owned()),
            "-fopenmp" => kept.extend(["-Xcompiler".to_owned(), "-fopenmp".to_owned()]),
            "-I" | "-include" | "--default-stream" | "-default-stream" | "-maxrregcount"
            | "--maxrregcount" => {
                kept.push(word.clone());
                kept.extend(words.next().cloned());
            }
            // What lies elsewhere is not there.
            other if other.starts_with("-I/") => {}
            other if other.starts_with("-I") => kept.push(word.clone()),
            other if starts.iter().any(|start| other.starts_with(start)) => {
                kept.push(word.clone());
            }
            _ => {}
        }
    }
    kept
}

/// The arguments of the first command that starts a program of the folder.
fn command_arguments<'a>(commands: impl Iterator<Item = &'a str>) -> Vec<String> {
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        let Some(start) = words.iter().position(|word| word.starts_with("./")) else {
            continue;
        };
        if command.trim_start().starts_with('#') {
            continue;
        }
        return words[start + 1..]
            .iter()
            .take_while(|word| !["|", ">", "&&", ";", "2>&1", "#"].contains(*word))
            .map(|word| word.trim_matches(['"', '\'']).to_owned())
            .collect();
    }
    Vec::new()
}

fn by_cmake(text: &str) -> Built {
    let mut built = Built::default();
    if let Some(words) = call(text, "add_executable") {
        built.sources = words.into_iter().filter(|word| is_source(word)).collect();
    }
    for word in call(text, "target_link_libraries").unwrap_or_default() {
        if let Some(library) = word.strip_prefix("CUDA::") {
            built.flags.push(match library {
                "cuda_driver" => "-lcuda".into(),
                "cudart" | "cudart_static" => continue,
                other => format!("-l{other}"),
            });
        }
    }
    for word in call(text, "include_directories").unwrap_or_default() {
        built.flags.push(format!("-I{word}"));
    }
    built.flags.push("-std=c++17".into());
    if text.contains("--extended-lambda") {
        built.flags.push("--extended-lambda".into());
    }
    if text.contains("cudadevrt") {
        built.flags.push("-rdc=true".into());
    }
    built
}

/// The words between the brackets of the first call of a CMake command.
fn call(text: &str, command: &str) -> Option<Vec<String>> {
    let rest = text.split_once(&format!("{command}("))?.1;
    let inside = rest.split(')').next()?;
    Some(inside.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn flags_that_change_the_program_are_kept() {
        let all = words(
            "-DMKX=4 -std=c++17 -Xcompiler -Wall -Xcompiler -fopenmp -arch=sm_60 -O3 -I./common -I/opt/mpi -dc",
        );
        assert_eq!(
            kept_flags(&all),
            words("-DMKX=4 -std=c++17 -Xcompiler -fopenmp -I./common -rdc=true")
        );
    }

    #[test]
    fn a_command_gives_its_arguments() {
        let lines = ["rm -rf out", " ./main 10 'in.txt' | tee x", "./main 20"];
        assert_eq!(command_arguments(lines.into_iter()), words("10 in.txt"));
    }

    #[test]
    fn each_layout_gives_its_programs() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert!(read(root.path()).is_err());
        write("Samples/0_a/add/add.cu", "int main() {}");
        write(
            "Samples/0_a/add/CMakeLists.txt",
            "add_executable(add add.cu gone.cu)\ntarget_link_libraries(add CUDA::cublas)\n",
        );
        write("Samples/0_a/skipped/a.cu", "");
        write(
            "test_args.json",
            r#"{"skipped": {"skip": true}, "add": {"args": ["-n=3"]}}"#,
        );
        let samples = read(root.path()).unwrap();
        assert_eq!(samples.len(), 1);
        assert_eq!(samples[0].sources, ["add.cu"]);
        assert_eq!(samples[0].arguments, ["-n=3"]);
        assert!(samples[0].flags.contains(&"-lcublas".to_owned()));
        assert!(samples[0].flags.contains(&"-I../../../Common".to_owned()));
        // The first layout that has programs counts.
        write("src/x-cuda/main.cu", "int repeat = atoi(argv[2]);");
        write(
            "src/x-cuda/Makefile",
            "source = main.cu\nrun:\n\t$(LAUNCHER) ./main 64 100\n",
        );
        write("src/x-sycl/main.cpp", "");
        let programs = read(root.path()).unwrap();
        assert_eq!(programs.len(), 1);
        assert_eq!(programs[0].arguments, ["64", "100"]);
        assert_eq!(programs[0].repeats, Some(1));
    }
}
