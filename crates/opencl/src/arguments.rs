//! Kernels, and what their arguments let them reach.

use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::source;
use crate::sys::*;
use crate::table::call;
use parking_lot::Mutex;
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A kernel object of the program's.
pub struct Kernel {
    pub handle: usize,
    /// Its context's handle.
    pub context: usize,
    /// Whether it was said to use shared memory that no argument names.
    indirect: AtomicBool,
    /// Name of its function.
    pub name: String,
    /// By index.
    pub arguments: Mutex<Vec<Argument>>,
    names: OnceLock<Vec<Option<String>>>,
    constant: OnceLock<Vec<bool>>,
    asks: OnceLock<bool>,
    /// Launches so far.
    pub launches: AtomicU64,
}

/// What an argument is, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Not set, or no way to memory.
    Other,
    /// A memory object, by its handle.
    Memory(usize),
    /// A pointer into shared virtual memory.
    Shared(usize),
}

/// What a kernel does with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageUse {
    /// It only reads it.
    Reads,
    /// It may write it, and cannot know how large it is.
    Writes,
    /// It may write it and ask for its size, or its source is not known.
    Asks,
    /// The platform does not tell.
    Unknown,
}

impl Kernel {
    /// What it does with the image that is this argument.
    pub fn image(&self, index: u32) -> ImageUse {
        let access: Option<u32> = ask!(
            one,
            clGetKernelArgInfo(
                self.handle as cl_kernel,
                index,
                CL_KERNEL_ARG_ACCESS_QUALIFIER
            )
        );
        match access {
            Some(CL_KERNEL_ARG_ACCESS_READ_ONLY) => ImageUse::Reads,
            Some(CL_KERNEL_ARG_ACCESS_WRITE_ONLY | CL_KERNEL_ARG_ACCESS_READ_WRITE) => {
                if *self.asks.get_or_init(|| self.may_ask()) {
                    ImageUse::Asks
                } else {
                    ImageUse::Writes
                }
            }
            _ => ImageUse::Unknown,
        }
    }

    /// Whether its program may hold a call of `get_image_width` or the like.
    /// A program without source, because it was linked or loaded, may.
    fn may_ask(&self) -> bool {
        let kernel = self.handle as cl_kernel;
        let program: Option<cl_program> = ask!(one, clGetKernelInfo(kernel, CL_KERNEL_PROGRAM));
        let Some(program) = program else { return true };
        let source = ask!(text, clGetProgramInfo(program, CL_PROGRAM_SOURCE));
        let devices: Vec<cl_device_id> = ask!(list, clGetProgramInfo(program, CL_PROGRAM_DEVICES));
        let options = devices.into_iter().map(|device| {
            ask!(
                text,
                clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_OPTIONS)
            )
        });
        let options: Option<Vec<String>> = options.collect();
        let (Some(source), Some(options)) = (source.filter(|text| !text.is_empty()), options)
        else {
            return true;
        };
        let options = options.join(" ");
        let mut folders = source::folders(&options);
        folders.push(".");
        let read = |name: &str| {
            let paths = folders.iter().map(|folder| Path::new(folder).join(name));
            let texts = paths.filter_map(|path| std::fs::read(path).ok());
            texts
                .map(|text| String::from_utf8_lossy(&text).into_owned())
                .collect()
        };
        source::may_ask(&source, &options, &read)
    }

    /// Names of its arguments, where the platform knows them. Asked before a
    /// launch: afterwards the program may release the kernel.
    pub fn names(&self) -> &[Option<String>] {
        self.names.get_or_init(|| {
            self.each(|kernel, index| {
                ask!(text, clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_NAME))
            })
        })
    }

    /// Whether an argument is known to point to what the kernel only reads.
    pub fn is_constant(&self, index: u32) -> bool {
        let all = self.constant.get_or_init(|| {
            self.each(|kernel, index| {
                let space: Option<u32> = ask!(
                    one,
                    clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER)
                );
                let qualifiers: Option<u64> = ask!(
                    one,
                    clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_QUALIFIER)
                );
                space == Some(CL_KERNEL_ARG_ADDRESS_CONSTANT)
                    || qualifiers.is_some_and(|bits| bits & CL_KERNEL_ARG_TYPE_CONST != 0)
            })
        });
        all.get(index as usize).is_some_and(|constant| *constant)
    }

    fn each<T>(&self, ask: impl Fn(cl_kernel, u32) -> T) -> Vec<T> {
        let kernel = self.handle as cl_kernel;
        let count: Option<cl_uint> = ask!(one, clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS));
        let all = 0..count.unwrap_or(0);
        all.map(|index| ask(kernel, index)).collect()
    }
}

