//! The modifiers of opcodes, declared once (PTX ISA, chapters 5 and 9).
//!
//! # To add a modifier
//! Add its name to the list below; a type also needs its size, in
//! [`Type::bytes`]. A modifier that is not in the list is
//! [`Modifier::Unknown`], and only its text distinguishes it from others.

use crate::Type;
use crate::names::Names;

/// Declares the modifiers: a variant and its text each.
macro_rules! modifiers {
    (
        types { $($ty:ident $type_text:literal)* }
        shapes { $($shape:ident $shape_text:literal ($m:literal $n:literal $k:literal))* }
        others { $($other:ident $text:literal)* }
    ) => {
        /// A part of an opcode after a dot: `.global`, `.u32`, `.wide`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Modifier {
            $($ty,)*
            $($shape,)*
            $($other,)*
            /// None of these.
            Unknown,
        }

        const ALL: &[Modifier] = &[
            $(Modifier::$ty,)* $(Modifier::$shape,)* $(Modifier::$other,)*
        ];

        static NAMES: Names<512> = Names::of(&[$($type_text,)* $($shape_text,)* $($text,)*]);

        impl Modifier {
            /// The type that it names.
            #[inline]
            pub fn ty(self) -> Option<Type> {
                match self {
                    $(Modifier::$ty => Some(Type::$ty),)*
                    _ => None,
                }
            }

            /// `.mMnNkK`: rows, columns and depth of a product of matrices.
            pub fn shape(self) -> Option<(u32, u32, u32)> {
                match self {
                    $(Modifier::$shape => Some(($m, $n, $k)),)*
                    _ => None,
                }
            }
        }
    };
}

