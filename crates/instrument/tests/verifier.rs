//! The verifier must not accept what is wrong: each case breaks one thing in
//! a good output.

use crate::common;

const SOURCE: &str = "\
.version 7.0
.target sm_80
.address_size 64
.global .align 4 .b8 table[64];
.visible .entry kernel(.param .u64 p, .param .u64 q, .param .u32 n)
{
	.reg .pred %p<3>;
	.reg .b32 %r<5>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q];
	mov.u32 %r1, %tid.x;
	setp.lt.u32 %p1, %r1, 7;
	ld.global.u32 %r2, [%rd1+4];
	ld.global.u32 %r4, [%rd1+8];
	ld.global.u32 %r3, [%rd1+12];
	@%p1 st.global.u32 [%rd2], %r2;
	st.global.u32 [table+60], %r3;
	ret;
}
";

/// Replaces the first `from` after `after` and returns the verifier's messages.
fn break_it(after: &str, from: &str, to: &str) -> Vec<String> {
    break_in(SOURCE, after, from, to)
}

fn break_in(source: &str, after: &str, from: &str, to: &str) -> Vec<String> {
    let done = common::instrument("the good module", source);
    let good = &done.text;
    let start = good
        .find(after)
        .unwrap_or_else(|| panic!("no `{after}` in\n{good}"));
    let at = start
        + good[start..]
            .find(from)
            .unwrap_or_else(|| panic!("no `{from}` after `{after}` in\n{good}"));
    let bad = format!("{}{to}{}", &good[..at], &good[at + from.len()..]);
    match instrument::verify(source, &bad, &done.entries) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of defects")]
fn each_defect_is_found() {
    let copy = "__ringfence_checked_kernel";
    for (after, from, to, message) in [
        (
            ".visible .entry kernel",
            "[%rd1+4]",
            "[%rd1+8]",
            "text of the source changed",
        ),
        (
            ".visible .entry kernel",
            "setp.lt.u32",
            "setp.gt.u32",
            "text of the source changed",
        ),
        (
            copy,
            "setp.lt.u32 %p1",
            "setp.gt.u32 %p1",
            "a statement differs",
        ),
        (copy, "mov.u32 %r1, %tid.x;", "", "a statement differs"),
        (
            copy,
            "[%__rf_a0+4]",
            "[%rd1+4]",
            "a global or generic access without a check",
        ),
        (
            copy,
            "[%__rf_a0+4]",
            "[%__rf_a1+4]",
            "not selected by a check in this block",
        ),
        (copy, "[%__rf_a0+4]", "[%__rf_a0+8]", "a statement differs"),
        (
            copy,
            "ld.param.b64 %__rf_m0, [__ringfence_launch+40]",
            "ld.param.b64 %__rf_m0, [__ringfence_launch+48]",
            "not base and size of one thing",
        ),
        (
            copy,
            "ld.param.b64 %__rf_m0, [__ringfence_launch+40]",
            "ld.param.b64 %__rf_m0, [__ringfence_launch+44]",
            "not base and size of one thing",
        ),
        (
            copy,
            "add.s64 %__rf_o, %__rf_o, 4",
            "add.s64 %__rf_o, %__rf_o, 8",
            "covers other bytes",
        ),
        (
            copy,
            "sub.s64 %__rf_o, %rd1, %__rf_b0",
            "sub.s64 %__rf_o, %rd1, %__rf_b1",
            "not base and size of one thing",
        ),
        (
            copy,
            "sub.s64 %__rf_o, %rd1, %__rf_b0",
            "sub.s64 %__rf_o, %rd2, %__rf_b0",
            "not the one that is checked",
        ),
        (
            copy,
            "setp.ge.u64 %__rf_q",
            "setp.gt.u64 %__rf_q",
            "covers other bytes|not base and size|not selected|keep",
        ),
        (
            copy,
            "setp.ge.and.u64 %__rf_k0, %__rf_o, %__rf_m1, %p1",
            "setp.ge.u64 %__rf_k0, %__rf_o, %__rf_m1",
            "guard",
        ),
        (copy, "%__rf_m1, %p1", "%__rf_m1, %p2", "guard"),
        (
            copy,
            "@%__rf_q mov.u32 %__rf_site, 1;",
            "",
            "does not keep its site",
        ),
        (
            copy,
            "@%__rf_q mov.b64 %__rf_address, %rd1;",
            "",
            "does not keep its site",
        ),
        (
            copy,
            "selp.b64 %__rf_a0, 3518",
            "selp.b64 %__rf_a0, 3517",
            "the sink is not where",
        ),
        (
            copy,
            "selp.b64 %__rf_a0, 35184372154364",
            "selp.b64 %__rf_a0, 35184372154366",
            "not aligned",
        ),
        (copy, ".reg .b64 %__rf_a<2>;", "", "not declared"),
        (
            copy,
            "__ringfence_launch[56]",
            "__ringfence_launch[40]",
            "not a header, bounds that are used, and limits and ranges",
        ),
        (
            copy,
            "__ringfence_launch[56]",
            "__ringfence_launch[57]",
            "not a header, bounds and limits",
        ),
        (
            copy,
            "mov.u32 %__rf_site, 0;",
            "mov.u32 %r1, 0; // %__rf_",
            "a statement differs|registers of its own",
        ),
        (
            copy,
            "mov.u32 %__rf_site, 0;",
            "st.global.u32 [%__rf_address], %__rf_site;",
            "only store to what its calls take",
        ),
        (
            ".func",
            "shr.u64",
            "shl.b64",
            "is not the function that checks expect",
        ),
        (
            ".global",
            "table[64]",
            "table[65]",
            "text of the source changed",
        ),
    ] {
        let said = break_it(after, from, to);
        let expected = said
            .iter()
            .any(|line| message.split('|').any(|part| line.contains(part)));
        assert!(
            expected,
            "`{from}` -> `{to}`: expected `{message}`, the verifier said {said:?}"
        );
    }
}

/// A read and a write that share one verdict.
const TWINS: &str = "\
.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 p, .param .u64 q)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q];
	ld.global.u32 %r2, [%rd1];
	ld.global.u32 %r3, [%rd2];
	st.global.u32 [%rd1], %r2;
	ret;
}
";

