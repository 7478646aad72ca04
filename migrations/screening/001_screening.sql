-- Schema screening: nothing of a screened form is routed or published that nobody looked at. Optional, on top of schema router: without
-- it every submission is routed as it always was. Applied by `maple-router migrate --screening` as the owner of the tables; the way back
-- is down/001_screening.sql.
--
-- What must hold whoever writes stands here as constraints and triggers: a run changes its state by an edge of the table alone; a person's
-- edge is taken by screening.decide alone; nothing is approved without a valid verdict, with a bar, or without proof of its origin; what is
-- published is what was screened; and a submission of an enforced form is claimed only when its run is PUBLISHED. The screener's role may
-- work on runs and nothing else: it cannot route, mail, decide as a person, or read the fields of a submission that it has not leased.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'maple_screener') THEN
        CREATE ROLE maple_screener LOGIN;
        -- Its statements, and those of the triggers that they fire, look up rows by their keys. A plan that was made while a table was
        -- small would read all of it for each run, until the next ANALYZE: a burst after a quiet spell grew dearer with every run.
        ALTER ROLE maple_screener SET enable_seqscan = off;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of this cluster was being migrated at the same moment
END
$$;

-- The desk's role: all that the daemon's may, and to decide about runs as a person. The daemon's is the backend's as well, and whoever fills
-- in forms for others must not approve them.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'maple_desk') THEN
        CREATE ROLE maple_desk LOGIN IN ROLE forms_app;
    ELSIF NOT pg_has_role('maple_desk', 'forms_app', 'USAGE') THEN
        GRANT forms_app TO maple_desk;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$;

INSERT INTO router.grey_queue_causes (cause, subject_kind, queue) VALUES
    ('screening', 'screening_run', 'screening'),
    ('screening_job', 'screening_job', 'operations');

-- The forms that are screened. A form that is not here is not.
CREATE TABLE screening.forms (
    form_id        text PRIMARY KEY,
    profile        text NOT NULL CHECK (profile IN ('fields', 'git')),
    -- Submissions created since then have a run.
    since          timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Submissions created since then wait for theirs; null: in its shadow, all runs, nothing waits.
    enforced_since timestamptz,
    -- No run is approved without a person.
    force_review   boolean NOT NULL DEFAULT false,
    set_by         text NOT NULL CHECK (set_by <> ''),
    set_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (enforced_since >= since)
);

