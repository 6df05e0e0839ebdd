//! Functions that the driver provides to device code: `vprintf`, `malloc`,
//! `free`, `__assertfail`.

use super::device_runtime;
use crate::engine::access::load_generic;
use crate::engine::context::Context;
use crate::engine::fault::FaultKind;
use crate::engine::inst::{Class, Flow};
use crate::engine::lanes::lanes;
use crate::engine::program::{Builtin, CallSite, Place};
use crate::engine::warp::Warp;
use crate::mapping::AccessFault;
use model::printf::{self, Argument, Piece};

/// Longest string that is read from device memory.
const LONGEST: u64 = 1 << 16;

/// Execute a call of such a function for each lane of `mask` in turn.
pub(crate) fn call(
    warp: &mut Warp,
    context: &mut Context<'_>,
    site: &CallSite,
    builtin: Builtin,
    mask: u32,
) -> Flow {
    for lane in lanes(mask) {
        let mut arguments = [0; 5];
        for (value, &place) in arguments.iter_mut().zip(&site.arguments) {
            *value = read(warp, context, place, lane);
        }
        let outcome = match builtin {
            Builtin::Vprintf => print(warp, context, lane, arguments[0], arguments[1]),
            Builtin::Malloc => Ok(context.launch.heap.allocate(arguments[0])),
            Builtin::Free => {
                if arguments[0] != 0 && !context.launch.heap.release(arguments[0]) {
                    let address = arguments[0];
                    return context.fail(
                        warp,
                        1 << lane,
                        FaultKind::IllegalAddress,
                        address,
                        format!("free of {address:#x}, which malloc did not give"),
                    );
                }
                Ok(0)
            }
            Builtin::AssertFail => return assertion(warp, context, mask, &site.arguments),
            Builtin::Runtime(function) => device_runtime::call(warp, context, site, function, lane),
        };
        match outcome {
            Ok(value) => {
                if let Some(&place) = site.results.first() {
                    write(warp, place, lane, value);
                }
            }
            Err(fault) => return context.fail_access(warp, lane, fault, "generic"),
        }
    }
    Flow::Next
}

/// The first bytes of an argument.
pub(super) fn read_bytes<const N: usize>(
    warp: &Warp,
    context: &Context<'_>,
    place: Place,
    lane: usize,
) -> [u8; N] {
    let mut bytes = [0; N];
    match place {
        Place::Frame { offset, size } => {
            let at = lane as u64 * warp.stride + u64::from(warp.frame.local + offset);
            // The frame is within the stride: calls grow it.
            let _ = warp.local.read(at, &mut bytes[..N.min(size as usize)]);
        }
        register => {
            let value = read(warp, context, register, lane).to_le_bytes();
            for (byte, value) in bytes.iter_mut().zip(value) {
                *byte = value;
            }
        }
    }
    bytes
}

pub(super) fn read(warp: &Warp, context: &Context<'_>, place: Place, lane: usize) -> u64 {
    match place {
        Place::Frame { .. } => u64::from_le_bytes(read_bytes(warp, context, place, lane)),
        Place::Register {
            class: Class::B64,
            slot,
        } => warp.row::<u64>(context, slot)[lane],
        Place::Register {
            class: Class::B32,
            slot,
        } => u64::from(warp.row::<u32>(context, slot)[lane]),
        Place::Register { .. } => 0,
    }
}

fn write(warp: &mut Warp, place: Place, lane: usize, value: u64) {
    match place {
        Place::Frame { offset, size } => {
            let at = lane as u64 * warp.stride + u64::from(warp.frame.local + offset);
            let _ = warp
                .local
                .write(at, &value.to_le_bytes()[..size.min(8) as usize]);
        }
        Place::Register {
            class: Class::B64,
            slot,
        } => warp.row_mut::<u64>(slot)[lane] = value,
        Place::Register {
            class: Class::B32,
            slot,
        } => warp.row_mut::<u32>(slot)[lane] = value as u32,
        Place::Register { .. } => {}
    }
}