/// Replaces the first of each text in a module's output, and compares the
/// verifier's messages with the expected ones.
fn break_each(what: &str, source: &str, defects: &[(&str, &str, &str)]) {
    let done = common::instrument(what, source);
    let good = &done.text;
    for (from, to, message) in defects {
        assert!(good.contains(from), "no `{from}` in\n{good}");
        let bad = good.replacen(from, to, 1);
        let errors = instrument::verify(source, &bad, &done.entries).expect_err(from);
        let found = errors
            .iter()
            .any(|e| message.split('|').any(|part| e.message.contains(part)));
        assert!(found, "`{from}` -> `{to}`: {errors:?}");
    }
}

const CALLS: &str = "\
.version 7.0
.target sm_80
.address_size 64
.func (.param .b64 r) step(.param .b64 p)
{
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	st.u32 [%rd1], 0;
	st.param.b64 [r], %rd1;
	ret;
}
.func other(.param .b64 p)
{
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	st.u32 [%rd1], 0;
	ret;
}
.visible .entry kernel(.param .u64 p, .param .u64 q)
{
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q];
	{
	.param .b64 a;
	.param .b64 b;
	st.param.b64 [a], %rd1;
	call (b), step, (a);
	ld.param.b64 %rd3, [b];
	}
	st.u32 [%rd3], 1;
	{
	.param .b64 a;
	st.param.b64 [a], %rd2;
	call other, (a);
	}
	ret;
}
";

