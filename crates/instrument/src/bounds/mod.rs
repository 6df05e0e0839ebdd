//! This pass checks every memory access against the bounds of the allocation or
//! variable that its pointer was derived from; or, where [`Options::shadow`] asks
//! for it, every access to global memory against shadow memory, unless it is of an
//! object whose bounds the text has. What the check compares with is all that
//! differs (`Source::Byte`): groups, sinks, records and proofs are the same.
//!
//! Checks are part of the data flow, because branches are slower
//! (measurements.md; cuCatch branches): check code compares, and keeps the site;
//! the access is predicated off, or check code selects the address of a sink for
//! it. The thread writes one record when it exits. An access that fails its check reads zero, or its write is discarded.
//! No check traps or returns early, and no lane leaves the program's own path.
//!
//! The pass must never report a legal access. Where the provenance is
//! uncertain, the address itself is looked up (`Provenance::Unknown`).

mod across;
mod again;
mod ahead;
mod aligned;
mod body;
mod callees;
mod calls;
mod demand;
mod emit;
mod extent;
mod grouping;
mod head;
mod indirect;
mod inside;
mod limits;
mod narrowed;
mod pass;
mod pieces;
mod plan;
mod plausible;
mod predicated_off;
mod prove;
mod residual;
mod shadow;
mod skipped;
mod source;
mod strings;
mod text;
mod window;

use crate::error::Error;
use crate::output::{DeviceVariable, EntryPlan, Instrumented, Obstacle, Options, Reason, Residual};
use crate::parameters::{self, ParameterSlot};
use crate::patch::{Patch, put};
use crate::protocol::CALLED;
use crate::sites::Sites;
use crate::support::RecordCode;
use crate::{device_heap, device_runtime, names, support};
use across::FunctionSummary;
use analysis::{
    Analysis, Endings, Lost, ModuleSymbols, Nameable, Program, Texts, end_of_declarations,
};
use callees::{Done, finish_allocations, finish_entries, stack_is_unknown};
use demand::About;
use emit::Reports;
use model::layout::shadow::{Encoding, LAUNCH_WINDOW};
use model::layout::{CHECKED_PREFIX, LAUNCH_PARAMETER, RESIDUAL_PREFIX};
use model::{Checked, KernelCoverage, SiteId};
use plan::Plan;
use ptx::{Function, Item, Module};
use residual::Elided;
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) fn instrument(source: &str, options: &Options) -> Result<Instrumented, Error> {
    let module = ptx::parse(source).map_err(Error::Syntax)?;
    if module.address_size != 64 {
        return Err(Error::AddressSize(module.address_size));
    }
    names::reserve(source)?;
    names::refuse(&module, source)?;
    let tag = support::tag_of(source);
    let checked = Checked {
        // A field has no shadow of its own.
        fields: options.checked.fields && options.shadow.is_none(),
        ..options.checked
    };
    let mut symbols = ModuleSymbols::of(&module);
    if !checked.fields {
        symbols.forget_fields();
    }
    let mut pass = Pass {
        module: &module,
        symbols: &symbols,
        texts: Texts::of(&module),
        checked,
        trap: options.trap,
        in_place: options.in_place,
        endings: Endings::of(&module),
        record: RecordCode::of(&module, tag),
        shadow: options.shadow,
        sites: Sites::of(&module),
        out: String::with_capacity(source.len() * 3),
        entries: Vec::new(),
        functions: FxHashMap::default(),
        helpers_needed: false,
        tag,
        heap: device_heap::applies(&module),
        uses_device_heap: false,
        lost: Vec::new(),
        launched: device_runtime::launched(&module),
    };
    let mut summaries = pass.summaries()?;
    let dispatches = across::connect(&module, &mut summaries);
    for summary in &summaries {
        let name = summary.function.name.to_owned();
        pass.functions.insert(name, Done::of(summary));
    }
    let mut at = 0;
    let mut helpers_at = None;
    let mut declarations = String::new();
    for summary in summaries {
        let function = summary.function;
        pass.out
            .push_str(&source[at as usize..function.span.start as usize]);
        helpers_at.get_or_insert(pass.out.len());
        pass.function(summary, &mut declarations);
        at = function.span.end;
    }
    for dispatch in &dispatches {
        dispatch.declare(&mut declarations);
        dispatch.define(&mut pass.out);
    }
    pass.out.push_str(&source[at as usize..]);
    let Pass {
        sites,
        mut out,
        mut entries,
        functions,
        helpers_needed,
        heap,
        uses_device_heap,
        lost,
        launched,
        shadow,
        ..
    } = pass;
    if let (true, Some(at)) = (helpers_needed, helpers_at) {
        // Before the first function and the comments that precede it.
        declarations.insert_str(
            0,
            &support::functions(&module, tag, uses_device_heap, shadow),
        );
        out.insert_str(at, &declarations);
    }
    if !heap {
        finish_allocations(&mut entries, &functions, &module);
    }
    finish_entries(&mut entries, &functions, &launched);
    Ok(Instrumented {
        text: out,
        tag,
        sites: sites.list,
        lost,
        entries,
        variables: variables(&module),
        uses_device_heap,
        stack_is_unknown: stack_is_unknown(&functions),
        device_runtime: device_runtime::called(&module).map(str::to_owned),
        shadow,
    })
}

