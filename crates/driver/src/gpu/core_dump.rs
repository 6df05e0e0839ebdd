//! What the driver's core dump says about a kernel that failed.
//!
//! The driver writes one only if that was asked for before; it must not end the
//! process then, which is its default.

use super::{Gpu, check, missing};
use crate::core_dump::{self, Fault};
use crate::sys::{CUCoredumpGenerationFlags, CUcoredumpSettings, CUresult};
use crate::{DriverError, FailedKernel, FailedThread};
use model::{Stopped, ThreadCoordinates};
use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the program's user sets to have core dumps without Ringfence.
const USERS_OWN: &str = "CUDA_ENABLE_COREDUMP_ON_EXCEPTION";
/// How long the file of a failure is waited for, and until it is whole.
const TO_BEGIN: Duration = Duration::from_secs(5);
const TO_END: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
/// Most bytes of a file name that the driver takes, with its end.
const NAME_LIMIT: usize = 1023;

/// The file that the driver writes.
#[derive(Debug)]
pub(super) struct DumpFile(PathBuf);

impl Gpu {
    /// [`Driver::dump_failures`](crate::Driver::dump_failures).
    pub(super) fn ask_for_dumps(&self, file: &Path) -> Result<(), DriverError> {
        let refused = |message: String| DriverError {
            call: "cuCoredumpSetAttributeGlobal",
            code: CUresult::CUDA_ERROR_NOT_SUPPORTED,
            message,
        };
        if std::env::var_os(USERS_OWN).is_some() {
            return Err(refused(format!("{USERS_OWN} is set, and its file is kept")));
        }
        let name = CString::new(file.as_os_str().as_bytes())
            .ok()
            .filter(|name| name.as_bytes_with_nul().len() <= NAME_LIMIT)
            .ok_or_else(|| refused(format!("{} cannot be its file", file.display())))?;
        // First: a driver that does not know these would end the process.
        let flags = CUCoredumpGenerationFlags::CU_COREDUMP_LIGHTWEIGHT_FLAGS.0
            | CUCoredumpGenerationFlags::CU_COREDUMP_SKIP_ABORT.0;
        let flags_setting = CUcoredumpSettings::CU_COREDUMP_GENERATION_FLAGS;
        self.set(flags_setting, &mut flags.to_ne_bytes())?;
        let mut name = name.into_bytes_with_nul();
        self.set(CUcoredumpSettings::CU_COREDUMP_FILE, &mut name)?;
        let enabled = CUcoredumpSettings::CU_COREDUMP_ENABLE_ON_EXCEPTION;
        self.set(enabled, &mut [1])?;
        // A second call would be for the same file.
        let _ = self.dump.set(DumpFile(file.to_owned()));
        Ok(())
    }

    fn set(&self, attribute: CUcoredumpSettings, value: &mut [u8]) -> Result<(), DriverError> {
        let mut size = value.len();
        let place = value.as_mut_ptr().cast::<c_void>();
        call!(
            self,
            cuCoredumpSetAttributeGlobal(attribute, place, &mut size)
        )
    }

    /// The kernel that failed, by the dump, if there is one. Reads it once.
    pub(super) fn dumped_kernel(&self) -> Option<FailedKernel> {
        let DumpFile(file) = self.dump.get()?;
        self.dumped
            .get_or_init(|| failed_kernel(wait_for(file)?))
            .clone()
    }
}

/// The faults of a dump, when the driver has written all of it.
fn wait_for(file: &Path) -> Option<Vec<Fault>> {
    let started = Instant::now();
    loop {
        let bytes = std::fs::read(file).ok().filter(|bytes| !bytes.is_empty());
        let is_there = bytes.is_some();
        if let Some(Ok(faults)) = bytes.map(|bytes| core_dump::faults(&bytes)) {
            // It is large, and has been read.
            let _ = std::fs::remove_file(file);
            return Some(faults);
        }
        if started.elapsed() > if is_there { TO_END } else { TO_BEGIN } {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}

/// What the faults say together.
fn failed_kernel(faults: Vec<Fault>) -> Option<FailedKernel> {
    let first = faults.iter().find(|fault| fault.function.is_some())?;
    let name = first.function.clone()?;
    let at = |fault: &Fault| ThreadCoordinates {
        block: fault.block,
        thread: fault.thread,
    };
    let place = first.offset.unwrap_or_default();
    Some(FailedKernel {
        function: 0,
        stopped: Stopped {
            detail: format!("stopped by the device at {name}+{place:#x} of the machine code"),
            thread: at(first),
            source: None,
            ptx_line: 0,
            instruction: String::new(),
        },
        name,
        address: 0,
        threads: faults
            .iter()
            .flat_map(|fault| {
                let all = fault.addresses.iter();
                all.map(|&address| FailedThread {
                    thread: at(fault),
                    address,
                })
            })
            .collect(),
    })
}
