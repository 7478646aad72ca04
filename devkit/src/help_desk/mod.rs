//! A help desk on loopback that speaks the HappyFox HTTP API 1.1 (JSON), as good as the real one by default and as bad as a
//! test asks for by rule. **A stand-in**: it has never been compared with the service itself, it says in the `Server` header of
//! every answer what it is, and the other end of the comparison is the published client `hfox`, which
//! `tests/help_desk_conformance.rs` runs against it unchanged.
//!
//! It speaks `categories/`, `ticket_custom_fields/`, `user_custom_fields/`, `priorities/`, `statuses/`, `staff/`, `tickets/` (POST:
//! one ticket as JSON or `multipart/form-data`; GET: search and list), `ticket/ID/` and `ticket/ID/update_tags/` below
//! `/api/1.1/json/`, over plain HTTP/1.1, with HTTP Basic authentication and the account's limits. What it does not speak it
//! refuses in words: lists of tickets in one request, form-urlencoded bodies, replies, notes, contacts, searches by date.
//!
//! What is **documented** and what is **guessed** stands at the head of each file, guesses always to the strict side. Sources:
//! HappyFox's knowledge base (`https://support.happyfox.com/kb/article/N-…/`), articles 360 (lists of the account's attributes),
//! 1039 (tickets), 1092 (contacts), 1148 (limits); its old reference manual (`http://www.happyfox.com/developers/api/1.1/`, in
//! full at `https://github.com/reachvijay/HappyAPI`: realm, `__all__`, the page's description); and the source of hfox
//! (`https://github.com/leoherzog/hfox`: how a 429 names its wait). No source says how far the search index lags behind a creation,
//! what a body that is too large is answered, or what a ticket looks like whose category was removed.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use devkit::help_desk::{Act, Call, HelpDesk, HelpDeskOptions, Rule, Stage};
//!
//! let desk = HelpDesk::start(HelpDeskOptions::default()).await?;
//! // The next ticket is made, and its answer lost; a search does not see it before the test says so.
//! desk.rule(Rule::at(Stage::Answer).call(Call::Create).times(1).act(Act::Disconnect));
//! desk.hold_index();
//! // … a client with `desk.api_url()`, `desk.api_key()`, `desk.auth_code()` …
//! desk.await_tickets(1, std::time::Duration::from_secs(10)).await?;
//! desk.release_index();
//! # Ok(())
//! # }
//! ```
//!
//! In memory only: when the process dies, nothing is left; while it lives, tickets outlive a stop.

mod account;
mod answer;
mod calls;
mod desk;
mod door;
mod draft;
mod limits;
mod lock;
mod payload;
mod port;
mod refusal;
mod rules;
mod search;
mod serve;
mod store;
mod ticket;
mod work;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};

use self::desk::{Desk, now};
use self::lock::lock;
use self::store::Store;
use crate::trap::Trapped;

pub use self::account::{Account, Category, Choice, Field, Kind};
pub use self::calls::Asked;
pub use self::desk::Counters;
pub use self::door::Door;
pub use self::limits::{Limits, Naming, Peaks, Wait};
pub use self::payload::File;
pub use self::rules::{Act, Call, Rule, Stage};
pub use self::store::Keep;
pub use self::ticket::{Contact, Ticket};

/// What a help desk starts with; `Default` is the sample account with HappyFox's own limits.
#[derive(Debug, Clone)]
pub struct HelpDeskOptions {
    /// Categories and custom fields.
    pub account: Account,
    /// Limits of GETs and POSTs.
    pub limits: Limits,
    /// The user of HTTP Basic authentication.
    pub api_key: String,
    /// The password of HTTP Basic authentication.
    pub auth_code: String,
    /// How much of a ticket is kept.
    pub keep: Keep,
    /// Largest body, in bytes; beyond it 413. A guess: the documentation limits files alone.
    pub body_limit: usize,
    /// Most bytes of a ticket's files together: 25 MB, documented.
    pub files_limit: usize,
}

impl Default for HelpDeskOptions {
    fn default() -> Self {
        Self {
            account: Account::sample(),
            limits: Limits::default(),
            api_key: "stand-in-api-key-3f0c1d".to_owned(),
            auth_code: "stand-in-auth-code-9b7e42".to_owned(),
            keep: Keep::default(),
            body_limit: 32 << 20,
            files_limit: 25_000_000,
        }
    }
}

/// A help desk that runs, or is stopped; dropping it stops it. Its rules hold at all of its doors.
#[derive(Debug)]
pub struct HelpDesk {
    desk: Arc<Desk>,
    door: Door,
    api_key: String,
    auth_code: String,
}

impl HelpDesk {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(options: HelpDeskOptions) -> Result<Self> {
        let HelpDeskOptions { account, limits, api_key, auth_code, keep, body_limit, files_limit } = options;
        let desk = Arc::new(Desk::new(account, limits, Store::new(keep), body_limit, files_limit));
        desk.set_credentials(&api_key, &auth_code);
        let door = Door::open(&desk).await?;
        Ok(Self { desk, door, api_key, auth_code })
    }

