//! Modules, their kernels and variables, and launches.

use super::{Context, Slice, Stream};
use crate::DriverError;
use crate::sys::{
    CUfunction, CUfunction_attribute, CUjit_option, CUjitInputType, CUlaunchAttribute,
    CUlaunchAttributeID, CUlaunchConfig, CUlinkState, CUmodule, CUresult,
};
use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;

/// A loaded module; it is unloaded when it and its functions are dropped.
#[derive(Clone)]
pub struct Module {
    inner: Arc<Inner>,
}

struct Inner {
    context: Context,
    raw: CUmodule,
}

/// A kernel.
#[derive(Clone)]
pub struct Function {
    module: Module,
    pub(super) raw: CUfunction,
}

/// A variable of a module, which lies in memory of the driver's.
pub struct Variable {
    module: Module,
    address: u64,
    size: u64,
}

/// A module could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The driver's error.
    pub error: DriverError,
    /// What its compiler says; may be empty.
    pub log: String,
}

/// Code as the driver has compiled it.
pub struct Image(Vec<u8>);

impl Image {
    /// Machine code that the driver has compiled in another process, which is
    /// trusted as the driver is; `None` if it is not a whole ELF file. Drivers get no
    /// length with it, so that they would read beyond the end of part of one.
    pub fn of_cubin(bytes: Vec<u8>) -> Option<Image> {
        is_whole_elf(&bytes).then_some(Image(bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Whether all that the headers of a 64-bit little-endian ELF file point to lies in
/// it.
fn is_whole_elf(bytes: &[u8]) -> bool {
    let number = |at: usize, size: usize| -> Option<u64> {
        let mut all = [0; 8];
        all.get_mut(..size)?
            .copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
        Some(u64::from_le_bytes(all))
    };
    let is_inside = |at: u64, size: u64| {
        let end = at.checked_add(size);
        end.is_some_and(|end| end <= bytes.len() as u64)
    };
    // Offset, entry size and count of a table, where the header has them; and in an
    // entry its offset and size, and whether it takes bytes of the file.
    let is_whole = |header: [usize; 3], least: u64, entry: [usize; 2], kind: Option<usize>| {
        let offset = number(header[0], 8)?;
        let (size, count) = (number(header[1], 2)?, number(header[2], 2)?);
        let is_table = count == 0 || (size >= least && is_inside(offset, size * count));
        let mut entries = (0..count).map(|index| {
            let at = usize::try_from(offset + index * size).ok()?;
            if let Some(kind) = kind
                && number(at + kind, 4)? == NOBITS
            {
                return Some(true);
            }
            Some(is_inside(
                number(at + entry[0], 8)?,
                number(at + entry[1], 8)?,
            ))
        });
        Some(is_table && entries.all(|entry| entry == Some(true)))
    };
    bytes.starts_with(b"\x7fELF\x02\x01")
        && is_whole([32, 54, 56], 56, [8, 32], None) == Some(true)
        && is_whole([40, 58, 60], 64, [24, 32], Some(4)) == Some(true)
}

/// `SHT_NOBITS`
const NOBITS: u64 = 8;

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory, in bytes.
    pub shared: u32,
    /// All blocks are resident together.
    pub is_cooperative: bool,
}

/// Bytes of the compiler's log.
const LOG: usize = 8 << 10;

/// `CU_LAUNCH_PARAM_BUFFER_POINTER`, `_BUFFER_SIZE`, `_END`
const BUFFER: *mut c_void = std::ptr::without_provenance_mut(1);
const SIZE: *mut c_void = std::ptr::without_provenance_mut(2);
const END: *mut c_void = std::ptr::null_mut();

impl Context {
    /// Compiles PTX. Does not wait for kernels that run (H200, driver 580).
    ///
    /// # Errors
    ///
    /// The driver does not take it.
    pub fn compile(&self, ptx: &CStr) -> Result<Image, LoadError> {
        let mut log = vec![0u8; LOG];
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The size is in the pointer itself.
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            std::ptr::without_provenance_mut(LOG - 1),
        ];
        let count = options.len() as u32;
        let mut raw = CUlinkState::NULL;
        let made = call!(
            self.calls(),
            cuLinkCreate_v2(count, options.as_mut_ptr(), values.as_mut_ptr(), &mut raw)
        );
        let linked = made.and_then(|()| {
            let image = self.link(raw, ptx);
            // The image was copied out; nothing else needs it.
            let _ = call!(self.calls(), cuLinkDestroy(raw));
            image
        });
        linked.map_err(|error| LoadError {
            error,
            log: CStr::from_bytes_until_nul(&log)
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        })
    }

    fn link(&self, raw: CUlinkState, ptx: &CStr) -> Result<Image, DriverError> {
        let text = ptx.to_bytes_with_nul();
        call!(
            self.calls(),
            cuLinkAddData_v2(
                raw,
                CUjitInputType::CU_JIT_INPUT_PTX,
                text.as_ptr().cast_mut().cast(),
                text.len(),
                c"module".as_ptr(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut()
            )
        )?;
        let (mut image, mut size) = (std::ptr::null_mut(), 0);
        call!(self.calls(), cuLinkComplete(raw, &mut image, &mut size))?;
        if image.is_null() {
            return Ok(Image(Vec::new()));
        }
        // SAFETY: the driver has made an image of so many bytes, which lives
        // until cuLinkDestroy.
        let bytes = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), size) };
        Ok(Image(bytes.to_vec()))
    }

