//! Launches: the runtime decides, and the checked copy gets one parameter more
//! than the program passes.

use super::define::{failed, hook, hooks, is_per_thread};
use super::watch::{self, What};
use super::{capture, streams};
use crate::process;
use crate::queries::is_capturing;
use crate::session::{self, Quick, Session, next};
use crate::timing::{self, Timed};
use driver::sys::{
    CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END,
    CUDA_LAUNCH_PARAMS, CUfunction, CUfunction_attribute, CUkernel, CUlaunchAttributeID,
    CUlaunchConfig, CUresult, CUstream,
};
use model::{Ran, UncheckedReason};
use runtime::{
    Argument, EntryPlan, Kernel, LaunchDecision, LaunchRequest, LaunchShape, Made, Runtime, Where,
};
use std::ffi::c_void;

/// Defines hooks as `hook` does, of launches, which are tried without a decision first: `$function`, and
/// `$stream` if there is one.
macro_rules! launch_hook {
    ([$($symbol:ident),+ $(,)?] $arguments:tt $quick:tt |$next:ident| $body:expr) => {
        $(launch_hook!($symbol $arguments $quick |$next| $body);)+
    };
    (
        $symbol:ident ($($argument:ident: $type:ty),* $(,)?)
        ($function:expr, $stream:expr) |$next:ident| $body:expr
    ) => {
        #[allow(non_snake_case, reason = "the symbol's name")]
        unsafe extern "C" fn $symbol($($argument: $type),*) -> CUresult {
            const PER_THREAD: bool = is_per_thread(stringify!($symbol));
            let undecided = session::quick().and_then(|quick| {
                let (next, stream) = (quick.$symbol?, ($stream?, PER_THREAD));
                undecided(quick, $function, stream, stringify!($symbol), || {
                    // SAFETY: the program's own arguments.
                    unsafe { next($($argument),*) }
                })
            });
            if let Some(result) = undecided {
                return result;
            }
            #[inline(never)]
            unsafe extern "C" fn decided($($argument: $type),*) -> CUresult {
                hook!($symbol($($argument: $type),*) |$next| $body);
                // SAFETY: the program's own arguments.
                unsafe { $symbol($($argument),*) }
            }
            // SAFETY: the program's own arguments.
            unsafe { decided($($argument),*) }
        }
    };
}

hooks!(
    cuLaunchKernel,
    cuLaunchKernel_ptsz,
    cuLaunchKernelEx,
    cuLaunchKernelEx_ptsz,
    cuLaunchCooperativeKernel,
    cuLaunchCooperativeKernel_ptsz,
    cuLaunchCooperativeKernelMultiDevice,
    cuLaunch,
    cuLaunchGrid,
    cuLaunchGridAsync,
);

/// The two ways to pass parameters, as the program gave them.
#[derive(Clone, Copy)]
pub(super) struct Arguments {
    /// One pointer for each parameter.
    pub pointers: *mut *mut c_void,
    /// `{1, buffer, 2, &size, 0}`.
    pub extra: *mut *mut c_void,
}

/// The parameter block in one piece.
#[derive(Clone, Copy)]
struct Block {
    start: *const u8,
    size: usize,
}

impl Arguments {
    /// The block, if it was passed that way.
    ///
    /// # Safety
    /// `extra` is null or a list as cuLaunchKernel takes it.
    unsafe fn block(self) -> Option<Block> {
        if !self.pointers.is_null() || self.extra.is_null() {
            return None;
        }
        let (mut start, mut size) = (None, None);
        let mut item = self.extra;
        loop {
            // SAFETY: pairs up to the end mark, as the caller guarantees.
            let key = unsafe { *item } as u64;
            if key == u64::from(CU_LAUNCH_PARAM_END) {
                break;
            }
            // SAFETY: each key is followed by its value.
            let value = unsafe { *item.add(1) };
            if key == u64::from(CU_LAUNCH_PARAM_BUFFER_POINTER) {
                start = Some(value.cast_const().cast::<u8>());
            } else if key == u64::from(CU_LAUNCH_PARAM_BUFFER_SIZE) {
                // SAFETY: the value is a pointer to the size.
                size = Some(unsafe { *value.cast::<usize>() });
            } else {
                // The device refuses what it does not know; so will it here.
                return None;
            }
            // SAFETY: not yet at the end mark.
            item = unsafe { item.add(2) };
        }
        Some(Block {
            start: start?,
            size: size?,
        })
    }

