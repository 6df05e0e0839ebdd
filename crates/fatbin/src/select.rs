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

/// Symbol that NVIDIA's device runtime library (libcudadevrt) defines, in
/// machine code and in PTX (13.0; measured).
const DEVICE_RUNTIME: &[u8] = b"__CNPRT_VERSION_NUMBER__";

/// Decompressed entries of the device runtime library are about 1 MiB.
const DEVICE_RUNTIME_LIMIT: u64 = 64 << 20;

/// Whether these are the entries of NVIDIA's device runtime library, which
/// nvcc links to every program built with -rdc=true, needed or not. For most
/// devices it holds machine code only.
pub fn is_device_runtime(entries: &[Entry<'_>]) -> bool {
    entries
        .iter()
        .find(|entry| matches!(entry.kind, Kind::Elf | Kind::Ptx))
        .and_then(|entry| entry.payload(DEVICE_RUNTIME_LIMIT).ok())
        .is_some_and(|code| {
            code.windows(DEVICE_RUNTIME.len())
                .any(|window| window == DEVICE_RUNTIME)
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compression, NewEntry, parse, write};

    fn holds(code: &[u8]) -> bool {
        let entry = NewEntry {
            kind: Kind::Elf,
            arch: 75,
            target: Target::Generic,
            version: (1, 8),
            identifier: None,
            compression: Compression::Zstd,
            payload: code.to_vec(),
        };
        is_device_runtime(&parse(&write(&[entry])).unwrap())
    }

    #[test]
    fn the_device_runtime_is_known_by_its_symbol() {
        assert!(holds(
            b"\x7fELF.. .text.cudaMalloc\0__CNPRT_VERSION_NUMBER__\0"
        ));
        assert!(!holds(b"\x7fELF.. .text.cudaMalloc\0_Z6kernelPf\0"));
        assert!(!is_device_runtime(&[]));
    }
}
