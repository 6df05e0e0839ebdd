//! Which of a kernel's queries are likely to be proved at launches: those that are at some
//! launch of a sample, with buffers as large as can be. Others bound an address by nothing
//! that a launch has (`-1` of what may be zero, a value that a loop halves in a way that is
//! not followed), and would keep all accesses of the kernel from losing their checks.
//! This decides how often proofs are found, never whether they are right.

use analysis::{Judged, LaunchShape, Program};
use ptx::{Directive, Function};

/// Values that all scalars of the parameters have, at one launch each.
const SCALARS: [u64; 4] = [64, 1024, 8, 1];

/// Blocks along each axis.
const GRID: [u32; 3] = [16, 16, 16];

/// Threads of a block, where the kernel does not say how many it takes.
const BLOCKS: [[u32; 3]; 4] = [[256, 1, 1], [16, 16, 1], [32, 1, 1], [8, 8, 8]];

/// Bytes of dynamic shared memory.
const SHARED: u32 = 48 << 10;

/// Bytes of each buffer, and how far buffers lie apart.
const ROOM: u64 = 1 << 36;

/// Of each query of a program, in order, whether some launch of the sample proves it; or no
/// launch reaches the access.
pub(super) fn plausible(function: &Function<'_>, program: &Program, queries: usize) -> Vec<bool> {
    let (mut is_proved, mut fails) = (vec![false; queries], vec![false; queries]);
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
        let Judged { failing, unreached } = judge(program, &shape, scalar);
        for query in 0..queries {
            let is_in = |some: &[u32]| some.binary_search(&(query as u32)).is_ok();
            match (is_in(&failing), is_in(&unreached)) {
                (true, _) => fails[query] = true,
                (false, true) => {}
                (false, false) => is_proved[query] = true,
            }
        }
        if is_proved.iter().all(|is| *is) {
            break;
        }
    }
    let both = is_proved.into_iter().zip(fails);
    both.map(|(is_proved, fails)| is_proved || !fails).collect()
}

/// What one launch of the sample says.
fn judge(program: &Program, shape: &LaunchShape, scalar: u64) -> Judged {
    let base = |offset: u32| ROOM * (1 + u64::from(offset));
    let is_pointer = |offset| {
        let mut pointers = program.pointers().iter();
        pointers.any(|pointer| pointer.offset == offset)
    };
    let inputs = program
        .inputs()
        .iter()
        .map(|input| match is_pointer(input.offset) {
            true => base(input.offset),
            false => scalar,
        });
    let inputs: Vec<u64> = inputs.collect();
    program.judge(shape, &inputs, &|offset| Some((base(offset), ROOM)))
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
