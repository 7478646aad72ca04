//! The journal: how this daemon's events are written, and their closed vocabulary.
//!
//! Call sites use lower-case field names, [`journal!`](crate::journal) for events of the vocabulary and plain `tracing`
//! macros for the rest. The journald layer upper-cases names by itself (`submission_id` becomes `SUBMISSION_ID`), JSON keeps
//! them lower-case: the field names of the interfaces page either way.
//!
//! All forms but journald go to stderr, so that a verb's output on stdout stays clean. Libraries stay at `warn`, whatever
//! the filter says: some of them log parameters and URLs, and a signed URL is a secret. Only `RUST_LOG` on a person's own
//! terminal opens them.
//! Never logged: recipients, field values, signed URLs, secrets. If we die, lines already written stay: nothing is buffered
//! here.

use std::io::{self, IsTerminal, Write};

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use super::json_log::JsonLayer;
use super::log_rate::LogRate;
use crate::config::{Log, LogFormat, loud_library};

/// The target of this program's own lines, and the root of all of them.
const OWN: &str = "maple_router";

/// A value of the journal field `EVENT` (interfaces page, "Log fields"), as a card lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The value's spelling.
    pub word: &'static str,
    /// The permitted levels. `error`: a person must act now. `warn`: unusual, and heals by itself or has been seen to.
    /// `info`: the story. `debug`: its details.
    pub levels: &'static [&'static str],
}

/// Declares a room's events: `events! { /// Their subject. EventName { /// The event. Member = "label" info | warn, … } }`.
#[macro_export]
macro_rules! events {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $member:ident = $label:literal $($level:ident)|+),* $(,)? }) => {
        $crate::words! { $(#[$doc])* $name { $($(#[$of])* $member = $label),* } }

        impl $name {
            /// All events, for the card.
            pub const EVENTS: &'static [$crate::ops::telemetry::Event] =
                &[$($crate::ops::telemetry::Event { word: $label, levels: &[$(stringify!($level)),+] }),*];
        }
    };
}

events! {
    /// Events that belong to no room: of the daemon, of the command line, of their supervision.
    EventName {
        /// Slack confirmed an alert.
        AlertSent = "alert_sent" info,
        /// An alert did not get through and stays pending.
        AlertDeferred = "alert_deferred" error | warn | debug,
        /// A dependency is treated as down.
        BreakerOpen = "breaker_open" error,
        /// A dependency is back.
        BreakerClosed = "breaker_closed" info,
        /// The Pub/Sub stream was made anew.
        StreamRebuilt = "stream_rebuilt" info,
        /// The relay's queue is too long: mails are sent slowly.
        RelaySlowed = "relay_slowed" warn,
        /// The relay's queue is short again.
        RelayFlowing = "relay_flowing" info,
        /// A row refuses a write that all others take, and is left for a while.
        SetAside = "set_aside" error,
        /// A row that was set aside took the write.
        WrittenAfterAll = "written_after_all" info,
        /// A canary event came back, or did not.
        Canary = "canary" warn | info,
        /// The heartbeat URL fails, or works again, or the heartbeat is withheld.
        Heartbeat = "heartbeat" warn | info,
        /// An operator overrode something.
        Override = "override" warn,
        /// The daemon starts.
        Started = "started" info,
        /// The daemon takes work.
        Ready = "ready" info,
        /// The configuration was read again.
        Reloaded = "reloaded" info,
        /// The configuration could not be read again; the old one stays.
        ReloadFailed = "reload_failed" error,
        /// The daemon takes no more work and ends what it has.
        Stopping = "stopping" info,
        /// The daemon ends.
        Stopped = "stopped" info,
    }
}

/// Writes an event of the closed vocabulary.
///
/// ```
/// use maple_router::{journal, ops::telemetry::EventName};
/// let id = "6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11";
/// journal!(warn, EventName::Override, submission_id = %id, verb = "replay", "replayed");
/// ```
#[macro_export]
macro_rules! journal {
    ($level:ident, $event:expr, $($rest:tt)+) => {
        ::tracing::$level!(event = $event.label(), $($rest)+)
    };
}

/// The running journal; its level can be changed.
pub struct Telemetry {
    filter: reload::Handle<EnvFilter, Registry>,
    /// Whether `RUST_LOG` was given, which overrides every configured level, now and after a reload.
    pinned: bool,
    /// Counts repeated lines; the daemon's only.
    rate: Option<LogRate>,
    /// The format in use: `Journald` may have become `Text`.
    pub format: LogFormat,
}

/// Why logging cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A level or directive that cannot be parsed.
    #[error(
        "`{given}` is no log level ({reason}); use error, warn, info, debug, trace or a filter directive"
    )]
    Level {
        /// The text as given.
        given: String,
        /// The parser's reason.
        reason: String,
    },
    /// Another logger is installed in this process already.
    #[error("logging is set up already: {0}")]
    Twice(String),
}

