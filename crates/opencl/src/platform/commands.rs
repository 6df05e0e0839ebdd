//! Commands that are enqueued behind a command of the program's.

use crate::platform::ask::ask;
use crate::platform::call;
use crate::platform::events::{Chain, Event, wait_list};
use crate::sys::*;

/// In which order the commands of a queue run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the order in which they were enqueued.
    Kept,
    /// In any order: each must say what it waits for.
    Loose,
}

impl Order {
    /// Of a queue.
    pub fn of(queue: cl_command_queue) -> Order {
        let properties: Option<u64> = ask!(one, clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES));
        match properties {
            Some(bits) if bits & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0 => Order::Kept,
            // If the platform does not answer, every command waits.
            _ => Order::Loose,
        }
    }
}

/// Enqueues a copy of the first `bytes` of a buffer. Returns the platform's
/// code.
pub fn copy_buffer(
    queue: cl_command_queue,
    (from, to): (cl_mem, cl_mem),
    bytes: usize,
    after: &[cl_event],
    events: &mut Chain,
) -> cl_int {
    let (count, list) = wait_list(after);
    events.add(|event| {
        call!(clEnqueueCopyBuffer(
            queue, from, to, 0, 0, bytes, count, list, event
        ))
    })
}

/// What waits for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Another command.
    ByCommands,
    /// Nothing but the end of them all.
    ByTheEnd,
}

/// Commands behind a kernel.
pub struct Commands {
    pub queue: cl_command_queue,
    order: Order,
    /// Of the kernel.
    done: cl_event,
    /// Of all commands so far.
    events: Chain,
    /// Of those among them that nothing waits for.
    ends: Vec<cl_event>,
}

impl Commands {
    /// No commands behind `done` so far.
    pub fn behind(queue: cl_command_queue, order: Order, done: cl_event) -> Commands {
        Commands {
            queue,
            order,
            done,
            events: Chain::default(),
            ends: Vec::new(),
        }
    }

    /// Enqueues a command behind those of `before`, or else behind the kernel.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn add(
        &mut self,
        before: &[cl_event],
        followed: Followed,
        enqueue: impl FnOnce(&[cl_event], &mut Chain) -> cl_int,
    ) -> Result<cl_event, cl_int> {
        let done = [self.done];
        let after: &[cl_event] = match (self.order, before) {
            (Order::Kept, _) => &[],
            (Order::Loose, []) => &done,
            (Order::Loose, before) => before,
        };
        let code = enqueue(after, &mut self.events);
        match (code, self.events.last()) {
            (CL_SUCCESS, Some(event)) => {
                if followed == Followed::ByTheEnd {
                    self.ends.push(event);
                }
                Ok(event)
            }
            (CL_SUCCESS, None) => Err(CL_INVALID_EVENT),
            (code, _) => Err(code),
        }
    }

    /// The event that is complete when all are.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn end(&mut self) -> Result<Event, cl_int> {
        if self.order == Order::Loose && self.ends.len() > 1 {
            let (count, list) = wait_list(&self.ends);
            let (mut marker, queue) = (std::ptr::null_mut(), self.queue);
            let code = call!(clEnqueueMarkerWithWaitList(
                queue,
                count,
                list,
                &raw mut marker
            ));
            return match code {
                CL_SUCCESS => Event::of(marker).ok_or(CL_INVALID_EVENT),
                code => Err(code),
            };
        }
        let last = self.ends.last().copied().ok_or(CL_INVALID_VALUE)?;
        Event::retained(last).ok_or(CL_INVALID_EVENT)
    }

    /// Whether any command was enqueued.
    pub fn are_begun(&self) -> bool {
        self.events.last().is_some()
    }

    /// The events of all commands.
    pub fn into_events(self) -> Chain {
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::fake::Fake;

    /// Adds commands of which the second waits for the first, and returns what
    /// each waited for.
    fn three(fake: &Fake, order: Order, done: cl_event) -> (Commands, Vec<Vec<cl_event>>) {
        let mut commands = Commands::behind(fake.queue(order), order, done);
        let mut waited = Vec::new();
        let mut add = |before: &[cl_event], followed| {
            let added = commands.add(before, followed, |after, events| {
                waited.push(after.to_vec());
                events.add(|event| {
                    // SAFETY: the place that the chain gives.
                    unsafe { *event = fake.event(1) };
                    CL_SUCCESS
                })
            });
            added.unwrap()
        };
        let first = add(&[], Followed::ByCommands);
        add(&[first], Followed::ByTheEnd);
        add(&[], Followed::ByTheEnd);
        assert_eq!(waited.len(), 3);
        let expected = [vec![done], vec![first], vec![done]];
        if order == Order::Loose {
            assert_eq!(waited, expected);
        }
        (commands, waited)
    }

    #[test]
    fn commands_of_a_queue_in_order_wait_for_nothing() {
        let fake = Fake::new();
        let done = fake.event(1);
        let (mut commands, waited) = three(&fake, Order::Kept, done);
        assert!(waited.iter().all(Vec::is_empty));
        let end = commands.end().unwrap();
        assert_eq!(Some(end.raw()), commands.into_events().last());
        assert!(fake.log().is_empty(), "no marker");
    }

    #[test]
    fn commands_of_another_queue_wait_for_all_that_is_before_them() {
        let fake = Fake::new();
        let done = fake.event(1);
        let (mut commands, _) = three(&fake, Order::Loose, done);
        let end = commands.end().unwrap();
        assert_eq!(fake.log(), ["clEnqueueMarkerWithWaitList"]);
        assert!(
            commands
                .into_events()
                .events()
                .all(|event| event != end.raw())
        );
    }

    #[test]
    fn a_refusal_is_handed_on() {
        let fake = Fake::new();
        let queue = fake.queue(Order::Kept);
        let mut commands = Commands::behind(queue, Order::Kept, fake.event(1));
        let refused = commands.add(&[], Followed::ByTheEnd, |_, _| CL_OUT_OF_RESOURCES);
        assert_eq!(refused, Err(CL_OUT_OF_RESOURCES));
        assert!(!commands.are_begun());
        assert_eq!(commands.end().err(), Some(CL_INVALID_VALUE));
    }

    #[test]
    fn the_order_of_a_queue_is_asked_for() {
        let fake = Fake::new();
        for order in [Order::Kept, Order::Loose] {
            assert_eq!(Order::of(fake.queue(order)), order);
        }
    }
}
