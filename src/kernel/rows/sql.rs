//! The statements of a lifecycle's rows, made once from its table and its relation. Each starts with its name, and records
//! its transition in the same statement.
//!
//! Rows are claimed with SKIP LOCKED, so that instances never wait for each other, and written under their fence. `now()`
//! only compares and `clock_timestamp()` only writes.
//!
//! What a statement has locked it changes by an array of ids, and asks for nothing else: under its lock a row is what it was
//! when it was locked. A condition on the state would offer the planner that state's index, and statistics from before a
//! burst make it read the whole backlog there for each few rows.

use super::{Log, Stored};
use crate::kernel::{Edge, Lifecycle, Timer, Who, Word};

/// Place of the kinds in a statement that takes some: [`Kinds`](super::Kinds) has them.
pub(super) const KINDS: &str = "$kinds";

/// The statements of one lifecycle.
#[derive(Debug)]
pub(super) struct Statements<S> {
    /// By the state in which rows wait.
    pub(super) claims: Vec<(S, String)>,
    /// By the state in which rows wait.
    pub(super) waits: Vec<(S, String)>,
    /// By timer, in the order in which they fire.
    pub(super) timers: Vec<(Timer, String)>,
    pub(super) lock: String,
    pub(super) read: String,
    pub(super) write: String,
    pub(super) extend: String,
    pub(super) depths: String,
    pub(super) prune: Option<String>,
    /// What the common log has of a row: `$1` its id as text, `$2` the most.
    pub(super) history: String,
}

/// The record of a transition, as SQL expressions on `u`.
struct Said<'a> {
    from: &'a str,
    to: &'a str,
    command: &'a str,
    actor: &'a str,
    who: &'a str,
    reason: &'a str,
    columns: &'a str,
    /// The states before and after may be the same, and only the row knows.
    may_stay: bool,
}

type EdgeOf<L> = Edge<<L as Lifecycle>::State, <L as Lifecycle>::Command>;

impl<L: Stored> From<std::marker::PhantomData<L>> for Statements<L::State> {
    fn from(_: std::marker::PhantomData<L>) -> Self {
        let (name, relation) = (L::NAME, L::RELATION.name);
        let by_state = |statement: fn(L::State, L::State) -> String| {
            L::TABLE
                .iter()
                .filter(|edge| is_claim::<L>(edge.command))
                .filter_map(|edge| Some((edge.from?, statement(edge.from?, edge.to))))
                .collect()
        };
        Self {
            claims: by_state(claim::<L>),
            waits: by_state(waits::<L>),
            timers: timers::<L>(),
            // In id order, so that two writers cannot deadlock.
            lock: format!(
                "-- {name}_lock
SELECT o.id FROM {relation} o WHERE o.id = ANY($1::{}[]) ORDER BY o.id FOR NO KEY UPDATE",
                id::<L>()
            ),
            read: format!(
                "-- {name}_read
SELECT o.id, o.state, {}, {} AS version, {} FROM {relation} o WHERE o.id = ANY($1::{}[])",
                if L::WORK.is_some() {
                    "o.attempts, o.claims, o.lease_token"
                } else {
                    "0 AS attempts, 0 AS claims, NULL::uuid AS lease_token"
                },
                if L::RELATION.versioned { "o.version" } else { "NULL::bigint" },
                L::RELATION.columns,
                id::<L>()
            ),
            write: write::<L>(),
            // A row missing from the answer is no longer leased by us.
            extend: format!(
                "-- {name}_extend
UPDATE {relation} o SET leased_until = clock_timestamp() + make_interval(secs => $3)
FROM unnest($1::{}[], $2::uuid[]) AS t(id, token)
WHERE o.id = t.id AND o.lease_token = t.token
RETURNING o.id",
                id::<L>()
            ),
            depths: depths::<L>(),
            prune: prune::<L>(),
            history: format!(
                "-- {name}_history
SELECT t.from_state, t.to_state, t.command, t.actor, t.actor_type, t.reason, t.at FROM router.transitions t
WHERE t.lifecycle = '{name}' AND t.entity_id = $1 ORDER BY t.id DESC LIMIT $2"
            ),
        }
    }
}

fn is_claim<L: Stored>(command: L::Command) -> bool {
    L::WORK.is_some_and(|work| work.claim == command)
}

fn id<L: Stored>() -> &'static str {
    <L::Id as super::Id>::SQL
}

/// The condition of a row that waits in `from`. Where a claim leads elsewhere, the state alone says that no worker has it.
fn waiting<S: Word>(from: S, to: S) -> String {
    let in_place = if from == to { " AND o.lease_token IS NULL" } else { "" };
    format!("o.state = '{from}'{in_place}")
}

