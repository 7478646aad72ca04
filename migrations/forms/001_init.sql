-- Stand-in for the forms backend's own schema: development, tests, the demo, a stand-alone deployment.
-- A production database has its own tables and never sees this file.
-- Runs as the owner of the database, who needs no superuser.

CREATE TYPE submission_status AS ENUM ('received', 'processing', 'routed', 'failed', 'purged');
CREATE TYPE action_type AS ENUM ('happyfox_template', 'email_template', 'email_raw');
CREATE TYPE clamav_status AS ENUM ('pending', 'clean', 'infected');

-- 26 values, as many as the live enum has. Three of them are known by name (the two happyfox ones and
-- admin_reload_yaml); the rest only stand where the backend's own words would.
CREATE TYPE audit_action AS ENUM (
    'submission_received', 'submission_finalized', 'submission_viewed', 'submission_exported', 'submission_purged',
    'upload_url_issued', 'upload_completed', 'upload_rejected', 'upload_abandoned',
    'scan_started', 'scan_clean', 'scan_infected', 'scan_failed',
    'happyfox_success', 'happyfox_failure',
    'retention_extended', 'retention_run',
    'captcha_rejected', 'rate_limited',
    'admin_login', 'admin_login_failed', 'admin_logout', 'admin_reload_yaml',
    'form_created', 'form_updated', 'form_deleted'
);

CREATE TABLE forms (
    id          text PRIMARY KEY,
    name        text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE templates (
    id          text PRIMARY KEY,
    subject     text NOT NULL DEFAULT '',
    body_text   text NOT NULL DEFAULT '',
    body_html   text NOT NULL DEFAULT '',
    updated_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE actions (
    id                bigserial PRIMARY KEY,
    form_id           text NOT NULL REFERENCES forms (id) ON DELETE CASCADE,
    action_order      int NOT NULL,
    action_type       action_type NOT NULL,
    template_id       text REFERENCES templates (id),
    destination       text NOT NULL,
    happyfox_category text,
    subject_template  text,
    UNIQUE (form_id, action_order)
);

CREATE TABLE submissions (
    id                   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    form_id              text NOT NULL REFERENCES forms (id),
    status               submission_status NOT NULL DEFAULT 'received',
    routing_result       jsonb NOT NULL DEFAULT '{}',
    happyfox_ticket_id   text,
    happyfox_status      text,
    retention_expires_at timestamptz,
    created_at           timestamptz NOT NULL DEFAULT now(),
    updated_at           timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX submissions_form_id_idx ON submissions (form_id);
CREATE INDEX submissions_status_updated_at_idx ON submissions (status, updated_at);

CREATE TABLE submission_fields (
    id            bigserial PRIMARY KEY,
    submission_id uuid NOT NULL REFERENCES submissions (id) ON DELETE CASCADE,
    field_key     text NOT NULL,
    field_value   text,
    position      int NOT NULL DEFAULT 0
);
CREATE INDEX submission_fields_submission_id_idx ON submission_fields (submission_id, position);

CREATE TABLE attachments (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    submission_id uuid NOT NULL REFERENCES submissions (id) ON DELETE CASCADE,
    file_name     text NOT NULL,
    content_type  text NOT NULL DEFAULT 'application/octet-stream',
    size_bytes    bigint NOT NULL DEFAULT 0 CHECK (size_bytes >= 0),
    sha256        bytea CHECK (octet_length(sha256) = 32),
    gcs_bucket    text NOT NULL,
    gcs_object    text NOT NULL,
    clamav_status clamav_status NOT NULL DEFAULT 'pending',
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX attachments_submission_id_idx ON attachments (submission_id);

-- No foreign keys: the trail outlives what it tells of.
CREATE TABLE audit_log (
    id            bigserial PRIMARY KEY,
    occurred_at   timestamptz NOT NULL DEFAULT now(),
    actor         text NOT NULL,
    action        audit_action NOT NULL,
    submission_id uuid,
    form_id       text,
    detail        jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_log_submission_id_idx ON audit_log (submission_id);
CREATE INDEX audit_log_occurred_at_idx ON audit_log (occurred_at);
