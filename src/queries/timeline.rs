//! Events of a submission, in their order: the audit trail, people's overrides, and each failed attempt with its
//! reply. Where the audit log is not readable, the ledger's acceptances and ends.
//!
//! Pure. A line has no line break and no control characters; recipients are named as in the ledger.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::routing::store::view::AuditRow;
use crate::routing::submission::destination;
use crate::routing::submission::ledger::{Delivery, DeliveryState, ErrorClass, Ledger, order_of};
use crate::routing::submission::text::{bounded, one_line};

/// One event of a submission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Moment {
    /// Database time.
    pub(crate) at: Timestamp,
    /// An action of the audit log, the verb of an override, `tried`: an attempt that failed.
    pub(crate) what: String,
    /// The person, for a person's act.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<String>,
    /// Further words, for people.
    pub(crate) words: String,
}

impl Moment {
    fn new(at: Timestamp, what: impl AsRef<str>, facts: &[String]) -> Self {
        let words = facts.iter().filter(|fact| !fact.is_empty()).map(String::as_str).collect::<Vec<_>>();
        Self { at, what: clean(what.as_ref(), 40), actor: None, words: words.join(", ") }
    }

    fn by(self, actor: Option<&str>) -> Self {
        Self { actor: actor.map(|actor| clean(actor, 40)), ..self }
    }

    /// `replay by operator:alice mailbox mended`
    pub(crate) fn line(&self) -> String {
        let by = self.actor.as_ref().map(|actor| format!(" by {actor}")).unwrap_or_default();
        format!("{}{by} {}", self.what, self.words).trim_end().to_owned()
    }
}

/// All known moments, oldest first.
pub(crate) fn timeline(ledger: &Ledger, audit: Option<&[AuditRow]>) -> Vec<Moment> {
    let mut moments: Vec<Moment> = ledger.overrides.iter().filter_map(overridden).collect();
    for (key, delivery) in &ledger.deliveries {
        // Final failures are in the audit log, with their reply.
        let tried = delivery.tries.iter().filter(|tried| audit.is_none() || !is_audited(tried));
        moments.extend(tried.filter_map(|tried| failed(key, tried)));
        if audit.is_none() {
            moments.extend(accepted(key, delivery));
        }
    }
    match audit {
        Some(trail) => moments.extend(trail.iter().map(audited)),
        None => moments.extend(ended(ledger)),
    }
    // Moments of one time stay in the log's order.
    moments.sort_by_key(|moment| moment.at);
    moments
}

fn audited(row: &AuditRow) -> Moment {
    let detail = row.detail.as_ref();
    let field = |name: &str| match detail?.get(name)? {
        Value::String(text) => Some(clean(text, 60)),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let domain = detail.and_then(|detail| detail.pointer("/recipient/domain")?.as_str());
    let mut facts = Vec::new();
    facts.extend(field("attempt").map(|attempt| format!("attempt {attempt}")));
    let whom = [field("action_order"), domain.map(|domain| clean(domain, 60))];
    facts.push(whom.into_iter().flatten().collect::<Vec<_>>().join(" "));
    facts.extend(field("queue_id"));
    facts.extend(field("reason"));
    facts.extend(detail.and_then(|detail| detail.get("error")?.as_object()).map(said));
    for flag in ["duplicate", "stale", "late"] {
        if detail.is_some_and(|detail| detail.get(flag) == Some(&Value::Bool(true))) {
            facts.push(flag.to_owned());
        }
    }
    let person = row.actor.as_deref().filter(|actor| !actor.starts_with("maple-router"));
    Moment::new(row.occurred_at, &row.action, &facts).by(person)
}

fn overridden(entry: &Value) -> Option<Moment> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let at = text("at")?.parse().ok()?;
    let mut facts = vec![text("reason").map(|reason| clean(reason, 200)).unwrap_or_default()];
    let number = |name: &str| entry.get(name).and_then(Value::as_u64);
    facts.extend(number("force_action").map(|order| match text("force_delivery") {
        Some(place) => format!("delivery {} of action {order} as another mail", clean(place, 20)),
        None => format!("action {order} as another mail"),
    }));
    facts.extend((entry.get("replan") == Some(&Value::Bool(true))).then(|| "with a new plan".to_owned()));
    Some(Moment::new(at, text("verb").unwrap_or("override"), &facts).by(text("actor")))
}

/// Says whether the failure is final, refused or in doubt: it has its row in the audit log.
fn is_audited(tried: &Value) -> bool {
    let class = tried.get("class").cloned().and_then(|class| serde_json::from_value(class).ok());
    matches!(class, Some(ErrorClass::Refused | ErrorClass::InDoubt))
}

fn failed(key: &str, tried: &Value) -> Option<Moment> {
    let tried = tried.as_object()?;
    let at = tried.get("at")?.as_str()?.parse().ok()?;
    let attempt = tried.get("attempt").and_then(Value::as_u64).map(|attempt| format!("attempt {attempt}"));
    let doubt = match tried.get("class").and_then(Value::as_str) {
        Some("unknown") => "perhaps delivered".to_owned(),
        Some(_) | None => String::new(),
    };
    let facts = [attempt.unwrap_or_default(), recipient(key), said(tried), doubt];
    Some(Moment::new(at, "tried", &facts))
}

