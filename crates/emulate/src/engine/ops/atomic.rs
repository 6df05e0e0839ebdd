//! `atom` and `red` of every operation and type (PTX ISA 9.7.13).
//!
//! Global memory is updated with the host's atomic instructions, because
//! blocks run on several threads. All orderings are sequentially consistent.

use super::asynchronous::{complete, each_move};
use crate::arith::float::{self, Mode};
use crate::arith::half::{self, BF16, F16};
use crate::engine::access::{addresses, fail_lane, load_one, space, update_one};
use crate::engine::context::Context;
use crate::engine::decode::{
    Decoder, Ins, Problem, class, malformed, space as space_of, unsupported,
};
use crate::engine::inst::{Class, Flow, Handler, Inst, NONE};
use crate::engine::lanes::{Raw, lanes};
use crate::engine::warp::Warp;
use crate::mapping::{AccessFault, Atomic};
use ptx::{Mnemonic, Modifier, Type};

/// One operation on one type.
trait Operation: 'static {
    type T: Atomic + Raw;
    fn f(old: Self::T, b: Self::T, c: Self::T) -> Self::T;
}

macro_rules! operation {
    ($($name:ident: $t:ty = $f:expr;)*) => { $(
        struct $name;
        impl Operation for $name {
            type T = $t;
            #[inline(always)]
            fn f(old: $t, b: $t, c: $t) -> $t { let f: fn($t, $t, $t) -> $t = $f; f(old, b, c) }
        }
    )* };
}

const PLAIN: half::Mode = half::Mode {
    ftz: false,
    sat: false,
    relu: false,
};
const EXTREMUM: float::Extremum = float::Extremum {
    ftz: false,
    nan: false,
    xorsign_abs: false,
};

fn mode(ftz: bool) -> Mode {
    Mode {
        ftz,
        ..Mode::default()
    }
}

operation! {
    Add32: u32 = |o, b, _| o.wrapping_add(b);
    Add64: u64 = |o, b, _| o.wrapping_add(b);
    And32: u32 = |o, b, _| o & b;
    And64: u64 = |o, b, _| o & b;
    Or32: u32 = |o, b, _| o | b;
    Or64: u64 = |o, b, _| o | b;
    Xor32: u32 = |o, b, _| o ^ b;
    Xor64: u64 = |o, b, _| o ^ b;
    MinU32: u32 = |o, b, _| o.min(b);
    MaxU32: u32 = |o, b, _| o.max(b);
    MinS32: u32 = |o, b, _| (o as i32).min(b as i32) as u32;
    MaxS32: u32 = |o, b, _| (o as i32).max(b as i32) as u32;
    MinU64: u64 = |o, b, _| o.min(b);
    MaxU64: u64 = |o, b, _| o.max(b);
    MinS64: u64 = |o, b, _| (o as i64).min(b as i64) as u64;
    MaxS64: u64 = |o, b, _| (o as i64).max(b as i64) as u64;
    Inc32: u32 = |o, b, _| if o >= b { 0 } else { o + 1 };
    Dec32: u32 = |o, b, _| if o == 0 || o > b { b } else { o - 1 };
    Exchange16: u16 = |_, b, _| b;
    Exchange32: u32 = |_, b, _| b;
    Exchange64: u64 = |_, b, _| b;
    Exchange128: u128 = |_, b, _| b;
    Compare16: u16 = |o, b, c| if o == b { c } else { o };
    Compare32: u32 = |o, b, c| if o == b { c } else { o };
    Compare64: u64 = |o, b, c| if o == b { c } else { o };
    Compare128: u128 = |o, b, c| if o == b { c } else { o };
    // Atomic f32 additions on global memory flush subnormals, those on shared
    // memory do not (PTX ISA, `atom`).
    AddF32Global: u32 = |o, b, _| float::add_f32(f32::from_bits(o), f32::from_bits(b), mode(true)).to_bits();
    AddF32Shared: u32 = |o, b, _| float::add_f32(f32::from_bits(o), f32::from_bits(b), mode(false)).to_bits();
    AddF64: u64 = |o, b, _| float::add_f64(f64::from_bits(o), f64::from_bits(b), crate::arith::Round::Nearest).to_bits();
    MinF32: u32 = |o, b, _| float::min_f32(f32::from_bits(o), f32::from_bits(b), EXTREMUM).to_bits();
    MaxF32: u32 = |o, b, _| float::max_f32(f32::from_bits(o), f32::from_bits(b), EXTREMUM).to_bits();
    AddF16: u16 = |o, b, _| half::add::<F16>(o, b, PLAIN);
    AddBF16: u16 = |o, b, _| half::add::<BF16>(o, b, PLAIN);
    MinF16: u16 = |o, b, _| half::min::<F16>(o, b, EXTREMUM);
    MaxF16: u16 = |o, b, _| half::max::<F16>(o, b, EXTREMUM);
    MinBF16: u16 = |o, b, _| half::min::<BF16>(o, b, EXTREMUM);
    MaxBF16: u16 = |o, b, _| half::max::<BF16>(o, b, EXTREMUM);
    AddF16x2: u32 = |o, b, _| half::both2(o, b, |o, b| half::add::<F16>(o, b, PLAIN));
    AddBF16x2: u32 = |o, b, _| half::both2(o, b, |o, b| half::add::<BF16>(o, b, PLAIN));
    MinF16x2: u32 = |o, b, _| half::both2(o, b, |o, b| half::min::<F16>(o, b, EXTREMUM));
    MaxF16x2: u32 = |o, b, _| half::both2(o, b, |o, b| half::max::<F16>(o, b, EXTREMUM));
    MinBF16x2: u32 = |o, b, _| half::both2(o, b, |o, b| half::min::<BF16>(o, b, EXTREMUM));
    MaxBF16x2: u32 = |o, b, _| half::both2(o, b, |o, b| half::max::<BF16>(o, b, EXTREMUM));
}

