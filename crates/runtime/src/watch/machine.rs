//! The guard's life, as the host decides it. Plain data under one lock; calls
//! of the driver are made outside of it, between [`Machine::begin_slice`] and
//! [`Machine::slice_launched`].
//!
//! ```text
//!                begin_slice                slice_launched
//!   Off, Paused ────────────▶ Restarting ─────────────────▶ Running
//!      ▲  ▲                       │  │ it failed               │ │
//!      │  │                       │  └──────▶ GivenUp          │ │ pause, or
//!      │  │  the guard ends       │ pause                      │ │ another context
//!      │  └────────── Pausing ◀───┴────────────────────────────┘ │
//!      │                                                         │
//!      └──────────────── Paused (by itself: its time is over) ◀──┘
//! ```
//!
//! * **Off**: no slice was launched yet.
//! * **Restarting**: a thread launches a slice, whose number is given out. A
//!   pause in this state stops that number, so the slice ends as soon as it
//!   begins.
//! * **Running**: the slice was launched and not notified to stop. It may still
//!   wait for room on the device.
//! * **Pausing**: it was notified to stop, or launched when it was stopped already,
//!   and has not said that it ended. Whatever waits for the device may be
//!   called: it waits for one round of the guard.
//! * **Paused**: no slice is on the device. It stays so while a call pauses it;
//!   then the next launch of the program, or kernels that are still running,
//!   restart the guard.
//! * **GivenUp**: the guard cannot run: for the rest of the process, or, where a
//!   kernel of the program failed, until that context is gone or the program
//!   launches in another.
//!
//! What holds at any time: slice numbers only grow, and so does what is
//! stopped; at most one slice is not stopped; while a call pauses it, every
//! slice is.

/// Where the guard is; see the module's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Off,
    Restarting,
    Running,
    Pausing,
    Paused,
    GivenUp,
}

/// See the module's header. `ended` is the guard's own word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// The last slice whose number was given out.
    launched: u64,
    /// Slices up to this number were notified to end.
    stopped: u64,
    /// A thread is launching slice `launched`.
    launching: bool,
    /// How many calls need the guard off the device.
    pausers: u32,
    /// The context of slice `launched`.
    context: u64,
    given_up: bool,
    /// Everything fails in this context, and no slice is there any more.
    failed: Option<u64>,
}

impl Machine {
    pub fn state(&self, ended: u64) -> State {
        if self.given_up || self.failed.is_some() {
            State::GivenUp
        } else if self.launching {
            State::Restarting
        } else if self.launched == 0 {
            State::Off
        } else if ended >= self.launched {
            State::Paused
        } else if self.stopped >= self.launched {
            State::Pausing
        } else {
            State::Running
        }
    }

    /// The context that the guard runs in, or ran in last.
    pub fn context(&self) -> u64 {
        self.context
    }

    /// The last slice whose number was given out.
    pub fn launched(&self) -> u64 {
        self.launched
    }

    /// Whether a call needs the guard off the device.
    pub fn is_held(&self) -> bool {
        self.pausers > 0
    }

    /// A call is about to wait for the whole device. Returns what is stopped
    /// from now on.
    pub fn pause(&mut self) -> u64 {
        self.pausers += 1;
        self.stop()
    }

    /// Ends what runs, without holding it back from restarting.
    pub fn stop(&mut self) -> u64 {
        self.stopped = self.launched;
        self.stopped
    }

    /// As often as [`Machine::pause`]. Returns whether no call pauses any more.
    pub fn resume(&mut self) -> bool {
        self.pausers = self.pausers.saturating_sub(1);
        self.pausers == 0
    }

    /// Gives out the number of a slice to launch in a context, if one is due.
    pub fn begin_slice(&mut self, context: u64, ended: u64) -> Option<u64> {
        let due = match self.state(ended) {
            State::Off | State::Paused => true,
            // In one stream the next slice begins when the one before has
            // ended; in another context it could run beside it.
            State::Pausing => context == self.context,
            State::Running | State::Restarting | State::GivenUp => false,
        };
        if !due || self.pausers > 0 {
            return None;
        }
        self.launched += 1;
        self.context = context;
        self.launching = true;
        Some(self.launched)
    }

