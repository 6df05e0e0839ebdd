//! Access to the table of functions by position.

use crate::{Api, COUNT};

impl Api {
    /// Addresses of all functions in the order of [`crate::FUNCTIONS`]; 0 where there
    /// is none.
    pub fn addresses(&self) -> &[usize; COUNT] {
        // SAFETY: Api is repr(C) and consists of COUNT fields, each an
        // optional function pointer (generated/layout.rs asserts the size),
        // which has the size of usize and is 0 for None.
        unsafe { &*std::ptr::from_ref(self).cast::<[usize; COUNT]>() }
    }

    /// A table whose entries are given by address.
    ///
    /// # Safety
    /// Each address that is not 0 must be a function with the signature of the
    /// function at its position, callable as long as the table is in use.
    pub unsafe fn from_addresses(addresses: [usize; COUNT]) -> Api {
        // SAFETY: same layout as above; the caller vouches for the functions.
        unsafe { std::mem::transmute::<[usize; COUNT], Api>(addresses) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::CUresult;
    use crate::{FUNCTIONS, index};

    unsafe extern "C" fn init(_flags: u32) -> CUresult {
        CUresult::CUDA_ERROR_NO_DEVICE
    }

    #[test]
    fn a_field_and_its_position_agree() {
        let api = Api {
            cuInit: Some(init),
            ..Api::EMPTY
        };
        assert_eq!(FUNCTIONS[index::cuInit], "cuInit");
        for (position, address) in api.addresses().iter().enumerate() {
            assert_eq!(
                *address != 0,
                position == index::cuInit,
                "{}",
                FUNCTIONS[position]
            );
        }
        // SAFETY: the only non-zero address is `init`, which has cuInit's signature.
        let copy = unsafe { Api::from_addresses(*api.addresses()) };
        assert_eq!(
            copy.cuInit.map(|f| f as usize),
            Some(init as *const () as usize)
        );
    }
}
