//! Memory of the daemons, from /proc, and whether it grows: a straight line through the later part of every life
//! that was long enough. A process that has just started grows into its buffers; that is no leak.

use std::time::Duration;

use serde::Serialize;

/// Shorter lives tell nothing about growth.
const LONG_ENOUGH: Duration = Duration::from_secs(300);
/// Most growth, in MiB in ten minutes.
pub(super) const MOST: f64 = 1.0;

/// One daemon process.
#[derive(Debug, Clone)]
pub(super) struct Life {
    name: String,
    pid: u32,
    /// When the process started, in the kernel's ticks: another one may get its pid.
    started: Option<u64>,
    began: Duration,
    /// Seconds since the soak began, and resident KiB.
    samples: Vec<(f64, f64)>,
}

/// Growth over a long life.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Growth {
    /// The daemon.
    pub(super) daemon: String,
    /// Length of the life in seconds.
    pub(super) seconds: f64,
    /// Resident at the end of its warm-up, and at its end, in MiB.
    pub(super) resident_mib: (f64, f64),
    /// Slope of the line through all samples after the warm-up.
    pub(super) mib_in_10_min: f64,
}

impl Life {
    pub(super) fn of(name: String, pid: u32, began: Duration) -> Self {
        Self { name, pid, started: started(pid), began, samples: Vec::new() }
    }

    /// Takes one more sample, where the process still lives.
    pub(super) fn sample(&mut self, at: Duration) {
        if started(self.pid) == self.started
            && let Some(kib) = resident_kib(self.pid)
        {
            self.samples.push((at.as_secs_f64(), kib));
        }
    }

    /// Growth after a warm-up of a third of the life; `None` where it was too short.
    pub(super) fn growth(&self) -> Option<Growth> {
        let (last, _) = self.samples.last()?;
        let began = self.began.as_secs_f64();
        let seconds = last - began;
        if seconds < LONG_ENOUGH.as_secs_f64() {
            return None;
        }
        let warm: Vec<(f64, f64)> =
            self.samples.iter().copied().filter(|(at, _)| *at >= began + seconds / 3.0).collect();
        let (first, last) = (warm.first()?.1 / 1024.0, warm.last()?.1 / 1024.0);
        Some(Growth {
            daemon: self.name.clone(),
            seconds,
            resident_mib: (first, last),
            mib_in_10_min: slope(&warm)? * 600.0 / 1024.0,
        })
    }
}

/// Least squares.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let together: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (points.len() >= 10 && spread > 0.0).then(|| together / spread)
}

/// `starttime` of proc(5); `None` where the process is gone.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have spaces; the time is the twentieth field after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// `VmRSS` of proc(5); `None` where the process is gone.
fn resident_kib(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ours = status.lines().any(|line| line.starts_with("Name:") && line.contains("maple-router"));
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    if ours { kib?.trim().parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(seconds: u32, kib: impl Fn(f64) -> f64) -> Life {
        let samples = (0..seconds).map(|at| (f64::from(at) + 100.0, kib(f64::from(at)))).collect();
        Life { name: "a.1".to_owned(), pid: 1, started: None, began: Duration::from_secs(100), samples }
    }

    #[test]
    fn a_process_that_got_the_pid_of_another_is_not_sampled() {
        let mut life = Life::of("a.1".to_owned(), std::process::id(), Duration::ZERO);
        assert!(life.started.is_some());
        life.started = life.started.map(|ticks| ticks + 1);
        life.sample(Duration::from_secs(1));
        assert!(life.samples.is_empty());
    }

    #[test]
    fn growth_is_measured_after_the_warm_up() {
        let warming = life(900, |at| if at < 200.0 { at * 100.0 } else { 20_000.0 });
        assert!(warming.growth().unwrap().mib_in_10_min.abs() < 0.01);
        let leaking = life(900, |at| 20_000.0 + at * 10.0);
        let growth = leaking.growth().unwrap();
        assert!((growth.mib_in_10_min - 6000.0 / 1024.0).abs() < 0.01, "{growth:?}");
        assert_eq!(life(200, |_| 1.0).growth(), None, "too short to tell");
    }
}
