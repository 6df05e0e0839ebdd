//! A tenant, and what is done about each of its requests.

mod code;

use crate::blocks::Blocks;
use crate::common::{CommonError, Library};
use crate::compile::{Compiler, Contained, Job};
use crate::device::Device;
use crate::lanes::{Common, Created, Lanes, NotPut};
use crate::leaving::Leaving;
use crate::memory::{ALIGNMENT, Memory, Use};
use crate::modules::{Kernel, Loaded, Refused};
use crate::numbers::Numbers;
use crate::partition::{Partition, PartitionError, Why};
use crate::quiet::Waiter;
use crate::quota::Quota;
use crate::remains::Remains;
use crate::staged::Staged;
use crate::tenants::Tenant;
use driver::DriverError;
use driver::calls::{Event, Launch, OutOfReservation, Rows};
use driver::sys::CUresult;
use model::layout::fence::retired;
use protocol::{Chunk, Limit, MAX_PAYLOAD, Place, Reply, Request, Staging};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A tenant.
pub(crate) struct Session {
    device: Arc<Device>,
    compiler: Arc<Compiler>,
    quota: Quota,
    /// What the administrator is told.
    tenant: Arc<Tenant>,
    partition: Partition,
    memory: Memory,
    /// What all of its modules have in common.
    library: Library,
    leaving: Leaving,
    lanes: Lanes,
    blocks: Blocks,
    events: Numbers<Event>,
    modules: Numbers<Module>,
    kernels: Numbers<Kernel>,
    /// Code that nobody has asked to load yet.
    upload: Vec<u8>,
    /// Code that is not loaded yet.
    pending: Option<Pending>,
    /// Streams are made as soon as no kernel runs.
    for_streams: Option<Waiter>,
    /// A kernel that counts in them was launched since the counters of the
    /// partition were read.
    are_unread: bool,
    /// When they were looked at.
    looked: Instant,
    /// Threads of its kernels have failed: every call says so from then on.
    failed: Option<CUresult>,
    /// A request that wanted no answer has failed: who asks next gets this.
    late: Option<(CUresult, String)>,
    /// What large copies go through.
    staged: Option<Staged>,
}

/// A module, and the numbers of its kernels.
struct Module {
    loaded: Loaded,
    kernels: Vec<u32>,
}

/// A module on its way.
enum Pending {
    /// It is being compiled.
    Compiling(Job),
    /// It is loaded as soon as no kernel runs.
    Compiled(Arc<Contained>, Waiter),
}

/// Why a request is not done.
enum NotDone {
    /// Work must be over first.
    Busy,
    /// An error, and what it is about; may be empty.
    Failed(CUresult, String),
}

impl From<DriverError> for NotDone {
    fn from(error: DriverError) -> NotDone {
        NotDone::Failed(error.code, error.to_string())
    }
}

impl From<OutOfReservation> for NotDone {
    fn from(error: OutOfReservation) -> NotDone {
        NotDone::Failed(CUresult::CUDA_ERROR_INVALID_VALUE, error.to_string())
    }
}

impl From<PartitionError> for NotDone {
    fn from(error: PartitionError) -> NotDone {
        match error {
            PartitionError::Driver(error) => error.into(),
            PartitionError::Range(error) => error.into(),
            PartitionError::Place(error) => invalid(&error.to_string()),
        }
    }
}

impl From<NotPut> for NotDone {
    fn from(error: NotPut) -> NotDone {
        match error {
            NotPut::NoStream => no_handle("stream"),
            NotPut::Full => NotDone::Busy,
            NotPut::Driver(error) => error.into(),
        }
    }
}

impl From<CommonError> for NotDone {
    fn from(error: CommonError) -> NotDone {
        NotDone::Failed(error.code(), error.to_string())
    }
}

impl From<Refused> for NotDone {
    fn from(error: Refused) -> NotDone {
        NotDone::Failed(error.code(), error.to_string())
    }
}

fn no_handle(what: &str) -> NotDone {
    NotDone::Failed(
        CUresult::CUDA_ERROR_INVALID_HANDLE,
        format!("there is no such {what}"),
    )
}