    /// `size` bytes, at most eight, at `offset` of the parameter block.
    ///
    /// # Safety
    /// The arguments belong to a kernel with this plan.
    unsafe fn read(
        self,
        plan: &EntryPlan,
        block: Option<Block>,
        offset: u32,
        size: u8,
    ) -> Option<u64> {
        let (offset, size) = (offset as usize, usize::from(size).min(8));
        let mut bits = [0u8; 8];
        if let Some(block) = block {
            let inside = offset.checked_add(size)? <= block.size && !block.start.is_null();
            if !inside {
                return None;
            }
            // SAFETY: inside the block, whose size the program gave.
            let bytes = unsafe { std::slice::from_raw_parts(block.start.add(offset), size) };
            bits[..size].copy_from_slice(bytes);
            return Some(u64::from_le_bytes(bits));
        }
        if self.pointers.is_null() {
            return None;
        }
        let holds = |slot: &runtime::ParameterSlot| {
            let start = slot.offset as usize;
            start <= offset && offset + size <= start + slot.size as usize
        };
        let index = plan.parameters.iter().position(holds)?;
        // SAFETY: the list has a pointer for each of the kernel's parameters.
        let parameter = unsafe { *self.pointers.add(index) }
            .cast_const()
            .cast::<u8>();
        if parameter.is_null() {
            return None;
        }
        let within = offset - plan.parameters[index].offset as usize;
        // SAFETY: each pointer leads to the parameter's bytes.
        let bytes = unsafe { std::slice::from_raw_parts(parameter.add(within), size) };
        bits[..size].copy_from_slice(bytes);
        Some(u64::from_le_bytes(bits))
    }
}

impl Arguments {
    /// A value that is passed by pointer; `None` if it is passed otherwise.
    ///
    /// # Safety
    /// The arguments belong to a kernel that has this argument.
    #[inline]
    unsafe fn value(self, argument: Argument) -> Option<u64> {
        if self.pointers.is_null() {
            return None;
        }
        // SAFETY: the list has a pointer for each of the kernel's parameters.
        let parameter = unsafe { *self.pointers.add(usize::from(argument.parameter)) };
        if parameter.is_null() {
            return None;
        }
        // SAFETY: each pointer leads to the parameter's bytes, and the argument lies
        // in them.
        unsafe {
            let start = parameter
                .cast_const()
                .cast::<u8>()
                .add(usize::from(argument.within));
            Some(match argument.bytes {
                8 => start.cast::<u64>().read_unaligned(),
                4 => u64::from(start.cast::<u32>().read_unaligned()),
                bytes => {
                    let mut bits = [0; 8];
                    let size = usize::from(bytes).min(8);
                    bits[..size].copy_from_slice(std::slice::from_raw_parts(start, size));
                    u64::from_le_bytes(bits)
                }
            })
        }
    }

