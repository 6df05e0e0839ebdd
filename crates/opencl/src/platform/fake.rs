//! A platform for unit tests: a table of functions over a few lists. Each thread
//! has its own, while it holds a [`Fake`].
//!
//! Commands run when the test calls [`Fake::run`], or waits: in their order,
//! each when what it waits for is complete; a command behind a failed one
//! fails. A double release, or the use of a released object, fails the test.

use crate::platform::commands::Order;
use crate::platform::{Table, empty};
use crate::sys::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::rc::Rc;
use std::sync::OnceLock;

type Destructor = unsafe extern "C" fn(cl_mem, *mut c_void);
type Callback = unsafe extern "C" fn(cl_event, cl_int, *mut c_void);
/// The effect of kernels, given their arguments.
type Body = Rc<dyn Fn(&[usize])>;

/// A memory object.
struct Mem {
    bytes: Rc<RefCell<Box<[u8]>>>,
    origin: usize,
    size: usize,
    flags: u64,
    context: usize,
    parent: Option<usize>,
    references: u32,
    gone: Option<Destructor>,
}

struct Ev {
    status: cl_int,
    user: bool,
    references: u32,
    callbacks: Vec<(Callback, usize)>,
}

/// What a command does once it is done.
#[derive(Clone)]
enum Action {
    Nothing,
    Read(usize, usize, usize, usize),
    Write(usize, usize, usize, Rc<Vec<u8>>),
    Copy(usize, usize, usize),
    Kernel(Vec<usize>),
}

struct Pending {
    queue: usize,
    event: usize,
    after: Vec<usize>,
    action: Action,
}

struct Kernel {
    name: &'static str,
    context: usize,
    /// Each with whether the kernel only reads it.
    parameters: Vec<(&'static str, bool)>,
    arguments: Vec<usize>,
}

#[derive(Default)]
struct State {
    last: usize,
    mems: BTreeMap<usize, Mem>,
    events: BTreeMap<usize, Ev>,
    /// Context and properties.
    queues: BTreeMap<usize, (usize, u64)>,
    kernels: BTreeMap<usize, Kernel>,
    pending: Vec<Pending>,
    /// Names of the functions that have enqueued something.
    log: Vec<&'static str>,
    refused: BTreeMap<&'static str, cl_int>,
    /// Buffers of more bytes are refused.
    most: Option<usize>,
    body: Option<Body>,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

fn with<T>(work: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(|state| work(state.as_mut().expect("a test without a platform")))
}

/// The functions, in a thread that holds a [`Fake`].
pub fn target() -> Option<&'static Dispatch> {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let is_there = STATE.with_borrow(Option::is_some);
    is_there.then(|| &TABLE.get_or_init(|| Table(table())).0)
}

/// This thread's platform, until this is dropped.
pub struct Fake {
    pub context: cl_context,
}

impl Drop for Fake {
    fn drop(&mut self) {
        let gone = STATE.take();
        drop(gone);
    }
}

impl State {
    fn handle(&mut self) -> usize {
        self.last += 0x10;
        0x10_0000 + self.last
    }

    fn event(&mut self, status: cl_int, user: bool) -> usize {
        let handle = self.handle();
        let event = Ev {
            status,
            user,
            references: 1,
            callbacks: Vec::new(),
        };
        self.events.insert(handle, event);
        handle
    }

    /// The first command that is ready, and whether what it waits for has
    /// failed.
    fn next(&mut self) -> Option<(Pending, bool)> {
        let mut blocked = Vec::new();
        let mut found = None;
        for (at, pending) in self.pending.iter().enumerate() {
            let statuses = pending.after.iter().map(|event| self.events[event].status);
            let statuses: Vec<cl_int> = statuses.collect();
            let in_order = self.queues[&pending.queue].1 == 0;
            let waits = statuses.iter().any(|status| *status > 0);
            if waits || in_order && blocked.contains(&pending.queue) {
                blocked.push(pending.queue);
                continue;
            }
            found = Some((at, statuses.iter().any(|status| *status < 0)));
            break;
        }
        let (at, failed) = found?;
        Some((self.pending.remove(at), failed))
    }

