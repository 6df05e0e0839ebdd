//! Judges instrumented PTX from its text.
//!
//! The verifier does not know how the pass plans: it reads both texts again,
//! matches them statement by statement, and follows the check code through
//! its registers. Of the analysis it uses four answers: whether an access that
//! carries no check may go without one, what the objects of a frame are,
//! which low bits of an address are known, and which strings a call prints. It collects all errors. It must never accept what it does not understand.

mod absences;
mod accesses;
mod alignment;
mod calls;
mod checks;
mod facts;
mod statements;
mod strings;
mod through;
mod windows;

use crate::support;
use analysis::{Analysis, ModuleSymbols, Nameable, Texts, mentioned};
use model::layout::{CHECKED_PREFIX, LAUNCH_PARAMETER, LaunchBounds, LaunchHeader};
use ptx::{Function, Item, Module, Position, Span};
use rustc_hash::FxHashMap;

/// Something that is wrong with instrumented PTX.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the instrumented PTX: {message}")]
pub struct VerifyError {
    /// What is wrong, a lower-case fragment.
    pub message: String,
    /// Line of the instrumented text, from 1.
    pub line: u32,
}

/// Checks instrumented PTX against its source: originals are unchanged, the
/// copies and checked functions hold the program's statements in order, no
/// checked code calls a function that has none but should, and calls of copies
/// carry bounds; every
/// global or generic access goes through a register that a check selected in
/// the same block, under the access's own guard, over bytes that include the
/// access's, and aligned as the access needs, with sinks and addresses as `model::layout` has them.
///
/// # Errors
/// All that is wrong, in text order.
pub fn verify(source: &str, instrumented: &str) -> Result<(), Vec<VerifyError>> {
    judge(source, instrumented, Wanted::Checks)
}

/// Checks PTX in which only calls of `malloc` and `free` were redirected:
/// functions and their copies hold the program's statements in order, and differ
/// only in where such calls, and calls of copies, go, and in what is passed to
/// them beside the program's arguments.
///
/// # Errors
/// All that is wrong, in text order.
pub fn verify_heap_calls(source: &str, instrumented: &str) -> Result<(), Vec<VerifyError>> {
    judge(source, instrumented, Wanted::HeapCalls)
}

/// What the pass was to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Check every access.
    Checks,
    /// Redirect calls of `malloc` and `free`.
    HeapCalls,
}

fn judge(source: &str, instrumented: &str, wanted: Wanted) -> Result<(), Vec<VerifyError>> {
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
    if let (Some(old), Some(new)) = (old, new) {
        modules(&old, &new, wanted, &mut errors);
    }
    if errors.list.is_empty() {
        Ok(())
    } else {
        errors.list.sort_by_key(|error| error.line);
        Err(errors.list)
    }
}

/// Errors with places.
pub(super) struct Errors<'t> {
    text: &'t str,
    list: Vec<VerifyError>,
}

impl Errors<'_> {
    pub(super) fn at(&mut self, span: Span, message: impl Into<String>) {
        let line = Position::of(self.text, span.start).line;
        self.list.push(VerifyError {
            message: message.into(),
            line,
        });
    }
}

