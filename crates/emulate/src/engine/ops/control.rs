//! Branches, calls, returns, exits, traps (PTX ISA 9.7.12).

use super::runtime;
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, Symbol, malformed, unsupported};
use crate::engine::fault::FaultKind;
use crate::engine::inst::{Class, Flow, Handler, Inst};
use crate::engine::lanes::lanes;
use crate::engine::program::{Builtin, CallSite, Callee, FUNCTION_ADDRESSES, Place};
use crate::engine::warp::{Caller, Frame, Warp};
use ptx::{Mnemonic, Operand, OperandKind};

/// Calls nested deeper than this overflow the stack.
const DEEPEST: usize = 2048;

/// `ret`
pub(crate) const RET: Handler = ret;
/// Stands for an instruction that this device cannot execute; `imm` is the
/// index of the reason.
pub(crate) const UNSUPPORTED: Handler = not_supported;

fn bra(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    warp.branch(context, mask, inst.imm as u32)
}

/// Branch to the element of a list that each lane's index names.
fn brx(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let row = *warp.row::<u32>(context, inst.a);
    let (group, index) = same_as_first(mask, |lane| row[lane]);
    let program = context.program;
    let Some(&target) = program.lists[inst.side as usize].get(index as usize) else {
        return context.fail(
            warp,
            group,
            FaultKind::InvalidProgramCounter,
            u64::from(index),
            format!("brx.idx with index {index} beyond its targets"),
        );
    };
    // Lanes with other indices execute this instruction again.
    warp.fork(context, mask & !group, warp.current.pc);
    warp.branch(context, group, target)
}

/// The lanes whose value is that of the lowest lane, and the value.
fn same_as_first<T: PartialEq + Copy>(mask: u32, value: impl Fn(usize) -> T) -> (u32, T) {
    let first = value(mask.trailing_zeros() as usize % 32);
    (
        lanes(mask)
            .filter(|&lane| value(lane) == first)
            .fold(0, |m, lane| m | 1 << lane),
        first,
    )
}

fn exit(warp: &mut Warp, context: &mut Context<'_>, _: &Inst, mask: u32) -> Flow {
    warp.exit(context, mask)
}

fn trap(warp: &mut Warp, context: &mut Context<'_>, _: &Inst, mask: u32) -> Flow {
    context.fail(warp, mask, FaultKind::Trap, 0, "trap".into())
}

fn not_supported(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let what = context.info.opcodes[inst.imm as usize].clone();
    context.fail(
        warp,
        mask,
        FaultKind::Unsupported,
        0,
        format!("not supported by the CPU device: {what}"),
    )
}

fn ret(warp: &mut Warp, context: &mut Context<'_>, _: &Inst, mask: u32) -> Flow {
    if warp.current.stack.is_empty() {
        return warp.exit(context, mask);
    }
    warp.fork(context, warp.current.mask & !mask, warp.current.pc + 1);
    let Some(caller) = warp.current.stack.pop() else {
        return Flow::Next;
    };
    let callee = warp.frame;
    let program = context.program;
    let returns = &program.functions[callee.function as usize].returns;
    let results = &program.sites[caller.site as usize].results;
    copy(
        warp,
        context,
        mask,
        (returns, callee),
        (results, caller.frame),
    );
    warp.frame = caller.frame;
    warp.current.pc = caller.return_pc;
    if warp.others.is_empty() {
        Flow::Jump
    } else {
        Flow::Switch
    }
}

fn call(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let program = context.program;
    let site = &program.sites[inst.imm as usize];
    let (group, function) = match site.callee {
        Callee::Function(index) => (mask, index),
        Callee::Builtin(builtin) => return runtime::call(warp, context, site, builtin, mask),
        Callee::Address(slot) => {
            let row = *warp.row::<u64>(context, slot);
            let (group, address) = same_as_first(mask, |lane| row[lane]);
            let offset = address.wrapping_sub(FUNCTION_ADDRESSES);
            if offset % 16 != 0
                || offset / 16 >= program.functions.len() as u64
                || program.functions[(offset / 16) as usize].is_entry
            {
                return context.fail(
                    warp,
                    group,
                    FaultKind::InvalidProgramCounter,
                    address,
                    format!("call of {address:#x}, which is no function"),
                );
            }
            (group, (offset / 16) as u32)
        }
    };
    let pc = warp.current.pc;
    // Lanes that call another function execute this instruction again; lanes
    // that call none continue.
    warp.fork(context, mask & !group, pc);
    warp.fork(context, warp.current.mask & !group, pc + 1);
    let caller = warp.frame;
    let from = &program.functions[caller.function as usize];
    let to = &program.functions[function as usize];
    let frame = Frame {
        base: caller.base.plus(from.counts),
        local: caller.local + from.local_size + caller.taken,
        taken: 0,
        function,
    };
    if warp.current.stack.len() >= DEEPEST
        || !warp.grow_local(
            u64::from(frame.local) + u64::from(to.local_size),
            context.launch.residue,
        )
    {
        let depth = warp.current.stack.len();
        return context.fail(
            warp,
            group,
            FaultKind::StackOverflow,
            0,
            format!("stack overflow, {depth} calls deep"),
        );
    }
    let residue = context.launch.residue;
    warp.rows.grow(frame.base.plus(to.counts), residue);
    copy(
        warp,
        context,
        group,
        (&site.arguments, caller),
        (&to.parameters, frame),
    );
    warp.current.stack.push(Caller {
        return_pc: pc + 1,
        site: inst.imm as u32,
        frame: caller,
    });
    warp.frame = frame;
    warp.current.pc = to.start;
    warp.recompute_limit(context);
    Flow::Jump
}

