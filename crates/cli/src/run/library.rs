//! Finds libringfence.so and preloads it into the program.

use super::program::{Facts, Runtime};
use anyhow::{Context, Result, bail};
use model::{DeviceKind, Protections};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const NAME: &str = "libringfence.so";
/// The layer for OpenCL, beside it.
const OPENCL: &str = "libringfence_opencl.so";
/// Names the library that NVTX's headers load.
const NVTX: &str = "NVTX_INJECTION64_PATH";

/// How the driver loads modules.
const LOADING: &str = "CUDA_MODULE_LOADING";

/// Ringfence's library.
#[derive(Debug)]
pub struct Library {
    path: PathBuf,
}

/// Environment variables to set for the program.
pub type Environment = Vec<(&'static str, OsString)>;

/// The library named by `RINGFENCE_LIBRARY`, or the one that was installed
/// with the command.
pub fn find() -> Result<Library> {
    if let Some(path) = std::env::var_os("RINGFENCE_LIBRARY") {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!(
                "RINGFENCE_LIBRARY names {}, which is no file",
                path.display()
            );
        }
        let path = std::path::absolute(&path).context("RINGFENCE_LIBRARY")?;
        return Ok(Library { path });
    }
    let command = std::env::current_exe()
        .and_then(std::fs::canonicalize)
        .context("cannot find where the command is")?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    // Beside the command, as cargo builds it; or in the lib of a prefix whose
    // bin holds the command.
    let candidates = [folder.join(NAME), folder.join("../lib").join(NAME)];
    for candidate in &candidates {
        if candidate.is_file() {
            let path = std::fs::canonicalize(candidate)
                .with_context(|| candidate.display().to_string())?;
            return Ok(Library { path });
        }
    }
    bail!(
        "{NAME} is neither {} nor {}; install it beside the command, or name it in RINGFENCE_LIBRARY",
        candidates[0].display(),
        candidates[1].display()
    )
}

impl Library {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The environment by which the dynamic loader, and OpenCL's, load
    /// Ringfence first.
    ///
    /// # Errors
    ///
    /// A path cannot be written in its variable, or what the program needs is
    /// missing: the CUDA runtime of the CPU device, the layer for OpenCL.
    pub fn environment(
        &self,
        device: DeviceKind,
        protect: Protections,
        facts: &Facts,
    ) -> Result<Environment> {
        let mut environment = Environment::new();
        self.cuda(device, facts, &mut environment)?;
        let mut preloaded = vec![self.path.clone()];
        // The first launch of a kernel that is loaded lazily waits until the
        // device is idle, which it never is while the guard runs.
        if protect.watch && std::env::var_os(LOADING).is_none() {
            environment.push((LOADING, "EAGER".into()));
        }
        if protect.canary
            && let Some(layer) = self.canary(facts, &mut environment)?
        {
            preloaded.push(layer);
        }
        environment.push(("LD_PRELOAD", preload(&preloaded)?));
        Ok(environment)
    }

    /// A layer of OpenCL's loader, which is preloaded, too, where the program
    /// may use OpenCL: not every loader has layers.
    fn canary(&self, facts: &Facts, environment: &mut Environment) -> Result<Option<PathBuf>> {
        let layer = self.path.with_file_name(OPENCL);
        if layer.is_file() {
            if layer.to_string_lossy().contains(':') {
                bail!(
                    "{} cannot be a layer, because OPENCL_LAYERS takes no path with a colon; copy it and {NAME} \
                     elsewhere and name the latter in RINGFENCE_LIBRARY",
                    layer.display()
                );
            }
            environment.push(("OPENCL_LAYERS", before(&layer, "OPENCL_LAYERS")));
            return Ok(facts.may_use_opencl().then_some(layer));
        }
        if facts.opencl() {
            bail!(
                "the program uses OpenCL, and the layer for it is missing: there is no {}; it is installed beside {NAME}",
                layer.display()
            );
        }
        Ok(None)
    }

    /// The library that takes the place of the driver's, for any protection.
    fn cuda(&self, device: DeviceKind, facts: &Facts, environment: &mut Environment) -> Result<()> {
        // The library that gets the program's NVTX calls, unless the user named another.
        if std::env::var_os(NVTX).is_none() {
            environment.push((NVTX, self.path.clone().into()));
        }
        if device != DeviceKind::Gpu {
            let runtimes = self.path.parent().unwrap_or(Path::new("/")).join("cudart");
            if facts.runtime() == Some(Runtime::Shared) && !runtimes.is_dir() {
                bail!(
                    "the program uses the shared CUDA runtime, and the one for `--device cpu` and `--device tenant` is missing: there is no \
                     folder {}; it is installed beside {NAME}",
                    runtimes.display()
                );
            }
            if runtimes.is_dir() {
                environment.push(("LD_LIBRARY_PATH", before(&runtimes, "LD_LIBRARY_PATH")));
            }
        }
        Ok(())
    }
}

/// The libraries, before those that are preloaded already.
fn preload(libraries: &[PathBuf]) -> Result<OsString> {
    let mut value = OsString::new();
    for path in libraries {
        if path.to_string_lossy().contains([' ', ':', '\t', '\n']) {
            bail!(
                "{} cannot be preloaded, because LD_PRELOAD takes no path with a colon or a space; copy the library \
                 elsewhere and name it in RINGFENCE_LIBRARY",
                path.display()
            );
        }
        if !value.is_empty() {
            value.push(":");
        }
        value.push(path);
    }
    Ok(before(Path::new(&value), "LD_PRELOAD"))
}

/// The path, before those that the variable holds already.
fn before(path: &Path, variable: &str) -> OsString {
    let mut value = path.as_os_str().to_os_string();
    if let Some(old) = std::env::var_os(variable).filter(|old| !old.is_empty()) {
        value.push(":");
        value.push(old);
    }
    value
}