-- A run: one passage of a submission (its subject). It is also its own job: what is to be done is what its state says, one lease and one
-- fence for state and work. The lifecycle is "screening" (`maple-router lifecycle show screening`).
CREATE TABLE screening.submissions (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    subject      uuid NOT NULL,
    run          int NOT NULL CHECK (run > 0),
    current      boolean NOT NULL DEFAULT true,
    enforced     boolean NOT NULL,
    form_id      text NOT NULL,
    profile      text NOT NULL CHECK (profile IN ('fields', 'git')),
    force_review boolean NOT NULL DEFAULT false,
    state        text NOT NULL DEFAULT 'RECEIVED' CHECK (state IN ('RECEIVED', 'VENDOR_APPROVED', 'TIER1_SCANNING', 'TIER1_FAILED',
                 'TIER2_SCANNING', 'AUTO_APPROVED', 'NEEDS_REVIEW', 'TIER3_REVIEW', 'PUBLISHED', 'REJECTED')),
    -- Raised by every transition: the fence of people.
    version      bigint NOT NULL DEFAULT 1,
    -- Who asked for this run; absent for the first one.
    opened_by    text CHECK (opened_by <> ''),
    opened_why   text CHECK (length(opened_why) BETWEEN 1 AND 2000),
    -- SHA-256 of the submission's fields and of the names of its files, as they were when the run began to look (screening.digest_of).
    digest       text CHECK (digest ~ '^[0-9a-f]{64}$'),
    -- SHA-256 of what was scanned: the fields again, or the repository's snapshot.
    content      text CHECK (content ~ '^[0-9a-f]{64}$'),
    ruleset      text CHECK (ruleset ~ '^[0-9a-f]{1,64}$'),
    -- Whom the origin was proven to be.
    origin       text CHECK (origin ~ '^[a-z0-9][a-z0-9.-]{0,99}$'),
    score        int CHECK (score BETWEEN 0 AND 100),
    -- Reasons why no machine approves alone.
    bars         text[] NOT NULL DEFAULT '{}',
    -- For how long the judge is waited for.
    patience     interval NOT NULL DEFAULT '4 hours' CHECK (patience >= '0'),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    state_since  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz,
    -- The run ended without a transition: its submission was emptied or ended otherwise, or another run took its place.
    closed_at    timestamptz,
    closed_why   text CHECK (closed_why IN ('purged', 'failed', 'superseded')),
    -- Its job was given up on, and a person has it.
    dead_at      timestamptz,
    dead_reason  text CHECK (dead_reason ~ '^[a-z_]{1,40}$'),
    work         text NOT NULL GENERATED ALWAYS AS
                 (CASE WHEN closed_at IS NOT NULL THEN 'closed' WHEN dead_at IS NOT NULL THEN 'dead' ELSE 'live' END) STORED,
    -- Claims of this state's job before the last redrive: with them a claim's number is never given twice.
    claims_before int NOT NULL DEFAULT 0 CHECK (claims_before >= 0),
    attempts     int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    claims       int NOT NULL DEFAULT 0 CHECK (claims >= 0),
    -- Of these claims, those from which somebody came back: the others ended with the lease, and too many of them are the content's doing.
    returned     int NOT NULL DEFAULT 0 CHECK (returned >= 0),
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token  uuid,
    leased_until timestamptz,
    expires_at   timestamptz,
    UNIQUE (subject, run),
    CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
    CHECK ((state IN ('TIER1_FAILED', 'REJECTED', 'PUBLISHED')) = (ended_at IS NOT NULL)),
    CHECK ((closed_at IS NULL) = (closed_why IS NULL)),
    CHECK ((dead_at IS NULL) = (dead_reason IS NULL)),
    CHECK (lease_token IS NULL OR (closed_at IS NULL AND dead_at IS NULL AND ended_at IS NULL)),
    -- Nothing is approved without a valid verdict, with a bar, or without proof of its origin.
    CHECK (state <> 'AUTO_APPROVED' OR (score >= 80 AND bars = '{}')),
    CHECK (state <> 'VENDOR_APPROVED' OR (origin IS NOT NULL AND NOT force_review)),
    CHECK (state NOT IN ('TIER2_SCANNING', 'TIER1_FAILED', 'AUTO_APPROVED', 'PUBLISHED') OR digest IS NOT NULL)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX submissions_current ON screening.submissions (subject) WHERE current;
-- The rows that wait, by form: each has its turn, so that a form that is flooded holds up no other.
CREATE INDEX submissions_received ON screening.submissions (form_id, available_at, id)
    WHERE state = 'RECEIVED' AND lease_token IS NULL AND work = 'live';
CREATE INDEX submissions_tier1 ON screening.submissions (form_id, available_at, id)
    WHERE state = 'TIER1_SCANNING' AND lease_token IS NULL AND work = 'live';
CREATE INDEX submissions_tier2 ON screening.submissions (form_id, available_at, id)
    WHERE state = 'TIER2_SCANNING' AND lease_token IS NULL AND work = 'live';
CREATE INDEX submissions_auto_approved ON screening.submissions (form_id, available_at, id)
    WHERE state = 'AUTO_APPROVED' AND lease_token IS NULL AND work = 'live';
CREATE INDEX submissions_vendor_approved ON screening.submissions (form_id, available_at, id)
    WHERE state = 'VENDOR_APPROVED' AND lease_token IS NULL AND work = 'live';
CREATE INDEX submissions_leased ON screening.submissions (leased_until, id) WHERE leased_until IS NOT NULL;
CREATE INDEX submissions_expiring ON screening.submissions (expires_at, id) WHERE expires_at IS NOT NULL;
CREATE INDEX submissions_dead ON screening.submissions (dead_at, id) WHERE dead_at IS NOT NULL;
CREATE INDEX submissions_open ON screening.submissions (state, state_since, id) WHERE ended_at IS NULL AND closed_at IS NULL;
CREATE INDEX submissions_created ON screening.submissions (created_at DESC, id);
CREATE INDEX submissions_failed ON screening.submissions (subject) WHERE current AND enforced AND closed_why = 'failed';
CREATE INDEX submissions_content ON screening.submissions (content, created_at) WHERE content IS NOT NULL;

-- The document's log: one event for each transition, never changed.
CREATE TABLE screening.submission_state_events (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    submission_id uuid NOT NULL REFERENCES screening.submissions ON DELETE CASCADE,
    from_state    text,
    to_state      text NOT NULL,
    trigger       text NOT NULL,
    actor         text NOT NULL CHECK (actor <> ''),
    actor_type    text NOT NULL CHECK (actor_type IN ('system', 'worker', 'admin')),
    -- Codes, counts, score, model: never a text of the submission.
    metadata      jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object' AND pg_column_size(metadata) < 4096),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX submission_state_events_run ON screening.submission_state_events (submission_id, created_at);
CREATE INDEX submission_state_events_at ON screening.submission_state_events (created_at);

-- What a job found, once for each of its attempts: the first answer stands, and an attempt that comes after it goes by it.
CREATE TABLE screening.scan_results (
    submission_id uuid NOT NULL REFERENCES screening.submissions ON DELETE CASCADE,
    job_type      text NOT NULL CHECK (job_type IN ('tier1-scan', 'tier2-scan')),
    attempt       int NOT NULL CHECK (attempt > 0),
    content       text NOT NULL,
    ruleset       text NOT NULL,
    -- pass, fail of tier 1; pass, concerns, fail of tier 2.
    verdict       text NOT NULL CHECK (verdict IN ('pass', 'concerns', 'fail')),
    score         int CHECK (score BETWEEN 0 AND 100),
    -- Bars, number of findings, model, milliseconds.
    detail        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(detail) = 'object' AND pg_column_size(detail) < 4096),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (submission_id, job_type, attempt),
    CHECK ((job_type = 'tier2-scan') = (score IS NOT NULL))
);
CREATE INDEX scan_results_at ON screening.scan_results (created_at);

-- Rule and place, never what was found there.
CREATE TABLE screening.findings (
    submission_id uuid NOT NULL REFERENCES screening.submissions ON DELETE CASCADE,
    attempt       int NOT NULL,
    number        int NOT NULL,
    rule          text NOT NULL CHECK (rule ~ '^[a-z0-9_.-]{1,80}$'),
    severity      text NOT NULL CHECK (severity IN ('block', 'review', 'note')),
    place         text NOT NULL CHECK (length(place) <= 300),
    times         int NOT NULL CHECK (times > 0),
    -- Why it does not block.
    waived        text CHECK (waived IN ('false_positive', 'used_in_tests', 'will_fix')),
    PRIMARY KEY (submission_id, attempt, number)
);

-- The judge's answers. A valid one is asked for once: the same content, model, prompt and rules have the same answer.
CREATE TABLE screening.verdicts (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    submission_id     uuid NOT NULL REFERENCES screening.submissions ON DELETE CASCADE,
    attempt           int NOT NULL,
    asked             int NOT NULL CHECK (asked BETWEEN 1 AND 2),
    profile           text NOT NULL,
    content           text NOT NULL,
    -- The model that was asked for, and the one that says it answered: calibrated is the second.
    model             text NOT NULL CHECK (length(model) <= 200),
    answered          text NOT NULL CHECK (length(answered) <= 200),
    prompt            text NOT NULL,
    ruleset           text NOT NULL,
    score             int NOT NULL CHECK (score BETWEEN 0 AND 100),
    injection         boolean NOT NULL,
    -- Code, severity, place and a scrubbed note of at most 300 characters each; emptied with the subject. An emptied verdict is nobody's
    -- answer any more: what it was concerned about would be missing.
    concerns          jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(concerns) = 'array'),
    emptied           boolean NOT NULL DEFAULT false,
    prompt_tokens     int NOT NULL DEFAULT 0,
    completion_tokens int NOT NULL DEFAULT 0,
    took_ms           int NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (submission_id, attempt, asked)
);
CREATE INDEX verdicts_same ON screening.verdicts (content, model, prompt, ruleset) WHERE NOT emptied;

