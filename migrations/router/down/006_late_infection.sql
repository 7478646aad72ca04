-- The way back from 006_late_infection.sql, as the owner of the tables: `maple-router migrate --router --back 006`. Late infections are
-- told all the same; their entries go, with their history.

-- Part: attachments.
DROP TRIGGER IF EXISTS router_late_infection ON public.attachments;

-- Part: what is left.
DROP FUNCTION IF EXISTS router.on_late_infection(), router.open_late_infection(uuid), router.reconcile_grey_queue(timestamptz, boolean, int);
ALTER FUNCTION router.reconcile_failures(timestamptz, boolean, int) RENAME TO reconcile_grey_queue;
GRANT EXECUTE ON FUNCTION router.reconcile_grey_queue(timestamptz, boolean, int) TO forms_app;
DELETE FROM router.grey_queue WHERE cause = 'late_infection';
DELETE FROM router.grey_queue_causes WHERE cause = 'late_infection';
