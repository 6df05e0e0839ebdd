//! A warp: 32 lanes, their registers, and the groups ("splits") that they
//! divide into where control diverges.
//!
//! Each split has its program counter, mask and call stack. The split that is
//! deepest in calls, then lowest in the program, runs first; splits that meet
//! at the same place with the same stack become one again, so divergent code
//! reconverges at the end of the construct that split it. A lane that waits in
//! a loop for another lane of its warp would starve that one: when a warp
//! makes no progress for a while, the split that has waited longest runs a
//! turn.

use super::context::Context;
use super::inst::{Counts, Flow, NONE};
use super::lanes::{FULL, Rows, lanes};
use crate::mapping::{AccessFault, Bytes, LANES};

/// Where a function's registers and local memory start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub base: Counts,
    /// Offset of the local frame in each lane's local memory.
    pub local: u32,
    /// Bytes behind the local frame that `alloca` has taken.
    pub taken: u32,
    pub function: u32,
}

/// A caller to return to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub return_pc: u32,
    /// Index into the program's call sites: what to copy back.
    pub site: u32,
    pub frame: Frame,
}

/// What a split waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing: it can run.
    Nothing,
    /// The lanes of a mask, at a `.sync` instruction.
    Lanes(u32),
    /// The lanes of a mask, at a warp barrier wherever it is.
    Warp(u32),
    /// The next phase of a barrier of the block.
    Barrier { id: u32, phase: u64 },
    /// The next phase of the cluster's barrier.
    Cluster { phase: u64 },
}

/// Lanes that execute together.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    pub pc: u32,
    pub mask: u32,
    pub frame: Frame,
    pub stack: Vec<Caller>,
    pub wait: Wait,
    /// Turn in which it last ran.
    pub ran: u64,
}

/// How a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceEnd {
    /// It can go on.
    Runnable,
    /// Every split waits.
    Blocked,
    /// All lanes have exited.
    Done,
    /// `context.fault` is set.
    Fault,
}

/// How many instructions a split that polls memory may execute, without any
/// change to the warp's splits, before another split runs.
const STALE_AFTER_ATOMICS: u32 = 1024;
/// The same without having touched such memory.
const STALE: u32 = 1 << 16;
/// Instructions of a turn given to the split that has waited longest.
const TURN: u32 = 256;
/// Most bytes of local memory a lane can have (CUDA C++ guide, table of
/// compute capabilities: 512 KB).
const LOCAL_MOST: u64 = 512 << 10;

/// A warp.
pub(crate) struct Warp {
    pub rows: Rows,
    /// Frame of the running split.
    pub frame: Frame,
    pub current: Split,
    /// The other splits.
    pub others: Vec<Split>,
    /// Lanes that exist and have not exited.
    pub alive: u32,
    /// Index within the block.
    pub index: u32,
    /// `%tid` by lane.
    pub thread: [[u32; LANES]; 3],
    /// `CC.CF` by lane.
    pub carry: u32,
    /// Local memory, lane after lane.
    pub local: Bytes,
    /// Bytes of a lane's local memory.
    pub stride: u64,
    /// The running split touched memory that others change.
    pub polled: bool,
    limit: u32,
    stale: u32,
    turns: u64,
}

impl Warp {
    pub fn new() -> Warp {
        Warp {
            rows: Rows::default(),
            frame: Frame::default(),
            current: Split {
                pc: 0,
                mask: 0,
                frame: Frame::default(),
                stack: Vec::new(),
                wait: Wait::Nothing,
                ran: 0,
            },
            others: Vec::new(),
            alive: 0,
            index: 0,
            thread: [[0; LANES]; 3],
            carry: 0,
            local: Bytes::default(),
            stride: 0,
            polled: false,
            limit: NONE,
            stale: 0,
            turns: 0,
        }
    }

