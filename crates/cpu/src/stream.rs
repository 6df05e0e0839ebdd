//! Streams, their values in memory, and their capture.

use crate::convert::{Answer, functions, get, list, per_thread_functions, pick, put, put_if};
use crate::session::Cpu;
use driver::sys::*;
use emulate::device::Device;
use model::AllocationKind;

mod made {
    use super::*;
    functions! { gpu;
        fn cuStreamCreate(stream: *mut CUstream, flags: u32) {
            put(stream, CUstream(gpu.stream_create(flags, 0)?))
        }
        fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: u32, priority: i32) {
            put(stream, CUstream(gpu.stream_create(flags, priority)?))
        }
        fn cuStreamDestroy(stream: CUstream) {
            gpu.stream_destroy(stream.0)
        }
        fn cuStreamDestroy_v2(stream: CUstream) {
            gpu.stream_destroy(stream.0)
        }
        fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) {
            let wanted = get(mode.cast_const())?;
            put(mode, CUstreamCaptureMode(gpu.exchange_capture_mode(wanted.0)?))
        }
    }
}

/// What the three revisions of cuStreamGetCaptureInfo have in common.
struct InfoOut {
    status: *mut CUstreamCaptureStatus,
    id: *mut u64,
    graph: *mut CUgraph,
    nodes: *mut *const CUgraphNode,
    count: *mut usize,
}

/// # Safety
/// The places are null or valid for writes.
unsafe fn capture_info(gpu: &Cpu, stream: u64, out: InfoOut) -> Answer {
    let info = gpu.stream_capture_info(stream)?;
    let status = match &info {
        None => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE,
        Some(info) if info.valid => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE,
        Some(_) => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED,
    };
    // SAFETY: this function's promise.
    unsafe {
        put(out.status, status)?;
        if let Some(info) = info.filter(|info| info.valid) {
            put_if(out.id, info.id);
            put_if(out.graph, CUgraph(info.graph));
            put_if(out.count, info.dependencies.len());
            put_if(
                out.nodes,
                gpu.lent().dependencies(stream, info.dependencies),
            );
        }
    }
    Ok(())
}

const NOWHERE: InfoOut = InfoOut {
    status: std::ptr::null_mut(),
    id: std::ptr::null_mut(),
    graph: std::ptr::null_mut(),
    nodes: std::ptr::null_mut(),
    count: std::ptr::null_mut(),
};

/// Handles of nodes.
///
/// # Safety
/// `from` is null or points to `count` nodes.
unsafe fn handles(from: *const CUgraphNode, count: usize) -> Vec<u64> {
    // SAFETY: this function's promise.
    unsafe { list(from, count) }
        .iter()
        .map(|node| node.0)
        .collect()
}

