//! Surroundings of the trials: one durable PostgreSQL for all of them, and for each a database, a broker and a receiver
//! of its own. A trial leaves nothing for the next one but a warm page cache.

use std::path::PathBuf;

use anyhow::{Context, Result};
use tokio_postgres::Client;
use uuid::Uuid;

use super::contestant::Contestant;
use super::receiver::{self, Receiver};
use super::shape::{self, Shape};
use super::{Options, meter, processors, statements};
use crate::forms;
use crate::postgres::{Cluster, ClusterOptions, Variant};
use crate::stage::{Source, Stage, StageOptions};

/// Settings of a server of this size. `fsync`, `synchronous_commit`, `full_page_writes` and autovacuum are on.
const SETTINGS: [(&str, &str); 6] = [
    ("shared_buffers", "512MB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "30min"),
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
];

/// These settings, as a cluster takes them.
pub(crate) fn server_settings() -> Vec<(String, String)> {
    SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// Parts that outlive a trial.
pub(super) struct Arena<'a> {
    pub(super) options: &'a Options,
    /// The machine, the server, and when it began, in words.
    pub(super) setting: String,
    cluster: Cluster,
}

impl<'a> Arena<'a> {
    pub(super) async fn start(options: &'a Options) -> Result<Self> {
        let mut settings = server_settings();
        if options.statements {
            settings.extend(statements::settings());
        }
        let cluster =
            Cluster::start(ClusterOptions { durable: true, settings, ..ClusterOptions::default() }).await?;
        let router = match options.router_settings.as_str() {
            "" => "the router's defaults".to_owned(),
            lines => format!("the router with {}", lines.lines().collect::<Vec<_>>().join(" ")),
        };
        let apart = if options.apart { ", the receiver on a processor of its own" } else { "" };
        let setting = format!("{}, {}, {router}{apart}", meter::machine(), server(&cluster).await?);
        Ok(Self { options, setting, cluster })
    }

    /// Processor seconds of the server so far, all its processes.
    pub(super) fn postgres_cpu(&self) -> Result<f64> {
        let file = self.cluster.endpoint().socket_dir.join("data/postmaster.pid");
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        meter::cpu_seconds(text.lines().next().context("an empty postmaster.pid")?.trim().parse()?)
    }

    /// The server's log.
    pub(super) fn postgres_log(&self) -> PathBuf {
        self.cluster.endpoint().socket_dir.join("log")
    }

    /// Prepares a trial of a contestant or of a limit: forms and submissions are there, no event has been
    /// published. Only a party that takes events from the outbox pays for its triggers and indexes.
    pub(super) async fn trial(
        &self,
        contestant: Option<Contestant>,
        shape: Shape,
        receiver: receiver::Kind,
        submissions: usize,
    ) -> Result<Trial> {
        let source = contestant.map_or(Source::Pubsub, Contestant::source);
        let router = contestant == Some(Contestant::RouterPostgres);
        let content = router && self.options.content;
        let variant = Variant { audit_readable: true, router, content, ..Variant::default() };
        let stage = StageOptions { variant, source, sample_forms: false, ..StageOptions::default() };
        let stage = Stage::on(self.cluster.database(variant).await?, stage).await?;
        forms::load_into(&stage.database, &[shape.form()]).await?;
        let superuser = stage.database.superuser().await?;
        let ids = shape::ids(submissions);
        shape::seed(&superuser, shape, &ids).await?;
        if self.options.statements {
            statements::counted(&superuser).await?;
        }
        let key_file = stage.dir().join("signer.json");
        stage.google.write_key_file(&key_file)?;
        let receiver = Receiver::start(receiver).await?;
        if self.options.apart {
            processors::give_the_last(receiver.pid()?)?;
        }
        Ok(Trial { receiver, stage, superuser, ids, shape, key_file })
    }
}

/// The server's version, and the time by its clock.
async fn server(cluster: &Cluster) -> Result<String> {
    // The database lives as long as its value.
    let database = cluster.database(Variant::default()).await?;
    let superuser = database.superuser().await?;
    let sql = "SELECT format('PostgreSQL %s, %s UTC', split_part(current_setting('server_version'), ' ', 1),
        to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'))";
    Ok(superuser.query_one(sql, &[]).await?.get(0))
}

/// The parts one trial runs in.
pub(super) struct Trial {
    pub(super) receiver: Receiver,
    pub(super) stage: Stage,
    pub(super) superuser: Client,
    pub(super) ids: Vec<Uuid>,
    pub(super) shape: Shape,
    pub(super) key_file: PathBuf,
}

impl Trial {
    /// Lines for the router's configuration: where mails go, and how links are signed (by a key of its own, as the others
    /// do it; the IAM service would be a part of this process).
    pub(super) fn settings(&self, further: &str) -> String {
        format!(
            "[smtp]\nport = {}\n[signed_url]\nsigner = \"key-file\"\nkey_file = \"{}\"\n{further}",
            self.receiver.port(),
            self.key_file.display()
        )
    }

    /// Mails that must have been taken in the end.
    pub(super) fn mails(&self) -> usize {
        self.ids.len() * self.shape.mails()
    }

    /// The statements on which PostgreSQL spent most time, one a line, if that was asked for.
    pub(super) async fn statements(&self, arena: &Arena<'_>) -> Result<Vec<String>> {
        if !arena.options.statements {
            return Ok(Vec::new());
        }
        statements::dearest(&self.superuser).await
    }

    /// KiB of WAL that the server has written so far.
    pub(super) async fn wal_kib(&self) -> Result<f64> {
        let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 / 1024";
        Ok(self.superuser.query_one(sql, &[]).await?.get(0))
    }

    /// Seconds since 1970 by the database's clock.
    pub(super) async fn clock(&self) -> Result<f64> {
        let sql = "SELECT extract(epoch FROM clock_timestamp())::float8";
        Ok(self.superuser.query_one(sql, &[]).await?.get(0))
    }
}