#[test]
fn calls_of_copies_pass_and_return_the_bounds_that_copies_expect() {
    let done = common::instrument("the calls", CALLS);
    let good = &done.text;
    for (from, to, message) in [
        (
            "call __ringfence_checked_other, (a, ",
            "call __ringfence_checked_step, (a, ",
            "a statement differs|neither the source's|its own functions",
        ),
        (
            "call __ringfence_checked_other, (a, __ringfence_bounds1);",
            "call other, (a);",
            "calls `other`, which has no checks",
        ),
        (
            "(a, __ringfence_bounds1)",
            "(a, __ringfence_bounds0)",
            "bounds are not those|what is passed",
        ),
        (
            "st.param.b64 [__ringfence_bounds1+16], %__rf_s",
            "st.param.b64 [__ringfence_bounds1+8], %__rf_s",
            "what is passed is not",
        ),
        (
            "st.param.b64 [__ringfence_bounds0+16], %__rf_s0;",
            "st.param.b64 [__ringfence_bounds0+16], %__rf_s1;",
            "what is passed is not",
        ),
        (
            "__ringfence_bounds0[24]",
            "__ringfence_bounds0[40]",
            "bounds are not those",
        ),
        (
            "ld.param.b64 %rd3, [__ringfence_result0];",
            "ld.param.b64 %rd3, [b];",
            "the result is not in",
        ),
        (
            "__ringfence_result0[24]",
            "__ringfence_result0[16]",
            "reads past the returned bounds|not what the copy returns",
        ),
        (
            "[__ringfence_result0+16]",
            "[__ringfence_result0+8]",
            "not the size that was returned",
        ),
        ("st.param.b64 [r+16], %__rf_rs;", "", "not every return has"),
        (
            "st.param.b64 [r+16], %__rf_rs;",
            "st.param.b64 [r], %__rf_rs;",
            "may not change what the program returns",
        ),
        (
            "r[24]) __ringfence_checked_step(",
            "r[32]) __ringfence_checked_step(",
            "the result is not the program's",
        ),
        (
            "__ringfence_checked_other(.param .b64 p,\n\t.param .align 8 .b8 __ringfence_launch[24]);",
            "__ringfence_checked_other(.param .b64 p,\n\t.param .align 8 .b8 __ringfence_launch[40]);",
            "declared but not so defined",
        ),
    ] {
        assert!(good.contains(from), "no `{from}` in\n{good}");
        let bad = good.replacen(from, to, 1);
        let errors = instrument::verify(CALLS, &bad, &done.entries).expect_err(from);
        let found = errors
            .iter()
            .any(|e| message.split('|').any(|part| e.message.contains(part)));
        assert!(found, "`{from}` -> `{to}`: {errors:?}");
    }
}

#[test]
fn what_others_may_call_must_be_checked_in_place() {
    let visible = CALLS.replace(".func other", ".visible .func other");
    let done = common::instrument("a visible function", &visible);
    let good = &done.text;
    let text = |of: &str| {
        let start = of.find(".visible .func other").expect("the function");
        of[start..start + of[start..].find("\n}").expect("its end")].to_owned()
    };
    let bad = good.replacen(&text(good), &text(&visible), 1);
    let errors = instrument::verify(&visible, &bad, &done.entries).expect_err("no checks");
    let found = errors
        .iter()
        .any(|e| e.message.contains("code that is not seen"));
    assert!(found, "{errors:?}");
}

#[test]
fn a_verdict_that_is_used_again_must_still_stand() {
    break_each(
        "the twins",
        TWINS,
        &[
            // The other check is in between: the address is the other's.
            (
                "@%__rf_k0 mov.u32 %__rf_site, 3;\n\t@%__rf_k0 mov.b64 %__rf_address, %rd1;",
                "@%__rf_k0 mov.u32 %__rf_site, 3;",
                "keep its site",
            ),
            (
                "@%__rf_k0 mov.u32 %__rf_site, 3;",
                "",
                "the site of a read for a write",
            ),
            (
                "setp.ge.u64 %__rf_k1, %__rf_o",
                "setp.ge.u64 %__rf_k0, %__rf_o",
                "without a check",
            ),
            (".reg .pred %__rf_k<2>;", "", "not declared"),
        ],
    );
}

/// A packed pointer with an index; an array in constant memory.
const DOUBT: &str = "\
.version 7.0
.target sm_80
.address_size 64
.const .align 4 .b8 fixed[64];
.visible .entry kernel(.param .u64 word, .param .u64 index)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [word];
	ld.param.u64 %rd2, [index];
	shr.u64 %rd3, %rd1, 8;
	add.s64 %rd4, %rd3, %rd2;
	ld.u32 %r1, [%rd4];
	mov.u64 %rd5, fixed;
	add.s64 %rd6, %rd5, %rd2;
	ld.const.u32 %r2, [%rd6];
	ret;
}
";

