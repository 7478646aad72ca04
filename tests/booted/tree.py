"""The Debian tree that is booted: made once by debootstrap, from the package source that this machine uses itself.

It is the release of this machine, because what is built here must run there. It lies under target/, is never changed
afterwards (every run writes into a layer of its own), and is made anew when the list of packages changes. If we die in the
middle, the half-made tree is thrown away by the next run.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

# systemd-sysv makes it bootable; what every Debian server has, and the smallest tree has not; what the package depends on;
# postfix is what the unit stands beside, and brings the group `postdrop`.
PACKAGES = ["systemd", "systemd-sysv", "dbus", "procps", "iproute2", "adduser", "ca-certificates", "tzdata", "postfix"]


def of(cache: Path) -> Path:
    """The tree, made if it is not there."""
    release, mirror = release_and_mirror()
    key = hashlib.sha256(" ".join([release, *PACKAGES]).encode()).hexdigest()[:8]
    tree = cache / f"{release}-{key}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second run waits until the first has made it
        if not tree.exists():
            for old in cache.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            print(f"making a {release} tree with debootstrap (once; some minutes)", flush=True)
            half, log = cache / "half-made", cache / "debootstrap.log"
            command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", release, half, mirror]
            with open(log, "w") as out:
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            if done.returncode:
                tail = "\n".join(log.read_text().splitlines()[-10:])
                sys.exit(f"debootstrap failed; {log} ends:\n{tail}")
            half.rename(tree)
    return tree


def release_and_mirror() -> tuple[str, str]:
    """From apt: the release this machine is of, and where it gets its packages."""
    os_release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    release = os_release.get("VERSION_CODENAME", "").strip('"')
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main",
               f"Codename: {release}"]
    known = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    places = [line for line in known.stdout.splitlines() if line]
    if not places:
        sys.exit(f"apt knows no source of {release or 'this release'}/main packages: is /etc/apt/sources.list in order?")
    return release, places[0]
