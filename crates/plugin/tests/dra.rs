//! The driver of dynamic resource allocation between a kubelet, an API server and a
//! manager.

use crate::support;

use plugin::api::{ContainerAllocateResponse, Mount};
use plugin::dra::{DRIVER, api};
use serde_json::{Value, json};
use std::io::BufRead;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use support::cluster::{Cluster, NODE_UID, tls};
use support::container::Image;
use support::dra_kubelet::{Kubelet, claim};
use support::{Ending, Node, UNIT};

const UID: &str = "0b1c2d3e-0000-4000-8000-00000000000a";
const OTHER_UID: &str = "0b1c2d3e-0000-4000-8000-00000000000b";

/// A node and its cluster.
struct Stage {
    node: Node,
    cluster: Cluster,
    kubelet: Kubelet,
}

fn stage() -> Stage {
    let node = Node::new();
    let cluster = Cluster::start("secret", "node-a");
    std::fs::write(node.path("token"), "secret\n").unwrap();
    let kubelet = Kubelet::new(&node.path("registry"));
    Stage {
        node,
        cluster,
        kubelet,
    }
}

impl Stage {
    fn start(&self) -> Ending {
        self.start_with(&[])
    }

    fn start_with(&self, arguments: &[&str]) -> Ending {
        let mut driver = self.node.dra_driver(&self.cluster.address);
        driver.args(arguments).stderr(Stdio::null());
        Ending(driver.spawn().expect("a driver"))
    }

    /// Runs one that ends by itself; what it says.
    fn fails(&self, change: impl FnOnce(&mut Command)) -> String {
        let mut driver = self.node.dra_driver(&self.cluster.address);
        change(&mut driver);
        let output = driver.output().expect("a driver");
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{text}");
        text
    }

    /// Names and memory of the slices that there are.
    fn slices(&self) -> Vec<(String, u64)> {
        let slices = self.node.state().slices.into_iter();
        slices.map(|slice| (slice.name, slice.memory)).collect()
    }

    /// The description of a claim's slice for the container runtime.
    fn description(&self, uid: &str) -> Option<Value> {
        let path = self
            .node
            .path("cdi")
            .join(format!("ringfence.dev-claim-{uid}.json"));
        let text = std::fs::read_to_string(path).ok()?;
        Some(serde_json::from_str(&text).expect("JSON"))
    }
}

fn unit(request: &str, number: usize) -> Value {
    json!({
        "request": request,
        "driver": DRIVER,
        "pool": "node-a",
        "device": format!("unit-{number}")
    })
}

fn process_memory(amount: &str) -> Value {
    json!([{
        "source": "FromClaim",
        "opaque": { "driver": DRIVER, "parameters": {
            "apiVersion": "ringfence.dev/v1",
            "kind": "SliceParameters",
            "processMemory": amount
        } }
    }])
}

/// Units that the cluster knows of.
fn devices(slices: &[Value]) -> usize {
    let devices = slices
        .iter()
        .filter_map(|slice| slice["spec"]["devices"].as_array());
    devices.map(Vec::len).sum()
}

