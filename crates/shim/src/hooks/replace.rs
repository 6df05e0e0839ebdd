//! What the device is given in place of the program's code: instrumented PTX,
//! linked if there are several texts.

use super::capture;
use crate::session::{self, next};
use crate::state::Linked;
use driver::Api;
use driver::sys::{CUjit_option, CUjitInputType, CUlinkState, CUmodule, CUresult};
use runtime::{ModulePart, ModulePlan, Prepared, Runtime};
use std::ffi::c_void;
use std::sync::Arc;

/// Options of the linker and the just-in-time compiler.
#[derive(Clone, Copy)]
pub struct Options {
    pub count: u32,
    pub names: *mut CUjit_option,
    pub values: *mut *mut c_void,
}

impl Options {
    pub const NONE: Options = Options {
        count: 0,
        names: std::ptr::null_mut(),
        values: std::ptr::null_mut(),
    };
}

/// Bytes kept of what the device's compiler says when it refuses our code.
const LOG_SIZE: usize = 4096;

/// The program's options, with a log of errors added if it has none itself.
/// Only for calls that have compiled when they return: the device writes the
/// log whenever it compiles, which for a lazily loaded library may be later.
struct LoggedOptions {
    names: Vec<CUjit_option>,
    values: Vec<*mut c_void>,
    log: Vec<u8>,
}

impl LoggedOptions {
    /// # Safety
    /// `options` are a program's valid arguments.
    unsafe fn new(options: Options) -> LoggedOptions {
        let count = options.count as usize;
        let (mut names, mut values) =
            if count == 0 || options.names.is_null() || options.values.is_null() {
                (Vec::new(), Vec::new())
            } else {
                // SAFETY: both arrays have `count` elements.
                unsafe {
                    (
                        std::slice::from_raw_parts(options.names, count).to_vec(),
                        std::slice::from_raw_parts(options.values, count).to_vec(),
                    )
                }
            };
        let mut log = Vec::new();
        if !names.contains(&CUjit_option::CU_JIT_ERROR_LOG_BUFFER) {
            log = vec![0; LOG_SIZE];
            names.extend([
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            ]);
            values.extend([log.as_mut_ptr().cast(), LOG_SIZE as *mut c_void]);
        }
        LoggedOptions { names, values, log }
    }

    fn raw(&mut self) -> Options {
        Options {
            count: self.names.len() as u32,
            names: self.names.as_mut_ptr(),
            values: self.values.as_mut_ptr(),
        }
    }

    fn text(&self) -> String {
        let end = self
            .log
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(self.log.len());
        String::from_utf8_lossy(&self.log[..end]).trim().to_owned()
    }
}

/// What takes the place of the program's image.
pub struct Replacement {
    /// One NUL-terminated PTX text, or a linked cubin.
    pub image: Vec<u8>,
    /// The runtime's plan of it.
    pub plan: Arc<ModulePlan>,
    /// Whether it carries checks.
    pub instrumented: bool,
}

pub enum Decision {
    /// Load this.
    Replace(Replacement),
    /// Load what the program gave.
    Keep(Option<Arc<ModulePlan>>),
}

