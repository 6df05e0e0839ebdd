//! Checks of accesses that name a state space with addresses of its own. These
//! addresses have 32 bits, whatever register holds them. Where the program
//! computes an address in 32 bits, the check truncates it in the same way,
//! because the program may rely on the wrap. Where the program computes it in
//! 64 bits, the check compares all of them.
//!
//! What a check that fails keeps of the address for the record has 32 bits, too.
//!
//! Such a space has no sink: an access that fails its check is predicated off,
//! and the result of a read is zero.

use super::aligned::{Address, Aligned, or_misaligned};
use super::emit::{Emit, also_unless, constant_size};
use super::pieces::{limit, outside_only};
use super::plan::{Base, Group, Plan, Source};
use super::predicated_off::goes_on;
use super::text::*;
use super::window::Window;
use crate::patch::line;
use crate::protocol::{IN_SPACE_SITE, MOST_OBJECTS, OBJECT_SHIFT};
use analysis::{Analysis, Referent, RootId};
use ptx::table::Extent;
use ptx::{Guard, Instruction};

/// What is found of objects in spaces of their own where a record is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InSpace {
    /// The objects, in order.
    pub(super) objects: Vec<RootId>,
    /// The launch has the size of some.
    pub(super) is_dynamic: bool,
}

impl InSpace {
    /// Whether checks keep where their object begins.
    pub(super) fn are_many(&self) -> bool {
        self.objects.len() > MOST_OBJECTS
    }

    /// What a check of an object adds to its site.
    fn kept_of(&self, root: RootId) -> u32 {
        let number = match self.are_many() {
            true => 0,
            false => self.objects.binary_search(&root).unwrap_or(0),
        };
        IN_SPACE_SITE | (number as u32) << OBJECT_SHIFT
    }
}

impl Plan {
    /// The object that a group is compared with by 32 bits of addresses.
    pub(super) fn root_in_space(&self, group: &Group) -> Option<RootId> {
        match group.source {
            Source::Root(root) if group.window.is_some() && !group.is_wide => {
                self.needed_in_space.contains(&root).then_some(root)
            }
            _ => None,
        }
    }

    /// What records need of such objects; `None` if there are none.
    pub(super) fn in_space(&self, analysis: &Analysis<'_, '_>) -> Option<InSpace> {
        let groups = self.checked_groups();
        let roots = groups.filter_map(|group| self.root_in_space(group));
        let mut roots: Vec<RootId> = roots.collect();
        roots.sort_unstable();
        roots.dedup();
        let is_dynamic = |root: &RootId| constant_size(analysis, *root).is_none();
        (!roots.is_empty()).then(|| InSpace {
            is_dynamic: roots.iter().any(is_dynamic),
            objects: roots,
        })
    }
}

impl<'a> Emit<'_, '_, 'a> {
    /// The check that a group's first member carries.
    pub(super) fn check_in_window(
        &mut self,
        (number, group): (u32, &Group),
        window: Window,
        (index, operand): (usize, usize),
        name: &'a str,
        out: &mut String,
    ) {
        let instruction = self.analysis.code.instructions[index].instruction;
        let outside = Op::Family(KEPT, group.keeps.unwrap_or(0));
        let is_narrow = self.is_narrow(index, operand);
        let in_space = match group.source {
            Source::Root(root) if group.is_wide => {
                self.compare_wide((group, root), instruction, name, outside, out);
                self.conclude(number, group, instruction, outside, out);
                return;
            }
            Source::Root(root) => self.plan.needed_in_space.contains(&root),
            Source::Shadow(_) => false,
            _ => true,
        };
        if in_space {
            let pointer = match group.base {
                Base::Register(_) if is_narrow => Op::Program(name),
                Base::Register(_) => {
                    line!(out, "cvt.u32.u64 {POINTER32}, {name};");
                    POINTER32
                }
                Base::Symbol(_) => {
                    line!(out, "mov.u64 {SCRATCH}, {name};");
                    line!(out, "cvt.u32.u64 {POINTER32}, {SCRATCH};");
                    POINTER32
                }
            };
            self.compare_in_space(group, instruction, pointer, outside, out);
        } else {
            line!(
                out,
                "{} {GENERIC}, {name};",
                if is_narrow { "cvt.u64.u32" } else { "mov.b64" }
            );
            line!(out, "cvta.{}.u64 {GENERIC}, {GENERIC};", window.modifier());
            self.compare_generic(group, instruction, outside, out);
        }
        self.conclude(number, group, instruction, outside, out);
    }

