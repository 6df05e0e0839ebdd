//! Functions with fences before their accesses.

use super::bounded::Bounded;
use super::check::Found;
use super::lanes;
use super::looks::{self, Looks};
use super::near::Near;
use super::pointers::{Anchor, Pointers};
use super::refuse::{self, Refusals};
use super::selected;
use super::shared::{Group, Groups};
use super::text::{self, Accessed, Rows, Uses, Within, register as R};
use super::{FenceCounts, FenceForm, FencedSite, FencedVariable, arguments, clear, unwritten};
use crate::patch::{Patch, line};
use analysis::{
    Analysis, ModuleSymbols, Origin, Referent, Root, SymbolId, SymbolSpace, ValueId,
    end_of_declarations,
};
use model::layout::fence::{EXTENT, FRAMES, HEADROOM, ROOM, STACK, retired};
use ptx::table::{Access, Convergence, Effect, Extent, Info, Space, Width};
use ptx::{Address, Function, Guard, Instruction, Mnemonic, OperandKind, Statement, VariableSpace};
use rustc_hash::{FxHashMap, FxHashSet};

/// What the pass works with.
pub(super) struct Rewrite<'x, 's, 'a> {
    pub symbols: &'x ModuleSymbols<'a>,
    pub variables: &'x [FencedVariable],
    /// Bytes of the variable that holds the frames of all functions, if there is
    /// one.
    pub frames: Option<u64>,
    pub form: FenceForm,
    pub counts: FenceCounts,
    pub sites: Vec<FencedSite>,
    pub looks: &'x FxHashMap<&'a str, Looks>,
    /// Functions that access shared memory.
    pub shared: FxHashSet<&'a str>,
    /// Where in the output the heads of kernels go: place and name.
    pub entries: Vec<(usize, &'a str)>,
    pub refusals: &'x mut Refusals<'s>,
}

/// One function.
pub(super) struct Body<'f, 'm, 'a> {
    pub(super) analysis: &'f Analysis<'m, 'a>,
    registers: FxHashSet<String>,
    /// The one variable in local memory, if there is one.
    frame: Option<Within<'a>>,
    /// It holds the frames of callers and callees, too, and pointers into it go
    /// from one to the other.
    is_merged: bool,
    uses: Uses,
    pub(super) pointers: Pointers<'a>,
    groups: Groups,
    active: lanes::Active<'a>,
}

impl Body<'_, '_, '_> {
    /// Whether the function declares a register of this name.
    pub(super) fn has_register(&self, name: &str) -> bool {
        self.registers.contains(name)
    }
}

/// How one access is fenced.
pub(super) enum Fence<'a> {
    /// Its address is fixed by the text, and inside.
    Fixed,
    /// It names a variable that lies in the partition.
    Table(usize),
    Global,
    /// By a pointer that is fenced where it is made.
    Near(Bounded),
    Generic,
    Shared(SharedBase),
    Variable(Within<'a>),
    /// In one of several variables.
    OneOf(Vec<Within<'a>>),
}

/// What an address in shared memory is based on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SharedBase {
    Narrow,
    /// A register of 64 bits, or a variable.
    Wide,
}

