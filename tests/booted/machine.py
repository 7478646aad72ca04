"""A booted container: systemd-nspawn on a throwaway layer over the tree, with a network that has nothing but loopback.

The caller stands in mount and PID namespaces of its own (see __main__.py): however it ends, no mount and no process is
left, so that nothing here clears up. What is written, is written to memory.
"""

import collections
import json
import os
import shlex
import subprocess
import time
from pathlib import Path

# Ours alone: __main__.py has mounted a fresh one.
SCRATCH = Path("/dev/shm")
# Of a boot, and of anything else that should take a moment.
PATIENCE = 120


class NotShown(Exception):
    """Something that was to be shown is not so."""


def until(what, look, seconds=PATIENCE):
    """Waits until `look()` is true, and gives what it said."""
    end = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > end:
            raise NotShown(f"not within {seconds} s: {what}")
        time.sleep(0.1)


class Machine:
    def __init__(self, tree: Path, name: str):
        for layer in ("upper", "work", "root", "tmp"):
            (SCRATCH / layer).mkdir()
        self.root = SCRATCH / "root"
        layers = f"lowerdir={tree},upperdir={SCRATCH}/upper,workdir={SCRATCH}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, self.root], check=True)
        # What systemd-nspawn notes down there is of interest to nobody else.
        notes = Path("/run/systemd/nspawn")
        notes.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", notes], check=True)
        # A container needs the cgroup it was started in for itself; where systemd rules this machine, it gives one.
        keep = [] if Path("/run/systemd/system").exists() else ["--keep-unit"]
        command = ["systemd-nspawn", "--quiet", "--register=no", *keep, f"--machine={name}", "--private-network",
                   "--console=pipe", f"--directory={self.root}", "--boot"]
        self.console = SCRATCH / "console"
        with open(self.console, "w") as out:
            self.nspawn = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.leader = None
        try:
            self.leader = int(until("systemd-nspawn starts init", self._leader))
            until("systemd is up", lambda: self.run("systemctl is-system-running", check=False).stdout.strip()
                  in ("running", "degraded"))
        except NotShown as error:
            jobs = self.run("systemctl list-jobs --no-pager", check=False).stdout if self.leader else ""
            raise NotShown(f"{error}\n{self.console.read_text()}{jobs}") from None

    def _leader(self):
        if self.nspawn.poll() is not None:
            raise NotShown(f"systemd-nspawn ended with {self.nspawn.returncode}")
        # On the way there it has other children for a moment.
        for child in Path(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children").read_text().split():
            try:
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return child
            except OSError:
                pass  # gone already
        return None

    def _inside(self, command, namespaces=("--all",)):
        words = ["sh", "-c", command] if isinstance(command, str) else [str(word) for word in command]
        clean = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "TERM=dumb"]
        return ["nsenter", f"--target={self.leader}", *namespaces, "--", *clean, *words]

    def run(self, command, check=True, stdin=None) -> subprocess.CompletedProcess:
        """Runs a command (a shell line, or words) in the container, as root."""
        shown = command if isinstance(command, str) else shlex.join(map(str, command))
        given = {"input": stdin} if stdin else {"stdin": subprocess.DEVNULL}
        try:
            done = subprocess.run(self._inside(command), capture_output=True, text=True, timeout=PATIENCE, **given)
        except subprocess.TimeoutExpired:
            raise NotShown(f"`{shown}` has not ended after {PATIENCE} s") from None
        if check and done.returncode:
            raise NotShown(f"`{shown}` ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done

    def start(self, command) -> subprocess.Popen:
        """The same, without waiting for its end."""
        return subprocess.Popen(self._inside(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def in_network(self, words) -> list[str]:
        """The words of a command that runs on this machine's files, but in the container's network."""
        return ["nsenter", f"--target={self.leader}", "--net", "--", *map(str, words)]

    def write(self, path: str, text: str, mode=0o644):
        """Writes a file as root of the container would."""
        self.run(["install", "-D", f"--mode={mode:o}", "/dev/stdin", path], stdin=text)

    def unit(self, name="maple-router.service") -> dict[str, str]:
        """What `systemctl show` says."""
        shown = self.run(["systemctl", "show", name]).stdout
        pairs = (line.split("=", 1) for line in shown.splitlines() if "=" in line)
        return collections.defaultdict(str, pairs)

    def journal(self, *arguments, since="") -> list[dict]:
        """Entries of the journal, oldest first; those after a place in it that `World.now` returned.

        Not by --after-cursor: where the entry at that place does not match the other arguments, journalctl up to 254 leaves
        out the first one that does (systemd issue 30288).
        """
        begin = [f"--cursor={since}"] if since else []
        out = self.run(["journalctl", "--no-pager", "--output=json", "--all", *begin, *arguments]).stdout
        entries = map(json.loads, out.splitlines())
        return [entry for entry in entries if entry["__CURSOR"] != since]

    def get(self, url: str) -> str:
        """What a loopback address of the container answers."""
        ask = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode())"
        # No proxy is asked for what is on loopback.
        clean = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        return subprocess.run(self.in_network(["python3", "-c", ask, url]), env=clean, check=True,
                              capture_output=True, text=True).stdout

