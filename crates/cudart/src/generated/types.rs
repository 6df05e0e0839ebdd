// Written by `cargo xtask generate` from the CUDA 13.0 toolchain; do not edit.
//! Types of the CUDA runtime API (cuda_runtime_api.h, driver_types.h). Sizes and
//! offsets are the C compiler's, asserted below each type.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all
)]

use std::ffi::{c_char, c_void};

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaRoundMode(pub u32);
impl cudaRoundMode {
    pub const cudaRoundNearest: Self = Self(0);
    pub const cudaRoundZero: Self = Self(1);
    pub const cudaRoundPosInf: Self = Self(2);
    pub const cudaRoundMinInf: Self = Self(3);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct uint3 {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}
const _: () = assert!(size_of::<uint3>() == 12 && align_of::<uint3>() == 4);
const _: () = assert!(std::mem::offset_of!(uint3, x) == 0);
const _: () = assert!(std::mem::offset_of!(uint3, y) == 4);
const _: () = assert!(std::mem::offset_of!(uint3, z) == 8);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct dim3 {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}
const _: () = assert!(size_of::<dim3>() == 12 && align_of::<dim3>() == 4);
const _: () = assert!(std::mem::offset_of!(dim3, x) == 0);
const _: () = assert!(std::mem::offset_of!(dim3, y) == 4);
const _: () = assert!(std::mem::offset_of!(dim3, z) == 8);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaError(pub u32);
impl cudaError {
    pub const cudaSuccess: Self = Self(0);
    pub const cudaErrorInvalidValue: Self = Self(1);
    pub const cudaErrorMemoryAllocation: Self = Self(2);
    pub const cudaErrorInitializationError: Self = Self(3);
    pub const cudaErrorCudartUnloading: Self = Self(4);
    pub const cudaErrorProfilerDisabled: Self = Self(5);
    pub const cudaErrorProfilerNotInitialized: Self = Self(6);
    pub const cudaErrorProfilerAlreadyStarted: Self = Self(7);
    pub const cudaErrorProfilerAlreadyStopped: Self = Self(8);
    pub const cudaErrorInvalidConfiguration: Self = Self(9);
    pub const cudaErrorInvalidPitchValue: Self = Self(12);
    pub const cudaErrorInvalidSymbol: Self = Self(13);
    pub const cudaErrorInvalidHostPointer: Self = Self(16);
    pub const cudaErrorInvalidDevicePointer: Self = Self(17);
    pub const cudaErrorInvalidTexture: Self = Self(18);
    pub const cudaErrorInvalidTextureBinding: Self = Self(19);
    pub const cudaErrorInvalidChannelDescriptor: Self = Self(20);
    pub const cudaErrorInvalidMemcpyDirection: Self = Self(21);
    pub const cudaErrorAddressOfConstant: Self = Self(22);
    pub const cudaErrorTextureFetchFailed: Self = Self(23);
    pub const cudaErrorTextureNotBound: Self = Self(24);
    pub const cudaErrorSynchronizationError: Self = Self(25);
    pub const cudaErrorInvalidFilterSetting: Self = Self(26);
    pub const cudaErrorInvalidNormSetting: Self = Self(27);
    pub const cudaErrorMixedDeviceExecution: Self = Self(28);
    pub const cudaErrorNotYetImplemented: Self = Self(31);
    pub const cudaErrorMemoryValueTooLarge: Self = Self(32);
    pub const cudaErrorStubLibrary: Self = Self(34);
    pub const cudaErrorInsufficientDriver: Self = Self(35);
    pub const cudaErrorCallRequiresNewerDriver: Self = Self(36);
    pub const cudaErrorInvalidSurface: Self = Self(37);
    pub const cudaErrorDuplicateVariableName: Self = Self(43);
    pub const cudaErrorDuplicateTextureName: Self = Self(44);
    pub const cudaErrorDuplicateSurfaceName: Self = Self(45);
    pub const cudaErrorDevicesUnavailable: Self = Self(46);
    pub const cudaErrorIncompatibleDriverContext: Self = Self(49);
    pub const cudaErrorMissingConfiguration: Self = Self(52);
    pub const cudaErrorPriorLaunchFailure: Self = Self(53);
    pub const cudaErrorLaunchMaxDepthExceeded: Self = Self(65);
    pub const cudaErrorLaunchFileScopedTex: Self = Self(66);
    pub const cudaErrorLaunchFileScopedSurf: Self = Self(67);
    pub const cudaErrorSyncDepthExceeded: Self = Self(68);
    pub const cudaErrorLaunchPendingCountExceeded: Self = Self(69);
    pub const cudaErrorInvalidDeviceFunction: Self = Self(98);
    pub const cudaErrorNoDevice: Self = Self(100);
    pub const cudaErrorInvalidDevice: Self = Self(101);
    pub const cudaErrorDeviceNotLicensed: Self = Self(102);
    pub const cudaErrorSoftwareValidityNotEstablished: Self = Self(103);
    pub const cudaErrorStartupFailure: Self = Self(127);
    pub const cudaErrorInvalidKernelImage: Self = Self(200);
    pub const cudaErrorDeviceUninitialized: Self = Self(201);
    pub const cudaErrorMapBufferObjectFailed: Self = Self(205);
    pub const cudaErrorUnmapBufferObjectFailed: Self = Self(206);
    pub const cudaErrorArrayIsMapped: Self = Self(207);
    pub const cudaErrorAlreadyMapped: Self = Self(208);
    pub const cudaErrorNoKernelImageForDevice: Self = Self(209);
    pub const cudaErrorAlreadyAcquired: Self = Self(210);
    pub const cudaErrorNotMapped: Self = Self(211);
    pub const cudaErrorNotMappedAsArray: Self = Self(212);
    pub const cudaErrorNotMappedAsPointer: Self = Self(213);
    pub const cudaErrorECCUncorrectable: Self = Self(214);
    pub const cudaErrorUnsupportedLimit: Self = Self(215);
    pub const cudaErrorDeviceAlreadyInUse: Self = Self(216);
    pub const cudaErrorPeerAccessUnsupported: Self = Self(217);
    pub const cudaErrorInvalidPtx: Self = Self(218);
    pub const cudaErrorInvalidGraphicsContext: Self = Self(219);
    pub const cudaErrorNvlinkUncorrectable: Self = Self(220);
    pub const cudaErrorJitCompilerNotFound: Self = Self(221);
    pub const cudaErrorUnsupportedPtxVersion: Self = Self(222);
    pub const cudaErrorJitCompilationDisabled: Self = Self(223);
    pub const cudaErrorUnsupportedExecAffinity: Self = Self(224);
    pub const cudaErrorUnsupportedDevSideSync: Self = Self(225);
    pub const cudaErrorContained: Self = Self(226);
    pub const cudaErrorInvalidSource: Self = Self(300);
    pub const cudaErrorFileNotFound: Self = Self(301);
    pub const cudaErrorSharedObjectSymbolNotFound: Self = Self(302);
    pub const cudaErrorSharedObjectInitFailed: Self = Self(303);
    pub const cudaErrorOperatingSystem: Self = Self(304);
    pub const cudaErrorInvalidResourceHandle: Self = Self(400);
    pub const cudaErrorIllegalState: Self = Self(401);
    pub const cudaErrorLossyQuery: Self = Self(402);
    pub const cudaErrorSymbolNotFound: Self = Self(500);
    pub const cudaErrorNotReady: Self = Self(600);
    pub const cudaErrorIllegalAddress: Self = Self(700);
    pub const cudaErrorLaunchOutOfResources: Self = Self(701);
    pub const cudaErrorLaunchTimeout: Self = Self(702);
    pub const cudaErrorLaunchIncompatibleTexturing: Self = Self(703);
    pub const cudaErrorPeerAccessAlreadyEnabled: Self = Self(704);
    pub const cudaErrorPeerAccessNotEnabled: Self = Self(705);
    pub const cudaErrorSetOnActiveProcess: Self = Self(708);
    pub const cudaErrorContextIsDestroyed: Self = Self(709);
    pub const cudaErrorAssert: Self = Self(710);
    pub const cudaErrorTooManyPeers: Self = Self(711);
    pub const cudaErrorHostMemoryAlreadyRegistered: Self = Self(712);
    pub const cudaErrorHostMemoryNotRegistered: Self = Self(713);
    pub const cudaErrorHardwareStackError: Self = Self(714);
    pub const cudaErrorIllegalInstruction: Self = Self(715);
    pub const cudaErrorMisalignedAddress: Self = Self(716);
    pub const cudaErrorInvalidAddressSpace: Self = Self(717);
    pub const cudaErrorInvalidPc: Self = Self(718);
    pub const cudaErrorLaunchFailure: Self = Self(719);
    pub const cudaErrorCooperativeLaunchTooLarge: Self = Self(720);
    pub const cudaErrorTensorMemoryLeak: Self = Self(721);
    pub const cudaErrorNotPermitted: Self = Self(800);
    pub const cudaErrorNotSupported: Self = Self(801);
    pub const cudaErrorSystemNotReady: Self = Self(802);
    pub const cudaErrorSystemDriverMismatch: Self = Self(803);
    pub const cudaErrorCompatNotSupportedOnDevice: Self = Self(804);
    pub const cudaErrorMpsConnectionFailed: Self = Self(805);
    pub const cudaErrorMpsRpcFailure: Self = Self(806);
    pub const cudaErrorMpsServerNotReady: Self = Self(807);
    pub const cudaErrorMpsMaxClientsReached: Self = Self(808);
    pub const cudaErrorMpsMaxConnectionsReached: Self = Self(809);
    pub const cudaErrorMpsClientTerminated: Self = Self(810);
    pub const cudaErrorCdpNotSupported: Self = Self(811);
    pub const cudaErrorCdpVersionMismatch: Self = Self(812);
    pub const cudaErrorStreamCaptureUnsupported: Self = Self(900);
    pub const cudaErrorStreamCaptureInvalidated: Self = Self(901);
    pub const cudaErrorStreamCaptureMerge: Self = Self(902);
    pub const cudaErrorStreamCaptureUnmatched: Self = Self(903);
    pub const cudaErrorStreamCaptureUnjoined: Self = Self(904);
    pub const cudaErrorStreamCaptureIsolation: Self = Self(905);
    pub const cudaErrorStreamCaptureImplicit: Self = Self(906);
    pub const cudaErrorCapturedEvent: Self = Self(907);
    pub const cudaErrorStreamCaptureWrongThread: Self = Self(908);
    pub const cudaErrorTimeout: Self = Self(909);
    pub const cudaErrorGraphExecUpdateFailure: Self = Self(910);
    pub const cudaErrorExternalDevice: Self = Self(911);
    pub const cudaErrorInvalidClusterSize: Self = Self(912);
    pub const cudaErrorFunctionNotLoaded: Self = Self(913);
    pub const cudaErrorInvalidResourceType: Self = Self(914);
    pub const cudaErrorInvalidResourceConfiguration: Self = Self(915);
    pub const cudaErrorUnknown: Self = Self(999);
    pub const cudaErrorApiFailureBase: Self = Self(10000);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaChannelFormatKind(pub u32);
impl cudaChannelFormatKind {
    pub const cudaChannelFormatKindSigned: Self = Self(0);
    pub const cudaChannelFormatKindUnsigned: Self = Self(1);
    pub const cudaChannelFormatKindFloat: Self = Self(2);
    pub const cudaChannelFormatKindNone: Self = Self(3);
    pub const cudaChannelFormatKindNV12: Self = Self(4);
    pub const cudaChannelFormatKindUnsignedNormalized8X1: Self = Self(5);
    pub const cudaChannelFormatKindUnsignedNormalized8X2: Self = Self(6);
    pub const cudaChannelFormatKindUnsignedNormalized8X4: Self = Self(7);
    pub const cudaChannelFormatKindUnsignedNormalized16X1: Self = Self(8);
    pub const cudaChannelFormatKindUnsignedNormalized16X2: Self = Self(9);
    pub const cudaChannelFormatKindUnsignedNormalized16X4: Self = Self(10);
    pub const cudaChannelFormatKindSignedNormalized8X1: Self = Self(11);
    pub const cudaChannelFormatKindSignedNormalized8X2: Self = Self(12);
    pub const cudaChannelFormatKindSignedNormalized8X4: Self = Self(13);
    pub const cudaChannelFormatKindSignedNormalized16X1: Self = Self(14);
    pub const cudaChannelFormatKindSignedNormalized16X2: Self = Self(15);
    pub const cudaChannelFormatKindSignedNormalized16X4: Self = Self(16);
    pub const cudaChannelFormatKindUnsignedBlockCompressed1: Self = Self(17);
    pub const cudaChannelFormatKindUnsignedBlockCompressed1SRGB: Self = Self(18);
    pub const cudaChannelFormatKindUnsignedBlockCompressed2: Self = Self(19);
    pub const cudaChannelFormatKindUnsignedBlockCompressed2SRGB: Self = Self(20);
    pub const cudaChannelFormatKindUnsignedBlockCompressed3: Self = Self(21);
    pub const cudaChannelFormatKindUnsignedBlockCompressed3SRGB: Self = Self(22);
    pub const cudaChannelFormatKindUnsignedBlockCompressed4: Self = Self(23);
    pub const cudaChannelFormatKindSignedBlockCompressed4: Self = Self(24);
    pub const cudaChannelFormatKindUnsignedBlockCompressed5: Self = Self(25);
    pub const cudaChannelFormatKindSignedBlockCompressed5: Self = Self(26);
    pub const cudaChannelFormatKindUnsignedBlockCompressed6H: Self = Self(27);
    pub const cudaChannelFormatKindSignedBlockCompressed6H: Self = Self(28);
    pub const cudaChannelFormatKindUnsignedBlockCompressed7: Self = Self(29);
    pub const cudaChannelFormatKindUnsignedBlockCompressed7SRGB: Self = Self(30);
    pub const cudaChannelFormatKindUnsignedNormalized1010102: Self = Self(31);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaChannelFormatDesc {
    pub x: i32,
    pub y: i32,
    pub z: i32,
    pub w: i32,
    pub f: cudaChannelFormatKind,
}
const _: () = assert!(size_of::<cudaChannelFormatDesc>() == 20 && align_of::<cudaChannelFormatDesc>() == 4);
const _: () = assert!(std::mem::offset_of!(cudaChannelFormatDesc, x) == 0);
const _: () = assert!(std::mem::offset_of!(cudaChannelFormatDesc, y) == 4);
const _: () = assert!(std::mem::offset_of!(cudaChannelFormatDesc, z) == 8);
const _: () = assert!(std::mem::offset_of!(cudaChannelFormatDesc, w) == 12);
const _: () = assert!(std::mem::offset_of!(cudaChannelFormatDesc, f) == 16);

pub type cudaArray_t = driver::sys::CUarray;

pub type cudaArray_const_t = driver::sys::CUarray;

pub type cudaMipmappedArray_t = driver::sys::CUmipmappedArray;

pub type cudaMipmappedArray_const_t = driver::sys::CUmipmappedArray;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaArraySparseProperties_tileExtent {
    pub width: u32,
    pub height: u32,
    pub depth: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaArraySparseProperties {
    pub tileExtent: cudaArraySparseProperties_tileExtent,
    pub miptailFirstLevel: u32,
    pub miptailSize: u64,
    pub flags: u32,
    pub reserved: [u32; 4],
}
const _: () = assert!(size_of::<cudaArraySparseProperties>() == 48 && align_of::<cudaArraySparseProperties>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaArraySparseProperties, tileExtent) == 0);
const _: () = assert!(std::mem::offset_of!(cudaArraySparseProperties, miptailFirstLevel) == 12);
const _: () = assert!(std::mem::offset_of!(cudaArraySparseProperties, miptailSize) == 16);
const _: () = assert!(std::mem::offset_of!(cudaArraySparseProperties, flags) == 24);
const _: () = assert!(std::mem::offset_of!(cudaArraySparseProperties, reserved) == 28);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaArrayMemoryRequirements {
    pub size: usize,
    pub alignment: usize,
    pub reserved: [u32; 4],
}
const _: () = assert!(size_of::<cudaArrayMemoryRequirements>() == 32 && align_of::<cudaArrayMemoryRequirements>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaArrayMemoryRequirements, size) == 0);
const _: () = assert!(std::mem::offset_of!(cudaArrayMemoryRequirements, alignment) == 8);
const _: () = assert!(std::mem::offset_of!(cudaArrayMemoryRequirements, reserved) == 16);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemoryType(pub u32);
impl cudaMemoryType {
    pub const cudaMemoryTypeUnregistered: Self = Self(0);
    pub const cudaMemoryTypeHost: Self = Self(1);
    pub const cudaMemoryTypeDevice: Self = Self(2);
    pub const cudaMemoryTypeManaged: Self = Self(3);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemcpyKind(pub u32);
impl cudaMemcpyKind {
    pub const cudaMemcpyHostToHost: Self = Self(0);
    pub const cudaMemcpyHostToDevice: Self = Self(1);
    pub const cudaMemcpyDeviceToHost: Self = Self(2);
    pub const cudaMemcpyDeviceToDevice: Self = Self(3);
    pub const cudaMemcpyDefault: Self = Self(4);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaPitchedPtr {
    pub ptr: *mut c_void,
    pub pitch: usize,
    pub xsize: usize,
    pub ysize: usize,
}
const _: () = assert!(size_of::<cudaPitchedPtr>() == 32 && align_of::<cudaPitchedPtr>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaPitchedPtr, ptr) == 0);
const _: () = assert!(std::mem::offset_of!(cudaPitchedPtr, pitch) == 8);
const _: () = assert!(std::mem::offset_of!(cudaPitchedPtr, xsize) == 16);
const _: () = assert!(std::mem::offset_of!(cudaPitchedPtr, ysize) == 24);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExtent {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}
const _: () = assert!(size_of::<cudaExtent>() == 24 && align_of::<cudaExtent>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaExtent, width) == 0);
const _: () = assert!(std::mem::offset_of!(cudaExtent, height) == 8);
const _: () = assert!(std::mem::offset_of!(cudaExtent, depth) == 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaPos {
    pub x: usize,
    pub y: usize,
    pub z: usize,
}
const _: () = assert!(size_of::<cudaPos>() == 24 && align_of::<cudaPos>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaPos, x) == 0);
const _: () = assert!(std::mem::offset_of!(cudaPos, y) == 8);
const _: () = assert!(std::mem::offset_of!(cudaPos, z) == 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemcpy3DParms {
    pub srcArray: cudaArray_t,
    pub srcPos: cudaPos,
    pub srcPtr: cudaPitchedPtr,
    pub dstArray: cudaArray_t,
    pub dstPos: cudaPos,
    pub dstPtr: cudaPitchedPtr,
    pub extent: cudaExtent,
    pub kind: cudaMemcpyKind,
}
const _: () = assert!(size_of::<cudaMemcpy3DParms>() == 160 && align_of::<cudaMemcpy3DParms>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DParms, srcArray) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DParms, srcPos) == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DParms, srcPtr) == 32);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DParms, dstArray) == 64);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DParms, dstPos) == 72);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DParms, dstPtr) == 96);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DParms, extent) == 128);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DParms, kind) == 152);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemcpyNodeParams {
    pub flags: i32,
    pub reserved: [i32; 3],
    pub copyParams: cudaMemcpy3DParms,
}
const _: () = assert!(size_of::<cudaMemcpyNodeParams>() == 176 && align_of::<cudaMemcpyNodeParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemcpyNodeParams, flags) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemcpyNodeParams, reserved) == 4);
const _: () = assert!(std::mem::offset_of!(cudaMemcpyNodeParams, copyParams) == 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemcpy3DPeerParms {
    pub srcArray: cudaArray_t,
    pub srcPos: cudaPos,
    pub srcPtr: cudaPitchedPtr,
    pub srcDevice: i32,
    pub dstArray: cudaArray_t,
    pub dstPos: cudaPos,
    pub dstPtr: cudaPitchedPtr,
    pub dstDevice: i32,
    pub extent: cudaExtent,
}
const _: () = assert!(size_of::<cudaMemcpy3DPeerParms>() == 168 && align_of::<cudaMemcpy3DPeerParms>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DPeerParms, srcArray) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DPeerParms, srcPos) == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DPeerParms, srcPtr) == 32);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DPeerParms, srcDevice) == 64);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DPeerParms, dstArray) == 72);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DPeerParms, dstPos) == 80);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DPeerParms, dstPtr) == 104);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DPeerParms, dstDevice) == 136);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DPeerParms, extent) == 144);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemsetParams {
    pub dst: *mut c_void,
    pub pitch: usize,
    pub value: u32,
    pub elementSize: u32,
    pub width: usize,
    pub height: usize,
}
const _: () = assert!(size_of::<cudaMemsetParams>() == 40 && align_of::<cudaMemsetParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParams, dst) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParams, pitch) == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParams, value) == 16);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParams, elementSize) == 20);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParams, width) == 24);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParams, height) == 32);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemsetParamsV2 {
    pub dst: *mut c_void,
    pub pitch: usize,
    pub value: u32,
    pub elementSize: u32,
    pub width: usize,
    pub height: usize,
}
const _: () = assert!(size_of::<cudaMemsetParamsV2>() == 40 && align_of::<cudaMemsetParamsV2>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParamsV2, dst) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParamsV2, pitch) == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParamsV2, value) == 16);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParamsV2, elementSize) == 20);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParamsV2, width) == 24);
const _: () = assert!(std::mem::offset_of!(cudaMemsetParamsV2, height) == 32);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaAccessProperty(pub u32);
impl cudaAccessProperty {
    pub const cudaAccessPropertyNormal: Self = Self(0);
    pub const cudaAccessPropertyStreaming: Self = Self(1);
    pub const cudaAccessPropertyPersisting: Self = Self(2);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaAccessPolicyWindow {
    pub base_ptr: *mut c_void,
    pub num_bytes: usize,
    pub hitRatio: f32,
    pub hitProp: cudaAccessProperty,
    pub missProp: cudaAccessProperty,
}
const _: () = assert!(size_of::<cudaAccessPolicyWindow>() == 32 && align_of::<cudaAccessPolicyWindow>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaAccessPolicyWindow, base_ptr) == 0);
const _: () = assert!(std::mem::offset_of!(cudaAccessPolicyWindow, num_bytes) == 8);
const _: () = assert!(std::mem::offset_of!(cudaAccessPolicyWindow, hitRatio) == 16);
const _: () = assert!(std::mem::offset_of!(cudaAccessPolicyWindow, hitProp) == 20);
const _: () = assert!(std::mem::offset_of!(cudaAccessPolicyWindow, missProp) == 24);

