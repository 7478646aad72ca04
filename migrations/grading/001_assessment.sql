-- Schema assessment: an answer is assessed in time, or a person is told. Main's side of grading: which forms are graded, each attempt at it,
-- its results and events, and the gate behind which a form's mail waits for its grade. Optional, on top of schema router: without it every
-- submission is routed as it always was. Applied by `maple-router migrate --grading` as the owner of the tables; the way back is
-- down/001_assessment.sql.
--
-- What must hold whoever writes stands here as constraints and triggers: an attempt changes its state by an edge of the table alone, and never
-- after its end; it has one final result; a review is ended by assessment.review alone; a submission of a gated form is claimed only when it
-- is graded, released, or failed with leave to go. The grader is another role with another schema (002): it reads and writes nothing here.

-- The desk's role: all that the daemon's may, and to review as a person (screening/001 makes it as well).
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'maple_desk') THEN
        CREATE ROLE maple_desk LOGIN IN ROLE forms_app;
    ELSIF NOT pg_has_role('maple_desk', 'forms_app', 'USAGE') THEN
        GRANT forms_app TO maple_desk;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of this cluster was being migrated at the same moment
END
$$;

INSERT INTO router.grey_queue_causes (cause, subject_kind, queue) VALUES
    ('grading', 'assessment', 'grading'),
    ('grading_failed', 'assessment_failed', 'operations'),
    ('grading_message', 'grading_message', 'operations');

-- Instructors see and review grades, and nothing else of the desk; their tokens may be capped as such.
ALTER TABLE router.desk_credentials DROP CONSTRAINT desk_credentials_role_cap_check,
    ADD CONSTRAINT desk_credentials_role_cap_check CHECK (role_cap IN ('viewer', 'instructor', 'reviewer', 'security', 'admin'));

-- What is asked: the text of a task, or the key of a test.
CREATE TABLE assessment.questions (
    id         text PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9._-]{1,80}$'),
    skill      text NOT NULL CHECK (skill IN ('writing', 'speaking', 'listening', 'reading')),
    prompt     text NOT NULL DEFAULT '' CHECK (octet_length(prompt) <= 16384),
    -- Of listening and reading: an item's key, and the answers that are right.
    answer_key jsonb CHECK (jsonb_typeof(answer_key) = 'object' AND pg_column_size(answer_key) < 262144),
    -- Texts that are known: whoever hands one in has not written it.
    known      jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(known) = 'array' AND pg_column_size(known) < 65536),
    rubric     text NOT NULL DEFAULT '1' CHECK (rubric ~ '^[A-Za-z0-9._-]{1,40}$'),
    set_by     text NOT NULL CHECK (set_by <> ''),
    set_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The forms that are graded. A form that is not here is not.
CREATE TABLE assessment.profiles (
    form_id       text PRIMARY KEY,
    skill         text NOT NULL CHECK (skill IN ('writing', 'speaking', 'listening', 'reading')),
    question      text NOT NULL REFERENCES assessment.questions,
    -- Writing: the field with the text, and its task. Speaking: the part; the audio is the first attachment.
    text_field    text CHECK (text_field <> ''),
    task          text CHECK (task IN ('email', 'essay')),
    part          int CHECK (part BETWEEN 1 AND 3),
    -- The field by which the learner consents to a model outside this house; null: none is needed.
    consent_field text CHECK (consent_field <> ''),
    -- Whether the mail waits for the grade, and what becomes of it where there will be none.
    gate          boolean NOT NULL DEFAULT true,
    on_failed     text NOT NULL DEFAULT 'hold' CHECK (on_failed IN ('hold', 'send')),
    sla           interval NOT NULL CHECK (sla > '0' AND sla <= '7 days'),
    -- Submissions created since then are graded.
    since         timestamptz NOT NULL DEFAULT clock_timestamp(),
    set_by        text NOT NULL CHECK (set_by <> ''),
    set_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((skill = 'writing') = (text_field IS NOT NULL)),
    CHECK ((skill = 'writing') = (task IS NOT NULL)),
    CHECK ((skill = 'speaking') = (part IS NOT NULL))
);

