-- Schema router: events that cannot be lost at birth. Triggers on submissions and attachments write an event into the
-- outbox in the very transaction that makes a submission ready or infected, whoever that transaction belongs to; the
-- daemon takes it from there. Applied by `maple-router migrate --router` as the owner of the two tables; the way back is
-- down/002_outbox.sql. On a live database see runbooks/install.md: the indexes are made beforehand, CONCURRENTLY.

-- The functions below read the two tables as their owner. Where row-level security binds even the owner, attachments could
-- look empty, and what waits for its scan would look ready.
DO $$
DECLARE
    hidden text;
BEGIN
    SELECT c.oid::regclass::text INTO hidden
    FROM pg_class c JOIN pg_roles r ON r.rolname = current_user
    WHERE c.oid IN ('public.submissions'::regclass, 'public.attachments'::regclass)
      AND NOT (r.rolsuper OR r.rolbypassrls)
      AND (c.relforcerowsecurity OR (c.relrowsecurity AND NOT pg_has_role(current_user, c.relowner, 'USAGE')));
    IF hidden IS NOT NULL THEN
        RAISE EXCEPTION 'row-level security may hide rows of % from %', hidden, current_user
            USING HINT = 'Run this as the owner of the table, without FORCE ROW LEVEL SECURITY, or as a role with BYPASSRLS.';
    END IF;
END
$$;

-- What happened to whom: every lifecycle but the submission's, whose record is audit_log. Under "readiness": an infection
-- that was taken back.
CREATE TABLE router.transitions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lifecycle  text NOT NULL,
    entity_id  text NOT NULL,
    from_state text NOT NULL,
    to_state   text NOT NULL,
    command    text NOT NULL,
    actor      text NOT NULL,
    actor_type text NOT NULL CHECK (actor_type IN ('worker', 'system', 'admin', 'operator')),
    reason     text,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    metadata   jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object')
);
CREATE INDEX transitions_entity ON router.transitions (lifecycle, entity_id, id);

