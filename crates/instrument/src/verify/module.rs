//! Matches the items of an instrumented module with those of its source.

use super::calls::{self, Callees, Order, Reliance};
use super::facts::own_frame;
use super::host::HostLimits;
use super::{Errors, Wanted, checks, residual, statements, through};
use crate::ahead::{Counted, label, least_passes};
use crate::device_runtime;
use crate::indexed::Indices;
use crate::output::EntryPlan;
use crate::protocol::{FREE, MALLOC};
use crate::support;
use analysis::{Analysis, Endings, ModuleSymbols, Nameable, Texts, mentioned};
use model::layout::shadow::Encoding;
use model::layout::{
    CHECKED_PREFIX, LAUNCH_PARAMETER, LaunchHeader, RESIDUAL_PREFIX, original_name,
};
use ptx::{Function, Item, Mnemonic, Modifier, Module, Span, Statement};
use rustc_hash::{FxHashMap, FxHashSet};

/// What was found of a module that is as it must be.
#[derive(Default)]
pub(super) struct Found {
    /// How many sites it has.
    pub(super) sites: u32,
    /// Of each entry, the offsets of the parameters whose bounds it takes, by
    /// place.
    pub(super) entries: FxHashMap<String, Vec<(u64, u32)>>,
    pub(super) tag: u64,
    /// Of each entry with a residual copy, the sites without checks in it.
    pub(super) unchecked: FxHashMap<String, Vec<u32>>,
}

/// What a module is judged by.
pub(super) struct Judge<'x, 'a> {
    old: &'x Module<'a>,
    new: &'x Module<'a>,
    symbols: ModuleSymbols<'a>,
    texts: Texts<'a>,
    callees: Callees<'x>,
    /// What may end kernels before threads exit.
    endings: Endings<'a>,
    /// Names that the source mentions otherwise than to call them.
    mentioned: FxHashSet<&'a str>,
    /// Kernels that others of the module may launch.
    launched: FxHashSet<&'a str>,
    checks: bool,
    /// Checks are against shadow memory.
    shadow: Option<Encoding>,
    tag: u64,
    /// Calls of `malloc` and `free` go to the device heap.
    has_heap: bool,
    /// Of each function, the site before its first, and how many it has.
    numbers: FxHashMap<&'a str, (u32, u32)>,
    sites: u32,
    /// The sites that originals of entries name.
    heap_of: FxHashMap<&'a str, Vec<u32>>,
    /// The bounds that copies take and return, and the assumptions of their
    /// callers.
    orders: FxHashMap<String, Order>,
    relies: Vec<Reliance>,
    /// What the host gets.
    entries: &'x [EntryPlan],
    /// That is judged, too.
    is_output: bool,
    unchecked: FxHashMap<String, Vec<u32>>,
}

/// Two functions: the source's, and one that is instrumented.
type Pair<'x, 'a> = (&'x Function<'a>, &'x Function<'a>);

