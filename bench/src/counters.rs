//! Hardware counters of a program's kernels, natively and under Ringfence, as NVIDIA's
//! profiler `ncu` reads them.
//!
//! The profiler preloads a library of its own before all others. The CUDA runtime gets it
//! when it opens the driver by name, and it calls the driver itself: Ringfence would be
//! bypassed. So programs run as copies whose runtime opens another name, which leads to
//! Ringfence's library; the profiler counts the kernels that Ringfence launches.

use crate::turns::{KernelLine, Runner, Variant, kernel_lines};
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::ops::Sub;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use suite::process;
use suite::run::in_front;
use tempfile::TempDir;

/// The name of the driver's library, and the one of the same length that leads to
/// Ringfence's.
const DRIVER: (&str, &str) = ("libcuda.so.1", "libcudr.so.1");

/// Sectors that loads from global memory look up in L1.
const LOADED: &str = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
/// Of those, the ones that are in L1.
const IN_L1: &str = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum";
/// Sectors that L1 reads from L2.
const READ: &str = "lts__t_sectors_srcunit_tex_op_read.sum";
/// Of those, the ones that are in L2.
const IN_L2: &str = "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum";

/// What one launch of a kernel has loaded, in sectors of 32 bytes. The caches were empty
/// when it began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loads {
    /// All of them.
    pub all: f64,
    /// Those that were not in L1.
    pub past_l1: f64,
    /// Those that were not in L2 either. (Reads of other kinds are among them, such as
    /// those of atomics.)
    pub past_l2: f64,
}

impl Sub for Loads {
    type Output = Loads;

    fn sub(self, other: Loads) -> Loads {
        Loads {
            all: self.all - other.all,
            past_l1: self.past_l1 - other.past_l1,
            past_l2: self.past_l2 - other.past_l2,
        }
    }
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
            .arg([LOADED, IN_L1, READ, IN_L2].join(","))
            .args(["--csv", "--page", "raw", "--print-units", "base"])
            .arg("--log-file")
            .arg(&log)
            .arg(inner.get_program())
            .args(inner.get_args())
            .arg("--profile")
            .args(arguments)
            .env("LD_LIBRARY_PATH", in_front(self.folder.path())?);
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
    let records = csv::Reader::from_reader(table.as_bytes()).into_deserialize();
    let mut launches = Vec::new();
    for record in records.skip(1) {
        let record: HashMap<String, String> = record?;
        let number = |metric: &str| -> Result<f64> {
            let field = record
                .get(metric)
                .with_context(|| format!("the profiler gave no {metric}: {text}"))?;
            // (It groups digits.)
            let digits = field.replace(',', "");
            digits
                .parse()
                .with_context(|| format!("`{field}` is no number"))
        };
        launches.push(Loads {
            all: number(LOADED)?,
            past_l1: number(LOADED)? - number(IN_L1)?,
            past_l2: number(READ)? - number(IN_L2)?,
        });
    }
    ensure!(
        !launches.is_empty(),
        "the profiler counted no launch: {text}"
    );
    Ok(launches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_are_read_behind_the_messages() {
        let metrics = [LOADED, IN_L1, READ, IN_L2];
        let heads = metrics.map(|metric| format!("\"{metric}\"")).join(",");
        let text = format!(
            "==PROF== Connected\n\"ID\",\"Kernel Name\",{heads}\n\"\",\"\",\"sector\",\"sector\",\"sector\",\"sector\"\n\
             \"0\",\"k(int, int)\",\"1,000\",\"900\",\"110\",\"100\"\n\"1\",\"l\",\"8\",\"0\",\"8\",\"8\"\n"
        );
        let loads = |all, past_l1, past_l2| Loads {
            all,
            past_l1,
            past_l2,
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
