//! A tenant's code: modules that are uploaded, loaded and unloaded, their kernels,
//! and launches of these.

use super::{Answer, Module, NotDone, Session, invalid, no_handle, over_quota};
use crate::modules::{self, Into, Kernel, Refused};
use crate::quiet::Waiter;
use crate::quota;
use driver::calls::Launch;
use driver::sys::{CUfunction_attribute, CUresult};
use protocol::{Attribute, Limit, Reply};
use std::sync::Arc;

impl Session {
    pub(super) fn kernel(&self, number: u32) -> Result<&Kernel, NotDone> {
        self.kernels.get(number).ok_or_else(|| no_handle("kernel"))
    }

    pub(super) fn upload(&mut self, payload: &[u8]) -> Answer {
        if (self.upload.len() + payload.len()) as u64 > quota::CODE {
            self.upload = Vec::new();
            return Err(Refused::TooLarge(quota::CODE + 1).into());
        }
        self.upload.extend_from_slice(payload);
        Ok(Reply::Done)
    }

    pub(super) fn load(&mut self) -> Answer {
        if self.pending.is_none() {
            let code = std::mem::take(&mut self.upload);
            if !self.modules.has_room_for(1) {
                return Err(over_quota("modules"));
            }
            let contained = modules::contain(&self.device, &code)?;
            self.pending = Some((contained, Waiter::new(&self.device.quiet)));
        }
        let Some((contained, mut waiter)) = self.pending.take() else {
            return Err(NotDone::Busy);
        };
        let device = Arc::clone(&self.device);
        let Some(quiescent) = waiter.try_enter(&device.quiet, &device.context)? else {
            self.pending = Some((contained, waiter));
            return Err(NotDone::Busy);
        };
        let stream = self.lanes.put_in(&quiescent, crate::lanes::DEFAULT)?;
        let mut into = Into {
            device: &device,
            quiescent: &quiescent,
            partition: &self.partition,
            memory: &mut self.memory,
            library: &mut self.library,
            stream: &stream,
        };
        let loaded = modules::load(&mut into, contained)?;
        drop(stream);
        drop(quiescent);
        if !self.kernels.has_room_for(loaded.kernels.len()) {
            modules::release(&loaded.variables, &mut self.memory);
            self.device.quiet.discard(Box::new(loaded));
            return Err(over_quota("kernels"));
        }
        let mut numbers = Vec::with_capacity(loaded.kernels.len());
        let mut kernels = Vec::with_capacity(loaded.kernels.len());
        for kernel in &loaded.kernels {
            let number = self.kernels.add(kernel.clone());
            let number = number.ok_or_else(|| over_quota("kernels"))?;
            numbers.push(number);
            kernels.push(protocol::Kernel {
                kernel: number,
                name: kernel.name.clone(),
                parameters: kernel.parameters.clone(),
                parameter_bytes: kernel.parameter_bytes,
                attributes: kernel.attributes(),
            });
        }
        let variables = loaded.variables.clone();
        let prints = loaded.uses.contains(&Limit::Print);
        let module = self.modules.add(Module {
            loaded,
            kernels: numbers,
        });
        Ok(Reply::Loaded(protocol::Loaded {
            module: module.ok_or_else(|| over_quota("modules"))?,
            kernels,
            variables,
            prints,
        }))
    }

    pub(super) fn unload(&mut self, number: u32) -> Answer {
        if self.modules.get(number).is_none() {
            return Err(no_handle("module"));
        }
        if !self.lanes.all_idle()? {
            return Err(NotDone::Busy);
        }
        if let Some(module) = self.modules.remove(number) {
            modules::release(&module.loaded.variables, &mut self.memory);
            for kernel in module.kernels {
                self.kernels.remove(kernel);
            }
            self.device.quiet.discard(Box::new(module.loaded));
        }
        Ok(Reply::Done)
    }

    pub(super) fn set_attribute(&mut self, kernel: u32, wanted: Attribute) -> Answer {
        use CUfunction_attribute as A;
        let kernel = self.kernel(kernel)?;
        let attribute = A(wanted.attribute);
        let is_own = matches!(
            attribute,
            A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                | A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        );
        if !is_own {
            return Err(NotDone::Failed(
                CUresult::CUDA_ERROR_NOT_SUPPORTED,
                format!("tenants cannot set attribute {} of a kernel", attribute.0),
            ));
        }
        kernel.function.set_attribute(attribute, wanted.value)?;
        Ok(Reply::Attributes(kernel.attributes()))
    }

    pub(super) fn launch(
        &mut self,
        kernel: u32,
        stream: u32,
        launch: Launch,
        parameters: &[u8],
    ) -> Answer {
        let kernel = self.kernels.get(kernel);
        let kernel = kernel.ok_or_else(|| no_handle("kernel"))?;
        if parameters.len() != kernel.parameter_bytes as usize {
            return Err(invalid("the parameters are not as long as the kernel's"));
        }
        if !self.device.fits(launch.grid, launch.block) {
            return Err(invalid("the grid or the block is too large, or empty"));
        }
        // Set before the launch: should it fail halfway, the counters are read.
        self.are_unread |= kernel.may_fail;
        self.library.launched(&kernel.uses);
        let stream = self.lanes.put(stream)?;
        kernel.function.launch(launch, parameters, &stream)?;
        Ok(Reply::Done)
    }
}