fn invalid(why: &str) -> NotDone {
    NotDone::Failed(CUresult::CUDA_ERROR_INVALID_VALUE, why.into())
}

fn over_quota(what: &str) -> NotDone {
    NotDone::Failed(
        CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        format!("the tenant has too many {what}"),
    )
}

/// Whether an error means that a quota or the verifier refuses something.
fn is_refusal(code: CUresult) -> bool {
    matches!(
        code,
        CUresult::CUDA_ERROR_OUT_OF_MEMORY | CUresult::CUDA_ERROR_NOT_PERMITTED
    )
}

/// What is said to a request, but for a payload.
type Answer = Result<Reply, NotDone>;

impl Session {
    /// A tenant with nothing in its partition.
    pub(crate) fn new(
        (device, compiler): (Arc<Device>, Arc<Compiler>),
        partition: Partition,
        quota: Quota,
        tenant: Arc<Tenant>,
    ) -> Result<Session, DriverError> {
        let (base, size) = partition.allocatable();
        Ok(Session {
            lanes: lanes(&device, &partition, &quota)?,
            blocks: Blocks::new(device.most_blocks),
            memory: Memory::new(base, size, quota.allocations),
            library: Library::new(),
            leaving: Leaving::default(),
            events: Numbers::new(1, quota.events),
            modules: Numbers::new(1, quota.modules),
            kernels: Numbers::new(1, quota.kernels),
            upload: Vec::new(),
            pending: None,
            for_streams: None,
            are_unread: false,
            looked: Instant::now(),
            failed: None,
            late: None,
            staged: None,
            device,
            compiler,
            partition,
            quota,
            tenant,
        })
    }

    /// Gives back all that the tenant has, and forgets its failure.
    fn reset(&mut self) -> Answer {
        if !self.lanes.all_idle()? {
            return Err(NotDone::Busy);
        }
        let (base, size) = self.partition.allocatable();
        self.lanes = lanes(&self.device, &self.partition, &self.quota)?;
        self.memory = Memory::new(base, size, self.quota.allocations);
        self.library = Library::new();
        self.leaving = Leaving::default();
        self.events = Numbers::new(1, self.quota.events);
        self.kernels = Numbers::new(1, self.quota.kernels);
        let modules = std::mem::replace(&mut self.modules, Numbers::new(1, self.quota.modules));
        self.device.quiet.discard(Box::new(modules));
        (self.upload, self.pending, self.for_streams) = (Vec::new(), None, None);
        self.tenant.kernels.store(0, Ordering::Relaxed);
        if self.partition.stopper().stopped().is_some() {
            self.partition.stopper().start(&self.device.context)?;
        }
        let counters = self
            .partition
            .reservation()
            .slice(self.partition.table().base, COUNTERS)?;
        self.device
            .context
            .write(counters, &[0; COUNTERS as usize])?;
        (self.are_unread, self.failed, self.late) = (false, None, None);
        Ok(Reply::Done)
    }

    /// Does what is asked for, unless the reply has to tell that something has
    /// failed before. `out` gets the payload of the reply.
    pub(crate) fn reply(&mut self, request: Request, payload: &[u8], out: &mut Vec<u8>) -> Reply {
        self.flush();
        let tells = self.failed.is_none() && request.tells_of_failures();
        if let Some((code, message)) = self.late.take_if(|_| tells) {
            out.clear();
            let code = code.0;
            return Reply::Failed { code, message };
        }
        self.lanes.set_quiet(false);
        self.handle(request, payload, out)
    }

    /// Puts in what requests that wanted no answer have left to be put in with others.
    pub(crate) fn flush(&mut self) {
        self.lanes.flush();
        if let Some(error) = self.lanes.take_failed() {
            self.device.notice(error.code, &error.to_string());
            self.fails_late(error.code, error.to_string());
        }
    }

    /// A request that wanted no answer has failed. Of several, the first counts.
    fn fails_late(&mut self, code: CUresult, message: String) {
        if self.failed.is_none() {
            self.late.get_or_insert((code, message));
        }
    }

