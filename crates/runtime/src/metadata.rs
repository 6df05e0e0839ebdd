//! The metadata of `model::layout` on the device: mapped at the first launch
//! that is checked, its lookup tables brought up to date before launches that
//! use them.

use crate::env::Env;
use crate::memory::{Change, Memory};
use crate::turn::Turn;
use driver::{Driver, DriverError, Element, HostMapping, Store, SupportStream};
use heap::{DeviceHeap, TableUpdate, Tables};
use model::DeviceAddress;
use model::layout::shadow::{LAUNCH_WINDOW, SHADOW_WINDOW};
use model::layout::{
    CONTROL_BASE, CONTROL_SIZE, MISS_SIZE, REGION_COUNT, REGION_TABLE, RING_BASE, RING_SIZE,
    UNBOUNDED,
};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// See the module's header.
pub(crate) struct Metadata {
    env: Arc<Env>,
    turn: Turn,
    attached: OnceLock<Result<HostMapping, String>>,
    /// Touched only by the thread whose turn it is; the lock is never held
    /// across a driver call.
    tables: Mutex<Tables>,
    /// Whether the tables are to answer for the host's memory has been decided.
    opened: AtomicBool,
    miss_unbounded: AtomicBool,
    miss_written: AtomicBool,
    /// Changes were taken from the registry and are not on the device yet.
    flushing: AtomicBool,
    /// A context was destroyed, and the metadata perhaps with it.
    doubtful: AtomicBool,
    lost: OnceLock<String>,
    heap: Mutex<HeapState>,
    /// Blocks of the heap have canaries.
    watches_heap: AtomicBool,
    /// The words that say which addresses have shadow memory.
    shadow_window: [AtomicU64; 2],
    /// Bytes of live buffers were poisoned.
    is_poisoned: AtomicBool,
}

/// The device heap, as far as it is there.
#[derive(Default)]
struct HeapState {
    /// Bytes that the program asked for; `None`: CUDA's default.
    limit: Option<u64>,
    made: Option<DeviceHeap>,
    /// The context that used it, as a handle.
    context: u64,
    /// That context is gone: the heap must be empty when it is used again.
    stale: bool,
    /// Why there is none.
    failed: Option<String>,
}

/// Bytes of CUDA's device heap if the program sets no other size.
const DEFAULT_HEAP: u64 = 8 << 20;

impl Metadata {
    pub fn new(env: Arc<Env>) -> Metadata {
        Metadata {
            env,
            turn: Turn::default(),
            attached: OnceLock::new(),
            tables: Mutex::default(),
            opened: AtomicBool::new(false),
            miss_unbounded: AtomicBool::new(false),
            miss_written: AtomicBool::new(false),
            flushing: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
            lost: OnceLock::new(),
            heap: Mutex::default(),
            watches_heap: AtomicBool::new(false),
            shadow_window: Default::default(),
            is_poisoned: AtomicBool::new(false),
        }
    }

    /// Maps everything at its fixed address, once.
    ///
    /// # Errors
    ///
    /// What could not be mapped, and what to do; the same at each call.
    pub fn attach(&self) -> Result<HostMapping, String> {
        if let Some(done) = self.attached.get() {
            if self.doubtful.load(Ordering::Acquire) {
                self.probe();
            }
            return match self.lost.get() {
                Some(message) => Err(message.clone()),
                None => done.clone(),
            };
        }
        let Some(_turn) = self.turn.take() else {
            return Err("the driver called back while Ringfence was setting itself up".into());
        };
        if let Some(done) = self.attached.get() {
            return done.clone();
        }
        let result = map(self.env.driver()).map_err(|error| {
            format!(
                "cannot map Ringfence's metadata at its fixed addresses: {error}. Nothing can be checked in this \
                 process; run it with --no-check to see whether it works without checks"
            )
        });
        self.attached.get_or_init(|| result).clone()
    }