    /// Keeps the site of a check that failed.
    fn conclude(
        &self,
        number: u32,
        group: &Group,
        instruction: &Instruction<'a>,
        outside: Op<'_>,
        out: &mut String,
    ) {
        let kept = match (self.plan.root_in_space(group), &self.in_space) {
            (Some(root), Some(in_space)) => in_space.kept_of(root),
            _ => 0,
        };
        line!(out, "@{outside} mov.u32 {SITE}, {};", group.site.0 | kept);
        if let Some(guard) = instruction.guard {
            // The verdict is only valid where the guard is true.
            goes_on(Op::Family(GO, number), guard, outside, out);
        }
    }

    /// Against a place, by addresses of its space, in 64 bits: the hardware
    /// cuts off the upper ones, but the program meant another address.
    fn compare_wide(
        &self,
        (group, root): (&Group, RootId),
        instruction: &Instruction<'a>,
        name: &str,
        outside: Op<'_>,
        out: &mut String,
    ) {
        let pointer = Op::Program(name);
        let base = Op::Family(IN_SPACE_WIDE, root.0);
        let size = self.constant_size(root);
        line!(out, "sub.s64 {OFFSET}, {pointer}, {base};");
        if group.low != 0 {
            line!(out, "add.s64 {OFFSET}, {OFFSET}, {};", group.low);
        }
        let whole = match size {
            Some(size) => Op::Constant(size),
            None => {
                line!(out, "cvt.u64.u32 {SCRATCH2}, {DYNAMIC};");
                SCRATCH2
            }
        };
        match group.extent {
            Extent::Bytes(bytes) | Extent::BytesUnless(bytes, _) => {
                let less = bytes - 1;
                let limit = match whole {
                    Op::Constant(size) => Op::Constant(size.max(less) - less),
                    size if less == 0 => size,
                    size => {
                        limit(SCRATCH, size, less, out);
                        SCRATCH
                    }
                };
                let offset = ("u64", OFFSET, Address::Wide(pointer));
                verdict(group, instruction.guard, outside, offset, limit, out);
            }
            Extent::Operand(_) | Extent::Steps { .. } => {
                let address = Address::Wide(pointer);
                self.counted(group, instruction, (address, whole), outside, out);
            }
        }
        also_unless(group, instruction, outside, out);
        line!(out, "@{outside} mov.b64 {RECORD_BASE}, {base};");
        if size.is_none() {
            line!(out, "@{outside} cvt.u64.u32 {RECORD_SIZE}, {DYNAMIC};");
        }
        line!(out, "@{outside} mov.b64 {ADDRESS}, {pointer};");
    }

    /// Whether the register that an operand has its address from has 32 bits.
    fn is_narrow(&self, index: usize, operand: usize) -> bool {
        let code = &self.analysis.code;
        matches!(
            code.address_of(index, operand).map(|reference| reference.referent),
            Some(Referent::Wide(register)) if code.is_narrow(register)
        )
    }

