-- Schemas mq and grading: the queues between the two sides of grading, and the grader's own. Applied by `maple-router migrate --grading` after
-- 001, or alone by `maple-router migrate --grader` where the grader has a database of its own; the way back is down/002_grader.sql. Nothing
-- here names another schema: what joins the sides in one database is 003.
--
-- Each side writes its own: a producer puts messages into its queue and reads none of them, a consumer takes them out and changes no payload.
-- Between two databases, or where it is wished, a topic carries them: the producer's relay publishes what is in its queue, the consumer's
-- receiver puts it into the queue of its own database, where it has arrived.
-- The grader's role knows nothing of submissions but what a request says, and of people nothing at all.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'maple_grader') THEN
        CREATE ROLE maple_grader LOGIN;
        -- As the screener's (screening/001).
        ALTER ROLE maple_grader SET enable_seqscan = off;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of this cluster was being migrated at the same moment
END
$$;

-- ── queues ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE mq.grading_request (
    message_id   uuid PRIMARY KEY,
    payload      jsonb NOT NULL,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- How often it was taken out and put back: what the database refuses again and again is nobody's message.
    tries        int NOT NULL DEFAULT 0 CHECK (tries >= 0),
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Whether it has come over a topic; where there is none, nobody asks.
    arrived      boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX grading_request_due ON mq.grading_request (available_at, message_id);
CREATE INDEX grading_request_submission ON mq.grading_request ((payload->>'submissionId'));

CREATE TABLE mq.grading_callback (
    message_id   uuid PRIMARY KEY,
    payload      jsonb NOT NULL,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries        int NOT NULL DEFAULT 0 CHECK (tries >= 0),
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    arrived      boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX grading_callback_due ON mq.grading_callback (available_at, message_id);
-- Nothing is timed out whose callback waits here.
CREATE INDEX grading_callback_of ON mq.grading_callback ((payload->>'requestId'));

-- Messages that nobody could read or take in. Emptied with their submission.
CREATE TABLE mq.grading_dlq (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    queue      text NOT NULL CHECK (queue IN ('request', 'callback')),
    message_id uuid NOT NULL,
    payload    jsonb NOT NULL,
    reason     text NOT NULL CHECK (reason ~ '^[a-z_]{1,40}$'),
    -- What was wrong, in words of ours.
    detail     text NOT NULL DEFAULT '' CHECK (length(detail) <= 500),
    at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX grading_dlq_at ON mq.grading_dlq (at DESC, id);

CREATE FUNCTION mq.wake() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_notify(TG_ARGV[0], '');
    RETURN NULL;
END
$$;
CREATE TRIGGER wake AFTER INSERT ON mq.grading_request FOR EACH STATEMENT EXECUTE FUNCTION mq.wake('maple_router_grading_request');
CREATE TRIGGER wake AFTER INSERT ON mq.grading_callback FOR EACH STATEMENT EXECUTE FUNCTION mq.wake('maple_router_grading_callback');

-- How many messages wait, and since when; for whoever may not look into them.
CREATE FUNCTION mq.depths() RETURNS TABLE (queue text, waiting bigint, oldest float8)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 'request', count(*), COALESCE(extract(epoch FROM now() - min(q.at)), 0)::float8 FROM mq.grading_request q
    UNION ALL SELECT 'callback', count(*), COALESCE(extract(epoch FROM now() - min(q.at)), 0)::float8 FROM mq.grading_callback q
    UNION ALL SELECT 'dead', count(*), COALESCE(extract(epoch FROM now() - min(q.at)), 0)::float8 FROM mq.grading_dlq q
$$;

-- The dead messages, without what is in them.
CREATE FUNCTION mq.dead(most int) RETURNS TABLE (id uuid, queue text, reason text, detail text, request text, at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT d.id, d.queue, d.reason, d.detail, substring(d.payload->>'requestId' FROM '^[0-9a-fA-F-]{36}$'), d.at
    FROM mq.grading_dlq d ORDER BY d.at DESC, d.id LIMIT most
$$;

-- Dead messages go with their submission.
CREATE FUNCTION mq.forget_dead(submission uuid) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    DELETE FROM mq.grading_dlq d WHERE d.payload->>'submissionId' = submission::text
$$;

-- ── the topics' ends ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- Requests that are to be published, the longest-waiting first: no other relay has them for so many seconds.
CREATE FUNCTION mq.requests_to_send(most int, seconds float8) RETURNS TABLE (message_id uuid, payload text, at timestamptz)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE mq.grading_request q SET available_at = clock_timestamp() + make_interval(secs => seconds)
    FROM (SELECT x.message_id FROM mq.grading_request x WHERE x.available_at <= clock_timestamp() AND NOT x.arrived
        ORDER BY x.available_at, x.message_id LIMIT most FOR UPDATE SKIP LOCKED) x
    WHERE q.message_id = x.message_id RETURNING q.message_id, q.payload::text, q.at
$$;

-- The topic has them.
CREATE FUNCTION mq.requests_sent(ids uuid[]) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    DELETE FROM mq.grading_request q WHERE q.message_id = ANY(ids) AND NOT q.arrived
$$;

-- One has come over the topic, written at this time. In one database it may still be there as the producer's. Answers its age in seconds.
CREATE FUNCTION mq.request_arrived(message uuid, payload jsonb, written timestamptz) RETURNS float8
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO mq.grading_request AS q (message_id, payload, at, arrived) VALUES (message, payload, written, true)
    ON CONFLICT (message_id) DO UPDATE SET arrived = true, available_at = CASE WHEN q.arrived THEN q.available_at ELSE clock_timestamp() END;
    SELECT extract(epoch FROM clock_timestamp() - written)::float8
$$;

-- Callbacks that are to be published, the longest-waiting first: no other relay has them for so many seconds.
CREATE FUNCTION mq.callbacks_to_send(most int, seconds float8) RETURNS TABLE (message_id uuid, payload text, at timestamptz)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE mq.grading_callback q SET available_at = clock_timestamp() + make_interval(secs => seconds)
    FROM (SELECT x.message_id FROM mq.grading_callback x WHERE x.available_at <= clock_timestamp() AND NOT x.arrived
        ORDER BY x.available_at, x.message_id LIMIT most FOR UPDATE SKIP LOCKED) x
    WHERE q.message_id = x.message_id RETURNING q.message_id, q.payload::text, q.at
$$;

-- The topic has them.
CREATE FUNCTION mq.callbacks_sent(ids uuid[]) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    DELETE FROM mq.grading_callback q WHERE q.message_id = ANY(ids) AND NOT q.arrived
$$;

-- One has come over the topic, written at this time. In one database it may still be there as the producer's. Answers its age in seconds.
CREATE FUNCTION mq.callback_arrived(message uuid, payload jsonb, written timestamptz) RETURNS float8
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO mq.grading_callback AS q (message_id, payload, at, arrived) VALUES (message, payload, written, true)
    ON CONFLICT (message_id) DO UPDATE SET arrived = true, available_at = CASE WHEN q.arrived THEN q.available_at ELSE clock_timestamp() END;
    SELECT extract(epoch FROM clock_timestamp() - written)::float8
$$;

-- ── the grader ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- A job. The lifecycle is "grading_job" (`maple-router lifecycle show grading_job`).
CREATE TABLE grading.jobs (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    request_id    uuid NOT NULL UNIQUE,
    submission_id uuid NOT NULL,
    attempt       int NOT NULL CHECK (attempt > 0),
    skill         text NOT NULL CHECK (skill IN ('writing', 'speaking')),
    -- The request as it came; null where it was emptied, a day after the end or when it is to be forgotten.
    payload       jsonb CHECK (jsonb_typeof(payload) = 'object'),
    deadline      timestamptz NOT NULL,
    state         text NOT NULL DEFAULT 'QUEUED' CHECK (state IN ('QUEUED', 'PROCESSING', 'ERROR', 'RETRYING', 'COMPLETED', 'FAILED')),
    version       bigint NOT NULL DEFAULT 1,
    retries       int NOT NULL DEFAULT 0 CHECK (retries BETWEEN 0 AND 3),
    -- The number of the last callback.
    seq           int NOT NULL DEFAULT 0 CHECK (seq >= 0),
    -- The last failed try: its kind, a word of ours, whether another may succeed, the pause that was asked for.
    error         jsonb CHECK (jsonb_typeof(error) = 'object' AND pg_column_size(error) < 1024),
    -- The last callback, for whoever asks again; emptied with the request.
    callback      jsonb CHECK (jsonb_typeof(callback) = 'object'),
    -- Seconds until the try that follows.
    pause         float8 CHECK (pause >= 0),
    -- Nobody waits for it any more: no call begins after that.
    cancelled_at  timestamptz,
    -- Its submission was emptied: what it has goes when it ends.
    forgotten_at  timestamptz,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    state_since   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    work          text NOT NULL GENERATED ALWAYS AS (CASE WHEN state IN ('COMPLETED', 'FAILED') THEN 'ended' ELSE 'live' END) STORED,
    -- Claims of earlier states: with them a try's number is never given twice.
    claims_before int NOT NULL DEFAULT 0 CHECK (claims_before >= 0),
    attempts      int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    claims        int NOT NULL DEFAULT 0 CHECK (claims >= 0),
    returned      int NOT NULL DEFAULT 0 CHECK (returned >= 0),
    available_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token   uuid,
    leased_until  timestamptz,
    CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
    CHECK (lease_token IS NULL OR ended_at IS NULL),
    CHECK ((state IN ('COMPLETED', 'FAILED')) = (ended_at IS NOT NULL)),
    CHECK (payload IS NOT NULL OR ended_at IS NOT NULL)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX jobs_queued ON grading.jobs (available_at, id) WHERE state = 'QUEUED' AND lease_token IS NULL;
CREATE INDEX jobs_processing ON grading.jobs (available_at, id) WHERE state = 'PROCESSING' AND lease_token IS NULL;
CREATE INDEX jobs_error ON grading.jobs (available_at, id) WHERE state = 'ERROR' AND lease_token IS NULL;
CREATE INDEX jobs_retrying ON grading.jobs (available_at, id) WHERE state = 'RETRYING' AND lease_token IS NULL;
CREATE INDEX jobs_leased ON grading.jobs (leased_until, id) WHERE leased_until IS NOT NULL;
CREATE INDEX jobs_full ON grading.jobs (ended_at, id) WHERE ended_at IS NOT NULL AND payload IS NOT NULL;
CREATE INDEX jobs_submission ON grading.jobs (submission_id);

CREATE TABLE grading.events (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id     uuid NOT NULL REFERENCES grading.jobs ON DELETE CASCADE,
    from_state text,
    to_state   text NOT NULL,
    trigger    text NOT NULL,
    actor      text NOT NULL CHECK (actor <> ''),
    actor_type text NOT NULL CHECK (actor_type IN ('system', 'worker')),
    metadata   jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object' AND pg_column_size(metadata) < 4096),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX events_job ON grading.events (job_id, created_at);

-- Calls that were paid for: by what was asked, so that a crash, a later try and another attempt repeat only what is missing.
CREATE TABLE grading.steps (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id       uuid NOT NULL REFERENCES grading.jobs ON DELETE CASCADE,
    kind         text NOT NULL CHECK (kind IN ('transcribe', 'sample')),
    number       int NOT NULL CHECK (number BETWEEN 1 AND 9),
    -- SHA-256 of what was asked: question, work, model, prompt.
    input_digest text NOT NULL CHECK (input_digest ~ '^[0-9a-f]{64}$'),
    -- What was answered; null where it was emptied.
    output       jsonb CHECK (pg_column_size(output) < 131072),
    model        text NOT NULL CHECK (length(model) BETWEEN 1 AND 200),
    -- Taken over from a step of another job: it cost nothing.
    copied       boolean NOT NULL DEFAULT false,
    tokens       int NOT NULL DEFAULT 0 CHECK (tokens >= 0),
    took_ms      int NOT NULL DEFAULT 0 CHECK (took_ms >= 0),
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (job_id, kind, number, input_digest)
);
CREATE INDEX steps_same ON grading.steps (input_digest, kind, number) WHERE output IS NOT NULL AND NOT copied;

CREATE TABLE grading.spent (
    day    date PRIMARY KEY,
    tokens bigint NOT NULL CHECK (tokens >= 0)
);

-- A model grades alone only after it was tried on a labelled corpus.
CREATE TABLE grading.calibrations (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    skill    text NOT NULL CHECK (skill IN ('writing', 'speaking')),
    models   text NOT NULL CHECK (length(models) BETWEEN 1 AND 600),
    prompt   text NOT NULL,
    rubric   text NOT NULL,
    items    int NOT NULL CHECK (items >= 0),
    answered int NOT NULL CHECK (answered BETWEEN 0 AND items),
    -- Agreement with people: quadratic weighted kappa of bands, mean absolute error of scores, expected calibration error.
    qwk      float8 NOT NULL CHECK (qwk BETWEEN -1 AND 1),
    mae      float8 NOT NULL CHECK (mae >= 0),
    ece      float8 NOT NULL CHECK (ece BETWEEN 0 AND 1),
    suffices boolean NOT NULL,
    actor    text NOT NULL CHECK (actor <> ''),
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (NOT suffices OR (items >= 30 AND answered = items AND qwk >= 0.7 AND mae <= 0.75))
);
CREATE INDEX calibrations_newest ON grading.calibrations (skill, models, prompt, rubric, id DESC);

-- Submissions that were emptied: a request of theirs that is still on its way becomes no job.
CREATE TABLE grading.forgotten (
    submission_id uuid PRIMARY KEY,
    at            timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION grading.guard_job() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (NEW.id, NEW.request_id, NEW.submission_id, NEW.attempt, NEW.skill, NEW.deadline, NEW.created_at)
        IS DISTINCT FROM (OLD.id, OLD.request_id, OLD.submission_id, OLD.attempt, OLD.skill, OLD.deadline, OLD.created_at)
        OR (NEW.payload IS NOT NULL AND NEW.payload IS DISTINCT FROM OLD.payload) THEN
        RAISE EXCEPTION 'job %: what it is about does not change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = OLD.state THEN
        IF NEW.lease_token IS NULL AND OLD.leased_until > clock_timestamp() THEN
            NEW.returned := OLD.returned + 1;
        END IF;
        RETURN NEW;
    END IF;
    IF NOT ((OLD.state, NEW.state) IN (('QUEUED', 'PROCESSING'), ('PROCESSING', 'COMPLETED'), ('PROCESSING', 'ERROR'), ('ERROR', 'RETRYING'),
        ('ERROR', 'FAILED'), ('RETRYING', 'PROCESSING'))) THEN
        RAISE EXCEPTION 'job %: no edge leads from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    NEW.retries := OLD.retries + (NEW.state = 'RETRYING')::int;
    NEW.state_since := clock_timestamp();
    NEW.ended_at := CASE WHEN NEW.state IN ('COMPLETED', 'FAILED') THEN NEW.state_since END;
    NEW.claims_before := OLD.claims_before + OLD.claims;
    NEW.claims := 0;
    NEW.returned := 0;
    NEW.attempts := 0;
    NEW.available_at := NEW.state_since + CASE WHEN NEW.state = 'RETRYING' THEN make_interval(secs => COALESCE(NEW.pause, 0))
        ELSE interval '0' END;
    RETURN NEW;
END
$$;
CREATE TRIGGER guard BEFORE UPDATE ON grading.jobs FOR EACH ROW EXECUTE FUNCTION grading.guard_job();

CREATE FUNCTION grading.wake() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_notify('maple_router_grading_job', '');
    RETURN NULL;
END
$$;
-- Row by row: a claim that finds nothing, or that takes a job without moving it, must wake nobody. The graders would wake each other for ever.
CREATE TRIGGER woken AFTER INSERT ON grading.jobs FOR EACH ROW EXECUTE FUNCTION grading.wake();
CREATE TRIGGER moved AFTER UPDATE OF state ON grading.jobs FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION grading.wake();

-- ── what is forgotten ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- Empties jobs that ended longer than `keep` ago. Answers how many.
CREATE FUNCTION grading.empty_ended(keep interval, most int) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    ids uuid[];
BEGIN
    SELECT array_agg(x.id) INTO ids FROM (SELECT j.id FROM grading.jobs j WHERE j.ended_at < now() - keep AND j.payload IS NOT NULL
        ORDER BY j.ended_at, j.id LIMIT most FOR NO KEY UPDATE SKIP LOCKED) x;
    UPDATE grading.steps s SET output = NULL WHERE s.job_id = ANY(ids) AND s.output IS NOT NULL;
    UPDATE grading.jobs j SET payload = NULL, callback = NULL WHERE j.id = ANY(ids);
    RETURN COALESCE(cardinality(ids), 0);
END
$$;

-- ── rights ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

GRANT USAGE ON SCHEMA mq, grading TO maple_grader;
GRANT SELECT, DELETE, UPDATE (tries, available_at) ON mq.grading_request TO maple_grader;
GRANT INSERT (message_id, payload) ON mq.grading_callback TO maple_grader;
GRANT INSERT (queue, message_id, payload, reason, detail) ON mq.grading_dlq TO maple_grader;
GRANT SELECT, INSERT ON grading.jobs TO maple_grader;
GRANT UPDATE (state, version, retries, seq, error, callback, pause, cancelled_at, forgotten_at, payload, attempts, claims, available_at, lease_token, leased_until)
    ON grading.jobs TO maple_grader;
GRANT SELECT, INSERT ON grading.events, grading.calibrations TO maple_grader;
GRANT SELECT, INSERT, UPDATE (output) ON grading.steps TO maple_grader;
GRANT SELECT, INSERT, UPDATE ON grading.spent TO maple_grader;
GRANT SELECT, INSERT, DELETE ON grading.forgotten TO maple_grader;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA mq FROM PUBLIC;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA grading FROM PUBLIC;
GRANT EXECUTE ON FUNCTION mq.depths(), mq.dead(int), mq.forget_dead(uuid), mq.callbacks_to_send(int, float8), mq.callbacks_sent(uuid[]),
    mq.request_arrived(uuid, jsonb, timestamptz) TO maple_grader;
GRANT EXECUTE ON FUNCTION grading.empty_ended(interval, int) TO maple_grader;
