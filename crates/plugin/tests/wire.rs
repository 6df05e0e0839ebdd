//! Messages have the bytes that the files `*.proto` beside this one say, and calls
//! their names.
//!
//! `RINGFENCE_KUBELET_PROTO` may name a folder with the files that Kubernetes
//! publishes (staging/src/k8s.io/kubelet/pkg/apis); then they are compared as well.

use plugin::api::{self, calls};
use plugin::dra::api as dra;
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
    // A call's answer may stand in the next line.
    let text = text.replace("\n    returns", " returns");
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

/// The files: name, text, path of the published one, messages and calls.
const FILES: [(&str, &str, &str, usize, usize); 4] = [
    (
        "deviceplugin",
        include_str!("deviceplugin.proto"),
        "deviceplugin/v1beta1/api.proto",
        20,
        6,
    ),
    (
        "pluginregistration",
        include_str!("pluginregistration.proto"),
        "pluginregistration/v1/api.proto",
        4,
        2,
    ),
    ("dra", include_str!("dra.proto"), "dra/v1/api.proto", 8, 2),
    (
        "dra-beta",
        include_str!("dra-beta.proto"),
        "dra/v1beta1/api.proto",
        8,
        2,
    ),
];

fn ours(name: &str) -> Declared {
    let file = FILES.iter().find(|file| file.0 == name).expect("a file");
    declared(file.1)
}

#[test]
fn it_is_what_kubernetes_publishes() {
    for (name, _, path, messages, calls) in FILES {
        let ours = ours(name);
        assert_eq!((ours.messages.len(), ours.calls.len()), (messages, calls));
        if let Some(folder) = std::env::var_os("RINGFENCE_KUBELET_PROTO") {
            let path = std::path::Path::new(&folder).join(path);
            let published = std::fs::read_to_string(path).expect("the published file");
            assert_eq!(declared(&published), ours, "{name}");
        }
    }
}

#[test]
fn both_versions_of_dra_have_the_same_messages_but_for_a_field() {
    let mut messages = ours("dra").messages;
    let device = messages.get_mut("Device").expect("a message");
    let part = ("share_id".to_owned(), "optional string".to_owned());
    assert_eq!(device.remove(&5), Some(part));
    assert_eq!(messages, ours("dra-beta").messages);
}

#[test]
fn calls_have_these_names() {
    let names = |name: &str, own: &[&str]| {
        let paths = ours(name).calls.into_iter().map(|(path, ..)| path);
        let own: BTreeSet<String> = own.iter().map(|call| (*call).into()).collect();
        assert_eq!(paths.collect::<BTreeSet<_>>(), own);
    };
    let own = [
        calls::REGISTER,
        calls::OPTIONS,
        calls::LIST,
        calls::PREFER,
        calls::ALLOCATE,
        calls::PRE_START,
    ];
    names("deviceplugin", &own);
    names(
        "pluginregistration",
        &[dra::calls::INFO, dra::calls::STATUS],
    );
    names("dra", &[dra::calls::PREPARE, dra::calls::UNPREPARE]);
    let beta = [dra::calls::PREPARE_BETA, dra::calls::UNPREPARE_BETA];
    names("dra-beta", &beta);
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
    same_in("deviceplugin", name, message, values);
}

/// The same for a message of another file.
#[track_caller]
fn same_in(file: &str, name: &str, message: &impl Message, values: &[&[u8]]) {
    let declared = &ours(file).messages[name];
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

#[test]
fn messages_of_dra_have_these_bytes() {
    let text = |text: &str| text.to_owned();
    let registration = "pluginregistration";
    same_in(registration, "InfoRequest", &dra::InfoRequest {}, &[]);
    let info = dra::PluginInfo {
        kind: text("t"),
        name: text("n"),
        endpoint: text("e"),
        supported_versions: vec![text("v")],
    };
    same_in(registration, "PluginInfo", &info, &[b"t", b"n", b"e", b"v"]);
    let status = dra::RegistrationStatus {
        plugin_registered: true,
        error: text("e"),
    };
    same_in(registration, "RegistrationStatus", &status, &[ONE, b"e"]);
    let response = dra::RegistrationStatusResponse {};
    same_in(registration, "RegistrationStatusResponse", &response, &[]);

    let claim = dra::Claim {
        namespace: text("s"),
        uid: text("u"),
        name: text("n"),
    };
    same_in("dra", "Claim", &claim, &[b"s", b"u", b"n"]);
    let prepare = dra::NodePrepareResourcesRequest {
        claims: vec![claim.clone()],
    };
    let bytes = claim.encode_to_vec();
    same_in("dra", "NodePrepareResourcesRequest", &prepare, &[&bytes]);
    let unprepare = dra::NodeUnprepareResourcesRequest {
        claims: vec![claim],
    };
    same_in(
        "dra",
        "NodeUnprepareResourcesRequest",
        &unprepare,
        &[&bytes],
    );
    let device = dra::Device {
        request_names: vec![text("r")],
        pool_name: text("p"),
        device_name: text("d"),
        cdi_device_ids: vec![text("c")],
        share_id: Some(text("i")),
    };
    same_in("dra", "Device", &device, &[b"r", b"p", b"d", b"c", b"i"]);
    let answer = dra::NodePrepareResourceResponse {
        devices: vec![device.clone()],
        error: text("e"),
    };
    let bytes = device.encode_to_vec();
    same_in(
        "dra",
        "NodePrepareResourceResponse",
        &answer,
        &[&bytes, b"e"],
    );
    // A map is a list of messages with the fields key, 1, and value, 2.
    let entry = |bytes: Vec<u8>| {
        let mut entry = vec![0x0a, 1, b'u', 0x12, bytes.len() as u8];
        entry.extend(bytes);
        entry
    };
    let all = dra::NodePrepareResourcesResponse {
        claims: HashMap::from([(text("u"), answer.clone())]),
    };
    let bytes = entry(answer.encode_to_vec());
    same_in("dra", "NodePrepareResourcesResponse", &all, &[&bytes]);
    let answer = dra::NodeUnprepareResourceResponse { error: text("e") };
    same_in("dra", "NodeUnprepareResourceResponse", &answer, &[b"e"]);
    let all = dra::NodeUnprepareResourcesResponse {
        claims: HashMap::from([(text("u"), answer.clone())]),
    };
    let bytes = entry(answer.encode_to_vec());
    same_in("dra", "NodeUnprepareResourcesResponse", &all, &[&bytes]);
}
