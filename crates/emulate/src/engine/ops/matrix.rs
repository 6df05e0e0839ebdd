//! `ldmatrix`, `stmatrix`, `mma.sync` (PTX ISA 9.7.14).
//!
//! Products are exact and summed in f64 (s32 for integers), then rounded once:
//! the ISA leaves order and precision of the sum open.

use super::sync::gather_lanes;
use crate::arith::half::{BF16, F16, Half};
use crate::engine::access::{load_one, store_one, tag_of, value_of_tag};
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, SpaceTag, malformed, space, unsupported};
use crate::engine::inst::{Class, Flow, Inst};
use crate::engine::lanes::FULL;
use crate::engine::warp::Warp;
use crate::mapping::LANES;
use ptx::{Mnemonic, Modifier, Operand, Type};

/// `ldmatrix` of 8×8 matrices of 16 bits: `d` lists registers, `a` holds row
/// addresses, `imm` 1 transposes.
fn load_matrix(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.b, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let program = context.program;
    let slots = &program.lists[inst.d as usize];
    let addresses = *warp.row::<u64>(context, inst.a);
    let space = value_of_tag(inst.side);
    for (index, &slot) in slots.iter().enumerate() {
        let mut rows = [0u128; 8];
        for (row, value) in rows.iter_mut().enumerate() {
            let lane = index * 8 + row;
            match load_one::<u128>(warp, context, space, lane, addresses[lane]) {
                Ok(bits) => *value = bits,
                Err(fault) => return context.fail_access(warp, lane, fault, "shared"),
            }
        }
        let element = |row: usize, column: usize| (rows[row] >> (16 * column)) as u32 & 0xffff;
        let values: [u32; LANES] = std::array::from_fn(|lane| {
            let (outer, inner) = (lane / 4, lane % 4 * 2);
            if inst.imm == 0 {
                element(outer, inner) | element(outer, inner + 1) << 16
            } else {
                element(inner, outer) | element(inner + 1, outer) << 16
            }
        });
        warp.set_row::<u32>(slot, group, &values);
    }
    Flow::Next
}

/// `stmatrix`, the inverse.
fn store_matrix(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    if let Err(flow) = gather_lanes(warp, context, inst.b, mask) {
        return flow;
    }
    let program = context.program;
    let addresses = *warp.row::<u64>(context, inst.a);
    let space = value_of_tag(inst.side);
    for (index, &slot) in program.lists[inst.d as usize].iter().enumerate() {
        let values = *warp.row::<u32>(context, slot);
        let mut rows = [0u128; 8];
        for (lane, value) in values.iter().enumerate() {
            let (outer, inner) = (lane / 4, lane % 4 * 2);
            for half in 0..2 {
                let bits = u128::from(value >> (16 * half) & 0xffff);
                let (row, column) = if inst.imm == 0 {
                    (outer, inner + half)
                } else {
                    (inner + half, outer)
                };
                rows[row] |= bits << (16 * column);
            }
        }
        for (row, bits) in rows.iter().enumerate() {
            let lane = index * 8 + row;
            if let Err(fault) = store_one(warp, context, space, lane, addresses[lane], *bits) {
                return context.fail_access(warp, lane, fault, "shared");
            }
        }
    }
    Flow::Next
}

/// Element types of `mma`, in `imm`.
pub(crate) const HALF: u64 = 0;
pub(crate) const BRAIN: u64 = 1;
pub(crate) const TF32: u64 = 2;
pub(crate) const S8: u64 = 3;
pub(crate) const U8: u64 = 4;

/// Bits of an element.
pub(crate) fn bits_of(kind: u64) -> usize {
    match kind {
        HALF | BRAIN => 16,
        TF32 => 32,
        _ => 8,
    }
}

/// An element as a number; all are exact in f64.
pub(crate) fn number(kind: u64, bits: u32) -> f64 {
    match kind {
        HALF => f64::from(F16::widen(bits as u16)),
        BRAIN => f64::from(BF16::widen(bits as u16)),
        // The low 13 bits of a tf32 are ignored.
        TF32 => f64::from(f32::from_bits(bits & !0x1fff)),
        S8 => f64::from(bits as u8 as i8),
        _ => f64::from(bits as u8),
    }
}

