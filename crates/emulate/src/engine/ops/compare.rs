//! `set`, `setp`, `testp` (PTX ISA 9.7.6, 9.7.3.1).

use crate::arith::compare::{self, Compare, Test};
use crate::arith::half::{BF16, F16, Half};
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, class, malformed, unsupported};
use crate::engine::inst::{Class, Flow, Handler, Inst, NONE};
use crate::engine::lanes::Value;
use crate::engine::warp::Warp;
use crate::mapping::{LANES, Twice, twice};
use ptx::{Mnemonic, Modifier, Type};
use std::marker::PhantomData;

/// Values that can be compared.
trait Compared: 'static {
    type Held: Value;
    fn compare(relation: Compare, a: Self::Held, b: Self::Held) -> bool;
}

macro_rules! compared {
    ($($name:ident: $t:ty = $f:expr;)*) => { $(
        struct $name;
        impl Compared for $name {
            type Held = $t;
            #[inline(always)]
            fn compare(relation: Compare, a: $t, b: $t) -> bool { ($f)(relation, a, b) }
        }
    )* };
}
compared! {
    U16: u16 = compare::integer;
    S16: i16 = compare::integer;
    U32: u32 = compare::integer;
    S32: i32 = compare::integer;
    U64: u64 = compare::integer;
    S64: i64 = compare::integer;
    F32: f32 = compare::float32;
    F32Ftz: f32 = compare::float32_ftz;
    F64: f64 = compare::float64;
    Half16: u16 = |r, a, b| compare::float32(r, F16::widen(a), F16::widen(b));
    Brain16: u16 = |r, a, b| compare::float32(r, BF16::widen(a), BF16::widen(b));
}

struct Bits<'r, C: Compared> {
    relation: Compare,
    a: &'r [<C::Held as Value>::Raw; LANES],
    b: &'r [<C::Held as Value>::Raw; LANES],
    kind: PhantomData<C>,
}

impl<C: Compared> Twice for Bits<'_, C> {
    type Output = u32;
    #[inline(always)]
    fn run(self, _: bool) -> u32 {
        use Compare::*;
        let Bits { relation, a, b, .. } = self;
        let all = |relation: Compare| {
            let mut bits = 0u32;
            for lane in 0..LANES {
                bits |= u32::from(C::compare(
                    relation,
                    C::Held::get(a[lane]),
                    C::Held::get(b[lane]),
                )) << lane;
            }
            bits
        };
        // A constant relation in each arm, so that each loop vectorizes.
        match relation {
            Eq => all(Eq),
            Ne => all(Ne),
            Lt => all(Lt),
            Le => all(Le),
            Gt => all(Gt),
            Ge => all(Ge),
            other => all(other),
        }
    }
}

/// How a comparison and a predicate combine; in bits 8 and up of `imm`.
const AND: u64 = 1;
const OR: u64 = 2;
const XOR: u64 = 3;
/// The combined predicate is negated.
const NOT: u64 = 1 << 12;

fn combine(imm: u64, bits: u32, c: u32) -> u32 {
    let c = if imm & NOT != 0 { !c } else { c };
    match imm >> 8 & 3 {
        AND => bits & c,
        OR => bits | c,
        XOR => bits ^ c,
        _ => bits,
    }
}

const RELATIONS: [Compare; 18] = [
    Compare::Eq,
    Compare::Ne,
    Compare::Lt,
    Compare::Le,
    Compare::Gt,
    Compare::Ge,
    Compare::Lo,
    Compare::Ls,
    Compare::Hi,
    Compare::Hs,
    Compare::Equ,
    Compare::Neu,
    Compare::Ltu,
    Compare::Leu,
    Compare::Gtu,
    Compare::Geu,
    Compare::Num,
    Compare::Nan,
];

fn compare_rows<C: Compared>(warp: &Warp, context: &Context<'_>, inst: &Inst) -> u32 {
    let a = warp.row::<<C::Held as Value>::Raw>(context, inst.a);
    let b = warp.row::<<C::Held as Value>::Raw>(context, inst.b);
    let relation = RELATIONS[(inst.imm & 0xff) as usize];
    twice(
        context.wide,
        Bits::<C> {
            relation,
            a,
            b,
            kind: PhantomData,
        },
    )
}

