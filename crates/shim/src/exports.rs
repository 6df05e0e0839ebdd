//! Three small functions for each function of cuda.h: the exported jump, the
//! entry that starts Ringfence at the first call, and the entry for what the
//! device does not have. All three leave the program's arguments untouched.

#![allow(
    non_snake_case,
    missing_docs,
    reason = "the symbols of cuda.h, whose reference manual documents them"
)]

/// Exported: jump to whatever the table says.
mod exported {
    macro_rules! define {
        ($($name:ident,)*) => {$(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    "jmp qword ptr [rip + {table} + {offset}]",
                    table = sym crate::table::TABLE,
                    offset = const driver::index::$name * 8,
                )
            }
        )*};
    }
    driver::for_each_function!(define);
}

/// First table entry: start, then take the call again.
mod starting {
    macro_rules! define {
        ($($name:ident,)*) => {$(
            #[unsafe(naked)]
            pub(super) unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    "mov r11d, {index}",
                    "jmp {stub}",
                    index = const driver::index::$name,
                    stub = sym crate::start::start_stub,
                )
            }
        )*};
    }
    driver::for_each_function!(define);
}

/// Table entry of a function that the device lacks: fail with its name.
mod missing {
    macro_rules! define {
        ($($name:ident,)*) => {$(
            #[unsafe(naked)]
            pub(super) unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    "mov edi, {index}",
                    "jmp {stub}",
                    index = const driver::index::$name,
                    stub = sym crate::failure::missing,
                )
            }
        )*};
    }
    driver::for_each_function!(define);
}

macro_rules! table_of {
    ($($name:ident,)*) => {
        /// First content of the table.
        pub const STARTING: [*const (); driver::COUNT] = [$(starting::$name as *const (),)*];

        /// The exported functions, as the program sees them.
        pub fn exported() -> [usize; driver::COUNT] {
            [$(exported::$name as *const () as usize,)*]
        }

        /// The functions that fail with their name.
        pub fn missing() -> [usize; driver::COUNT] {
            [$(missing::$name as *const () as usize,)*]
        }
    };
}
driver::for_each_function!(table_of);