-- What must leave this database. The lifecycle is "outbox" (`maple-router lifecycle show outbox`).
CREATE TABLE router.outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         text NOT NULL CHECK (kind <> ''),
    -- What it is about; a submission.
    entity_id    uuid,
    payload      jsonb NOT NULL,
    state        text NOT NULL DEFAULT 'pending'
                 CHECK (state IN ('pending', 'delivering', 'delivered', 'retry_wait', 'dead_letter')),
    -- Deliveries that failed because of the row itself; an outage, a restart and a lost lease cost none.
    attempts     int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- How often it was taken at all.
    claims       int NOT NULL DEFAULT 0 CHECK (claims >= 0),
    available_at timestamptz NOT NULL DEFAULT now(),
    -- Who delivers it now: the fence, and until when nobody else takes it.
    lease_token  uuid,
    leased_until timestamptz,
    -- What the topic's server called it; absent where the daemon took it itself.
    message_id   text,
    delivered_at timestamptz,
    -- Why the last delivery failed.
    error        text,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The transaction whose commit wrote it, where a trigger did: one event for each submission, however much it changed.
    xid          xid8,
    CHECK ((state = 'delivering') = (lease_token IS NOT NULL)),
    CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
    CHECK ((state = 'delivered') = (delivered_at IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX outbox_pending ON router.outbox (available_at, id) WHERE state = 'pending';
CREATE INDEX outbox_waiting ON router.outbox (available_at, id) WHERE state = 'retry_wait';
CREATE INDEX outbox_leased ON router.outbox (leased_until, id) WHERE state = 'delivering';
CREATE INDEX outbox_delivered ON router.outbox (delivered_at, id) WHERE state = 'delivered';
CREATE INDEX outbox_dead ON router.outbox (id) WHERE state = 'dead_letter';
-- A constraint, not a question: under serializable a question would make strangers' transactions conflict.
CREATE UNIQUE INDEX outbox_entity ON router.outbox (entity_id, xid) WHERE entity_id IS NOT NULL;

-- Whether a submission is finalized. A backend that inserts before that names its column: set_finalized_column, below.
CREATE FUNCTION router.is_finalized(s public.submissions) RETURNS boolean
    LANGUAGE sql STABLE AS 'SELECT true';

-- ready: finalized and every attachment clean. infected: an attachment is. closed: routing is under way or over.
-- waiting: anything else. No row: no such submission. pending: attachments still to be scanned.
-- PL/pgSQL because it keeps its plan; here and below a name without alias is ours, whatever columns the tables may get.
CREATE FUNCTION router.evaluate_routing_readiness(submission uuid) RETURNS TABLE (state text, pending int)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    RETURN QUERY SELECT CASE
        WHEN s.status <> 'received' THEN 'closed'
        WHEN (EXISTS (SELECT FROM public.attachments x WHERE x.submission_id = s.id AND x.clamav_status = 'infected'))
            THEN 'infected'
        WHEN router.is_finalized(s)
            AND (NOT EXISTS (SELECT FROM public.attachments x WHERE x.submission_id = s.id AND x.clamav_status IS DISTINCT FROM 'clean'))
            THEN 'ready'
        ELSE 'waiting' END,
        (SELECT count(*) FROM public.attachments x WHERE x.submission_id = s.id AND x.clamav_status IS DISTINCT FROM 'clean' AND x.clamav_status IS DISTINCT FROM 'infected')::int
    FROM public.submissions s WHERE s.id = submission;
END
$$;

-- The next four are called by the triggers' functions alone, and run as those do: as the owner, with their search path.

-- Locks the submission; false where somebody else keeps it. Never waits in a lock's queue, it asks again and again: so no
-- deadlock detector ever finds a circle through us, and nobody's statement fails for our sake. Two seconds for a
-- transaction in all, and never more than half of its own time-outs: where constraints are immediate, we run in its statement.
CREATE FUNCTION router.await_lock(submission uuid) RETURNS boolean
    LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    waited interval := COALESCE(NULLIF(current_setting('maple_router.waited', true), ''), '0')::interval;
    began timestamptz;
    until timestamptz;
    pause double precision := 0.001;
    most interval;
BEGIN
    LOOP
        PERFORM FROM public.submissions s WHERE s.id = submission FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            RETURN true;
        END IF;
        PERFORM FROM public.submissions s WHERE s.id = submission;
        IF NOT FOUND THEN
            RETURN true; -- it is gone, and so is the question
        END IF;
        IF began IS NULL THEN
            began := clock_timestamp();
            until := began + interval '2 s' - waited;
            most := current_setting('statement_timeout')::interval;
            IF most > interval '0' THEN
                until := least(until, statement_timestamp() + most / 2);
            END IF;
            most := COALESCE(current_setting('transaction_timeout', true), '0')::interval;
            IF most > interval '0' THEN
                until := least(until, transaction_timestamp() + most / 2);
            END IF;
        END IF;
        EXIT WHEN clock_timestamp() >= until;
        PERFORM pg_sleep(pause);
        pause := least(2 * pause, 0.02);
        PERFORM set_config('maple_router.waited', (waited + (clock_timestamp() - began))::text, true);
    END LOOP;
    RETURN false;
END
$$;

-- Wakes whoever listens, unless somebody has just done so: transactions that notify are committed one after the other, each
-- with a write to disk of its own. What is not told, because it was just before or by somebody who then rolled back, is found
-- by the poll. A sequence, because it is read and set without a lock and outside transactions; in ms since 1970.
CREATE SEQUENCE router.rung;
CREATE FUNCTION router.ring() RETURNS void
    LANGUAGE plpgsql
AS $$
DECLARE
    instant bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    last bigint;
BEGIN
    SELECT r.last_value INTO last FROM router.rung r;
    IF last NOT BETWEEN instant - 50 AND instant THEN
        PERFORM setval('router.rung', instant), pg_notify('maple_router_outbox', '');
    END IF;
END
$$;

-- Whether people and router have been told of this infection, and it has not been taken back since.
CREATE FUNCTION router.infection_is_told(submission uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_variable
BEGIN
    RETURN EXISTS (
        SELECT FROM router.outbox o
        WHERE o.entity_id = submission AND o.payload->>'reason' = 'scan_infected' AND NOT EXISTS (
            SELECT FROM router.transitions t
            WHERE t.lifecycle = 'readiness' AND t.entity_id = submission::text AND t.at > o.created_at));
END
$$;

-- Runs when a transaction commits, once for each change it made. Locks the submission first and looks in a later statement,
-- so that of two scanners that flip the last two attachments the second sees what the first has done. Without the lock (it
-- could not be had, or the transaction sees the past: repeatable read) an event is written in any case: it only says
-- "look", and the claim waits for whoever holds the row.
--   why: finalized, replayed (whatever was told before), scan_clean, scan_infected.
--   newborn: this transaction made the row, so that nobody else can have changed anything about it, nor can now.
CREATE FUNCTION router.note_readiness(submission uuid, why text, newborn boolean) RETURNS void
    LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    isolation text := current_setting('transaction_isolation');
    found_state text;
    told text := why;
BEGIN
    -- Serializable asks nothing that it need not: what is read there makes others' transactions conflict with this one.
    IF (CASE WHEN newborn THEN isolation <> 'serializable'
             WHEN isolation IN ('read committed', 'read uncommitted') THEN router.await_lock(submission)
             ELSE false END)
    THEN
        SELECT r.state INTO found_state FROM router.evaluate_routing_readiness(submission) r;
        IF found_state IS NULL OR found_state IN ('closed', 'waiting') THEN
            RETURN;
        END IF;
        IF found_state = 'infected' THEN
            IF why IN ('scan_clean', 'scan_infected') AND router.infection_is_told(submission) THEN
                RETURN;
            END IF;
            told := 'scan_infected';
        ELSIF why = 'scan_infected' THEN
            told := 'scan_clean'; -- and taken back in the same transaction
        END IF;
    END IF;
    INSERT INTO router.outbox (kind, entity_id, payload, xid)
    SELECT 'routing.ready', s.id, jsonb_build_object('submission_id', s.id, 'form_id', s.form_id, 'reason', told),
        pg_current_xact_id()
    FROM public.submissions s WHERE s.id = submission AND s.status = 'received'
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        PERFORM router.ring();
    END IF;
END
$$;

CREATE FUNCTION router.on_submission() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM router.note_readiness(NEW.id, TG_ARGV[0], TG_OP = 'INSERT');
    RETURN NULL;
END
$$;

-- A submission may become ready when an attachment becomes clean or goes away, and infected when one becomes so or comes.
-- One that stops being infected takes back what was told: by a row of its own, since to change the event would be to wait
-- for whoever delivers it.
CREATE FUNCTION router.on_attachment() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'DELETE' OR (TG_OP = 'UPDATE' AND OLD.submission_id <> NEW.submission_id) THEN
        IF OLD.clamav_status IS DISTINCT FROM 'clean' THEN
            PERFORM router.note_readiness(OLD.submission_id, 'scan_clean', false);
        END IF;
    ELSIF TG_OP = 'UPDATE' AND NEW.clamav_status = 'clean' THEN
        PERFORM router.note_readiness(NEW.submission_id, 'scan_clean', false);
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.clamav_status = 'infected' THEN
        PERFORM router.note_readiness(NEW.submission_id, 'scan_infected', false);
    END IF;
    IF TG_OP <> 'INSERT' AND OLD.clamav_status = 'infected' THEN
        INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type)
        SELECT 'readiness', s.id::text, 'infected', 'waiting', 'take_back', session_user, 'worker'
        FROM public.submissions s
        WHERE s.id = OLD.submission_id
          AND NOT EXISTS (SELECT FROM public.attachments x WHERE x.submission_id = s.id AND x.clamav_status = 'infected')
          AND router.infection_is_told(s.id);
    END IF;
    RETURN NULL;
END
$$;

-- Both tables at once and before anything else is locked, the second with less patience than a deadlock detector has: a
-- writer that meets us waits for us or we give up, it is never the one that fails. The first waits for lock_timeout.
DO $$
BEGIN
    LOCK TABLE public.submissions IN SHARE ROW EXCLUSIVE MODE;
    PERFORM set_config('lock_timeout', (extract(epoch FROM current_setting('deadlock_timeout')::interval) * 500)::int::text, true);
    LOCK TABLE public.attachments IN SHARE ROW EXCLUSIVE MODE;
END
$$;

-- What the sweeps look for, however many rows have ended. `maple-router migrate --router` makes them beforehand,
-- CONCURRENTLY; the two lists are compared by a test.
CREATE INDEX IF NOT EXISTS submissions_router_received ON public.submissions (updated_at, id) WHERE status = 'received';
CREATE INDEX IF NOT EXISTS submissions_router_processing ON public.submissions (id) WHERE status = 'processing';
CREATE INDEX IF NOT EXISTS submissions_router_unalerted ON public.submissions (updated_at, id) WHERE status = 'failed'
    AND (routing_result #>> '{alert,confirmed_at}' IS NULL
         OR routing_result #>> '{alert,for}' IS DISTINCT FROM routing_result #>> '{finished,token}');
CREATE INDEX IF NOT EXISTS attachments_router_infected ON public.attachments (submission_id)
    WHERE clamav_status = 'infected';
CREATE INDEX IF NOT EXISTS attachments_router_unclean ON public.attachments (submission_id)
    WHERE clamav_status IS DISTINCT FROM 'clean';

-- No list of columns: what a trigger of the backend's own sets is not in the statement.
CREATE CONSTRAINT TRIGGER router_finalized AFTER INSERT ON public.submissions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'received') EXECUTE FUNCTION router.on_submission('finalized');
CREATE CONSTRAINT TRIGGER router_replayed AFTER UPDATE ON public.submissions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'received' AND OLD.status IN ('failed', 'routed'))
    EXECUTE FUNCTION router.on_submission('replayed');
CREATE CONSTRAINT TRIGGER router_scanned AFTER UPDATE ON public.attachments
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.clamav_status IS DISTINCT FROM NEW.clamav_status OR OLD.submission_id <> NEW.submission_id)
    EXECUTE FUNCTION router.on_attachment();
