//! `/api/assessments`: a person's grade and its entry, both or neither; an instructor, who sees one queue; and what learners follow.

use std::time::Duration;

use maple_router::config::Role;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use super::bench::{Answered, Api};
use crate::harness::{HOST, PATIENCE, location};
use crate::works::{CRITERIA, GRADERS_WORD, PROMPT, result};

/// Time in which nothing comes where nothing is to come.
const SILENCE: Duration = Duration::from_millis(30);
/// What a learner wrote.
const WRITTEN: &str = "Museums are what a learner wrote about.";

/// A person's grade with this score by each criterion.
fn grade(score: f64) -> Value {
    let criteria: Vec<Value> =
        CRITERIA.iter().map(|criterion| json!({"criterion": criterion, "score": score})).collect();
    json!({"criteriaScores": criteria, "feedback": {"strengths": ["Clear."], "weaknesses": [], "suggestions": []}, "reason": "read it"})
}

fn path(id: Uuid, rest: &str) -> String {
    format!("/api/assessments/{id}{rest}")
}

/// Sends a grade of what was seen at `version`.
async fn give(api: &Api, who: &str, id: Uuid, version: &str, body: &Value) -> Answered {
    let request = api.ask(who, Method::POST, &path(id, "/review")).header("if-match", version);
    Answered::of(request.json(body)).await
}

/// State of the entry about an attempt, and who has it.
async fn entry(api: &Api, attempt: Uuid) -> (Uuid, String, Option<String>) {
    let sql = "SELECT id, state, assignee FROM router.grey_queue WHERE subject_id = $1";
    let row = api.bench.eyes.query_one(sql, &[&attempt]).await.expect("an entry");
    (row.get(0), row.get(1), row.get(2))
}

#[tokio::test]
async fn grading_ends_with_a_persons_grade_and_its_entry_beside_it() {
    let api = Api::graded(|_| ()).await;
    let (submission, attempt) = api.bench.work(WRITTEN).await;
    assert_eq!(api.get("vera", &path(submission, "")).await.refused(), (403, "role"));
    assert_eq!(api.bench.count("router.desk_access_log").await, 0);
    for id in [submission, attempt] {
        let seen = api.get("rita", &path(id, "")).await;
        assert_eq!(
            (seen.status, &seen.body["id"], &seen.body["work"]),
            (200, &json!(attempt), &json!(WRITTEN)),
            "{seen:?}"
        );
        assert_eq!(
            (&seen.body["question"]["prompt"], &seen.body["question"]["rubric"]),
            (&json!(PROMPT), &json!("1"))
        );
        assert_eq!((&seen.body["ai"]["overallScore"], &seen.body["last"]), (&json!(7.5), &Value::Null));
        assert_eq!(seen.etag(), format!("\"{}\"", seen.version()));
    }
    assert_eq!(api.bench.count(&format!("router.desk_access_log WHERE what = 'fields' AND user_name = 'rita' AND submission_id = '{submission}'")).await, 2);
    let tag = api.get("rita", &path(submission, "")).await.etag().to_owned();
    let keyed = |body: Value| {
        let request = api.ask("rita", Method::POST, &path(submission, "/review"));
        Answered::of(request.header("if-match", &tag).header("idempotency-key", "k-1").json(&body))
    };
    let done = keyed(grade(7.0)).await;
    assert_eq!(
        (done.status, &done.body["state"], &done.body["mode"]),
        (200, &json!("COMPLETED"), &json!("hybrid")),
        "{done:?}"
    );
    assert!(!done.body.to_string().contains("Clear."), "an answer that is kept has no words");
    assert_eq!(keyed(grade(7.0)).await.body, done.body, "the same answer");
    assert_eq!(keyed(grade(5.0)).await.refused(), (422, "idempotency_mismatch"));
    let (id, state, assignee) = entry(&api, attempt).await;
    assert_eq!((state.as_str(), assignee.as_deref()), ("Resolved", Some("rita")));
    assert_eq!(api.chain(id).await, ["open", "assign", "resolve"]);
    assert_eq!(done.body["entry"], json!(id));
    let results = api
        .bench
        .eyes
        .query(
            "SELECT kind || ' ' || actor FROM assessment.results WHERE request_id = $1 ORDER BY id",
            &[&attempt],
        )
        .await
        .expect("results");
    let results: Vec<String> = results.iter().map(|row| row.get(0)).collect();
    assert_eq!(results, ["ai system", "human reviewer:rita", "final reviewer:rita"]);
    // The second tab is told who was first.
    let second = give(&api, "ben", submission, &tag, &grade(3.0)).await;
    assert_eq!(
        (second.refused(), &second.body["by"]),
        ((412, "precondition_failed"), &json!("reviewer:rita")),
        "{second:?}"
    );
    let mut body = grade(3.0);
    body["version"] = json!(tag.trim_matches('"').parse::<i64>().expect("a number"));
    let second = api.post("ben", &path(submission, "/review"), body).await;
    assert_eq!(
        (second.refused(), &second.body["state"]),
        ((409, "version_conflict"), &json!("COMPLETED")),
        "{second:?}"
    );
    assert_eq!(second.body["by"], "reviewer:rita");
}

