//! A thread that has failed a check does not go round a loop for ever.

use crate::common;

use common::defects::refuse_each;

const COPY: &str = ".entry __ringfence_checked_kernel";

/// Waits for a word, counts, and falls out of its body.
const WAITS: &str = "\
.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 p)
{
	.reg .pred %p<3>;
	.reg .b32 %r<5>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, 0;
$counted:
	add.u32 %r1, %r1, 1;
	setp.lt.u32 %p1, %r1, 9;
	@%p1 bra $counted;
	.pragma \"nounroll\";
$waits:
	ld.volatile.global.u32 %r2, [%rd1];
	setp.eq.u32 %p2, %r2, 0;
	@%p2 bra $waits;
}
";

const ROUND: &str = "setp.ne.s32 %__rf_r, %__rf_site, 0;
	@%__rf_r add.u32 %__rf_rounds, %__rf_rounds, 1;
	setp.ge.u32 %__rf_r, %__rf_rounds, 262144;
	@%__rf_r bra $__rf_leave;
";

#[test]
fn rounds_of_open_loops_are_counted() {
    let text = common::instrument("a loop that waits", WAITS).text;
    let copy = &text[text.find(COPY).expect("a checked copy")..];
    let copy = copy.split("// Residual copy.").next().unwrap_or(copy);
    let waits = copy.find("$waits:").expect("the program's label");
    let load = copy.find("ld.volatile.global.u32 %r2").expect("its load");
    assert!(copy[waits..load].contains(ROUND), "{copy}");
    assert_eq!(copy.matches(ROUND).count(), 1, "{copy}");
    assert!(copy.contains("ret;\n\t$__rf_leave:\n"), "{copy}");
}

#[test]
fn a_body_may_end_with_a_label() {
    // As with -G.
    let source = WAITS.replace("@%p2 bra $waits;\n}", "@%p2 bra $waits;\n\tret;\n$end:\n}");
    assert_ne!(source, WAITS);
    common::instrument("a label at the end", &source);
}

#[test]
fn defects_of_counting_are_refused() {
    refuse_each(
        WAITS,
        &[
            (
                "rounds are not counted",
                &[(COPY, ROUND, "")],
                "may wait here for ever",
            ),
            (
                "they are counted at another place",
                &[
                    (COPY, ROUND, ""),
                    (
                        COPY,
                        "$counted:\n",
                        "$counted:\n\tsetp.ne.s32 %__rf_r, %__rf_site, 0; @%__rf_r add.u32 %__rf_rounds, %__rf_rounds, 1; setp.ge.u32 %__rf_r, %__rf_rounds, 262144; @%__rf_r bra $__rf_leave;\n",
                    ),
                ],
                "may wait here for ever",
            ),
            (
                "the count grows in threads that failed no check",
                &[(
                    COPY,
                    "@%__rf_r add.u32 %__rf_rounds",
                    "add.u32 %__rf_rounds",
                )],
                "not understood|neither",
            ),
            (
                "the count is not zero at the start",
                &[(COPY, "mov.u32 %__rf_rounds, 0;", "")],
                "although no check failed",
            ),
            (
                "threads that leave go on",
                &[(COPY, "exit;", "")],
                "neither|not understood",
            ),
            (
                "threads that fall out of the body leave, too",
                &[(COPY, "ret;\n\t$__rf_leave:", "$__rf_leave:")],
                "neither|not understood",
            ),
            (
                "there is no place to leave to",
                &[(COPY, "$__rf_leave:\n", "$__rf_done77:\n")],
                "neither|for nothing",
            ),
            (
                "the record of a thread that was ended does not say so",
                &[(
                    COPY,
                    "or.b32 %__rf_record_word, %__rf_record_word, 2147483648;",
                    "",
                )],
                "neither|not understood",
            ),
        ],
    );
}
