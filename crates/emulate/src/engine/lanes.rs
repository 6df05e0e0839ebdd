//! The register file of a warp, and handlers made from scalar functions.
//!
//! A register is an array of 32 lanes, a predicate a mask of 32 bits. Lanes
//! at different depths of calls share rows but never columns. Handlers run a
//! scalar function over all lanes when the mask is full, so that the loop
//! vectorizes, and over the mask's bits otherwise.

use super::context::Context;
use super::inst::{CONSTANT, Counts, Flow, Inst, NONE};
use super::warp::Warp;
use crate::mapping::{LANES, Twice, twice};
use std::marker::PhantomData;

/// All lanes.
pub(crate) const FULL: u32 = u32::MAX;

/// Rows of registers, or of constants.
#[derive(Default)]
pub(crate) struct Rows {
    pub pred: Vec<u32>,
    pub b16: Vec<[u16; LANES]>,
    pub b32: Vec<[u32; LANES]>,
    pub b64: Vec<[u64; LANES]>,
    pub b128: Vec<[u128; LANES]>,
}

impl Rows {
    /// Make room for rows below `end`; new ones are full of a byte.
    pub fn grow(&mut self, end: Counts, byte: u8) {
        fn to<T: Clone>(rows: &mut Vec<T>, count: u32, full: T) {
            if rows.len() < count as usize {
                rows.resize(count as usize, full);
            }
        }
        to(&mut self.pred, end.pred, u32::from_ne_bytes([byte; 4]));
        to(
            &mut self.b16,
            end.b16,
            [u16::from_ne_bytes([byte; 2]); LANES],
        );
        to(
            &mut self.b32,
            end.b32,
            [u32::from_ne_bytes([byte; 4]); LANES],
        );
        to(
            &mut self.b64,
            end.b64,
            [u64::from_ne_bytes([byte; 8]); LANES],
        );
        to(
            &mut self.b128,
            end.b128,
            [u128::from_ne_bytes([byte; 16]); LANES],
        );
    }

    /// Forget all rows.
    pub fn clear(&mut self) {
        *self = Rows::default();
    }
}

/// What a register holds as bits.
pub(crate) trait Raw: Copy + Default + PartialEq + 'static {
    fn rows(rows: &Rows) -> &[[Self; LANES]];
    fn rows_mut(rows: &mut Rows) -> &mut [[Self; LANES]];
    fn base(counts: &Counts) -> u32;
    fn from_u64(bits: u64) -> Self;
    fn to_u64(self) -> u64;
    fn from_u128(bits: u128) -> Self;
    fn to_u128(self) -> u128;
}

macro_rules! raw {
    ($($t:ty, $field:ident);*) => { $(
        impl Raw for $t {
            #[inline(always)]
            fn rows(rows: &Rows) -> &[[Self; LANES]] { &rows.$field }
            #[inline(always)]
            fn rows_mut(rows: &mut Rows) -> &mut [[Self; LANES]] { &mut rows.$field }
            #[inline(always)]
            fn base(counts: &Counts) -> u32 { counts.$field }
            #[inline(always)]
            fn from_u64(bits: u64) -> Self { bits as $t }
            #[inline(always)]
            fn to_u64(self) -> u64 { self as u64 }
            #[inline(always)]
            fn from_u128(bits: u128) -> Self { bits as $t }
            #[inline(always)]
            fn to_u128(self) -> u128 { self as u128 }
        }
    )* };
}
raw!(u16, b16; u32, b32; u64, b64; u128, b128);

/// A register's value as an operation reads it.
pub(crate) trait Value: Copy + Default + 'static {
    type Raw: Raw;
    fn get(raw: Self::Raw) -> Self;
    fn put(self) -> Self::Raw;
}

macro_rules! value {
    ($($t:ty, $raw:ty, $get:expr, $put:expr);*) => { $(
        impl Value for $t {
            type Raw = $raw;
            #[inline(always)]
            fn get(raw: $raw) -> $t { $get(raw) }
            #[inline(always)]
            fn put(self) -> $raw { $put(self) }
        }
    )* };
}
value!(
    u16, u16, |x| x, |x| x;
    i16, u16, |x| x as i16, |x| x as u16;
    u32, u32, |x| x, |x| x;
    i32, u32, |x| x as i32, |x| x as u32;
    u64, u64, |x| x, |x| x;
    i64, u64, |x| x as i64, |x| x as u64;
    f32, u32, f32::from_bits, f32::to_bits;
    f64, u64, f64::from_bits, f64::to_bits;
    u128, u128, |x| x, |x| x
);

