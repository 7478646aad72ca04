"""The service in good times: it starts, routes, takes signals, and reports."""

from machine import until
from world import CONFIG, CREDENTIALS, UNIT


def starts(world):
    machine = world.machine
    world.configure()
    for name, secret in world.parts.addresses["credentials"].items():
        machine.write(f"{CREDENTIALS}/{name}", secret + "\n", mode=0o600)
    machine.run(["systemctl", "start", UNIT])
    unit = machine.unit()
    world.need(unit["ActiveState"] == "active" and unit["SubState"] == "running", f"{UNIT} is {unit['ActiveState']}")
    world.need(unit["Type"] == "notify", f"{UNIT} is of type {unit['Type']}")
    world.shown(f"READY: `systemctl start` returned because the daemon said so; STATUS: {unit['StatusText']}")
    ready = machine.get("http://127.0.0.1:9464/-/ready")
    world.need(ready, "/-/ready says nothing")


def routes(world):
    machine = world.machine
    submission = world.parts.submit("upload", attachments=["letter.pdf"])
    seen = world.becomes(submission, "routed")
    world.need(len(seen["mails"]) == 1 and seen["audit"] == ["email_sent", "submission_routed"], f"{submission}: {seen}")
    entries = machine.journal(f"SUBMISSION_ID={submission}")
    events = [entry["EVENT"] for entry in entries if "EVENT" in entry]
    story = [event for event in events if event in ("claimed", "action_accepted", "routed", "failed", "released")]
    world.need(story == ["claimed", "action_accepted", "routed"], f"SUBMISSION_ID={submission} tells {events}")
    accepted = next(entry for entry in entries if entry.get("EVENT") == "action_accepted")
    for field in ("POSTFIX_QUEUE_ID", "RFC_MESSAGE_ID", "SMTP_CODE", "FORM_ID", "ACTION_ORDER", "ATTEMPT"):
        world.need(field in accepted, f"action_accepted lacks {field}: {accepted}")
    world.need({entry["_SYSTEMD_UNIT"] for entry in entries} == {UNIT}, "entries of another unit")
    whole = str(machine.journal(f"--unit={UNIT}"))
    for private in ("example.org", "Ann Example", "X-Goog-Signature", world.parts.addresses["credentials"]["slack-webhook"]):
        world.need(private not in whole, f"the journal shows {private}")
    world.shown(f"a submission with an attachment is routed; journalctl SUBMISSION_ID={submission} tells: {', '.join(events)}")


def hands_credentials_over(world):
    machine, parts = world.machine, world.parts
    secrets = parts.addresses["credentials"]
    pid = world.pid()
    environment = machine.run(f"tr '\\0' '\\n' </proc/{pid}/environ").stdout.splitlines()
    place = next(line.split("=", 1)[1] for line in environment if line.startswith("CREDENTIALS_DIRECTORY="))
    for name, secret in secrets.items():
        # As the service's user, in the service's own view of the file system.
        own = f"nsenter --target={pid} --mount setpriv --reuid=maple-router --regid=maple-router --clear-groups"
        read = machine.run(f"{own} sh -c 'cat {place}/*{name}'")
        world.need(read.stdout.strip() == secret.strip(), f"{place}/*{name} is not the credential")
        for other in ("nobody", "postfix"):
            stranger = f"setpriv --reuid={other} --clear-groups sh -c"
            for path in (f"{place}/*{name}", f"{CREDENTIALS}/{name}"):
                world.need(machine.run(f"{stranger} 'cat {path}'", check=False).returncode, f"{other} can read {path}")
        world.need(secret not in " ".join(environment), f"{name} is in the environment")
    world.shown("credentials: the daemon's user reads them where CREDENTIALS_DIRECTORY says; others neither there nor in /etc")
    parts.ask("refuse_recipients", line="550 5.1.1 no such user")
    world.becomes(parts.submit(), "failed")
    texts = until("an alert reaches Slack", lambda: parts.ask("slack")["texts"])
    parts.ask("relay_up")
    world.shown(f"each is used: the database's password, the signing key, and the webhook ({texts[0].splitlines()[0]!r})")
    machine.run(f"mv {CREDENTIALS}/slack-webhook {CREDENTIALS}/../slack-webhook.away")
    world.restart()
    machine.run(f"mv {CREDENTIALS}/../slack-webhook.away {CREDENTIALS}/slack-webhook")
    world.becomes(parts.submit(), "routed")
    world.shown("without slack-webhook, and without heartbeat-url, it starts and routes")
    world.restart()


def reloads(world):
    machine, pid = world.machine, world.pid()
    since = world.now()
    world.configure({"log": {"level": "debug"}})
    machine.run(["systemctl", "reload", UNIT])
    until("the reload is logged", lambda: "reloaded" in world.events(since))
    world.becomes(world.parts.submit(), "routed")
    chatter = machine.journal(f"--unit={UNIT}", "PRIORITY=7", since=since)
    world.need(chatter, "log.level = \"debug\" is in force, and nothing of priority 7 comes")
    world.shown("systemctl reload: log.level = \"debug\" takes effect in the running process")
    since = world.now()
    machine.write(CONFIG, "[log]\nlevle = \"info\"\n")
    machine.run(["systemctl", "reload", UNIT])
    until("the bad file is reported", lambda: "reload_failed" in world.events(since))
    failed = next(e for e in machine.journal(f"--unit={UNIT}", since=since) if e.get("EVENT") == "reload_failed")
    world.need("levle" in failed["MESSAGE"], f"what is wrong is not said: {failed['MESSAGE']}")
    world.need(world.metric("maple_router_config_last_reload_successful") == 0, "the metric does not tell of the bad file")
    world.becomes(world.parts.submit(), "routed")
    world.need(machine.unit()["ActiveState"] == "active" and world.pid() == pid, "the daemon is another one")
    world.shown(f"a bad file keeps the old configuration, and is reported: {failed['MESSAGE'].splitlines()[0][:110]}…")
    world.configure()
    machine.run(["systemctl", "reload", UNIT])
    until("the good file is read", lambda: world.metric("maple_router_config_last_reload_successful") == 1)
    world.need(world.pid() == pid, "the daemon is another one")


def sweeps_by_a_timer(world):
    machine, parts = world.machine, world.parts
    world.configure({"routing": {"sweep": "timer"}})
    world.restart()
    since = world.now()
    orphan = parts.submit(silent=True, age_seconds=3600)
    machine.run("systemctl start maple-router-sweep.timer")
    seen = world.becomes(orphan, "routed", seconds=90)
    world.need(len(seen["mails"]) == 1, f"{orphan}: {seen}")
    until("the pass ends", lambda: machine.unit("maple-router-sweep.service")["ActiveState"] == "inactive")
    swept = machine.unit("maple-router-sweep.service")
    world.need(swept["Result"] == "success" and swept["ExecMainStatus"] == "0", f"the sweep ended with {swept['Result']}")
    lines = [entry["MESSAGE"] for entry in machine.journal("--unit=maple-router-sweep.service",
                                                           "_COMM=maple-router", since=since)]
    world.need("rescued" not in world.events(since) and lines, f"the sweep says {lines}")
    machine.run("systemctl stop maple-router-sweep.timer")
    world.shown(f"maple-router-sweep.timer: a submission whose event was lost is found by its pass and routed ({'; '.join(line.strip() for line in lines)})")
    world.configure()
    world.restart()
