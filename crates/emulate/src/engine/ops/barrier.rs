//! Barriers of block, warp and cluster; fences; `nanosleep` (PTX ISA 9.7.13).

use super::sync;
use crate::engine::context::{BARRIERS, Context};
use crate::engine::decode::{Decoder, Ins, Problem, malformed, unsupported};
use crate::engine::fault::FaultKind;
use crate::engine::inst::{Class, Flow, Handler, Inst, NONE};
use crate::engine::warp::{Wait, Warp};
use crate::mapping::full_fence;
use ptx::{Mnemonic, Modifier};

/// What arrives at a barrier does; in `imm`.
const SYNC: u64 = 0;
const ARRIVE: u64 = 1;
const RED: u64 = 2;
/// The predicate of `bar.red` is negated.
const NOT: u64 = 1 << 8;
/// Where its operation is: 0 popc, 1 and, 2 or.
const OPERATION: u32 = 9;

fn block_barrier(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let lane = mask.trailing_zeros() as usize % 32;
    let id = warp.row::<u32>(context, inst.a)[lane];
    let threads = if inst.b == NONE {
        0
    } else {
        warp.row::<u32>(context, inst.b)[lane]
    };
    if id as usize >= BARRIERS {
        return context.fail(
            warp,
            mask,
            FaultKind::InvalidAddressSpace,
            u64::from(id),
            format!("barrier {id} does not exist"),
        );
    }
    let kind = inst.imm & 0xff;
    let predicate = warp.pred(context, inst.c) ^ if inst.imm & NOT != 0 { u32::MAX } else { 0 };
    let index = warp.index as usize;
    let block = context.block_mut();
    let barrier = &mut block.barriers[id as usize];
    // (PTX ISA, `barrier`: "execution in this case is unpredictable". An H200 ends the
    // context where other warps have another operation.)
    let operation = match kind {
        RED => 1 + (inst.imm >> OPERATION),
        _ => 0,
    };
    let mut warps = barrier.arrived.iter().enumerate();
    let has_others = warps.any(|(warp, lanes)| warp != index && *lanes != 0);
    if has_others && barrier.operation != Some(operation) {
        let what = format!("warps are at barrier {id} with different operations");
        let kind = FaultKind::IllegalInstruction;
        return context.fail(warp, mask, kind, u64::from(id), what);
    }
    barrier.operation = Some(operation);
    barrier.arrived[index] |= mask;
    barrier.threads = threads;
    if kind == RED {
        barrier.count += (predicate & mask).count_ones();
        barrier.total += mask.count_ones();
    }
    let phase = barrier.phase;
    block.complete(id as usize);
    let completed = block.barriers[id as usize].phase != phase;
    if kind == ARRIVE {
        return Flow::Next;
    }
    let pc = warp.current.pc;
    if completed {
        // Splits of this warp that waited can go on, and join.
        if warp.others.is_empty() {
            return Flow::Next;
        }
        warp.current.pc = pc + 1;
        return Flow::Switch;
    }
    warp.fork(context, warp.current.mask & !mask, pc + 1);
    warp.fork_waiting(context, mask, pc + 1, Wait::Barrier { id, phase });
    Flow::Switch
}

/// The result of the `bar.red` that completed last. `imm`: 0 popc, 1 and, 2 or.
fn block_result(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let lane = mask.trailing_zeros() as usize % 32;
    let id = warp.row::<u32>(context, inst.a)[lane] as usize % BARRIERS;
    let (count, total) = context.block().barriers[id].result;
    let set = |holds: bool| if holds { u32::MAX } else { 0 };
    match inst.imm {
        0 => warp.set_row::<u32>(inst.d, mask, &[count; 32]),
        1 => warp.set_pred(inst.d, mask, set(count == total)),
        _ => warp.set_pred(inst.d, mask, set(count != 0)),
    }
    Flow::Next
}

fn cluster_arrive(warp: &mut Warp, context: &mut Context<'_>, _: &Inst, mask: u32) -> Flow {
    let rank = context.block().rank as usize;
    context.cluster_barrier.arrived[rank][warp.index as usize] |= mask;
    context.complete_cluster();
    Flow::Next
}

