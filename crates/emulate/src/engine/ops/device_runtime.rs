//! The CUDA device runtime: functions of libcudadevrt that kernels call, by the
//! names of its second version (`__cudaCDP2…`) and of the first.

use super::runtime::{read, read_bytes};
use crate::engine::access::{load_generic, store_generic};
use crate::engine::children::{Child, DEEPEST, Grid};
use crate::engine::context::Context;
use crate::engine::program::{CallSite, FUNCTION_ADDRESSES};
use crate::engine::warp::Warp;
use crate::mapping::AccessFault;

/// A function of the device runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    ParameterBuffer,
    ParameterBufferV2,
    Launch,
    LaunchV2,
    Malloc,
    Free,
    Memcpy,
    Memset,
    /// Makes a stream or an event: a handle is stored, and that is all, since
    /// what a grid launches is executed in one order.
    Make,
    /// Succeeds, since the one order of execution is that order already.
    Succeed,
    GetDevice,
    GetDeviceCount,
    SetConditional,
}

/// `cudaStreamTailLaunch`
const TAIL: u64 = 3;

/// `cudaError_t`s.
mod error {
    pub const NONE: u64 = 0;
    pub const INVALID_VALUE: u64 = 1;
    pub const MEMORY_ALLOCATION: u64 = 2;
    pub const INVALID_CONFIGURATION: u64 = 9;
    pub const DEPTH: u64 = 65;
    pub const PENDING: u64 = 69;
    pub const INVALID_FUNCTION: u64 = 98;
}

impl Call {
    /// The function of a name.
    pub fn by_name(name: &str) -> Option<Call> {
        if name == "cudaGraphSetConditional" {
            return Some(Call::SetConditional);
        }
        let name = name
            .strip_prefix("__cudaCDP2")
            .or_else(|| name.strip_prefix("cuda"))?;
        Some(match name.strip_suffix("_ptsz").unwrap_or(name) {
            "GetParameterBuffer" => Call::ParameterBuffer,
            "GetParameterBufferV2" => Call::ParameterBufferV2,
            "LaunchDevice" => Call::Launch,
            "LaunchDeviceV2" => Call::LaunchV2,
            "Malloc" => Call::Malloc,
            "Free" => Call::Free,
            "MemcpyAsync" => Call::Memcpy,
            "MemsetAsync" => Call::Memset,
            "StreamCreateWithFlags" | "EventCreateWithFlags" => Call::Make,
            "StreamDestroy"
            | "StreamWaitEvent"
            | "EventDestroy"
            | "EventRecord"
            | "EventRecordWithFlags"
            | "GetLastError"
            | "PeekAtLastError" => Call::Succeed,
            "GetDevice" => Call::GetDevice,
            "GetDeviceCount" => Call::GetDeviceCount,
            _ => return None,
        })
    }
}

fn dimensions(
    warp: &Warp,
    context: &Context<'_>,
    site: &CallSite,
    at: usize,
    lane: usize,
) -> [u32; 3] {
    let bytes: [u8; 12] = match site.arguments.get(at) {
        Some(place) => read_bytes(warp, context, *place, lane),
        None => [0; 12],
    };
    std::array::from_fn(|axis| {
        let at = 4 * axis;
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    })
}

/// The entry whose address a value is.
fn entry(context: &Context<'_>, address: u64) -> Option<u32> {
    let offset = address.wrapping_sub(FUNCTION_ADDRESSES);
    let index = u32::try_from(offset / 16).ok()?;
    let function = context.program.functions.get(index as usize)?;
    (offset.is_multiple_of(16) && function.is_entry).then_some(index)
}

fn legal(grid: &Grid) -> bool {
    let threads = grid
        .block
        .iter()
        .try_fold(1u32, |product, n| product.checked_mul(*n));
    !grid.grid.contains(&0) && threads.is_some_and(|threads| (1..=1024).contains(&threads))
}

