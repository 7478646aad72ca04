//! Schema router on a database in use: applied and reverted so that no writer waits for long and none fails.
//!
//! Indexes are built CONCURRENTLY before anything else, outside transactions. A statement that locks a table gives up after
//! [`Patience::lock`], since writers queue behind us as long, and is repeated after a pause. Each step is done or not done:
//! if we die in the middle, the repeated command goes on, and also clears up the index that a killed build leaves behind.
//! Reverting never locks one of the two tables while it waits for the other, and never removes an undelivered event unless
//! forced.

use std::time::Duration;

use tokio_postgres::Client;

use super::{
    Applied, CONTENT, GRADER, GRADING, MigrateError, MigrationSet, ROUTER, SCREENING, failed, locked,
    run_locked,
};
use crate::db::error::DbErrorKind;

/// Time limits and numbers of attempts.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Limit for a table's lock: the longest time for which writers queue behind us.
    pub lock: Duration,
    /// Limit for the build of one index, which blocks nobody, but waits for transactions older than itself.
    pub index: Duration,
    /// Attempts to get a table's lock.
    pub tries: u32,
    /// Limit for the daemon to deliver the remaining events.
    pub drain: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            lock: Duration::from_secs(2),
            index: Duration::from_secs(3600),
            tries: 20,
            drain: Duration::from_secs(60),
        }
    }
}

impl Patience {
    /// Pause after the `n`th failed attempt, from 1: as long as we made others wait, then longer.
    fn rest(&self, n: u32) -> Duration {
        (self.lock * 2_u32.saturating_pow(n.saturating_sub(1))).min(Duration::from_secs(30))
    }
}

/// The sweeps' indexes, exactly as 002 makes them on an idle database.
pub const INDEXES: [(&str, &str); 5] = [
    ("submissions_router_received", "ON public.submissions (updated_at, id) WHERE status = 'received'"),
    ("submissions_router_processing", "ON public.submissions (id) WHERE status = 'processing'"),
    (
        "submissions_router_unalerted",
        "ON public.submissions (updated_at, id) WHERE status = 'failed' \
         AND (routing_result #>> '{alert,confirmed_at}' IS NULL \
         OR routing_result #>> '{alert,for}' IS DISTINCT FROM routing_result #>> '{finished,token}')",
    ),
    ("attachments_router_infected", "ON public.attachments (submission_id) WHERE clamav_status = 'infected'"),
    (
        "attachments_router_unclean",
        "ON public.attachments (submission_id) WHERE clamav_status IS DISTINCT FROM 'clean'",
    ),
];

/// The index of the review's reconciliation, exactly as 004 makes it on an idle database.
pub const REVIEW_INDEXES: [(&str, &str); 2] = [
    ("submissions_router_failed", "ON public.submissions (updated_at, id) WHERE status = 'failed'"),
    ("audit_log_router_failed", "ON public.audit_log (occurred_at, id) WHERE detail ? 'error'"),
];

/// The collector's indexes, exactly as 003 of schema content makes them on an idle database.
pub const CONTENT_INDEXES: [(&str, &str); 3] = [
    ("attachments_content_object", "ON public.attachments (gcs_bucket, gcs_object)"),
    (
        "submissions_content_expiring",
        "ON public.submissions (retention_expires_at, id) WHERE status IN ('routed', 'failed') AND retention_expires_at IS NOT NULL",
    ),
    (
        "submissions_content_ended",
        "ON public.submissions (created_at, id) WHERE status IN ('routed', 'failed') AND retention_expires_at IS NULL",
    ),
];

/// The indexes of schema router on the mission's tables, in the order of the files that make them.
pub fn all_indexes() -> impl Iterator<Item = (&'static str, &'static str)> {
    INDEXES.into_iter().chain(REVIEW_INDEXES)
}

/// Returns the statement that builds one of [`INDEXES`] without blocking writers.
#[must_use]
pub fn build(name: &str, on: &str) -> String {
    format!("CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} {on}")
}

/// The timestamptz that says when a submission was finalized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalizedColumn {
    /// No configuration is known: the column stays what it is.
    AsItIs,
    /// `[readiness] finalized_column`; `None`: a row exists from finalize on.
    Is(Option<String>),
}

