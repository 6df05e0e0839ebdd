//! Answers for many launches are right for each of them, and few questions
//! are asked of a kernel that is launched in a loop.

use super::*;
use crate::roots::Root;
use model::{DeviceAddress, Extent};
use proptest::prelude::*;

/// `if (index + i < n) out[index + i] = in[index + i * step]`, without a guard
/// on the load.
const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
    .visible .entry k(.param .u64 in, .param .u64 out, .param .u32 i, .param .u32 n)\n{\n\
    .reg .b64 %rd<8>;\n.reg .b32 %r<8>;\n.reg .f32 %f<2>;\n.reg .pred %p<2>;\n\
    ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nld.param.u32 %r1, [i];\nld.param.u32 %r2, [n];\n\
    cvta.to.global.u64 %rd3, %rd1;\ncvta.to.global.u64 %rd4, %rd2;\n\
    mov.u32 %r3, %tid.x;\nadd.s32 %r4, %r3, %r1;\n\
    mul.wide.s32 %rd5, %r4, 4;\nadd.s64 %rd6, %rd3, %rd5;\nld.global.f32 %f1, [%rd6];\n\
    setp.ge.s32 %p1, %r4, %r2;\n@%p1 bra END;\n\
    add.s64 %rd7, %rd4, %rd5;\nst.global.f32 [%rd7], %f1;\nEND:\nret;\n}\n";

const SHAPE: LaunchShape = LaunchShape {
    grid: [1; 3],
    block: [32, 1, 1],
    shared: 0,
};

fn program() -> Program {
    let done = instrument::instrument(PTX, &instrument::Options::default()).expect("valid PTX");
    done.entries[0]
        .proof
        .clone()
        .expect("its arithmetic is followed")
}

/// A launch with buffers of `words` floats, `i` and `n`.
#[derive(Clone, Copy, Debug)]
struct Launch {
    base: u64,
    within: u64,
    words: u64,
    i: i32,
    n: i32,
}

impl Launch {
    fn roots(self) -> Roots {
        let root = |offset: u32, base: u64| Root {
            offset,
            pointer: base + self.within,
            bounds: Extent {
                base: DeviceAddress(base),
                size: self.words * 4,
            },
            is_lasting: true,
            wrong: None,
        };
        [root(0, self.base), root(8, self.base + (1 << 32))]
            .into_iter()
            .collect()
    }

    fn inputs(self, program: &Program) -> Vec<u64> {
        let value = |offset| match offset {
            0 => self.base + self.within,
            8 => self.base + (1 << 32) + self.within,
            16 => u64::from(self.i.cast_unsigned()),
            20 => u64::from(self.n.cast_unsigned()),
            _ => unreachable!("there is no such parameter"),
        };
        let inputs = program.inputs().iter();
        inputs.map(|input| value(input.offset)).collect()
    }

    fn asked(self, answers: &Answers, program: &Program) -> bool {
        let inputs = self.inputs(program);
        let is_proved = answers.proves(program, &SHAPE, &self.roots(), &inputs, false);
        let holds = answers.holds(program, &SHAPE, &self.roots(), &inputs);
        assert_eq!(holds.is_some(), is_proved);
        if let Some(holds) = &holds {
            assert_eq!(holds.len(), inputs.len());
            let covers = |((low, high), value): (&(u64, u64), &u64)| low <= value && value <= high;
            assert!(holds.iter().zip(&inputs).all(covers), "{holds:?}");
        }
        is_proved
    }

    /// What is true, worked out here.
    fn is_in_bounds(self) -> bool {
        let within = i64::try_from(self.within).expect("small");
        let words = i64::try_from(self.words).expect("small");
        let fits = |index: i64| {
            let at = within + index * 4;
            at >= 0 && at + 4 <= words * 4
        };
        (0..32).map(|thread| thread + i64::from(self.i)).all(fits)
    }
}

const BASE: u64 = 0x7000_0000_0000;

const LAUNCH: Launch = Launch {
    base: BASE,
    within: 0,
    words: 1000,
    i: 0,
    n: 1 << 20,
};

fn kept(answers: &Answers) -> usize {
    answers.kept.lock().answers.len()
}

#[test]
fn a_loop_over_a_scalar_needs_few_proofs_and_ends_exactly_where_the_buffer_does() {
    let (program, answers) = (program(), Answers::default());
    for i in 0..=968 {
        assert!(Launch { i, ..LAUNCH }.asked(&answers, &program), "{i}");
    }
    assert_eq!(kept(&answers), 1, "one answer covers them all");
    for i in [969, 970, 5000, -1, i32::MIN, i32::MAX] {
        assert!(!Launch { i, ..LAUNCH }.asked(&answers, &program), "{i}");
    }
}

#[test]
fn a_loop_that_counts_down_needs_few_proofs_too() {
    let (program, answers) = (program(), Answers::default());
    for i in (0..=968).rev() {
        assert!(Launch { i, ..LAUNCH }.asked(&answers, &program), "{i}");
    }
    assert_eq!(kept(&answers), 1);
}

#[test]
fn buffers_elsewhere_ask_the_same_question() {
    let (program, answers) = (program(), Answers::default());
    for turn in 0..20 {
        let base = BASE + turn * 0x10_0000;
        assert!(Launch { base, ..LAUNCH }.asked(&answers, &program));
    }
    assert_eq!(kept(&answers), 1);
    // Smaller buffers, and pointers to another place in them, do not.
    let smaller = Launch {
        words: 31,
        ..LAUNCH
    };
    assert!(!smaller.asked(&answers, &program));
    let later = Launch {
        within: 3876,
        ..LAUNCH
    };
    assert!(!later.asked(&answers, &program));
}

#[test]
fn evaluation_stops_when_it_has_had_its_share_and_goes_on_later() {
    let (program, answers) = (program(), Answers::default());
    {
        let mut kept = answers.kept.lock();
        kept.since = Some(Instant::now());
        kept.spent = Duration::from_secs(60);
    }
    assert!(!LAUNCH.asked(&answers, &program));
    assert_eq!(kept(&answers), 0, "nothing is known of it");
    answers.kept.lock().spent = CREDIT / 2;
    assert!(LAUNCH.asked(&answers, &program));
    // What is known costs nothing.
    answers.kept.lock().spent = Duration::from_secs(60);
    assert!(LAUNCH.asked(&answers, &program));
}

fn launches() -> impl Strategy<Value = Launch> {
    let scalar = || prop_oneof![-40..1100i32, Just(i32::MIN), Just(i32::MAX), any::<i32>()];
    let bases = prop_oneof![Just(BASE), Just(BASE + 256), Just(BASE + 0x1000)];
    let within = prop_oneof![Just(0u64), Just(4), Just(256)];
    let words = prop_oneof![Just(1000u64), Just(40), Just(0)];
    (bases, within, words, scalar(), scalar()).prop_map(|(base, within, words, i, n)| Launch {
        base,
        within,
        words,
        i,
        n,
    })
}

proptest! {
    #[test]
    fn what_is_proved_is_in_bounds(launches in prop::collection::vec(launches(), 1..60)) {
        let (program, answers) = (program(), Answers::default());
        for launch in launches {
            if launch.asked(&answers, &program) {
                prop_assert!(launch.is_in_bounds(), "{launch:?}");
            }
        }
    }
}
