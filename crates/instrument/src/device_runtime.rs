//! Which modules need the CUDA device runtime, the library of functions with
//! which kernels launch kernels.
//!
//! Other functions without a definition are no sign of it: the driver itself
//! provides `malloc`, `vprintf`, `cudaGraphSetConditional` and more.

use analysis::mentioned;
use ptx::{Item, Linkage, Module};
use rustc_hash::FxHashSet;

/// What all functions of the library's second version begin with. Drivers that
/// Ringfence supports have no other interface for compilers of CUDA 12 and
/// later.
const SECOND: &str = "__cudaCDP2";

/// The functions of its first version that every launch calls.
const FIRST: [&str; 4] = [
    "cudaGetParameterBuffer",
    "cudaGetParameterBufferV2",
    "cudaLaunchDevice",
    "cudaLaunchDeviceV2",
];

/// The first function of the library that a module declares and does not
/// define.
pub(crate) fn called<'a>(module: &Module<'a>) -> Option<&'a str> {
    module.items.iter().find_map(|item| match item {
        Item::Function(function) => (function.linkage == Linkage::Extern
            && function.body.is_none()
            && is_of_library(function.name))
        .then_some(function.name),
        _ => None,
    })
}

/// The kernels of a module that others of it may launch: those that code or
/// initializers mention, where the library is called.
pub(crate) fn launched<'a>(module: &Module<'a>) -> FxHashSet<&'a str> {
    if called(module).is_none() {
        return FxHashSet::default();
    }
    let mentioned = mentioned(module);
    let kernels = module.functions().filter(|function| function.is_entry);
    kernels
        .map(|function| function.name)
        .filter(|name| mentioned.contains(name))
        .collect()
}

/// Whether a name is that of one of the library's functions.
pub(crate) fn is_of_library(name: &str) -> bool {
    let plain = name.strip_suffix("_ptsz").unwrap_or(name);
    name.starts_with(SECOND) || FIRST.contains(&plain)
}

#[cfg(test)]
mod tests {
    #[test]
    fn kernels_that_others_launch_are_mentioned_where_the_library_is() {
        let launched = |text: &str| {
            let text = format!(".version 8.0\n.target sm_80\n.address_size 64\n{text}\n");
            let module = ptx::parse(&text).expect("it parses");
            let mut names: Vec<_> = super::launched(&module).into_iter().collect();
            names.sort_unstable();
            names.join(" ")
        };
        let kernels = ".entry child() { ret; } .entry other() { ret; }
.entry parent() { .reg .b64 %rd<2>; mov.u64 %rd1, child; ret; }";
        let library = ".extern .func (.param .b64 r) cudaGetParameterBufferV2 (.param .b64 p);";
        assert_eq!(launched(&format!("{library}\n{kernels}")), "child");
        assert_eq!(launched(kernels), "");
    }

    #[test]
    fn only_functions_of_the_library_that_others_define_count() {
        let called = |text: &str| {
            let text = format!(".version 8.0\n.target sm_80\n.address_size 64\n{text}\n");
            let module = ptx::parse(&text).expect("it parses");
            super::called(&module).map(str::to_owned)
        };
        let buffer =
            ".extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2 (.param .b64 p);";
        assert_eq!(
            called(buffer).as_deref(),
            Some("__cudaCDP2GetParameterBufferV2")
        );
        let first = ".extern .func (.param .b32 r) cudaLaunchDeviceV2_ptsz (.param .b64 p);";
        assert_eq!(called(first).as_deref(), Some("cudaLaunchDeviceV2_ptsz"));
        for other in [
            ".extern .func cudaGraphSetConditional (.param .b64 h, .param .b32 v);",
            ".extern .func (.param .b64 r) malloc (.param .b64 n);",
            ".func __cudaCDP2Mine () { ret; }",
        ] {
            assert_eq!(called(other), None, "{other}");
        }
    }
}
