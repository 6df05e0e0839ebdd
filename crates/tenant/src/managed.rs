//! Managed memory. The program reaches it at the addresses that kernels reach it
//! at: pages of this process, in the place of the reserved ones. Host and device
//! take turns, as on devices whose `concurrentManagedAccess` is 0: before work
//! is put into a stream, what the program has written goes to the device, and
//! when the program has waited for work, what the device has written comes back.
//!
//! Which side has written is found by comparing with what both had last. So what
//! one side has not written never takes the place of what the other one has.

use crate::capture;
use crate::convert::{Answer, functions, list, per_thread_functions, pick, put};
use crate::link::Link;
use crate::reach;
use crate::state::{create_stream, enter};
use driver::sys::*;
use parking_lot::Mutex;
use protocol::{MAX_PAYLOAD, Place, Reply, Request};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a page of this process.
const PAGE: u64 = 4096;
/// What bytes are compared by where both sides may have written.
const WORD: usize = 4;

/// An allocation.
struct Block {
    /// What the manager calls it: its first byte there.
    allocated: u64,
    /// Bytes, as both sides last had them.
    shadow: Vec<u8>,
    /// The only stream whose work uses it, if the program has said so: then the
    /// program may use it while other streams work.
    stream: Option<u32>,
    /// Whether the program may write: it has waited since work was put into a stream
    /// that may use it.
    is_host_turn: bool,
}

#[derive(Default)]
struct Blocks {
    /// By first byte.
    all: BTreeMap<u64, Block>,
    /// A stream in which nothing is ever waited for.
    stream: Option<u32>,
    /// Whether work may have written since this process last had all bytes.
    is_behind: bool,
}

/// The managed memory of the program.
#[derive(Default)]
pub(crate) struct Managed {
    /// There is none: nothing is to be done.
    has_some: AtomicBool,
    blocks: Mutex<Blocks>,
}

fn host(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Lets this process access whole pages of its reservation, or not.
fn protect(address: u64, size: u64, is_accessible: bool) -> Answer {
    let bytes = size.next_multiple_of(PAGE) as usize;
    // SAFETY: whole pages of the range that `link::reserve` has mapped for the
    // device's addresses, in an allocation that takes no other's pages. What
    // they hold is given up before the program loses them.
    let result = unsafe {
        if !is_accessible {
            libc::madvise(host(address), bytes, libc::MADV_DONTNEED);
        }
        let access = match is_accessible {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => libc::PROT_NONE,
        };
        libc::mprotect(host(address), bytes, access)
    };
    match result {
        0 => Ok(()),
        _ => Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY),
    }
}

impl Managed {
    /// The context was reset.
    pub(crate) fn forget(&self) {
        let mut blocks = self.blocks.lock();
        for (address, block) in std::mem::take(&mut blocks.all) {
            // What stays accessible is memory of this process alone.
            let _ = protect(address, block.shadow.len() as u64, false);
        }
        *blocks = Blocks::default();
        self.has_some.store(false, Ordering::Release);
    }
}

/// Whether an address is one of managed memory.
pub(crate) fn is_managed(link: &Link, address: u64) -> bool {
    let blocks = link.state.managed.blocks.lock();
    let below = blocks.all.range(..=address).next_back();
    below.is_some_and(|(start, block)| address - start < block.shadow.len() as u64)
}

/// The program says that only the work of this stream uses an allocation, or that any
/// may.
pub(crate) fn attach(link: &Link, address: u64, stream: Option<u32>) -> Answer {
    let mut blocks = link.state.managed.blocks.lock();
    let below = blocks.all.range_mut(..=address).next_back();
    let block = below.filter(|(start, block)| address - *start < block.shadow.len() as u64);
    let (_, block) = block.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    block.stream = stream;
    Ok(())
}

