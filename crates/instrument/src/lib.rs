//! Passes from PTX to PTX that add memory-safety checks, and the verifier of
//! their output.
//!
//! [`instrument`] runs the `bounds` pass: originals of kernels stay in the
//! module byte for byte, each followed by a checked copy; so do device
//! functions, but for those that code which is not seen may call, which are
//! checked in place, too. Calls of device-side `malloc` and `free` go to a heap
//! of our own, in originals, too. [`verify`] judges the output without trusting the
//! pass. `model::layout` declares every address and name that the output
//! shares with the host.

mod again;
mod ahead;
mod bounds;
mod contained;
mod device_heap;
mod device_runtime;
mod error;
mod fence;
mod indexed;
mod kept;
mod names;
mod output;
mod parameters;
mod patch;
mod protocol;
mod shadow;
mod sites;
mod support;
mod verify;
mod wrappers;

pub use analysis::{BoundedPointer, InParts, Input, LaunchShape, Lost, Program, Values};
pub use contained::{Contained, Ends, Waiting, verify_contained};
pub use error::Error;
pub use fence::{
    FenceCounts, FenceError, FenceForm, Fenced, FencedSite, FencedVariable, Holder, Refusal,
    Relocation, fence,
};
pub use kept::{from_bytes, to_bytes};
pub use output::{
    DeviceVariable, EntryPlan, Instrumented, LaunchIndex, LaunchLimit, Obstacle, Options, Reason,
    Residual,
};
pub use parameters::ParameterSlot;
pub use verify::{VerifyError, verify, verify_heap_calls, verify_output, verify_shadow};
pub use wrappers::without_wrappers;

/// Where the parameters of a kernel lie in the block that a launch passes, and
/// the bytes of the block.
pub fn parameter_block(function: &ptx::Function<'_>) -> (Vec<ParameterSlot>, u32) {
    parameters::layout(function)
}

/// Adds bounds checks to a PTX module.
///
/// # Errors
/// If the module cannot be parsed, is not 64-bit, or is instrumented already.
pub fn instrument(source: &str, options: &Options) -> Result<Instrumented, Error> {
    bounds::instrument(source, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::layout::RESIDUAL_PREFIX;
    use model::{Checked, Space};
    use std::collections::BTreeSet;

    /// An access in each space, by a register that a launch decides.
    const ALL: &str = "\
.version 8.0
.target sm_80
.address_size 64
.const .align 4 .b8 table[64];
.visible .entry k(.param .u64 p, .param .u64 n, .param .align 4 .b8 array[64])
{
.reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 4 .b8 s[64];
.local .align 4 .b8 __local_depot0[64];
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd1, %rd1; ld.param.u64 %rd2, [n];
add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r1, [%rd3];
mov.u64 %rd4, s; add.s64 %rd4, %rd4, %rd2; st.shared.u32 [%rd4], %r1;
mov.u64 %rd5, __local_depot0; add.u64 %rd5, %rd5, %rd2; st.local.u32 [%rd5], %r1;
mov.u64 %rd6, table; add.s64 %rd6, %rd6, %rd2; ld.const.u32 %r2, [%rd6];
mov.b64 %rd7, array; add.s64 %rd7, %rd7, %rd2; ld.param.u32 %r3, [%rd7];
ret;
}
";

    #[test]
    fn a_function_to_whose_name_nothing_can_be_added_is_refused() {
        let renamed = ALL.replace(".entry k(", ".entry %k(");
        let error = instrument(&renamed, &Options::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("line 5 names a function `%k`")
        );
    }

    #[test]
    fn threads_that_fail_a_check_trap_there_if_that_is_asked_for() {
        let made = |trap| {
            let checked = Checked::default();
            let shadow = None;
            let options = Options {
                checked,
                trap,
                shadow,
                in_place: false,
            };
            instrument(ALL, &options).unwrap()
        };
        let (plain, trapping) = (made(false), made(true));
        verify(ALL, &trapping.text, &trapping.entries).unwrap();
        assert!(!plain.text.contains(" trap;"));
        // One for each access, and all else is as it was.
        let checked = trapping.text.split(RESIDUAL_PREFIX).next().unwrap();
        assert_eq!(checked.matches(" trap;").count(), plain.sites.len());
        assert_eq!(trapping.sites, plain.sites);
        let broken = trapping.text.replacen(
            "setp.eq.s32 %__rf_unharmed",
            "@!%__rf_unharmed trap;\n\tsetp.eq.s32 %__rf_unharmed",
            1,
        );
        assert!(verify(ALL, &broken, &trapping.entries).is_err());
    }

    #[test]
    fn only_what_is_asked_for_is_checked() {
        let spaces = |list: &str| {
            let checked: Checked = list.parse().unwrap();
            let made = instrument(
                ALL,
                &Options {
                    checked,
                    ..Options::default()
                },
            )
            .unwrap();
            // (The verifier expects all of them.)
            if checked == Checked::default() {
                verify(ALL, &made.text, &made.entries).unwrap();
            }
            made.sites
                .iter()
                .map(|site| format!("{:?}", site.space))
                .collect::<BTreeSet<_>>()
        };
        let named = |spaces: &[Space]| {
            let names = spaces.iter().map(|space| format!("{space:?}"));
            names.collect::<BTreeSet<_>>()
        };
        let all = [
            ("global", Space::Global),
            ("shared", Space::Shared),
            ("local", Space::Local),
            ("constant", Space::Const),
            ("parameter", Space::Param),
        ];
        for (name, space) in all {
            assert_eq!(spaces(name), named(&[space]));
        }
        assert_eq!(spaces("all"), named(&all.map(|(_, space)| space)));
        assert_eq!(
            spaces("global,local"),
            named(&[Space::Global, Space::Local])
        );
    }

    #[test]
    fn kernels_that_kernels_launch_are_checked_in_place() {
        let launches = "
.visible .entry parent()
{
.reg .b64 %rd<2>;
mov.u64 %rd1, k;
{ .param .b64 param0; st.param.b64 [param0], %rd1; .param .b64 retval0;
call.uni (retval0), cudaGetParameterBuffer, (param0); }
ret;
}
";
        let declared = ".extern .func (.param .b64 out) cudaGetParameterBuffer(.param .b64 f);\n";
        let (head, body) = ALL.split_once(".const").unwrap();
        let source = format!("{head}{declared}.const{body}{launches}");
        let made = instrument(&source, &Options::default()).unwrap();
        verify(&source, &made.text, &made.entries).unwrap();
        let of = |text: &str| {
            let from = text.find(".entry k(").unwrap();
            text[from..from + text[from..].find("\n}").unwrap()].to_owned()
        };
        assert!(of(&made.text).contains(protocol::register::SITE));
        let unchecked = made.text.replacen(&of(&made.text), &of(&source), 1);
        assert!(verify(&source, &unchecked, &made.entries).is_err());
    }
}