    fn range(&self, mem: usize, at: usize, size: usize) -> (Rc<RefCell<Box<[u8]>>>, usize) {
        let mem = &self.mems[&mem];
        assert!(at + size <= mem.size, "a command leaves a memory object");
        (mem.bytes.clone(), mem.origin + at)
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Nothing | Action::Kernel(_) => {}
            Action::Read(mem, at, size, to) => {
                let (bytes, start) = self.range(*mem, *at, *size);
                let from = bytes.borrow();
                // SAFETY: the caller that enqueued the read keeps the place
                // until it is complete.
                unsafe {
                    std::ptr::copy_nonoverlapping(from[start..].as_ptr(), *to as *mut u8, *size);
                }
            }
            Action::Write(mem, at, size, from) => {
                let (bytes, start) = self.range(*mem, *at, *size);
                bytes.borrow_mut()[start..start + size].copy_from_slice(from);
            }
            Action::Copy(from, to, size) => {
                let (source, start) = self.range(*from, 0, *size);
                let copied = source.borrow()[start..start + size].to_vec();
                let (bytes, start) = self.range(*to, 0, *size);
                bytes.borrow_mut()[start..start + size].copy_from_slice(&copied);
            }
        }
    }
}

/// Ends a command or a user event, and calls back.
fn end(event: usize, status: cl_int) {
    let callbacks = with(|state| {
        let ended = state
            .events
            .get_mut(&event)
            .expect("an event that was released");
        ended.status = status;
        std::mem::take(&mut ended.callbacks)
    });
    for (function, data) in callbacks {
        // SAFETY: the callback's setter requested this call.
        unsafe { function(event as cl_event, status, data as *mut c_void) };
    }
}

fn release_event(event: usize) {
    with(|state| {
        let known = state
            .events
            .get_mut(&event)
            .expect("an event that was released");
        known.references -= 1;
        if known.references == 0 {
            state.events.remove(&event);
        }
    });
}

impl Fake {
    /// A platform with a context and nothing in it.
    pub fn new() -> Fake {
        let state = State::default();
        STATE.set(Some(state));
        Fake {
            context: with(State::handle) as cl_context,
        }
    }

    /// Another queue of the context.
    pub fn queue(&self, order: Order) -> cl_command_queue {
        let properties = match order {
            Order::Kept => 0,
            Order::Loose => CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE,
        };
        let context = self.context as usize;
        with(|state| {
            let handle = state.handle();
            state.queues.insert(handle, (context, properties));
            handle as cl_command_queue
        })
    }

    /// A kernel with these parameters, each with whether it is only read.
    pub fn kernel(&self, name: &'static str, parameters: &[(&'static str, bool)]) -> cl_kernel {
        let kernel = Kernel {
            name,
            context: self.context as usize,
            parameters: parameters.to_vec(),
            arguments: vec![0; parameters.len()],
        };
        with(|state| {
            let handle = state.handle();
            state.kernels.insert(handle, kernel);
            handle as cl_kernel
        })
    }

    /// Sets the effect of kernels from now on, given their arguments.
    pub fn on_kernel(&self, body: impl Fn(&[usize]) + 'static) {
        with(|state| state.body = Some(Rc::new(body)));
    }

    /// Arguments of a kernel.
    pub fn arguments(&self, kernel: cl_kernel) -> Vec<usize> {
        with(|state| state.kernels[&(kernel as usize)].arguments.clone())
    }

    /// An event that the program sets.
    pub fn user_event(&self) -> cl_event {
        let submitted = CL_SUBMITTED.cast_signed();
        with(|state| state.event(submitted, true)) as cl_event
    }

    /// An event of a command, with this many references.
    pub fn event(&self, status: cl_int) -> cl_event {
        with(|state| state.event(status, false)) as cl_event
    }

    /// Ends an event.
    pub fn end(&self, event: cl_event, status: cl_int) {
        end(event as usize, status);
    }

    /// References to an event; 0: it was released.
    pub fn references(&self, event: cl_event) -> u32 {
        with(|state| {
            let known = state.events.get(&(event as usize));
            known.map_or(0, |known| known.references)
        })
    }

    /// Memory objects that exist.
    pub fn mems(&self) -> usize {
        with(|state| state.mems.len())
    }

    /// Events that exist.
    pub fn events(&self) -> usize {
        with(|state| state.events.len())
    }

    /// Makes a function fail with a code from now on.
    pub fn refuse(&self, function: &'static str, code: cl_int) {
        with(|state| state.refused.insert(function, code));
    }

    /// No function fails any more.
    pub fn allow(&self) {
        with(|state| state.refused.clear());
    }

    /// Refuses larger buffers.
    pub fn has_room_for(&self, bytes: usize) {
        with(|state| state.most = Some(bytes));
    }

    /// The functions that have enqueued something since this was called last.
    pub fn log(&self) -> Vec<&'static str> {
        with(|state| std::mem::take(&mut state.log))
    }

    /// Runs all commands that are ready.
    pub fn run(&self) {
        run();
    }
}