/// As [`is_managed`], as an answer.
pub(crate) fn check(link: &Link, address: u64) -> Answer {
    match is_managed(link, address) {
        true => Ok(()),
        false => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

fn allocate(link: &Link, size: u64) -> Result<u64, CUresult> {
    enter(link)?;
    if size == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // Room for whole pages: the manager's allocations begin anywhere.
    let bytes = size.checked_next_multiple_of(PAGE);
    let bytes = bytes.and_then(|bytes| bytes.checked_add(PAGE));
    let bytes = bytes.ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    let allocated = crate::memory::take(link, bytes)?;
    let address = allocated.next_multiple_of(PAGE);
    let made = clear(link, address, size).and_then(|()| protect(address, size, true));
    if let Err(code) = made {
        link.done(&Request::Free { address: allocated })?;
        return Err(code);
    }
    let block = Block {
        allocated,
        shadow: vec![0; size as usize],
        stream: None,
        is_host_turn: true,
    };
    let managed = &link.state.managed;
    let mut blocks = managed.blocks.lock();
    blocks.all.insert(address, block);
    managed.has_some.store(true, Ordering::Release);
    link.state.allocations.lock().insert(address, size);
    Ok(address)
}

fn clear(link: &Link, address: u64, size: u64) -> Answer {
    link.done(&Request::Fill {
        stream: stream(link, &mut link.state.managed.blocks.lock())?,
        place: Place::linear(address, size),
        element: 1,
        value: 0,
    })
}

/// The stream that bytes go through.
fn stream(link: &Link, blocks: &mut Blocks) -> Result<u32, CUresult> {
    if let Some(stream) = blocks.stream {
        return Ok(stream);
    }
    let made = create_stream(link, false)?;
    blocks.stream = Some(made);
    Ok(made)
}

/// A stream of this library's own, which waits for no other.
pub(crate) fn own_stream(link: &Link) -> Result<u32, CUresult> {
    stream(link, &mut link.state.managed.blocks.lock())
}

/// Frees managed memory; `None` if the address is not one's first.
pub(crate) fn free(link: &'static Link, address: u64) -> Option<Answer> {
    let managed = &link.state.managed;
    let block = managed.blocks.lock().all.remove(&address)?;
    link.state.allocations.lock().remove(&address);
    let protected = protect(address, block.shadow.len() as u64, false);
    let freed = reach::free(link, block.allocated);
    Some(freed.and(protected))
}

/// What precedes work that is put into a stream: the device gets what the
/// program has written.
pub(crate) fn before(link: &Link, request: &Request) -> Answer {
    let is_work = matches!(
        request,
        Request::Launch { .. } | Request::Copy { .. } | Request::Fill { .. }
    );
    match is_work {
        true => push(link, request.stream().unwrap_or(0)),
        false => Ok(()),
    }
}

/// The device gets what the program has written, and the work that is put into a stream
/// may write from then on.
pub(crate) fn push(link: &Link, into: u32) -> Answer {
    let managed = &link.state.managed;
    if !managed.has_some.load(Ordering::Acquire) {
        return Ok(());
    }
    let mut blocks = managed.blocks.lock();
    let is_due =
        |block: &Block| block.is_host_turn && block.stream.is_none_or(|stream| stream == into);
    if blocks.all.values().any(is_due) {
        let stream = stream(link, &mut blocks)?;
        // Where nothing else writes, whole pages may go.
        let step = if blocks.is_behind {
            WORD
        } else {
            PAGE as usize
        };
        let due = blocks.all.iter_mut().filter(|(_, block)| is_due(block));
        for (address, block) in due {
            push_block(link, stream, *address, &mut block.shadow, step)?;
            block.is_host_turn = false;
        }
    }
    blocks.is_behind = true;
    Ok(())
}

fn push_block(link: &Link, stream: u32, address: u64, shadow: &mut [u8], step: usize) -> Answer {
    let mut written: Vec<u8> = Vec::new();
    let mut from = 0;
    let send = |written: &mut Vec<u8>, from: usize| -> Answer {
        if written.is_empty() {
            return Ok(());
        }
        let request = Request::Write {
            stream,
            to: Place::linear(address + from as u64, written.len() as u64),
        };
        let reply = link.ask(&request, written, |_| {})?;
        written.clear();
        match reply {
            Reply::Done => Ok(()),
            _ => Err(link.astray()),
        }
    };
    let mut bytes = vec![0; step];
    for (index, known) in shadow.chunks_mut(step).enumerate() {
        let at = index * step;
        let now = &mut bytes[..known.len()];
        let source = host(address + at as u64).cast::<u8>().cast_const();
        // SAFETY: pages that `allocate` made accessible and `free` takes out of
        // the list first; other threads of the program may write meanwhile, which
        // they must not, and then any of the bytes may be read.
        unsafe { std::ptr::copy_nonoverlapping(source, now.as_mut_ptr(), now.len()) };
        if now == known || written.len() + step > MAX_PAYLOAD {
            send(&mut written, from)?;
        }
        if now != known {
            if written.is_empty() {
                from = at;
            }
            written.extend_from_slice(now);
            known.copy_from_slice(now);
        }
    }
    send(&mut written, from)
}

/// What follows when the program has waited for work: it gets what the device has
/// written, and may write from then on.
pub(crate) fn after(link: &Link) -> Answer {
    let managed = &link.state.managed;
    if !managed.has_some.load(Ordering::Acquire) {
        return Ok(());
    }
    let mut blocks = managed.blocks.lock();
    if blocks.is_behind {
        // Asked first: what is still running may write later.
        let is_idle = link.ask(&Request::Synchronize, &[], |_| {})? == Reply::Done;
        let stream = stream(link, &mut blocks)?;
        for (address, block) in &mut blocks.all {
            pull_block(link, stream, *address, &mut block.shadow)?;
        }
        blocks.is_behind = !is_idle;
    }
    for block in blocks.all.values_mut() {
        block.is_host_turn = true;
    }
    Ok(())
}

fn pull_block(link: &Link, stream: u32, address: u64, shadow: &mut [u8]) -> Answer {
    for (index, known) in shadow.chunks_mut(MAX_PAYLOAD).enumerate() {
        let at = address + (index * MAX_PAYLOAD) as u64;
        let request = Request::Read {
            stream,
            from: Place::linear(at, known.len() as u64),
        };
        let mut fits = true;
        let reply = link.ask(&request, &[], |bytes| {
            fits = bytes.len() == known.len();
            if fits {
                merge(at, known, bytes);
            }
        })?;
        if reply != Reply::Bytes || !fits {
            return Err(link.astray());
        }
    }
    Ok(())
}

/// Gives this process the bytes that differ from what both sides had.
fn merge(address: u64, known: &mut [u8], now: &[u8]) {
    let pages = known
        .chunks_mut(PAGE as usize)
        .zip(now.chunks(PAGE as usize));
    for (page, (known, now)) in pages.enumerate() {
        if known == now {
            continue;
        }
        let start = address + page as u64 * PAGE;
        for (at, (known, now)) in known.iter_mut().zip(now).enumerate() {
            if known != now {
                *known = *now;
                // SAFETY: as in `push_block`; the program leaves what the device
                // writes to the device.
                unsafe { host(start + at as u64).cast::<u8>().write(*now) };
            }
        }
    }
}

/// # Safety
/// `to` has room for `size` bytes.
unsafe fn range_attribute(
    link: &Link,
    to: *mut c_void,
    size: usize,
    kind: CUmem_range_attribute,
    address: u64,
) -> Answer {
    use CUmem_range_attribute as A;
    check(link, address)?;
    // Advice is not kept: nothing is preferred (CU_DEVICE_INVALID, -2).
    let value: i32 = match kind {
        A::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY
        | A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE
        | A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID
        | A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE
        | A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID => 0,
        _ => -2,
    };
    if to.is_null() || size == 0 || !size.is_multiple_of(4) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    for index in 0..size / 4 {
        // SAFETY: within `size` bytes.
        unsafe { to.cast::<i32>().add(index).write(value) };
    }
    Ok(())
}

mod made {
    use super::*;
    functions! { link;
        fn cuMemAllocManaged(address: *mut CUdeviceptr, size: usize, flags: u32) {
            capture::check_strict(link)?;
            // Attached to all, to the host, or to one stream.
            if !matches!(flags, 1 | 2 | 4) {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            put(address, allocate(link, size as u64)?)
        }
        fn cuMemAdvise(address: CUdeviceptr, _count: usize, _advice: CUmem_advise, _device: CUdevice) {
            capture::check_strict(link)?;
            check(link, address)
        }
        fn cuMemAdvise_v2(address: CUdeviceptr, _count: usize, _advice: CUmem_advise, _location: CUmemLocation) {
            capture::check_strict(link)?;
            check(link, address)
        }
        fn cuMemRangeGetAttribute(to: *mut c_void, size: usize, kind: CUmem_range_attribute, address: CUdeviceptr, _count: usize) {
            range_attribute(link, to, size, kind, address)
        }
        fn cuMemRangeGetAttributes(
            to: *mut *mut c_void, sizes: *mut usize, kinds: *mut CUmem_range_attribute, attributes: usize, address: CUdeviceptr, _count: usize,
        ) {
            let (to, sizes, kinds) = (list(to, attributes), list(sizes, attributes), list(kinds, attributes));
            for ((to, size), kind) in to.iter().zip(sizes).zip(kinds) {
                range_attribute(link, *to, *size, *kind, address)?;
            }
            Ok(())
        }
    }
}

per_thread_functions! { link, default, register_prefetches;
    fn cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz(address: CUdeviceptr, _count: usize, _device: CUdevice, stream: CUstream) {
        pick(link, stream, default)?;
        check(link, address)
    }
    fn cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz(address: CUdeviceptr, _count: usize, _location: CUmemLocation, _flags: u32, stream: CUstream) {
        pick(link, stream, default)?;
        check(link, address)
    }
}

/// Enters this file's functions into the table.
pub(crate) fn register(api: &mut driver::Api) {
    made::register(api);
    register_prefetches(api);
}