    /// Does what is asked for and wants no answer, where launches may be left to be put in
    /// with others: [`Session::flush`]. `false`: not yet, work must be over first.
    pub(crate) fn handle_quietly(&mut self, request: &Request, payload: &[u8]) -> bool {
        if !matches!(request, Request::Launch { .. }) {
            self.flush();
        }
        self.lanes.set_quiet(true);
        match self.handle(request.clone(), payload, &mut Vec::new()) {
            Reply::Busy => {
                self.flush();
                return false;
            }
            Reply::Failed { code, message } => self.fails_late(CUresult(code), message),
            _ => {}
        }
        true
    }

    /// The reply to a tenant whose kernels were ended since its last request.
    fn ended(&mut self) -> Option<Reply> {
        let is_new = self.failed.is_none();
        let why = is_new.then(|| self.partition.stopper().stopped())??;
        // The counters tell of it, once the kernels are over.
        if why == Why::Retired {
            return None;
        }
        let code = CUresult::CUDA_ERROR_LAUNCH_TIMEOUT;
        self.failed = Some(code);
        self.tenant.fault("its kernels were ended");
        Some(Reply::Failed {
            code: code.0,
            message: why.told().into(),
        })
    }

    /// `out` gets the payload of the reply.
    fn handle(&mut self, request: Request, payload: &[u8], out: &mut Vec<u8>) -> Reply {
        out.clear();
        if let Some(ended) = self.ended() {
            return ended;
        }
        let tells = request.tells_of_failures();
        let answer = match self.failed {
            _ if request == Request::Reset => self.reset(),
            // Also what kernels that failed have printed.
            _ if request == Request::Printed => self.printed(out),
            Some(code) => Err(NotDone::Failed(code, String::new())),
            None => self.answer(request, payload, out),
        };
        let (free, total) = self.memory.info();
        self.tenant.memory.store(total - free, Ordering::Relaxed);
        // The kernels may have been ended while the request was done: an idle stream
        // is no success then.
        if tells
            && answer.is_ok()
            && let Some(ended) = self.ended()
        {
            out.clear();
            return ended;
        }
        // What the tenant waits for may wait for a thread that was retired.
        let answer = match answer {
            Err(NotDone::Busy) if self.failed.is_none() => {
                self.look_at_counters(false).and(Err(NotDone::Busy))
            }
            answer => answer,
        };
        match answer {
            Ok(reply) => reply,
            Err(NotDone::Busy) => Reply::Busy,
            Err(NotDone::Failed(code, message)) => {
                out.clear();
                if !message.is_empty() && is_refusal(code) {
                    self.tenant.refusal(&message);
                }
                if self.failed.is_none() {
                    self.device.notice(code, &message);
                }
                Reply::Failed {
                    code: code.0,
                    message,
                }
            }
        }
    }

    /// What large copies of the tenant go through, from now on.
    pub(crate) fn share(&mut self, staging: Staging) {
        self.staged = Some(Staged::new(&self.device, staging));
    }

    /// The addresses of the partition: first byte and bytes.
    pub(crate) fn addresses(&self) -> (u64, u64) {
        let table = self.partition.table();
        (table.base, table.size)
    }

    /// What is left of the tenant, which others may not have yet.
    pub(crate) fn into_remains(self) -> Remains {
        Remains::new(
            self.lanes,
            (self.partition, self.staged),
            self.modules
                .into_values()
                .map(|module| module.loaded)
                .collect(),
        )
    }