#[test]
fn what_is_in_doubt_is_checked_by_its_address() {
    break_each(
        "addresses in doubt and of 64 bits",
        DOUBT,
        &[
            (
                "sub.s64 %__rf_o, %rd4, %__rf_wb;",
                "sub.s64 %__rf_o, %rd4, %__rf_hb0;",
                "may be no pointer",
            ),
            (
                "mov.b64 %__rf_ws, %__rf_hs0;",
                "mov.b64 %__rf_ws, %__rf_s0;",
                "not base and size of one thing",
            ),
            (
                "@%__rf_r bra $__rf_known0;",
                "@%__rf_r bra $__rf_done1;",
                "only as they must be",
            ),
            (
                "$__rf_known0:\n\tsub.s64 %__rf_o, %rd4, %__rf_wb;",
                "sub.s64 %__rf_o, %rd4, %__rf_wb;\n\t$__rf_known0:",
                "only as they must be",
            ),
            (
                "mov.u64 %__rf_e3, fixed;",
                "mov.u64 %__rf_e3, fixed;\n\tadd.s64 %__rf_e3, %__rf_e3, 8;",
                "not base and size of one thing|covers other bytes|without a check|only as they must be|not understood",
            ),
            (
                "sub.s64 %__rf_o, %rd6, %__rf_e3;",
                "cvt.u32.u64 %__rf_p, %rd6;\n\tcvt.u32.u64 %__rf_c3, %__rf_e3;\n\t\
                 sub.s32 %__rf_d, %__rf_p, %__rf_c3;\n\tcvt.u64.u32 %__rf_o, %__rf_d;",
                "32 bits of an address of 64",
            ),
        ],
    );
}

/// Instructions that are skipped as a whole.
const WHOLE: &str = "\
.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 p)
{
	.reg .pred %p<3>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<8>;
	.shared .align 16 .b8 tile[512];
	.shared .align 8 .b8 bars[64];
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, tile;
	mov.u32 %r2, %tid.x;
	mov.u32 %r5, bars;
	mad.lo.s32 %r3, %r2, 16, %r1;
	mad.lo.s32 %r6, %r2, 8, %r5;
	setp.lt.u32 %p1, %r2, 64;
	ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];
	@%p1 ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r7, %r8}, [%r3+16];
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], %r2, [%r6];
	ret;
}
";

#[test]
fn instructions_are_skipped_as_a_whole() {
    let unchecked = "without a check";
    let unsignalled = "not signalled for exactly the bytes";
    break_each(
        "whole instructions",
        WHOLE,
        &[
            // Lanes would go different ways.
            (
                "vote.sync.any.pred %__rf_stop, %__rf_k0, 0xffffffff",
                "mov.pred %__rf_stop, %__rf_k0",
                unchecked,
            ),
            ("@!%__rf_stop ldmatrix", "@!%__rf_k0 ldmatrix", unchecked),
            (
                "%__rf_stop, %__rf_k0, 0xffffffff",
                "%__rf_stop, %__rf_k0, 0xffff",
                unchecked,
            ),
            // No lane votes where the guard is false.
            ("@%p1 vote.sync.any.pred", "vote.sync.any.pred", unchecked),
            (
                "and.pred %__rf_stop, %__rf_stop, %p1;",
                "mov.b64 %__rf_t, 0;",
                unchecked,
            ),
            // The addresses of eight lanes are used.
            (
                "%__rf_lane, 8, %__rf_k0",
                "%__rf_lane, 4, %__rf_k0",
                "of other lanes",
            ),
            (
                "mov.u32 %__rf_lane, %laneid",
                "mov.u32 %__rf_lane, %warpid",
                unchecked,
            ),
            (
                "@%__rf_stop mov.b32 %r4, 0",
                "@%__rf_stop mov.b32 %r4, 1",
                "registers of its own",
            ),
            // One of three accesses does not count.
            ("or.pred %__rf_stop, %__rf_stop, %__rf_k4;", "", unchecked),
            (
                "], %r2;\n\t@!%__rf_stop",
                "], %r1;\n\t@!%__rf_stop",
                unsignalled,
            ),
            (
                "@%__rf_r mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 [%r6+0], %r2;",
                "",
                unsignalled,
            ),
            (
                "@%__rf_r mbarrier.complete_tx",
                "@%__rf_q mbarrier.complete_tx",
                "registers of its own",
            ),
        ],
    );
}