fn log<L: Stored>(said: &Said<'_>) -> String {
    let Said { from, to, command, actor, who, reason, columns, may_stay } = said;
    let moved = if *may_stay && !L::RELATION.leases_recorded {
        format!(" WHERE {from} IS DISTINCT FROM {to}")
    } else {
        String::new()
    };
    match L::RELATION.log {
        Log::Transitions => format!(
            "INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type, reason)
  SELECT '{}', u.id::text, {from}, {to}, {command}, {actor}, {who}, {reason} FROM u{moved}",
            L::NAME
        ),
        Log::Own(insert) => {
            let version = if L::RELATION.versioned { ", u.version" } else { "" };
            insert.replace(
                "FROM l",
                &format!(
                    "FROM (SELECT u.id, {from} AS from_state, {to} AS to_state, {command} AS command, {actor} AS actor,
    {who} AS actor_type, {reason}::text AS reason, {columns} AS columns{version} FROM u{moved}) AS l"
                ),
            )
        }
    }
}

/// The SET of columns that a transition changes; `stays` where the edge leads back to its own state.
fn moved<L: Stored>(stays: bool) -> &'static str {
    if L::RELATION.versioned && (!stays || L::RELATION.leases_recorded) {
        ", version = o.version + 1"
    } else {
        ""
    }
}

/// The record of a statement for one edge, as a further CTE.
fn record<L: Stored>(from: L::State, to: L::State, said: &Said<'_>) -> String {
    if from == to && !L::RELATION.leases_recorded {
        // The parameters are the same for every relation.
        return format!(", t AS (SELECT {}::text)", said.actor);
    }
    format!(", t AS (\n  {}\n)", log::<L>(said))
}

fn version<L: Stored>() -> &'static str {
    if L::RELATION.versioned { ", o.version" } else { "" }
}

/// Rows in `from` that are due, as a query on `o` that takes the first `most` of them; `more` is a further condition.
fn due<L: Stored>(from: L::State, to: L::State, more: &str, most: &str) -> String {
    format!(
        "FROM {} o WHERE {}{more} AND o.available_at <= now() AND {KINDS}
  ORDER BY o.available_at, o.id LIMIT {most}",
        L::RELATION.name,
        waiting(from, to),
    )
}

/// Those who share the claims and have rows that wait, as a recursive CTE `f`, and one null behind them: a step in the index for
/// each, however many rows they have.
fn sharing<L: Stored>(from: L::State, to: L::State, by: &str) -> String {
    let table = L::RELATION.name;
    let waits = waiting(from, to);
    format!(
        "f AS (
  (SELECT o.{by} AS of FROM {table} o WHERE {waits} AND {KINDS} ORDER BY o.{by} LIMIT 1)
  UNION ALL
  SELECT (SELECT o.{by} FROM {table} o WHERE {waits} AND {KINDS} AND o.{by} > f.of ORDER BY o.{by} LIMIT 1) FROM f
  WHERE f.of IS NOT NULL
)"
    )
}

/// Shows whether a row waits; [`KINDS`] is to be replaced.
fn waits<L: Stored>(from: L::State, to: L::State) -> String {
    let Some(by) = L::RELATION.shared else {
        return format!("-- {}_waits\nSELECT o.id {}", L::NAME, due::<L>(from, to, "", "1"));
    };
    format!(
        "-- {}_waits
WITH RECURSIVE {}
SELECT d.id FROM f, LATERAL (SELECT o.id {}) AS d LIMIT 1",
        L::NAME,
        sharing::<L>(from, to, by),
        due::<L>(from, to, &format!(" AND o.{by} = f.of"), "1"),
    )
}

/// The CTE `c` of the rows that a claim takes, and those before it. Whoever shares has a turn for each of their rows, counted from
/// the number that they have leased, on whatever host: so the next row is that of whoever has fewest.
fn chosen<L: Stored>(from: L::State, to: L::State) -> String {
    let Some(by) = L::RELATION.shared else {
        let due = due::<L>(from, to, "", "$1");
        return format!("c AS (\n  SELECT o.id {due} FOR NO KEY UPDATE SKIP LOCKED\n)");
    };
    format!(
        "RECURSIVE {sharing}, h AS (
  SELECT o.{by} AS of, count(*) AS n FROM {table} o WHERE o.state = '{to}' AND o.leased_until IS NOT NULL GROUP BY 1
), d AS (
  SELECT d.id, d.available_at,
    COALESCE(h.n, 0) + row_number() OVER (PARTITION BY f.of ORDER BY d.available_at, d.id) AS turn
  FROM f LEFT JOIN h ON h.of = f.of,
    LATERAL (SELECT o.id, o.available_at {due} FOR NO KEY UPDATE SKIP LOCKED) AS d
), c AS (
  SELECT d.id FROM d ORDER BY d.turn, d.available_at, d.id LIMIT $1
)",
        sharing = sharing::<L>(from, to, by),
        table = L::RELATION.name,
        due = due::<L>(from, to, &format!(" AND o.{by} = f.of"), "$1"),
    )
}

