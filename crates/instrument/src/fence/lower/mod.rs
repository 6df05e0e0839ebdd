//! Rewrites PTX into plainer PTX that computes the same, before it is fenced.
//!
//! Each file here takes out one thing that a fence cannot hold. The result is
//! fenced, and judged by the verifier, like any program's code: nothing here is
//! believed. What a rewrite does not understand it leaves as it is, and the pass
//! refuses it by name. No line begins or ends elsewhere than before, so that
//! refusals name lines of the program's text.

mod aligned;
mod barriers;
mod frames;
mod library;
mod linkage;
mod masks;
mod strides;
mod through;
mod workspace;

pub(super) use frames::frames_size;
pub(super) use library::is_common;

use super::refuse::{Refusal, Refusals};
use ptx::{Item, Module};

/// A rewrite of a module; `None` if there is nothing to do.
type Rewrite = for<'a> fn(&Module<'a>, &mut Refusals<'_>) -> Option<String>;

/// In this order. Frames are last: what stands before adds calls.
const ALL: [Rewrite; 9] = [
    linkage::own,
    aligned::raise,
    workspace::pass,
    strides::constant,
    masks::constant,
    barriers::look,
    library::redirect,
    through::name,
    frames::merge,
];

/// The module as it is fenced, `None` if that is the text itself; and what the
/// rewrites refuse.
///
/// # Errors
///
/// The text, or what a rewrite made of it, cannot be parsed.
pub(super) fn lowered(source: &str) -> Result<(Option<String>, Vec<Refusal>), Vec<ptx::Error>> {
    let mut current: Option<String> = None;
    let mut list = Vec::new();
    for rewrite in ALL {
        let text = current.as_deref().unwrap_or(source);
        let module = ptx::parse(text)?;
        let mut refusals = Refusals::new(text);
        let next = rewrite(&module, &mut refusals);
        list.extend(refusals.into_list());
        if next.is_some() {
            current = next;
        }
    }
    Ok((current, list))
}

/// Where variables can be added: behind version and target, on the same line.
fn end_of_header(module: &Module<'_>) -> Option<u32> {
    let headers = module.items.iter().filter_map(|item| match item {
        Item::Header(span) => Some(span.end),
        _ => None,
    });
    headers.max()
}

/// A text in the place of another that may span lines: with as many.
fn with_lines(mut text: String, replaced: &str) -> String {
    let lines = |text: &str| text.matches('\n').count();
    for _ in lines(&text)..lines(replaced) {
        text.push('\n');
    }
    text
}
