//! Launches that are as others before them: the same shape and pointers, scalars
//! for which the proof is known to hold, and no allocation made or freed since.
//! The answer is then the same, too: neither are the allocations of the pointers
//! looked up, nor is the proof asked. Programs launch most kernels in loops.

use instrument::{EntryPlan, LaunchShape, Program};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::OnceLock;

/// Launches kept for each kernel: programs swap two buffers, or three.
const KEPT: usize = 4;

/// Launches in a row that were not recognised, after which only one in so many
/// is compared and kept: the kernel is launched in ever new ways.
const PATIENCE: u32 = 16;

/// Words of a launch's shape.
const SHAPE: usize = 4;

/// A launch's shape, in words that can be compared.
pub(crate) fn shape_words(shape: &LaunchShape) -> [u64; SHAPE] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let [grid, block] = [shape.grid, shape.block];
    [
        pair(grid[0], grid[1]),
        pair(grid[2], block[0]),
        pair(block[1], block[2]),
        u64::from(shape.shared),
    ]
}

/// What decides about a launch, in words that can be compared.
type Words = SmallVec<[u64; 24]>;

/// What decides about a launch, as the program passes it.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    /// The shape, the inputs of the proof, the pointers.
    words: Words,
    /// Inputs; `None` if the launch has no proof, or they cannot be read.
    inputs: Option<usize>,
}

impl Arguments {
    /// Reads them. `program` is the proof, if it matters; `read` reads so many
    /// bytes at an offset of the parameters. `None` if a pointer cannot be read.
    #[inline]
    pub fn read(
        entry: &EntryPlan,
        program: Option<&Program>,
        shape: &LaunchShape,
        read: impl Fn(u32, u8) -> Option<u64>,
    ) -> Option<Arguments> {
        let mut words = SmallVec::new();
        words.extend_from_slice(&shape_words(shape));
        let inputs = program.and_then(|program| {
            for input in program.inputs() {
                words.push(read(input.offset, input.bytes)?);
            }
            Some(program.inputs().len())
        });
        if inputs.is_none() {
            words.truncate(SHAPE);
        }
        for offset in &entry.roots {
            words.push(read(*offset, 8)?);
        }
        Some(Arguments { words, inputs })
    }

    /// The inputs of the proof, if it can be asked.
    #[inline]
    pub fn inputs(&self) -> Option<&[u64]> {
        Some(&self.words[SHAPE..SHAPE + self.inputs?])
    }

    /// The pointers, in the order of [`EntryPlan::roots`].
    #[inline]
    pub fn pointers(&self) -> &[u64] {
        &self.words[SHAPE + self.inputs.unwrap_or(0)..]
    }
}

/// Values of a proof's inputs for which it holds, if nothing else of a launch
/// changes: the least and the greatest of each.
pub(crate) type Inputs = SmallVec<[(u64, u64); 8]>;

/// The last launches of a kernel that were proved in bounds.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    kept: Mutex<Kept>,
    /// Offset and size of the parameters that decide about a launch, in the
    /// order of [`Arguments`]; known from the first launch that is kept.
    reads: OnceLock<Box<[(u32, u8)]>>,
}

#[derive(Debug, Default)]
struct Kept {
    launches: [Known; KEPT],
    /// The one to forget next.
    oldest: usize,
    /// The generation at the last launch.
    generation: u64,
    /// Launches since one was recognised.
    new: u32,
}

/// Launches that were proved, or would have been.
#[derive(Debug, Default)]
struct Known {
    /// The generation of the allocations.
    generation: u64,
    /// The least and the greatest of each word; none if there is no launch.
    words: Vec<(u64, u64)>,
}

impl Known {
    fn covers(&self, generation: u64, words: &[u64]) -> bool {
        self.generation == generation
            && self.words.len() == words.len()
            && (self.words.iter().zip(words)).all(|((low, high), word)| low <= word && word <= high)
    }
}

/// What decides about a launch, with the parameters at these offsets. `None` if
/// one cannot be read.
#[inline]
fn words(
    reads: &[(u32, u8)],
    shape: &LaunchShape,
    read: impl Fn(u32, u8) -> Option<u64>,
) -> Option<Words> {
    let mut words = Words::new();
    words.extend_from_slice(&shape_words(shape));
    for (offset, bytes) in reads {
        words.push(read(*offset, *bytes)?);
    }
    Some(words)
}

/// What is known of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recognised {
    /// It was proved.
    Proved,
    /// Nothing. `is_kept`: it may come again, so it is worth while to keep it.
    New { is_kept: bool },
}

