//! Hardware counters of a program's kernels, natively and under Ringfence, as NVIDIA's
//! profiler `ncu` reads them.
//!
//! The profiler preloads a library of its own before all others, which answers where the
//! CUDA runtime opens the driver by its name, and passes calls on to the driver itself. So
//! that Ringfence is between the program and that library, the runtime in a copy of the
//! program opens another name, which leads to Ringfence's library.

use crate::turns::{KernelLine, Runner, Variant, kernel_lines};
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use suite::process;
use tempfile::TempDir;

/// The name of the driver's library, and the one of the same length that leads to
/// Ringfence's.
const DRIVER: (&str, &str) = ("libcuda.so.1", "libcudr.so.1");

/// Of loads from global memory: sectors, of 32 bytes, that were looked up in the first
/// cache, and found there; read from the second one, and found there.
const METRICS: [&str; 4] = [
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum",
];

/// What one launch of a kernel has loaded, in sectors of 32 bytes. The caches were empty
/// when it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loads {
    /// All of them.
    pub all: f64,
    /// Those that were not in the first cache.
    pub past_first: f64,
    /// Those that were not in the second one either. (Reads of other kinds are among
    /// them, such as those of atomics.)
    pub past_second: f64,
}

/// The profiler, and the programs that were prepared for it.
pub struct Profiler<'x> {
    ncu: &'x Path,
    runner: Runner<'x>,
    folder: TempDir,
}

impl<'x> Profiler<'x> {
    /// # Errors
    ///
    /// Its folder cannot be made, or Ringfence's library is not beside its command.
    pub fn new(ncu: &'x Path, runner: Runner<'x>) -> Result<Profiler<'x>> {
        let folder = tempfile::tempdir()?;
        let library = runner.ringfence.with_file_name("libringfence.so");
        let library = std::fs::canonicalize(&library)
            .with_context(|| format!("failed to find {}", library.display()))?;
        symlink(library, folder.path().join(DRIVER.1))?;
        Ok(Profiler {
            ncu,
            runner,
            folder,
        })
    }

    /// What each kernel of a program loads in one launch. The program launches one kernel
    /// for each line that it prints.
    ///
    /// # Errors
    ///
    /// The program or the profiler fails, or they do not agree on the kernels.
    pub fn loads(
        &self,
        program: &str,
        arguments: &[&str],
        variant: Variant<'_>,
    ) -> Result<Vec<(KernelLine, Loads)>> {
        let path = match variant {
            Variant::Native => self.runner.programs.join(program),
            Variant::Ringfence(_) => self.prepared(program)?,
        };
        // (The runner would look for another one in the folder of programs.)
        let path = std::path::absolute(path)?;
        let path = path.to_str().context("the program's path is no text")?;
        let log = self.folder.path().join("counters.csv");
        let inner = self.runner.command(path, variant);
        let mut command = Command::new(self.ncu);
        command
            .args(["--target-processes", "all", "--clock-control", "none"])
            .args(["--profile-from-start", "off", "--metrics"])
            .arg(METRICS.join(","))
            .args(["--csv", "--page", "raw", "--print-units", "base"])
            .arg("--log-file")
            .arg(&log)
            .arg(inner.get_program())
            .args(inner.get_args())
            .arg("--profile")
            .args(arguments)
            .env("LD_LIBRARY_PATH", self.libraries());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let outcome = process::run(&mut command, self.runner.timeout)?;
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        ensure!(
            outcome.code() == Some(0),
            "{program} {variant:?} {} under {}: {} {text}",
            outcome.describe(),
            self.ncu.display(),
            outcome.stderr.trim()
        );
        let lines = kernel_lines(&outcome)?;
        let loads = parse(&text)?;
        ensure!(
            lines.len() == loads.len(),
            "{program} has {} kernels, and {} were counted: {text}",
            lines.len(),
            loads.len()
        );
        Ok(lines.into_iter().zip(loads).collect())
    }

    /// A copy of a program that opens Ringfence's library in place of the driver's.
    fn prepared(&self, program: &str) -> Result<PathBuf> {
        let copy = self.folder.path().join(program);
        if copy.exists() {
            return Ok(copy);
        }
        let original = self.runner.programs.join(program);
        let mut bytes = std::fs::read(&original)
            .with_context(|| format!("failed to read {}", original.display()))?;
        let renamed = rename(&mut bytes);
        ensure!(
            renamed > 0,
            "{} has no CUDA runtime of its own that opens {}",
            original.display(),
            DRIVER.0
        );
        std::fs::write(&copy, bytes)?;
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755))?;
        Ok(copy)
    }

    /// Where libraries are looked for: first where the other name is.
    fn libraries(&self) -> std::ffi::OsString {
        let mut path = self.folder.path().as_os_str().to_owned();
        if let Some(old) = std::env::var_os("LD_LIBRARY_PATH").filter(|old| !old.is_empty()) {
            path.push(":");
            path.push(old);
        }
        path
    }
}

