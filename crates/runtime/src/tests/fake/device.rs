//! A device in a few lines: memory is a map of words, kernels are the test.

use driver::sys::CUresult;
use driver::{
    DeviceFailure, Driver, DriverError, Element, HostMapping, Release, StreamEvent, SupportKernel,
    SupportLaunch, SupportModule, SupportStream,
};
use model::layout::canary::{CHECK_STAMPS, CHECK_STAMPS_SIZE};
use model::layout::guard::{GUARD_CONTROL, GUARD_CONTROL_SIZE};
use model::layout::{
    CONTROL_BASE, CONTROL_SIZE, RING_BASE, RING_CAPACITY, RING_HEAD, RING_RECORDS, RING_SIZE,
    RING_TAIL, Record,
};
use model::{DeviceAddress, DeviceKind, Extent};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub const CONTEXT: u64 = 0xc0;

#[derive(Default)]
pub struct Fake {
    pub words: Mutex<BTreeMap<u64, u32>>,
    pub mapped: Mutex<Vec<(u64, u64)>>,
    pub writes: Mutex<Vec<u64>>,
    pub ring: Mutex<Option<HostMapping>>,
    /// Extents that only the driver knows, and how often it was asked.
    pub foreign: Mutex<(Vec<Extent>, u32)>,
    /// An address that cannot be mapped.
    pub taken: Option<u64>,
    /// Its kernels cannot wait for those before them.
    pub is_old: bool,
    /// Device memory is gone.
    pub lost: AtomicBool,
    /// How often the ring was made visible again.
    pub restored: AtomicU64,
    /// What waiting for the device answers.
    pub failure: Mutex<CUresult>,
    /// What it reports of a kernel that failed.
    pub failed: Mutex<Option<DeviceFailure>>,
    /// Handles of kernels that did not run to their end.
    pub not_run: Mutex<Vec<u64>>,
    /// What was given back, in order.
    pub released: Mutex<Vec<Release>>,
    /// Parameters of launches of Ringfence's own kernels.
    pub support: Mutex<Vec<Vec<u8>>>,
    /// Whether each of them may start early.
    pub early: Mutex<Vec<bool>>,
    /// What they answer.
    pub refusal: Mutex<CUresult>,
    /// How often they were waited for.
    pub own_waits: AtomicU64,
    /// Virtual memory.
    pub vmm: Mutex<FakeVmm>,
    /// Streams have not come to events yet.
    pub behind: AtomicBool,
}

/// Virtual memory, as the driver has it.
#[derive(Default)]
pub struct FakeVmm {
    /// The device's memory; 0: it has no virtual memory management.
    pub total: u64,
    /// Physical memory by handle: bytes, and whether it was released.
    pub physical: BTreeMap<u64, (u64, bool)>,
    /// Mappings by first byte: bytes and handle.
    pub mapped: BTreeMap<u64, (u64, u64)>,
    next: u64,
}

impl FakeVmm {
    /// Bytes of physical memory in use.
    pub fn used(&self) -> u64 {
        self.physical.values().map(|(size, _)| size).sum()
    }

    /// Whether an address is mapped.
    pub fn holds(&self, address: u64) -> bool {
        let below = self.mapped.range(..=address).next_back();
        below.is_some_and(|(base, (size, _))| address - base < *size)
    }

    fn drop_unused(&mut self) {
        let mapped: Vec<u64> = self.mapped.values().map(|(_, handle)| *handle).collect();
        self.physical
            .retain(|handle, (_, released)| !*released || mapped.contains(handle));
    }
}

fn refused(call: &'static str, code: CUresult) -> DriverError {
    DriverError {
        call,
        code,
        message: "refused".into(),
    }
}

impl Fake {
    pub fn u64(&self, address: u64) -> u64 {
        let words = self.words.lock();
        let word = |address| u64::from(words.get(&address).copied().unwrap_or(0));
        word(address) | word(address + 4) << 32
    }

    fn set_u64(&self, address: u64, value: u64) {
        let mut words = self.words.lock();
        words.insert(address, value as u32);
        words.insert(address + 4, (value >> 32) as u32);
    }

