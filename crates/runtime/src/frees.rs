//! Frees by the host: judged before they are made, and held in the quarantine
//! instead of being made.
//!
//! A free that is certainly wrong is a finding whatever the device would say.
//! Of what Ringfence does not know, the device is the judge: only if it
//! refuses the free is that a finding. A free that is right is answered as the
//! device would have answered it, after the same wait; its memory goes back to
//! the device when the quarantine is over its budget, when the program runs
//! out of memory, or when its stream or pool is about to end.

mod arrays;

use crate::allocations::Allocations;
use crate::env::Env;
use crate::findings::HostError;
use crate::memory::{Holding, Memory, PendingFree};
use crate::protection::{BeforeFree, Leaves, Protections};
use crate::records::Records;
use crate::reporter::Reporter;
use crate::streams::{Ordering, StreamName, StreamUse, Streams, User};
use crate::watch::{Waits, Watch};
use driver::sys::CUresult;
use driver::{DriverError, Release, ReleaseCall};
use heap::{Entry, Held};
use host::Stack;
use model::{AllocationKind, ApiErrors, DeviceAddress, DeviceKind, Rule};
use parking_lot::Mutex;
use report::count;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

/// Whether an answer says that the driver refused a free: every bad free is
/// `CUDA_ERROR_INVALID_VALUE` (measured on driver 580, for all calls and all
/// kinds of bad pointers), but that of memory that is not registered, and
/// cuMemFreeAsync of managed memory, which is not supported.
fn is_refusal(answer: CUresult) -> bool {
    matches!(
        answer,
        CUresult::CUDA_ERROR_INVALID_VALUE
            | CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
            | CUresult::CUDA_ERROR_NOT_SUPPORTED
    )
}

/// Whether an answer says that there is no context any more.
fn has_no_context(answer: CUresult) -> bool {
    matches!(
        answer,
        CUresult::CUDA_ERROR_INVALID_CONTEXT | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
    )
}

/// An address at which no driver has memory.
const NOWHERE: DeviceAddress = DeviceAddress(1 << 12);

/// The driver takes larger allocations in pieces of this size.
const DRIVER_PIECE: u64 = 2 << 20;

/// By how much pools hand out memory.
const POOL_UNIT: u64 = 512;

/// A call that frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeCall {
    /// `cuMemFree`
    Free,
    /// `cuMemFreeHost`
    FreeHost,
    /// `cuMemFreeAsync`
    FreeAsync {
        /// The stream.
        stream: StreamUse,
    },
    /// `cuMemHostUnregister`
    Unregister,
    /// A call that undoes what made the memory visible here, such as
    /// `cuIpcCloseMemHandle`.
    Close,
}

/// A free that the program asks for.
#[derive(Clone, Copy, Debug)]
pub struct FreeRequest {
    /// The driver function, as it is exported.
    pub function: &'static str,
    /// Which kind of call.
    pub call: FreeCall,
    /// What it is to free.
    pub address: DeviceAddress,
    /// A stream is being captured somewhere: the device gets the call as it
    /// is.
    pub capturing: bool,
}

/// What is wrong with a free.
enum Wrong {
    /// Freed before, and not given out since.
    Twice,
    /// Not the start of an allocation.
    Inside { offset: u64, size: u64 },
    /// In the canaries or the padding of a live allocation: so many bytes before
    /// its start, or past its end.
    Beside { before: bool, distance: u64 },
    /// Allocated by a call whose counterpart is another one.
    Call(AllocationKind),
    /// Nothing is known of it; the device refused it.
    Unknown,
}

/// What the registry says about a free.
enum Judgement {
    Right(Box<Entry<Stack>>),
    Wrong(Wrong),
    /// Make it, and judge by the device's answer.
    Doubt(Wrong),
}

