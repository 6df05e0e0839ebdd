//! Objects of the cluster, and what they must be like.

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Value, json};

/// The definitions of the API.
const PREFIX: &str = "io.k8s.api.resource.v1.";

/// The rules of `resource.schema.json`.
pub fn own() -> Value {
    serde_json::from_str(include_str!("../resource.schema.json")).expect("JSON")
}

/// What is wrong with an object of this kind; empty if nothing is.
pub fn errors(rules: &Value, kind: &str, object: &Value) -> Vec<String> {
    let mut rules = rules.clone();
    rules["$ref"] = json!(format!("#/definitions/{PREFIX}{kind}"));
    let rules = jsonschema::validator_for(&rules).expect("rules");
    let errors = rules.iter_errors(object);
    errors
        .map(|error| format!("{}: {error}", error.instance_path))
        .collect()
}

/// The documents of a file in `deploy/kubernetes`.
pub fn documents(name: &str) -> Vec<Value> {
    let path = toolchain::workspace().join("deploy/kubernetes").join(name);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let documents = Yaml::load_from_str(&text).expect("YAML");
    documents.iter().map(value).collect()
}

/// The document of this kind.
#[track_caller]
pub fn of_kind<'d>(documents: &'d [Value], kind: &str) -> &'d Value {
    let found = documents.iter().find(|document| document["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}"))
}

fn value(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => json!(value),
        Yaml::Value(Scalar::Integer(value)) => json!(value),
        Yaml::Value(Scalar::FloatingPoint(value)) => json!(value.into_inner()),
        Yaml::Value(Scalar::String(value)) => json!(value),
        Yaml::Sequence(all) => all.iter().map(value).collect(),
        Yaml::Mapping(all) => {
            let pairs = all
                .iter()
                .map(|(key, of_key)| (key.as_str().expect("a name").to_owned(), value(of_key)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        other => panic!("{other:?} in YAML"),
    }
}
