//! Finds CPython in the process: the file that holds it, the addresses of what
//! it exports, and its version. None of its functions is called.

use super::layout::{self, Layout};
use super::memory;
use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;

/// An interpreter whose frames can be read.
#[derive(Debug)]
pub(super) struct Interpreter {
    /// Address of `_PyRuntime`.
    pub(super) runtime: usize,
    /// Address of `PyCode_Type`.
    pub(super) code_type: usize,
    pub(super) layout: Layout,
}

/// Searches for an interpreter in mapped files that were not searched before.
pub(super) fn find(seen: &mut HashSet<String>) -> Option<Interpreter> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let program = std::fs::read_link("/proc/self/exe").ok();
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for line in maps.lines() {
        let Some(path) = line.find('/').map(|at| &line[at..]) else {
            continue;
        };
        let start = line.split('-').next();
        let start = start.and_then(|start| usize::from_str_radix(start, 16).ok());
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_program = program.as_deref().is_some_and(|p| p.as_os_str() == path);
        if let (Some(start), true) = (start, is_program || name.contains("python")) {
            // Mappings are listed in order: the first holds the file's start.
            files.entry(path).or_insert(start);
        }
    }
    files
        .into_iter()
        .find_map(|(path, start)| seen.insert(path.to_owned()).then(|| of_file(path, start))?)
}

fn of_file(path: &str, start: usize) -> Option<Interpreter> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let lowest = file.segments().map(|segment| segment.address()).min()?;
    let bias = (start as u64).wrapping_sub(lowest & !0xfff);
    let mut exports: BTreeMap<&str, usize> = BTreeMap::new();
    for symbol in file.dynamic_symbols().filter(|s| s.is_definition()) {
        if let Ok(name @ ("_PyRuntime" | "Py_Version" | "PyCode_Type" | "PyIter_Send")) =
            symbol.name()
        {
            exports.insert(name, symbol.address().wrapping_add(bias) as usize);
        }
    }
    let runtime = *exports.get("_PyRuntime")?;
    let version = match exports.get("Py_Version") {
        Some(&at) => u32::try_from(memory::word(at)? >> 16).ok()?,
        // From 3.11 on the version is exported, and this from 3.10 on.
        None => exports.contains_key("PyIter_Send").then_some(0x030a)?,
    };
    let layout = layout::of_version(version).or_else(|| {
        let bytes = memory::bytes(runtime, layout::DEBUG_WORDS * 8)?;
        let words: Vec<u64> = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word))
            .collect();
        layout::of_debug_offsets(&words)
    })?;
    Some(Interpreter {
        runtime,
        code_type: *exports.get("PyCode_Type")?,
        layout,
    })
}
