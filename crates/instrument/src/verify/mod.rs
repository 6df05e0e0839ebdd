//! Judges instrumented PTX, without the pass that wrote it.
//!
//! # What is guaranteed
//!
//! Of text that is accepted, against its source:
//!
//! 1. **Nothing of the program is lost.** Every item of the source is there, in
//!    order. Kernels are as they were, but for where calls of `malloc` and
//!    `free` go. Each checked body has all statements of its original, in order
//!    and unchanged, except for: the base of an address, a guard, the callee and
//!    arguments of a call, the parameter that a result stands in.
//! 2. **Nothing of the program is touched.** What is added writes registers of
//!    its own, which are declared; memory only through the functions that checks
//!    call, and the arguments of a `printf` for the time of its call; no
//!    register of the program, except the destinations of an instruction that
//!    is predicated off.
//! 3. **Every access is checked**, unless the text of the module shows that it
//!    is aligned and inside, or nothing is known of its memory (`accesses::duty`).
//!    A verdict in its block selected its address, or predicates it off. In a
//!    residual copy it may be as it was instead, if the analysis can prove it at
//!    a launch; then the program that the host asks is about it (`residual`). In
//!    the quick copy of a loop, too, if its addresses in the first pass and in the
//!    last were compared before (`ahead`).
//! 4. **A verdict is about the access**: its address and all bytes that it uses,
//!    under its guard, of its lanes, and it is still true where it is used.
//! 5. **The bounds are the right ones**: those of the object that the address
//!    was derived from. They are set where that pointer appears. Registers that
//!    may hold one of several pointers have shadow registers for the bounds.
//!    Bounds are refreshed where a block may have been freed. Calls pass and
//!    return the bounds that the other side expects.
//! 6. **It is aligned**: its computation shows it, or the verdict ensures it.
//! 7. **An access that fails does no harm.** Its address is that of the sink
//!    for its kind, for all its bytes, aligned. Or it is predicated off, in its
//!    lane or in the whole warp as the instruction requires: its destination
//!    registers are zero, and the barrier that waits for it is signalled.
//! 8. **It is reported.** The record has the site of the first access with this
//!    verdict, the address and the bounds; if the address is null, only where no
//!    check has failed before. Every thread writes its record where it exits, and
//!    before what may end the kernel (`analysis::Endings`), and none if no check
//!    failed.
//! 9. **No way around.** Checked code calls checked code only; the functions
//!    that checks call are the known ones.
//! 10. **The tables fit** ([`verify_output`]): there is a site for each check,
//!     and the bounds that the host passes are those that kernels take.
//!
//! Where accesses are checked against shadow memory, 5 and 6 are about objects
//! whose bounds the text has. Of all other accesses that name global memory or no
//! space, the shadow bytes of all blocks with their bytes decide (`blocks`), or the
//! block of the device heap, where the module has one; unless all their bytes
//! are in the buffer of a pointer parameter, whose bounds the host passes. Code
//! that is written twice may leave out, without a record, what is in no such
//! buffer, if the same code with its checks is then executed (`again`).
//!
//! Text that the verifier does not understand is refused.
//!
//! # What is believed
//!
//! * `ptx`: the parser, and the rows of `ptx::table`: roles of operands, bytes,
//!   alignment, lanes, and how an instruction can be predicated off.
//! * `analysis`: control flow, values of registers, where a pointer was derived
//!   from and whether that is in doubt, low bits of addresses, objects of frames
//!   and fields, what `printf` reads, which symbols can be named, what may end a
//!   kernel; and which
//!   ranges an address has at a launch ([`analysis::Program`]). That the host
//!   launches originals and residual copies only where their programs hold, with
//!   the launch's own values.
//! * `crate::ahead`: which loops can be counted before they begin, and the text that
//!   computes their passes, and addresses of the first pass and the last.
//! * `crate::indexed`: which addresses are a pointer parameter and an index, and whether
//!   its register still holds it.
//! * `model::layout`: addresses and records that host and device share.
//! * `crate::support`: the text of the functions that checks call;
//!   `crate::parameters`: the layout of parameter blocks; `crate::protocol`:
//!   names.
//! * The lookup tables, and the bounds that the host passes to a launch: they
//!   stay those of the pointer. The limits that it passes, and the ranges of indices: it
//!   computes them as [`crate::LaunchLimit`] and [`crate::LaunchIndex`] say.

mod accesses;
mod again;
mod ahead;
mod alignment;
mod blocks;
mod calls;
mod checks;
mod definitions;
mod extents;
mod facts;
mod handed;
mod heap;
mod host;
mod indexed;
mod lookups;
mod module;
mod narrowed;
mod predicated_off;
mod reports;
mod residual;
mod roots;
mod statements;
mod strings;
mod through;
mod travelling;
mod verdicts;
mod windows;
mod written;

use crate::output::{EntryPlan, Instrumented};
use model::layout::shadow::Encoding;
use module::Judge;
use ptx::{Position, Span};

/// Something that is wrong with instrumented PTX.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the instrumented PTX: {message}")]
pub struct VerifyError {
    /// What is wrong, a lower-case fragment.
    pub message: String,
    /// Line of the instrumented text, from 1.
    pub line: u32,
}

/// Checks instrumented PTX against its source: that originals are unchanged,
/// and that every access of their copies, and of functions, is checked, by the
/// right bounds, and harms nothing where its check fails (the module's text
/// has the list). `entries` say which limits the host passes to kernels.
///
/// # Errors
/// All that is wrong, in text order.
pub fn verify(
    source: &str,
    instrumented: &str,
    entries: &[EntryPlan],
) -> Result<(), Vec<VerifyError>> {
    judge(source, instrumented, Wanted::Checks, (entries, false)).map(|_| ())
}

