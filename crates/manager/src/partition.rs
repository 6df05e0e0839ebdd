//! A tenant's partition: its addresses, and the memory behind them.

use crate::addresses::{BEFORE, SINK};
use crate::slices::Place;
use driver::DriverError;
use driver::calls::{Context, Reservation, Stream};
use model::layout::fence::{FenceTable, GRANULE, HEADROOM, MARGIN, NoPartition, stop};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// A partition without memory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PartitionError {
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Place(#[from] NoPartition),
    #[error("{0}")]
    Range(#[from] driver::calls::OutOfReservation),
}

/// Why the kernels of a tenant were ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Why {
    /// It is gone.
    Gone = 1,
    /// Another one waited to load code for longer than the budget.
    Load = 2,
    /// The work of another one stood still for longer than the budget.
    Stall = 3,
    /// One of its threads reached a trap, which natively ends the whole kernel.
    Retired = 4,
}

impl Why {
    /// What the tenant is told.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Why::Gone | Why::Retired => "its kernels were ended",
            Why::Load => {
                "its kernels ran for longer than the manager's --kernel-time while another tenant waited to load code; they were ended"
            }
            Why::Stall => {
                "its kernels ran for longer than the manager's --stall-time while the work of another tenant stood still; they were ended"
            }
        }
    }
}

/// Ends the kernels of a tenant.
pub(crate) struct Stopper {
    reservation: Arc<Reservation>,
    /// The address of the word that each thread looks at.
    word: u64,
    /// No other one has it.
    number: u64,
    /// Held while the word is written.
    writing: Mutex<()>,
    /// A [`Why`], or 0.
    stopped: AtomicU8,
}

/// The number of the next [`Stopper`].
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Stopper {
    fn new(reservation: &Arc<Reservation>, word: u64) -> Stopper {
        Stopper {
            reservation: Arc::clone(reservation),
            word,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            writing: Mutex::new(()),
            stopped: AtomicU8::new(0),
        }
    }

    /// The address of the word that each thread looks at.
    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    /// Tells its tenant from all others, those that are gone too.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Ends the kernels that run and those that are queued: each thread retires
    /// where it next looks at the word. Waits for none. Whether it did not
    /// happen before.
    pub(crate) fn stop(&self, context: &Context, why: Why) -> Result<bool, PartitionError> {
        let _writing = self.writing.lock();
        let place = self.reservation.slice(self.word, 4)?;
        // The reason is stored before the word is written. Otherwise a session could
        // find the stream idle and no reason, and report success for a kernel that
        // was ended half-way.
        let stopped =
            self.stopped
                .compare_exchange(0, why as u8, Ordering::AcqRel, Ordering::Acquire);
        if let Err(error) = context.write(place, &1u32.to_le_bytes()) {
            if stopped.is_ok() {
                self.stopped.store(0, Ordering::Release);
            }
            return Err(error.into());
        }
        Ok(stopped.is_ok())
    }

    /// Why its kernels were ended; `None` if they were not.
    pub(crate) fn stopped(&self) -> Option<Why> {
        match self.stopped.load(Ordering::Acquire) {
            0 => None,
            number if number == Why::Load as u8 => Some(Why::Load),
            number if number == Why::Stall as u8 => Some(Why::Stall),
            number if number == Why::Retired as u8 => Some(Why::Retired),
            _ => Some(Why::Gone),
        }
    }

    /// Lets kernels run again; the last one that was ended must be over.
    pub(crate) fn start(&self, context: &Context) -> Result<(), PartitionError> {
        let _writing = self.writing.lock();
        let place = self.reservation.slice(self.word, 4)?;
        context.write(place, &0u32.to_le_bytes())?;
        self.stopped.store(0, Ordering::Release);
        Ok(())
    }
}

/// A partition. Its memory goes when it is dropped, and then its addresses.
pub(crate) struct Partition {
    reservation: Arc<Reservation>,
    table: FenceTable,
    memory: u64,
    stopper: Arc<Stopper>,
    /// Dropped last, so that nobody gets addresses that are still mapped.
    _place: Place,
}

impl Partition {
    /// Maps the memory of a place into its addresses, with sink pages everywhere
    /// else, and clears all of it in a stream.
    pub(crate) fn map(
        (context, stream): (&Context, &Stream),
        place: Place,
        reserved_shared: u32,
    ) -> Result<Partition, PartitionError> {
        let (base, size, memory) = (place.base(), place.size(), place.memory());
        let table = FenceTable::new((base, size), base - BEFORE, reserved_shared, true)?;
        let reservation = context.reserve(base - BEFORE, BEFORE + size + MARGIN)?;
        let clear = |address, bytes| -> Result<(), PartitionError> {
            let rows = reservation.rows(address, bytes, bytes, 1)?;
            Ok(stream.fill(rows, 4, 0)?)
        };
        // The word that ends its kernels, which only the manager writes.
        let word = context.physical(GRANULE)?;
        reservation.map(base - BEFORE, &word)?;
        clear(base - BEFORE, GRANULE)?;
        // The counters of retired threads are memory of their own.
        let counters = context.physical(GRANULE)?;
        reservation.map(base, &counters)?;
        clear(base, GRANULE)?;
        let own = context.physical(memory)?;
        reservation.map(base + HEADROOM, &own)?;
        clear(base + HEADROOM, memory)?;
        let small = context.physical(GRANULE)?;
        map_repeatedly(
            &reservation,
            base + GRANULE,
            base + HEADROOM,
            &small,
            GRANULE,
        )?;
        clear(base + GRANULE, GRANULE)?;
        let sink = context.physical(SINK)?;
        map_repeatedly(&reservation, base - MARGIN, base, &sink, SINK)?;
        let rest = base + HEADROOM + memory;
        map_repeatedly(&reservation, rest, base + size + MARGIN, &sink, SINK)?;
        clear(rest, SINK)?;
        wait(stream)?;
        let stopper = Stopper::new(&reservation, table.stop + u64::from(stop::WORD));
        Ok(Partition {
            reservation,
            stopper: Arc::new(stopper),
            table,
            memory,
            _place: place,
        })
    }

    /// Its addresses.
    pub(crate) fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// What ends the tenant's kernels.
    pub(crate) fn stopper(&self) -> &Arc<Stopper> {
        &self.stopper
    }

    /// What fenced modules load.
    pub(crate) fn table(&self) -> &FenceTable {
        &self.table
    }

    /// The addresses that may hold allocations: first byte and bytes.
    pub(crate) fn allocatable(&self) -> (u64, u64) {
        (self.table.base + HEADROOM, self.memory)
    }
}

fn map_repeatedly(
    reservation: &Reservation,
    from: u64,
    to: u64,
    memory: &driver::calls::Physical,
    step: u64,
) -> Result<(), DriverError> {
    let mut at = from;
    while at < to {
        reservation.map(at, memory)?;
        at += step;
    }
    Ok(())
}

/// Waits for memsets of the manager's own.
fn wait(stream: &Stream) -> Result<(), DriverError> {
    while !stream.is_idle()? {
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
