//! The manifests in `deploy/kubernetes`: they fit each other, the commands that
//! they start, and what the plugin answers.

use crate::support;

use plugin::{api, dra};
use saphyr::{LoadableYamlNode, Yaml};
use std::collections::BTreeMap;
use std::process::Command;
use support::objects;

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

/// Option and value of each word of a container's arguments.
fn given(container: &serde_json::Value) -> BTreeMap<String, String> {
    let words = container["args"].as_array().expect("arguments").iter();
    let words = words.filter_map(|word| word.as_str()?.split_once('='));
    words
        .map(|(option, value)| (option.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn the_manifest_of_the_dra_driver_fits_the_commands_and_the_kubelet() {
    let documents = objects::documents("dra.yaml");
    let of = |kind| objects::of_kind(&documents, kind);
    let namespace = &of("Namespace")["metadata"]["name"];
    let account = &of("ServiceAccount")["metadata"];
    let (role, binding) = (of("ClusterRole"), of("ClusterRoleBinding"));
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    let subject = &binding["subjects"][0];
    assert_eq!(subject["name"], account["name"]);
    assert_eq!(subject["namespace"], *namespace);
    assert_eq!(account["namespace"], *namespace);
    let class = of("DeviceClass");
    let errors = objects::errors(&objects::own(), "DeviceClass", class);
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(class["metadata"]["name"], dra::DRIVER);
    let expression = format!("device.driver == \"{}\"", dra::DRIVER);
    assert_eq!(
        class["spec"]["selectors"][0]["cel"]["expression"],
        expression.as_str()
    );

    let set = of("DaemonSet");
    assert_eq!(set["metadata"]["namespace"], *namespace);
    let template = &set["spec"]["template"];
    assert_eq!(
        set["spec"]["selector"]["matchLabels"],
        template["metadata"]["labels"]
    );
    let pod = &template["spec"];
    assert_eq!(pod["serviceAccountName"], account["name"]);
    assert_eq!(pod["automountServiceAccountToken"], false);
    let containers = pod["containers"].as_array().expect("containers");
    let [manager, driver] = &containers[..] else {
        panic!("two containers");
    };
    for container in [manager, driver, &pod["initContainers"][0]] {
        let security = &container["securityContext"];
        assert_eq!(security["capabilities"]["drop"][0], "ALL");
        assert_eq!(security["allowPrivilegeEscalation"], false);
    }
    let volumes = pod["volumes"].as_array().expect("volumes");
    let mounts = |container: &serde_json::Value| -> BTreeMap<String, String> {
        let mounts = container["volumeMounts"].as_array().expect("mounts").iter();
        let mounts = mounts.map(|mount| {
            let volume = volumes
                .iter()
                .find(|volume| volume["name"] == mount["name"]);
            let volume = volume.unwrap_or_else(|| panic!("no volume for {mount}"));
            let host = volume["hostPath"]["path"].as_str().unwrap_or("projected");
            (
                host.to_owned(),
                mount["mountPath"].as_str().expect("a path").to_owned(),
            )
        });
        mounts.collect()
    };
    let help_of_driver = help(&mut Command::new(env!(
        "CARGO_BIN_EXE_ringfence-dra-driver"
    )));
    let help_of_driver = help_of_driver
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let (of_manager, of_driver) = (given(manager), given(driver));
    for option in of_driver.keys() {
        assert!(
            help_of_driver.contains(&format!("{option} <")),
            "no {option}"
        );
    }
    // The kubelet and the container runtime see what the driver names, so it must be
    // the host's path.
    let (slices, seen) = (&of_manager["--slices"], mounts(driver));
    assert_eq!((&of_driver["--slices"], &seen[slices]), (slices, slices));
    assert_eq!(mounts(manager)[slices], *slices);
    for folder in [dra::api::REGISTRY, dra::api::PLUGINS, "/var/run/cdi"] {
        assert_eq!(seen[folder], folder);
        assert!(
            help_of_driver.contains(&format!("[default: {folder}]")),
            "{folder}"
        );
    }
    let token = format!("[default: {}/token]", seen["projected"]);
    assert!(help_of_driver.contains(&token), "{token}");
    assert!(!mounts(manager).contains_key("projected"));
    assert_eq!(driver["env"][0]["name"], "NODE_NAME");
    let bytes = |text: &String| model::settings::bytes(text).expect("bytes");
    assert!(bytes(&of_driver["--unit"]).is_multiple_of(support::UNIT));
    assert!(bytes(&of_manager["--memory-per-tenant"]) <= 32 * bytes(&of_driver["--unit"]));
    // Both forms start the same manager.
    let plugin = objects::documents("ringfence.yaml");
    let other = &objects::of_kind(&plugin, "DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(other["containers"][0], *manager);
    assert_eq!(other["initContainers"], pod["initContainers"]);
}

#[test]
fn the_pod_with_a_claim_asks_for_what_the_driver_has() {
    let documents = objects::documents("dra-pod.yaml");
    let [units, pod, capacity] = &documents[..] else {
        panic!("three documents");
    };
    for template in [units, capacity] {
        let errors = objects::errors(&objects::own(), "ResourceClaimTemplate", template);
        assert!(errors.is_empty(), "{errors:?}");
        let request = &template["spec"]["spec"]["devices"]["requests"][0];
        assert_eq!(request["exactly"]["deviceClassName"], dra::DRIVER);
    }
    let devices = &units["spec"]["spec"]["devices"];
    let opaque = &devices["config"][0]["opaque"];
    assert_eq!(opaque["driver"], dra::DRIVER);
    assert_eq!(
        devices["config"][0]["requests"][0],
        devices["requests"][0]["name"]
    );
    // What a scheduler would allocate is a slice.
    let set = objects::documents("dra.yaml");
    let set = objects::of_kind(&set, "DaemonSet");
    let driver = &set["spec"]["template"]["spec"]["containers"][1];
    let unit = model::settings::bytes(&given(driver)["--unit"]).expect("bytes");
    let device = |number| {
        serde_json::json!({
            "request": devices["requests"][0]["name"],
            "driver": dra::DRIVER,
            "pool": "node-a",
            "device": format!("unit-{number}")
        })
    };
    let claim = serde_json::json!({
        "metadata": { "uid": "u" },
        "status": { "allocation": { "devices": {
            "results": [device(0), device(1)],
            "config": [{ "source": "FromClaim", "opaque": opaque }]
        } } }
    });
    let claim: dra::ResourceClaim = serde_json::from_value(claim).expect("a claim");
    let pool = dra::Pool {
        node: "node-a".into(),
        unit,
        sharing: dra::Sharing::Units,
    };
    let prepared = dra::prepared(&claim, "u", &pool, 8).expect("a slice");
    assert_eq!(
        (prepared.memory, prepared.process_memory),
        (6 << 30, Some(3 << 30))
    );
    let amount = &capacity["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"];
    let amount = amount["requests"]["memory"].as_str().expect("an amount");
    assert_eq!(dra::quantity(amount), Ok(prepared.memory));
    let name = &pod["spec"]["resourceClaims"][0];
    assert_eq!(name["resourceClaimTemplateName"], units["metadata"]["name"]);
    let claims = &pod["spec"]["containers"][0]["resources"]["claims"];
    assert_eq!(claims[0]["name"], name["name"]);
    assert!(pod["spec"].get("volumes").is_none());
}
