-- The way back from 001_uploads.sql, as the owner of the tables: `maple-router migrate --content --back 001`. Attachments stay, and so
-- do their objects; sessions and what was known of blobs go. Objects below `staging/` are removed by the bucket's lifecycle.

-- Part: attachments.
DROP TRIGGER IF EXISTS content_refs ON public.attachments;

-- Part: what is left.
DROP FUNCTION IF EXISTS content.on_attachment(), content.record_verdict(uuid, text, text, text), content.attach(uuid, uuid),
    content.attachment_of(uuid), content.scan_status(text);
DROP TABLE IF EXISTS content.staging, content.uploads, content.blob_refs, content.blobs;
DROP FUNCTION IF EXISTS content.born_upload(), content.guard_upload(), content.guard_blob(), content.note_unref(), content.guard_ref();
DELETE FROM router.transitions WHERE lifecycle = 'upload';
ALTER TABLE router.transitions DROP CONSTRAINT transitions_actor_type_check;
ALTER TABLE router.transitions ADD CONSTRAINT transitions_actor_type_check
    CHECK (actor_type IN ('worker', 'system', 'admin', 'operator'));
