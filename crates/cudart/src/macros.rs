//! The three macros that every runtime function is written with.

/// Calls a driver function of the installed table: `cu!(cuMemFree_v2(p))`
/// gives `Result<(), cudaError_t>`.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let function = crate::state::present(crate::state::api()?.$name, stringify!($name))?;
        // SAFETY: the function is the table's own of this name; its arguments
        // are the program's, which vouches for them by calling the runtime
        // function, or locals that outlive the call.
        crate::error::check(unsafe { function($($argument),*) })
    }};
}

/// Stores through an out pointer of the program; null is an invalid value.
macro_rules! put {
    ($pointer:expr, $value:expr) => {{
        let pointer = $pointer;
        if pointer.is_null() {
            Err(crate::generated::types::cudaError_t::cudaErrorInvalidValue)
        } else {
            // SAFETY: not null, and the caller of a runtime function promises
            // that its out pointers can be written.
            unsafe { pointer.write($value) };
            Ok(())
        }
    }};
}

/// Borrows a struct that the program passed by pointer; null is an invalid value.
macro_rules! get {
    ($pointer:expr) => {{
        // SAFETY: null becomes None; otherwise the caller of a runtime
        // function promises that its in pointers can be read for the call.
        unsafe { $pointer.as_ref() }
            .ok_or(crate::generated::types::cudaError_t::cudaErrorInvalidValue)
    }};
}

/// Declares runtime functions and the module's table of them.
///
/// `fn name / name_ptsz [stream] (…) { body }` also declares the variant whose
/// default stream is the thread's own; its `stream` argument is then mapped.
/// The body gives `Result<(), cudaError_t>`; an error becomes the thread's
/// last error. Each function is checked against the header's signature, unless
/// `unchecked` stands before `fn` (functions that no C header declares).
macro_rules! runtime {
    ($($(#[$meta:meta])* $([$mark:ident])? fn $name:ident $(/ $variant:ident [$stream:ident])? ($($arguments:tt)*) $body:block)*) => {
        $(runtime!(@one $(#[$meta])* [$($mark)?] [$($variant $stream)?] $name ($($arguments)*) $body);)*
        /// Functions of this module by name.
        pub(crate) const TABLE: &[crate::table::Entry] = &[
            $(crate::table::Entry::new(stringify!($name), $name as *const ()),
              $(crate::table::Entry::new(stringify!($variant), $variant as *const ()),)?)*
        ];
    };
    (@one $(#[$meta:meta])* [$($mark:ident)?] [] $name:ident ($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        ///
        /// # Safety
        /// As CUDA's documentation of the function demands of its arguments.
        #[allow(
            non_snake_case,
            clippy::too_many_arguments,
            clippy::redundant_closure_call,
            reason = "C names and signatures; `?` and `return` in the body end the body"
        )]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> crate::generated::types::cudaError_t {
            crate::error::finish((|| -> Result<(), crate::generated::types::cudaError_t> { $body })())
        }
        runtime!(@check [$($mark)?] $name);
    };
    (@one $(#[$meta:meta])* [$($mark:ident)?] [$variant:ident $stream:ident] $name:ident ($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        runtime!(@one $(#[$meta])* [$($mark)?] [] $name ($($argument: $type),*) $body);
        $(#[$meta])*
        ///
        /// Stream 0 is the thread's own default stream.
        ///
        /// # Safety
        /// As CUDA's documentation of the function demands of its arguments.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "C names and signatures")]
        pub unsafe extern "C" fn $variant($($argument: $type),*) -> crate::generated::types::cudaError_t {
            let $stream = crate::state::per_thread($stream);
            // SAFETY: same arguments, same demands.
            unsafe { $name($($argument),*) }
        }
    };
    (@check [unchecked] $name:ident) => {};
    (@check [] $name:ident) => {
        const _: crate::generated::signatures::$name = $name;
    };
}