struct Pass<'x, 'a> {
    module: &'x Module<'a>,
    symbols: &'x ModuleSymbols<'a>,
    texts: Texts<'a>,
    checked: Checked,
    /// Threads that fail a check trap.
    trap: bool,
    /// See [`Options::in_place`].
    in_place: bool,
    /// What may end kernels before threads exit.
    endings: Endings<'a>,
    /// The code that writes records.
    record: RecordCode,
    /// See [`Options::shadow`].
    shadow: Option<Encoding>,
    sites: Sites<'a>,
    out: String,
    entries: Vec<EntryPlan>,
    functions: FxHashMap<String, Done>,
    helpers_needed: bool,
    tag: u64,
    /// Calls of `malloc` and `free` are redirected.
    heap: bool,
    /// Some calls of `malloc` and `free` were redirected.
    uses_device_heap: bool,
    /// See [`Instrumented::lost`].
    lost: Vec<(SiteId, Lost)>,
    /// Kernels that others of the module may launch.
    launched: FxHashSet<&'a str>,
}

impl<'x, 'a> Pass<'x, 'a> {
    /// The plans for all functions with bodies.
    fn summaries(&mut self) -> Result<Vec<FunctionSummary<'x, 'a>>, Error> {
        let module = self.module;
        let mut summaries = Vec::new();
        for function in module.functions() {
            summaries.extend(self.summary(function)?);
        }
        Ok(summaries)
    }

    /// The plan for a function; `None` if it has no body.
    fn summary(
        &mut self,
        function: &'x Function<'a>,
    ) -> Result<Option<FunctionSummary<'x, 'a>>, Error> {
        let Some(analysis) = Analysis::of(self.symbols, function) else {
            return Ok(None);
        };
        let (slots, parameter_bytes) = parameters::layout(function);
        let nameable = Nameable::of(function, self.symbols);
        let first_site = self.sites.list.len();
        let about = About {
            analysis: &analysis,
            nameable: &nameable,
        };
        let mut plan = Plan::of(
            about,
            (self.checked, self.shadow),
            (self.symbols, &self.texts),
            &mut self.sites,
        )?;
        self.lost.append(&mut plan.lost);
        let heap_calls = if self.heap {
            device_heap::calls(&analysis.code, &mut self.sites)
        } else {
            Vec::new()
        };
        self.uses_device_heap |= !heap_calls.is_empty();
        Ok(Some(FunctionSummary {
            sites: first_site..self.sites.list.len(),
            is_checked_in_place: !function.is_entry,
            has_copy: false,
            function,
            analysis,
            nameable,
            plan,
            heap_calls,
            slots,
            parameter_bytes,
        }))
    }

