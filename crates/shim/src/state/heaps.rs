//! Heaps and regions that the program declares through NVTX. It may do so
//! before there is a session.

use parking_lot::Mutex;
use runtime::Layer;
use std::collections::BTreeMap;

/// What a heap's regions are, by first byte, which is also the handle.
struct Heap {
    layer: Layer,
    regions: Vec<u64>,
}

struct Known {
    heaps: BTreeMap<u64, Heap>,
    /// Heap of each region.
    regions: BTreeMap<u64, u64>,
}

/// The heaps and regions that are declared.
pub struct Heaps {
    known: Mutex<Known>,
}

impl Heaps {
    /// None.
    pub const fn new() -> Heaps {
        Heaps {
            known: Mutex::new(Known {
                heaps: BTreeMap::new(),
                regions: BTreeMap::new(),
            }),
        }
    }

    /// Adds a heap whose regions are of a layer.
    pub fn add_heap(&self, heap: u64, layer: Layer) {
        let regions = Vec::new();
        let mut known = self.known.lock();
        known.heaps.insert(heap, Heap { layer, regions });
    }

    /// Forgets a heap. Returns what its regions were.
    pub fn remove_heap(&self, heap: u64) -> Option<Layer> {
        let heap = self.known.lock().heaps.remove(&heap)?;
        Some(heap.layer)
    }

    /// All heaps.
    pub fn heaps(&self) -> Vec<u64> {
        self.known.lock().heaps.keys().copied().collect()
    }

    /// What the regions of a heap are.
    pub fn layer(&self, heap: u64) -> Layer {
        let known = self.known.lock();
        known.heaps.get(&heap).map_or(Layer::Region, |h| h.layer)
    }

    /// Adds a region, in place of one that starts there.
    pub fn add_region(&self, heap: u64, region: u64) {
        let mut known = self.known.lock();
        known.remove(region);
        let of = known.heaps.entry(heap).or_insert(Heap {
            layer: Layer::Region,
            regions: Vec::new(),
        });
        of.regions.push(region);
        known.regions.insert(region, heap);
    }

    /// The heap of a region.
    pub fn heap_of(&self, region: u64) -> Option<u64> {
        self.known.lock().regions.get(&region).copied()
    }

    /// Forgets a region. Returns what it was.
    pub fn remove_region(&self, region: u64) -> Option<Layer> {
        self.known.lock().remove(region)
    }

    /// Forgets all regions of a heap. Returns what and where they were.
    pub fn clear(&self, heap: u64) -> Vec<(Layer, u64)> {
        let mut known = self.known.lock();
        let Some(heap) = known.heaps.get_mut(&heap) else {
            return Vec::new();
        };
        let layer = heap.layer;
        let regions = std::mem::take(&mut heap.regions);
        for region in &regions {
            known.regions.remove(region);
        }
        regions.into_iter().map(|region| (layer, region)).collect()
    }
}

impl Known {
    fn remove(&mut self, region: u64) -> Option<Layer> {
        let heap = self.regions.remove(&region)?;
        let heap = self.heaps.get_mut(&heap)?;
        heap.regions.retain(|known| *known != region);
        Some(heap.layer)
    }
}
