//! Staging copies: memory with canaries that takes the place of memory that
//! cannot be given any while a kernel runs.

use crate::objects::block::Block;
use crate::objects::padded::PaddedImage;
use crate::platform::commands::Order;
use crate::platform::events::Event;
use crate::platform::handles::MemObject;
use crate::sys::*;
use parking_lot::Mutex;

/// A copy of a memory object.
pub struct StagingCopy {
    last: Mutex<Option<LastUse>>,
    pub copy: Copied,
}

/// Whether a command waits for the program, directly or through others: a user
/// event that the program may set only when something else has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It waits for commands alone.
    Open,
    /// It waits for the program.
    Program,
}

/// The last use of a copy.
pub struct LastUse {
    /// Of the scan behind the kernel.
    pub event: Event,
    pub queue: usize,
    /// Of the kernel.
    pub gate: Gate,
}

/// What stands for what.
pub enum Copied {
    /// A block for a buffer.
    Buffer {
        block: Block,
        /// What a kernel gets.
        part: MemObject,
        bytes: usize,
    },
    /// A padded image for an image.
    Image(PaddedImage),
}

impl StagingCopy {
    /// A copy that nothing has used.
    pub fn new(copy: Copied) -> StagingCopy {
        StagingCopy {
            last: Mutex::new(None),
            copy,
        }
    }

    /// What a kernel gets.
    pub fn handle(&self) -> cl_mem {
        match &self.copy {
            Copied::Buffer { part, .. } => part.raw(),
            Copied::Image(padded) => padded.image.raw(),
        }
    }

    /// The event until which it is used.
    pub fn last(&self) -> Option<Event> {
        self.last.lock().as_ref().map(|last| last.event.clone())
    }

    /// Says when the copy may be used again.
    pub fn used_until(&self, last: LastUse) {
        let before = self.last.lock().replace(last);
        // Its event is released without the lock.
        drop(before);
    }

    /// Whether the copy is used by a launch that waits for the program, and
    /// that a launch in this queue does not wait for anyway: one in another
    /// queue, or in a queue without order.
    pub fn is_gated(&self, queue: cl_command_queue, order: Order) -> bool {
        let last = self.last.lock();
        last.as_ref().is_some_and(|last| {
            last.gate == Gate::Program
                && (order == Order::Loose || last.queue != queue as usize)
                && last.event.is_pending()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::block::Memory;
    use crate::platform::fake::Fake;
    use heap::canary::{Key, Layout};

    fn copy(fake: &Fake) -> StagingCopy {
        let layout = Layout::around(16, 16, 16).unwrap();
        StagingCopy::new(Copied::Buffer {
            block: Block::new(Memory::Buffer(1), layout, Key::of_byte(1)),
            part: MemObject::buffer(fake.context, 0, 16).unwrap(),
            bytes: 16,
        })
    }

    #[test]
    fn a_copy_is_gated_while_a_launch_elsewhere_waits_for_the_program() {
        let fake = Fake::new();
        let copy = copy(&fake);
        let (own, other) = (fake.queue(Order::Kept), fake.queue(Order::Kept));
        assert!(!copy.is_gated(other, Order::Kept), "nothing has used it");
        let raw = fake.event(1);
        let last = |gate| {
            let event = Event::retained(raw).unwrap();
            copy.used_until(LastUse {
                event,
                queue: own as usize,
                gate,
            });
        };
        last(Gate::Open);
        assert!(!copy.is_gated(other, Order::Kept));
        last(Gate::Program);
        assert!(copy.is_gated(other, Order::Kept));
        assert!(
            !copy.is_gated(own, Order::Kept),
            "it comes behind it anyway"
        );
        assert!(copy.is_gated(own, Order::Loose));
        fake.end(raw, 0);
        assert!(!copy.is_gated(other, Order::Kept), "it has ended");
    }

    #[test]
    fn what_a_copy_holds_is_released_with_it() {
        let fake = Fake::new();
        let copy = copy(&fake);
        let raw = fake.event(1);
        copy.used_until(LastUse {
            event: Event::retained(raw).unwrap(),
            queue: 1,
            gate: Gate::Open,
        });
        assert_eq!((fake.references(raw), fake.mems()), (2, 1));
        drop(copy);
        assert_eq!((fake.references(raw), fake.mems()), (1, 0));
    }
}
