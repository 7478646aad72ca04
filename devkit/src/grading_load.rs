//! What grading comes to with the database: a thousand requests among killed graders and doubled callbacks, listening by the key, a grader that
//! throttles for minutes, and what the schemas cost the routing.
//!
//! Router and graders are the release build, the database a durable cluster of its own, **the grader is scripted** ([`crate::grader`]): it answers
//! at once, or as slowly as is said here, and counts words; nothing here says how fast or how well a model grades. Everything shares one machine, so
//! that a ratio within one run counts and no figure by itself. Counts are asserted: a result too many or too few, a call that nobody needed, or a
//! retry that an outage cost ends the run red. The figures go to `benches/RESULTS.md`.

mod keyed;
mod killed;
mod throttled;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio_postgres::Client;

use crate::bench::{self, Receiver, ReceiverKind, meter, statements};
use crate::forms::{self, Form};
use crate::grader::{Kind, MODELS, ScriptedGrader};
use crate::postgres::{Cluster, ClusterOptions, Variant};
use crate::program::say;
use crate::screening_load::routed::{self, OPEN, Setting, Size};
use crate::screening_load::worker::Worker;
use crate::stage::{Router, Source, Stage, StageOptions};

/// Samples of a work: paid calls, where nobody dies.
const SAMPLES: u64 = 3;
/// Longest time for everything that was asked for to come to its end.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// Time between two looks.
const STEP: Duration = Duration::from_millis(100);
/// Submissions of one transaction.
const AT_ONCE: u64 = 500;
/// Labelled works that the stand-in is tried with, and the scores that people are said to have given them.
const EXAMPLES: usize = 40;
const SCORES: [f64; 4] = [2.5, 4.5, 6.5, 8.5];

/// Forms whose mails wait for the grade of a letter and of a test.
const GRADED: &str = r#"
INSERT INTO assessment.questions (id, skill, prompt, answer_key, set_by) VALUES
  ('visit', 'writing', 'Write to a friend about somebody else''s holidays by the sea.', NULL, 'load'),
  ('track', 'listening', '', '{"q1": "nine", "q2": ["coffee", "tea"], "q3": "Paris", "q4": "green", "q5": "seven"}', 'load');
INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, gate, sla, since, set_by) VALUES
  ('letters', 'writing', 'visit', 'answer', 'email', true, '2 hours', now() - interval '1 day', 'load'),
  ('listening', 'listening', 'track', NULL, NULL, true, '1 hour', now() - interval '1 day', 'load')"#;

/// The form that is routed is graded, and its mail does not wait.
const UNGATED: &str = "
INSERT INTO assessment.questions (id, skill, prompt, set_by) VALUES ('visit', 'writing', 'Write to a friend.', 'load');
INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, gate, sla, since, set_by) VALUES
  ('plain', 'writing', 'visit', 'answer', 'email', false, '2 hours', now() - interval '1 day', 'load')";

/// Submissions of a form with a text of some 1.9 KB: `$n` is replaced.
const WITH_TEXT: &str = "
WITH s AS (INSERT INTO submissions (form_id) SELECT 'plain' FROM generate_series(1, $n) RETURNING id)
INSERT INTO submission_fields (submission_id, field_key, field_value, position)
SELECT id, 'answer', repeat('We went to see what there is in the old town. ', 42), 1 FROM s";

/// What is left where each submission has an attempt: it is not routed, or its request is not in the queue.
const OPEN_OR_PENDING: &str = "SELECT (SELECT count(*) FROM submissions WHERE status IN ('received', 'processing'))
  + (SELECT count(*) FROM assessment.submissions a JOIN submissions s ON s.id = a.subject WHERE a.state = 'PENDING' AND s.status = 'routed')";

/// Letters of which each is another, long enough for their task: `$from` and `$to` are replaced. Their attempts are born at the commit.
const LETTERS: &str = "
WITH s AS (INSERT INTO submissions (form_id) SELECT 'letters' FROM generate_series($from, $to) RETURNING id),
     n AS (SELECT id, row_number() OVER () + $from AS n FROM s)