    /// A context was destroyed or reset. The next launch looks whether the
    /// metadata is still there before it relies on it.
    pub fn doubt(&self) {
        self.doubtful.store(true, Ordering::Release);
    }

    fn probe(&self) {
        let driver = self.env.driver();
        let mut word = [0; 8];
        let there = driver
            .read(DeviceAddress(MISS_SIZE), &mut word)
            .and_then(|()| self.ring().map_or(Ok(()), |ring| driver.restore_host(ring)));
        if let Err(error) = there {
            self.lost.get_or_init(|| {
                format!(
                    "Ringfence's metadata went away with the context that the program destroyed ({error}). Launches \
                     from here on run without checks; keep the context (cudaDeviceReset destroys it) until the last \
                     launch"
                )
            });
        }
        self.doubtful.store(false, Ordering::Release);
    }

    /// Which addresses have shadow memory, as kernels get it.
    pub fn shadow_window(&self) -> [u8; LAUNCH_WINDOW as usize] {
        window_bytes(
            self.window_words(),
            self.is_poisoned.load(Ordering::Acquire),
        )
    }

    /// Whether what kernels get says that bytes of live buffers are poisoned.
    pub fn says_poisoned(window: &[u8; LAUNCH_WINDOW as usize]) -> bool {
        window[LAUNCH_WINDOW as usize - 4..] != [0; 4]
    }

    fn window_words(&self) -> [u64; 2] {
        let words = self.shadow_window.each_ref();
        words.map(|word| word.load(Ordering::Acquire))
    }

    /// Notes that bytes of live buffers are poisoned. From then on the bounds of a buffer do
    /// not show that its bytes are addressable, and kernels are told so.
    ///
    /// # Errors
    ///
    /// It could not be written to the device.
    pub fn note_poison(&self) -> Result<(), DriverError> {
        if self.is_poisoned.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.set_shadow_window(self.window_words())
    }

    /// Shadow memory is mapped for other addresses.
    ///
    /// # Errors
    ///
    /// It could not be written to the device.
    pub fn set_shadow_window(&self, words: [u64; 2]) -> Result<(), DriverError> {
        for (place, word) in self.shadow_window.iter().zip(words) {
            place.store(word, Ordering::Release);
        }
        let bytes = window_bytes(words, self.is_poisoned.load(Ordering::Acquire));
        self.env
            .driver()
            .write(DeviceAddress(SHADOW_WINDOW), &bytes)
    }

    /// The record ring, once attached.
    pub fn ring(&self) -> Option<HostMapping> {
        self.attached
            .get()
            .and_then(|result| result.as_ref().ok().copied())
    }

    /// From now on a lookup that finds nothing allows everything: device-side
    /// malloc hands out memory that the host cannot see.
    pub fn allow_misses(&self) {
        self.miss_unbounded.store(true, Ordering::Release);
    }

    /// Whether misses are allowed.
    pub fn misses_allowed(&self) -> bool {
        self.miss_unbounded.load(Ordering::Acquire)
    }

    /// Writes what a failed lookup answers, if that changed. Needed before
    /// every checked launch; costs two loads.
    pub fn publish_miss_size(&self) -> Result<(), DriverError> {
        if !self.misses_allowed() || self.miss_written.load(Ordering::Acquire) {
            return Ok(());
        }
        self.env
            .driver()
            .write(DeviceAddress(MISS_SIZE), &UNBOUNDED.to_le_bytes())?;
        self.miss_written.store(true, Ordering::Release);
        Ok(())
    }

    /// How many bytes the program asked the device heap to hold.
    pub fn set_heap_limit(&self, bytes: u64) {
        self.heap.lock().limit = Some(bytes);
    }

    /// The device heap, once it is there.
    pub fn heap(&self) -> Option<DeviceHeap> {
        self.heap.lock().made
    }