pub type cudaHostFn_t = Option<unsafe extern "C" fn(*mut c_void)>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaHostNodeParams {
    pub r#fn: cudaHostFn_t,
    pub userData: *mut c_void,
}
const _: () = assert!(size_of::<cudaHostNodeParams>() == 16 && align_of::<cudaHostNodeParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaHostNodeParams, r#fn) == 0);
const _: () = assert!(std::mem::offset_of!(cudaHostNodeParams, userData) == 8);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaHostNodeParamsV2 {
    pub r#fn: cudaHostFn_t,
    pub userData: *mut c_void,
}
const _: () = assert!(size_of::<cudaHostNodeParamsV2>() == 16 && align_of::<cudaHostNodeParamsV2>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaHostNodeParamsV2, r#fn) == 0);
const _: () = assert!(std::mem::offset_of!(cudaHostNodeParamsV2, userData) == 8);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaStreamCaptureStatus(pub u32);
impl cudaStreamCaptureStatus {
    pub const cudaStreamCaptureStatusNone: Self = Self(0);
    pub const cudaStreamCaptureStatusActive: Self = Self(1);
    pub const cudaStreamCaptureStatusInvalidated: Self = Self(2);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaStreamCaptureMode(pub u32);
impl cudaStreamCaptureMode {
    pub const cudaStreamCaptureModeGlobal: Self = Self(0);
    pub const cudaStreamCaptureModeThreadLocal: Self = Self(1);
    pub const cudaStreamCaptureModeRelaxed: Self = Self(2);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaSynchronizationPolicy(pub u32);
impl cudaSynchronizationPolicy {
    pub const cudaSyncPolicyAuto: Self = Self(1);
    pub const cudaSyncPolicySpin: Self = Self(2);
    pub const cudaSyncPolicyYield: Self = Self(3);
    pub const cudaSyncPolicyBlockingSync: Self = Self(4);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaClusterSchedulingPolicy(pub u32);
impl cudaClusterSchedulingPolicy {
    pub const cudaClusterSchedulingPolicyDefault: Self = Self(0);
    pub const cudaClusterSchedulingPolicySpread: Self = Self(1);
    pub const cudaClusterSchedulingPolicyLoadBalancing: Self = Self(2);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaStreamUpdateCaptureDependenciesFlags(pub u32);
impl cudaStreamUpdateCaptureDependenciesFlags {
    pub const cudaStreamAddCaptureDependencies: Self = Self(0);
    pub const cudaStreamSetCaptureDependencies: Self = Self(1);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaUserObjectFlags(pub u32);
impl cudaUserObjectFlags {
    pub const cudaUserObjectNoDestructorSync: Self = Self(1);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaUserObjectRetainFlags(pub u32);
impl cudaUserObjectRetainFlags {
    pub const cudaGraphUserObjectMove: Self = Self(1);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphicsRegisterFlags(pub u32);
impl cudaGraphicsRegisterFlags {
    pub const cudaGraphicsRegisterFlagsNone: Self = Self(0);
    pub const cudaGraphicsRegisterFlagsReadOnly: Self = Self(1);
    pub const cudaGraphicsRegisterFlagsWriteDiscard: Self = Self(2);
    pub const cudaGraphicsRegisterFlagsSurfaceLoadStore: Self = Self(4);
    pub const cudaGraphicsRegisterFlagsTextureGather: Self = Self(8);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphicsMapFlags(pub u32);
impl cudaGraphicsMapFlags {
    pub const cudaGraphicsMapFlagsNone: Self = Self(0);
    pub const cudaGraphicsMapFlagsReadOnly: Self = Self(1);
    pub const cudaGraphicsMapFlagsWriteDiscard: Self = Self(2);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphicsCubeFace(pub u32);
impl cudaGraphicsCubeFace {
    pub const cudaGraphicsCubeFacePositiveX: Self = Self(0);
    pub const cudaGraphicsCubeFaceNegativeX: Self = Self(1);
    pub const cudaGraphicsCubeFacePositiveY: Self = Self(2);
    pub const cudaGraphicsCubeFaceNegativeY: Self = Self(3);
    pub const cudaGraphicsCubeFacePositiveZ: Self = Self(4);
    pub const cudaGraphicsCubeFaceNegativeZ: Self = Self(5);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaResourceType(pub u32);
impl cudaResourceType {
    pub const cudaResourceTypeArray: Self = Self(0);
    pub const cudaResourceTypeMipmappedArray: Self = Self(1);
    pub const cudaResourceTypeLinear: Self = Self(2);
    pub const cudaResourceTypePitch2D: Self = Self(3);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaResourceViewFormat(pub u32);
impl cudaResourceViewFormat {
    pub const cudaResViewFormatNone: Self = Self(0);
    pub const cudaResViewFormatUnsignedChar1: Self = Self(1);
    pub const cudaResViewFormatUnsignedChar2: Self = Self(2);
    pub const cudaResViewFormatUnsignedChar4: Self = Self(3);
    pub const cudaResViewFormatSignedChar1: Self = Self(4);
    pub const cudaResViewFormatSignedChar2: Self = Self(5);
    pub const cudaResViewFormatSignedChar4: Self = Self(6);
    pub const cudaResViewFormatUnsignedShort1: Self = Self(7);
    pub const cudaResViewFormatUnsignedShort2: Self = Self(8);
    pub const cudaResViewFormatUnsignedShort4: Self = Self(9);
    pub const cudaResViewFormatSignedShort1: Self = Self(10);
    pub const cudaResViewFormatSignedShort2: Self = Self(11);
    pub const cudaResViewFormatSignedShort4: Self = Self(12);
    pub const cudaResViewFormatUnsignedInt1: Self = Self(13);
    pub const cudaResViewFormatUnsignedInt2: Self = Self(14);
    pub const cudaResViewFormatUnsignedInt4: Self = Self(15);
    pub const cudaResViewFormatSignedInt1: Self = Self(16);
    pub const cudaResViewFormatSignedInt2: Self = Self(17);
    pub const cudaResViewFormatSignedInt4: Self = Self(18);
    pub const cudaResViewFormatHalf1: Self = Self(19);
    pub const cudaResViewFormatHalf2: Self = Self(20);
    pub const cudaResViewFormatHalf4: Self = Self(21);
    pub const cudaResViewFormatFloat1: Self = Self(22);
    pub const cudaResViewFormatFloat2: Self = Self(23);
    pub const cudaResViewFormatFloat4: Self = Self(24);
    pub const cudaResViewFormatUnsignedBlockCompressed1: Self = Self(25);
    pub const cudaResViewFormatUnsignedBlockCompressed2: Self = Self(26);
    pub const cudaResViewFormatUnsignedBlockCompressed3: Self = Self(27);
    pub const cudaResViewFormatUnsignedBlockCompressed4: Self = Self(28);
    pub const cudaResViewFormatSignedBlockCompressed4: Self = Self(29);
    pub const cudaResViewFormatUnsignedBlockCompressed5: Self = Self(30);
    pub const cudaResViewFormatSignedBlockCompressed5: Self = Self(31);
    pub const cudaResViewFormatUnsignedBlockCompressed6H: Self = Self(32);
    pub const cudaResViewFormatSignedBlockCompressed6H: Self = Self(33);
    pub const cudaResViewFormatUnsignedBlockCompressed7: Self = Self(34);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaResourceDesc_res_array {
    pub array: cudaArray_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaResourceDesc_res_mipmap {
    pub mipmap: cudaMipmappedArray_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaResourceDesc_res_linear {
    pub devPtr: *mut c_void,
    pub desc: cudaChannelFormatDesc,
    pub sizeInBytes: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaResourceDesc_res_pitch2D {
    pub devPtr: *mut c_void,
    pub desc: cudaChannelFormatDesc,
    pub width: usize,
    pub height: usize,
    pub pitchInBytes: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaResourceDesc_res_reserved {
    pub reserved: [i32; 32],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union cudaResourceDesc_res {
    pub array: cudaResourceDesc_res_array,
    pub mipmap: cudaResourceDesc_res_mipmap,
    pub linear: cudaResourceDesc_res_linear,
    pub pitch2D: cudaResourceDesc_res_pitch2D,
    pub reserved: cudaResourceDesc_res_reserved,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaResourceDesc {
    pub resType: cudaResourceType,
    pub res: cudaResourceDesc_res,
    pub flags: u32,
}
const _: () = assert!(size_of::<cudaResourceDesc>() == 144 && align_of::<cudaResourceDesc>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaResourceDesc, resType) == 0);
const _: () = assert!(std::mem::offset_of!(cudaResourceDesc, res) == 8);
const _: () = assert!(std::mem::offset_of!(cudaResourceDesc, flags) == 136);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaResourceViewDesc {
    pub format: cudaResourceViewFormat,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub firstMipmapLevel: u32,
    pub lastMipmapLevel: u32,
    pub firstLayer: u32,
    pub lastLayer: u32,
    pub reserved: [u32; 16],
}
const _: () = assert!(size_of::<cudaResourceViewDesc>() == 112 && align_of::<cudaResourceViewDesc>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaResourceViewDesc, format) == 0);
const _: () = assert!(std::mem::offset_of!(cudaResourceViewDesc, width) == 8);
const _: () = assert!(std::mem::offset_of!(cudaResourceViewDesc, height) == 16);
const _: () = assert!(std::mem::offset_of!(cudaResourceViewDesc, depth) == 24);
const _: () = assert!(std::mem::offset_of!(cudaResourceViewDesc, firstMipmapLevel) == 32);
const _: () = assert!(std::mem::offset_of!(cudaResourceViewDesc, lastMipmapLevel) == 36);
const _: () = assert!(std::mem::offset_of!(cudaResourceViewDesc, firstLayer) == 40);
const _: () = assert!(std::mem::offset_of!(cudaResourceViewDesc, lastLayer) == 44);
const _: () = assert!(std::mem::offset_of!(cudaResourceViewDesc, reserved) == 48);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaPointerAttributes {
    pub r#type: cudaMemoryType,
    pub device: i32,
    pub devicePointer: *mut c_void,
    pub hostPointer: *mut c_void,
    pub reserved: [i64; 8],
}
const _: () = assert!(size_of::<cudaPointerAttributes>() == 88 && align_of::<cudaPointerAttributes>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaPointerAttributes, r#type) == 0);
const _: () = assert!(std::mem::offset_of!(cudaPointerAttributes, device) == 4);
const _: () = assert!(std::mem::offset_of!(cudaPointerAttributes, devicePointer) == 8);
const _: () = assert!(std::mem::offset_of!(cudaPointerAttributes, hostPointer) == 16);
const _: () = assert!(std::mem::offset_of!(cudaPointerAttributes, reserved) == 24);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaFuncAttributes {
    pub sharedSizeBytes: usize,
    pub constSizeBytes: usize,
    pub localSizeBytes: usize,
    pub maxThreadsPerBlock: i32,
    pub numRegs: i32,
    pub ptxVersion: i32,
    pub binaryVersion: i32,
    pub cacheModeCA: i32,
    pub maxDynamicSharedSizeBytes: i32,
    pub preferredShmemCarveout: i32,
    pub clusterDimMustBeSet: i32,
    pub requiredClusterWidth: i32,
    pub requiredClusterHeight: i32,
    pub requiredClusterDepth: i32,
    pub clusterSchedulingPolicyPreference: i32,
    pub nonPortableClusterSizeAllowed: i32,
    pub reserved: [i32; 16],
}
const _: () = assert!(size_of::<cudaFuncAttributes>() == 144 && align_of::<cudaFuncAttributes>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, sharedSizeBytes) == 0);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, constSizeBytes) == 8);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, localSizeBytes) == 16);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, maxThreadsPerBlock) == 24);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, numRegs) == 28);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, ptxVersion) == 32);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, binaryVersion) == 36);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, cacheModeCA) == 40);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, maxDynamicSharedSizeBytes) == 44);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, preferredShmemCarveout) == 48);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, clusterDimMustBeSet) == 52);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, requiredClusterWidth) == 56);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, requiredClusterHeight) == 60);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, requiredClusterDepth) == 64);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, clusterSchedulingPolicyPreference) == 68);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, nonPortableClusterSizeAllowed) == 72);
const _: () = assert!(std::mem::offset_of!(cudaFuncAttributes, reserved) == 76);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaFuncAttribute(pub u32);
impl cudaFuncAttribute {
    pub const cudaFuncAttributeMaxDynamicSharedMemorySize: Self = Self(8);
    pub const cudaFuncAttributePreferredSharedMemoryCarveout: Self = Self(9);
    pub const cudaFuncAttributeClusterDimMustBeSet: Self = Self(10);
    pub const cudaFuncAttributeRequiredClusterWidth: Self = Self(11);
    pub const cudaFuncAttributeRequiredClusterHeight: Self = Self(12);
    pub const cudaFuncAttributeRequiredClusterDepth: Self = Self(13);
    pub const cudaFuncAttributeNonPortableClusterSizeAllowed: Self = Self(14);
    pub const cudaFuncAttributeClusterSchedulingPolicyPreference: Self = Self(15);
    pub const cudaFuncAttributeMax: Self = Self(16);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaFuncCache(pub u32);
impl cudaFuncCache {
    pub const cudaFuncCachePreferNone: Self = Self(0);
    pub const cudaFuncCachePreferShared: Self = Self(1);
    pub const cudaFuncCachePreferL1: Self = Self(2);
    pub const cudaFuncCachePreferEqual: Self = Self(3);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaSharedMemConfig(pub u32);
impl cudaSharedMemConfig {
    pub const cudaSharedMemBankSizeDefault: Self = Self(0);
    pub const cudaSharedMemBankSizeFourByte: Self = Self(1);
    pub const cudaSharedMemBankSizeEightByte: Self = Self(2);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaSharedCarveout(pub u32);
impl cudaSharedCarveout {
    pub const cudaSharedmemCarveoutDefault: Self = Self(4294967295);
    pub const cudaSharedmemCarveoutMaxShared: Self = Self(100);
    pub const cudaSharedmemCarveoutMaxL1: Self = Self(0);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaComputeMode(pub u32);
impl cudaComputeMode {
    pub const cudaComputeModeDefault: Self = Self(0);
    pub const cudaComputeModeExclusive: Self = Self(1);
    pub const cudaComputeModeProhibited: Self = Self(2);
    pub const cudaComputeModeExclusiveProcess: Self = Self(3);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaLimit(pub u32);
impl cudaLimit {
    pub const cudaLimitStackSize: Self = Self(0);
    pub const cudaLimitPrintfFifoSize: Self = Self(1);
    pub const cudaLimitMallocHeapSize: Self = Self(2);
    pub const cudaLimitDevRuntimeSyncDepth: Self = Self(3);
    pub const cudaLimitDevRuntimePendingLaunchCount: Self = Self(4);
    pub const cudaLimitMaxL2FetchGranularity: Self = Self(5);
    pub const cudaLimitPersistingL2CacheSize: Self = Self(6);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemoryAdvise(pub u32);
impl cudaMemoryAdvise {
    pub const cudaMemAdviseSetReadMostly: Self = Self(1);
    pub const cudaMemAdviseUnsetReadMostly: Self = Self(2);
    pub const cudaMemAdviseSetPreferredLocation: Self = Self(3);
    pub const cudaMemAdviseUnsetPreferredLocation: Self = Self(4);
    pub const cudaMemAdviseSetAccessedBy: Self = Self(5);
    pub const cudaMemAdviseUnsetAccessedBy: Self = Self(6);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemRangeAttribute(pub u32);
impl cudaMemRangeAttribute {
    pub const cudaMemRangeAttributeReadMostly: Self = Self(1);
    pub const cudaMemRangeAttributePreferredLocation: Self = Self(2);
    pub const cudaMemRangeAttributeAccessedBy: Self = Self(3);
    pub const cudaMemRangeAttributeLastPrefetchLocation: Self = Self(4);
    pub const cudaMemRangeAttributePreferredLocationType: Self = Self(5);
    pub const cudaMemRangeAttributePreferredLocationId: Self = Self(6);
    pub const cudaMemRangeAttributeLastPrefetchLocationType: Self = Self(7);
    pub const cudaMemRangeAttributeLastPrefetchLocationId: Self = Self(8);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaFlushGPUDirectRDMAWritesOptions(pub u32);
impl cudaFlushGPUDirectRDMAWritesOptions {
    pub const cudaFlushGPUDirectRDMAWritesOptionHost: Self = Self(1);
    pub const cudaFlushGPUDirectRDMAWritesOptionMemOps: Self = Self(2);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGPUDirectRDMAWritesOrdering(pub u32);
impl cudaGPUDirectRDMAWritesOrdering {
    pub const cudaGPUDirectRDMAWritesOrderingNone: Self = Self(0);
    pub const cudaGPUDirectRDMAWritesOrderingOwner: Self = Self(100);
    pub const cudaGPUDirectRDMAWritesOrderingAllDevices: Self = Self(200);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaFlushGPUDirectRDMAWritesScope(pub u32);
impl cudaFlushGPUDirectRDMAWritesScope {
    pub const cudaFlushGPUDirectRDMAWritesToOwner: Self = Self(100);
    pub const cudaFlushGPUDirectRDMAWritesToAllDevices: Self = Self(200);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaFlushGPUDirectRDMAWritesTarget(pub u32);
impl cudaFlushGPUDirectRDMAWritesTarget {
    pub const cudaFlushGPUDirectRDMAWritesTargetCurrentDevice: Self = Self(0);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaDeviceAttr(pub u32);
impl cudaDeviceAttr {
    pub const cudaDevAttrMaxThreadsPerBlock: Self = Self(1);
    pub const cudaDevAttrMaxBlockDimX: Self = Self(2);
    pub const cudaDevAttrMaxBlockDimY: Self = Self(3);
    pub const cudaDevAttrMaxBlockDimZ: Self = Self(4);
    pub const cudaDevAttrMaxGridDimX: Self = Self(5);
    pub const cudaDevAttrMaxGridDimY: Self = Self(6);
    pub const cudaDevAttrMaxGridDimZ: Self = Self(7);
    pub const cudaDevAttrMaxSharedMemoryPerBlock: Self = Self(8);
    pub const cudaDevAttrTotalConstantMemory: Self = Self(9);
    pub const cudaDevAttrWarpSize: Self = Self(10);
    pub const cudaDevAttrMaxPitch: Self = Self(11);
    pub const cudaDevAttrMaxRegistersPerBlock: Self = Self(12);
    pub const cudaDevAttrClockRate: Self = Self(13);
    pub const cudaDevAttrTextureAlignment: Self = Self(14);
    pub const cudaDevAttrGpuOverlap: Self = Self(15);
    pub const cudaDevAttrMultiProcessorCount: Self = Self(16);
    pub const cudaDevAttrKernelExecTimeout: Self = Self(17);
    pub const cudaDevAttrIntegrated: Self = Self(18);
    pub const cudaDevAttrCanMapHostMemory: Self = Self(19);
    pub const cudaDevAttrComputeMode: Self = Self(20);
    pub const cudaDevAttrMaxTexture1DWidth: Self = Self(21);
    pub const cudaDevAttrMaxTexture2DWidth: Self = Self(22);
    pub const cudaDevAttrMaxTexture2DHeight: Self = Self(23);
    pub const cudaDevAttrMaxTexture3DWidth: Self = Self(24);
    pub const cudaDevAttrMaxTexture3DHeight: Self = Self(25);
    pub const cudaDevAttrMaxTexture3DDepth: Self = Self(26);
    pub const cudaDevAttrMaxTexture2DLayeredWidth: Self = Self(27);
    pub const cudaDevAttrMaxTexture2DLayeredHeight: Self = Self(28);
    pub const cudaDevAttrMaxTexture2DLayeredLayers: Self = Self(29);
    pub const cudaDevAttrSurfaceAlignment: Self = Self(30);
    pub const cudaDevAttrConcurrentKernels: Self = Self(31);
    pub const cudaDevAttrEccEnabled: Self = Self(32);
    pub const cudaDevAttrPciBusId: Self = Self(33);
    pub const cudaDevAttrPciDeviceId: Self = Self(34);
    pub const cudaDevAttrTccDriver: Self = Self(35);
    pub const cudaDevAttrMemoryClockRate: Self = Self(36);
    pub const cudaDevAttrGlobalMemoryBusWidth: Self = Self(37);
    pub const cudaDevAttrL2CacheSize: Self = Self(38);
    pub const cudaDevAttrMaxThreadsPerMultiProcessor: Self = Self(39);
    pub const cudaDevAttrAsyncEngineCount: Self = Self(40);
    pub const cudaDevAttrUnifiedAddressing: Self = Self(41);
    pub const cudaDevAttrMaxTexture1DLayeredWidth: Self = Self(42);
    pub const cudaDevAttrMaxTexture1DLayeredLayers: Self = Self(43);
    pub const cudaDevAttrMaxTexture2DGatherWidth: Self = Self(45);
    pub const cudaDevAttrMaxTexture2DGatherHeight: Self = Self(46);
    pub const cudaDevAttrMaxTexture3DWidthAlt: Self = Self(47);
    pub const cudaDevAttrMaxTexture3DHeightAlt: Self = Self(48);
    pub const cudaDevAttrMaxTexture3DDepthAlt: Self = Self(49);
    pub const cudaDevAttrPciDomainId: Self = Self(50);
    pub const cudaDevAttrTexturePitchAlignment: Self = Self(51);
    pub const cudaDevAttrMaxTextureCubemapWidth: Self = Self(52);
    pub const cudaDevAttrMaxTextureCubemapLayeredWidth: Self = Self(53);
    pub const cudaDevAttrMaxTextureCubemapLayeredLayers: Self = Self(54);
    pub const cudaDevAttrMaxSurface1DWidth: Self = Self(55);
    pub const cudaDevAttrMaxSurface2DWidth: Self = Self(56);
    pub const cudaDevAttrMaxSurface2DHeight: Self = Self(57);
    pub const cudaDevAttrMaxSurface3DWidth: Self = Self(58);
    pub const cudaDevAttrMaxSurface3DHeight: Self = Self(59);
    pub const cudaDevAttrMaxSurface3DDepth: Self = Self(60);
    pub const cudaDevAttrMaxSurface1DLayeredWidth: Self = Self(61);
    pub const cudaDevAttrMaxSurface1DLayeredLayers: Self = Self(62);
    pub const cudaDevAttrMaxSurface2DLayeredWidth: Self = Self(63);
    pub const cudaDevAttrMaxSurface2DLayeredHeight: Self = Self(64);
    pub const cudaDevAttrMaxSurface2DLayeredLayers: Self = Self(65);
    pub const cudaDevAttrMaxSurfaceCubemapWidth: Self = Self(66);
    pub const cudaDevAttrMaxSurfaceCubemapLayeredWidth: Self = Self(67);
    pub const cudaDevAttrMaxSurfaceCubemapLayeredLayers: Self = Self(68);
    pub const cudaDevAttrMaxTexture1DLinearWidth: Self = Self(69);
    pub const cudaDevAttrMaxTexture2DLinearWidth: Self = Self(70);
    pub const cudaDevAttrMaxTexture2DLinearHeight: Self = Self(71);
    pub const cudaDevAttrMaxTexture2DLinearPitch: Self = Self(72);
    pub const cudaDevAttrMaxTexture2DMipmappedWidth: Self = Self(73);
    pub const cudaDevAttrMaxTexture2DMipmappedHeight: Self = Self(74);
    pub const cudaDevAttrComputeCapabilityMajor: Self = Self(75);
    pub const cudaDevAttrComputeCapabilityMinor: Self = Self(76);
    pub const cudaDevAttrMaxTexture1DMipmappedWidth: Self = Self(77);
    pub const cudaDevAttrStreamPrioritiesSupported: Self = Self(78);
    pub const cudaDevAttrGlobalL1CacheSupported: Self = Self(79);
    pub const cudaDevAttrLocalL1CacheSupported: Self = Self(80);
    pub const cudaDevAttrMaxSharedMemoryPerMultiprocessor: Self = Self(81);
    pub const cudaDevAttrMaxRegistersPerMultiprocessor: Self = Self(82);
    pub const cudaDevAttrManagedMemory: Self = Self(83);
    pub const cudaDevAttrIsMultiGpuBoard: Self = Self(84);
    pub const cudaDevAttrMultiGpuBoardGroupID: Self = Self(85);
    pub const cudaDevAttrHostNativeAtomicSupported: Self = Self(86);
    pub const cudaDevAttrSingleToDoublePrecisionPerfRatio: Self = Self(87);
    pub const cudaDevAttrPageableMemoryAccess: Self = Self(88);
    pub const cudaDevAttrConcurrentManagedAccess: Self = Self(89);
    pub const cudaDevAttrComputePreemptionSupported: Self = Self(90);
    pub const cudaDevAttrCanUseHostPointerForRegisteredMem: Self = Self(91);
    pub const cudaDevAttrReserved92: Self = Self(92);
    pub const cudaDevAttrReserved93: Self = Self(93);
    pub const cudaDevAttrReserved94: Self = Self(94);
    pub const cudaDevAttrCooperativeLaunch: Self = Self(95);
    pub const cudaDevAttrReserved96: Self = Self(96);
    pub const cudaDevAttrMaxSharedMemoryPerBlockOptin: Self = Self(97);
    pub const cudaDevAttrCanFlushRemoteWrites: Self = Self(98);
    pub const cudaDevAttrHostRegisterSupported: Self = Self(99);
    pub const cudaDevAttrPageableMemoryAccessUsesHostPageTables: Self = Self(100);
    pub const cudaDevAttrDirectManagedMemAccessFromHost: Self = Self(101);
    pub const cudaDevAttrMaxBlocksPerMultiprocessor: Self = Self(106);
    pub const cudaDevAttrMaxPersistingL2CacheSize: Self = Self(108);
    pub const cudaDevAttrMaxAccessPolicyWindowSize: Self = Self(109);
    pub const cudaDevAttrReservedSharedMemoryPerBlock: Self = Self(111);
    pub const cudaDevAttrSparseCudaArraySupported: Self = Self(112);
    pub const cudaDevAttrHostRegisterReadOnlySupported: Self = Self(113);
    pub const cudaDevAttrTimelineSemaphoreInteropSupported: Self = Self(114);
    pub const cudaDevAttrMemoryPoolsSupported: Self = Self(115);
    pub const cudaDevAttrGPUDirectRDMASupported: Self = Self(116);
    pub const cudaDevAttrGPUDirectRDMAFlushWritesOptions: Self = Self(117);
    pub const cudaDevAttrGPUDirectRDMAWritesOrdering: Self = Self(118);
    pub const cudaDevAttrMemoryPoolSupportedHandleTypes: Self = Self(119);
    pub const cudaDevAttrClusterLaunch: Self = Self(120);
    pub const cudaDevAttrDeferredMappingCudaArraySupported: Self = Self(121);
    pub const cudaDevAttrReserved122: Self = Self(122);
    pub const cudaDevAttrReserved123: Self = Self(123);
    pub const cudaDevAttrReserved124: Self = Self(124);
    pub const cudaDevAttrIpcEventSupport: Self = Self(125);
    pub const cudaDevAttrMemSyncDomainCount: Self = Self(126);
    pub const cudaDevAttrReserved127: Self = Self(127);
    pub const cudaDevAttrReserved128: Self = Self(128);
    pub const cudaDevAttrReserved129: Self = Self(129);
    pub const cudaDevAttrNumaConfig: Self = Self(130);
    pub const cudaDevAttrNumaId: Self = Self(131);
    pub const cudaDevAttrReserved132: Self = Self(132);
    pub const cudaDevAttrMpsEnabled: Self = Self(133);
    pub const cudaDevAttrHostNumaId: Self = Self(134);
    pub const cudaDevAttrD3D12CigSupported: Self = Self(135);
    pub const cudaDevAttrVulkanCigSupported: Self = Self(138);
    pub const cudaDevAttrGpuPciDeviceId: Self = Self(139);
    pub const cudaDevAttrGpuPciSubsystemId: Self = Self(140);
    pub const cudaDevAttrReserved141: Self = Self(141);
    pub const cudaDevAttrHostNumaMemoryPoolsSupported: Self = Self(142);
    pub const cudaDevAttrHostNumaMultinodeIpcSupported: Self = Self(143);
    pub const cudaDevAttrHostMemoryPoolsSupported: Self = Self(144);
    pub const cudaDevAttrReserved145: Self = Self(145);
    pub const cudaDevAttrOnlyPartialHostNativeAtomicSupported: Self = Self(147);
    pub const cudaDevAttrMax: Self = Self(148);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemPoolAttr(pub u32);
impl cudaMemPoolAttr {
    pub const cudaMemPoolReuseFollowEventDependencies: Self = Self(1);
    pub const cudaMemPoolReuseAllowOpportunistic: Self = Self(2);
    pub const cudaMemPoolReuseAllowInternalDependencies: Self = Self(3);
    pub const cudaMemPoolAttrReleaseThreshold: Self = Self(4);
    pub const cudaMemPoolAttrReservedMemCurrent: Self = Self(5);
    pub const cudaMemPoolAttrReservedMemHigh: Self = Self(6);
    pub const cudaMemPoolAttrUsedMemCurrent: Self = Self(7);
    pub const cudaMemPoolAttrUsedMemHigh: Self = Self(8);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemLocationType(pub u32);
impl cudaMemLocationType {
    pub const cudaMemLocationTypeInvalid: Self = Self(0);
    pub const cudaMemLocationTypeNone: Self = Self(0);
    pub const cudaMemLocationTypeDevice: Self = Self(1);
    pub const cudaMemLocationTypeHost: Self = Self(2);
    pub const cudaMemLocationTypeHostNuma: Self = Self(3);
    pub const cudaMemLocationTypeHostNumaCurrent: Self = Self(4);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemLocation {
    pub r#type: cudaMemLocationType,
    pub id: i32,
}
const _: () = assert!(size_of::<cudaMemLocation>() == 8 && align_of::<cudaMemLocation>() == 4);
const _: () = assert!(std::mem::offset_of!(cudaMemLocation, r#type) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemLocation, id) == 4);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemAccessFlags(pub u32);
impl cudaMemAccessFlags {
    pub const cudaMemAccessFlagsProtNone: Self = Self(0);
    pub const cudaMemAccessFlagsProtRead: Self = Self(1);
    pub const cudaMemAccessFlagsProtReadWrite: Self = Self(3);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemAccessDesc {
    pub location: cudaMemLocation,
    pub flags: cudaMemAccessFlags,
}
const _: () = assert!(size_of::<cudaMemAccessDesc>() == 12 && align_of::<cudaMemAccessDesc>() == 4);
const _: () = assert!(std::mem::offset_of!(cudaMemAccessDesc, location) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemAccessDesc, flags) == 8);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemAllocationType(pub u32);
impl cudaMemAllocationType {
    pub const cudaMemAllocationTypeInvalid: Self = Self(0);
    pub const cudaMemAllocationTypePinned: Self = Self(1);
    pub const cudaMemAllocationTypeManaged: Self = Self(2);
    pub const cudaMemAllocationTypeMax: Self = Self(2147483647);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemAllocationHandleType(pub u32);
impl cudaMemAllocationHandleType {
    pub const cudaMemHandleTypeNone: Self = Self(0);
    pub const cudaMemHandleTypePosixFileDescriptor: Self = Self(1);
    pub const cudaMemHandleTypeWin32: Self = Self(2);
    pub const cudaMemHandleTypeWin32Kmt: Self = Self(4);
    pub const cudaMemHandleTypeFabric: Self = Self(8);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemPoolProps {
    pub allocType: cudaMemAllocationType,
    pub handleTypes: cudaMemAllocationHandleType,
    pub location: cudaMemLocation,
    pub win32SecurityAttributes: *mut c_void,
    pub maxSize: usize,
    pub usage: u16,
    pub reserved: [u8; 54],
}
const _: () = assert!(size_of::<cudaMemPoolProps>() == 88 && align_of::<cudaMemPoolProps>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemPoolProps, allocType) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemPoolProps, handleTypes) == 4);
const _: () = assert!(std::mem::offset_of!(cudaMemPoolProps, location) == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemPoolProps, win32SecurityAttributes) == 16);
const _: () = assert!(std::mem::offset_of!(cudaMemPoolProps, maxSize) == 24);
const _: () = assert!(std::mem::offset_of!(cudaMemPoolProps, usage) == 32);
const _: () = assert!(std::mem::offset_of!(cudaMemPoolProps, reserved) == 34);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemPoolPtrExportData {
    pub reserved: [u8; 64],
}
const _: () = assert!(size_of::<cudaMemPoolPtrExportData>() == 64 && align_of::<cudaMemPoolPtrExportData>() == 1);
const _: () = assert!(std::mem::offset_of!(cudaMemPoolPtrExportData, reserved) == 0);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemAllocNodeParams {
    pub poolProps: cudaMemPoolProps,
    pub accessDescs: *const cudaMemAccessDesc,
    pub accessDescCount: usize,
    pub bytesize: usize,
    pub dptr: *mut c_void,
}
const _: () = assert!(size_of::<cudaMemAllocNodeParams>() == 120 && align_of::<cudaMemAllocNodeParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemAllocNodeParams, poolProps) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemAllocNodeParams, accessDescs) == 88);
const _: () = assert!(std::mem::offset_of!(cudaMemAllocNodeParams, accessDescCount) == 96);
const _: () = assert!(std::mem::offset_of!(cudaMemAllocNodeParams, bytesize) == 104);
const _: () = assert!(std::mem::offset_of!(cudaMemAllocNodeParams, dptr) == 112);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemAllocNodeParamsV2 {
    pub poolProps: cudaMemPoolProps,
    pub accessDescs: *const cudaMemAccessDesc,
    pub accessDescCount: usize,
    pub bytesize: usize,
    pub dptr: *mut c_void,
}
const _: () = assert!(size_of::<cudaMemAllocNodeParamsV2>() == 120 && align_of::<cudaMemAllocNodeParamsV2>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemAllocNodeParamsV2, poolProps) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemAllocNodeParamsV2, accessDescs) == 88);
const _: () = assert!(std::mem::offset_of!(cudaMemAllocNodeParamsV2, accessDescCount) == 96);
const _: () = assert!(std::mem::offset_of!(cudaMemAllocNodeParamsV2, bytesize) == 104);
const _: () = assert!(std::mem::offset_of!(cudaMemAllocNodeParamsV2, dptr) == 112);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemFreeNodeParams {
    pub dptr: *mut c_void,
}
const _: () = assert!(size_of::<cudaMemFreeNodeParams>() == 8 && align_of::<cudaMemFreeNodeParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemFreeNodeParams, dptr) == 0);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphMemAttributeType(pub u32);
impl cudaGraphMemAttributeType {
    pub const cudaGraphMemAttrUsedMemCurrent: Self = Self(0);
    pub const cudaGraphMemAttrUsedMemHigh: Self = Self(1);
    pub const cudaGraphMemAttrReservedMemCurrent: Self = Self(2);
    pub const cudaGraphMemAttrReservedMemHigh: Self = Self(3);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemcpyFlags(pub u32);
impl cudaMemcpyFlags {
    pub const cudaMemcpyFlagDefault: Self = Self(0);
    pub const cudaMemcpyFlagPreferOverlapWithCompute: Self = Self(1);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemcpySrcAccessOrder(pub u32);
impl cudaMemcpySrcAccessOrder {
    pub const cudaMemcpySrcAccessOrderInvalid: Self = Self(0);
    pub const cudaMemcpySrcAccessOrderStream: Self = Self(1);
    pub const cudaMemcpySrcAccessOrderDuringApiCall: Self = Self(2);
    pub const cudaMemcpySrcAccessOrderAny: Self = Self(3);
    pub const cudaMemcpySrcAccessOrderMax: Self = Self(2147483647);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemcpyAttributes {
    pub srcAccessOrder: cudaMemcpySrcAccessOrder,
    pub srcLocHint: cudaMemLocation,
    pub dstLocHint: cudaMemLocation,
    pub flags: u32,
}
const _: () = assert!(size_of::<cudaMemcpyAttributes>() == 24 && align_of::<cudaMemcpyAttributes>() == 4);
const _: () = assert!(std::mem::offset_of!(cudaMemcpyAttributes, srcAccessOrder) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemcpyAttributes, srcLocHint) == 4);
const _: () = assert!(std::mem::offset_of!(cudaMemcpyAttributes, dstLocHint) == 12);
const _: () = assert!(std::mem::offset_of!(cudaMemcpyAttributes, flags) == 20);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaMemcpy3DOperandType(pub u32);
impl cudaMemcpy3DOperandType {
    pub const cudaMemcpyOperandTypePointer: Self = Self(1);
    pub const cudaMemcpyOperandTypeArray: Self = Self(2);
    pub const cudaMemcpyOperandTypeMax: Self = Self(2147483647);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaOffset3D {
    pub x: usize,
    pub y: usize,
    pub z: usize,
}
const _: () = assert!(size_of::<cudaOffset3D>() == 24 && align_of::<cudaOffset3D>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaOffset3D, x) == 0);
const _: () = assert!(std::mem::offset_of!(cudaOffset3D, y) == 8);
const _: () = assert!(std::mem::offset_of!(cudaOffset3D, z) == 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemcpy3DOperand_op_ptr {
    pub ptr: *mut c_void,
    pub rowLength: usize,
    pub layerHeight: usize,
    pub locHint: cudaMemLocation,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemcpy3DOperand_op_array {
    pub array: cudaArray_t,
    pub offset: cudaOffset3D,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union cudaMemcpy3DOperand_op {
    pub ptr: cudaMemcpy3DOperand_op_ptr,
    pub array: cudaMemcpy3DOperand_op_array,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemcpy3DOperand {
    pub r#type: cudaMemcpy3DOperandType,
    pub op: cudaMemcpy3DOperand_op,
}
const _: () = assert!(size_of::<cudaMemcpy3DOperand>() == 40 && align_of::<cudaMemcpy3DOperand>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DOperand, r#type) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DOperand, op) == 8);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaMemcpy3DBatchOp {
    pub src: cudaMemcpy3DOperand,
    pub dst: cudaMemcpy3DOperand,
    pub extent: cudaExtent,
    pub srcAccessOrder: cudaMemcpySrcAccessOrder,
    pub flags: u32,
}
const _: () = assert!(size_of::<cudaMemcpy3DBatchOp>() == 112 && align_of::<cudaMemcpy3DBatchOp>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DBatchOp, src) == 0);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DBatchOp, dst) == 40);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DBatchOp, extent) == 80);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DBatchOp, srcAccessOrder) == 104);
const _: () = assert!(std::mem::offset_of!(cudaMemcpy3DBatchOp, flags) == 108);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaDeviceP2PAttr(pub u32);
impl cudaDeviceP2PAttr {
    pub const cudaDevP2PAttrPerformanceRank: Self = Self(1);
    pub const cudaDevP2PAttrAccessSupported: Self = Self(2);
    pub const cudaDevP2PAttrNativeAtomicSupported: Self = Self(3);
    pub const cudaDevP2PAttrCudaArrayAccessSupported: Self = Self(4);
    pub const cudaDevP2PAttrOnlyPartialNativeAtomicSupported: Self = Self(5);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaAtomicOperation(pub u32);
impl cudaAtomicOperation {
    pub const cudaAtomicOperationIntegerAdd: Self = Self(0);
    pub const cudaAtomicOperationIntegerMin: Self = Self(1);
    pub const cudaAtomicOperationIntegerMax: Self = Self(2);
    pub const cudaAtomicOperationIntegerIncrement: Self = Self(3);
    pub const cudaAtomicOperationIntegerDecrement: Self = Self(4);
    pub const cudaAtomicOperationAnd: Self = Self(5);
    pub const cudaAtomicOperationOr: Self = Self(6);
    pub const cudaAtomicOperationXOR: Self = Self(7);
    pub const cudaAtomicOperationExchange: Self = Self(8);
    pub const cudaAtomicOperationCAS: Self = Self(9);
    pub const cudaAtomicOperationFloatAdd: Self = Self(10);
    pub const cudaAtomicOperationFloatMin: Self = Self(11);
    pub const cudaAtomicOperationFloatMax: Self = Self(12);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaAtomicOperationCapability(pub u32);
impl cudaAtomicOperationCapability {
    pub const cudaAtomicCapabilitySigned: Self = Self(1);
    pub const cudaAtomicCapabilityUnsigned: Self = Self(2);
    pub const cudaAtomicCapabilityReduction: Self = Self(4);
    pub const cudaAtomicCapabilityScalar32: Self = Self(8);
    pub const cudaAtomicCapabilityScalar64: Self = Self(16);
    pub const cudaAtomicCapabilityScalar128: Self = Self(32);
    pub const cudaAtomicCapabilityVector32x4: Self = Self(64);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CUuuid_st {
    pub bytes: [c_char; 16],
}
const _: () = assert!(size_of::<CUuuid_st>() == 16 && align_of::<CUuuid_st>() == 1);
const _: () = assert!(std::mem::offset_of!(CUuuid_st, bytes) == 0);

pub type cudaUUID_t = CUuuid_st;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaDeviceProp {
    pub name: [c_char; 256],
    pub uuid: cudaUUID_t,
    pub luid: [c_char; 8],
    pub luidDeviceNodeMask: u32,
    pub totalGlobalMem: usize,
    pub sharedMemPerBlock: usize,
    pub regsPerBlock: i32,
    pub warpSize: i32,
    pub memPitch: usize,
    pub maxThreadsPerBlock: i32,
    pub maxThreadsDim: [i32; 3],
    pub maxGridSize: [i32; 3],
    pub totalConstMem: usize,
    pub major: i32,
    pub minor: i32,
    pub textureAlignment: usize,
    pub texturePitchAlignment: usize,
    pub multiProcessorCount: i32,
    pub integrated: i32,
    pub canMapHostMemory: i32,
    pub maxTexture1D: i32,
    pub maxTexture1DMipmap: i32,
    pub maxTexture2D: [i32; 2],
    pub maxTexture2DMipmap: [i32; 2],
    pub maxTexture2DLinear: [i32; 3],
    pub maxTexture2DGather: [i32; 2],
    pub maxTexture3D: [i32; 3],
    pub maxTexture3DAlt: [i32; 3],
    pub maxTextureCubemap: i32,
    pub maxTexture1DLayered: [i32; 2],
    pub maxTexture2DLayered: [i32; 3],
    pub maxTextureCubemapLayered: [i32; 2],
    pub maxSurface1D: i32,
    pub maxSurface2D: [i32; 2],
    pub maxSurface3D: [i32; 3],
    pub maxSurface1DLayered: [i32; 2],
    pub maxSurface2DLayered: [i32; 3],
    pub maxSurfaceCubemap: i32,
    pub maxSurfaceCubemapLayered: [i32; 2],
    pub surfaceAlignment: usize,
    pub concurrentKernels: i32,
    pub ECCEnabled: i32,
    pub pciBusID: i32,
    pub pciDeviceID: i32,
    pub pciDomainID: i32,
    pub tccDriver: i32,
    pub asyncEngineCount: i32,
    pub unifiedAddressing: i32,
    pub memoryBusWidth: i32,
    pub l2CacheSize: i32,
    pub persistingL2CacheMaxSize: i32,
    pub maxThreadsPerMultiProcessor: i32,
    pub streamPrioritiesSupported: i32,
    pub globalL1CacheSupported: i32,
    pub localL1CacheSupported: i32,
    pub sharedMemPerMultiprocessor: usize,
    pub regsPerMultiprocessor: i32,
    pub managedMemory: i32,
    pub isMultiGpuBoard: i32,
    pub multiGpuBoardGroupID: i32,
    pub hostNativeAtomicSupported: i32,
    pub pageableMemoryAccess: i32,
    pub concurrentManagedAccess: i32,
    pub computePreemptionSupported: i32,
    pub canUseHostPointerForRegisteredMem: i32,
    pub cooperativeLaunch: i32,
    pub sharedMemPerBlockOptin: usize,
    pub pageableMemoryAccessUsesHostPageTables: i32,
    pub directManagedMemAccessFromHost: i32,
    pub maxBlocksPerMultiProcessor: i32,
    pub accessPolicyMaxWindowSize: i32,
    pub reservedSharedMemPerBlock: usize,
    pub hostRegisterSupported: i32,
    pub sparseCudaArraySupported: i32,
    pub hostRegisterReadOnlySupported: i32,
    pub timelineSemaphoreInteropSupported: i32,
    pub memoryPoolsSupported: i32,
    pub gpuDirectRDMASupported: i32,
    pub gpuDirectRDMAFlushWritesOptions: u32,
    pub gpuDirectRDMAWritesOrdering: i32,
    pub memoryPoolSupportedHandleTypes: u32,
    pub deferredMappingCudaArraySupported: i32,
    pub ipcEventSupported: i32,
    pub clusterLaunch: i32,
    pub unifiedFunctionPointers: i32,
    pub deviceNumaConfig: i32,
    pub deviceNumaId: i32,
    pub mpsEnabled: i32,
    pub hostNumaId: i32,
    pub gpuPciDeviceID: u32,
    pub gpuPciSubsystemID: u32,
    pub hostNumaMultinodeIpcSupported: i32,
    pub reserved: [i32; 56],
}
const _: () = assert!(size_of::<cudaDeviceProp>() == 1008 && align_of::<cudaDeviceProp>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, name) == 0);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, uuid) == 256);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, luid) == 272);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, luidDeviceNodeMask) == 280);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, totalGlobalMem) == 288);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, sharedMemPerBlock) == 296);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, regsPerBlock) == 304);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, warpSize) == 308);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, memPitch) == 312);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxThreadsPerBlock) == 320);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxThreadsDim) == 324);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxGridSize) == 336);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, totalConstMem) == 352);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, major) == 360);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, minor) == 364);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, textureAlignment) == 368);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, texturePitchAlignment) == 376);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, multiProcessorCount) == 384);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, integrated) == 388);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, canMapHostMemory) == 392);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTexture1D) == 396);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTexture1DMipmap) == 400);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTexture2D) == 404);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTexture2DMipmap) == 412);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTexture2DLinear) == 420);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTexture2DGather) == 432);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTexture3D) == 440);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTexture3DAlt) == 452);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTextureCubemap) == 464);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTexture1DLayered) == 468);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTexture2DLayered) == 476);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxTextureCubemapLayered) == 488);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxSurface1D) == 496);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxSurface2D) == 500);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxSurface3D) == 508);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxSurface1DLayered) == 520);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxSurface2DLayered) == 528);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxSurfaceCubemap) == 540);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxSurfaceCubemapLayered) == 544);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, surfaceAlignment) == 552);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, concurrentKernels) == 560);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, ECCEnabled) == 564);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, pciBusID) == 568);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, pciDeviceID) == 572);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, pciDomainID) == 576);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, tccDriver) == 580);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, asyncEngineCount) == 584);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, unifiedAddressing) == 588);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, memoryBusWidth) == 592);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, l2CacheSize) == 596);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, persistingL2CacheMaxSize) == 600);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxThreadsPerMultiProcessor) == 604);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, streamPrioritiesSupported) == 608);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, globalL1CacheSupported) == 612);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, localL1CacheSupported) == 616);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, sharedMemPerMultiprocessor) == 624);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, regsPerMultiprocessor) == 632);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, managedMemory) == 636);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, isMultiGpuBoard) == 640);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, multiGpuBoardGroupID) == 644);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, hostNativeAtomicSupported) == 648);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, pageableMemoryAccess) == 652);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, concurrentManagedAccess) == 656);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, computePreemptionSupported) == 660);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, canUseHostPointerForRegisteredMem) == 664);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, cooperativeLaunch) == 668);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, sharedMemPerBlockOptin) == 672);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, pageableMemoryAccessUsesHostPageTables) == 680);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, directManagedMemAccessFromHost) == 684);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, maxBlocksPerMultiProcessor) == 688);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, accessPolicyMaxWindowSize) == 692);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, reservedSharedMemPerBlock) == 696);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, hostRegisterSupported) == 704);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, sparseCudaArraySupported) == 708);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, hostRegisterReadOnlySupported) == 712);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, timelineSemaphoreInteropSupported) == 716);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, memoryPoolsSupported) == 720);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, gpuDirectRDMASupported) == 724);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, gpuDirectRDMAFlushWritesOptions) == 728);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, gpuDirectRDMAWritesOrdering) == 732);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, memoryPoolSupportedHandleTypes) == 736);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, deferredMappingCudaArraySupported) == 740);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, ipcEventSupported) == 744);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, clusterLaunch) == 748);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, unifiedFunctionPointers) == 752);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, deviceNumaConfig) == 756);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, deviceNumaId) == 760);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, mpsEnabled) == 764);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, hostNumaId) == 768);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, gpuPciDeviceID) == 772);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, gpuPciSubsystemID) == 776);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, hostNumaMultinodeIpcSupported) == 780);
const _: () = assert!(std::mem::offset_of!(cudaDeviceProp, reserved) == 784);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaIpcEventHandle_st {
    pub reserved: [c_char; 64],
}
const _: () = assert!(size_of::<cudaIpcEventHandle_st>() == 64 && align_of::<cudaIpcEventHandle_st>() == 1);
const _: () = assert!(std::mem::offset_of!(cudaIpcEventHandle_st, reserved) == 0);

