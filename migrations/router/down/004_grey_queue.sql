-- The way back from 004_grey_queue.sql, as the owner of the tables: `maple-router migrate --router --back 004`. Entries go with
-- their history, and so does whoever is logged in. What they were about stays: `review open` finds it when 004 comes back.

-- Part: submissions. From here on nobody opens an entry.
DROP TRIGGER IF EXISTS router_failed ON public.submissions;
DROP TRIGGER IF EXISTS router_born_failed ON public.submissions;
DROP INDEX IF EXISTS public.submissions_router_failed;

-- Part: audit_log.
DROP TRIGGER IF EXISTS router_lost_mail ON public.audit_log;
DROP INDEX IF EXISTS public.audit_log_router_failed;

-- Part: what is left.
DROP TRIGGER IF EXISTS grey_queue_dead_letter ON router.dead_letters;
DROP FUNCTION IF EXISTS router.on_failed(), router.on_lost_mail(), router.open_bounced(uuid, text, jsonb),
    router.bounced_key(jsonb), router.on_dead_letter(), router.open_entry(text, text, text, uuid, text, text, jsonb),
    router.failure_of(uuid), router.reconcile_grey_queue(timestamptz, boolean, int), router.is_under_review(uuid),
    router.prune_grey_queue(interval, int);
DROP TABLE IF EXISTS router.desk_access_log, router.desk_idempotency, router.desk_credentials, router.grey_queue_occurrences,
    router.grey_queue_state_transitions, router.grey_queue, router.grey_queue_causes;
DROP FUNCTION IF EXISTS router.grey_queue_moved();
DROP INDEX IF EXISTS router.outbox_pending_kind;
