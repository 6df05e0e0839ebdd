//! What all modules of a tenant have in common: the buffer that its kernels print
//! to, and the heap of `malloc` on the device (`model::layout::tenant`). Both lie
//! in its partition, and its kernels can write any of it: what is read there is
//! compared with what the manager itself knows.

use crate::device::Device;
use crate::memory::{ALIGNMENT, Memory, Use};
use crate::partition::Partition;
use driver::DriverError;
use driver::calls::OutOfReservation;
use driver::sys::CUresult;
use model::layout::tenant::{HEAP, PRINT, TenantHeap, TenantPrint};
use model::printed::whole;
use protocol::{Limit, Unprinted};

/// Bytes of records that are read at a time. The largest record of a kernel is
/// smaller.
const WINDOW: u64 = 1 << 20;

/// Blocks of the heap are powers of two, so that a program may need as many times
/// the memory that it asks for.
const HEAP_FACTOR: u64 = 2;

/// Buffer or heap cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommonError {
    #[error("the memory of the tenant has not {0} bytes left for what kernels print and allocate")]
    NoMemory(u64),
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Range(#[from] OutOfReservation),
}

impl CommonError {
    /// The error that the tenant's call gets.
    pub(crate) fn code(&self) -> CUresult {
        match self {
            CommonError::NoMemory(_) => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            CommonError::Driver(error) => error.code,
            CommonError::Range(_) => CUresult::CUDA_ERROR_INVALID_VALUE,
        }
    }
}

/// The two variables of a tenant.
pub(crate) struct Library {
    print: Part,
    heap: Part,
    /// How many bytes of records were read since they were last cleared.
    read: u64,
}

/// A variable, and the memory that it describes.
struct Part {
    limit: u64,
    /// Set when a module that uses it is loaded.
    place: Option<Place>,
    /// A kernel may have used it: its limit stays.
    is_used: bool,
}

#[derive(Clone, Copy)]
struct Place {
    head: u64,
    memory: u64,
    size: u64,
}

impl Part {
    fn new(limit: u64) -> Part {
        Part {
            limit,
            place: None,
            is_used: false,
        }
    }
}

/// Bytes of memory for a limit; `None` if there is not as much anywhere.
fn bytes_for(which: Limit, limit: u64) -> Option<u64> {
    let bytes = match which {
        Limit::Print => limit,
        Limit::Heap => limit.checked_mul(HEAP_FACTOR)?,
    };
    bytes.max(1).checked_next_multiple_of(ALIGNMENT)
}

impl Library {
    /// Nothing is placed yet.
    pub(crate) fn new() -> Library {
        Library {
            print: Part::new(Limit::Print.default_bytes()),
            heap: Part::new(Limit::Heap.default_bytes()),
            read: 0,
        }
    }

    fn part(&mut self, which: Limit) -> &mut Part {
        match which {
            Limit::Print => &mut self.print,
            Limit::Heap => &mut self.heap,
        }
    }

    /// Which of them a variable is that modules have in common.
    pub(crate) fn which(name: &str) -> Option<Limit> {
        match name {
            PRINT => Some(Limit::Print),
            HEAP => Some(Limit::Heap),
            _ => None,
        }
    }

    /// Where such a variable lies. Its memory is taken when it is first asked for.
    pub(crate) fn place(
        &mut self,
        which: Limit,
        (device, partition): (&Device, &Partition),
        memory: &mut Memory,
    ) -> Result<u64, CommonError> {
        if let Some(place) = self.part(which).place {
            return Ok(place.head);
        }
        let limit = self.part(which).limit;
        let head = memory.take(ALIGNMENT, ALIGNMENT, Use::Common);
        let head = head.ok_or(CommonError::NoMemory(ALIGNMENT))?;
        let placed = self.take_memory(which, (limit, head), (device, partition), memory);
        if placed.is_err() {
            memory.give_back(head);
        }
        placed.map(|()| head)
    }

    /// Takes memory for a limit, and says so at `head`.
    fn take_memory(
        &mut self,
        which: Limit,
        (limit, head): (u64, u64),
        (device, partition): (&Device, &Partition),
        memory: &mut Memory,
    ) -> Result<(), CommonError> {
        let size = bytes_for(which, limit).ok_or(CommonError::NoMemory(limit))?;
        let taken = memory.take(size, ALIGNMENT, Use::Common);
        let place = Place {
            head,
            memory: taken.ok_or(CommonError::NoMemory(size))?,
            size,
        };
        let written = match which {
            Limit::Print => clear(place, size, device, partition),
            Limit::Heap => {
                let heap = TenantHeap::new(place.memory, size);
                write(head, &heap.bytes(), device, partition)
            }
        };
        if let Err(error) = written {
            memory.give_back(place.memory);
            return Err(error);
        }
        let part = self.part(which);
        part.limit = limit;
        if let Some(old) = part.place.replace(place) {
            memory.give_back(old.memory);
        }
        Ok(())
    }

