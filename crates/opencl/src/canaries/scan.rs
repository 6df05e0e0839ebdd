//! Scans: which canaries are scanned after a kernel or a map, and what they
//! show.
//!
//! Behind each kernel, commands are enqueued that scan its canaries and restore
//! them, so that damage is attributed to the right kernel. The host reads the
//! canaries, or a kernel verifies them (`rounds`). No thread waits: when the
//! last command is complete, the platform calls back (`schedule`). The
//! program's own events do not change.

use crate::canaries::staging;
use crate::findings::Damaged;
use crate::objects::block::Block;
use crate::objects::buffer::Buffer;
use crate::objects::kernel::Kernel;
use crate::objects::padded::PaddedImage;
use crate::objects::staging::{Copied, StagingCopy};
use crate::platform::commands::{Commands, Followed};
use crate::platform::events::Chain;
use crate::sys::*;
use heap::canary::Side;
use std::sync::Arc;

/// Memory whose canaries are scanned, and where they are read to.
pub struct Scan {
    pub buffer: Arc<Buffer>,
    /// The argument through which the kernel reaches it.
    pub argument: Option<u32>,
    /// The copy that the kernel gets in its place, as these arguments.
    staging: Option<Arc<StagingCopy>>,
    pub indices: Vec<u32>,
    /// Room for the canaries, where the host scans them.
    bytes: Box<[u8]>,
}

/// What holds the canaries that are scanned.
pub enum Held<'a> {
    Block(&'a Block),
    Image(&'a PaddedImage),
}

impl Scan {
    /// A scan of an object's own canaries.
    pub fn new(buffer: Arc<Buffer>, argument: Option<u32>) -> Scan {
        Scan {
            buffer,
            argument,
            staging: None,
            indices: Vec::new(),
            bytes: Box::default(),
        }
    }

    /// A scan of the canaries of a staging copy.
    pub fn through(buffer: Arc<Buffer>, index: u32, staging: Arc<StagingCopy>) -> Scan {
        Scan {
            buffer,
            argument: Some(index),
            bytes: Box::default(),
            staging: Some(staging),
            indices: vec![index],
        }
    }

    pub fn is_of(&self, buffer: &Arc<Buffer>) -> bool {
        Arc::ptr_eq(&self.buffer, buffer)
    }

    /// Names the argument, with the reason why it is not scanned.
    pub fn describe(&self, kernel: &Kernel, why: &str) -> String {
        kernel.describe(self.argument.unwrap_or(0), why)
    }

    /// The copy, if there is one.
    pub fn staging(&self) -> Option<Arc<StagingCopy>> {
        self.staging.clone()
    }

    /// Prepares it for a kernel that waits for the events `after`. The kernel
    /// must also wait for the last of the returned events.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn enter(
        &self,
        queue: cl_command_queue,
        kernel: &Kernel,
        after: &[cl_event],
    ) -> Result<Option<Arc<Chain>>, cl_int> {
        match (&self.staging, &self.buffer.block()) {
            (Some(staging), _) => staging
                .enter(queue, &self.buffer, (kernel, &self.indices), after)
                .map(Some),
            (None, Some(block)) => block.prepare(queue),
            (None, None) => Ok(None),
        }
    }

    /// Gives the kernel its own arguments again.
    pub fn leave(&self, kernel: &Kernel) {
        if self.staging.is_some() {
            staging::leave(&self.buffer, kernel, &self.indices);
        }
    }

    /// What holds the canaries, if anything does.
    pub fn held(&self) -> Option<Held<'_>> {
        match (&self.staging, &self.buffer.block()) {
            (Some(staging), _) => Some(match &staging.copy {
                Copied::Buffer { block, .. } => Held::Block(block),
                Copied::Image(padded) => Held::Image(padded),
            }),
            (None, Some(block)) => Some(Held::Block(block)),
            (None, None) => None,
        }
    }

    /// Identifies an object with canaries; never reused.
    pub fn name(&self) -> u64 {
        self.buffer.serial * 2 + u64::from(self.staging.is_some())
    }

    /// Makes room for a scan by the host. The room holds intact canaries: a
    /// read that a platform skips shows no damage.
    pub fn make_room(&mut self) {
        let bytes: Box<[u8]> = match self.held() {
            Some(held) => held.intact().into(),
            None => Box::default(),
        };
        self.bytes = bytes;
    }

    /// Enqueues a read of the canaries by the host.
    pub fn read(
        &mut self,
        queue: cl_command_queue,
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        let mut bytes = std::mem::take(&mut self.bytes);
        let code = match self.held() {
            Some(Held::Block(block)) => block.read(queue, &mut bytes, after, events),
            Some(Held::Image(padded)) => padded.read(queue, &mut bytes, after, events),
            None => CL_INVALID_MEM_OBJECT,
        };
        // Where they lie on the heap, they stay.
        self.bytes = bytes;
        code
    }

    /// Enqueues a write of the canaries by the host.
    pub fn restore(
        &self,
        queue: cl_command_queue,
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        match self.held() {
            Some(Held::Block(block)) => block.restore(queue, after, events),
            Some(Held::Image(padded)) => padded.restore(queue, after, events),
            None => CL_INVALID_MEM_OBJECT,
        }
    }

    /// What the canaries, once read, show.
    pub fn damages(&self) -> Vec<Damaged> {
        match self.held() {
            Some(Held::Block(block)) => {
                let (before, after) = self.bytes.split_at(self.bytes.len() / 2);
                [(Side::Before, before), (Side::After, after)]
                    .into_iter()
                    .filter_map(|(side, bytes)| block.layout.verify(&block.key, side, bytes))
                    .map(Damaged::Bytes)
                    .collect()
            }
            Some(Held::Image(padded)) => {
                let damages = padded.levels.verify(&padded.key, &self.bytes);
                damages.into_iter().map(Damaged::Pixels).collect()
            }
            None => Vec::new(),
        }
    }
}