impl Seen {
    /// Whether a launch comes again as it was proved. This is the path of most
    /// launches: it reads what decides and what is known of it, and nothing of
    /// the kernel's plan or the settings, since between two launches the driver
    /// displaces what lay in the first cache. `generation` is that of the
    /// allocations. False does not mean that it is new.
    #[inline]
    pub fn comes_again(
        &self,
        generation: u64,
        shape: &LaunchShape,
        read: impl Fn(u32, u8) -> Option<u64>,
    ) -> bool {
        let Some(reads) = self.reads.get() else {
            return false;
        };
        let mut kept = self.kept.lock();
        if kept.generation != generation || kept.new > PATIENCE {
            return false;
        }
        let Some(words) = words(reads, shape, read) else {
            return false;
        };
        let covers = |known: &Known| known.covers(generation, &words);
        let comes_again = kept.launches.iter().any(covers);
        if comes_again {
            kept.new = 0;
        }
        comes_again
    }

    /// For a launch that comes again: calls `decides` with the offset and size of
    /// each parameter that decides about it, and the least and the greatest value
    /// for which it is proved. `None` if it does not, or `decides` returns that.
    pub fn covering(
        &self,
        generation: u64,
        shape: &LaunchShape,
        read: impl Fn(u32, u8) -> Option<u64>,
        mut decides: impl FnMut((u32, u8), (u64, u64)) -> Option<()>,
    ) -> Option<()> {
        let reads = self.reads.get()?;
        let words = words(reads, shape, read)?;
        let kept = self.kept.lock();
        let mut launches = kept.launches.iter();
        let known = launches.find(|known| known.covers(generation, &words))?;
        let mut ranges = reads.iter().zip(&known.words[SHAPE..]);
        ranges.try_for_each(|(read, range)| decides(*read, *range))
    }

    /// Says where the parameters lie that decide about launches of a kernel.
    pub fn lies_at(&self, program: &Program, entry: &EntryPlan) {
        self.reads.get_or_init(|| {
            let inputs = program.inputs().iter();
            let inputs = inputs.map(|input| (input.offset, input.bytes));
            let pointers = entry.roots.iter().map(|offset| (*offset, 8));
            inputs.chain(pointers).collect()
        });
    }

    /// Recognises a launch. `generation` is that of the allocations, read
    /// before any is looked up.
    #[inline]
    pub fn recognise(&self, generation: u64, launch: &Arguments) -> Recognised {
        let mut kept = self.kept.lock();
        if kept.generation != generation {
            // A program that allocates for each launch gains nothing.
            kept.generation = generation;
            return Recognised::New { is_kept: false };
        }
        kept.new = kept.new.wrapping_add(1);
        if kept.new > PATIENCE && !kept.new.is_multiple_of(PATIENCE) {
            return Recognised::New { is_kept: false };
        }
        let covers = |known: &Known| known.covers(generation, &launch.words);
        if kept.launches.iter().any(covers) {
            kept.new = 0;
            return Recognised::Proved;
        }
        Recognised::New { is_kept: true }
    }

