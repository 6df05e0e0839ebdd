//! `mov`, selections, address conversions, and cache hints.

use super::by_width;
use super::integer::Add;
use crate::arith::compare as relation;
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, SpaceTag, class, malformed, unsupported};
use crate::engine::inst::{Class, Flow, Handler, Inst};
use crate::engine::lanes::{FULL, Fun1, Fun3, Raw, Value, lanes, one, three, two};
use crate::engine::warp::Warp;
use crate::mapping::{LANES, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_SIZE};
use ptx::{Mnemonic, Modifier, OperandKind, Type};
use std::marker::PhantomData;

/// `mov`
pub(crate) struct Move<T>(PhantomData<T>);
impl<T: Value> Fun1 for Move<T> {
    type A = T;
    type D = T;
    const HOT: bool = false;
    #[inline(always)]
    fn f(_: u64, a: T) -> T {
        a
    }
}

/// `slct` by the sign of an integer.
struct SelectS32<T>(PhantomData<T>);
impl<T: Value> Fun3 for SelectS32<T> {
    type A = T;
    type B = T;
    type C = i32;
    type D = T;
    const HOT: bool = false;
    #[inline(always)]
    fn f(_: u64, a: T, b: T, c: i32) -> T {
        relation::slct_s32(a, b, c)
    }
}

/// `slct` by the sign of a float.
struct SelectF32<T>(PhantomData<T>);
impl<T: Value> Fun3 for SelectF32<T> {
    type A = T;
    type B = T;
    type C = f32;
    type D = T;
    const HOT: bool = false;
    #[inline(always)]
    fn f(k: u64, a: T, b: T, c: f32) -> T {
        relation::slct_f32(a, b, c, k != 0)
    }
}

fn move_pred(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let value = warp.pred(context, inst.a);
    warp.set_pred(inst.d, mask, if inst.imm == 0 { value } else { !value });
    Flow::Next
}

fn select<R: Raw>(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let p = warp.pred(context, inst.c) ^ if inst.imm != 0 { FULL } else { 0 };
    let mut row = *warp.row::<R>(context, inst.b);
    let a = warp.row::<R>(context, inst.a);
    for lane in 0..LANES {
        row[lane] = if p >> lane & 1 != 0 {
            a[lane]
        } else {
            row[lane]
        };
    }
    warp.set_row(inst.d, mask, &row);
    Flow::Next
}

/// `mov d, {a, b}`: the first part is the lowest.
fn pack<E: Raw, D: Raw>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let list = &context.program.lists[inst.side as usize];
    let mut row = [0u128; LANES];
    for (part, &slot) in list.iter().enumerate() {
        let source = warp.row::<E>(context, slot);
        let shift = part * size_of::<E>() * 8;
        for lane in 0..LANES {
            row[lane] |= u128::from(source[lane].to_u64()) << shift;
        }
    }
    for lane in lanes(mask) {
        warp.row_mut::<D>(inst.d)[lane] = D::from_u128(row[lane]);
    }
    Flow::Next
}

/// As [`pack`], of parts of 8 bits: registers of that size have 16 here.
fn pack_bytes<D: Raw>(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let mut row = [0u64; LANES];
    for (part, &slot) in context.program.lists[inst.side as usize].iter().enumerate() {
        let source = warp.row::<u16>(context, slot);
        for lane in 0..LANES {
            row[lane] |= u64::from(source[lane] & 0xff) << (part * 8);
        }
    }
    warp.set_row(inst.d, mask, &row.map(D::from_u64));
    Flow::Next
}

/// As [`unpack`], of parts of 8 bits.
fn unpack_bytes<S: Raw>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let row = *warp.row::<S>(context, inst.a);
    let program = context.program;
    for (part, &slot) in program.lists[inst.side as usize].iter().enumerate() {
        let values = row.map(|bits| (bits.to_u64() >> (part * 8)) as u16 & 0xff);
        warp.set_row::<u16>(slot, mask, &values);
    }
    Flow::Next
}

