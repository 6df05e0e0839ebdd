//! Memory objects of Ringfence's own, released when they are dropped.

use crate::platform::call;
use crate::sys::*;

/// Ringfence's reference to a memory object.
#[derive(Debug)]
pub struct MemObject(usize);

impl MemObject {
    /// Wraps the result of a function that creates memory objects: handle and
    /// code. `None`: it made none.
    pub fn made(handle: cl_mem, code: cl_int) -> Option<MemObject> {
        (code == CL_SUCCESS && !handle.is_null()).then(|| MemObject(handle as usize))
    }

    /// A buffer without content of the program. `None`: the platform makes
    /// none.
    pub fn buffer(context: cl_context, flags: u64, bytes: usize) -> Option<MemObject> {
        let mut code = CL_SUCCESS;
        let none = std::ptr::null_mut();
        let made = call!(clCreateBuffer(context, flags, bytes, none, &raw mut code)
            else std::ptr::null_mut());
        MemObject::made(made, code)
    }

    /// A part of a buffer, which keeps the buffer alive.
    pub fn part(buffer: cl_mem, flags: u64, origin: usize, size: usize) -> Option<MemObject> {
        let region = cl_buffer_region { origin, size };
        let mut code = CL_SUCCESS;
        let part = call!(clCreateSubBuffer(
            buffer,
            flags,
            CL_BUFFER_CREATE_TYPE_REGION,
            (&raw const region).cast(),
            &raw mut code,
        ) else std::ptr::null_mut());
        MemObject::made(part, code)
    }

    /// The platform's handle, for as long as this is held.
    pub fn raw(&self) -> cl_mem {
        self.0 as cl_mem
    }

    /// Passes the reference to the program.
    pub fn into_raw(self) -> cl_mem {
        let handle = self.raw();
        std::mem::forget(self);
        handle
    }
}

impl Drop for MemObject {
    fn drop(&mut self) {
        call!(clReleaseMemObject(self.raw()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::fake::Fake;

    #[test]
    fn what_was_not_made_is_not_released() {
        let fake = Fake::new();
        // A release of an unknown object would fail the test.
        assert!(MemObject::made(std::ptr::null_mut(), CL_SUCCESS).is_none());
        assert!(MemObject::made(0x123 as cl_mem, CL_OUT_OF_RESOURCES).is_none());
        fake.has_room_for(8);
        assert!(MemObject::buffer(fake.context, 0, 16).is_none());
        assert_eq!(fake.mems(), 0);
    }

    #[test]
    fn a_part_keeps_its_buffer() {
        let fake = Fake::new();
        let whole = MemObject::buffer(fake.context, 0, 16).unwrap();
        let part = MemObject::part(whole.raw(), 0, 4, 8).unwrap();
        drop(whole);
        assert_eq!(fake.mems(), 2);
        drop(part);
        assert_eq!(fake.mems(), 0);
    }
}