    /// Writes all versions of a function.
    fn function(&mut self, mut summary: FunctionSummary<'x, 'a>, declarations: &mut String) {
        let function = summary.function;
        summary.plan.asks_heap = self.uses_device_heap;
        let checked = summary.changes();
        self.helpers_needed |= checked;
        if function.is_entry {
            let is_launched_by_kernels = checked && self.launched.contains(function.name);
            if !is_launched_by_kernels {
                self.original(&summary);
            }
            let launch_parameter = self.launch_parameter(&mut summary, is_launched_by_kernels);
            if is_launched_by_kernels {
                // Nobody passes bounds to it.
                self.body(&summary, function.span.start, &Patch::default());
            }
            let proof = self.proof(&summary);
            let mut residual = None;
            if checked {
                let size = launch_parameter.map(|slot| slot.size);
                self.copy(&mut summary, CHECKED_PREFIX, size);
                let elided = residual::elided((&summary.analysis, &summary.plan), &proof);
                residual = elided.map(|elided| self.residual(&mut summary, elided, size));
            }
            let launch_parameter = launch_parameter.filter(|_| checked);
            self.entry(&summary, checked, launch_parameter, (proof, residual));
        } else {
            if summary.is_checked_in_place && checked {
                summary.plan.launch = false;
                self.body(&summary, function.span.start, &Patch::default());
            } else {
                self.original(&summary);
            }
            if summary.has_copy {
                let size = launch_size(&summary.plan);
                let (head, end) = (
                    self.head(&summary, CHECKED_PREFIX, Some(size)),
                    self.head_end(function),
                );
                let (start, source) = (function.span.start, self.module.source);
                head.render(source, (start, end), start, "", declarations);
                declarations.truncate(declarations.trim_end().len());
                declarations.push_str(";\n");
                self.copy(&mut summary, CHECKED_PREFIX, Some(size));
            }
        }
    }

    /// The program that proves all accesses of an entry, or the obstacle.
    fn proof(&self, summary: &FunctionSummary<'_, '_>) -> Result<Program, Obstacle> {
        let FunctionSummary { analysis, plan, .. } = summary;
        let calls_checks = self
            .functions
            .get(summary.function.name)
            .is_some_and(|own| prove::calls_checks(own, &self.functions));
        match prove::proof(analysis, plan, self.sites.lines()) {
            Err(obstacle) if obstacle.reason != Reason::NoChecks => Err(obstacle),
            _ if calls_checks => Err(Obstacle {
                reason: Reason::Call,
                line: None,
            }),
            other => other,
        }
    }

    /// The slot of an entry's launch parameter; `None` if it does not fit, or if
    /// kernels launch the entry, which do not know its bounds.
    fn launch_parameter(
        &mut self,
        summary: &mut FunctionSummary<'_, '_>,
        is_launched_by_kernels: bool,
    ) -> Option<ParameterSlot> {
        let offset = summary.parameter_bytes.next_multiple_of(8);
        let architecture = self.module.architecture();
        let most = parameters::limit(self.module.version, architecture);
        let fits = |plan: &Plan| offset.saturating_add(launch_size(plan)) <= most;
        summary.plan.launch = !is_launched_by_kernels && fits(&summary.plan);
        if summary.plan.launch {
            summary.plan.settle_launch_limits(&summary.analysis);
            summary.plan.settle_launch_indices(&summary.analysis);
            if !fits(&summary.plan) {
                summary.plan.without_launch_indices();
            }
            if !fits(&summary.plan) {
                summary.plan.launch_limits.clear();
            }
        }
        let size = launch_size(&summary.plan);
        let needs_bounds = summary.plan.shadow.is_none() && !summary.plan.roots.is_empty();
        if !summary.plan.launch && needs_bounds {
            // Lookup mode: the device finds the bounds and must report them.
            summary.plan.records_bounds = true;
            for site in &mut self.sites.list[summary.sites.clone()] {
                if matches!(site.provenance, model::Provenance::KernelParameter { .. }) {
                    site.provenance = model::Provenance::Lookup;
                }
            }
        }
        summary
            .plan
            .launch
            .then_some(ParameterSlot { offset, size })
    }