/// The result of [`migrate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// Indexes that were built.
    pub built: Vec<&'static str>,
    /// Files that were applied.
    pub applied: Vec<Applied>,
    /// Whether the triggers use another column than before.
    pub column_changed: bool,
}

/// The contents of the outbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remains {
    /// Events that nobody has delivered yet.
    pub undelivered: i64,
    /// Events given up on; their dead-letter records stay.
    pub given_up: i64,
    /// Delivered events, not pruned yet.
    pub delivered: i64,
    /// Rows of the transition log.
    pub transitions: i64,
}

/// Brings schema router up to date. Run as the owner of the tables; `report` receives a message for each wait.
///
/// # Errors
/// [`MigrateError`].
pub async fn migrate(
    client: &mut Client,
    column: &FinalizedColumn,
    patience: Patience,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Routed, MigrateError> {
    locked(client, &ROUTER, async |client| {
        let built = indexes(client, all_indexes(), patience, report).await?;
        limits(client, patience.lock).await?;
        let mut tries = Tries::new(patience, report);
        let applied = loop {
            if let Some(applied) = tries.end(run_locked(client, &ROUTER).await).await? {
                break applied;
            }
        };
        let FinalizedColumn::Is(column) = column else {
            return Ok(Routed { built, applied, column_changed: false });
        };
        let sql = "SELECT router.set_finalized_column($1::text::name)";
        let mut tries = Tries::new(patience, report);
        let column_changed = loop {
            let named = client.query_one(sql, &[column]).await;
            let named = named.map_err(|error| failed("naming the finalized column", error));
            if let Some(row) = tries.end(named).await? {
                break row.get(0);
            }
        };
        Ok(Routed { built, applied, column_changed })
    })
    .await
}

/// Returns the current contents of the outbox; `None` where there is none.
///
/// # Errors
/// The database refuses.
pub async fn remains(client: &Client) -> Result<Option<Remains>, MigrateError> {
    let there = "SELECT to_regclass('router.outbox') IS NOT NULL";
    let asked = |error| failed("looking into the outbox", error);
    if !client.query_one(there, &[]).await.map_err(asked)?.get::<_, bool>(0) {
        return Ok(None);
    }
    let sql = "SELECT (SELECT count(*) FROM router.outbox WHERE state = 'dead_letter'),
        (SELECT count(*) FROM router.outbox WHERE state = 'delivered'), (SELECT count(*) FROM router.transitions)";
    let row = client.query_one(sql, &[]).await.map_err(asked)?;
    let undelivered = undelivered(client).await?;
    Ok(Some(Remains { undelivered, given_up: row.get(0), delivered: row.get(1), transitions: row.get(2) }))
}

/// Counted by the partial indexes, since this also runs under the table's lock.
async fn undelivered(client: &Client) -> Result<i64, MigrateError> {
    let sql = "SELECT (SELECT count(*) FROM router.outbox WHERE state = 'pending' AND kind <> 'canary')
        + (SELECT count(*) FROM router.outbox WHERE state = 'retry_wait' AND kind <> 'canary')
        + (SELECT count(*) FROM router.outbox WHERE state = 'delivering' AND kind <> 'canary')";
    let row = client.query_one(sql, &[]).await.map_err(|error| failed("looking into the outbox", error))?;
    Ok(row.get(0))
}

/// Reverts a file of schema router, and before it the files applied after it: their `down/` files are run, and their history
/// entries removed. Without `force` it waits for the daemon to deliver the remaining events once nobody writes any more.
/// Returns how many undelivered events were removed.
///
/// # Errors
/// [`MigrateError::Undelivered`] without `force`: the triggers are gone, the outbox is not; the command may be repeated.
/// [`MigrateError::NoWayBack`]: the file is not applied, or cannot be reverted.
pub async fn back(
    client: &mut Client,
    stem: &str,
    force: bool,
    patience: Patience,
    report: &(dyn Fn(&str) + Sync),
) -> Result<i64, MigrateError> {
    let ways = ways_back(&ROUTER, stem)?;
    for (set, why) in STANDING {
        let stands = newest(client, set).await?.is_some();
        // Screening and grading stand on the review queue's words as well.
        let on_words = set.name == SCREENING.name || set.name == GRADING.name;
        if stands && ways.iter().any(|way| way.takes_events || (on_words && way.version <= 4)) {
            return Err(MigrateError::NoWayBack { stem: stem.to_owned(), why });
        }
    }
    revert(client, &ROUTER, ways, stem, force, patience, report).await
}

/// The schemas that stand on schema router, and what is done first.
const STANDING: [(&MigrationSet, &str); 3] = [
    (&CONTENT, "schema content stands on it: maple-router migrate --content --back 001 first"),
    (&SCREENING, "schema screening stands on it: maple-router migrate --screening --back 001 first"),
    (&GRADING, "schema assessment stands on it: maple-router migrate --grading --back 001 first"),
];

/// Brings a schema that stands on schema router up to date, as [`migrate`] does that.
///
/// # Errors
/// [`MigrateError`].
pub async fn migrate_upper(
    client: &mut Client,
    set: &MigrationSet,
    patience: Patience,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Vec<Applied>, MigrateError> {
    locked(client, set, async |client| {
        let sql = "SELECT to_regclass($1) IS NOT NULL";
        let asked = client.query_one(sql, &[&set.foundation]).await;
        if !asked.map_err(|error| failed("looking for tables", error))?.get::<_, bool>(0) {
            return Err(MigrateError::Foundation { name: set.name });
        }
        if set.name == GRADER.name {
            let sql = "SELECT to_regclass('assessment.submissions') IS NOT NULL";
            let asked = client.query_one(sql, &[]).await;
            if asked.map_err(|error| failed("looking for tables", error))?.get::<_, bool>(0) {
                return Err(MigrateError::BothSides);
            }
        }
        if set.name == CONTENT.name {
            indexes(client, CONTENT_INDEXES.into_iter(), patience, report).await?;
        }
        limits(client, patience.lock).await?;
        let mut tries = Tries::new(patience, report);
        loop {
            if let Some(applied) = tries.end(run_locked(client, set).await).await? {
                return Ok(applied);
            }
        }
    })
    .await
}

/// Reverts a file of a schema that stands on schema router, and before it the files applied after it.
///
/// # Errors
/// [`MigrateError::NoWayBack`]: the file is not applied, or cannot be reverted.
pub async fn back_upper(
    client: &mut Client,
    set: &MigrationSet,
    stem: &str,
    patience: Patience,
    report: &(dyn Fn(&str) + Sync),
) -> Result<(), MigrateError> {
    let ways = ways_back(set, stem)?;
    revert(client, set, ways, stem, true, patience, report).await.map(|_| ())
}

async fn revert(
    client: &mut Client,
    set: &MigrationSet,
    ways: &[WayBack],
    stem: &str,
    force: bool,
    patience: Patience,
    report: &(dyn Fn(&str) + Sync),
) -> Result<i64, MigrateError> {
    locked(client, set, async |client| {
        let no = |why| MigrateError::NoWayBack { stem: stem.to_owned(), why };
        let newest = newest(client, set).await?.ok_or_else(|| no("nothing is applied here"))?;
        if ways.iter().all(|way| way.version != newest) {
            return Err(no("it is not applied here, or a file of a newer version is"));
        }
        limits(client, patience.lock).await?;
        let mut left = 0;
        for way in ways.iter().filter(|way| way.version <= newest) {
            left += take_back(client, set, way, force, patience, report).await?;
        }
        Ok(left)
    })
    .await
}

/// Reverts one file. Returns how many undelivered events were removed.
async fn take_back(
    client: &mut Client,
    set: &MigrationSet,
    way: &WayBack,
    force: bool,
    patience: Patience,
    report: &(dyn Fn(&str) + Sync),
) -> Result<i64, MigrateError> {
    let mut parts: Vec<&str> = way.sql.split(PART).skip(1).collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        // One statement for the server, so one transaction.
        let (sql, mut tries) = (format!("-- {part}"), Tries::new(patience, report));
        let taken = async || client.batch_execute(&sql).await.map_err(|error| failed("taking back", error));
        while tries.end(taken().await).await?.is_none() {}
    }
    if way.takes_events && !force {
        drained(client, patience, report).await?;
    }
    let mut tries = Tries::new(patience, report);
    loop {
        if let Some(left) = tries.end(bury(client, set, way, last, force).await).await? {
            return Ok(left);
        }
    }
}

/// The heading of a part of a `down/` file.
const PART: &str = "\n-- Part: ";

/// Returns the last version in the history.
async fn newest(client: &Client, set: &MigrationSet) -> Result<Option<i32>, MigrateError> {
    let reading = |error| failed("reading the history", error);
    let there = "SELECT to_regclass($1) IS NOT NULL";
    if !client.query_one(there, &[&set.history_table]).await.map_err(reading)?.get::<_, bool>(0) {
        return Ok(None);
    }
    let sql = format!("SELECT max(version) FROM {}", set.history_table);
    Ok(client.query_one(&sql, &[]).await.map_err(reading)?.get(0))
}

/// Waits until a daemon has delivered the remaining events.
async fn drained(
    client: &Client,
    patience: Patience,
    report: &(dyn Fn(&str) + Sync),
) -> Result<(), MigrateError> {
    let pause = Duration::from_millis(200);
    let mut waited = Duration::ZERO;
    loop {
        let left = undelivered(client).await?;
        if left == 0 {
            return Ok(());
        }
        if waited.is_zero() {
            report(&format!("nobody writes events any more; {left} are to be delivered by the daemon first"));
        }
        if waited >= patience.drain {
            return Err(MigrateError::Undelivered { left });
        }
        tokio::time::sleep(pause).await;
        waited += pause;
    }
}

/// A `down/` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WayBack {
    /// The version of the file that it reverts.
    pub version: i32,
    /// The stem of that file.
    pub stem: &'static str,
    /// The SQL, in parts.
    pub sql: &'static str,
    /// Whether the outbox is removed.
    takes_events: bool,
}

