//! The view: what `status`, `list`, `explain` and `render` show. Reads only, locks nothing.
//!
//! If we die in the middle nothing happened. A view may be outdated when it is printed; no write is decided on it. A damaged
//! ledger is shown as such and never hides the rows beside it.

mod audit;
mod sql;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use audit::{AuditDigests, AuditRow};
use futures::TryStreamExt as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
pub use sql::UNKEYED_ROWS;
use tokio_postgres::Row;
use uuid::Uuid;

use super::stored::Stored;
use super::versions;
use crate::config::{Config, MailBody};
use crate::db::pool::{Client, Pool};
use crate::db::readiness::Readiness;
use crate::db::{DbError, Parameter};
use crate::kernel::rows::word_in;
use crate::kernel::words;
use crate::routing::submission::grading::GradingAttempt;
use crate::routing::submission::ledger::{Ledger, LedgerFault};
use crate::routing::submission::plan::PlannedAction;
use crate::routing::submission::screening::{Gate, ScreeningRun};
use crate::routing::submission::version::CurrentVersion;
use crate::routing::table::Status;

/// Whether this role sees rows of the audit log at all, as `readable`; no row where there is no log.
pub(super) const AUDIT_READABLE: &str = sql::AUDIT_READABLE;

/// The reading side of the mission's rows. Cheap to clone.
#[derive(Debug, Clone)]
pub struct View {
    pool: Pool,
    statements: Arc<sql::Statements>,
    bodies: bool,
    not_before: Option<Timestamp>,
}

/// Which submissions a list shows: those that meet all conditions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Statuses to choose from; empty: any.
    pub status: Vec<Status>,
    /// Submissions of this form.
    pub form: Option<String>,
    /// Submissions that failed for this reason.
    pub reason: Option<String>,
    /// Submissions with a mail lost after the relay's acceptance, of its delivery's present generation.
    pub lost: bool,
    /// Routed submissions with an attachment that was judged infected afterwards.
    pub infected_late: bool,
    /// Submissions with a delivery to this address, in lower case.
    pub recipient: Option<String>,
    /// The submission of this id.
    pub id: Option<Uuid>,
    /// The submission changed last comes first.
    pub newest: bool,
    /// Submissions last changed longer ago than this.
    pub older_than: Option<Duration>,
    /// Submissions created at or after this time.
    pub since: Option<Timestamp>,
    /// Submissions created within this time, as the database sees it.
    pub within: Option<Duration>,
    /// Most submissions shown.
    pub limit: u32,
}

/// One line of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The submission.
    pub id: Uuid,
    /// The submission's form.
    pub form_id: String,
    /// The submission's status, as the database calls it.
    pub status: String,
    /// Attempts the submission has cost; absent where the ledger cannot be read.
    pub attempts: Option<u32>,
    /// Why the submission failed, or that its ledger cannot be read.
    pub reason: Option<String>,
    /// When the submission was made; not part of what `list` prints.
    #[serde(skip)]
    pub created_at: Timestamp,
    /// When the submission was last changed.
    pub updated_at: Timestamp,
    /// Deliveries by state.
    pub deliveries: BTreeMap<&'static str, u64>,
    /// Deliveries by what became of their mails after the relay's acceptance: `delivered`, `deferred`, `bounced`, `expired`.
    pub relay: BTreeMap<&'static str, u64>,
}

words! {
    /// The property by which submissions are counted.
    GroupBy {
        /// The form.
        Form = "form",
        /// The status.
        Status = "status",
        /// The reason of failure.
        Reason = "reason",
        /// The day (UTC) of submission.
        Day = "day",
    }
}

/// Submissions that share a property.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The shared value; absent where the submissions have none: no reason, no day.
    pub key: Option<String>,
    /// Number of these submissions.
    pub count: i64,
}

/// Mails that the relay has accepted and not delivered, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Undelivered {
    /// Number of these mails.
    pub count: i64,
    /// Seconds since the acceptance of the mail that waits longest; 0 where there is none.
    pub oldest_seconds: i64,
}

/// `reason` of a listed submission whose ledger is not believed.
pub const UNREADABLE: &str = "ledger unreadable";

/// All submissions at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// Submissions by status; every status the database knows.
    pub counts: BTreeMap<String, i64>,
    /// Age in seconds of the oldest by status: since its creation while the status is open, since its last change once it is
    /// an end; 0 where there is none.
    pub oldest_seconds: BTreeMap<String, i64>,
    /// Open submissions by the attempts they have cost.
    pub attempts: BTreeMap<u32, i64>,
    /// Deliveries of open submissions that are perhaps delivered.
    pub in_doubt: i64,
    /// Failures without a confirmed alert.
    pub unalerted: i64,
    /// Routed submissions of which nothing was sent.
    pub not_implemented_only: i64,
}