CREATE CONSTRAINT TRIGGER router_found_infected AFTER INSERT ON public.attachments DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.clamav_status = 'infected') EXECUTE FUNCTION router.on_attachment();
CREATE CONSTRAINT TRIGGER router_removed AFTER DELETE ON public.attachments DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.clamav_status IS DISTINCT FROM 'clean') EXECUTE FUNCTION router.on_attachment();

-- Tells which timestamptz of submissions says that a row is finalized; NULL: a row exists from finalize on. The same as
-- [readiness] finalized_column, which `maple-router migrate --router` passes on. Answers whether anything had to be changed.
CREATE FUNCTION router.set_finalized_column(wanted name) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    body text := CASE WHEN wanted IS NULL THEN 'SELECT true' ELSE format('SELECT s.%I IS NOT NULL', wanted) END;
BEGIN
    PERFORM FROM pg_proc p WHERE p.oid = 'router.is_finalized(public.submissions)'::regprocedure AND p.prosrc = body
        AND (wanted IS NULL) <> EXISTS (SELECT FROM pg_trigger t
            WHERE t.tgrelid = 'public.submissions'::regclass AND t.tgname = 'router_finalized_later');
    IF FOUND THEN
        RETURN false;
    END IF;
    DROP TRIGGER IF EXISTS router_finalized_later ON public.submissions;
    EXECUTE format('CREATE OR REPLACE FUNCTION router.is_finalized(s public.submissions) RETURNS boolean
        LANGUAGE sql STABLE AS %L', body);
    IF wanted IS NOT NULL THEN
        EXECUTE format('CREATE CONSTRAINT TRIGGER router_finalized_later AFTER UPDATE ON public.submissions
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
            WHEN (NEW.status = ''received'' AND OLD.%1$I IS NULL AND NEW.%1$I IS NOT NULL)
            EXECUTE FUNCTION router.on_submission(''finalized'')', wanted);
    END IF;
    RETURN true;
END
$$;

-- Nobody calls these but the triggers and the owner.
REVOKE EXECUTE ON FUNCTION router.await_lock(uuid), router.ring(), router.infection_is_told(uuid),
    router.note_readiness(uuid, text, boolean), router.on_submission(), router.on_attachment(),
    router.set_finalized_column(name), router.evaluate_routing_readiness(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION router.evaluate_routing_readiness(uuid) TO forms_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON router.outbox TO forms_app;

-- The log is append-only but for the outbox's part, which goes with its rows.
GRANT SELECT, INSERT, DELETE ON router.transitions TO forms_app;
ALTER TABLE router.transitions ENABLE ROW LEVEL SECURITY;
CREATE POLICY transitions_read ON router.transitions FOR SELECT TO forms_app USING (true);
CREATE POLICY transitions_write ON router.transitions FOR INSERT TO forms_app WITH CHECK (true);
CREATE POLICY transitions_prune ON router.transitions FOR DELETE TO forms_app USING (lifecycle = 'outbox');
