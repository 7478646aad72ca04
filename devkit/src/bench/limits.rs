//! Upper bounds on this machine: mails by `smtp-source` over kept connections, the router's own statements in
//! batches (`transcript`), both at once, in the same run and against the same receiver; and the signatures of links alone.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use tokio::process::Command;
use tokio_postgres::Client;
use uuid::Uuid;

use super::arena::{Arena, Trial};
use super::receiver;
use super::shape::{self, Shape};
use super::summary::Run;
use super::transcript::Transcript;
use super::{meter, now, signatures, verify};

/// Submissions of one transaction.
const BATCH: usize = 64;
/// Connections of the database's limit: two for each processor.
const CONNECTIONS: usize = 4;

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `smtp-source -d`, as many mails and recipients.
    Smtp,
    /// The router's statements about as many submissions.
    Database,
    /// Mails and statements at once: the slower one says when it is over.
    Combined,
    /// The signatures of the links of as many submissions, on all processors, and nothing else.
    Signatures,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smtp => "limit-smtp",
            Self::Database => "limit-database",
            Self::Combined => "limit-combined",
            Self::Signatures => "limit-signatures",
        })
    }
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 4] = [Self::Smtp, Self::Database, Self::Combined, Self::Signatures];

    /// Whether there is anything to be done for submissions of this shape.
    pub(super) fn is_of(self, shape: Shape) -> bool {
        match self {
            Self::Smtp | Self::Database | Self::Combined => true,
            Self::Signatures => shape.attachments() > 0,
        }
    }

    /// Whether it sends the mails.
    fn sends(self) -> bool {
        match self {
            Self::Smtp | Self::Combined => true,
            Self::Database | Self::Signatures => false,
        }
    }

    /// Whether it says the statements of the router, which is listened to for them.
    pub fn writes(self) -> bool {
        match self {
            Self::Database | Self::Combined => true,
            Self::Smtp | Self::Signatures => false,
        }
    }
}

/// Runs one trial.
pub(super) async fn play(
    arena: &Arena<'_>,
    limit: Limit,
    shape: Shape,
    receiver: receiver::Kind,
    round: usize,
) -> Result<Run> {
    let trial = arena.trial(None, shape, receiver, arena.options.size(shape).submissions).await?;
    let transcript = if limit.writes() { Some(listen(arena, shape).await?) } else { None };
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(trial.stage.database.client_as("forms_app").await?);
    }
    let used = || -> Result<[f64; 4]> {
        let own = meter::cpu_seconds(std::process::id())?;
        Ok([arena.postgres_cpu()?, trial.receiver.cpu()?, own, meter::busy_seconds()])
    };
    let before = used()?;
    let began = now();
    if limit == Limit::Signatures {
        signatures::make(&trial.key_file, trial.ids.len() * usize::try_from(shape.attachments())?)?;
    }
    let (mails, rows) =
        tokio::join!(async { if limit.sends() { send(arena, &trial).await } else { Ok(()) } }, async {
            match &transcript {
                Some(transcript) => replay(transcript, &trial, &clients).await,
                None => Ok(()),
            }
        },);
    mails?;
    rows?;
    let seconds = began.elapsed().as_secs_f64();
    let after = used()?;
    let [postgres, relay, own, busy] = std::array::from_fn(|at| after[at] - before[at]);
    // The receiver is our child where it is smtp-sink; smtp-source was one, too, and its use is reported as ours.
    let own = own - if receiver == receiver::Kind::Sink { relay } else { 0.0 };
    let mut wrong = if limit.writes() { verify::rows(&trial, true).await? } else { Vec::new() };
    let expected = if limit.sends() { trial.mails() } else { 0 };
    let taken = trial.receiver.taken(expected).await?;
    if taken != expected {
        wrong.push(format!("mails: {taken}, not {expected}"));
    }
    let processors = meter::processors();
    Ok(Run {
        who: limit.to_string(),
        shape: shape.to_string(),
        receiver: receiver.to_string(),
        round,
        submissions: trial.ids.len(),
        seconds,
        cpu: None,
        postgres_cpu: Some(postgres),
        receiver_cpu: Some(relay),
        bench_cpu: Some(own),
        wal_kib: None,
        peak_mib: None,
        shares: Vec::new(),
        others: ((busy - postgres - relay - own) / (seconds * processors)).clamp(0.0, 1.0),
        load: meter::load(),
        redelivered: 0,
        statements: trial.statements(arena).await?,
        wrong,
    })
}

/// Routed before one is listened to: a router that does not know yet how fast its relay is says more.
const WARM: usize = 16;