/// The `down/` files of schema content, the newest first.
const CONTENT_WAYS_BACK: [WayBack; 3] = [
    WayBack {
        version: 3,
        stem: "003_retention",
        sql: include_str!("../../../migrations/content/down/003_retention.sql"),
        takes_events: false,
    },
    WayBack {
        version: 2,
        stem: "002_versions",
        sql: include_str!("../../../migrations/content/down/002_versions.sql"),
        takes_events: false,
    },
    WayBack {
        version: 1,
        stem: "001_uploads",
        sql: include_str!("../../../migrations/content/down/001_uploads.sql"),
        takes_events: false,
    },
];

/// The `down/` file of what the grader needs.
const GRADER_WAY_BACK: WayBack = WayBack {
    version: 2,
    stem: "002_grader",
    sql: include_str!("../../../migrations/grading/down/002_grader.sql"),
    takes_events: false,
};

/// The `down/` files of schemas assessment, mq and grading, the newest first.
const GRADING_WAYS_BACK: [WayBack; 3] = [
    WayBack {
        version: 3,
        stem: "003_sides",
        sql: include_str!("../../../migrations/grading/down/003_sides.sql"),
        takes_events: false,
    },
    GRADER_WAY_BACK,
    WayBack {
        version: 1,
        stem: "001_assessment",
        sql: include_str!("../../../migrations/grading/down/001_assessment.sql"),
        takes_events: false,
    },
];