fn setp<C: Compared>(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let bits = compare_rows::<C>(warp, context, inst);
    if inst.imm >> 8 == 0 {
        warp.set_pred(inst.d, mask, bits);
        warp.set_pred(inst.e, mask, !bits);
    } else {
        let c = warp.pred(context, inst.c);
        warp.set_pred(inst.d, mask, combine(inst.imm, bits, c));
        warp.set_pred(inst.e, mask, combine(inst.imm, !bits, c));
    }
    Flow::Next
}

/// `set`: all ones or 1.0 where it holds. `FORM` 0: integer, 1: f32, 2: f16, 3: bf16.
fn set<C: Compared, const FORM: u8>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let bits = compare_rows::<C>(warp, context, inst);
    let bits = combine(inst.imm, bits, warp.pred(context, inst.c));
    let on = |lane: usize| bits >> lane & 1 != 0;
    match FORM {
        2 | 3 => {
            let one = if FORM == 2 { 0x3c00 } else { 0x3f80 };
            let row: [u16; LANES] = std::array::from_fn(|lane| if on(lane) { one } else { 0 });
            warp.set_row::<u16>(inst.d, mask, &row);
        }
        _ => {
            let one = if FORM == 1 {
                1.0f32.to_bits()
            } else {
                u32::MAX
            };
            let row: [u32; LANES] = std::array::from_fn(|lane| if on(lane) { one } else { 0 });
            warp.set_row::<u32>(inst.d, mask, &row);
        }
    }
    Flow::Next
}

/// Both halves of packed registers: predicates (`setp`), or a packed result
/// (`set`, `FORM` as in [`set`] with 0: all ones, 2: f16, 3: bf16).
fn packed<H: Half, const SETP: bool, const FORM: u8>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let a = *warp.row::<u32>(context, inst.a);
    let b = *warp.row::<u32>(context, inst.b);
    let relation = RELATIONS[(inst.imm & 0xff) as usize];
    let bits = |shift: u32| {
        (0..LANES).fold(0u32, |bits, lane| {
            let (a, b) = (
                H::widen((a[lane] >> shift) as u16),
                H::widen((b[lane] >> shift) as u16),
            );
            bits | u32::from(compare::float32(relation, a, b)) << lane
        })
    };
    let c = warp.pred(context, inst.c);
    let (low, high) = (
        combine(inst.imm, bits(0), c),
        combine(inst.imm, bits(16), c),
    );
    if SETP {
        warp.set_pred(inst.d, mask, low);
        warp.set_pred(inst.e, mask, high);
    } else {
        let one = match FORM {
            2 => 0x3c00,
            3 => 0x3f80,
            _ => 0xffff,
        };
        let row: [u32; LANES] = std::array::from_fn(|lane| {
            ((low >> lane & 1) * one) | (((high >> lane & 1) * one) << 16)
        });
        warp.set_row::<u32>(inst.d, mask, &row);
    }
    Flow::Next
}

const TESTS: [Test; 6] = [
    Test::Finite,
    Test::Infinite,
    Test::Number,
    Test::NotANumber,
    Test::Normal,
    Test::Subnormal,
];

fn testp<const DOUBLE: bool>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let test = TESTS[inst.imm as usize];
    let mut bits = 0;
    for lane in 0..LANES {
        let holds = if DOUBLE {
            compare::testp_f64(test, f64::from_bits(warp.row::<u64>(context, inst.a)[lane]))
        } else {
            compare::testp_f32(test, f32::from_bits(warp.row::<u32>(context, inst.a)[lane]))
        };
        bits |= u32::from(holds) << lane;
    }
    warp.set_pred(inst.d, mask, bits);
    Flow::Next
}

/// The type compared: the last one.
fn kind(
    ty: Type,
    flush: bool,
    pick: impl Fn(Type, bool) -> Option<Handler>,
) -> Result<Handler, Problem> {
    pick(ty, flush).ok_or_else(|| Problem::Unsupported(format!("comparison of type {ty:?}")))
}

macro_rules! by_compared {
    ($ty:expr, $flush:expr, $c:ident => $e:expr) => {
        match $ty {
            Type::U16 | Type::B16 => {
                type $c = U16;
                Some($e)
            }
            Type::S16 => {
                type $c = S16;
                Some($e)
            }
            Type::U32 | Type::B32 => {
                type $c = U32;
                Some($e)
            }
            Type::S32 => {
                type $c = S32;
                Some($e)
            }
            Type::U64 | Type::B64 => {
                type $c = U64;
                Some($e)
            }
            Type::S64 => {
                type $c = S64;
                Some($e)
            }
            Type::F32 if $flush => {
                type $c = F32Ftz;
                Some($e)
            }
            Type::F32 => {
                type $c = F32;
                Some($e)
            }
            Type::F64 => {
                type $c = F64;
                Some($e)
            }
            Type::F16 => {
                type $c = Half16;
                Some($e)
            }
            Type::BF16 => {
                type $c = Brain16;
                Some($e)
            }
            _ => None,
        }
    };
}