fn modules<'a>(old: &Module<'a>, new: &Module<'a>, wanted: Wanted, errors: &mut Errors<'_>) {
    let symbols = ModuleSymbols::of(old);
    let helpers = format!(
        ".version 6.2\n.target sm_70\n.address_size 64\n{}",
        support::functions(old, support::tag_of(old.source), true)
    );
    let helpers = ptx::parse(&helpers).ok();
    let checks = wanted == Wanted::Checks;
    let texts = Texts::of(old);
    let callees = callees((&symbols, &texts), old, new, errors);
    let mentioned = mentioned(old);
    let mut expected = old.items.iter().peekable();
    for item in &new.items {
        if let Item::Function(function) = item {
            if let Some(name) = function.name.strip_prefix(CHECKED_PREFIX) {
                let original = old.functions().find(|f| {
                    f.name == name && f.body.is_some() && f.is_entry == function.is_entry
                });
                match original {
                    Some(original) => {
                        signature(old, new, original, function, errors);
                        if function.body.is_some() && !checks {
                            only_redirected(old, new, original, function, errors);
                        } else if function.body.is_some() {
                            compare(
                                (&symbols, &callees, &texts),
                                old,
                                new,
                                original,
                                function,
                                errors,
                            );
                        } else if !calls::is_declared_as_defined(new, function) {
                            errors.at(function.span, "a copy is declared but not so defined");
                        }
                    }
                    None => errors.at(
                        function.span,
                        format!("no function `{name}` to be the copy of"),
                    ),
                }
                continue;
            }
            if checks && through::is_of_class(function) {
                // `callees` judges them.
                continue;
            }
            let helper = helpers.as_ref().and_then(|module| {
                module.items.iter().find_map(|item| match item {
                    Item::Function(f) if f.name == function.name => {
                        Some(f.span.text(module.source))
                    }
                    _ => None,
                })
            });
            if helper.is_some() {
                if helper != Some(function.span.text(new.source)) {
                    errors.at(
                        function.span,
                        format!("`{}` is not the function that checks expect", function.name),
                    );
                }
                continue;
            }
        }
        let Some(old_item) = expected.next() else {
            errors.at(span_of(item), "an item that the source does not have");
            continue;
        };
        match (old_item, item) {
            (Item::Function(original), Item::Function(function)) if !original.is_entry => {
                let head = |f: &Function<'_>, source: &str| {
                    let end = f.body.as_ref().map_or(f.span.end, |body| body.span.start);
                    source[f.span.start as usize..end as usize].to_owned()
                };
                if head(original, old.source) != head(function, new.source) {
                    errors.at(function.span, "the head of a device function changed");
                }
                if !checks {
                    only_redirected(old, new, original, function, errors);
                } else if callees.unchecked.contains(original.name) {
                    let is_local = original.linkage == ptx::Linkage::Local;
                    if !is_local || mentioned.contains(original.name) {
                        errors.at(
                            function.span,
                            "code that is not seen may call this function, which has no checks",
                        );
                    }
                } else if original.body.is_some() {
                    compare(
                        (&symbols, &callees, &texts),
                        old,
                        new,
                        original,
                        function,
                        errors,
                    );
                }
            }
            (Item::Function(original), Item::Function(function))
                if same_but_for_heap_calls(original, function, old, new) => {}
            _ => {
                if span_of(old_item).text(old.source) != span_of(item).text(new.source) {
                    errors.at(span_of(item), "text of the source changed");
                }
            }
        }
    }
    if expected.next().is_some() {
        errors.at(Span { start: 0, end: 0 }, "items of the source are missing");
    }
}

/// What calls may go to: the copies, and no functions that are as they were
/// although they have something to check.
fn callees<'a>(
    (symbols, texts): (&ModuleSymbols<'a>, &Texts<'a>),
    old: &Module<'a>,
    new: &Module<'a>,
    errors: &mut Errors<'_>,
) -> calls::Callees<'a> {
    let mut callees = calls::Callees::of(old, new);
    callees.classes = through::classes(old, new, &callees, errors);
    let as_they_were: Vec<(&Function<'a>, &Function<'a>)> = old
        .functions()
        .filter(|f| !f.is_entry && f.body.is_some())
        .filter_map(|original| {
            let of_that_name = |f: &&Function<'a>| f.name == original.name && f.body.is_some();
            let function = new.functions().find(of_that_name)?;
            let from = original.span.text(old.source);
            let is_same = from == function.span.text(new.source)
                || same_but_for_heap_calls(original, function, old, new);
            is_same.then_some((original, function))
        })
        .collect();
    loop {
        let mut unchecked = callees.unchecked.clone();
        for (original, function) in &as_they_were {
            // What is wrong with it is not said here, only that something is.
            let mut errors = Errors {
                text: new.source,
                list: Vec::new(),
            };
            let about = (symbols, &callees, texts);
            if !unchecked.contains(original.name) {
                compare(about, old, new, original, function, &mut errors);
            }
            if !errors.list.is_empty() {
                unchecked.insert(original.name);
            }
        }
        if unchecked.len() == callees.unchecked.len() {
            return callees;
        }
        callees.unchecked = unchecked;
    }
}

/// Whether a function is the source's, with `malloc` and `free` redirected.
fn same_but_for_heap_calls(
    original: &Function<'_>,
    function: &Function<'_>,
    old: &Module<'_>,
    new: &Module<'_>,
) -> bool {
    let (Some(from), Some(to)) = (&original.body, &function.body) else {
        return false;
    };
    let head = |f: &Function<'_>, source: &str, end: u32| {
        source[f.span.start as usize..end as usize].to_owned()
    };
    if head(original, old.source, from.span.start) != head(function, new.source, to.span.start) {
        return false;
    }
    // What differs is told by the text of the whole item.
    let mut errors = Errors {
        text: new.source,
        list: Vec::new(),
    };
    let (from, to) = (statements::flatten(original), statements::flatten(function));
    let matched = statements::matched(&from, &to, old.source, new.source, &mut errors);
    errors.list.is_empty() && statements::differs_in_heap_calls_only(&matched)
}

