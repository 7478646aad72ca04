//! Red goes for what grades: attempts that nobody answers in time, nobody at work, half of the time gone, a message that is none, people who
//! do not review, people who grade otherwise. The daemon's side is played for real; what the grader would do is written by red, since it is
//! a process of its own.

use std::time::Duration;

use anyhow::Result;
use uuid::Uuid;

use super::Step;
use super::world::{Promise, World};
use crate::forms::SubmissionSeed;

pub(super) const STEPS: &[Step] = &[
    Step { name: "grader-too-slow", play: |world| Box::pin(too_slow(world)) },
    Step { name: "grader-asleep", play: |world| Box::pin(asleep(world)) },
    Step { name: "grader-away", play: |world| Box::pin(away(world)) },
    Step { name: "grading-garbled", play: |world| Box::pin(garbled(world)) },
    Step { name: "instructors-away", play: |world| Box::pin(unreviewed(world)) },
    Step { name: "grader-astray", play: |world| Box::pin(astray(world)) },
];

/// The daemon looks once a minute; what is left of it is waited for as for anything else.
const LOOK: Duration = Duration::from_secs(40);
/// The form that is graded.
const FORM: &str = "graded";

/// A submission of a gated form, whose attempt comes to this state within `sla`.
async fn graded(world: &World, sla: &str, state: &str) -> Result<Uuid> {
    clear(world).await?;
    let enable = format!(
        "INSERT INTO assessment.questions (id, skill, prompt, set_by) VALUES ('drill', 'writing', 'Write a letter.', 'red') ON CONFLICT DO NOTHING;
         INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, sla, since, set_by)
         VALUES ('{FORM}', 'writing', 'drill', 'letter', 'email', '{sla}', now() - interval '1 minute', 'red')"
    );
    world.tamper(&enable).await?;
    let id = world.seed(SubmissionSeed::of(FORM).field("letter", "Dear Anna, how are you?"), true).await?;
    let eyes = world.stage.database.superuser().await?;
    let sql = "SELECT EXISTS (SELECT FROM assessment.submissions a WHERE a.subject = $1 AND a.state = $2)";
    let so = async || Ok(eyes.query_one(sql, &[&id, &state]).await?.get(0));
    world.until(&format!("an attempt that is {state}"), so).await?;
    world.explain(id, &["its mail waits for a grade"]).await?;
    Ok(id)
}

/// Nothing is graded any more; what waited is routed.
async fn clear(world: &World) -> Result<()> {
    let all = "DELETE FROM assessment.submissions; DELETE FROM assessment.profiles; DELETE FROM mq.grading_request; DELETE FROM mq.grading_callback;
        DELETE FROM mq.grading_dlq; UPDATE router.grey_queue SET state = 'Dismissed' WHERE closed_at IS NULL AND cause LIKE 'grading%'";
    world.tamper(all).await
}

/// The same, and Slack says that it is over.
async fn over(world: &World, what: &str) -> Result<()> {
    clear(world).await?;
    tokio::time::sleep(LOOK).await;
    world.slack_over(what).await
}

/// What a guard of the schema would refuse.
async fn forced(world: &World, sql: &str) -> Result<()> {
    let forced =
        format!("SET session_replication_role = replica; {sql}; SET session_replication_role = origin");
    world.tamper(&forced).await
}

/// A second is allowed, and nobody answers.
async fn too_slow(world: &mut World) -> Result<()> {
    let id = graded(world, "1 second", "FAILED").await?;
    world.explain(id, &["was not done by", "grading regrade"]).await?;
    world.journal("grading_failed", &id.to_string()).await?;
    // It fires for a few seconds of the drill's hour, and nobody knows when within a minute.
    if world.alert("MapleRouterGradingTimeouts").await.is_err() {
        world.alert("MapleRouterGradingTimeouts").await?;
    }
    world.slack("grading_timeouts", Promise { submissions: &[id], ..Promise::default() }).await?;
    over(world, "not graded in time").await?;
    world.become_all(&[id], "routed").await
}

