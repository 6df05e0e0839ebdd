//! `foreign`: third-party programs under Ringfence. All of the work is done by
//! `ringfence-suite foreign`, which also runs on machines with a GPU and
//! without Rust.

use crate::command::{command, run};
use crate::workspace::{root, target};
use crate::{build, setup};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::Path;
use suite::case::Api;
use suite::foreign::collection;

/// Builds Ringfence and runs a collection; `arguments` are those of
/// `ringfence-suite foreign`, and count more than what is added here.
///
/// # Errors
///
/// Something cannot be built or run, or the folder holds no collection.
pub fn run_collection(folder: &Path, arguments: &[OsString]) -> Result<()> {
    let folder = std::fs::canonicalize(folder)
        .with_context(|| format!("no collection at {}", folder.display()))?;
    let given = |name: &str| {
        arguments.iter().any(|argument| {
            let argument = argument.to_string_lossy();
            argument == name || argument.starts_with(&format!("{name}="))
        })
    };
    if !given("--opencl") && collection::api_of(&folder) == Api::Cuda {
        // Found by its default place.
        setup::cuda()?;
    }
    let built = build::all()?;
    let mut suite = command(built.folder.join("ringfence-suite"), ["foreign"]);
    suite.arg(&folder).arg("--ringfence").arg(&built.command);
    if !given("--out") {
        let name = folder.file_name().context("a collection without a name")?;
        suite.arg("--out").arg(target().join("foreign").join(name));
    }
    if !given("--commit") {
        suite.arg("--commit").arg(suite::results::commit(&root()));
    }
    if !given("--device") {
        let gpu = Path::new("/dev/nvidiactl").exists();
        suite.args(["--device", if gpu { "gpu" } else { "cpu" }]);
    }
    run(suite.args(arguments))
}
