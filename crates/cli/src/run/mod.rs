//! `ringfence run`: check, prepare, run, conclude.

mod child;
pub mod library;
mod outcome;
mod program;

use crate::options::RunOptions;
use anyhow::{Context, Result, bail};
use cache::Cache;
use driver::gpu::Gpu;
use model::{DeviceKind, Settings};
use report::Suppressions;
use std::path::Path;

/// Runs a program under Ringfence. Returns the exit code.
pub fn run(options: &RunOptions) -> Result<u8> {
    let environment = match std::env::var("RINGFENCE_OPTIONS") {
        Ok(text) => Some(text),
        Err(std::env::VarError::NotPresent) => None,
        Err(error) => return Err(error).context("RINGFENCE_OPTIONS cannot be read"),
    };
    let mut settings = options
        .settings(environment.as_deref())
        .context("RINGFENCE_OPTIONS")?;

    // Everything that can be checked before the program starts is.
    let program = program::find(&options.program[0])?;
    let device = choose_device(&mut settings)?;
    if device == DeviceKind::Tenant {
        as_tenant(options, &mut settings)?;
    }
    let facts = program::examine(&program)?;
    facts.check(&program, device)?;
    let library = library::find()?;
    let preload = library.environment(device, settings.protect, &facts)?;
    let suppressions = suppressions(&mut settings)?;
    check_outputs(&settings)?;
    check_cache(&mut settings)?;

    let session = tempfile::Builder::new()
        .prefix("ringfence-")
        .tempdir()
        .context("cannot make a directory for the results; set TMPDIR to one that is writable")?;
    settings.session = Some(session.path().to_path_buf());
    let ended = child::run(&child::Start {
        program: &program,
        arguments: &options.program,
        environment: &preload,
        settings: &settings,
    })?;
    let outcome = outcome::Outcome::collect(session.path(), ended, suppressions.as_ref())?;
    outcome.conclude(&options.program, &settings)
}

/// The requested device, else the GPU where there is one.
fn choose_device(settings: &mut Settings) -> Result<DeviceKind> {
    let device = settings.device.unwrap_or_else(|| {
        let node = ["/dev/nvidiactl", "/dev/dxg"]
            .iter()
            .any(|path| Path::new(path).exists());
        let library = settings.driver.is_some() || Gpu::is_installed();
        if node && library {
            DeviceKind::Gpu
        } else {
            DeviceKind::Cpu
        }
    });
    settings.device = Some(device);
    if device == DeviceKind::Gpu {
        let path = match settings.driver.take() {
            Some(path) if path.is_file() => path,
            Some(path) => bail!(
                "there is no driver library {}; --driver takes the path of libcuda.so.1",
                path.display()
            ),
            None => Gpu::find()?,
        };
        // The program may change its directory before its first CUDA call.
        let path = std::path::absolute(&path)
            .with_context(|| format!("cannot resolve {}", path.display()))?;
        settings.driver = Some(path);
    }
    Ok(device)
}

/// What cannot be asked for on a device that a manager owns: kernels run there
/// fenced, and nothing of the program's own process looks at them.
fn as_tenant(options: &RunOptions, settings: &mut Settings) -> Result<()> {
    let usual = Settings::default();
    let asked = [
        ("protect", settings.protect != usual.protect),
        ("leak-check", settings.leak_check != usual.leak_check),
        ("time-kernels", settings.time_kernels.is_some()),
        ("json", settings.json.is_some()),
        ("sarif", settings.sarif.is_some()),
        ("junit", settings.junit.is_some()),
        ("cache-dir", settings.cache_dir.is_some()),
    ];
    let asked = asked
        .iter()
        .find(|(name, is_set)| *is_set || options.is_given(name));
    if let Some((option, _)) = asked {
        bail!(
            "--{option} does not work with --device tenant: kernels of a tenant are fenced by the manager, and nothing is \
             checked or reported in the program; remove --{option}, or choose another device"
        );
    }
    settings.check = false;
    if let Some(path) = &mut settings.socket {
        // The program may change its directory before its first CUDA call.
        *path = std::path::absolute(&*path)
            .with_context(|| format!("cannot resolve {}", path.display()))?;
    }
    Ok(())
}

/// Reads the file of suppressions, which every process will read again.
fn suppressions(settings: &mut Settings) -> Result<Option<Suppressions>> {
    let Some(path) = &mut settings.suppressions else {
        return Ok(None);
    };
    let read =
        Suppressions::read(path).map_err(|message| anyhow::anyhow!("--suppressions {message}"))?;
    // The program may change its directory before its first CUDA call.
    *path = std::path::absolute(&*path)
        .with_context(|| format!("cannot resolve {}", path.display()))?;
    Ok(Some(read))
}

/// Fails before the program starts if a result could not be written later.
fn check_outputs(settings: &Settings) -> Result<()> {
    if let Some(pattern) = &settings.log_file {
        let name =
            report::expand_file_name(pattern, std::process::id(), |key| std::env::var(key).ok())
                .map_err(|message| anyhow::anyhow!("--log-file {message}"))?;
        check_writable(Path::new(&name), pattern.contains("%p"))
            .with_context(|| format!("--log-file {pattern}"))?;
    }
    let files = [
        ("json", &settings.json),
        ("sarif", &settings.sarif),
        ("junit", &settings.junit),
        ("time-kernels", &settings.time_kernels),
    ];
    for (option, path) in files {
        if let Some(path) = path {
            check_writable(path, false)
                .with_context(|| format!("--{option} {}", path.display()))?;
        }
    }
    Ok(())
}

/// Fails before the program starts if instrumented modules could not be kept.
fn check_cache(settings: &mut Settings) -> Result<()> {
    if let Some(path) = &mut settings.cache_dir {
        Cache::open(path, settings.cache_size).context("--cache-dir")?;
        // The program may change its directory before its first CUDA call.
        *path = std::path::absolute(&*path)
            .with_context(|| format!("cannot resolve {}", path.display()))?;
    }
    Ok(())
}

/// Opens a file for writing and empties it; `trial`: another name will be
/// used in the end, so it is removed again.
fn check_writable(path: &Path, trial: bool) -> Result<()> {
    let existed = path.exists();
    let opened = std::fs::OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(!trial)
        .open(path);
    opened.with_context(|| format!("cannot write to {}; choose another file", path.display()))?;
    if trial && !existed {
        std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}
