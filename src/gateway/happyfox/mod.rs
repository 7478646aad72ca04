//! HappyFox's HTTP API 1.1: makes tickets, finds them by a tag, reads the lists that their fields come from.
//!
//! The client repeats nothing by itself, follows no redirect and keeps no ticket. If we die while a creation is on its way,
//! the ticket may exist: it has its tag, and whoever asks [`HelpDeskClient::find`] for that knows. Neither subject, body,
//! fields nor contact of a ticket, nor a credential, is in a log, an error or `Debug`; the help desk's own words are scrubbed
//! and cut before they become evidence. Nothing here knows what a submission is.

mod answer;
mod cache;
mod classify;
mod directory;
mod files;
mod http;
mod limits;
mod objection;
mod pace;
mod payload;
mod waits;
mod words;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use url::Url;

pub use self::directory::{Category, Choice, CustomField, Directory};
pub use self::objection::objections;
pub use self::payload::LONGEST_SUBJECT;

use self::answer::Page;
use self::cache::Cache;
use self::classify::{Answer, Heard};
use self::http::Http;
use self::limits::Limits;
use self::payload::Field;
use crate::config::HappyFox;
use crate::config::secret::Secret;
use crate::ports::{Clock, Creation, Fault, NewTicket, Stage, TicketRef, Unanswered};

/// Tickets on one page of a search; ours are few.
const PAGE_SIZE: &str = "10";
/// Pages of a search that are read: with more, it did not search for the tag.
const MOST_PAGES: u64 = 5;

/// A help desk that cannot be spoken to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelpDeskError {
    /// The address is missing or cannot be used.
    #[error("[happyfox] base_url {0}")]
    Address(&'static str),
    /// No client can be made.
    #[error(
        "no HTTPS client for the help desk can be made: {0}; install the host's CA certificates (package ca-certificates)"
    )]
    Client(String),
}

/// The two halves of the account's credentials; `Debug` shows neither.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The API key.
    pub api_key: Secret,
    /// The auth code.
    pub auth_code: Secret,
}

/// What a client needs to know of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelpDeskSettings {
    /// The API's address, with a slash at its end.
    pub base_url: Url,
    /// Name look-up, TCP and TLS.
    pub connect_timeout: Duration,
    /// Silence of a connection.
    pub read_timeout: Duration,
    /// One request, from connect to the last byte of its answer.
    pub timeout: Duration,
    /// Creations a minute of all daemons of the database.
    pub max_per_minute: u32,
}

impl HelpDeskSettings {
    /// The settings of `[happyfox]`.
    ///
    /// # Errors
    /// [`HelpDeskError::Address`].
    pub fn new(config: &HappyFox) -> Result<Self, HelpDeskError> {
        let address = config.base_url.as_deref().ok_or(HelpDeskError::Address("is not set"))?;
        Ok(Self {
            base_url: crate::config::happyfox_api(address).map_err(HelpDeskError::Address)?,
            connect_timeout: config.connect_timeout,
            read_timeout: config.read_timeout,
            timeout: config.timeout,
            max_per_minute: config.max_per_minute,
        })
    }
}

/// What a look at the help desk tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Categories that the credentials see.
    pub categories: usize,
    /// Requests left until the limit, where an answer says so.
    pub limit_left: Option<u64>,
    /// The help desk's own time.
    pub date: Option<Timestamp>,
}

/// The one client of a help desk. Shared by reference; safe to use from many tasks at once.
pub struct HelpDeskClient {
    http: Http,
    limits: Limits,
    cache: Cache,
    clock: Arc<dyn Clock>,
    host: String,
}

impl fmt::Debug for HelpDeskClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelpDeskClient").field("host", &self.host).finish_non_exhaustive()
    }
}

impl HelpDeskClient {
    /// A client; connects to nothing.
    ///
    /// # Errors
    /// [`HelpDeskError`].
    pub fn new(
        settings: &HelpDeskSettings,
        credentials: Credentials,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, HelpDeskError> {
        Ok(Self {
            http: Http::new(settings, credentials)?,
            limits: Limits::new(settings.max_per_minute, clock.clone()),
            cache: Cache::default(),
            clock,
            host: settings.base_url.host_str().unwrap_or_default().to_owned(),
        })
    }

    /// Makes one ticket. Waits for its place by the pace, never through a throttle; `may_send` is asked when there is a
    /// connection, immediately before the content is written, and its fault comes back as [`Creation::AboutUs`].
    ///
    /// Dropped before `may_send` was asked, nothing was sent; dropped later, the ticket may exist.
    pub async fn create(
        &self,
        ticket: &NewTicket,
        may_send: &(dyn Fn() -> Result<(), Fault> + Sync),
    ) -> Creation {
        let fields = match self.fields(ticket).await {
            Ok(fields) => fields,
            Err(creation) => return creation,
        };
        let files = match files::parts(&ticket.files) {
            Ok(files) => files,
            Err(fault) => return Creation::AboutUs(fault),
        };
        if let Err(wait) = self.limits.acquire().await {
            return held_back(throttled(Stage::Post, wait));
        }
        match self.http.post(fields, files, may_send).await {
            Ok(heard) => {
                self.note(&heard);
                match classify::creation(heard) {
                    Creation::Throttled { fault, wait } => {
                        Creation::Throttled { fault, wait: self.limits.throttle(wait) }
                    }
                    creation @ (Creation::Created(_)
                    | Creation::Refused(_)
                    | Creation::TooLarge(_)
                    | Creation::AboutUs(_)
                    | Creation::Unknown(_)) => creation,
                }
            }
            Err(fault) => Creation::AboutUs(fault),
        }
    }

    /// Every ticket whose own tags have exactly this one. The index may be behind: a ticket made a moment ago may be missing.
    ///
    /// # Errors
    /// [`Unanswered`]: nothing is known then, least of all that there is no such ticket.
    pub async fn find(&self, tag: &str) -> Result<Vec<TicketRef>, Unanswered> {
        if !payload::is_tag(tag) {
            return Err(classify::unasked("what is searched for is no tag that can be searched for"));
        }
        let search = format!("tag:\"{tag}\"");
        let mut found: Vec<TicketRef> = Vec::new();
        for page in 1..=MOST_PAGES {
            let number = page.to_string();
            let query = [("status", "_all"), ("q", &search), ("size", PAGE_SIZE), ("page", &number)];
            let answer = self.ask("tickets/", &query).await?;
            let Page { found: ours, pages } =
                answer::page(&answer.body, tag).map_err(|why| classify::unreadable(answer.status, why))?;
            found.extend(ours);
            if page >= pages {
                found.sort();
                found.dedup_by_key(|ticket| ticket.id);
                return Ok(found);
            }
        }
        Err(classify::unreadable(200, "its search finds more tickets than can have our tag"))
    }

    /// Categories and custom fields, at most an hour old.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn directory(&self) -> Result<Arc<Directory>, Unanswered> {
        let oldest = self.clock.monotonic().checked_sub(cache::KEPT_FOR);
        self.cache.since(oldest, &*self.clock, self.read_directory()).await
    }