#[test]
fn a_claim_becomes_a_slice_and_ends() {
    let stage = stage();
    let _manager = stage.node.manager();
    let _driver = stage.start();
    let mut driver = stage.kubelet.registered();
    let info = &driver.info;
    assert_eq!(
        (info.kind.as_str(), info.name.as_str()),
        ("DRAPlugin", DRIVER)
    );
    assert_eq!(
        info.supported_versions,
        ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
    );
    let status = driver.call_astray("/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/Other");
    assert_eq!(status.code(), tonic::Code::Unimplemented);

    // Both requests of the claim are of one slice, and each names it once.
    let results = json!([
        unit("a", 0),
        unit("a", 3),
        unit("b/second", 5),
        { "request": "nic", "driver": "nic.example.com", "pool": "p", "device": "d" },
    ]);
    stage
        .cluster
        .allocate("mine", UID, results, process_memory("96Mi"));
    let mine = claim("mine", UID);
    let prepared = driver.prepare_one(&mine).unwrap();
    let id = format!("ringfence.dev/claim={UID}");
    let device = |request: &str, number: usize, ids: &[&str]| api::Device {
        request_names: vec![request.into()],
        pool_name: "node-a".into(),
        device_name: format!("unit-{number}"),
        cdi_device_ids: ids.iter().map(|id| (*id).into()).collect(),
        share_id: None,
    };
    let expected = [
        device("a", 0, &[&id]),
        device("a", 3, &[]),
        device("b", 5, &[&id]),
    ];
    assert_eq!(prepared, expected);
    assert_eq!(stage.slices(), [(format!("claim-{UID}"), 3 * UNIT)]);
    let folder = stage.node.state().slices[0].folder.clone();
    let number = folder.metadata().unwrap().ino();
    let description = stage.description(UID).unwrap();
    assert_eq!(description["kind"], "ringfence.dev/claim");
    assert_eq!(description["devices"][0]["name"], UID);
    let edits = &description["devices"][0]["containerEdits"];
    assert!(edits.get("deviceNodes").is_none());
    assert_eq!(edits["mounts"][0]["hostPath"], folder.to_str().unwrap());
    let options = "RINGFENCE_OPTIONS=device=tenant:check=off:socket=/run/ringfence/ringfence.sock:tenant-memory=100663296";
    assert_eq!(edits["env"][1], options);

    // Again, by either version: what is there stays.
    driver.is_beta = true;
    assert_eq!(driver.prepare_one(&mine).unwrap(), expected);
    assert_eq!(folder.metadata().unwrap().ino(), number);
    // A claim of the same name is another one.
    stage
        .cluster
        .allocate("other", OTHER_UID, json!([unit("a", 1)]), json!([]));
    let all = driver.prepare(&[mine.clone(), claim("other", OTHER_UID)]);
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    let error = driver.prepare_one(&claim("other", UID)).unwrap_err();
    assert!(error.contains("another one of its name"), "{error}");
    assert_eq!(stage.slices().len(), 2);

    driver.unprepare(&mine).unwrap();
    assert_eq!(stage.slices(), [(format!("claim-{OTHER_UID}"), UNIT)]);
    assert_eq!(stage.description(UID), None);
    // Also where the claim is gone from the cluster, and more than once.
    driver.is_beta = false;
    driver.unprepare(&mine).unwrap();
    driver.unprepare(&claim("never", "0000")).unwrap();
    assert!(stage.description(OTHER_UID).is_some());
    let left = std::fs::read_dir(stage.node.path("cdi")).unwrap().count();
    assert_eq!(left, 1);
    assert_eq!(stage.cluster.wrong(), [""; 0]);
}

#[test]
fn driver_manager_and_node_may_start_again() {
    let stage = stage();
    let mut manager = stage.node.manager();
    let running = stage.start();
    let mine = claim("mine", UID);
    stage
        .cluster
        .allocate("mine", UID, json!([unit("a", 0)]), json!([]));
    let prepared = stage.kubelet.registered().prepare_one(&mine).unwrap();
    let folder = stage.node.state().slices[0].folder.clone();
    let number = folder.metadata().unwrap().ino();

    // One that was killed leaves its sockets.
    drop(running);
    let _driver = stage.start();
    let driver = stage.kubelet.registered();
    assert_eq!(driver.prepare_one(&mine).unwrap(), prepared);
    assert_eq!(folder.metadata().unwrap().ino(), number);

    // Without a manager, one clear error; with the next one, what was there.
    manager.0.kill().unwrap();
    manager.0.wait().unwrap();
    stage.cluster.until("no device", |slices| {
        slices.len() == 1 && devices(slices) == 0
    });
    for error in [
        driver.prepare_one(&mine).unwrap_err(),
        driver.unprepare(&mine).unwrap_err(),
    ] {
        assert!(error.contains("there is no manager at"), "{error}");
    }
    let manager = stage.node.manager();
    assert_eq!(driver.prepare_one(&mine).unwrap(), prepared);
    assert_eq!(folder.metadata().unwrap().ino(), number);
    stage
        .cluster
        .until("all devices", |slices| devices(slices) == 8);

    // A node that starts again has nothing in /run: what was prepared is prepared anew.
    drop(manager);
    std::fs::remove_dir_all(stage.node.slices()).unwrap();
    std::fs::remove_dir_all(stage.node.path("cdi")).unwrap();
    let _manager = stage.node.manager();
    assert_eq!(stage.slices(), []);
    assert_eq!(driver.prepare_one(&mine).unwrap(), prepared);
    assert_eq!(stage.slices(), [(format!("claim-{UID}"), UNIT)]);
    assert!(stage.description(UID).is_some());

    // Another kubelet removes sockets.
    std::fs::remove_dir_all(stage.node.path("registry")).unwrap();
    std::fs::remove_dir_all(stage.node.path("plugins")).unwrap();
    let driver = stage.kubelet.registered();
    assert_eq!(driver.prepare_one(&mine).unwrap(), prepared);
    driver.unprepare(&mine).unwrap();
    assert_eq!(stage.slices(), []);
}

