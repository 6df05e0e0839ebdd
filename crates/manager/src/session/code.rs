//! A tenant's code: modules that are uploaded, loaded and unloaded, their kernels,
//! and launches of these.

use super::{Answer, Module, NotDone, Pending, Session, invalid, no_handle, over_quota};
use crate::blocks::{self, Room};
use crate::chains::Piece;
use crate::compile::Compiler;
use crate::memory::Use;
use crate::modules::{self, Into, Kernel, Refused};
use crate::quiet::Waiter;
use crate::quota::Waits;
use driver::calls::Launch;
use driver::sys::{CUfunction_attribute, CUresult};
use model::layout::fence::WORKSPACE_BYTES;
use protocol::{Attribute, DEFAULT_STREAM, Limit, Reply};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Session {
    pub(super) fn kernel(&self, number: u32) -> Result<&Kernel, NotDone> {
        self.kernels.get(number).ok_or_else(|| no_handle("kernel"))
    }

    pub(super) fn upload(&mut self, payload: &[u8]) -> Answer {
        if (self.upload.len() + payload.len()) as u64 > self.quota.code {
            self.upload = Vec::new();
            return Err(Refused::TooLarge(self.quota.code).into());
        }
        self.upload.extend_from_slice(payload);
        Ok(Reply::Done)
    }

    pub(super) fn load(&mut self) -> Answer {
        let device = Arc::clone(&self.device);
        let pending = match self.pending.take() {
            Some(pending) => pending,
            None => {
                let code = std::mem::take(&mut self.upload);
                if !self.modules.has_room_for(1) {
                    return Err(over_quota("modules"));
                }
                let longest = self.quota.code;
                Pending::Compiling(Compiler::start(&self.compiler, &device, code, longest))
            }
        };
        let (contained, mut waiter) = match pending {
            Pending::Compiling(job) => match job.result() {
                Some(result) => (
                    result.map_err(Refused::from)?,
                    Waiter::new(&self.device.quiet),
                ),
                None => {
                    self.pending = Some(Pending::Compiling(job));
                    return Err(NotDone::Busy);
                }
            },
            Pending::Compiled(contained, waiter) => (contained, waiter),
        };
        if !self.kernels.has_room_for(contained.kernels.len()) {
            return Err(over_quota("kernels"));
        }
        let Some(quiescent) = waiter.try_enter(&device.quiet, &device.context)? else {
            self.pending = Some(Pending::Compiled(contained, waiter));
            return Err(NotDone::Busy);
        };
        let stream = self.lanes.put_in(&quiescent, DEFAULT_STREAM)?;
        let mut into = Into {
            device: &device,
            quiescent: &quiescent,
            partition: &self.partition,
            memory: &mut self.memory,
            library: &mut self.library,
            stream: &stream,
        };
        let loaded = modules::load(&mut into, &contained)?;
        drop(stream);
        drop(quiescent);
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
        let count = loaded.kernels.len() as u64;
        self.tenant.kernels.fetch_add(count, Ordering::Relaxed);
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
        self.lanes.forget_launches()?;
        if let Some(module) = self.modules.remove(number) {
            modules::release(&module.loaded.variables, &mut self.memory);
            let count = module.kernels.len() as u64;
            self.tenant.kernels.fetch_sub(count, Ordering::Relaxed);
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
                // (Of clusters, which are refused where they are launched.)
                | A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
                | A::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
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
        number: u32,
        stream: u32,
        launch: Launch,
        parameters: Vec<u8>,
    ) -> Answer {
        let kernel = self.kernels.get(number);
        let kernel = kernel.ok_or_else(|| no_handle("kernel"))?;
        if parameters.len() != kernel.parameter_bytes as usize {
            return Err(invalid("the parameters are not as long as the kernel's"));
        }
        if !self.device.fits(launch.grid, launch.block) {
            return Err(invalid("the grid or the block is too large, or empty"));
        }
        if self.quota.waits == Waits::Proved
            && let Some(line) = kernel.ends.doubt(launch.block)
        {
            return Err(NotDone::Failed(
                CUresult::CUDA_ERROR_NOT_PERMITTED,
                format!(
                    "kernel `{}` may wait for ever, and the manager's --waits takes only those that are proved to end: lanes of a warp may wait in different orders, or for some lanes (line {line} of its fenced PTX)",
                    kernel.name
                ),
            ));
        }
        let (lanes, blocks) = (&mut self.lanes, blocks::of(launch.grid));
        match self.blocks.take(blocks, || lanes.all_idle())? {
            Room::Now => {}
            Room::Later => return Err(NotDone::Busy),
            Room::Never(most) => {
                return Err(NotDone::Failed(
                    CUresult::CUDA_ERROR_NOT_SUPPORTED,
                    format!(
                        "a grid of more than {most} blocks, which could not be ended within the manager's --kernel-time"
                    ),
                ));
            }
        }
        let workspace = match kernel.workspace {
            Some(_) if launch.is_cooperative => match self.take(WORKSPACE_BYTES, Use::Common) {
                Ok(address) => Some(address),
                Err(error) => {
                    self.blocks.give_back(blocks);
                    return Err(error);
                }
            },
            _ => None,
        };
        let launched = self.put_launch((number, stream, blocks), launch, parameters, workspace);
        // (Where nothing was put in, nothing will use it.)
        if let Some(address) = workspace
            && self.memory.is_block(address, Use::Common)
        {
            self.memory.give_back(address);
        }
        launched
    }

    /// Puts a launch into a stream, with the workspace of its grid.
    fn put_launch(
        &mut self,
        (kernel, stream, blocks): (u32, u32, u64),
        mut launch: Launch,
        parameters: Vec<u8>,
        workspace: Option<u64>,
    ) -> Answer {
        let kernel = self.kernels.get(kernel);
        let kernel = kernel.ok_or_else(|| no_handle("kernel"))?;
        launch.shared = launch.shared.max(kernel.least_shared);
        if blocks >= kernel.large {
            let told = kernel.table.large(&self.device.context);
            told.inspect_err(|_| self.blocks.give_back(blocks))?;
        }
        // Set before the launch: should it fail halfway, the counters are read.
        self.are_unread |= kernel.may_fail;
        self.library.launched(&kernel.uses);
        let share = self.device.share(blocks);
        let Some(offset) = kernel.workspace else {
            let piece = Piece {
                function: kernel.function.clone(),
                launch,
                parameters,
                share,
            };
            let put = self.lanes.launch(stream, piece);
            put.inspect_err(|_| self.blocks.give_back(blocks))?;
            self.tenant.launches.fetch_add(1, Ordering::Relaxed);
            return Ok(Reply::Done);
        };
        let put = self.lanes.put_of(stream, share);
        let stream = put.inspect_err(|_| self.blocks.give_back(blocks))?;
        if let Some(address) = workspace {
            let reservation = self.partition.reservation();
            let all = reservation.rows(address, WORKSPACE_BYTES, WORKSPACE_BYTES, 1)?;
            stream.fill(all, 4, 0)?;
        }
        let mut with_it = parameters;
        with_it.resize(offset as usize, 0);
        with_it.extend(workspace.unwrap_or(0).to_le_bytes());
        let launched = kernel.function.launch(launch, &with_it, &stream);
        if let Some(address) = workspace {
            self.memory.leave(address);
            self.leaving.add(&self.device.context, &stream, address)?;
        }
        launched?;
        self.tenant.launches.fetch_add(1, Ordering::Relaxed);
        Ok(Reply::Done)
    }
}
