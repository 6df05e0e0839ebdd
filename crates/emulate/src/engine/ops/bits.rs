//! Logic, shifts, bit fields, permutes, dot products (PTX ISA 9.7.1, 9.7.8).

use super::integer::{binary, ternary, unary};
use super::{by_integer, by_width};
use crate::arith::bits::{self, Permute};
use crate::arith::integer::Integer;
use crate::arith::packed;
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, class, malformed, unsupported};
use crate::engine::inst::{Class, Flow, Handler, Inst};
use crate::engine::lanes::{Fun1, Fun2, Fun3, Value, one, operations, three, two};
use crate::engine::warp::Warp;
use ptx::{Mnemonic, Modifier, OperandKind, Type};
use std::marker::PhantomData;

macro_rules! shift {
    ($($name:ident = $f:expr;)*) => { $(
        struct $name<T>(PhantomData<T>);
        impl<T: Integer + Value> Fun2 for $name<T> {
            type A = T; type B = u32; type D = T;
            const HOT: bool = true;
            #[inline(always)]
            fn f(_: u64, a: T, b: u32) -> T { ($f)(a, b) }
        }
    )* };
}
shift! {
    Shl = Integer::shl;
    Shr = Integer::shr;
}

macro_rules! logic {
    ($($name:ident($a:ident, $b:ident) = $e:expr;)*) => { $(
        struct $name<T>(PhantomData<T>);
        impl<T: Value + std::ops::BitAnd<Output = T> + std::ops::BitOr<Output = T> + std::ops::BitXor<Output = T>> Fun2 for $name<T> {
            type A = T; type B = T; type D = T;
            const HOT: bool = true;
            #[inline(always)]
            fn f(_: u64, $a: T, $b: T) -> T { $e }
        }
    )* };
}
logic! {
    And(a, b) = a & b;
    Or(a, b) = a | b;
    Xor(a, b) = a ^ b;
}

struct Not<T>(PhantomData<T>);
impl<T: Value + std::ops::Not<Output = T>> Fun1 for Not<T> {
    type A = T;
    type D = T;
    const HOT: bool = false;
    #[inline(always)]
    fn f(_: u64, a: T) -> T {
        !a
    }
}

struct Cnot<T>(PhantomData<T>);
impl<T: Integer + Value> Fun1 for Cnot<T> {
    type A = T;
    type D = T;
    const HOT: bool = false;
    #[inline(always)]
    fn f(_: u64, a: T) -> T {
        bits::cnot(a)
    }
}

/// Operations that give a count or place.
macro_rules! count {
    ($($name:ident = $f:expr;)*) => { $(
        struct $name<T>(PhantomData<T>);
        impl<T: Integer + Value> Fun1 for $name<T> {
            type A = T; type D = u32;
            const HOT: bool = false;
            #[inline(always)]
            fn f(_: u64, a: T) -> u32 { ($f)(a) }
        }
    )* };
}
count! {
    Popc = bits::popc;
    Clz = bits::clz;
    Bfind = bits::bfind;
    BfindShift = bits::bfind_shift;
}

struct Bfe<T>(PhantomData<T>);
impl<T: Integer + Value> Fun3 for Bfe<T> {
    type A = T;
    type B = u32;
    type C = u32;
    type D = T;
    const HOT: bool = false;
    #[inline(always)]
    fn f(_: u64, a: T, position: u32, length: u32) -> T {
        bits::bfe(a, position, length)
    }
}

const PERMUTES: [Permute; 7] = [
    Permute::Generic,
    Permute::Forward4,
    Permute::Backward4,
    Permute::Replicate8,
    Permute::EdgeLeft,
    Permute::EdgeRight,
    Permute::Replicate16,
];

