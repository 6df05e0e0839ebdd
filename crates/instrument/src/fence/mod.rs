//! The pass `fence`: no access of a kernel leaves its tenant's memory
//! (Guardian, section 4.3).
//!
//! Each address in global memory is forced into the tenant's partition, and to
//! the alignment of the access, by arithmetic without a branch. Addresses in
//! shared, local and constant memory are forced into the memory of the block,
//! the frame and the variable. `model::layout::fence` describes the layout of
//! partitions, and why fences do not change the result of a program that stays
//! inside its allocations.
//!
//! Three forms force an address into a partition: [`FenceForm::Mask`] replaces
//! bits of its upper half, one machine instruction; [`FenceForm::Modulo`] takes
//! the remainder by a multiplication, for partitions of any size;
//! [`FenceForm::Check`] compares, and records what it finds.
//!
//! Variables in global memory are in the partition, too. The host writes their
//! addresses to the table; code loads them from there.
//!
//! Threads look whether the host wants them to end (`looks`), and read nothing
//! that an earlier kernel left (`clear`, `unwritten`, `arguments`).
//!
//! Code that cannot be contained yet is refused, with its line and a reason: a
//! program that the pass does not understand is not run. `contained` judges the
//! output without this module.

mod advice;
mod arguments;
mod bounded;
mod check;
mod clear;
mod collect;
mod globals;
mod lanes;
mod looks;
mod lower;
mod moving;
mod near;
mod pointers;
mod refuse;
mod relocations;
mod rewrite;
mod selected;
mod shared;
mod text;
mod unwritten;

use crate::error::Error;
use crate::names;
use crate::patch::put;
use analysis::ModuleSymbols;
use looks::Looks;
use model::layout::fence as layout;
use ptx::{Item, Module};
pub use refuse::Refusal;
use refuse::Refusals;
pub use relocations::{Holder, Relocation};
use rewrite::Rewrite;
use rustc_hash::{FxHashMap, FxHashSet};

/// How an address is forced into a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FenceForm {
    /// Bits of the upper half are replaced: sizes are powers of two, and at
    /// least 4 GiB of addresses.
    #[default]
    Mask,
    /// The remainder of a division, by its reciprocal: any size.
    Modulo,
    /// A comparison: an address outside is replaced by that of the partition's
    /// first byte, and recorded ([`model::layout::fence::found`]). Any size.
    Check,
}

/// A module whose kernels stay in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// The PTX.
    pub text: String,
    /// The variables in global memory, in the order in which the table
    /// ([`model::layout::fence::VARIABLE`]) holds their addresses. The host
    /// places each in the partition, with the bytes that the driver gave the
    /// variable when it loaded the module.
    pub variables: Vec<FencedVariable>,
    /// The addresses that initializers held. The host writes each when it has
    /// placed the variables.
    pub relocations: Vec<Relocation>,
    /// How many accesses have which kind of fence.
    pub counts: FenceCounts,
    /// The accesses that [`FenceForm::Check`] looks at, in the order of their
    /// numbers, from 1.
    pub sites: Vec<FencedSite>,
}

/// An access that is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedSite {
    /// Its function.
    pub function: String,
    /// Its line in the source, from 1.
    pub line: u32,
}

/// A variable that the host places in the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedVariable {
    /// Name, as in the PTX.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What its address is a multiple of.
    pub alignment: u32,
    /// It is one that the pass added, and that all modules of a tenant have in
    /// common: the host gives it the same place in each, and contents of its own
    /// (`model::layout::tenant`).
    pub is_common: bool,
}

/// Accesses of a module (Guardian, table 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceCounts {
    /// Loads.
    pub loads: u64,
    /// Stores and atomic operations.
    pub stores: u64,
    /// Those whose address is fixed by the text, and inside.
    pub fixed: u64,
    /// Fenced in global memory alone.
    pub global: u64,
    /// Fenced in whichever space they are, by address.
    pub generic: u64,
    /// Fenced in shared memory.
    pub shared: u64,
    /// Fenced in a frame or a constant variable.
    pub variable: u64,
    /// Loops in which threads look whether they must end.
    pub looking_loops: u64,
    /// Kernels that clear shared memory.
    pub clearing_kernels: u64,
    /// Traps and failing assertions, each of which counts and retires its thread.
    pub retiring: u64,
}

/// Why a module is not fenced.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FenceError {
    /// No pass can work on it.
    #[error(transparent)]
    Module(#[from] Error),
    /// It holds what cannot be contained.
    #[error("{}", list(.0))]
    Refused(Vec<Refusal>),
}

fn list(refusals: &[Refusal]) -> String {
    let mut out = String::new();
    for refusal in refusals {
        if !out.is_empty() {
            out.push('\n');
        }
        put(&mut out, format_args!("{refusal}"));
    }
    out
}

