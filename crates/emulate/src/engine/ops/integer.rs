//! Integer arithmetic (PTX ISA 9.7.1, 9.7.2).

use super::{by_integer, by_width};
use crate::arith::integer::{self, Integer};
use crate::engine::context::Context;
use crate::engine::decode::{Decoder, Ins, Problem, class, unsupported};
use crate::engine::inst::{Class, Flow, Handler, Inst};
use crate::engine::lanes::{Fun1, Fun2, Fun3, Value, lanes, one, three, two};
use crate::engine::warp::Warp;
use ptx::{Mnemonic, Modifier, Type};
use std::marker::PhantomData;

/// Declares operations that are generic over an integer type.
macro_rules! generic {
    (1 $($name:ident = $f:expr;)*) => { $(
        pub(crate) struct $name<T>(PhantomData<T>);
        impl<T: Integer + Value> Fun1 for $name<T> {
            type A = T; type D = T;
            const HOT: bool = true;
            #[inline(always)]
            fn f(_: u64, a: T) -> T { ($f)(a) }
        }
    )* };
    (2 $($hot:literal $name:ident = $f:expr;)*) => { $(
        pub(crate) struct $name<T>(PhantomData<T>);
        impl<T: Integer + Value> Fun2 for $name<T> {
            type A = T; type B = T; type D = T;
            const HOT: bool = $hot;
            #[inline(always)]
            fn f(_: u64, a: T, b: T) -> T { ($f)(a, b) }
        }
    )* };
    (3 $($hot:literal $name:ident = $f:expr;)*) => { $(
        pub(crate) struct $name<T>(PhantomData<T>);
        impl<T: Integer + Value> Fun3 for $name<T> {
            type A = T; type B = T; type C = T; type D = T;
            const HOT: bool = $hot;
            #[inline(always)]
            fn f(_: u64, a: T, b: T, c: T) -> T { ($f)(a, b, c) }
        }
    )* };
}

generic! { 1
    Neg = Integer::neg;
    Abs = Integer::abs;
}
generic! { 2
    true Add = Integer::add;
    true Sub = Integer::sub;
    true MulLo = Integer::mul_lo;
    false MulHi = Integer::mul_hi;
    false Div = Integer::div;
    false Rem = Integer::rem;
    true Min = |a: T, b: T| a.min(b);
    true Max = |a: T, b: T| a.max(b);
    false AddSat = Integer::add_sat;
    false SubSat = Integer::sub_sat;
}
generic! { 3
    true MadLo = integer::mad_lo;
    false MadHi = integer::mad_hi;
    false MadHiSat = integer::mad_hi_sat;
    false Sad = integer::sad;
}

/// `mul.wide`
pub(crate) struct MulWide<T>(PhantomData<T>);
impl<T: Integer<Wide: Value> + Value> Fun2 for MulWide<T> {
    type A = T;
    type B = T;
    type D = T::Wide;
    const HOT: bool = true;
    #[inline(always)]
    fn f(_: u64, a: T, b: T) -> T::Wide {
        a.mul_wide(b)
    }
}

/// `mad.wide`
pub(crate) struct MadWide<T>(PhantomData<T>);
impl<T: Integer<Wide: Value + Integer> + Value> Fun3 for MadWide<T> {
    type A = T;
    type B = T;
    type C = T::Wide;
    type D = T::Wide;
    const HOT: bool = true;
    #[inline(always)]
    fn f(_: u64, a: T, b: T, c: T::Wide) -> T::Wide {
        integer::mad_wide(a, b, c)
    }
}

/// What an instruction of a carry chain computes; in [`Inst::imm`].
const CARRY_IN: u64 = 1;
const CARRY_OUT: u64 = 2;

