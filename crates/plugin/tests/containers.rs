//! What the plugin allocates is enough for a container without device files, and
//! no container gets more than that, whatever it does.

use crate::support;

use plugin::api::ContainerAllocateResponse;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::container::Image;
use support::kubelet::Kubelet;
use support::{Ending, Node};

/// Builds a program.
fn build(folder: &Path, source: &Path, flags: &[&str]) -> PathBuf {
    let name = format!(
        "{}{}",
        source.file_stem().unwrap().display(),
        flags.concat().replace('=', "-")
    );
    let program = folder.join(name);
    support::nvcc(source, flags, &program);
    program
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cuda")
        .join(name)
}

/// A node with a plugin, of which these units are allocated.
struct Cluster {
    node: Node,
    _manager: Ending,
    _plugin: Ending,
    _kubelet: Kubelet,
    answers: Vec<ContainerAllocateResponse>,
}

fn cluster(containers: &[&[String]]) -> Cluster {
    let node = Node::new();
    let manager = node.manager();
    let mut kubelet = Kubelet::start(&node.kubelet());
    let plugin = node.start_plugin();
    let registered = kubelet.registered();
    let connection = kubelet.connect(&registered);
    let answers = connection.allocate(containers).expect("slices");
    for units in containers {
        connection.before_start(units).expect("slices");
    }
    Cluster {
        node,
        _manager: manager,
        _plugin: plugin,
        _kubelet: kubelet,
        answers,
    }
}

fn units(numbers: &[usize]) -> Vec<String> {
    numbers
        .iter()
        .map(|number| format!("unit-{number}"))
        .collect()
}

