//! Checks that crates use each other as the table in `ARCHITECTURE.md` says:
//! each crate has a row, uses only what its row names, and what a row names
//! stands further up. [`crate::modules`] does the same for the modules of a
//! crate.
//!
//! Tests may reach further (a test of instrumented code runs it on the
//! emulator), with one exception: nothing of `emulate`, its tests included,
//! uses `instrument`, because it is the independent judge of its output.

use crate::modules;
use crate::workspace::root;
use anyhow::{Context, Result, ensure};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Rows of a table: crate or module, and what it may use. In order.
pub type Table = Vec<(String, BTreeSet<String>)>;

/// Compares the table with `cargo metadata`.
///
/// # Errors
///
/// Every place where they differ.
pub fn check() -> Result<()> {
    let page = |name: &str| {
        std::fs::read_to_string(root().join(name)).with_context(|| format!("failed to read {name}"))
    };
    let text = page("ARCHITECTURE.md")?;
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()?;
    let mut problems = problems(&table(&text), &metadata);
    let inside = modules::tables(&page(modules::PAGE)?);
    for (name, table) in &inside {
        problems.extend(modules::problems(name, table, &root().join("crates"))?);
    }
    problems.extend(unlisted_tests(&root().join("crates"))?);
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    println!(
        "layers: {} crates as in ARCHITECTURE.md, and the modules in {} tables as in {}",
        metadata.packages.len(),
        inside.len(),
        modules::PAGE
    );
    Ok(())
}

/// Files with tests that are in no program: where a crate's tests are one program,
/// `tests/all.rs` lists them.
fn unlisted_tests(crates: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for entry in std::fs::read_dir(crates)? {
        let tests = entry?.path().join("tests");
        let Ok(all) = std::fs::read_to_string(tests.join("all.rs")) else {
            continue;
        };
        for file in std::fs::read_dir(&tests)? {
            let path = file?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            let is_listed = name == "all" || all.contains(&format!("\nmod {name};\n"));
            if is_source && !is_listed {
                problems.push(format!("{}: tests/all.rs does not list it", path.display()));
            }
        }
    }
    problems.sort();
    Ok(problems)
}

/// The rows of the first table whose head starts with `| crate |`.
pub fn table(text: &str) -> Table {
    rows_of(
        text.lines()
            .skip_while(|line| !line.starts_with("| crate |")),
    )
}

/// The rows of the table that the lines begin with.
pub fn rows_of<'t>(lines: impl Iterator<Item = &'t str>) -> Table {
    lines
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, .., uses] = cells.as_slice() else {
                return None;
            };
            let uses = uses
                .split(',')
                .map(|word| word.trim().trim_matches('`').to_owned())
                .filter(|word| !word.is_empty())
                .collect();
            Some((name.trim_matches('`').to_owned(), uses))
        })
        .collect()
}

/// A crate's name in the table: its package without the project's prefix.
fn short(package: &str) -> &str {
    package.strip_prefix("ringfence-").unwrap_or(package)
}

