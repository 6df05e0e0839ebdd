//! Lanes' accesses to memory of every space, checked.
//!
//! Whole warps go through [`View::gather`](crate::mapping::View::gather) and
//! similar functions. What they refuse is accessed lane by lane, which resolves
//! address windows and finds faults.

use super::context::Context;
use super::decode::SpaceTag;
use super::inst::{Flow, Inst};
use super::lanes::lanes;
use super::ops::moves::BLOCK_WINDOW;
use super::warp::Warp;
use crate::mapping::{
    AccessFault, Atomic, Bytes, LANES, LOCAL_WINDOW, PARAM_WINDOW, Plain, SHARED_WINDOW,
    WINDOW_SIZE,
};

/// In [`Inst::side`]: the slot holds 32-bit addresses.
const NARROW: u32 = 1 << 4;
/// In [`Inst::side`]: the access may observe other threads.
pub(crate) const POLLS: u32 = 1 << 5;

/// The space of a memory instruction.
#[inline(always)]
pub(crate) fn space(inst: &Inst) -> SpaceTag {
    value_of_tag(inst.side)
}

/// A space as a number, for instructions.
pub(crate) fn tag_of(space: SpaceTag) -> u32 {
    space as u32
}

/// The inverse of [`tag_of`]; higher bits are ignored.
#[inline(always)]
pub(crate) fn value_of_tag(tag: u32) -> SpaceTag {
    match tag & 0xf {
        0 => SpaceTag::Generic,
        1 => SpaceTag::Shared,
        2 => SpaceTag::Local,
        3 => SpaceTag::Frame,
        4 => SpaceTag::Parameter,
        5 => SpaceTag::Global,
        _ => SpaceTag::SharedCluster,
    }
}

fn space_name(space: SpaceTag) -> &'static str {
    match space {
        SpaceTag::Generic => "generic",
        SpaceTag::Global => "global",
        SpaceTag::Shared | SpaceTag::SharedCluster => "shared",
        SpaceTag::Local | SpaceTag::Frame => "local",
        SpaceTag::Parameter => "parameter",
    }
}

/// Addresses of all lanes.
#[inline(always)]
pub(crate) fn addresses(warp: &Warp, context: &Context<'_>, inst: &Inst) -> [u64; LANES] {
    let mut out = [0; LANES];
    if inst.side & NARROW != 0 {
        let row = warp.row::<u32>(context, inst.a);
        for lane in 0..LANES {
            out[lane] = u64::from(row[lane].wrapping_add(inst.imm as u32));
        }
    } else {
        let row = warp.row::<u64>(context, inst.a);
        for lane in 0..LANES {
            out[lane] = row[lane].wrapping_add(inst.imm);
        }
    }
    out
}

/// The memory that one lane's access refers to.
enum Target<'t> {
    Mapped(u64),
    Bytes(&'t mut Bytes, u64),
    ReadOnly(&'t Bytes, u64),
}

fn resolve<'t>(
    warp: &'t mut Warp,
    context: &'t mut Context<'_>,
    space: SpaceTag,
    lane: usize,
    address: u64,
    size: u64,
) -> Result<Target<'t>, AccessFault> {
    let unmapped = AccessFault::Unmapped { address, size };
    match space {
        SpaceTag::Shared => return Ok(Target::Bytes(&mut context.block_mut().shared, address)),
        SpaceTag::SharedCluster => return cluster(context, address, unmapped),
        SpaceTag::Local | SpaceTag::Frame => {
            let base = if space == SpaceTag::Frame {
                u64::from(warp.frame.local)
            } else {
                0
            };
            let offset = warp.local_offset(lane, address.wrapping_add(base), size)?;
            return Ok(Target::Bytes(&mut warp.local, offset));
        }
        SpaceTag::Parameter => return Ok(Target::ReadOnly(&context.launch.params, address)),
        SpaceTag::Generic | SpaceTag::Global => {}
    }
    if !(SHARED_WINDOW..PARAM_WINDOW + WINDOW_SIZE).contains(&address) {
        return Ok(Target::Mapped(address));
    }
    if address >= PARAM_WINDOW {
        // The parameter window is part of global memory (PTX ISA, 5.1.6).
        return Ok(Target::ReadOnly(
            &context.launch.params,
            address - PARAM_WINDOW,
        ));
    }
    if space == SpaceTag::Global {
        return Err(unmapped);
    }
    if address >= LOCAL_WINDOW {
        let offset = warp
            .local_offset(lane, address - LOCAL_WINDOW, size)
            .map_err(|_| unmapped)?;
        return Ok(Target::Bytes(&mut warp.local, offset));
    }
    cluster(context, address - SHARED_WINDOW, unmapped)
}

