//! What processes of the manager give up before the first byte of a tenant's comes.
//! There is no way back, and children inherit it.
//!
//! * **What compiles** keeps the calls by which it computes, and one socket.
//! * **What owns the CPU device**, and so executes kernels of tenants, keeps these, and
//!   calls for threads, memory and sockets that are there. It starts no program, makes
//!   no connection, maps no code (kernels are interpreted), and of files it has those
//!   of the manager's cache and slices (Landlock).
//!
//! What owns a GPU keeps all: its driver takes calls that no list of them names for
//! sure, and kernels run elsewhere.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::io::{Error, Result};
use std::os::fd::RawFd;
use std::path::Path;

/// System calls that computing takes.
const COMPUTING: [i64; 22] = [
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettid,
    libc::SYS_rseq,
];

/// Those that move bytes through descriptors.
const TRANSFERS: [i64; 6] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
];

/// Further ones of the process that owns the CPU device: about threads, about memory
/// that it shares with tenants, and about sockets that it has or that come to it.
const OF_DEVICE: [i64; 30] = [
    libc::SYS_set_robust_list,
    // Refused before by a filter of its own, which says why.
    libc::SYS_clone3,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_accept4,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    // Whether the process of a tenant is still there.
    libc::SYS_pidfd_open,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_sysinfo,
    // Of the sockets of slices.
    libc::SYS_bind,
    libc::SYS_listen,
];

/// Those about files. Landlock decides which files.
const FILES: [i64; 27] = [
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    // Of the socket of a slice that has an owner.
    libc::SYS_chown,
    libc::SYS_fchownat,
    libc::SYS_fchown,
    libc::SYS_utimensat,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Built<T> = std::result::Result<T, BackendError>;

/// That the low half of an argument compares so with a value.
fn when(argument: u8, operation: SeccompCmpOp, value: i32) -> Built<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value as u64)
}

/// That a mapping is no code.
fn is_data() -> Built<SeccompCondition> {
    when(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)
}

fn rule(conditions: impl IntoIterator<Item = SeccompCondition>) -> Built<SeccompRule> {
    SeccompRule::new(conditions.into_iter().collect())
}

fn without_conditions(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// For computing. An abort sends this process a signal, which says why it ended.
fn computing() -> Built<Rules> {
    let mut rules = without_conditions(&COMPUTING);
    let own = rustix::process::getpid().as_raw_pid();
    let is_own = when(0, SeccompCmpOp::Eq, own)?;
    rules.insert(libc::SYS_tgkill, vec![rule([is_own])?]);
    Ok(rules)
}

/// Allows these calls, and lets others fail: a C library tries some that it can do
/// without.
fn only(rules: Rules) -> Built<BpfProgram> {
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    filter(rules, refused, SeccompAction::Allow)
}

fn filter(rules: Rules, others: SeccompAction, matched: SeccompAction) -> Built<BpfProgram> {
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, others, matched, architecture)?.try_into()
}

fn apply(filter: Built<BpfProgram>) -> Result<()> {
    let filter = filter.map_err(Error::other)?;
    seccompiler::apply_filter_all_threads(&filter).map_err(Error::other)
}

/// Gives up every call but those for computing, transfers but through this socket and
/// the standard streams, and mappings of code and of files.
///
/// # Errors
///
/// The system has no such filters.
pub(crate) fn compiler(socket: RawFd) -> Result<()> {
    apply(for_compiler(socket))
}

fn for_compiler(socket: RawFd) -> Built<BpfProgram> {
    let mut rules = computing()?;
    let anonymous = libc::MAP_ANONYMOUS;
    let is_memory = when(3, SeccompCmpOp::MaskedEq(anonymous as u64), anonymous)?;
    rules.insert(libc::SYS_mmap, vec![rule([is_data()?, is_memory])?]);
    rules.insert(libc::SYS_mprotect, vec![rule([is_data()?])?]);
    for call in TRANSFERS {
        let to_socket = when(0, SeccompCmpOp::Eq, socket)?;
        let to_stream = when(0, SeccompCmpOp::Le, 2)?;
        rules.insert(call, vec![rule([to_socket])?, rule([to_stream])?]);
    }
    only(rules)
}

/// Gives up, in all threads, what executing kernels and serving tenants does not take.
///
/// # Errors
///
/// The system has no such filters.
pub(crate) fn device() -> Result<()> {
    // A C library takes `clone` where there is no `clone3`, whose flags a filter cannot
    // read.
    let later = without_conditions(&[libc::SYS_clone3]);
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    apply(filter(later, SeccompAction::Allow, missing))?;
    apply(for_device())
}

