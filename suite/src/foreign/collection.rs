//! What a checked-out collection holds: its programs, how each is built, and
//! how the collection itself runs it.
//!
//! The layout is found out by what lies in the folder. What is said of a
//! program stands in the collection's own Makefile, CMakeLists.txt or script;
//! `SMALL` holds what cannot be found there.

use super::makefile::Makefile;
use super::{commands, sizes};
use crate::case::Api;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// One program of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name: that of its folder; of an OpenCL program, which often has one
    /// of the same name in another collection, with the collection's.
    pub name: String,
    /// What it is written against.
    #[serde(default)]
    pub api: Api,
    /// Its folder below the collection's.
    pub folder: PathBuf,
    /// Sources, from its folder; none where the collection's own build has left
    /// a program, which then has the name of its folder's last part.
    pub sources: Vec<String>,
    /// Flags for the compiler.
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
    /// Folders of headers for every program, relative to the collection.
    includes: &'static [&'static str],
    /// What its programs are written against.
    api: Api,
    /// Macros that make programs without arguments small.
    macros: &'static [&'static str],
    /// Arguments where the collection gives none.
    arguments: &'static [&'static str],
}

/// A layout without anything special.
const PLAIN: Layout = Layout {
    folders: "",
    suffix: "",
    includes: &[],
    api: Api::Cuda,
    macros: &[],
    arguments: &[],
};

/// The layouts that are known, in the order in which they are tried.
const LAYOUTS: &[Layout] = &[
    // HeCBench.
    Layout {
        folders: "src/*",
        suffix: "-cuda",
        ..PLAIN
    },
    // CUDA samples.
    Layout {
        folders: "Samples/*/*",
        includes: &["Common"],
        ..PLAIN
    },
    // Rodinia.
    Layout {
        folders: "cuda/*",
        includes: &["common"],
        ..PLAIN
    },
    // PolyBench for GPUs, in its two depths.
    Layout {
        folders: "CUDA/*",
        includes: &["common", "CUDA/common", "CUDA/utilities"],
        ..PLAIN
    },
    Layout {
        folders: "CUDA/*/*",
        includes: &["common", "CUDA/common", "CUDA/utilities"],
        ..PLAIN
    },
    Layout {
        folders: "CUDA/*/*/*",
        includes: &["common", "CUDA/common", "CUDA/utilities"],
        ..PLAIN
    },
];

/// The same for OpenCL. A collection may have several, and all count.
const OPENCL_LAYOUTS: &[Layout] = &[
    // Rodinia.
    Layout {
        folders: "opencl/*",
        api: Api::OpenCl,
        ..PLAIN
    },
    // PolyBench for GPUs, in its three depths.
    Layout {
        folders: "OpenCL/*",
        ..POLYBENCH
    },
    Layout {
        folders: "OpenCL/*/*",
        ..POLYBENCH
    },
    Layout {
        folders: "OpenCL/*/*/*",
        ..POLYBENCH
    },
    // Chai, whose versions are distinguished by how memory is shared.
    Layout {
        folders: "OpenCL-D/*",
        api: Api::OpenCl,
        ..PLAIN
    },
    Layout {
        folders: "OpenCL-U/*",
        api: Api::OpenCl,
        ..PLAIN
    },
    // Exercises with solutions, each in C and in C++.
    Layout {
        folders: "Solutions/*/C",
        includes: &["Solutions/C_common"],
        api: Api::OpenCl,
        ..PLAIN
    },
    Layout {
        folders: "Solutions/*/Cpp",
        includes: &["Solutions/Cpp_common"],
        api: Api::OpenCl,
        ..PLAIN
    },
    // The samples of a vendor's kit, which verify their results if an option
    // says so.
    Layout {
        folders: "cl/*",
        ..KIT
    },
    Layout {
        folders: "cpp_cl/*",
        ..KIT
    },
    // A book's, by chapter.
    Layout {
        folders: "src/Chapter_*/*",
        includes: &["khronos"],
        api: Api::OpenCl,
        ..PLAIN
    },
    // SHOC, as its own build leaves it.
    Layout {
        folders: "bin/Serial/OpenCL/*",
        api: Api::OpenCl,
        arguments: &["-s", "1", "-n", "3"],
        ..PLAIN
    },
];