pub type cudaIpcEventHandle_t = cudaIpcEventHandle_st;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaIpcMemHandle_st {
    pub reserved: [c_char; 64],
}
const _: () = assert!(size_of::<cudaIpcMemHandle_st>() == 64 && align_of::<cudaIpcMemHandle_st>() == 1);
const _: () = assert!(std::mem::offset_of!(cudaIpcMemHandle_st, reserved) == 0);

pub type cudaIpcMemHandle_t = cudaIpcMemHandle_st;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaExternalMemoryHandleType(pub u32);
impl cudaExternalMemoryHandleType {
    pub const cudaExternalMemoryHandleTypeOpaqueFd: Self = Self(1);
    pub const cudaExternalMemoryHandleTypeOpaqueWin32: Self = Self(2);
    pub const cudaExternalMemoryHandleTypeOpaqueWin32Kmt: Self = Self(3);
    pub const cudaExternalMemoryHandleTypeD3D12Heap: Self = Self(4);
    pub const cudaExternalMemoryHandleTypeD3D12Resource: Self = Self(5);
    pub const cudaExternalMemoryHandleTypeD3D11Resource: Self = Self(6);
    pub const cudaExternalMemoryHandleTypeD3D11ResourceKmt: Self = Self(7);
    pub const cudaExternalMemoryHandleTypeNvSciBuf: Self = Self(8);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalMemoryHandleDesc_handle_win32 {
    pub handle: *mut c_void,
    pub name: *const c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union cudaExternalMemoryHandleDesc_handle {
    pub fd: i32,
    pub win32: cudaExternalMemoryHandleDesc_handle_win32,
    pub nvSciBufObject: *const c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalMemoryHandleDesc {
    pub r#type: cudaExternalMemoryHandleType,
    pub handle: cudaExternalMemoryHandleDesc_handle,
    pub size: u64,
    pub flags: u32,
    pub reserved: [u32; 16],
}
const _: () =
    assert!(size_of::<cudaExternalMemoryHandleDesc>() == 104 && align_of::<cudaExternalMemoryHandleDesc>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryHandleDesc, r#type) == 0);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryHandleDesc, handle) == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryHandleDesc, size) == 24);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryHandleDesc, flags) == 32);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryHandleDesc, reserved) == 36);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalMemoryBufferDesc {
    pub offset: u64,
    pub size: u64,
    pub flags: u32,
    pub reserved: [u32; 16],
}
const _: () =
    assert!(size_of::<cudaExternalMemoryBufferDesc>() == 88 && align_of::<cudaExternalMemoryBufferDesc>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryBufferDesc, offset) == 0);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryBufferDesc, size) == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryBufferDesc, flags) == 16);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryBufferDesc, reserved) == 20);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalMemoryMipmappedArrayDesc {
    pub offset: u64,
    pub formatDesc: cudaChannelFormatDesc,
    pub extent: cudaExtent,
    pub flags: u32,
    pub numLevels: u32,
    pub reserved: [u32; 16],
}
const _: () = assert!(
    size_of::<cudaExternalMemoryMipmappedArrayDesc>() == 128 && align_of::<cudaExternalMemoryMipmappedArrayDesc>() == 8
);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryMipmappedArrayDesc, offset) == 0);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryMipmappedArrayDesc, formatDesc) == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryMipmappedArrayDesc, extent) == 32);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryMipmappedArrayDesc, flags) == 56);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryMipmappedArrayDesc, numLevels) == 60);
const _: () = assert!(std::mem::offset_of!(cudaExternalMemoryMipmappedArrayDesc, reserved) == 64);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaExternalSemaphoreHandleType(pub u32);
impl cudaExternalSemaphoreHandleType {
    pub const cudaExternalSemaphoreHandleTypeOpaqueFd: Self = Self(1);
    pub const cudaExternalSemaphoreHandleTypeOpaqueWin32: Self = Self(2);
    pub const cudaExternalSemaphoreHandleTypeOpaqueWin32Kmt: Self = Self(3);
    pub const cudaExternalSemaphoreHandleTypeD3D12Fence: Self = Self(4);
    pub const cudaExternalSemaphoreHandleTypeD3D11Fence: Self = Self(5);
    pub const cudaExternalSemaphoreHandleTypeNvSciSync: Self = Self(6);
    pub const cudaExternalSemaphoreHandleTypeKeyedMutex: Self = Self(7);
    pub const cudaExternalSemaphoreHandleTypeKeyedMutexKmt: Self = Self(8);
    pub const cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd: Self = Self(9);
    pub const cudaExternalSemaphoreHandleTypeTimelineSemaphoreWin32: Self = Self(10);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreHandleDesc_handle_win32 {
    pub handle: *mut c_void,
    pub name: *const c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union cudaExternalSemaphoreHandleDesc_handle {
    pub fd: i32,
    pub win32: cudaExternalSemaphoreHandleDesc_handle_win32,
    pub nvSciSyncObj: *const c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreHandleDesc {
    pub r#type: cudaExternalSemaphoreHandleType,
    pub handle: cudaExternalSemaphoreHandleDesc_handle,
    pub flags: u32,
    pub reserved: [u32; 16],
}
const _: () =
    assert!(size_of::<cudaExternalSemaphoreHandleDesc>() == 96 && align_of::<cudaExternalSemaphoreHandleDesc>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreHandleDesc, r#type) == 0);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreHandleDesc, handle) == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreHandleDesc, flags) == 24);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreHandleDesc, reserved) == 28);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreSignalParams_params_fence {
    pub value: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union cudaExternalSemaphoreSignalParams_params_nvSciSync {
    pub fence: *mut c_void,
    pub reserved: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreSignalParams_params_keyedMutex {
    pub key: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreSignalParams_params {
    pub fence: cudaExternalSemaphoreSignalParams_params_fence,
    pub nvSciSync: cudaExternalSemaphoreSignalParams_params_nvSciSync,
    pub keyedMutex: cudaExternalSemaphoreSignalParams_params_keyedMutex,
    pub reserved: [u32; 12],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreSignalParams {
    pub params: cudaExternalSemaphoreSignalParams_params,
    pub flags: u32,
    pub reserved: [u32; 16],
}
const _: () = assert!(
    size_of::<cudaExternalSemaphoreSignalParams>() == 144 && align_of::<cudaExternalSemaphoreSignalParams>() == 8
);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreSignalParams, params) == 0);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreSignalParams, flags) == 72);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreSignalParams, reserved) == 76);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreWaitParams_params_fence {
    pub value: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union cudaExternalSemaphoreWaitParams_params_nvSciSync {
    pub fence: *mut c_void,
    pub reserved: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreWaitParams_params_keyedMutex {
    pub key: u64,
    pub timeoutMs: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreWaitParams_params {
    pub fence: cudaExternalSemaphoreWaitParams_params_fence,
    pub nvSciSync: cudaExternalSemaphoreWaitParams_params_nvSciSync,
    pub keyedMutex: cudaExternalSemaphoreWaitParams_params_keyedMutex,
    pub reserved: [u32; 10],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreWaitParams {
    pub params: cudaExternalSemaphoreWaitParams_params,
    pub flags: u32,
    pub reserved: [u32; 16],
}
const _: () =
    assert!(size_of::<cudaExternalSemaphoreWaitParams>() == 144 && align_of::<cudaExternalSemaphoreWaitParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreWaitParams, params) == 0);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreWaitParams, flags) == 72);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreWaitParams, reserved) == 76);

