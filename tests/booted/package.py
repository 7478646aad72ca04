"""The package comes, is replaced while it works, and goes."""

from machine import until
from world import CONFIG, CREDENTIALS, PATIENT, STATE, UNIT

# What lives and changes by itself, and dpkg's own memory.
ELSEWHERE = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/var/log", "/var/cache", "/var/lib/dpkg", "/var/lib/apt",
             "/var/lib/systemd", "/var/lib/postfix", "/var/spool/postfix", "/root", "/etc/resolv.conf")


def everything(world) -> set[str]:
    """Every path that a package could leave behind, and the accounts."""
    pruned = " -o ".join(f"-path {place}" for place in ELSEWHERE)
    found = world.machine.run(f"find / -xdev \\( {pruned} \\) -prune -o -print").stdout.splitlines()
    accounts = world.machine.run("cat /etc/passwd /etc/group /etc/shadow /etc/gshadow").stdout.splitlines()
    # Where others leave things all the time, what has our name is enough.
    named = "find /etc /usr /var /run -xdev -name '*maple-router*' -not -path '/var/cache/*'"
    return set(found) | set(accounts) | set(world.machine.run(named).stdout.splitlines())


def installs(world):
    machine = world.machine
    world.before = everything(world)
    world.installed(world.deb)
    version = machine.run("maple-router --version").stdout.strip()
    world.shown(f"dpkg installs {world.deb.name}: {version}")
    enabled = machine.run(["systemctl", "is-enabled", UNIT], check=False).stdout.strip()
    world.need(enabled == "enabled", f"{UNIT} is {enabled} after the installation: it would not come up with the host")
    owner = machine.run(f"stat --format='%U %a' {CREDENTIALS}").stdout.strip()
    world.need(owner == "root 700", f"{CREDENTIALS} is {owner}, not root 700")
    groups = machine.run("id --groups --name maple-router").stdout.split()
    world.need({"systemd-journal", "postdrop"} <= set(groups), f"the user maple-router is in {groups}")
    groups = machine.run("id --groups --name maple-router-gc").stdout.split()
    world.need(groups == ["maple-router-gc", "maple-router"], f"the user maple-router-gc is in {groups}")
    groups = machine.run("id --groups --name maple-screener").stdout.split()
    world.need(groups == ["maple-screener", "maple-router"], f"the user maple-screener is in {groups}")
    groups = machine.run("id --groups --name maple-grader").stdout.split()
    world.need(groups == ["maple-grader", "maple-router"], f"the user maple-grader is in {groups}")
    for worker, what in (("screener", "screened"), ("grader", "graded")):
        asked = machine.run(["systemctl", "is-enabled", f"maple-router-{worker}.service"], check=False).stdout.strip()
        world.need(asked == "disabled", f"maple-router-{worker}.service is {asked} after the installation: nobody has said that anything is {what}")
        owner = machine.run(f"stat --format='%U %a' /etc/maple-router/{worker}").stdout.strip()
        world.need(owner == "root 700", f"/etc/maple-router/{worker} is {owner}, not root 700")
    asked = machine.run(["systemctl", "is-enabled", "maple-router-gc.timer"], check=False).stdout.strip()
    world.need(asked == "disabled", f"maple-router-gc.timer is {asked} after the installation: nobody has said that anything may go")
    world.shown("the unit is enabled, the collector's timer, the screener and the grader are not, the users are made with their groups, the directories of credentials are root's alone")
    verified = machine.run("systemd-analyze verify --man=no maple-router.service maple-router-sweep.timer maple-router-gc.timer maple-router-screener.service maple-router-grader.service")
    world.need(not verified.stdout + verified.stderr, f"systemd-analyze verify: {verified.stdout}{verified.stderr}")
    exposure = machine.run(f"systemd-analyze security --no-pager {UNIT} | tail -1", check=False).stdout.strip()
    world.shown(f"systemd-analyze verifies the units; {exposure.lstrip('→ ')}")
    machine.run(["systemctl", "start", UNIT], check=False)
    unit = machine.unit()
    world.need(unit["ExecMainStatus"] == "78", f"with the configuration as shipped it ended with {unit['ExecMainStatus']}")
    text = " ".join(entry["MESSAGE"] for entry in machine.journal(f"--unit={UNIT}", "_COMM=maple-router"))
    world.need("CHANGE-ME" in text, f"the journal does not name what to change: {text}")
    world.shown("as shipped it does not start, and says which CHANGE-ME are to be replaced")
    machine.run(["systemctl", "reset-failed", UNIT])


def upgrades_while_routing(world):
    machine, parts = world.machine, world.parts
    version = installed_version(world)
    # An older version of the same content: what is shown is the way from one to the next.
    machine.run(["systemctl", "stop", UNIT])
    world.installed(world.repacked("0.0.1"))
    world.need(machine.unit()["ActiveState"] == "inactive", "an upgrade has started what the administrator had stopped")
    world.configure(PATIENT)
    machine.run(["systemctl", "start", UNIT])
    configured, pid = machine.run(["cat", CONFIG]).stdout, world.pid()
    parts.ask("hold", at="dot")
    sending = parts.submit()
    parts.ask("caught", seconds=20)
    upgrading = world.install(world.deb)
    until("the old one is asked to stop", lambda: machine.unit()["ActiveState"] == "deactivating")
    meanwhile = [parts.submit() for _ in range(5)]
    world.need(world.pid() == pid, "the old one did not wait for the mail it was sending")
    parts.ask("let_go")
    world.ended(upgrading)
    until("the new one is ready", lambda: machine.unit()["ActiveState"] == "active" and world.pid() != pid)
    now = installed_version(world)
    world.need(now == version, f"the version is {now}")
    for submission in [sending, *meanwhile]:
        seen = world.becomes(submission, "routed")
        world.need(len(seen["mails"]) == 1 and seen["ledger"]["attempts"] == 1, f"{submission} after the upgrade: {seen}")
    world.need(machine.run(["cat", CONFIG]).stdout == configured, "the upgrade has changed the configuration")
    world.shown(f"upgraded from 0.0.1 to {version} while a mail was being sent: that one and five that came meanwhile arrived "
                "once each, one attempt each; the configuration stayed")


def installed_version(world) -> str:
    return world.machine.run("dpkg-query --show --showformat='${Version}' maple-router").stdout


def is_purged(world):
    machine = world.machine
    machine.run("dpkg --remove maple-router")
    kept = machine.run(f"test -e {CONFIG} && test -e {CREDENTIALS}/slack-webhook", check=False).returncode == 0
    world.need(kept, "removing the package took the configuration or the credentials along")
    running = machine.run("pgrep --exact maple-router", check=False).stdout
    world.need(not running, f"still running after the removal: {running}")
    world.shown("removed: the daemon has ended, configuration and credentials are still there")
    machine.run("dpkg --purge maple-router")
    left, lost = everything(world) - world.before, world.before - everything(world)
    world.need(not left and not lost, f"left behind: {sorted(left)}; taken along: {sorted(lost)}")
    units = machine.run("systemctl list-unit-files --no-legend 'maple-router*'; systemctl list-units --all --no-legend "
                        "'maple-router*'", check=False).stdout
    world.need(not units.strip(), f"systemd still knows {units}")
    world.need(machine.run(["test", "-e", STATE], check=False).returncode, f"{STATE} is left")
    world.shown("purged: no file, no user, no state, no unit is left")
