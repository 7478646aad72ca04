//! Everything about one submission, and what happens next.
//!
//! Reads only. For an operator's eyes: recipients are named as the ledger has them; field values never are.

pub(crate) mod events;
mod files;
mod hidden;
pub(crate) mod text;
pub(crate) mod ticket;

use events::EventPart;
use files::FilePart;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use ticket::TicketPart;
use uuid::Uuid;

use super::daemon_client;
use super::timeline::{self, Moment};
use super::{QueryError, Reader};
use crate::config::{Config, InDoubt};
use crate::retention::why;
use crate::routing::delivery::followed::Followed;
use crate::routing::explain::tickets::{self, HelpDesk};
use crate::routing::explain::{self, Around, Case, Daemon, Explanation, Letter, Retained, Rules};
use crate::routing::pause::{Pause, Pauses};
use crate::routing::store::view::{AuditRow, Scan, SubmissionView};
use crate::routing::submission::destination;
use crate::routing::submission::destination::TargetKind;
use crate::routing::submission::expand::{self, Expansion};
use crate::routing::submission::ledger::{
    Delivery, DeliveryError, DeliveryState, FailReason, Finished, Ledger, order_of,
};
use crate::routing::submission::plan::{ActionType, PlannedAction};
use crate::routing::submission::version::{CurrentVersion, FormVersion};
use crate::routing::table::Status;
use crate::scrub::scrub;

/// No limit on records: their payloads are not read.
const ALL: usize = usize::MAX >> 1;

/// Everything about a submission; `None` where there is none.
pub(crate) async fn page(reader: &Reader, id: Uuid) -> Result<Option<Page>, QueryError> {
    let Some(view) = reader.view().look(id).await? else { return Ok(None) };
    let audit = reader.view().audit(id).await?;
    let paused = reader.pauses().read().await?;
    let hold = deferred(&view, &paused, (&reader.config).into());
    let rules = rules(&reader.config);
    let events = events::of(reader, id).await?;
    let followed = Followed::of(&reader.config).await;
    let kept = kept(reader, id, view.status).await?;
    let mut page = Page::of(id, view, audit, events, kept, (&rules, &followed));
    page.add_tickets(&reader.config.happyfox);
    let attachments: Vec<Uuid> = page.readiness.attachments.iter().map(|scan| scan.id).collect();
    page.files = files::of(reader, &attachments).await?;
    let listen = &reader.config.http.listen;
    let daemon = if page.explanation.waits_for_daemon() {
        daemon_client::readiness(listen, reader.rooms).await
    } else {
        Daemon::NotAsked
    };
    let help_desk = if daemon == Daemon::Working && page.waits_for_ticket(&reader.config.happyfox) {
        daemon_client::help_desk(listen).await
    } else {
        HelpDesk::NotAsked
    };
    page.put(Around { id, daemon, help_desk, pause: hold, letter: letter(reader, id).await });
    Ok(Some(page))
}

/// Until when a submission that has ended is kept, where anybody collects it.
async fn kept(reader: &Reader, id: Uuid, status: Status) -> Result<Option<KeptPart>, QueryError> {
    if !matches!(status, Status::Routed | Status::Failed) {
        return Ok(None);
    }
    let Some(retention) = reader.retention().await? else { return Ok(None) };
    let kept = retention.kept(id).await?;
    Ok(kept.map(|kept| KeptPart { ends_at: kept.ends_at, why: kept.why }))
}

/// The record that an id without a submission belongs to.
pub(crate) enum Instead {
    /// The id is a dead letter's own.
    Letter,
    /// The event of such a submission became this dead letter.
    Event(Letter),
}

/// The [`Instead`] of an id; unreadable records are left out.
pub(crate) async fn instead(reader: &Reader, id: Uuid) -> Option<Instead> {
    if let Ok(Some(_)) = reader.records().get(id).await {
        return Some(Instead::Letter);
    }
    letter(reader, id).await.map(Instead::Event)
}

