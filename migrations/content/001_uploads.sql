-- Schema content: uploads. Bytes come in, are proven and scanned, become a blob that never changes, and from there attachments.
-- Optional: without it `[uploads]` cannot be switched on, and everything else works. Applied by `maple-router migrate --content`
-- after schema router (002 at least), as the owner of the tables; the way back is down/001_uploads.sql.
--
-- What must hold whoever writes stands here as constraints and triggers: every object has a row before it has bytes, a name is
-- never used again, a reference is born in the transaction that makes its blob, what was declared and what has ended does not
-- change, and nothing but a verdict makes an attachment clean.

-- Who gives commands to an upload is recorded by these words.
ALTER TABLE router.transitions DROP CONSTRAINT transitions_actor_type_check;
ALTER TABLE router.transitions ADD CONSTRAINT transitions_actor_type_check
    CHECK (actor_type IN ('worker', 'system', 'admin', 'operator', 'client', 'backend'));

-- Bytes that were proven. Its object is never written again, and its name is never given again.
CREATE TABLE content.blobs (
    id             uuid PRIMARY KEY,
    form_id        text NOT NULL,
    -- Whoever brought it first: within `[uploads] dedupe = "owner"` the same file of another owner is another blob.
    owner          text NOT NULL CHECK (owner <> ''),
    sha256         bytea NOT NULL CHECK (octet_length(sha256) = 32),
    length         bigint NOT NULL CHECK (length > 0),
    crc32c         bigint NOT NULL CHECK (crc32c BETWEEN 0 AND 4294967295),
    -- What its first bytes show; absent where they show nothing.
    shown_type     text,
    bucket         text NOT NULL,
    object         text NOT NULL,
    generation     bigint NOT NULL,
    verdict        text NOT NULL DEFAULT 'unscanned' CHECK (verdict IN ('unscanned', 'clean', 'infected', 'unscannable')),
    -- The scanner's name for what it found, or why it could not judge.
    signature      text,
    -- The scanner's version and the day of its signatures.
    scanner        text,
    scanned_at     timestamptz,
    -- When the scanner looks at it next; absent: a verdict stands, and nobody has asked for another.
    scan_due_at    timestamptz,
    -- Looks that brought no verdict, since the last one.
    scan_attempts  int NOT NULL DEFAULT 0 CHECK (scan_attempts >= 0),
    state          text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'tombstoned', 'eligible_for_gc', 'deleted')),
    deadline       timestamptz,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (bucket, object),
    CHECK ((verdict = 'unscanned') = (scanned_at IS NULL)),
    -- What has no verdict is looked at.
    CHECK (verdict <> 'unscanned' OR scan_due_at IS NOT NULL),
    CHECK (state <> 'tombstoned' OR deadline IS NOT NULL)
);
CREATE UNIQUE INDEX blobs_key ON content.blobs (form_id, owner, sha256, length) WHERE state <> 'deleted';
CREATE INDEX blobs_scan_due ON content.blobs (scan_due_at, id) WHERE scan_due_at IS NOT NULL AND state <> 'deleted';
CREATE INDEX blobs_unscannable ON content.blobs (scanned_at, id) WHERE verdict = 'unscannable' AND state = 'live';
CREATE INDEX blobs_infected ON content.blobs (scanned_at, id) WHERE verdict = 'infected' AND state = 'live';

-- Why a blob is needed. The last one gone makes it a candidate for collection.
CREATE TABLE content.blob_refs (
    blob_id    uuid NOT NULL REFERENCES content.blobs,
    kind       text NOT NULL CHECK (kind IN ('upload', 'attachment')),
    holder     text NOT NULL,
    -- When an upload that nobody attaches loses its reference.
    until      timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (kind, holder, blob_id),
    CHECK ((kind = 'upload') = (until IS NOT NULL))
);
CREATE INDEX blob_refs_blob ON content.blob_refs (blob_id);
CREATE INDEX blob_refs_until ON content.blob_refs (until) WHERE kind = 'upload';