pub type cudaError_t = cudaError;

pub type cudaStream_t = driver::sys::CUstream;

pub type cudaEvent_t = driver::sys::CUevent;

pub type cudaGraphicsResource_t = driver::sys::CUgraphicsResource;

pub type cudaExternalMemory_t = driver::sys::CUexternalMemory;

pub type cudaExternalSemaphore_t = driver::sys::CUexternalSemaphore;

pub type cudaGraph_t = driver::sys::CUgraph;

pub type cudaGraphNode_t = driver::sys::CUgraphNode;

pub type cudaUserObject_t = driver::sys::CUuserObject;

pub type cudaGraphConditionalHandle = u64;

pub type cudaFunction_t = driver::sys::CUfunction;

pub type cudaKernel_t = driver::sys::CUkernel;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaJitOption(pub u32);
impl cudaJitOption {
    pub const cudaJitMaxRegisters: Self = Self(0);
    pub const cudaJitThreadsPerBlock: Self = Self(1);
    pub const cudaJitWallTime: Self = Self(2);
    pub const cudaJitInfoLogBuffer: Self = Self(3);
    pub const cudaJitInfoLogBufferSizeBytes: Self = Self(4);
    pub const cudaJitErrorLogBuffer: Self = Self(5);
    pub const cudaJitErrorLogBufferSizeBytes: Self = Self(6);
    pub const cudaJitOptimizationLevel: Self = Self(7);
    pub const cudaJitFallbackStrategy: Self = Self(10);
    pub const cudaJitGenerateDebugInfo: Self = Self(11);
    pub const cudaJitLogVerbose: Self = Self(12);
    pub const cudaJitGenerateLineInfo: Self = Self(13);
    pub const cudaJitCacheMode: Self = Self(14);
    pub const cudaJitPositionIndependentCode: Self = Self(30);
    pub const cudaJitMinCtaPerSm: Self = Self(31);
    pub const cudaJitMaxThreadsPerBlock: Self = Self(32);
    pub const cudaJitOverrideDirectiveValues: Self = Self(33);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaLibraryOption(pub u32);
impl cudaLibraryOption {
    pub const cudaLibraryHostUniversalFunctionAndDataTable: Self = Self(0);
    pub const cudaLibraryBinaryIsPreserved: Self = Self(1);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaJit_CacheMode(pub u32);
impl cudaJit_CacheMode {
    pub const cudaJitCacheOptionNone: Self = Self(0);
    pub const cudaJitCacheOptionCG: Self = Self(1);
    pub const cudaJitCacheOptionCA: Self = Self(2);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaJit_Fallback(pub u32);
impl cudaJit_Fallback {
    pub const cudaPreferPtx: Self = Self(0);
    pub const cudaPreferBinary: Self = Self(1);
}

pub type cudaLibrary_t = driver::sys::CUlibrary;

pub type cudaMemPool_t = driver::sys::CUmemoryPool;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaCGScope(pub u32);
impl cudaCGScope {
    pub const cudaCGScopeInvalid: Self = Self(0);
    pub const cudaCGScopeGrid: Self = Self(1);
    pub const cudaCGScopeReserved: Self = Self(2);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaKernelNodeParams {
    pub func: *mut c_void,
    pub gridDim: dim3,
    pub blockDim: dim3,
    pub sharedMemBytes: u32,
    pub kernelParams: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}
const _: () = assert!(size_of::<cudaKernelNodeParams>() == 56 && align_of::<cudaKernelNodeParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParams, func) == 0);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParams, gridDim) == 8);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParams, blockDim) == 20);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParams, sharedMemBytes) == 32);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParams, kernelParams) == 40);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParams, extra) == 48);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaKernelNodeParamsV2 {
    pub func: *mut c_void,
    pub gridDim: dim3,
    pub blockDim: dim3,
    pub sharedMemBytes: u32,
    pub kernelParams: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}