    /// Categories and custom fields, asked for now.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn fresh_directory(&self) -> Result<Arc<Directory>, Unanswered> {
        self.cache.since(Some(self.clock.monotonic()), &*self.clock, self.read_directory()).await
    }

    /// Asks whether the credentials work, and what is left of the limit.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn probe(&self) -> Result<Probe, Unanswered> {
        let answer = self.ask("categories/", &[]).await?;
        let categories = Directory::read(&answer.body, "[]", "[]")
            .map_err(|why| classify::unreadable(answer.status, why))?
            .categories
            .len();
        Ok(Probe { categories, limit_left: answer.limit_left, date: answer.date })
    }

    /// The instant at which the next creation may go, by the pace and by a throttle.
    #[must_use]
    pub fn ready_at(&self, now: Instant) -> Instant {
        self.limits.pace().ready_at(now)
    }

    /// Waits until the next creation may go, through a throttle as well; takes no place.
    pub async fn ready(&self) {
        self.limits.ready().await;
    }

    /// Whether the help desk wants no request now.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        self.limits.throttled().is_some()
    }

    /// Holds the first creation back for as long as others may not know that they share, and for one interval, because a
    /// process before this one may have made a ticket a moment ago.
    pub fn hold(&self, others: Duration) {
        let from = self.limits.now() + others;
        self.limits.change(|pace| pace.hold(from + pace.interval()));
    }

    /// Sets how many daemons share the allowance.
    pub fn set_share(&self, daemons: u32) {
        self.limits.change(|pace| pace.set_share(daemons));
    }

    /// Sets the allowance of all daemons together, as after a reload.
    pub fn set_max_per_minute(&self, max_per_minute: u32) {
        self.limits.change(|pace| pace.set_max_per_minute(max_per_minute));
    }

    /// The fields of a ticket. What is missed is looked for once more in a directory of now.
    async fn fields(&self, ticket: &NewTicket) -> Result<Vec<Field>, Creation> {
        let of = |fault: Fault| {
            if fault.about_us { Creation::AboutUs(fault) } else { Creation::Refused(fault) }
        };
        payload::check(ticket).map_err(of)?;
        let began = self.clock.monotonic();
        let known = self.directory().await.map_err(held_back)?;
        if let Ok(fields) = payload::fields(ticket, &known) {
            return Ok(fields);
        }
        let oldest = began.checked_sub(cache::MISSED_AFTER).unwrap_or(began);
        let fresh = self.cache.since(Some(oldest), &*self.clock, self.read_directory()).await;
        payload::fields(ticket, &*fresh.map_err(held_back)?).map_err(of)
    }

    async fn read_directory(&self) -> Result<Directory, Unanswered> {
        let categories = self.ask("categories/", &[]).await?;
        let ticket_fields = self.ask("ticket_custom_fields/", &[]).await?;
        let contact_fields = self.ask("user_custom_fields/", &[]).await?;
        Directory::read(&categories.body, &ticket_fields.body, &contact_fields.body)
            .map_err(|why| classify::unreadable(categories.status, why))
    }

    /// Asks one question, unless the help desk wants none.
    async fn ask(&self, path: &str, query: &[(&str, &str)]) -> Result<Answer, Unanswered> {
        if let Some(wait) = self.limits.throttled() {
            return Err(throttled(Stage::Get, wait));
        }
        let heard = self.http.get(path, query).await;
        self.note(&heard);
        classify::question(heard).map_err(|unanswered| Unanswered {
            wait: unanswered.wait.map(|asked| self.limits.throttle(asked)),
            ..unanswered
        })
    }

    /// Every answer but a throttle ends the doubling of waits.
    fn note(&self, heard: &Heard) {
        if matches!(heard, Heard::Answer(answer) if answer.status != 429) {
            self.limits.pace().answered();
        }
    }
}

/// Nothing was asked: the help desk still wants this wait.
fn throttled(stage: Stage, wait: Duration) -> Unanswered {
    let seconds = wait.as_secs().saturating_add(1);
    let words = format!("the help desk throttles us for about {seconds}s more, so nothing was sent");
    Unanswered { fault: words::of_ours(stage, &words), wait: Some(wait) }
}

/// A creation that was not begun, because something before it had no answer.
fn held_back(Unanswered { fault, wait }: Unanswered) -> Creation {
    match wait {
        Some(wait) => Creation::Throttled { fault, wait },
        None => Creation::AboutUs(fault),
    }
}