#[tokio::test]
async fn grading_that_is_refused_leaves_nothing() {
    let api = Api::graded(|_| ()).await;
    let (submission, attempt) = api.bench.work(WRITTEN).await;
    let tag = api.get("rita", &path(submission, "")).await.etag().to_owned();
    let mut few = grade(7.0);
    few["criteriaScores"].as_array_mut().expect("scores").pop();
    let mut mute = grade(7.0);
    mute["reason"] = json!("  ");
    for (body, field) in [
        (few, "criteriaScores"),
        (grade(7.3), "criteriaScores"),
        (mute, "reason"),
        (json!({"reason": "x"}), "criteriaScores"),
    ] {
        let refused = give(&api, "rita", submission, &tag, &body).await;
        assert_eq!(
            (refused.refused(), &refused.body["field"]),
            ((422, "guard"), &json!(field)),
            "{refused:?}"
        );
    }
    let rule = give(&api, "rita", submission, &tag, &grade(7.3)).await;
    assert!(rule.body["rule"].as_str().is_some_and(|rule| rule.contains("multiple of 0.5")), "{rule:?}");
    assert_eq!(give(&api, "rita", submission, &tag, &grade(11.0)).await.refused(), (400, "bad_request"));
    assert_eq!(give(&api, "vera", submission, &tag, &grade(7.0)).await.refused(), (403, "role"));
    assert_eq!(
        give(&api, "rita", submission, "\"1\"", &grade(7.0)).await.refused(),
        (412, "precondition_failed")
    );
    assert_eq!(
        api.post("rita", &path(submission, "/review"), grade(7.0)).await.refused(),
        (428, "precondition_required")
    );
    assert_eq!(give(&api, "rita", Uuid::nil(), &tag, &grade(7.0)).await.refused(), (404, "not_found"));
    // It is another's: the grade is taken back with the entry's refusal.
    let (id, ..) = entry(&api, attempt).await;
    let taken = api.post("ben", &format!("/api/grey-queue/{id}/assign"), json!({"version": 1})).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    assert_eq!(give(&api, "rita", submission, &tag, &grade(7.0)).await.refused(), (403, "role"));
    // No entry is resolved without a grade, or rejected instead of one.
    for command in ["resolve", "reject"] {
        let body = json!({"version": 2, "reason": "fine"});
        let refused = api.post("ben", &format!("/api/grey-queue/{id}/{command}"), body).await;
        assert_eq!(refused.refused(), (422, "guard"), "{command}: {refused:?}");
    }
    assert_eq!(api.bench.of_attempt(attempt, "a.state").await, "REVIEW_PENDING");
    assert_eq!(api.bench.count("assessment.results").await, 1);
    assert_eq!(entry(&api, attempt).await.1, "UnderReview");
    assert_eq!(api.bench.count("router.desk_idempotency").await, 0);
    assert_eq!(
        give(&api, "ben", submission, &tag, &grade(7.0)).await.status,
        200,
        "whoever has it grades it"
    );
}

