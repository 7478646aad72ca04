"""devkit's parts (database, Pub/Sub, relay, Google, Slack), in the network of the container; see devkit/src/parts.rs."""

import json
import subprocess

from machine import SCRATCH, NotShown


class Parts:
    def __init__(self, machine, binary):
        # The throwaway database wants a short path that its own account can walk to.
        self.process = subprocess.Popen(machine.in_network(["env", f"TMPDIR={SCRATCH}/tmp", binary]),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addresses = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise NotShown(f"devkit's parts ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise NotShown(f"devkit's parts: {answer['error']}")
        return answer

    def ask(self, do, **arguments):
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        return self._answer()["answer"]

    def submit(self, form="contact", **arguments) -> str:
        return self.ask("submit", form=form, **arguments)["id"]

    def look(self, submission) -> dict:
        return self.ask("look", id=submission)
