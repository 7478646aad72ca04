//! The story of a submission, or of a dead letter, as an entry's page and a submission's page tell it. Pure.

use jiff::Timestamp;
use uuid::Uuid;

/// A submission and everything that ever happened to it.
#[derive(Debug, Clone)]
pub struct Story {
    /// Its id.
    pub id: Uuid,
    /// Form id.
    pub form_id: String,
    /// Form's name.
    pub form_name: Option<String>,
    /// Status.
    pub status: String,
    /// Reason of a failure.
    pub reason: Option<String>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it changed last.
    pub updated_at: Timestamp,
    /// When it is emptied.
    pub retention_expires_at: Option<Timestamp>,
    /// Attempts, at most.
    pub attempts: u32,
    /// At most.
    pub max_attempts: u32,
    /// Why it is as it is; one sentence of `explain`.
    pub why: String,
    /// What happens next; one sentence of `explain`.
    pub next: String,
    /// The whole text of `maple-router explain ID`, without recipients unless these are shown.
    pub explain: String,
    /// What happened in every lifecycle, oldest first.
    pub timeline: Vec<Moment>,
    /// Its deliveries.
    pub deliveries: Vec<DeliveryLine>,
    /// Whether recipients are shown; else a link asks for them, and says that it is recorded.
    pub recipients_shown: bool,
    /// Whether the reader may ask for recipients and mail.
    pub may_show: bool,
    /// Mails that can be shown as sent.
    pub mails: Vec<MailLine>,
}

/// One event of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Timestamp,
    /// Whose event: `submission`, `delivery`, `outbox`, `grey_queue`.
    pub lifecycle: String,
    /// What happened.
    pub what: String,
    /// Who, for a person's act.
    pub who: Option<String>,
    /// Further words.
    pub words: String,
}

/// One delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryLine {
    /// How forms name it, without its address.
    pub name: String,
    /// Action's order in the plan.
    pub action: i32,
    /// Recipient, where the reader asked for recipients.
    pub recipient: Option<String>,
    /// The recipient's domain; shown anyway.
    pub domain: Option<String>,
    /// `accepted`, `failed`, `open`, …
    pub state: String,
    /// What became of it after the relay's acceptance: `delivered`, `bounced`, `unheard`.
    pub relay: Option<String>,
    /// The last reply, scrubbed.
    pub reply: Option<String>,
    /// The relay's queue id.
    pub queue_id: Option<String>,
    /// When it became so.
    pub at: Option<Timestamp>,
}

/// A mail that can be shown as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailLine {
    /// Its number, from 1: `?mail=N` of the page; `/entries/ID/mail/N` and `/submissions/ID/mail/N` are its HTML.
    pub number: u32,
    /// Action's order in the plan.
    pub action: i32,
    /// How many recipients it has.
    pub recipients: u64,
    /// When it was sent; absent for one that would be sent.
    pub sent_at: Option<Timestamp>,
    /// Its content, where the reader asked for it (`?mail=N`) and that was recorded.
    pub shown: Option<MailShown>,
}

/// A mail's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailShown {
    /// Headers, in their order.
    pub headers: Vec<(String, String)>,
    /// Whether it has an HTML part; that is framed from its own URL.
    pub has_html: bool,
    /// The text part.
    pub text: String,
    /// Link targets in it, as text.
    pub links: Vec<String>,
}

/// A run of screening: why a person is asked.
#[derive(Debug, Clone)]
pub struct RunView {
    /// Its id.
    pub id: Uuid,
    /// The submission.
    pub submission: Uuid,
    /// Its number among the submission's runs.
    pub number: u32,
    /// `fields` or `git`.
    pub profile: String,
    /// Its state, as the lifecycle calls it.
    pub state: String,
    /// Since when.
    pub since: Timestamp,
    /// Whom the origin was proven to be.
    pub origin: Option<String>,
    /// The judge's score.
    pub score: Option<u8>,
    /// The judge.
    pub model: Option<String>,
    /// Why no machine approves it alone.
    pub bars: Vec<String>,
    /// Why its job was given up on.
    pub dead: Option<String>,
    /// What the rules found.
    pub findings: Vec<RunFinding>,
    /// What the judge noted.
    pub concerns: Vec<RunConcern>,
}

/// A finding: rule and place, never what was found there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFinding {
    /// The rule.
    pub rule: String,
    /// `block`, `review` or `note`.
    pub severity: String,
    /// Field or file, and line.
    pub place: String,
    /// How often.
    pub times: u64,
    /// Why it does not block.
    pub waived: Option<String>,
}

/// A concern of the judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunConcern {
    /// Its kind.
    pub code: String,
    /// Its weight.
    pub severity: String,
    /// The place.
    pub place: String,
    /// A scrubbed note.
    pub note: String,
}

/// A dead letter.
#[derive(Debug, Clone)]
pub struct LetterView {
    /// Its id.
    pub id: Uuid,
    /// `unreadable`, `unknown_submission`, …
    pub kind: String,
    /// `pubsub`, `outbox`.
    pub source: String,
    /// When it was kept.
    pub at: Timestamp,
    /// Why it could not be taken.
    pub error: String,
    /// The submission that it names.
    pub submission: Option<Uuid>,
    /// When it was redriven.
    pub redriven_at: Option<Timestamp>,
    /// Payload's size in bytes.
    pub size: u64,
    /// Whether the reader may ask for the payload.
    pub may_show: bool,
    /// The payload, where the reader asked for it (`?show=payload`) and that was recorded.
    pub payload: Option<String>,
}
