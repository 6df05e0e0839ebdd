//! Instrumented text with defects made by hand, each of which the verifier must
//! refuse, and for the right reason. Where `mutations` changes one line at a
//! time, these are what a pass could get wrong as a whole: a check that is left
//! out, or is about something else; a record that is not written; something that
//! is no longer true where it is used.

use crate::common;

use common::defects::refuse_each;

const COPY: &str = ".entry __ringfence_checked_kernel";

/// A load, a guarded store, and three loads that share a sink.
const ACCESSES: &str = "\
.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 p, .param .u64 q, .param .u64 s)
{
	.reg .pred %p<3>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q];
	ld.param.u64 %rd3, [s];
	mov.u32 %r1, %tid.x;
	setp.lt.u32 %p1, %r1, 7;
	setp.lt.u32 %p2, %r1, 9;
	ld.global.u32 %r2, [%rd1];
	@%p1 st.global.u32 [%rd2], %r2;
	ld.global.u32 %r3, [%rd3];
	ld.global.u32 %r4, [%rd3+4];
	ld.global.u32 %r5, [%rd3+8];
	@!%p2 ld.global.u32 %r6, [%rd2+4];
	ret;
}
";

#[test]
fn a_check_is_about_its_access() {
    let unchecked = "a global or generic access without a check";
    refuse_each(
        ACCESSES,
        &[
            (
                "the comparison is left out",
                &[(COPY, "setp.ge.u64 %__rf_k0, %__rf_o, %__rf_m0;\n\t", "")],
                unchecked,
            ),
            (
                "the whole check is left out",
                &[
                    (COPY, "sub.s64 %__rf_o, %rd1, %__rf_b0;\n\t", ""),
                    (COPY, "setp.ge.u64 %__rf_k0, %__rf_o, %__rf_m0;\n\t", ""),
                    (COPY, "@%__rf_k0 mov.u32 %__rf_site, 1;\n\t", ""),
                    (COPY, "@%__rf_k0 mov.b64 %__rf_address, %rd1;\n\t", ""),
                ],
                unchecked,
            ),
            (
                "lower and upper bound are exchanged",
                &[(
                    COPY,
                    "sub.s64 %__rf_o, %rd1, %__rf_b0;",
                    "sub.s64 %__rf_o, %__rf_b0, %rd1;",
                )],
                unchecked,
            ),
            (
                "what is inside fails",
                &[(COPY, "setp.ge.u64 %__rf_k0", "setp.lt.u64 %__rf_k0")],
                unchecked,
            ),
            (
                "the comparison has a sign",
                &[(COPY, "setp.ge.u64 %__rf_k0", "setp.ge.s64 %__rf_k0")],
                unchecked,
            ),
            (
                "base and limit are another pointer's",
                &[(
                    COPY,
                    "%rd1, %__rf_b0;\n\tsetp.ge.u64 %__rf_k0, %__rf_o, %__rf_m0;",
                    "%rd1, %__rf_b1;\n\tsetp.ge.u64 %__rf_k0, %__rf_o, %__rf_m1;",
                )],
                "not base and size of one thing",
            ),
            (
                "the limit is that of another pointer",
                &[(
                    COPY,
                    "%__rf_m0, [__ringfence_launch+56]",
                    "%__rf_m0, [__ringfence_launch+64]",
                )],
                "not base and size of one thing",
            ),
            (
                "the check is under no guard",
                &[(
                    COPY,
                    "setp.ge.and.u64 %__rf_k1, %__rf_o, %__rf_m1, %p1;",
                    "setp.ge.u64 %__rf_k1, %__rf_o, %__rf_m1;",
                )],
                "not under the access's guard",
            ),
            (
                "the check is under another guard",
                &[(COPY, "%__rf_m1, %p1;", "%__rf_m1, %p2;")],
                "not under the access's guard",
            ),
        ],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of defects")]
fn an_access_that_fails_does_no_harm() {
    let unchecked = "a global or generic access without a check";
    let unset = "has no value where the instruction before this is left out";
    let no_result = "not as the result of an instruction that is skipped";
    refuse_each(
        ACCESSES,
        &[
            (
                "the load is made where it fails",
                &[(COPY, "@!%__rf_k0 ld.global", "@%__rf_k0 ld.global")],
                unchecked,
            ),
            (
                "the load is always made",
                &[(COPY, "@!%__rf_k0 ld.global", "ld.global")],
                unchecked,
            ),
            (
                "the store is made under its guard alone",
                &[(COPY, "@%__rf_g1 st.global", "@%p1 st.global")],
                unchecked,
            ),
            (
                "the store is made where its guard is false",
                &[(COPY, "xor.pred %__rf_g1, %p1", "xor.pred %__rf_g1, %p2")],
                unchecked,
            ),
            (
                "the predicate of a negated guard is made for another",
                &[(COPY, "or.pred %__rf_g3", "xor.pred %__rf_g3")],
                unchecked,
            ),
            (
                "the predicate is of another check",
                &[(
                    COPY,
                    "xor.pred %__rf_g1, %p1, %__rf_k1;",
                    "xor.pred %__rf_g1, %p1, %__rf_k0;",
                )],
                unchecked,
            ),
            (
                "the predicate is made before the check",
                &[
                    (COPY, "xor.pred %__rf_g1, %p1, %__rf_k1;\n\t", ""),
                    (
                        COPY,
                        "setp.ge.and.u64 %__rf_k1",
                        "xor.pred %__rf_g1, %p1, %__rf_k1;\n\tsetp.ge.and.u64 %__rf_k1",
                    ),
                ],
                unchecked,
            ),
            (
                "the result is not set",
                &[(COPY, "mov.b32 %r2, 0;\n\t", "")],
                unset,
            ),
            (
                "another register is set",
                &[(COPY, "mov.b32 %r2, 0;", "mov.b32 %r3, 0;")],
                no_result,
            ),
            (
                "the result is not zero",
                &[(COPY, "mov.b32 %r2, 0;", "mov.b32 %r2, 1;")],
                "a statement differs",
            ),
            (
                "the result is set twice",
                &[(
                    COPY,
                    "mov.b32 %r2, 0;",
                    "mov.b32 %r2, 0;\n\tmov.b32 %r2, 0;",
                )],
                no_result,
            ),
            (
                "half of the result is set",
                &[(COPY, "mov.b32 %r2, 0;", "mov.b16 %r2, 0;")],
                no_result,
            ),
            (
                "the result is set before the check",
                &[
                    (COPY, "mov.b32 %r2, 0;\n\t", ""),
                    (
                        COPY,
                        "sub.s64 %__rf_o, %rd1",
                        "mov.b32 %r2, 0;\n\tsub.s64 %__rf_o, %rd1",
                    ),
                ],
                no_result,
            ),
            (
                "the result is set after the load, everywhere",
                &[
                    (COPY, "mov.b32 %r2, 0;\n\t", ""),
                    (COPY, "%r2, [%rd1];", "%r2, [%rd1];\n\tmov.b32 %r2, 0;"),
                ],
                no_result,
            ),
            (
                "the result is set where the guard is false",
                &[(COPY, "@%__rf_k2 mov.b32 %r6, 0;", "mov.b32 %r6, 0;")],
                no_result,
            ),
            (
                "the result is set under another verdict",
                &[(
                    COPY,
                    "@%__rf_k2 mov.b32 %r6, 0;",
                    "@%__rf_k1 mov.b32 %r6, 0;",
                )],
                no_result,
            ),
            (
                "a register is set that the program needs",
                &[(
                    COPY,
                    "@%__rf_g1 st.global",
                    "mov.b32 %r2, 0;\n\t@%__rf_g1 st.global",
                )],
                no_result,
            ),
            (
                "check code declares a register of the program's kind",
                &[(COPY, ".reg .b32 %__rf_site", ".reg .b32 %r9, %__rf_site")],
                "registers of its own|a statement that|a statement differs",
            ),
            (
                "the sink is the program's memory",
                &[(
                    COPY,
                    "selp.b64 %__rf_a2, 35184372154368",
                    "selp.b64 %__rf_a2, 4096",
                )],
                "the sink is not where",
            ),
            (
                "reads go to the sink of writes",
                &[(
                    COPY,
                    "selp.b64 %__rf_a2, 35184372154368",
                    "selp.b64 %__rf_a2, 35184372219904",
                )],
                "the sink is not where",
            ),
            (
                "sink and address are exchanged",
                &[(
                    COPY,
                    "selp.b64 %__rf_a2, 35184372154368, %rd3",
                    "selp.b64 %__rf_a2, %rd3, 35184372154368",
                )],
                "not selected by a check|not understood",
            ),
            (
                "another address is selected",
                &[(
                    COPY,
                    "selp.b64 %__rf_a2, 35184372154368, %rd3",
                    "selp.b64 %__rf_a2, 35184372154368, %rd1",
                )],
                "not the one that is checked",
            ),
        ],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of defects")]
fn a_check_that_fails_is_recorded() {
    let unrecorded = "a thread leaves without its record";
    let unkept = "does not keep its site and address";
    refuse_each(
        ACCESSES,
        &[
            (
                "the site is not kept",
                &[(COPY, "@%__rf_k0 mov.u32 %__rf_site, 1;\n\t", "")],
                unkept,
            ),
            (
                "the site is another access's",
                &[(COPY, "%__rf_site, 1;", "%__rf_site, 2;")],
                "keeps site 2, not 1|the site of no access",
            ),
            (
                "the site is kept where nothing failed",
                &[(
                    COPY,
                    "@%__rf_k0 mov.u32 %__rf_site",
                    "@!%__rf_k0 mov.u32 %__rf_site",
                )],
                unkept,
            ),
            (
                "the address is another's",
                &[(COPY, "%__rf_address, %rd1;", "%__rf_address, %rd2;")],
                unkept,
            ),
            (
                "a failure is recorded from the start",
                &[(COPY, "mov.u32 %__rf_site, 0;", "mov.u32 %__rf_site, 1;")],
                "although no check failed|not understood",
            ),
            (
                "the record is left out",
                &[
                    (
                        COPY,
                        "setp.eq.s32 %__rf_q, %__rf_site, 0;",
                        "mov.b64 %__rf_t, 0;",
                    ),
                    (COPY, "@%__rf_q bra $__rf_done0;", "mov.b64 %__rf_t, 0;"),
                    (
                        COPY,
                        "atom.global.add.u64 %__rf_o, [%__rf_t], 1;",
                        "mov.b64 %__rf_t, 0;",
                    ),
                ],
                unrecorded,
            ),
            (
                "threads that failed skip the record",
                &[(
                    COPY,
                    "@%__rf_q bra $__rf_done0;",
                    "@!%__rf_q bra $__rf_done0;",
                )],
                unrecorded,
            ),
            (
                "the record is written where the ring is full",
                &[(
                    COPY,
                    "%__rf_u, 32768;\n\t@%__rf_q bra $__rf_done0;",
                    "%__rf_u, 32768;",
                )],
                unrecorded,
            ),
            (
                "the ring is taken for larger",
                &[(COPY, "%__rf_u, 32768;", "%__rf_u, 65536;")],
                unrecorded,
            ),
            (
                "slots are not taken one by one",
                &[(COPY, "atom.global.add.u64 %__rf_o", "ld.global.u64 %__rf_o")],
                unrecorded,
            ),
            (
                "the record has no site",
                &[(COPY, "st.global.b32 [%__rf_t+48], %__rf_site;\n\t", "")],
                unrecorded,
            ),
            (
                "the record has another module's tag",
                &[(COPY, "st.global.b64 [%__rf_t+8], %__rf_u;\n\t", "")],
                unrecorded,
            ),
            (
                "the record lies elsewhere",
                &[(
                    COPY,
                    "shl.b64 %__rf_t, %__rf_t, 6;",
                    "shl.b64 %__rf_t, %__rf_t, 5;",
                )],
                unrecorded,
            ),
            (
                "the record can be seen before it is whole",
                &[(
                    COPY,
                    "st.release.sys.global.u64 [%__rf_t]",
                    "st.volatile.global.u64 [%__rf_t]",
                )],
                unrecorded,
            ),
            (
                "the record cannot be seen",
                &[(
                    COPY,
                    "st.release.sys.global.u64 [%__rf_t], %__rf_o;\n\t",
                    "",
                )],
                unrecorded,
            ),
            (
                "the record is written behind a jump of its own",
                &[(
                    COPY,
                    "@%__rf_q bra $__rf_done0;",
                    "bra $__rf_done0;\n\t@%__rf_q bra $__rf_done0;",
                )],
                unrecorded,
            ),
        ],
    );
}

/// An address that was loaded, which is looked up, before and after it changes;
/// behind a branch, once more.
const LOOKED_UP: &str = "\
.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 p, .param .u32 n)
{
	.reg .pred %p<3>;
	.reg .b32 %r<5>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [n];
	setp.eq.s32 %p1, %r1, 0;
	shl.b64 %rd2, %rd1, 1;
	ld.u32 %r2, [%rd2];
	shl.b64 %rd2, %rd2, 1;
	ld.u32 %r3, [%rd2];
	@%p1 bra $other;
	st.u32 [%rd2], %r3;
$other:
	ld.u32 %r4, [%rd2];
	ret;
}
";

/// A lookup of `%rd2`.
const LOOKUP: &str = "{\n\t.param .b64 __ringfence_0;\n\t\
    .param .align 8 .b8 __ringfence_1[16];\n\tst.param.b64 [__ringfence_0], %rd2;\n\t\
    call (__ringfence_1), __ringfence_lookup, (__ringfence_0);\n\t\
    ld.param.b64 %__rf_wb, [__ringfence_1];\n\tld.param.b64 %__rf_ws, [__ringfence_1+8];\n\t}\n\t";

#[test]
fn bounds_are_looked_up_where_the_address_changed() {
    let message = "not base and size of one thing";
    refuse_each(
        LOOKED_UP,
        &[
            (
                "the first lookup is left out",
                &[(COPY, LOOKUP, "")],
                message,
            ),
            (
                "the address changes after its lookup",
                &[(
                    "ld.u32 %r2, [%rd2];\n\tshl.b64 %rd2, %rd2, 1;\n\t{",
                    LOOKUP,
                    "",
                )],
                message,
            ),
            (
                "the lookup is in another block",
                &[("$other:\n\t{", LOOKUP, "")],
                message,
            ),
        ],
    );
}

/// Prints `%s %.4s` under a guard, of one buffer.
const PRINTS: &str = "\
.version 7.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 $str[8] = {37, 115, 32, 37, 46, 52, 115};
.visible .entry kernel(.param .u64 p, .param .u32 n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<6>;
	.local .align 8 .b8 depot[24];
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [n];
	setp.gt.s32 %p1, %r1, 0;
	mov.u64 %rd2, depot;
	cvta.local.u64 %rd3, %rd2;
	st.local.u64 [depot], %rd1;
	st.local.u64 [depot+8], %rd1;
	mov.u64 %rd4, $str;
	cvta.global.u64 %rd4, %rd4;
	{
	.param .b64 f;
	st.param.b64 [f], %rd4;
	.param .b64 a;
	st.param.b64 [a], %rd3;
	.param .b32 r;
	@%p1 call (r), vprintf, (f, a);
	}
	ret;
}
";

/// Reads the first string.
const FIRST: &str = "mov.b64 %__rf_text0, 0;\n\t@%p1 ld.b64 %__rf_text0, [%rd3+0];\n\t";
/// Puts the first argument back.
const BACK: &str = "@%__rf_cut0 st.b64 [%rd3+0], %__rf_text0;";
/// The first argument is replaced.
const REPLACED: &str = "@%__rf_cut0 st.b64 [%rd3+0], 35184372154368;";
/// The answer to the question of the first string is kept.
const KEPT: &str = "@%__rf_cut0 mov.b64 %__rf_address, %__rf_o;\n\t";

#[test]
#[expect(clippy::too_many_lines, reason = "a table of defects")]
fn a_string_is_checked_when_it_is_printed() {
    let unchecked = "the string at 0 of the arguments of `printf` is not checked";
    refuse_each(
        PRINTS,
        &[
            (
                "the comparison is left out",
                &[(
                    COPY,
                    "setp.ne.and.s64 %__rf_cut0, %__rf_o, -1, %p1;\n\t",
                    "",
                )],
                unchecked,
            ),
            (
                "what is inside is cut",
                &[(
                    COPY,
                    "setp.ne.and.s64 %__rf_cut0",
                    "setp.eq.and.s64 %__rf_cut0",
                )],
                unchecked,
            ),
            (
                "the question is about another argument",
                &[
                    (
                        COPY,
                        FIRST,
                        "mov.b64 %__rf_text0, 0;\n\t@%p1 ld.b64 %__rf_text0, [%rd3+8];\n\t",
                    ),
                    (
                        COPY,
                        KEPT,
                        "@%__rf_cut0 mov.b64 %__rf_address, %__rf_o;\n\tmov.b64 %__rf_text0, 0;\n\t@%p1 ld.b64 %__rf_text0, [%rd3+0];\n\t",
                    ),
                ],
                unchecked,
            ),
            (
                "base and size are exchanged",
                &[(
                    COPY,
                    "[__ringfence_1], %__rf_b0;\n\tst.param.b64 [__ringfence_2], %__rf_s0;",
                    "[__ringfence_1], %__rf_s0;\n\tst.param.b64 [__ringfence_2], %__rf_b0;",
                )],
                unchecked,
            ),
            (
                "the bounds are passed under a guard",
                &[(
                    COPY,
                    "st.param.b64 [__ringfence_2]",
                    "@%p1 st.param.b64 [__ringfence_2]",
                )],
                unchecked,
            ),
            (
                "the answer is read under a guard",
                &[(
                    "[__ringfence_0], %__rf_text0",
                    "ld.param.b64 %__rf_o, [__ringfence_4];",
                    "@%p1 ld.param.b64 %__rf_o, [__ringfence_4];",
                )],
                unchecked,
            ),
            (
                "the answer is that to another question",
                &[
                    (COPY, KEPT, ""),
                    (
                        "[__ringfence_0], %__rf_text1",
                        "@%__rf_cut1 mov.b64 %__rf_address",
                        "@%__rf_cut0 mov.b64 %__rf_address, %__rf_o;\n\t@%__rf_cut1 mov.b64 %__rf_address",
                    ),
                ],
                unchecked,
            ),
            (
                "the site is not kept",
                &[(COPY, "@%__rf_cut0 mov.u32 %__rf_site, 1;\n\t", "")],
                unchecked,
            ),
            (
                "the sites are exchanged",
                &[
                    (
                        COPY,
                        "@%__rf_cut0 mov.u32 %__rf_site, 1;",
                        "@%__rf_cut0 mov.u32 %__rf_site, 2;",
                    ),
                    (
                        COPY,
                        "@%__rf_cut1 mov.u32 %__rf_site, 2;",
                        "@%__rf_cut1 mov.u32 %__rf_site, 1;",
                    ),
                ],
                unchecked,
            ),
            (
                "the argument is not replaced",
                &[(COPY, REPLACED, ""), (COPY, BACK, "")],
                unchecked,
            ),
            (
                "the argument is back before it is printed",
                &[
                    (COPY, BACK, ""),
                    (
                        COPY,
                        REPLACED,
                        "@%__rf_cut0 st.b64 [%rd3+0], 35184372154368;\n\t@%__rf_cut0 st.b64 [%rd3+0], %__rf_text0;",
                    ),
                ],
                unchecked,
            ),
            (
                "the argument is replaced after it is printed",
                &[
                    (COPY, REPLACED, ""),
                    (
                        COPY,
                        BACK,
                        "@%__rf_cut0 st.b64 [%rd3+0], 35184372154368;\n\t@%__rf_cut0 st.b64 [%rd3+0], %__rf_text0;",
                    ),
                ],
                unchecked,
            ),
            (
                "the argument is replaced once more",
                &[(
                    COPY,
                    BACK,
                    "@%__rf_cut0 st.b64 [%rd3+0], %__rf_text0;\n\t@%__rf_cut0 st.b64 [%rd3+0], 35184372154368;",
                )],
                "only store to what its calls take|was not put back",
            ),
            (
                "the argument is not put back",
                &[(COPY, BACK, "")],
                "was not put back",
            ),
            (
                "the string is read again before the argument is put back",
                &[(
                    COPY,
                    BACK,
                    "mov.b64 %__rf_text0, 0;\n\t@%p1 ld.b64 %__rf_text0, [%rd3+0];\n\t@%__rf_cut0 st.b64 [%rd3+0], %__rf_text0;",
                )],
                "was not put back|not understood|registers of its own",
            ),
            (
                "another string is put back",
                &[(COPY, BACK, "@%__rf_cut0 st.b64 [%rd3+0], %__rf_text1;")],
                "was not put back",
            ),
        ],
    );
}

/// A string whose pointer is not known any more, behind one that is not printed.
const LOST: &str = "\
.version 7.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 $str[6] = {37, 100, 32, 37, 115};
.visible .entry kernel(.param .u64 p)
{
	.reg .b64 %rd<6>;
	.local .align 8 .b8 depot[16];
	ld.param.u64 %rd1, [p];
	mov.u64 %rd2, depot;
	cvta.local.u64 %rd3, %rd2;
	st.local.u64 [depot], %rd1;
	st.local.u64 [depot+8], %rd1;
	add.u64 %rd1, %rd1, 8;
	mov.u64 %rd4, $str;
	cvta.global.u64 %rd4, %rd4;
	{
	.param .b64 f;
	st.param.b64 [f], %rd4;
	.param .b64 a;
	st.param.b64 [a], %rd3;
	.param .b32 r;
	call (r), vprintf, (f, a);
	}
	ret;
}
";

#[test]
fn a_string_that_is_looked_up_is_the_one_that_is_printed() {
    let unchecked = "the string at 8 of the arguments of `printf` is not checked";
    refuse_each(
        LOST,
        &[
            (
                "another argument is looked up",
                &[
                    (
                        COPY,
                        "ld.b64 %__rf_text0, [%rd3+8];",
                        "ld.b64 %__rf_text0, [%rd3+0];",
                    ),
                    (
                        "%__rf_text0, [%rd3+0];",
                        "mov.b64 %__rf_u,",
                        "ld.b64 %__rf_text0, [%rd3+8];\n\tmov.b64 %__rf_u,",
                    ),
                ],
                unchecked,
            ),
            (
                "nothing is looked up",
                &[(
                    COPY,
                    "call (__ringfence_1), __ringfence_lookup, (__ringfence_0);",
                    "",
                )],
                unchecked,
            ),
        ],
    );
}
