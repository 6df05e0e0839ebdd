//! The device's table of canaries: which slot is whose, and how slots come to
//! be and go.
//!
//! A slot is given out again only when the device is known to have emptied it:
//! at once where the host waited for that, else when the check that emptied it
//! in stream order has reported that it ended.

use super::place::slot_address;
use super::{Canaries, Kernels};
use crate::moment::moment_over;
use crate::watch::Waits;
use driver::DriverError;
use driver::sys::CUresult;
use model::layout::canary::{
    CANARY_PINS, CANARY_SLOTS, CANARY_TABLE, CHECK_KERNEL, CHECK_STAMPS, CHECK_STAMPS_SIZE,
    CanaryRecord, FILL_KERNEL,
};
use model::{DeviceAddress, Extent};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::atomic::Ordering;

/// The kernels, as `cargo xtask generate` made them of `device/canary.cu`.
const MODULE: &str = include_str!("../device/canary.ptx");
/// The same for devices on which a check waits itself for what is before it.
const WAITING_MODULE: &str = include_str!("../device/canary_sm_90.ptx");
/// The first of these devices.
const WAITING_CAPABILITY: u32 = 90;
/// Bytes mapped at a time: the driver's granule.
const PAGE: u64 = 2 << 20;
/// Buffers remembered after they are gone, for findings that come late.
const REMEMBERED: usize = 1 << 14;

/// See the module's header.
#[derive(Default)]
pub(super) struct Table {
    /// Slots that were ever given out.
    pub high: u32,
    /// Slots for which memory is mapped.
    mapped: u32,
    pins_mapped: u64,
    free: Vec<u32>,
    /// Slots that a check empties, with its number.
    retiring: Vec<(u64, u32)>,
    /// Slots whose context is gone, and whose record is still there.
    stale: Vec<u32>,
    /// Serials of the buffers that slots are of.
    owners: FxHashMap<u32, u64>,
    /// By serial, with those that are gone.
    extents: FxHashMap<u64, Extent>,
    gone: VecDeque<u64>,
}

impl Table {
    /// A slot has a buffer.
    pub fn own(&mut self, slot: u32, serial: u64, extent: Extent) {
        self.owners.insert(slot, serial);
        self.extents.insert(serial, extent);
    }

    /// Whether a slot is this buffer's.
    pub fn is_of(&self, slot: u32, serial: u64) -> bool {
        self.owners.get(&slot) == Some(&serial)
    }

    /// Takes a slot back that was given up for nothing, unless it has gone to
    /// another buffer.
    pub fn retake(&mut self, slot: u32) -> bool {
        let place = self.free.iter().position(|free| *free == slot);
        place.map(|place| self.free.swap_remove(place)).is_some()
    }

    /// The extent of a buffer that has or had canaries.
    pub fn extent(&self, serial: u64) -> Option<Extent> {
        self.extents.get(&serial).copied()
    }

    fn disown(&mut self, slot: u32) {
        if let Some(serial) = self.owners.remove(&slot) {
            self.gone.push_back(serial);
            if self.gone.len() > REMEMBERED
                && let Some(oldest) = self.gone.pop_front()
            {
                self.extents.remove(&oldest);
            }
        }
    }

    /// A check that was launched empties a slot.
    pub fn retire(&mut self, slot: u32, check: u64) {
        self.disown(slot);
        self.retiring.push((check, slot));
    }

    /// The device has emptied a slot.
    pub fn emptied(&mut self, slot: u32) {
        self.disown(slot);
        self.retiring.retain(|(_, retiring)| *retiring != slot);
        self.free.push(slot);
    }

    /// The context of a slot's buffer is gone, or a check may still read the
    /// slot.
    pub fn lost(&mut self, slot: u32) {
        self.disown(slot);
        self.retiring.retain(|(_, retiring)| *retiring != slot);
        self.stale.push(slot);
    }

    /// Gives slots out again whose checks have ended.
    fn sweep(&mut self, ended: impl Fn(u64) -> bool) {
        let free = &mut self.free;
        self.retiring.retain(|(check, slot)| {
            let is_over = ended(*check);
            if is_over {
                free.push(*slot);
            }
            !is_over
        });
    }

    fn take(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        (self.high < self.mapped).then(|| {
            self.high += 1;
            self.high - 1
        })
    }
}

impl Canaries {
    /// How many slots there may be records in.
    pub(super) fn slots(&self) -> u32 {
        self.table.lock().high
    }
}

