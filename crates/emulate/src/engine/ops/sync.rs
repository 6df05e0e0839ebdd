//! Instructions in which the lanes of a warp exchange values: shuffles,
//! votes, matches, reductions, warp barriers (PTX ISA 9.7.9.6, 9.7.13).
//!
//! A `.sync` form waits until all lanes named by its mask, other than those
//! that have exited, have reached it.

use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, class, malformed, unsupported};
use crate::engine::inst::{Class, Flow, Handler, Inst, NONE};
use crate::engine::lanes::{Raw, lanes};
use crate::engine::warp::{Wait, Warp};
use crate::mapping::LANES;
use ptx::{Mnemonic, Modifier, Type};

/// The lanes that execute this `.sync` instruction together now; the other
/// lanes, and all if some are missing, are set aside. `member` is the slot
/// with the mask; [`NONE`]: the forms without one, for the lanes at hand.
pub(crate) fn gather_lanes(
    warp: &mut Warp,
    context: &Context<'_>,
    member: u32,
    mask: u32,
) -> Result<u32, Flow> {
    if member == NONE {
        return Ok(mask);
    }
    let row = warp.row::<u32>(context, member);
    let members = row[mask.trailing_zeros() as usize % LANES];
    let group = lanes(mask)
        .filter(|&lane| row[lane] == members)
        .fold(0, |m, lane| m | 1 << lane);
    let pc = warp.current.pc;
    // Lanes with other masks execute this instruction separately.
    warp.fork(context, mask & !group, pc);
    let missing = members & warp.alive & !group;
    if missing == 0 {
        return Ok(group);
    }
    if missing & !warp.waiting_here(members) == 0 {
        warp.join_waiting(members);
        return Ok(group | missing);
    }
    warp.fork(context, warp.current.mask & !group, pc + 1);
    warp.fork_waiting(context, group, pc, Wait::Lanes(members));
    Err(Flow::Switch)
}

/// `bar.warp.sync`: lanes may reach it at different instructions.
fn warp_barrier(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let row = *warp.row::<u32>(context, inst.a);
    let members = row[mask.trailing_zeros() as usize % LANES];
    let pc = warp.current.pc;
    let group = lanes(mask)
        .filter(|&lane| row[lane] == members)
        .fold(0, |m, lane| m | 1 << lane);
    warp.fork(context, mask & !group, pc);
    let there = warp
        .others
        .iter()
        .filter(|o| o.wait == Wait::Warp(members))
        .fold(0, |m, o| m | o.mask);
    if members & warp.alive & !group & !there != 0 {
        warp.fork(context, warp.current.mask & !group, pc + 1);
        warp.fork_waiting(context, group, pc + 1, Wait::Warp(members));
        return Flow::Switch;
    }
    if there == 0 {
        return Flow::Next;
    }
    for other in warp
        .others
        .iter_mut()
        .filter(|o| o.wait == Wait::Warp(members))
    {
        other.wait = Wait::Nothing;
    }
    warp.current.pc = pc + 1;
    Flow::Switch
}

/// Shuffle modes, in `imm`.
const UP: u64 = 0;
const DOWN: u64 = 1;
const BUTTERFLY: u64 = 2;
const INDEX: u64 = 3;

fn shuffle(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.side, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let a = *warp.row::<u32>(context, inst.a);
    let b = *warp.row::<u32>(context, inst.b);
    let c = *warp.row::<u32>(context, inst.c);
    let mut row = [0; LANES];
    let mut inside = 0;
    for lane in 0..LANES {
        let own = lane as i32;
        let (by, clamp, segment) = (
            (b[lane] & 31) as i32,
            (c[lane] & 31) as i32,
            (c[lane] >> 8 & 31) as i32,
        );
        let most = own & segment | clamp & !segment;
        let least = own & segment;
        let (source, valid) = match inst.imm {
            UP => (own - by, own - by >= most),
            DOWN => (own + by, own + by <= most),
            BUTTERFLY => (own ^ by, (own ^ by) <= most),
            _ => (least | (by & !segment), (least | (by & !segment)) <= most),
        };
        row[lane] = a[if valid { source as usize % LANES } else { lane }];
        inside |= u32::from(valid) << lane;
    }
    warp.set_row::<u32>(inst.d, group, &row);
    warp.set_pred(inst.e, group, inside);
    Flow::Next
}