operations! {
    cold Brev32(k; a: u32) -> u32 = bits::brev32(a);
    cold Brev64(k; a: u64) -> u64 = bits::brev64(a);
}
operations! {
    cold SzextU(k; a: u32, b: u32) -> u32 = bits::szext(a, b, k != 0);
    cold SzextS(k; a: i32, b: u32) -> i32 = bits::szext(a, b, k != 0);
    cold Bmsk(k; a: u32, b: u32) -> u32 = bits::bmsk(a, b, k != 0);
}
operations! {
    hot Lop3(k; a: u32, b: u32, c: u32) -> u32 = bits::lop3(a, b, c, k as u8);
    hot ShfL(k; a: u32, b: u32, c: u32) -> u32 = bits::shf_l(a, b, c, k != 0);
    hot ShfR(k; a: u32, b: u32, c: u32) -> u32 = bits::shf_r(a, b, c, k != 0);
    cold Prmt(k; a: u32, b: u32, c: u32) -> u32 = bits::prmt(a, b, c, PERMUTES[k as usize % 7]);
    cold Fns(k; a: u32, b: u32, c: i32) -> u32 = bits::fns(a, b, c);
    cold Dp4a(k; a: u32, b: u32, c: u32) -> u32 = packed::dp4a(a, b, c, k & 1 != 0, k & 2 != 0);
    cold Dp2a(k; a: u32, b: u32, c: u32) -> u32 = packed::dp2a(a, b, c, k & 1 != 0, k & 2 != 0, k & 4 != 0);
}

/// `bfi`: four sources; the length is in slot `e`.
fn bfi<T: Integer + Value>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let a = *warp.row::<T::Raw>(context, inst.a);
    let b = *warp.row::<T::Raw>(context, inst.b);
    let position = *warp.row::<u32>(context, inst.c);
    let length = *warp.row::<u32>(context, inst.e);
    let row = std::array::from_fn(|lane| {
        bits::bfi(
            T::get(a[lane]),
            T::get(b[lane]),
            position[lane],
            length[lane],
        )
        .put()
    });
    warp.set_row::<T::Raw>(inst.d, mask, &row);
    Flow::Next
}

fn logic_pred(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let (a, b) = (warp.pred(context, inst.a), warp.pred(context, inst.b));
    let (a, b) = (
        if inst.imm & 4 != 0 { !a } else { a },
        if inst.imm & 8 != 0 { !b } else { b },
    );
    let value = match inst.imm & 3 {
        0 => a & b,
        1 => a | b,
        2 => a ^ b,
        _ => !a,
    };
    warp.set_pred(inst.d, mask, value);
    Flow::Next
}