impl<'a> Rewrite<'_, '_, 'a> {
    /// Appends a function with fences; as it is, if it has no body.
    pub(super) fn function(&mut self, function: &Function<'a>, source: &'a str, out: &mut String) {
        let span = (function.span.start, function.span.end);
        let mut patch = Patch::default();
        local_linkage(function, source, &mut patch);
        for directive in &function.directives {
            if directive.name == ".pragma" {
                patch.edit(directive.span.start, directive.span.end, |_| {});
            }
        }
        let Some(body) = &function.body else {
            patch.render(source, span, span.0, "", out);
            return;
        };
        let Some(analysis) = Analysis::of(self.symbols, function) else {
            return;
        };
        self.refusals.enter(Some(function.name));
        let looks = self.looks.get(function.name).cloned().unwrap_or_default();
        let padding = arguments::find(function);
        let start = body.span.start + 1;
        let head_at = end_of_declarations(function).unwrap_or(start);
        let mut state = Body {
            registers: registers(function),
            frame: self.frame(function),
            is_merged: is_merged(function),
            analysis: &analysis,
            uses: Uses::default(),
            pointers: Pointers::default(),
            groups: Groups::default(),
            active: lanes::Active::default(),
        };
        state.groups = self.groups(&state);
        let mut unwritten = unwritten::find(&analysis, &state.groups);
        state.uses.groups = state.groups.count;
        self.find_pointers(&mut state, &mut unwritten);
        let mut inside = Patch::default();
        let mut index = 0;
        let mut far = String::new();
        let mut frames = clear::Frames::new(head_at);
        for (depth, statement) in function.statements() {
            frames.statement(depth, statement, self.refusals, &mut inside);
            state.active.enter(depth);
            match statement {
                Statement::Pragma(span) => inside.edit(span.start, span.end, |_| {}),
                Statement::Loc(loc) => refuse::drop_names(loc, &mut inside),
                Statement::Variable(variable) => {
                    let place = (depth, head_at);
                    unwritten.later(place, variable, self.refusals, &mut inside);
                }
                Statement::Instruction(instruction) => {
                    padding.before(index, instruction, &mut inside);
                    looks.write(index, instruction.span.start, &mut inside);
                    if let Some(near) = looks.near.get(&index) {
                        let at = instruction.span.start;
                        inside.insert(at, |out| self.enter(&state, near, out));
                        self.far(&mut state, (index, near), source, &mut far);
                    }
                    match looks.back(index) {
                        Some(near) => go_back(near, instruction, &mut inside),
                        None => self.instruction(&mut state, index, instruction, &mut inside),
                    }
                    if looks::sleeps(instruction) {
                        inside.insert(instruction.span.end, |out| looks::after(instruction, out));
                    }
                    state.active.executed(instruction);
                    index += 1;
                }
                Statement::Label(_) => state.active.forget(),
                Statement::Other(span) => self.refusals.add(*span, "a directive is not understood"),
                _ => {}
            }
        }
        self.unwritten(&analysis, &padding);
        let mut head = String::new();
        text::head(self.form, state.uses, &mut head);
        for pointer in &state.pointers.initial {
            text::initial(pointer, &mut head);
        }
        let far_anchors = state.pointers.far.iter().flat_map(|far| far.anchors.keys());
        let mut made = state.pointers.anchors.keys().chain(far_anchors);
        if made.any(|at| !unwritten::is_sure(analysis.code.instructions[*at].instruction)) {
            line!(&mut head, "mov.b64 {}, 0;", R::RAW);
        }
        looks::head(&looks, function.is_entry, &mut head);
        unwritten.head(function, head_at, self.refusals, &mut head);
        head.push_str(&frames.head);
        self.refusals.enter(None);
        if looks.at_head {
            looks::look("", &mut head);
        }
        if function.is_entry || looks.are_there() {
            looks::retired(&mut far);
        }
        out_of_line(function, body.span.end - 1, &far, &mut inside);
        patch.render(source, (span.0, start), span.0, "", out);
        if function.is_entry {
            let before = out.len() + (head_at - start) as usize;
            self.entries.push((before + head.len(), function.name));
        }
        inside.render(source, (start, span.1), head_at, &head, out);
    }

    /// Refuses arguments that may be read before they are written.
    fn unwritten(&mut self, analysis: &Analysis<'_, 'a>, padding: &arguments::Padding) {
        for (at, name) in &padding.unwritten {
            let place = analysis.code.instructions[*at].instruction.span;
            let reason = format!("`{name}` may be read before it is written");
            self.refusals.add(place, reason);
        }
    }

    /// The pointers of a body, which need no first value of their own.
    fn find_pointers(
        &self,
        state: &mut Body<'_, '_, 'a>,
        unwritten: &mut unwritten::Unwritten<'a>,
    ) {
        // (The form that checks looks at each access.)
        if self.form != FenceForm::Check {
            state.pointers = self.pointers(state);
        }
        state.uses.addresses |= !state.pointers.near.is_empty();
        state.uses.partition |= !state.pointers.near.is_empty();
        // (Each gets an address of the partition, if it may be read before.)
        let far = state.pointers.far.iter().flat_map(|far| far.near.keys());
        for name in state.pointers.near.keys().chain(far) {
            unwritten.leave_out(name);
        }
    }

    /// Writes what comes before a loop whose passes are counted ahead.
    fn enter(&self, state: &Body<'_, '_, 'a>, near: &Near, out: &mut String) {
        let moving = &state.pointers.moving;
        let mut entry = String::new();
        for step in &near.moving.pointers {
            let Some(pointer) = moving.get(&step.update) else {
                continue;
            };
            line!(&mut entry, "mov.b64 {}, {};", R::RAW, pointer.register);
            // (All that makes it keeps its alignment.)
            let pointer = Anchor {
                is_aligned: true,
                ..*pointer
            };
            text::anchor(self.form, pointer, &mut entry);
        }
        near.begin(&entry, !moving.is_empty(), out);
    }

