//! `deploy/slurm` in a cluster of one node, which is this machine, with Debian's
//! Slurm.

use crate::support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use support::{Ending, Node, PATIENCE, UNIT};

/// Of Debian's packages slurmctld, slurmd and slurm-client.
const DAEMONS: [&str; 2] = ["/usr/sbin/slurmctld", "/usr/sbin/slurmd"];

/// A user who is not the superuser: `nobody`.
const USER: u32 = 65_534;

/// A cluster.
struct Cluster {
    folder: PathBuf,
    _daemons: Vec<Ending>,
}

impl Cluster {
    fn start(node: &Node) -> Cluster {
        for daemon in DAEMONS {
            assert!(
                Path::new(daemon).exists(),
                "there is no {daemon}; `cargo xtask test` installs it, or `apt-get install slurmctld slurmd slurm-client`"
            );
        }
        let folder = node.path("slurm");
        let own = |name: &str| folder.join(name);
        for name in ["", "state", "spool"] {
            std::fs::create_dir(own(name)).unwrap();
        }
        let deploy = toolchain::workspace().join("deploy/slurm");
        for script in ["prolog.sh", "epilog.sh", "task-prolog.sh"] {
            std::fs::copy(deploy.join(script), own(script)).unwrap();
        }
        // The files for users, with what is another on this machine.
        let text = |name: &str| std::fs::read_to_string(deploy.join(name)).unwrap();
        let replaced = |name: &str, pairs: &[(&str, String)]| {
            let mut text = text(name);
            for (old, new) in pairs {
                assert!(text.contains(old), "{name} has no {old}");
                text = text.replace(old, new);
            }
            text
        };
        let shown = |path: &Path| path.display().to_string();
        let settings = [
            (
                "PREFIX=/opt/ringfence",
                format!("PREFIX={}", shown(&node.path(""))),
            ),
            (
                "SLICES=/run/ringfence",
                format!("SLICES={}", shown(&node.slices())),
            ),
            ("UNIT_MIB=1024", format!("UNIT_MIB={}", UNIT >> 20)),
        ];
        std::fs::write(own("ringfence.conf"), replaced("ringfence.conf", &settings)).unwrap();
        let count = [("Count=75", "Count=4".to_owned())];
        std::fs::write(own("gres.conf"), replaced("gres.conf", &count)).unwrap();
        // Of Debian 12's two plugins, the one that needs neither systemd nor the
        // right to write cgroups, as long as nothing uses them.
        std::fs::write(own("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
        let here = shown(&folder);
        let added = [
            (
                "gpu[1-4] Gres=ringfence:75",
                "localhost CPUs=4 Gres=ringfence:4".to_owned(),
            ),
            ("/etc/slurm/ringfence", here.clone()),
        ];
        let added = replaced("slurm.conf", &added);
        let port = 20_000 + std::process::id() % 20_000;
        let config = format!(
            "ClusterName=test\nSlurmctldHost=localhost\nSlurmUser=root\nAuthType=auth/none\nCredType=cred/none\n\
             StateSaveLocation={here}/state\nSlurmdSpoolDir={here}/spool\nSlurmctldPidFile={here}/ctld.pid\n\
             SlurmdPidFile={here}/d.pid\nSlurmctldPort={port}\nSlurmdPort={}\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nMpiDefault=none\nSelectType=select/cons_tres\nSlurmdParameters=config_overrides\n\
             ReturnToService=2\n{added}PartitionName=all Nodes=ALL Default=YES State=UP\n",
            port + 1
        );
        std::fs::write(own("slurm.conf"), config).unwrap();
        let cluster = Cluster {
            _daemons: vec![
                start(&folder, DAEMONS[0], &["-D", "-c"]),
                start(&folder, DAEMONS[1], &["-D", "-N", "localhost"]),
            ],
            folder,
        };
        let begin = Instant::now();
        while !cluster
            .slurm("sinfo", &["-h", "-o", "%t"])
            .1
            .starts_with("idle")
        {
            assert!(begin.elapsed() < PATIENCE, "{}", cluster.log());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        cluster
    }

    /// What the daemons say.
    fn log(&self) -> String {
        let read = |name| std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        read("slurmctld.log") + &read("slurmd.log")
    }

    /// A command of Slurm.
    fn slurm(&self, command: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = Command::new(command)
            .args(arguments)
            .env("SLURM_CONF", self.folder.join("slurm.conf"))
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
            .expect("a command of Slurm");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    /// A job of a user, to its end.
    fn job(&self, gres: &[&str], command: &[&str]) -> (Option<i32>, String, String) {
        let user = USER.to_string();
        let arguments = [&["--uid", &user, "-n1", "-t1"], gres, command].concat();
        self.slurm("srun", &arguments)
    }
}

fn start(folder: &Path, daemon: &str, arguments: &[&str]) -> Ending {
    let name = Path::new(daemon).file_name().unwrap().to_str().unwrap();
    let log = std::fs::File::create(folder.join(format!("{name}.log"))).unwrap();
    let child: Child = Command::new(daemon)
        .args(arguments)
        .env("SLURM_CONF", folder.join("slurm.conf"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("a daemon");
    Ending(child)
}

#[test]
fn a_job_has_a_slice_as_long_as_it_runs() {
    let node = Node::new();
    let program = node.path("quota");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/quota.cu");
    support::nvcc(&source, &[], &program);
    // What users of the node reach.
    std::fs::set_permissions(node.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(node.path("bin")).unwrap();
    std::fs::copy(support::command(), node.path("bin/ringfence")).unwrap();
    let _manager = node.manager();
    let cluster = Cluster::start(&node);
    let program = program.to_str().unwrap();

    let (code, stdout, stderr) = cluster.job(&["--gres=ringfence:2"], &[program, "100", "200"]);
    assert_eq!(code, Some(0), "{stderr}{}", cluster.log());
    assert_eq!(
        stdout,
        "total 128 MiB\n100 MiB: cudaSuccess 7\n200 MiB: cudaErrorMemoryAllocation 0\n"
    );
    // While it runs, the slice is the user's, and of another one's not.
    let list = [
        "/bin/sh",
        "-c",
        "ls -ln \"${RINGFENCE_OPTIONS##*socket=}\"; id -u",
    ];
    let (_, stdout, stderr) = cluster.job(&["--gres=ringfence:1"], &list);
    assert!(stdout.contains("srw------- 1 65534 "), "{stdout}{stderr}");
    assert!(stdout.ends_with("\n65534\n"), "{stdout}{stderr}");
    // A job that asks for none gets none.
    let none = [
        "/bin/sh",
        "-c",
        "echo \"${LD_PRELOAD-}${RINGFENCE_OPTIONS-}.\"; id -u",
    ];
    let (_, stdout, stderr) = cluster.job(&[], &none);
    assert_eq!(stdout, ".\n65534\n", "{stderr}");
    // More than there is.
    let (code, _, stderr) = cluster.job(&["--gres=ringfence:5"], &["/bin/true"]);
    assert_ne!(code, Some(0));
    assert!(
        stderr.contains("Requested node configuration is not available"),
        "{stderr}"
    );

    // Nothing is left behind; epilogs run after srun has returned.
    let begin = Instant::now();
    let is_idle = || {
        cluster
            .slurm("sinfo", &["-h", "-o", "%t"])
            .1
            .starts_with("idle")
    };
    while !node.state().slices.is_empty() || !is_idle() {
        assert!(
            begin.elapsed() < PATIENCE,
            "{:?}{}",
            node.state().slices,
            cluster.log()
        );
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
