-- The way back from 001_assessment.sql, as the owner of the tables: `maple-router migrate --grading --back 001`. What waited for its grade is
-- routed without one; attempts, events and results go: keep a copy of assessment.results and assessment.events. The role maple_desk stays.

-- Part: submissions.
DROP TRIGGER IF EXISTS assessment_guard_claim ON public.submissions;

-- Part: what is left.
-- Whichever of the two schemas came later lies on top: what is taken out is ours, and what lies on it finds the one below.
DO $$
BEGIN
    IF to_regproc('router.note_unscreened_readiness') IS NOT NULL AND EXISTS (
        SELECT FROM pg_proc p WHERE p.oid = to_regprocedure('router.note_unscreened_readiness(uuid, text, boolean)')
            AND p.prosrc LIKE '%note_ungraded_readiness%') THEN
        DROP FUNCTION router.evaluate_unscreened_readiness(uuid), router.note_unscreened_readiness(uuid, text, boolean);
        ALTER FUNCTION router.evaluate_ungraded_readiness(uuid) RENAME TO evaluate_unscreened_readiness;
        ALTER FUNCTION router.note_ungraded_readiness(uuid, text, boolean) RENAME TO note_unscreened_readiness;
    ELSE
        DROP FUNCTION router.evaluate_routing_readiness(uuid), router.note_readiness(uuid, text, boolean);
        ALTER FUNCTION router.evaluate_ungraded_readiness(uuid) RENAME TO evaluate_routing_readiness;
        ALTER FUNCTION router.note_ungraded_readiness(uuid, text, boolean) RENAME TO note_readiness;
        GRANT EXECUTE ON FUNCTION router.evaluate_routing_readiness(uuid) TO forms_app;
    END IF;
END
$$;
DELETE FROM router.desk_credentials WHERE role_cap = 'instructor';
ALTER TABLE router.desk_credentials DROP CONSTRAINT desk_credentials_role_cap_check,
    ADD CONSTRAINT desk_credentials_role_cap_check CHECK (role_cap IN ('viewer', 'reviewer', 'security', 'admin'));
DELETE FROM router.grey_queue WHERE cause IN ('grading', 'grading_failed', 'grading_message');
DELETE FROM router.grey_queue_causes WHERE cause IN ('grading', 'grading_failed', 'grading_message');
DROP INDEX IF EXISTS router.outbox_pending_graded;
DELETE FROM router.outbox WHERE kind = 'grading.result';
DROP VIEW IF EXISTS assessment.progress;
DROP FUNCTION IF EXISTS assessment.gates(uuid, text, timestamptz);
DROP TABLE IF EXISTS assessment.tickets, assessment.unborn, assessment.results, assessment.callbacks, assessment.events,
    assessment.submissions, assessment.profiles, assessment.questions;
DROP FUNCTION IF EXISTS assessment.gate(uuid, text, timestamptz), assessment.guard_claim(), assessment.ring(), assessment.birth(uuid),
    assessment.births(int), assessment.guard_attempt(), assessment.on_moved(), assessment.lock_attempt(uuid),
    assessment.review(uuid, bigint, jsonb, jsonb, text[], text, text), assessment.regrade(uuid, text, text),
    assessment.release(uuid, text, text);
REVOKE USAGE ON SCHEMA assessment FROM maple_desk, forms_app, forms_loader;