/// The services that frees use.
pub(crate) struct Below {
    pub env: Arc<Env>,
    pub memory: Arc<Memory>,
    pub allocations: Arc<Allocations>,
    pub streams: Arc<Streams>,
    pub reporter: Arc<Reporter>,
    pub records: Arc<Records>,
    pub watch: Arc<Watch>,
    pub protections: Arc<Protections>,
}

/// See the module's header.
pub struct Frees {
    below: Below,
    /// Frees that were checked.
    calls: AtomicU64,
    arrays: Mutex<arrays::Arrays>,
}

impl Frees {
    pub(crate) fn new(below: Below) -> Frees {
        Frees {
            below,
            calls: AtomicU64::new(0),
            arrays: Mutex::default(),
        }
    }

    /// Frees that were checked.
    pub(crate) fn checked(&self) -> u64 {
        self.calls.load(atomic::Ordering::Relaxed)
    }

    /// Does what the program asks to be freed. `forward` makes the call with
    /// the address that the driver knows. Returns the answer for the program, a
    /// `CUresult` value.
    pub fn free(
        &self,
        request: FreeRequest,
        forward: &dyn Fn(DeviceAddress) -> CUresult,
    ) -> CUresult {
        // Freeing nothing is legal.
        if !self.below.env.settings().check || request.address.0 == 0 {
            return forward(request.address);
        }
        if request.call == FreeCall::Unregister
            && let Some(answer) = self.unregister(request.address, forward)
        {
            return answer;
        }
        if request.capturing {
            return self.free_in_capture(request, forward);
        }
        self.calls.fetch_add(1, atomic::Ordering::Relaxed);
        loop {
            match self.judge_free(&request) {
                Judgement::Right(entry) => {
                    if let Some(answer) = self.free_known(&request, &entry, forward) {
                        return answer;
                    }
                    // Another thread has freed it meanwhile.
                }
                Judgement::Wrong(wrong) => return self.refuse_free(&request, &wrong, forward),
                Judgement::Doubt(wrong) => {
                    let known = self
                        .below
                        .memory
                        .look(|registry, _, _| registry.at(request.address).cloned());
                    let stack = self.below.env.stack();
                    let driver = self.below.memory.driver_address(request.address);
                    if let Some(entry) = &known {
                        self.below
                            .protections
                            .each(|one| one.freed(entry, Leaves::Now));
                    }
                    self.below.memory.remove(request.address, stack);
                    let answer = forward(driver);
                    if answer != CUresult::CUDA_SUCCESS
                        && let Some(entry) = known
                    {
                        self.below
                            .memory
                            .restore(request.address, entry.allocation.serial);
                        self.below.protections.each(|one| one.not_freed(&entry));
                    }
                    let refused = is_refusal(answer);
                    if refused && self.below.env.settings().api_errors != ApiErrors::Off {
                        self.report_free(&request, &wrong);
                    }
                    return answer;
                }
            }
        }
    }

    /// Unregisters the piece of host memory that starts at an address; `None` if
    /// none does.
    fn unregister(
        &self,
        address: DeviceAddress,
        forward: &dyn Fn(DeviceAddress) -> CUresult,
    ) -> Option<CUresult> {
        let piece = self.below.allocations.unregistering(address)?;
        self.below.streams.forget(piece.allocation.extent);
        self.below.streams.ordered(Ordering::Everything);
        let answer = forward(address);
        if answer != CUresult::CUDA_SUCCESS {
            self.below.allocations.not_unregistered(piece);
        }
        Some(answer)
    }

