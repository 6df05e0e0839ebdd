//! The tables of what is found: category by tool.
//!
//! Ringfence's columns and those of compute-sanitizer are made from committed
//! results, the papers' columns from `bench/published`. A column without a
//! committed file shows dashes.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// A table of a paper.
#[derive(Deserialize)]
struct Published {
    source: String,
    columns: Vec<String>,
    rows: Vec<PublishedRow>,
}

#[derive(Deserialize)]
struct PublishedRow {
    category: String,
    name: String,
    tests: usize,
    detected: Vec<usize>,
}

/// Group of the cases that follow the paper's table.
const PAPER: &str = "cucatch";

/// Groups of the second part, in the order of their table, with their names.
const GROUPS: &[(&str, &str)] = &[
    ("global", "global memory, by every kind of pointer"),
    ("shared", "shared memory"),
    ("local", "local memory"),
    ("constants", "constants and kernel parameters"),
    ("calls", "functions that are not inlined"),
    ("device_heap", "malloc and free in kernels"),
    ("copies", "copies and memsets by the host"),
    ("lifetimes", "use after free"),
    ("frees", "double and invalid free"),
    ("stream_order", "stream-ordered memory"),
    ("leaks", "leaks"),
    ("fields", "fields of structs, built with `-G`"),
    ("regions", "pools and parts of allocations"),
    ("memory_kinds", "kinds of memory"),
    ("graphs", "graphs"),
    ("canary", "canaries, verified after kernels"),
    ("watch", "canaries, watched while kernels run"),
    ("shadow", "shadow memory"),
    ("pages", "buffers at unmapped pages"),
    ("failures", "kernels that fail on the device"),
    ("alignment", "misaligned accesses"),
    ("printed", "strings that kernels print"),
    ("execution", "threads, contexts, cooperative launches"),
];

/// How one tool did on some cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    cases: usize,
    found: usize,
    /// Found once the program says where its parts are, and only then.
    annotated: usize,
}

impl Count {
    fn cell(self) -> String {
        if self.cases == 0 {
            return "–".into();
        }
        if self.annotated == 0 {
            return format!("{}/{}", self.found, self.cases);
        }
        format!(
            "{}/{} ({}/{})",
            self.found,
            self.cases,
            self.found + self.annotated,
            self.cases
        )
    }

    fn add(&mut self, other: Count) {
        self.cases += other.cases;
        self.found += other.found;
        self.annotated += other.annotated;
    }
}

/// One column: counts by group and category.
#[derive(Default)]
struct Column(BTreeMap<(String, String), Count>);

impl Column {
    /// Ringfence's results.
    fn suite(results: Option<&Value>) -> Result<Column> {
        let mut column = Column::default();
        for row in rows(results)? {
            let count = column.count(row)?;
            let found = row["found"].as_bool() == Some(true);
            match row["twin"].as_str().context("a row without a twin")? {
                "bad" => {
                    count.cases += 1;
                    count.found += usize::from(found);
                }
                "annotated" => count.annotated += usize::from(found),
                _ => {}
            }
        }
        Ok(column)
    }

    /// Results of the comparison: a column for each of its keys.
    fn compared(results: Option<&Value>, key: &str) -> Result<Column> {
        let mut column = Column::default();
        for row in rows(results)? {
            let count = column.count(row)?;
            count.cases += 1;
            count.found += usize::from(row[key].as_bool() == Some(true));
        }
        Ok(column)
    }

    fn count(&mut self, row: &Value) -> Result<&mut Count> {
        let text = |key: &str| {
            row[key]
                .as_str()
                .map(str::to_owned)
                .with_context(|| format!("a row without a {key}"))
        };
        Ok(self
            .0
            .entry((text("group")?, text("category")?))
            .or_default())
    }

    fn total(&self, is: impl Fn(&str, &str) -> bool) -> Count {
        let mut total = Count::default();
        for ((group, category), count) in &self.0 {
            if is(group, category) {
                total.add(*count);
            }
        }
        total
    }
}

fn rows(results: Option<&Value>) -> Result<&[Value]> {
    match results {
        None => Ok(&[]),
        Some(results) => Ok(results["rows"].as_array().context("no rows")?),
    }
}

/// Protections whose results alone are columns of the second part, where they are
/// committed: what the column is called, and the file.
pub(crate) const ALONE: &[(&str, &str)] = &[
    ("`shadow`, CPU device", "suite-shadow-cpu.json"),
    ("`shadow`, GPU", "suite-shadow-gpu.json"),
    ("`pages`, CPU device", "suite-pages-cpu.json"),
    ("`pages`, GPU", "suite-pages-gpu.json"),
];

