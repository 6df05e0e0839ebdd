//! `wmma.load`, `wmma.mma`, `wmma.store` (PTX ISA 9.7.14.4).
//!
//! Where a fragment keeps which element is unspecified. Here, element `e` of
//! the matrix in row-major order is what slot `e` of the fragment holds, lane
//! after lane; fragments with more slots than the matrix has elements hold
//! them again, as on hardware.

use super::matrix::{bits_of, element_types, kind_of, number, rounded};
use super::sync::gather_lanes;
use crate::engine::access::{load_one, store_one, tag_of, value_of_tag};
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, malformed, space, unsupported};
use crate::engine::inst::{Class, Flow, Handler, Inst, NONE};
use crate::engine::lanes::FULL;
use crate::engine::warp::Warp;
use crate::mapping::{AccessFault, LANES};
use ptx::{Modifier, Type};

const SHAPES: [(u32, u32, u32); 7] = [
    (16, 16, 16),
    (32, 8, 16),
    (8, 32, 16),
    (16, 16, 8),
    (8, 8, 4),
    (8, 8, 32),
    (8, 8, 128),
];

/// `.mMnNkK`
fn shape(x: &Ins<'_>) -> Result<(u64, u64, u64), Problem> {
    match x.mods.iter().find_map(|m| m.shape()) {
        Some((m, n, k)) if SHAPES.contains(&(m, n, k)) => Ok((m.into(), n.into(), k.into())),
        _ => unsupported("wmma of this shape"),
    }
}

/// The matrix a load or store moves; in `imm`.
struct Matrix {
    rows: usize,
    columns: usize,
    /// Bits of an element.
    bits: usize,
    column_major: bool,
    /// Bytes that the start of each row, or column, is a multiple of.
    alignment: u64,
}

impl Matrix {
    fn pack(&self) -> u64 {
        self.rows as u64
            | (self.columns as u64) << 8
            | (self.bits as u64) << 16
            | u64::from(self.column_major) << 24
            | self.alignment << 32
    }

    fn unpack(imm: u64) -> Matrix {
        Matrix {
            rows: (imm & 0xff) as usize,
            columns: (imm >> 8 & 0xff) as usize,
            bits: (imm >> 16 & 0xff) as usize,
            column_major: imm >> 24 & 1 != 0,
            alignment: imm >> 32,
        }
    }

    /// Where an element begins: the byte, from the matrix's start, and the bit.
    fn offset(&self, element: usize, stride: u64) -> (u64, u64) {
        let (row, column) = (
            (element / self.columns) as u64,
            (element % self.columns) as u64,
        );
        let place = if self.column_major {
            column * stride + row
        } else {
            row * stride + column
        };
        let bit = place * self.bits as u64;
        (bit / 8, bit % 8)
    }

    /// The first row, or column, that is not aligned.
    fn misaligned(&self, start: u64, stride: u64) -> Option<AccessFault> {
        let count = if self.column_major {
            self.columns
        } else {
            self.rows
        };
        let mut starts = (0..count as u64)
            .map(|index| start.wrapping_add(index * stride * self.bits as u64 / 8));
        let address = starts.find(|address| address % self.alignment != 0)?;
        Some(AccessFault::Misaligned {
            address,
            size: self.alignment,
        })
    }

    fn stride(&self, warp: &Warp, context: &Context<'_>, slot: u32) -> u64 {
        if slot != NONE {
            u64::from(warp.row::<u32>(context, slot)[0])
        } else if self.column_major {
            self.rows as u64
        } else {
            self.columns as u64
        }
    }
}

/// What ptxas relies on for the rows of a fragment: the bytes that a lane loads
/// or stores at once, or `ldmatrix`'s rows of 16, which it uses for factors in
/// shared memory. (That is less than the ISA requires: programs pad rows.)
fn alignment(which: Modifier, shape: (u64, u64, u64), bits: u64, x: &Ins<'_>) -> u64 {
    let is_row = x.has(Modifier::Row);
    let in_shared = x.has(Modifier::Shared) || x.has(Modifier::SharedCta);
    match (which, bits) {
        // A lane has four neighbours along K, contiguous only if rows of A, or
        // columns of B, are.
        (Modifier::A, 8) if !is_row => 1,
        (Modifier::B, 8) if is_row => 1,
        (Modifier::A | Modifier::B, 1 | 4 | 8 | 16) => {
            if in_shared {
                16
            } else {
                4
            }
        }
        (Modifier::A | Modifier::B, _) => bits / 8,
        (_, 16) => 4,
        // Two neighbours in a row. Of 8 rows the transposed product is made: of
        // integers only on some devices.
        _ if shape == (8, 32, 16) && (is_row || x.types.last() != Some(&Type::F32)) => bits / 8,
        _ if shape == (8, 32, 16) || is_row => bits / 4,
        _ => bits / 8,
    }
}