    /// Opens a further port, with rules of its own; [`Self::stop`] and [`Self::restart`] are about the first one alone.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn door(&self) -> Result<Door> {
        Door::open(&self.desk).await
    }

    /// `http://127.0.0.1:PORT`, the form of `HFOX_BASE_URL`.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.door.base_url()
    }

    /// The base URL with the API's path and a slash at its end.
    #[must_use]
    pub fn api_url(&self) -> String {
        self.door.api_url()
    }

    /// The API key it was started with.
    #[must_use]
    pub fn api_key(&self) -> &str {
        &self.api_key
    }

    /// The auth code it was started with.
    #[must_use]
    pub fn auth_code(&self) -> &str {
        &self.auth_code
    }

    /// The section of a router's configuration that leads here; the credentials become files in `dir`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn settings(&self, dir: &Path) -> Result<String> {
        let secret = |name: &str, text: &str| -> Result<String> {
            let path = dir.join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            Ok(path.display().to_string())
        };
        Ok(format!(
            "[happyfox]\nbase_url = \"{}\"\napi_key_file = \"{}\"\nauth_code_file = \"{}\"\n",
            self.base_url(),
            secret("happyfox-api-key", self.api_key())?,
            secret("happyfox-auth-code", self.auth_code())?,
        ))
    }

    /// Lets in this pair from now on, and no other: who has the old one is refused.
    pub fn set_credentials(&self, api_key: &str, auth_code: &str) {
        self.desk.set_credentials(api_key, auth_code);
    }

    /// Changes the account: `desk.change(|account| account.set_public(1, false))`.
    pub fn change<T>(&self, change: impl FnOnce(&mut Account) -> T) -> T {
        change(&mut lock(&self.desk.account))
    }

    /// Sets the limits from now on; what was counted stays counted.
    pub fn set_limits(&self, limits: Limits) {
        *lock(&self.desk.limits) = limits;
    }

    /// Refuses every request with 429 for so long, as if a limit had been passed.
    pub fn throttle(&self, time: Duration) {
        lock(&self.desk.meter).throttle(now(), time);
    }

    /// Ends a throttle, and begins to count anew.
    pub fn end_throttle(&self) {
        lock(&self.desk.meter).end_throttle();
    }

    /// Adds a rule behind those there are.
    pub fn rule(&self, rule: Rule) {
        lock(&self.desk.script).add(rule);
    }

    /// Stops the first request that this rule matches before the rule acts, until it is released; cut, its connection ends
    /// there. At [`Stage::Body`] nothing is done yet, and released it will be, also when the client is gone meanwhile; at
    /// [`Stage::Answer`] the ticket is made. Once, as every [`Trapped`]; `skip` chooses which.
    pub fn trap(&self, rule: Rule) -> Trapped {
        lock(&self.desk.script).trap(rule)
    }

    /// Makes the help desk a good one again; a request caught in a trap stays there.
    pub fn clear_rules(&self) {
        lock(&self.desk.script).clear();
    }

    /// From now on a search sees a ticket so long after it was made. `ticket/ID/` sees it at once.
    pub fn set_index_lag(&self, lag: Duration) {
        self.desk.store.lag(lag);
    }

    /// From now on a search sees no ticket that is not made yet, until [`Self::release_index`].
    pub fn hold_index(&self) {
        self.desk.store.hold();
    }

    /// The index has everything, and lags no more.
    pub fn release_index(&self) {
        self.desk.store.catch_up();
    }

    /// The tickets made so far, oldest first.
    #[must_use]
    pub fn tickets(&self) -> Vec<Arc<Ticket>> {
        self.desk.store.all()
    }

    /// The tickets with this tag, oldest first, whatever the index has.
    #[must_use]
    pub fn tagged(&self, tag: &str) -> Vec<Arc<Ticket>> {
        let has = |ticket: &Arc<Ticket>| ticket.tags.iter().any(|known| known == tag);
        self.tickets().into_iter().filter(has).collect()
    }

    /// How many tickets have each tag.
    #[must_use]
    pub fn digests(&self) -> BTreeMap<String, u64> {
        self.desk.store.digests()
    }

    /// The help desk's [`Counters`].
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.desk.counters()
    }

    /// The requests that were about a tag and were read whole, in their order.
    #[must_use]
    pub fn calls(&self) -> Vec<Asked> {
        self.desk.calls.all()
    }

    /// Forgets the requests so far, not what came of them.
    pub fn forget_calls(&self) {
        self.desk.calls.clear();
    }

    /// The most GETs and POSTs that arrived in any window of the limits, refused ones included.
    #[must_use]
    pub fn peaks(&self) -> Peaks {
        lock(&self.desk.meter).peaks()
    }

    /// Waits until `n` tickets are made and returns them; says how many there were when time ran out.
    ///
    /// # Errors
    /// Fewer were made in time.
    pub async fn await_tickets(&self, n: u64, patience: Duration) -> Result<Vec<Arc<Ticket>>> {
        let mut made = self.desk.store.watch();
        let enough = tokio::time::timeout(patience, made.wait_for(|have| *have >= n)).await;
        if !matches!(enough, Ok(Ok(_))) {
            bail!("{} of {n} tickets at the help desk after {patience:?}", self.counters().made);
        }
        Ok(self.tickets())
    }

    /// Help desk down: connects are refused and every connection breaks where it stands. Nothing is made once it returns.
    pub async fn stop(&self) {
        self.door.stop().await;
    }

    /// Help desk up again on the same port; tickets, rules, limits and counters are kept.
    ///
    /// # Errors
    /// When the port has been taken meanwhile.
    pub async fn restart(&self) -> Result<()> {
        self.door.restart().await
    }
}