/// `$1` the most rows, `$2` token, `$3` lease in seconds, `$4` actor; [`KINDS`] is to be replaced.
fn claim<L: Stored>(from: L::State, to: L::State) -> String {
    let relation = &L::RELATION;
    let command = L::WORK.map(|work| work.claim.to_string()).unwrap_or_default();
    let said = Said {
        from: &format!("'{from}'"),
        to: &format!("'{to}'"),
        command: &format!("'{command}'"),
        actor: "$4",
        who: "'worker'",
        reason: "NULL",
        columns: "NULL::jsonb",
        may_stay: false,
    };
    format!(
        "-- {}_claim
WITH {chosen}, u AS (
  UPDATE {table} o SET state = '{to}', attempts = o.attempts + 1, claims = o.claims + 1, lease_token = $2,
    leased_until = clock_timestamp() + make_interval(secs => $3){moved}
  WHERE o.id = ANY(ARRAY(SELECT c.id FROM c))
  RETURNING o.id, o.state, o.attempts, o.claims, o.lease_token, {version} AS version, {columns}
){record}
SELECT * FROM u ORDER BY u.id",
        L::NAME,
        chosen = chosen::<L>(from, to),
        table = relation.name,
        moved = moved::<L>(from == to),
        version = if relation.versioned { "o.version" } else { "NULL::bigint" },
        columns = relation.columns,
        record = record::<L>(from, to, &said),
    )
}

/// One statement for each edge that a timer fires: `$1` the most rows, `$2` actor.
fn timers<L: Stored>() -> Vec<(Timer, String)> {
    let mut timers: Vec<(Timer, String)> =
        L::TABLE.iter().filter_map(|edge| Some((edge.timer?, timer::<L>(edge)?))).collect();
    // A row whose lease ran out may be due at once, so the order matters.
    timers.sort_by_key(|(timer, _)| *timer);
    timers
}

fn timer<L: Stored>(edge: &EdgeOf<L>) -> Option<String> {
    let (from, to, command) = (edge.from?, edge.to, edge.command);
    let (column, passed, set, reason) = match edge.timer? {
        Timer::Lease => (
            "leased_until",
            "o.leased_until < now()",
            // The worker is gone, which is no fault of the row.
            ", attempts = o.attempts - 1, available_at = clock_timestamp(),
    lease_token = NULL, leased_until = NULL",
            "'its lease ran out'",
        ),
        Timer::Due => ("available_at", "o.available_at <= now()", "", "NULL"),
        Timer::Expiry => ("expires_at", "o.expires_at <= now() AND o.lease_token IS NULL", "", "NULL"),
    };
    let stamp = L::RELATION.stamp_of(to).map(|column| format!(", {column} = clock_timestamp()"));
    let said = Said {
        from: &format!("'{from}'"),
        to: &format!("'{to}'"),
        command: &format!("'{command}'"),
        actor: "$2",
        who: &format!("'{}'", Who::SYSTEM),
        reason,
        columns: "NULL::jsonb",
        may_stay: false,
    };
    Some(format!(
        "-- {}_{command}
WITH c AS (
  SELECT o.id FROM {table} o WHERE o.state = '{from}' AND {passed}
  ORDER BY o.{column}, o.id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
), u AS (
  UPDATE {table} o SET state = '{to}'{set}{stamp}{moved}
  WHERE o.id = ANY(ARRAY(SELECT c.id FROM c)) RETURNING o.id{version}
){record}
SELECT count(*) AS n FROM u",
        L::NAME,
        table = L::RELATION.name,
        stamp = stamp.unwrap_or_default(),
        moved = moved::<L>(from == to),
        version = version::<L>(),
        record = record::<L>(from, to, &said),
    ))
}

