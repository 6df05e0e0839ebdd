//! Launches that are put in together: they do what they do one by one.

use super::{Raw, failed};
use protocol::{Frame, Place, Reply, Request};

/// Multiplies a word by 3 and adds a number, in one thread.
const STEP: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry step(.param .u64 at, .param .u32 number)
{
    .reg .u32 %r<4>;
    .reg .u64 %rd<3>;
    ld.param.u64 %rd1, [at];
    ld.param.u32 %r1, [number];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r2, [%rd2];
    mad.lo.u32 %r3, %r2, 3, %r1;
    st.global.u32 [%rd2], %r3;
    ret;
}
";

/// A tenant with a kernel and some words, and what these should be.
struct Steps {
    raw: Raw,
    kernel: u32,
    parameter_bytes: u32,
    words: u64,
    expected: [u32; WORDS],
}

const WORDS: usize = 4;

impl Steps {
    fn new() -> Steps {
        let mut raw = Raw::connect(0).expect("welcome");
        assert_eq!(raw.ask(&Request::Upload, STEP.as_bytes()), Reply::Done);
        let Reply::Loaded(loaded) = raw.ask(&Request::Load, &[]) else {
            panic!("not loaded");
        };
        let Reply::Address(words) = raw.ask(&Request::Allocate { size: 512 }, &[]) else {
            panic!("no memory");
        };
        let zeros = Request::Write {
            stream: 0,
            to: Place::linear(words, 4 * WORDS as u64),
        };
        assert_eq!(raw.ask(&zeros, &[0; 4 * WORDS]), Reply::Done);
        Steps {
            raw,
            kernel: loaded.kernels[0].kernel,
            parameter_bytes: loaded.kernels[0].parameter_bytes,
            words,
            expected: [0; WORDS],
        }
    }

    fn request(&self, stream: u32, word: usize, number: u32, shared: u32) -> Request {
        let mut parameters = (self.words + 4 * word as u64).to_le_bytes().to_vec();
        parameters.extend(number.to_le_bytes());
        parameters.resize(self.parameter_bytes as usize, 0);
        Request::Launch {
            kernel: self.kernel,
            stream,
            grid: [1; 3],
            block: [1; 3],
            shared,
            is_cooperative: false,
            parameters,
        }
    }

    fn step(&mut self, stream: u32, word: usize, number: u32) {
        let request = self.request(stream, word, number, 0);
        self.send(&request);
        let expected = &mut self.expected[word];
        *expected = expected.wrapping_mul(3).wrapping_add(number);
    }

    /// One that the device refuses: no block has so much shared memory.
    fn refused(&mut self, stream: u32, word: usize) {
        let request = self.request(stream, word, 1, 1 << 30);
        self.send(&request);
    }

    fn send(&mut self, request: &Request) {
        Frame::send_quietly(&mut self.raw.channel, request, &[]).expect("sent");
    }

    /// Waits; the answer to that.
    fn wait(&mut self) -> Reply {
        self.raw.ask(&Request::Synchronize, &[])
    }

    fn check(&mut self) {
        assert_eq!(self.wait(), Reply::Done);
        let from = Place::linear(self.words, 4 * WORDS as u64);
        let reply = self.raw.ask(&Request::Read { stream: 0, from }, &[]);
        assert_eq!(reply, Reply::Bytes);
        let words = self.raw.payload().as_chunks::<4>().0.iter();
        let words: Vec<u32> = words.map(|word| u32::from_le_bytes(*word)).collect();
        assert_eq!(words, self.expected);
    }
}

/// In streams that are in order with the default one, and in one that is not.
#[test]
fn launches_are_in_the_order_of_their_streams() {
    let mut steps = Steps::new();
    let mut create = |is_blocking| match steps.raw.ask(&Request::StreamCreate { is_blocking }, &[])
    {
        Reply::Number(number) => number,
        reply => panic!("{reply:?}"),
    };
    let (one, other, apart) = (create(true), create(true), create(false));
    let mut number = 7u32;
    let mut next = move |most: u32| {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 8) % most
    };
    for round in 0..200 {
        // One stream for so long that launches are put in together; a word of the stream
        // that is in order with no other is its own.
        let (stream, word) = match next(4) {
            0 => (0, next(3)),
            1 => (one, 0),
            2 => (other, 1),
            _ => (apart, 3),
        };
        for _ in 0..next(40) {
            steps.step(stream, word as usize, next(1000));
        }
        // Of two streams that the default one is in order with, each has its own word
        // until that one comes.
        if stream != 0 && next(2) == 0 {
            steps.step(0, 2, next(1000));
        }
        if round % 20 == 19 {
            steps.check();
        }
    }
    steps.check();
}

/// Each is told of by itself, and those beside it are made.
#[test]
fn a_launch_that_is_refused_takes_no_other_with_it() {
    let mut steps = Steps::new();
    for at in [0, 1, 7, 15, 16, 31] {
        for number in 0..32 {
            if number == at {
                steps.refused(0, 0);
            }
            steps.step(0, 0, number);
        }
        let told = failed(&steps.wait());
        assert_eq!(told, super::INVALID, "at {at}");
        steps.check();
    }
    // The launch that wants an answer gets its own.
    steps.step(0, 1, 5);
    let request = steps.request(0, 1, 1, 1 << 30);
    let reply = steps.raw.ask(&request, &[]);
    assert_eq!(failed(&reply), super::INVALID);
    steps.check();
}

/// Nothing that was launched keeps a module loaded or names it when it is gone.
#[test]
fn a_module_is_unloaded_behind_its_launches() {
    for _ in 0..20 {
        let mut steps = Steps::new();
        for number in 0..40 {
            steps.step(0, 0, number);
        }
        let unload = Request::Unload { module: 1 };
        assert_eq!(steps.raw.ask(&unload, &[]), Reply::Done);
        steps.check();
        assert!(failed(&steps.raw.ask(&unload, &[])).is_some());
        let request = steps.request(0, 0, 1, 0);
        let reply = steps.raw.ask(&request, &[]);
        assert_eq!(failed(&reply), super::NO_HANDLE);
        // Another one takes its place.
        assert_eq!(
            steps.raw.ask(&Request::Upload, STEP.as_bytes()),
            Reply::Done
        );
        let Reply::Loaded(loaded) = steps.raw.ask(&Request::Load, &[]) else {
            panic!("not loaded");
        };
        steps.kernel = loaded.kernels[0].kernel;
        for number in 0..40 {
            steps.step(0, 0, number);
        }
        steps.check();
    }
}