impl Warp {
    /// Lanes of a register or constant.
    #[inline(always)]
    pub fn row<'a, R: Raw>(&'a self, context: &'a Context<'_>, slot: u32) -> &'a [R; LANES] {
        if slot & CONSTANT == 0 {
            &R::rows(&self.rows)[(R::base(&self.frame.base) + slot) as usize]
        } else {
            &R::rows(&context.program.constants)[(slot & !CONSTANT) as usize]
        }
    }

    /// Lanes of a register, to write.
    #[inline(always)]
    pub fn row_mut<R: Raw>(&mut self, slot: u32) -> &mut [R; LANES] {
        let base = R::base(&self.frame.base);
        &mut R::rows_mut(&mut self.rows)[(base + slot) as usize]
    }

    /// A predicate's lanes; all set if the slot is [`NONE`].
    #[inline(always)]
    pub fn pred(&self, context: &Context<'_>, slot: u32) -> u32 {
        if slot == NONE {
            FULL
        } else if slot & CONSTANT == 0 {
            self.rows.pred[(self.frame.base.pred + slot) as usize]
        } else {
            context.program.constants.pred[(slot & !CONSTANT) as usize]
        }
    }

    /// Set the lanes of `mask` of a predicate; nothing if the slot is [`NONE`].
    #[inline(always)]
    pub fn set_pred(&mut self, slot: u32, mask: u32, value: u32) {
        if slot != NONE {
            let row = &mut self.rows.pred[(self.frame.base.pred + slot) as usize];
            *row = *row & !mask | value & mask;
        }
    }

    /// Write the lanes of `mask`; nothing if the slot is [`NONE`].
    #[inline(always)]
    pub fn set_row<R: Raw>(&mut self, slot: u32, mask: u32, values: &[R; LANES]) {
        if slot == NONE {
            return;
        }
        let row = self.row_mut::<R>(slot);
        if mask == FULL {
            *row = *values;
        } else {
            for lane in lanes(mask) {
                row[lane] = values[lane];
            }
        }
    }
}

/// The lanes of a mask, lowest first.
#[inline(always)]
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize % LANES;
        rest &= rest - 1;
        Some(lane)
    })
}

/// An operation on one source. `k` is [`Inst::imm`].
pub(crate) trait Fun1: 'static {
    type A: Value;
    type D: Value;
    const HOT: bool;
    fn f(k: u64, a: Self::A) -> Self::D;
}

/// An operation on two sources.
pub(crate) trait Fun2: 'static {
    type A: Value;
    type B: Value;
    type D: Value;
    const HOT: bool;
    fn f(k: u64, a: Self::A, b: Self::B) -> Self::D;
}

/// An operation on three sources.
pub(crate) trait Fun3: 'static {
    type A: Value;
    type B: Value;
    type C: Value;
    type D: Value;
    const HOT: bool;
    fn f(k: u64, a: Self::A, b: Self::B, c: Self::C) -> Self::D;
}

struct Run<'r, 'c, F> {
    warp: &'r mut Warp,
    context: &'r Context<'c>,
    inst: &'r Inst,
    mask: u32,
    function: PhantomData<F>,
}

struct One<T>(T);
struct Two<T>(T);
struct Three<T>(T);

impl<F: Fun1> Twice for One<Run<'_, '_, F>> {
    type Output = ();
    #[inline(always)]
    fn run(self, _: bool) {
        let Run {
            warp,
            context,
            inst,
            mask,
            ..
        } = self.0;
        let a = *warp.row::<<F::A as Value>::Raw>(context, inst.a);
        let k = inst.imm;
        let d = warp.row_mut::<<F::D as Value>::Raw>(inst.d);
        if mask == FULL {
            for lane in 0..LANES {
                d[lane] = F::f(k, F::A::get(a[lane])).put();
            }
        } else {
            for lane in lanes(mask) {
                d[lane] = F::f(k, F::A::get(a[lane])).put();
            }
        }
    }
}

