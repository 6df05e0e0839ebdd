//! The instructions at an address and before it, and which memory they access.

use super::tables::{Kind, Tables};
use super::{u32_at, u64_at};
use object::{Object, ObjectSection};

/// Bytes of an instruction, from Volta on.
const INSTRUCTION: u64 = 16;
/// Instructions before the reported place that are read, too. The device reports where a
/// warp was when its access failed, which may be long after the access was issued; no
/// document or measurement bounds by how much.
const LATE: u64 = 64;
/// Sections of functions, before their names.
const TEXT: &str = ".text.";

/// Where an instruction is.
pub struct Place<'i> {
    /// Name of its function.
    pub function: &'i str,
    /// Bytes from the start of the function.
    pub offset: u64,
    /// Its bits, then those of the instructions before it (`LATE`).
    pub instructions: Vec<[u64; 2]>,
}

/// A function as it lies in memory.
struct Function<'d> {
    name: String,
    address: u64,
    code: &'d [u8],
}

/// The functions of all modules.
pub struct Images<'d> {
    functions: Vec<Function<'d>>,
}

impl<'d> Images<'d> {
    /// Reads the images of a dump; what cannot be read holds nothing.
    pub fn of(tables: &Tables<'d>) -> Images<'d> {
        let mut functions = Vec::new();
        for image in tables.all(Kind::Image) {
            let Ok(file) = object::File::parse(image.bytes) else {
                continue;
            };
            for section in file.sections() {
                if let (Ok(name), Ok(code)) = (section.name(), section.data())
                    && let Some(name) = name.strip_prefix(TEXT)
                {
                    functions.push(Function {
                        name: name.to_owned(),
                        address: section.address(),
                        code,
                    });
                }
            }
        }
        Images { functions }
    }

    /// The instruction at an address.
    pub fn find(&self, pc: u64) -> Option<Place<'_>> {
        let holds = |function: &&Function<'_>| {
            let offset = pc.checked_sub(function.address);
            offset.is_some_and(|offset| offset < function.code.len() as u64)
        };
        let function = self.functions.iter().find(holds)?;
        let offset = pc - function.address;
        let bits = |before: u64| {
            let at = usize::try_from(offset.checked_sub(before * INSTRUCTION)?).ok()?;
            let bytes = function.code.get(at..at + INSTRUCTION as usize)?;
            Some([u64_at(bytes, 0), u64_at(bytes, 8)])
        };
        let is_aligned = offset.is_multiple_of(INSTRUCTION);
        Some(Place {
            function: &function.name,
            offset,
            instructions: (0..=LATE).filter(|_| is_aligned).map_while(bits).collect(),
        })
    }
}

/// Accesses to global memory, by the low twelve bits: LDG, LD, STG, ST, LDGSTS,
/// ATOMG, ATOM, REDG, RED (as ptxas writes them for sm_70 to sm_90).
const ACCESSES: [u64; 9] = [
    0x981, 0x980, 0x986, 0x985, 0xfae, 0x9a8, 0x38a, 0x9a6, 0x98e,
];
/// The register that is always zero.
const ZERO: usize = 255;
/// The address has 64 bits, in two registers: bit 72.
const WIDE: u64 = 1 << 8;

/// The address that an instruction accesses, by a thread's registers, as 32-bit
/// words: the sum of registers and of an offset of 24 bits. `None` if it is no
/// known access, or if registers are missing.
pub fn accessed(instruction: [u64; 2], registers: &[u8]) -> Option<u64> {
    let [low, high] = instruction;
    if !ACCESSES.contains(&(low & 0xfff)) {
        return None;
    }
    let register = |number: usize| match number {
        ZERO => Some(0),
        _ => registers
            .get(number * 4..number * 4 + 4)
            .map(|word| u64::from(u32_at(word, 0))),
    };
    let base = (low >> 24 & 0xff) as usize;
    let upper = match high & WIDE {
        0 => 0,
        _ if base == ZERO => 0,
        _ => register(base + 1)?,
    };
    // Shifted to the top, so that its sign fills the rest.
    let offset = (low as i64) >> 40;
    Some((register(base)? | upper << 32).wrapping_add_signed(offset))
}