#[test]
fn what_is_missing_is_found() {
    let done = common::instrument("the good module", SOURCE);
    let good = &done.text;
    let cut = good.find("\n// Checked copy").expect("the copy");
    // Without the copy, the originals are all there: nothing is wrong.
    assert_eq!(
        instrument::verify(SOURCE, &good[..cut], &done.entries),
        Ok(())
    );
    let cut = good.find(".visible").expect("an entry");
    let errors = instrument::verify(SOURCE, &good[..cut], &done.entries).expect_err("no kernel");
    assert!(errors[0].message.contains("missing"), "{errors:?}");
}

#[test]
fn errors_name_their_line() {
    let done = common::instrument("the good module", SOURCE);
    let good = &done.text;
    let bad = good.replace("[%__rf_a0+4]", "[%rd1+4]");
    let line = bad
        .lines()
        .position(|line| line.contains("ld.global.u32 %r2, [%rd1+4]"))
        .expect("the original");
    let copy = bad
        .lines()
        .skip(line + 1)
        .position(|l| l.contains("ld.global.u32 %r2, [%rd1+4]"))
        .expect("the copy");
    let errors =
        instrument::verify(SOURCE, &bad, &done.entries).expect_err("an access without a check");
    assert_eq!(errors[0].line as usize, line + 1 + copy + 1);
}

#[test]
fn reserved_names_and_32_bit_modules_are_refused() {
    let options = instrument::Options::default();
    let done = common::instrument("the good module", SOURCE);
    let good = &done.text;
    let twice = instrument::instrument(good, &options)
        .expect_err("instrumented already")
        .to_string();
    assert!(
        twice.contains("instrumented already") && twice.contains("line "),
        "{twice}"
    );
    let narrow = SOURCE.replace(".address_size 64", ".address_size 32");
    let refused = instrument::instrument(&narrow, &options)
        .expect_err("32 bits")
        .to_string();
    assert!(refused.contains("compile it for 64 bits"), "{refused}");
    let broken = instrument::instrument("what is this", &options)
        .expect_err("not PTX")
        .to_string();
    assert!(broken.contains("cannot parse PTX"), "{broken}");
}

/// One address whose alignment depends on a pointer, one of which nothing is
/// known, and one in shared memory.
const ADDRESSES: &str = "\
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 4 .b8 scratch[];
.visible .entry kernel(.param .u64 p, .param .u64 q)
{
	.reg .pred %p<3>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 8;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.u64 %rd5, [%rd4+12];
	cvt.u64.u32 %rd7, %r1;
	add.s64 %rd6, %rd2, %rd7;
	st.global.u64 [%rd6+12], %rd5;
	mov.u32 %r2, scratch;
	add.s32 %r3, %r2, %r1;
	st.shared.u32 [%r3+2], %r1;
	ret;
}
";

#[test]
fn alignment_is_recomputed() {
    assert_eq!(break_in(ADDRESSES, "kernel", "", ""), [""; 0]);
    let copy = "__ringfence_checked_kernel";
    for (after, from, to) in [
        // The limit of the first pointer.
        (copy, "[__ringfence_launch+40]", "[__ringfence_launch+48]"),
        // The test of the second address.
        (
            "%rd6, %__rf_b",
            "cvt.u32.u64 %__rf_x, %rd6;",
            "cvt.u32.u64 %__rf_x, %rd4;",
        ),
        ("%rd6, %__rf_b", "add.s32 %__rf_x, %__rf_x, 4;", ""),
        (
            "%rd6, %__rf_b",
            "and.b32 %__rf_x, %__rf_x, 7;",
            "and.b32 %__rf_x, %__rf_x, 5;",
        ),
        (
            "%rd6, %__rf_b",
            "and.b32 %__rf_x, %__rf_x, 7;",
            "and.b32 %__rf_x, %__rf_x, 3;",
        ),
        ("%rd6, %__rf_b", "setp.ne.or.u32", "setp.eq.or.u32"),
        (
            "%rd6, %__rf_b",
            "setp.ne.or.u32 %__rf_k1, %__rf_x, 0, %__rf_k1;",
            "",
        ),
        // That in shared memory.
        (
            "cvt.u32.u64 %__rf_c",
            "and.b32 %__rf_x, %__rf_x, 3;",
            "and.b32 %__rf_x, %__rf_x, 1;",
        ),
        (
            "sub.s32 %__rf_d",
            "add.s32 %__rf_x, %r3, 2;",
            "add.s32 %__rf_x, %r2, 2;",
        ),
        (
            "sub.s32 %__rf_d",
            "setp.ne.or.u32 %__rf_k2, %__rf_x, 0, %__rf_k2;",
            "",
        ),
    ] {
        let errors = break_in(ADDRESSES, after, from, to);
        assert!(!errors.is_empty(), "accepted: `{from}` as `{to}`");
    }
}

