//! The manifests in `deploy/kubernetes`: they fit each other, the commands that
//! they start, and what the plugin answers.

mod support;

use plugin::api;
use saphyr::{LoadableYamlNode, Yaml};
use std::collections::BTreeMap;
use std::process::Command;

fn text(name: &str) -> String {
    let path = toolchain::workspace().join("deploy/kubernetes").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The value at a path of keys and numbers.
#[track_caller]
fn at<'y, 't>(yaml: &'y Yaml<'t>, path: &str) -> &'y Yaml<'t> {
    path.split('/').fold(yaml, |yaml, key| {
        let found = match key.parse::<usize>() {
            Ok(number) => yaml.as_vec().and_then(|all| all.get(number)),
            Err(_) => yaml.as_mapping_get(key),
        };
        found.unwrap_or_else(|| panic!("no {key} of {path}"))
    })
}

#[track_caller]
fn word<'y>(yaml: &'y Yaml<'_>, path: &str) -> &'y str {
    at(yaml, path)
        .as_str()
        .unwrap_or_else(|| panic!("{path} is no text"))
}

#[track_caller]
fn list<'y, 't>(yaml: &'y Yaml<'t>, path: &str) -> &'y [Yaml<'t>] {
    at(yaml, path)
        .as_vec()
        .unwrap_or_else(|| panic!("{path} is no list"))
}

/// Each `--option=value`, which the command's help must name.
fn options<'y>(container: &'y Yaml<'_>, help: &str) -> BTreeMap<&'y str, &'y str> {
    let words = list(container, "args").iter().filter_map(Yaml::as_str);
    let options = words.filter_map(|word| word.split_once('='));
    let options: BTreeMap<_, _> = options.collect();
    for option in options.keys() {
        assert!(help.contains(&format!("{option} <")), "no {option}");
    }
    options
}

fn help(command: &mut Command) -> String {
    let output = command.arg("--help").output().expect("a command");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_daemon_set_fits_the_commands_and_the_plugin() {
    let text = text("ringfence.yaml");
    let documents = Yaml::load_from_str(&text).expect("YAML");
    let [namespace, set] = &documents[..] else {
        panic!("two documents");
    };
    assert_eq!(word(namespace, "kind"), "Namespace");
    assert_eq!(
        word(namespace, "metadata/name"),
        word(set, "metadata/namespace")
    );
    assert_eq!(word(set, "kind"), "DaemonSet");
    assert_eq!(
        at(set, "spec/selector/matchLabels"),
        at(set, "spec/template/metadata/labels")
    );
    let pod = at(set, "spec/template/spec");
    let mut of_host = BTreeMap::new();
    for volume in list(pod, "volumes") {
        of_host.insert(word(volume, "name"), word(volume, "hostPath/path"));
    }
    let mounts = |container| -> BTreeMap<&str, &str> {
        let mounts = list(container, "volumeMounts").iter();
        mounts
            .map(|mount| (of_host[word(mount, "name")], word(mount, "mountPath")))
            .collect()
    };
    let [manager, plugin] = list(pod, "containers") else {
        panic!("two containers");
    };
    for container in [manager, plugin, &list(pod, "initContainers")[0]] {
        let security = at(container, "securityContext");
        assert_eq!(word(security, "capabilities/drop/0"), "ALL");
        assert_eq!(
            at(security, "allowPrivilegeEscalation").as_bool(),
            Some(false)
        );
    }

    let help_of_manager = help(Command::new(support::command()).arg("manager"));
    let of_manager = options(manager, &help_of_manager);
    let help_of_plugin = help(&mut Command::new(env!(
        "CARGO_BIN_EXE_ringfence-device-plugin"
    )));
    let of_plugin = options(plugin, &help_of_plugin);
    // The kubelet mounts what the plugin names, so it must be the host's path.
    let slices = of_manager["--slices"];
    assert_eq!(of_plugin["--slices"], slices);
    assert_eq!(mounts(manager)[slices], slices);
    assert_eq!(mounts(plugin)[slices], slices);
    assert_eq!(mounts(plugin)[api::FOLDER], api::FOLDER);
    // `--libraries` is both the host's path and the image's.
    assert_eq!(of_plugin["--libraries"], "/opt/ringfence/lib");
    let install = &list(pod, "initContainers")[0];
    assert_eq!(mounts(install)["/opt/ringfence"], "/node");
    let copied: Vec<_> = list(install, "command")
        .iter()
        .filter_map(Yaml::as_str)
        .collect();
    assert_eq!(copied[copied.len() - 2..], ["/opt/ringfence/lib", "/node/"]);
    // Units of the plugin are within what the manager gives.
    let bytes = |text| model::settings::bytes(text).expect("bytes");
    assert!(bytes(of_plugin["--unit"]).is_multiple_of(support::UNIT));
    assert!(bytes(of_manager["--memory-per-tenant"]) > 75 << 30);
    let words: Vec<_> = help_of_plugin.split_whitespace().collect();
    assert!(
        words
            .windows(2)
            .any(|two| two == ["[default:", "ringfence.dev/gpu-memory]"])
    );
}

#[test]
fn the_pods_ask_for_the_resource_and_nothing_of_the_node() {
    let text = text("pod.yaml");
    let documents = Yaml::load_from_str(&text).expect("YAML");
    assert_eq!(documents.len(), 2);
    for pod in &documents {
        assert_eq!(word(pod, "kind"), "Pod");
        let container = at(pod, "spec/containers/0");
        let limits = at(container, "resources/limits").as_mapping_get("ringfence.dev/gpu-memory");
        assert!(
            limits
                .and_then(Yaml::as_integer)
                .is_some_and(|count| count > 0)
        );
        assert!(at(pod, "spec").as_mapping_get("volumes").is_none());
    }
    let annotations = at(&documents[1], "metadata/annotations");
    let options = annotations.as_mapping_get("ringfence.dev/options");
    let options = options.and_then(Yaml::as_str).expect("options");
    let mut settings = model::Settings::default();
    settings
        .apply_options(options)
        .expect("options of Ringfence");
    assert_eq!(settings.device, Some(model::DeviceKind::Tenant));
    assert_eq!(settings.tenant_memory, 2 << 30);
    let socket = std::path::Path::new(container::RUN).join(protocol::SLICE_SOCKET);
    assert_eq!(settings.socket, Some(socket));
    let variable = at(&documents[1], "spec/containers/0/env/0");
    assert_eq!(word(variable, "name"), "RINGFENCE_OPTIONS");
    let path = word(variable, "valueFrom/fieldRef/fieldPath");
    assert_eq!(path, "metadata.annotations['ringfence.dev/options']");
}
