//! Checks that the modules of a crate, or of a folder in it, use each other as a
//! table in [`PAGE`] says, whose head is `| module of` and the name of the crate
//! or the path of the folder (`emulate::device`): each module at its top has a
//! row, uses only what its row names, and what a row names stands further up. So
//! there are no cycles. `lib.rs`, or `mod.rs` of the folder, may use all
//! modules; no module may use it.
//!
//! Uses are read from the text: paths that begin with `crate::` and the path of
//! the folder, or with as many `super::` as lead to the top. Tests may reach
//! further: what stands in modules that are named `tests` is not read.

use crate::layers::{Table, rows_of};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The page with the tables, from the workspace's root.
pub const PAGE: &str = "docs/modules.md";

/// The tables of a page, by crate or folder.
pub fn tables(text: &str) -> Vec<(String, Table)> {
    let lines: Vec<&str> = text.lines().collect();
    let heads = lines.iter().enumerate().filter_map(|(at, line)| {
        let name = line.strip_prefix("| module of `")?.split('`').next()?;
        Some((at, name.to_owned()))
    });
    heads
        .map(|(at, name)| (name, rows_of(lines[at..].iter().copied())))
        .collect()
}

/// Where the modules of a crate or folder do not follow its table.
///
/// # Errors
///
/// If the sources, below the folder of all crates, cannot be read.
pub fn problems(name: &str, table: &Table, crates: &Path) -> Result<Vec<String>> {
    let mut parts = name.split("::");
    let mut source = crates.join(parts.next().unwrap_or_default()).join("src");
    source.extend(parts);
    let mut files = Vec::new();
    collect(&source, &mut Vec::new(), &mut files)?;
    Ok(judge(name, table, &files))
}

/// A file: the modules that it is in, below the top, and its text.
type File = (Vec<String>, String);