#[rustfmt::skip]
modifiers! {
    types {
        Pred "pred" B8 "b8" B16 "b16" B32 "b32" B64 "b64" B128 "b128" U8 "u8" U16 "u16"
        U32 "u32" U64 "u64" S8 "s8" S16 "s16" S32 "s32" S64 "s64" F16 "f16" F16x2 "f16x2"
        BF16 "bf16" BF16x2 "bf16x2" TF32 "tf32" F32 "f32" F32x2 "f32x2" F64 "f64" U16x2 "u16x2"
        S16x2 "s16x2" E4M3 "e4m3" E5M2 "e5m2" E4M3x2 "e4m3x2" E5M2x2 "e5m2x2" E2M3 "e2m3"
        E3M2 "e3m2" E2M1 "e2m1" UE8M0 "ue8m0" E2M3x2 "e2m3x2" E3M2x2 "e3m2x2" E2M1x2 "e2m1x2"
        UE8M0x2 "ue8m0x2" E4M3x4 "e4m3x4" E5M2x4 "e5m2x4" E2M3x4 "e2m3x4" E3M2x4 "e3m2x4"
        E2M1x4 "e2m1x4" Texref "texref" Samplerref "samplerref" Surfref "surfref"
    }
    shapes {
        M8n8k4 "m8n8k4" (8 8 4) M8n8k16 "m8n8k16" (8 8 16) M8n8k32 "m8n8k32" (8 8 32)
        M8n8k128 "m8n8k128" (8 8 128) M8n32k16 "m8n32k16" (8 32 16) M16n8k4 "m16n8k4" (16 8 4)
        M16n8k8 "m16n8k8" (16 8 8) M16n8k16 "m16n8k16" (16 8 16) M16n8k32 "m16n8k32" (16 8 32)
        M16n8k64 "m16n8k64" (16 8 64) M16n8k128 "m16n8k128" (16 8 128)
        M16n8k256 "m16n8k256" (16 8 256) M16n16k8 "m16n16k8" (16 16 8) M16n16k16 "m16n16k16" (16 16 16)
        M32n8k16 "m32n8k16" (32 8 16)
    }
    others {
        // State spaces (5.1) and what they are converted to
        Global "global" Shared "shared" SharedCta "shared::cta" SharedCluster "shared::cluster"
        Local "local" Const "const" Param "param" ParamEntry "param::entry"
        ParamFunc "param::func" Generic "generic" Tensor "tensor" To "to"
        // Order, scope and caching of accesses (8, 9.7.9)
        Weak "weak" Volatile "volatile" Relaxed "relaxed" Acquire "acquire" Release "release"
        AcqRel "acq_rel" Mmio "mmio" Unified "unified" Cta "cta" Cluster "cluster" Gpu "gpu"
        Sys "sys" Ca "ca" Cg "cg" Cs "cs" Lu "lu" Cv "cv" Wb "wb" Wt "wt" Nc "nc"
        L1EvictNormal "L1::evict_normal" L1EvictUnchanged "L1::evict_unchanged"
        L1EvictFirst "L1::evict_first" L1EvictLast "L1::evict_last"
        L1NoAllocate "L1::no_allocate" L2EvictLast "L2::evict_last"
        L2EvictNormal "L2::evict_normal" L2EvictFirst "L2::evict_first"
        L2CacheHint "L2::cache_hint" L2Prefetch64 "L2::64B" L2Prefetch128 "L2::128B"
        L2Prefetch256 "L2::256B"
        // Vectors
        V2 "v2" V4 "v4" V8 "v8"
        // Which part of a result, carries
        Lo "lo" Hi "hi" Wide "wide" Cc "cc" L "l" R "r"
        // Rounding and ranges of floating point
        Rn "rn" Rz "rz" Rm "rm" Rp "rp" Rna "rna" Rni "rni" Rzi "rzi" Rmi "rmi" Rpi "rpi"
        Ftz "ftz" Sat "sat" Satfinite "satfinite" Relu "relu" Approx "approx" Full "full"
        NaN "NaN" Xorsign "xorsign" Oob "oob" Pack "pack"
        // Comparisons and tests
        Eq "eq" Ne "ne" Lt "lt" Le "le" Gt "gt" Ge "ge" Ls "ls" Hs "hs" Equ "equ" Neu "neu"
        Ltu "ltu" Leu "leu" Gtu "gtu" Geu "geu" Num "num" Nan "nan" Finite "finite"
        Infinite "infinite" Number "number" Notanumber "notanumber" Normal "normal"
        Subnormal "subnormal"
        // Operations of atomics, reductions, votes, shuffles
        Add "add" And "and" Or "or" Xor "xor" Min "min" Max "max" Inc "inc" Dec "dec"
        Exch "exch" Cas "cas" Abs "abs" Popc "popc" All "all" Any "any" Uni "uni"
        Ballot "ballot" Up "up" Down "down" Bfly "bfly" Idx "idx"
        // Bits and bytes
        Clamp "clamp" Wrap "wrap" Shiftamt "shiftamt" F4e "f4e" B4e "b4e" Rc8 "rc8" Ecl "ecl"
        Ecr "ecr" Rc16 "rc16"
        // Barriers and warps
        Sync "sync" Aligned "aligned" Warp "warp" Red "red" Arrive "arrive" Wait "wait"
        MbarrierInit "mbarrier_init"
        // Asynchronous copies and mbarrier objects
        Async "async" Bulk "bulk" CommitGroup "commit_group" WaitGroup "wait_group"
        WaitAll "wait_all" Mbarrier "mbarrier" Prefetch "prefetch" Reduce "reduce"
        CpMask "cp_mask" IgnoreOob "ignore_oob" MulticastCluster "multicast::cluster"
        MbarrierCompleteTxBytes "mbarrier::complete_tx::bytes" Noinc "noinc" Init "init"
        Inval "inval" ArriveDrop "arrive_drop" ExpectTx "expect_tx" CompleteTx "complete_tx"
        TestWait "test_wait" TryWait "try_wait" PendingCount "pending_count"
        NoComplete "noComplete" Parity "parity" Replace "replace" CpFenceproxy "cp_fenceproxy"
        TryCancel "try_cancel" QueryCancel "query_cancel" LdReduce "ld_reduce"
        // Matrices and tensor memory
        Load "load" Store "store" Mma "mma" A "a" B "b" C "c" D "d" Row "row" Col "col"
        Sp "sp" SpOrderedMetadata "sp::ordered_metadata"
        Trans "trans" M8n8 "m8n8" M16n16 "m16n16" X1 "x1" X2 "x2" X4 "x4" S4 "s4" U4 "u4"
        S2 "s2" U2 "u2" B1 "b1" MmaAsync "mma_async" Alloc "alloc" Dealloc "dealloc"
        RelinquishAllocPermit "relinquish_alloc_permit" Ld "ld" St "st" Cp "cp" Shift "shift"
        Commit "commit" Fence "fence" FenceBeforeThreadSync "fence::before_thread_sync"
        FenceAfterThreadSync "fence::after_thread_sync" WaitLd "wait::ld" WaitSt "wait::st"
        // Textures and surfaces
        D1 "1d" D2 "2d" D3 "3d" A1d "a1d" A2d "a2d" Cube "cube" Acube "acube" Level "level"
        Grad "grad" Base "base" G "g" Trap "trap" Zero "zero"
    }
}

impl Modifier {
    /// The modifier that is written so, without its dot.
    #[inline]
    pub fn of(text: &str) -> Modifier {
        match NAMES.find(text) {
            Some(index) => ALL[index],
            None => Modifier::Unknown,
        }
    }

    /// How it is written, without its dot; `None` for [`Modifier::Unknown`].
    pub fn text(self) -> Option<&'static str> {
        NAMES.text(self as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Modifier};

    #[test]
    fn each_modifier_is_found_by_its_text() {
        for modifier in ALL {
            let text = modifier.text().expect("a known modifier has a text");
            assert_eq!(Modifier::of(text), *modifier);
            assert_eq!(Modifier::of(&format!("{text}_")), Modifier::Unknown);
        }
        assert_eq!(Modifier::Unknown.text(), None);
        assert_eq!(Modifier::of(""), Modifier::Unknown);
    }
}
