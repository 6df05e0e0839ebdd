//! Values in mapped memory: plain ones, and those the host updates atomically.
//! Nothing here checks an address.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

#[inline(always)]
pub(super) fn pointer<T>(address: u64) -> *const T {
    std::ptr::with_exposed_provenance(address as usize)
}

#[inline(always)]
pub(super) fn pointer_mut<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

mod sealed {
    pub trait Sealed {}
}

/// Values that memory holds as they are: every bit pattern is one.
pub trait Plain: Copy + Default + sealed::Sealed + 'static {}

macro_rules! plain {
    ($($t:ty),*) => { $(impl sealed::Sealed for $t {} impl Plain for $t {})* };
}
plain!(u8, u16, u32, u64, u128, [u128; 2]);

/// Integers that the host can compare and exchange.
pub trait Atomic: Plain + PartialEq {
    /// Apply `f` until it takes; gives the value before.
    ///
    /// # Safety
    /// `at` is mapped, writable and aligned for the type.
    #[doc(hidden)]
    unsafe fn update(at: *mut Self, f: impl FnMut(Self) -> Self) -> Self;
}

macro_rules! atomic {
    ($($t:ty, $a:ty);*) => { $(
        impl Atomic for $t {
            #[inline(always)]
            unsafe fn update(at: *mut $t, mut f: impl FnMut($t) -> $t) -> $t {
                // SAFETY: the caller guarantees what from_ptr requires.
                let cell = unsafe { <$a>::from_ptr(at) };
                let mut old = cell.load(Ordering::SeqCst);
                loop {
                    match cell.compare_exchange_weak(old, f(old), Ordering::SeqCst, Ordering::SeqCst) {
                        Ok(before) => return before,
                        Err(now) => old = now,
                    }
                }
            }
        }
    )* };
}
atomic!(u8, AtomicU8; u16, AtomicU16; u32, AtomicU32; u64, AtomicU64);

impl Atomic for u128 {
    unsafe fn update(at: *mut u128, mut f: impl FnMut(u128) -> u128) -> u128 {
        static ONE_AT_A_TIME: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
        if std::arch::is_x86_feature_detected!("cmpxchg16b") {
            let mut old = 0;
            loop {
                // SAFETY: the processor has the instruction; mapped, writable
                // and aligned by the caller's promise.
                let seen = unsafe { compare_exchange_16(at, old, f(old)) };
                if seen == old {
                    return old;
                }
                old = seen;
            }
        }
        let _one = ONE_AT_A_TIME.lock();
        // SAFETY: the caller's promise. Without the instruction, 16-byte
        // atomics are atomic against each other only.
        unsafe {
            let old = at.read();
            at.write(f(old));
            old
        }
    }
}

/// `lock cmpxchg16b`; gives the value before. In assembly because the
/// compiler calls a library that is not linked unless the whole program is
/// compiled for the feature.
///
/// # Safety
/// `at` is mapped, writable, 16-byte aligned; the processor has the instruction.
unsafe fn compare_exchange_16(at: *mut u128, old: u128, new: u128) -> u128 {
    let (mut low, mut high) = (old as u64, (old >> 64) as u64);
    // SAFETY: accesses 16 bytes at `at`, which the caller vouches for; rbx,
    // which the compiler reserves, is saved in rsi and restored.
    unsafe {
        std::arch::asm!(
            "xchg rsi, rbx",
            "lock cmpxchg16b [rdi]",
            "mov rbx, rsi",
            inout("rax") low,
            inout("rdx") high,
            in("rcx") (new >> 64) as u64,
            inout("rsi") new as u64 => _,
            in("rdi") at,
            options(nostack)
        );
    }
    u128::from(low) | u128::from(high) << 64
}
