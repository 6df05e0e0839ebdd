//! Looks at canaries: what is looked at after a kernel or a map, and what it
//! shows.
//!
//! Behind the kernel commands are enqueued that look at its canaries and write
//! them as they must be, so that the next kernel answers for itself: by the
//! host, which reads them, or by a kernel (`rounds`). Nobody waits: when the
//! last of them is complete, the platform calls back (`jobs`). The program's
//! own events stay what they are.

use crate::arguments::Kernel;
use crate::blocks::Block;
use crate::buffers::{Buffer, Place};
use crate::chain::Chain;
use crate::images::Larger;
use crate::shadows::{self, Copied, Shadow};
use crate::sys::*;
use heap::canary::{Damage, Side};
use heap::image_canary::PixelDamage;
use host::Stack;
use std::sync::Arc;

/// A launch that is looked at.
pub struct Launch {
    pub kernel: Arc<Kernel>,
    /// From 1.
    pub number: u64,
    pub stack: Stack,
}

/// Whose doing a look shows.
pub enum Doer {
    /// A kernel's.
    Kernel(Launch),
    /// The host's.
    Host { culprit: Culprit, stack: Stack },
}

/// What the host did.
#[derive(Clone, Copy)]
pub struct Culprit {
    /// The function of OpenCL.
    pub function: &'static str,
    /// What it was.
    pub what: &'static str,
}

impl Doer {
    /// The kernel's name, if it is one.
    pub fn kernel(&self) -> Option<&str> {
        match self {
            Doer::Kernel(launch) => Some(&launch.kernel.name),
            Doer::Host { .. } => None,
        }
    }
}

/// Memory to look at, and where its canaries are read to.
pub struct Look {
    pub buffer: Arc<Buffer>,
    /// The argument through which the kernel reaches it.
    pub argument: Option<u32>,
    /// The copy that the kernel gets in its place, as these arguments.
    shadow: Option<Arc<Shadow>>,
    pub indices: Vec<u32>,
    /// Room for the canaries, where the host looks at them.
    bytes: Box<[u8]>,
}

/// What holds the canaries that are looked at.
pub enum Held<'a> {
    Block(&'a Block),
    Image(&'a Larger),
}

impl Look {
    /// A look at an object's own canaries.
    pub fn new(buffer: Arc<Buffer>, argument: Option<u32>) -> Look {
        Look {
            buffer,
            argument,
            shadow: None,
            indices: Vec::new(),
            bytes: Box::default(),
        }
    }

    /// A look at the canaries of a copy.
    pub fn through(buffer: Arc<Buffer>, index: u32, shadow: Arc<Shadow>) -> Look {
        Look {
            buffer,
            argument: Some(index),
            bytes: Box::default(),
            shadow: Some(shadow),
            indices: vec![index],
        }
    }

    pub fn is_of(&self, buffer: &Arc<Buffer>) -> bool {
        Arc::ptr_eq(&self.buffer, buffer)
    }

    /// Names the argument, with the reason why it is not looked at.
    pub fn describe(&self, kernel: &Kernel, why: &str) -> String {
        let index = self.argument.unwrap_or(0);
        let name = kernel.names().get(index as usize).cloned().flatten();
        format!(
            "argument {}: {why}",
            name.unwrap_or_else(|| index.to_string())
        )
    }

    /// The copy, if there is one.
    pub fn shadow(&self) -> Option<Arc<Shadow>> {
        self.shadow.clone()
    }

    /// Makes it ready for a kernel that waits for the events `after`. The
    /// kernel must also wait for the last of the returned events.
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
        match (&self.shadow, &self.buffer.place) {
            (Some(shadow), _) => shadow
                .enter(queue, &self.buffer, (kernel, &self.indices), after)
                .map(Some),
            (None, Place::Block(block)) => block.prepare(queue),
            (None, _) => Ok(None),
        }
    }

    /// Gives the kernel its own arguments again.
    pub fn leave(&self, kernel: &Kernel) {
        if self.shadow.is_some() {
            shadows::leave(&self.buffer, kernel, &self.indices);
        }
    }

    /// What holds the canaries, if anything does.
    pub fn held(&self) -> Option<Held<'_>> {
        match (&self.shadow, &self.buffer.place) {
            (Some(shadow), _) => Some(match &shadow.copy {
                Copied::Buffer { block, .. } => Held::Block(block),
                Copied::Image(larger) => Held::Image(larger),
            }),
            (None, Place::Block(block)) => Some(Held::Block(block)),
            (None, _) => None,
        }
    }

    /// Tells one thing with canaries from another, for good.
    pub fn name(&self) -> u64 {
        self.buffer.serial * 2 + u64::from(self.shadow.is_some())
    }

    /// Makes room for a look by the host. The room holds intact canaries: a
    /// read that a platform leaves out shows no damage.
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
            Some(Held::Image(larger)) => larger.read(queue, &mut bytes, after, events),
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
            Some(Held::Image(larger)) => larger.restore(queue, after, events),
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
            Some(Held::Image(larger)) => {
                let damages = larger.levels.verify(&larger.key, &self.bytes);
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
            Held::Image(larger) => larger.intact(),
        }
    }

    /// Bytes of all canaries.
    pub fn canary_bytes(&self) -> usize {
        match self {
            Held::Block(block) => block.canary_bytes(),
            Held::Image(larger) => larger.canary_bytes(),
        }
    }
}

/// What a look shows.
pub enum Damaged {
    /// Beside a buffer.
    Bytes(Damage),
    /// Past the edges of an image.
    Pixels(PixelDamage),
}
