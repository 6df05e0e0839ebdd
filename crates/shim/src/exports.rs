//! Three small functions for each function of libcuda: the exported jump, the
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
            pub(crate) unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    "jmp qword ptr [rip + {table} + {offset}]",
                    table = sym crate::table::TABLE,
                    offset = const index::$name * 8,
                )
            }
        )*};
    }
    mod cuda {
        use driver::index;
        driver::for_each_function!(define);
    }
    mod extra {
        use driver::extra_index as index;
        driver::for_each_extra!(define);
    }
    pub(super) use cuda::*;
}

/// First table entry: start, then take the call again.
mod starting {
    macro_rules! define {
        ($($name:ident,)*) => {$(
            #[unsafe(naked)]
            pub(crate) unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    "mov r11d, {index}",
                    "jmp {stub}",
                    index = const index::$name,
                    stub = sym crate::start::start_stub,
                )
            }
        )*};
    }
    mod cuda {
        use driver::index;
        driver::for_each_function!(define);
    }
    mod extra {
        use driver::extra_index as index;
        driver::for_each_extra!(define);
    }
    pub(super) use {cuda::*, extra::*};
}

/// Table entry of a function that the device lacks: fail with its name.
mod missing {
    macro_rules! define {
        ($($name:ident,)*) => {$(
            #[unsafe(naked)]
            pub(crate) unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    "mov edi, {index}",
                    "jmp {stub}",
                    index = const index::$name,
                    stub = sym crate::failure::missing,
                )
            }
        )*};
    }
    mod cuda {
        use driver::index;
        driver::for_each_function!(define);
    }
    mod extra {
        use driver::extra_index as index;
        driver::for_each_extra!(define);
    }
    pub(super) use {cuda::*, extra::*};
}

/// All functions: those of cuda.h, then the others.
pub const COUNT: usize = driver::COUNT + driver::EXTRA.len();

/// The name of a function by its position.
pub fn name(position: usize) -> Option<&'static str> {
    driver::FUNCTIONS
        .get(position)
        .or_else(|| driver::EXTRA.get(position.wrapping_sub(driver::COUNT)))
        .copied()
}

macro_rules! arrays {
    ($starting:ident, $missing:ident, $count:expr => $($name:ident,)*) => {
        const $starting: [*const (); $count] = [$(starting::$name as *const (),)*];

        fn $missing() -> [usize; $count] {
            [$(missing::$name as *const () as usize,)*]
        }
    };
}

macro_rules! cuda_arrays {
    ($($name:ident,)*) => { arrays!(STARTING_CUDA, missing_cuda, driver::COUNT => $($name,)*); };
}
driver::for_each_function!(cuda_arrays);

macro_rules! extra_arrays {
    ($($name:ident,)*) => {
        arrays!(STARTING_EXTRA, missing_extra, driver::EXTRA.len() => $($name,)*);
    };
}
driver::for_each_extra!(extra_arrays);

/// First content of the table.
pub const STARTING: [*const (); COUNT] = {
    let mut all = [std::ptr::null(); COUNT];
    let mut position = 0;
    while position < COUNT {
        all[position] = if position < driver::COUNT {
            STARTING_CUDA[position]
        } else {
            STARTING_EXTRA[position - driver::COUNT]
        };
        position += 1;
    }
    all
};

macro_rules! cuda_exports {
    ($($name:ident,)*) => {
        /// The exported functions of cuda.h, as the program sees them.
        pub fn exported() -> [usize; driver::COUNT] {
            [$(exported::$name as *const () as usize,)*]
        }
    };
}
driver::for_each_function!(cuda_exports);

/// The functions that fail with their name.
pub fn missing() -> [usize; COUNT] {
    let mut all = [0; COUNT];
    all[..driver::COUNT].copy_from_slice(&missing_cuda());
    all[driver::COUNT..].copy_from_slice(&missing_extra());
    all
}
