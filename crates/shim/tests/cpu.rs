//! Programs built by the pinned nvcc, on the CPU device.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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

fn toolchain() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("workspace root");
    let lib = root.join("target/toolchain/cuda/lib");
    std::fs::read_dir(&lib)
        .ok()
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("site-packages/nvidia/cu13")))
        .find(|path| path.join("bin/nvcc").is_file())
        .unwrap_or_else(|| panic!("no nvcc under {}; run `cargo xtask setup`", lib.display()))
}

fn build(arguments: &[&str], source: &str) -> PathBuf {
    let program = tempfile::tempdir()
        .expect("temporary folder")
        .keep()
        .join("program");
    let toolchain = toolchain();
    let output = Command::new(toolchain.join("bin/nvcc"))
        .arg(format!("-L{}", toolchain.join("lib").display()))
        .args(arguments)
        .arg(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/cuda")
                .join(source),
        )
        .arg("-o")
        .arg(&program)
        .output()
        .expect("start nvcc");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

fn run(program: &Path, options: &str) -> (String, String, Output) {
    let output = Command::new(program)
        .env("LD_PRELOAD", library())
        .env("RINGFENCE_OPTIONS", format!("device=cpu:{options}"))
        .env_remove("RINGFENCE_SETTINGS")
        .output()
        .expect("start the program");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output)
}

const MIXTURE: &str = "\
pointer 3 15
managed 7
symbol 9
struct 15
node is ours: 1
graph 1024
changed graph 1030
pinned 108
registered 108
child 3
";

#[test]
fn a_correct_program_behaves_as_without_ringfence() {
    for arguments in [
        &["-arch=sm_75"][..],
        &["-arch=sm_90", "-O0"],
        &["-arch=sm_75", "-rdc=true"],
    ] {
        let program = build(arguments, "mixture.cu");
        let (stdout, stderr, output) = run(&program, "");
        assert_eq!(stdout, MIXTURE, "{arguments:?}: {stderr}");
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        assert!(
            stderr.starts_with("ringfence: no findings;"),
            "{arguments:?}: {stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        let (stdout, stderr, _) = run(&program, "check=off");
        assert_eq!(stdout, MIXTURE, "{arguments:?}, unchecked: {stderr}");
    }
}

/// Without a driver to ask, variants come from the generated table.
#[test]
fn the_cpu_device_resolves_by_the_table() {
    let program = tempfile::tempdir()
        .expect("temporary folder")
        .keep()
        .join("program");
    let built = Command::new("cc")
        .args(["-pthread", "-ldl"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/program.c"))
        .arg("-o")
        .arg(&program)
        .status()
        .expect("start cc");
    assert!(built.success());
    let output = Command::new(&program)
        .arg("resolve")
        .env("LD_PRELOAD", library())
        .env("RINGFENCE_OPTIONS", "device=cpu")
        .env_remove("RINGFENCE_SETTINGS")
        .output()
        .expect("start the program");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "\
@13000/0: 0 1 -
cuMemAlloc@3019/0: 0 0 our cuMemAlloc
cuMemAlloc@3020/0: 0 0 our cuMemAlloc_v2
cuCtxGetDevice@2000/0: 0 0 our cuCtxGetDevice
cuCtxGetDevice@13000/0: 0 0 our cuCtxGetDevice_v2
cuMemcpyHtoD@13000/0: 0 0 our cuMemcpyHtoD_v2
cuMemcpyHtoD@13000/2: 0 0 our cuMemcpyHtoD_v2_ptds
cuMemFreeAsync@13000/0: 0 0 our cuMemFreeAsync
cuMemFree@13000/0: 0 0 our cuMemFree_v2
cuMemFree@13010/0: 1 -1 -
cuFuture@13010/0: 1 -1 -
cuNothing@13000/0: 0 1 -
cuInit@99000/0: 1 -1 -
cuGetProcAddress@12000/0: 0 0 our cuGetProcAddress_v2
"
    );
}