    /// Whether there is a device heap whose blocks have canaries.
    pub fn watches_heap(&self) -> bool {
        self.watches_heap.load(Ordering::Relaxed)
    }

    /// Whether kernels of this context use the device heap.
    pub fn is_heap_of(&self, context: u64) -> bool {
        let heap = self.heap.lock();
        heap.made.is_some() && heap.context == context
    }

    /// Whether the heap still holds what a context left that is gone.
    pub fn is_heap_stale(&self) -> bool {
        self.heap.lock().stale
    }

    /// A context is gone, and with it what its kernels allocated.
    pub fn forget_heap_of(&self, context: u64) {
        let mut heap = self.heap.lock();
        heap.stale |= heap.made.is_some() && heap.context == context;
    }

    /// Makes the device heap, or empties it for a new context. To be called
    /// after [`Metadata::attach`].
    ///
    /// # Errors
    ///
    /// What could not be mapped; the same at each call. Kernels run, and find
    /// the heap full.
    pub fn attach_heap(&self) -> Result<(), String> {
        let (driver, settings) = (self.env.driver(), self.env.settings());
        let is_done = |heap: &HeapState| heap.made.is_some() && !heap.stale;
        {
            let heap = self.heap.lock();
            if is_done(&heap) {
                return Ok(());
            }
            if let Some(message) = &heap.failed {
                return Err(message.clone());
            }
        }
        let Some(_turn) = self.turn.take() else {
            return Err("the driver called back while Ringfence was setting itself up".into());
        };
        let (made, limit) = {
            let heap = self.heap.lock();
            if is_done(&heap) {
                return Ok(());
            }
            (heap.made, heap.limit.unwrap_or(DEFAULT_HEAP))
        };
        let (heap, updates) = match made {
            Some(heap) => (heap, heap.clear()),
            None => {
                let mut heap = DeviceHeap::for_limit(limit);
                if settings.protect.watch {
                    heap = heap.watched(heap::canary::seed(settings), settings.protect.bounds);
                }
                (heap, heap.create())
            }
        };
        let result = updates.iter().try_for_each(|update| apply(driver, update));
        let mut state = self.heap.lock();
        match result {
            Ok(()) => {
                state.made = Some(heap);
                self.watches_heap
                    .store(heap.is_watched(), Ordering::Relaxed);
                state.context = driver.current_context();
                state.stale = false;
                Ok(())
            }
            Err(error) => {
                let message = format!(
                    "cannot map the heap of device-side malloc at its fixed addresses: {error}. Kernels that allocate \
                     get null pointers; lower cudaLimitMallocHeapSize, or run the program with --no-check"
                );
                state.failed = Some(message.clone());
                Err(message)
            }
        }
    }

    /// Brings the lookup tables up to date with the registry.
    ///
    /// # Errors
    ///
    /// What failed. Lookups of some allocations would then miss, so misses
    /// are allowed from then on rather than raising false alarms.
    pub fn flush(&self, memory: &Memory) -> Result<(), String> {
        // Another thread may have taken the changes and not written them yet:
        // the launch must wait for it. `changed` is cleared after `flushing`
        // is set, so a thread that sees the one cleared sees the other set.
        if !memory.changed() && !self.flushing.load(Ordering::Acquire) {
            return Ok(());
        }
        // A nested call finds the outer one doing the work.
        let Some(_turn) = self.turn.take() else {
            return Ok(());
        };
        self.flushing.store(true, Ordering::Release);
        let result = self.write_changes(memory);
        self.flushing.store(false, Ordering::Release);
        result
    }

    /// Makes the tables say, to kernels that a stream executes from here on, that
    /// allocations are gone. Others may still use them. To be called when the tables
    /// are up to date.
    pub fn hide(&self, bases: &[u64], stream: SupportStream) -> Result<(), DriverError> {
        const WORDS: u64 = 2;
        let places: Vec<u64> = {
            let tables = self.tables.lock();
            let places = bases.iter().filter_map(|base| tables.size_at(*base));
            places.collect()
        };
        places.into_iter().try_for_each(|place| {
            self.env
                .driver()
                .fill_in_stream(DeviceAddress(place), Element::Word(0), WORDS, stream)
        })
    }