const _: () = assert!(size_of::<cudaKernelNodeParamsV2>() == 56 && align_of::<cudaKernelNodeParamsV2>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParamsV2, func) == 0);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParamsV2, gridDim) == 8);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParamsV2, blockDim) == 20);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParamsV2, sharedMemBytes) == 32);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParamsV2, kernelParams) == 40);
const _: () = assert!(std::mem::offset_of!(cudaKernelNodeParamsV2, extra) == 48);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreSignalNodeParams {
    pub extSemArray: *mut cudaExternalSemaphore_t,
    pub paramsArray: *const cudaExternalSemaphoreSignalParams,
    pub numExtSems: u32,
}
const _: () = assert!(
    size_of::<cudaExternalSemaphoreSignalNodeParams>() == 24
        && align_of::<cudaExternalSemaphoreSignalNodeParams>() == 8
);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreSignalNodeParams, extSemArray) == 0);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreSignalNodeParams, paramsArray) == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreSignalNodeParams, numExtSems) == 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreSignalNodeParamsV2 {
    pub extSemArray: *mut cudaExternalSemaphore_t,
    pub paramsArray: *const cudaExternalSemaphoreSignalParams,
    pub numExtSems: u32,
}
const _: () = assert!(
    size_of::<cudaExternalSemaphoreSignalNodeParamsV2>() == 24
        && align_of::<cudaExternalSemaphoreSignalNodeParamsV2>() == 8
);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreSignalNodeParamsV2, extSemArray) == 0);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreSignalNodeParamsV2, paramsArray) == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreSignalNodeParamsV2, numExtSems) == 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreWaitNodeParams {
    pub extSemArray: *mut cudaExternalSemaphore_t,
    pub paramsArray: *const cudaExternalSemaphoreWaitParams,
    pub numExtSems: u32,
}
const _: () = assert!(
    size_of::<cudaExternalSemaphoreWaitNodeParams>() == 24 && align_of::<cudaExternalSemaphoreWaitNodeParams>() == 8
);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreWaitNodeParams, extSemArray) == 0);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreWaitNodeParams, paramsArray) == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreWaitNodeParams, numExtSems) == 16);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaExternalSemaphoreWaitNodeParamsV2 {
    pub extSemArray: *mut cudaExternalSemaphore_t,
    pub paramsArray: *const cudaExternalSemaphoreWaitParams,
    pub numExtSems: u32,
}
const _: () = assert!(
    size_of::<cudaExternalSemaphoreWaitNodeParamsV2>() == 24
        && align_of::<cudaExternalSemaphoreWaitNodeParamsV2>() == 8
);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreWaitNodeParamsV2, extSemArray) == 0);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreWaitNodeParamsV2, paramsArray) == 8);
const _: () = assert!(std::mem::offset_of!(cudaExternalSemaphoreWaitNodeParamsV2, numExtSems) == 16);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphConditionalHandleFlags(pub u32);
impl cudaGraphConditionalHandleFlags {
    pub const cudaGraphCondAssignDefault: Self = Self(1);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphConditionalNodeType(pub u32);
impl cudaGraphConditionalNodeType {
    pub const cudaGraphCondTypeIf: Self = Self(0);
    pub const cudaGraphCondTypeWhile: Self = Self(1);
    pub const cudaGraphCondTypeSwitch: Self = Self(2);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaConditionalNodeParams {
    pub handle: cudaGraphConditionalHandle,
    pub r#type: cudaGraphConditionalNodeType,
    pub size: u32,
    pub phGraph_out: *mut cudaGraph_t,
}
const _: () = assert!(size_of::<cudaConditionalNodeParams>() == 24 && align_of::<cudaConditionalNodeParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaConditionalNodeParams, handle) == 0);
const _: () = assert!(std::mem::offset_of!(cudaConditionalNodeParams, r#type) == 8);
const _: () = assert!(std::mem::offset_of!(cudaConditionalNodeParams, size) == 12);
const _: () = assert!(std::mem::offset_of!(cudaConditionalNodeParams, phGraph_out) == 16);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphNodeType(pub u32);
impl cudaGraphNodeType {
    pub const cudaGraphNodeTypeKernel: Self = Self(0);
    pub const cudaGraphNodeTypeMemcpy: Self = Self(1);
    pub const cudaGraphNodeTypeMemset: Self = Self(2);
    pub const cudaGraphNodeTypeHost: Self = Self(3);
    pub const cudaGraphNodeTypeGraph: Self = Self(4);
    pub const cudaGraphNodeTypeEmpty: Self = Self(5);
    pub const cudaGraphNodeTypeWaitEvent: Self = Self(6);
    pub const cudaGraphNodeTypeEventRecord: Self = Self(7);
    pub const cudaGraphNodeTypeExtSemaphoreSignal: Self = Self(8);
    pub const cudaGraphNodeTypeExtSemaphoreWait: Self = Self(9);
    pub const cudaGraphNodeTypeMemAlloc: Self = Self(10);
    pub const cudaGraphNodeTypeMemFree: Self = Self(11);
    pub const cudaGraphNodeTypeConditional: Self = Self(13);
    pub const cudaGraphNodeTypeCount: Self = Self(14);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphChildGraphNodeOwnership(pub u32);
impl cudaGraphChildGraphNodeOwnership {
    pub const cudaGraphChildGraphOwnershipClone: Self = Self(0);
    pub const cudaGraphChildGraphOwnershipMove: Self = Self(1);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaChildGraphNodeParams {
    pub graph: cudaGraph_t,
    pub ownership: cudaGraphChildGraphNodeOwnership,
}
const _: () = assert!(size_of::<cudaChildGraphNodeParams>() == 16 && align_of::<cudaChildGraphNodeParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaChildGraphNodeParams, graph) == 0);
const _: () = assert!(std::mem::offset_of!(cudaChildGraphNodeParams, ownership) == 8);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaEventRecordNodeParams {
    pub event: cudaEvent_t,
}
const _: () = assert!(size_of::<cudaEventRecordNodeParams>() == 8 && align_of::<cudaEventRecordNodeParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaEventRecordNodeParams, event) == 0);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaEventWaitNodeParams {
    pub event: cudaEvent_t,
}
const _: () = assert!(size_of::<cudaEventWaitNodeParams>() == 8 && align_of::<cudaEventWaitNodeParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaEventWaitNodeParams, event) == 0);

#[repr(C)]
#[derive(Clone, Copy)]
pub union cudaGraphNodeParams_anonymous1 {
    pub reserved1: [i64; 29],
    pub kernel: cudaKernelNodeParamsV2,
    pub memcpy: cudaMemcpyNodeParams,
    pub memset: cudaMemsetParamsV2,
    pub host: cudaHostNodeParamsV2,
    pub graph: cudaChildGraphNodeParams,
    pub eventWait: cudaEventWaitNodeParams,
    pub eventRecord: cudaEventRecordNodeParams,
    pub extSemSignal: cudaExternalSemaphoreSignalNodeParamsV2,
    pub extSemWait: cudaExternalSemaphoreWaitNodeParamsV2,
    pub alloc: cudaMemAllocNodeParamsV2,
    pub free: cudaMemFreeNodeParams,
    pub conditional: cudaConditionalNodeParams,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaGraphNodeParams {
    pub r#type: cudaGraphNodeType,
    pub reserved0: [i32; 3],
    pub anonymous1: cudaGraphNodeParams_anonymous1,
    pub reserved2: i64,
}
const _: () = assert!(size_of::<cudaGraphNodeParams>() == 256 && align_of::<cudaGraphNodeParams>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaGraphNodeParams, r#type) == 0);
const _: () = assert!(std::mem::offset_of!(cudaGraphNodeParams, reserved0) == 4);
const _: () = assert!(std::mem::offset_of!(cudaGraphNodeParams, reserved2) == 248);

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphDependencyType_enum(pub u32);
impl cudaGraphDependencyType_enum {
    pub const cudaGraphDependencyTypeDefault: Self = Self(0);
    pub const cudaGraphDependencyTypeProgrammatic: Self = Self(1);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaGraphEdgeData_st {
    pub from_port: u8,
    pub to_port: u8,
    pub r#type: u8,
    pub reserved: [u8; 5],
}
const _: () = assert!(size_of::<cudaGraphEdgeData_st>() == 8 && align_of::<cudaGraphEdgeData_st>() == 1);
const _: () = assert!(std::mem::offset_of!(cudaGraphEdgeData_st, from_port) == 0);
const _: () = assert!(std::mem::offset_of!(cudaGraphEdgeData_st, to_port) == 1);
const _: () = assert!(std::mem::offset_of!(cudaGraphEdgeData_st, r#type) == 2);
const _: () = assert!(std::mem::offset_of!(cudaGraphEdgeData_st, reserved) == 3);

pub type cudaGraphEdgeData = cudaGraphEdgeData_st;

pub type cudaGraphExec_t = driver::sys::CUgraphExec;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphExecUpdateResult(pub u32);
impl cudaGraphExecUpdateResult {
    pub const cudaGraphExecUpdateSuccess: Self = Self(0);
    pub const cudaGraphExecUpdateError: Self = Self(1);
    pub const cudaGraphExecUpdateErrorTopologyChanged: Self = Self(2);
    pub const cudaGraphExecUpdateErrorNodeTypeChanged: Self = Self(3);
    pub const cudaGraphExecUpdateErrorFunctionChanged: Self = Self(4);
    pub const cudaGraphExecUpdateErrorParametersChanged: Self = Self(5);
    pub const cudaGraphExecUpdateErrorNotSupported: Self = Self(6);
    pub const cudaGraphExecUpdateErrorUnsupportedFunctionChange: Self = Self(7);
    pub const cudaGraphExecUpdateErrorAttributesChanged: Self = Self(8);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphInstantiateResult(pub u32);
impl cudaGraphInstantiateResult {
    pub const cudaGraphInstantiateSuccess: Self = Self(0);
    pub const cudaGraphInstantiateError: Self = Self(1);
    pub const cudaGraphInstantiateInvalidStructure: Self = Self(2);
    pub const cudaGraphInstantiateNodeOperationNotSupported: Self = Self(3);
    pub const cudaGraphInstantiateMultipleDevicesNotSupported: Self = Self(4);
    pub const cudaGraphInstantiateConditionalHandleUnused: Self = Self(5);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaGraphInstantiateParams_st {
    pub flags: u64,
    pub uploadStream: cudaStream_t,
    pub errNode_out: cudaGraphNode_t,
    pub result_out: cudaGraphInstantiateResult,
}
const _: () =
    assert!(size_of::<cudaGraphInstantiateParams_st>() == 32 && align_of::<cudaGraphInstantiateParams_st>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaGraphInstantiateParams_st, flags) == 0);
const _: () = assert!(std::mem::offset_of!(cudaGraphInstantiateParams_st, uploadStream) == 8);
const _: () = assert!(std::mem::offset_of!(cudaGraphInstantiateParams_st, errNode_out) == 16);
const _: () = assert!(std::mem::offset_of!(cudaGraphInstantiateParams_st, result_out) == 24);

pub type cudaGraphInstantiateParams = cudaGraphInstantiateParams_st;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaGraphExecUpdateResultInfo_st {
    pub result: cudaGraphExecUpdateResult,
    pub errorNode: cudaGraphNode_t,
    pub errorFromNode: cudaGraphNode_t,
}
const _: () =
    assert!(size_of::<cudaGraphExecUpdateResultInfo_st>() == 24 && align_of::<cudaGraphExecUpdateResultInfo_st>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaGraphExecUpdateResultInfo_st, result) == 0);
const _: () = assert!(std::mem::offset_of!(cudaGraphExecUpdateResultInfo_st, errorNode) == 8);
const _: () = assert!(std::mem::offset_of!(cudaGraphExecUpdateResultInfo_st, errorFromNode) == 16);

pub type cudaGraphExecUpdateResultInfo = cudaGraphExecUpdateResultInfo_st;

pub type cudaGraphDeviceNode_t = driver::sys::CUgraphDeviceNode;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphKernelNodeField(pub u32);
impl cudaGraphKernelNodeField {
    pub const cudaGraphKernelNodeFieldInvalid: Self = Self(0);
    pub const cudaGraphKernelNodeFieldGridDim: Self = Self(1);
    pub const cudaGraphKernelNodeFieldParam: Self = Self(2);
    pub const cudaGraphKernelNodeFieldEnabled: Self = Self(3);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGetDriverEntryPointFlags(pub u32);
impl cudaGetDriverEntryPointFlags {
    pub const cudaEnableDefault: Self = Self(0);
    pub const cudaEnableLegacyStream: Self = Self(1);
    pub const cudaEnablePerThreadDefaultStream: Self = Self(2);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaDriverEntryPointQueryResult(pub u32);
impl cudaDriverEntryPointQueryResult {
    pub const cudaDriverEntryPointSuccess: Self = Self(0);
    pub const cudaDriverEntryPointSymbolNotFound: Self = Self(1);
    pub const cudaDriverEntryPointVersionNotSufficent: Self = Self(2);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphDebugDotFlags(pub u32);
impl cudaGraphDebugDotFlags {
    pub const cudaGraphDebugDotFlagsVerbose: Self = Self(1);
    pub const cudaGraphDebugDotFlagsKernelNodeParams: Self = Self(4);
    pub const cudaGraphDebugDotFlagsMemcpyNodeParams: Self = Self(8);
    pub const cudaGraphDebugDotFlagsMemsetNodeParams: Self = Self(16);
    pub const cudaGraphDebugDotFlagsHostNodeParams: Self = Self(32);
    pub const cudaGraphDebugDotFlagsEventNodeParams: Self = Self(64);
    pub const cudaGraphDebugDotFlagsExtSemasSignalNodeParams: Self = Self(128);
    pub const cudaGraphDebugDotFlagsExtSemasWaitNodeParams: Self = Self(256);
    pub const cudaGraphDebugDotFlagsKernelNodeAttributes: Self = Self(512);
    pub const cudaGraphDebugDotFlagsHandles: Self = Self(1024);
    pub const cudaGraphDebugDotFlagsConditionalNodeParams: Self = Self(32768);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaGraphInstantiateFlags(pub u32);
impl cudaGraphInstantiateFlags {
    pub const cudaGraphInstantiateFlagAutoFreeOnLaunch: Self = Self(1);
    pub const cudaGraphInstantiateFlagUpload: Self = Self(2);
    pub const cudaGraphInstantiateFlagDeviceLaunch: Self = Self(4);
    pub const cudaGraphInstantiateFlagUseNodePriority: Self = Self(8);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaLaunchMemSyncDomain(pub u32);
impl cudaLaunchMemSyncDomain {
    pub const cudaLaunchMemSyncDomainDefault: Self = Self(0);
    pub const cudaLaunchMemSyncDomainRemote: Self = Self(1);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaLaunchMemSyncDomainMap_st {
    pub default_: u8,
    pub remote: u8,
}
const _: () =
    assert!(size_of::<cudaLaunchMemSyncDomainMap_st>() == 2 && align_of::<cudaLaunchMemSyncDomainMap_st>() == 1);
const _: () = assert!(std::mem::offset_of!(cudaLaunchMemSyncDomainMap_st, default_) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchMemSyncDomainMap_st, remote) == 1);

pub type cudaLaunchMemSyncDomainMap = cudaLaunchMemSyncDomainMap_st;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaLaunchAttributeID(pub u32);
impl cudaLaunchAttributeID {
    pub const cudaLaunchAttributeIgnore: Self = Self(0);
    pub const cudaLaunchAttributeAccessPolicyWindow: Self = Self(1);
    pub const cudaLaunchAttributeCooperative: Self = Self(2);
    pub const cudaLaunchAttributeSynchronizationPolicy: Self = Self(3);
    pub const cudaLaunchAttributeClusterDimension: Self = Self(4);
    pub const cudaLaunchAttributeClusterSchedulingPolicyPreference: Self = Self(5);
    pub const cudaLaunchAttributeProgrammaticStreamSerialization: Self = Self(6);
    pub const cudaLaunchAttributeProgrammaticEvent: Self = Self(7);
    pub const cudaLaunchAttributePriority: Self = Self(8);
    pub const cudaLaunchAttributeMemSyncDomainMap: Self = Self(9);
    pub const cudaLaunchAttributeMemSyncDomain: Self = Self(10);
    pub const cudaLaunchAttributePreferredClusterDimension: Self = Self(11);
    pub const cudaLaunchAttributeLaunchCompletionEvent: Self = Self(12);
    pub const cudaLaunchAttributeDeviceUpdatableKernelNode: Self = Self(13);
    pub const cudaLaunchAttributePreferredSharedMemoryCarveout: Self = Self(14);
    pub const cudaLaunchAttributeNvlinkUtilCentricScheduling: Self = Self(16);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaLaunchAttributeValue_clusterDim {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaLaunchAttributeValue_programmaticEvent {
    pub event: cudaEvent_t,
    pub flags: i32,
    pub triggerAtBlockStart: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaLaunchAttributeValue_preferredClusterDim {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaLaunchAttributeValue_launchCompletionEvent {
    pub event: cudaEvent_t,
    pub flags: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaLaunchAttributeValue_deviceUpdatableKernelNode {
    pub deviceUpdatable: i32,
    pub devNode: cudaGraphDeviceNode_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union cudaLaunchAttributeValue {
    pub pad: [c_char; 64],
    pub accessPolicyWindow: cudaAccessPolicyWindow,
    pub cooperative: i32,
    pub syncPolicy: cudaSynchronizationPolicy,
    pub clusterDim: cudaLaunchAttributeValue_clusterDim,
    pub clusterSchedulingPolicyPreference: cudaClusterSchedulingPolicy,
    pub programmaticStreamSerializationAllowed: i32,
    pub programmaticEvent: cudaLaunchAttributeValue_programmaticEvent,
    pub priority: i32,
    pub memSyncDomainMap: cudaLaunchMemSyncDomainMap,
    pub memSyncDomain: cudaLaunchMemSyncDomain,
    pub preferredClusterDim: cudaLaunchAttributeValue_preferredClusterDim,
    pub launchCompletionEvent: cudaLaunchAttributeValue_launchCompletionEvent,
    pub deviceUpdatableKernelNode: cudaLaunchAttributeValue_deviceUpdatableKernelNode,
    pub sharedMemCarveout: u32,
    pub nvlinkUtilCentricScheduling: u32,
}
const _: () = assert!(size_of::<cudaLaunchAttributeValue>() == 64 && align_of::<cudaLaunchAttributeValue>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, pad) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, accessPolicyWindow) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, cooperative) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, syncPolicy) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, clusterDim) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, clusterSchedulingPolicyPreference) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, programmaticStreamSerializationAllowed) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, programmaticEvent) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, priority) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, memSyncDomainMap) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, memSyncDomain) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, preferredClusterDim) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, launchCompletionEvent) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, deviceUpdatableKernelNode) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, sharedMemCarveout) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttributeValue, nvlinkUtilCentricScheduling) == 0);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaLaunchAttribute_st {
    pub id: cudaLaunchAttributeID,
    pub pad: [c_char; 4],
    pub val: cudaLaunchAttributeValue,
}
const _: () = assert!(size_of::<cudaLaunchAttribute_st>() == 72 && align_of::<cudaLaunchAttribute_st>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttribute_st, id) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttribute_st, pad) == 4);
const _: () = assert!(std::mem::offset_of!(cudaLaunchAttribute_st, val) == 8);