    /// Appends the far copy of a loop that begins with an instruction. It is fenced in each
    /// pass, and counted once.
    fn far(
        &mut self,
        state: &mut Body<'_, '_, 'a>,
        (first, near): (usize, &Near),
        source: &str,
        out: &mut String,
    ) {
        let code = &state.analysis.code;
        let function = code.function;
        let place = |index: usize| code.instructions[index].instruction.span.start;
        let (from, to) = (place(first), place(near.branch));
        let (counts, sites, entries) = (self.counts, self.sites.len(), self.refusals.len());
        // Pointers that are fenced before the loop are fenced in each pass.
        let mut pointers = state.pointers.far.take();
        if let Some(pointers) = &mut pointers {
            pointers.anchors.extend(&pointers.moving);
            std::mem::swap(&mut state.pointers, pointers);
        }
        let mut patch = Patch::default();
        let mut index = first;
        let is_inside = |span: ptx::Span| (from..to).contains(&span.start);
        for (_, statement) in function.statements() {
            match statement {
                Statement::Pragma(span) if is_inside(*span) => {
                    patch.edit(span.start, span.end, |_| {});
                }
                Statement::Loc(loc) if is_inside(loc.span) => refuse::drop_names(loc, &mut patch),
                // (It is declared already.)
                Statement::Variable(variable) if is_inside(variable.span) => {
                    patch.edit(variable.span.start, variable.span.end, |_| {});
                }
                Statement::Instruction(instruction) if is_inside(instruction.span) => {
                    self.instruction(state, index, instruction, &mut patch);
                    index += 1;
                }
                _ => {}
            }
        }
        if let Some(mut pointers) = pointers {
            std::mem::swap(&mut state.pointers, &mut pointers);
            state.pointers.far = Some(pointers);
        }
        self.counts = counts;
        self.sites.truncate(sites);
        self.refusals.truncate(entries);
        let (mut look, mut body) = (String::new(), String::new());
        looks::look("", &mut look);
        patch.render(source, (from, to), from, "", &mut body);
        near.far(&look, &body, out);
    }

