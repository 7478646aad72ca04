-- Schema content: form versions. What a form does is drafted, checked, published, and moves into the backend's tables by a pointer.
-- Optional: without it forms are what the loader writes. Applied by `maple-router migrate --content` after 001, as the owner of the
-- tables; the way back is down/002_versions.sql.
--
-- What must hold whoever writes stands here as constraints and triggers: what was published does not change, nothing is published,
-- promoted or restored that nobody allowed in that very transaction, the pointer names published versions only, and at commit the
-- rows of a managed form are those of its current version.

-- Who gives commands to a version is recorded by these words.
ALTER TABLE router.transitions DROP CONSTRAINT transitions_actor_type_check;
ALTER TABLE router.transitions ADD CONSTRAINT transitions_actor_type_check
    CHECK (actor_type IN ('worker', 'system', 'admin', 'operator', 'client', 'backend', 'publisher'));

-- Assets of a version are kept like attachments.
ALTER TABLE content.blob_refs DROP CONSTRAINT blob_refs_kind_check;
ALTER TABLE content.blob_refs ADD CONSTRAINT blob_refs_kind_check CHECK (kind IN ('upload', 'attachment', 'version'));

-- A version of a form's definition. The lifecycle is "version" (`maple-router lifecycle show version`).
CREATE TABLE content.versions (
    id            uuid PRIMARY KEY,
    form_id       text NOT NULL CHECK (form_id <> ''),
    number        int NOT NULL CHECK (number > 0),
    state         text NOT NULL DEFAULT 'draft' CHECK (state IN ('draft', 'published', 'tombstoned')),
    -- SHA-256 of its entries, their keys sorted.
    digest        bytea NOT NULL CHECK (octet_length(digest) = 32),
    -- yaml: a file. adopted: what the tables had.
    source        text NOT NULL CHECK (source IN ('yaml', 'adopted')),
    author        text NOT NULL CHECK (author <> ''),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at  timestamptz,
    tombstoned_at timestamptz,
    -- Until when a tombstoned version can be restored.
    deadline      timestamptz,
    -- The transaction that made it, and its entries.
    born_xid      xid8 NOT NULL DEFAULT pg_current_xact_id(),
    UNIQUE (form_id, number),
    UNIQUE (id, form_id),
    CHECK (state <> 'published' OR published_at IS NOT NULL),
    CHECK (state <> 'draft' OR published_at IS NULL),
    CHECK ((state = 'tombstoned') = (tombstoned_at IS NOT NULL)),
    CHECK ((state = 'tombstoned') = (deadline IS NOT NULL))
);
-- The same content is the same version, unless that was given up as a draft.
CREATE UNIQUE INDEX versions_content ON content.versions (form_id, digest) WHERE state <> 'tombstoned';
CREATE INDEX versions_state ON content.versions (state, created_at);

-- What a version consists of.
CREATE TABLE content.entries (
    version_id uuid NOT NULL REFERENCES content.versions,
    kind       text NOT NULL CHECK (kind IN ('action', 'template', 'asset', 'settings')),
    -- An action's order, a template's id, an asset's name, `form`.
    key        text NOT NULL CHECK (key <> ''),
    content    jsonb NOT NULL CHECK (jsonb_typeof(content) = 'object'),
    PRIMARY KEY (version_id, kind, key),
    CHECK (kind <> 'settings' OR key = 'form')
);
CREATE INDEX entries_templates ON content.entries (key) WHERE kind = 'template';

-- What was said of a version by the built-in checks and the policy. Append-only.
CREATE TABLE content.decisions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version_id uuid NOT NULL REFERENCES content.versions,
    command    text NOT NULL CHECK (command IN ('publish', 'promote', 'restore')),
    -- Of what was judged.
    digest     bytea NOT NULL CHECK (octet_length(digest) = 32),
    -- Digest of the policy's files; absent where the policy was away, which allows nothing.
    policy     bytea CHECK (octet_length(policy) = 32),
    allowed    boolean NOT NULL,
    -- Why not: texts for people, without a recipient or a field's value.
    reasons    jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(reasons) = 'array'),
    actor      text NOT NULL CHECK (actor <> ''),
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    born_xid   xid8 NOT NULL DEFAULT pg_current_xact_id(),
    CHECK (NOT allowed OR policy IS NOT NULL),
    CHECK (NOT allowed OR reasons = '[]')
);
CREATE INDEX decisions_version ON content.decisions (version_id, id);
CREATE INDEX decisions_born ON content.decisions (born_xid);

