//! What the warps of a worker share: program, launch, memory, and the blocks
//! that are resident on the worker.

use super::children::Children;
use super::fault::{Fault, FaultKind};
use super::heap::DeviceHeap;
use super::inst::Flow;
use super::program::{Code, ProgramInfo};
use super::warp::Warp;
use crate::engine::ops::image::Image;
use crate::mapping::{AccessFault, Bytes, View, Wide};
use parking_lot::Mutex;
use std::sync::Arc;

/// What is the same for every thread of a launch.
pub(crate) struct Launch<'a> {
    pub function: u32,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub dynamic_shared: u32,
    /// Where dynamic shared memory begins.
    pub dynamic_start: u32,
    /// Where shared memory ends: reserved, static and dynamic.
    pub shared_end: u32,
    /// What registers, shared and local memory are full of at first.
    pub residue: u8,
    pub params: Bytes,
    pub heap: &'a DeviceHeap,
    /// Workspace of grid-wide synchronization (`%envreg1`, `%envreg2`).
    pub workspace: u64,
    /// What the grid's threads launch.
    pub children: &'a Children,
    /// What `printf` wrote.
    pub output: &'a Mutex<Vec<u8>>,
    /// What failed assertions wrote.
    pub errors: &'a Mutex<Vec<u8>>,
    pub started: std::time::Instant,
    pub workers: u32,
}

/// A named barrier of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Barrier {
    /// Times it completed.
    pub phase: u64,
    /// Lanes that arrived in this phase, by warp.
    pub arrived: Vec<u32>,
    /// Threads that it waits for; 0: all of the block.
    pub threads: u32,
    /// What the threads do that arrived in this phase: nothing, or a reduction.
    pub operation: Option<u64>,
    /// `bar.red`: threads whose predicate was true, this phase.
    pub count: u32,
    /// `bar.red`: threads that took part, this phase.
    pub total: u32,
    /// `bar.red`: both numbers of the phase that completed last.
    pub result: (u32, u32),
}

/// Number of named barriers (PTX ISA, `barrier`).
pub(crate) const BARRIERS: usize = 16;

/// A resident block.
pub(crate) struct Block {
    pub index: [u32; 3],
    /// Rank in its cluster.
    pub rank: u32,
    pub shared: Bytes,
    pub barriers: Vec<Barrier>,
    /// Lanes that have not exited, by warp.
    pub alive: Vec<u32>,
}

/// State of a worker.
pub(crate) struct Context<'a> {
    pub program: &'a Code,
    pub info: &'a ProgramInfo,
    pub launch: &'a Launch<'a>,
    pub view: View<'a>,
    pub wide: Option<Wide>,
    /// Resident blocks; those of one cluster are consecutive from `cluster_first` on.
    pub blocks: Vec<Block>,
    /// Index of the running block.
    pub current: usize,
    /// Index of the first block of its cluster.
    pub cluster_first: usize,
    /// Barrier of the running block's cluster.
    pub cluster_barrier: ClusterBarrier,
    /// Identifies the worker: `%smid`.
    pub worker: u32,
    pub executed: u64,
    pub fault: Option<Fault>,
    /// The texture or surface that was used last, and its object.
    pub image: Option<(u64, Arc<Image>)>,
    /// The shortest `nanosleep` of the slice, in nanoseconds.
    pub slept: Option<u32>,
}

/// Barrier of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterBarrier {
    pub phase: u64,
    /// Lanes that arrived, by block rank and warp.
    pub arrived: Vec<Vec<u32>>,
}