/// Shape and types of an `mma`, packed into `imm`: kind of A, kind of B, rows,
/// depth, form of C and D (0: f32, 1: f16, 2: s32), `.satfinite`.
struct Shape {
    a: u64,
    b: u64,
    rows: usize,
    depth: usize,
    sum: u64,
    saturates: bool,
}

impl Shape {
    fn pack(&self) -> u64 {
        self.a
            | self.b << 4
            | (self.rows as u64) << 8
            | (self.depth as u64) << 16
            | self.sum << 32
            | u64::from(self.saturates) << 40
    }

    fn unpack(imm: u64) -> Shape {
        Shape {
            a: imm & 0xf,
            b: imm >> 4 & 0xf,
            rows: (imm >> 8 & 0xff) as usize,
            depth: (imm >> 16 & 0xff) as usize,
            sum: imm >> 32 & 0xf,
            saturates: imm >> 40 != 0,
        }
    }
}

/// Fragments are laid out alike for all types (PTX ISA 9.7.14.5, figures): a
/// register holds `32 / bits` neighbours along the depth; lane `4 g + t` has
/// row (or column) `g`, and of the depth what `t` numbers.
fn multiply(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.b, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let Shape {
        a,
        b,
        rows,
        depth,
        sum,
        saturates,
    } = Shape::unpack(inst.imm);
    let program = context.program;
    let list = |index: u32| &program.lists[index as usize];
    let mut left = vec![0.0; rows * depth];
    let mut right = vec![0.0; depth * 8];
    let bands = rows / 8;
    let spread = |kind: u64| 32 / bits_of(kind);
    for (register, &slot) in list(inst.a).iter().enumerate() {
        let values = warp.row::<u32>(context, slot);
        for (lane, value) in values.iter().enumerate() {
            for e in 0..spread(a) {
                let row = lane / 4 + 8 * (register % bands);
                let column = register / bands * 4 * spread(a) + lane % 4 * spread(a) + e;
                left[row * depth + column] = number(a, value >> (e * bits_of(a)));
            }
        }
    }
    for (register, &slot) in list(inst.c).iter().enumerate() {
        let values = warp.row::<u32>(context, slot);
        for (lane, value) in values.iter().enumerate() {
            for e in 0..spread(b) {
                let row = register * 4 * spread(b) + lane % 4 * spread(b) + e;
                right[row * 8 + lane / 4] = number(b, value >> (e * bits_of(b)));
            }
        }
    }
    let addends: Vec<[u32; LANES]> = list(inst.e)
        .iter()
        .map(|&slot| *warp.row::<u32>(context, slot))
        .collect();
    let targets = list(inst.d);
    let per_register = if sum == 1 { 2 } else { 1 };
    for (register, &slot) in targets.iter().enumerate() {
        let values: [u32; LANES] = std::array::from_fn(|lane| {
            let mut out = 0;
            for part in 0..per_register {
                let index = register * per_register + part;
                let (row, column) = (lane / 4 + 8 * (index / 2), lane % 4 * 2 + index % 2);
                let product: f64 = (0..depth)
                    .map(|k| left[row * depth + k] * right[k * 8 + column])
                    .sum();
                let old = addends[register][lane];
                let bits = if sum == 1 {
                    old >> (16 * part) & 0xffff
                } else {
                    old
                };
                out |= rounded(product, bits, sum, sum, saturates) << (16 * part);
            }
            out
        });
        warp.set_row::<u32>(slot, group, &values);
    }
    Flow::Next
}

/// A product added to `c`, as bits. Forms: 0 f32, 1 f16, 2 s32.
pub(crate) fn rounded(product: f64, c: u32, c_form: u64, d_form: u64, saturates: bool) -> u32 {
    if c_form == 2 {
        let sum = product as i64 + i64::from(c as i32);
        return if saturates {
            sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32
        } else {
            sum as u32
        };
    }
    let c = if c_form == 1 {
        F16::widen(c as u16)
    } else {
        f32::from_bits(c)
    };
    let sum = product + f64::from(c);
    let sum = if saturates {
        sum.clamp(-f64::from(f32::MAX), f64::from(f32::MAX))
    } else {
        sum
    };
    if d_form == 1 {
        u32::from(F16::narrow(sum))
    } else {
        (sum as f32).to_bits()
    }
}

