//! Runs grids: spreads blocks over threads of the host, warps of a block
//! round robin, and collects what they print.

use super::children::{Child, Children, DEEPEST, Grid};
use super::contained::Contained;
use super::context::{BARRIERS, Barrier, Block, ClusterBarrier, Context, Launch};
use super::fault::{Fault, FaultKind};
use super::heap::DeviceHeap;
use super::ops::special::RESERVED_SHARED;
use super::processors::Executing;
use super::program::{Entry, Program};
use super::warp::{SliceEnd, Warp};
use crate::mapping::{AccessFault, Bytes, GRANULE, LANES, MapError, Memory, Wide};
use parking_lot::{Mutex, RwLock};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Instructions that a warp executes before the next one runs.
const SLICE: u32 = 4096;
/// Grids of fewer threads than this run on the calling thread.
const WORTH_A_THREAD: u64 = 4096;

/// The most that a `nanosleep` takes (PTX ISA 9.7.13.21).
const LONGEST_SLEEP: Duration = Duration::from_millis(1);
/// Shorter ones are turns given away: the host cannot sleep that shortly, and
/// locks are waited for with them.
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);

/// What device code prints to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// `printf`.
    Output,
    /// Failed assertions.
    Errors,
}

/// Takes what device code printed.
pub type Printer = Box<dyn Fn(Stream, &[u8]) + Send + Sync>;

/// What does not change between launches.
pub struct Options {
    /// Bytes of the heap of device-side `malloc`. CUDA's default is 8 MiB.
    pub heap_size: u64,
    /// Takes what device code printed, once at the end of each launch.
    pub print: Printer,
    /// Compile code for AVX2 and FMA where the processor has them.
    pub wide: bool,
    /// The byte that registers, shared and local memory are full of where a
    /// block begins. (On a GPU they hold what an earlier kernel left.)
    pub residue: u8,
}

impl Default for Options {
    /// 8 MiB of heap, output to the process's own streams.
    fn default() -> Self {
        let print = |stream, text: &[u8]| {
            use std::io::Write;
            // Nothing useful can be done when the process's own streams fail.
            let _ = match stream {
                Stream::Output => std::io::stdout()
                    .write_all(text)
                    .and_then(|()| std::io::stdout().flush()),
                Stream::Errors => std::io::stderr().write_all(text),
            };
        };
        Options {
            heap_size: 8 << 20,
            print: Box::new(print),
            wide: true,
            residue: 0,
        }
    }
}

/// One launch.
#[derive(Clone, Copy)]
pub struct LaunchConfig<'a> {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block; at most 1,024.
    pub block: [u32; 3],
    /// Blocks of a cluster; `[1, 1, 1]` without clusters.
    pub cluster: [u32; 3],
    /// Dynamic shared memory, bytes a block.
    pub dynamic_shared: u32,
    /// The parameter block; bytes beyond the entry's parameters are ignored.
    pub params: &'a [u8],
    /// Permutes the order of warps; 0 keeps it.
    pub seed: u64,
    /// Threads of the host to use; at least 1.
    pub threads: usize,
    /// Ends the launch when set.
    pub cancel: &'a AtomicBool,
    /// All blocks are resident at once, so that they may wait for each other.
    pub cooperative: bool,
    /// Set for programs that share the device with others.
    pub contained: Option<&'a Contained>,
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// PTX instructions executed, times the lanes that executed them.
    pub thread_instructions: u64,
    /// Blocks run.
    pub blocks: u64,
}

impl Stats {
    fn add(&mut self, other: Stats) {
        self.thread_instructions += other.thread_instructions;
        self.blocks += other.blocks;
    }
}

/// Executes launches.
pub struct Machine {
    heap: RwLock<Arc<DeviceHeap>>,
    memory: Arc<Memory>,
    options: Options,
}

impl Machine {
    /// A machine over `memory`.
    pub fn new(memory: &Arc<Memory>, options: Options) -> Result<Machine, MapError> {
        let heap = Arc::new(DeviceHeap::new(memory, options.heap_size)?);
        Ok(Machine {
            heap: RwLock::new(heap),
            memory: memory.clone(),
            options,
        })
    }

    /// Replace the heap of device-side `malloc` by an empty one. Blocks in use
    /// are lost.
    pub fn set_heap_size(&self, size: u64) -> Result<(), MapError> {
        let heap = Arc::new(DeviceHeap::new(&self.memory, size)?);
        *self.heap.write() = heap;
        Ok(())
    }