impl<F: Fun2> Twice for Two<Run<'_, '_, F>> {
    type Output = ();
    #[inline(always)]
    fn run(self, _: bool) {
        let Run {
            warp,
            context,
            inst,
            mask,
            ..
        } = self.0;
        let a = *warp.row::<<F::A as Value>::Raw>(context, inst.a);
        let b = *warp.row::<<F::B as Value>::Raw>(context, inst.b);
        let k = inst.imm;
        let d = warp.row_mut::<<F::D as Value>::Raw>(inst.d);
        if mask == FULL {
            for lane in 0..LANES {
                d[lane] = F::f(k, F::A::get(a[lane]), F::B::get(b[lane])).put();
            }
        } else {
            for lane in lanes(mask) {
                d[lane] = F::f(k, F::A::get(a[lane]), F::B::get(b[lane])).put();
            }
        }
    }
}

impl<F: Fun3> Twice for Three<Run<'_, '_, F>> {
    type Output = ();
    #[inline(always)]
    fn run(self, _: bool) {
        let Run {
            warp,
            context,
            inst,
            mask,
            ..
        } = self.0;
        let a = *warp.row::<<F::A as Value>::Raw>(context, inst.a);
        let b = *warp.row::<<F::B as Value>::Raw>(context, inst.b);
        let c = *warp.row::<<F::C as Value>::Raw>(context, inst.c);
        let k = inst.imm;
        let d = warp.row_mut::<<F::D as Value>::Raw>(inst.d);
        if mask == FULL {
            for lane in 0..LANES {
                d[lane] = F::f(
                    k,
                    F::A::get(a[lane]),
                    F::B::get(b[lane]),
                    F::C::get(c[lane]),
                )
                .put();
            }
        } else {
            for lane in lanes(mask) {
                d[lane] = F::f(
                    k,
                    F::A::get(a[lane]),
                    F::B::get(b[lane]),
                    F::C::get(c[lane]),
                )
                .put();
            }
        }
    }
}

macro_rules! handler {
    ($name:ident, $trait:ident, $arity:ident) => {
        /// Handler of an operation.
        pub(crate) fn $name<F: $trait>(
            warp: &mut Warp,
            context: &mut Context<'_>,
            inst: &Inst,
            mask: u32,
        ) -> Flow {
            let context = &*context;
            let run = $arity(Run {
                warp,
                context,
                inst,
                mask,
                function: PhantomData::<F>,
            });
            if const { F::HOT } {
                twice(context.wide, run);
            } else {
                run.run(false);
            }
            Flow::Next
        }
    };
}
handler!(one, Fun1, One);
handler!(two, Fun2, Two);
handler!(three, Fun3, Three);

/// Whether an operation is compiled for AVX2 and FMA too.
#[allow(non_upper_case_globals)]
pub(crate) mod heat {
    pub const hot: bool = true;
    pub const cold: bool = false;
}

/// Declares operations: `Name(a: type, …) -> type = expression;`. `hot` ones
/// are compiled for AVX2 and FMA too. `k` names [`Inst::imm`] in the body.
macro_rules! operations {
    ($($heat:ident $name:ident($k:ident; $a:ident: $at:ty) -> $d:ty = $e:expr;)*) => { $(
        pub(crate) struct $name;
        impl $crate::engine::lanes::Fun1 for $name {
            type A = $at; type D = $d;
            const HOT: bool = $crate::engine::lanes::heat::$heat;
            #[inline(always)]
            fn f($k: u64, $a: $at) -> $d { let _ = $k; $e }
        }
    )* };
    ($($heat:ident $name:ident($k:ident; $a:ident: $at:ty, $b:ident: $bt:ty) -> $d:ty = $e:expr;)*) => { $(
        pub(crate) struct $name;
        impl $crate::engine::lanes::Fun2 for $name {
            type A = $at; type B = $bt; type D = $d;
            const HOT: bool = $crate::engine::lanes::heat::$heat;
            #[inline(always)]
            fn f($k: u64, $a: $at, $b: $bt) -> $d { let _ = $k; $e }
        }
    )* };
    ($($heat:ident $name:ident($k:ident; $a:ident: $at:ty, $b:ident: $bt:ty, $c:ident: $ct:ty) -> $d:ty = $e:expr;)*) => { $(
        pub(crate) struct $name;
        impl $crate::engine::lanes::Fun3 for $name {
            type A = $at; type B = $bt; type C = $ct; type D = $d;
            const HOT: bool = $crate::engine::lanes::heat::$heat;
            #[inline(always)]
            fn f($k: u64, $a: $at, $b: $bt, $c: $ct) -> $d { let _ = $k; $e }
        }
    )* };
}
pub(crate) use operations;
