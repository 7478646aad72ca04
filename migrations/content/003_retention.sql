-- Schema content: retention and collection. Submissions are emptied when their time has come, objects go when nothing refers to them,
-- holds beat everything, and every removal leaves a receipt. Optional: without it nothing is ever removed. Applied by `maple-router
-- migrate --content` after 002, as the owner of the tables; the way back is down/003_retention.sql.
--
-- What must hold whoever writes stands here as constraints and triggers: an attachment refers to its object from its birth on; nothing is
-- deleted that is referenced, held, or was not marked by the very run that deletes it; the backend's rows are emptied by content.purge
-- alone, which asks content.why_kept; receipts are chained, and never change. The collector's role may do this and nothing else, it
-- cannot lift a hold nor shorten what is kept, and no other role can remove anything.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'maple_gc') THEN
        CREATE ROLE maple_gc LOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of this cluster was being migrated at the same moment
END
$$;

-- Who gives commands to a blob is recorded by these words.
ALTER TABLE router.transitions DROP CONSTRAINT transitions_actor_type_check;
ALTER TABLE router.transitions ADD CONSTRAINT transitions_actor_type_check
    CHECK (actor_type IN ('worker', 'system', 'admin', 'operator', 'client', 'backend', 'publisher', 'collector'));

-- A run of the collector: it marks what nothing refers to, and then sweeps what it marked. One at a time.
CREATE TABLE content.gc_runs (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- marking, sweeping, done; stopped: somebody asked for it; failed: it ended otherwise, or its lease ran out.
    state        text NOT NULL DEFAULT 'marking' CHECK (state IN ('marking', 'sweeping', 'done', 'stopped', 'failed')),
    actor        text NOT NULL CHECK (actor <> ''),
    lease_token  uuid NOT NULL,
    leased_until timestamptz NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz,
    -- How many were purged, marked, deleted, and what was in the way.
    counts       jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(counts) = 'object'),
    -- Why it failed.
    trouble      text,
    CHECK ((state IN ('done', 'stopped', 'failed')) = (ended_at IS NOT NULL)),
    CHECK (trouble IS NULL OR state = 'failed')
);
CREATE UNIQUE INDEX gc_runs_one ON content.gc_runs ((true)) WHERE ended_at IS NULL;
CREATE INDEX gc_runs_ended ON content.gc_runs (ended_at);

-- How long a blob that lost its last reference can be taken back; the collector writes here what is configured.
CREATE TABLE content.grace (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    value interval NOT NULL DEFAULT '7 days' CHECK (value >= '0')
);
INSERT INTO content.grace DEFAULT VALUES;

-- How long a submission that has ended is kept: of a form, or with an empty id of every form that has no row of its own. Without either it
-- has no end but the one that the backend gave it.
CREATE TABLE content.retention (
    form_id     text PRIMARY KEY,
    keep_routed interval NOT NULL CHECK (keep_routed >= '1 day'),
    keep_failed interval NOT NULL CHECK (keep_failed >= '1 day'),
    set_by      text NOT NULL CHECK (set_by <> ''),
    set_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Whatever a hold names stays, whatever else is asked for.
CREATE TABLE content.holds (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope       text NOT NULL CHECK (scope IN ('all', 'form', 'submission', 'blob')),
    value       text NOT NULL CHECK ((scope = 'all') = (value = '')),
    reason      text NOT NULL CHECK (reason <> ''),
    actor       text NOT NULL CHECK (actor <> ''),
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    released_at timestamptz,
    released_by text,
    released_why text,
    CHECK ((released_at IS NULL) = (released_by IS NULL)),
    CHECK ((released_at IS NULL) = (released_why IS NULL))
);
CREATE INDEX holds_open ON content.holds (scope, value) WHERE released_at IS NULL;

-- Objects of attachments that came another way than by an upload are blobs as well, so that they go the same way. Digest and length of
-- such a one may be unknown, and who scans it is the backend's scan worker.
ALTER TABLE content.blobs
    ADD COLUMN origin text NOT NULL DEFAULT 'upload' CHECK (origin IN ('upload', 'adopted')),
    ADD COLUMN marked_run bigint REFERENCES content.gc_runs,
    -- When the store said that the object is gone, and how it went: deleted by us; missing: somebody else was first; replaced: another
    -- object has its name, and is left alone.
    ADD COLUMN gone_at timestamptz,
    -- How often the store was asked to delete it: of what was asked for twice nobody can say who was first.
    ADD COLUMN asked int NOT NULL DEFAULT 0 CHECK (asked >= 0),
    ADD COLUMN gone text CHECK (gone IN ('deleted', 'missing', 'replaced')),
    -- Until when the store itself could bring it back.
    ADD COLUMN restorable_until timestamptz,
    ALTER COLUMN owner DROP NOT NULL, ALTER COLUMN sha256 DROP NOT NULL, ALTER COLUMN length DROP NOT NULL,
    ALTER COLUMN crc32c DROP NOT NULL, ALTER COLUMN generation DROP NOT NULL,
    -- Pages of a bucket's list and of these rows are compared in one order: that of bytes.
    ALTER COLUMN object TYPE text COLLATE "C",
    ADD CHECK (origin = 'adopted' OR num_nulls(sha256, length, crc32c, generation) = 0),
    ADD CHECK (origin = 'adopted' OR owner IS NOT NULL OR state = 'deleted'),
    ADD CHECK (state <> 'deleted' OR marked_run IS NOT NULL),
    ADD CHECK ((gone_at IS NULL) = (gone IS NULL)),
    ADD CHECK (gone_at IS NULL OR state = 'deleted');
ALTER TABLE content.blobs DROP CONSTRAINT blobs_check1;
ALTER TABLE content.blobs ADD CONSTRAINT blobs_without_verdict CHECK (verdict <> 'unscanned' OR scan_due_at IS NOT NULL OR origin = 'adopted');
CREATE INDEX blobs_tombstoned ON content.blobs (deadline, id) WHERE state = 'tombstoned';
CREATE INDEX blobs_eligible ON content.blobs (id) WHERE state = 'eligible_for_gc';
CREATE INDEX blobs_owed ON content.blobs (id) WHERE state = 'deleted' AND gone_at IS NULL;
-- What was in the way of a run, for people.
CREATE INDEX blobs_lost ON content.blobs (gone_at, id) WHERE gone IN ('missing', 'replaced');

-- kept: an operator took the blob back, and somebody refers to it until then.
ALTER TABLE content.blob_refs DROP CONSTRAINT blob_refs_kind_check, DROP CONSTRAINT blob_refs_check;
ALTER TABLE content.blob_refs
    ADD CONSTRAINT blob_refs_kind_check CHECK (kind IN ('upload', 'attachment', 'version', 'kept')),
    ADD CONSTRAINT blob_refs_check CHECK ((kind IN ('upload', 'kept')) = (until IS NOT NULL));
CREATE INDEX blob_refs_kept ON content.blob_refs (until) WHERE kind = 'kept';

-- A recall: an object gets another name, so that every link to the old one answers 404. planned: written before the store is asked;
-- moved: everybody goes by the new name, and the old object is to be deleted; done: it is gone; void: there was nothing
-- to copy, so that no link works anyway.
CREATE TABLE content.recalls (
    id             uuid PRIMARY KEY,
    blob_id        uuid NOT NULL REFERENCES content.blobs,
    submission_id  uuid NOT NULL,
    state          text NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'moved', 'done', 'void')),
    bucket         text NOT NULL,
    old_object     text NOT NULL COLLATE "C",
    -- The one that was copied; absent until it was looked at.
    old_generation bigint,
    new_object     text NOT NULL COLLATE "C",
    reason         text NOT NULL CHECK (reason <> ''),
    actor          text NOT NULL CHECK (actor <> ''),
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    moved_at       timestamptz,
    done_at        timestamptz,
    UNIQUE (bucket, new_object),
    CHECK (state IN ('planned', 'void') OR (old_generation IS NOT NULL AND moved_at IS NOT NULL)),
    CHECK ((state IN ('done', 'void')) = (done_at IS NOT NULL))
);
CREATE UNIQUE INDEX recalls_open ON content.recalls (blob_id) WHERE done_at IS NULL;
CREATE INDEX recalls_owed ON content.recalls (at, id) WHERE done_at IS NULL;
CREATE INDEX recalls_submission ON content.recalls (submission_id);
CREATE INDEX recalls_old ON content.recalls (bucket, old_object);

