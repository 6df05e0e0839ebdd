//! f32 and f64 arithmetic (PTX ISA 9.7.3).

use super::integer::{binary, ternary, unary};
use crate::arith::float::{self, Extremum, Mode};
use crate::arith::{Round, approx, compare};
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, unsupported};
use crate::engine::inst::{Class, Flow, Handler, Inst};
use crate::engine::lanes::{FULL, lanes, one, operations, two};
use crate::engine::warp::Warp;
use crate::mapping::{LANES, Twice, twice};
use ptx::{Mnemonic, Modifier, Type};

/// Modifiers as [`Inst::imm`].
pub(crate) fn pack(x: &Ins<'_>) -> u64 {
    let round = x
        .mods
        .iter()
        .find_map(|m| Round::from_modifier(*m))
        .unwrap_or_default();
    let round = match round {
        Round::Nearest => 0,
        Round::Zero => 1,
        Round::Down => 2,
        Round::Up => 3,
        Round::Away => 4,
    };
    round
        | u64::from(x.has(Modifier::Ftz)) << 3
        | u64::from(x.has(Modifier::Sat)) << 4
        | u64::from(x.has(Modifier::NaN)) << 5
        | u64::from(x.has(Modifier::Xorsign)) << 6
        | u64::from(x.has(Modifier::Relu)) << 7
        | u64::from(x.has(Modifier::Satfinite)) << 8
}

#[inline(always)]
pub(crate) fn round(k: u64) -> Round {
    match k & 7 {
        0 => Round::Nearest,
        1 => Round::Zero,
        2 => Round::Down,
        3 => Round::Up,
        _ => Round::Away,
    }
}

#[inline(always)]
pub(crate) fn ftz(k: u64) -> bool {
    k & 1 << 3 != 0
}

#[inline(always)]
fn mode(k: u64) -> Mode {
    Mode {
        round: round(k),
        ftz: ftz(k),
        sat: k & 1 << 4 != 0,
    }
}

#[inline(always)]
pub(crate) fn extremum(k: u64) -> Extremum {
    Extremum {
        ftz: ftz(k),
        nan: k & 1 << 5 != 0,
        xorsign_abs: k & 1 << 6 != 0,
    }
}

const PLAIN: Mode = Mode {
    round: Round::Nearest,
    ftz: false,
    sat: false,
};
const FTZ: Mode = Mode {
    round: Round::Nearest,
    ftz: true,
    sat: false,
};

operations! {
    hot AddF32(k; a: f32, b: f32) -> f32 = float::add_f32(a, b, PLAIN);
    hot SubF32(k; a: f32, b: f32) -> f32 = float::sub_f32(a, b, PLAIN);
    hot MulF32(k; a: f32, b: f32) -> f32 = float::mul_f32(a, b, PLAIN);
    hot AddF32Ftz(k; a: f32, b: f32) -> f32 = float::add_f32(a, b, FTZ);
    hot SubF32Ftz(k; a: f32, b: f32) -> f32 = float::sub_f32(a, b, FTZ);
    hot MulF32Ftz(k; a: f32, b: f32) -> f32 = float::mul_f32(a, b, FTZ);
    cold AddF32Any(k; a: f32, b: f32) -> f32 = float::add_f32(a, b, mode(k));
    cold SubF32Any(k; a: f32, b: f32) -> f32 = float::sub_f32(a, b, mode(k));
    cold MulF32Any(k; a: f32, b: f32) -> f32 = float::mul_f32(a, b, mode(k));
    cold DivF32(k; a: f32, b: f32) -> f32 = float::div_f32(a, b, mode(k));
    cold DivApprox(k; a: f32, b: f32) -> f32 = approx::div(a, b, ftz(k));
    cold DivFull(k; a: f32, b: f32) -> f32 = approx::div_full(a, b, ftz(k));
    cold MinF32(k; a: f32, b: f32) -> f32 = float::min_f32(a, b, extremum(k));
    cold MaxF32(k; a: f32, b: f32) -> f32 = float::max_f32(a, b, extremum(k));
    cold MinF64(k; a: f64, b: f64) -> f64 = float::min_f64(a, b, extremum(k));
    cold MaxF64(k; a: f64, b: f64) -> f64 = float::max_f64(a, b, extremum(k));
    hot AddF64(k; a: f64, b: f64) -> f64 = float::add_f64(a, b, Round::Nearest);
    hot SubF64(k; a: f64, b: f64) -> f64 = float::sub_f64(a, b, Round::Nearest);
    hot MulF64(k; a: f64, b: f64) -> f64 = float::mul_f64(a, b, Round::Nearest);
    cold AddF64Any(k; a: f64, b: f64) -> f64 = float::add_f64(a, b, round(k));
    cold SubF64Any(k; a: f64, b: f64) -> f64 = float::sub_f64(a, b, round(k));
    cold MulF64Any(k; a: f64, b: f64) -> f64 = float::mul_f64(a, b, round(k));
    cold DivF64(k; a: f64, b: f64) -> f64 = float::div_f64(a, b, round(k));
    cold CopysignF32(k; a: f32, b: f32) -> f32 = compare::copysign_f32(a, b);
    cold CopysignF64(k; a: f64, b: f64) -> f64 = compare::copysign_f64(a, b);
}

