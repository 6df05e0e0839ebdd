//! User objects: things of the program that live as long as something refers to
//! them.

use super::{Graph, INVALID, find};
use crate::call::Call;
use crate::convert::Answer;
use crate::link::Link;
use crate::order::fence;
use driver::sys::CUresult;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// By handle: references, and what destroys it.
#[derive(Default)]
pub(super) struct Objects(Mutex<BTreeMap<u64, (u32, Call)>>);

/// `cuUserObjectCreate`
pub(super) fn create(link: &Link, count: u32, destroy: Call) -> Result<u64, CUresult> {
    if count == 0 {
        return Err(INVALID);
    }
    let handle = link.state.handle();
    let mut objects = link.state.graphs.objects.0.lock();
    objects.insert(handle, (count, destroy));
    Ok(handle)
}

/// `cuUserObjectRetain`
pub(super) fn retain(link: &Link, object: u64, count: u32) -> Answer {
    let mut objects = link.state.graphs.objects.0.lock();
    let (references, _) = objects.get_mut(&object).ok_or(INVALID)?;
    *references = references.checked_add(count).ok_or(INVALID)?;
    Ok(())
}

/// `cuUserObjectRelease`: without references the object is destroyed.
pub(super) fn release(link: &Link, object: u64, count: u32) -> Answer {
    let mut objects = link.state.graphs.objects.0.lock();
    let (references, destroy) = objects.get_mut(&object).ok_or(INVALID)?;
    *references = references.checked_sub(count).ok_or(INVALID)?;
    if *references > 0 {
        return Ok(());
    }
    let destroy = *destroy;
    objects.remove(&object);
    // The destructor may call the API: without the lock.
    drop(objects);
    destroy.run(CUresult::CUDA_SUCCESS);
    Ok(())
}

/// `cuGraphRetainUserObject`; `is_moved`: the caller's references become the
/// graph's.
pub(super) fn retain_by(
    link: &Link,
    graph: u64,
    object: u64,
    count: u32,
    is_moved: bool,
) -> Answer {
    let graph = find(link, graph)?;
    if !is_moved {
        retain(link, object, count)?;
    }
    let mut held = graph.objects.lock();
    let held = held.entry(object).or_default();
    *held = held.checked_add(count).ok_or(INVALID)?;
    Ok(())
}

/// `cuGraphReleaseUserObject`
pub(super) fn release_by(link: &Link, graph: u64, object: u64, count: u32) -> Answer {
    let graph = find(link, graph)?;
    {
        let mut held = graph.objects.lock();
        let held = held.get_mut(&object).ok_or(INVALID)?;
        *held = held.checked_sub(count).ok_or(INVALID)?;
    }
    release(link, object, count)
}

/// Takes a reference to each object that a graph refers to.
pub(super) fn held(link: &Link, graph: &Graph) -> Vec<u64> {
    let mut objects: Vec<u64> = graph.objects.lock().keys().copied().collect();
    // (One that the program has released too often is gone already.)
    objects.retain(|object| retain(link, *object, 1).is_ok());
    objects
}

/// As [`release`] of one reference, when all is over that is in a stream.
pub(super) fn release_behind(link: &'static Link, stream: u32, object: u64) -> Answer {
    let order = &link.state.order;
    let over = order.add(link, stream, None, false, fence(stream, true))?;
    // In no stream: nothing comes behind it.
    let released = move |link: &'static Link| release(link, object, 1).map(|()| true);
    order.add(link, u32::MAX, Some(over), true, Box::new(released))?;
    Ok(())
}
