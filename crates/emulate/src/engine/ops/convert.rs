//! `cvt` (PTX ISA 9.7.9.21).

use super::float::{ftz, pack, round};
use crate::arith::Round;
use crate::arith::convert as c;
use crate::arith::half::{self, BF16, F16};
use crate::arith::integer::Integer;
use crate::arith::narrow::{self, Fp8};
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, malformed, unsupported};
use crate::engine::inst::{Class, Flow, Handler, Inst};
use crate::engine::lanes::{Raw, lanes, one, operations, three, two};
use crate::engine::warp::Warp;
use ptx::{Modifier, Type};
use std::marker::PhantomData;

const SAT: u64 = 1 << 4;
const RELU: u64 = 1 << 7;
const SATFINITE: u64 = 1 << 8;
/// The rounding is one to integral values (`.rni` …), of floats to floats.
const INTEGRAL: u64 = 1 << 9;

/// A conversion between 64-bit carriers of two types.
trait Convert: 'static {
    fn f(k: u64, bits: u64) -> u64;
}

/// Integer to integer.
struct Integers<S, D>(PhantomData<(S, D)>);
impl<S: Integer + 'static, D: Integer + 'static> Convert for Integers<S, D> {
    #[inline(always)]
    fn f(k: u64, bits: u64) -> u64 {
        let x = S::from_bits(bits);
        if k & SAT != 0 {
            c::integer_sat::<S, D>(x)
        } else {
            c::integer::<S, D>(x)
        }
        .extended()
    }
}

/// Integer to float.
struct FromInteger<S, const TO: u8>(PhantomData<S>);
impl<S: Integer + 'static, const TO: u8> Convert for FromInteger<S, TO> {
    #[inline(always)]
    fn f(k: u64, bits: u64) -> u64 {
        let (x, mode) = (S::from_bits(bits), round(k));
        match TO {
            F32 => {
                let y = c::integer_to_f32(x, mode);
                u64::from(if k & SAT != 0 { c::saturate_f32(y) } else { y }.to_bits())
            }
            F64 => {
                let y = c::integer_to_f64(x, mode);
                if k & SAT != 0 { c::saturate_f64(y) } else { y }.to_bits()
            }
            HALF => u64::from(c::integer_to_f16(x, mode)),
            _ => u64::from(c::integer_to_bf16(x, mode)),
        }
    }
}

const F32: u8 = 0;
const F64: u8 = 1;
const HALF: u8 = 2;
const BRAIN: u8 = 3;

/// Float to integer.
struct ToInteger<D, const FROM: u8>(PhantomData<D>);
impl<D: Integer + 'static, const FROM: u8> Convert for ToInteger<D, FROM> {
    #[inline(always)]
    fn f(k: u64, bits: u64) -> u64 {
        let mode = round(k);
        match FROM {
            F64 => c::f64_to_integer::<D>(f64::from_bits(bits), mode),
            F32 => {
                let x = f32::from_bits(bits as u32);
                c::f32_to_integer::<D>(if ftz(k) { c::flush(x) } else { x }, mode)
            }
            HALF => c::f32_to_integer::<D>(c::f16_to_f32(bits as u16), mode),
            _ => c::f32_to_integer::<D>(c::bf16_to_f32(bits as u16), mode),
        }
        .extended()
    }
}