    /// The variable in local memory that addresses without a known origin may
    /// point into.
    fn frame(&mut self, function: &Function<'a>) -> Option<Within<'a>> {
        if !function.is_entry && is_merged(function) {
            return self.frames.map(|size| Within { name: STACK, size });
        }
        let mut found = None;
        for (_, statement) in function.statements() {
            let Statement::Variable(variable) = statement else {
                continue;
            };
            if variable.space != VariableSpace::Local {
                continue;
            }
            if found.is_some() {
                self.refusals
                    .add(variable.span, "it has more than one frame");
            }
            found = variable.size().map(|size| Within {
                name: variable.name,
                size,
            });
        }
        found
    }

    fn instruction(
        &mut self,
        body: &mut Body<'_, '_, 'a>,
        index: usize,
        instruction: &Instruction<'a>,
        patch: &mut Patch,
    ) {
        let is_declared = |name: &str| body.registers.contains(name);
        if let Some(reason) = refuse::instruction(instruction) {
            self.refusals.add(instruction.span, reason);
            return;
        }
        if let Some(register) = refuse::special_register(instruction, is_declared) {
            self.refusals
                .add(instruction.span, format!("it reads `{register}`"));
            return;
        }
        let Some(info) = ptx::table::classify(instruction) else {
            let reason = format!("`{}` is not known", instruction.opcode.text);
            self.refusals.add(instruction.span, reason);
            return;
        };
        let is_understood = |(operand, _)| info.accesses.iter().any(|a| a.operand == operand);
        if !refuse::is_hint(instruction) && !instruction.addresses().all(is_understood) {
            self.refusals
                .add(instruction.span, "it has an address that is not understood");
            return;
        }
        let result = if ends_context(instruction).is_some() {
            body.uses.addresses = true;
            self.counts.retiring += 1;
            retire(instruction, patch);
            Ok(())
        } else if instruction.opcode.mnemonic() == Mnemonic::Brx {
            body.uses.addresses = true;
            jump(body.analysis, index, instruction, patch)
        } else if info.convergence != Convergence::None && info.accesses.is_empty() {
            let bounded = lanes::bound(instruction, &info, body.active.get(), patch);
            body.uses.lanes |= bounded == Ok(true);
            bounded.map(drop)
        } else if info.accesses.is_empty() {
            self.without_access(body, index, instruction, patch)
        } else {
            self.accesses(body, index, instruction, &info, patch)
        };
        if let Err(reason) = result {
            self.refusals.add(instruction.span, reason);
        }
        if let Some(anchor) = body.pointers.anchors.get(&index) {
            patch.insert(instruction.span.end, |out| {
                text::anchor(self.form, *anchor, out);
            });
        }
    }

    /// An instruction that accesses nothing; but it may take the address of a
    /// variable, which is in the table.
    fn without_access(
        &mut self,
        body: &mut Body<'_, '_, 'a>,
        index: usize,
        instruction: &Instruction<'a>,
        patch: &mut Patch,
    ) -> Result<(), String> {
        let code = &body.analysis.code;
        if body.pointers.anchors.contains_key(&index) {
            let made = instruction.operands[0].span;
            patch.edit(made.start, made.end, |out| out.push_str(R::RAW));
        }
        for reference in code.references_of(index) {
            let Referent::Symbol(symbol, offset) = reference.referent else {
                continue;
            };
            let symbol = code.symbols[symbol.0 as usize];
            if symbol.space != SymbolSpace::Global {
                continue;
            }
            let table = self.table_index(symbol.name)?;
            let is_move = matches!(
                instruction.opcode.mnemonic(),
                Mnemonic::Mov | Mnemonic::Cvta
            );
            let [destination, _] = &instruction.operands[..] else {
                return Err(format!("it uses the address of `{}`", symbol.name));
            };
            let OperandKind::Name(destination) = destination.kind else {
                return Err(format!("it uses the address of `{}`", symbol.name));
            };
            if !is_move {
                return Err(format!("it uses the address of `{}`", symbol.name));
            }
            let guard = guard_of(instruction);
            body.uses.addresses = true;
            let span = instruction.span;
            patch.edit(span.start, span.end, |out| {
                text::table(table, R::WIDE, out);
                crate::patch::put(
                    out,
                    format_args!("{guard}add.s64 {destination}, {}, {offset};", R::WIDE),
                );
            });
        }
        Ok(())
    }

    fn table_index(&self, name: &str) -> Result<usize, String> {
        let mut variables = self.variables.iter();
        let index = variables.position(|variable| variable.name == name);
        index.ok_or_else(|| format!("`{name}` is not defined in the module"))
    }

    fn accesses(
        &mut self,
        body: &mut Body<'_, '_, 'a>,
        index: usize,
        instruction: &Instruction<'a>,
        info: &Info,
        patch: &mut Patch,
    ) -> Result<(), String> {
        let mut before = String::new();
        if let Some(bytes) = body.groups.room(index) {
            text::enough(bytes, &mut before);
        }
        let mut operands = Vec::new();
        if body.pointers.anchors.contains_key(&index) {
            operands.push((0, R::RAW.to_owned()));
        }
        let mut room = None;
        use text::Extent::Bytes;
        for (number, access) in info.accesses.iter().enumerate() {
            let rows = rows_of(instruction, access);
            let bytes = match rows {
                Some(rows) => rows.bytes(),
                None => bytes_of(body, index, instruction, access)?,
            };
            if let Some(rows) = rows {
                text::rows(rows, &mut before);
                operands.push((rows.operand, R::ROWS.to_owned()));
                body.uses.rows = true;
                body.uses.addresses = true;
            }
            let accessed = Accessed {
                number,
                bytes,
                has_span: rows.is_some(),
                alignment: access.alignment,
                may_be_local: may_be_local(instruction, access),
            };
            let OperandKind::Address(address) = &instruction.operands[access.operand].kind else {
                return Err("it has an address without brackets".to_owned());
            };
            let fence = self.fence_of(body, index, access, address, (accessed, info))?;
            self.count(access.effect, &fence);
            if let (Some(rows), Fence::Shared(_) | Fence::Generic) = (rows, &fence) {
                text::span(rows, &mut before);
            }
            let group = body.groups.get(index, access.operand).copied();
            let is_large = rows.is_some() || bytes > ROOM;
            if matches!(fence, Fence::Shared(_)) && group.is_none() && is_large {
                // (An instruction with rows has no other access.)
                room = match (room, accessed.extent()) {
                    (Some(Bytes(a)), Bytes(b)) => Some(Bytes(a.max(b))),
                    (_, extent) => Some(extent),
                };
            }
            if access.space == Space::Shared || matches!(fence, Fence::Generic) {
                self.shared.insert(body.analysis.code.function.name);
            }
            body.uses.addresses |= !matches!(fence, Fence::Fixed);
            body.uses.partition |= matches!(fence, Fence::Global | Fence::Generic);
            body.uses.shared |= matches!(fence, Fence::Shared(_) | Fence::Generic);
            if matches!(fence, Fence::Global | Fence::Generic) && self.form == FenceForm::Check {
                self.sites.push(FencedSite {
                    function: body.analysis.code.function.name.to_owned(),
                    line: self.refusals.line(instruction.span),
                });
            }
            let guard = instruction.guard.map(predicate);
            let found = Found {
                site: self.sites.len() as u32,
                guard: guard.as_deref(),
                is_generic: matches!(fence, Fence::Generic),
            };
            let written = match group {
                Some(group) => in_group(&fence, address, (group, index), &mut before),
                None => self.write(body, &fence, address, (accessed, found), &mut before),
            };
            if let Some(to) = written {
                operands.push((access.operand, to));
            }
        }
        let span = instruction.span;
        let opcode = instruction.opcode.span.start;
        patch.edit(span.start, opcode, |out| {
            out.push_str(&before);
            match room {
                Some(bytes) => {
                    let also = instruction.guard.map(predicate);
                    text::room(bytes, also.as_deref(), R::GO, out);
                    crate::patch::put(out, format_args!("@{} ", R::GO));
                }
                None => out.push_str(&guard_of(instruction)),
            }
        });
        operands.sort_unstable_by_key(|(operand, _)| *operand);
        for (operand, to) in operands {
            let span = instruction.operands[operand].span;
            patch.edit(span.start, span.end, |out| out.push_str(&to));
        }
        Ok(())
    }

    fn count(&mut self, effect: Effect, fence: &Fence<'_>) {
        match effect {
            Effect::Read => self.counts.loads += 1,
            Effect::Write | Effect::Atomic => self.counts.stores += 1,
        }
        *match fence {
            Fence::Fixed | Fence::Table(_) => &mut self.counts.fixed,
            Fence::Global | Fence::Near(_) => &mut self.counts.global,
            Fence::Generic => &mut self.counts.generic,
            Fence::Shared(_) => &mut self.counts.shared,
            Fence::Variable(_) | Fence::OneOf(_) => &mut self.counts.variable,
        } += 1;
    }

    /// Which fence an access needs.
    pub(super) fn fence_of(
        &self,
        body: &Body<'_, '_, 'a>,
        index: usize,
        access: &Access,
        address: &Address<'a>,
        (accessed, info): (Accessed, &Info),
    ) -> Result<Fence<'a>, String> {
        let code = &body.analysis.code;
        if !address.coordinates.is_empty() {
            return Err("it takes coordinates".to_owned());
        }
        let reference = code.address_of(index, access.operand);
        let referent = reference.map(|reference| reference.referent);
        if let Some(Referent::Symbol(id, offset)) = referent {
            return self.of_symbol(body, id, offset, access.space, accessed);
        }
        let Some(base) = address.base.filter(|name| body.registers.contains(*name)) else {
            return Err("its address is a number".to_owned());
        };
        match access.space {
            Space::Param if !code.function.is_entry => {
                return Err("it indexes a parameter".to_owned());
            }
            Space::SharedCluster => return Err("it reaches other blocks of a cluster".to_owned()),
            Space::Tensor => return Err("it accesses tensor memory".to_owned()),
            _ => {}
        }
        let is_narrow = match referent {
            Some(Referent::Wide(register)) => code.is_narrow(register),
            _ => return Err(format!("`{base}` has no 64 bits")),
        };
        if is_narrow && access.space != Space::Shared {
            return Err(format!("`{base}` has no 64 bits"));
        }
        let origin = reference.map_or(Origin::Unknown, |reference| {
            body.analysis.provenance.origin(reference.value)
        });
        match access.space {
            Space::Global => Ok(body.global(base)),
            Space::Shared if is_narrow => Ok(Fence::Shared(SharedBase::Narrow)),
            Space::Shared => Ok(Fence::Shared(SharedBase::Wide)),
            Space::Generic if info.is_shared_only => {
                Err("it names no state space, where only shared memory is right".to_owned())
            }
            Space::Generic if self.is_global(body, origin) => Ok(body.global(base)),
            Space::Generic => Ok(Fence::Generic),
            Space::Local if body.is_merged => of_frames(body, accessed),
            _ => {
                let value = reference.map(|reference| reference.value);
                self.of_variable(body, (value, origin), access.space, accessed)
            }
        }
    }

