//! Verifies the arguments that calls of `malloc` and `free` pass to the device
//! heap: their site, and their launch.

use super::Errors;
use super::checks::{Input, State};
use super::facts::heap_call;
use super::statements::{Matched, is_heap_call};
use super::written::{reads, word};
use crate::protocol::{HEAP_LAUNCH, HEAP_PLACE};
use model::layout::LAUNCH_PARAMETER;
use ptx::Instruction;

impl State {
    /// Reads what is passed to the device heap: the place of the call and the
    /// launch. Where that ends.
    pub(super) fn heap_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let text = input.new;
        let (mut from, mut launch) = (at, "0");
        if input.launch.is_some() {
            let scratch = crate::protocol::register::SCRATCH;
            let load = format_args!("ld.param.b64 {scratch}, [{LAUNCH_PARAMETER}];");
            from = reads(text, at, load)?;
            launch = scratch;
        }
        let (site, end) = heap_place(text, from, launch, input.tag)?;
        self.heap_site = Some(site);
        Some(end)
    }

    /// Calls of `malloc` and `free` go to the device heap, all or none.
    pub(super) fn redirected_call(
        &mut self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        if heap_call(old).is_none() {
            return;
        }
        let site = self.heap_site.take();
        if !is_heap_call(old, new) {
            if input.has_heap {
                errors.at(new.span, "a call of malloc or free goes elsewhere");
            }
            return;
        }
        match site {
            Some(site) if names_place(new, site) => self.heap_sites.push((site, new.span)),
            _ => errors.at(
                new.span,
                "the device heap does not get the site of its call",
            ),
        }
    }
}

/// Calls of the device heap in a body that is otherwise as it was.
#[derive(Default)]
pub(super) struct HeapCalls {
    /// The sites that they name.
    pub(super) sites: Vec<u32>,
    passed_site: Option<u32>,
    read_until: u32,
}

impl HeapCalls {
    /// Follows a piece of the body. `text`: the instrumented text, and the tag
    /// of the module.
    pub(super) fn follow(
        &mut self,
        piece: &Matched<'_, '_>,
        text: (&str, u64),
        errors: &mut Errors<'_>,
    ) {
        match piece {
            Matched::Same(..) => {}
            Matched::Copy(_, span)
            | Matched::CopyEnds(span)
            | Matched::First(_, span)
            | Matched::Second(_, span) => errors.at(*span, "a copy of code without checks"),
            Matched::Added(piece) if piece.span().start < self.read_until => {}
            Matched::Added(piece) => match heap_place(text.0, piece.span().start, "0", text.1) {
                Some((site, end)) => (self.passed_site, self.read_until) = (Some(site), end),
                None => errors.at(
                    piece.span(),
                    "not the arguments of a call of the device heap",
                ),
            },
            Matched::Redirected(_, new) => match self.passed_site.take() {
                Some(site) if names_place(new, site) => self.sites.push(site),
                _ => errors.at(
                    new.span,
                    "the device heap does not get the site of its call",
                ),
            },
        }
    }
}

/// Whether a call of the device heap passes the place of a site.
fn names_place(call: &Instruction<'_>, site: u32) -> bool {
    let last = call.operands.len().wrapping_sub(1);
    let passed = super::calls::list(call, last);
    let expected = [HEAP_PLACE, HEAP_LAUNCH].map(|name| format!("{name}{site}"));
    passed.ends_with(&expected.each_ref().map(String::as_str))
}

/// Reads the parameters that describe a call to the device heap; returns its
/// site, and the end of the text.
fn heap_place(text: &str, at: u32, launch: &str, tag: u64) -> Option<(u32, u32)> {
    let after = reads(text, at, ".param .b64")?;
    let name = word(text, after).trim_end_matches(',');
    let site: u32 = name.strip_prefix(HEAP_PLACE)?.parse().ok()?;
    let place = tag << 32 | u64::from(site);
    let expected = format!(
        ".param .b64 {HEAP_PLACE}{site}, {HEAP_LAUNCH}{site}; \
         st.param.b64 [{HEAP_PLACE}{site}], {place}; \
         st.param.b64 [{HEAP_LAUNCH}{site}], {launch}; "
    );
    Some((site, reads(text, at, &expected)?))
}
