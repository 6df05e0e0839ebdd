//! Initialization, and questions about the device: the manager answered all of
//! them when the program connected.

use crate::convert::{functions, name, only, put};
use crate::link::Link;
use driver::sys::*;
use std::ffi::c_char;
use std::sync::atomic::Ordering;

/// An attribute of the device.
pub(crate) fn attribute(link: &Link, wanted: CUdevice_attribute) -> Option<i32> {
    use CUdevice_attribute as A;
    // What is made here, whatever the device has.
    match wanted {
        A::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY | A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED => {
            return Some(1);
        }
        _ => {}
    }
    let all = &link.welcome.device.attributes;
    let found = all.iter().find(|known| known.attribute == wanted.0);
    found.map(|known| known.value)
}

/// What `cuDeviceGetPCIBusId` gives: the program sees no bus.
const BUS_ID: &str = "0000:00:00.0";

/// Writes a text that fits `room` bytes with its end.
///
/// # Safety
/// `to` is null or has room for `room` bytes.
unsafe fn put_text(to: *mut c_char, room: i32, text: &str) -> Result<(), CUresult> {
    let room = usize::try_from(room).unwrap_or(0);
    if to.is_null() || room == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let length = text.len().min(room - 1);
    // SAFETY: `length + 1 <= room`.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, length);
        to.add(length).write(0);
    }
    Ok(())
}

fn initialized(link: &Link) -> Result<(), CUresult> {
    match link.state.is_initialized.load(Ordering::Acquire) {
        true => Ok(()),
        false => Err(CUresult::CUDA_ERROR_NOT_INITIALIZED),
    }
}

functions! { link;
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        link.state.is_initialized.store(true, Ordering::Release);
        Ok(())
    }
    fn cuDriverGetVersion(version: *mut i32) {
        put(version, link.welcome.device.version)
    }
    fn cuDeviceGet(device: *mut CUdevice, ordinal: i32) {
        initialized(link)?;
        only(ordinal)?;
        put(device, 0)
    }
    fn cuDeviceGetCount(count: *mut i32) {
        initialized(link)?;
        put(count, 1)
    }
    fn cuDeviceGetName(text: *mut c_char, length: i32, device: CUdevice) {
        only(device)?;
        put_text(text, length, &link.welcome.device.name)
    }
    fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice) {
        only(device)?;
        put(uuid, CUuuid { bytes: link.welcome.device.uuid.map(|byte| byte as c_char) })
    }
    fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) {
        only(device)?;
        put(uuid, CUuuid { bytes: link.welcome.device.uuid.map(|byte| byte as c_char) })
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) {
        only(device)?;
        put(bytes, link.welcome.memory as usize)
    }
    fn cuDeviceGetAttribute(value: *mut i32, wanted: CUdevice_attribute, device: CUdevice) {
        only(device)?;
        put(value, attribute(link, wanted).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?)
    }
    fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: CUdevice) {
        only(device)?;
        let of = |wanted| attribute(link, wanted).unwrap_or(0);
        put(major, of(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR))?;
        put(minor, of(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR))
    }
    fn cuDeviceGetPCIBusId(text: *mut c_char, length: i32, device: CUdevice) {
        only(device)?;
        put_text(text, length, BUS_ID)
    }
    fn cuDeviceGetByPCIBusId(device: *mut CUdevice, text: *const c_char) {
        match name(text)? == BUS_ID {
            true => put(device, 0),
            false => Err(CUresult::CUDA_ERROR_INVALID_DEVICE),
        }
    }
    fn cuDeviceCanAccessPeer(value: *mut i32, device: CUdevice, peer: CUdevice) {
        only(device)?;
        only(peer)?;
        put(value, 0)
    }
}