    /// The parameter block of a kernel with this plan. `None` if not all of it
    /// is there.
    ///
    /// # Safety
    /// The arguments belong to that kernel.
    pub(super) unsafe fn copied(self, plan: &EntryPlan) -> Option<Vec<u8>> {
        let mut bytes = vec![0; plan.parameter_bytes as usize];
        // SAFETY: the caller's word.
        if let Some(block) = unsafe { self.block() } {
            if block.start.is_null() || block.size < bytes.len() {
                return None;
            }
            // SAFETY: not more than the size that the program gave.
            let block = unsafe { std::slice::from_raw_parts(block.start, bytes.len()) };
            bytes.copy_from_slice(block);
            return Some(bytes);
        }
        for (index, slot) in plan.parameters.iter().enumerate() {
            if self.pointers.is_null() {
                return None;
            }
            // SAFETY: the list has a pointer for each of the kernel's parameters.
            let parameter = unsafe { *self.pointers.add(index) };
            if parameter.is_null() {
                return None;
            }
            let (start, size) = (slot.offset as usize, slot.size as usize);
            // SAFETY: each pointer leads to the parameter's bytes.
            let parameter = unsafe { std::slice::from_raw_parts(parameter.cast::<u8>(), size) };
            bytes
                .get_mut(start..start + size)?
                .copy_from_slice(parameter);
        }
        Some(bytes)
    }
}

/// A size that instrumented kernels rarely exceed, to launch without
/// allocating.
const COMMON_PARAMETERS: usize = 24;

/// Makes a launch that needs no decision by the device's own call; `None`: it needs one,
/// and was not made. `stream` is as the program gives it; `per_thread`: null is the
/// thread's own.
///
/// Most launches of a framework are such. Between two launches the driver displaces what
/// lay in the first caches, and each line of code or data that is touched costs; so what
/// they need is in one piece here, and all else in functions of its own.
#[inline(always)]
fn undecided(
    quick: &Quick,
    function: CUfunction,
    (stream, per_thread): (CUstream, bool),
    name: &'static str,
    make: impl FnOnce() -> CUresult,
) -> Option<CUresult> {
    let mut result = CUresult::CUDA_SUCCESS;
    let made = runtime::undecided(function.0, || {
        result = make();
        let is_made = result == CUresult::CUDA_SUCCESS;
        is_made.then(|| streams::uncaptured(quick, stream, per_thread))
    })?;
    if !matches!(made, Made::Listed) {
        unlisted(made, result, name);
    }
    Some(result)
}

/// Sees to a launch that needed no decision and is not listed.
#[cold]
fn unlisted(made: Made, result: CUresult, name: &'static str) {
    if let Some(runtime) = session::runtime() {
        runtime.launcher().unlisted(made);
    }
    if result != CUresult::CUDA_SUCCESS {
        failed(result, name);
    }
}

/// Launches what the runtime decides on. `launch` is the device's own call; it
/// gets the function and the two forms of parameters. `stream` is none in a
/// graph; `true`: null is the thread's own.
///
/// # Safety
/// `arguments` are the program's, for `function`.
pub(super) unsafe fn launch(
    function: u64,
    shape: LaunchShape,
    arguments: Arguments,
    stream: Option<(CUstream, bool)>,
    make: impl Fn(u64, *mut *mut c_void, *mut *mut c_void) -> CUresult,
) -> CUresult {
    if let Some(runtime) = session::runtime()
        && let Some(repeat) = runtime.launcher().repeats(function, &shape, |argument| {
            // SAFETY: the program's arguments; it is an argument of this kernel.
            unsafe { arguments.value(argument) }
        })
    {
        let result = make(function, arguments.pointers, arguments.extra);
        match result {
            CUresult::CUDA_SUCCESS => repeat.submitted(place(runtime, stream)),
            _ => repeat.refused(),
        }
        return result;
    }
    // SAFETY: the caller's word.
    unsafe { decided(function, shape, arguments, stream, make) }
}

