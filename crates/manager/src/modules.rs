//! From compiled code to a module in a tenant's partition: it is loaded, its
//! variables are placed, and its table says where. This is done while no kernel runs
//! (`quiet`), and is short; what takes long came before (`compile`).

use crate::common::{CommonError, Library};
use crate::compile::{Contained, Ends, Fault, Global, NotCompiled, NotTaken, Place, WorkerError};
use crate::device::Device;
use crate::memory::{ALIGNMENT, Memory, Use};
use crate::partition::Partition;
use crate::quiet::Quiescent;
use crate::quota;
use driver::DriverError;
use driver::calls::{Context, Function, OutOfReservation, Stream};
use driver::sys::{CUfunction_attribute as A, CUresult};
use model::layout::fence::{IS_LARGE, VARIABLE};
use protocol::{Attribute, Limit, Variable};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Offset and bytes of each parameter of the program's.
    pub(crate) parameters: Vec<(u32, u32)>,
    /// Bytes of all of these.
    pub(crate) parameter_bytes: u32,
    /// Offset of the parameter that the manager adds, if the kernel has it
    /// (`model::layout::fence::WORKSPACE`).
    pub(crate) workspace: Option<u32>,
    /// Code of its module counts threads that it retires
    /// (`model::layout::fence::retired`). By what the pass says, which need not be
    /// trusted: the count is for the tenant alone.
    pub(crate) may_fail: bool,
    /// What its module has in common with others.
    pub(crate) uses: Vec<Limit>,
    pub(crate) ends: Ends,
    /// Bytes of dynamic shared memory that a launch must have, so that each block has as
    /// much as its code takes for granted (`model::layout::fence::ROOM`).
    pub(crate) least_shared: u32,
    /// Blocks from which on a grid is large.
    pub(crate) large: u64,
    pub(crate) table: Arc<Table>,
}

/// The constant table of a module.
pub(crate) struct Table {
    variable: driver::calls::Variable,
    /// It says that grids may be large.
    is_large: AtomicBool,
}

