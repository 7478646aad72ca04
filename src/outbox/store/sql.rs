//! The statements of the outbox. Each is led by its name, and records the transition it makes in the same statement.
//!
//! Rows are taken with SKIP LOCKED, so that instances never wait for each other, and settled under their fence. `now()`
//! only compares and `clock_timestamp()` only writes.

/// `$1` at most so many, `$2` token, `$3` lease in seconds, `$4` actor.
pub(super) const CLAIM: &str = "-- outbox_claim
WITH c AS (
  SELECT o.id FROM router.outbox o WHERE o.state = 'pending' AND o.available_at <= now()
  ORDER BY o.available_at, o.id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
), u AS (
  UPDATE router.outbox o SET state = 'delivering', attempts = o.attempts + 1, claims = o.claims + 1, lease_token = $2,
    leased_until = clock_timestamp() + make_interval(secs => $3)
  FROM c WHERE o.id = c.id AND o.state = 'pending'
  RETURNING o.id, o.kind, o.payload::text AS payload, o.attempts, o.claims, o.created_at
), t AS (
  INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type)
  SELECT 'outbox', u.id::text, 'pending', 'delivering', 'claim', $4, 'worker' FROM u
)
SELECT * FROM u ORDER BY u.id";

/// A row that is to be taken, if there is one. Reads only, so that looking often costs little; in the order of the index, since
/// EXISTS would let the planner read the table from its beginning.
pub(super) const WAITS: &str = "-- outbox_waits
SELECT o.id FROM router.outbox o WHERE o.state = 'pending' AND o.available_at <= now()
ORDER BY o.available_at, o.id LIMIT 1";

/// `$1` at most so many, `$2` actor.
pub(super) const FALL_DUE: &str = "-- outbox_fall_due
WITH c AS (
  SELECT o.id FROM router.outbox o WHERE o.state = 'retry_wait' AND o.available_at <= now()
  ORDER BY o.available_at, o.id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
), u AS (
  UPDATE router.outbox o SET state = 'pending' FROM c WHERE o.id = c.id AND o.state = 'retry_wait' RETURNING o.id
), t AS (
  INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type)
  SELECT 'outbox', u.id::text, 'retry_wait', 'pending', 'fall_due', $2, 'system' FROM u
)
SELECT count(*) AS n FROM u";

/// `$1` at most so many, `$2` actor.
pub(super) const EXPIRE: &str = "-- outbox_expire
WITH c AS (
  SELECT o.id FROM router.outbox o WHERE o.state = 'delivering' AND o.leased_until < now()
  ORDER BY o.leased_until, o.id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
), u AS (
  UPDATE router.outbox o SET state = 'retry_wait', attempts = o.attempts - 1, available_at = clock_timestamp(),
    lease_token = NULL, leased_until = NULL
  FROM c WHERE o.id = c.id AND o.state = 'delivering' AND o.leased_until < now() RETURNING o.id
), t AS (
  INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type, reason)
  SELECT 'outbox', u.id::text, 'delivering', 'retry_wait', 'expire', $2, 'system', 'its lease ran out' FROM u
)
SELECT count(*) AS n FROM u";

/// Locks in id order, so that two settlements cannot deadlock.
pub(super) const LOCK: &str = "-- outbox_lock
SELECT o.id FROM router.outbox o WHERE o.id = ANY($1::bigint[]) ORDER BY o.id FOR NO KEY UPDATE";

/// Ends deliveries, fenced. `$1` ids, `$2` tokens, `$3` commands, `$4` states they lead to, `$5` attempts given back,
/// `$6` pauses in seconds, `$7` ids the other side gave, `$8` errors, `$9` kinds of dead-letter record, `$10` actor.
pub(super) const SETTLE: &str = "-- outbox_settle
WITH w AS (
  SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::int[], $6::float8[], $7::text[], $8::text[],
    $9::text[]) AS t(id, token, command, to_state, refund, pause, message_id, error, grave)
), u AS (
  UPDATE router.outbox o SET state = w.to_state, attempts = o.attempts - w.refund,
    available_at = CASE WHEN w.pause IS NULL THEN o.available_at
      ELSE clock_timestamp() + make_interval(secs => w.pause) END,
    lease_token = NULL, leased_until = NULL,
    delivered_at = CASE WHEN w.to_state = 'delivered' THEN clock_timestamp() END,
    message_id = COALESCE(w.message_id, o.message_id), error = COALESCE(w.error, o.error)
  FROM w WHERE o.id = w.id AND o.state = 'delivering' AND o.lease_token = w.token
  RETURNING o.id, o.kind, o.entity_id, o.payload, o.claims, w.command, w.to_state, w.error, w.grave
), t AS (
  INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type, reason)
  SELECT 'outbox', u.id::text, 'delivering', u.to_state, u.command, $10, 'worker', u.error FROM u
), d AS (
  INSERT INTO router.dead_letters (id, kind, at, submission_id, reason, message_id, payload, payload_sha256, attributes)
  SELECT gen_random_uuid(), u.grave, clock_timestamp(), u.entity_id, u.error, 'outbox:' || u.id || ':' || u.claims,
    convert_to(u.payload::text, 'UTF8'), encode(sha256(convert_to(u.payload::text, 'UTF8')), 'hex'),
    jsonb_build_object('type', u.kind, 'v', '1')
  FROM u WHERE u.to_state = 'dead_letter'
  ON CONFLICT (message_id) DO NOTHING
)
SELECT u.id, u.command FROM u";