    /// The heap of device-side `malloc`.
    pub fn heap(&self) -> Arc<DeviceHeap> {
        self.heap.read().clone()
    }

    /// Run an entry over a grid, and what it launches, to the end.
    pub fn launch(
        &self,
        program: &Program,
        entry: &str,
        config: &LaunchConfig<'_>,
        memory: &Memory,
    ) -> Result<Stats, Fault> {
        let Some(entry) = program.entry(entry) else {
            return Err(refused(entry, "no such entry".into()));
        };
        self.tree(program, entry, config, memory, 0)
    }

    /// Run a grid and what it launches.
    fn tree(
        &self,
        program: &Program,
        entry: &Entry,
        config: &LaunchConfig<'_>,
        memory: &Memory,
        depth: u32,
    ) -> Result<Stats, Fault> {
        let children = Children::at_depth(depth);
        let mut stats = self.grid(program, entry, config, memory, &children)?;
        let (queued, tail) = children.into_lists();
        for child in queued {
            stats.add(self.child(program, child, config, memory, depth + 1)?);
        }
        // A tail launch takes its parent's place, at the same depth: kernels
        // repeat themselves that way, any number of times.
        let mut open: Vec<Child> = tail.into_iter().rev().collect();
        while let Some(child) = open.pop() {
            let Child::Grid(grid) = child else {
                stats.add(self.child(program, child, config, memory, depth + 1)?);
                continue;
            };
            let children = Children::at_depth(depth);
            let (entry, config) = of_child(program, &grid, config)?;
            stats.add(self.grid(program, entry, &config, memory, &children)?);
            let (queued, tail) = children.into_lists();
            for child in queued {
                stats.add(self.child(program, child, &config, memory, depth + 1)?);
            }
            open.extend(tail.into_iter().rev());
        }
        Ok(stats)
    }

    /// Execute what a kernel asked for.
    fn child(
        &self,
        program: &Program,
        child: Child,
        parent: &LaunchConfig<'_>,
        memory: &Memory,
        depth: u32,
    ) -> Result<Stats, Fault> {
        let failed = |what: &str, error: AccessFault| {
            let mut fault = refused(what, format!("{what} by a kernel: {error}"));
            fault.kind = FaultKind::IllegalAddress;
            fault
        };
        match child {
            Child::Grid(grid) => {
                let (entry, config) = of_child(program, &grid, parent)?;
                // Calls at the last depth are refused there.
                self.tree(program, entry, &config, memory, depth.min(DEEPEST))
            }
            Child::Copy { to, from, size } => {
                let mut view = memory.view();
                for at in 0..size {
                    let byte = view.load::<u8>(from + at);
                    byte.and_then(|byte| view.store(to + at, byte))
                        .map_err(|error| failed("copy", error))?;
                }
                Ok(Stats::default())
            }
            Child::Fill { to, value, size } => memory
                .fill(to, &[value], size)
                .map(|()| Stats::default())
                .map_err(|error| failed("memset", error)),
        }
    }

    /// Run one grid.
    fn grid(
        &self,
        program: &Program,
        entry: &Entry,
        config: &LaunchConfig<'_>,
        memory: &Memory,
        children: &Children,
    ) -> Result<Stats, Fault> {
        let refuse = |message| refused(&entry.name, message);
        check(entry, config).map_err(refuse)?;
        let heap = self.heap();
        let blocks: u64 = config.grid.iter().map(|n| u64::from(*n)).product();
        let threads = config.block.iter().product::<u32>();
        let per_cluster = u64::from(config.cluster.iter().product::<u32>());
        let clusters = blocks / per_cluster;
        let workers = if blocks * u64::from(threads) < WORTH_A_THREAD {
            1
        } else {
            (config.threads.max(1) as u64).min(clusters) as usize
        };
        let mut params = Bytes::new(u64::from(entry.parameter_bytes));
        params
            .write(0, &config.params[..entry.parameter_bytes as usize])
            .map_err(|e| refuse(e.to_string()))?;
        let workspace = if config.cooperative {
            memory
                .map(GRANULE, GRANULE)
                .map_err(|e| refuse(e.to_string()))?
        } else {
            0
        };
        let (output, errors) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let dynamic_start = program.code.functions[entry.function as usize]
            .shared_end
            .next_multiple_of(16);
        let launch = Launch {
            function: entry.function,
            grid: config.grid,
            block: config.block,
            cluster: config.cluster,
            dynamic_shared: config.dynamic_shared,
            dynamic_start,
            shared_end: (dynamic_start + config.dynamic_shared).next_multiple_of(16),
            residue: self.options.residue,
            params,
            heap: &heap,
            workspace,
            children,
            output: &output,
            errors: &errors,
            started: std::time::Instant::now(),
            workers: workers as u32,
        };
        let run = Run {
            program,
            config,
            memory,
            launch: &launch,
            wide: if self.options.wide {
                Wide::detect()
            } else {
                None
            },
            clusters,
            workers: workers as u64,
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            fault: Mutex::new(None),
            executed: AtomicU64::new(0),
        };
        std::thread::scope(|scope| {
            for worker in 1..workers {
                let run = &run;
                scope.spawn(move || run.work(worker as u64));
            }
            run.work(0);
        });
        let (executed, fault) = (run.executed.into_inner(), run.fault.into_inner());
        if workspace != 0 {
            // Mapped above; nothing else unmaps it.
            let _ = memory.unmap(workspace);
        }
        for (stream, text) in [
            (Stream::Output, output.into_inner()),
            (Stream::Errors, errors.into_inner()),
        ] {
            if !text.is_empty() {
                (self.options.print)(stream, &text);
            }
        }
        match fault {
            Some(fault) => Err(fault),
            None => Ok(Stats {
                thread_instructions: executed,
                blocks,
            }),
        }
    }
}

