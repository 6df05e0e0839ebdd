//! Specifications follow the rules of the Container Device Interface 0.6.0, and the
//! environment is what a loader and Ringfence read.

use container::cdi::Spec;
use container::{Edits, EditsError, Libraries, environment};
use std::path::{Path, PathBuf};

/// The rules of SPEC.md for what is written here: required fields, their types, the
/// forms of kind, names and variables, absolute paths.
const RULES: &str = r#"{
  "type": "object",
  "required": ["cdiVersion", "kind", "devices"],
  "additionalProperties": false,
  "properties": {
    "cdiVersion": { "const": "0.6.0" },
    "kind": { "type": "string", "pattern": "^[a-z][a-z0-9.-]*[a-z0-9]/[A-Za-z][A-Za-z0-9_-]*$" },
    "devices": {
      "type": "array",
      "minItems": 1,
      "items": {
        "type": "object",
        "required": ["name", "containerEdits"],
        "additionalProperties": false,
        "properties": {
          "name": { "type": "string", "pattern": "^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$" },
          "containerEdits": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": false,
            "properties": {
              "env": {
                "type": "array",
                "items": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*=" }
              },
              "mounts": {
                "type": "array",
                "items": {
                  "type": "object",
                  "required": ["hostPath", "containerPath"],
                  "additionalProperties": false,
                  "properties": {
                    "hostPath": { "type": "string", "pattern": "^/" },
                    "containerPath": { "type": "string", "pattern": "^/" },
                    "options": { "type": "array", "items": { "type": "string" } },
                    "type": { "type": "string" }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}"#;

/// A folder with Ringfence's libraries.
fn installed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libringfence.so"), "").unwrap();
    std::fs::create_dir(folder.path().join("cudart")).unwrap();
    for name in ["libcudart.so.13", "libcudart.so.12"] {
        std::fs::write(folder.path().join("cudart").join(name), "").unwrap();
    }
    folder
}

#[test]
fn a_specification_follows_the_rules() {
    let rules = serde_json::from_str(RULES).unwrap();
    let rules = jsonschema::validator_for(&rules).unwrap();
    let installed = installed();
    let run = Path::new("/run/ringfence/slices/a/run");
    let edits = Edits::new(run, Path::new("/opt/on-the-host"), installed.path()).unwrap();
    let text = Spec::new([("a", &edits), ("job-7.b", &edits)])
        .to_json()
        .unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let errors: Vec<_> = rules
        .iter_errors(&value)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    let device = &value["devices"][1];
    assert_eq!(device["name"], "job-7.b");
    let mounts = device["containerEdits"]["mounts"].as_array().unwrap();
    let of = |at: usize| (&mounts[at]["hostPath"], &mounts[at]["containerPath"]);
    assert_eq!(
        of(0),
        (&run.to_str().unwrap().into(), &"/run/ringfence".into())
    );
    assert_eq!(
        of(1),
        (&"/opt/on-the-host".into(), &"/opt/ringfence/lib".into())
    );
    assert!(mounts.iter().all(|mount| mount["options"][0] == "ro"));
    assert_eq!(
        device["containerEdits"]["env"][0],
        "LD_PRELOAD=/opt/ringfence/lib/libringfence.so:/opt/ringfence/lib/cudart/libcudart.so.12:\
         /opt/ringfence/lib/cudart/libcudart.so.13"
    );
    // The rules can fail.
    for broken in [
        text.replace("\"job-7.b\"", "\"job-\""),
        text.replace("0.6.0", "0.3.0"),
        text.replace("\"hostPath\": \"/", "\"hostPath\": \""),
        text.replace("containerEdits", "edits"),
    ] {
        assert!(!rules.is_valid(&serde_json::from_str(&broken).unwrap()));
    }
}

#[test]
fn what_the_variables_cannot_hold_is_refused() {
    let installed = installed();
    let of = |run: &str, there: &str| {
        let here = installed.path();
        let there = Path::new(there);
        environment(Path::new(run), Libraries { here, there })
    };
    assert!(of("/run/a", "/opt/lib").is_ok());
    for odd in ["/a b", "/a:b", "/a'b", "/a\\b", "/a\nb", "/a$b"] {
        let error = of(odd, "/opt/lib").unwrap_err();
        assert_eq!(
            error,
            EditsError::Path(Path::new(odd).join("ringfence.sock"))
        );
        assert!(
            of("/run/a", odd)
                .unwrap_err()
                .to_string()
                .contains("choose another path")
        );
    }
    let missing = PathBuf::from("/nowhere/libringfence.so");
    let here = Path::new("/nowhere");
    let error = environment(here, Libraries { here, there: here }).unwrap_err();
    assert_eq!(error, EditsError::Missing(missing));
}