/// An offset in the shared window: rank 0 is the own block, `n + 1` block `n`.
fn cluster<'t>(
    context: &'t mut Context<'_>,
    offset: u64,
    unmapped: AccessFault,
) -> Result<Target<'t>, AccessFault> {
    let (rank, offset) = (offset / BLOCK_WINDOW, offset % BLOCK_WINDOW);
    let index = match rank {
        0 => context.current,
        _ if rank as usize <= context.cluster_barrier.arrived.len() => {
            context.cluster_first + rank as usize - 1
        }
        _ => return Err(unmapped),
    };
    Ok(Target::Bytes(&mut context.blocks[index].shared, offset))
}

/// One lane's load.
pub(crate) fn load_one<T: Plain>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    space: SpaceTag,
    lane: usize,
    address: u64,
) -> Result<T, AccessFault> {
    let size = size_of::<T>() as u64;
    let result = match resolve(warp, context, space, lane, address, size)? {
        Target::Mapped(address) => return context.view.load(address),
        Target::Bytes(bytes, offset) => bytes.load(offset),
        Target::ReadOnly(bytes, offset) => bytes.load(offset),
    };
    result.map_err(|fault| at(fault, address))
}

/// One lane's store.
pub(crate) fn store_one<T: Plain>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    space: SpaceTag,
    lane: usize,
    address: u64,
    value: T,
) -> Result<(), AccessFault> {
    let size = size_of::<T>() as u64;
    let result = match resolve(warp, context, space, lane, address, size)? {
        Target::Mapped(address) => return context.view.store(address, value),
        Target::Bytes(bytes, offset) => bytes.store(offset, value),
        Target::ReadOnly(..) => return Err(AccessFault::ReadOnly { address, size }),
    };
    result.map_err(|fault| at(fault, address))
}

/// A fault of [`Bytes`] with the address that the program used.
fn at(fault: AccessFault, address: u64) -> AccessFault {
    match fault {
        AccessFault::Unmapped { size, .. } => AccessFault::Unmapped { address, size },
        AccessFault::Misaligned { size, .. } => AccessFault::Misaligned { address, size },
        AccessFault::ReadOnly { size, .. } => AccessFault::ReadOnly { address, size },
        AccessFault::Space { size, .. } => AccessFault::Space { address, size },
    }
}

/// One lane's atomic read-modify-write; gives the value before.
pub(crate) fn update_one<T: Atomic>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    space: SpaceTag,
    lane: usize,
    address: u64,
    mut f: impl FnMut(T) -> T,
) -> Result<T, AccessFault> {
    let size = size_of::<T>() as u64;
    let in_local = (LOCAL_WINDOW..PARAM_WINDOW).contains(&address);
    if space == SpaceTag::Generic && in_local {
        return Err(AccessFault::Space { address, size });
    }
    let result = match resolve(warp, context, space, lane, address, size)? {
        Target::Mapped(address) => return context.view.update(address, f),
        Target::Bytes(bytes, offset) => bytes
            .load(offset)
            .and_then(|old| bytes.store(offset, f(old)).map(|()| old)),
        Target::ReadOnly(..) => return Err(AccessFault::ReadOnly { address, size }),
    };
    result.map_err(|fault| at(fault, address))
}

/// Offsets within the warp's local memory, if all lanes of `mask` are inside.
#[inline(always)]
fn local_offsets(
    warp: &Warp,
    addresses: &[u64; LANES],
    base: u64,
    mask: u32,
    size: u64,
) -> Option<[u64; LANES]> {
    let mut offsets = [0; LANES];
    let mut inside = true;
    for lane in lanes(mask) {
        let address = addresses[lane].wrapping_add(base);
        inside &= address < warp.stride && warp.stride - address >= size;
        // An address that is not inside may be anything, so this may wrap.
        offsets[lane] = (lane as u64 * warp.stride).wrapping_add(address);
    }
    inside.then_some(offsets)
}