struct Tables {
    columns: Vec<(&'static str, Column)>,
    notes: Vec<String>,
}

impl Tables {
    fn read(folder: &Path) -> Result<Tables> {
        let file = |name: &str| read(&folder.join(name));
        let (cpu, gpu) = (file("suite-cpu.json")?, file("suite-gpu.json")?);
        let compared = file("suite-compute-sanitizer.json")?;
        let tool = compared
            .as_ref()
            .and_then(|results| Some((results["driver"].as_str()?, results["device"].as_str()?)));
        let mut notes: Vec<String> = Vec::new();
        if let Some((version, device)) = tool {
            notes.push(format!("Measured with {version} on one {device}."));
        }
        Ok(Tables {
            columns: vec![
                ("Ringfence, CPU device", Column::suite(cpu.as_ref())?),
                ("Ringfence, GPU", Column::suite(gpu.as_ref())?),
                (
                    "compute-sanitizer",
                    Column::compared(compared.as_ref(), "found")?,
                ),
                (
                    "no tool",
                    Column::compared(compared.as_ref(), "baseline_found")?,
                ),
            ],
            notes,
        })
    }

    /// Whether a column has cases of a group.
    fn have(&self, group: &str) -> bool {
        let mut cases = self.columns.iter().flat_map(|(_, column)| column.0.keys());
        cases.any(|(known, _)| known == group)
    }

    /// Cells of all measured columns for what `is` selects.
    fn cells(&self, is: impl Fn(&str, &str) -> bool) -> String {
        self.columns
            .iter()
            .fold(String::new(), |mut line, (_, column)| {
                let _ = write!(line, " {} |", column.total(&is).cell());
                line
            })
    }

    fn head(&self, first: &str, more: &[String]) -> String {
        let names = self.columns.iter().map(|(name, _)| (*name).to_owned());
        let names: Vec<String> = std::iter::once(first.to_owned())
            .chain(names)
            .chain(more.iter().cloned())
            .collect();
        format!(
            "| {} |\n| --- |{}\n",
            names.join(" | "),
            " ---: |".repeat(names.len() - 1)
        )
    }
}

fn read(path: &Path) -> Result<Option<Value>> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            Ok(Some(serde_json::from_str(&text).with_context(|| {
                format!("{} is not JSON", path.display())
            })?))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}

/// The table of the paper's categories.
///
/// # Errors
///
/// A file is not of its form.
pub fn paper(results: &Path, published: &Path) -> Result<String> {
    let tables = Tables::read(results)?;
    let path = published.join("cucatch-table-2.json");
    let published: Published = serde_json::from_str(
        &std::fs::read_to_string(&path)
            .with_context(|| format!("failed to read {}", path.display()))?,
    )
    .with_context(|| format!("{} is not a published table", path.display()))?;
    let quoted: Vec<String> = published
        .columns
        .iter()
        .map(|name| format!("*{name}*"))
        .collect();
    let mut out = tables.head("category", &quoted);
    for row in &published.rows {
        let _ = write!(out, "| {} |", row.name);
        out += &tables.cells(|group, category| group == PAPER && category == row.category);
        for detected in &row.detected {
            let _ = write!(out, " {detected}/{} |", row.tests);
        }
        out.push('\n');
    }
    let tests: usize = published.rows.iter().map(|row| row.tests).sum();
    out += "| **all** |";
    out += &tables.cells(|group, _| group == PAPER);
    for column in 0..published.columns.len() {
        let sum: usize = published
            .rows
            .iter()
            .filter_map(|row| row.detected.get(column))
            .sum();
        let _ = write!(out, " {sum}/{tests} |");
    }
    let _ = writeln!(
        out,
        "\n\nIn brackets: with the bugs that only the program's declarations distinguish from correct \
         code, once it declares the parts of its allocations; fields of structs are also found in builds with \
         `-G`. *Columns in italics* are quoted from {}. {}",
        published.source,
        tables.notes.join(" ")
    );
    Ok(out)
}