/// Vote modes, in `imm`.
const ALL: u64 = 0;
const ANY: u64 = 1;
const UNIFORM: u64 = 2;
const BALLOT: u64 = 3;
/// The predicate is negated.
const NOT: u64 = 1 << 8;

fn vote(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.side, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let bits =
        (warp.pred(context, inst.a) ^ if inst.imm & NOT != 0 { u32::MAX } else { 0 }) & group;
    let set = |holds: bool| if holds { u32::MAX } else { 0 };
    match inst.imm & 0xff {
        ALL => warp.set_pred(inst.d, group, set(bits == group)),
        ANY => warp.set_pred(inst.d, group, set(bits != 0)),
        UNIFORM => warp.set_pred(inst.d, group, set(bits == 0 || bits == group)),
        _ => warp.set_row::<u32>(inst.d, group, &[bits; LANES]),
    }
    Flow::Next
}

fn match_values<R: Raw, const ALL_EQUAL: bool>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let group = match gather_lanes(warp, context, inst.side, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let values = *warp.row::<R>(context, inst.a);
    let equal_to = |lane: usize| {
        lanes(group)
            .filter(|&other| values[other] == values[lane])
            .fold(0u32, |m, other| m | 1 << other)
    };
    let mut row = [0; LANES];
    if ALL_EQUAL {
        let all = equal_to(group.trailing_zeros() as usize % LANES) == group;
        row = [if all { group } else { 0 }; LANES];
        warp.set_pred(inst.e, group, if all { u32::MAX } else { 0 });
    } else {
        for lane in lanes(group) {
            row[lane] = equal_to(lane);
        }
    }
    warp.set_row::<u32>(inst.d, group, &row);
    Flow::Next
}

fn reduce(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.side, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let values = *warp.row::<u32>(context, inst.a);
    let f = |a: u32, b: u32| match inst.imm {
        0 => a.wrapping_add(b),
        1 => a & b,
        2 => a | b,
        3 => a ^ b,
        4 => a.min(b),
        5 => a.max(b),
        6 => (a as i32).min(b as i32) as u32,
        _ => (a as i32).max(b as i32) as u32,
    };
    let result = lanes(group).map(|lane| values[lane]).reduce(f).unwrap_or(0);
    warp.set_row::<u32>(inst.d, group, &[result; LANES]);
    Flow::Next
}

fn active_mask(warp: &mut Warp, _: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    warp.set_row::<u32>(inst.d, mask, &[mask; LANES]);
    Flow::Next
}

/// `elect.sync`: the lowest lane of the mask leads.
fn elect(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.side, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let leader = group.trailing_zeros() % 32;
    warp.set_row::<u32>(inst.d, group, &[leader; LANES]);
    warp.set_pred(inst.e, group, 1 << leader);
    Flow::Next
}

pub(crate) fn decode_warp_barrier<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    x.count(1, 1)?;
    let a = d.src(&x.ops[0], Class::B32)?;
    d.emit(warp_barrier, |i| i.a = a);
    Ok(())
}