-- A session of an upload. The lifecycle is "upload" (`maple-router lifecycle show upload`).
CREATE TABLE content.uploads (
    id                uuid PRIMARY KEY,
    form_id           text NOT NULL,
    owner             text NOT NULL CHECK (owner <> ''),
    submission_id     uuid,
    idempotency_key   text NOT NULL CHECK (idempotency_key <> ''),
    -- Keyed digest of the request that made it: a request has what people wrote.
    request_digest    bytea NOT NULL CHECK (octet_length(request_digest) = 32),
    -- Of the token that the client has; the token itself is kept nowhere.
    token_sha256      bytea NOT NULL CHECK (octet_length(token_sha256) = 32),
    file_name         text NOT NULL,
    content_type      text NOT NULL,
    length            bigint NOT NULL CHECK (length > 0),
    sha256            bytea CHECK (octet_length(sha256) = 32),
    part_size         int NOT NULL CHECK (part_size >= 5242880),
    state             text NOT NULL DEFAULT 'initiated'
                      CHECK (state IN ('initiated', 'parts_uploading', 'pending_commit', 'committed', 'aborted')),
    -- The store's name of the multipart upload.
    store_upload_id   text,
    -- The parts and their ETags, written before the store is asked to assemble them.
    etags             jsonb,
    -- The blob that is to be made, written before its object is.
    planned_blob      uuid NOT NULL,
    -- What was found when the bytes were read: {crc32c, generation, shown_type, verdict, signature, scanner}.
    found             jsonb CHECK (jsonb_typeof(found) = 'object'),
    blob_id           uuid REFERENCES content.blobs,
    deduplicated      boolean NOT NULL DEFAULT false,
    -- The answer that is given from now on, once it is aborted.
    problem           jsonb CHECK (jsonb_typeof(problem) = 'object'),
    attempts          int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    claims            int NOT NULL DEFAULT 0 CHECK (claims >= 0),
    available_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token       uuid,
    leased_until      timestamptz,
    expires_at        timestamptz NOT NULL,
    -- How long a reference lasts that nobody attaches.
    unattached_ttl    interval NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at          timestamptz,
    UNIQUE (owner, idempotency_key),
    CHECK ((state IN ('committed', 'aborted')) = (ended_at IS NOT NULL)),
    CHECK ((state = 'committed') = (blob_id IS NOT NULL)),
    CHECK (state NOT IN ('pending_commit', 'committed') OR sha256 IS NOT NULL),
    CHECK (state NOT IN ('parts_uploading', 'pending_commit') OR store_upload_id IS NOT NULL),
    CHECK (state <> 'pending_commit' OR etags IS NOT NULL),
    CHECK ((state = 'aborted') = (problem IS NOT NULL)),
    CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
    CHECK (lease_token IS NULL OR state = 'pending_commit')
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX uploads_open ON content.uploads (owner) WHERE ended_at IS NULL;
CREATE INDEX uploads_initiated ON content.uploads (expires_at, id) WHERE state = 'initiated';
CREATE INDEX uploads_uploading ON content.uploads (expires_at, id) WHERE state = 'parts_uploading';
CREATE INDEX uploads_pending ON content.uploads (available_at, id) WHERE state = 'pending_commit';
CREATE INDEX uploads_expiring ON content.uploads (expires_at, id) WHERE state = 'pending_commit';
CREATE INDEX uploads_leased ON content.uploads (leased_until, id) WHERE lease_token IS NOT NULL;
CREATE INDEX uploads_blob ON content.uploads (blob_id) WHERE blob_id IS NOT NULL;
CREATE INDEX uploads_ended ON content.uploads (ended_at, id) WHERE ended_at IS NOT NULL;

-- Every object has a row before it has bytes: those of a session below `staging/`, and a blob's own until the blob stands. The row
-- goes when the object is a blob's, or is gone.
CREATE TABLE content.staging (
    bucket          text NOT NULL,
    object          text NOT NULL,
    upload_id       uuid NOT NULL,
    -- session: the parts and what they are assembled to; blob: the final object, which is made of that one alone. So a session's
    -- object is removed first: once it is gone, nobody who comes late makes the final object again.
    role            text NOT NULL CHECK (role IN ('session', 'blob')),
    -- The store's name of the multipart upload.
    store_upload_id text,
    -- From when on it is removed; absent: it is still needed.
    due_at          timestamptz,
    attempts        int NOT NULL DEFAULT 0,
    PRIMARY KEY (bucket, object)
);
CREATE INDEX staging_due ON content.staging (due_at, bucket, object) WHERE due_at IS NOT NULL;
CREATE UNIQUE INDEX staging_upload ON content.staging (upload_id, role);

-- Whoever takes a reference locks the blob first, whichever way they come.
CREATE FUNCTION content.guard_ref() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
CREATE TRIGGER guard BEFORE INSERT ON content.blob_refs FOR EACH ROW EXECUTE FUNCTION content.guard_ref();

-- The last reference gone: tombstoned, with the time until which that can be undone.
CREATE FUNCTION content.note_unref() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM content.blobs b WHERE b.id = OLD.blob_id FOR NO KEY UPDATE;
    UPDATE content.blobs b SET state = 'tombstoned', deadline = clock_timestamp() + interval '7 days'
    WHERE b.id = OLD.blob_id AND b.state = 'live'
      AND NOT EXISTS (SELECT FROM content.blob_refs r WHERE r.blob_id = OLD.blob_id);
    RETURN NULL;
END $$;
CREATE TRIGGER unref AFTER DELETE ON content.blob_refs FOR EACH ROW EXECUTE FUNCTION content.note_unref();

-- A blob does not change; deleted and infected are final.
CREATE FUNCTION content.guard_blob() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
CREATE TRIGGER guard BEFORE UPDATE ON content.blobs FOR EACH ROW EXECUTE FUNCTION content.guard_blob();

-- An upload goes the way of its lifecycle; what was declared and what has ended does not change. Committed: its blob is there, or
-- is made here of what was found, with the reference that keeps it. Aborted: it says why, and its objects are due.
CREATE FUNCTION content.guard_upload() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    final content.staging;
    b content.blobs;
BEGIN
    IF OLD.ended_at IS NOT NULL AND to_jsonb(NEW) - 'submission_id' <> to_jsonb(OLD) - 'submission_id' THEN
        RAISE EXCEPTION 'upload % has ended', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.id, NEW.length, NEW.form_id, NEW.owner, NEW.planned_blob, NEW.token_sha256, NEW.part_size)
        IS DISTINCT FROM (OLD.id, OLD.length, OLD.form_id, OLD.owner, OLD.planned_blob, OLD.token_sha256, OLD.part_size)
       OR (OLD.sha256 IS NOT NULL AND NEW.sha256 IS DISTINCT FROM OLD.sha256)
       OR (OLD.store_upload_id IS NOT NULL AND NEW.store_upload_id IS DISTINCT FROM OLD.store_upload_id)
       OR (OLD.etags IS NOT NULL AND NEW.etags IS DISTINCT FROM OLD.etags) THEN
        RAISE EXCEPTION 'upload %: what was declared does not change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = OLD.state THEN
        RETURN NEW;
    END IF;
    IF (OLD.state, NEW.state) NOT IN (('initiated', 'parts_uploading'), ('initiated', 'committed'), ('parts_uploading', 'pending_commit'),
        ('pending_commit', 'committed'), ('initiated', 'aborted'), ('parts_uploading', 'aborted'), ('pending_commit', 'aborted')) THEN
        RAISE EXCEPTION 'upload %: no way from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state IN ('committed', 'aborted') THEN
        NEW.ended_at := clock_timestamp();
    END IF;
    IF NEW.state = 'aborted' THEN
        -- A timer aborts without words of its own.
        NEW.problem := COALESCE(NEW.problem, '{"code": "expired"}');
        UPDATE content.staging s SET due_at = clock_timestamp() WHERE s.upload_id = NEW.id AND s.due_at IS NULL;
        RETURN NEW;
    END IF;
    IF NEW.state = 'parts_uploading' THEN
        UPDATE content.staging s SET store_upload_id = NEW.store_upload_id WHERE s.upload_id = NEW.id AND s.role = 'session';
    END IF;
    IF NEW.state <> 'committed' THEN
        RETURN NEW;
    END IF;
    IF NEW.blob_id IS NULL THEN
        SELECT * INTO final FROM content.staging s WHERE s.upload_id = NEW.id AND s.role = 'blob' FOR UPDATE;
        IF final.object IS NULL OR NEW.found IS NULL OR NEW.found->>'sha256' IS DISTINCT FROM encode(NEW.sha256, 'hex')
            OR (NEW.found->>'length')::bigint IS DISTINCT FROM NEW.length THEN
            RAISE EXCEPTION 'upload %: it was not proven', NEW.id USING ERRCODE = 'check_violation';
        END IF;
        INSERT INTO content.blobs (id, form_id, owner, sha256, length, crc32c, shown_type, bucket, object, generation, verdict,
            signature, scanner, scanned_at, scan_due_at)
        VALUES (NEW.planned_blob, NEW.form_id, NEW.owner, NEW.sha256, NEW.length, (NEW.found->>'crc32c')::bigint,
            NEW.found->>'shown_type', final.bucket, final.object, (NEW.found->>'generation')::bigint, NEW.found->>'verdict',
            NEW.found->>'signature', NEW.found->>'scanner',
            CASE WHEN NEW.found->>'verdict' <> 'unscanned' THEN clock_timestamp() END,
            CASE WHEN NEW.found->>'verdict' = 'unscanned' THEN clock_timestamp() END)
        ON CONFLICT (form_id, owner, sha256, length) WHERE state <> 'deleted' DO NOTHING
        RETURNING * INTO b;
        IF b.id IS NULL THEN
            -- The same bytes were committed meanwhile: theirs are used, ours are due.
            SELECT * INTO b FROM content.blobs x
            WHERE (x.form_id, x.owner, x.sha256, x.length) = (NEW.form_id, NEW.owner, NEW.sha256, NEW.length) AND x.state <> 'deleted'
            FOR NO KEY UPDATE;
            NEW.deduplicated := true;
        ELSE
            DELETE FROM content.staging s WHERE (s.bucket, s.object) = (final.bucket, final.object);
        END IF;
        NEW.blob_id := b.id;
    ELSE
        SELECT * INTO b FROM content.blobs x WHERE x.id = NEW.blob_id FOR NO KEY UPDATE;
        NEW.deduplicated := true;
    END IF;
    UPDATE content.staging s SET due_at = clock_timestamp() WHERE s.upload_id = NEW.id AND s.due_at IS NULL;
    IF b.id IS NULL OR b.state = 'deleted' OR (b.form_id, b.sha256, b.length) IS DISTINCT FROM (NEW.form_id, NEW.sha256, NEW.length) THEN
        RAISE EXCEPTION 'upload %: digest or length is not the blob''s', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO content.blob_refs (blob_id, kind, holder, until)
    VALUES (b.id, 'upload', NEW.id::text, clock_timestamp() + NEW.unattached_ttl);
    RETURN NEW;
