"""Google's storage library, unchanged, against the store at STORE, with tokens of the metadata server GCE_METADATA_HOST.

A client written by others: what it accepts is Cloud Storage, not merely what our own client expects. Exits non-zero, with
the reason, at the first thing that is not as it should be.
"""

import base64
import os
import random
import sys
import tempfile

import google.auth.compute_engine
import google_crc32c
from google.api_core import exceptions
from google.cloud import storage
from google.cloud.storage import transfer_manager
from google.cloud.storage.exceptions import InvalidResponse
from google.oauth2 import service_account

STORE = os.environ["STORE"]
MIB = 1 << 20


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def expect(error, what, call, *arguments, **named):
    """The call is refused with exactly this error."""
    try:
        call(*arguments, **named)
    except error:
        return
    except Exception as other:
        sys.exit(f"FAILED: {what}: expected {error.__name__}, got {other!r}")
    sys.exit(f"FAILED: {what}: expected {error.__name__}, but it succeeded")


def client(credentials):
    return storage.Client(
        project="maple-dev", credentials=credentials, client_options={"api_endpoint": STORE}
    )


def digest(content):
    return base64.b64encode(google_crc32c.Checksum(content).digest()).decode()


def multipart(staging, directory):
    """Parts by threads and by processes of their own, and an upload that its client gives up."""
    content = random.Random(1).randbytes(17 * MIB + 12345)
    path = os.path.join(directory, "large")
    with open(path, "wb") as file:
        file.write(content)
    for name, worker, checksum in [
        ("up/threads", transfer_manager.THREAD, "crc32c"),
        ("up/processes and ümlaut", transfer_manager.PROCESS, "md5"),
    ]:
        blob = staging.blob(name)
        blob.metadata = {"form": "contact"}
        transfer_manager.upload_chunks_concurrently(
            path, blob, content_type="image/png", chunk_size=5 * MIB, worker_type=worker, max_workers=3, checksum=checksum
        )
        blob.reload()
        check(blob.size == len(content) and blob.content_type == "image/png", f"{name}: {blob._properties}")
        check(blob.md5_hash is None and blob.crc32c == digest(content), f"{name}: digests")
        check(blob.metadata == {"form": "contact"}, f"{name}: metadata {blob.metadata}")
        check(blob.download_as_bytes() == content, f"{name}: read whole")
        check(blob.download_as_bytes(start=7 * MIB, end=8 * MIB) == content[7 * MIB : 8 * MIB + 1], f"{name}: read in part")
        target = os.path.join(directory, "back")
        transfer_manager.download_chunks_concurrently(blob, target, chunk_size=4 * MIB, worker_type=transfer_manager.THREAD)
        with open(target, "rb") as file:
            check(file.read() == content, f"{name}: read in chunks")
    expect(
        InvalidResponse,
        "parts that are too small",
        transfer_manager.upload_chunks_concurrently,
        path,
        staging.blob("up/small"),
        chunk_size=4 * MIB,
        worker_type=transfer_manager.THREAD,
    )
    check(not staging.blob("up/small").exists(), "nothing was assembled of parts that are too small")
    return content


def one_request(staging):
    """In one piece, by a session, with preconditions."""
    blob = staging.blob("one/piece")
    blob.upload_from_string(b"first", content_type="text/plain", if_generation_match=0, checksum="md5")
    check(blob.generation and blob.md5_hash, "an upload tells the object")
    expect(exceptions.PreconditionFailed, "a second one", blob.upload_from_string, b"second", if_generation_match=0)
    first = blob.generation
    blob.upload_from_string(b"second", if_generation_match=first)
    check(blob.generation != first, "another generation")
    expect(exceptions.NotFound, "the first one", staging.blob("one/piece", generation=first).download_as_bytes)
    check(staging.blob("one/piece", generation=blob.generation).download_as_bytes() == b"second", "the second one")
    expect(exceptions.PreconditionFailed, "a read", blob.download_as_bytes, if_generation_match=first)
    session = staging.blob("one/session", chunk_size=256 * 1024)
    content = random.Random(2).randbytes(MIB + 7)
    with session.open("wb", content_type="application/octet-stream") as stream:
        stream.write(content)
    check(staging.blob("one/session").download_as_bytes() == content, "a session's bytes")
    expect(exceptions.NotFound, "what is not there", staging.blob("one/none").download_as_bytes)
    expect(exceptions.NotFound, "a bucket that is not there", staging.client.bucket("nowhere").blob("x").upload_from_string, b"x")


def rewritten(staging, content_bucket, content):
    source = staging.get_blob("up/threads")
    target = content_bucket.blob("blobs/1")
    token, rounds = None, 0
    while token is not None or rounds == 0:
        check(not target.exists(), "nothing before the last round")
        token, done, total = target.rewrite(
            source,
            token=token,
            if_generation_match=0,
            if_source_generation_match=source.generation,
        )
        rounds += 1
    check(rounds > 1 and done == total == len(content), f"rewritten in rounds: {rounds} {done} {total}")
    target.reload()
    check(target.crc32c == source.crc32c and target.content_type == "image/png", "the same object")
    expect(exceptions.PreconditionFailed, "a repeated rewrite", target.rewrite, source, if_generation_match=0)
    expect(
        exceptions.PreconditionFailed,
        "another source",
        content_bucket.blob("blobs/2").rewrite,
        source,
        if_source_generation_match=source.generation + 1,
    )


def listed_and_deleted(staging):
    names = [blob.name for blob in staging.list_blobs(prefix="one/", page_size=1)]
    check(names == ["one/piece", "one/session"], f"listed page by page: {names}")
    blob = staging.get_blob("one/piece")
    expect(exceptions.PreconditionFailed, "another generation", blob.delete, if_generation_match=blob.generation + 1)
    blob.delete(if_generation_match=blob.generation)
    expect(exceptions.NotFound, "deleted twice", blob.delete)
    check(not blob.exists(), "it is gone")
    gone = list(staging.list_blobs(prefix="one/piece", soft_deleted=True))
    check(len(gone) == 2 and gone[0].hard_delete_time is not None, f"softly: {gone}")


def bucket(staging):
    staging.reload()
    check(staging.location == "EUROPE-WEST1" and staging.storage_class == "STANDARD", "location and class")
    check(staging.soft_delete_policy.retention_duration_seconds == 7 * 24 * 3600, "soft delete")
    held = staging.test_iam_permissions(["storage.objects.get", "storage.buckets.delete"])
    check(held == ["storage.objects.get"], f"permissions: {held}")


def collector():
    """Another account, by a key file: it lists and deletes, and writes nothing."""
    credentials = service_account.Credentials.from_service_account_file(os.environ["COLLECTOR_KEY"])
    staging = client(credentials).bucket("staging")
    expect(exceptions.Forbidden, "no right to write", staging.blob("x").upload_from_string, b"x")
    for blob in staging.list_blobs():
        blob.delete(if_generation_match=blob.generation)
    check(list(staging.list_blobs()) == [], "all are gone")
    expect(exceptions.Forbidden, "another bucket", staging.client.bucket("content").get_blob, "blobs/1")


def main():
    ours = client(google.auth.compute_engine.Credentials())
    staging, content_bucket = ours.bucket("staging"), ours.bucket("content")
    with tempfile.TemporaryDirectory() as directory:
        content = multipart(staging, directory)
    one_request(staging)
    rewritten(staging, content_bucket, content)
    listed_and_deleted(staging)
    bucket(staging)
    collector()
    print("google-cloud-storage: all as it should be")


main()
