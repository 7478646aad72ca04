//! Which processors a process may use. Children have those of their parent.

use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::meter;

/// Leaves the last processor to somebody else. To be called while this process has one thread: each thread has processors of
/// its own, and children have those of the thread that started them.
///
/// # Errors
/// There is only one processor, or the system refuses.
pub fn leave_the_last() -> Result<()> {
    let (own, last) = without_the_last(sched_getaffinity(Pid::from_raw(0))?)?;
    LAST.set(last).ok().context("the last processor was left before")?;
    Ok(sched_setaffinity(Pid::from_raw(0), &own)?)
}

/// The processor that was left.
static LAST: std::sync::OnceLock<usize> = std::sync::OnceLock::new();

/// Has a process with its children use the processor that was left, and no other.
pub(super) fn give_the_last(pid: u32) -> Result<()> {
    let mut last = CpuSet::new();
    last.set(*LAST.get().context("no processor was left")?)?;
    for pid in meter::with_children(pid)? {
        // A child that has just ended needs none.
        match sched_setaffinity(Pid::from_raw(i32::try_from(pid)?), &last) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
            Err(error) => return Err(error).with_context(|| format!("the processor of {pid}")),
        }
    }
    Ok(())
}

/// The processors but the last one, and that one.
fn without_the_last(mut all: CpuSet) -> Result<(CpuSet, usize)> {
    let used: Vec<usize> = (0..CpuSet::count()).filter(|cpu| all.is_set(*cpu).unwrap_or(false)).collect();
    ensure!(used.len() > 1, "there is one processor: none can be left to the receiver");
    let last = used.last().copied().context("a processor")?;
    all.unset(last)?;
    Ok((all, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_is_left() {
        let mut all = CpuSet::new();
        for cpu in [1, 3] {
            all.set(cpu).unwrap();
        }
        let (own, last) = without_the_last(all).unwrap();
        assert_eq!((last, own.is_set(1), own.is_set(3)), (3, Ok(true), Ok(false)));
        assert!(without_the_last(own).is_err(), "the only one");
    }
}
