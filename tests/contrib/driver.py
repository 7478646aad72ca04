"""The reference client of contrib/ in a process of its own, with one connection, obeying one order a line: so a test
decides who does what when, and can kill it.

    driver.py DATABASE_URL

An order is {"do": NAME, ...}, and is answered by one line: {"ok": ...} or {"error": "..."}.
"""

import json
import re
import sys
import time
from pathlib import Path

import psycopg

CONTRIB = Path(__file__).resolve().parents[2] / "contrib"
sys.path.insert(0, str(CONTRIB / "python"))

import routing_readiness  # noqa: E402

TOPIC = "projects/demo/topics/routing"


class Stuck:
    """A publisher that says that it was reached, and never comes back."""

    def publish(self, *_arguments, **_attributes):
        say({"ok": "publishing"})
        time.sleep(3600)


class Driver:
    def __init__(self, url):
        self.conn = psycopg.connect(url, autocommit=True)
        self._publisher = None

    @property
    def publisher(self):
        if self._publisher is None:
            from google.cloud import pubsub_v1  # a second or two: only for those who publish

            self._publisher = pubsub_v1.PublisherClient()
        return self._publisher

    def pid(self):
        return self.conn.info.backend_pid

    def autocommit(self, on):
        self.conn.autocommit = on

    def sql(self, text):
        self.conn.execute(text)

    def mark(self, attachment, status):
        return [str(part) for part in routing_readiness.mark_attachment(self.conn, attachment, status)]

    def evaluate(self, submission):
        return routing_readiness.evaluate_routing_readiness(self.conn, submission)

    def look(self, submission):
        """The statement itself, in whatever transaction is open."""
        return self.conn.execute(routing_readiness.READINESS, (submission,)).fetchone()

    def statements(self):
        return [routing_readiness.LOCK, routing_readiness.MARK, routing_readiness.READINESS]

    def publish(self, submission, seconds):
        return routing_readiness.publish_ready(self.publisher, TOPIC, submission, "f", "scan_clean", timeout=seconds)

    def wire(self, status):
        return routing_readiness.wire_status(status)

    def example(self, under, stuck=False, **given):
        """Runs the Python of README.md under this heading, as it stands there."""
        text = (CONTRIB / "README.md").read_text()
        section = re.search(rf"^#+ {re.escape(under)}\n(.*?)(?=^#|\Z)", text, re.M | re.S).group(1)
        code = re.search(r"^```python\n(.*?)^```", section, re.M | re.S).group(1)
        publisher = Stuck() if stuck else self.publisher
        names = {"routing_readiness": routing_readiness, "conn": self.conn, "publisher": publisher, "topic": TOPIC, **given}
        exec(compile(code, under, "exec"), names)
        return {name: str(names[name]) for name in ("submission_id", "form_id", "state", "wire") if name in names}


def say(answer):
    print(json.dumps(answer, default=str), flush=True)


def main():
    driver = Driver(sys.argv[1])
    say({"ok": "connected"})
    for line in sys.stdin:
        order = json.loads(line)
        try:
            say({"ok": getattr(driver, order.pop("do"))(**order)})
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