fn unpack<E: Raw, S: Raw>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let row = *warp.row::<S>(context, inst.a);
    let program = context.program;
    for (part, &slot) in program.lists[inst.side as usize].iter().enumerate() {
        let shift = part * size_of::<E>() * 8;
        let values: [E; LANES] =
            std::array::from_fn(|lane| E::from_u64((row[lane].to_u128() >> shift) as u64));
        warp.set_row::<E>(slot, mask, &values);
    }
    Flow::Next
}

/// Whether generic addresses lie in a space; `imm` says which.
fn isspacep(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let (low, high) = match inst.imm {
        0 => (0, 0),
        1 => (SHARED_WINDOW, SHARED_WINDOW + WINDOW_SIZE),
        2 => (LOCAL_WINDOW, LOCAL_WINDOW + WINDOW_SIZE),
        3 => (PARAM_WINDOW, PARAM_WINDOW + WINDOW_SIZE),
        4 => context.program.constant_range,
        // Own shared memory: rank 0 of the window, or the block's own rank.
        _ => (SHARED_WINDOW, SHARED_WINDOW + BLOCK_WINDOW),
    };
    let own = SHARED_WINDOW + u64::from(context.block().rank + 1) * BLOCK_WINDOW;
    let is_global = |a: u64| !(SHARED_WINDOW..LOCAL_WINDOW + WINDOW_SIZE).contains(&a);
    let mut bits = 0;
    for (lane, &a) in warp.row::<u64>(context, inst.a).iter().enumerate() {
        let inside = match inst.imm {
            0 => is_global(a),
            5 => (low..high).contains(&a) || (own..own + BLOCK_WINDOW).contains(&a),
            _ => (low..high).contains(&a),
        };
        bits |= u32::from(inside) << lane;
    }
    warp.set_pred(inst.d, mask, bits);
    Flow::Next
}

/// Bytes of the shared window that belong to one block of a cluster.
pub(crate) const BLOCK_WINDOW: u64 = 1 << 24;

/// `mapa`: the address that another block of the cluster has at this place.
fn mapa<R: Raw>(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let ranks = *warp.row::<u32>(context, inst.b);
    let addresses = *warp.row::<R>(context, inst.a);
    let row: [R; LANES] = std::array::from_fn(|lane| {
        let address = addresses[lane].to_u64();
        let within = address & (BLOCK_WINDOW - 1);
        let window = if address >= SHARED_WINDOW {
            SHARED_WINDOW
        } else {
            0
        };
        R::from_u64(window + (u64::from(ranks[lane]) + 1) * BLOCK_WINDOW + within)
    });
    warp.set_row(inst.d, mask, &row);
    Flow::Next
}

/// `getctarank`
fn getctarank<R: Raw>(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let own = context.block().rank;
    let addresses = *warp.row::<R>(context, inst.a);
    let row: [u32; LANES] = std::array::from_fn(|lane| {
        let rank = (addresses[lane].to_u64() & (WINDOW_SIZE - 1)) / BLOCK_WINDOW;
        if rank == 0 { own } else { rank as u32 - 1 }
    });
    warp.set_row(inst.d, mask, &row);
    Flow::Next
}

