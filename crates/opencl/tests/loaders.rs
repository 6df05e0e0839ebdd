//! Programs of the suite under `ringfence run`, with loaders and settings that
//! the suite itself does not have: a loader without layers, no platform at all.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The command that `cargo xtask test` has built, else the newest beside the
/// tests.
fn ringfence() -> PathBuf {
    if let Some(command) = std::env::var_os("RINGFENCE_TEST_COMMAND") {
        return command.into();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = ["debug", "release"].map(|profile| target.join(profile).join("ringfence"));
    let newest = built
        .into_iter()
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max();
    match newest {
        Some((_, path)) => path,
        None => panic!(
            "no ringfence in {}; run `cargo xtask test`, which builds it",
            target.display()
        ),
    }
}

fn cc(source: &str, output: &Path, flags: &[&str]) {
    let suite = workspace().join("suite/opencl");
    let built = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-g1", "-O1", "-pthread", "-I"])
        .arg(suite.join("include"))
        .arg(suite.join(source))
        .arg("-o")
        .arg(output)
        .args(flags)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{source}: {said}");
}

/// A program of the suite; each test has its own.
fn program(test: &str, name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("opencl-{test}-{name}"));
    cc(&format!("{name}.c"), &path, &["-lOpenCL", "-lm"]);
    path
}

/// A folder with a loader that has no layers; each test has its own.
fn plain_loader(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("opencl-loader-{test}"));
    std::fs::create_dir_all(&folder).unwrap();
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libOpenCL.so.1"];
    cc("loader/plain.c", &folder.join("libOpenCL.so.1"), &flags);
    folder
}

struct Run {
    code: Option<i32>,
    said: String,
    printed: String,
}

fn run(program: &Path, twin: &str, options: &[&str], environment: &[(&str, &Path)]) -> Run {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(ringfence())
        .arg("run")
        .args(options)
        .arg("--")
        .arg(program)
        .arg(twin)
        .env("RINGFENCE_OPTIONS", "seed=1")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    Run {
        code: status.code(),
        said: String::from_utf8_lossy(&stderr).into_owned(),
        printed: String::from_utf8_lossy(&stdout).into_owned(),
    }
}

#[test]
fn a_loader_without_layers_is_replaced_in_the_program() {
    let loader = plain_loader("layers");
    let environment = [("LD_LIBRARY_PATH", loader.as_path())];
    for (name, found) in [
        ("buffer_overflow", "through argument 1 `out`"),
        ("duplicate_arguments", "through argument 0 `left`"),
        ("sub_buffer", "by kernel fill"),
        ("names", "`the_output`"),
    ] {
        let program = program("layers", name);
        for checker in ["host", "device"] {
            let options = ["--canary-checker", checker];
            let bad = run(&program, "bad", &options, &environment);
            assert_eq!(bad.code, Some(98), "{name}: {}", bad.said);
            assert!(bad.said.contains(found), "{name}: {}", bad.said);
            assert!(
                bad.said.contains(&format!("verified by the {checker}")),
                "{}",
                bad.said
            );
            let good = run(&program, "good", &options, &environment);
            assert_eq!(good.code, Some(0), "{name}: {}", good.said);
            let native = Command::new(&program)
                .arg("good")
                .env("LD_LIBRARY_PATH", &loader)
                .output()
                .unwrap();
            assert_eq!(
                good.printed,
                String::from_utf8_lossy(&native.stdout),
                "{name}"
            );
        }
    }
}

#[test]
fn canaries_are_smaller_where_the_device_has_no_room_for_them() {
    let loader = plain_loader("room");
    let program = program("room", "buffer_overflow");
    let with = |most: &str, twin| {
        let environment = [
            ("LD_LIBRARY_PATH", loader.as_path()),
            ("PLAIN_LOADER_MOST", Path::new(most)),
        ];
        run(&program, twin, &[], &environment)
    };
    // 4,000 bytes of the program's, and room for no 4 KiB more.
    let outcome = with("5000", "bad");
    assert_eq!(outcome.code, Some(98), "{}", outcome.said);
    assert!(
        outcome.said.contains("1 buffer with smaller canaries"),
        "{}",
        outcome.said
    );
    assert_eq!(with("5000", "good").code, Some(0));
    // Room for nothing else: the program's buffer all the same, and it is said.
    let outcome = with("4000", "good");
    assert_eq!(outcome.code, Some(0), "{}", outcome.said);
    assert!(
        outcome.said.contains("argument out: no room for canaries"),
        "{}",
        outcome.said
    );
}

#[test]
fn no_platform_is_said_to_be_nothing_checked() {
    let none = Path::new(env!("CARGO_TARGET_TMPDIR")).join("opencl-no-vendors");
    std::fs::create_dir_all(&none).unwrap();
    let program = program("platform", "buffer_overflow");
    let outcome = run(&program, "good", &[], &[("OCL_ICD_VENDORS", &none)]);
    // The program itself ends with 2.
    assert_eq!(outcome.code, Some(97), "{}", outcome.said);
    assert!(
        outcome.said.contains("nothing was checked"),
        "{}",
        outcome.said
    );
}

#[test]
fn without_the_protection_nothing_is_put_into_the_program() {
    let program = program("protection", "buffer_overflow");
    let outcome = run(
        &program,
        "bad",
        &["--protect", "bounds", "--device", "cpu"],
        &[],
    );
    assert_eq!(outcome.code, Some(97), "{}", outcome.said);
    assert!(!outcome.said.contains("canary"), "{}", outcome.said);
}