    fn write_changes(&self, memory: &Memory) -> Result<(), String> {
        let driver = self.env.driver();
        let changes = memory.take_changes();
        let mut updates = Vec::new();
        let mut problem = None;
        let opens = !self.opened.swap(true, Ordering::AcqRel) && driver.accesses_pageable_memory();
        {
            let mut tables = self.tables.lock();
            if opens {
                let done = tables.open(&mut updates);
                problem = done.err().map(|error| error.to_string());
            }
            for change in changes {
                let done = match change {
                    Change::Insert { extent, serial } => {
                        tables.insert(extent, serial, &mut updates)
                    }
                    Change::Dead(extent) => tables.dead(extent, &mut updates),
                    Change::Remove { base } => tables.remove(base, &mut updates),
                    Change::Reshape(reshaped) => {
                        tables.replace(&reshaped.gone, &reshaped.new, &mut updates)
                    }
                    Change::Part(edit) => tables.edit(&edit, &mut updates),
                };
                problem = problem.or(done.err().map(|error| error.to_string()));
            }
        }
        if let Err(error) = apply_all(driver, &updates) {
            problem = problem.or(Some(error.to_string()));
        }
        match problem {
            None => Ok(()),
            Some(problem) => {
                self.allow_misses();
                Err(format!(
                    "the device's lookup tables could not be brought up to date: {problem}. Pointers that kernels load \
                     from memory are from now on checked only where their allocation is known"
                ))
            }
        }
    }
}

fn map(driver: &dyn Driver) -> Result<HostMapping, DriverError> {
    driver.map_fixed(DeviceAddress(CONTROL_BASE), CONTROL_SIZE)?;
    driver.map_fixed(DeviceAddress(REGION_TABLE), REGION_COUNT * 8)?;
    driver.map_host_fixed(DeviceAddress(RING_BASE), RING_SIZE)
}

/// Does updates in their order, with one wait for those between two mappings.
fn apply_all(driver: &dyn Driver, updates: &[TableUpdate]) -> Result<(), DriverError> {
    let is_map = |update: &TableUpdate| matches!(update, TableUpdate::Map { .. });
    for same in updates.chunk_by(|a, b| !is_map(a) && !is_map(b)) {
        if let [update] = same {
            apply(driver, update)?;
            continue;
        }
        let stores: Vec<Store<'_>> = same
            .iter()
            .filter_map(|update| match update {
                TableUpdate::Write { address, bytes } => {
                    Some(Store::Bytes(DeviceAddress(*address), bytes))
                }
                TableUpdate::Fill {
                    address,
                    value,
                    count,
                } => Some(Store::Fill {
                    address: DeviceAddress(*address),
                    value: *value,
                    count: *count,
                }),
                // One of its own.
                TableUpdate::Map { .. } => None,
            })
            .collect();
        driver.store_all(&stores)?;
    }
    Ok(())
}

fn apply(driver: &dyn Driver, update: &TableUpdate) -> Result<(), DriverError> {
    match update {
        TableUpdate::Write { address, bytes } => driver.write(DeviceAddress(*address), bytes),
        TableUpdate::Fill {
            address,
            value,
            count,
        } => driver.fill(DeviceAddress(*address), *value, *count),
        TableUpdate::Map { address, size } => driver.map_fixed(DeviceAddress(*address), *size),
    }
}

fn window_bytes(words: [u64; 2], is_poisoned: bool) -> [u8; LAUNCH_WINDOW as usize] {
    let last = words[1] | u64::from(is_poisoned) << 32;
    u128::to_le_bytes(u128::from(words[0]) | u128::from(last) << 64)
}
