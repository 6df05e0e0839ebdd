//! `ld`, `ldu`, `st` of every space, scalar and vector (PTX ISA 9.7.9).

use crate::engine::access::{POLLS, fetch, put};
use crate::engine::context::Context;
use crate::engine::decode::{
    Address, Decoder, Ins, Problem, SpaceTag, malformed, space, unsupported,
};
use crate::engine::inst::{Class, Flow, Handler, Inst, NONE};
use crate::engine::lanes::{FULL, Raw, lanes};
use crate::engine::warp::Warp;
use crate::mapping::{LANES, Plain};
use ptx::{Mnemonic, Modifier, Type};

/// Memory values as integers.
trait Cell: Plain {
    /// Part `index` of `bits` bits.
    fn part(self, index: u32, bits: u32) -> u128;
    /// Put a value into part `index`; the part must be zero before.
    fn with(self, index: u32, bits: u32, value: u128) -> Self;
}

macro_rules! cell {
    ($($t:ty),*) => { $(
        impl Cell for $t {
            #[inline(always)]
            fn part(self, index: u32, bits: u32) -> u128 {
                let wide = (self as u128) >> (index * bits);
                if bits >= 128 { wide } else { wide & ((1u128 << bits) - 1) }
            }
            #[inline(always)]
            fn with(self, index: u32, bits: u32, value: u128) -> Self {
                let value = if bits >= 128 { value } else { value & ((1u128 << bits) - 1) };
                self | (value << (index * bits)) as $t
            }
        }
    )* };
}
cell!(u8, u16, u32, u64, u128);

impl Cell for [u128; 2] {
    #[inline(always)]
    fn part(self, index: u32, bits: u32) -> u128 {
        let per_half = 128 / bits;
        self[(index / per_half) as usize % 2].part(index % per_half, bits)
    }
    #[inline(always)]
    fn with(mut self, index: u32, bits: u32, value: u128) -> Self {
        let per_half = 128 / bits;
        let half = (index / per_half) as usize % 2;
        self[half] = self[half].with(index % per_half, bits, value);
        self
    }
}

/// A load whose type has the register's size.
fn load_same<T: Cell + Raw>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    warp.polled |= inst.side & POLLS != 0;
    let values = match fetch::<T>(warp, context, inst, mask) {
        Ok(values) => values,
        Err(flow) => return flow,
    };
    warp.set_row(inst.d, mask, &values);
    Flow::Next
}

/// A load that is extended to the register's size.
fn load_extended<T: Cell, D: Raw, const SIGNED: bool>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    warp.polled |= inst.side & POLLS != 0;
    let values = match fetch::<T>(warp, context, inst, mask) {
        Ok(values) => values,
        Err(flow) => return flow,
    };
    let bits = size_of::<T>() as u32 * 8;
    let row = values.map(|v| D::from_u128(extend::<SIGNED>(v.part(0, bits), bits)));
    warp.set_row::<D>(inst.d, mask, &row);
    Flow::Next
}

#[inline(always)]
fn extend<const SIGNED: bool>(value: u128, bits: u32) -> u128 {
    if SIGNED {
        let shift = 128 - bits;
        ((value << shift) as i128 >> shift) as u128
    } else {
        value
    }
}

/// A vector load: `d` lists the registers, `c` has the bits of an element.
fn load_vector<T: Cell, D: Raw, const SIGNED: bool>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    warp.polled |= inst.side & POLLS != 0;
    let values = match fetch::<T>(warp, context, inst, mask) {
        Ok(values) => values,
        Err(flow) => return flow,
    };
    let bits = inst.c;
    let program = context.program;
    for (index, &slot) in program.lists[inst.d as usize].iter().enumerate() {
        if slot == NONE {
            continue;
        }
        let row = warp.row_mut::<D>(slot);
        let part = |lane: usize| {
            D::from_u128(extend::<SIGNED>(
                values[lane].part(index as u32, bits),
                bits,
            ))
        };
        if mask == FULL {
            for lane in 0..LANES {
                row[lane] = part(lane);
            }
        } else {
            for lane in lanes(mask) {
                row[lane] = part(lane);
            }
        }
    }
    Flow::Next
}

fn store_same<T: Cell + Raw>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let values = *warp.row::<T>(context, inst.d);
    put(warp, context, inst, mask, &values)
}

/// A store of the low bits of a register.
fn store_truncated<T: Cell, S: Raw>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let bits = size_of::<T>() as u32 * 8;
    let values = warp
        .row::<S>(context, inst.d)
        .map(|v| T::default().with(0, bits, v.to_u128()));
    put(warp, context, inst, mask, &values)
}

fn store_vector<T: Cell, S: Raw>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let mut values = [T::default(); LANES];
    for (index, &slot) in context.program.lists[inst.d as usize].iter().enumerate() {
        let row = warp.row::<S>(context, slot);
        for lane in 0..LANES {
            values[lane] = values[lane].with(index as u32, inst.c, row[lane].to_u128());
        }
    }
    put(warp, context, inst, mask, &values)
}