impl<'x, 'a> Judge<'x, 'a> {
    pub(super) fn judge(
        (old, new): (&'x Module<'a>, &'x Module<'a>),
        wanted: Wanted,
        (entries, is_output): (&'x [EntryPlan], bool),
        errors: &mut Errors<'_>,
    ) -> Found {
        let mut judge = Judge {
            old,
            new,
            symbols: ModuleSymbols::of(old),
            texts: Texts::of(old),
            callees: Callees::of(old, new),
            endings: Endings::of(old),
            mentioned: mentioned(old),
            launched: device_runtime::launched(old),
            checks: wanted != Wanted::HeapCalls,
            shadow: match wanted {
                Wanted::Shadow(encoding) => Some(encoding),
                Wanted::Checks | Wanted::HeapCalls => None,
            },
            tag: support::tag_of(old.source),
            has_heap: new.functions().any(|f| f.name == MALLOC || f.name == FREE),
            numbers: FxHashMap::default(),
            sites: 0,
            heap_of: FxHashMap::default(),
            orders: FxHashMap::default(),
            relies: Vec::new(),
            entries,
            is_output,
            unchecked: FxHashMap::default(),
        };
        judge.callees.classes = through::classes(old, new, &judge.callees, errors);
        judge.find_unchecked();
        judge.items(errors);
        judge.agree(errors);
        let entries = judge.orders.into_iter();
        Found {
            sites: judge.sites,
            entries: entries.map(|(name, order)| (name, order.takes)).collect(),
            tag: judge.tag,
            unchecked: judge.unchecked,
        }
    }

    /// Matches items one by one; others are check code's own.
    fn items(&mut self, errors: &mut Errors<'_>) {
        let helpers = format!(
            ".version 6.2\n.target sm_70\n.address_size 64\n{}",
            support::functions(self.old, self.tag, true, self.shadow)
        );
        let helpers = ptx::parse(&helpers).ok();
        let mut expected = self.old.items.iter();
        for item in &self.new.items {
            if let Item::Function(function) = item
                && (self.copy(function, errors)
                    || self.checks && through::is_of_class(function)
                    || self.helper(function, helpers.as_ref(), errors))
            {
                continue;
            }
            match expected.next() {
                Some(old_item) => self.item(old_item, item, errors),
                None => errors.at(span_of(item), "an item that the source does not have"),
            }
        }
        if expected.next().is_some() {
            errors.at(Span { start: 0, end: 0 }, "items of the source are missing");
        }
    }

    /// Judges a checked copy; whether it is one.
    fn copy(&mut self, function: &'x Function<'a>, errors: &mut Errors<'_>) -> bool {
        let Some(name) = original_name(function.name) else {
            return false;
        };
        let original = self
            .old
            .functions()
            .find(|f| f.name == name && f.body.is_some() && f.is_entry == function.is_entry);
        let Some(original) = original else {
            let message = format!("no function `{name}` to be the copy of");
            errors.at(function.span, message);
            return true;
        };
        if is_residual(function) && !(original.is_entry && self.checks) {
            errors.at(
                function.span,
                "only kernels with checks have residual copies",
            );
        }
        self.signature((original, function), errors);
        if function.body.is_none() {
            if !calls::is_declared_as_defined(self.new, function) {
                errors.at(function.span, "a copy is declared but not so defined");
            }
        } else if self.checks {
            self.compare((original, function), errors);
        } else {
            self.only_redirected((original, function), errors);
        }
        true
    }

    /// Judges a function that checks call; whether it is one.
    fn helper(
        &self,
        function: &Function<'_>,
        helpers: Option<&Module<'_>>,
        errors: &mut Errors<'_>,
    ) -> bool {
        let Some(helpers) = helpers else { return false };
        let Some(helper) = helpers.functions().find(|f| f.name == function.name) else {
            return false;
        };
        if helper.span.text(helpers.source) != function.span.text(self.new.source) {
            let message = format!("`{}` is not the function that checks expect", function.name);
            errors.at(function.span, message);
        }
        true
    }

    /// Judges an item that the source has.
    fn item(&mut self, old_item: &'x Item<'a>, item: &'x Item<'a>, errors: &mut Errors<'_>) {
        match (old_item, item) {
            (Item::Function(original), Item::Function(function))
                if !original.is_entry || self.is_launched_by_kernels(original) =>
            {
                self.function((original, function), errors);
            }
            (Item::Function(original), Item::Function(function))
                if self.same_but_for_heap_calls((original, function)) =>
            {
                self.heap_sites((original, function), errors);
            }
            _ => {
                if span_of(old_item).text(self.old.source) != span_of(item).text(self.new.source) {
                    errors.at(span_of(item), "text of the source changed");
                }
                if let Item::Function(function) = item
                    && self.has_heap
                    && calls_heap(function)
                {
                    errors.at(span_of(item), "a call of malloc or free goes elsewhere");
                }
            }
        }
    }

    /// Whether kernels may launch an entry, which then must have its checks in
    /// place: they launch no copy.
    fn is_launched_by_kernels(&self, function: &Function<'_>) -> bool {
        self.checks && self.launched.contains(function.name)
    }

    /// Judges a function, in its place.
    fn function(&mut self, pair: Pair<'x, 'a>, errors: &mut Errors<'_>) {
        let (original, function) = pair;
        let head = |f: &Function<'_>, source: &str| {
            let end = f.body.as_ref().map_or(f.span.end, |body| body.span.start);
            source[f.span.start as usize..end as usize].to_owned()
        };
        if head(original, self.old.source) != head(function, self.new.source) {
            errors.at(function.span, "the head of a device function changed");
        }
        if !self.checks {
            self.only_redirected(pair, errors);
        } else if self.callees.unchecked.contains(original.name) {
            self.heap_sites(pair, errors);
            let is_local = original.linkage == ptx::Linkage::Local;
            if !is_local || self.mentioned.contains(original.name) {
                errors.at(
                    function.span,
                    "code that is not seen may call this function, which has no checks",
                );
            }
        } else if original.body.is_some() {
            self.compare(pair, errors);
        }
    }

