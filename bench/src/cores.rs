//! On which cores of the machine processes run.

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;

/// A core, by the system's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core(usize);

/// The cores that this process may use.
///
/// # Errors
///
/// The system does not say.
pub fn usable() -> Result<Vec<Core>> {
    let set = sched_getaffinity(None).context("which cores may be used")?;
    let all = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    Ok(all.map(Core).collect())
}

/// Moves all threads of all processes of a group to one core; what they start stays
/// there, too.
///
/// # Errors
///
/// The system does not let them.
pub fn stay(group: Pid, core: Core) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core.0);
    for process in numbers("/proc")? {
        if group_of(process) != Some(group) {
            continue;
        }
        let threads = format!("/proc/{}/task", process.as_raw_nonzero());
        for thread in numbers(&threads).unwrap_or_default() {
            match sched_setaffinity(Some(thread), &set) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("moving a thread to core {}", core.0));
                }
            }
        }
    }
    Ok(())
}

/// The group of a process; `None` if it has ended meanwhile, and for threads of the
/// kernel, which are in none.
fn group_of(process: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    // (proc_pid_stat(5)) The name, which may hold anything, ends at the last bracket;
    // state, parent and group follow.
    let (_, fields) = stat.rsplit_once(')')?;
    Pid::from_raw(fields.split_whitespace().nth(2)?.parse().ok()?)
}

/// The names in a folder that are numbers of processes or threads.
fn numbers(folder: &str) -> Result<Vec<Pid>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {folder}"))?;
    let number = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        Pid::from_raw(name.to_str()?.parse().ok()?)
    };
    Ok(entries.filter_map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn all_of_a_group_stay_on_a_core() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let group = Pid::from_child(&child);
        let members = || -> Vec<Pid> {
            let all = numbers("/proc").unwrap().into_iter();
            all.filter(|one| group_of(*one) == Some(group)).collect()
        };
        while members().len() < 2 {
            std::thread::yield_now();
        }
        let core = *usable().unwrap().last().unwrap();
        stay(group, core).unwrap();
        for member in members() {
            let set = sched_getaffinity(Some(member)).unwrap();
            assert!(set.is_set(core.0) && set.count() == 1);
        }
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
    }
}