/// Makes leases longer, fenced. `$1` ids, `$2` tokens, `$3` seconds. What is not answered is not ours any more.
pub(super) const EXTEND: &str = "-- outbox_extend
UPDATE router.outbox o SET leased_until = clock_timestamp() + make_interval(secs => $3)
FROM unnest($1::bigint[], $2::uuid[]) AS t(id, token)
WHERE o.id = t.id AND o.state = 'delivering' AND o.lease_token = t.token
RETURNING o.id";

/// `$1` the row, `$2` actor, `$3` reason. Closes its dead-letter record as well.
pub(super) const REDRIVE: &str = "-- outbox_redrive
WITH u AS (
  UPDATE router.outbox o SET state = 'pending', attempts = 0, available_at = clock_timestamp(), error = NULL
  WHERE o.id = $1 AND o.state = 'dead_letter' RETURNING o.id
), t AS (
  INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type, reason)
  SELECT 'outbox', u.id::text, 'dead_letter', 'pending', 'redrive', $2, 'operator', $3 FROM u
), d AS (
  UPDATE router.dead_letters d SET redriven_at = clock_timestamp(), actor = $2, reason_closed = $3 FROM u
  WHERE d.message_id LIKE 'outbox:' || u.id || ':%' AND d.redriven_at IS NULL AND d.discarded_at IS NULL
)
SELECT u.id, pg_notify('maple_router_outbox', '') FROM u";

/// The state of one row. `$1` the row.
pub(super) const STATE: &str = "-- outbox_state
SELECT o.state FROM router.outbox o WHERE o.id = $1";

/// Events for submissions, as an operator asks for them; also for those that do not exist. `$1` ids, `$2` reason.
pub(super) const ANNOUNCE: &str = "-- outbox_announce
WITH n AS (
  INSERT INTO router.outbox (kind, entity_id, payload)
  SELECT 'routing.ready', t.id, jsonb_strip_nulls(jsonb_build_object('submission_id', t.id, 'form_id', s.form_id,
    'reason', $2::text))
  FROM unnest($1::uuid[]) WITH ORDINALITY AS t(id, place) LEFT JOIN submissions s ON s.id = t.id ORDER BY t.place
  RETURNING id, entity_id
)
SELECT n.id, n.entity_id, pg_notify('maple_router_outbox', '') FROM n ORDER BY n.id";

/// A canary.
pub(super) const CANARY: &str = "-- outbox_canary
WITH n AS (INSERT INTO router.outbox (kind, payload) VALUES ('canary', '{}') RETURNING id)
SELECT n.id, pg_notify('maple_router_outbox', '') FROM n";

/// Removes what was delivered more than `$1` seconds ago, `$2` rows at most, with its part of the transition log. By arrays,
/// which are looked up: to join the log with what was removed, all of it would be read.
pub(super) const PRUNE: &str = "-- outbox_prune
WITH c AS (
  SELECT o.id FROM router.outbox o
  WHERE o.state = 'delivered' AND o.delivered_at < now() - make_interval(secs => $1)
  ORDER BY o.delivered_at, o.id LIMIT $2 FOR UPDATE SKIP LOCKED
), g AS (
  DELETE FROM router.outbox o WHERE o.id = ANY(ARRAY(SELECT c.id FROM c)) AND o.state = 'delivered' RETURNING o.id
), t AS (
  DELETE FROM router.transitions t WHERE t.lifecycle = 'outbox' AND t.entity_id = ANY(ARRAY(SELECT g.id::text FROM g))
)
SELECT count(*) AS n FROM g";

/// How much is in each state that is not over, and for how long, in seconds: what waits, since it was due (a redrive
/// begins anew, and a pause before the next try is no delay); the others, since the oldest was written. Apart, so that each
/// is answered from its own partial index.
pub(super) const DEPTHS: &str = "-- outbox_depths
SELECT 'pending' AS state, count(*) AS n, EXTRACT(EPOCH FROM now() - min(o.available_at))::float8 AS oldest
FROM router.outbox o WHERE o.state = 'pending'
UNION ALL SELECT 'delivering', count(*), EXTRACT(EPOCH FROM now() - min(o.created_at))::float8
FROM router.outbox o WHERE o.state = 'delivering'
UNION ALL SELECT 'retry_wait', count(*), EXTRACT(EPOCH FROM now() - min(o.available_at))::float8
FROM router.outbox o WHERE o.state = 'retry_wait'
UNION ALL SELECT 'dead_letter', count(*), EXTRACT(EPOCH FROM now() - min(o.created_at))::float8
FROM router.outbox o WHERE o.state = 'dead_letter'";

/// The rows about one submission, the youngest first. `$1` the submission, `$2` at most so many.
pub(super) const ABOUT: &str = "-- outbox_about
SELECT o.id, o.state, o.payload->>'reason' AS reason, o.created_at, o.available_at, o.delivered_at, o.message_id, o.claims,
  o.error
FROM router.outbox o WHERE o.entity_id = $1 ORDER BY o.id DESC LIMIT $2";
