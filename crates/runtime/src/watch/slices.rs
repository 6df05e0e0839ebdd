//! Slices: the guard's kernel is launched for a while, again and again.

use super::machine::State;
use super::words::Words;
use super::{LAST_ROUND, Shared, Watch};
use crate::moment::moment_over;
use ::model::layout::guard::{GUARD_CONTROL, GUARD_CONTROL_SIZE, GuardParameters, TABLE_SLOTS};
use ::model::{DeviceAddress, DeviceKind};
use driver::{DriverError, SupportKernel, SupportLaunch, SupportStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The guard's text.
const GUARD: &str = include_str!("../device/guard.ptx");
/// Its kernel.
const KERNEL: &str = "__ringfence_guard";
/// Threads of the guard: one warp.
const WARP: u32 = 32;
/// Nanoseconds that the guard sleeps after a round on a GPU: a tenth of a
/// percent of overhead without any (measured on an H200), and a hundredth of a
/// millisecond until a write is found.
const PAUSE_GPU: u64 = 4_000;
/// The same on the CPU device, whose cores are the program's, too.
const PAUSE_CPU: u64 = 100_000;
/// Waiting for the guard spins for so many looks; then it sleeps in between.
const SPINS: u32 = 2_000;
/// How long it sleeps.
const NAP: Duration = Duration::from_micros(50);

impl Watch {
    /// Launches a slice in a context, if one is due.
    pub(super) fn start(&self, context: u64) {
        if !self.is_needed() {
            return;
        }
        let state = {
            let mut shared = self.state.lock();
            if shared.machine.leaves_failed(context) {
                self.has_ended(shared.machine.launched());
            }
            let state = shared.machine.state(self.ended());
            if state == State::Running && shared.machine.context() != context {
                let slice = shared.machine.stop();
                self.stop(slice);
                State::Pausing
            } else {
                state
            }
        };
        match state {
            State::Running | State::Restarting | State::GivenUp => return,
            State::Pausing => self.wait_if_elsewhere(context),
            State::Off | State::Paused => {}
        }
        let kernel = match self.kernel(context) {
            Ok(Some(kernel)) => kernel,
            Ok(None) => return,
            Err(error) => return self.give_up(context, &error),
        };
        let Some(slice) = self.begin_slice(context) else {
            return;
        };
        let parameters = self.parameters(slice, context).bytes();
        let launch = SupportLaunch {
            blocks: 1,
            threads: WARP,
            parameters: &parameters,
            stream: SupportStream::Guard,
            waits_itself: false,
        };
        let driver = self.env.driver();
        let launched = driver.with_context(context, &mut || driver.launch_support(kernel, &launch));
        match launched {
            Ok(()) => {
                self.state.lock().machine.slice_launched();
                self.supervisor.wake(&self.me);
            }
            Err(error) => self.give_up(context, &error),
        }
    }

    fn begin_slice(&self, context: u64) -> Option<u64> {
        let ended = self.ended();
        let mut shared = self.state.lock();
        let slice = shared.machine.begin_slice(context, ended)?;
        // It begins later than now.
        shared.lasts = Some(Instant::now() + self.slice);
        // What has ended by now, this slice sees. The note is made with its number: a
        // pause that came first would have kept it from being launched.
        shared.launched &= !shared.outstanding.is_empty();
        Some(slice)
    }

    fn parameters(&self, slice: u64, context: u64) -> GuardParameters {
        let pause = match self.env.driver().kind() {
            DeviceKind::Gpu => PAUSE_GPU,
            DeviceKind::Cpu | DeviceKind::Tenant => PAUSE_CPU,
        };
        let nanoseconds = u64::try_from(self.slice.as_nanos()).unwrap_or(u64::MAX);
        GuardParameters {
            slice,
            context,
            nanoseconds,
            pause,
        }
    }

    /// A slice that ends in another context could still run beside the next.
    fn wait_if_elsewhere(&self, context: u64) {
        let (elsewhere, slice) = {
            let shared = self.state.lock();
            let machine = &shared.machine;
            (machine.context() != context, machine.launched())
        };
        if elsewhere {
            let deadline = Instant::now() + LAST_ROUND;
            self.wait_until(deadline, || self.ended() >= slice);
        }
    }

    /// The guard's kernel in a context, loaded when it is first asked for.
    /// `None` in a call that the loading itself makes.
    fn kernel(&self, context: u64) -> Result<Option<SupportKernel>, DriverError> {
        let known = self.state.lock().kernels.get(&context).copied();
        if known.is_some() && !self.doubtful.load(Ordering::Acquire) {
            return Ok(known);
        }
        let Some(_turn) = self.setting_up.take() else {
            return Ok(None);
        };
        let driver = self.env.driver();
        let mut kernel = None;
        driver.with_context(context, &mut || {
            // The guard reads the control page, and its findings about the
            // device heap go through the common ring. Where they cannot be
            // mapped, launches say so; another thread may be mapping them.
            if self.metadata.attach().is_err() {
                return Ok(());
            }
            match self.words.get() {
                Some(words) => {
                    if self.doubtful.swap(false, Ordering::AcqRel) {
                        driver.restore_host(*words)?;
                    }
                }
                None => {
                    let words =
                        driver.map_host_fixed(DeviceAddress(GUARD_CONTROL), GUARD_CONTROL_SIZE)?;
                    let words = self.words.get_or_init(|| words);
                    words.store(TABLE_SLOTS, self.slots.load(Ordering::Acquire));
                }
            }
            let module = driver.load_support(GUARD)?;
            kernel = Some(driver.support_kernel(module, KERNEL)?);
            Ok(())
        })?;
        if let Some(kernel) = kernel {
            self.state.lock().kernels.insert(context, kernel);
        }
        Ok(kernel)
    }

    /// The guard cannot run. What a kernel of the program broke the program is
    /// reported by its own calls.
    pub(super) fn give_up(&self, context: u64, error: &DriverError) {
        if error.is_sticky() {
            return self.state.lock().machine.context_failed(context);
        }
        self.state.lock().machine.give_up();
        let message = format!(
            "the guard kernel cannot stay on the device: {error}. Kernels are not watched while they run; canaries \
             are looked at after launches instead"
        );
        self.env.error(&message, false);
        self.off.get_or_init(|| message);
        moment_over();
    }

    /// A slice that is over, or may have begun its last round, has not seen how
    /// the kernels that ran beside it ended: another one is launched, whose only
    /// round may be its last.
    pub(super) fn see_the_end(&self) {
        let is_late = |shared: &Shared| shared.lasts.is_some_and(|until| Instant::now() >= until);
        // It may be over before the driver's call that launches it is.
        let deadline = Instant::now() + LAST_ROUND;
        self.wait_until(deadline, || {
            let shared = self.state.lock();
            shared.machine.state(self.ended()) != State::Restarting || !is_late(&shared)
        });
        let (context, slice) = {
            let mut shared = self.state.lock();
            let is_over = match shared.machine.state(self.ended()) {
                State::Paused => true,
                State::Running => is_late(&shared),
                _ => false,
            };
            if !is_over || !shared.launched || shared.machine.is_held() {
                return;
            }
            (shared.machine.context(), shared.machine.stop())
        };
        self.stop(slice);
        self.start(context);
    }

    /// The guard comes back if kernels are running that it should watch, or the
    /// program has been launching: then it is there before the next kernel, and
    /// does not hold that up.
    pub(super) fn start_for_what_runs(&self) {
        self.drop_idle_streams();
        let context = {
            let shared = self.state.lock();
            let busy = shared.outstanding.context();
            let ahead = shared.launched && shared.machine.launched() != 0;
            busy.or_else(|| ahead.then(|| shared.machine.context()))
        };
        if let Some(context) = context {
            self.start(context);
        }
    }

    /// Whether the guard may be on the device, by the driver's word.
    pub(super) fn is_resident(&self) -> bool {
        let context = {
            let shared = self.state.lock();
            match shared.machine.state(self.ended()) {
                State::Off | State::Paused => return false,
                _ => shared.machine.context(),
            }
        };
        let driver = self.env.driver();
        let mut idle = false;
        let asked = driver.with_context(context, &mut || {
            idle = driver.is_idle(SupportStream::Guard)?;
            Ok(())
        });
        match asked {
            Ok(()) => !idle,
            Err(error) => {
                // Its context has failed, and no kernel runs there any more.
                self.give_up(context, &error);
                false
            }
        }
    }

    /// Looks again and again, shortly at first. Whether it came true in time.
    pub(super) fn wait_until(&self, deadline: Instant, is_true: impl Fn() -> bool) -> bool {
        for spin in 0u32.. {
            if is_true() {
                return true;
            }
            if spin < SPINS {
                std::hint::spin_loop();
            } else if Instant::now() >= deadline {
                return false;
            } else {
                std::thread::sleep(NAP);
            }
        }
        false
    }
}