/// Element that a lane's part of a register holds.
fn element(
    lane: usize,
    register: usize,
    part: usize,
    registers: usize,
    spread: usize,
    elements: usize,
) -> usize {
    (lane * registers * spread + register * spread + part) % elements
}

fn load(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.b, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let matrix = Matrix::unpack(inst.imm);
    let stride = matrix.stride(warp, context, inst.c);
    let start = warp.row::<u64>(context, inst.a)[0];
    let space = value_of_tag(inst.side);
    if let Some(fault) = matrix.misaligned(start, stride) {
        return context.fail_access(warp, 0, fault, "matrix");
    }
    let mut values = vec![0u64; matrix.rows * matrix.columns];
    for (index, value) in values.iter_mut().enumerate() {
        let (byte, bit) = matrix.offset(index, stride);
        let address = start.wrapping_add(byte);
        let loaded = match matrix.bits {
            1 | 4 => load_one::<u8>(warp, context, space, 0, address)
                .map(|byte| u64::from(byte >> bit) & ((1 << matrix.bits) - 1)),
            8 => load_one::<u8>(warp, context, space, 0, address).map(u64::from),
            16 => load_one::<u16>(warp, context, space, 0, address).map(u64::from),
            64 => load_one::<u64>(warp, context, space, 0, address),
            _ => load_one::<u32>(warp, context, space, 0, address).map(u64::from),
        };
        match loaded {
            Ok(bits) => *value = bits,
            Err(fault) => return context.fail_access(warp, 0, fault, "matrix"),
        }
    }
    write_fragment(warp, context, inst.d, matrix.bits, &values, group);
    Flow::Next
}

fn store(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    if let Err(flow) = gather_lanes(warp, context, inst.b, mask) {
        return flow;
    }
    let matrix = Matrix::unpack(inst.imm);
    let stride = matrix.stride(warp, context, inst.c);
    let start = warp.row::<u64>(context, inst.a)[0];
    let space = value_of_tag(inst.side);
    if let Some(fault) = matrix.misaligned(start, stride) {
        return context.fail_access(warp, 0, fault, "matrix");
    }
    let values = read_fragment(
        warp,
        context,
        inst.d,
        matrix.bits,
        matrix.rows * matrix.columns,
    );
    for (index, &value) in values.iter().enumerate() {
        // (Sums have whole bytes.)
        let address = start.wrapping_add(matrix.offset(index, stride).0);
        let stored = match matrix.bits {
            16 => store_one(warp, context, space, 0, address, value as u16),
            64 => store_one(warp, context, space, 0, address, value),
            _ => store_one(warp, context, space, 0, address, value as u32),
        };
        if let Err(fault) = stored {
            return context.fail_access(warp, 0, fault, "matrix");
        }
    }
    Flow::Next
}

fn write_fragment(
    warp: &mut Warp,
    context: &Context<'_>,
    list: u32,
    bits: usize,
    values: &[u64],
    group: u32,
) {
    let program = context.program;
    let slots = &program.lists[list as usize];
    for (register, &slot) in slots.iter().enumerate() {
        if bits == 64 {
            let row: [u64; LANES] = std::array::from_fn(|lane| {
                values[element(lane, register, 0, slots.len(), 1, values.len())]
            });
            warp.set_row::<u64>(slot, group, &row);
            continue;
        }
        let spread = 32 / bits;
        let row: [u32; LANES] = std::array::from_fn(|lane| {
            (0..spread).fold(0, |word, part| {
                word | (values[element(lane, register, part, slots.len(), spread, values.len())]
                    as u32)
                    << (part * bits)
            })
        });
        warp.set_row::<u32>(slot, group, &row);
    }
}

fn read_fragment(
    warp: &Warp,
    context: &Context<'_>,
    list: u32,
    bits: usize,
    elements: usize,
) -> Vec<u64> {
    let slots = &context.program.lists[list as usize];
    let mut values = vec![0; elements];
    for (register, &slot) in slots.iter().enumerate() {
        if bits == 64 {
            for (lane, word) in warp.row::<u64>(context, slot).iter().enumerate() {
                values[element(lane, register, 0, slots.len(), 1, elements)] = *word;
            }
            continue;
        }
        let spread = 32 / bits;
        for (lane, word) in warp.row::<u32>(context, slot).iter().enumerate() {
            for part in 0..spread {
                let mask = if bits == 32 {
                    u32::MAX
                } else {
                    (1 << bits) - 1
                };
                values[element(lane, register, part, slots.len(), spread, elements)] =
                    u64::from(word >> (part * bits) & mask);
            }
        }
    }
    values
}

