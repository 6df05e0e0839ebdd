//! Three small functions for each function of libcuda: the exported jump, the
//! entry that starts Ringfence at the first call, and the entry for what the
//! device does not have. All three leave the program's arguments untouched. And
//! the table that the first jumps through.

#![allow(
    non_snake_case,
    missing_docs,
    reason = "the symbols of cuda.h, whose reference manual documents them"
)]

use crate::positions::COUNT;
use crate::table::{Function, Table};

/// Exported: jump to whatever the table says.
mod exported {
    macro_rules! define {
        ($($name:ident,)*) => {$(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    "jmp qword ptr [rip + {table} + {offset}]",
                    table = sym crate::exports::TABLE,
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
                    stub = sym crate::exports::start_stub,
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
const STARTING: [*const (); COUNT] = {
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
        const EXPORTED: [Function; driver::COUNT] = [$(exported::$name,)*];
    };
}
driver::for_each_function!(cuda_exports);

/// The table. Read by the exported functions' machine code.
// SAFETY: both arrays are in the order of `driver::FUNCTIONS`; starting entries
// take the program's arguments on to the function with their name.
pub static TABLE: Table = unsafe { Table::new(STARTING, EXPORTED) };

/// The functions that fail with their name.
fn missing() -> [usize; COUNT] {
    let mut all = [0; COUNT];
    all[..driver::COUNT].copy_from_slice(&missing_cuda());
    all[driver::COUNT..].copy_from_slice(&missing_extra());
    all
}

/// Reached by a jump from a function's first table entry, with the position in
/// r11d and the program's arguments where the System V ABI puts them. Keeps
/// them (general and vector registers, and rax for variadic calls), starts,
/// and jumps to the function's new entry.
#[unsafe(naked)]
pub unsafe extern "C" fn start_stub() {
    core::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        // rsp is 16-byte aligned after entry, rbp and seven pushes; keep it so.
        "sub rsp, 128",
        "movups [rsp], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "mov edi, r11d",
        "and rsp, -16",
        "call {start}",
        "mov r11, rax",
        "lea rsp, [rbp - 184]",
        "movups xmm0, [rsp]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "add rsp, 128",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "jmp r11",
        start = sym start,
    )
}

/// Starts Ringfence if that has not happened, and answers where the function
/// at `position` is now.
extern "C" fn start(position: u32) -> usize {
    let position = (position as usize).min(COUNT - 1);
    crate::start::start(position, &TABLE, missing())
}