#[tokio::test]
async fn grading_is_the_desks_own_roles() {
    let api = Api::graded(|bench| bench.reach(bench.db.url_as("forms_app"))).await;
    let (submission, attempt) = api.bench.work(WRITTEN).await;
    let tag = api.get("rita", &path(submission, "")).await.etag().to_owned();
    let refused = give(&api, "rita", submission, &tag, &grade(7.0)).await;
    assert_eq!(refused.refused(), (409, "not_possible"), "{refused:?}");
    assert!(
        refused.body["detail"].as_str().is_some_and(|detail| detail.contains("maple_desk")),
        "{refused:?}"
    );
    assert_eq!(
        (entry(&api, attempt).await.1.as_str(), api.bench.of_attempt(attempt, "a.state").await.as_str()),
        ("Pending", "REVIEW_PENDING")
    );
    let absent = Api::new().await;
    assert_eq!(absent.get("rita", &path(submission, "")).await.refused(), (503, "not_installed"));
}

#[tokio::test]
async fn grading_blind_the_graders_result_comes_after_ones_own() {
    let api = Api::graded(|bench| bench.config.grading.blind = true).await;
    let (submission, _) = api.bench.work(WRITTEN).await;
    let seen = api.get("rita", &path(submission, "")).await;
    assert_eq!((&seen.body["ai"], &seen.body["is_blind"]), (&Value::Null, &json!(true)));
    assert!(!seen.body.to_string().contains(GRADERS_WORD), "{seen:?}");
    assert_eq!(give(&api, "rita", submission, seen.etag(), &grade(7.0)).await.status, 200);
    let after = api.get("rita", &path(submission, "")).await;
    assert_eq!(
        (&after.body["ai"]["overallScore"], &after.body["human"]["overallScore"]),
        (&json!(7.5), &json!(7.0))
    );
}