/// The open dead letter that names a submission; unreadable records are left out.
async fn letter(reader: &Reader, id: Uuid) -> Option<Letter> {
    let open = reader.records().list(false, ALL).await.ok()?;
    let record = open.into_iter().find(|record| record.submission_id == Some(id))?;
    Some(Letter { id: record.id, kind: record.kind.label(), at: record.at })
}

/// The pause that defers the submission, wholly or in part; `None` for one that would not be claimed anyway.
fn deferred(view: &SubmissionView, pauses: &Pauses, by: Expansion) -> Option<Pause> {
    let ledger = view.ledger.as_ref().ok()?;
    if view.status != Status::Received || view.infected || !view.finalized || view.pending > 0 {
        return None;
    }
    let plan = match &view.current {
        Ok(current) if ledger.plan.is_empty() => current,
        Ok(_) | Err(_) => &ledger.plan,
    };
    let is_open = |delivery: &Delivery| delivery.state == DeliveryState::Open;
    let mut open: Vec<String> =
        ledger.deliveries.iter().filter(|(_, d)| is_open(d)).map(|(key, _)| key.clone()).collect();
    open.extend(expand::missing_deliveries(ledger, plan, by).into_iter().map(|(key, _)| key));
    let keys = || open.iter().map(String::as_str);
    let whole = pauses.of_submission(&view.form_id, keys());
    whole.or_else(|| keys().find_map(|key| pauses.of_delivery(key))).cloned()
}

fn rules(config: &Config) -> Rules {
    let routing = &config.routing;
    Rules {
        max_attempts: routing.max_attempts,
        longest_pause: routing.backoff_max,
        unready_alert_after: routing.unready_alert_after,
        stuck_after: routing.stuck_after,
        sweep_interval: routing.sweep_interval,
        due_grace: routing.due_grace,
        orphan_after: routing.orphan_after,
        not_before: routing.not_before,
        tickets: config.happyfox.is_on(),
        resend: routing.in_doubt == InDoubt::Resend,
        // A webhook that only the service may read counts as well.
        link_ttl: config.signed_url.ttl,
        alerts: !matches!(config.slack_webhook(), Ok(None)),
    }
}

