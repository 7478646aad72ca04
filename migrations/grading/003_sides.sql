-- What joins the two sides in the database of schema assessment: who hears of a dead message, what an emptied submission takes along, and the
-- rights of the main side's roles in schema mq. Applied by `maple-router migrate --grading` after 002; the way back is down/003_sides.sql.

-- A person has to hear of a dead message, whoever buried it.
CREATE FUNCTION mq.on_dead() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM router.open_entry('grading_message', NEW.reason, 'grading_message', NEW.id, NULL, 'dead',
        jsonb_build_object('queue', NEW.queue));
    RETURN NULL;
END
$$;
CREATE TRIGGER dead AFTER INSERT ON mq.grading_dlq FOR EACH ROW EXECUTE FUNCTION mq.on_dead();

-- A submission that is emptied takes its results and its messages along, closes an open attempt without a transition, and has the grader forget.
CREATE FUNCTION assessment.on_subject_ended() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Whoever takes a callback in has the attempt's lock: it is kept before this, or sees that the submission is empty.
    PERFORM FROM assessment.submissions a WHERE a.subject = NEW.id ORDER BY a.id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE assessment.submissions a SET closed_at = clock_timestamp(), lease_token = NULL, leased_until = NULL
    WHERE a.subject = NEW.id AND a.closed_at IS NULL AND a.ended_at IS NULL;
    UPDATE assessment.results r SET result = NULL, transcript = NULL FROM assessment.submissions a
    WHERE a.subject = NEW.id AND r.request_id = a.id;
    DELETE FROM mq.grading_request q WHERE q.payload->>'submissionId' = NEW.id::text;
    DELETE FROM mq.grading_callback q USING assessment.submissions a WHERE a.subject = NEW.id AND q.payload->>'requestId' = a.id::text;
    DELETE FROM mq.grading_dlq d WHERE d.payload->>'submissionId' = NEW.id::text;
    DELETE FROM assessment.tickets t WHERE t.subject = NEW.id;
    INSERT INTO mq.grading_request (message_id, payload)
    SELECT gen_random_uuid(), jsonb_build_object('kind', 'forget', 'requestId', a.id, 'submissionId', a.subject, 'attempt', a.attempt)
    FROM assessment.submissions a WHERE a.subject = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER assessment_subject_ended AFTER UPDATE ON public.submissions FOR EACH ROW
    WHEN (NEW.status = 'purged' AND OLD.status <> 'purged') EXECUTE FUNCTION assessment.on_subject_ended();

GRANT USAGE ON SCHEMA mq TO forms_app, maple_desk;
GRANT INSERT (message_id, payload) ON mq.grading_request TO forms_app;
GRANT SELECT, DELETE, UPDATE (tries, available_at) ON mq.grading_callback TO forms_app;
GRANT INSERT (queue, message_id, payload, reason, detail) ON mq.grading_dlq TO forms_app;
REVOKE EXECUTE ON FUNCTION mq.on_dead(), assessment.on_subject_ended() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION mq.depths(), mq.dead(int), mq.requests_to_send(int, float8), mq.requests_sent(uuid[]),
    mq.callback_arrived(uuid, jsonb, timestamptz) TO forms_app;