    /// Whether a pointer can only be one into global memory.
    fn is_global(&self, body: &Body<'_, '_, 'a>, origin: Origin) -> bool {
        let Origin::Pointer {
            root,
            in_doubt: false,
            ..
        } = origin
        else {
            return false;
        };
        match body.analysis.provenance.root(root) {
            // The host has no addresses of other spaces.
            Some(Root::KernelParameter { .. }) => body.analysis.code.function.is_entry,
            Some(Root::Variable { .. }) => true,
            _ => false,
        }
    }

    /// An access by the name of a variable.
    fn of_symbol(
        &self,
        body: &Body<'_, '_, 'a>,
        id: SymbolId,
        offset: i64,
        space: Space,
        accessed: Accessed,
    ) -> Result<Fence<'a>, String> {
        let symbol = body.analysis.code.symbols[id.0 as usize];
        let alignment = i64::from(accessed.alignment);
        let is_inside = |size: u64| {
            u64::try_from(offset).is_ok_and(|at| {
                at.checked_add(accessed.bytes)
                    .is_some_and(|end| end <= size)
            })
        };
        let is_aligned = symbol.alignment >= accessed.alignment && offset % alignment == 0;
        let fits = symbol.size.is_some_and(is_inside) && is_aligned;
        match (symbol.space, space) {
            (SymbolSpace::Global, Space::Global | Space::Generic) => {
                let index = self.table_index(symbol.name)?;
                match fits {
                    true => Ok(Fence::Table(index)),
                    false => Err(format!("it leaves `{}`", symbol.name)),
                }
            }
            (SymbolSpace::Shared, Space::Shared) => match fits {
                true => Ok(Fence::Fixed),
                false => Ok(Fence::Shared(SharedBase::Wide)),
            },
            (SymbolSpace::Local, Space::Local) | (SymbolSpace::Const, Space::Const) => match fits {
                true => Ok(Fence::Fixed),
                false => Err(format!("it leaves `{}`", symbol.name)),
            },
            (
                SymbolSpace::EntryParameter { .. }
                | SymbolSpace::Argument { .. }
                | SymbolSpace::CallParameter,
                Space::Param,
            ) => match symbol.size.is_some_and(is_inside) {
                true => Ok(Fence::Fixed),
                false => Err(format!("it leaves `{}`", symbol.name)),
            },
            _ => Err(format!(
                "`{}` is not in the space that it names",
                symbol.name
            )),
        }
    }

    /// An access in local or constant memory, by a register.
    fn of_variable(
        &self,
        body: &Body<'_, '_, 'a>,
        (value, origin): (Option<ValueId>, Origin),
        space: Space,
        accessed: Accessed,
    ) -> Result<Fence<'a>, String> {
        let analysis = &body.analysis;
        let root = match origin {
            Origin::Pointer { root, .. } => analysis.provenance.root(root),
            _ => None,
        };
        if let Some(Root::Whole { symbol } | Root::Part { symbol, .. }) = root {
            return Ok(Fence::Variable(within(body, symbol, accessed)?));
        }
        // A kernel has no local memory but its own frame, which is one variable.
        let code = &analysis.code;
        if let Some(frame) = body.frame.filter(|_| code.function.is_entry)
            && space == Space::Local
            && let Some(at) = code.symbols.iter().position(|one| one.name == frame.name)
        {
            let symbol = SymbolId(at as u32);
            return Ok(Fence::Variable(within(body, symbol, accessed)?));
        }
        let selected = value.and_then(|value| selected::constants(analysis, value));
        let Some(selected) = selected.filter(|_| space == Space::Const) else {
            return Err("it is not known which variable it is in".to_owned());
        };
        let all = selected.into_iter();
        let all = all.map(|symbol| within(body, symbol, accessed));
        all.collect::<Result<_, _>>().map(Fence::OneOf)
    }

    /// Appends a fence; returns the text that replaces the operand, if it
    /// changes.
    fn write(
        &self,
        body: &Body<'_, '_, 'a>,
        fence: &Fence<'a>,
        address: &Address<'a>,
        (accessed, found): (Accessed, Found<'_>),
        out: &mut String,
    ) -> Option<String> {
        let own = format!("{}{}", R::ADDRESS, accessed.number);
        let (base, offset) = (address.base.unwrap_or("0"), address.offset);
        match fence {
            Fence::Fixed => None,
            Fence::Table(index) => {
                text::table(*index, &own, out);
                Some(format!("[{own}+{offset}]"))
            }
            Fence::Global => {
                let stays = offset.unsigned_abs() <= HEADROOM
                    && offset % i64::from(accessed.alignment) == 0;
                if stays {
                    text::global(self.form, base, accessed, found, out);
                    return Some(format!("[{own}+{offset}]"));
                }
                line!(out, "add.s64 {}, {base}, {offset};", R::WIDE);
                text::global(self.form, R::WIDE, accessed, found, out);
                Some(format!("[{own}]"))
            }
            Fence::Near(near) => {
                let alignment = i64::from(accessed.alignment);
                match (near.multiple >= accessed.alignment, offset % alignment == 0) {
                    (true, true) => None,
                    (false, true) => {
                        text::align(base, accessed, out);
                        Some(format!("[{own}+{offset}]"))
                    }
                    (_, false) => {
                        line!(out, "add.s64 {}, {base}, {offset};", R::WIDE);
                        text::align(R::WIDE, accessed, out);
                        Some(format!("[{own}]"))
                    }
                }
            }
            Fence::Generic => {
                line!(out, "add.s64 {}, {base}, {offset};", R::WIDE);
                let frame = body.frame.filter(|frame| frame.size >= accessed.bytes);
                let frame = frame.filter(|_| accessed.may_be_local);
                text::generic(self.form, frame, accessed, found, out);
                Some(format!("[{own}]"))
            }
            Fence::Shared(from) => {
                shared(*from, base, offset, accessed, out);
                line!(out, "cvt.u64.u32 {own}, {};", R::SHARED);
                Some(format!("[{own}]"))
            }
            Fence::Variable(within) => {
                line!(out, "add.s64 {}, {base}, {offset};", R::WIDE);
                text::variable(*within, R::WIDE, &own, accessed, out);
                Some(format!("[{own}]"))
            }
            Fence::OneOf(all) => {
                line!(out, "add.s64 {}, {base}, {offset};", R::WIDE);
                text::one_of(all, R::WIDE, &own, accessed, out);
                Some(format!("[{own}]"))
            }
        }
    }
}

