-- Schema router: assignments that wait have an index of their own. Applied by `maple-router migrate --router`; the way back is
-- down/005_outbox_order.sql.

-- The index of 004 had every kind in it, so that the planner could read the events by it as well: with statistics from an outbox
-- in which nothing waited, it sorted the whole backlog for each few events. This one has nothing else in it.
DROP INDEX router.outbox_pending_kind;
CREATE INDEX outbox_pending_assigned ON router.outbox (available_at, id) WHERE state = 'pending' AND kind = 'review.assigned';