-- Signatures of a version's form, number and digest, as people brought them. What they count for is judged by the list of signers of the host.
-- Append-only.
CREATE TABLE content.signatures (
    version_id uuid NOT NULL REFERENCES content.versions,
    -- The key's fingerprint, `SHA256:…`.
    key        text NOT NULL CHECK (key <> ''),
    signature  text NOT NULL CHECK (octet_length(signature) BETWEEN 1 AND 16384),
    actor      text NOT NULL CHECK (actor <> ''),
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (version_id, key)
);

-- The version that a form follows. A form without a row here is not managed: its rows are whatever its loader writes.
CREATE TABLE content.current (
    form_id    text PRIMARY KEY,
    version_id uuid NOT NULL,
    previous   uuid,
    moved_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    moved_by   text NOT NULL CHECK (moved_by <> ''),
    FOREIGN KEY (version_id, form_id) REFERENCES content.versions (id, form_id),
    FOREIGN KEY (previous, form_id) REFERENCES content.versions (id, form_id)
);

-- Whether somebody allowed this content in the running transaction.
CREATE FUNCTION content.is_allowed(version uuid, said bytea, commands text[]) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    RETURN EXISTS (SELECT FROM content.decisions d WHERE d.version_id = version AND d.allowed AND d.digest = said
        AND d.command = ANY (commands) AND d.born_xid = pg_current_xact_id_if_assigned());

-- Entries are born with their version, in its transaction, and never change: what was reviewed by its digest is what is published.
CREATE FUNCTION content.guard_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP <> 'INSERT' OR NOT EXISTS (SELECT FROM content.versions x
        WHERE x.id = NEW.version_id AND x.born_xid = pg_current_xact_id_if_assigned()) THEN
        RAISE EXCEPTION 'version %: its content does not change', CASE WHEN TG_OP = 'INSERT' THEN NEW.version_id ELSE OLD.version_id END
            USING ERRCODE = 'check_violation', HINT = 'load another content: it becomes another version';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE ON content.entries FOR EACH ROW EXECUTE FUNCTION content.guard_entry();