#[test]
fn programs_compute_in_a_container_what_they_compute_alone() {
    let folder = tempfile::tempdir().unwrap();
    let polynomials = toolchain::workspace().join("suite/programs/polynomials.cu");
    // The shared runtime, which the image does not have, and the static one.
    let programs = [&["-cudart=shared"][..], &["-cudart=static"]];
    let programs = programs.map(|flags| build(folder.path(), &polynomials, flags));
    let cluster = cluster(&[&units(&[0, 1])]);
    let library = cluster.node.libraries().join("libringfence.so");
    let image = Image::new(&[&programs[0], &programs[1]], &library);
    for program in &programs {
        let preloaded = [
            library.clone(),
            library.with_file_name("cudart/libcudart.so.13"),
        ];
        let preloaded = preloaded.map(|path| path.display().to_string());
        let alone = Command::new(program)
            .env("LD_PRELOAD", preloaded.join(":"))
            .env("RINGFENCE_OPTIONS", "device=cpu:check=off")
            .env_remove("RINGFENCE_SETTINGS")
            .output()
            .unwrap();
        assert!(
            alone.status.success() && !alone.stdout.is_empty(),
            "{alone:?}"
        );
        let path = format!("/app/{}", program.file_name().unwrap().display());
        let (code, stdout, stderr) = image.run(&cluster.answers[0], &[], &[&path]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
        assert_eq!(stdout.as_bytes(), alone.stdout);
    }
    let answer = &cluster.answers[0];
    let (code, listed, stderr) =
        image.run(answer, &[], &["/bin/ls", "-A", "/dev", "/run/ringfence"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(listed, "/dev:\n\n/run/ringfence:\nringfence.sock\n");
}

#[test]
fn a_container_gets_what_was_allocated_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let quota = build(folder.path(), &source("quota.cu"), &[]);
    let cluster = cluster(&[&units(&[0, 1]), &units(&[2])]);
    let [large, small] = &cluster.answers[..] else {
        panic!("two answers");
    };
    let library = cluster.node.libraries().join("libringfence.so");
    let image = Image::new(&[&quota], &library);
    let run = |answer, environment: &[(&str, &str)], arguments: &[&str]| {
        let command: Vec<&str> = std::iter::once("/app/quota")
            .chain(arguments.iter().copied())
            .collect();
        image.run(answer, environment, &command)
    };
    let socket = "/run/ringfence/ringfence.sock";
    let (code, stdout, stderr) = run(large, &[], &["100", "200"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(
        stdout,
        "total 128 MiB\n100 MiB: cudaSuccess 7\n200 MiB: cudaErrorMemoryAllocation 0\n"
    );
    let (_, stdout, _) = run(small, &[], &["50", "100"]);
    assert_eq!(
        stdout,
        "total 64 MiB\n50 MiB: cudaSuccess 7\n100 MiB: cudaErrorMemoryAllocation 0\n"
    );
    // It may take less, and say so itself.
    let options = format!("device=tenant:socket={socket}:tenant-memory=64m");
    let (_, stdout, _) = run(large, &[("RINGFENCE_OPTIONS", &options)], &[]);
    assert_eq!(stdout, "total 64 MiB\n");

    // Asking for more is refused, whoever asks how.
    let options = format!("device=tenant:socket={socket}:tenant-memory=256m");
    let (code, stdout, stderr) = run(small, &[("RINGFENCE_OPTIONS", &options)], &["50"]);
    assert_eq!(code, Some(1), "{stdout}");
    let part = "268435456 bytes of memory are asked for, and a tenant may have 67108864";
    assert!(stderr.contains(part), "{stderr}");

    // A second process of a container shares what the first has.
    let mut first = image.container(large, &[], &["/app/quota", "wait"]);
    let mut first = Ending(first.spawn().unwrap());
    let mut lines = BufReader::new(first.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "total 128 MiB");
    assert_eq!(lines.next().unwrap().unwrap(), "waiting");
    let (code, _, stderr) = run(large, &[], &["1"]);
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains("other processes have 134217728 of the 134217728"),
        "{stderr}"
    );
    // Another container is not concerned.
    assert_eq!(run(small, &[], &["50"]).0, Some(0));
    drop(first.0.stdin.take());
    assert!(first.0.wait().unwrap().success());

    // What is not mounted is not there: other slices, the control socket, the
    // manager's own socket.
    for path in [cluster.node.slices(), cluster.node.path("manager.sock")] {
        let options = format!("device=tenant:socket={}", path.display());
        let (code, _, stderr) = run(small, &[("RINGFENCE_OPTIONS", &options)], &["1"]);
        assert_eq!(code, Some(1));
        assert!(stderr.contains("there is no manager at"), "{stderr}");
    }
    // And what is mounted cannot be changed.
    let script = "rm /run/ringfence/ringfence.sock; : > /opt/ringfence/lib/libringfence.so";
    let (_, _, stderr) = image.run(small, &[], &["/bin/sh", "-c", script]);
    assert_eq!(
        stderr.matches("Read-only file system").count(),
        1,
        "{stderr}"
    );
    assert_eq!(run(small, &[], &["50"]).0, Some(0));
}

/// What a runtime does with a device of a specification of the Container Device
/// Interface.
fn by_cdi(spec: &str, device: &str) -> ContainerAllocateResponse {
    let spec: serde_json::Value = serde_json::from_str(spec).expect("JSON");
    assert_eq!(spec["kind"], "ringfence.dev/gpu");
    let mut devices = spec["devices"].as_array().expect("devices").iter();
    let device = devices
        .find(|each| each["name"] == device)
        .expect("the device");
    let edits = &device["containerEdits"];
    let list = |name: &str| edits[name].as_array().expect("a list").clone();
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let variables = list("env").into_iter().map(|variable| {
        let variable = text(&variable);
        let (name, value) = variable.split_once('=').expect("a variable");
        (name.to_owned(), value.to_owned())
    });
    let mounts = list("mounts").into_iter().map(|mount| plugin::api::Mount {
        container_path: text(&mount["containerPath"]),
        host_path: text(&mount["hostPath"]),
        read_only: mount["options"]
            .as_array()
            .expect("options")
            .contains(&"ro".into()),
    });
    ContainerAllocateResponse {
        envs: variables.collect(),
        mounts: mounts.collect(),
        ..ContainerAllocateResponse::default()
    }
}

#[test]
fn a_container_gets_a_slice_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let quota = build(folder.path(), &source("quota.cu"), &[]);
    let node = Node::new();
    let _manager = node.manager();
    let ringfence = |arguments: &[&str]| {
        let output = Command::new(support::command())
            .args(arguments)
            .arg("--slices")
            .arg(node.slices())
            .output()
            .expect("the command");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (
            output.status.success(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let libraries = node.libraries();
    let cdi = ["cdi", "--libraries", libraries.to_str().unwrap()];
    let (is_done, _, stderr) = ringfence(&cdi);
    assert!(
        !is_done && stderr.contains("there is no slice for containers"),
        "{stderr}"
    );
    assert!(ringfence(&["slice", "add", "mine", "--memory", "65m"]).0);
    assert!(ringfence(&["slice", "add", "other", "--memory", "64m"]).0);
    let (is_done, _, stderr) = ringfence(&["slice", "add", "mine", "--memory", "1g"]);
    assert!(
        !is_done && stderr.contains("there is a slice mine already"),
        "{stderr}"
    );
    let (_, listed, _) = ringfence(&["slice", "list"]);
    let listed: Vec<_> = listed
        .lines()
        .map(|line| line.split('\t').take(4).collect::<Vec<_>>())
        .collect();
    assert_eq!(
        listed[1..],
        [
            ["mine", "134217728", "0", "0"],
            ["other", "67108864", "0", "0"]
        ]
    );

    let (is_done, spec, stderr) = ringfence(&cdi);
    assert!(is_done, "{stderr}");
    let answer = by_cdi(&spec, "mine");
    let image = Image::new(&[&quota], &libraries.join("libringfence.so"));
    let run = || image.run(&answer, &[], &["/app/quota", "200"]);
    assert_eq!(
        run().1,
        "total 128 MiB\n200 MiB: cudaErrorMemoryAllocation 0\n"
    );

    // A slice that ends takes the device from who is using it.
    let mut using = image.container(&answer, &[], &["/app/quota", "wait", "1"]);
    let mut using = Ending(using.spawn().unwrap());
    let mut lines = BufReader::new(using.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.nth(1).unwrap().unwrap(), "waiting");
    assert!(ringfence(&["slice", "remove", "mine"]).0);
    drop(using.0.stdin.take());
    assert_eq!(
        lines.next().unwrap().unwrap(),
        "1 MiB: cudaErrorDevicesUnavailable 0"
    );
    let (_, _, stderr) = ringfence(&["slice", "env", "mine"]);
    assert!(stderr.contains("there is no slice mine"), "{stderr}");
}