INSERT INTO submission_fields (submission_id, field_key, field_value, position)
SELECT id, 'answer', E'Dear Ann,\\n\\n' || (SELECT string_agg('On day ' || d || ' of our visit number ' || n || ' we went to see what there is in the old town.', ' ')
    FROM generate_series(1, 15) AS d) || E'\\n\\n[[score 7.5]]\\n\\nKind regards,\\nZoe', 1 FROM n";

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Router and grader.
    pub binary: PathBuf,
    /// Requests that are graded while graders are killed.
    pub requests: u64,
    /// Listening submissions that are graded, none for no look at them.
    pub listening: u64,
    /// How long the grader throttles, none for not at all.
    pub throttled: Duration,
    /// Submissions that are routed in a turn.
    pub routed: u32,
    /// Rounds of turns: one without the schemas, one beside them, one with a graded form; none for no turns.
    pub turns: u32,
    /// Reports where PostgreSQL spends its time in the last turn (which costs some).
    pub statements: bool,
}

/// Measures one after the other; returns whether every count was right.
///
/// # Errors
/// A part cannot be started, is gone, or does not come to an end.
pub async fn run(options: &Options) -> Result<bool> {
    ensure!(
        options.binary.exists(),
        "{} is missing: `make grading-load` builds it",
        options.binary.display()
    );
    say(&meter::machine());
    let mut settings = bench::server_settings();
    if options.statements {
        settings.extend(statements::settings());
    }
    let cluster =
        Cluster::start(ClusterOptions { durable: true, settings, ..ClusterOptions::default() }).await?;
    let mut right = true;
    if options.requests > 0 {
        right &= killed::all(options, &cluster).await?;
    }
    if options.listening > 0 {
        right &= keyed::all(options, &cluster).await?;
    }
    if !options.throttled.is_zero() {
        right &= throttled::all(options, &cluster).await?;
    }
    if options.turns > 0 {
        let Options { binary, routed, turns, statements, .. } = options;
        let size = Size { binary, routed: *routed, turns: *turns, statements: *statements };
        right &= routed::beside(size, &cluster, &of_routing()).await?;
    }
    Ok(right)
}

/// Three databases, the same submissions.
fn of_routing() -> [Setting; 3] {
    let variant = Variant { audit_readable: true, router: true, ..Variant::default() };
    let without = Setting {
        what: "without the schemas",
        variant,
        forms: &[],
        prepared: "",
        sections: "",
        submitted: WITH_TEXT,
        open: OPEN,
    };
    let off = Setting {
        what: "beside them, no form graded",
        variant: Variant { grading: true, ..variant },
        ..without
    };
    let free = Setting {
        what: "graded without a gate",
        prepared: UNGATED,
        sections: "[grading]\nmode = \"on\"\n",
        open: OPEN_OR_PENDING,
        ..off
    };
    [without, off, free]
}

/// A database with both forms, whoever takes their mails, and whoever is asked.
struct Scene {
    stage: Stage,
    eyes: Client,
    grader: ScriptedGrader,
    /// Calls that its trial took.
    tried: u64,
    sink: Receiver,
}

impl Scene {
    async fn open(cluster: &Cluster) -> Result<Self> {
        let variant = Variant { audit_readable: true, router: true, grading: true, ..Variant::default() };
        let database = cluster.database(variant).await?;
        let of_stage = StageOptions {
            variant,
            source: Source::Postgres,
            sample_forms: false,
            ..StageOptions::default()
        };
        let stage = Stage::on(database, of_stage).await?;
        let forms = ["letters", "listening"].map(|form| Form::new(form).mail_to("a@one.test"));
        forms::load_into(&stage.database, &forms).await?;
        let eyes = stage.database.superuser().await?;
        eyes.batch_execute(GRADED).await?;
        let grader = ScriptedGrader::start().await?;
        let key = stage.dir().join("grader-key");
        std::fs::write(&key, grader.key().context("the grader's key")?)?;
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        let sink = Receiver::start(ReceiverKind::Sink).await?;
        Ok(Self { stage, eyes, grader, tried: 0, sink })
    }