    /// The driver has taken the slice.
    pub fn slice_launched(&mut self) {
        self.launching = false;
    }

    /// The guard cannot run any more.
    pub fn give_up(&mut self) {
        self.launching = false;
        self.given_up = true;
    }

    /// A kernel of the program failed, and the guard cannot run in this context.
    pub fn context_failed(&mut self, context: u64) {
        self.launching = false;
        self.failed = Some(context);
    }

    /// The program launches in a context: one that failed before is as good as
    /// gone. As [`Machine::context_gone`].
    pub fn leaves_failed(&mut self, context: u64) -> bool {
        match self.failed {
            Some(failed) if failed != context => self.context_gone(failed),
            _ => false,
        }
    }

    /// The context is gone, and the guard with it. Whether the newest slice was
    /// in it, which then never says that it ended.
    pub fn context_gone(&mut self, context: u64) -> bool {
        if self.failed == Some(context) {
            self.failed = None;
        }
        let ours = self.launched != 0 && self.context == context && !self.launching;
        if ours {
            self.stopped = self.launched;
        }
        ours
    }
}

#[cfg(test)]
mod tests {
    use super::{Machine, State};

    #[test]
    fn a_life() {
        let mut machine = Machine::default();
        assert_eq!(machine.state(0), State::Off);
        assert_eq!(machine.begin_slice(7, 0), Some(1));
        assert_eq!(machine.state(0), State::Restarting);
        assert_eq!(machine.begin_slice(7, 0), None, "one at a time");
        machine.slice_launched();
        assert_eq!(machine.state(0), State::Running);
        assert_eq!(machine.begin_slice(7, 0), None);
        assert_eq!(machine.pause(), 1);
        assert_eq!(machine.state(0), State::Pausing);
        assert_eq!(machine.begin_slice(7, 0), None, "a call pauses it");
        assert_eq!(machine.state(1), State::Paused);
        assert!(machine.resume());
        assert_eq!(machine.begin_slice(7, 1), Some(2));
        machine.slice_launched();
        assert_eq!(machine.state(2), State::Paused, "its time was over");
        assert_eq!(machine.begin_slice(7, 2), Some(3));
        machine.give_up();
        assert_eq!(machine.state(2), State::GivenUp);
        assert_eq!(machine.begin_slice(7, 3), None);
    }

    #[test]
    fn a_context_that_failed_keeps_it_out_until_it_is_gone_or_left() {
        let mut machine = Machine::default();
        assert_eq!(machine.begin_slice(7, 0), Some(1));
        machine.context_failed(7);
        assert_eq!(machine.state(0), State::GivenUp);
        assert_eq!(machine.begin_slice(7, 0), None);
        assert!(!machine.leaves_failed(7));
        assert!(machine.context_gone(7));
        // The thread that was notified reports that it ended.
        assert_eq!(machine.begin_slice(7, 1), Some(2));
        machine.slice_launched();
        machine.context_failed(7);
        assert!(machine.leaves_failed(8));
        assert_eq!(machine.begin_slice(8, 2), Some(3));
        machine.give_up();
        assert!(!machine.leaves_failed(9));
        assert_eq!(machine.state(3), State::GivenUp);
    }

    #[test]
    fn a_pause_while_a_slice_is_being_launched_stops_that_slice() {
        let mut machine = Machine::default();
        assert_eq!(machine.begin_slice(7, 0), Some(1));
        assert_eq!(machine.pause(), 1);
        machine.slice_launched();
        assert_eq!(machine.state(0), State::Pausing);
        assert_eq!(machine.pause(), 1);
        assert!(!machine.resume());
        assert!(machine.is_held());
        assert!(machine.resume());
    }

    #[test]
    fn in_another_context_it_starts_only_when_it_has_ended() {
        let mut machine = Machine::default();
        assert_eq!(machine.begin_slice(7, 0), Some(1));
        machine.slice_launched();
        machine.stop();
        assert_eq!(machine.begin_slice(8, 0), None);
        assert_eq!(machine.begin_slice(7, 0), Some(2));
        machine.slice_launched();
        machine.stop();
        assert_eq!(machine.begin_slice(8, 2), Some(3));
        assert_eq!(machine.context(), 8);
    }
}