-- What the judge was asked, by day and form, in tokens.
CREATE TABLE screening.spent (
    day     date NOT NULL,
    form_id text NOT NULL,
    tokens  bigint NOT NULL CHECK (tokens >= 0),
    PRIMARY KEY (day, form_id)
);

-- A rule that does not block in a form, and why. What it waives is a bar.
CREATE TABLE screening.waivers (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    form_id  text NOT NULL,
    rule     text NOT NULL CHECK (rule ~ '^[a-z0-9_.-]{1,80}$'),
    place    text CHECK (length(place) <= 300),
    reason   text NOT NULL CHECK (reason IN ('false_positive', 'used_in_tests', 'will_fix')),
    why      text NOT NULL CHECK (length(why) BETWEEN 1 AND 2000),
    actor    text NOT NULL CHECK (actor <> ''),
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    ended_by text,
    CHECK ((ended_at IS NULL) = (ended_by IS NULL))
);
CREATE UNIQUE INDEX waivers_open ON screening.waivers (form_id, rule, COALESCE(place, '')) WHERE ended_at IS NULL;

-- A model may approve with a prompt only after it was tried on a labelled corpus.
CREATE TABLE screening.calibrations (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    profile         text NOT NULL CHECK (profile IN ('fields', 'git')),
    model           text NOT NULL CHECK (length(model) BETWEEN 1 AND 200),
    prompt          text NOT NULL,
    items           int NOT NULL CHECK (items >= 0),
    harmless        int NOT NULL CHECK (harmless BETWEEN 0 AND items),
    answered        int NOT NULL CHECK (answered BETWEEN 0 AND items),
    false_approvals int NOT NULL CHECK (false_approvals BETWEEN 0 AND items),
    approves        boolean NOT NULL,
    actor           text NOT NULL CHECK (actor <> ''),
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Half of 120 and more are harmless, every one was answered, and at most one in fifty of the others would have been approved.
    CHECK (NOT approves OR (items >= 120 AND harmless * 2 = items AND answered = items
           AND false_approvals * 50 <= items - harmless))
);
CREATE INDEX calibrations_newest ON screening.calibrations (profile, model, prompt, id DESC);

-- What was scanned of a repository: its manifest, without its text.
CREATE TABLE screening.snapshots (
    submission_id uuid PRIMARY KEY REFERENCES screening.submissions ON DELETE CASCADE,
    url           text NOT NULL,
    path          text NOT NULL DEFAULT '',
    reference     text NOT NULL,
    commit        text NOT NULL CHECK (commit ~ '^[0-9a-f]{40,64}$'),
    content       text NOT NULL CHECK (content ~ '^[0-9a-f]{64}$'),
    files         int NOT NULL CHECK (files >= 0),
    bytes         bigint NOT NULL CHECK (bytes >= 0),
    -- The skill's own version, where its description has one that reads as such.
    declared      text CHECK (declared ~ '^[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}$'),
    manifest      jsonb NOT NULL CHECK (jsonb_typeof(manifest) = 'array'),
    at            timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What was published: a skill and its versions.
CREATE TABLE screening.published (
    skill_id      text NOT NULL CHECK (skill_id ~ '^sk_[0-9a-f]{16}$'),
    version       text NOT NULL CHECK (version ~ '^[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}$'),
    submission_id uuid NOT NULL UNIQUE REFERENCES screening.submissions,
    url           text NOT NULL,
    path          text NOT NULL,
    commit        text NOT NULL,
    content       text NOT NULL,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (skill_id, version)
);

-- The work that a run's state asks for; null where it waits for a person, or has ended.
CREATE FUNCTION screening.job_type(state text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN state IN ('RECEIVED', 'TIER1_SCANNING') THEN 'tier1-scan' WHEN state = 'TIER2_SCANNING' THEN 'tier2-scan'
    WHEN state IN ('AUTO_APPROVED', 'VENDOR_APPROVED') THEN 'publish' END;

-- The jobs as the document names them.
CREATE VIEW screening.jobs AS
    SELECT r.id AS submission_id, screening.job_type(r.state) AS job_type,
        CASE WHEN r.work = 'dead' THEN 'dead' WHEN r.lease_token IS NOT NULL THEN 'running'
             WHEN r.available_at > now() THEN 'waiting' ELSE 'pending' END AS status,
        r.claims_before + r.claims AS attempt, r.attempts, r.available_at, r.leased_until, r.dead_reason, r.form_id, r.state, r.state_since
    FROM screening.submissions r
    WHERE r.ended_at IS NULL AND r.closed_at IS NULL AND screening.job_type(r.state) IS NOT NULL;

-- ── the gate ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- What is screened of a submission, as one digest: what was entered, in order, and the names of its files.
-- In PL/pgSQL, whose sessions keep the plan: one in SQL is planned at each call.
CREATE FUNCTION screening.digest_of(submission uuid) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    RETURN encode(sha256(convert_to(jsonb_build_array(
        (SELECT jsonb_agg(jsonb_build_array(f.field_key, f.field_value) ORDER BY f.position, f.id)
         FROM public.submission_fields f WHERE f.submission_id = submission),
        (SELECT jsonb_agg(jsonb_build_array(a.file_name, a.content_type) ORDER BY a.file_name, a.content_type)
         FROM public.attachments a WHERE a.submission_id = submission))::text, 'UTF8')), 'hex');
END
$$;

-- Whether what stands there now has this digest: for those who may not read digests.
CREATE FUNCTION screening.stands(submission uuid, digest text) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN digest = screening.digest_of(submission);
END
$$;

-- passed: not screened, in its shadow, or published as it stands. out: its run failed or was rejected. waiting: anything else; also where
-- its form is enforced and it has no run, and where what was published is not what stands there now.
--
-- By whoever asks, and parsed here: so the planner makes it a part of the claim, where a call for each row costs eight times as much.
CREATE FUNCTION screening.gates(submission uuid, form text, created timestamptz) RETURNS TABLE (says text)
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT CASE
        WHEN r.enforced THEN CASE
            WHEN r.state IN ('TIER1_FAILED', 'REJECTED') THEN 'out'
            WHEN r.state = 'PUBLISHED' AND screening.stands(submission, r.digest) THEN 'passed'
            ELSE 'waiting' END
        WHEN EXISTS (SELECT FROM screening.forms f WHERE f.form_id = form AND f.enforced_since <= created) THEN 'waiting'
        ELSE 'passed' END
    FROM (SELECT) AS one LEFT JOIN screening.submissions r ON r.subject = submission AND r.current;
END;

-- The same for those who may not look at runs.
CREATE FUNCTION screening.gate(submission uuid, form text, created timestamptz) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT g.says FROM screening.gates(submission, form, created) AS g);
END
$$;

-- Whoever claims: a daemon whose configuration does not know of screening claims nothing that waits for it. Behind the write and by
-- whoever writes, who needs the rights for it: in front of it, and as the owner, it costs three times as much. A claim whose own
-- transaction has asked the gate under the row's lock, and heard `passed` for all of its rows, says so and is not asked again: for each row
-- that would cost more of the database than all of the gate.
CREATE FUNCTION screening.guard_claim() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM screening.gates(NEW.id, NEW.form_id::text, NEW.created_at) AS g WHERE g.says = 'passed') THEN
        RAISE EXCEPTION 'submission % is not published by its screening', NEW.id USING ERRCODE = 'check_violation',
            HINT = 'The daemon that claims it does not know of screening: set screening.mode = "on" in its configuration.';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER screening_guard_claim AFTER UPDATE ON public.submissions FOR EACH ROW
    WHEN (OLD.status = 'received' AND NEW.status = 'processing' AND current_setting('maple_router.gate', true) IS DISTINCT FROM 'asked')
    EXECUTE FUNCTION screening.guard_claim();