    /// Tries the stand-in, which counts words and reads markers: it agrees with markers.
    async fn calibrated(mut self, options: &Options) -> Result<Self> {
        let corpus = self.stage.dir().join("corpus.jsonl");
        let example = |at: usize| {
            let score = SCORES[at % SCORES.len()];
            format!(
                "{{\"prompt\": \"Write to a friend.\", \"text\": \"Letter {at} [[score {score}]]\", \"score\": {score}, \"task\": \"email\"}}\n"
            )
        };
        std::fs::write(&corpus, (0..EXAMPLES).map(example).collect::<String>())?;
        let config = self.stage.write_config("trial", &self.stage.config("trial", 1, &self.asking()))?;
        let words = ["grading", "calibrate", "--skill", "writing", "--corpus", &corpus.display().to_string()];
        let tried = self.stage.ask(&options.binary, &config, &words).await?;
        ensure!(tried.code == Some(0), "the grader cannot be tried: {tried:?}");
        self.tried = self.grader.calls(Kind::Grading);
        Ok(self)
    }

    /// Calls for works.
    fn paid(&self) -> u64 {
        self.grader.calls(Kind::Grading) - self.tried
    }

    /// Sections of whoever asks. One work is in hand at once: of what was paid for, a kill loses one call at most.
    fn asking(&self) -> String {
        format!(
            "[grading]\nmode = \"on\"\ngrader_url = \"{}\"\nspot_check = 0\nsamples = {SAMPLES}\n\
             [grading.judge]\nbase_url = \"{}\"\nmodels = [{}]\nkey_file = \"{}\"\nslots = 1\nsend = \"full\"\nallow_scripted = true\n\
             pause = \"5s\"\ntokens_per_day = 1000000000\n",
            self.stage.database.url_as("maple_grader"),
            self.grader.base_url(),
            MODELS.map(|model| format!("\"{model}\"")).join(", "),
            self.stage.dir().join("grader-key").display(),
        )
    }

    /// A router, whose part is the main side.
    async fn router(&self, options: &Options) -> Result<Router> {
        let settings = format!("[smtp]\nport = {}\n[grading]\nmode = \"on\"\n", self.sink.port());
        let mut router = self.stage.router(&options.binary, "router", &settings).await?;
        router.ready().await?;
        Ok(router)
    }

    fn grader(&self, options: &Options, name: &str) -> Result<Worker> {
        Worker::start(&options.binary, &self.stage, (name, "grade"), &self.asking())
    }

    async fn letters(&self, count: u64) -> Result<()> {
        for from in (0..count).step_by(usize::try_from(AT_ONCE)?) {
            let to = count.min(from + AT_ONCE);
            let sql = LETTERS.replace("$from", &(from + 1).to_string()).replace("$to", &to.to_string());
            self.eyes.batch_execute(&sql).await?;
        }
        Ok(())
    }

    async fn count(&self, sql: &str) -> Result<u64> {
        Ok(u64::try_from(self.eyes.query_one(sql, &[]).await?.get::<_, i64>(0))?)
    }

    /// Attempts that have ended, or wait for a person.
    async fn done(&self) -> Result<u64> {
        self.count("SELECT count(*) FROM assessment.submissions WHERE state IN ('COMPLETED', 'REVIEW_PENDING', 'FAILED')").await
    }
}

/// Compares counts with what they must be, and says those that are wrong.
fn counted(counts: &[(&str, u64, u64)]) -> bool {
    let wrong: Vec<_> = counts.iter().filter(|(_, found, expected)| found != expected).collect();
    for (what, found, expected) in &wrong {
        say(&format!("  WRONG: {what}: {found}, and not {expected}"));
    }
    wrong.is_empty()
}