/// The page (interfaces page, `explain`).
#[derive(Debug, Serialize)]
pub(crate) struct Page {
    pub(crate) id: Uuid,
    pub(crate) form_id: String,
    pub(crate) form_name: Option<String>,
    pub(crate) status: Status,
    /// `refused`, `exhausted`, …: the ledger's reason of a failure.
    pub(crate) reason: Option<&'static str>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) retention_expires_at: Option<Timestamp>,
    /// Until when it is kept, and why: of what has ended, where anybody collects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<KeptPart>,
    /// Database time of the look.
    pub(crate) now: Timestamp,
    pub(crate) readiness: ReadinessPart,
    /// Those of its files that came by uploads; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) files: Option<Vec<FilePart>>,
    /// The plan is pinned in the ledger; else it is the form's present one.
    pub(crate) plan_pinned: bool,
    pub(crate) plan: Vec<PlanPart>,
    /// The version of the form that the pinned plan is of, as the ledger has it; absent where it is of none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<FormVersion>,
    /// The version the form follows at present; absent where it is not managed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_version: Option<CurrentVersion>,
    /// What people should know where the two differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version_note: Option<String>,
    pub(crate) deliveries: Vec<DeliveryPart>,
    pub(crate) attempts: u32,
    pub(crate) max_attempts: u32,
    pub(crate) claim: Option<ClaimPart>,
    /// Rows of the outbox about it, the youngest first; absent where there is no outbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<Vec<EventPart>>,
    /// Why the ledger is not believed, where it is not.
    pub(crate) ledger_fault: Option<String>,
    pub(crate) overrides: Vec<Value>,
    /// Audit trail, overrides and failed attempts, oldest first.
    pub(crate) timeline: Vec<Moment>,
    /// Absent where this role may not read the log.
    pub(crate) audit: Option<Vec<AuditRow>>,
    pub(crate) audit_note: Option<&'static str>,
    /// The pause that defers it.
    pub(crate) paused: Option<Pause>,
    /// Answer of the daemon on this host, where it matters.
    pub(crate) daemon: Daemon,
    /// State of the help desk, where a ticket waits for it.
    #[serde(skip_serializing_if = "is_not_asked")]
    pub(crate) help_desk: HelpDesk,
    /// The open dead letter that names it.
    pub(crate) dead_letter: Option<Letter>,
    #[serde(flatten)]
    pub(crate) explanation: Explanation,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_not_asked(state: &HelpDesk) -> bool {
    *state == HelpDesk::NotAsked
}

/// Status of a mail that the relay accepted, without a report since.
const UNHEARD: &str = "unheard";

const AUDIT_UNREADABLE: &str = "audit not readable with this role";

#[derive(Debug, Serialize)]
pub(crate) struct ReadinessPart {
    /// `ready`, `not_finalized`, `scanning`, `infected`.
    pub(crate) state: &'static str,
    pub(crate) finalized: bool,
    pub(crate) pending: i64,
    pub(crate) infected: bool,
    pub(crate) attachments: Vec<Scan>,
}

/// Until when a submission is kept, and why.
#[derive(Debug, Serialize)]
pub(crate) struct KeptPart {
    /// Its end, by its own or by its form's rule; absent: none.
    pub(crate) ends_at: Option<Timestamp>,
    /// `not_yet`, `no_end`, `held`, `review`, `event`, `damaged`, `untold`, `undelivered`; absent: the next run empties it.
    pub(crate) why: Option<String>,
}

impl KeptPart {
    /// Why it stays whatever its end says.
    pub(crate) fn words(&self) -> Option<&'static str> {
        self.why.as_deref().filter(|why| !matches!(*why, "not_yet" | "no_end")).map(why::meaning)
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct PlanPart {
    pub(crate) action_order: i32,
    pub(crate) action_type: ActionType,
    pub(crate) template_id: Option<String>,
    pub(crate) destination: String,
    pub(crate) subject_template: Option<String>,
    pub(crate) happyfox_category: Option<String>,
    pub(crate) generation: u32,
}

#[derive(Debug, Serialize)]
pub(crate) struct ClaimPart {
    pub(crate) worker: String,
    pub(crate) at: Timestamp,
    pub(crate) deadline: Timestamp,
}

#[derive(Debug, Serialize)]
pub(crate) struct DeliveryPart {
    pub(crate) key: String,
    pub(crate) action_order: i32,
    /// Absent where the delivery has no usable address.
    pub(crate) recipient: Option<String>,
    /// Entry of the destination instead of an address.
    pub(crate) unusable: Option<String>,
    pub(crate) state: &'static str,
    pub(crate) in_doubt: bool,
    /// The delivery was in doubt before it was accepted.
    pub(crate) doubted: bool,
    pub(crate) at: Option<Timestamp>,
    pub(crate) code: Option<u16>,
    pub(crate) enhanced: Option<String>,
    pub(crate) reply: Option<String>,
    pub(crate) queue_id: Option<String>,
    pub(crate) message_id: Option<String>,
    pub(crate) error: Option<DeliveryError>,
    /// The latest failed attempts, oldest first: as `error`, with `at` and `attempt`.
    pub(crate) tries: Vec<Value>,
    pub(crate) late: bool,
    pub(crate) duplicates: usize,
    /// The help desk's ticket that it is, made or to be made; absent for a mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ticket: Option<TicketPart>,
    /// State of the mail after the relay's acceptance; null where the log is not followed, or has no report yet.
    pub(crate) relay: Option<RelayPart>,
}

/// Report of the relay's log or of a returned mail.
#[derive(Debug, Default, Serialize)]
pub(crate) struct RelayPart {
    /// `delivered`, `deferred`, `bounced`, `expired`; `unheard`: accepted by the relay, no report yet.
    pub(crate) status: &'static str,
    /// Time at which the report was recorded.
    pub(crate) at: Option<Timestamp>,
    /// Deferred since.
    pub(crate) since: Option<Timestamp>,
    pub(crate) dsn: Option<String>,
    pub(crate) queue_id: Option<String>,
    /// The reporting host.
    pub(crate) host: Option<String>,
    /// The reply, without addresses.
    pub(crate) text: Option<String>,
    /// People were notified that the mail is lost.
    #[serde(rename = "told_at")]
    pub(crate) notified_at: Option<Timestamp>,
    /// The report in a few words, for a terminal.
    #[serde(skip)]
    pub(crate) said: String,
}

impl Page {
    fn of(
        id: Uuid,
        view: SubmissionView,
        audit: Option<Vec<AuditRow>>,
        events: Option<Vec<EventPart>>,
        kept: Option<KeptPart>,
        (rules, followed): (&Rules, &Followed),
    ) -> Self {
        let words = kept.as_ref().and_then(KeptPart::words);
        let retained = kept.as_ref().map(|kept| Retained { ends_at: kept.ends_at, kept: words });
        let read = view.ledger;
        let attachment = |wanted: fn(&Scan) -> bool| -> Vec<Uuid> {
            view.attachments.iter().filter(|scan| wanted(scan)).map(|scan| scan.id).collect()
        };
        let infected = attachment(Scan::is_infected);
        let pending = attachment(|scan| !scan.is_clean() && !scan.is_infected());
        let explanation = explain::explain(
            &Case {
                id,
                form: &view.form_id,
                status: view.status,
                ledger: read.as_ref(),
                finalized: view.finalized,
                gate: view.gate,
                run: view.run.as_ref(),
                attempt: view.attempt.as_ref(),
                pending: &pending,
                infected: &infected,
                attachments: view.attachments.len(),
                actions: view.current.as_ref().ok().map(Vec::len),
                event: &events::event(events.as_deref()),
                created_at: view.created_at,
                updated_at: view.updated_at,
                retention_expires_at: view.retention_expires_at,
                retained,
                now: view.now,
            },
            rules,
        );
        let ledger_fault = read.as_ref().err().map(ToString::to_string);
        let ledger = read.unwrap_or_default();
        let pinned = !ledger.plan.is_empty();
        let current = if view.status.is_terminal() { Vec::new() } else { view.current.unwrap_or_default() };
        let plan = if pinned { ledger.plan.clone() } else { current };
        Self {
            id,
            form_id: view.form_id,
            form_name: view.form_name,
            status: view.status,
            reason: ledger
                .finished
                .as_ref()
                .and_then(|Finished { reason, .. }| reason.map(FailReason::label)),
            created_at: view.created_at,
            updated_at: view.updated_at,
            retention_expires_at: view.retention_expires_at,
            kept,
            now: view.now,
            files: None,
            readiness: ReadinessPart {
                state: match (view.infected, view.finalized, view.pending > 0) {
                    (true, _, _) => "infected",
                    (false, false, _) => "not_finalized",
                    (false, true, true) => "scanning",
                    (false, true, false) => "ready",
                },
                finalized: view.finalized,
                pending: view.pending,
                infected: view.infected,
                attachments: view.attachments,
            },
            plan_pinned: pinned,
            version: ledger.version.known().cloned(),
            version_note: explain::version::beside(view.status, &ledger.version, view.version.as_ref())
                .filter(|_| pinned),
            current_version: view.version,
            plan: plan.into_iter().map(|action| PlanPart::of(action, &ledger)).collect(),
            deliveries: ledger
                .deliveries
                .iter()
                .map(|(key, delivery)| DeliveryPart::of((id, view.status), &ledger, key, delivery, followed))
                .collect(),
            attempts: ledger.attempts,
            max_attempts: rules.max_attempts,
            claim: ledger.claim.as_ref().map(|claim| ClaimPart {
                worker: claim.worker.clone(),
                at: claim.at,
                deadline: claim.deadline,
            }),
            events,
            ledger_fault,
            timeline: timeline::timeline(&ledger, audit.as_deref()),
            overrides: ledger.overrides,
            audit_note: audit.is_none().then_some(AUDIT_UNREADABLE),
            audit,
            paused: None,
            daemon: Daemon::NotAsked,
            help_desk: HelpDesk::NotAsked,
            dead_letter: None,
            explanation,
        }
    }

