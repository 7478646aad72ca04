-- The way back from 002_outbox.sql, as the owner of the tables. What the outbox still holds is found by the sweep's orphan
-- pass (routing.orphan_after). Each DROP TRIGGER locks its table for a moment; the indexes may stay, or be dropped
-- CONCURRENTLY beforehand.
DO $$
BEGIN
    LOCK TABLE public.submissions IN ACCESS EXCLUSIVE MODE;
    PERFORM set_config('lock_timeout', (extract(epoch FROM current_setting('deadlock_timeout')::interval) * 500)::int::text, true);
    LOCK TABLE public.attachments IN ACCESS EXCLUSIVE MODE;
END
$$;
DROP TRIGGER IF EXISTS router_finalized_later ON public.submissions;
DROP TRIGGER IF EXISTS router_finalized ON public.submissions;
DROP TRIGGER IF EXISTS router_replayed ON public.submissions;
DROP TRIGGER IF EXISTS router_scanned ON public.attachments;
DROP TRIGGER IF EXISTS router_found_infected ON public.attachments;
DROP TRIGGER IF EXISTS router_removed ON public.attachments;
DROP FUNCTION IF EXISTS router.set_finalized_column(name), router.on_attachment(), router.on_submission(),
    router.note_readiness(uuid, text, boolean), router.infection_is_told(uuid), router.ring(), router.await_lock(uuid),
    router.evaluate_routing_readiness(uuid), router.is_finalized(public.submissions);
DROP TABLE IF EXISTS router.outbox, router.transitions;
DROP SEQUENCE IF EXISTS router.rung;
DROP INDEX IF EXISTS public.submissions_router_received, public.submissions_router_processing,
    public.submissions_router_unalerted, public.attachments_router_infected, public.attachments_router_unclean;
