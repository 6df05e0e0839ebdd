//! Asynchronous copies, and the mbarriers that count them (PTX ISA 9.7.9.25,
//! 9.7.13.15). Copies are complete when they are issued, which the ISA allows:
//! groups and proxies then have nothing to wait for.

use crate::engine::access::{load_one, store_one, tag_of, update_one, value_of_tag};
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, SpaceTag, malformed, space, unsupported};
use crate::engine::inst::{Class, Flow, Handler, Inst, NONE};
use crate::engine::lanes::lanes;
use crate::engine::warp::Warp;
use crate::mapping::{AccessFault, LANES};
use ptx::{Modifier, OperandKind};

/// An mbarrier object, in its 64 bits. Programs treat them as opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Barrier {
    /// Arrivals that a phase takes.
    expected: u32,
    /// Arrivals that are still pending.
    pending: u32,
    /// Bytes that are still pending; negative while bytes have arrived before
    /// they were announced.
    bytes: i32,
    /// Phases completed, modulo 4.
    phase: u32,
}

impl Barrier {
    fn unpack(bits: u64) -> Barrier {
        Barrier {
            expected: bits as u32 & 0xf_ffff,
            pending: (bits >> 20) as u32 & 0xf_ffff,
            // Sign-extended from 22 bits.
            bytes: (((bits >> 40) as u32) << 10) as i32 >> 10,
            phase: (bits >> 62) as u32,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.expected & 0xf_ffff)
            | u64::from(self.pending & 0xf_ffff) << 20
            | u64::from(self.bytes as u32 & 0x3f_ffff) << 40
            | u64::from(self.phase & 3) << 62
    }

    fn complete_if_done(mut self) -> Barrier {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.expected;
        }
        self
    }
}

/// What an mbarrier instruction does; in `imm` from bit 32 on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Init = 0,
    Arrive = 1,
    ArriveDrop = 2,
    ArriveExpect = 3,
    Expect = 4,
    CompleteBytes = 5,
    ArriveNoComplete = 6,
}

fn act(action: u64, bits: u64, count: u32) -> u64 {
    let mut b = Barrier::unpack(bits);
    match action {
        0 => {
            b = Barrier {
                expected: count,
                pending: count,
                bytes: 0,
                phase: 0,
            }
        }
        1 | 6 => b.pending = b.pending.saturating_sub(count),
        2 => {
            b.pending = b.pending.saturating_sub(count);
            b.expected = b.expected.saturating_sub(count);
        }
        3 => {
            b.bytes = b.bytes.wrapping_add(count as i32);
            b.pending = b.pending.saturating_sub(1);
        }
        4 => b.bytes = b.bytes.wrapping_add(count as i32),
        _ => b.bytes = b.bytes.wrapping_sub(count as i32),
    }
    if action == 0 || action == 4 {
        b.pack()
    } else {
        b.complete_if_done().pack()
    }
}

fn fail(warp: &Warp, context: &mut Context<'_>, lane: usize, fault: AccessFault) -> Flow {
    context.fail_access(warp, lane, fault, "shared")
}

/// Changes an mbarrier: address in `a`, count or bytes in `b` (absent: 1),
/// the state before to `d`.
fn change(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    warp.polled = true;
    let addresses = *warp.row::<u64>(context, inst.a);
    let counts = if inst.b == NONE {
        [1; LANES]
    } else {
        *warp.row::<u32>(context, inst.b)
    };
    let space = value_of_tag(inst.side);
    for lane in lanes(mask) {
        match update_one::<u64>(warp, context, space, lane, addresses[lane], |bits| {
            act(inst.imm, bits, counts[lane])
        }) {
            Ok(before) if inst.d != NONE => warp.row_mut::<u64>(inst.d)[lane] = before,
            Ok(_) => {}
            Err(fault) => return fail(warp, context, lane, fault),
        }
    }
    Flow::Next
}

/// An mbarrier that is named, and stays as it is: address in `a`.
fn touch(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let addresses = *warp.row::<u64>(context, inst.a);
    let space = value_of_tag(inst.side);
    for lane in lanes(mask) {
        if let Err(fault) = load_one::<u64>(warp, context, space, lane, addresses[lane]) {
            return fail(warp, context, lane, fault);
        }
    }
    Flow::Next
}