    /// While a stream is captured, frees in other streams and those that wait
    /// for no stream happen. (One in that stream becomes a node of a graph,
    /// whose memory Ringfence leaves alone.)
    fn free_in_capture(
        &self,
        request: FreeRequest,
        forward: &dyn Fn(DeviceAddress) -> CUresult,
    ) -> CUresult {
        let known = self
            .below
            .memory
            .look(|registry, _, _| registry.at(request.address).cloned());
        let driver = self.below.memory.driver_address(request.address);
        if let FreeCall::FreeAsync { stream } = request.call {
            if let Some(entry) = &known {
                let how = Leaves::InCapture(Some(stream));
                self.below.protections.each(|one| one.freed(entry, how));
                if self.below.protections.give_back(entry, how) {
                    let stack = self.below.env.stack();
                    self.below.memory.remove(request.address, stack);
                    return CUresult::CUDA_SUCCESS;
                }
            }
            return forward(driver);
        }
        if let Some(entry) = &known {
            // What kernels do until the device frees it is not seen: waiting for
            // them would end the capture.
            let how = Leaves::InCapture(None);
            self.below.protections.each(|one| one.freed(entry, how));
        }
        let stack = self.below.env.stack();
        self.below.memory.remove(request.address, stack);
        // The device is asked first, also about memory that a protection has made, which
        // it does not know: the mode of the capture may forbid to free anything.
        let answer = forward(driver);
        let is_forbidden = matches!(
            answer,
            CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                | CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                | CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
        );
        if let Some(entry) = known.as_ref().filter(|_| !is_forbidden)
            && answer != CUresult::CUDA_SUCCESS
            && self
                .below
                .protections
                .give_back(entry, Leaves::InCapture(None))
        {
            return CUresult::CUDA_SUCCESS;
        }
        if let Some(entry) = known.filter(|_| answer != CUresult::CUDA_SUCCESS) {
            self.below
                .memory
                .restore(request.address, entry.allocation.serial);
            self.below.protections.each(|one| one.not_freed(&entry));
        }
        answer
    }

    fn judge_free(&self, request: &FreeRequest) -> Judgement {
        let address = request.address;
        let off = self.below.env.settings().api_errors == ApiErrors::Off;
        self.below.memory.look(|registry, quarantine, pending| {
            if pending.contains_key(&address.0) {
                return Judgement::Wrong(Wrong::Twice);
            }
            if let Some(entry) = registry.at(address) {
                let kind = entry.allocation.kind;
                return match fits(request.call, kind) {
                    Some(true) => Judgement::Right(Box::new(entry.clone())),
                    Some(false) if !off => Judgement::Wrong(Wrong::Call(kind)),
                    Some(false) | None => Judgement::Doubt(Wrong::Call(kind)),
                };
            }
            if let Some(entry) = registry.holding(address) {
                let extent = entry.allocation.extent;
                let inside = Wrong::Inside {
                    offset: address.0 - extent.base.0,
                    size: extent.size,
                };
                // The program's own memory is known from its start to its
                // end; of what others made only the device knows the parts.
                let own = entry.owner.context != 0 && is_memory(entry.allocation.kind);
                return if own && !off {
                    Judgement::Wrong(inside)
                } else {
                    Judgement::Doubt(inside)
                };
            }
            // The driver would free the allocation by the address of its canary.
            if let Some(entry) = registry.beside(address) {
                let extent = entry.allocation.extent;
                let before = address < extent.base;
                let distance = match before {
                    true => extent.base.0 - address.0,
                    false => address.0 - extent.end().0,
                };
                return Judgement::Wrong(Wrong::Beside { before, distance });
            }
            if let Some(held) = quarantine.find(address) {
                let offset = address.0 - held.extent.base.0;
                return Judgement::Wrong(if offset == 0 {
                    Wrong::Twice
                } else {
                    Wrong::Inside {
                        offset,
                        size: held.extent.size,
                    }
                });
            }
            Judgement::Doubt(match registry.freed(address) {
                Some(freed) if freed.entry.allocation.extent.base == address => Wrong::Twice,
                Some(freed) => Wrong::Inside {
                    offset: address.0 - freed.entry.allocation.extent.base.0,
                    size: freed.entry.allocation.extent.size,
                },
                None => Wrong::Unknown,
            })
        })
    }