#[tokio::test]
async fn grading_is_all_that_an_instructor_sees() {
    let api = Api::graded(|_| ()).await;
    let (submission, attempt) = api.bench.work(WRITTEN).await;
    let other = api.pending().await;
    let (id, ..) = entry(&api, attempt).await;
    let items = |answer: &Answered| -> Vec<Value> {
        answer.body["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect()
    };
    for query in ["", "?state=all", "?queue=operations", "?cause=failed&queue=security"] {
        let listed = api.get("ines", &format!("/api/grey-queue{query}")).await;
        let expected = if query.contains("failed") { vec![] } else { vec![json!(id)] };
        assert_eq!(items(&listed), expected, "{query}: {listed:?}");
    }
    let summary = api.get("ines", "/api/grey-queue/summary").await;
    assert_eq!(
        (&summary.body["open"], &summary.body["items"][0]["queue"]),
        (&json!(1), &json!("grading")),
        "{summary:?}"
    );
    for rest in ["", "/history", "/transitions"] {
        assert_eq!(api.get("ines", &format!("/api/grey-queue/{id}{rest}")).await.status, 200, "{rest}");
        assert_eq!(api.get("ines", &other.path(rest)).await.refused(), (404, "not_found"), "{rest}");
    }
    assert_eq!(api.give("ines", other, "assign", json!({})).await.refused(), (404, "not_found"));
    for elsewhere in ["/api/grey-queue/changes", "/api/screening", "/api/screening/forms"] {
        assert_eq!(api.get("ines", elsewhere).await.refused(), (403, "role"), "{elsewhere}");
    }
    let bulk = json!({"command": "dismiss", "items": [{"id": id, "version": 1}], "reason": "x"});
    assert_eq!(api.post("ines", "/api/grey-queue/bulk", bulk).await.refused(), (403, "role"));
    let tag = api.get("ines", &path(submission, "")).await.etag().to_owned();
    let done = give(&api, "ines", submission, &tag, &grade(7.0)).await;
    assert_eq!(done.status, 200, "{done:?}");
    let (_, state, assignee) = entry(&api, attempt).await;
    assert_eq!((state.as_str(), assignee.as_deref()), ("Resolved", Some("ines")));
    assert_eq!(api.chain(id).await, ["open", "assign", "resolve"]);
    assert_eq!(api.get("rita", &other.path("")).await.status, 200, "others see it as before");
}

#[tokio::test]
async fn grading_is_listed_by_priority_then_age_page_by_page() {
    let api = Api::graded(|_| ()).await;
    let mut works = Vec::new();
    for (text, priority) in
        [("a", "Medium"), ("b", "Critical"), ("c", "High"), ("d", "Medium"), ("e", "Critical"), ("f", "High")]
    {
        let attempt = api.bench.work_of(text, priority).await;
        works.push((text, entry(&api, attempt).await.0));
    }
    let expected = ["b", "e", "c", "f", "a", "d"];
    let walked = async |who: &str, query: &str| {
        let (mut seen, mut path) = (Vec::new(), format!("/api/grey-queue?limit=2{query}"));
        loop {
            let page = api.get(who, &path).await;
            for item in page.body["items"].as_array().expect("items") {
                let found = works.iter().find(|(_, id)| item["id"] == json!(id));
                seen.push(found.map_or("other", |(text, _)| *text));
            }
            let Some(cursor) = page.body["next_cursor"].as_str() else { return seen };
            path = format!("/api/grey-queue?limit=2{query}&cursor={cursor}");
        }
    };
    assert_eq!(walked("ines", "").await, expected, "an instructor sees that queue alone");
    assert_eq!(walked("rita", "&queue=grading").await, expected);
    assert_eq!(walked("rita", "&cause=grading").await, expected);
    assert_eq!(walked("ines", "&order=oldest").await, ["a", "b", "c", "d", "e", "f"]);
    api.pending().await;
    assert_eq!(walked("rita", "").await, ["a", "b", "c", "d", "e", "f", "other"], "all queues by age");
    assert_eq!(walked("rita", "&order=priority").await, [expected.as_slice(), &["other"]].concat());
    let old = "/api/grey-queue?cursor=MTc4MDAwMDAwMDAwMDAwMC4wMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMA";
    assert_eq!(
        api.get("rita", old).await.refused(),
        (400, "bad_request"),
        "a place without a priority is none"
    );
}

/// A learner's request: no credential of a person.
fn learner(api: &Api, path: &str, cookie: Option<&str>) -> RequestBuilder {
    let request = api.desk.bare(Method::GET, path).header("host", HOST);
    match cookie {
        Some(cookie) => request.header("cookie", cookie),
        None => request,
    }
}

/// A fresh ticket's address.
async fn ticket(api: &Api, submission: Uuid) -> String {
    let made = api.ask("ines", Method::POST, &path(submission, "/ticket"));
    let made = Answered::of(made).await;
    assert_eq!((made.status, &made.body["expires_in"]), (200, &json!(60)), "{made:?}");
    let url = made.body["url"].as_str().expect("a path").to_owned();
    assert!(url.ends_with(made.body["ticket"].as_str().expect("a ticket")), "{url}");
    url
}

/// The cookie of a submission's learner.
pub(super) async fn cookie(api: &Api, submission: Uuid) -> String {
    let led = learner(api, &ticket(api, submission).await, None).send().await.expect("an answer");
    assert_eq!((led.status().as_u16(), location(&led)), (303, path(submission, "/events").as_str()));
    let set = led.headers()["set-cookie"].to_str().expect("text").to_owned();
    for part in [
        format!("Path=/api/assessments/{submission}"),
        "HttpOnly".into(),
        "Secure".into(),
        "SameSite=Strict".into(),
        "Max-Age=1800".into(),
    ] {
        assert!(set.contains(&part), "{part}: {set}");
    }
    set.split(';').next().expect("a pair").to_owned()
}

/// A stream that is read event by event.
pub(super) struct Events {
    answer: Response,
    rest: String,
}

impl Events {
    pub(super) async fn open(api: &Api, submission: Uuid, cookie: &str, last: Option<&str>) -> Self {
        let mut request =
            learner(api, &path(submission, "/events"), Some(cookie)).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = request.send().await.expect("an answer");
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["content-type"]),
            (200, &"text/event-stream".parse().expect("a value"))
        );
        let mut events = Self { answer, rest: String::new() };
        assert_eq!(events.block().await.trim(), "retry: 5000");
        events
    }

    pub(super) async fn block(&mut self) -> String {
        loop {
            if let Some((block, rest)) = self.rest.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.rest = rest;
                return block;
            }
            let chunk =
                tokio::time::timeout(PATIENCE, self.answer.chunk()).await.expect("in time").expect("a chunk");
            self.rest.push_str(std::str::from_utf8(&chunk.expect("it goes on")).expect("text"));
        }
    }

    /// Whether nothing comes for a while.
    pub(super) async fn is_silent(&mut self) -> bool {
        self.rest.is_empty() && tokio::time::timeout(SILENCE, self.answer.chunk()).await.is_err()
    }

    /// Whatever comes until the stream ends.
    pub(super) async fn rest(&mut self) -> String {
        let mut rest = std::mem::take(&mut self.rest);
        while let Some(chunk) = tokio::time::timeout(PATIENCE, self.answer.chunk())
            .await
            .expect("in time")
            .expect("a whole answer")
        {
            rest.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
        rest
    }

    /// Event, id and data of the next event; signs of life are none.
    pub(super) async fn next(&mut self) -> (String, String, Value) {
        let mut block = self.block().await;
        while block.starts_with(':') {
            block = self.block().await;
        }
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name} in {block}")).to_owned()
        };
        (field("event: "), field("id: "), serde_json::from_str(&field("data: ")).expect("JSON"))
    }

    pub(super) async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(self.next().await.0);
        }
        names
    }
}