/// `test_wait`, `try_wait`: whether the phase of a state (`imm` 0) or of a
/// parity (1) is over.
fn test(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    warp.polled = true;
    let addresses = *warp.row::<u64>(context, inst.a);
    let space = value_of_tag(inst.side);
    let mut done = 0;
    for lane in lanes(mask) {
        let bits = match load_one::<u64>(warp, context, space, lane, addresses[lane]) {
            Ok(bits) => bits,
            Err(fault) => return fail(warp, context, lane, fault),
        };
        let phase = Barrier::unpack(bits).phase;
        let over = if inst.imm == 0 {
            phase != Barrier::unpack(warp.row::<u64>(context, inst.b)[lane]).phase
        } else {
            phase & 1 != warp.row::<u32>(context, inst.b)[lane] & 1
        };
        done |= u32::from(over) << lane;
    }
    warp.set_pred(inst.d, mask, done);
    // A waiting warp yields to the others.
    if done == mask {
        Flow::Next
    } else {
        Flow::Yield
    }
}

fn pending_count(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let row = warp
        .row::<u64>(context, inst.a)
        .map(|bits| Barrier::unpack(bits).pending);
    warp.set_row::<u32>(inst.d, mask, &row);
    Flow::Next
}

/// One copy of one lane.
#[derive(Clone, Copy)]
pub(super) struct Move {
    pub(super) to: (SpaceTag, u64),
    pub(super) from: (SpaceTag, u64),
    /// Bytes written.
    pub(super) size: u64,
    /// Bytes read; the rest is zero.
    read: u64,
}

/// Copies of one lane each: to `a`, from `b`, `c` bytes written, `e` bytes
/// read (absent: all), the rest zero. `imm`: spaces, from bit 16 on what
/// addresses are a multiple of (0: of what is written), and from bit 32 on the
/// mbarrier's slot plus one. `run` moves the bytes.
pub(super) fn each_move(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
    run: impl Fn(&mut Warp, &mut Context<'_>, usize, Move) -> Result<(), AccessFault>,
) -> Flow {
    let (to, from) = (
        *warp.row::<u64>(context, inst.a),
        *warp.row::<u64>(context, inst.b),
    );
    let sizes = *warp.row::<u32>(context, inst.c);
    let reads = if inst.e == NONE {
        sizes
    } else {
        *warp.row::<u32>(context, inst.e)
    };
    let (to_space, from_space) = (
        value_of_tag(inst.imm as u32),
        value_of_tag((inst.imm >> 8) as u32),
    );
    for lane in lanes(mask) {
        let (size, read) = (
            u64::from(sizes[lane]),
            u64::from(reads[lane].min(sizes[lane])),
        );
        let least = match inst.imm >> 16 & 0xff {
            0 => size.max(1),
            bytes => bytes,
        };
        if to[lane] % least != 0 || from[lane] % least != 0 {
            let address = if to[lane] % least != 0 {
                to[lane]
            } else {
                from[lane]
            };
            let size = least;
            let fault = AccessFault::Misaligned { address, size };
            return context.fail_access(warp, lane, fault, "copied");
        }
        let one = Move {
            to: (to_space, to[lane]),
            from: (from_space, from[lane]),
            size,
            read,
        };
        if let Err(fault) = run(warp, context, lane, one) {
            return context.fail_access(warp, lane, fault, "copied");
        }
        let barrier = (inst.imm >> 32) as u32;
        if barrier != 0 {
            let address = warp.row::<u64>(context, barrier - 1)[lane];
            let space = if address >= crate::mapping::SHARED_WINDOW {
                SpaceTag::Generic
            } else {
                SpaceTag::SharedCluster
            };
            let complete = |bits| act(Action::CompleteBytes as u64, bits, size as u32);
            if let Err(fault) = update_one::<u64>(warp, context, space, lane, address, complete) {
                return fail(warp, context, lane, fault);
            }
        }
    }
    Flow::Next
}

fn copy(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    each_move(warp, context, inst, mask, |warp, context, lane, one| {
        let Move {
            to,
            from,
            size,
            read,
        } = one;
        // The widest unit that size and addresses allow.
        let unit = 1 << (size | to.1 | from.1 | read | 16).trailing_zeros();
        for at in (0..size).step_by(unit as usize) {
            let (target, source) = ((to.0, to.1 + at), (from.0, from.1 + at));
            match unit {
                16 => move_one::<u128>(warp, context, lane, target, source, at < read),
                8 => move_one::<u64>(warp, context, lane, target, source, at < read),
                4 => move_one::<u32>(warp, context, lane, target, source, at < read),
                2 => move_one::<u16>(warp, context, lane, target, source, at < read),
                _ => move_one::<u8>(warp, context, lane, target, source, at < read),
            }?;
        }
        Ok(())
    })
}

fn move_one<T: crate::mapping::Plain>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    lane: usize,
    to: (SpaceTag, u64),
    from: (SpaceTag, u64),
    read: bool,
) -> Result<(), AccessFault> {
    let value = if read {
        load_one::<T>(warp, context, from.0, lane, from.1)?
    } else {
        T::default()
    };
    store_one(warp, context, to.0, lane, to.1, value)
}

