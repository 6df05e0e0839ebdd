//! Whether a launch is proved in bounds. The answer is worked out from the
//! launch's shape, scalars and buffers, and the last ones are kept: programs
//! launch the same kernels with the same arguments again and again.

use crate::launches::Roots;
use instrument::{LaunchShape, Program};
use parking_lot::Mutex;
use smallvec::SmallVec;

/// Answers kept for each kernel: programs that swap two buffers, at several
/// sizes.
const KEPT: usize = 8;

/// All that an answer depends on.
type Question = SmallVec<[u64; 24]>;

/// The last answers of one kernel.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    answers: Vec<(Question, bool)>,
    /// The one to forget next.
    oldest: usize,
}

impl Answers {
    /// Whether no access of the launch can leave its buffer. `read` gives the
    /// bits of so many bytes at an offset of the parameters.
    pub fn proves(
        &self,
        program: &Program,
        shape: &LaunchShape,
        roots: &Roots,
        read: &dyn Fn(u32, u8) -> Option<u64>,
    ) -> bool {
        let mut question = Question::new();
        for input in program.inputs() {
            let Some(bits) = read(input.offset, input.bytes) else {
                return false;
            };
            question.push(bits);
        }
        let inputs = question.len();
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let [grid, block] = [shape.grid, shape.block];
        question.extend([
            pair(grid[0], grid[1]),
            pair(grid[2], block[0]),
            pair(block[1], block[2]),
            u64::from(shape.shared),
        ]);
        for root in roots {
            question.extend([root.bounds.base.0, root.bounds.size]);
        }
        if let Some(answer) = self.kept.lock().find(&question) {
            return answer;
        }
        let bounds = |offset: u32| {
            let root = roots.iter().find(|root| root.offset == offset)?;
            Some((root.bounds.base.0, root.bounds.size))
        };
        let answer = program.proves(shape, &question[..inputs], &bounds);
        self.kept.lock().keep(question, answer);
        answer
    }
}

impl Kept {
    fn find(&self, question: &Question) -> Option<bool> {
        let found = self.answers.iter().find(|(kept, _)| kept == question)?;
        Some(found.1)
    }

    fn keep(&mut self, question: Question, answer: bool) {
        if self.answers.len() < KEPT {
            self.answers.push((question, answer));
            return;
        }
        self.answers[self.oldest] = (question, answer);
        self.oldest = (self.oldest + 1) % KEPT;
    }
}