    /// Finds the functions that are as they were although they have something
    /// to check.
    fn find_unchecked(&mut self) {
        let as_they_were: Vec<Pair<'x, 'a>> = self
            .old
            .functions()
            .filter(|f| !f.is_entry && f.body.is_some())
            .filter_map(|original| {
                let mut all = self.new.functions();
                let function = all.find(|f| f.name == original.name && f.body.is_some())?;
                let from = original.span.text(self.old.source);
                let is_same = from == function.span.text(self.new.source)
                    || self.same_but_for_heap_calls((original, function));
                is_same.then_some((original, function))
            })
            .collect();
        loop {
            let mut unchecked = self.callees.unchecked.clone();
            for &(original, function) in &as_they_were {
                // These errors are not reported; one error for the whole is.
                let mut aside = Errors::aside(self.new.source);
                if !unchecked.contains(original.name) {
                    self.follow((original, function), None, &mut aside);
                }
                if !aside.list.is_empty() {
                    unchecked.insert(original.name);
                }
            }
            if unchecked.len() == self.callees.unchecked.len() {
                return;
            }
            self.callees.unchecked = unchecked;
        }
    }

    /// Compares a checked body with its original, and numbers its sites.
    fn compare(&mut self, pair: Pair<'x, 'a>, errors: &mut Errors<'_>) {
        let (original, function) = pair;
        let (before, known) = self
            .numbers
            .get(original.name)
            .copied()
            .unwrap_or((self.sites, 0));
        let Some(followed) = self.follow(pair, Some(before), errors) else {
            errors.at(function.span, "a body where the source has none");
            return;
        };
        let heap_of = self.heap_of.remove(original.name);
        if heap_of.is_some_and(|sites| sites != followed.heap_sites) {
            errors.at(
                function.span,
                "the original names other calls of the device heap",
            );
        }
        let count = followed.sites.max(known);
        self.numbers.insert(original.name, (before, count));
        self.sites = self.sites.max(before + count);
        self.relies.extend(followed.relies);
        if function.name.starts_with(CHECKED_PREFIX) {
            self.orders.insert(original.name.to_owned(), followed.order);
        } else if is_residual(function) {
            self.orders.insert(function.name.to_owned(), followed.order);
            let unchecked = followed.unchecked.iter().map(|access| access.site);
            let unchecked = unchecked.collect();
            self.unchecked.insert(original.name.to_owned(), unchecked);
        }
    }