/// One attachment, as far as readiness is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// The attachment's id.
    pub id: Uuid,
    /// File name as uploaded.
    #[serde(default)]
    pub file_name: Option<String>,
    /// The scan's verdict; anything but `clean` is not clean.
    #[serde(default)]
    pub clamav_status: Option<String>,
}

impl Scan {
    /// Whether the attachment's link may be given to anybody.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.clamav_status.as_deref() == Some("clean")
    }

    /// Whether the attachment's link must never be given to anybody.
    #[must_use]
    pub fn is_infected(&self) -> bool {
        self.clamav_status.as_deref() == Some("infected")
    }
}

/// Place of a submission in the order of a page: when it changed last, and its id.
pub type Position = (Timestamp, Uuid);

/// A page of a selection.
#[derive(Debug, Clone)]
pub struct Page {
    /// Those of the selection, changed last first.
    pub submissions: Vec<Listed>,
    /// The end of the search where it went on no further: it has this one seen, and none behind it.
    pub horizon: Option<Position>,
}

/// One submission, as it stood when it was read.
#[derive(Debug, Clone)]
pub struct SubmissionView {
    /// The submission's form.
    pub form_id: String,
    /// The form's name, where it has one.
    pub form_name: Option<String>,
    /// The submission's status.
    pub status: Status,
    /// The submission's ledger, or why it is not believed.
    pub ledger: Result<Ledger, LedgerFault>,
    /// When the submission was made.
    pub created_at: Timestamp,
    /// When the submission was last changed.
    pub updated_at: Timestamp,
    /// When retention empties the submission.
    pub retention_expires_at: Option<Timestamp>,
    /// Database time at which all this was read.
    pub now: Timestamp,
    /// Finalized, as the database contract defines it.
    pub finalized: bool,
    /// Attachments still to be scanned.
    pub pending: i64,
    /// An attachment is infected.
    pub infected: bool,
    /// What screening and grading say.
    pub gate: Gate,
    /// Its current run of screening.
    pub run: Option<ScreeningRun>,
    /// Its current attempt at grading.
    pub attempt: Option<GradingAttempt>,
    /// Attachments in their order.
    pub attachments: Vec<Scan>,
    /// The actions the form has now, or why they cannot be understood.
    pub current: Result<Vec<PlannedAction>, String>,
    /// The version the form follows now; absent where it is not managed, or this role cannot know.
    pub version: Option<CurrentVersion>,
}

/// A row whose id a search has matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The id.
    pub id: Uuid,
    /// The row's status, as the database calls it.
    pub status: String,
    /// The form of a submission, or the submission of an attachment.
    pub about: String,
}

impl View {
    /// A view over `pool`.
    #[must_use]
    pub fn new(pool: Pool, readiness: &Readiness, config: &Config) -> Self {
        Self {
            pool,
            statements: Arc::new(sql::Statements::new(readiness)),
            bodies: config.mail.body == MailBody::Template,
            not_before: config.routing.not_before,
        }
    }