#[test]
fn limits_that_the_body_computes_are_recomputed() {
    // There is no room for a launch parameter.
    let room = ".param .u64 q, .param .align 8 .b8 rest[4336])";
    let source = ADDRESSES.replace(".param .u64 q)", room);
    let limit = "max.u64 %__rf_m0";
    assert_eq!(break_in(&source, limit, "", ""), [""; 0]);
    for (from, to) in [
        (
            "max.u64 %__rf_m0, %__rf_s0, 7",
            "max.u64 %__rf_m0, %__rf_s0, 3",
        ),
        (
            "sub.s64 %__rf_m0, %__rf_m0, 7",
            "sub.s64 %__rf_m0, %__rf_m0, 3",
        ),
        ("selp.b64 %__rf_m0, 0, %__rf_m0, %__rf_r;", ""),
        (
            "selp.b64 %__rf_m0, 0, %__rf_m0",
            "selp.b64 %__rf_m0, 1, %__rf_m0",
        ),
        ("ld.param.b64 %__rf_u, [p+0]", "ld.param.b64 %__rf_u, [q+0]"),
        ("add.s64 %__rf_u, %__rf_u, 4;", ""),
        (
            "and.b64 %__rf_u, %__rf_u, 7;",
            "and.b64 %__rf_u, %__rf_u, 3;",
        ),
        (
            "setp.ne.s64 %__rf_r, %__rf_u, 0",
            "setp.ne.s64 %__rf_r, %__rf_u, 1",
        ),
    ] {
        let errors = break_in(&source, limit, from, to);
        assert!(!errors.is_empty(), "accepted: `{from}` as `{to}`");
    }
}

const THROUGH: &str = "\
.version 7.0
.target sm_80
.address_size 64
.func (.param .b64 r) near(.param .b64 p)
{
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	st.u32 [%rd1], 0;
	st.param.b64 [r], %rd1;
	ret;
}
.func (.param .b64 r) far(.param .b64 p)
{
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	st.u32 [%rd1+8], 0;
	st.param.b64 [r], %rd1;
	ret;
}
.func alone(.param .b32 n)
{
	.reg .b64 %rd<2>;
	mov.u64 %rd1, 64;
	st.u32 [%rd1], 0;
	ret;
}
.global .align 8 .u64 table[3] = { near, far, alone };
.visible .entry kernel(.param .u64 p)
{
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [p];
	ld.global.u64 %rd2, [table];
	ld.global.u64 %rd4, [table+16];
	{
	.param .b64 a;
	.param .b64 b;
	st.param.b64 [a], %rd1;
	prototype_0 : .callprototype (.param .b64 _) _ (.param .b64 _);
	call (b), %rd2, (a), prototype_0;
	ld.param.b64 %rd3, [b];
	}
	st.u32 [%rd3], 1;
	{
	.param .b32 a;
	st.param.b32 [a], 3;
	prototype_1 : .callprototype () _ (.param .b32 _);
	call %rd4, (a), prototype_1;
	}
	ret;
}
";

