//! The child's half: it gives away what it does not need, for ever, and then reads its question.
//!
//! Left are reading and writing what is open already, memory, and the end. A socket, a process or an executable page is the end by SIGSYS,
//! whatever made it ask; a file is refused, because regex asks one for the number of processors, and does without.

use std::collections::BTreeMap;
use std::io::{self, Read as _};

use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// Bytes of a question.
const LONGEST_QUESTION: u64 = 16 << 20;
/// Bytes of memory of its own: three times what the rules and a mebibyte of files take, and less than the unit has, so that the kernel
/// ends the child and not the unit.
const MEMORY: u64 = 128 << 20;
/// Processor time in seconds; past the second one nothing can be ignored.
const PROCESSOR: (u64, u64) = (20, 22);

/// System calls that are made after the rights are gone.
const CALLS: [libc::c_long; 20] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_openat,
    libc::SYS_exit,
    libc::SYS_exit_group,
];
/// System calls for memory, left for pages that nothing is executed from.
const PAGES: [libc::c_long; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

/// Gives up everything but one question and one answer. For a process with one thread, before it reads anything.
///
/// # Errors
/// The kernel refuses: nothing may be read then.
pub fn confine() -> io::Result<()> {
    for (of, soft, hard) in [
        (Resource::RLIMIT_DATA, MEMORY, MEMORY),
        (Resource::RLIMIT_CPU, PROCESSOR.0, PROCESSOR.1),
        (Resource::RLIMIT_FSIZE, 0, 0),
        (Resource::RLIMIT_CORE, 0, 0),
    ] {
        setrlimit(of, soft, hard)?;
    }
    for filter in filters().map_err(io::Error::other)? {
        apply_filter(&filter).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Two filters, of whose answers the kernel takes the severest: the first refuses files, the second ends what is not left.
fn filters() -> Result<[BpfProgram; 2], seccompiler::Error> {
    let here = std::env::consts::ARCH.try_into()?;
    let files = [(libc::SYS_openat, Vec::new())].into();
    let refused = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let files = SeccompFilter::new(files, SeccompAction::Allow, refused, here)?;
    let others = SeccompFilter::new(left()?, SeccompAction::KillProcess, SeccompAction::Allow, here)?;
    Ok([files.try_into()?, others.try_into()?])
}

/// The system calls that are left, with what their arguments must be.
fn left() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    let executable = u64::try_from(libc::PROT_EXEC).unwrap_or_default();
    for call in PAGES {
        // The third argument is what the pages may be used for.
        let unused =
            SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(executable), 0)?;
        rules.insert(call, vec![SeccompRule::new(vec![unused])?]);
    }
    // An abort is a signal to itself; a debug build looks whether what it closes is open.
    let own = u64::from(std::process::id());
    let look = u64::try_from(libc::F_GETFD).unwrap_or_default();
    for (call, argument, value) in [(libc::SYS_tgkill, 0, own), (libc::SYS_fcntl, 1, look)] {
        let only = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
        rules.insert(call, vec![SeccompRule::new(vec![only])?]);
    }
    Ok(rules)
}

/// The question on the standard input.
///
/// # Errors
/// It cannot be read, or is too long.
pub fn question() -> io::Result<Vec<u8>> {
    let mut question = Vec::new();
    io::stdin().lock().take(LONGEST_QUESTION + 1).read_to_end(&mut question)?;
    if question.len() as u64 > LONGEST_QUESTION {
        return Err(io::Error::other("the question is too long"));
    }
    Ok(question)
}
