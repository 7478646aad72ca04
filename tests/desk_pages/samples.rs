//! The pages with everything they can show, every text of which passes through one function: as it is for looking, hostile
//! for the tests.

mod doors;
mod entries;
mod lists;
mod stories;
mod tables;
mod versions;

use doors::{how_to, link, problem};
use entries::{
    entry, entry_assessment, entry_assessment_first, entry_conflict, entry_conflict_gone, entry_dead_letter,
    entry_escalated, entry_mine, entry_moving, entry_refused, entry_rejected, entry_shown,
};
use jiff::{SignedDuration, Timestamp};
use lists::{bulk_refused, calm, later, lines, queue, status, submission, submissions};
use maple_router::desk::pages::assessment::{
    AssessmentView, CriterionField, CriterionView, FirstView, GradeForm, QuestionView, ResultView,
};
use maple_router::desk::pages::decision::{
    Action, Ask, Command, Conflict, Field, FieldError, HistoryLine, NotNow, Remedy, Typed,
};
use maple_router::desk::pages::entry::{
    EntryFacts, EntryPage, Escalation, Evidence, Fact, Job, Rejection, SubjectView,
};
use maple_router::desk::pages::frame::{Draft, Flash, Frame, Problem, Tone, Viewer};
use maple_router::desk::pages::lifecycles::{ApiPage, LifecyclePage, LifecyclesPage};
use maple_router::desk::pages::login::{HowToPage, LinkPage, LoggedOutPage, ProblemPage, Unsent};
use maple_router::desk::pages::plain;
use maple_router::desk::pages::queue::{
    BulkTyped, Choice, EntryLine, QueueChoices, QueueFilters, QueuePage, QueueRows, StateCount,
};
use maple_router::desk::pages::status::{BreakerLine, Count, Group, PauseLine, StatusPage, Trouble};
use maple_router::desk::pages::story::{DeliveryLine, LetterView, MailLine, MailShown, Moment, Story};
use maple_router::desk::pages::submissions::{
    SubmissionFilters, SubmissionLine, SubmissionPage, SubmissionsPage,
};
use maple_router::kernel::describe::{Described, Transition, describe};
use maple_router::outbox::table::Outbox;
use maple_router::routing::table::Submission;
use stories::story;
use tables::grey_queue;
pub(crate) use tables::lifecycles;
use uuid::Uuid;

/// What becomes of each text.
pub(crate) type Say<'a> = &'a dyn Fn(&str) -> String;

/// One page: its name, its HTML, its values as `Debug` shows them.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) html: String,
    pub(crate) values: String,
}

fn sample(name: &'static str, page: &(impl std::fmt::Display + std::fmt::Debug)) -> Sample {
    Sample { name, html: page.to_string(), values: format!("{page:?}") }
}

/// Every page.
pub(crate) fn all(t: Say<'_>) -> Vec<Sample> {
    let empty = |filters: QueueFilters, open: u64| QueuePage {
        filters,
        entries: Vec::new(),
        next_cursor: None,
        open_in_all: open,
        frame: frame(t),
        ..queue(t)
    };
    let mine = QueueFilters { assignee: Some("me".to_owned()), ..QueueFilters::default() };
    let narrow = QueueFilters { form: Some(t("press")), ..QueueFilters::default() };
    let mut looking = queue(t);
    looking.bulk = Vec::new();
    looking.frame.flash = None;
    let lifecycles = LifecyclesPage { frame: frame(t), lifecycles: lifecycles() };
    let one = |lifecycle| LifecyclePage { frame: frame(t), lifecycle };
    vec![
        sample("queue", &queue(t)),
        sample("queue-later-page", &later(t)),
        sample("queue-looking", &looking),
        sample("queue-empty", &empty(QueueFilters::default(), 0)),
        sample("queue-nothing-mine", &empty(mine, 14)),
        sample("queue-no-match", &empty(narrow, 14)),
        sample("queue-bulk-refused", &bulk_refused(t)),
        sample("entry-pending", &entry(t)),
        sample("entry-mine", &entry_mine(t)),
        sample("entry-conflict", &entry_conflict(t)),
        sample("entry-conflict-gone", &entry_conflict_gone(t)),
        sample("entry-refused", &entry_refused(t)),
        sample("entry-escalated", &entry_escalated(t)),
        sample("entry-moving", &entry_moving(t)),
        sample("entry-rejected", &entry_rejected(t)),
        sample("entry-dead-letter", &entry_dead_letter(t, false)),
        sample("entry-payload", &entry_dead_letter(t, true)),
        sample("entry-shown", &entry_shown(t)),
        sample("entry-assessment", &entry_assessment(t)),
        sample("entry-assessment-first", &entry_assessment_first(t)),
        sample("submissions", &submissions(t)),
        sample(
            "submissions-none",
            &SubmissionsPage { submissions: Vec::new(), next_cursor: None, ..submissions(t) },
        ),
        sample(
            "submissions-further",
            &SubmissionsPage { looked_back_to: Some(before(90)), ..submissions(t) },
        ),
        sample("submission", &submission(t)),
        sample("status", &status(t)),
        sample("status-calm", &calm(t)),
        sample("forms", &versions::forms(t)),
        sample("forms-absent", &versions::forms_absent(t)),
        sample("form", &versions::form(t)),
        sample("form-of-its-loader", &versions::form_of_its_loader(t)),
        sample("form-overtaken", &versions::form_overtaken(t)),
        sample("version", &versions::version(t)),
        sample("version-looking", &versions::version_looking(t)),
        sample("version-followed", &versions::version_followed(t)),
        sample("version-refused", &versions::version_refused(t)),
        sample("version-overtaken", &versions::version_overtaken(t)),
        sample("version-unreadable", &versions::version_unreadable(t)),
        sample("lifecycles", &lifecycles),
        sample("lifecycle-submission", &one(describe::<Submission>())),
        sample("lifecycle-outbox", &one(describe::<Outbox>())),
        sample("lifecycle-grey-queue", &one(grey_queue())),
        sample("api", &ApiPage { frame: frame(t), origin: t("http://desk.localhost:9465") }),
        sample("link", &link(t)),
        sample("how-to", &how_to(t, false)),
        sample("how-to-proxy", &how_to(t, true)),
        sample("logged-out", &LoggedOutPage { now: now() }),
        sample("problem", &problem(t, true)),
        sample("problem-unknown-reader", &problem(t, false)),
    ]
}

/// Rows alone, as the script asks for them.
pub(crate) fn rows(t: Say<'_>) -> QueueRows {
    QueueRows { now: now(), filters: QueueFilters::new(), entries: lines(t), selectable: true }
}

pub(crate) fn now() -> Timestamp {
    "2026-11-25T09:30:00Z".parse().expect("a timestamp")
}

fn before(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x8f1e_1727_347b_4b62_931f_0000_0000_0000 + number * 0x0001_0000_0000_1d37_0000_a000)
}

fn frame(t: Say<'_>) -> Frame {
    Frame::new(now(), Some(Viewer { name: t("alice"), role: t("reviewer") }))
}

fn choices(t: Say<'_>, all: &[(&str, &str)]) -> Vec<Choice> {
    all.iter().map(|(value, label)| Choice { value: t(value), label: t(label) }).collect()
}