    fn answer(&mut self, request: Request, payload: &[u8], out: &mut Vec<u8>) -> Answer {
        match request {
            Request::Hello(_) => Err(invalid("the tenant is known already")),
            Request::Reset => self.reset(),
            Request::Printed => self.printed(out),
            Request::GetLimit { limit } => Ok(Reply::Size(self.library.limit(limit))),
            Request::SetLimit { limit, bytes } => self.set_limit(limit, bytes),
            Request::Upload => self.upload(payload),
            Request::Load => self.load(),
            Request::Unload { module } => self.unload(module),
            Request::SetAttribute { kernel, attribute } => self.set_attribute(kernel, attribute),
            Request::Occupancy {
                kernel,
                threads,
                shared,
            } => {
                let kernel = self.kernel(kernel)?;
                let blocks = kernel.function.blocks_per_multiprocessor(threads, shared)?;
                Ok(Reply::Value(blocks))
            }
            Request::Launch {
                kernel,
                stream,
                grid,
                block,
                shared,
                is_cooperative,
                parameters,
            } => {
                let launch = Launch {
                    grid,
                    block,
                    shared,
                    is_cooperative,
                };
                self.launch(kernel, stream, launch, parameters)
            }
            Request::Allocate { size } => self.allocate(size),
            Request::Free { address } => self.free(address),
            Request::FreeBehind { address, stream } => self.free_behind(address, stream),
            Request::MemoryInfo => {
                self.leaving.sweep(&mut self.memory)?;
                let (free, total) = self.memory.info();
                Ok(Reply::Memory { free, total })
            }
            Request::Write { stream, to } => self.write(stream, to, payload),
            Request::Read { stream, from } => self.read(stream, from, out),
            Request::Copy { stream, to, from } => self.copy(stream, to, from),
            Request::WriteStaged { stream, to, offset } => self.write_staged(stream, to, offset),
            Request::ReadStaged {
                stream,
                from,
                offset,
            } => self.read_staged(stream, from, offset),
            Request::WriteBehind { stream, to, offset } => {
                self.copy_pinned(stream, (to, offset), true)
            }
            Request::ReadBehind {
                stream,
                from,
                offset,
            } => self.copy_pinned(stream, (from, offset), false),
            Request::Fill {
                stream,
                place,
                element,
                value,
            } => {
                let found = self.place(place)?;
                if matches!(found, Found::Constant(..)) {
                    return self.fill_constant(stream, (place, found), (element, value));
                }
                let rows = rows(&self.partition, &self.memory, place)?;
                self.lanes.put(stream)?.fill(rows, element, value)?;
                Ok(Reply::Done)
            }
            Request::StreamCreate { .. }
            | Request::StreamDestroy { .. }
            | Request::StreamQuery { .. }
            | Request::StreamWait { .. }
            | Request::Synchronize => self.of_streams(request),
            Request::EventCreate { .. }
            | Request::EventDestroy { .. }
            | Request::EventRecord { .. }
            | Request::EventQuery { .. }
            | Request::EventElapsed { .. } => self.of_events(&request),
        }
    }

    fn of_streams(&mut self, request: Request) -> Answer {
        match request {
            Request::StreamCreate { is_blocking } => self.create_stream(is_blocking),
            Request::StreamDestroy { stream } => match self.lanes.destroy(stream)? {
                true => Ok(Reply::Done),
                false => Err(no_handle("stream")),
            },
            Request::StreamQuery { stream } => {
                let is_idle = self.lanes.is_idle(stream)?;
                let is_idle = is_idle.ok_or_else(|| no_handle("stream"))?;
                self.done_if(is_idle)
            }
            Request::StreamWait { stream, event } => {
                let event = self.events.get(event).ok_or_else(|| no_handle("event"))?;
                self.lanes.put_mark(stream)?.wait_for(event)?;
                Ok(Reply::Done)
            }
            _ => {
                let is_idle = self.lanes.all_idle()?;
                self.done_if(is_idle)
            }
        }
    }

    fn create_stream(&mut self, is_blocking: bool) -> Answer {
        let waits = self.for_streams.take();
        match self.lanes.create(is_blocking)? {
            Created::Stream(number) => Ok(Reply::Number(number)),
            Created::TooMany => Err(over_quota("streams")),
            Created::NoneSpare => {
                let Device {
                    quiet,
                    context,
                    streams,
                    ..
                } = &*self.device;
                let mut waiter = waits.unwrap_or_else(|| Waiter::new(quiet));
                match waiter.try_enter(quiet, context)? {
                    Some(quiescent) => quiescent.make_streams(streams, context)?,
                    None => self.for_streams = Some(waiter),
                }
                Err(NotDone::Busy)
            }
        }
    }