    /// Against a place, by addresses of its space.
    fn compare_in_space(
        &self,
        group: &Group,
        instruction: &Instruction<'a>,
        pointer: Op<'_>,
        outside: Op<'_>,
        out: &mut String,
    ) {
        let (base, size) = match group.source {
            Source::Root(root) => (
                Op::Family(IN_SPACE, root.0),
                self.constant_size(root).map_or(DYNAMIC, Op::Constant),
            ),
            Source::Declared(size) => (pointer, Op::Constant(size)),
            Source::Dynamic => (pointer, DYNAMIC),
            _ => (Op::Constant(0), BLOCK),
        };
        line!(out, "sub.s32 {OFFSET32}, {pointer}, {base};");
        if group.low != 0 {
            line!(out, "add.s32 {OFFSET32}, {OFFSET32}, {};", group.low as i32);
        }
        match group.extent {
            Extent::Bytes(bytes) | Extent::BytesUnless(bytes, _) => {
                let less = bytes - 1;
                let limit = match size {
                    Op::Constant(size) => {
                        Op::Constant((size.max(less) - less).min(u64::from(u32::MAX)))
                    }
                    size if less == 0 => size,
                    size => {
                        line!(out, "max.u32 {LIMIT32}, {size}, {less};");
                        line!(out, "sub.s32 {LIMIT32}, {LIMIT32}, {less};");
                        LIMIT32
                    }
                };
                let offset = ("u32", OFFSET32, Address::Narrow(pointer));
                verdict(group, instruction.guard, outside, offset, limit, out);
            }
            Extent::Operand(_) | Extent::Steps { .. } => {
                line!(out, "cvt.u64.u32 {OFFSET}, {OFFSET32};");
                let size = match size {
                    Op::Constant(_) => size,
                    size => {
                        line!(out, "cvt.u64.u32 {SCRATCH2}, {size};");
                        SCRATCH2
                    }
                };
                let address = Address::Narrow(pointer);
                self.counted(group, instruction, (address, size), outside, out);
            }
        }
        also_unless(group, instruction, outside, out);
        if self.plan.root_in_space(group).is_some() {
            if self.in_space.as_ref().is_some_and(InSpace::are_many) {
                line!(out, "@{outside} mov.b32 {SPACE_BASE}, {base};");
            }
            line!(out, "@{outside} mov.b32 {SPACE_ADDRESS}, {pointer};");
            return;
        }
        for (record, value) in [(RECORD_BASE, base), (RECORD_SIZE, size), (ADDRESS, pointer)] {
            match value {
                // The site has the size.
                Op::Constant(_) if record == RECORD_SIZE => {}
                Op::Constant(_) => line!(out, "@{outside} mov.b64 {record}, {value};"),
                _ => line!(out, "@{outside} cvt.u64.u32 {record}, {value};"),
            }
        }
    }

    /// Against bounds that are known as generic addresses: `GENERIC` is the
    /// pointer.
    fn compare_generic(
        &self,
        group: &Group,
        instruction: &Instruction<'a>,
        outside: Op<'_>,
        out: &mut String,
    ) {
        let (base, size) = self.generic_bounds(group.source);
        line!(out, "sub.s64 {OFFSET}, {GENERIC}, {base};");
        if group.low != 0 {
            line!(out, "add.s64 {OFFSET}, {OFFSET}, {};", group.low);
        }
        match group.extent {
            Extent::Bytes(bytes) | Extent::BytesUnless(bytes, _) => {
                let less = bytes - 1;
                let limit = match size {
                    Op::Constant(size) => Op::Constant(size.max(less) - less),
                    size if less == 0 => size,
                    size => {
                        limit(SCRATCH, size, less, out);
                        SCRATCH
                    }
                };
                let offset = ("u64", OFFSET, Address::Wide(GENERIC));
                verdict(group, instruction.guard, outside, offset, limit, out);
            }
            Extent::Operand(_) | Extent::Steps { .. } => {
                let address = Address::Wide(GENERIC);
                self.counted(group, instruction, (address, size), outside, out);
            }
        }
        also_unless(group, instruction, outside, out);
        line!(out, "@{outside} mov.b64 {RECORD_BASE}, {base};");
        line!(out, "@{outside} mov.b64 {RECORD_SIZE}, {size};");
        line!(out, "@{outside} mov.b64 {ADDRESS}, {GENERIC};");
    }
}

/// `outside = offset >= limit`, or misaligned, under the program's guard.
fn verdict(
    group: &Group,
    guard: Option<Guard<'_>>,
    outside: Op<'_>,
    (ty, offset, address): (&str, Op<'_>, Address<'_>),
    limit: Op<'_>,
    out: &mut String,
) {
    match guard {
        _ if group.aligned == Aligned::Tested => {
            line!(out, "setp.ge.{ty} {outside}, {offset}, {limit};");
            or_misaligned(group, address, outside, out);
            if let Some(guard) = guard {
                outside_only(outside, guard.register, guard.negated, out);
            }
        }
        None => line!(out, "setp.ge.{ty} {outside}, {offset}, {limit};"),
        Some(Guard {
            negated, register, ..
        }) => {
            let not = if negated { "!" } else { "" };
            line!(
                out,
                "setp.ge.and.{ty} {outside}, {offset}, {limit}, {not}{register};"
            );
        }
    }
}