/// The acceptances of a ledger entry: its own, those of former generations, and superfluous ones.
fn accepted(key: &str, delivery: &Delivery) -> Vec<Moment> {
    let own = delivery.at.filter(|_| delivery.state == DeliveryState::Accepted);
    let own = own.map(|at| (at, delivery.queue_id.clone()));
    let former = delivery.history.iter().chain(&delivery.dups).filter_map(|fact| {
        let at = fact.get("at")?.as_str()?.parse().ok()?;
        Some((at, fact.get("queue_id").and_then(Value::as_str).map(str::to_owned)))
    });
    own.into_iter()
        .chain(former)
        .map(|(at, queue_id)| {
            let queue_id = queue_id.map(|id| clean(&id, 60)).unwrap_or_default();
            Moment::new(at, "email_sent", &[recipient(key), queue_id])
        })
        .collect()
}

fn ended(ledger: &Ledger) -> Option<Moment> {
    let finished = ledger.finished.as_ref()?;
    let what = if finished.reason.is_none() { "submission_routed" } else { "submission_route_failed" };
    let reason = finished.reason.map(|reason| reason.label().to_owned());
    Some(Moment::new(
        finished.at,
        what,
        &[format!("attempt {}", ledger.attempts), reason.unwrap_or_default()],
    ))
}

/// `1 a@example.org`, as the deliveries are listed.
fn recipient(key: &str) -> String {
    let order = order_of(key).unwrap_or_default();
    format!("{order} {}", destination::address_of(key).map(|address| clean(address, 80)).unwrap_or_default())
        .trim_end()
        .to_owned()
}

/// `RCPT 451 4.3.0 mailbox busy`
fn said(error: &Map<String, Value>) -> String {
    let text = |name: &str| error.get(name).and_then(Value::as_str).map(|text| clean(text, 120));
    let code = error.get("code").and_then(Value::as_u64).map(|code| code.to_string());
    [text("stage"), code, text("enhanced"), text("reply")].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Text of others, on one line of at most `max` characters.
pub(crate) fn clean(text: &str, max: usize) -> String {
    bounded(one_line(text), max)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(at: &str, action: &str, detail: Value) -> AuditRow {
        let (at, actor) = (at.parse().expect("a time"), Some("maple-router@maple".to_owned()));
        AuditRow { occurred_at: at, actor, action: action.to_owned(), detail: Some(detail) }
    }

    fn ledger() -> Ledger {
        let tried = |at: &str, attempt: u32, class: &str, code: u16, reply: &str| json!({"at": at, "attempt": attempt, "class": class, "stage": "RCPT", "code": code, "enhanced": null, "reply": reply});
        let stored = json!({
            "v": 1, "attempts": 1,
            "overrides": [{"at": "2026-11-01T10:30:00Z", "actor": "operator:alice", "verb": "replay", "reason": "mailbox mended",
                           "force_action": 1}],
            "deliveries": {
                "1|a@example.org": {"state": "accepted", "at": "2026-11-01T10:40:00Z", "queue_id": "4X",
                    "history": [{"at": "2026-11-01T09:00:00Z", "queue_id": "3X"}],
                    "tries": [tried("2026-11-01T10:35:00Z", 1, "deferred", 451, "busy\u{1b}[2J"), json!("odd"), json!({"at": 3})]},
                "1|b@example.org": {"state": "failed", "tries": [tried("2026-11-01T10:10:00Z", 1, "refused", 550, "no such user")]},
            },
            "finished": {"token": "f", "at": "2026-11-01T10:41:00Z", "status": "failed", "reason": "refused"},
        });
        Ledger::read(&stored).expect("a ledger")
    }

    fn lines(moments: &[Moment]) -> Vec<String> {
        moments.iter().map(|moment| format!("{} {}", moment.at.strftime("%H:%M"), moment.line())).collect()
    }

    #[test]
    fn replays_attempts_and_the_trail_are_one_story() {
        let trail = [
            row(
                "2026-11-01T10:10:00Z",
                "email_failed",
                json!({"attempt": 1, "action_order": 1, "recipient": {"domain": "example.org"},
                "error": {"stage": "RCPT", "code": 550, "enhanced": "5.1.1", "reply": "no such user"}}),
            ),
            row(
                "2026-11-01T10:41:00Z",
                "submission_route_failed",
                json!({"attempt": 1, "reason": "refused"}),
            ),
        ];
        assert_eq!(
            lines(&timeline(&ledger(), Some(&trail))),
            [
                "10:10 email_failed attempt 1, 1 example.org, RCPT 550 5.1.1 no such user",
                "10:30 replay by operator:alice mailbox mended, action 1 as another mail",
                "10:35 tried attempt 1, 1 a@example.org, RCPT 451 busy [2J",
                "10:41 submission_route_failed attempt 1, refused",
            ]
        );
    }

    #[test]
    fn without_the_trail_the_ledger_tells_what_it_remembers() {
        assert_eq!(
            lines(&timeline(&ledger(), None)),
            [
                "09:00 email_sent 1 a@example.org, 3X",
                "10:10 tried attempt 1, 1 b@example.org, RCPT 550 no such user",
                "10:30 replay by operator:alice mailbox mended, action 1 as another mail",
                "10:35 tried attempt 1, 1 a@example.org, RCPT 451 busy [2J",
                "10:40 email_sent 1 a@example.org, 4X",
                "10:41 submission_route_failed attempt 1, refused",
            ]
        );
        assert_eq!(timeline(&Ledger::default(), None), []);
    }
}
