//! The memory that a launch can reach by its arguments, and what is scanned for
//! it.

use crate::canaries::Canaries;
use crate::canaries::backing::{self, Lent, Use};
use crate::canaries::scan::Scan;
use crate::objects::access::Access;
use crate::objects::buffer::{Buffer, Place, root_of};
use crate::objects::kernel::{Argument, ImageUse, Kernel};
use crate::objects::registry::Objects;
use std::sync::Arc;

/// What a launch can reach.
#[derive(Default)]
pub struct Reach {
    /// Memory to scan afterwards, each once.
    pub scans: Vec<Scan>,
    /// Images among them that have a backing.
    pub uses: Vec<Use>,
    /// Arguments whose memory has no canaries, each with the reason.
    pub bare: Vec<String>,
}

/// An argument that is memory.
struct Given {
    index: u32,
    buffer: Arc<Buffer>,
}

/// A launch whose reach is being found.
struct Search<'a> {
    canaries: &'a Canaries,
    kernel: &'a Kernel,
    given: Vec<Given>,
    /// Whether it can reach shared virtual memory.
    shared: bool,
    found: Reach,
}

/// The memory that a launch of a kernel can reach by its arguments.
pub fn reach(canaries: &Canaries, objects: &Objects, kernel: &Kernel) -> Reach {
    let mut search = Search {
        canaries,
        kernel,
        given: Vec::new(),
        shared: kernel.reaches_shared(),
        found: Reach::default(),
    };
    for (index, argument) in (0u32..).zip(kernel.arguments()) {
        let buffer = match argument {
            Argument::Memory(handle) => objects.buffer(handle),
            Argument::Shared(address) => {
                search.shared = true;
                objects.svm_at(address)
            }
            Argument::Other => None,
        };
        search
            .given
            .extend(buffer.map(|buffer| Given { index, buffer }));
    }
    let given = std::mem::take(&mut search.given);
    for one in &given {
        search.back(one);
    }
    for one in &given {
        search.argument(one, &given);
    }
    if search.shared {
        for buffer in objects.svm_of(kernel.context) {
            if !search.has(&buffer) {
                search.found.scans.push(Scan::new(buffer, None));
            }
        }
    }
    search.found
}

