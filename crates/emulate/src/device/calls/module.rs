//! Modules and the functions and variables in them.

use crate::device::basics::Result;
use crate::device::objects::context;
use crate::device::objects::memory::Backing;
use crate::device::objects::module::{Function, FunctionInfo, Initial, Module};
use crate::device::properties;
use crate::device::state::Device;
use crate::engine::{LoadError, Program};
use driver::sys::{CUfunction_attribute as Attribute, CUresult};
use model::{AllocationKind, DeviceAddress, Extent};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

impl Device {
    /// Loads PTX texts, linked with each other, into the current context. The
    /// handle, or what is wrong with them as a code and in words.
    pub fn load_module(&self, parts: &[&str]) -> std::result::Result<u64, (CUresult, String)> {
        self.load(parts, context::current().unwrap_or(0))
    }

    /// As [`Device::load_module`], independent of any context: it stays when
    /// contexts go (`cuLibraryLoadData`).
    pub fn load_library(&self, parts: &[&str]) -> std::result::Result<u64, (CUresult, String)> {
        self.load(parts, 0)
    }

    fn load(&self, parts: &[&str], context: u64) -> std::result::Result<u64, (CUresult, String)> {
        // No context is needed: libraries are loaded before there is one.
        let ready = if self.is_initialized() {
            self.state.check()
        } else {
            Err(CUresult::CUDA_ERROR_NOT_INITIALIZED)
        };
        ready.map_err(|code| {
            (
                code,
                "the device is not initialized, or a kernel has failed on it".to_owned(),
            )
        })?;
        let mut modules = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            match ptx::parse(part) {
                Ok(module) => modules.push(module),
                // Neither PTX nor any other image.
                Err(_) if !part.contains(".version") => {
                    let text = format!("part {index} of the module is no PTX: it has no .version");
                    return Err((CUresult::CUDA_ERROR_INVALID_IMAGE, text));
                }
                Err(errors) => {
                    let mut text =
                        format!("part {index} of the module is not PTX that can be read:");
                    for error in errors {
                        text.push_str(&format!("\n  {error}"));
                    }
                    return Err((CUresult::CUDA_ERROR_INVALID_PTX, text));
                }
            }
        }
        let program = Program::link(&modules, &self.state.memory)
            .map_err(|error| (load_code(&error), error.to_string()))?;
        let mut variables = Vec::new();
        for (_, variable) in program
            .variables()
            .filter(|(_, variable)| variable.size > 0)
        {
            let mut bytes = vec![0; variable.size as usize];
            let read = self.state.memory.read(variable.address, &mut bytes);
            read.map_err(|error| (CUresult::CUDA_ERROR_INVALID_IMAGE, error.to_string()))?;
            let bytes = bytes.iter().any(|byte| *byte != 0).then_some(bytes);
            variables.push(Initial {
                base: variable.address,
                size: variable.size,
                bytes,
            });
        }
        let mut allocations = self.state.allocations.lock();
        for variable in &variables {
            let extent = (variable.base, variable.size);
            allocations.insert(extent, AllocationKind::Variable, 0, Backing::Elsewhere);
        }
        drop(allocations);
        let handle = self.handle();
        let module = Module {
            context,
            program: Arc::new(program),
            functions: Mutex::default(),
            variables,
        };
        self.state.modules.write().insert(handle, Arc::new(module));
        Ok(handle)
    }

    fn module(&self, handle: u64) -> Result<Arc<Module>> {
        self.state
            .modules
            .read()
            .get(&handle)
            .cloned()
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// Whether a handle is a loaded module.
    pub fn module_exists(&self, handle: u64) -> bool {
        self.state.modules.read().contains_key(&handle)
    }

    /// `cuModuleUnload`. Kernels that run keep what they need.
    pub fn module_unload(&self, handle: u64) -> Result<()> {
        let module = self
            .state
            .modules
            .write()
            .remove(&handle)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        let mut functions = self.state.functions.write();
        for function in module.functions.lock().values() {
            functions.remove(function);
        }
        drop(functions);
        let mut allocations = self.state.allocations.lock();
        for variable in &module.variables {
            allocations.remove(variable.base, |allocation| {
                allocation.kind == AllocationKind::Variable
            });
        }
        Ok(())
    }

    pub(crate) fn unload_context(&self, context: u64) {
        let theirs: Vec<u64> = self
            .state
            .modules
            .read()
            .iter()
            .filter(|(_, m)| m.context == context)
            .map(|(handle, _)| *handle)
            .collect();
        for handle in theirs {
            // Another thread may have unloaded it meanwhile.
            let _ = self.module_unload(handle);
        }
    }

    /// Variables of libraries hold in a new context what they held at first.
    pub(crate) fn restore_libraries(&self) {
        for module in self
            .state
            .modules
            .read()
            .values()
            .filter(|m| m.context == 0)
        {
            for variable in &module.variables {
                let memory = &self.state.memory;
                let restored = match &variable.bytes {
                    Some(bytes) => memory.write(variable.base, bytes),
                    None => memory.fill(variable.base, &[0], variable.size),
                };
                if let Err(error) = restored {
                    // Mapped as long as the module lives: a defect.
                    self.state
                        .host
                        .report(&format!("a variable could not be reset: {error}"));
                }
            }
        }
    }

    /// `cuModuleGetFunction`: the same handle for the same name.
    pub fn function(&self, module: u64, name: &str) -> Result<u64> {
        let owner = self.module(module)?;
        let mut functions = owner.functions.lock();
        if let Some(handle) = functions.get(name) {
            return Ok(*handle);
        }
        let entry = owner
            .program
            .entry(name)
            .ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?
            .clone();
        let handle = self.handle();
        let function = Function {
            module,
            program: owner.program.clone(),
            entry,
            max_dynamic_shared: AtomicU32::new(0),
            carveout: AtomicI32::new(-1),
            non_portable_cluster: AtomicI32::new(0),
        };
        self.state
            .functions
            .write()
            .insert(handle, Arc::new(function));
        functions.insert(name.to_owned(), handle);
        Ok(handle)
    }

    /// What of a module this device cannot execute, in words: a launch that
    /// comes to it fails.
    pub fn module_lacks(&self, module: u64) -> Result<Vec<String>> {
        let module = self.module(module)?;
        let all = module.program.unsupported().iter();
        Ok(all
            .map(|(_, line, what)| format!("line {line}: {what}"))
            .collect())
    }

    /// `cuModuleEnumerateFunctions`: names, sorted.
    pub fn function_names(&self, module: u64) -> Result<Vec<String>> {
        let module = self.module(module)?;
        let mut names: Vec<String> = module
            .program
            .entries()
            .map(|entry| entry.name.clone())
            .collect();
        names.sort();
        Ok(names)
    }

    /// `cuModuleGetGlobal`
    pub fn variable(&self, module: u64, name: &str) -> Result<Extent> {
        let module = self.module(module)?;
        let variable = module
            .program
            .variable(name)
            .ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        Ok(Extent {
            base: DeviceAddress(variable.address),
            size: variable.size,
        })
    }

    pub(crate) fn function_of(&self, handle: u64) -> Result<Arc<Function>> {
        self.state
            .functions
            .read()
            .get(&handle)
            .cloned()
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// Name, module and parameters of a function.
    pub fn function_info(&self, handle: u64) -> Result<FunctionInfo> {
        let function = self.function_of(handle)?;
        Ok(FunctionInfo {
            name: function.entry.name.clone(),
            module: function.module,
            parameters: function
                .entry
                .parameters
                .iter()
                .map(|p| (p.offset, p.size))
                .collect(),
            parameter_bytes: function.entry.parameter_bytes,
        })
    }

    /// `cuFuncGetAttribute`
    pub fn function_attribute(&self, handle: u64, attribute: Attribute) -> Result<i32> {
        use Attribute as A;
        let function = self.function_of(handle)?;
        let entry = &function.entry;
        let cluster = |axis: usize| entry.required_cluster.map_or(0, |size| size[axis] as i32);
        Ok(match attribute {
            A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => function.max_threads() as i32,
            A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => entry.static_shared as i32,
            A::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES => function
                .program
                .variables()
                .filter(|(_, v)| v.is_const)
                .map(|(_, v)| v.size as i32)
                .sum(),
            A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES => entry.local as i32,
            // What ptxas could not exceed: 255 a thread, and 65,536 a block.
            A::CU_FUNC_ATTRIBUTE_NUM_REGS => entry
                .registers
                .clamp(8, 65536 / function.max_threads().max(1))
                .min(255) as i32,
            // Code compiles the same condition in (`__CUDA_ARCH__`), and the
            // host has to agree with it: CUB picks its tuning by this.
            A::CU_FUNC_ATTRIBUTE_PTX_VERSION => entry.target as i32,
            // The driver compiles PTX for the device that it is loaded on.
            A::CU_FUNC_ATTRIBUTE_BINARY_VERSION => {
                (Self::CAPABILITY.0 * 10 + Self::CAPABILITY.1) as i32
            }
            A::CU_FUNC_ATTRIBUTE_CACHE_MODE_CA => 0,
            A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                function.dynamic_shared_limit() as i32
            }
            A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
                function.carveout.load(Ordering::Relaxed)
            }
            A::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET => 0,
            A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH => cluster(0),
            A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT => cluster(1),
            A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => cluster(2),
            A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
                function.non_portable_cluster.load(Ordering::Relaxed)
            }
            A::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => 0,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        })
    }

    /// `cuFuncSetAttribute`
    pub fn function_set_attribute(
        &self,
        handle: u64,
        attribute: Attribute,
        value: i32,
    ) -> Result<()> {
        use Attribute as A;
        let function = self.function_of(handle)?;
        let invalid = Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        match attribute {
            A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                let most = properties::SHARED_OPT_IN.saturating_sub(function.entry.static_shared);
                match u32::try_from(value) {
                    Ok(bytes) if bytes <= most => {
                        function.max_dynamic_shared.store(bytes, Ordering::Relaxed)
                    }
                    _ => return invalid,
                }
            }
            A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
                if !(-1..=100).contains(&value) {
                    return invalid;
                }
                function.carveout.store(value, Ordering::Relaxed);
            }
            A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
                function
                    .non_portable_cluster
                    .store(value, Ordering::Relaxed);
            }
            A::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
            | A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT
            | A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => {
                return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
            }
            _ => return invalid,
        }
        Ok(())
    }
}

fn load_code(error: &LoadError) -> CUresult {
    match error {
        LoadError::Malformed { .. } => CUresult::CUDA_ERROR_INVALID_PTX,
        LoadError::Undefined { .. } | LoadError::Duplicate { .. } => {
            CUresult::CUDA_ERROR_INVALID_IMAGE
        }
        LoadError::Memory(_) => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        LoadError::Access(_) => CUresult::CUDA_ERROR_INVALID_IMAGE,
    }
}
