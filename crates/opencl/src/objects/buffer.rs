//! The program's memory objects, and where they lie.

use crate::objects::backing::Backing;
use crate::objects::block::Block;
use crate::objects::shape::Shape;
use crate::objects::staging::StagingCopy;
use crate::sys::cl_command_queue;
use host::Stack;
use model::AllocationKind;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// What a buffer is made with: its flags, and whether with memory of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Given {
    pub flags: u64,
    pub host: bool,
}

/// A memory object of the program's.
pub struct Buffer {
    pub serial: u64,
    pub kind: AllocationKind,
    pub size: u64,
    /// As the program requested it.
    pub handle: usize,
    /// Its context's handle.
    pub context: usize,
    /// What the program gave.
    pub given: Given,
    /// As a query by the program must return it.
    pub flags: u64,
    /// Whether it was made with a list of properties, which was empty.
    pub properties: bool,
    pub place: Place,
    /// Its copy with canaries, once one was needed.
    pub staging: Mutex<Option<Arc<StagingCopy>>>,
    /// The backing of images that are made of it.
    pub backing: Mutex<Option<Arc<Backing>>>,
    pub allocated_at: Stack,
    used_in: UsedIn,
}

/// The queues whose commands use an object.
#[derive(Default)]
struct UsedIn {
    /// The first one; 0 if there was none.
    queue: AtomicUsize,
    has_others: AtomicBool,
}

/// A memory object that the program has just made.
pub struct Made {
    /// As the program requested it.
    pub handle: usize,
    /// Its context's handle.
    pub context: usize,
    pub kind: AllocationKind,
    pub size: u64,
    /// Number of the object, from 1.
    pub serial: u64,
    pub given: Given,
    /// As a query by the program must return it.
    pub flags: u64,
    /// Whether it was made with a list of properties, which was empty.
    pub properties: bool,
    pub place: Place,
    pub allocated_at: Stack,
}

/// Where a memory object lies.
pub enum Place {
    /// In a block of its own, between canaries.
    Block(Block),
    /// In another object of the program's.
    Part {
        parent: Arc<Buffer>,
        /// Bytes from the parent's start.
        origin: usize,
    },
    /// As the platform made it, without canaries: a copy with canaries takes
    /// its place while a kernel runs.
    Plain {
        /// The object that it is a part of, or its own handle.
        root: usize,
        /// Bytes from the root's start.
        origin: usize,
    },
    /// Made of shared virtual memory, or a part of such a buffer. Kernels may
    /// have its address, so no copy takes its place; the canaries around it are
    /// the allocation's.
    Shared {
        /// The object that it is a part of, or its own handle.
        root: usize,
        /// Bytes from the root's start.
        origin: usize,
    },
    /// An image; a padded image takes its place while a kernel runs.
    Image(Shape),
    /// An image made of a buffer.
    Made {
        parent: Arc<Buffer>,
        shape: Option<Shape>,
        /// What it is actually made of, if that is not the buffer.
        backing: Option<Arc<Backing>>,
        /// References that the program holds.
        users: AtomicU32,
    },
    /// Without canaries, for this reason.
    Bare(&'static str),
}

impl Buffer {
    /// One that nothing has used.
    pub fn of(made: Made) -> Buffer {
        Buffer {
            serial: made.serial,
            kind: made.kind,
            size: made.size,
            handle: made.handle,
            context: made.context,
            given: made.given,
            flags: made.flags,
            properties: made.properties,
            place: made.place,
            staging: Mutex::default(),
            backing: Mutex::default(),
            allocated_at: made.allocated_at,
            used_in: UsedIn::default(),
        }
    }