-- An attempt: one passage of a submission (its subject); its id is the request's. The lifecycle is "grading"
-- (`maple-router lifecycle show grading`).
CREATE TABLE assessment.submissions (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    subject       uuid NOT NULL,
    attempt       int NOT NULL CHECK (attempt > 0),
    current       boolean NOT NULL DEFAULT true,
    form_id       text NOT NULL,
    skill         text NOT NULL CHECK (skill IN ('writing', 'speaking', 'listening', 'reading')),
    gate          boolean NOT NULL,
    on_failed     text NOT NULL CHECK (on_failed IN ('hold', 'send')),
    state         text NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'QUEUED', 'PROCESSING', 'ERROR', 'RETRYING', 'REVIEW_PENDING',
                  'COMPLETED', 'FAILED')),
    -- Raised by every transition: the fence of people.
    version       bigint NOT NULL DEFAULT 1,
    -- Who asked for this attempt; absent for the first one.
    opened_by     text CHECK (opened_by <> ''),
    opened_why    text CHECK (length(opened_why) BETWEEN 1 AND 2000),
    deadline      timestamptz NOT NULL,
    -- The newest progress that was heard of: the job's try, and the number of its callback.
    try           int NOT NULL DEFAULT 0 CHECK (try >= 0),
    seq           int NOT NULL DEFAULT 0 CHECK (seq >= 0),
    -- Of the review: how much a person is wanted, and how sure the grader was.
    priority      text CHECK (priority IN ('Critical', 'High', 'Medium')),
    confidence    int CHECK (confidence BETWEEN 0 AND 100),
    failed_reason text CHECK (failed_reason ~ '^[a-z_]{1,40}$'),
    -- The mail goes without a grade.
    released_at   timestamptz,
    released_by   text CHECK (released_by <> ''),
    released_why  text CHECK (length(released_why) BETWEEN 1 AND 2000),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    state_since   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    -- The attempt ended without a transition: its submission was emptied.
    closed_at     timestamptz,
    work          text NOT NULL GENERATED ALWAYS AS (CASE WHEN closed_at IS NULL THEN 'live' ELSE 'closed' END) STORED,
    attempts      int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    claims        int NOT NULL DEFAULT 0 CHECK (claims >= 0),
    -- Of these claims, those from which somebody came back: the others ended with the lease.
    returned      int NOT NULL DEFAULT 0 CHECK (returned >= 0),
    available_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token   uuid,
    leased_until  timestamptz,
    UNIQUE (subject, attempt),
    CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
    CHECK (lease_token IS NULL OR (state = 'PENDING' AND closed_at IS NULL)),
    CHECK ((state IN ('COMPLETED', 'FAILED')) = (ended_at IS NOT NULL)),
    CHECK ((state = 'FAILED') = (failed_reason IS NOT NULL)),
    CHECK (state <> 'REVIEW_PENDING' OR priority IS NOT NULL),
    CHECK ((released_at IS NULL) = (released_by IS NULL)),
    CHECK ((released_at IS NULL) = (released_why IS NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX submissions_current ON assessment.submissions (subject) WHERE current;
-- By form: each has its turn.
CREATE INDEX submissions_pending ON assessment.submissions (form_id, available_at, id)
    WHERE state = 'PENDING' AND lease_token IS NULL AND work = 'live';
CREATE INDEX submissions_leased ON assessment.submissions (leased_until, id) WHERE leased_until IS NOT NULL;
CREATE INDEX submissions_due ON assessment.submissions (deadline, id)
    WHERE state IN ('PENDING', 'QUEUED', 'PROCESSING', 'ERROR', 'RETRYING') AND closed_at IS NULL;
CREATE INDEX submissions_open ON assessment.submissions (state, state_since, id) WHERE ended_at IS NULL AND closed_at IS NULL;
CREATE INDEX submissions_created ON assessment.submissions (created_at DESC, id);
CREATE INDEX submissions_ended ON assessment.submissions (ended_at, id) WHERE ended_at IS NOT NULL;

-- One event for each transition, and for each result that came late or twice; never changed.
CREATE TABLE assessment.events (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    submission_id uuid NOT NULL REFERENCES assessment.submissions ON DELETE CASCADE,
    from_state    text,
    to_state      text NOT NULL,
    trigger       text NOT NULL,
    actor         text NOT NULL CHECK (actor <> ''),
    actor_type    text NOT NULL CHECK (actor_type IN ('system', 'worker', 'admin')),
    -- Codes, counts, scores, model: never a text of the submission.
    metadata      jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object' AND pg_column_size(metadata) < 4096),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- In the order of writing, for whoever follows them.
    number        bigint GENERATED ALWAYS AS IDENTITY UNIQUE
);
CREATE INDEX events_attempt ON assessment.events (submission_id, number);
CREATE INDEX events_at ON assessment.events (created_at);

-- Callbacks that were taken in: sent twice, taken in once.
CREATE TABLE assessment.callbacks (
    event_id   uuid PRIMARY KEY,
    request_id uuid NOT NULL REFERENCES assessment.submissions ON DELETE CASCADE,
    at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX callbacks_request ON assessment.callbacks (request_id);

CREATE TABLE assessment.results (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    request_id uuid NOT NULL REFERENCES assessment.submissions ON DELETE CASCADE,
    kind       text NOT NULL CHECK (kind IN ('ai', 'human', 'final')),
    try        int NOT NULL CHECK (try >= 0),
    -- It came after the attempt had failed: shown to the learner, counted nowhere.
    is_late    boolean NOT NULL DEFAULT false,
    -- Another result of the same try: kept, and used by nobody.
    dup        boolean NOT NULL DEFAULT false,
    -- As the result's schema has it; null where its submission was emptied.
    result     jsonb CHECK (jsonb_typeof(result) = 'object' AND pg_column_size(result) < 65536),
    digest     text NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    score      numeric(3, 1) NOT NULL CHECK (score BETWEEN 0 AND 10),
    band       text NOT NULL CHECK (band IN ('A1', 'A2', 'B1', 'B2', 'C1')),
    -- What the grader has read or heard of the work, for whoever reviews it.
    transcript text CHECK (octet_length(transcript) <= 65536),
    actor      text NOT NULL CHECK (actor <> ''),
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (NOT is_late OR kind = 'ai'),
    CHECK (NOT dup OR kind = 'ai')
);
CREATE UNIQUE INDEX results_first ON assessment.results (request_id, kind, try) WHERE NOT dup;
CREATE UNIQUE INDEX results_dup ON assessment.results (request_id, try, digest) WHERE dup;
CREATE UNIQUE INDEX results_final ON assessment.results (request_id) WHERE kind = 'final';
CREATE INDEX results_request ON assessment.results (request_id);
CREATE INDEX results_at ON assessment.results (at);

-- What a learner's progress is made of: the final results of current attempts. What came late is in none.
CREATE VIEW assessment.progress AS
    SELECT a.subject, a.id AS request_id, a.form_id, a.skill, r.score, r.band, r.at
    FROM assessment.submissions a JOIN assessment.results r ON r.request_id = a.id AND r.kind = 'final' AND NOT r.is_late
    WHERE a.current AND a.state = 'COMPLETED';

-- Submissions whose attempt could not be opened in the transaction that made them ready.
CREATE TABLE assessment.unborn (
    subject uuid PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One-time tickets of learners: for one attempt, a minute, once. Kept as digests.
CREATE TABLE assessment.tickets (
    digest     bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
    subject    uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX tickets_expiry ON assessment.tickets (expires_at);

-- ── the gate ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- passed: not graded, not gated, graded, released, or failed with leave to go. waiting: anything else; also where its form is gated and it
-- has no attempt yet. Parsed here, so that the planner makes it a part of the claim.
CREATE FUNCTION assessment.gates(submission uuid, form text, created timestamptz) RETURNS TABLE (says text)
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT CASE
        WHEN a.id IS NOT NULL THEN CASE WHEN NOT a.gate OR a.state = 'COMPLETED' OR a.released_at IS NOT NULL
            OR (a.state = 'FAILED' AND a.on_failed = 'send') THEN 'passed' ELSE 'waiting' END
        WHEN EXISTS (SELECT FROM assessment.profiles p WHERE p.form_id = form AND p.gate AND p.since <= created) THEN 'waiting'
        ELSE 'passed' END
    FROM (SELECT) AS one LEFT JOIN assessment.submissions a ON a.subject = submission AND a.current;
END;

-- The same for those who may not look at attempts.
CREATE FUNCTION assessment.gate(submission uuid, form text, created timestamptz) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT g.says FROM assessment.gates(submission, form, created) AS g);
END
$$;

-- Whoever claims: a daemon whose configuration does not know of grading claims nothing that waits for it. A claim whose own transaction has
-- asked the gate, and heard `passed` for all of its rows, says so and is not asked again (screening/001, guard_claim).
CREATE FUNCTION assessment.guard_claim() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM assessment.gates(NEW.id, NEW.form_id::text, NEW.created_at) AS g WHERE g.says = 'passed') THEN
        RAISE EXCEPTION 'submission % is not graded yet', NEW.id USING ERRCODE = 'check_violation',
            HINT = 'The daemon that claims it does not know of grading: set grading.mode = "on" in its configuration.';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER assessment_guard_claim AFTER UPDATE ON public.submissions FOR EACH ROW
    WHEN (OLD.status = 'received' AND NEW.status = 'processing' AND current_setting('maple_router.graded', true) IS DISTINCT FROM 'asked')
    EXECUTE FUNCTION assessment.guard_claim();

-- What router/002 asks, and the gate behind it.
ALTER FUNCTION router.evaluate_routing_readiness(uuid) RENAME TO evaluate_ungraded_readiness;
CREATE FUNCTION router.evaluate_routing_readiness(submission uuid) RETURNS TABLE (state text, pending int)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    r record;
    gate text;
BEGIN
    SELECT * INTO r FROM router.evaluate_ungraded_readiness(submission);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF r.state = 'ready' THEN
        SELECT assessment.gate(s.id, s.form_id::text, s.created_at) INTO gate FROM public.submissions s WHERE s.id = submission;
        RETURN QUERY SELECT CASE gate WHEN 'passed' THEN 'ready' ELSE 'waiting' END, r.pending;
    ELSE
        RETURN QUERY SELECT r.state, r.pending;
    END IF;
END
$$;

-- ── births ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE FUNCTION assessment.ring() RETURNS void
    LANGUAGE sql
AS $$ SELECT pg_notify('maple_router_grading', '') $$;

-- Opens the first attempt of a submission that is ready but for its grade: finalized, every file clean, published where it is screened. The
-- time of its SLA begins here. Rings nobody: it is called in the backend's transaction, which may be a prepared one (router/003). Answers
-- whether it did.
CREATE FUNCTION assessment.birth(submission uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    s record;
    p assessment.profiles;
    born uuid;
    now_ timestamptz;
BEGIN
    SELECT x.id, x.form_id::text AS form_id, x.created_at, x.status::text AS status INTO s FROM public.submissions x WHERE x.id = submission;
    SELECT x.* INTO p FROM assessment.profiles x WHERE x.form_id = s.form_id AND x.since <= s.created_at;
    IF p.form_id IS NULL OR s.status NOT IN ('received', 'processing', 'routed')
        OR EXISTS (SELECT FROM assessment.submissions a WHERE a.subject = submission) THEN
        RETURN false;
    END IF;
    -- Whoever has claimed it has seen that it is ready.
    IF s.status = 'received' THEN
        IF NOT EXISTS (SELECT FROM router.evaluate_ungraded_readiness(submission) r WHERE r.state = 'ready') THEN
            RETURN false;
        END IF;
        -- In whichever order the two schemas came.
        IF to_regclass('screening.submissions') IS NOT NULL THEN
            IF screening.gate(submission, s.form_id, s.created_at) <> 'passed' THEN
                RETURN false;
            END IF;
        END IF;
    END IF;
    now_ := clock_timestamp();
    INSERT INTO assessment.submissions (subject, attempt, form_id, skill, gate, on_failed, deadline, created_at, state_since, available_at)
    VALUES (submission, 1, p.form_id, p.skill, p.gate, p.on_failed, now_ + p.sla, now_, now_, now_)
    ON CONFLICT DO NOTHING RETURNING id INTO born;
    IF born IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO assessment.events (submission_id, to_state, trigger, actor, actor_type, metadata)
    VALUES (born, 'PENDING', 'submit', 'system', 'system', jsonb_build_object('attempt', 1, 'skill', p.skill));
    RETURN true;
END
$$;

-- Where an event would be written, before it. Fails nobody: what it swallows is opened by the pass (assessment.births), and the gate is shut
-- meanwhile.
ALTER FUNCTION router.note_readiness(uuid, text, boolean) RENAME TO note_ungraded_readiness;
CREATE FUNCTION router.note_readiness(submission uuid, why text, newborn boolean) RETURNS void
    LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
BEGIN
    BEGIN
        PERFORM assessment.birth(submission);
    EXCEPTION WHEN OTHERS THEN
        RAISE WARNING 'no grading of submission %: %', submission, SQLERRM;
        INSERT INTO assessment.unborn (subject) VALUES (submission) ON CONFLICT DO NOTHING;
    END;
    PERFORM router.note_ungraded_readiness(submission, why, newborn);
END
$$;

-- Opens the attempts that nobody has opened. Answers how many.
CREATE FUNCTION assessment.births(most int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    missed uuid;
    made bigint := 0;
BEGIN
    FOR missed IN
        SELECT s.id FROM public.submissions s JOIN assessment.profiles p ON p.form_id = s.form_id::text
        WHERE s.status = 'received' AND p.since <= s.created_at
          AND NOT EXISTS (SELECT FROM assessment.submissions a WHERE a.subject = s.id)
        UNION SELECT u.subject FROM assessment.unborn u
        LIMIT most
    LOOP
        BEGIN
            IF assessment.birth(missed) THEN
                made := made + 1;
            END IF;
            DELETE FROM assessment.unborn u WHERE u.subject = missed;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'no grading of submission %: %', missed, SQLERRM;
        END;
    END LOOP;
    RETURN made;
END
$$;

-- ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE FUNCTION assessment.guard_attempt() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (NEW.id, NEW.subject, NEW.attempt, NEW.form_id, NEW.skill, NEW.gate, NEW.on_failed, NEW.deadline, NEW.created_at)
        IS DISTINCT FROM (OLD.id, OLD.subject, OLD.attempt, OLD.form_id, OLD.skill, OLD.gate, OLD.on_failed, OLD.deadline, OLD.created_at) THEN
        RAISE EXCEPTION 'attempt %: its subject, number, form, gate and deadline do not change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = OLD.state THEN
        IF NEW.lease_token IS NULL AND OLD.leased_until > clock_timestamp() AND NEW.closed_at IS NULL THEN
            NEW.returned := OLD.returned + 1;
        END IF;
        RETURN NEW;
    END IF;
    IF NOT ((OLD.state, NEW.state) IN (('PENDING', 'QUEUED'), ('PENDING', 'COMPLETED'), ('PENDING', 'FAILED'), ('QUEUED', 'FAILED'),
        ('QUEUED', 'PROCESSING'), ('PROCESSING', 'ERROR'), ('ERROR', 'RETRYING'), ('RETRYING', 'PROCESSING'), ('ERROR', 'FAILED'),
        ('RETRYING', 'FAILED'), ('PROCESSING', 'FAILED'), ('PROCESSING', 'COMPLETED'), ('PROCESSING', 'REVIEW_PENDING'),
        ('REVIEW_PENDING', 'COMPLETED'))) THEN
        RAISE EXCEPTION 'attempt %: no edge leads from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    -- Listening and reading are compared with a key, and nothing else is.
    IF (OLD.state, NEW.state) = ('PENDING', 'COMPLETED') AND NEW.skill NOT IN ('listening', 'reading') THEN
        RAISE EXCEPTION 'attempt %: % is not compared with a key', OLD.id, NEW.skill USING ERRCODE = 'check_violation';
    END IF;
    -- A person's edge is taken by assessment.review, which runs as the owner.
    IF OLD.state = 'REVIEW_PENDING' AND current_user <> (
        SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = 'assessment.submissions'::regclass) THEN
        RAISE EXCEPTION 'attempt %: % is left by a person''s review alone', OLD.id, OLD.state
            USING ERRCODE = 'insufficient_privilege', HINT = 'Review it at the review desk.';
    END IF;
    IF OLD.closed_at IS NOT NULL THEN
        RAISE EXCEPTION 'attempt %: it is closed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    NEW.state_since := clock_timestamp();
    NEW.ended_at := CASE WHEN NEW.state IN ('COMPLETED', 'FAILED') THEN NEW.state_since END;
    NEW.claims := 0;
    NEW.returned := 0;
    NEW.attempts := 0;
    NEW.available_at := NEW.state_since;
    RETURN NEW;
END
$$;
CREATE TRIGGER guard BEFORE UPDATE ON assessment.submissions FOR EACH ROW EXECUTE FUNCTION assessment.guard_attempt();

-- What follows from a transition, in its own transaction: an entry for people, the submission's readiness, a wake-up. What must stand beside it
-- is looked for here, at the commit: the statement that moves a row writes its result as well.
CREATE FUNCTION assessment.on_moved() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NEW.state <> OLD.state THEN
        IF NEW.state = 'COMPLETED' AND NOT EXISTS (
            SELECT FROM assessment.results r WHERE r.request_id = NEW.id AND r.kind = 'final' AND NOT r.is_late AND r.result IS NOT NULL) THEN
            RAISE EXCEPTION 'attempt %: it has no final result', NEW.id USING ERRCODE = 'check_violation';
        ELSIF NEW.state = 'REVIEW_PENDING' THEN
            IF NOT EXISTS (SELECT FROM assessment.results r
                WHERE r.request_id = NEW.id AND r.kind = 'ai' AND NOT r.is_late AND NOT r.dup AND r.result IS NOT NULL) THEN
                RAISE EXCEPTION 'attempt %: there is nothing to review', NEW.id USING ERRCODE = 'check_violation';
            END IF;
            PERFORM router.open_entry('grading', lower(NEW.priority), 'assessment', NEW.id, NEW.form_id, 'review',
                jsonb_build_object('priority', NEW.priority, 'confidence', NEW.confidence, 'skill', NEW.skill));
        ELSIF NEW.state = 'FAILED' AND NEW.current THEN
            PERFORM router.open_entry('grading_failed', NEW.failed_reason, 'assessment_failed', NEW.id, NEW.form_id, 'failed',
                jsonb_build_object('skill', NEW.skill, 'attempt', NEW.attempt, 'gate', NEW.gate));
        END IF;
    END IF;
    IF NOT NEW.gate AND NEW.current AND NEW.state = 'COMPLETED' THEN
        -- Its mail has gone, or goes without: it goes again with the grade, once for this attempt.
        INSERT INTO router.outbox (kind, entity_id, payload, xid)
        VALUES ('grading.result', NULL, jsonb_build_object('submission_id', NEW.subject, 'request_id', NEW.id), NULL);
    END IF;
    IF NEW.gate AND NEW.current AND (NEW.state = 'COMPLETED' OR NEW.released_at IS NOT NULL OR (NEW.state = 'FAILED' AND NEW.on_failed = 'send')) THEN
        PERFORM router.note_readiness(NEW.subject, 'graded', false);
    END IF;
    -- Whoever follows this attempt, by its id alone.
    PERFORM pg_notify('maple_router_assessment', NEW.id::text);
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER moved AFTER UPDATE ON assessment.submissions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.state <> NEW.state OR OLD.released_at IS DISTINCT FROM NEW.released_at) EXECUTE FUNCTION assessment.on_moved();

-- A person's review, by the version that was seen. Both results are made by whoever calls: the person's own, and what follows from it and the
-- grader's. Answers done, stale or closed.
CREATE FUNCTION assessment.review(request uuid, version bigint, human jsonb, final jsonb, digests text[], actor text, reason text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    a assessment.submissions;
BEGIN
    IF COALESCE(btrim(actor), '') = '' OR COALESCE(btrim(reason), '') = '' THEN
        RAISE EXCEPTION 'a review has a name and a reason' USING ERRCODE = 'check_violation';
    END IF;
    SELECT * INTO a FROM assessment.submissions x WHERE x.id = request FOR NO KEY UPDATE;
    IF NOT FOUND OR a.version <> version OR a.state <> 'REVIEW_PENDING' THEN
        RETURN 'stale';
    END IF;
    IF a.closed_at IS NOT NULL THEN
        RETURN 'closed';
    END IF;
    INSERT INTO assessment.results (request_id, kind, try, result, digest, score, band, actor) VALUES
        (request, 'human', a.try, human, digests[1], (human->>'overallScore')::numeric, human->>'band', actor),
        (request, 'final', a.try, final, digests[2], (final->>'overallScore')::numeric, final->>'band', actor);
    UPDATE assessment.submissions x SET state = 'COMPLETED', version = x.version + 1 WHERE x.id = request;
    INSERT INTO assessment.events (submission_id, from_state, to_state, trigger, actor, actor_type, metadata)
    VALUES (request, 'REVIEW_PENDING', 'COMPLETED', 'reviewed', actor, 'admin', jsonb_build_object(
        'human', (human->>'overallScore')::numeric, 'score', (final->>'overallScore')::numeric, 'mode', final->>'gradingMode'));
    RETURN 'done';
END
$$;

-- Locks an attempt for whoever decides about its entry.
CREATE FUNCTION assessment.lock_attempt(request uuid) RETURNS uuid
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ SELECT x.id FROM assessment.submissions x WHERE x.id = $1 FOR NO KEY UPDATE $$;

-- Another attempt at a submission whose last one failed. Answers it, or why there is none: unknown, purged, ungraded, open, graded.
CREATE FUNCTION assessment.regrade(submission uuid, actor text, reason text) RETURNS TABLE (answer text, request uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    purged boolean;
    old assessment.submissions;
    p assessment.profiles;
    fresh uuid;
    now_ timestamptz := clock_timestamp();
BEGIN
    SELECT s.status = 'purged' INTO purged FROM public.submissions s WHERE s.id = submission FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'unknown', NULL::uuid;
        RETURN;
    END IF;
    IF purged THEN
        RETURN QUERY SELECT 'purged', NULL::uuid;
        RETURN;
    END IF;
    SELECT * INTO old FROM assessment.submissions x WHERE x.subject = submission AND x.current FOR NO KEY UPDATE;
    SELECT x.* INTO p FROM assessment.profiles x JOIN public.submissions s ON s.form_id::text = x.form_id WHERE s.id = submission;
    IF old.id IS NULL OR p.form_id IS NULL THEN
        RETURN QUERY SELECT 'ungraded', NULL::uuid;
        RETURN;
    END IF;
    IF old.state <> 'FAILED' THEN
        RETURN QUERY SELECT CASE old.state WHEN 'COMPLETED' THEN 'graded' ELSE 'open' END, old.id;
        RETURN;
    END IF;
    UPDATE assessment.submissions x SET current = false WHERE x.id = old.id;
    INSERT INTO assessment.submissions (subject, attempt, form_id, skill, gate, on_failed, opened_by, opened_why, deadline, created_at,
        state_since, available_at, released_at, released_by, released_why)
    VALUES (submission, old.attempt + 1, old.form_id, p.skill, old.gate, old.on_failed, actor, reason, now_ + p.sla, now_, now_, now_,
        old.released_at, old.released_by, old.released_why)
    RETURNING id INTO fresh;
    INSERT INTO assessment.events (submission_id, to_state, trigger, actor, actor_type, metadata)
    VALUES (fresh, 'PENDING', 'submit', actor, 'admin', jsonb_build_object('attempt', old.attempt + 1, 'skill', p.skill));
    PERFORM assessment.ring();
    RETURN QUERY SELECT 'done', fresh;
END
$$;

-- The mail of a gated submission goes without a grade. Answers done, unknown, ungated, graded or released.
CREATE FUNCTION assessment.release(submission uuid, actor text, reason text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    a assessment.submissions;
BEGIN
    IF COALESCE(btrim(actor), '') = '' OR COALESCE(btrim(reason), '') = '' THEN
        RAISE EXCEPTION 'a release has a name and a reason' USING ERRCODE = 'check_violation';
    END IF;
    SELECT * INTO a FROM assessment.submissions x WHERE x.subject = submission AND x.current FOR NO KEY UPDATE;
    IF NOT FOUND OR a.closed_at IS NOT NULL THEN
        RETURN 'unknown';
    END IF;
    IF NOT a.gate THEN
        RETURN 'ungated';
    END IF;
    IF a.state = 'COMPLETED' THEN
        RETURN 'graded';
    END IF;
    IF a.released_at IS NOT NULL THEN
        RETURN 'released';
    END IF;
    UPDATE assessment.submissions x SET released_at = clock_timestamp(), released_by = actor, released_why = reason WHERE x.id = a.id;
    INSERT INTO assessment.events (submission_id, from_state, to_state, trigger, actor, actor_type)
    VALUES (a.id, a.state, a.state, 'release', actor, 'admin');
    RETURN 'done';
END
$$;

-- Grades that no mail has brought yet: nothing else is in it.
CREATE INDEX outbox_pending_graded ON router.outbox (available_at, id) WHERE state = 'pending' AND kind = 'grading.result';

-- ── rights ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

GRANT USAGE ON SCHEMA assessment TO maple_desk, forms_app, forms_loader;
GRANT SELECT ON assessment.questions, assessment.profiles, assessment.submissions, assessment.events, assessment.callbacks,
    assessment.results, assessment.progress, assessment.unborn TO forms_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON assessment.questions, assessment.profiles TO forms_loader;
GRANT UPDATE (state, version, try, seq, priority, confidence, failed_reason, attempts, claims, available_at, lease_token, leased_until)
    ON assessment.submissions TO forms_app;
GRANT INSERT ON assessment.events, assessment.callbacks, assessment.results TO forms_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON assessment.tickets TO forms_app;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assessment FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION router.evaluate_routing_readiness(uuid), router.evaluate_ungraded_readiness(uuid),
    router.note_readiness(uuid, text, boolean), router.note_ungraded_readiness(uuid, text, boolean) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION router.evaluate_ungraded_readiness(uuid) FROM forms_app;
GRANT EXECUTE ON FUNCTION router.evaluate_routing_readiness(uuid) TO forms_app;
GRANT EXECUTE ON FUNCTION assessment.review(uuid, bigint, jsonb, jsonb, text[], text, text) TO maple_desk;
GRANT EXECUTE ON FUNCTION assessment.gate(uuid, text, timestamptz), assessment.gates(uuid, text, timestamptz), assessment.lock_attempt(uuid),
    assessment.regrade(uuid, text, text), assessment.release(uuid, text, text), assessment.births(int) TO forms_app;
