//! Memory that a tenant has freed behind the work of a stream: it is given to
//! nobody before that work is over.

use crate::memory::Memory;
use driver::DriverError;
use driver::calls::{Context, Event, Stream};
use std::collections::VecDeque;

/// The blocks, in the order in which they were freed. There are at most as many
/// as a tenant has allocations.
#[derive(Default)]
pub(crate) struct Leaving {
    /// What each waits for, and its first byte.
    blocks: VecDeque<(Event, u64)>,
}

impl Leaving {
    /// A block is freed behind the work of a stream.
    pub(crate) fn add(
        &mut self,
        context: &Context,
        stream: &Stream,
        address: u64,
    ) -> Result<(), DriverError> {
        let event = context.event(false)?;
        event.record(stream)?;
        self.blocks.push_back((event, address));
        Ok(())
    }

    /// Gives back blocks until there is one whose work is not over.
    pub(crate) fn sweep_first(&mut self, memory: &mut Memory) -> Result<(), DriverError> {
        while let Some((event, address)) = self.blocks.front() {
            if !event.is_over()? {
                break;
            }
            memory.give_back(*address);
            self.blocks.pop_front();
        }
        Ok(())
    }

    /// Gives back all blocks whose work is over. Whether others are left.
    pub(crate) fn sweep(&mut self, memory: &mut Memory) -> Result<bool, DriverError> {
        for (event, address) in std::mem::take(&mut self.blocks) {
            match event.is_over()? {
                true => memory.give_back(address),
                false => self.blocks.push_back((event, address)),
            }
        }
        Ok(!self.blocks.is_empty())
    }
}