/// `imm`: M, N, K, kind of A, kind of B, forms of C and D (0: f32, 1: f16, 2:
/// s32), `.satfinite`, `.xor`.
fn multiply(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.b, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let byte = |n: u32| (inst.imm >> n & 0xff) as usize;
    let (m, n, k) = (byte(0), byte(8), byte(16));
    let (a_kind, b_kind) = (inst.imm >> 24 & 0xf, inst.imm >> 28 & 0xf);
    let (c_form, d_form) = (inst.imm >> 32 & 0xf, inst.imm >> 36 & 0xf);
    let (saturates, is_xor) = (inst.imm >> 40 & 1 != 0, inst.imm >> 41 & 1 != 0);
    let bits = |form: u64| if form == 1 { 16 } else { 32 };
    let a = read_fragment(warp, context, inst.a, bits_of(a_kind), m * k);
    let b = read_fragment(warp, context, inst.c, bits_of(b_kind), k * n);
    let c = read_fragment(warp, context, inst.e, bits(c_form), m * n);
    let d: Vec<u64> = (0..m * n)
        .map(|e| {
            let product: f64 = (0..k)
                .map(|i| {
                    let (left, right) = (a[e / n * k + i], b[i * n + e % n]);
                    match is_xor {
                        true => number(a_kind, (left ^ right) as u32),
                        false => number(a_kind, left as u32) * number(b_kind, right as u32),
                    }
                })
                .sum();
            let sum = rounded(product, c[e] as u32, c_form, d_form, saturates);
            u64::from(sum)
        })
        .collect();
    write_fragment(warp, context, inst.d, bits(d_form), &d, group);
    Flow::Next
}

/// `.f64`: each product is added by a fused multiply-add, in the order of K.
/// `imm` as for [`multiply`], sizes only.
fn multiply_double(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.b, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let byte = |n: u32| (inst.imm >> n & 0xff) as usize;
    let (m, n, k) = (byte(0), byte(8), byte(16));
    let a = read_fragment(warp, context, inst.a, 64, m * k);
    let b = read_fragment(warp, context, inst.c, 64, k * n);
    let c = read_fragment(warp, context, inst.e, 64, m * n);
    let d: Vec<u64> = (0..m * n)
        .map(|e| {
            let sum = (0..k).fold(f64::from_bits(c[e]), |sum, i| {
                let (left, right) = (a[e / n * k + i], b[i * n + e % n]);
                f64::from_bits(left).mul_add(f64::from_bits(right), sum)
            });
            sum.to_bits()
        })
        .collect();
    write_fragment(warp, context, inst.d, 64, &d, group);
    Flow::Next
}

/// Registers of a fragment: the list of them, and how many.
fn fragment<'a>(
    d: &mut Decoder<'a>,
    x: &Ins<'a>,
    index: usize,
    class: Class,
    write: bool,
) -> Result<(u32, usize), Problem> {
    let parts = Decoder::vector(x.op(index)?);
    let slots = parts.iter().map(|p| {
        if write {
            d.dst(p, class)
        } else {
            d.src(p, class)
        }
    });
    let slots = slots.collect::<Result<Vec<_>, _>>()?;
    Ok((d.list(slots), parts.len()))
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let everyone = d.constant32(FULL);
    let (m, n, k) = shape(x)?;
    let action = x.mods.first().copied().unwrap_or(Modifier::Unknown);
    let double = x.types.contains(&Type::F64);
    if double != ((m, n, k) == (8, 8, 4)) {
        return unsupported("wmma of this type in this shape");
    }
    let class = if double { Class::B64 } else { Class::B32 };
    if action == Modifier::Load || action == Modifier::Store {
        return decode_access(d, x, everyone, class, action == Modifier::Load);
    }
    let (target, _) = fragment(d, x, 0, class, true)?;
    let (a, _) = fragment(d, x, 1, class, false)?;
    let (b, _) = fragment(d, x, 2, class, false)?;
    let (c, _) = fragment(d, x, 3, class, false)?;
    let sizes = m | n << 8 | k << 16;
    let (run, imm): (Handler, u64) = if double {
        (multiply_double, sizes)
    } else {
        (multiply, sizes | types(x)?)
    };
    d.emit(run, |i| {
        (i.d, i.a, i.c, i.e, i.b, i.imm) = (target, a, b, c, everyone, imm)
    });
    Ok(())
}

/// The part of `imm` of [`multiply`] that says which types there are.
fn types(x: &Ins<'_>) -> Result<u64, Problem> {
    let (dt, at, bt, ct) = match element_types(x)[..] {
        [dt, ct] => (dt, Modifier::F16, Modifier::F16, ct),
        [dt, at, bt, ct] => (dt, at, bt, ct),
        _ => return malformed("wmma.mma needs its types"),
    };
    let form = |ty| {
        Ok(match ty {
            Modifier::F32 => 0u64,
            Modifier::F16 => 1,
            Modifier::S32 => 2,
            _ => return unsupported("wmma with sums of this type"),
        })
    };
    Ok(kind_of(at)? << 24
        | kind_of(bt)? << 28
        | form(ct)? << 32
        | form(dt)? << 36
        | u64::from(x.has(Modifier::Satfinite)) << 40
        | u64::from(x.has(Modifier::Xor)) << 41)
}