/// A function differs from the source's only in where calls of `malloc` and
/// `free`, and of copies, go.
fn only_redirected(
    old: &Module<'_>,
    new: &Module<'_>,
    original: &Function<'_>,
    function: &Function<'_>,
    errors: &mut Errors<'_>,
) {
    let (from, to) = (statements::flatten(original), statements::flatten(function));
    for piece in statements::matched(&from, &to, old.source, new.source, errors) {
        if let Some(span) = statements::beyond_heap_calls(&piece) {
            errors.at(span, "more than calls of malloc and free was changed");
        }
    }
}

fn span_of(item: &Item<'_>) -> Span {
    match item {
        Item::Header(span) | Item::Other(span) => *span,
        Item::File(file) => file.span,
        Item::Variable(variable) => variable.span,
        Item::Function(function) => function.span,
    }
}

/// A copy has the original's parameters and directives, and at most the
/// launch parameter more.
fn signature(
    old: &Module<'_>,
    new: &Module<'_>,
    original: &Function<'_>,
    copy: &Function<'_>,
    errors: &mut Errors<'_>,
) {
    let texts = |f: &Function<'_>, source: &str, count: usize| -> Vec<String> {
        f.parameters[..count.min(f.parameters.len())]
            .iter()
            .map(|p| p.span.text(source).trim().to_owned())
            .collect()
    };
    let count = original.parameters.len();
    if texts(original, old.source, count) != texts(copy, new.source, count) {
        errors.at(copy.span, "the program's parameters changed");
    }
    match copy.parameters.get(count..) {
        Some([]) => {}
        Some([launch]) if launch.name == LAUNCH_PARAMETER => {
            let (header, each) = (
                size_of::<LaunchHeader>() as u64,
                size_of::<LaunchBounds>() as u64,
            );
            let size = launch.size().unwrap_or(0);
            // Functions also take the address that a call through a pointer had.
            let part = if original.is_entry { each } else { 8 };
            if size < header || !(size - header).is_multiple_of(part) || launch.alignment() != 8 {
                errors.at(
                    launch.span,
                    "the launch parameter is not a header and bounds",
                );
            }
        }
        _ => errors.at(copy.span, "parameters that the program does not have"),
    }
    if !calls::same_result(old, new, original, copy) {
        errors.at(
            copy.span,
            "the result is not the program's, with or without bounds",
        );
    }
    let directives = |f: &Function<'_>, source: &str| -> Vec<String> {
        f.directives
            .iter()
            .map(|d| d.span.text(source).to_owned())
            .collect()
    };
    if directives(original, old.source) != directives(copy, new.source)
        || copy.linkage
            != match original.is_entry {
                true => original.linkage,
                false => ptx::Linkage::Local,
            }
    {
        errors.at(copy.span, "directives or linkage of the kernel changed");
    }
}

fn compare<'a>(
    (symbols, callees, texts): (&ModuleSymbols<'a>, &calls::Callees<'a>, &Texts<'a>),
    old: &Module<'a>,
    new: &Module<'a>,
    original: &Function<'a>,
    function: &Function<'a>,
    errors: &mut Errors<'_>,
) {
    let Some(analysis) = Analysis::of(symbols, original) else {
        errors.at(function.span, "a body where the source has none");
        return;
    };
    let index: FxHashMap<u32, usize> = analysis
        .code
        .instructions
        .iter()
        .enumerate()
        .map(|(index, inst)| (inst.instruction.span.start, index))
        .collect();
    let from = statements::flatten(original);
    let to = statements::flatten(function);
    let matched = statements::matched(&from, &to, old.source, new.source, errors);
    let launch = function
        .parameters
        .iter()
        .find(|p| p.name == LAUNCH_PARAMETER)
        .and_then(|p| p.size());
    let result = match (&original.returns[..], &function.returns[..]) {
        ([from], [to]) if from.size() != to.size() => {
            let from = from.size().unwrap_or(0).next_multiple_of(8);
            Some((to.name, from, to.size().unwrap_or(0)))
        }
        _ => None,
    };
    checks::follow(
        checks::Input {
            analysis: &analysis,
            index: &index,
            symbols,
            source: old.source,
            new: new.source,
            nameable: Nameable::of(original, symbols),
            launch,
            callees,
            texts,
            result,
            span: function.span,
        },
        &matched,
        errors,
    );
}
