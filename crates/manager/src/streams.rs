//! Streams of the device that nobody has yet.
//!
//! A driver makes streams in batches. When it has to begin another batch, it waits
//! for all kernels of the context, and until then all other threads wait in the
//! driver, too, also the one that would end an endless kernel (H200, driver 580:
//! one of the first 40 streams that are made beside a running kernel took until
//! its end). So streams are made while no kernel runs, more than are asked for, and
//! those that are not needed any more are kept for others.

use driver::DriverError;
use driver::calls::{Context, Stream};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Streams that are made when the device is opened.
const FIRST: usize = 256;
/// Streams that are made when there are none left.
const BATCH: usize = 64;

/// Streams that can be lent.
pub(crate) struct Streams {
    /// Nobody has them; work of who had them may still be in them.
    spare: Mutex<VecDeque<Arc<Stream>>>,
    /// The device makes streams at any time, each for one tenant.
    are_made_singly: bool,
}

/// A stream that somebody has, until this is dropped.
pub(crate) struct Lent {
    stream: Arc<Stream>,
    of: Arc<Streams>,
}

impl std::ops::Deref for Lent {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.of.are_made_singly {
            self.of.spare.lock().push_back(Arc::clone(&self.stream));
        }
    }
}

impl Streams {
    /// Of a device on which no kernel runs; `are_made_singly`: it is the CPU device.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn new(context: &Context, are_made_singly: bool) -> Result<Streams, DriverError> {
        let streams = Streams {
            spare: Mutex::default(),
            are_made_singly,
        };
        if !are_made_singly {
            streams.make(context, FIRST)?;
        }
        Ok(streams)
    }

    /// A stream without work; `None`: there is none until more are
    /// [made](Self::make_more).
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn take(self: &Arc<Self>, context: &Context) -> Result<Option<Lent>, DriverError> {
        let stream = match self.are_made_singly {
            true => Some(Arc::new(context.stream()?)),
            false => self.idle()?,
        };
        Ok(stream.map(|stream| Lent {
            stream,
            of: Arc::clone(self),
        }))
    }

    /// Makes some more; no kernel may run.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn make_more(&self, context: &Context) -> Result<(), DriverError> {
        self.make(context, BATCH)
    }

    fn make(&self, context: &Context, count: usize) -> Result<(), DriverError> {
        for _ in 0..count {
            let stream = Arc::new(context.stream()?);
            self.spare.lock().push_back(stream);
        }
        Ok(())
    }

    fn idle(&self) -> Result<Option<Arc<Stream>>, DriverError> {
        let mut spare = self.spare.lock();
        for at in 0..spare.len() {
            if spare[at].is_idle()? {
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
        let streams = Arc::new(Streams::new(context, false).unwrap());
        let mut lent = Vec::new();
        while let Some(stream) = streams.take(context).unwrap() {
            lent.push(stream);
        }
        assert_eq!(lent.len(), FIRST);
        let number = lent.pop().unwrap().raw();
        assert_eq!(streams.take(context).unwrap().unwrap().raw(), number);
        let _kept = streams.take(context).unwrap().unwrap();
        assert!(streams.take(context).unwrap().is_none());
        streams.make_more(context).unwrap();
        assert_eq!(streams.spare.lock().len(), BATCH);
        // Those of the CPU device are not used again.
        let singly = Arc::new(Streams::new(context, true).unwrap());
        drop(singly.take(context).unwrap().unwrap());
        assert_eq!(singly.spare.lock().len(), 0);
    }
}