impl Table {
    /// A large grid is about to be launched: its blocks look before they begin.
    pub(crate) fn large(&self, context: &Context) -> Result<(), DriverError> {
        if !self.is_large.load(Ordering::Acquire) {
            let word = 1u32.to_le_bytes();
            context.write_variable(&self.variable, IS_LARGE.into(), &word)?;
            self.is_large.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// A module that is not loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error(
        "the module is more than {0} bytes large, which the manager takes of this tenant at most"
    )]
    TooLarge(u64),
    #[error("{}", of_fault(.0))]
    Code(NotTaken),
    #[error(transparent)]
    Compile(NotCompiled),
    #[error("the device cannot execute the module: {0}")]
    Lacks(String),
    #[error("variable `{0}` is smaller in the driver's code than in the text")]
    Smaller(String),
    #[error(transparent)]
    Common(#[from] CommonError),
    #[error("its variables take {0} bytes, which the memory of the tenant has not left")]
    NoMemory(u64),
    #[error("kernel `{0}` takes {1} bytes of local memory for each thread; tenants have {limit}", limit = quota::LOCAL)]
    Local(String, u64),
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Range(#[from] OutOfReservation),
}

/// What is wrong with the code of a module.
fn of_fault(NotTaken { fault, about }: &NotTaken) -> String {
    match fault {
        Fault::Unreadable => format!("the module is no fat binary and no PTX: {about}"),
        Fault::NoPtx => {
            "the module holds no PTX for this device, only machine code, which cannot be fenced"
                .into()
        }
        Fault::Syntax | Fault::Unfenced => format!("the module cannot be fenced:\n{about}"),
        Fault::Verifier => format!("the verifier refuses the module:\n{about}"),
        Fault::Parameters => {
            format!("a launch of kernel `{about}` takes more parameters than PTX allows")
        }
    }
}

impl From<NotCompiled> for Refused {
    fn from(error: NotCompiled) -> Refused {
        match error {
            NotCompiled::Taken(not_taken) => Refused::Code(not_taken),
            other => Refused::Compile(other),
        }
    }
}

impl Refused {
    /// The error that the tenant's call gets.
    pub(crate) fn code(&self) -> CUresult {
        match self {
            Refused::TooLarge(_) | Refused::NoMemory(_) | Refused::Local(..) => {
                CUresult::CUDA_ERROR_OUT_OF_MEMORY
            }
            Refused::Code(not_taken) => match not_taken.fault {
                Fault::Unreadable => CUresult::CUDA_ERROR_INVALID_IMAGE,
                Fault::NoPtx => CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
                Fault::Syntax | Fault::Parameters => CUresult::CUDA_ERROR_INVALID_PTX,
                Fault::Unfenced | Fault::Verifier => CUresult::CUDA_ERROR_NOT_PERMITTED,
            },
            Refused::Compile(NotCompiled::Driver(error)) => error.error.code,
            Refused::Compile(NotCompiled::Worker(
                WorkerError::Memory(_) | WorkerError::Large(_),
            )) => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            Refused::Compile(_) | Refused::Lacks(_) | Refused::Smaller(_) => {
                CUresult::CUDA_ERROR_NOT_PERMITTED
            }
            Refused::Common(error) => error.code(),
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
pub(crate) fn load(into: &mut Into<'_>, contained: &Contained) -> Result<Loaded, Refused> {
    let device = into.device;
    let module = device.context.load(&contained.image)?;
    if let Some(what) = device.lacks(&module) {
        return Err(Refused::Lacks(what));
    }
    let may_fail = contained.may_fail;
    let mut variables = Vec::new();
    let mut constants = BTreeMap::new();
    let placed = place(into, &contained.globals, &module, &mut variables);
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
        relocate(into, contained, &module, &placed.places)?;
        let table = module.variable(VARIABLE)?;
        device.context.write_variable(&table, 0, &placed.table)?;
        let table = Table {
            variable: table,
            is_large: AtomicBool::new(false),
        };
        Ok((placed.uses, Arc::new(table)))
    });
    let loaded = placed.and_then(|(uses, table)| {
        let kernels = contained.kernels.iter().map(|entry| {
            let function = function(&device.context, into.quiescent, &module, &entry.name)?;
            let fixed = function.attribute(A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
            let fixed = u32::try_from(fixed).unwrap_or_default();
            Ok(Kernel {
                function,
                least_shared: entry.room.saturating_sub(fixed),
                large: entry.large,
                table: Arc::clone(&table),
                name: entry.name.clone(),
                parameters: entry.parameters.clone(),
                parameter_bytes: entry.parameter_bytes,
                workspace: entry.workspace,
                may_fail,
                uses: uses.clone(),
                ends: entry.ends,
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
    globals: &[Global],
    module: &driver::calls::Module,
    own: &mut Vec<Variable>,
) -> Result<Placed, Refused> {
    let mut placed = Placed {
        table: into.partition.table().bytes().to_vec(),
        places: Vec::new(),
        uses: Vec::new(),
    };
    for wanted in globals {
        // By its name, if it is no larger than what stands there: the verifier has
        // accepted accesses to all of its bytes.
        let common = Library::which(&wanted.name).filter(|_| wanted.size <= ALIGNMENT);
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
    wanted: &Global,
    module: &driver::calls::Module,
    placed: &mut Vec<Variable>,
) -> Result<u64, Refused> {
    let own = module.variable(&wanted.name)?;
    let size = own.size();
    if size < wanted.size {
        return Err(Refused::Smaller(wanted.name.clone()));
    }
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
    contained: &Contained,
    module: &driver::calls::Module,
    places: &[(u64, bool)],
) -> Result<(), Refused> {
    for relocation in &contained.relocations {
        let unplaced = || Refused::Lacks("an initializer names what was not placed".into());
        let (target, _) = *places.get(relocation.target).ok_or_else(unplaced)?;
        let bytes = relocation.value(target);
        match &relocation.holder {
            Place::Placed(index) => {
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
            Place::Constant(name) => {
                let own = module.variable(name)?;
                let context = &into.device.context;
                context.write_variable(&own, relocation.offset, &bytes)?;
            }
        }
    }
    Ok(())
}
