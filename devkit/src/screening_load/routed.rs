//! What schema screening costs the routing of a form that nobody screens: the same backlog, in turns, in a database without the schema
//! and in one with it, where another form is screened and `[screening] mode` is on.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio_postgres::Client;

use super::{ENFORCED, Options};
use crate::bench::backends::Backends;
use crate::bench::{FOR_VOLUME, Receiver, ReceiverKind, median, meter, now, statements, tail};
use crate::forms::{self, Form};
use crate::postgres::{Cluster, Variant};
use crate::program::say;
use crate::stage::{Router, Source, Stage, StageOptions};

const FORM: &str = "plain";
const PATIENCE: Duration = Duration::from_secs(600);
const STEP: Duration = Duration::from_millis(50);

/// A database, and the router's settings there.
struct Place {
    what: &'static str,
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

/// Measures both in turns; returns whether all was routed.
pub(super) async fn beside(options: &Options, cluster: &Cluster) -> Result<bool> {
    let sink = Receiver::start(ReceiverKind::Sink).await?;
    let mut places = [place(cluster, &sink, false).await?, place(cluster, &sink, true).await?];
    // The first of each warms plans and caches, and is not counted.
    for turn in 0..=options.turns {
        for place in &mut places {
            let took = place.turn(options).await?;
            say(&format!(
                "{}{}: {} routed in {:.2} s; processor time for 1,000: router {:.3} s, its backends {:.3} s",
                if turn == 0 { "warming up, " } else { "" },
                place.what,
                options.routed,
                took.seconds,
                took.router_cpu,
                took.backends_cpu
            ));
            if turn > 0 {
                place.turns.push(took);
            }
            if options.statements && turn == options.turns {
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
    for (what, figure) in figures {
        let of = |place: &Place| median(&place.turns.iter().map(figure).collect::<Vec<f64>>());
        let [without, with] = &places;
        let (base, value) = (of(without).context("a turn")?, of(with).context("a turn")?);
        say(&format!("  {what:28} {base:.3} without, {value:.3} with schema screening: {:.3}", value / base));
    }
    Ok(true)
}

async fn place(cluster: &Cluster, sink: &Receiver, screening: bool) -> Result<Place> {
    let variant =
        Variant { audit_readable: true, router: true, content: true, screening, ..Variant::default() };
    let database = cluster.database(variant).await?;
    let of_stage =
        StageOptions { variant, source: Source::Postgres, sample_forms: false, ..StageOptions::default() };
    let stage = Stage::on(database, of_stage).await?;
    let forms = [FORM, super::FORM].map(|form| Form::new(form).mail_to("a@one.test"));
    forms::load_into(&stage.database, &forms).await?;
    let eyes = stage.database.superuser().await?;
    let mut settings = format!("{}\n[smtp]\nport = {}\n", FOR_VOLUME.replace("\\n", "\n"), sink.port());
    if screening {
        eyes.batch_execute(ENFORCED).await?;
        settings += "[screening]\nmode = \"on\"\n";
    }
    let what = if screening { "with schema screening" } else { "without it" };
    Ok(Place { what, stage, eyes, settings, turns: Vec::new() })
}

impl Place {
    async fn left(&self) -> Result<i64> {
        let open = "SELECT count(*) FROM submissions WHERE status IN ('received', 'processing')";
        Ok(self.eyes.query_one(open, &[]).await?.get(0))
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

    async fn turn(&self, options: &Options) -> Result<Turn> {
        let Self { stage, eyes, settings, .. } = self;
        let some = format!(
            "INSERT INTO submissions (form_id) SELECT '{FORM}' FROM generate_series(1, {})",
            options.routed
        );
        eyes.batch_execute(&some).await?;
        for statement in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
            eyes.batch_execute(statement).await?;
        }
        let mut router = stage.router(&options.binary, "router", settings).await?;
        router.ready().await?;
        let pid = router.pid().context("the router has ended")?;
        // The first third plans each statement in each session, and is not counted.
        self.routed_until(options.routed / 3 * 2, &mut router, async || Ok(())).await?;
        let mut backends = Backends::before(eyes).await?;
        let (began, before) = (now(), meter::cpu_seconds(pid)?);
        if options.statements {
            statements::counted(eyes).await?;
        }
        let were = self.left().await?;
        ensure!(were * 2 > i64::from(options.routed), "{were} were left when the look began: ask for more");
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
            seconds: seconds * f64::from(options.routed) / were as f64,
            router_cpu: of_thousand(cpu),
            backends_cpu: of_thousand(backends.seconds()?),
        })
    }
}
