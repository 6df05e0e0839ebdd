//! What fences cost: kernels as they are, and with each form of fences, loaded
//! by one program that intercepts nothing (`bench/kernels/fence.cu`), and timed
//! in turn.
//!
//! The kernels are fenced here, from the PTX that lies beside the programs, and
//! judged by the verifier as the manager would. A kernel whose result is another
//! one with fences is an error of the run.

use crate::options::Options;
use crate::turns::{Variant, lines};
use anyhow::{Context, Result, bail, ensure};
use instrument::{FenceForm, Fenced};
use model::layout::fence::{
    BASE as BASE_OFFSET, FenceTable, GRANULE, HEADROOM, MARGIN, RESERVED_SHARED,
    STOP as STOP_OFFSET, UNIT, VARIABLE,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use suite::results::{geometric_mean, median, round};

/// The forms of fences, by the names of their columns; and the units of
/// addresses, of four, that their partition has.
const FORMS: [(&str, FenceForm, u64); 3] = [
    ("mask", FenceForm::Mask, 4),
    // No power of two.
    ("modulo", FenceForm::Modulo, 3),
    ("check", FenceForm::Check, 3),
];

/// Where the partition lies, if nothing else does: the program moves it then.
const BASE: u64 = 0x2000_0000_0000 + (64 << 30);

/// Where the words lie that end kernels: below the partition and its margin. All
/// are reserved in one piece, from here on: an address that drivers were seen to
/// give, to large reservations.
const STOP: u64 = 0x2000_0000_0000;

/// One chunk that backs what holds no buffers.
const SINK: u64 = 512 << 20;

/// A line of the program: one kernel of one variant.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    kernel: String,
    size: u64,
    variant: String,
    registers: u32,
    local: u32,
    digest: String,
    /// Milliseconds, turn by turn.
    times: Vec<f64>,
}

/// One kernel. Times are milliseconds; ratios are medians over turns of a form's
/// time to the native one of the same turn.
#[derive(Debug, Serialize)]
struct Row {
    kernel: String,
    size: u64,
    native_ms: f64,
    native_registers: u32,
    native_local: u32,
    /// By form.
    #[serde(flatten)]
    forms: BTreeMap<String, Value>,
    #[serde(skip)]
    ratios: BTreeMap<String, f64>,
}

/// Measures everything and writes the results.
///
/// # Errors
///
/// The kernels cannot be fenced, the program fails or runs out of time, or a
/// form of fences changes a result.
pub fn measure(options: &Options) -> Result<()> {
    let ptx = options.programs().join("ptx/bench.ptx");
    let source = std::fs::read_to_string(&ptx)
        .with_context(|| format!("failed to read {}", ptx.display()))?;
    let folder = tempfile::tempdir().context("failed to make a folder")?;
    let plan = folder.path().join("plan");
    std::fs::write(&plan, write_plan(options, &source, folder.path())?)
        .with_context(|| format!("failed to write {}", plan.display()))?;
    let plan = plan.to_str().context("a path that is no text")?;
    let arguments = [&[plan], options.size()].concat();
    let outcome = options.runner().run("fence", &arguments, Variant::Native)?;
    let rows = rows(&lines(&outcome, "\"times\"")?)?;
    for row in &rows {
        println!(
            "{:<14} native {:>9.4} ms  {:?}",
            row.kernel, row.native_ms, row.ratios
        );
    }
    let summary = summary(&rows)?;
    println!("{}", serde_json::to_string_pretty(&summary)?);
    options.write(summary, rows)
}

/// Fences the kernels, and writes what the program is to do.
fn write_plan(options: &Options, source: &str, folder: &Path) -> Result<String> {
    // The CPU device runs small problems, and maps no memory at two addresses.
    let (unit, memory) = match options.on_gpu() {
        true => (UNIT, 4 << 30),
        false => (UNIT / 2, SINK),
    };
    let sharing = if options.on_gpu() {
        "shared"
    } else {
        "separate"
    };
    let mut plan = format!(
        "partition {BASE:#x} {:#x} {MARGIN:#x} {HEADROOM:#x}\n\
         memory {memory:#x}\nsink {SINK:#x} {sharing}\nstop {STOP:#x} {GRANULE:#x}\n",
        4 * unit
    );
    let write = |name: &str, text: &str| {
        let path = folder.join(format!("{name}.ptx"));
        std::fs::write(&path, text)
            .with_context(|| format!("failed to write {}", path.display()))?;
        anyhow::Ok(path)
    };
    writeln!(
        plan,
        "variant native {}",
        write("native", source)?.display()
    )?;
    for (name, form, units) in FORMS {
        let fenced = fenced(source, form)?;
        let path = write(name, &fenced.text)?;
        let table = FenceTable::new((BASE, units * unit), STOP, 0, form == FenceForm::Mask)?;
        let digits = table.bytes().iter().fold(String::new(), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        });
        writeln!(plan, "variant {name} {}", path.display())?;
        writeln!(plan, "table {VARIABLE} {digits}")?;
        writeln!(plan, "addresses {BASE_OFFSET} {STOP_OFFSET}")?;
        writeln!(plan, "reserved {RESERVED_SHARED}")?;
        for variable in &fenced.variables {
            writeln!(plan, "variable {} {}", variable.name, variable.alignment)?;
        }
    }
    Ok(plan)
}

