//! Images that modules are loaded from.
//!
//! The runtime has already chosen and decompressed when it watches the
//! program: then an image is PTX text, or what the linker made of several.
//! Without checks (identity runs) the program's own fat binaries arrive.

use crate::convert::list;
use crate::session::say;
use driver::linked;
use driver::sys::{CUjit_option, CUresult};
use emulate::device::Device;
use fatbin::ModulePart;
use std::ffi::c_void;

/// Largest PTX text that is decompressed, in bytes.
const LARGEST: u64 = 1 << 30;

/// PTX texts of an image.
///
/// # Safety
/// `image` is what cuModuleLoadData and cuLibraryLoadData take.
pub unsafe fn texts(image: *const c_void) -> Result<Vec<String>, CUresult> {
    if image.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: this function's promise.
    if let Some(texts) = unsafe { linked::texts(image) } {
        return Ok(texts.into_iter().map(str::to_owned).collect());
    }
    // SAFETY: this function's promise.
    let parts = unsafe {
        driver::image::parts(image, &mut |error| {
            say(&format!("a fat binary cannot be read: {error}"))
        })
    };
    texts_of(&parts)
}

/// PTX texts of parts.
pub fn texts_of(parts: &[ModulePart<'_>]) -> Result<Vec<String>, CUresult> {
    if parts.is_empty() {
        return Err(CUresult::CUDA_ERROR_INVALID_IMAGE);
    }
    let mut texts = Vec::new();
    for part in parts {
        match part {
            ModulePart::Ptx(text) => texts.push((*text).to_owned()),
            ModulePart::Elf(_) => return Err(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU),
            ModulePart::Fatbin(bytes) => {
                let entries = fatbin::parse(bytes).map_err(|error| {
                    say(&format!("a fat binary cannot be read: {error}"));
                    CUresult::CUDA_ERROR_INVALID_IMAGE
                })?;
                let capability = Device::CAPABILITY.0 * 10 + Device::CAPABILITY.1;
                let Some(best) = fatbin::best_ptx(&entries, capability) else {
                    // An empty container and the device runtime come with
                    // every program built with -rdc=true.
                    if parts.len() > 1
                        && (entries.is_empty() || fatbin::is_device_runtime(&entries))
                    {
                        continue;
                    }
                    return Err(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
                };
                let payload = best.payload(LARGEST).map_err(|error| {
                    say(&format!("PTX in a fat binary cannot be read: {error}"));
                    CUresult::CUDA_ERROR_INVALID_IMAGE
                })?;
                let text = String::from_utf8(payload.into_owned())
                    .map_err(|_| CUresult::CUDA_ERROR_INVALID_PTX)?;
                texts.push(text);
            }
        }
    }
    Ok(texts)
}

/// Where the program reads what went wrong: the error log buffer of
/// its JIT options.
#[derive(Clone, Copy)]
pub struct ErrorLog {
    buffer: *mut u8,
    size: usize,
}

impl ErrorLog {
    /// No log.
    pub const NONE: ErrorLog = ErrorLog {
        buffer: std::ptr::null_mut(),
        size: 0,
    };

    /// The log among JIT options.
    ///
    /// # Safety
    /// Both arrays are null or have `count` elements, which are what
    /// cuModuleLoadDataEx documents, and the log outlives the answer.
    pub unsafe fn of(
        count: u32,
        options: *const CUjit_option,
        values: *const *mut c_void,
    ) -> ErrorLog {
        // SAFETY: this function's promise.
        let (options, values) =
            unsafe { (list(options, count as usize), list(values, count as usize)) };
        let mut log = ErrorLog::NONE;
        for (option, value) in options.iter().zip(values) {
            match *option {
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER => log.buffer = value.cast(),
                // The size is in the pointer itself.
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES => {
                    log.size = *value as usize & 0xffff_ffff
                }
                _ => {}
            }
        }
        log
    }

    fn write(self, message: &str) {
        if self.buffer.is_null() || self.size == 0 {
            return;
        }
        let length = message.len().min(self.size - 1);
        // SAFETY: `length + 1 <= size`, the size of the program's buffer.
        unsafe {
            std::ptr::copy_nonoverlapping(message.as_ptr(), self.buffer, length);
            self.buffer.add(length).write(0);
        }
    }
}

/// Loads texts into the current context, naming what is wrong with them.
pub fn load(device: &Device, texts: &[String], log: ErrorLog) -> Result<u64, CUresult> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    named(device.load_module(&texts), log)
}

/// Loads texts for all contexts, naming what is wrong with them.
pub fn load_library(device: &Device, texts: &[String], log: ErrorLog) -> Result<u64, CUresult> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    named(device.load_library(&texts), log)
}

fn named(loaded: Result<u64, (CUresult, String)>, log: ErrorLog) -> Result<u64, CUresult> {
    loaded.map_err(|(code, message)| {
        log.write(&message);
        say(&format!(
            "the CPU device could not load a module: {message}"
        ));
        code
    })
}
