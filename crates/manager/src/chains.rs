//! Launches that follow one another in a stream, put in by few calls.
//!
//! The launches of all tenants go through one context, whose driver takes them one at a
//! time: on an H200 four threads make 550,000 a second together, four processes of
//! their own 700,000. A [chain](driver::calls::Chain) takes half of the host's time for
//! each of its launches, and a third of the device's from one to the next; threads that
//! put in chains hardly wait for one another.
//!
//! Chains are of a fixed length, so a stream has some of several lengths. They are made
//! with the streams, while no kernel runs; streams that have none are given single
//! launches. A chain that is put in again follows itself, so none is in two streams.

use crate::fair::Share;
use driver::DriverError;
use driver::calls::{Chain, Context, Function, Launch, Stream};
use std::ffi::CString;

/// A launch.
pub(crate) struct Piece {
    pub(crate) function: Function,
    pub(crate) launch: Launch,
    pub(crate) parameters: Vec<u8>,
    /// The part of the device that it has.
    pub(crate) share: Share,
}

impl Piece {
    /// Puts it into a stream by itself.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn put(&self, stream: &Stream) -> Result<(), DriverError> {
        self.function.launch(self.launch, &self.parameters, stream)
    }
}

/// The lengths of a stream's chains, from the shortest on.
const LENGTHS: [usize; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 16];
/// The longest one.
pub(crate) const LONGEST: usize = LENGTHS[LENGTHS.len() - 1];

/// The chains of one stream.
pub(crate) struct Chains {
    chains: Vec<Chain>,
}

/// What chains are made of before they get launches of tenants: a kernel that does
/// nothing.
pub(crate) struct Maker {
    idle: Function,
}

impl Maker {
    /// Of a device of this compute capability, times ten.
    ///
    /// # Errors
    ///
    /// The driver does not take the kernel.
    pub(crate) fn new(context: &Context, capability: u32) -> Result<Maker, DriverError> {
        // (Code for an older device runs on all later ones.)
        let target = capability.min(75);
        let text = format!(
            ".version 6.3\n.target sm_{target}\n.address_size 64\n.visible .entry idle()\n{{\n\tret;\n}}\n"
        );
        let text = CString::new(text).unwrap_or_default();
        let image = context.compile(&text).map_err(|error| error.error)?;
        let module = context.load(&image)?;
        Ok(Maker {
            idle: module.function("idle")?,
        })
    }

    /// Chains for one stream. The driver may wait for all kernels that run.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn make(&self, context: &Context) -> Result<Chains, DriverError> {
        let chains = LENGTHS.map(|length| context.chain(&self.idle, length));
        Ok(Chains {
            chains: chains.into_iter().collect::<Result<_, _>>()?,
        })
    }
}

impl Chains {
    /// Puts launches into their stream, in order. What a chain does not take is launched
    /// by itself, so that each error is that of its own launch; `failed` gets them.
    pub(crate) fn launch(
        &mut self,
        mut pieces: &[Piece],
        stream: &Stream,
        failed: &mut impl FnMut(DriverError),
    ) {
        while let Some(chain) = self.longest(pieces.len()) {
            let (now, later) = pieces.split_at(chain.length());
            if put(chain, now, stream).is_err() {
                singly(now, stream, failed);
            }
            pieces = later;
        }
    }

    /// The longest one that takes no more than so many launches.
    fn longest(&mut self, pieces: usize) -> Option<&mut Chain> {
        let mut fitting = self.chains.iter_mut().rev();
        fitting.find(|chain| chain.length() <= pieces)
    }

    /// Forgets the launches, so that no module is kept loaded.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn clear(&mut self) -> Result<(), DriverError> {
        self.chains.iter_mut().try_for_each(Chain::clear)
    }
}

/// Puts a chain of these launches into a stream. After an error none of them is.
fn put(chain: &mut Chain, pieces: &[Piece], stream: &Stream) -> Result<(), DriverError> {
    for (at, piece) in pieces.iter().enumerate() {
        chain.set(at, &piece.function, piece.launch, &piece.parameters)?;
    }
    chain.launch(stream)
}

