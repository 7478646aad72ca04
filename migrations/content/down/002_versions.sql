-- The way back from 002_versions.sql, as the owner of the tables: `maple-router migrate --content --back 002`. Forms stay as they are,
-- and are whatever their loader writes; versions, signatures, decisions and their history go.

-- Part: forms.
DROP TRIGGER IF EXISTS content_managed ON public.actions;
DROP TRIGGER IF EXISTS content_managed ON public.templates;

-- Part: what is left.
DROP FUNCTION IF EXISTS content.promote(uuid, uuid, bytea, text, text, text), content.refuse(uuid, text, bytea, bytea, jsonb, text),
    content.is_allowed(uuid, bytea, text[]);
DROP TABLE IF EXISTS content.current, content.signatures, content.decisions, content.entries;
DROP FUNCTION IF EXISTS content.place(), content.guard_current(), content.guard_entry(), content.on_action(), content.on_template(),
    content.demand_current(text), content.rows_of(text);
DROP TABLE IF EXISTS content.versions;
DROP FUNCTION IF EXISTS content.guard_version(), content.open_plans(uuid);
DELETE FROM content.blob_refs WHERE kind = 'version';
ALTER TABLE content.blob_refs DROP CONSTRAINT blob_refs_kind_check;
ALTER TABLE content.blob_refs ADD CONSTRAINT blob_refs_kind_check CHECK (kind IN ('upload', 'attachment'));
DROP POLICY IF EXISTS transitions_publisher_read ON router.transitions;
DROP POLICY IF EXISTS transitions_publisher_write ON router.transitions;
REVOKE SELECT, INSERT ON router.transitions FROM forms_loader;
REVOKE SELECT (id, form_id, sha256, length, shown_type, verdict, state) ON content.blobs FROM forms_loader;
REVOKE USAGE ON SCHEMA content, router FROM forms_loader;
DELETE FROM router.transitions WHERE lifecycle = 'version';
ALTER TABLE router.transitions DROP CONSTRAINT transitions_actor_type_check;
ALTER TABLE router.transitions ADD CONSTRAINT transitions_actor_type_check
    CHECK (actor_type IN ('worker', 'system', 'admin', 'operator', 'client', 'backend'));