#[expect(clippy::too_many_lines, reason = "a table: an arm for each opcode")]
pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let synchronous = x.has(Modifier::Sync);
    let member = |d: &mut Decoder<'a>, index: usize| {
        if synchronous {
            d.src(x.op(index)?, Class::B32)
        } else {
            Ok(NONE)
        }
    };
    match x.mnemonic {
        Mnemonic::Shfl => {
            let mode =
                match x.mods.iter().find(|m| {
                    [Modifier::Up, Modifier::Down, Modifier::Bfly, Modifier::Idx].contains(m)
                }) {
                    Some(Modifier::Up) => UP,
                    Some(Modifier::Down) => DOWN,
                    Some(Modifier::Bfly) => BUTTERFLY,
                    Some(_) => INDEX,
                    None => return malformed("shfl without its mode"),
                };
            x.count(4, 5)?;
            let (dst, p) = d.dst_pair(&x.ops[0], Class::B32, Class::Pred)?;
            let (a, b, c) = (
                d.src(&x.ops[1], Class::B32)?,
                d.src(&x.ops[2], Class::B32)?,
                d.src(&x.ops[3], Class::B32)?,
            );
            let side = member(d, 4)?;
            d.emit(shuffle, |i| {
                (i.d, i.e, i.a, i.b, i.c, i.imm, i.side) = (dst, p, a, b, c, mode, side)
            });
        }
        Mnemonic::Vote => {
            let mode = match x.mods.iter().find(|m| {
                [
                    Modifier::All,
                    Modifier::Any,
                    Modifier::Uni,
                    Modifier::Ballot,
                ]
                .contains(m)
            }) {
                Some(Modifier::All) => ALL,
                Some(Modifier::Any) => ANY,
                Some(Modifier::Uni) => UNIFORM,
                Some(_) => BALLOT,
                None => return malformed("vote without its mode"),
            };
            x.count(2, 3)?;
            let dst = d.dst(
                &x.ops[0],
                if mode == BALLOT {
                    Class::B32
                } else {
                    Class::Pred
                },
            )?;
            let (a, negated) = d.pred(&x.ops[1])?;
            let side = member(d, 2)?;
            d.emit(vote, |i| {
                (i.d, i.a, i.imm, i.side) = (dst, a, mode | if negated { NOT } else { 0 }, side)
            });
        }
        Mnemonic::Match => {
            x.count(3, 3)?;
            let width = class(x.ty()?)?;
            let all = x.has(Modifier::All);
            let run: Handler = match (width, all) {
                (Class::B32, false) => match_values::<u32, false>,
                (Class::B64, false) => match_values::<u64, false>,
                (Class::B32, true) => match_values::<u32, true>,
                (Class::B64, true) => match_values::<u64, true>,
                _ => return unsupported("match of this type"),
            };
            let (dst, p) = d.dst_pair(&x.ops[0], Class::B32, Class::Pred)?;
            let a = d.src(&x.ops[1], width)?;
            let side = member(d, 2)?;
            d.emit(run, |i| (i.d, i.e, i.a, i.side) = (dst, p, a, side));
        }
        Mnemonic::Redux => {
            x.count(3, 3)?;
            let signed = x.ty()? == Type::S32;
            if !matches!(x.ty()?, Type::U32 | Type::S32 | Type::B32) {
                return unsupported("reduction of this type");
            }
            let imm = match x.mods.iter().find(|m| {
                [
                    Modifier::Add,
                    Modifier::And,
                    Modifier::Or,
                    Modifier::Xor,
                    Modifier::Min,
                    Modifier::Max,
                ]
                .contains(m)
            }) {
                Some(Modifier::Add) => 0,
                Some(Modifier::And) => 1,
                Some(Modifier::Or) => 2,
                Some(Modifier::Xor) => 3,
                Some(Modifier::Min) if signed => 6,
                Some(Modifier::Max) if signed => 7,
                Some(Modifier::Min) => 4,
                Some(_) => 5,
                None => return malformed("redux without its operation"),
            };
            let dst = d.dst(&x.ops[0], Class::B32)?;
            let a = d.src(&x.ops[1], Class::B32)?;
            let side = member(d, 2)?;
            d.emit(reduce, |i| (i.d, i.a, i.imm, i.side) = (dst, a, imm, side));
        }
        Mnemonic::Activemask => {
            let dst = d.dst(x.op(0)?, Class::B32)?;
            d.emit_to(active_mask, dst, |_| {});
        }
        _ => {
            x.count(2, 2)?;
            let (dst, p) = d.dst_pair(&x.ops[0], Class::B32, Class::Pred)?;
            let side = member(d, 1)?;
            d.emit(elect, |i| (i.d, i.e, i.side) = (dst, p, side));
        }
    }
    Ok(())
}
