"""What the chapters have in common: the machine, the parts, the configuration under test, and how facts are shown."""

import copy
import subprocess
import tomllib
from pathlib import Path

from machine import SCRATCH, NotShown, until

UNIT = "maple-router.service"
CONFIG = "/etc/maple-router/config.toml"
CREDENTIALS = "/etc/maple-router/credentials"
STATE = "/var/lib/maple-router"

# The protocol's timings, small, so that its slow paths are seen too; what must hold between them holds.
SHORT = {
    "database": {"connect_timeout": "2s", "lock_timeout": "1s", "statement_timeout": "2s"},
    "pubsub": {"retry_max": "2s", "ack_deadline": "10s"},
    "smtp": {"connect_timeout": "1s", "command_timeout": "1500ms", "dot_timeout": "10s", "delivery_deadline": "13s",
             "hello_name": "maple.test"},
    "slack": {"group_wait": "2s", "timeout": "2s", "lease": "7s"},
    "routing": {"heartbeat": "2100ms", "fence_after": "8500ms", "stuck_after": "24s", "claim_deadline": "60s",
                "sweep_interval": "2s", "due_grace": "4s", "orphan_after": "20s", "backoff_min": "1s",
                "backoff_max": "5s", "drain_timeout": "30s"},
    "signed_url": {"signer": "key-file"},
    "log": {"level": "info"},
}

# For mails that are caught while something slow goes on.
PATIENT = {
    "smtp": {"dot_timeout": "60s", "delivery_deadline": "70s"},
    "routing": {"stuck_after": "90s", "claim_deadline": "300s", "drain_timeout": "80s"},
}


def laid_over(base: dict, *layers: dict) -> dict:
    """Sections of keys, later ones over earlier ones."""
    whole = copy.deepcopy(base)
    for layer in layers:
        for section, keys in layer.items():
            whole.setdefault(section, {}).update(keys)
    return whole


def toml(sections: dict) -> str:
    """Sections of plain values as TOML."""
    def value(of):
        if isinstance(of, bool):
            return str(of).lower()
        if isinstance(of, str):
            return '"' + of.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if isinstance(of, list):
            return "[" + ", ".join(map(value, of)) + "]"
        return str(of)

    return "\n".join(
        f"[{section}]\n" + "".join(f"{key} = {value(of)}\n" for key, of in keys.items())
        for section, keys in sections.items()
    )


class World:
    def __init__(self, machine, parts, deb: Path, shown):
        self.machine, self.parts, self.deb, self.shown = machine, parts, deb, shown
        self.config = {}

    def need(self, truth, otherwise):
        if not truth:
            raise NotShown(otherwise)

    # The package.

    def install(self, deb: Path):
        """Copies a package into the container and begins to install it, as an administrator without a network would."""
        (self.machine.root / "srv" / deb.name).write_bytes(deb.read_bytes())
        return self.machine.start(["sh", "-c", f"dpkg --install /srv/{deb.name}; said=$?; rm /srv/{deb.name}; exit $said"])

    def ended(self, installing):
        out, _ = installing.communicate(timeout=120)
        self.need(installing.returncode == 0, f"dpkg --install ended with {installing.returncode}: {out}")

    def installed(self, deb: Path):
        self.ended(self.install(deb))

    def repacked(self, version: str) -> Path:
        """The same package as another version."""
        tree, deb = SCRATCH / f"deb-{version}", SCRATCH / f"maple-router_{version}.deb"
        subprocess.run(["dpkg-deb", "--raw-extract", self.deb, tree], check=True)
        control = tree / "DEBIAN" / "control"
        lines = control.read_text().splitlines()
        control.write_text("".join(
            (f"Version: {version}" if line.startswith("Version:") else line) + "\n" for line in lines))
        subprocess.run(["dpkg-deb", "--build", "-Znone", tree, deb], check=True, stdout=subprocess.DEVNULL)
        return deb

    # The service.

    def configure(self, *changes):
        """The shipped configuration with where the parts are, short timings, and these changes."""
        if not self.config:
            self.config = tomllib.loads(self.machine.run(["cat", CONFIG]).stdout)
        where = {key: value for key, value in self.parts.addresses.items() if key != "credentials"}
        self.machine.write(CONFIG, toml(laid_over(self.config, where, SHORT, *changes)))

    def drop_in(self, text: str, unit=UNIT):
        """Changes the unit for as long as this container runs; no text takes the change away."""
        place = f"/run/systemd/system/{unit}.d/booted.conf"
        if text:
            self.machine.write(place, text)
        else:
            self.machine.run(["rm", "-rf", place.rsplit("/", 1)[0]])
        self.machine.run("systemctl daemon-reload")

    def restart(self):
        """Returns when it is ready, as `systemctl` does."""
        self.machine.run(["systemctl", "restart", UNIT])

    def pid(self) -> str:
        return self.machine.unit()["MainPID"]

    def now(self) -> str:
        """A place in the journal, to read on from."""
        lines = self.machine.run("journalctl --no-pager --lines=0 --show-cursor").stdout
        return lines.split("cursor: ")[1].strip()

    def events(self, since: str, *arguments) -> list[str]:
        """The daemon's events after that place, oldest first."""
        entries = self.machine.journal(f"--unit={UNIT}", *arguments, since=since)
        return [entry["EVENT"] for entry in entries if "EVENT" in entry]

    def metric(self, series: str) -> float:
        for line in self.machine.get("http://127.0.0.1:9464/metrics").splitlines():
            if line.startswith(series + " "):
                return float(line.rsplit(" ", 1)[1])
        raise NotShown(f"there is no series {series}")

    # The submissions.

    def becomes(self, submission: str, status: str, seconds=60) -> dict:
        """Waits until a submission has this status, and gives all of it."""
        try:
            return until("", lambda: (seen := self.parts.look(submission))["status"] == status and seen, seconds)
        except NotShown:
            seen = self.parts.look(submission)
            raise NotShown(f"submission {submission} is {seen['status']}, not {status}, after {seconds} s: {seen}") from None