fn run() {
    while let Some((pending, failed)) = with(State::next) {
        let mut status = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        if !failed {
            status = 0;
            with(|state| state.act(&pending.action));
            if let Action::Kernel(arguments) = &pending.action {
                let body = with(|state| state.body.clone());
                if let Some(body) = body {
                    body(arguments);
                }
            }
        }
        end(pending.event, status);
        for event in pending.after.iter().chain([&pending.event]) {
            release_event(*event);
        }
    }
}

/// Writes into the memory that a memory object lies in, from its start on, as a
/// kernel may.
pub fn poke(mem: usize, at: isize, value: u8) {
    with(|state| {
        let mem = &state.mems[&mem];
        let place = mem.origin.wrapping_add_signed(at);
        mem.bytes.borrow_mut()[place] = value;
    });
}

/// Reads as [`poke`] writes.
pub fn peek(mem: usize, at: isize) -> u8 {
    with(|state| {
        let mem = &state.mems[&mem];
        mem.bytes.borrow()[mem.origin.wrapping_add_signed(at)]
    })
}

/// Enqueues a command; the code of its refusal, if it is refused.
fn enqueue(
    function: &'static str,
    queue: cl_command_queue,
    action: Action,
    (count, list): (cl_uint, *const cl_event),
    event: *mut cl_event,
) -> cl_int {
    if list.is_null() != (count == 0) {
        return CL_INVALID_EVENT_WAIT_LIST;
    }
    // SAFETY: the caller's list.
    let after: Vec<usize> = (0..count as usize)
        .map(|at| unsafe { *list.add(at) as usize })
        .collect();
    with(|state| {
        if let Some(code) = state.refused.get(function) {
            return *code;
        }
        for waited in &after {
            let waited = state.events.get_mut(waited);
            waited
                .expect("a wait for an event that was released")
                .references += 1;
        }
        state.log.push(function);
        let own = state.event(CL_QUEUED.cast_signed(), false);
        state.pending.push(Pending {
            queue: queue as usize,
            event: own,
            after,
            action,
        });
        if !event.is_null() {
            state.events.get_mut(&own).expect("just made").references += 1;
            // SAFETY: the caller's place.
            unsafe { *event = own as cl_event };
        }
        CL_SUCCESS
    })
}

/// Answers a question with these bytes.
fn tell(bytes: &[u8], size: usize, value: *mut c_void, needed: *mut usize) -> cl_int {
    if !value.is_null() {
        if size < bytes.len() {
            return CL_INVALID_VALUE;
        }
        // SAFETY: there is room.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), bytes.len()) };
    }
    if !needed.is_null() {
        // SAFETY: the caller's place.
        unsafe { *needed = bytes.len() };
    }
    CL_SUCCESS
}

fn set_code(code: *mut cl_int, answer: cl_int) {
    if !code.is_null() {
        // SAFETY: the caller's place.
        unsafe { *code = answer };
    }
}