/// `add`, `sub`, `mad` with `.cc`, and `addc`, `subc`, `madc`. `b` is absent
/// for add and sub: their operands are `a` and `c`.
fn carry<T: Integer + Value, const KIND: u8>(
    warp: &mut Warp,
    context: &mut Context<'_>,
    inst: &Inst,
    mask: u32,
) -> Flow {
    let a = *warp.row::<T::Raw>(context, inst.a);
    let b = if KIND >= 2 {
        *warp.row::<T::Raw>(context, inst.b)
    } else {
        a
    };
    let c = *warp.row::<T::Raw>(context, inst.c);
    let mut flags = warp.carry;
    for lane in lanes(mask) {
        let carry_in = inst.imm & CARRY_IN != 0 && flags >> lane & 1 != 0;
        let (a, b, c) = (T::get(a[lane]), T::get(b[lane]), T::get(c[lane]));
        let (d, out) = match KIND {
            0 => a.add_carry(c, carry_in),
            // The flag is the carry of `a + ~c + 1`: it is not set where a difference
            // borrows. Only what adds it shows that, as nvcc's division of 128 bits
            // does.
            1 => {
                let borrows = inst.imm & CARRY_IN != 0 && !carry_in;
                let (difference, borrows) = a.sub_borrow(c, borrows);
                (difference, !borrows)
            }
            2 => a.mul_lo(b).add_carry(c, carry_in),
            _ => a.mul_hi(b).add_carry(c, carry_in),
        };
        if inst.imm & CARRY_OUT != 0 {
            flags = flags & !(1 << lane) | u32::from(out) << lane;
        }
        warp.row_mut::<T::Raw>(inst.d)[lane] = d.put();
    }
    warp.carry = flags;
    Flow::Next
}

crate::engine::lanes::operations! {
    cold Mul24LoU(k; a: u32, b: u32) -> u32 = integer::mul24_lo_u32(a, b);
    cold Mul24HiU(k; a: u32, b: u32) -> u32 = integer::mul24_hi_u32(a, b);
    cold Mul24LoS(k; a: i32, b: i32) -> i32 = integer::mul24_lo_s32(a, b);
    cold Mul24HiS(k; a: i32, b: i32) -> i32 = integer::mul24_hi_s32(a, b);
    // Halves of packed registers.
    cold AddU16x2(k; a: u32, b: u32) -> u32 = a.wrapping_add(b & 0xffff_0000) & 0xffff_0000 | a.wrapping_add(b) & 0xffff;
    cold MinU16x2(k; a: u32, b: u32) -> u32 = (a & 0xffff).min(b & 0xffff) | (a >> 16).min(b >> 16) << 16;
    cold MaxU16x2(k; a: u32, b: u32) -> u32 = (a & 0xffff).max(b & 0xffff) | (a >> 16).max(b >> 16) << 16;
    cold MinS16x2(k; a: u32, b: u32) -> u32 =
        u32::from((a as i16).min(b as i16) as u16) | u32::from(((a >> 16) as i16).min((b >> 16) as i16) as u16) << 16;
    cold MaxS16x2(k; a: u32, b: u32) -> u32 =
        u32::from((a as i16).max(b as i16) as u16) | u32::from(((a >> 16) as i16).max((b >> 16) as i16) as u16) << 16;
    // With `.relu` what is negative becomes 0.
    cold MinReluS16x2(k; a: u32, b: u32) -> u32 = u32::from((a as i16).min(b as i16).max(0) as u16)
        | u32::from(((a >> 16) as i16).min((b >> 16) as i16).max(0) as u16) << 16;
    cold MaxReluS16x2(k; a: u32, b: u32) -> u32 = u32::from((a as i16).max(b as i16).max(0) as u16)
        | u32::from(((a >> 16) as i16).max((b >> 16) as i16).max(0) as u16) << 16;
    cold MinReluS32(k; a: i32, b: i32) -> i32 = a.min(b).max(0);
    cold MaxReluS32(k; a: i32, b: i32) -> i32 = a.max(b).max(0);
}

/// Emit an instruction of two sources of one class.
pub(crate) fn binary<'a>(
    d: &mut Decoder<'a>,
    x: &Ins<'a>,
    class: Class,
    run: Handler,
) -> Result<(), Problem> {
    x.count(3, 3)?;
    let dst = d.dst(&x.ops[0], class)?;
    let (a, b) = (d.src(&x.ops[1], class)?, d.src(&x.ops[2], class)?);
    d.emit_to(run, dst, |i| (i.a, i.b) = (a, b));
    Ok(())
}

/// Emit an instruction of one source.
pub(crate) fn unary<'a>(
    d: &mut Decoder<'a>,
    x: &Ins<'a>,
    to: Class,
    from: Class,
    run: Handler,
    imm: u64,
) -> Result<(), Problem> {
    x.count(2, 2)?;
    let dst = d.dst(&x.ops[0], to)?;
    let a = d.src(&x.ops[1], from)?;
    d.emit_to(run, dst, |i| (i.a, i.imm) = (a, imm));
    Ok(())
}

