"""What the service's sandbox refuses, tried from inside it: a unit like the real one in everything but what it runs.

Every refusal is tried outside as well, as the same user: where it is the sandbox that refuses, it must be possible there, or
the trial would show nothing. Two kinds are refused outside as well; they are marked.
"""

import platform

from machine import NotShown
from world import STATE, UNIT

PROBE = "maple-router-probe.service"
SCRIPT = "/usr/local/lib/maple-router-probe"
MMAP = {"x86_64": 9, "aarch64": 222}.get(platform.machine())


def socket(family, kind, protocol=0):
    return f"perl -MSocket -e 'socket(my $s, {family}, {kind}, {protocol}) or die'"


OURS, ROOTS = "the sandbox's refusal", "refused to every user, too"
# What is tried, how, and whose refusal it is.
REFUSED = [
    ("write into a directory that is open to everybody", "touch /srv/open/probe", OURS),
    ("see the /tmp of others", "test -e /tmp/of-others", OURS),
    ("see what is in /home", "test -e /home/ann/letter", OURS),
    ("see processes of others", "test -e /proc/1", OURS),
    ("read the kernel's settings", "cat /proc/sys/kernel/ostype", OURS),
    ("see shared memory of others", "ipcs --shmems | grep 0x", OURS),
    ("gain rights by a setuid program", "test $(/srv/open/setuid-id -u) = 0", OURS),
    ("make a setuid program", f"cd {STATE} && touch suid && chmod u+s suid", OURS),
    ("run on as another personality", "setarch --addr-no-randomize true", OURS),
    ("speak netlink", socket(16, "SOCK_RAW"), OURS),
    ("make a user namespace", "unshare --user true", OURS),
    ("open a raw socket", socket("PF_INET", "SOCK_RAW", 1), ROOTS),
    ("open a packet socket", socket(17, "SOCK_RAW"), ROOTS),
    ("mount", "mount -t tmpfs none /mnt", ROOTS),
    ("become a realtime process", "chrt --fifo 1 true", ROOTS),
    ("write to /etc, /usr or /boot", "touch /etc/probe || touch /usr/probe || touch /boot/probe", ROOTS),
    ("change its own configuration", "echo >>/etc/maple-router/config.toml", ROOTS),
    ("read the credentials as root keeps them", "cat /etc/maple-router/credentials/*", ROOTS),
    ("see the collector's credentials", "ls /etc/maple-router/collector", ROOTS),
    ("see the screener's credentials", "ls /etc/maple-router/screener", ROOTS),
    ("see the grader's credentials", "ls /etc/maple-router/grader", ROOTS),
    ("make a device", f"mknod {STATE}/null c 1 3", ROOTS),
    ("rename the host", "hostname other", ROOTS),
    ("end Postfix", "kill $(cat /var/spool/postfix/pid/master.pid)", ROOTS),
]
if MMAP:
    writable_code = f"perl -e 'exit(syscall({MMAP}, 0, 4096, 7, 0x22, -1, 0) == -1)'"
    REFUSED.append(("make memory that is written and run", writable_code, OURS))
NEEDED = [
    ("write its state", f"touch {STATE}/probe && rm {STATE}/probe"),
    ("read its configuration", "cat /etc/maple-router/config.toml"),
    ("read its credentials", 'cat "$CREDENTIALS_DIRECTORY"/*slack-webhook'),
    ("read Postfix's journal", "journalctl --quiet --lines=1 --unit='postfix@-.service' | grep postfix"),
    # Not by postqueue, which looks at the network's interfaces first, and that takes netlink.
    ("ask Postfix for its queue", "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(\"/var/spool/postfix/public/showq\") or die'"),
    ("resolve a name", "getent hosts localhost"),
    ("reach the relay", "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"127.0.0.1:25\") or die'"),
]
# Of the unit, what makes it a daemon.
DAEMON = ("Type", "NotifyAccess", "ExecStartPre", "ExecStart", "ExecReload", "WatchdogSec", "Restart", "RestartSec")


def holds(world):
    machine = world.machine
    running = machine.run(["cat", f"/proc/{world.pid()}/status"]).stdout
    rights = dict(line.split(":\t", 1) for line in running.splitlines() if ":\t" in line)
    for what in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        world.need(int(rights[what], 16) == 0, f"the running process has capabilities: {what} {rights[what]}")
    world.need(rights["NoNewPrivs"] == "1" and rights["Seccomp"] == "2", f"NoNewPrivs or seccomp is missing: {rights}")
    world.shown("the running daemon has no capability, can gain none, and its system calls are filtered")

    machine.run("""
        mkdir -p /home/ann /srv/open && touch /home/ann/letter /tmp/of-others && chmod 1777 /srv/open
        install -m 4755 /usr/bin/id /srv/open/setuid-id
        setpriv --reuid=nobody --clear-groups ipcmk --shmem 64 >/dev/null""")
    trials = [(what, how) for what, how, _ in REFUSED] + NEEDED
    lines = [f"try {number} {quoted(how)}" for number, (_, how) in enumerate(trials)]
    machine.write(SCRIPT, 'try() { if why=$(sh -c "$2" 2>&1 >/dev/null); then echo "$1 did"; else echo "$1 could not:" $why; fi; }\n'
                  + "\n".join(lines) + "\n", mode=0o755)
    shipped = machine.run(["systemctl", "cat", UNIT]).stdout.splitlines()
    kept = [line for line in shipped if line.split("=")[0] not in DAEMON]
    kept += ["[Service]", "Type=oneshot", f"ExecStart=/bin/sh {SCRIPT}", "StandardOutput=journal"]
    machine.write(f"/run/systemd/system/{PROBE}", "\n".join(kept) + "\n")
    machine.run("systemctl daemon-reload")
    machine.run(["systemctl", "start", PROBE])
    entries = machine.journal(f"--unit={PROBE}", "SYSLOG_IDENTIFIER=sh")
    inside = did(entry["MESSAGE"] for entry in entries)
    user = "setpriv --reuid=maple-router --regid=maple-router --init-groups --inh-caps=-all"
    outside = did(machine.run(f"{user} sh {SCRIPT}", check=False).stdout.splitlines())
    machine.run(f"rm -rf /srv/open /home/ann /tmp/of-others {SCRIPT} /run/systemd/system/{PROBE} {STATE}/suid")
    machine.run("systemctl daemon-reload; ipcrm --all=shm")

    world.need(len(inside) == len(trials), f"{len(inside)} of {len(trials)} trials were made in the sandbox: {entries}")
    wrong = []
    for number, (what, how, whose) in enumerate(REFUSED):
        if inside[number]:
            wrong.append(f"the service can {what} ({how})")
        if whose is OURS and not outside[number]:
            wrong.append(f"the trial shows nothing, because its user cannot do it outside either: {what} ({how})")
    for number, (what, how) in enumerate(NEEDED, len(REFUSED)):
        if not inside[number]:
            why = next(entry["MESSAGE"] for entry in entries if entry["MESSAGE"].startswith(f"{number} "))
            wrong.append(f"the service cannot {what} ({how}): {why}")
    if wrong:
        raise NotShown("; ".join(wrong))
    for whose in (OURS, ROOTS):
        world.shown(f"it cannot ({whose}): " + "; ".join(what for what, _, of in REFUSED if of is whose))
    world.shown("it can: " + "; ".join(what for what, _ in NEEDED))


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def did(lines) -> dict[int, bool]:
    results = (line.split(" ", 1) for line in lines)
    return {int(number): said == "did" for number, said in results if number.isdigit()}
