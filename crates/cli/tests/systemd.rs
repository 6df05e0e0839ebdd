//! The unit that is shipped: what it starts is a command line that `ringfence` takes,
//! its file is one that the manager reads, it keeps what it promises, and systemd
//! accepts it where there is one.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::Scratch;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// The values of a key.
fn values<'t>(unit: &'t str, key: &str) -> Vec<&'t str> {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    lines
        .filter(|(name, _)| *name == key)
        .map(|(_, value)| value)
        .collect()
}

#[test]
fn the_unit_starts_a_manager_that_reads_its_file() {
    let unit = read("ringfence-manager.service");
    for line in unit.lines() {
        let is_known = line.is_empty() || line.starts_with(['#', '[']) || line.contains('=');
        assert!(is_known, "{line}");
    }
    let [start] = values(&unit, "ExecStart")[..] else {
        panic!("one command is started");
    };
    let mut words = start.split(' ');
    assert_eq!(words.next(), Some("/usr/bin/ringfence"));
    let arguments: Vec<&str> = words.collect();
    let scratch = Scratch::new();
    // The file is another one, which names itself as wrong: all before it was taken.
    let wrong = scratch.write("wrong.toml", "wrong = 1\n");
    let wrong = wrong.to_str().unwrap();
    let with = |file: &str| {
        let replaced = |word: &str| match word {
            "/etc/ringfence/manager.toml" => file.to_owned(),
            word => word.to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(|word| replaced(word)).collect();
        assert!(arguments.contains(&file.to_owned()));
        scratch.ringfence(&arguments)
    };
    with(wrong).assert_error(&[wrong, "line 1", "`wrong`"]);
    // The shipped file, with one key more that is wrong.
    let shipped = scratch.write("shipped.toml", read("manager.toml") + "\nwrong = 1\n");
    let line = format!("line {}", read("manager.toml").lines().count() + 2);
    with(shipped.to_str().unwrap()).assert_error(&["`wrong`", &line]);
}

#[test]
fn the_unit_is_hardened() {
    let unit = read("ringfence-manager.service");
    for (key, value) in [
        ("Type", "notify"),
        ("User", "ringfence"),
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("DevicePolicy", "closed"),
        ("DeviceAllow", "char-nvidia* rw"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"),
        (
            "SystemCallFilter",
            "@system-service seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self",
        ),
        ("OOMPolicy", "continue"),
    ] {
        assert_eq!(values(&unit, key), [value], "{key}");
    }
}

#[test]
fn systemd_accepts_the_unit() {
    let verifier = Command::new("systemd-analyze").arg("--version").output();
    if !verifier.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no systemd-analyze");
        return;
    }
    let scratch = Scratch::new();
    // What it starts is not installed here, and its user does not exist.
    let unit = read("ringfence-manager.service")
        .replace("/usr/bin/ringfence", env!("CARGO_BIN_EXE_ringfence"))
        .replace("User=ringfence", "User=root")
        .replace("Group=ringfence", "Group=root");
    let unit = scratch.write("ringfence-manager.service", unit);
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&unit)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    // A key that it does not know is a warning alone.
    assert!(!said.contains("ringfence-manager.service"), "{said}");
}

/// A manager that a service manager has started says when it takes tenants.
#[test]
fn readiness_is_notified() {
    let scratch = Scratch::new();
    let notify = scratch.path("notify.sock");
    let receiver = std::os::unix::net::UnixDatagram::bind(&notify).unwrap();
    receiver
        .set_read_timeout(Some(std::time::Duration::from_secs(60)))
        .unwrap();
    let socket = scratch.path("manager.sock");
    let mut command = scratch.command(["manager", "--device", "cpu", "--socket"]);
    command.arg(&socket).env("NOTIFY_SOCKET", &notify);
    let mut manager = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut bytes = [0; 64];
    let received = receiver.recv(&mut bytes);
    let connected = std::os::unix::net::UnixStream::connect(&socket);
    manager.kill().unwrap();
    manager.wait().unwrap();
    assert_eq!(&bytes[..received.unwrap()], b"READY=1\n");
    connected.expect("it takes tenants then");
}