/// The next address that is a multiple of `bytes`. The program may pass any
/// address: the addition wraps around to zero, where nothing is mapped.
fn aligned(at: u64, bytes: u64) -> u64 {
    at.wrapping_add(bytes - 1) & !(bytes - 1)
}

/// A string in device memory: up to its NUL, or `most` bytes.
fn string(
    warp: &mut Warp,
    context: &mut Context<'_>,
    lane: usize,
    address: u64,
    most: u64,
) -> Result<Vec<u8>, AccessFault> {
    let mut out = Vec::new();
    for at in address..address.saturating_add(most) {
        match load_generic::<u8>(warp, context, lane, at)? {
            0 => break,
            byte => out.push(byte),
        }
    }
    Ok(out)
}

/// `vprintf(format, arguments)`: arguments follow one another, each aligned to
/// its size; gives the number of arguments, or -1 for a null format.
fn print(
    warp: &mut Warp,
    context: &mut Context<'_>,
    lane: usize,
    text: u64,
    arguments: u64,
) -> Result<u64, AccessFault> {
    if text == 0 {
        return Ok(u32::MAX.into());
    }
    let text = string(warp, context, lane, text, LONGEST)?;
    let mut out = Vec::new();
    let (mut at, mut count) = (arguments, 0);
    for piece in printf::pieces(&text) {
        let Piece::Conversion(conversion) = &piece else {
            piece.write(None, &Argument::None, &mut out);
            continue;
        };
        let mut star = None;
        if conversion.has_star() {
            at = aligned(at, 4);
            star = Some(load_generic::<u32>(warp, context, lane, at)? as i32);
            at = at.wrapping_add(4);
            count += 1;
        }
        let bytes = u64::from(conversion.bytes());
        at = aligned(at, bytes);
        let value = match bytes {
            4 => u64::from(load_generic::<u32>(warp, context, lane, at)?),
            _ => load_generic::<u64>(warp, context, lane, at)?,
        };
        at = at.wrapping_add(bytes);
        count += 1;
        let argument = match (conversion.is_string(), value) {
            (false, bits) => Argument::Bits(bits),
            (true, 0) => Argument::Text(None),
            (true, text) => {
                // C11: no more than the precision is read, so that such a
                // string needs no NUL.
                let most = conversion.precision.unwrap_or(LONGEST).min(LONGEST);
                Argument::Text(Some(string(warp, context, lane, text, most)?))
            }
        };
        piece.write(star, &argument, &mut out);
    }
    context.launch.output.lock().extend_from_slice(&out);
    Ok(count)
}

/// `__assertfail(message, file, line, function, charSize)`
fn assertion(warp: &mut Warp, context: &mut Context<'_>, mask: u32, arguments: &[Place]) -> Flow {
    let mut first = None;
    for lane in lanes(mask) {
        let value = |index: usize| {
            arguments
                .get(index)
                .map_or(0, |p| read(warp, context, *p, lane))
        };
        let [message, file, line, function] = [value(0), value(1), value(2), value(3)];
        let mut text = |address: u64| {
            string(warp, context, lane, address, LONGEST)
                .map_or_else(|_| "?".into(), |s| String::from_utf8_lossy(&s).into_owned())
        };
        let (message, file, function) = (text(message), text(file), text(function));
        let [bx, by, bz] = context.block().index;
        let [x, y, z] = warp.thread_of(1 << lane);
        // The words that the driver prints.
        let what = format!(
            "{file}:{}: {function}: block: [{bx},{by},{bz}], thread: [{x},{y},{z}] Assertion `{message}` failed.",
            line as u32
        );
        let mut errors = context.launch.errors.lock();
        errors.extend_from_slice(what.as_bytes());
        errors.push(b'\n');
        first.get_or_insert(what);
    }
    context.fail(
        warp,
        mask,
        FaultKind::Assert,
        0,
        first.unwrap_or_else(|| "assertion failed".into()),
    )
}
