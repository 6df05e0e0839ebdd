//! The library under LD_PRELOAD, in front of a driver made of a few C
//! functions: what the program sees, and what reaches the driver.

use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The library under test: cargo builds it beside the test's own executable.
fn library() -> PathBuf {
    let own = std::env::current_exe().expect("path of the test");
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("libringfence.so"))
        .find(|path| path.is_file())
        .expect("libringfence.so beside the test")
}

struct Built {
    /// Deleted when the process ends would be too early for some tests, so
    /// it stays until the system cleans its temporary folder.
    folder: PathBuf,
}

static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("temporary folder").keep();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("folder of crates");
    let compile = |arguments: &[&str], source: &str, output: &str| {
        let done = Command::new("cc")
            .args(arguments)
            .arg(crates.join(source))
            .arg("-o")
            .arg(folder.join(output))
            .status()
            .expect("start cc");
        assert!(done.success(), "cc {source}");
    };
    compile(
        &[
            "-shared",
            "-fPIC",
            "-Wl,-soname,libcuda.so.1",
            "-Wl,-Bsymbolic",
        ],
        "driver/tests/c/driver.c",
        "libcuda.so.1",
    );
    compile(&["-pthread", "-ldl"], "shim/tests/c/program.c", "program");
    Built { folder }
});

/// The program with the library preloaded; `settings` are JSON members. Without
/// canaries: the stub of a driver runs no kernel that could verify them.
fn program(what: &str, settings: &str) -> Command {
    let driver = BUILT.folder.join("libcuda.so.1");
    let mut command = Command::new(BUILT.folder.join("program"));
    command
        .arg(what)
        .env("LD_PRELOAD", library())
        .env(
            "RINGFENCE_SETTINGS",
            format!(
                r#"{{"device":"gpu","driver":"{}","protect":{{"bounds":true,"canary":false,"watch":false}}{settings}}}"#,
                driver.display()
            ),
        )
        .env_remove("RINGFENCE_OPTIONS")
        .env_remove("LD_LIBRARY_PATH");
    command
}

fn run(command: &mut Command) -> (String, String, Output) {
    let output = command.output().expect("start the program");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output)
}

const UNCHECKED: &str = r#","check":false"#;
const UNHELD: &str = r#","quarantine-size":0"#;

#[test]
fn exports_are_what_cuda_h_declares() {
    let bytes = std::fs::read(library()).expect("read the library");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let exported: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| Some(symbol.name().ok()?.to_owned()))
        .collect();
    let cuda: BTreeSet<String> = exported
        .iter()
        .filter(|name| is_cuda(name))
        .cloned()
        .collect();
    let declared: BTreeSet<String> = driver::FUNCTIONS
        .iter()
        .chain(&driver::EXTRA)
        .map(|name| name.to_string())
        .collect();
    let difference: Vec<_> = cuda.symmetric_difference(&declared).collect();
    assert!(difference.is_empty(), "{difference:?}");
    let others: BTreeSet<&str> = exported
        .iter()
        .filter(|name| !is_cuda(name))
        .map(String::as_str)
        .collect();
    assert_eq!(
        others,
        BTreeSet::from([
            "InitializeInjectionNvtx2",
            "InitializeInjectionNvtxExtension",
            "_Exit",
            "_exit",
            "ringfence_cudart_lookup",
            "ringfence_get_interface",
            "ringfence_is_loaded"
        ])
    );
}

/// `cuXyz`, not `cublasXyz`.
fn is_cuda(name: &str) -> bool {
    name.strip_prefix("cu")
        .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
}

#[test]
fn the_first_call_keeps_its_arguments() {
    let (stdout, stderr, _) = run(&mut program("launch", UNCHECKED));
    assert_eq!(
        stdout, "launch 0x10 1 2 3 4 5 6 7 0x20 0x30 0x40\n7\n",
        "{stderr}"
    );
    let (stdout, stderr, _) = run(&mut program("float", UNCHECKED));
    assert_eq!(stdout, "bias 0x10 1.5\n8\n", "{stderr}");
}

#[test]
fn many_threads_may_make_the_first_call() {
    let (stdout, stderr, _) = run(&mut program("threads", ""));
    assert_eq!(stdout, "16\n", "{stderr}");
}

