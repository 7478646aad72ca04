//! One world: a database, an upstream, a real Postfix before it, wires to both that can stand still, and the router that is
//! killed and started again until its kills are spent. Then a last router is left alone until nothing is left to do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio_postgres::Client;

use super::moment::Moment;
use super::{Counts, Log, Options, PATIENCE, now, verdict};
use crate::forms::{self, Form, SubmissionSeed};
use crate::postfix::{Postfix, PostfixOptions};
use crate::postgres::{Cluster, CuttingProxy};
use crate::smtp::{Keep, RelayWire, SmtpOptions};
use crate::stage::{Router, SHORT_TIMINGS, Source, Stage, StageOptions};
use crate::trap::Fate;

/// The form; [`verdict`] has its recipients.
pub(super) const FORM: &str = "f";
/// Differences from the short timings. Attempts without end: a router that is killed every few seconds is nobody's fault.
const SHORT: &str = r#"
[outbox]
lease = "10s"
max_attempts = 100000
[smtp]
lanes = 4
[mail]
body = "template"
[routing]
max_in_flight = 32
max_attempts = 100000
"#;
/// The time a trap waits for a router to come by; then the router is killed at any moment.
const NOBODY_COMES: Duration = Duration::from_secs(8);
/// Most submissions that wait for the next router: stuck ones come back by and by.
const BACKLOG: i64 = 8;
const STEP: Duration = Duration::from_millis(100);

struct World<'a> {
    // First: the router goes before what it works with.
    router: Option<Router>,
    binary: &'a Path,
    extra: String,
    database: CuttingProxy,
    relay: RelayWire,
    postfix: Postfix,
    stage: Stage,
    backend: Client,
    eyes: Client,
    submitted: u64,
}

/// Plays one world to its end, and counts.
pub(super) async fn play(options: &Options, place: u64, kills: u64, say: &impl Fn(&str)) -> Result<Counts> {
    let mut rng = StdRng::seed_from_u64(options.seed.wrapping_mul(1_000).wrapping_add(place));
    let mut world = World::start(&options.binary, options.log).await?;
    let mut counts = Counts { kills, ..Counts::default() };
    let mut said = now();
    for n in 0..kills {
        if said.elapsed() > Duration::from_secs(30) {
            said = now();
            say(&format!("world {place}: {n} of {kills} kills"));
        }
        let killed = world.live_and_die(&mut rng).await;
        if let Some(name) = killed.with_context(|| format!("kill {n} of world {place}"))? {
            *counts.caught.entry(name).or_default() += 1;
        }
    }
    world.rest(options.log).await.with_context(|| format!("the end of world {place}"))?;
    world.count(options.log, &mut counts).await?;
    if !counts.wrong.is_empty() {
        say(&format!(
            "world {place} is not as it should be; its journals: {}",
            world.keep(options, place)?.display()
        ));
    }
    Ok(counts)
}

impl<'a> World<'a> {
    async fn start(binary: &'a Path, log: Log) -> Result<Self> {
        let options = StageOptions {
            smtp: SmtpOptions { keep: Keep::Digests, ..SmtpOptions::default() },
            sample_forms: false,
            ..StageOptions::of(Source::Postgres)
        };
        let variant = options.variant;
        let stage = Stage::on(Cluster::shared().await?.database(variant).await?, options).await?;
        let form = Form::new(FORM).mail_to("a@x.test, b@x.test").mail_to("c@x.test");
        forms::load_into(&stage.database, &[form]).await?;
        let postfix = Postfix::start(stage.relay.port(), PostfixOptions::default()).await?;
        let relay = RelayWire::start(postfix.port()).await?;
        let database = CuttingProxy::start(&stage.database).await?;
        let followed = match log {
            Log::Readable => postfix.sections(),
            Log::Resend => String::new(),
            Log::Hold => "[routing]\nin_doubt = \"hold\"\n".to_owned(),
        };
        let wires = format!(
            "[database]\nurl = \"{}\"\n[smtp]\nport = {}\n",
            database.url_as("forms_app"),
            relay.port()
        );
        Ok(Self {
            router: None,
            binary,
            // Later lines win: the port is the wire's.
            extra: format!("{SHORT_TIMINGS}{SHORT}{followed}{wires}"),
            database,
            relay,
            postfix,
            backend: stage.database.client_as("forms_app").await?,
            eyes: stage.database.superuser().await?,
            submitted: 0,
            stage,
        })
    }

