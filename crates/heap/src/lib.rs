//! Allocation registry, and the algebra of placement and lookup tables. Pure.