/// Bytes that `cp.async` reads where a predicate says that it ignores its
/// source: predicate in `c` (negated: `imm`), size in `a`.
fn unless_ignored(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let ignored = warp.pred(context, inst.c) ^ if inst.imm != 0 { u32::MAX } else { 0 };
    let sizes = *warp.row::<u32>(context, inst.a);
    let row: [u32; LANES] = std::array::from_fn(|lane| {
        if ignored >> lane & 1 != 0 {
            0
        } else {
            sizes[lane]
        }
    });
    warp.set_row::<u32>(inst.d, mask, &row);
    Flow::Next
}

fn nothing(_: &mut Warp, _: &mut Context<'_>, _: &Inst, _: u32) -> Flow {
    Flow::Next
}

pub(crate) fn decode_mbarrier<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    // Without a space the address is generic.
    let place = space(x);
    let action = x.mods.first().copied().unwrap_or(Modifier::Unknown);
    if action == Modifier::PendingCount {
        let dst = d.dst(x.op(0)?, Class::B32)?;
        let a = d.src(x.op(1)?, Class::B64)?;
        d.emit_to(pending_count, dst, |i| i.a = a);
        return Ok(());
    }
    if action == Modifier::Inval {
        let address = d.address(x.op(0)?, place)?;
        let a = d.address_value(&address);
        d.emit(touch, |i| (i.a, i.side) = (a, tag_of(address.space)));
        return Ok(());
    }
    if action == Modifier::TestWait || action == Modifier::TryWait {
        let dst = d.dst(x.op(0)?, Class::Pred)?;
        let address = d.address(x.op(1)?, place)?;
        let a = d.address_value(&address);
        let parity = x.has(Modifier::Parity);
        let b = d.src(x.op(2)?, if parity { Class::B32 } else { Class::B64 })?;
        d.emit(test, |i| {
            (i.d, i.a, i.b, i.side, i.imm) = (dst, a, b, tag_of(address.space), u64::from(parity))
        });
        return Ok(());
    }
    let (kind, has_state) = match action {
        Modifier::Init => (Action::Init, false),
        Modifier::Arrive if x.has(Modifier::ExpectTx) => (Action::ArriveExpect, true),
        Modifier::Arrive if x.has(Modifier::NoComplete) => (Action::ArriveNoComplete, true),
        Modifier::Arrive => (Action::Arrive, true),
        Modifier::ArriveDrop if !x.has(Modifier::ExpectTx) => (Action::ArriveDrop, true),
        Modifier::ExpectTx => (Action::Expect, false),
        Modifier::CompleteTx => (Action::CompleteBytes, false),
        _ => return unsupported("mbarrier operation"),
    };
    // The remote form has no state: its first operand is the address.
    let first_is_address = matches!(x.op(0)?.kind, OperandKind::Address(_));
    let at = usize::from(has_state && !first_is_address);
    let dst = if at == 1 {
        d.dst(x.op(0)?, Class::B64)?
    } else {
        NONE
    };
    let address = d.address(x.op(at)?, place)?;
    let a = d.address_value(&address);
    let b = if x.ops.len() > at + 1 {
        d.src(x.op(at + 1)?, Class::B32)?
    } else {
        NONE
    };
    d.emit(change, |i| {
        (i.d, i.a, i.b, i.side, i.imm) = (dst, a, b, tag_of(address.space), kind as u64)
    });
    Ok(())
}

impl<'a> Decoder<'a> {
    /// A slot with the bytes that are read of so many.
    fn ignoring(&mut self, predicate: &ptx::Operand<'a>, size: u32) -> Result<u32, Problem> {
        let (c, negated) = self.pred(predicate)?;
        let slot = self.register(Class::B32);
        self.emit_helper(unless_ignored, |i| {
            (i.d, i.a, i.c, i.imm) = (slot, size, c, u64::from(negated))
        });
        Ok(slot)
    }
}

/// What `st.async` and `red.async` do after their access, which is complete when
/// they are: the bytes are counted by the mbarrier that the operand names.
pub(super) fn complete<'a>(
    d: &mut Decoder<'a>,
    operand: &'a ptx::Operand<'a>,
    place: Option<SpaceTag>,
    bytes: u32,
) -> Result<(), Problem> {
    let address = d.address(operand, place)?;
    let a = d.address_value(&address);
    let b = d.constant32(bytes);
    let index = d.emit(change, |i| {
        (i.a, i.b, i.side) = (a, b, tag_of(address.space));
        i.imm = Action::CompleteBytes as u64;
    });
    d.out.code[index].counted = false;
    Ok(())
}