pub type cudaLaunchAttribute = cudaLaunchAttribute_st;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaLaunchConfig_st {
    pub gridDim: dim3,
    pub blockDim: dim3,
    pub dynamicSmemBytes: usize,
    pub stream: cudaStream_t,
    pub attrs: *mut cudaLaunchAttribute,
    pub numAttrs: u32,
}
const _: () = assert!(size_of::<cudaLaunchConfig_st>() == 56 && align_of::<cudaLaunchConfig_st>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaLaunchConfig_st, gridDim) == 0);
const _: () = assert!(std::mem::offset_of!(cudaLaunchConfig_st, blockDim) == 12);
const _: () = assert!(std::mem::offset_of!(cudaLaunchConfig_st, dynamicSmemBytes) == 24);
const _: () = assert!(std::mem::offset_of!(cudaLaunchConfig_st, stream) == 32);
const _: () = assert!(std::mem::offset_of!(cudaLaunchConfig_st, attrs) == 40);
const _: () = assert!(std::mem::offset_of!(cudaLaunchConfig_st, numAttrs) == 48);

pub type cudaLaunchConfig_t = cudaLaunchConfig_st;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaDeviceNumaConfig(pub u32);
impl cudaDeviceNumaConfig {
    pub const cudaDeviceNumaConfigNone: Self = Self(0);
    pub const cudaDeviceNumaConfigNumaNode: Self = Self(1);
}

