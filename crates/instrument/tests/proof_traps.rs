//! What has misled other analyses must not mislead the proofs of launches:
//! one small kernel for each trap, with launches of it that stay in bounds
//! and launches that do not. None of the latter may be proved; the former
//! that are listed must be.

use crate::common;

use instrument::LaunchShape;

/// A kernel over a buffer `p` (`%rd1`) of 64 bytes, a number `n` (`%r1`), a
/// wide number `w` (`%rd2`) and the thread's own number (`%r2`).
struct Trap {
    name: &'static str,
    body: &'static str,
    /// `n` and `w`; each launch is of 32 threads.
    proved: &'static [(i64, i64)],
    never: &'static [(i64, i64)],
}

const fn trap(
    name: &'static str,
    body: &'static str,
    proved: &'static [(i64, i64)],
    never: &'static [(i64, i64)],
) -> Trap {
    Trap {
        name,
        body,
        proved,
        never,
    }
}

/// Address of the buffer.
const BASE: i64 = 1 << 40;
/// A store to element `%r9` of the buffer, read as a signed number.
const STORE: &str = "mul.wide.s32 %rd9, %r9, 4; add.s64 %rd9, %rd1, %rd9; st.global.u32 [%rd9], 0;";
/// The same, if `%p9`.
const GUARDED: &str =
    "mul.wide.s32 %rd9, %r9, 4; add.s64 %rd9, %rd1, %rd9; @%p9 st.global.u32 [%rd9], 0;";
/// A store to the buffer at the offset in `%rd9`.
const AT: &str = "add.s64 %rd9, %rd1, %rd9; st.global.u32 [%rd9], 0;";