unsafe extern "C" fn create_buffer(
    context: cl_context,
    flags: u64,
    size: usize,
    host: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    let refused = with(|state| state.refused.get("clCreateBuffer").copied());
    let too_large = with(|state| state.most.is_some_and(|most| size > most));
    if let Some(refusal) = refused.or(too_large.then_some(CL_MEM_OBJECT_ALLOCATION_FAILURE)) {
        set_code(code, refusal);
        return std::ptr::null_mut();
    }
    let mut bytes = vec![0u8; size].into_boxed_slice();
    if !host.is_null() {
        // SAFETY: the caller's memory of this size.
        unsafe { std::ptr::copy_nonoverlapping(host.cast(), bytes.as_mut_ptr(), size) };
    }
    let mem = Mem {
        bytes: Rc::new(RefCell::new(bytes)),
        origin: 0,
        size,
        flags,
        context: context as usize,
        parent: None,
        references: 1,
        gone: None,
    };
    set_code(code, CL_SUCCESS);
    with(|state| {
        let handle = state.handle();
        state.mems.insert(handle, mem);
        handle as cl_mem
    })
}

unsafe extern "C" fn create_sub_buffer(
    buffer: cl_mem,
    flags: u64,
    _kind: cl_uint,
    info: *const c_void,
    code: *mut cl_int,
) -> cl_mem {
    // SAFETY: what parts are made from.
    let region = unsafe { *info.cast::<cl_buffer_region>() };
    with(|state| {
        if let Some(refusal) = state.refused.get("clCreateSubBuffer") {
            set_code(code, *refusal);
            return std::ptr::null_mut();
        }
        let parent = state.mems.get_mut(&(buffer as usize)).expect("a buffer");
        assert!(parent.parent.is_none(), "a part of a part");
        assert!(region.origin + region.size <= parent.size);
        parent.references += 1;
        let mem = Mem {
            bytes: parent.bytes.clone(),
            origin: region.origin,
            size: region.size,
            flags,
            context: parent.context,
            parent: Some(buffer as usize),
            references: 1,
            gone: None,
        };
        let handle = state.handle();
        state.mems.insert(handle, mem);
        set_code(code, CL_SUCCESS);
        handle as cl_mem
    })
}

unsafe extern "C" fn retain_mem(mem: cl_mem) -> cl_int {
    with(|state| {
        let mem = state.mems.get_mut(&(mem as usize));
        mem.expect("an object that was freed").references += 1;
    });
    CL_SUCCESS
}

unsafe extern "C" fn release_mem(mem: cl_mem) -> cl_int {
    let last = with(|state| {
        let known = state.mems.get_mut(&(mem as usize));
        let known = known.expect("an object that was freed");
        known.references -= 1;
        (known.references == 0).then_some((known.gone, known.parent))
    });
    if let Some((gone, parent)) = last {
        if let Some(gone) = gone {
            // SAFETY: the callback's setter requested this call.
            unsafe { gone(mem, std::ptr::null_mut()) };
        }
        with(|state| state.mems.remove(&(mem as usize)));
        if let Some(parent) = parent {
            // SAFETY: the reference that the part had.
            unsafe { release_mem(parent as cl_mem) };
        }
    }
    CL_SUCCESS
}

unsafe extern "C" fn set_destructor(
    mem: cl_mem,
    function: Option<Destructor>,
    _data: *mut c_void,
) -> cl_int {
    with(|state| {
        let mem = state.mems.get_mut(&(mem as usize));
        mem.expect("an object that was freed").gone = function;
    });
    CL_SUCCESS
}

unsafe extern "C" fn mem_info(
    mem: cl_mem,
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    needed: *mut usize,
) -> cl_int {
    let answer = with(|state| {
        let mem = state.mems.get(&(mem as usize))?;
        match name {
            CL_MEM_CONTEXT => Some(mem.context.to_ne_bytes()),
            CL_MEM_FLAGS => Some(mem.flags.to_ne_bytes()),
            CL_MEM_SIZE => Some(mem.size.to_ne_bytes()),
            CL_MEM_OFFSET => Some(mem.origin.to_ne_bytes()),
            CL_MEM_ASSOCIATED_MEMOBJECT => Some(mem.parent.unwrap_or(0).to_ne_bytes()),
            _ => None,
        }
    });
    match answer {
        Some(bytes) => tell(&bytes, size, value, needed),
        None => CL_INVALID_VALUE,
    }
}

