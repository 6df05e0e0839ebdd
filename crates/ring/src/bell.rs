//! How a side that sleeps is woken, without a system call where none sleeps.
//!
//! A bell is one shared word, on which one side sleeps and which the other side
//! rings. It is [`ASLEEP`] from when a side announces that it will sleep, until
//! either side clears it.
//!
//! ```text
//! sleeps:                         rings:
//!   bell = ASLEEP                   publish a position
//!   full fence                      full fence
//!   look at the position            look at the bell; if it is ASLEEP:
//!   if nothing is there:              bell = AWAKE
//!     sleep while bell is ASLEEP      wake who sleeps on it
//!   bell = AWAKE
//! ```
//!
//! No wake-up is lost. Of the two fences one is first. If it is the sleeper's,
//! the ringer sees ASLEEP and wakes; if it is the ringer's, the sleeper sees
//! the position and does not sleep. Between announcing and sleeping the bell
//! may be cleared; the kernel compares the word under its own lock and then
//! does not sleep. Every clear by the ringer is followed by a wake, so one that
//! is late, from an earlier announcement, wakes the sleeper without cause, and
//! never leaves it asleep. `model.rs` runs this file and `frames.rs` in every
//! order that loom finds, and shows that each fence is needed.
//!
//! A hostile peer can write the word, and can wake or not wake as it likes. It
//! decides only when its own messages are seen: whoever sleeps does so for a
//! limited time (`wait.rs`).

/// No one sleeps.
pub const AWAKE: u32 = 0;
/// One side sleeps, or is about to.
pub const ASLEEP: u32 = 1;

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slept {
    /// Woken, interrupted by a signal, or the word was no longer [`ASLEEP`].
    Woken,
    /// The time was over.
    TimedOut,
    /// The kernel refused, with this error number.
    Failed(i32),
}

/// The word, and what the kernel does with it.
pub trait Bell {
    /// How long to sleep at most.
    type Time;
    /// A relaxed load.
    fn load(&self) -> u32;
    /// A relaxed store.
    fn store(&self, value: u32);
    /// A sequentially consistent fence.
    fn fence(&self);
    /// Sleeps while the word is [`ASLEEP`], until woken.
    fn sleep(&self, time: Self::Time) -> Slept;
    /// Wakes who sleeps.
    fn wake(&self);
}

/// Wakes the other side, if it sleeps. To be called after a position was
/// published.
pub fn ring(bell: &impl Bell) {
    bell.fence();
    if bell.load() == ASLEEP {
        bell.store(AWAKE);
        bell.wake();
    }
}

/// Sleeps, unless `ready` says that there is a reason not to, and asks `ready`
/// again after sleeping. `Ok(Ok(answer))` is a reason, `Ok(Err(slept))` says
/// how the sleep ended without one.
///
/// # Errors
///
/// Those of `ready`.
pub fn sleep<B: Bell, T, E>(
    bell: &B,
    time: B::Time,
    mut ready: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Result<T, Slept>, E> {
    bell.store(ASLEEP);
    bell.fence();
    let before = ready();
    if !matches!(before, Ok(None)) {
        bell.store(AWAKE);
        return before.map(|answer| answer.ok_or(Slept::Woken));
    }
    let slept = bell.sleep(time);
    bell.store(AWAKE);
    Ok(ready()?.ok_or(slept))
}