/// Emit an instruction of three sources of one class.
pub(crate) fn ternary<'a>(
    d: &mut Decoder<'a>,
    x: &Ins<'a>,
    class: Class,
    run: Handler,
    imm: u64,
) -> Result<(), Problem> {
    x.count(4, 4)?;
    let dst = d.dst(&x.ops[0], class)?;
    let (a, b, c) = (
        d.src(&x.ops[1], class)?,
        d.src(&x.ops[2], class)?,
        d.src(&x.ops[3], class)?,
    );
    d.emit_to(run, dst, |i| (i.a, i.b, i.c, i.imm) = (a, b, c, imm));
    Ok(())
}

#[expect(clippy::too_many_lines, reason = "a table: an arm for each opcode")]
pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    x.only(&[
        Modifier::Lo,
        Modifier::Hi,
        Modifier::Wide,
        Modifier::Sat,
        Modifier::Cc,
        Modifier::Relu,
    ])?;
    let ty = x.ty()?;
    if matches!(ty, Type::U16x2 | Type::S16x2) {
        let run = match (x.mnemonic, ty) {
            (Mnemonic::Add, _) => two::<AddU16x2>,
            (Mnemonic::Min, Type::U16x2) => two::<MinU16x2>,
            (Mnemonic::Max, Type::U16x2) => two::<MaxU16x2>,
            (Mnemonic::Min, _) if x.has(Modifier::Relu) => two::<MinReluS16x2>,
            (Mnemonic::Max, _) if x.has(Modifier::Relu) => two::<MaxReluS16x2>,
            (Mnemonic::Min, _) => two::<MinS16x2>,
            (Mnemonic::Max, _) => two::<MaxS16x2>,
            _ => return unsupported("packed 16-bit form"),
        };
        return binary(d, x, Class::B32, run);
    }
    if x.has(Modifier::Relu) {
        let run = match (x.mnemonic, ty) {
            (Mnemonic::Min, Type::S32) => two::<MinReluS32>,
            (Mnemonic::Max, Type::S32) => two::<MaxReluS32>,
            _ => return unsupported("modifier .relu on integers"),
        };
        return binary(d, x, Class::B32, run);
    }
    let width = class(ty)?;
    let saturates = x.has(Modifier::Sat) && ty == Type::S32;
    if x.has(Modifier::Cc) || takes_carry(x) {
        return carry_chain(d, x, ty, width);
    }
    match x.mnemonic {
        Mnemonic::Add if saturates => binary(d, x, width, two::<AddSat<i32>>),
        Mnemonic::Sub if saturates => binary(d, x, width, two::<SubSat<i32>>),
        Mnemonic::Add => binary(d, x, width, by_width!(width, T => two::<Add<T>>)),
        Mnemonic::Sub => binary(d, x, width, by_width!(width, T => two::<Sub<T>>)),
        Mnemonic::Div => binary(d, x, width, by_integer!(ty, T => two::<Div<T>>)),
        Mnemonic::Rem => binary(d, x, width, by_integer!(ty, T => two::<Rem<T>>)),
        Mnemonic::Min => binary(d, x, width, by_integer!(ty, T => two::<Min<T>>)),
        Mnemonic::Max => binary(d, x, width, by_integer!(ty, T => two::<Max<T>>)),
        Mnemonic::Neg => unary(d, x, width, width, by_width!(width, T => one::<Neg<T>>), 0),
        Mnemonic::Abs => unary(d, x, width, width, by_integer!(ty, T => one::<Abs<T>>), 0),
        Mnemonic::Sad => ternary(d, x, width, by_integer!(ty, T => three::<Sad<T>>), 0),
        Mnemonic::Mul if x.has(Modifier::Wide) => {
            let (run, to): (Handler, Class) = match ty {
                Type::U16 => (two::<MulWide<u16>>, Class::B32),
                Type::S16 => (two::<MulWide<i16>>, Class::B32),
                Type::U32 => (two::<MulWide<u32>>, Class::B64),
                Type::S32 => (two::<MulWide<i32>>, Class::B64),
                _ => return unsupported("wide product of this type"),
            };
            x.count(3, 3)?;
            let dst = d.dst(&x.ops[0], to)?;
            let (a, b) = (d.src(&x.ops[1], width)?, d.src(&x.ops[2], width)?);
            d.emit_to(run, dst, |i| (i.a, i.b) = (a, b));
            Ok(())
        }
        Mnemonic::Mad if x.has(Modifier::Wide) => {
            let (run, to): (Handler, Class) = match ty {
                Type::U16 => (three::<MadWide<u16>>, Class::B32),
                Type::S16 => (three::<MadWide<i16>>, Class::B32),
                Type::U32 => (three::<MadWide<u32>>, Class::B64),
                Type::S32 => (three::<MadWide<i32>>, Class::B64),
                _ => return unsupported("wide product of this type"),
            };
            x.count(4, 4)?;
            let dst = d.dst(&x.ops[0], to)?;
            let (a, b, c) = (
                d.src(&x.ops[1], width)?,
                d.src(&x.ops[2], width)?,
                d.src(&x.ops[3], to)?,
            );
            d.emit_to(run, dst, |i| (i.a, i.b, i.c) = (a, b, c));
            Ok(())
        }
        Mnemonic::Mul if x.has(Modifier::Hi) => {
            binary(d, x, width, by_integer!(ty, T => two::<MulHi<T>>))
        }
        Mnemonic::Mul => binary(d, x, width, by_width!(width, T => two::<MulLo<T>>)),
        Mnemonic::Mad if x.has(Modifier::Hi) && saturates => {
            ternary(d, x, width, three::<MadHiSat<i32>>, 0)
        }
        Mnemonic::Mad if x.has(Modifier::Hi) => {
            ternary(d, x, width, by_integer!(ty, T => three::<MadHi<T>>), 0)
        }
        Mnemonic::Mad => ternary(d, x, width, by_width!(width, T => three::<MadLo<T>>), 0),
        Mnemonic::Mul24 => {
            let run = match (ty, x.has(Modifier::Hi)) {
                (Type::U32, false) => two::<Mul24LoU>,
                (Type::U32, true) => two::<Mul24HiU>,
                (Type::S32, false) => two::<Mul24LoS>,
                (Type::S32, true) => two::<Mul24HiS>,
                _ => return unsupported("24-bit product of this type"),
            };
            binary(d, x, width, run)
        }
        Mnemonic::Mad24 if !x.has(Modifier::Sat) => {
            // A 24-bit product, then an addition.
            x.count(4, 4)?;
            let run = match (ty, x.has(Modifier::Hi)) {
                (Type::U32, false) => two::<Mul24LoU>,
                (Type::U32, true) => two::<Mul24HiU>,
                (Type::S32, false) => two::<Mul24LoS>,
                (Type::S32, true) => two::<Mul24HiS>,
                _ => return unsupported("24-bit product of this type"),
            };
            let product = d.register(Class::B32);
            let dst = d.dst(&x.ops[0], width)?;
            let (a, b, c) = (
                d.src(&x.ops[1], width)?,
                d.src(&x.ops[2], width)?,
                d.src(&x.ops[3], width)?,
            );
            d.emit_helper(run, |i| (i.d, i.a, i.b) = (product, a, b));
            d.emit_to(two::<Add<u32>>, dst, |i| (i.a, i.b) = (product, c));
            Ok(())
        }
        _ => unsupported("integer instruction"),
    }
}