pub type cudaAsyncCallbackHandle_t = driver::sys::CUasyncCallbackHandle;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaAsyncNotificationType_enum(pub u32);
impl cudaAsyncNotificationType_enum {
    pub const cudaAsyncNotificationTypeOverBudget: Self = Self(1);
}

pub type cudaAsyncNotificationType = cudaAsyncNotificationType_enum;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaAsyncNotificationInfo_info_overBudget {
    pub bytesOverBudget: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union cudaAsyncNotificationInfo_info {
    pub overBudget: cudaAsyncNotificationInfo_info_overBudget,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaAsyncNotificationInfo {
    pub r#type: cudaAsyncNotificationType,
    pub info: cudaAsyncNotificationInfo_info,
}
const _: () = assert!(size_of::<cudaAsyncNotificationInfo>() == 16 && align_of::<cudaAsyncNotificationInfo>() == 8);
const _: () = assert!(std::mem::offset_of!(cudaAsyncNotificationInfo, r#type) == 0);
const _: () = assert!(std::mem::offset_of!(cudaAsyncNotificationInfo, info) == 8);

pub type cudaAsyncNotificationInfo_t = cudaAsyncNotificationInfo;

pub type cudaAsyncCallback =
    Option<unsafe extern "C" fn(*mut cudaAsyncNotificationInfo_t, *mut c_void, cudaAsyncCallbackHandle_t)>;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CUDAlogLevel_enum(pub u32);
impl CUDAlogLevel_enum {
    pub const cudaLogLevelError: Self = Self(0);
    pub const cudaLogLevelWarning: Self = Self(1);
}

pub type cudaLogLevel = CUDAlogLevel_enum;

pub type cudaLogsCallbackHandle = driver::sys::CUlogsCallbackHandle;

pub type cudaLogIterator = u32;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaSurfaceBoundaryMode(pub u32);
impl cudaSurfaceBoundaryMode {
    pub const cudaBoundaryModeZero: Self = Self(0);
    pub const cudaBoundaryModeClamp: Self = Self(1);
    pub const cudaBoundaryModeTrap: Self = Self(2);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaSurfaceFormatMode(pub u32);
impl cudaSurfaceFormatMode {
    pub const cudaFormatModeForced: Self = Self(0);
    pub const cudaFormatModeAuto: Self = Self(1);
}

pub type cudaSurfaceObject_t = u64;

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaTextureAddressMode(pub u32);
impl cudaTextureAddressMode {
    pub const cudaAddressModeWrap: Self = Self(0);
    pub const cudaAddressModeClamp: Self = Self(1);
    pub const cudaAddressModeMirror: Self = Self(2);
    pub const cudaAddressModeBorder: Self = Self(3);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaTextureFilterMode(pub u32);
impl cudaTextureFilterMode {
    pub const cudaFilterModePoint: Self = Self(0);
    pub const cudaFilterModeLinear: Self = Self(1);
}

#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct cudaTextureReadMode(pub u32);
impl cudaTextureReadMode {
    pub const cudaReadModeElementType: Self = Self(0);
    pub const cudaReadModeNormalizedFloat: Self = Self(1);
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cudaTextureDesc {
    pub addressMode: [cudaTextureAddressMode; 3],
    pub filterMode: cudaTextureFilterMode,
    pub readMode: cudaTextureReadMode,
    pub sRGB: i32,
    pub borderColor: [f32; 4],
    pub normalizedCoords: i32,
    pub maxAnisotropy: u32,
    pub mipmapFilterMode: cudaTextureFilterMode,
    pub mipmapLevelBias: f32,
    pub minMipmapLevelClamp: f32,
    pub maxMipmapLevelClamp: f32,
    pub disableTrilinearOptimization: i32,
    pub seamlessCubemap: i32,
}
const _: () = assert!(size_of::<cudaTextureDesc>() == 72 && align_of::<cudaTextureDesc>() == 4);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, addressMode) == 0);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, filterMode) == 12);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, readMode) == 16);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, sRGB) == 20);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, borderColor) == 24);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, normalizedCoords) == 40);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, maxAnisotropy) == 44);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, mipmapFilterMode) == 48);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, mipmapLevelBias) == 52);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, minMipmapLevelClamp) == 56);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, maxMipmapLevelClamp) == 60);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, disableTrilinearOptimization) == 64);
const _: () = assert!(std::mem::offset_of!(cudaTextureDesc, seamlessCubemap) == 68);