unsafe extern "C" fn context_info(
    _context: cl_context,
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    needed: *mut usize,
) -> cl_int {
    match name {
        CL_CONTEXT_DEVICES => tell(&0xd0usize.to_ne_bytes(), size, value, needed),
        CL_CONTEXT_REFERENCE_COUNT => {
            let objects = with(|state| 1 + state.mems.len() as u32);
            tell(&objects.to_ne_bytes(), size, value, needed)
        }
        _ => CL_INVALID_VALUE,
    }
}

unsafe extern "C" fn device_info(
    _device: cl_device_id,
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    needed: *mut usize,
) -> cl_int {
    match name {
        CL_DEVICE_MEM_BASE_ADDR_ALIGN => tell(&1024u32.to_ne_bytes(), size, value, needed),
        _ => CL_INVALID_VALUE,
    }
}

unsafe extern "C" fn create_queue(
    context: cl_context,
    _device: cl_device_id,
    properties: u64,
    code: *mut cl_int,
) -> cl_command_queue {
    set_code(code, CL_SUCCESS);
    with(|state| {
        let handle = state.handle();
        state.queues.insert(handle, (context as usize, properties));
        handle as cl_command_queue
    })
}

unsafe extern "C" fn release_queue(_queue: cl_command_queue) -> cl_int {
    CL_SUCCESS
}

unsafe extern "C" fn queue_info(
    queue: cl_command_queue,
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    needed: *mut usize,
) -> cl_int {
    let (context, properties) = with(|state| state.queues[&(queue as usize)]);
    match name {
        CL_QUEUE_CONTEXT => tell(&context.to_ne_bytes(), size, value, needed),
        CL_QUEUE_PROPERTIES => tell(&properties.to_ne_bytes(), size, value, needed),
        _ => CL_INVALID_VALUE,
    }
}

unsafe extern "C" fn retain_event(event: cl_event) -> cl_int {
    with(|state| {
        let event = state.events.get_mut(&(event as usize));
        event.expect("an event that was released").references += 1;
    });
    CL_SUCCESS
}

unsafe extern "C" fn release_event_of(event: cl_event) -> cl_int {
    release_event(event as usize);
    CL_SUCCESS
}

unsafe extern "C" fn event_info(
    event: cl_event,
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    needed: *mut usize,
) -> cl_int {
    let known = with(|state| {
        let known = state.events.get(&(event as usize));
        known.map(|known| (known.status, known.user))
    });
    let Some((status, user)) = known else {
        return CL_INVALID_EVENT;
    };
    let kind = match user {
        true => CL_COMMAND_USER,
        false => CL_COMMAND_NDRANGE_KERNEL,
    };
    match name {
        CL_EVENT_COMMAND_EXECUTION_STATUS => tell(&status.to_ne_bytes(), size, value, needed),
        CL_EVENT_COMMAND_TYPE => tell(&kind.to_ne_bytes(), size, value, needed),
        _ => CL_INVALID_VALUE,
    }
}

unsafe extern "C" fn set_callback(
    event: cl_event,
    _kind: cl_int,
    function: Option<Callback>,
    data: *mut c_void,
) -> cl_int {
    let refused = with(|state| state.refused.get("clSetEventCallback").copied());
    if let Some(code) = refused {
        return code;
    }
    let function = function.expect("a function");
    let done = with(|state| {
        let known = state.events.get_mut(&(event as usize));
        let known = known.expect("an event that was released");
        if known.status > 0 {
            known.callbacks.push((function, data as usize));
            return None;
        }
        Some(known.status)
    });
    if let Some(status) = done {
        // SAFETY: the callback's setter requested this call.
        unsafe { function(event, status, data) };
    }
    CL_SUCCESS
}

unsafe extern "C" fn set_user_event(event: cl_event, status: cl_int) -> cl_int {
    end(event as usize, status);
    CL_SUCCESS
}