    fn of_events(&mut self, request: &Request) -> Answer {
        let missing = || no_handle("event");
        match *request {
            Request::EventCreate { is_timed } => {
                if !self.events.has_room_for(1) {
                    return Err(over_quota("events"));
                }
                let made = self.events.add(self.device.context.event(is_timed)?);
                made.map(Reply::Number).ok_or_else(|| over_quota("events"))
            }
            Request::EventDestroy { event } => {
                self.events.remove(event).ok_or_else(missing)?;
                Ok(Reply::Done)
            }
            Request::EventRecord { event, stream } => {
                let event = self.events.get(event).ok_or_else(missing)?;
                let put = self.lanes.put_mark(stream)?;
                event.record(&put)?;
                Ok(Reply::Done)
            }
            Request::EventQuery { event } => {
                let is_over = self.events.get(event).ok_or_else(missing)?.is_over()?;
                self.done_if(is_over)
            }
            Request::EventElapsed { start, end } => {
                let start = self.events.get(start).ok_or_else(missing)?;
                let end = self.events.get(end).ok_or_else(missing)?;
                Ok(Reply::Milliseconds(end.since(start)?))
            }
            _ => Err(invalid("no request about events")),
        }
    }

    fn printed(&mut self, out: &mut Vec<u8>) -> Answer {
        let is_idle = self.lanes.all_idle()?;
        let places = (&*self.device, &self.partition);
        Ok(Reply::Printed(self.library.printed(is_idle, places, out)?))
    }

    fn set_limit(&mut self, limit: Limit, bytes: u64) -> Answer {
        let places = (&*self.device, &self.partition);
        let set = self
            .library
            .set_limit((limit, bytes), places, &mut self.memory);
        set.ok_or_else(|| invalid("kernels that use it were launched already"))??;
        Ok(Reply::Done)
    }

    fn allocate(&mut self, size: u64) -> Answer {
        if size == 0 {
            return Err(invalid("an allocation of no bytes"));
        }
        self.take(size, Use::Allocation).map(Reply::Address)
    }

    /// Takes memory of the tenant's.
    fn take(&mut self, size: u64, usage: Use) -> Result<u64, NotDone> {
        self.leaving.sweep_first(&mut self.memory)?;
        let mut taken = self.memory.take(size, ALIGNMENT, usage);
        if taken.is_none() {
            let is_some_left = self.leaving.sweep(&mut self.memory)?;
            taken = self.memory.take(size, ALIGNMENT, usage);
            if taken.is_none() && is_some_left {
                return Err(NotDone::Busy);
            }
        }
        taken.ok_or_else(|| {
            let (free, total) = self.memory.info();
            NotDone::Failed(
                CUresult::CUDA_ERROR_OUT_OF_MEMORY,
                format!(
                    "{size} bytes are asked for; of the tenant's {total} bytes {free} are free"
                ),
            )
        })
    }

    fn free(&mut self, address: u64) -> Answer {
        if !self.memory.is_block(address, Use::Allocation) {
            return Err(invalid("no allocation begins there"));
        }
        let is_idle = self.lanes.all_idle()?;
        self.done_if(is_idle)?;
        self.memory.give_back(address);
        Ok(Reply::Done)
    }

    fn free_behind(&mut self, address: u64, stream: u32) -> Answer {
        if !self.memory.is_block(address, Use::Allocation) {
            return Err(invalid("no allocation begins there"));
        }
        let stream = self.lanes.put_mark(stream)?;
        self.leaving.add(&self.device.context, &stream, address)?;
        drop(stream);
        self.memory.leave(address);
        Ok(Reply::Done)
    }

    fn write(&mut self, stream: u32, to: Place, payload: &[u8]) -> Answer {
        if to.width.checked_mul(to.height) != Some(payload.len() as u64) {
            return Err(invalid("the bytes are not as many as the rows"));
        }
        let place = self.place(to)?;
        must_be_ready(&mut self.lanes, stream)?;
        self.write_place(to, place, payload)?;
        Ok(Reply::Done)
    }