fn collect(folder: &Path, inside: &mut Vec<String>, files: &mut Vec<File>) -> Result<()> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("failed to read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            inside.push(stem.into_owned());
            collect(&path, inside, files)?;
            inside.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut modules = inside.clone();
            if !matches!(&*stem, "mod" | "lib" | "main") {
                modules.push(stem.into_owned());
            }
            files.push((modules, std::fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

fn judge(name: &str, table: &Table, files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut above: BTreeSet<&str> = BTreeSet::new();
    let rows: BTreeMap<&str, &BTreeSet<String>> = table
        .iter()
        .map(|(module, uses)| (module.as_str(), uses))
        .collect();
    for (module, uses) in table {
        for used in uses.iter().filter(|used| !above.contains(used.as_str())) {
            problems.push(format!(
                "{PAGE}: `{module}` of `{name}` may use `{used}`, which does not stand above it"
            ));
        }
        if !above.insert(module) {
            problems.push(format!("{PAGE}: `{module}` of `{name}` has two rows"));
        }
    }
    let files = || {
        files
            .iter()
            .filter(|(m, _)| !m.iter().any(|m| m == "tests"))
    };
    let modules: BTreeSet<&str> = files()
        .filter_map(|(modules, _)| modules.first().map(String::as_str))
        .collect();
    for module in above.difference(&modules) {
        problems.push(format!("{PAGE}: `{name}` has no module `{module}`"));
    }
    for module in &modules {
        let Some(allowed) = rows.get(module) else {
            problems.push(format!(
                "{PAGE}: the module `{module}` of `{name}` has no row"
            ));
            continue;
        };
        let own = files().filter(|(m, _)| m.first().is_some_and(|m| m == module));
        let used: BTreeSet<String> = own
            .flat_map(|(m, text)| uses(text, name, m.len()))
            .collect();
        for used in used.iter().filter(|used| *used != module) {
            if !modules.contains(used.as_str()) {
                problems.push(format!(
                    "`{module}` of `{name}` uses `{used}` of its top: it should name the module that declares it"
                ));
            } else if !allowed.contains(used) {
                problems.push(format!(
                    "`{module}` of `{name}` uses `{used}`, which its row in {PAGE} does not allow"
                ));
            }
        }
    }
    problems
}

/// The modules at the top of a crate or folder that a file at this depth names.
fn uses(text: &str, top: &str, depth: usize) -> BTreeSet<String> {
    let text = code_of(text);
    let mut found = BTreeSet::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut paths: Vec<usize> = Vec::new();
    let absolute = match top.split_once("::") {
        None => "crate::".to_owned(),
        Some((_, folder)) => format!("crate::{folder}::"),
    };
    for (at, _) in text.match_indices(&absolute) {
        if !text[..at].ends_with(is_word) {
            paths.push(at + absolute.len());
        }
    }
    let up = "super::".repeat(depth);
    for (at, _) in text.match_indices(&up) {
        if !text[..at].ends_with(is_word) && !text[..at].ends_with("super::") {
            paths.push(at + up.len());
        }
    }
    for at in paths {
        let rest = &text[at..];
        let word = |rest: &str| {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            rest[..end].to_owned()
        };
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        // The first word of each part of the group.
        let (mut open, mut from) = (0, 0);
        for (index, c) in group.char_indices() {
            match c {
                '{' => open += 1,
                ',' | '}' if open == 0 => {
                    found.insert(word(group[from..index].trim_start()));
                    from = index + 1;
                    if c == '}' {
                        break;
                    }
                }
                '}' => open -= 1,
                _ => {}
            }
        }
    }
    found.remove("");
    found
}

/// A file's text without comments and without the tests at its end.
fn code_of(text: &str) -> String {
    let text = match text.find("#[cfg(test)]\nmod ") {
        Some(at) if text[at..].lines().nth(1).is_some_and(|l| l.ends_with('{')) => &text[..at],
        _ => text,
    };
    let lines = text.lines().map(|line| {
        let end = line.find("//").unwrap_or(line.len());
        &line[..end]
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
| module of `maker` | one sentence | may use |
| --- | --- | --- |
| `names` | Words. | |
| `pass` | Makes. | `names` |
| `verify` | Judges. | `names` |

text
";

    fn file(modules: &[&str], text: &str) -> File {
        let modules = modules.iter().map(|&module| module.to_owned()).collect();
        (modules, text.to_owned())
    }

    fn sources() -> Vec<File> {
        vec![
            file(&[], "mod names; mod pass; mod verify; pub use pass::make;"),
            file(&["names"], "pub const A: u32 = 1;\n"),
            file(&["pass"], "use crate::names::A;\n"),
            file(&["verify"], "use super::names;\nmod inner;\n"),
            file(
                &["verify", "inner"],
                "use crate::{names::A};\nuse super::judge;\n",
            ),
        ]
    }

    #[test]
    fn a_crate_that_follows_its_table_is_accepted() {
        let tables = tables(PAGE);
        assert_eq!(tables[0].0, "maker");
        assert_eq!(
            judge("maker", &tables[0].1, &sources()),
            Vec::<String>::new()
        );
        let mut tests = sources();
        tests[3].1 += "#[cfg(test)]\nmod tests {\nuse crate::pass::make;\n}\n";
        tests[4].1 += "// use crate::pass;\n";
        tests.push(file(&["tests"], "use crate::pass::make;\n"));
        tests.push(file(&["verify", "tests"], "use crate::pass::make;\n"));
        assert_eq!(judge("maker", &tables[0].1, &tests), Vec::<String>::new());
    }

    #[test]
    fn a_folder_has_a_table_of_its_own() {
        let (_, table) = tables(PAGE).remove(0);
        let mut files = sources();
        files[3].1 = "use crate::code::names::A;\nuse crate::names::B;\n".into();
        assert_eq!(judge("maker::code", &table, &files), Vec::<String>::new());
        files[3].1 += "use crate::code::pass::make;\n";
        let found = judge("maker::code", &table, &files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("`verify` of `maker::code` uses `pass`"),
            "{found:?}"
        );
    }

    #[test]
    fn each_kind_of_breach_is_named() {
        let (name, table) = tables(PAGE).remove(0);
        for (place, text, words) in [
            (
                3,
                "use crate::pass::make;",
                "`verify` of `maker` uses `pass`",
            ),
            (3, "use crate::{names, pass::{a, b}};", "uses `pass`"),
            (4, "use super::super::pass;", "uses `pass`"),
            (
                1,
                "fn a() { crate::verify::judge() }",
                "`names` of `maker` uses `verify`",
            ),
            (3, "use crate::make;", "uses `make` of its top"),
        ] {
            let mut files = sources();
            files[place].1 += text;
            let found = judge(&name, &table, &files);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(words), "{found:?}");
        }
        let mut more = sources();
        more.push(file(&["extra"], ""));
        assert!(judge(&name, &table, &more)[0].contains("`extra` of `maker` has no row"));
        let found = judge(&name, &table, &sources()[..3]);
        assert!(found[0].contains("has no module `verify`"), "{found:?}");
        let upward = PAGE.replace("Words. | |", "Words. | `pass` |");
        let found = judge(&name, &tables(&upward)[0].1, &sources());
        assert!(found[0].contains("does not stand above"), "{found:?}");
    }
}