    /// A command of a queue uses it. Whether commands of other queues have, which may
    /// run at the same time.
    pub fn note_use(&self, queue: cl_command_queue) -> bool {
        let (used_in, queue) = (&self.used_in, queue as usize);
        let first = used_in
            .queue
            .compare_exchange(0, queue, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err_and(|first| first != queue) {
            used_in.has_others.store(true, Ordering::Relaxed);
        }
        used_in.has_others.load(Ordering::Relaxed)
    }

    /// The block that holds it, if it has one of its own.
    pub fn block(&self) -> Option<&Block> {
        match &self.place {
            Place::Block(block) => Some(block),
            _ => None,
        }
    }

    /// Which bytes of which object of the program's it is.
    pub fn extent(&self) -> (usize, Range<u64>) {
        let (root, origin) = match &self.place {
            Place::Part { parent, origin } => (parent.handle, *origin as u64),
            Place::Plain { root, origin } | Place::Shared { root, origin } => {
                (*root, *origin as u64)
            }
            Place::Made { parent, .. } => return parent.extent(),
            Place::Block(_) | Place::Image(_) | Place::Bare(_) => (self.handle, 0),
        };
        (root, origin..origin + self.size)
    }

    /// Whether it shares bytes with another object.
    pub fn overlaps(&self, other: &Buffer) -> bool {
        let (root, range) = self.extent();
        let (of, of_range) = other.extent();
        root == of && range.start < of_range.end && of_range.start < range.end
    }

    /// What an image is made of whose buffer has a backing.
    pub fn backed(&self) -> Option<Backed<'_>> {
        match &self.place {
            Place::Made {
                parent,
                backing: Some(backing),
                users,
                ..
            } => Some(Backed {
                parent,
                backing,
                users,
            }),
            _ => None,
        }
    }
}

/// Where a block that an image is made of lies, if the buffer has one.
pub fn root_of(buffer: &Arc<Buffer>) -> &Arc<Buffer> {
    match &buffer.place {
        Place::Made { parent, .. } | Place::Part { parent, .. } => root_of(parent),
        _ => buffer,
    }
}

/// An image that is made of a backing.
pub struct Backed<'a> {
    /// The buffer that the program made it of; the image holds it.
    pub parent: &'a Arc<Buffer>,
    /// What it is made of in truth.
    pub backing: &'a Arc<Backing>,
    /// References that the program holds to the image. Not every platform calls
    /// back when such an image is freed (PoCL 3.1 does not).
    pub users: &'a AtomicU32,
}

#[cfg(test)]
pub mod testing {
    //! Memory objects for tests.

    use super::{Given, Made, Place};
    use model::AllocationKind;

    /// An object of this size whose handle and serial number are the same.
    pub fn made(handle: usize, size: u64, place: Place) -> Made {
        Made {
            handle,
            context: 1,
            kind: AllocationKind::ClBuffer,
            size,
            serial: handle as u64,
            given: Given {
                flags: 0,
                host: false,
            },
            flags: 0,
            properties: false,
            place,
            allocated_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::made;
    use super::*;

    fn buffer(handle: usize, size: u64, place: Place) -> Arc<Buffer> {
        Arc::new(Buffer::of(made(handle, size, place)))
    }

    #[test]
    fn parts_overlap_where_they_share_bytes_of_one_object() {
        let whole = buffer(1, 100, Place::Bare("a test"));
        let part = |handle, origin, size| {
            let parent = whole.clone();
            buffer(handle, size, Place::Part { parent, origin })
        };
        let (low, high) = (part(2, 0, 50), part(3, 50, 50));
        assert_eq!(high.extent(), (1, 50..100));
        assert!(!low.overlaps(&high));
        assert!(low.overlaps(&part(4, 49, 2)));
        assert!(low.overlaps(&whole) && whole.overlaps(&high));
        // The same bytes of another object.
        let other = buffer(9, 100, Place::Plain { root: 9, origin: 0 });
        assert!(!other.overlaps(&whole));
    }

    #[test]
    fn an_image_lies_where_its_buffer_lies() {
        let whole = buffer(1, 100, Place::Bare("a test"));
        let origin = 20;
        let part = buffer(
            2,
            40,
            Place::Part {
                parent: whole.clone(),
                origin,
            },
        );
        let image = buffer(
            3,
            40,
            Place::Made {
                parent: part,
                shape: None,
                backing: None,
                users: AtomicU32::new(1),
            },
        );
        assert_eq!(image.extent(), (1, 20..60));
        assert!(Arc::ptr_eq(root_of(&image), &whole));
        assert!(image.backed().is_none());
    }
}