/// The table of the second part, and what is expected to be missing.
///
/// # Errors
///
/// A file is not of its form.
pub fn rest(results: &Path) -> Result<String> {
    let mut tables = Tables::read(results)?;
    for (name, file) in ALONE {
        if let Some(alone) = read(&results.join(file))? {
            let column = Column::compared(Some(&alone), "found")?;
            tables
                .columns
                .insert(tables.columns.len() - 2, (name, column));
        }
    }
    let mut out = tables.head("category", &[]);
    let known = |group: &str| GROUPS.iter().any(|(name, _)| *name == group);
    for (group, name) in GROUPS.iter().filter(|(group, _)| tables.have(group)) {
        let _ = writeln!(
            out,
            "| {name} |{}",
            tables.cells(|other, _| other == *group)
        );
    }
    let _ = writeln!(out, "| **all** |{}", tables.cells(|group, _| known(group)));
    if tables.columns.iter().any(|(name, _)| name.starts_with('`')) {
        out += "\n`shadow` and `pages`: this protection alone; any finding in the program with the bug \
                counts. They are for accesses to global memory that leave every allocation, or that come \
                after a free.\n";
    }
    let missing = missing(results)?;
    if !missing.is_empty() {
        out += "\nNot found yet, or not judged right:\n\n";
        for (program, reason) in missing {
            let _ = writeln!(out, "* `{program}`: {reason}");
        }
    }
    Ok(out)
}

/// Programs that the results list as judged wrong, with the reasons.
fn missing(results: &Path) -> Result<BTreeMap<String, String>> {
    let mut missing = BTreeMap::new();
    for name in ["suite-cpu.json", "suite-gpu.json"] {
        let file = read(&results.join(name))?;
        for row in rows(file.as_ref())? {
            if let (Some(program), Some(reason)) =
                (row["program"].as_str(), row["expected_missing"].as_str())
            {
                missing.insert(program.to_owned(), reason.to_owned());
            }
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;
    use serde_json::json;

    #[test]
    fn counts_come_from_the_rows() {
        let folder = tempfile::tempdir().unwrap();
        let row = |twin: &str, found: Option<bool>| {
            json!({"program": format!("{twin}_x"), "twin": twin, "group": "cucatch",
                   "category": "global-oob", "found": found})
        };
        let results = json!({"rows": [
            row("bad", Some(true)),
            row("bad", Some(false)),
            row("annotated", Some(true)),
            row("good", None),
            {"program": "bad_y", "twin": "bad", "group": "shared", "category": "shared",
             "found": false, "expected_missing": "not yet"},
        ]});
        std::fs::write(folder.path().join("suite-cpu.json"), results.to_string()).unwrap();
        let table = paper(folder.path(), &root().join("bench/published")).unwrap();
        assert!(
            table.contains("| global memory, out of bounds | 1/2 (2/2) | – | – | – | 0/8 | 4/8 |"),
            "{table}"
        );
        let table = rest(folder.path()).unwrap();
        assert!(
            table.contains("| shared memory | 0/1 | – | – | – |"),
            "{table}"
        );
        assert!(table.contains("* `bad_y`: not yet"), "{table}");
    }

    #[test]
    fn protections_alone_are_columns_where_they_were_measured() {
        let folder = tempfile::tempdir().unwrap();
        let results = json!({"rows": [
            {"case": "x", "group": "global", "category": "g", "found": true},
            {"case": "y", "group": "global", "category": "g", "found": false},
        ]});
        let name = folder.path().join("suite-pages-gpu.json");
        std::fs::write(name, results.to_string()).unwrap();
        let table = rest(folder.path()).unwrap();
        assert!(
            table.contains("| Ringfence, GPU | `pages`, GPU | compute-sanitizer |"),
            "{table}"
        );
        let row = "| global memory, by every kind of pointer | – | – | 1/2 | – | – |";
        assert!(table.contains(row), "{table}");
        assert!(table.contains("this protection alone"), "{table}");
    }

    #[test]
    fn the_published_table_adds_up_to_what_the_paper_says() {
        let text =
            std::fs::read_to_string(root().join("bench/published/cucatch-table-2.json")).unwrap();
        let table: Published = serde_json::from_str(&text).unwrap();
        let sums: Vec<usize> = (0..table.columns.len())
            .map(|column| table.rows.iter().map(|row| row.detected[column]).sum())
            .collect();
        // 7.1 %, 35.7 %, 14.2 %, 42.8 % and 71.4 % of 56.
        assert_eq!(sums, [4, 20, 8, 24, 40]);
        assert_eq!(table.rows.iter().map(|row| row.tests).sum::<usize>(), 56);
    }

    #[test]
    fn every_group_of_cases_has_its_row() {
        for entry in std::fs::read_dir(root().join("suite/cases")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && name != "include" && name != PAPER {
                assert!(GROUPS.iter().any(|(group, _)| *group == name), "{name}");
            }
        }
    }
}