const POLYBENCH: Layout = Layout {
    includes: &["common", "OpenCL/utilities"],
    api: Api::OpenCl,
    macros: &["-DSMALL_DATASET"],
    ..PLAIN
};

const KIT: Layout = Layout {
    includes: &["include/SDKUtil"],
    api: Api::OpenCl,
    arguments: &["-q", "-e"],
    ..PLAIN
};

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
const SAMPLE_ARGUMENTS: &str = "test_args.json";

/// Programs, as a packed collection lists them.
pub(super) const PROGRAMS: &str = "ringfence-programs.json";

/// Programs of a collection that are written against `api`, by name.
///
/// # Errors
///
/// The folder cannot be read, or no layout fits.
pub fn read(root: &Path, api: Api) -> Result<Vec<Program>> {
    let mut programs = match std::fs::read_to_string(root.join(PROGRAMS)) {
        Ok(text) => serde_json::from_str::<Vec<Program>>(&text)
            .with_context(|| format!("in {PROGRAMS} of {}", root.display()))?,
        Err(_) => in_layouts(root, api)?,
    };
    programs.retain(|program| program.api == api);
    ensure!(
        !programs.is_empty(),
        "{} has no layout that is known: {}",
        root.display(),
        match api {
            Api::Cuda => "src/*-cuda, Samples/*/*, cuda/* or CUDA/*",
            Api::OpenCl => "opencl/*, OpenCL/*, or another that docs/foreign.md names",
        }
    );
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// What a collection's programs are written against: CUDA, where it has any
/// of these.
pub fn api_of(root: &Path) -> Api {
    match read(root, Api::Cuda) {
        Ok(_) => Api::Cuda,
        Err(_) => Api::OpenCl,
    }
}

fn in_layouts(root: &Path, api: Api) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    let settings = sample_arguments(root);
    let layouts = match api {
        Api::Cuda => LAYOUTS,
        Api::OpenCl => OPENCL_LAYOUTS,
    };
    for layout in layouts {
        for folder in matching(root, layout.folders)? {
            let fits = folder
                .to_str()
                .is_some_and(|name| name.ends_with(layout.suffix));
            if fits && let Some(program) = program(root, &folder, layout, &settings)? {
                programs.push(program);
            }
        }
        if api == Api::Cuda && !programs.is_empty() {
            break;
        }
    }
    Ok(programs)
}

/// Folders below `root` of this form, relative to it, and programs where the
/// form's last part is any.
fn matching(root: &Path, form: &str) -> Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for part in form.split('/') {
        let mut next = Vec::new();
        for folder in found {
            let Some((before, after)) = part.split_once('*') else {
                let folder = folder.join(part);
                if root.join(&folder).is_dir() {
                    next.push(folder);
                }
                continue;
            };
            let path = root.join(&folder);
            for entry in std::fs::read_dir(&path)
                .with_context(|| format!("failed to list {}", path.display()))?
            {
                let entry = entry?;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let fits = name.starts_with(before) && name.ends_with(after);
                if fits && (entry.path().is_dir() || is_program(&entry.path())) {
                    next.push(folder.join(entry.file_name()));
                }
            }
        }
        found = next;
    }
    found.sort();
    Ok(found)
}