impl Search<'_> {
    /// An image that has a backing.
    fn back(&mut self, Given { index, buffer }: &Given) {
        if buffer.backed().is_none() {
            return;
        }
        let access = match self.kernel.image(*index) {
            ImageUse::Reads => Access::Read,
            _ => Access::Write,
        };
        if let Some(one) = Use::of(buffer, access) {
            backing::add(&mut self.found.uses, Some(one));
            self.bare(*index, "an image that stands for a buffer");
        }
    }

    fn argument(&mut self, one: &Given, given: &[Given]) {
        let Given { index, buffer } = one;
        if buffer.context != self.kernel.context {
            // Some platforms accept it in a kernel, but not in Ringfence's
            // commands.
            self.bare(*index, "memory of another context");
            return;
        }
        if self.lend(buffer, *index) {
            self.bare(*index, "shares memory with an image");
            return;
        }
        match &buffer.place {
            Place::Block(_) => self.add(buffer, *index),
            Place::Image(_) => match self.kernel.image(*index) {
                ImageUse::Reads => {}
                ImageUse::Writes => self.copied(one, given),
                ImageUse::Asks => self.bare(*index, "the kernel may ask for its size"),
                ImageUse::Unknown => self.bare(*index, "the platform does not tell its use"),
            },
            Place::Made {
                backing: Some(_), ..
            } => {}
            Place::Made { .. } => {
                let root = root_of(buffer);
                match &root.place {
                    Place::Block(_) => self.add(root, *index),
                    _ => self.bare(*index, "an image made of memory of the host"),
                }
            }
            Place::Part { .. } | Place::Plain { .. } => self.copied(one, given),
            Place::Shared { .. } => {
                self.shared = true;
                self.bare(*index, "made of shared virtual memory");
            }
            Place::Bare(why) => self.bare(*index, why),
        }
    }

    /// An argument that a staging copy must replace.
    fn copied(&mut self, Given { index, buffer }: &Given, given: &[Given]) {
        // Nothing is written through it.
        let image = matches!(buffer.place, Place::Image(_));
        if !image && self.kernel.is_constant(*index) {
            return;
        }
        let mut scans = self.found.scans.iter_mut();
        if let Some(scan) = scans.find(|scan| scan.is_of(buffer)) {
            scan.indices.push(*index);
            return;
        }
        // A write through one of two arguments must be visible through the
        // other; a copy would hide it.
        let twice = given
            .iter()
            .any(|other| other.buffer.handle != buffer.handle && buffer.overlaps(&other.buffer));
        if twice {
            if let Place::Part { parent, .. } = &buffer.place {
                self.add(parent, *index);
            }
            self.bare(*index, "shares memory with another argument");
            return;
        }
        match self.canaries.staging_copy(buffer) {
            Some(staging) => {
                let scan = Scan::through(buffer.clone(), *index, staging);
                self.found.scans.push(scan);
            }
            None => self.bare(*index, "no room for a copy with canaries"),
        }
    }

    fn has(&self, buffer: &Arc<Buffer>) -> bool {
        self.found.scans.iter().any(|scan| scan.is_of(buffer))
    }

    /// Whether an argument is a buffer that has a backing, or a part of it.
    fn lend(&mut self, buffer: &Arc<Buffer>, index: u32) -> bool {
        let (root, part) = match &buffer.place {
            Place::Block(_) => (buffer, None),
            Place::Part { parent, origin } => (parent, Some((*origin, buffer.size as usize))),
            _ => return false,
        };
        let same = |one: &&mut Use| Arc::ptr_eq(&one.buffer, root);
        let Some(one) = self.found.uses.iter_mut().find(same) else {
            return false;
        };
        one.access = Access::Write;
        one.arguments.push(Lent {
            index,
            handle: buffer.handle,
            part,
        });
        true
    }

    /// Each block once, through the first argument that reaches it.
    fn add(&mut self, buffer: &Arc<Buffer>, index: u32) {
        if !self.has(buffer) {
            self.found
                .scans
                .push(Scan::new(buffer.clone(), Some(index)));
        }
    }

    fn bare(&mut self, index: u32, why: &str) {
        let bare = self.kernel.describe(index, why);
        self.found.bare.push(bare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::Recorder;
    use crate::objects::block::{Block, Memory};
    use crate::objects::buffer::testing::made;
    use crate::platform::fake::Fake;
    use heap::canary::{Key, Layout};
    use model::Settings;

    struct Test {
        objects: Objects,
        canaries: Canaries,
        fake: Fake,
    }

    impl Test {
        fn new() -> Test {
            Test {
                objects: Objects::default(),
                canaries: Canaries::of(&Settings::default(), Arc::new(Recorder::default())),
                fake: Fake::new(),
            }
        }

        fn add(&self, handle: usize, size: u64, place: Place) -> Arc<Buffer> {
            let mut made = made(handle, size, place);
            made.context = self.fake.context as usize;
            self.objects.add(Buffer::of(made));
            self.objects.buffer(handle).unwrap()
        }

        fn block(&self, handle: usize) -> Arc<Buffer> {
            let layout = Layout::around(64, 64, 128).unwrap();
            let block = Block::new(Memory::Buffer(handle + 1), layout, Key::of_byte(1));
            self.add(handle, 64, Place::Block(block))
        }

        /// What a kernel reaches with these arguments: each scan's object and
        /// argument, and what is bare.
        fn reach(&self, arguments: &[Argument]) -> (Vec<(usize, Option<u32>)>, Vec<String>) {
            let all = [("a", false), ("b", false), ("c", true)];
            let kernel = self.fake.kernel("fill", &all[..arguments.len()]);
            let kernel = Kernel::of(kernel, arguments.to_vec());
            let reach = reach(&self.canaries, &self.objects, &kernel);
            let scans = reach.scans.iter();
            let scans = scans.map(|scan| (scan.buffer.handle, scan.argument));
            (scans.collect(), reach.bare)
        }
    }

    #[test]
    fn each_buffer_is_scanned_once() {
        let t = Test::new();
        t.block(0x100);
        t.block(0x200);
        let (scans, bare) = t.reach(&[
            Argument::Memory(0x200),
            Argument::Memory(0x100),
            Argument::Memory(0x200),
        ]);
        assert_eq!(scans, [(0x200, Some(0)), (0x100, Some(1))]);
        assert!(bare.is_empty());
        let (scans, _) = t.reach(&[Argument::Other, Argument::Memory(0x999)]);
        assert!(scans.is_empty());
    }

    #[test]
    fn what_has_no_canaries_is_named_with_its_reason() {
        let t = Test::new();
        t.add(0x100, 64, Place::Bare("a reason"));
        let (root, origin) = (0x200, 0);
        t.add(0x200, 64, Place::Shared { root, origin });
        let (scans, bare) = t.reach(&[Argument::Memory(0x100), Argument::Memory(0x200)]);
        assert!(scans.is_empty());
        let expected = [
            "argument a: a reason",
            "argument b: made of shared virtual memory",
        ];
        assert_eq!(bare, expected);
    }

    #[test]
    fn parts_have_copies_unless_they_share_bytes() {
        let t = Test::new();
        let whole = t.block(0x100);
        let part = |handle, origin| {
            let parent = whole.clone();
            t.add(handle, 32, Place::Part { parent, origin });
        };
        part(0x200, 0);
        part(0x300, 32);
        part(0x400, 16);
        let (scans, bare) = t.reach(&[Argument::Memory(0x200), Argument::Memory(0x300)]);
        assert_eq!(scans, [(0x200, Some(0)), (0x300, Some(1))]);
        assert!(bare.is_empty());
        // A copy would hide from one what is written through the other.
        let (scans, bare) = t.reach(&[Argument::Memory(0x200), Argument::Memory(0x400)]);
        assert_eq!(scans, [(0x100, Some(0))]);
        assert_eq!(bare.len(), 2);
        // Nothing is written through the third parameter.
        let three = [Argument::Other, Argument::Other, Argument::Memory(0x200)];
        let (scans, bare) = t.reach(&three);
        assert!(scans.is_empty() && bare.is_empty());
    }

    #[test]
    fn a_copy_that_is_two_arguments_stands_for_both() {
        let t = Test::new();
        let (root, origin) = (0x100, 0);
        t.add(0x100, 32, Place::Plain { root, origin });
        let kernel = t.fake.kernel("fill", &[("a", false), ("b", false)]);
        let kernel = Kernel::of(kernel, vec![Argument::Memory(0x100); 2]);
        let reach = reach(&t.canaries, &t.objects, &kernel);
        assert_eq!(reach.scans.len(), 1);
        assert_eq!(reach.scans[0].indices, [0, 1]);
        assert_eq!(t.fake.mems(), 2);
        t.fake.has_room_for(0);
        t.add(
            0x200,
            32,
            Place::Plain {
                root: 0x200,
                origin,
            },
        );
        let (scans, bare) = t.reach(&[Argument::Memory(0x200)]);
        assert!(scans.is_empty());
        assert_eq!(bare, ["argument a: no room for a copy with canaries"]);
    }

    #[test]
    fn shared_memory_of_the_context_is_reached_by_any_pointer_to_it() {
        let t = Test::new();
        let other = Buffer::of(made(0x9000, 64, Place::Bare("another context")));
        t.objects.add_svm(Arc::new(other));
        for at in [0x1000, 0x2000] {
            let mut made = made(at, 64, Place::Bare("shared"));
            made.context = t.fake.context as usize;
            t.objects.add_svm(Arc::new(Buffer::of(made)));
        }
        let (scans, _) = t.reach(&[Argument::Shared(0x1010)]);
        let handles: Vec<usize> = scans.iter().map(|(handle, _)| *handle).collect();
        assert_eq!(handles, [0x1000, 0x2000]);
        assert!(t.reach(&[Argument::Other]).0.is_empty());
    }

    #[test]
    fn memory_of_another_context_is_left_alone() {
        let t = Test::new();
        t.block(0x100);
        let mut foreign = made(0x200, 64, Place::Bare("unused"));
        foreign.context = 0x77;
        t.objects.add(Buffer::of(foreign));
        let (scans, bare) = t.reach(&[Argument::Memory(0x200)]);
        assert!(scans.is_empty());
        assert_eq!(bare, ["argument a: memory of another context"]);
    }
}
