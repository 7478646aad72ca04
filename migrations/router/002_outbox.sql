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

-- What happened to whom: every lifecycle but the submission's, whose record is audit_log.
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
    -- The transaction that wrote it: it writes one event for each submission, however much it changes.
    xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
    -- It told of an infection that has since been taken back.
    outdated     boolean NOT NULL DEFAULT false,
    CHECK ((state = 'delivering') = (lease_token IS NOT NULL)),
    CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
    CHECK ((state = 'delivered') = (delivered_at IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX outbox_pending ON router.outbox (available_at, id) WHERE state = 'pending';
CREATE INDEX outbox_waiting ON router.outbox (available_at, id) WHERE state = 'retry_wait';
CREATE INDEX outbox_leased ON router.outbox (leased_until, id) WHERE state = 'delivering';
CREATE INDEX outbox_delivered ON router.outbox (delivered_at, id) WHERE state = 'delivered';
CREATE INDEX outbox_dead ON router.outbox (id) WHERE state = 'dead_letter';
CREATE INDEX outbox_entity ON router.outbox (entity_id, id);

-- What the sweeps look for, however many rows have ended.
CREATE INDEX IF NOT EXISTS submissions_router_received ON public.submissions (updated_at, id) WHERE status = 'received';
CREATE INDEX IF NOT EXISTS submissions_router_processing ON public.submissions (id) WHERE status = 'processing';
CREATE INDEX IF NOT EXISTS submissions_router_unalerted ON public.submissions (updated_at, id) WHERE status = 'failed'
    AND (routing_result #>> '{alert,confirmed_at}' IS NULL
         OR routing_result #>> '{alert,for}' IS DISTINCT FROM routing_result #>> '{finished,token}');
CREATE INDEX IF NOT EXISTS attachments_router_infected ON public.attachments (submission_id)
    WHERE clamav_status = 'infected';
CREATE INDEX IF NOT EXISTS attachments_router_unclean ON public.attachments (submission_id)
    WHERE clamav_status IS DISTINCT FROM 'clean';

-- Whether a submission is finalized. A backend that inserts before that names its column: set_finalized_column, below.
CREATE FUNCTION router.is_finalized(s public.submissions) RETURNS boolean
    LANGUAGE sql STABLE RETURN true;

-- ready: finalized and every attachment clean. infected: an attachment is. closed: routing is under way or over.
-- waiting: anything else. No row: no such submission. pending: attachments still to be scanned.
CREATE FUNCTION router.evaluate_routing_readiness(submission uuid) RETURNS TABLE (state text, pending int)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
    SELECT CASE
        WHEN s.status <> 'received' THEN 'closed'
        WHEN (EXISTS (SELECT FROM attachments x WHERE x.submission_id = s.id AND x.clamav_status = 'infected'))
            THEN 'infected'
        WHEN router.is_finalized(s)
            AND (NOT EXISTS (SELECT FROM attachments x WHERE x.submission_id = s.id AND x.clamav_status IS DISTINCT FROM 'clean'))
            THEN 'ready'
        ELSE 'waiting' END,
        (SELECT count(*) FROM attachments x WHERE x.submission_id = s.id AND x.clamav_status IS DISTINCT FROM 'clean' AND x.clamav_status IS DISTINCT FROM 'infected')::int
    FROM submissions s WHERE s.id = submission
$$;

-- Waits a moment for the row's lock; false where it cannot be had. Somebody else's commit must not hang, nor fail, for our
-- sake: two transactions that changed the same submissions in opposite order would else end as a deadlock.
CREATE FUNCTION router.await_lock(submission uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET lock_timeout = '2s'
AS $$
BEGIN
    PERFORM FROM submissions s WHERE s.id = submission FOR NO KEY UPDATE;
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN false;
END
$$;

-- Runs when a transaction commits, once for each change it made. Locks the submission first and looks in a later statement,
-- so that of two scanners that flip the last two attachments the second sees what the first has done. Without the lock (it
-- could not be had, or the transaction sees the past: repeatable read) an event is written in any case: it only says
-- "look", and the claim waits for whoever holds the row.
--   anew: it has become what it is just now, whatever was told before.
CREATE FUNCTION router.note_readiness(submission uuid, why text, anew boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    sees_now boolean := current_setting('transaction_isolation') IN ('read committed', 'read uncommitted');
    found_state text;
BEGIN
    IF sees_now THEN
        PERFORM FROM submissions s WHERE s.id = submission FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            sees_now := router.await_lock(submission);
        END IF;
    END IF;
    SELECT r.state INTO found_state FROM router.evaluate_routing_readiness(submission) r;
    IF found_state IS NULL OR found_state = 'closed' THEN
        RETURN;
    END IF;
    IF sees_now THEN
        IF found_state = 'waiting' THEN
            RETURN;
        END IF;
        IF found_state = 'infected' AND NOT anew AND EXISTS (
            SELECT FROM router.outbox o
            WHERE o.entity_id = submission AND NOT o.outdated AND o.payload->>'reason' = 'scan_infected'
        ) THEN
            RETURN;
        END IF;
    END IF;
    INSERT INTO router.outbox (kind, entity_id, payload)
    SELECT 'routing.ready', s.id, jsonb_build_object('submission_id', s.id, 'form_id', s.form_id,
        'reason', CASE WHEN found_state = 'infected' THEN 'scan_infected' ELSE why END)
    FROM submissions s
    WHERE s.id = submission AND NOT EXISTS (
        SELECT FROM router.outbox o WHERE o.entity_id = submission AND o.xid = pg_current_xact_id());
    IF FOUND THEN
        PERFORM pg_notify('maple_router_outbox', '');
    END IF;
END
$$;

CREATE FUNCTION router.on_submission() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    PERFORM router.note_readiness(NEW.id, TG_ARGV[0], true);
    RETURN NULL;
END
$$;

-- A submission may become ready when an attachment becomes clean or goes away, and infected when one becomes so. One that
-- stops being infected takes back what was told.
CREATE FUNCTION router.on_attachment() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    IF TG_OP = 'DELETE' OR (TG_OP = 'UPDATE' AND OLD.submission_id <> NEW.submission_id) THEN
        PERFORM router.note_readiness(OLD.submission_id, 'scan_clean', false);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM router.note_readiness(NEW.submission_id, 'scan_clean', false);
    END IF;
    IF TG_OP <> 'INSERT' AND OLD.clamav_status = 'infected' THEN
        UPDATE router.outbox o SET outdated = true
        WHERE o.entity_id = OLD.submission_id AND NOT o.outdated AND o.payload->>'reason' = 'scan_infected'
          AND o.xid <> pg_current_xact_id()
          AND NOT EXISTS (SELECT FROM attachments x
            WHERE x.submission_id = OLD.submission_id AND x.clamav_status = 'infected');
    END IF;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER router_finalized AFTER INSERT ON public.submissions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'received') EXECUTE FUNCTION router.on_submission('finalized');
CREATE CONSTRAINT TRIGGER router_replayed AFTER UPDATE OF status ON public.submissions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'received' AND OLD.status IN ('failed', 'routed'))
    EXECUTE FUNCTION router.on_submission('replayed');
CREATE CONSTRAINT TRIGGER router_scanned AFTER UPDATE OF clamav_status, submission_id ON public.attachments
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.clamav_status IS DISTINCT FROM NEW.clamav_status OR OLD.submission_id <> NEW.submission_id)
    EXECUTE FUNCTION router.on_attachment();
CREATE CONSTRAINT TRIGGER router_found_infected AFTER INSERT ON public.attachments DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.clamav_status = 'infected') EXECUTE FUNCTION router.on_attachment();
CREATE CONSTRAINT TRIGGER router_removed AFTER DELETE ON public.attachments DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.clamav_status IS DISTINCT FROM 'clean') EXECUTE FUNCTION router.on_attachment();