/// Records what the router says about one submission of this shape while its relay is fast.
async fn listen(arena: &Arena<'_>, shape: Shape) -> Result<Transcript> {
    let trial = arena.trial(None, shape, receiver::Kind::Sink, WARM + 1).await?;
    let aloud =
        format!("ALTER ROLE forms_app IN DATABASE {} SET log_statement = 'all'", trial.stage.database.name());
    trial.superuser.batch_execute(&aloud).await?;
    let settings = trial.settings(&arena.options.router_settings);
    let mut router = trial.stage.router(&arena.options.binary, "router", &settings).await?;
    router.ready().await?;
    let (id, warm) = trial.ids.split_last().context("a submission to listen to")?;
    for id in warm {
        trial.stage.publish(*id, "finalized")?;
    }
    routed(&trial, warm.len()).await?;
    // The log is the whole server's and the ids are the same in every trial.
    let from = std::fs::metadata(arena.postgres_log())?.len();
    trial.stage.publish(*id, "finalized")?;
    routed(&trial, trial.ids.len()).await?;
    router.stop().await?;
    let transcript = Transcript::read(&arena.postgres_log(), from, *id)?;
    // The database limit's statements, for the reader of the figures.
    std::fs::write(arena.options.out.join(format!("statements-{shape}.txt")), transcript.to_string())?;
    Ok(transcript)
}

/// Waits until so many are.
async fn routed(trial: &Trial, count: usize) -> Result<()> {
    let routed = "SELECT count(*) FROM submissions WHERE status = 'routed'";
    for _ in 0..600 {
        if trial.superuser.query_one(routed, &[]).await?.get::<_, i64>(0) >= i64::try_from(count)? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the router did not route {count}")
}

async fn replay(transcript: &Transcript, trial: &Trial, clients: &[Client]) -> Result<()> {
    let share = trial.ids.len().div_ceil(clients.len()).max(1);
    let said =
        clients.iter().zip(trial.ids.chunks(share)).map(|(client, ids): (&Client, &[Uuid])| async move {
            let prepared = transcript.prepare(client).await?;
            for batch in ids.chunks(BATCH) {
                prepared.say(batch).await?;
            }
            anyhow::Ok(())
        });
    try_join_all(said).await.map(drop)
}

/// As many mails as the submissions would be, of the size of the router's, by as many sessions as it has connections.
async fn send(arena: &Arena<'_>, trial: &Trial) -> Result<()> {
    let text = trial.stage.dir().join("mail");
    std::fs::write(&text, mail(trial.shape))?;
    let mut command = Command::new("/usr/sbin/smtp-source");
    command.args(["-4", "-d", "-s", &arena.options.sessions.to_string(), "-m", &trial.mails().to_string()]);
    command.args(["-r", &trial.shape.recipients().to_string(), "-f", "forms@maple.test", "-t", "a@one.test"]);
    command.arg("-F").arg(&text).arg(format!("127.0.0.1:{}", trial.receiver.port()));
    let output =
        command.stdin(Stdio::null()).kill_on_drop(true).output().await.context("starting smtp-source")?;
    ensure!(output.status.success(), "smtp-source: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A mail like those of the router, without the carriage returns that smtp-source adds.
fn mail(shape: Shape) -> String {
    let id = shape::ids(1)[0];
    let links = (0..shape.attachments()).map(|n| {
        let signature = "0123456789abcdef".repeat(32);
        format!(
            "\n  form {n}.pdf (1.0 KiB)\n  https://storage.googleapis.com/maple-attachments/submissions/{id}/{n}-form.pdf?\
             X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Credential=router%40maple.iam.gserviceaccount.com%2F20261122%2Fauto%2F\
             storage%2Fgoog4_request&X-Goog-Date=20261122T100000Z&X-Goog-Expires=604800&X-Goog-SignedHeaders=host&\
             X-Goog-Signature={signature}\n"
        )
    });
    format!(
        "Date: Sun, 22 Nov 2026 10:00:00 +0000\nFrom: gpus-it-security@greenpeace.org\nTo: a@one.test\n\
         Subject: [Form bench] submission {id}\nMessage-ID: <{id}.1.0@maple.test>\nAuto-Submitted: auto-generated\n\
         X-Submission-ID: {id}\nX-Form-ID: bench\nMIME-Version: 1.0\n\
         Content-Type: multipart/mixed; boundary=\"=_mixed_0123456789abcdef0123456789abcdef\"\n\n\
         --=_mixed_0123456789abcdef0123456789abcdef\nContent-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: 7bit\n\n\
         A new submission of the form \"Form bench\" has been received; details to follow.\n\n\
         Submission: {id}\nForm:       Form bench\nReceived:   2026-11-22 10:00:00 UTC\n{}\n\
         --=_mixed_0123456789abcdef0123456789abcdef--\n",
        links.collect::<String>()
    )
}