pub(crate) fn decode_copy<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    // (Prefetches are hints; bad addresses are harmless.)
    if x.has(Modifier::CommitGroup)
        || x.has(Modifier::WaitGroup)
        || x.has(Modifier::WaitAll)
        || x.has(Modifier::Prefetch)
    {
        d.emit(nothing, |_| {});
        return Ok(());
    }
    if x.has(Modifier::Mbarrier) && x.has(Modifier::Arrive) {
        // Earlier copies are complete. Without `.noinc` the arrival is counted
        // by one more expected arrival: no change.
        let run = if x.has(Modifier::Noinc) {
            change
        } else {
            touch
        };
        let address = d.address(x.op(0)?, space(x))?;
        let a = d.address_value(&address);
        d.emit(run, |i| {
            (i.a, i.side, i.imm) = (a, tag_of(address.space), Action::Arrive as u64)
        });
        return Ok(());
    }
    if x.has(Modifier::Tensor)
        || (x.has(Modifier::Reduce) && !x.has(Modifier::Bulk))
        || x.has(Modifier::MulticastCluster)
        || x.has(Modifier::CpMask)
        || x.has(Modifier::IgnoreOob)
    {
        return unsupported("this form of cp.async");
    }
    let spaces: Vec<SpaceTag> = x
        .mods
        .iter()
        .filter_map(|m| match m {
            Modifier::Shared | Modifier::SharedCta => Some(SpaceTag::Shared),
            Modifier::SharedCluster => Some(SpaceTag::SharedCluster),
            Modifier::Global => Some(SpaceTag::Global),
            _ => None,
        })
        .collect();
    let [to_space, from_space] = spaces[..] else {
        return malformed("cp.async between unknown spaces");
    };
    let to = d.address(x.op(0)?, Some(to_space))?;
    let from = d.address(x.op(1)?, Some(from_space))?;
    let (a, b) = (d.address_value(&to), d.address_value(&from));
    let c = d.src(x.op(2)?, Class::B32)?;
    let mut imm = u64::from(tag_of(to.space)) | u64::from(tag_of(from.space)) << 8;
    let mut e = NONE;
    if x.has(Modifier::Bulk) {
        imm |= 16 << 16;
        if x.has(Modifier::MbarrierCompleteTxBytes) {
            let barrier = d.address(x.op(3)?, Some(SpaceTag::SharedCluster))?;
            let slot = d.address_value(&barrier);
            imm |= (u64::from(slot) + 1) << 32;
        }
    } else if let Some(operand) = x.ops.get(3) {
        let is_negated = matches!(operand.kind, OperandKind::Not(_));
        // A source size, or a predicate that ignores the source; a 64-bit
        // operand is a cache policy.
        match is_negated {
            true => e = d.ignoring(operand, c)?,
            false => match d.src_any(operand, Class::B32)? {
                (Class::B32, slot) => e = slot,
                (Class::Pred, _) => e = d.ignoring(operand, c)?,
                _ => {}
            },
        }
    }
    let run: Handler = if x.has(Modifier::Reduce) {
        super::atomic::bulk_reduction(x)?
    } else {
        copy
    };
    d.emit(run, |i| (i.a, i.b, i.c, i.e, i.imm) = (a, b, c, e, imm));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_when_arrivals_and_bytes_are_in() {
        let mut bits = act(Action::Init as u64, 0, 2);
        let phase = |bits| Barrier::unpack(bits).phase;
        bits = act(Action::ArriveExpect as u64, bits, 4096);
        bits = act(Action::Arrive as u64, bits, 1);
        assert_eq!(phase(bits), 0, "bytes are missing");
        bits = act(Action::CompleteBytes as u64, bits, 4096);
        assert_eq!(phase(bits), 1);
        assert_eq!(
            Barrier::unpack(bits).pending,
            2,
            "the next phase expects as many"
        );
        // Bytes may arrive before they are announced.
        bits = act(Action::CompleteBytes as u64, bits, 16);
        assert_eq!(Barrier::unpack(bits).bytes, -16);
        bits = act(Action::ArriveExpect as u64, bits, 16);
        bits = act(Action::ArriveDrop as u64, bits, 1);
        assert_eq!((phase(bits), Barrier::unpack(bits).expected), (2, 1));
    }
}