/// Fences a PTX module.
///
/// # Errors
///
/// The module cannot be parsed, is fenced already, or holds what cannot be
/// contained: all of it, in the order of the text.
pub fn fence(source: &str, form: FenceForm) -> Result<Fenced, FenceError> {
    let module = ptx::parse(source).map_err(Error::Syntax)?;
    if module.address_size != 64 {
        return Err(Error::AddressSize(module.address_size).into());
    }
    names::reserve(source)?;
    let plain = advice::without_advice(&module);
    let (lowered, refused) = lower::lowered(&plain).map_err(Error::Syntax)?;
    let source = lowered.as_deref().unwrap_or(&plain);
    let module = ptx::parse(source).map_err(Error::Syntax)?;
    let mut refusals = Refusals::new(source);
    refusals.extend(refused);
    let mut variables = globals::variables(&module, &mut refusals);
    if form == FenceForm::Check {
        variables.insert(0, globals::found());
    }
    let relocated = relocations::relocations(&module, &variables, &mut refusals);
    refuse::items(&module, &mut refusals);
    refuse::calls(&module, &mut refusals);
    let symbols = ModuleSymbols::of(&module);
    let looks = looks::plan(&module, &symbols, form, &mut refusals);
    let mut rewrite = Rewrite {
        symbols: &symbols,
        variables: &variables,
        frames: lower::frames_size(&module),
        looks: &looks,
        form,
        counts: FenceCounts::default(),
        sites: Vec::new(),
        shared: FxHashSet::default(),
        entries: Vec::new(),
        refusals: &mut refusals,
    };
    let headers = module.items.iter().filter_map(|item| match item {
        Item::Header(span) => Some(*span),
        _ => None,
    });
    let last = headers.max_by_key(|span| span.end);
    let mut text = String::with_capacity(source.len() * 2);
    let mut at = 0;
    for item in &module.items {
        match item {
            Item::Function(function) => {
                text.push_str(&source[at..function.span.start as usize]);
                rewrite.function(function, source, &mut text);
                at = function.span.end as usize;
            }
            Item::Header(span) => {
                text.push_str(&source[at..span.start as usize]);
                header(&module, span.text(source), &mut text);
                at = span.end as usize;
                if Some(*span) == last {
                    table(variables.len(), &mut text);
                    if form == FenceForm::Check {
                        check::declare(&mut text);
                    }
                }
            }
            Item::Other(span) if refuse::is_dropped(span.text(source)) => {
                text.push_str(&source[at..span.start as usize]);
                at = span.end as usize;
            }
            Item::Variable(variable) => {
                at = initializer(variable, &relocated, source, at, &mut text)
            }
            _ => {}
        }
    }
    text.push_str(&source[at..]);
    let Rewrite {
        shared,
        entries,
        mut counts,
        sites,
        ..
    } = rewrite;
    let reaching = looks::reaching(&module, &shared);
    let text = with_entries(&looks, (&reaching, &entries), &text);
    counts.looking_loops = looks.values().map(Looks::loops).sum();
    let clearing = entries.iter().filter(|(_, name)| reaching.contains(name));
    counts.clearing_kernels = clearing.count() as u64;
    refusals.into_result()?;
    Ok(Fenced {
        text,
        variables,
        relocations: relocated.list,
        counts,
        sites,
    })
}

/// Appends the text up to a variable's initializer, and that without addresses,
/// if it held any; returns where the rest begins.
fn initializer(
    variable: &ptx::Variable<'_>,
    relocated: &relocations::Relocated,
    source: &str,
    at: usize,
    out: &mut String,
) -> usize {
    let Some(span) = variable.initializer else {
        return at;
    };
    let Some(text) = relocated.texts.get(&span.start) else {
        return at;
    };
    out.push_str(&source[at..span.start as usize]);
    out.push_str(text);
    span.end as usize
}

/// Adds the heads of kernels to a text: at each of these places that of a
/// kernel. Those that access shared memory are in `shared`.
fn with_entries<'a>(
    looks: &FxHashMap<&'a str, Looks>,
    (shared, entries): (&FxHashSet<&'a str>, &[(usize, &'a str)]),
    text: &str,
) -> String {
    let mut out = String::with_capacity(text.len() + 2048 * entries.len());
    let mut at = 0;
    for (place, name) in entries {
        out.push_str(&text[at..*place]);
        at = *place;
        if looks.contains_key(name) {
            clear::entry(shared.contains(name), &mut out);
        }
    }
    out.push_str(&text[at..]);
    out
}

/// A line of the header. The request for debug information is dropped, like the
/// debug information itself.
fn header(module: &Module<'_>, line: &str, out: &mut String) {
    if line.starts_with(".target") && module.target.contains(&"debug") {
        let words = module.target.iter().copied();
        let words: Vec<&str> = words.filter(|word| *word != "debug").collect();
        put(out, format_args!(".target {}", words.join(", ")));
    } else {
        out.push_str(line);
    }
}

/// Declares the table.
fn table(variables: usize, out: &mut String) {
    let bytes = u64::from(layout::VARIABLES) + 8 * variables as u64;
    put(
        out,
        format_args!("\n.const .align 8 .b8 {}[{bytes}];", layout::VARIABLE),
    );
}
