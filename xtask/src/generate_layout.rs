//! Writes `device/layout.cuh`: what the device's sources use of
//! `model::layout`, the one declaration of what host and device share.
//! Assertions in it hold the device's compiler to the sizes and offsets that
//! Rust's has.

use crate::workspace::root;
use anyhow::{Context, Result, ensure};
use model::layout::canary::{CanaryRecord, CheckParameters, CheckStamp, FillParameters};
use model::layout::guard::{GuardFinding, GuardParameters};
use model::layout::heap::{HeapChunk, HeapControl, HeapHeader};
use model::layout::records::{HeapKeys, HeapWatch, RecordRing};
use model::layout::shared::{Field, Structure};
use model::layout::tenant::{PrintHead, TenantHeap, TenantPrint};
use model::layout::{Record, canary, guard, heap, records, tenant};
use std::fmt::Write as _;

/// Rewrites the header, or with `check` only says whether the committed one
/// differs.
///
/// # Errors
///
/// The file cannot be written, or differs; or a struct cannot be declared.
pub fn run(check: bool) -> Result<()> {
    let path = root().join("device/layout.cuh");
    let text = header()?;
    if std::fs::read_to_string(&path).unwrap_or_default() == text {
        return Ok(());
    }
    ensure!(
        !check,
        "{} is not what model::layout gives; run `cargo xtask generate`",
        path.display()
    );
    std::fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))
}

/// Constants of a module of `model::layout`, by name.
macro_rules! constants {
    ($($module:ident { $($name:ident)+ })+) => {
        [$( (stringify!($module), vec![$( (stringify!($name), $module::$name as u64) ),+]) ),+]
    };
}

fn header() -> Result<String> {
    use model::layout;
    let mut text = "\
// Written by `cargo xtask generate` from crates/model/src/layout; do not edit.
//
// What host and device share: numbers, and structs, whose fields and meaning
// crates/model/src/layout explains.

#pragma once

typedef int i32;
typedef unsigned int u32;
typedef unsigned long long u64;
"
    .to_owned();
    let constants = constants! {
        layout { MISS_SIZE RING_HEAD RING_TAIL RING_RECORDS RING_CAPACITY }
        canary {
            CANARY_TABLE CANARY_PINS CANARY_CLAIMED CANARY_RECORD CHECK_STAMPS CHECK_BLOCKS STAMPS
            NAMED_SLOTS SLOTS_NAMED
        }
        guard {
            GUARD_CONTROL STOP TABLE_SLOTS CONSUMED EPOCH BEGUN ENDED TIME FOUND VERIFIED FINDINGS
            GUARD_FINDINGS SIDE_BEFORE SIDE_AFTER
        }
        heap {
            HEAP_BASE CHUNK_SHIFT CHUNK_BLOCKS CLASSES SLOTS HEAP_CHUNKS_MAPPED HEAP_CONTROL
            HEAP_MAPS MAP_WORDS MAP_FREE HEAP_QUARANTINE QUARANTINE_CAPACITY HEAP_CHUNKS
            HEAP_HEADERS KIND_RUN KIND_REST STATE_SHIFT STATE_LIVE STATE_FREED STATE_FREEING
            FREE_AGAIN FREE_INSIDE FREE_NOTHING
        }
        records {
            HEAP_WATCH HEAP_RECORDS RECORD_RINGS RECORD_SEGMENT RECORD_TRIES BLOCK_HEAD HEAP_RECORD
        }
        tenant {
            PRINT_FORMAT PRINT_ARGUMENTS PRINT_STRING TENANT_CLASSES TENANT_LEAST TENANT_HEAD
            TENANT_LIVE
        }
    };
    for (module, numbers) in constants {
        writeln!(text, "\n// {module}")?;
        for (name, value) in numbers {
            writeln!(text, "#define RF_{name} {value:#x}")?;
        }
    }
    let structures = [
        Record::structure(),
        CanaryRecord::structure(),
        CheckStamp::structure(),
        CheckParameters::structure(),
        FillParameters::structure(),
        GuardFinding::structure(),
        GuardParameters::structure(),
        HeapControl::structure(),
        HeapChunk::structure(),
        HeapHeader::structure(),
        HeapKeys::structure(),
        RecordRing::structure(),
        HeapWatch::structure(),
        TenantPrint::structure(),
        PrintHead::structure(),
        TenantHeap::structure(),
    ];
    for structure in &structures {
        declare(&mut text, structure)?;
    }
    checksum(&mut text)?;
    Ok(text)
}

/// A struct, and what its compiler must have made of it.
fn declare(text: &mut String, structure: &Structure) -> Result<()> {
    let Structure { name, size, fields } = structure;
    writeln!(text, "\nstruct {name} {{")?;
    for field in fields {
        writeln!(text, "    {};", field.declaration)?;
    }
    writeln!(text, "}};")?;
    writeln!(text, "static_assert(sizeof({name}) == {size}, \"{name}\");")?;
    for Field {
        name: field,
        offset,
        ..
    } in fields
    {
        writeln!(
            text,
            "static_assert(offsetof({name}, {field}) == {offset}, \"{name}::{field}\");"
        )?;
    }
    Ok(())
}

/// `CanaryRecord::checksum`: made from the 64-bit words before the field that
/// holds it.
fn checksum(text: &mut String) -> Result<()> {
    let structure = CanaryRecord::structure();
    let covered = structure
        .fields
        .iter()
        .take_while(|field| field.name != "check");
    let words = words(covered)?;
    let (left, right) = (canary::CHECKSUM_ROTATION, 64 - canary::CHECKSUM_ROTATION);
    writeln!(
        text,
        "
static __device__ __forceinline__ u64 mixed(u64 sum, u64 word) {{
    return ((sum << {left} | sum >> {right}) ^ word) * {multiplier:#x}ull;
}}

// `CanaryRecord::checksum` of model::layout.
static __device__ __forceinline__ u64 checksum(const CanaryRecord &record) {{
    u64 sum = {seed:#x}ull;",
        multiplier = canary::CHECKSUM_MULTIPLIER,
        seed = canary::CHECKSUM_SEED,
    )?;
    for word in words {
        writeln!(text, "    sum = mixed(sum, {word});")?;
    }
    text.push_str("    return sum | 1;\n}\n");
    Ok(())
}

/// The 64-bit words that fields of `record` make up, as expressions.
fn words<'a>(fields: impl Iterator<Item = &'a Field>) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut lower: Option<&str> = None;
    for Field {
        name,
        size,
        declaration,
        ..
    } in fields
    {
        match (lower.take(), size) {
            (None, 8) => words.push(format!("record.{name}")),
            (None, 4) => lower = Some(name),
            (Some(lower), 4) => {
                words.push(format!("(u64)record.{lower} | (u64)record.{name} << 32"))
            }
            (None, _) if declaration.starts_with("u64 ") => {
                words.extend((0..size / 8).map(|index| format!("record.{name}[{index}]")));
            }
            _ => anyhow::bail!("the field `{declaration}` is not made of whole words"),
        }
    }
    ensure!(lower.is_none(), "half a word is left");
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_header_is_what_the_layout_gives() {
        run(true).unwrap();
    }

    #[test]
    fn words_are_made_of_fields_in_order() {
        let structure = CanaryRecord::structure();
        let words = words(structure.fields.iter()).unwrap();
        assert_eq!(words.len() * 8, structure.size);
        assert_eq!(words[3], "(u64)record.before | (u64)record.after << 32");
        assert_eq!(words[5], "record.pattern[1]");
        assert_eq!(words[7], "record.check");
    }
}