unsafe extern "C" fn wait_for(count: cl_uint, list: *const cl_event) -> cl_int {
    run();
    let mut code = CL_SUCCESS;
    for at in 0..count as usize {
        // SAFETY: the caller's list.
        let event = unsafe { *list.add(at) } as usize;
        let status = with(|state| state.events[&event].status);
        assert!(status <= 0, "a wait that never ends");
        if status < 0 {
            code = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        }
    }
    code
}

unsafe extern "C" fn finish(_queue: cl_command_queue) -> cl_int {
    run();
    CL_SUCCESS
}

unsafe extern "C" fn flush(_queue: cl_command_queue) -> cl_int {
    CL_SUCCESS
}

unsafe extern "C" fn read_buffer(
    queue: cl_command_queue,
    mem: cl_mem,
    blocking: cl_uint,
    at: usize,
    size: usize,
    to: *mut c_void,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let action = Action::Read(mem as usize, at, size, to as usize);
    let code = enqueue("clEnqueueReadBuffer", queue, action, (count, list), event);
    if blocking != 0 {
        run();
    }
    code
}

unsafe extern "C" fn write_buffer(
    queue: cl_command_queue,
    mem: cl_mem,
    blocking: cl_uint,
    at: usize,
    size: usize,
    from: *const c_void,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    // SAFETY: the caller's bytes.
    let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size) };
    let action = Action::Write(mem as usize, at, size, Rc::new(from.to_vec()));
    let code = enqueue("clEnqueueWriteBuffer", queue, action, (count, list), event);
    if blocking != 0 {
        run();
    }
    code
}

unsafe extern "C" fn copy_buffer(
    queue: cl_command_queue,
    from: cl_mem,
    to: cl_mem,
    _at: usize,
    _goal: usize,
    size: usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let action = Action::Copy(from as usize, to as usize, size);
    enqueue("clEnqueueCopyBuffer", queue, action, (count, list), event)
}

unsafe extern "C" fn marker(
    queue: cl_command_queue,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let waits = (count, list);
    let name = "clEnqueueMarkerWithWaitList";
    enqueue(name, queue, Action::Nothing, waits, event)
}

unsafe extern "C" fn range_kernel(
    queue: cl_command_queue,
    kernel: cl_kernel,
    _dimensions: cl_uint,
    _offset: *const usize,
    _global: *const usize,
    _local: *const usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let arguments = with(|state| state.kernels[&(kernel as usize)].arguments.clone());
    let (name, waits) = ("clEnqueueNDRangeKernel", (count, list));
    enqueue(name, queue, Action::Kernel(arguments), waits, event)
}

unsafe extern "C" fn set_argument(
    kernel: cl_kernel,
    index: cl_uint,
    _size: usize,
    value: *const c_void,
) -> cl_int {
    // SAFETY: the caller's value, a handle in all tests.
    let handle = unsafe { value.cast::<usize>().read_unaligned() };
    with(|state| {
        if let Some(code) = state.refused.get("clSetKernelArg") {
            return *code;
        }
        let kernel = state.kernels.get_mut(&(kernel as usize)).expect("a kernel");
        match kernel.arguments.get_mut(index as usize) {
            Some(argument) => {
                *argument = handle;
                CL_SUCCESS
            }
            None => CL_INVALID_ARG_INDEX,
        }
    })
}

unsafe extern "C" fn kernel_info(
    kernel: cl_kernel,
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    needed: *mut usize,
) -> cl_int {
    let answer = with(|state| {
        let kernel = &state.kernels[&(kernel as usize)];
        match name {
            CL_KERNEL_FUNCTION_NAME => Some([kernel.name.as_bytes(), b"\0"].concat()),
            CL_KERNEL_CONTEXT => Some(kernel.context.to_ne_bytes().to_vec()),
            CL_KERNEL_NUM_ARGS => Some((kernel.parameters.len() as u32).to_ne_bytes().to_vec()),
            _ => None,
        }
    });
    match answer {
        Some(bytes) => tell(&bytes, size, value, needed),
        None => CL_INVALID_VALUE,
    }
}

