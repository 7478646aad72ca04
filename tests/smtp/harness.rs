//! Settings, a clock that can be put forward, and outcomes short enough to compare.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use devkit::smtp::{SmtpOptions, SmtpServer};
use maple_router::gateway::smtp::{Connection, Connections, Envelope, SmtpSettings};
use maple_router::ports::{Clock, Message, Outcome};

pub(crate) const MESSAGE: &[u8] =
    b"From: a@x.test\r\nMessage-ID: <1@x.test>\r\nX-Submission-ID: s-1\r\n\r\nHello\r\n.dot\r\n..\r\n";
/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Patience with a deaf relay here.
pub(crate) const SHORT: Duration = Duration::from_millis(400);

#[derive(Debug)]
pub(crate) struct TestClock {
    start: Instant,
    ahead_ms: AtomicU64,
}

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), ahead_ms: AtomicU64::new(0) })
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.ahead_ms.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn monotonic(&self) -> Instant {
        self.start + self.start.elapsed() + Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }

    fn sleep(&self, pause: Duration) -> futures::future::BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(pause))
    }
}

/// A relay's way of being spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Groups of commands: the relay offers PIPELINING.
    Together,
    /// Each command after the reply to the one before.
    OneByOne,
}

/// Makes of tests that take a [`Manner`] one for each.
macro_rules! in_either_manner {
    ($($name:ident),+ $(,)?) => {
        mod together {
            $(#[tokio::test]
            async fn $name() {
                super::$name($crate::harness::Manner::Together).await;
            })+
        }
        mod one_by_one {
            $(#[tokio::test]
            async fn $name() {
                super::$name($crate::harness::Manner::OneByOne).await;
            })+
        }
    };
}
pub(crate) use in_either_manner;

pub(crate) async fn relay() -> SmtpServer {
    relay_with(Manner::Together).await
}

pub(crate) async fn relay_with(manner: Manner) -> SmtpServer {
    let mut options = SmtpOptions::default();
    options.extensions.retain(|offered| manner == Manner::Together || offered != "PIPELINING");
    SmtpServer::start(options).await.expect("a free port on 127.0.0.1")
}

pub(crate) fn settings(server: &SmtpServer) -> SmtpSettings {
    SmtpSettings {
        host: "127.0.0.1".to_owned(),
        port: server.port(),
        connections: 1,
        hello_name: "maple.test".to_owned(),
        connect_timeout: PATIENCE,
        command_timeout: PATIENCE,
        dot_timeout: PATIENCE,
        delivery_deadline: 4 * PATIENCE,
        max_per_minute: None,
    }
}

pub(crate) fn hasty(server: &SmtpServer) -> SmtpSettings {
    SmtpSettings { command_timeout: SHORT, dot_timeout: SHORT, ..settings(server) }
}

pub(crate) fn connections(settings: SmtpSettings) -> Connections {
    Connections::new(settings, TestClock::new())
}

pub(crate) fn addresses(all: &[&str]) -> Vec<String> {
    all.iter().map(|&address| address.to_owned()).collect()
}

pub(crate) fn short_message() -> Message {
    Message::text(MESSAGE.to_vec())
}

/// More than the sockets on the way can hold.
pub(crate) fn long_message() -> Message {
    let mut message = b"Subject: long\r\n\r\n".to_vec();
    message.extend(b"All work and no play makes a long mail.\r\n".repeat(200_000));
    Message::text(message)
}

pub(crate) fn free() -> Result<(), String> {
    Ok(())
}

pub(crate) async fn send_on(connection: &mut Connection, recipients: &[&str]) -> Vec<Outcome> {
    let recipients = addresses(recipients);
    let mail = Envelope { from: "a@x.test", recipients: &recipients, message: &short_message() };
    let outcomes = connection.send(&mail, &free).await;
    assert_eq!(outcomes.len(), recipients.len());
    outcomes
}

pub(crate) async fn send(connections: &Connections, recipients: &[&str]) -> Vec<Outcome> {
    send_on(&mut connections.acquire().await, recipients).await
}

/// `deferred rcpt 451 us`: enough of an outcome to compare.
pub(crate) fn short(outcome: &Outcome) -> String {
    let fault = match outcome {
        Outcome::Accepted { queue_id, .. } => {
            return format!("accepted{}", if queue_id.is_some() { "" } else { " without id" });
        }
        Outcome::Refused(fault) | Outcome::Deferred(fault) | Outcome::Unknown(fault) => fault,
        Outcome::Created { .. } | Outcome::NotImplemented => return "no mail".to_owned(),
    };
    let code = fault.reply.code.map(|code| format!(" {code}")).unwrap_or_default();
    let us = if fault.about_us { " us" } else { "" };
    format!("{} {:?}{code}{us}", outcome.label(), fault.stage).to_lowercase()
}

pub(crate) fn shorts(outcomes: &[Outcome]) -> Vec<String> {
    outcomes.iter().map(short).collect()
}

pub(crate) fn text(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Accepted { reply, .. } => &reply.reply,
        Outcome::Refused(fault) | Outcome::Deferred(fault) | Outcome::Unknown(fault) => &fault.reply.reply,
        Outcome::Created { .. } | Outcome::NotImplemented => "",
    }
}