/// Queues a grid whose parameters lie at `buffer`.
fn launch(
    warp: &mut Warp,
    context: &mut Context<'_>,
    lane: usize,
    buffer: u64,
    mut grid: Grid,
    stream: u64,
) -> Result<u64, AccessFault> {
    if !legal(&grid) {
        return Ok(error::INVALID_CONFIGURATION);
    }
    let children = context.launch.children;
    if children.depth >= DEEPEST {
        return Ok(error::DEPTH);
    }
    let size = context.program.functions[grid.function as usize].parameter_bytes;
    for at in 0..u64::from(size) {
        grid.parameters
            .push(load_generic::<u8>(warp, context, lane, buffer + at)?);
    }
    context.launch.heap.release(buffer);
    let queued = children.queue(Child::Grid(grid), stream == TAIL);
    Ok(if queued { error::NONE } else { error::PENDING })
}

/// Executes a call for one lane; gives what the function returns.
pub(super) fn call(
    warp: &mut Warp,
    context: &mut Context<'_>,
    site: &CallSite,
    call: Call,
    lane: usize,
) -> Result<u64, AccessFault> {
    let value = |warp: &Warp, context: &Context<'_>, index: usize| {
        site.arguments
            .get(index)
            .map_or(0, |place| read(warp, context, *place, lane))
    };
    let [first, second, third] = [0, 1, 2].map(|index| value(warp, context, index));
    let children = context.launch.children;
    Ok(match call {
        Call::ParameterBuffer => context.launch.heap.allocate(second),
        Call::ParameterBufferV2 => {
            let Some(function) = entry(context, first) else {
                return Ok(0);
            };
            let size = context.program.functions[function as usize].parameter_bytes;
            let buffer = context.launch.heap.allocate(u64::from(size));
            if buffer != 0 {
                let grid = Grid {
                    function,
                    grid: dimensions(warp, context, site, 1, lane),
                    block: dimensions(warp, context, site, 2, lane),
                    dynamic_shared: value(warp, context, 3) as u32,
                    parameters: Vec::new(),
                };
                children.prepare(buffer, grid);
            }
            buffer
        }
        Call::LaunchV2 => match children.take(first) {
            Some(grid) => launch(warp, context, lane, first, grid, second)?,
            None => error::INVALID_VALUE,
        },
        Call::Launch => {
            let Some(function) = entry(context, first) else {
                return Ok(error::INVALID_FUNCTION);
            };
            let grid = Grid {
                function,
                grid: dimensions(warp, context, site, 2, lane),
                block: dimensions(warp, context, site, 3, lane),
                dynamic_shared: value(warp, context, 4) as u32,
                parameters: Vec::new(),
            };
            let stream = value(warp, context, 5);
            launch(warp, context, lane, second, grid, stream)?
        }
        Call::Malloc => {
            let block = context.launch.heap.allocate(second);
            if block == 0 {
                return Ok(error::MEMORY_ALLOCATION);
            }
            store_generic(warp, context, lane, first, block)?;
            error::NONE
        }
        Call::Free if first == 0 || context.launch.heap.release(first) => error::NONE,
        Call::Free => error::INVALID_VALUE,
        Call::Memcpy | Call::Memset => {
            let (child, stream) = if call == Call::Memcpy {
                let copy = Child::Copy {
                    to: first,
                    from: second,
                    size: third,
                };
                (copy, value(warp, context, 4))
            } else {
                let fill = Child::Fill {
                    to: first,
                    value: second as u8,
                    size: third,
                };
                (fill, value(warp, context, 3))
            };
            if children.queue(child, stream == TAIL) {
                error::NONE
            } else {
                error::PENDING
            }
        }
        Call::Make => {
            // A handle that is none of the special ones.
            store_generic(warp, context, lane, first, 0x100u64)?;
            error::NONE
        }
        Call::Succeed => error::NONE,
        Call::GetDevice => {
            store_generic(warp, context, lane, first, 0u32)?;
            error::NONE
        }
        Call::GetDeviceCount => {
            store_generic(warp, context, lane, first, 1u32)?;
            error::NONE
        }
        Call::SetConditional => {
            // The handle is the address of the value.
            store_generic(warp, context, lane, first, second as u32)?;
            error::NONE
        }
    })
}