operations! {
    cold RcpF32(k; a: f32) -> f32 = float::rcp_f32(a, mode(k));
    cold RcpApprox(k; a: f32) -> f32 = approx::rcp(a, ftz(k));
    cold RcpF64(k; a: f64) -> f64 = float::rcp_f64(a, round(k));
    cold RcpApproxF64(k; a: f64) -> f64 = approx::rcp_f64(a);
    cold SqrtF32(k; a: f32) -> f32 = float::sqrt_f32(a, mode(k));
    cold SqrtApprox(k; a: f32) -> f32 = approx::sqrt(a, ftz(k));
    cold SqrtF64(k; a: f64) -> f64 = float::sqrt_f64(a, round(k));
    cold Rsqrt(k; a: f32) -> f32 = approx::rsqrt(a, ftz(k));
    cold RsqrtF64(k; a: f64) -> f64 = approx::rsqrt_f64(a);
    cold RsqrtF64Ftz(k; a: f64) -> f64 = approx::rsqrt_f64_ftz(a);
    cold Sin(k; a: f32) -> f32 = approx::sin(a, ftz(k));
    cold Cos(k; a: f32) -> f32 = approx::cos(a, ftz(k));
    cold Lg2(k; a: f32) -> f32 = approx::lg2(a, ftz(k));
    cold Ex2(k; a: f32) -> f32 = approx::ex2(a, ftz(k));
    cold Tanh(k; a: f32) -> f32 = approx::tanh(a);
    hot AbsF32(k; a: f32) -> f32 = float::abs_f32(a, ftz(k));
    hot NegF32(k; a: f32) -> f32 = float::neg_f32(a, ftz(k));
    hot AbsF64(k; a: f64) -> f64 = a.abs();
    hot NegF64(k; a: f64) -> f64 = -a;
}

/// `fma.f32`. The two compilations differ in how they get the one rounding.
struct Fma32<'r, 'c> {
    warp: &'r mut Warp,
    context: &'r Context<'c>,
    inst: &'r Inst,
    mask: u32,
    mode: Mode,
}

impl Twice for Fma32<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run(self, wide: bool) {
        let Fma32 {
            warp,
            context,
            inst,
            mask,
            mode,
        } = self;
        let a = *warp.row::<u32>(context, inst.a);
        let b = *warp.row::<u32>(context, inst.b);
        let c = *warp.row::<u32>(context, inst.c);
        let d = warp.row_mut::<u32>(inst.d);
        let f = |lane: usize, mode| {
            let (a, b, c) = (
                f32::from_bits(a[lane]),
                f32::from_bits(b[lane]),
                f32::from_bits(c[lane]),
            );
            float::fma_f32_on(a, b, c, mode, wide).to_bits()
        };
        if mask != FULL || mode != PLAIN {
            for lane in lanes(mask) {
                d[lane] = f(lane, mode);
            }
        } else {
            for lane in 0..LANES {
                d[lane] = f(lane, PLAIN);
            }
        }
    }
}

fn fma_f32(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let context = &*context;
    twice(
        context.wide,
        Fma32 {
            warp,
            context,
            inst,
            mask,
            mode: mode(inst.imm),
        },
    );
    Flow::Next
}

/// `fma.f64`.
struct Fma64<'r, 'c> {
    warp: &'r mut Warp,
    context: &'r Context<'c>,
    inst: &'r Inst,
    mask: u32,
}

