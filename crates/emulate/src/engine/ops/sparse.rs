//! Where the elements of a sparse A belong (`mma.sp`; PTX ISA, "Matrix
//! multiply-accumulate operation using mma.sp instruction with sparse matrix
//! A"). Of A, half is stored, packed as the A of a product of half the depth;
//! the metadata, four bits for each pair of units, says which two of four units
//! along a row they are. A unit is an element; a pair of them if they have four
//! bits; half of one for tf32.

use crate::mapping::LANES;

/// How metadata lie in the lanes of a warp.
#[derive(Clone, Copy)]
pub(super) struct Sparsity {
    /// Bits of an element of A.
    pub bits: usize,
    /// Depth of the product.
    pub depth: usize,
    /// Which lanes of each four hold the metadata.
    pub selector: usize,
}

/// Largest selector, and so how many groups of lanes there are to choose from.
pub(super) fn selectors(bits: usize, depth: usize) -> usize {
    // A row has four bits of metadata for each four units: each four lanes hold
    // those of two rows, 32 bits each.
    4 * 32 / (2 * 4 * groups(bits, depth))
}

/// Groups of four units in a row.
fn groups(bits: usize, depth: usize) -> usize {
    match bits {
        32 => depth / 2,
        4 => depth / 8,
        _ => depth / 4,
    }
}

impl Sparsity {
    /// The metadata of a group of four units of a row.
    fn of(&self, metadata: &[u32; LANES], row: usize, group: usize) -> u32 {
        let lanes = 4 / selectors(self.bits, self.depth);
        let first = row % 8 * 4 + self.selector * lanes;
        let (lane, shift) = match self.bits {
            // A word has four groups of a row, and of the row eight below.
            16 | 32 => (group / 4, row / 8 * 16 + group % 4 * 4),
            // A word has eight groups of one row.
            _ => (row / 8 + group / 8 * 2, group % 8 * 4),
        };
        metadata[first + lane] >> shift & 0xf
    }

    /// `stored`, rows of half the depth, at full depth.
    pub(super) fn spread(&self, metadata: &[u32; LANES], stored: &[f64], rows: usize) -> Vec<f64> {
        let half = self.depth / 2;
        let mut full = vec![0.0; rows * self.depth];
        for row in 0..rows {
            for group in 0..groups(self.bits, self.depth) {
                let said = self.of(metadata, row, group) as usize;
                let (first, second) = (said & 3, said >> 2);
                let from = &stored[row * half..][..half];
                let to = &mut full[row * self.depth..][..self.depth];
                match self.bits {
                    32 => to[group * 2 + first / 2] = from[group],
                    4 => {
                        for part in 0..2 {
                            to[group * 8 + first * 2 + part] = from[group * 4 + part];
                            to[group * 8 + second * 2 + part] = from[group * 4 + 2 + part];
                        }
                    }
                    _ => {
                        to[group * 4 + first] = from[group * 2];
                        to[group * 4 + second] = from[group * 2 + 1];
                    }
                }
            }
        }
        full
    }
}
