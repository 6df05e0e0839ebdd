//! Control flow, dominators, loops and pointer provenance of PTX functions.
