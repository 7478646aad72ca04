//! Resources that a process and its children have used, from /proc: processor time, and the most memory at once.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// `sysconf(_SC_CLK_TCK)`: 100 wherever Linux shows times to programs.
const TICKS: f64 = 100.0;

/// Processor seconds, user and system, of a process, its children, and those of them that have ended and were waited for.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    Ok(family(pid)?.values().map(|stat| stat.ticks).sum::<u64>() as f64 / TICKS)
}

/// A process, its children, and theirs.
pub(super) fn with_children(pid: u32) -> Result<Vec<u32>> {
    Ok(family(pid)?.into_keys().collect())
}

fn family(pid: u32) -> Result<BTreeMap<u32, Stat>> {
    let mut all = processes()?;
    let own = all.remove(&pid).with_context(|| format!("process {pid} has ended"))?;
    let (mut family, mut parents) = (BTreeMap::from([(pid, own)]), vec![pid]);
    while let Some(parent) = parents.pop() {
        let children: Vec<u32> =
            all.iter().filter(|(_, stat)| stat.parent == parent).map(|(child, _)| *child).collect();
        family.extend(children.iter().filter_map(|child| Some((*child, all.remove(child)?))));
        parents.extend(children);
    }
    Ok(family)
}

/// Processor seconds of a process by itself; `None` where it has ended. Reads one file: for what is asked often.
pub(crate) fn own_cpu_seconds(pid: u32) -> Option<f64> {
    let stat = parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    Some(stat.ticks as f64 / TICKS)
}

/// Most resident memory at once, in MiB; of a process with children the sum of each one's own peak.
pub(crate) fn peak_mib(pid: u32) -> Result<f64> {
    let kib = high_water(pid).with_context(|| format!("process {pid} has ended"))?;
    let children = with_children(pid)?.into_iter().filter(|child| *child != pid);
    Ok((kib + children.filter_map(high_water).sum::<f64>()) / 1024.0)
}

/// Most resident memory of a process by itself, in KiB; `None` where it has ended.
pub(crate) fn high_water(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    kib?.trim().parse().ok()
}

/// The load averages of the last minute.
pub(super) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Seconds that all processors were busy with anything, or taken away by the host, since the start of the machine.
pub(super) fn busy_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    busy(&text)
}

fn busy(text: &str) -> f64 {
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("cpu ")) else { return 0.0 };
    // user nice system idle iowait irq softirq steal; guests are in user already.
    let counted = line.split_whitespace().take(8).enumerate().filter(|(at, _)| !matches!(at, 3 | 4));
    counted.filter_map(|(_, word)| word.parse::<u64>().ok()).sum::<u64>() as f64 / TICKS
}

/// The machine's processors, whichever of them this process may use.
pub(super) fn processors() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let processors = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
    processors.max(1) as f64
}

/// Processors and memory, in words.
pub(crate) fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: Option<f64> = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
    format!(
        "{:.0} × {}, {:.0} GiB",
        processors(),
        model.map_or("an unknown processor", |(_, name)| name.trim()),
        kib.unwrap_or(0.0) / 1024.0 / 1024.0
    )
}

struct Stat {
    parent: u32,
    ticks: u64,
}

fn processes() -> Result<BTreeMap<u32, Stat>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process that has just ended is not there.
        if let Some(stat) =
            std::fs::read_to_string(entry.path().join("stat")).ok().and_then(|text| parse(&text))
        {
            found.insert(pid, stat);
        }
    }
    Ok(found)
}

/// proc(5): after the name in parentheses come state, parent, and as the 12th to 15th of these the four times.
fn parse(stat: &str) -> Option<Stat> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let times = fields.get(11..15)?.iter().map(|word| word.parse::<u64>());
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        ticks: times.collect::<Result<Vec<_>, _>>().ok()?.iter().sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_times_are_summed_whatever_the_name() {
        let stat = parse("7 (a) b c) S 3 7 7 0 -1 4194304 9 0 0 0 10 20 30 40 20 0 1 0 5 6 7").unwrap();
        assert_eq!((stat.parent, stat.ticks), (3, 100));
    }

    #[test]
    fn idle_time_is_not_busy() {
        assert_eq!(busy("cpu  100 0 50 9999 9999 0 25 25 0 0\ncpu0 1 1\n"), 2.0);
    }

    #[test]
    fn this_process_has_used_memory() {
        let own = std::process::id();
        assert!(peak_mib(own).unwrap() > 0.5);
        assert!(cpu_seconds(own).unwrap() >= 0.0);
    }
}
