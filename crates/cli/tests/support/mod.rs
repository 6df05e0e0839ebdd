//! Runs the built command, with programs that play a checked process: a script
//! that leaves the session events which it is given.

#![allow(dead_code, reason = "each test binary uses a part")]

use model::{
    AccessKind, Coverage, DeviceAccess, DeviceAddress, DeviceKind, Finding, KernelCoverage, Rule,
    Space, Subject, ThreadCoordinates, UncheckedReason,
};
use report::Event;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A scratch directory and the command.
pub struct Scratch {
    directory: tempfile::TempDir,
}

/// A shared library that is everywhere and does nothing when it is preloaded;
/// it stands for libringfence.so where the program is a script.
const HARMLESS: [&str; 2] = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6"];

impl Scratch {
    pub fn new() -> Scratch {
        Scratch {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub fn executable(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write(name, bytes);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A program that leaves these events and then does what `end` says.
    pub fn program(&self, events: &[Event], end: &str) -> PathBuf {
        let lines: Vec<String> = events
            .iter()
            .map(|event| serde_json::to_string(event).unwrap())
            .collect();
        let events = self.write("events", lines.join("\n") + "\n");
        let script = format!(
            "#!/bin/sh\nsession=$(printf %s \"$RINGFENCE_SETTINGS\" | sed 's/.*\"session\":\"\\([^\"]*\\)\".*/\\1/')\n\
             cat '{}' > \"$session/$$.jsonl\"\n{end}\n",
            events.display()
        );
        self.executable("program", script)
    }

    /// `ringfence` with these arguments, in an environment of its own.
    pub fn command<I: AsRef<std::ffi::OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = I>,
    ) -> Command {
        let library = HARMLESS
            .into_iter()
            .find(|path| Path::new(path).exists())
            .expect("a C library");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env("RINGFENCE_LIBRARY", library)
            .env_remove("RINGFENCE_OPTIONS")
            .env_remove("RINGFENCE_SETTINGS")
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("LD_PRELOAD");
        command
    }

    pub fn ringfence<I: AsRef<std::ffi::OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = I>,
    ) -> Outcome {
        Outcome::new(self.command(arguments).output().unwrap())
    }

    /// Compiles a C program. The project needs a C compiler to be built at
    /// all, so there is one.
    pub fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let source = self.write(&format!("{name}.c"), source);
        let path = self.path(name);
        let built = Command::new("cc")
            .arg(&source)
            .arg("-o")
            .arg(&path)
            .args(flags)
            .output()
            .unwrap();
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        path
    }
}

/// Its output.
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn new(output: Output) -> Outcome {
        Outcome {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// One error line that holds all of `parts`, exit code 96, nothing on
    /// stdout.
    #[track_caller]
    pub fn assert_error(&self, parts: &[&str]) {
        assert_eq!(self.code, Some(96), "{}", self.stderr);
        assert_eq!(self.stdout, "");
        assert!(
            self.stderr.starts_with("ringfence: error: "),
            "{}",
            self.stderr
        );
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "`{part}` is not in: {}",
                self.stderr
            );
        }
    }
}

pub fn start() -> Event {
    Event::Start {
        pid: 7,
        program: "/bin/app".into(),
        device: DeviceKind::Cpu,
        device_name: "CPU".into(),
        driver_version: 13000,
    }
}

pub fn coverage(checked: u64, unchecked: u64, complete: bool) -> Event {
    let mut kernel = KernelCoverage {
        checked,
        exact_sites: 2,
        ..KernelCoverage::default()
    };
    if unchecked > 0 {
        kernel.unchecked.insert(UncheckedReason::NoPtx, unchecked);
    }
    let mut coverage = Box::<Coverage>::default();
    coverage.kernels.insert("_Z5scalePfi".into(), kernel);
    Event::Coverage { coverage, complete }
}

pub fn finding() -> Event {
    let finding = Finding {
        rule: Rule::GlobalOutOfBoundsWrite,
        address: DeviceAddress(0x7f00_0000_0000),
        subject: Subject::Access(DeviceAccess {
            kind: AccessKind::Write,
            space: Space::Global,
            width: 4,
            width_at_run_time: false,
            alignment: None,
            kernel: "_Z5scalePfi".into(),
            function: "_Z5scalePfi".into(),
            source: None,
            ptx_line: 1,
            instruction: "st.global.f32 [%rd1], %f1;".into(),
            thread: ThreadCoordinates {
                block: [0; 3],
                thread: [0; 3],
            },
            launch: 1,
            launched_at: vec![],
        }),
        intended: None,
        nearest: None,
        occurrences: 1,
    };
    Event::Finding {
        id: 1,
        finding: Box::new(finding),
        suppressed: None,
    }
}
