//! Writes the tables of README.md and docs from the committed results, so that
//! no number in them can differ from the file that it is computed from.
//!
//! Between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->` stands what
//! [`render`] generates from `bench/results/NAME.json`, or what
//! [`suite_tables`] and [`headline`] generate from several. For a missing file,
//! a sentence says so.

use crate::headline::text;
use crate::pages::documentation;
use crate::workspace::root;
use crate::{
    fence_table, headline, host_table, isolation_table, pages_table, planted_table, shadow_table,
    sharing_table, soak_table, suite_tables,
};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// Writes the tables, or compares.
///
/// # Errors
///
/// A marker is broken, a result file is malformed, or with `check` a page is
/// not what the results give.
pub fn run(check: bool) -> Result<()> {
    let mut old = Vec::new();
    for page in documentation()? {
        let name = page.name.display();
        let new = rewrite(&page.text, &root().join("bench/results"))
            .with_context(|| format!("in {name}"))?;
        if new == page.text {
            continue;
        }
        if !check {
            std::fs::write(root().join(&page.name), new)
                .with_context(|| format!("failed to write {name}"))?;
        }
        old.push(name.to_string());
    }
    ensure!(
        !check || old.is_empty(),
        "not as the committed results have it: {}; run `cargo xtask readme`",
        old.join(", ")
    );
    Ok(())
}

fn rewrite(text: &str, results: &Path) -> Result<String> {
    const OPEN: &str = "<!-- bench:";
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(OPEN) {
        let (before, marked) = rest.split_at(start);
        out += before;
        let (name, _) = marked[OPEN.len()..]
            .split_once(" -->")
            .context("a bench marker does not end")?;
        let close = format!("<!-- /bench:{name} -->");
        let end = marked
            .find(&close)
            .with_context(|| format!("there is no `{close}`"))?;
        let file = results.join(format!("{name}.json"));
        let published = results.with_file_name("published");
        let body = match std::fs::read_to_string(&file) {
            _ if name == "suite-paper" => suite_tables::paper(results, &published)?,
            _ if name == "suite-rest" => suite_tables::rest(results)?,
            _ if name == "tools" => headline::tools(&published)?,
            _ if name == "found" => headline::found(results)?,
            _ if name == "cost" => headline::cost(results)?,
            Ok(json) => {
                let value = serde_json::from_str(&json)
                    .with_context(|| format!("{} is not JSON", file.display()))?;
                render(name, &value).with_context(|| format!("in {}", file.display()))?
            }
            // The headline: a sentence without numbers would be none.
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound
                    && ["gpu-foreign", "opencl-apps", "opencl-apps-gpu"].contains(&name) =>
            {
                String::new()
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                format!("No `{name}` results are committed yet.\n")
            }
            Err(error) => {
                return Err(error).with_context(|| format!("failed to read {}", file.display()));
            }
        };
        let _ = write!(out, "{OPEN}{name} -->\n{body}{close}");
        rest = &marked[end + close.len()..];
    }
    Ok(out + rest)
}

fn render(name: &str, results: &Value) -> Result<String> {
    let mut out = match name {
        "gpu-bounds" => gpu_bounds(results)?,
        "gpu-foreign" | "gpu-foreign-shadow" => gpu_foreign(results)?,
        "opencl-apps" | "opencl-apps-gpu" => opencl_apps(results)?,
        "gpu-protections" => gpu_protections(results)?,
        "gpu-watch" => gpu_watch(results)?,
        "gpu-host" => host_table::gpu_host(results)?,
        "gpu-fence" => fence_table::gpu_fence(results)?,
        "gpu-sharing" => sharing_table::gpu_sharing(results)?,
        "gpu-calls" => sharing_table::gpu_calls(results)?,
        "fenced" => fence_table::fenced(results)?,
        "fence-resources" => fence_table::resources(results)?,
        "isolation-cpu" | "isolation-gpu" => isolation_table::isolation(results)?,
        "soak-cpu" | "soak-gpu" => soak_table::soak(results)?,
        "gpu-canary" => gpu_canary(results)?,
        "gpu-pages" => pages_table::gpu_pages(results)?,
        "gpu-planted" => planted_table::gpu_planted(results)?,
        "gpu-shadow" => shadow_table::gpu_shadow(results)?,
        "gpu-shadow-study" => shadow_table::gpu_shadow_study(results)?,
        "gpu-heap" => gpu_heap(results)?,
        "suite-cpu" | "suite-gpu" => suite(results)?,
        "opencl-cpu" | "opencl-gpu" => scans(name, results)?,
        "suite-opencl-cpu" | "suite-opencl-gpu" => opencl(results)?,
        "instrument" => instrument(results)?,
        "origins" => origins(results)?,
        "cpu-emulator" => emulator(results)?,
        _ => bail!("nothing is known to render `{name}`"),
    };
    // Where and when: what the file says of it.
    let words: Vec<String> = [
        ("device", ""),
        ("driver", "driver "),
        ("date", ""),
        ("commit", "commit "),
    ]
    .into_iter()
    .filter_map(|(key, word)| Some((word, results[key].as_str()?)))
    .filter(|(_, value)| !value.is_empty() && *value != "none")
    .map(|(word, value)| format!("{word}{value}"))
    .collect();
    if !words.is_empty() {
        let _ = writeln!(out, "\n{}.", words.join(", "));
    }
    Ok(out)
}