/// The same for a launch that does not repeat one of its thread.
///
/// # Safety
/// As [`launch`].
#[inline(never)]
unsafe fn decided(
    function: u64,
    shape: LaunchShape,
    arguments: Arguments,
    stream: Option<(CUstream, bool)>,
    make: impl Fn(u64, *mut *mut c_void, *mut *mut c_void) -> CUresult,
) -> CUresult {
    let program = function;
    let make = |ran, function, pointers, extra| {
        watch::around(What::Kernel(function, shape), stream, || {
            let timed = Timed::Kernel {
                function: program,
                launched: function,
                ran,
            };
            timing::around(timed, stream, || make(function, pointers, extra))
        })
    };
    let original = |ran| make(ran, function, arguments.pointers, arguments.extra);
    let Some(runtime) = session::runtime() else {
        return original(Ran::Unchecked);
    };
    process::device_in_use();
    if let Some(gpu) = session::get().and_then(|session| session.gpu.as_ref())
        && !gpu.reaches_current_device()
    {
        out_of_reach(runtime, function);
        return original(Ran::Unchecked);
    }
    let kernel = runtime.modules().kernel_to_launch(function);
    if let Some(kernel) = &kernel {
        prepare(kernel, function);
    }
    // SAFETY: the program's arguments.
    let block = unsafe { arguments.block() };
    let read = |entry: &EntryPlan, offset: u32, size: u8| {
        // SAFETY: the plan belongs to the function, the arguments too.
        unsafe { arguments.read(entry, block, offset, size) }
    };
    let mut ticket = runtime.begin_launch(LaunchRequest {
        function,
        kernel,
        shape: &shape,
        stream: stream
            .and_then(|(stream, per_thread)| streams::of_launch(runtime, stream, per_thread)),
        read: &read,
    });
    let ran = ticket.ran();
    let mut result = match ticket.decision() {
        LaunchDecision::Checked {
            function: copy,
            launch_parameter,
            plan,
            ..
        } => {
            let launch = |function, pointers, extra| make(ran, function, pointers, extra);
            // SAFETY: the program's arguments, for a kernel with this plan.
            unsafe { launch_checked(*copy, launch_parameter, plan, arguments, block, &launch) }
        }
        _ => original(ran),
    };
    let is_checked = matches!(ticket.decision(), LaunchDecision::Checked { .. });
    if is_checked && result != CUresult::CUDA_SUCCESS {
        ticket.fall_back(why_refused(result));
        result = original(ticket.ran());
    }
    match result {
        CUresult::CUDA_SUCCESS => {
            if session::get().is_some_and(Session::leaves_launches_alone) {
                ticket.keep(!is_capturing());
            }
            ticket.submitted(place(runtime, stream));
        }
        _ => ticket.refused(),
    }
    result
}

/// Where a launch goes.
fn place(runtime: &Runtime, stream: Option<(CUstream, bool)>) -> Where {
    stream.map_or(Where::Graph, |(stream, per_thread)| {
        streams::place(runtime, stream, per_thread)
    })
}

/// A kernel on a device that cannot access Ringfence's tables, which lie in
/// the memory of the first one used.
fn out_of_reach(runtime: &Runtime, function: u64) {
    runtime.env().error(
        "kernels run on a GPU without peer access to the one that was used first; they run without checks",
        false,
    );
    runtime
        .launcher()
        .unhooked(function, UncheckedReason::LaunchPath);
}

/// Before the first launch of a kernel, whose handle this is: has the device load all of
/// its copies, and asks how many threads a block of each may have: with its additional
/// registers that may be fewer than of the original.
fn prepare(kernel: &Kernel, function: u64) {
    let mut is_first = true;
    for (build, copy) in kernel.copies_without_limit() {
        if std::mem::take(&mut is_first) {
            super::function::load(kernel.in_library(), function);
        }
        super::function::load(kernel.in_library(), copy);
        if let Some(threads) = most_threads(kernel.in_library(), copy) {
            kernel.set_limit(build, threads);
        }
    }
}

