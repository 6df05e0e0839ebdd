//! From the code that a tenant sends to a module in its partition.
//!
//! ```text
//! bytes ▸ fatbin ▸ PTX ▸ fence ▸ verify_contained ▸ compile | load ▸ table, variables
//! ```
//!
//! The second part is done while no kernel runs (`quiet`), and is
//! short.
//!
//! What decides is the verifier, which trusts nothing that comes before it. This
//! module must never give the driver code that it has not accepted.

use crate::common::{CommonError, Library};
use crate::device::Device;
use crate::memory::{ALIGNMENT, Memory, Use};
use crate::partition::Partition;
use crate::quiet::Quiescent;
use crate::quota;
use driver::DriverError;
use driver::calls::{Context, Function, Image, LoadError, OutOfReservation, Stream};
use driver::sys::{CUfunction_attribute as A, CUresult};
use instrument::{FenceError, FenceForm, Fenced, FencedVariable, Holder, fence, verify_contained};
use model::layout::fence::VARIABLE;
use protocol::{Attribute, Limit, Variable};
use std::collections::BTreeMap;
use std::ffi::CString;

/// A module that a tenant has loaded.
pub(crate) struct Loaded {
    pub(crate) kernels: Vec<Kernel>,
    /// Where its variables lie, first those in global memory.
    pub(crate) variables: Vec<Variable>,
    /// Its constant variables, by the address that stands for each.
    pub(crate) constants: BTreeMap<u64, driver::calls::Variable>,
    /// What it has in common with the tenant's other modules.
    pub(crate) uses: Vec<Limit>,
    _module: driver::calls::Module,
}

/// A kernel of a module.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) function: Function,
    /// Offset and bytes of each parameter.
    pub(crate) parameters: Vec<(u32, u32)>,
    /// Bytes of all.
    pub(crate) parameter_bytes: u32,
    /// Code of its module counts threads that it retires
    /// (`model::layout::fence::retired`). By what the pass says, which need not be
    /// trusted: the count is for the tenant alone.
    pub(crate) may_fail: bool,
    /// What its module has in common with others.
    pub(crate) uses: Vec<Limit>,
}

