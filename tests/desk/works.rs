//! Works that wait for a person's grade, as the grader has left them.

use maple_router::config::{DeskUser, Role};
use maple_router::ops::rng::Rng;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::Bench;

/// The criteria of a text.
pub(crate) const CRITERIA: [&str; 4] =
    ["task_achievement", "coherence_cohesion", "lexical_resource", "grammatical_range"];
/// What the grader says of each, which nobody may see too early.
pub(crate) const GRADERS_WORD: &str = "The grader's own word.";
/// What is asked.
pub(crate) const PROMPT: &str = "Should a town have more museums? Discuss.";

/// The grader's result.
pub(crate) fn result(score: f64, band: &str) -> Value {
    let criteria: Vec<Value> = CRITERIA
        .iter()
        .map(|criterion| {
            json!({"criterion": criterion, "score": score, "feedback": GRADERS_WORD, "evidence": ["a quote"], "estimated": false})
        })
        .collect();
    json!({
        "v": 1, "overallScore": score, "band": band, "confidence": 72, "criteriaScores": criteria,
        "feedback": {"strengths": ["It is there."], "weaknesses": [], "suggestions": []}, "reviewRequired": true,
        "reviewPriority": "Medium", "gradingMode": "auto", "auditFlag": false, "isLate": false, "indicative": true, "model": "m",
        "promptVersion": "p", "rubricVersion": "1",
    })
}

/// A bench as the desk's own role, with a form that is graded and an instructor.
pub(crate) async fn prepare(bench: &mut Bench) {
    bench.reach(bench.db.url_as("maple_desk"));
    let ines = DeskUser { email: "ines@example.org".to_owned(), role: Role::Instructor };
    bench.config.desk.users.insert("ines".to_owned(), ines);
    let sql = format!(
        "INSERT INTO forms (id, name) VALUES ('essay', 'Essay');
         INSERT INTO assessment.questions (id, skill, prompt, set_by) VALUES ('parks', 'writing', '{PROMPT}', 'test');
         INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, sla, since, set_by) VALUES
           ('essay', 'writing', 'parks', 'answer', 'essay', '20 minutes', now() - interval '1 day', 'test')"
    );
    bench.eyes.batch_execute(&sql).await.expect("a graded form");
}

impl Bench {
    /// A submission with this text that a person is to grade, and its attempt.
    pub(crate) async fn work(&self, text: &str) -> (Uuid, Uuid) {
        let (id, attempt) = self.handed_in(text).await;
        self.step(attempt, "PROCESSING", "REVIEW_PENDING", "review-required").await;
        (id, attempt)
    }

    /// The same with this priority: the attempt.
    pub(crate) async fn work_of(&self, text: &str, priority: &str) -> Uuid {
        let (_, attempt) = self.handed_in(text).await;
        self.step_to(attempt, ("PROCESSING", "REVIEW_PENDING"), "review-required", Some(priority)).await;
        attempt
    }

    /// A submission with this text that is being graded, and its attempt.
    pub(crate) async fn handed_in(&self, text: &str) -> (Uuid, Uuid) {
        let id = Rng::from_system().uuid();
        let sql = format!("BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'essay')");
        self.eyes.batch_execute(&sql).await.expect("begun");
        let field = "INSERT INTO submission_fields (submission_id, field_key, field_value, position) VALUES ($1, 'answer', $2, 1)";
        self.eyes.execute(field, &[&id, &text]).await.expect("a field");
        self.eyes.batch_execute("COMMIT").await.expect("finalized");
        let sql = "SELECT id FROM assessment.submissions WHERE subject = $1";
        let attempt: Uuid = self.eyes.query_one(sql, &[&id]).await.expect("its attempt").get(0);
        self.step(attempt, "PENDING", "QUEUED", "request-published").await;
        self.step(attempt, "QUEUED", "PROCESSING", "picked-up").await;
        (id, attempt)
    }

    /// An attempt goes on, as the daemon's transactions have it; with the grader's result where it is to be reviewed.
    pub(crate) async fn step(&self, attempt: Uuid, from: &str, to: &str, trigger: &str) {
        let priority = (to == "REVIEW_PENDING").then_some("Medium");
        self.step_to(attempt, (from, to), trigger, priority).await;
    }

    async fn step_to(&self, attempt: Uuid, (from, to): (&str, &str), trigger: &str, priority: Option<&str>) {
        let (reviewed, reason) = (priority.is_some(), (to == "FAILED").then_some("timeout"));
        self.eyes.batch_execute("BEGIN").await.expect("begun");
        let moved = "UPDATE assessment.submissions SET state = $2, version = version + 1, priority = $3, failed_reason = $4,
            confidence = 72 WHERE id = $1";
        self.eyes.execute(moved, &[&attempt, &to, &priority, &reason]).await.expect("moved");
        if reviewed {
            self.keep(attempt, false, &result(7.5, "B2")).await;
        }
        let event =
            "INSERT INTO assessment.events (submission_id, from_state, to_state, trigger, actor, actor_type)
            VALUES ($1, $2, $3, $4, 'system', 'system')";
        self.eyes.execute(event, &[&attempt, &from, &to, &trigger]).await.expect("recorded");
        self.eyes.batch_execute("COMMIT").await.expect("committed");
    }

    /// A result of the grader's; a late one with its event.
    pub(crate) async fn keep(&self, attempt: Uuid, late: bool, result: &Value) {
        let kept = "INSERT INTO assessment.results (request_id, kind, try, is_late, result, digest, score, band, actor)
            SELECT $1, 'ai', 1, $2, r.v, repeat('a', 64), (r.v->>'overallScore')::numeric, r.v->>'band', 'system' FROM (SELECT $3::jsonb) AS r (v)";
        self.eyes.execute(kept, &[&attempt, &late, result]).await.expect("kept");
        if late {
            let event = "INSERT INTO assessment.events (submission_id, from_state, to_state, trigger, actor, actor_type)
                VALUES ($1, 'FAILED', 'FAILED', 'late-result', 'system', 'system')";
            self.eyes.execute(event, &[&attempt]).await.expect("recorded");
        }
    }

    /// A value of an attempt's row.
    pub(crate) async fn of_attempt(&self, attempt: Uuid, what: &str) -> String {
        let sql = format!("SELECT ({what})::text FROM assessment.submissions a WHERE a.id = $1");
        self.eyes.query_one(&sql, &[&attempt]).await.expect(&sql).get(0)
    }
}