fn registers<'a>(
    d: &mut Decoder<'a>,
    operand: &'a Operand<'a>,
    count: usize,
    write: bool,
) -> Result<u32, Problem> {
    let parts = Decoder::vector(operand);
    if parts.len() != count {
        return malformed(format!("{} registers, expected {count}", parts.len()));
    }
    let slots = parts.iter().map(|p| {
        if write {
            d.dst(p, Class::B32)
        } else {
            d.src(p, Class::B32)
        }
    });
    let slots = slots.collect::<Result<Vec<_>, _>>()?;
    Ok(d.list(slots))
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let everyone = d.constant32(FULL);
    if x.mnemonic != Mnemonic::Mma {
        if !x.has(Modifier::M8n8) || x.types.last() != Some(&Type::B16) {
            return unsupported("matrices of this shape");
        }
        let count = if x.has(Modifier::X4) {
            4
        } else if x.has(Modifier::X2) {
            2
        } else {
            1
        };
        let load = x.mnemonic == Mnemonic::Ldmatrix;
        let list = registers(d, x.op(usize::from(!load))?, count, load)?;
        let address = d.address(
            x.op(usize::from(load))?,
            Some(space(x).unwrap_or(SpaceTag::Generic)),
        )?;
        let a = d.address_value(&address);
        let run = if load { load_matrix } else { store_matrix };
        d.emit(run, |i| {
            (i.d, i.a, i.b, i.side, i.imm) = (
                list,
                a,
                everyone,
                tag_of(address.space),
                u64::from(x.has(Modifier::Trans)),
            )
        });
        return Ok(());
    }
    x.only(&[
        Modifier::Sync,
        Modifier::Aligned,
        Modifier::Row,
        Modifier::Col,
        Modifier::Satfinite,
        Modifier::M16n8k4,
        Modifier::M16n8k8,
        Modifier::M16n8k16,
        Modifier::M16n8k32,
        Modifier::M8n8k16,
    ])?;
    let [dt, at, bt, ct] = x.types[..] else {
        return malformed("mma needs four types");
    };
    let kind = |ty| {
        Ok(match ty {
            Type::F16 => HALF,
            Type::BF16 => BRAIN,
            Type::TF32 => TF32,
            Type::S8 => S8,
            Type::U8 => U8,
            _ => return unsupported("mma of this type"),
        })
    };
    let sum = match (dt, ct) {
        (Type::F32, Type::F32) => 0,
        (Type::F16, Type::F16) => 1,
        (Type::S32, Type::S32) => 2,
        _ => return unsupported("mma with sums of two types"),
    };
    let (rows, depth) = match x
        .mods
        .iter()
        .find(|m| m.shape().is_some_and(|(_, n, _)| n == 8))
    {
        Some(Modifier::M16n8k4) => (16, 4),
        Some(Modifier::M16n8k8) => (16, 8),
        Some(Modifier::M16n8k16) => (16, 16),
        Some(Modifier::M16n8k32) => (16, 32),
        _ => (8, 16),
    };
    let shape = Shape {
        a: kind(at)?,
        b: kind(bt)?,
        rows,
        depth,
        sum,
        saturates: x.has(Modifier::Satfinite),
    };
    if bits_of(shape.a) != bits_of(shape.b) {
        return malformed("mma of elements of two sizes");
    }
    let a_count = rows * depth * bits_of(shape.a) / 1024;
    let b_count = depth * 8 * bits_of(shape.b) / 1024;
    let c_count = rows * 8 * (if sum == 1 { 16 } else { 32 }) / 1024;
    let target = registers(d, x.op(0)?, c_count, true)?;
    let a = registers(d, x.op(1)?, a_count, false)?;
    let b = registers(d, x.op(2)?, b_count, false)?;
    let c = registers(d, x.op(3)?, c_count, false)?;
    d.emit(multiply, |i| {
        (i.d, i.a, i.c, i.e, i.b, i.imm) = (target, a, b, c, everyone, shape.pack())
    });
    Ok(())
}