#[tokio::test]
async fn grading_is_followed_by_whoever_has_the_ticket_and_told_when_it_is_final() {
    let api = Api::graded(|_| ()).await;
    let (submission, attempt) = api.bench.handed_in(WRITTEN).await;
    let cookie = cookie(&api, submission).await;
    let mut events = Events::open(&api, submission, &cookie, None).await;
    assert_eq!(events.names(3).await, ["grading.progress"; 3]);
    // Notified: the clock stands, so that nothing is polled.
    api.bench.step(attempt, "PROCESSING", "REVIEW_PENDING", "review-required").await;
    let (name, waiting, data) = events.next().await;
    assert_eq!(
        (name.as_str(), &data["state"], &data["result"]),
        ("grading.review_pending", &json!("waiting"), &Value::Null)
    );
    let told = Answered::of(learner(&api, &path(submission, ""), Some(&cookie))).await;
    assert_eq!(
        (told.status, &told.body["state"], &told.body["result"]),
        (200, &json!("waiting"), &Value::Null),
        "{told:?}"
    );
    assert!(told.etag().is_empty() && !told.body.to_string().contains(GRADERS_WORD), "{told:?}");
    // With a person's credential it is the person's view, whatever cookie is there.
    let both = api.ask("rita", Method::GET, &path(submission, "")).header("cookie", &cookie);
    let seen = Answered::of(both).await;
    assert_eq!(seen.body["work"], WRITTEN);
    assert_eq!(give(&api, "rita", submission, seen.etag(), &grade(3.0)).await.status, 200);
    let (name, _, data) = events.next().await;
    assert_eq!(
        (name.as_str(), &data["state"], &data["result"]["overallScore"]),
        ("grading.completed", &json!("graded"), &json!(3.0)),
        "{data}"
    );
    for hidden in ["confidence", "model", "auditFlag", "promptVersion"] {
        assert!(data["result"].get(hidden).is_none(), "{hidden}: {data}");
    }
    let told = Answered::of(learner(&api, &path(submission, ""), Some(&cookie))).await;
    assert_eq!(told.body["result"], data["result"]);
    // What was seen is not told again, and nothing behind it is missed.
    let mut again = Events::open(&api, submission, &cookie, Some(&waiting)).await;
    assert_eq!(again.next().await.0, "grading.completed");
    let mut anew = Events::open(&api, submission, &cookie, Some("no id")).await;
    assert_eq!(anew.names(5).await.last().map(String::as_str), Some("grading.completed"));
}

