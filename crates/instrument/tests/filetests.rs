//! Runs `filetests/*.ptx`: each holds a module and, in comments, what is
//! expected of its instrumented form.
//!
//! * `// CHECK: text` the output has a line with this text, after the line of
//!   the `CHECK` before it. Blanks count as one.
//! * `// ABSENT: text` no line of the output has this text.
//! * `// SITE: description` all sites, in order, as `describe` spells them.
//! * `// ENTRY: description` all entries, likewise.
//! * `// SHADOW: encoding` the checks are against shadow memory.
//!
//! `RINGFENCE_BLESS=1` rewrites the SITE and ENTRY lines; the others are compared all the
//! same.

use crate::common;

use instrument::{EntryPlan, Instrumented};
use model::AccessSite;
use std::fmt::Write;

fn describe_site(site: &AccessSite) -> String {
    let mut text = format!(
        "{} {} {:?} {:?} {}@{} group {} {:?}",
        site.id.0,
        site.function,
        site.kind,
        site.space,
        site.width,
        site.offset,
        site.group.0,
        site.provenance
    );
    if let Some(source) = &site.source {
        let _ = write!(
            text,
            " at {}:{}:{}",
            source.file, source.line, source.column
        );
    }
    text
}

fn describe_entry(entry: &EntryPlan) -> String {
    let mut text = format!(
        "{} {} roots {:?} launch {:?} exact {} weak {}",
        entry.name,
        if entry.checked_name.is_some() {
            "checked"
        } else {
            "unchecked"
        },
        entry.roots,
        entry.launch_parameter.map(|slot| (slot.offset, slot.size)),
        entry.coverage.exact_sites,
        entry.coverage.weak_sites,
    );
    if !entry.limits.is_empty() {
        let limits = entry.limits.iter().map(|limit| {
            let (root, less) = (limit.root, limit.less);
            let (bytes, residue) = (limit.alignment, limit.residue);
            match bytes {
                1 => format!("{root}-{less}"),
                _ => format!("{root}-{less}/{bytes}+{residue}"),
            }
        });
        let limits: Vec<String> = limits.collect();
        let _ = write!(text, " limits [{}]", limits.join(", "));
    }
    if !entry.indices.is_empty() {
        let indices = entry.indices.iter().map(|index| {
            let instrument::LaunchIndex {
                root,
                scale,
                is_signed,
                first,
                less,
                alignment,
                residue,
            } = index;
            let kind = if *is_signed { 's' } else { 'u' };
            format!("{root}{first:+}+{scale}*{kind}-{less}/{alignment}+{residue}")
        });
        let indices: Vec<String> = indices.collect();
        let _ = write!(text, " indices [{}]", indices.join(", "));
    }
    if !entry.coverage.unchecked_sites.is_empty() {
        let _ = write!(text, " missing {:?}", entry.coverage.unchecked_sites);
    }
    if entry.coverage.calls_without_bounds > 0 {
        let calls = entry.coverage.calls_without_bounds;
        let _ = write!(text, " calls without bounds {calls}");
    }
    if entry.uses_device_malloc {
        text.push_str(" malloc");
    }
    if let Some(residual) = &entry.residual {
        let elided: Vec<u32> = residual.elided.iter().map(|site| site.0).collect();
        let _ = write!(text, " residual without {elided:?}");
    }
    text
}

fn normal(line: &str) -> String {
    line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

fn expected(source: &str, key: &str) -> Vec<String> {
    let prefix = format!("// {key}:");
    source
        .lines()
        .filter_map(|line| line.trim().strip_prefix(&prefix))
        .map(normal)
        .collect()
}

fn judge(name: &str, source: &str, done: &Instrumented) -> Vec<String> {
    let mut wrong = Vec::new();
    // The output holds the module's comments, too.
    let lines: Vec<String> = done
        .text
        .lines()
        .filter(|line| !line.trim().starts_with("//"))
        .map(normal)
        .collect();
    let mut rest = lines.iter();
    for check in expected(source, "CHECK") {
        if !rest.any(|line| line.contains(&check)) {
            wrong.push(format!("{name}: no `{check}` (after the CHECK before it)"));
            break;
        }
    }
    for absent in expected(source, "ABSENT") {
        if let Some(line) = lines.iter().find(|line| line.contains(&absent)) {
            wrong.push(format!(
                "{name}: there should be no `{absent}`, but: `{line}`"
            ));
        }
    }
    let sites: Vec<String> = done
        .sites
        .iter()
        .map(describe_site)
        .map(|s| normal(&s))
        .collect();
    if sites != expected(source, "SITE") {
        wrong.push(format!(
            "{name}: sites differ, they are now\n{}",
            sites.join("\n")
        ));
    }
    let entries: Vec<String> = done
        .entries
        .iter()
        .map(describe_entry)
        .map(|s| normal(&s))
        .collect();
    if entries != expected(source, "ENTRY") {
        wrong.push(format!(
            "{name}: entries differ, they are now\n{}",
            entries.join("\n")
        ));
    }
    wrong
}

/// The module without its expectations, which hold names that are reserved;
/// lines keep their numbers.
fn module_of(source: &str) -> String {
    let keys = ["CHECK", "ABSENT", "SITE", "ENTRY"];
    let is_expectation = |line: &str| {
        keys.iter()
            .any(|key| line.starts_with(&format!("// {key}:")))
    };
    source
        .lines()
        .map(|line| {
            if is_expectation(line) {
                "//\n".to_owned()
            } else {
                format!("{line}\n")
            }
        })
        .collect()
}

/// The file with its SITE and ENTRY lines replaced.
fn blessed(source: &str, done: &Instrumented) -> String {
    let mut out: String = source
        .lines()
        .filter(|line| !line.starts_with("// SITE:") && !line.starts_with("// ENTRY:"))
        .fold(String::new(), |out, line| out + line + "\n");
    for entry in &done.entries {
        let _ = writeln!(out, "// ENTRY: {}", describe_entry(entry));
    }
    for site in &done.sites {
        let _ = writeln!(out, "// SITE: {}", describe_site(site));
    }
    out
}

#[test]
fn filetests() {
    let bless = std::env::var_os("RINGFENCE_BLESS").is_some();
    let files = common::files(&common::root().join("crates/instrument/filetests"), "ptx");
    assert!(files.len() >= 10, "only {} filetests", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut source = std::fs::read_to_string(&path).expect("a readable file");
        let module = module_of(&source);
        if let Err(message) = common::assemble(&module) {
            wrong.push(format!("{name}: ptxas refuses the test itself:\n{message}"));
            continue;
        }
        let done = match expected(&source, "SHADOW").first() {
            Some(encoding) => {
                let encoding = encoding.parse().expect("an encoding");
                common::shadow(&name, &module, encoding)
            }
            None => common::instrument(&name, &module),
        };
        if bless {
            source = blessed(&source, &done);
            std::fs::write(&path, &source).expect("a written file");
        }
        wrong.extend(judge(&name, &source, &done));
        if let Err(message) = common::assemble(&done.text) {
            wrong.push(format!(
                "{name}: ptxas refuses the instrumented text:\n{message}"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
