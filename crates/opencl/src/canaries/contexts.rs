//! Contexts: how memory must be aligned there, and Ringfence's own objects in
//! them.
//!
//! Those objects keep a context alive, so they are released when the program
//! releases its last reference, even if objects of the program still live in
//! it.

use crate::canaries::blocks::enclosed;
use crate::canaries::checker::Checker;
use crate::canaries::flags;
use crate::findings::Report;
use crate::objects::block::Memory;
use crate::objects::buffer::{Buffer, Given, Place};
use crate::objects::staging::Copied;
use crate::platform::ask::ask;
use crate::platform::call;
use crate::sys::*;
use heap::canary::Layout;
use heap::choice::{self, Choice, Class, Rent};
use model::{CanaryChecker, Note};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What is known of a context.
pub struct Context {
    handle: usize,
    devices: Vec<usize>,
    /// Bytes that every sub-buffer's start must be a multiple of, on every
    /// device.
    pub alignment: u64,
    /// References that the program holds.
    users: AtomicU32,
    own: Mutex<Own>,
    choice: Mutex<Choice>,
    rent: Mutex<Rent>,
    known_flags: flags::Known,
}

/// Ringfence's objects in a context.
#[derive(Default)]
struct Own {
    /// A queue for commands that cannot use one of the program's.
    queue: Option<usize>,
    verifier: Verifier,
}

/// The device's checker of a context.
#[derive(Default)]
enum Verifier {
    /// Not built, and not wanted so far.
    #[default]
    None,
    /// To be built by the next launch that could use it.
    Wanted,
    Built(Arc<Checker>),
    /// It could not be built, failed, or is being built.
    Missing,
}

/// What scans by the host may cost before the device's checker is built:
/// about what building it costs, in nanoseconds.
const PRICE: u64 = 200_000_000;

/// The devices of a context.
pub fn devices(context: cl_context) -> Vec<cl_device_id> {
    ask!(list, clGetContextInfo(context, CL_CONTEXT_DEVICES))
}

/// References to a context, as the platform counts them.
pub fn references(context: cl_context) -> Option<u32> {
    ask!(one, clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT))
}

/// What a platform counts as references to a context.
struct Each {
    /// Of a block and its part.
    both: u32,
    /// Of a buffer.
    buffer: u32,
}

impl Each {
    /// References of Ringfence's objects beside an object of the program.
    fn beside(&self, known: &Buffer) -> u32 {
        let mut ours = 0;
        if let Place::Block(_) = known.place {
            // Without Ringfence it were a buffer.
            ours += self.both.saturating_sub(self.buffer);
        }
        if known.backing.lock().is_some() {
            ours += self.buffer;
        }
        if let Some(staging) = &*known.staging.lock() {
            ours += match &staging.copy {
                Copied::Buffer { .. } => self.both,
                Copied::Image(padded) => self.buffer * padded.objects(),
            };
        }
        ours
    }
}

impl Context {
    /// A context that the program holds one reference to.
    pub fn of(context: cl_context) -> Context {
        let devices = devices(context);
        let alignments = devices.iter().map(|device| {
            let bits: Option<cl_uint> =
                ask!(one, clGetDeviceInfo(*device, CL_DEVICE_MEM_BASE_ADDR_ALIGN));
            // The least that a full profile may have is the size of long16.
            u64::from(bits.unwrap_or(1024) / 8).max(128)
        });
        Context {
            handle: context as usize,
            // Powers of two: the largest is a multiple of all.
            alignment: alignments.max().unwrap_or(128).next_power_of_two(),
            devices: devices.iter().map(|device| *device as usize).collect(),
            users: AtomicU32::new(1),
            own: Mutex::default(),
            choice: Mutex::default(),
            rent: Mutex::new(Rent::of(PRICE)),
            known_flags: flags::Known::default(),
        }
    }

    /// The platform's flags for a buffer made with these.
    pub fn flags(&self, given: Given) -> flags::Answer {
        self.known_flags.of_buffer(self.context(), given)
    }

    /// The platform's flags for a part, made with these flags, of a buffer that
    /// was made with `given`.
    pub fn flags_of_part(&self, given: Given, flags: u64) -> flags::Answer {
        self.known_flags.of_part(self.context(), given, flags)
    }

    /// Its handle.
    pub fn context(&self) -> cl_context {
        self.handle as cl_context
    }

    /// The program has another reference.
    pub fn retained(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// The program releases a reference; with the last one, Ringfence's objects
    /// are released.
    pub fn released(&self) {
        let before = self.users.load(Ordering::Relaxed);
        if before > 0 && self.users.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.close();
        }
    }

    /// Releases memory that keeps the context's queues alive.
    pub fn forget_queues(&self) {
        let checker = match &self.own.lock().verifier {
            Verifier::Built(checker) => checker.clone(),
            _ => return,
        };
        checker.forget();
    }

    fn is_open(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 0
    }

    /// Releases all of Ringfence's objects.
    fn close(&self) {
        let own = std::mem::take(&mut *self.own.lock());
        // Pending jobs hold the checker.
        if let Some(queue) = own.queue {
            call!(clReleaseCommandQueue(queue as cl_command_queue));
        }
    }

