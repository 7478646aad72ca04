"""The commands of the runbooks that need a booted host: each is typed as it stands there, and must work.

tests/runbooks/booted.list has them (a test keeps it in step with the runbooks); all others are run by that test itself.
"""

import re
from pathlib import Path

from machine import NotShown, until
from world import UNIT

LIST = Path(__file__).resolve().parent.parent / "runbooks" / "booted.list"


def does_what_they_say(world):
    machine, secrets = world.machine, world.parts.addresses["credentials"]
    submission = world.parts.submit()
    queue = world.becomes(submission, "routed")["ledger"]["deliveries"]
    delivery = next(iter(queue.values()))
    values = {
        "ID": submission, "…": submission, "MESSAGE_ID": delivery["message_id"].strip("<>"), "QUEUE_ID": delivery["queue_id"],
        "BACKUP_TIME": "-1h",
    }
    for name, deb in (("maple-router.deb", world.deb), ("maple-router-previous.deb", world.repacked("0.0.2"))):
        (machine.root / "root" / name).write_bytes(deb.read_bytes())
    lines = [line.split("\t") for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    for runbook, command in lines:
        typed = re.sub(r"\bID\b|…|\bMESSAGE_ID\b|\bQUEUE_ID\b|\bBACKUP_TIME\b", lambda found: values[found[0]], command)
        # Named in passing, where the unit is clear to a reader.
        typed += f" {UNIT}" if typed == "systemctl reload" else ""
        secret = next((secret for name, secret in secrets.items() if "/dev/stdin" in typed and typed.endswith(name)), None)
        done = machine.run(f"cd /root && {typed}", check=False, stdin=secret)
        # What is looked for need not be there; but the question must be one.
        fine = (0, 1) if "--grep" in typed and not done.stderr.strip() else (0,)
        if done.returncode not in fine:
            raise NotShown(f"{runbook}: `{typed}` ended with {done.returncode}: {done.stdout}{done.stderr}")
        if typed.startswith("apt-get"):
            until("it runs again", lambda: machine.unit()["ActiveState"] == "active")
    machine.run(["systemctl", "start", UNIT])
    world.becomes(world.parts.submit(), "routed")
    machine.run("rm -f /root/maple-router* /root/incident-*")
    world.shown(f"each of the {len(lines)} commands of the runbooks that need a booted host works, and the service after them")
