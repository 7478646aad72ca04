#!/usr/bin/env python3
"""Brings a file through the API of uploads (/v1/openapi.json): in parts, several at once, resumed after any interruption.

Python 3.9 or newer, and nothing else; copy the file. As a program:

    maple_upload.py --api URL --key-file FILE --form FORM --owner OWNER FILE     whoever has the backend's key
    maple_upload.py --api URL --token-file FILE FILE                             whoever was given a session's token

As a library: `upload(path, Api(url, key), form=..., owner=...)`, or `bring(path, Api(url, token), session_id_of(token))`.

A journal stands beside the file, FILE.maple-upload: written before anything is asked, it has the name of the request and then the
session's token, so that a client that was killed goes on in its own session. What has arrived is not in it: the store's own list,
shown by the API, says that. A kill costs at most the parts that were on their way.
"""

import argparse
import base64
import contextlib
import hashlib
import http.client
import json
import mimetypes
import os
import queue
import random
import re
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

TRIES = 8
LONGEST_PAUSE = 30.0
TIMEOUT = 60
PIECE = 1 << 20
WAIT = 20  # seconds that one look waits, the API's own limit

CLEAN, WANTING, USAGE, UNAVAILABLE, NO_VERDICT, INTERRUPTED = 0, 1, 2, 69, 75, 130


class Problem(Exception):
    """What the API refuses: `kind` is the end of its type, `remedy` what to do."""

    def __init__(self, status, document):
        self.status = status
        self.kind = str(document.get("type", "")).rsplit(":", 1)[-1]
        self.detail = document.get("detail") or document.get("title") or f"the API answers {status}"
        self.remedy = document.get("remedy") or ""
        super().__init__(f"{self.detail} {self.remedy}".strip())


class Unavailable(Exception):
    """What may pass by itself has not, however often it was tried."""


class _Passing(Exception):
    """What may pass by itself; `after` seconds, where the server says so."""

    def __init__(self, what, after=None):
        super().__init__(what)
        self.after = after


class _Stay(urllib.request.HTTPRedirectHandler):
    """A redirect is refused: no credential goes where it was not meant to go."""

    def redirect_request(self, *_arguments):
        return None


_OPENER = urllib.request.build_opener(_Stay)


def _send(method, url, headers, body=None):
    """One request; returns status and body of any answer that stays, and raises _Passing for what may pass by itself."""
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with _OPENER.open(request, timeout=TIMEOUT) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            content = error.read()
        if error.code >= 500 or error.code == 408:
            after = error.headers.get("retry-after", "")
            raise _Passing(_said(content) or f"the answer is {error.code}", float(after) if after.isdigit() else None) from None
        return error.code, content
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise _Passing(f"no answer: {reason}") from None


def _said(content):
    try:
        return json.loads(content).get("detail")
    except (ValueError, AttributeError):
        return None


def _again(attempt, tries):
    """Tries what may pass by itself, ever more slowly, and not all at the same time."""
    for tried in range(1, tries + 1):
        try:
            return attempt()
        except _Passing as passing:
            if tried == tries:
                raise Unavailable(f"{passing}, {tries} times") from None
            longest = min(LONGEST_PAUSE, 0.5 * 2**tried)
            time.sleep(passing.after if passing.after is not None else random.uniform(longest / 2, longest))


class Api:
    """The API at `url`, asked with a credential: the backend's key, or the token of one session."""

    def __init__(self, url, credential, tries=TRIES):
        self.url = url.rstrip("/")
        self.credential = credential
        self.tries = tries

    def with_token(self, token):
        return Api(self.url, token, self.tries)

    def ask(self, method, path, body=None, key=None):
        """The answer as a document; None where there is no content. Raises Problem, Unavailable."""
        headers = {"authorization": f"Bearer {self.credential}"}
        if body is not None:
            headers["content-type"] = "application/json"
        if key is not None:
            headers["idempotency-key"] = key
        content = None if body is None else json.dumps(body).encode()
        status, answer = _again(lambda: _send(method, f"{self.url}/v1/uploads{path}", headers, content), self.tries)
        try:
            document = json.loads(answer) if answer else None
        except ValueError:
            document = {}
        if not 200 <= status < 300:
            raise Problem(status, document if isinstance(document, dict) else {})
        return document


class Journal:
    """What a killed client has to know, beside the file: written whole or not at all, readable by its owner alone."""

    def __init__(self, path):
        self.path = f"{path}.maple-upload"
        self.kept = {}
        with contextlib.suppress(OSError, ValueError), open(self.path, encoding="utf-8") as file:
            kept = json.load(file)
            self.kept = kept if isinstance(kept, dict) else {}

    def begin(self, about):
        """Goes on with what was begun for the same file and purpose, and begins anew for any other."""
        if self.kept.get("about") != about:
            self.write(about=about, key=str(uuid.uuid4()), id=None, token=None)

    def write(self, **more):
        self.kept.update(more)
        beside = f"{self.path}.{os.getpid()}"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(self.kept, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.path)

    def end(self):
        self.kept = {}
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.path)


