//! The plugin between a kubelet and a manager.

use crate::support;

use plugin::api;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use support::kubelet::Kubelet;
use support::{Node, UNIT};
use tonic::Code;

fn units(numbers: &[usize]) -> Vec<String> {
    numbers
        .iter()
        .map(|number| format!("unit-{number}"))
        .collect()
}

/// Names and memory of the slices that there are.
fn slices(node: &Node) -> Vec<(String, u64)> {
    let slices = node.state().slices.into_iter();
    slices.map(|slice| (slice.name, slice.memory)).collect()
}

#[test]
fn a_kubelet_gets_units_and_slices() {
    let node = Node::new();
    let _manager = node.manager();
    let mut kubelet = Kubelet::start(&node.kubelet());
    let _plugin = node.start_plugin();
    let registered = kubelet.registered();
    assert_eq!(registered.version, "v1beta1");
    assert_eq!(registered.resource_name, "ringfence.dev/gpu-memory");
    let plugin = kubelet.connect(&registered);
    let options = plugin.options();
    assert!(options.pre_start_required && options.get_preferred_allocation_available);
    assert_eq!(registered.options, Some(options));

    let (healthy, all) = plugin.list().next();
    assert_eq!(healthy, 8);
    let names: Vec<_> = all.into_iter().map(|device| device.id).collect();
    assert_eq!(names, units(&[0, 1, 2, 3, 4, 5, 6, 7]));
    let free = units(&[7, 5, 3]);
    let preferred = plugin.preferred(&free, &units(&[7]), 2).unwrap();
    assert_eq!(preferred, units(&[7, 3]));
    let error = plugin.preferred(&free, &[], 4).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);

    let answers = plugin.allocate(&[&units(&[0, 1]), &units(&[2])]).unwrap();
    assert_eq!(
        slices(&node),
        [("units-3".into(), 2 * UNIT), ("units-4".into(), UNIT)]
    );
    for (answer, slice) in answers.iter().zip(node.state().slices) {
        let none = (
            &answer.devices[..],
            &answer.cdi_devices[..],
            answer.annotations.len(),
        );
        assert_eq!(none, (&[][..], &[][..], 0));
        let mount = |host: &std::path::Path, container: &str| api::Mount {
            container_path: container.into(),
            host_path: host.to_str().unwrap().into(),
            read_only: true,
        };
        let expected = [
            mount(&slice.folder, "/run/ringfence"),
            mount(&node.libraries(), "/opt/ringfence/lib"),
        ];
        assert_eq!(answer.mounts, expected);
        let options = "device=tenant:check=off:socket=/run/ringfence/ringfence.sock";
        assert_eq!(answer.envs["RINGFENCE_OPTIONS"], options);
        let preloaded = answer.envs["LD_PRELOAD"].split(':');
        let preloaded: Vec<_> = preloaded.collect();
        assert_eq!(preloaded[0], "/opt/ringfence/lib/libringfence.so");
        assert!(preloaded[1..].contains(&"/opt/ringfence/lib/cudart/libcudart.so.13"));
        assert_eq!(answer.envs.len(), 2);
    }

    // Units of a container that has ended, in another combination.
    let inode = |slice: usize| node.state().slices[slice].folder.metadata().unwrap().ino();
    let other = inode(1);
    plugin.allocate(&[&units(&[1, 3])]).unwrap();
    assert_eq!(
        slices(&node),
        [("units-4".into(), UNIT), ("units-a".into(), 2 * UNIT)]
    );
    assert_eq!(inode(0), other);
    // The same again is for somebody else, who shares nothing with the one before.
    let before = std::fs::File::open(&node.state().slices[1].folder).unwrap();
    let number = before.metadata().unwrap().ino();
    plugin.allocate(&[&units(&[1, 3])]).unwrap();
    assert_ne!(inode(1), number);
    // A container that starts again has what it had.
    let number = inode(1);
    plugin.before_start(&units(&[1, 3])).unwrap();
    assert_eq!(inode(1), number);
    // Also where the slice is gone, as after the machine has started again.
    protocol::Control::connect(&node.slices())
        .unwrap()
        .remove("units-a")
        .unwrap();
    plugin.before_start(&units(&[1, 3])).unwrap();
    assert_eq!(
        slices(&node),
        [("units-4".into(), UNIT), ("units-a".into(), 2 * UNIT)]
    );

    for bad in [
        units(&[]),
        units(&[1, 1]),
        vec!["unit".into()],
        units(&[999]),
    ] {
        let error = plugin.allocate(&[&bad]).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        assert!(plugin.before_start(&bad).is_err());
    }
    let error = plugin
        .allocate(&[&units(&[5, 6]), &units(&[6])])
        .unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    // More than the manager gives one tenant would be granted in part only.
    let error = plugin.allocate(&[&units(&[0, 1, 2, 3, 4])]).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    assert!(error.message().contains("--memory-per-tenant"), "{error}");
    assert_eq!(slices(&node).len(), 2);
}