/// Copy values between the places of two frames.
fn copy(
    warp: &mut Warp,
    context: &Context<'_>,
    mask: u32,
    (from, from_frame): (&[Place], Frame),
    (to, to_frame): (&[Place], Frame),
) {
    for (&from, &to) in from.iter().zip(to) {
        match (from, to) {
            (
                Place::Frame { offset: a, size },
                Place::Frame {
                    offset: b,
                    size: room,
                },
            ) => {
                let mut bytes = [0u8; 256];
                for lane in lanes(mask) {
                    let lane = lane as u64 * warp.stride;
                    let mut done = 0;
                    let size = size.min(room);
                    while done < size {
                        let part = &mut bytes[..(size - done).min(256) as usize];
                        let source = lane + u64::from(from_frame.local + a + done);
                        let target = lane + u64::from(to_frame.local + b + done);
                        // Both frames are within the stride: calls grow it.
                        if warp
                            .local
                            .read(source, part)
                            .and_then(|()| warp.local.write(target, part))
                            .is_err()
                        {
                            return;
                        }
                        done += part.len() as u32;
                    }
                }
            }
            (Place::Register { class, slot: a }, Place::Register { slot: b, .. }) => {
                warp.frame = from_frame;
                match class {
                    Class::Pred => {
                        let value = warp.pred(context, a);
                        warp.frame = to_frame;
                        warp.set_pred(b, mask, value);
                    }
                    Class::B16 => copy_row::<u16>(warp, context, mask, a, to_frame, b),
                    Class::B32 => copy_row::<u32>(warp, context, mask, a, to_frame, b),
                    Class::B64 => copy_row::<u64>(warp, context, mask, a, to_frame, b),
                    Class::B128 => copy_row::<u128>(warp, context, mask, a, to_frame, b),
                }
                warp.frame = from_frame;
            }
            // The decoder refuses calls that mix the two.
            _ => {}
        }
    }
}

fn copy_row<R: crate::engine::lanes::Raw>(
    warp: &mut Warp,
    context: &Context<'_>,
    mask: u32,
    from: u32,
    to_frame: Frame,
    to: u32,
) {
    let row = *warp.row::<R>(context, from);
    warp.frame = to_frame;
    warp.set_row(to, mask, &row);
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    match x.mnemonic {
        Mnemonic::Bra => match x.op(0)?.kind {
            OperandKind::Name(label) => d.emit_branch(bra, label),
            _ => malformed("bra without a label"),
        },
        Mnemonic::Brx => {
            x.count(2, 2)?;
            let a = d.src(&x.ops[0], Class::B32)?;
            let OperandKind::Name(list) = x.ops[1].kind else {
                return malformed("brx.idx without its target list");
            };
            let Some(targets) = d.targets(list) else {
                return malformed(format!("target list {list} is not defined"));
            };
            let side = d.label_list(&targets)?;
            d.emit(brx, |i| (i.a, i.side) = (a, side));
            Ok(())
        }
        Mnemonic::Ret => {
            d.emit(ret, |_| {});
            Ok(())
        }
        Mnemonic::Exit => {
            d.emit(exit, |_| {});
            Ok(())
        }
        Mnemonic::Trap | Mnemonic::Brkpt => {
            d.emit(trap, |_| {});
            Ok(())
        }
        _ => decode_call(d, x),
    }
}

fn decode_call<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let mut rest = x.ops;
    let mut results = &[][..];
    if let Some((
        Operand {
            kind: OperandKind::List(list),
            ..
        },
        after,
    )) = rest.split_first()
    {
        (results, rest) = (list, after);
    }
    let Some((callee, rest)) = rest.split_first() else {
        return malformed("call without a callee");
    };
    let OperandKind::Name(name) = callee.kind else {
        return malformed("call of something that is no name");
    };
    let arguments = match rest.first() {
        Some(Operand {
            kind: OperandKind::List(list),
            ..
        }) => &list[..],
        _ => &[],
    };
    let callee = match d.find(name) {
        Some(Symbol::Function(index)) => Callee::Function(index),
        Some(Symbol::Register {
            class: Class::B64,
            slot,
        }) => Callee::Address(slot),
        Some(_) => return malformed(format!("{name} cannot be called")),
        None => match Builtin::by_name(name) {
            Some(builtin) => Callee::Builtin(builtin),
            // Of the device runtime, not all is here.
            None if name.to_ascii_lowercase().contains("cuda") => {
                return unsupported(format!("call of {name}"));
            }
            None => return d.undefined(format!("call of {name}, which no part defines")),
        },
    };
    let places = |d: &mut Decoder<'a>, list: &'a [Operand<'a>]| {
        list.iter()
            .map(|operand| match operand.kind {
                OperandKind::Name("_") | OperandKind::Sink => {
                    let slot = d.register(Class::B32);
                    Ok(Place::Register {
                        class: Class::B32,
                        slot,
                    })
                }
                OperandKind::Name(name) => match d.find(name) {
                    Some(Symbol::Frame { offset, size }) => Ok(Place::Frame { offset, size }),
                    Some(Symbol::Register { class, slot }) => Ok(Place::Register { class, slot }),
                    _ => malformed(format!("{name} cannot be passed to a function")),
                },
                _ => {
                    let slot = d.src(operand, Class::B32)?;
                    Ok(Place::Register {
                        class: Class::B32,
                        slot,
                    })
                }
            })
            .collect::<Result<Vec<_>, Problem>>()
    };
    let (results, arguments) = (places(d, results)?, places(d, arguments)?);
    let site = d.call_site(CallSite {
        callee,
        arguments,
        results,
    });
    d.emit(call, |i| i.imm = u64::from(site));
    Ok(())
}
