//! Real CUDA programs, compiled by nvcc, run on the CPU device: with the
//! static runtime, whose entry points are redirected, and with the shared one,
//! whose place the forwarding libraries take. Each prints exactly what
//! `programs/NAME.out` holds; `RINGFENCE_BLESS=1` writes those files anew.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// How a program gets its runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    Static,
    Shared,
}

/// `libringfence.so`: named by the environment, else the newest beside the tests.
fn library() -> PathBuf {
    if let Some(path) = std::env::var_os("RINGFENCE_LIBRARY") {
        return path.into();
    }
    // Set by `cargo xtask test`: the command that it built, beside the library.
    if let Some(command) = std::env::var_os("RINGFENCE_TEST_COMMAND") {
        return Path::new(&command).with_file_name("libringfence.so");
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = ["debug", "release"].map(|profile| target.join(profile).join("libringfence.so"));
    let newest = built
        .into_iter()
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max();
    match newest {
        Some((_, path)) => path,
        None => panic!(
            "no libringfence.so in {}; run `cargo xtask test`, which builds it",
            target.display()
        ),
    }
}

/// A folder that keeps what the tests build.
fn built() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Folder with the forwarding libraries.
fn forwarding() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = built().join("cudart");
        for library in cudart::forwarding::libraries() {
            library.compile(&folder).unwrap();
        }
        folder
    });
    &FOLDER
}

fn checked(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{said}");
    output
}

fn nvcc() -> Command {
    let mut libraries = OsString::from("-L");
    libraries.push(toolchain::cuda().libraries());
    let mut command = Command::new(toolchain::cuda().nvcc());
    command.arg(libraries);
    command
}

/// Compiles `sources` and links them with either runtime.
fn compile(name: &str, sources: &[&str], flags: &[&str]) -> Vec<(Runtime, PathBuf)> {
    let objects: Vec<PathBuf> = sources
        .iter()
        .map(|source| {
            let object = built().join(format!("{name}-{source}.o"));
            let path = toolchain::workspace()
                .join("crates/cudart/tests/programs")
                .join(format!("{source}.cu"));
            checked(
                nvcc()
                    .args(flags)
                    .arg("-c")
                    .arg(path)
                    .arg("-o")
                    .arg(&object),
            );
            object
        })
        .collect();
    [(Runtime::Static, "static"), (Runtime::Shared, "shared")]
        .into_iter()
        .map(|(runtime, word)| {
            let program = built().join(format!("{name}-{word}"));
            checked(
                nvcc()
                    .args(flags)
                    .args(["-cudart", word])
                    .args(&objects)
                    .arg("-o")
                    .arg(&program),
            );
            (runtime, program)
        })
        .collect()
}

fn run(program: &Path, runtime: Runtime) -> Output {
    started(program, runtime).output().unwrap()
}

/// A program on the CPU device, to be given arguments.
fn started(program: &Path, runtime: Runtime) -> Command {
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", library())
        .env("RINGFENCE_OPTIONS", "device=cpu")
        .env_remove("RINGFENCE_SETTINGS");
    if runtime == Runtime::Shared {
        command.env("LD_LIBRARY_PATH", forwarding());
    }
    command
}

/// Compiles and runs a program with both runtimes and compares what it prints.
fn prints(name: &str, sources: &[&str], flags: &[&str], status: i32) -> Vec<Output> {
    let expected = toolchain::workspace()
        .join("crates/cudart/tests/programs")
        .join(format!("{name}.out"));
    let mut outputs = Vec::new();
    for (runtime, program) in compile(name, sources, flags) {
        let output = run(&program, runtime);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        if std::env::var_os("RINGFENCE_BLESS").is_some() {
            std::fs::write(&expected, &said).unwrap();
        }
        let wanted = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(
            said, wanted,
            "{name} with the {runtime:?} runtime; on stderr:\n{errors}"
        );
        assert_eq!(
            output.status.code(),
            Some(status),
            "{name} with the {runtime:?} runtime; on stderr:\n{errors}"
        );
        outputs.push(output);
    }
    outputs
}

/// PTX only, which is what the CPU device runs anyway: saves running ptxas.
const PTX: &[&str] = &["-gencode", "arch=compute_75,code=compute_75"];

fn program(name: &str) {
    prints(name, &[name], PTX, 0);
}

#[test]
fn basics_as_nvcc_compiles_by_default() {
    prints("basics", &["basics"], &[], 0);
}