#[test]
fn units_are_as_healthy_as_the_manager() {
    let node = Node::new();
    let mut manager = node.manager();
    let mut kubelet = Kubelet::start(&node.kubelet());
    let _plugin = node.start_plugin();
    let registered = kubelet.registered();
    let plugin = kubelet.connect(&registered);
    let mut lists = plugin.list();
    assert_eq!(lists.next().0, 8);
    plugin.allocate(&[&units(&[0])]).unwrap();
    let folder = node.state().slices[0].folder.clone();
    let number = folder.metadata().unwrap().ino();

    manager.0.kill().unwrap();
    manager.0.wait().unwrap();
    let (healthy, all) = lists.next();
    assert_eq!((healthy, all.len()), (0, 8));
    let error = plugin.allocate(&[&units(&[1])]).unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");

    // Containers that run have this folder mounted: the next manager's socket
    // appears in it.
    let _manager = node.manager();
    assert_eq!(lists.next().0, 8);
    assert_eq!(slices(&node), [("units-1".into(), UNIT)]);
    assert_eq!(folder.metadata().unwrap().ino(), number);
    assert!(std::os::unix::net::UnixStream::connect(folder.join("ringfence.sock")).is_ok());
}

#[test]
fn plugin_and_kubelet_may_start_again() {
    let node = Node::new();
    let _manager = node.manager();
    let mut kubelet = Kubelet::start(&node.kubelet());
    let plugin = node.start_plugin();
    let registered = kubelet.registered();
    kubelet
        .connect(&registered)
        .allocate(&[&units(&[0])])
        .unwrap();

    // One that was killed leaves its socket.
    drop(plugin);
    let _plugin = node.start_plugin();
    let registered = kubelet.registered();
    kubelet
        .connect(&registered)
        .before_start(&units(&[0]))
        .unwrap();
    assert_eq!(slices(&node), [("units-1".into(), UNIT)]);

    // A kubelet that starts removes all sockets, also the plugin's.
    drop(kubelet);
    let mut kubelet = Kubelet::start(&node.kubelet());
    let registered = kubelet.registered();
    let connection = kubelet.connect(&registered);
    assert_eq!(connection.list().next().0, 8);
    connection.before_start(&units(&[0])).unwrap();
    assert_eq!(slices(&node), [("units-1".into(), UNIT)]);
}

#[test]
fn what_a_plugin_cannot_do_is_one_error() {
    let node = Node::new();
    let _manager = node.manager();
    let why = "the resource is taken";
    let _kubelet = Kubelet::that_refuses(&node.kubelet(), why);
    let output = node.plugin().stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("error: the kubelet at") && text.contains(why),
        "{text}"
    );
    let mut plugin = std::process::Command::new(env!("CARGO_BIN_EXE_ringfence-device-plugin"));
    for (unit, part) in [("1m", "no multiple of 64m"), ("0", "a number of bytes")] {
        let output = plugin.args(["--unit", unit]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(part), "{text}");
        plugin = std::process::Command::new(env!("CARGO_BIN_EXE_ringfence-device-plugin"));
    }
}