fn is_signed(ty: Type) -> bool {
    matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64)
}

/// The handler of memory type × register class.
macro_rules! by_cell_and_class {
    ($bytes:expr, $class:expr, |$t:ident, $r:ident| $e:expr) => {
        match ($bytes, $class) {
            (1, Class::B16) => {
                type $t = u8;
                type $r = u16;
                Some($e)
            }
            (1, Class::B32) => {
                type $t = u8;
                type $r = u32;
                Some($e)
            }
            (1, Class::B64) => {
                type $t = u8;
                type $r = u64;
                Some($e)
            }
            (2, Class::B16) => {
                type $t = u16;
                type $r = u16;
                Some($e)
            }
            (2, Class::B32) => {
                type $t = u16;
                type $r = u32;
                Some($e)
            }
            (2, Class::B64) => {
                type $t = u16;
                type $r = u64;
                Some($e)
            }
            (4, Class::B32) => {
                type $t = u32;
                type $r = u32;
                Some($e)
            }
            (4, Class::B64) => {
                type $t = u32;
                type $r = u64;
                Some($e)
            }
            (8, Class::B64) => {
                type $t = u64;
                type $r = u64;
                Some($e)
            }
            (16, Class::B128) => {
                type $t = u128;
                type $r = u128;
                Some($e)
            }
            _ => None,
        }
    };
}

/// The handler of total bytes × register class, for vectors.
macro_rules! by_total_and_class {
    ($bytes:expr, $class:expr, |$t:ident, $r:ident| $e:expr) => {
        match ($bytes, $class) {
            (2, Class::B16) => {
                type $t = u16;
                type $r = u16;
                Some($e)
            }
            (2, Class::B32) => {
                type $t = u16;
                type $r = u32;
                Some($e)
            }
            (4, Class::B16) => {
                type $t = u32;
                type $r = u16;
                Some($e)
            }
            (4, Class::B32) => {
                type $t = u32;
                type $r = u32;
                Some($e)
            }
            (8, Class::B16) => {
                type $t = u64;
                type $r = u16;
                Some($e)
            }
            (8, Class::B32) => {
                type $t = u64;
                type $r = u32;
                Some($e)
            }
            (8, Class::B64) => {
                type $t = u64;
                type $r = u64;
                Some($e)
            }
            (16, Class::B16) => {
                type $t = u128;
                type $r = u16;
                Some($e)
            }
            (16, Class::B32) => {
                type $t = u128;
                type $r = u32;
                Some($e)
            }
            (16, Class::B64) => {
                type $t = u128;
                type $r = u64;
                Some($e)
            }
            (32, Class::B32) => {
                type $t = [u128; 2];
                type $r = u32;
                Some($e)
            }
            (32, Class::B64) => {
                type $t = [u128; 2];
                type $r = u64;
                Some($e)
            }
            (32, Class::B128) => {
                type $t = [u128; 2];
                type $r = u128;
                Some($e)
            }
            _ => None,
        }
    };
}

/// Modifiers that change no result here: caching, ordering (x86 orders loads
/// and stores at least as strongly as `.acquire` and `.release` require),
/// scopes.
const HARMLESS: &[Modifier] = &[
    Modifier::Global,
    Modifier::Const,
    Modifier::Shared,
    Modifier::SharedCta,
    Modifier::SharedCluster,
    Modifier::Local,
    Modifier::Param,
    Modifier::ParamEntry,
    Modifier::ParamFunc,
    Modifier::Generic,
    Modifier::Nc,
    Modifier::Volatile,
    Modifier::Weak,
    Modifier::Relaxed,
    Modifier::Acquire,
    Modifier::Release,
    Modifier::Mmio,
    Modifier::Cta,
    Modifier::Cluster,
    Modifier::Gpu,
    Modifier::Sys,
    Modifier::Ca,
    Modifier::Cg,
    Modifier::Cs,
    Modifier::Lu,
    Modifier::Cv,
    Modifier::Wb,
    Modifier::Wt,
    Modifier::V2,
    Modifier::V4,
    Modifier::V8,
    Modifier::L1EvictNormal,
    Modifier::L1EvictUnchanged,
    Modifier::L1EvictFirst,
    Modifier::L1EvictLast,
    Modifier::L1NoAllocate,
    Modifier::L2EvictLast,
    Modifier::L2EvictNormal,
    Modifier::L2EvictFirst,
    Modifier::L2CacheHint,
    Modifier::L2Prefetch64,
    Modifier::L2Prefetch128,
    Modifier::L2Prefetch256,
    Modifier::Unified,
    Modifier::L1EvictLast,
    // Complete when issued.
    Modifier::Async,
    Modifier::MbarrierCompleteTxBytes,
];

