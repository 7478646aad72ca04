-- Schema router: the review desk. What waits for a person is an entry of the grey queue, opened in the transaction of the
-- event that it is about; the desk's sessions, answers and access log stand beside it. Optional: without it the desk says so,
-- and everything else works. Applied by `maple-router migrate --router` after 003; the way back is down/004_grey_queue.sql.

-- The words that an entry may have. A room that opens entries of its own adds to them in its migration.
CREATE TABLE router.grey_queue_causes (
    cause        text PRIMARY KEY CHECK (cause ~ '^[a-z_]{1,40}$'),
    subject_kind text NOT NULL CHECK (subject_kind ~ '^[a-z_]{1,40}$'),
    queue        text NOT NULL CHECK (queue ~ '^[a-z_]{1,40}$'),
    -- What is older than this is opened only when somebody asks (`review open`).
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (cause, subject_kind)
);
INSERT INTO router.grey_queue_causes (cause, subject_kind, queue) VALUES
    ('failed', 'submission', 'operations'),
    ('infected', 'submission', 'security'),
    ('bounced', 'submission', 'operations'),
    ('dead_letter', 'dead_letter', 'operations');

-- The lifecycle is "grey_queue" (`maple-router lifecycle show grey_queue`). No address, field value or file name stands here.
CREATE TABLE router.grey_queue (
    id                 uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    cause              text NOT NULL,
    -- The cause's own word: why the submission failed, the kind of the dead letter.
    reason             text NOT NULL CHECK (reason ~ '^[a-z_]{1,40}$'),
    subject_kind       text NOT NULL,
    subject_id         uuid NOT NULL,
    form_id            text,
    queue              text NOT NULL,
    state              text NOT NULL DEFAULT 'Pending' CHECK (state IN ('Pending', 'Processing', 'Retrying', 'UnderReview',
                       'Escalated', 'Resolved', 'Rejected', 'Failed', 'Expired', 'Dismissed')),
    -- Raised by every transition and every further occurrence: the fence of people.
    version            bigint NOT NULL DEFAULT 1,
    occurrences        int NOT NULL DEFAULT 1 CHECK (occurrences > 0),
    detail             jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(detail) = 'object' AND pg_column_size(detail) < 4096),
    opened_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    state_since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at          timestamptz,
    -- When it is meant to expire: stamped by the daemon after each way into Pending. It does so at expires_at, which is set
    -- when people have been warned for a day.
    expiry_planned_at  timestamptz,
    expiry_warned_at   timestamptz,
    expires_at         timestamptz,
    -- Names of [desk.users]; the file on the host says what they may do, not this database.
    assignee           text CHECK (assignee ~ '^[a-z0-9._-]{1,40}$'),
    assigned_at        timestamptz,
    -- Who asked for the remedy that is under way; absent where it was the policy.
    requested_by       text CHECK (requested_by ~ '^[a-z0-9._-]{1,40}$'),
    escalation_reason  text CHECK (length(escalation_reason) BETWEEN 1 AND 2000),
    escalated_at       timestamptz,
    escalated_by       text,
    rejected_by        text,
    reject_reason      text CHECK (length(reject_reason) BETWEEN 1 AND 2000),
    resolution         text CHECK (resolution IN ('delivered', 'routed', 'redriven', 'vouched', 'owner')),
    resolved_by        text,
    -- Lease and confirmation of the message that people get about it: that it was escalated or failed, that it will expire.
    alert_leased_until timestamptz,
    alerted_at         timestamptz,
    -- The remedy under way, and when its present attempt was carried out.
    remedy             text CHECK (remedy IN ('check', 'replay', 'replan', 'force_delivery', 'release', 'redrive')),
    remedied_at        timestamptz,
    attempts           int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    claims             int NOT NULL DEFAULT 0 CHECK (claims >= 0),
    available_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token        uuid,
    leased_until       timestamptz,
    FOREIGN KEY (cause, subject_kind) REFERENCES router.grey_queue_causes (cause, subject_kind),
    CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
    CHECK (lease_token IS NULL OR state = 'Processing'),
    CHECK (state <> 'UnderReview' OR assignee IS NOT NULL),
    CHECK (state <> 'Escalated' OR (escalated_at IS NOT NULL AND escalation_reason IS NOT NULL)),
    CHECK (state <> 'Rejected' OR (rejected_by IS NOT NULL AND reject_reason IS NOT NULL)),
    CHECK ((state = 'Resolved') = (resolution IS NOT NULL)),
    CHECK (state NOT IN ('Processing', 'Retrying') OR remedy IS NOT NULL),
    CHECK ((state IN ('Resolved', 'Rejected', 'Failed', 'Expired', 'Dismissed')) = (closed_at IS NOT NULL))
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
-- One open entry for each problem.
CREATE UNIQUE INDEX grey_queue_open ON router.grey_queue (subject_id, subject_kind, cause) WHERE closed_at IS NULL;
-- The lists of the desk, oldest first. Two states at once read the first one: an index by state alone would be merged and sorted.
CREATE INDEX grey_queue_oldest ON router.grey_queue (opened_at, id) WHERE closed_at IS NULL;
-- Of closed ones as well.
CREATE INDEX grey_queue_all ON router.grey_queue (opened_at, id);
-- With what is counted beside the lists, so that counting reads no row. What is included changes with the state alone.
CREATE INDEX grey_queue_waiting ON router.grey_queue (state, opened_at, id) INCLUDE (queue, cause, state_since) WHERE closed_at IS NULL;
CREATE INDEX grey_queue_mine ON router.grey_queue (assignee, opened_at, id) WHERE closed_at IS NULL AND assignee IS NOT NULL;
CREATE INDEX grey_queue_form ON router.grey_queue (form_id, opened_at, id) WHERE closed_at IS NULL;
CREATE INDEX grey_queue_cause ON router.grey_queue (cause, reason, opened_at, id) INCLUDE (state) WHERE closed_at IS NULL;
CREATE INDEX grey_queue_closed ON router.grey_queue (closed_at, id) WHERE closed_at IS NOT NULL;
CREATE INDEX grey_queue_subject ON router.grey_queue (subject_id, opened_at);
CREATE INDEX grey_queue_changed ON router.grey_queue (updated_at, id);
-- The daemon's looks.
CREATE INDEX grey_queue_claimable ON router.grey_queue (available_at, id) WHERE state = 'Processing' AND lease_token IS NULL;
CREATE INDEX grey_queue_leased ON router.grey_queue (leased_until, id) WHERE leased_until IS NOT NULL;
CREATE INDEX grey_queue_retrying ON router.grey_queue (available_at, id) WHERE state = 'Retrying';
CREATE INDEX grey_queue_expiring ON router.grey_queue (expires_at, id) WHERE state IN ('Pending', 'Retrying') AND expires_at IS NOT NULL;
CREATE INDEX grey_queue_unplanned ON router.grey_queue (opened_at, id) WHERE state = 'Pending' AND expiry_planned_at IS NULL;
CREATE INDEX grey_queue_unwarned ON router.grey_queue (expiry_planned_at, id) WHERE state IN ('Pending', 'Retrying') AND expiry_warned_at IS NULL;
CREATE INDEX grey_queue_unalerted ON router.grey_queue (escalated_at, id) WHERE state = 'Escalated' AND alerted_at IS NULL;
CREATE INDEX grey_queue_failed ON router.grey_queue (closed_at, id) WHERE state = 'Failed' AND alerted_at IS NULL;