/// Decides about an image. Several texts are linked by the device, and so is what the
/// program has `linked` itself, with the options that it gave for that.
///
/// # Safety
/// `options` are the program's.
pub unsafe fn decide(
    runtime: &Runtime,
    parts: &[ModulePart<'_>],
    linked: Option<&Linked>,
    options: Options,
) -> Decision {
    if parts.is_empty() {
        return Decision::Keep(None);
    }
    let from_texts = linked.map(Linked::parts);
    let parts = from_texts.as_deref().unwrap_or(parts);
    let (texts, plan, instrumented) = match runtime.modules().prepare(parts) {
        Prepared::Instrumented { ptx, plan } => (ptx, plan, true),
        Prepared::Original {
            plan,
            ptx: Some(ptx),
        } if on_cpu() => (ptx, plan, false),
        Prepared::Original { plan, .. } => return Decision::Keep(Some(plan)),
    };
    let image = match (linked, <[String; 1]>::try_from(texts)) {
        (Some(linked), texts) => {
            let texts = texts.map_or_else(|texts| texts, Vec::from);
            let (mut names, mut values) = numbers(linked);
            let options = Options {
                count: names.len() as u32,
                names: names.as_mut_ptr(),
                values: values.as_mut_ptr(),
            };
            // SAFETY: as many names as values, which are numbers.
            unsafe { link(texts, options) }
        }
        (None, Ok([text])) => {
            let mut bytes = text.into_bytes();
            bytes.push(0);
            Ok(bytes)
        }
        // SAFETY: the program's options.
        (None, Err(texts)) => unsafe { link(texts, options) },
    };
    match image {
        Ok(image) => Decision::Replace(Replacement {
            image,
            plan,
            instrumented,
        }),
        Err(message) => {
            runtime.modules().rejected(&plan, &message);
            Decision::Keep(Some(plan))
        }
    }
}

/// The options of a linker of the program, as the device takes them: a number is in
/// place of the pointer.
fn numbers(linked: &Linked) -> (Vec<CUjit_option>, Vec<*mut c_void>) {
    let options = linked.options.iter();
    options
        .map(|(name, value)| (*name, std::ptr::without_provenance_mut(*value)))
        .unzip()
}

pub fn on_cpu() -> bool {
    session::get().is_some_and(|session| session.kind == model::DeviceKind::Cpu)
}

/// Links relocatable PTX to one image with the device's linker.
///
/// # Safety
/// `options` are the program's.
unsafe fn link(texts: Vec<String>, options: Options) -> Result<Vec<u8>, String> {
    let api = next().ok_or("Ringfence has not started")?;
    let (Some(create), Some(add), Some(complete), Some(destroy)) = (
        api.cuLinkCreate_v2,
        api.cuLinkAddData_v2,
        api.cuLinkComplete,
        api.cuLinkDestroy,
    ) else {
        return Err("the device has no linker".into());
    };
    // SAFETY: as this function's.
    let mut logged = unsafe { LoggedOptions::new(options) };
    let raw = logged.raw();
    let mut state = CUlinkState::NULL;
    // SAFETY: arrays and log live until the linker is destroyed below.
    let created = unsafe { create(raw.count, raw.names, raw.values, &mut state) };
    if created != CUresult::CUDA_SUCCESS {
        return Err(format!("cuLinkCreate: {created:?}"));
    }
    let work = || {
        for text in texts {
            let mut bytes = text.into_bytes();
            bytes.push(0);
            let ptx = CUjitInputType::CU_JIT_INPUT_PTX;
            let (data, size) = (bytes.as_mut_ptr().cast(), bytes.len());
            let none = std::ptr::null_mut();
            // SAFETY: `size` bytes, which the linker copies; no options.
            let added = unsafe {
                add(
                    state,
                    ptx,
                    data,
                    size,
                    c"ringfence".as_ptr(),
                    0,
                    none,
                    none.cast(),
                )
            };
            if added != CUresult::CUDA_SUCCESS {
                return Err(format!("cuLinkAddData: {added:?}"));
            }
        }
        let (mut cubin, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: valid places for the answer.
        let completed = unsafe { complete(state, &mut cubin, &mut size) };
        if completed != CUresult::CUDA_SUCCESS || cubin.is_null() {
            return Err(format!("cuLinkComplete: {completed:?}"));
        }
        // SAFETY: the linker owns `size` bytes there until it is destroyed.
        Ok(unsafe { std::slice::from_raw_parts(cubin.cast::<u8>(), size) }.to_vec())
    };
    let linked = work();
    // SAFETY: created above, not used afterwards.
    let _ = unsafe { destroy(state) };
    linked.map_err(|error| format!("{error}: {}", logged.text()))
}

/// What the device has against an image that it refused with `result`, in
/// words. Compiles it once more, now for the log.
///
/// # Safety
/// `options` are the program's, `image` is complete.
pub unsafe fn diagnose(result: CUresult, image: &[u8], options: Options) -> String {
    let api = next().copied().unwrap_or(Api::EMPTY);
    let (Some(load), Some(unload)) = (api.cuModuleLoadDataEx, api.cuModuleUnload) else {
        return format!("{result:?}");
    };
    // SAFETY: as this function's.
    let mut logged = unsafe { LoggedOptions::new(options) };
    let raw = logged.raw();
    let mut module = CUmodule::NULL;
    // SAFETY: a place for the answer; options, log and image outlive the call
    // and the module, which is unloaded at once should it load now.
    capture::relaxed(|| unsafe {
        let again = load(
            &mut module,
            image.as_ptr().cast(),
            raw.count,
            raw.names,
            raw.values,
        );
        if again == CUresult::CUDA_SUCCESS {
            let _ = unload(module);
        }
    });
    match logged.text().as_str() {
        "" => format!("{result:?}"),
        text => format!("{result:?}: {text}"),
    }
}