fn most_threads(in_library: bool, copy: u64) -> Option<u32> {
    let api = next()?;
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    let mut threads = 0;
    let asked = capture::relaxed(|| {
        if in_library {
            let mut device = 0;
            let current = api.cuCtxGetDevice.map(|get| {
                // SAFETY: a place for the answer.
                unsafe { get(&mut device) }
            });
            (current == Some(CUresult::CUDA_SUCCESS))
                .then_some(())
                .and(api.cuKernelGetAttribute)
                .map(|get| {
                    // SAFETY: the copy's handle came from the device.
                    unsafe { get(&mut threads, attribute, CUkernel(copy), device) }
                })
        } else {
            api.cuFuncGetAttribute.map(|get| {
                // SAFETY: the copy's handle came from the device.
                unsafe { get(&mut threads, attribute, CUfunction(copy)) }
            })
        }
    });
    let is_known = asked == Some(CUresult::CUDA_SUCCESS) && threads > 0;
    is_known.then(|| threads.cast_unsigned())
}

/// Why a checked copy could not be launched.
fn why_refused(answer: CUresult) -> UncheckedReason {
    match answer {
        CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
        | CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE => UncheckedReason::Registers,
        _ => UncheckedReason::Rejected,
    }
}

/// # Safety
/// As [`launch`]; `plan` is that of the kernel.
unsafe fn launch_checked(
    copy: u64,
    bounds: &[u8],
    plan: &EntryPlan,
    arguments: Arguments,
    block: Option<Block>,
    launch: &impl Fn(u64, *mut *mut c_void, *mut *mut c_void) -> CUresult,
) -> CUresult {
    let Some(slot) = plan.launch_parameter.filter(|_| !bounds.is_empty()) else {
        return launch(copy, arguments.pointers, arguments.extra);
    };
    if let Some(block) = block {
        let offset = slot.offset as usize;
        let mut bytes = vec![0; offset + bounds.len()];
        let size = block.size.min(offset);
        if !block.start.is_null() {
            // SAFETY: at most the size that the program gave.
            bytes[..size].copy_from_slice(unsafe { std::slice::from_raw_parts(block.start, size) });
        }
        bytes[offset..].copy_from_slice(bounds);
        let mut total = bytes.len();
        let mut extra = [
            CU_LAUNCH_PARAM_BUFFER_POINTER as usize as *mut c_void,
            bytes.as_mut_ptr().cast(),
            CU_LAUNCH_PARAM_BUFFER_SIZE as usize as *mut c_void,
            (&raw mut total).cast(),
            CU_LAUNCH_PARAM_END as usize as *mut c_void,
        ];
        return launch(copy, std::ptr::null_mut(), extra.as_mut_ptr());
    }
    let count = plan.parameters.len();
    let mut few = [std::ptr::null_mut(); COMMON_PARAMETERS];
    let mut many;
    let pointers = if count < COMMON_PARAMETERS {
        &mut few[..=count]
    } else {
        many = vec![std::ptr::null_mut(); count + 1];
        &mut many[..]
    };
    if !arguments.pointers.is_null() {
        // SAFETY: the list has a pointer for each of the kernel's parameters.
        pointers[..count]
            .copy_from_slice(unsafe { std::slice::from_raw_parts(arguments.pointers, count) });
    }
    pointers[count] = bounds.as_ptr().cast_mut().cast();
    launch(copy, pointers.as_mut_ptr(), std::ptr::null_mut())
}

launch_hook!([cuLaunchKernel, cuLaunchKernel_ptsz](
    function: CUfunction,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: CUstream,
    pointers: *mut *mut c_void,
    extra: *mut *mut c_void,
) (function, Some(stream)) |next| {
    // SAFETY: the program's arguments.
    unsafe {
        let shape = LaunchShape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
        launch(function.0, shape, Arguments { pointers, extra }, Some((stream, PER_THREAD)), |function, pointers, extra| {
            next(
                CUfunction(function), grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, pointers, extra,
            )
        })
    }
});

