-- The way back from 003_sides.sql, as the owner of the tables: `maple-router migrate --grading --back 003`. Nothing is sent to a grader any more:
-- what waited for one is failed at its deadline.

-- Part: submissions.
DROP TRIGGER IF EXISTS assessment_subject_ended ON public.submissions;

-- Part: what is left.
DELETE FROM router.grey_queue WHERE cause = 'grading_message';
DROP TRIGGER IF EXISTS dead ON mq.grading_dlq;
DROP FUNCTION IF EXISTS assessment.on_subject_ended(), mq.on_dead();
REVOKE ALL ON ALL TABLES IN SCHEMA mq FROM forms_app;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA mq FROM forms_app;
REVOKE USAGE ON SCHEMA mq FROM forms_app, maple_desk;