    async fn begin(&mut self) -> Result<&mut Router> {
        let router = self.stage.router(self.binary, "router", &self.extra).await?;
        Ok(self.router.insert(router))
    }

    /// Plays one life. Returns the moment's name, where the router was caught between dot and fact.
    async fn live_and_die(&mut self, rng: &mut StdRng) -> Result<Option<&'static str>> {
        let waiting: i64 = self
            .eyes
            .query_one("SELECT count(*) FROM submissions WHERE status = 'received'", &[])
            .await?
            .get(0);
        let come = if waiting < BACKLOG { rng.random_range(2..=4) } else { 0 };
        for _ in 0..come {
            self.submit().await?;
        }
        let moment = Moment::draw(rng);
        match moment {
            Moment::Anytime(after) => {
                self.begin().await?;
                tokio::time::sleep(after / 2).await;
                if come > 0 {
                    self.submit().await?;
                }
                tokio::time::sleep(after / 2).await;
                self.kill().await?;
                Ok(None)
            }
            Moment::Caught(place) => {
                let trapped = place.watch(&self.database, &self.relay);
                self.begin().await?;
                let caught = trapped.hit(NOBODY_COMES).await.is_ok();
                self.kill().await?;
                match place.fate {
                    Fate::Cut => trapped.cut(),
                    Fate::Release => trapped.release(),
                }
                Ok(caught.then_some(place.name))
            }
        }
    }

    /// Every other mail is larger than what Postfix's smtpd keeps for itself: its Message-ID is logged before its dot.
    async fn submit(&mut self) -> Result<()> {
        self.submitted += 1;
        let text = "x ".repeat(if self.submitted.is_multiple_of(2) { 4_000 } else { 4 });
        let seeded = SubmissionSeed::of(FORM).field("text", &text).insert(&self.backend).await?;
        self.stage.announce(seeded.id, "finalized").map(drop)
    }

    /// Kills by SIGKILL and waits for the end. The router must have lived until then.
    async fn kill(&mut self) -> Result<()> {
        let mut router = self.router.take().context("a router to kill")?;
        ensure!(router.end()?.is_none(), "the router ended by itself:\n{}", tail(&router.log()));
        router.signal("KILL").await?;
        router.ended().await?;
        Ok(())
    }

    /// The last router is left alone until nothing is left to do, and stopped in good order.
    async fn rest(&mut self, log: Log) -> Result<()> {
        self.begin().await?.ready().await?;
        let open = "SELECT count(*) FROM submissions WHERE status NOT IN ('routed', 'failed')";
        self.drained("submissions without an end", open).await?;
        self.postfix.emptied(PATIENCE).await?;
        if log == Log::Readable {
            let unnotified =
                "SELECT count(*) FROM submissions s, jsonb_each(s.routing_result->'deliveries') d
                          WHERE d.value #>> '{relay,status}' IS DISTINCT FROM 'delivered'";
            self.drained("deliveries whose end at the upstream is not known", unnotified).await?;
        }
        let mut router = self.router.take().context("the last router")?;
        let ended = router.stop().await?;
        ensure!(ended.success(), "the last router ended with {ended}:\n{}", tail(&router.log()));
        Ok(())
    }

    /// Waits until there are none; gives up when nothing changes for a while, which is for the verdict to tell.
    async fn drained(&self, what: &str, count: &str) -> Result<()> {
        let (mut last, mut moved) = (i64::MAX, now());
        loop {
            let left: i64 = self.eyes.query_one(count, &[]).await.context(what.to_owned())?.get(0);
            if left != last {
                (last, moved) = (left, now());
            }
            if left == 0 || moved.elapsed() > PATIENCE {
                return Ok(());
            }
            tokio::time::sleep(STEP).await;
        }
    }

    /// Saves the evidence of a world with faults: the routers' journal and Postfix's log.
    fn keep(&self, options: &Options, place: u64) -> Result<PathBuf> {
        let kept = std::env::temp_dir().join(format!("maple-kills-{}-{place}", options.seed));
        std::fs::create_dir_all(&kept).with_context(|| kept.display().to_string())?;
        std::fs::copy(self.stage.dir().join("router.log"), kept.join("router.log"))?;
        std::fs::copy(self.postfix.log_file(), kept.join("postfix.log"))?;
        Ok(kept)
    }

    async fn count(&self, log: Log, counts: &mut Counts) -> Result<()> {
        let file = self.stage.dir().join("router.log");
        let journal = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        verdict::count(&self.eyes, &self.stage.relay.digests(), &journal, log, counts).await
    }
}

/// The end of a log that may be very long.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