#[tokio::test]
async fn grading_that_failed_is_told_and_a_late_result_beside_it() {
    let api = Api::graded(|_| ()).await;
    let (submission, attempt) = api.bench.handed_in(WRITTEN).await;
    let cookie = cookie(&api, submission).await;
    api.bench.step(attempt, "PROCESSING", "FAILED", "timeout").await;
    let mut events = Events::open(&api, submission, &cookie, None).await;
    assert_eq!(events.names(3).await, ["grading.progress"; 3]);
    let (name, _, data) = events.next().await;
    assert_eq!(
        (name.as_str(), &data["state"], &data["result"]),
        ("grading.failed", &json!("failed"), &Value::Null)
    );
    api.bench.keep(attempt, true, &result(6.0, "B2")).await;
    // No transition, so nothing is notified: the look every two seconds finds it.
    let moving = async {
        loop {
            api.bench.clock.advance(Duration::from_secs(2));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let (name, _, data) = tokio::select! { told = events.next() => told, () = moving => unreachable!() };
    assert_eq!(
        (name.as_str(), &data["result"]["isLate"], &data["result"]["overallScore"]),
        ("grading.failed", &json!(true), &json!(6.0)),
        "{data}"
    );
}

#[tokio::test]
async fn grading_is_shown_to_no_other_learner() {
    let api = Api::graded(|_| ()).await;
    let ((mine, _), (other, _)) = (api.bench.work(WRITTEN).await, api.bench.work("another text").await);
    let (cookie, url) = (cookie(&api, mine).await, ticket(&api, mine).await);
    let text = url.split_once("ticket=").expect("a ticket").1;
    let refused = async |path: String, cookie: Option<&str>| {
        let answer = Answered::of(learner(&api, &path, cookie)).await;
        (answer.status, answer.kind().to_owned())
    };
    let (no, nobody) = ((403, "ticket".to_owned()), (401, "unauthenticated".to_owned()));
    assert_eq!(refused(path(other, &format!("/events?ticket={text}")), None).await, no, "another's ticket");
    assert_eq!(refused(path(mine, "/events?ticket=nonsense"), None).await, no);
    for rest in ["", "/events"] {
        assert_eq!(refused(path(other, rest), Some(&cookie)).await, no, "another's cookie: {rest}");
        assert_eq!(refused(path(mine, rest), Some("__Secure-assessment=1.x")).await, no, "{rest}");
        assert_eq!(refused(path(mine, rest), None).await, nobody, "{rest}");
    }
    assert_eq!(refused("/api/grey-queue".to_owned(), Some(&cookie)).await, nobody, "it opens nothing else");
    let spent = learner(&api, &url, None).send().await.expect("an answer");
    assert_eq!(spent.status().as_u16(), 303, "what was tried elsewhere has not spent it");
    assert_eq!(refused(url, None).await, no, "once");
    let late = ticket(&api, mine).await;
    api.bench
        .eyes
        .batch_execute("UPDATE assessment.tickets SET expires_at = now() - interval '1 second'")
        .await
        .expect("later");
    assert_eq!(refused(late.clone(), None).await, no, "a minute");
    let kept: i64 = api
        .bench
        .count(&format!(
            "assessment.tickets t WHERE t.digest = sha256('{}')",
            late.split_once("ticket=").expect("a ticket").1
        ))
        .await;
    assert_eq!(kept, 1, "its SHA-256 is what is kept");
    // A person has no stream of a learner's, and a viewer's program makes no ticket.
    assert_eq!(api.get("rita", &path(mine, "/events")).await.refused(), (403, "ticket"));
    assert_eq!(
        Answered::of(api.ask("vera", Method::POST, &path(mine, "/ticket"))).await.refused(),
        (403, "role")
    );
    assert_eq!(
        Answered::of(api.ask("ines", Method::POST, &path(Uuid::nil(), "/ticket"))).await.refused(),
        (404, "not_found")
    );
    assert!(Role::Viewer < Role::Instructor && Role::Instructor < Role::Reviewer);
}