pub(crate) fn number(value: &Value, key: &str) -> Result<f64> {
    value[key]
        .as_f64()
        .with_context(|| format!("no number `{key}`"))
}

pub(crate) fn rows(results: &Value) -> Result<&Vec<Value>> {
    results["rows"].as_array().context("no rows")
}

/// A ratio or time where it was measured, else a dash.
fn optional(value: &Value, key: &str, digits: usize) -> String {
    value[key]
        .as_f64()
        .map_or("–".into(), |number| format!("{number:.digits$}"))
}

fn gpu_watch(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let mut out = String::from(
        "| attack (GMOD, table 3) | attacked kernel, ms | seen after, ms | at the latest, ms | seen while it ran |\n\
         | --- | ---: | ---: | ---: | ---: |\n",
    );
    let of = |key: &str| -> Result<Vec<&Value>> {
        let rows = rows(results)?.iter();
        Ok(rows.filter(|row| !row[key].is_null()).collect())
    };
    for attack in of("attack")? {
        let _ = writeln!(
            out,
            "| {} | {:.3} | {:.4} | {:.4} | {} of {} |",
            attack["attack"].as_str().unwrap_or_default(),
            number(attack, "kernel_ms")?,
            number(attack, "latency_ms")?,
            number(attack, "latency_worst_ms")?,
            number(attack, "in_time")?,
            number(attack, "runs")?
        );
    }
    let _ = writeln!(
        out,
        "\nKernels beside the guard take {:.3} of their native time by geometric mean over {} kernels, {:.2} the most. \
         A launch takes {:.2} µs more (native {:.2}); a launch and a cudaDeviceSynchronize, for which the guard leaves \
         and comes back, {:.2} µs more (native {:.2}).",
        number(summary, "geomean")?,
        of("kernel")?.len(),
        number(summary, "worst")?,
        number(summary, "launch_us")?,
        number(summary, "native_launch_us")?,
        number(summary, "synchronize_us")?,
        number(summary, "native_synchronize_us")?
    );
    let waits = of("wait")?;
    if !waits.is_empty() {
        out += "\n| short kernels, then a wait | native, µs | by default | with the guard |\n\
                | --- | ---: | ---: | ---: |\n";
    }
    for row in waits {
        let launches = number(row, "launches")?;
        let _ = writeln!(
            out,
            "| {launches} {}, {} | {:.1} | {:.1} | {:.1} |",
            if launches > 1.0 { "launches" } else { "launch" },
            row["wait"].as_str().unwrap_or_default(),
            number(row, "native_us")?,
            number(row, "default_us")?,
            number(row, "watch_us")?
        );
    }
    let buffers = of("buffers")?;
    if !buffers.is_empty() {
        out += "\n| buffers of 4 KiB | a kernel beside the guard, of native | a launch, native, µs | with the guard \
                | a write is seen after, ms | at the latest, ms |\n\
                | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    }
    for row in buffers {
        let _ = writeln!(
            out,
            "| {} | {:.3} | {:.2} | {:.2} | {:.4} | {:.4} |",
            number(row, "buffers")?,
            number(row, "watch_ms")? / number(row, "native_ms")?,
            number(row, "native_launch_us")?,
            number(row, "watch_launch_us")?,
            number(row, "latency_ms")?,
            number(row, "latency_worst_ms")?
        );
    }
    Ok(out)
}

fn gpu_heap(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let mut out = String::from(
        "| pattern | threads | CUDA's own, ms | Ringfence's under bounds, ms | under watch, ms | of CUDA's time |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for row in rows(results)? {
        let kernel = row["kernel"].as_str().context("a row without a kernel")?;
        // The number of threads has a column of its own.
        let pattern = kernel
            .rsplit_once('_')
            .map_or(kernel, |(pattern, _)| pattern);
        let _ = writeln!(
            out,
            "| {} | {} | {:.3} | {:.3} | {:.3} | {:.3} |",
            pattern.replace('_', "/"),
            number(row, "threads")?,
            number(row, "cuda_ms")?,
            number(row, "bounds_ms")?,
            number(row, "watch_ms")?,
            number(row, "watch_ratio")?
        );
    }
    let _ = writeln!(
        out,
        "| **geometric mean** | | | | | **{:.3}** |\n\n\
         Under bounds, kernels that allocate take {:.2} of their time with CUDA's own heap by geometric mean, {:.2} at \
         most; under watch, where the guard completes frees, {:.2} at most.",
        number(summary, "watch_geomean")?,
        number(summary, "bounds_geomean")?,
        number(summary, "bounds_most")?,
        number(summary, "watch_most")?
    );
    Ok(out)
}

fn gpu_bounds(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let mut out = String::from(
        "| kernel | native, ms | Ringfence | every launch checked | compute-sanitizer memcheck |\n\
         | --- | ---: | ---: | ---: | ---: |\n",
    );
    for row in rows(results)? {
        let _ = writeln!(
            out,
            "| {} | {:.3} | {:.2} | {} | {} |",
            row["kernel"].as_str().context("a row without a kernel")?,
            number(row, "native_ms")?,
            number(row, "ratio")?,
            optional(row, "checked_ratio", 2),
            optional(row, "compute_sanitizer_ratio", 1)
        );
    }
    let _ = writeln!(
        out,
        "| **geometric mean** | | **{:.2}** | **{}** | **{}** |\n",
        number(summary, "geomean")?,
        optional(summary, "checked_geomean", 2),
        optional(summary, "compute_sanitizer_geomean", 1)
    );
    let _ = writeln!(
        out,
        "Kernel time over native, medians, variants in turn. Launches that are proved to be in \
         bounds run the program's own kernel; with `--prove off` every launch is checked. \
         Ringfence adds {:.2} µs of host time to a launch (native {:.2} µs{}); with `--no-check` \
         kernels take {:.3} of native time.",
        number(summary, "launch_us")?,
        number(summary, "native_launch_us")?,
        summary["native_launch_spread_us"]
            .as_f64()
            .map_or_else(String::new, |spread| {
                format!(", which varies by {spread:.2} from round to round")
            }),
        number(summary, "identity_ratio")?
    );
    Ok(out)
}

/// The cost in programs that Ringfence was not made for.
fn gpu_foreign(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let of = |key| number(summary, key);
    let mut out = format!(
        "In {} third-party programs, {} kernels take **{:.2}** of their native time by geometric mean; nine of \
         ten take at most {:.2}, the worst {:.2}; {:.0} % of them run the program's own code, as all their launches \
         are proved in bounds. With every launch checked: {:.2}, {:.2} and {:.2}. The time of all kernels of a \
         program is {:.2} of native by geometric mean over programs ({:.2} with every launch checked).",
        of("programs")?,
        of("kernels")?,
        of("geomean")?,
        of("p90")?,
        of("worst")?,
        of("native_share")? * 100.0,
        of("checked_geomean")?,
        of("checked_p90")?,
        of("checked_worst")?,
        of("programs_geomean")?,
        of("checked_programs_geomean")?
    );
    let _ = writeln!(
        out,
        " Code with checks uses {:.0} registers a thread, natively {:.0}; kernels that spill, and natively do not: {}. \
         Programs use {:.2} of their native device memory. {} kernels of less than 10 µs and {} without code that \
         can be checked are left out. (Measured with `--time-kernels`.)",
        of("checked_registers")?,
        of("registers")?,
        of("spilling_kernels")?,
        of("memory_geomean")?,
        of("short_kernels")?,
        of("unchecked_kernels")?
    );
    if let Ok(looked_at) = of("looked_at_geomean") {
        let _ = writeln!(
            out,
            "\nThe half of the programs whose kernels were looked at to make Ringfence faster takes {looked_at:.3}, nine \
             of ten kernels at most {:.2}; the other half {:.3} and {:.2}.",
            of("looked_at_p90")?,
            of("other_geomean")?,
            of("other_p90")?
        );
    }
    let (own, checked) = by_code(results)?;
    let _ = writeln!(
        out,
        "\nKernels all of whose launches ran the program's own code take {own:.3} of their native time: the same code \
         takes so much less or more from one run to the next. All others take {checked:.3}."
    );
    out += &slowest(results)?;
    Ok(out)
}

/// Geometric means of kernel times over native: of the kernels all of whose launches ran
/// the program's own code, and of all others.
///
/// # Errors
///
/// The results are not of their form.
pub(crate) fn by_code(results: &Value) -> Result<(f64, f64)> {
    let (mut own, mut checked) = (Vec::new(), Vec::new());
    for program in rows(results)? {
        for kernel in program["kernels"].as_array().context("no kernels")? {
            if kernel["counts"].as_bool() == Some(true) {
                let ran_own = number(kernel, "proved")? >= number(kernel, "launches")?;
                let these = if ran_own { &mut own } else { &mut checked };
                these.push(number(kernel, "ratio")?);
            }
        }
    }
    let mean = |ratios: &[f64]| {
        let logs = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>();
        (logs / ratios.len().max(1) as f64).exp()
    };
    Ok((mean(&own), mean(&checked)))
}

/// The ten kernels that lose most, by program and name.
fn slowest(results: &Value) -> Result<String> {
    const MOST: usize = 10;
    let mut kernels = Vec::new();
    for program in rows(results)? {
        let name = text(program, "program")?;
        for kernel in program["kernels"].as_array().context("no kernels")? {
            if kernel["counts"].as_bool() == Some(true) {
                kernels.push((number(kernel, "ratio")?, name, kernel));
            }
        }
    }
    kernels.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut out = String::from(
        "\n| slowest kernels | of | native, µs | Ringfence | every launch checked |\n\
         | --- | --- | ---: | ---: | ---: |\n",
    );
    for (ratio, program, kernel) in kernels.into_iter().take(MOST) {
        let name = text(kernel, "kernel")?;
        let name = name.split(['(', '<']).next().unwrap_or(name);
        let name = name.strip_prefix("void ").unwrap_or(name);
        let _ = writeln!(
            out,
            "| {name} | {program} | {:.1} | {ratio:.2} | {:.2} |",
            number(kernel, "native_us")?,
            number(kernel, "checked_ratio")?
        );
    }
    Ok(out)
}

/// The wall time of whole third-party OpenCL programs under Ringfence.
fn opencl_apps(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let of = |key| number(summary, key);
    Ok(format!(
        "{} OpenCL programs of others, their work on the host included, take **{:.2}** of their native time by \
         geometric mean; nine of ten take at most {:.2}, the worst {:.2}. Natively, the slowest round of a program \
         takes {:.2} of its fastest. {} programs of less than 0.1 s are left out. (How: `docs/foreign.md`.)\n",
        of("programs")?,
        of("geomean")?,
        of("p90")?,
        of("worst")?,
        of("native_spread")?,
        of("short_programs")?
    ))
}

/// What is checked, as the file and as people call it.
const CHECKED: [(&str, &str); 6] = [
    ("global", "global"),
    ("shared", "and shared"),
    ("local", "and local"),
    ("constant", "and constants, parameters"),
    ("whole", "all, but no fields"),
    ("fields", "and fields"),
];

/// A table of kernels: their native time, and what they take over it. `what` is the
/// last column, `mean` its geometric mean.
pub fn kernel_ratios(rows: &[Value], what: &str, mean: f64) -> Result<String> {
    let mut out = format!("| kernel | native, ms | {what} |\n| --- | ---: | ---: |\n");
    for row in rows.iter().filter(|row| !row["kernel"].is_null()) {
        let _ = writeln!(
            out,
            "| {} | {:.3} | {:.3} |",
            row["kernel"].as_str().context("a row without a kernel")?,
            number(row, "native_ms")?,
            number(row, "ratio")?
        );
    }
    let _ = writeln!(out, "| **geometric mean** | | **{mean:.3}** |");
    Ok(out)
}

fn gpu_canary(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let all = rows(results)?;
    let mut out = kernel_ratios(all, "with canaries", number(summary, "kernels_geomean")?)?;
    out += "\n| buffer, bytes | memory, native | with canaries | cudaMalloc, µs, native | with canaries |\n";
    out += "| ---: | ---: | ---: | ---: | ---: |\n";
    for row in all.iter().filter(|row| !row["buffer"].is_null()) {
        let _ = writeln!(
            out,
            "| {} | {:.0} | {:.0} | {:.1} | {:.1} |",
            row["buffer"],
            number(row, "native_bytes")?,
            number(row, "canary_bytes")?,
            number(row, "native_us")?,
            number(row, "canary_us")?
        );
    }
    let _ = writeln!(
        out,
        "\nKernel time over native, and memory that a buffer takes of what the device has free, medians, variants in \
         turn. A loop of short kernels with a synchronization after every hundred takes {:.3} of native time ({:.2} µs a launch, \
         which varies by {:.2} from round to round); with a check after every launch {:.2}. Of kernels that take less \
         than their launches it takes {:.2} ({:.2} µs). Canaries add {:.2} µs of host time to a launch (native {:.2} \
         µs).",
        number(summary, "loop_ratio")?,
        number(summary, "native_loop_us")?,
        number(summary, "native_loop_spread_us")?,
        number(summary, "loop_every_ratio")?,
        number(summary, "tight_ratio")?,
        number(summary, "native_tight_us")?,
        number(summary, "launch_us")?,
        number(summary, "native_launch_us")?
    );
    Ok(out)
}

fn gpu_protections(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let mut out = String::from("| kernel, every launch checked | native, ms |");
    for (_, words) in CHECKED {
        let _ = write!(out, " {words} |");
    }
    out += "\n| --- | ---: |";
    out += &" ---: |".repeat(CHECKED.len());
    out.push('\n');
    for row in rows(results)? {
        let _ = write!(
            out,
            "| {} | {:.3} |",
            row["kernel"].as_str().context("a row without a kernel")?,
            number(row, "native_ms")?
        );
        for (name, _) in CHECKED {
            let _ = write!(out, " {} |", optional(row, name, 2));
        }
        out.push('\n');
    }
    out += "| **geometric mean** | |";
    for (name, _) in CHECKED {
        let _ = write!(
            out,
            " **{:.2}** |",
            number(summary, &format!("{name}_geomean"))?
        );
    }
    out += "\n\n| call of the host | native, µs | Ringfence adds |\n| --- | ---: | ---: |\n";
    for (words, native, adds) in [
        ("a launch, checked", "native_launch_us", "checked_launch_us"),
        (
            "a launch, checked, with stream-ordered memory in use",
            "native_ordered_launch_us",
            "ordered_launch_us",
        ),
        (
            "cudaMalloc and cudaFree of 4 KiB",
            "native_allocate_us",
            "allocate_us",
        ),
        (
            "the same, freed memory kept from reuse",
            "native_allocate_us",
            "quarantine_allocate_us",
        ),
        (
            "the same, with `--leak-check full`",
            "native_allocate_us",
            "leak_check_allocate_us",
        ),
        (
            "cudaMalloc and cudaFree of 4 MiB",
            "native_allocate_large_us",
            "allocate_large_us",
        ),
        (
            "the same, freed memory kept from reuse",
            "native_allocate_large_us",
            "quarantine_allocate_large_us",
        ),
    ] {
        let _ = writeln!(
            out,
            "| {words} | {:.2} | {:.2} |",
            number(summary, native)?,
            number(summary, adds)?
        );
    }
    let _ = writeln!(
        out,
        "\nKernel time over native where the spaces named are checked, with `--prove off` and \
         `--check-only`; proved launches cost nothing. Small buffers that are kept from reuse go \
         back to the driver only when `--quarantine-size` is reached, which this loop does not \
         reach: it has less to do than natively. Native launches take {:.2} µs more in one \
         round than in another.",
        number(summary, "native_launch_spread_us")?
    );
    Ok(out)
}

fn suite(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let annotated = number(summary, "detected_annotated")?;
    let mut out = format!(
        "{} of {} programs with a bug got exactly the expected finding",
        number(summary, "detected")?,
        number(summary, "cases")?,
    );
    if annotated > 0.0 {
        let _ = write!(
            out,
            "; {annotated} more once the program declares the parts of its allocations"
        );
    }
    let _ = writeln!(
        out,
        "; {} false alarms in {} programs without one.",
        number(summary, "false_alarms")?,
        number(summary, "good")?
    );
    Ok(out)
}

/// The OpenCL cases, and which of them the platform cannot run.
fn opencl(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let mut out = format!(
        "{} of {} OpenCL programs with a bug got exactly the expected finding; {} false alarms \
         in {} programs without one",
        number(summary, "detected")?,
        number(summary, "cases")?,
        number(summary, "false_alarms")?,
        number(summary, "good")?
    );
    for row in rows(results)? {
        let program = row["program"].as_str().context("a row without a program")?;
        if row["twin"].as_str() != Some("bad") {
            continue;
        }
        if let Some(lacks) = row["not_runnable"].as_str() {
            let _ = write!(out, "; `{program}` cannot run: {lacks}");
        } else if row["found"].as_bool() != Some(true) {
            let _ = write!(out, "; `{program}` not found");
        }
    }
    out.push_str(".\n");
    Ok(out)
}

/// Numbers of objects that the table shows.
const OBJECTS: [u32; 4] = [1, 8, 32, 128];

/// What scans of canaries cost, by the host and by the device.
fn scans(name: &str, results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let mut out = String::from("| µs added to a launch with |");
    for count in OBJECTS {
        let _ = write!(out, " {count}, host | device |");
    }
    let _ = writeln!(out, "\n| --- |{}", " ---: | ---: |".repeat(OBJECTS.len()));
    for kind in ["buffers", "svm", "images"] {
        let mut cells = String::new();
        let mut any = false;
        for count in OBJECTS {
            for checker in ["host", "device"] {
                let value = summary[format!("{kind}_{count}_{checker}_us")].as_f64();
                any |= value.is_some();
                let _ = match value {
                    Some(value) => write!(cells, " {value:.0} |"),
                    None => write!(cells, " – |"),
                };
            }
        }
        if any {
            let _ = writeln!(
                out,
                "| {} |{cells}",
                if kind == "svm" { "SVM" } else { kind }
            );
        }
    }
    let pays: Vec<String> = ["buffers", "svm", "images"]
        .iter()
        .filter_map(|kind| {
            let launches = summary[format!("{kind}_pays_after")].as_f64()?;
            Some(format!(
                "{launches:.0} launches with 8 {}",
                kind.replace("svm", "SVM allocations")
            ))
        })
        .collect();
    if !pays.is_empty() {
        let _ = writeln!(
            out,
            "\nBuilding the device's checker has paid for itself after {}.",
            pays.join(", ")
        );
    }
    let _ = writeln!(
        out,
        "\n![µs added to a launch]({name}-checks.svg)\n\n![ms added by many launches]({name}-repeated.svg)"
    );
    Ok(out)
}

fn instrument(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    Ok(format!(
        "Instrumenting reads {:.1} MB of PTX a second ({:.1} MB in {} files).\n",
        number(summary, "megabytes_per_second")?,
        number(summary, "megabytes")?,
        number(summary, "files")?
    ))
}

/// How many accesses have the bounds of an object, in the PTX of each compiler.
fn origins(results: &Value) -> Result<String> {
    let mut out = String::from(
        "| PTX written by | files | accesses that are checked | of these by their address alone |\n\
         | --- | ---: | ---: | ---: |\n",
    );
    let mut line = |name: &str, row: &Value| -> Result<()> {
        let of = |key| number(row, key);
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {} |",
            of("files")?,
            of("sites")?,
            of("by_address")?
        );
        Ok(())
    };
    for row in rows(results)? {
        line(
            row["folder"].as_str().context("a row without a folder")?,
            row,
        )?;
    }
    line("**all**", &results["summary"])?;
    Ok(out)
}