    /// Start at an entry, as warp `index` of a block.
    pub fn start(&mut self, context: &Context<'_>, index: u32) {
        let [x, y, z] = context.launch.block;
        let threads = x * y * z;
        let first = index * LANES as u32;
        let mut mask = 0;
        for lane in 0..LANES as u32 {
            let linear = first + lane;
            self.thread[0][lane as usize] = linear % x;
            self.thread[1][lane as usize] = linear / x % y;
            self.thread[2][lane as usize] = linear / (x * y);
            if linear < threads {
                mask |= 1 << lane;
            }
        }
        let function = &context.program.functions[context.launch.function as usize];
        let residue = context.launch.residue;
        if residue != 0 {
            self.rows.clear();
        }
        self.rows.grow(function.counts, residue);
        self.frame = Frame {
            function: context.launch.function,
            ..Frame::default()
        };
        self.current = Split {
            pc: function.start,
            mask,
            frame: self.frame,
            stack: Vec::new(),
            wait: Wait::Nothing,
            ran: 0,
        };
        self.others.clear();
        self.alive = mask;
        self.index = index;
        self.carry = 0;
        self.limit = NONE;
        self.stale = 0;
        self.polled = false;
        let local = u64::from(function.local_size);
        self.stride = local.next_multiple_of(16);
        self.local.reset(self.stride * LANES as u64, residue);
    }

    /// Make local memory reach `size` bytes a lane, the new ones full of a byte;
    /// false if that is too much.
    pub fn grow_local(&mut self, size: u64, byte: u8) -> bool {
        if size <= self.stride {
            return true;
        }
        if size > LOCAL_MOST {
            return false;
        }
        let stride = size.next_power_of_two().max(256);
        let mut grown = Bytes::default();
        grown.reset(stride * LANES as u64, byte);
        let mut lane_bytes = vec![0; self.stride as usize];
        for lane in 0..LANES as u64 {
            let moved = self
                .local
                .read(lane * self.stride, &mut lane_bytes)
                .and_then(|()| grown.write(lane * stride, &lane_bytes));
            if moved.is_err() {
                return false;
            }
        }
        self.local = grown;
        self.stride = stride;
        true
    }

    /// Offset of a lane's local address, if `size` bytes fit.
    #[inline(always)]
    pub fn local_offset(&self, lane: usize, address: u64, size: u64) -> Result<u64, AccessFault> {
        if address
            .checked_add(size)
            .is_none_or(|end| end > self.stride)
        {
            return Err(AccessFault::Unmapped { address, size });
        }
        Ok(lane as u64 * self.stride + address)
    }

    /// Run until the budget is used up or nothing can go on.
    pub fn slice(&mut self, context: &mut Context<'_>, budget: u32) -> SliceEnd {
        if self.alive == 0 {
            return SliceEnd::Done;
        }
        let mut left = budget;
        if !self.resume(context, &mut left) {
            return SliceEnd::Blocked;
        }
        let code = &context.program.code[..];
        let mut pc = self.current.pc;
        let mut executed = 0u64;
        let end = loop {
            if left == 0 {
                self.current.pc = pc;
                break SliceEnd::Runnable;
            }
            left -= 1;
            let inst = &code[pc as usize];
            let mut mask = self.current.mask;
            if inst.guard != NONE {
                let pred = self.pred(context, inst.guard >> 1);
                mask &= if inst.guard & 1 == 0 { pred } else { !pred };
            }
            if mask == FULL {
                executed += 32 * u64::from(inst.counted);
            } else if mask == 0 {
                pc += 1;
                if pc >= self.limit {
                    self.current.pc = pc;
                    self.switch(context);
                    pc = self.current.pc;
                }
                continue;
            } else {
                executed += u64::from(mask.count_ones()) * u64::from(inst.counted);
            }
            self.current.pc = pc;
            match (inst.run)(self, context, inst, mask) {
                Flow::Next => {
                    pc += 1;
                    if pc < self.limit {
                        continue;
                    }
                    self.current.pc = pc;
                    self.switch(context);
                    pc = self.current.pc;
                }
                Flow::Jump => {
                    pc = self.current.pc;
                    if pc >= self.limit {
                        self.switch(context);
                        pc = self.current.pc;
                    }
                }
                Flow::Switch => {
                    if !self.switch(context) {
                        break if self.alive == 0 {
                            SliceEnd::Done
                        } else {
                            SliceEnd::Blocked
                        };
                    }
                    pc = self.current.pc;
                }
                Flow::Yield => {
                    self.current.pc = pc + 1;
                    break SliceEnd::Runnable;
                }
                Flow::Fault => break SliceEnd::Fault,
            }
        };
        context.executed += executed;
        self.stale = self.stale.saturating_add(budget - left);
        end
    }

