//! A container as a runtime makes one, with what util-linux has: namespaces of its
//! own for users, mounts, network and System V objects; a root folder with a
//! program and the C library; what the device plugin answered; and no device file.

use plugin::api::ContainerAllocateResponse;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Sets it up in its own namespaces, and becomes the program. Its arguments: the
/// root; how many mounts, and for each source and target; then the command.
const SETUP: &str = r#"
set -eu
root=$1 mounts=$2; shift 2
mount --rbind /proc "$root/proc"
while [ "$mounts" -gt 0 ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
    shift 2
    mounts=$((mounts - 1))
done
exec chroot "$root" /usr/bin/env -i "$@"
"#;

/// An image: a root folder.
pub struct Image {
    root: tempfile::TempDir,
}

impl Image {
    /// One with these programs in `/app`, what they and Ringfence's library need
    /// of the system, and a shell.
    pub fn new(programs: &[&Path], library: &Path) -> Image {
        let root = tempfile::tempdir().expect("a folder");
        let own = |path: &str| root.path().join(path.trim_start_matches('/'));
        for folder in ["proc", "dev", "tmp", "app"] {
            std::fs::create_dir(own(folder)).expect("a folder");
        }
        let copy = |from: &Path, to: &Path| {
            std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            std::fs::copy(from, to)
                .unwrap_or_else(|error| panic!("{} to {}: {error}", from.display(), to.display()));
        };
        let tools = ["/usr/bin/env", "/bin/sh", "/bin/ls"].map(Path::new);
        let mut libraries = BTreeSet::new();
        for file in programs.iter().copied().chain(tools).chain([library]) {
            libraries.extend(needed(file));
        }
        for library in libraries {
            copy(&library, &own(library.to_str().expect("a name")));
        }
        for tool in tools {
            copy(tool, &own(tool.to_str().expect("a name")));
        }
        for program in programs {
            let name = program.file_name().expect("a name");
            copy(program, &own("app").join(name));
        }
        Image { root }
    }

    /// A container that runs a command. `environment` comes behind what the plugin
    /// answered: a pod's own variables win.
    pub fn container(
        &self,
        answer: &ContainerAllocateResponse,
        environment: &[(&str, &str)],
        command: &[&str],
    ) -> Command {
        let mut setup = Command::new("unshare");
        setup
            .args(["--user", "--map-root-user", "--mount", "--net", "--ipc"])
            .args(["/bin/sh", "-c", SETUP, "container"])
            .arg(self.root.path())
            .arg(answer.mounts.len().to_string());
        for mount in &answer.mounts {
            assert!(mount.read_only);
            setup.args([&mount.host_path, &mount.container_path]);
        }
        assert!(answer.devices.is_empty());
        for (name, value) in &answer.envs {
            setup.arg(format!("{name}={value}"));
        }
        for (name, value) in environment {
            setup.arg(format!("{name}={value}"));
        }
        setup
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        setup
    }

    /// Runs it to its end.
    pub fn run(
        &self,
        answer: &ContainerAllocateResponse,
        environment: &[(&str, &str)],
        command: &[&str],
    ) -> (Option<i32>, String, String) {
        let container = self.container(answer, environment, command).output();
        let output = container.expect("unshare, of util-linux");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    }
}

/// The libraries that the loader loads for a file, with itself.
fn needed(file: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(file).output().expect("ldd");
    let text = String::from_utf8(output.stdout).expect("text");
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(Into::into).collect()
}
