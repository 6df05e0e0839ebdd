//! Video instructions: scalar and SIMD within a register (PTX ISA 9.7.17).

use crate::arith::compare::Compare;
use crate::arith::packed::{Simd, Video, simd, simd_set};
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, malformed, unsupported};
use crate::engine::inst::{Class, Flow, Inst};
use crate::engine::lanes::lanes;
use crate::engine::warp::Warp;
use ptx::{Mnemonic, Modifier, Type};

const OPERATIONS: [Video; 6] = [
    Video::Add,
    Video::Sub,
    Video::Average,
    Video::AbsDiff,
    Video::Min,
    Video::Max,
];
const RELATIONS: [Compare; 6] = [
    Compare::Eq,
    Compare::Ne,
    Compare::Lt,
    Compare::Le,
    Compare::Gt,
    Compare::Ge,
];

/// `imm`: operation (from 16 on: relation of `vset`) in the low byte, then
/// bits of an element, signs of d, a, b, `.sat`, `.add`, element mask.
fn packed(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let a = *warp.row::<u32>(context, inst.a);
    let b = *warp.row::<u32>(context, inst.b);
    let c = *warp.row::<u32>(context, inst.c);
    let bit = |n: u32| inst.imm >> n & 1 != 0;
    let options = Simd {
        bits: (inst.imm >> 8 & 0xff) as u32,
        d_signed: bit(16),
        a_signed: bit(17),
        b_signed: bit(18),
        sat: bit(19),
        accumulate: bit(20),
        mask: (inst.imm >> 24 & 0xf) as u32,
    };
    let operation = (inst.imm & 0xff) as usize;
    for lane in lanes(mask) {
        let value = if operation < 16 {
            simd(
                OPERATIONS[operation % 6],
                a[lane],
                b[lane],
                c[lane],
                options,
            )
        } else {
            simd_set(
                RELATIONS[(operation - 16) % 6],
                a[lane],
                b[lane],
                c[lane],
                options,
            )
        };
        warp.row_mut::<u32>(inst.d)[lane] = value;
    }
    Flow::Next
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let bits = match x.mnemonic {
        Mnemonic::Vadd2
        | Mnemonic::Vsub2
        | Mnemonic::Vavrg2
        | Mnemonic::Vabsdiff2
        | Mnemonic::Vmin2
        | Mnemonic::Vmax2
        | Mnemonic::Vset2 => 16,
        Mnemonic::Vadd4
        | Mnemonic::Vsub4
        | Mnemonic::Vavrg4
        | Mnemonic::Vabsdiff4
        | Mnemonic::Vmin4
        | Mnemonic::Vmax4
        | Mnemonic::Vset4 => 8,
        _ => return unsupported("scalar video instruction"),
    };
    let relation = x
        .mods
        .iter()
        .find_map(|m| Compare::from_modifier(*m))
        .and_then(|relation| RELATIONS.iter().position(|r| *r == relation));
    let operation = match (Video::from_opcode(x.mnemonic), relation) {
        (Some(video), _) => OPERATIONS.iter().position(|o| *o == video).unwrap_or(0),
        (None, Some(relation)) if matches!(x.mnemonic, Mnemonic::Vset2 | Mnemonic::Vset4) => {
            16 + relation
        }
        _ => return unsupported("video instruction"),
    };
    x.count(4, 4)?;
    if x.mod_texts()
        .any(|m| m.starts_with(['b', 'h']) && m.len() == 5)
        || x.ops.iter().any(
            |o| matches!(o.kind, ptx::OperandKind::Name(n) if n.contains(".b") || n.contains(".h")),
        )
    {
        return unsupported("video instruction with selectors");
    }
    let (dt, at, bt) = match x.types[..] {
        [dt, at, bt] => (dt, at, bt),
        // `vset` names only the types that are compared.
        [at, bt] => (Type::U32, at, bt),
        _ => return malformed("video instruction without its types"),
    };
    let signed = |ty: Type, bit: u32| u64::from(ty == Type::S32) << bit;
    let imm = operation as u64
        | bits << 8
        | signed(dt, 16)
        | signed(at, 17)
        | signed(bt, 18)
        | u64::from(x.has(Modifier::Sat)) << 19
        | u64::from(x.has(Modifier::Add)) << 20
        | (if bits == 16 { 3 } else { 15 }) << 24;
    let dst = d.dst(&x.ops[0], Class::B32)?;
    let (a, b, c) = (
        d.src(&x.ops[1], Class::B32)?,
        d.src(&x.ops[2], Class::B32)?,
        d.src(&x.ops[3], Class::B32)?,
    );
    d.emit_to(packed, dst, |i| (i.a, i.b, i.c, i.imm) = (a, b, c, imm));
    Ok(())
}
