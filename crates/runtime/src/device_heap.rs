//! What kernels did with the device heap: bounds of pointers into it, and
//! records of wrong frees and of accesses to freed blocks.

use crate::env::Env;
use crate::findings::{self, Key};
use crate::judge::Violation;
use crate::launches::Launches;
use crate::metadata::Metadata;
use crate::modules::Modules;
use crate::reporter::Reporter;
use heap::Block;
use model::layout::heap::HEAP_CHUNKS;
use model::{
    Allocation, AllocationKind, DeviceAddress, Extent, Finding, HostFrame, LeakCheck,
    NearestAllocation, Rule, SiteId, Subject,
};
use std::sync::Arc;

/// How far from a block an address may be that was meant for it: as far as a redzone
/// reaches at least.
const BESIDE: u64 = model::layout::shadow::MIN_REDZONE;

/// The heap that device-side `malloc` takes memory from.
pub struct DeviceHeap {
    env: Arc<Env>,
    metadata: Arc<Metadata>,
    modules: Arc<Modules>,
    launches: Arc<Launches>,
    reporter: Arc<Reporter>,
}

impl DeviceHeap {
    pub(crate) fn new(
        env: Arc<Env>,
        metadata: Arc<Metadata>,
        modules: Arc<Modules>,
        launches: Arc<Launches>,
        reporter: Arc<Reporter>,
    ) -> DeviceHeap {
        DeviceHeap {
            env,
            metadata,
            modules,
            launches,
            reporter,
        }
    }

    /// The program has set the size of CUDA's own device heap
    /// (`cudaLimitMallocHeapSize`), which ours follows if it is not there yet;
    /// CUDA, too, takes no other size once a kernel has allocated.
    pub fn set_limit(&self, bytes: u64) {
        self.metadata.set_heap_limit(bytes);
    }

    /// A context is about to go, and with it what its kernels allocated; no
    /// kernel of it runs any more.
    pub fn context_ending(&self, context: u64) {
        if self.metadata.is_heap_of(context) {
            self.report_leaks(self.live_blocks().unwrap_or_default());
            self.metadata.forget_heap_of(context);
        }
    }

    /// Whether an address belongs to the device heap.
    pub(crate) fn holds(&self, address: DeviceAddress) -> bool {
        self.metadata.heap().is_some_and(|heap| heap.holds(address))
    }

    pub(crate) fn block_at(&self, address: DeviceAddress) -> Option<Block> {
        let read = |at, bytes: &mut [u8]| self.env.driver().read(at, bytes).ok();
        self.metadata.heap()?.block_at(address, &read)
    }

    /// The block that holds an address, or else one that begins or ends so near to it that
    /// the address was most likely computed from it.
    pub(crate) fn block_beside(&self, address: DeviceAddress) -> Option<Block> {
        let holding = self.block_at(address);
        let distances = (0..=BESIDE.trailing_zeros()).map(|shift| 1u64 << shift);
        let beside = || {
            let places = distances.flat_map(|far| {
                [address.0.wrapping_sub(far), address.0.wrapping_add(far)].map(DeviceAddress)
            });
            places.filter_map(|place| self.block_at(place)).next()
        };
        holding.or_else(beside)
    }

    /// The live block that a kernel's argument points into.
    pub(crate) fn bounds(&self, pointer: DeviceAddress) -> Option<Extent> {
        let block = self.block_at(pointer)?;
        block.live.then_some(block.extent)
    }

