//! `ringfence instrument`: the pass that `run` applies, on a file.

use crate::options::{InstrumentOptions, Pass};
use anyhow::{Context, Result};
use instrument::{Fenced, Holder, VerifyError};
use model::layout::shadow::Encoding;
use serde_json::{Value, json};
use std::path::Path;

/// Instruments one PTX file. Writes nothing unless all of it succeeds.
pub fn instrument(options: &InstrumentOptions) -> Result<()> {
    let source = read_text(&options.input)?;
    let (text, sites) = match options.protect {
        Pass::Bounds => check(&source, options, None)?,
        Pass::Shadow => check(&source, options, Some(options.shadow_encoding))?,
        Pass::Fence => fence(&source, options)?,
    };
    write(&options.output, &text)?;
    if let Some(path) = &options.sites {
        write(path, &(serde_json::to_string_pretty(&sites)? + "\n"))?;
    }
    Ok(())
}

/// PTX with checks, and its sites.
fn check(
    source: &str,
    options: &InstrumentOptions,
    shadow: Option<Encoding>,
) -> Result<(String, Value)> {
    let wanted = instrument::Options {
        shadow,
        ..instrument::Options::default()
    };
    let instrumented = instrument::instrument(source, &wanted)
        .map_err(|error| anyhow::anyhow!("{}: {error}", options.input.display()))?;
    let kernels: Vec<_> = instrumented
        .entries
        .iter()
        .map(|entry| {
            json!({
                "name": entry.name,
                "checked_name": entry.checked_name,
                "residual_name": entry.residual.as_ref().map(|residual| &residual.name),
                "parameter_bytes": entry.parameter_bytes,
                "launch_parameter_offset": entry.launch_parameter.as_ref().map(|slot| slot.offset),
                "roots": entry.roots,
                "limits": entry.limits,
                "indices": entry.indices,
                "coverage": entry.coverage,
            })
        })
        .collect();
    let sites = json!({
        "version": 1,
        "module": instrumented.tag,
        "kernels": kernels,
        "sites": instrumented.sites,
    });
    Ok((instrumented.text, sites))
}

/// PTX with fences, and what the host must know of it. What is written was
/// judged by the verifier.
fn fence(source: &str, options: &InstrumentOptions) -> Result<(String, Value)> {
    let input = options.input.display();
    let fenced = instrument::fence(source, options.fence_form.into())
        .map_err(|error| anyhow::anyhow!("{input} cannot be fenced:\n{error}"))?;
    instrument::verify_contained(&fenced.text).map_err(|errors| {
        anyhow::anyhow!("{input}: its fences are not complete: {}", all(&errors))
    })?;
    let Fenced {
        text,
        variables,
        relocations,
        counts,
        sites,
    } = fenced;
    let relocations: Vec<_> = relocations
        .iter()
        .map(|relocation| {
            let holder = match &relocation.holder {
                Holder::Placed(index) => &variables[*index].name,
                Holder::Constant(name) => name,
            };
            json!({
                "variable": holder,
                "offset": relocation.offset,
                "bytes": relocation.bytes,
                "shift": relocation.shift,
                "target": variables[relocation.target].name,
                "addend": relocation.addend,
            })
        })
        .collect();
    let variables: Vec<_> = variables
        .iter()
        .map(|variable| {
            json!({
                "name": variable.name,
                "size": variable.size,
                "alignment": variable.alignment,
            })
        })
        .collect();
    // Their numbers, from 1, are those that the record of what is found has.
    let sites: Vec<_> = sites
        .iter()
        .map(|site| json!({ "function": site.function, "line": site.line }))
        .collect();
    let known = json!({
        "version": 1,
        "table": model::layout::fence::VARIABLE,
        "variables": variables,
        "relocations": relocations,
        "accesses": {
            "loads": counts.loads,
            "stores": counts.stores,
            "fixed": counts.fixed,
            "global": counts.global,
            "generic": counts.generic,
            "shared": counts.shared,
            "variable": counts.variable,
        },
        "sites": sites,
        "looking_loops": counts.looking_loops,
        "clearing_kernels": counts.clearing_kernels,
        "retiring": counts.retiring,
    });
    Ok((text, known))
}

fn all(errors: &[VerifyError]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

fn read_text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8(bytes).ok().with_context(|| {
        format!(
            "{} is not PTX text; `ringfence inspect` shows what a binary holds",
            path.display()
        )
    })?;
    // ptxas and the driver accept PTX with the NUL that ends it in fat
    // binaries.
    Ok(text.strip_suffix('\0').map(str::to_string).unwrap_or(text))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
