//! One clear error for each thing that cannot work, before anything starts.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use support::{Outcome, Scratch};

/// A program that would say so if it were started.
const STARTED: &str = "#!/bin/sh\necho started\n";

fn run(scratch: &Scratch, options: &[&str], program: &Path) -> Outcome {
    let mut command = scratch.command(["run"]);
    Outcome::new(
        command
            .args(options)
            .arg("--")
            .arg(program)
            .output()
            .unwrap(),
    )
}

fn cpu(scratch: &Scratch, program: &Path) -> Outcome {
    run(scratch, &["--device", "cpu"], program)
}

/// A 64-byte ELF header and nothing else.
fn elf_header(class: u8, machine: u16) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
    header[16] = 2;
    header[18..20].copy_from_slice(&machine.to_le_bytes());
    header[20] = 1;
    header[52] = 64;
    header
}

#[test]
fn programs_that_are_not_there_or_not_programs() {
    let scratch = Scratch::new();
    cpu(&scratch, Path::new("./nothing")).assert_error(&["there is no program ./nothing"]);
    cpu(&scratch, Path::new("no-such-program-anywhere"))
        .assert_error(&["no-such-program-anywhere", "PATH"]);
    cpu(&scratch, Path::new("./")).assert_error(&["is a directory"]);
    scratch.write("plain", STARTED);
    cpu(&scratch, Path::new("./plain")).assert_error(&["not executable", "chmod +x"]);
    cpu(&scratch, Path::new("plain")).assert_error(&["write ./plain"]);
    let garbage = scratch.executable("garbage", "garbage");
    cpu(&scratch, &garbage).assert_error(&["neither a program (ELF) nor a script"]);
    let cut = scratch.executable("cut", &elf_header(2, 62)[..20]);
    cpu(&scratch, &cut).assert_error(&["damaged"]);
    let arm = scratch.executable("arm", elf_header(2, 183));
    cpu(&scratch, &arm).assert_error(&["not a 64-bit x86 Linux program"]);
    let static_program = scratch.executable("static", elf_header(2, 62));
    cpu(&scratch, &static_program).assert_error(&["linked statically", "link it dynamically"]);
    let setuid = scratch.executable("setuid", STARTED);
    std::fs::set_permissions(&setuid, std::fs::Permissions::from_mode(0o4755)).unwrap();
    cpu(&scratch, &setuid).assert_error(&["setuid"]);
}

const FATBIN: &str = "__attribute__((section(\".nv_fatbin\"))) const char code[64];\n";

#[test]
fn programs_without_device_code() {
    let scratch = Scratch::new();
    let plain = scratch.compile("plain", "int main(void) { return 0; }", &[]);
    cpu(&scratch, &plain).assert_error(&["is no CUDA or OpenCL program", "no device code"]);
    // One that opens libraries may load some.
    let opener = "#include <dlfcn.h>\nint main(void) { return dlopen(\"libm.so.6\", 1) == 0; }";
    let opener = scratch.compile("opener", opener, &["-ldl"]);
    assert_eq!(cpu(&scratch, &opener).code, Some(97));
}

#[test]
fn stripped_programs_with_the_static_runtime() {
    let scratch = Scratch::new();
    let source = format!(
        "{FATBIN}void __cudaRegisterFatBinary(void) {{}}\nint main(void) {{ return code[0]; }}"
    );
    let named = scratch.compile("named", &source, &[]);
    assert_eq!(cpu(&scratch, &named).code, Some(97));
    let stripped = scratch.compile("stripped", &source, &["-s"]);
    cpu(&scratch, &stripped).assert_error(&["stripped", "-cudart shared"]);
}

