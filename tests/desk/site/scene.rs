//! A desk with the product's own pages, and rows to show: a refused submission, one that came back, a dead letter.

use std::sync::Arc;

use devkit::postgres::Variant;
use maple_router::config::DeskAuth;
use maple_router::daemon::ROOMS;
use maple_router::desk::access::Users;
use maple_router::desk::site::{SiteParts, routes, templates};
use maple_router::ops::rng::Rng;
use maple_router::parts;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Bench, Opened};

/// Fields of a form as it is sent.
pub(crate) type Fields<'a> = &'a [(&'a str, &'a str)];

/// A bench whose desk has the product's pages.
pub(crate) async fn bench() -> Bench {
    bench_of(Variant { router: true, audit_readable: true, ..Variant::default() }).await
}

/// The same over another database.
pub(crate) async fn bench_of(variant: Variant) -> Bench {
    let mut bench = Bench::with(variant).await;
    bench.templates = templates(DeskAuth::Link);
    bench.config.state.dir = bench.dir().to_owned();
    bench.config.mail.from = "Forms <forms@example.org>".to_owned();
    bench
}

/// Opens the desk with its pages.
pub(crate) async fn open(bench: &Bench) -> Opened {
    let rng = Arc::new(Rng::from_system());
    let store = parts::store(&bench.config, bench.pool.clone()).expect("a store");
    let preparer = parts::preparer(&bench.config, store.clone(), Arc::clone(&rng)).expect("a maker of mails");
    let people = Arc::new(Users::new(bench.file.subscribe()));
    let of_forms = bench.pool.clone();
    let site = SiteParts {
        config: bench.file.subscribe(),
        pool: bench.pool.clone(),
        commands: parts::review(&bench.config, bench.pool.clone(), store, people, Arc::clone(&rng))
            .expect("commands"),
        preparer: Some(Arc::new(preparer)),
        versions: Arc::new(move |config| {
            parts::versions(config, of_forms.clone()).map_err(|error| error.to_string())
        }),
        rooms: ROOMS,
        clock: bench.clock.clone(),
        rng,
    };
    bench.file.send_replace(Arc::new(bench.config.clone()));
    bench.open_with(routes(site)).await
}

/// What stands in the rows where people, relays and programs write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) form: &'a str,
    pub(crate) text: &'a str,
}

/// The words of an honest world.
pub(crate) const PLAIN: Words<'static> = Words { form: "volunteer", text: "no such user" };

impl Bench {
    /// A form with one mail to Bob.
    pub(crate) async fn form(&self, words: Words<'_>) {
        let form = "INSERT INTO forms (id, name) VALUES ($1, $2)";
        self.eyes.execute(form, &[&words.form, &format!("Form {}", words.text)]).await.expect("a form");
        let action = "INSERT INTO actions (form_id, action_order, action_type, destination)
            VALUES ($1, 1, 'email_raw', 'bob@example.org')";
        self.eyes.execute(action, &[&words.form]).await.expect("an action");
    }

    /// A submission that has failed, because Bob's server refused him; its entry is there then.
    pub(crate) async fn refused(&self, words: Words<'_>) -> Uuid {
        let id = Uuid::from_u128(Rng::from_system().uuid().as_u128());
        let sql =
            "INSERT INTO submissions (id, form_id, status, routing_result) VALUES ($1, $2, 'failed', $3)";
        self.eyes.execute(sql, &[&id, &words.form, &ledger(words.text)]).await.expect("failed");
        let file = "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
            VALUES ($1, $2, 'b', 'o', 'pending')";
        self.eyes.execute(file, &[&id, &format!("{}.pdf", words.text)]).await.expect("an attachment");
        let field =
            "INSERT INTO submission_fields (submission_id, field_key, field_value) VALUES ($1, 'note', $2)";
        self.eyes.execute(field, &[&id, &"a secret of the submitter"]).await.expect("a field");
        id
    }