-- When the entries of a version that was taken out of use were removed. Its digest stays.
ALTER TABLE content.versions ADD COLUMN forgotten_at timestamptz;
CREATE INDEX versions_to_forget ON content.versions (deadline, id) WHERE state = 'tombstoned' AND forgotten_at IS NULL;

-- The rows of a submission's uploads go with it.
CREATE INDEX uploads_submission ON content.uploads (submission_id) WHERE submission_id IS NOT NULL;

-- In production made beforehand, CONCURRENTLY.
CREATE INDEX IF NOT EXISTS attachments_content_object ON public.attachments (gcs_bucket, gcs_object);
CREATE INDEX IF NOT EXISTS submissions_content_expiring ON public.submissions (retention_expires_at, id) WHERE status IN ('routed', 'failed') AND retention_expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS submissions_content_ended ON public.submissions (created_at, id) WHERE status IN ('routed', 'failed') AND retention_expires_at IS NULL;

-- ── receipts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- What was removed, on whose authority, and what the store said. Each holds the digest of the one before, so that none can be changed or
-- taken out unseen: digest = SHA-256 of the previous digest, in hexadecimal digits, and the text. No field, address or file name stands here; who
-- removed it does, and the ticket, which is not ours to remove.
CREATE TABLE content.receipts (
    id      bigint PRIMARY KEY CHECK (id > 0),
    body    text NOT NULL,
    digest  bytea NOT NULL CHECK (octet_length(digest) = 32),
    subject text GENERATED ALWAYS AS ((body::jsonb) ->> 'subject') STORED,
    run     bigint GENERATED ALWAYS AS (((body::jsonb) ->> 'run')::bigint) STORED
);
CREATE INDEX receipts_subject ON content.receipts (subject, id);

CREATE FUNCTION content.guard_receipt() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'receipts do not change' USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON content.receipts FOR EACH ROW EXECUTE FUNCTION content.guard_receipt();
CREATE TRIGGER guard_whole BEFORE TRUNCATE ON content.receipts FOR EACH STATEMENT EXECUTE FUNCTION content.guard_receipt();

