//! A record is written before what may end the kernel, and once.

use crate::common;

use common::defects::refuse_each;

const COPY: &str = ".entry __ringfence_checked_kernel";

/// Reads a pointer to a function, which is called in a loop; and a function that
/// may fail an assertion.
const CALLS: &str = "\
.version 7.0
.target sm_80
.address_size 64
.extern .func __assertfail;
.func may_fail()
{
	call __assertfail;
	ret;
}
.visible .entry kernel(.param .u64 p, .param .u64 q)
{
	.reg .pred %p<2>;
	.reg .b32 %r<5>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q];
	mov.u32 %r1, 0;
$again:
	ld.global.u64 %rd3, [%rd1];
	ld.global.u64 %rd4, [%rd3+8];
	{
	.param .b32 x;
	st.param.b32 [x], %r1;
	prototype : .callprototype _ (.param .b32 _);
	call %rd4, (x), prototype;
	}
	add.u32 %r1, %r1, 1;
	setp.lt.u32 %p1, %r1, 9;
	@%p1 bra $again;
	st.global.u32 [%rd2], %r1;
	call may_fail;
	ret;
}
";

#[test]
fn a_record_is_written_before_the_kernel_may_end() {
    let text = common::instrument("calls that may not return", CALLS).text;
    let copy = &text[text.find(COPY).expect("a checked copy")..];
    let copy = copy.split("// Residual copy.").next().unwrap_or(copy);
    let places = [
        "__ringfence_append",
        "st.param.b32 [x]",
        "__ringfence_append",
        "call may_fail",
    ];
    let mut at = 0;
    for place in places {
        let found = copy[at..].find(place);
        at += found.unwrap_or_else(|| panic!("no `{place}` behind what precedes it:\n{copy}"));
    }
    let compared = "setp.eq.s32 %__rf_q, %__rf_site, %__rf_reported;";
    assert_eq!(copy.matches(compared).count(), 3, "{copy}");
    let written = "mov.u32 %__rf_reported, %__rf_site;";
    assert_eq!(copy.matches(written).count(), 2, "{copy}");
}

#[test]
fn defects_of_such_records_are_refused() {
    let unknown = "check code that is not understood";
    refuse_each(
        CALLS,
        &[
            (
                "the record is not written before the call",
                &[(
                    COPY,
                    "setp.eq.s32 %__rf_q, %__rf_site, %__rf_reported;",
                    "setp.eq.s32 %__rf_q, %__rf_site, %__rf_site;",
                )],
                "neither|not understood|before a record is written",
            ),
            (
                "it is noted as written, and is not",
                &[(
                    COPY,
                    "setp.eq.s32 %__rf_q, %__rf_site, %__rf_reported;",
                    "mov.u32 %__rf_reported, %__rf_site;\n\tsetp.eq.s32 %__rf_q, %__rf_site, %__rf_reported;",
                )],
                unknown,
            ),
            (
                "another site is noted",
                &[(
                    COPY,
                    "mov.u32 %__rf_reported, %__rf_site;",
                    "mov.u32 %__rf_reported, 1;",
                )],
                unknown,
            ),
            (
                "it is not noted: a loop writes the record without end",
                &[(COPY, "mov.u32 %__rf_reported, %__rf_site;\n", "")],
                unknown,
            ),
            (
                "a failed check is forgotten before the call",
                &[(
                    COPY,
                    "setp.eq.s32 %__rf_q, %__rf_site, %__rf_reported;",
                    "mov.u32 %__rf_site, 0;\n\tsetp.eq.s32 %__rf_q, %__rf_site, %__rf_reported;",
                )],
                unknown,
            ),
            (
                "what was noted is not zero at the start",
                &[(COPY, "mov.u32 %__rf_reported, 0;", "")],
                "although no check failed",
            ),
            (
                "at the exit, what was recorded is recorded again",
                &[(
                    "call may_fail",
                    "%__rf_site, %__rf_reported;",
                    "%__rf_site, 0;",
                )],
                unknown,
            ),
        ],
    );
}

#[test]
fn a_null_pointer_displaces_no_other_check_but_is_recorded() {
    refuse_each(
        CALLS,
        &[
            (
                "a null pointer is never recorded",
                &[(COPY, "setp.eq.or.s32 %__rf_r, %__rf_site, 0, %__rf_r;", "")],
                "not understood|keeps no site",
            ),
            (
                "other pointers are left out, too",
                &[(COPY, ", 4096;", ", 8192;")],
                "not understood|keeps no site",
            ),
            (
                "another pointer decides",
                &[(
                    COPY,
                    "setp.ge.u64 %__rf_r, %rd3,",
                    "setp.ge.u64 %__rf_r, %rd1,",
                )],
                "not understood|keeps no site",
            ),
            (
                "a check in a straight line is forgotten",
                &[(
                    COPY,
                    "add.u32 %r1, %r1, 1;",
                    "mov.u32 %__rf_site, 0;\n\tadd.u32 %r1, %r1, 1;",
                )],
                "not understood",
            ),
        ],
    );
}

/// A kernel whose own accesses can be proved, but which calls through a pointer.
#[test]
fn a_kernel_whose_own_checks_are_all_elided_keeps_its_checked_copy() {
    let source = "\
.version 7.0
.target sm_80
.address_size 64
.func (.param .b32 r) twice(.param .b32 x)
{
	.reg .b32 %r<2>;
	ld.param.b32 %r1, [x];
	st.param.b32 [r], %r1;
	ret;
}
.visible .entry kernel(.param .u64 p)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 8;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.u64 %rd4, [%rd3];
	{
	.param .b32 x;
	.param .b32 y;
	st.param.b32 [x], %r1;
	prototype : .callprototype (.param .b32 _) _ (.param .b32 _);
	call (y), %rd4, (x), prototype;
	ld.param.b32 %r2, [y];
	}
	ret;
}
";
    let done = common::instrument("a kernel that calls through a pointer", source);
    let entry = &done.entries[0];
    assert!(entry.residual.is_some());
    assert_eq!(
        entry.checked_name.as_deref(),
        Some("__ringfence_checked_kernel")
    );
}