    /// Notes the facts about an entry that the host needs.
    fn entry(
        &mut self,
        summary: &FunctionSummary<'_, '_>,
        has_copy: bool,
        launch_parameter: Option<ParameterSlot>,
        (proof, residual): (Result<Program, Obstacle>, Option<Residual>),
    ) {
        let (plan, name) = (&summary.plan, summary.function.name);
        self.entries.push(EntryPlan {
            name: name.to_owned(),
            checked_name: has_copy.then(|| format!("{CHECKED_PREFIX}{name}")),
            parameters: summary.slots.clone(),
            parameter_bytes: summary.parameter_bytes,
            launch_parameter,
            takes_window: plan.takes_window,
            roots: match launch_parameter {
                Some(_) => plan.roots.clone(),
                None => Vec::new(),
            },
            limits: match launch_parameter {
                Some(_) => plan.launch_limits(&summary.analysis),
                None => Vec::new(),
            },
            indices: match launch_parameter {
                Some(_) => plan.launch_indices.clone(),
                None => Vec::new(),
            },
            coverage: KernelCoverage::default(),
            uses_device_malloc: false,
            proof,
            residual,
        });
    }

    /// The residual copy of an entry.
    fn residual(
        &mut self,
        summary: &mut FunctionSummary<'_, '_>,
        elided: Elided,
        launch_size: Option<u32>,
    ) -> Residual {
        let sites = elided.sites(&summary.plan);
        summary.plan.elide(&elided.groups);
        self.copy(summary, RESIDUAL_PREFIX, launch_size);
        Residual {
            name: format!("{RESIDUAL_PREFIX}{}", summary.function.name),
            proof: elided.proof,
            queries: elided.queries,
            elided: sites,
        }
    }

    /// An instrumented copy of a function.
    fn copy(
        &mut self,
        summary: &mut FunctionSummary<'_, '_>,
        prefix: &str,
        launch_size: Option<u32>,
    ) {
        summary.plan.launch = launch_size.is_some();
        self.out.push_str(match prefix {
            RESIDUAL_PREFIX => "\n// Residual copy.\n",
            _ => "\n// Checked copy.\n",
        });
        let head = self.head(summary, prefix, launch_size);
        self.body(summary, summary.function.span.start, &head);
    }

    /// A function with checks in its body, and an edited head.
    fn body(&mut self, summary: &FunctionSummary<'_, '_>, start: u32, head_patch: &Patch) {
        let FunctionSummary {
            function,
            analysis,
            nameable,
            plan,
            ..
        } = summary;
        let Some(body) = &function.body else {
            return;
        };
        let source = self.module.source;
        let mut patch = Patch::default();
        let head = body::emit(
            About { analysis, nameable },
            plan,
            Reports {
                record: &self.record,
                traps: self.trap,
                in_place: self.in_place,
                endings: &self.endings,
            },
            body::Heap {
                calls: &summary.heap_calls,
                tag: self.tag,
                frees: self.heap && device_heap::frees(self.module),
            },
            source,
            &mut patch,
        );
        let inside = body.span.start + 1;
        head_patch.render(source, (start, inside), start, "", &mut self.out);
        // The code at the top names variables that the body declares first.
        let head_at = end_of_declarations(function).unwrap_or(inside);
        let end = function.span.end;
        patch.render(source, (inside, end), head_at, &head, &mut self.out);
    }

