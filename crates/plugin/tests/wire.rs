//! Messages have the bytes that `deviceplugin.proto` says, and calls its names.
//!
//! `RINGFENCE_KUBELET_PROTO` may name the file that Kubernetes publishes
//! (staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto); then the
//! two are compared as well.

use plugin::api::{self, calls};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a .proto file declares.
#[derive(Debug, Default, PartialEq)]
struct Declared {
    /// By message, by number: name and type.
    messages: BTreeMap<String, BTreeMap<u32, (String, String)>>,
    /// Path, request, answer.
    calls: BTreeSet<(String, String, String)>,
}

/// Reads the part of the language that the file uses.
fn declared(text: &str) -> Declared {
    let mut found = Declared::default();
    let (mut package, mut within, mut is_comment) = (String::new(), String::new(), false);
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or("").trim();
        if line.starts_with("/*") || is_comment {
            is_comment = !line.ends_with("*/");
            continue;
        }
        let line = line.replace(['{', '}', ';', '(', ')'], " ");
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["package", name] => package = name.into(),
            ["message", name] => {
                within = name.into();
                found.messages.insert(within.clone(), BTreeMap::new());
            }
            ["service", name] => within = name.into(),
            ["rpc", name, request, "returns", ref answer @ ..] => {
                let path = format!("/{package}.{within}/{name}");
                found.calls.insert((path, request.into(), answer.join(" ")));
            }
            [ref kind @ .., name, "=", number] if !kind.is_empty() && kind[0] != "option" => {
                let field = (name.to_owned(), kind.join(" "));
                let number = number.parse().expect("a number");
                let message = found.messages.get_mut(&within).expect("a message");
                assert_eq!(message.insert(number, field), None);
            }
            _ => {}
        }
    }
    found
}

fn ours() -> Declared {
    declared(include_str!("deviceplugin.proto"))
}

#[test]
fn it_is_what_kubernetes_publishes() {
    let ours = ours();
    assert_eq!((ours.messages.len(), ours.calls.len()), (20, 6));
    if let Some(path) = std::env::var_os("RINGFENCE_KUBELET_PROTO") {
        let published = std::fs::read_to_string(path).expect("the published file");
        assert_eq!(declared(&published), ours);
    }
}

#[test]
fn calls_have_these_names() {
    let paths = ours().calls.into_iter().map(|(path, ..)| path);
    let own = [
        calls::REGISTER,
        calls::OPTIONS,
        calls::LIST,
        calls::PREFER,
        calls::ALLOCATE,
        calls::PRE_START,
    ];
    let own: BTreeSet<String> = own.map(Into::into).into();
    assert_eq!(paths.collect::<BTreeSet<_>>(), own);
}

/// The fields in encoded bytes: number, and the value or bytes.
fn fields(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut at = 0;
    let varint = |at: &mut usize| {
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let byte = bytes[*at];
            *at += 1;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
        value
    };
    let mut found = Vec::new();
    while at < bytes.len() {
        let key = varint(&mut at);
        let value = match key & 7 {
            0 => varint(&mut at).to_le_bytes().to_vec(),
            2 => {
                let length = varint(&mut at) as usize;
                at += length;
                bytes[at - length..at].to_vec()
            }
            kind => panic!("an encoding of kind {kind}"),
        };
        found.push(((key >> 3) as u32, value));
    }
    found
}

/// Compares the bytes of a message, of which each field has a value, with its
/// declaration; `values` are the values in order of their numbers.
#[track_caller]
fn same(name: &str, message: &impl Message, values: &[&[u8]]) {
    let declared = &ours().messages[name];
    let found = fields(&message.encode_to_vec());
    assert_eq!(declared.len(), found.len(), "{name}");
    for ((number, field), value) in declared.iter().zip(values) {
        let bytes = &found.iter().find(|(found, _)| found == number);
        assert_eq!(
            bytes.map(|(_, bytes)| &bytes[..]),
            Some(*value),
            "{name}: {field:?}"
        );
    }
}