/// `d` is [`NONE`] for `red`.
fn scalar<O: Operation>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    warp.polled = true;
    let addresses = addresses(warp, context, inst);
    let b = *warp.row::<O::T>(context, inst.b);
    let c = *warp.row::<O::T>(context, inst.c);
    let space = space(inst);
    for lane in lanes(mask) {
        match update_one(warp, context, space, lane, addresses[lane], |old| {
            O::f(old, b[lane], c[lane])
        }) {
            Ok(old) if inst.d != NONE => warp.row_mut::<O::T>(inst.d)[lane] = old,
            Ok(_) => {}
            Err(fault) => return fail_lane(warp, context, inst, lane, fault),
        }
    }
    Flow::Next
}

/// Vector forms: each element is atomic on its own. `d` and `b` list registers.
fn vector<O: Operation>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    warp.polled = true;
    let addresses = addresses(warp, context, inst);
    let program = context.program;
    let sources = &program.lists[inst.b as usize];
    let space = space(inst);
    let size = size_of::<O::T>() as u64;
    for lane in lanes(mask) {
        let whole = size * sources.len() as u64;
        if !addresses[lane].is_multiple_of(whole) {
            return fail_lane(
                warp,
                context,
                inst,
                lane,
                AccessFault::Misaligned {
                    address: addresses[lane],
                    size: whole,
                },
            );
        }
        for (element, &slot) in sources.iter().enumerate() {
            let b = warp.row::<O::T>(context, slot)[lane];
            let address = addresses[lane] + element as u64 * size;
            match update_one(warp, context, space, lane, address, |old| O::f(old, b, b)) {
                Ok(old) if inst.d != NONE => {
                    let to = program.lists[inst.d as usize][element];
                    if to != NONE {
                        warp.row_mut::<O::T>(to)[lane] = old;
                    }
                }
                Ok(_) => {}
                Err(fault) => return fail_lane(warp, context, inst, lane, fault),
            }
        }
    }
    Flow::Next
}

