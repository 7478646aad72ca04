//! What screening takes: how many runs a second the rules come through with the database, the promised times of runs that a judge
//! approves, and what schema screening costs the routing of a form that nobody screens.
//!
//! Screener and router are the release build, the database a durable cluster of its own, the judge is scripted and answers at once.
//! Everything shares one machine, so that a ratio within one run counts and no figure by itself. Asserts nothing but that each run came
//! to where it must, and that all was routed. The figures go to `benches/RESULTS.md`.

mod away;
pub(crate) mod routed;
pub(crate) mod worker;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio_postgres::Client;

use self::routed::{BARE, OPEN, Setting, Size};
use self::worker::Worker;
use crate::bench::{self, meter, now, statements};
use crate::forms::{self, Form};
use crate::judge::{MODEL, Mode, ScriptedJudge};
use crate::postgres::{Cluster, ClusterOptions, Variant};
use crate::program::say;
use crate::stage::{Source, Stage, StageOptions};

/// The form whose submissions are screened.
const FORM: &str = "screened";
/// Longest time for everything that was asked for to come to its end.
const PATIENCE: Duration = Duration::from_secs(600);
/// Time between two looks.
const STEP: Duration = Duration::from_millis(100);
/// Submissions of one transaction.
const AT_ONCE: u64 = 500;
/// Labelled examples that the stand-in is tried with; half of them are harmless.
const EXAMPLES: u32 = 120;

/// Submissions of some 1.9 KB with two links: `$from` and `$to` are replaced. Their runs are born at the commit.
const SUBMITTED: &str = "
WITH s AS (INSERT INTO submissions (form_id) SELECT 'screened' FROM generate_series($from, $to) RETURNING id),
     n AS (SELECT id, row_number() OVER () + $from AS n FROM s)
INSERT INTO submission_fields (submission_id, field_key, field_value, position)
SELECT id, 'message', 'Question ' || n || ' about the volunteers of our group: ' || repeat('we meet on the bridge and would like to know. ', 38)
  || 'https://example.org/' || n || ' and www.example.com/a', 1 FROM n
UNION ALL SELECT id, 'email', 'zoe' || n || '@example.org', 2 FROM n";

/// Transitions a second, by their own times.
const STAGES: &str =
    "SELECT trigger, (count(*) / extract(epoch FROM max(created_at) - min(created_at)))::float8
FROM screening.submission_state_events WHERE trigger <> 'api-submission' GROUP BY 1 ORDER BY min(created_at)";

const ENFORCED: &str = "INSERT INTO screening.forms (form_id, profile, since, enforced_since, set_by)
VALUES ('screened', 'fields', now() - interval '1 day', now() - interval '1 day', 'load')";

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Router and screener.
    pub binary: PathBuf,
    /// Runs that the rules look at.
    pub runs: u64,
    /// Runs that a judge approves, and how many of them come a second.
    pub approved: u64,
    /// See `approved`.
    pub rate: u64,
    /// Submissions that are routed in a turn.
    pub routed: u32,
    /// Pairs of turns: one without schema screening, one with it.
    pub turns: u32,
    /// Runs that wait while the judge is away, none for no outage; and for how long.
    pub away: u64,
    /// See `away`.
    pub away_for: Duration,
    /// Reports where PostgreSQL spends its time while the rules look (which costs some).
    pub statements: bool,
}

/// Measures one after the other; returns whether everything was as it must be.
///
/// # Errors
/// A part cannot be started, or is gone.
pub async fn run(options: &Options) -> Result<bool> {
    ensure!(
        options.binary.exists(),
        "{} is missing: `make screening-load` builds it",
        options.binary.display()
    );
    say(&meter::machine());
    let mut settings = bench::server_settings();
    if options.statements {
        settings.extend(statements::settings());
    }
    let cluster =
        Cluster::start(ClusterOptions { durable: true, settings, ..ClusterOptions::default() }).await?;
    by_rules(options, &cluster).await?;
    approved(options, &cluster).await?;
    if options.away > 0 {
        away::outage(options, &cluster).await?;
    }
    let Options { binary, routed, turns, statements, .. } = options;
    let size = Size { binary, routed: *routed, turns: *turns, statements: *statements };
    routed::beside(size, &cluster, &of_routing()).await
}

/// The form that is routed is screened in neither; in the second, another one is.
fn of_routing() -> [Setting; 2] {
    let variant = Variant { audit_readable: true, router: true, content: true, ..Variant::default() };
    let without = Setting {
        what: "without it",
        variant,
        forms: &[FORM],
        prepared: "",
        sections: "",
        submitted: BARE,
        open: OPEN,
    };
    let with = Setting {
        what: "with schema screening",
        variant: Variant { screening: true, ..variant },
        prepared: ENFORCED,
        sections: "[screening]\nmode = \"on\"\n",
        ..without
    };
    [without, with]
}

/// Starts a screener with these further sections.
fn screens(options: &Options, stage: &Stage, settings: &str) -> Result<Worker> {
    let extra = format!(
        "[screening]\nmode = \"on\"\nscreener_url = \"{}\"\n{settings}",
        stage.database.url_as("maple_screener")
    );
    Worker::start(&options.binary, stage, ("screener", "screen"), &extra)
}

/// A database whose form is screened.
async fn stage(cluster: &Cluster) -> Result<(Stage, Client)> {
    let variant =
        Variant { audit_readable: true, router: true, content: true, screening: true, ..Variant::default() };
    let database = cluster.database(variant).await?;
    let of_stage =
        StageOptions { variant, source: Source::Postgres, sample_forms: false, ..StageOptions::default() };
    let stage = Stage::on(database, of_stage).await?;
    forms::load_into(&stage.database, &[Form::new(FORM).mail_to("a@one.test")]).await?;
    let eyes = stage.database.superuser().await?;
    eyes.batch_execute(ENFORCED).await?;
    Ok((stage, eyes))
}