impl Held<'_> {
    /// All canaries as they must be.
    fn intact(&self) -> &[u8] {
        match self {
            Held::Block(block) => block.intact(),
            Held::Image(padded) => padded.intact(),
        }
    }

    /// Bytes of all canaries.
    pub fn canary_bytes(&self) -> usize {
        match self {
            Held::Block(block) => block.canary_bytes(),
            Held::Image(padded) => padded.canary_bytes(),
        }
    }
}

/// Copies what a kernel has written into a staging copy to the original.
///
/// # Errors
///
/// The platform's code.
pub fn bring_back(scan: &Scan, commands: &mut Commands) -> Result<(), cl_int> {
    let queue = commands.queue;
    if let Some(staging) = scan.staging() {
        commands.add(&[], Followed::ByTheEnd, |after, events| {
            staging.bring_back(queue, &scan.buffer, after, events)
        })?;
    }
    Ok(())
}

/// Enqueues scans by the host: reads the canaries, and writes them again.
///
/// # Errors
///
/// The platform's code.
pub fn by_host(scans: &mut [Scan], commands: &mut Commands) -> Result<(), cl_int> {
    let queue = commands.queue;
    for scan in scans {
        if scan.held().is_none() {
            continue;
        }
        scan.make_room();
        let read = commands.add(&[], Followed::ByCommands, |after, events| {
            scan.read(queue, after, events)
        })?;
        bring_back(scan, commands)?;
        commands.add(&[read], Followed::ByTheEnd, |after, events| {
            scan.restore(queue, after, events)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canaries::blocks::enclosed;
    use crate::objects::buffer::Place;
    use crate::objects::buffer::testing::made;
    use crate::platform::commands::Order;
    use crate::platform::fake::{Fake, poke};
    use heap::canary::{Key, Layout};

    fn scan(fake: &Fake) -> Scan {
        let layout = Layout::around(100, 64, 128).unwrap();
        let enclosed = enclosed(fake.context, 0, &layout).unwrap();
        let block = Block::new(enclosed.block, layout, Key::of_byte(0xab));
        let handle = enclosed.part.into_raw() as usize;
        let buffer = Buffer::of(made(handle, 100, Place::Block(block)));
        Scan::new(Arc::new(buffer), None)
    }

    #[test]
    fn a_read_that_the_platform_leaves_out_shows_no_damage() {
        let fake = Fake::new();
        let mut scan = scan(&fake);
        scan.make_room();
        assert_eq!(scan.damages().len(), 0);
    }

    #[test]
    fn scans_by_the_host_read_before_they_repair() {
        let fake = Fake::new();
        let queue = fake.queue(Order::Loose);
        let mut scans = [scan(&fake), Scan::new(bare(), None)];
        let buffer = scans[0].buffer.clone();
        buffer.block().unwrap().prepare(queue).unwrap();
        fake.run();
        for at in [-3, 100, 105] {
            poke(buffer.handle, at, 1);
        }
        let done = fake.event(1);
        let mut commands = Commands::behind(queue, Order::Loose, done);
        assert_eq!(by_host(&mut scans, &mut commands), Ok(()));
        fake.run();
        assert_eq!(scans[0].damages().len(), 0, "the kernel has not ended");
        fake.end(done, 0);
        fake.run();
        let damages = scans[0].damages();
        let [Damaged::Bytes(before), Damaged::Bytes(after)] = &damages[..] else {
            panic!("{damages:?}");
        };
        assert_eq!(
            (before.side, before.nearest, before.bytes),
            (Side::Before, 3, 1)
        );
        assert_eq!(
            (after.side, after.nearest, after.farthest),
            (Side::After, 0, 5)
        );
        // Repaired: another scan shows nothing.
        let mut commands = Commands::behind(queue, Order::Loose, done);
        assert_eq!(by_host(&mut scans, &mut commands), Ok(()));
        fake.run();
        assert_eq!(scans[0].damages().len(), 0);
        assert_eq!(scans[1].damages().len(), 0, "nothing to scan");
    }

    fn bare() -> Arc<Buffer> {
        Arc::new(Buffer::of(made(1, 8, Place::Bare("a test"))))
    }
}
