//! Linkers collect PTX texts; the linking itself happens when they are loaded
//! together.

use crate::device::basics::Result;
use crate::device::state::Device;
use driver::sys::CUresult;

impl Device {
    /// `cuLinkCreate`
    pub fn linker_create(&self) -> u64 {
        let handle = self.handle();
        self.state.linkers.lock().insert(handle, Vec::new());
        handle
    }

    /// `cuLinkAddData`, `cuLinkAddFile`
    pub fn linker_add(&self, linker: u64, texts: Vec<String>) -> Result<()> {
        let mut linkers = self.state.linkers.lock();
        linkers
            .get_mut(&linker)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?
            .extend(texts);
        Ok(())
    }

    /// `cuLinkComplete`: the texts in the order in which they were added.
    pub fn linker_texts(&self, linker: u64) -> Result<Vec<String>> {
        let linkers = self.state.linkers.lock();
        linkers
            .get(&linker)
            .cloned()
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// `cuLinkDestroy`
    pub fn linker_destroy(&self, linker: u64) -> Result<()> {
        let mut linkers = self.state.linkers.lock();
        linkers
            .remove(&linker)
            .map(drop)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }
}