#[test]
fn the_cluster_knows_what_the_node_has() {
    let stage = stage();
    let mut manager = stage.node.manager();
    let running = stage.start();
    let generation = |slices: &[Value]| slices[0]["spec"]["pool"]["generation"].as_i64().unwrap();
    let slices = stage
        .cluster
        .until("devices", |slices| devices(slices) == 8);
    assert_eq!(slices.len(), 1);
    let first = generation(&slices);
    let spec = &slices[0]["spec"];
    assert_eq!(
        (&spec["driver"], &spec["nodeName"]),
        (&json!(DRIVER), &json!("node-a"))
    );
    assert_eq!(
        spec["devices"][7],
        json!({ "name": "unit-7", "capacity": { "memory": { "value": "64Mi" } } })
    );
    let owner = &slices[0]["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("Node"), &json!(NODE_UID))
    );

    // The next driver has nothing to say.
    drop(running);
    let writes = stage.cluster.writes();
    let mut driver = stage.node.dra_driver(&stage.cluster.address);
    let mut driver = Ending(driver.stderr(Stdio::piped()).spawn().unwrap());
    let lines = std::io::BufReader::new(driver.0.stderr.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.contains("the cluster knows of 8 units")));
    std::thread::spawn(move || lines.for_each(drop));
    assert_eq!(stage.cluster.writes(), writes);

    // What cannot be used is withdrawn, and a newer state has a larger number.
    manager.0.kill().unwrap();
    manager.0.wait().unwrap();
    let slices = stage.cluster.until("no device", |slices| {
        slices.len() == 1 && devices(slices) == 0
    });
    assert!(generation(&slices) > first);
    let _manager = stage.node.manager();
    stage
        .cluster
        .until("devices", |slices| devices(slices) == 8);
    // A kubelet that starts removes them, and its server may not be there for a while.
    stage.cluster.stop(true);
    stage.cluster.wipe();
    std::fs::write(stage.node.path("token"), "renewed").unwrap();
    stage.cluster.renew("renewed");
    stage.cluster.stop(false);
    stage
        .cluster
        .until("devices", |slices| devices(slices) == 8);
    assert_eq!(stage.cluster.wrong(), [""; 0]);
}

#[test]
fn memory_can_be_one_device() {
    let stage = stage();
    let _manager = stage.node.manager();
    let _driver = stage.start_with(&["--capacity"]);
    let slices = stage
        .cluster
        .until("a device", |slices| devices(slices) == 1);
    let policy = json!({ "default": "64Mi", "validRange": { "min": "64Mi", "step": "64Mi" } });
    let memory = json!({ "value": "512Mi", "requestPolicy": policy });
    let device = json!({
        "name": "gpu",
        "capacity": { "memory": memory },
        "allowMultipleAllocations": true
    });
    assert_eq!(slices[0]["spec"]["devices"], json!([device]));
    let part = json!([{
        "request": "a", "driver": DRIVER, "pool": "node-a", "device": "gpu",
        "shareID": OTHER_UID, "consumedCapacity": { "memory": "128Mi" }
    }]);
    stage.cluster.allocate("mine", UID, part, json!([]));
    let mut driver = stage.kubelet.registered();
    let prepared = driver.prepare_one(&claim("mine", UID)).unwrap();
    assert_eq!(prepared[0].share_id.as_deref(), Some(OTHER_UID));
    driver.is_beta = true;
    let prepared = driver.prepare_one(&claim("mine", UID)).unwrap();
    assert_eq!(prepared[0].share_id, None);
    assert_eq!(stage.slices(), [(format!("claim-{UID}"), 2 * UNIT)]);
    assert_eq!(stage.cluster.wrong(), [""; 0]);
}

#[test]
fn a_container_gets_its_claim_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/quota.cu");
    let program = folder.path().join("quota");
    support::nvcc(&source, &[], &program);
    let stage = stage();
    let _manager = stage.node.manager();
    let _driver = stage.start();
    stage
        .cluster
        .allocate("mine", UID, json!([unit("a", 0), unit("a", 1)]), json!([]));
    stage
        .kubelet
        .registered()
        .prepare_one(&claim("mine", UID))
        .unwrap();
    // What the container runtime does with the description.
    let description = stage.description(UID).unwrap();
    let edits = &description["devices"][0]["containerEdits"];
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let environment = edits["env"].as_array().unwrap().iter();
    let environment = environment.map(|variable| {
        let variable = text(variable);
        let (name, value) = variable.split_once('=').expect("a variable");
        (name.to_owned(), value.to_owned())
    });
    let mounts = edits["mounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| Mount {
            container_path: text(&mount["containerPath"]),
            host_path: text(&mount["hostPath"]),
            read_only: mount["options"].as_array().unwrap().contains(&json!("ro")),
        });
    let answer = ContainerAllocateResponse {
        envs: environment.collect(),
        mounts: mounts.collect(),
        ..ContainerAllocateResponse::default()
    };
    let image = Image::new(&[&program], &stage.node.libraries().join("libringfence.so"));
    let (code, stdout, stderr) = image.run(&answer, &[], &["/app/quota"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stdout, format!("total {} MiB\n", (2 * UNIT) >> 20));
    let listed = image.run(&answer, &[], &["/bin/ls", "-A", "/dev"]);
    assert_eq!(listed, (Some(0), String::new(), String::new()));
}

