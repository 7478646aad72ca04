-- The way back from 002_grader.sql, as the owner of the tables: `maple-router migrate --grading --back 002`. Nothing is sent to a grader any
-- more: what waited for one is failed at its deadline. Jobs, steps and messages go. The role maple_grader stays, without rights.

-- Part: submissions.
DROP TRIGGER IF EXISTS assessment_subject_ended ON public.submissions;

-- Part: what is left.
DELETE FROM router.grey_queue WHERE cause = 'grading_message';
DROP FUNCTION IF EXISTS assessment.on_subject_ended();
DROP TABLE IF EXISTS grading.calibrations, grading.spent, grading.steps, grading.events, grading.jobs;
DROP TABLE IF EXISTS mq.grading_request, mq.grading_callback, mq.grading_dlq;
DROP FUNCTION IF EXISTS grading.guard_job(), grading.wake(), grading.empty_ended(interval, int), mq.wake(), mq.on_dead(), mq.depths(),
    mq.dead(int);
REVOKE USAGE ON SCHEMA mq FROM maple_grader, forms_app, maple_desk;
REVOKE USAGE ON SCHEMA grading FROM maple_grader;
