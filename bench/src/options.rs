//! The options of the benches that run programs, and how they write results.

use crate::turns::{KernelRatios, Runner, Variant, in_turn_within, kernel_lines};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use suite::process::Outcome;
use suite::results::{Provenance, Results, processor, today};

/// Where programs are, and where results go.
#[derive(clap::Args)]
pub struct Places {
    /// Folder with the bench's programs, as in the GPU bundle.
    #[arg(long)]
    pub programs: PathBuf,
    /// The `ringfence` command.
    #[arg(long)]
    pub ringfence: PathBuf,
    /// File for the results.
    #[arg(long)]
    pub json: PathBuf,
    /// Commit of the measured sources.
    #[arg(long, default_value = "")]
    commit: String,
    /// Seconds that one program may take.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
}

impl Places {
    /// How programs are started on a device.
    pub fn runner<'a>(&'a self, device: &'a str) -> Runner<'a> {
        Runner {
            programs: &self.programs,
            ringfence: &self.ringfence,
            device,
            timeout: self.timeout(),
        }
    }

    /// What one program may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// Writes the results of a bench on the machine's GPU.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write<S: Serialize, R: Serialize>(&self, summary: S, rows: Vec<R>) -> Result<()> {
        self.write_of(device(), summary, rows)
    }

    /// Writes the results of a bench on another device: its name, and its
    /// driver's.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write_of<S: Serialize, R: Serialize>(
        &self,
        (device, driver): (String, String),
        summary: S,
        rows: Vec<R>,
    ) -> Result<()> {
        Results {
            summary,
            provenance: Provenance {
                device,
                driver,
                date: today(),
                commit: self.commit.clone(),
            },
            rows,
        }
        .write(&self.json)
    }

    /// The rows of results that are at a path, which must be of the same commit, and
    /// of this device: its name, and its driver's.
    ///
    /// # Errors
    ///
    /// There are none, or they are of another commit or device.
    pub fn earlier<R: DeserializeOwned>(
        &self,
        path: &Path,
        (device, driver): &(String, String),
    ) -> Result<Vec<R>> {
        let text = std::fs::read_to_string(path);
        let path = path.display();
        let text = text.with_context(|| format!("failed to read {path}, to go on with"))?;
        let results: Results<serde_json::Value, R> = serde_json::from_str(&text)
            .with_context(|| format!("{path} holds no results of this bench"))?;
        let was = &results.provenance;
        ensure!(
            was.commit == self.commit && was.device == *device && was.driver == *driver,
            "{path} holds results of commit `{}` on {} ({}), not of `{}` on {device} ({driver}): run without them",
            was.commit,
            was.device,
            was.driver,
            self.commit,
        );
        Ok(results.rows)
    }
}

/// The options of most benches.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    places: Places,
    /// `gpu`, or `cpu` to try the bench itself.
    #[arg(long, default_value = "gpu")]
    device: String,
    /// Small problems, one round: the numbers mean nothing.
    #[arg(long)]
    quick: bool,
}

impl Options {
    /// How programs are started.
    pub fn runner(&self) -> Runner<'_> {
        self.places.runner(&self.device)
    }

    /// Folder with the bench's programs.
    pub fn programs(&self) -> &Path {
        &self.places.programs
    }

    /// Whether programs run on the machine's GPU.
    pub fn on_gpu(&self) -> bool {
        self.device == "gpu"
    }

    /// Rounds that count; of a small problem, one.
    pub fn rounds(&self, wanted: usize) -> usize {
        if self.quick { 1 } else { wanted }
    }

    /// The arguments that set the size of programs' problems.
    pub fn size(&self) -> &'static [&'static str] {
        if self.quick { &["--quick"] } else { &[] }
    }

    /// Times all kernels of a program under variants in turn, the first of which is native:
    /// for so many rounds, of which no further one begins after `within`.
    ///
    /// # Errors
    ///
    /// The program fails, runs out of time, or computes something else.
    pub fn kernels(
        &self,
        program: &str,
        variants: &[(&'static str, Variant<'_>)],
        rounds: usize,
        within: Duration,
    ) -> Result<Vec<KernelRatios>> {
        let runner = self.runner();
        let rounds = in_turn_within(within, variants.len(), self.rounds(rounds), |variant| {
            kernel_lines(&runner.run(program, self.size(), variants[variant].1)?)
        })?;
        rounds.kernels(variants)
    }

    /// Runs the program `host`, which measures `what`.
    ///
    /// # Errors
    ///
    /// It fails, or runs out of time.
    pub fn host(&self, what: &str, variant: Variant<'_>) -> Result<Outcome> {
        let arguments = [&[what], self.size()].concat();
        self.runner().run("host", &arguments, variant)
    }

    /// [`Places::write`].
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write<S: Serialize, R: Serialize>(&self, summary: S, rows: Vec<R>) -> Result<()> {
        self.places.write(summary, rows)
    }
}

/// Device name and driver version, from nvidia-smi; empty where it is missing.
pub fn device() -> (String, String) {
    let output = Command::new("nvidia-smi")
        .args(["--query-gpu=name,driver_version", "--format=csv,noheader"])
        .output();
    let text = output.map_or(String::new(), |output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    let mut fields = text.lines().next().unwrap_or("").split(',');
    let mut field = || fields.next().unwrap_or("").trim().to_owned();
    (field(), field())
}

/// The same, or the processor where programs run on the CPU device.
pub fn device_or_processor(is_on_gpu: bool) -> (String, String) {
    match is_on_gpu {
        true => device(),
        false => (processor(), "none".to_owned()),
    }
}

/// MiB in use on the GPU that programs run on: the first of `CUDA_VISIBLE_DEVICES`, else
/// of all.
///
/// # Errors
///
/// There is no nvidia-smi, or it gives no number.
pub fn memory_used() -> Result<u64> {
    let mut command = Command::new("nvidia-smi");
    command.args(["--query-gpu=memory.used", "--format=csv,noheader,nounits"]);
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    if let Some(first) = visible.split(',').next().filter(|first| !first.is_empty()) {
        command.args(["--id", first]);
    }
    let output = command.output().context("failed to start nvidia-smi")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().unwrap_or("").trim();
    ensure!(output.status.success(), "nvidia-smi: {}", output.status);
    first
        .parse()
        .with_context(|| format!("nvidia-smi says `{first}`"))
}
