//! From the runtime's argument structs to the driver's.

use crate::generated::types::*;
use driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUarray, CUcontext, CUfunction,
    CUkernel, CUmemorytype,
};
use std::ffi::c_void;

/// Structs that are passed on by pointer must be laid out as the driver's.
macro_rules! alike {
    ($($runtime:ident = $driver:ident { $($field:ident = $other:ident),* })*) => {
        $(const _: () = {
            use driver::sys::$driver;
            assert!(size_of::<$runtime>() == size_of::<$driver>());
            assert!(align_of::<$runtime>() == align_of::<$driver>());
            $(assert!(std::mem::offset_of!($runtime, $field) == std::mem::offset_of!($driver, $other));)*
        };)*
    };
}

alike! {
    cudaMemPoolProps = CUmemPoolProps { allocType = allocType, handleTypes = handleTypes, location = location, maxSize = maxSize }
    cudaMemAccessDesc = CUmemAccessDesc { location = location, flags = flags }
    cudaMemLocation = CUmemLocation { r#type = type_, id = id }
    cudaMemAllocNodeParams = CUDA_MEM_ALLOC_NODE_PARAMS { poolProps = poolProps, accessDescs = accessDescs, bytesize = bytesize, dptr = dptr }
    cudaMemAllocNodeParamsV2 = CUDA_MEM_ALLOC_NODE_PARAMS_v2 { poolProps = poolProps, accessDescs = accessDescs, bytesize = bytesize, dptr = dptr }
    cudaGraphEdgeData = CUgraphEdgeData { from_port = from_port, to_port = to_port, r#type = type_ }
    cudaGraphInstantiateParams = CUDA_GRAPH_INSTANTIATE_PARAMS { flags = flags, uploadStream = hUploadStream, errNode_out = hErrNode_out, result_out = result_out }
    cudaLaunchAttribute = CUlaunchAttribute { id = id, val = value }
    cudaLaunchAttributeValue = CUlaunchAttributeValue {}
    cudaMemcpyAttributes = CUmemcpyAttributes { srcAccessOrder = srcAccessOrder, srcLocHint = srcLocHint, dstLocHint = dstLocHint, flags = flags }
    cudaMemcpy3DBatchOp = CUDA_MEMCPY3D_BATCH_OP { src = src, dst = dst, extent = extent, srcAccessOrder = srcAccessOrder, flags = flags }
    cudaMemPoolPtrExportData = CUmemPoolPtrExportData {}
    cudaIpcMemHandle_t = CUipcMemHandle {}
    cudaIpcEventHandle_t = CUipcEventHandle {}
}

/// A pointer as the driver's device address.
pub(crate) fn address<T>(pointer: *const T) -> u64 {
    pointer as usize as u64
}

/// A device address as the program's pointer.
pub(crate) fn pointer(address: u64) -> *mut c_void {
    address as usize as *mut c_void
}

/// What the driver calls the memory on both sides of a copy: source, destination.
pub(crate) fn sides(kind: cudaMemcpyKind) -> Result<(CUmemorytype, CUmemorytype), cudaError_t> {
    const HOST: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_HOST;
    const DEVICE: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    const EITHER: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_UNIFIED;
    Ok(match kind {
        cudaMemcpyKind::cudaMemcpyHostToHost => (HOST, HOST),
        cudaMemcpyKind::cudaMemcpyHostToDevice => (HOST, DEVICE),
        cudaMemcpyKind::cudaMemcpyDeviceToHost => (DEVICE, HOST),
        cudaMemcpyKind::cudaMemcpyDeviceToDevice => (DEVICE, DEVICE),
        cudaMemcpyKind::cudaMemcpyDefault => (EITHER, EITHER),
        _ => return Err(cudaError_t::cudaErrorInvalidMemcpyDirection),
    })
}

/// One side of a 2-D copy.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    /// Rows `pitch` bytes apart.
    Linear {
        pointer: *const c_void,
        pitch: usize,
    },
    /// An array from this byte of this row on.
    Array { array: CUarray, x: usize, y: usize },
}

/// A 2-D copy in the driver's form. Width in bytes.
pub(crate) fn copy_2d(
    dst: Side,
    src: Side,
    width: usize,
    height: usize,
    kind: cudaMemcpyKind,
) -> Result<CUDA_MEMCPY2D, cudaError_t> {
    let (src_type, dst_type) = sides(kind)?;
    let mut copy = CUDA_MEMCPY2D {
        WidthInBytes: width,
        Height: height,
        ..CUDA_MEMCPY2D::zeroed()
    };
    match src {
        Side::Linear { pitch, .. } if width > pitch => {
            return Err(cudaError_t::cudaErrorInvalidPitchValue);
        }
        Side::Linear { pointer, pitch } => {
            copy.srcMemoryType = src_type;
            copy.srcPitch = pitch;
            if src_type == CUmemorytype::CU_MEMORYTYPE_HOST {
                copy.srcHost = pointer;
            } else {
                copy.srcDevice = address(pointer);
            }
        }
        Side::Array { array, x, y } => {
            copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
            copy.srcArray = array;
            copy.srcXInBytes = x;
            copy.srcY = y;
        }
    }
    match dst {
        Side::Linear { pitch, .. } if width > pitch => {
            return Err(cudaError_t::cudaErrorInvalidPitchValue);
        }
        Side::Linear { pointer, pitch } => {
            copy.dstMemoryType = dst_type;
            copy.dstPitch = pitch;
            if dst_type == CUmemorytype::CU_MEMORYTYPE_HOST {
                copy.dstHost = pointer.cast_mut();
            } else {
                copy.dstDevice = address(pointer);
            }
        }
        Side::Array { array, x, y } => {
            copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
            copy.dstArray = array;
            copy.dstXInBytes = x;
            copy.dstY = y;
        }
    }
    Ok(copy)
}

/// A 3-D copy in the driver's form. `element` gives the bytes of an array's
/// element: with an array on either side, widths count elements, otherwise
/// bytes (CUDA runtime reference, cudaMemcpy3D).
pub(crate) fn copy_3d(
    parms: &cudaMemcpy3DParms,
    element: &dyn Fn(CUarray) -> Result<usize, cudaError_t>,
) -> Result<CUDA_MEMCPY3D, cudaError_t> {
    let (src_type, dst_type) = sides(parms.kind)?;
    let has = |array: CUarray| array != CUarray::NULL;
    // Each side is an array or a pointer, not both and not neither.
    if has(parms.srcArray) != parms.srcPtr.ptr.is_null()
        || has(parms.dstArray) != parms.dstPtr.ptr.is_null()
    {
        return Err(cudaError_t::cudaErrorInvalidValue);
    }
    let src_element = if has(parms.srcArray) {
        element(parms.srcArray)?
    } else {
        1
    };
    let dst_element = if has(parms.dstArray) {
        element(parms.dstArray)?
    } else {
        1
    };
    let scale = src_element.max(dst_element);
    let bytes = |count: usize, element: usize| {
        count
            .checked_mul(element)
            .ok_or(cudaError_t::cudaErrorInvalidValue)
    };
    let mut copy = CUDA_MEMCPY3D {
        srcXInBytes: bytes(parms.srcPos.x, src_element)?,
        srcY: parms.srcPos.y,
        srcZ: parms.srcPos.z,
        dstXInBytes: bytes(parms.dstPos.x, dst_element)?,
        dstY: parms.dstPos.y,
        dstZ: parms.dstPos.z,
        WidthInBytes: bytes(parms.extent.width, scale)?,
        Height: parms.extent.height,
        Depth: parms.extent.depth,
        ..CUDA_MEMCPY3D::zeroed()
    };
    let width = copy.WidthInBytes;
    if has(parms.srcArray) {
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
        copy.srcArray = parms.srcArray;
    } else {
        if width > parms.srcPtr.pitch {
            return Err(cudaError_t::cudaErrorInvalidPitchValue);
        }
        copy.srcMemoryType = src_type;
        copy.srcPitch = parms.srcPtr.pitch;
        copy.srcHeight = parms.srcPtr.ysize;
        if src_type == CUmemorytype::CU_MEMORYTYPE_HOST {
            copy.srcHost = parms.srcPtr.ptr;
        } else {
            copy.srcDevice = address(parms.srcPtr.ptr);
        }
    }
    if has(parms.dstArray) {
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
        copy.dstArray = parms.dstArray;
    } else {
        if width > parms.dstPtr.pitch {
            return Err(cudaError_t::cudaErrorInvalidPitchValue);
        }
        copy.dstMemoryType = dst_type;
        copy.dstPitch = parms.dstPtr.pitch;
        copy.dstHeight = parms.dstPtr.ysize;
        if dst_type == CUmemorytype::CU_MEMORYTYPE_HOST {
            copy.dstHost = parms.dstPtr.ptr;
        } else {
            copy.dstDevice = address(parms.dstPtr.ptr);
        }
    }
    Ok(copy)
}

/// A kernel node in the driver's form.
pub(crate) fn kernel_node(
    params: &cudaKernelNodeParams,
    kernel: CUkernel,
) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: CUfunction::NULL,
        gridDimX: params.gridDim.x,
        gridDimY: params.gridDim.y,
        gridDimZ: params.gridDim.z,
        blockDimX: params.blockDim.x,
        blockDimY: params.blockDim.y,
        blockDimZ: params.blockDim.z,
        sharedMemBytes: params.sharedMemBytes,
        kernelParams: params.kernelParams,
        extra: params.extra,
        kern: kernel,
        ctx: CUcontext::NULL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_arrays(_: CUarray) -> Result<usize, cudaError_t> {
        Err(cudaError_t::cudaErrorInvalidResourceHandle)
    }

    fn pitched(address: usize, pitch: usize, ysize: usize) -> cudaPitchedPtr {
        cudaPitchedPtr {
            ptr: pointer(address as u64),
            pitch,
            xsize: pitch,
            ysize,
        }
    }

    fn parms() -> cudaMemcpy3DParms {
        cudaMemcpy3DParms {
            srcArray: CUarray::NULL,
            srcPos: cudaPos { x: 4, y: 1, z: 2 },
            srcPtr: pitched(0x1000, 64, 8),
            dstArray: CUarray::NULL,
            dstPos: cudaPos { x: 0, y: 0, z: 0 },
            dstPtr: pitched(0x9000, 128, 16),
            extent: cudaExtent {
                width: 60,
                height: 7,
                depth: 3,
            },
            kind: cudaMemcpyKind::cudaMemcpyHostToDevice,
        }
    }

    #[test]
    fn a_3d_copy_between_pointers() {
        let copy = copy_3d(&parms(), &no_arrays).unwrap();
        assert_eq!((copy.srcXInBytes, copy.srcY, copy.srcZ), (4, 1, 2));
        assert_eq!(
            (copy.srcPitch, copy.srcHeight, copy.srcHost as usize),
            (64, 8, 0x1000)
        );
        assert_eq!(
            (copy.dstPitch, copy.dstHeight, copy.dstDevice),
            (128, 16, 0x9000)
        );
        assert_eq!((copy.WidthInBytes, copy.Height, copy.Depth), (60, 7, 3));
        assert_eq!(copy.srcMemoryType, CUmemorytype::CU_MEMORYTYPE_HOST);
        assert_eq!(copy.dstMemoryType, CUmemorytype::CU_MEMORYTYPE_DEVICE);
    }

    #[test]
    fn with_an_array_widths_count_elements() {
        let mut parms = parms();
        parms.dstArray = CUarray(7);
        parms.dstPtr.ptr = std::ptr::null_mut();
        parms.dstPos.x = 3;
        parms.extent.width = 10;
        let copy = copy_3d(&parms, &|_| Ok(4)).unwrap();
        assert_eq!(
            (copy.WidthInBytes, copy.dstXInBytes, copy.srcXInBytes),
            (40, 12, 4)
        );
        assert_eq!(copy.dstMemoryType, CUmemorytype::CU_MEMORYTYPE_ARRAY);
    }

    #[test]
    fn refuses_what_the_runtime_refuses() {
        let mut both = parms();
        both.srcArray = CUarray(7);
        assert_eq!(
            copy_3d(&both, &|_| Ok(4)).err(),
            Some(cudaError_t::cudaErrorInvalidValue)
        );
        let mut wide = parms();
        wide.extent.width = 65;
        assert_eq!(
            copy_3d(&wide, &no_arrays).err(),
            Some(cudaError_t::cudaErrorInvalidPitchValue)
        );
        let mut kind = parms();
        kind.kind = cudaMemcpyKind(9);
        assert_eq!(
            copy_3d(&kind, &no_arrays).err(),
            Some(cudaError_t::cudaErrorInvalidMemcpyDirection)
        );
    }
}
