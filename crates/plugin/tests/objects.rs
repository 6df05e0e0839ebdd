//! What the cluster is told follows the published schema of `resource.k8s.io/v1`.
//!
//! `RINGFENCE_KUBERNETES_OPENAPI` may name the document that Kubernetes publishes
//! (api/openapi-spec/swagger.json); then `resource.schema.json` is compared with it,
//! and objects are checked against both.

use crate::support;

use plugin::dra::{DEVICES_PER_SLICE, Pool, Sharing, resource_slices};
use serde_json::Value;
use support::objects;

fn pool(sharing: Sharing) -> Pool {
    Pool {
        node: "node-a.example.com".into(),
        unit: 64 << 20,
        sharing,
    }
}

/// The published document. Like a server that is asked to be strict, it takes no
/// field that is not declared.
fn published() -> Option<Value> {
    let path = std::env::var_os("RINGFENCE_KUBERNETES_OPENAPI")?;
    let text = std::fs::read_to_string(path).expect("the published document");
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    let definitions = document["definitions"]
        .as_object_mut()
        .expect("definitions");
    for definition in definitions.values_mut() {
        if definition.get("properties").is_some() {
            definition["additionalProperties"] = Value::Bool(false);
        }
    }
    Some(serde_json::json!({ "definitions": document["definitions"] }))
}

/// Whether the published rule for a value is the same as ours, which may be
/// narrower.
fn is_same(ours: &Value, published: &Value) -> bool {
    ["type", "format", "$ref"]
        .iter()
        .all(|key| ours.get(key) == published.get(key))
        && ["items", "additionalProperties"].iter().all(|key| {
            match (ours.get(key), published.get(key)) {
                (Some(ours), Some(published)) => is_same(ours, published),
                (ours, published) => ours.is_none() == published.is_none(),
            }
        })
}

#[test]
fn the_rules_are_those_that_kubernetes_publishes() {
    let ours = objects::own();
    let ours = ours["definitions"].as_object().expect("definitions");
    assert!(ours.len() > 20);
    let Some(published) = published() else {
        return;
    };
    for (name, ours) in ours {
        let published = &published["definitions"][name];
        assert_eq!(ours["type"], published["type"], "{name}");
        assert_eq!(ours.get("required"), published.get("required"), "{name}");
        let fields = ours.get("properties").and_then(Value::as_object);
        for (field, ours) in fields.into_iter().flatten() {
            let published = &published["properties"][field];
            assert!(
                is_same(ours, published),
                "{name}.{field}: {ours} {published}"
            );
        }
    }
}

#[test]
fn objects_follow_the_rules() {
    let rules = [Some(objects::own()), published()];
    for sharing in [Sharing::Units, Sharing::Capacity] {
        for units in [
            0,
            1,
            8,
            DEVICES_PER_SLICE,
            DEVICES_PER_SLICE + 1,
            1024,
            5000,
        ] {
            let all = resource_slices(&pool(sharing), units);
            let devices: usize = all.iter().map(|object| object.spec.devices.len()).sum();
            let expected = match sharing {
                Sharing::Units => units.min(1024),
                Sharing::Capacity => units.min(1),
            };
            assert_eq!(devices, expected);
            let mut names = std::collections::BTreeSet::new();
            for object in &all {
                assert!(names.insert(&object.metadata.name));
                assert_eq!(object.spec.pool.resource_slice_count, all.len() as i64);
                let object = serde_json::to_value(object).expect("JSON");
                for rules in rules.iter().flatten() {
                    let errors = objects::errors(rules, "ResourceSlice", &object);
                    assert!(errors.is_empty(), "{errors:?}");
                }
            }
        }
    }
}

#[test]
fn manifests_follow_the_rules() {
    for rules in [Some(objects::own()), published()].iter().flatten() {
        let documents = [
            objects::documents("dra.yaml"),
            objects::documents("dra-pod.yaml"),
        ];
        let mut count = 0;
        for document in documents.iter().flatten() {
            if document["apiVersion"] == "resource.k8s.io/v1" {
                let kind = document["kind"].as_str().expect("a kind");
                let errors = objects::errors(rules, kind, document);
                assert!(errors.is_empty(), "{errors:?}");
                count += 1;
            }
        }
        assert_eq!(count, 3);
    }
}

#[test]
fn the_rules_can_fail() {
    let object = resource_slices(&pool(Sharing::Capacity), 8).remove(0);
    let object = serde_json::to_value(object).expect("JSON");
    let broken = [
        ("/spec/pool/generation", Value::from("1")),
        ("/spec/pool/resourceSliceCount", Value::from(0)),
        ("/spec/driver", Value::Null),
        ("/spec/devices/0/name", Value::from("GPU_0")),
        ("/spec/devices/0/capacity/memory/value", Value::from(5)),
        ("/spec/devices/0/capacity/memory/value", Value::from("5g")),
        ("/metadata/name", Value::from("Node")),
        ("/apiVersion", Value::from("resource.k8s.io/v1beta1")),
    ];
    for (field, value) in broken {
        let mut object = object.clone();
        *object.pointer_mut(field).expect("a field") = value;
        let errors = objects::errors(&objects::own(), "ResourceSlice", &object);
        assert_eq!(errors.len(), 1, "{field}: {errors:?}");
    }
    let mut unknown = object.clone();
    unknown["spec"]["devices"][0]["memory"] = Value::from("1Gi");
    assert!(!objects::errors(&objects::own(), "ResourceSlice", &unknown).is_empty());
}