fn problems(table: &Table, metadata: &Metadata) -> Vec<String> {
    let mut problems = Vec::new();
    let mut above: BTreeSet<&str> = BTreeSet::new();
    let rows: BTreeMap<&str, &BTreeSet<String>> = table
        .iter()
        .map(|(name, uses)| (name.as_str(), uses))
        .collect();
    for (name, uses) in table {
        for used in uses {
            if !above.contains(used.as_str()) {
                problems.push(format!(
                    "ARCHITECTURE.md: `{name}` may use `{used}`, which does not stand above it"
                ));
            }
        }
        if !above.insert(name) {
            problems.push(format!("ARCHITECTURE.md: `{name}` has two rows"));
        }
    }
    let packages: BTreeSet<&str> = metadata
        .packages
        .iter()
        .map(|package| short(&package.name))
        .collect();
    for name in rows.keys().filter(|name| !packages.contains(*name)) {
        problems.push(format!("ARCHITECTURE.md: there is no crate `{name}`"));
    }
    for package in &metadata.packages {
        let name = short(&package.name);
        let Some(uses) = rows.get(name) else {
            problems.push(format!("ARCHITECTURE.md: the crate `{name}` has no row"));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|d| d.path.is_some()) {
            let used = short(&dependency.name);
            let test_only = dependency.kind == DependencyKind::Development;
            if name == "emulate" && used == "instrument" {
                problems
                    .push("`emulate` uses `instrument`; it must stay an independent judge".into());
            } else if !test_only && !uses.contains(used) {
                problems.push(format!(
                    "`{name}` uses `{used}`, which its row in ARCHITECTURE.md does not allow"
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const TABLE: &str = "\
# A page
| crate | one sentence | may use |
| --- | --- | --- |
| `model` | Words. | |
| `ptx` | Text. | |
| `instrument` | Checks. | `ptx`, `model` |
| `emulate` | A CPU. | `ptx`, `model` |

| other | table | here |
";

    type Uses<'n> = &'n [(&'n str, Option<&'n str>)];

    /// What cargo says of packages that use each other.
    fn workspace(packages: &[(&str, Uses)]) -> Metadata {
        let packages: Vec<Value> = packages
            .iter()
            .map(|(name, uses)| {
                let uses: Vec<Value> = uses
                    .iter()
                    .map(|(name, kind)| {
                        json!({
                            "name": name, "kind": kind, "path": "/somewhere", "source": null,
                            "req": "*", "optional": false, "uses_default_features": true,
                            "features": [], "target": null, "rename": null, "registry": null,
                        })
                    })
                    .collect();
                json!({
                    "name": name, "version": "0.1.0", "id": name, "source": null,
                    "dependencies": uses, "targets": [], "features": {},
                    "manifest_path": "/somewhere/Cargo.toml",
                })
            })
            .collect();
        serde_json::from_value(json!({
            "packages": packages, "workspace_members": [], "resolve": null,
            "workspace_root": "/somewhere", "target_directory": "/somewhere/target",
            "version": 1, "metadata": null,
        }))
        .unwrap()
    }

    const GOOD: [(&str, Uses); 4] = [
        ("ringfence-model", &[]),
        ("ringfence-ptx", &[]),
        (
            "ringfence-instrument",
            &[("ringfence-ptx", None), ("ringfence-emulate", Some("dev"))],
        ),
        ("ringfence-emulate", &[("ringfence-model", None)]),
    ];

    #[test]
    fn a_workspace_that_follows_its_table_is_accepted() {
        assert_eq!(
            problems(&table(TABLE), &workspace(&GOOD)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_kind_of_breach_is_named() {
        let mut upward = GOOD;
        upward[1] = ("ringfence-ptx", &[("ringfence-model", None)]);
        let mut judge = GOOD;
        judge[3] = (
            "ringfence-emulate",
            &[("ringfence-instrument", Some("dev"))],
        );
        let unlisted: Vec<_> = GOOD
            .into_iter()
            .chain([("ringfence-extra", &[] as Uses)])
            .collect();
        for (packages, words) in [
            (&upward[..], "`ptx` uses `model`"),
            (&judge, "independent judge"),
            (&unlisted, "`extra` has no row"),
            (&GOOD[1..], "no crate `model`"),
        ] {
            let found = problems(&table(TABLE), &workspace(packages));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(words), "{found:?}");
        }
        let swapped = TABLE.replace("| `model` | Words. | |", "| `model` | Words. | ptx |");
        let found = problems(&table(&swapped), &workspace(&GOOD));
        assert!(found[0].contains("does not stand above"), "{found:?}");
    }

    #[test]
    fn this_workspace_follows_its_table() {
        check().unwrap();
    }

    #[test]
    fn tests_that_no_program_has_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let tests = folder.path().join(name).join("tests");
            std::fs::create_dir_all(&tests).unwrap();
            tests
        };
        let one = of("one");
        std::fs::write(one.join("all.rs"), "//! All.\n\nmod first;\nmod second;\n").unwrap();
        for name in ["first.rs", "second.rs", "third.rs", "third.ptx"] {
            std::fs::write(one.join(name), "").unwrap();
        }
        // Each of these files is a program.
        std::fs::write(of("other").join("first.rs"), "").unwrap();
        let problems = unlisted_tests(folder.path()).unwrap();
        let [problem] = &problems[..] else {
            panic!("{problems:?}");
        };
        assert!(
            problem.ends_with("one/tests/third.rs: tests/all.rs does not list it"),
            "{problem}"
        );
    }
}