-- How many submissions that are still on their way follow a version. Each status by itself: schema router has an index of each.
CREATE FUNCTION content.open_plans(version uuid) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    RETURN (SELECT count(*) FROM (
        SELECT s.routing_result FROM public.submissions s WHERE s.status = 'received'
        UNION ALL SELECT s.routing_result FROM public.submissions s WHERE s.status = 'processing') AS o
        WHERE o.routing_result #>> '{version,id}' = version::text);

-- A version is born a draft, goes the way of its lifecycle, and keeps what it was published with.
CREATE FUNCTION content.guard_version() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n bigint;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'draft' THEN
            RAISE EXCEPTION 'version %: it is born a draft', NEW.id USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.id, NEW.form_id, NEW.number, NEW.source, NEW.author, NEW.digest, NEW.created_at, NEW.born_xid)
        IS DISTINCT FROM (OLD.id, OLD.form_id, OLD.number, OLD.source, OLD.author, OLD.digest, OLD.created_at, OLD.born_xid)
       OR (OLD.published_at IS NOT NULL AND NEW.published_at IS DISTINCT FROM OLD.published_at) THEN
        RAISE EXCEPTION 'version %: what was loaded does not change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = OLD.state THEN
        RETURN NEW;
    END IF;
    IF (OLD.state, NEW.state) NOT IN
        (('draft', 'published'), ('draft', 'tombstoned'), ('published', 'tombstoned'), ('tombstoned', 'published')) THEN
        RAISE EXCEPTION 'version %: no way from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'tombstoned' THEN
        IF EXISTS (SELECT FROM content.current c WHERE c.version_id = NEW.id) THEN
            RAISE EXCEPTION 'version %: it is the current one', NEW.id USING ERRCODE = 'MV002', HINT = 'promote another first';
        END IF;
        n := content.open_plans(NEW.id);
        IF n > 0 THEN
            RAISE EXCEPTION 'version %: % submissions on their way follow it', NEW.id, n USING ERRCODE = 'MV003',
                HINT = 'wait until they are routed, or replay them with --replan';
        END IF;
        NEW.tombstoned_at := clock_timestamp();
        RETURN NEW;
    END IF;
    IF OLD.state = 'tombstoned' AND (OLD.published_at IS NULL OR OLD.deadline < clock_timestamp()) THEN
        RAISE EXCEPTION 'version %: it can no longer be restored', NEW.id USING ERRCODE = 'MV004',
            HINT = 'load its file again: the same content becomes a new version';
    END IF;
    IF NOT content.is_allowed(NEW.id, NEW.digest, ARRAY[CASE OLD.state WHEN 'draft' THEN 'publish' ELSE 'restore' END]) THEN
        RAISE EXCEPTION 'version %: nobody has allowed it in this transaction', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    NEW.published_at := COALESCE(OLD.published_at, clock_timestamp());
    NEW.tombstoned_at := NULL;
    NEW.deadline := NULL;
    -- References are born here, under each blob's lock, which the reference's own trigger takes.
    INSERT INTO content.blob_refs (blob_id, kind, holder)
    SELECT DISTINCT (e.content->>'blob')::uuid, 'version', NEW.id::text FROM content.entries e WHERE e.version_id = NEW.id AND e.kind = 'asset'
    ON CONFLICT DO NOTHING;
    IF EXISTS (SELECT FROM content.entries e LEFT JOIN content.blobs b ON b.id = (e.content->>'blob')::uuid
        WHERE e.version_id = NEW.id AND e.kind = 'asset'
          AND (b.id IS NULL OR b.form_id <> NEW.form_id OR b.verdict <> 'clean' OR b.state <> 'live')) THEN
        RAISE EXCEPTION 'version %: a file of it is not clean, or is gone', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON content.versions FOR EACH ROW EXECUTE FUNCTION content.guard_version();

-- The pointer names published versions that were allowed to be current in the running transaction.
CREATE FUNCTION content.guard_current() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v content.versions;
BEGIN
    SELECT * INTO v FROM content.versions x WHERE x.id = NEW.version_id FOR SHARE;
    IF v.state IS DISTINCT FROM 'published' THEN
        RAISE EXCEPTION 'version %: it is not published', NEW.version_id USING ERRCODE = 'check_violation';
    END IF;
    IF NOT content.is_allowed(v.id, v.digest, ARRAY['promote']) THEN
        RAISE EXCEPTION 'version %: nobody has allowed it to be current in this transaction', v.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON content.current FOR EACH ROW EXECUTE FUNCTION content.guard_current();

-- The pointer moved: the form's rows become those of the version, whoever moved it.
CREATE FUNCTION content.place() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO public.forms (id, name)
    SELECT NEW.form_id, COALESCE(NULLIF(e.content->>'name', ''), NEW.form_id) FROM content.entries e
    WHERE (e.version_id, e.kind, e.key) = (NEW.version_id, 'settings', 'form')
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, updated_at = clock_timestamp()
    WHERE forms.name IS DISTINCT FROM excluded.name;
    INSERT INTO public.templates (id, subject, body_text, body_html)
    SELECT e.key, e.content->>'subject', e.content->>'body_text', e.content->>'body_html' FROM content.entries e
    WHERE (e.version_id, e.kind) = (NEW.version_id, 'template') ORDER BY e.key
    ON CONFLICT (id) DO UPDATE SET subject = excluded.subject, body_text = excluded.body_text, body_html = excluded.body_html,
        updated_at = clock_timestamp()
    WHERE (templates.subject, templates.body_text, templates.body_html)
        IS DISTINCT FROM (excluded.subject, excluded.body_text, excluded.body_html);
    DELETE FROM public.actions a WHERE a.form_id = NEW.form_id;
    INSERT INTO public.actions (form_id, action_order, action_type, template_id, destination, happyfox_category, subject_template)
    SELECT NEW.form_id, e.key::int, (e.content->>'action_type')::public.action_type, e.content->>'template_id',
        e.content->>'destination', e.content->>'happyfox_category', e.content->>'subject_template'
    FROM content.entries e WHERE (e.version_id, e.kind) = (NEW.version_id, 'action') ORDER BY e.key::int;
    RETURN NULL;