impl Layer {
    /// A handle may be that of a kernel that is gone: what was known of it is
    /// replaced.
    fn made(&self, kernel: cl_kernel, arguments: Vec<Argument>) -> Option<Arc<Kernel>> {
        if kernel.is_null() {
            return None;
        }
        let name = ask!(text, clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME));
        let context: Option<usize> = ask!(one, clGetKernelInfo(kernel, CL_KERNEL_CONTEXT));
        let known = Arc::new(Kernel {
            handle: kernel as usize,
            context: context.unwrap_or(0),
            indirect: AtomicBool::new(false),
            name: name.unwrap_or_default(),
            arguments: Mutex::new(arguments),
            names: OnceLock::new(),
            constant: OnceLock::new(),
            asks: OnceLock::new(),
            launches: AtomicU64::new(0),
        });
        self.kernels.lock().insert(kernel as usize, known.clone());
        Some(known)
    }

    /// The kernel with this handle.
    pub fn kernel(&self, kernel: cl_kernel) -> Option<Arc<Kernel>> {
        self.kernels.lock().get(&(kernel as usize)).cloned()
    }
}

pub unsafe extern "C" fn create_kernel(
    program: cl_program,
    name: *const c_char,
    code: *mut cl_int,
) -> cl_kernel {
    let kernel = call!(clCreateKernel(program, name, code) else std::ptr::null_mut());
    if let Some(layer) = layer::get() {
        layer.made(kernel, Vec::new());
    }
    kernel
}

pub unsafe extern "C" fn create_kernels(
    program: cl_program,
    count: cl_uint,
    kernels: *mut cl_kernel,
    made: *mut cl_uint,
) -> cl_int {
    let mut number = 0;
    let code = call!(clCreateKernelsInProgram(
        program,
        count,
        kernels,
        &raw mut number
    ));
    if !made.is_null() {
        // SAFETY: the program's place for the number.
        unsafe { *made = number };
    }
    if code == CL_SUCCESS
        && !kernels.is_null()
        && let Some(layer) = layer::get()
    {
        for index in 0..number.min(count) as usize {
            // SAFETY: the platform wrote so many handles there.
            layer.made(unsafe { *kernels.add(index) }, Vec::new());
        }
    }
    code
}

pub unsafe extern "C" fn clone_kernel(source: cl_kernel, code: *mut cl_int) -> cl_kernel {
    let kernel = call!(clCloneKernel(source, code) else std::ptr::null_mut());
    if let Some(layer) = layer::get() {
        let known = layer.kernel(source);
        let arguments = known.as_ref().map(|known| known.arguments.lock().clone());
        let made = layer.made(kernel, arguments.unwrap_or_default());
        if let (Some(known), Some(made)) = (known, made) {
            let indirect = known.reaches_shared();
            made.indirect.store(indirect, Ordering::Relaxed);
        }
    }
    kernel
}

pub unsafe extern "C" fn set(
    kernel: cl_kernel,
    index: cl_uint,
    size: usize,
    value: *const c_void,
) -> cl_int {
    let code = call!(clSetKernelArg(kernel, index, size, value));
    if code == CL_SUCCESS
        && let Some(layer) = layer::get()
        && let Some(known) = layer.kernel(kernel)
    {
        let mut argument = Argument::Other;
        if size == size_of::<cl_mem>() && !value.is_null() {
            // SAFETY: the program gives a pointer to so many bytes.
            let handle = unsafe { value.cast::<usize>().read_unaligned() };
            // A number that happens to be a handle costs a check, no more.
            if layer.buffer(handle).is_some() {
                argument = Argument::Memory(handle);
            }
        }
        known.set(index, argument);
    }
    code
}

pub unsafe extern "C" fn set_shared(
    kernel: cl_kernel,
    index: cl_uint,
    pointer: *const c_void,
) -> cl_int {
    let code = call!(clSetKernelArgSVMPointer(kernel, index, pointer));
    if code == CL_SUCCESS
        && let Some(known) = layer::get().and_then(|layer| layer.kernel(kernel))
    {
        known.set(index, Argument::Shared(pointer as usize));
    }
    code
}

pub unsafe extern "C" fn set_exec_info(
    kernel: cl_kernel,
    name: cl_kernel_exec_info,
    size: usize,
    value: *const c_void,
) -> cl_int {
    let code = call!(clSetKernelExecInfo(kernel, name, size, value));
    let tells_pointers = name == CL_KERNEL_EXEC_INFO_SVM_PTRS && size > 0;
    if code == CL_SUCCESS
        && tells_pointers
        && let Some(known) = layer::get().and_then(|layer| layer.kernel(kernel))
    {
        known.indirect.store(true, Ordering::Relaxed);
    }
    code
}

impl Kernel {
    /// Whether it uses shared memory that no argument names.
    pub fn reaches_shared(&self) -> bool {
        self.indirect.load(Ordering::Relaxed)
    }

    fn set(&self, index: cl_uint, argument: Argument) {
        // The platform has accepted the index: there are few.
        let index = index as usize;
        let mut arguments = self.arguments.lock();
        if arguments.len() <= index {
            arguments.resize(index + 1, Argument::Other);
        }
        arguments[index] = argument;
    }
}