#[test]
fn what_cannot_be_prepared_is_one_error() {
    let stage = stage();
    let _manager = stage.node.manager();
    let running = stage.start();
    let driver = stage.kubelet.registered();
    let cases = [
        (json!([]), json!([]), "nothing is allocated"),
        (
            json!([{ "request": "a", "driver": "nic.example.com", "pool": "p", "device": "d" }]),
            json!([]),
            "but one of nic.example.com",
        ),
        (
            json!([unit("a", 8)]),
            json!([]),
            "there is no device `unit-8`",
        ),
        (
            json!([unit("a", 1)]),
            process_memory("2gb"),
            "processMemory: `2gb` is no number",
        ),
        (
            // More than the manager gives one tenant.
            json!([
                unit("a", 0),
                unit("a", 1),
                unit("a", 2),
                unit("a", 3),
                unit("a", 4)
            ]),
            json!([]),
            "--memory-per-tenant",
        ),
    ];
    for (results, config, part) in cases {
        stage.cluster.allocate("mine", UID, results, config);
        let error = driver.prepare_one(&claim("mine", UID)).unwrap_err();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
    let error = driver.prepare_one(&claim("none", UID)).unwrap_err();
    assert!(error.contains("no claim default/none"), "{error}");
    let error = driver.prepare_one(&claim("mine", OTHER_UID)).unwrap_err();
    assert!(error.contains("another one of its name"), "{error}");
    for uid in ["", "../../x", "a b", &"x".repeat(80)] {
        let error = driver.prepare_one(&claim("mine", uid)).unwrap_err();
        assert!(error.contains("is no UID"), "{error}");
        assert!(driver.unprepare(&claim("mine", uid)).is_err());
    }
    stage.cluster.stop(true);
    let error = driver.prepare_one(&claim("mine", UID)).unwrap_err();
    assert!(
        error.contains("503") && error.contains("it starts"),
        "{error}"
    );
    stage.cluster.stop(false);
    assert_eq!(stage.slices(), []);
    assert_eq!(stage.description(UID), None);

    // A slice that containers have is not made anew under them.
    stage
        .cluster
        .allocate("mine", UID, json!([unit("a", 0)]), json!([]));
    driver.prepare_one(&claim("mine", UID)).unwrap();
    drop(running);
    let _driver = stage.start_with(&["--unit", "128m"]);
    let driver = stage.kubelet.registered();
    let error = driver.prepare_one(&claim("mine", UID)).unwrap_err();
    assert!(error.contains("another --unit"), "{error}");
    assert_eq!(stage.slices(), [(format!("claim-{UID}"), UNIT)]);
    driver.unprepare(&claim("mine", UID)).unwrap();
    driver.prepare_one(&claim("mine", UID)).unwrap();
    assert_eq!(stage.slices(), [(format!("claim-{UID}"), 2 * UNIT)]);
}

#[test]
fn what_a_driver_cannot_do_is_one_error() {
    let stage = stage();
    let _manager = stage.node.manager();
    // A cluster that would give the whole device to one claim.
    stage.cluster.forget();
    let text = stage.fails(|driver| {
        driver.arg("--capacity");
    });
    assert!(
        text.contains("enable its feature DRAConsumableCapacity"),
        "{text}"
    );
    assert_eq!(stage.cluster.resource_slices(), [Value::Null; 0]);
    let text = stage.fails(|driver| {
        driver.args(["--authority", "/nowhere/ca.crt"]);
    });
    assert!(
        text.contains("error: /nowhere/ca.crt cannot be used"),
        "{text}"
    );
    let text = stage.fails(|driver| {
        driver.args(["--server", "http://127.0.0.1:1"]);
    });
    assert!(text.contains("is no address of an API server"), "{text}");
    let text = stage.fails(|driver| {
        driver.args(["--unit", "1m"]);
    });
    assert!(text.contains("no multiple of 64m"), "{text}");
    let mut bare = Command::new(env!("CARGO_BIN_EXE_ringfence-dra-driver"));
    let bare = bare.env_remove("NODE_NAME").output().unwrap();
    assert!(String::from_utf8_lossy(&bare.stderr).contains("NODE_NAME is not set"));

    // A server that another authority has signed is not told the token.
    let mut driver = stage.node.dra_driver(&stage.cluster.address);
    driver.arg("--authority").arg(tls("other.pem"));
    let mut driver = Ending(driver.stderr(Stdio::piped()).spawn().unwrap());
    let lines = std::io::BufReader::new(driver.0.stderr.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let line = lines
        .find(|line| line.contains("cannot be published"))
        .unwrap();
    assert!(line.contains("certificate"), "{line}");
    assert_eq!(stage.cluster.resource_slices(), [Value::Null; 0]);
}