/// Writes transitions, each under its fence. `$1` ids, `$2` tokens, `$3` versions, `$4` commands, `$5` states before, `$6`
/// states after, `$7` roles, `$8` attempts given back (null: from the beginning), `$9` pauses in seconds, `$10` reasons,
/// `$11` the room's columns as objects (columns not in them stay), `$12` actor.
fn write<L: Stored>() -> String {
    let relation = &L::RELATION;
    let stamped: String = relation
        .stamped
        .iter()
        .map(|(column, state)| {
            format!(",\n    {column} = CASE WHEN w.to_state = '{state}' THEN clock_timestamp() END")
        })
        .collect();
    let written: String = relation
        .written
        .iter()
        .map(|(column, kind)| {
            format!(
                ",\n    {column} = CASE WHEN w.columns ? '{column}' THEN (w.columns->>'{column}')::{kind} ELSE o.{column} END"
            )
        })
        .collect();
    // Rows without jobs are written under their lock alone: they have no lease that could be lost.
    let (job, lease) = if L::WORK.is_some() {
        (
            ", attempts = CASE WHEN w.refund IS NULL THEN 0 ELSE o.attempts - w.refund END,
    available_at = CASE WHEN w.pause IS NULL THEN o.available_at
      ELSE clock_timestamp() + make_interval(secs => w.pause) END,
    lease_token = NULL, leased_until = NULL",
            "(w.token IS NULL OR o.lease_token = w.token)",
        )
    } else {
        ("", "w.token IS NULL")
    };
    let fence = if relation.versioned { " AND (w.version IS NULL OR o.version = w.version)" } else { "" };
    let said = Said {
        from: "u.from_state",
        to: "u.to_state",
        command: "u.command",
        actor: "$12",
        who: "u.actor_type",
        reason: "u.reason",
        columns: "u.columns",
        may_stay: true,
    };
    format!(
        "-- {name}_settle
WITH w AS (
  SELECT * FROM unnest($1::{id}[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[],
    $9::float8[], $10::text[], $11::jsonb[])
    AS t(id, token, version, command, from_state, to_state, actor_type, refund, pause, reason, columns)
), u AS (
  UPDATE {table} o SET state = w.to_state{job}{moved}{stamped}{written}
  FROM w WHERE o.id = w.id AND o.state = w.from_state AND {lease}{fence}
  RETURNING o.id{version}{returned}, w.command, w.from_state, w.to_state, w.actor_type, w.reason, w.columns
), t AS (
  {log}
){beside}
SELECT u.id FROM u",
        name = L::NAME,
        id = id::<L>(),
        table = relation.name,
        moved = if relation.versioned && !relation.leases_recorded {
            ", version = o.version + (w.from_state IS DISTINCT FROM w.to_state)::int"
        } else {
            moved::<L>(false)
        },
        version = version::<L>(),
        returned = relation.returned,
        log = log::<L>(&said),
        beside = relation.beside,
    )
}

/// Count and age, in seconds, of the rows in each state with an outgoing edge: waiting rows age from the time they were due,
/// the others since the oldest was written. One SELECT per state, answered from its partial index.
fn depths<L: Stored>() -> String {
    let leads_out = |state: &&L::State| L::TABLE.iter().any(|edge| edge.from == Some(**state));
    let waits = |state: L::State| {
        L::TABLE.iter().any(|edge| {
            edge.from == Some(state) && (is_claim::<L>(edge.command) || edge.timer == Some(Timer::Due))
        })
    };
    let one = |state: &L::State| {
        let since = if waits(*state) { "available_at" } else { L::RELATION.born };
        format!(
            "SELECT '{state}' AS state, count(*) AS n, EXTRACT(EPOCH FROM now() - min(o.{since}))::float8 AS oldest
FROM {} o WHERE o.state = '{state}'",
            L::RELATION.name
        )
    };
    let all: Vec<String> = L::State::ALL.iter().filter(leads_out).map(one).collect();
    format!("-- {}_depths\n{}", L::NAME, all.join("\nUNION ALL "))
}

/// Removes rows that came to their end more than `$1` seconds ago, `$2` at most, with their part of the log: by an array as well,
/// because a join of the log with the removed rows would read all of the log.
fn prune<L: Stored>() -> Option<String> {
    let (state, since) = L::RELATION.pruned?;
    let log = match L::RELATION.log {
        Log::Transitions => format!(
            ", t AS (
  DELETE FROM router.transitions t WHERE t.lifecycle = '{}' AND t.entity_id = ANY(ARRAY(SELECT g.id::text FROM g))
)",
            L::NAME
        ),
        // The foreign key removes the log's part.
        Log::Own(_) => String::new(),
    };
    let table = L::RELATION.name;
    Some(format!(
        "-- {}_prune
WITH c AS (
  SELECT o.id FROM {table} o
  WHERE o.state = '{state}' AND o.{since} < now() - make_interval(secs => $1)
  ORDER BY o.{since}, o.id LIMIT $2 FOR UPDATE SKIP LOCKED
), g AS (
  DELETE FROM {table} o WHERE o.id = ANY(ARRAY(SELECT c.id FROM c)) RETURNING o.id
){log}
SELECT count(*) AS n FROM g",
        L::NAME
    ))
}