/// `cp.reduce.async.bulk`: each element is atomic on its own.
fn bulk<O: Operation>(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    warp.polled = true;
    each_move(warp, context, inst, mask, |warp, context, lane, one| {
        for at in (0..one.size).step_by(size_of::<O::T>()) {
            let b = load_one::<O::T>(warp, context, one.from.0, lane, one.from.1 + at)?;
            let combine = |old| O::f(old, b, b);
            update_one(warp, context, one.to.0, lane, one.to.1 + at, combine)?;
        }
        Ok(())
    })
}

/// The forms of one operation on one type.
struct Forms {
    scalar: Handler,
    vector: Handler,
    bulk: Handler,
}

fn handlers<O: Operation>() -> Forms {
    Forms {
        scalar: scalar::<O>,
        vector: vector::<O>,
        bulk: bulk::<O>,
    }
}

fn choose(operation: Modifier, ty: Type, shared: bool) -> Option<Forms> {
    use Type::*;
    Some(match (operation, ty) {
        (Modifier::Add, U32 | S32 | B32) => handlers::<Add32>(),
        (Modifier::Add, U64 | S64 | B64) => handlers::<Add64>(),
        (Modifier::Add, F32) if shared => handlers::<AddF32Shared>(),
        (Modifier::Add, F32) => handlers::<AddF32Global>(),
        (Modifier::Add, F64) => handlers::<AddF64>(),
        (Modifier::Add, F16) => handlers::<AddF16>(),
        (Modifier::Add, BF16) => handlers::<AddBF16>(),
        (Modifier::Add, F16x2) => handlers::<AddF16x2>(),
        (Modifier::Add, BF16x2) => handlers::<AddBF16x2>(),
        (Modifier::And, B32 | U32 | S32) => handlers::<And32>(),
        (Modifier::And, B64 | U64 | S64) => handlers::<And64>(),
        (Modifier::Or, B32 | U32 | S32) => handlers::<Or32>(),
        (Modifier::Or, B64 | U64 | S64) => handlers::<Or64>(),
        (Modifier::Xor, B32 | U32 | S32) => handlers::<Xor32>(),
        (Modifier::Xor, B64 | U64 | S64) => handlers::<Xor64>(),
        (Modifier::Min, U32) => handlers::<MinU32>(),
        (Modifier::Max, U32) => handlers::<MaxU32>(),
        (Modifier::Min, S32) => handlers::<MinS32>(),
        (Modifier::Max, S32) => handlers::<MaxS32>(),
        (Modifier::Min, U64) => handlers::<MinU64>(),
        (Modifier::Max, U64) => handlers::<MaxU64>(),
        (Modifier::Min, S64) => handlers::<MinS64>(),
        (Modifier::Max, S64) => handlers::<MaxS64>(),
        (Modifier::Min, F32) => handlers::<MinF32>(),
        (Modifier::Max, F32) => handlers::<MaxF32>(),
        (Modifier::Min, F16) => handlers::<MinF16>(),
        (Modifier::Max, F16) => handlers::<MaxF16>(),
        (Modifier::Min, BF16) => handlers::<MinBF16>(),
        (Modifier::Max, BF16) => handlers::<MaxBF16>(),
        (Modifier::Min, F16x2) => handlers::<MinF16x2>(),
        (Modifier::Max, F16x2) => handlers::<MaxF16x2>(),
        (Modifier::Min, BF16x2) => handlers::<MinBF16x2>(),
        (Modifier::Max, BF16x2) => handlers::<MaxBF16x2>(),
        (Modifier::Inc, U32) => handlers::<Inc32>(),
        (Modifier::Dec, U32) => handlers::<Dec32>(),
        (Modifier::Exch, B16 | U16) => handlers::<Exchange16>(),
        (Modifier::Exch, B32 | U32 | S32 | F32) => handlers::<Exchange32>(),
        (Modifier::Exch, B64 | U64 | S64 | F64) => handlers::<Exchange64>(),
        (Modifier::Exch, B128) => handlers::<Exchange128>(),
        (Modifier::Cas, B16 | U16) => handlers::<Compare16>(),
        (Modifier::Cas, B32 | U32 | S32 | F32) => handlers::<Compare32>(),
        (Modifier::Cas, B64 | U64 | S64 | F64) => handlers::<Compare64>(),
        (Modifier::Cas, B128) => handlers::<Compare128>(),
        _ => return None,
    })
}