    /// Does what a thread does that has failed a check (`layout::Record`).
    /// Returns whether the ring had room.
    pub fn leave(&self, record: Record) -> bool {
        let ring = self.ring.lock().expect("metadata is attached");
        let number = self.u64(RING_HEAD);
        self.set_u64(RING_HEAD, number + 1);
        if number - ring.load_u64_acquire(RING_TAIL - RING_BASE).unwrap() >= RING_CAPACITY {
            return false;
        }
        let at = RING_RECORDS - RING_BASE + number % RING_CAPACITY * 64;
        let words = [
            record.module,
            record.address,
            record.base,
            record.size,
            record.launch,
            u64::from(record.site) | u64::from(record.thread) << 32,
            u64::from(record.block_x) | u64::from(record.block_yz) << 32,
        ];
        for (index, word) in words.iter().enumerate() {
            assert!(ring.store_u64_release(at + 8 + 8 * index as u64, *word));
        }
        ring.store_u64_release(at, number + 1)
    }
}

impl Driver for Fake {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }

    fn name(&self) -> String {
        "fake".into()
    }

    fn version(&self) -> u32 {
        13000
    }

    fn compute_capability(&self) -> Result<u32, DriverError> {
        Ok(if self.is_old { 80 } else { 90 })
    }

    fn map_fixed(&self, address: DeviceAddress, size: u64) -> Result<(), DriverError> {
        if self.taken == Some(address.0) {
            let message = format!("{address} + {size} bytes is taken");
            return Err(DriverError {
                call: "cuMemAddressReserve",
                code: CUresult::CUDA_ERROR_OUT_OF_MEMORY,
                message,
            });
        }
        assert_eq!((address.0 % CONTROL_SIZE, size % CONTROL_SIZE), (0, 0));
        self.mapped.lock().push((address.0, size));
        Ok(())
    }

    fn map_host_fixed(
        &self,
        address: DeviceAddress,
        size: u64,
    ) -> Result<HostMapping, DriverError> {
        let known = [
            (RING_BASE, RING_SIZE),
            (GUARD_CONTROL, GUARD_CONTROL_SIZE),
            (CHECK_STAMPS, CHECK_STAMPS_SIZE),
        ];
        assert!(known.contains(&(address.0, size)));
        let words: Vec<AtomicU64> = (0..size / 8).map(|_| AtomicU64::new(0)).collect();
        let mapping = HostMapping::from_words(
            Extent {
                base: address,
                size,
            },
            words.leak(),
        )
        .unwrap();
        if address.0 == RING_BASE {
            *self.ring.lock() = Some(mapping);
        }
        Ok(mapping)
    }

    fn reserve_fixed(&self, _: Extent) -> Result<(), DriverError> {
        match self.vmm.lock().total {
            0 => Err(refused(
                "cuMemAddressReserve",
                CUresult::CUDA_ERROR_NOT_SUPPORTED,
            )),
            _ => Ok(()),
        }
    }

    fn total_memory(&self) -> Result<u64, DriverError> {
        Ok(self.vmm.lock().total)
    }

    fn create_memory(&self, size: u64) -> Result<u64, DriverError> {
        let mut vmm = self.vmm.lock();
        assert!(size > 0 && size.is_multiple_of(CONTROL_SIZE));
        if vmm.used() + size > vmm.total {
            return Err(refused("cuMemCreate", CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        }
        vmm.next += 1;
        let handle = vmm.next;
        vmm.physical.insert(handle, (size, false));
        Ok(handle)
    }

    fn map_memory(&self, extent: Extent, memory: u64) -> Result<(), DriverError> {
        let mut vmm = self.vmm.lock();
        assert_eq!(vmm.physical[&memory], (extent.size, false));
        assert!(extent.base.0.is_multiple_of(CONTROL_SIZE));
        let below = vmm.mapped.range(..extent.end().0).next_back();
        assert!(below.is_none_or(|(base, (size, _))| base + size <= extent.base.0));
        vmm.mapped.insert(extent.base.0, (extent.size, memory));
        Ok(())
    }

    fn unmap_memory(&self, extent: Extent) -> Result<(), DriverError> {
        let mut vmm = self.vmm.lock();
        let (size, _) = vmm.mapped.remove(&extent.base.0).expect("it is mapped");
        assert_eq!(size, extent.size);
        vmm.drop_unused();
        Ok(())
    }

    fn release_memory(&self, memory: u64) -> Result<(), DriverError> {
        let mut vmm = self.vmm.lock();
        vmm.physical.get_mut(&memory).expect("it is there").1 = true;
        vmm.drop_unused();
        Ok(())
    }

    fn restore_host(&self, mapping: HostMapping) -> Result<(), DriverError> {
        match mapping.extent().base.0 {
            RING_BASE => _ = self.restored.fetch_add(1, Ordering::Relaxed),
            base => assert_eq!(base, GUARD_CONTROL),
        }
        Ok(())
    }

    fn write(&self, address: DeviceAddress, bytes: &[u8]) -> Result<(), DriverError> {
        self.writes.lock().push(address.0);
        for (index, word) in bytes.chunks_exact(4).enumerate() {
            self.words.lock().insert(
                address.0 + 4 * index as u64,
                u32::from_le_bytes(word.try_into().unwrap()),
            );
        }
        Ok(())
    }

    fn fill(&self, address: DeviceAddress, value: u32, count: u64) -> Result<(), DriverError> {
        self.writes.lock().push(address.0);
        for index in 0..count {
            self.words.lock().insert(address.0 + 4 * index, value);
        }
        Ok(())
    }

    fn fill_in_stream(
        &self,
        address: DeviceAddress,
        element: Element,
        count: u64,
        _: SupportStream,
    ) -> Result<(), DriverError> {
        match element {
            Element::Word(value) => self.fill(address, value, count),
            Element::Byte(value) => {
                self.writes.lock().push(address.0);
                let mut words = self.words.lock();
                for at in address.0..address.0 + count {
                    let (word, shift) = (words.entry(at & !3).or_default(), 8 * (at & 3));
                    *word = *word & !(0xff << shift) | u32::from(value) << shift;
                }
                Ok(())
            }
        }
    }

    fn read(&self, address: DeviceAddress, bytes: &mut [u8]) -> Result<(), DriverError> {
        assert!(address.0 >= CONTROL_BASE && bytes.len() == 8);
        if self.lost.load(Ordering::Relaxed) {
            let message = "nothing is mapped there".to_string();
            return Err(DriverError {
                call: "cuMemcpyDtoH",
                code: CUresult::CUDA_ERROR_INVALID_VALUE,
                message,
            });
        }
        bytes.copy_from_slice(&self.u64(address.0).to_le_bytes());
        Ok(())
    }

    fn load_support(&self, _: &'static str) -> Result<SupportModule, DriverError> {
        Ok(SupportModule { handle: 1 })
    }

    fn support_kernel(&self, module: SupportModule, _: &str) -> Result<SupportKernel, DriverError> {
        Ok(SupportKernel {
            handle: module.handle,
        })
    }

    fn launch_support(
        &self,
        _: SupportKernel,
        launch: &SupportLaunch<'_>,
    ) -> Result<(), DriverError> {
        match *self.refusal.lock() {
            CUresult::CUDA_SUCCESS => {
                self.support.lock().push(launch.parameters.to_vec());
                self.early.lock().push(launch.waits_itself);
                Ok(())
            }
            code => Err(DriverError {
                call: "cuLaunchKernel",
                code,
                message: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES".into(),
            }),
        }
    }

    fn wait_for_own(&self) -> Result<(), DriverError> {
        self.own_waits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn with_context(
        &self,
        _: u64,
        work: &mut dyn FnMut() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        work()
    }

    fn record_event(&self, _: SupportStream) -> Result<StreamEvent, DriverError> {
        Ok(StreamEvent { handle: 1 })
    }

    fn wait_for_event(&self, _: StreamEvent) -> Result<(), DriverError> {
        Ok(())
    }

    fn is_over(&self, _: StreamEvent) -> Result<bool, DriverError> {
        Ok(!self.behind.load(Ordering::Relaxed))
    }

    fn destroy_event(&self, _: StreamEvent) {}

    fn is_idle(&self, _: SupportStream) -> Result<bool, DriverError> {
        Ok(true)
    }

    fn allocation_of(&self, address: DeviceAddress) -> Option<Extent> {
        let mut foreign = self.foreign.lock();
        foreign.1 += 1;
        foreign
            .0
            .iter()
            .find(|extent| extent.contains(address))
            .copied()
    }

    fn failure(&self) -> Option<DeviceFailure> {
        self.failed.lock().clone()
    }

    fn take_not_run(&self) -> Vec<u64> {
        std::mem::take(&mut *self.not_run.lock())
    }

    fn current_context(&self) -> u64 {
        CONTEXT
    }

    fn settle(&self, _: u64) -> Result<(), DriverError> {
        match *self.failure.lock() {
            CUresult::CUDA_SUCCESS => Ok(()),
            code => Err(DriverError {
                call: "cuCtxSynchronize",
                code,
                message: String::new(),
            }),
        }
    }

    fn release(&self, release: &Release) -> Result<(), DriverError> {
        self.released.lock().push(*release);
        Ok(())
    }
}
