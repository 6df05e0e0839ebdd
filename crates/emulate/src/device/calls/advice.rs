//! Advice about managed memory, kept for those who ask.

use crate::device::basics::Result;
use crate::device::objects::advice::{Advice, Advised};
use crate::device::state::Device;
use driver::sys::CUresult;

impl Device {
    /// Notes what a program says of memory of an allocation.
    pub fn advise(&self, address: u64, count: u64, advice: Advice) -> Result<()> {
        let info = self.pointer_info(address);
        let serial = info.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?.serial;
        let mut said = self.state.advice.lock();
        let range = address..address.saturating_add(count);
        said.entry(serial).or_default().add(range, advice);
        Ok(())
    }

    /// What a program has said of all of a range.
    pub fn advised(&self, address: u64, count: u64) -> Result<Advised> {
        let info = self.pointer_info(address);
        let serial = info.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?.serial;
        let range = address..address.saturating_add(count.max(1));
        let said = self.state.advice.lock();
        Ok(said
            .get(&serial)
            .map_or_else(Advised::default, |said| said.of(&range)))
    }
}