/// Loads of the lanes of `mask`. Other lanes hold anything.
#[inline(always)]
pub(crate) fn fetch<T: Plain>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Result<[T; LANES], Flow> {
    let addresses = addresses(warp, context, inst);
    let space = space(inst);
    let size = size_of::<T>() as u64;
    let values = match space {
        SpaceTag::Generic | SpaceTag::Global => context.view.gather(&addresses, mask),
        SpaceTag::Shared => context.block().shared.gather(&addresses, mask),
        SpaceTag::Local => {
            local_offsets(warp, &addresses, 0, mask, size).and_then(|o| warp.local.gather(&o, mask))
        }
        SpaceTag::Frame => {
            let base = u64::from(warp.frame.local);
            local_offsets(warp, &addresses, base, mask, size)
                .and_then(|o| warp.local.gather(&o, mask))
        }
        SpaceTag::Parameter => context.launch.params.gather(&addresses, mask),
        SpaceTag::SharedCluster => None,
    };
    match values {
        Some(values) => Ok(values),
        None => fetch_slowly(warp, context, space, &addresses, mask),
    }
}

#[cold]
#[inline(never)]
fn fetch_slowly<T: Plain>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    space: SpaceTag,
    addresses: &[u64; LANES],
    mask: u32,
) -> Result<[T; LANES], Flow> {
    let mut values = [T::default(); LANES];
    for lane in lanes(mask) {
        match load_one(warp, context, space, lane, addresses[lane]) {
            Ok(value) => values[lane] = value,
            Err(fault) => return Err(context.fail_access(warp, lane, fault, space_name(space))),
        }
    }
    Ok(values)
}

/// Stores of the lanes of `mask`, lowest first.
#[inline(always)]
pub(crate) fn put<T: Plain>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
    values: &[T; LANES],
) -> Flow {
    let addresses = addresses(warp, context, inst);
    let space = space(inst);
    let size = size_of::<T>() as u64;
    let done = match space {
        SpaceTag::Generic | SpaceTag::Global => context.view.scatter(&addresses, mask, values),
        SpaceTag::Shared => context.block_mut().shared.scatter(&addresses, mask, values),
        SpaceTag::Local | SpaceTag::Frame => {
            let base = if space == SpaceTag::Frame {
                u64::from(warp.frame.local)
            } else {
                0
            };
            match local_offsets(warp, &addresses, base, mask, size) {
                Some(offsets) => warp.local.scatter(&offsets, mask, values),
                None => false,
            }
        }
        SpaceTag::Parameter | SpaceTag::SharedCluster => false,
    };
    if done {
        Flow::Next
    } else {
        put_slowly(warp, context, space, &addresses, mask, values)
    }
}

#[cold]
#[inline(never)]
fn put_slowly<T: Plain>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    space: SpaceTag,
    addresses: &[u64; LANES],
    mask: u32,
    values: &[T; LANES],
) -> Flow {
    for lane in lanes(mask) {
        if let Err(fault) = store_one(warp, context, space, lane, addresses[lane], values[lane]) {
            return context.fail_access(warp, lane, fault, space_name(space));
        }
    }
    Flow::Next
}

/// The fault of one lane's atomic.
pub(crate) fn fail_lane(
    warp: &Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    lane: usize,
    fault: AccessFault,
) -> Flow {
    context.fail_access(warp, lane, fault, space_name(space(inst)))
}

/// Bytes at a generic address, resolved for one lane, for the runtime
/// functions.
pub(crate) fn load_generic<T: Plain>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    lane: usize,
    address: u64,
) -> Result<T, AccessFault> {
    load_one(warp, context, SpaceTag::Generic, lane, address)
}

/// As [`load_generic`], a store.
pub(crate) fn store_generic<T: Plain>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    lane: usize,
    address: u64,
    value: T,
) -> Result<(), AccessFault> {
    store_one(warp, context, SpaceTag::Generic, lane, address, value)
}