    /// Counts and ages of the submissions, and what is wrong with them.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn overview(&self) -> Result<Overview, DbError> {
        let client = self.pool.get().await?;
        let mut counts: BTreeMap<String, i64> =
            Status::ALL.iter().map(|status| (status.label().to_owned(), 0)).collect();
        let mut oldest_seconds = counts.clone();
        for row in client.query(sql::COUNTS, &[]).await? {
            let status: String = row.try_get("status")?;
            let oldest: Option<f64> = row.try_get("oldest")?;
            counts.insert(status.clone(), row.try_get("n")?);
            oldest_seconds.insert(status, oldest.map_or(0, whole_seconds));
        }
        let (mut attempts, mut in_doubt) = (BTreeMap::new(), 0);
        for row in client.query(sql::OPEN, &[]).await? {
            in_doubt = row.try_get("in_doubt")?;
            let spent: Option<&str> = row.try_get("attempts")?;
            if let Some(spent) = spent.and_then(|spent| spent.parse().ok()) {
                attempts.insert(spent, row.try_get("n")?);
            }
        }
        Ok(Overview {
            counts,
            oldest_seconds,
            attempts,
            in_doubt,
            unalerted: client
                .query_one(&self.statements.unalerted, &[&self.not_before])
                .await?
                .try_get("n")?,
            not_implemented_only: client.query_one(sql::NOT_IMPLEMENTED_ONLY, &[]).await?.try_get("n")?,
        })
    }

    /// Mails that the relay accepted since `since` and not more than a week ago (it gives up after five days), and that have
    /// no relay status of their generation, or wait in its queue. Opens the ledgers of all that changed in eight days: with
    /// an index on (status, `updated_at`) only those; else it reads the whole table.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn undelivered(&self, since: Timestamp) -> Result<Undelivered, DbError> {
        let row = self.pool.get().await?.query_one(&self.statements.undelivered, &[&since]).await?;
        let oldest: Option<f64> = row.try_get("oldest")?;
        Ok(Undelivered { count: row.try_get("n")?, oldest_seconds: oldest.map_or(0, whole_seconds) })
    }

    /// The ids of all forms.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn forms(&self) -> Result<Vec<String>, DbError> {
        let client = self.pool.get().await?;
        let rows = client.query(sql::FORMS, &[]).await?;
        rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
    }

    /// The submissions of a selection, the least recently changed first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn list(&self, selection: &Selection) -> Result<Vec<Listed>, DbError> {
        let question = if selection.newest { &self.statements.list_newest } else { &self.statements.list };
        self.listed(selection, question, &[&i64::from(selection.limit)]).await
    }

    /// A page of a selection, the submission changed last first, behind the last one of the page before. Each status is read
    /// from its end of the index on (status, `updated_at`), and of what may be seldom (a form, a reason) no more than `most`
    /// submissions of each: a page costs as much among millions as among a hundred.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn page(
        &self,
        selection: &Selection,
        behind: Option<Position>,
        most: i64,
    ) -> Result<Page, DbError> {
        let (at, id) = behind.unzip();
        let seldom = selection.form.is_some() || selection.reason.is_some();
        let horizon = if seldom { self.horizon(selection, behind, most).await? } else { None };
        let (from, from_id) = horizon.unzip();
        let further: &[&dyn Parameter] = &[&at, &id, &i64::from(selection.limit), &from, &from_id];
        Ok(Page { submissions: self.listed(selection, &self.statements.list_page, further).await?, horizon })
    }

    async fn horizon(
        &self,
        selection: &Selection,
        behind: Option<Position>,
        most: i64,
    ) -> Result<Option<Position>, DbError> {
        let asked = Asked::of(selection, self.not_before);
        let (at, id) = behind.unzip();
        let parameters: &[&dyn Parameter] = &[&asked.status, &asked.older, &at, &id, &most];
        let row = self.pool.get().await?.query_opt(sql::LIST_HORIZON, parameters).await?;
        row.map(|row| Ok((row.try_get("updated_at")?, row.try_get("id")?))).transpose()
    }

    async fn listed(
        &self,
        selection: &Selection,
        question: &str,
        further: &[&dyn Parameter],
    ) -> Result<Vec<Listed>, DbError> {
        let asked = Asked::of(selection, self.not_before);
        self.pool
            .transaction("list", async |tx| {
                let mut parameters = asked.parameters();
                parameters.extend(further);
                // Row by row: only the shown part of a ledger is kept in memory.
                let rows = tx.query_raw(question, &parameters).await?;
                futures::pin_mut!(rows);
                let mut listed = Vec::new();
                while let Some(row) = rows.try_next().await? {
                    let stored: Stored = row.try_get("routing_result")?;
                    let reason: Option<String> = row.try_get("reason")?;
                    let (attempts, deliveries, relay, reason) = match stored.ledger() {
                        Ok(ledger) => {
                            (Some(ledger.attempts), ledger.counts(), ledger.delivery_statuses(), reason)
                        }
                        Err(_) => (None, BTreeMap::new(), BTreeMap::new(), Some(UNREADABLE.to_owned())),
                    };
                    listed.push(Listed {
                        id: row.try_get("id")?,
                        form_id: row.try_get("form_id")?,
                        status: row.try_get("status")?,
                        attempts,
                        reason,
                        created_at: row.try_get("created_at")?,
                        updated_at: row.try_get("updated_at")?,
                        deliveries,
                        relay,
                    });
                }
                Ok(listed)
            })
            .await
    }

    /// Counts the submissions of a selection by a common property: the largest group first, days in their order. The
    /// selection's limit is ignored.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn grouped(&self, selection: &Selection, by: GroupBy) -> Result<Vec<Group>, DbError> {
        let (asked, label) = (Asked::of(selection, self.not_before), by.label());
        let mut parameters = asked.parameters();
        parameters.push(&label);
        let rows = self.pool.get().await?.query(&self.statements.grouped, &parameters).await?;
        let mut groups = Vec::with_capacity(rows.len());
        for row in rows {
            groups.push(Group { key: row.try_get("key")?, count: row.try_get("n")? });
        }
        match by {
            GroupBy::Day => groups.sort(),
            GroupBy::Form | GroupBy::Status | GroupBy::Reason => {
                groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
            }
        }
        Ok(groups)
    }

    /// One submission; `None` when there is no such row.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn look(&self, id: Uuid) -> Result<Option<SubmissionView>, DbError> {
        let client = self.pool.get().await?;
        let Some(row) = client.query_opt(&self.statements.row, &[&id, &self.bodies]).await? else {
            return Ok(None);
        };
        let status = word_in(&row, "submissions", "status")?;
        let attachments: Value = row.try_get("attachments")?;
        let current: Value = row.try_get("plan")?;
        let form_id: String = row.try_get("form_id")?;
        let version = if row.try_get("versions")? { self.followed(&client, &form_id).await? } else { None };
        Ok(Some(SubmissionView {
            form_id,
            form_name: row.try_get("form_name")?,
            status,
            ledger: row.try_get::<_, Stored>("routing_result")?.ledger(),
            created_at: row.try_get("created_at")?,
            updated_at: row.try_get("updated_at")?,
            retention_expires_at: row.try_get("retention_expires_at")?,
            now: row.try_get("now")?,
            finalized: row.try_get("finalized")?,
            pending: row.try_get("pending")?,
            infected: row.try_get("infected")?,
            gate: word_in(&row, "submissions", "gate")?,
            run: row.try_get::<_, Option<Value>>("run")?.and_then(|run| serde_json::from_value(run).ok()),
            attempt: row
                .try_get::<_, Option<Value>>("attempt")?
                .and_then(|attempt| serde_json::from_value(attempt).ok()),
            attachments: serde_json::from_value(attachments)
                .map_err(|e| DbError::Shape(format!("attachments: {e}")))?,
            current: serde_json::from_value(current).map_err(|e| e.to_string()),
            version,
        }))
    }

    /// The version that a form follows. One that cannot be read hides nothing else of a submission.
    async fn followed(&self, client: &Client, form_id: &str) -> Result<Option<CurrentVersion>, DbError> {
        let row = match client.query_opt(&self.statements.followed, &[&form_id]).await {
            Err(error) if versions::may_be_theirs(&error) => {
                tracing::warn!("the version of a form cannot be read: {error}");
                None
            }
            answered => answered?,
        };
        let Some(row) = row else { return Ok(None) };
        let since = row.try_get("moved_at")?;
        Ok(versions::version(&row)?.map(|version| CurrentVersion { version, since }))
    }

    /// Submissions whose ids lie between `first` and `last`, in their order; `about` is the form.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn submissions_between(
        &self,
        first: Uuid,
        last: Uuid,
        most: i64,
    ) -> Result<Vec<Named>, DbError> {
        self.between(sql::SUBMISSIONS_BETWEEN, first, last, most).await
    }

    /// Attachments whose ids lie between `first` and `last`, in their order; `about` names the submission.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn attachments_between(
        &self,
        first: Uuid,
        last: Uuid,
        most: i64,
    ) -> Result<Vec<Named>, DbError> {
        self.between(sql::ATTACHMENTS_BETWEEN, first, last, most).await
    }

    async fn between(
        &self,
        question: &'static str,
        first: Uuid,
        last: Uuid,
        most: i64,
    ) -> Result<Vec<Named>, DbError> {
        self.pool
            .seeking_transaction("view_between", async |tx| {
                let statement = tx.prepare_cached(question).await?;
                let rows = tx.query(&statement, &[&first, &last, &most]).await?;
                let named = |row: &Row| {
                    let (id, status) = (row.try_get("id")?, row.try_get("status")?);
                    Ok(Named { id, status, about: row.try_get("about")? })
                };
                rows.iter().map(named).collect()
            })
            .await
    }
}