/// Float to float.
struct Floats<const FROM: u8, const TO: u8>;
impl<const FROM: u8, const TO: u8> Convert for Floats<FROM, TO> {
    #[inline(always)]
    fn f(k: u64, bits: u64) -> u64 {
        let mode = round(k);
        let flush = |x: f32| if ftz(k) { c::flush(x) } else { x };
        if FROM == F64 {
            let x = f64::from_bits(bits);
            let x = if TO == F64 && k & INTEGRAL != 0 {
                c::integral_f64(x, mode)
            } else {
                x
            };
            return match TO {
                F64 => if k & SAT != 0 { c::saturate_f64(x) } else { x }.to_bits(),
                F32 => {
                    let y = flush(c::f64_to_f32(x, mode));
                    u64::from(if k & SAT != 0 { c::saturate_f32(y) } else { y }.to_bits())
                }
                HALF => u64::from(c::f64_to_f16(x, mode)),
                _ => u64::from(c::f64_to_bf16(x, mode)),
            };
        }
        let x = match FROM {
            F32 => flush(f32::from_bits(bits as u32)),
            HALF => c::f16_to_f32(bits as u16),
            _ => c::bf16_to_f32(bits as u16),
        };
        let x = if k & INTEGRAL != 0 {
            c::integral_f32(x, mode)
        } else {
            x
        };
        let x = if k & SAT != 0 { c::saturate_f32(x) } else { x };
        match TO {
            F32 => u64::from(x.to_bits()),
            F64 => c::f32_to_f64(x).to_bits(),
            HALF => u64::from(narrow::f32_to_f16(
                x,
                mode,
                k & RELU != 0,
                k & SATFINITE != 0,
            )),
            _ => u64::from(narrow::f32_to_bf16(
                x,
                mode,
                k & RELU != 0,
                k & SATFINITE != 0,
            )),
        }
    }
}

fn convert<F: Convert, S: Raw, D: Raw>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let a = *warp.row::<S>(context, inst.a);
    let k = inst.imm;
    let d = warp.row_mut::<D>(inst.d);
    for lane in lanes(mask) {
        d[lane] = D::from_u64(F::f(k, a[lane].to_u64()));
    }
    Flow::Next
}

/// With the classes of the registers, which may be wider than the types.
fn with_classes<F: Convert>(from: Class, to: Class) -> Option<Handler> {
    Some(match (from, to) {
        (Class::B16, Class::B16) => convert::<F, u16, u16>,
        (Class::B16, Class::B32) => convert::<F, u16, u32>,
        (Class::B16, Class::B64) => convert::<F, u16, u64>,
        (Class::B32, Class::B16) => convert::<F, u32, u16>,
        (Class::B32, Class::B32) => convert::<F, u32, u32>,
        (Class::B32, Class::B64) => convert::<F, u32, u64>,
        (Class::B64, Class::B16) => convert::<F, u64, u16>,
        (Class::B64, Class::B32) => convert::<F, u64, u32>,
        (Class::B64, Class::B64) => convert::<F, u64, u64>,
        _ => return None,
    })
}

macro_rules! integer_type {
    ($ty:expr, $t:ident => $e:expr) => {
        match $ty {
            Type::U8 => {
                type $t = u8;
                $e
            }
            Type::S8 => {
                type $t = i8;
                $e
            }
            Type::U16 => {
                type $t = u16;
                $e
            }
            Type::S16 => {
                type $t = i16;
                $e
            }
            Type::U32 => {
                type $t = u32;
                $e
            }
            Type::S32 => {
                type $t = i32;
                $e
            }
            Type::U64 => {
                type $t = u64;
                $e
            }
            Type::S64 => {
                type $t = i64;
                $e
            }
            _ => None,
        }
    };
}

fn is_integer(ty: Type) -> bool {
    matches!(
        ty,
        Type::U8 | Type::S8 | Type::U16 | Type::S16 | Type::U32 | Type::S32 | Type::U64 | Type::S64
    )
}