fn emulator(results: &Value) -> Result<String> {
    let mut out = String::from(
        "| kernel on the CPU device | thread instructions, million a second and core |\n\
         | --- | ---: |\n",
    );
    for row in rows(results)? {
        let _ = writeln!(
            out,
            "| {} | {:.0} |",
            row["kernel"].as_str().context("a row without a kernel")?,
            number(row, "thread_instructions_per_second")? / 1e6
        );
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_come_from_the_files_and_nothing_else_changes() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("suite-cpu.json"),
            r#"{"summary":{"detected":3,"detected_annotated":0,"cases":4,"false_alarms":0,"good":5},
                "device":"CPU","driver":"CUDA 13.0","date":"2026-01-02","commit":"abc"}"#,
        )
        .unwrap();
        let text = "a\n<!-- bench:suite-cpu -->\nold\n<!-- /bench:suite-cpu -->\nb\n\
                    <!-- bench:cpu-emulator --><!-- /bench:cpu-emulator --> c";
        let new = rewrite(text, folder.path()).unwrap();
        assert!(new.contains("3 of 4 programs"), "{new}");
        assert!(new.contains("CPU, driver CUDA 13.0, 2026-01-02, commit abc."));
        assert!(new.contains("No `cpu-emulator` results are committed yet."));
        assert!(!new.contains("old") && new.starts_with("a\n") && new.ends_with(" c"));
        assert_eq!(rewrite(&new, folder.path()).unwrap(), new);
        assert!(rewrite("<!-- bench:suite-cpu -->", folder.path()).is_err());
    }

    #[test]
    fn opencl_cases_that_cannot_run_are_named() {
        let results = serde_json::json!({
            "summary": {"cases": 3, "detected": 1, "false_alarms": 0, "good": 2},
            "rows": [
                {"program": "bad_a", "twin": "bad", "found": true},
                {"program": "bad_b", "twin": "bad", "found": null, "not_runnable": "the platform has no images"},
                {"program": "bad_c", "twin": "bad", "found": false},
                {"program": "good_b", "twin": "good", "not_runnable": "the platform has no images"},
            ],
        });
        let text = opencl(&results).unwrap();
        assert!(text.starts_with("1 of 3 OpenCL programs"), "{text}");
        assert!(
            text.ends_with(
                "; `bad_b` cannot run: the platform has no images; `bad_c` not found.\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn scans_have_a_row_for_each_kind_that_was_measured() {
        let results = serde_json::json!({"summary": {
            "buffers_1_host_us": 12.4, "buffers_1_device_us": 9.6, "buffers_pays_after": 5000.0,
        }});
        let text = scans("opencl-cpu", &results).unwrap();
        assert!(text.contains("| buffers | 12 | 10 | – |"), "{text}");
        assert!(
            !text.contains("| SVM |") && text.contains("after 5000 launches with 8 buffers."),
            "{text}"
        );
        assert!(text.contains("(opencl-cpu-checks.svg)"), "{text}");
    }

    #[test]
    fn the_cost_in_opencl_programs_names_the_platform() {
        let results = serde_json::json!({
            "summary": {
                "programs": 61, "short_programs": 4, "geomean": 1.071, "p90": 1.2, "worst": 2.5,
                "native_spread": 1.3,
            },
            "device": "a CPU", "driver": "OpenCL 3.0",
        });
        let text = render("opencl-apps", &results).unwrap();
        assert!(text.starts_with("61 OpenCL programs"), "{text}");
        assert!(text.contains("take **1.07** of"), "{text}");
        assert!(text.ends_with("a CPU, driver OpenCL 3.0.\n"), "{text}");
    }

    #[test]
    fn the_guards_tables_have_a_row_for_each_wait_and_number_of_buffers() {
        let mut results = serde_json::json!({
            "summary": {
                "geomean": 1.0, "worst": 1.1, "launch_us": 0.2, "native_launch_us": 3.0,
                "synchronize_us": 16.0, "native_synchronize_us": 8.0,
            },
            "rows": [{"kernel": "triad", "native_ms": 0.5, "watch_ms": 0.5, "ratio": 1.0}],
        });
        let text = gpu_watch(&results).unwrap();
        assert!(text.contains("over 1 kernels, 1.10"), "{text}");
        assert!(!text.contains("buffers of 4 KiB"), "{text}");
        results["rows"].as_array_mut().unwrap().extend([
            serde_json::json!({
                "wait": "cudaStreamSynchronize", "launches": 1, "native_us": 8.0,
                "default_us": 8.5, "watch_us": 9.25,
            }),
            serde_json::json!({
                "buffers": 256, "native_ms": 2.0, "watch_ms": 2.5, "native_launch_us": 3.0,
                "watch_launch_us": 3.5, "latency_ms": 0.05, "latency_worst_ms": 0.1,
            }),
        ]);
        let text = gpu_watch(&results).unwrap();
        assert!(text.contains("over 1 kernels"), "{text}");
        assert!(
            text.contains("| 1 launch, cudaStreamSynchronize | 8.0 | 8.5 | 9.2 |"),
            "{text}"
        );
        assert!(
            text.contains("| 256 | 1.250 | 3.00 | 3.50 | 0.0500 | 0.1000 |"),
            "{text}"
        );
    }

    #[test]
    fn the_gpu_table_has_times_with_and_without_proofs() {
        let results = serde_json::json!({
            "summary": {
                "geomean": 1.02, "checked_geomean": 1.28, "compute_sanitizer_geomean": null,
                "launch_us": 0.6, "native_launch_us": 4.5, "identity_ratio": 1.0,
            },
            "rows": [{
                "kernel": "triad", "native_ms": 0.5, "ratio": 1.0, "checked_ratio": 1.083,
                "compute_sanitizer_ratio": 46.2,
            }],
        });
        let table = gpu_bounds(&results).unwrap();
        assert!(
            table.contains("| triad | 0.500 | 1.00 | 1.08 | 46.2 |"),
            "{table}"
        );
        assert!(
            table.contains("| **geometric mean** | | **1.02** | **1.28** | **–** |"),
            "{table}"
        );
    }

    #[test]
    fn the_cost_in_programs_of_others_is_a_headline_once_it_is_measured() {
        let results = serde_json::json!({
            "summary": {
                "programs": 160, "kernels": 400, "short_kernels": 30, "unchecked_kernels": 4,
                "geomean": 1.25, "p90": 1.7, "worst": 2.96, "native_share": 0.27,
                "checked_geomean": 1.33, "checked_p90": 1.8, "checked_worst": 3.0,
                "programs_geomean": 1.2, "checked_programs_geomean": 1.3, "registers": 24.2,
                "checked_registers": 36.7, "spilling_kernels": 3, "memory_geomean": 1.01,
                "looked_at_geomean": 1.3, "looked_at_p90": 1.8, "other_geomean": 1.2, "other_p90": 1.6,
            },
            "rows": [{
                "program": "p", "kernels": [
                    {"kernel": "void slow<4>(int)", "counts": true, "launches": 2, "proved": 1, "ratio": 1.5,
                     "checked_ratio": 2.25, "native_us": 20.0},
                    {"kernel": "own(int)", "counts": true, "launches": 2, "proved": 2, "ratio": 0.9,
                     "checked_ratio": 1.0, "native_us": 30.0},
                    {"kernel": "short(int)", "counts": false, "launches": 2, "proved": 0, "ratio": 9.0,
                     "checked_ratio": 9.0, "native_us": 1.0},
                ],
            }],
            "device": "a GPU",
        });
        let text = render("gpu-foreign", &results).unwrap();
        assert!(
            text.contains("take **1.25** of their native time"),
            "{text}"
        );
        assert!(
            text.contains("27 % of them") && text.contains("a GPU."),
            "{text}"
        );
        assert!(text.contains("the other half 1.200 and 1.60"), "{text}");
        assert!(text.contains("own code take 0.900 of"), "{text}");
        assert!(text.contains("All others take 1.500."), "{text}");
        let slow = "| slow | p | 20.0 | 1.50 | 2.25 |\n| own | p | 30.0 | 0.90 | 1.00 |\n";
        assert!(text.contains(slow) && !text.contains("short"), "{text}");
        // Without a result, nothing is said.
        let folder = tempfile::tempdir().unwrap();
        let page = "a\n<!-- bench:gpu-foreign -->\n<!-- /bench:gpu-foreign -->\nb\n";
        assert_eq!(rewrite(page, folder.path()).unwrap(), page);
    }

    #[test]
    fn the_table_of_protections_has_a_column_for_each() {
        let mut summary = serde_json::Map::new();
        for (name, _) in CHECKED {
            summary.insert(format!("{name}_geomean"), 1.25.into());
        }
        for name in [
            "native_launch_us",
            "native_launch_spread_us",
            "checked_launch_us",
            "native_ordered_launch_us",
            "ordered_launch_us",
            "native_allocate_us",
            "allocate_us",
            "quarantine_allocate_us",
            "leak_check_allocate_us",
            "native_allocate_large_us",
            "allocate_large_us",
            "quarantine_allocate_large_us",
        ] {
            summary.insert(name.into(), 0.5.into());
        }
        let results = serde_json::json!({
            "summary": summary,
            "rows": [{
                "kernel": "local_ranks", "native_ms": 0.5, "global": 1.0, "shared": 1.0,
                "local": 1.333, "constant": 1.34,
            }],
        });
        let table = gpu_protections(&results).unwrap();
        assert!(
            table.contains("| local_ranks | 0.500 | 1.00 | 1.00 | 1.33 | 1.34 | – | – |"),
            "{table}"
        );
        assert!(
            table.contains("| a launch, checked | 0.50 | 0.50 |"),
            "{table}"
        );
    }

    #[test]
    fn the_committed_pages_show_the_committed_results() {
        run(true).unwrap();
    }

    /// Whether no marker names results, because tables are made of them and others.
    fn is_combined(name: &str) -> bool {
        let mut alone = crate::suite_tables::ALONE.iter();
        let is_alone = alone.any(|(_, file)| file.strip_suffix(".json") == Some(name));
        is_alone || name == "suite-compute-sanitizer"
    }

    #[test]
    fn all_committed_results_are_shown() {
        let pages = documentation().unwrap();
        for entry in std::fs::read_dir(root().join("bench/results")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let marker = format!("<!-- bench:{name} -->");
            assert!(
                is_combined(name) || pages.iter().any(|page| page.text.contains(&marker)),
                "no page shows {name}"
            );
        }
    }
}