/// The same, and that the tables which the host reads fit the text.
///
/// # Errors
/// All that is wrong, in text order.
pub fn verify_output(source: &str, done: &Instrumented) -> Result<(), Vec<VerifyError>> {
    let wanted = done.shadow.map_or(Wanted::Checks, Wanted::Shadow);
    let found = judge(source, &done.text, wanted, (&done.entries, true))?;
    let mut errors = Errors {
        text: &done.text,
        list: Vec::new(),
    };
    let start = Span { start: 0, end: 0 };
    if found.sites as usize != done.sites.len() {
        let message = format!(
            "{} sites, but {} in the table",
            found.sites,
            done.sites.len()
        );
        errors.at(start, message);
    }
    if done.tag != found.tag {
        errors.at(start, "the module has another tag");
    }
    for entry in &done.entries {
        let residual = entry.residual.as_ref().map(|residual| &residual.name);
        for name in [Some(&entry.name), residual].into_iter().flatten() {
            let takes = found.entries.get(name).map_or(&[][..], Vec::as_slice);
            let fits = takes.len() <= entry.roots.len()
                && takes.iter().all(|(at, offset)| {
                    let place = calls::pair_number(*at);
                    place.and_then(|place| entry.roots.get(place)) == Some(offset)
                });
            if !fits {
                let message = format!("`{name}` takes the bounds of other parameters");
                errors.at(start, message);
            }
        }
        let unchecked = found.unchecked.get(&entry.name).map(Vec::as_slice);
        if !fits_sites(entry, unchecked, done) {
            let message = format!("`{}` has other accesses without checks", entry.name);
            errors.at(start, message);
        }
    }
    errors.into_result()
}

/// Whether the sites that the host takes for those without checks in a residual
/// copy are `unchecked`, where there is such a copy.
fn fits_sites(entry: &EntryPlan, unchecked: Option<&[u32]>, done: &Instrumented) -> bool {
    let (residual, unchecked) = match (&entry.residual, unchecked) {
        (Some(residual), Some(unchecked)) => (residual, unchecked),
        (residual, unchecked) => return residual.is_none() && unchecked.is_none(),
    };
    let elided = done.sites.iter().filter(|site| residual.elides(site.group));
    elided.map(|site| site.id.0).eq(unchecked.iter().copied())
        && residual.elided.is_sorted()
        && entry.checked_name.is_some()
}

/// As [`verify`], of text whose accesses to global memory are checked against
/// shadow memory, unless they are of objects whose bounds the text has.
///
/// # Errors
/// All that is wrong, in text order.
pub fn verify_shadow(
    source: &str,
    instrumented: &str,
    encoding: Encoding,
) -> Result<(), Vec<VerifyError>> {
    judge(source, instrumented, Wanted::Shadow(encoding), (&[], false)).map(|_| ())
}

/// Checks PTX in which only calls of `malloc` and `free` were redirected:
/// functions and their copies hold the program's statements in order, and differ
/// only in where such calls, and calls of copies, go, and in what is passed to
/// them beside the program's arguments.
///
/// # Errors
/// All that is wrong, in text order.
pub fn verify_heap_calls(source: &str, instrumented: &str) -> Result<(), Vec<VerifyError>> {
    judge(source, instrumented, Wanted::HeapCalls, (&[], false)).map(|_| ())
}

/// What the pass was to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Check every access.
    Checks,
    /// Check every access to global memory against shadow memory.
    Shadow(Encoding),
    /// Redirect calls of `malloc` and `free`.
    HeapCalls,
}

fn judge(
    source: &str,
    instrumented: &str,
    wanted: Wanted,
    entries: (&[EntryPlan], bool),
) -> Result<module::Found, Vec<VerifyError>> {
    let mut errors = Errors {
        text: instrumented,
        list: Vec::new(),
    };
    let parse = |text, what: &str, errors: &mut Errors<'_>| match ptx::parse(text) {
        Ok(module) => Some(module),
        Err(all) => {
            for error in all {
                let line = error.position.line;
                errors.list.push(VerifyError {
                    message: format!("{what} cannot be parsed: {}", error.message),
                    line,
                });
            }
            None
        }
    };
    let old = parse(source, "the source", &mut errors);
    let new = parse(instrumented, "the instrumented text", &mut errors);
    let mut found = module::Found::default();
    if let (Some(old), Some(new)) = (old, new) {
        found = Judge::judge((&old, &new), wanted, entries, &mut errors);
    }
    errors.into_result().map(|()| found)
}

/// Errors with places.
pub(super) struct Errors<'t> {
    text: &'t str,
    list: Vec<VerifyError>,
}

impl<'t> Errors<'t> {
    /// A list of its own, for questions whose answers are not errors.
    fn aside(text: &'t str) -> Self {
        Errors {
            text,
            list: Vec::new(),
        }
    }

    pub(super) fn at(&mut self, span: Span, message: impl Into<String>) {
        let line = Position::of(self.text, span.start).line;
        self.list.push(VerifyError {
            message: message.into(),
            line,
        });
    }

    fn into_result(mut self) -> Result<(), Vec<VerifyError>> {
        if self.list.is_empty() {
            return Ok(());
        }
        self.list.sort_by_key(|error| error.line);
        Err(self.list)
    }
}