fn nothing(_: &mut Warp, _: &mut Context<'_>, _: &Inst, _: u32) -> Flow {
    Flow::Next
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    match x.mnemonic {
        Mnemonic::Mov => decode_mov(d, x),
        Mnemonic::Selp => {
            x.count(4, 4)?;
            let width = class(x.ty()?)?;
            let run: Handler = by_width!(width, T => select::<T>);
            let dst = d.dst(&x.ops[0], width)?;
            let (a, b) = (d.src(&x.ops[1], width)?, d.src(&x.ops[2], width)?);
            let (c, negated) = d.pred(&x.ops[3])?;
            d.emit_to(run, dst, |i| {
                (i.a, i.b, i.c, i.imm) = (a, b, c, u64::from(negated))
            });
            Ok(())
        }
        Mnemonic::Slct => {
            x.count(4, 4)?;
            let [ty, by] = x.types[..] else {
                return malformed("slct needs two types");
            };
            let width = class(ty)?;
            let run: Handler = match by {
                Type::S32 => by_width!(width, T => three::<SelectS32<T>>),
                Type::F32 => by_width!(width, T => three::<SelectF32<T>>),
                _ => return malformed("slct selects by .s32 or .f32"),
            };
            let dst = d.dst(&x.ops[0], width)?;
            let (a, b, c) = (
                d.src(&x.ops[1], width)?,
                d.src(&x.ops[2], width)?,
                d.src(&x.ops[3], Class::B32)?,
            );
            d.emit_to(run, dst, |i| {
                (i.a, i.b, i.c, i.imm) = (a, b, c, u64::from(x.has(Modifier::Ftz)))
            });
            Ok(())
        }
        Mnemonic::Cvta => decode_cvta(d, x),
        Mnemonic::Isspacep => {
            x.count(2, 2)?;
            let imm = match x.mods.first().copied() {
                Some(Modifier::Global) => 0,
                Some(Modifier::Shared) | Some(Modifier::SharedCta) => 5,
                Some(Modifier::SharedCluster) => 1,
                Some(Modifier::Local) => 2,
                Some(Modifier::Param) | Some(Modifier::ParamEntry) => 3,
                Some(Modifier::Const) => 4,
                other => return unsupported(format!("isspacep of {other:?}")),
            };
            let dst = d.dst(&x.ops[0], Class::Pred)?;
            let a = d.src(&x.ops[1], Class::B64)?;
            d.emit_to(isspacep, dst, |i| (i.a, i.imm) = (a, imm));
            Ok(())
        }
        Mnemonic::Mapa => {
            x.count(3, 3)?;
            let width = class(x.ty()?)?;
            let run: Handler = if width == Class::B64 {
                mapa::<u64>
            } else {
                mapa::<u32>
            };
            let dst = d.dst(&x.ops[0], width)?;
            let (a, b) = (d.src(&x.ops[1], width)?, d.src(&x.ops[2], Class::B32)?);
            d.emit_to(run, dst, |i| (i.a, i.b) = (a, b));
            Ok(())
        }
        Mnemonic::Getctarank => {
            x.count(2, 2)?;
            let width = class(x.ty()?)?;
            let run: Handler = if width == Class::B64 {
                getctarank::<u64>
            } else {
                getctarank::<u32>
            };
            let dst = d.dst(&x.ops[0], Class::B32)?;
            let a = d.src(&x.ops[1], width)?;
            d.emit_to(run, dst, |i| i.a = a);
            Ok(())
        }
        Mnemonic::Createpolicy => {
            // A cache policy changes no result; any value is one.
            let dst = d.dst(x.op(0)?, Class::B64)?;
            let zero = d.constant64(0);
            d.emit_to(one::<Move<u64>>, dst, |i| i.a = zero);
            Ok(())
        }
        Mnemonic::Discard => {
            // Counts as a write of undefined values; the old ones are such.
            d.emit(nothing, |_| {});
            Ok(())
        }
        _ => {
            // Prefetches and priorities are hints; bad addresses are harmless.
            d.emit(nothing, |_| {});
            Ok(())
        }
    }
}

