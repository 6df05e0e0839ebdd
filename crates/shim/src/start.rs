//! The first call of any function starts Ringfence, then goes on as if the
//! table had always been full.

use crate::exports::COUNT;
use crate::session;
use crate::table;

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
    if session::start() {
        table::target(position)
    } else {
        // This thread is in the middle of starting, and something that it
        // loaded calls CUDA: too early.
        crate::failure::refuse as *const () as usize
    }
}