    fn read(&mut self, stream: u32, from: Place, out: &mut Vec<u8>) -> Answer {
        let bytes = from.width.checked_mul(from.height);
        let bytes = bytes.filter(|bytes| *bytes <= MAX_PAYLOAD as u64);
        let bytes = bytes.ok_or_else(|| invalid("more bytes than a message holds"))?;
        let is_ready = is_ready(&mut self.lanes, stream)?;
        self.done_if(is_ready)?;
        out.resize(bytes as usize, 0);
        self.read_place(from, self.place(from)?, out)?;
        Ok(Reply::Bytes)
    }

    /// Writes bytes to a place.
    fn write_place(&self, to: Place, found: Found, bytes: &[u8]) -> Result<(), NotDone> {
        let context = &self.device.context;
        match found {
            Found::Rows => context.write_rows(rows(&self.partition, &self.memory, to)?, bytes)?,
            Found::Constant(module, start) => {
                let variable = self.constant(module, start)?;
                context.write_variable(variable, to.address - start, bytes)?;
            }
        }
        Ok(())
    }

    /// Reads as many bytes as there are from a place.
    fn read_place(&self, from: Place, found: Found, out: &mut [u8]) -> Result<(), NotDone> {
        let context = &self.device.context;
        match found {
            Found::Rows => context.read_rows(rows(&self.partition, &self.memory, from)?, out)?,
            Found::Constant(module, start) => {
                let variable = self.constant(module, start)?;
                context.read_variable(variable, from.address - start, out)?;
            }
        }
        Ok(())
    }

