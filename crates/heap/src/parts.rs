//! Parts of allocations that the program declared: regions, and pools with
//! blocks that its own allocator hands out.
//!
//! A region is a part of an allocation whose rest stays what it was. A pool is
//! a part in which only the blocks that were handed out may be accessed.

use crate::registry::Entry;
use model::{DeviceAddress, Extent};
use std::collections::BTreeMap;

/// Which kind of part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// A range that an allocator of the program manages.
    Pool,
    /// What that allocator handed out.
    Block,
    /// Any other part.
    Region,
}

/// A change of the declared parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartEdit {
    /// A part was declared.
    Insert {
        /// Which kind.
        layer: Layer,
        /// Its bytes.
        extent: Extent,
        /// Its serial; 0 for a pool.
        serial: u64,
    },
    /// The part that starts there was removed.
    Remove {
        /// Which kind.
        layer: Layer,
        /// First byte.
        base: u64,
    },
    /// Kernels that were launched before may still use a removed block: until
    /// [`PartEdit::Settle`], its bytes resolve to the allocation, whatever is
    /// handed out meanwhile.
    Limbo {
        /// The block's bytes.
        extent: Extent,
    },
    /// No kernel that was launched before is running.
    Settle,
}

/// A part could not be declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// It does not lie in one live allocation.
    #[error("{base:#x} + {size} bytes does not lie in one known allocation")]
    NoAllocation {
        /// First byte.
        base: u64,
        /// Bytes.
        size: u64,
    },
    /// A block that lies in no pool.
    #[error("{base:#x} + {size} bytes does not lie in a pool")]
    NoPool {
        /// First byte.
        base: u64,
        /// Bytes.
        size: u64,
    },
    /// A pool or region that overlaps a pool.
    #[error("{base:#x} + {size} bytes overlaps a pool")]
    InPool {
        /// First byte.
        base: u64,
        /// Bytes.
        size: u64,
    },
}

/// The parts that are declared now.
#[derive(Clone, Debug)]
pub(crate) struct Parts<T> {
    pools: BTreeMap<u64, Extent>,
    /// Blocks and regions; none overlaps another.
    inner: BTreeMap<u64, (Layer, Entry<T>)>,
}

/// Whose an address is, as far as parts go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer<'a, T> {
    /// No part was declared there.
    Allocation,
    /// A block's or region's.
    Part(&'a Entry<T>),
    /// In a pool, outside its blocks.
    NoOwner,
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Parts {
            pools: BTreeMap::new(),
            inner: BTreeMap::new(),
        }
    }
}

