//! `cp.async`: copies from global to shared memory (PTX ISA 9.7.9.25).
//!
//! A copy is done where it is issued. Programs may not look at the
//! destination before they waited, so that one order is as good as another;
//! waiting is then nothing.

use super::memory::same_class;
use crate::engine::access::{addresses, fail_lane, load_generic};
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, SpaceTag, malformed, unsupported};
use crate::engine::inst::{Class, Flow, Handler, Inst, NONE};
use crate::engine::lanes::{Raw, lanes};
use crate::engine::warp::Warp;
use crate::mapping::LANES;
use ptx::OperandKind;

/// Modifiers that change no result: caching and prefetch sizes.
const KNOWN: &[&str] =
    &["async", "ca", "cg", "shared", "shared::cta", "global", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"];

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    if x.has("commit_group") || x.has("wait_group") || x.has("wait_all") {
        d.emit(nothing, |_| {});
        return Ok(());
    }
    if x.has("bulk") || x.has("mbarrier") {
        return unsupported("instruction");
    }
    x.only(KNOWN)?;
    x.count(3, 5)?;
    // The last operand is the cache policy if the opcode says so; what is
    // left beyond three is the source's size.
    let operands = x.ops.len() - usize::from(x.has("L2::cache_hint"));
    let to = d.address(&x.ops[0], Some(SpaceTag::Shared))?;
    let from = d.address(&x.ops[1], Some(SpaceTag::Global))?;
    let class = match x.ops[2].kind {
        OperandKind::Integer(4) => Class::B32,
        OperandKind::Integer(8) => Class::B64,
        OperandKind::Integer(16) => Class::B128,
        _ => return malformed("cp.async copies 4, 8 or 16 bytes"),
    };
    let value = d.register(class);
    let load: Handler = if operands > 3 {
        match class {
            Class::B32 => partial::<u32>,
            Class::B64 => partial::<u64>,
            _ => partial::<u128>,
        }
    } else {
        same_class::<true>(class).ok_or_else(|| Problem::Malformed("size of cp.async".into()))?
    };
    // A predicate here (`ignore-src`) is refused as no 32-bit register.
    let size = if operands > 3 { d.src(&x.ops[3], Class::B32)? } else { NONE };
    d.emit(load, |i| (i.d, i.a, i.imm, i.side, i.b) = (value, from.slot, from.offset as u64, from.tag(), size));
    let store = same_class::<false>(class).ok_or_else(|| Problem::Malformed("size of cp.async".into()))?;
    let index = d.emit(store, |i| (i.d, i.a, i.imm, i.side) = (value, to.slot, to.offset as u64, to.tag()));
    d.out.code[index].counted = false;
    Ok(())
}

fn nothing(_: &mut Warp, _: &mut Context<'_>, _: &Inst, _: u32) -> Flow {
    Flow::Next
}

/// Reads as many bytes as register `b` says, at most all; the rest is zero.
fn partial<T: Raw>(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let from = addresses(warp, context, inst);
    let sizes = *warp.row::<u32>(context, inst.b);
    let mut values = [T::default(); LANES];
    for lane in lanes(mask) {
        let mut value = 0u128;
        for byte in 0..sizes[lane].min(size_of::<T>() as u32) {
            match load_generic::<u8>(warp, context, lane, from[lane].wrapping_add(u64::from(byte))) {
                Ok(bits) => value |= u128::from(bits) << (byte * 8),
                Err(fault) => return fail_lane(warp, context, inst, lane, fault),
            }
        }
        values[lane] = T::from_u128(value);
    }
    warp.set_row(inst.d, mask, &values);
    Flow::Next
}
