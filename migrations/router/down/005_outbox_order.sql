-- The way back from 005_outbox_order.sql, as the owner of the tables: `maple-router migrate --router --back 005`. From here on a
-- burst of events may be taken slowly, each few of them for a look at all.

-- Part: what is left.
DROP INDEX IF EXISTS router.outbox_pending_assigned;
CREATE INDEX outbox_pending_kind ON router.outbox (kind, available_at, id) WHERE state = 'pending';
