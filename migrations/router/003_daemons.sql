-- Schema router: the triggers tell nobody, and the daemons say what they have read. Applied by `maple-router migrate --router`;
-- the way back is down/003_daemons.sql.

-- A transaction that has notified cannot be prepared (PREPARE TRANSACTION), and a trigger cannot know what becomes of the
-- transaction it runs in: so none notifies. The daemon looks instead (src/outbox/pace.rs). It stays a function, and the
-- sequence stays, because a transaction that is in the middle of its commit may be about to call it.
CREATE OR REPLACE FUNCTION router.ring() RETURNS void
    LANGUAGE plpgsql
AS 'BEGIN END';

-- The daemons of this database: by them `maple-router pause` knows that a pause is in force everywhere.
CREATE TABLE router.daemons (
    -- One process, from its start to its end.
    id        uuid PRIMARY KEY,
    worker    text NOT NULL CHECK (worker <> ''),
    host      text NOT NULL CHECK (host <> ''),
    -- Its last sign of life. Who stops takes its row along; who is killed leaves it.
    seen_at   timestamptz NOT NULL,
    -- It goes by the pauses as they were then; absent: it could not read them yet, and everything is paused there.
    pauses_at timestamptz
);
GRANT SELECT, INSERT, UPDATE, DELETE ON router.daemons TO forms_app;
