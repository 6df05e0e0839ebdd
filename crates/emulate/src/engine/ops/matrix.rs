//! `ldmatrix`, `stmatrix`, `movmatrix`, `mma.sync` (PTX ISA 9.7.14).
//!
//! Products are exact and summed in f64 (s32 for integers), then rounded once:
//! the ISA leaves order and precision of the sum open. Those of f64 are added
//! one by one, each by a fused multiply-add.

use super::quarters;
use super::sparse::{Sparsity, selectors};
use super::sync::gather_lanes;
use crate::arith::half::{BF16, F16, Half};
use crate::arith::narrow::{Fp8, fp8_to_f16};
use crate::engine::access::{load_one, store_one, tag_of, value_of_tag};
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, SpaceTag, malformed, space, unsupported};
use crate::engine::inst::{Class, Flow, Handler, Inst};
use crate::engine::lanes::FULL;
use crate::engine::warp::Warp;
use crate::mapping::LANES;
use ptx::{Mnemonic, Modifier, Operand, OperandKind, Type};

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

/// `movmatrix`: an 8×8 matrix of 16 bits, transposed.
fn transpose(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.b, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let from = *warp.row::<u32>(context, inst.a);
    let element = |row: usize, column: usize| {
        let pair = from[row * 4 + column / 2];
        pair >> (16 * (column % 2)) & 0xffff
    };
    let values: [u32; LANES] = std::array::from_fn(|lane| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        element(column, row) | element(column + 1, row) << 16
    });
    warp.set_row::<u32>(inst.d, group, &values);
    Flow::Next
}

/// Element types of `mma`, in `imm`.
pub(crate) const HALF: u64 = 0;
pub(crate) const BRAIN: u64 = 1;
pub(crate) const TF32: u64 = 2;
pub(crate) const S8: u64 = 3;
pub(crate) const U8: u64 = 4;
const E4M3: u64 = 5;
const E5M2: u64 = 6;
const S4: u64 = 7;
const U4: u64 = 8;
const BIT: u64 = 9;

/// The kind of the elements that a modifier names.
pub(crate) fn kind_of(modifier: Modifier) -> Result<u64, Problem> {
    Ok(match modifier {
        Modifier::F16 => HALF,
        Modifier::BF16 => BRAIN,
        Modifier::TF32 => TF32,
        Modifier::S8 => S8,
        Modifier::U8 => U8,
        Modifier::E4M3 => E4M3,
        Modifier::E5M2 => E5M2,
        Modifier::S4 => S4,
        Modifier::U4 => U4,
        Modifier::B1 => BIT,
        _ => return unsupported("product of elements of this type"),
    })
}

/// The types of the elements of D, A, B and C, in the order written.
pub(crate) fn element_types(x: &Ins<'_>) -> Vec<Modifier> {
    let is_type =
        |m: &Modifier| m.ty().is_some() || matches!(m, Modifier::S4 | Modifier::U4 | Modifier::B1);
    x.mods.iter().copied().filter(is_type).collect()
}

/// Bits of an element.
pub(crate) fn bits_of(kind: u64) -> usize {
    match kind {
        HALF | BRAIN => 16,
        TF32 => 32,
        S4 | U4 => 4,
        BIT => 1,
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
        U8 => f64::from(bits as u8),
        E4M3 => f64::from(F16::widen(fp8_to_f16(bits as u8, Fp8::E4M3))),
        E5M2 => f64::from(F16::widen(fp8_to_f16(bits as u8, Fp8::E5M2))),
        S4 => f64::from((bits << 28) as i32 >> 28),
        U4 => f64::from(bits & 0xf),
        _ => f64::from(bits & 1),
    }
}

/// Shape and types of an `mma`, packed into `imm`: kind of A, kind of B, rows,
/// depth, form of C and D (0: f32, 1: f16, 2: s32), `.satfinite`, and of a
/// sparse A the selector, plus 1. Its metadata are in `side`.
struct Shape {
    a: u64,
    b: u64,
    rows: usize,
    depth: usize,
    sum: u64,
    saturates: bool,
    sparse: Option<usize>,
}