    /// A kernel is launched whose module uses these.
    pub(crate) fn launched(&mut self, uses: &[Limit]) {
        for which in uses {
            self.part(*which).is_used = true;
        }
    }

    /// Bytes that a tenant has asked for, or has without asking.
    pub(crate) fn limit(&self, which: Limit) -> u64 {
        match which {
            Limit::Print => self.print.limit,
            Limit::Heap => self.heap.limit,
        }
    }

    /// Sets a limit; `None` if a kernel may have used what it is about.
    pub(crate) fn set_limit(
        &mut self,
        (which, limit): (Limit, u64),
        places: (&Device, &Partition),
        memory: &mut Memory,
    ) -> Option<Result<(), CommonError>> {
        if self.part(which).is_used {
            return None;
        }
        let size = bytes_for(which, limit);
        if size.is_none_or(|size| size > memory.info().1) {
            return Some(Err(CommonError::NoMemory(limit)));
        }
        let Some(place) = self.part(which).place else {
            self.part(which).limit = limit;
            return Some(Ok(()));
        };
        Some(self.take_memory(which, (limit, place.head), places, memory))
    }

    /// What kernels have printed and nobody has read: whole records, as many as a
    /// message takes, in `out`. `is_idle`: no kernel of the tenant runs; then what
    /// was read is cleared.
    pub(crate) fn printed(
        &mut self,
        is_idle: bool,
        (device, partition): (&Device, &Partition),
        out: &mut Vec<u8>,
    ) -> Result<Unprinted, CommonError> {
        let mut left = Unprinted {
            is_idle,
            ..Unprinted::default()
        };
        let Some(place) = self.print.place else {
            return Ok(left);
        };
        let mut head = [0; size_of::<TenantPrint>()];
        read(place.head, &mut head, device, partition)?;
        let word = |at: usize| {
            let bytes = head[at..at + 8].try_into().unwrap_or_default();
            u64::from_le_bytes(bytes)
        };
        // (`TenantPrint`: used, size, records, lost.)
        let (claimed, lost) = (word(0), word(24));
        let used = claimed.min(place.size).max(self.read);
        let end = used.min(self.read + WINDOW);
        out.resize((end - self.read) as usize, 0);
        read(place.memory + self.read, out, device, partition)?;
        let records = whole(out);
        let behind = out.get(records..).unwrap_or_default();
        let is_stuck = records == 0 || end == used;
        // Kernels that are over leave no record unfinished, but for the room at
        // the end that the first lost one had asked for.
        let is_garbage = behind.iter().any(|byte| *byte != 0);
        let is_short = !behind.is_empty() && claimed <= place.size;
        out.truncate(records);
        if !is_idle {
            // The heads are there: now what they are heads of is, too.
            read(place.memory + self.read, out, device, partition)?;
            out.truncate(whole(out));
        }
        self.read += out.len() as u64;
        left.has_more = !is_stuck;
        if is_idle && is_stuck && (claimed > 0 || lost > 0 || self.read > 0) {
            left.lost = lost;
            left.is_garbage = is_garbage || is_short;
            clear(place, used, device, partition)?;
            self.read = 0;
        }
        Ok(left)
    }
}

/// Clears the records of the buffer that may have been written, and its head.
fn clear(
    place: Place,
    used: u64,
    device: &Device,
    partition: &Partition,
) -> Result<(), CommonError> {
    let zeros = vec![0; used.min(WINDOW) as usize];
    let mut at = 0;
    while at < used {
        let bytes = (used - at).min(WINDOW);
        let zeros = &zeros[..bytes as usize];
        write(place.memory + at, zeros, device, partition)?;
        at += bytes;
    }
    let print = TenantPrint {
        size: place.size,
        records: place.memory,
        ..TenantPrint::default()
    };
    write(place.head, &print.bytes(), device, partition)
}

fn write(at: u64, bytes: &[u8], device: &Device, partition: &Partition) -> Result<(), CommonError> {
    let place = partition.reservation().slice(at, bytes.len() as u64)?;
    Ok(device.context.write(place, bytes)?)
}

fn read(
    at: u64,
    bytes: &mut [u8],
    device: &Device,
    partition: &Partition,
) -> Result<(), CommonError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let place = partition.reservation().slice(at, bytes.len() as u64)?;
    Ok(device.context.read(place, bytes)?)
}