/// A variable that an access is to stay in.
fn within<'a>(
    body: &Body<'_, '_, 'a>,
    symbol: SymbolId,
    accessed: Accessed,
) -> Result<Within<'a>, String> {
    let symbol = body.analysis.code.symbols[symbol.0 as usize];
    let Some(size) = symbol.size.filter(|size| *size >= accessed.bytes) else {
        return Err(format!("it leaves `{}`", symbol.name));
    };
    if symbol.alignment < accessed.alignment {
        return Err(format!("`{}` is less aligned than the access", symbol.name));
    }
    Ok(Within {
        name: symbol.name,
        size,
    })
}

/// Forces an address in shared memory into what the block has.
fn shared(from: SharedBase, base: &str, offset: i64, accessed: Accessed, out: &mut String) {
    match from {
        SharedBase::Narrow => line!(out, "add.s32 {}, {base}, {offset};", R::SHARED),
        SharedBase::Wide => {
            line!(out, "mov.u64 {}, {base};", R::WIDE);
            line!(out, "cvt.u32.u64 {}, {};", R::SHARED, R::WIDE);
            line!(out, "add.s32 {0}, {0}, {offset};", R::SHARED);
        }
    }
    text::shared(accessed, out);
}

/// Appends the fence of a group before its first access; returns the text that
/// replaces the operand.
fn in_group(
    fence: &Fence<'_>,
    address: &Address<'_>,
    (group, index): (Group, usize),
    out: &mut String,
) -> Option<String> {
    let Fence::Shared(from) = fence else {
        return None;
    };
    let own = format!("{}{}", R::GROUP, group.number);
    if group.first == index {
        let all = Accessed {
            number: 0,
            bytes: group.bytes,
            has_span: false,
            alignment: group.alignment,
            may_be_local: false,
        };
        shared(*from, address.base.unwrap_or("0"), group.least, all, out);
        line!(out, "cvt.u64.u32 {own}, {};", R::SHARED);
    }
    Some(format!("[{own}+{}]", address.offset - group.least))
}

