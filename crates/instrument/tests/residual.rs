//! The verifier must not accept residual copies that leave out a check which is
//! needed, nor tables that fit them badly.

use crate::common;

use instrument::Instrumented;
use model::SiteId;

/// `if (t < n) y[t] += x[index[t]];`, the last two words of which are read
/// together.
const SOURCE: &str = "\
.version 7.8
.target sm_75
.address_size 64
.visible .entry gather(.param .u64 x, .param .u64 index, .param .u64 y, .param .u32 n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<10>;
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [index];
	ld.param.u64 %rd3, [y];
	ld.param.u32 %r1, [n];
	mov.u32 %r3, %tid.x;
	setp.ge.u32 %p1, %r3, %r1;
	@%p1 bra $end;
	mul.wide.u32 %rd4, %r3, 8;
	add.s64 %rd5, %rd2, %rd4;
	ld.global.u32 %r4, [%rd5];
	ld.global.u32 %r5, [%rd5+4];
	mul.wide.u32 %rd6, %r4, 4;
	add.s64 %rd7, %rd1, %rd6;
	ld.global.u32 %r6, [%rd7];
	add.s64 %rd9, %rd3, %rd4;
	ld.global.u32 %r7, [%rd9];
	st.global.u32 [%rd9], %r6;
$end:
	ret;
}
";

const RESIDUAL: &str = "__ringfence_residual_gather";

fn good() -> Instrumented {
    let good = common::instrument("the good module", SOURCE);
    let residual = good.entries[0].residual.as_ref().expect("a residual copy");
    let elided: Vec<u32> = residual.elided.iter().map(|site| site.0).collect();
    // Of the first two, which have one check; not of the third.
    assert_eq!(elided, [1, 4, 5]);
    good
}

fn messages(done: &Instrumented) -> String {
    match instrument::verify_output(SOURCE, done) {
        Ok(()) => String::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// The messages about a module whose table differs.
fn table(breaks: impl FnOnce(&mut instrument::Residual)) -> String {
    let mut done = good();
    breaks(done.entries[0].residual.as_mut().expect("a residual copy"));
    messages(&done)
}

#[test]
fn what_is_written_is_accepted() {
    assert_eq!(messages(&good()), "");
}

#[test]
fn checks_that_are_needed_must_be_there() {
    for (after, from, to, message) in [
        (
            RESIDUAL,
            "@!%__rf_k2 ld.global",
            "ld.global",
            "an access without a check, of which no launch can be proved",
        ),
        (
            "__ringfence_checked_gather",
            "@!%__rf_k1 ld.global",
            "ld.global",
            "a global or generic access without a check",
        ),
        (
            RESIDUAL,
            "ld.global.u32 %r4, [%rd5];",
            "ld.global.u32 %r4, [%rd9];",
            "a statement differs",
        ),
        (
            RESIDUAL,
            "mov.u32 %__rf_site, 3;",
            "mov.u32 %__rf_site, 2;",
            "the check keeps site 2, not 3",
        ),
        (
            RESIDUAL,
            RESIDUAL,
            "__ringfence_residual_other",
            "no function `other` to be the copy of",
        ),
    ] {
        let mut done = good();
        let start = done.text.find(after).expect("the copy");
        let at = start + done.text[start..].find(from).expect("what is replaced");
        done.text.replace_range(at..at + from.len(), to);
        let said = messages(&done);
        assert!(said.contains(message), "{to}: {said}");
    }
}

#[test]
fn the_host_must_ask_about_what_has_no_check() {
    let unasked = "an access without a check, which the host does not ask about";
    let said = table(|residual| {
        residual.queries.remove(0);
    });
    assert!(said.contains(unasked), "{said}");
    let said = table(|residual| residual.queries[0].bytes = 4);
    assert!(said.contains(unasked), "{said}");
    let said = table(|residual| residual.queries[0].low += 4);
    assert!(said.contains(unasked), "{said}");
    let said = table(|residual| residual.queries[0].alignment = analysis::Alignment::Known);
    assert!(said.contains(unasked), "{said}");
    let said = table(|residual| {
        let other = residual.queries[1].bounds;
        residual.queries[0].bounds = other;
    });
    assert!(said.contains(unasked), "{said}");
    let said = table(|residual| residual.proof = instrument::Program::default());
    assert!(said.contains("the host asks another program"), "{said}");
}

#[test]
fn the_sites_without_checks_must_be_those() {
    let others = "`gather` has other accesses without checks";
    for sites in [&[1, 4][..], &[1, 3, 4, 5], &[]] {
        let sites: Vec<SiteId> = sites.iter().copied().map(SiteId).collect();
        let said = table(|residual| residual.elided = sites);
        assert!(said.contains(others), "{said}");
    }
    let mut done = good();
    done.entries[0].residual = None;
    let said = messages(&done);
    assert!(said.contains(others), "{said}");
}
