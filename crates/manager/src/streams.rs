//! Streams of the device that nobody has yet.
//!
//! A driver makes streams in batches. When it has to begin another batch, it waits
//! for all kernels of the context, and until then all other threads wait in the
//! driver, too, also the one that would end an endless kernel (H200, driver 580:
//! one of the first 40 streams that are made beside a running kernel took until
//! its end). So streams are made while no kernel runs, more than are asked for, and
//! those that are not needed any more are kept for others.
//!
//! The same holds for [chains](crate::chains): a kernel that ran for two seconds held up
//! the 30th that was made beside it. So the first streams have some, which stay theirs.

use crate::chains::{Chains, Maker};
use crate::log;
use crate::quota::TENANTS;
use driver::DriverError;
use driver::calls::{Context, Stream};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;

/// Streams that are made when the device is opened.
const FIRST: usize = 256;
/// Streams that are made when there are none left.
const BATCH: usize = 64;
/// Of the first ones, those that have chains, which take about 1 MiB of device memory each
/// (H200, driver 580).
const CHAINED: usize = TENANTS;

/// A stream, with its chains if it has some.
struct Made {
    stream: Stream,
    chains: Option<Mutex<Chains>>,
}

/// Streams that can be lent.
pub(crate) struct Streams {
    /// Nobody has them; work of who had them may still be in them. Those with chains come
    /// first.
    spare: Mutex<VecDeque<Arc<Made>>>,
    /// Makes chains, where the device has them.
    chains: Option<Maker>,
    /// The device makes streams at any time, each for one tenant.
    are_made_singly: bool,
}

/// A stream that somebody has, until this is dropped.
pub(crate) struct Lent {
    made: Arc<Made>,
    of: Arc<Streams>,
}

impl Lent {
    /// Its chains, if it has some.
    pub(crate) fn chains(&self) -> Option<MutexGuard<'_, Chains>> {
        self.made.chains.as_ref().map(Mutex::lock)
    }

    /// Its chains forget what they launch, so that no module is kept loaded.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn forget(&self) -> Result<(), DriverError> {
        self.chains().map_or(Ok(()), |mut chains| chains.clear())
    }
}

impl std::ops::Deref for Lent {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.made.stream
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.of.are_made_singly {
            return;
        }
        // One that cannot forget is not lent again with what it launched.
        if let Err(error) = self.forget() {
            log::line(&format!("error: a stream is not used again: {error}"));
            return;
        }
        let mut spare = self.of.spare.lock();
        match self.made.chains {
            Some(_) => spare.push_front(Arc::clone(&self.made)),
            None => spare.push_back(Arc::clone(&self.made)),
        }
    }
}

impl Streams {
    /// Of a device on which no kernel runs; `are_made_singly`: it is the CPU device.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn new(
        context: &Context,
        chains: Option<Maker>,
        are_made_singly: bool,
    ) -> Result<Streams, DriverError> {
        let streams = Streams {
            spare: Mutex::default(),
            chains,
            are_made_singly,
        };
        if !are_made_singly {
            streams.make(context, FIRST, CHAINED)?;
        }
        Ok(streams)
    }

    /// A stream without work, with chains where that `is_chained` and some have them;
    /// `None`: there is none until more are [made](Self::make_more).
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn take(
        self: &Arc<Self>,
        context: &Context,
        is_chained: bool,
    ) -> Result<Option<Lent>, DriverError> {
        let stream = match self.are_made_singly {
            true => Some(Arc::new(self.one(context, is_chained)?)),
            false => self.idle(is_chained)?,
        };
        Ok(stream.map(|made| Lent {
            made,
            of: Arc::clone(self),
        }))
    }

    /// Makes some more; no kernel may run.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn make_more(&self, context: &Context) -> Result<(), DriverError> {
        self.make(context, BATCH, 0)
    }

    /// Makes so many, of which so many have chains.
    fn make(&self, context: &Context, count: usize, chained: usize) -> Result<(), DriverError> {
        for number in 0..count {
            let made = Arc::new(self.one(context, number < chained)?);
            self.spare.lock().push_back(made);
        }
        Ok(())
    }

    fn one(&self, context: &Context, is_chained: bool) -> Result<Made, DriverError> {
        let maker = self.chains.as_ref().filter(|_| is_chained);
        let chains = maker.map(|maker| maker.make(context)).transpose()?;
        Ok(Made {
            stream: context.stream()?,
            chains: chains.map(Mutex::new),
        })
    }

    fn idle(&self, is_chained: bool) -> Result<Option<Arc<Made>>, DriverError> {
        let mut spare = self.spare.lock();
        for number in 0..spare.len() {
            let at = match is_chained {
                true => number,
                false => spare.len() - 1 - number,
            };
            if spare[at].stream.is_idle()? {
                return Ok(spare.remove(at));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceChoice};

    #[test]
    fn streams_are_kept_for_others_and_made_only_when_that_is_asked_for() {
        let device = Device::open(&DeviceChoice::Cpu(1), None, None).unwrap();
        let context = &device.context;
        let maker = Maker::new(context, device.capability).unwrap();
        let streams = Arc::new(Streams::new(context, Some(maker), false).unwrap());
        let take = |is_chained| streams.take(context, is_chained).unwrap();
        let (chained, plain) = (take(true).unwrap(), take(false).unwrap());
        assert!(chained.chains().is_some() && plain.chains().is_none());
        // Who wants none leaves those with chains to others, as long as there are more.
        let mut lent = vec![chained, plain];
        while let Some(stream) = take(false) {
            let is_early = lent.len() <= FIRST - CHAINED;
            assert_eq!(stream.chains().is_none(), is_early, "{}", lent.len());
            lent.push(stream);
        }
        assert_eq!(lent.len(), FIRST);
        let number = lent.pop().unwrap().raw();
        assert_eq!(take(false).unwrap().raw(), number);
        let _kept = take(true).unwrap();
        assert!(take(true).is_none());
        streams.make_more(context).unwrap();
        assert_eq!(streams.spare.lock().len(), BATCH);
        // Those of the CPU device are not used again.
        let singly = Arc::new(Streams::new(context, None, true).unwrap());
        drop(singly.take(context, true).unwrap().unwrap());
        assert_eq!(singly.spare.lock().len(), 0);
    }
}