/// The `down/` files of schema screening, the newest first.
const SCREENING_WAYS_BACK: [WayBack; 1] = [WayBack {
    version: 1,
    stem: "001_screening",
    sql: include_str!("../../../migrations/screening/down/001_screening.sql"),
    takes_events: false,
}];

/// The `down/` files of schema router, the newest first.
const WAYS_BACK: [WayBack; 5] = [
    WayBack {
        version: 6,
        stem: "006_late_infection",
        sql: include_str!("../../../migrations/router/down/006_late_infection.sql"),
        takes_events: false,
    },
    WayBack {
        version: 5,
        stem: "005_outbox_order",
        sql: include_str!("../../../migrations/router/down/005_outbox_order.sql"),
        takes_events: false,
    },
    WayBack {
        version: 4,
        stem: "004_grey_queue",
        sql: include_str!("../../../migrations/router/down/004_grey_queue.sql"),
        takes_events: false,
    },
    WayBack {
        version: 3,
        stem: "003_daemons",
        sql: include_str!("../../../migrations/router/down/003_daemons.sql"),
        takes_events: false,
    },
    WayBack {
        version: 2,
        stem: "002_outbox",
        sql: include_str!("../../../migrations/router/down/002_outbox.sql"),
        takes_events: true,
    },
];