impl Twice for Fma64<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run(self, _: bool) {
        let Fma64 {
            warp,
            context,
            inst,
            mask,
        } = self;
        let a = *warp.row::<u64>(context, inst.a);
        let b = *warp.row::<u64>(context, inst.b);
        let c = *warp.row::<u64>(context, inst.c);
        let d = warp.row_mut::<u64>(inst.d);
        let f = |lane: usize, round| {
            let (a, b, c) = (
                f64::from_bits(a[lane]),
                f64::from_bits(b[lane]),
                f64::from_bits(c[lane]),
            );
            float::fma_f64(a, b, c, round).to_bits()
        };
        if mask != FULL || inst.imm != 0 {
            for lane in lanes(mask) {
                d[lane] = f(lane, round(inst.imm));
            }
        } else {
            for lane in 0..LANES {
                d[lane] = f(lane, Round::Nearest);
            }
        }
    }
}

fn fma_f64(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let context = &*context;
    twice(
        context.wide,
        Fma64 {
            warp,
            context,
            inst,
            mask,
        },
    );
    Flow::Next
}

/// Two f32 in a 64-bit register.
fn packed_f32<const KIND: u8>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let a = *warp.row::<u64>(context, inst.a);
    let b = *warp.row::<u64>(context, inst.b);
    let c = *warp.row::<u64>(context, inst.c);
    let mode = mode(inst.imm);
    let d = warp.row_mut::<u64>(inst.d);
    for lane in lanes(mask) {
        let half = |shift: u32| {
            let [a, b, c] =
                [a[lane], b[lane], c[lane]].map(|x| f32::from_bits((x >> shift) as u32));
            let x = match KIND {
                0 => float::add_f32(a, b, mode),
                1 => float::sub_f32(a, b, mode),
                2 => float::mul_f32(a, b, mode),
                _ => float::fma_f32(a, b, c, mode),
            };
            u64::from(x.to_bits()) << shift
        };
        d[lane] = half(0) | half(32);
    }
    Flow::Next
}

