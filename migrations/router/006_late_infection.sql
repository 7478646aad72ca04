-- Schema router: an attachment that is judged infected after its submission was routed opens an entry as well. Its mails are out, with
-- links that work. Applied by `maple-router migrate --router`; the way back is down/006_late_infection.sql.

INSERT INTO router.grey_queue_causes (cause, subject_kind, queue) VALUES ('late_infection', 'submission', 'security');

-- A routed submission with an infected attachment: once for each end of its routing.
CREATE FUNCTION router.open_late_infection(submission uuid) RETURNS uuid
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
SELECT router.open_entry('late_infection', 'infected', 'submission', s.id, s.form_id::text,
    COALESCE(s.routing_result #>> '{finished,token}', 'status:' || s.updated_at), '{}')
FROM public.submissions s WHERE s.id = submission AND s.status = 'routed' AND s.routing_result -> 'finished' IS NOT NULL
$$;

-- Whoever's transaction it is. Fails nobody: what it swallows the reconciliation finds.
CREATE FUNCTION router.on_late_infection() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM router.open_late_infection(NEW.submission_id);
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'no entry of the grey queue for the late infection of submission %: %', NEW.submission_id, SQLERRM;
    RETURN NULL;
END
$$;
CREATE TRIGGER router_late_infection AFTER UPDATE OF clamav_status ON public.attachments FOR EACH ROW
    WHEN (NEW.clamav_status = 'infected' AND OLD.clamav_status IS DISTINCT FROM NEW.clamav_status)
    EXECUTE FUNCTION router.on_late_infection();

-- What 004 reconciles, and late infections: from the infected attachments, of which there is an index. Not since when: a verdict has no
-- time in the tables.
ALTER FUNCTION router.reconcile_grey_queue(timestamptz, boolean, int) RENAME TO reconcile_failures;
CREATE FUNCTION router.reconcile_grey_queue(since timestamptz, history boolean, most int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    opened bigint := router.reconcile_failures(since, history, most);
    missed record;
BEGIN
    FOR missed IN
        SELECT DISTINCT a.submission_id FROM public.attachments a JOIN public.submissions s ON s.id = a.submission_id,
            router.grey_queue_causes c
        WHERE a.clamav_status = 'infected' AND s.status = 'routed' AND s.routing_result -> 'finished' IS NOT NULL
          AND c.cause = 'late_infection' AND (history OR s.updated_at >= c.since) AND NOT EXISTS (
            SELECT FROM router.grey_queue_occurrences o WHERE o.subject_id = s.id AND o.subject_kind = 'submission'
              AND o.cause = 'late_infection' AND o.key = COALESCE(s.routing_result #>> '{finished,token}', 'status:' || s.updated_at))
        LIMIT most
    LOOP
        PERFORM router.open_late_infection(missed.submission_id);
        opened := opened + 1;
    END LOOP;
    RETURN opened;
END
$$;

REVOKE EXECUTE ON FUNCTION router.open_late_infection(uuid), router.on_late_infection(),
    router.reconcile_grey_queue(timestamptz, boolean, int), router.reconcile_failures(timestamptz, boolean, int) FROM PUBLIC, forms_app;
GRANT EXECUTE ON FUNCTION router.reconcile_grey_queue(timestamptz, boolean, int) TO forms_app;