/// Whether lanes may wait for what others do through this access.
pub(crate) fn polls(x: &Ins<'_>) -> bool {
    x.has(Modifier::Volatile)
        || x.has(Modifier::Relaxed)
        || x.has(Modifier::Acquire)
        || x.has(Modifier::Mmio)
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    decode_access(d, x)?;
    match x.ops.get(2) {
        Some(operand) if x.has(Modifier::Async) => {
            let ty = x.ty()?;
            let elements = ptx::table::vector_length(x.opcode());
            super::asynchronous::complete(d, operand, space(x), ty.bytes() * elements)
        }
        _ => Ok(()),
    }
}

fn decode_access<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    x.only(HARMLESS)?;
    let ty = x.ty()?;
    let is_load = x.mnemonic != Mnemonic::St;
    let (data, address) = if is_load { (0, 1) } else { (1, 0) };
    x.count(2, 3)?;
    let address: Address = d.address(&x.ops[address], space(x))?;
    if !is_load && address.space == SpaceTag::Parameter {
        return malformed("store to a parameter of an entry");
    }
    let data = &x.ops[data];
    let element = ty.bytes();
    let elements = match (
        x.has(Modifier::V2),
        x.has(Modifier::V4),
        x.has(Modifier::V8),
    ) {
        (true, ..) => 2,
        (_, true, _) => 4,
        (.., true) => 8,
        _ => 1,
    };
    let side = address.tag() | if polls(x) { POLLS } else { 0 };
    let parts = Decoder::vector(data);
    if parts.len() != elements {
        return malformed(format!("{} registers for {elements} elements", parts.len()));
    }
    let default_class = Class::of(ty).unwrap_or(Class::B32);
    let mut class = None;
    let mut slots = Vec::with_capacity(elements);
    for part in parts {
        let (found, slot) = if is_load {
            d.dst_any(part)?
        } else {
            d.src_any(part, default_class)?
        };
        if slot == NONE {
            slots.push(NONE);
            continue;
        }
        if class.is_some_and(|c| c != found) {
            return malformed("registers of different sizes in one vector");
        }
        class = Some(found);
        slots.push(slot);
    }
    // A load into `_` alone still checks its address.
    let class = class.unwrap_or(default_class);
    let signed = is_signed(ty);
    let no_handler = || Problem::Malformed(format!("{ty:?} does not fit a {class:?} register"));
    if elements == 1 {
        let same = class.bytes() == element;
        let run: Handler = if is_load {
            match (same, signed) {
                (true, _) => same_class::<true>(class).ok_or_else(no_handler)?,
                (_, true) => by_cell_and_class!(element, class, |T, R| load_extended::<T, R, true>
                    as Handler)
                .ok_or_else(no_handler)?,
                _ => by_cell_and_class!(element, class, |T, R| load_extended::<T, R, false>
                    as Handler)
                .ok_or_else(no_handler)?,
            }
        } else if same {
            same_class::<false>(class).ok_or_else(no_handler)?
        } else {
            by_cell_and_class!(element, class, |T, R| store_truncated::<T, R> as Handler)
                .ok_or_else(no_handler)?
        };
        d.emit(run, |i| {
            (i.d, i.a, i.imm, i.side) = (slots[0], address.slot, address.offset as u64, side)
        });
        return Ok(());
    }
    if class.bytes() < element {
        return Err(no_handler());
    }
    let total = element * elements as u32;
    let run: Option<Handler> = if is_load && signed {
        by_total_and_class!(total, class, |T, R| load_vector::<T, R, true> as Handler)
    } else if is_load {
        by_total_and_class!(total, class, |T, R| load_vector::<T, R, false> as Handler)
    } else {
        by_total_and_class!(total, class, |T, R| store_vector::<T, R> as Handler)
    };
    let Some(run) = run else {
        return unsupported(format!("vector of {total} bytes in {class:?} registers"));
    };
    let list = d.list(slots);
    d.emit(run, |i| {
        (i.d, i.a, i.imm, i.side, i.c) =
            (list, address.slot, address.offset as u64, side, element * 8)
    });
    Ok(())
}

/// The handler of a load or store whose type has the register's size.
pub(crate) fn same_class<const LOAD: bool>(class: Class) -> Option<Handler> {
    Some(match (class, LOAD) {
        (Class::B16, true) => load_same::<u16>,
        (Class::B32, true) => load_same::<u32>,
        (Class::B64, true) => load_same::<u64>,
        (Class::B128, true) => load_same::<u128>,
        (Class::B16, false) => store_same::<u16>,
        (Class::B32, false) => store_same::<u32>,
        (Class::B64, false) => store_same::<u64>,
        (Class::B128, false) => store_same::<u128>,
        (Class::Pred, _) => return None,
    })
}
