//! The forms of code that the driver loads modules from.

/// Code that a program hands to the driver.
#[derive(Clone, Copy, Debug)]
pub enum ModulePart<'a> {
    /// A fat binary: one container or several.
    Fatbin(&'a [u8]),
    /// PTX text.
    Ptx(&'a str),
    /// Machine code (a cubin).
    Elf(&'a [u8]),
}