    /// The bytes of the staging area that a copy of this place is from or to.
    fn chunk(&self, place: Place, offset: u64) -> Result<Chunk<'_>, NotDone> {
        let length = place.width.checked_mul(place.height);
        let length = length.ok_or_else(|| invalid("more bytes than there are"))?;
        let staged = self.staged.as_ref();
        let staged = staged.ok_or_else(|| invalid("there is no staging area"))?;
        staged.chunk(offset, length).map_err(|why| invalid(&why))
    }

    /// Lets the driver copy from and to what is at this offset of the staging area.
    fn make_known(&mut self, offset: u64) -> Result<(), NotDone> {
        let Some(staged) = &mut self.staged else {
            return Ok(());
        };
        staged.make_known(offset).map_err(|error| {
            NotDone::Failed(
                CUresult::CUDA_ERROR_OUT_OF_MEMORY,
                format!("there is no memory of the host's to copy through: {error}"),
            )
        })
    }

    /// As [`Session::write`]. The bytes may change until the device has them; they
    /// are only copied.
    fn write_staged(&mut self, stream: u32, to: Place, offset: u64) -> Answer {
        must_be_ready(&mut self.lanes, stream)?;
        self.make_known(offset)?;
        let chunk = self.chunk(to, offset)?;
        let context = &self.device.context;
        match self.place(to)? {
            Found::Rows => {
                let rows = rows(&self.partition, &self.memory, to)?;
                context.write_rows_of(rows, chunk.words())?;
            }
            Found::Constant(..) => {
                return Err(invalid(
                    "constant variables are not written through staging",
                ));
            }
        }
        Ok(Reply::Done)
    }

    /// As [`Session::read`].
    fn read_staged(&mut self, stream: u32, from: Place, offset: u64) -> Answer {
        let is_ready = is_ready(&mut self.lanes, stream)?;
        self.done_if(is_ready)?;
        self.make_known(offset)?;
        let chunk = self.chunk(from, offset)?;
        let context = &self.device.context;
        match self.place(from)? {
            Found::Rows => {
                let rows = rows(&self.partition, &self.memory, from)?;
                context.read_rows_to(rows, chunk.words())?;
            }
            Found::Constant(..) => {
                return Err(invalid("constant variables are not read through staging"));
            }
        }
        Ok(Reply::Done)
    }

    /// Puts a copy between pinned memory and a place into a stream.
    fn copy_pinned(
        &mut self,
        stream: u32,
        (place, offset): (Place, u64),
        is_write: bool,
    ) -> Answer {
        let bytes = place.width.checked_mul(place.height);
        let bytes = bytes.ok_or_else(|| invalid("more bytes than there are"))?;
        self.make_known(offset)?;
        let rows = rows(&self.partition, &self.memory, place)?;
        let staged = self.staged.as_ref();
        let staged = staged.ok_or_else(|| invalid("there is no staging area"))?;
        let pinned = staged.pinned(offset, bytes).map_err(invalid)?;
        if !pinned.0.is_registered() {
            must_be_ready(&mut self.lanes, stream)?;
        }
        let stream = self.lanes.put(stream)?;
        match is_write {
            true => stream.write_rows_of(rows, pinned)?,
            false => stream.read_rows_to(rows, pinned)?,
        }
        Ok(Reply::Done)
    }

    /// What a place is in: the tenant's memory, or a constant variable.
    fn place(&self, place: Place) -> Result<Found, NotDone> {
        let constant = self.memory.around(place.address, place.width);
        if let Some((start, Use::Constant)) = constant.filter(|_| place.height == 1) {
            let mut modules = self.modules.numbered();
            let owner = modules.find(|(_, module)| module.loaded.constants.contains_key(&start));
            let (number, _) = owner.ok_or_else(|| no_handle("variable"))?;
            return Ok(Found::Constant(number, start));
        }
        rows(&self.partition, &self.memory, place)?;
        Ok(Found::Rows)
    }

    fn constant(&self, module: u32, start: u64) -> Result<&driver::calls::Variable, NotDone> {
        let module = self.modules.get(module);
        let found = module.and_then(|module| module.loaded.constants.get(&start));
        found.ok_or_else(|| no_handle("variable"))
    }

    fn copy(&mut self, stream: u32, to: Place, from: Place) -> Answer {
        if (to.width, to.height) != (from.width, from.height) {
            return Err(invalid("the rows of a copy differ"));
        }
        let places = (self.place(to)?, self.place(from)?);
        if !matches!(places, (Found::Rows, Found::Rows)) {
            return self.copy_constant(stream, (to, places.0), (from, places.1));
        }
        let to = rows(&self.partition, &self.memory, to)?;
        let from = rows(&self.partition, &self.memory, from)?;
        self.lanes.put(stream)?.copy_rows(to, from)?;
        Ok(Reply::Done)
    }

    /// Fills a part of a constant variable, as [`Session::copy_constant`].
    fn fill_constant(
        &mut self,
        stream: u32,
        (to, into): (Place, Found),
        (element, value): (u32, u32),
    ) -> Answer {
        if !matches!(element, 1 | 2 | 4) || !to.width.is_multiple_of(element.into()) {
            return Err(invalid("the bytes are no whole elements"));
        }
        must_be_ready(&mut self.lanes, stream)?;
        let one = &value.to_le_bytes()[..element as usize];
        let bytes = one.repeat((to.width / u64::from(element)) as usize);
        self.write_place(to, into, &bytes)?;
        Ok(Reply::Done)
    }

    /// Copies to or from a constant variable, of which no tenant knows the address:
    /// when all is over that the copy comes behind.
    fn copy_constant(
        &mut self,
        stream: u32,
        (to, into): (Place, Found),
        (from, out_of): (Place, Found),
    ) -> Answer {
        must_be_ready(&mut self.lanes, stream)?;
        // (Not more than all constants of a module: one of the two is one.)
        let mut bytes = vec![0; to.width as usize];
        self.read_place(from, out_of, &mut bytes)?;
        self.write_place(to, into, &bytes)?;
        Ok(Reply::Done)
    }

    /// The answer to a request that waits for work: done when that is over, unless threads
    /// of it have failed; until then [`NotDone::Busy`].
    fn done_if(&mut self, is_over: bool) -> Answer {
        match is_over {
            true => self.look_at_counters(true).map(|()| Reply::Done),
            false => Err(NotDone::Busy),
        }
    }

    /// Reads the counters of threads that were retired: when what the tenant waits for
    /// is over, and now and then before. Others may wait in a loop for a thread that was
    /// retired; natively, a trap ends them too.
    fn look_at_counters(&mut self, is_over: bool) -> Result<(), NotDone> {
        if is_over && self.lanes.take_deadlock() {
            let code = CUresult::CUDA_ERROR_LAUNCH_TIMEOUT;
            self.failed = Some(code);
            let message = "threads of a kernel waited for each other for ever; they were ended";
            return Err(NotDone::Failed(code, message.into()));
        }
        let is_due = is_over || self.looked.elapsed() >= BETWEEN_LOOKS;
        if !is_due || !self.are_unread {
            return Ok(());
        }
        self.looked = Instant::now();
        let all_over = self.lanes.all_idle()?;
        let mut bytes = [0; COUNTERS as usize];
        let at = self.partition.table().base;
        let counters = self.partition.reservation().slice(at, COUNTERS)?;
        self.device.context.read(counters, &mut bytes)?;
        let count = |offset: u32| {
            let bytes = bytes.get(offset as usize..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let code = if count(retired::ASSERTS) != Some(0) {
            CUresult::CUDA_ERROR_ASSERT
        } else if count(retired::TRAPS) != Some(0) {
            CUresult::CUDA_ERROR_LAUNCH_FAILED
        } else {
            self.are_unread = !all_over;
            return Ok(());
        };
        if !all_over {
            let stopper = self.partition.stopper();
            stopper.stop(&self.device.context, Why::Retired)?;
        }
        if !is_over {
            return Ok(());
        }
        self.failed = Some(code);
        self.tenant
            .fault("threads of a kernel reached a trap, or an assertion failed");
        Err(NotDone::Failed(
            code,
            "threads of a kernel reached a trap, or an assertion failed".into(),
        ))
    }
}

/// Streams for a tenant that has none.
fn lanes(device: &Device, partition: &Partition, quota: &Quota) -> Result<Lanes, DriverError> {
    let common = Common {
        streams: quota.streams,
        queued: quota.queued,
        weight: quota.weight,
        context: device.context.clone(),
        quiet: Arc::clone(&device.quiet),
        progress: Arc::clone(&device.progress),
        lent: Arc::clone(&device.streams),
        stopper: Arc::clone(partition.stopper()),
        contained: device.contained(partition.stopper().word()),
    };
    Lanes::new(common, device.stream(true)?)
}

/// Whether all is over that something put into a stream now would wait for.
fn is_ready(lanes: &mut Lanes, stream: u32) -> Result<bool, NotDone> {
    lanes.is_ready(stream)?.ok_or_else(|| no_handle("stream"))
}

/// As [`is_ready`]: what is asked for is tried again if not.
fn must_be_ready(lanes: &mut Lanes, stream: u32) -> Result<(), NotDone> {
    match is_ready(lanes, stream)? {
        true => Ok(()),
        false => Err(NotDone::Busy),
    }
}

/// What a place is in.
enum Found {
    /// An allocation or a variable.
    Rows,
    /// A constant variable of a module, which begins at this address.
    Constant(u32, u64),
}

/// Time between two looks at the counters while kernels run.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Bytes of the counters of threads that were retired.
const COUNTERS: u64 = 16;

/// The rows of a place, which must lie in one allocation or variable of the
/// tenant.
fn rows<'p>(partition: &'p Partition, memory: &Memory, place: Place) -> Result<Rows<'p>, NotDone> {
    let Place {
        address,
        pitch,
        width,
        height,
    } = place;
    let before_last = pitch.checked_mul(height.saturating_sub(1));
    let size = before_last.and_then(|bytes| bytes.checked_add(width));
    let around = size.and_then(|size| memory.around(address, size));
    let is_own = around.is_some_and(|(_, usage)| matches!(usage, Use::Allocation | Use::Variable));
    if !is_own || width == 0 || height == 0 || (height > 1 && pitch < width) {
        return Err(invalid("the range is not in one allocation of the tenant"));
    }
    Ok(partition
        .reservation()
        .rows(address, pitch, width, height)?)
}