/// Returns the `down/` files of this file of a set and of every later one, by stem or number, the newest first.
///
/// # Errors
/// [`MigrateError::NoWayBack`]: the file has none.
pub fn ways_back(set: &MigrationSet, stem: &str) -> Result<&'static [WayBack], MigrateError> {
    let all: &'static [WayBack] = match set.name {
        name if name == CONTENT.name => &CONTENT_WAYS_BACK,
        name if name == SCREENING.name => &SCREENING_WAYS_BACK,
        name if name == GRADING.name => &GRADING_WAYS_BACK,
        name if name == GRADER.name => &[GRADER_WAY_BACK],
        _ => &WAYS_BACK,
    };
    let number = |name: &str| name.split('_').next().unwrap_or_default().trim_start_matches('0').to_owned();
    let meant = |way: &WayBack| way.stem == stem || number(way.stem) == stem.trim_start_matches('0');
    let why = "there is no such file, or no way back from it";
    let last = all.iter().position(meant);
    last.map(|last| &all[..=last]).ok_or_else(|| MigrateError::NoWayBack { stem: stem.to_owned(), why })
}

/// One attempt. An outbox to be removed is locked, counted, and then removed or left alone.
async fn bury(
    client: &mut Client,
    set: &MigrationSet,
    way: &WayBack,
    last: &str,
    force: bool,
) -> Result<i64, MigrateError> {
    let failing = |error| failed("taking back", error);
    let transaction = client.transaction().await.map_err(failing)?;
    let mut left = 0;
    if way.takes_events {
        let lock = "LOCK TABLE router.outbox IN ACCESS EXCLUSIVE MODE";
        transaction.batch_execute(lock).await.map_err(failing)?;
        left = undelivered(transaction.client()).await?;
    }
    if left > 0 && !force {
        return Err(MigrateError::Undelivered { left });
    }
    transaction.batch_execute(&format!("-- {last}")).await.map_err(failing)?;
    let history = format!("DELETE FROM {} WHERE version = $1", set.history_table);
    transaction.execute(&history, &[&way.version]).await.map_err(failing)?;
    transaction.commit().await.map_err(failing)?;
    Ok(left)
}

/// The attempts at one step, which changes all or nothing: it is repeated while another session has a lock it needs.
// A value, and no closure to call again: rustc does not see that a future borrowing the client is Send.
struct Tries<'a> {
    patience: Patience,
    report: &'a (dyn Fn(&str) + Sync),
    made: u32,
}

impl<'a> Tries<'a> {
    fn new(patience: Patience, report: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { patience, report, made: 0 }
    }

    /// Returns the result of an attempt, or nothing, after a pause, when another is to follow.
    async fn end<T>(&mut self, tried: Result<T, MigrateError>) -> Result<Option<T>, MigrateError> {
        self.made += 1;
        match tried {
            Err(error) if error.is_busy() && self.made < self.patience.tries => {
                let rest = self.patience.rest(self.made);
                (self.report)(&format!(
                    "the tables are in use ({error}): nothing was changed, try {} of {} in {} s",
                    self.made + 1,
                    self.patience.tries,
                    rest.as_secs()
                ));
                tokio::time::sleep(rest).await;
                Ok(None)
            }
            done => done.map(Some),
        }
    }
}

/// Sets the session's limits for statements that lock tables.
async fn limits(client: &Client, lock: Duration) -> Result<(), MigrateError> {
    let sql = format!("SET lock_timeout = {}", lock.as_millis());
    client.batch_execute(&sql).await.map_err(|error| failed("setting limits", error))
}

/// Builds the missing indexes one after the other, after dropping those that an earlier attempt left unfinished.
async fn indexes(
    client: &Client,
    wanted: impl Iterator<Item = (&'static str, &'static str)>,
    patience: Patience,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Vec<&'static str>, MigrateError> {
    let failing = |error| failed("building an index", error);
    // The build's lock on the table stops no writer, so that nobody queues behind it.
    let limits = format!("SET lock_timeout = 0; SET statement_timeout = {}", patience.index.as_millis());
    client.batch_execute(&limits).await.map_err(failing)?;
    let mut built = Vec::new();
    for (name, on) in wanted {
        let sql =
            "SELECT i.indisvalid FROM pg_index i WHERE i.indexrelid = to_regclass('public.' || $1::text)";
        match client.query_opt(sql, &[&name]).await.map_err(failing)?.map(|row| row.get::<_, bool>(0)) {
            Some(true) => continue,
            Some(false) => {
                report(&format!("index {name} is left from a build that did not end: built anew"));
                let sql = format!("DROP INDEX CONCURRENTLY public.{name}");
                client.batch_execute(&sql).await.map_err(failing)?;
            }
            None => {}
        }
        client.batch_execute(&build(name, on)).await.map_err(failing)?;
        built.push(name);
    }
    Ok(built)
}