/// Whether a function's frame is part of the variable of all frames.
fn is_merged(function: &Function<'_>) -> bool {
    let gets = |parameter: &ptx::Variable<'_>| parameter.name == STACK;
    let mut statements = function.statements();
    function.parameters.first().is_some_and(gets)
        || statements.any(|(_, s)| matches!(s, Statement::Variable(v) if v.name == FRAMES))
}

/// An access in local memory, where all frames are one variable.
fn of_frames<'a>(body: &Body<'_, '_, 'a>, accessed: Accessed) -> Result<Fence<'a>, String> {
    let frame = body.frame.filter(|frame| frame.size >= accessed.bytes);
    let frame = frame.ok_or_else(|| "it is larger than all frames".to_owned())?;
    Ok(Fence::Variable(frame))
}

/// The guard of an instruction as text, with a blank; nothing if it has none.
fn guard_of(instruction: &Instruction<'_>) -> String {
    let guard = instruction.guard.map(predicate);
    guard.map_or(String::new(), |predicate| format!("@{predicate} "))
}

/// The predicate of a guard, as an operand.
fn predicate(guard: Guard<'_>) -> String {
    let not = if guard.negated { "!" } else { "" };
    format!("{not}{}", guard.register)
}

/// Of an instruction that ends the context: where threads are counted that reach
/// it.
pub(super) fn ends_context(instruction: &Instruction<'_>) -> Option<u32> {
    match instruction.opcode.mnemonic() {
        Mnemonic::Trap => Some(retired::TRAPS),
        Mnemonic::Call => match instruction.called_function() {
            Some((_, refuse::ASSERT_FAIL)) => Some(retired::ASSERTS),
            _ => None,
        },
        _ => None,
    }
}

/// Retires the thread in the place of an instruction that ends the context.
fn retire(instruction: &Instruction<'_>, patch: &mut Patch) {
    let counter = ends_context(instruction).unwrap_or(retired::TRAPS);
    let (span, guard) = (instruction.span, guard_of(instruction));
    patch.edit(span.start, span.end, |out| {
        text::retire(&guard, counter, out);
    });
}

/// Bounds the index of a jump by a table.
fn jump(
    analysis: &Analysis<'_, '_>,
    at: usize,
    instruction: &Instruction<'_>,
    patch: &mut Patch,
) -> Result<(), String> {
    let [index, table] = &instruction.operands[..] else {
        return Err("its operands are not understood".to_owned());
    };
    let (OperandKind::Name(register), OperandKind::Name(table)) = (&index.kind, &table.kind) else {
        return Err("its operands are not understood".to_owned());
    };
    let targets = analysis.code.branch_targets(at, table);
    let Some(count) = targets.map(<[&str]>::len).filter(|count| *count > 0) else {
        return Err(format!("`{table}` is no table of labels"));
    };
    patch.insert(instruction.span.start, |out| {
        text::index(register, count, out);
    });
    patch.edit(index.span.start, index.span.end, |out| {
        out.push_str(R::INDEX)
    });
    Ok(())
}

/// Whether a generic address of an access may lead to local memory. Atomic
/// operations there, and accesses with an order, end the context (PTX ISA,
/// 9.7.13.6, 9.7.9.8).
fn may_be_local(instruction: &Instruction<'_>, access: &Access) -> bool {
    use ptx::Modifier as M;
    let has_order = [M::Relaxed, M::Acquire, M::Release, M::Mmio];
    let is_atomic = access.effect == Effect::Atomic
        || !matches!(
            instruction.opcode.mnemonic(),
            Mnemonic::Ld | Mnemonic::Ldu | Mnemonic::St
        );
    !is_atomic && !has_order.iter().any(|m| instruction.opcode.has(*m))
}

/// Bytes of an access, which must be in the text.
pub(super) fn bytes_of(
    body: &Body<'_, '_, '_>,
    index: usize,
    instruction: &Instruction<'_>,
    access: &Access,
) -> Result<u64, String> {
    let ignores_source = body.analysis.code.instructions[index].ignores_source;
    if !has_aligned_rows(instruction, access) {
        return Err("its rows are less aligned than the access".to_owned());
    }
    match ptx::table::extent(instruction, access, ignores_source) {
        Some(Extent::Bytes(bytes) | Extent::BytesUnless(bytes, _)) if bytes <= EXTENT => {
            Ok(bytes.max(1))
        }
        Some(Extent::Operand(_)) if instruction.opcode.mnemonic() == Mnemonic::Cp => {
            copied(instruction).ok_or_else(|| "its size is in a register".to_owned())
        }
        Some(Extent::Bytes(_) | Extent::BytesUnless(..)) => Err("it is too large".to_owned()),
        Some(Extent::Operand(_) | Extent::Steps { .. }) => {
            Err("its size is in a register".to_owned())
        }
        None => Err("its size is only in a descriptor".to_owned()),
    }
}