    /// References that Ringfence's objects add to those of the context, if
    /// these are the program's memory objects in it. Platforms count
    /// differently, so it is measured: with a buffer, a part of it, and a
    /// queue.
    pub fn own_references(&self, buffers: &[Arc<Buffer>]) -> Option<u32> {
        let context = self.context();
        let layout = Layout::around(64, 16, self.alignment)?;
        let before = references(context)?;
        let tried = enclosed(context, CL_MEM_READ_WRITE, &layout)?;
        let Memory::Buffer(block) = tried.block else {
            return None;
        };
        let both = references(context)?.saturating_sub(before);
        call!(clRetainMemObject(block as cl_mem));
        drop(tried.part);
        let buffer = references(context)?.saturating_sub(before);
        call!(clReleaseMemObject(block as cl_mem));
        let queue = self.make_queue()?;
        let with_queue = references(context)?.saturating_sub(before);
        call!(clReleaseCommandQueue(queue));

        let each = Each { both, buffer };
        let mut ours: u32 = buffers.iter().map(|known| each.beside(known)).sum();
        let own = self.own.lock();
        if own.queue.is_some() {
            ours += with_queue;
        }
        if let Verifier::Built(checker) = &own.verifier {
            ours += checker.references + buffer * checker.buffers();
        }
        Some(ours)
    }

    /// Calls `work` with an in-order queue of Ringfence on the first device.
    /// `None`: there is none.
    pub fn with_queue<T>(&self, work: impl FnOnce(cl_command_queue) -> T) -> Option<T> {
        let taken = self.own.lock().queue.take();
        let queue = match taken {
            Some(queue) => queue as cl_command_queue,
            None => self.make_queue()?,
        };
        let result = work(queue);
        let mut own = self.own.lock();
        // One thread at a time uses it; if two make one, one is kept.
        if own.queue.is_none() && self.is_open() {
            own.queue = Some(queue as usize);
        } else {
            drop(own);
            call!(clReleaseCommandQueue(queue));
        }
        Some(result)
    }

    fn make_queue(&self) -> Option<cl_command_queue> {
        let device = *self.devices.first()? as cl_device_id;
        let context = self.handle as cl_context;
        let mut code = CL_SUCCESS;
        let queue = call!(clCreateCommandQueue(context, device, 0, &raw mut code)
            else std::ptr::null_mut());
        (code == CL_SUCCESS && !queue.is_null()).then_some(queue)
    }
}

/// What makes a scan, and whether to time it.
pub struct Chosen {
    /// `None`: the host.
    pub checker: Option<Arc<Checker>>,
    pub timed: bool,
}

impl Chosen {
    const HOST: Chosen = Chosen {
        checker: None,
        timed: false,
    };
}

impl Context {
    /// What makes a scan of this class: the device's checker, or the host.
    /// `wanted` is the choice of the settings. `needs_device`: the host has no memory
    /// for it, or other kernels may run meanwhile.
    pub fn choose(
        &self,
        wanted: CanaryChecker,
        class: Class,
        needs_device: bool,
        report: &dyn Report,
    ) -> Chosen {
        if wanted == CanaryChecker::Host || !self.is_open() {
            return Chosen::HOST;
        }
        let always = wanted == CanaryChecker::Device || needs_device;
        let (checker, build) = {
            let mut own = self.own.lock();
            match &own.verifier {
                Verifier::Built(checker) => (Some(checker.clone()), false),
                Verifier::Missing => (None, false),
                Verifier::None if !always => (None, false),
                Verifier::None | Verifier::Wanted => {
                    own.verifier = Verifier::Missing;
                    (None, true)
                }
            }
        };
        let checker = match build {
            true => self.build(report),
            false => checker,
        };
        let Some(checker) = checker else {
            return Chosen::HOST;
        };
        let (by, timed) = match always {
            true => (choice::Checker::Device, false),
            false => self.choice.lock().next(class),
        };
        Chosen {
            checker: (by == choice::Checker::Device).then_some(checker),
            timed,
        }
    }

    fn build(&self, report: &dyn Report) -> Option<Arc<Checker>> {
        let context = self.handle as cl_context;
        let before = references(context);
        let built = Checker::build(context, &self.devices).map(|mut checker| {
            let after = references(context).zip(before);
            checker.references = after.map_or(0, |(after, before)| after.saturating_sub(before));
            Arc::new(checker)
        });
        match &built {
            Some(checker) => {
                let mut own = self.own.lock();
                // The program may have released the context meanwhile.
                if self.is_open() {
                    own.verifier = Verifier::Built(checker.clone());
                }
            }
            None => report.note(Note::NoDeviceChecker),
        }
        built
    }

    /// The device's checker does not work.
    pub fn lose_checker(&self, report: &dyn Report) {
        let before = std::mem::replace(&mut self.own.lock().verifier, Verifier::Missing);
        if let Verifier::Built(_) = before {
            report.note(Note::NoDeviceChecker);
        }
    }

    /// Adds up the cost of scans by the host, and requests the device's checker
    /// once it exceeds the price of that.
    pub fn spend(&self, cost: Duration) {
        let cost = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        if self.rent.lock().spend(cost) {
            let mut own = self.own.lock();
            if let Verifier::None = own.verifier {
                own.verifier = Verifier::Wanted;
            }
        }
    }

    /// Records the time of a scan that was to be timed.
    pub fn measured(&self, class: Class, checker: choice::Checker, taken: Duration) {
        let nanoseconds = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX);
        self.choice.lock().measured(class, checker, nanoseconds);
    }
}