    /// A dead letter.
    pub(crate) async fn letter(&self, words: Words<'_>) -> Uuid {
        let id = Rng::from_system().uuid();
        let sql =
            "INSERT INTO router.dead_letters (id, kind, at, reason, message_id, payload, payload_sha256)
            VALUES ($1, 'unreadable', now(), $2, $3, $4, repeat('a', 64))";
        let payload = format!("payload {}", words.text).into_bytes();
        let message = id.to_string();
        self.eyes.execute(sql, &[&id, &words.text, &message, &payload]).await.expect("recorded");
        id
    }

    /// The open entry about a subject, and its version.
    pub(crate) async fn entry(&self, subject: Uuid) -> (Uuid, i64) {
        let sql =
            "SELECT id, version FROM router.grey_queue WHERE subject_id = $1 ORDER BY opened_at DESC LIMIT 1";
        let row = self.eyes.query_one(sql, &[&subject]).await.expect("an entry");
        (row.get(0), row.get(1))
    }

    /// The state of an entry, and who has it.
    pub(crate) async fn state(&self, entry: Uuid) -> (String, Option<String>) {
        let sql = "SELECT state, assignee FROM router.grey_queue WHERE id = $1";
        let row = self.eyes.query_one(sql, &[&entry]).await.expect("an entry");
        (row.get(0), row.get(1))
    }

    /// What the access log says: who was shown what.
    pub(crate) async fn shown(&self) -> Vec<(String, String)> {
        let sql = "SELECT user_name, what FROM router.desk_access_log ORDER BY id";
        let rows = self.eyes.query(sql, &[]).await.expect("the log");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

/// One delivery, refused for good; `text` wherever others write.
fn ledger(text: &str) -> Value {
    let at = "2026-11-01T10:00:00Z";
    let error = json!({"class": "refused", "stage": "RCPT", "code": 550, "enhanced": "5.1.1", "reply": text,
                       "at": at, "attempt": 1});
    json!({
        "v": 1, "attempts": 1,
        "plan": [{"action_order": 1, "action_type": "email_raw", "destination": "bob@example.org",
                  "subject_template": text}],
        "deliveries": {"1|bob@example.org": {"state": "failed", "at": at, "queue_id": text, "error": error,
                                             "tries": [error]}},
        "overrides": [{"at": at, "actor": format!("operator:{text}"), "verb": "replay", "reason": text}],
        "finished": {"token": "t", "at": at, "status": "failed", "reason": "refused"},
    })
}

impl Opened {
    /// A page as a browser asks for it: its status and its text.
    pub(crate) async fn page(&self, path: &str, cookie: &str) -> (u16, String) {
        let request = self.ask(Method::GET, path).header("accept", "text/html").header("cookie", cookie);
        read(request.send().await.expect("an answer")).await
    }

    /// Sends a form as a browser does.
    pub(crate) async fn send(&self, path: &str, cookie: &str, fields: Fields<'_>) -> Response {
        let request = self.ask(Method::POST, path).header("accept", "text/html").header("cookie", cookie);
        request.form(fields).send().await.expect("an answer")
    }
}

/// Status and text of an answer, which is a page.
pub(crate) async fn read(answer: Response) -> (u16, String) {
    let status = answer.status().as_u16();
    let kind = answer.headers().get("content-type").and_then(|value| value.to_str().ok());
    assert_eq!(kind, Some("text/html; charset=utf-8"), "{status}");
    (status, answer.text().await.expect("a body"))
}

/// The value of a hidden field of the form that posts to `action`.
pub(crate) fn hidden(page: &str, action: &str, name: &str) -> String {
    let form = page.split("<form ").find(|form| form.contains(&format!("action=\"{action}\"")));
    let form = form.unwrap_or_else(|| panic!("no form posts to {action}: {page}"));
    let field =
        form.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap_or_else(|| panic!("{name}: {form}"));
    field.split('"').next().expect("a value").to_owned()
}
