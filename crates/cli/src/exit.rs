//! Exit codes. They are API: scripts depend on them.

/// There are findings (`--error-exitcode` overrides it).
pub const FINDINGS: u8 = 98;
/// The program ran, and nothing was checked: no kernel launch, and of a program
/// without launches no call either.
pub const NOTHING_CHECKED: u8 = 97;
/// Ringfence could not do what was asked.
pub const FAILED: u8 = 96;
/// Added to the number of the signal that killed the program, as shells do.
pub const SIGNAL: u8 = 128;