#[test]
fn symbols() {
    program("symbols");
}

#[test]
fn managed_variables() {
    program("managed");
}

#[test]
fn streams_and_events() {
    program("streams");
}

#[test]
fn graphs() {
    program("graphs");
}

#[test]
fn pools() {
    program("pools");
}

#[test]
fn what_was_said_is_kept() {
    program("kept");
}

#[test]
fn pitched_and_3d_copies() {
    program("copies");
}

#[test]
fn device_queries() {
    program("device");
}

#[test]
fn kernels_as_objects() {
    program("kernels");
}

#[test]
fn relocatable_device_code() {
    let flags = [PTX, &["-rdc=true"]].concat();
    prints("linked", &["linked_main", "linked_other"], &flags, 0);
}

/// A library with a static runtime of its own, as `nvcc -shared` makes it.
fn part(name: &str) -> PathBuf {
    let programs = toolchain::workspace().join("crates/cudart/tests/programs");
    let library = built().join(name);
    checked(
        nvcc()
            .args(PTX)
            .args(["-shared", "-Xcompiler", "-fPIC", "-Xlinker"])
            .arg(format!("-soname={name}"))
            .arg(programs.join("library_part.cu"))
            .arg("-o")
            .arg(&library),
    );
    library
}

#[test]
fn static_runtime_in_libraries_that_are_opened() {
    let programs = toolchain::workspace().join("crates/cudart/tests/programs");
    let program = built().join("library_open");
    checked(
        nvcc()
            .args(PTX)
            .arg(programs.join("library_open.cu"))
            .args(["-ldl", "-o"])
            .arg(&program),
    );
    let parts = ["libfirst.so", "libsecond.so"].map(part);
    let output = started(&program, Runtime::Static)
        .args(parts)
        .output()
        .expect("start the program");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "library: no error 12\nlibrary: no error 48\nmain: 48\nmain: no error\n",
        "{errors}"
    );
    assert_eq!(output.status.code(), Some(0), "{errors}");
}

#[test]
fn static_runtime_in_a_library() {
    let programs = toolchain::workspace().join("crates/cudart/tests/programs");
    let library = part("libpart.so");
    let program = built().join("library_main");
    let mut search = OsString::from("-rpath=");
    search.push(built());
    checked(
        nvcc()
            .args(PTX)
            .arg(programs.join("library_main.cu"))
            .arg(&library)
            .arg("-Xlinker")
            .arg(search)
            .arg("-o")
            .arg(&program),
    );
    let output = run(&program, Runtime::Static);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "main: no error 3\nlibrary: no error 12\n",
        "{errors}"
    );
    assert_eq!(output.status.code(), Some(0), "{errors}");
}

#[test]
fn per_thread_default_streams() {
    let flags = [PTX, &["--default-stream", "per-thread"]].concat();
    prints("per_thread", &["per_thread"], &flags, 0);
}

#[test]
fn calls_after_main_and_functions_that_are_missing() {
    for output in prints("ending", &["ending"], PTX, 3) {
        let errors = String::from_utf8_lossy(&output.stderr);
        let line = "ringfence: cudaImportExternalMemory is not available on the cpu device\n";
        assert!(errors.contains(line), "{errors}");
    }
}

#[test]
fn stripped_static_programs_are_told_what_to_do() {
    let (runtime, program) = compile("stripped", &["ending"], PTX).remove(0);
    assert_eq!(runtime, Runtime::Static);
    checked(Command::new("strip").arg(&program));
    let output = run(&program, runtime);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("link it with `nvcc -cudart shared`"),
        "{errors}"
    );
    assert_eq!(output.status.code(), Some(96));
    assert!(output.stdout.is_empty());
}

/// The loader finds the forwarding library, and every symbol in it.
#[test]
fn shared_programs_resolve() {
    let (runtime, program) = compile("resolve", &["ending"], PTX).remove(1);
    assert_eq!(runtime, Runtime::Shared);
    let listed = checked(
        Command::new("ldd")
            .arg("-r")
            .arg(&program)
            .env("LD_LIBRARY_PATH", forwarding()),
    );
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let line = listed
        .lines()
        .find(|line| line.contains("libcudart.so.13"))
        .unwrap_or_default();
    assert!(line.contains(&*forwarding().to_string_lossy()), "{listed}");
    assert!(!listed.contains("undefined symbol"), "{listed}");
}