    /// Keeps a launch that was proved, with the inputs for which it would have
    /// been.
    pub fn keep(&self, generation: u64, launch: &Arguments, inputs: &Inputs) {
        let mut kept = self.kept.lock();
        // What is of another generation never comes again.
        let old = |known: &Known| known.generation != generation || known.words.is_empty();
        let index = kept.launches.iter().position(old).unwrap_or(kept.oldest);
        kept.oldest = (index + 1) % KEPT;
        let known = &mut kept.launches[index];
        known.generation = generation;
        known.words.clear();
        let alike = launch.words.iter().map(|word| (*word, *word));
        known.words.extend(alike);
        for (word, range) in known.words[SHAPE..].iter_mut().zip(inputs) {
            *word = *range;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Inputs, KEPT, PATIENCE, Recognised, Seen};
    use instrument::{EntryPlan, Instrumented, LaunchShape};

    /// A kernel of two pointers and a number.
    const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
        .visible .entry k(.param .u64 in, .param .u64 out, .param .u32 i)\n{\n\
        .reg .b64 %rd<8>;\n.reg .b32 %r<2>;\n.reg .f32 %f<2>;\n\
        ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nld.param.u32 %r1, [i];\n\
        mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.f32 %f1, [%rd4];\n\
        st.global.f32 [%rd2], %f1;\nret;\n}\n";

    const SHAPE: LaunchShape = LaunchShape {
        grid: [1; 3],
        block: [32, 1, 1],
        shared: 0,
    };

    const NEW: Recognised = Recognised::New { is_kept: true };
    const IGNORED: Recognised = Recognised::New { is_kept: false };

    fn module() -> Instrumented {
        instrument::instrument(PTX, &instrument::Options::default()).expect("valid PTX")
    }

    fn launch(entry: &EntryPlan, shape: &LaunchShape, [first, second, i]: [u64; 3]) -> Arguments {
        let program = entry.proof.as_ref().expect("its arithmetic is followed");
        let read = |offset, _| [first, second, i].get(offset as usize / 8).copied();
        Arguments::read(entry, Some(program), shape, read).expect("all is there")
    }

    /// The launch's own values, and for the number those up to `most`.
    fn holds(entry: &EntryPlan, launch: &Arguments, most: u64) -> Inputs {
        let program = entry.proof.as_ref().expect("its arithmetic is followed");
        let values = launch.inputs().expect("they were read").iter();
        (program.inputs().iter().zip(values))
            .map(|(input, value)| match input.offset {
                16 => (*value, most),
                _ => (*value, *value),
            })
            .collect()
    }

    #[test]
    fn a_launch_is_recognised_by_all_that_decides_about_it() {
        let module = module();
        let entry = &module.entries[0];
        let seen = Seen::default();
        let known = launch(entry, &SHAPE, [64, 128, 5]);
        assert_eq!(known.pointers(), [64, 128]);
        assert_eq!(
            seen.recognise(7, &known),
            IGNORED,
            "the first of its generation"
        );
        assert_eq!(seen.recognise(7, &known), NEW);
        seen.keep(7, &known, &holds(entry, &known, 9));
        assert_eq!(seen.recognise(7, &known), Recognised::Proved);
        for i in [5, 9] {
            let other = launch(entry, &SHAPE, [64, 128, i]);
            assert_eq!(seen.recognise(7, &other), Recognised::Proved, "{i}");
        }
        let again = |generation, shape: &LaunchShape, [first, second, i]: [u64; 3]| {
            let read = |offset: u32, _| [first, second, i].get(offset as usize / 8).copied();
            seen.comes_again(generation, shape, read)
        };
        assert!(
            !again(7, &SHAPE, [64, 128, 5]),
            "where it lies is not known"
        );
        let program = entry.proof.as_ref().expect("its arithmetic is followed");
        seen.lies_at(program, entry);
        assert!(again(7, &SHAPE, [64, 128, 5]) && again(7, &SHAPE, [64, 128, 9]));
        assert!(!again(8, &SHAPE, [64, 128, 5]), "something was allocated");
        assert!(!seen.comes_again(7, &SHAPE, |_, _| None));
        let wide = LaunchShape {
            block: [64, 1, 1],
            ..SHAPE
        };
        for other in [
            launch(entry, &SHAPE, [64, 128, 4]),
            launch(entry, &SHAPE, [64, 128, 10]),
            launch(entry, &SHAPE, [65, 128, 5]),
            launch(entry, &SHAPE, [64, 129, 5]),
            launch(entry, &wide, [64, 128, 5]),
        ] {
            assert_eq!(seen.recognise(7, &other), NEW);
        }
        for differs in [[64, 128, 4], [64, 128, 10], [65, 128, 5], [64, 129, 5]] {
            assert!(!again(7, &SHAPE, differs), "{differs:?}");
        }
        assert!(!again(7, &wide, [64, 128, 5]));
        assert_eq!(
            seen.recognise(8, &known),
            IGNORED,
            "something was allocated"
        );
        assert_eq!(seen.recognise(8, &known), NEW);
    }

    #[test]
    fn kernels_that_are_launched_in_ever_new_ways_are_looked_at_now_and_then() {
        let module = module();
        let entry = &module.entries[0];
        let seen = Seen::default();
        let mut kept = 0;
        for round in 0..10 * u64::from(PATIENCE) {
            let one = launch(entry, &SHAPE, [round, 128, 5]);
            if seen.recognise(7, &one) == NEW {
                seen.keep(7, &one, &holds(entry, &one, 5));
                kept += 1;
            }
        }
        assert!(kept <= PATIENCE + 10, "{kept}");
        // A loop over a few launches is found, however late it begins.
        let rounds = 4 * u64::from(PATIENCE);
        let proved = (0..rounds).filter(|round| {
            let one = launch(entry, &SHAPE, [round % (KEPT as u64 - 1), 256, 5]);
            let recognised = seen.recognise(7, &one);
            if recognised == NEW {
                seen.keep(7, &one, &holds(entry, &one, 5));
            }
            recognised == Recognised::Proved
        });
        assert!(proved.count() > 0);
    }
}