    /// Loads what was compiled. The driver waits until no kernel of the context
    /// runs, and until then all launches wait for it (H200, driver 580).
    ///
    /// # Errors
    ///
    /// The driver does not take it.
    pub fn load(&self, image: &Image) -> Result<Module, DriverError> {
        let mut raw = CUmodule::NULL;
        call!(
            self.calls(),
            cuModuleLoadData(&mut raw, image.0.as_ptr().cast())
        )?;
        Ok(Module {
            inner: Arc::new(Inner {
                context: self.clone(),
                raw,
            }),
        })
    }

    /// Copies bytes into a variable, from its byte `offset` on; complete on
    /// return. Not in order with any stream.
    ///
    /// # Errors
    ///
    /// Those of the driver; the bytes do not lie in the variable.
    pub fn write_variable(
        &self,
        variable: &Variable,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), DriverError> {
        let at = variable.at(offset, bytes.len())?;
        call!(
            self.calls(),
            cuMemcpyHtoD_v2_ptds(at, bytes.as_ptr().cast(), bytes.len())
        )?;
        self.settle()
    }

    /// Copies bytes out of a variable, from its byte `offset` on; complete on
    /// return. Not in order with any stream.
    ///
    /// # Errors
    ///
    /// As [`Context::write_variable`].
    pub fn read_variable(
        &self,
        variable: &Variable,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), DriverError> {
        let at = variable.at(offset, bytes.len())?;
        call!(
            self.calls(),
            cuMemcpyDtoH_v2_ptds(bytes.as_mut_ptr().cast(), at, bytes.len())
        )
    }
}

impl Module {
    fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The driver's handle, to ask the device itself about it.
    pub fn raw(&self) -> u64 {
        self.inner.raw.0
    }

    /// The kernel of a name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn function(&self, name: &str) -> Result<Function, DriverError> {
        let name = c_name("cuModuleGetFunction", name)?;
        let mut raw = CUfunction::NULL;
        let calls = self.context().calls();
        call!(
            calls,
            cuModuleGetFunction(&mut raw, self.inner.raw, name.as_ptr())
        )?;
        Ok(Function {
            module: self.clone(),
            raw,
        })
    }

    /// The variable of a name.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn variable(&self, name: &str) -> Result<Variable, DriverError> {
        let name = c_name("cuModuleGetGlobal", name)?;
        let (mut address, mut size) = (0, 0usize);
        let calls = self.context().calls();
        call!(
            calls,
            cuModuleGetGlobal_v2(&mut address, &mut size, self.inner.raw, name.as_ptr())
        )?;
        Ok(Variable {
            module: self.clone(),
            address,
            size: size as u64,
        })
    }
}

fn c_name(call: &'static str, name: &str) -> Result<CString, DriverError> {
    CString::new(name).map_err(|_| DriverError {
        call,
        code: CUresult::CUDA_ERROR_NOT_FOUND,
        message: "a name holds a zero".into(),
    })
}

impl Variable {
    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The address of some of its bytes.
    fn at(&self, offset: u64, bytes: usize) -> Result<u64, DriverError> {
        let end = offset.checked_add(bytes as u64);
        if end.is_some_and(|end| end <= self.size) {
            return Ok(self.address + offset);
        }
        Err(DriverError {
            call: "cuMemcpy",
            code: CUresult::CUDA_ERROR_INVALID_VALUE,
            message: "the bytes are not in the variable".into(),
        })
    }

    /// Puts a copy of it, as far as it fits, into a stream.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn copy_to(&self, to: Slice<'_>, stream: &Stream) -> Result<(), DriverError> {
        let size = self.size.min(to.size) as usize;
        let calls = self.module.context().calls();
        call!(
            calls,
            cuMemcpyDtoDAsync_v2(to.address, self.address, size, stream.raw)
        )
    }
}

