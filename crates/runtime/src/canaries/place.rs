//! How much is asked of the driver for a buffer and its canaries, and how they
//! are made.

use super::Canaries;
use super::later::New;
use driver::{SupportLaunch, SupportStream};
use heap::canary::Keys;
use heap::{Owner, Redzones};
use model::layout::canary::{CANARY_TABLE, CanaryRecord, FillParameters};
use model::{AllocationKind, BareReason, DeviceAddress, Extent};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;

/// What a buffer's address is a multiple of, counted from the driver's own: the
/// alignment of textures, the most that the CUDA API promises.
const ALIGNMENT: u64 = 512;
/// Bytes of each canary where memory is short.
const SMALL: u64 = ALIGNMENT;

/// A buffer with its canaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryPlan {
    before: u64,
    size: u64,
    total: u64,
    smaller: bool,
}

impl CanaryPlan {
    fn of(size: u64, canary: u64, head: bool) -> Option<CanaryPlan> {
        let before = if head {
            canary.checked_next_multiple_of(ALIGNMENT)?
        } else {
            0
        };
        let end = before.checked_add(size)?.checked_add(canary)?;
        Some(CanaryPlan {
            before,
            size,
            total: end.checked_next_multiple_of(16)?,
            smaller: false,
        })
    }

    /// A buffer that lies between so many bytes of its own, which end at multiples
    /// of 16. `None`: there is no room for a canary.
    pub fn between(before: u64, size: u64, after: u64) -> Option<CanaryPlan> {
        Some(CanaryPlan {
            before,
            size,
            total: before.checked_add(size)?.checked_add(after)?,
            smaller: false,
        })
        .filter(|_| before + after != 0)
    }

    /// Rows of a pitched allocation: whole rows are canaries. The buffer ends
    /// where its last row does.
    pub fn of_rows(pitch: u64, rows: u64, before: u64, after: u64) -> Option<CanaryPlan> {
        Some(CanaryPlan {
            before: pitch.checked_mul(before)?,
            size: pitch.checked_mul(rows)?,
            total: pitch.checked_mul(rows.checked_add(before)?.checked_add(after)?)?,
            smaller: false,
        })
    }

    /// A buffer with redzones; `None` if they are too large.
    pub(crate) fn redzoned(placed: heap::shadow::Redzoned) -> Option<CanaryPlan> {
        let plan = CanaryPlan {
            before: placed.before,
            size: placed.size,
            total: placed.total,
            smaller: false,
        };
        plan.redzones(None).map(|_| plan)
    }

    /// Bytes to ask the driver for.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Where the program's buffer starts in them.
    pub fn start(&self) -> u64 {
        self.before
    }

    fn after(&self) -> u64 {
        self.total - self.before - self.size
    }

    pub(crate) fn redzones(&self, slot: Option<u32>) -> Option<Redzones> {
        Some(Redzones {
            before: u32::try_from(self.before).ok()?,
            after: u32::try_from(self.after()).ok()?,
            slot,
        })
    }
}

/// When canaries are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// By the host, before any kernel that is not checked can use the buffer.
    Now,
    /// In the stream in which the buffer was allocated.
    InStream(SupportStream),
}

impl Canaries {
    /// What to ask the driver for, so that a buffer has canaries; the next if
    /// there is no memory for the one before. None: it gets none. `head`:
    /// the program may be given another address than the driver's.
    pub fn plans(&self, size: u64, head: bool) -> SmallVec<[CanaryPlan; 2]> {
        let mut plans = SmallVec::new();
        if !self.wanted || size == 0 || self.failed.load(Ordering::Relaxed) {
            return plans;
        }
        let head = head && self.head;
        plans.extend(CanaryPlan::of(size, self.size, head));
        if self.size > SMALL
            && let Some(small) = CanaryPlan::of(size, SMALL, head)
        {
            plans.push(CanaryPlan {
                smaller: true,
                ..small
            });
        }
        plans.retain(|plan| plan.redzones(None).is_some());
        plans
    }
}

impl Canaries {
    /// How many bytes of canary are wanted on either side; 0: none.
    pub fn size(&self) -> u64 {
        match self.plans(1, true).is_empty() {
            true => 0,
            false => self.size,
        }
    }

    /// A buffer that has no canaries where others have.
    pub fn bare(&self, reason: BareReason) {
        if self.wanted {
            *self.counts.lock().bare.entry(reason).or_default() += 1;
        }
    }

    /// As [`Allocations::allocated_by`](crate::Allocations::allocated_by), of a buffer for which the driver was asked
    /// by a plan; the extent is the program's.
    pub fn allocated(
        &self,
        kind: AllocationKind,
        extent: Extent,
        mut owner: Owner,
        plan: &CanaryPlan,
        fill: Fill,
    ) {
        let context = self.env.driver().current_context();
        let slot = self.slot(context);
        owner.redzones = plan.redzones(slot).unwrap_or_default();
        let serial = self.allocations.insert(kind, extent, owner);
        let (Some(slot), Some(serial)) = (slot, serial) else {
            return self.bare(BareReason::Unprotected);
        };
        self.table.lock().own(slot, serial, extent);
        let redzones = owner.redzones;
        let record = || self.record(extent, redzones, context, serial);
        let made = match fill {
            Fill::Now if self.makes_later(kind) => {
                let new = New {
                    extent,
                    redzones,
                    context,
                    serial,
                };
                self.later.add(slot, new);
                Ok(())
            }
            Fill::Now => self.write_canaries(slot, &record()),
            Fill::InStream(stream) => self.fill_in_stream(slot, &record(), stream),
        };
        if let Err(error) = made {
            self.env
                .error(&format!("a buffer is without canaries: {error}"), false);
            return self.bare(BareReason::Unprotected);
        }
        let mut counts = self.counts.lock();
        counts.buffers += 1;
        counts.bytes += plan.total - plan.size;
        counts.smaller += u64::from(plan.smaller);
    }