    /// Choose what runs at the start of a slice.
    fn resume(&mut self, context: &Context<'_>, left: &mut u32) -> bool {
        self.turns += 1;
        if self.others.is_empty() && self.current.mask != 0 {
            return true;
        }
        let patience = if self.polled {
            STALE_AFTER_ATOMICS
        } else {
            STALE
        };
        if self.stale < patience {
            return self.switch(context);
        }
        // Someone may be waiting for a split that never gets its turn.
        self.stale = 0;
        self.polled = false;
        self.park_current();
        let oldest = (0..self.others.len())
            .filter(|&i| self.can_run(i, context))
            .min_by_key(|&i| self.others[i].ran);
        let Some(oldest) = oldest else { return false };
        self.take(oldest);
        self.limit = NONE;
        *left = (*left).min(TURN);
        true
    }

    fn park_current(&mut self) {
        if self.current.mask != 0 {
            self.current.frame = self.frame;
            let current = std::mem::replace(
                &mut self.current,
                Split {
                    pc: 0,
                    mask: 0,
                    frame: self.frame,
                    stack: Vec::new(),
                    wait: Wait::Nothing,
                    ran: 0,
                },
            );
            self.others.push(current);
        }
    }

    fn take(&mut self, index: usize) {
        self.current = self.others.swap_remove(index);
        self.current.wait = Wait::Nothing;
        self.current.ran = self.turns;
        self.frame = self.current.frame;
    }

    fn can_run(&self, index: usize, context: &Context<'_>) -> bool {
        match self.others[index].wait {
            Wait::Nothing => true,
            Wait::Lanes(_) | Wait::Warp(_) => false,
            Wait::Barrier { id, phase } => context.block().barriers[id as usize].phase != phase,
            Wait::Cluster { phase } => context.cluster_barrier.phase != phase,
        }
    }

    /// Put the current split back, if it has lanes, and choose the next.
    pub fn switch(&mut self, context: &Context<'_>) -> bool {
        self.park_current();
        let best = (0..self.others.len())
            .filter(|&i| self.can_run(i, context))
            .min_by_key(|&i| {
                (
                    std::cmp::Reverse(self.others[i].stack.len()),
                    self.others[i].pc,
                )
            });
        let Some(best) = best else { return false };
        self.take(best);
        let mut i = 0;
        while i < self.others.len() {
            let other = &self.others[i];
            if other.pc == self.current.pc
                && other.stack == self.current.stack
                && self.can_run(i, context)
            {
                self.current.mask |= other.mask;
                // Lanes that allocated different sizes continue with the
                // larger.
                self.frame.taken = self.frame.taken.max(other.frame.taken);
                self.others.swap_remove(i);
                self.stale = 0;
            } else {
                i += 1;
            }
        }
        self.set_limit(context);
        true
    }

    /// Where the current split meets another.
    fn set_limit(&mut self, context: &Context<'_>) {
        let depth = self.current.stack.len();
        self.limit = (0..self.others.len())
            .filter(|&i| self.others[i].stack.len() == depth && self.can_run(i, context))
            .map(|i| self.others[i].pc)
            .min()
            .unwrap_or(NONE);
    }

    /// Continue some lanes of the current split at `pc`, on their own.
    pub fn fork(&mut self, context: &Context<'_>, mask: u32, pc: u32) {
        self.fork_waiting(context, mask, pc, Wait::Nothing);
    }

