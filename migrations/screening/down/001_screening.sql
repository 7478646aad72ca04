-- The way back from 001_screening.sql, as the owner of the tables: `maple-router migrate --screening --back 001`. What waited for its
-- screening is routed, unscreened; runs, events, verdicts, waivers and calibrations go: keep a copy of screening.submission_state_events.
-- The roles maple_screener and maple_desk stay, the one without rights, the other with the daemon's.

-- Part: submissions.
DROP TRIGGER IF EXISTS screening_guard_claim ON public.submissions;
DROP TRIGGER IF EXISTS screening_subject_ended ON public.submissions;

-- Part: what is left.
-- Whichever of two schemas came later lies on top: what is taken out is ours, and what lies on it finds the one below.
DO $$
BEGIN
    IF to_regproc('router.note_ungraded_readiness') IS NOT NULL AND EXISTS (
        SELECT FROM pg_proc p WHERE p.oid = to_regprocedure('router.note_ungraded_readiness(uuid, text, boolean)')
            AND p.prosrc LIKE '%note_unscreened_readiness%') THEN
        DROP FUNCTION router.evaluate_ungraded_readiness(uuid), router.note_ungraded_readiness(uuid, text, boolean);
        ALTER FUNCTION router.evaluate_unscreened_readiness(uuid) RENAME TO evaluate_ungraded_readiness;
        ALTER FUNCTION router.note_unscreened_readiness(uuid, text, boolean) RENAME TO note_ungraded_readiness;
    ELSE
        DROP FUNCTION router.evaluate_routing_readiness(uuid), router.note_readiness(uuid, text, boolean);
        ALTER FUNCTION router.evaluate_unscreened_readiness(uuid) RENAME TO evaluate_routing_readiness;
        ALTER FUNCTION router.note_unscreened_readiness(uuid, text, boolean) RENAME TO note_readiness;
        GRANT EXECUTE ON FUNCTION router.evaluate_routing_readiness(uuid) TO forms_app;
    END IF;
END
$$;
DROP FUNCTION IF EXISTS router.failure_of(uuid);
ALTER FUNCTION router.any_failure_of(uuid) RENAME TO failure_of;
DELETE FROM router.grey_queue WHERE cause IN ('screening', 'screening_job');
DELETE FROM router.grey_queue_causes WHERE cause IN ('screening', 'screening_job');
DROP INDEX IF EXISTS router.outbox_pending_published;
DELETE FROM router.outbox WHERE kind = 'screening.published';
DROP VIEW IF EXISTS screening.jobs;
-- They have the runs' row as an argument, or its table in their body.
DROP FUNCTION IF EXISTS screening.is_shut_out(public.submissions, screening.submissions),
    screening.follow(screening.submissions, text, text), screening.gates(uuid, text, timestamptz);
DROP TABLE IF EXISTS screening.published, screening.snapshots, screening.calibrations, screening.waivers, screening.spent,
    screening.verdicts, screening.findings, screening.scan_results, screening.submission_state_events, screening.submissions,
    screening.forms;
DROP SEQUENCE IF EXISTS screening.rung;
DROP FUNCTION IF EXISTS screening.guard_claim(), screening.on_subject_ended(), screening.on_moved(), screening.guard_run(),
    screening.gate(uuid, text, timestamptz), screening.content(uuid, uuid, text, int), screening.decide(uuid, bigint, text, text, text),
    screening.lock_run(uuid), screening.redrive(uuid), screening.rescreen(uuid, text, text), screening.reconcile(int),
    screening.births(int), screening.birth(uuid), screening.ring(), screening.skill_id(text, text),
    screening.next_version(text, text), screening.digest_of(uuid), screening.stands(uuid, text), screening.job_type(text);
REVOKE USAGE ON SCHEMA screening FROM maple_screener, maple_desk, forms_app, forms_loader;
