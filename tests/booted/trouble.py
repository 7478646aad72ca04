"""The service in bad times: stopped in the middle, frozen, configured badly, without a dependency, crashing."""

from machine import until
from world import PATIENT, UNIT


def stops_while_sending(world):
    machine, parts = world.machine, world.parts
    world.configure(PATIENT, {"smtp": {"lanes": 1}})
    world.restart()
    since = world.now()
    parts.ask("hold", at="dot")
    sending = parts.submit()
    parts.ask("caught", seconds=20)
    waiting = [parts.submit() for _ in range(3)]
    until("they are claimed", lambda: all(parts.look(one)["status"] == "processing" for one in waiting))
    stopping = machine.start(["systemctl", "stop", UNIT])
    until("the stop begins", lambda: machine.unit()["ActiveState"] == "deactivating")
    until("the others go back", lambda: all(parts.look(one)["status"] == "received" for one in waiting))
    machine.run("sleep 3")
    unit = machine.unit()
    world.need(unit["ActiveState"] == "deactivating", "it ended while a mail was being sent")
    world.shown(f"systemctl stop while a mail is being sent: it waits for it; STATUS: {unit['StatusText']}")
    parts.ask("let_go")
    stopping.wait(timeout=60)
    unit = machine.unit()
    world.need((unit["Result"], unit["ExecMainCode"], unit["ExecMainStatus"]) == ("success", "1", "0"),
               f"Result={unit['Result']}, code {unit['ExecMainCode']}, status {unit['ExecMainStatus']}")
    seen = parts.look(sending)
    world.need(seen["status"] == "routed" and len(seen["mails"]) == 1, f"what was being sent: {seen}")
    for one in waiting:
        seen = parts.look(one)
        world.need(seen["status"] == "received" and seen["ledger"]["attempts"] == 0 and not seen["mails"],
                   f"what was not sent: {seen}")
    took = (int(unit["InactiveEnterTimestampMonotonic"]) - int(unit["ActiveExitTimestampMonotonic"])) / 1e6
    world.shown(f"Result=success after {took:.1f} s of {unit['TimeoutStopUSec']}: the mail arrived and is recorded, three that "
                "were claimed went back with no attempt spent")
    world.configure()
    machine.run(["systemctl", "start", UNIT])
    for one in waiting:
        seen = world.becomes(one, "routed")
        world.need(len(seen["mails"]) == 1 and seen["ledger"]["attempts"] == 1, f"after the start: {seen}")
    world.need("stopped" in world.events(since), "the journal does not tell of the stop")
    world.shown("after the next start they are routed, once each, with their first attempt")


def is_frozen(world):
    machine, parts = world.machine, world.parts
    unit = machine.unit()
    shipped = unit["WatchdogUSec"]
    world.need(shipped not in ("0", "infinity"), "the unit has no watchdog")
    world.drop_in("[Service]\nWatchdogSec=20\nRestartSec=1\n")
    world.restart()
    since, pid = world.now(), world.pid()
    parts.ask("hold", at="after_dot")
    sending = parts.submit()
    parts.ask("caught", seconds=20)
    machine.run(f"kill -STOP {pid}")
    parts.ask("let_go")
    meanwhile = parts.submit()
    until("the watchdog restarts it", lambda: machine.unit()["NRestarts"] == "1" and world.pid() not in ("0", pid), 60)
    until("it is ready again", lambda: machine.unit()["ActiveState"] == "active")
    lines = [entry["MESSAGE"] for entry in machine.journal(f"--unit={UNIT}", "_PID=1", since=since)]
    world.need(any("Watchdog timeout" in line for line in lines), f"systemd tells {lines}")
    world.shown(f"frozen in the middle of a mail (SIGSTOP), it is killed by the watchdog and started again (WatchdogSec={shipped} "
                "as shipped, 20 s here)")
    seen = world.becomes(meanwhile, "routed")
    world.need(len(seen["mails"]) == 1, f"what came meanwhile: {seen}")
    seen = world.becomes(sending, "routed", seconds=120)
    names = {mail["message_id"] for mail in seen["mails"]}
    # Its 250 was written and never read: in doubt, and resent as `in_doubt = "resend"` says.
    world.need(len(seen["mails"]) == 2 and len(names) == 1, f"what was in doubt: {seen}")
    world.need(all(one.get("doubted") for one in seen["ledger"]["deliveries"].values()), f"the doubt is forgotten: {seen}")
    world.shown("what came meanwhile arrived once; the mail whose 250 nobody read was in doubt, and was sent again under the "
                "same Message-ID")
    world.drop_in("")
    world.restart()