/// The entry of a grid that a kernel launches, and how to run it.
fn of_child<'a>(
    program: &'a Program,
    grid: &'a Grid,
    parent: &LaunchConfig<'a>,
) -> Result<(&'a Entry, LaunchConfig<'a>), Fault> {
    let mut entries = program.entries();
    let entry = entries
        .find(|entry| entry.function == grid.function)
        .ok_or_else(|| refused("", "launch of what is no kernel, by a kernel".into()))?;
    let config = LaunchConfig {
        grid: grid.grid,
        block: grid.block,
        cluster: entry.required_cluster.unwrap_or([1; 3]),
        dynamic_shared: grid.dynamic_shared,
        params: &grid.parameters,
        cooperative: false,
        ..*parent
    };
    Ok((entry, config))
}

/// The fault of a launch that is not legal.
fn refused(kernel: &str, message: String) -> Fault {
    Fault {
        kind: FaultKind::InvalidLaunch,
        kernel: kernel.to_string(),
        ptx_line: 0,
        opcode: String::new(),
        source: None,
        block: [0; 3],
        thread: [0; 3],
        address: 0,
        message,
    }
}

/// Whether a launch fits its entry.
fn check(entry: &Entry, config: &LaunchConfig<'_>) -> Result<(), String> {
    let LaunchConfig {
        grid,
        block,
        cluster,
        ..
    } = config;
    if grid.contains(&0) || block.contains(&0) || cluster.contains(&0) {
        return Err(format!(
            "empty grid {grid:?}, block {block:?} or cluster {cluster:?}"
        ));
    }
    let threads: u64 = block.iter().map(|n| u64::from(*n)).product();
    if threads > 1024 {
        return Err(format!("{threads} threads a block, of 1024 at most"));
    }
    if entry
        .max_threads
        .is_some_and(|most| threads > u64::from(most))
    {
        return Err(format!(
            "{threads} threads a block, of {} at most for this kernel",
            entry.max_threads.unwrap_or(0)
        ));
    }
    if entry
        .required_block
        .is_some_and(|required| required != *block)
    {
        return Err(format!(
            "block {block:?}, but the kernel requires {:?}",
            entry.required_block.unwrap_or_default()
        ));
    }
    if grid.iter().zip(cluster).any(|(g, c)| g % c != 0) {
        return Err(format!(
            "grid {grid:?} is no multiple of the cluster {cluster:?}"
        ));
    }
    if config.params.len() < entry.parameter_bytes as usize {
        return Err(format!(
            "{} bytes of parameters, of {}",
            config.params.len(),
            entry.parameter_bytes
        ));
    }
    Ok(())
}

/// The state of a launch that its workers share.
struct Run<'a> {
    program: &'a Program,
    config: &'a LaunchConfig<'a>,
    memory: &'a Memory,
    launch: &'a Launch<'a>,
    wide: Option<Wide>,
    clusters: u64,
    workers: u64,
    /// Next cluster to run.
    next: AtomicU64,
    stop: AtomicBool,
    fault: Mutex<Option<Fault>>,
    executed: AtomicU64,
}

/// Warps of a resident block.
struct Resident {
    warps: Vec<Warp>,
    done: Vec<bool>,
}

