"""The two readiness points of the forms database, for a database without schema `router` (contrib/README.md).

psycopg 3 and google-cloud-pubsub; copy the file. The verdict's write and its announcement are two steps with the commit
between them: a process that dies there leaves a ready submission unannounced, which the router's sweep finds.
Nothing here writes `submissions`, and no transaction is open while the network is spoken to.
"""

import json

from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

LOCK = """SELECT s.id, s.form_id FROM submissions s
WHERE s.id = (SELECT x.submission_id FROM attachments x WHERE x.id = %s) FOR NO KEY UPDATE"""

# Only a person takes back what a scan has called infected: maple-router mark-attachment ID --clean --reason TEXT
MARK = """UPDATE attachments SET clamav_status = %s
WHERE id = %s AND clamav_status IS DISTINCT FROM 'infected'"""

# contrib/sql/evaluate_routing_readiness.sql, where it is explained.
READINESS = """SELECT CASE
         WHEN s.status IS DISTINCT FROM 'received' THEN 'closed'
         WHEN a.infected > 0 THEN 'infected'
         WHEN a.pending > 0 THEN 'waiting'
         ELSE 'ready'
       END AS state,
       a.pending::int AS pending
FROM submissions s
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE x.clamav_status = 'infected') AS infected,
         count(*) FILTER (WHERE x.clamav_status IS DISTINCT FROM 'clean'
                            AND x.clamav_status IS DISTINCT FROM 'infected') AS pending
  FROM attachments x WHERE x.submission_id = s.id
) a
WHERE s.id = %s"""

WIRE_STATUSES = ("received", "processing", "routed", "failed")


def mark_attachment(conn, attachment_id, status):
    """Writes the verdict of a scan ("clean" or "infected"); returns (submission_id, form_id).

    In the caller's transaction, or in one of its own. The submission is locked first, so that verdicts on one
    submission come one after the other, and none in the middle of a router's claim. Lock one submission in a
    transaction (several: in the order of their ids), and do not scan while it is open.
    """
    with conn.transaction():
        found = _row(conn, LOCK, attachment_id)
        if found is None:
            raise LookupError(f"no attachment {attachment_id}, or this role cannot see it or its submission")
        conn.execute(MARK, (status, attachment_id))
    return found


def evaluate_routing_readiness(conn, submission_id):
    """Returns (state, pending): "ready", "infected", "waiting" or "closed", and how many are still to be scanned.

    Only after the commit, and therefore refused in an open transaction: there the answer may be older than somebody
    else's verdict, and the change it reports may still be rolled back.
    """
    if conn.info.transaction_status != TransactionStatus.IDLE:
        raise RuntimeError("commit first: readiness is asked after the commit, and a transaction is open here")
    with conn.transaction():
        answer = _row(conn, READINESS, submission_id)
    if answer is None:
        raise LookupError(f"no submission {submission_id}, or this role cannot see it")
    return answer


def publish_ready(publisher, topic, submission_id, form_id, reason, timeout=30):
    """Publishes "look at this submission" and waits until the server has it; returns the message's id.

    `topic` is its full name, projects/P/topics/T. Form and reason are hints for logs. Twice is harmless.
    """
    event = json.dumps({"submission_id": str(submission_id), "form_id": form_id, "reason": reason})
    return publisher.publish(topic, event.encode(), type="routing.ready", v="1").result(timeout=timeout)


def announce(conn, publisher, topic, submission_id, form_id, reason):
    """After the commit, at either readiness point: publishes where there is something to do; returns the state."""
    state, _pending = evaluate_routing_readiness(conn, submission_id)
    if state in ("ready", "infected"):
        publish_ready(publisher, topic, submission_id, form_id, reason)
    return state


def wire_status(status):
    """The word for a status in the backend's answers: the database's own. Purged is gone: answer 404."""
    if status not in WIRE_STATUSES:
        raise ValueError(f"{status!r} is no status that is shown; those are {', '.join(WIRE_STATUSES)}")
    return status


def _row(conn, sql, parameter):
    with conn.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(sql, (parameter,)).fetchone()