    fn head_end(&self, function: &Function<'_>) -> u32 {
        let body = function.body.as_ref();
        body.map_or(function.span.end, |body| body.span.start)
    }

    /// Edits of the head of a copy.
    fn head(
        &self,
        summary: &FunctionSummary<'_, '_>,
        prefix: &str,
        launch_size: Option<u32>,
    ) -> Patch {
        let (function, source) = (summary.function, self.module.source);
        let mut patch = Patch::default();
        if !function.is_entry {
            // Copies are local to the file, even if the original is visible.
            let text = function.span.text(source);
            let linkage = text.find(".func").unwrap_or(0) as u32;
            patch.edit(function.span.start, function.span.start + linkage, |_| {});
            if let ([returned], bytes @ 1..) =
                (&function.returns[..], summary.plan.returned_bounds.bytes())
            {
                let span = returned.span;
                patch.edit(span.start, span.end, |out| {
                    let (alignment, name) = (returned.alignment().max(8), returned.name);
                    put(
                        out,
                        format_args!(".param .align {alignment} .b8 {name}[{bytes}]"),
                    );
                });
            }
        }
        rename_copy(&mut patch, function, (prefix, launch_size), source);
        patch
    }
}

/// Bytes of the parameter that holds the bounds.
fn launch_size(plan: &Plan) -> u32 {
    let window = if plan.takes_window { LAUNCH_WINDOW } else { 0 };
    plan.launch_window() as u32 + window as u32 + if plan.takes_called { CALLED } else { 0 }
}

impl<'x, 'a> Pass<'x, 'a> {
    /// A function as the program wrote it, except that calls of `malloc` and
    /// `free` are redirected as everywhere.
    fn original(&mut self, summary: &FunctionSummary<'_, '_>) {
        let mut patch = Patch::default();
        for call in &summary.heap_calls {
            let inst = &summary.analysis.code.instructions[call.instruction as usize];
            device_heap::redirect(call, self.tag, inst.attached_from, None, &mut patch);
        }
        let (start, end) = (summary.function.span.start, summary.function.span.end);
        patch.render(self.module.source, (start, end), start, "", &mut self.out);
    }
}

/// Adds the prefix to the copy's name, and its last parameter.
fn rename_copy(
    patch: &mut Patch,
    function: &Function<'_>,
    (prefix, launch_size): (&str, Option<u32>),
    source: &str,
) {
    let name = function.name_span;
    patch.edit(name.start, name.end, |out| {
        out.push_str(prefix);
        out.push_str(function.name);
    });
    let Some(size) = launch_size else { return };
    let parameter = format!(".param .align 8 .b8 {LAUNCH_PARAMETER}[{size}]");
    match function.parameter_list {
        Some(list) => {
            let comma = if function.parameters.is_empty() {
                ""
            } else {
                ","
            };
            // Before the white space that precedes `)`.
            let inner = &source[list.start as usize..list.end as usize - 1];
            let at = list.start + inner.trim_end().len() as u32;
            // A comment at the end would hide the text that follows on its
            // line.
            patch.insert(at.max(list.start + 1), |out| {
                let _ = std::fmt::Write::write_fmt(out, format_args!("{comma}\n\t{parameter}"));
            });
        }
        None => patch.insert(name.end, |out| {
            let _ = std::fmt::Write::write_fmt(out, format_args!("({parameter})"));
        }),
    }
}

fn variables(module: &Module<'_>) -> Vec<DeviceVariable> {
    let defined = module.items.iter().filter_map(|item| match item {
        Item::Variable(v)
            if matches!(
                v.space,
                ptx::VariableSpace::Global | ptx::VariableSpace::Const
            ) && v.linkage != ptx::Linkage::Extern =>
        {
            Some(v)
        }
        _ => None,
    });
    defined
        .filter_map(|v| {
            Some(DeviceVariable {
                name: v.name.to_owned(),
                size: v.size().filter(|&size| size > 0)?,
            })
        })
        .collect()
}
