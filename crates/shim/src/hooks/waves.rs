//! How many waves of blocks a launch takes, with a place less for them as there
//! is beside the guard.

/// Waves of blocks from which on one more does not matter.
const FEW_WAVES: u64 = 8;

/// Whether a launch takes one wave more with a place less, and has few of them.
/// `each`: blocks that one of the multiprocessors takes at once; 0 if that is
/// not known.
pub fn takes_a_wave_more(blocks: u64, each: u64, processors: u64) -> bool {
    let places = each * processors;
    if places == 0 {
        return false;
    }
    let waves = blocks.div_ceil(places);
    // All that run at once: the guard may keep all of its multiprocessor's
    // places, where memory is divided in another way for it.
    if waves == 1 {
        return blocks > places - each;
    }
    waves <= FEW_WAVES && blocks.div_ceil(places - 1) > waves
}