/// Sets logging up for this process, once. `rust_log` is the variable `RUST_LOG`, where set; `rate` suppresses and counts
/// repeated lines, and [`Telemetry::tell_left_out`] writes the counts.
///
/// # Errors
/// [`TelemetryError`].
pub fn init(log: &Log, rust_log: Option<&str>, rate: Option<LogRate>) -> Result<Telemetry, TelemetryError> {
    let rust_log = rust_log.map(str::trim).filter(|text| !text.is_empty());
    let filter = match rust_log {
        Some(directives) => parse(directives)?,
        None => filter(&log.level)?,
    };
    let (layer, format) = layer(log.format);
    let (filter, handle) = reload::Layer::new(filter);
    let own_terminal = rust_log.is_some() && format == LogFormat::Text && io::stderr().is_terminal();
    let quiet_libraries = (!own_terminal).then(|| filter_fn(is_fit_for_a_journal));
    tracing_subscriber::registry()
        .with(filter.and_then(quiet_libraries).and_then(rate.clone()).and_then(layer))
        .try_init()
        .map_err(|error| TelemetryError::Twice(error.to_string()))?;
    if format != log.format {
        tracing::warn!("the journal's socket is missing; logging text to stderr");
    }
    if let Some(directive) = rust_log.and_then(opens_libraries) {
        if own_terminal {
            tracing::warn!(
                "RUST_LOG opens libraries ({directive}): addresses and signed URLs may be among what follows"
            );
        } else {
            tracing::warn!(
                "RUST_LOG ({directive}) is for this program only: libraries stay at warn, except on a terminal"
            );
        }
    }
    Ok(Telemetry { filter: handle, pinned: rust_log.is_some(), rate, format })
}

/// Returns the directive of `RUST_LOG` that opens libraries, if any: in `RUST_LOG` a bare level applies to all.
fn opens_libraries(rust_log: &str) -> Option<&str> {
    let level = rust_log.parse::<LevelFilter>().ok();
    loud_library(rust_log).or_else(|| level.filter(|level| *level > LevelFilter::WARN).map(|_| rust_log))
}

/// Whether a line is this program's, or a library's warning: quieter ones may contain parameters, addresses, signed URLs.
fn is_fit_for_a_journal(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    *metadata.level() <= Level::WARN || target == OWN || target.starts_with("maple_router::")
}

impl Telemetry {
    /// Changes the level; does nothing where `RUST_LOG` is set.
    pub fn set_level(&self, level: &str) -> Result<(), TelemetryError> {
        let filter = filter(level)?;
        if self.pinned {
            return Ok(());
        }
        self.filter.reload(filter).map_err(|error| TelemetryError::Twice(error.to_string()))
    }

    /// Writes the counts of suppressed lines since the last call.
    pub fn tell_left_out(&self) {
        if let Some(rate) = &self.rate {
            rate.tell();
        }
    }
}

/// Parses a configured filter: a bare level is for this program; directives are taken literally.
fn filter(level: &str) -> Result<EnvFilter, TelemetryError> {
    let level = level.trim();
    match level.to_ascii_lowercase().as_str() {
        "trace" | "debug" | "info" | "warn" => parse(&format!("warn,maple_router={level}")),
        _ => parse(level),
    }
}

