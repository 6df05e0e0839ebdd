//! Images made of buffers, on platforms that make none of sub-buffers (PoCL
//! 3.1): under Ringfence each buffer is a sub-buffer.
//!
//! Such an image is made of a backing: a buffer of Ringfence, with the flags of
//! the program's. Before each command that uses the image, the content of the
//! program's buffer is copied to the backing, and afterwards back if it may
//! have changed. Commands that use it run one after the other.

use crate::objects::access::Access;
use crate::objects::backing::Backing;
use crate::objects::buffer::Buffer;
use crate::objects::kernel::Kernel;
use crate::platform::call;
use crate::platform::commands::copy_buffer;
use crate::platform::events::{Chain, is_pending};
use crate::platform::handles::MemObject;
use crate::sys::*;
use std::sync::Arc;

/// A command's use of the content of a buffer that images are made of.
pub struct Use {
    pub backing: Arc<Backing>,
    pub buffer: Arc<Buffer>,
    /// Whether the content may change.
    pub access: Access,
    pub arguments: Vec<Lent>,
}

/// An argument of a kernel that is the buffer itself, or a part of it.
pub struct Lent {
    pub index: u32,
    /// Of the program's object.
    pub handle: usize,
    /// First byte and bytes, of a part.
    pub part: Option<(usize, usize)>,
}

/// The backing of a buffer, for images that are made of it.
///
/// # Errors
///
/// The platform's code.
pub fn backing_of(buffer: &Buffer) -> Result<Arc<Backing>, cl_int> {
    let mut known = buffer.backing.lock();
    if let Some(backing) = &*known {
        return Ok(backing.clone());
    }
    let bytes = usize::try_from(buffer.size).map_err(|_| CL_INVALID_BUFFER_SIZE)?;
    // Its flags are queried from its images. The initial content does not
    // matter: the first command copies the content.
    let flags = buffer.given.flags;
    let mut host = Vec::<u8>::new();
    let mut from = std::ptr::null_mut();
    if flags & CL_MEM_COPY_HOST_PTR != 0 {
        let room = host.try_reserve_exact(bytes);
        room.map_err(|_| CL_OUT_OF_HOST_MEMORY)?;
        host.resize(bytes, 0);
        from = host.as_mut_ptr();
    }
    let mut code = CL_SUCCESS;
    let memory = call!(clCreateBuffer(
        buffer.context as cl_context,
        flags,
        bytes,
        from.cast(),
        &raw mut code
    ) else std::ptr::null_mut());
    let memory = MemObject::made(memory, code).ok_or(code)?;
    let backing = Arc::new(Backing::new(memory, bytes));
    *known = Some(backing.clone());
    Ok(backing)
}

impl Use {
    /// Of an image; `None`: its buffer has no backing.
    pub fn of(image: &Buffer, access: Access) -> Option<Use> {
        let backed = image.backed()?;
        Some(Use {
            backing: backed.backing.clone(),
            buffer: backed.parent.clone(),
            access,
            arguments: Vec::new(),
        })
    }

    /// Whether the content may change.
    pub fn writes(&self) -> bool {
        self.access == Access::Write
    }

    fn copy(
        &self,
        queue: cl_command_queue,
        (from, to): (cl_mem, cl_mem),
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        copy_buffer(queue, (from, to), self.backing.bytes, after, events)
    }

    /// Enqueues the copies to the backing. The command must wait for the last
    /// of the returned events.
    ///
    /// # Errors
    ///
    /// The platform's code.
    fn enter(&self, queue: cl_command_queue, after: &[cl_event]) -> Result<Arc<Chain>, cl_int> {
        let last = self.backing.last();
        let mut all = after.to_vec();
        // A failed earlier command must not make this one fail.
        let pending = |event: &cl_event| is_pending(*event);
        all.extend(last.as_ref().and_then(|last| last.last()).filter(pending));
        let mut events = Chain::default();
        let ends = (self.buffer.handle as cl_mem, self.backing.memory());
        match self.copy(queue, ends, &all, &mut events) {
            CL_SUCCESS => {
                events.behind(last.into_iter().collect());
                Ok(Arc::new(events))
            }
            code => Err(code),
        }
    }

    /// Enqueues the copies back.
    pub fn bring_back(
        &self,
        queue: cl_command_queue,
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        let ends = (self.backing.memory(), self.buffer.handle as cl_mem);
        self.copy(queue, ends, after, events)
    }

    /// Gives a kernel the image's own memory if it also has the buffer as an
    /// argument: a write through one of them must be visible through the other.
    fn lend(&self, kernel: &Kernel) {
        for argument in &self.arguments {
            let whole = self.backing.memory();
            // If the platform refuses it, the kernel keeps the buffer.
            let _ = match argument.part {
                None => kernel.lend(argument.index, whole),
                // The launch holds the part.
                Some((origin, size)) => match MemObject::part(whole, 0, origin, size) {
                    Some(part) => kernel.lend(argument.index, part.raw()),
                    None => continue,
                },
            };
        }
    }