    /// Puts blocks of the heap where a finding has to do with them.
    pub(crate) fn add_blocks(&self, violation: &Violation<'_>, finding: &mut Finding) {
        if violation.site.is_free() {
            let address = violation.address;
            if self.holds(address) {
                let block = self.block_at(address);
                finding.intended = block.map(|block| self.near(&block, address));
                finding.nearest = None;
            }
            return;
        }
        let pointer = if violation.bounds.size == 0 {
            violation.pointer.unwrap_or(violation.address)
        } else {
            violation.bounds.base
        };
        let intended = self.block_at(pointer).filter(|block| match violation.rule {
            Rule::UseAfterFree => !block.live,
            _ => block.extent == violation.bounds || block.extent.size == 0,
        });
        if self.holds(pointer) {
            finding.intended = intended.map(|block| self.near(&block, violation.address));
            finding.nearest = None;
        }
        let hit = self.block_at(violation.address);
        let other = hit.filter(|block| {
            block.live
                && block.extent.contains(violation.address)
                && intended.is_none_or(|own| own.extent.base != block.extent.base)
        });
        if let Some(block) = other {
            finding.nearest = Some(self.near(&block, violation.address));
        }
    }

    /// Every live block of the device heap; `None` if there is no heap, or if
    /// its context is gone.
    pub(crate) fn live_blocks(&self) -> Option<Vec<Block>> {
        let heap = self.metadata.heap()?;
        if self.metadata.is_heap_stale() {
            return None;
        }
        let read = |at, bytes: &mut [u8]| self.env.driver().read(at, bytes).ok();
        // A device that is shut down already answers nothing at all.
        read(DeviceAddress(HEAP_CHUNKS), &mut [0; 8])?;
        Some(heap.live_blocks(&read))
    }

    /// Reports live blocks of the device heap as never freed, once for each
    /// call of `malloc`.
    pub(crate) fn report_leaks(&self, blocks: Vec<Block>) {
        if self.env.settings().leak_check == LeakCheck::No {
            return;
        }
        for block in blocks {
            let (half, site) = block.allocated;
            let tag = self
                .modules
                .part_by_half(half)
                .map_or(u64::from(half), |part| part.tag);
            let key = Key::Access(tag, SiteId(site), Rule::MemoryLeak);
            let Some(id) = self.reporter.count(key) else {
                continue;
            };
            let address = block.extent.base;
            let finding = Finding {
                rule: Rule::MemoryLeak,
                address,
                subject: Subject::Leak,
                intended: Some(self.near(&block, address)),
                nearest: None,
                occurrences: 1,
            };
            self.reporter.publish_at_end(id, &finding);
        }
    }

    pub(crate) fn near(&self, block: &Block, address: DeviceAddress) -> NearestAllocation {
        let freed_at = if block.live {
            Vec::new()
        } else {
            self.device_frames(block.freed, block.launches.1)
        };
        NearestAllocation {
            allocation: Allocation {
                extent: block.extent,
                kind: AllocationKind::DeviceHeap,
                serial: 0,
                name: None,
            },
            relation: findings::relation(block.extent, address),
            allocated_at: self.device_frames(block.allocated, block.launches.0),
            freed: !block.live,
            freed_at,
        }
    }

    /// Where a call of `malloc` or `free` stands, as frames: the function that
    /// makes it, those it was inlined into, and the launch.
    fn device_frames(&self, (half, site): (u32, u32), launch: u32) -> Vec<HostFrame> {
        let mut frames = Vec::new();
        let part = self.modules.part_by_half(half);
        if let Some(site) = part
            .as_ref()
            .and_then(|part| part.group(SiteId(site)).next())
        {
            let frame = |function: String, file: Option<String>, line| HostFrame {
                function,
                file,
                line,
                object: None,
            };
            let function = report::demangle(&site.function);
            match &site.source {
                None => frames.push(frame(function, None, None)),
                Some(source) => {
                    for place in source.chain() {
                        frames.push(frame(
                            function.clone(),
                            Some(place.file.clone()),
                            Some(place.line),
                        ));
                    }
                }
            }
        }
        if launch != 0 {
            let kernel = self
                .launches
                .get(u64::from(launch))
                .map(|launch| format!(" of {}", report::demangle(&launch.function.name)))
                .unwrap_or_default();
            frames.push(HostFrame {
                function: format!("launch {launch}{kernel}"),
                file: None,
                line: None,
                object: None,
            });
        }
        frames
    }
}
