//! Which of a kernel's queries are likely to be proved at launches: those that are at half
//! the launches of a sample which reach them, with large buffers. Others bound an address
//! by nothing that a launch has (`-1` of what may be zero, a number that was loaded, which
//! only is one where all sizes are), and would keep all accesses of the kernel from losing
//! their checks. This decides how often proofs are found, never whether they are right.

use analysis::{Judged, LaunchShape, Program};
use ptx::{Directive, Function};

/// Values that all scalars of the parameters have, at one launch each. Where that is 1,
/// most numbers are.
const SCALARS: [u64; 4] = [64, 1000, 8, 1];

/// If the first launches prove everything, no others are asked.
const ENOUGH: u32 = 2;

/// Operations that may be evaluated to prove queries in parts, of one kernel: some tenths of
/// a millisecond.
const IN_PARTS: u32 = 5_000;

/// Blocks along each axis.
const GRID: [u32; 3] = [16, 16, 16];

/// Threads of a block, where the kernel does not say how many it takes.
const BLOCKS: [[u32; 3]; 2] = [[256, 1, 1], [16, 16, 1]];

/// Bytes of dynamic shared memory.
const SHARED: u32 = 48 << 10;

/// Bytes of each buffer: more than sizes make, and less than what a number of 32 bits may
/// be that nothing bounds.
const ROOM: u64 = 1 << 31;

/// How far buffers lie apart.
const APART: u64 = 1 << 36;

/// Of each query of a program, in order, whether at least as many launches of the sample
/// prove it as do not, or one does in parts. Those that do not reach the access do not count.
pub(super) fn plausible(function: &Function<'_>, program: &Program, queries: usize) -> Vec<bool> {
    let (mut proved, mut failed) = (vec![0u32; queries], vec![0u32; queries]);
    let (mut in_parts, mut in_vain) = (vec![false; queries], vec![false; queries]);
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
    for (number, (shape, scalar)) in (1u32..).zip(launches) {
        let inputs = inputs(program, scalar);
        let bounds = |offset| Some((base(offset), ROOM));
        let Judged { failing, unreached } = program.judge(&shape, &inputs, &bounds);
        for query in &failing {
            let number = *query as usize;
            if left > 0 && !in_parts[number] && !in_vain[number] {
                let asked = (*query, left);
                let found = program.proves_query_in_parts(asked, &shape, &inputs, &bounds);
                left = left.saturating_sub(found.evaluations);
                in_parts[number] = found.is_proved;
                in_vain[number] = !found.is_proved;
            }
        }
        for query in 0..queries {
            let is_in = |some: &[u32]| some.binary_search(&(query as u32)).is_ok();
            match (is_in(&failing), is_in(&unreached)) {
                (true, _) => failed[query] += u32::from(!in_parts[query]),
                (false, true) => {}
                (false, false) => proved[query] += 1,
            }
        }
        if number >= ENOUGH && proved.iter().all(|count| *count == number) {
            break;
        }
    }
    let both = proved.into_iter().zip(failed);
    both.map(|(proved, failed)| proved >= failed).collect()
}

/// Where the buffer of a pointer lies.
fn base(offset: u32) -> u64 {
    APART * (1 + u64::from(offset))
}

/// The inputs of one launch of the sample.
fn inputs(program: &Program, scalar: u64) -> Vec<u64> {
    let is_pointer = |offset| {
        let mut pointers = program.pointers().iter();
        pointers.any(|pointer| pointer.offset == offset)
    };
    let inputs = program.inputs().iter();
    inputs
        .map(|input| match is_pointer(input.offset) {
            true => base(input.offset),
            false => scalar,
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
