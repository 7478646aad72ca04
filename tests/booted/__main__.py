"""`make test-systemd`: the package on a Debian that systemd has booted, with devkit's parts around it, as a story.

Everything happens in mount and PID namespaces of its own, on a layer in memory, and in a cgroup of its own; however it ends
(done, failed, Ctrl-C, killed), processes and mounts end with it. Two runs know nothing of each other. It needs root.

Each line shows one fact. The first that cannot be shown ends the story, with the end of the container's journal.
"""

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKSPACE = HERE.parent.parent
CACHE = WORKSPACE / "target" / "booted"
# The whole story, without making the tree.
LIMIT = 600


def main():
    arguments = argparse.ArgumentParser(prog="tests/booted", description=__doc__.splitlines()[0])
    arguments.add_argument("--deb", type=Path, required=True, help="the package, as `make deb` builds it")
    arguments.add_argument("--parts", type=Path, required=True, help="devkit's program `parts`")
    arguments.add_argument("--only", nargs="*", default=[], metavar="CHAPTER", help="these chapters, and those they need")
    arguments.add_argument("--name", help=argparse.SUPPRESS)  # inside: the name of this run
    given = arguments.parse_args()
    for file in (given.deb, given.parts):
        if not file.is_file():
            sys.exit(f"{file} is missing: `make test-systemd` builds it")
    if os.geteuid() != 0:
        sys.exit("only root can boot a container: run it as root")
    if given.name:
        sys.exit(inside(given))
    sys.exit(outside())


def outside() -> int:
    """Makes the tree and a cgroup, goes inside, and clears up whatever happens there."""
    import tree

    tree.of(CACHE)
    name = f"maple-booted-{os.getpid()}"
    groups = cgroups(name)
    # If we are killed, the kernel ends the first process inside, and with it all others and their mounts.
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
               sys.executable, "-B", HERE, *sys.argv[1:], f"--name={name}"]

    def enter():
        for group in groups:
            (group / "cgroup.procs").write_text("0")

    signals = []
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, lambda number, frame: signals.append(number))
    run = subprocess.Popen(list(map(str, command)), preexec_fn=enter)
    asked = 0
    while run.poll() is None:
        if signals:
            # A terminal's Ctrl-C has reached those inside as well, and they may clear up; anything else ends them.
            asked = asked or time.monotonic()
            if signals[0] != signal.SIGINT or time.monotonic() - asked > 30:
                run.kill()
        time.sleep(0.05)
    for group in groups:
        remove(group)
    return 128 + signals[0] if signals else run.returncode


def cgroups(name) -> list[Path]:
    """A group for this run, in systemd's own hierarchy and in the unified one, below where we are."""
    made = []
    mounts = [line.split(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "name=systemd"):
            continue
        for left, right in mounts:
            kind, _, options = right.split(" ", 2)
            unified = controllers == "" and kind == "cgroup2"
            if unified or (kind == "cgroup" and controllers and controllers in options.split(",")):
                group = Path(left.split(" ")[4] + path) / name
                for old in group.parent.glob("maple-booted-*"):  # of a run that was killed
                    if not Path(f"/proc/{old.name.rsplit('-', 1)[1]}").exists():
                        remove(old)
                try:
                    group.mkdir()
                except OSError as error:
                    sys.exit(f"no cgroup can be made ({error}): a container needs one (in Docker: --privileged)")
                made.append(group)
                break
    return made


def remove(group):
    """Groups go from the leaves up, as soon as the last process has gone."""
    for _ in range(100):
        try:
            for path, _, _ in os.walk(group, topdown=False):
                os.rmdir(path)
            return
        except OSError:
            time.sleep(0.1)
    print(f"{group} is still in use and stays", file=sys.stderr)


def inside(given) -> int:
    """The story, in namespaces of its own."""
    import story
    import tree
    from machine import Machine, NotShown, SCRATCH
    from parts import Parts

    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", SCRATCH], check=True)
    os.environ["TMPDIR"] = str(SCRATCH)
    began = time.monotonic()

    def shown(line):
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)

    def too_long(number, frame):
        raise NotShown(f"not within {LIMIT} s")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT)
    machine = None
    try:
        machine = Machine(tree.of(CACHE), given.name)
        shown(f"a container is up: {machine.run('systemctl --version').stdout.split(chr(10))[0]}, {platform.machine()}")
        parts = Parts(machine, given.parts.resolve())
        story.tell(story.World(machine, parts, given.deb.resolve(), shown), given.only)
        shown("all of it was seen")
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except NotShown as failure:
        print(f"NOT SHOWN: {failure}", file=sys.stderr, flush=True)
        if machine:
            tail = machine.run("journalctl --no-pager --lines=60 --output=short-precise --unit='maple-router*'", check=False).stdout
            print(f"The container's journal ends:\n{tail}", file=sys.stderr, flush=True)
        return 1


main()