    /// A buffer whose record was taken out of the table is not freed after all.
    pub(super) fn restore(&self, extent: Extent, redzones: Redzones, serial: u64) {
        let Some(slot) = redzones.slot else { return };
        let context = self.env.driver().current_context();
        let record = self.record(extent, redzones, context, serial);
        {
            let mut table = self.table.lock();
            if !table.retake(slot) {
                drop(table);
                return self.bare(BareReason::Unprotected);
            }
            table.own(slot, serial, extent);
        }
        if let Err(error) = self.write_canaries(slot, &record) {
            self.env
                .error(&format!("a buffer is without canaries: {error}"), false);
        }
    }

    pub(super) fn record(
        &self,
        extent: Extent,
        redzones: Redzones,
        context: u64,
        serial: u64,
    ) -> CanaryRecord {
        let key = self.keys.key(serial);
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&key.bytes()[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        CanaryRecord {
            base: extent.base.0,
            size: extent.size,
            serial,
            before: redzones.before,
            after: redzones.after,
            pattern: [word(0), word(8)],
            context,
            check: 0,
        }
        .sealed()
    }

    fn write_canaries(&self, slot: u32, record: &CanaryRecord) -> Result<(), driver::DriverError> {
        let written = Written::of(&self.keys, slot, record);
        let writes: SmallVec<[_; 3]> = write_list(&written).collect();
        self.env.driver().write_all(&writes)
    }

    fn fill_in_stream(
        &self,
        slot: u32,
        record: &CanaryRecord,
        stream: SupportStream,
    ) -> Result<(), driver::DriverError> {
        let Some(kernels) = self.kernels_of(record.context) else {
            return Err(driver::DriverError {
                call: "cuModuleGetFunction",
                code: driver::sys::CUresult::CUDA_ERROR_UNKNOWN,
                message: "the kernels that verify canaries are not there".into(),
            });
        };
        let parameters = FillParameters {
            record: *record,
            slot: u64::from(slot),
        };
        let launch = SupportLaunch {
            blocks: 1,
            threads: 256,
            parameters: &parameters.bytes(),
            stream,
            waits_itself: false,
        };
        self.env.driver().launch_support(kernels.fill, &launch)
    }
}

/// What is written to the device for a buffer's canaries.
pub(super) struct Written {
    head: (DeviceAddress, Vec<u8>),
    tail: (DeviceAddress, Vec<u8>),
    record: (DeviceAddress, [u8; 64]),
}

impl Written {
    pub fn of(keys: &Keys, slot: u32, record: &CanaryRecord) -> Written {
        let key = keys.key(record.serial);
        let first = record.base - u64::from(record.before);
        let end = record.base + record.size;
        let mut head = vec![0; record.before as usize];
        key.fill(first, &mut head);
        let mut tail = vec![0; record.after as usize];
        key.fill(end, &mut tail);
        Written {
            head: (DeviceAddress(first), head),
            tail: (DeviceAddress(end), tail),
            record: (slot_address(slot), record.bytes()),
        }
    }
}

/// The writes for a buffer, in order.
pub(super) fn write_list(written: &Written) -> impl Iterator<Item = (DeviceAddress, &[u8])> {
    let (head, tail) = (&written.head, &written.tail);
    let canaries = [(head.0, head.1.as_slice()), (tail.0, tail.1.as_slice())];
    // The record last: from then on they are verified.
    let record = (written.record.0, written.record.1.as_slice());
    let filled = canaries.into_iter().filter(|(_, bytes)| !bytes.is_empty());
    filled.chain([record])
}

/// Where a slot's record lies.
pub(super) fn slot_address(slot: u32) -> DeviceAddress {
    DeviceAddress(CANARY_TABLE + u64::from(slot) * size_of::<CanaryRecord>() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_keep_the_alignment_and_leave_room() {
        for size in [1u64, 15, 16, 1000, 4096, 1 << 30] {
            for canary in [16, 512, 4096, 5000] {
                let plan = CanaryPlan::of(size, canary, true).unwrap();
                assert_eq!(plan.start() % ALIGNMENT, 0);
                assert!(plan.start() >= canary && plan.after() >= canary);
                assert_eq!((plan.start() + size + plan.after()) % 16, 0);
                let tail = CanaryPlan::of(size, canary, false).unwrap();
                assert_eq!((tail.start(), tail.total() % 16), (0, 0));
            }
        }
        assert!(CanaryPlan::of(u64::MAX - 100, 4096, true).is_none());
        let rows = CanaryPlan::of_rows(512, 10, 8, 8).unwrap();
        assert_eq!(
            (rows.start(), rows.after(), rows.total()),
            (4096, 4096, 26 * 512)
        );
    }
}