/// The largest power of two that distances between rows are made multiples of.
const MOST_MULTIPLE: u32 = 128;

/// The rows of a matrix, where a register holds the distance between them. What it is
/// bounded by is more than a matrix in memory has that the driver gives out.
fn rows_of<'a>(instruction: &Instruction<'a>, access: &Access) -> Option<Rows<'a>> {
    let Width::Matrix { element_bits, .. } = access.width else {
        return None;
    };
    let Some(Extent::Steps {
        step,
        shift: 0,
        last,
        operand,
    }) = ptx::table::extent(instruction, access, false)
    else {
        return None;
    };
    let OperandKind::Name(register) = instruction.operands.get(operand)?.kind else {
        return None;
    };
    let multiple = (8 * access.alignment).checked_div(element_bits)?.max(1);
    let most = EXTENT.checked_sub(last)?.checked_div(step)?;
    (multiple.is_power_of_two() && multiple <= MOST_MULTIPLE).then_some(Rows {
        operand,
        register,
        step,
        last,
        most: most - most % u64::from(multiple),
        multiple,
    })
}

/// Whether each row of a matrix is aligned if the first one is.
fn has_aligned_rows(instruction: &Instruction<'_>, access: &Access) -> bool {
    let Width::Matrix {
        element_bits,
        stride: Some(operand),
        ..
    } = access.width
    else {
        return true;
    };
    match instruction.operands.get(operand).map(|o| &o.kind) {
        Some(OperandKind::Integer(stride)) => {
            let bits = i128::from(*stride) * i128::from(element_bits);
            bits % (8 * i128::from(access.alignment)) == 0
        }
        // (In a register: it is refused for that.)
        _ => true,
    }
}

/// The most bytes that `cp.async` copies, for any `src-size`.
fn copied(instruction: &Instruction<'_>) -> Option<u64> {
    if instruction.opcode.has(ptx::Modifier::Bulk) {
        return None;
    }
    match instruction.operands.get(2)?.kind {
        OperandKind::Integer(bytes) => u64::try_from(bytes).ok(),
        _ => None,
    }
}

/// Functions are the module's own: of several files that define the same one,
/// each calls its own. (Kernels that are `.weak` are as visible as others.)
fn local_linkage(function: &Function<'_>, source: &str, patch: &mut Patch) {
    if function.linkage != ptx::Linkage::Weak || function.body.is_none() {
        return;
    }
    let text = function.span.text(source);
    let Some(at) = text.find(".weak") else { return };
    let start = function.span.start + at as u32;
    let linkage = if function.is_entry { ".visible" } else { "" };
    patch.edit(start, start + ".weak".len() as u32, |out| {
        out.push_str(linkage);
    });
}

/// The registers that a function declares, in any scope.
fn registers(function: &Function<'_>) -> FxHashSet<String> {
    let mut out = FxHashSet::default();
    for (_, statement) in function.statements() {
        let Statement::Variable(variable) = statement else {
            continue;
        };
        if variable.space != VariableSpace::Reg {
            continue;
        }
        match variable.range {
            Some(count) => {
                out.extend((0..count).map(|number| format!("{}{number}", variable.name)));
            }
            None => {
                out.insert(variable.name.to_owned());
            }
        }
    }
    let parameters = function.parameters.iter().chain(&function.returns);
    let in_registers = parameters.filter(|variable| variable.space == VariableSpace::Reg);
    out.extend(in_registers.map(|variable| variable.name.to_owned()));
    out
}

/// Has a branch go back to the loop, behind where its passes are counted.
fn go_back(near: &Near, branch: &Instruction<'_>, patch: &mut Patch) {
    let target = branch
        .operands
        .first()
        .map_or(branch.span, |target| target.span);
    patch.edit(target.start, target.end, |out| near.again(out));
    patch.insert(branch.span.end, |out| near.end(out));
}

/// Puts what is executed rarely behind the last instruction of a function, where its text
/// ends.
fn out_of_line(function: &Function<'_>, end: u32, text: &str, patch: &mut Patch) {
    if text.is_empty() {
        return;
    }
    let leaves = |instruction: &Instruction<'_>| {
        let mnemonic = instruction.opcode.mnemonic();
        instruction.guard.is_none() && matches!(mnemonic, Mnemonic::Ret | Mnemonic::Exit)
    };
    patch.insert(end, |out| {
        if !function.instructions().last().is_some_and(leaves) {
            line!(out, "\n\tret;");
        }
        out.push_str(text.trim_end());
        out.push('\n');
    });
}