per_thread_functions! { gpu, default, register_queries;
    fn cuStreamGetPriority | cuStreamGetPriority_ptsz(stream: CUstream, priority: *mut i32) {
        put(priority, gpu.stream_priority(pick(stream, default))?)
    }
    fn cuStreamGetFlags | cuStreamGetFlags_ptsz(stream: CUstream, flags: *mut u32) {
        put(flags, gpu.stream_flags(pick(stream, default))?)
    }
    fn cuStreamGetId | cuStreamGetId_ptsz(stream: CUstream, id: *mut u64) {
        put(id, gpu.stream_id(pick(stream, default))?)
    }
    fn cuStreamGetDevice | cuStreamGetDevice_ptsz(stream: CUstream, device: *mut CUdevice) {
        gpu.stream_id(pick(stream, default))?;
        put(device, 0)
    }
    fn cuStreamGetCtx | cuStreamGetCtx_ptsz(stream: CUstream, context: *mut CUcontext) {
        put(context, CUcontext(gpu.stream_context(pick(stream, default))?))
    }
    fn cuStreamWaitEvent | cuStreamWaitEvent_ptsz(stream: CUstream, event: CUevent, _flags: u32) {
        gpu.stream_wait_event(pick(stream, default), event.0)
    }
    fn cuStreamQuery | cuStreamQuery_ptsz(stream: CUstream) {
        gpu.stream_query(pick(stream, default))
    }
    fn cuStreamSynchronize | cuStreamSynchronize_ptsz(stream: CUstream) {
        gpu.stream_synchronize(pick(stream, default))
    }
    fn cuStreamAttachMemAsync | cuStreamAttachMemAsync_ptsz(stream: CUstream, address: CUdeviceptr, _length: usize, _flags: u32) {
        // Managed memory is always everyone's.
        gpu.stream_id(pick(stream, default))?;
        gpu.apart_from_strict_captures()?;
        gpu.pointer_info(address)
            .filter(|info| info.kind == AllocationKind::Managed)
            .map(drop)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
    fn cuStreamCopyAttributes | cuStreamCopyAttributes_ptsz(to: CUstream, from: CUstream) {
        gpu.stream_copy_attributes(pick(to, default), pick(from, default))
    }
    fn cuStreamSetAttribute | cuStreamSetAttribute_ptsz(stream: CUstream, attribute: CUstreamAttrID, value: *const CUstreamAttrValue) {
        let value = get(value.cast::<[u8; size_of::<CUstreamAttrValue>()]>())?;
        gpu.stream_set_attribute(pick(stream, default), attribute.0, value)
    }
    fn cuStreamGetAttribute | cuStreamGetAttribute_ptsz(stream: CUstream, attribute: CUstreamAttrID, value: *mut CUstreamAttrValue) {
        let stream = pick(stream, default);
        if let Some(set) = gpu.stream_attribute(stream, attribute.0)? {
            return put(value.cast::<[u8; size_of::<CUstreamAttrValue>()]>(), set);
        }
        let mut answer = CUstreamAttrValue::zeroed();
        if attribute == CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PRIORITY {
            answer.priority = gpu.stream_priority(stream)?;
        }
        put(value, answer)
    }
    fn cuStreamWriteValue32_v2 | cuStreamWriteValue32_v2_ptsz(stream: CUstream, address: CUdeviceptr, value: u32, _flags: u32) {
        gpu.stream_write_value(pick(stream, default), address, value.into(), false)
    }
    fn cuStreamWriteValue64_v2 | cuStreamWriteValue64_v2_ptsz(stream: CUstream, address: CUdeviceptr, value: u64, _flags: u32) {
        gpu.stream_write_value(pick(stream, default), address, value, true)
    }
    fn cuStreamWaitValue32_v2 | cuStreamWaitValue32_v2_ptsz(stream: CUstream, address: CUdeviceptr, value: u32, flags: u32) {
        gpu.stream_wait_value(pick(stream, default), address, value.into(), false, flags)
    }
    fn cuStreamWaitValue64_v2 | cuStreamWaitValue64_v2_ptsz(stream: CUstream, address: CUdeviceptr, value: u64, flags: u32) {
        gpu.stream_wait_value(pick(stream, default), address, value, true, flags)
    }
}

/// One operation of a batch.
///
/// # Safety
/// The union's members are those that its operation names.
unsafe fn memory_operation(gpu: &Device, stream: u64, p: &CUstreamBatchMemOpParams_v1) -> Answer {
    use CUstreamBatchMemOpType as T;
    // SAFETY: this function's promise; every member starts with the operation.
    unsafe {
        let (write, wait) = (p.writeValue, p.waitValue);
        let (written, waited) = (write.anonymous2, wait.anonymous2);
        match p.operation {
            T::CU_STREAM_MEM_OP_WRITE_VALUE_32 => {
                gpu.stream_write_value(stream, write.address, written.value.into(), false)
            }
            T::CU_STREAM_MEM_OP_WRITE_VALUE_64 => {
                gpu.stream_write_value(stream, write.address, written.value64, true)
            }
            T::CU_STREAM_MEM_OP_WAIT_VALUE_32 => {
                gpu.stream_wait_value(stream, wait.address, waited.value.into(), false, wait.flags)
            }
            T::CU_STREAM_MEM_OP_WAIT_VALUE_64 => {
                gpu.stream_wait_value(stream, wait.address, waited.value64, true, wait.flags)
            }
            // Order within a stream is complete here.
            T::CU_STREAM_MEM_OP_BARRIER | T::CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES => Ok(()),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
}

per_thread_functions! { gpu, default, register_batches;
    fn cuStreamBatchMemOp_v2 | cuStreamBatchMemOp_v2_ptsz(stream: CUstream, count: u32, operations: *mut CUstreamBatchMemOpParams, _flags: u32) {
        for operation in list(operations, count as usize) {
            memory_operation(gpu, pick(stream, default), operation)?;
        }
        Ok(())
    }
}

per_thread_functions! { gpu, default, register_capture;
    fn cuStreamBeginCapture | cuStreamBeginCapture_ptsz(stream: CUstream) {
        gpu.stream_begin_capture(pick(stream, default), 0)
    }
    fn cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz(stream: CUstream, mode: CUstreamCaptureMode) {
        gpu.stream_begin_capture(pick(stream, default), mode.0)
    }
    fn cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz(
        stream: CUstream, graph: CUgraph, after: *const CUgraphNode, _edges: *const CUgraphEdgeData, count: usize, mode: CUstreamCaptureMode,
    ) {
        gpu.stream_begin_capture_to(pick(stream, default), graph.0, handles(after, count), mode.0)
    }
    fn cuStreamEndCapture | cuStreamEndCapture_ptsz(stream: CUstream, graph: *mut CUgraph) {
        let ended = gpu.stream_end_capture(pick(stream, default));
        put_if(graph, CUgraph(*ended.as_ref().unwrap_or(&0)));
        ended.map(drop)
    }
    fn cuStreamIsCapturing | cuStreamIsCapturing_ptsz(stream: CUstream, status: *mut CUstreamCaptureStatus) {
        capture_info(gpu, pick(stream, default), InfoOut { status, ..NOWHERE })
    }
    fn cuStreamGetCaptureInfo | cuStreamGetCaptureInfo_ptsz(stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut u64) {
        capture_info(gpu, pick(stream, default), InfoOut { status, id, ..NOWHERE })
    }
    fn cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz(
        stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut u64, graph: *mut CUgraph, nodes: *mut *const CUgraphNode, count: *mut usize,
    ) {
        capture_info(gpu, pick(stream, default), InfoOut { status, id, graph, nodes, count })
    }
    fn cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz(
        stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut u64, graph: *mut CUgraph, nodes: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData, count: *mut usize,
    ) {
        put_if(edges, std::ptr::null());
        capture_info(gpu, pick(stream, default), InfoOut { status, id, graph, nodes, count })
    }
    fn cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz(stream: CUstream, nodes: *mut CUgraphNode, count: usize, flags: u32) {
        gpu.stream_set_dependencies(pick(stream, default), &handles(nodes, count), flags == 0)
    }
    fn cuStreamUpdateCaptureDependencies_v2 | cuStreamUpdateCaptureDependencies_v2_ptsz(
        stream: CUstream, nodes: *mut CUgraphNode, _edges: *const CUgraphEdgeData, count: usize, flags: u32,
    ) {
        gpu.stream_set_dependencies(pick(stream, default), &handles(nodes, count), flags == 0)
    }
}

/// Enters this file's functions into the table.
pub fn register(api: &mut driver::Api) {
    made::register(api);
    register_queries(api);
    register_batches(api);
    register_capture(api);
}
