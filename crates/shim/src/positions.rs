//! The positions of functions in tables: those of cuda.h, then the others.

/// How many there are.
pub const COUNT: usize = driver::COUNT + driver::EXTRA.len();

/// The name of a function by its position.
pub fn name(position: usize) -> Option<&'static str> {
    driver::FUNCTIONS
        .get(position)
        .or_else(|| driver::EXTRA.get(position.wrapping_sub(driver::COUNT)))
        .copied()
}