-- Tells which timestamptz of submissions says that a row is finalized; NULL: a row exists from finalize on. The same as
-- [readiness] finalized_column, which `maple-router migrate --router` passes on.
CREATE FUNCTION router.set_finalized_column(wanted name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    DROP TRIGGER IF EXISTS router_finalized_later ON public.submissions;
    IF wanted IS NULL THEN
        CREATE OR REPLACE FUNCTION router.is_finalized(s public.submissions) RETURNS boolean
            LANGUAGE sql STABLE RETURN true;
        RETURN;
    END IF;
    EXECUTE format('CREATE OR REPLACE FUNCTION router.is_finalized(s public.submissions) RETURNS boolean
        LANGUAGE sql STABLE RETURN (s.%I IS NOT NULL)', wanted);
    EXECUTE format('CREATE CONSTRAINT TRIGGER router_finalized_later AFTER UPDATE OF %I ON public.submissions
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (NEW.status = ''received'' AND OLD.%1$I IS NULL AND NEW.%1$I IS NOT NULL)
        EXECUTE FUNCTION router.on_submission(''finalized'')', wanted);
END
$$;

-- Nobody calls these but the triggers and the owner.
REVOKE EXECUTE ON FUNCTION router.await_lock(uuid), router.note_readiness(uuid, text, boolean),
    router.on_submission(), router.on_attachment(), router.set_finalized_column(name),
    router.evaluate_routing_readiness(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION router.evaluate_routing_readiness(uuid) TO forms_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON router.outbox TO forms_app;

-- The log is append-only but for the outbox's part, which goes with its rows.
GRANT SELECT, INSERT, DELETE ON router.transitions TO forms_app;
ALTER TABLE router.transitions ENABLE ROW LEVEL SECURITY;
CREATE POLICY transitions_read ON router.transitions FOR SELECT TO forms_app USING (true);
CREATE POLICY transitions_write ON router.transitions FOR INSERT TO forms_app WITH CHECK (true);
CREATE POLICY transitions_prune ON router.transitions FOR DELETE TO forms_app USING (lifecycle = 'outbox');