END $$;
CREATE TRIGGER guard BEFORE UPDATE ON content.uploads FOR EACH ROW EXECUTE FUNCTION content.guard_upload();

-- A session is born open.
CREATE FUNCTION content.born_upload() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.state <> 'initiated' OR NEW.lease_token IS NOT NULL OR NEW.found IS NOT NULL THEN
        RAISE EXCEPTION 'upload %: it is born initiated', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER born BEFORE INSERT ON content.uploads FOR EACH ROW EXECUTE FUNCTION content.born_upload();

-- One attachment for each upload, however often it is asked for.
CREATE FUNCTION content.attachment_of(upload uuid) RETURNS uuid LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    RETURN substr(encode(sha256(convert_to('attachment:' || upload::text, 'UTF8')), 'hex'), 1, 32)::uuid;

-- The word that a verdict is for an attachment.
CREATE FUNCTION content.scan_status(verdict text) RETURNS public.clamav_status LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    RETURN (CASE verdict WHEN 'clean' THEN 'clean' WHEN 'infected' THEN 'infected' ELSE 'pending' END)::public.clamav_status;

-- What the backend calls in the transaction that finalizes, and the daemon for an upload bound to a draft: the upload becomes an
-- attachment. The submission is locked first, as everybody does; never claimed, since whoever claims it later locks it and sees this.
-- Refusals: MU001 no such upload or submission, MU002 not committed, MU003 of another form or submission, MU004 the submission is
-- closed, MU005 not attached in time.
CREATE FUNCTION content.attach(upload uuid, submission uuid) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    u content.uploads;
    b content.blobs;
    s public.submissions;
    made uuid := content.attachment_of(upload);
