-- The way back from 003_retention.sql, as the owner of the tables: `maple-router migrate --content --back 003`. What was removed stays
-- removed, and the role maple_gc stays, without rights; holds, receipts and the history of blobs go: keep a copy of content.receipts.

-- Part: attachments.
DROP TRIGGER IF EXISTS content_refs ON public.attachments;
CREATE OR REPLACE FUNCTION content.on_attachment() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM content.blob_refs r WHERE r.kind = 'attachment' AND r.holder = OLD.id::text;
    RETURN NULL;
END $$;
CREATE TRIGGER content_refs AFTER DELETE ON public.attachments FOR EACH ROW EXECUTE FUNCTION content.on_attachment();

-- Part: what is left.
DROP FUNCTION IF EXISTS content.purge(uuid[], text, text, bigint), content.plan_recalls(uuid, text, text),
    content.move_recalled(uuid, bigint), content.forget_versions(int, text), content.erasable(uuid, text), content.reviews_of(uuid),
    content.submissions_with(text, text, uuid, bigint), content.due_submissions(boolean, timestamptz, uuid, bigint), content.kept(uuid),
    content.why_kept(public.submissions, text), content.ends_at(public.submissions), content.place_hold(text, text, text, text),
    content.release_hold(bigint, text, text), content.keep_blob(uuid, text, interval), content.release_kept(int),
    content.refer(uuid, uuid, text, text, bytea, bigint), content.write_receipts(text, text[], text, bigint, jsonb[]);
CREATE OR REPLACE FUNCTION content.guard_ref() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now_is text;
BEGIN
    SELECT b.state INTO now_is FROM content.blobs b WHERE b.id = NEW.blob_id FOR NO KEY UPDATE;
    IF now_is = 'deleted' THEN
        RAISE EXCEPTION 'blob % is deleted', NEW.blob_id USING ERRCODE = 'foreign_key_violation';
    ELSIF now_is <> 'live' THEN
        UPDATE content.blobs SET state = 'live', deadline = NULL WHERE id = NEW.blob_id;
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE FUNCTION content.note_unref() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM content.blobs b WHERE b.id = OLD.blob_id FOR NO KEY UPDATE;
    UPDATE content.blobs b SET state = 'tombstoned', deadline = clock_timestamp() + interval '7 days'
    WHERE b.id = OLD.blob_id AND b.state = 'live'
      AND NOT EXISTS (SELECT FROM content.blob_refs r WHERE r.blob_id = OLD.blob_id);
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION content.guard_blob() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF OLD.state = 'deleted' AND NEW.state <> 'deleted' THEN
        RAISE EXCEPTION 'blob %: deleted is final', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.verdict = 'infected' AND NEW.verdict <> 'infected' THEN
        RAISE EXCEPTION 'blob %: infected is final', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.id, NEW.form_id, NEW.owner, NEW.sha256, NEW.length, NEW.crc32c, NEW.bucket, NEW.object, NEW.generation)
        IS DISTINCT FROM (OLD.id, OLD.form_id, OLD.owner, OLD.sha256, OLD.length, OLD.crc32c, OLD.bucket, OLD.object, OLD.generation) THEN
        RAISE EXCEPTION 'blob %: what was proven does not change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE FUNCTION content.guard_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP <> 'INSERT' OR NOT EXISTS (SELECT FROM content.versions x
        WHERE x.id = NEW.version_id AND x.born_xid = pg_current_xact_id_if_assigned()) THEN
        RAISE EXCEPTION 'version %: its content does not change', CASE WHEN TG_OP = 'INSERT' THEN NEW.version_id ELSE OLD.version_id END
            USING ERRCODE = 'check_violation', HINT = 'load another content: it becomes another version';
    END IF;
    RETURN NEW;
END $$;
DROP FUNCTION IF EXISTS content.judged(uuid[]), content.lock_holds(), content.is_held(text, uuid, uuid), content.record_blob(uuid, text, text, text, text);
DROP INDEX IF EXISTS public.attachments_content_object, public.submissions_content_expiring, public.submissions_content_ended;
ALTER TABLE content.versions DROP COLUMN forgotten_at;
DROP TABLE IF EXISTS content.recalls, content.receipts, content.holds, content.retention, content.grace;
DROP FUNCTION IF EXISTS content.guard_receipt();
DELETE FROM content.blob_refs r USING content.blobs b WHERE b.id = r.blob_id AND (b.origin = 'adopted' OR r.kind = 'kept');
DELETE FROM content.blobs b WHERE b.origin = 'adopted';
ALTER TABLE content.blobs DISABLE TRIGGER guard;
UPDATE content.blobs b SET owner = '-' WHERE b.owner IS NULL;
ALTER TABLE content.blobs ENABLE TRIGGER guard;
ALTER TABLE content.blobs DROP COLUMN origin, DROP COLUMN marked_run, DROP COLUMN asked, DROP COLUMN gone_at, DROP COLUMN gone, DROP COLUMN restorable_until,
    ADD CONSTRAINT blobs_check1 CHECK (verdict <> 'unscanned' OR scan_due_at IS NOT NULL),
    ALTER COLUMN owner SET NOT NULL, ALTER COLUMN sha256 SET NOT NULL, ALTER COLUMN length SET NOT NULL,
    ALTER COLUMN crc32c SET NOT NULL, ALTER COLUMN generation SET NOT NULL, ALTER COLUMN object TYPE text COLLATE "default";
DROP INDEX IF EXISTS content.blobs_tombstoned, content.blobs_eligible, content.blob_refs_kept, content.uploads_submission;
DROP TABLE IF EXISTS content.gc_runs;
ALTER TABLE content.blob_refs DROP CONSTRAINT blob_refs_kind_check, DROP CONSTRAINT blob_refs_check;
ALTER TABLE content.blob_refs
    ADD CONSTRAINT blob_refs_kind_check CHECK (kind IN ('upload', 'attachment', 'version')),
    ADD CONSTRAINT blob_refs_check CHECK ((kind = 'upload') = (until IS NOT NULL));
DROP POLICY IF EXISTS transitions_collector_read ON router.transitions;
DROP POLICY IF EXISTS transitions_collector_write ON router.transitions;
REVOKE ALL ON router.transitions FROM maple_gc;
REVOKE ALL ON content.blobs, content.blob_refs, content.staging FROM maple_gc;
REVOKE UPDATE (state, deadline, generation) ON content.blobs FROM maple_gc;
REVOKE USAGE ON SCHEMA content, router FROM maple_gc;
DELETE FROM router.transitions WHERE lifecycle = 'blob' OR (lifecycle = 'version' AND actor_type = 'collector');
ALTER TABLE router.transitions DROP CONSTRAINT transitions_actor_type_check;
ALTER TABLE router.transitions ADD CONSTRAINT transitions_actor_type_check
    CHECK (actor_type IN ('worker', 'system', 'admin', 'operator', 'client', 'backend', 'publisher'));
