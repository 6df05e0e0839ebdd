//! Pools, linkers and user objects.

use super::Rig;
use driver::sys::{CUmemPool_attribute as Attribute, CUresult};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[test]
fn a_pool_keeps_its_attributes_until_it_is_destroyed() {
    let rig = Rig::new();
    let device = &rig.device;
    let default = device.pool_default();
    assert_eq!(device.pool_current(), default);
    let pool = device.pool_create();
    assert_ne!(pool, default);
    let (reuse, threshold) = (
        Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
    );
    assert_eq!(device.pool_attribute(pool, reuse), Ok(1));
    assert_eq!(device.pool_attribute(pool, threshold), Ok(0));
    device.pool_set_attribute(pool, reuse, 0).expect("a pool");
    device
        .pool_set_attribute(pool, threshold, 1 << 40)
        .expect("a pool");
    assert_eq!(device.pool_attribute(pool, reuse), Ok(0));
    assert_eq!(device.pool_attribute(pool, threshold), Ok(1 << 40));
    assert_eq!(device.pool_attribute(default, threshold), Ok(0));
    device.pool_set_current(pool).expect("a pool");
    let address = device.allocate_from_pool(64, pool, 0).expect("memory");
    device.free_async(address, 0).expect("freed");
    device.pool_destroy(pool).expect("a pool");
    assert_eq!(device.pool_current(), default);
    assert_eq!(device.pool_exists(pool), Err(INVALID));
    assert_eq!(device.pool_attribute(pool, reuse), Err(INVALID));
    assert_eq!(device.pool_set_current(pool), Err(INVALID));
    assert_eq!(device.allocate_from_pool(64, pool, 0), Err(INVALID));
    assert_eq!(device.pool_destroy(default), Err(INVALID));
}

#[test]
fn a_linker_collects_texts_in_order() {
    let rig = Rig::new();
    let device = &rig.device;
    let (first, second) = (device.linker_create(), device.linker_create());
    let text = |name: &str| vec![name.to_owned()];
    device.linker_add(first, text("a")).expect("a linker");
    device.linker_add(second, text("x")).expect("a linker");
    device.linker_add(first, text("b")).expect("a linker");
    assert_eq!(
        device.linker_texts(first),
        Ok(vec!["a".to_owned(), "b".to_owned()])
    );
    device.linker_destroy(first).expect("a linker");
    let gone = CUresult::CUDA_ERROR_INVALID_HANDLE;
    assert_eq!(device.linker_add(first, text("c")), Err(gone));
    assert_eq!(device.linker_texts(first), Err(gone));
    assert_eq!(device.linker_destroy(first), Err(gone));
    assert_eq!(device.linker_texts(second), Ok(text("x")));
}

/// A counter, and a destructor that counts.
fn counted() -> (Arc<AtomicU32>, Box<dyn FnOnce() + Send>) {
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    (
        calls,
        Box::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        }),
    )
}

#[test]
fn a_user_object_is_destroyed_with_its_last_reference() {
    let rig = Rig::new();
    let device = &rig.device;
    let (calls, destroy) = counted();
    let object = device.user_object_create(1, destroy).expect("an object");
    device.user_object_retain(object, 2).expect("an object");
    assert_eq!(device.user_object_release(object, 4), Err(INVALID));
    device.user_object_release(object, 2).expect("one is left");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    device.user_object_release(object, 1).expect("the last one");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(device.user_object_release(object, 1), Err(INVALID));
    let (_, destroy) = counted();
    assert_eq!(device.user_object_create(0, destroy), Err(INVALID));
}

#[test]
fn a_graph_holds_references_to_user_objects() {
    let rig = Rig::new();
    let device = &rig.device;
    let graph = device.graph_create().expect("a graph");
    let (calls, destroy) = counted();
    let object = device.user_object_create(1, destroy).expect("an object");
    assert_eq!(device.graph_release_object(graph, object, 1), Err(INVALID));
    device
        .graph_retain_object(graph, object, 2, false)
        .expect("both live");
    // The caller's own reference becomes the graph's third.
    device
        .graph_retain_object(graph, object, 1, true)
        .expect("both live");
    device
        .graph_release_object(graph, object, 1)
        .expect("it holds three");
    assert_eq!(device.graph_release_object(graph, object, 3), Err(INVALID));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    device.graph_destroy(graph).expect("a graph");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