BEGIN
    SELECT * INTO s FROM public.submissions x WHERE x.id = submission FOR NO KEY UPDATE;
    SELECT * INTO u FROM content.uploads x WHERE x.id = upload FOR NO KEY UPDATE;
    IF u.id IS NULL OR s.id IS NULL THEN
        RAISE EXCEPTION 'there is no % %', CASE WHEN u.id IS NULL THEN 'upload' ELSE 'submission' END,
            CASE WHEN u.id IS NULL THEN upload ELSE submission END USING ERRCODE = 'MU001';
    END IF;
    IF u.state <> 'committed' THEN
        RAISE EXCEPTION 'upload % is %, and cannot be attached', upload, u.state USING ERRCODE = 'MU002',
            HINT = 'wait until it is committed (GET /v1/uploads/ID?wait=20)';
    END IF;
    IF s.form_id <> u.form_id THEN
        RAISE EXCEPTION 'upload % is of another form', upload USING ERRCODE = 'MU003';
    END IF;
    IF u.submission_id IS NOT NULL AND u.submission_id <> submission THEN
        RAISE EXCEPTION 'upload % belongs to another submission', upload USING ERRCODE = 'MU003';
    END IF;
    IF EXISTS (SELECT FROM public.attachments a WHERE a.id = made AND a.submission_id = submission) THEN
        RETURN made;
    END IF;
    IF s.status <> 'received' OR s.routing_result <> '{}' THEN
        RAISE EXCEPTION 'submission % is closed', submission USING ERRCODE = 'MU004',
            HINT = 'an attachment belongs to a submission before it is routed';
    END IF;
    SELECT * INTO b FROM content.blobs x WHERE x.id = u.blob_id FOR NO KEY UPDATE;
    IF b.state = 'deleted' OR NOT EXISTS (SELECT FROM content.blob_refs r WHERE r.kind = 'upload' AND r.holder = upload::text) THEN
        RAISE EXCEPTION 'upload % was not attached in time', upload USING ERRCODE = 'MU005', HINT = 'upload the file again';
    END IF;
    INSERT INTO content.blob_refs (blob_id, kind, holder) VALUES (b.id, 'attachment', made::text);
    INSERT INTO public.attachments (id, submission_id, file_name, content_type, size_bytes, sha256, gcs_bucket, gcs_object, clamav_status)
    VALUES (made, submission, u.file_name, u.content_type, b.length, b.sha256, b.bucket, b.object, content.scan_status(b.verdict));
    DELETE FROM content.blob_refs r WHERE r.kind = 'upload' AND r.holder = upload::text;
    UPDATE content.uploads x SET submission_id = submission WHERE x.id = upload;
    RETURN made;