/// `wmma.load` and `wmma.store`.
fn decode_access<'a>(
    d: &mut Decoder<'a>,
    x: &Ins<'a>,
    everyone: u32,
    class: Class,
    is_load: bool,
) -> Result<(), Problem> {
    let (m, n, k) = shape(x)?;
    let which = x.mods.get(1).copied().unwrap_or(Modifier::Unknown);
    let (rows, columns) = match which {
        Modifier::A => (m, k),
        Modifier::B => (k, n),
        _ => (m, n),
    };
    let bits = match element_types(x).last() {
        Some(Modifier::F32 | Modifier::S32) => 32,
        Some(Modifier::F64) => 64,
        Some(&ty) => bits_of(kind_of(ty)?) as u64,
        None => return malformed("wmma needs a type"),
    };
    let (list, count) = fragment(d, x, usize::from(!is_load), class, is_load)?;
    if count as u64 * 32 * u64::from(class.bytes()) * 8 < rows * columns * bits {
        return malformed("too few registers for the fragment");
    }
    let address = d.address(x.op(usize::from(is_load))?, space(x))?;
    let a = d.address_value(&address);
    let stride = if x.ops.len() > 2 {
        d.src(x.op(2)?, Class::B32)?
    } else {
        NONE
    };
    let matrix = Matrix {
        rows: rows as usize,
        columns: columns as usize,
        bits: bits as usize,
        column_major: x.has(Modifier::Col),
        alignment: alignment(which, (m, n, k), bits, x),
    };
    let run = if is_load { load } else { store };
    d.emit(run, |i| {
        (i.d, i.a, i.b, i.c, i.side, i.imm) = (
            list,
            a,
            everyone,
            stride,
            tag_of(address.space),
            matrix.pack(),
        )
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CPU device and the instruction table, from which checks are made,
    /// require the same alignment of every fragment.
    #[test]
    fn fragments_are_aligned_as_the_table_says() {
        let mut fragments = Vec::new();
        for shape in ["m16n16k16", "m8n32k16", "m32n8k16"] {
            for factor in ["load.a", "load.b"] {
                for ty in ["f16", "bf16", "s8", "u8"] {
                    fragments.push((factor, shape, ty));
                }
            }
            for sum in ["load.c", "store.d"] {
                for ty in ["f16", "f32", "s32"] {
                    fragments.push((sum, shape, ty));
                }
            }
        }
        for (which, ty) in [("load.a", "tf32"), ("load.b", "tf32"), ("load.c", "f32")] {
            fragments.push((which, "m16n16k8", ty));
        }
        for which in ["load.a", "load.b", "load.c", "store.d"] {
            fragments.push((which, "m8n8k4", "f64"));
        }
        for (shape, types) in [("m8n8k32", &["s4", "u4"][..]), ("m8n8k128", &["b1"])] {
            for &ty in types {
                fragments.push(("load.a", shape, ty));
                fragments.push(("load.b", shape, ty));
            }
            fragments.push(("load.c", shape, "s32"));
            fragments.push(("store.d", shape, "s32"));
        }
        for (which, shape, ty) in fragments {
            for layout in ["row", "col"] {
                for space in ["", ".global", ".shared", ".shared::cta"] {
                    let opcode = format!("wmma.{which}.sync.aligned.{layout}.{shape}{space}.{ty}");
                    let operands = match which {
                        "store.d" => "[%rd1], {%r1}, %r2",
                        _ => "{%r1}, [%rd1], %r2",
                    };
                    let text = format!(
                        ".version 8.6\n.target sm_90\n.address_size 64\n.entry k()\n{{\n{opcode} {operands};\n}}\n"
                    );
                    let module = ptx::parse(&text).unwrap();
                    let function = module.functions().next().unwrap();
                    let instruction = function.instructions().next().unwrap();
                    let x = Ins::new(instruction);
                    let bits = match *element_types(&x).last().unwrap() {
                        Modifier::B1 => 1,
                        Modifier::S4 | Modifier::U4 => 4,
                        _ => u64::from(x.ty().unwrap().bytes()) * 8,
                    };
                    let own = alignment(
                        Modifier::of(&which[which.len() - 1..]),
                        super::shape(&x).unwrap(),
                        bits,
                        &x,
                    );
                    let access = &ptx::table::classify(instruction).unwrap().accesses[0];
                    assert_eq!(own, u64::from(access.alignment), "{opcode}");
                }
            }
        }
    }
}