#[test]
fn calls_through_pointers_reach_only_functions_of_their_class() {
    break_each(
        "calls through pointers",
        THROUGH,
        &[
            (
                "call (__ringfence_result0), %__rf_f0,",
                "call (__ringfence_result0), %rd2,",
                "a statement differs|neither the source's|own functions",
            ),
            (
                "st.param.b64 [__ringfence_0], %rd2;",
                "st.param.b64 [__ringfence_0], %rd4;",
                "not that of a copy or thunk",
            ),
            (
                "call (__ringfence_1), __ringfence_target0,",
                "call (__ringfence_1), __ringfence_target1,",
                "take other parameters",
            ),
            (
                "call (__ringfence_1), __ringfence_target0,",
                "call (__ringfence_1), __ringfence_target7,",
                "not understood",
            ),
            (
                "[__ringfence_bounds0+24], %rd2;",
                "[__ringfence_bounds0+24], %rd1;",
                "does not learn which",
            ),
            (
                "[__ringfence_bounds0+24], %rd2;",
                "[__ringfence_bounds0+16], %rd2;",
                "what is passed|does not learn which",
            ),
            (
                "__ringfence_prototype0 : .callprototype (.param .align 8 .b8 _[24])",
                "__ringfence_prototype0 : .callprototype (.param .align 8 .b8 _[40])",
                "prototype is not that of the copies",
            ),
            (
                "(a, __ringfence_bounds0), __ringfence_prototype0;",
                "(a, __ringfence_bounds0), __ringfence_prototype1;",
                "prototype is not that of the copies",
            ),
            (
                "mov.u64 %__rf_u, __ringfence_checked_far;",
                "mov.u64 %__rf_u, __ringfence_checked_near;",
                "not what calls expect",
            ),
            (
                "mov.u64 %__rf_u, far;",
                "mov.u64 %__rf_u, alone;",
                "takes or returns other bounds than its class|not what calls expect",
            ),
            (
                "setp.eq.s64 %__rf_q, %__rf_o, %__rf_u;",
                "setp.ne.s64 %__rf_q, %__rf_o, %__rf_u;",
                "not what calls expect",
            ),
            (
                "ld.param.b64 %__rf_o, [__ringfence_called+24];",
                "ld.param.b64 %__rf_o, [__ringfence_called+16];",
                "not what calls expect",
            ),
            (
                "st.param.b64 [__ringfence_result+16], %__rf_ws;",
                "st.param.b64 [__ringfence_result+16], %__rf_wb;",
                "not what calls expect",
            ),
            (
                "near(.param .b64 p,\n\t.param .align 8 .b8 __ringfence_launch[32])\n{",
                "near(.param .b64 p,\n\t.param .align 8 .b8 __ringfence_launch[24])\n{",
                "declared but not so defined|takes or returns other",
            ),
        ],
    );
}

#[test]
fn a_function_pointer_that_changes_is_translated_again() {
    // The register is written between the translation and the call.
    let good = common::instrument("calls through pointers", THROUGH).text;
    let changed = THROUGH.replacen(
        "\tst.param.b64 [a], %rd1;\n\tproto",
        "\tst.param.b64 [a], %rd1;\n\tadd.s64 %rd2, %rd2, 0;\n\tproto",
        1,
    );
    let made = common::instrument("a pointer that changes", &changed);
    assert!(instrument::verify(&changed, &made.text, &made.entries).is_ok());
    let at = "st.param.b64 [a], %rd1;";
    let copy = good.find("__ringfence_checked_kernel").expect("a copy");
    let place = copy + good[copy..].find(at).expect("the argument") + at.len();
    let original = good.find(".visible .entry kernel(").expect("the original");
    let first = original + good[original..].find(at).expect("the argument") + at.len();
    let insert = "\n\tadd.s64 %rd2, %rd2, 0;";
    let broken = format!(
        "{}{insert}{}{insert}{}",
        &good[..first],
        &good[first..place],
        &good[place..]
    );
    let errors = instrument::verify(&changed, &broken, &made.entries).expect_err("a stale address");
    assert!(
        errors
            .iter()
            .any(|e| e.message.contains("not that of a copy or thunk")),
        "{errors:?}"
    );
}

/// Prints `%s %.4s` under a guard.
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
	st.local.u32 [depot+8], %r1;
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