/// The operation and type of an instruction.
fn forms(x: &Ins<'_>, shared: bool) -> Result<(Modifier, Forms), Problem> {
    const OPERATIONS: &[Modifier] = &[
        Modifier::Add,
        Modifier::And,
        Modifier::Or,
        Modifier::Xor,
        Modifier::Min,
        Modifier::Max,
        Modifier::Inc,
        Modifier::Dec,
        Modifier::Exch,
        Modifier::Cas,
    ];
    let ty = x.ty()?;
    let Some(&operation) = OPERATIONS.iter().find(|o| x.mods.contains(o)) else {
        return unsupported("atomic operation");
    };
    match choose(operation, ty, shared) {
        Some(forms) => Ok((operation, forms)),
        None => {
            let operation = operation.text().unwrap_or_default();
            unsupported(format!("atomic {operation} of type {ty:?}"))
        }
    }
}

/// What runs a `cp.reduce.async.bulk`.
pub(super) fn bulk_reduction(x: &Ins<'_>) -> Result<Handler, Problem> {
    let to_shared = x.mods.iter().find_map(|m| match m {
        Modifier::Shared | Modifier::SharedCta | Modifier::SharedCluster => Some(true),
        Modifier::Global => Some(false),
        _ => None,
    });
    Ok(forms(x, to_shared.unwrap_or(false))?.1.bulk)
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let ty = x.ty()?;
    let first = usize::from(x.mnemonic == Mnemonic::Atom);
    let address = d.address(x.op(first)?, space_of(x))?;
    use crate::engine::decode::SpaceTag;
    let shared = matches!(address.space, SpaceTag::Shared | SpaceTag::SharedCluster);
    let (operation, forms) = forms(x, shared)?;
    let width = class(ty)?;
    let side = address.tag();
    if x.has(Modifier::V2) || x.has(Modifier::V4) || x.has(Modifier::V8) {
        let sources = Decoder::vector(x.op(first + 1)?)
            .iter()
            .map(|o| d.src(o, width))
            .collect::<Result<Vec<_>, _>>()?;
        let b = d.list(sources);
        let dst = if first == 1 {
            let slots = Decoder::vector(x.op(0)?)
                .iter()
                .map(|o| d.dst(o, width))
                .collect::<Result<Vec<_>, _>>()?;
            d.list(slots)
        } else {
            NONE
        };
        d.emit(forms.vector, |i| {
            (i.d, i.a, i.b, i.imm, i.side) = (dst, address.slot, b, address.offset as u64, side)
        });
        return Ok(());
    }
    let dst = if first == 1 {
        d.dst(x.op(0)?, width)?
    } else {
        NONE
    };
    let value = |d: &mut Decoder<'a>, index: usize| -> Result<u32, Problem> {
        let operand = x.op(index)?;
        if width == Class::B128
            && let ptx::OperandKind::Vector(_) = operand.kind
        {
            return malformed("128-bit atomics take .b128 registers");
        }
        d.src(operand, width)
    };
    let b = value(d, first + 1)?;
    let c = if operation == Modifier::Cas {
        value(d, first + 2)?
    } else {
        b
    };
    d.emit(forms.scalar, |i| {
        (i.d, i.a, i.b, i.c, i.imm, i.side) = (dst, address.slot, b, c, address.offset as u64, side)
    });
    match x.has(Modifier::Async) {
        true => complete(d, x.op(first + 2)?, space_of(x), ty.bytes()),
        false => Ok(()),
    }
}