impl Canaries {
    /// A slot for a buffer of the current context, if canaries can be made.
    pub(super) fn slot(&self, context: u64) -> Option<u32> {
        if context == 0 || self.failed.load(Ordering::Relaxed) {
            return None;
        }
        if !self.kernels.lock().contains_key(&context)
            && let Err(message) = self.attach(context)
        {
            self.failed.store(true, Ordering::Relaxed);
            self.env.error(
                &format!("buffers are without canaries from here on: {message}"),
                false,
            );
            return None;
        }
        // Without it the next check says so.
        let _ = self.restore_check_memory();
        self.clear_stale();
        let checks = &self.checks;
        loop {
            {
                let mut table = self.table.lock();
                if table.free.is_empty() && !table.retiring.is_empty() {
                    table.sweep(|check| checks.has_ended(self, check));
                }
                if let Some(slot) = table.take() {
                    let high = table.high;
                    drop(table);
                    self.watch.table_slots(u64::from(high));
                    return Some(slot);
                }
            }
            if let Err(error) = self.grow() {
                self.env.error(
                    &format!(
                        "a buffer is without canaries, because their table cannot grow: {error}"
                    ),
                    false,
                );
                return None;
            }
        }
    }

    /// Readies a context for canaries.
    fn attach(&self, context: u64) -> Result<(), String> {
        self.metadata.attach()?;
        let Some(_turn) = self.turn.take() else {
            return Err("the driver called back while Ringfence was setting itself up".into());
        };
        if self.kernels.lock().contains_key(&context) {
            return Ok(());
        }
        let load = || -> Result<Kernels, DriverError> {
            let check_waits = self.env.driver().compute_capability()? >= WAITING_CAPABILITY;
            let text = if check_waits { WAITING_MODULE } else { MODULE };
            let module = self.env.driver().load_support(text)?;
            let kernels = Kernels {
                check_waits,
                check: self.env.driver().support_kernel(module, CHECK_KERNEL)?,
                fill: self.env.driver().support_kernel(module, FILL_KERNEL)?,
            };
            if self.stamps.get().is_none() {
                let address = DeviceAddress(CHECK_STAMPS);
                let stamps = self
                    .env
                    .driver()
                    .map_host_fixed(address, CHECK_STAMPS_SIZE)?;
                self.stamps.get_or_init(|| stamps);
            }
            Ok(kernels)
        };
        // A module is loaded when the device is idle.
        let paused = self.watch.pause(Waits::Perhaps);
        let kernels = load().map_err(|error| error.to_string())?;
        drop(paused);
        self.kernels.lock().insert(context, kernels);
        self.active.store(true, Ordering::Release);
        moment_over();
        Ok(())
    }

    /// Sees to it that the device still sees what it writes to, after a context
    /// was destroyed.
    pub(super) fn restore_check_memory(&self) -> Result<(), DriverError> {
        let doubtful = &self.doubtful;
        if !doubtful.load(Ordering::Acquire) || !doubtful.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let restored = match self.metadata.attach() {
            Ok(_) => match self.stamps.get() {
                Some(stamps) => self.env.driver().restore_host(*stamps),
                None => Ok(()),
            },
            Err(message) => Err(DriverError {
                call: "cuMemHostRegister",
                code: CUresult::CUDA_ERROR_UNKNOWN,
                message,
            }),
        };
        if restored.is_err() {
            self.doubtful.store(true, Ordering::Release);
        }
        restored
    }

    /// Maps more of the table.
    fn grow(&self) -> Result<(), DriverError> {
        let Some(_turn) = self.turn.take() else {
            return Err(DriverError {
                call: "cuMemMap",
                code: CUresult::CUDA_ERROR_UNKNOWN,
                message: "the driver called back while the table was growing".into(),
            });
        };
        let (mapped, pins) = {
            let table = self.table.lock();
            if table.high < table.mapped {
                return Ok(());
            }
            (table.mapped, table.pins_mapped)
        };
        let record = size_of::<CanaryRecord>() as u64;
        let more = mapped + (PAGE / record) as u32;
        if u64::from(more) > CANARY_SLOTS {
            return Err(DriverError {
                call: "cuMemMap",
                code: CUresult::CUDA_ERROR_OUT_OF_MEMORY,
                message: format!("it has {mapped} buffers already"),
            });
        }
        let mut pins_mapped = pins;
        if u64::from(more) * 4 > pins {
            self.env
                .driver()
                .map_fixed(DeviceAddress(CANARY_PINS + pins), PAGE)?;
            pins_mapped += PAGE;
        }
        self.table.lock().pins_mapped = pins_mapped;
        let at = CANARY_TABLE + u64::from(mapped) * record;
        self.env.driver().map_fixed(DeviceAddress(at), PAGE)?;
        self.table.lock().mapped = more;
        Ok(())
    }