/// Puts the other name in place of the driver's; how often.
fn rename(bytes: &mut [u8]) -> usize {
    let (name, other) = (DRIVER.0.as_bytes(), DRIVER.1.as_bytes());
    let mut renamed = 0;
    let mut at = 0;
    while let Some(rest) = bytes.get_mut(at..at + name.len()) {
        if rest == name {
            rest.copy_from_slice(other);
            renamed += 1;
        }
        at += 1;
    }
    renamed
}

/// The launches in what the profiler has written: its messages, a line of heads, one of
/// units, and one for each launch.
fn parse(text: &str) -> Result<Vec<Loads>> {
    let table = text.find("\"ID\",").map_or("", |start| &text[start..]);
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let heads = reader.headers()?.clone();
    let place = |metric: &str| {
        let place = heads.iter().position(|head| head == metric);
        place.with_context(|| format!("the profiler gave no {metric}: {text}"))
    };
    let mut places = [0; METRICS.len()];
    for (place_of, metric) in places.iter_mut().zip(METRICS) {
        *place_of = place(metric)?;
    }
    let mut launches = Vec::new();
    for record in reader.records().skip(1) {
        let record = record?;
        let mut values = [0.0; METRICS.len()];
        for (value, place) in values.iter_mut().zip(places) {
            let field = record.get(place).unwrap_or_default();
            // (It groups digits.)
            *value = field
                .replace(',', "")
                .parse()
                .with_context(|| format!("`{field}` is no number"))?;
        }
        let [all, first, read, second] = values;
        launches.push(Loads {
            all,
            past_first: all - first,
            past_second: read - second,
        });
    }
    Ok(launches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_are_read_behind_the_messages() {
        let heads = METRICS.map(|metric| format!("\"{metric}\"")).join(",");
        let text = format!(
            "==PROF== Connected\n\"ID\",\"Kernel Name\",{heads}\n\"\",\"\",\"sector\",\"sector\",\"sector\",\"sector\"\n\
             \"0\",\"k(int, int)\",\"1,000\",\"900\",\"110\",\"100\"\n\"1\",\"l\",\"8\",\"0\",\"8\",\"8\"\n"
        );
        let loads = |all, past_first, past_second| Loads {
            all,
            past_first,
            past_second,
        };
        assert_eq!(
            parse(&text).unwrap(),
            [loads(1000.0, 100.0, 10.0), loads(8.0, 8.0, 0.0)]
        );
        let error = parse("==ERROR== no permission").unwrap_err().to_string();
        assert!(error.contains("no permission"), "{error}");
        assert!(parse(&text.replace("1,000", "n/a")).is_err());
    }

    #[test]
    fn a_copy_opens_another_name() {
        let mut bytes = b"..libcuda.so.1\0libcuda.so\0".to_vec();
        assert_eq!(rename(&mut bytes), 1);
        assert_eq!(bytes, b"..libcudr.so.1\0libcuda.so\0");
    }
}