    /// Gives the kernel its own arguments again.
    pub fn take_back(&self, kernel: &Kernel) {
        for argument in &self.arguments {
            // The platform accepted the same argument from the program.
            let _ = kernel.lend(argument.index, argument.handle as cl_mem);
        }
    }
}

/// Enqueues the copies to the backings for all uses by one command. `own` gets
/// the events that the command must wait for.
///
/// # Errors
///
/// The platform's code.
pub fn enter(
    queue: cl_command_queue,
    uses: &[Use],
    kernel: Option<&Kernel>,
    before: &[cl_event],
    own: &mut Vec<Arc<Chain>>,
) -> Result<(), cl_int> {
    for one in uses {
        own.push(one.enter(queue, before)?);
    }
    if let Some(kernel) = kernel {
        for one in uses {
            one.lend(kernel);
        }
    }
    Ok(())
}

/// Adds a use, of one buffer only once.
pub fn add(uses: &mut Vec<Use>, one: Option<Use>) {
    let Some(one) = one else { return };
    let same = |other: &&mut Use| Arc::ptr_eq(&other.backing, &one.backing);
    match uses.iter_mut().find(same) {
        Some(known) => known.access = known.access.max(one.access),
        None => uses.push(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::buffer::Place;
    use crate::objects::buffer::testing::made;
    use crate::platform::commands::Order;
    use crate::platform::fake::{Fake, peek, poke};
    use std::sync::atomic::AtomicU32;

    /// A buffer and an image with a backing that is made of it.
    fn image(fake: &Fake) -> (Arc<Buffer>, Buffer) {
        let own = MemObject::buffer(fake.context, 0, 32).unwrap();
        let handle = own.into_raw() as usize;
        let mut facts = made(handle, 32, Place::Bare("a test"));
        facts.context = fake.context as usize;
        let parent = Arc::new(Buffer::of(facts));
        let backing = backing_of(&parent).unwrap();
        assert!(Arc::ptr_eq(&backing, &backing_of(&parent).unwrap()));
        let place = Place::Made {
            parent: parent.clone(),
            shape: None,
            backing: Some(backing),
            users: AtomicU32::new(1),
        };
        (parent, Buffer::of(made(0x77, 32, place)))
    }

    #[test]
    fn content_is_brought_there_and_back() {
        let fake = Fake::new();
        let queue = fake.queue(Order::Kept);
        let (parent, image) = image(&fake);
        assert!(Use::of(&parent, Access::Read).is_none(), "no image");
        let one = Use::of(&image, Access::Write).unwrap();
        poke(parent.handle, 3, 5);
        let mut own = Vec::new();
        let uses = [one];
        assert_eq!(enter(queue, &uses, None, &[], &mut own), Ok(()));
        fake.run();
        let there = uses[0].backing.memory() as usize;
        assert_eq!(peek(there, 3), 5);
        poke(there, 4, 6);
        let mut events = Chain::default();
        assert_eq!(uses[0].bring_back(queue, &[], &mut events), CL_SUCCESS);
        fake.run();
        assert_eq!(peek(parent.handle, 4), 6);
    }

    #[test]
    fn a_buffer_is_used_once_and_written_if_any_use_writes() {
        let fake = Fake::new();
        let (_, image) = image(&fake);
        let mut uses = Vec::new();
        for access in [Access::Read, Access::Write, Access::Read] {
            add(&mut uses, Use::of(&image, access));
        }
        add(&mut uses, None);
        assert_eq!(uses.len(), 1);
        assert!(uses[0].writes());
    }

    #[test]
    fn a_kernel_gets_what_the_image_is_made_of_for_the_buffer() {
        let fake = Fake::new();
        let queue = fake.queue(Order::Kept);
        let (parent, image) = image(&fake);
        let mut one = Use::of(&image, Access::Write).unwrap();
        for (index, part) in [(0, None), (1, Some((8, 16)))] {
            one.arguments.push(Lent {
                index,
                handle: parent.handle,
                part,
            });
        }
        let raw = fake.kernel("fill", &[("a", false), ("b", false)]);
        let kernel = Kernel::of(raw, Vec::new());
        let uses = [one];
        let entered = enter(queue, &uses, Some(&kernel), &[], &mut Vec::new());
        assert_eq!(entered, Ok(()));
        let lent = fake.arguments(raw);
        assert_eq!(lent[0], uses[0].backing.memory() as usize);
        assert!(lent[1] != parent.handle && lent[1] != lent[0]);
        uses[0].take_back(&kernel);
        assert_eq!(fake.arguments(raw), [parent.handle; 2]);
    }

    #[test]
    fn maps_of_images_end_as_they_began() {
        let fake = Fake::new();
        let (parent, _) = image(&fake);
        let backing = backing_of(&parent).unwrap();
        backing.keep_map(0x10, Access::Read);
        backing.keep_map(0x10, Access::Write);
        assert_eq!(backing.take_map(0x20), None);
        assert_eq!(backing.take_map(0x10), Some(Access::Write));
        assert_eq!(backing.take_map(0x10), Some(Access::Read));
        assert_eq!(backing.take_map(0x10), None);
    }
}