-- One after the other: the chain is locked until the end of the transaction.
CREATE FUNCTION content.write_receipts(kind text, subjects text[], authority text, run bigint, details jsonb[]) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last content.receipts;
    body text;
    n int;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('content.receipts', 7010));
    SELECT * INTO last FROM content.receipts r ORDER BY r.id DESC LIMIT 1;
    last.id := COALESCE(last.id, 0);
    FOR n IN 1 .. COALESCE(cardinality(subjects), 0) LOOP
        last.id := last.id + 1;
        body := jsonb_build_object('id', last.id, 'at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'kind', kind, 'subject', subjects[n], 'authority', authority, 'run', run, 'detail', details[n])::text;
        last.digest := sha256(convert_to(COALESCE(encode(last.digest, 'hex'), '') || body, 'UTF8'));
        INSERT INTO content.receipts (id, body, digest) VALUES (last.id, body, last.digest);
    END LOOP;
    RETURN last.id;
END $$;

-- ── blobs and their references ───────────────────────────────────────────────────────────────────────────────────────────────────────

-- A record of what became of blobs, where no command of a person or of the collector is behind it.
CREATE FUNCTION content.record_blob(blob uuid, was text, now_is text, command text, why text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type, reason)
VALUES ('blob', blob::text, was, now_is, command, 'schema content', 'system', why)
$$;

-- Whoever takes a reference locks the blob first, whichever way they come. It lives from then on.
CREATE OR REPLACE FUNCTION content.guard_ref() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now_is text;
BEGIN
    SELECT b.state INTO now_is FROM content.blobs b WHERE b.id = NEW.blob_id FOR NO KEY UPDATE;
    IF now_is = 'deleted' THEN
        RAISE EXCEPTION 'blob % is deleted', NEW.blob_id USING ERRCODE = 'foreign_key_violation';
    ELSIF now_is <> 'live' THEN
        UPDATE content.blobs SET state = 'live', deadline = NULL, marked_run = NULL WHERE id = NEW.blob_id;
        PERFORM content.record_blob(NEW.blob_id, now_is, 'live', 'undelete', 'it is referred to again: ' || NEW.kind);
    END IF;
    RETURN NEW;
END $$;

-- The last reference gone: tombstoned, with the time until which that can be undone.
CREATE OR REPLACE FUNCTION content.note_unref() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now_is text;
BEGIN
    SELECT b.state INTO now_is FROM content.blobs b WHERE b.id = OLD.blob_id FOR NO KEY UPDATE;
    IF now_is <> 'live' OR EXISTS (SELECT FROM content.blob_refs r WHERE r.blob_id = OLD.blob_id) THEN
        RETURN NULL;
    END IF;
    UPDATE content.blobs b SET state = 'tombstoned', deadline = clock_timestamp() + (SELECT g.value FROM content.grace g)
    WHERE b.id = OLD.blob_id;
    PERFORM content.record_blob(OLD.blob_id, 'live', 'tombstoned', 'delete_request', 'the last reference is gone: ' || OLD.kind);
    RETURN NULL;
END $$;

-- Whether a hold names something of a blob, a form or a submission. Whoever removes takes the lock that placing a hold waits for.
CREATE FUNCTION content.is_held(form text, submission uuid, blob uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    RETURN EXISTS (SELECT FROM content.holds h WHERE h.released_at IS NULL
        AND (h.scope, h.value) IN (('all', ''), ('form', form), ('submission', submission::text), ('blob', blob::text)));
CREATE FUNCTION content.lock_holds() RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS 'SELECT pg_advisory_xact_lock_shared(hashtextextended(''content.holds'', 7009))';

-- What keeps blobs, as a run looks at them under their locks.
CREATE FUNCTION content.judged(ids uuid[]) RETURNS TABLE (id uuid, is_referenced boolean, is_held boolean, is_recalled boolean, is_due boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT b.id, EXISTS (SELECT FROM content.blob_refs f WHERE f.blob_id = b.id)
        OR EXISTS (SELECT FROM public.attachments a WHERE (a.gcs_bucket, a.gcs_object) = (b.bucket, b.object)),
    content.is_held(b.form_id, NULL, b.id), EXISTS (SELECT FROM content.recalls r WHERE r.blob_id = b.id AND r.done_at IS NULL),
    COALESCE(b.deadline <= clock_timestamp(), false)
FROM content.blobs b WHERE b.id = ANY (ids)
$$;

-- A blob does not change; deleted and infected are final; only what a living run has marked is deleted, and nothing that is needed.
CREATE OR REPLACE FUNCTION content.guard_blob() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF OLD.state = 'deleted' AND NEW.state <> 'deleted' THEN
        RAISE EXCEPTION 'blob %: deleted is final', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.verdict = 'infected' AND NEW.verdict <> 'infected' THEN
        RAISE EXCEPTION 'blob %: infected is final', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.id, NEW.form_id, NEW.origin, NEW.bucket) IS DISTINCT FROM (OLD.id, OLD.form_id, OLD.origin, OLD.bucket)
       OR (NEW.owner IS DISTINCT FROM OLD.owner AND NOT (NEW.owner IS NULL AND NEW.state = 'deleted'))
       OR (NEW.sha256, NEW.length, NEW.crc32c) IS DISTINCT FROM (OLD.sha256, OLD.length, OLD.crc32c) THEN
        RAISE EXCEPTION 'blob %: what was proven does not change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    -- By a recall its object has another name; of one that came another way the generation is read before it is deleted.
    IF (NEW.object, NEW.generation) IS DISTINCT FROM (OLD.object, OLD.generation)
       AND NOT (NEW.object = OLD.object AND OLD.generation IS NULL AND OLD.origin = 'adopted' AND OLD.state <> 'deleted')
       AND NOT EXISTS (SELECT FROM content.recalls r WHERE r.blob_id = OLD.id AND r.state = 'planned'
           AND (r.bucket, r.old_object, r.new_object) = (OLD.bucket, OLD.object, NEW.object) AND r.old_generation IS NOT NULL) THEN
        RAISE EXCEPTION 'blob %: what was proven does not change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = OLD.state THEN
        RETURN NEW;
    END IF;
    IF (OLD.state, NEW.state) NOT IN (('live', 'tombstoned'), ('tombstoned', 'live'), ('tombstoned', 'eligible_for_gc'),
        ('eligible_for_gc', 'live'), ('eligible_for_gc', 'deleted')) THEN
        RAISE EXCEPTION 'blob %: no way from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'live' THEN
        NEW.deadline := NULL;
        NEW.marked_run := NULL;
        RETURN NEW;
    END IF;
    IF NEW.state = 'eligible_for_gc' AND OLD.deadline > clock_timestamp() THEN
        RAISE EXCEPTION 'blob %: its deadline has not passed', OLD.id USING ERRCODE = 'MG001';
    END IF;
    IF NEW.state = 'deleted' THEN
        NEW.owner := NULL;
        NEW.scan_due_at := CASE WHEN NEW.verdict = 'unscanned' THEN NEW.scan_due_at END;
        IF NEW.marked_run IS DISTINCT FROM OLD.marked_run OR NOT EXISTS (SELECT FROM content.gc_runs r WHERE r.id = NEW.marked_run
            AND r.state = 'sweeping' AND r.leased_until > clock_timestamp()) THEN
            RAISE EXCEPTION 'blob %: the run that marked it does not sweep', OLD.id USING ERRCODE = 'MG002';
        END IF;
    END IF;
    IF EXISTS (SELECT FROM content.blob_refs f WHERE f.blob_id = NEW.id) OR (NEW.state <> 'tombstoned'
       AND EXISTS (SELECT FROM public.attachments a WHERE (a.gcs_bucket, a.gcs_object) = (NEW.bucket, NEW.object))) THEN
        RAISE EXCEPTION 'blob %: something refers to it', OLD.id USING ERRCODE = 'MG003';
    END IF;
    IF NEW.state IN ('eligible_for_gc', 'deleted') THEN
        PERFORM content.lock_holds();
        IF content.is_held(NEW.form_id, NULL, NEW.id) THEN
            RAISE EXCEPTION 'blob %: a hold keeps it', OLD.id USING ERRCODE = 'MG004';
        END IF;
        IF EXISTS (SELECT FROM content.recalls r WHERE r.blob_id = NEW.id AND r.done_at IS NULL) THEN
            RAISE EXCEPTION 'blob %: its links are being recalled', OLD.id USING ERRCODE = 'MG005';
        END IF;
    END IF;
    RETURN NEW;
END $$;

-- Whoever writes attachments, their references follow, in the same transaction. An object without a blob gets one here, and not when it
-- is removed: of two who name it at the same moment the second waits for the first, whatever either of them can see.
CREATE FUNCTION content.refer(attachment uuid, submission uuid, bucket text, object text, sha256 bytea, length bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    INSERT INTO content.blobs (id, form_id, origin, bucket, object, sha256, length)
    SELECT gen_random_uuid(), s.form_id, 'adopted', bucket, object, sha256, NULLIF(length, 0) FROM public.submissions s WHERE s.id = submission
    ON CONFLICT ON CONSTRAINT blobs_bucket_object_key DO NOTHING;
    -- After it: whoever moved the name away at the same moment was waited for.
    IF EXISTS (SELECT FROM content.recalls c WHERE (c.bucket, c.old_object) = (bucket, object) AND c.state IN ('moved', 'done')) THEN
        RAISE EXCEPTION 'the object of attachment % has another name: its links were recalled', attachment USING ERRCODE = 'foreign_key_violation';
    END IF;
    INSERT INTO content.blob_refs (blob_id, kind, holder)
    SELECT b.id, 'attachment', attachment::text FROM content.blobs b WHERE (b.bucket, b.object) = (bucket, object)
    ON CONFLICT DO NOTHING;
END $$;
CREATE OR REPLACE FUNCTION content.on_attachment() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        PERFORM content.refer(NEW.id, NEW.submission_id, NEW.gcs_bucket, NEW.gcs_object, NEW.sha256, NEW.size_bytes);
    END IF;
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM content.blob_refs r WHERE r.kind = 'attachment' AND r.holder = OLD.id::text
            AND (TG_OP = 'DELETE' OR r.blob_id NOT IN (
                SELECT b.id FROM content.blobs b WHERE (b.bucket, b.object) = (NEW.gcs_bucket, NEW.gcs_object)));
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER content_refs ON public.attachments;
CREATE TRIGGER content_refs AFTER INSERT OR DELETE OR UPDATE OF gcs_bucket, gcs_object ON public.attachments
    FOR EACH ROW EXECUTE FUNCTION content.on_attachment();

-- A blob that was taken back stays until then, though nothing of the backend refers to it.
CREATE FUNCTION content.keep_blob(blob uuid, actor text, span interval) RETURNS timestamptz
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
INSERT INTO content.blob_refs (blob_id, kind, holder, until) VALUES (blob, 'kept', actor, clock_timestamp() + span)
ON CONFLICT (kind, holder, blob_id) DO UPDATE SET until = GREATEST(blob_refs.until, excluded.until) RETURNING until
$$;
CREATE FUNCTION content.release_kept(most int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n bigint;
BEGIN
    DELETE FROM content.blob_refs r WHERE (r.kind, r.holder, r.blob_id) IN (SELECT x.kind, x.holder, x.blob_id FROM content.blob_refs x
        WHERE x.kind = 'kept' AND x.until < clock_timestamp() ORDER BY x.until LIMIT most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

-- ── holds ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- Waits for removals that are under way, and stops every later one.
CREATE FUNCTION content.place_hold(scope text, value text, reason text, actor text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('content.holds', 7009));
    INSERT INTO content.holds (scope, value, reason, actor) VALUES (scope, value, reason, actor) RETURNING id INTO made;
    RETURN made;
END $$;
CREATE FUNCTION content.release_hold(hold bigint, actor text, reason text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    UPDATE content.holds h SET released_at = clock_timestamp(), released_by = actor, released_why = reason
    WHERE h.id = hold AND h.released_at IS NULL;
    RETURN FOUND;
END $$;

-- ── submissions ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- When a submission's time has come; null: never.
CREATE FUNCTION content.ends_at(s public.submissions) RETURNS timestamptz
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    RETURN COALESCE(s.retention_expires_at, s.created_at + (
        SELECT CASE s.status WHEN 'routed' THEN r.keep_routed WHEN 'failed' THEN r.keep_failed END
        FROM content.retention r WHERE r.form_id IN (s.form_id, '') ORDER BY r.form_id DESC LIMIT 1));

-- Why a submission may not be emptied, or null. The caller has its lock. Authorities: retention, erasure, which skips the time and nothing
-- else, abandonment, which takes what was never claimed.
CREATE FUNCTION content.why_kept(s public.submissions, authority text) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ends timestamptz;
    review boolean;
BEGIN
    IF content.is_held(s.form_id, s.id, NULL) THEN
        RETURN 'held';
    END IF;
    -- A session that ends later would leave the file's name and owner behind.
    IF EXISTS (SELECT FROM content.uploads u WHERE u.submission_id = s.id AND u.ended_at IS NULL) THEN
        RETURN 'uploading';
    END IF;
    IF authority = 'abandonment' THEN
        RETURN CASE WHEN s.status <> 'received' OR s.routing_result <> '{}' THEN 'claimed' END;
    END IF;
    IF s.status NOT IN ('routed', 'failed') THEN
        RETURN 'open';
    END IF;
    IF EXISTS (SELECT FROM router.outbox o WHERE o.entity_id = s.id AND (o.state IN ('pending', 'delivering', 'retry_wait')
        OR (o.state = 'dead_letter' AND EXISTS (SELECT FROM router.dead_letters d WHERE d.message_id = 'outbox:' || o.id
            AND d.redriven_at IS NULL AND d.discarded_at IS NULL)))) THEN
        RETURN 'event';
    END IF;
    -- What the program itself would not believe, or does not know yet: whatever it says of mails is no proof that they are over.
    IF jsonb_typeof(s.routing_result) <> 'object' OR COALESCE(s.routing_result -> 'v', '1') <> '1'
        OR jsonb_typeof(COALESCE(s.routing_result -> 'deliveries', '{}')) <> 'object' THEN
        RETURN 'damaged';
    END IF;
    IF EXISTS (SELECT FROM jsonb_each(COALESCE(s.routing_result -> 'deliveries', '{}')) AS d(name, entry) WHERE jsonb_typeof(d.entry) <> 'object'
        OR COALESCE(d.entry ->> 'state', '') NOT IN ('open', 'accepted', 'failed', 'not_implemented')
        OR jsonb_typeof(COALESCE(d.entry -> 'doubt', 'false')) <> 'boolean'
        OR jsonb_typeof(COALESCE(d.entry #> '{relay,status}', '""')) <> 'string') THEN
        RETURN 'damaged';
    END IF;
    IF s.status = 'failed' AND (s.routing_result #>> '{alert,confirmed_at}' IS NULL
        OR s.routing_result #>> '{alert,for}' IS DISTINCT FROM s.routing_result #>> '{finished,token}') THEN
        RETURN 'untold';
    END IF;
    IF s.status = 'routed' AND (s.routing_result #>> '{late_infection,confirmed_at}' IS NULL
            OR s.routing_result #>> '{late_infection,for}' IS DISTINCT FROM s.routing_result #>> '{finished,token}')
        AND EXISTS (SELECT FROM public.attachments a WHERE a.submission_id = s.id AND a.clamav_status = 'infected') THEN
        RETURN 'untold';
    END IF;
    IF jsonb_path_exists(s.routing_result, '$.deliveries.* ? (@.doubt == true || (exists(@.begun) && @.state != "accepted")
        || @.relay.status == "deferred" || ((@.relay.status == "bounced" || @.relay.status == "expired")
            && (!exists(@.relay.told_at) || @.relay.told_at == null)))')
        OR (s.status = 'routed' AND jsonb_path_exists(s.routing_result, '$.deliveries.* ? (@.state == "open")')) THEN
        RETURN 'undelivered';
    END IF;
    IF to_regprocedure('router.is_under_review(uuid)') IS NOT NULL THEN
        EXECUTE 'SELECT router.is_under_review($1)' INTO review USING s.id;
        IF review THEN
            RETURN 'review';
        END IF;
    END IF;
    IF authority = 'erasure' THEN
        RETURN NULL;
    END IF;
    ends := content.ends_at(s);
    RETURN CASE WHEN ends IS NULL OR NOT isfinite(ends) THEN 'no_end' WHEN ends > clock_timestamp() THEN 'not_yet' END;
END $$;

-- Until when a submission is kept, and why: for whoever explains it.
CREATE FUNCTION content.kept(submission uuid) RETURNS TABLE (why text, ends_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT content.why_kept(s, 'retention'), content.ends_at(s) FROM public.submissions s WHERE s.id = submission AND s.status <> 'purged'
$$;

-- Submissions whose time may have come, in pages. Two ways, each by an index of its own: an end of their own, or their form's.
CREATE FUNCTION content.due_submissions(own boolean, after_at timestamptz, after_id uuid, most bigint) RETURNS TABLE (id uuid, at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    shortest interval;
BEGIN
    IF own THEN
        RETURN QUERY SELECT s.id, s.retention_expires_at FROM public.submissions s
        WHERE s.status IN ('routed', 'failed') AND s.retention_expires_at IS NOT NULL AND s.retention_expires_at <= now()
          AND (s.retention_expires_at, s.id) > (after_at, after_id)
        ORDER BY s.retention_expires_at, s.id LIMIT most;
        RETURN;
    END IF;
    SELECT min(LEAST(r.keep_routed, r.keep_failed)) INTO shortest FROM content.retention r;
    IF shortest IS NOT NULL THEN
        RETURN QUERY SELECT s.id, s.created_at FROM public.submissions s
        WHERE s.status IN ('routed', 'failed') AND s.retention_expires_at IS NULL AND s.created_at <= now() - shortest
          AND (s.created_at, s.id) > (after_at, after_id)
        ORDER BY s.created_at, s.id LIMIT most;
    END IF;
END $$;

-- Submissions with this value in a field, in pages: for an erasure.
CREATE FUNCTION content.submissions_with(field text, said text, after_id uuid, most bigint) RETURNS TABLE (id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT DISTINCT f.submission_id FROM public.submission_fields f
WHERE f.field_key = field AND lower(btrim(f.field_value)) = lower(btrim(said)) AND f.submission_id > after_id ORDER BY 1 LIMIT most
$$;

CREATE FUNCTION content.reviews_of(submission uuid) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE 'SELECT count(*) FROM router.grey_queue g WHERE g.subject_id = $1 AND g.subject_kind = ''submission''' INTO n USING submission;
    RETURN n;
END $$;

-- What would be removed, and what is not ours to remove: for a person who decides. Says why it is kept, or null.
CREATE FUNCTION content.erasable(submission uuid, authority text) RETURNS TABLE (form_id text, status text, created_at timestamptz, why text,
    fields bigint, files bigint, shared bigint, mails bigint, ticket text, reviews bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT s.form_id, s.status::text, s.created_at, CASE WHEN s.status = 'purged' THEN 'purged' ELSE content.why_kept(s, authority) END,
    (SELECT count(*) FROM public.submission_fields f WHERE f.submission_id = s.id),
    (SELECT count(*) FROM public.attachments a WHERE a.submission_id = s.id),
    (SELECT count(DISTINCT (a.gcs_bucket, a.gcs_object)) FROM public.attachments a JOIN public.attachments o
        ON (o.gcs_bucket, o.gcs_object) = (a.gcs_bucket, a.gcs_object) AND o.submission_id <> a.submission_id WHERE a.submission_id = s.id),
    (SELECT count(*) FROM jsonb_path_query(s.routing_result, '$.deliveries.* ? (@.state == "accepted" && exists(@.message_id))')),
    s.happyfox_ticket_id,
    CASE WHEN to_regclass('router.grey_queue') IS NULL THEN 0 ELSE content.reviews_of(s.id) END
FROM public.submissions s WHERE s.id = submission
$$;

-- Empties submissions, or says of each why not: the backend's rows go by this function alone. A row that somebody else has locked is left,
-- and not waited for.
CREATE FUNCTION content.purge(ids uuid[], authority text, actor text, run bigint) RETURNS TABLE (id uuid, why text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    locked uuid[];
    chosen uuid[] := '{}';
    blobs uuid[];
    details jsonb[];
BEGIN
    IF authority NOT IN ('retention', 'erasure', 'abandonment') THEN
        RAISE EXCEPTION 'there is no authority %', authority USING ERRCODE = 'check_violation';
    END IF;
    PERFORM content.lock_holds();
    locked := ARRAY(SELECT s.id FROM public.submissions s WHERE s.id = ANY (ids) ORDER BY s.id FOR UPDATE SKIP LOCKED);
    -- Decided by a later statement than the one that locked.
    RETURN QUERY SELECT w, CASE WHEN s.id IS NULL THEN 'unknown' ELSE 'busy' END
        FROM unnest(ids) AS w LEFT JOIN public.submissions s ON s.id = w WHERE s.id IS NULL OR w <> ALL (locked);
    FOR id, why IN SELECT s.id, CASE WHEN s.status = 'purged' THEN 'purged' ELSE content.why_kept(s, authority) END
        FROM public.submissions s WHERE s.id = ANY (locked) ORDER BY s.id
    LOOP
        IF why IS NULL THEN
            chosen := chosen || id;
        ELSE
            RETURN NEXT;
        END IF;
    END LOOP;
    IF cardinality(chosen) = 0 THEN
        RETURN;
    END IF;
    -- Attachments that are older than schema content: their objects become blobs now, with every reference to them. They are locked
    -- before, so that none of them goes between the look and its reference.
    PERFORM FROM public.attachments x WHERE x.id = ANY (ARRAY(SELECT o.id FROM public.attachments a CROSS JOIN LATERAL (
            SELECT y.id FROM public.attachments y WHERE (y.gcs_bucket, y.gcs_object) = (a.gcs_bucket, a.gcs_object) OFFSET 0) o
        WHERE a.submission_id = ANY (chosen))) ORDER BY x.id FOR UPDATE;
    PERFORM content.refer(o.id, o.submission_id, o.gcs_bucket, o.gcs_object, o.sha256, o.size_bytes)
    FROM public.attachments a CROSS JOIN LATERAL (
        SELECT y.* FROM public.attachments y WHERE (y.gcs_bucket, y.gcs_object) = (a.gcs_bucket, a.gcs_object) OFFSET 0) o
    WHERE a.submission_id = ANY (chosen)
      AND (SELECT count(*) FROM content.blob_refs r WHERE r.kind = 'attachment' AND r.holder = o.id::text) = 0
    ORDER BY o.gcs_bucket, o.gcs_object, o.id;
    blobs := ARRAY(SELECT DISTINCT r.blob_id FROM public.attachments a JOIN content.blob_refs r ON r.kind = 'attachment' AND r.holder = a.id::text
        WHERE a.submission_id = ANY (chosen));
    details := ARRAY(SELECT jsonb_strip_nulls(jsonb_build_object(
            'form', s.form_id, 'status', s.status,
            'fields', (SELECT count(*) FROM public.submission_fields f WHERE f.submission_id = s.id),
            'files', (SELECT count(*) FROM public.attachments a WHERE a.submission_id = s.id),
            'blobs', (SELECT jsonb_agg(DISTINCT r.blob_id) FROM public.attachments a JOIN content.blob_refs r
                ON r.kind = 'attachment' AND r.holder = a.id::text WHERE a.submission_id = s.id),
            'ticket', s.happyfox_ticket_id, 'actor', actor))
        FROM public.submissions s WHERE s.id = ANY (chosen) ORDER BY s.id);
    DELETE FROM content.uploads u WHERE u.submission_id = ANY (chosen) AND u.submission_id IS NOT NULL AND u.ended_at IS NOT NULL;
    DELETE FROM public.attachments a WHERE a.submission_id = ANY (chosen);
    DELETE FROM public.submission_fields f WHERE f.submission_id = ANY (chosen);
    UPDATE public.submissions s SET status = 'purged', updated_at = clock_timestamp(), happyfox_ticket_id = NULL, happyfox_status = NULL,
        routing_result = jsonb_strip_nulls(jsonb_build_object('v', s.routing_result -> 'v', 'finished', s.routing_result -> 'finished'))
    WHERE s.id = ANY (chosen);
    IF authority <> 'retention' THEN
        UPDATE content.blobs b SET deadline = clock_timestamp() WHERE b.id = ANY (blobs) AND b.state = 'tombstoned';
    END IF;
    PERFORM content.write_receipts(CASE authority WHEN 'retention' THEN 'purged' ELSE 'erased' END, chosen::text[], authority, run, details);
    IF EXISTS (SELECT FROM pg_enum e WHERE e.enumtypid = 'public.audit_action'::regtype AND e.enumlabel = 'submission_purged') THEN
        INSERT INTO public.audit_log (actor, action, submission_id, form_id, detail)
        SELECT actor, 'submission_purged', s.id, s.form_id, jsonb_build_object('v', 1, 'authority', authority, 'run', run)
        FROM public.submissions s WHERE s.id = ANY (chosen);
    END IF;
    RETURN QUERY SELECT c, NULL::text FROM unnest(chosen) AS c;
END $$;

-- ── recalls ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- Plans the recall of a submission's objects. What is planned already, whoever's it was, is answered as it is.
CREATE FUNCTION content.plan_recalls(submission uuid, reason text, actor text) RETURNS SETOF content.recalls
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    PERFORM FROM public.submissions s WHERE s.id = submission FOR NO KEY UPDATE;
    PERFORM FROM public.attachments a WHERE a.submission_id = submission ORDER BY a.id FOR UPDATE;
    PERFORM content.refer(a.id, a.submission_id, a.gcs_bucket, a.gcs_object, a.sha256, a.size_bytes)
    FROM public.attachments a WHERE a.submission_id = submission ORDER BY a.gcs_bucket, a.gcs_object;
    INSERT INTO content.recalls (id, blob_id, submission_id, bucket, old_object, new_object, reason, actor)
    SELECT f.fresh, b.id, submission, b.bucket, b.object, 'recalled/' || b.form_id || '/' || f.fresh, reason, actor
    FROM (SELECT DISTINCT r.blob_id FROM public.attachments a JOIN content.blob_refs r ON r.kind = 'attachment' AND r.holder = a.id::text
          WHERE a.submission_id = submission) n
    JOIN content.blobs b ON b.id = n.blob_id AND b.state = 'live', LATERAL (SELECT gen_random_uuid() AS fresh WHERE b.id IS NOT NULL) f
    ON CONFLICT (blob_id) WHERE done_at IS NULL DO NOTHING;
    RETURN QUERY SELECT c.* FROM content.recalls c WHERE c.done_at IS NULL AND c.blob_id IN (
        SELECT r.blob_id FROM public.attachments a JOIN content.blob_refs r ON r.kind = 'attachment' AND r.holder = a.id::text
        WHERE a.submission_id = submission) ORDER BY c.at, c.id;
END $$;

-- The copy stands: everybody goes by its name from now on, whose attachment it ever is. Answers how many attachments; null:
-- somebody else has gone on.
CREATE FUNCTION content.move_recalled(recall uuid, copied bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    c content.recalls;
    n bigint;
BEGIN
    -- Submissions are locked before attachments and blobs, by everybody.
    PERFORM FROM public.submissions s WHERE s.id IN (SELECT a.submission_id FROM content.recalls x JOIN public.attachments a
        ON (a.gcs_bucket, a.gcs_object) = (x.bucket, x.old_object) WHERE x.id = recall) ORDER BY s.id FOR NO KEY UPDATE;
    SELECT * INTO c FROM content.recalls x WHERE x.id = recall FOR UPDATE;
    IF c.state IS DISTINCT FROM 'planned' THEN
        RETURN NULL;
    END IF;
    UPDATE content.blobs b SET object = c.new_object, generation = copied WHERE b.id = c.blob_id;
    UPDATE content.recalls x SET state = 'moved', moved_at = clock_timestamp() WHERE x.id = recall;
    UPDATE public.attachments a SET gcs_object = c.new_object WHERE (a.gcs_bucket, a.gcs_object) = (c.bucket, c.old_object);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

-- ── versions ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- Entries are born with their version, in its transaction, and never change: what was reviewed by its digest is what is published. They
-- go when it can no longer be restored.
CREATE OR REPLACE FUNCTION content.guard_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM content.versions x
        WHERE x.id = OLD.version_id AND x.state = 'tombstoned' AND x.deadline < clock_timestamp()) THEN
        RETURN OLD;
    END IF;
    IF TG_OP <> 'INSERT' OR NOT EXISTS (SELECT FROM content.versions x
        WHERE x.id = NEW.version_id AND x.born_xid = pg_current_xact_id_if_assigned()) THEN
        RAISE EXCEPTION 'version %: its content does not change', CASE WHEN TG_OP = 'INSERT' THEN NEW.version_id ELSE OLD.version_id END
            USING ERRCODE = 'check_violation', HINT = 'load another content: it becomes another version';
    END IF;
    RETURN NEW;
END $$;

-- Forgets versions whose deadline has passed: their entries and references go, their digests stay. Answers which.
CREATE FUNCTION content.forget_versions(most int, actor text) RETURNS SETOF uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    v content.versions;
BEGIN
    PERFORM content.lock_holds();
    FOR v IN SELECT * FROM content.versions x WHERE x.state = 'tombstoned' AND x.forgotten_at IS NULL AND x.deadline < clock_timestamp()
        AND NOT content.is_held(x.form_id, NULL, NULL) ORDER BY x.deadline, x.id LIMIT most FOR UPDATE SKIP LOCKED
    LOOP
        DELETE FROM content.entries e WHERE e.version_id = v.id;
        DELETE FROM content.blob_refs r WHERE r.kind = 'version' AND r.holder = v.id::text;
        UPDATE content.versions x SET forgotten_at = clock_timestamp() WHERE x.id = v.id;
        INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type, reason)
        VALUES ('version', v.id::text, 'tombstoned', 'tombstoned', 'forget', actor, 'collector', 'its deadline has passed');
        RETURN NEXT v.id;
    END LOOP;
END $$;

-- ── rights ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- The daemon looks, and places and lifts holds for operators; the publisher says how long is kept; the collector removes.
GRANT USAGE ON SCHEMA content, router TO maple_gc;
GRANT SELECT ON content.gc_runs, content.retention, content.holds, content.receipts, content.recalls TO forms_app;
GRANT SELECT ON content.gc_runs, content.grace, content.retention, content.holds, content.receipts, content.recalls, content.blobs,
    content.blob_refs, content.staging TO maple_gc;
GRANT SELECT, INSERT, UPDATE, DELETE ON content.retention TO forms_loader;
GRANT INSERT, UPDATE ON content.gc_runs TO maple_gc;
GRANT UPDATE (value) ON content.grace TO maple_gc;
GRANT UPDATE (state, deadline, marked_run, asked, gone_at, gone, restorable_until, generation) ON content.blobs TO maple_gc;
GRANT UPDATE (state, old_generation, done_at) ON content.recalls TO maple_gc;
-- Final objects that became no blob: the daemon may not delete in their bucket.
GRANT DELETE ON content.staging TO maple_gc;
GRANT SELECT, INSERT ON router.transitions TO maple_gc;
CREATE POLICY transitions_collector_read ON router.transitions FOR SELECT TO maple_gc USING (lifecycle = 'blob');
CREATE POLICY transitions_collector_write ON router.transitions FOR INSERT TO maple_gc WITH CHECK (lifecycle = 'blob');
REVOKE EXECUTE ON FUNCTION content.guard_receipt(), content.write_receipts(text, text[], text, bigint, jsonb[]),
    content.record_blob(uuid, text, text, text, text), content.is_held(text, uuid, uuid), content.lock_holds(), content.judged(uuid[]),
    content.refer(uuid, uuid, text, text, bytea, bigint), content.keep_blob(uuid, text, interval), content.release_kept(int),
    content.place_hold(text, text, text, text), content.release_hold(bigint, text, text), content.ends_at(public.submissions),
    content.why_kept(public.submissions, text), content.kept(uuid), content.due_submissions(boolean, timestamptz, uuid, bigint),
    content.submissions_with(text, text, uuid, bigint), content.erasable(uuid, text), content.reviews_of(uuid),
    content.purge(uuid[], text, text, bigint), content.plan_recalls(uuid, text, text), content.move_recalled(uuid, bigint),
    content.forget_versions(int, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION content.place_hold(text, text, text, text), content.release_hold(bigint, text, text), content.kept(uuid)
    TO forms_app;
GRANT EXECUTE ON FUNCTION content.lock_holds(), content.is_held(text, uuid, uuid), content.judged(uuid[]),
    content.write_receipts(text, text[], text, bigint, jsonb[]),
    content.keep_blob(uuid, text, interval), content.release_kept(int), content.kept(uuid),
    content.due_submissions(boolean, timestamptz, uuid, bigint), content.submissions_with(text, text, uuid, bigint), content.erasable(uuid, text),
    content.purge(uuid[], text, text, bigint), content.plan_recalls(uuid, text, text), content.move_recalled(uuid, bigint),
    content.forget_versions(int, text) TO maple_gc;
