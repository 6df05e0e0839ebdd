//! Images that modules are loaded from.
//!
//! The runtime has already chosen and decompressed when it watches the
//! program: then an image is PTX text, or what the linker made of several.
//! Without checks (identity runs) the program's own fat binaries arrive.

use crate::convert::list;
use crate::session::say;
use driver::sys::{CUjit_option, CUresult};
use emulate::device::Device;
use fatbin::ModulePart;
use std::ffi::c_void;

/// Head of a linked image: this, the count of texts as u64, and each with its
/// length as u64 before it.
const LINKED: [u8; 8] = *b"\x01RFLINK\x01";

/// Largest PTX text that is decompressed, in bytes.
const LARGEST: u64 = 1 << 30;

/// Packs texts into one image.
pub fn pack(texts: &[String]) -> Vec<u8> {
    let mut image = LINKED.to_vec();
    image.extend((texts.len() as u64).to_le_bytes());
    for text in texts {
        image.extend((text.len() as u64).to_le_bytes());
        image.extend(text.as_bytes());
    }
    image
}

/// # Safety
/// `image` points to what [`pack`] made.
unsafe fn unpack(image: *const u8) -> Option<Vec<String>> {
    // SAFETY: `pack` wrote the count after the head.
    let count = unsafe { image.add(LINKED.len()).cast::<u64>().read_unaligned() };
    let mut texts = Vec::new();
    let mut offset = LINKED.len() + 8;
    for _ in 0..count {
        // SAFETY: `pack` wrote the length here and that many bytes after it.
        let bytes = unsafe {
            let length = image.add(offset).cast::<u64>().read_unaligned() as usize;
            std::slice::from_raw_parts(image.add(offset + 8), length)
        };
        offset += 8 + bytes.len();
        texts.push(std::str::from_utf8(bytes).ok()?.to_owned());
    }
    Some(texts)
}

/// PTX texts of an image.
///
/// # Safety
/// `image` is what cuModuleLoadData and cuLibraryLoadData take.
pub unsafe fn texts(image: *const c_void) -> Result<Vec<String>, CUresult> {
    if image.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: every image has four bytes, and one that starts like a linked
    // one has the rest.
    let is_linked = unsafe {
        image.cast::<[u8; 4]>().read() == *LINKED.first_chunk().unwrap_or(&[0; 4])
            && image.cast::<[u8; 8]>().read() == LINKED
    };
    if is_linked {
        // SAFETY: only `pack` writes this head.
        return unsafe { unpack(image.cast()) }.ok_or(CUresult::CUDA_ERROR_INVALID_IMAGE);
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