impl Shape {
    fn pack(&self) -> u64 {
        self.a
            | self.b << 4
            | (self.rows as u64) << 8
            | (self.depth as u64) << 16
            | self.sum << 32
            | u64::from(self.saturates) << 40
            | self.sparse.map_or(0, |selector| selector as u64 + 1) << 48
    }

    fn unpack(imm: u64) -> Shape {
        Shape {
            a: imm & 0xf,
            b: imm >> 4 & 0xf,
            rows: (imm >> 8 & 0xff) as usize,
            depth: (imm >> 16 & 0xff) as usize,
            sum: imm >> 32 & 0xf,
            saturates: imm >> 40 & 1 != 0,
            sparse: (imm >> 48 & 0xff).checked_sub(1).map(|it| it as usize),
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
        sparse,
    } = Shape::unpack(inst.imm);
    let program = context.program;
    let list = |index: u32| &program.lists[index as usize];
    let stored = if sparse.is_some() { depth / 2 } else { depth };
    let mut left = vec![0.0; rows * stored];
    let mut right = vec![0.0; depth * 8];
    let bands = rows / 8;
    let spread = |kind: u64| 32 / bits_of(kind);
    for (register, &slot) in list(inst.a).iter().enumerate() {
        let values = warp.row::<u32>(context, slot);
        for (lane, value) in values.iter().enumerate() {
            for e in 0..spread(a) {
                let row = lane / 4 + 8 * (register % bands);
                let column = register / bands * 4 * spread(a) + lane % 4 * spread(a) + e;
                left[row * stored + column] = number(a, value >> (e * bits_of(a)));
            }
        }
    }
    if let Some(selector) = sparse {
        let sparsity = Sparsity {
            bits: bits_of(a),
            depth,
            selector,
        };
        left = sparsity.spread(warp.row::<u32>(context, inst.side), &left, rows);
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

/// Products of single bits, combined by `.and` or `.xor` and counted (`.popc`).
/// Fragments are laid out as for [`multiply`], so that a register holds 32
/// neighbours along the depth. `imm`: rows, words of the depth from bit 8 on,
/// and 1 for `.xor` from bit 16 on.
fn multiply_bits(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.b, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let (bands, words) = (
        (inst.imm & 0xff) as usize / 8,
        (inst.imm >> 8 & 0xff) as usize,
    );
    let is_xor = inst.imm >> 16 != 0;
    let program = context.program;
    let rows = |warp: &Warp, list: u32| -> Vec<[u32; LANES]> {
        let slots = program.lists[list as usize].iter();
        slots.map(|&slot| *warp.row::<u32>(context, slot)).collect()
    };
    let (left, right, addends) = (rows(warp, inst.a), rows(warp, inst.c), rows(warp, inst.e));
    for (register, &slot) in program.lists[inst.d as usize].iter().enumerate() {
        let values: [u32; LANES] = std::array::from_fn(|lane| {
            let (row, column) = (lane / 4, lane % 4 * 2 + register % 2);
            let counted: u32 = (0..words)
                .map(|word| {
                    let a = left[word / 4 * bands + register / 2][row * 4 + word % 4];
                    let b = right[word / 4][column * 4 + word % 4];
                    if is_xor { a ^ b } else { a & b }.count_ones()
                })
                .sum();
            addends[register][lane].wrapping_add(counted)
        });
        warp.set_row::<u32>(slot, group, &values);
    }
    Flow::Next
}

/// `.f64`: fragments are laid out as for [`multiply`], an element a register.
/// `imm`: rows, and the depth from bit 8 on.
fn multiply_double(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.b, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let (bands, depth) = (
        (inst.imm & 0xff) as usize / 8,
        (inst.imm >> 8 & 0xff) as usize,
    );
    let program = context.program;
    let rows = |warp: &Warp, list: u32| -> Vec<[u64; LANES]> {
        let slots = program.lists[list as usize].iter();
        slots.map(|&slot| *warp.row::<u64>(context, slot)).collect()
    };
    let (left, right, addends) = (rows(warp, inst.a), rows(warp, inst.c), rows(warp, inst.e));
    for (register, &slot) in program.lists[inst.d as usize].iter().enumerate() {
        let values: [u64; LANES] = std::array::from_fn(|lane| {
            let (row, column) = (lane / 4, lane % 4 * 2 + register % 2);
            let first = f64::from_bits(addends[register][lane]);
            let sum = (0..depth).fold(first, |sum, k| {
                let a = left[k / 4 * bands + register / 2][row * 4 + k % 4];
                let b = right[k / 4][column * 4 + k % 4];
                f64::from_bits(a).mul_add(f64::from_bits(b), sum)
            });
            sum.to_bits()
        });
        warp.set_row::<u64>(slot, group, &values);
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

/// A fragment's registers, which hold so many elements of so many bits.
fn registers<'a>(
    d: &mut Decoder<'a>,
    operand: &'a Operand<'a>,
    (elements, bits): (usize, usize),
    write: bool,
) -> Result<u32, Problem> {
    let class = match bits {
        64 => Class::B64,
        _ => Class::B32,
    };
    let count = elements * bits / (LANES * 8 * class.bytes() as usize);
    let parts = Decoder::vector(operand);
    if parts.len() != count {
        return malformed(format!("{} registers, expected {count}", parts.len()));
    }
    let slots = parts.iter().map(|p| {
        if write {
            d.dst(p, class)
        } else {
            d.src(p, class)
        }
    });
    let slots = slots.collect::<Result<Vec<_>, _>>()?;
    Ok(d.list(slots))
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    match x.mnemonic {
        Mnemonic::Mma => decode_product(d, x),
        Mnemonic::Movmatrix => {
            let everyone = d.constant32(FULL);
            let dst = d.dst(x.op(0)?, Class::B32)?;
            let a = d.src(x.op(1)?, Class::B32)?;
            d.emit_to(transpose, dst, |i| (i.a, i.b) = (a, everyone));
            Ok(())
        }
        _ => decode_access(d, x),
    }
}

/// `ldmatrix`, `stmatrix`
fn decode_access<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let everyone = d.constant32(FULL);
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
    let list = registers(d, x.op(usize::from(!load))?, (64 * count, 16), load)?;
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
    Ok(())
}

/// `mma`
fn decode_product<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let everyone = d.constant32(FULL);
    x.only(&[
        Modifier::Sync,
        Modifier::Aligned,
        Modifier::Row,
        Modifier::Col,
        Modifier::Satfinite,
        Modifier::S4,
        Modifier::U4,
        Modifier::B1,
        Modifier::And,
        Modifier::Xor,
        Modifier::Popc,
        Modifier::Sp,
        Modifier::SpOrderedMetadata,
        Modifier::M8n8k4,
        Modifier::M8n8k16,
        Modifier::M8n8k32,
        Modifier::M8n8k128,
        Modifier::M16n8k4,
        Modifier::M16n8k8,
        Modifier::M16n8k16,
        Modifier::M16n8k32,
        Modifier::M16n8k64,
        Modifier::M16n8k128,
        Modifier::M16n8k256,
    ])?;
    let [dt, at, bt, ct] = element_types(x)[..] else {
        return malformed("mma needs four types");
    };
    let Some((rows, _, depth)) = x.mods.iter().find_map(|m| m.shape()) else {
        return malformed("mma needs a shape");
    };
    let (rows, depth) = (rows as usize, depth as usize);
    let is_double = at == Modifier::F64;
    let (a_bits, b_bits) = match is_double {
        true => (64, 64),
        false => (bits_of(kind_of(at)?), bits_of(kind_of(bt)?)),
    };
    if a_bits != b_bits {
        return malformed("mma of elements of two sizes");
    }
    if (rows, depth) == (8, 4) && at == Modifier::F16 {
        return decode_quarters(d, x, dt, ct);
    }
    let is_sparse = x.has(Modifier::Sp) || x.has(Modifier::SpOrderedMetadata);
    let (sum, sum_bits) = match (dt, ct) {
        (Modifier::F32, Modifier::F32) => (0, 32),
        (Modifier::F16, Modifier::F16) => (1, 16),
        (Modifier::S32, Modifier::S32) => (2, 32),
        (Modifier::F64, Modifier::F64) if is_double => (0, 64),
        _ => return unsupported("mma with sums of two types"),
    };
    let target = registers(d, x.op(0)?, (rows * 8, sum_bits), true)?;
    let stored = if is_sparse { depth / 2 } else { depth };
    let a = registers(d, x.op(1)?, (rows * stored, a_bits), false)?;
    let b = registers(d, x.op(2)?, (depth * 8, b_bits), false)?;
    let c = registers(d, x.op(3)?, (rows * 8, sum_bits), false)?;
    let (metadata, sparse) = match is_sparse {
        false => (0, None),
        true if is_double || at == Modifier::B1 || rows != 16 => {
            return unsupported("sparse matrices of this type");
        }
        true => decode_metadata(d, x, a_bits, depth)?,
    };
    let (run, imm): (Handler, u64) = match at {
        Modifier::F64 => (multiply_double, (rows | depth << 8) as u64),
        Modifier::B1 => {
            let is_xor = usize::from(x.has(Modifier::Xor));
            (
                multiply_bits,
                (rows | (depth / 32) << 8 | is_xor << 16) as u64,
            )
        }
        _ => {
            let shape = Shape {
                a: kind_of(at)?,
                b: kind_of(bt)?,
                rows,
                depth,
                sum,
                saturates: x.has(Modifier::Satfinite),
                sparse,
            };
            (multiply, shape.pack())
        }
    };
    d.emit(run, |i| {
        (i.d, i.a, i.c, i.e, i.b, i.imm) = (target, a, b, c, everyone, imm);
        i.side = metadata;
    });
    Ok(())
}

/// Of a sparse A, the register of the metadata and the selector.
fn decode_metadata<'a>(
    d: &mut Decoder<'a>,
    x: &Ins<'a>,
    bits: usize,
    depth: usize,
) -> Result<(u32, Option<usize>), Problem> {
    let metadata = d.src(x.op(4)?, Class::B32)?;
    let selector = match x.op(5)?.kind {
        OperandKind::Integer(value) => usize::try_from(value).ok(),
        _ => None,
    };
    match selector.filter(|selector| *selector < selectors(bits, depth)) {
        Some(selector) => Ok((metadata, Some(selector))),
        None => malformed("mma.sp selects lanes that hold no metadata"),
    }
}

/// `mma.m8n8k4` of f16: elements of four products.
fn decode_quarters<'a>(
    d: &mut Decoder<'a>,
    x: &Ins<'a>,
    dt: Modifier,
    ct: Modifier,
) -> Result<(), Problem> {
    let everyone = d.constant32(FULL);
    let is_half = |ty: Modifier| match ty {
        Modifier::F16 => Ok(true),
        Modifier::F32 => Ok(false),
        _ => unsupported("mma.m8n8k4 with sums of this type"),
    };
    let mut orders = x.mods.iter().filter_map(|modifier| match modifier {
        Modifier::Row => Some(false),
        Modifier::Col => Some(true),
        _ => None,
    });
    let (Some(a_columns), Some(b_columns)) = (orders.next(), orders.next()) else {
        return malformed("mma needs the order of A and of B");
    };
    let layout = quarters::Layout {
        a_columns,
        b_rows: !b_columns,
        c_half: is_half(ct)?,
        d_half: is_half(dt)?,
    };
    let sum_bits = |half: bool| if half { 16 } else { 32 };
    let target = registers(d, x.op(0)?, (4 * 64, sum_bits(layout.d_half)), true)?;
    let a = registers(d, x.op(1)?, (4 * 32, 16), false)?;
    let b = registers(d, x.op(2)?, (4 * 32, 16), false)?;
    let c = registers(d, x.op(3)?, (4 * 64, sum_bits(layout.c_half)), false)?;
    d.emit(quarters::multiply, |i| {
        (i.d, i.a, i.c, i.e, i.b, i.imm) = (target, a, b, c, everyone, layout.pack())
    });
    Ok(())
}