/// The result of one slice of every warp.
#[derive(Default)]
struct Round {
    /// Warps that are not done.
    left: usize,
    ran: bool,
    /// The shortest sleep, and whether there is anything but sleepers.
    sleep: Option<u32>,
    awake: bool,
}

impl Run<'_> {
    fn work(&self, worker: u64) {
        let mut executing = self.config.contained.map(Contained::execute);
        let mut context = Context {
            program: &self.program.code,
            info: &self.program.info,
            launch: self.launch,
            view: self.memory.view(),
            wide: self.wide,
            blocks: Vec::new(),
            current: 0,
            cluster_first: 0,
            cluster_barrier: ClusterBarrier::default(),
            worker: worker as u32,
            executed: 0,
            fault: None,
            image: None,
            slept: None,
        };
        let mut residents = Vec::new();
        if self.config.cooperative {
            let mine: Vec<u64> = (0..self.clusters)
                .filter(|c| c % self.workers == worker)
                .collect();
            self.run(&mut context, &mut residents, &mut executing, &mine);
        } else {
            while !self.stop.load(Ordering::Relaxed) && !self.is_ended(&mut context) {
                let cluster = self.next.fetch_add(1, Ordering::Relaxed);
                if cluster >= self.clusters {
                    break;
                }
                self.run(&mut context, &mut residents, &mut executing, &[cluster]);
            }
        }
        self.executed.fetch_add(context.executed, Ordering::Relaxed);
    }

    /// Whether no further block begins.
    fn is_ended(&self, context: &mut Context<'_>) -> bool {
        let contained = self.config.contained;
        contained.is_some_and(|contained| contained.is_ended(&mut context.view))
    }

    fn end(&self, fault: Fault) {
        self.fault.lock().get_or_insert(fault);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Run clusters to their end, all resident at once.
    fn run(
        &self,
        context: &mut Context<'_>,
        residents: &mut Vec<Resident>,
        executing: &mut Option<Executing<'_>>,
        clusters: &[u64],
    ) {
        let per_cluster = self.blocks_per_cluster();
        let count = clusters.len() * per_cluster;
        self.start(context, residents, clusters);
        let mut barriers: Vec<ClusterBarrier> = clusters
            .iter()
            .map(|_| ClusterBarrier {
                phase: 0,
                arrived: vec![vec![0; self.warps()]; per_cluster],
            })
            .collect();
        let order = order(self.warps(), self.config.seed);
        loop {
            let before = context.executed;
            let mut round = Round::default();
            for slot in 0..count {
                let cluster = slot / per_cluster;
                context.current = slot;
                context.cluster_first = cluster * per_cluster;
                std::mem::swap(&mut context.cluster_barrier, &mut barriers[cluster]);
                if self
                    .run_block(context, &mut residents[slot], executing, &order, &mut round)
                    .is_break()
                {
                    return;
                }
                std::mem::swap(&mut context.cluster_barrier, &mut barriers[cluster]);
                context.view.renew();
            }
            if round.left == 0 {
                return;
            }
            let sleep = round.sleep.map(|sleep| Duration::from_nanos(sleep.into()));
            if let Some(sleep) = sleep.filter(|sleep| !round.awake && *sleep >= SHORTEST_SLEEP) {
                let sleep = sleep.min(LONGEST_SLEEP);
                context.view.rest(|| match executing.take() {
                    Some(turn) => *executing = Some(turn.rest(|| std::thread::sleep(sleep))),
                    None => std::thread::sleep(sleep),
                });
                continue;
            }
            if !round.ran && context.executed == before {
                self.deadlock(context, &residents[..count]);
                return;
            }
        }
    }

    fn blocks_per_cluster(&self) -> usize {
        self.config.cluster.iter().product::<u32>() as usize
    }

    /// Warps of a block.
    fn warps(&self) -> usize {
        (self.config.block.iter().product::<u32>() as usize).div_ceil(LANES)
    }

    /// Make the blocks of clusters resident.
    fn start(&self, context: &mut Context<'_>, residents: &mut Vec<Resident>, clusters: &[u64]) {
        let per_cluster = self.blocks_per_cluster();
        let count = clusters.len() * per_cluster;
        residents.resize_with(count.max(residents.len()), || Resident {
            warps: Vec::new(),
            done: Vec::new(),
        });
        context
            .blocks
            .resize_with(count.max(context.blocks.len()), || Block {
                index: [0; 3],
                rank: 0,
                shared: Bytes::default(),
                barriers: vec![Barrier::default(); BARRIERS],
                alive: Vec::new(),
            });
        for (slot, resident) in residents[..count].iter_mut().enumerate() {
            let rank = (slot % per_cluster) as u32;
            self.start_block(context, resident, slot, clusters[slot / per_cluster], rank);
        }
    }

    /// Run a slice of each warp of a block; break at the end of the launch.
    fn run_block(
        &self,
        context: &mut Context<'_>,
        resident: &mut Resident,
        executing: &mut Option<Executing<'_>>,
        order: &[usize],
        round: &mut Round,
    ) -> ControlFlow<()> {
        for &index in order {
            if resident.done[index] {
                continue;
            }
            let end = resident.warps[index].slice(context, SLICE);
            match end {
                SliceEnd::Done => resident.done[index] = true,
                SliceEnd::Fault => {
                    if let Some(fault) = context.fault.take() {
                        self.end(fault);
                    }
                    return ControlFlow::Break(());
                }
                SliceEnd::Runnable => round.ran = true,
                SliceEnd::Blocked => {}
            }
            match context.slept.take() {
                Some(slept) => {
                    round.sleep = Some(round.sleep.map_or(slept, |least| least.min(slept)));
                }
                None => round.awake |= end == SliceEnd::Runnable,
            }
            round.left += usize::from(end != SliceEnd::Done);
            if executing.as_ref().is_some_and(Executing::is_over) {
                let turn = executing.take();
                context
                    .view
                    .rest(|| *executing = turn.map(Executing::again));
            }
            if self.stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            if self.config.cancel.load(Ordering::Relaxed) {
                let what = "the launch was cancelled";
                self.stuck(context, &resident.warps[index], FaultKind::Cancelled, what);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// End the launch, or these blocks alone: no warp can go on.
    fn deadlock(&self, context: &mut Context<'_>, residents: &[Resident]) {
        if let Some(contained) = self.config.contained {
            return contained.deadlocked();
        }
        let stuck = residents.iter().enumerate().find_map(|(slot, resident)| {
            let index = resident.done.iter().position(|done| !done)?;
            Some((slot, &resident.warps[index]))
        });
        if let Some((slot, warp)) = stuck {
            context.current = slot;
            let what = "deadlock: every thread of the block that is left waits";
            self.stuck(context, warp, FaultKind::Deadlock, what);
        }
    }

    /// End the launch where a warp stands.
    fn stuck(&self, context: &mut Context<'_>, warp: &Warp, kind: FaultKind, what: &str) {
        context.fail_at(warp, warp.place(), kind, 0, what.into());
        if let Some(fault) = context.fault.take() {
            self.end(fault);
        }
    }

    fn start_block(
        &self,
        context: &mut Context<'_>,
        resident: &mut Resident,
        slot: usize,
        cluster: u64,
        rank: u32,
    ) {
        let warps = self.warps();
        let [gx, gy, _] = self.config.grid.map(u64::from);
        let [cx, cy, cz] = self.config.cluster.map(u64::from);
        let (nx, ny) = (gx / cx, gy / cy);
        let first = [
            cluster % nx * cx,
            cluster / nx % ny * cy,
            cluster / (nx * ny) * cz,
        ];
        let within = [
            u64::from(rank) % cx,
            u64::from(rank) / cx % cy,
            u64::from(rank) / (cx * cy),
        ];
        let block = &mut context.blocks[slot];
        block.index = std::array::from_fn(|i| (first[i] + within[i]) as u32);
        block.rank = rank;
        // A block of a kernel that has no shared memory has none at all.
        let is_used =
            self.program.code.has_reserved_shared || self.launch.shared_end > RESERVED_SHARED;
        let shared = if is_used { self.launch.shared_end } else { 0 };
        block.shared.reset(shared.into(), self.launch.residue);
        block.alive.clear();
        for barrier in &mut block.barriers {
            barrier.arrived.clear();
            barrier.arrived.resize(warps, 0);
            (barrier.phase, barrier.threads, barrier.count, barrier.total) = (0, 0, 0, 0);
        }
        resident.warps.resize_with(warps, Warp::new);
        resident.done.clear();
        resident.done.resize(warps, false);
        context.current = slot;
        for (index, warp) in resident.warps.iter_mut().enumerate() {
            warp.start(context, index as u32);
            context.blocks[slot].alive.push(warp.alive);
        }
    }
}

/// The order in which warps run: a permutation drawn from the seed.
fn order(warps: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..warps).collect();
    if seed != 0 {
        let mut state = seed;
        for i in (1..warps).rev() {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            order.swap(i, ((z ^ z >> 31) % (i as u64 + 1)) as usize);
        }
    }
    order
}
