//! Cost of two million lines that are not about our mails (`make bench-relay-log`). Measured and printed, never asserted.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use maple_router::gateway::relay_log::file::FileLog;
use maple_router::gateway::relay_log::journal::JournalLog;
use maple_router::ports::RelayLog;

const LINES: u32 = 2_000_000;
const MAIL: [(&str, &str); 7] = [
    ("smtpd", "connect from mail-N.example.net[192.0.2.7]"),
    ("smtpd", "ID: client=mail-N.example.net[192.0.2.7]"),
    ("cleanup", "ID: message-id=<N.some.thing@mail.example.net>"),
    ("qmgr", "ID: from=<somebody@example.net>, size=4711, nrcpt=1 (queue active)"),
    (
        "smtpd",
        "disconnect from mail-N.example.net[192.0.2.7] ehlo=2 starttls=1 mail=1 rcpt=1 data=1 quit=1 commands=7",
    ),
    (
        "smtp",
        "ID: to=<other@example.org>, relay=mx.example.org[192.0.2.9]:25, delay=1.2, delays=0.1/0.01/0.5/0.6, dsn=2.0.0, \
         status=sent (250 2.0.0 Ok: queued as 4jXLPQ3m1dz1SZ4l)",
    ),
    ("qmgr", "ID: removed"),
];

/// The n-th line and its program.
fn mail(n: u32) -> (&'static str, String) {
    let (program, said) = MAIL[(n % 7) as usize];
    let of = n / 7;
    (program, said.replace("ID", &format!("4jX{of:09}")).replace('N', &of.to_string()).replace('O', "0"))
}

/// Ours, with the processes we have waited for: seconds of processor in user and system, as `times(2)` counts them.
fn spent() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("/proc");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    fields[11..15].iter().map(|ticks| ticks.parse::<f64>().expect("ticks") / 100.0).sum()
}

/// The most memory we ever had, in MiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).expect("kB").parse::<u64>().expect("a number") / 1024
}

/// Reads `log` to its end and prints what that cost.
#[expect(clippy::print_stdout, reason = "it is asked for by hand, for what it prints")]
async fn measure(what: &str, log: &mut dyn RelayLog) {
    let (before, mut understood, mut most) = (spent(), 0, 0);
    loop {
        let batch = log.read(Duration::ZERO).await.expect("a batch");
        understood += batch.lines.len();
        most = most.max(batch.lines.len());
        if batch.caught_up {
            break;
        }
    }
    let spent = spent() - before;
    println!("| {what} | {spent:.2} | {understood} | {most} | {} |", peak());
}

fn write_file(path: &Path, line: impl Fn(u32) -> String) {
    let mut file = BufWriter::new(File::options().append(true).open(path).expect("a log"));
    (0..LINES).for_each(|n| file.write_all(line(n).as_bytes()).expect("written"));
    file.flush().expect("written");
}

/// Writes a journal with everything that journald adds to a line.
fn write_journal(dir: &Path, unit: &str, lines: u32) {
    let mut remote = Command::new("/lib/systemd/systemd-journal-remote")
        .arg("-o")
        .arg(dir.join(format!("{unit}.journal")))
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("systemd-journal-remote");
    let mut export = BufWriter::new(remote.stdin.take().expect("its input"));
    for n in 0..lines {
        let (program, said) = mail(n);
        let (realtime, monotonic) = (1_795_332_343_000_000 + u64::from(n) * 100, 1_000 + u64::from(n) * 100);
        write!(
            export,
            "__REALTIME_TIMESTAMP={realtime}\n__MONOTONIC_TIMESTAMP={monotonic}\n_BOOT_ID={:032x}\nPRIORITY=6\n\
             SYSLOG_FACILITY=2\nSYSLOG_IDENTIFIER=postfix/{program}\nSYSLOG_PID=77\nSYSLOG_TIMESTAMP=Nov 22 07:02:21 \n\
             MESSAGE={said}\n_PID=77\n_UID=102\n_GID=107\n_COMM={program}\n_EXE=/usr/lib/postfix/sbin/{program}\n\
             _CMDLINE={program} -t unix -u\n_CAP_EFFECTIVE=0\n_SYSTEMD_CGROUP=/system.slice/{unit}\n_SYSTEMD_UNIT={unit}\n\
             _SYSTEMD_SLICE=system-postfix.slice\n_SYSTEMD_INVOCATION_ID={:032x}\n_TRANSPORT=syslog\n\
             _SOURCE_REALTIME_TIMESTAMP={realtime}\n_MACHINE_ID={:032x}\n_HOSTNAME=host\n\n",
            7, 8, 9
        )
        .expect("written");
    }
    drop(export);
    assert!(remote.wait().expect("its end").success());
}

#[tokio::test]
#[ignore = "measures; make bench-relay-log"]
async fn two_million_foreign_lines() {
    println!(
        "| two million lines of | CPU s | understood | most at once | peak MiB |\n| --- | ---: | ---: | ---: | ---: |"
    );
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mail.log");
    File::create(&path).expect("a log");
    let mut log = FileLog::new(&path, "postfix", "");
    log.read(Duration::ZERO).await.expect("the end");
    write_file(&path, |n| {
        format!(
            "Nov 22 07:02:21 host systemd[1]: Started session-{n}.scope - Session {n} of User somebody, who is a stranger.\n"
        )
    });
    measure("other programs, in a file", &mut log).await;
    write_file(&path, |n| {
        let (program, said) = mail(n);
        format!("Nov 22 07:02:21 host postfix/{program}[77]: {said}\n")
    });
    measure("Postfix about others' mails, in a file", &mut log).await;
    drop(log);
    fs::remove_file(&path).expect("removed");

    let journals = dir.path().join("journals");
    fs::create_dir(&journals).expect("a directory");
    write_journal(&journals, "postfix@-.service", 1);
    let follow = |position: &str| JournalLog::new("postfix@-.service", "postfix", Some(&journals), position);
    let mut log = follow("");
    let batch = log.read(Duration::ZERO).await.expect("the end");
    write_journal(&journals, "other.service", LINES);
    measure("other programs, in the journal", &mut log).await;
    let mut log = follow(&batch.position);
    write_journal(&journals, "postfix@-.service", LINES);
    measure("Postfix about others' mails, in the journal", &mut log).await;
}
