//! A tenant's partition: its addresses, and the memory behind them.

use crate::addresses::{BEFORE, SINK};
use crate::slices::Place;
use driver::DriverError;
use driver::calls::{Context, Reservation, Stream};
use model::layout::fence::{FenceTable, GRANULE, HEADROOM, MARGIN, NoPartition, stop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Ends the kernels of a tenant.
pub(crate) struct Stopper {
    reservation: Arc<Reservation>,
    /// The address of the word that each thread looks at.
    word: u64,
    has_stopped: AtomicBool,
}

impl Stopper {
    /// Ends the kernels that run and those that are queued: each thread retires
    /// where it next looks at the word. Waits for none. Whether it did not
    /// happen before.
    pub(crate) fn stop(&self, context: &Context) -> Result<bool, PartitionError> {
        let place = self.reservation.slice(self.word, 4)?;
        context.write(place, &1u32.to_le_bytes())?;
        Ok(!self.has_stopped.swap(true, Ordering::AcqRel))
    }

    /// Whether its kernels were ended.
    pub(crate) fn has_stopped(&self) -> bool {
        self.has_stopped.load(Ordering::Acquire)
    }

    /// Lets kernels run again; the last one that was ended must be over.
    pub(crate) fn start(&self, context: &Context) -> Result<(), PartitionError> {
        let place = self.reservation.slice(self.word, 4)?;
        context.write(place, &0u32.to_le_bytes())?;
        self.has_stopped.store(false, Ordering::Release);
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
    /// else, and clears all of it.
    pub(crate) fn map(
        context: &Context,
        place: Place,
        reserved_shared: u32,
    ) -> Result<Partition, PartitionError> {
        let (base, size, memory) = (place.base(), place.size(), place.memory());
        let table = FenceTable::new((base, size), base - BEFORE, reserved_shared, true)?;
        let reservation = context.reserve(base - BEFORE, BEFORE + size + MARGIN)?;
        let stream = context.stream()?;
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
        wait(&stream)?;
        let stopper = Stopper {
            reservation: Arc::clone(&reservation),
            word: table.stop + u64::from(stop::WORD),
            has_stopped: AtomicBool::new(false),
        };
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