CREATE TABLE router.grey_queue_state_transitions (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    entry_id        uuid NOT NULL REFERENCES router.grey_queue ON DELETE CASCADE,
    -- Null at birth.
    from_state      text,
    to_state        text NOT NULL,
    -- `reviewer:NAME`, `operator:NAME`, a daemon's name, `system`.
    transitioned_by text NOT NULL,
    reason          text CHECK (length(reason) <= 2000),
    transitioned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    metadata        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    command         text NOT NULL,
    version         bigint NOT NULL,
    UNIQUE (entry_id, version)
);

-- What has been seen: one event opens at most one entry, ever.
CREATE TABLE router.grey_queue_occurrences (
    subject_id   uuid NOT NULL,
    subject_kind text NOT NULL,
    cause        text NOT NULL,
    key          text NOT NULL,
    entry_id     uuid NOT NULL REFERENCES router.grey_queue ON DELETE CASCADE,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (subject_id, subject_kind, cause, key)
);
CREATE INDEX grey_queue_occurrences_entry ON router.grey_queue_occurrences (entry_id);

-- Times that follow from a change, whichever statement makes it.
CREATE FUNCTION router.grey_queue_moved() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.updated_at := clock_timestamp();
    IF NEW.assignee IS DISTINCT FROM OLD.assignee THEN
        NEW.assigned_at := CASE WHEN NEW.assignee IS NOT NULL THEN NEW.updated_at END;
    END IF;
    IF NEW.state <> OLD.state THEN
        NEW.state_since := NEW.updated_at;
        NEW.closed_at := CASE WHEN NEW.state IN ('Resolved', 'Rejected', 'Failed', 'Expired', 'Dismissed') THEN NEW.updated_at END;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER grey_queue_moved BEFORE UPDATE ON router.grey_queue FOR EACH ROW EXECUTE FUNCTION router.grey_queue_moved();

