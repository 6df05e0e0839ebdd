//! Call stacks that were unwound before, so that most are not unwound again.
//!
//! Unwinding takes microseconds, and programs call the same functions from the
//! same places again and again. With each stack this keeps where on the
//! thread's stack each return address was found. A later call that starts at
//! the same stack pointer has the same callers if the same return addresses are
//! there still: the innermost one says which code called, that code's frame has
//! one size, so the next return address must be where it was before, and so on.
//! A frame whose size varies (`alloca`) could in theory leave an old stack's
//! addresses in place; what then is wrong is the text of a report.

use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

/// Stacks kept for each thread, by stack pointer.
const KEPT: usize = 64;
/// Return addresses of a stack, without an allocation.
type Frames = SmallVec<[Frame; 64]>;

/// A return address and where it lies on the thread's stack.
#[derive(Clone, Copy, Debug)]
struct Frame {
    place: usize,
    address: usize,
}

/// A stack as it was unwound.
struct Known {
    /// Stack pointer of the call that asked.
    start: usize,
    limit: usize,
    /// Those of its return addresses whose places are known.
    frames: Box<[Frame]>,
    stack: Arc<[usize]>,
}

thread_local! {
    static KNOWN: RefCell<Vec<Option<Known>>> = const { RefCell::new(Vec::new()) };
}

/// At most `limit` return addresses of the calling thread, innermost first.
#[inline(never)]
pub(crate) fn capture(limit: usize) -> Arc<[usize]> {
    let here = 0u8;
    let start = std::hint::black_box(&raw const here) as usize;
    let found = KNOWN.try_with(|known| {
        let known = known.try_borrow().ok()?;
        let known = known.get(slot(start))?.as_ref()?;
        let same = known.start == start && known.limit == limit && is_there(start, &known.frames);
        same.then(|| known.stack.clone())
    });
    if let Ok(Some(stack)) = found {
        return stack;
    }
    let (stack, frames) = unwind(start, limit);
    if let Some(frames) = frames {
        let new = Known {
            start,
            limit,
            frames,
            stack: stack.clone(),
        };
        // A thread that ends keeps nothing.
        let _ = KNOWN.try_with(|known| {
            if let Ok(mut known) = known.try_borrow_mut() {
                if known.is_empty() {
                    known.resize_with(KEPT, || None);
                }
                known[slot(start)] = Some(new);
            }
        });
    }
    stack
}

fn slot(start: usize) -> usize {
    // Frames are multiples of 16 bytes.
    (start >> 4) % KEPT
}

/// The stack, and the places of its return addresses if all are known.
fn unwind(start: usize, limit: usize) -> (Arc<[usize]>, Option<Box<[Frame]>>) {
    let mut addresses: SmallVec<[usize; 48]> = SmallVec::new();
    let mut frames = Frames::new();
    let mut last = start;
    let mut regular = true;
    backtrace::trace(|frame| {
        let address = frame.ip() as usize;
        addresses.push(address);
        // The call that made a frame has pushed its return address below the
        // stack pointer that the caller has after it.
        let above = frame.sp() as usize;
        // The process's first frame returns to nowhere.
        if above > start && regular && address != 0 {
            let place = above - WORD;
            // What lies below the frame of `capture` is of the unwinder, and
            // changes.
            regular = place > last && place.is_multiple_of(WORD) && read(place) == address;
            last = place;
            frames.push(Frame { place, address });
        }
        addresses.len() < limit
    });
    let whole = regular && !frames.is_empty();
    (
        addresses.as_slice().into(),
        whole.then(|| frames.as_slice().into()),
    )
}

const WORD: usize = size_of::<usize>();

/// Whether the return addresses are where they were.
fn is_there(start: usize, frames: &[Frame]) -> bool {
    frames
        .iter()
        .all(|frame| frame.place > start && read(frame.place) == frame.address)
}

/// A word of the calling thread's own stack.
fn read(place: usize) -> usize {
    let word = std::ptr::with_exposed_provenance::<usize>(place);
    // SAFETY: the place is a multiple of a word above the frame of `capture`,
    // which runs on this stack, and was found by unwinding that frame now, or
    // from the same stack pointer in this thread before: the frames above it
    // were as long then, so that the place lies in the part of the thread's
    // stack that is in use. Only this thread writes there, and not meanwhile;
    // the read is volatile, because the compiler has no object there.
    unsafe { word.read_volatile() }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Stack = Arc<[usize]>;

    #[inline(never)]
    fn one() -> Stack {
        std::hint::black_box(capture(32))
    }

    #[inline(never)]
    fn two() -> Stack {
        std::hint::black_box(capture(32))
    }

    #[test]
    fn the_same_call_is_unwound_once_and_others_are_told_apart() {
        let mut same: Vec<Stack> = Vec::new();
        let mut other: Vec<Stack> = Vec::new();
        // A loop that the compiler does not unroll.
        for _ in 0..std::hint::black_box(3) {
            same.push(one());
            other.push(two());
        }
        for stacks in [&same, &other] {
            assert!(stacks.windows(2).all(|pair| pair[0] == pair[1]));
        }
        assert_ne!(same[0], other[0]);
        let shared = |stacks: &[Stack]| Arc::ptr_eq(&stacks[1], &stacks[2]);
        // Both start at the same stack pointer, perhaps: then the last one counts.
        let repeated: Vec<Stack> = (0..std::hint::black_box(3)).map(|_| one()).collect();
        assert!(shared(&repeated));
    }

    #[test]
    fn deeper_stacks_from_one_place_differ() {
        #[inline(never)]
        fn deep(depth: u32) -> Stack {
            let stack = match depth {
                0 => capture(64),
                _ => deep(depth - 1),
            };
            std::hint::black_box(stack)
        }
        let lengths: Vec<usize> = [0, 5, 5, 2, 5].map(|depth| deep(depth).len()).to_vec();
        assert!(lengths[1] == lengths[2] && lengths[1] == lengths[4]);
        assert!(lengths[0] < lengths[3] && lengths[3] < lengths[1]);
        let other = std::thread::spawn(|| deep(5)).join().unwrap();
        assert!(!other.is_empty());
    }
}