fn decode_mov<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    x.count(2, 2)?;
    let ty = x.ty()?;
    let width = class(ty)?;
    if let OperandKind::Vector(parts) = &x.ops[1].kind
        && parts.len() > 1
    {
        let (part, is_byte) = part_class(width, parts.len())?;
        let slots = parts
            .iter()
            .map(|p| d.src(p, part))
            .collect::<Result<Vec<_>, _>>()?;
        let side = d.list(slots);
        let dst = d.dst(&x.ops[0], width)?;
        let run: Handler = match (part, width) {
            (_, Class::B16) if is_byte => pack_bytes::<u16>,
            (_, Class::B32) if is_byte => pack_bytes::<u32>,
            (Class::B16, Class::B32) => pack::<u16, u32>,
            (Class::B16, Class::B64) => pack::<u16, u64>,
            (Class::B32, Class::B64) => pack::<u32, u64>,
            (Class::B32, Class::B128) => pack::<u32, u128>,
            (Class::B64, Class::B128) => pack::<u64, u128>,
            _ => return unsupported("mov of this many parts"),
        };
        d.emit_to(run, dst, |i| i.side = side);
        return Ok(());
    }
    if let OperandKind::Vector(parts) = &x.ops[0].kind
        && parts.len() > 1
    {
        let (part, is_byte) = part_class(width, parts.len())?;
        let slots = parts
            .iter()
            .map(|p| d.dst(p, part))
            .collect::<Result<Vec<_>, _>>()?;
        let a = d.src(&x.ops[1], width)?;
        let side = d.list(slots);
        let run: Handler = match (part, width) {
            (_, Class::B16) if is_byte => unpack_bytes::<u16>,
            (_, Class::B32) if is_byte => unpack_bytes::<u32>,
            (Class::B16, Class::B32) => unpack::<u16, u32>,
            (Class::B16, Class::B64) => unpack::<u16, u64>,
            (Class::B32, Class::B64) => unpack::<u32, u64>,
            (Class::B32, Class::B128) => unpack::<u32, u128>,
            (Class::B64, Class::B128) => unpack::<u64, u128>,
            _ => return unsupported("mov of this many parts"),
        };
        d.emit(run, |i| (i.a, i.side) = (a, side));
        return Ok(());
    }
    if width == Class::Pred {
        let dst = d.dst(&x.ops[0], Class::Pred)?;
        let (a, negated) = d.pred(&x.ops[1])?;
        d.emit_to(move_pred, dst, |i| (i.a, i.imm) = (a, u64::from(negated)));
        return Ok(());
    }
    let dst = d.dst(&x.ops[0], width)?;
    let (found, a) = d.src_any(&x.ops[1], width)?;
    let run: Handler = match (width, found) {
        (Class::B16, Class::B16) => one::<Move<u16>>,
        (Class::B32, Class::B32) => one::<Move<u32>>,
        (Class::B64, Class::B64) => one::<Move<u64>>,
        (Class::B128, Class::B128) => one::<Move<u128>>,
        // Special registers of 64 bits read as 32, and the reverse.
        (Class::B32, Class::B64) => narrow,
        (Class::B64, Class::B32) => widen,
        _ => return malformed("mov between registers of different sizes"),
    };
    d.emit_to(run, dst, |i| i.a = a);
    Ok(())
}

fn narrow(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let row = warp.row::<u64>(context, inst.a).map(|x| x as u32);
    warp.set_row(inst.d, mask, &row);
    Flow::Next
}

fn widen(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let row = warp.row::<u32>(context, inst.a).map(u64::from);
    warp.set_row(inst.d, mask, &row);
    Flow::Next
}

/// Zero-extends 32 bits to 64.
pub(crate) const WIDEN: Handler = widen;

/// The registers that parts of a value lie in, and whether the parts have 8 bits.
fn part_class(width: Class, parts: usize) -> Result<(Class, bool), Problem> {
    Ok(match width.bytes() as usize / parts.max(1) {
        1 => (Class::B16, true),
        2 => (Class::B16, false),
        4 => (Class::B32, false),
        8 => (Class::B64, false),
        _ => return unsupported("mov of parts of this size"),
    })
}

fn decode_cvta<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    x.count(2, 2)?;
    if x.ty()? != Type::U64 {
        return unsupported("32-bit generic addresses");
    }
    let dst = d.dst(&x.ops[0], Class::B64)?;
    let a = d.src(&x.ops[1], Class::B64)?;
    let window = match crate::engine::decode::space(x) {
        Some(SpaceTag::Shared | SpaceTag::SharedCluster) => SHARED_WINDOW,
        Some(SpaceTag::Local) => LOCAL_WINDOW,
        Some(SpaceTag::Parameter) => PARAM_WINDOW,
        _ => 0,
    };
    if window == 0 {
        d.emit_to(one::<Move<u64>>, dst, |i| i.a = a);
    } else {
        let by = d.constant64(if x.has(Modifier::To) {
            window.wrapping_neg()
        } else {
            window
        });
        d.emit_to(two::<Add<u64>>, dst, |i| (i.a, i.b) = (a, by));
    }
    Ok(())
}