#[test]
fn the_shared_runtime_of_the_cpu_device_must_be_there() {
    let scratch = Scratch::new();
    scratch.compile(
        "libcudart.so",
        "void cudaFree(void) {}",
        &["-shared", "-fPIC", "-Wl,-soname,libcudart.so.13"],
    );
    let folder = format!("-L{}", scratch.path("").display());
    let source =
        format!("{FATBIN}void cudaFree(void);\nint main(void) {{ cudaFree(); return code[0]; }}");
    let program = scratch.compile("app", &source, &[&folder, "-lcudart"]);
    cpu(&scratch, &program).assert_error(&["shared CUDA runtime", "/cudart"]);
}

#[test]
fn files_that_cannot_be_written() {
    let scratch = Scratch::new();
    let program = scratch.executable("program", STARTED);
    for option in ["--log-file", "--json"] {
        run(
            &scratch,
            &["--device", "cpu", option, "/no/such/folder/x"],
            &program,
        )
        .assert_error(&[option, "cannot write to /no/such/folder/x"]);
    }
    run(
        &scratch,
        &["--device", "cpu", "--log-file", "log-%z"],
        &program,
    )
    .assert_error(&["--log-file", "log-%z"]);
    let left: Vec<_> = std::fs::read_dir(scratch.path("")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_cache_that_others_can_write() {
    let scratch = Scratch::new();
    let program = scratch.program(&[], "exit 0");
    let folder = scratch.path("cache");
    let option = folder.to_str().unwrap();
    run(&scratch, &["--cache-dir", option], &program);
    let mode = folder.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o750)).unwrap();
    let outcome = run(&scratch, &["--cache-dir", option], &program);
    outcome.assert_error(&["is open to others (mode 750)"]);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    let file = scratch.write("file", "");
    let outcome = run(&scratch, &["--cache-dir", file.to_str().unwrap()], &program);
    outcome.assert_error(&["cannot be used"]);
}

#[test]
fn options_and_settings() {
    let scratch = Scratch::new();
    let program = scratch.executable("program", STARTED);
    for options in ["nonsense", "device=tpu", "sed=1"] {
        let mut command = scratch.command(["run", "./program"]);
        let outcome = Outcome::new(command.env("RINGFENCE_OPTIONS", options).output().unwrap());
        outcome.assert_error(&["RINGFENCE_OPTIONS", options]);
    }
    for arguments in [
        &["run"][..],
        &["run", "--device", "tpu", "./program"],
        &["nonsense"],
        &[],
    ] {
        let outcome = scratch.ringfence(arguments);
        assert_eq!(
            (outcome.code, outcome.stdout.as_str()),
            (Some(96), ""),
            "{arguments:?}"
        );
        assert!(!outcome.stderr.is_empty());
    }
    assert_eq!(scratch.ringfence(["--help"]).code, Some(0));
    assert_eq!(scratch.ringfence(["--version"]).code, Some(0));
    let _ = program;
}

#[test]
fn a_library_that_is_missing_or_cannot_be_preloaded() {
    let scratch = Scratch::new();
    scratch.executable("program", STARTED);
    let with = |library: &Path| {
        let mut command = scratch.command(["run", "--device", "cpu", "./program"]);
        Outcome::new(command.env("RINGFENCE_LIBRARY", library).output().unwrap())
    };
    with(Path::new("/no/such/library.so"))
        .assert_error(&["RINGFENCE_LIBRARY", "/no/such/library.so"]);
    with(&scratch.write("a library.so", "")).assert_error(&["LD_PRELOAD"]);
}

#[test]
fn a_gpu_without_a_driver() {
    let scratch = Scratch::new();
    let program = scratch.executable("program", STARTED);
    run(
        &scratch,
        &["--device", "gpu", "--driver", "/no/such/libcuda.so.1"],
        &program,
    )
    .assert_error(&["/no/such/libcuda.so.1", "--driver"]);
    if driver::gpu::Gpu::is_installed() {
        return; // The rest is about machines without one.
    }
    run(&scratch, &["--device", "gpu"], &program)
        .assert_error(&["no NVIDIA driver", "--device cpu"]);
}
