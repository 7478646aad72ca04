-- The way back from 002_outbox.sql, as the owner of the tables: `maple-router migrate --router --back 002`, which runs each
-- part below in a transaction of its own and may be repeated. What the outbox still holds is found by the sweep's orphan
-- pass (routing.orphan_after).

-- Part: attachments. One table at a time: whoever scans has this one and comes for the other.
DROP TRIGGER IF EXISTS router_scanned ON public.attachments;
DROP TRIGGER IF EXISTS router_found_infected ON public.attachments;
DROP TRIGGER IF EXISTS router_removed ON public.attachments;
DROP INDEX IF EXISTS public.attachments_router_infected, public.attachments_router_unclean;

-- Part: submissions. From here on nobody writes an event.
DROP TRIGGER IF EXISTS router_finalized_later ON public.submissions;
DROP TRIGGER IF EXISTS router_finalized ON public.submissions;
DROP TRIGGER IF EXISTS router_replayed ON public.submissions;
DROP INDEX IF EXISTS public.submissions_router_received, public.submissions_router_processing,
    public.submissions_router_unalerted;

-- Part: what is left.
DROP FUNCTION IF EXISTS router.set_finalized_column(name), router.on_attachment(), router.on_submission(),
    router.note_readiness(uuid, text, boolean), router.infection_is_told(uuid), router.ring(), router.await_lock(uuid),
    router.evaluate_routing_readiness(uuid), router.is_finalized(public.submissions);
DROP TABLE IF EXISTS router.outbox, router.transitions;
DROP SEQUENCE IF EXISTS router.rung;