-- What router/002 asks, and the gate behind it. `screened_out`: people and router are told by the claim, which fails it.
ALTER FUNCTION router.evaluate_routing_readiness(uuid) RENAME TO evaluate_unscreened_readiness;
CREATE FUNCTION router.evaluate_routing_readiness(submission uuid) RETURNS TABLE (state text, pending int)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    r record;
    gate text;
BEGIN
    SELECT * INTO r FROM router.evaluate_unscreened_readiness(submission);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF r.state = 'ready' THEN
        SELECT screening.gate(s.id, s.form_id::text, s.created_at) INTO gate FROM public.submissions s WHERE s.id = submission;
        RETURN QUERY SELECT CASE gate WHEN 'passed' THEN 'ready' WHEN 'out' THEN 'screened_out' ELSE 'waiting' END, r.pending;
    ELSE
        RETURN QUERY SELECT r.state, r.pending;
    END IF;
END
$$;

-- ── births ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- Wakes whoever listens, at most every 50 ms; what is not told is found by the poll (router/002, ring).
CREATE SEQUENCE screening.rung;
CREATE FUNCTION screening.ring() RETURNS void
    LANGUAGE plpgsql
AS $$
DECLARE
    instant bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    last bigint;
BEGIN
    SELECT r.last_value INTO last FROM screening.rung r;
    IF last NOT BETWEEN instant - 50 AND instant THEN
        PERFORM setval('screening.rung', instant), pg_notify('maple_router_screening', '');
    END IF;
END
$$;

-- Whether a submission waits behind a run that will never publish it, though nobody looked at what it is now.
CREATE FUNCTION screening.is_shut_out(s public.submissions, r screening.submissions) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN s.status = 'received' AND router.is_finalized(s) AND CASE WHEN r.enforced THEN r.closed_at IS NOT NULL ELSE
    EXISTS (SELECT FROM screening.forms f WHERE f.form_id = r.form_id AND f.enforced_since <= s.created_at) END;

-- Puts another run in the place of a run that the caller has locked, and that is closed where it had not ended: as the form wants it now, or
-- as it was where the form is not screened any more. Answers it.
CREATE FUNCTION screening.follow(old screening.submissions, actor text, reason text) RETURNS uuid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    fresh uuid;
BEGIN
    UPDATE screening.submissions x SET current = false, lease_token = NULL, leased_until = NULL, expires_at = NULL,
        closed_at = CASE WHEN x.ended_at IS NULL THEN COALESCE(x.closed_at, clock_timestamp()) ELSE x.closed_at END,
        closed_why = CASE WHEN x.ended_at IS NULL THEN COALESCE(x.closed_why, 'superseded') ELSE x.closed_why END
    WHERE x.id = old.id;
    INSERT INTO screening.submissions (subject, run, enforced, form_id, profile, force_review, opened_by, opened_why)
    SELECT old.subject, old.run + 1, old.enforced OR f.enforced_since IS NOT NULL, old.form_id, COALESCE(f.profile, old.profile),
        COALESCE(f.force_review, old.force_review), actor, reason
    FROM (SELECT) AS one LEFT JOIN screening.forms f ON f.form_id = old.form_id
    RETURNING id INTO fresh;
    RETURN fresh;
