//! The code that must define the bounds of a root, by its kind.

use super::checks::{Input, State, Text};
use super::facts::{Frame, constant_size, is_found_on_device, made_by, mapped_place, name_of};
use super::narrowed::narrowed_text;
use super::roots::under;
use super::written::{look_up_into, only_under, root, still};
use crate::protocol::family::{IN_SPACE, SHADOW_BASE, SHADOW_SIZE};
use crate::protocol::register::{
    DYNAMIC, OFFSET, OFFSET32, OTHER, OUTSIDE, POINTER32, SCRATCH, SCRATCH2,
};
use analysis::{BYTES_REGISTER, Root, RootId, SymbolSpace, ValueId};
use model::layout::UNBOUNDED;
use ptx::{Instruction, OperandKind};
use std::fmt::Write;

impl State {
    /// What computes the limits that depend on a root's size.
    pub(super) fn limits_of(&self, id: RootId) -> Text {
        let limits = self.roots.limits.iter();
        let own = limits.filter(|(_, limit)| limit.root == id.0);
        own.map(|(number, limit)| limit.text(*number)).collect()
    }

    /// The bounds of a root that an instruction makes.
    pub(super) fn root_text(
        &mut self,
        id: RootId,
        value: ValueId,
        input: &Input<'_, '_, '_>,
    ) -> Option<Text> {
        let analysis = input.analysis;
        let pointer = name_of(analysis, value)?;
        let instruction = made_by(analysis, value)?;
        let instruction = analysis.code.instructions[instruction as usize].instruction;
        let (base, size) = root(id.0);
        Some(match analysis.provenance.root(id)? {
            Root::Declared { .. } => {
                format!("mov.b64 {base}, {pointer}; mov.b64 {size}, {BYTES_REGISTER}; ")
            }
            Root::Field { parent, .. } => {
                self.field_text((value, parent), instruction, (&base, &size), input)
            }
            Root::Alloca { .. } => {
                let bytes = match instruction.operands.get(1).map(|o| &o.kind) {
                    Some(OperandKind::Name(name)) => (*name).to_owned(),
                    Some(OperandKind::Integer(bytes)) => bytes.to_string(),
                    _ => UNBOUNDED.to_string(),
                };
                format!("cvta.local.u64 {base}, {pointer}; mov.b64 {size}, {bytes}; ")
            }
            Root::Mapped { .. } => {
                self.mapped_text((value, pointer), instruction, (&base, &size), input)?
            }
            _ => {
                let guard = under(instruction);
                let is_from_result = self.roots.from_results.contains(&id.0);
                let bounds = (&base[..], &size[..]);
                let mut text = match is_from_result {
                    true => Text::new(),
                    false => look_up_into(pointer, &guard, bounds),
                };
                text += &own_frame_text(pointer, &guard, bounds, is_from_result, input);
                if !is_from_result {
                    text += &narrowed_text(pointer, &guard, bounds, input);
                }
                text
            }
        })
    }

    /// The bounds of a field whose element an addition makes the address of:
    /// its own where it lies within its parent's, else those.
    fn field_text(
        &mut self,
        (value, parent): (ValueId, RootId),
        instruction: &Instruction<'_>,
        (base, size): (&str, &str),
        input: &Input<'_, '_, '_>,
    ) -> Text {
        let (whole, whole_size) = self.root_bounds(parent, input);
        let field = input.analysis.provenance.field(value).and_then(|field| {
            let operand = instruction.operands.get(usize::from(field.operand))?;
            match operand.kind {
                OperandKind::Name(address) => Some((address, field.bytes)),
                _ => None,
            }
        });
        let Some((address, bytes)) = field else {
            return format!("mov.b64 {base}, {whole}; mov.b64 {size}, {whole_size}; ");
        };
        let less = bytes - 1;
        let (room, limit) = match whole_size.parse::<u64>() {
            Ok(size) => ((size.max(less) - less).to_string(), Text::new()),
            Err(_) => (
                SCRATCH.to_owned(),
                format!(
                    "max.u64 {SCRATCH}, {whole_size}, {less}; sub.s64 {SCRATCH}, {SCRATCH}, {less}; "
                ),
            ),
        };
        format!(
            "sub.s64 {OFFSET}, {address}, {whole}; {limit} setp.ge.u64 {OUTSIDE}, {OFFSET}, {room}; \
             selp.b64 {base}, {whole}, {address}, {OUTSIDE}; \
             selp.b64 {size}, {whole_size}, {bytes}, {OUTSIDE}; "
        )
    }