/// Nobody has taken a request for eleven minutes.
async fn asleep(world: &mut World) -> Result<()> {
    let id = graded(world, "1 hour", "QUEUED").await?;
    world.tamper("UPDATE mq.grading_request SET at = now() - interval '11 minutes'").await?;
    tokio::time::sleep(LOOK).await;
    world.slack("grading_stalled", Promise::default()).await?;
    world.alert("MapleRouterGradingStalled").await?;
    over(world, "nobody takes them").await?;
    world.become_all(&[id], "routed").await
}

/// The grader waits for its model, and two thirds of the time are gone.
async fn away(world: &mut World) -> Result<()> {
    let id = graded(world, "1 hour", "QUEUED").await?;
    let spent =
        "UPDATE assessment.submissions SET state = 'PROCESSING', created_at = now() - interval '40 minutes',
        state_since = now() - interval '39 minutes', deadline = now() + interval '20 minutes'";
    forced(world, spent).await?;
    world.tamper("DELETE FROM mq.grading_request").await?;
    tokio::time::sleep(LOOK).await;
    world.slack("grading_judge", Promise { submissions: &[id], ..Promise::default() }).await?;
    world.alert("MapleRouterGradingJudge").await?;
    over(world, "half of the time").await
}

/// A callback that nobody can read.
async fn garbled(world: &mut World) -> Result<()> {
    clear(world).await?;
    let rubbish = "INSERT INTO mq.grading_callback (message_id, payload) VALUES (gen_random_uuid(), '{\"from\": \"red\"}')";
    world.tamper(rubbish).await?;
    world.journal("grading_dead_message", "").await?;
    tokio::time::sleep(LOOK).await;
    world.slack("grading_messages", Promise { kind: "unreadable", ..Promise::default() }).await?;
    world.alert("MapleRouterGradingMessages").await?;
    over(world, "could not be taken in").await
}

/// An attempt that waits for a person, with its entry, since so long ago.
async fn in_review(world: &World, since: &str) -> Result<()> {
    graded(world, "1 hour", "QUEUED").await?;
    let waits = format!(
        "UPDATE assessment.submissions SET state = 'REVIEW_PENDING', priority = 'Medium', confidence = 72, created_at = now() - interval '{since}',
         state_since = now() - interval '{since}'"
    );
    forced(world, &waits).await?;
    let entry = "SELECT router.open_entry('grading', 'medium', 'assessment', a.id, a.form_id, 'review', '{}') FROM assessment.submissions a";
    world.tamper(entry).await
}

/// An attempt waits for a person for four days.
async fn unreviewed(world: &mut World) -> Result<()> {
    in_review(world, "4 days").await?;
    tokio::time::sleep(LOOK).await;
    world.slack("grading_review", Promise::default()).await?;
    world.alert("MapleRouterGradingReviewOld").await?;
    over(world, "wait for a person's grade").await
}

/// Twenty people grade otherwise than the grader did, by three points.
async fn astray(world: &mut World) -> Result<()> {
    in_review(world, "1 minute").await?;
    let reviews = "WITH a AS (
          INSERT INTO assessment.submissions (subject, attempt, form_id, skill, gate, on_failed, state, priority, confidence, deadline, ended_at)
          SELECT gen_random_uuid(), 1, 'graded', 'writing', true, 'hold', 'COMPLETED', 'Medium', 72, now() + interval '1 hour', now()
          FROM generate_series(1, 20) RETURNING id)
        INSERT INTO assessment.results (request_id, kind, try, result, digest, score, band, actor)
        SELECT a.id, k.kind, 1, '{}', repeat('0', 64), k.score, k.band, 'red'
        FROM a, (VALUES ('ai', 4.0, 'B1'), ('human', 7.0, 'B2'), ('final', 7.0, 'B2')) AS k (kind, score, band)";
    forced(world, reviews).await?;
    tokio::time::sleep(LOOK).await;
    world.slack("grading_drift", Promise::default()).await?;
    world.alert("MapleRouterGradingDrift").await?;
    over(world, "from the grader's on average").await
}