    /// Follows a body; `None` if there is none. `before`: its first site's
    /// number less one, if sites are numbered.
    fn follow(
        &self,
        (original, function): Pair<'x, 'a>,
        before: Option<u32>,
        errors: &mut Errors<'_>,
    ) -> Option<checks::Followed> {
        let analysis = Analysis::of(&self.symbols, original)?;
        let instructions = analysis.code.instructions.iter().enumerate();
        let index: FxHashMap<u32, usize> = instructions
            .map(|(index, inst)| (inst.instruction.span.start, index))
            .collect();
        let (from, to) = (statements::flatten(original), statements::flatten(function));
        let (old, new) = (self.old.source, self.new.source);
        let matched = statements::matched(&from, &to, old, new, errors);
        let mut parameters = function.parameters.iter();
        let launch = parameters.find(|p| p.name == LAUNCH_PARAMETER);
        let result = match (&original.returns[..], &function.returns[..]) {
            ([from], [to]) if from.size() != to.size() => {
                let from = from.size().unwrap_or(0).next_multiple_of(8);
                Some((to.name, from, to.size().unwrap_or(0)))
            }
            _ => None,
        };
        let nameable = Nameable::of(original, &self.symbols);
        let input = checks::Input {
            own_frame: own_frame(&analysis.code, &nameable),
            kept: analysis.kept_places(&nameable),
            has_clusters: analysis.code.instructions.iter().any(|inst| {
                let opcode = &inst.instruction.opcode;
                opcode.mnemonic() == Mnemonic::Mapa || opcode.has(Modifier::SharedCluster)
            }),
            analysis: &analysis,
            index: &index,
            symbols: &self.symbols,
            source: old,
            new,
            nameable,
            launch: launch.and_then(|p| p.size()),
            host: match original.is_entry {
                true => HostLimits::of(self.entries, original.name),
                false => HostLimits::default(),
            },
            indices: Indices::of(&analysis),
            endings: &self.endings,
            callees: &self.callees,
            texts: &self.texts,
            result,
            span: function.span,
            frees: self.has_heap && self.old.functions().any(|f| f.name == "free"),
            has_heap: self.has_heap,
            tag: self.tag,
            releases: self.old.architecture() >= 70,
            has_parameter_window: self.old.architecture() >= 70 && self.old.version >= (7, 7),
            sites_before: before,
            shadows: shadows(function),
            shadow: self.shadow,
            is_residual: is_residual(function),
            targets: &targets(original),
            counted: match function.span.text(new).contains(&label("ahead", "")) {
                true => Counted::all(&analysis, least_passes(self.shadow)),
                false => Vec::new(),
            },
        };
        let followed = checks::follow(&input, &matched, errors);
        if input.is_residual {
            let mut declared = self.entries.iter().filter(|_| self.is_output);
            let declared = declared.find(|entry| entry.name == original.name);
            let declared = declared.and_then(|entry| entry.residual.as_ref());
            residual::judge(&analysis, &followed.unchecked, declared, errors);
        }
        Some(followed)
    }

    /// The bounds that calls pass and receive must be those that the other side
    /// takes and returns.
    fn agree(&mut self, errors: &mut Errors<'_>) {
        for reliance in &self.relies {
            for function in &reliance.functions {
                let Some(order) = self.orders.get(function) else {
                    continue;
                };
                let order = match reliance.is_result {
                    true => &order.returned,
                    false => &order.takes,
                };
                let mut own = order.iter().filter(|(at, _)| *at == reliance.at).peekable();
                // Bounds that are never used may be any.
                let is_used = own.peek().is_some();
                if is_used && !own.any(|(_, offset)| reliance.offsets.contains(offset)) {
                    errors.at(
                        reliance.span,
                        format!("the value passed or returned at {} is not the bounds that `{function}` expects", reliance.at),
                    );
                }
            }
        }
    }

    /// Calls of the device heap in an original name their places, and no launch;
    /// the sites are those of its checked body, behind all others.
    fn heap_sites(&mut self, (original, function): Pair<'x, 'a>, errors: &mut Errors<'_>) {
        let (from, to) = (statements::flatten(original), statements::flatten(function));
        let mut aside = Errors::aside(self.new.source);
        let (old, new) = (self.old.source, self.new.source);
        let matched = statements::matched(&from, &to, old, new, &mut aside);
        let mut state = super::heap::HeapCalls::default();
        for piece in &matched {
            state.follow(piece, (new, self.tag), errors);
        }
        self.heap_of.insert(original.name, state.sites);
    }

