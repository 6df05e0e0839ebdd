//! What a launch can reach by its arguments, and what is scanned for it.

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

/// What a launch of a kernel can reach by its arguments.
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
            // Some platforms take it; commands of ours they do not.
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

    /// An argument that a staging copy must stand for.
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
        // What is written through one of two ways must be seen through the
        // other, which a copy would hide.
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

    /// Each block once, through the first argument that leads there.
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