#[expect(clippy::too_many_lines, reason = "a table: an arm for each opcode")]
pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let ty = x.ty()?;
    if ty == Type::Pred {
        let kind = match x.mnemonic {
            Mnemonic::And => 0,
            Mnemonic::Or => 1,
            Mnemonic::Xor => 2,
            Mnemonic::Not => 3,
            _ => return unsupported("logic on predicates"),
        };
        let dst = d.dst(x.op(0)?, Class::Pred)?;
        let (a, not_a) = d.pred(x.op(1)?)?;
        let (b, not_b) = if kind == 3 {
            (a, false)
        } else {
            d.pred(x.op(2)?)?
        };
        d.emit_to(logic_pred, dst, |i| {
            (i.a, i.b, i.imm) = (a, b, kind | u64::from(not_a) << 2 | u64::from(not_b) << 3)
        });
        return Ok(());
    }
    let width = class(ty)?;
    match x.mnemonic {
        Mnemonic::And => binary(d, x, width, by_width!(width, T => two::<And<T>>)),
        Mnemonic::Or => binary(d, x, width, by_width!(width, T => two::<Or<T>>)),
        Mnemonic::Xor => binary(d, x, width, by_width!(width, T => two::<Xor<T>>)),
        Mnemonic::Not => unary(d, x, width, width, by_width!(width, T => one::<Not<T>>), 0),
        Mnemonic::Cnot => unary(d, x, width, width, by_width!(width, T => one::<Cnot<T>>), 0),
        Mnemonic::Shl | Mnemonic::Shr => {
            x.count(3, 3)?;
            let run: Handler = if x.mnemonic == Mnemonic::Shl {
                by_width!(width, T => two::<Shl<T>>)
            } else {
                by_integer!(ty, T => two::<Shr<T>>)
            };
            let dst = d.dst(&x.ops[0], width)?;
            let (a, b) = (d.src(&x.ops[1], width)?, d.src(&x.ops[2], Class::B32)?);
            d.emit_to(run, dst, |i| (i.a, i.b) = (a, b));
            Ok(())
        }
        Mnemonic::Shf => {
            let run: Handler = if x.has(Modifier::L) {
                three::<ShfL>
            } else {
                three::<ShfR>
            };
            ternary(d, x, Class::B32, run, u64::from(x.has(Modifier::Clamp)))
        }
        Mnemonic::Lop3 => {
            if x.mods
                .iter()
                .any(|m| *m == Modifier::Or || *m == Modifier::And)
            {
                return unsupported("lop3 with a predicate");
            }
            x.count(5, 5)?;
            let OperandKind::Integer(table) = x.ops[4].kind else {
                return malformed("lop3 without its table");
            };
            let dst = d.dst(&x.ops[0], Class::B32)?;
            let (a, b, c) = (
                d.src(&x.ops[1], Class::B32)?,
                d.src(&x.ops[2], Class::B32)?,
                d.src(&x.ops[3], Class::B32)?,
            );
            d.emit_to(three::<Lop3>, dst, |i| {
                (i.a, i.b, i.c, i.imm) = (a, b, c, table as u64 & 0xff)
            });
            Ok(())
        }
        Mnemonic::Prmt => {
            let mode = x
                .mods
                .iter()
                .rev()
                .find_map(|m| Permute::from_modifier(*m))
                .filter(|_| x.mods.len() > 1)
                .unwrap_or(Permute::Generic);
            let index = PERMUTES.iter().position(|p| *p == mode).unwrap_or(0);
            ternary(d, x, Class::B32, three::<Prmt>, index as u64)
        }
        Mnemonic::Popc => unary(
            d,
            x,
            Class::B32,
            width,
            by_width!(width, T => one::<Popc<T>>),
            0,
        ),
        Mnemonic::Clz => unary(
            d,
            x,
            Class::B32,
            width,
            by_width!(width, T => one::<Clz<T>>),
            0,
        ),
        Mnemonic::Bfind if x.has(Modifier::Shiftamt) => unary(
            d,
            x,
            Class::B32,
            width,
            by_integer!(ty, T => one::<BfindShift<T>>),
            0,
        ),
        Mnemonic::Bfind => unary(
            d,
            x,
            Class::B32,
            width,
            by_integer!(ty, T => one::<Bfind<T>>),
            0,
        ),
        Mnemonic::Brev => {
            let run: Handler = if width == Class::B64 {
                one::<Brev64>
            } else {
                one::<Brev32>
            };
            unary(d, x, width, width, run, 0)
        }
        Mnemonic::Bfe => {
            x.count(4, 4)?;
            let run: Handler = by_integer!(ty, T => three::<Bfe<T>>);
            let dst = d.dst(&x.ops[0], width)?;
            let (a, b, c) = (
                d.src(&x.ops[1], width)?,
                d.src(&x.ops[2], Class::B32)?,
                d.src(&x.ops[3], Class::B32)?,
            );
            d.emit_to(run, dst, |i| (i.a, i.b, i.c) = (a, b, c));
            Ok(())
        }
        Mnemonic::Bfi => {
            x.count(5, 5)?;
            let run: Handler = by_width!(width, T => bfi::<T>);
            let dst = d.dst(&x.ops[0], width)?;
            let (a, b) = (d.src(&x.ops[1], width)?, d.src(&x.ops[2], width)?);
            let (c, e) = (d.src(&x.ops[3], Class::B32)?, d.src(&x.ops[4], Class::B32)?);
            d.emit_to(run, dst, |i| (i.a, i.b, i.c, i.e) = (a, b, c, e));
            Ok(())
        }
        Mnemonic::Fns => ternary(d, x, Class::B32, three::<Fns>, 0),
        Mnemonic::Szext | Mnemonic::Bmsk => {
            let run: Handler = match (x.mnemonic, ty) {
                (Mnemonic::Bmsk, _) => two::<Bmsk>,
                (_, Type::S32) => two::<SzextS>,
                _ => two::<SzextU>,
            };
            x.count(3, 3)?;
            let dst = d.dst(&x.ops[0], Class::B32)?;
            let (a, b) = (d.src(&x.ops[1], Class::B32)?, d.src(&x.ops[2], Class::B32)?);
            d.emit_to(run, dst, |i| {
                (i.a, i.b, i.imm) = (a, b, u64::from(x.has(Modifier::Clamp)))
            });
            Ok(())
        }
        _ => {
            let [a_type, b_type] = x.types[..] else {
                return malformed("dot product needs two types");
            };
            let signs = u64::from(a_type == Type::S32) | u64::from(b_type == Type::S32) << 1;
            let run: Handler = if x.mnemonic == Mnemonic::Dp4a {
                three::<Dp4a>
            } else {
                three::<Dp2a>
            };
            ternary(
                d,
                x,
                Class::B32,
                run,
                signs | u64::from(x.has(Modifier::Hi)) << 2,
            )
        }
    }
}
