//! Kernels, and the memory that they can reach through their arguments.

use crate::objects::source;
use crate::platform::ask::ask;
use crate::platform::call;
use crate::sys::*;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A kernel object of the program's.
pub struct Kernel {
    pub handle: usize,
    /// Its context's handle.
    pub context: usize,
    /// Whether the program declared that it uses shared memory which no
    /// argument names.
    indirect: AtomicBool,
    /// Name of its function.
    pub name: String,
    /// By index.
    arguments: Mutex<Vec<Argument>>,
    names: OnceLock<Vec<Option<String>>>,
    constant: OnceLock<Vec<bool>>,
    asks: OnceLock<bool>,
    launches: AtomicU64,
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
    /// It may write it, and does not query its size.
    Writes,
    /// It may write it and query its size, or its source is not known.
    Asks,
    /// The platform does not return it.
    Unknown,
}

impl Kernel {
    /// The platform's data about a kernel that it has just made.
    pub fn of(kernel: cl_kernel, arguments: Vec<Argument>) -> Kernel {
        let name = ask!(text, clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME));
        let context: Option<usize> = ask!(one, clGetKernelInfo(kernel, CL_KERNEL_CONTEXT));
        Kernel {
            handle: kernel as usize,
            context: context.unwrap_or(0),
            indirect: AtomicBool::new(false),
            name: name.unwrap_or_default(),
            arguments: Mutex::new(arguments),
            names: OnceLock::new(),
            constant: OnceLock::new(),
            asks: OnceLock::new(),
            launches: AtomicU64::new(0),
        }
    }

    /// Its arguments so far, by index.
    pub fn arguments(&self) -> Vec<Argument> {
        self.arguments.lock().clone()
    }

    /// Counts a launch, and returns how many there were before.
    pub fn count_launch(&self) -> u64 {
        self.launches.fetch_add(1, Ordering::Relaxed)
    }

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

    /// Names of its arguments, where the platform has them. Queried before a
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

impl Kernel {
    /// Whether it uses shared memory that no argument names.
    pub fn reaches_shared(&self) -> bool {
        self.indirect.load(Ordering::Relaxed)
    }

    /// Sets whether it uses shared memory that no argument names.
    pub fn set_reaches_shared(&self, indirect: bool) {
        self.indirect.store(indirect, Ordering::Relaxed);
    }

    /// Sets an argument of the program's kernel, without recording it.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn lend(&self, index: u32, memory: cl_mem) -> Result<(), cl_int> {
        let value = (&raw const memory).cast();
        let kernel = self.handle as cl_kernel;
        match call!(clSetKernelArg(kernel, index, size_of::<cl_mem>(), value)) {
            CL_SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    /// How a report names an argument, with a remark.
    pub fn describe(&self, index: u32, what: &str) -> String {
        match self.names().get(index as usize) {
            Some(Some(name)) => format!("argument {name}: {what}"),
            _ => format!("argument {index}: {what}"),
        }
    }

    /// Records an argument that the program has set.
    pub fn set(&self, index: cl_uint, argument: Argument) {
        // The platform has accepted the index: there are few.
        let index = index as usize;
        let mut arguments = self.arguments.lock();
        if arguments.len() <= index {
            arguments.resize(index + 1, Argument::Other);
        }
        arguments[index] = argument;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::fake::Fake;

    #[test]
    fn a_kernel_is_what_the_platform_says_of_it() {
        let fake = Fake::new();
        let raw = fake.kernel("fill", &[("out", false), ("in", true)]);
        let kernel = Kernel::of(raw, Vec::new());
        assert_eq!(kernel.name, "fill");
        assert_eq!(kernel.context, fake.context as usize);
        assert_eq!(kernel.describe(0, "why"), "argument out: why");
        assert_eq!(kernel.describe(5, "why"), "argument 5: why");
        assert!(!kernel.is_constant(0) && kernel.is_constant(1) && !kernel.is_constant(2));
        assert_eq!(kernel.image(0), ImageUse::Unknown);
        assert_eq!((kernel.count_launch(), kernel.count_launch()), (0, 1));
    }

    #[test]
    fn arguments_are_noted_in_any_order() {
        let fake = Fake::new();
        let kernel = Kernel::of(fake.kernel("fill", &[]), Vec::new());
        kernel.set(2, Argument::Memory(7));
        kernel.set(0, Argument::Shared(8));
        let expected = [Argument::Shared(8), Argument::Other, Argument::Memory(7)];
        assert_eq!(kernel.arguments(), expected);
        assert!(!kernel.reaches_shared());
        kernel.set_reaches_shared(true);
        assert!(kernel.reaches_shared());
    }

    #[test]
    fn what_is_lent_is_not_noted() {
        let fake = Fake::new();
        let raw = fake.kernel("fill", &[("out", false)]);
        let kernel = Kernel::of(raw, vec![Argument::Memory(1)]);
        assert_eq!(kernel.lend(0, 9 as cl_mem), Ok(()));
        assert_eq!(fake.arguments(raw), [9]);
        assert_eq!(kernel.arguments(), [Argument::Memory(1)]);
        assert_eq!(kernel.lend(1, 9 as cl_mem), Err(CL_INVALID_ARG_INDEX));
    }
}
