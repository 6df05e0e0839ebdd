//! Who is there, and what each has done, for the administrator.

use crate::log;
use crate::quota::Quota;
use parking_lot::Mutex;
use protocol::{Credentials, TenantRow, Totals};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Lines that a tenant may cause by what it is refused.
const LINES: u64 = 16;

/// A tenant, as its session describes it.
pub(crate) struct Tenant {
    number: u64,
    name: String,
    peer: Credentials,
    since: Instant,
    memory_limit: u64,
    weight: u32,
    /// Bytes of memory that it has.
    pub(crate) memory: AtomicU64,
    /// Kernels that it has loaded.
    pub(crate) kernels: AtomicU64,
    /// Kernels that it has launched.
    pub(crate) launches: AtomicU64,
    faults: AtomicU64,
    refusals: AtomicU64,
}

impl Tenant {
    /// One line about it.
    pub(crate) fn log(&self, text: &str) {
        let what: [(&str, Value); 4] = [
            ("tenant", self.number.into()),
            ("pid", self.peer.pid.into()),
            ("uid", self.peer.uid.into()),
            ("program", self.name.as_str().into()),
        ];
        log::about(text, &what);
    }

    /// Its name and who it is, for a line.
    pub(crate) fn title(&self) -> String {
        format!("tenant {} `{}` ({})", self.number, self.name, self.peer)
    }

    /// Its kernels failed, or were ended; why.
    pub(crate) fn fault(&self, why: &str) {
        let before = self.faults.fetch_add(1, Ordering::Relaxed);
        if before < LINES {
            self.log(&format!("{}: {why}", self.title()));
        }
    }

    /// It was refused something because of a quota, or by the verifier; why. What
    /// follows the first line of that is for its own program.
    pub(crate) fn refusal(&self, why: &str) {
        let before = self.refusals.fetch_add(1, Ordering::Relaxed);
        let first = why.lines().take(2).collect::<Vec<_>>().join(" ");
        let rest = match before + 1 {
            LINES => "; what else it is refused is counted only",
            _ => "",
        };
        if before < LINES {
            let why = log::clean(&first);
            self.log(&format!("{} is refused: {why}{rest}", self.title()));
        }
    }

    fn row(&self) -> TenantRow {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        TenantRow {
            tenant: self.number,
            pid: self.peer.pid,
            uid: self.peer.uid,
            program: self.name.clone(),
            memory: read(&self.memory),
            memory_limit: self.memory_limit,
            weight: self.weight.into(),
            kernels: read(&self.kernels),
            launches: read(&self.launches),
            faults: read(&self.faults),
            refusals: read(&self.refusals),
            age_seconds: self.since.elapsed().as_secs(),
        }
    }
}

/// All tenants.
pub(crate) struct Tenants {
    since: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    live: BTreeMap<u64, Arc<Tenant>>,
    /// Without those that are there.
    totals: Totals,
}

impl Default for Tenants {
    fn default() -> Tenants {
        Tenants {
            since: Instant::now(),
            state: Mutex::default(),
        }
    }
}

impl Tenants {
    /// One that is admitted; `None` if its user has as many as it may have.
    pub(crate) fn admit(
        &self,
        name: String,
        peer: Credentials,
        quota: &Quota,
        memory_limit: u64,
    ) -> Option<Arc<Tenant>> {
        let mut state = self.state.lock();
        let live = state.live.values();
        let of_user = live.filter(|tenant| tenant.peer.uid == peer.uid).count();
        if of_user >= quota.tenants {
            return None;
        }
        state.next += 1;
        state.totals.admitted += 1;
        let tenant = Arc::new(Tenant {
            number: state.next,
            name,
            peer,
            since: Instant::now(),
            memory_limit,
            weight: quota.weight,
            memory: AtomicU64::new(0),
            kernels: AtomicU64::new(0),
            launches: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        });
        state.live.insert(tenant.number, Arc::clone(&tenant));
        Some(tenant)
    }

    /// One that was admitted, but for which there is no room.
    pub(crate) fn withdraw(&self, tenant: &Tenant) {
        let mut state = self.state.lock();
        if state.live.remove(&tenant.number).is_some() {
            state.totals.admitted -= 1;
        }
    }

    /// One that was not admitted.
    pub(crate) fn turn_away(&self) {
        self.state.lock().totals.not_admitted += 1;
    }

    /// One that is gone.
    pub(crate) fn leave(&self, tenant: &Tenant) {
        let mut state = self.state.lock();
        if state.live.remove(&tenant.number).is_some() {
            add(&mut state.totals, &tenant.row());
        }
    }

    /// How many are there whose processes have not ended. (If the process number of one that
    /// has ended was given to another process, it still counts.)
    pub(crate) fn live(&self) -> usize {
        let state = self.state.lock();
        let runs = |tenant: &&Arc<Tenant>| {
            let process = tenant.peer.pid.map(|pid| format!("/proc/{pid}"));
            process.is_none_or(|process| Path::new(&process).exists())
        };
        state.live.values().filter(runs).count()
    }

    /// Seconds since the manager was started, the sums, and those that are there.
    pub(crate) fn overview(&self) -> (u64, Totals, Vec<TenantRow>) {
        let state = self.state.lock();
        let mut totals = state.totals;
        let rows: Vec<TenantRow> = state.live.values().map(|tenant| tenant.row()).collect();
        for row in &rows {
            add(&mut totals, row);
        }
        (self.since.elapsed().as_secs(), totals, rows)
    }
}

fn add(totals: &mut Totals, row: &TenantRow) {
    totals.launches += row.launches;
    totals.faults += row.faults;
    totals.refusals += row.refusals;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_hold_those_that_are_gone() {
        let tenants = Tenants::default();
        let peer = |uid| Credentials {
            pid: Some(7),
            uid,
            gid: 0,
        };
        let quota = Quota {
            tenants: 1,
            ..Quota::default()
        };
        let admit = |name: &str, uid| tenants.admit(name.into(), peer(uid), &quota, 100);
        let first = admit("first", 1).unwrap();
        let second = admit("second", 2).unwrap();
        assert!(admit("third", 1).is_none(), "its user has one");
        first.launches.store(3, Ordering::Relaxed);
        second.launches.store(4, Ordering::Relaxed);
        for _ in 0..40 {
            first.refusal("too much");
        }
        second.fault("a trap");
        tenants.leave(&first);
        tenants.leave(&first);
        let no_room = admit("third", 1).unwrap();
        tenants.withdraw(&no_room);
        tenants.turn_away();
        let (_, totals, rows) = tenants.overview();
        let expected = Totals {
            admitted: 2,
            not_admitted: 1,
            launches: 7,
            faults: 1,
            refusals: 40,
            ..Totals::default()
        };
        assert_eq!(totals, expected);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].tenant, &*rows[0].program), (2, "second"));
    }
}
