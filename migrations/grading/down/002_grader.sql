-- The way back from 002_grader.sql, as the owner of the tables: `maple-router migrate --grading --back 002`, or `migrate --grader --back 002` in a
-- database of the grader's own. Jobs, steps and messages go. The role maple_grader stays, without rights.

-- Part: what is left.
DROP TABLE IF EXISTS grading.calibrations, grading.spent, grading.steps, grading.events, grading.jobs, grading.forgotten;
DROP TABLE IF EXISTS mq.grading_request, mq.grading_callback, mq.grading_dlq;
DROP FUNCTION IF EXISTS grading.guard_job(), grading.wake(), grading.empty_ended(interval, int), mq.wake(), mq.depths(), mq.dead(int),
    mq.forget_dead(uuid), mq.requests_to_send(int, float8), mq.requests_sent(uuid[]), mq.request_arrived(uuid, jsonb, timestamptz),
    mq.callbacks_to_send(int, float8), mq.callbacks_sent(uuid[]), mq.callback_arrived(uuid, jsonb, timestamptz);
REVOKE USAGE ON SCHEMA mq, grading FROM maple_grader;
