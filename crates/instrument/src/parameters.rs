//! Layout of a kernel's parameter block (PTX ISA, 5.1.6.1; natural or
//! declared alignment, in order).

use ptx::Function;
use serde::{Deserialize, Serialize};

/// Place of one parameter in the parameter block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterSlot {
    /// Bytes from the start of the block.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
}

/// Parameters of `function` and the bytes they take together.
pub(crate) fn layout(function: &Function<'_>) -> (Vec<ParameterSlot>, u32) {
    let mut end = 0u64;
    let mut slots = Vec::with_capacity(function.parameters.len());
    for parameter in &function.parameters {
        let align = u64::from(parameter.alignment().max(1));
        let offset = end.div_ceil(align) * align;
        let size = parameter.size().unwrap_or(0);
        end = offset.saturating_add(size);
        slots.push(ParameterSlot {
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            size: u32::try_from(size).unwrap_or(u32::MAX),
        });
    }
    (slots, u32::try_from(end).unwrap_or(u32::MAX))
}

/// The parameter that holds a place of the parameter block, and where in it.
pub(crate) fn holding<'a>(function: &Function<'a>, place: u32) -> Option<(&'a str, u32)> {
    let (slots, _) = layout(function);
    let mut all = function.parameters.iter().zip(slots);
    all.find_map(|(parameter, slot)| {
        let within = place.checked_sub(slot.offset)?;
        (within < slot.size).then_some((parameter.name, within))
    })
}

/// Most bytes of parameters that an entry may have: 32,764 from PTX 8.1 on
/// sm_70 and up, else 4,352 (PTX ISA, 5.1.6.1).
pub(crate) fn limit(version: (u32, u32), architecture: u32) -> u32 {
    if version >= (8, 1) && architecture >= 70 {
        32_764
    } else {
        4_352
    }
}