    /// Adds the surroundings to the explanation.
    fn put(&mut self, around: Around) {
        self.explanation = self.explanation.clone().within(&around);
        (self.daemon, self.paused, self.dead_letter) = (around.daemon, around.pause, around.letter);
        self.help_desk = around.help_desk;
    }
}

impl PlanPart {
    fn of(action: PlannedAction, ledger: &Ledger) -> Self {
        Self {
            action_order: action.action_order,
            action_type: action.action_type,
            template_id: action.template_id,
            destination: action.destination,
            subject_template: action.subject_template,
            happyfox_category: action.happyfox_category,
            generation: ledger.generation(action.action_order),
        }
    }
}

impl DeliveryPart {
    fn of(
        (id, status): (Uuid, Status),
        ledger: &Ledger,
        key: &str,
        delivery: &Delivery,
        followed: &Followed,
    ) -> Self {
        let said = delivery.smtp.as_ref().or(delivery.error.as_ref().map(|error| &error.reply));
        Self {
            key: key.to_owned(),
            action_order: order_of(key).unwrap_or_default(),
            recipient: destination::address_of(key).map(str::to_owned),
            unusable: unusable(ledger, key),
            state: delivery.state.label(),
            in_doubt: explain::is_in_doubt(status, ledger, delivery),
            doubted: delivery.doubted,
            at: delivery.at,
            code: said.and_then(|reply| reply.code),
            enhanced: said.and_then(|reply| reply.enhanced.clone()),
            reply: said.map(|reply| reply.reply.clone()),
            queue_id: delivery.queue_id.clone(),
            message_id: delivery.message_id.clone(),
            error: delivery.error.clone(),
            tries: delivery.tries.clone(),
            late: delivery.late,
            duplicates: delivery.repeats(),
            ticket: tickets::tag_of(id, ledger, key).map(|tag| TicketPart::of(tag, delivery)),
            relay: RelayPart::of(ledger, key, delivery, followed),
        }
    }
}

impl RelayPart {
    fn of(ledger: &Ledger, key: &str, delivery: &Delivery, followed: &Followed) -> Option<Self> {
        if let Some(entry) = ledger.relay_entry(key, delivery) {
            return Some(Self {
                status: entry.status.label(),
                at: Some(entry.at),
                since: entry.since,
                dsn: entry.dsn.clone(),
                queue_id: entry.queue_id.clone(),
                host: entry.relay.as_deref().map(scrub),
                text: Some(scrub(&entry.text)),
                notified_at: entry.notified_at,
                said: explain::tracking::said(entry),
            });
        }
        // A ticket is where it should be once it is there: no relay reports of it.
        let accepted = delivery.at.filter(|_| delivery.state == DeliveryState::Accepted)?;
        if delivery.ticket.is_some() {
            return None;
        }
        followed.covers(accepted).then(|| Self {
            status: UNHEARD,
            queue_id: delivery.queue_id.clone(),
            ..Self::default()
        })
    }
}

/// The entry of the pinned destination that a key like `1|!2` stands for.
fn unusable(ledger: &Ledger, key: &str) -> Option<String> {
    let order = order_of(key)?;
    let action = ledger.plan.iter().find(|action| action.action_order == order)?;
    let mut targets = destination::parse(&action.destination, order, usize::MAX).into_iter();
    match targets.find(|target| target.key == key)?.kind {
        TargetKind::Unusable { raw, .. } => Some(raw),
        TargetKind::Usable { .. } | TargetKind::None | TargetKind::OverLimit { .. } => None,
    }
}