    /// Empties slots of contexts that are gone.
    pub(super) fn clear_stale(&self) {
        let stale = {
            let mut table = self.table.lock();
            if table.stale.is_empty() {
                return;
            }
            std::mem::take(&mut table.stale)
        };
        for slot in stale {
            let emptied = self.empty_slot(slot);
            let mut table = self.table.lock();
            match emptied {
                Ok(()) => table.free.push(slot),
                Err(_) => table.stale.push(slot),
            }
        }
    }

    /// Takes the record out of a slot. A warp that had read it before may still
    /// be reading the canaries.
    pub(super) fn empty_slot(&self, slot: u32) -> Result<(), DriverError> {
        let check = slot_address(slot).0 + offset_of!(CanaryRecord, check) as u64;
        self.env.driver().write(DeviceAddress(check), &[0; 8])
    }

    /// A context is gone: its memory must not be read any more.
    pub(super) fn forget_context(&self, context: u64, slots: impl Iterator<Item = u32>) {
        if !self.active.load(Ordering::Acquire) {
            return;
        }
        self.kernels.lock().remove(&context);
        self.checks.forget(&self.launches, context);
        let new = self.later.context_gone(context);
        let freed = self.retiring.context_gone(context);
        let mut table = self.table.lock();
        for slot in freed {
            table.lost(slot);
        }
        for slot in slots {
            match new.contains(&slot) {
                true => table.emptied(slot),
                false => table.lost(slot),
            }
        }
    }

    pub(super) fn kernels_of(&self, context: u64) -> Option<Kernels> {
        self.kernels.lock().get(&context).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions of the kernel that verifies, without remarks.
    fn check(text: &str) -> Vec<&str> {
        let (_, kernel) = text.split_once(CHECK_KERNEL).unwrap();
        let (kernel, _) = kernel.split_once("\n}").unwrap();
        let lines = kernel.lines().map(str::trim_start);
        lines.filter(|line| !line.starts_with("//")).collect()
    }

    #[test]
    fn a_check_that_may_start_early_reads_nothing_before_it_has_waited() {
        let (plain, waiting) = (check(MODULE), check(WAITING_MODULE));
        let wait = |line: &&str| line.starts_with("griddepcontrol");
        let place = waiting.iter().position(wait).unwrap();
        assert_eq!(waiting[place], "griddepcontrol.wait;");
        // Parameters and the thread's own memory are there from the start.
        let harmless = |line: &&str| {
            let name = line.split([' ', '\t']).next().unwrap_or_default();
            match name.split('.').next() {
                Some("ld") => name.starts_with("ld.param") || name.starts_with("ld.local"),
                Some("st") => name.starts_with("st.local"),
                Some("mov" | "add" | "cvta") => true,
                // Not an instruction: the head, declarations, labels.
                _ => !line.ends_with(';') || line.starts_with('.'),
            }
        };
        let other = waiting[..place].iter().find(|line| !harmless(line));
        assert_eq!(other, None);
        // Nor does it let others start early; else it is the same kernel.
        let rest: Vec<&str> = waiting.iter().copied().filter(|line| !wait(line)).collect();
        assert_eq!((rest.len() + 1, &rest), (waiting.len(), &plain));
    }

    const EXTENT: Extent = Extent {
        base: DeviceAddress(0x1000),
        size: 16,
    };

    #[test]
    fn a_slot_is_given_out_again_only_when_the_device_has_emptied_it() {
        let mut table = Table {
            mapped: 2,
            ..Table::default()
        };
        assert_eq!(
            (table.take(), table.take(), table.take()),
            (Some(0), Some(1), None)
        );
        table.own(0, 7, EXTENT);
        table.own(1, 8, EXTENT);
        table.retire(0, 40);
        table.sweep(|check| check < 40);
        assert_eq!(table.take(), None);
        // Findings may still come.
        assert_eq!(table.extent(7), Some(EXTENT));
        table.sweep(|check| check <= 40);
        assert_eq!(table.take(), Some(0));
        table.emptied(1);
        assert_eq!(table.take(), Some(1));
        table.own(1, 9, EXTENT);
        table.lost(1);
        assert_eq!(
            (table.take(), table.stale.as_slice()),
            (None, [1].as_slice())
        );
    }
}