    /// A function differs from the source's only in where calls of `malloc` and
    /// `free`, and of copies, go.
    fn only_redirected(&self, (original, function): Pair<'x, 'a>, errors: &mut Errors<'_>) {
        let (from, to) = (statements::flatten(original), statements::flatten(function));
        let (old, new) = (self.old.source, self.new.source);
        for piece in statements::matched(&from, &to, old, new, errors) {
            if let Some(span) = statements::beyond_heap_calls(&piece) {
                errors.at(span, "more than calls of malloc and free was changed");
            }
        }
    }

    /// Whether a function is the source's, with `malloc` and `free` redirected.
    fn same_but_for_heap_calls(&self, (original, function): Pair<'x, 'a>) -> bool {
        let (old, new) = (self.old, self.new);
        let (Some(from), Some(to)) = (&original.body, &function.body) else {
            return false;
        };
        let head = |f: &Function<'_>, source: &str, end: u32| {
            source[f.span.start as usize..end as usize].to_owned()
        };
        if head(original, old.source, from.span.start) != head(function, new.source, to.span.start)
        {
            return false;
        }
        // The text of the whole item shows the difference.
        let mut errors = Errors::aside(new.source);
        let (from, to) = (statements::flatten(original), statements::flatten(function));
        let matched = statements::matched(&from, &to, old.source, new.source, &mut errors);
        errors.list.is_empty() && statements::differs_in_heap_calls_only(&matched)
    }

    /// A copy has the original's parameters and directives, and at most the
    /// launch parameter more.
    fn signature(&self, (original, copy): Pair<'x, 'a>, errors: &mut Errors<'_>) {
        let (old, new) = (self.old, self.new);
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
                let header = size_of::<LaunchHeader>() as u64;
                let size = launch.size().unwrap_or(0);
                // Behind the bounds lie the limits of an entry, or the address that a call
                // of a function through a pointer had.
                if size < header || !(size - header).is_multiple_of(8) || launch.alignment() != 8 {
                    errors.at(
                        launch.span,
                        "the launch parameter is not a header, bounds and limits",
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
}

/// Whether a function is a copy in which only some accesses have checks.
fn is_residual(function: &Function<'_>) -> bool {
    function.name.starts_with(RESIDUAL_PREFIX)
}

fn span_of(item: &Item<'_>) -> Span {
    match item {
        Item::Header(span) | Item::Other(span) => *span,
        Item::File(file) => file.span,
        Item::Variable(variable) => variable.span,
        Item::Function(function) => function.span,
    }
}

/// Whether a function calls the driver's `malloc` or `free`.
fn calls_heap(function: &Function<'_>) -> bool {
    function
        .instructions()
        .any(|instruction| super::facts::heap_call(instruction).is_some())
}

/// How many registers of a function have bounds that travel.
fn shadows(function: &Function<'_>) -> u32 {
    let mut variables = function.statements().filter_map(|(_, s)| match s {
        Statement::Variable(variable) => Some(variable),
        _ => None,
    });
    let family = crate::protocol::family::SHADOW_BASE;
    let declared = variables.find(|variable| variable.name == family);
    declared.and_then(|variable| variable.range).unwrap_or(0)
}

/// The labels that statements of a function name.
fn targets<'a>(function: &Function<'a>) -> FxHashSet<&'a str> {
    let mut names = FxHashSet::default();
    for (_, statement) in function.statements() {
        match statement {
            Statement::Instruction(instruction) => {
                for operand in &instruction.operands {
                    operand.names(&mut |name| {
                        names.insert(name);
                    });
                }
            }
            Statement::Targets(targets) => names.extend(targets.names.iter().copied()),
            _ => {}
        }
    }
    names
}
