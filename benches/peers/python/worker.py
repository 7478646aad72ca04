"""The routing worker as the design document has it, in Python: Pub/Sub streaming pull, psycopg, smtplib, signed URLs.

One submission: claim by a guarded UPDATE, execute its form's actions in order, record each in routing_result, mark it routed
with its audit rows, ack. Every thread of the subscriber keeps a database connection and an SMTP connection open; statements
are prepared by psycopg after their fifth use. What makes a worker safe when it dies in the middle is as little here as it is
in the document: this is what it would be measured against, made as fast as it is without becoming another program.
"""

import datetime
import email.utils
import hashlib
import json
import os
import signal
import smtplib
import threading
from concurrent.futures import ThreadPoolExecutor
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import psycopg
from google.cloud import pubsub_v1, storage
from google.cloud.pubsub_v1.subscriber.scheduler import ThreadScheduler
from google.oauth2 import service_account

FROM = os.environ["MAIL_FROM"]
SMTP_PORT = int(os.environ["SMTP_PORT"])
# The library's own default; more threads make it slower, because only one of them runs Python at a time.
THREADS = int(os.environ.get("THREADS", "10"))

CLAIM = """UPDATE submissions SET status = 'processing', updated_at = clock_timestamp()
WHERE id = %s AND status = 'received' RETURNING form_id, created_at, routing_result"""
FORM = """SELECT f.name, a.action_order, a.destination, a.subject_template
FROM forms f JOIN actions a ON a.form_id = f.id
WHERE f.id = %s AND a.action_type IN ('email_template', 'email_raw') ORDER BY a.action_order"""
ATTACHMENTS = """SELECT file_name, gcs_bucket, gcs_object FROM attachments
WHERE submission_id = %s AND clamav_status = 'clean' ORDER BY created_at, id"""
SENT = """WITH u AS (UPDATE submissions SET updated_at = clock_timestamp(), routing_result = routing_result || %s::jsonb
  WHERE id = %s RETURNING id, form_id)
INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
SELECT 'worker', 'email_sent', u.id, u.form_id, %s::jsonb FROM u"""
# The last action's record and the end of the submission are one statement, and so one commit.
ROUTED = """WITH u AS (UPDATE submissions SET status = 'routed', updated_at = clock_timestamp(),
    routing_result = routing_result || %s::jsonb
  WHERE id = %s AND status = 'processing' RETURNING id, form_id)
INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
SELECT 'worker', t.action::audit_action, u.id, u.form_id, t.detail::jsonb
FROM u, (VALUES ('email_sent', %s), ('submission_routed', '{}')) AS t(action, detail)"""

own = threading.local()


def database():
    if not hasattr(own, "database"):
        own.database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    return own.database


def relay():
    if not hasattr(own, "relay"):
        own.relay = smtplib.SMTP("127.0.0.1", SMTP_PORT, local_hostname="maple.test")
    return own.relay


key = service_account.Credentials.from_service_account_file(os.environ["SIGNER_KEY_FILE"])
# Only signs: nothing is asked of it.
bucket_client = storage.Client(project="demo", credentials=key)


def links(submission):
    lines = []
    for name, bucket, obj in database().execute(ATTACHMENTS, (submission,)).fetchall():
        url = bucket_client.bucket(bucket).blob(obj).generate_signed_url(
            version="v4", expiration=datetime.timedelta(days=7), method="GET",
            response_disposition=f'attachment; filename="{name}"')
        lines.append(f"\n{name}\n{url}\n")
    return "".join(lines)


def mail(submission, form, name, received, order, recipients, subject, block):
    text = (f'A new submission of the form "{name}" has been received; details to follow.\n\n'
            f"Submission: {submission}\nForm:       {name}\n"
            f"Received:   {received.astimezone(datetime.timezone.utc):%Y-%m-%d %H:%M:%S} UTC\n{block}")
    message = MIMEMultipart("mixed")
    message["From"] = FROM
    message["To"] = ", ".join(recipients)
    message["Subject"] = subject or f"[{name}] submission {submission}"
    message["Date"] = email.utils.formatdate()
    digest = hashlib.sha256(f"{submission}|{order}".encode()).hexdigest()[:32]
    message["Message-ID"] = f"<{digest}@maple.test>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Submission-ID"] = submission
    message["X-Form-ID"] = form
    message.attach(MIMEText(text, "plain", "us-ascii"))
    return message.as_bytes()


def route(submission):
    row = database().execute(CLAIM, (submission,)).fetchone()
    if row is None:
        return  # already claimed: ack and drop
    form, received, result = row
    actions = database().execute(FORM, (form,)).fetchall()
    block = links(submission)
    for name, order, destination, subject in actions:
        if str(order) in result:
            continue
        recipients = [address.strip() for address in destination.split(",")]
        relay().sendmail(FROM, recipients, mail(submission, form, name, received, order, recipients, subject, block))
        outcome = {str(order): {"status": "sent", "recipients": recipients}}
        record = ROUTED if order == actions[-1][1] else SENT
        database().execute(record, (json.dumps(outcome), submission, json.dumps({"action_order": order})))


def take(message):
    try:
        route(json.loads(message.data)["submission_id"])
    except Exception as error:  # noqa: BLE001 - whatever it is, Pub/Sub brings it again
        print(f"failed: {error!r}", flush=True)
        message.nack()
        # The next one gets connections of its own.
        own.__dict__.clear()
    else:
        message.ack()


def main():
    subscriber = pubsub_v1.SubscriberClient()
    name = subscriber.subscription_path(os.environ["PUBSUB_PROJECT"], os.environ["PUBSUB_SUBSCRIPTION"].rsplit("/", 1)[1])
    pulling = subscriber.subscribe(
        name, callback=take, scheduler=ThreadScheduler(ThreadPoolExecutor(max_workers=THREADS)))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    print("ready", flush=True)
    while not stop.wait(0.5):
        if pulling.done():
            pulling.result()
    pulling.cancel()


main()