fn fenced(source: &str, form: FenceForm) -> Result<Fenced> {
    let fenced = instrument::fence(source, form)
        .map_err(|error| anyhow::anyhow!("the kernels cannot be fenced:\n{error}"))?;
    if let Err(errors) = instrument::verify_contained(&fenced.text) {
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        bail!("the fences are not complete: {}", all.join("; "));
    }
    Ok(fenced)
}

/// A row for each kernel.
fn rows(lines: &[Line]) -> Result<Vec<Row>> {
    let natives = lines.iter().filter(|line| line.variant == "native");
    natives.map(|native| row(native, lines)).collect()
}

fn row(native: &Line, lines: &[Line]) -> Result<Row> {
    let kernel = &native.kernel;
    let mut row = Row {
        kernel: kernel.clone(),
        size: native.size,
        native_ms: median(&mut native.times.clone()).context("nothing was measured")?,
        native_registers: native.registers,
        native_local: native.local,
        forms: BTreeMap::new(),
        ratios: BTreeMap::new(),
    };
    for (name, ..) in FORMS {
        let line = lines
            .iter()
            .find(|line| line.kernel == *kernel && line.variant == name)
            .with_context(|| format!("{kernel}: nothing was measured of {name}"))?;
        ensure!(
            line.digest == native.digest,
            "{kernel}: its result with fences ({name}) is {}, natively {}",
            line.digest,
            native.digest
        );
        ensure!(
            line.times.len() == native.times.len() && native.times.iter().all(|ms| *ms > 0.0),
            "{kernel}: a turn is missing, or took no time"
        );
        let pairs = line.times.iter().zip(&native.times);
        let mut ratios: Vec<f64> = pairs.map(|(fenced, native)| fenced / native).collect();
        let middle = median(&mut ratios).context("nothing was measured")?;
        ratios.sort_by(f64::total_cmp);
        let quarter = |part: usize| ratios[(ratios.len() - 1) * part / 4];
        row.ratios.insert(name.to_owned(), round(middle));
        row.forms.insert(
            name.to_owned(),
            json!({
                "ratio": round(middle),
                // Between these lie half of the turns.
                "ratio_low": round(quarter(1)),
                "ratio_high": round(quarter(3)),
                "registers": line.registers,
                "local": line.local,
            }),
        );
    }
    Ok(row)
}

/// Flat numbers: for each form the geometric mean of its ratios, and the largest
/// with its kernel.
fn summary(rows: &[Row]) -> Result<Map<String, Value>> {
    let mut out = Map::new();
    for (name, ..) in FORMS {
        let mean = geometric_mean(rows.iter().map(|row| row.ratios[name]));
        let mean = mean.context("a kernel took no time at all")?;
        let worst = rows
            .iter()
            .max_by(|a, b| a.ratios[name].total_cmp(&b.ratios[name]))
            .context("nothing was measured")?;
        out.insert(format!("geomean_{name}"), json!(round(mean)));
        out.insert(format!("worst_{name}"), json!(worst.ratios[name]));
        out.insert(format!("worst_{name}_kernel"), json!(worst.kernel));
    }
    out.insert("kernels".to_owned(), json!(rows.len()));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kernel: &str, variant: &str, digest: &str, times: &[f64]) -> Line {
        Line {
            kernel: kernel.to_owned(),
            size: 64,
            variant: variant.to_owned(),
            registers: 16,
            local: 0,
            digest: digest.to_owned(),
            times: times.to_vec(),
        }
    }

    fn kernel(name: &str, mask: f64) -> Vec<Line> {
        let native = [1.0, 2.0, 1.0];
        let times = |ratio: f64| native.map(|ms| ms * ratio);
        let mut out = vec![line(name, "native", "a", &native)];
        for (form, ..) in FORMS {
            let ratio = if form == "mask" { mask } else { 2.0 };
            out.push(line(name, form, "a", &times(ratio)));
        }
        out
    }

    #[test]
    fn ratios_are_those_of_the_same_turn() {
        let lines = [kernel("first", 1.0), kernel("second", 4.0)].concat();
        let rows = rows(&lines).unwrap();
        let summary = summary(&rows).unwrap();
        assert_eq!(rows[0].native_ms, 1.0);
        assert_eq!(summary["geomean_mask"], json!(2.0));
        assert_eq!(summary["worst_mask"], json!(4.0));
        assert_eq!(summary["worst_mask_kernel"], json!("second"));
        assert_eq!(summary["geomean_modulo"], json!(2.0));
        assert_eq!(summary["kernels"], json!(2));
        // (Flat, and first the mean.)
        assert!(summary.values().all(|value| !value.is_object()));
    }

    #[test]
    fn what_is_missing_or_another_result_is_an_error() {
        let all = kernel("first", 1.0);
        assert!(rows(&all).is_ok());
        let mut other = kernel("first", 1.0);
        other[1].digest = "b".to_owned();
        let error = rows(&other).unwrap_err().to_string();
        assert!(error.contains("natively a"), "{error}");
        let mut fewer = kernel("first", 1.0);
        fewer[2].times.pop();
        assert!(rows(&fewer).is_err());
        assert!(rows(&all[..1]).is_err());
    }
}