-- The only way in. Answers the entry; the same key again changes nothing.
CREATE FUNCTION router.open_entry(cause text, reason text, subject_kind text, subject uuid, form text, key text, detail jsonb)
    RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    entry uuid;
    fresh uuid := gen_random_uuid();
BEGIN
    -- One opener at a time for a problem; the wait is as short as a commit.
    PERFORM pg_advisory_xact_lock(hashtextextended(subject_kind || subject::text || cause, 7003));
    SELECT o.entry_id INTO entry FROM router.grey_queue_occurrences o
    WHERE o.subject_id = subject AND o.subject_kind = subject_kind AND o.cause = cause AND o.key = key;
    IF FOUND THEN
        RETURN entry;
    END IF;
    UPDATE router.grey_queue g SET occurrences = g.occurrences + 1, reason = reason, detail = detail,
        version = g.version + 1, seen_at = clock_timestamp()
    WHERE g.subject_id = subject AND g.subject_kind = subject_kind AND g.cause = cause AND g.closed_at IS NULL
    RETURNING g.id INTO entry;
    IF NOT FOUND THEN
        INSERT INTO router.grey_queue (id, cause, reason, subject_kind, subject_id, form_id, queue, detail)
        SELECT fresh, c.cause, reason, subject_kind, subject, form, c.queue, detail
        FROM router.grey_queue_causes c WHERE c.cause = cause AND c.subject_kind = subject_kind
        RETURNING id INTO entry;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no entry of the grey queue has cause % and a subject of kind %', cause, subject_kind
                USING ERRCODE = 'check_violation', HINT = 'The words stand in router.grey_queue_causes.';
        END IF;
        INSERT INTO router.grey_queue_state_transitions (entry_id, to_state, transitioned_by, command, version, metadata)
        VALUES (entry, 'Pending', 'system', 'open', 1, jsonb_build_object('key', key));
    END IF;
    INSERT INTO router.grey_queue_occurrences (subject_id, subject_kind, cause, key, entry_id)
    VALUES (subject, subject_kind, cause, key, entry);
    RETURN entry;
END
$$;

