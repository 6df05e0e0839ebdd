//! Programs built by the pinned nvcc, on the CPU device.

mod support;

use std::path::Path;
use std::process::Command;
use support::{build, library, run};

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
