//! `ringfence instrument`: the pass that `run` applies, on a file.

use crate::options::InstrumentOptions;
use anyhow::{Context, Result};
use serde_json::json;
use std::path::Path;

/// Instruments one PTX file. Writes nothing unless all of it succeeds.
pub fn instrument(options: &InstrumentOptions) -> Result<()> {
    let source = read_text(&options.input)?;
    let instrumented = instrument::instrument(&source, &instrument::Options::default())
        .map_err(|error| anyhow::anyhow!("{}: {error}", options.input.display()))?;
    let sites = options.sites.as_ref().map(|path| {
        let kernels: Vec<_> = instrumented
            .entries
            .iter()
            .map(|entry| {
                json!({
                    "name": entry.name,
                    "checked_name": entry.checked_name,
                    "parameter_bytes": entry.parameter_bytes,
                    "launch_parameter_offset": entry.launch_parameter.as_ref().map(|slot| slot.offset),
                    "roots": entry.roots,
                    "coverage": entry.coverage,
                })
            })
            .collect();
        (path, json!({ "version": 1, "module": instrumented.tag, "kernels": kernels, "sites": instrumented.sites }))
    });
    write(&options.output, &instrumented.text)?;
    if let Some((path, sites)) = sites {
        write(path, &(serde_json::to_string_pretty(&sites)? + "\n"))?;
    }
    Ok(())
}

fn read_text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8(bytes).ok().with_context(|| {
        format!(
            "{} is not PTX text; `ringfence inspect` shows what a binary holds",
            path.display()
        )
    })?;
    // ptxas and the driver take PTX with the NUL that ends it in fat binaries.
    Ok(text.strip_suffix('\0').map(str::to_string).unwrap_or(text))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
