-- Schema router: the daemon's own records (data contract, "What the daemon may add"). Optional: without it they live
-- in the state directory and count for one host alone. Applied by `maple-router migrate --router`.

-- What Pub/Sub gave up on and no row tells of: messages that nobody can read, and events of submissions that are not
-- there. What failed in its row is its own record.
CREATE TABLE router.dead_letters (
    id                 uuid PRIMARY KEY,
    kind               text NOT NULL CHECK (kind IN ('unreadable', 'unknown_submission')),
    at                 timestamptz NOT NULL,
    submission_id      uuid,
    reason             text NOT NULL,
    -- Pub/Sub's id of the dead letter: one that comes again is known by it.
    message_id         text NOT NULL UNIQUE,
    payload            bytea NOT NULL,
    payload_sha256     text NOT NULL CHECK (payload_sha256 ~ '^[0-9a-f]{64}$'),
    attributes         jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(attributes) = 'object'),
    -- Who is telling people of it right now, and until when nobody else does.
    alert_leased_until timestamptz,
    alerted_at         timestamptz,
    -- How it was closed: by one of the two, by somebody, for a reason.
    redriven_at        timestamptz,
    discarded_at       timestamptz,
    actor              text,
    reason_closed      text,
    CHECK (num_nonnulls(redriven_at, discarded_at) <= 1),
    CHECK ((num_nonnulls(redriven_at, discarded_at) = 1) = (actor IS NOT NULL AND reason_closed IS NOT NULL))
);
CREATE INDEX dead_letters_open ON router.dead_letters (at, id) WHERE redriven_at IS NULL AND discarded_at IS NULL;
CREATE INDEX dead_letters_unalerted ON router.dead_letters (at, id) WHERE alerted_at IS NULL;

-- What operators have paused, until when and why. Rows are replaced and removed, never kept as history: the journal
-- tells that.
CREATE TABLE router.pauses (
    id         bigserial PRIMARY KEY,
    scope      text NOT NULL CHECK (scope IN ('all', 'form', 'destination')),
    value      text NOT NULL DEFAULT '' CHECK ((scope = 'all') = (value = '')),
    until      timestamptz,
    reason     text NOT NULL CHECK (reason <> ''),
    actor      text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (scope, value)
);

GRANT USAGE ON SCHEMA router TO forms_app;
GRANT SELECT, INSERT, UPDATE ON router.dead_letters TO forms_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON router.pauses TO forms_app;
GRANT USAGE, SELECT ON SEQUENCE router.pauses_id_seq TO forms_app;