impl<T> Parts<T> {
    /// What a pointer points into. A pointer one past the end of a block
    /// belongs to the block, unless another starts there; one past the end of a
    /// region belongs to the allocation.
    pub fn answer(&self, address: DeviceAddress) -> Answer<'_, T> {
        if self.inner.is_empty() && self.pools.is_empty() {
            return Answer::Allocation;
        }
        if let Some((_, (layer, entry))) = self.inner.range(..=address.0).next_back() {
            let extent = entry.allocation.extent;
            let past = *layer == Layer::Block && extent.end() == address;
            if extent.contains(address) || past {
                return Answer::Part(entry);
            }
        }
        if self.pool(address).is_some() {
            Answer::NoOwner
        } else {
            Answer::Allocation
        }
    }

    /// The block or region with exactly this extent.
    pub fn exactly(&self, extent: Extent) -> Option<&Entry<T>> {
        let (_, entry) = self.inner.get(&extent.base.0)?;
        (entry.allocation.extent == extent).then_some(entry)
    }

    /// The part of this kind that starts here.
    pub fn at(&self, layer: Layer, base: DeviceAddress) -> Option<Extent> {
        if layer == Layer::Pool {
            return self.pools.get(&base.0).copied();
        }
        let (of, entry) = self.inner.get(&base.0)?;
        (*of == layer).then_some(entry.allocation.extent)
    }

    /// The block or region that starts here.
    pub fn at_mut(&mut self, base: DeviceAddress) -> Option<&mut Entry<T>> {
        self.inner.get_mut(&base.0).map(|(_, entry)| entry)
    }

    /// The pool that holds an address.
    pub fn pool(&self, address: DeviceAddress) -> Option<Extent> {
        let (_, pool) = self.pools.range(..=address.0).next_back()?;
        pool.contains(address).then_some(*pool)
    }

    /// Every part: pools before blocks and regions.
    pub fn iter(&self) -> impl Iterator<Item = (Layer, Extent, u64)> {
        let pools = self.pools.values().map(|pool| (Layer::Pool, *pool, 0));
        let inner = self.inner.values().map(|(layer, entry)| {
            let allocation = &entry.allocation;
            (*layer, allocation.extent, allocation.serial)
        });
        pools.chain(inner)
    }

    fn overlaps_pool(&self, extent: Extent) -> bool {
        let before_end = self.pools.range(..extent.end().0).next_back();
        before_end.is_some_and(|(_, pool)| pool.end() > extent.base)
    }

    /// Adds a pool. Removes the regions in it and returns their bases.
    pub fn add_pool(&mut self, extent: Extent) -> Result<Vec<(Layer, u64)>, PartError> {
        if self.overlaps_pool(extent) {
            let (base, size) = (extent.base.0, extent.size);
            return Err(PartError::InPool { base, size });
        }
        let gone = self.take(extent);
        self.pools.insert(extent.base.0, extent);
        Ok(gone)
    }

    /// Adds a block or region. Removes what it overlaps, whose end was not
    /// declared.
    pub fn add(&mut self, layer: Layer, entry: Entry<T>) -> Result<Vec<(Layer, u64)>, PartError> {
        let extent = entry.allocation.extent;
        let (base, size) = (extent.base.0, extent.size);
        let pool = self.pool(extent.base);
        match layer {
            Layer::Block if pool.is_none_or(|pool| pool.end() < extent.end()) => {
                return Err(PartError::NoPool { base, size });
            }
            Layer::Region if self.overlaps_pool(extent) => {
                return Err(PartError::InPool { base, size });
            }
            _ => {}
        }
        let gone = self.take(extent);
        self.inner.insert(base, (layer, entry));
        Ok(gone)
    }

    /// Removes the block or region that starts at `base`.
    pub fn remove(&mut self, layer: Layer, base: DeviceAddress) -> Option<Entry<T>> {
        self.inner
            .get(&base.0)
            .filter(|(found, _)| *found == layer)?;
        self.inner.remove(&base.0).map(|(_, entry)| entry)
    }

    /// Removes the pool that starts at `base` and its blocks. Returns what was
    /// removed, blocks first.
    pub fn remove_pool(&mut self, base: DeviceAddress) -> Option<Vec<(Layer, u64)>> {
        let pool = self.pools.remove(&base.0)?;
        let mut gone = self.take(pool);
        gone.push((Layer::Pool, base.0));
        Some(gone)
    }

    /// Removes every part that touches an allocation which was freed.
    pub fn clear(&mut self, extent: Extent) -> Vec<(Layer, u64)> {
        let mut gone = self.take(extent);
        while self.overlaps_pool(extent)
            && let Some((base, _)) = self.pools.range(..extent.end().0).next_back()
        {
            let base = *base;
            self.pools.remove(&base);
            gone.push((Layer::Pool, base));
        }
        gone
    }

    /// Removes every part that touches bytes which were freed while the rest of
    /// their allocation stays. A pool is removed with all its blocks.
    pub fn cut(&mut self, extent: Extent) -> Vec<(Layer, u64)> {
        let mut gone = self.take(extent);
        while let Some((base, pool)) = self.pools.range(..extent.end().0).next_back()
            && pool.end() > extent.base
        {
            let base = DeviceAddress(*base);
            gone.extend(self.remove_pool(base).unwrap_or_default());
        }
        gone
    }

    /// Takes out the blocks and regions that overlap an extent.
    fn take(&mut self, extent: Extent) -> Vec<(Layer, u64)> {
        let bases: Vec<u64> = self
            .inner
            .range(..extent.end().0)
            .rev()
            .take_while(|(_, (_, entry))| entry.allocation.extent.end() > extent.base)
            .map(|(base, _)| *base)
            .collect();
        bases
            .into_iter()
            .filter_map(|base| {
                let (layer, _) = self.inner.remove(&base)?;
                Some((layer, base))
            })
            .collect()
    }
}