#[expect(clippy::too_many_lines, reason = "a table: an arm for each opcode")]
pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    x.only(&[
        Modifier::Rn,
        Modifier::Rz,
        Modifier::Rm,
        Modifier::Rp,
        Modifier::Ftz,
        Modifier::Sat,
        Modifier::Approx,
        Modifier::Full,
        Modifier::NaN,
        Modifier::Xorsign,
        Modifier::Abs,
    ])?;
    let ty = x.ty()?;
    if matches!(ty, Type::F16 | Type::F16x2 | Type::BF16 | Type::BF16x2) {
        return super::half::decode(d, x);
    }
    let imm = pack(x);
    let approx = x.has(Modifier::Approx);
    let (class, single) = match ty {
        Type::F32 => (Class::B32, true),
        Type::F64 => (Class::B64, false),
        Type::F32x2 => return packed(d, x, imm),
        _ => return unsupported(format!("type {ty:?} here")),
    };
    let plain = |fast: Handler, flush: Handler, any: Handler| match imm {
        0 => fast,
        8 => flush,
        _ => any,
    };
    let run: Handler = match (x.mnemonic, single) {
        (Mnemonic::Add, true) => plain(two::<AddF32>, two::<AddF32Ftz>, two::<AddF32Any>),
        (Mnemonic::Sub, true) => plain(two::<SubF32>, two::<SubF32Ftz>, two::<SubF32Any>),
        (Mnemonic::Mul, true) => plain(two::<MulF32>, two::<MulF32Ftz>, two::<MulF32Any>),
        (Mnemonic::Add, false) => plain(two::<AddF64>, two::<AddF64>, two::<AddF64Any>),
        (Mnemonic::Sub, false) => plain(two::<SubF64>, two::<SubF64>, two::<SubF64Any>),
        (Mnemonic::Mul, false) => plain(two::<MulF64>, two::<MulF64>, two::<MulF64Any>),
        (Mnemonic::Div, true) if approx => two::<DivApprox>,
        (Mnemonic::Div, true) if x.has(Modifier::Full) => two::<DivFull>,
        (Mnemonic::Div, true) => two::<DivF32>,
        (Mnemonic::Div, false) => two::<DivF64>,
        (Mnemonic::Min | Mnemonic::Max, _) if x.ops.len() == 4 => {
            // Three inputs: the extremum of an extremum.
            let run = match (x.mnemonic, single) {
                (Mnemonic::Min, true) => two::<MinF32>,
                (Mnemonic::Max, true) => two::<MaxF32>,
                _ => return unsupported("extremum of three f64"),
            };
            let dst = d.dst(&x.ops[0], class)?;
            let (a, b, c) = (
                d.src(&x.ops[1], class)?,
                d.src(&x.ops[2], class)?,
                d.src(&x.ops[3], class)?,
            );
            let first: Handler = run;
            let temporary = d.register(class);
            d.emit_helper(first, |i| (i.d, i.a, i.b, i.imm) = (temporary, a, b, imm));
            d.emit_to(run, dst, |i| (i.a, i.b, i.imm) = (temporary, c, imm));
            return Ok(());
        }
        (Mnemonic::Min, true) => two::<MinF32>,
        (Mnemonic::Max, true) => two::<MaxF32>,
        (Mnemonic::Min, false) => two::<MinF64>,
        (Mnemonic::Max, false) => two::<MaxF64>,
        (Mnemonic::Copysign, true) => two::<CopysignF32>,
        (Mnemonic::Copysign, false) => two::<CopysignF64>,
        (Mnemonic::Fma | Mnemonic::Mad, true) => return ternary(d, x, class, fma_f32, imm),
        (Mnemonic::Fma | Mnemonic::Mad, false) => return ternary(d, x, class, fma_f64, imm),
        _ => {
            let run: Handler = match (x.mnemonic, single) {
                (Mnemonic::Rcp, true) if approx => one::<RcpApprox>,
                (Mnemonic::Rcp, true) => one::<RcpF32>,
                (Mnemonic::Rcp, false) if approx => one::<RcpApproxF64>,
                (Mnemonic::Rcp, false) => one::<RcpF64>,
                (Mnemonic::Sqrt, true) if approx => one::<SqrtApprox>,
                (Mnemonic::Sqrt, true) => one::<SqrtF32>,
                (Mnemonic::Sqrt, false) => one::<SqrtF64>,
                (Mnemonic::Rsqrt, true) => one::<Rsqrt>,
                (Mnemonic::Rsqrt, false) if x.has(Modifier::Ftz) => one::<RsqrtF64Ftz>,
                (Mnemonic::Rsqrt, false) => one::<RsqrtF64>,
                (Mnemonic::Sin, true) => one::<Sin>,
                (Mnemonic::Cos, true) => one::<Cos>,
                (Mnemonic::Lg2, true) => one::<Lg2>,
                (Mnemonic::Ex2, true) => one::<Ex2>,
                (Mnemonic::Tanh, true) => one::<Tanh>,
                (Mnemonic::Abs, true) => one::<AbsF32>,
                (Mnemonic::Neg, true) => one::<NegF32>,
                (Mnemonic::Abs, false) => one::<AbsF64>,
                (Mnemonic::Neg, false) => one::<NegF64>,
                _ => return unsupported("floating-point instruction"),
            };
            return unary(d, x, class, class, run, imm);
        }
    };
    let before = d.out.code.len();
    binary(d, x, class, run)?;
    for inst in &mut d.out.code[before..] {
        if inst.counted {
            inst.imm = imm;
        }
    }
    Ok(())
}

fn packed<'a>(d: &mut Decoder<'a>, x: &Ins<'a>, imm: u64) -> Result<(), Problem> {
    let run: Handler = match x.mnemonic {
        Mnemonic::Add => packed_f32::<0>,
        Mnemonic::Sub => packed_f32::<1>,
        Mnemonic::Mul => packed_f32::<2>,
        Mnemonic::Fma => packed_f32::<3>,
        _ => return unsupported("packed f32 instruction"),
    };
    let dst = d.dst(x.op(0)?, Class::B64)?;
    let (a, b) = (d.src(x.op(1)?, Class::B64)?, d.src(x.op(2)?, Class::B64)?);
    let c = if x.mnemonic == Mnemonic::Fma {
        d.src(x.op(3)?, Class::B64)?
    } else {
        b
    };
    d.emit_to(run, dst, |i| (i.a, i.b, i.c, i.imm) = (a, b, c, imm));
    Ok(())
}