impl Context<'_> {
    #[inline(always)]
    pub fn block(&self) -> &Block {
        &self.blocks[self.current]
    }

    #[inline(always)]
    pub fn block_mut(&mut self) -> &mut Block {
        &mut self.blocks[self.current]
    }

    /// Lanes of a warp exited: barriers no longer wait for them.
    pub fn lanes_exited(&mut self, warp: u32, alive: u32) {
        let block = self.block_mut();
        block.alive[warp as usize] = alive;
        for id in 0..BARRIERS {
            block.complete(id);
        }
        self.complete_cluster();
    }

    /// Complete the cluster's barrier if every live lane has arrived.
    pub fn complete_cluster(&mut self) {
        let barrier = &mut self.cluster_barrier;
        if barrier.arrived.iter().flatten().all(|mask| *mask == 0) {
            return;
        }
        let blocks = &self.blocks[self.cluster_first..self.cluster_first + barrier.arrived.len()];
        let all = blocks.iter().zip(&barrier.arrived).all(|(block, arrived)| {
            block
                .alive
                .iter()
                .zip(arrived)
                .all(|(alive, arrived)| alive & !arrived == 0)
        });
        if all {
            barrier.phase += 1;
            barrier
                .arrived
                .iter_mut()
                .flatten()
                .for_each(|mask| *mask = 0);
        }
    }

    /// End the launch.
    pub fn fail(
        &mut self,
        warp: &Warp,
        mask: u32,
        kind: FaultKind,
        address: u64,
        message: String,
    ) -> Flow {
        self.fail_at(warp, (warp.current.pc, mask), kind, address, message);
        Flow::Fault
    }

    /// End the launch at a place ([`Warp::place`]) that is not the running
    /// instruction.
    pub fn fail_at(
        &mut self,
        warp: &Warp,
        (pc, mask): (u32, u32),
        kind: FaultKind,
        address: u64,
        message: String,
    ) {
        let place = &self.info.places[pc as usize];
        self.fault = Some(Fault {
            kind,
            kernel: self.info.functions[self.launch.function as usize]
                .name
                .clone(),
            ptx_line: place.line,
            opcode: self.info.opcodes[place.opcode as usize].clone(),
            source: self.info.source(place).map(Box::new),
            block: self.block().index,
            thread: warp.thread_of(mask),
            address,
            message,
        });
    }

    /// End the launch for an access of one lane.
    pub fn fail_access(
        &mut self,
        warp: &Warp,
        lane: usize,
        fault: AccessFault,
        space: &str,
    ) -> Flow {
        let (kind, address, what) = match fault {
            AccessFault::Unmapped { address, size } => (
                FaultKind::IllegalAddress,
                address,
                format!("illegal address: {size} bytes at {address:#x} of {space} memory"),
            ),
            AccessFault::ReadOnly { address, size } => (
                FaultKind::IllegalAddress,
                address,
                format!("write of {size} bytes to read-only {space} memory at {address:#x}"),
            ),
            AccessFault::Space { address, size } => (
                FaultKind::InvalidAddressSpace,
                address,
                format!("atomic access of {size} bytes at {address:#x}, in local memory"),
            ),
            AccessFault::Misaligned { address, size } => (
                FaultKind::MisalignedAddress,
                address,
                format!("misaligned address: {size} bytes at {address:#x} of {space} memory"),
            ),
        };
        self.fail(warp, 1 << lane, kind, address, what)
    }
}

impl Block {
    /// Complete a barrier if all that it waits for have arrived.
    pub fn complete(&mut self, id: usize) {
        let barrier = &mut self.barriers[id];
        if barrier.arrived.iter().all(|mask| *mask == 0) {
            return;
        }
        let done = if barrier.threads == 0 {
            self.alive
                .iter()
                .zip(&barrier.arrived)
                .all(|(alive, arrived)| alive & !arrived == 0)
        } else {
            // Threads are counted in whole warps (PTX ISA, `barrier`).
            let warps = self
                .alive
                .iter()
                .zip(&barrier.arrived)
                .filter(|(alive, arrived)| **arrived != 0 && **alive & !**arrived == 0);
            warps.count() as u32 * 32 >= barrier.threads
        };
        if done {
            barrier.phase += 1;
            barrier.result = (barrier.count, barrier.total);
            (barrier.count, barrier.total) = (0, 0);
            barrier.threads = 0;
            barrier.operation = None;
            barrier.arrived.iter_mut().for_each(|mask| *mask = 0);
        }
    }
}
