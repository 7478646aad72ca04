//! `explain`: everything about one submission on one screen, and what happens next.
//!
//! Reads only. An operator's tool: recipients are shown, as they stand in the ledger; field values never are.

mod events;
mod text;

use events::EventPart;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::daemon_word;
use super::desk::{self, Desk};
use super::id::{self, IdArg};
use super::output::{self, Palette};
use super::pause;
use super::timeline::{self, Moment};
use super::{CliError, Context, Exit};
use crate::config::{Config, InDoubt};
use crate::routing::delivery::followed::Followed;
use crate::routing::destination::{self, TargetKind};
use crate::routing::expand;
use crate::routing::explain::{self, Around, Case, Daemon, Explanation, Letter, Remedy, Rules, at};
use crate::routing::ledger::{
    Delivery, DeliveryError, DeliveryState, FailReason, Finished, Ledger, order_of,
};
use crate::routing::pause::{Pause, Pauses};
use crate::routing::plan::{ActionType, PlannedAction};
use crate::routing::store::view::{AuditRow, Scan, Sight};
use crate::routing::table::Status;
use crate::scrub::scrub;

/// Records without end: they are without payloads.
const ALL: usize = usize::MAX >> 1;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission id, or its beginning
    #[arg(value_name = "ID", value_parser = id::parse)]
    pub(super) id: IdArg,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the explanation.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let desk = Desk::open(ctx)?;
    let id = desk.submission(&args.id).await?;
    let Some(sight) = desk.view().look(id).await.map_err(desk::database)? else {
        return Err(nowhere(&desk, id).await);
    };
    let audit = desk.view().audit(id).await.map_err(desk::database)?;
    let paused = pause::book(&desk).read().await.map_err(pause::fault)?;
    let hold = held_up(&sight, &paused, desk.config.mail.max_recipients);
    let rules = rules(&desk.config);
    let events = events::of(&desk, id).await?;
    let followed = Followed::of(&desk.config).await;
    let mut page = Page::of(id, sight, audit, events, (&rules, &followed));
    let daemon = if page.explanation.waits_for_daemon() {
        daemon_word::readiness(&desk.config.http.listen).await
    } else {
        Daemon::NotAsked
    };
    page.put(Around { id, daemon, pause: hold, letter: letter(&desk, id).await });
    if args.json {
        output::json(&page)?;
    } else {
        let width = output::columns().unwrap_or(text::WIDTH);
        output::text(&text::page(&page, Palette::of_stdout(), width))?;
    }
    Ok(Exit::Done)
}

/// The open dead letter that names a submission; what cannot be read is not told of.
async fn letter(desk: &Desk, id: Uuid) -> Option<Letter> {
    let open = desk.records().list(false, ALL).await.ok()?;
    let record = open.into_iter().find(|record| record.submission_id == Some(id))?;
    Some(Letter { id: record.id, kind: record.kind.label(), at: record.at })
}

/// No submission has this id: perhaps something else has.
async fn nowhere(desk: &Desk, id: Uuid) -> CliError {
    if let Ok(Some(_)) = desk.records().get(id).await {
        let letter = anyhow::anyhow!("{id} is a dead letter, not a submission");
        return CliError::new(Exit::FoundWanting, letter).remedy(format!("maple-router dlq show {id}"));
    }
    match letter(desk, id).await {
        Some(letter) => {
            let told =
                format!("there is no submission {id}: its event became a dead letter at {}", at(letter.at));
            CliError::new(Exit::FoundWanting, anyhow::anyhow!(told))
                .remedy(format!("maple-router dlq show {}", letter.id))
        }
        None => desk::unknown("submission", id),
    }
}

/// The pause that holds it up, wholly or in part; none for what would not be claimed anyway.
fn held_up(sight: &Sight, pauses: &Pauses, max_recipients: usize) -> Option<Pause> {
    let ledger = sight.ledger.as_ref().ok()?;
    if sight.status != Status::Received || sight.infected || !sight.finalized || sight.pending > 0 {
        return None;
    }
    let plan = match &sight.current {
        Ok(current) if ledger.plan.is_empty() => current,
        Ok(_) | Err(_) => &ledger.plan,
    };
    let is_open = |delivery: &Delivery| delivery.state == DeliveryState::Open;
    let mut open: Vec<String> =
        ledger.deliveries.iter().filter(|(_, d)| is_open(d)).map(|(key, _)| key.clone()).collect();
    open.extend(expand::missing_deliveries(ledger, plan, max_recipients).into_iter().map(|(key, _)| key));
    let keys = || open.iter().map(String::as_str);
    let whole = pauses.of_submission(&sight.form_id, keys());
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
        resend: routing.in_doubt == InDoubt::Resend,
        // A webhook that only the service may read is one as well.
        link_ttl: config.signed_url.ttl,
        alerts: !matches!(config.slack_webhook(), Ok(None)),
    }
}

