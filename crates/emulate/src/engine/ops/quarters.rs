//! `mma.m8n8k4` of f16, which was made for sm_70 (PTX ISA, "Matrix Fragments
//! for mma.m8n8k4 with .f16 floating point type"): each quarter of a warp,
//! lanes `4 q` to `4 q + 3` and the same behind lane 16, makes a product of its
//! own.

use super::matrix::{HALF, number, rounded};
use super::sync::gather_lanes;
use crate::engine::context::Context;
use crate::engine::inst::{Flow, Inst};
use crate::engine::warp::Warp;
use crate::mapping::LANES;

/// How operands are laid out, packed into `imm`.
pub(super) struct Layout {
    /// A is stored by columns.
    pub a_columns: bool,
    /// B is stored by rows.
    pub b_rows: bool,
    /// C is of f16, not f32.
    pub c_half: bool,
    /// D is of f16, not f32.
    pub d_half: bool,
}

impl Layout {
    pub(super) fn pack(&self) -> u64 {
        let bits = [self.a_columns, self.b_rows, self.c_half, self.d_half];
        let bits = bits.into_iter().enumerate();
        bits.map(|(at, bit)| u64::from(bit) << at).sum()
    }

    fn unpack(imm: u64) -> Layout {
        let bit = |at: u32| imm >> at & 1 != 0;
        Layout {
            a_columns: bit(0),
            b_rows: bit(1),
            c_half: bit(2),
            d_half: bit(3),
        }
    }
}

/// The lane of a quarter that holds row (or column) `index` of eight.
fn lane_of(quarter: usize, index: usize) -> usize {
    4 * quarter + index % 4 + index / 4 * 16
}

/// Where row and column of a sum lie: lane and element of the lane's eight.
fn place(quarter: usize, row: usize, column: usize, half: bool) -> (usize, usize) {
    if half {
        return (lane_of(quarter, row), column);
    }
    // Of f32, pairs of rows and of columns take turns.
    let lane = lane_of(quarter, row / 4 * 4 + (row & 1) + (column & 2));
    (lane, (column & 4) + (row & 2) + (column & 1))
}

/// Element `index` of a lane, of registers that hold two f16 each.
fn half_of(registers: &[[u32; LANES]], lane: usize, index: usize) -> u32 {
    registers[index / 2][lane] >> (16 * (index % 2)) & 0xffff
}

pub(super) fn multiply(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let group = match gather_lanes(warp, context, inst.b, mask) {
        Ok(group) => group,
        Err(flow) => return flow,
    };
    let layout = Layout::unpack(inst.imm);
    let program = context.program;
    let rows = |warp: &Warp, list: u32| -> Vec<[u32; LANES]> {
        let slots = program.lists[list as usize].iter();
        slots.map(|&slot| *warp.row::<u32>(context, slot)).collect()
    };
    let (left, right, addends) = (rows(warp, inst.a), rows(warp, inst.c), rows(warp, inst.e));
    let targets = &program.lists[inst.d as usize];
    let mut sums = vec![[0u32; LANES]; targets.len()];
    for index in 0..4 * 64 {
        let (quarter, row, column) = (index / 64, index / 8 % 8, index % 8);
        let a = |k: usize| match layout.a_columns {
            true => half_of(&left, lane_of(quarter, k + row / 4 * 4), row % 4),
            false => half_of(&left, lane_of(quarter, row), k),
        };
        let b = |k: usize| match layout.b_rows {
            true => half_of(&right, lane_of(quarter, k + column / 4 * 4), column % 4),
            false => half_of(&right, lane_of(quarter, column), k),
        };
        let product = (0..4).map(|k| number(HALF, a(k)) * number(HALF, b(k)));
        let (lane, element) = place(quarter, row, column, layout.c_half);
        let addend = match layout.c_half {
            true => half_of(&addends, lane, element),
            false => addends[element][lane],
        };
        let forms = (u64::from(layout.c_half), u64::from(layout.d_half));
        let sum = rounded(product.sum(), addend, forms.0, forms.1, false);
        let (lane, element) = place(quarter, row, column, layout.d_half);
        match layout.d_half {
            true => sums[element / 2][lane] |= sum << (16 * (element % 2)),
            false => sums[element][lane] = sum,
        }
    }
    for (&slot, values) in targets.iter().zip(&sums) {
        warp.set_row::<u32>(slot, group, values);
    }
    Flow::Next
}
