//! A manager for programs that run as tenants.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A manager, which ends with this value.
pub struct Manager {
    child: Child,
    folder: PathBuf,
}

/// How long a manager may take to start.
const START: Duration = Duration::from_secs(30);

impl Manager {
    /// Starts one that owns a device, `cpu` or `gpu`.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn start(ringfence: &Path, device: &str) -> Result<Manager> {
        let folder = std::env::temp_dir().join(format!("ringfence-tenants-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("failed to make {}", folder.display()))?;
        let log = folder.join("log");
        let errors = std::fs::File::create(&log)
            .with_context(|| format!("failed to write {}", log.display()))?;
        let child = Command::new(ringfence)
            .args([
                "manager",
                "--device",
                device,
                "--memory-per-tenant",
                "1g",
                "--socket",
            ])
            .arg(folder.join("socket"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .with_context(|| format!("failed to start {}", ringfence.display()))?;
        let mut manager = Manager { child, folder };
        let begin = Instant::now();
        // Tenants wait in its queue until it takes them.
        while !manager.socket().exists() {
            let ended = manager.child.try_wait()?;
            if ended.is_some() || begin.elapsed() > START {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("the manager does not start: {}", said.trim());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(manager)
    }

    /// Where tenants connect.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Only what it left lies there.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