#[test]
fn resolved_functions_are_ours_in_the_variant_that_the_driver_chose() {
    let expected = "\
@13000/0: 0 1 -
cuMemAlloc@3019/0: 0 0 cuMemAlloc
cuMemAlloc@3020/0: 0 0 our cuMemAlloc_v2
cuCtxGetDevice@2000/0: 0 0 cuCtxGetDevice
cuCtxGetDevice@13000/0: 0 0 cuCtxGetDevice_v2
cuMemcpyHtoD@13000/0: 0 0 our cuMemcpyHtoD_v2
cuMemcpyHtoD@13000/2: 0 0 our cuMemcpyHtoD_v2_ptds
cuMemFreeAsync@13000/0: 0 0 our cuMemFreeAsync
cuMemFree@13000/0: 0 0 our cuMemFree_v2
cuMemFree@13010/0: 0 0 hidden
cuFuture@13010/0: 0 0 hidden
cuNothing@13000/0: 0 1 -
cuInit@99000/0: 1 -1 -
cuGetProcAddress@12000/0: 0 1 -
";
    let (stdout, stderr, _) = run(&mut program("resolve", ""));
    assert_eq!(stdout, expected, "{stderr}");
    // Without checks nothing is hooked, and all is the driver's own.
    let (stdout, stderr, _) = run(&mut program("resolve", UNCHECKED));
    let own = expected
        .replace("our cuMemFreeAsync", "hidden")
        .replace("our ", "");
    assert_eq!(stdout, own, "{stderr}");
}

#[test]
fn a_function_that_the_driver_lacks_fails_with_its_name() {
    let (stdout, stderr, _) = run(&mut program("missing", UNCHECKED));
    assert_eq!(stdout, "801 801\n");
    assert_eq!(stderr.matches("cuArrayDestroy").count(), 1, "{stderr}");
}

#[test]
fn results_of_the_driver_pass_through() {
    let (stdout, stderr, _) = run(program("init", UNCHECKED).env("FAKE_INIT", "100"));
    assert_eq!((stdout.as_str(), stderr.as_str()), ("100\n", ""));
}

