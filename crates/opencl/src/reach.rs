//! What a launch can reach by its arguments, and what is looked at for it.

use crate::arguments::{Argument, ImageUse, Kernel};
use crate::buffers::{Buffer, Place};
use crate::check::Look;
use crate::images::root_of;
use crate::layer::Layer;
use crate::staged::{self, Lent, Use};
use std::sync::Arc;

/// What a launch can reach.
#[derive(Default)]
pub struct Reach {
    /// Memory to look at afterwards, each once.
    pub looks: Vec<Look>,
    /// Images among them that stand for buffers.
    pub uses: Vec<Use>,
    /// Arguments whose memory has no canaries, each with the reason.
    pub bare: Vec<String>,
}

impl Layer {
    /// See [`Reach`].
    pub fn reach(&self, kernel: &Kernel) -> Reach {
        let arguments = kernel.arguments.lock().clone();
        let mut reach = Reach::default();
        let mut shared = kernel.reaches_shared();
        let mut given: Vec<(u32, Arc<Buffer>)> = Vec::new();
        for (index, argument) in (0u32..).zip(arguments) {
            let buffer = match argument {
                Argument::Memory(handle) => self.buffer(handle),
                Argument::Shared(address) => {
                    shared = true;
                    self.svm_at(address)
                }
                Argument::Other => None,
            };
            given.extend(buffer.map(|buffer| (index, buffer)));
        }
        for (index, buffer) in &given {
            if let Some(one) = Use::of(buffer, kernel.image(*index) != ImageUse::Reads) {
                staged::add(&mut reach.uses, Some(one));
                reach.bare(kernel, *index, "an image that stands for a buffer");
            }
        }
        for (index, buffer) in &given {
            if buffer.context != kernel.context {
                // Some platforms take it; commands of ours they do not.
                reach.bare(kernel, *index, "memory of another context");
                continue;
            }
            if reach.lend(buffer, *index) {
                reach.bare(kernel, *index, "shares memory with an image");
                continue;
            }
            match &buffer.place {
                Place::Block(_) => reach.add(buffer, *index),
                Place::Image(_) => match kernel.image(*index) {
                    ImageUse::Reads => {}
                    ImageUse::Writes => self.copied(kernel, (*index, buffer), &given, &mut reach),
                    ImageUse::Asks => reach.bare(kernel, *index, "the kernel may ask for its size"),
                    ImageUse::Unknown => {
                        reach.bare(kernel, *index, "the platform does not tell its use");
                    }
                },
                Place::Made {
                    staged: Some(_), ..
                } => {}
                Place::Made { .. } => {
                    let root = root_of(buffer);
                    match &root.place {
                        Place::Block(_) => reach.add(root, *index),
                        _ => reach.bare(kernel, *index, "an image made of memory of the host"),
                    }
                }
                Place::Part { .. } | Place::Plain { .. } => {
                    self.copied(kernel, (*index, buffer), &given, &mut reach);
                }
                Place::Shared { .. } => {
                    shared = true;
                    reach.bare(kernel, *index, "made of shared virtual memory");
                }
                Place::Bare(why) => reach.bare(kernel, *index, why),
            }
        }
        if shared {
            for buffer in self.svm_of(kernel.context) {
                if !reach.has(&buffer) {
                    reach.looks.push(Look::new(buffer, None));
                }
            }
        }
        reach
    }

    /// An argument that a copy must stand for.
    fn copied(
        &self,
        kernel: &Kernel,
        (index, buffer): (u32, &Arc<Buffer>),
        given: &[(u32, Arc<Buffer>)],
        reach: &mut Reach,
    ) {
        // Nothing is written through it.
        let image = matches!(buffer.place, Place::Image(_));
        if !image && kernel.is_constant(index) {
            return;
        }
        if let Some(look) = reach.looks.iter_mut().find(|look| look.is_of(buffer)) {
            look.indices.push(index);
            return;
        }
        // What is written through one of two ways must be seen through the
        // other, which a copy would hide.
        let overlaps = |other: &Arc<Buffer>| {
            let (root, range) = buffer.extent();
            let (of, of_range) = other.extent();
            root == of && range.start < of_range.end && of_range.start < range.end
        };
        let twice = given
            .iter()
            .any(|(_, other)| other.handle != buffer.handle && overlaps(other));
        if twice {
            if let Place::Part { parent, .. } = &buffer.place {
                reach.add(parent, index);
            }
            reach.bare(kernel, index, "shares memory with another argument");
            return;
        }
        match self.shadow(buffer) {
            Some(shadow) => reach
                .looks
                .push(Look::through(buffer.clone(), index, shadow)),
            None => reach.bare(kernel, index, "no room for a copy with canaries"),
        }
    }
}

impl Reach {
    fn has(&self, buffer: &Arc<Buffer>) -> bool {
        self.looks.iter().any(|look| look.is_of(buffer))
    }

    /// Whether an argument is a buffer that an image stands for, or a part of it.
    fn lend(&mut self, buffer: &Arc<Buffer>, index: u32) -> bool {
        let (root, part) = match &buffer.place {
            Place::Block(_) => (buffer, None),
            Place::Part { parent, origin } => (parent, Some((*origin, buffer.size as usize))),
            _ => return false,
        };
        let same = |one: &&mut Use| Arc::ptr_eq(&one.buffer, root);
        let Some(one) = self.uses.iter_mut().find(same) else {
            return false;
        };
        one.writes = true;
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
            self.looks.push(Look::new(buffer.clone(), Some(index)));
        }
    }

    fn bare(&mut self, kernel: &Kernel, index: u32, why: &str) {
        let name = kernel.names().get(index as usize).cloned().flatten();
        let name = name.unwrap_or_else(|| index.to_string());
        self.bare.push(format!("argument {name}: {why}"));
    }
}
