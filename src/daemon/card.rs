//! The house's card: entries that belong to no room, because all stand on it. Daemon, operations, connections, gateways.

use futures::FutureExt as _;

use super::relay_health;
use crate::db::contract::{Check, Look};
use crate::db::pool;
use crate::gateway::{relay_log, signed_url};
use crate::kernel::Card;
use crate::kernel::metric::Gauge;
use crate::ops::alerting::{alerter, sender};
use crate::ops::dependency::{BREAKER_OPEN, Dependency};
use crate::ops::incident::{INCIDENT_OPEN, IncidentKey};
use crate::ops::set_aside::{ROWS_SET_ASIDE, SET_ASIDE};
use crate::ops::telemetry::EventName;
use crate::ops::{http, metrics};

/// The event stream is lost and could not be rebuilt yet.
pub(super) const STREAM: IncidentKey = IncidentKey::new("stream");
/// A canary event is overdue: events may not come through.
pub(super) const CANARY: IncidentKey = IncidentKey::new("canary");
/// Facts lie in the state directory, because the database did not take them.
pub(super) const SPOOL: IncidentKey = IncidentKey::new("spool");

/// Interval of canary events.
pub(super) static CANARY_INTERVAL: Gauge = Gauge::new(
    "maple_router_canary_interval_seconds",
    "Configured interval of canary events; 0: there are none",
);

/// Entries of the house (module header).
pub const CARD: Card = Card {
    metrics: &[
        &pool::SECONDS,
        &signed_url::SECONDS,
        &metrics::DEAD_LETTERS,
        &metrics::CANARIES,
        &metrics::STARTED,
        &metrics::RELOAD_OK,
        &metrics::BUILD_INFO,
        &INCIDENT_OPEN,
        &BREAKER_OPEN,
        &ROWS_SET_ASIDE,
        &http::READY,
        &alerter::UNALERTED,
        &sender::ALERTS,
        &metrics::HEARTBEATS,
        &relay_health::RELAY_QUEUE,
        &relay_health::RELAY_SLOWED,
        &relay_health::RELAY_UNDELIVERED,
        &relay_health::RELAY_UNDELIVERED_OLDEST,
        &CANARY_INTERVAL,
    ],
    events: EventName::EVENTS,
    incidents: &[
        Dependency::POSTGRES.incident(),
        Dependency::RELAY.incident(),
        Dependency::SIGNER.incident(),
        Dependency::PUBSUB.incident(),
        Dependency::CONTRACT.incident(),
        Dependency::HELP_DESK.incident(),
        STREAM,
        CANARY,
        SPOOL,
        relay_health::QUEUE_TOO_LONG,
        SET_ASIDE,
    ],
    checks: &[
        Check { line: "config", order: 0, look: Look::CommandLine },
        Check { line: "database", order: 10, look: Look::Contract },
        Check { line: "schema", order: 20, look: Look::Contract },
        Check { line: "audit_values", order: 30, look: Look::Contract },
        Check { line: "grants", order: 40, look: Look::Contract },
        Check { line: "rls_attachments", order: 50, look: Look::Contract },
        Check { line: "subscription", order: 90, look: Look::CommandLine },
        Check { line: "dead_letter", order: 100, look: Look::CommandLine },
        Check { line: "relay", order: 110, look: Look::CommandLine },
        Check {
            line: "relay_log",
            order: 120,
            look: Look::Outside(|config| relay_log::inspect(&config.relay_log).boxed()),
        },
        Check { line: "bounces", order: 130, look: Look::CommandLine },
        Check { line: "happyfox", order: 137, look: Look::CommandLine },
        Check { line: "signing", order: 140, look: Look::CommandLine },
        Check { line: "link", order: 150, look: Look::CommandLine },
        Check { line: "secrets", order: 165, look: Look::CommandLine },
        Check { line: "slack", order: 170, look: Look::CommandLine },
    ],
    ..Card::named("daemon")
};