/// Puts launches into a stream, one at a time.
pub(crate) fn singly(pieces: &[Piece], stream: &Stream, failed: &mut impl FnMut(DriverError)) {
    for piece in pieces {
        if let Err(error) = piece.put(stream) {
            failed(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceChoice};
    use driver::sys::CUresult;
    use model::layout::fence::GRANULE;
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    /// Addresses that nobody has.
    const BASE: u64 = 0x4000_0000_0000;

    /// Multiplies a word by 3 and adds a number, in one thread.
    const STEP: &std::ffi::CStr = c"
        .version 6.3
        .target sm_75
        .address_size 64
        .visible .entry step(.param .u64 at, .param .u32 number)
        {
            .reg .u32 %r<4>;
            .reg .u64 %rd<2>;
            ld.param.u64 %rd1, [at];
            ld.param.u32 %r1, [number];
            ld.global.u32 %r2, [%rd1];
            mad.lo.u32 %r3, %r2, 3, %r1;
            st.global.u32 [%rd1], %r3;
            ret;
        }";

    /// A launch, which the device takes if it `is_good`.
    fn piece(function: &Function, at: u64, number: u32, is_good: bool) -> Piece {
        let threads = if is_good { 1 } else { 5000 };
        Piece {
            function: function.clone(),
            launch: Launch {
                grid: [1; 3],
                block: [threads, 1, 1],
                shared: 0,
                is_cooperative: false,
            },
            parameters: [&at.to_le_bytes()[..], &number.to_le_bytes()].concat(),
            share: Share::WHOLE,
        }
    }

    /// Whatever their number and whichever of them the device refuses: all others are
    /// made once, in order.
    #[test]
    fn launches_are_made_once_and_in_order() {
        let device = Device::open(&DeviceChoice::Cpu(1), None, None).unwrap();
        let context = &device.context;
        let image = context.compile(STEP).unwrap();
        let function = context.load(&image).unwrap().function("step").unwrap();
        let reservation = context.reserve(BASE, 32 << 20).unwrap();
        let memory = context.physical(GRANULE).unwrap();
        reservation.map(BASE, &memory).unwrap();
        let word = || reservation.slice(BASE, 4).unwrap();
        let lent = device.stream(true).unwrap();
        let run = prop::collection::vec((1u32..100, 0u8..20), 0..40);
        let runs = prop::collection::vec(run, 1..6);
        let config = ProptestConfig::with_cases(50);
        let tested = TestRunner::new(config).run(&runs, |runs| {
            context.write(word(), &[0; 4]).unwrap();
            let (mut expected, mut refused, mut failed) = (0u32, 0, Vec::new());
            for run in runs {
                let mut pieces = Vec::new();
                for (number, luck) in run {
                    let is_good = luck > 0;
                    pieces.push(piece(&function, BASE, number, is_good));
                    match is_good {
                        true => expected = expected.wrapping_mul(3).wrapping_add(number),
                        false => refused += 1,
                    }
                }
                let mut chains = lent.chains().unwrap();
                chains.launch(&pieces, &lent, &mut |error| failed.push(error.code));
            }
            while !lent.is_idle().unwrap() {}
            let mut bytes = [0; 4];
            context.read(word(), &mut bytes).unwrap();
            prop_assert_eq!(u32::from_le_bytes(bytes), expected);
            prop_assert_eq!(failed, vec![CUresult::CUDA_ERROR_INVALID_VALUE; refused]);
            Ok(())
        });
        tested.unwrap();
        // Forgotten, they are launches of nothing.
        lent.forget().unwrap();
        context.write(word(), &[7, 0, 0, 0]).unwrap();
        for chain in &lent.chains().unwrap().chains {
            chain.launch(&lent).unwrap();
        }
        while !lent.is_idle().unwrap() {}
        let mut bytes = [0; 4];
        context.read(word(), &mut bytes).unwrap();
        assert_eq!(bytes, [7, 0, 0, 0]);
    }
}