END
$$;

-- Makes the run of a submission that is to have one: its first, or another where the gate would be shut for ever. That is behind a run that
-- closed with its submission, which is routed again, and behind one of the shadow whose form was enforced just before the submission came.
-- Rings nobody, and locks no run that stays: it is called in the backend's transaction, which may be a prepared one (router/003), and the
-- screener would wait for it. Answers whether it did.
CREATE FUNCTION screening.birth(submission uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    born uuid;
    old screening.submissions;
BEGIN
    SELECT x.* INTO old FROM screening.submissions x WHERE x.subject = submission AND x.current;
    IF NOT FOUND THEN
        INSERT INTO screening.submissions (subject, run, enforced, form_id, profile, force_review)
        SELECT s.id, 1, COALESCE(f.enforced_since <= s.created_at, false), f.form_id, f.profile, f.force_review
        FROM public.submissions s JOIN screening.forms f ON f.form_id = s.form_id::text
        WHERE s.id = submission AND s.status = 'received' AND f.since <= s.created_at AND router.is_finalized(s)
        ON CONFLICT DO NOTHING RETURNING id INTO born;
    ELSIF EXISTS (SELECT FROM public.submissions s WHERE s.id = submission AND screening.is_shut_out(s, old)) THEN
        -- Whoever came first has put another in its place.
        SELECT x.* INTO old FROM screening.submissions x WHERE x.id = old.id AND x.current FOR NO KEY UPDATE;
        IF FOUND THEN
            born := screening.follow(old, NULL, NULL);
        END IF;
    END IF;
    IF born IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO screening.submission_state_events (submission_id, to_state, trigger, actor, actor_type, metadata)
    VALUES (born, 'RECEIVED', 'api-submission', 'system', 'system',
        CASE WHEN old.id IS NULL THEN '{}' ELSE jsonb_build_object('run', old.run + 1) END);
    RETURN true;
END
$$;

-- Runs where an event would be written, before it: at finalize, whoever's transaction that is. Fails nobody: what it swallows is born by
-- the pass (screening.births), and the gate is shut meanwhile.
ALTER FUNCTION router.note_readiness(uuid, text, boolean) RENAME TO note_unscreened_readiness;
CREATE FUNCTION router.note_readiness(submission uuid, why text, newborn boolean) RETURNS void
    LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
BEGIN
    BEGIN
        PERFORM screening.birth(submission);
    EXCEPTION WHEN OTHERS THEN
        RAISE WARNING 'no screening run for submission %: %', submission, SQLERRM;
    END;
    PERFORM router.note_unscreened_readiness(submission, why, newborn);
END
$$;

-- Makes the runs that nobody has made. Answers how many.
CREATE FUNCTION screening.births(most int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    missed uuid;
    made bigint := 0;
BEGIN
    FOR missed IN
        SELECT s.id FROM public.submissions s JOIN screening.forms f ON f.form_id = s.form_id::text
        LEFT JOIN screening.submissions r ON r.subject = s.id AND r.current
        WHERE s.status = 'received' AND f.since <= s.created_at AND router.is_finalized(s)
          AND (r.id IS NULL OR screening.is_shut_out(s, r))
        UNION
        SELECT s.id FROM screening.submissions r JOIN public.submissions s ON s.id = r.subject
        WHERE r.current AND r.enforced AND r.closed_why = 'failed' AND s.status = 'received' AND screening.is_shut_out(s, r)
        LIMIT most
    LOOP
        IF screening.birth(missed) THEN
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;
END
$$;

-- ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE FUNCTION screening.guard_run() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (NEW.id, NEW.subject, NEW.run, NEW.enforced, NEW.form_id, NEW.profile, NEW.created_at)
        IS DISTINCT FROM (OLD.id, OLD.subject, OLD.run, OLD.enforced, OLD.form_id, OLD.profile, OLD.created_at) THEN
        RAISE EXCEPTION 'screening run %: its subject, number, form and enforcement do not change', OLD.id
            USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.digest IS NOT NULL AND NEW.digest IS DISTINCT FROM OLD.digest THEN
        RAISE EXCEPTION 'screening run %: what it looked at does not change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = OLD.state THEN
        IF NEW.lease_token IS NULL AND OLD.leased_until > clock_timestamp() AND NEW.closed_at IS NULL THEN
            NEW.returned := OLD.returned + 1;
        END IF;
        IF NEW.dead_reason IS NOT NULL AND OLD.dead_reason IS NULL THEN
            NEW.dead_at := clock_timestamp();
            NEW.expires_at := NULL;
        END IF;
        RETURN NEW;
    END IF;
    IF NOT ((OLD.state, NEW.state) IN (('RECEIVED', 'VENDOR_APPROVED'), ('RECEIVED', 'TIER1_SCANNING'),
        ('TIER1_SCANNING', 'TIER2_SCANNING'), ('TIER1_SCANNING', 'TIER1_FAILED'),
        ('TIER2_SCANNING', 'AUTO_APPROVED'), ('TIER2_SCANNING', 'NEEDS_REVIEW'), ('TIER2_SCANNING', 'REJECTED'),
        ('NEEDS_REVIEW', 'TIER3_REVIEW'), ('NEEDS_REVIEW', 'REJECTED'), ('TIER3_REVIEW', 'PUBLISHED'), ('TIER3_REVIEW', 'REJECTED'),
        ('AUTO_APPROVED', 'PUBLISHED'), ('VENDOR_APPROVED', 'PUBLISHED'))) THEN
        RAISE EXCEPTION 'screening run %: no edge leads from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    -- A person's edges are taken by screening.decide, which runs as the owner.
    IF OLD.state IN ('NEEDS_REVIEW', 'TIER3_REVIEW') AND current_user <> (
        SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = 'screening.submissions'::regclass) THEN
        RAISE EXCEPTION 'screening run %: % is left by a person''s decision alone', OLD.id, OLD.state
            USING ERRCODE = 'insufficient_privilege', HINT = 'Decide about its entry at the review desk.';
    END IF;
    IF OLD.closed_at IS NOT NULL OR NOT OLD.current THEN
        RAISE EXCEPTION 'screening run %: it is closed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'AUTO_APPROVED' AND NOT EXISTS (SELECT FROM screening.scan_results x WHERE x.submission_id = OLD.id
        AND x.job_type = 'tier2-scan' AND x.content = NEW.content AND x.score = NEW.score) THEN
        RAISE EXCEPTION 'screening run %: no verdict has this score', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'PUBLISHED' AND NEW.digest IS DISTINCT FROM screening.digest_of(NEW.subject) THEN
        RAISE EXCEPTION 'screening run %: the submission is not what was screened', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    NEW.state_since := clock_timestamp();
    NEW.ended_at := CASE WHEN NEW.state IN ('TIER1_FAILED', 'REJECTED', 'PUBLISHED') THEN NEW.state_since END;
    NEW.expires_at := CASE WHEN NEW.state = 'TIER2_SCANNING' THEN NEW.state_since + NEW.patience END;
    -- The next job's claims are its own.
    NEW.claims := 0;
    NEW.returned := 0;
    NEW.claims_before := 0;
    NEW.attempts := 0;
    NEW.available_at := NEW.state_since;
    NEW.dead_at := NULL;
    NEW.dead_reason := NULL;
    RETURN NEW;
END
$$;
CREATE TRIGGER guard BEFORE UPDATE ON screening.submissions FOR EACH ROW EXECUTE FUNCTION screening.guard_run();

-- A digest says nothing without the submission: it is read by those who may read either.
CREATE FUNCTION screening.skill_id(url text, path text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'sk_' || left(encode(sha256(convert_to(lower(url) || E'\n' || path, 'UTF8')), 'hex'), 16);

-- The version that a skill is published as: its own if that is higher than the last, else the last with its patch raised.
CREATE FUNCTION screening.next_version(skill text, declared text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    last int[];
    own int[] := string_to_array(declared, '.')::int[];
    most CONSTANT int := 999999999;
BEGIN
    -- Its own statement, so that the next one sees what whoever held the lock has published.
    PERFORM pg_advisory_xact_lock(hashtextextended(skill, 7007));
    SELECT max(string_to_array(p.version, '.')::int[]) INTO last FROM screening.published p WHERE p.skill_id = skill;
    IF last IS NULL THEN
        RETURN COALESCE(declared, '1.0.0');
    END IF;
    IF own > last THEN
        RETURN declared;
    END IF;
    RETURN CASE WHEN last[3] < most THEN concat_ws('.', last[1], last[2], last[3] + 1)
        WHEN last[2] < most THEN concat_ws('.', last[1], last[2] + 1, 0) ELSE concat_ws('.', last[1] + 1, 0, 0) END;
END
$$;

-- What follows from a transition, in its own transaction: an entry for people, the submission's readiness, a publication, a wake-up.
CREATE FUNCTION screening.on_moved() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NEW.dead_at IS NOT NULL AND OLD.dead_at IS DISTINCT FROM NEW.dead_at THEN
        PERFORM router.open_entry('screening_job', NEW.dead_reason, 'screening_job', NEW.id, NEW.form_id,
            NEW.state || ':' || (NEW.claims_before + NEW.claims), jsonb_build_object('job', screening.job_type(NEW.state)));
    END IF;
    IF NEW.state = OLD.state THEN
        RETURN NULL;
    END IF;
    IF NEW.state = 'NEEDS_REVIEW' THEN
        PERFORM router.open_entry('screening', CASE WHEN NEW.score IS NULL THEN 'unavailable' ELSE 'concerns' END, 'screening_run',
            NEW.id, NEW.form_id, 'run', jsonb_strip_nulls(jsonb_build_object('score', NEW.score, 'bars', to_jsonb(NEW.bars))));
    ELSIF NEW.state = 'PUBLISHED' AND NEW.profile = 'git' AND NEW.enforced THEN
        INSERT INTO screening.published (skill_id, version, submission_id, url, path, commit, content)
        SELECT k.skill, screening.next_version(k.skill, s.declared), NEW.id, s.url, s.path, s.commit, s.content
        FROM screening.snapshots s, LATERAL (SELECT screening.skill_id(s.url, s.path) AS skill) k
        WHERE s.submission_id = NEW.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'screening run %: it has no snapshot to publish', NEW.id USING ERRCODE = 'check_violation';
        END IF;
        INSERT INTO router.outbox (kind, entity_id, payload, xid)
        SELECT 'screening.published', NULL, jsonb_build_object('skill_id', p.skill_id, 'version', p.version, 'commit', p.commit), NULL
        FROM screening.published p WHERE p.submission_id = NEW.id;
    END IF;
    IF OLD.state = 'VENDOR_APPROVED' AND EXISTS (SELECT FROM screening.scan_results x WHERE x.submission_id = NEW.id
        AND x.job_type = 'tier1-scan' AND x.verdict = 'fail') THEN
        -- It is out: whoever trusts its origin has to know.
        PERFORM router.open_entry('screening_job', 'vendor_block', 'screening_job', NEW.id, NEW.form_id, 'vendor', '{}');
    END IF;
    IF NEW.ended_at IS NOT NULL AND NEW.enforced AND NEW.current THEN
        -- The outermost: another schema may wait for this as well.
        PERFORM router.note_readiness(NEW.subject, 'screened', false);
    END IF;
    PERFORM screening.ring();
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER moved AFTER UPDATE ON screening.submissions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.state <> NEW.state OR OLD.dead_at IS DISTINCT FROM NEW.dead_at) EXECUTE FUNCTION screening.on_moved();

-- A submission that is emptied, or that failed before its run ended, closes the run without a transition. What the judge noted goes.
CREATE FUNCTION screening.on_subject_ended() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE screening.submissions r SET closed_at = clock_timestamp(), closed_why = CASE NEW.status WHEN 'purged' THEN 'purged' ELSE 'failed' END,
        lease_token = NULL, leased_until = NULL, expires_at = NULL
    WHERE r.subject = NEW.id AND r.closed_at IS NULL AND r.ended_at IS NULL AND (NEW.status = 'purged' OR r.enforced);
    IF NEW.status = 'purged' THEN
        UPDATE screening.verdicts v SET concerns = '[]', emptied = true FROM screening.submissions r
        WHERE r.subject = NEW.id AND v.submission_id = r.id AND v.concerns <> '[]';
        DELETE FROM screening.snapshots s USING screening.submissions r WHERE r.subject = NEW.id AND s.submission_id = r.id;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER screening_subject_ended AFTER UPDATE ON public.submissions FOR EACH ROW
    WHEN (NEW.status IN ('purged', 'failed') AND OLD.status <> NEW.status) EXECUTE FUNCTION screening.on_subject_ended();

-- What a run is about, for whoever has leased it: what was entered, names of files, the digest of both, how often the same came within an
-- hour (up to `most`), and what the column says that names an authenticated caller, where there is one. No row: the lease is another's.
CREATE FUNCTION screening.content(run uuid, token uuid, origin_column text, most int)
    RETURNS TABLE (fields jsonb, files jsonb, digest text, seen int, origin text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    submission uuid;
BEGIN
    SELECT r.subject INTO submission FROM screening.submissions r
    WHERE r.id = run AND r.lease_token = token AND r.leased_until > clock_timestamp();
    IF NOT FOUND THEN
        RETURN;
    END IF;
    fields := (SELECT COALESCE(jsonb_agg(jsonb_build_array(f.field_key, COALESCE(f.field_value, '')) ORDER BY f.position, f.id), '[]')
        FROM public.submission_fields f WHERE f.submission_id = submission);
    files := (SELECT COALESCE(jsonb_agg(a.file_name ORDER BY a.file_name, a.id), '[]') FROM public.attachments a
        WHERE a.submission_id = submission);
    digest := screening.digest_of(submission);
    seen := (SELECT count(*) FROM (SELECT FROM screening.submissions o WHERE o.content = digest
        AND o.created_at > now() - interval '1 hour' AND o.subject <> submission LIMIT most) same);
    IF origin_column IS NOT NULL THEN
        origin := (SELECT to_jsonb(s) ->> origin_column FROM public.submissions s WHERE s.id = submission);
    END IF;
    RETURN NEXT;
END
$$;

-- Locks a run for whoever decides about its entry.
CREATE FUNCTION screening.lock_run(run uuid) RETURNS uuid
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ SELECT x.id FROM screening.submissions x WHERE x.id = $1 FOR NO KEY UPDATE $$;

-- A person's decision, by the version that was seen. Answers done, changed (the submission is not what was screened), stale, or closed.
CREATE FUNCTION screening.decide(run uuid, version bigint, trigger text, actor text, reason text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    r screening.submissions;
    target text;
BEGIN
    IF COALESCE(btrim(actor), '') = '' OR COALESCE(btrim(reason), '') = '' THEN
        RAISE EXCEPTION 'a decision has a name and a reason' USING ERRCODE = 'check_violation';
    END IF;
    SELECT * INTO r FROM screening.submissions x WHERE x.id = run FOR NO KEY UPDATE;
    IF NOT FOUND OR r.version <> version THEN
        RETURN 'stale';
    END IF;
    IF r.closed_at IS NOT NULL OR NOT r.current THEN
        RETURN 'closed';
    END IF;
    target := CASE WHEN (r.state, trigger) = ('NEEDS_REVIEW', 'admin-escalate') THEN 'TIER3_REVIEW'
        WHEN (r.state, trigger) IN (('NEEDS_REVIEW', 'admin-reject'), ('TIER3_REVIEW', 'reviewer-reject')) THEN 'REJECTED'
        WHEN (r.state, trigger) = ('TIER3_REVIEW', 'reviewer-approve') THEN 'PUBLISHED' END;
    IF target IS NULL THEN
        RETURN 'stale';
    END IF;
    IF target = 'PUBLISHED' AND r.digest IS DISTINCT FROM screening.digest_of(r.subject) THEN
        RETURN 'changed';
    END IF;
    UPDATE screening.submissions x SET state = target, version = x.version + 1 WHERE x.id = run;
    INSERT INTO screening.submission_state_events (submission_id, from_state, to_state, trigger, actor, actor_type)
    VALUES (run, r.state, target, trigger, actor, 'admin');
    RETURN 'done';
END
$$;

-- A job that was given up on is worked on again. Answers whether it was.
CREATE FUNCTION screening.redrive(run uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    UPDATE screening.submissions r SET dead_at = NULL, dead_reason = NULL, claims_before = r.claims_before + r.claims, claims = 0,
        returned = 0, attempts = 0, available_at = clock_timestamp(),
        expires_at = CASE WHEN r.state = 'TIER2_SCANNING' THEN clock_timestamp() + r.patience END
    WHERE r.id = run AND r.current AND r.dead_at IS NOT NULL AND r.closed_at IS NULL;
    IF FOUND THEN
        PERFORM screening.ring();
    END IF;
    RETURN FOUND;
END
$$;

-- Another run of a submission, the old one stays. Answers it, or why there is none: unknown, purged, unscreened, open.
CREATE FUNCTION screening.rescreen(submission uuid, actor text, reason text) RETURNS TABLE (answer text, run uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    s public.submissions;
    old screening.submissions;
    f screening.forms;
    fresh uuid;
BEGIN
    SELECT * INTO s FROM public.submissions x WHERE x.id = submission FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'unknown', NULL::uuid;
        RETURN;
    END IF;
    IF s.status = 'purged' THEN
        RETURN QUERY SELECT 'purged', NULL::uuid;
        RETURN;
    END IF;
    SELECT * INTO old FROM screening.submissions x WHERE x.subject = submission AND x.current FOR NO KEY UPDATE;
    SELECT * INTO f FROM screening.forms x WHERE x.form_id = s.form_id::text;
    IF old.id IS NULL AND f.form_id IS NULL THEN
        RETURN QUERY SELECT 'unscreened', NULL::uuid;
        RETURN;
    END IF;
    -- The submission may have changed since: that is what another run is for.
    IF old.id IS NOT NULL AND old.ended_at IS NULL AND old.closed_at IS NULL AND old.dead_at IS NULL
        AND (old.digest IS NULL OR old.digest = screening.digest_of(submission)) THEN
        RETURN QUERY SELECT 'open', old.id;
        RETURN;
    END IF;
    IF old.id IS NULL THEN
        INSERT INTO screening.submissions (subject, run, enforced, form_id, profile, force_review, opened_by, opened_why)
        VALUES (submission, 1, f.enforced_since IS NOT NULL, f.form_id, f.profile, f.force_review, actor, reason)
        RETURNING id INTO fresh;
    ELSE
        fresh := screening.follow(old, actor, reason);
    END IF;
    INSERT INTO screening.submission_state_events (submission_id, to_state, trigger, actor, actor_type, metadata)
    VALUES (fresh, 'RECEIVED', 'api-submission', actor, 'admin', jsonb_build_object('run', COALESCE(old.run, 0) + 1));
    PERFORM screening.ring();
    RETURN QUERY SELECT 'done', fresh;
END
$$;

-- What nobody would hear of: published, and changed since. An entry each. Answers how many.
CREATE FUNCTION screening.reconcile(most int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    r record;
    found_any bigint := 0;
BEGIN
    FOR r IN
        SELECT x.id, x.form_id, x.version FROM public.submissions s JOIN screening.submissions x ON x.subject = s.id AND x.current
        WHERE s.status = 'received' AND x.enforced AND x.state = 'PUBLISHED' AND x.ended_at < now() - interval '1 minute'
          AND x.digest IS DISTINCT FROM screening.digest_of(s.id)
          AND NOT EXISTS (SELECT FROM router.grey_queue_occurrences o WHERE o.subject_id = x.id AND o.subject_kind = 'screening_job'
              AND o.cause = 'screening_job' AND o.key = 'changed:' || x.version)
        LIMIT most
    LOOP
        PERFORM router.open_entry('screening_job', 'content_changed', 'screening_job', r.id, r.form_id, 'changed:' || r.version, '{}');
        found_any := found_any + 1;
    END LOOP;
    RETURN found_any;
END
$$;

-- Screened out is told in the failures' daily message, not in the desk: spam would bury it.
ALTER FUNCTION router.failure_of(uuid) RENAME TO any_failure_of;
CREATE FUNCTION router.failure_of(submission uuid) RETURNS TABLE (cause text, reason text, form text, key text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ SELECT * FROM router.any_failure_of(submission) f WHERE f.reason <> 'screened_out' $$;

-- Publications that no registry was told of yet: nothing else is in it.
CREATE INDEX outbox_pending_published ON router.outbox (available_at, id) WHERE state = 'pending' AND kind = 'screening.published';

-- ── rights ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

GRANT USAGE ON SCHEMA screening TO maple_screener, maple_desk, forms_app, forms_loader;
GRANT SELECT ON screening.forms, screening.submissions, screening.submission_state_events, screening.scan_results, screening.findings,
    screening.verdicts, screening.spent, screening.waivers, screening.calibrations, screening.snapshots, screening.published, screening.jobs
    TO maple_screener, forms_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON screening.forms TO forms_loader;
GRANT INSERT ON screening.waivers, screening.calibrations TO forms_loader;
GRANT SELECT ON screening.waivers, screening.calibrations TO forms_loader;
GRANT UPDATE (ended_at, ended_by) ON screening.waivers TO forms_loader;
GRANT UPDATE (state, version, digest, content, ruleset, origin, score, bars, patience, dead_reason, attempts, claims,
    available_at, lease_token, leased_until) ON screening.submissions TO maple_screener;
GRANT INSERT ON screening.submission_state_events, screening.scan_results, screening.findings, screening.verdicts, screening.snapshots
    TO maple_screener;
GRANT INSERT, UPDATE ON screening.spent TO maple_screener;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA screening FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION router.evaluate_routing_readiness(uuid), router.evaluate_unscreened_readiness(uuid),
    router.note_readiness(uuid, text, boolean), router.note_unscreened_readiness(uuid, text, boolean), router.failure_of(uuid),
    router.any_failure_of(uuid) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION router.evaluate_unscreened_readiness(uuid) FROM forms_app;
GRANT EXECUTE ON FUNCTION router.evaluate_routing_readiness(uuid) TO forms_app;
GRANT EXECUTE ON FUNCTION screening.job_type(text) TO maple_screener, forms_app;
GRANT EXECUTE ON FUNCTION screening.decide(uuid, bigint, text, text, text) TO maple_desk;
GRANT EXECUTE ON FUNCTION screening.gate(uuid, text, timestamptz), screening.gates(uuid, text, timestamptz), screening.stands(uuid, text),
    screening.lock_run(uuid), screening.redrive(uuid), screening.rescreen(uuid, text, text), screening.reconcile(int), screening.births(int) TO forms_app;
GRANT EXECUTE ON FUNCTION screening.content(uuid, uuid, text, int), screening.digest_of(uuid), screening.births(int) TO maple_screener;