pub type cudaTextureObject_t = u64;

pub type cudaStreamCallback_t = Option<unsafe extern "C" fn(cudaStream_t, cudaError_t, *mut c_void)>;

pub type cudaLogsCallback_t = Option<unsafe extern "C" fn(*mut c_void, cudaLogLevel, *mut c_char, usize)>;

pub const cudaArrayColorAttachment: u32 = 32;
pub const cudaArrayCubemap: u32 = 4;
pub const cudaArrayDefault: u32 = 0;
pub const cudaArrayDeferredMapping: u32 = 128;
pub const cudaArrayLayered: u32 = 1;
pub const cudaArraySparse: u32 = 64;
pub const cudaArraySparsePropertiesSingleMipTail: u32 = 1;
pub const cudaArraySurfaceLoadStore: u32 = 2;
pub const cudaArrayTextureGather: u32 = 8;
pub const cudaDeviceBlockingSync: u32 = 4;
pub const cudaDeviceLmemResizeToMax: u32 = 16;
pub const cudaDeviceMapHost: u32 = 8;
pub const cudaDeviceMask: u32 = 255;
pub const cudaDeviceScheduleAuto: u32 = 0;
pub const cudaDeviceScheduleBlockingSync: u32 = 4;
pub const cudaDeviceScheduleMask: u32 = 7;
pub const cudaDeviceScheduleSpin: u32 = 1;
pub const cudaDeviceScheduleYield: u32 = 2;
pub const cudaDeviceSyncMemops: u32 = 128;
pub const cudaEventBlockingSync: u32 = 1;
pub const cudaEventDefault: u32 = 0;
pub const cudaEventDisableTiming: u32 = 2;
pub const cudaEventInterprocess: u32 = 4;
pub const cudaEventRecordDefault: u32 = 0;
pub const cudaEventRecordExternal: u32 = 1;
pub const cudaEventWaitDefault: u32 = 0;
pub const cudaEventWaitExternal: u32 = 1;
pub const cudaExternalMemoryDedicated: u32 = 1;
pub const cudaExternalSemaphoreSignalSkipNvSciBufMemSync: u32 = 1;
pub const cudaExternalSemaphoreWaitSkipNvSciBufMemSync: u32 = 2;
pub const cudaGraphKernelNodePortDefault: u32 = 0;
pub const cudaGraphKernelNodePortLaunchCompletion: u32 = 2;
pub const cudaGraphKernelNodePortProgrammatic: u32 = 1;
pub const cudaHostAllocDefault: u32 = 0;
pub const cudaHostAllocMapped: u32 = 2;
pub const cudaHostAllocPortable: u32 = 1;
pub const cudaHostAllocWriteCombined: u32 = 4;
pub const cudaHostRegisterDefault: u32 = 0;
pub const cudaHostRegisterIoMemory: u32 = 4;
pub const cudaHostRegisterMapped: u32 = 2;
pub const cudaHostRegisterPortable: u32 = 1;
pub const cudaHostRegisterReadOnly: u32 = 8;
pub const cudaInitDeviceFlagsAreValid: u32 = 1;
pub const cudaIpcMemLazyEnablePeerAccess: u32 = 1;
pub const cudaMemAttachGlobal: u32 = 1;
pub const cudaMemAttachHost: u32 = 2;
pub const cudaMemAttachSingle: u32 = 4;
pub const cudaMemPoolCreateUsageHwDecompress: u32 = 2;
pub const cudaNvSciSyncAttrSignal: u32 = 1;
pub const cudaNvSciSyncAttrWait: u32 = 2;
pub const cudaOccupancyDefault: u32 = 0;
pub const cudaOccupancyDisableCachingOverride: u32 = 1;
pub const cudaPeerAccessDefault: u32 = 0;
pub const cudaStreamDefault: u32 = 0;
pub const cudaStreamNonBlocking: u32 = 1;
pub const cudaSurfaceType1D: u32 = 1;
pub const cudaSurfaceType1DLayered: u32 = 241;
pub const cudaSurfaceType2D: u32 = 2;
pub const cudaSurfaceType2DLayered: u32 = 242;
pub const cudaSurfaceType3D: u32 = 3;
pub const cudaSurfaceTypeCubemap: u32 = 12;
pub const cudaSurfaceTypeCubemapLayered: u32 = 252;
pub const cudaTextureType1D: u32 = 1;
pub const cudaTextureType1DLayered: u32 = 241;
pub const cudaTextureType2D: u32 = 2;
pub const cudaTextureType2DLayered: u32 = 242;
pub const cudaTextureType3D: u32 = 3;
pub const cudaTextureTypeCubemap: u32 = 12;
pub const cudaTextureTypeCubemapLayered: u32 = 252;
