//! Canaries around blocks of the device heap that were found overwritten: by
//! the guard, by a check after a launch, or by a thread of the program's that
//! did the guard's work.

use crate::device_heap::DeviceHeap;
use crate::env::Env;
use crate::findings::Key;
use crate::launches::Launches;
use crate::metadata::Metadata;
use crate::reporter::Reporter;
use crate::watch::Watch;
use driver::{DriverError, SupportLaunch, SupportStream};
use heap::Block;
use heap::canary::Side;
use host::stacks;
use model::layout::Record;
use model::layout::guard::SIDE_BEFORE;
use model::layout::records::{BLOCK_HEAD, Damage};
use model::{
    DeviceAddress, Extent, Finding, HostFrame, KernelRun, Overwritten, Relation, Rule, Subject,
    Watched,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What verifies the heap once, and its kernel.
const HEAP_CHECK: &str = include_str!("../device/heap_check.ptx");
const HEAP_CHECK_KERNEL: &str = "ringfence_heap_check";
/// Launches that are looked through for who may have done it.
const LOOKED_AT: u64 = 256;

/// See the module's header.
pub(crate) struct HeapCanaries {
    env: Arc<Env>,
    metadata: Arc<Metadata>,
    launches: Arc<Launches>,
    reporter: Arc<Reporter>,
    watch: Arc<Watch>,
    heap: Arc<DeviceHeap>,
}

impl HeapCanaries {
    pub fn new(
        env: Arc<Env>,
        metadata: Arc<Metadata>,
        launches: Arc<Launches>,
        reporter: Arc<Reporter>,
        watch: Arc<Watch>,
        heap: Arc<DeviceHeap>,
    ) -> HeapCanaries {
        HeapCanaries {
            env,
            metadata,
            launches,
            reporter,
            watch,
            heap,
        }
    }

    /// Whether a record can be of a block's canary: nothing but the program
    /// leaves others.
    pub fn claims(&self, record: &Record) -> bool {
        self.metadata.watches_heap() && self.heap.holds(DeviceAddress(record.address))
    }

    /// A record of a canary that was found overwritten.
    pub fn overwritten(&self, record: &Record) {
        let damage = Damage::from(record.size);
        let side = if u64::from(record.site) == SIDE_BEFORE {
            Side::Before
        } else {
            Side::After
        };
        let reported = Block {
            extent: Extent {
                base: DeviceAddress(record.address),
                size: damage.size,
            },
            live: false,
            allocated: ((record.base >> 32) as u32, record.base as u32),
            freed: (0, 0),
            launches: (record.thread, 0),
        };
        let key = Key::Block(reported.allocated, side);
        let Some(id) = self.reporter.count(key) else {
            return;
        };
        // Freed and used again meanwhile, what is there is another one.
        let block = self
            .heap
            .block_at(reported.extent.base)
            .filter(|now| {
                (now.extent, now.allocated, now.launches.0)
                    == (reported.extent, reported.allocated, reported.launches.0)
            })
            .unwrap_or(reported);
        let finding = self.overwritten_block(record, damage, side, &block);
        self.reporter.publish(id, &finding);
    }

    fn overwritten_block(
        &self,
        record: &Record,
        damage: Damage,
        side: Side,
        block: &Block,
    ) -> Finding {
        let (near, far, address) = {
            let Extent { base, size } = block.extent;
            let start = match side {
                Side::Before => base.0.wrapping_sub(BLOCK_HEAD),
                Side::After => base.0.wrapping_add(size),
            };
            match side {
                Side::After => (
                    damage.lowest,
                    damage.highest,
                    start.wrapping_add(damage.lowest),
                ),
                Side::Before => (
                    BLOCK_HEAD.saturating_sub(damage.highest),
                    BLOCK_HEAD.saturating_sub(damage.lowest),
                    start.wrapping_add(damage.highest),
                ),
            }
        };
        let content = u64::from(record.block_x) | u64::from(record.block_yz) << 32;
        let mut found = content.to_le_bytes().to_vec();
        found.truncate((damage.highest.saturating_sub(damage.lowest) + 1) as usize);
        let suspects = self.watch.suspects(None);
        let watched = (!suspects.running.is_empty()).then_some(Watched {
            running: suspects.running,
            device_time: record.launch,
        });
        let callers = self.env.callers();
        let (kernel, others, launch, launched_at) = if watched.is_some() {
            let at = stacks::resolve(&suspects.stack, callers, Some(&suspects.kernel));
            (suspects.kernel, suspects.others, suspects.launch, at)
        } else {
            self.launched_since(block.launches.0)
        };
        let mut intended = self.heap.near(block, DeviceAddress(address));
        intended.relation = match side {
            Side::After => Relation::After(near),
            Side::Before => Relation::Before(near),
        };
        Finding {
            rule: Rule::CanaryOverwritten,
            address: DeviceAddress(address),
            subject: Subject::Kernel(KernelRun {
                launched_at,
                kernel,
                argument: None,
                others,
                overwritten: Overwritten {
                    bytes: damage.bytes,
                    farthest: far,
                    found,
                    pixel: None,
                },
                launch,
                watched,
            }),
            intended: Some(intended),
            nearest: None,
            occurrences: 1,
        }
    }

    /// The program has waited for its kernels, and no guard can be resident:
    /// its blocks are verified once, and what was freed is given back.
    pub fn verify_unguarded(&self) {
        if !self.metadata.watches_heap() || !self.watch.is_off() {
            return;
        }
        if let Err(error) = self.run_check() {
            let message = format!(
                "the canaries of the device heap could not be verified: {error}; they are when a kernel finds no \
                 memory left"
            );
            self.env.error(&message, false);
        }
    }

    fn run_check(&self) -> Result<(), DriverError> {
        let module = self.env.driver().load_support(HEAP_CHECK)?;
        let launch = SupportLaunch {
            blocks: 1,
            threads: 32,
            parameters: &[],
            stream: SupportStream::Own,
            waits_itself: false,
        };
        let kernel = self
            .env
            .driver()
            .support_kernel(module, HEAP_CHECK_KERNEL)?;
        self.env.driver().launch_support(kernel, &launch)?;
        self.env.driver().wait_for_own()
    }

    /// Who may have done what was found when nothing ran any more: the newest
    /// launch of a kernel that uses the heap, and the kernels of the others
    /// since the block was allocated.
    fn launched_since(&self, first: u32) -> (String, Vec<String>, u64, Vec<HostFrame>) {
        let newest = self.launches.newest();
        let first = u64::from(first)
            .max(newest.saturating_sub(LOOKED_AT))
            .max(1);
        let mut launches = (first..=newest)
            .rev()
            .filter_map(|id| self.launches.get(id));
        let Some(doer) = launches.next() else {
            return Default::default();
        };
        let kernel = doer.function.name.clone();
        let others: BTreeSet<String> = launches
            .map(|launch| launch.function.name.clone())
            .filter(|name| *name != kernel)
            .collect();
        let callers = self.env.callers();
        let at = stacks::resolve(&doer.stack, callers, Some(&kernel));
        (kernel, others.into_iter().collect(), doer.id, at)
    }
}