END $$;

-- A verdict: the blob's, and in the same statement that of every attachment that is its object and still waits, or turned infected.
CREATE FUNCTION content.record_verdict(blob uuid, said text, named text, by text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b content.blobs;
    changed bigint;
BEGIN
    -- Submissions are locked before attachments and blobs, by everybody.
    PERFORM FROM public.submissions s WHERE s.id IN (SELECT a.submission_id FROM content.blob_refs r
        JOIN public.attachments a ON a.id::text = r.holder WHERE r.kind = 'attachment' AND r.blob_id = blob)
    ORDER BY s.id FOR NO KEY UPDATE;
    SELECT * INTO b FROM content.blobs x WHERE x.id = blob FOR NO KEY UPDATE;
    IF b.id IS NULL OR b.verdict = 'infected' THEN
        RETURN 0;
    END IF;
    UPDATE content.blobs x SET verdict = said, signature = named, scanner = by, scanned_at = clock_timestamp(),
        scan_due_at = NULL, scan_attempts = 0 WHERE x.id = blob;
    UPDATE public.attachments a SET clamav_status = content.scan_status(said)
    FROM content.blob_refs r
    WHERE r.kind = 'attachment' AND r.blob_id = blob AND a.id::text = r.holder
      AND a.clamav_status IS DISTINCT FROM content.scan_status(said) AND a.clamav_status <> 'infected'
      AND (said = 'infected' OR a.clamav_status = 'pending');
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;

-- Whoever removes or renames an attachment, its reference follows.
CREATE FUNCTION content.on_attachment() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM content.blob_refs r WHERE r.kind = 'attachment' AND r.holder = OLD.id::text;
    RETURN NULL;
END $$;
CREATE TRIGGER content_refs AFTER DELETE ON public.attachments FOR EACH ROW EXECUTE FUNCTION content.on_attachment();

GRANT USAGE ON SCHEMA content TO forms_app;
GRANT SELECT ON content.blobs, content.blob_refs, content.uploads, content.staging TO forms_app;
GRANT INSERT, UPDATE ON content.uploads TO forms_app;
GRANT INSERT, UPDATE, DELETE ON content.staging TO forms_app;
-- Verdicts are written by the function; when a look follows is no verdict.
GRANT UPDATE (scan_due_at, scan_attempts) ON content.blobs TO forms_app;
-- An upload that nobody attached in time.
GRANT DELETE ON content.blob_refs TO forms_app;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA content FROM PUBLIC;
GRANT EXECUTE ON FUNCTION content.attach(uuid, uuid), content.record_verdict(uuid, text, text, text), content.attachment_of(uuid)
    TO forms_app;