#[test]
#[expect(clippy::too_many_lines, reason = "a table of defects")]
fn strings_that_are_printed_must_be_checked() {
    let copy = "__ringfence_checked_kernel";
    let second = "@%p1 ld.b64 %__rf_text1";
    for (after, from, to) in [
        // Another pointer, place, guard, or none.
        (
            copy,
            "ld.b64 %__rf_text0, [%rd3+0]",
            "ld.b64 %__rf_text0, [%rd2+0]",
        ),
        (
            copy,
            "ld.b64 %__rf_text0, [%rd3+0]",
            "ld.b64 %__rf_text0, [%rd3+16]",
        ),
        (copy, "@%p1 ld.b64 %__rf_text0", "@!%p1 ld.b64 %__rf_text0"),
        (copy, "mov.b64 %__rf_text0, 0;", ""),
        (copy, "mov.b64 %__rf_text0, 0;", "mov.b64 %__rf_text0, 8;"),
        (
            copy,
            "[__ringfence_0], %__rf_text0",
            "[__ringfence_0], %__rf_text1",
        ),
        (
            second,
            "[__ringfence_0], %__rf_text1",
            "[__ringfence_0], %__rf_text0",
        ),
        // Bounds of different things.
        (
            copy,
            "[__ringfence_1], %__rf_b0",
            "[__ringfence_1], %__rf_wb",
        ),
        (copy, "[__ringfence_2], %__rf_s0", "[__ringfence_2], 4096"),
        // Less is read than will be.
        (
            copy,
            "mov.b64 %__rf_u, 9223372036854775807",
            "mov.b64 %__rf_u, 4",
        ),
        (second, "mov.b64 %__rf_u, 4;", "mov.b64 %__rf_u, 3;"),
        (copy, "[__ringfence_3], %__rf_u", "[__ringfence_3], %__rf_o"),
        // The answer is not used, or its record is not kept.
        (
            copy,
            "setp.ne.and.s64 %__rf_cut0, %__rf_o, -1, %p1",
            "setp.ne.and.s64 %__rf_cut0, %__rf_o, 0, %p1",
        ),
        (
            copy,
            "setp.ne.and.s64 %__rf_cut0, %__rf_o, -1, %p1",
            "setp.eq.and.s64 %__rf_cut0, %__rf_o, -1, %p1",
        ),
        // It is used under another guard than the call's.
        (
            copy,
            "setp.ne.and.s64 %__rf_cut0, %__rf_o, -1, %p1",
            "setp.ne.and.s64 %__rf_cut0, %__rf_o, -1, !%p1",
        ),
        (
            copy,
            "setp.ne.and.s64 %__rf_cut0, %__rf_o, -1, %p1",
            "setp.ne.s64 %__rf_cut0, %__rf_o, -1",
        ),
        (
            copy,
            "call (__ringfence_4), __ringfence_text",
            "call (__ringfence_4), __ringfence_lookup",
        ),
        (
            copy,
            "@%__rf_cut0 mov.u32 %__rf_site, 1",
            "@%__rf_cut0 mov.u32 %__rf_site, 0",
        ),
        (
            copy,
            "@%__rf_cut0 mov.u32 %__rf_site",
            "@%__rf_cut1 mov.u32 %__rf_site",
        ),
        (
            copy,
            "@%__rf_cut0 mov.b64 %__rf_address, %__rf_o",
            "@%__rf_cut0 mov.b64 %__rf_address, %__rf_t",
        ),
        // The argument is not replaced, by something else, or not put back.
        (copy, "@%__rf_cut0 st.b64 [%rd3+0], 35184372154368;", ""),
        (
            copy,
            "@%__rf_cut0 st.b64 [%rd3+0]",
            "@%__rf_cut1 st.b64 [%rd3+0]",
        ),
        (
            copy,
            "st.b64 [%rd3+0], 35184372154368",
            "st.b64 [%rd3+0], 35184372154369",
        ),
        (
            copy,
            "st.b64 [%rd3+0], 35184372154368",
            "st.b64 [%rd3+8], 35184372154368",
        ),
        (
            copy,
            "st.b64 [%rd3+0], 35184372154368",
            "st.b64 [%rd1], 35184372154368",
        ),
        (copy, "@%__rf_cut0 st.b64 [%rd3+0], %__rf_text0;", ""),
        (
            copy,
            "st.b64 [%rd3+0], %__rf_text0",
            "st.b64 [%rd3+0], %__rf_text1",
        ),
        // The function that reads.
        (
            "__ringfence_text (",
            "setp.eq.s64 %__rf_q, %__rf_s, 0",
            "setp.eq.s64 %__rf_q, %__rf_s, 1",
        ),
    ] {
        let errors = break_in(PRINTS, after, from, to);
        assert!(!errors.is_empty(), "accepted: `{from}` as `{to}`");
    }
}