/// A module that is not loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the module is {0} bytes large; at most {limit} are taken", limit = quota::CODE)]
    TooLarge(u64),
    #[error("the module is no fat binary and no PTX: {0}")]
    Unreadable(String),
    #[error("the module holds no PTX for this device, only machine code, which cannot be fenced")]
    NoPtx,
    #[error("the module cannot be fenced:\n{0}")]
    Fence(#[from] FenceError),
    #[error("the verifier refuses the module:\n{0}")]
    Verifier(String),
    #[error("the device cannot execute the module: {0}")]
    Lacks(String),
    #[error("the driver refuses the module: {}\n{}", .0.error, .0.log)]
    Load(LoadError),
    #[error(transparent)]
    Common(#[from] CommonError),
    #[error("its variables take {0} bytes, which the memory of the tenant has not left")]
    NoMemory(u64),
    #[error("kernel `{0}` takes {1} bytes of local memory for each thread; tenants have {limit}", limit = quota::LOCAL)]
    Local(String, u64),
    #[error("a launch of kernel `{0}` takes more parameters than PTX allows")]
    Parameters(String),
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Range(#[from] OutOfReservation),
}

impl Refused {
    /// The error that the tenant's call gets.
    pub(crate) fn code(&self) -> CUresult {
        match self {
            Refused::TooLarge(_) | Refused::NoMemory(_) | Refused::Local(..) => {
                CUresult::CUDA_ERROR_OUT_OF_MEMORY
            }
            Refused::Unreadable(_) => CUresult::CUDA_ERROR_INVALID_IMAGE,
            Refused::NoPtx => CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
            Refused::Fence(FenceError::Module(_)) => CUresult::CUDA_ERROR_INVALID_PTX,
            Refused::Fence(FenceError::Refused(_)) | Refused::Verifier(_) | Refused::Lacks(_) => {
                CUresult::CUDA_ERROR_NOT_PERMITTED
            }
            Refused::Load(error) => error.error.code,
            Refused::Common(error) => error.code(),
            Refused::Parameters(_) => CUresult::CUDA_ERROR_INVALID_PTX,
            Refused::Driver(error) => error.code,
            Refused::Range(_) => CUresult::CUDA_ERROR_INVALID_VALUE,
        }
    }
}

/// Attributes of kernels that tenants are told.
const ATTRIBUTES: [A; 15] = [
    A::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
    A::CU_FUNC_ATTRIBUTE_CACHE_MODE_CA,
    A::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET,
    A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
    A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
    A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
    A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
    A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
    A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
    A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
    A::CU_FUNC_ATTRIBUTE_NUM_REGS,
    A::CU_FUNC_ATTRIBUTE_PTX_VERSION,
    A::CU_FUNC_ATTRIBUTE_BINARY_VERSION,
    A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
];

/// Bytes of parameters at most (PTX ISA, 5.1.6.1).
const PARAMETERS: u32 = 32_764;

impl Kernel {
    /// Its attributes, as far as the device has them.
    pub(crate) fn attributes(&self) -> Vec<Attribute> {
        let known = ATTRIBUTES.iter().filter_map(|attribute| {
            Some(Attribute {
                attribute: attribute.0,
                value: self.function.attribute(*attribute).ok()?,
            })
        });
        known.collect()
    }
}

/// The PTX in what a tenant sends.
fn text(bytes: &[u8], capability: u32) -> Result<String, Refused> {
    if bytes.len() as u64 > quota::CODE {
        return Err(Refused::TooLarge(bytes.len() as u64));
    }
    let unreadable = |error: &dyn std::fmt::Display| Refused::Unreadable(error.to_string());
    let text = match driver::image::parts_of_file(bytes).first() {
        Some(fatbin::ModulePart::Fatbin(bytes)) => {
            let entries = fatbin::parse(bytes).map_err(|error| unreadable(&error))?;
            let best = fatbin::best_ptx(&entries, capability).ok_or(Refused::NoPtx)?;
            let payload = best.payload(quota::CODE);
            let payload = payload.map_err(|error| unreadable(&error))?.into_owned();
            String::from_utf8(payload).map_err(|error| unreadable(&error))?
        }
        Some(fatbin::ModulePart::Ptx(text)) => (*text).to_owned(),
        Some(fatbin::ModulePart::Elf(_)) => return Err(Refused::NoPtx),
        None => return Err(Refused::Unreadable("it is no text".into())),
    };
    Ok(text.trim_end_matches('\0').to_owned())
}

/// A kernel of PTX, and its parameters as [`Kernel`] has them.
struct Entry {
    name: String,
    parameters: Vec<(u32, u32)>,
    parameter_bytes: u32,
}

/// PTX that the verifier has accepted, and what the driver has made of it.
pub(crate) struct Contained {
    fenced: Fenced,
    image: Image,
    kernels: Vec<Entry>,
    /// Names of constant variables that are the program's.
    constants: Vec<String>,
}

/// Fences a module, has it judged, and compiles it.
pub(crate) fn contain(device: &Device, bytes: &[u8]) -> Result<Contained, Refused> {
    let source = text(bytes, device.capability)?;
    let fenced = fence(&source, FenceForm::Mask)?;
    if let Err(errors) = verify_contained(&fenced.text) {
        let lines: Vec<String> = errors.iter().take(8).map(ToString::to_string).collect();
        return Err(Refused::Verifier(lines.join("\n")));
    }
    let module = ptx::parse(&fenced.text);
    let module = module.map_err(|_| Refused::Unreadable("its fenced form is no PTX".into()))?;
    let mut kernels = Vec::new();
    for function in module.functions().filter(|function| function.is_entry) {
        let (parameters, bytes) = instrument::parameter_block(function);
        if bytes > PARAMETERS {
            return Err(Refused::Parameters(function.name.to_owned()));
        }
        let parameters = parameters.iter().map(|slot| (slot.offset, slot.size));
        kernels.push(Entry {
            name: function.name.to_owned(),
            parameters: parameters.collect(),
            parameter_bytes: bytes,
        });
    }
    let constants = module.variables().filter(|variable| {
        variable.space == ptx::VariableSpace::Const && variable.name != VARIABLE
    });
    let constants = constants.map(|variable| variable.name.to_owned()).collect();
    let code = CString::new(fenced.text.as_str());
    let code = code.map_err(|_| Refused::Unreadable("it holds a zero".into()))?;
    let image = device.context.compile(&code).map_err(Refused::Load)?;
    Ok(Contained {
        fenced,
        image,
        kernels,
        constants,
    })
}

/// Where a module is loaded, and when.
pub(crate) struct Into<'t> {
    pub(crate) device: &'t Device,
    pub(crate) quiescent: &'t Quiescent<'t>,
    pub(crate) partition: &'t Partition,
    pub(crate) memory: &'t mut Memory,
    pub(crate) library: &'t mut Library,
    /// What the tenant's kernels wait for.
    pub(crate) stream: &'t Stream,
}

/// What is known once the variables of a module are placed.
struct Placed {
    table: Vec<u8>,
    /// Where each variable lies, and whether it is one of the module's own.
    places: Vec<(u64, bool)>,
    uses: Vec<Limit>,
}

/// Loads a module into a partition, and places its variables among the tenant's
/// allocations, by copies in a stream, which must be over before a kernel of the
/// module runs.
pub(crate) fn load(into: &mut Into<'_>, contained: Contained) -> Result<Loaded, Refused> {
    let device = into.device;
    let module = device.context.load(&contained.image)?;
    if let Some(what) = device.lacks(&module) {
        return Err(Refused::Lacks(what));
    }
    let may_fail = contained.fenced.counts.retiring > 0;
    let mut variables = Vec::new();
    let mut constants = BTreeMap::new();
    let placed = place(into, &contained.fenced, &module, &mut variables);
    let placed = placed.and_then(|placed| {
        for name in &contained.constants {
            let own = module.variable(name)?;
            let address = into.memory.take(own.size(), ALIGNMENT, Use::Constant);
            let address = address.ok_or(Refused::NoMemory(own.size()))?;
            variables.push(Variable {
                name: name.clone(),
                address,
                size: own.size(),
            });
            constants.insert(address, own);
        }
        relocate(into, &contained.fenced, &module, &placed.places)?;
        let table = module.variable(VARIABLE)?;
        device.context.write_variable(&table, 0, &placed.table)?;
        Ok(placed.uses)
    });
    let loaded = placed.and_then(|uses| {
        let kernels = contained.kernels.into_iter().map(|entry| {
            Ok(Kernel {
                function: function(&device.context, into.quiescent, &module, &entry.name)?,
                name: entry.name,
                parameters: entry.parameters,
                parameter_bytes: entry.parameter_bytes,
                may_fail,
                uses: uses.clone(),
            })
        });
        Ok((kernels.collect::<Result<Vec<_>, Refused>>()?, uses))
    });
    match loaded {
        Ok((kernels, uses)) => Ok(Loaded {
            kernels,
            variables,
            constants,
            uses,
            _module: module,
        }),
        Err(error) => {
            release(&variables, into.memory);
            Err(error)
        }
    }
}

/// A kernel, for which there is local memory.
fn function(
    context: &Context,
    quiescent: &Quiescent<'_>,
    module: &driver::calls::Module,
    name: &str,
) -> Result<Function, Refused> {
    let function = module.function(name)?;
    let local = function.attribute(A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?;
    let local = u64::try_from(local).unwrap_or_default();
    if local > quota::LOCAL {
        return Err(Refused::Local(name.to_owned(), local));
    }
    quiescent.reserve_local(context, local)?;
    Ok(function)
}

/// Gives the memory of variables back.
pub(crate) fn release(variables: &[Variable], memory: &mut Memory) {
    for variable in variables {
        memory.give_back(variable.address);
    }
}

/// Places the variables; `own` gets those that no other module has.
fn place(
    into: &mut Into<'_>,
    fenced: &Fenced,
    module: &driver::calls::Module,
    own: &mut Vec<Variable>,
) -> Result<Placed, Refused> {
    let mut placed = Placed {
        table: into.partition.table().bytes().to_vec(),
        places: Vec::new(),
        uses: Vec::new(),
    };
    for wanted in &fenced.variables {
        let common = Library::which(&wanted.name).filter(|_| wanted.is_common);
        let address = match common {
            Some(which) => {
                placed.uses.push(which);
                let places = (into.device, into.partition);
                into.library.place(which, places, into.memory)?
            }
            None => place_own(into, wanted, module, own)?,
        };
        placed.places.push((address, common.is_none()));
        placed.table.extend(address.to_le_bytes());
    }
    Ok(placed)
}

/// Places a variable of the module's own.
fn place_own(
    into: &mut Into<'_>,
    wanted: &FencedVariable,
    module: &driver::calls::Module,
    placed: &mut Vec<Variable>,
) -> Result<u64, Refused> {
    let own = module.variable(&wanted.name)?;
    // What the driver has is what the table is about.
    let size = own.size();
    let address = into
        .memory
        .take(size, wanted.alignment.into(), Use::Variable)
        .ok_or(Refused::NoMemory(size))?;
    placed.push(Variable {
        name: wanted.name.clone(),
        address,
        size,
    });
    if size > 0 {
        own.copy_to(
            into.partition.reservation().slice(address, size)?,
            into.stream,
        )?;
    }
    Ok(address)
}

/// Writes the addresses that initializers held, behind the copies of the
/// variables that hold them.
fn relocate(
    into: &Into<'_>,
    fenced: &Fenced,
    module: &driver::calls::Module,
    places: &[(u64, bool)],
) -> Result<(), Refused> {
    for relocation in &fenced.relocations {
        let unplaced = || Refused::Verifier("an initializer names what was not placed".into());
        let (target, _) = *places.get(relocation.target).ok_or_else(unplaced)?;
        let bytes = relocation.value(target);
        match &relocation.holder {
            Holder::Placed(index) => {
                // What modules have in common has no initializer of theirs.
                let (start, _) = places
                    .get(*index)
                    .filter(|(_, is_own)| *is_own)
                    .ok_or_else(unplaced)?;
                let address = start + relocation.offset;
                // Memsets are in order with the copy that placed the variable, and
                // wait for nothing.
                for (address, byte) in (address..).zip(bytes) {
                    let rows = into.partition.reservation().rows(address, 1, 1, 1)?;
                    into.stream.fill(rows, 1, byte.into())?;
                }
            }
            Holder::Constant(name) => {
                let own = module.variable(name)?;
                let context = &into.device.context;
                context.write_variable(&own, relocation.offset, &bytes)?;
            }
        }
    }
    Ok(())
}
