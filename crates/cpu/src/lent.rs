//! Memory that C functions hand out pointers to: the program reads it long
//! after the call, so it belongs to the device. All of it lies on the heap and
//! stays where it is when these maps grow.

use driver::sys::{CUDA_MEM_ALLOC_NODE_PARAMS, CUgraph, CUgraphNode};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};

/// A pointer of the program, or one that was lent to it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct UserData(pub *mut c_void);

// SAFETY: never dereferenced here; the program asked for its callback to be
// called with it on a thread of the driver's.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

impl UserData {
    /// The pointer. A method, so that closures capture the whole.
    pub fn get(self) -> *mut c_void {
        self.0
    }
}

/// The parameters of a kernel node.
#[derive(Default)]
struct Parameters {
    block: Vec<u8>,
    /// Into the block, one a parameter.
    each: Vec<UserData>,
}

/// An allocation node as the program described it.
struct Described(CUDA_MEM_ALLOC_NODE_PARAMS);

// SAFETY: its pointers are the program's; they are given back and not used.
unsafe impl Send for Described {}

/// All that is lent.
#[derive(Default)]
pub struct Lent {
    /// Names and descriptions.
    texts: Mutex<BTreeMap<String, CString>>,
    /// The nodes that a stream's capture was last asked for, by stream.
    dependencies: Mutex<BTreeMap<u64, Vec<CUgraphNode>>>,
    /// By kernel node that was asked for its parameters.
    parameters: Mutex<BTreeMap<u64, Parameters>>,
    /// The graphs of conditional nodes, by node.
    bodies: Mutex<BTreeMap<u64, Vec<CUgraph>>>,
    /// By allocation node.
    allocations: Mutex<BTreeMap<u64, Described>>,
    /// What linkers have made, by linker.
    images: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Lent {
    /// A C string that lives as long as the device; one a text.
    pub fn text(&self, text: &str) -> *const c_char {
        let mut texts = self.texts.lock();
        if let Some(known) = texts.get(text) {
            return known.as_ptr();
        }
        // No name holds a NUL; if one did, it would end there.
        let clean = text.split('\0').next().unwrap_or_default();
        let lasting = texts
            .entry(text.to_owned())
            .or_insert(CString::new(clean).unwrap_or_default());
        lasting.as_ptr()
    }

    /// Nodes for a question about a stream, until the next one about it.
    pub fn dependencies(&self, stream: u64, nodes: Vec<u64>) -> *const CUgraphNode {
        let mut dependencies = self.dependencies.lock();
        let lent = dependencies.entry(stream).or_default();
        *lent = nodes.into_iter().map(CUgraphNode).collect();
        lent.as_ptr()
    }

    /// One pointer a parameter into the block of a kernel node, whose
    /// parameters start at these offsets. Until the node is asked again.
    pub fn parameters(
        &self,
        node: u64,
        block: Vec<u8>,
        offsets: impl Iterator<Item = u32>,
    ) -> *mut *mut c_void {
        let mut parameters = self.parameters.lock();
        let lent = parameters.entry(node).or_default();
        lent.block = block;
        let base = lent.block.as_mut_ptr();
        lent.each = offsets
            .map(|offset| UserData(base.wrapping_add(offset as usize).cast::<c_void>()))
            .collect();
        // UserData is a pointer and nothing else.
        lent.each.as_mut_ptr().cast()
    }

    /// The graphs of a conditional node, as long as the device lives.
    pub fn bodies(&self, node: u64, graphs: Vec<u64>) -> *mut CUgraph {
        let mut bodies = self.bodies.lock();
        let lent = bodies.entry(node).or_default();
        *lent = graphs.into_iter().map(CUgraph).collect();
        lent.as_mut_ptr()
    }

    /// Keeps the program's description of an allocation node.
    pub fn keep_allocation(&self, node: u64, description: CUDA_MEM_ALLOC_NODE_PARAMS) {
        self.allocations.lock().insert(node, Described(description));
    }

    /// The program's description of an allocation node.
    pub fn allocation(&self, node: u64) -> Option<CUDA_MEM_ALLOC_NODE_PARAMS> {
        self.allocations.lock().get(&node).map(|kept| kept.0)
    }

    /// The image that a linker made, and its size, until the linker makes
    /// another or is destroyed.
    pub fn image(&self, linker: u64, image: Vec<u8>) -> (*mut c_void, usize) {
        let mut images = self.images.lock();
        let lent = images.entry(linker).or_default();
        *lent = image;
        (lent.as_mut_ptr().cast(), lent.len())
    }

    /// A linker is destroyed, and its image with it.
    pub fn end_image(&self, linker: u64) {
        self.images.lock().remove(&linker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn lent_memory_stays_where_it_is() {
        let lent = Lent::default();
        let first = lent.text("first");
        for index in 0..100 {
            lent.text(&format!("text {index}"));
        }
        assert_eq!(lent.text("first"), first);
        // SAFETY: lent C strings live as long as `lent`.
        assert_eq!(unsafe { CStr::from_ptr(first) }, c"first");
        let nodes = lent.dependencies(1, vec![11, 12]);
        lent.dependencies(2, vec![13]);
        // SAFETY: two nodes, until the next question about stream 1.
        let nodes = unsafe { std::slice::from_raw_parts(nodes, 2) };
        assert_eq!(nodes, [CUgraphNode(11), CUgraphNode(12)]);
        let each = lent.parameters(1, vec![1, 0, 0, 0, 5, 6], [0, 4].into_iter());
        // SAFETY: one pointer a parameter, into six bytes.
        let bytes = unsafe { [*(*each).cast::<u8>(), *(*each.add(1)).cast::<u8>()] };
        assert_eq!(bytes, [1, 5]);
        let (image, size) = lent.image(1, vec![7; 3]);
        // SAFETY: three bytes, until the linker makes another image.
        let image = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), size) };
        assert_eq!(image, [7; 3]);
    }
}