fn decode_testp<'a>(d: &mut Decoder<'a>, x: &Ins<'a>, ty: Type) -> Result<(), Problem> {
    x.count(2, 2)?;
    let test = x.mods.iter().find_map(|m| Test::from_modifier(*m));
    let Some(imm) = test.and_then(|t| TESTS.iter().position(|u| *u == t)) else {
        return malformed("testp without its property");
    };
    let width = class(ty)?;
    let dst = d.dst(&x.ops[0], Class::Pred)?;
    let a = d.src(&x.ops[1], width)?;
    let run: Handler = if ty == Type::F64 {
        testp::<true>
    } else {
        testp::<false>
    };
    d.emit_to(run, dst, |i| (i.a, i.imm) = (a, imm as u64));
    Ok(())
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let ty = x.ty()?;
    if x.mnemonic == Mnemonic::Testp {
        return decode_testp(d, x, ty);
    }
    let Some(relation) = x
        .mods
        .iter()
        .find_map(|m| Compare::from_modifier(*m))
        .and_then(|relation| RELATIONS.iter().position(|r| *r == relation))
    else {
        return malformed("comparison without a relation");
    };
    let bool_op = if x.has(Modifier::And) {
        AND
    } else if x.has(Modifier::Or) {
        OR
    } else if x.has(Modifier::Xor) {
        XOR
    } else {
        0
    };
    x.count(3, 4)?;
    if (bool_op != 0) != (x.ops.len() == 4) {
        return malformed("a combining operator needs a fourth operand");
    }
    let mut imm = relation as u64 | bool_op << 8;
    let (mut c, mut negated) = (NONE, false);
    if bool_op != 0 {
        (c, negated) = d.pred(&x.ops[3])?;
    }
    if negated {
        imm |= NOT;
    }
    let width = class(ty)?;
    let flush = x.has(Modifier::Ftz);
    let packed_type = matches!(ty, Type::F16x2 | Type::BF16x2);
    let (a, b) = (d.src(&x.ops[1], width)?, d.src(&x.ops[2], width)?);
    if x.mnemonic == Mnemonic::Setp {
        let (p, q) = d.dst_pair(&x.ops[0], Class::Pred, Class::Pred)?;
        let run = match ty {
            Type::F16x2 => packed::<F16, true, 0>,
            Type::BF16x2 => packed::<BF16, true, 0>,
            _ => kind(
                ty,
                flush,
                |ty, flush| by_compared!(ty, flush, C => setp::<C>),
            )?,
        };
        d.emit(run, |i| {
            (i.d, i.e, i.a, i.b, i.c, i.imm) = (p, q, a, b, c, imm)
        });
        return Ok(());
    }
    let to = x.types.first().copied().unwrap_or(ty);
    let run: Handler = if packed_type {
        match (ty, to) {
            (Type::F16x2, Type::F16x2) => packed::<F16, false, 2>,
            (Type::BF16x2, Type::BF16x2) => packed::<BF16, false, 3>,
            (Type::F16x2, _) => packed::<F16, false, 0>,
            _ => packed::<BF16, false, 0>,
        }
    } else {
        match to {
            Type::F32 => kind(
                ty,
                flush,
                |ty, flush| by_compared!(ty, flush, C => set::<C, 1>),
            )?,
            Type::F16 => kind(
                ty,
                flush,
                |ty, flush| by_compared!(ty, flush, C => set::<C, 2>),
            )?,
            Type::BF16 => kind(
                ty,
                flush,
                |ty, flush| by_compared!(ty, flush, C => set::<C, 3>),
            )?,
            Type::U32 | Type::S32 => kind(
                ty,
                flush,
                |ty, flush| by_compared!(ty, flush, C => set::<C, 0>),
            )?,
            _ => return unsupported(format!("set to type {to:?}")),
        }
    };
    let dst = d.dst(&x.ops[0], class(to)?)?;
    d.emit_to(run, dst, |i| (i.a, i.b, i.c, i.imm) = (a, b, c, imm));
    Ok(())
}
