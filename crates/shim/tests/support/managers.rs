//! Managers of the CPU device in a test's own process. Their workers are the test's
//! executable again, so that it has a test `compile_worker` which calls
//! [`work_if_asked`].

use manager::{DeviceChoice, Options, Quota, Worker};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of memory that a tenant may have.
pub const MEMORY: u64 = 64 << 20;

/// Set in workers.
const WORKER: &str = "RINGFENCE_TEST_WORKER";

/// Options of a manager.
pub fn options(socket: PathBuf, threads: u32) -> Options {
    let worker = Worker {
        program: "/proc/self/exe".into(),
        arguments: ["--exact", "compile_worker"].map(Into::into).into(),
        environment: vec![(WORKER.into(), "1".into())],
    };
    Options {
        quota: Quota {
            memory: MEMORY,
            ..Quota::default()
        },
        kernel_time: Some(Duration::from_secs(2)),
        ..Options::new(socket, DeviceChoice::Cpu(threads), worker)
    }
}

/// Works for a manager, in a process that one has started.
pub fn work_if_asked() {
    if std::env::var_os(WORKER).is_some() {
        manager::work();
        std::process::exit(0);
    }
}
