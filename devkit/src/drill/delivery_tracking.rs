//! Red meddles with what lies behind the relay: a mail comes back, the queue grows, the log goes. The relay of a
//! drill is scripted, so its log is written by hand, and a socket that speaks as Postfix's showq reports its queue.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::Step;
use super::world::{Promise, World};

pub(super) const STEPS: &[Step] = &[
    Step { name: "mail-comes-back", play: |world| Box::pin(bounced(world)) },
    Step { name: "relay-queue-grows", play: |world| Box::pin(queued(world)) },
    Step { name: "relay-log-gone", play: |world| Box::pin(log_gone(world)) },
];

/// Times it was played.
static PLAYED: AtomicUsize = AtomicUsize::new(0);

/// Postfix's side of it, and a daemon that follows it.
struct Postfix {
    log: PathBuf,
    depth: Arc<AtomicUsize>,
    showq: JoinHandle<()>,
    /// The world's settings before.
    settings: String,
}

impl Postfix {
    /// Starts the scene, and the daemon anew.
    async fn beside(world: &mut World) -> Result<Self> {
        let dir = world.stage.dir().join(format!("postfix-{}", PLAYED.fetch_add(1, Ordering::SeqCst)));
        std::fs::create_dir_all(dir.join("public"))?;
        let log = dir.join("mail.log");
        std::fs::write(&log, "")?;
        let (depth, listener) =
            (Arc::new(AtomicUsize::new(0)), UnixListener::bind(dir.join("public/showq"))?);
        let size = Arc::clone(&depth);
        let showq = tokio::spawn(async move {
            while let Ok((mut caller, _)) = listener.accept().await {
                let mut answer = Vec::new();
                for n in 0..size.load(Ordering::SeqCst) {
                    answer.extend(format!("queue_name\0deferred\0queue_id\0A{n:07}\0\0").into_bytes());
                }
                answer.push(0);
                // A client that has counted enough hangs up.
                drop(caller.write_all(&answer).await);
            }
        });
        let settings = world.settings.clone();
        world.settings.push_str(&format!(
            "[relay_log]\nenabled = true\nfile = \"{}\"\nqueue_directory = \"{}\"\nqueue_limit = 10\n",
            log.display(),
            dir.display()
        ));
        again(world).await?;
        Ok(Self { log, depth, showq, settings })
    }

    /// Ends; the daemon follows nothing any more.
    async fn leave(self, world: &mut World) -> Result<()> {
        self.showq.abort();
        world.settings = self.settings;
        again(world).await
    }

    /// Postfix's log lines for an incoming mail of ours.
    fn taken(&self, (queue_id, message_id): &(String, String)) -> Result<()> {
        self.write("smtpd[100]", queue_id, "client=localhost[127.0.0.1]")?;
        self.write("cleanup[101]", queue_id, &format!("message-id={message_id}"))?;
        self.write("qmgr[102]", queue_id, "from=<it@example.org>, size=300, nrcpt=1 (queue active)")
    }

    /// Postfix's log line for the mail's fate.
    fn became(&self, (queue_id, _): &(String, String), dsn: &str, status: &str) -> Result<()> {
        let text = format!(
            "to=<a@example.org>, relay=mx.example.org[192.0.2.1]:25, delay=1, delays=0/0/0/1, dsn={dsn}, status={status}"
        );
        self.write("smtp[103]", queue_id, &text)
    }

    fn write(&self, program: &str, queue_id: &str, text: &str) -> Result<()> {
        let mut log = std::fs::OpenOptions::new().append(true).open(&self.log)?;
        Ok(writeln!(log, "Nov 22 08:00:00 maple postfix/{program}: {queue_id}: {text}")?)
    }
}

async fn again(world: &mut World) -> Result<()> {
    world.router.stop().await?;
    world.start_again().await?;
    world.router.ready().await
}

/// Queue id and Message-ID of its mail.
async fn mail_of(world: &World, id: Uuid) -> Result<(String, String)> {
    let sql = "SELECT e.v->>'queue_id', e.v->>'message_id'
               FROM submissions s, jsonb_each(s.routing_result->'deliveries') AS e(k, v) WHERE s.id = $1";
    let row = world.stage.database.superuser().await?.query_one(sql, &[&id]).await?;
    let text = |n| row.get::<_, Option<String>>(n);
    text(0).zip(text(1)).context("queue id and Message-ID")
}

async fn bounced(world: &mut World) -> Result<()> {
    let postfix = Postfix::beside(world).await?;
    let ids = world.submit("contact", 2).await?;
    world.become_all(&ids, "routed").await?;
    let (lost, slow) = (mail_of(world, ids[0]).await?, mail_of(world, ids[1]).await?);
    postfix.taken(&lost)?;
    postfix.became(&lost, "5.1.1", "bounced (host mx.example.org said: 550 5.1.1 no such user)")?;
    postfix.taken(&slow)?;
    postfix.became(
        &slow,
        "4.4.1",
        "deferred (connect to mx.example.org[192.0.2.1]:25: Connection timed out)",
    )?;
    world.alert("MapleRouterMailsLost").await?;
    world.slack("lost", Promise { submissions: &ids[..1], ..Promise::default() }).await?;
    world.explain(ids[0], &["ROUTED", "bounced", "5.1.1", "--force-action 1"]).await?;
    world.explain(ids[1], &["ROUTED", "deferred since", "Connection timed out"]).await?;
    world.alert("MapleRouterUndelivered").await?;
    postfix.became(&slow, "2.0.0", "sent (250 2.0.0 Ok: queued)")?;
    world.until_explained(ids[1], "1 mail delivered").await?;
    let again =
        world.shell(&format!("maple-router replay {} --force-action 1 --reason drill", ids[0])).await?;
    anyhow::ensure!(again.code == Some(0), "{again:?}");
    world.become_all(&ids, "routed").await?;
    world.say("  replayed  after the mailbox was mended, as a new mail");
    postfix.leave(world).await
}

async fn queued(world: &mut World) -> Result<()> {
    let postfix = Postfix::beside(world).await?;
    postfix.depth.store(25, Ordering::SeqCst);
    world.journal("relay_slowed", "").await?;
    world.slack("relay_queue", Promise::default()).await?;
    world.alert("MapleRouterRelayQueueLong").await?;
    let ids = world.submit("contact", 1).await?;
    world.become_all(&ids, "routed").await?;
    world.say("  routed    slowly");
    postfix.depth.store(0, Ordering::SeqCst);
    world.journal("relay_flowing", "").await?;
    world.slack_over("queue").await?;
    postfix.leave(world).await
}

async fn log_gone(world: &mut World) -> Result<()> {
    let postfix = Postfix::beside(world).await?;
    std::fs::remove_file(&postfix.log)?;
    std::fs::create_dir(&postfix.log)?;
    world.slack("relay_log", Promise::default()).await?;
    world.alert("MapleRouterRelayLogLost").await?;
    let ids = world.submit("contact", 1).await?;
    world.become_all(&ids, "routed").await?;
    world.say("  routed    all the same");
    std::fs::remove_dir(&postfix.log)?;
    std::fs::write(&postfix.log, "")?;
    world.slack_over("log").await?;
    postfix.leave(world).await
}