fn cluster_wait(warp: &mut Warp, context: &mut Context<'_>, _: &Inst, mask: u32) -> Flow {
    let rank = context.block().rank as usize;
    let pending = context.cluster_barrier.arrived[rank][warp.index as usize] & mask;
    if pending == 0 {
        return Flow::Next;
    }
    let pc = warp.current.pc;
    let phase = context.cluster_barrier.phase;
    warp.fork(context, warp.current.mask & !mask, pc + 1);
    warp.fork_waiting(context, mask, pc + 1, Wait::Cluster { phase });
    Flow::Switch
}

fn memory_fence(_: &mut Warp, _: &mut Context<'_>, _: &Inst, _: u32) -> Flow {
    full_fence();
    Flow::Next
}

fn nothing(_: &mut Warp, _: &mut Context<'_>, _: &Inst, _: u32) -> Flow {
    Flow::Next
}

fn sleep(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let lane = mask.trailing_zeros() as usize % 32;
    let nanoseconds = warp.row::<u32>(context, inst.a)[lane];
    // A sleeping warp must not keep a core of the host busy: if all warps
    // sleep, the worker sleeps (`Run::run`).
    context.slept = Some(
        context
            .slept
            .map_or(nanoseconds, |least| least.min(nanoseconds)),
    );
    warp.polled = true;
    Flow::Yield
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    match x.mnemonic {
        Mnemonic::Membar => emit(d, memory_fence),
        Mnemonic::Fence => emit(
            d,
            if x.has(Modifier::MbarrierInit) {
                nothing
            } else {
                memory_fence
            },
        ),
        Mnemonic::Nanosleep => {
            x.count(1, 1)?;
            let a = d.src(&x.ops[0], Class::B32)?;
            d.emit(sleep, |i| i.a = a);
            Ok(())
        }
        // A warp has all registers that it names, whatever `setmaxnreg` says.
        Mnemonic::Pmevent | Mnemonic::Griddepcontrol | Mnemonic::Setmaxnreg => emit(d, nothing),
        _ if x.has(Modifier::Warp) => sync::decode_warp_barrier(d, x),
        _ if x.has(Modifier::Cluster) => {
            if x.has(Modifier::Arrive) {
                emit(d, cluster_arrive)
            } else if x.has(Modifier::Wait) {
                emit(d, cluster_wait)
            } else {
                unsupported("barrier of the cluster")
            }
        }
        _ => block(d, x),
    }
}

fn emit(d: &mut Decoder<'_>, run: Handler) -> Result<(), Problem> {
    d.emit(run, |_| {});
    Ok(())
}

fn block<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    if x.has(Modifier::Red) {
        let operation = if x.has(Modifier::Popc) {
            0
        } else if x.has(Modifier::And) {
            1
        } else if x.has(Modifier::Or) {
            2
        } else {
            return malformed("bar.red without its operation");
        };
        x.count(3, 4)?;
        let dst = d.dst(
            &x.ops[0],
            if operation == 0 {
                Class::B32
            } else {
                Class::Pred
            },
        )?;
        let a = d.src(&x.ops[1], Class::B32)?;
        let b = if x.ops.len() == 4 {
            d.src(&x.ops[2], Class::B32)?
        } else {
            NONE
        };
        let (c, negated) = d.pred(&x.ops[x.ops.len() - 1])?;
        d.emit(block_barrier, |i| {
            let not = if negated { NOT } else { 0 };
            (i.a, i.b, i.c, i.imm) = (a, b, c, RED | not | operation << OPERATION);
        });
        let index = d.emit(block_result, |i| (i.d, i.a, i.imm) = (dst, a, operation));
        d.out.code[index].counted = false;
        return Ok(());
    }
    x.count(1, 2)?;
    let kind = if x.has(Modifier::Arrive) {
        ARRIVE
    } else if x.has(Modifier::Sync) {
        SYNC
    } else {
        return unsupported("barrier");
    };
    let a = d.src(&x.ops[0], Class::B32)?;
    let b = if x.ops.len() == 2 {
        d.src(&x.ops[1], Class::B32)?
    } else {
        NONE
    };
    d.emit(block_barrier, |i| (i.a, i.b, i.imm) = (a, b, kind));
    Ok(())
}