    /// `None` if another thread was faster.
    fn free_known(
        &self,
        request: &FreeRequest,
        entry: &Entry<Stack>,
        forward: &dyn Fn(DeviceAddress) -> CUresult,
    ) -> Option<CUresult> {
        let stack = self.below.env.stack();
        let extent = entry.allocation.extent;
        let redzones = entry.owner.redzones;
        let cost = match redzones.bytes() {
            0 => heap::padded_size(extent.size),
            bytes => extent.size + bytes,
        };
        let mut holding = self.holding(request, entry, cost);
        let serial = entry.allocation.serial;
        let surplus = if let FreeCall::FreeAsync { stream } = request.call {
            let pending = PendingFree {
                serial,
                stream: stream.name,
                context: stream.context,
                stack,
                is_hidden: false,
            };
            if let Some(user) = self.below.streams.freed(extent.base, stream) {
                self.report_race(request, &user);
            }
            let surplus = self
                .below
                .memory
                .free_in_stream(extent.base, pending, cost, holding)?;
            let how = Leaves::InStream(stream);
            self.below.protections.each(|one| one.freed(entry, how));
            surplus
        } else {
            let needs = self.below.protections.before_free(entry, holding.as_ref());
            let verified = needs == BeforeFree::Verified;
            if verified {
                self.below.protections.each(|one| one.before_wait(None));
            }
            // The device waits for kernels before it frees, and programs rely
            // on it.
            if (holding.is_some() || needs != BeforeFree::Nothing)
                && let Err(error) = self.settle(entry.owner.context)
            {
                if !has_no_context(error.code) {
                    return Some(error.code);
                }
                holding = None;
            }
            if verified {
                self.below.protections.each(|one| one.waited(None));
                self.below.records.read();
            }
            let is_kept = verified && holding.is_some();
            if let Some(holding) = &mut holding {
                holding.slot = redzones.slot.filter(|_| is_kept);
            }
            let surplus = self
                .below
                .memory
                .retire(extent.base, serial, stack, cost, holding)?;
            self.below.streams.forget(extent);
            self.below.streams.ordered(Ordering::Everything);
            let how = match is_kept {
                true => Leaves::Held,
                false => Leaves::Now,
            };
            self.below.protections.each(|one| one.freed(entry, how));
            surplus
        };
        if holding.is_some() {
            self.release(surplus);
            return Some(CUresult::CUDA_SUCCESS);
        }
        let how = match request.call {
            FreeCall::FreeAsync { stream } => Leaves::InStream(stream),
            _ => Leaves::Now,
        };
        if self.below.protections.give_back(entry, how) {
            return Some(CUresult::CUDA_SUCCESS);
        }
        let answer = forward(DeviceAddress(extent.base.0 - u64::from(redzones.before)));
        if answer != CUresult::CUDA_SUCCESS {
            self.below.memory.restore(extent.base, serial);
            self.below.streams.restored(extent.base);
            self.below.protections.each(|one| one.not_freed(entry));
        }
        Some(answer)
    }

    /// How the memory can be held, if it can.
    fn holding(&self, request: &FreeRequest, entry: &Entry<Stack>, cost: u64) -> Option<Holding> {
        let kind = entry.allocation.kind;
        let context = entry.owner.context;
        if !is_memory(kind)
            || context == 0
            || !self.below.memory.holds(cost)
            || self.below.protections.have_placed(entry)
        {
            return None;
        }
        let call = match request.call {
            FreeCall::Free => ReleaseCall::Free,
            FreeCall::FreeHost => ReleaseCall::FreeHost,
            FreeCall::FreeAsync { stream } => ReleaseCall::FreeAsync {
                stream: stream.name.lasting_handle()?,
            },
            FreeCall::Unregister | FreeCall::Close => return None,
        };
        let current = self.below.env.driver().current_context();
        // Without a context the device answers an error; the handle of the
        // default stream is that of the current context.
        if current == 0 || matches!(call, ReleaseCall::FreeAsync { .. }) && current != context {
            return None;
        }
        Some(Holding {
            release: Release {
                address: self
                    .below
                    .memory
                    .driver_address(entry.allocation.extent.base),
                context,
                call,
            },
            on_device: kind != AllocationKind::Host,
            pool: entry.owner.pool,
            slot: None,
        })
    }