/// Whether the carry flag is an operand: `addc`, `subc`, `madc`.
fn takes_carry(x: &Ins<'_>) -> bool {
    matches!(x.mnemonic, Mnemonic::Addc | Mnemonic::Subc | Mnemonic::Madc)
}

fn carry_chain<'a>(
    d: &mut Decoder<'a>,
    x: &Ins<'a>,
    ty: Type,
    width: Class,
) -> Result<(), Problem> {
    let carry_in = takes_carry(x);
    let imm = if carry_in { CARRY_IN } else { 0 } | if x.has(Modifier::Cc) { CARRY_OUT } else { 0 };
    let high = x.has(Modifier::Hi);
    let run: Handler = match (x.mnemonic, high, ty) {
        (Mnemonic::Add | Mnemonic::Addc, ..) => by_integer!(ty, T => carry::<T, 0>),
        (Mnemonic::Sub | Mnemonic::Subc, ..) => by_integer!(ty, T => carry::<T, 1>),
        (Mnemonic::Mad | Mnemonic::Madc, false, _) => by_integer!(ty, T => carry::<T, 2>),
        (Mnemonic::Mad | Mnemonic::Madc, true, _) => by_integer!(ty, T => carry::<T, 3>),
        _ => return unsupported("carry chain of this instruction"),
    };
    let is_mad = matches!(x.mnemonic, Mnemonic::Mad | Mnemonic::Madc);
    x.count(if is_mad { 4 } else { 3 }, if is_mad { 4 } else { 3 })?;
    let dst = d.dst_or_scratch(&x.ops[0], width)?;
    let a = d.src(&x.ops[1], width)?;
    let b = d.src(&x.ops[2], width)?;
    let c = if is_mad { d.src(&x.ops[3], width)? } else { b };
    d.emit(run, |i| (i.d, i.a, i.b, i.c, i.imm) = (dst, a, b, c, imm));
    Ok(())
}