def is_configured_badly(world):
    machine = world.machine
    world.drop_in("[Service]\nRestartSec=1\n")
    machine.run(["systemctl", "stop", UNIT])
    since = world.now()
    world.configure({"routing": {"max_atempts": 5}})
    failed = machine.run(["systemctl", "start", UNIT], check=False)
    world.need(failed.returncode != 0, "systemctl start succeeds with a configuration that is refused")
    machine.run("sleep 4")
    unit = machine.unit()
    world.need((unit["ActiveState"], unit["ExecMainStatus"], unit["NRestarts"]) == ("failed", "78", "0"),
               f"{unit['ActiveState']}, status {unit['ExecMainStatus']}, restarted {unit['NRestarts']} times")
    lines = [entry["MESSAGE"] for entry in machine.journal(f"--unit={UNIT}", "_COMM=maple-router", since=since)]
    clear = [line for line in lines if "max_atempts" in line and "max_attempts" in line]
    world.need(clear, f"the journal does not name the key that was meant: {lines}")
    world.shown(f"a bad configuration ends with 78 and is not tried again: {clear[-1].splitlines()[0][:120]}")
    world.drop_in("")
    world.configure()
    machine.run(["systemctl", "start", UNIT])


def misses_a_dependency(world):
    machine, parts = world.machine, world.parts
    machine.run(["systemctl", "stop", UNIT])
    parts.ask("relay_down")
    machine.run(["systemctl", "start", UNIT])
    status = until("STATUS names the relay", lambda: "relay" in (text := machine.unit()["StatusText"]) and text)
    waiting = parts.submit()
    parts.ask("relay_up")
    seen = world.becomes(waiting, "routed")
    world.need(seen["ledger"]["attempts"] == 1 and len(seen["mails"]) == 1, f"what waited for the relay: {seen}")
    unit = machine.unit()
    world.need((unit["ActiveState"], unit["NRestarts"]) == ("active", "0"), f"{unit['ActiveState']}, {unit['NRestarts']} restarts")
    world.shown(f"a relay that is down does not keep it from starting (STATUS: {status}); what came meanwhile is routed when "
                "the relay is back, with one attempt")


def crashes_again_and_again(world):
    machine = world.machine
    burst, interval = (machine.unit()[key] for key in ("StartLimitBurst", "StartLimitIntervalUSec"))
    world.drop_in("[Service]\nRestartSec=100ms\n")
    machine.run(["systemctl", "reset-failed", UNIT])
    world.restart()
    waiting = world.parts.submit(silent=True)

    def given_up():
        unit = machine.unit()
        if unit["ActiveState"] == "active" and unit["MainPID"] != "0":
            machine.run(["kill", "-KILL", unit["MainPID"]], check=False)
        return unit["ActiveState"] == "failed" and unit

    unit = until("systemd gives up", given_up)
    world.shown(f"killed again and again, it is left as failed after {unit['NRestarts']} restarts (start limit {burst} in "
                f"{interval}), where monitoring sees it")
    world.drop_in("")
    machine.run(["systemctl", "reset-failed", UNIT])
    machine.run(["systemctl", "start", UNIT])
    world.need(len(world.becomes(waiting, "routed", seconds=90)["mails"]) == 1, "what waited came twice")
    world.shown("after `systemctl reset-failed` and a start, what waited is routed")
