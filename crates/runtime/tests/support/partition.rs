//! A partition on the CPU device, and another tenant beside it.

use crate::bench::Bench;
use emulate::engine::Program;
use emulate::mapping::GRANULE;
use instrument::{FenceForm, Fenced, Holder, fence, verify_contained};
use model::layout::fence::{FenceTable, HEADROOM, MARGIN, UNIT, VARIABLE};
use model::layout::tenant::{HEAP, PRINT, TenantHeap, TenantPrint};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub const BASE: u64 = 0x3000_0000_0000;
pub const SIZE: u64 = UNIT;
/// Another tenant.
pub const VICTIM: u64 = 0x3100_0000_0000;
pub const VICTIM_SIZE: u64 = 4 << 20;
/// The words that end the tenant's kernels.
pub const STOP: u64 = 0x3200_0000_0000;
/// Where a module's variables are placed.
const VARIABLES: u64 = BASE + HEADROOM + (1 << 20);
/// What its modules have in common: what they print, and their heap.
pub const PRINTED: u64 = BASE + HEADROOM + (2 << 20);
const PRINTED_SIZE: u64 = 16 << 10;
pub const BLOCKS: u64 = BASE + HEADROOM + (3 << 20);
pub const BLOCKS_SIZE: u64 = 64 << 10;

/// The device. Its addresses are those of the process: there is one at a time.
pub struct Partition {
    pub bench: Bench,
    _alone: MutexGuard<'static, ()>,
}

/// A fenced module that is loaded.
pub struct Loaded {
    pub program: Program,
    /// Where each variable of the table lies.
    pub places: Vec<u64>,
}

static ALONE: Mutex<()> = Mutex::new(());

/// Fences a module, and has it judged.
pub fn fenced(source: &str, form: FenceForm) -> Fenced {
    let fenced = fence(source, form).unwrap_or_else(|error| panic!("{error}\n{source}"));
    if let Err(errors) = verify_contained(&fenced.text) {
        panic!("{errors:?}\n{}", fenced.text);
    }
    fenced
}

impl Partition {
    pub fn new() -> Partition {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let bench = Bench::new();
        let memory = &bench.memory;
        memory.map_fixed(BASE - MARGIN, SIZE + 2 * MARGIN).unwrap();
        memory.map_fixed(VICTIM, VICTIM_SIZE).unwrap();
        memory.map_fixed(STOP, GRANULE).unwrap();
        Partition {
            bench,
            _alone: alone,
        }
    }

    /// Makes the other tenant what it was.
    pub fn reset_victim(&self) {
        let memory = &self.bench.memory;
        memory.fill(VICTIM, &[0xa5], VICTIM_SIZE).unwrap();
    }

    pub fn victim_is_unharmed(&self) -> bool {
        let mut bytes = vec![0; VICTIM_SIZE as usize];
        self.bench.memory.read(VICTIM, &mut bytes).unwrap();
        bytes.iter().all(|byte| *byte == 0xa5)
    }

    /// Loads a module as the host does. `None` if the device does not take it.
    pub fn load(&self, fenced: &Fenced, form: FenceForm) -> Option<Loaded> {
        let memory = &self.bench.memory;
        let module = ptx::parse(&fenced.text).ok()?;
        let program = Program::link(&[module], memory).ok()?;
        if !program.unsupported().is_empty() {
            return None;
        }
        let loaded = Loaded {
            places: places(fenced),
            program,
        };
        self.place(fenced, &loaded);
        let table = FenceTable::new((BASE, SIZE), STOP, 1024, form == FenceForm::Mask).unwrap();
        let mut bytes = table.bytes().to_vec();
        bytes.extend(loaded.places.iter().flat_map(|place| place.to_le_bytes()));
        let own = loaded.program.variable(VARIABLE).unwrap();
        assert_eq!(own.size, bytes.len() as u64);
        memory.write(own.address, &bytes).unwrap();
        Some(loaded)
    }

    /// Makes what the modules have in common as it is before the first launch.
    pub fn reset_common(&self) {
        let memory = &self.bench.memory;
        let print = TenantPrint {
            size: PRINTED_SIZE,
            records: PRINTED + 64,
            ..TenantPrint::default()
        };
        memory.write(PRINTED, &print.bytes()).unwrap();
        memory.fill(print.records, &[0], print.size).unwrap();
        let heap = TenantHeap::new(BLOCKS + 1024, BLOCKS_SIZE);
        memory.write(BLOCKS, &heap.bytes()).unwrap();
    }

    /// What was printed since.
    pub fn printed(&self) -> String {
        let mut bytes = vec![0; PRINTED_SIZE as usize];
        self.bench.memory.read(PRINTED + 64, &mut bytes).unwrap();
        let mut text = Vec::new();
        for record in model::printed::records(&bytes).flatten() {
            record.write(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Gives the variables of a module the bytes that they have at first.
    pub fn place(&self, fenced: &Fenced, loaded: &Loaded) {
        let memory = &self.bench.memory;
        for (variable, place) in fenced.variables.iter().zip(&loaded.places) {
            let own = loaded.program.variable(&variable.name).unwrap();
            assert_eq!(own.size, variable.size);
            if !variable.is_common {
                memory.copy(*place, own.address, own.size).unwrap();
            }
        }
        for relocation in &fenced.relocations {
            let (address, size) = match &relocation.holder {
                Holder::Placed(index) => (loaded.places[*index], fenced.variables[*index].size),
                Holder::Constant(name) => {
                    assert_ne!(name, VARIABLE);
                    let own = loaded.program.variable(name).unwrap();
                    (own.address, own.size)
                }
            };
            let bytes = relocation.value(loaded.places[relocation.target]);
            assert!(relocation.offset + bytes.len() as u64 <= size);
            memory.write(address + relocation.offset, &bytes).unwrap();
        }
    }
}

/// Where the variables go.
fn places(fenced: &Fenced) -> Vec<u64> {
    let mut at = VARIABLES;
    let mut next = |variable: &instrument::FencedVariable| {
        match variable.name.as_str() {
            PRINT if variable.is_common => return PRINTED,
            HEAP if variable.is_common => return BLOCKS,
            name => assert!(!variable.is_common, "{name}"),
        }
        let place = at.next_multiple_of(u64::from(variable.alignment));
        at = place + variable.size;
        place
    };
    fenced.variables.iter().map(&mut next).collect()
}