/// Returns the SQL of [`migrate`], for people.
#[must_use]
pub fn sql(set: &MigrationSet) -> String {
    let indexes = all_indexes().map(|(name, on)| format!("{};\n", build(name, on)));
    let files = set.files.iter().map(|(stem, sql)| format!("-- {stem}\n{}\n\n", sql.trim_end()));
    format!(
        "-- beforehand, each by itself, outside a transaction\n{}\n{};\n\n{}",
        indexes.collect::<String>(),
        set.prepare,
        files.collect::<String>()
    )
}

impl MigrateError {
    /// Whether another session has a lock that we no longer waited for.
    fn is_busy(&self) -> bool {
        matches!(self, Self::Database { source, .. }
            if source.kind() == DbErrorKind::Busy && source.sqlstate() != Some("57014"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_and_end() {
        let patience = Patience::default();
        let rests: Vec<u64> = (1..=7).map(|n| patience.rest(n).as_secs()).collect();
        assert_eq!(rests, [2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(patience.rest(u32::MAX).as_secs(), 30);
    }

    /// The indexes built beforehand are those that the file would build.
    #[test]
    fn the_indexes_are_those_of_the_file() {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        type OfFile<'a> = (&'a MigrationSet, &'a str, &'a [(&'a str, &'a str)]);
        let of_file: [OfFile<'_>; 3] = [
            (&ROUTER, "002_outbox", &INDEXES),
            (&ROUTER, "004_grey_queue", &REVIEW_INDEXES),
            (&CONTENT, "003_retention", &CONTENT_INDEXES),
        ];
        for (set, stem, indexes) in of_file {
            let (_, file) = set.files.iter().find(|file| file.0 == stem).expect("the file");
            let file = squeezed(file);
            for (name, on) in indexes {
                let plain = squeezed(&format!("CREATE INDEX IF NOT EXISTS {name} {on};"));
                assert!(file.contains(&plain), "{plain}");
            }
            assert_eq!(file.matches("CREATE INDEX IF NOT EXISTS").count(), indexes.len());
        }
    }

    #[test]
    fn the_way_back_is_found_by_number_or_name() {
        let versions = |name: &str| {
            ways_back(&ROUTER, name).map(|ways| ways.iter().map(|way| way.version).collect::<Vec<_>>())
        };
        for name in ["002", "2", "002_outbox"] {
            assert_eq!(versions(name).expect(name), [6, 5, 4, 3, 2], "what came after it goes first");
        }
        assert_eq!(versions("006").expect("the last"), [6]);
        for name in ["001", "007", "", "outbox", "002_records"] {
            assert!(ways_back(&ROUTER, name).is_err(), "{name}");
        }
        for (way, file) in WAYS_BACK.iter().zip(ROUTER.files.iter().rev()) {
            assert_eq!(way.stem, file.0, "every file after the first has one");
            assert!(way.stem.starts_with(&format!("{:03}_", way.version)), "{way:?}");
        }
        let parts: Vec<&str> = WAYS_BACK[4].sql.split(PART).skip(1).collect();
        assert_eq!(parts.len(), 3);
        for (part, table, other) in [(0, "attachments", "submissions"), (1, "submissions", "attachments")] {
            assert!(parts[part].contains(&format!("ON public.{table}")), "{table}");
            assert!(!parts[part].contains(&format!("public.{other}")), "one table at a time");
        }
    }

    /// The function that 003 removed comes back as 002 has it.
    #[test]
    fn the_bell_comes_back_as_it_was() {
        let (_, file) = ROUTER.files.iter().find(|(stem, _)| *stem == "002_outbox").expect("the file");
        let body = |text: &str| {
            let (_, after) = text.split_once("FUNCTION router.ring()").expect("it");
            after.split_once("\n$$;").expect("its end").0.to_owned()
        };
        assert_eq!(body(WAYS_BACK[3].sql), body(file));
    }
}