/// Whether a file is a program for this machine: ELF, and may be run.
pub(super) fn is_program(path: &Path) -> bool {
    let runs = path
        .metadata()
        .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
    let mut magic = [0; 4];
    runs && std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"\x7fELF"
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
    let own = folder
        .file_name()
        .and_then(|name| name.to_str())
        .context("a folder whose name is no text")?
        .to_owned();
    if settings[&own]["skip"].as_bool() == Some(true) {
        return Ok(None);
    }
    let name = match layout.api {
        Api::Cuda => own.clone(),
        Api::OpenCl => {
            let collection = root.file_name().into_iter();
            let parts = collection.chain(folder.iter());
            let parts: Vec<_> = parts.map(|part| part.to_string_lossy()).collect();
            parts.join("-")
        }
    };
    if path.is_file() {
        return Ok(Some(Program {
            name,
            api: layout.api,
            folder: folder.to_owned(),
            sources: Vec::new(),
            flags: Vec::new(),
            arguments: owned(layout.arguments),
            repeats: None,
            small: false,
        }));
    }
    let read = |file: &str| std::fs::read(path.join(file)).ok();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let mut built = if let Some(bytes) = read("Makefile").or_else(|| read("makefile")) {
        let mut built = by_makefile(&Makefile::parse(&text(bytes)));
        // nvcc is the compiler of the others, whatever their Makefiles say.
        if layout.api == Api::OpenCl
            && let Some(recipe) = commands::of_makefile(&path)
        {
            built.sources = recipe.sources;
            built.flags = recipe.flags;
        }
        built
    } else if let Some(bytes) = read("CMakeLists.txt") {
        by_cmake(&text(bytes))
    } else {
        Built::default()
    };
    if layout.api == Api::OpenCl {
        // Words for nvcc.
        built.flags.retain(|flag| flag != "-Xcompiler");
    }
    built.sources = sources_of(&path, built.sources)?;
    // Without a kernel there is nothing for Ringfence to do.
    let has_kernels = match layout.api {
        Api::Cuda => built.sources.iter().any(|source| source.ends_with(".cu")),
        Api::OpenCl => !built.sources.is_empty() && uses_opencl(&path, &built.sources),
    };
    if !has_kernels {
        return Ok(None);
    }
    for include in layout.includes {
        let up: PathBuf = folder.iter().map(|_| "..").collect();
        built
            .flags
            .push(format!("-I{}", up.join(include).display()));
    }
    built.flags.extend(owned(layout.macros));
    if let Some(bytes) = read("run") {
        // Rodinia has a script with the command.
        let script = text(bytes).replace("\\\n", " ");
        built.arguments = command_arguments(script.lines());
        let up: PathBuf = folder.iter().map(|_| "..").collect();
        in_data(&mut built.arguments, &up.join("data"));
    }
    if built.arguments.is_empty() {
        built.arguments = owned(layout.arguments);
    }
    let settings = &settings[&own];
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
        api: layout.api,
        folder: folder.to_owned(),
        sources: built.sources,
        flags: built.flags,
        arguments: built.arguments,
        repeats,
        small: small.is_some(),
    }))
}

