//! Which of a kernel's queries are likely to be proved at launches: those that are at some
//! launch of a sample, with large buffers. Others bound an address by nothing that a launch
//! has (`-1` of what may be zero, a number that was loaded), and would keep all accesses of
//! the kernel from losing their checks. This decides how often proofs are found, never
//! whether they are right.

use analysis::{Judged, LaunchShape, Program, Values};
use ptx::{Directive, Function};

/// Values that all scalars of the parameters have, at one launch each.
const SCALARS: [u64; 4] = [64, 1000, 8, ONE];

/// Where all sizes are that, so is nearly every number, and nothing is said of others.
const ONE: u64 = 1;

/// Operations that may be evaluated to prove queries in parts, of one kernel: some tenths of
/// a millisecond.
const IN_PARTS: u32 = 5_000;

/// Blocks along each axis.
const GRID: [u32; 3] = [16, 16, 16];

/// Threads of a block, where the kernel does not say how many it takes.
const BLOCKS: [[u32; 3]; 2] = [[32, 1, 1], [16, 16, 1]];

/// Bytes of dynamic shared memory.
const SHARED: u32 = 48 << 10;

/// Bytes of each buffer: more than sizes make, and less than what a number of 32 bits may
/// be that nothing bounds.
const ROOM: u64 = 1 << 31;

/// How far buffers lie apart.
const APART: u64 = 1 << 36;

/// Of each query of a program, in order, whether some launch of the sample proves it, whole
/// or in parts; or all do that reach the access.
pub(super) fn plausible(function: &Function<'_>, program: &Program, queries: usize) -> Vec<bool> {
    let (mut is_proved, mut fails) = (vec![false; queries], vec![false; queries]);
    let mut is_tried = vec![false; queries];
    let operations = program.operations().max(1) as u32;
    let mut left = IN_PARTS / operations;
    let declared = function.directives.iter().find_map(declared);
    let blocks = declared.as_ref().map_or(&BLOCKS[..], std::slice::from_ref);
    let launches = blocks.iter().flat_map(|block| {
        let shape = LaunchShape {
            grid: GRID,
            block: *block,
            shared: SHARED,
        };
        SCALARS.into_iter().map(move |scalar| (shape, scalar))
    });
    for (shape, scalar) in launches {
        let inputs = inputs(program, scalar);
        let bounds = |offset| Some((base(offset), ROOM));
        let Judged { failing, unreached } = program.judge(&shape, &inputs, &bounds);
        for query in 0..queries {
            let is_in = |some: &[u32]| some.binary_search(&(query as u32)).is_ok();
            match (is_in(&failing), is_in(&unreached)) {
                (true, _) => fails[query] = true,
                (false, true) => {}
                (false, false) => is_proved[query] |= scalar != ONE,
            }
        }
        if is_proved.iter().all(|is| *is) {
            break;
        }
        for query in failing {
            let number = query as usize;
            if left > 0 && !is_proved[number] && !is_tried[number] && scalar != ONE {
                let asked = (query, left);
                let found = program.proves_query_in_parts(asked, &shape, &inputs, &bounds);
                left = left.saturating_sub(found.evaluations);
                is_proved[number] = found.is_proved;
                is_tried[number] = true;
            }
        }
    }
    let both = is_proved.into_iter().zip(fails);
    both.map(|(is_proved, fails)| is_proved || !fails).collect()
}

/// Where the buffer of a pointer lies.
fn base(offset: u32) -> u64 {
    APART * (1 + u64::from(offset))
}

/// The inputs of one launch of the sample.
fn inputs(program: &Program, scalar: u64) -> Vec<Values> {
    let is_pointer = |offset| {
        let mut pointers = program.pointers().iter();
        pointers.any(|pointer| pointer.offset == offset)
    };
    let inputs = program.inputs().iter();
    inputs
        .map(|input| match is_pointer(input.offset) {
            true => Values::only(base(input.offset)),
            false => Values::only(scalar),
        })
        .collect()
}

/// The block of a kernel that says how large it is.
fn declared(directive: &Directive<'_>) -> Option<[u32; 3]> {
    if !matches!(directive.name, ".maxntid" | ".reqntid") {
        return None;
    }
    let mut block = [1; 3];
    for (side, number) in block.iter_mut().zip(directive.arguments.split(',')) {
        *side = number.trim().parse().ok().filter(|side| *side > 0)?;
    }
    Some(block)
}