    /// Waits for kernels as a free does.
    fn settle(&self, context: u64) -> Result<(), DriverError> {
        let _paused = self.below.watch.pause(Waits::ForAll);
        self.below.env.driver().settle(context)
    }

    /// Gives memory back that was taken out of the quarantine.
    fn release(&self, list: Vec<Held<Holding>>) {
        if list.is_empty() {
            return;
        }
        let _paused = self.below.watch.pause(Waits::Perhaps);
        self.below.protections.each(|one| one.releasing(&list));
        for held in list {
            // What is no longer there went with its context.
            let _ = self.below.env.driver().release(&held.note.release);
            self.below.memory.released(&held);
        }
    }

    /// Gives all quarantined memory back, because the program needs it.
    /// Returns whether there was any.
    pub fn empty_quarantine(&self) -> bool {
        let list = self.below.memory.take_held(|_| true);
        let any = !list.is_empty();
        self.release(list);
        self.below.protections.make_room() | any
    }

    /// Gives memory in the quarantine back of which this address is a part.
    pub(crate) fn give_up(&self, address: DeviceAddress) {
        let held = self
            .below
            .memory
            .look(|_, quarantine, _| quarantine.find(address).map(|held| held.extent.base));
        if let Some(base) = held {
            let list = self.below.memory.take_held(|held| held.extent.base == base);
            self.release(list);
        }
    }

    /// The program is about to destroy a stream: what is to be freed in it is
    /// freed now.
    pub fn stream_ending(&self, stream: u64) {
        let name = StreamName::Made(stream);
        self.below.protections.each(|one| one.stream_ending(name));
        let ends = ReleaseCall::FreeAsync { stream };
        let list = self
            .below
            .memory
            .take_held(|held| held.note.release.call == ends);
        self.release(list);
    }

    /// The program trims or destroys a pool: what it has freed of it is freed
    /// now.
    pub fn pool_ending(&self, pool: u64) {
        let list = self.below.memory.take_held(|held| held.note.pool == pool);
        self.release(list);
    }

    /// Bytes of device memory that the program has freed and the device still
    /// counts as used.
    pub fn quarantined_bytes(&self) -> u64 {
        let pieces = self.below.env.driver().kind() == DeviceKind::Gpu;
        self.below
            .memory
            .held_bytes(|held| match held.note.on_device {
                // Pools keep what they have.
                true if held.note.pool == 0 => {
                    if pieces && held.cost > DRIVER_PIECE / 2 {
                        held.cost.next_multiple_of(DRIVER_PIECE)
                    } else {
                        held.cost
                    }
                }
                _ => 0,
            })
    }

    /// Bytes of a pool that the device counts as used and the program does not
    /// use: what it has freed, and what lies around its allocations.
    pub fn unused_of_pool(&self, pool: u64) -> u64 {
        let handed_out = |bytes: u64| bytes.next_multiple_of(POOL_UNIT);
        self.below.memory.look(|registry, quarantine, pending| {
            let held = quarantine.iter().filter(|held| held.note.pool == pool);
            let held: u64 = held.map(|held| handed_out(held.cost)).sum();
            let live = registry.iter().filter(|entry| {
                let is_pending = pending.contains_key(&entry.allocation.extent.base.0);
                entry.owner.pool == pool && pool != 0 && !is_pending
            });
            let around = live.map(|entry| {
                let size = entry.allocation.extent.size;
                handed_out(size + entry.owner.redzones.bytes()) - handed_out(size)
            });
            held + around.sum::<u64>()
        })
    }