unsafe extern "C" fn argument_info(
    kernel: cl_kernel,
    index: cl_uint,
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    needed: *mut usize,
) -> cl_int {
    let known = with(|state| {
        let kernel = &state.kernels[&(kernel as usize)];
        kernel.parameters.get(index as usize).copied()
    });
    let Some((text, constant)) = known else {
        return CL_INVALID_ARG_INDEX;
    };
    let constant = if constant {
        CL_KERNEL_ARG_TYPE_CONST
    } else {
        0
    };
    match name {
        CL_KERNEL_ARG_NAME => tell(&[text.as_bytes(), b"\0"].concat(), size, value, needed),
        CL_KERNEL_ARG_ADDRESS_QUALIFIER => {
            let global = CL_KERNEL_ARG_ADDRESS_GLOBAL.to_ne_bytes();
            tell(&global, size, value, needed)
        }
        CL_KERNEL_ARG_TYPE_QUALIFIER => tell(&constant.to_ne_bytes(), size, value, needed),
        CL_KERNEL_ARG_ACCESS_QUALIFIER => {
            let none = CL_KERNEL_ARG_ACCESS_NONE.to_ne_bytes();
            tell(&none, size, value, needed)
        }
        _ => CL_INVALID_VALUE,
    }
}

unsafe extern "C" fn create_kernel(
    _program: cl_program,
    _name: *const c_char,
    code: *mut cl_int,
) -> cl_kernel {
    set_code(code, CL_INVALID_KERNEL_NAME);
    std::ptr::null_mut()
}

unsafe extern "C" fn map_buffer(
    queue: cl_command_queue,
    mem: cl_mem,
    _blocking: cl_uint,
    _flags: u64,
    at: usize,
    size: usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
    code: *mut cl_int,
) -> *mut c_void {
    let name = "clEnqueueMapBuffer";
    set_code(
        code,
        enqueue(name, queue, Action::Nothing, (count, list), event),
    );
    run();
    let (bytes, start) = with(|state| state.range(mem as usize, at, size));
    bytes.borrow_mut()[start..].as_mut_ptr().cast()
}

unsafe extern "C" fn unmap(
    queue: cl_command_queue,
    _mem: cl_mem,
    _pointer: *mut c_void,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let (name, waits) = ("clEnqueueUnmapMemObject", (count, list));
    enqueue(name, queue, Action::Nothing, waits, event)
}

fn table() -> Dispatch {
    let mut table = empty();
    table.clCreateBuffer = Some(create_buffer);
    table.clCreateSubBuffer = Some(create_sub_buffer);
    table.clRetainMemObject = Some(retain_mem);
    table.clReleaseMemObject = Some(release_mem);
    table.clSetMemObjectDestructorCallback = Some(set_destructor);
    table.clGetMemObjectInfo = Some(mem_info);
    table.clGetContextInfo = Some(context_info);
    table.clGetDeviceInfo = Some(device_info);
    table.clCreateCommandQueue = Some(create_queue);
    table.clReleaseCommandQueue = Some(release_queue);
    table.clGetCommandQueueInfo = Some(queue_info);
    table.clRetainEvent = Some(retain_event);
    table.clReleaseEvent = Some(release_event_of);
    table.clGetEventInfo = Some(event_info);
    table.clSetEventCallback = Some(set_callback);
    table.clSetUserEventStatus = Some(set_user_event);
    table.clWaitForEvents = Some(wait_for);
    table.clFinish = Some(finish);
    table.clFlush = Some(flush);
    table.clEnqueueReadBuffer = Some(read_buffer);
    table.clEnqueueWriteBuffer = Some(write_buffer);
    table.clEnqueueCopyBuffer = Some(copy_buffer);
    table.clEnqueueMarkerWithWaitList = Some(marker);
    table.clEnqueueNDRangeKernel = Some(range_kernel);
    table.clSetKernelArg = Some(set_argument);
    table.clGetKernelInfo = Some(kernel_info);
    table.clGetKernelArgInfo = Some(argument_info);
    table.clCreateKernel = Some(create_kernel);
    table.clEnqueueMapBuffer = Some(map_buffer);
    table.clEnqueueUnmapMemObject = Some(unmap);
    table
}
