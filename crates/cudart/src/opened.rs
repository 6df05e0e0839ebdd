//! Libraries that the program opens later (dlopen): plugins, modules of Python. Each
//! that holds the static runtime is taken over ([`redirect`](crate::redirect)) before
//! its constructors run, which register its kernels.
//!
//! The loader calls an empty function whenever it has mapped libraries, before it
//! relocates them: the place where debuggers set a breakpoint (`r_brk` of `_r_debug`,
//! `<link.h>`). A jump is written over it. Replacing `dlopen` itself would not do: the
//! loader searches a library by who asks for it.

use crate::error::say;
use crate::redirect::{
    JUMP, LoadedObject, RedirectError, TRAMPOLINE, jump, loaded_objects, map_near, page_size,
    protect, redirect_object, trampoline,
};
use std::ffi::{c_int, c_void};
use std::sync::Mutex;

/// The head of `struct r_debug` (`<link.h>`).
#[repr(C)]
struct LoaderState {
    version: c_int,
    map: *const c_void,
    brk: usize,
    state: c_int,
}

/// `RT_CONSISTENT`: what was to be mapped or unmapped is.
const CONSISTENT: c_int = 0;

unsafe extern "C" {
    /// The loader's own, which it exports for debuggers.
    #[link_name = "_r_debug"]
    static LOADER: LoaderState;
}

/// What was looked at and is still mapped: names and load biases.
static SEEN: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());

/// From now on, takes over the static runtime of each library that is opened. To be
/// called while there is one thread.
///
/// # Errors
///
/// The loader's function is not empty, or must not be changed.
pub fn redirect_opened() -> Result<(), RedirectError> {
    *seen() = loaded_objects().iter().map(key).collect();
    // SAFETY: a variable of the loader, which lives as long as the process; read as a
    // whole word that the loader has set before any constructor runs.
    let at = unsafe { (&raw const LOADER.brk).read_volatile() } as u64;
    if at == 0 {
        return Err(RedirectError::Loader);
    }
    // SAFETY: code of the loader, which stays mapped and readable; functions are
    // aligned to 16 bytes, so that as many are mapped.
    let code = unsafe { (at as *const [u8; 16]).read_unaligned() };
    if !is_empty(code) {
        return Err(RedirectError::Loader);
    }
    let page = page_size();
    let (start, end) = (at & !(page - 1), (at + JUMP as u64).next_multiple_of(page));
    let to = map_near(start, end, page as usize)?;
    protect(start, end, libc::PROT_READ | libc::PROT_WRITE)?;
    // SAFETY: `to` lies in the page that was just mapped, and `at` in pages just made
    // writable, where a jump takes the place of a return and of what is never executed
    // (`is_empty`). No other thread runs yet, and this one does not run the loader.
    unsafe {
        (to as *mut [u8; TRAMPOLINE]).write_unaligned(trampoline(opened as *const () as u64));
        (at as *mut [u8; JUMP]).write_unaligned(jump(at, to));
    }
    protect(start, end, libc::PROT_READ | libc::PROT_EXEC)?;
    protect(to, to + page, libc::PROT_READ | libc::PROT_EXEC)
}

/// Whether a function that begins like this only returns, and has room for a jump: a
/// return, perhaps behind `endbr64`, and then what pads functions.
fn is_empty(code: [u8; 16]) -> bool {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const RETURN: u8 = 0xc3;
    /// Bytes that `nop` instructions consist of, in the forms that assemblers pad with.
    const PADDING: [u8; 11] = [
        0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x40, 0x44, 0x80, 0x90, 0xcc,
    ];
    let rest = match code.strip_prefix(&ENDBR64) {
        Some(rest) => rest,
        None => &code,
    };
    let room = JUMP - 1 - (code.len() - rest.len());
    matches!(rest, [RETURN, padding @ ..]
        if padding[..room].iter().all(|byte| PADDING.contains(byte)))
}

fn seen() -> std::sync::MutexGuard<'static, Vec<(String, u64)>> {
    SEEN.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn key(object: &LoadedObject) -> (String, u64) {
    (object.library.clone().unwrap_or_default(), object.bias)
}

/// What the loader calls, with its lock held.
extern "C" fn opened() {
    // SAFETY: as in `redirect_opened`.
    if unsafe { (&raw const LOADER.state).read_volatile() } != CONSISTENT {
        return;
    }
    let objects = loaded_objects();
    let now: Vec<_> = objects.iter().map(key).collect();
    let before = std::mem::replace(&mut *seen(), now.clone());
    let is_new = |known: &(String, u64)| !before.contains(known);
    for (object, _) in objects.iter().zip(&now).filter(|(_, known)| is_new(known)) {
        match redirect_object(object) {
            // (Nothing that can be read says that it uses CUDA.)
            Ok(_) | Err(RedirectError::Read(_) | RedirectError::Parse(_)) => {}
            Err(error) => {
                let library = object.library.as_deref().unwrap_or_default();
                say(&format!("CUDA calls of {library} will fail: {error}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_function_is_written_over() {
        let padded = |head: &[u8]| {
            let mut code = [0x90; 16];
            code[..head.len()].copy_from_slice(head);
            code
        };
        let empty: [&[u8]; 3] = [
            &[0xc3, 0x66, 0x2e, 0x0f, 0x1f, 0x84],
            &[0xc3],
            // The jump takes exactly these; what follows may be another function.
            &[0xf3, 0x0f, 0x1e, 0xfa, 0xc3, 0x55],
        ];
        for code in empty {
            assert!(is_empty(padded(code)), "{code:x?}");
        }
        let others: [&[u8]; 4] = [
            &[0x55, 0xc3],
            &[0xc3, 0x55],
            &[0xf3, 0x0f, 0x1e, 0xfa, 0x55],
            &[0xf3, 0x0f, 0x1e, 0xfb, 0xc3],
        ];
        for code in others {
            assert!(!is_empty(padded(code)), "{code:x?}");
        }
    }
}