-- The key of a lost mail: recipient, mail, queue id.
CREATE FUNCTION router.bounced_key(detail jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN concat_ws(':', detail->>'action_order', COALESCE(detail #>> '{recipient,hmac}', detail #>> '{recipient,domain}', '-'),
    COALESCE(detail->>'generation', '0'), COALESCE(detail->>'queue_id', '-'));

-- A failed submission's cause, reason, and the key of this very failure: read here by trigger and reconciliation alike.
CREATE FUNCTION router.failure_of(submission uuid) RETURNS TABLE (cause text, reason text, form text, key text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    RETURN QUERY SELECT CASE WHEN x.dirty THEN 'infected' ELSE 'failed' END,
        CASE WHEN x.dirty THEN 'infected'
             ELSE COALESCE(substring(s.routing_result #>> '{finished,reason}' FROM '^[a-z_]{1,40}$'), 'unknown') END,
        s.form_id::text,
        COALESCE(s.routing_result #>> '{finished,token}', 'status:' || s.updated_at)
    FROM public.submissions s, LATERAL (SELECT EXISTS (
        SELECT FROM public.attachments a WHERE a.submission_id = s.id AND a.clamav_status = 'infected') AS dirty) x
    WHERE s.id = submission AND s.status = 'failed';
END
$$;

-- Whoever's transaction it is: finish, sweep, scan worker. Fails nobody: what it swallows the reconciliation finds.
CREATE FUNCTION router.on_failed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM router.open_entry(f.cause, f.reason, 'submission', NEW.id, f.form, f.key, '{}') FROM router.failure_of(NEW.id) f;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'no entry of the grey queue for submission %: %', NEW.id, SQLERRM;
    RETURN NULL;
END
$$;
CREATE INDEX IF NOT EXISTS submissions_router_failed ON public.submissions (updated_at, id) WHERE status = 'failed';
CREATE CONSTRAINT TRIGGER router_failed AFTER UPDATE ON public.submissions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.status = 'failed' AND (OLD.status <> 'failed'
          OR OLD.routing_result #>> '{finished,token}' IS DISTINCT FROM NEW.routing_result #>> '{finished,token}'))
    EXECUTE FUNCTION router.on_failed();
CREATE CONSTRAINT TRIGGER router_born_failed AFTER INSERT ON public.submissions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.status = 'failed') EXECUTE FUNCTION router.on_failed();

-- A mail that is lost after the relay took it, once for each mail: the audit row is written beside its mark. The recipient's
-- digest is the audit log's, under the host's key; of the address its domain alone is kept.
CREATE FUNCTION router.open_bounced(submission uuid, form text, detail jsonb) RETURNS uuid
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN router.open_entry('bounced', CASE WHEN detail #>> '{error,class}' = 'expired' THEN 'expired' ELSE 'bounced' END,
    'submission', submission, form, router.bounced_key(detail), jsonb_strip_nulls(jsonb_build_object(
        'action', detail->'action_order', 'domain', left(detail #>> '{recipient,domain}', 253), 'code', left(detail #>> '{error,enhanced}', 20))));
CREATE FUNCTION router.on_lost_mail() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM router.open_bounced(NEW.submission_id, NEW.form_id::text, NEW.detail);
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'no entry of the grey queue for a lost mail of submission %: %', NEW.submission_id, SQLERRM;
    RETURN NULL;
END
$$;
CREATE INDEX IF NOT EXISTS audit_log_router_failed ON public.audit_log (occurred_at, id) WHERE detail ? 'error';
CREATE TRIGGER router_lost_mail AFTER INSERT ON public.audit_log FOR EACH ROW
    WHEN (NEW.action::text = 'email_failed' AND NEW.submission_id IS NOT NULL AND NEW.detail #>> '{error,stage}' = 'delivery')
    EXECUTE FUNCTION router.on_lost_mail();

-- Pub/Sub's dead letters and the outbox's: one record, one entry. Of a notification that could not be sent as well.
ALTER TABLE router.dead_letters DROP CONSTRAINT dead_letters_kind_check,
    ADD CONSTRAINT dead_letters_kind_check CHECK (kind IN ('unreadable', 'unknown_submission', 'notification'));
CREATE FUNCTION router.on_dead_letter() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM router.open_entry('dead_letter', NEW.kind, 'dead_letter', NEW.id, NULL, NEW.id::text,
        jsonb_build_object('source', CASE WHEN NEW.message_id LIKE 'outbox:%' THEN 'outbox' ELSE 'pubsub' END));
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'no entry of the grey queue for dead letter %: %', NEW.id, SQLERRM;
    RETURN NULL;
END
$$;
CREATE TRIGGER grey_queue_dead_letter AFTER INSERT ON router.dead_letters FOR EACH ROW EXECUTE FUNCTION router.on_dead_letter();

-- Opens entries for failures and dead letters since `since` that no trigger opened one for; `history`: also for those from
-- before this file was applied. Answers how many.
CREATE FUNCTION router.reconcile_grey_queue(since timestamptz, history boolean, most int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    opened bigint := 0;
    missed record;
BEGIN
    FOR missed IN
        SELECT s.id, f.* FROM public.submissions s, LATERAL router.failure_of(s.id) f, router.grey_queue_causes c
        WHERE s.status = 'failed' AND s.updated_at >= since AND c.cause = f.cause
          AND (history OR s.updated_at >= c.since) AND NOT EXISTS (
            SELECT FROM router.grey_queue_occurrences o
            WHERE o.subject_id = s.id AND o.subject_kind = 'submission' AND o.cause IN ('failed', 'infected') AND o.key = f.key)
        ORDER BY s.updated_at, s.id LIMIT most
    LOOP
        PERFORM router.open_entry(missed.cause, missed.reason, 'submission', missed.id, missed.form, missed.key, '{}');
        opened := opened + 1;
    END LOOP;
    FOR missed IN
        SELECT a.submission_id, a.form_id::text AS form, a.detail
        FROM public.audit_log a JOIN public.submissions s ON s.id = a.submission_id AND s.status <> 'purged',
            router.grey_queue_causes c
        WHERE a.detail ? 'error' AND a.action::text = 'email_failed' AND a.detail #>> '{error,stage}' = 'delivery' AND a.occurred_at >= since
          AND c.cause = 'bounced' AND (history OR a.occurred_at >= c.since) AND NOT EXISTS (
            SELECT FROM router.grey_queue_occurrences o WHERE o.subject_id = a.submission_id AND o.subject_kind = 'submission'
              AND o.cause = 'bounced' AND o.key = router.bounced_key(a.detail))
        ORDER BY a.occurred_at, a.id LIMIT most
    LOOP
        PERFORM router.open_bounced(missed.submission_id, missed.form, missed.detail);
        opened := opened + 1;
    END LOOP;
    FOR missed IN
        SELECT d.id, d.kind, d.message_id FROM router.dead_letters d, router.grey_queue_causes c
        WHERE d.at >= since AND c.cause = 'dead_letter' AND (history OR d.at >= c.since) AND d.redriven_at IS NULL AND d.discarded_at IS NULL AND NOT EXISTS (
            SELECT FROM router.grey_queue_occurrences o
            WHERE o.subject_id = d.id AND o.subject_kind = 'dead_letter' AND o.cause = 'dead_letter')
        ORDER BY d.at, d.id LIMIT most
    LOOP
        PERFORM router.open_entry('dead_letter', missed.kind, 'dead_letter', missed.id, NULL, missed.id::text,
            jsonb_build_object('source', CASE WHEN missed.message_id LIKE 'outbox:%' THEN 'outbox' ELSE 'pubsub' END));
        opened := opened + 1;
    END LOOP;
    RETURN opened;
END
$$;

-- For whoever empties submissions: not while somebody decides about one.
CREATE FUNCTION router.is_under_review(submission uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN EXISTS (SELECT FROM router.grey_queue g
    WHERE g.subject_id = submission AND g.subject_kind = 'submission' AND g.closed_at IS NULL);

-- Entries go with their history, long after they were closed, and only where their subject would not open them anew.
CREATE FUNCTION router.prune_grey_queue(keep interval, most int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    gone bigint;
BEGIN
    IF keep < interval '30 d' THEN
        RAISE EXCEPTION 'entries are kept for at least 30 days';
    END IF;
    DELETE FROM router.grey_queue g WHERE g.id IN (
        SELECT x.id FROM router.grey_queue x
        WHERE x.closed_at < now() - keep
          AND NOT EXISTS (SELECT FROM public.submissions s WHERE s.id = x.subject_id AND s.status = 'failed')
          AND NOT EXISTS (SELECT FROM router.dead_letters d WHERE d.id = x.subject_id
                          AND d.redriven_at IS NULL AND d.discarded_at IS NULL)
        ORDER BY x.closed_at, x.id LIMIT most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END
$$;

-- Notifications of assignments wait here beside events; whoever looks for one kind does not read the other's backlog.
CREATE INDEX outbox_pending_kind ON router.outbox (kind, available_at, id) WHERE state = 'pending';

-- Sessions, login links, tokens: HMAC-SHA256 under a key that only the daemon's host has, so that writing here mints nothing.
CREATE TABLE router.desk_credentials (
    digest       bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
    kind         text NOT NULL CHECK (kind IN ('link', 'session', 'token')),
    user_name    text NOT NULL,
    role_cap     text CHECK (role_cap IN ('viewer', 'reviewer', 'security', 'admin')),
    label        text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    last_used_at timestamptz,
    ended_at     timestamptz
);
CREATE INDEX desk_credentials_expiry ON router.desk_credentials (expires_at);
-- Those that count, as they are listed.
CREATE INDEX desk_credentials_open ON router.desk_credentials (user_name, created_at, digest) WHERE ended_at IS NULL;

-- Written in the transaction of what it answers for: a second request waits for the first, then reads its answer.
CREATE TABLE router.desk_idempotency (
    user_name  text NOT NULL,
    key        text NOT NULL CHECK (length(key) BETWEEN 1 AND 128),
    request    bytea NOT NULL CHECK (octet_length(request) = 32),
    status     int NOT NULL,
    response   jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_name, key)
);
CREATE INDEX desk_idempotency_age ON router.desk_idempotency (created_at);

-- Who was shown what people wrote.
CREATE TABLE router.desk_access_log (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    user_name     text NOT NULL,
    submission_id uuid NOT NULL,
    what          text NOT NULL CHECK (what IN ('mail', 'recipients', 'fields', 'links', 'dead_letter'))
);
CREATE INDEX desk_access_log_submission ON router.desk_access_log (submission_id, at);

GRANT SELECT ON router.grey_queue_causes, router.grey_queue_occurrences TO forms_app;
GRANT SELECT, UPDATE ON router.grey_queue TO forms_app;
GRANT SELECT, INSERT ON router.grey_queue_state_transitions TO forms_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON router.desk_credentials TO forms_app;
GRANT SELECT, INSERT, DELETE ON router.desk_idempotency TO forms_app;
GRANT SELECT, INSERT ON router.desk_access_log TO forms_app;
REVOKE EXECUTE ON FUNCTION router.open_entry(text, text, text, uuid, text, text, jsonb), router.failure_of(uuid),
    router.on_failed(), router.on_dead_letter(), router.on_lost_mail(), router.open_bounced(uuid, text, jsonb),
    router.bounced_key(jsonb), router.grey_queue_moved(), router.reconcile_grey_queue(timestamptz, boolean, int),
    router.is_under_review(uuid), router.prune_grey_queue(interval, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION router.open_entry(text, text, text, uuid, text, text, jsonb), router.is_under_review(uuid),
    router.reconcile_grey_queue(timestamptz, boolean, int), router.prune_grey_queue(interval, int) TO forms_app;
