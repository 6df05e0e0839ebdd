//! Which entry fits a device.

use crate::{Entry, Kind, Target};

/// The PTX with the highest target that runs on a device of compute
/// capability `capability` (90 for 9.0). PTX for one chip or one family only
/// wins over generic PTX of the same number; PTX built for debugging does not
/// win or lose by that.
pub fn best_ptx<'e, 'a>(entries: &'e [Entry<'a>], capability: u32) -> Option<&'e Entry<'a>> {
    entries
        .iter()
        .filter(|entry| entry.kind == Kind::Ptx && runs_ptx(entry, capability))
        .max_by_key(|entry| (entry.arch, rank(entry.target())))
}

/// The machine code that runs on such a device: same major number, minor not
/// above the device's.
pub fn best_elf<'e, 'a>(entries: &'e [Entry<'a>], capability: u32) -> Option<&'e Entry<'a>> {
    entries
        .iter()
        .filter(|entry| {
            entry.kind == Kind::Elf
                && match entry.target() {
                    Target::Exact => entry.arch == capability,
                    Target::Generic | Target::Family => same_family(entry.arch, capability),
                }
        })
        .max_by_key(|entry| (entry.arch, rank(entry.target())))
}

fn runs_ptx(entry: &Entry<'_>, capability: u32) -> bool {
    match entry.target() {
        Target::Exact => entry.arch == capability,
        Target::Family => same_family(entry.arch, capability),
        Target::Generic => entry.arch <= capability,
    }
}

fn same_family(arch: u32, capability: u32) -> bool {
    arch / 10 == capability / 10 && arch <= capability
}

fn rank(target: Target) -> u32 {
    match target {
        Target::Generic => 0,
        Target::Family => 1,
        Target::Exact => 2,
    }
}