impl Function {
    fn context(&self) -> &Context {
        self.module.context()
    }

    /// An attribute.
    ///
    /// # Errors
    ///
    /// The driver does not know it.
    pub fn attribute(&self, attribute: CUfunction_attribute) -> Result<i32, DriverError> {
        let mut value = 0;
        let calls = self.context().calls();
        call!(calls, cuFuncGetAttribute(&mut value, attribute, self.raw))?;
        Ok(value)
    }

    /// Sets an attribute.
    ///
    /// # Errors
    ///
    /// The device cannot do that.
    pub fn set_attribute(
        &self,
        attribute: CUfunction_attribute,
        value: i32,
    ) -> Result<(), DriverError> {
        let calls = self.context().calls();
        call!(calls, cuFuncSetAttribute(self.raw, attribute, value))
    }

    /// How many blocks of so many threads, with so many bytes of dynamic shared
    /// memory, a multiprocessor holds.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn blocks_per_multiprocessor(&self, threads: i32, shared: u32) -> Result<i32, DriverError> {
        let mut blocks = 0;
        let calls = self.context().calls();
        call!(
            calls,
            cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.raw,
                threads,
                shared as usize
            )
        )?;
        Ok(blocks)
    }

    /// Puts a launch into a stream, with a block of parameters that is laid out
    /// as PTX lays it out.
    ///
    /// # Errors
    ///
    /// The device cannot do that.
    pub fn launch(
        &self,
        launch: Launch,
        parameters: &[u8],
        stream: &Stream,
    ) -> Result<(), DriverError> {
        let mut cooperative = CUlaunchAttribute::zeroed();
        cooperative.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        cooperative.value.cooperative = 1;
        let mut config = CUlaunchConfig::zeroed();
        [config.gridDimX, config.gridDimY, config.gridDimZ] = launch.grid;
        [config.blockDimX, config.blockDimY, config.blockDimZ] = launch.block;
        config.sharedMemBytes = launch.shared;
        config.hStream = stream.raw;
        if launch.is_cooperative {
            config.attrs = &raw mut cooperative;
            config.numAttrs = 1;
        }
        with_parameters(parameters, |extra| {
            let calls = self.context().calls();
            call!(
                calls,
                cuLaunchKernelEx(&config, self.raw, std::ptr::null_mut(), extra)
            )
        })
    }
}

/// A block of parameters, as the driver takes it during a call.
pub(super) fn with_parameters<R>(parameters: &[u8], call: impl FnOnce(*mut *mut c_void) -> R) -> R {
    // A kernel without parameters takes no buffer.
    if parameters.is_empty() {
        return call(std::ptr::null_mut());
    }
    let mut size = parameters.len();
    let mut extra = [
        BUFFER,
        parameters.as_ptr().cast_mut().cast(),
        SIZE,
        (&raw mut size).cast(),
        END,
    ];
    call(extra.as_mut_ptr())
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody is left who could act on an error.
        let _ = call!(self.context.calls(), cuModuleUnload(self.raw));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of a header, one program header and two section headers, of which
    /// the second one has no bytes.
    fn elf() -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56 + 128];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, b"\x7fELF\x02\x01");
        put(32, &64u64.to_le_bytes());
        put(40, &120u64.to_le_bytes());
        for (at, value) in [(54, 56u16), (56, 1), (58, 64), (60, 2)] {
            put(at, &value.to_le_bytes());
        }
        put(64 + 8, &64u64.to_le_bytes());
        put(64 + 32, &184u64.to_le_bytes());
        put(120 + 24, &64u64.to_le_bytes());
        put(120 + 32, &8u64.to_le_bytes());
        put(184 + 4, &8u32.to_le_bytes());
        put(184 + 32, &u64::MAX.to_le_bytes());
        bytes
    }

    #[test]
    fn only_a_whole_file_is_an_image() {
        let whole = elf();
        assert!(Image::of_cubin(whole.clone()).is_some());
        for end in 0..whole.len() {
            let part = whole[..end].to_vec();
            assert!(Image::of_cubin(part).is_none(), "{end} bytes");
        }
        // Offsets and sizes that lead out of it.
        for at in [32, 40, 64 + 8, 64 + 32, 120 + 24, 120 + 32] {
            for value in [u64::MAX, u64::MAX - 64, 249] {
                let mut broken = whole.clone();
                broken[at..at + 8].copy_from_slice(&value.to_le_bytes());
                assert!(Image::of_cubin(broken).is_none(), "{value} at {at}");
            }
        }
        assert!(Image::of_cubin(b"\x01RFLINK\x01".to_vec()).is_none());
    }
}