    fn refuse_free(
        &self,
        request: &FreeRequest,
        wrong: &Wrong,
        forward: &dyn Fn(DeviceAddress) -> CUresult,
    ) -> CUresult {
        if self.below.env.settings().api_errors != ApiErrors::Off {
            self.report_free(request, wrong);
        }
        if self.below.env.settings().api_errors == ApiErrors::Refuse {
            return match request.call {
                FreeCall::Unregister => CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                _ => CUresult::CUDA_ERROR_INVALID_VALUE,
            };
        }
        // The device is to see what it would have seen: without canaries nothing
        // would start there.
        let address = match wrong {
            Wrong::Beside { .. } => NOWHERE,
            _ => {
                self.give_up(request.address);
                self.below.memory.driver_address(request.address)
            }
        };
        forward(address)
    }

    /// Something in another stream uses the memory, and nothing orders it before
    /// the free.
    fn report_race(&self, request: &FreeRequest, user: &User) {
        let address = request.address;
        self.below.reporter.host_error(HostError {
            rule: Rule::StreamOrderRace,
            function: request.function,
            detail: format!(
                "frees {address}, while {user} may still be using it in another stream that nothing orders before this"
            ),
            width: None,
            pointer: address,
            address,
        });
    }

    fn report_free(&self, request: &FreeRequest, wrong: &Wrong) {
        let address = request.address;
        let (rule, detail) = match wrong {
            Wrong::Twice => (
                Rule::DoubleFree,
                format!("frees {address}, which was freed before"),
            ),
            Wrong::Inside { offset, size } => (
                Rule::InvalidFree,
                format!(
                    "frees {address}, which is not the start of an allocation but lies {offset} bytes into one of {size} bytes"
                ),
            ),
            Wrong::Beside { before, distance } => (
                Rule::InvalidFree,
                format!(
                    "frees {address}, which is not the start of an allocation but lies {} {} one",
                    count(*distance, "byte"),
                    if *before { "before" } else { "past the end of" },
                ),
            ),
            Wrong::Call(kind) => (
                Rule::InvalidFree,
                format!("frees {address}, {}", wrong_call(request.call, *kind)),
            ),
            Wrong::Unknown => (
                Rule::InvalidFree,
                format!("frees {address}, where nothing was allocated"),
            ),
        };
        self.below.reporter.host_error(HostError {
            rule,
            function: request.function,
            detail,
            width: None,
            pointer: address,
            address,
        });
    }
}

/// Whether the program's own call made the memory, and it is known whole.
fn is_memory(kind: AllocationKind) -> bool {
    use AllocationKind::{Device, Host, Managed, Pool};
    matches!(kind, Device | Managed | Host | Pool)
}

/// Whether a call frees memory of a kind: certainly, certainly not, or as the
/// device says.
fn fits(call: FreeCall, kind: AllocationKind) -> Option<bool> {
    use AllocationKind::{Device, Foreign, Host, HostRegistered, Managed, Pool, Variable};
    match (call, kind) {
        (FreeCall::Free, Device | Managed | Pool)
        | (FreeCall::FreeHost, Host)
        | (FreeCall::FreeAsync { .. }, Pool | Device)
        | (FreeCall::Unregister, HostRegistered) => Some(true),
        (FreeCall::Free | FreeCall::FreeAsync { .. }, Host | Variable)
        | (FreeCall::FreeHost, Device | Managed | Pool | Variable) => Some(false),
        (FreeCall::Close, Foreign) => Some(true),
        _ => None,
    }
}

/// What made the memory, and what frees it.
fn wrong_call(call: FreeCall, kind: AllocationKind) -> String {
    let what = match kind {
        AllocationKind::Host => "page-locked host memory, which cuMemFreeHost (cudaFreeHost) frees",
        AllocationKind::HostRegistered => {
            "registered host memory, which is the program's own and is only unregistered"
        }
        AllocationKind::Variable => "a variable of a module, which is never freed",
        AllocationKind::Device | AllocationKind::Managed | AllocationKind::Pool => {
            "device memory, which cuMemFree (cudaFree) frees"
        }
        _ if call == FreeCall::Unregister => "memory that was not registered",
        _ => "memory that another call made visible, and its counterpart frees",
    };
    what.to_owned()
}