#[test]
fn an_old_driver_is_one_clear_error() {
    let (stdout, stderr, _) = run(program("init", "").env("FAKE_VERSION", "11080"));
    assert_eq!(stdout, "802\n");
    assert!(
        stderr.contains("CUDA 11.8") && stderr.contains("update the driver"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn no_driver_is_one_clear_error() {
    let mut command = program("init", "");
    command.env(
        "RINGFENCE_SETTINGS",
        r#"{"device":"gpu","driver":"/nowhere/libcuda.so.1"}"#,
    );
    let (stdout, stderr, _) = run(&mut command);
    assert_eq!(stdout, "802\n");
    assert!(stderr.contains("/nowhere/libcuda.so.1"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn ringfence_is_not_its_own_driver() {
    let mut command = program("init", "");
    command.env(
        "RINGFENCE_SETTINGS",
        format!(r#"{{"device":"gpu","driver":"{}"}}"#, library().display()),
    );
    let (stdout, stderr, _) = run(&mut command);
    assert_eq!(stdout, "802\n");
    assert!(stderr.contains("Ringfence itself"), "{stderr}");
}

#[test]
fn bad_settings_are_one_clear_error() {
    let mut command = program("init", "");
    command
        .env_remove("RINGFENCE_SETTINGS")
        .env("RINGFENCE_OPTIONS", "devise=gpu");
    let (stdout, stderr, _) = run(&mut command);
    assert_eq!(stdout, "802\n");
    assert!(stderr.contains("devise=gpu"), "{stderr}");
}

#[test]
fn an_error_at_start_reaches_the_session() {
    let session = tempfile::tempdir().expect("temporary folder");
    let mut command = program("init", "");
    let settings = format!(
        r#"{{"device":"gpu","driver":"/nowhere/libcuda.so.1","session":"{}"}}"#,
        session.path().display()
    );
    run(command.env("RINGFENCE_SETTINGS", settings));
    let files: Vec<_> = std::fs::read_dir(session.path())
        .expect("read")
        .map(|file| file.expect("entry").path())
        .collect();
    assert_eq!(files.len(), 1);
    let processes =
        report::session::read_processes(&std::fs::read_to_string(&files[0]).expect("read"));
    assert_eq!(processes.len(), 1);
    assert_eq!(processes[0].errors.len(), 1);
}

#[test]
fn allocations_are_padded_and_the_program_hears_its_own_size() {
    // What is freed is held, or is freed at once.
    for (options, freed) in [("", ""), (UNHELD, "free 0x7f0000000000\n")] {
        let (stdout, stderr, _) = run(&mut program("memory", options));
        let expected = format!("allocate 1025\nsize 1024\n{freed}");
        assert_eq!(stdout, expected, "{stderr}");
    }
    let (stdout, stderr, _) = run(&mut program("memory", UNCHECKED));
    assert_eq!(
        stdout, "allocate 1024\nsize 4096\nfree 0x7f0000000000\n",
        "{stderr}"
    );
}

#[test]
fn a_forked_child_reaches_the_driver() {
    let (stdout, stderr, _) = run(&mut program("fork", ""));
    assert_eq!(stdout, "child 13000 0\nparent 0\n", "{stderr}");
}

/// Every way to end leaves the coverage in the session, and its status as it
/// was.
#[test]
fn the_report_comes_however_the_program_ends() {
    use std::os::unix::process::ExitStatusExt;
    for (what, code, signal) in [
        ("return", Some(0), None),
        ("quick", Some(5), None),
        ("abort", None, Some(libc::SIGABRT)),
        ("segfault", None, Some(libc::SIGSEGV)),
        ("terminate", None, Some(libc::SIGTERM)),
    ] {
        let session = tempfile::tempdir().expect("temporary folder");
        let settings = format!(r#","session":"{}""#, session.path().display());
        let (_, stderr, output) = run(&mut program(what, &settings));
        assert_eq!(
            (output.status.code(), output.status.signal()),
            (code, signal),
            "{what}: {stderr}"
        );
        let file = std::fs::read_dir(session.path())
            .expect("read")
            .next()
            .expect("a file")
            .expect("entry")
            .path();
        let processes =
            report::session::read_processes(&std::fs::read_to_string(file).expect("read"));
        assert_eq!(processes.len(), 1, "{what}");
        assert!(processes[0].complete, "{what}: {stderr}");
    }
}

/// Coverage of the kernel `scale`, as the session has it.
fn coverage_of_scale(session: &Path) -> model::KernelCoverage {
    let file = std::fs::read_dir(session)
        .expect("read")
        .next()
        .expect("a file")
        .expect("entry")
        .path();
    let processes = report::session::read_processes(&std::fs::read_to_string(file).expect("read"));
    processes[0].coverage.kernels["scale"].clone()
}

fn kernel(environment: &[(&str, &str)], settings: &str) -> (String, String, model::KernelCoverage) {
    let session = tempfile::tempdir().expect("temporary folder");
    let settings = format!(r#","session":"{}"{settings}"#, session.path().display());
    let (stdout, stderr, _) = run(program("kernel", &settings).envs(environment.iter().copied()));
    (stdout, stderr, coverage_of_scale(session.path()))
}

#[test]
fn the_copy_is_launched_with_the_bounds_of_its_pointers() {
    let (stdout, stderr, coverage) = kernel(&[], r#","prove":"off""#);
    assert_eq!(
        stdout,
        "\
allocate 1001
load instrumented with 0 options
load 0
get 0 500
attribute 8 4096 of scale
attribute 8 4096 of __ringfence_checked_scale
__ringfence_checked_scale block 32: 0x7f0000000000 42, launch 1 of 0x7f0000000000+1000 below 997, index 0+249
launch 0
__ringfence_checked_scale block 32: 0x7f0000000010 42, launch 2 of 0x7f0000000000+1000 below 997, index 0+245
launch 0
scale block 1024: 0x7f0000000010 42, launch 0 of 0+0 below 0, index 0+0
launch 0
",
        "{stderr}"
    );
    assert_eq!(coverage.checked, 2);
    assert_eq!(
        coverage.unchecked,
        [(model::UncheckedReason::Registers, 1)].into()
    );
}

#[test]
fn launches_that_are_proved_run_the_original() {
    let (stdout, stderr, coverage) = kernel(&[], "");
    assert_eq!(
        stdout.matches("\nscale block").count(),
        3,
        "{stdout}{stderr}"
    );
    assert_eq!((coverage.proved, coverage.checked), (2, 0));
    // The largest reaches beyond the buffer, and its copy does not fit.
    assert_eq!(
        coverage.unchecked,
        [(model::UncheckedReason::Registers, 1)].into()
    );
}

#[test]
fn a_copy_that_does_not_fit_leaves_the_original() {
    let (stdout, stderr, coverage) = kernel(&[("FAKE_RESOURCES", "1")], r#","prove":"off""#);
    assert_eq!(
        stdout.matches("\nscale block").count(),
        3,
        "{stdout}{stderr}"
    );
    assert_eq!(coverage.checked, 0);
    assert_eq!(
        coverage.unchecked,
        [(model::UncheckedReason::Registers, 3)].into()
    );
}

#[test]
fn a_rejected_module_runs_as_it_is() {
    let (stdout, stderr, coverage) = kernel(&[("FAKE_REJECT", "1")], "");
    assert!(
        stdout.contains("load original with 0 options\nload 0\nget 0 500\n"),
        "{stdout}"
    );
    assert_eq!(stdout.matches("\nscale block").count(), 3, "{stdout}");
    assert!(stderr.contains("CUDA_ERROR_INVALID_PTX"), "{stderr}");
    assert_eq!(
        coverage.unchecked,
        [(model::UncheckedReason::Rejected, 3)].into()
    );
}

#[test]
fn an_excluded_kernel_runs_as_it_is() {
    let (stdout, stderr, coverage) = kernel(&[], r#","kernel-name-exclude":"scal""#);
    assert_eq!(
        stdout.matches("\nscale block").count(),
        3,
        "{stdout}{stderr}"
    );
    assert_eq!(
        coverage.unchecked,
        [(model::UncheckedReason::Excluded, 3)].into()
    );
}