fn choose(from: Type, to: Type, source: Class, target: Class) -> Option<Handler> {
    use Type as T;
    if is_integer(from) && is_integer(to) {
        return integer_type!(from, S => integer_type!(to, D => with_classes::<Integers<S, D>>(source, target)));
    }
    if is_integer(from) {
        return integer_type!(from, S => match to {
            T::F32 => with_classes::<FromInteger<S, F32>>(source, target),
            T::F64 => with_classes::<FromInteger<S, F64>>(source, target),
            T::F16 => with_classes::<FromInteger<S, HALF>>(source, target),
            T::BF16 => with_classes::<FromInteger<S, BRAIN>>(source, target),
            _ => None,
        });
    }
    if is_integer(to) {
        return integer_type!(to, D => match from {
            T::F32 => with_classes::<ToInteger<D, F32>>(source, target),
            T::F64 => with_classes::<ToInteger<D, F64>>(source, target),
            T::F16 => with_classes::<ToInteger<D, HALF>>(source, target),
            T::BF16 => with_classes::<ToInteger<D, BRAIN>>(source, target),
            _ => None,
        });
    }
    match (from, to) {
        (T::F32, T::F32) => with_classes::<Floats<F32, F32>>(source, target),
        (T::F32, T::F64) => with_classes::<Floats<F32, F64>>(source, target),
        (T::F32, T::F16) => with_classes::<Floats<F32, HALF>>(source, target),
        (T::F32, T::BF16) => with_classes::<Floats<F32, BRAIN>>(source, target),
        (T::F64, T::F32) => with_classes::<Floats<F64, F32>>(source, target),
        (T::F64, T::F64) => with_classes::<Floats<F64, F64>>(source, target),
        (T::F64, T::F16) => with_classes::<Floats<F64, HALF>>(source, target),
        (T::F64, T::BF16) => with_classes::<Floats<F64, BRAIN>>(source, target),
        (T::F16, T::F32) => with_classes::<Floats<HALF, F32>>(source, target),
        (T::F16, T::F64) => with_classes::<Floats<HALF, F64>>(source, target),
        (T::F16, T::F16) => with_classes::<Floats<HALF, HALF>>(source, target),
        (T::F16, T::BF16) => with_classes::<Floats<HALF, BRAIN>>(source, target),
        (T::BF16, T::F32) => with_classes::<Floats<BRAIN, F32>>(source, target),
        (T::BF16, T::F64) => with_classes::<Floats<BRAIN, F64>>(source, target),
        (T::BF16, T::F16) => with_classes::<Floats<BRAIN, HALF>>(source, target),
        (T::BF16, T::BF16) => with_classes::<Floats<BRAIN, BRAIN>>(source, target),
        _ => None,
    }
}

fn relu(k: u64) -> bool {
    k & RELU != 0
}

fn finite(k: u64) -> bool {
    k & SATFINITE != 0
}

/// The conversion to a pair takes the upper half first.
fn f8(k: u64) -> Fp8 {
    if k & 1 << 10 != 0 {
        Fp8::E5M2
    } else {
        Fp8::E4M3
    }
}

operations! {
    hot HalvesFromF32(k; a: f32, b: f32) -> u32 = narrow::f32x2_to_f16x2(a, b, round(k), relu(k), finite(k));
    hot BrainsFromF32(k; a: f32, b: f32) -> u32 = narrow::f32x2_to_bf16x2(a, b, round(k), relu(k), finite(k));
    cold Fp8FromF32(k; a: f32, b: f32) -> u16 = narrow::f32x2_to_fp8x2(a, b, f8(k), relu(k));
}
operations! {
    cold Fp8FromHalves(k; a: u32) -> u16 = narrow::f16x2_to_fp8x2(a, f8(k), relu(k));
    cold HalvesFromFp8(k; a: u16) -> u32 = narrow::fp8x2_to_f16x2(a, f8(k), relu(k));
    cold Tf32(k; a: f32) -> u32 = narrow::f32_to_tf32(a, round(k), relu(k), finite(k));
    cold ReluF16(k; a: u16) -> u16 = half::relu::<F16>(a);
    cold ReluBF16(k; a: u16) -> u16 = half::relu::<BF16>(a);
}

operations! {
    cold Pack(k; a: i32, b: i32, c: u32) -> u32 = narrow::pack_integers(a, b, c, k as u32 & 0x1f, k & 1 << 8 != 0);
}