fn parse(directives: &str) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::builder()
        .parse(directives)
        .map_err(|error| TelemetryError::Level { given: directives.to_owned(), reason: error.to_string() })
}

/// Returns the layer for a format, and the format in use.
fn layer(format: LogFormat) -> (Box<dyn Layer<Registry> + Send + Sync>, LogFormat) {
    match format {
        LogFormat::Journald => match tracing_journald::layer() {
            Ok(journal) => (Box::new(dressed(journal)), LogFormat::Journald),
            Err(_) => (text(), LogFormat::Text),
        },
        LogFormat::Json => (Box::new(JsonLayer::new(io::stderr)), LogFormat::Json),
        LogFormat::Text => (text(), LogFormat::Text),
    }
}

fn text() -> Box<dyn Layer<Registry> + Send + Sync> {
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    Box::new(tracing_subscriber::fmt::layer().with_writer(|| OneLine).with_ansi(colours).with_target(false))
}

/// Standard error, one line for each event, which arrives in one call.
struct OneLine;

impl Write for OneLine {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        io::stderr().lock().write_all(&on_one_line(event))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn on_one_line(event: &[u8]) -> Vec<u8> {
    let (body, end) = event.strip_suffix(b"\n").map_or((event, &b""[..]), |body| (body, &b"\n"[..]));
    let mut line: Vec<u8> =
        body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect();
    line.extend_from_slice(end);
    line
}

/// No prefix, so that `journalctl SUBMISSION_ID=…` works; syslog's priorities, so that `-p warning` works as usual.
fn dressed(journal: tracing_journald::Layer) -> tracing_journald::Layer {
    journal.with_field_prefix(None).with_syslog_identifier("maple-router".to_owned()).with_priority_mappings(
        PriorityMappings {
            error: Priority::Error,
            warn: Priority::Warning,
            info: Priority::Informational,
            debug: Priority::Debug,
            trace: Priority::Debug,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_level_leaves_libraries_at_warn() {
        assert_eq!(filter("debug").expect("a level").to_string(), "maple_router=debug,warn");
        assert_eq!(filter("error").expect("a level").to_string(), "error");
        assert_eq!(
            filter("maple_router::cli=trace").expect("a directive").to_string(),
            "maple_router::cli=trace"
        );
        let shown = filter("info=loud=").expect_err("refused").to_string();
        assert!(shown.contains("info=loud="), "{shown}");
    }

    #[test]
    fn an_event_is_one_line() {
        assert_eq!(on_one_line(b"WARN a\nb\r\nc\n"), b"WARN a b  c\n");
        assert_eq!(on_one_line(b"half"), b"half");
    }

    #[test]
    fn libraries_are_never_logged_below_a_warning() {
        use std::sync::{Arc, Mutex};
        #[derive(Clone, Default)]
        struct Received(Arc<Mutex<Vec<String>>>);
        impl<S: tracing::Subscriber> Layer<S> for Received {
            fn on_event(&self, event: &tracing::Event<'_>, _ctx: tracing_subscriber::layer::Context<'_, S>) {
                self.0.lock().expect("lock").push(event.metadata().target().to_owned());
            }
        }
        let received = Received::default();
        let filter = parse("trace,tokio_postgres=debug,hyper=trace").expect("directives");
        let subscriber = tracing_subscriber::registry()
            .with(filter.and_then(filter_fn(is_fit_for_a_journal)).and_then(received.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(target: "tokio_postgres::query", "executing statement with parameters: [..]");
            tracing::info!(target: "hyper", "GET https://…X-Goog-Signature=…");
            tracing::warn!(target: "rustls", "trouble");
            tracing::info!(target: "maple_router_not", "somebody else");
            tracing::trace!(target: "maple_router", "ours");
            tracing::trace!(target: "maple_router::cli", "ours");
        });
        assert_eq!(*received.0.lock().expect("lock"), ["rustls", "maple_router", "maple_router::cli"]);
    }
}