/// What is shown (interfaces page, `explain`).
#[derive(Debug, Serialize)]
pub(super) struct Page {
    id: Uuid,
    form_id: String,
    form_name: Option<String>,
    status: Status,
    /// `refused`, `exhausted`, …: where it failed, and the ledger says why.
    reason: Option<&'static str>,
    created_at: Timestamp,
    updated_at: Timestamp,
    retention_expires_at: Option<Timestamp>,
    /// Database time at which it was looked at.
    now: Timestamp,
    readiness: ReadinessPart,
    /// The plan is pinned in the ledger; else it is what the form says now.
    plan_pinned: bool,
    plan: Vec<PlanPart>,
    deliveries: Vec<DeliveryPart>,
    attempts: u32,
    max_attempts: u32,
    claim: Option<ClaimPart>,
    /// What the outbox holds about it, the youngest first; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<EventPart>>,
    /// What is wrong with the ledger, where it is not believed.
    ledger_fault: Option<String>,
    overrides: Vec<Value>,
    /// Audit trail, overrides and failed attempts, oldest first.
    timeline: Vec<Moment>,
    /// Absent where this role may not read the log.
    audit: Option<Vec<AuditRow>>,
    audit_note: Option<&'static str>,
    /// The pause that holds it up.
    paused: Option<Pause>,
    /// What the daemon on this host says, where it matters.
    daemon: Daemon,
    /// The open dead letter that names it.
    dead_letter: Option<Letter>,
    #[serde(flatten)]
    explanation: Explanation,
}

/// Accepted by the relay, nothing heard of it since.
const UNHEARD: &str = "unheard";

const AUDIT_UNREADABLE: &str = "audit not readable with this role";

#[derive(Debug, Serialize)]
struct ReadinessPart {
    /// `ready`, `not_finalized`, `scanning`, `infected`.
    state: &'static str,
    finalized: bool,
    pending: i64,
    infected: bool,
    attachments: Vec<Scan>,
}

#[derive(Debug, Serialize)]
struct PlanPart {
    action_order: i32,
    action_type: ActionType,
    template_id: Option<String>,
    destination: String,
    subject_template: Option<String>,
    happyfox_category: Option<String>,
    generation: u32,
}

#[derive(Debug, Serialize)]
struct ClaimPart {
    worker: String,
    at: Timestamp,
    deadline: Timestamp,
}

#[derive(Debug, Serialize)]
struct DeliveryPart {
    key: String,
    action_order: i32,
    /// Absent where the delivery stands for no usable address.
    recipient: Option<String>,
    /// What stands in the destination instead of an address.
    unusable: Option<String>,
    state: &'static str,
    in_doubt: bool,
    /// Was in doubt before it was accepted.
    doubted: bool,
    at: Option<Timestamp>,
    code: Option<u16>,
    enhanced: Option<String>,
    reply: Option<String>,
    queue_id: Option<String>,
    message_id: Option<String>,
    error: Option<DeliveryError>,
    /// The latest failed attempts, oldest first: as `error`, with `at` and `attempt`.
    tries: Vec<Value>,
    late: bool,
    duplicates: usize,
    /// What became of the mail beyond the relay; null where that is not followed, or was not yet.
    relay: Option<RelayPart>,
}

/// What the relay's log or a returned mail tells of a mail.
#[derive(Debug, Serialize)]
struct RelayPart {
    /// `delivered`, `deferred`, `bounced`, `expired`; `unheard`: accepted by the relay, nothing heard yet.
    status: &'static str,
    /// When that was recorded.
    at: Option<Timestamp>,
    /// Deferred since.
    since: Option<Timestamp>,
    dsn: Option<String>,
    queue_id: Option<String>,
    /// The host that said it.
    host: Option<String>,
    /// Without addresses.
    text: Option<String>,
    /// People were told that it is lost.
    told_at: Option<Timestamp>,
    /// In a few words, for a terminal.
    #[serde(skip)]
    said: String,
}