const TRAPS: &[Trap] = &[
    // ---- alignment
    trap(
        "bytes that the host counts",
        "mov.b64 %rd9, %rd2; AT",
        &[(0, 0), (0, 4), (0, 60)],
        &[(0, 1), (0, 2), (0, 61)],
    ),
    trap(
        "some threads' bytes are multiples of four, others' only of two",
        "and.b32 %r9, %r2, 7; mul.wide.u32 %rd9, %r9, 6; AT",
        &[],
        &[(0, 0)],
    ),
    trap(
        "a constant in the operand makes up for one in the address",
        "and.b32 %r9, %r2, 7; mul.wide.u32 %rd9, %r9, 4; add.s64 %rd9, %rd9, 2; add.s64 %rd9, %rd1, %rd9; \
         add.s64 %rd9, %rd9, %rd2; st.global.u32 [%rd9+2], 0;",
        &[(0, 0), (0, 8)],
        &[(0, 2), (0, 1)],
    ),
    trap(
        "a row of as many bytes as the host says",
        "and.b32 %r9, %r2, 3; mul.lo.s32 %r9, %r9, %r1; cvt.s64.s32 %rd9, %r9; AT",
        &[(0, 0), (4, 0), (20, 0)],
        &[(1, 0), (2, 0), (18, 0), (19, 0)],
    ),
    trap(
        "a step of two in a loop that ends at a multiple of four",
        "mov.b64 %rd9, %rd1; mov.u32 %r9, 0; again: add.s64 %rd9, %rd9, 2; add.s32 %r9, %r9, 1; \
         st.global.u32 [%rd9], 0; setp.lt.s32 %p9, %r9, 4; @%p9 bra again;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "the end of a range is no multiple of what all its numbers are",
        "shl.b32 %r9, %r2, 4; setp.lt.u32 %p9, %r9, %r1; cvt.u64.u32 %rd9, %r9; add.s64 %rd9, %rd1, %rd9; \
         @%p9 st.global.v4.u32 [%rd9], {%r2, %r2, %r2, %r2};",
        &[(1, 0), (61, 0), (64, 0)],
        &[(65, 0), (80, 0)],
    ),
    // ---- loops
    trap(
        "what is halved in each pass has fewer low bits that are zero each time",
        "mov.u32 %r8, %r1; again: shr.s32 %r8, %r8, 1; shr.s32 %r9, %r8, 4; STORE setp.gt.s32 %p9, %r8, 1; \
         @%p9 bra again;",
        &[(2, 0), (255, 0), (256, 0), (511, 0)],
        &[(512, 0), (1024, 0)],
    ),
    trap(
        "a loop that is unrolled is not entered where there are too few passes",
        "and.b32 %r6, %r1, 3; sub.s32 %r7, %r6, %r1; add.s32 %r5, %r1, -1; setp.lt.u32 %p8, %r5, 3; \
         @%p8 bra done; mov.u32 %r8, 0; mov.u64 %rd9, %rd1; \
         again: st.global.v4.u32 [%rd9], {%r2, %r2, %r2, %r2}; add.s64 %rd9, %rd9, 16; add.s32 %r8, %r8, 4; \
         add.s32 %r9, %r7, %r8; setp.ne.s32 %p9, %r9, 0; @%p9 bra again; done:",
        &[(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (16, 0), (19, 0)],
        &[(20, 0), (100, 0)],
    ),
    trap(
        "an address moves with an index that a branch in the loop compares",
        "add.s32 %r8, %r1, 3; mul.wide.s32 %rd9, %r1, 4; add.s64 %rd9, %rd1, %rd9; mov.u32 %r7, 0; \
         again: add.s32 %r9, %r8, -3; setp.lt.s32 %p8, %r9, 0; setp.gt.s32 %p9, %r9, 15; or.pred %p9, %p8, %p9; \
         @%p9 bra skip; st.global.u32 [%rd9], 0; \
         skip: add.s64 %rd9, %rd9, 4; add.s32 %r8, %r8, 1; add.s32 %r7, %r7, 1; setp.lt.s32 %p9, %r7, 40; \
         @%p9 bra again;",
        &[(0, 0), (5, 0), (-3, 0), (-50, 0), (100, 0)],
        &[],
    ),
    trap(
        "an index that a branch in the loop compares has wrapped, and the address has not",
        "add.s32 %r8, %r1, 3; mul.wide.u32 %rd9, %r1, 4; add.s64 %rd9, %rd1, %rd9; mov.u32 %r7, 0; \
         again: add.s32 %r9, %r8, -3; setp.gt.u32 %p9, %r9, 15; @%p9 bra skip; st.global.u32 [%rd9], 0; \
         skip: add.s64 %rd9, %rd9, 4; add.s32 %r8, %r8, 1; add.s32 %r7, %r7, 1; setp.lt.s32 %p9, %r7, 40; \
         @%p9 bra again;",
        &[(0, 0), (5, 0), (100, 0)],
        &[(-2, 0), (-1, 0), (-39, 0)],
    ),
    trap(
        "a branch in the loop compares what is further than the address",
        "add.s32 %r8, %r1, 3; mul.wide.s32 %rd9, %r1, 4; add.s64 %rd9, %rd1, %rd9; mov.u32 %r7, 0; \
         again: setp.gt.u32 %p9, %r8, 15; @%p9 bra skip; st.global.u32 [%rd9], 0; \
         skip: add.s64 %rd9, %rd9, 4; add.s32 %r8, %r8, 1; add.s32 %r7, %r7, 1; setp.lt.s32 %p9, %r7, 40; \
         @%p9 bra again;",
        &[(0, 0), (12, 0), (100, 0)],
        &[(-1, 0), (-3, 0), (-20, 0)],
    ),
    // ---- addresses of variables
    trap(
        "a generic address less one in its own space is no zero",
        "mov.u64 %rd3, s; cvta.shared.u64 %rd4, %rd3; sub.s64 %rd9, %rd4, %rd3; AT",
        &[],
        &[(0, 0)],
    ),
    trap(
        "nor the other way round, in local memory",
        "mov.u64 %rd3, __local_depot0; cvta.local.u64 %rd4, %rd3; sub.s64 %rd9, %rd3, %rd4; AT",
        &[],
        &[(0, 0)],
    ),
    trap(
        "an address in its own space is none in the generic one",
        "mov.u64 %rd3, s; st.u32 [%rd3], 0;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "nor the other way round, in shared memory",
        "mov.u64 %rd3, s; cvta.shared.u64 %rd4, %rd3; st.shared.u32 [%rd4], 0;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "nor converted to another space",
        "mov.u64 %rd3, s; cvta.shared.u64 %rd4, %rd3; cvta.to.local.u64 %rd5, %rd4; \
         st.local.u32 [%rd5], 0;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "converted there",
        "mov.u64 %rd3, s; cvta.shared.u64 %rd4, %rd3; cvt.s64.s32 %rd5, %r1; \
         add.s64 %rd4, %rd4, %rd5; st.u32 [%rd4], 0;",
        &[(0, 0), (60, 0)],
        &[(61, 0), (-1, 0)],
    ),
    trap(
        "converted there and back",
        "mov.u64 %rd3, s; cvta.shared.u64 %rd4, %rd3; cvt.s64.s32 %rd5, %r1; \
         add.s64 %rd4, %rd4, %rd5; cvta.to.shared.u64 %rd6, %rd4; st.shared.u32 [%rd6], 0;",
        &[(0, 0), (60, 0)],
        &[(61, 0), (-1, 0)],
    ),
    trap(
        "the distance of two variables is not known",
        "mov.u32 %r3, s; mov.u32 %r4, t; sub.u32 %r5, %r4, %r3; add.u32 %r6, %r3, %r5; \
         add.u32 %r6, %r6, %r1; st.shared.u32 [%r6], 0;",
        &[],
        &[(0, 0), (64, 0)],
    ),
    trap(
        "a narrow address wraps where it should",
        "mov.u32 %r3, s; add.u32 %r4, %r3, %r1; st.shared.u32 [%r4], 0;",
        &[(0, 0), (60, 0)],
        &[(-4, 0), (64, 0), (i32::MIN as i64, 0)],
    ),
    trap(
        "twice a variable's address is not its address",
        "mov.u32 %r3, s; add.u32 %r4, %r3, %r3; st.shared.u32 [%r4], 0;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "dynamic shared memory is as long as the launch says",
        "mov.u32 %r3, dynamic; add.u32 %r4, %r3, %r1; st.shared.u32 [%r4], 0;",
        &[(0, 0), (28, 0)],
        &[(29, 0), (-1, 0)],
    ),
    // ---- registers that are written in unusual ways
    trap(
        "barriers that count write a register",
        "mov.u32 %r9, 0; setp.ge.s32 %p1, %r2, %r1; bar.red.popc.u32 %r9, 0, %p1; STORE",
        &[],
        &[(0, 0)],
    ),
    trap(
        "barriers that vote write a predicate",
        "mov.u32 %r9, %r2; setp.lt.s32 %p9, %r9, 16; setp.eq.s32 %p1, %r9, %r9; \
         bar.red.or.pred %p9, 0, %p1; GUARDED",
        &[],
        &[(0, 0)],
    ),
    trap(
        "both halves of a pair are written",
        "mov.u32 %r9, 0; mov.b64 {%r3, %r9}, %rd2; STORE",
        &[],
        &[(0, 1 << 40)],
    ),
    trap(
        "all elements of a vector are written",
        "mov.u32 %r9, 0; ld.global.v2.u32 {%r3, %r9}, [%rd1]; STORE",
        &[],
        &[(0, 0)],
    ),
    trap(
        "shuffles write a register and a predicate",
        "mov.u32 %r9, %r2; setp.lt.s32 %p9, %r9, 16; \
         shfl.sync.idx.b32 %r3|%p9, %r9, 0, 31, -1; GUARDED",
        &[],
        &[(0, 0)],
    ),
    trap(
        "atomics write a register",
        "mov.u32 %r9, 0; atom.global.add.u32 %r9, [%rd1], 1; STORE",
        &[],
        &[(0, 0)],
    ),
    // ---- widths
    trap(
        "what is narrowed is less than what it was",
        "max.s64 %rd3, %rd2, -8589934592; min.s64 %rd3, %rd3, -8589934588; \
         cvt.u32.u64 %r3, %rd3; cvt.s64.s32 %rd9, %r3; add.s64 %rd9, %rd9, 4294967296; AT",
        &[],
        &[(0, -8589934592)],
    ),
    trap(
        "the same, unsigned",
        "max.s64 %rd3, %rd2, -8589934592; min.s64 %rd3, %rd3, -8589934588; \
         cvt.u32.u64 %r3, %rd3; cvt.u64.u32 %rd9, %r3; add.s64 %rd9, %rd9, 4294967296; AT",
        &[],
        &[(0, -8589934592)],
    ),
    trap(
        "32 bits wrap before they are extended",
        "shl.b32 %r9, %r1, 2; cvt.s64.s32 %rd9, %r9; AT",
        &[(0, 0), (0x4000_0000, 0), (15, 0)],
        &[(16, 0), (0x4000_0010, 0), (0x3fff_ffff, 0)],
    ),
    trap(
        "a wide product does not wrap",
        "mov.u32 %r9, %r1; STORE",
        &[(0, 0), (15, 0)],
        &[(0x4000_0000, 0), (-1, 0), (16, 0)],
    ),
    trap(
        "64 bits wrap, too",
        "shl.b64 %rd9, %rd2, 2; AT",
        &[(0, 1 << 62), (0, 15)],
        &[(0, -1), (0, 16), (0, (1 << 62) - 1)],
    ),
    trap(
        "16 bits wrap as well",
        "cvt.u16.u32 %rs1, %r1; add.u16 %rs1, %rs1, 1; cvt.u32.u16 %r9, %rs1; STORE",
        &[(65535, 0), (14, 0), (65536, 0)],
        &[(15, 0), (65534, 0), (-2, 0)],
    ),
    trap(
        "bytes are extended by their sign",
        "cvt.s32.s8 %r9, %r1; STORE",
        &[(15, 0), (256, 0)],
        &[(200, 0), (16, 0), (-1, 0)],
    ),
    // ---- signs
    trap(
        "a signed bound says nothing of negative numbers",
        "mov.u32 %r9, %r1; setp.lt.s32 %p9, %r9, 16; GUARDED",
        &[(15, 0), (16, 0)],
        &[(-1, 0), (i32::MIN as i64, 0)],
    ),
    trap(
        "an unsigned bound does",
        "mov.u32 %r9, %r1; setp.lt.u32 %p9, %r9, 16; GUARDED",
        &[(15, 0), (16, 0), (-1, 0), (i32::MIN as i64, 0)],
        &[],
    ),
    trap(
        "the smaller of signed numbers",
        "min.s32 %r9, %r1, 15; STORE",
        &[(15, 0), (100, 0)],
        &[(-1, 0)],
    ),
    trap(
        "the smaller of unsigned numbers",
        "min.u32 %r9, %r1, 15; STORE",
        &[(15, 0), (100, 0), (-1, 0)],
        &[],
    ),
    trap(
        "the least number has no absolute value",
        "abs.s32 %r9, %r1; min.s32 %r9, %r9, 15; STORE",
        &[(-4, 0), (4, 0)],
        &[(i32::MIN as i64, 0)],
    ),
    trap(
        "minus the least number is itself",
        "neg.s32 %r9, %r1; min.s32 %r9, %r9, 15; STORE",
        &[(-4, 0), (-40, 0)],
        &[(i32::MIN as i64, 0), (1, 0)],
    ),
    // ---- shifts, divisions, bits
    trap(
        "shifts by more than the width give nothing, or the sign",
        "shr.s32 %r9, -100, %r1; STORE",
        &[],
        &[(40, 0), (-1, 0), (0, 0)],
    ),
    trap(
        "to the left by more than the width",
        "shl.b32 %r9, 1, %r1; STORE",
        &[(32, 0), (-1, 0), (3, 0)],
        &[(4, 0), (31, 0)],
    ),
    trap(
        "what is divided by zero can be anything",
        "div.u32 %r9, 5, %r1; STORE",
        &[(1, 0)],
        &[(0, 0)],
    ),
    trap(
        "and what is left of it",
        "rem.u32 %r9, %r2, %r1; STORE",
        &[(16, 0), (1, 0)],
        &[(0, 0), (17, 0)],
    ),
    trap(
        "the remainder of a negative number is negative",
        "rem.s32 %r9, %r1, 16; STORE",
        &[(17, 0)],
        &[(-17, 0)],
    ),
    trap(
        "the upper half of a product has its sign",
        "mul.hi.s32 %r9, %r1, 16; STORE",
        &[(0x7fff_ffff, 0)],
        &[(-1, 0)],
    ),
    trap(
        "signed fields of bits are extended",
        "bfe.s32 %r9, %r1, 0, 4; STORE",
        &[],
        &[(8, 0)],
    ),
    // ---- predicates
    trap(
        "a comparison under a guard may not have been made",
        "setp.eq.s32 %p9, %r1, %r1; setp.eq.s32 %p1, %r1, 0; mov.u32 %r9, %r2; \
         @%p1 setp.lt.s32 %p9, %r9, 16; GUARDED",
        &[],
        &[(1, 0)],
    ),
    trap(
        "nor an assignment",
        "mov.u32 %r9, %r1; setp.lt.s32 %p1, %r2, 16; @%p1 mov.u32 %r9, 0; STORE",
        &[(3, 0)],
        &[(100, 0), (-1, 0)],
    ),
    trap(
        "the second of two predicates is the opposite",
        "mov.u32 %r9, %r2; setp.lt.u32 %p1|%p9, %r9, 16; GUARDED",
        &[],
        &[(0, 0)],
    ),
    trap(
        "the first is not",
        "mov.u32 %r9, %r2; setp.lt.u32 %p9|%p1, %r9, 16; GUARDED",
        &[(0, 0)],
        &[],
    ),
    trap(
        "one of two conditions is not both",
        "mov.u32 %r9, %r2; setp.eq.s32 %p1, %r1, 0; setp.lt.or.u32 %p9, %r9, 16, %p1; GUARDED",
        &[],
        &[(0, 0)],
    ),
    trap(
        "that not both hold does not say which",
        "mov.u32 %r9, %r2; setp.ge.s32 %p1, %r1, 0; setp.ge.and.u32 %p2, %r9, 16, %p1; \
         @%p2 bra $end; STORE",
        &[],
        &[(-1, 0)],
    ),
    trap(
        "a selection chooses by its condition",
        "setp.lt.u32 %p1, %r1, 16; selp.b32 %r9, 0, %r1, %p1; STORE",
        &[(5, 0)],
        &[(16, 0)],
    ),
    trap(
        "a predicate that is turned over",
        "mov.u32 %r9, %r2; setp.lt.u32 %p1, %r9, 16; not.pred %p9, %p1; GUARDED",
        &[],
        &[(0, 0)],
    ),
    trap(
        "a guard of an older value",
        "mov.u32 %r9, %r2; setp.lt.u32 %p9, %r9, 16; add.u32 %r9, %r9, 1; GUARDED",
        &[],
        &[(0, 0)],
    ),
    // ---- memory
    trap(
        "what is read twice may be two things",
        "ld.volatile.global.u32 %r3, [%rd1]; setp.lt.u32 %p9, %r3, 16; \
         ld.volatile.global.u32 %r9, [%rd1]; GUARDED",
        &[],
        &[(0, 0)],
    ),
    trap(
        "what is read once is one thing",
        "ld.volatile.global.u32 %r9, [%rd1]; setp.lt.u32 %p9, %r9, 16; GUARDED",
        &[(0, 0)],
        &[],
    ),
    trap(
        "a byte from memory is one",
        "ld.global.s8 %r9, [%rd1]; min.s32 %r9, %r9, 15; STORE",
        &[],
        &[(0, 0)],
    ),
    trap(
        "a register that nothing was written to is no value to compare",
        "mov.u32 %r9, %r8; setp.lt.u32 %p9, %r8, 16; GUARDED",
        &[],
        &[(0, 0)],
    ),
    // ---- control flow
    trap(
        "a branch to what comes next says nothing",
        "mov.u32 %r9, %r2; setp.ge.u32 %p1, %r9, 16; @%p1 bra $next; $next: STORE",
        &[],
        &[(0, 0)],
    ),
    trap(
        "threads that left are gone",
        "mov.u32 %r9, %r2; setp.ge.u32 %p1, %r9, 16; @%p1 ret; STORE",
        &[(0, 0)],
        &[],
    ),
    trap(
        "threads that left in a branch are gone only there",
        "mov.u32 %r9, %r2; setp.ge.u32 %p1, %r9, 16; setp.eq.s32 %p2, %r1, 0; @%p2 bra $skip; \
         @%p1 exit; $skip: STORE",
        &[],
        &[(0, 0)],
    ),
    trap(
        "what holds in one branch does not hold after both",
        "mov.u32 %r9, %r2; setp.ge.u32 %p1, %r9, 16; @%p1 bra $other; bra $join; \
         $other: bra $join; $join: STORE",
        &[],
        &[(0, 0)],
    ),
    trap(
        "a pointer may have been moved",
        "setp.eq.s32 %p1, %r1, 0; @%p1 add.s64 %rd1, %rd1, 64; st.global.u32 [%rd1], 0;",
        &[(1, 0)],
        &[(0, 0)],
    ),
    // ---- loops
    trap(
        "a counter that steps over its end goes on",
        "mov.u32 %r9, %r1; $loop: STORE sub.u32 %r9, %r9, 3; setp.ne.u32 %p1, %r9, 0; \
         @%p1 bra $loop;",
        &[(15, 0), (3, 0)],
        &[(4, 0), (0, 0)],
    ),
    trap(
        "nothing is more than the greatest number",
        "mov.u32 %r9, 0; $loop: STORE add.u32 %r9, %r9, 1; setp.le.u32 %p1, %r9, %r1; \
         @%p1 bra $loop;",
        &[(15, 0), (0, 0)],
        &[(-1, 0), (16, 0)],
    ),
    trap(
        "no unsigned number is below zero",
        "mov.u32 %r9, 15; $loop: STORE sub.u32 %r9, %r9, 1; setp.ge.u32 %p1, %r9, 0; \
         @%p1 bra $loop;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "signed ones are",
        "mov.u32 %r9, 15; $loop: STORE sub.u32 %r9, %r9, 1; setp.ge.s32 %p1, %r9, 0; \
         @%p1 bra $loop;",
        &[(0, 0)],
        &[],
    ),
    trap(
        "an exit that some rounds pass by ends no loop",
        "mov.u32 %r9, 0; setp.lt.s32 %p3, %r2, 16; $loop: STORE add.u32 %r9, %r9, 1; \
         @%p3 bra $by; setp.ge.u32 %p1, %r9, 16; @%p1 bra $end; $by: \
         ld.global.u32 %r3, [%rd1]; setp.ne.u32 %p2, %r3, 0; @%p2 bra $loop;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "nor one that a second way back passes by",
        "mov.u32 %r9, 0; setp.lt.s32 %p3, %r2, 16; $loop: STORE add.u32 %r9, %r9, 1; \
         @%p3 bra $loop; setp.lt.u32 %p1, %r9, 16; @%p1 bra $loop;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "a limit that moves is none",
        "mov.u32 %r9, 0; mov.u32 %r3, 8; $loop: STORE add.u32 %r9, %r9, 1; \
         add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r9, %r3; @%p1 bra $loop;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "a counter that may stand still",
        "mov.u32 %r9, 0; mov.u32 %r3, 0; setp.lt.s32 %p3, %r2, 1; $loop: STORE \
         @!%p3 add.u32 %r3, %r3, 1; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r3, 8; \
         @%p1 bra $loop;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "a counter that goes either way",
        "mov.u32 %r9, 8; setp.lt.s32 %p3, %r2, 1; selp.b32 %r3, 1, -1, %p3; $loop: STORE \
         add.s32 %r9, %r9, %r3; setp.ne.s32 %p1, %r9, 16; @%p1 bra $loop;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "an inner counter that is not reset",
        "mov.u32 %r9, 0; mov.u32 %r3, 0; $outer: $inner: STORE add.u32 %r9, %r9, 1; \
         and.b32 %r4, %r9, 3; setp.ne.u32 %p1, %r4, 0; @%p1 bra $inner; \
         add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r1; @%p2 bra $outer;",
        &[],
        &[(5, 0)],
    ),
    trap(
        "the value after a loop is one further",
        "mov.u32 %r9, 0; $loop: setp.ge.s32 %p1, %r9, 16; @%p1 bra $out; \
         add.s32 %r9, %r9, 1; bra $loop; $out: STORE",
        &[],
        &[(0, 0)],
    ),
    trap(
        "the last value in a loop that tests at its end",
        "mov.u32 %r9, 0; $loop: add.s32 %r9, %r9, 1; STORE setp.lt.s32 %p1, %r9, %r1; \
         @%p1 bra $loop;",
        &[(15, 0), (-5, 0)],
        &[(16, 0)],
    ),
    trap(
        "a value of the last round",
        "mov.u32 %r9, 0; mov.u32 %r3, 0; $loop: STORE mov.u32 %r9, %r3; add.u32 %r3, %r3, 1; \
         setp.lt.u32 %p1, %r3, %r1; @%p1 bra $loop;",
        &[],
        &[(18, 0)],
    ),
    trap(
        "a loop with two ways in",
        "mov.u32 %r9, 0; setp.eq.s32 %p1, %r1, 0; @%p1 bra $second; \
         $first: add.u32 %r9, %r9, 1; $second: STORE add.u32 %r9, %r9, 1; \
         setp.lt.u32 %p2, %r9, 16; @%p2 bra $first;",
        &[],
        &[(1, 0), (0, 0)],
    ),
    trap(
        "what halves gets no greater",
        "mov.u32 %r9, %r1; $loop: STORE shr.s32 %r9, %r9, 1; setp.ne.s32 %p1, %r9, 0; \
         @%p1 bra $loop;",
        &[(15, 0)],
        &[(-4, 0), (16, 0)],
    ),
    trap(
        "a pointer that walks to its end",
        "mul.wide.s32 %rd5, %r1, 4; add.s64 %rd4, %rd1, %rd5; mov.u64 %rd3, %rd1; \
         $loop: st.global.u32 [%rd3], 0; add.s64 %rd3, %rd3, 4; \
         setp.lt.u64 %p1, %rd3, %rd4; @%p1 bra $loop;",
        &[(16, 0), (1, 0)],
        &[(17, 0)],
    ),
    trap(
        "a loop that never goes round has a first round",
        "mov.u32 %r9, %r1; mov.u32 %r3, 5; $loop: STORE add.u32 %r9, %r9, %r3; \
         add.u32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, 3; @%p1 bra $loop;",
        &[(15, 0)],
        &[(16, 0), (-1, 0)],
    ),
    trap(
        "a guard in a loop is of its round",
        "mov.u32 %r9, 0; mov.u32 %r3, 0; $loop: setp.lt.u32 %p9, %r3, 16; GUARDED \
         mov.u32 %r3, %r9; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 18; @%p1 bra $loop;",
        &[],
        &[(0, 0)],
    ),
    // ---- rows and columns
    trap(
        "a remainder of a remainder",
        "shl.b32 %r3, %r1, 1; div.u32 %r4, %r2, %r3; mul.lo.s32 %r5, %r4, %r3; sub.s32 %r6, %r2, %r5; \
         div.u32 %r7, %r6, %r1; mul.lo.s32 %r8, %r7, %r1; sub.s32 %r9, %r6, %r8; \
         setp.eq.s32 %p9, %r7, 1; GUARDED",
        &[(4, 0), (8, 0), (16, 0)],
        &[],
    ),
    trap(
        "and the one after it",
        "shl.b32 %r3, %r1, 1; div.u32 %r4, %r2, %r3; mul.lo.s32 %r5, %r4, %r3; sub.s32 %r6, %r2, %r5; \
         div.u32 %r7, %r6, %r1; mul.lo.s32 %r8, %r7, %r1; sub.s32 %r9, %r6, %r8; \
         setp.eq.s32 %p9, %r7, 1; add.s32 %r9, %r9, 1; GUARDED",
        &[(4, 0), (15, 0)],
        &[(16, 0)],
    ),
    trap(
        "the next in a row, but for the last",
        "setp.ge.u32 %p1, %r2, 16; @%p1 ret; div.u32 %r3, %r2, %r1; mul.lo.s32 %r4, %r3, %r1; \
         sub.s32 %r5, %r2, %r4; sub.s32 %r6, %r1, 1; setp.ge.u32 %p2, %r5, %r6; @%p2 ret; \
         add.s32 %r9, %r2, 1; STORE",
        &[(2, 0), (4, 0), (8, 0), (16, 0)],
        &[(3, 0), (5, 0), (6, 0), (17, 0), (-1, 0)],
    ),
    trap(
        "the one before in a row, but for the first",
        "setp.ge.u32 %p1, %r2, 16; @%p1 ret; div.u32 %r3, %r2, %r1; mul.lo.s32 %r4, %r3, %r1; \
         sub.s32 %r5, %r2, %r4; setp.lt.s32 %p2, %r5, 1; @%p2 ret; sub.s32 %r9, %r2, 1; STORE",
        &[(2, 0), (4, 0), (5, 0), (16, 0)],
        &[],
    ),
    trap(
        "the one before in a row, the first, too",
        "setp.ge.u32 %p1, %r2, 16; @%p1 ret; div.u32 %r3, %r2, %r1; mul.lo.s32 %r4, %r3, %r1; \
         sub.s32 %r5, %r2, %r4; setp.lt.s32 %p2, %r5, 0; @%p2 ret; sub.s32 %r9, %r2, 1; STORE",
        &[],
        &[(2, 0), (4, 0), (5, 0), (16, 0)],
    ),
    trap(
        "the next row, but for those below",
        "setp.ge.u32 %p1, %r2, 16; @%p1 ret; div.u32 %r3, %r2, %r1; setp.ge.u32 %p2, %r3, 3; \
         @%p2 ret; add.s32 %r9, %r2, %r1; STORE",
        &[(1, 0), (2, 0), (3, 0), (4, 0)],
        &[(5, 0), (6, 0), (7, 0), (15, 0)],
    ),
    trap(
        "the next row by a constant",
        "setp.ge.u32 %p1, %r2, 16; @%p1 ret; shr.u32 %r3, %r2, 2; setp.ge.u32 %p2, %r3, %r1; \
         @%p2 ret; add.s32 %r9, %r2, 4; STORE",
        &[],
        &[(4, 0), (5, 0), (-1, 0)],
    ),
    trap(
        "the next row by the row of another",
        "setp.ge.u32 %p1, %r2, 16; @%p1 ret; shr.u32 %r4, %r2, 1; div.u32 %r3, %r4, %r1; \
         setp.ge.u32 %p2, %r3, 3; @%p2 ret; add.s32 %r9, %r2, %r1; STORE",
        &[],
        &[(3, 0), (4, 0)],
    ),
    trap(
        "the row that a loop has left",
        "mov.u32 %r8, 0; $loop: div.u32 %r3, %r8, %r1; setp.ge.u32 %p2, %r3, 3; \
         add.s32 %r9, %r8, %r1; add.s32 %r8, %r8, 1; @%p2 bra $next; add.s32 %r9, %r8, %r1; STORE \
         $next: setp.lt.u32 %p3, %r8, 16; @%p3 bra $loop;",
        &[(1, 0), (2, 0), (3, 0)],
        &[(4, 0), (5, 0)],
    ),
    trap(
        "rows of negative numbers",
        "sub.s32 %r5, %r2, 8; div.s32 %r3, %r5, %r1; mul.lo.s32 %r4, %r3, %r1; sub.s32 %r6, %r5, %r4; \
         sub.s32 %r7, %r1, 1; setp.ge.s32 %p2, %r6, %r7; @%p2 ret; add.s32 %r9, %r5, 1; STORE",
        &[],
        &[(4, 0), (3, 0)],
    ),
    // ---- a value and what was computed from it
    trap(
        "a quotient times its divisor, taken off, leaves a remainder",
        "div.u32 %r3, %r2, %r1; mul.lo.s32 %r4, %r3, %r1; sub.s32 %r9, %r2, %r4; STORE",
        &[(16, 0), (1, 0), (5, 0)],
        &[(17, 0), (0, 0)],
    ),
    trap(
        "by a constant, too",
        "div.u32 %r3, %r2, 16; shl.b32 %r4, %r3, 4; sub.s32 %r9, %r2, %r4; STORE",
        &[(0, 0)],
        &[],
    ),
    trap(
        "the quotient by one constant times another",
        "div.u32 %r3, %r2, 16; mul.lo.s32 %r4, %r3, 15; sub.s32 %r9, %r2, %r4; STORE",
        &[],
        &[(0, 0)],
    ),
    trap(
        "the quotient of another value",
        "add.u32 %r5, %r2, 1; div.u32 %r3, %r5, %r1; mul.lo.s32 %r4, %r3, %r1; \
         sub.s32 %r9, %r2, %r4; STORE",
        &[],
        &[(16, 0), (4, 0)],
    ),
    trap(
        "a quotient of signed numbers leaves negative ones",
        "sub.s32 %r5, %r2, 8; div.s32 %r3, %r5, %r1; mul.lo.s32 %r4, %r3, %r1; \
         sub.s32 %r9, %r5, %r4; STORE",
        &[],
        &[(16, 0), (4, 0)],
    ),
    trap(
        "the neighbour in a row that is closed",
        "shr.u32 %r5, %r2, 1; div.s32 %r3, %r5, %r1; mul.lo.s32 %r4, %r3, %r1; \
         sub.s32 %r6, %r5, %r4; add.s32 %r6, %r6, 1; rem.s32 %r7, %r6, %r1; \
         add.s32 %r9, %r4, %r7; STORE",
        &[(4, 0), (16, 0), (8, 0)],
        &[(5, 0), (7, 0)],
    ),
    trap(
        "without some of its bits a number is not negative",
        "shr.u32 %r3, %r2, 1; and.b32 %r4, %r3, %r1; sub.s32 %r9, %r3, %r4; STORE",
        &[(0, 0), (3, 0), (-1, 0)],
        &[],
    ),
    trap(
        "but may be as large as with them",
        "and.b32 %r4, %r2, %r1; sub.s32 %r9, %r2, %r4; STORE",
        &[],
        &[(0, 0), (1, 0)],
    ),
    trap(
        "twice some bits is more than the number",
        "and.b32 %r4, %r2, 15; shl.b32 %r4, %r4, 1; sub.s32 %r9, %r2, %r4; STORE",
        &[],
        &[(0, 0)],
    ),
    // ---- differences
    trap(
        "what is taken off is not more",
        "and.b32 %r3, %r2, 7; shr.u32 %r4, %r2, 1; sub.s32 %r9, %r4, %r3; \
         setp.ge.u32 %p9, %r4, %r3; GUARDED",
        &[(0, 0)],
        &[],
    ),
    trap(
        "or is more",
        "and.b32 %r3, %r2, 7; shr.u32 %r4, %r2, 1; sub.s32 %r9, %r4, %r3; \
         setp.le.u32 %p9, %r4, %r3; GUARDED",
        &[],
        &[(0, 0)],
    ),
    trap(
        "a difference that is not zero may be anything else",
        "and.b32 %r3, %r2, 7; shr.u32 %r4, %r2, 1; sub.s32 %r9, %r4, %r3; \
         setp.ne.u32 %p9, %r4, %r3; GUARDED",
        &[],
        &[(0, 0)],
    ),
    trap(
        "more, as signed numbers, is less as unsigned ones",
        "ld.global.u32 %r3, [%rd1]; shr.u32 %r4, %r2, 1; sub.s32 %r9, %r4, %r3; \
         setp.ge.s32 %p9, %r4, %r3; GUARDED",
        &[],
        &[(0, 0)],
    ),
    trap(
        "as unsigned ones, it is a distance",
        "ld.global.u32 %r3, [%rd1]; shr.u32 %r4, %r2, 1; sub.s32 %r9, %r4, %r3; \
         setp.ge.u32 %p9, %r4, %r3; GUARDED",
        &[(0, 0)],
        &[],
    ),
    // ---- several guards
    trap(
        "a guard of a part does not hide that of the whole",
        "ld.global.u32 %r3, [%rd1]; add.s32 %r9, %r2, %r3; setp.ge.u32 %p1, %r9, 16; \
         @%p1 bra $end; setp.ge.u32 %p2, %r2, 30; @%p2 bra $end; STORE",
        &[(0, 0)],
        &[],
    ),
    trap(
        "nor makes it stricter",
        "ld.global.u32 %r3, [%rd1]; add.s32 %r9, %r2, %r3; setp.ge.u32 %p1, %r9, 17; \
         @%p1 bra $end; setp.ge.u32 %p2, %r2, 16; @%p2 bra $end; STORE",
        &[],
        &[(0, 0)],
    ),
    trap(
        "a guard of the narrow value after one of the wide value",
        "cvt.u64.u32 %rd3, %r2; setp.ge.u64 %p1, %rd3, %rd2; @%p1 bra $end; \
         setp.eq.s32 %p2, %r2, 0; @%p2 bra $end; add.s64 %rd9, %rd3, -1; \
         shl.b64 %rd9, %rd9, 2; AT",
        &[(0, 17), (0, 1), (0, 0)],
        &[(0, 18)],
    ),
    trap(
        "neither of two is negative, if their bits together are not",
        "ld.global.u32 %r9, [%rd1]; ld.global.u32 %r3, [%rd1+4]; or.b32 %r4, %r9, %r3; \
         setp.lt.s32 %p1, %r4, 0; setp.ge.or.s32 %p2, %r9, %r1, %p1; @%p2 bra $end; STORE",
        &[(16, 0), (0, 0)],
        &[(17, 0)],
    ),
    trap(
        "one of two may be",
        "ld.global.u32 %r9, [%rd1]; ld.global.u32 %r3, [%rd1+4]; and.b32 %r4, %r9, %r3; \
         setp.lt.s32 %p1, %r4, 0; setp.ge.or.s32 %p2, %r9, %r1, %p1; @%p2 bra $end; STORE",
        &[],
        &[(16, 0)],
    ),
    trap(
        "their bits together may be negative",
        "ld.global.u32 %r9, [%rd1]; ld.global.u32 %r3, [%rd1+4]; or.b32 %r4, %r9, %r3; \
         setp.lt.s32 %p1, %r4, -5; setp.ge.or.s32 %p2, %r9, %r1, %p1; @%p2 bra $end; STORE",
        &[],
        &[(16, 0)],
    ),
    trap(
        "both are less than what the larger is less than",
        "ld.global.u32 %r9, [%rd1]; ld.global.u32 %r3, [%rd1+4]; max.u32 %r4, %r9, %r3; \
         setp.ge.u32 %p2, %r4, %r1; @%p2 bra $end; STORE",
        &[(16, 0), (0, 0)],
        &[(17, 0)],
    ),
    trap(
        "what the smaller is less than limits one of them",
        "ld.global.u32 %r9, [%rd1]; ld.global.u32 %r3, [%rd1+4]; min.u32 %r4, %r9, %r3; \
         setp.ge.u32 %p2, %r4, %r1; @%p2 bra $end; STORE",
        &[],
        &[(16, 0)],
    ),
    trap(
        "the larger of signed numbers is compared as unsigned ones",
        "ld.global.u32 %r9, [%rd1]; ld.global.u32 %r3, [%rd1+4]; max.s32 %r4, %r9, %r3; \
         setp.ge.u32 %p2, %r4, %r1; @%p2 bra $end; STORE",
        &[],
        &[(16, 0)],
    ),
    // ---- one of several pointers (`w` is one, too)
    trap(
        "a pointer that a condition chooses",
        "cvta.to.global.u64 %rd2, %rd2; setp.eq.s32 %p1, %r2, 3; selp.b64 %rd3, %rd1, %rd2, %p1; \
         shr.u32 %r3, %r2, 1; mul.wide.u32 %rd4, %r3, 4; add.s64 %rd5, %rd3, %rd4; \
         st.global.u32 [%rd5], 0;",
        &[(0, BASE)],
        &[(0, BASE + 4), (0, BASE - 4)],
    ),
    trap(
        "each of two pointers with the index of its branch",
        "cvta.to.global.u64 %rd2, %rd2; mov.u64 %rd3, %rd1; setp.lt.u32 %p1, %r2, 16; \
         @%p1 bra $join; add.s64 %rd3, %rd2, -64; $join: mul.wide.u32 %rd4, %r2, 4; \
         add.s64 %rd5, %rd3, %rd4; st.global.u32 [%rd5], 0;",
        &[],
        &[(0, BASE + 4), (0, BASE - 4)],
    ),
    trap(
        "two pointers that take turns",
        "cvta.to.global.u64 %rd2, %rd2; mov.u64 %rd3, %rd1; mov.u64 %rd4, %rd2; mov.u32 %r5, 0; \
         shr.u32 %r3, %r2, 1; mul.wide.u32 %rd5, %r3, 4; $loop: add.s64 %rd6, %rd3, %rd5; \
         st.global.u32 [%rd6], 0; mov.u64 %rd7, %rd3; mov.u64 %rd3, %rd4; mov.u64 %rd4, %rd7; \
         add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, %r1; @%p1 bra $loop;",
        &[(0, BASE), (9, BASE)],
        &[(9, BASE + 4)],
    ),
    trap(
        "two pointers that take turns and move",
        "cvta.to.global.u64 %rd2, %rd2; mov.u64 %rd3, %rd1; mov.u64 %rd4, %rd2; mov.u32 %r5, 0; \
         $loop: st.global.u32 [%rd3], 0; add.s64 %rd7, %rd3, 4; mov.u64 %rd3, %rd4; \
         mov.u64 %rd4, %rd7; add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, %r1; @%p1 bra $loop;",
        &[],
        &[(99, BASE)],
    ),
    // ---- what loops carry
    trap(
        "a step that doubles",
        "mov.u32 %r9, 1; $loop: STORE shl.b32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, %r1; \
         @%p1 bra $loop;",
        &[(16, 0), (9, 0), (1, 0), (0, 0)],
        &[(17, 0), (32, 0), (-1, 0)],
    ),
    trap(
        "a step that doubles, tested first",
        "mov.u32 %r9, 1; $loop: setp.ge.s32 %p1, %r9, %r1; @%p1 bra $end; STORE \
         shl.b32 %r9, %r9, 1; bra $loop;",
        &[(16, 0), (9, 0), (1, 0), (-1, 0)],
        &[(17, 0), (0x7fff_ffff, 0)],
    ),
    trap(
        "what doubled once too often",
        "mov.u32 %r9, 1; $loop: setp.ge.s32 %p1, %r9, %r1; @%p1 bra $out; \
         shl.b32 %r9, %r9, 1; bra $loop; $out: STORE",
        &[(8, 0), (1, 0)],
        &[(9, 0), (16, 0)],
    ),
    trap(
        "a range that is searched",
        "mov.u32 %r3, 0; mov.u32 %r4, %r1; $loop: setp.ge.s32 %p1, %r3, %r4; @%p1 bra $end; \
         add.s32 %r9, %r3, %r4; shr.u32 %r9, %r9, 1; STORE ld.global.u32 %r5, [%rd9]; \
         setp.lt.u32 %p2, %r5, 7; add.s32 %r6, %r9, 1; selp.b32 %r3, %r6, %r3, %p2; \
         selp.b32 %r4, %r4, %r9, %p2; bra $loop;",
        &[(16, 0), (1, 0), (0, 0)],
        &[(17, 0)],
    ),
    trap(
        "a search that moves its lower end beyond",
        "mov.u32 %r3, 0; mov.u32 %r4, %r1; $loop: setp.ge.s32 %p1, %r3, %r4; @%p1 bra $end; \
         add.s32 %r9, %r3, %r4; shr.u32 %r9, %r9, 1; add.s32 %r9, %r9, 1; STORE \
         ld.global.u32 %r5, [%rd9]; \
         setp.lt.u32 %p2, %r5, 7; selp.b32 %r3, %r9, %r3, %p2; \
         selp.b32 %r4, %r4, %r9, %p2; bra $loop;",
        &[],
        &[(16, 0), (17, 0)],
    ),
    trap(
        "a counter that starts again",
        "mov.u32 %r9, 0; mov.u32 %r3, 0; $loop: STORE add.u32 %r9, %r9, 1; \
         rem.u32 %r9, %r9, %r1; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 100; @%p1 bra $loop;",
        &[(16, 0), (1, 0)],
        &[(17, 0), (0, 0)],
    ),
    trap(
        "a counter that starts again by a comparison it can step over",
        "mov.u32 %r9, 1; mov.u32 %r3, 0; $loop: STORE add.u32 %r9, %r9, 2; \
         setp.eq.u32 %p2, %r9, %r1; selp.b32 %r9, 0, %r9, %p2; add.u32 %r3, %r3, 1; \
         setp.lt.u32 %p1, %r3, 100; @%p1 bra $loop;",
        &[],
        &[(16, 0), (2, 0)],
    ),
    trap(
        "a counter that starts again where it is too large",
        "mov.u32 %r9, 1; mov.u32 %r3, 0; $loop: STORE add.u32 %r9, %r9, 2; \
         setp.ge.u32 %p2, %r9, %r1; selp.b32 %r9, 0, %r9, %p2; add.u32 %r3, %r3, 1; \
         setp.lt.u32 %p1, %r3, 100; @%p1 bra $loop;",
        &[(16, 0), (2, 0)],
        &[(18, 0)],
    ),
    trap(
        "one of two halves",
        "mov.u32 %r9, 0; mov.u32 %r3, 0; $loop: STORE xor.b32 %r9, %r9, %r1; \
         add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 100; @%p1 bra $loop;",
        &[(8, 0), (15, 0)],
        &[(16, 0), (-1, 0)],
    ),
    trap(
        "the best so far",
        "mov.u32 %r9, 0; mov.u32 %r3, 0; $loop: ld.volatile.global.u32 %r4, [%rd1]; \
         setp.gt.u32 %p2, %r4, 7; @%p2 mov.u32 %r9, %r3; add.u32 %r3, %r3, 1; \
         setp.lt.u32 %p1, %r3, %r1; @%p1 bra $loop; STORE",
        &[(16, 0), (1, 0), (0, 0)],
        &[(17, 0)],
    ),
    trap(
        "two that take turns, of which one grows",
        "mov.u32 %r9, 0; mov.u32 %r3, 1; mov.u32 %r5, 0; $loop: STORE add.u32 %r4, %r9, 1; \
         mov.u32 %r9, %r3; mov.u32 %r3, %r4; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 40; \
         @%p1 bra $loop;",
        &[],
        &[(0, 0)],
    ),
    // ---- addresses of variables that loops carry
    trap(
        "an address in shared memory that walks",
        "shl.b32 %r3, %r2, 2; mov.u32 %r4, s; add.s32 %r4, %r4, %r3; mov.u32 %r5, %r2; \
         $loop: setp.ge.s32 %p1, %r5, %r1; @%p1 bra $end; st.shared.u32 [%r4], 0; \
         add.s32 %r4, %r4, 128; add.s32 %r5, %r5, 32; bra $loop;",
        &[(16, 0), (3, 0), (-1, 0)],
        &[(17, 0)],
    ),
    trap(
        "an address in global memory that walks beside a narrow index",
        "mul.wide.s32 %rd4, %r2, 4; add.s64 %rd4, %rd1, %rd4; mov.u32 %r5, %r2; \
         setp.ge.s32 %p1, %r5, %r1; @%p1 bra $end; $loop: st.global.u32 [%rd4], 0; \
         add.s64 %rd4, %rd4, 128; add.s32 %r5, %r5, 32; setp.lt.s32 %p1, %r5, %r1; \
         @%p1 bra $loop;",
        &[(16, 0), (3, 0), (-1, 0)],
        &[(17, 0), (0x7fff_ffff, 0)],
    ),
    trap(
        "an address that walks faster than its index",
        "mul.wide.s32 %rd4, %r2, 4; add.s64 %rd4, %rd1, %rd4; mov.u32 %r5, %r2; \
         $loop: setp.ge.s32 %p1, %r5, %r1; @%p1 bra $end; st.global.u32 [%rd4], 0; \
         add.s64 %rd4, %rd4, 8; add.s32 %r5, %r5, 1; bra $loop;",
        &[(0, 0), (1, 0)],
        &[(10, 0), (16, 0)],
    ),
    trap(
        "an address that walks beside an index that wraps",
        "shl.b32 %r5, %r2, 26; cvt.u64.u32 %rd4, %r5; shr.u64 %rd4, %rd4, 24; \
         add.s64 %rd4, %rd1, %rd4; $loop: setp.eq.s32 %p1, %r5, 0; @%p1 bra $end; \
         st.global.u32 [%rd4], 0; add.s64 %rd4, %rd4, 4; add.s32 %r5, %r5, 0x04000000; \
         bra $loop;",
        &[],
        &[(0, 0)],
    ),
    trap(
        "an address that another start belongs to",
        "add.s32 %r3, %r2, 1; mul.wide.s32 %rd4, %r3, 4; add.s64 %rd4, %rd1, %rd4; \
         mov.u32 %r5, %r2; $loop: setp.ge.s32 %p1, %r5, %r1; @%p1 bra $end; \
         st.global.u32 [%rd4], 0; add.s64 %rd4, %rd4, 4; add.s32 %r5, %r5, 1; bra $loop;",
        &[],
        &[(16, 0)],
    ),
    trap(
        "an address that walks only sometimes",
        "mov.u64 %rd4, %rd1; mov.u32 %r5, 0; $loop: setp.ge.s32 %p1, %r5, %r1; @%p1 bra $end; \
         st.global.u32 [%rd4], 0; setp.lt.s32 %p2, %r2, 8; @%p2 add.s64 %rd4, %rd4, 8; \
         add.s32 %r5, %r5, 1; bra $loop;",
        &[(4, 0)],
        &[(10, 0), (16, 0)],
    ),
    trap(
        "an address that walks down",
        "mov.u32 %r4, s; add.s32 %r4, %r4, 60; mov.u32 %r5, 0; $loop: st.shared.u32 [%r4], 0; \
         add.s32 %r4, %r4, -4; add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, %r1; @%p1 bra $loop;",
        &[(16, 0), (0, 0)],
        &[(17, 0)],
    ),
    trap(
        "an address that walks in another variable",
        "mov.u32 %r4, s; mov.u32 %r6, t; mov.u32 %r5, 0; $loop: st.shared.u32 [%r4], 0; \
         mov.u32 %r4, %r6; add.s32 %r6, %r6, 4; add.s32 %r5, %r5, 1; \
         setp.lt.s32 %p1, %r5, 3; @%p1 bra $loop;",
        &[],
        &[(0, 0)],
    ),
    // ---- what is proved of some threads at a time
    trap(
        "passes that are counted ahead, and made four at a time",
        "setp.ge.s32 %p1, %r2, %r1; @%p1 bra $end; not.b32 %r3, %r2; add.s32 %r3, %r3, %r1; \
         shr.u32 %r4, %r3, 2; add.s32 %r4, %r4, 1; and.b32 %r5, %r4, 3; setp.eq.s32 %p2, %r5, 0; \
         mov.u32 %r9, %r2; @%p2 bra $main; \
         $before: STORE add.s32 %r9, %r9, 4; add.s32 %r5, %r5, -1; setp.ne.s32 %p3, %r5, 0; \
         @%p3 bra $before; $main: setp.lt.u32 %p4, %r3, 12; @%p4 bra $end; \
         $again: STORE st.global.u32 [%rd9+16], 0; st.global.u32 [%rd9+32], 0; \
         st.global.u32 [%rd9+48], 0; add.s32 %r9, %r9, 16; setp.lt.s32 %p5, %r9, %r1; \
         @%p5 bra $again;",
        &[(16, 0), (13, 0), (5, 0), (1, 0), (0, 0), (-1, 0)],
        &[(17, 0), (20, 0), (0x7fff_ffff, 0)],
    ),
    trap(
        "the same, counted one too many",
        "setp.ge.s32 %p1, %r2, %r1; @%p1 bra $end; not.b32 %r3, %r2; add.s32 %r3, %r3, %r1; \
         shr.u32 %r4, %r3, 2; add.s32 %r4, %r4, 2; and.b32 %r5, %r4, 3; setp.eq.s32 %p2, %r5, 0; \
         mov.u32 %r9, %r2; @%p2 bra $end; \
         $before: STORE add.s32 %r9, %r9, 4; add.s32 %r5, %r5, -1; setp.ne.s32 %p3, %r5, 0; \
         @%p3 bra $before;",
        &[(0, 0), (-1, 0)],
        &[(16, 0), (15, 0)],
    ),
    trap(
        "the negative part of a number, by its sign",
        "sub.s32 %r3, %r2, %r1; shr.s32 %r4, %r3, 31; neg.s32 %r5, %r3; and.b32 %r4, %r4, %r5; \
         add.s32 %r9, %r3, %r4; STORE",
        &[(16, 0), (17, 0), (32, 0)],
        &[(15, 0), (0, 0), (-1, 0)],
    ),
    trap(
        "a number that another thread has stored",
        "shl.b32 %r3, %r2, 1; mov.u32 %r4, s; add.s32 %r4, %r4, %r3; st.shared.u16 [%r4], %r2; \
         bar.sync 0; ld.shared.u16 %r9, [s+62]; STORE",
        &[],
        &[(0, 0)],
    ),
    trap(
        "a place in a part that begins where a thread says",
        "and.b32 %r3, %r2, 7; mov.u32 %r5, 0; add.s32 %r6, %r3, %r1; \
         $loop: setp.lt.s32 %p1, %r5, %r3; @%p1 bra $next; setp.ge.s32 %p2, %r5, %r6; \
         @%p2 bra $next; sub.s32 %r9, %r5, %r3; STORE $next: add.s32 %r5, %r5, 1; \
         setp.lt.s32 %p3, %r5, 100; @%p3 bra $loop;",
        &[(16, 0), (1, 0), (0, 0), (-1, 0)],
        &[(17, 0), (93, 0), (0x7fff_ffff, 0)],
    ),
    trap(
        "the start of the next row, from that of this one",
        "and.b32 %r3, %r2, 7; add.s32 %r4, %r3, 1; mul.lo.s32 %r5, %r4, %r1; \
         mul.lo.s32 %r6, %r1, %r3; sub.s32 %r9, %r5, %r6; STORE",
        &[(15, 0), (0, 0)],
        &[(16, 0), (-1, 0)],
    ),
    trap(
        "a thread in the middle",
        "setp.eq.s32 %p1, %r2, %r1; selp.b32 %r9, 16, 0, %p1; STORE",
        &[(32, 0), (-1, 0)],
        &[(0, 0), (15, 0), (16, 0), (17, 0), (31, 0)],
    ),
];

fn text(trap: &Trap) -> String {
    let body = trap
        .body
        .replace("STORE", STORE)
        .replace("GUARDED", GUARDED)
        .replace("AT", AT);
    format!(
        "\
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 4 .b8 dynamic[];
.visible .entry k(.param .u64 p, .param .u32 n, .param .u64 w)
{{
.reg .pred %p<10>; .reg .b16 %rs<4>; .reg .b32 %r<10>; .reg .b64 %rd<10>;
.shared .align 4 .b8 s[64];
.shared .align 4 .b8 t[64];
.local .align 4 .b8 __local_depot0[64];
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd1, %rd1;
ld.param.u32 %r1, [n]; ld.param.u64 %rd2, [w]; mov.u32 %r2, %tid.x;
{body}
$end: ret;
}}
"
    )
}

#[test]
fn no_trap_leads_to_a_proof() {
    let shape = LaunchShape {
        grid: [1, 1, 1],
        block: [32, 1, 1],
        shared: 32,
    };
    let mut wrong = Vec::new();
    for trap in TRAPS {
        let text = text(trap);
        let made = common::instrument(trap.name, &text);
        let proof = &made.entries[0].proof;
        let proves = |n: i64, w: i64| {
            let program = proof.as_ref().ok()?;
            let mut bytes = BASE.to_le_bytes().to_vec();
            bytes.extend([(n as u64).to_le_bytes(), w.to_le_bytes()].concat());
            let inputs: Vec<u64> = program
                .inputs()
                .iter()
                .map(|input| {
                    let at = input.offset as usize;
                    let mut bits = [0; 8];
                    bits[..input.bytes as usize]
                        .copy_from_slice(&bytes[at..at + input.bytes as usize]);
                    u64::from_le_bytes(bits)
                })
                .collect();
            let bounds = |_| Some((BASE as u64, 64));
            Some(
                program
                    .proves_in_parts(&shape, &common::single(&inputs), &bounds)
                    .is_proved,
            )
        };
        for &(n, w) in trap.never {
            if proves(n, w) == Some(true) {
                wrong.push(format!("{}: proved with n = {n}, w = {w}", trap.name));
            }
        }
        for &(n, w) in trap.proved {
            match proves(n, w) {
                Some(true) => {}
                Some(false) => wrong.push(format!("{}: not proved with n = {n}", trap.name)),
                None => wrong.push(format!("{}: {:?}", trap.name, proof.as_ref().err())),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