/// `cvt.pack`
fn decode_pack<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let to = x.mods.iter().find_map(|m| {
        Some(match m {
            Modifier::U16 => (16, false),
            Modifier::S16 => (16, true),
            Modifier::U8 => (8, false),
            Modifier::S8 => (8, true),
            Modifier::U4 => (4, false),
            Modifier::S4 => (4, true),
            Modifier::U2 => (2, false),
            Modifier::S2 => (2, true),
            _ => return None,
        })
    });
    let Some((bits, signed)) = to else {
        return malformed("cvt.pack to a type that it does not have");
    };
    x.count(3, 4)?;
    let dst = d.dst(&x.ops[0], Class::B32)?;
    let (a, b) = (d.src(&x.ops[1], Class::B32)?, d.src(&x.ops[2], Class::B32)?);
    let c = match x.ops.get(3) {
        Some(operand) => d.src(operand, Class::B32)?,
        None => d.constant32(0),
    };
    d.emit_to(three::<Pack>, dst, |i| {
        (i.a, i.b, i.c, i.imm) = (a, b, c, bits | u64::from(signed) << 8)
    });
    Ok(())
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    if x.has(Modifier::Pack) {
        return decode_pack(d, x);
    }
    x.only(&[
        Modifier::Rn,
        Modifier::Rz,
        Modifier::Rm,
        Modifier::Rp,
        Modifier::Rna,
        Modifier::Rni,
        Modifier::Rzi,
        Modifier::Rmi,
        Modifier::Rpi,
        Modifier::Ftz,
        Modifier::Sat,
        Modifier::Relu,
        Modifier::Satfinite,
    ])?;
    let [to, from] = x.types[..] else {
        return malformed("cvt needs two types");
    };
    let mut imm = pack(x);
    if x.mods
        .iter()
        .any(|m| [Modifier::Rni, Modifier::Rzi, Modifier::Rmi, Modifier::Rpi].contains(m))
    {
        imm |= INTEGRAL;
    }
    if matches!(to, Type::E5M2x2) || matches!(from, Type::E5M2x2) {
        imm |= 1 << 10;
    }
    if x.ops.len() == 3 {
        let (run, class): (Handler, Class) = match (to, from) {
            (Type::F16x2, Type::F32) => (two::<HalvesFromF32>, Class::B32),
            (Type::BF16x2, Type::F32) => (two::<BrainsFromF32>, Class::B32),
            (Type::E4M3x2 | Type::E5M2x2, Type::F32) => (two::<Fp8FromF32>, Class::B16),
            _ => return unsupported(format!("conversion of two {from:?} to {to:?}")),
        };
        let dst = d.dst(&x.ops[0], class)?;
        let (a, b) = (d.src(&x.ops[1], Class::B32)?, d.src(&x.ops[2], Class::B32)?);
        d.emit_to(run, dst, |i| (i.a, i.b, i.imm) = (a, b, imm));
        return Ok(());
    }
    x.count(2, 2)?;
    let default = |ty: Type| Class::of(ty).unwrap_or(Class::B32);
    let (target, dst) = d.dst_any(&x.ops[0])?;
    let (source, a) = d.src_any(&x.ops[1], default(from))?;
    let special: Option<Handler> = match (to, from) {
        (Type::E4M3x2 | Type::E5M2x2, Type::F16x2) => Some(one::<Fp8FromHalves>),
        (Type::F16x2, Type::E4M3x2 | Type::E5M2x2) => Some(one::<HalvesFromFp8>),
        (Type::TF32 | Type::B32, Type::F32) => Some(one::<Tf32>),
        (Type::F16, Type::F16) if x.has(Modifier::Relu) => Some(one::<ReluF16>),
        (Type::BF16, Type::BF16) if x.has(Modifier::Relu) => Some(one::<ReluBF16>),
        _ => None,
    };
    if special.is_some() && (target != default(to) || source != default(from)) {
        return malformed("registers of the wrong size for this conversion");
    }
    let Some(run) = special.or_else(|| choose(from, to, source, target)) else {
        return unsupported(format!("conversion of {from:?} to {to:?}"));
    };
    // Without a rounding, floats to integers round towards zero (only legal
    // with one, but older compilers leave it out).
    if is_integer(to)
        && !is_integer(from)
        && !x.mods.iter().any(|m| Round::from_modifier(*m).is_some())
    {
        imm |= 1;
    }
    d.emit_to(run, dst, |i| (i.a, i.imm) = (a, imm));
    Ok(())
}