const ONE: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn messages_have_these_bytes() {
    let text = |text: &str| text.to_owned();
    same("Empty", &api::Empty {}, &[]);
    same(
        "PreStartContainerResponse",
        &api::PreStartContainerResponse {},
        &[],
    );
    let options = api::DevicePluginOptions {
        pre_start_required: true,
        get_preferred_allocation_available: true,
    };
    same("DevicePluginOptions", &options, &[ONE, ONE]);
    let register = api::RegisterRequest {
        version: text("v"),
        endpoint: text("e"),
        resource_name: text("r"),
        options: Some(options.clone()),
    };
    same(
        "RegisterRequest",
        &register,
        &[b"v", b"e", b"r", &options.encode_to_vec()],
    );
    let node = api::NumaNode { id: 1 };
    same("NUMANode", &node, &[ONE]);
    let topology = api::TopologyInfo {
        nodes: vec![node.clone()],
    };
    same("TopologyInfo", &topology, &[&node.encode_to_vec()]);
    let device = api::Device {
        id: text("i"),
        health: text("h"),
        topology: Some(topology.clone()),
    };
    same("Device", &device, &[b"i", b"h", &topology.encode_to_vec()]);
    let list = api::ListAndWatchResponse {
        devices: vec![device.clone()],
    };
    same("ListAndWatchResponse", &list, &[&device.encode_to_vec()]);
    let before = api::PreStartContainerRequest {
        devices_ids: vec![text("d")],
    };
    same("PreStartContainerRequest", &before, &[b"d"]);
}

#[test]
fn messages_about_containers_have_these_bytes() {
    let text = |text: &str| text.to_owned();
    let prefer = api::ContainerPreferredAllocationRequest {
        available_device_ids: vec![text("a")],
        must_include_device_ids: vec![text("m")],
        allocation_size: 1,
    };
    same(
        "ContainerPreferredAllocationRequest",
        &prefer,
        &[b"a", b"m", ONE],
    );
    let all = api::PreferredAllocationRequest {
        container_requests: vec![prefer.clone()],
    };
    same(
        "PreferredAllocationRequest",
        &all,
        &[&prefer.encode_to_vec()],
    );
    let preferred = api::ContainerPreferredAllocationResponse {
        device_ids: vec![text("d")],
    };
    same("ContainerPreferredAllocationResponse", &preferred, &[b"d"]);
    let all = api::PreferredAllocationResponse {
        container_responses: vec![preferred.clone()],
    };
    same(
        "PreferredAllocationResponse",
        &all,
        &[&preferred.encode_to_vec()],
    );
    let allocate = api::ContainerAllocateRequest {
        devices_ids: vec![text("d")],
    };
    same("ContainerAllocateRequest", &allocate, &[b"d"]);
    let all = api::AllocateRequest {
        container_requests: vec![allocate.clone()],
    };
    same("AllocateRequest", &all, &[&allocate.encode_to_vec()]);
    let mount = api::Mount {
        container_path: text("c"),
        host_path: text("h"),
        read_only: true,
    };
    same("Mount", &mount, &[b"c", b"h", ONE]);
    let file = api::DeviceSpec {
        container_path: text("c"),
        host_path: text("h"),
        permissions: text("p"),
    };
    same("DeviceSpec", &file, &[b"c", b"h", b"p"]);
    let cdi = api::CdiDevice { name: text("n") };
    same("CDIDevice", &cdi, &[b"n"]);
    // A map is a list of messages with the fields key, 1, and value, 2.
    let map = HashMap::from([(text("k"), text("v"))]);
    let entry = [0x0a, 1, b'k', 0x12, 1, b'v'];
    let answer = api::ContainerAllocateResponse {
        envs: map.clone(),
        mounts: vec![mount.clone()],
        devices: vec![file.clone()],
        annotations: map,
        cdi_devices: vec![cdi.clone()],
    };
    let (mounts, devices, cdi) = (
        mount.encode_to_vec(),
        file.encode_to_vec(),
        cdi.encode_to_vec(),
    );
    same(
        "ContainerAllocateResponse",
        &answer,
        &[&entry, &mounts, &devices, &entry, &cdi],
    );
    let all = api::AllocateResponse {
        container_responses: vec![answer.clone()],
    };
    same("AllocateResponse", &all, &[&answer.encode_to_vec()]);
}
