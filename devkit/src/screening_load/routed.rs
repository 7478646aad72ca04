//! What a room costs the routing: the same backlog, in turns, in a database without the room's schema and in others with it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio_postgres::Client;

use crate::bench::backends::Backends;
use crate::bench::{FOR_VOLUME, Receiver, ReceiverKind, median, meter, now, statements, tail};
use crate::forms::{self, Form};
use crate::postgres::{Cluster, Variant};
use crate::program::say;
use crate::stage::{Router, Source, Stage, StageOptions};

/// The form whose submissions are routed.
pub(crate) const FORM: &str = "plain";
const PATIENCE: Duration = Duration::from_secs(600);
const STEP: Duration = Duration::from_millis(50);

/// Submissions that have nothing but a form: `$n` is replaced.
pub(crate) const BARE: &str = "INSERT INTO submissions (form_id) SELECT 'plain' FROM generate_series(1, $n)";
/// Submissions that are not routed yet.
pub(crate) const OPEN: &str = "SELECT count(*) FROM submissions WHERE status IN ('received', 'processing')";

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size<'a> {
    /// The router.
    pub(crate) binary: &'a Path,
    /// Submissions that are routed in a turn; the first third is not counted.
    pub(crate) routed: u32,
    /// Turns of each place.
    pub(crate) turns: u32,
    /// Reports where PostgreSQL spends its time (which costs some).
    pub(crate) statements: bool,
}

/// A database that is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// In words.
    pub(crate) what: &'static str,
    pub(crate) variant: Variant,
    /// Forms beside that whose submissions are routed.
    pub(crate) forms: &'static [&'static str],
    /// What is set in the database.
    pub(crate) prepared: &'static str,
    /// Further sections of the router's configuration.
    pub(crate) sections: &'static str,
    /// A turn's submissions: `$n` is replaced.
    pub(crate) submitted: &'static str,
    /// What is left to do.
    pub(crate) open: &'static str,
}

/// A database, and the router's settings there.
struct Place {
    setting: Setting,
    stage: Stage,
    eyes: Client,
    settings: String,
    turns: Vec<Turn>,
}

/// One turn.
struct Turn {
    seconds: f64,
    router_cpu: f64,
    backends_cpu: f64,
}

/// Measures all in turns, and compares each with the first; returns whether all was routed.
pub(crate) async fn beside(size: Size<'_>, cluster: &Cluster, settings: &[Setting]) -> Result<bool> {
    let sink = Receiver::start(ReceiverKind::Sink).await?;
    let mut places = Vec::new();
    for setting in settings {
        places.push(Place::of(*setting, cluster, &sink).await?);
    }
    // The first of each warms plans and caches, and is not counted.
    for turn in 0..=size.turns {
        for place in &mut places {
            let took = place.turn(size).await?;
            say(&format!(
                "{}{}: {} routed in {:.2} s; processor time for 1,000: router {:.3} s, its backends {:.3} s",
                if turn == 0 { "warming up, " } else { "" },
                place.setting.what,
                size.routed,
                took.seconds,
                took.router_cpu,
                took.backends_cpu
            ));
            if turn > 0 {
                place.turns.push(took);
            }
            if size.statements && turn == size.turns {
                statements::dearest(&place.eyes).await?.iter().for_each(|line| say(&format!("  {line}")));
            }
        }
    }
    type Figure = (&'static str, fn(&Turn) -> f64);
    let figures: [Figure; 3] = [
        ("seconds", |turn| turn.seconds),
        ("CPU s/1,000 of the router", |turn| turn.router_cpu),
        ("CPU s/1,000 of its backends", |turn| turn.backends_cpu),
    ];
    let (without, others) = places.split_first().context("a place")?;
    for place in others {
        for (what, figure) in figures {
            let of = |place: &Place| median(&place.turns.iter().map(figure).collect::<Vec<f64>>());
            let (base, value) = (of(without).context("a turn")?, of(place).context("a turn")?);
            let (first, other) = (without.setting.what, place.setting.what);
            say(&format!("  {what:28} {base:.3} {first}, {value:.3} {other}: {:.3}", value / base));
        }
    }
    Ok(true)
}

impl Place {
    async fn of(setting: Setting, cluster: &Cluster, sink: &Receiver) -> Result<Self> {
        let variant = setting.variant;
        let database = cluster.database(variant).await?;
        let of_stage = StageOptions {
            variant,
            source: Source::Postgres,
            sample_forms: false,
            ..StageOptions::default()
        };
        let stage = Stage::on(database, of_stage).await?;
        let names = setting.forms.iter().chain(&[FORM]);
        let forms: Vec<Form> = names.map(|form| Form::new(form).mail_to("a@one.test")).collect();
        forms::load_into(&stage.database, &forms).await?;
        let eyes = stage.database.superuser().await?;
        eyes.batch_execute(setting.prepared).await?;
        let settings = format!(
            "{}\n[smtp]\nport = {}\n{}",
            FOR_VOLUME.replace("\\n", "\n"),
            sink.port(),
            setting.sections
        );
        Ok(Self { setting, stage, eyes, settings, turns: Vec::new() })
    }

    async fn left(&self) -> Result<i64> {
        Ok(self.eyes.query_one(self.setting.open, &[]).await?.get(0))
    }

    /// Until at most so many are left, with a look at each step.
    async fn routed_until(
        &self,
        most: u32,
        router: &mut Router,
        mut look: impl AsyncFnMut() -> Result<()>,
    ) -> Result<()> {
        let began = now();
        while self.left().await? > i64::from(most) {
            if let Some(status) = router.end()? {
                bail!("the router ended with {status}:\n{}", tail(&router.log()));
            }
            ensure!(began.elapsed() < PATIENCE, "they are not all routed");
            look().await?;
            tokio::time::sleep(STEP).await;
        }
        Ok(())
    }

    async fn turn(&self, size: Size<'_>) -> Result<Turn> {
        let Self { setting, stage, eyes, settings, .. } = self;
        eyes.batch_execute(&setting.submitted.replace("$n", &size.routed.to_string())).await?;
        for statement in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
            eyes.batch_execute(statement).await?;
        }
        let mut router = stage.router(size.binary, "router", settings).await?;
        router.ready().await?;
        let pid = router.pid().context("the router has ended")?;
        // The first third plans each statement in each session, and is not counted.
        self.routed_until(size.routed / 3 * 2, &mut router, async || Ok(())).await?;
        let mut backends = Backends::before(eyes).await?;
        let (began, before) = (now(), meter::cpu_seconds(pid)?);
        if size.statements {
            statements::counted(eyes).await?;
        }
        let were = self.left().await?;
        ensure!(were * 2 > i64::from(size.routed), "{were} were left when the look began: ask for more");
        self.routed_until(0, &mut router, async || backends.look(eyes).await).await?;
        backends.look(eyes).await?;
        let seconds = began.elapsed().as_secs_f64();
        let other = "SELECT count(*) FROM submissions WHERE status <> 'routed'";
        let other: i64 = eyes.query_one(other, &[]).await?.get(0);
        ensure!(other == 0, "{other} submissions ended without being routed");
        let cpu = meter::cpu_seconds(pid)? - before;
        router.stop().await?;
        let of_thousand = |seconds: f64| seconds * 1_000.0 / were as f64;
        Ok(Turn {
            seconds: seconds * f64::from(size.routed) / were as f64,
            router_cpu: of_thousand(cpu),
            backends_cpu: of_thousand(backends.seconds()?),
        })
    }
}