fn for_device() -> Built<BpfProgram> {
    let mut rules = computing()?;
    rules.extend(without_conditions(&TRANSFERS));
    rules.extend(without_conditions(&OF_DEVICE));
    rules.extend(without_conditions(&FILES));
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![rule([is_data()?])?]);
    }
    let thread = libc::CLONE_THREAD;
    let is_thread = when(0, SeccompCmpOp::MaskedEq(thread as u64), thread)?;
    rules.insert(libc::SYS_clone, vec![rule([is_thread])?]);
    // For the sockets of slices.
    let is_local = when(0, SeccompCmpOp::Eq, libc::AF_UNIX)?;
    rules.insert(libc::SYS_socket, vec![rule([is_local])?]);
    let is_name = when(0, SeccompCmpOp::Eq, libc::PR_SET_NAME)?;
    rules.insert(libc::SYS_prctl, vec![rule([is_name])?]);
    only(rules)
}

/// The rights that this code knows of (Linux 6.12).
const KNOWN: ABI = ABI::V6;

/// What the device and the C library read.
const READ: [&str; 5] = [
    "/proc/self",
    "/proc/meminfo",
    "/proc/sys/vm",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu",
];

/// Gives up, in this thread and those that it starts, all files but those below these
/// folders, which must be there. Whether the system can restrict files (Linux 5.13).
/// What only later ones restrict, and signals, the filters of calls refuse, too.
///
/// # Errors
///
/// The system's.
pub(crate) fn files(folders: &[&Path]) -> std::result::Result<bool, RulesetError> {
    let owned = AccessFs::from_read(KNOWN) & !AccessFs::Execute
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::RemoveDir
        | AccessFs::RemoveFile
        | AccessFs::MakeDir
        | AccessFs::MakeReg
        | AccessFs::MakeSock
        | AccessFs::Refer;
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(folders, owned))?
        .add_rules(path_beneath_rules(READ, read))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::Command;

    /// The environment variable that names the folder of the confined process.
    const FOLDER: &str = "RINGFENCE_TEST_CONFINED_IN";
    /// How that process ends if all was as it should be.
    const WELL: i32 = 42;

    /// Runs itself again, in a process that is confined.
    #[test]
    fn what_executes_kernels_has_its_threads_and_folders_alone() {
        let Some(folder) = std::env::var_os(FOLDER) else {
            let folder = tempfile::tempdir().unwrap();
            let name = "confine::tests::what_executes_kernels_has_its_threads_and_folders_alone";
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(FOLDER, folder.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(WELL), "{said}");
            return;
        };
        let (folder, outside) = (
            Path::new(&folder).join("in"),
            Path::new(&folder).join("out"),
        );
        fs::create_dir(&folder).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("a"), "secret").unwrap();
        let listener = UnixListener::bind(outside.join("socket")).unwrap();
        let (mut one, mut two) = UnixStream::pair().unwrap();
        let restricts_files = files(&[&folder]).unwrap();
        device().unwrap();

        // What it has.
        let computed = std::thread::spawn(|| 6 * 7).join().unwrap();
        assert_eq!(computed, 42);
        one.write_all(b"a").unwrap();
        two.read_exact(&mut [0]).unwrap();
        fs::write(folder.join("new"), "b").unwrap();
        fs::rename(folder.join("new"), folder.join("old")).unwrap();
        assert_eq!(fs::read(folder.join("old")).unwrap(), b"b");
        fs::remove_file(folder.join("old")).unwrap();
        fs::create_dir(folder.join("deep")).unwrap();
        UnixListener::bind(folder.join("deep/socket")).unwrap();
        fs::remove_dir_all(folder.join("deep")).unwrap();
        assert!(fs::read_to_string("/proc/self/maps").is_ok());
        assert!(fs::read_to_string("/proc/meminfo").is_ok());

        // What it has not.
        let refused = |error: Error, what: &str| {
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{what}");
        };
        refused(
            Command::new("/bin/true").spawn().map(drop).unwrap_err(),
            "a program",
        );
        let at = outside.join("socket");
        refused(
            UnixStream::connect(at).map(drop).unwrap_err(),
            "a connection",
        );
        let port = TcpStream::connect("127.0.0.1:9");
        refused(port.map(drop).unwrap_err(), "a network");
        let parent = rustix::process::getppid().unwrap();
        let signal = rustix::process::test_kill_process(parent);
        refused(signal.unwrap_err().into(), "a signal");
        let link = std::os::unix::fs::symlink("/", folder.join("link"));
        refused(link.unwrap_err(), "a link");
        if restricts_files {
            let closed = |found: Result<Vec<u8>>, what: &str| {
                assert_eq!(
                    found.unwrap_err().raw_os_error(),
                    Some(libc::EACCES),
                    "{what}"
                );
            };
            closed(fs::read(outside.join("a")), "a file");
            closed(fs::read("/etc/passwd"), "the system's");
            let of_parent = format!("/proc/{}/environ", parent.as_raw_pid());
            closed(fs::read(of_parent), "another process's");
            let written = fs::write(outside.join("b"), "c");
            closed(written.map(|()| Vec::new()), "a new file");
            let listed = fs::read_dir(&outside);
            closed(listed.map(|_| Vec::new()), "a folder");
        }
        drop(listener);
        std::process::exit(WELL);
    }
}
