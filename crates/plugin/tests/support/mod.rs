//! A manager of the CPU device, the device plugin, and a stand-in for the kubelet
//! that speaks what `deviceplugin.proto` declares.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod cluster;
pub mod container;
pub mod dra_kubelet;
pub mod kubelet;
pub mod objects;

use protocol::{Control, ManagerState};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long something may take on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a unit.
pub const UNIT: u64 = 64 << 20;

/// The `ringfence` command, with the libraries beside it: the one that `cargo
/// xtask test` has built, else the newest.
pub fn command() -> PathBuf {
    if let Some(command) = std::env::var_os("RINGFENCE_TEST_COMMAND") {
        return command.into();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = ["debug", "release"].map(|profile| target.join(profile).join("ringfence"));
    let built = built.into_iter().filter(|path| {
        let beside = |name: &str| path.with_file_name(name).exists();
        beside("libringfence.so") && beside("cudart")
    });
    let newest = built
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max();
    match newest {
        Some((_, path)) => path,
        None => panic!(
            "no ringfence with libringfence.so and cudart in {}; `cargo xtask build` builds them",
            target.display()
        ),
    }
}

/// A process that is ended with this.
pub struct Ending(pub Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Folders, as a node has them.
pub struct Node {
    folder: tempfile::TempDir,
}

impl Node {
    /// Ringfence is installed, and the kubelet's folder is there.
    pub fn new() -> Node {
        let node = Node {
            folder: tempfile::tempdir().expect("a folder"),
        };
        std::fs::create_dir(node.kubelet()).expect("a folder");
        let cudart = node.libraries().join("cudart");
        std::fs::create_dir_all(&cudart).expect("a folder");
        let command = command();
        let copy = |from: &Path, to: &Path| {
            let to = to.join(from.file_name().expect("a name"));
            std::fs::copy(from, to).expect("a copy");
        };
        copy(
            &command.with_file_name("libringfence.so"),
            &node.libraries(),
        );
        for entry in std::fs::read_dir(command.with_file_name("cudart")).expect("a folder") {
            copy(&entry.expect("an entry").path(), &cudart);
        }
        node
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The kubelet's folder.
    pub fn kubelet(&self) -> PathBuf {
        self.path("kubelet")
    }

    /// The manager's folder of slices.
    pub fn slices(&self) -> PathBuf {
        self.path("ringfence")
    }

    /// The folder of Ringfence's libraries.
    pub fn libraries(&self) -> PathBuf {
        self.path("lib")
    }

    /// Starts a manager, and waits until it takes tenants.
    pub fn manager(&self) -> Ending {
        let mut manager = Command::new(command());
        manager
            .args(["manager", "--device", "cpu", "--cpu-threads", "2"])
            .args(["--memory-per-tenant", "256m", "--socket"])
            .arg(self.path("manager.sock"))
            .arg("--slices")
            .arg(self.slices())
            .stderr(Stdio::piped());
        let mut manager = Ending(manager.spawn().expect("a manager"));
        let mut lines = BufReader::new(manager.0.stderr.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        assert!(line.contains("takes tenants at"), "{line}");
        // It writes more lines, which somebody has to read.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let start = Instant::now();
        while self.try_state().is_none() {
            assert!(start.elapsed() < PATIENCE, "no control socket");
            std::thread::sleep(Duration::from_millis(10));
        }
        manager
    }

    fn try_state(&self) -> Option<ManagerState> {
        Control::connect(&self.slices()).ok()?.state().ok()
    }

    /// How the manager is.
    pub fn state(&self) -> ManagerState {
        self.try_state().expect("a manager")
    }

    /// The plugin, with eight units.
    pub fn plugin(&self) -> Command {
        let mut plugin = Command::new(env!("CARGO_BIN_EXE_ringfence-device-plugin"));
        plugin
            .args(["--unit", "64m", "--memory", "512m", "--slices"])
            .arg(self.slices())
            .arg("--libraries")
            .arg(self.libraries())
            .arg("--kubelet")
            .arg(self.kubelet());
        plugin
    }

    /// Starts it.
    pub fn start_plugin(&self) -> Ending {
        Ending(
            self.plugin()
                .stderr(Stdio::null())
                .spawn()
                .expect("a plugin"),
        )
    }
}

impl Node {
    /// The driver of dynamic resource allocation on the node `node-a`, for the API
    /// server at this address.
    pub fn dra_driver(&self, server: &str) -> Command {
        let mut driver = Command::new(env!("CARGO_BIN_EXE_ringfence-dra-driver"));
        driver
            .args(["--node", "node-a", "--unit", "64m", "--memory", "512m"])
            .args(["--server", server, "--slices"])
            .arg(self.slices())
            .arg("--libraries")
            .arg(self.libraries())
            .arg("--registry")
            .arg(self.path("registry"))
            .arg("--plugins")
            .arg(self.path("plugins"))
            .arg("--cdi")
            .arg(self.path("cdi"))
            .arg("--token")
            .arg(self.path("token"))
            .arg("--authority")
            .arg(cluster::tls("authority.pem"));
        driver
    }
}

/// Builds a program with the pinned nvcc.
pub fn nvcc(source: &Path, flags: &[&str], program: &Path) {
    let cuda = toolchain::cuda();
    let output = Command::new(cuda.nvcc())
        .args(["-arch=sm_75", "-std=c++17"])
        .arg(format!("-L{}", cuda.libraries().display()))
        .arg("-I")
        .arg(toolchain::workspace().join("suite/cases/include"))
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(program)
        .output()
        .expect("start nvcc");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}