impl Page {
    fn of(
        id: Uuid,
        sight: Sight,
        audit: Option<Vec<AuditRow>>,
        events: Option<Vec<EventPart>>,
        (rules, followed): (&Rules, &Followed),
    ) -> Self {
        let read = sight.ledger;
        let attachment = |wanted: fn(&Scan) -> bool| -> Vec<Uuid> {
            sight.attachments.iter().filter(|scan| wanted(scan)).map(|scan| scan.id).collect()
        };
        let infected = attachment(Scan::is_infected);
        let pending = attachment(|scan| !scan.is_clean() && !scan.is_infected());
        let explanation = explain::explain(
            &Case {
                id,
                status: sight.status,
                ledger: read.as_ref(),
                finalized: sight.finalized,
                pending: &pending,
                infected: &infected,
                attachments: sight.attachments.len(),
                actions: sight.current.as_ref().ok().map(Vec::len),
                event: &events::event(events.as_deref()),
                created_at: sight.created_at,
                updated_at: sight.updated_at,
                retention_expires_at: sight.retention_expires_at,
                now: sight.now,
            },
            rules,
        );
        let ledger_fault = read.as_ref().err().map(ToString::to_string);
        let ledger = read.unwrap_or_default();
        let pinned = !ledger.plan.is_empty();
        let current = if sight.status.is_terminal() { Vec::new() } else { sight.current.unwrap_or_default() };
        let plan = if pinned { ledger.plan.clone() } else { current };
        Self {
            id,
            form_id: sight.form_id,
            form_name: sight.form_name,
            status: sight.status,
            reason: ledger
                .finished
                .as_ref()
                .and_then(|Finished { reason, .. }| reason.map(FailReason::label)),
            created_at: sight.created_at,
            updated_at: sight.updated_at,
            retention_expires_at: sight.retention_expires_at,
            now: sight.now,
            readiness: ReadinessPart {
                state: match (sight.infected, sight.finalized, sight.pending > 0) {
                    (true, _, _) => "infected",
                    (false, false, _) => "not_finalized",
                    (false, true, true) => "scanning",
                    (false, true, false) => "ready",
                },
                finalized: sight.finalized,
                pending: sight.pending,
                infected: sight.infected,
                attachments: sight.attachments,
            },
            plan_pinned: pinned,
            plan: plan.into_iter().map(|action| PlanPart::of(action, &ledger)).collect(),
            deliveries: ledger
                .deliveries
                .iter()
                .map(|(key, delivery)| DeliveryPart::of(sight.status, &ledger, key, delivery, followed))
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
            dead_letter: None,
            explanation,
        }
    }

    /// Puts it in its surroundings.
    fn put(&mut self, around: Around) {
        let told = self.explanation.clone().within(&around);
        let remedy = told.remedy.into_iter().filter(is_at_hand).collect();
        self.explanation = Explanation { remedy, ..told };
        (self.daemon, self.paused, self.dead_letter) = (around.daemon, around.pause, around.letter);
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
    fn of(status: Status, ledger: &Ledger, key: &str, delivery: &Delivery, followed: &Followed) -> Self {
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
            relay: RelayPart::of(ledger, key, delivery, followed),
        }
    }
}

impl RelayPart {
    fn of(ledger: &Ledger, key: &str, delivery: &Delivery, followed: &Followed) -> Option<Self> {
        if let Some(mark) = ledger.mark_of(key, delivery) {
            return Some(Self {
                status: mark.status.label(),
                at: Some(mark.at),
                since: mark.since,
                dsn: mark.dsn.clone(),
                queue_id: mark.queue_id.clone(),
                host: mark.relay.as_deref().map(scrub),
                text: Some(scrub(&mark.text)),
                told_at: mark.told_at,
                said: explain::beyond::said(mark),
            });
        }
        let accepted = delivery.at.filter(|_| delivery.state == DeliveryState::Accepted)?;
        followed.covers(accepted).then(|| Self {
            status: UNHEARD,
            at: None,
            since: None,
            dsn: None,
            queue_id: delivery.queue_id.clone(),
            host: None,
            text: None,
            told_at: None,
            said: String::new(),
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

/// Nobody is sent to a verb that this binary does not have.
fn is_at_hand(remedy: &Remedy) -> bool {
    use clap::CommandFactory as _;
    remedy.verb.is_none_or(|verb| super::Cli::command().find_subcommand(verb).is_some())
}