/// The collection's folder of data, where a script names it by a variable, and
/// none of what is left of the shell.
fn in_data(arguments: &mut Vec<String>, data: &Path) {
    for argument in arguments.iter_mut() {
        if let Some((start, rest)) = argument.split_once("${DATA_DIR}") {
            *argument = format!("{start}{}{rest}", data.display());
        }
    }
    arguments.retain(|argument| !argument.starts_with('$') && argument != "\\");
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Whether a source, or a file beside it, calls OpenCL: folders of a layout may
/// hold what programs share.
fn uses_opencl(folder: &Path, sources: &[String]) -> bool {
    let has = |path: &Path, parts: &[&[u8]]| {
        std::fs::read(path).is_ok_and(|bytes| {
            let has = |part: &&[u8]| bytes.windows(part.len()).any(|window| window == *part);
            parts.iter().any(has)
        })
    };
    let sources = || sources.iter().map(|source| folder.join(source));
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all = files.map(|entry| entry.path()).chain(sources());
    sources().any(|path| has(&path, &[b"main(", b"main ("]))
        && all.any(|path| has(&path, &[b"CL/", b"clCreate", b"opencl.h", b"cl.hpp"]))
}

#[derive(Debug, Default)]
struct Built {
    sources: Vec<String>,
    flags: Vec<String>,
    arguments: Vec<String>,
}

/// The sources of a program: those of its build file that are there, or of its
/// CMakeLists.txt, if a Makefile names objects; else all in its folder.
fn sources_of(folder: &Path, named: Vec<String>) -> Result<Vec<String>> {
    let there = |named: Vec<String>| -> Option<Vec<String>> {
        let sources: Vec<String> = named
            .into_iter()
            .filter(|source| folder.join(source).is_file())
            .collect();
        (!sources.is_empty()).then_some(sources)
    };
    let by_cmake = || {
        let bytes = std::fs::read(folder.join("CMakeLists.txt")).ok()?;
        there(by_cmake(&String::from_utf8_lossy(&bytes)).sources)
    };
    match there(named).or_else(by_cmake) {
        Some(sources) => Ok(sources),
        None => sources_in(folder),
    }
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

pub(super) fn is_source(name: &str) -> bool {
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

/// Of a compiler's flags, those that a program may need to be what it is. Which
/// device it is for, warnings and optimisation are the runner's.
pub(super) fn kept_flags(words: &[String]) -> Vec<String> {
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
            "-I" | "-D" if words.peek().is_none_or(|next| next.starts_with('-')) => {}
            "-I" | "-D" | "-include" | "--default-stream" | "-default-stream" | "-maxrregcount"
            | "--maxrregcount" => {
                kept.push(word.clone());
                kept.extend(words.next().cloned());
            }
            // Files elsewhere do not exist there.
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
    // (The second is HeCBench's own.)
    let made = call(text, "add_executable").or_else(|| call(text, "add_hecbench_benchmark"));
    if let Some(words) = made {
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
    fn a_scripts_data_is_the_collections() {
        let mut arguments = words("-i ${DATA_DIR}/a/b.txt -n 4 $@ \\");
        in_data(&mut arguments, Path::new("../../data"));
        assert_eq!(arguments, words("-i ../../data/a/b.txt -n 4"));
    }

    #[test]
    fn each_layout_gives_its_programs() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert!(read(root.path(), Api::Cuda).is_err());
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
        let samples = read(root.path(), Api::Cuda).unwrap();
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
        write("src/y-cuda/main.cu", "");
        write("src/y-cuda/part/more.cu", "");
        write("src/y-cuda/other.cu", "");
        write("src/y-cuda/Makefile", "main: main.o part/more.o\n");
        write(
            "src/y-cuda/CMakeLists.txt",
            "add_hecbench_benchmark(\n NAME y SOURCES main.cu part/more.cu CATEGORIES other\n)\n",
        );
        let programs = read(root.path(), Api::Cuda).unwrap();
        assert_eq!(programs.len(), 2);
        assert_eq!(programs[1].sources, ["main.cu", "part/more.cu"]);
        assert_eq!(programs[0].arguments, ["64", "100"]);
        assert_eq!(programs[0].repeats, Some(1));
        assert_eq!(api_of(root.path()), Api::Cuda);
    }

    #[test]
    fn opencl_programs_have_the_names_of_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("all");
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let source = "#include <CL/cl.h>\nint main() {}";
        write("opencl/a/a.cpp", source);
        write("opencl/a/run", "./a.out -n 8 \\\n  ${DATA_DIR}/x $@\n");
        // What others share, and what is no program of OpenCL's.
        write("opencl/util/timing.c", "#include <CL/cl.h>");
        write("opencl/plain/main.c", "int main() {}");
        write("OpenCL/b/two/b.c", source);
        write("src/Chapter_1/c/c.c", source);
        write("src/other/d/d.c", source);
        let built = write("bin/Serial/OpenCL/e", "\u{7f}ELF");
        write("bin/Serial/OpenCL/script", "#!/bin/sh");
        let mut rights = built.metadata().unwrap().permissions();
        rights.set_mode(0o755);
        std::fs::set_permissions(&built, rights).unwrap();
        assert_eq!(api_of(&root), Api::OpenCl);
        let programs = read(&root, Api::OpenCl).unwrap();
        let names: Vec<&str> = programs.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "all-OpenCL-b-two",
                "all-bin-Serial-OpenCL-e",
                "all-opencl-a",
                "all-src-Chapter_1-c"
            ]
        );
        assert!(programs[0].flags.contains(&"-DSMALL_DATASET".to_owned()));
        assert!(programs[1].sources.is_empty() && programs[1].arguments[0] == "-s");
        assert_eq!(programs[2].arguments, words("-n 8 ../../data/x"));
        // As a packed collection lists them.
        std::fs::write(
            root.join(PROGRAMS),
            serde_json::to_string(&programs[2..3]).unwrap(),
        )
        .unwrap();
        assert_eq!(read(&root, Api::OpenCl).unwrap(), &programs[2..3]);
    }
}