async fn submitted(eyes: &Client, from: u64, to: u64) -> Result<()> {
    let sql = SUBMITTED.replace("$from", &from.to_string()).replace("$to", &to.to_string());
    Ok(eyes.batch_execute(&sql).await?)
}

async fn in_state(eyes: &Client, state: &str) -> Result<u64> {
    let sql = "SELECT count(*) FROM screening.submissions WHERE state = $1";
    Ok(u64::try_from(eyes.query_one(sql, &[&state]).await?.get::<_, i64>(0))?)
}

/// Rules with the database: a backlog, until each of its runs waits for a judge that does not answer.
async fn by_rules(options: &Options, cluster: &Cluster) -> Result<()> {
    let (stage, eyes) = stage(cluster).await?;
    let Judged { mut judge, screener } = judged(options, &stage).await?;
    judge.away().await;
    drop(screener);
    for from in (0..options.runs).step_by(usize::try_from(AT_ONCE)?) {
        submitted(&eyes, from + 1, options.runs.min(from + AT_ONCE)).await?;
    }
    eyes.batch_execute("VACUUM (ANALYZE)").await?;
    eyes.batch_execute("CHECKPOINT").await?;
    if options.statements {
        statements::counted(&eyes).await?;
    }
    let mut screener = screens(options, &stage, &judge_settings(&stage, &judge)?)?;
    let began = now();
    while in_state(&eyes, "TIER2_SCANNING").await? < options.runs {
        screener.lives()?;
        ensure!(began.elapsed() < PATIENCE, "the runs do not come to an end");
        tokio::time::sleep(STEP).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    let (cpu, memory) = (screener.cpu_seconds()?, screener.peak_mib()?);
    say(&format!(
        "{} runs of 1.9 KB, admitted and by the rules, to a judge that is away: {:.0}/s from the start of the screener; its processor time \
         {:.3} s for 1,000, at most {memory:.1} MiB",
        options.runs,
        options.runs as f64 / seconds,
        cpu * 1_000.0 / options.runs as f64,
    ));
    for row in eyes.query(STAGES, &[]).await? {
        let (trigger, rate): (String, f64) = (row.get(0), row.get(1));
        say(&format!("  {trigger:24} {rate:.0}/s from the first to the last"));
    }
    if options.statements {
        statements::dearest(&eyes).await?.iter().for_each(|line| say(&format!("  {line}")));
    }
    Ok(())
}

/// A screener, and the judge that it asks: tried, and allowed to approve.
struct Judged {
    judge: ScriptedJudge,
    screener: Worker,
}

/// The section of a judge.
fn judge_settings(stage: &Stage, judge: &ScriptedJudge) -> Result<String> {
    let key = stage.dir().join("judge-key");
    std::fs::write(&key, judge.key().context("the judge's key")?)?;
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(format!(
        "[screening.judge]\nbase_url = \"{}\"\nmodel = \"{MODEL}\"\nkey_file = \"{}\"\nallow_scripted = true\n\
         tokens_per_day = 1000000000\ntokens_per_form = 1000000000\n[forms]\npublisher_url = \"{}\"\n",
        judge.base_url(),
        key.display(),
        stage.database.url_as("forms_loader"),
    ))
}

async fn judged(options: &Options, stage: &Stage) -> Result<Judged> {
    let judge = ScriptedJudge::start().await?;
    let settings = judge_settings(stage, &judge)?;
    let corpus = stage.dir().join("corpus.jsonl");
    let example = |at: u32| {
        let (label, text) =
            if at.is_multiple_of(2) { ("harmless", "A question") } else { ("spam", "Casino") };
        format!(
            "{{\"id\": \"f{at}\", \"label\": \"{label}\", \"fields\": {{\"message\": \"{text} {at}\"}}}}\n"
        )
    };
    std::fs::write(&corpus, (0..EXAMPLES).map(example).collect::<String>())?;
    let screener = screens(options, stage, &settings)?;
    let words = ["screening", "calibrate", "--profile", "fields", &corpus.display().to_string()];
    let tried = stage.ask(&options.binary, screener.config(), &words).await?;
    ensure!(tried.code == Some(0), "the judge cannot be tried: {tried:?}");
    judge.set(Mode::Scored(92));
    Ok(Judged { judge, screener })
}

/// Runs that come at a steady rate and are approved, and the table of the times that were promised.
async fn approved(options: &Options, cluster: &Cluster) -> Result<()> {
    let (stage, eyes) = stage(cluster).await?;
    let Judged { judge: _judge, screener } = judged(options, &stage).await?;
    let step = Duration::from_secs(1);
    let mut come = 0;
    let mut seconds = tokio::time::interval(step);
    while come < options.approved {
        seconds.tick().await;
        let next = options.approved.min(come + options.rate);
        submitted(&eyes, come + 1, next).await?;
        come = next;
    }
    let began = now();
    while in_state(&eyes, "PUBLISHED").await? < options.approved {
        if began.elapsed() > PATIENCE {
            bail!("{} of {} runs are published", in_state(&eyes, "PUBLISHED").await?, options.approved);
        }
        tokio::time::sleep(STEP).await;
    }
    let told = stage.ask(&options.binary, screener.config(), &["screening", "sla", "--since", "1h"]).await?;
    say(&format!(
        "{} runs, {} a second, by a judge that answers at once:\n{}",
        options.approved, options.rate, told.out
    ));
    Ok(())
}