END $$;
CREATE TRIGGER place AFTER INSERT OR UPDATE OF version_id ON content.current FOR EACH ROW EXECUTE FUNCTION content.place();

-- What the tables have of a form, as a version's entries say it. Columns that the backend may add are not compared.
CREATE FUNCTION content.rows_of(form text) RETURNS TABLE (kind text, key text, content jsonb)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT 'action', a.action_order::text, jsonb_build_object('action_type', a.action_type, 'template_id', a.template_id,
        'destination', a.destination, 'happyfox_category', a.happyfox_category, 'subject_template', a.subject_template)
    FROM public.actions a WHERE a.form_id = form
    UNION ALL
    SELECT 'template', t.id, jsonb_build_object('subject', t.subject, 'body_text', t.body_text, 'body_html', t.body_html)
    FROM public.templates t WHERE t.id IN (SELECT a.template_id FROM public.actions a WHERE a.form_id = form);
END;

-- One rule for whoever writes: at commit, the rows of a managed form are those of its current version.
CREATE FUNCTION content.demand_current(form text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v content.versions;
    n bigint;
BEGIN
    SELECT x.* INTO v FROM content.current c JOIN content.versions x ON x.id = c.version_id WHERE c.form_id = form FOR SHARE OF c;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WITH there AS (SELECT * FROM content.rows_of(form)),
         wanted AS (SELECT e.kind, e.key, e.content FROM content.entries e WHERE e.version_id = v.id AND e.kind IN ('action', 'template'))
    SELECT count(*) INTO n FROM ((TABLE there EXCEPT TABLE wanted) UNION ALL (TABLE wanted EXCEPT TABLE there)) d;
    IF n > 0 THEN
        RAISE EXCEPTION 'form % is managed: its rows would differ from its current version %', form, v.number USING ERRCODE = 'MV005',
            DETAIL = format('%s rows or texts differ.', n), HINT = 'maple-router forms load FILE, then publish and promote';
    END IF;
END $$;
CREATE FUNCTION content.on_action() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM content.demand_current(OLD.form_id);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM content.demand_current(NEW.form_id);
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION content.on_template() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM content.demand_current(f.form_id) FROM (SELECT DISTINCT c.form_id FROM content.current c
        JOIN content.entries e ON e.version_id = c.version_id WHERE e.kind = 'template' AND e.key IN (OLD.id, NEW.id) ORDER BY 1) f;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER content_managed AFTER INSERT OR UPDATE OR DELETE ON public.actions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION content.on_action();
CREATE CONSTRAINT TRIGGER content_managed AFTER UPDATE OR DELETE ON public.templates DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION content.on_template();
CREATE CONSTRAINT TRIGGER content_managed AFTER INSERT OR UPDATE ON content.current DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION content.on_action();

-- Moves the pointer, for whoever has had it allowed: decision, pointer, rows and records in one call. `expected` is the version that
-- the caller saw as current, null for a form that is not managed yet.
-- Refusals: MV001 another version is current than was expected.
CREATE FUNCTION content.promote(version uuid, expected uuid, policy bytea, actor text, actor_type text, reason text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v content.versions;
    was content.current;
BEGIN
    SELECT * INTO v FROM content.versions x WHERE x.id = version FOR SHARE;
    -- Two first promotes have no row to lock.
    PERFORM pg_advisory_xact_lock(hashtextextended('content.current:' || v.form_id, 0));
    -- A loader writes the form's row first, and looks at the pointer last: in another order the two would deadlock.
    PERFORM FROM public.forms f WHERE f.id = v.form_id FOR NO KEY UPDATE;
    SELECT * INTO was FROM content.current c WHERE c.form_id = v.form_id FOR UPDATE;
    IF was.version_id IS DISTINCT FROM expected THEN
        RAISE EXCEPTION 'form %: another version is current than was expected', v.form_id USING ERRCODE = 'MV001',
            HINT = 'look again: maple-router forms show ' || v.form_id;
    END IF;
    INSERT INTO content.decisions (version_id, command, digest, policy, allowed, actor)
    VALUES (v.id, 'promote', v.digest, policy, true, actor);
    IF was.form_id IS NULL THEN
        INSERT INTO content.current (form_id, version_id, moved_by) VALUES (v.form_id, v.id, actor);
    ELSE
        -- What is promoted again, to put the rows right, leaves the way back as it was.
        UPDATE content.current c SET version_id = v.id, moved_at = clock_timestamp(), moved_by = actor,
            previous = CASE WHEN was.version_id = v.id THEN was.previous ELSE was.version_id END
        WHERE c.form_id = v.form_id;
    END IF;
    INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type, reason)
    VALUES ('version', v.id::text, v.state, v.state, 'promote', actor, actor_type, reason);
    INSERT INTO public.audit_log (actor, action, form_id, detail)
    VALUES (actor, 'admin_reload_yaml', v.form_id, jsonb_build_object('v', 1, 'version', v.number, 'digest', encode(v.digest, 'hex'),
        'previous', (SELECT x.number FROM content.versions x WHERE x.id = was.version_id), 'reason', reason));
END $$;

-- Keeps why a version was refused. It allows nothing, so whoever may ask may have it kept: an admin of the desk asks through the daemon,
-- which may not say that something is allowed but by content.promote.
CREATE FUNCTION content.refuse(version uuid, command text, said bytea, policy bytea, reasons jsonb, actor text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
INSERT INTO content.decisions (version_id, command, digest, policy, allowed, reasons, actor)
VALUES (version, command, said, policy, false, reasons, actor)
$$;

-- Everybody reads; the publisher drafts and publishes; the daemon moves the pointer for an admin of the desk, and nothing else.
GRANT USAGE ON SCHEMA content, router TO forms_loader;
GRANT SELECT ON content.versions, content.entries, content.decisions, content.signatures, content.current TO forms_app, forms_loader;
GRANT INSERT ON content.versions, content.entries, content.decisions, content.signatures TO forms_loader;
GRANT UPDATE (state, tombstoned_at, deadline) ON content.versions TO forms_loader;
-- Who judges a version locks it, which takes the right to update something. An id does not change: the guard refuses it.
GRANT UPDATE (id) ON content.versions TO forms_app;
GRANT SELECT (id, form_id, sha256, length, shown_type, verdict, state) ON content.blobs TO forms_loader;
GRANT SELECT, INSERT ON router.transitions TO forms_loader;
CREATE POLICY transitions_publisher_read ON router.transitions FOR SELECT TO forms_loader USING (lifecycle = 'version');
CREATE POLICY transitions_publisher_write ON router.transitions FOR INSERT TO forms_loader WITH CHECK (lifecycle = 'version');
REVOKE EXECUTE ON FUNCTION content.is_allowed(uuid, bytea, text[]), content.guard_entry(), content.open_plans(uuid),
    content.guard_version(), content.guard_current(), content.place(), content.rows_of(text), content.demand_current(text),
    content.on_action(), content.on_template(), content.promote(uuid, uuid, bytea, text, text, text),
    content.refuse(uuid, text, bytea, bytea, jsonb, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION content.promote(uuid, uuid, bytea, text, text, text), content.open_plans(uuid), content.rows_of(text),
    content.refuse(uuid, text, bytea, bytea, jsonb, text)
    TO forms_app, forms_loader;