    /// The bounds, in another block, of the place whose address `mapa` takes
    /// there: what it made, less how far its operand is from the own place.
    fn mapped_text(
        &mut self,
        (value, pointer): (ValueId, &str),
        instruction: &Instruction<'_>,
        (base, size): (&str, &str),
        input: &Input<'_, '_, '_>,
    ) -> Option<Text> {
        let analysis = input.analysis;
        let (place, in_space) = mapped_place(analysis, value)?;
        let OperandKind::Name(own) = instruction.operands.get(1)?.kind else {
            return None;
        };
        let register = analysis.ssa.value(value)?.register;
        let mut text = match (in_space, analysis.code.is_narrow(register)) {
            (true, is_narrow) => {
                self.roots.used_in_space.insert((false, place.0));
                let (to, from) = match is_narrow {
                    true => ("cvt.u64.u32", "mov.b32"),
                    false => ("mov.b64", "cvt.u32.u64"),
                };
                let here = format!("{IN_SPACE}{}", place.0);
                format!(
                    "{to} {base}, {pointer}; {from} {POINTER32}, {own}; \
                     cvta.shared::cluster.u64 {base}, {base}; \
                     sub.s32 {OFFSET32}, {POINTER32}, {here}; cvt.s64.s32 {SCRATCH}, {OFFSET32}; \
                     sub.s64 {base}, {base}, {SCRATCH}; "
                )
            }
            (false, _) => {
                let here = self.root_bounds(place, input).0;
                format!("sub.s64 {SCRATCH}, {own}, {here}; sub.s64 {base}, {pointer}, {SCRATCH}; ")
            }
        };
        text += &match constant_size(analysis, place) {
            Some(bytes) => format!("mov.b64 {size}, {bytes}; "),
            None => format!("cvt.u64.u32 {size}, {DYNAMIC}; "),
        };
        Some(text)
    }

    /// Code that looks up all bounds again that may be of a block on the device
    /// heap.
    pub(super) fn refreshed(&self, input: &Input<'_, '_, '_>) -> Text {
        let mut text = Text::new();
        for &id in &self.roots.all {
            let kind = input.analysis.provenance.root(RootId(id));
            if is_found_on_device(input.analysis, kind) {
                let (base, size) = root(id);
                text += &still(&base, &size);
                text += &self.limits_of(RootId(id));
            }
        }
        for n in 0..input.shadows {
            text += &still(&format!("{SHADOW_BASE}{n}"), &format!("{SHADOW_SIZE}{n}"));
        }
        text
    }
}

/// The generic address of a place, and its size where only the launch has it.
pub(super) fn place_text(id: RootId, input: &Input<'_, '_, '_>) -> Option<Text> {
    let place = input.analysis.place(id)?;
    let space = match place.space {
        SymbolSpace::Shared => "shared",
        SymbolSpace::Local => "local",
        SymbolSpace::Const => "const",
        SymbolSpace::EntryParameter { .. } => "param",
        _ => return None,
    };
    let name = input.analysis.code.symbols[place.symbol.0 as usize].name;
    let (base, size) = root(id.0);
    let mut text = format!("mov.u64 {base}, {name}; cvta.{space}.u64 {base}, {base}; ");
    if place.start > 0 {
        let _ = write!(text, "add.s64 {base}, {base}, {}; ", place.start);
    }
    if place.size.is_none() {
        let _ = write!(text, "cvt.u64.u32 {size}, {DYNAMIC}; ");
    }
    Some(text)
}

/// A pointer that appears in an entry and points into local memory points into
/// the entry's own frame, or to what a function left behind.
fn own_frame_text(
    pointer: &str,
    guard: &str,
    (base, size): (&str, &str),
    is_from_result: bool,
    input: &Input<'_, '_, '_>,
) -> Text {
    let Some(own) = input.own_frame else {
        return Text::new();
    };
    let mut text = format!("isspacep.local {OUTSIDE}, {pointer}; ");
    if is_from_result {
        let _ = write!(
            text,
            "setp.eq.and.s64 {OUTSIDE}, {size}, {UNBOUNDED}, {OUTSIDE}; "
        );
    }
    text += &only_under(OUTSIDE, guard);
    let _ = match own {
        Frame::None => write!(
            text,
            "@{OUTSIDE} mov.b64 {base}, {pointer}; @{OUTSIDE} mov.b64 {size}, 0; "
        ),
        Frame::One(symbol, bytes) => write!(
            text,
            "mov.u64 {SCRATCH}, {}; cvta.local.u64 {SCRATCH}, {SCRATCH}; \
             sub.s64 {SCRATCH2}, {pointer}, {SCRATCH}; setp.le.u64 {OTHER}, {SCRATCH2}, {bytes}; \
             selp.b64 {SCRATCH}, {SCRATCH}, {pointer}, {OTHER}; \
             selp.b64 {SCRATCH2}, {bytes}, 0, {OTHER}; \
             @{OUTSIDE} mov.b64 {base}, {SCRATCH}; @{OUTSIDE} mov.b64 {size}, {SCRATCH2}; ",
            input.analysis.code.symbols[symbol.0 as usize].name
        ),
    };
    text
}