/// A selection as the statements ask it: their first eleven parameters.
struct Asked<'a> {
    selection: &'a Selection,
    status: Option<Vec<&'static str>>,
    older: Option<f64>,
    within: Option<f64>,
    /// Submissions created earlier are not ours.
    not_before: Option<Timestamp>,
}

impl<'a> Asked<'a> {
    fn of(selection: &'a Selection, not_before: Option<Timestamp>) -> Self {
        let status = selection.status.iter().map(|status| status.label()).collect::<Vec<_>>();
        let status = (!status.is_empty()).then_some(status);
        let (older, within) = (seconds(selection.older_than), seconds(selection.within));
        Self { selection, status, older, within, not_before }
    }

    fn parameters(&self) -> Vec<&dyn Parameter> {
        let Selection { form, since, reason, lost, recipient, id, infected_late, .. } = self.selection;
        let Self { status, older, within, not_before, .. } = self;
        vec![status, form, older, since, within, reason, lost, recipient, id, infected_late, not_before]
    }
}

fn seconds(duration: Option<Duration>) -> Option<f64> {
    duration.map(|duration| duration.as_secs_f64())
}

/// Whole seconds of an age; an age in the future is zero.
#[expect(clippy::cast_possible_truncation, reason = "an age in seconds is far below 2^53")]
fn whole_seconds(age: f64) -> i64 {
    age.max(0.0) as i64
}
