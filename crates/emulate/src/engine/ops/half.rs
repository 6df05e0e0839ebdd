//! f16 and bf16 arithmetic, single and packed (PTX ISA 9.7.4).

use super::float::{extremum, ftz, pack};
use super::integer::{binary, ternary, unary};
use crate::arith::half::{self, BF16, F16, Half, Mode};
use crate::engine::decode::{Decoder, Ins, Problem, unsupported};
use crate::engine::inst::{Class, Handler};
use crate::engine::lanes::{Fun1, Fun2, Fun3, one, three, two};
use ptx::{Mnemonic, Modifier, Type};
use std::marker::PhantomData;

#[inline(always)]
fn mode(k: u64) -> Mode {
    Mode {
        ftz: ftz(k),
        sat: k & 1 << 4 != 0,
        relu: k & 1 << 7 != 0,
    }
}

/// Declares an operation on single halves and its packed form.
macro_rules! halves {
    (1 $($name:ident, $packed:ident($k:ident, $a:ident) = $e:expr;)*) => { $(
        struct $name<H>(PhantomData<H>);
        impl<H: Half + 'static> Fun1 for $name<H> {
            type A = u16; type D = u16;
            const HOT: bool = false;
            #[inline(always)]
            fn f($k: u64, $a: u16) -> u16 { $e }
        }
        struct $packed<H>(PhantomData<H>);
        impl<H: Half + 'static> Fun1 for $packed<H> {
            type A = u32; type D = u32;
            const HOT: bool = false;
            #[inline(always)]
            fn f($k: u64, a: u32) -> u32 { half::both(a, |$a| $e) }
        }
    )* };
    (2 $($name:ident, $packed:ident($k:ident, $a:ident, $b:ident) = $e:expr;)*) => { $(
        struct $name<H>(PhantomData<H>);
        impl<H: Half + 'static> Fun2 for $name<H> {
            type A = u16; type B = u16; type D = u16;
            const HOT: bool = true;
            #[inline(always)]
            fn f($k: u64, $a: u16, $b: u16) -> u16 { $e }
        }
        struct $packed<H>(PhantomData<H>);
        impl<H: Half + 'static> Fun2 for $packed<H> {
            type A = u32; type B = u32; type D = u32;
            const HOT: bool = true;
            #[inline(always)]
            fn f($k: u64, a: u32, b: u32) -> u32 { half::both2(a, b, |$a, $b| $e) }
        }
    )* };
    (3 $($name:ident, $packed:ident($k:ident, $a:ident, $b:ident, $c:ident) = $e:expr;)*) => { $(
        struct $name<H>(PhantomData<H>);
        impl<H: Half + 'static> Fun3 for $name<H> {
            type A = u16; type B = u16; type C = u16; type D = u16;
            const HOT: bool = true;
            #[inline(always)]
            fn f($k: u64, $a: u16, $b: u16, $c: u16) -> u16 { $e }
        }
        struct $packed<H>(PhantomData<H>);
        impl<H: Half + 'static> Fun3 for $packed<H> {
            type A = u32; type B = u32; type C = u32; type D = u32;
            const HOT: bool = true;
            #[inline(always)]
            fn f($k: u64, a: u32, b: u32, c: u32) -> u32 { half::both3(a, b, c, |$a, $b, $c| $e) }
        }
    )* };
}
halves! { 1
    Neg, NegPacked(k, a) = half::neg::<H>(a, ftz(k));
    Abs, AbsPacked(k, a) = half::abs::<H>(a, ftz(k));
    Tanh, TanhPacked(_k, a) = half::tanh::<H>(a);
    Ex2, Ex2Packed(k, a) = half::ex2::<H>(a, ftz(k));
}
halves! { 2
    Add, AddPacked(k, a, b) = half::add::<H>(a, b, mode(k));
    Sub, SubPacked(k, a, b) = half::sub::<H>(a, b, mode(k));
    Mul, MulPacked(k, a, b) = half::mul::<H>(a, b, mode(k));
    Min, MinPacked(k, a, b) = half::min::<H>(a, b, extremum(k));
    Max, MaxPacked(k, a, b) = half::max::<H>(a, b, extremum(k));
}
halves! { 3
    Fma, FmaPacked(k, a, b, c) = half::fma::<H>(a, b, c, mode(k));
    FmaOob, FmaOobPacked(k, a, b, c) = half::fma_oob::<H>(a, b, c, mode(k));
}

fn choose<H: Half + 'static>(x: &Ins<'_>, packed: bool) -> Option<Handler> {
    Some(match (x.mnemonic, packed) {
        (Mnemonic::Add, false) => two::<Add<H>>,
        (Mnemonic::Add, true) => two::<AddPacked<H>>,
        (Mnemonic::Sub, false) => two::<Sub<H>>,
        (Mnemonic::Sub, true) => two::<SubPacked<H>>,
        (Mnemonic::Mul, false) => two::<Mul<H>>,
        (Mnemonic::Mul, true) => two::<MulPacked<H>>,
        (Mnemonic::Min, false) => two::<Min<H>>,
        (Mnemonic::Min, true) => two::<MinPacked<H>>,
        (Mnemonic::Max, false) => two::<Max<H>>,
        (Mnemonic::Max, true) => two::<MaxPacked<H>>,
        (Mnemonic::Fma, false) if x.has(Modifier::Oob) => three::<FmaOob<H>>,
        (Mnemonic::Fma, true) if x.has(Modifier::Oob) => three::<FmaOobPacked<H>>,
        (Mnemonic::Fma, false) => three::<Fma<H>>,
        (Mnemonic::Fma, true) => three::<FmaPacked<H>>,
        (Mnemonic::Neg, false) => one::<Neg<H>>,
        (Mnemonic::Neg, true) => one::<NegPacked<H>>,
        (Mnemonic::Abs, false) => one::<Abs<H>>,
        (Mnemonic::Abs, true) => one::<AbsPacked<H>>,
        (Mnemonic::Tanh, false) => one::<Tanh<H>>,
        (Mnemonic::Tanh, true) => one::<TanhPacked<H>>,
        (Mnemonic::Ex2, false) => one::<Ex2<H>>,
        (Mnemonic::Ex2, true) => one::<Ex2Packed<H>>,
        _ => return None,
    })
}

pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    x.only(&[
        Modifier::Rn,
        Modifier::Ftz,
        Modifier::Sat,
        Modifier::Relu,
        Modifier::Approx,
        Modifier::NaN,
        Modifier::Xorsign,
        Modifier::Abs,
        Modifier::Oob,
    ])?;
    let (class, packed) = match x.ty()? {
        Type::F16 | Type::BF16 => (Class::B16, false),
        _ => (Class::B32, true),
    };
    let run = match x.ty()? {
        Type::F16 | Type::F16x2 => choose::<F16>(x, packed),
        _ => choose::<BF16>(x, packed),
    };
    let Some(run) = run else {
        return unsupported("half-precision instruction");
    };
    let imm = pack(x);
    match x.ops.len() {
        2 => unary(d, x, class, class, run, imm),
        3 => {
            let before = d.out.code.len();
            binary(d, x, class, run)?;
            d.out.code[before..]
                .iter_mut()
                .filter(|i| i.counted)
                .for_each(|i| i.imm = imm);
            Ok(())
        }
        _ => ternary(d, x, class, run, imm),
    }
}
