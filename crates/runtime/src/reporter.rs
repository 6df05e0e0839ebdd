//! What was found is counted here, and reported once.

use crate::env::Env;
use crate::findings::{self, Context, Findings, HostError, Key};
use crate::memory::Memory;
use heap::Entry;
use host::Stack;
use model::{AllocationKind, Finding, LeakCheck};
use std::sync::{Arc, OnceLock};

/// What is done before the process is ended.
type LastAct = Box<dyn Fn() + Send + Sync>;

/// See the module's header.
pub(crate) struct Reporter {
    env: Arc<Env>,
    memory: Arc<Memory>,
    findings: Findings,
    before_halt: OnceLock<LastAct>,
}

impl Reporter {
    pub fn new(env: Arc<Env>, memory: Arc<Memory>) -> Reporter {
        Reporter {
            env,
            memory,
            findings: Findings::default(),
            before_halt: OnceLock::new(),
        }
    }

    /// Says what is done before a finding ends the process, once.
    pub fn before_halt(&self, act: impl Fn() + Send + Sync + 'static) {
        self.before_halt.get_or_init(|| Box::new(act));
    }

    /// Counts an error. `Some(id)` if it is the first of its kind.
    pub fn count(&self, key: Key) -> Option<u64> {
        self.findings.count(key)
    }

    /// Number and occurrences of every finding.
    pub fn occurrences(&self) -> Vec<(u64, u64)> {
        self.findings.occurrences()
    }

    /// Reports a finding that was made while the program runs, and ends the
    /// process if the user asks for that. Its kernels end with it.
    pub fn publish(&self, id: u64, finding: &Finding) {
        let output = self.env.output();
        let is_shown = output.finding(id, finding);
        if is_shown && self.env.settings().halt_on_error && output.is_ours() {
            if let Some(act) = self.before_halt.get() {
                act();
            }
            output.line("ringfence: the program is ended because of --halt-on-error\n");
            driver::end_process(self.env.settings().error_exitcode.into());
        }
    }

    /// Reports a finding that is made when nothing runs any more.
    pub fn publish_at_end(&self, id: u64, finding: &Finding) {
        self.env.output().finding(id, finding);
    }

    /// The host is about to make a call that breaks a rule. Call it on the
    /// program's thread: its stack distinguishes one such call from another.
    pub fn host_error(&self, error: HostError) {
        let context = self.memory.look(|registry, _, pending| {
            findings::call_context(error.pointer, error.address, registry, pending)
        });
        self.host_error_in(error, context);
    }

    /// The same, of what is in no registry.
    pub fn host_error_in(&self, error: HostError, context: Context) {
        let stack = self.env.stack();
        if let Some(id) = self.count(error.key(&stack)) {
            self.publish(id, &error.finding(context, &stack, self.env.callers()));
        }
    }

    /// Reports what of these the program should have freed, but for that of
    /// contexts in which it could not.
    pub fn leaks(&self, live: &[Entry<Stack>], could_free: impl Fn(u64) -> bool) {
        if self.env.settings().leak_check == LeakCheck::No {
            return;
        }
        for entry in live.iter().filter(|entry| is_the_programs(entry)) {
            if could_free(entry.owner.context)
                && let Some(id) = self.count(Key::leak(entry))
            {
                self.publish_at_end(id, &findings::leak(entry, self.env.callers()));
            }
        }
    }
}

/// Whether the program made an allocation by a call that asks for memory.
fn is_the_programs(entry: &Entry<Stack>) -> bool {
    use AllocationKind::{Device, Host, Managed, Mapped, Pool};
    let kind = entry.allocation.kind;
    entry.owner.context != 0 && matches!(kind, Device | Managed | Host | Pool | Mapped)
}