/// Whether the kernel may start before those before it have ended, or lets
/// others do so.
///
/// # Safety
/// `config.attrs` points to `config.numAttrs` attributes, or is null.
unsafe fn starts_early(config: &CUlaunchConfig) -> bool {
    let count = config.numAttrs as usize;
    !config.attrs.is_null()
        && (0..count).any(|position| {
            // SAFETY: the caller's word.
            let attribute = unsafe { &*config.attrs.add(position) };
            match attribute.id {
                CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION => {
                    // SAFETY: the id says which member is set.
                    unsafe { attribute.value.programmaticStreamSerializationAllowed != 0 }
                }
                CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT => true,
                _ => false,
            }
        })
}

/// The stream of a launch, if its configuration is there.
///
/// # Safety
/// `config` is the program's, or null.
#[inline(always)]
unsafe fn stream_of(config: *const CUlaunchConfig) -> Option<CUstream> {
    // SAFETY: the caller's word.
    let config = unsafe { config.as_ref() }?;
    if config.numAttrs != 0 {
        // SAFETY: the program's own configuration.
        unsafe { note_early(config) };
    }
    Some(config.hStream)
}

/// Says so if a launch is one of a kernel that [`starts_early`].
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn note_early(config: &CUlaunchConfig) {
    // SAFETY: the caller's word.
    if unsafe { starts_early(config) }
        && let Some(runtime) = session::runtime()
    {
        runtime.canaries().kernels_start_early();
    }
}

launch_hook!([cuLaunchKernelEx, cuLaunchKernelEx_ptsz](
    config: *const CUlaunchConfig,
    function: CUfunction,
    pointers: *mut *mut c_void,
    extra: *mut *mut c_void,
) (
    function,
    // SAFETY: the program's own configuration.
    unsafe { stream_of(config) }
) |next| {
    // SAFETY: the program's arguments.
    unsafe {
        if config.is_null() {
            return next(config, function, pointers, extra);
        }
        let shape = LaunchShape {
            grid: [(*config).gridDimX, (*config).gridDimY, (*config).gridDimZ],
            block: [(*config).blockDimX, (*config).blockDimY, (*config).blockDimZ],
            shared: (*config).sharedMemBytes,
        };
        note_early(&*config);
        launch(function.0, shape, Arguments { pointers, extra }, Some(((*config).hStream, PER_THREAD)), |function, pointers, extra| {
            next(config, CUfunction(function), pointers, extra)
        })
    }
});

hook!([cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz](
    function: CUfunction,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: CUstream,
    pointers: *mut *mut c_void,
) |next| {
    let arguments = Arguments { pointers, extra: std::ptr::null_mut() };
    // SAFETY: the program's arguments.
    unsafe {
        let shape = LaunchShape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
        launch(function.0, shape, arguments, Some((stream, PER_THREAD)), |function, pointers, _| {
            next(CUfunction(function), grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, pointers)
        })
    }
});

/// Counts a launch that takes the original kernel.
fn unchecked(function: CUfunction) {
    streams::order_everything();
    if let Some(runtime) = session::runtime() {
        runtime
            .launcher()
            .unhooked(function.0, UncheckedReason::LaunchPath);
    }
}

hook!(cuLaunchCooperativeKernelMultiDevice(list: *mut CUDA_LAUNCH_PARAMS, count: u32, flags: u32) |next| {
    // SAFETY: the program's arguments.
    unsafe {
        if !list.is_null() {
            for position in 0..count as usize {
                unchecked((*list.add(position)).function);
            }
        }
        next(list, count, flags)
    }
});

hook!(cuLaunch(function: CUfunction) |next| {
    unchecked(function);
    // SAFETY: the program's arguments.
    unsafe { next(function) }
});

hook!(cuLaunchGrid(function: CUfunction, width: i32, height: i32) |next| {
    unchecked(function);
    // SAFETY: the program's arguments.
    unsafe { next(function, width, height) }
});

hook!(cuLaunchGridAsync(function: CUfunction, width: i32, height: i32, stream: CUstream) |next| {
    unchecked(function);
    // SAFETY: the program's arguments.
    unsafe { next(function, width, height, stream) }
});