    /// As [`Warp::fork`], parked.
    pub fn fork_waiting(&mut self, context: &Context<'_>, mask: u32, pc: u32, wait: Wait) {
        if mask == 0 {
            return;
        }
        self.current.mask &= !mask;
        let split = Split {
            pc,
            mask,
            frame: self.frame,
            stack: self.current.stack.clone(),
            wait,
            ran: self.turns,
        };
        self.others.push(split);
        self.set_limit(context);
    }

    /// Lanes of the current split jump; the rest falls through.
    #[inline(always)]
    pub fn branch(&mut self, context: &Context<'_>, taken: u32, target: u32) -> Flow {
        if taken != self.current.mask {
            self.fork(context, self.current.mask & !taken, self.current.pc + 1);
        }
        self.current.pc = target;
        Flow::Jump
    }

    /// The current split's lanes `mask` exit.
    pub fn exit(&mut self, context: &mut Context<'_>, mask: u32) -> Flow {
        self.alive &= !mask;
        self.current.mask &= !mask;
        self.stale = 0;
        context.lanes_exited(self.index, self.alive);
        self.release_lanes();
        if self.current.mask == 0 {
            return Flow::Switch;
        }
        self.current.pc += 1;
        Flow::Jump
    }

    /// Splits that wait at `.sync` for lanes which have all arrived or exited.
    pub fn release_lanes(&mut self) {
        for i in 0..self.others.len() {
            let (wait, pc) = (self.others[i].wait, self.others[i].pc);
            let (mask, anywhere) = match wait {
                Wait::Lanes(mask) => (mask, false),
                Wait::Warp(mask) => (mask, true),
                _ => continue,
            };
            let joins = |other: &Split| other.wait == wait && (anywhere || other.pc == pc);
            let there = self
                .others
                .iter()
                .filter(|o| joins(o))
                .fold(0, |m, o| m | o.mask);
            if mask & self.alive & !there == 0 {
                self.others
                    .iter_mut()
                    .filter(|o| joins(o))
                    .for_each(|o| o.wait = Wait::Nothing);
            }
        }
    }

    /// Lanes that wait at `.sync` for the same mask at the same place.
    pub fn waiting_here(&self, mask: u32) -> u32 {
        self.others
            .iter()
            .filter(|o| {
                o.wait == Wait::Lanes(mask)
                    && o.pc == self.current.pc
                    && o.stack == self.current.stack
            })
            .fold(0, |there, o| there | o.mask)
    }

    /// Take those lanes into the current split.
    pub fn join_waiting(&mut self, mask: u32) {
        let (pc, mut joined) = (self.current.pc, 0);
        let stack = std::mem::take(&mut self.current.stack);
        self.others.retain(|o| {
            let here = o.wait == Wait::Lanes(mask) && o.pc == pc && o.stack == stack;
            if here {
                joined |= o.mask;
            }
            !here
        });
        self.current.stack = stack;
        self.current.mask |= joined;
        self.stale = 0;
    }

    /// Where the warp stands: the running split, or one that waits.
    pub fn place(&self) -> (u32, u32) {
        if self.current.mask != 0 {
            return (self.current.pc, self.current.mask);
        }
        // Barriers set waiting splits behind themselves.
        self.others
            .first()
            .map_or((0, 1), |other| match other.wait {
                Wait::Barrier { .. } | Wait::Cluster { .. } | Wait::Warp(_) => {
                    (other.pc.saturating_sub(1), other.mask)
                }
                _ => (other.pc, other.mask),
            })
    }

    /// Thread index of the lowest lane of a mask.
    pub fn thread_of(&self, mask: u32) -> [u32; 3] {
        let lane = lanes(mask).next().unwrap_or(0);
        [
            self.thread[0][lane],
            self.thread[1][lane],
            self.thread[2][lane],
        ]
    }

    /// After the depth of calls changed.
    pub fn recompute_limit(&mut self, context: &Context<'_>) {
        self.set_limit(context);
    }
}
