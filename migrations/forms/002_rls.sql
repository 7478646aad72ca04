-- Stand-in for the forms backend's roles, grants and row-level security. A production database has its own.
-- Roles belong to the whole cluster: whoever comes first creates them, everybody else finds them.
-- LOGIN without a password: how a role proves who it is, is a matter of pg_hba.conf or Cloud SQL IAM.

DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['forms_app', 'forms_readonly', 'forms_loader', 'forms_scanner'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I LOGIN', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of this cluster was being migrated at the same moment
            END;
        END IF;
    END LOOP;
END
$$;

-- PUBLIC has these by default, unless an administrator took them away.
GRANT USAGE ON SCHEMA public TO forms_app, forms_readonly, forms_loader, forms_scanner;
GRANT USAGE ON TYPE submission_status, action_type, clamav_status, audit_action
    TO forms_app, forms_readonly, forms_loader, forms_scanner;

-- The backend and the routing daemon. No DELETE on anything.
GRANT SELECT ON forms, templates, actions TO forms_app;
GRANT SELECT, INSERT, UPDATE ON submissions, submission_fields, attachments TO forms_app;
GRANT SELECT, INSERT ON audit_log TO forms_app;
GRANT USAGE, SELECT ON SEQUENCE submission_fields_id_seq, audit_log_id_seq TO forms_app;

-- People and reports.
GRANT SELECT ON forms, templates, actions, submissions, submission_fields, attachments, audit_log TO forms_readonly;

-- The YAML loader: upserts forms and templates, replaces a form's actions with DELETE + INSERT.
GRANT SELECT, INSERT, UPDATE, DELETE ON forms, templates, actions TO forms_loader;
GRANT USAGE, SELECT ON SEQUENCE actions_id_seq TO forms_loader;
GRANT INSERT ON audit_log TO forms_loader;
GRANT USAGE ON SEQUENCE audit_log_id_seq TO forms_loader;

-- The scan worker: marks attachments; fails a submission whose attachment is infected.
GRANT SELECT, UPDATE ON attachments TO forms_scanner;
GRANT SELECT ON submissions TO forms_scanner;
GRANT UPDATE (status, updated_at) ON submissions TO forms_scanner;
GRANT INSERT ON audit_log TO forms_scanner;
GRANT USAGE ON SEQUENCE audit_log_id_seq TO forms_scanner;

-- The trail is append-only for everybody, its owner included.
REVOKE UPDATE, DELETE, TRUNCATE ON audit_log
    FROM PUBLIC, CURRENT_USER, forms_app, forms_readonly, forms_loader, forms_scanner;

ALTER TABLE submissions ENABLE ROW LEVEL SECURITY;
CREATE POLICY submissions_app ON submissions FOR ALL TO forms_app USING (true) WITH CHECK (true);
CREATE POLICY submissions_readonly ON submissions FOR SELECT TO forms_readonly USING (status <> 'purged');
CREATE POLICY submissions_scanner_read ON submissions FOR SELECT TO forms_scanner USING (true);
CREATE POLICY submissions_scanner_write ON submissions FOR UPDATE TO forms_scanner USING (true) WITH CHECK (true);

ALTER TABLE submission_fields ENABLE ROW LEVEL SECURITY;
CREATE POLICY submission_fields_app ON submission_fields FOR ALL TO forms_app USING (true) WITH CHECK (true);
CREATE POLICY submission_fields_readonly ON submission_fields FOR SELECT TO forms_readonly
    USING (EXISTS (SELECT FROM submissions s WHERE s.id = submission_id AND s.status <> 'purged'));

ALTER TABLE attachments ENABLE ROW LEVEL SECURITY;
CREATE POLICY attachments_app ON attachments FOR ALL TO forms_app USING (true) WITH CHECK (true);
CREATE POLICY attachments_readonly ON attachments FOR SELECT TO forms_readonly
    USING (EXISTS (SELECT FROM submissions s WHERE s.id = submission_id AND s.status <> 'purged'));
CREATE POLICY attachments_scanner_read ON attachments FOR SELECT TO forms_scanner USING (true);
CREATE POLICY attachments_scanner_write ON attachments FOR UPDATE TO forms_scanner USING (true) WITH CHECK (true);

-- Insert-only is what the live database was seen to have: SELECT is granted, no policy lets a row through, so the
-- trail looks empty and INSERT ... RETURNING fails. SET maple_router.audit_readable = 'on' beforehand makes the
-- variant in which forms_app and forms_readonly can read it.
ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY;
CREATE POLICY audit_log_insert ON audit_log FOR INSERT TO forms_app, forms_loader, forms_scanner WITH CHECK (true);
DO $$
BEGIN
    IF current_setting('maple_router.audit_readable', true) = 'on' THEN
        CREATE POLICY audit_log_read ON audit_log FOR SELECT TO forms_app, forms_readonly USING (true);
    END IF;
END
$$;
