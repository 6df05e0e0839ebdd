//! `alloca`, `stacksave` and `stackrestore`: local memory of a size that is
//! only known at run time (PTX ISA, 9.7.17).
//!
//! A function's allocations lie above its frame and are freed with it. All
//! lanes that execute together allocate the largest size that any of them
//! requests, so that frames of later calls start at the same offset in every
//! lane.

use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, malformed};
use crate::engine::fault::FaultKind;
use crate::engine::inst::{Class, Flow, Handler, Inst};
use crate::engine::lanes::{Raw, lanes};
use crate::engine::warp::Warp;
use crate::mapping::LANES;
use ptx::{Mnemonic, OperandKind};

/// What every object on the stack is aligned to at least.
const ALIGN: u64 = 16;

/// End of the frame without what was taken.
fn fixed_end(warp: &Warp, context: &Context<'_>) -> u64 {
    let function = &context.program.functions[warp.frame.function as usize];
    u64::from(warp.frame.local) + u64::from(function.local_size)
}

fn alloca<R: Raw>(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let sizes = *warp.row::<R>(context, inst.a);
    let most = lanes(mask).map(|lane| sizes[lane].to_u64()).max();
    let fixed = fixed_end(warp, context);
    let start = (fixed + u64::from(warp.frame.taken)).next_multiple_of(inst.imm);
    let end = most
        .and_then(|size| start.checked_add(size))
        .and_then(|end| end.checked_next_multiple_of(ALIGN));
    let taken = end.and_then(|end| Some((end, u32::try_from(end - fixed).ok()?)));
    let Some((_, taken)) = taken.filter(|(end, _)| warp.grow_local(*end, context.launch.residue))
    else {
        return context.fail(
            warp,
            mask,
            FaultKind::StackOverflow,
            0,
            format!("stack overflow: alloca of {} bytes", most.unwrap_or(0)),
        );
    };
    warp.frame.taken = taken;
    warp.set_row(inst.d, mask, &[R::from_u64(start); LANES]);
    Flow::Next
}

fn save<R: Raw>(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let end = fixed_end(warp, context) + u64::from(warp.frame.taken);
    warp.set_row(inst.d, mask, &[R::from_u64(end); LANES]);
    Flow::Next
}

fn restore<R: Raw>(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let ends = *warp.row::<R>(context, inst.a);
    let fixed = fixed_end(warp, context);
    let most = lanes(mask).map(|lane| ends[lane].to_u64()).max();
    // Back to what `stacksave` gave, which is never more than there is.
    let taken = most.unwrap_or(fixed).saturating_sub(fixed);
    warp.frame.taken = warp
        .frame
        .taken
        .min(u32::try_from(taken).unwrap_or(u32::MAX));
    Flow::Next
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let width = Class::of(x.ty()?);
    let wide = match width {
        Some(Class::B64) => true,
        Some(Class::B32) => false,
        _ => return malformed("the stack has 32-bit or 64-bit addresses"),
    };
    let width = if wide { Class::B64 } else { Class::B32 };
    match x.mnemonic {
        Mnemonic::Alloca => {
            x.count(2, 3)?;
            let run: Handler = if wide { alloca::<u64> } else { alloca::<u32> };
            let align = match x.ops.get(2).map(|operand| &operand.kind) {
                Some(OperandKind::Integer(align)) => *align as u64,
                Some(_) => return malformed("alloca aligns to a constant"),
                None => ALIGN,
            };
            if !align.is_power_of_two() || align > 1 << 20 {
                return malformed(format!("alloca cannot align to {align}"));
            }
            let dst = d.dst(&x.ops[0], width)?;
            let a = d.src(&x.ops[1], width)?;
            d.emit_to(run, dst, |i| (i.a, i.imm) = (a, align.max(ALIGN)));
        }
        Mnemonic::Stacksave => {
            x.count(1, 1)?;
            let run: Handler = if wide { save::<u64> } else { save::<u32> };
            let dst = d.dst(&x.ops[0], width)?;
            d.emit_to(run, dst, |_| {});
        }
        _ => {
            x.count(1, 1)?;
            let run: Handler = if wide { restore::<u64> } else { restore::<u32> };
            let a = d.src(&x.ops[0], width)?;
            d.emit(run, |i| i.a = a);
        }
    }
    Ok(())
}