def sha256_of(path):
    """SHA-256 of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            digest.update(piece)
    return digest.hexdigest()


def session_id_of(token):
    """The session of a token, or of the address of the page that ends with one."""
    found = re.fullmatch(r"mrup_([0-9a-f]{32})\.[\w-]{43}", token)
    if not found:
        raise ValueError("this is no token of an upload: it begins with mrup_")
    return str(uuid.UUID(found.group(1)))


def _part(api, path, shown, number):
    """Sends one part with its digest, so that the store refuses other bytes. Each attempt has a fresh link. Returns its length."""
    offset = (number - 1) * shown["part_size"]
    with open(path, "rb") as file:
        file.seek(offset)
        content = file.read(min(shown["part_size"], shown["length"] - offset))
    md5 = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()

    def attempt():
        links = api.ask("POST", f"/{shown['id']}/parts", {"numbers": [number], "md5": [md5]})
        status, _answer = _send("PUT", links["parts"][0]["url"], {"content-md5": md5, "content-type": ""}, content)
        if not 200 <= status < 300:
            # A link that is too old, or bytes that were others when they came: another link, another attempt.
            raise _Passing(f"the store answers {status} to part {number}")

    _again(attempt, api.tries)
    return len(content)


def _send_missing(api, path, shown, parallel, told):
    """Sends what the store does not have. Returns the bytes that were sent."""
    there = set(shown.get("received") or [])
    missing = [number for number in range(1, shown["parts"] + 1) if number not in there]
    waiting, sent = queue.SimpleQueue(), queue.SimpleQueue()
    for number in missing:
        waiting.put(number)

    def work():
        try:
            while True:
                sent.put(_part(api, path, shown, waiting.get_nowait()))
        except queue.Empty:
            return
        except Exception as error:  # told in the thread that waits
            sent.put(error)

    # They end with the process: whoever presses Ctrl-C waits for nobody.
    for _ in range(min(parallel, len(missing))):
        threading.Thread(target=work, daemon=True).start()
    total, had = 0, len(there)
    told(had, shown["parts"])
    for _ in missing:
        done = sent.get()
        if isinstance(done, Exception):
            raise done
        total, had = total + done, had + 1
        told(had, shown["parts"])
    return total


def bring(path, api, session, *, sha256=None, parallel=4, wait=300.0, told=lambda _had, _of: None):
    """Brings a file in a session that was made for it, and waits for its end and the scanner's word.

    `api` has the session's token. Returns the session as the API shows it, and `bytes_sent`. Its `state` is `committed` (with a
    `verdict`: clean, infected, unscannable, or unscanned after `wait` seconds) or `aborted` (with a `problem`).
    """
    shown, sent = api.ask("GET", f"/{session}"), 0
    if shown["state"] in ("initiated", "parts_uploading"):
        length = os.stat(path).st_size
        if length != shown["length"]:
            raise ValueError(f"the file has {length} bytes, and {shown['length']} were announced: choose the file that was announced")
        sent = _send_missing(api, path, shown, parallel, told)
        api.ask("POST", f"/{session}/complete", {"sha256": sha256 or sha256_of(path)})
    until = time.monotonic() + wait
    while True:
        shown = api.ask("GET", f"/{session}?wait={WAIT}")
        ended = shown["state"] == "aborted" or (shown["state"] == "committed" and shown.get("verdict") != "unscanned")
        if ended or (shown["state"] == "committed" and time.monotonic() >= until):
            return {**shown, "bytes_sent": sent}
        if shown["state"] == "committed":
            time.sleep(random.uniform(1, 3))


def upload(path, api, *, form, owner, name=None, content_type=None, submission=None, parallel=4, wait=300.0,
           told=lambda _had, _of: None):
    """Makes a session with the backend's key, brings the file, and makes it an attachment where `submission` says so.

    Called again after any end of the process it goes on where it was; the same file again sends nothing. Returns as `bring`, and
    `attachment_id`.
    """
    name = name or os.path.basename(path)
    content_type = content_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    journal, begun = Journal(path), os.stat(path)
    about = {"api": api.url, "form": form, "owner": owner, "name": name, "type": content_type,
             "length": begun.st_size, "changed": begun.st_mtime_ns}
    for _ in range(2):
        journal.begin(about)
        resumed = journal.kept["token"] is not None
        if not journal.kept.get("sha256"):
            journal.write(sha256=sha256_of(path))
        sha256 = journal.kept["sha256"]
        if not resumed:
            wanted = {"form_id": form, "owner": owner, "file_name": name, "content_type": content_type,
                      "length": begun.st_size, "sha256": sha256}
            made = api.ask("POST", "", wanted, key=journal.kept["key"])
            journal.write(id=made["id"], token=made["token"])
        session = journal.kept["id"]
        try:
            shown = bring(path, api.with_token(journal.kept["token"]), session, sha256=sha256, parallel=parallel, wait=wait, told=told)
        except Problem as problem:
            if not (resumed and problem.status in (404, 410)):
                raise
            shown = {"state": "aborted"}
        if shown["state"] == "aborted":
            journal.end()
            if resumed:
                continue  # an earlier call's, which has ended since
        break
    shown["attachment_id"] = None
    if submission and shown["state"] == "committed":
        shown["attachment_id"] = api.ask("POST", f"/{session}/attach", {"submission_id": str(submission)})["attachment_id"]
    if shown["state"] != "committed" or shown.get("verdict") != "unscanned":
        journal.end()
    return shown


def _secret(path):
    with sys.stdin if path == "-" else open(path, encoding="utf-8") as file:
        return file.read().strip().rsplit("#", 1)[-1]


def _progress(had, of):
    if sys.stderr.isatty():
        print(f"\r{had} of {of} parts have arrived ", end="\n" if had == of else "", file=sys.stderr, flush=True)


def _options():
    options = argparse.ArgumentParser(description="Brings a file through the API of uploads.", epilog="Exit codes: 0 it is there and "
                                      "clean; 1 refused, or infected; 2 called wrongly; 69 API or store do not answer; 75 it is there, "
                                      "and nobody has called it clean yet. Repeated after any other end, the command goes on where it was.")
    options.add_argument("file")
    options.add_argument("--api", required=True, metavar="URL", help="address of the API, e.g. http://127.0.0.1:9466")
    who = options.add_mutually_exclusive_group(required=True)
    who.add_argument("--key-file", metavar="FILE", help="file with the backend's key; - reads it from standard input")
    who.add_argument("--token-file", metavar="FILE", help="file with a session's token, or the address of its page; - as above")
    options.add_argument("--form", help="the form that it is for (with --key-file)")
    options.add_argument("--owner", help="whoever brings it (with --key-file)")
    options.add_argument("--name", help="the name that its readers see; its own by default")
    options.add_argument("--content-type", metavar="TYPE", help="its media type; guessed from its name by default")
    options.add_argument("--submission", metavar="ID", type=uuid.UUID, help="make it an attachment of this submission")
    options.add_argument("--parallel", type=int, default=4, choices=range(1, 33), metavar="N", help="parts sent at once: 4")
    options.add_argument("--wait", type=float, default=300, metavar="SECONDS", help="longest wait for the scanner's word: 300")
    options.add_argument("--tries", type=int, default=TRIES, metavar="N", help="attempts of one request: 8, within about a minute")
    options.add_argument("--json", action="store_true", help="one JSON document on standard output")
    given = options.parse_args()
    if given.key_file and not (given.form and given.owner):
        options.error("--key-file needs --form and --owner")
    if given.token_file and (given.form or given.owner or given.name or given.content_type or given.submission):
        options.error("with --token-file the session says what the file is; only whoever has the key attaches it")
    return given


def _run(given):
    how = {"parallel": given.parallel, "wait": given.wait, "told": _progress}
    if given.token_file:
        token = _secret(given.token_file)
        return bring(given.file, Api(given.api, token, given.tries), session_id_of(token), **how)
    named = {"form": given.form, "owner": given.owner, "name": given.name, "content_type": given.content_type}
    return upload(given.file, Api(given.api, _secret(given.key_file), given.tries), submission=given.submission, **named, **how)


def _say(given, shown):
    verdict = shown.get("verdict")
    if given.json:
        print(json.dumps(shown))
    elif shown["state"] == "committed":
        words = {"clean": "clean", "infected": "INFECTED, and will not be passed on", "unscannable": "cannot be judged by the scanner",
                 "unscanned": "not scanned yet: repeat the command to ask again"}.get(verdict, verdict)
        same = ", the same file was there" if shown["deduplicated"] else ""
        attached = f"; attachment {shown['attachment_id']}" if shown.get("attachment_id") else ""
        print(f"upload {shown['id']}: {shown['bytes_sent']} of {shown['length']} bytes were sent{same}; it is {words}{attached}")
    if shown["state"] != "committed":
        _refused(Problem(410, shown.get("problem") or {"detail": "The upload has ended."}))
        return WANTING
    return {"clean": CLEAN, "infected": WANTING}.get(verdict, NO_VERDICT)


def _refused(problem):
    print(f"maple_upload: {problem.detail}", file=sys.stderr)
    if problem.remedy:
        print(f"  remedy: {problem.remedy}", file=sys.stderr)


def main():
    given = _options()
    try:
        return _say(given, _run(given))
    except Problem as problem:
        _refused(problem)
        return WANTING
    except Unavailable as error:
        print(f"maple_upload: {error}\n  remedy: repeat the command: it goes on with what is missing", file=sys.stderr)
        return UNAVAILABLE
    except (OSError, ValueError) as error:
        print(f"maple_upload: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("maple_upload: interrupted; repeat the command: it goes on with what is missing", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
